//! Where records come from. A source has splits (a file, a Kafka partition); each record has an offset in its split, and
//! `(split, offset)` always gives the same record. That is what exactly-once needs (a source that cannot says so).

mod columnar;
pub mod conformance;
mod expand;
mod file;
mod files;
pub(crate) mod finished;
mod framing;
mod generate;
pub(crate) mod kafka;
pub mod status;
mod stdin;
#[cfg(test)]
mod tests;
mod watch;

pub use files::{FilesOptions, FilesSource};
pub use finished::Shelf;
pub(crate) use finished::{FINISHED, Finished};
pub use framing::Framing;
pub use generate::{FAIL_AT_EXIT, GenerateOptions, GenerateSource};
#[cfg(feature = "kafka")]
pub use kafka::{Bounds, KafkaSource, Notice, Notices};
pub use kafka::{KafkaOptions, KafkaStart, KafkaStop, KafkaTopics, OnDataLoss};
pub use status::{SplitStatus, Status};
pub use stdin::{StdinOptions, StdinSource};
pub use watch::{OnChange, Watch};

use std::borrow::Cow;
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

    /// Key in a note of ranges that were gone before they were read.
    pub const LOST: &str = "lost";

    /// Ranges `[from, to)` of this split below the offset that were gone before they could be read, oldest first; a source that goes on after
    /// a loss notes them, and the snapshots that pass them say so.
    pub fn lost(&self) -> Vec<[u64; 2]> {
        let ranges = self.note.as_ref().and_then(|note| note.get(Self::LOST)).and_then(serde_json::Value::as_array);
        let pair = |range: &serde_json::Value| Some([range.get(0)?.as_u64()?, range.get(1)?.as_u64()?]);
        ranges.into_iter().flatten().filter_map(pair).collect()
    }

    fn reached(&self, stop: &Position) -> bool {
        let number = |p: &Position, key: &str| p.note.as_ref().and_then(|n| n.get(key)).and_then(serde_json::Value::as_u64);
        self.offset >= stop.offset
            || (stop.offset == Self::TO_END
                && matches!((number(self, "end"), number(stop, "size")), (Some(end), Some(size)) if end >= size))
    }
}

/// Split -> position. A split that is absent stands at its start.
///
/// Splits that are read to their end may be kept elsewhere, many of them at the cost of one ([`Shelf`]); everything but the map in field 0
/// knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offsets(pub BTreeMap<String, Position>, pub(crate) Option<Arc<Finished>>);

impl<const N: usize> From<[(String, Position); N]> for Offsets {
    fn from(splits: [(String, Position); N]) -> Self {
        Offsets(splits.into(), None)
    }
}

impl FromIterator<(String, Position)> for Offsets {
    fn from_iter<I: IntoIterator<Item = (String, Position)>>(splits: I) -> Self {
        Offsets(splits.into_iter().collect(), None)
    }
}

impl Serialize for Offsets {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let finished = self.1.as_ref().map(|f| f.to_position());
        serializer.collect_map(finished.iter().map(|p| (FINISHED, p)).chain(self.0.iter().map(|(split, p)| (split.as_str(), p))))
    }
}

impl<'de> Deserialize<'de> for Offsets {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut splits = BTreeMap::<String, Position>::deserialize(deserializer)?;
        let finished = match splits.remove(FINISHED) {
            None => None,
            Some(position) => {
                let finished = Finished::from_position(&position);
                Some(Arc::new(finished.ok_or_else(|| serde::de::Error::custom("the finished splits cannot be read"))?))
            }
        };
        Ok(Offsets(splits, finished))
    }
}

impl Offsets {
    /// The position of a split; none: it stands at its start.
    pub fn position(&self, split: &str) -> Option<Cow<'_, Position>> {
        match self.0.get(split) {
            Some(position) => Some(Cow::Borrowed(position)),
            None => self.1.as_ref()?.position(split).map(Cow::Owned),
        }
    }
    /// The offset of a split; 0 when absent.
    pub fn offset(&self, split: &str) -> u64 {
        match self.0.get(split) {
            Some(position) => position.offset,
            None => self.1.as_ref().and_then(|f| f.offset(split)).unwrap_or(0),
        }
    }
    /// How many splits are kept elsewhere because they are read to their end.
    pub fn finished(&self) -> u64 {
        self.1.as_ref().map_or(0, |f| f.len())
    }
    /// The splits that one of the two names, in both.
    fn pairs<'a>(&'a self, other: &'a Offsets) -> impl Iterator<Item = (&'a String, Option<Cow<'a, Position>>, Option<Cow<'a, Position>>)> {
        let own = self.0.keys();
        let all = own.chain(other.0.keys().filter(|split| !self.0.contains_key(*split)));
        all.map(|split| (split, self.position(split), other.position(split)))
    }
    /// Without naming what is finished just as far. What is named counts, also where it is less.
    fn told_once(splits: impl Iterator<Item = (String, Position)>, finished: Option<Arc<Finished>>) -> Offsets {
        let named = splits.filter(|(split, p)| finished.as_ref().and_then(|f| f.offset(split)) != Some(p.offset));
        Offsets(named.collect(), finished)
    }
    /// Per split the greater of the two; where they are equal the other's note, which is the newer one in `covered.max(offsets)`.
    pub fn max(&self, other: &Offsets) -> Offsets {
        let greater = self.pairs(other).filter_map(|(split, a, b)| {
            let position = match (a, b) {
                (Some(a), Some(b)) if a.offset > b.offset || (a.offset == b.offset && b.note.is_none()) => a,
                (a, b) => b.or(a)?,
            };
            Some((split.clone(), position.into_owned()))
        });
        Self::told_once(greater, finished::max(&self.1, &other.1))
    }
    /// Per split the smaller of the two; a split that one of them lacks stands at its start, and is left out.
    pub fn min(&self, other: &Offsets) -> Offsets {
        let both = self.pairs(other).filter_map(|(split, a, b)| {
            let (a, b) = (a?, b?);
            Some((split.clone(), if b.offset < a.offset { b } else { a }.into_owned()))
        });
        Self::told_once(both, finished::min(&self.1, &other.1))
    }
    /// These offsets, with the splits that `other` knows as `other` has them.
    pub fn overlaid(&self, other: &Offsets) -> Offsets {
        let of_other = |(split, own, others): (&String, Option<Cow<'_, Position>>, Option<Cow<'_, Position>>)| {
            Some((split.clone(), others.or(own)?.into_owned()))
        };
        Self::told_once(self.pairs(other).filter_map(of_other), finished::overlaid(&self.1, &other.1))
    }
    /// True when no split stands at a smaller offset than in `other`; also tells whether a stop is reached ([`Position::TO_END`]).
    pub fn covers(&self, other: &Offsets) -> bool {
        let named = other.0.iter().all(|(split, p)| p.offset == 0 || self.position(split).is_some_and(|own| own.reached(p)));
        let Some(finished) = other.1.as_ref().filter(|_| named) else { return named };
        let mut own = self.0.iter().filter(|(split, _)| !other.0.contains_key(*split));
        let by_name = || self.0.keys().chain(other.0.keys()).map(|split| finished::digest(split)).collect();
        own.all(|(split, p)| finished.offset(split).is_none_or(|offset| p.offset >= offset))
            && finished.is_covered_by(self.1.as_ref(), &by_name)
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
    /// Records whose value is null (Kafka's tombstones), not empty: index, rising. Each is among the faults too.
    pub nulls: Vec<usize>,
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
            nulls: Vec::new(),
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
            nulls: self.nulls.iter().filter(|i| (from..to).contains(*i)).map(|i| i - from).collect(),
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
    /// What is known of each split while it runs, for whoever shows it; none: the source cannot tell. Asked for once, after `seek`.
    fn status(&self) -> Option<Arc<Status>> {
        None
    }
    /// Where each split begins and ends after the last `resolve`, and why, in words; empty: nothing but the offsets can be said.
    fn plan(&self) -> Vec<String> {
        Vec::new()
    }
    /// Does `(split, offset)` always give the same record? A source that says no (stdin) makes the pipeline at-least-once.
    fn replayable(&self) -> bool {
        true
    }
}
