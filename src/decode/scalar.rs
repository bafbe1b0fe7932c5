//! One cell of an Arrow column, as a value and as bytes that are equal when the cells are.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes as t;
use arrow::datatypes::{DataType as A, TimeUnit};

use crate::error::{Error, Result};
use crate::schema::Scalar;

/// Cell `row`; none when it is null.
pub(super) fn scalar(array: &ArrayRef, row: usize) -> Result<Option<Scalar>> {
    if array.is_null(row) {
        return Ok(None);
    }
    Ok(Some(match array.data_type() {
        A::Boolean => Scalar::Bool(array.as_boolean().value(row)),
        A::Int8 => Scalar::Int(array.as_primitive::<t::Int8Type>().value(row).into()),
        A::Int16 => Scalar::Int(array.as_primitive::<t::Int16Type>().value(row).into()),
        A::Int32 => Scalar::Int(array.as_primitive::<t::Int32Type>().value(row).into()),
        A::Int64 => Scalar::Int(array.as_primitive::<t::Int64Type>().value(row)),
        A::Float32 => Scalar::Float(array.as_primitive::<t::Float32Type>().value(row)),
        A::Float64 => Scalar::Double(array.as_primitive::<t::Float64Type>().value(row)),
        A::Decimal128(..) => Scalar::Decimal(array.as_primitive::<t::Decimal128Type>().value(row)),
        A::Utf8 => Scalar::String(array.as_string::<i32>().value(row).to_owned()),
        A::Binary => Scalar::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        A::Date32 => Scalar::Date(array.as_primitive::<t::Date32Type>().value(row)),
        A::Timestamp(TimeUnit::Millisecond, _) => Scalar::Timestamp(array.as_primitive::<t::TimestampMillisecondType>().value(row) * 1000),
        A::Timestamp(TimeUnit::Microsecond, _) => Scalar::Timestamp(array.as_primitive::<t::TimestampMicrosecondType>().value(row)),
        A::Timestamp(TimeUnit::Nanosecond, _) => Scalar::TimestampNanos(array.as_primitive::<t::TimestampNanosecondType>().value(row)),
        A::Time32(TimeUnit::Millisecond) => Scalar::Time(array.as_primitive::<t::Time32MillisecondType>().value(row)),
        other => return Err(Error::internal(format!("a column of {other}"))),
    }))
}

/// Appends bytes that stand for cell `row` and are not the beginning of any other cell's.
pub(super) fn key(array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<()> {
    if array.is_null(row) {
        out.push(0);
        return Ok(());
    }
    out.push(1);
    let mut sized = |bytes: &[u8]| {
        out.extend_from_slice(&bytes.len().to_le_bytes());
        out.extend_from_slice(bytes);
    };
    match array.data_type() {
        A::Utf8 => sized(array.as_string::<i32>().value(row).as_bytes()),
        A::Binary => sized(array.as_binary::<i32>().value(row)),
        _ => match scalar(array, row)? {
            Some(Scalar::Bool(v)) => out.push(v.into()),
            Some(Scalar::Int(v) | Scalar::Timestamp(v) | Scalar::TimestampNanos(v)) => out.extend_from_slice(&v.to_le_bytes()),
            Some(Scalar::Date(v) | Scalar::Time(v)) => out.extend_from_slice(&v.to_le_bytes()),
            Some(Scalar::Float(v)) => out.extend_from_slice(&v.to_bits().to_le_bytes()),
            Some(Scalar::Double(v)) => out.extend_from_slice(&v.to_bits().to_le_bytes()),
            Some(Scalar::Decimal(v)) => out.extend_from_slice(&v.to_le_bytes()),
            other => return Err(Error::internal(format!("a partition value {other:?}"))),
        },
    }
    Ok(())
}
