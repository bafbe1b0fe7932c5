//! What other engines do to a table between two of our calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use serde_json::json;

use crate::error::Result;
use crate::format::delta::{checkpoint, replay};
use crate::format::{CommitMessage, CommitUser};
use crate::sim::effect::{Effect, Op};
use crate::sim::oracle::reader::{Cache, Format, Reader};
use crate::sim::process::at_once;
use crate::sim::store::Objects;
use crate::store::Store;
use crate::table::Table;

/// One thing that another engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outside {
    /// Removes the oldest snapshot, unless it is the newest too or a consumer wants it; Delta: the oldest commit below a checkpoint.
    Expire,
    /// Removes every snapshot but the newest, and minds no consumer; Delta: every commit and checkpoint below the newest checkpoint.
    ExpireAll,
    /// Commits an empty snapshot.
    Commit,
    /// Adds one row of its own, [`FOREIGN`].
    Append,
    /// Removes all consumers.
    Unpin,
    /// Delta: writes a checkpoint of the newest version, and the hint.
    Checkpoint,
    /// Delta: changes the table's properties.
    Metadata,
    /// Delta: raises the writer version, by features that concern no append.
    Protocol,
}

/// The split of rows that are not of our input.
pub const FOREIGN: &str = "foreign";

async fn write_checkpoint(store: &Store) -> Result<()> {
    let Some(newest) = replay::newest(store).await? else { return Ok(()) };
    checkpoint::write(store, newest.version).await.map(drop)
}

async fn one_row(table: &Table, user: &CommitUser, id: i64) -> Result<Vec<CommitMessage>> {
    let (split, part) = (StringArray::from(vec![FOREIGN]), StringArray::from(vec![format!("p{}", id % 2)]));
    let columns: Vec<ArrayRef> = vec![Arc::new(split), Arc::new(Int64Array::from(vec![id])), Arc::new(part)];
    let mut write = table.new_write(user)?;
    write.write(&RecordBatch::try_new(table.schema().to_arrow(), columns)?).await?;
    write.prepare_commit().await
}

fn ids(map: &BTreeMap<String, Bytes>, table: &str) -> Vec<u64> {
    let prefix = format!("{table}/snapshot/snapshot-");
    let found = map.range(prefix.clone()..).take_while(|(k, _)| k.starts_with(&prefix));
    let mut ids: Vec<u64> = found.filter_map(|(k, _)| k.get(prefix.len()..)?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

/// Commits that a Delta log can do without, and checkpoints (true): those below the newest checkpoint. A cleaner has seen the hint to that.
fn below_checkpoint(map: &BTreeMap<String, Bytes>, table: &str) -> Vec<(String, bool)> {
    let prefix = format!("{table}/_delta_log/");
    let log = || map.range(prefix.clone()..).take_while(|(k, _)| k.starts_with(&prefix)).map(|(k, _)| k);
    let hint = map.get(&format!("{prefix}_last_checkpoint")).and_then(|b| serde_json::from_slice::<serde_json::Value>(b).ok());
    let Some(newest) = hint.and_then(|h| h.get("version")?.as_u64()) else { return Vec::new() };
    if !map.contains_key(&format!("{prefix}{newest:020}.checkpoint.parquet")) {
        return Vec::new();
    }
    let version = |key: &String| key.get(prefix.len()..prefix.len() + 20)?.parse::<u64>().ok();
    let old = log().filter(|key| version(key).is_some_and(|v| v < newest));
    old.map(|key| (key.clone(), key.ends_with(".checkpoint.parquet"))).collect()
}

/// The least snapshot that a consumer wants.
fn pinned(map: &BTreeMap<String, Bytes>, table: &str) -> Option<u64> {
    let prefix = format!("{table}/consumer/");
    let found = map.range(prefix.clone()..).take_while(|(k, _)| k.starts_with(&prefix));
    found.filter_map(|(_, bytes)| serde_json::from_slice::<serde_json::Value>(bytes).ok()?.get("nextSnapshot")?.as_u64()).min()
}

impl Outside {
    /// Would it change anything?
    pub fn is_possible(self, map: &BTreeMap<String, Bytes>, table: &str, format: Format) -> bool {
        let ids = ids(map, table);
        match self {
            Outside::Checkpoint | Outside::Metadata | Outside::Protocol => made(map, table, format) && format == Format::Delta,
            Outside::Expire | Outside::ExpireAll if format == Format::Delta => {
                below_checkpoint(map, table).iter().any(|(_, checkpoint)| !checkpoint)
            }
            Outside::Commit | Outside::Append => made(map, table, format),
            Outside::Expire => ids.len() > 1 && pinned(map, table).is_none_or(|p| ids[0] < p),
            Outside::ExpireAll => ids.len() > 1,
            Outside::Unpin => pinned(map, table).is_some(),
        }
    }
}

/// Is there a table?
fn made(map: &BTreeMap<String, Bytes>, table: &str, format: Format) -> bool {
    match format {
        Format::Paimon => map.contains_key(&format!("{table}/schema/schema-0")),
        Format::Delta => {
            map.range(format!("{table}/_delta_log/")..).next().is_some_and(|(k, _)| k.starts_with(&format!("{table}/_delta_log/")))
        }
    }
}

/// A commit made by hand on top of the newest version: what is there now of `kind`, changed.
fn by_hand(objects: &Objects, table: &str, number: u64, what: Outside) -> Option<(String, Bytes)> {
    let (version, state) = Reader::new(table, Format::Delta, Cache::default()).table(&objects.map).ok()?.newest?;
    let (kind, action) = match what {
        Outside::Metadata => {
            let mut metadata = state.metadata.clone();
            metadata.get_mut("configuration")?.as_object_mut()?.insert("owner".into(), format!("somebody {number}").into());
            ("metaData", metadata)
        }
        _ => {
            let writer = state.protocol.get("minWriterVersion")?.as_u64()?;
            ("protocol", json!({"minReaderVersion": 1, "minWriterVersion": if writer < 4 { writer + 1 } else { 4 }}))
        }
    };
    let info = json!({"commitInfo": {"timestamp": 1_700_000_500_000u64 + number, "operation": "BY HAND", "operationParameters": {}}});
    let text = format!("{info}\n{}\n", json!({kind: action}));
    Some((format!("{table}/{}", Format::Delta.snapshot(version + 1)), Bytes::from(text)))
}

/// What names comes after what it names: data and manifests, snapshots, checkpoints of a Delta log, hints.
fn rank(key: &str) -> u8 {
    match key {
        key if key.contains("LATEST") || key.contains("_last_checkpoint") => 3,
        key if key.contains("/_delta_log/") && key.ends_with(".parquet") => 2,
        key if key.contains("/_delta_log/") || key.contains("/snapshot/") => 1,
        _ => 0,
    }
}

/// Does it. The changes, in order.
pub fn make(what: Outside, objects: &mut Objects, table: &str, format: Format, number: u64) -> Vec<Effect> {
    let effect = |op, key: String, before, after, by_expiry| Effect { process: Effect::OUTSIDE, op, key, before, after, by_expiry };
    let remove = |objects: &mut Objects, key: String, by_expiry| {
        let before = objects.set(&key, None);
        effect(Op::Delete, key, before, None, by_expiry)
    };
    let ids = ids(&objects.map, table);
    let snapshot = |id: u64| format!("{table}/snapshot/snapshot-{id}");
    match what {
        Outside::Expire | Outside::ExpireAll if format == Format::Delta => {
            let old = below_checkpoint(&objects.map, table).into_iter();
            let keys: Vec<String> = match what {
                Outside::Expire => old.filter(|(_, checkpoint)| !checkpoint).take(1).map(|(key, _)| key).collect(),
                _ => old.map(|(key, _)| key).collect(),
            };
            keys.into_iter().map(|key| remove(objects, key, true)).collect()
        }
        Outside::Metadata | Outside::Protocol => {
            let Some((key, bytes)) = by_hand(objects, table, number, what) else { return Vec::new() };
            let before = objects.set(&key, Some(bytes.clone()));
            vec![effect(Op::Create, key, before, Some(bytes), false)]
        }
        Outside::Expire => ids.first().map(|id| remove(objects, snapshot(*id), true)).into_iter().collect(),
        Outside::ExpireAll => ids.iter().take(ids.len().saturating_sub(1)).map(|id| remove(objects, snapshot(*id), true)).collect(),
        Outside::Unpin => {
            let prefix = format!("{table}/consumer/");
            let keys: Vec<String> = objects.map.keys().filter(|k| k.starts_with(&prefix)).cloned().collect();
            keys.into_iter().map(|key| remove(objects, key, false)).collect()
        }
        Outside::Commit | Outside::Append | Outside::Checkpoint => {
            let before = objects.map.clone();
            let _ = at_once(
                objects,
                async |store| {
                    if what == Outside::Checkpoint {
                        return write_checkpoint(&store).await;
                    }
                    let table = Table::open_in(store).await?;
                    let (user, id) = (CommitUser::new("somebody"), i64::try_from(number).unwrap_or(0));
                    let messages = if what == Outside::Append { one_row(&table, &user, id).await? } else { Vec::new() };
                    table.new_commit(&user).commit(id, messages).await.map(drop)
                },
                table,
                number,
            );
            let changed = objects.map.iter().filter(|(k, v)| before.get(*k) != Some(v));
            // What a snapshot names comes before it.
            let mut effects: Vec<Effect> =
                changed.map(|(k, v)| effect(Op::Put, k.clone(), before.get(k).cloned(), Some(v.clone()), false)).collect();
            effects.sort_by_key(|e| rank(&e.key));
            effects
        }
    }
}
