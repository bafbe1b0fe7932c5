//! Every name and path of a table, relative to its root, `/` between segments.

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
/// Directory of what pipelines register; other engines' cleaning leaves it alone.
pub const REGISTRATION_DIR: &str = "_lakeward";
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
/// `_lakeward/<pipeline>/<seq, 20 digits>.json`
pub fn registration(pipeline: &str, seq: u64) -> String {
    format!("{REGISTRATION_DIR}/{pipeline}/{seq:020}.json")
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
            Some(v) => format!("{}={}", f.name, spell(v, false).unwrap_or_else(|| format!("{v:?}"))),
        };
        self.partition_fields.iter().zip(partition).map(one).collect::<Vec<_>>().join("/")
    }

    fn text(&self, field: &Field, value: Option<&Scalar>) -> Result<String> {
        let Some(value) = value else { return Ok(self.default_name.clone()) };
        let text = spell(value, self.legacy_name).ok_or_else(|| {
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

/// A value as text. Legacy: a date is its number of days. `None`: a type that does not partition, or a year that has not four digits.
fn spell(value: &Scalar, legacy: bool) -> Option<String> {
    match value {
        Scalar::Bool(v) => Some(v.to_string()),
        Scalar::Int(v) => Some(v.to_string()),
        Scalar::String(v) => Some(v.clone()),
        Scalar::Date(v) if legacy => Some(v.to_string()),
        Scalar::Date(v) => {
            let date = chrono::DateTime::from_timestamp(i64::from(*v) * 86_400, 0)?.date_naive();
            use chrono::Datelike as _;
            (0..=9999).contains(&date.year()).then(|| date.format("%Y-%m-%d").to_string())
        }
        _ => None,
    }
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
        assert_eq!(registration("orders", 7), "_lakeward/orders/00000000000000000007.json");
    }
}
