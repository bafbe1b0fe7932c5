//! Table options: what this writer honours, what it may leave alone, and what it must refuse.
//!
//! An option that would make a table differ from what we write is refused by its name. One that only steers readers, compaction or
//! expiry is kept in the schema and left alone.

pub mod known;

use std::collections::BTreeMap;

use apache_avro::{Codec, DeflateSettings, ZstandardSettings};

use crate::datafile::{Compression, FileShape, StatsMode, WriterOptions};
use crate::error::{Error, Result};
use crate::schema::Schema;
use known::Standing;

/// Options as they stand in a schema file.
pub type RawOptions = BTreeMap<String, String>;

/// Marks a table that we made; its value is unique, so that two tables never have the same `schema-0`.
pub const TABLE_ID: &str = "lakeward.table-id";

/// Fixed buckets: `bucket` from 1, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketOptions {
    /// `bucket`: how many, from 1.
    pub total: i32,
    /// `bucket-key`: columns, by whose values rows are spread; at least one.
    pub key: Vec<String>,
    /// `bucket-function.type`
    pub function: BucketFunction,
    /// `bucket-append-ordered`: rows of a bucket are read in the order in which they were written.
    pub ordered: bool,
}

/// How the number of a row's bucket is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BucketFunction {
    /// `default`: from a hash of the key.
    Hash,
    /// `mod`: the remainder of the key, which is one INT or BIGINT.
    Mod,
}

/// The options that steer this writer, with their defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    /// `bucket` and what goes with it; `None`: a table without buckets (-1).
    pub buckets: Option<BucketOptions>,
    /// `partition.default-name`: the directory text of a null, empty or blank partition value.
    pub partition_default_name: String,
    /// `partition.legacy-name`: a DATE is spelt as its number of days.
    pub partition_legacy_name: bool,
    /// `target-file-size`, bytes.
    pub target_file_size: u64,
    /// `file.compression` and `file.compression.zstd-level`.
    pub compression: Compression,
    /// `manifest.compression`.
    pub manifest_codec: Codec,
    /// When manifests are merged.
    pub merging: Merging,
    /// `data-file.prefix`.
    pub data_file_prefix: String,
    /// `data-file.path-directory`: under it lie the partitions; no slash at either end.
    pub data_file_directory: Option<String>,
    /// `metadata.stats-dense-store`: rows of statistics hold only the columns that have some.
    pub stats_dense: bool,
    /// `write-only`: maintenance is somebody else's.
    pub write_only: bool,
    stats_mode: StatsMode,
    stats_keep_first: Option<usize>,
    column_stats: BTreeMap<String, StatsMode>,
    not_written: Option<Refusal>,
    not_read: Option<Refusal>,
}

/// When manifests are merged, and how big they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merging {
    /// `manifest.target-file-size`, bytes.
    pub target: u64,
    /// `manifest.merge-min-count`: fewer small manifests than this are left as they are.
    pub min_count: usize,
    /// `manifest.full-compaction-threshold-size`, bytes.
    pub full_threshold: u64,
}

impl Merging {
    fn parse(raw: &RawOptions) -> Result<Merging> {
        let size = |key: &str, default: u64| match raw.get(key) {
            None => Ok(default),
            Some(v) => parse_size(v).filter(|n| *n > 0).ok_or_else(|| bad(key, v, "a size such as `8 mb`")),
        };
        const MIN_COUNT: &str = "manifest.merge-min-count";
        Ok(Merging {
            target: size("manifest.target-file-size", 8 << 20)?,
            min_count: match raw.get(MIN_COUNT) {
                None => 30,
                Some(v) => v.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| bad(MIN_COUNT, v, "a number of manifests, 1 or more"))?,
            },
            full_threshold: size("manifest.full-compaction-threshold-size", 16 << 20)?,
        })
    }
}

/// Why a table can only be looked at.
#[derive(Clone, Debug, PartialEq)]
struct Refusal {
    message: String,
    hint: Option<String>,
}

impl Refusal {
    fn of(e: &Error) -> Refusal {
        Refusal { message: e.message().to_owned(), hint: e.next_step().map(str::to_owned) }
    }
    fn check(refusal: Option<&Refusal>) -> Result<()> {
        let Some(Refusal { message, hint }) = refusal else { return Ok(()) };
        let e = Error::invalid(message);
        Err(if let Some(hint) = hint { e.hint(hint) } else { e })
    }
}

/// Values that an option may have without harm, compared without case; none: it must not be set.
type Allowed = (&'static str, &'static [&'static str]);

/// Nothing can be said of a table with another value: it is another kind of table, or lies elsewhere.
const REFUSED: &[Allowed] = &[
    ("primary-key", &[]),
    ("partition", &[]),
    ("type", &["table"]),
    ("branch", &["main"]),
    ("chain-table.enabled", &["false"]),
    ("manifest.format", &["avro"]),
];

/// Rows that we would add would not be what the table promises, or lie where nobody looks.
const NOT_WRITTEN: &[Allowed] = &[
    ("file.format", &["parquet"]),
    ("file.format.per.level", &["", "{}"]),
    ("file.compression.per.level", &["", "{}"]),
    ("file.suffix.include.compression", &["false"]),
    ("manifest.sidecar.enabled", &["false"]),
    ("metadata.stats-mode.per.level", &["", "{}"]),
    ("row-tracking.enabled", &["false"]),
    ("data-evolution.enabled", &["false"]),
    ("data-file.external-paths", &[]),
    ("data-file.external-paths.strategy", &["none"]),
    ("deletion-vectors.enabled", &["false"]),
    ("changelog-producer", &["none"]),
    ("rowkind.field", &[]),
    ("upsert-key", &[]),
    ("consumer.changelog-only", &["false"]),
    ("commit.callbacks", &[""]),
    ("commit.strict-mode.last-safe-snapshot", &[]),
    ("log.system", &["none"]),
    ("metadata.iceberg-compatible", &["false"]),
    ("metadata.iceberg.storage", &["disabled"]),
    ("metastore.partitioned-table", &["false"]),
    ("global-index.external-path", &[]),
    ("query-auth.enabled", &["false"]),
];

/// Rows that we would read would not be those that other readers give.
const NOT_READ: &[Allowed] = &[
    ("batch-scan-mode", &["none"]),
    ("data-evolution.enabled", &["false"]),
    ("deletion-vectors.enabled", &["false"]),
    ("query-auth.enabled", &["false"]),
    ("incremental-between", &[]),
    ("incremental-between-timestamp", &[]),
    ("incremental-to-auto-tag", &[]),
    ("scan.creation-time-millis", &[]),
    ("scan.fallback-branch", &[]),
    ("scan.fallback-delta-branch", &[]),
    ("scan.fallback-snapshot-branch", &[]),
    ("scan.file-creation-time-millis", &[]),
    ("scan.mode", &["default", "latest", "latest-full", "full"]),
    ("scan.primary-branch", &[]),
    ("scan.snapshot-id", &[]),
    ("scan.tag-name", &[]),
    ("scan.timestamp", &[]),
    ("scan.timestamp-millis", &[]),
    ("scan.version", &[]),
    ("scan.watermark", &[]),
];

/// What reading needs to know; the rest of the options steers writing.
const FOR_READING: [&str; 3] = ["partition.default-name", "partition.legacy-name", "data-file.path-directory"];

const DAY_MS: u64 = 24 * 3600 * 1000;

impl TableOptions {
    /// Reads the options of a schema of format version `schema_version` (1, 2 or 3; the older ones had other defaults).
    ///
    /// `Invalid` names an option that is not supported at all. What forbids only to write or only to read is told by
    /// [`TableOptions::check_writable`] and [`TableOptions::check_readable`].
    pub fn parse(raw: &RawOptions, schema_version: u32) -> Result<TableOptions> {
        refuse(raw, REFUSED)?;
        let mut options = match Self::parse_to_write(raw, schema_version) {
            Ok(options) => options,
            Err(e) => {
                let reading = raw.iter().filter(|(k, _)| FOR_READING.contains(&k.as_str())).map(|(k, v)| (k.clone(), v.clone())).collect();
                let mut options = Self::parse_to_write(&reading, 3)?;
                options.refuse_writing(&e);
                options
            }
        };
        options.not_read = refuse(raw, NOT_READ).err().as_ref().map(Refusal::of);
        Ok(options)
    }

    /// `Invalid`, by the option's name, when nothing can be written to the table.
    pub fn check_writable(&self) -> Result<()> {
        Refusal::check(self.not_written.as_ref())
    }

    /// `Invalid`, by the option's name, when nothing can be read from the table.
    pub fn check_readable(&self) -> Result<()> {
        Refusal::check(self.not_read.as_ref())
    }

    /// Nothing is written, for this reason; the first one stays.
    pub(super) fn refuse_writing(&mut self, why: &Error) {
        self.not_written.get_or_insert_with(|| Refusal::of(why));
    }

    fn parse_to_write(raw: &RawOptions, schema_version: u32) -> Result<TableOptions> {
        let buckets = parse_buckets(raw, schema_version)?;
        refuse_unsupported(raw, schema_version)?;
        let text = |key: &str| raw.get(key).map(String::as_str);
        let flag = |key: &str, default: bool| match text(key) {
            None => Ok(default),
            Some(v) => boolean(v).ok_or_else(|| bad(key, v, "true or false")),
        };
        let directory = text("data-file.path-directory").map(|d| d.trim_matches('/').to_owned()).filter(|d| !d.is_empty());
        if let Some(d) = directory.as_deref().filter(|d| d.split('/').any(|s| s.is_empty() || s == "." || s == "..")) {
            return Err(bad("data-file.path-directory", d, "a directory under the table's own"));
        }
        let prefix = text("data-file.prefix").unwrap_or("data-");
        if prefix.contains('/') || prefix.starts_with('.') || prefix.starts_with('_') {
            return Err(bad("data-file.prefix", prefix, "text without `/`, and not beginning with `.` or `_`"));
        }
        let level = parse_level(raw, "file.compression.zstd-level")?;
        let mut column_stats = BTreeMap::new();
        for (key, value) in raw {
            if let Some(column) = key.strip_prefix("fields.").and_then(|k| k.strip_suffix(".stats-mode")) {
                column_stats.insert(column.to_owned(), parse_stats_mode(key, value)?);
            }
        }
        Ok(TableOptions {
            buckets,
            partition_default_name: text("partition.default-name").unwrap_or("__DEFAULT_PARTITION__").to_owned(),
            partition_legacy_name: flag("partition.legacy-name", true)?,
            target_file_size: match text("target-file-size") {
                None => 256 << 20,
                Some(v) => parse_size(v).filter(|n| *n > 0).ok_or_else(|| bad("target-file-size", v, "a size such as `128 mb`"))?,
            },
            compression: parse_compression(text("file.compression"), level)?,
            manifest_codec: parse_manifest_codec(text("manifest.compression"), level)?,
            merging: Merging::parse(raw)?,
            data_file_prefix: prefix.to_owned(),
            data_file_directory: directory,
            stats_dense: flag("metadata.stats-dense-store", true)?,
            write_only: flag("write-only", false)?,
            stats_mode: text("metadata.stats-mode").map_or(Ok(StatsMode::Truncate(16)), |v| parse_stats_mode("metadata.stats-mode", v))?,
            stats_keep_first: match text("metadata.stats-keep-first-n-columns") {
                None => None,
                Some(v) => match v.trim().parse::<i64>() {
                    Ok(n) if n >= 0 => usize::try_from(n).ok(),
                    Ok(-1) => None,
                    _ => return Err(bad("metadata.stats-keep-first-n-columns", v, "a number of columns, or -1 for all")),
                },
            },
            column_stats,
            not_written: None,
            not_read: None,
        })
    }

    /// Refuses for a new table what we can read in an old one and other readers cannot, what its files would not follow, and slips: a key that
    /// is none of Paimon's and close to one of them. `Invalid` names the option.
    pub fn check_new(raw: &RawOptions) -> Result<()> {
        const EVERYWHERE: [&str; 4] = ["zstd", "snappy", "deflate", "null"];
        if let Some(v) = raw.get("path") {
            return Err(unsupported("path", v).hint("the table's location says where it is"));
        }
        if let Some((key, right)) = known::slips(raw).first() {
            return Err(Error::invalid(format!("there is no table option `{key}`")).hint(format!("did you mean `{right}`?")));
        }
        if let Some((key, v)) = raw.iter().find(|(key, _)| known::standing(key) == Some(Standing::Others("layout"))) {
            return Err(unsupported(key, v).hint("leave it out: files are laid out by this writer's own rules"));
        }
        match raw.get("manifest.compression") {
            // pypaimon 2.1 refuses to read a table with `none` or `zstandard`, Java 1.4 to write one with `none`.
            Some(v) if !EVERYWHERE.iter().any(|e| e.eq_ignore_ascii_case(v.trim())) => {
                Err(unsupported("manifest.compression", v).hint("zstd, snappy, deflate and null are, in every reader"))
            }
            _ => Ok(()),
        }
    }

    /// The statistics of column `name`, which is the `index`-th of its schema, from 0.
    pub fn stats_mode(&self, name: &str, index: usize) -> StatsMode {
        match self.column_stats.get(name) {
            Some(mode) => *mode,
            None if self.stats_keep_first.is_some_and(|n| index >= n) => StatsMode::None,
            None => self.stats_mode,
        }
    }
}

impl TableOptions {
    /// How the data files of this table are written; `memory` is the bytes that open files may hold together.
    pub fn writer_options(&self, schema: &Schema, memory: usize) -> WriterOptions {
        WriterOptions {
            target_file_size: self.target_file_size,
            compression: self.compression,
            stats: self.stats_mode,
            stats_of: schema.fields.iter().enumerate().map(|(i, f)| (f.name.clone(), self.stats_mode(&f.name, i))).collect(),
            memory,
            shape: FileShape::Paimon,
        }
    }
}

fn refuse_unsupported(raw: &RawOptions, schema_version: u32) -> Result<()> {
    let set = |key: &str| raw.get(key).map(|v| v.trim());
    if schema_version <= 2 && set("file.format").is_none() {
        return Err(unsupported("file.format", "orc (the default of this old schema file)").hint("only Parquet can be written"));
    }
    refuse(raw, NOT_WRITTEN)?;
    let refused = |key: &str| {
        let listed = NOT_WRITTEN.iter().any(|(listed, _)| *listed == key);
        !listed && known::standing(key) == Some(Standing::NotWritten)
    };
    if let Some((key, value)) = raw.iter().find(|(key, _)| refused(key)) {
        return Err(unsupported(key, value).hint("write to a table without it"));
    }
    if let Some(value) = set("consumer.expiration-time") {
        let ms = parse_duration_ms(value).ok_or_else(|| bad("consumer.expiration-time", value, "a duration such as `7 d`"))?;
        if ms < DAY_MS {
            let hint = "a consumer keeps what was landed from expiring; let it live for a day at least, or unset the option";
            return Err(unsupported("consumer.expiration-time", value).hint(hint));
        }
    }
    Ok(())
}

/// `None`: no buckets. That columns of the key are columns of the table is looked at by [`super::bucket::check`].
fn parse_buckets(raw: &RawOptions, schema_version: u32) -> Result<Option<BucketOptions>> {
    let set = |key: &str| raw.get(key).map(|v| v.trim());
    // Before version 2 the default was one bucket.
    let text = set("bucket").unwrap_or(if schema_version <= 1 { "1" } else { "-1" });
    let key = raw.get("bucket-key").filter(|k| !k.trim().is_empty());
    let total = match text.parse::<i32>() {
        Ok(-1) => {
            return match key {
                None => Ok(None),
                Some(key) => Err(Error::invalid(format!("`bucket-key` = `{key}` goes with a number of buckets, and `bucket` is -1"))
                    .hint("say how many: `bucket: \"4\"`, or leave `bucket-key` out")),
            };
        }
        Ok(-2) => return Err(unsupported("bucket", text).hint("postponed buckets are for tables with a primary key")),
        Ok(n) if n >= 1 => n,
        _ => return Err(bad("bucket", text, "-1 (no buckets) or a number from 1")),
    };
    let Some(key) = key else {
        return Err(Error::invalid(format!("the table option `bucket` = `{text}` needs `bucket-key`"))
            .hint("name the columns whose values spread the rows over the buckets, such as `bucket-key: \"id\"`"));
    };
    // No blanks are taken off: Java Paimon does not either, and would look for a column of another name.
    let key = key.split(',').map(str::to_owned).collect();
    let function = match set("bucket-function.type").map(str::to_ascii_lowercase).as_deref() {
        None | Some("default") => BucketFunction::Hash,
        Some("mod") => BucketFunction::Mod,
        Some(other) => return Err(unsupported("bucket-function.type", other).hint("`default` and `mod` are")),
    };
    let ordered = set("bucket-append-ordered").unwrap_or("true");
    let ordered = boolean(ordered).ok_or_else(|| bad("bucket-append-ordered", ordered, "true or false"))?;
    Ok(Some(BucketOptions { total, key, function, ordered }))
}

/// `Invalid` names the first option that has a value which is not allowed.
fn refuse(raw: &RawOptions, rules: &[Allowed]) -> Result<()> {
    for (key, allowed) in rules {
        if let Some(value) = raw.get(*key).map(|v| v.trim()).filter(|v| !allowed.iter().any(|a| a.eq_ignore_ascii_case(v))) {
            let e = unsupported(key, value);
            return Err(match allowed.iter().find(|a| !a.is_empty()) {
                Some(only) => e.hint(format!("only `{only}` is")),
                None => e.hint("use a table without it"),
            });
        }
    }
    Ok(())
}

fn unsupported(key: &str, value: &str) -> Error {
    Error::invalid(format!("the table option `{key}` = `{value}` is not supported"))
}

fn bad(key: &str, value: &str, wanted: &str) -> Error {
    Error::invalid(format!("the table option `{key}` = `{value}` is not valid")).hint(format!("it takes {wanted}"))
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn parse_level(raw: &RawOptions, key: &str) -> Result<u8> {
    match raw.get(key) {
        None => Ok(1),
        Some(v) => v.trim().parse::<u8>().ok().filter(|l| (1..=22).contains(l)).ok_or_else(|| bad(key, v, "a level from 1 to 22")),
    }
}

fn parse_compression(text: Option<&str>, level: u8) -> Result<Compression> {
    let text = text.unwrap_or("zstd");
    match text.trim().to_ascii_lowercase().as_str() {
        "zstd" => Ok(Compression::Zstd(i32::from(level))),
        "snappy" => Ok(Compression::Snappy),
        "lz4" => Ok(Compression::Lz4),
        "none" | "uncompressed" => Ok(Compression::None),
        _ => Err(unsupported("file.compression", text).hint("zstd, snappy, lz4 and none are")),
    }
}

fn parse_manifest_codec(text: Option<&str>, level: u8) -> Result<Codec> {
    let text = text.unwrap_or("zstd");
    match text.trim().to_ascii_lowercase().as_str() {
        "zstd" | "zstandard" => Ok(Codec::Zstandard(ZstandardSettings::new(level))),
        "snappy" => Ok(Codec::Snappy),
        "deflate" => Ok(Codec::Deflate(DeflateSettings::default())),
        "none" | "null" => Ok(Codec::Null),
        _ => Err(unsupported("manifest.compression", text).hint("zstd, snappy, deflate and null are")),
    }
}

fn parse_stats_mode(key: &str, text: &str) -> Result<StatsMode> {
    StatsMode::parse(text).map_err(|_| bad(key, text, "none, counts, truncate(n) or full"))
}

/// A size as Paimon spells it, in bytes: units are powers of 1024, no unit means bytes.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let shift = match unit.as_str() {
        "" | "b" | "byte" | "bytes" => 0,
        "k" | "kb" | "kib" | "kibibytes" => 10,
        "m" | "mb" | "mib" | "mebibytes" => 20,
        "g" | "gb" | "gib" | "gibibytes" => 30,
        "t" | "tb" | "tib" | "tebibytes" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// A duration as Paimon spells it, in milliseconds; no unit means milliseconds.
fn parse_duration_ms(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let ms = match unit.as_str() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => DAY_MS,
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => return Some(number / 1_000_000),
        "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => return Some(number / 1000),
        _ => return None,
    };
    number.checked_mul(ms)
}

fn split_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim().to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(pairs: &[(&str, &str)]) -> RawOptions {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_defaults_are_those_of_the_format() {
        let o = TableOptions::parse(&raw(&[]), 3).unwrap();
        assert_eq!(
            (o.target_file_size, o.compression, o.stats_dense, o.partition_legacy_name),
            (256 << 20, Compression::Zstd(1), true, true)
        );
        assert_eq!(o.stats_mode("a", 0), StatsMode::Truncate(16));
        assert_eq!(o.partition_default_name, "__DEFAULT_PARTITION__");
        assert_eq!(o.data_file_prefix, "data-");
        assert_eq!(o.merging, Merging { target: 8 << 20, min_count: 30, full_threshold: 16 << 20 });
    }

    #[test]
    fn what_is_honoured_is_read() {
        let o = TableOptions::parse(
            &raw(&[
                ("bucket", "-1"),
                ("target-file-size", "64 MB"),
                ("file.compression", "SNAPPY"),
                ("metadata.stats-mode", "counts"),
                ("fields.b.stats-mode", "truncate(4)"),
                ("metadata.stats-keep-first-n-columns", "1"),
                ("manifest.compression", "null"),
                ("manifest.target-file-size", "1 MB"),
                ("manifest.merge-min-count", "3"),
                ("manifest.full-compaction-threshold-size", "2mb"),
                ("data-file.path-directory", "/data/"),
                ("partition.legacy-name", "FALSE"),
                ("snapshot.num-retained.min", "3"),
                ("consumer.expiration-time", "24 h"),
                ("file.format", "Parquet"),
                ("scan.mode", "latest"),
            ]),
            2,
        )
        .unwrap();
        assert_eq!((o.target_file_size, o.compression, o.manifest_codec), (64 << 20, Compression::Snappy, Codec::Null));
        assert_eq!(
            [o.stats_mode("a", 0), o.stats_mode("b", 1), o.stats_mode("c", 2)],
            [StatsMode::Counts, StatsMode::Truncate(4), StatsMode::None]
        );
        assert_eq!(o.merging, Merging { target: 1 << 20, min_count: 3, full_threshold: 2 << 20 });
        assert_eq!(o.data_file_directory.as_deref(), Some("data"));
        assert!(!o.partition_legacy_name);
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (key, value) in [
            ("bucket", "4"),
            ("bucket", "-2"),
            ("bucket-key", "id"),
            ("file.format", "orc"),
            ("file.format", "avro"),
            ("type", "format-table"),
            ("row-tracking.enabled", "true"),
            ("data-evolution.enabled", "true"),
            ("data-file.external-paths", "s3://x"),
            ("deletion-vectors.enabled", "TRUE"),
            ("changelog-producer", "input"),
            ("consumer.changelog-only", "true"),
            ("consumer.expiration-time", "23 h"),
            ("branch", "dev"),
            ("chain-table.enabled", "true"),
            ("file-index.bloom-filter.columns", "a"),
            ("fields.a.default-value", "7"),
            ("file.compression", "brotli"),
            ("manifest.compression", "lz4"),
            ("manifest.format", "orc"),
            ("manifest.target-file-size", "0"),
            ("manifest.merge-min-count", "-1"),
            ("manifest.full-compaction-threshold-size", "much"),
            ("target-file-size", "12 parsecs"),
            ("metadata.stats-mode", "truncate(0)"),
            ("fields.a.stats-mode", "some"),
            ("file.compression.zstd-level", "30"),
            ("write-only", "yes"),
            ("consumer.expiration-time", "soon"),
            ("data-file.prefix", "a/b"),
            ("data-file.path-directory", "../x"),
            ("commit.callbacks", "a.B"),
            ("metadata.iceberg.storage", "table-location"),
        ] {
            let e = TableOptions::parse(&raw(&[(key, value)]), 3).and_then(|o| o.check_writable()).unwrap_err();
            assert_eq!(e.kind(), crate::Kind::Invalid);
            assert!(e.message().contains(&format!("`{key}`")), "{e}");
            assert!(e.next_step().is_some(), "{e}");
        }
    }

    #[test]
    fn what_forbids_to_write_does_not_forbid_to_read_and_the_other_way_round() {
        for (key, value, opened, written, read) in [
            ("row-tracking.enabled", "true", true, false, true),
            ("file.format", "orc", true, false, true),
            ("target-file-size", "12 parsecs", true, false, true),
            ("fields.a.default-value", "7", true, false, true),
            ("file-index.bloom-filter.columns", "a", true, false, true),
            ("file-index.read.enabled", "false", true, true, true),
            ("scan.mode", "latest", true, true, true),
            ("scan.snapshot-id", "3", true, true, false),
            ("scan.mode", "from-snapshot", true, true, false),
            ("deletion-vectors.enabled", "true", true, false, false),
            ("data-evolution.enabled", "true", true, false, false),
            ("type", "format-table", false, false, false),
            ("primary-key", "id", false, false, false),
            ("partition.legacy-name", "perhaps", false, false, false),
            ("snapshot.num-retained.max", "3", true, true, true),
            ("my-team.owner", "x", true, true, true),
        ] {
            let parsed = TableOptions::parse(&raw(&[(key, value)]), 3);
            let writable = parsed.as_ref().is_ok_and(|o| o.check_writable().is_ok());
            let readable = parsed.as_ref().is_ok_and(|o| o.check_readable().is_ok());
            assert_eq!((parsed.is_ok(), writable, readable), (opened, written, read), "{key} = {value}");
        }
    }

    #[test]
    fn what_is_refused_stands_as_refused_and_nothing_else_does() {
        for (rules, forbids_writing, forbids_reading) in [(REFUSED, true, true), (NOT_WRITTEN, true, false), (NOT_READ, false, true)] {
            for (key, _) in rules {
                let standing = known::standing(key).unwrap();
                // An option that has an own rule and is honoured otherwise is refused for some of its values.
                let right = match standing {
                    Standing::Refused => true,
                    Standing::NotWritten => forbids_writing && !forbids_reading,
                    Standing::NotRead => forbids_reading && !forbids_writing,
                    Standing::Honoured => *key == "consumer.changelog-only",
                    Standing::Others(_) => false,
                };
                assert!(right, "{key} is {standing:?}");
            }
        }
    }

    #[test]
    fn a_new_table_takes_no_slip_and_no_layout_of_others() {
        let refused = |key: &str| TableOptions::check_new(&raw(&[(key, "1")])).unwrap_err().to_string();
        assert!(refused("target_file_size").contains("did you mean `target-file-size`?"));
        assert!(refused("bukcet").contains("did you mean `bucket`?"));
        assert!(refused("parquet.block.size").contains("`parquet.block.size`"));
        assert!(refused("file.block-size").contains("`file.block-size`"));
        for free in ["snapshot.num-retained.max", "owner", "sink.parallelism", "write-buffer-size"] {
            assert!(TableOptions::check_new(&raw(&[(free, "1")])).is_ok(), "{free}");
        }
    }

    #[test]
    fn a_new_table_has_no_codec_that_some_reader_refuses() {
        for (codec, new) in [("zstd", true), ("NULL", true), ("deflate", true), ("zstandard", false), ("none", false)] {
            let raw = raw(&[("manifest.compression", codec)]);
            assert_eq!(TableOptions::check_new(&raw).is_ok(), new, "{codec}");
            assert!(TableOptions::parse(&raw, 3).is_ok(), "{codec} in a table that exists");
        }
        assert!(TableOptions::check_new(&raw(&[])).is_ok());
    }

    #[test]
    fn old_schema_files_have_other_defaults() {
        let refused = |pairs: &[(&str, &str)], version| TableOptions::parse(&raw(pairs), version).unwrap().check_writable().unwrap_err();
        assert!(refused(&[], 1).message().contains("`bucket` = `1`"));
        assert!(refused(&[("bucket", "-1")], 1).message().contains("`file.format`"));
        assert!(refused(&[], 2).message().contains("`file.format`"));
        assert!(TableOptions::parse(&raw(&[("bucket", "-1"), ("file.format", "parquet")]), 1).is_ok());
    }
}
