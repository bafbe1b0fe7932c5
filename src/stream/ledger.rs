//! The chain's objects on the store: list, read, own, retain. `<location>/<pipeline>/<seq, 20 digits>.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::env::Rule;
use crate::error::{Error, Result};
use crate::format::Digest;
use crate::publish::{Publication, publish};
use crate::source::{Finished, Shelf};
use crate::store::Store;
use crate::stream::checkpoint::{Checkpoint, CheckpointKind, Link, NEWEST, VERSION};

/// The series of checkpoint objects of one pipeline.
#[derive(Clone, Debug)]
pub struct Ledger {
    store: Store,
    pipeline: String,
}

/// A checkpoint as it lies on the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// SHA-256 of its bytes.
    pub digest: Digest,
}

impl Written {
    /// Names it.
    pub fn link(&self) -> Link {
        Link { seq: self.checkpoint.seq, sha256: self.digest }
    }
}

impl Ledger {
    /// Of `pipeline` under the checkpoint location `store`.
    pub fn new(store: Store, pipeline: &str) -> Self {
        Ledger { store, pipeline: pipeline.to_owned() }
    }
    /// The checkpoint location.
    pub fn location(&self) -> &str {
        self.store.url()
    }
    /// The pipeline.
    pub fn pipeline(&self) -> &str {
        &self.pipeline
    }
    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }
    fn name(&self, seq: u64) -> String {
        format!("{}/{seq:020}.json", self.pipeline)
    }

    /// Every seq that is there, rising.
    pub async fn list(&self) -> Result<Vec<u64>> {
        if self.store.env().broken(Rule::OneChain) {
            return Ok(self.of_each_lineage().await?.into_keys().collect());
        }
        let entries = self.store.list(&self.pipeline).await?;
        let seq = |name: &str| name.strip_suffix(".json").filter(|digits| digits.len() == 20).and_then(|digits| digits.parse().ok());
        let seqs: BTreeSet<u64> = entries.iter().filter_map(|e| seq(&e.name)).collect();
        Ok(seqs.into_iter().collect())
    }

    /// Reads a checkpoint; none when it is not there.
    pub async fn read(&self, seq: u64) -> Result<Option<Written>> {
        match self.bytes(seq).await? {
            Some(bytes) => self.decoded(&bytes, seq).await.map(Some),
            None => Ok(None),
        }
    }

    /// Where each seq lies when every lineage has a series of its own; only for [`Rule::OneChain`].
    async fn of_each_lineage(&self) -> Result<BTreeMap<u64, String>> {
        let entries = self.store.list_all(&self.pipeline).await?;
        let seq = |name: &str| name.rsplit('/').next()?.strip_suffix(".json")?.parse().ok();
        Ok(entries.iter().filter_map(|e| Some((seq(&e.name)?, format!("{}/{}", self.pipeline, e.name)))).collect())
    }

    async fn bytes(&self, seq: u64) -> Result<Option<Bytes>> {
        if self.store.env().broken(Rule::OneChain) {
            let places = self.of_each_lineage().await?;
            return match places.get(&seq) {
                Some(name) => self.store.get(name).await,
                None => Ok(None),
            };
        }
        self.store.get(&self.name(seq)).await
    }

    async fn decoded(&self, bytes: &[u8], seq: u64) -> Result<Written> {
        let place = || format!("{}/{}", self.store.url(), self.name(seq));
        let mut checkpoint = Checkpoint::from_bytes(bytes, &self.pipeline, seq).map_err(|e| e.at(place()))?;
        // Most offsets share their finished splits; they are read once, and shared again.
        let mut read: Vec<(Arc<Finished>, Arc<Finished>)> = Vec::new();
        for offsets in checkpoint.all_offsets() {
            let Some(finished) = offsets.1.take() else { continue };
            offsets.1 = Some(match (finished.pending(), read.iter().find(|(listed, _)| *listed == finished)) {
                (None, _) => finished,
                (Some(_), Some((_, whole))) => whole.clone(),
                (Some(_), None) => {
                    let whole = Arc::new(finished.load(self).await.map_err(|e| e.at(place()))?);
                    read.push((finished, whole.clone()));
                    whole
                }
            });
        }
        Ok(Written { checkpoint, digest: Digest::of(bytes) })
    }

    /// `Fenced` when another run has written a checkpoint above `seen` (none: any at all). Asked before a start gives up on what it saw: it may
    /// have looked at tables that a newer owner works on.
    pub(crate) async fn no_other_run_since(&self, seen: Option<u64>, run: &str) -> Result<()> {
        if self.store.env().broken(Rule::ListBeforeData) {
            return Ok(());
        }
        let Some(greatest) = self.list().await?.last().copied().filter(|g| seen.is_none_or(|s| *g > s)) else { return Ok(()) };
        match self.read(greatest).await? {
            Some(written) if written.checkpoint.writer.run == run => Ok(()),
            _ => Err(self.fenced(greatest).await),
        }
    }

    /// The greatest checkpoint, made durable before anybody acts on it; none when the chain is empty.
    pub async fn greatest(&self) -> Result<Option<Written>> {
        // A listed object may be deleted by a running owner's retention before it is read; the greatest never is.
        for _ in 0..10 {
            let Some(seq) = self.list().await?.last().copied() else { return Ok(None) };
            if let Some(written) = self.read(seq).await? {
                self.store.settle(&self.name(seq)).await?;
                return Ok(Some(written));
            }
        }
        Err(Error::data("the greatest checkpoint is listed but cannot be read").at(self.store.url()))
    }

    /// Creates the next checkpoint and owns it, or finds that somebody else does. `Fenced`: stop.
    /// Also every seq that is there now, rising.
    pub async fn own(&self, mut checkpoint: Checkpoint, patience: Duration) -> Result<(Written, Vec<u64>)> {
        let puts_away = checkpoint.all_offsets().iter().any(|offsets| offsets.finished() > 0);
        checkpoint.version = if puts_away { NEWEST } else { VERSION };
        let bytes = checkpoint.to_bytes()?;
        let digest = Digest::of(&bytes);
        let env = self.store.env();
        let mut name = self.name(checkpoint.seq);
        if env.broken(Rule::OneChain) {
            name = format!("{}/{}/{:020}.json", self.pipeline, checkpoint.user, checkpoint.seq);
        }
        let deadline = env.deadline(patience);
        let publication = if env.broken(Rule::CreateOnly) {
            self.store.put(&name, bytes).await?;
            Publication::Published
        } else {
            publish(&self.store, &name, bytes, deadline).await?
        };
        match publication {
            Publication::Taken(_) => Err(self.fenced(checkpoint.seq).await),
            Publication::Published => {
                let seqs = self.still_greatest(checkpoint.seq).await?;
                Ok((Written { checkpoint, digest }, seqs))
            }
        }
    }

    /// `Fenced` when there is a checkpoint above `seq`. Retention may have emptied the slot that was created, so a create alone proves nothing.
    /// Every seq that is there, rising.
    pub async fn still_greatest(&self, seq: u64) -> Result<Vec<u64>> {
        let seqs = self.list().await?;
        match seqs.last() {
            _ if self.store.env().broken(Rule::ListAfterCreate) => Ok(seqs),
            Some(greatest) if *greatest > seq => Err(self.fenced(*greatest).await),
            _ => Ok(seqs),
        }
    }

    async fn fenced(&self, by: u64) -> Error {
        let who = match self.read(by).await {
            Ok(Some(w)) => format!("host {}, pid {}", w.checkpoint.writer.host, w.checkpoint.writer.pid),
            Ok(None) | Err(_) => "a writer that is not known".to_owned(),
        };
        Error::fenced(format!("pipeline `{}` is run by another process: checkpoint {by} was written by {who}", self.pipeline))
            .at(self.store.url())
            .hint("run a pipeline once at a time; this process has stopped and written nothing more")
    }

    /// Deletes one checkpoint; see [`expendable`].
    pub(crate) async fn delete(&self, seq: u64) -> Result<()> {
        self.store.delete(&self.name(seq)).await
    }

    /// The checkpoints that parent links reach from `from`, newest first.
    pub async fn history(&self, from: &Written) -> Result<Vec<Written>> {
        let mut all = vec![from.clone()];
        let mut parent = from.checkpoint.parent;
        while let Some(link) = parent {
            // Of other bytes: left over by retention that another process did not finish, or damaged; not part of this history.
            let Some(bytes) = self.bytes(link.seq).await?.filter(|b| Digest::of(b) == link.sha256) else { break };
            let written = self.decoded(&bytes, link.seq).await?;
            parent = written.checkpoint.parent.filter(|p| p.seq < link.seq);
            all.push(written);
        }
        Ok(all)
    }
}

/// Lists of finished splits, `<location>/<pipeline>/finished/<hash of the bytes>`. Never deleted: they cost 32 bytes for each split, and who
/// might still need one cannot be known.
#[async_trait]
impl Shelf for Ledger {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.store.put(&format!("{}/finished/{name}", self.pipeline), bytes).await
    }
    async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        self.store.get(&format!("{}/finished/{name}", self.pipeline)).await
    }
}

/// Which of `seqs` retention may delete, ascending: those below the `keep`-th newest that has messages. A seq of which it is not known
/// whether it has messages counts as having none, which keeps more; the greatest is always kept.
pub(crate) fn expendable(seqs: &[u64], keep: usize, with_messages: &BTreeSet<u64>) -> Vec<u64> {
    let keep = keep.max(2);
    let Some(greatest) = seqs.last() else { return Vec::new() };
    let kept = seqs.iter().rev().filter(|s| with_messages.contains(s)).nth(keep - 1);
    match kept {
        Some(oldest) => seqs.iter().copied().filter(|s| s < oldest && s < greatest).collect(),
        None => Vec::new(),
    }
}

impl CheckpointKind {
    /// The word in output.
    pub fn as_str(self) -> &'static str {
        match self {
            CheckpointKind::Open => "open",
            CheckpointKind::Data => "data",
            CheckpointKind::End => "end",
            CheckpointKind::Closed => "closed",
        }
    }
}
