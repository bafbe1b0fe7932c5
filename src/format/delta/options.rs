//! Table properties: what this writer honours, what it may leave alone, and what it must refuse.
//!
//! On a table that exists, a property that is not known is kept and left alone: without a feature it cannot change what rows or files mean.
//! Among the options of a new table it is a slip, and refused.

pub mod known;

use std::collections::BTreeMap;
use std::time::Duration;

use super::protocol::FEATURE_KEY;
use crate::datafile::{Compression, FileShape, StatsMode, WriterOptions};
use crate::error::{Error, Result};
use crate::schema::{DataType, Field, Schema};
use known::Standing;

/// Properties as they stand in `metaData.configuration`.
pub type RawOptions = BTreeMap<String, String>;

/// The properties that steer this writer, with their defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaOptions {
    /// `delta.appendOnly`: no row is changed or deleted.
    pub append_only: bool,
    /// `delta.checkpointInterval`: a checkpoint after so many commits, from 1; 100 when it is not set.
    pub checkpoint_interval: u64,
    /// `delta.checkpoint.writeStatsAsJson`: `add.stats` in checkpoints.
    pub stats_as_json: bool,
    /// `delta.checkpoint.writeStatsAsStruct`: `add.stats_parsed` and `add.partitionValues_parsed` in checkpoints.
    pub stats_as_struct: bool,
    /// `delta.logRetentionDuration`: so long the log keeps its old versions, at least.
    pub log_retention: Duration,
    /// `delta.enableExpiredLogCleanup`: may the log be cleaned up?
    pub log_cleanup: bool,
    /// `delta.deletedFileRetentionDuration`: so long removed files stay, and checkpoints name them.
    pub file_retention: Duration,
    /// `delta.setTransactionRetentionDuration`: after that engines forget who landed what.
    pub txn_retention: Option<Duration>,
    /// `delta.targetFileSize`, bytes.
    pub target_file_size: u64,
    /// `delta.parquet.compression.codec` and `lakeward.zstd-level`.
    pub compression: Compression,
    stats: StatsColumns,
    string_prefix: usize,
    not_written: Option<Refusal>,
}

/// Which columns have statistics.
#[derive(Clone, Debug, PartialEq)]
enum StatsColumns {
    /// The first so many leaves that are no partition columns; none: all.
    First(Option<usize>),
    /// Those of these paths, and what is inside of them.
    Named(Vec<Vec<String>>),
}

/// Why a table can only be read.
#[derive(Clone, Debug, PartialEq)]
struct Refusal {
    message: String,
    hint: Option<String>,
}

/// Values that a property may have without harm, compared without case.
const ALLOWED: &[(&str, &[&str])] = &[
    ("delta.columnMapping.mode", &["none"]),
    ("delta.requireCheckpointProtectionBeforeVersion", &["0"]),
    ("delta.universalFormat.enabledFormats", &[""]),
    ("delta.redirectReaderWriter-preview", &[""]),
    ("delta.redirectWriterOnly-preview", &[""]),
];

/// Less makes engines forget what a pipeline that rested for a while has landed, and it would land it again.
const LEAST_TXN_RETENTION: Duration = DAY.saturating_mul(30);
/// Commits from one checkpoint to the next, unless a table says otherwise.
const CHECKPOINT_INTERVAL: i64 = 100;
const DAY: Duration = Duration::from_secs(24 * 3600);

impl DeltaOptions {
    /// Reads the properties of a table. `Invalid` names one that forbids to read; what forbids only to write is told by
    /// [`DeltaOptions::check_writable`], and then the rest has its defaults.
    pub fn parse(raw: &RawOptions) -> Result<DeltaOptions> {
        refuse(raw, Standing::Refused)?;
        match refuse(raw, Standing::NotWritten).and_then(|()| Self::parse_to_write(raw)) {
            Ok(options) => Ok(options),
            Err(e) => {
                let mut options = Self::parse_to_write(&RawOptions::new())?;
                options.not_written = Some(Refusal { message: e.message().to_owned(), hint: e.next_step().map(str::to_owned) });
                Ok(options)
            }
        }
    }

    /// `Invalid`, by the property's name, when nothing can be written to the table.
    pub fn check_writable(&self) -> Result<()> {
        let Some(Refusal { message, hint }) = &self.not_written else { return Ok(()) };
        let e = Error::invalid(message);
        Err(if let Some(hint) = hint { e.hint(hint) } else { e })
    }

    fn parse_to_write(raw: &RawOptions) -> Result<DeltaOptions> {
        let text = |key: &str| raw.get(key).map(|v| v.trim());
        let flag = |key: &str, default: bool| match text(key) {
            None => Ok(default),
            Some(v) => boolean(v).ok_or_else(|| bad(key, v, "true or false")),
        };
        let number = |key: &str, default: i64, least: i64, wanted: &str| match text(key) {
            None => Ok(default),
            Some(v) => v.parse::<i64>().ok().filter(|n| *n >= least).ok_or_else(|| bad(key, v, wanted)),
        };
        let duration = |key: &str| match text(key) {
            None => Ok(None),
            Some(v) => {
                let wanted = "an interval of weeks, days or less, such as `interval 30 days`; months and years differ in length";
                interval(v).map(Some).ok_or_else(|| bad(key, v, wanted))
            }
        };
        // Nothing of ours depends on it, but what is no switch was meant to be one.
        flag("delta.enableChangeDataFeed", false)?;
        flag("delta.enableInCommitTimestamps", false)?;
        flag("delta.rowTrackingSuspended", false)?;
        let txn_retention = duration(TXN_RETENTION)?;
        if let Some(short) = txn_retention.filter(|d| *d < LEAST_TXN_RETENTION) {
            let what =
                format!("with `{TXN_RETENTION}` = {} days the table would forget what a pipeline has landed", short.as_secs() / 86400);
            return Err(
                Error::invalid(what).hint("unset it, or set it to `interval 30 days` or more, and longer than any pause of a pipeline")
            );
        }
        let columns = number("delta.dataSkippingNumIndexedCols", 32, -1, "a number of columns, or -1 for all")?;
        let level = number(ZSTD_LEVEL, 1, 1, "a level from 1 to 22")?;
        let level =
            i32::try_from(level).ok().filter(|l| *l <= 22).ok_or_else(|| bad(ZSTD_LEVEL, &level.to_string(), "a level from 1 to 22"))?;
        Ok(DeltaOptions {
            append_only: flag("delta.appendOnly", false)?,
            checkpoint_interval: number("delta.checkpointInterval", CHECKPOINT_INTERVAL, 1, "a number of commits, from 1")?.unsigned_abs(),
            stats_as_json: flag("delta.checkpoint.writeStatsAsJson", true)?,
            stats_as_struct: flag("delta.checkpoint.writeStatsAsStruct", false)?,
            log_retention: duration("delta.logRetentionDuration")?.unwrap_or(30 * DAY),
            log_cleanup: flag("delta.enableExpiredLogCleanup", true)?,
            file_retention: duration("delta.deletedFileRetentionDuration")?.unwrap_or(7 * DAY),
            txn_retention,
            target_file_size: match text(TARGET_FILE_SIZE) {
                None => 256 << 20,
                Some(v) => size(v).filter(|n| *n > 0).ok_or_else(|| bad(TARGET_FILE_SIZE, v, "bytes, or a size such as `128mb`"))?,
            },
            compression: compression(text(CODEC).unwrap_or("zstd"), level)?,
            stats: match text("delta.dataSkippingStatsColumns") {
                None => StatsColumns::First(usize::try_from(columns).ok()),
                Some(v) => StatsColumns::Named(column_paths(v).ok_or_else(|| {
                    bad("delta.dataSkippingStatsColumns", v, "column names with commas between them, strange ones in backticks")
                })?),
            },
            string_prefix: {
                let n = number("delta.dataSkippingStringPrefixLength", 32, 0, "a number of characters, from 0")?;
                usize::try_from(n).unwrap_or(usize::MAX)
            },
            not_written: None,
        })
    }

    /// Refuses for a new table what is refused in an old one, what our files would not follow, what only engines set, and slips: a key that
    /// is none of Delta's. `Invalid` names the key and what is right.
    pub fn check_new(raw: &RawOptions) -> Result<()> {
        if let Some((key, right)) = known::slip(raw) {
            let e = Error::invalid(format!("there is no Delta table property `{key}`"));
            return Err(match right {
                Some(right) => e.hint(format!("did you mean `{right}`?")),
                None => e.hint("leave it out; the ones that there are begin with `delta.`"),
            });
        }
        for (key, value) in raw {
            if let Some((name, near)) = known::uncreatable(key) {
                let e = Error::invalid(format!("a new table cannot be made with the feature `{name}`"));
                return Err(match near {
                    Some(near) => e.hint(format!("did you mean `{near}`?")),
                    None => e.hint("leave it out, or make the table with another engine and name it here"),
                });
            }
            let value = value.trim();
            if key.starts_with(FEATURE_KEY) && !["supported", "enabled"].iter().any(|v| v.eq_ignore_ascii_case(value)) {
                return Err(bad(key, value, "`supported`"));
            }
            let hint = match known::standing(key) {
                Some(Standing::Others("layout")) => "leave it out: files are laid out by this writer's own rules",
                Some(Standing::Others("kept")) => "leave it out: engines keep their own accounts there",
                Some(Standing::Others("catalog")) => "leave it out: a catalog keeps its own accounts there",
                Some(Standing::Others("protocol")) if !key.starts_with(FEATURE_KEY) => {
                    "leave it out: the protocol follows from the columns and the other options"
                }
                Some(Standing::Others("checkpoints")) if !value.eq_ignore_ascii_case("classic") => {
                    "only `classic` is: every engine reads it"
                }
                _ => continue,
            };
            return Err(unsupported(key, value).hint(hint));
        }
        DeltaOptions::parse(raw)?.check_writable()
    }

    /// The properties of a new table as `metaData.configuration` takes them: features stand in the protocol instead.
    pub fn configuration_of_new(raw: &RawOptions) -> RawOptions {
        let kept = raw.iter().filter(|(key, _)| !key.starts_with(FEATURE_KEY)).map(|(key, value)| (key.clone(), value.clone()));
        // Written down, because engines have defaults of their own.
        let interval = ("delta.checkpointInterval".to_owned(), CHECKPOINT_INTERVAL.to_string());
        std::iter::once(interval).chain(kept).collect()
    }

    /// How the data files of this table are written; `clustering`: paths of the columns by which it is clustered, which always have statistics;
    /// `memory`: bytes that open files may hold together. `Invalid`: a clustering column of which we make none.
    pub fn writer_options(&self, schema: &Schema, clustering: &[Vec<String>], memory: usize) -> Result<WriterOptions> {
        let mut stats_of: BTreeMap<String, StatsMode> = BTreeMap::new();
        let mut leaf = 0;
        for field in schema.fields.iter().filter(|f| !schema.partition_by.contains(&f.name)) {
            let indexed = match &self.stats {
                StatsColumns::First(most) => most.is_none_or(|most| leaf < most),
                StatsColumns::Named(paths) => paths.iter().any(|path| matches!(path.as_slice(), [name] if same(name, &field.name))),
            };
            leaf += leaves(&field.data_type);
            stats_of.insert(field.name.clone(), if indexed { self.stats_mode(field) } else { StatsMode::None });
        }
        for path in clustering {
            let field = match path.as_slice() {
                [name] => schema.fields.iter().find(|f| same(&f.name, name)),
                _ => None,
            };
            let Some((field, mode)) = field.map(|f| (f, self.stats_mode(f))).filter(|(_, mode)| !matches!(mode, StatsMode::None)) else {
                let what = format!("the table is clustered by `{}`, of which no statistics are made", path.join("."));
                return Err(Error::invalid(what).hint("cluster it by columns that are not inside of others, or use another table"));
            };
            stats_of.insert(field.name.clone(), mode);
        }
        Ok(WriterOptions {
            target_file_size: self.target_file_size,
            compression: self.compression,
            stats: StatsMode::None,
            stats_of,
            memory,
            shape: FileShape::Delta,
        })
    }

    fn stats_mode(&self, field: &Field) -> StatsMode {
        match field.data_type {
            // A struct has statistics for each field in Delta, none of its own; those of fields are not made.
            DataType::Row(_) => StatsMode::None,
            DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) => StatsMode::Counts,
            // Bounds of these have no form in Delta.
            DataType::Boolean | DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => StatsMode::Counts,
            DataType::Char(_) | DataType::VarChar(_) | DataType::String if self.string_prefix == 0 => StatsMode::Counts,
            _ => StatsMode::Truncate(self.string_prefix.max(1)),
        }
    }
}

const TXN_RETENTION: &str = "delta.setTransactionRetentionDuration";
const TARGET_FILE_SIZE: &str = "delta.targetFileSize";
const CODEC: &str = "delta.parquet.compression.codec";
const ZSTD_LEVEL: &str = "lakeward.zstd-level";

/// How many columns a type is when Delta counts those with statistics.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Row(fields) => fields.iter().map(|f| leaves(&f.data_type)).sum(),
        _ => 1,
    }
}

/// Column names that differ in case are the same one to Delta.
fn same(a: &str, b: &str) -> bool {
    a == b || a.to_lowercase() == b.to_lowercase()
}

/// `Invalid` names the first property of this standing that has a value other than its default.
fn refuse(raw: &RawOptions, standing: Standing) -> Result<()> {
    for (key, value) in raw.iter().filter(|(key, _)| known::standing(key) == Some(standing)) {
        let value = value.trim();
        let allowed = ALLOWED.iter().find(|(listed, _)| listed == key).map_or(["false"].as_slice(), |(_, allowed)| allowed);
        let in_family = known::FAMILIES.iter().any(|(_, start)| key.starts_with(start));
        let listed = known::KNOWN.iter().any(|(_, keys)| keys.contains(&key.as_str()));
        if (in_family && !listed) || !allowed.iter().any(|a| a.eq_ignore_ascii_case(value)) {
            let e = unsupported(key, value);
            return Err(match key.as_str() {
                key if key.starts_with("delta.constraints.") => {
                    e.hint("drop the constraint and give the sink `checks`, or use another table")
                }
                key if key.starts_with("delta.coordinatedCommits.") => e.hint("use an engine that commits through the coordinator"),
                "delta.compatibility.symlinkFormatManifest.enabled" => {
                    e.hint("unset it: who reads by the manifests would not see new rows, since only Spark writes them")
                }
                _ => match allowed.first().filter(|only| !only.is_empty()) {
                    Some(only) => e.hint(format!("only `{only}` is")),
                    None => e.hint("use a table without it"),
                },
            });
        }
    }
    Ok(())
}

fn unsupported(key: &str, value: &str) -> Error {
    Error::invalid(format!("the table property `{key}` = `{value}` is not supported"))
}

fn bad(key: &str, value: &str, wanted: &str) -> Error {
    Error::invalid(format!("the table property `{key}` = `{value}` is not valid")).hint(format!("it takes {wanted}"))
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn compression(text: &str, level: i32) -> Result<Compression> {
    match text.to_ascii_lowercase().as_str() {
        "zstd" => Ok(Compression::Zstd(level)),
        "snappy" => Ok(Compression::Snappy),
        "lz4" | "lz4_raw" => Ok(Compression::Lz4),
        "none" | "uncompressed" => Ok(Compression::None),
        _ => Err(unsupported(CODEC, text).hint("zstd, snappy, lz4 and none are")),
    }
}

/// A size as Spark spells it, in bytes: units are powers of 1024, no unit means bytes.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// An interval as Spark spells it: `interval 30 days`, `1 week 2 hours`, `interval '7' day`; nothing longer than a week has a fixed length
/// and is taken, and the sum is not below zero. Less than a microsecond is cut off.
fn interval(text: &str) -> Option<Duration> {
    let lower = text.trim().to_ascii_lowercase();
    let rest = lower.strip_prefix("interval").filter(|rest| rest.starts_with(char::is_whitespace)).unwrap_or(&lower);
    let words: Vec<&str> = rest.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return None;
    }
    let mut micros: i128 = 0;
    for pair in words.chunks(2) {
        let (number, unit) = (pair[0].trim_matches('\''), pair[1].strip_suffix('s').unwrap_or(pair[1]));
        let unit: i128 = match unit {
            "week" => 7 * 86_400_000_000,
            "day" => 86_400_000_000,
            "hour" => 3_600_000_000,
            "minute" => 60_000_000,
            "second" => 1_000_000,
            "millisecond" => 1000,
            "microsecond" => 1,
            _ => return None,
        };
        let (sign, digits) = match number.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        // Spark takes a fraction of seconds only, of up to nine digits.
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !plain(whole) || !plain(fraction) || whole.is_empty() || whole.len() > 18 || (digits.contains('.') && unit != 1_000_000) {
            return None;
        }
        let fraction: i128 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
        micros += sign * (whole.parse::<i128>().ok()? * unit + fraction);
    }
    u64::try_from(micros).ok().map(Duration::from_micros)
}

/// `a, b.c, `strange, name`.d`: paths of columns. None: it is not in that form.
fn column_paths(text: &str) -> Option<Vec<Vec<String>>> {
    let mut paths = Vec::new();
    let mut chars = text.chars().peekable();
    if text.trim().is_empty() {
        return Some(paths);
    }
    loop {
        let mut path = Vec::new();
        loop {
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            let mut name = String::new();
            if chars.next_if_eq(&'`').is_some() {
                loop {
                    match chars.next()? {
                        // Two of them inside are one of the name.
                        '`' if chars.next_if_eq(&'`').is_some() => name.push('`'),
                        '`' => break,
                        c => name.push(c),
                    }
                }
            } else {
                while let Some(c) = chars.next_if(|c| !matches!(c, ',' | '.' | '`')) {
                    name.push(c);
                }
                name.truncate(name.trim_end().len());
            }
            while chars.next_if(|c| c.is_whitespace()).is_some() {}
            path.push(Some(name).filter(|name| !name.is_empty())?);
            if chars.next_if_eq(&'.').is_none() {
                break;
            }
        }
        paths.push(path);
        match chars.next() {
            None => return Some(paths),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests;
