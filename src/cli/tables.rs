//! What a table is and how it came to be: `info`, `schema`, `snapshots`, `snapshot`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cli::Failed;
use crate::cli::args::{LookArgs, SnapshotArgs, SnapshotsArgs, TableArgs};
use crate::cli::output::{Columns, Output, Value};
use crate::cli::pipelines::store;
use crate::error::{Error, Result};
use crate::format::CommitUser;
use crate::format::paimon::log::LiveFile;
use crate::format::paimon::paths;
use crate::format::paimon::snapshot::Snapshot;
use crate::schema::Schema;
use crate::sink::Registration;
use crate::store::Store;
use crate::table::{At, Table};

/// The table at a location from the command line.
pub(crate) async fn open(args: &TableArgs) -> Result<Table> {
    Table::open_in(store(&args.location)?).await
}

/// The columns that the table had then.
pub(crate) async fn schema_at(table: &Table, at: &At) -> Result<Arc<Schema>> {
    match table.snapshot_at(at).await? {
        Some(snapshot) if *at != At::Newest => Ok(table.paimon().schema_of(snapshot.schema_id).await?.schema.clone()),
        _ => Ok(table.schema().clone()),
    }
}

/// What the table was made of then; none before its first snapshot.
pub(crate) async fn files_at(table: &Table, at: &At) -> Result<Vec<LiveFile>> {
    match table.snapshot_at(at).await? {
        Some(snapshot) => table.paimon().files_at(&snapshot).await,
        None => Ok(Vec::new()),
    }
}

/// `id BIGINT NOT NULL`, one for each column.
pub(crate) fn columns_of(schema: &Schema) -> Vec<Value> {
    schema.fields.iter().map(|f| Value::Text(format!("{} {}", f.name, f.type_text()))).collect()
}

/// `schema`.
pub(crate) async fn schema(args: LookArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let schema = schema_at(&table, &args.when.at()).await?;
    let mut rows = output.rows(Columns::new(["id", "name", "type", "partition", "description"]));
    for field in &schema.fields {
        rows.push(vec![
            Value::Int(field.id.into()),
            Value::text(&field.name),
            Value::Text(field.type_text()),
            Value::Bool(schema.partition_by.contains(&field.name)),
            Value::or_null(field.description.clone(), Value::Text),
        ])?;
    }
    rows.finish()
}

/// `snapshots`.
pub(crate) async fn snapshots(args: SnapshotsArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let all = table.paimon().snapshots().await?;
    let columns = ["id", "identifier", "user", "kind", "time", "rows_added", "rows", "watermark", "schema_id"];
    let mut rows = output.rows(Columns::new(columns).identifier("identifier"));
    let skipped = all.len().saturating_sub(args.limit.unwrap_or(usize::MAX));
    for s in &all[skipped..] {
        rows.push(vec![
            Value::Count(s.id),
            Value::Identifier(s.commit_identifier),
            Value::User(s.commit_user.clone()),
            Value::text(&s.commit_kind.0),
            Value::Time(s.time_millis),
            Value::Int(s.delta_record_count),
            Value::Int(s.total_record_count),
            watermark(s),
            Value::Count(s.schema_id),
        ])?;
    }
    rows.finish()
}

/// `snapshot`.
pub(crate) async fn snapshot(args: SnapshotArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let at = args.id.map_or(At::Newest, At::Snapshot);
    let s = table.snapshot_at(&at).await?.ok_or_else(|| Error::invalid("the table has no snapshot yet").at(table.url()))?;
    let properties = s.properties.iter().flatten().map(|(k, v)| (k.clone(), Value::text(v))).collect();
    output.one(vec![
        ("id", Value::Count(s.id)),
        ("identifier", Value::Identifier(s.commit_identifier)),
        ("user", Value::text(&s.commit_user)),
        ("kind", Value::text(&s.commit_kind.0)),
        ("time", Value::Time(s.time_millis)),
        ("rows_added", Value::Int(s.delta_record_count)),
        ("rows", Value::Int(s.total_record_count)),
        ("watermark", watermark(&s)),
        ("schema_id", Value::Count(s.schema_id)),
        ("uuid", Value::or_null(s.uuid.clone(), Value::Text)),
        ("writer_version", Value::or_null(s.writer_version.clone(), Value::Text)),
        ("base_manifest_list", Value::text(&s.base_manifest_list)),
        ("delta_manifest_list", Value::text(&s.delta_manifest_list)),
        ("changelog_manifest_list", Value::or_null(s.changelog_manifest_list.clone(), Value::Text)),
        ("properties", Value::Map(properties)),
    ])
}

/// Other writers put the smallest number where there is no watermark.
fn watermark(s: &Snapshot) -> Value {
    Value::or_null(s.watermark.filter(|w| *w != i64::MIN), Value::Time)
}

/// `info`.
pub(crate) async fn info(args: LookArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let at = args.when.at();
    let (schema, log) = (schema_at(&table, &at).await?, table.paimon());
    let ids = log.snapshot_ids().await?;
    let found = table.snapshot_at(&at).await?;
    let latest = found.as_ref();
    let files = match latest {
        Some(snapshot) => log.files_at(snapshot).await?,
        None => Vec::new(),
    };
    let of_latest = |f: fn(&Snapshot) -> Value| latest.map_or(Value::Null, f);
    let texts = |all: &[String]| Value::List(all.iter().map(Value::text).collect());
    let options = log.schema().raw_options.clone();
    output.one(vec![
        ("location", Value::text(table.url())),
        ("format", Value::text(table.format())),
        ("schema_id", Value::Count(schema.id)),
        ("columns", Value::List(columns_of(&schema))),
        ("partition_by", texts(&schema.partition_by)),
        ("bucket", Value::text(options.get("bucket").map_or("-1", String::as_str))),
        ("options", Value::Map(options.iter().map(|(k, v)| (k.clone(), Value::text(v))).collect())),
        ("snapshots", Value::or_null(ids.first().zip(ids.last()), |(first, last)| range(*first, *last))),
        ("tags", texts(&log.tag_names().await?)),
        ("snapshot", of_latest(|s| Value::Count(s.id))),
        ("user", of_latest(|s| Value::text(&s.commit_user))),
        ("identifier", of_latest(|s| Value::Identifier(s.commit_identifier))),
        ("kind", of_latest(|s| Value::text(&s.commit_kind.0))),
        ("time", of_latest(|s| Value::Time(s.time_millis))),
        ("watermark", of_latest(watermark)),
        ("rows", latest.map_or(Value::Int(0), |s| Value::Int(s.total_record_count))),
        ("files", Value::Count(files.len() as u64)),
        ("bytes", Value::Size(files.iter().map(|f| f.size).sum())),
        ("consumers", Value::List(consumers(&table).await?)),
        ("registrations", Value::List(registrations(table.store()).await?)),
    ])
}

fn range(earliest: u64, latest: u64) -> Value {
    Value::Map(vec![("earliest".to_owned(), Value::Count(earliest)), ("latest".to_owned(), Value::Count(latest))])
}

/// Who keeps snapshots from being expired, and from which on.
async fn consumers(table: &Table) -> Result<Vec<Value>> {
    let pins = table.paimon().pins("").await?;
    let shown = |(user, next): (CommitUser, u64)| {
        Value::Map(vec![
            ("consumer".to_owned(), Value::text(user.as_str())),
            ("next_snapshot".to_owned(), Value::or_null(Some(next).filter(|n| *n > 0), Value::Count)),
        ])
    };
    Ok(pins.into_iter().map(shown).collect())
}

/// The newest registration of each pipeline.
async fn registrations(store: &Store) -> Result<Vec<Value>> {
    let mut newest: BTreeMap<String, String> = BTreeMap::new();
    for entry in store.list_all(paths::REGISTRATION_DIR).await? {
        if let Some((pipeline, _)) = entry.name.split_once('/') {
            newest.insert(pipeline.to_owned(), entry.name.clone());
        }
    }
    let mut all = Vec::new();
    for (pipeline, name) in newest {
        let bytes = store.get(&format!("{}/{name}", paths::REGISTRATION_DIR)).await?;
        let found: Option<Registration> = bytes.and_then(|b| serde_json::from_slice(&b).ok());
        let text = |f: fn(&Registration) -> &str| Value::or_null(found.as_ref(), |r| Value::text(f(r)));
        all.push(Value::Map(vec![
            ("pipeline".to_owned(), Value::Text(pipeline)),
            ("chain_location".to_owned(), text(|r| &r.location)),
            ("chain".to_owned(), text(|r| &r.chain)),
            ("user".to_owned(), text(|r| r.user.as_str())),
        ]));
    }
    Ok(all)
}
