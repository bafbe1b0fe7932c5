//! Every name and path of a table, relative to its root, `/` between segments.

use chrono::{Datelike as _, Timelike as _};

use super::options::{RawOptions, TableOptions};
use crate::datafile::Layout;
use crate::error::{Error, Result};
use crate::schema::{DataType, Field, Scalar, Schema};

/// Directory of snapshots, hints and temporary files of their publication.
pub const SNAPSHOT_DIR: &str = "snapshot";
/// Directory of schemas.
pub const SCHEMA_DIR: &str = "schema";
/// Directory of manifests and manifest lists.
pub const MANIFEST_DIR: &str = "manifest";
/// Directory of consumers.
pub const CONSUMER_DIR: &str = "consumer";
/// Directory of tags.
pub const TAG_DIR: &str = "tag";
/// The hint at the newest snapshot.
pub const LATEST: &str = "snapshot/LATEST";
/// The hint at the oldest snapshot.
pub const EARLIEST: &str = "snapshot/EARLIEST";

/// `schema/schema-<id>`
pub fn schema(id: u64) -> String {
    format!("{SCHEMA_DIR}/schema-{id}")
}
/// `snapshot/snapshot-<id>`
pub fn snapshot(id: u64) -> String {
    format!("{SNAPSHOT_DIR}/snapshot-{id}")
}
/// `manifest/<name>`: manifests, manifest lists and index manifests are named without their directory.
pub fn manifest(name: &str) -> String {
    format!("{MANIFEST_DIR}/{name}")
}
/// `consumer/consumer-<id>`
pub fn consumer(id: &str) -> String {
    format!("{CONSUMER_DIR}/consumer-{id}")
}
/// `tag/tag-<name>`
pub fn tag(name: &str) -> String {
    format!("{TAG_DIR}/tag-{name}")
}
/// The id in `<prefix><id>`; `None` for every other name. Only the spelling that we would write: no sign, no leading zeros.
pub fn id_of(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if plain { digits.parse().ok() } else { None }
}

/// Longest name that the usual file systems take, bytes.
const MAX_SEGMENT: usize = 255;

/// Where data files lie, and how partitions are spelt.
#[derive(Clone, Debug, PartialEq)]
pub struct PaimonLayout {
    partition_fields: Vec<Field>,
    default_name: String,
    legacy_name: bool,
    prefix: String,
    directory: Option<String>,
}

impl PaimonLayout {
    /// Of a table with this schema and these options.
    pub fn new(schema: &Schema, options: &TableOptions) -> PaimonLayout {
        PaimonLayout {
            partition_fields: schema.partition_indices().into_iter().map(|i| schema.fields[i].clone()).collect(),
            default_name: options.partition_default_name.clone(),
            legacy_name: options.partition_legacy_name,
            prefix: options.data_file_prefix.clone(),
            directory: options.data_file_directory.clone(),
        }
    }

    /// Checks that directories of these partition columns can be spelt so that every reader finds them. `Invalid` names the column.
    pub(crate) fn check(schema: &Schema, options: &TableOptions) -> Result<()> {
        let unsure = |f: &Field| match f.data_type {
            DataType::TimestampLtz(_) => Some("Java spells its values in the time zone that a program happens to run in"),
            DataType::Time(1..) => Some("readers spell whole seconds differently"),
            _ => None,
        };
        let by = schema.fields.iter().filter(|f| schema.partition_by.contains(&f.name) && !options.partition_legacy_name);
        match by.into_iter().find_map(|f| Some((f, unsure(f)?))) {
            Some((f, why)) => {
                let what = format!(
                    "the column `{}` of type {} cannot partition a table with `partition.legacy-name` = false",
                    f.name, f.data_type
                );
                Err(Error::invalid(format!("{what}: {why}")).hint("leave the option out, or partition by a DATE"))
            }
            None => Ok(()),
        }
    }

    /// Of a table of any writer, of which only partition columns and raw options are known: nothing is refused.
    pub(crate) fn of_any(partition_fields: Vec<Field>, options: &RawOptions) -> PaimonLayout {
        let text = |key: &str| options.get(key).cloned();
        PaimonLayout {
            partition_fields,
            default_name: text("partition.default-name").unwrap_or_else(|| "__DEFAULT_PARTITION__".to_owned()),
            legacy_name: text("partition.legacy-name").is_none_or(|v| v.eq_ignore_ascii_case("true")),
            prefix: text("data-file.prefix").unwrap_or_else(|| "data-".to_owned()),
            directory: text("data-file.path-directory").map(|d| d.trim_matches('/').to_owned()).filter(|d| !d.is_empty()),
        }
    }

    /// Types of the partition columns.
    pub fn partition_types(&self) -> Vec<DataType> {
        self.partition_fields.iter().map(|f| f.data_type.clone()).collect()
    }

    /// The directory of a bucket, without a slash at its end.
    ///
    /// `Invalid` names the column whose value cannot be a directory.
    pub fn bucket_dir(&self, partition: &[Option<Scalar>], bucket: i32) -> Result<String> {
        if partition.len() != self.partition_fields.len() {
            let what = format!("{} partition values where the table has {}", partition.len(), self.partition_fields.len());
            return Err(Error::invalid(what).hint("write one value for each partition column"));
        }
        let mut dir = self.directory.as_ref().map(|d| format!("{d}/")).unwrap_or_default();
        for (field, value) in self.partition_fields.iter().zip(partition) {
            let segment = format!("{}={}", escape(&field.name), escape(&self.text(field, value.as_ref())?));
            if segment.len() > MAX_SEGMENT {
                let what = format!(
                    "a value of the partition column `{}` makes a directory name of {} bytes, and {MAX_SEGMENT} are allowed",
                    field.name,
                    segment.len()
                );
                return Err(Error::invalid(what).hint("partition by something shorter"));
            }
            dir.push_str(&segment);
            dir.push('/');
        }
        dir.push_str(&if bucket == -2 { "bucket-postpone".to_owned() } else { format!("bucket-{bucket}") });
        Ok(dir)
    }

    /// The partition as people write it: `dt=2024-01-02/region=eu`, neither escaped nor in legacy spelling; null is `null`.
    pub fn partition_label(&self, partition: &[Option<Scalar>]) -> String {
        let one = |(f, v): (&Field, &Option<Scalar>)| match v {
            None => format!("{}=null", f.name),
            Some(v) => format!("{}={}", f.name, sql_text(&f.data_type, v)),
        };
        self.partition_fields.iter().zip(partition).map(one).collect::<Vec<_>>().join("/")
    }

    fn text(&self, field: &Field, value: Option<&Scalar>) -> Result<String> {
        let Some(value) = value else { return Ok(self.default_name.clone()) };
        let zoned = matches!(field.data_type, DataType::TimestampLtz(_)) && !self.legacy_name;
        let text = spell(&field.data_type, value, self.legacy_name).filter(|_| !zoned).ok_or_else(|| {
            let what = format!("the partition column `{}` has the value {value:?}, which has no directory name", field.name);
            Error::invalid(what).hint("partition by another column")
        })?;
        Ok(if text.chars().all(is_java_whitespace) { self.default_name.clone() } else { text })
    }
}

impl Layout for PaimonLayout {
    fn file_path(&self, partition: &[Option<Scalar>], bucket: i32, unique: &str, counter: u32) -> Result<String> {
        Ok(format!("{}/{}{unique}-{counter}.parquet", self.bucket_dir(partition, bucket)?, self.prefix))
    }
}

/// A value as SQL spells it; what has no such text in its debug form.
pub fn sql_text(data_type: &DataType, value: &Scalar) -> String {
    spell(data_type, value, false).unwrap_or_else(|| format!("{value:?}"))
}

/// A value as text: legacy by Java's `toString` of the internal value, else as a cast to a string makes it. `None`: a type that does not
/// partition, or where a cast makes only four digits of a year, another year.
fn spell(data_type: &DataType, value: &Scalar, legacy: bool) -> Option<String> {
    match value {
        Scalar::Bool(v) => Some(v.to_string()),
        Scalar::Int(v) => Some(v.to_string()),
        Scalar::String(v) => Some(v.clone()),
        Scalar::Decimal(v) => match data_type {
            DataType::Decimal { scale, .. } => Some(decimal(*v, usize::from(*scale))),
            _ => None,
        },
        Scalar::Date(v) if legacy => Some(v.to_string()),
        Scalar::Date(v) => sql_date(chrono::NaiveDate::from_epoch_days(*v)?),
        Scalar::Time(ms) if legacy => Some(ms.to_string()),
        Scalar::Time(ms) => Some(sql_time(u32::try_from(*ms).ok()?, precision(data_type)?)),
        Scalar::Float(v) if !legacy => Some(v.to_string()),
        Scalar::Double(v) if !legacy => Some(v.to_string()),
        Scalar::Timestamp(us) => wall_clock(us.div_euclid(1_000_000), us.rem_euclid(1_000_000) * 1000, precision(data_type)?, legacy),
        Scalar::TimestampNanos(ns) => wall_clock(ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000), precision(data_type)?, legacy),
        _ => None,
    }
}

fn precision(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Time(p) | DataType::Timestamp(p) | DataType::TimestampLtz(p) => Some(usize::from(*p)),
        _ => None,
    }
}

/// Without exponent, with all digits of the scale.
fn decimal(unscaled: i128, scale: usize) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale == 0 { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

fn sql_date(date: chrono::NaiveDate) -> Option<String> {
    (0..=9999).contains(&date.year()).then(|| date.format("%Y-%m-%d").to_string())
}

/// A fraction ends with its last digit that is not zero, at the latest where the precision ends, and has one digit at least.
fn sql_time(ms: u32, precision: usize) -> String {
    let mut text = format!("{:02}:{:02}:{:02}", ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    let mut rest = ms % 1000;
    for digit in 0..precision {
        text.push_str(if digit == 0 { "." } else { "" });
        text.push_str(&(rest / 100).to_string());
        rest = rest % 100 * 10;
        if rest == 0 {
            break;
        }
    }
    text
}

fn wall_clock(seconds: i64, nanos: i64, precision: usize, legacy: bool) -> Option<String> {
    let at = chrono::DateTime::from_timestamp(seconds, u32::try_from(nanos).ok()?)?.naive_utc();
    let nine = format!("{nanos:09}");
    if !legacy {
        // Finer than its type it has all its digits.
        let zeros = nine.len() - nine.trim_end_matches('0').len();
        let fraction = &nine[..nine.len() - zeros.min(9 - precision.min(9))];
        let point = if fraction.is_empty() { "" } else { "." };
        return Some(format!("{} {}{point}{fraction}", sql_date(at.date())?, at.format("%H:%M:%S")));
    }
    let year = match at.year() {
        y @ 10_000.. => format!("+{y}"),
        y @ 0.. => format!("{y:04}"),
        y => format!("-{:04}", y.unsigned_abs()),
    };
    let mut text = format!("{year}{}", at.format("-%m-%dT%H:%M"));
    if at.second() > 0 || nanos > 0 {
        text.push_str(&at.format(":%S").to_string());
    }
    if nanos > 0 {
        // Groups of three digits, as many as are needed.
        let groups = if nine.ends_with("000000") {
            3
        } else if nine.ends_with("000") {
            6
        } else {
            9
        };
        text.push('.');
        text.push_str(&nine[..groups]);
    }
    Some(text)
}

/// The characters that count as blank in the format: not the non-breaking spaces, but the four separators of ASCII.
fn is_java_whitespace(c: char) -> bool {
    match c {
        '\u{1c}'..='\u{1f}' => true,
        '\u{85}' | '\u{a0}' | '\u{2007}' | '\u{202f}' => false,
        _ => c.is_whitespace(),
    }
}

/// Escapes what cannot stand in a directory name: `%` and two hexadecimal digits. A blank is left as it is.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0'..='\x1f' | '\x7f' | '"' | '#' | '%' | '\'' | '*' | '/' | ':' | '=' | '?' | '\\' | '{' | '}' | '[' | ']' | '^' => {
                out.push_str(&format!("%{:02X}", c as u32));
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(columns: &[(&str, &str)], options: &[(&str, &str)]) -> PaimonLayout {
        let fields: Vec<_> = columns.iter().zip(0..).map(|((n, t), id)| Field::parse(id, *n, t).unwrap()).collect();
        let partition_by = fields.iter().map(|f| f.name.clone()).collect();
        let raw: RawOptions = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        PaimonLayout::new(&Schema { id: 0, fields, partition_by }, &TableOptions::parse(&raw, 3).unwrap())
    }
    fn text(s: &str) -> Option<Scalar> {
        Some(Scalar::String(s.into()))
    }

    #[test]
    fn partition_values_are_spelt_as_all_engines_do() {
        let dt = layout(&[("dt", "STRING")], &[]);
        let dir = |s: &str| dt.bucket_dir(&[text(s)], 0).unwrap();
        assert_eq!(dir("a/b=c:d%e f"), "dt=a%2Fb%3Dc%3Ad%25e f/bucket-0");
        assert_eq!(dir("..\n\u{7f}~é"), "dt=..%0A%7F~é/bucket-0");
        for blank in ["", " ", "\t\n", "\u{1f}", "\u{3000}"] {
            assert_eq!(dir(blank), "dt=__DEFAULT_PARTITION__/bucket-0", "{blank:?}");
        }
        assert_eq!(dir("\u{a0}"), "dt=\u{a0}/bucket-0");
        assert_eq!(dt.bucket_dir(&[None], 0).unwrap(), "dt=__DEFAULT_PARTITION__/bucket-0");
    }

    #[test]
    fn dates_are_days_by_default_and_dates_on_request() {
        let types = [("d", "DATE"), ("b", "BOOLEAN"), ("n", "INT")];
        let values = [Some(Scalar::Date(19724)), Some(Scalar::Bool(true)), Some(Scalar::Int(-5))];
        let old = layout(&types, &[]);
        assert_eq!(old.bucket_dir(&values, 0).unwrap(), "d=19724/b=true/n=-5/bucket-0");
        let new = layout(&types, &[("partition.legacy-name", "false"), ("data-file.path-directory", "data")]);
        assert_eq!(new.file_path(&values, 0, "u", 3).unwrap(), "data/d=2024-01-02/b=true/n=-5/bucket-0/data-u-3.parquet");
        assert_eq!(old.partition_label(&values), "d=2024-01-02/b=true/n=-5");
        assert!(new.bucket_dir(&[Some(Scalar::Date(i32::MAX)), None, None], 0).unwrap_err().message().contains("`d`"));
    }

    /// What Java Paimon 1.4.2 answers to `directories` (tests/interop): type, value, text by default, text with `partition.legacy-name` = false.
    #[test]
    fn every_type_is_spelt_as_java_spells_it() {
        let us = |v: i64| Scalar::Timestamp(v);
        let ns = |v: i64| Scalar::TimestampNanos(v);
        let cases = [
            ("DECIMAL(10, 2)", Scalar::Decimal(-129), "-1.29", "-1.29"),
            ("DECIMAL(10, 2)", Scalar::Decimal(0), "0.00", "0.00"),
            ("DECIMAL(38, 10)", Scalar::Decimal(1), "0.0000000001", "0.0000000001"),
            ("DECIMAL(3, 3)", Scalar::Decimal(-100), "-0.100", "-0.100"),
            ("DECIMAL(5, 0)", Scalar::Decimal(100), "100", "100"),
            ("DATE", Scalar::Date(-719_528), "-719528", "0000-01-01"),
            ("TIME(0)", Scalar::Time(3_723_000), "3723000", "01%3A02%3A03"),
            ("TIME(3)", Scalar::Time(0), "0", "00%3A00%3A00.0"),
            ("TIME(3)", Scalar::Time(10), "10", "00%3A00%3A00.01"),
            ("TIME(3)", Scalar::Time(86_399_999), "86399999", "23%3A59%3A59.999"),
            ("TIME(1)", Scalar::Time(123), "123", "00%3A00%3A00.1"),
            ("TIME(2)", Scalar::Time(3), "3", "00%3A00%3A00.00"),
            ("TIME(2)", Scalar::Time(100), "100", "00%3A00%3A00.1"),
            ("TIME(9)", Scalar::Time(3_723_004), "3723004", "01%3A02%3A03.004"),
            ("TIMESTAMP(0)", us(0), "1970-01-01T00%3A00", "1970-01-01 00%3A00%3A00"),
            ("TIMESTAMP(0)", us(123_000), "1970-01-01T00%3A00%3A00.123", "1970-01-01 00%3A00%3A00.123"),
            ("TIMESTAMP(1)", us(120_000), "1970-01-01T00%3A00%3A00.120", "1970-01-01 00%3A00%3A00.12"),
            ("TIMESTAMP(2)", us(0), "1970-01-01T00%3A00", "1970-01-01 00%3A00%3A00.00"),
            ("TIMESTAMP(3)", us(1_700_000_000_100_000), "2023-11-14T22%3A13%3A20.100", "2023-11-14 22%3A13%3A20.100"),
            ("TIMESTAMP(3)", us(-1000), "1969-12-31T23%3A59%3A59.999", "1969-12-31 23%3A59%3A59.999"),
            ("TIMESTAMP(3)", us(1_699_999_980_000_000), "2023-11-14T22%3A13", "2023-11-14 22%3A13%3A00.000"),
            ("TIMESTAMP(4)", us(100_000), "1970-01-01T00%3A00%3A00.100", "1970-01-01 00%3A00%3A00.1000"),
            ("TIMESTAMP(6)", us(-1), "1969-12-31T23%3A59%3A59.999999", "1969-12-31 23%3A59%3A59.999999"),
            ("TIMESTAMP(6)", us(1_700_000_000_120_000), "2023-11-14T22%3A13%3A20.120", "2023-11-14 22%3A13%3A20.120000"),
            ("TIMESTAMP(8)", ns(0), "1970-01-01T00%3A00", "1970-01-01 00%3A00%3A00.00000000"),
            ("TIMESTAMP(9)", ns(1_700_000_000_123_456_000), "2023-11-14T22%3A13%3A20.123456", "2023-11-14 22%3A13%3A20.123456000"),
            ("TIMESTAMP(9)", ns(1), "1970-01-01T00%3A00%3A00.000000001", "1970-01-01 00%3A00%3A00.000000001"),
        ];
        for (data_type, value, legacy, sql) in cases {
            let dir = |options: &[(&str, &str)]| layout(&[("p", data_type)], options).bucket_dir(&[Some(value.clone())], 0).unwrap();
            assert_eq!(dir(&[]), format!("p={legacy}/bucket-0"), "{data_type}");
            assert_eq!(dir(&[("partition.legacy-name", "false")]), format!("p={sql}/bucket-0"), "{data_type}");
        }
        let years = [
            (-62_167_219_200_001_000, "-0001-12-31T23%3A59%3A59.999"),
            (-70_000_000_000_000_000, "-0249-10-15T19%3A33%3A20"),
            (253_402_300_800_000_000, "+10000-01-01T00%3A00"),
        ];
        for (v, text) in years {
            let of = |legacy: &str| layout(&[("p", "TIMESTAMP(3)")], &[("partition.legacy-name", legacy)]).bucket_dir(&[Some(us(v))], 0);
            assert_eq!(of("true").unwrap(), format!("p={text}/bucket-0"));
            assert!(of("false").unwrap_err().message().contains("`p`"));
        }
        // Java spells these in the zone of the machine.
        let zoned = layout(&[("p", "TIMESTAMP(6) WITH LOCAL TIME ZONE")], &[("partition.legacy-name", "false")]);
        assert!(zoned.bucket_dir(&[Some(us(0))], 0).is_err());
        let utc = layout(&[("p", "TIMESTAMP(6) WITH LOCAL TIME ZONE")], &[]);
        assert_eq!(utc.bucket_dir(&[Some(us(0))], 0).unwrap(), "p=1970-01-01T00%3A00/bucket-0");
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_by_its_column() {
        let dt = layout(&[("dt", "STRING")], &[]);
        assert!(dt.bucket_dir(&[text(&"x".repeat(252))], 0).is_ok());
        let e = dt.bucket_dir(&[text(&"x".repeat(253))], 0).unwrap_err();
        assert_eq!(e.kind(), crate::Kind::Invalid);
        assert!(e.message().contains("`dt`"), "{e}");
        assert!(dt.bucket_dir(&[text(&"é".repeat(150))], 0).is_err());
        assert!(dt.bucket_dir(&[], 0).is_err());
    }

    #[test]
    fn only_plain_ids_are_ids() {
        assert_eq!(id_of("snapshot-17", "snapshot-"), Some(17));
        for name in
            ["snapshot-", "snapshot-7#1", "snapshot-007", "snapshot-+7", ".snapshot-7.u.tmp", "LATEST", "snapshot-99999999999999999999"]
        {
            assert_eq!(id_of(name, "snapshot-"), None, "{name}");
        }
    }
}
