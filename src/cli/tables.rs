//! What a table is and how it came to be: `info`, `schema`, `snapshots`, `snapshot`.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::Failed;
use crate::cli::args::{LookArgs, SnapshotArgs, SnapshotsArgs, TableArgs};
use crate::cli::output::{Columns, Output, Value};
use crate::cli::pipelines::store;
use crate::error::{Error, Result};
use crate::format::delta::replay::LogState;
use crate::format::{CommitUser, Format, REGISTRATION_DIR};
use crate::schema::Schema;
use crate::sink::Registration;
use crate::store::Store;
use crate::table::scan::ScanFile;
use crate::table::{At, Native, SnapshotView, Table};

/// The table at a location from the command line.
pub(crate) async fn open(args: &TableArgs) -> Result<Table> {
    Table::open_in(store(&args.location)?).await
}

/// What the table was made of then; none before its first snapshot.
pub(crate) async fn files_at(table: &Table, at: &At) -> Result<Vec<ScanFile>> {
    match table.snapshot_at(at).await? {
        Some(snapshot) => table.files_at(&snapshot).await,
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
    let schema = table.schema_at(&args.when.at()).await?;
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
    let all = table.snapshots().await?;
    let columns = ["id", "identifier", "user", "kind", "time", "rows_added", "rows", "watermark", "schema_id"];
    let mut rows = output.rows(Columns::new(columns).identifier("identifier"));
    let skipped = all.len().saturating_sub(args.limit.unwrap_or(usize::MAX));
    for s in &all[skipped..] {
        rows.push(vec![
            Value::Count(s.id),
            Value::or_null(s.identifier, Value::Identifier),
            Value::or_null(s.user.as_ref(), |u| Value::User(u.to_string())),
            Value::text(&s.kind),
            Value::or_null(s.time_ms, Value::Time),
            Value::or_null(s.rows_added, Value::Int),
            Value::or_null(s.rows, Value::Int),
            Value::or_null(s.watermark, Value::Time),
            Value::or_null(s.schema_id, Value::Count),
        ])?;
    }
    rows.finish()
}

/// `snapshot`.
pub(crate) async fn snapshot(args: SnapshotArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let at = args.id.map_or(At::Newest, At::Snapshot);
    let s = table.snapshot_at(&at).await?.ok_or_else(|| Error::invalid("the table has no snapshot yet").at(table.url()))?;
    let properties = s.properties.iter().map(|(k, v)| (k.clone(), Value::text(v))).collect();
    let mut facts = vec![
        ("id", Value::Count(s.id)),
        ("identifier", Value::or_null(s.identifier, Value::Identifier)),
        ("user", user(&s)),
        ("kind", Value::text(&s.kind)),
        ("time", Value::or_null(s.time_ms, Value::Time)),
        ("rows_added", Value::or_null(s.rows_added, Value::Int)),
        ("rows", Value::or_null(s.rows, Value::Int)),
        ("watermark", Value::or_null(s.watermark, Value::Time)),
        ("schema_id", Value::or_null(s.schema_id, Value::Count)),
    ];
    let text = |v: &Option<String>| Value::or_null(v.clone(), Value::Text);
    match &s.native {
        Native::Paimon(s) => facts.extend([
            ("uuid", text(&s.uuid)),
            ("writer_version", text(&s.writer_version)),
            ("base_manifest_list", Value::text(&s.base_manifest_list)),
            ("delta_manifest_list", Value::text(&s.delta_manifest_list)),
            ("changelog_manifest_list", text(&s.changelog_manifest_list)),
        ]),
        Native::Delta(s) => facts.extend([
            ("writer_version", text(&s.info.engine_info)),
            ("files_added", Value::Count(s.added.0)),
            ("files_removed", Value::Count(s.removed)),
            ("sets_columns", Value::Bool(s.metadata)),
            ("sets_protocol", Value::Bool(s.protocol)),
            ("read_version", Value::or_null(s.info.read_version, Value::Int)),
            ("parameters", map(&s.info.operation_parameters)),
            ("metrics", map(&s.info.operation_metrics)),
            ("blind_append", Value::or_null(s.info.is_blind_append, Value::Bool)),
            ("transactions", Value::List(s.txns.iter().map(transaction).collect())),
        ]),
    }
    facts.push(("properties", Value::Map(properties)));
    output.one(facts)
}

/// Values are texts by habit, but not always.
fn map(values: &serde_json::Map<String, serde_json::Value>) -> Value {
    let text = |v: &serde_json::Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    Value::Map(values.iter().map(|(k, v)| (k.clone(), Value::Text(text(v)))).collect())
}

fn user(s: &SnapshotView) -> Value {
    Value::or_null(s.user.as_ref(), |u| Value::text(u.as_str()))
}

fn transaction(txn: &crate::format::delta::action::Txn) -> Value {
    Value::Map(vec![("app_id".to_owned(), Value::text(&txn.app_id)), ("version".to_owned(), Value::Identifier(txn.version))])
}

/// `info`.
pub(crate) async fn info(args: LookArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let at = args.when.at();
    let schema = table.schema_at(&at).await?;
    let ids = table.snapshot_ids().await?;
    let found = table.snapshot_at(&at).await?;
    let latest = found.as_ref();
    let files = match latest {
        Some(snapshot) => table.files_at(snapshot).await?,
        None => Vec::new(),
    };
    let of_latest = |f: fn(&SnapshotView) -> Value| latest.map_or(Value::Null, f);
    let texts = |all: &[String]| Value::List(all.iter().map(Value::text).collect());
    let options = table.options();
    let paimon = table.format() == Format::Paimon;
    let mut facts = vec![("location", Value::text(table.url())), ("format", Value::text(table.format().name()))];
    if let Some(log) = table.delta() {
        facts.extend(of_log(&log.current().log));
    }
    facts.extend([
        ("schema_id", Value::or_null(paimon.then_some(schema.id), Value::Count)),
        ("columns", Value::List(columns_of(&schema))),
        ("partition_by", texts(&schema.partition_by)),
        ("bucket", Value::or_null(paimon.then(|| options.get("bucket").map_or("-1", String::as_str)), Value::text)),
        ("options", Value::Map(options.iter().map(|(k, v)| (k.clone(), Value::text(v))).collect())),
        ("snapshots", Value::or_null(ids.first().zip(ids.last()), |(first, last)| range(*first, *last))),
        ("tags", texts(&table.tag_names().await?)),
        ("snapshot", of_latest(|s| Value::Count(s.id))),
        ("user", of_latest(user)),
        ("identifier", of_latest(|s| Value::or_null(s.identifier, Value::Identifier))),
        ("kind", of_latest(|s| Value::text(&s.kind))),
        ("time", of_latest(|s| Value::or_null(s.time_ms, Value::Time))),
        ("watermark", of_latest(|s| Value::or_null(s.watermark, Value::Time))),
        // Where a snapshot does not say it, its files do.
        ("rows", latest.and_then(|s| s.rows).map_or_else(|| Value::Count(files.iter().map(ScanFile::live_rows).sum()), Value::Int)),
        ("files", Value::Count(files.len() as u64)),
        ("bytes", Value::Size(files.iter().map(|f| f.size).sum())),
        ("consumers", Value::List(consumers(&table).await?)),
        ("registrations", Value::List(registrations(table.store()).await?)),
    ]);
    facts.retain(|(name, _)| paimon || !OF_PAIMON.contains(name));
    output.one(facts)
}

/// What a Delta table does not have.
const OF_PAIMON: [&str; 4] = ["schema_id", "bucket", "tags", "consumers"];

/// What a Delta table says of itself beside columns and properties.
fn of_log(log: &LogState) -> Vec<(&'static str, Value)> {
    let text = |v: &Option<String>| Value::or_null(v.clone(), Value::Text);
    let protocol = &log.protocol;
    // A feature of readers is in both lists.
    let features: BTreeSet<&String> = protocol.reader_features.iter().chain(&protocol.writer_features).flatten().collect();
    vec![
        ("id", Value::text(&log.metadata.id)),
        ("name", text(&log.metadata.name)),
        ("description", text(&log.metadata.description)),
        ("created", Value::or_null(log.metadata.created_time, Value::Time)),
        ("min_reader_version", Value::Int(protocol.min_reader_version.into())),
        ("min_writer_version", Value::Int(protocol.min_writer_version.into())),
        ("features", Value::List(features.into_iter().map(Value::text).collect())),
        ("checkpoint", Value::or_null(log.checkpoint, Value::Count)),
        ("domains", Value::List(log.domains.keys().map(Value::text).collect())),
        ("transactions", Value::List(log.txns.values().map(|seen| transaction(&seen.txn)).collect())),
    ]
}

fn range(earliest: u64, latest: u64) -> Value {
    Value::Map(vec![("earliest".to_owned(), Value::Count(earliest)), ("latest".to_owned(), Value::Count(latest))])
}

/// Who keeps snapshots from being expired, and from which on.
async fn consumers(table: &Table) -> Result<Vec<Value>> {
    let pins = table.pins().await?;
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
    for entry in store.list_all(REGISTRATION_DIR).await? {
        if let Some((pipeline, _)) = entry.name.split_once('/') {
            newest.insert(pipeline.to_owned(), entry.name.clone());
        }
    }
    let mut all = Vec::new();
    for (pipeline, name) in newest {
        let bytes = store.get(&format!("{}/{name}", REGISTRATION_DIR)).await?;
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
