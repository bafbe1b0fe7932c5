//! What other engines do to a table between two of our calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;

use crate::error::Result;
use crate::format::{CommitMessage, CommitUser};
use crate::sim::effect::{Effect, Op};
use crate::sim::process::at_once;
use crate::sim::store::Objects;
use crate::table::Table;

/// One thing that another engine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outside {
    /// Removes the oldest snapshot, unless it is the newest too or a consumer wants it.
    Expire,
    /// Removes every snapshot but the newest, and minds no consumer.
    ExpireAll,
    /// Commits an empty snapshot.
    Commit,
    /// Adds one row of its own, [`FOREIGN`].
    Append,
    /// Removes all consumers.
    Unpin,
}

/// The split of rows that are not of our input.
pub const FOREIGN: &str = "foreign";

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

/// The least snapshot that a consumer wants.
fn pinned(map: &BTreeMap<String, Bytes>, table: &str) -> Option<u64> {
    let prefix = format!("{table}/consumer/");
    let found = map.range(prefix.clone()..).take_while(|(k, _)| k.starts_with(&prefix));
    found.filter_map(|(_, bytes)| serde_json::from_slice::<serde_json::Value>(bytes).ok()?.get("nextSnapshot")?.as_u64()).min()
}

impl Outside {
    /// Would it change anything?
    pub fn is_possible(self, map: &BTreeMap<String, Bytes>, table: &str) -> bool {
        let ids = ids(map, table);
        match self {
            Outside::Expire => ids.len() > 1 && pinned(map, table).is_none_or(|p| ids[0] < p),
            Outside::ExpireAll => ids.len() > 1,
            Outside::Commit | Outside::Append => map.contains_key(&format!("{table}/schema/schema-0")),
            Outside::Unpin => pinned(map, table).is_some(),
        }
    }
}

/// Does it. The changes, in order.
pub fn make(what: Outside, objects: &mut Objects, table: &str, number: u64) -> Vec<Effect> {
    let effect = |op, key: String, before, after, by_expiry| Effect { process: Effect::OUTSIDE, op, key, before, after, by_expiry };
    let remove = |objects: &mut Objects, key: String, by_expiry| {
        let before = objects.set(&key, None);
        effect(Op::Delete, key, before, None, by_expiry)
    };
    let ids = ids(&objects.map, table);
    let snapshot = |id: u64| format!("{table}/snapshot/snapshot-{id}");
    match what {
        Outside::Expire => ids.first().map(|id| remove(objects, snapshot(*id), true)).into_iter().collect(),
        Outside::ExpireAll => ids.iter().take(ids.len().saturating_sub(1)).map(|id| remove(objects, snapshot(*id), true)).collect(),
        Outside::Unpin => {
            let prefix = format!("{table}/consumer/");
            let keys: Vec<String> = objects.map.keys().filter(|k| k.starts_with(&prefix)).cloned().collect();
            keys.into_iter().map(|key| remove(objects, key, false)).collect()
        }
        Outside::Commit | Outside::Append => {
            let before = objects.map.clone();
            let _ = at_once(
                objects,
                async |store| {
                    let table = Table::open_in(store).await?;
                    let (user, id) = (CommitUser::new("somebody"), i64::try_from(number).unwrap_or(0));
                    let messages = if what == Outside::Append { one_row(&table, &user, id).await? } else { Vec::new() };
                    table.new_commit(&user).commit(id, messages).await
                },
                table,
                number,
            );
            let changed = objects.map.iter().filter(|(k, v)| before.get(*k) != Some(v));
            // What a snapshot names comes before it.
            let mut effects: Vec<Effect> =
                changed.map(|(k, v)| effect(Op::Put, k.clone(), before.get(k).cloned(), Some(v.clone()), false)).collect();
            effects.sort_by_key(|e| (e.key.contains("/snapshot/"), e.key.contains("LATEST")));
            effects
        }
    }
}
