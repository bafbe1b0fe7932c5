//! The one loop: poll, decode, write, checkpoint, commit. Everything below it is called from here and calls nothing back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;

use crate::decode::{Chunk, Decoded, Decoder, Reject, Stage};
use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::sink::Message;
use crate::source::{Offsets, Polled, Records, Source};
use crate::stream::chain::Chain;
use crate::stream::checkpoint::CheckpointKind;
use crate::stream::dead_letters::{self, Stamp};
use crate::stream::event::{Event, Events};
use crate::stream::watermark::Watermark;

/// A poll never waits longer, so that a stop request and a trigger are seen.
const POLL: Duration = Duration::from_millis(100);
/// Files open for this long are closed by a checkpoint, so that no clean-up takes them for orphans.
const OPEN_FILES: Duration = Duration::from_secs(3600);

/// When a checkpoint is made. With none of them, only at end of input and at a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// So long after the last one, if anything came.
    pub every: Option<Duration>,
    /// After so many records.
    pub rows: Option<u64>,
    /// After so many bytes of records.
    pub bytes: Option<u64>,
}

/// What happens at the end of a bounded source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// End of input: the lineage is closed.
    Close,
    /// The lineage stays open.
    Pause,
}

/// One sink's way from records to rows. `sink` is its place in the chain.
pub struct Lane {
    /// Place in the chain.
    pub sink: usize,
    /// Makes its rows.
    pub decoder: Box<dyn Decoder>,
    /// Its watermark, if it has one.
    pub watermark: Option<Watermark>,
}

/// Asks a run to stop: finish the pending commit, checkpoint what is new, commit, end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    /// Was it asked?
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a run ended well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records read.
    pub records: u64,
    /// Rows written, over all sinks but the dead letters.
    pub rows: u64,
    /// Records that became dead letters.
    pub dead_letters: u64,
    /// Checkpoints with something to commit.
    pub checkpoints: u64,
    /// True: end of input was reached and the lineage closed.
    pub closed: bool,
    /// True: a bounded source had nothing to read, and nothing was written.
    pub nothing: bool,
}

/// What the loop works on.
pub struct Coordinator {
    /// The chain, started.
    pub chain: Chain,
    /// The source, not yet sought.
    pub source: Box<dyn Source>,
    /// The sinks that rows go to.
    pub lanes: Vec<Lane>,
    /// Place in the chain of the dead letters.
    pub dead_letters: Option<usize>,
    /// When to checkpoint.
    pub triggers: Triggers,
    /// What to do at the end.
    pub at_end: AtEnd,
    /// `commit.empty`: a snapshot in every interval, rows or none.
    pub commit_empty: bool,
    /// 1: decode and write by turns; more: decode the next chunk while the last one is written.
    pub threads: usize,
    /// Where events go.
    pub events: Events,
    /// Asks to stop.
    pub stop: Stop,
}

/// Counters since the last checkpoint, and over the run.
struct Progress {
    report: Report,
    since: Duration,
    first_write: Option<Duration>,
    records: u64,
    bytes: u64,
    written: Vec<bool>,
    dead: BTreeMap<&'static str, u64>,
    first_dead: Option<String>,
}

/// A chunk that is decoded and not yet written.
struct Ready {
    chunk: Chunk,
    /// Per lane, in lane order.
    decoded: Vec<LaneOutput>,
}

/// What one lane made of a chunk.
struct LaneOutput {
    batch: Option<RecordBatch>,
    rejects: Vec<Reject>,
}

impl Coordinator {
    /// Runs until end of input, a stop request, or an error. After an error the next start finishes what is pending.
    pub async fn run(mut self) -> Result<Report> {
        let at = self.chain.offsets();
        let stop = self.chain.stop().cloned();
        self.source.seek(&at, stop.as_ref()).await?;
        let env = self.chain.env().clone();
        let mut progress = Progress::new(self.chain.sinks.len(), env.monotonic());
        let mut ready = None;
        loop {
            if self.stop.requested() {
                self.write_ready(ready.take(), &mut progress).await?;
                return self.pause(progress).await;
            }
            match self.source.poll(env.deadline(self.patience(&env, &progress))).await? {
                polled @ (Polled::Records(_) | Polled::Batch(_)) => {
                    let Some(chunk) = Chunk::of(polled) else { continue };
                    progress.came(&chunk, env.monotonic());
                    ready = self.decode_while_writing(&env, chunk, ready, &mut progress).await?;
                }
                Polled::Idle => self.write_ready(ready.take(), &mut progress).await?,
                Polled::End => {
                    self.write_ready(ready.take(), &mut progress).await?;
                    return match self.at_end {
                        AtEnd::Close => self.end(progress).await,
                        AtEnd::Pause => self.pause(progress).await,
                    };
                }
            }
            if self.triggered(&env, &progress) || self.chain.tick_is_due(|| self.source.position()) {
                self.write_ready(ready.take(), &mut progress).await?;
                self.checkpoint(CheckpointKind::Data, &mut progress).await?;
            }
        }
    }

    /// Until the next trigger, at most [`POLL`].
    fn patience(&self, env: &Env, progress: &Progress) -> Duration {
        if progress.records == 0 && !self.commit_empty {
            return POLL; // no time triggers anything
        }
        let since = env.monotonic().saturating_sub(progress.since);
        self.triggers.every.map_or(POLL, |every| every.saturating_sub(since).min(POLL))
    }

    fn triggered(&self, env: &Env, progress: &Progress) -> bool {
        let now = env.monotonic();
        let timed = self.triggers.every.is_some_and(|every| now.saturating_sub(progress.since) >= every);
        let open = progress.first_write.is_some_and(|at| now.saturating_sub(at) >= OPEN_FILES);
        let rows = self.triggers.rows.is_some_and(|rows| progress.records >= rows);
        let bytes = self.triggers.bytes.is_some_and(|bytes| progress.bytes >= bytes);
        (timed && (progress.records > 0 || self.commit_empty)) || open || rows || bytes
    }

    // ---- records to rows ------------------------------------------------------------------------------------------------------------

    /// Decodes `chunk`; with threads, the chunk before is written at the same time and this one is returned.
    async fn decode_while_writing(
        &mut self,
        env: &Env,
        chunk: Chunk,
        before: Option<Ready>,
        progress: &mut Progress,
    ) -> Result<Option<Ready>> {
        let cuts = self.cuts(&chunk.records);
        let mut decoders: Vec<Box<dyn Decoder>> = Vec::with_capacity(self.lanes.len());
        for lane in &mut self.lanes {
            decoders.push(std::mem::replace(&mut lane.decoder, Box::new(Away)));
        }
        let work = move || {
            let decoded = decode_all(&mut decoders, &chunk, &cuts);
            (decoders, chunk, decoded)
        };
        let (decoders, chunk, decoded) = if self.threads > 1 {
            let (done, written) = futures::join!(env.cpu(work), self.write_ready(before, progress));
            written?;
            done
        } else {
            self.write_ready(before, progress).await?;
            work()
        };
        for (lane, decoder) in self.lanes.iter_mut().zip(decoders) {
            lane.decoder = decoder;
        }
        let ready = Ready { chunk, decoded: decoded? };
        if self.threads > 1 {
            return Ok(Some(ready));
        }
        self.write_ready(Some(ready), progress).await?;
        Ok(None)
    }

    /// Per lane: the first record that its dead letters lack, and the first that its rows lack. What is below is settled.
    fn cuts(&self, records: &Records) -> Vec<(usize, usize)> {
        let first = |sink: usize| {
            let covered = self.chain.sinks[sink].state.covered.offset(&records.origin.split);
            records.offsets.partition_point(|o| *o < covered)
        };
        let dead = self.dead_letters.map(first);
        self.lanes.iter().map(|lane| (dead.unwrap_or_else(|| first(lane.sink)), first(lane.sink))).collect()
    }

    /// Writes a decoded chunk into the sinks, its rejects into the dead letters.
    async fn write_ready(&mut self, ready: Option<Ready>, progress: &mut Progress) -> Result<()> {
        let Some(Ready { chunk, decoded }) = ready else { return Ok(()) };
        let mut seen_undecodable = std::collections::BTreeSet::new();
        for (i, output) in decoded.into_iter().enumerate() {
            let sink = self.lanes[i].sink;
            if let Some(batch) = output.batch.filter(|b| b.num_rows() > 0) {
                self.write_rows(i, sink, &batch, progress).await?;
            }
            // A record that cannot be read at all is one dead letter, however many sinks there are.
            let rejects: Vec<Reject> =
                output.rejects.into_iter().filter(|r| r.stage != Stage::Decode || seen_undecodable.insert(r.index)).collect();
            if !rejects.is_empty() {
                self.write_rejects(&chunk, &rejects, sink, progress).await?;
            }
        }
        Ok(())
    }

    async fn write_rows(&mut self, lane: usize, sink: usize, batch: &RecordBatch, progress: &mut Progress) -> Result<()> {
        let target = &mut self.chain.sinks[sink];
        if let Some(watermark) = &self.lanes[lane].watermark {
            target.state.watermark = target.state.watermark.max(watermark.of(batch)?);
        }
        target.sink.write(batch).await?;
        progress.written[sink] = true;
        progress.report.rows += batch.num_rows() as u64;
        Ok(())
    }

    async fn write_rejects(&mut self, chunk: &Chunk, rejects: &[Reject], sink: usize, progress: &mut Progress) -> Result<()> {
        let first = &rejects[0];
        let records = &chunk.records;
        let Some(dead) = self.dead_letters else {
            return Err(Error::data(words(first)).at(records.place(first.index)).hint(
                "mend the record, or name a table for such records under `dead_letter:`; nothing after the last checkpoint was committed",
            ));
        };
        let several = self.lanes.len() > 1;
        for undecodable in [true, false] {
            let some: Vec<Reject> = rejects.iter().filter(|r| (r.stage == Stage::Decode) == undecodable).cloned().collect();
            if some.is_empty() {
                continue;
            }
            let stamp = Stamp {
                pipeline: &self.chain.greatest().pipeline,
                seq: self.chain.next_seq(),
                sink: (several && !undecodable).then_some(self.chain.sinks[sink].url.as_str()),
                time_ms: self.chain.env().now_ms(),
                run: &self.chain.writer.run,
            };
            let (records, some) = chunk.rejected(&some);
            let batch = dead_letters::batch(&records, &some, &stamp)?;
            self.chain.sinks[dead].sink.write(&batch).await?;
        }
        progress.written[dead] = true;
        for reject in rejects {
            *progress.dead.entry(reject.stage.as_str()).or_default() += 1;
        }
        progress.first_dead.get_or_insert_with(|| format!("{}: {}", records.place(first.index), words(first)));
        Ok(())
    }

    // ---- checkpoints ----------------------------------------------------------------------------------------------------------------

    async fn checkpoint(&mut self, kind: CheckpointKind, progress: &mut Progress) -> Result<()> {
        let mut messages: Vec<Option<Vec<Message>>> = Vec::with_capacity(self.chain.sinks.len());
        let empty_too = kind == CheckpointKind::End || self.commit_empty;
        for (i, sink) in self.chain.sinks.iter_mut().enumerate() {
            let prepared = if progress.written[i] { sink.sink.prepare().await? } else { Vec::new() };
            messages.push((!prepared.is_empty() || empty_too).then_some(prepared));
        }
        let position = self.source.position();
        let has_messages = messages.iter().any(Option::is_some);
        let owned = self.chain.write(kind, position.clone(), messages).await?;
        self.chain.env().clone().yield_once().await;
        self.chain.commit(owned).await?;
        self.source.committed(&position).await?;
        if let Some(first) = progress.first_dead.take() {
            let stages = progress.dead.clone();
            self.events.tell(Event::DeadLetters { records: stages.values().sum(), stages, first });
        }
        progress.next(self.chain.env().monotonic(), has_messages);
        self.chain.env().clone().yield_once().await;
        Ok(())
    }

    /// End of input: `end`, landed everywhere, then `closed`.
    async fn end(mut self, mut progress: Progress) -> Result<Report> {
        self.checkpoint(CheckpointKind::End, &mut progress).await?;
        let offsets: Offsets = self.chain.greatest().offsets.clone();
        self.chain.write_closed(offsets).await?;
        progress.report.closed = true;
        Ok(progress.report)
    }

    /// Checkpoints what is new and leaves the lineage open. A stop is not end of input.
    async fn pause(mut self, mut progress: Progress) -> Result<Report> {
        if progress.records > 0 || !self.chain.offsets.covers(&self.source.position()) {
            self.checkpoint(CheckpointKind::Data, &mut progress).await?;
        }
        Ok(progress.report)
    }
}

/// Takes a fenced error and waits, so that a supervisor that restarts at once does not make two processes fence each other in turns.
pub async fn wait_if_fenced<T>(result: Result<T>, env: &Env, interval: Duration) -> Result<T> {
    if matches!(&result, Err(e) if e.kind() == Kind::Fenced) {
        env.sleep(interval).await;
    }
    result
}

impl Progress {
    fn new(sinks: usize, now: Duration) -> Self {
        Progress {
            report: Report::default(),
            since: now,
            first_write: None,
            records: 0,
            bytes: 0,
            written: vec![false; sinks],
            dead: BTreeMap::new(),
            first_dead: None,
        }
    }
    fn came(&mut self, chunk: &Chunk, now: Duration) {
        self.records += chunk.len() as u64;
        self.report.records += chunk.len() as u64;
        self.bytes += chunk.bytes();
        self.first_write.get_or_insert(now);
    }
    fn next(&mut self, now: Duration, has_messages: bool) {
        self.report.dead_letters += self.dead.values().sum::<u64>();
        self.report.checkpoints += u64::from(has_messages);
        *self = Progress { report: std::mem::take(&mut self.report), ..Progress::new(self.written.len(), now) };
    }
}

/// `stage: error`.
fn words(reject: &Reject) -> String {
    match &reject.field {
        Some(field) if !reject.error.contains(field.as_str()) => format!("{} ({field}): {}", reject.stage.as_str(), reject.error),
        _ => format!("{}: {}", reject.stage.as_str(), reject.error),
    }
}

/// Decodes a chunk for every lane. Below a lane's second cut its rows are settled and only rejects count; below the first, nothing does.
fn decode_all(decoders: &mut [Box<dyn Decoder>], chunk: &Chunk, cuts: &[(usize, usize)]) -> Result<Vec<LaneOutput>> {
    let mut all = Vec::with_capacity(decoders.len());
    for (decoder, (dead, rows)) in decoders.iter_mut().zip(cuts) {
        let mut output = LaneOutput { batch: None, rejects: Vec::new() };
        if dead < rows {
            output.rejects = shifted(chunk.slice(*dead, *rows).decode(decoder.as_mut())?.rejects, *dead);
        }
        if *rows < chunk.len() {
            let whole = *rows == 0;
            let Decoded { batch, rejects } =
                if whole { chunk.decode(decoder.as_mut())? } else { chunk.slice(*rows, chunk.len()).decode(decoder.as_mut())? };
            output.batch = Some(batch);
            output.rejects.extend(shifted(rejects, *rows).into_iter().filter(|r| r.index >= *dead));
        }
        all.push(output);
    }
    Ok(all)
}

fn shifted(rejects: Vec<Reject>, by: usize) -> Vec<Reject> {
    rejects.into_iter().map(|r| Reject { index: r.index + by, ..r }).collect()
}

/// Stands in for a decoder that is at work on another thread.
struct Away;

impl Decoder for Away {
    fn decode(&mut self, _: &Records) -> Result<Decoded> {
        Err(Error::internal("the decoder is at work elsewhere"))
    }
}
