//! What waits between the thread that reads Kafka and the loop that polls: chunks of records in the order in which they began to come.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::raw::{Described, Message};
use super::source::Split;
use crate::error::Error;
use crate::source::{Origin, Records};

/// What one record costs besides its bytes: its end, offset and timestamp.
const PER_RECORD: usize = 24;
/// Capacity of a fresh chunk, bytes.
const FRESH: usize = 16 << 10;

/// Records of one split that came one after the other, and where the split stands after them.
pub(super) struct Chunk {
    pub(super) split: usize,
    /// Offset after this chunk; also where no record was (transaction markers, what was aborted or compacted away).
    pub(super) next: u64,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    offsets: Vec<u64>,
    timestamps: Vec<i64>,
    key_bytes: Vec<u8>,
    /// Start and end of each key in `key_bytes`; empty until the first key.
    keys: Vec<Option<(usize, usize)>>,
    headers: Vec<Vec<(String, Option<Bytes>)>>,
    header_bytes: usize,
    faults: Vec<(usize, String)>,
    nulls: Vec<usize>,
    /// No records, and none will ever come: this range was gone before it was read.
    pub(super) lost: Option<[u64; 2]>,
}

impl Chunk {
    fn new(split: usize, next: u64) -> Self {
        Chunk {
            split,
            next,
            bytes: Vec::new(),
            ends: Vec::new(),
            offsets: Vec::new(),
            timestamps: Vec::new(),
            key_bytes: Vec::new(),
            keys: Vec::new(),
            headers: Vec::new(),
            header_bytes: 0,
            faults: Vec::new(),
            nulls: Vec::new(),
            lost: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// What it costs to keep.
    fn cost(&self) -> usize {
        self.bytes.len() + self.key_bytes.len() + self.header_bytes + self.ends.len() * PER_RECORD
    }

    fn push(&mut self, message: &Message<'_>, offset: u64) {
        let at = self.ends.len();
        if at == 0 {
            self.bytes.reserve(FRESH);
        }
        match message.value() {
            Some(value) => self.bytes.extend_from_slice(value),
            None => {
                self.faults.push((at, TOMBSTONE.to_owned()));
                self.nulls.push(at);
            }
        }
        self.ends.push(self.bytes.len());
        self.offsets.push(offset);
        self.timestamps.push(message.timestamp());
        self.next = offset + 1;
        let key = message.key();
        if key.is_some() && self.keys.is_empty() {
            self.keys.resize(at, None);
        }
        if key.is_some() || !self.keys.is_empty() {
            self.keys.push(key.map(|key| {
                let start = self.key_bytes.len();
                self.key_bytes.extend_from_slice(key);
                (start, self.key_bytes.len())
            }));
        }
        let mut headers = Vec::new();
        message.headers(|name, value| {
            self.header_bytes += name.len() + value.map_or(0, <[u8]>::len) + 64;
            headers.push((name.to_owned(), value.map(Bytes::copy_from_slice)));
        });
        if !headers.is_empty() && self.headers.is_empty() {
            self.headers.resize(at, Vec::new());
        }
        if !headers.is_empty() || !self.headers.is_empty() {
            self.headers.push(headers);
        }
    }

    /// As the seam wants it.
    pub(super) fn into_records(self, origin: Arc<Origin>) -> Records {
        let keys = Bytes::from(self.key_bytes);
        Records {
            bytes: Bytes::from(self.bytes),
            ends: self.ends,
            offsets: self.offsets,
            timestamps: self.timestamps,
            keys: self.keys.into_iter().map(|key| key.map(|(start, end)| keys.slice(start..end))).collect(),
            headers: self.headers,
            faults: self.faults,
            nulls: self.nulls,
            ..Records::none(origin)
        }
    }
}

/// What is wrong with a record without a value.
const TOMBSTONE: &str = "the value is null (a tombstone), so there is no row in it";

/// How much may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// All chunks together, bytes; a single record more than that passes.
    pub(super) waiting: usize,
    /// One chunk, bytes.
    pub(super) chunk: usize,
    /// One chunk, records.
    pub(super) records: usize,
}

/// What the loop finds when it looks.
pub(super) enum Found {
    /// A chunk; it may be empty: then only the position moves.
    Chunk(Box<Chunk>),
    /// Splits that are read from now on.
    Splits(Vec<Split>),
    /// Nothing, for now.
    Nothing,
    /// Everything up to the stops has been taken.
    End,
}

/// The state, under one lock.
#[derive(Default)]
pub(super) struct State {
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk in `chunks`, counted from the beginning.
    base: u64,
    /// Per split the number of the chunk that still grows.
    open: Vec<Option<u64>>,
    cost: usize,
    /// The thread has nothing more to read.
    pub(super) done: bool,
    /// The thread came to an end with this.
    pub(super) failed: Option<Error>,
    /// The thread does nothing any more but close its client.
    pub(super) over: bool,
    /// The thread has to end.
    pub(super) stop: bool,
    /// Group offsets to tell: split, offset.
    pub(super) commit: Option<Vec<(usize, u64)>>,
    /// What the topics are, when they were last looked at, for the thread.
    pub(super) described: Option<Described>,
    /// Splits that were found while running, for the thread.
    pub(super) found: Vec<Split>,
    /// Those that it reads by now, for the loop.
    pub(super) added: Vec<Split>,
}

impl State {
    /// The chunk of `split` that records can be added to, at the end of the line if there is none.
    fn chunk(&mut self, split: usize, next: u64, limits: &Limits) -> Option<&mut Chunk> {
        if self.open.len() <= split {
            self.open.resize(split + 1, None);
        }
        let at = self.open[split].and_then(|n| usize::try_from(n.checked_sub(self.base)?).ok());
        let room = |c: &Chunk| c.bytes.len() < limits.chunk && c.len() < limits.records;
        let at = match at.filter(|at| self.chunks.get(*at).is_some_and(room)) {
            Some(at) => at,
            None => {
                self.open[split] = Some(self.base + self.chunks.len() as u64);
                self.chunks.push_back(Chunk::new(split, next));
                self.chunks.len() - 1
            }
        };
        self.chunks.get_mut(at)
    }

    /// A record of `split`.
    pub(super) fn push(&mut self, split: usize, message: &Message<'_>, offset: u64, limits: &Limits) {
        if let Some(chunk) = self.chunk(split, offset, limits) {
            let before = chunk.cost();
            chunk.push(message, offset);
            self.cost += chunk.cost() - before;
        }
    }

    /// `split` stands at `next` although no record came.
    pub(super) fn moved(&mut self, split: usize, next: u64, limits: &Limits) {
        if let Some(chunk) = self.chunk(split, next, limits) {
            chunk.next = chunk.next.max(next);
        }
    }

    /// Records of `split` were gone before they were read.
    pub(super) fn lost(&mut self, split: usize, gap: [u64; 2]) {
        if let Some(open) = self.open.get_mut(split) {
            *open = None;
        }
        self.chunks.push_back(Chunk { lost: Some(gap), ..Chunk::new(split, gap[1]) });
    }

    /// Bytes that wait.
    pub(super) fn cost(&self) -> usize {
        self.cost
    }
}

/// The state, and ways to wait for it to change.
#[derive(Default)]
pub(super) struct Waiting {
    state: Mutex<State>,
    /// For the thread: something was taken, or asked for.
    room: Condvar,
    /// For the loop: something came.
    pub(super) news: Notify,
}

impl Waiting {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes the thread.
    pub(super) fn ask(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.room.notify_all();
    }

    /// Waits until something is taken or asked for, at most so long.
    pub(super) fn wait_for_room(&self, most: Duration) {
        let state = self.lock();
        drop(self.room.wait_timeout(state, most));
    }

    /// Waits so long, or until the threads have to end; true: they have to.
    pub(super) fn is_stopped(&self, most: Duration) -> bool {
        let state = self.lock();
        let waited = self.room.wait_timeout_while(state, most, |state| !state.stop);
        waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }

    /// The oldest chunk.
    pub(super) fn take(&self) -> Result<Found, Error> {
        let mut state = self.lock();
        if !state.added.is_empty() {
            return Ok(Found::Splits(std::mem::take(&mut state.added)));
        }
        if let Some(chunk) = state.chunks.pop_front() {
            state.base += 1;
            state.cost -= chunk.cost();
            drop(state);
            self.room.notify_all();
            return Ok(Found::Chunk(Box::new(chunk)));
        }
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        Ok(if state.done { Found::End } else { Found::Nothing })
    }
}
