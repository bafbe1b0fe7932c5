//! The chain: owns checkpoints, commits them in every sink, keeps floors, pins and retention. At most one checkpoint is pending.
//!
//! `start.rs` makes a [`Chain`] out of what lies on the store; this file carries it forward.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::env::{Env, Rule};
use crate::error::{Error, Kind, Result};
use crate::format::{CommitUser, END_OF_INPUT, Floor};
use crate::sink::{Message, Outcome, Resolution, Sink, SinkCommit};
use crate::source::Offsets;
use crate::stream::checkpoint::{Checkpoint, CheckpointKind, Role, SinkEntry, VERSION, Writer};
use crate::stream::decide::{SinkState, after, next_entry};
use crate::stream::event::{Event, Events};
use crate::stream::ledger::{Ledger, Written, expendable};
use crate::stream::properties::{Context, snapshot_properties};

/// A floor older than this is read again with the next checkpoint.
const FLOOR_AGE: Duration = Duration::from_secs(3600);
/// A pin is raised at most this often.
const PIN_INTERVAL: Duration = Duration::from_secs(60);

/// How a chain behaves.
#[derive(Clone, Debug)]
pub struct ChainOptions {
    /// How many checkpoints with messages are kept; at least 2.
    pub keep: usize,
    /// How long a create or a commit may try.
    pub patience: Duration,
}

impl Default for ChainOptions {
    fn default() -> Self {
        ChainOptions { keep: 10, patience: Duration::from_secs(300) }
    }
}

/// A sink of the running lineage.
pub(crate) struct ChainSink {
    pub(crate) url: String,
    pub(crate) sink: Box<dyn Sink>,
    pub(crate) state: SinkState,
    pub(crate) pinned: Option<Duration>,
}

/// A checkpoint that is owned and not yet committed everywhere: the permit that [`Chain::commit`] asks for.
#[must_use = "an owned checkpoint must be committed before the next one"]
#[derive(Debug)]
pub struct Owned {
    pub(crate) written: Written,
    started: Duration,
}

impl Owned {
    /// Its identifier.
    pub fn identifier(&self) -> i64 {
        self.written.checkpoint.identifier
    }
    /// Its seq.
    pub fn seq(&self) -> u64 {
        self.written.checkpoint.seq
    }
}

/// What became of one checkpoint in one sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The sink's url.
    pub sink: String,
    /// What became of it; none: it had nothing for this sink.
    pub outcome: Option<Outcome>,
}

/// The series of checkpoints of one pipeline, with an open lineage and nothing pending.
pub struct Chain {
    pub(crate) ledger: Ledger,
    pub(crate) options: ChainOptions,
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) greatest: Written,
    pub(crate) offsets: Offsets,
    pub(crate) stop: Option<Offsets>,
    /// What `stop:` says, in words; see [`Checkpoint::until`].
    pub(crate) until: String,
    pub(crate) sinks: Vec<ChainSink>,
    /// Seqs on the store, as of the last listing.
    pub(crate) seqs: Vec<u64>,
    /// Those of them that are known to have messages.
    pub(crate) with_messages: BTreeSet<u64>,
    pub(crate) resumed: bool,
    pub(crate) pending: bool,
    pub(crate) last_written: Duration,
    /// A person's words by which the greatest was finished: the next checkpoint records them.
    pub(crate) resolved: BTreeMap<String, Resolution>,
}

impl Chain {
    /// The open lineage's commit user.
    pub fn user(&self) -> &CommitUser {
        &self.greatest.checkpoint.user
    }
    /// Where the source has to go: the least that is settled in every sink.
    pub fn offsets(&self) -> Offsets {
        let mut covered = self.sinks.iter().map(|s| &s.state.covered);
        let Some(first) = covered.next() else { return self.offsets.clone() };
        covered.fold(first.clone(), |least, c| least.min(c))
    }
    /// Where the source ends; none: never.
    pub fn stop(&self) -> Option<&Offsets> {
        self.stop.as_ref()
    }
    /// Did the start go on with an open lineage?
    pub fn resumed(&self) -> bool {
        self.resumed
    }
    /// Uuid of this run.
    pub fn run(&self) -> &str {
        &self.writer.run
    }
    /// The seq that the next checkpoint would have.
    pub fn next_seq(&self) -> u64 {
        self.greatest.checkpoint.seq + 1
    }
    /// The greatest checkpoint.
    pub fn greatest(&self) -> &Checkpoint {
        &self.greatest.checkpoint
    }
    pub(crate) fn env(&self) -> &Env {
        self.ledger.store().env()
    }

    fn millis_since(&self, started: Duration) -> u64 {
        u64::try_from(self.env().monotonic().saturating_sub(started).as_millis()).unwrap_or(u64::MAX)
    }

    /// Should there be a checkpoint although there is nothing to commit? Once an hour, when offsets moved or a floor is old.
    /// `offsets` is asked only then: it costs as much as there are splits.
    pub(crate) fn tick_is_due(&self, offsets: impl FnOnce() -> Offsets) -> bool {
        let now = self.env().now_ms();
        let silent = self.env().monotonic().saturating_sub(self.last_written) >= FLOOR_AGE;
        silent && (!self.offsets.covers(&offsets()) || self.sinks.iter().any(|s| is_old(s.state.floor_read, now)))
    }

    /// Writes the next checkpoint and owns it. `messages`: per sink, in the order in which the sinks were given; none: nothing for this
    /// sink. `Fenced`: stop. `Invalid`: the one before it is not committed yet.
    pub(crate) async fn write(&mut self, kind: CheckpointKind, offsets: Offsets, messages: Vec<Option<Vec<Message>>>) -> Result<Owned> {
        let offsets = self.offsets.overlaid(&offsets);
        self.write_at(kind, offsets, messages).await
    }

    /// [`Chain::write`] with exactly these offsets: also for going back.
    pub(crate) async fn write_at(&mut self, kind: CheckpointKind, offsets: Offsets, messages: Vec<Option<Vec<Message>>>) -> Result<Owned> {
        if self.pending {
            return Err(Error::invalid("the checkpoint before this one is not committed yet"));
        }
        if messages.len() != self.sinks.len() {
            return Err(Error::invalid(format!("{} lists of messages for {} sinks", messages.len(), self.sinks.len())));
        }
        let started = self.env().monotonic();
        let mut entries = BTreeMap::new();
        for (sink, messages) in self.sinks.iter().zip(messages) {
            let head = self.newer_floor(sink).await?;
            entries.insert(sink.url.clone(), next_entry(kind, &sink.state, &offsets, messages, head));
        }
        let checkpoint = self.next(kind, offsets, entries);
        if self.env().broken(Rule::PinAfterOwned) {
            for sink in &self.sinks {
                let anchor = sink.sink.anchor();
                anchor.pin(&checkpoint.user, anchor.head().await?.id).await?;
            }
        }
        let (written, seqs) = self.ledger.own(checkpoint, self.options.patience).await?;
        self.seqs = seqs;
        self.pending = true;
        self.last_written = self.env().monotonic();
        let c = &written.checkpoint;
        self.events.tell(Event::Checkpointed {
            seq: c.seq,
            identifier: c.identifier,
            kind: c.kind.as_str(),
            millis: self.millis_since(started),
        });
        Ok(Owned { written, started })
    }

    fn next(&self, kind: CheckpointKind, offsets: Offsets, sinks: BTreeMap<String, SinkEntry>) -> Checkpoint {
        let before = &self.greatest.checkpoint;
        let seq = before.seq + 1;
        Checkpoint {
            version: VERSION,
            pipeline: before.pipeline.clone(),
            chain: before.chain.clone(),
            seq,
            nonce: self.env().uuid().to_string(),
            writer: self.writer.clone(),
            parent: Some(self.greatest.link()),
            kind,
            user: before.user.clone(),
            opened: before.opened,
            identifier: identifier_of(kind, seq),
            offsets,
            stop: self.stop.clone(),
            start: before.start.clone(),
            until: self.until.clone(),
            from: None,
            close: None,
            resolved: self.resolved.clone(),
            sinks,
        }
    }

    /// A head to serve as floor, when the present one is old. `last` holds there: the previous commit is confirmed.
    async fn newer_floor(&self, sink: &ChainSink) -> Result<Option<(Floor, i64)>> {
        let now = self.env().now_ms();
        if !is_old(sink.state.floor_read, now) {
            return Ok(None);
        }
        Ok(Some((sink.sink.anchor().head().await?, now)))
    }

    /// Lands an owned checkpoint in every sink, in order; then pins and retention. An error leaves it pending: the next start finishes it.
    pub async fn commit(&mut self, owned: Owned) -> Result<Vec<Committed>> {
        let Owned { written, started } = owned;
        let checkpoint = &written.checkpoint;
        let mut all = Vec::new();
        for i in 0..self.sinks.len() {
            let url = self.sinks[i].url.clone();
            let Some(entry) = checkpoint.sinks.get(&url) else { continue };
            let outcome = match entry.messages {
                None => None,
                Some(_) => {
                    let sink = self.sinks[i].sink.as_mut();
                    let context = Finish { ledger: &self.ledger, writer: &self.writer, replay: false, resolve: None };
                    Some(context.commit(&written, &url, entry, sink).await?)
                }
            };
            let known = outcome.clone().unwrap_or_else(|| Outcome { already: true, floor: entry.floor.clone(), last: entry.last });
            self.sinks[i].state = after(checkpoint, entry, &known, self.env().now_ms());
            if let Some(outcome) = &outcome {
                self.events.tell(Event::Committed {
                    sink: url.clone(),
                    identifier: checkpoint.identifier,
                    snapshot: outcome.floor.id,
                    rows: Checkpoint::rows(entry),
                    bytes: Checkpoint::bytes(entry),
                    files: Checkpoint::files(entry),
                    millis: self.millis_since(started),
                });
            }
            all.push(Committed { sink: url, outcome });
        }
        self.settle(written).await?;
        Ok(all)
    }

    /// The checkpoint is finished everywhere: remember it, raise pins, drop old checkpoints.
    pub(crate) async fn settle(&mut self, written: Written) -> Result<()> {
        self.offsets = written.checkpoint.offsets.clone();
        self.resolved.clear();
        if written.checkpoint.has_messages() {
            self.with_messages.insert(written.checkpoint.seq);
        }
        self.greatest = written;
        self.pending = false;
        if self.greatest.checkpoint.kind == CheckpointKind::Closed {
            for sink in &self.sinks {
                sink.sink.anchor().unpin(self.ledger.pipeline(), self.greatest.checkpoint.opened + 1).await?;
            }
        } else {
            self.raise_pins().await?;
        }
        self.retain().await
    }

    async fn retain(&mut self) -> Result<()> {
        let expendable = expendable(&self.seqs, self.options.keep, &self.with_messages);
        for seq in expendable {
            self.ledger.delete(seq).await?;
            self.seqs.retain(|s| *s != seq);
            self.with_messages.remove(&seq);
        }
        Ok(())
    }

    async fn raise_pins(&mut self) -> Result<()> {
        let now = self.env().monotonic();
        let user = self.greatest.checkpoint.user.clone();
        for sink in &mut self.sinks {
            if sink.pinned.is_some_and(|at| now.saturating_sub(at) < PIN_INTERVAL) {
                continue;
            }
            sink.sink.anchor().pin(&user, sink.state.floor.id).await?;
            sink.pinned = Some(now);
        }
        Ok(())
    }
}

/// Is a floor that was read at `read` due to be read again? One from the future was read by a clock that is not to be trusted.
fn is_old(read: i64, now: i64) -> bool {
    let hour = i64::try_from(FLOOR_AGE.as_millis()).unwrap_or(i64::MAX);
    !(0..hour).contains(&now.saturating_sub(read))
}

/// The identifier under which a checkpoint's messages land.
pub(crate) fn identifier_of(kind: CheckpointKind, seq: u64) -> i64 {
    match kind {
        CheckpointKind::End | CheckpointKind::Closed => END_OF_INPUT,
        CheckpointKind::Open | CheckpointKind::Data => i64::try_from(seq).unwrap_or(END_OF_INPUT - 1),
    }
}

/// Finishes a checkpoint in one sink.
pub(crate) struct Finish<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) writer: &'a Writer,
    pub(crate) replay: bool,
    pub(crate) resolve: Option<Resolution>,
}

impl Finish<'_> {
    /// Commits, or only looks. `Data` becomes `Fenced` when the chain has gone on meanwhile: then it is the newer owner's table.
    pub(crate) async fn commit(&self, written: &Written, url: &str, entry: &SinkEntry, sink: &mut dyn Sink) -> Result<Outcome> {
        let checkpoint = &written.checkpoint;
        let context = Context { ledger: self.ledger, run: &self.writer.run, written };
        let commit = SinkCommit {
            user: checkpoint.user.clone(),
            identifier: checkpoint.identifier,
            digest: written.digest,
            floor: entry.floor.clone(),
            last: entry.last,
            messages: entry.messages.clone(),
            properties: snapshot_properties(&context, entry)?,
            watermark: entry.watermark,
            replay: self.replay,
            resolve: self.resolve,
        };
        match sink.commit(&commit).await {
            Err(error) if error.kind() == Kind::Data => {
                if !self.ledger.store().env().broken(Rule::ListBeforeData) {
                    self.ledger.still_greatest(checkpoint.seq).await?;
                }
                Err(error.at(format!("checkpoint {}, sink {url}", checkpoint.seq)))
            }
            other => other,
        }
    }
}

/// The role and the sink of one location of the pipeline file.
pub struct Configured {
    /// What it is for.
    pub role: Role,
    /// The sink.
    pub sink: Box<dyn Sink>,
}
