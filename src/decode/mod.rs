//! How records become rows. A record that cannot be one is a value ([`Reject`]), not a failure, and never takes its neighbours along.

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::source::Records;

/// Where a record failed; a column of the dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The bytes are not JSON, CSV, ...
    Decode,
    /// A value does not fit its column's type, or a NOT NULL column has none.
    Cast,
    /// One of the `checks` is not true.
    Constraint,
    /// The partition values cannot name a directory.
    Partition,
}

impl Stage {
    /// The text in the column `stage`.
    pub fn as_str(self) -> &'static str {
        match self {
            Stage::Decode => "decode",
            Stage::Cast => "cast",
            Stage::Constraint => "constraint",
            Stage::Partition => "partition",
        }
    }
}

/// A record that became no row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Which of the chunk's records.
    pub index: usize,
    /// Where it failed.
    pub stage: Stage,
    /// What was wrong, with the value, cut to a readable length.
    pub error: String,
    /// The column or the path in the record that failed; none for a record that could not be read at all.
    pub field: Option<String>,
}

/// Rows in record order, without the rejected records; rejects in record order.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The rows, in the sink's Arrow schema.
    pub batch: RecordBatch,
    /// The rest.
    pub rejects: Vec<Reject>,
}

/// Turns records into rows of one sink.
pub trait Decoder: Send {
    /// Every record is either one row of the batch or one reject. `Err` is for bugs only.
    fn decode(&mut self, records: &Records) -> Result<Decoded>;
}
