//! What a log consists of, and where a listing of it may begin.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::super::checkpoint::Checkpoint;
use super::super::names::{LAST_CHECKPOINT, LOG_DIR, LogFile, parse};
use crate::error::{Error, Result};
use crate::store::{Entry, Store};

/// The commits and complete checkpoints of a log, or of its newer end.
#[derive(Debug)]
pub(in crate::format::delta) struct Listing {
    pub(in crate::format::delta) commits: BTreeSet<u64>,
    pub(in crate::format::delta) checkpoints: BTreeMap<u64, Vec<Checkpoint>>,
    /// Is there anything of a log?
    any: bool,
}

/// What of `_last_checkpoint` is of use here.
#[derive(Deserialize)]
struct Hint {
    version: u64,
}

/// The version that `_last_checkpoint` names; anything odd is no hint.
pub(in crate::format::delta) async fn hint(store: &Store) -> Result<Option<u64>> {
    let bytes = store.get(LAST_CHECKPOINT).await?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice::<Hint>(&bytes).ok()).map(|hint| hint.version))
}

impl Listing {
    /// The end of the log from the checkpoint on that the hint names. `None`: there is no hint, it names a version above `most`, or no
    /// complete checkpoint of that version is there.
    pub(in crate::format::delta) async fn from_hint(store: &Store, most: Option<u64>) -> Result<Option<Listing>> {
        let Some(version) = hint(store).await? else { return Ok(None) };
        if most.is_some_and(|most| version > most) {
            return Ok(None);
        }
        let listing = Listing::of(store.list_after(LOG_DIR, &format!("{version:020}")).await?);
        Ok(Some(listing).filter(|listing| listing.checkpoints.contains_key(&version)))
    }

    pub(in crate::format::delta) async fn whole(store: &Store) -> Result<Listing> {
        Ok(Listing::of(store.list(LOG_DIR).await?))
    }

    fn of(entries: Vec<Entry>) -> Listing {
        let files: Vec<LogFile> = entries.iter().filter_map(|entry| parse(&entry.name)).collect();
        let commits = files.iter().filter_map(|file| if let LogFile::Commit(version) = file { Some(*version) } else { None });
        Listing { commits: commits.collect(), checkpoints: Checkpoint::among(&entries), any: !files.is_empty() }
    }

    /// The newest version that there is anything of.
    pub(in crate::format::delta) fn newest(&self) -> Option<u64> {
        self.commits.last().max(self.checkpoints.keys().next_back()).copied()
    }

    pub(in crate::format::delta) fn has(&self, version: u64) -> bool {
        self.commits.contains(&version) || self.checkpoints.contains_key(&version)
    }

    /// May cleaning up have taken what `version` needs? It takes what lies below a checkpoint.
    pub(in crate::format::delta) fn cleaned(&self, version: u64) -> bool {
        self.checkpoints.range(version..).any(|(v, _)| *v > version)
    }

    /// Are all the commits there from the newest checkpoint at or below `version` to it? What cannot be read then is damaged.
    pub(in crate::format::delta) fn leads_to(&self, version: u64) -> bool {
        let first = self.checkpoints.range(..=version).next_back().map_or(0, |(v, _)| v + 1);
        (first..=version).all(|v| self.commits.contains(&v))
    }

    /// There is no commit and no checkpoint. `Data`: but something is left of a log.
    pub(in crate::format::delta) fn nothing(&self, store: &Store) -> Result<()> {
        if !self.any {
            return Ok(());
        }
        let what = "there are files of a log here, but no commit and no complete checkpoint";
        Err(Error::data(what).at(store.place(LOG_DIR)).hint("restore the log, or choose another place for a new table"))
    }

    /// There is nothing of `version`. `Data`: but there should be.
    pub(in crate::format::delta) fn absent(&self, store: &Store, version: u64) -> Result<()> {
        if self.newest().is_none_or(|newest| newest < version) || self.cleaned(version) {
            return self.newest().map_or_else(|| self.nothing(store), |_| Ok(()));
        }
        let what = format!("the log has no commit of version {version}");
        Err(Error::data(what).at(store.place(LOG_DIR)).hint("restore the file: no engine can read the table without it"))
    }
}
