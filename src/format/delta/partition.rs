//! Partition values: as texts in the log, as directories, and as the paths of the log. The log's text decides what a value is; a directory
//! is only read by engines that know no better.

mod uri;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{Datelike as _, NaiveDate};
use sha2::{Digest as _, Sha256};

pub use uri::{uri_decode, uri_encode};

use crate::datafile::{Compression, Layout};
use crate::error::{Error, Result};
use crate::format::paimon::paths::escape;
use crate::schema::{DataType, Field, Hex, Scalar, Schema};
use crate::text::number::{Exact, POW10};
use crate::text::time::{parse_date, parse_timestamp};

/// Name of the directory of null.
pub const NULL_DIRECTORY: &str = "__HIVE_DEFAULT_PARTITION__";

/// Checks that a new table may be partitioned by this column. `Invalid` otherwise.
pub fn check_new(field: &Field) -> Result<()> {
    let why = match &field.data_type {
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => {
            "the format keeps its values as texts, and not all bytes are text"
        }
        nested if nested.is_nested() => "its values have parts",
        _ => return Ok(()),
    };
    let what = format!("the column `{}` of type {} cannot partition a table: {why}", field.name, field.data_type);
    Err(Error::invalid(what).hint("partition by another column, or by a STRING that you make of this one; `date(ts)` makes a DATE"))
}

/// Checks that rows can be added to a table with these partition columns, whoever made it. `Invalid` otherwise.
pub fn check_append(schema: &Schema) -> Result<()> {
    let binary = |f: &&Field| schema.partition_by.contains(&f.name) && f.data_type == DataType::Bytes;
    match schema.fields.iter().find(binary) {
        Some(f) => Err(Error::invalid(format!("the table is partitioned by the BYTES column `{}`, which cannot be written", f.name))
            .hint("write to a table that is partitioned by another column")),
        None => Ok(()),
    }
}

/// The text of a value in the log. None: null, and the empty string, which is null to the format. `Invalid`: the value has no text that
/// every engine reads.
pub fn to_text(data_type: &DataType, value: Option<&Scalar>) -> Result<Option<String>> {
    spelt(data_type, value, 'T', "Z")
}

/// The same text as a directory has it: moments as older engines wrote them, because those that go by directories read no other form.
fn to_directory(data_type: &DataType, value: Option<&Scalar>) -> Result<Option<String>> {
    spelt(data_type, value, ' ', "")
}

fn spelt(data_type: &DataType, value: Option<&Scalar>, between: char, zone: &str) -> Result<Option<String>> {
    let Some(value) = value else { return Ok(None) };
    let shown = match value {
        Scalar::String(text) => format!("{text:?}"),
        other => format!("{other:?}"),
    };
    let refused = |why: &str| Error::invalid(format!("the value {shown} cannot name a partition: {why}"));
    let years = || refused("it is outside the years 0001 to 9999").hint("partition by a column with sane values");
    Ok(Some(match (data_type, value) {
        (DataType::Char(_) | DataType::VarChar(_) | DataType::String, Scalar::String(text)) => {
            if text.contains('\0') {
                return Err(refused("it has a NUL character").hint("take it out of the value"));
            }
            if text.is_empty() {
                return Ok(None);
            }
            text.clone()
        }
        (_, Scalar::Bool(v)) => v.to_string(),
        (_, Scalar::Int(v)) => v.to_string(),
        (DataType::Decimal { scale, .. }, Scalar::Decimal(v)) => decimal(*v, usize::from(*scale)),
        (_, Scalar::Float(v)) => java_float(f64::from(*v), &format!("{v:e}")),
        (_, Scalar::Double(v)) => java_float(*v, &format!("{v:e}")),
        (DataType::Date, Scalar::Date(days)) => date(*days).ok_or_else(years)?,
        (DataType::Timestamp(_), Scalar::Timestamp(us)) => moment(*us, ' ', "").ok_or_else(years)?,
        (DataType::TimestampLtz(_), Scalar::Timestamp(us)) => moment(*us, between, zone).ok_or_else(years)?,
        _ => return Err(refused(&format!("it is no value of type {data_type} that can")).hint("partition by another column")),
    }))
}

/// Without exponent, with all digits of the scale: others make the table unreadable for most engines.
pub(super) fn decimal(unscaled: i128, scale: usize) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// `YYYY-MM-DD`; none outside of the years 1 to 9999.
pub(super) fn date(days: i32) -> Option<String> {
    let date = NaiveDate::from_epoch_days(days)?;
    (1..=9999).contains(&date.year()).then(|| date.format("%Y-%m-%d").to_string())
}

/// Always six digits of a second: a reader that takes the form from the first directory that it sees finds the same in all.
fn moment(us: i64, between: char, zone: &str) -> Option<String> {
    let at = chrono::DateTime::from_timestamp_micros(us)?.naive_utc();
    let day = date(at.date().to_epoch_days())?;
    Some(format!("{day}{between}{}{zone}", at.format("%H:%M:%S%.6f")))
}

/// As Java's `toString`: at least one digit after the point; an exponent below 10^-3 and from 10^7. `short` is the shortest form that is
/// still this value, with an exponent.
fn java_float(value: f64, short: &str) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (digits, exponent) = short.split_once('e').unwrap_or((short, "0"));
    if value != 0.0 && !(1e-3..1e7).contains(&value.abs()) {
        let point = if digits.contains('.') { "" } else { ".0" };
        return format!("{digits}{point}E{exponent}");
    }
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |d| ("-", d));
    let digits = digits.replace('.', "");
    let (whole, fraction) = match usize::try_from(exponent) {
        Ok(up) => {
            let digits = format!("{digits:0<width$}", width = up + 1);
            let (whole, fraction) = digits.split_at(up + 1);
            (whole.to_owned(), fraction.to_owned())
        }
        Err(_) => ("0".to_owned(), format!("{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1))),
    };
    format!("{sign}{whole}.{}", if fraction.is_empty() { "0" } else { &fraction })
}

/// Reads a text of the log, in every form that engines have written: moments with and without a zone (without means UTC), decimals with
/// any number of digits that fits. `Data`: it is no value of the type.
pub fn from_text(data_type: &DataType, text: Option<&str>) -> Result<Option<Scalar>> {
    // To the format, an empty text is null whatever the type.
    let Some(text) = text.filter(|t| !t.is_empty()) else { return Ok(None) };
    let whole = |least: i64, most: i64| text.parse().ok().filter(|v| (least..=most).contains(v)).map(Scalar::Int);
    let found = match data_type {
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => Some(Scalar::String(text.to_owned())),
        DataType::Boolean if text.eq_ignore_ascii_case("true") => Some(Scalar::Bool(true)),
        DataType::Boolean if text.eq_ignore_ascii_case("false") => Some(Scalar::Bool(false)),
        DataType::TinyInt => whole(i8::MIN.into(), i8::MAX.into()),
        DataType::SmallInt => whole(i16::MIN.into(), i16::MAX.into()),
        DataType::Int => whole(i32::MIN.into(), i32::MAX.into()),
        DataType::BigInt => whole(i64::MIN, i64::MAX),
        DataType::Float => text.parse().ok().map(Scalar::Float),
        DataType::Double => text.parse().ok().map(Scalar::Double),
        DataType::Decimal { precision, scale } => {
            let unscaled = Exact::parse(text.as_bytes()).ok().and_then(|e| e.scaled(*scale).ok());
            unscaled.filter(|v| POW10.get(usize::from(*precision)).is_some_and(|most| v.abs() < *most)).map(Scalar::Decimal)
        }
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => Some(Scalar::Bytes(text.as_bytes().to_vec())),
        DataType::Date => parse_date(text.as_bytes()).ok().map(Scalar::Date),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => parse_timestamp(text.as_bytes()).ok().map(|at| Scalar::Timestamp(at.us)),
        _ => None,
    };
    match found {
        Some(value) => Ok(Some(value)),
        None => Err(Error::data(format!("the partition value {text:?} is no {data_type}")).hint("the log is damaged: restore it")),
    }
}

fn partition_fields(schema: &Schema) -> Vec<&Field> {
    schema.partition_indices().into_iter().map(|i| &schema.fields[i]).collect()
}

/// The `partitionValues` of a file, from the values in partition order. `Invalid` names the column whose value cannot be kept.
pub fn values(schema: &Schema, partition: &[Option<Scalar>]) -> Result<BTreeMap<String, Option<String>>> {
    let fields = partition_fields(schema);
    check_count(fields.len(), partition.len())?;
    let one = |(field, value): (&&Field, &Option<Scalar>)| Ok((field.name.clone(), checked(field, value.as_ref(), to_text)?));
    fields.iter().zip(partition).map(one).collect()
}

/// The values of a file's partition, in partition order, from its `partitionValues`; a missing one is null. `Data` names the column whose
/// text is no value.
pub fn scalars(schema: &Schema, values: &BTreeMap<String, Option<String>>) -> Result<Vec<Option<Scalar>>> {
    let one = |field: &&Field| {
        let text = values.get(&field.name).and_then(Option::as_deref);
        from_text(&field.data_type, text).map_err(|e| e.at(format!("partition column `{}`", field.name)))
    };
    partition_fields(schema).iter().map(one).collect()
}

fn check_count(columns: usize, values: usize) -> Result<()> {
    if columns == values {
        return Ok(());
    }
    Err(Error::invalid(format!("{values} partition values where the table has {columns}"))
        .hint("write one value for each partition column"))
}

type Spell = fn(&DataType, Option<&Scalar>) -> Result<Option<String>>;

fn checked(field: &Field, value: Option<&Scalar>, spell: Spell) -> Result<Option<String>> {
    // Into the message, because dead letters have nothing else of an error.
    let text = spell(&field.data_type, value).map_err(|e| {
        let named = Error::new(e.kind(), format!("partition column `{}`: {}", field.name, e.message()));
        named.hint(e.next_step().unwrap_or("partition by another column"))
    })?;
    if text.is_none() && !field.nullable {
        let what = match value {
            Some(_) => "is empty, which is null to the format, and the column is NOT NULL",
            None => "is null, and the column is NOT NULL",
        };
        let what = format!("the value of the partition column `{}` {what}", field.name);
        return Err(Error::invalid(what).hint("give it a value, or leave NOT NULL out"));
    }
    Ok(text)
}

/// Longest name that the usual file systems take, bytes.
const MAX_SEGMENT: usize = 255;
/// What all directories of a file may take together, bytes: object stores allow 1,024 for a whole key.
const MAX_DIRECTORIES: usize = 800;

/// Where data files lie: a directory for each partition column, as Hive names them.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaLayout {
    fields: Vec<Field>,
    extension: &'static str,
}

impl DeltaLayout {
    /// Of a table with this schema, whose files are packed so.
    pub fn new(schema: &Schema, compression: Compression) -> DeltaLayout {
        let extension = match compression {
            Compression::Zstd(_) => "zstd.parquet",
            Compression::Snappy => "snappy.parquet",
            Compression::Lz4 => "lz4raw.parquet",
            Compression::None => "parquet",
        };
        DeltaLayout { fields: partition_fields(schema).into_iter().cloned().collect(), extension }
    }

    /// The directory of a partition, with a slash at its end; empty for a table without partitions. `Invalid` names the column whose value
    /// cannot be kept.
    pub fn directory(&self, partition: &[Option<Scalar>]) -> Result<String> {
        check_count(self.fields.len(), partition.len())?;
        let longest = MAX_SEGMENT.min(MAX_DIRECTORIES / self.fields.len().max(1));
        let mut path = String::new();
        for (field, value) in self.fields.iter().zip(partition) {
            checked(field, value.as_ref(), to_text)?;
            let text = checked(field, value.as_ref(), to_directory)?;
            let text = text.map_or_else(|| NULL_DIRECTORY.to_owned(), |t| escape(&t));
            path.push_str(&shortened(format!("{}={text}", escape(&field.name)), longest));
            path.push('/');
        }
        Ok(path)
    }

    /// The partition as people write it: `dt=2024-01-02/region=eu`, not escaped; null is `null`.
    pub fn partition_label(&self, partition: &[Option<Scalar>]) -> String {
        let one = |(f, v): (&Field, &Option<Scalar>)| {
            let text = match v {
                None => "null".to_owned(),
                Some(v) => to_directory(&f.data_type, Some(v)).ok().flatten().unwrap_or_else(|| format!("{v:?}")),
            };
            format!("{}={text}", f.name)
        };
        self.fields.iter().zip(partition).map(one).collect::<Vec<_>>().join("/")
    }
}

impl Layout for DeltaLayout {
    fn file_path(&self, partition: &[Option<Scalar>], _bucket: i32, unique: &str, counter: u32) -> Result<String> {
        Ok(format!("{}part-{counter:05}-{unique}-c000.{}", self.directory(partition)?, self.extension))
    }
}

/// A name that is too long is cut, and ends with a digest of the whole: different names stay different.
fn shortened(segment: String, longest: usize) -> String {
    if segment.len() <= longest {
        return segment;
    }
    let digest = Sha256::digest(segment.as_bytes());
    let tail = format!("~{}", Hex(&digest[..16]));
    let mut end = segment.floor_char_boundary(longest.saturating_sub(tail.len()));
    // Not within `%XX`.
    if let Some(escape) = segment[..end].rfind('%').filter(|at| end - at < 3) {
        end = escape;
    }
    format!("{}{tail}", &segment[..end])
}
