//! What one poll of a source gave, on its way through decoders: records, or rows that are columnar already.

use std::borrow::Cow;

use super::columnar::as_records;
use super::{Decoded, Decoder, Reject};
use crate::error::Result;
use crate::source::{Polled, Records, Rows};

/// Records, or rows.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    /// The records; of rows only where they come from.
    pub(crate) records: Records,
    rows: Option<Rows>,
}

impl Chunk {
    /// None: nothing came.
    pub(crate) fn of(polled: Polled) -> Option<Chunk> {
        match polled {
            Polled::Records(records) => Some(Chunk { records, rows: None }),
            Polled::Batch(rows) => Some(Chunk { records: rows.places(), rows: Some(rows) }),
            Polled::Idle | Polled::End => None,
        }
    }
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }
    /// The rows, if it is of rows.
    pub(crate) fn rows(&self) -> Option<&Rows> {
        self.rows.as_ref()
    }
    /// Bytes of input.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.rows {
            Some(rows) => rows.batch.get_array_memory_size() as u64,
            None => self.records.ends.last().map_or(0, |end| end - self.records.start) as u64,
        }
    }
    /// `from..to` of them.
    pub(crate) fn slice(&self, from: usize, to: usize) -> Chunk {
        Chunk { records: self.records.slice(from, to), rows: self.rows.as_ref().map(|rows| rows.slice(from, to)) }
    }
    /// Makes rows of a sink of them.
    pub(crate) fn decode(&self, decoder: &mut dyn Decoder) -> Result<Decoded> {
        match &self.rows {
            Some(rows) => decoder.decode_rows(rows),
            None => decoder.decode(&self.records),
        }
    }
    /// Records that hold the values of what was rejected, and the rejects with their places in these.
    pub(crate) fn rejected(&self, rejects: &[Reject]) -> (Cow<'_, Records>, Vec<Reject>) {
        let Some(rows) = &self.rows else { return (Cow::Borrowed(&self.records), rejects.to_vec()) };
        let which: Vec<usize> = rejects.iter().map(|r| r.index).collect();
        let moved = rejects.iter().enumerate().map(|(index, reject)| Reject { index, ..reject.clone() }).collect();
        (Cow::Owned(as_records(rows, &which)), moved)
    }
}
