//! Commands that check tables and places.

use clap::Args;

use crate::cli::args::TableArgs;

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

/// Check the metadata of any Paimon or Delta table, whoever wrote it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  table-cli verify ./lake/shop.db/orders
  table-cli verify s3://lake/shop.db/orders --footers -o jsonl | jq 'select(.kind == \"finding\")'

Paimon: schemas, snapshots, tags, hints, manifest lists, manifests and index manifests are read; record counts, sizes, bucket and level ranges \
and partition statistics must be what the manifests come to; every snapshot must be built on the one before; no file may be added twice \
or removed without being there; every file must be there with its true size, under a schema that exists. Files to which nothing refers \
are counted. Branches and changelogs are only looked through for what they refer to.

Delta: every commit is read; versions must join, no commit may be torn, empty or hold actions that contradict each other; transactions \
must rise; every checkpoint (classic, in parts, v2 with sidecars) must say what the commits come to, and `_last_checkpoint` name one that is \
there; every live file must be there with its true size, its partition values readable and those of its directory. With --footers the \
statistics of the log are compared with the footers: bounds that are too narrow lose rows.

A finding: exit code 3. Others may commit and expire meanwhile. Nothing is changed.")]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,
    /// Open every Parquet data file too: count its rows, and (Delta) compare its statistics
    #[arg(long)]
    pub(crate) footers: bool,
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
