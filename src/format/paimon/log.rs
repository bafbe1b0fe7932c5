//! [`SnapshotLog`] over a Paimon table: the only file here that does I/O, with its parts `stage`, `merge`, `confirm`, `read` and `find`.

mod bounds;
mod confirm;
#[cfg(test)]
mod cost_tests;
mod find;
mod merge;
#[cfg(test)]
mod merge_tests;
mod pick;
mod read;
mod sequence;
mod stage;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

pub use pick::{PartitionRange, Picked, Wanted};
pub use read::LiveFile;
pub(crate) use stage::PaimonWork;

use super::manifest::ManifestMeta;
use super::options::RawOptions;
use super::paths::{self, PaimonLayout};
use super::schema::TableSchema;
use super::snapshot::Snapshot;
use crate::env::Deadline;
use crate::error::{Error, Result};
use crate::format::{Change, CommitUser, Digest, Floor, Head, Landed, REGISTRATION_DIR, SnapshotLog, Staged, Standing, Work, property};
use crate::publish::{Publication, publish};
use crate::schema::Schema;
use crate::store::Store;

/// A Paimon table's log of snapshots. It remembers what cannot change (schemas, what it wrote itself) and reads the rest anew.
pub struct PaimonLog {
    store: Store,
    /// SHA-256 of `schema/schema-0`.
    table: String,
    state: Mutex<State>,
}

struct State {
    schemas: BTreeMap<u64, Arc<TableSchema>>,
    newest: Arc<TableSchema>,
    /// A snapshot of ours that was the newest when it was confirmed. The first head after it need not look for newer ones: if there
    /// are, the publication on top of it is refused, and the next head looks.
    confirmed: Option<u64>,
    /// The least snapshot that a pin of ours keeps, and when the pin was written.
    pin: Option<(u64, Duration)>,
    /// Contents of a snapshot's base list and delta list, by their names.
    lists: Option<([String; 2], Arc<Vec<ManifestMeta>>)>,
    /// Live buckets, see `sequence`.
    buckets: sequence::Known,
    /// The hint that we wrote last.
    hinted: u64,
    /// Manifests that a merge will want.
    recent: merge::Recent,
    /// Manifests of the newest list that cannot be merged.
    barred: BTreeSet<String>,
}

/// How often a head that vanishes under the reader is looked for again.
const AGAIN: u32 = 4;
/// How many ids a head goes up one by one before it lists.
const STEPS: u32 = 4;

impl PaimonLog {
    /// Opens a table; `None` when there is none here.
    ///
    /// `Data`: its newest schema file is damaged or of a newer version. `Invalid`: the table holds something that is not supported.
    pub async fn find(store: &Store) -> Result<Option<PaimonLog>> {
        let ids: Vec<u64> = list_ids(store, paths::SCHEMA_DIR, "schema-").await?;
        let Some(newest) = ids.last().copied() else { return Ok(None) };
        let place = |id| format!("{}/{}", store.url(), paths::schema(id));
        let missing = |id| Error::data("the schema file is missing").at(place(id)).hint("restore it");
        let first = store.get(&paths::schema(0)).await?.ok_or_else(|| missing(0))?;
        let bytes = if newest == 0 { first.clone() } else { store.get(&paths::schema(newest)).await?.ok_or_else(|| missing(newest))? };
        let schema = Arc::new(TableSchema::decode(&bytes, newest).map_err(|e| e.at(place(newest)))?);
        let schemas = BTreeMap::from([(newest, schema.clone())]);
        let state = State {
            schemas,
            newest: schema,
            confirmed: None,
            pin: None,
            lists: None,
            buckets: sequence::Known::default(),
            hinted: 0,
            recent: merge::Recent::default(),
            barred: BTreeSet::new(),
        };
        Ok(Some(PaimonLog { store: store.clone(), table: Digest::of(&first).to_string(), state: Mutex::new(state) }))
    }

    /// Opens a table. `Invalid` when there is none here; else as [`PaimonLog::find`].
    pub async fn open(store: &Store) -> Result<PaimonLog> {
        if let Some(log) = Self::find(store).await? {
            return Ok(log);
        }
        let what = "there is no Paimon table here: no schema/schema-0";
        Err(Error::invalid(what).at(store.url()).hint("check the location, or create the table first"))
    }

    /// Creates a table. `Conflict` when there is one already. `Invalid`: columns or options are not supported, or the directory holds
    /// something else.
    pub async fn create(
        store: &Store,
        columns: &Schema,
        options: &RawOptions,
        comment: Option<String>,
        deadline: Deadline,
    ) -> Result<PaimonLog> {
        let env = store.env();
        let schema = TableSchema::new(columns, options, comment, &env.uuid().to_string(), env.now_ms()).map_err(|e| e.at(store.url()))?;
        let exists = || Error::conflict("the table exists already").at(store.url()).hint("open it");
        if store.size(&paths::schema(0)).await?.is_some() {
            return Err(exists());
        }
        if let Some(entry) = store.list_all("").await?.into_iter().find(|e| !ours_before_creation(&e.name)) {
            // Somebody may have created the table and written to it since it was looked for.
            if store.size(&paths::schema(0)).await?.is_some() {
                return Err(exists());
            }
            let what = format!("the directory is no table but is not empty: it holds {}", entry.name);
            return Err(Error::invalid(what).at(store.url()).hint("create the table in a directory of its own"));
        }
        match publish(store, &paths::schema(0), schema.encode()?.into(), deadline).await? {
            Publication::Published => Self::open(store).await,
            Publication::Taken(_) => Err(exists()),
        }
    }

    /// Where the table lies.
    pub fn store(&self) -> &Store {
        &self.store
    }
    /// SHA-256 of `schema/schema-0`, see [`Floor::table`].
    pub fn table(&self) -> &str {
        &self.table
    }
    /// The newest schema that was read so far.
    pub fn schema(&self) -> Arc<TableSchema> {
        self.state().newest.clone()
    }
    /// Where data files lie, by the newest schema that was read so far.
    pub fn layout(&self) -> PaimonLayout {
        let schema = self.schema();
        PaimonLayout::new(&schema.schema, &schema.options)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn place(&self, name: &str) -> String {
        format!("{}/{name}", self.store.url())
    }

    /// The schema of this id. `Data` when there is none.
    pub async fn schema_of(&self, id: u64) -> Result<Arc<TableSchema>> {
        if let Some(known) = self.state().schemas.get(&id) {
            return Ok(known.clone());
        }
        self.read_schema(id).await?.ok_or_else(|| {
            Error::data("the schema file is missing").at(self.place(&paths::schema(id))).hint("restore it; files were written under it")
        })
    }

    async fn read_schema(&self, id: u64) -> Result<Option<Arc<TableSchema>>> {
        let name = paths::schema(id);
        let Some(bytes) = self.store.get(&name).await? else { return Ok(None) };
        let schema = Arc::new(TableSchema::decode(&bytes, id).map_err(|e| e.at(self.place(&name)))?);
        self.state().schemas.insert(id, schema.clone());
        Ok(Some(schema))
    }

    /// Looks for schemas newer than the newest known one: a foreign ALTER makes no snapshot.
    async fn newest_schema(&self) -> Result<Arc<TableSchema>> {
        loop {
            let known = self.schema();
            match self.read_schema(known.schema.id + 1).await? {
                None => return Ok(known),
                Some(newer) => self.state().newest = newer,
            }
        }
    }

    /// Ids of all snapshots, ascending.
    pub async fn snapshot_ids(&self) -> Result<Vec<u64>> {
        list_ids(&self.store, paths::SNAPSHOT_DIR, "snapshot-").await
    }

    /// Newest id and its bytes; `None` when it vanished between looking and reading.
    async fn newest(&self, after: Option<u64>, floor: Option<&Floor>) -> Result<Option<(u64, Option<Bytes>)>> {
        let confirmed = self.state().confirmed.take();
        if let Some(id) = confirmed.filter(|_| after.is_some())
            && let Some(bytes) = self.snapshot_bytes(id).await?
        {
            return Ok(Some((id, Some(bytes))));
        }
        let start = match after {
            Some(id) if id > 0 => Some(id),
            // A hint may be written late, and name a slot that had been emptied and was filled again. Nothing is ever emptied above the floor.
            _ => match floor {
                Some(floor) => self.latest_hint().await?.filter(|hint| *hint >= floor.id),
                None => None,
            },
        };
        // Expiry deletes upwards: if id + 1 is not there first and id is there after, then id is the newest.
        for id in start.iter().flat_map(|s| (0..STEPS).map(|i| s.saturating_add(i.into()))) {
            if self.store.size(&paths::snapshot(id.saturating_add(1))).await?.is_none() {
                let Some(bytes) = self.snapshot_bytes(id).await? else { break };
                // With nothing below, it may have been created in a slot that had been emptied, with newer ones far above: then list.
                let at_floor = floor.is_some_and(|f| f.id == id);
                if at_floor || (id > 1 && self.store.size(&paths::snapshot(id - 1)).await?.is_some()) {
                    return Ok(Some((id, Some(bytes))));
                }
                break;
            }
        }
        let Some(id) = self.snapshot_ids().await?.last().copied() else { return Ok(Some((0, None))) };
        Ok(self.snapshot_bytes(id).await?.map(|bytes| (id, Some(bytes))))
    }

    async fn latest_hint(&self) -> Result<Option<u64>> {
        let hint = self.store.get(paths::LATEST).await?;
        Ok(hint.and_then(|b| std::str::from_utf8(&b).ok()?.trim().parse().ok()).filter(|id| *id > 0))
    }

    fn decode(&self, bytes: &[u8], id: u64) -> Result<Snapshot> {
        Snapshot::decode(bytes, id).map_err(|e| e.at(self.place(&paths::snapshot(id))))
    }

    /// The newest identifier of `user` as of snapshot `id`, whose bytes are `bytes`.
    async fn landed(&self, user: Option<&CommitUser>, floor: Option<&Floor>, id: u64, bytes: Option<&Bytes>) -> Result<Landed> {
        if let Some(f) = floor {
            if f.table != self.table {
                return Ok(Landed::Other(format!("the checkpoint speaks of table {}, this is table {}", f.table, self.table)));
            }
            if f.id > id {
                return Ok(Landed::Other(format!("the checkpoint speaks of snapshot {}, but the newest is {id}", f.id)));
            }
        }
        let least = floor.map_or(1, |f| f.id.max(1));
        let mut at = id;
        while at >= least {
            let is_floor = floor.is_some_and(|f| f.id == at);
            if user.is_none() && !is_floor {
                return Ok(Landed::None); // nothing to look for, and the floor's own bytes are checked when it is the head
            }
            let gone = |what: &str| match is_floor {
                // Everything above the floor was seen, so nothing of the user has landed there.
                true => Landed::None,
                false => {
                    Landed::Unknown(format!("snapshot {at} {what}, and snapshots {} to {id} hold nothing of this commit user", at + 1))
                }
            };
            let found = if at == id { bytes.cloned() } else { self.snapshot_again(at).await? };
            let Some(found) = found else {
                // What is right above may itself lie in a slot that had been emptied (another user's; ours was looked at): then what was
                // there, and above it, was not seen.
                let seen = !is_floor || at + 1 >= id || self.stands(at + 1).await?;
                let why = format!("snapshot {at} is gone, and {} fell into a slot that expiry had emptied", at + 1);
                return Ok(if seen { gone("is gone") } else { Landed::Unknown(why) });
            };
            let sha256 = Digest::of(&found);
            if is_floor && floor.and_then(|f| f.sha256).is_none_or(|s| s == sha256) {
                return Ok(Landed::None); // its bytes are those that the checkpoint speaks of, so what it says of the user holds
            }
            let snapshot = self.decode(&found, at)?;
            let ours = user.is_some_and(|u| u.as_str() == snapshot.commit_user);
            if (ours || is_floor) && at < id && self.is_built_on(at + 1, &snapshot, sha256).await? != Some(true) {
                return Ok(gone("fell into a slot that expiry had emptied"));
            }
            if is_floor {
                let whose = replaced_by(&snapshot);
                return Ok(Landed::Other(format!("snapshot {at} has other bytes than when it was last seen: {whose}")));
            }
            if ours {
                return Ok(Landed::At {
                    identifier: snapshot.commit_identifier,
                    checkpoint: snapshot.property(property::CHECKPOINT).and_then(Digest::parse),
                    id: at,
                    sha256,
                    closed_at: snapshot.property(property::CLOSED_AT).map(|t| t.parse().ok()),
                });
            }
            at -= 1;
        }
        if id > 1 && !self.stands(1).await? {
            return Ok(Landed::Unknown("snapshot 1 fell into a slot that expiry had emptied".to_owned()));
        }
        Ok(Landed::None)
    }

    /// Is snapshot `id`, which is not the newest, in history?
    async fn stands(&self, id: u64) -> Result<bool> {
        let Some(bytes) = self.snapshot_bytes(id).await? else { return Ok(false) };
        let snapshot = self.decode(&bytes, id)?;
        Ok(self.is_built_on(id + 1, &snapshot, Digest::of(&bytes)).await? == Some(true))
    }

    /// A snapshot's bytes; if they are not there, once more after listing.
    async fn snapshot_again(&self, id: u64) -> Result<Option<Bytes>> {
        match self.snapshot_bytes(id).await? {
            None if self.snapshot_ids().await?.contains(&id) => self.snapshot_bytes(id).await,
            other => Ok(other),
        }
    }
}

impl fmt::Debug for PaimonLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PaimonLog({})", self.store.url())
    }
}

/// What may lie in a table's directory before its first schema: registrations, and the schema of somebody who was faster.
fn ours_before_creation(name: &str) -> bool {
    [REGISTRATION_DIR, paths::SCHEMA_DIR, paths::CONSUMER_DIR]
        .iter()
        .any(|d| name.strip_prefix(d).is_some_and(|rest| rest.starts_with('/')))
}

/// Whose snapshot is where another one was.
fn replaced_by(there: &Snapshot) -> String {
    let writer = there.writer_version.as_deref().map(|w| format!(" ({w})")).unwrap_or_default();
    format!("what is there now was written by commit user {}{writer}, identifier {}", there.commit_user, there.commit_identifier)
}

async fn list_ids(store: &Store, dir: &str, prefix: &str) -> Result<Vec<u64>> {
    let mut ids: Vec<u64> = store.list(dir).await?.iter().filter_map(|e| paths::id_of(&e.name, prefix)).collect();
    ids.sort_unstable();
    Ok(ids)
}

#[async_trait]
impl SnapshotLog for PaimonLog {
    async fn head(&self, user: Option<&CommitUser>, floor: Option<&Floor>, after: Option<&Head>) -> Result<Head> {
        for _ in 0..AGAIN {
            let read_at = self.store.env().monotonic();
            let Some((id, bytes)) = self.newest(after.map(|h| h.id), floor).await? else { continue };
            let schema = self.newest_schema().await?;
            if let Some(bytes) = &bytes {
                let newest = self.decode(bytes, id)?;
                if newest.schema_id > schema.schema.id {
                    return Err(Error::data(format!("snapshot {id} has schema {}, which is missing", newest.schema_id))
                        .at(self.place(&paths::schema(newest.schema_id)))
                        .hint("restore the schema file"));
                }
            }
            let landed = self.landed(user, floor, id, bytes.as_ref()).await?;
            let sha256 = bytes.as_deref().map(Digest::of);
            return Ok(Head { id, sha256, table: self.table.clone(), landed, schema: schema.schema.clone(), read_at, snapshot: bytes });
        }
        Err(Error::unavailable("the newest snapshot vanishes each time it is read")
            .at(self.store.url())
            .hint("is somebody expiring all of them?"))
    }

    async fn stage(&self, head: &Head, change: &Change, work: &mut Work) -> Result<Staged> {
        self.stage_change(head, change, work.paimon.get_or_insert_default()).await.map_err(|e| e.at(self.store.url()))
    }

    async fn confirm(&self, head: &Head, staged: &Staged) -> Result<Standing> {
        self.confirm_staged(head, staged).await
    }

    async fn any_live(&self, head: &Head, paths: &[String]) -> Result<bool> {
        let Some(bytes) = &head.snapshot else { return Ok(false) };
        let snapshot = self.decode(bytes, head.id)?;
        self.holds_any(&snapshot, paths).await
    }

    fn object(&self, id: u64) -> String {
        paths::snapshot(id)
    }
}
