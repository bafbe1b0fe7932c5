//! The one loop: read, decode, write, checkpoint, commit. Everything below it is called from here and calls nothing back.
//!
//! Reading, writing and the commit of the checkpoint before go on at the same time, as futures of one task; a new checkpoint is begun only
//! when all three have come to their end. So rows of checkpoint N+1 are read and written while N is committed, and N+1 is created only
//! after N is confirmed. With one thread nothing goes on at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::join;

use crate::decode::Decoder;
use crate::env::Env;
use crate::error::{Kind, Result};
use crate::source::{Offsets, Source};
use crate::stream::chain::Chain;
use crate::stream::checkpoint::CheckpointKind;
use crate::stream::event::{Event, Events};
use crate::stream::reading::{Interval, Reader, Why};
use crate::stream::watermark::Watermark;
use crate::stream::window::{Decoders, Limits, Messages, Window};
use crate::stream::writing::{Writing, Written};

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
    /// Make its rows: all alike, each takes a chunk at a time. So many chunks are decoded at once, if there are threads for it.
    pub decoders: Vec<Box<dyn Decoder>>,
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
    /// 1: one thing after the other; more: so many chunks are decoded at once, while others are read and written and a commit is pending.
    pub threads: usize,
    /// Bytes that records and rows between source and sinks may have; shared out by the pipeline (`MemoryPlan`).
    pub window_bytes: usize,
    /// Where events go.
    pub events: Events,
    /// Asks to stop.
    pub stop: Stop,
}

/// A checkpoint that was decided on and is not committed.
struct Order {
    kind: CheckpointKind,
    position: Offsets,
    written: Written,
}

/// The parts of a run, which are at work at the same time.
struct Work {
    chain: Chain,
    reader: Reader,
    writing: Writing,
    window: Window,
    commit_empty: bool,
    events: Events,
    report: Report,
}

impl Coordinator {
    /// Runs until end of input, a stop request, or an error. After an error the next start finishes what is pending.
    pub async fn run(self) -> Result<Report> {
        let (at_end, threads) = (self.at_end, self.threads);
        let mut work = self.begin().await?;
        let mut pending: Option<Order> = None;
        loop {
            if threads <= 1
                && let Some(order) = pending.take()
            {
                work.finish(order).await?;
            }
            let why = match pending.take() {
                None => work.read_and_write().await?,
                Some(order) => work.read_and_write_while_committing(order).await?,
            };
            match why {
                Why::Landed => {}
                Why::Due => pending = Some(work.order(CheckpointKind::Data)),
                Why::Stop => return work.pause().await,
                Why::End => {
                    return match at_end {
                        AtEnd::Close => work.end().await,
                        AtEnd::Pause => work.pause().await,
                    };
                }
            }
        }
    }

    async fn begin(self) -> Result<Work> {
        let Coordinator { chain, mut source, lanes, dead_letters, triggers, commit_empty, threads, window_bytes, events, stop, .. } = self;
        let (at, end) = (chain.offsets(), chain.stop().cloned());
        source.seek(&at, end.as_ref()).await?;
        let env = chain.env().clone();
        let sinks = lanes.iter().map(|lane| lane.sink).collect();
        let (lanes, decoders): (Vec<_>, Vec<_>) = lanes.into_iter().map(|lane| ((lane.sink, lane.watermark), lane.decoders)).unzip();
        let window = Window::new(Limits::new(threads, window_bytes), sets(decoders));
        let writing = Writing::begin(&chain, lanes, dead_letters, threads)?;
        let since = Interval::new(env.monotonic());
        let reader = Reader { env, source, triggers, commit_empty, stop, sinks, dead_letters, covered: Vec::new(), since, records: 0 };
        Ok(Work { chain, reader, writing, window, commit_empty, events, report: Report::default() })
    }
}

impl Work {
    /// A new stretch of reading: rows of now belong to checkpoint `seq`.
    fn open(&mut self, seq: u64) {
        self.window.open();
        self.writing.seq = seq;
        self.reader.covered = self.chain.sinks.iter().map(|sink| sink.state.covered.clone()).collect();
    }

    /// Reads and writes until the next checkpoint is due.
    async fn read_and_write(&mut self) -> Result<Why> {
        self.open(self.chain.next_seq());
        let Work { chain, reader, writing, window, .. } = self;
        let (wrote, why) = join!(window.watched(writing.write(window)), window.watched(reader.read(window, Some(chain))));
        wrote?;
        why
    }

    /// The same, while a checkpoint is prepared, owned and committed. Whatever goes wrong in reading or writing, its commit is finished.
    async fn read_and_write_while_committing(&mut self, order: Order) -> Result<Why> {
        self.open(self.chain.next_seq() + 1);
        let empty_too = self.commit_empty;
        let Work { chain, reader, writing, window, .. } = self;
        let (order_, window_) = (&order, &*window);
        let committing = async move {
            match window_.prepared().await {
                Some(messages) => land(chain, order_, messages).await.inspect(|()| window_.set_landed()),
                None => Ok(()),
            }
        };
        let writing = async {
            match writing.prepare(&order.written, empty_too).await {
                Ok(messages) => window.hand_over(Some(messages)),
                Err(error) => {
                    window.hand_over(None);
                    return Err(error);
                }
            }
            writing.write(window).await
        };
        let (landed, wrote, why) = join!(window.watched(committing), window.watched(writing), window.watched(reader.read(window, None)));
        landed?;
        if self.window.landed() {
            self.landed(order).await?;
        }
        wrote?;
        why
    }

    // ---- checkpoints ----------------------------------------------------------------------------------------------------------------

    /// Decides on a checkpoint of everything that was read: it is all written, nothing is in the window.
    fn order(&mut self, kind: CheckpointKind) -> Order {
        self.reader.since = Interval::new(self.reader.env.monotonic());
        Order { kind, position: self.reader.source.position(), written: self.writing.take_written() }
    }

    /// Prepares, owns and commits a checkpoint while nothing else happens.
    async fn finish(&mut self, order: Order) -> Result<()> {
        let empty_too = order.kind == CheckpointKind::End || self.commit_empty;
        let messages = self.writing.prepare(&order.written, empty_too).await?;
        land(&mut self.chain, &order, messages).await?;
        self.landed(order).await?;
        self.reader.since.restart(self.reader.env.monotonic());
        Ok(())
    }

    /// A checkpoint is committed everywhere.
    async fn landed(&mut self, order: Order) -> Result<()> {
        self.reader.source.committed(&order.position).await?;
        let Written { dead: stages, first_dead, .. } = order.written;
        let records = stages.values().sum();
        self.report.dead_letters += records;
        if let Some(first) = first_dead {
            self.events.tell(Event::DeadLetters { records, stages, first });
        }
        self.report.checkpoints += u64::from(self.chain.greatest().has_messages());
        self.reader.env.yield_once().await;
        Ok(())
    }

    /// End of input: `end`, landed everywhere, then `closed`.
    async fn end(mut self) -> Result<Report> {
        let order = self.order(CheckpointKind::End);
        self.finish(order).await?;
        let offsets: Offsets = self.chain.greatest().offsets.clone();
        self.chain.write_closed(offsets).await?;
        Ok(Report { closed: true, ..self.report() })
    }

    /// Checkpoints what is new and leaves the lineage open. A stop is not end of input.
    async fn pause(mut self) -> Result<Report> {
        if self.reader.since.records > 0 || !self.chain.offsets.covers(&self.reader.source.position()) {
            let order = self.order(CheckpointKind::Data);
            self.finish(order).await?;
        }
        Ok(self.report())
    }

    fn report(&self) -> Report {
        Report { records: self.reader.records, rows: self.writing.rows, ..self.report.clone() }
    }
}

/// Owns a checkpoint and commits it in every sink.
async fn land(chain: &mut Chain, order: &Order, messages: Messages) -> Result<()> {
    for (sink, watermark) in chain.sinks.iter_mut().zip(&order.written.watermarks) {
        sink.state.watermark = sink.state.watermark.max(*watermark);
    }
    let owned = chain.write(order.kind, order.position.clone(), messages).await?;
    chain.env().clone().yield_once().await;
    chain.commit(owned).await?;
    Ok(())
}

/// From each lane's decoders to sets of one for each lane.
fn sets(decoders: Vec<Vec<Box<dyn Decoder>>>) -> Vec<Decoders> {
    let mut lanes: Vec<_> = decoders.into_iter().map(Vec::into_iter).collect();
    std::iter::from_fn(|| lanes.iter_mut().map(Iterator::next).collect::<Option<Decoders>>().filter(|set| !set.is_empty())).collect()
}

/// Takes a fenced error and waits, so that a supervisor that restarts at once does not make two processes fence each other in turns.
pub async fn wait_if_fenced<T>(result: Result<T>, env: &Env, interval: Duration) -> Result<T> {
    if matches!(&result, Err(e) if e.kind() == Kind::Fenced) {
        env.sleep(interval).await;
    }
    result
}
