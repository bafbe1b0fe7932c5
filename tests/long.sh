#!/usr/bin/env bash
# The long forms of tests that CI runs short, with a release binary. Wants what tests/setup.sh installs.
#
#   tests/long.sh NAME      one of them
#   tests/long.sh --help    this text
#
# NAMEs:
#   kills     60 runs of 2,000,000 rows, each killed (SIGKILL) one to three times and restarted until done; exact by pypaimon.
#             LAKEWARD_RUNS, LAKEWARD_ROWS, LAKEWARD_RATE (rows a second), LAKEWARD_EVERY (rows a checkpoint), LAKEWARD_SEED
#   writers   4 processes x 250 commits on one table: 1,000 acknowledged, 1,000 there; the same beside a pypaimon writer that renames over
#             what is there. LAKEWARD_COMMITS (of each process)
#   sim       every family of the crash harness in its long form, then each rule of the protocol switched off (spec/harness.md)
#   failover  `table-cli failover` on a CSV with two sinks and dead letters: 300 kills and 50 freezes; every table of every round by
#             pypaimon and Java. LAKEWARD_KILLS, LAKEWARD_FREEZES, LAKEWARD_ROWS, LAKEWARD_EVERY, LAKEWARD_SEED
#   delta     the same with Delta tables (a checkpoint of the log at every other commit), then with one of each format: 60 kills and 20 freezes each,
#             every table of every round by deltalake, DuckDB and Polars; 60 kills while a checkpoint is written, each followed by such a
#             read; on moto's S3 server behind the bad proxy. LAKEWARD_KILLS, LAKEWARD_FREEZES, LAKEWARD_ROWS, LAKEWARD_EVERY, LAKEWARD_SEED
#   kafka     `table-cli failover` on a topic that goes on growing: 4 partitions, 2,000,000 messages in transactions, some of them aborted, 0.1 %
#             of them broken; 60 kills and 20 freezes; every table of every round by pypaimon. LAKEWARD_MESSAGES, LAKEWARD_KILLS,
#             LAKEWARD_FREEZES, LAKEWARD_EVERY, LAKEWARD_SEED
#   poison    CPU seconds of a run over 2,000,000 messages: clean, 0.1 % broken, 50 % broken. LAKEWARD_MESSAGES
#   s3        100 kills (SIGKILL) and 20 freezes of a pipeline that writes to moto's S3 server behind a proxy which does everything wrong
#             that a network can; exact by pypaimon and Java. LAKEWARD_KILLS, LAKEWARD_FREEZES, LAKEWARD_SEED, LAKEWARD_ROWS,
#             LAKEWARD_RATE, LAKEWARD_EVERY, LAKEWARD_AWAY (seconds without an answer, once)
#   fanout    1,000,000 rows shuffled over 5,000 partitions, in one checkpoint and in several: at most 512 MiB at the peak, files at most
#             twice the partitions a checkpoint; exact by pypaimon. LAKEWARD_ROWS, LAKEWARD_PARTITIONS
#   wide      500 rows of 300 columns, four of them strings of 1 MiB: at most 512 MiB at the peak; exact by pypaimon. LAKEWARD_ROWS
#   watched   a watched directory in which files appear, grow and are renamed, under SIGKILL: every row once. LAKEWARD_RUNS, LAKEWARD_ROWS,
#             LAKEWARD_SEED
#   away      the store is away for 30 seconds: a full disk, and a read-only one. As root
#
# LAKEWARD_BIN=PATH  the command under test, instead of building target/release/table-cli
# TMPDIR             where the tables are written: a disk, not a tmpfs
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' tests/long.sh; }

case ${1:-} in
  -h | --help) usage; exit 0 ;;
  kills) test=process::kills::long_ ;;
  writers) test=process::writers::long_ ;;
  failover) test=failover::series::long_ ;;
  delta) test=::long_delta_ ;;
  kafka) test=kafka::failover::long_ ;;
  poison) test=kafka::poison::long_ ;;
  s3) test=s3::series::long_killed ;;
  watched) test=process::watched::long_ ;;
  away) test=process::away:: ;;
  fanout) test=memory::fanout_ ;;
  wide) test=memory::wide_ ;;
  sim) test=sim ;;
  *) usage >&2; exit 2 ;;
esac

if [ "$test" = sim ]; then
  cargo build --release --locked --features sim --example crash
  target/release/examples/crash long
  exec target/release/examples/crash teeth
fi
if [ -z "${LAKEWARD_BIN:-}" ]; then
  cargo build --release --locked --bin table-cli
  LAKEWARD_BIN=$PWD/target/release/table-cli
fi
export LAKEWARD_BIN LAKEWARD_LONG=1
echo "long.sh: $1 with $LAKEWARD_BIN"
exec cargo test --locked --test main -- --ignored --nocapture --test-threads 1 "$test"
