//! A start: reads the greatest checkpoint, finishes it, and opens a lineage or goes on in the open one. The only backward read there is.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use crate::env::Rule;
use crate::error::{Error, Kind, Result};
use crate::format::CommitUser;
use crate::sink::{CloseUser, ClosedAt, Outcome, Registration, Resolution, Sink};
use crate::source::{Offsets, Source};
use crate::stream::chain::{Chain, ChainOptions, ChainSink, Configured, Finish};
use crate::stream::checkpoint::{Checkpoint, CheckpointKind, Close, CloseEntry, ClosedSinks, From, FromMode, SinkEntry, VERSION, Writer};
use crate::stream::decide::{Asked, First, Greatest, SinkState, Then, after, after_close, anything_to_read, start, stop_stands};
use crate::stream::event::{Event, Events};
use crate::stream::ledger::{Ledger, Written};
use crate::stream::properties::{Context, identity};
use crate::stream::sinks::Sinks;

/// Opens sinks that a checkpoint names and the pipeline file may not.
#[async_trait]
pub trait OpenSink: Send + Sync {
    /// By the url and the format in the checkpoint.
    async fn open(&self, url: &str, format: &str) -> Result<Box<dyn Sink>>;
}

/// What a person asks of a start.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// `--rewind`, `--abandon`.
    pub asked: Asked,
    /// `--resolve SINK=landed|lost`, by url.
    pub resolve: BTreeMap<String, Resolution>,
    /// `--adopt`: the chain or a sink was moved on purpose.
    pub adopt: bool,
    /// `--forget`: the chain is gone on purpose; begin anew.
    pub forget: bool,
    /// `--drop-sink URL`.
    pub drop_sinks: Vec<String>,
    /// `--backfill`: a new sink begins where the source begins.
    pub backfill: bool,
}

/// Everything that a start needs.
pub struct Start<'a> {
    /// The chain's objects.
    pub ledger: Ledger,
    /// Who starts.
    pub writer: Writer,
    /// Where events go.
    pub events: Events,
    /// Retention and patience.
    pub chain: ChainOptions,
    /// What a person asks.
    pub options: StartOptions,
    /// What the pipeline's `start:` says; a change is refused.
    pub start: String,
    /// `start:` names a moment (`latest`): the first start opens a lineage also where there is nothing to read, or the next one would begin
    /// at another moment and pass over what came in between.
    pub moment: bool,
    /// What the pipeline's `stop:` says; when that has changed, the stop of an open lineage is resolved anew. Empty: it has no choice.
    pub until: String,
    /// Opens sinks by what a checkpoint says.
    pub opener: &'a dyn OpenSink,
}

impl Start<'_> {
    /// Runs the start. None: a bounded source has nothing to read, and nothing was written.
    pub async fn run(self, configured: Vec<Configured>, source: &mut dyn Source) -> Result<Option<Chain>> {
        let greatest = self.ledger.greatest().await?;
        let seen = greatest.as_ref().map(|w| w.checkpoint.seq);
        let (ledger, run) = (self.ledger.clone(), self.writer.run.clone());
        // Boxed: a start is large, and callers hold it in futures of their own.
        match Box::pin(self.run_from(greatest, configured, source)).await {
            // A newer owner may have changed the tables under this start: then it is older, and nothing is wrong with them.
            Err(error) if error.kind() == Kind::Data => {
                ledger.no_other_run_since(seen, &run).await?;
                Err(error)
            }
            other => other,
        }
    }

    async fn run_from(self, greatest: Option<Written>, configured: Vec<Configured>, source: &mut dyn Source) -> Result<Option<Chain>> {
        let facts =
            greatest.as_ref().map(|w| Greatest { seq: w.checkpoint.seq, kind: w.checkpoint.kind, messages: w.checkpoint.has_messages() });
        let (first, then) = start(facts, self.options.asked).map_err(|e| e.at(self.ledger.location()))?;
        let mut sinks = Sinks::new(configured)?;
        self.options.check(greatest.as_ref(), &sinks).map_err(|e| e.at(self.ledger.location()))?;
        if let Some(written) = &greatest {
            self.adopt_moved_sinks(written, &mut sinks).await?;
            self.open_named(written, &mut sinks).await?;
        }
        self.check_tables(greatest.as_ref(), &sinks).await?;
        let Some(written) = greatest else { return self.begin(None, sinks, source).await };
        if written.checkpoint.start != self.start && self.options.asked.rewind.is_none() {
            return Err(Error::invalid(format!(
                "`start` was `{}` when the pipeline began and is `{}` now; it cannot change under a running pipeline",
                written.checkpoint.start, self.start
            ))
            .at(self.ledger.location())
            .hint("put it back, or go back in the chain with --rewind K"));
        }
        let skip_end = self.broken(Rule::FinishEnd) && written.checkpoint.kind == CheckpointKind::End;
        let first = if skip_end { First::GiveUp } else { first };
        let states = self.finish(&written, first, &mut sinks).await?;
        match then {
            Then::Begin => self.begin(Some((written, states)), sinks, source).await,
            Then::WriteClosed => {
                let chain = self.close_end(written, states, &mut sinks).await?;
                let states = chain.sinks.iter().map(|s| (s.url.clone(), s.state.clone())).collect();
                let written = chain.greatest.clone();
                sinks.put_back(chain.sinks);
                self.begin(Some((written, states)), sinks, source).await
            }
            Then::GoOn => self.go_on(written, states, sinks, source).await.map(Some),
            Then::GoBack(mode) => self.go_back((written, states), mode, sinks, source).await.map(Some),
        }
    }

    fn broken(&self, rule: Rule) -> bool {
        self.ledger.store().env().broken(rule)
    }

    // ---- finishing the greatest ----------------------------------------------------------------------------------------------------

    /// Finishes `close`, then messages, by the location and format in the checkpoint. Returns the facts of each sink that it names.
    async fn finish(&self, written: &Written, first: First, sinks: &mut Sinks) -> Result<BTreeMap<String, SinkState>> {
        let checkpoint = &written.checkpoint;
        let closed = match &checkpoint.close {
            Some(close) => self.close_lineage(written, close, sinks).await?,
            None => ClosedSinks::new(),
        };
        let mut states = BTreeMap::new();
        for (url, entry) in &checkpoint.sinks {
            if sinks.gone.contains(url) {
                if entry.messages.is_some() && first != First::GiveUp {
                    let n = checkpoint.seq;
                    return Err(Error::data(format!("the pending checkpoint {n} has rows for a table that is gone")).at(url).hint(format!(
                        "restore the table; or give the checkpoint up, here and where it has not landed yet: --abandon {n} --drop-sink {url}"
                    )));
                }
                continue;
            }
            let now_at = sinks.now_at(url);
            let now = self.ledger.store().env().now_ms();
            let sink = sinks.get(&now_at, entry, self.opener).await?;
            let outcome = match (checkpoint.kind, first) {
                (CheckpointKind::Open, _) => {
                    if checkpoint.writer.run != self.writer.run {
                        // Nothing of its user can have landed; if something has, this chain is older than the table.
                        self.finish_sink(written, url, entry, sink).await?;
                    }
                    self.establish(checkpoint, &now_at, entry.floor.id, sink).await?
                }
                (_, First::GiveUp) => Outcome { already: true, floor: entry.floor.clone(), last: entry.last },
                _ => {
                    let outcome = self.finish_sink(written, url, entry, sink).await?;
                    self.keep_anchored(checkpoint, &now_at, entry, sink).await?;
                    outcome
                }
            };
            let mut state = after(checkpoint, entry, &outcome, now);
            if let (Some(close), Some(from)) = (&checkpoint.close, &checkpoint.from)
                && let Some(old) = close.sinks.get(url)
            {
                let closed_at = closed.get(url).copied().flatten();
                (state.since, state.covered) = after_close(from.mode, old, closed_at, &checkpoint.offsets);
            }
            states.insert(now_at, state);
        }
        Ok(states)
    }

    async fn finish_sink(&self, written: &Written, url: &str, entry: &SinkEntry, sink: &mut dyn Sink) -> Result<Outcome> {
        let resolve = self.options.resolve.get(url).copied();
        let finish = Finish { ledger: &self.ledger, writer: &self.writer, replay: true, resolve };
        let outcome = finish.commit(written, url, entry, sink).await?;
        if entry.messages.is_some() {
            self.events.tell(Event::Finished {
                seq: written.checkpoint.seq,
                sink: url.to_owned(),
                identifier: written.checkpoint.identifier,
                snapshot: outcome.floor.id,
                already: outcome.already,
            });
        }
        Ok(outcome)
    }

    /// After an `open`: registration, then the pin, then the head again. Nothing of its user can have landed, so that head is the floor.
    async fn establish(&self, checkpoint: &Checkpoint, url: &str, floor: u64, sink: &dyn Sink) -> Result<Outcome> {
        let before = if self.broken(Rule::FloorAfterPin) { Some(sink.anchor().head().await?) } else { None };
        self.anchor(checkpoint, url, floor, sink).await?;
        let head = match before {
            Some(head) => head,
            None => sink.anchor().head().await?,
        };
        Ok(Outcome { already: true, floor: head, last: None })
    }

    /// A start repeats what is missing, once the table has turned out to be as the checkpoint says: a start that must stop writes nothing.
    /// The pin may stand higher already; it is written only up to what the checkpoint owns.
    async fn keep_anchored(&self, checkpoint: &Checkpoint, url: &str, entry: &SinkEntry, sink: &dyn Sink) -> Result<()> {
        if checkpoint.kind == CheckpointKind::Closed {
            sink.anchor().register(&self.registration(checkpoint, url)).await?;
            return sink.anchor().unpin(self.ledger.pipeline(), checkpoint.opened + 1).await;
        }
        self.anchor(checkpoint, url, entry.floor.id, sink).await
    }

    async fn anchor(&self, checkpoint: &Checkpoint, url: &str, floor: u64, sink: &dyn Sink) -> Result<()> {
        let anchor = sink.anchor();
        anchor.register(&self.registration(checkpoint, url)).await?;
        anchor.pin(&checkpoint.user, floor).await?;
        // A lineage that this checkpoint closes is closed in every sink by now; its pins may go.
        anchor.unpin(self.ledger.pipeline(), checkpoint.opened).await
    }

    fn registration(&self, checkpoint: &Checkpoint, url: &str) -> Registration {
        Registration {
            pipeline: checkpoint.pipeline.clone(),
            chain: checkpoint.chain.clone(),
            location: self.ledger.location().to_owned(),
            sink: url.to_owned(),
            user: checkpoint.user.clone(),
            seq: checkpoint.opened,
        }
    }

    /// Closes the old lineage in every sink, before anything of the new one is decided.
    async fn close_lineage(&self, written: &Written, close: &Close, sinks: &mut Sinks) -> Result<ClosedSinks> {
        let pending = self.pending_of(written).await?;
        let mut closed = ClosedSinks::new();
        for (url, old) in &close.sinks {
            if sinks.gone.contains(url) {
                continue;
            }
            let now_at = sinks.now_at(url);
            let sink = sinks.get_by(&now_at, &old.format, self.opener).await?;
            let closed_at = self.close_in(written, close, (url, old), &pending, sink).await?;
            self.events.tell(Event::LineageClosed { user: close.user.to_string(), sink: url.clone(), closed_at });
            closed.insert(url.clone(), closed_at);
        }
        Ok(closed)
    }

    async fn close_in(
        &self,
        written: &Written,
        close: &Close,
        (url, old): (&str, &CloseEntry),
        pending: &BTreeMap<String, SinkEntry>,
        sink: &mut dyn Sink,
    ) -> Result<ClosedAt> {
        let context = Context { ledger: &self.ledger, run: &self.writer.run, written };
        let request = CloseUser {
            user: close.user.clone(),
            floor: old.floor.clone(),
            last: old.last,
            pending: old.identifier.map(|id| (id, old.digest)),
            // A sink that was moved meanwhile has another url in the parent; its floor is the same.
            messages: pending.get(url).or_else(|| pending.values().find(|e| e.floor == old.floor)).and_then(|e| e.messages.clone()),
            properties: identity(&context),
            resolve: self.options.resolve.get(url).copied(),
        };
        if self.broken(Rule::CloseOld) {
            return Ok(old.identifier.or(old.last));
        }
        match sink.close(&request).await {
            Err(error) if error.kind() == Kind::Data && !self.broken(Rule::ListBeforeData) => {
                self.ledger.still_greatest(written.checkpoint.seq).await?;
                Err(error)
            }
            other => other,
        }
    }

    /// The entries of the checkpoint before an `open` that closes: their files tell what landed when history cannot.
    async fn pending_of(&self, open: &Written) -> Result<BTreeMap<String, SinkEntry>> {
        let Some(parent) = open.checkpoint.parent else { return Ok(BTreeMap::new()) };
        let parent = self.ledger.read(parent.seq).await?;
        Ok(parent.map(|p| p.checkpoint.sinks).unwrap_or_default())
    }

    pub(super) fn dropped(&self, url: &str) -> bool {
        self.options.drop_sinks.iter().any(|d| d.trim_end_matches('/') == url)
    }

    // ---- going on -------------------------------------------------------------------------------------------------------------------

    /// Step 3 for `end`: it has landed everywhere, so say so.
    async fn close_end(&self, written: Written, states: BTreeMap<String, SinkState>, sinks: &mut Sinks) -> Result<Chain> {
        let named: Vec<String> = states.keys().cloned().collect();
        let offsets = written.checkpoint.offsets.clone();
        let taken = named.iter().filter_map(|url| Some((url.clone(), sinks.take(url)?, states.get(url)?.clone()))).collect();
        let mut chain = self.chain(written, taken, true).await?;
        let none = chain.sinks.iter().map(|_| None).collect();
        let owned = chain.write(CheckpointKind::Closed, offsets, none).await?;
        chain.commit(owned).await?;
        Ok(chain)
    }

    /// Begins a lineage, unless a bounded source has nothing to read.
    async fn begin(
        &self,
        before: Option<(Written, BTreeMap<String, SinkState>)>,
        mut sinks: Sinks,
        source: &mut dyn Source,
    ) -> Result<Option<Chain>> {
        let from = before.as_ref().map(|(w, _)| &w.checkpoint.offsets);
        let resolved = source.resolve(from).await?;
        let known = before.as_ref().map(|(w, _)| &w.checkpoint);
        let old: Option<BTreeSet<String>> = known.map(|k| k.sinks.keys().map(|url| sinks.now_at(url)).collect());
        let backfills = |url: &String| self.options.backfill && old.as_ref().is_some_and(|old| !old.contains(url));
        // With a backfill the lineage begins where the source does; nothing between is settled for all.
        let from_start = sinks.order.iter().any(backfills);
        let offsets = if from_start { Offsets::default() } else { resolved.start.clone() };
        let first_moment = self.moment && before.is_none();
        if !first_moment && !anything_to_read(&offsets, resolved.stop.as_ref()) {
            return Ok(None);
        }
        if let Some((written, _)) = &before {
            self.let_go_of_dropped(&written.checkpoint, &sinks).await?;
        }
        let user = self.fresh_user();
        let mut entries = BTreeMap::new();
        for url in sinks.order.clone() {
            let configured = sinks.configured.get(&url).ok_or_else(|| Error::internal("a sink is missing"))?;
            let begins = if backfills(&url) { Offsets::default() } else { resolved.start.clone() };
            let mut entry = self.open_entry(configured, &begins).await?;
            entry.covered = (begins != offsets).then_some(begins);
            entry.predecessor = known.map(|k| k.user.clone());
            entries.insert(url, entry);
        }
        let mut open = self.open(before.as_ref().map(|(w, _)| w), user, offsets, resolved.stop, entries);
        open.chain = known.map_or_else(|| open.nonce.clone(), |k| k.chain.clone());
        let (written, _) = self.ledger.own(open, self.chain.patience).await?;
        let states = self.finish(&written, First::Finish, &mut sinks).await?;
        let taken = sinks.take_all(&states);
        Ok(Some(self.chain(written, taken, false).await?))
    }

    /// Goes on in the open lineage; a changed set of sinks, or a stop resolved anew, is recorded before the first poll.
    async fn go_on(
        &self,
        written: Written,
        mut states: BTreeMap<String, SinkState>,
        mut sinks: Sinks,
        source: &mut dyn Source,
    ) -> Result<Chain> {
        let mut stop = written.checkpoint.stop.clone();
        if !stop_stands(&written.checkpoint, &self.until) {
            stop = source.resolve(Some(&written.checkpoint.offsets)).await?.stop;
        }
        let mut changed = stop != written.checkpoint.stop
            || self.until != written.checkpoint.until
            || !sinks.moved.is_empty()
            || written.checkpoint.close.is_some();
        changed |= !self.options.resolve.is_empty();
        if self.let_go_of_dropped(&written.checkpoint, &sinks).await? {
            states.retain(|url, _| sinks.configured.contains_key(url));
            changed = true;
        }
        for url in sinks.order.clone() {
            if states.contains_key(&url) {
                continue;
            }
            let configured = sinks.configured.get(&url).ok_or_else(|| Error::internal("a sink is missing"))?;
            let begins = if self.options.backfill { Offsets::default() } else { written.checkpoint.offsets.clone() };
            let mut entry = self.open_entry(configured, &begins).await?;
            let outcome = self.establish(&written.checkpoint, &url, entry.floor.id, configured.sink.as_ref()).await?;
            entry.covered = Some(begins);
            states.insert(url.clone(), after(&written.checkpoint, &entry, &outcome, entry.floor_read));
            changed = true;
        }
        let offsets = written.checkpoint.offsets.clone();
        let taken = sinks.take_all(&states);
        let mut chain = self.chain(written, taken, true).await?;
        (chain.stop, chain.until) = (stop, self.until.clone());
        if changed {
            let none = chain.sinks.iter().map(|_| None).collect();
            // Sinks stand at different places now; the least of them is where the source goes, and nothing between is settled for all.
            let at = if chain.sinks.is_empty() { offsets } else { chain.offsets() };
            let owned = chain.write_at(CheckpointKind::Data, at, none).await?;
            chain.commit(owned).await?;
        }
        Ok(chain)
    }

    /// Rewind and abandon: an `open` that closes the lineage before it is owned first, then every sink is closed, and only then is it
    /// decided what each sink lacks.
    async fn go_back(
        &self,
        (written, states): (Written, BTreeMap<String, SinkState>),
        mode: FromMode,
        mut sinks: Sinks,
        source: &mut dyn Source,
    ) -> Result<Chain> {
        let parent = &written.checkpoint;
        let target = match mode {
            FromMode::Abandon => written.clone(),
            FromMode::Rewind => self.reachable(&written).await?,
        };
        let there = || parent.sinks.iter().filter(|(url, _)| !sinks.gone.contains(*url));
        let facts = |(url, e): (&String, &SinkEntry)| {
            let now_at = sinks.now_at(url);
            let entry = close_entry(&written, e, states.get(&now_at));
            (now_at, entry)
        };
        let close_entries = there().map(facts).collect();
        let offsets = match mode {
            FromMode::Rewind => target.checkpoint.offsets.clone(),
            // Nothing is settled before the sinks are closed; the least that was settled before is safe.
            FromMode::Abandon => least_covered(parent),
        };
        let resolved = source.resolve(Some(&offsets)).await?;
        let user = self.fresh_user();
        let mut entries = BTreeMap::new();
        let there: Vec<_> = there().map(|(url, e)| (url.clone(), e.clone())).collect();
        for (url, old) in &there {
            let now_at = sinks.now_at(url);
            let sink = sinks.get(&now_at, old, self.opener).await?;
            let (floor, now) = (sink.anchor().head().await?, self.ledger.store().env().now_ms());
            let mut entry = SinkEntry { floor, floor_read: now, last: None, messages: None, covered: None, ..old.clone() };
            entry.since = offsets.clone();
            entry.predecessor = Some(parent.user.clone());
            entries.insert(now_at, entry);
        }
        let mut open = self.open(Some(&written), user, offsets, resolved.stop, entries);
        open.from = Some(From { link: target.link(), mode });
        open.close = Some(Close { user: parent.user.clone(), sinks: close_entries });
        open.chain = parent.chain.clone();
        open.resolved = self.options.resolve.clone();
        self.tell_going_back(&target, mode, parent);
        let (opened, _) = self.ledger.own(open, self.chain.patience).await?;
        let states = self.finish(&opened, First::Finish, &mut sinks).await?;
        let mut chain = self.go_on(opened, states, sinks, source).await?;
        chain.resumed = false;
        Ok(chain)
    }

    fn tell_going_back(&self, target: &Written, mode: FromMode, parent: &Checkpoint) {
        let text = match mode {
            FromMode::Rewind => format!(
                "rewind to checkpoint {}: everything after these offsets is read and WRITTEN AGAIN, rows that landed after it are doubled: {}",
                target.checkpoint.seq,
                ranges(&target.checkpoint.offsets, &parent.offsets)
            ),
            FromMode::Abandon => format!(
                "abandon checkpoint {}: sinks in which it landed keep its rows; in the others the same input is read and written again, nothing twice",
                target.checkpoint.seq
            ),
        };
        self.events.tell(Event::GoingBack { text });
    }

    /// The checkpoint to rewind to: `parent` links must reach it.
    async fn reachable(&self, greatest: &Written) -> Result<Written> {
        let Some(wanted) = self.options.asked.rewind else { return Err(Error::internal("a rewind without its checkpoint")) };
        let history = self.ledger.history(greatest).await?;
        let seqs: Vec<u64> = history.iter().map(|w| w.checkpoint.seq).collect();
        history.into_iter().find(|w| w.checkpoint.seq == wanted).ok_or_else(|| {
            Error::invalid(format!("checkpoint {wanted} is not kept any more; these are: {seqs:?}"))
                .at(self.ledger.location())
                .hint("raise checkpoint.keep to be able to go back further")
        })
    }

    // ---- parts ----------------------------------------------------------------------------------------------------------------------

    fn open(
        &self,
        parent: Option<&Written>,
        user: CommitUser,
        offsets: Offsets,
        stop: Option<Offsets>,
        sinks: BTreeMap<String, SinkEntry>,
    ) -> Checkpoint {
        let seq = parent.map_or(0, |p| p.checkpoint.seq + 1);
        let nonce = self.ledger.store().env().uuid().to_string();
        Checkpoint {
            version: VERSION,
            pipeline: self.ledger.pipeline().to_owned(),
            chain: nonce.clone(),
            seq,
            nonce,
            writer: self.writer.clone(),
            parent: parent.map(Written::link),
            kind: CheckpointKind::Open,
            user,
            opened: seq,
            identifier: crate::stream::chain::identifier_of(CheckpointKind::Open, seq),
            offsets,
            stop,
            start: self.start.clone(),
            until: self.until.clone(),
            from: None,
            close: None,
            resolved: BTreeMap::new(),
            sinks,
        }
    }

    async fn open_entry(&self, configured: &Configured, begins: &Offsets) -> Result<SinkEntry> {
        let anchor = configured.sink.anchor();
        let floor = anchor.head().await?;
        Ok(SinkEntry {
            role: configured.role,
            format: anchor.format().to_owned(),
            floor,
            floor_read: self.ledger.store().env().now_ms(),
            last: None,
            since: begins.clone(),
            covered: None,
            watermark: None,
            predecessor: None,
            messages: None,
        })
    }

    /// I8: made by the lineage's `open`, never taken from anywhere.
    fn fresh_user(&self) -> CommitUser {
        CommitUser::new(format!("{}-{}", self.ledger.pipeline(), self.ledger.store().env().uuid()))
    }

    /// True when sinks were dropped on purpose; `Invalid` when the file lacks one that was not. What is dropped is not kept from expiring any
    /// longer; should this start die before it is recorded, the next one pins it again.
    async fn let_go_of_dropped(&self, checkpoint: &Checkpoint, sinks: &Sinks) -> Result<bool> {
        let missing: Vec<&String> = checkpoint.sinks.keys().filter(|url| !sinks.configured.contains_key(&sinks.now_at(url))).collect();
        if let Some(url) = missing.iter().find(|url| !self.dropped(url)) {
            return Err(Error::invalid(format!("the pipeline has written to {url}, and the pipeline file does not name it any more"))
                .at(self.ledger.location())
                .hint(format!("put it back, or say that it goes with --drop-sink {url}; a moved one is taken along with --adopt")));
        }
        for (url, sink) in sinks.all().filter(|(url, _)| missing.contains(url)) {
            tracing::info!(url, "dropped");
            sink.anchor().unpin(self.ledger.pipeline(), checkpoint.opened + 1).await?;
        }
        Ok(!missing.is_empty())
    }

    async fn chain(&self, greatest: Written, sinks: Vec<(String, Box<dyn Sink>, SinkState)>, resumed: bool) -> Result<Chain> {
        let seqs = self.ledger.still_greatest(greatest.checkpoint.seq).await?;
        let env = self.ledger.store().env();
        let mut with_messages = BTreeSet::new();
        for written in self.ledger.history(&greatest).await?.iter().filter(|w| w.checkpoint.has_messages()) {
            with_messages.insert(written.checkpoint.seq);
        }
        let chain = Chain {
            last_written: env.monotonic(),
            offsets: greatest.checkpoint.offsets.clone(),
            stop: greatest.checkpoint.stop.clone(),
            until: greatest.checkpoint.until.clone(),
            ledger: self.ledger.clone(),
            options: self.chain.clone(),
            writer: self.writer.clone(),
            events: self.events.clone(),
            resolved: self.options.resolve.clone(),
            greatest,
            sinks: sinks.into_iter().map(|(url, sink, state)| ChainSink { url, sink, state, pinned: None }).collect(),
            seqs,
            with_messages,
            resumed,
            pending: false,
        };
        Ok(chain)
    }
}

/// The facts of a lineage that is to be closed. Where nothing was pending, `state` knows better than the entry: the parent may itself have
/// closed a lineage, and what each sink lacked was learned only by that.
pub(crate) fn close_entry(parent: &Written, entry: &SinkEntry, state: Option<&SinkState>) -> CloseEntry {
    let checkpoint = &parent.checkpoint;
    let state = state.filter(|_| entry.messages.is_none());
    CloseEntry {
        format: entry.format.clone(),
        floor: entry.floor.clone(),
        last: entry.last,
        identifier: entry.messages.is_some().then_some(checkpoint.identifier),
        digest: parent.digest,
        offsets: checkpoint.offsets.clone(),
        since: state.map_or(&entry.since, |s| &s.since).clone(),
        covered: state.map_or_else(|| checkpoint.covered(entry), |s| &s.covered).clone(),
    }
}

pub(crate) fn least_covered(checkpoint: &Checkpoint) -> Offsets {
    let mut covered = checkpoint.sinks.values().map(|e| checkpoint.covered(e));
    let Some(first) = covered.next() else { return checkpoint.offsets.clone() };
    covered.fold(first.clone(), |least, c| least.min(c))
}

fn ranges(from: &Offsets, to: &Offsets) -> String {
    let moved = to.0.iter().filter(|(split, p)| from.offset(split) < p.offset);
    let texts: Vec<String> = moved.map(|(split, p)| format!("{split} from {} (it stood at {})", from.offset(split), p.offset)).collect();
    if texts.is_empty() { "nothing: the checkpoint is where the pipeline stands".to_owned() } else { texts.join(", ") }
}
