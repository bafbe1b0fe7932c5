//! After a publication: is the version in history? Then the checkpoint, when one is due.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::delta::action::{self, Action};
use crate::format::delta::{checkpoint, names, replay};
use crate::format::{Digest, Head, Staged, Standing};

use super::{DeltaLog, DeltaState};

/// How long a call of a checkpoint's is tried again: the next commits ask for another one anyway.
const PATIENCE: Duration = Duration::from_secs(10);

impl DeltaLog {
    pub(super) async fn confirm_commit(&self, head: &Head, staged: &Staged) -> Result<Standing> {
        // Cleaning up takes commits below a checkpoint, oldest first, and the checkpoint is pointed to before. So if the version below is
        // still there, and no checkpoint above, the slot had not been emptied.
        let below = self.commit_bytes(head.id).await?.as_deref().map(Digest::of);
        if below.is_some() && below == head.sha256 && self.pointed_to().await?.is_none_or(|version| version <= staged.id) {
            self.landed_at(staged)?;
            self.checkpoint_if_due().await;
            return Ok(Standing::In);
        }
        self.look_closely(staged).await
    }

    /// The slot may have been an emptied one: then what is the newest state knows nothing of this commit.
    async fn look_closely(&self, staged: &Staged) -> Result<Standing> {
        let newest = replay::newest(&self.store).await?;
        let here = |what: &str| {
            Error::data(format!("version {} was published and {what}", staged.id))
                .at(self.store.place(&staged.name))
                .hint("the table was recreated or restored while it was written to; look at it before you go on")
        };
        let Some(newest) = newest else { return Err(here("the table is gone")) };
        let wanted = action::decode(&staged.bytes)?.into_iter().find_map(|a| match a {
            Action::Txn(txn) => Some(txn),
            _ => None,
        });
        let wanted = wanted.ok_or_else(|| Error::internal("a commit without its transaction").hint("please report this"))?;
        // More than ours: a newer owner of the chain is at work, and it began only when ours had landed.
        let landed = newest.txns.get(&wanted.app_id).is_some_and(|seen| seen.txn.version >= wanted.version);
        if newest.version >= staged.id && landed {
            self.state().newest = Arc::new(DeltaState::of(newest)?);
            // A hint that points above everything is set right by the next checkpoint.
            self.checkpoint_if_due().await;
            return Ok(Standing::In);
        }
        if newest.version > staged.id {
            // History went on without it: no reader sees it, and it must not be taken for anything.
            self.store.delete(&staged.name).await?;
            return Ok(Standing::Dead);
        }
        Err(here("the version below is not the one that it was decided on"))
    }

    pub(super) async fn pointed_to(&self) -> Result<Option<u64>> {
        let bytes = self.store.get(names::LAST_CHECKPOINT).await?;
        let value = bytes.and_then(|b| serde_json::from_slice::<serde_json::Value>(&b).ok());
        Ok(value.and_then(|v| v.get("version")?.as_u64()))
    }

    /// What was published is the newest state that is known.
    fn landed_at(&self, staged: &Staged) -> Result<()> {
        let mut held = self.state();
        if held.newest.log.version + 1 == staged.id {
            Arc::make_mut(&mut held.newest).apply(staged.id, &staged.bytes)?;
        }
        Ok(())
    }

    /// Writes a checkpoint when enough commits have been made since the newest: beside everything else, and never a reason to fail.
    async fn checkpoint_if_due(&self) {
        let version = {
            let mut held = self.state();
            let log = &held.newest.log;
            let since = log.version - log.checkpoint.unwrap_or(0).min(log.version);
            if since < held.newest.options.checkpoint_interval || held.checkpointing.is_some() {
                return;
            }
            let version = log.version;
            held.checkpointing = Some(version);
            version
        };
        let (store, state) = (self.store.aside(PATIENCE), self.state.clone());
        let work = async move {
            let written = checkpoint::write(&store, version).await;
            let mut held = state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            held.checkpointing = None;
            let newest = Arc::make_mut(&mut held.newest);
            match written {
                Ok(_) => newest.log.checkpoint = newest.log.checkpoint.max(Some(version)),
                Err(error) => {
                    tracing::warn!(table = store.url(), version, %error, "no checkpoint was written; the commits stand");
                    // Not again with the next commit, which would fail alike: after another interval.
                    newest.log.checkpoint = newest.log.checkpoint.max(Some(version));
                }
            }
        };
        if let Some(work) = self.store.env().aside(work) {
            work.await;
        }
    }
}
