//! RecordBatch to Parquet objects with statistics: rolling, and fan-out over partitions and buckets within a memory budget. Knows no table format;
//! where a file lies is asked of a [`Layout`].

mod check;
mod encode;
mod footer;
mod nanos;
mod open;
mod partition;
mod physical;
mod room;
mod staged;
mod stats;
mod writer;

#[cfg(test)]
#[expect(unreachable_pub, reason = "tests of other crates use it too")]
pub(crate) mod random;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use arrow::array::RecordBatch;

use crate::error::{Error, Result};
use crate::schema::Scalar;

pub(crate) use check::column as check_column;
pub(crate) use footer::{damaged, footer, footer_with};
pub(crate) use partition::{push_key, scalar_at};
pub use writer::FileWriter;

/// Where data files lie under a table's root.
pub trait Layout: Send + Sync {
    /// The path of a file, `/` between segments, as it is on the store (partition values escaped). `unique` is an id that no other
    /// writer has, `counter` rises from 0 within it. `Invalid`: a partition value that cannot be a path.
    fn file_path(&self, partition: &[Option<Scalar>], bucket: i32, unique: &str, counter: u32) -> Result<String>;
}

/// Which rows belong to which bucket.
pub trait Buckets: Send + Sync {
    /// How many buckets the table has, from 1.
    fn total(&self) -> i32;
    /// The bucket of each row of a batch that is in the Arrow form of the table's schema: from 0, below [`Buckets::total`].
    fn assign(&self, batch: &RecordBatch) -> Result<Vec<i32>>;
}

/// How a file's pages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// zstd with this level, 1 to 22.
    Zstd(i32),
    /// Not at all.
    None,
    /// Snappy.
    Snappy,
    /// LZ4, as Parquet's `LZ4_RAW`.
    Lz4,
}

/// How much is kept about the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatsMode {
    /// Nothing: the column does not appear in the statistics.
    None,
    /// The number of nulls.
    Counts,
    /// Nulls, minimum and maximum; strings are cut after so many code points, bytes after so many bytes.
    Truncate(usize),
    /// Nulls, minimum and maximum, uncut.
    Full,
}

impl StatsMode {
    /// Reads `none`, `counts`, `truncate(16)` or `full`; case and blanks do not matter. Anything else is `Invalid`.
    pub fn parse(text: &str) -> Result<StatsMode> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
        let cut = plain.strip_prefix("truncate(").and_then(|rest| rest.strip_suffix(')')).and_then(|n| n.parse().ok());
        match (plain.as_str(), cut) {
            ("none", _) => Ok(StatsMode::None),
            ("counts", _) => Ok(StatsMode::Counts),
            ("full", _) => Ok(StatsMode::Full),
            (_, Some(n)) if n > 0 => Ok(StatsMode::Truncate(n)),
            _ => Err(Error::invalid(format!("`{text}` is no statistics mode")).hint("write none, counts, truncate(16) or full")),
        }
    }
}

impl fmt::Display for StatsMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatsMode::None => f.write_str("none"),
            StatsMode::Counts => f.write_str("counts"),
            StatsMode::Truncate(n) => write!(f, "truncate({n})"),
            StatsMode::Full => f.write_str("full"),
        }
    }
}

/// How a [`FileWriter`] writes.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// A file is closed when it has about so many bytes.
    pub target_file_size: u64,
    /// See [`Compression`].
    pub compression: Compression,
    /// Of every column that `stats_of` does not name.
    pub stats: StatsMode,
    /// By column name.
    pub stats_of: BTreeMap<String, StatsMode>,
    /// Bytes that all open files together, and rows that wait for one, may hold in memory. Kept by writing row groups early and, when
    /// those are small, by closing the files that were not written to for the longest time.
    pub memory: usize,
    /// What a file holds besides the columns' values.
    pub shape: FileShape,
}

/// What the files of a table format hold besides the values of its columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileShape {
    /// As Apache Paimon: partition columns are stored too, and every column has its field id.
    #[default]
    Paimon,
    /// As Delta Lake without column mapping: values of partition columns are in the log alone, and columns are known by name.
    Delta,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            target_file_size: 256 << 20,
            compression: Compression::Zstd(1),
            stats: StatsMode::Truncate(16),
            stats_of: BTreeMap::new(),
            memory: 128 << 20,
            shape: FileShape::Paimon,
        }
    }
}

impl WriterOptions {
    /// The mode of one column.
    pub fn stats_mode(&self, column: &str) -> StatsMode {
        self.stats_of.get(column).copied().unwrap_or(self.stats)
    }
}

/// What is wrong with a Parquet file that cannot be read only because this program lacks the codec that it is packed with.
pub(crate) fn unknown_codec(why: &dyn fmt::Display) -> Option<Error> {
    let text = why.to_string();
    let (_, codec) = text.split_once("Disabled feature at compile time: ")?;
    let what = format!("the Parquet file is packed with {}, which is not supported", codec.trim());
    Some(Error::invalid(what).hint("write it with zstd, snappy, lz4, gzip or none"))
}
