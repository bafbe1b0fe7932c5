//! Values of Arrow arrays, as the casts and the dead letters want them: [`Value`]s, and JSON that this crate reads back as the same values.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use std::fmt::Write as _;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType as A, Date32Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::cast::Value;
use crate::text::time::civil;

/// Value `row`; what has to be written out is written to `scratch`.
pub(super) fn value<'s>(array: &'s dyn Array, row: usize, scratch: &'s mut Vec<u8>) -> Value<'s> {
    if array.is_null(row) {
        return Value::Null;
    }
    scratch.clear();
    match array.data_type() {
        A::Null => Value::Null,
        A::Boolean => Value::Bool(array.as_boolean().value(row)),
        A::Int8 => Value::Int(array.as_primitive::<Int8Type>().value(row).into()),
        A::Int16 => Value::Int(array.as_primitive::<Int16Type>().value(row).into()),
        A::Int32 => Value::Int(array.as_primitive::<Int32Type>().value(row).into()),
        A::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(row)),
        A::UInt8 => Value::Int(array.as_primitive::<UInt8Type>().value(row).into()),
        A::UInt16 => Value::Int(array.as_primitive::<UInt16Type>().value(row).into()),
        A::UInt32 => Value::Int(array.as_primitive::<UInt32Type>().value(row).into()),
        A::UInt64 => number(scratch, array.as_primitive::<UInt64Type>().value(row)),
        A::Float16 => real(scratch, f64::from(array.as_primitive::<Float16Type>().value(row)), None),
        A::Float32 => {
            let v = array.as_primitive::<Float32Type>().value(row);
            real(scratch, v.into(), Some(v))
        }
        A::Float64 => real(scratch, array.as_primitive::<Float64Type>().value(row), None),
        A::Decimal128(..) => number(scratch, array.as_primitive::<arrow::datatypes::Decimal128Type>().value_as_string(row)),
        A::Decimal256(..) => number(scratch, array.as_primitive::<arrow::datatypes::Decimal256Type>().value_as_string(row)),
        A::Utf8 => Value::Text(array.as_string::<i32>().value(row).as_bytes()),
        A::LargeUtf8 => Value::Text(array.as_string::<i64>().value(row).as_bytes()),
        A::Binary => Value::Bytes(array.as_binary::<i32>().value(row)),
        A::LargeBinary => Value::Bytes(array.as_binary::<i64>().value(row)),
        A::FixedSizeBinary(_) => Value::Bytes(array.as_fixed_size_binary().value(row)),
        A::Date32 => text(scratch, date(array.as_primitive::<Date32Type>().value(row))),
        A::Time32(TimeUnit::Second) => text(scratch, clock(array.as_primitive::<Time32SecondType>().value(row).into(), 0)),
        A::Time32(_) => text(scratch, clock(array.as_primitive::<Time32MillisecondType>().value(row).into(), 3)),
        A::Time64(TimeUnit::Microsecond) => text(scratch, clock(array.as_primitive::<Time64MicrosecondType>().value(row), 6)),
        A::Time64(_) => text(scratch, clock(array.as_primitive::<Time64NanosecondType>().value(row), 9)),
        A::Timestamp(unit, zone) => {
            let (v, digits) = match unit {
                TimeUnit::Second => (array.as_primitive::<TimestampSecondType>().value(row), 0),
                TimeUnit::Millisecond => (array.as_primitive::<TimestampMillisecondType>().value(row), 3),
                TimeUnit::Microsecond => (array.as_primitive::<TimestampMicrosecondType>().value(row), 6),
                TimeUnit::Nanosecond => (array.as_primitive::<TimestampNanosecondType>().value(row), 9),
            };
            match moment(v, digits) {
                Some(shown) => text(scratch, if zone.is_some() { shown + "Z" } else { shown }),
                None => number(scratch, v),
            }
        }
        A::List(_) | A::LargeList(_) | A::FixedSizeList(..) | A::Struct(_) | A::Map(..) => {
            json(array, row, scratch);
            Value::Json(scratch)
        }
        _ => {
            let shown = ArrayFormatter::try_new(array, &FormatOptions::default()).map(|f| f.value(row).to_string());
            text(scratch, shown.unwrap_or_default())
        }
    }
}

fn number(scratch: &mut Vec<u8>, n: impl std::fmt::Display) -> Value<'_> {
    scratch.extend_from_slice(n.to_string().as_bytes());
    Value::Number(scratch)
}

fn text(scratch: &mut Vec<u8>, text: String) -> Value<'_> {
    *scratch = text.into_bytes();
    Value::Text(scratch)
}

/// The shortest text that reads back as the same number.
fn real(scratch: &mut Vec<u8>, v: f64, single: Option<f32>) -> Value<'_> {
    if v.is_nan() {
        return text(scratch, "NaN".to_owned());
    }
    if v.is_infinite() {
        return text(scratch, if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned());
    }
    let shown = match single {
        Some(v) => serde_json::to_string(&v),
        None => serde_json::to_string(&v),
    };
    scratch.extend_from_slice(shown.unwrap_or_default().as_bytes());
    Value::Number(scratch)
}

fn date(days: i32) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A time of day in 10^-digits seconds.
fn clock(v: i64, digits: u32) -> String {
    let one = 10_i64.pow(digits);
    let (seconds, fraction) = (v.div_euclid(one), v.rem_euclid(one));
    let mut out = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        let _ = write!(out, ".{fraction:0width$}", width = digits as usize);
    }
    out
}

/// `YYYY-MM-DDTHH:MM:SS[.f]`; none for a moment that no calendar reaches.
fn moment(v: i64, digits: u32) -> Option<String> {
    let day = 86_400 * 10_i64.pow(digits);
    let days = i32::try_from(v.div_euclid(day)).ok().filter(|d| d.abs() < 10_000_000)?;
    Some(format!("{}T{}", date(days), clock(v.rem_euclid(day), digits)))
}

/// Appends value `row` as JSON: bytes in base64, decimals as they are written, a map as an object.
pub(super) fn json(array: &dyn Array, row: usize, out: &mut Vec<u8>) {
    if array.is_null(row) {
        out.extend_from_slice(b"null");
        return;
    }
    match array.data_type() {
        A::List(_) => list(&array.as_list::<i32>().value(row), out),
        A::LargeList(_) => list(&array.as_list::<i64>().value(row), out),
        A::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row), out),
        A::Struct(fields) => {
            let columns = array.as_struct().columns();
            object(fields.iter().map(|f| f.name().as_bytes().to_vec()).zip(columns.iter().map(|c| (c.as_ref(), row))), out);
        }
        A::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let key = |i: usize| {
                let mut scratch = Vec::new();
                match value(keys, i, &mut scratch) {
                    Value::Text(text) | Value::Number(text) | Value::Json(text) => text.to_vec(),
                    Value::Int(n) | Value::Millis(n) => n.to_string().into_bytes(),
                    Value::Bool(b) => b.to_string().into_bytes(),
                    Value::Bytes(bytes) => BASE64.encode(bytes).into_bytes(),
                    _ => b"null".to_vec(),
                }
            };
            object((0..entries.len()).map(|i| (key(i), (values.as_ref(), i))), out);
        }
        _ => {
            let mut scratch = Vec::new();
            match value(array, row, &mut scratch) {
                Value::Bool(b) => out.extend_from_slice(b.to_string().as_bytes()),
                Value::Int(n) | Value::Millis(n) => out.extend_from_slice(n.to_string().as_bytes()),
                Value::Number(text) | Value::Json(text) => out.extend_from_slice(text),
                Value::Text(text) => quoted(text, out),
                Value::Bytes(bytes) => {
                    out.push(b'"');
                    out.extend_from_slice(BASE64.encode(bytes).as_bytes());
                    out.push(b'"');
                }
                _ => out.extend_from_slice(b"null"),
            }
        }
    }
}

fn list(values: &dyn Array, out: &mut Vec<u8>) {
    out.push(b'[');
    for i in 0..values.len() {
        if i > 0 {
            out.push(b',');
        }
        json(values, i, out);
    }
    out.push(b']');
}

/// Appends an object of names and values.
pub(super) fn object<'a>(entries: impl Iterator<Item = (Vec<u8>, (&'a dyn Array, usize))>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (name, (array, row))) in entries.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        quoted(&name, out);
        out.push(b':');
        json(array, row, out);
    }
    out.push(b'}');
}

fn quoted(text: &[u8], out: &mut Vec<u8>) {
    let shown = serde_json::to_string(&String::from_utf8_lossy(text)).unwrap_or_default();
    out.extend_from_slice(shown.as_bytes());
}
