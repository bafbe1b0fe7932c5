//! How records become rows. A record that cannot be one is a value ([`Reject`]), not a failure, and never takes its neighbours along.

mod arrow_value;
mod cast;
mod check;
mod check_bind;
mod chunk;
mod columnar;
mod columns;
mod conform;
mod csv;
mod expr;
mod infer;
mod json;
mod leaf;
mod mapping;
mod nested;
mod rows;
mod scan;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use arrow::array::RecordBatch;

pub use check::Check;
pub(crate) use chunk::Chunk;
pub use columnar::ColumnarDecoder;
pub(crate) use columnar::columns_of;
pub use csv::{CsvDecoder, CsvOptions};
pub use expr::Function;
pub use infer::infer;
pub use json::JsonDecoder;
pub use mapping::{ColumnMapping, ColumnSpec, Mapping, Meta, OnNewField, PartitionCheck, Unit, ValueFrom};

use crate::error::{Error, Result};
use crate::source::{Records, Rows};

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
    /// The same for rows that are columnar already. `Invalid`, unless the decoder is for them.
    fn decode_rows(&mut self, rows: &Rows) -> Result<Decoded> {
        let what = "the source gives rows that need no decoding, and this decoder is for records";
        Err(Error::invalid(what).at(&rows.origin.name).hint("use ColumnarDecoder"))
    }
}

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// One JSON object each.
    Json,
    /// One CSV row each.
    Csv,
    /// They are not: the rows of Parquet files are columns already.
    Parquet,
}

impl RecordFormat {
    /// Reads `json`, `csv` or `parquet`; anything else is `Invalid`.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "json" => Ok(RecordFormat::Json),
            "csv" => Ok(RecordFormat::Csv),
            "parquet" => Ok(RecordFormat::Parquet),
            "avro" | "debezium" | "raw" => {
                Err(Error::invalid(format!("decode.format: {text} is not supported yet")).hint("write json, csv or parquet"))
            }
            other => Err(Error::invalid(format!("decode.format: {other:?} is unknown")).hint("write json, csv or parquet")),
        }
    }
}

/// The decoder for the rows of one sink. `csv` is used for CSV only. `Invalid`: the mapping does not go with the format.
pub fn make_decoder(format: RecordFormat, mapping: &Mapping, csv: &CsvOptions) -> Result<Box<dyn Decoder>> {
    Ok(match format {
        RecordFormat::Json => Box::new(JsonDecoder::new(mapping)),
        RecordFormat::Csv => Box::new(CsvDecoder::new(mapping, csv)?),
        RecordFormat::Parquet => Box::new(ColumnarDecoder::new(mapping)),
    })
}
