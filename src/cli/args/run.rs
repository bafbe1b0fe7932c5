//! Commands that run pipelines, and that look at them.

use std::path::PathBuf;

use clap::Args;

use crate::format::Format;
use crate::sink::Resolution;

/// A table format, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TableFormat {
    /// Apache Paimon
    Paimon,
    /// Delta Lake
    Delta,
}

impl From<TableFormat> for Format {
    fn from(format: TableFormat) -> Format {
        match format {
            TableFormat::Paimon => Format::Paimon,
            TableFormat::Delta => Format::Delta,
        }
    }
}

/// Run a pipeline: read, write, checkpoint, commit; killed at any moment, the next run goes on exactly where this one stood
#[derive(Debug, Args)]
#[command(override_usage = "table-cli ingest [OPTIONS] <PIPELINE>\n       table-cli ingest [OPTIONS] --from <FILES>... --to <LOCATION>")]
#[command(after_help = "\
Examples:
  table-cli ingest orders.yaml
  table-cli ingest orders.yaml --dry-run        # plan, schema and five rows; writes nothing
  table-cli ingest --from 'in/*.ndjson' --to ./lake/orders         # columns are inferred
  table-cli ingest --from 'in/*.ndjson' --to ./lake/orders --format delta
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
    /// With --to: the format of the table [default: that of the table that is there, else paimon]. A pipeline file has `format` for each sink
    #[arg(long, value_name = "FORMAT", value_enum, requires = "to", conflicts_with = "pipeline")]
    pub(crate) format: Option<TableFormat>,
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

pub(super) fn key_value(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("write KEY=VALUE".to_owned()),
    }
}

pub(super) fn resolution(text: &str) -> Result<(String, Resolution), String> {
    let wrong = "write SINK=landed or SINK=lost";
    // A location may hold a `=`, as partition directories do.
    let (sink, word) = text.rsplit_once('=').filter(|(sink, _)| !sink.is_empty()).ok_or(wrong)?;
    match word {
        "landed" => Ok((sink.to_owned(), Resolution::Landed)),
        "lost" => Ok((sink.to_owned(), Resolution::Lost)),
        _ => Err(wrong.to_owned()),
    }
}
