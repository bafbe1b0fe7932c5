//! The event-time watermark of a sink: the largest value of a column, less an allowed lateness.

use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::max;
use arrow::datatypes::{DataType, Date32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType};

use crate::error::{Error, Result};

/// How a watermark is made.
#[derive(Clone, Debug)]
pub struct Watermark {
    column: String,
    lateness_ms: i64,
}

impl Watermark {
    /// Of a TIMESTAMP, DATE or BIGINT (milliseconds) column.
    pub fn new(column: &str, lateness: Duration, data_type: &crate::schema::DataType) -> Result<Self> {
        use crate::schema::DataType as T;
        match data_type {
            T::Timestamp(_) | T::TimestampLtz(_) | T::Date | T::BigInt => {
                Ok(Watermark { column: column.to_owned(), lateness_ms: i64::try_from(lateness.as_millis()).unwrap_or(i64::MAX) })
            }
            other => Err(Error::invalid(format!("a watermark cannot be made of column `{column}`, which is {other}"))
                .hint("name a TIMESTAMP, DATE or BIGINT (milliseconds) column")),
        }
    }

    /// Milliseconds since 1970-01-01 UTC; none when every value is null.
    pub(crate) fn of(&self, batch: &RecordBatch) -> Result<Option<i64>> {
        let column = batch
            .column_by_name(&self.column)
            .ok_or_else(|| Error::internal(format!("the watermark's column `{}` is not in the batch", self.column)))?;
        let largest = match column.data_type() {
            DataType::Timestamp(TimeUnit::Millisecond, _) => max(column.as_primitive::<TimestampMillisecondType>()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                max(column.as_primitive::<TimestampMicrosecondType>()).map(|us| us.div_euclid(1000))
            }
            DataType::Date32 => max(column.as_primitive::<Date32Type>()).map(|days| i64::from(days) * 86_400_000),
            _ => max(column.as_primitive_opt::<Int64Type>().ok_or_else(|| Error::internal("no watermark of this type"))?),
        };
        Ok(largest.map(|ms| ms.saturating_sub(self.lateness_ms)))
    }
}
