//! Rows of Arrow batches as output values.

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};
use arrow::util::display::array_value_to_string;
use chrono::{DateTime, NaiveDate, Timelike as _};

use crate::cli::output::Value;
use crate::schema::{DataType, Schema, unit_digits};

/// A batch of which single rows are taken.
pub(crate) struct Cells<'a> {
    batch: &'a RecordBatch,
    /// What each column is in its table, where that is known.
    types: Vec<Option<&'a DataType>>,
}

impl<'a> Cells<'a> {
    /// Of this batch; the columns are those of `schema` that have their names. Times have as many digits as their types say.
    pub(crate) fn new(batch: &'a RecordBatch, schema: &'a Schema) -> Cells<'a> {
        let types = batch.schema_ref().fields().iter().map(|f| schema.field(f.name()).map(|f| &f.data_type)).collect();
        Cells { batch, types }
    }
    /// Of a batch of which only the Arrow types are known.
    pub(crate) fn untyped(batch: &'a RecordBatch) -> Cells<'a> {
        Cells { batch, types: vec![None; batch.num_columns()] }
    }
    /// The names of the columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.batch.schema_ref().fields().iter().map(|f| f.name().as_str())
    }
    /// The values of row `i`, which there must be.
    pub(crate) fn row(&self, i: usize) -> Vec<Value> {
        let cell = |(array, data_type): (&ArrayRef, &Option<&DataType>)| match value(array, *data_type, i) {
            nested @ (Value::List(_) | Value::Map(_)) => Value::Json(Box::new(nested)),
            plain => plain,
        };
        self.batch.columns().iter().zip(&self.types).map(cell).collect()
    }
}

/// One value. `data_type` is none where only the Arrow type is known.
fn value(array: &dyn Array, data_type: Option<&DataType>, i: usize) -> Value {
    if array.is_null(i) {
        return Value::Null;
    }
    match array.data_type() {
        ArrowType::Boolean => Value::Bool(array.as_boolean().value(i)),
        ArrowType::Int8 => Value::Int(array.as_primitive::<Int8Type>().value(i).into()),
        ArrowType::Int16 => Value::Int(array.as_primitive::<Int16Type>().value(i).into()),
        ArrowType::Int32 => Value::Int(array.as_primitive::<Int32Type>().value(i).into()),
        ArrowType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(i)),
        ArrowType::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(i)),
        ArrowType::Float64 => Value::Double(array.as_primitive::<Float64Type>().value(i)),
        ArrowType::Decimal128(_, _) => Value::Text(array.as_primitive::<Decimal128Type>().value_as_string(i)),
        ArrowType::Utf8 => Value::text(array.as_string::<i32>().value(i)),
        ArrowType::Binary => Value::Hex(array.as_binary::<i32>().value(i).to_vec()),
        ArrowType::Date32 => date(array.as_primitive::<Date32Type>().value(i)),
        ArrowType::Time32(TimeUnit::Millisecond) => time(array.as_primitive::<Time32MillisecondType>().value(i), digits(data_type)),
        ArrowType::Timestamp(unit, zone) => {
            let (number, time) = match unit {
                TimeUnit::Millisecond => {
                    let ms = array.as_primitive::<TimestampMillisecondType>().value(i);
                    (ms, DateTime::from_timestamp_millis(ms))
                }
                TimeUnit::Microsecond => {
                    let us = array.as_primitive::<TimestampMicrosecondType>().value(i);
                    (us, DateTime::from_timestamp_micros(us))
                }
                TimeUnit::Nanosecond => {
                    let ns = array.as_primitive::<TimestampNanosecondType>().value(i);
                    (ns, Some(DateTime::from_timestamp_nanos(ns)))
                }
                TimeUnit::Second => return other(array, i),
            };
            timestamp(time, digits(data_type), unit_digits(*unit), zone.is_some(), number)
        }
        ArrowType::List(_) | ArrowType::Map(..) | ArrowType::Struct(_) => nested(array, data_type, i),
        _ => other(array, i),
    }
}

fn other(array: &dyn Array, i: usize) -> Value {
    array_value_to_string(array, i).map_or(Value::Null, Value::Text)
}

fn nested(array: &dyn Array, data_type: Option<&DataType>, i: usize) -> Value {
    if let Some(list) = array.as_list_opt::<i32>() {
        let element = match data_type {
            Some(DataType::Array(item)) => Some(&item.data_type),
            _ => None,
        };
        let values = list.value(i);
        return Value::List((0..values.len()).map(|i| value(&values, element, i)).collect());
    }
    if let Some(row) = array.as_struct_opt() {
        let fields = match data_type {
            Some(DataType::Row(fields)) => fields.as_slice(),
            _ => &[],
        };
        let columns = row.column_names().into_iter().zip(row.columns());
        let field = |name: &str| fields.iter().find(|f| f.name == name).map(|f| &f.data_type);
        return Value::Map(columns.map(|(name, column)| (name.to_owned(), value(column, field(name), i))).collect());
    }
    let Some(map) = array.as_map_opt() else { return other(array, i) };
    let (key, inner) = match data_type {
        Some(DataType::Map(key, value)) => (Some(&key.data_type), Some(&value.data_type)),
        Some(DataType::Multiset(key)) => (Some(&key.data_type), None),
        _ => (None, None),
    };
    let entries = map.value(i);
    let (keys, values) = (entries.column(0), entries.column(1));
    let pairs = (0..entries.len()).map(|i| (value(keys, key, i), value(values, inner, i)));
    // What is no text cannot be a key in JSON; `ingest` reads both forms.
    match keys.data_type().is_nested() {
        true => Value::List(pairs.map(|(k, v)| Value::Map(vec![("key".to_owned(), k), ("value".to_owned(), v)])).collect()),
        false => Value::Map(pairs.map(|(k, v)| (k.key(), v)).collect()),
    }
}

/// How many digits the type says that a second has.
fn digits(data_type: Option<&DataType>) -> Option<u8> {
    match data_type {
        Some(DataType::Time(p) | DataType::Timestamp(p) | DataType::TimestampLtz(p)) => Some(*p),
        _ => None,
    }
}

/// The number itself where the calendar ends.
fn date(days: i32) -> Value {
    match NaiveDate::from_epoch_days(days) {
        Some(date) => Value::Text(date.format("%Y-%m-%d").to_string()),
        None => Value::Int(days.into()),
    }
}

/// A fraction of a second with so many digits, and more when these would not tell all.
fn fraction(nanos: u32, digits: Option<u8>, most: u8) -> String {
    let most = usize::from(most.max(digits.unwrap_or(0)));
    let all = format!("{nanos:09}");
    let needed = all.trim_end_matches('0').len();
    let shown = digits.map_or(most, usize::from).max(needed).min(9);
    if shown == 0 { String::new() } else { format!(".{}", &all[..shown]) }
}

/// The number itself where the day ends.
fn time(ms: i32, digits: Option<u8>) -> Value {
    let parts = u32::try_from(ms).ok().filter(|ms| *ms < 86_400_000);
    match parts {
        Some(ms) => {
            let (s, f) = (ms / 1000, fraction(ms % 1000 * 1_000_000, digits, 3));
            Value::Text(format!("{:02}:{:02}:{:02}{f}", s / 3600, s / 60 % 60, s % 60))
        }
        None => Value::Int(ms.into()),
    }
}

/// The number itself where the calendar ends.
fn timestamp(time: Option<DateTime<chrono::Utc>>, digits: Option<u8>, most: u8, instant: bool, number: i64) -> Value {
    match time {
        Some(time) => {
            let (f, zone) = (fraction(time.nanosecond(), digits, most), if instant { "Z" } else { "" });
            Value::Text(format!("{}{f}{zone}", time.format("%Y-%m-%dT%H:%M:%S")))
        }
        None => Value::Int(number),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int64Array, StringArray,
        Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
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
        let schema = Schema { id: 0, fields: vec![], partition_by: vec![] };
        let cells = Cells::new(&batch, &schema);
        let shown: Vec<String> = cells.row(0).iter().map(|v| serde_json::to_string(v).unwrap()).collect();
        assert_eq!(shown, wanted);
        assert!(cells.row(1).iter().all(|v| *v == Value::Null));
        assert_eq!(cells.names().collect::<Vec<_>>()[..2], ["b", "i8"]);
    }

    #[test]
    fn what_no_calendar_holds_is_the_number() {
        assert_eq!(date(i32::MAX), Value::Int(i32::MAX.into()));
        assert_eq!(timestamp(DateTime::from_timestamp_micros(i64::MIN), None, 6, false, i64::MIN), Value::Int(i64::MIN));
    }

    #[test]
    fn nested_values_are_json_and_times_have_the_digits_of_their_types() {
        use crate::datafile::random::{self, Dice};
        let field = |name: &str, text: &str| crate::schema::Field::parse(0, name, text).unwrap();
        let columns: Vec<(&str, ArrayRef, &str)> = vec![
            ("TIME(0)", Arc::new(Time32MillisecondArray::from(vec![3_600_000, 86_399_999])), r#""01:00:00" "23:59:59.999""#),
            ("TIME(3)", Arc::new(Time32MillisecondArray::from(vec![1, -1])), r#""00:00:00.001" -1"#),
            (
                "TIMESTAMP(0)",
                Arc::new(TimestampMillisecondArray::from(vec![-1000, -1])),
                r#""1969-12-31T23:59:59" "1969-12-31T23:59:59.999""#,
            ),
            (
                "TIMESTAMP(5)",
                Arc::new(TimestampMicrosecondArray::from(vec![10, 1])),
                r#""1970-01-01T00:00:00.00001" "1970-01-01T00:00:00.000001""#,
            ),
            (
                "TIMESTAMP(9) WITH LOCAL TIME ZONE",
                Arc::new(TimestampNanosecondArray::from(vec![0, i64::MAX]).with_timezone("UTC")),
                r#""1970-01-01T00:00:00.000000000Z" "2262-04-11T23:47:16.854775807Z""#,
            ),
        ];
        let shown = |schema: &Schema, batch: &RecordBatch| -> Vec<String> {
            let cells = Cells::new(batch, schema);
            let text = |row: Vec<Value>| row.iter().map(|v| serde_json::to_string(v).unwrap()).collect::<Vec<_>>().join(" ");
            (0..batch.num_rows()).map(|i| text(cells.row(i))).collect()
        };
        for (text, array, wanted) in columns {
            let schema = Schema { id: 0, fields: vec![field("c", text)], partition_by: vec![] };
            let batch = RecordBatch::try_new(schema.to_arrow(), vec![array]).unwrap();
            assert_eq!(shown(&schema, &batch).join(" "), wanted, "{text}");
        }
        let text = "ROW<a ARRAY<INT>, m MAP<DATE, TIME(0)>, s MULTISET<STRING>, k MAP<ROW<x INT>, BYTES>>";
        let schema = Schema { id: 0, fields: vec![field("r", text)], partition_by: vec![] };
        // Any values will do: what they are is in the array, and is put into words by another hand here.
        let array = random::array(&schema.fields[0].data_type, false, 20, &mut Dice(7));
        let batch = RecordBatch::try_new(schema.to_arrow(), vec![array.clone()]).unwrap();
        for (i, line) in shown(&schema, &batch).iter().enumerate() {
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            let row = array.as_struct();
            for (name, column) in row.column_names().into_iter().zip(row.columns()) {
                let length = match column.is_null(i) {
                    true => None,
                    false => Some(column.as_list_opt::<i32>().map_or_else(|| column.as_map().value(i).len(), |l| l.value(i).len())),
                };
                let got = &json[name];
                assert_eq!(got.as_array().map(Vec::len).or_else(|| got.as_object().map(serde_json::Map::len)), length, "{line}: {name}");
            }
        }
        let nested = Value::Json(Box::new(Value::List(vec![Value::Int(1), Value::Null, Value::text("a,b")])));
        assert_eq!(serde_json::to_string(&nested).unwrap(), r#"[1,null,"a,b"]"#);
    }
}
