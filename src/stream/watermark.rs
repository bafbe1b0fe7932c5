//! The event-time watermark of a sink: the largest value of a column, less an allowed lateness.

use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::max;
use arrow::datatypes::{
    DataType, Date32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};

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
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                max(column.as_primitive::<TimestampNanosecondType>()).map(|ns| ns.div_euclid(1_000_000))
            }
            DataType::Date32 => max(column.as_primitive::<Date32Type>()).map(|days| i64::from(days) * 86_400_000),
            _ => max(column.as_primitive_opt::<Int64Type>().ok_or_else(|| Error::internal("no watermark of this type"))?),
        };
        Ok(largest.map(|ms| ms.saturating_sub(self.lateness_ms)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, TimestampMicrosecondArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn what_is_finer_than_a_millisecond_is_cut_off_towards_the_past() {
        let columns: [(&str, ArrayRef); 2] = [
            ("TIMESTAMP(9)", Arc::new(TimestampNanosecondArray::from(vec![Some(-7_000_000), Some(-1), None]))),
            ("TIMESTAMP(6)", Arc::new(TimestampMicrosecondArray::from(vec![Some(-7_000), Some(-1), None]))),
        ];
        for (text, array) in columns {
            let (data_type, _) = crate::schema::DataType::parse(text).unwrap();
            let watermark = Watermark::new("ts", Duration::from_millis(10), &data_type).unwrap();
            let batch = RecordBatch::try_from_iter([("ts", array)]).unwrap();
            assert_eq!(watermark.of(&batch).unwrap(), Some(-11), "{text}");
        }
    }
}
