//! After a publication: is the snapshot in history, or did it fall into a slot that expiry had emptied? Then the hints.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::manifest::ManifestMeta;
use super::super::paths;
use super::super::snapshot::Snapshot;
use super::PaimonLog;
use crate::error::{Error, Result};
use crate::format::{Digest, Head, Staged, Standing, property};

/// A pin is trusted for so long after it was written. Consumers that expire in under a day are refused.
const PIN_TRUST: Duration = Duration::from_secs(12 * 3600);
/// A head older than this may be far behind; then the hints are left alone.
const HINT_AGE: Duration = Duration::from_secs(60);

impl PaimonLog {
    pub(super) async fn confirm_staged(&self, head: &Head, staged: &Staged) -> Result<Standing> {
        let id = staged.id;
        let below = if id > 1 { self.snapshot_bytes(id - 1).await? } else { None };
        let built_on_head = below.as_deref().map(Digest::of).is_some_and(|d| Some(d) == head.sha256);
        if built_on_head && (self.pinned(id - 1) || self.follows(id).await?) {
            // Nothing from the pin on is ever expired, so the slot was free because nobody had used it.
            self.settle(head, id, true).await;
            return Ok(Standing::In);
        }
        for _ in 0..super::AGAIN {
            let ids = self.snapshot_ids().await?;
            if !ids.contains(&id) {
                // Expired already, in history or not: the next look at the table tells whether it had landed.
                return Ok(Standing::Dead);
            }
            if ids.last() == Some(&id) {
                // Without a predecessor (id 1, or all others expired) it is the whole history.
                if !built_on_head && ids.len() > 1 {
                    let there = below.as_ref().and_then(|bytes| self.decode(bytes, id - 1).ok());
                    let whose = there.map_or_else(|| "it is gone".to_owned(), |s| super::replaced_by(&s));
                    return Err(self.lost(id, &format!("the snapshot before it is not the one that it was built on: {whose}")));
                }
                self.settle(head, id, true).await;
                return Ok(Standing::In);
            }
            let in_history = match ids.contains(&(id + 1)) {
                true => self.is_built_on(id + 1, &self.decode(&staged.bytes, id)?, staged.sha256()).await?,
                // Expiry deletes upwards: what stands alone below a gap is in nobody's history.
                false if built_on_head => return Err(self.lost(id, &format!("snapshot {} above it is missing", id + 1))),
                false => Some(false),
            };
            match in_history {
                Some(true) => {
                    self.settle(head, id, false).await;
                    return Ok(Standing::In);
                }
                Some(false) => {
                    self.store.delete(&staged.name).await?;
                    return Ok(Standing::Dead);
                }
                None => {} // the one above has just expired, and so this one has or will
            }
        }
        Err(Error::unavailable("snapshots expire faster than they can be read").at(self.store.url()).hint("try again later"))
    }

    /// Is there nothing above snapshot `id`, and does its history reach below the one that it was built on? Expiry deletes upwards, so the slot
    /// had not been emptied. Without a pin this saves listing a directory that grows with the table.
    async fn follows(&self, id: u64) -> Result<bool> {
        let there = async |id| Ok::<_, Error>(self.store.size(&paths::snapshot(id)).await?.is_some());
        Ok(id > 2 && !there(id + 1).await? && there(id - 2).await?)
    }

    /// Was snapshot `above` built on `below`, which has these bytes? Then `below` is in history; else it was created in a slot that expiry had
    /// emptied. None: one of them expired while they were compared.
    pub(super) async fn is_built_on(&self, above: u64, below: &Snapshot, sha256: Digest) -> Result<Option<bool>> {
        let Some(snapshot) = self.snapshot(above).await? else { return Ok(None) };
        if let Some((base, list)) = snapshot.property(property::BASE).and_then(|text| text.split_once(' '))
            && list == snapshot.delta_manifest_list
        {
            return Ok(Some(Digest::parse(base) == Some(sha256)));
        }
        match self.base_is(&snapshot, below).await {
            Err(_) if self.snapshot_bytes(above).await?.is_none() || self.snapshot_bytes(below.id).await?.is_none() => Ok(None),
            told => told.map(Some),
        }
    }

    /// The same for an `above` of another engine: is its base what `below` holds?
    async fn base_is(&self, above: &Snapshot, below: &Snapshot) -> Result<bool> {
        let names = |metas: &[ManifestMeta]| metas.iter().map(|m| m.name.clone()).collect::<BTreeSet<String>>();
        let base = names(&self.read_list(&above.base_manifest_list).await?);
        let kept = names(&self.read_list(&below.base_manifest_list).await?);
        let added = names(&self.read_list(&below.delta_manifest_list).await?);
        if added.is_empty() && kept.is_subset(&base) {
            return Ok(base.len() == kept.len()); // all that is below is there, so nothing was merged, and nothing else may be there
        }
        if added.is_subset(&base) {
            return Ok(true); // also when it adds nothing: taking it for history loses nothing then, and not taking it may tear a hole
        }
        if kept.is_subset(&base) && base.len() == kept.len() + added.len() {
            return Ok(false); // nothing was merged, and it is not there
        }
        self.base_holds_any(above, &self.added_by(below).await?).await
    }

    fn lost(&self, id: u64, why: &str) -> Error {
        Error::data(format!("the fate of snapshot {id} is not known: {why}"))
            .at(self.place(&paths::snapshot(id)))
            .hint("another program deletes or replaces snapshots; stop it, look at the newest snapshots, then start again")
    }

    fn pinned(&self, id: u64) -> bool {
        let now = self.store.env().monotonic();
        self.state().pin.is_some_and(|(least, written)| least <= id && now.saturating_sub(written) < PIN_TRUST)
    }

    /// Remembers and tells that `id` is in history. Hints are best effort: readers do without them.
    async fn settle(&self, head: &Head, id: u64, newest: bool) {
        let age = self.store.env().monotonic().saturating_sub(head.read_at);
        {
            let mut state = self.state();
            state.confirmed = newest.then_some(id);
            if !newest || age >= HINT_AGE || state.hinted >= id {
                return;
            }
            state.hinted = id;
        }
        if let Err(error) = self.store.put(paths::LATEST, id.to_string().into()).await {
            tracing::debug!(%error, "the hint LATEST was not written");
        }
        if id == 1
            && let Err(error) = self.store.put(paths::EARLIEST, "1".into()).await
        {
            tracing::debug!(%error, "the hint EARLIEST was not written");
        }
    }
}
