//! Cleaning up a log: what lies below a checkpoint that is old enough is of no use but to time travel. Only when somebody asks.
//!
//! First a [`CleanupPlan`], a value that can be shown; then [`execute`], which points readers to a checkpoint that stays, and deletes from the
//! oldest version upwards. A death in the middle leaves a shorter log that every engine reads.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::checkpoint::{Checkpoint, pointer, read};
use super::names::{LOG_DIR, LogFile, SIDECAR_DIR, parse};
use super::options::DeltaOptions;
use super::replay;
use crate::error::{Error, Kind, Result};
use crate::store::{Entry, Store};

const DAY_MS: i64 = 24 * 3600 * 1000;

/// What cleaning up would delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanupPlan {
    /// The checkpoint that everything deleted lies below; `None`: none is old enough, and nothing is deleted.
    pub checkpoint: Option<u64>,
    /// What is not older stays; a midnight UTC, milliseconds since 1970-01-01 UTC.
    pub cutoff_ms: i64,
    /// Names under the table's root, in the order in which they are deleted, and sizes in bytes.
    pub files: Vec<(String, u64)>,
}

impl CleanupPlan {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, size)| size).sum()
    }
}

/// What may be deleted at the time `now_ms`, milliseconds since 1970-01-01 UTC, by the table's `delta.logRetentionDuration`. Deletes nothing.
///
/// `Invalid`: there is no table, its log is not to be cleaned up (`delta.enableExpiredLogCleanup`), or it must not be written to.
/// `Data`: its log is damaged.
pub async fn plan(store: &Store, now_ms: i64) -> Result<CleanupPlan> {
    let none = || Error::invalid("there is no Delta table here").at(store.url()).hint("correct the location");
    let newest = replay::newest(store).await?.ok_or_else(none)?;
    super::protocol::check_writable(&newest.protocol, &newest.metadata).map_err(|e| e.at(store.url()))?;
    let options = DeltaOptions::parse(&newest.metadata.configuration).map_err(|e| e.at(store.url()))?;
    options.check_writable().map_err(|e| e.at(store.url()))?;
    if !options.log_cleanup {
        return Err(Error::invalid("the table keeps its whole log: delta.enableExpiredLogCleanup is false")
            .at(store.url())
            .hint("set the property to true first, if old versions may go"));
    }
    let retention = i64::try_from(options.log_retention.as_millis()).unwrap_or(i64::MAX);
    let cutoff_ms = now_ms.saturating_sub(retention).div_euclid(DAY_MS).saturating_mul(DAY_MS);
    let entries = store.list(LOG_DIR).await?;
    let Some(checkpoint) = keeps(store, &entries, cutoff_ms).await? else {
        return Ok(CleanupPlan { checkpoint: None, cutoff_ms, files: Vec::new() });
    };
    let below = |entry: &&Entry| match parse(&entry.name) {
        Some(LogFile::Commit(v) | LogFile::Crc(v) | LogFile::Checkpoint(v)) => v < checkpoint,
        Some(LogFile::Part { version, .. } | LogFile::V2 { version, .. }) => version < checkpoint,
        Some(LogFile::Compacted(first, _)) => first < checkpoint,
        None => false,
    };
    let named = |dir: &str, entry: &Entry| (format!("{dir}/{}", entry.name), entry.size);
    let mut files: Vec<_> = entries.iter().filter(below).map(|entry| named(LOG_DIR, entry)).collect();
    files.extend(orphans(store, &entries, checkpoint, now_ms).await?.iter().map(|entry| named(SIDECAR_DIR, entry)));
    Ok(CleanupPlan { checkpoint: Some(checkpoint), cutoff_ms, files })
}

/// The newest checkpoint at or below the newest commit that is old enough, and that can be read to its end.
async fn keeps(store: &Store, entries: &[Entry], cutoff_ms: i64) -> Result<Option<u64>> {
    // Commits follow each other in time, whatever the clocks of those who wrote them said.
    let (mut at, mut old) = (i64::MIN, None);
    for entry in entries {
        if let Some(LogFile::Commit(version)) = parse(&entry.name) {
            at = entry.modified_ms.max(at.saturating_add(1));
            if at > cutoff_ms {
                break;
            }
            old = Some(version);
        }
    }
    let Some(old) = old else { return Ok(None) };
    for (version, all) in Checkpoint::among(entries).range(..=old).rev() {
        for one in all {
            let whole = async {
                read::frame(store, one).await?;
                read::adds(store, one, |_| {}).await
            };
            match whole.await {
                Ok(()) => return Ok(Some(*version)),
                Err(e) if e.kind() == Kind::Data => {
                    tracing::warn!(checkpoint = read::place(store, one), error = %e, "a checkpoint is damaged, an older one is kept");
                }
                Err(e) => return Err(e),
            }
        }
    }
    Ok(None)
}

/// Sidecars of no checkpoint that stays, older than a day: younger ones may be those of a checkpoint that is being written.
async fn orphans(store: &Store, entries: &[Entry], checkpoint: u64, now_ms: i64) -> Result<Vec<Entry>> {
    let sidecars = store.list(SIDECAR_DIR).await?;
    if sidecars.is_empty() {
        return Ok(sidecars);
    }
    let mut used = BTreeSet::new();
    for one in Checkpoint::among(entries).range(checkpoint..).flat_map(|(_, all)| all) {
        match read::sidecars(store, one).await {
            Ok(named) => used.extend(named.into_iter().map(|(path, _)| path)),
            // Which ones it needs cannot be told.
            Err(e) if e.kind() == Kind::Data => return Ok(Vec::new()),
            Err(e) => return Err(e),
        }
    }
    let orphan = |entry: &Entry| entry.modified_ms < now_ms - DAY_MS && !used.contains(&format!("{SIDECAR_DIR}/{}", entry.name));
    Ok(sidecars.into_iter().filter(orphan).collect())
}

/// Deletes what a plan says; how many files. It may be done again after it was cut off.
///
/// `Data`: the checkpoint that everything rests on is gone or damaged by now; nothing was deleted then. `Unavailable`: the store did not
/// answer in time; what is left is left for another time.
pub async fn execute(store: &Store, plan: &CleanupPlan) -> Result<usize> {
    let Some(version) = plan.checkpoint else { return Ok(0) };
    let entries = store.list_after(LOG_DIR, &format!("{version:020}")).await?;
    let complete = Checkpoint::among(&entries);
    let gone = || {
        let what = format!("the checkpoint of version {version}, which would stay, is gone");
        Error::data(what).at(store.place(LOG_DIR)).hint("somebody else cleans up: make a new plan")
    };
    let kept = complete.get(&version).and_then(|all| all.first()).ok_or_else(gone)?;
    read::frame(store, kept).await?;
    // Readers fail on a pointer to a checkpoint that is deleted.
    let pointed = replay::hint(store).await?;
    if !pointed.is_some_and(|pointed| complete.contains_key(&pointed)) {
        let newest = complete.values().next_back().and_then(|all| all.first()).unwrap_or(kept);
        read::frame(store, newest).await?;
        let rows = pointer::actions(store, newest).await?;
        pointer::raise(store, newest, rows, None).await?;
    }
    for (name, _) in &plan.files {
        store.delete(name).await?;
    }
    Ok(plan.files.len())
}
