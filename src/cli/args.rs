//! What can be typed. Nothing here means anything yet: the other files of this module give it a meaning and run it.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use crate::cli::output::Form;
use crate::condition::Condition;
use crate::error::Error;
use crate::sink::Resolution;
use crate::table::At;

const EXIT_CODES: &str = "\
Exit codes:
   0  done
   2  wrong usage, or an invalid pipeline or table
   3  a check found something
   4  another process was first (conflict, fenced)
   5  what is stored or read is not what it must be; a person must look
  70  a bug
  75  something is unavailable, or the process was stopped half-way; start again later
   1  anything else

Environment:
  NO_COLOR, RUST_LOG (instead of -v and -q), and what the store wants: AWS_ACCESS_KEY_ID, ...

Example, from a file to a table and back:
  table-cli ingest --from orders.ndjson --to ./lake/shop.db/orders
  table-cli cat ./lake/shop.db/orders --limit 5";

/// Moves streams into lakehouse tables, exactly once, and looks at what is there.
#[derive(Debug, Parser)]
#[command(name = "table-cli", version, after_help = EXIT_CODES, max_term_width = 120)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Args)]
pub(crate) struct Global {
    /// How data is written to standard output [default: table on a terminal, jsonl in a pipe]
    #[arg(short, long, value_enum, global = true, value_name = "FORM", help_heading = "Global options")]
    pub(crate) output: Option<Form>,
    /// How logs are written to standard error
    #[arg(long, value_enum, global = true, value_name = "FORM", default_value_t = LogFormat::Text, help_heading = "Global options")]
    pub(crate) log_format: LogFormat,
    /// Say more; twice for everything
    #[arg(short, long, action = ArgAction::Count, global = true, conflicts_with = "quiet", help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// Say nothing but errors
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for eyes
    Text,
    /// A JSON object a line
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ingest(Box<IngestArgs>),
    #[cfg(feature = "kafka")]
    Demo(DemoArgs),
    Create(CreateArgs),
    /// What a table is and how it stands: columns, options, newest snapshot, files, who writes to it and who holds on to snapshots
    #[command(after_help = "\
Examples:
  table-cli info ./lake/shop.db/orders
  table-cli info ./lake/shop.db/orders --at tag:monthly
  table-cli info ./lake/shop.db/orders -o json | jq '.[0].rows'

--at changes what is said of columns, rows and files; options, consumers and registrations are those of now.")]
    Info(LookArgs),
    /// The columns of a table
    #[command(
        after_help = "Examples:\n  table-cli schema ./lake/shop.db/orders\n  table-cli schema ./lake/shop.db/orders --at 2026-01-31T12:00:00Z"
    )]
    Schema(LookArgs),
    Snapshots(SnapshotsArgs),
    Snapshot(SnapshotArgs),
    /// The manifests of a snapshot: the files that say which data files are in it, and for which partitions
    #[command(after_help = "\
Examples:
  table-cli manifests ./lake/shop.db/orders
  table-cli manifests ./lake/shop.db/orders --at snapshot:3

`list` is base for what was there before the snapshot, delta for what it changed. Least and greatest partition values are each column's own.")]
    Manifests(LookArgs),
    Files(FilesArgs),
    /// The partitions of a table: rows, files, bytes, buckets, and when the newest file was made
    #[command(after_help = "\
Examples:
  table-cli partitions ./lake/shop.db/orders
  table-cli partitions ./lake/shop.db/orders --at tag:monthly -o csv")]
    Partitions(LookArgs),
    Diff(DiffArgs),
    Cat(CatArgs),
    Count(CountArgs),
    Checkpoints(CheckpointsArgs),
    Audit(AuditArgs),
    Verify(VerifyArgs),
    #[cfg(feature = "kafka")]
    Lag(LagArgs),
    Config(ConfigArgs),
    DeadLetters(DeadLettersArgs),
    Doctor(DoctorArgs),
    Failover(FailoverArgs),
    Completions(CompletionsArgs),
}

/// Run a pipeline: read, write, checkpoint, commit; killed at any moment, the next run goes on exactly where this one stood
#[derive(Debug, Args)]
#[command(override_usage = "table-cli ingest [OPTIONS] <PIPELINE>\n       table-cli ingest [OPTIONS] --from <FILES>... --to <LOCATION>")]
#[command(after_help = "\
Examples:
  table-cli ingest orders.yaml
  table-cli ingest orders.yaml --dry-run        # plan, schema and five rows; writes nothing
  table-cli ingest --from 'in/*.ndjson' --to ./lake/orders         # columns are inferred
  table-cli ingest orders.yaml --set checkpoint.every=2s
  table-cli ingest orders.yaml --rewind 12      # `table-cli checkpoints orders.yaml` has them

Ctrl-C and SIGTERM finish the pending commit, checkpoint what was read since, commit it and exit 0. \
When that takes more than 25 seconds the exit code is 75; a second signal ends the process at once, also with 75. \
Nothing is lost or doubled by either: start again.")]
pub(crate) struct IngestArgs {
    /// The pipeline file (YAML)
    #[arg(value_name = "PIPELINE", required_unless_present = "from", conflicts_with_all = ["from", "to"])]
    pub(crate) pipeline: Option<PathBuf>,
    /// Instead of a pipeline file: the files to read (paths or globs; .ndjson, .json, .csv, also .gz and .zst), or - for standard input
    #[arg(long, num_args = 1.., value_name = "FILES", requires = "to")]
    pub(crate) from: Vec<String>,
    /// Instead of a pipeline file: the table, created with inferred columns unless it exists. Checkpoints go to `_checkpoints` beside it
    #[arg(long, value_name = "LOCATION", requires = "from")]
    pub(crate) to: Option<String>,
    /// Print the plan, the schema and the first five rows; write nothing. Not for a start that goes back or takes over
    #[arg(long, conflicts_with_all = ["rewind", "abandon", "resolve", "adopt", "forget", "drop_sink"])]
    pub(crate) dry_run: bool,
    /// Override a key of the pipeline, as in sinks.0.location=/lake/orders (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<String>,
    /// Go back to checkpoint K. The table is not rolled back: rows that landed after K are read and written again, and are there twice
    #[arg(long, value_name = "K", conflicts_with = "abandon")]
    pub(crate) rewind: Option<u64>,
    /// Give up the pending checkpoint N: where it landed its rows stay, elsewhere its input is read again, nothing twice
    #[arg(long, value_name = "N")]
    pub(crate) abandon: Option<u64>,
    /// Say whether the pending commit landed in SINK, where the table's history cannot tell any more (repeatable)
    #[arg(long, value_name = "SINK=landed|lost", value_parser = resolution)]
    pub(crate) resolve: Vec<(String, Resolution)>,
    /// The chain or a table was moved on purpose: take it over
    #[arg(long)]
    pub(crate) adopt: bool,
    /// The chain was deleted on purpose: begin anew, and write everything again
    #[arg(long, conflicts_with = "adopt")]
    pub(crate) forget: bool,
    /// A sink that the pipeline file does not name any more goes for good (repeatable)
    #[arg(long, value_name = "URL")]
    pub(crate) drop_sink: Vec<String>,
    /// A new sink begins where the source begins, not where the pipeline stands
    #[arg(long)]
    pub(crate) backfill: bool,
}

/// See it work: a million orders into a table while the process that writes it is killed twice, and what is in the table afterwards
#[cfg(feature = "kafka")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli demo
  table-cli demo --rows 200000 --dir /tmp/demo
  table-cli demo --seed 7 -o json | jq .orders

It needs no server and no settings. A broker in this process gets orders, one in a thousand of them broken; `table-cli ingest` reads them \
in a process of its own, which is killed (SIGKILL) while it writes, and again between a checkpoint and its commit, and started again. Then \
both tables are compared with what was produced: each good order one row, each broken one a dead letter with its coordinates, the amounts \
to the cent. Exit code 3 when anything is missing, doubled or not as it was.

The broker is librdkafka's in-process mock: it is no Kafka, and what this shows is Lakeward's recovery.

The tables stay: DIR/lake/shop.db/orders and orders_dead, and the pipeline file DIR/orders.yaml. What an earlier demo left in DIR is \
replaced; a directory with anything else in it is refused.")]
pub(crate) struct DemoArgs {
    /// How many orders
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
    pub(crate) rows: u64,
    /// Where tables, checkpoints and the pipeline file go; created
    #[arg(long, value_name = "DIR", default_value = "lakeward-demo")]
    pub(crate) dir: PathBuf,
    /// Which orders are made up: the same ones for the same number
    #[arg(long, value_name = "S", default_value_t = 42)]
    pub(crate) seed: u64,
}

/// Create a table, or all tables of a pipeline
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli create ./lake/orders --columns 'id BIGINT NOT NULL, amount DECIMAL(10, 2)'
  table-cli create ./lake/visits --columns 'id BIGINT, dt DATE' --partition-by dt
  table-cli create s3://lake/shop.db/orders --columns 'id BIGINT' --options file.compression=snappy
  table-cli create --pipeline orders.yaml

Types: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR(n), VARCHAR(n), STRING, BYTES, DATE, \
TIMESTAMP(3 or 6), TIMESTAMP(3 or 6) WITH LOCAL TIME ZONE; each with or without NOT NULL.")]
pub(crate) struct CreateArgs {
    /// A path or URL
    #[arg(value_name = "LOCATION", required_unless_present = "pipeline")]
    pub(crate) location: Option<String>,
    /// Columns and types, as in SQL
    #[arg(long, value_name = "COLUMNS", required_unless_present = "pipeline")]
    pub(crate) columns: Option<String>,
    /// Partition columns, in order
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) partition_by: Vec<String>,
    /// The format's own table options (repeatable)
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., value_parser = key_value)]
    pub(crate) options: Vec<String>,
    /// Create the tables of this pipeline's sinks, and of its dead letters
    #[arg(long, value_name = "PIPELINE", conflicts_with_all = ["location", "columns", "partition_by", "options"])]
    pub(crate) pipeline: Option<PathBuf>,
    /// A table that is there and fits is no error
    #[arg(long)]
    pub(crate) if_not_exists: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// The table: a path or URL
    #[arg(value_name = "LOCATION")]
    pub(crate) location: String,
}

/// As of when.
#[derive(Debug, Args)]
pub(crate) struct WhenArgs {
    /// As of a snapshot, tag or time (the newest snapshot committed by then): snapshot:7, tag:NAME, 2026-01-31T12:00:00Z [default: newest]
    #[arg(long, value_name = "WHEN", value_parser = at)]
    pub(crate) at: Option<At>,
    /// The same as --at snapshot:ID
    #[arg(long, value_name = "ID", conflicts_with = "at")]
    pub(crate) snapshot: Option<u64>,
}

impl WhenArgs {
    pub(crate) fn at(&self) -> At {
        match (self.snapshot, &self.at) {
            (Some(id), _) => At::Snapshot(id),
            (None, Some(at)) => at.clone(),
            (None, None) => At::Newest,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
}

/// What differs between two snapshots: columns, files, rows by partition
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli diff ./lake/shop.db/orders 3 7
  table-cli diff ./lake/shop.db/orders tag:monthly 2026-01-31T12:00:00Z
  table-cli diff ./lake/shop.db/orders 6 7 --rows

A line for each column, file, partition and the whole table that differs. --rows prints the rows of the files that were added instead, \
with the columns of TO; a file that replaces others (compaction, overwriting) counts as added with all its rows.")]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// A snapshot id, tag:NAME or a time
    #[arg(value_name = "FROM", value_parser = at)]
    pub(crate) from: At,
    /// A snapshot id, tag:NAME or a time
    #[arg(value_name = "TO", value_parser = at)]
    pub(crate) to: At,
    /// The rows of the files that were added
    #[arg(long)]
    pub(crate) rows: bool,
}

/// The snapshots of a table, oldest first: who committed what
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli snapshots ./lake/shop.db/orders --limit 20
  table-cli snapshots ./lake/shop.db/orders -o jsonl | jq 'select(.end_of_input)'")]
pub(crate) struct SnapshotsArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Only the newest N
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

/// One snapshot with everything that it says
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli snapshot ./lake/shop.db/orders        # the newest
  table-cli snapshot ./lake/shop.db/orders 7")]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Its id [default: the newest]
    #[arg(value_name = "ID")]
    pub(crate) id: Option<u64>,
}

/// The data files of a snapshot, or the files that nothing refers to
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli files ./lake/shop.db/orders
  table-cli files ./lake/shop.db/orders --at snapshot:3
  table-cli files ./lake/shop.db/orders --unreferenced

--unreferenced lists every file in the table's data and manifest directories to which no snapshot and no tag refers: \
what an attempt that died had opened, what a lost race left behind, and what a run that is at work has not committed yet. \
Nothing is deleted.")]
pub(crate) struct FilesArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
    /// Files to which no snapshot and no tag refers
    #[arg(long, conflicts_with_all = ["at", "snapshot"])]
    pub(crate) unreferenced: bool,
}

/// The rows of a table
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli cat ./lake/shop.db/orders --limit 10
  table-cli cat ./lake/shop.db/orders -o csv > orders.csv
  table-cli cat ./lake/shop.db/orders --columns id,amount --where \"dt = '2026-01-31' and (amount > 100 or note like 'urgent%')\"
  table-cli cat ./lake/shop.db/orders --at tag:monthly

A condition compares columns with values or columns: = <> < <= > >=, [not] in (..), [not] between .. and .., [not] like '..', \
is [not] null, and, or, not. Texts, dates and times stand in single quotes, bytes are X'00ff'; a value must be one that the column can \
hold. Files, and parts of files, whose partition or statistics rule it out are not read.

In jsonl and json whole numbers and floats are numbers; decimals, dates, timestamps (with Z: an instant) and bytes (hexadecimal) \
are text. In csv a null is an empty field and an empty string is \"\". Rows come in no particular order.")]
pub(crate) struct CatArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Only these columns, in this order [default: all]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    /// Only rows for which this is true
    #[arg(long = "where", value_name = "CONDITION", value_parser = condition)]
    pub(crate) condition: Option<Condition>,
    /// At most N rows
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
}

/// How many rows a table has
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli count ./lake/shop.db/orders
  table-cli count ./lake/shop.db/orders --where \"amount > 100\" --at 2026-01-31T12:00:00Z
  table-cli count ./lake/shop.db/orders -o csv | tail -1")]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Only rows for which this is true; see cat
    #[arg(long = "where", value_name = "CONDITION", value_parser = condition)]
    pub(crate) condition: Option<Condition>,
    #[command(flatten)]
    pub(crate) when: WhenArgs,
}

/// The checkpoints of a pipeline, newest first: every one to which --rewind can go back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli checkpoints orders.yaml
  table-cli checkpoints ./lake/_checkpoints orders
  table-cli checkpoints orders.yaml --json 12        # the whole checkpoint, as it is stored")]
pub(crate) struct CheckpointsArgs {
    /// The pipeline file, or the checkpoint location
    #[arg(value_name = "PIPELINE|LOCATION")]
    pub(crate) target: String,
    /// With a checkpoint location: the pipeline's name
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The whole checkpoint of this number, as it is stored
    #[arg(long, value_name = "SEQ")]
    pub(crate) json: Option<u64>,
    /// With a pipeline file: override a key of it (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<String>,
}

/// Check exactly-once from a table alone: do each pipeline's ranges of offsets join, and is every file there with all its rows
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli audit ./lake/shop.db/orders
  table-cli audit ./lake/shop.db/orders --pipeline orders -o jsonl | jq 'select(.kind == \"finding\")'

Each lineage and each of its splits is a line: the first offset, the first offset after, snapshots, rows. Within a lineage ranges must \
join; a lineage must begin where the one before it stopped. Where it begins below, that is a rewind: it is reported with how much was \
written again, and is no finding. Besides: identifiers rise, lineages are closed before their successors begin, and every data file has \
its true size and, by its Parquet footer, its true row count. Snapshots that have expired cannot be audited; it says from where on.

A finding: exit code 3. Others may commit and expire meanwhile. Nothing is changed.")]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Only lineages of this pipeline
    #[arg(long, value_name = "P")]
    pub(crate) pipeline: Option<String>,
}

/// Check the metadata of any Paimon table, whoever wrote it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli verify ./lake/shop.db/orders
  table-cli verify s3://lake/shop.db/orders --footers -o jsonl | jq 'select(.kind == \"finding\")'

Schemas, snapshots, tags, hints, manifest lists, manifests and index manifests are read; record counts, sizes, bucket and level ranges \
and partition statistics must be what the manifests come to; every snapshot must be built on the one before; no file may be added twice \
or removed without being there; every file must be there with its true size, under a schema that exists. Files to which nothing refers \
are counted. Branches and changelogs are only looked through for what they refer to.

A finding: exit code 3. Others may commit and expire meanwhile. Nothing is changed.")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Open every Parquet data file too, and count its rows
    #[arg(long)]
    pub(crate) footers: bool,
}

/// How far a pipeline is behind its Kafka topics: what the brokers have, less what its checkpoints cover
#[cfg(feature = "kafka")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli lag orders.yaml
  table-cli lag orders.yaml -o jsonl | jq -s 'map(.lag) | add'
  table-cli lag orders.yaml --max-lag 100000 || echo behind     # exit code 3

A line for each partition, whether or not the pipeline runs; nothing is written. `pending` are records of the greatest checkpoint whose \
commit may be under way: the consumer group is told of a commit after it has landed. `lag_s` is the age of the first record that waits. \
Brokers that do not answer within 15 seconds: exit code 75.")]
pub(crate) struct LagArgs {
    /// The pipeline file
    #[arg(value_name = "PIPELINE")]
    pub(crate) pipeline: PathBuf,
    /// Exit with 3 when more records than this wait, over all partitions
    #[arg(long, value_name = "RECORDS")]
    pub(crate) max_lag: Option<u64>,
    /// Override a key (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<String>,
}

/// A pipeline file with its defaults and environment filled in, secrets masked
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli config orders.yaml
  table-cli config orders.yaml --set sinks.0.location=/lake/orders -o json

It is printed as a pipeline file (YAML), in a pipe too; -o json and -o jsonl give JSON.")]
pub(crate) struct ConfigArgs {
    /// The pipeline file
    #[arg(value_name = "PIPELINE")]
    pub(crate) pipeline: PathBuf,
    /// Override a key (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<String>,
}

/// The records of a pipeline that became no rows, with where they came from and why
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli dead-letters orders.yaml --limit 20
  table-cli dead-letters ./lake/shop.db/orders_dead -o jsonl | jq -r .value > again.ndjson

Key and value are the raw bytes of the record: text where they are UTF-8, else {\"hex\": \"...\"}.")]
pub(crate) struct DeadLettersArgs {
    /// The pipeline file, or the location of the dead-letter table
    #[arg(value_name = "PIPELINE|LOCATION")]
    pub(crate) target: String,
    /// At most N rows
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// With a pipeline file: override a key of it (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<String>,
}

/// Try whether a location can carry exactly-once: conditional creates raced for, listings, deletes, uploads; on disk links and fsync
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli doctor ./lake
  table-cli doctor s3://lake/shop.db --racers 32 --rounds 200

Everything happens in a new directory `_lakeward-doctor-UUID` below the location, which is removed at the end. \
A store that lets two creates win now and then shows it only in some rounds: take more of them where it counts. \
Exit code 3 when a check failed; warnings do not count.")]
pub(crate) struct DoctorArgs {
    /// A path or URL: where tables or checkpoints are, or are to be
    #[arg(value_name = "LOCATION")]
    pub(crate) location: String,
    /// How many create the same name at once, each over a connection of its own
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) racers: usize,
    /// How many names are raced for
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) rounds: usize,
}

/// Kill and freeze a bounded pipeline at random moments until it is done, again and again, and compare its tables with its source
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli failover orders.yaml
  table-cli failover orders.yaml --kills 100 --freezes 20 --seed 7 -o json
  table-cli failover orders.yaml --dir s3://lake/scratch --keep
  table-cli failover orders.yaml --set source.kafka.stop=end     # a topic, up to where it ends now

Your tables are not touched. The pipeline runs as it is, but for its locations: sinks, dead letters and checkpoints go to \
`failover-SEED/round-K` beside the checkpoint location, or below --dir. Tables are created there, so columns that the file leaves out \
are inferred. A round is one run to the end of the input, killed (SIGKILL) and started again, or frozen (SIGSTOP) while a second \
process is started and goes on, and then woken up (SIGCONT), after which it must be fenced or end well. The first round is left alone: \
it is the measure for the moments. There are as many rounds as it takes for N kills and M freezes.

After each round the source is read once more, decoded, and compared with the tables: the same rows the same number of times, in any \
order. Only sums are kept unless they differ; then 16 bytes a row, at most 128 MiB at a time. A row that is doubled is in the table more \
often than in the source; missing is less often. Either ends the series with exit code 3, and the round's tables stay and are named. The \
input must not change meanwhile.

A pipeline that is over in no time is hard to hit: give it many small checkpoints (--set checkpoint.rows=5000). The seed repeats what is \
drawn, not the microsecond at which it strikes.")]
pub(crate) struct FailoverArgs {
    /// The pipeline file; its source must end, and be readable again
    #[arg(value_name = "PIPELINE")]
    pub(crate) pipeline: PathBuf,
    /// How many processes are killed
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) kills: u32,
    /// How many processes are frozen while a second one is started
    #[arg(long, value_name = "M", default_value_t = 5)]
    pub(crate) freezes: u32,
    /// What is drawn, and in which order [default: drawn, and printed]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Where the tables and checkpoints of the rounds go; nothing may be there yet [default: `failover-SEED` beside the checkpoint location]
    #[arg(long, value_name = "LOCATION")]
    pub(crate) dir: Option<String>,
    /// Keep the tables of every round
    #[arg(long)]
    pub(crate) keep: bool,
    /// Override a key of the pipeline (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<String>,
}

/// Completions for a shell, to standard output
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  table-cli completions bash > ~/.local/share/bash-completion/completions/table-cli")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

fn key_value(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

fn at(text: &str) -> Result<At, String> {
    text.parse().map_err(|e: Error| described(&e))
}

fn condition(text: &str) -> Result<Condition, String> {
    Condition::parse(text).map_err(|e| described(&e))
}

fn described(e: &Error) -> String {
    format!("{}\n{}", e.message(), e.next_step().unwrap_or_default())
}

fn resolution(text: &str) -> Result<(String, Resolution), String> {
    let wrong = "write SINK=landed or SINK=lost";
    // A location may hold a `=`, as partition directories do.
    let (sink, word) = text.rsplit_once('=').filter(|(sink, _)| !sink.is_empty()).ok_or(wrong)?;
    match word {
        "landed" => Ok((sink.to_owned(), Resolution::Landed)),
        "lost" => Ok((sink.to_owned(), Resolution::Lost)),
        _ => Err(wrong.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_resolution_is_split_at_its_last_equals_sign() {
        assert_eq!(resolution("/lake/dt=1/t=lost"), Ok(("/lake/dt=1/t".to_owned(), Resolution::Lost)));
        assert!(resolution("/lake/t").is_err() && resolution("=landed").is_err() && resolution("t=maybe").is_err());
    }

    #[test]
    fn a_pipeline_and_from_exclude_each_other_and_one_is_needed() {
        let kind = |args: &[&str]| Cli::try_parse_from([&["table-cli"], args].concat()).err().map(|e| e.kind());
        use clap::error::ErrorKind;
        assert_eq!(kind(&["ingest"]), Some(ErrorKind::MissingRequiredArgument));
        assert_eq!(kind(&["ingest", "--from", "a.csv"]), Some(ErrorKind::MissingRequiredArgument));
        assert_eq!(kind(&["ingest", "p.yaml", "--to", "x"]), Some(ErrorKind::ArgumentConflict));
        assert_eq!(kind(&["ingest", "--from", "a", "b", "--to", "x"]), None);
        assert_eq!(kind(&["ingest", "--from", "-", "--to", "x"]), None);
        assert_eq!(kind(&["ingest", "p.yaml", "--rewind", "1", "--abandon", "2"]), Some(ErrorKind::ArgumentConflict));
        assert_eq!(kind(&["info", "x", "-v", "-q"]), Some(ErrorKind::ArgumentConflict));
        assert_eq!(kind(&["info", "x", "-f", "json"]), Some(ErrorKind::UnknownArgument));
    }
}
