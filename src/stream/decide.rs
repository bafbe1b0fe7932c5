//! What a start does, and what each sink's facts become from checkpoint to checkpoint. Pure; `spec/checkpoint.md` has the tables.

use crate::error::{Error, Result};
use crate::format::{CommitUser, END_OF_INPUT, Floor};
use crate::sink::{ClosedAt, Message, Outcome};
use crate::source::Offsets;
use crate::stream::checkpoint::{Checkpoint, CheckpointKind, CloseEntry, FromMode, Role, SinkEntry};

/// What is known of one sink between two checkpoints: nothing is pending in it.
#[derive(Clone, Debug, PartialEq)]
pub struct SinkState {
    /// What it is for.
    pub role: Role,
    /// `paimon`, ...
    pub format: String,
    /// F: a snapshot at which `last` is known to hold.
    pub floor: Floor,
    /// When the floor was read, milliseconds since 1970-01-01 UTC.
    pub floor_read: i64,
    /// L: the newest identifier of the lineage's user.
    pub last: Option<i64>,
    /// A: where the range of the next snapshot begins.
    pub since: Offsets,
    /// C: everything below is settled.
    pub covered: Offsets,
    /// Largest watermark so far, milliseconds since 1970-01-01 UTC.
    pub watermark: Option<i64>,
    /// The lineage before, while this one has landed nothing.
    pub predecessor: Option<CommitUser>,
}

/// The entry of a sink in the next checkpoint at source offsets `offsets`. `head`: a newer floor, read after the previous commit was
/// confirmed; `last` holds there too.
pub fn next_entry(
    kind: CheckpointKind,
    state: &SinkState,
    offsets: &Offsets,
    messages: Option<Vec<Message>>,
    head: Option<(Floor, i64)>,
) -> SinkEntry {
    let (floor, floor_read) = head.unwrap_or_else(|| (state.floor.clone(), state.floor_read));
    let covered = match (kind, &messages) {
        (CheckpointKind::Closed, _) => offsets.clone(),
        // With messages the range is settled only when they have landed; without, there was nothing in it for this sink.
        (_, Some(_)) => state.covered.clone(),
        (_, None) => state.covered.max(offsets),
    };
    let since = if kind == CheckpointKind::Closed { offsets.clone() } else { state.since.clone() };
    SinkEntry {
        role: state.role,
        format: state.format.clone(),
        floor,
        floor_read,
        last: if kind == CheckpointKind::Closed { Some(END_OF_INPUT) } else { state.last },
        since,
        covered: (&covered != offsets).then_some(covered),
        watermark: state.watermark,
        predecessor: state.predecessor.clone(),
        messages,
    }
}

/// What is known of a sink after a checkpoint was finished in it. `outcome` is what the commit (or the look) said; `now` is its time.
pub fn after(checkpoint: &Checkpoint, entry: &SinkEntry, outcome: &Outcome, now: i64) -> SinkState {
    let mut state = SinkState {
        role: entry.role,
        format: entry.format.clone(),
        floor: outcome.floor.clone(),
        floor_read: if outcome.floor == entry.floor { entry.floor_read } else { now },
        last: entry.last,
        since: entry.since.clone(),
        covered: checkpoint.settled(entry),
        watermark: entry.watermark,
        predecessor: entry.predecessor.clone(),
    };
    if entry.messages.is_some() {
        state.last = Some(checkpoint.identifier);
        state.since = state.covered.clone();
        state.predecessor = None;
    }
    state
}

/// `since` and `covered` of a sink of the new lineage, once its old lineage was closed there at `closed_at`. `back_to`: the offsets of the
/// checkpoint that a rewind goes back to.
pub fn after_close(mode: FromMode, close: &CloseEntry, closed_at: ClosedAt, back_to: &Offsets) -> (Offsets, Offsets) {
    let (since, covered) = match close.identifier {
        // It had nothing pending here: all that the checkpoint passed over is settled.
        None => (close.since.clone(), close.covered.max(&close.offsets)),
        Some(pending) if closed_at == Some(pending) => {
            let settled = close.covered.max(&close.offsets);
            (settled.clone(), settled)
        }
        Some(_) => (close.since.clone(), close.covered.clone()),
    };
    match mode {
        FromMode::Abandon => (since, covered),
        // A sink that lags (a backfill, or what was given up) may stand before that checkpoint: going back never skips what it lacks.
        FromMode::Rewind => {
            let at = back_to.min(&covered);
            (at.clone(), at)
        }
    }
}

/// What a start is asked for on the command line, as far as it decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// `--rewind K`.
    pub rewind: Option<u64>,
    /// `--abandon N`.
    pub abandon: Option<u64>,
}

/// What a start sees of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greatest {
    /// Its seq.
    pub seq: u64,
    /// What it is.
    pub kind: CheckpointKind,
    /// Has any sink messages?
    pub messages: bool,
}

/// What a start does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// The chain is empty: go to [`Then::Begin`].
    Nothing,
    /// Finish the greatest: its close, then its messages.
    Finish,
    /// Do not finish its messages: `--abandon`.
    GiveUp,
}

/// What it does when the greatest is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Begin a lineage, if there is anything to read.
    Begin,
    /// Write `closed`, then [`Then::Begin`].
    WriteClosed,
    /// Go on in the open lineage.
    GoOn,
    /// Write an `open` that closes the lineage before it.
    GoBack(FromMode),
}

/// Where to look for a checkpoint to go back to.
const LISTED: &str = "`table-cli checkpoints` lists those that are kept";

/// Decides a start. `Invalid`: the request does not fit the chain.
pub fn start(greatest: Option<Greatest>, asked: Asked) -> Result<(First, Then)> {
    let Some(greatest) = greatest else {
        return match (asked.rewind, asked.abandon) {
            (None, None) => Ok((First::Nothing, Then::Begin)),
            _ => Err(Error::invalid("the pipeline has no checkpoint yet: there is nothing to go back to")
                .hint("start it without --rewind and --abandon; or set checkpoint.location to where its chain is")),
        };
    };
    match (asked.rewind, asked.abandon) {
        (Some(_), Some(_)) => Err(Error::invalid("--rewind and --abandon cannot be given together").hint("give one of them")),
        (None, Some(n)) if n != greatest.seq => {
            Err(Error::invalid(format!("only the greatest checkpoint can be abandoned; that is {}, not {n}", greatest.seq))
                .hint("to go back further use --rewind"))
        }
        (None, Some(n)) if !greatest.messages => {
            Err(Error::invalid(format!("checkpoint {n} has nothing pending: there is nothing to abandon"))
                .hint("start the pipeline without --abandon"))
        }
        (None, Some(_)) => Ok((First::GiveUp, Then::GoBack(FromMode::Abandon))),
        (Some(k), None) if k > greatest.seq => {
            Err(Error::invalid(format!("there is no checkpoint {k}; the greatest is {}", greatest.seq)).hint(LISTED))
        }
        (Some(_), None) => Ok((First::Finish, Then::GoBack(FromMode::Rewind))),
        (None, None) => Ok((
            First::Finish,
            match greatest.kind {
                CheckpointKind::Open | CheckpointKind::Data => Then::GoOn,
                CheckpointKind::End => Then::WriteClosed,
                CheckpointKind::Closed => Then::Begin,
            },
        )),
    }
}

/// Has a bounded source anything between `start` and `stop`?
pub fn anything_to_read(start: &Offsets, stop: Option<&Offsets>) -> bool {
    stop.is_none_or(|stop| !start.covers(stop))
}

/// Does the stop that this checkpoint of an open lineage names still hold? Not when it is reached, nor when the pipeline says another one
/// now: somebody drains a pipeline that ran for ever, or lets it go on.
pub fn stop_stands(checkpoint: &Checkpoint, until: &str) -> bool {
    checkpoint.until == until && anything_to_read(&checkpoint.offsets, checkpoint.stop.as_ref())
}

#[cfg(test)]
mod tests;
