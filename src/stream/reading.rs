//! Reads the source into the [`Window`], until a checkpoint is due.

use std::time::Duration;

use crate::decode::Chunk;
use crate::env::Env;
use crate::error::Result;
use crate::source::{Offsets, Polled, Records, Source};
use crate::stream::chain::Chain;
use crate::stream::coordinator::{Stop, Triggers};
use crate::stream::window::Window;

/// A poll never waits longer, so that a stop request and a trigger are seen.
const POLL: Duration = Duration::from_millis(100);
/// Files open for this long are closed by a checkpoint, so that no clean-up takes them for orphans.
const OPEN_FILES: Duration = Duration::from_secs(3600);

/// Why reading has paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// A checkpoint is due.
    Due,
    /// The commit of the checkpoint before is confirmed; or something went wrong elsewhere.
    Landed,
    /// Somebody asked the run to stop.
    Stop,
    /// End of input.
    End,
}

/// The reading side.
pub(super) struct Reader {
    pub(super) env: Env,
    pub(super) source: Box<dyn Source>,
    pub(super) triggers: Triggers,
    pub(super) commit_empty: bool,
    pub(super) stop: Stop,
    /// Place in the chain of each lane's sink.
    pub(super) sinks: Vec<usize>,
    pub(super) dead_letters: Option<usize>,
    /// Per sink of the chain, as of the last checkpoint that was finished when this stretch of reading began. What is read now lies at or
    /// above the offsets of the one that is being committed, so that one changes nothing here.
    pub(super) covered: Vec<Offsets>,
    pub(super) since: Interval,
    /// Over the run.
    pub(super) records: u64,
}

/// Counters since the last checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    began: Duration,
    first_record: Option<Duration>,
    pub(super) records: u64,
    bytes: u64,
}

impl Interval {
    pub(super) fn new(now: Duration) -> Interval {
        Interval { began: now, first_record: None, records: 0, bytes: 0 }
    }
    /// Counts its time from now.
    pub(super) fn restart(&mut self, now: Duration) {
        self.began = now;
    }
}

impl Reader {
    /// Reads until a checkpoint is due. `chain`: none while a commit is pending; then only what bounds an interval's size makes the next
    /// one due, and a pending commit that is confirmed ends this stretch.
    pub(super) async fn read(&mut self, window: &Window, chain: Option<&Chain>) -> Result<Why> {
        let why = self.read_on(window, chain).await;
        window.close();
        why
    }

    async fn read_on(&mut self, window: &Window, chain: Option<&Chain>) -> Result<Why> {
        loop {
            if window.failed() {
                return Ok(Why::Landed);
            }
            if self.stop.requested() {
                return Ok(Why::Stop);
            }
            if self.full() || chain.is_some_and(|chain| self.timed() || chain.tick_is_due(|| self.source.position())) {
                return Ok(Why::Due);
            }
            if window.landed() {
                return Ok(Why::Landed);
            }
            if !window.room().await {
                continue;
            }
            match self.source.poll(self.env.deadline(self.patience())).await? {
                polled @ (Polled::Records(_) | Polled::Batch(_)) => {
                    let Some(chunk) = Chunk::of(polled) else { continue };
                    self.came(&chunk);
                    let cuts = self.cuts(&chunk.records);
                    window.push(&self.env, chunk, cuts);
                }
                Polled::Idle => {}
                Polled::End => return Ok(Why::End),
            }
        }
    }

    /// Until the next trigger, at most [`POLL`].
    fn patience(&self) -> Duration {
        if self.since.records == 0 && !self.commit_empty {
            return POLL; // no time triggers anything
        }
        let since = self.env.monotonic().saturating_sub(self.since.began);
        // While a commit is pending it may have passed already.
        let left = |every: Duration| if every > since { every - since } else { POLL };
        self.triggers.every.map_or(POLL, |every| left(every).min(POLL))
    }

    /// Has the interval all the input that it may have?
    fn full(&self) -> bool {
        let rows = self.triggers.rows.is_some_and(|rows| self.since.records >= rows);
        let bytes = self.triggers.bytes.is_some_and(|bytes| self.since.bytes >= bytes);
        rows || bytes
    }

    /// Is it old enough?
    fn timed(&self) -> bool {
        let now = self.env.monotonic();
        let every = self.triggers.every.is_some_and(|every| now.saturating_sub(self.since.began) >= every);
        let open = self.since.first_record.is_some_and(|at| now.saturating_sub(at) >= OPEN_FILES);
        (every && (self.since.records > 0 || self.commit_empty)) || open
    }

    fn came(&mut self, chunk: &Chunk) {
        self.since.records += chunk.len() as u64;
        self.records += chunk.len() as u64;
        self.since.bytes += chunk.bytes();
        self.since.first_record.get_or_insert(self.env.monotonic());
    }

    /// Per lane: the first record that its dead letters lack, and the first that its rows lack. What is below is settled.
    fn cuts(&self, records: &Records) -> Vec<(usize, usize)> {
        let first = |sink: usize| {
            let covered = self.covered[sink].offset(&records.origin.split);
            records.offsets.partition_point(|o| *o < covered)
        };
        let dead = self.dead_letters.map(first);
        self.sinks.iter().map(|sink| (dead.unwrap_or_else(|| first(*sink)), first(*sink))).collect()
    }
}
