//! What lies between reading and writing: chunks that are being decoded or wait to be written, in the order in which they were read.
//!
//! Reading, writing and the commit of the checkpoint before are three futures of one task; what they tell each other goes through here.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures::future::BoxFuture;

use crate::decode::{Chunk, Decoder, Reject};
use crate::env::Env;
use crate::error::Result;
use crate::sink::Message;
use crate::stream::decoding::decode_all;

/// One decoder per lane.
pub(super) type Decoders = Vec<Box<dyn Decoder>>;
/// Per sink in the chain's order; none: nothing for this sink.
pub(super) type Messages = Vec<Option<Vec<Message>>>;

/// What one lane made of a chunk.
pub(super) struct LaneOutput {
    pub(super) batch: Option<arrow::array::RecordBatch>,
    pub(super) rejects: Vec<Reject>,
}

/// A chunk that is decoded and not yet written. Its room is taken until [`Window::written`].
pub(super) struct Ready {
    pub(super) chunk: Chunk,
    /// Per lane, in lane order.
    pub(super) decoded: Result<Vec<LaneOutput>>,
    cost: usize,
}

/// How much may lie in a [`Window`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Chunks in decode at once. 1: nothing happens at the same time.
    pub(super) decoding: usize,
    /// Chunks in all: those that are decoded or wait with their decoders, and the one that is being written.
    pub(super) chunks: usize,
    /// Bytes of all of them, records and rows. A single chunk may have more.
    pub(super) bytes: usize,
}

impl Limits {
    /// For `threads` threads.
    pub(super) fn new(threads: usize, bytes: usize) -> Limits {
        let chunks = if threads > 1 { threads + 1 } else { 1 };
        Limits { decoding: threads.max(1), chunks, bytes }
    }
}

/// See the module.
pub(super) struct Window {
    limits: Limits,
    state: Mutex<State>,
}

/// A chunk at work, and its decoders, which come back with it.
type Work = BoxFuture<'static, (Decoders, Chunk, Result<Vec<LaneOutput>>)>;

struct State {
    at_work: VecDeque<(Work, usize)>,
    /// Chunks and bytes, with the one that is being written.
    chunks: usize,
    bytes: usize,
    idle: Vec<Decoders>,
    /// Nothing more is read before the next checkpoint.
    closed: bool,
    /// Something went wrong: whoever is at work stops at the next step.
    failed: bool,
    /// The commit that was pending is confirmed everywhere.
    landed: bool,
    /// What came of preparing, once it has ended; inside, none: it failed.
    prepared: Option<Option<Messages>>,
    wakers: Vec<Waker>,
}

impl Window {
    /// `decoders`: so many chunks can be decoded at once, if `limits` allow it.
    pub(super) fn new(limits: Limits, mut decoders: Vec<Decoders>) -> Window {
        decoders.truncate(limits.decoding);
        let state = State {
            at_work: VecDeque::new(),
            chunks: 0,
            bytes: 0,
            idle: decoders,
            closed: false,
            failed: false,
            landed: false,
            prepared: None,
            wakers: Vec::new(),
        };
        Window { limits, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something and lets those look again who wait.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let value = change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        value
    }

    /// Waits until `look` finds something.
    async fn when<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            if let Some(found) = look(&mut state) {
                return Poll::Ready(found);
            }
            if !state.wakers.iter().any(|w| w.will_wake(context.waker())) {
                state.wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    // ---- reading --------------------------------------------------------------------------------------------------------------------

    /// Waits until one more chunk may be read. False: there may be room or not, and something else has happened that the reader must see.
    pub(super) async fn room(&self) -> bool {
        let landed_before = self.landed();
        let limits = self.limits;
        self.when(|state| {
            let room = state.chunks == 0 || (state.chunks < limits.chunks && state.bytes < limits.bytes);
            let room = room && !state.idle.is_empty();
            (room || state.failed || state.landed != landed_before).then_some(room && !state.failed)
        })
        .await
    }

    /// Takes a chunk that [`Window::room`] was waited for, and begins to decode it.
    pub(super) fn push(&self, env: &Env, chunk: Chunk, cuts: Vec<(usize, usize)>) {
        let lanes = cuts.len();
        // Rows take about as much as their records do; in each lane anew.
        let cost = usize::try_from(chunk.bytes()).unwrap_or(usize::MAX).saturating_mul(1 + lanes);
        let at_once = self.limits.decoding > 1;
        self.change(|state| {
            let mut decoders = state.idle.pop().unwrap_or_default();
            let work = move || {
                let decoded = decode_all(&mut decoders, &chunk, &cuts);
                (decoders, chunk, decoded)
            };
            let work: Work = if at_once { Box::pin(env.cpu(work)) } else { Box::pin(async move { work() }) };
            state.at_work.push_back((work, cost));
            state.chunks += 1;
            state.bytes += cost;
        });
    }

    /// Nothing more comes before the next checkpoint: what is in the window is all.
    pub(super) fn close(&self) {
        self.change(|state| state.closed = true);
    }

    // ---- writing --------------------------------------------------------------------------------------------------------------------

    /// The next chunk in the order of reading, decoded. None: nothing more comes, or something went wrong.
    pub(super) async fn next(&self) -> Option<Ready> {
        let next = |state: &mut State| match (state.failed, state.at_work.pop_front(), state.closed) {
            (false, Some(work), _) => Some(Some(work)),
            (true, _, _) | (false, None, true) => Some(None),
            (false, None, false) => None,
        };
        let (work, cost) = self.when(next).await?;
        let (decoders, chunk, decoded) = work.await;
        self.change(|state| state.idle.push(decoders));
        Some(Ready { chunk, decoded, cost })
    }

    /// A chunk was written: its room is free. It must have been dropped by then.
    pub(super) fn written(&self, cost: usize) {
        self.change(|state| {
            state.chunks -= 1;
            state.bytes -= cost;
        });
    }

    /// What the writers have prepared for the commit; none: they could not.
    pub(super) fn hand_over(&self, messages: Option<Messages>) {
        self.change(|state| state.prepared = Some(messages));
    }

    // ---- the commit, and all three --------------------------------------------------------------------------------------------------

    /// Waits for what the writers prepare, whatever goes wrong elsewhere meanwhile: those rows were due. None: preparing failed.
    pub(super) async fn prepared(&self) -> Option<Messages> {
        self.when(|state| state.prepared.take()).await
    }

    /// The commit is confirmed everywhere.
    pub(super) fn set_landed(&self) {
        self.change(|state| state.landed = true);
    }
    /// See [`Window::set_landed`].
    pub(super) fn landed(&self) -> bool {
        self.lock().landed
    }
    /// Whoever is at work stops at the next step; only a commit goes on.
    pub(super) fn fail(&self) {
        self.change(|state| state.failed = true);
    }
    /// See [`Window::fail`].
    pub(super) fn failed(&self) -> bool {
        self.lock().failed
    }
    /// A new stretch of reading begins; everything that was read before is written.
    pub(super) fn open(&self) {
        self.change(|state| (state.closed, state.landed) = (false, false));
    }

    /// Runs one of the three; whatever goes wrong in it stops the others.
    pub(super) async fn watched<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let result = work.await;
        if result.is_err() {
            self.fail();
        }
        result
    }
}

impl Ready {
    /// Takes it apart: the chunk, what each lane made of it, and what [`Window::written`] must be told.
    pub(super) fn parts(self) -> Result<(Chunk, Vec<LaneOutput>, usize)> {
        Ok((self.chunk, self.decoded?, self.cost))
    }
}
