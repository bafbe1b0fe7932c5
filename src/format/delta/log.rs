//! [`SnapshotLog`] over a Delta table: versions, one commit object each. Like its parts `stage`, `confirm` and `create` it does I/O; it keeps
//! in memory what an append needs (version, protocol, metaData, transactions) and no list of files, so that a commit costs the same
//! whatever the table holds.

mod confirm;
pub(crate) mod create;
mod history;
mod stage;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;

pub use history::DeltaSnapshot;

use super::action::CommitInfo;
use super::names;
use super::options::DeltaOptions;
use super::partition::DeltaLayout;
use super::protocol;
use super::replay::{self, LogState, Seen};
use super::schema::DeltaSchema;
use crate::datafile::WriterOptions;
use crate::env::Rule;
use crate::error::{Error, Result};
use crate::format::{Change, CommitUser, Digest, END_OF_INPUT, Floor, Head, Landed, SnapshotLog, Staged, Standing, Work, property};
use crate::schema::Schema;
use crate::store::Store;

/// A Delta table's log.
pub struct DeltaLog {
    store: Store,
    state: Arc<Mutex<State>>,
}

struct State {
    newest: Arc<DeltaState>,
    /// A version of a checkpoint that is being written.
    checkpointing: Option<u64>,
}

/// A table as of one version: everything but its files.
#[derive(Clone, Debug)]
pub struct DeltaState {
    /// Version, protocol, metaData, transactions.
    pub log: LogState,
    /// The columns.
    pub schema: Arc<DeltaSchema>,
    /// The properties.
    pub options: Arc<DeltaOptions>,
}

impl DeltaState {
    /// `Invalid`: it cannot be read, by the name of what is not supported. `Data`: it is damaged.
    fn of(log: LogState) -> Result<DeltaState> {
        protocol::check_readable(&log.protocol, &log.metadata)?;
        let schema = Arc::new(DeltaSchema::decode(&log.metadata)?);
        let options = Arc::new(DeltaOptions::parse(&log.metadata.configuration)?);
        Ok(DeltaState { log, schema, options })
    }

    /// Moves on by the next commit.
    fn apply(&mut self, version: u64, bytes: &Bytes) -> Result<()> {
        let before = (self.log.protocol.clone(), self.log.metadata.clone());
        self.log.apply(version, bytes)?;
        if (&before.0, &before.1) != (&self.log.protocol, &self.log.metadata) {
            // Another protocol or other columns: understood anew, and refused if they are not.
            *self = DeltaState::of(self.log.clone())?;
        }
        Ok(())
    }

    /// `Invalid` when nothing can be written, by the name of what forbids it.
    pub fn check_writable(&self) -> Result<()> {
        protocol::check_writable(&self.log.protocol, &self.log.metadata)?;
        super::partition::check_append(&self.schema.schema)?;
        self.options.check_writable()
    }

    /// What the table says of the newest identifier of a user.
    fn landed(&self, user: &CommitUser) -> Landed {
        let Some(Seen { txn, commit }) = self.log.txns.get(user.as_str()) else { return Landed::Never };
        let property = |key: &str| commit.as_ref().and_then(|c| c.info.other.get(key)).and_then(Value::as_str);
        let closed_at = (txn.version == END_OF_INPUT).then(|| {
            let told = property(property::CLOSED_AT).map(|text| text.parse().ok());
            let kept = || self.log.txns.get(&closed_at(user)).map(|seen| Some(seen.txn.version).filter(|v| *v >= 0));
            told.or_else(kept)
        });
        let checkpoint = commit.as_ref().map(|_| property(property::CHECKPOINT).and_then(Digest::parse).unwrap_or_else(Digest::of_nothing));
        let (id, sha256) = commit.as_ref().map_or((self.log.version, self.log.sha256), |c| (c.version, c.sha256));
        Landed::At { identifier: txn.version, checkpoint, id, sha256, closed_at: closed_at.flatten() }
    }
}

/// The application that keeps at what a user's lineage was closed: a Delta checkpoint keeps no commitInfo.
fn closed_at(user: &CommitUser) -> String {
    format!("{user}/closed-at")
}

impl DeltaLog {
    /// Opens a table; `None` when there is none here.
    ///
    /// `Invalid`: the table has a feature that is not supported, by its name. `Data`: its log is damaged.
    pub async fn find(store: &Store) -> Result<Option<DeltaLog>> {
        let Some(log) = replay::newest(store).await? else { return Ok(None) };
        let newest = DeltaState::of(log).map_err(|e| at_table(e, store))?;
        Ok(Some(DeltaLog { store: store.clone(), state: Arc::new(Mutex::new(State { newest: Arc::new(newest), checkpointing: None })) }))
    }

    /// Opens a table. `Invalid` when there is none here; else as [`DeltaLog::find`].
    pub async fn open(store: &Store) -> Result<DeltaLog> {
        let none = || {
            Error::invalid("there is no Delta table here: no commit in _delta_log")
                .at(store.url())
                .hint("check the location, or create the table first")
        };
        Self::find(store).await?.ok_or_else(none)
    }

    /// Where the table lies.
    pub fn store(&self) -> &Store {
        &self.store
    }
    /// The newest state that was read so far.
    pub fn current(&self) -> Arc<DeltaState> {
        self.state().newest.clone()
    }
    /// Where data files lie.
    pub fn layout(&self) -> DeltaLayout {
        let current = self.current();
        DeltaLayout::new(&current.schema.schema, current.options.compression)
    }
    /// How files are written, within so many bytes of memory.
    pub fn writer_options(&self, memory: usize) -> Result<WriterOptions> {
        let current = self.current();
        let clustering = protocol::clustering_columns(&current.log.domains)?;
        current.options.writer_options(&current.schema.schema, &clustering, memory)
    }
    /// Table properties.
    pub fn configuration(&self) -> BTreeMap<String, String> {
        self.current().log.metadata.configuration.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn commit_bytes(&self, version: u64) -> Result<Option<Bytes>> {
        self.store.get(&names::commit(version)).await
    }

    /// The newest state. `lost`: the version to which whoever asks has just lost a race, so it is there.
    async fn advance(&self, lost: Option<u64>) -> Result<Arc<DeltaState>> {
        let known = self.current();
        // What is known must still be there: the table may have been recreated, or its log cleaned while this process slept.
        if self.commit_bytes(known.log.version).await?.is_none_or(|bytes| Digest::of(&bytes) != known.log.sha256) {
            return self.read_anew().await;
        }
        let mut next = known;
        while let Some(bytes) = self.commit_bytes(next.log.version + 1).await? {
            let state = Arc::make_mut(&mut next);
            let version = state.log.version + 1;
            let ignored = self.store.env().broken(Rule::Winners).then(|| state.log.txns.clone());
            state.apply(version, &bytes).map_err(|e| at_table(e, &self.store))?;
            if let Some(txns) = ignored {
                state.log.txns = txns;
            }
        }
        if lost.is_some_and(|lost| next.log.version < lost) {
            // The winner is gone already: the log was cleaned up, or this is another table.
            return self.read_anew().await;
        }
        self.keep(&next);
        Ok(next)
    }

    async fn read_anew(&self) -> Result<Arc<DeltaState>> {
        let gone =
            || Error::data("the table is gone: its log is empty").at(self.store.url()).hint("restore it; to begin anew see `--forget`");
        let log = replay::newest(&self.store).await?.ok_or_else(gone)?;
        let state = Arc::new(DeltaState::of(log).map_err(|e| at_table(e, &self.store))?);
        self.state().newest = state.clone();
        Ok(state)
    }

    /// Two commits of one table may be on their way at once: the newer state stays.
    fn keep(&self, state: &Arc<DeltaState>) {
        let mut held = self.state();
        if held.newest.log.version < state.log.version || held.newest.log.metadata.id != state.log.metadata.id {
            held.newest = state.clone();
        }
    }

    /// What speaks against the table being the one that the floor speaks of.
    async fn other(&self, state: &DeltaState, floor: &Floor, look: bool) -> Result<Option<String>> {
        let (id, version) = (&state.log.metadata.id, state.log.version);
        if floor.table != *id {
            return Ok(Some(format!("the checkpoint speaks of table {}, this is table {id}", floor.table)));
        }
        if floor.id > version {
            return Ok(Some(format!("the checkpoint speaks of version {}, but the newest is {version}", floor.id)));
        }
        let wanted = floor.sha256;
        let found = match floor.id == version {
            true => Some(state.log.sha256),
            // An old commit may have been cleaned up. One that a commit of this process has seen is not read each time.
            false if look => self.commit_bytes(floor.id).await?.as_deref().map(Digest::of),
            false => None,
        };
        Ok(match (wanted, found) {
            (Some(wanted), Some(found)) if wanted != found => {
                Some(format!("version {} has other bytes than when it was last seen: the table was restored or recreated", floor.id))
            }
            _ => None,
        })
    }
}

fn at_table(e: Error, store: &Store) -> Error {
    if e.place().is_none() { e.at(store.url()) } else { e }
}

impl fmt::Debug for DeltaLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeltaLog({})", self.store.url())
    }
}

#[async_trait]
impl SnapshotLog for DeltaLog {
    async fn head(&self, user: Option<&CommitUser>, floor: Option<&Floor>, after: Option<&Head>) -> Result<Head> {
        let read_at = self.store.env().monotonic();
        let state = self.advance(after.map(|h| h.id + 1)).await?;
        let other = match floor {
            Some(floor) => self.other(&state, floor, after.is_none()).await?,
            None => None,
        };
        let landed = match (other, user) {
            (Some(why), _) => Landed::Other(why),
            (None, Some(user)) => state.landed(user),
            (None, None) => Landed::None,
        };
        Ok(Head {
            id: state.log.version,
            sha256: Some(state.log.sha256),
            table: state.log.metadata.id.clone(),
            landed,
            schema: state.schema.schema.clone(),
            read_at,
            snapshot: Some(state.log.bytes.clone()),
        })
    }

    async fn stage(&self, head: &Head, change: &Change, _: &mut Work) -> Result<Staged> {
        self.stage_change(head, change).await
    }

    async fn confirm(&self, head: &Head, staged: &Staged) -> Result<Standing> {
        self.confirm_commit(head, staged).await
    }

    async fn any_live(&self, head: &Head, paths: &[String]) -> Result<bool> {
        let paths = paths.iter().map(|p| super::partition::uri_encode(p)).collect::<std::collections::BTreeSet<_>>();
        let live = replay::live_files(&self.store, head.id, &|add| paths.contains(&add.path)).await?;
        Ok(!live.is_empty())
    }

    fn object(&self, id: u64) -> String {
        names::commit(id)
    }
}

/// A property of ours in a commit.
pub(crate) fn property_of<'a>(info: &'a CommitInfo, key: &str) -> Option<&'a str> {
    info.other.get(key).and_then(Value::as_str)
}

/// The columns that a new table has.
pub(crate) fn kept(schema: &Schema) -> Result<Schema> {
    super::schema::canonical(schema)
}
