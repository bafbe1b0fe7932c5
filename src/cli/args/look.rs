//! Commands that look at tables.

use clap::Args;

use crate::condition::Condition;
use crate::error::Error;
use crate::table::At;

#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// The table: a path or URL
    #[arg(value_name = "LOCATION")]
    pub(crate) location: String,
}

/// As of when.
#[derive(Debug, Args)]
pub(crate) struct WhenArgs {
    /// As of a snapshot (Delta: version), tag or time (the newest committed by then): snapshot:7, tag:NAME, 2026-01-31T12:00:00Z [default: newest]
    #[arg(long, value_name = "WHEN", value_parser = at)]
    pub(crate) at: Option<At>,
    /// The same as --at snapshot:ID
    #[arg(long, visible_alias = "version", value_name = "ID", conflicts_with = "at")]
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

/// The snapshots of a table (Delta: versions), oldest first: who committed what
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

--unreferenced lists every file in the table's data and manifest directories to which no snapshot and no tag refers (Delta: every file \
that is not hidden and that no commit which is still there, and no live file's entry, names): what an attempt that died had opened, what a lost race left behind, and what a run that is at work has not committed yet. \
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

fn at(text: &str) -> Result<At, String> {
    text.parse().map_err(|e: Error| described(&e))
}

fn condition(text: &str) -> Result<Condition, String> {
    Condition::parse(text).map_err(|e| described(&e))
}

fn described(e: &Error) -> String {
    format!("{}\n{}", e.message(), e.next_step().unwrap_or_default())
}
