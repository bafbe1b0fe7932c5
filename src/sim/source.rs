//! The simulated source: splits whose offsets have gaps, read in chunks that differ from life to life, and its decoder.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;

use crate::decode::{Decoded, Decoder, Reject, Stage};
use crate::env::Deadline;
use crate::error::{Error, Result};
use crate::sim::world::Alone;
use crate::source::{Offsets, Origin, Polled, Position, Records, Resolved, Source};

/// The offset of record `i` of a split: every third is missing, as after compaction or an aborted transaction.
pub fn offset_of(i: u64) -> u64 {
    i + i / 2
}

/// Offsets that the source was told to be committed, in order.
pub type Told = Arc<Mutex<Vec<Offsets>>>;

/// What one life reads.
pub struct Splits {
    /// Split and how many records it has.
    pub input: Vec<(String, u64)>,
    /// Records in one poll.
    pub chunk: u64,
    /// How long each poll takes.
    pub slow: Duration,
    /// After a seek the first chunk begins one record earlier, as a batch of a broker does.
    pub early: bool,
    /// Polls that give nothing, before the end.
    pub idle: u32,
    /// The process's clock.
    pub clock: Arc<Alone>,
    /// See [`Told`].
    pub told: Told,
    /// Where each split stands: number of records read.
    pub at: BTreeMap<String, u64>,
    /// Where each split stops: number of records.
    pub stop: BTreeMap<String, u64>,
}

impl Splits {
    fn count_below(offset: u64) -> u64 {
        (0..).find(|i| offset_of(*i) >= offset).unwrap_or(0)
    }
    fn position_at(n: u64) -> Position {
        Position { offset: if n == 0 { 0 } else { offset_of(n - 1) + 1 }, note: None }
    }
    fn ends(&self) -> Offsets {
        self.input.iter().filter(|(_, n)| *n > 0).map(|(s, n)| (s.clone(), Self::position_at(*n))).collect()
    }
}

/// Record `i` of a split, as text: `a 3`; a broken one is `broken a 4`.
pub(super) fn text(split: &str, offset: u64) -> String {
    if is_broken(offset) { format!("broken {split} {offset}") } else { format!("{split} {offset}") }
}

/// Is the record at this offset one that no decoder can read? Only where there is a table for dead letters does it matter.
pub fn is_broken(offset: u64) -> bool {
    offset % 4 == 3
}

#[async_trait]
impl Source for Splits {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        Ok(Resolved { start: from.cloned().unwrap_or_default(), stop: Some(self.ends()) })
    }
    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        let stop = stop.cloned().unwrap_or_else(|| self.ends());
        for (split, n) in &self.input {
            let mut at = Self::count_below(offsets.offset(split));
            let end = Self::count_below(stop.offset(split)).min(*n);
            if self.early && at > 0 && at < end {
                at -= 1;
            }
            self.at.insert(split.clone(), at);
            self.stop.insert(split.clone(), end);
        }
        Ok(())
    }
    async fn poll(&mut self, _: Deadline) -> Result<Polled> {
        self.clock.wait(self.slow);
        let open = self.stop.iter().find(|(split, end)| self.at.get(*split).is_some_and(|at| at < end));
        let Some((split, end)) = open.map(|(s, e)| (s.clone(), *e)) else {
            if self.idle > 0 {
                self.idle -= 1;
                return Ok(Polled::Idle);
            }
            return Ok(Polled::End);
        };
        let from = self.at.get(&split).copied().unwrap_or(0);
        let to = end.min(from + self.chunk);
        let origin = Origin { split: split.clone(), name: split.clone(), partition: None, header: None };
        let mut records = Records::none(Arc::new(origin));
        let mut all = String::new();
        for i in from..to {
            all.push_str(&text(&split, offset_of(i)));
            records.ends.push(all.len());
            records.offsets.push(offset_of(i));
        }
        records.bytes = Bytes::from(all);
        self.at.insert(split, to);
        Ok(Polled::Records(records))
    }
    fn position(&self) -> Offsets {
        self.at.iter().filter(|(_, n)| **n > 0).map(|(s, n)| (s.clone(), Self::position_at(*n))).collect()
    }
    async fn committed(&mut self, offsets: &Offsets) -> Result<()> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(offsets.clone());
        Ok(())
    }
}

/// Which rows a sink keeps.
pub type Keep = fn(&str, u64) -> bool;

/// Makes rows `(split, off, part)`.
pub struct ToRows {
    /// Of the table.
    pub schema: SchemaRef,
    /// The others are not for this sink.
    pub keep: Keep,
    /// True: broken records are rejected; false: they are rows like the others.
    pub rejects: bool,
}

impl Decoder for ToRows {
    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        let (mut splits, mut offs, mut parts, mut rejects) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for i in 0..records.len() {
            let (split, offset) = (records.origin.split.as_str(), records.offsets[i]);
            if self.rejects && records.value(i).starts_with(b"broken") {
                rejects.push(Reject { index: i, stage: Stage::Decode, error: "broken".into(), field: None });
            } else if (self.keep)(split, offset) {
                splits.push(split.to_owned());
                offs.push(i64::try_from(offset).unwrap_or(i64::MAX));
                parts.push(format!("p{}", offset % 2));
            }
        }
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from(splits)), Arc::new(Int64Array::from(offs)), Arc::new(StringArray::from(parts))];
        let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(|e| Error::internal("no batch").because(e))?;
        Ok(Decoded { batch, rejects })
    }
}
