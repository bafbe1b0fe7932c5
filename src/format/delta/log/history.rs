//! What scans and the command line read: versions, their commits, live files.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};

use super::{DeltaLog, DeltaState, at_table, property_of};
use crate::error::Result;
use crate::format::delta::action::{self, Action, Add, CommitInfo, DeletionVector, Txn};
use crate::format::delta::{deletion, names, partition, replay};
use crate::format::property;

/// One version, as its commit says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeltaSnapshot {
    /// The version.
    pub version: u64,
    /// Who committed what.
    pub info: CommitInfo,
    /// Transactions that it moved.
    pub txns: Vec<Txn>,
    /// Files that it adds, and their rows where all say how many.
    pub added: (u64, Option<u64>),
    /// Files that it removes.
    pub removed: u64,
    /// Does it set columns or properties?
    pub metadata: bool,
    /// Does it set the protocol?
    pub protocol: bool,
}

impl DeltaSnapshot {
    pub(crate) fn decode(version: u64, bytes: &[u8]) -> Result<DeltaSnapshot> {
        let mut s = DeltaSnapshot { version, added: (0, Some(0)), ..DeltaSnapshot::default() };
        for action in action::decode(bytes)? {
            match action {
                Action::CommitInfo(info) => s.info = info,
                Action::Txn(txn) => s.txns.push(txn),
                Action::Add(add) => s.added = (s.added.0 + 1, s.added.1.zip(rows_of(&add)).map(|(sum, rows)| sum + rows)),
                Action::Remove(_) => s.removed += 1,
                Action::MetaData(_) => s.metadata = true,
                Action::Protocol(_) => s.protocol = true,
                Action::DomainMetadata(_) | Action::Cdc(_) | Action::CheckpointMetadata(_) | Action::Sidecar(_) => {}
            }
        }
        Ok(s)
    }

    /// The transaction of the commit user: the first one, as this program writes them; of others whatever they have.
    pub fn txn(&self) -> Option<&Txn> {
        self.txns.first()
    }
    /// When it was made, milliseconds since 1970-01-01 UTC.
    pub fn time_ms(&self) -> Option<i64> {
        self.info.in_commit_timestamp.or(self.info.timestamp)
    }
    /// Event-time watermark, milliseconds since 1970-01-01 UTC.
    pub fn watermark(&self) -> Option<i64> {
        property_of(&self.info, property::WATERMARK)?.parse().ok()
    }
}

/// Rows of a file, by its statistics.
pub(crate) fn rows_of(add: &Add) -> Option<u64> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Counted {
        num_records: Option<u64>,
    }
    let stats: Counted = serde_json::from_str(add.stats.as_deref()?).ok()?;
    let deleted = add.deletion_vector.as_ref().map_or(0, |dv| u64::try_from(dv.cardinality).unwrap_or(0));
    stats.num_records.map(|rows| rows.saturating_sub(deleted))
}

impl DeltaLog {
    /// Versions whose commit is there, ascending.
    pub async fn versions(&self) -> Result<Vec<u64>> {
        Ok(replay::versions(&self.store).await?.0)
    }

    /// The commit of a version; `None` when it is not there.
    pub async fn snapshot(&self, version: u64) -> Result<Option<DeltaSnapshot>> {
        let Some(bytes) = self.commit_bytes(version).await? else { return Ok(None) };
        DeltaSnapshot::decode(version, &bytes).map(Some).map_err(|e| e.at(self.store.place(&names::commit(version))))
    }

    /// The newest state, looked for anew.
    pub async fn newest(&self) -> Result<Arc<DeltaState>> {
        self.advance(None).await
    }

    /// The state as of a version; `None` when it cannot be made any more. `Invalid`: what it held then is not supported.
    pub async fn state_at(&self, version: u64) -> Result<Option<DeltaState>> {
        let Some(log) = replay::at(&self.store, version).await? else { return Ok(None) };
        DeltaState::of(log).map(Some).map_err(|e| at_table(e, &self.store))
    }

    /// Files that are live as of a version, those for which `keep` is true.
    pub async fn live_files(&self, version: u64, keep: &(dyn Fn(&Add) -> bool + Sync)) -> Result<Vec<Add>> {
        replay::live_files(&self.store, version, keep).await.map_err(|e| at_table(e, &self.store))
    }

    /// Every data file that is live as of the newest version, or that a commit names which is still there (an older version may have it):
    /// paths under the table's root.
    pub async fn referenced(&self) -> Result<BTreeSet<String>> {
        const AT_ONCE: usize = 16;
        let versions = self.versions().await?;
        let mut reading = futures::stream::iter(versions.into_iter().map(|v| self.commit_bytes(v))).buffered(AT_ONCE);
        let mut found = BTreeSet::new();
        // What is named by a full location does not lie here.
        let mut name = |path: &str, vector: &Option<DeletionVector>| {
            found.extend(partition::uri_decode(path).ok());
            found.extend(vector.as_ref().and_then(deletion::file));
        };
        while let Some(bytes) = reading.try_next().await? {
            for action in bytes.map_or_else(|| Ok(Vec::new()), |bytes| action::decode(&bytes))? {
                match action {
                    Action::Add(add) => name(&add.path, &add.deletion_vector),
                    Action::Remove(remove) => name(&remove.path, &remove.deletion_vector),
                    _ => {}
                }
            }
        }
        let newest = self.newest().await?;
        for add in self.live_files(newest.log.version, &|_| true).await? {
            name(&add.path, &add.deletion_vector);
        }
        Ok(found)
    }
}
