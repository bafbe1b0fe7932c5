//! `partitions` and `manifests`: what a snapshot is made of, between the table and its files.

use std::collections::BTreeMap;

use crate::cli::Failed;
use crate::cli::args::LookArgs;
use crate::cli::files::{partition, scalar};
use crate::cli::output::{Columns, Output, Value};
use crate::cli::tables::{files_at, open};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::format::paimon::manifest::ManifestMeta;
use crate::format::paimon::paths::sql_text;
use crate::format::paimon::row;
use crate::schema::Scalar;
use crate::table::scan::ScanFile;
use crate::table::{Native, Table};

/// The sum of the files of one partition.
pub(crate) struct Sum {
    pub(crate) partition: Vec<Option<Scalar>>,
    pub(crate) rows: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    newest: Option<i64>,
    buckets: Vec<i32>,
}

/// Sums by partition, in the order of their names.
pub(crate) fn sums<'a>(table: &Table, files: impl IntoIterator<Item = &'a ScanFile>) -> Vec<Sum> {
    let mut sums: BTreeMap<(String, String), Sum> = BTreeMap::new();
    for file in files {
        // Null and the text 'null' have the same label.
        let key = (label(table, &file.partition), format!("{:?}", file.partition));
        let sum = sums.entry(key).or_insert_with(|| Sum {
            partition: file.partition.clone(),
            rows: 0,
            files: 0,
            bytes: 0,
            newest: None,
            buckets: Vec::new(),
        });
        sum.rows += file.live_rows();
        sum.files += 1;
        sum.bytes += file.size;
        sum.newest = sum.newest.max(file.created_ms);
        if !sum.buckets.contains(&file.bucket) {
            sum.buckets.push(file.bucket);
        }
    }
    sums.into_values().collect()
}

/// By which partitions are sorted: their values as SQL writes them.
fn label(table: &Table, values: &[Option<Scalar>]) -> String {
    let schema = table.schema();
    let fields = schema.partition_indices().into_iter().map(|i| &schema.fields[i]);
    let texts = fields.zip(values).map(|(f, v)| v.as_ref().map_or_else(|| "null".to_owned(), |v| sql_text(&f.data_type, v)));
    texts.collect::<Vec<_>>().join("\u{1}")
}

/// `partitions`.
pub(crate) async fn partitions(args: LookArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let files = files_at(&table, &args.when.at()).await?;
    let paimon = table.format() == Format::Paimon;
    let mut rows = output.rows(Columns::new(["partition", "rows", "files", "bytes", "buckets", "newest_file"]));
    for sum in sums(&table, &files) {
        rows.push(vec![
            Value::Map(partition(&table, &sum.partition)),
            Value::Count(sum.rows),
            Value::Count(sum.files),
            Value::Size(sum.bytes),
            Value::or_null(paimon.then_some(sum.buckets.len() as u64), Value::Count),
            Value::or_null(sum.newest, Value::Time),
        ])?;
    }
    rows.finish()
}

/// `manifests`.
pub(crate) async fn manifests(args: LookArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let columns =
        ["manifest", "list", "size", "files_added", "files_removed", "schema_id", "partition_min", "partition_max", "partition_nulls"];
    let mut rows = output.rows(Columns::new(columns));
    let Some(log) = table.paimon() else {
        let e = Error::invalid("a Delta table has no manifests: its commits name the files").at(table.url());
        return Err(e.hint("`files` lists them, `snapshot` says what a commit changed").into());
    };
    if let Some(Native::Paimon(snapshot)) = table.snapshot_at(&args.when.at()).await?.map(|s| s.native) {
        for (list, name) in [("base", &snapshot.base_manifest_list), ("delta", &snapshot.delta_manifest_list)] {
            for meta in log.read_list(name).await? {
                let [min, max, nulls] = bounds(&table, &meta)?;
                rows.push(vec![
                    Value::text(&meta.name),
                    Value::text(list),
                    Value::Size(u64::try_from(meta.size).unwrap_or(0)),
                    Value::Int(meta.added),
                    Value::Int(meta.deleted),
                    Value::Int(meta.schema_id),
                    min,
                    max,
                    nulls,
                ])?;
            }
        }
    }
    rows.finish()
}

/// Least and greatest values of the partition columns, and how many nulls each has.
fn bounds(table: &Table, meta: &ManifestMeta) -> Result<[Value; 3]> {
    let schema = table.schema();
    let fields: Vec<_> = schema.partition_indices().into_iter().map(|i| &schema.fields[i]).collect();
    if fields.is_empty() {
        return Ok([Value::Map(Vec::new()), Value::Map(Vec::new()), Value::Map(Vec::new())]);
    }
    let types = || fields.iter().map(|f| &f.data_type);
    let values = |bytes: &[u8]| -> Result<Value> {
        let decoded = row::decode(bytes, types()).map_err(|e| e.at(&meta.name))?;
        let one =
            |(f, v): (&&crate::schema::Field, &Option<Scalar>)| (f.name.clone(), Value::or_null(v.as_ref(), |v| scalar(&f.data_type, v)));
        Ok(Value::Map(fields.iter().zip(&decoded).map(one).collect()))
    };
    let stats = &meta.partition_stats;
    let nulls = fields.iter().enumerate().map(|(i, f)| (f.name.clone(), Value::or_null(stats.nulls.get(i).copied().flatten(), Value::Int)));
    Ok([values(&stats.min)?, values(&stats.max)?, Value::Map(nulls.collect())])
}
