//! Rows of Arrow batches as output values.

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::{DateTime, NaiveDate};

use crate::cli::output::Value;
use crate::error::{Error, Result};

/// A batch of which single rows are taken.
pub(crate) struct Cells<'a> {
    batch: &'a RecordBatch,
    columns: Vec<Column<'a>>,
}

enum Column<'a> {
    Boolean(&'a ArrayRef),
    TinyInt(&'a ArrayRef),
    SmallInt(&'a ArrayRef),
    Int(&'a ArrayRef),
    BigInt(&'a ArrayRef),
    Float(&'a ArrayRef),
    Double(&'a ArrayRef),
    Decimal(&'a ArrayRef),
    String(&'a ArrayRef),
    Bytes(&'a ArrayRef),
    Date(&'a ArrayRef),
    /// Is it an instant?
    Millis(&'a ArrayRef, bool),
    Micros(&'a ArrayRef, bool),
    Other(&'a ArrayRef, Box<ArrayFormatter<'a>>),
}

impl<'a> Cells<'a> {
    /// Of this batch.
    pub(crate) fn new(batch: &'a RecordBatch) -> Result<Cells<'a>> {
        let columns = batch.columns().iter().map(Column::of).collect::<Result<Vec<_>>>()?;
        Ok(Cells { batch, columns })
    }
    /// The names of the columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.batch.schema_ref().fields().iter().map(|f| f.name().as_str())
    }
    /// The values of row `i`, which there must be.
    pub(crate) fn row(&self, i: usize) -> Vec<Value> {
        self.columns.iter().map(|c| c.value(i)).collect()
    }
}

impl<'a> Column<'a> {
    fn of(array: &'a ArrayRef) -> Result<Column<'a>> {
        Ok(match array.data_type() {
            DataType::Boolean => Column::Boolean(array),
            DataType::Int8 => Column::TinyInt(array),
            DataType::Int16 => Column::SmallInt(array),
            DataType::Int32 => Column::Int(array),
            DataType::Int64 => Column::BigInt(array),
            DataType::Float32 => Column::Float(array),
            DataType::Float64 => Column::Double(array),
            DataType::Decimal128(_, _) => Column::Decimal(array),
            DataType::Utf8 => Column::String(array),
            DataType::Binary => Column::Bytes(array),
            DataType::Date32 => Column::Date(array),
            DataType::Timestamp(TimeUnit::Millisecond, zone) => Column::Millis(array, zone.is_some()),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => Column::Micros(array, zone.is_some()),
            other => {
                const OPTIONS: FormatOptions<'_> = FormatOptions::new();
                let formatter = ArrayFormatter::try_new(array, &OPTIONS)
                    .map_err(|e| Error::invalid(format!("values of type {other} cannot be shown")).because(e))?;
                Column::Other(array, Box::new(formatter))
            }
        })
    }

    fn array(&self) -> &'a ArrayRef {
        match self {
            Column::Boolean(a) | Column::TinyInt(a) | Column::SmallInt(a) | Column::Int(a) | Column::BigInt(a) => a,
            Column::Float(a) | Column::Double(a) | Column::Decimal(a) | Column::String(a) | Column::Bytes(a) | Column::Date(a) => a,
            Column::Millis(a, _) | Column::Micros(a, _) | Column::Other(a, _) => a,
        }
    }

    fn value(&self, i: usize) -> Value {
        if self.array().is_null(i) {
            return Value::Null;
        }
        match self {
            Column::Boolean(a) => Value::Bool(a.as_boolean().value(i)),
            Column::TinyInt(a) => Value::Int(a.as_primitive::<Int8Type>().value(i).into()),
            Column::SmallInt(a) => Value::Int(a.as_primitive::<Int16Type>().value(i).into()),
            Column::Int(a) => Value::Int(a.as_primitive::<Int32Type>().value(i).into()),
            Column::BigInt(a) => Value::Int(a.as_primitive::<Int64Type>().value(i)),
            Column::Float(a) => Value::Float(a.as_primitive::<Float32Type>().value(i)),
            Column::Double(a) => Value::Double(a.as_primitive::<Float64Type>().value(i)),
            Column::Decimal(a) => Value::Text(a.as_primitive::<Decimal128Type>().value_as_string(i)),
            Column::String(a) => Value::text(a.as_string::<i32>().value(i)),
            Column::Bytes(a) => Value::Hex(a.as_binary::<i32>().value(i).to_vec()),
            Column::Date(a) => date(a.as_primitive::<Date32Type>().value(i)),
            Column::Millis(a, instant) => {
                let ms = a.as_primitive::<TimestampMillisecondType>().value(i);
                timestamp(DateTime::from_timestamp_millis(ms), "%Y-%m-%dT%H:%M:%S%.3f", *instant, ms)
            }
            Column::Micros(a, instant) => {
                let us = a.as_primitive::<TimestampMicrosecondType>().value(i);
                timestamp(DateTime::from_timestamp_micros(us), "%Y-%m-%dT%H:%M:%S%.6f", *instant, us)
            }
            Column::Other(_, formatter) => Value::Text(formatter.value(i).to_string()),
        }
    }
}

/// The number itself where the calendar ends.
fn date(days: i32) -> Value {
    match NaiveDate::from_epoch_days(days) {
        Some(date) => Value::Text(date.format("%Y-%m-%d").to_string()),
        None => Value::Int(days.into()),
    }
}

/// The number itself where the calendar ends.
fn timestamp(time: Option<DateTime<chrono::Utc>>, format: &str, instant: bool, number: i64) -> Value {
    match time {
        Some(time) => Value::Text(format!("{}{}", time.format(format), if instant { "Z" } else { "" })),
        None => Value::Int(number),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array, StringArray,
        TimestampMicrosecondArray, TimestampMillisecondArray,
    };

    use super::*;

    #[test]
    fn every_type_is_shown_exactly_and_null_is_null() {
        let columns: Vec<(&str, ArrayRef, &str)> = vec![
            ("b", Arc::new(BooleanArray::from(vec![Some(true), None])), "true"),
            ("i8", Arc::new(Int8Array::from(vec![Some(-128), None])), "-128"),
            ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), None])), "-9223372036854775808"),
            ("f32", Arc::new(Float32Array::from(vec![Some(0.1), None])), "0.1"),
            ("f64", Arc::new(Float64Array::from(vec![Some(1e300), None])), "1e+300"),
            ("dec", Arc::new(Decimal128Array::from(vec![Some(-5), None]).with_precision_and_scale(10, 2).unwrap()), "\"-0.05\""),
            ("s", Arc::new(StringArray::from(vec![Some("é\n"), None])), "\"é\\n\""),
            ("bin", Arc::new(BinaryArray::from_opt_vec(vec![Some(&[0u8, 255]), None])), "\"00ff\""),
            ("d", Arc::new(Date32Array::from(vec![Some(-1), None])), "\"1969-12-31\""),
            ("ms", Arc::new(TimestampMillisecondArray::from(vec![Some(-1), None])), "\"1969-12-31T23:59:59.999\""),
            (
                "us",
                Arc::new(TimestampMicrosecondArray::from(vec![Some(1_000_001), None]).with_timezone("UTC")),
                "\"1970-01-01T00:00:01.000001Z\"",
            ),
        ];
        let wanted: Vec<&str> = columns.iter().map(|(_, _, text)| *text).collect();
        let batch = RecordBatch::try_from_iter(columns.iter().map(|(name, array, _)| (*name, array.clone()))).unwrap();
        let cells = Cells::new(&batch).unwrap();
        let shown: Vec<String> = cells.row(0).iter().map(|v| serde_json::to_string(v).unwrap()).collect();
        assert_eq!(shown, wanted);
        assert!(cells.row(1).iter().all(|v| *v == Value::Null));
        assert_eq!(cells.names().collect::<Vec<_>>()[..2], ["b", "i8"]);
    }

    #[test]
    fn what_no_calendar_holds_is_the_number() {
        assert_eq!(date(i32::MAX), Value::Int(i32::MAX.into()));
        assert_eq!(timestamp(DateTime::from_timestamp_micros(i64::MIN), "%Y", false, i64::MIN), Value::Int(i64::MIN));
    }
}
