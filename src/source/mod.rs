//! Where records come from. A source has splits (a file, a Kafka partition); each record has an offset in its split, and
//! `(split, offset)` always gives the same record. That is what exactly-once needs (a source that cannot says so).

mod columnar;
pub mod conformance;
mod expand;
mod file;
mod files;
mod framing;
mod generate;
mod stdin;
#[cfg(test)]
mod tests;
mod watch;

pub use files::{FilesOptions, FilesSource};
pub use framing::Framing;
pub use generate::{FAIL_AT_EXIT, GenerateOptions, GenerateSource};
pub use stdin::{StdinOptions, StdinSource};
pub use watch::{OnChange, Watch};

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::env::Deadline;
use crate::error::Result;

/// The position in one split: the offset of the next record to read, and a note that makes the split recognisable again
/// (file: size and hash; Kafka: topic id).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Offset of the next record: bytes of the decompressed file, the Kafka offset, the row number of the generator.
    pub offset: u64,
    /// The source's own note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<serde_json::Value>,
}

impl Position {
    /// Only as a stop: up to the split's end, which nothing but reading it finds (a compressed file). Its note's `size` says which end;
    /// a position reached it when its note's `end` is that size or greater.
    pub const TO_END: u64 = u64::MAX;

    fn reached(&self, stop: &Position) -> bool {
        let number = |p: &Position, key: &str| p.note.as_ref().and_then(|n| n.get(key)).and_then(serde_json::Value::as_u64);
        self.offset >= stop.offset
            || (stop.offset == Self::TO_END
                && matches!((number(self, "end"), number(stop, "size")), (Some(end), Some(size)) if end >= size))
    }
}

/// Split -> position. A split that is absent stands at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Offsets(pub BTreeMap<String, Position>);

impl Offsets {
    /// The offset of a split; 0 when absent.
    pub fn offset(&self, split: &str) -> u64 {
        self.0.get(split).map_or(0, |p| p.offset)
    }
    /// Per split the greater of the two; where they are equal the other's note, which is the newer one in `covered.max(offsets)`.
    pub fn max(&self, other: &Offsets) -> Offsets {
        let mut out = self.clone();
        for (split, b) in &other.0 {
            match out.0.get(split) {
                Some(a) if a.offset > b.offset || (a.offset == b.offset && b.note.is_none()) => {}
                _ => drop(out.0.insert(split.clone(), b.clone())),
            }
        }
        out
    }
    /// Per split the smaller of the two; a split that one of them lacks stands at its start, and is left out.
    pub fn min(&self, other: &Offsets) -> Offsets {
        let both = self.0.iter().filter_map(|(split, a)| {
            let b = other.0.get(split)?;
            Some((split.clone(), if b.offset < a.offset { b.clone() } else { a.clone() }))
        });
        Offsets(both.collect())
    }
    /// These offsets, with the splits that `other` knows as `other` has them.
    pub fn overlaid(&self, other: &Offsets) -> Offsets {
        let mut out = self.clone();
        out.0.extend(other.0.iter().map(|(split, p)| (split.clone(), p.clone())));
        out
    }
    /// True when no split stands at a smaller offset than in `other`; also tells whether a stop is reached ([`Position::TO_END`]).
    pub fn covers(&self, other: &Offsets) -> bool {
        other.0.iter().all(|(split, p)| p.offset == 0 || self.0.get(split).is_some_and(|own| own.reached(p)))
    }
}

/// Records of one split, columnar: one byte buffer, an end and an offset per record.
#[derive(Clone, Debug)]
pub struct Records {
    /// Where they come from; shared by all.
    pub origin: Arc<Origin>,
    /// All values, one after the other.
    pub bytes: Bytes,
    /// End of record i in `bytes`; it starts at the end of record i - 1 (the first at `start`).
    pub ends: Vec<usize>,
    /// Start of the first record in `bytes`.
    pub start: usize,
    /// Offset of each record in its split; rising.
    pub offsets: Vec<u64>,
    /// Line number of each record, from 1; empty when the source has no lines.
    pub lines: Vec<u64>,
    /// Milliseconds since 1970-01-01 UTC of each record; empty when the source has none.
    pub timestamps: Vec<i64>,
    /// Key of each record; empty when the source has none.
    pub keys: Vec<Option<Bytes>>,
    /// Headers of each record; empty when the source has none.
    pub headers: Vec<Vec<(String, Option<Bytes>)>>,
    /// Records that the source could not take apart (longer than allowed, a quote that is never closed): index, rising, and what is
    /// wrong. The value is only the record's beginning. A decoder turns each into a reject of stage `decode` and reads nothing of it.
    pub faults: Vec<(usize, String)>,
}

/// What all records of a chunk share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The split, as in [`Offsets`].
    pub split: String,
    /// Topic name or file path, for people and dead letters.
    pub name: String,
    /// The Kafka partition.
    pub partition: Option<i32>,
    /// Column names of a CSV file's header.
    pub header: Option<Arc<Vec<String>>>,
}

impl Records {
    /// No records, of `origin`; push values onto `bytes` and `ends`, and offsets, to fill it.
    pub fn none(origin: Arc<Origin>) -> Self {
        Records {
            origin,
            bytes: Bytes::new(),
            ends: Vec::new(),
            start: 0,
            offsets: Vec::new(),
            lines: Vec::new(),
            timestamps: Vec::new(),
            keys: Vec::new(),
            headers: Vec::new(),
            faults: Vec::new(),
        }
    }
    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// The bytes of record `i`.
    pub fn value(&self, i: usize) -> &[u8] {
        let start = if i == 0 { self.start } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }
    /// Records `from..to`.
    pub fn slice(&self, from: usize, to: usize) -> Records {
        let some = |len: usize| from.min(len)..to.min(len);
        Records {
            origin: self.origin.clone(),
            bytes: self.bytes.clone(),
            start: if from == 0 { self.start } else { self.ends[from - 1] },
            ends: self.ends[from..to].to_vec(),
            offsets: self.offsets[from..to].to_vec(),
            lines: self.lines[some(self.lines.len())].to_vec(),
            timestamps: self.timestamps[some(self.timestamps.len())].to_vec(),
            keys: self.keys[some(self.keys.len())].to_vec(),
            headers: self.headers[some(self.headers.len())].to_vec(),
            faults: self.faults.iter().filter(|(i, _)| (from..to).contains(i)).map(|(i, why)| (i - from, why.clone())).collect(),
        }
    }
    /// `file:line` or `topic[partition]@offset`, for messages.
    pub fn place(&self, i: usize) -> String {
        match (self.lines.get(i), self.origin.partition) {
            (Some(line), _) => format!("{}:{line} (offset {})", self.origin.name, self.offsets[i]),
            (None, Some(p)) => format!("{}[{p}]@{}", self.origin.name, self.offsets[i]),
            (None, None) => format!("{}@{}", self.origin.name, self.offsets[i]),
        }
    }
}

/// Rows that are columnar already, all of one split.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Where they come from.
    pub origin: Arc<Origin>,
    /// The rows.
    pub batch: RecordBatch,
    /// Offset of the first row; row i has `first + i`.
    pub first: u64,
}

impl Rows {
    /// Where the rows come from, as records without values.
    pub fn places(&self) -> Records {
        let rows = self.batch.num_rows();
        let offsets = (self.first..).take(rows).collect();
        Records { ends: vec![0; rows], offsets, ..Records::none(self.origin.clone()) }
    }
    /// Rows `from..to`.
    pub fn slice(&self, from: usize, to: usize) -> Rows {
        Rows { origin: self.origin.clone(), batch: self.batch.slice(from, to - from), first: self.first + from as u64 }
    }
}

/// What one poll gave.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Polled {
    /// Records to decode.
    Records(Records),
    /// Rows that need no decoding.
    Batch(Rows),
    /// Nothing came before the deadline.
    Idle,
    /// The stop is reached; nothing will come any more in this lineage.
    End,
}

/// Where a new lineage starts and stops; durable in the chain's `open` before the first poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// First offset to read of each split that is known now.
    pub start: Offsets,
    /// First offset *not* to read of each split; none for a source that never ends.
    pub stop: Option<Offsets>,
}

/// A replayable, addressable stream of records. Fits in 80 lines; run [`conformance`] on your own.
#[async_trait]
pub trait Source: Send {
    /// Makes `start:` and `stop:` absolute. `from` is where an earlier lineage ended; none: the pipeline has never run.
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved>;
    /// Goes to these offsets; called once before the first poll. A split that is not what its note says is `Data`.
    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()>;
    /// The next records in offset order per split, or `Idle` at the deadline, or `End`.
    async fn poll(&mut self, deadline: Deadline) -> Result<Polled>;
    /// The offsets after everything that `poll` has returned.
    fn position(&self) -> Offsets;
    /// Everything below these offsets is durable and visible. May be told to the outside (Kafka group offsets).
    async fn committed(&mut self, offsets: &Offsets) -> Result<()> {
        let _ = offsets;
        Ok(())
    }
    /// Does `(split, offset)` always give the same record? A source that says no (stdin) makes the pipeline at-least-once.
    fn replayable(&self) -> bool {
        true
    }
}
