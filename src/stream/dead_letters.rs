//! Records that became no rows, as rows of a table of their own, with full coordinates.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryBuilder, Int32Builder, Int64Builder, RecordBatch, StringBuilder, TimestampMicrosecondBuilder};

use crate::decode::Reject;
use crate::error::{Error, Result};
use crate::schema::{DataType, Field, Schema};
use crate::source::Records;

/// Columns of a dead-letter table: name and type; all but the first two may be null.
pub fn columns() -> Vec<Field> {
    let all: [(&str, DataType); 16] = [
        ("pipeline", DataType::String),
        ("seq", DataType::BigInt),
        ("topic", DataType::String),
        ("partition", DataType::Int),
        ("offset", DataType::BigInt),
        ("line", DataType::BigInt),
        ("timestamp", DataType::TimestampLtz(6)),
        ("key", DataType::Bytes),
        ("value", DataType::Bytes),
        ("headers", DataType::String),
        ("sink", DataType::String),
        ("stage", DataType::String),
        ("error", DataType::String),
        ("field", DataType::String),
        ("time", DataType::TimestampLtz(6)),
        ("run", DataType::String),
    ];
    let field = |(id, (name, data_type)): (i32, (&str, DataType))| Field {
        id,
        name: name.to_owned(),
        data_type,
        nullable: id > 1,
        description: None,
    };
    (0..).zip(all).map(field).collect()
}

/// Who writes dead letters, and under which checkpoint.
#[derive(Clone, Debug)]
pub struct Stamp<'a> {
    /// The pipeline.
    pub pipeline: &'a str,
    /// The checkpoint that will hold them.
    pub seq: u64,
    /// The sink for which the record became no row; none: for all.
    pub sink: Option<&'a str>,
    /// Now, milliseconds since 1970-01-01 UTC.
    pub time_ms: i64,
    /// Uuid of the run.
    pub run: &'a str,
}

/// One row for each reject.
pub fn batch(records: &Records, rejects: &[Reject], stamp: &Stamp<'_>) -> Result<RecordBatch> {
    let mut b = Builders::default();
    for reject in rejects {
        b.push(records, reject, stamp)?;
    }
    let schema = Schema { id: 0, fields: columns(), partition_by: Vec::new() }.to_arrow();
    Ok(RecordBatch::try_new(schema, b.finish())?)
}

#[derive(Default)]
struct Builders {
    pipeline: StringBuilder,
    seq: Int64Builder,
    topic: StringBuilder,
    partition: Int32Builder,
    offset: Int64Builder,
    line: Int64Builder,
    timestamp: TimestampMicrosecondBuilder,
    key: BinaryBuilder,
    value: BinaryBuilder,
    headers: StringBuilder,
    sink: StringBuilder,
    stage: StringBuilder,
    error: StringBuilder,
    field: StringBuilder,
    time: TimestampMicrosecondBuilder,
    run: StringBuilder,
}

impl Builders {
    fn push(&mut self, records: &Records, reject: &Reject, stamp: &Stamp<'_>) -> Result<()> {
        let i = reject.index;
        let long = |v: u64| i64::try_from(v).map_err(|_| Error::data("an offset does not fit 63 bits").at(records.place(i)));
        self.pipeline.append_value(stamp.pipeline);
        self.seq.append_value(long(stamp.seq)?);
        self.topic.append_value(&records.origin.name);
        self.partition.append_option(records.origin.partition);
        self.offset.append_value(long(records.offsets[i])?);
        self.line.append_option(records.lines.get(i).map(|l| long(*l)).transpose()?);
        self.timestamp.append_option(records.timestamps.get(i).map(|ms| ms.saturating_mul(1000)));
        self.key.append_option(records.keys.get(i).and_then(Option::as_deref));
        self.value.append_option(records.nulls.binary_search(&i).is_err().then(|| records.value(i)));
        self.headers.append_option(headers(records, i));
        self.sink.append_option(stamp.sink);
        self.stage.append_value(reject.stage.as_str());
        self.error.append_value(&reject.error);
        self.field.append_option(reject.field.as_deref());
        self.time.append_value(stamp.time_ms.saturating_mul(1000));
        self.run.append_value(stamp.run);
        Ok(())
    }

    fn finish(mut self) -> Vec<ArrayRef> {
        vec![
            Arc::new(self.pipeline.finish()),
            Arc::new(self.seq.finish()),
            Arc::new(self.topic.finish()),
            Arc::new(self.partition.finish()),
            Arc::new(self.offset.finish()),
            Arc::new(self.line.finish()),
            Arc::new(self.timestamp.finish().with_timezone("UTC")),
            Arc::new(self.key.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.headers.finish()),
            Arc::new(self.sink.finish()),
            Arc::new(self.stage.finish()),
            Arc::new(self.error.finish()),
            Arc::new(self.field.finish()),
            Arc::new(self.time.finish().with_timezone("UTC")),
            Arc::new(self.run.finish()),
        ]
    }
}

/// Headers as a JSON array of `[name, value]`; a value that is not UTF-8 is shown with replacement characters.
fn headers(records: &Records, i: usize) -> Option<String> {
    let headers = records.headers.get(i)?;
    let pairs: Vec<serde_json::Value> = headers
        .iter()
        .map(|(name, value)| serde_json::json!([name, value.as_ref().map(|v| String::from_utf8_lossy(v).into_owned())]))
        .collect();
    Some(serde_json::Value::Array(pairs).to_string())
}
