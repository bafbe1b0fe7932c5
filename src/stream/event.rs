//! What a run tells while it runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::format::Format;
use crate::table::commit::identifier as show;

/// Something that happened in a run, for people and programs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// A table was not there and was created.
    TableCreated {
        /// Its format.
        format: Format,
        /// Its url.
        sink: String,
        /// Its columns and their types.
        columns: String,
        /// Were they inferred from the first records?
        inferred: bool,
    },
    /// The run is ready to poll: which lineage, and whether it goes on.
    Started {
        /// Uuid of the run.
        run: String,
        /// The commit user.
        user: String,
        /// Seq of the greatest checkpoint; of a new lineage, of the one that opened it.
        seq: u64,
        /// True: a lineage that was open goes on; false: a new one was opened.
        resumed: bool,
    },
    /// A start finished the greatest checkpoint in one sink.
    Finished {
        /// Its seq.
        seq: u64,
        /// The sink's url.
        sink: String,
        /// The identifier.
        identifier: i64,
        /// The snapshot id, or version.
        snapshot: u64,
        /// True: it had landed before and was recognised; false: it landed now.
        already: bool,
    },
    /// A lineage was closed in one sink by a rewind or abandon.
    LineageClosed {
        /// The commit user.
        user: String,
        /// The sink's url.
        sink: String,
        /// What it had landed last.
        closed_at: Option<i64>,
    },
    /// What a rewind or abandon means, in words.
    GoingBack {
        /// What is written again, what is not.
        text: String,
    },
    /// A checkpoint is owned; its commits start now.
    Checkpointed {
        /// Its seq.
        seq: u64,
        /// Its identifier.
        identifier: i64,
        /// `open`, `data`, `end`, `closed`.
        kind: &'static str,
        /// What writing and owning it took, milliseconds.
        millis: u64,
    },
    /// A commit landed in one sink.
    Committed {
        /// The sink's url.
        sink: String,
        /// The identifier.
        identifier: i64,
        /// The snapshot id, or version.
        snapshot: u64,
        /// Rows.
        rows: u64,
        /// Bytes of data files.
        bytes: u64,
        /// Data files.
        files: u64,
        /// From the create of the checkpoint to now, milliseconds.
        millis: u64,
    },
    /// Records became dead letters in this checkpoint.
    DeadLetters {
        /// How many.
        records: u64,
        /// How many by stage: `decode`, `cast`, `constraint`, `partition`.
        stages: BTreeMap<&'static str, u64>,
        /// The first of them, in words.
        first: String,
    },
    /// Splits gave no record for `idle_after`, and none waits in them. Told once until records come again.
    Idle {
        /// Their names: `topic[partition]`.
        splits: Vec<String>,
        /// `idle_after`.
        after: Duration,
    },
    /// Records come again from splits that were idle.
    Resumed {
        /// Their names.
        splits: Vec<String>,
    },
    /// Input waits and nothing was committed for too long. Told once until a commit lands.
    Stalled {
        /// What is known of it.
        why: String,
    },
    /// `/metrics` and `/healthz` are answered.
    Serving {
        /// Where: the port is the real one.
        address: std::net::SocketAddr,
    },
    /// Where the source reads: one split, or what holds for all.
    Reading {
        /// From where to where, and why.
        text: String,
    },
    /// A call to a store failed and is tried again.
    Retry {
        /// Which call.
        what: String,
        /// How many times it failed.
        attempt: u32,
        /// The last error.
        error: String,
    },
    /// Something that a person should know.
    Warning {
        /// What.
        text: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Started { user, seq, resumed: true, .. } => write!(f, "going on as {user} after checkpoint {seq}"),
            Event::Started { user, seq, resumed: false, .. } => write!(f, "new lineage {user}, opened by checkpoint {seq}"),
            Event::Finished { seq, sink, identifier, snapshot, already: true } => {
                write!(f, "checkpoint {seq}: commit {} had landed before in {sink} as snapshot {snapshot}; recognised", show(*identifier))
            }
            Event::Finished { seq, sink, identifier, snapshot, already: false } => {
                write!(f, "checkpoint {seq}: commit {} had not landed in {sink}; committed now as snapshot {snapshot}", show(*identifier))
            }
            Event::LineageClosed { user, sink, closed_at: Some(id) } => {
                write!(f, "closed lineage {user} in {sink}; it had landed {}", show(*id))
            }
            Event::LineageClosed { user, sink, closed_at: None } => write!(f, "closed lineage {user} in {sink}; it had landed nothing"),
            Event::GoingBack { text } | Event::Warning { text } | Event::Reading { text } => f.write_str(text),
            Event::Checkpointed { seq, identifier, kind, .. } => {
                write!(f, "checkpoint {seq} written ({kind}, identifier {})", show(*identifier))
            }
            Event::Committed { sink, identifier, snapshot, rows, bytes, millis, .. } => {
                write!(f, "committed {} to {sink}: snapshot {snapshot}, {rows} rows, {bytes} bytes, {millis} ms", show(*identifier))
            }
            Event::DeadLetters { records, first, .. } => write!(f, "{records} dead letters; the first: {first}"),
            Event::TableCreated { format, sink, columns, inferred: false } => write!(f, "created {format} table {sink}: {columns}"),
            Event::TableCreated { format, sink, columns, inferred: true } => {
                write!(f, "created {format} table {sink} with inferred columns: {columns}")
            }
            Event::Idle { splits, after } => write!(f, "no record for {after:?} from {}; the others go on", some(splits)),
            Event::Resumed { splits } => write!(f, "records come again from {}", some(splits)),
            Event::Stalled { why } => f.write_str(why),
            Event::Serving { address } => write!(f, "metrics at http://{address}/metrics, health at http://{address}/healthz"),
            Event::Retry { what, attempt, error } => write!(f, "{what} failed {attempt} times, trying again: {error}"),
        }
    }
}

/// The first few, and how many more.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

/// Takes events; must not block.
#[derive(Clone)]
pub struct Events(Arc<dyn Fn(Event) + Send + Sync>);

impl Events {
    /// To this function.
    pub fn to(f: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Events(Arc::new(f))
    }
    /// To the log only.
    pub fn ignored() -> Self {
        Events(Arc::new(|_| {}))
    }
    /// Tells.
    pub fn tell(&self, event: Event) {
        tracing::debug!(%event);
        (self.0)(event);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
