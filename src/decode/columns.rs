//! Column builders: a block of cells of one column is converted in one loop, appended to plain vectors, and becomes an Arrow array.
//!
//! A cell that cannot be converted leaves a null and a reject behind; its row is filtered out at the end. So a bad record
//! touches no other row, and nothing has to be rolled back.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, NullBufferBuilder, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};

use super::cast::{self, Cast, Value};
use super::mapping::{ColumnMapping, Unit};
use super::{Reject, Stage};
use crate::error::{Error, Result};
use crate::schema::DataType;

/// The cells of one column in one block.
pub(super) trait Cells {
    /// How many.
    fn len(&self) -> usize;
    /// Cell `row`; a text that has escapes is written to `scratch`.
    fn value<'s>(&'s self, row: usize, scratch: &'s mut Vec<u8>) -> Value<'s>;
    /// How cell `row` is shown in a message.
    fn show(&self, row: usize) -> String;
    /// What stands in a message for a cell without a value: `the record has no such key`.
    fn missing(&self, row: usize) -> &'static str;
    /// What is named when a cell fails: a path in the record, `meta: key`.
    fn field(&self) -> &str;
}

/// Which records of a chunk are bad, and why.
#[derive(Default)]
pub(super) struct Bad {
    flags: Vec<bool>,
    pub(super) rejects: Vec<Reject>,
}

impl Bad {
    /// For a chunk of `rows` records, all good so far.
    pub(super) fn of(rows: usize) -> Self {
        Bad { flags: vec![false; rows], rejects: Vec::new() }
    }
    pub(super) fn is(&self, row: usize) -> bool {
        self.flags[row]
    }
    pub(super) fn flags(&self) -> &[bool] {
        &self.flags
    }
    /// Rejects a record; only the first reason is kept.
    pub(super) fn report(&mut self, index: usize, stage: Stage, field: Option<&str>, error: impl FnOnce() -> String) {
        if !std::mem::replace(&mut self.flags[index], true) {
            self.rejects.push(Reject { index, stage, error: error(), field: field.map(str::to_owned) });
        }
    }
}

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
    Timestamp(Vec<i64>),
}

/// A column under construction.
pub(super) struct Column {
    name: String,
    data_type: DataType,
    nullable: bool,
    unit: Option<Unit>,
    data: Data,
    nulls: NullBufferBuilder,
    scratch: Vec<u8>,
}

impl Column {
    pub(super) fn new(mapping: &ColumnMapping) -> Self {
        let data = match mapping.data_type {
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
            DataType::Timestamp(_) | DataType::TimestampLtz(_) => Data::Timestamp(Vec::new()),
            // Refused by the mapping.
            DataType::Time(_) | DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) | DataType::Row(_) => {
                Data::Int32(Vec::new())
            }
        };
        Column {
            name: mapping.name.clone(),
            data_type: mapping.data_type.clone(),
            nullable: mapping.nullable,
            unit: mapping.unit,
            data,
            nulls: NullBufferBuilder::new(0),
            scratch: Vec::new(),
        }
    }

    /// Room for a chunk of `rows` records.
    pub(super) fn start(&mut self, rows: usize) {
        self.nulls = NullBufferBuilder::new(rows);
        match &mut self.data {
            Data::Bool(v) => v.reserve(rows),
            Data::Int8(v) => v.reserve(rows),
            Data::Int16(v) => v.reserve(rows),
            Data::Int32(v) | Data::Date(v) => v.reserve(rows),
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

    /// Appends a block whose first row is record `first` of the chunk.
    pub(super) fn fill<C: Cells>(&mut self, cells: &C, first: usize, bad: &mut Bad) {
        let unit = self.unit;
        let mut sink = Fill {
            cells,
            first,
            bad,
            name: &self.name,
            data_type: &self.data_type,
            nullable: self.nullable,
            nulls: &mut self.nulls,
            scratch: &mut self.scratch,
        };
        match &mut self.data {
            Data::Bool(out) => sink.each(cast::boolean, |v| out.append(v)),
            Data::Int8(out) => sink.each(|v| whole(v, i8::MIN, i8::MAX), |v| out.push(v)),
            Data::Int16(out) => sink.each(|v| whole(v, i16::MIN, i16::MAX), |v| out.push(v)),
            Data::Int32(out) => sink.each(|v| whole(v, i32::MIN, i32::MAX), |v| out.push(v)),
            Data::Int64(out) => sink.each(|v| cast::integer(v, i64::MIN, i64::MAX), |v| out.push(v)),
            Data::Float(out) => sink.each(cast::real::<f32>, |v| out.push(v)),
            Data::Double(out) => sink.each(cast::real::<f64>, |v| out.push(v)),
            Data::Decimal(out) => {
                let DataType::Decimal { precision, scale } = self.data_type else { return };
                sink.each(|v| cast::decimal(v, precision, scale), |v| out.push(v));
            }
            Data::Text(out, ends) => {
                let most = match self.data_type {
                    DataType::Char(n) | DataType::VarChar(n) => Some(n),
                    _ => None,
                };
                let mut number = Vec::new();
                sink.run(
                    |v, out: &mut Vec<u8>| {
                        out.extend_from_slice(cast::text(v, most, &mut number)?);
                        Ok(())
                    },
                    out,
                    ends,
                );
            }
            Data::Bytes(out, ends) => sink.run(cast::bytes, out, ends),
            Data::Date(out) => sink.each(|v| cast::date(v, unit), |v| out.push(v)),
            Data::Timestamp(out) => {
                let coarse = matches!(self.data_type, DataType::Timestamp(0..=3) | DataType::TimestampLtz(0..=3));
                let fit = |us: i64| if coarse { us.div_euclid(1000) } else { us };
                sink.each(|v| cast::timestamp(v, unit).map(fit), |v| out.push(v));
            }
        }
    }

    /// The array of everything that was appended; the column is empty again.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        use std::mem::take;
        let nulls = self.nulls.finish();
        fn values<T: arrow::datatypes::ArrowNativeType>(v: &mut Vec<T>) -> ScalarBuffer<T> {
            ScalarBuffer::from(take(v))
        }
        let too_long = |_| Error::internal(format!("column {:?}: more than 2 GiB of text in one chunk", self.name));
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
            Data::Text(v, ends) => {
                i32::try_from(v.len()).map_err(too_long)?;
                Arc::new(StringArray::try_new(OffsetBuffer::new(values(ends)), Buffer::from_vec(take(v)), nulls)?)
            }
            Data::Bytes(v, ends) => {
                i32::try_from(v.len()).map_err(too_long)?;
                Arc::new(BinaryArray::try_new(OffsetBuffer::new(values(ends)), Buffer::from_vec(take(v)), nulls)?)
            }
            Data::Timestamp(v) => match self.data_type.to_arrow() {
                arrow::datatypes::DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, zone) => {
                    Arc::new(TimestampMillisecondArray::try_new(values(v), nulls)?.with_timezone_opt(zone))
                }
                arrow::datatypes::DataType::Timestamp(_, zone) => {
                    Arc::new(TimestampMicrosecondArray::try_new(values(v), nulls)?.with_timezone_opt(zone))
                }
                other => return Err(Error::internal(format!("column {:?}: a timestamp that is {other}", self.name))),
            },
        })
    }
}

fn whole<T: Into<i64> + TryFrom<i64>>(value: Value<'_>, min: T, max: T) -> Cast<T> {
    let n = cast::integer(value, min.into(), max.into())?;
    T::try_from(n).map_err(|_| "is out of range".into())
}

/// The loop over the cells of a block.
struct Fill<'a, C> {
    cells: &'a C,
    first: usize,
    bad: &'a mut Bad,
    name: &'a str,
    data_type: &'a DataType,
    nullable: bool,
    nulls: &'a mut NullBufferBuilder,
    scratch: &'a mut Vec<u8>,
}

impl<C: Cells> Fill<'_, C> {
    /// For columns of a fixed width.
    #[inline]
    fn each<T: Default>(&mut self, convert: impl Fn(Value<'_>) -> Cast<T>, mut push: impl FnMut(T)) {
        for row in 0..self.cells.len() {
            let value = self.cells.value(row, self.scratch);
            let converted = match value {
                Value::Null | Value::Absent | Value::NotObject => None,
                value => Some(convert(value)),
            };
            match converted {
                Some(Ok(v)) => {
                    push(v);
                    self.nulls.append_non_null();
                }
                Some(Err(why)) => {
                    push(T::default());
                    self.nulls.append_null();
                    self.misfit(row, &why);
                }
                None => {
                    push(T::default());
                    self.nulls.append_null();
                    self.missing(row);
                }
            }
        }
    }

    /// For texts and bytes; `convert` appends to the buffer.
    #[inline]
    fn run(&mut self, mut convert: impl FnMut(Value<'_>, &mut Vec<u8>) -> Cast<()>, out: &mut Vec<u8>, ends: &mut Vec<i32>) {
        for row in 0..self.cells.len() {
            let value = self.cells.value(row, self.scratch);
            let converted = match value {
                Value::Null | Value::Absent | Value::NotObject => None,
                value => Some(convert(value, out)),
            };
            // beyond i32 the value is wrong, and `finish` refuses the buffer
            ends.push(i32::try_from(out.len()).unwrap_or(i32::MAX));
            match converted {
                Some(Ok(())) => self.nulls.append_non_null(),
                Some(Err(why)) => {
                    self.nulls.append_null();
                    self.misfit(row, &why);
                }
                None => {
                    self.nulls.append_null();
                    self.missing(row);
                }
            }
        }
    }

    #[cold]
    fn misfit(&mut self, row: usize, why: &str) {
        let (cells, name, data_type) = (self.cells, self.name, self.data_type);
        self.bad
            .report(self.first + row, Stage::Cast, Some(cells.field()), || format!("column {name} {data_type}: {} {why}", cells.show(row)));
    }

    #[inline]
    fn missing(&mut self, row: usize) {
        let not_object = {
            let value = self.cells.value(row, self.scratch);
            matches!(value, Value::NotObject)
        };
        if self.nullable && !not_object {
            return;
        }
        let (cells, name, data_type) = (self.cells, self.name, self.data_type);
        self.bad.report(self.first + row, Stage::Cast, Some(cells.field()), || match not_object {
            true => format!("column {name} {data_type}: {} is not an object, so it has no {}", cells.show(row), cells.field()),
            false => format!("column {name} is NOT NULL, but {}", cells.missing(row)),
        });
    }
}
