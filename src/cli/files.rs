//! `files`: what a snapshot is made of, and what nothing refers to.

use crate::cli::Failed;
use crate::cli::args::FilesArgs;
use crate::cli::output::{Columns, Output, Value};
use crate::cli::tables::{files_at, open};
use crate::error::Result;
use crate::format::Format;
use crate::format::delta::names::is_hidden;
use crate::format::paimon::paths::sql_text;
use crate::schema::{DataType, Scalar};
use crate::table::Table;

/// Lists them.
pub(crate) async fn files(args: FilesArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    if args.unreferenced {
        return unreferenced(&table, output).await;
    }
    let mut rows = output.rows(Columns::new(["path", "partition", "bucket", "size", "rows", "schema_id", "created"]));
    let files = files_at(&table, &args.when.at()).await?;
    let paimon = table.format() == Format::Paimon;
    for live in files {
        rows.push(vec![
            Value::text(&live.path),
            Value::Map(partition(&table, &live.partition)),
            Value::or_null(paimon.then_some(live.bucket.into()), Value::Int),
            Value::Size(live.size),
            Value::Count(live.live_rows()),
            Value::or_null(paimon.then_some(live.schema_id), Value::Count),
            Value::or_null(live.created_ms, Value::Time),
        ])?;
    }
    rows.finish()
}

/// A partition as names and values.
pub(crate) fn partition(table: &Table, values: &[Option<Scalar>]) -> Vec<(String, Value)> {
    let schema = table.schema();
    let fields = schema.partition_indices().into_iter().map(|i| &schema.fields[i]);
    let named = fields.zip(values);
    named.map(|(f, value)| (f.name.clone(), Value::or_null(value.as_ref(), |v| scalar(&f.data_type, v)))).collect()
}

/// A partition value.
pub(crate) fn scalar(data_type: &DataType, value: &Scalar) -> Value {
    match value {
        Scalar::Bool(v) => Value::Bool(*v),
        Scalar::Int(v) => Value::Int(*v),
        Scalar::String(v) => Value::text(v),
        Scalar::Date(days) => match chrono::NaiveDate::from_epoch_days(*days) {
            Some(date) => Value::Text(date.to_string()),
            None => Value::Int((*days).into()),
        },
        other => Value::Text(sql_text(data_type, other)),
    }
}

async fn unreferenced(table: &Table, output: &mut Output) -> Result<(), Failed> {
    // The listing comes first: what a commit adds in between is then not in it, rather than falsely shown.
    let there = table.store().list_all("").await?;
    let referenced = table.referenced().await?;
    let now = table.store().env().now_ms();
    let directory = table.paimon().and_then(|log| log.schema().options.data_file_directory.clone());
    let holds_files = |name: &str| match table.format() {
        Format::Delta => !is_hidden(name),
        _ => holds_files(name, directory.as_deref()),
    };
    let mut rows = output.rows(Columns::new(["path", "size", "modified", "age_s"]));
    for entry in there {
        if !holds_files(&entry.name) || referenced.contains(&entry.name) {
            continue;
        }
        rows.push(vec![
            Value::text(&entry.name),
            Value::Size(entry.size),
            Value::Time(entry.modified_ms),
            Value::Age(u64::try_from((now - entry.modified_ms) / 1000).unwrap_or(0)),
        ])?;
    }
    rows.finish()
}

/// Does this object lie in a directory that holds data files or manifests?
fn holds_files(name: &str, data_directory: Option<&str>) -> bool {
    let below = match data_directory {
        Some(dir) => name.strip_prefix(dir).and_then(|rest| rest.strip_prefix('/')),
        None => Some(name),
    };
    let data = below.and_then(|b| b.split_once('/')).is_some_and(|(first, _)| first.starts_with("bucket-") || first.contains('='));
    data || name.starts_with("manifest/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_and_manifest_directories_hold_files() {
        for name in ["bucket-0/x.parquet", "dt=2026-01-01/bucket-0/x", "manifest/m", "bucket-0/.x.tmp"] {
            assert!(holds_files(name, None), "{name}");
        }
        for name in ["snapshot/snapshot-1", "schema/schema-0", "_lakeward/p/0.json", "consumer/consumer-a=b", "bucket-0"] {
            assert!(!holds_files(name, None), "{name}");
        }
        assert!(holds_files("data/bucket-0/x", Some("data")) && !holds_files("bucket-0/x", Some("data")));
    }

    #[test]
    fn partition_values_are_shown_as_in_sql() {
        assert_eq!(scalar(&DataType::Date, &Scalar::Date(0)), Value::text("1970-01-01"));
        assert_eq!(scalar(&DataType::String, &Scalar::String(String::new())), Value::text(""));
        assert_eq!(scalar(&DataType::Decimal { precision: 9, scale: 2 }, &Scalar::Decimal(-5)), Value::text("-0.05"));
        assert_eq!(scalar(&DataType::Timestamp(3), &Scalar::Timestamp(1_000)), Value::text("1970-01-01 00:00:00.001"));
    }
}
