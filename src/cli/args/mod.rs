//! What can be typed. Nothing here means anything yet: the other files of `cli` give it a meaning and run it. `run`, `look` and `check` hold the
//! arguments of the commands that do one of these.

mod check;
mod look;
mod run;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::check::{AuditArgs, DoctorArgs, VerifyArgs};
pub(crate) use self::look::{CatArgs, CountArgs, DiffArgs, FilesArgs, LookArgs, SnapshotArgs, SnapshotsArgs, TableArgs, WhenArgs};
use self::run::TableFormat;
pub(crate) use self::run::{CheckpointsArgs, ConfigArgs, DeadLettersArgs, FailoverArgs, IngestArgs};
#[cfg(feature = "kafka")]
pub(crate) use self::run::{DemoArgs, LagArgs};
use crate::cli::output::Form;

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

--at changes what is said of columns, rows and files; options, consumers and registrations are those of now. Of a Delta table its \
versions are the snapshots, its properties the options; its id, protocol, features and newest checkpoint are told too.")]
    Info(LookArgs),
    /// The columns of a table
    #[command(
        after_help = "Examples:\n  table-cli schema ./lake/shop.db/orders\n  table-cli schema ./lake/shop.db/orders --at 2026-01-31T12:00:00Z"
    )]
    Schema(LookArgs),
    Snapshots(SnapshotsArgs),
    Snapshot(SnapshotArgs),
    /// The manifests of a Paimon snapshot: the files that say which data files are in it, and for which partitions
    #[command(after_help = "\
Examples:
  table-cli manifests ./lake/shop.db/orders
  table-cli manifests ./lake/shop.db/orders --at snapshot:3

`list` is base for what was there before the snapshot, delta for what it changed. Least and greatest partition values are each column's own.")]
    Manifests(LookArgs),
    Files(FilesArgs),
    /// The partitions of a table: rows, files, bytes, Paimon's buckets, and when the newest file was made
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
    Expire(ExpireArgs),
    Completions(CompletionsArgs),
}

/// Create a table, or all tables of a pipeline
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli create ./lake/orders --columns 'id BIGINT NOT NULL, amount DECIMAL(10, 2)'
  table-cli create ./lake/visits --columns 'id BIGINT, dt DATE' --partition-by dt
  table-cli create s3://lake/shop.db/orders --columns 'id BIGINT' --options file.compression=snappy
  table-cli create ./lake/clicks --format delta --columns 'id BIGINT' --options delta.checkpointInterval=50
  table-cli create --pipeline orders.yaml

Types: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR(n), VARCHAR(n), STRING, BYTES, DATE, \
TIMESTAMP(3 or 6), TIMESTAMP(3 or 6) WITH LOCAL TIME ZONE; each with or without NOT NULL. Delta keeps both kinds of TIMESTAMP in \
microseconds; one without a time zone asks readers for the feature timestampNtz.")]
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
    /// The table format [default: paimon]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<TableFormat>,
    /// The format's own table options (repeatable)
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., value_parser = run::key_value)]
    pub(crate) options: Vec<String>,
    /// Create the tables of this pipeline's sinks, and of its dead letters
    #[arg(long, value_name = "PIPELINE", conflicts_with_all = ["location", "columns", "partition_by", "options", "format"])]
    pub(crate) pipeline: Option<PathBuf>,
    /// A table that is there and fits is no error
    #[arg(long)]
    pub(crate) if_not_exists: bool,
}

/// Clean up the log of a Delta table: commits and checkpoints below the newest checkpoint that is old enough
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli expire ./lake/shop.db/orders --dry-run      # lists what would be deleted
  table-cli expire ./lake/shop.db/orders --yes

What is old enough says the table's property delta.logRetentionDuration, 30 days unless it is set. Versions below the checkpoint cannot be \
read any more afterwards, nor audited; the table and every pipeline that writes to it go on. Data files are left alone: VACUUM of Spark or \
delta-rs removes those that no version needs. Snapshots of Paimon tables are expired by Flink or Spark.")]
pub(crate) struct ExpireArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// List what would be deleted, and delete nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Completions for a shell, to standard output
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  table-cli completions bash > ~/.local/share/bash-completion/completions/table-cli")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::sink::Resolution;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_resolution_is_split_at_its_last_equals_sign() {
        assert_eq!(run::resolution("/lake/dt=1/t=lost"), Ok(("/lake/dt=1/t".to_owned(), Resolution::Lost)));
        assert!(run::resolution("/lake/t").is_err() && run::resolution("=landed").is_err() && run::resolution("t=maybe").is_err());
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
