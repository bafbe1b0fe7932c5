//! The values of a type that is not made of others, on their way to an Arrow array: plain vectors, and how each value is converted.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringArray, Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType as A, TimeUnit};

use super::cast::{self, Cast, Length, Value};
use super::mapping::Unit;
use crate::error::{Error, Result};
use crate::schema::DataType;

enum Data {
    Bool(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal(Vec<i128>),
    Text(Vec<u8>, Vec<i32>),
    Bytes(Vec<u8>, Vec<i32>),
    Date(Vec<i32>),
    Time(Vec<i32>),
    Timestamp(Vec<i64>),
}

/// Values of one type.
pub(super) struct Leaf {
    pub(super) data_type: DataType,
    unit: Option<Unit>,
    data: Data,
    scratch: Vec<u8>,
}

/// Where values come from: a block of cells, or one value.
pub(super) trait Feed {
    /// Values of a fixed width.
    fn each<T: Default>(&mut self, convert: impl Fn(Value<'_>) -> Cast<T>, push: impl FnMut(T));
    /// Texts and bytes; `convert` appends to the buffer.
    fn run(&mut self, convert: impl FnMut(Value<'_>, &mut Vec<u8>) -> Cast<()>, out: &mut Vec<u8>, ends: &mut Vec<i32>);
}

impl Leaf {
    pub(super) fn new(data_type: &DataType, unit: Option<Unit>) -> Self {
        let data = match data_type {
            DataType::Boolean => Data::Bool(BooleanBufferBuilder::new(0)),
            DataType::TinyInt => Data::Int8(Vec::new()),
            DataType::SmallInt => Data::Int16(Vec::new()),
            DataType::Int => Data::Int32(Vec::new()),
            DataType::BigInt => Data::Int64(Vec::new()),
            DataType::Float => Data::Float(Vec::new()),
            DataType::Double => Data::Double(Vec::new()),
            DataType::Decimal { .. } => Data::Decimal(Vec::new()),
            DataType::Char(_) | DataType::VarChar(_) | DataType::String => Data::Text(Vec::new(), Vec::new()),
            DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => Data::Bytes(Vec::new(), Vec::new()),
            DataType::Date => Data::Date(Vec::new()),
            DataType::Time(_) => Data::Time(Vec::new()),
            DataType::Timestamp(_) | DataType::TimestampLtz(_) => Data::Timestamp(Vec::new()),
            // Made of leaves, and none itself: nobody asks for one.
            DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) | DataType::Row(_) => Data::Bytes(Vec::new(), Vec::new()),
        };
        Leaf { data_type: data_type.clone(), unit, data, scratch: Vec::new() }
    }

    /// Room for `rows` values; nothing must be in it.
    pub(super) fn start(&mut self, rows: usize) {
        match &mut self.data {
            Data::Bool(v) => v.reserve(rows),
            Data::Int8(v) => v.reserve(rows),
            Data::Int16(v) => v.reserve(rows),
            Data::Int32(v) | Data::Date(v) | Data::Time(v) => v.reserve(rows),
            Data::Int64(v) | Data::Timestamp(v) => v.reserve(rows),
            Data::Float(v) => v.reserve(rows),
            Data::Double(v) => v.reserve(rows),
            Data::Decimal(v) => v.reserve(rows),
            Data::Text(v, ends) | Data::Bytes(v, ends) => {
                v.reserve(rows * 12);
                ends.reserve(rows + 1);
                ends.push(0);
            }
        }
    }

    /// Takes what the feed has.
    #[inline]
    pub(super) fn take(&mut self, feed: &mut impl Feed) {
        let (unit, data_type) = (self.unit, &self.data_type);
        match &mut self.data {
            Data::Bool(out) => feed.each(cast::boolean, |v| out.append(v)),
            Data::Int8(out) => feed.each(|v| whole(v, i8::MIN, i8::MAX), |v| out.push(v)),
            Data::Int16(out) => feed.each(|v| whole(v, i16::MIN, i16::MAX), |v| out.push(v)),
            Data::Int32(out) => feed.each(|v| whole(v, i32::MIN, i32::MAX), |v| out.push(v)),
            Data::Int64(out) => feed.each(|v| cast::integer(v, i64::MIN, i64::MAX), |v| out.push(v)),
            Data::Float(out) => feed.each(cast::real::<f32>, |v| out.push(v)),
            Data::Double(out) => feed.each(cast::real::<f64>, |v| out.push(v)),
            Data::Decimal(out) => {
                let DataType::Decimal { precision, scale } = *data_type else { return };
                feed.each(|v| cast::decimal(v, precision, scale), |v| out.push(v));
            }
            Data::Text(out, ends) => {
                let most = match data_type {
                    DataType::Char(n) | DataType::VarChar(n) => Some(*n),
                    _ => None,
                };
                let number = &mut self.scratch;
                feed.run(
                    |v, out: &mut Vec<u8>| {
                        out.extend_from_slice(cast::text(v, most, number)?);
                        Ok(())
                    },
                    out,
                    ends,
                );
            }
            Data::Bytes(out, ends) => {
                let length = match data_type {
                    DataType::Binary(n) => Length { least: *n, most: *n },
                    DataType::VarBinary(n) => Length { least: 0, most: *n },
                    _ => return feed.run(cast::bytes, out, ends),
                };
                feed.run(|v, out| cast::sized_bytes(v, length, out), out, ends);
            }
            Data::Date(out) => feed.each(|v| cast::date(v, unit), |v| out.push(v)),
            Data::Time(out) => {
                let DataType::Time(precision) = *data_type else { return };
                feed.each(|v| cast::time(v, unit, precision), |v| out.push(v));
            }
            Data::Timestamp(out) => match *data_type {
                DataType::Timestamp(3) | DataType::TimestampLtz(3) => {
                    feed.each(|v| cast::timestamp(v, unit).map(|us| us.div_euclid(1000)), |v| out.push(v));
                }
                DataType::Timestamp(6) | DataType::TimestampLtz(6) => feed.each(|v| cast::timestamp(v, unit), |v| out.push(v)),
                DataType::Timestamp(p @ 0..6) | DataType::TimestampLtz(p @ 0..6) => {
                    let (down, step) = if p < 3 { (1000, 10i64.pow(3 - u32::from(p))) } else { (1, 10i64.pow(6 - u32::from(p))) };
                    let cut = |us: i64| us.div_euclid(down).div_euclid(step) * step;
                    feed.each(|v| cast::timestamp(v, unit).map(cut), |v| out.push(v));
                }
                DataType::Timestamp(p) | DataType::TimestampLtz(p) => {
                    let step = 10i64.pow(u32::from(9u8.saturating_sub(p)));
                    feed.each(|v| cast::timestamp_nanos(v, unit, step), |v| out.push(v));
                }
                _ => {}
            },
        }
    }

    /// Takes back what is behind the first `len` values.
    pub(super) fn truncate(&mut self, len: usize) {
        match &mut self.data {
            Data::Bool(v) => v.truncate(len),
            Data::Int8(v) => v.truncate(len),
            Data::Int16(v) => v.truncate(len),
            Data::Int32(v) | Data::Date(v) | Data::Time(v) => v.truncate(len),
            Data::Int64(v) | Data::Timestamp(v) => v.truncate(len),
            Data::Float(v) => v.truncate(len),
            Data::Double(v) => v.truncate(len),
            Data::Decimal(v) => v.truncate(len),
            Data::Text(v, ends) | Data::Bytes(v, ends) => {
                ends.truncate(len + 1);
                v.truncate(ends.last().and_then(|e| usize::try_from(*e).ok()).unwrap_or(0));
            }
        }
    }

    /// Appends bytes that are the same for equal values, and no others. There must be a value at `at`.
    pub(super) fn print(&self, at: usize, out: &mut Vec<u8>) {
        match &self.data {
            Data::Bool(v) => out.push(v.get_bit(at).into()),
            Data::Int8(v) => out.extend(v[at].to_le_bytes()),
            Data::Int16(v) => out.extend(v[at].to_le_bytes()),
            Data::Int32(v) | Data::Date(v) | Data::Time(v) => out.extend(v[at].to_le_bytes()),
            Data::Int64(v) | Data::Timestamp(v) => out.extend(v[at].to_le_bytes()),
            Data::Float(v) => out.extend(v[at].to_bits().to_le_bytes()),
            Data::Double(v) => out.extend(v[at].to_bits().to_le_bytes()),
            Data::Decimal(v) => out.extend(v[at].to_le_bytes()),
            Data::Text(v, ends) | Data::Bytes(v, ends) => {
                let offset = |i: usize| ends.get(i).and_then(|e| usize::try_from(*e).ok()).unwrap_or(0);
                let text = v.get(offset(at)..offset(at + 1)).unwrap_or_default();
                out.extend(text.len().to_le_bytes());
                out.extend_from_slice(text);
            }
        }
    }

    /// The array of all values; the leaf is empty again.
    pub(super) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        use std::mem::take;
        fn values<T: arrow::datatypes::ArrowNativeType>(v: &mut Vec<T>) -> ScalarBuffer<T> {
            ScalarBuffer::from(take(v))
        }
        let too_long = |_| Error::internal("more than 2 GiB of text in one chunk");
        Ok(match &mut self.data {
            Data::Bool(v) => Arc::new(BooleanArray::new(v.finish(), nulls)),
            Data::Int8(v) => Arc::new(Int8Array::try_new(values(v), nulls)?),
            Data::Int16(v) => Arc::new(Int16Array::try_new(values(v), nulls)?),
            Data::Int32(v) => Arc::new(Int32Array::try_new(values(v), nulls)?),
            Data::Int64(v) => Arc::new(Int64Array::try_new(values(v), nulls)?),
            Data::Float(v) => Arc::new(Float32Array::try_new(values(v), nulls)?),
            Data::Double(v) => Arc::new(Float64Array::try_new(values(v), nulls)?),
            Data::Decimal(v) => Arc::new(Decimal128Array::try_new(values(v), nulls)?.with_data_type(self.data_type.to_arrow())),
            Data::Date(v) => Arc::new(Date32Array::try_new(values(v), nulls)?),
            Data::Time(v) => Arc::new(Time32MillisecondArray::try_new(values(v), nulls)?),
            Data::Text(v, ends) => {
                i32::try_from(v.len()).map_err(too_long)?;
                Arc::new(StringArray::try_new(OffsetBuffer::new(values(ends)), Buffer::from_vec(take(v)), nulls)?)
            }
            Data::Bytes(v, ends) => {
                i32::try_from(v.len()).map_err(too_long)?;
                Arc::new(BinaryArray::try_new(OffsetBuffer::new(values(ends)), Buffer::from_vec(take(v)), nulls)?)
            }
            Data::Timestamp(v) => match self.data_type.to_arrow() {
                A::Timestamp(TimeUnit::Millisecond, zone) => {
                    Arc::new(TimestampMillisecondArray::try_new(values(v), nulls)?.with_timezone_opt(zone))
                }
                A::Timestamp(TimeUnit::Microsecond, zone) => {
                    Arc::new(TimestampMicrosecondArray::try_new(values(v), nulls)?.with_timezone_opt(zone))
                }
                A::Timestamp(TimeUnit::Nanosecond, zone) => {
                    Arc::new(TimestampNanosecondArray::try_new(values(v), nulls)?.with_timezone_opt(zone))
                }
                other => return Err(Error::internal(format!("a timestamp that is {other}"))),
            },
        })
    }
}

fn whole<T: Into<i64> + TryFrom<i64>>(value: Value<'_>, min: T, max: T) -> Cast<T> {
    let n = cast::integer(value, min.into(), max.into())?;
    T::try_from(n).map_err(|_| "is out of range".into())
}
