//! After a publication: is the snapshot in history, or did it fall into a slot that expiry had emptied? Then the hints.

use std::time::Duration;

use super::super::manifest::EntryKind;
use super::super::paths;
use super::PaimonLog;
use crate::error::{Error, Result};
use crate::format::{Digest, Head, Staged, Standing};

/// A pin is trusted for so long after it was written. Consumers that expire in under a day are refused.
const PIN_TRUST: Duration = Duration::from_secs(12 * 3600);
/// A head older than this may be far behind; then the hints are left alone.
const HINT_AGE: Duration = Duration::from_secs(60);

impl PaimonLog {
    pub(super) async fn confirm_staged(&self, head: &Head, staged: &Staged) -> Result<Standing> {
        let id = staged.id;
        let below = if id > 1 { self.snapshot_bytes(id - 1).await? } else { None };
        let built_on_head = below.as_deref().map(Digest::of).is_some_and(|d| Some(d) == head.sha256);
        if built_on_head && self.pinned(id - 1) {
            // Nothing from the pin on is ever expired, so the slot was free because nobody had used it.
            self.settle(head, id, true).await;
            return Ok(Standing::In);
        }
        let ids = self.snapshot_ids().await?;
        if !ids.contains(&id) {
            return Err(self.lost(id, "it was published and is gone again"));
        }
        if ids.last() == Some(&id) {
            // Without a predecessor (id 1, or all others expired) it is the whole history.
            if !built_on_head && ids.len() > 1 {
                return Err(self.lost(id, "the snapshot before it is not the one that it was built on"));
            }
            self.settle(head, id, true).await;
            return Ok(Standing::In);
        }
        if staged.files.is_empty() && built_on_head {
            // Nothing of it can be looked for; but expiry deletes upwards, so a slot whose predecessor stands had not been emptied.
            // Deleting a snapshot that others have built on would tear a hole into history.
            self.settle(head, id, false).await;
            return Ok(Standing::In);
        }
        if !built_on_head && !ids.contains(&(id + 1)) {
            // Expiry deletes upwards: what stands alone below a gap is in nobody's history, even if another process has landed the same
            // files meanwhile. Left there it would look like a hole.
            self.store.delete(&staged.name).await?;
            return Ok(Standing::Dead);
        }
        if self.newest_holds(&staged.files).await? {
            self.settle(head, id, false).await;
            return Ok(Standing::In);
        }
        if let Some(by) = self.deleted_above(&ids, id, &staged.files).await? {
            return Err(self.lost(id, &format!("snapshot {by} already removed its files, so whether it is in history cannot be told")));
        }
        self.store.delete(&staged.name).await?;
        Ok(Standing::Dead)
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

    /// Does the newest snapshot (still the newest after it was read) hold any of these files?
    async fn newest_holds(&self, files: &[String]) -> Result<bool> {
        if files.is_empty() {
            return Ok(false);
        }
        for _ in 0..super::AGAIN {
            let Some(newest) = self.snapshot_ids().await?.last().copied() else { continue };
            let Some(snapshot) = self.snapshot(newest).await? else { continue };
            let held = self.holds_any(&snapshot, files).await;
            if self.snapshot_ids().await?.last() == Some(&newest) {
                return held;
            }
        }
        Err(Error::unavailable("newer snapshots appear faster than they can be read").at(self.store.url()).hint("try again later"))
    }

    /// The snapshot above `id` that removes one of these files: somebody (a compaction) has seen them as live.
    async fn deleted_above(&self, ids: &[u64], id: u64, files: &[String]) -> Result<Option<u64>> {
        if files.is_empty() {
            return Ok(None);
        }
        for above in ids.iter().copied().filter(|i| *i > id) {
            let Some(snapshot) = self.snapshot(above).await? else { continue };
            for meta in self.read_list(&snapshot.delta_manifest_list).await?.iter().filter(|m| m.deleted > 0) {
                for entry in self.read_manifest(&meta.name).await?.iter().filter(|e| e.kind == EntryKind::Delete) {
                    if files.contains(&self.path_of(entry)?) {
                        return Ok(Some(above));
                    }
                }
            }
        }
        Ok(None)
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
