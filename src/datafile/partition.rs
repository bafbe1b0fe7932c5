//! Which rows of a batch belong to which partition and bucket.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch, UInt32Array};
use arrow::compute;
use arrow::datatypes as t;

use crate::error::{Error, Result};
use crate::schema::{DataType, Scalar};

/// The rows of one partition and bucket in one batch, and one of them (to read the partition's values from).
pub(super) struct Part {
    /// The key of partition and bucket: equal for equal values, null and the empty string kept apart.
    pub(super) key: Vec<u8>,
    pub(super) row: usize,
    /// 0 in a table without buckets.
    pub(super) bucket: i32,
    pub(super) rows: Rows,
}

/// Some rows of a batch, rising.
pub(super) enum Rows {
    Run(usize, usize),
    Scattered(Vec<u32>),
}

impl Rows {
    /// How many.
    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Run(from, to) => to - from,
            Rows::Scattered(rows) => rows.len(),
        }
    }

    /// `len` of them, after the first `from`, as a batch: without copying them where they lie together.
    pub(super) fn slice(&self, batch: &RecordBatch, from: usize, len: usize) -> Result<RecordBatch> {
        Ok(match self {
            Rows::Run(first, _) => batch.slice(first + from, len),
            Rows::Scattered(rows) => {
                compute::take_record_batch(batch, &UInt32Array::from_iter_values(rows[from..from + len].iter().copied()))?
            }
        })
    }

    /// Appends their numbers.
    pub(super) fn append_to(&self, numbers: &mut Vec<u32>) -> Result<()> {
        match self {
            Rows::Run(from, to) => numbers.extend(number(*from)?..number(*to)?),
            Rows::Scattered(rows) => numbers.extend_from_slice(rows),
        }
        Ok(())
    }
}

fn number(row: usize) -> Result<u32> {
    u32::try_from(row).map_err(|_| Error::invalid("a batch has more than 2^32 rows").hint("write smaller ones"))
}

/// Splits a batch by its partition columns (`types` and `columns` in partition order), then by the bucket of each row: partitions and
/// the buckets in them by first appearance, rows in order.
pub(super) fn split(types: &[&DataType], columns: &[ArrayRef], buckets: Option<&[i32]>, rows: usize) -> Result<Vec<Part>> {
    let parts = by_partition(types, columns, rows)?;
    let Some(buckets) = buckets else { return Ok(parts) };
    if buckets.len() != rows {
        return Err(Error::internal(format!("{} buckets for a batch of {rows} rows", buckets.len())).hint("please report this"));
    }
    let mut all = Vec::new();
    for part in parts {
        part.by_bucket(buckets, &mut all)?;
    }
    Ok(all)
}

impl Part {
    /// The parts of this one in which all rows have the same bucket.
    fn by_bucket(self, buckets: &[i32], parts: &mut Vec<Part>) -> Result<()> {
        let mut known: HashMap<i32, usize> = HashMap::new();
        // Neighbours often share a bucket; then nothing is looked up.
        let mut last: Option<usize> = None;
        let mut place = |row: usize| -> Result<()> {
            let bucket = buckets[row];
            let found = last.filter(|p| parts[*p].bucket == bucket).or_else(|| known.get(&bucket).copied());
            last = match found {
                Some(part) => {
                    parts[part].rows.push(row, row + 1)?;
                    Some(part)
                }
                None => {
                    known.insert(bucket, parts.len());
                    let mut key = self.key.clone();
                    key.extend_from_slice(&bucket.to_le_bytes());
                    parts.push(Part { key, row, bucket, rows: Rows::Run(row, row + 1) });
                    Some(parts.len() - 1)
                }
            };
            Ok(())
        };
        match &self.rows {
            Rows::Run(from, to) => (*from..*to).try_for_each(&mut place),
            Rows::Scattered(rows) => rows.iter().try_for_each(|row| place(*row as usize)),
        }
    }
}

fn by_partition(types: &[&DataType], columns: &[ArrayRef], rows: usize) -> Result<Vec<Part>> {
    if columns.is_empty() {
        return Ok(vec![Part { key: Vec::new(), row: 0, bucket: 0, rows: Rows::Run(0, rows) }]);
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut known: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut key = Vec::new();
    for run in compute::partition(columns)?.ranges() {
        key.clear();
        for (data_type, column) in types.iter().zip(columns) {
            push_key(data_type, column, run.start, &mut key)?;
        }
        match known.get(&key) {
            Some(part) => parts[*part].rows.push(run.start, run.end)?,
            None => {
                known.insert(key.clone(), parts.len());
                parts.push(Part { key: key.clone(), row: run.start, bucket: 0, rows: Rows::Run(run.start, run.end) });
            }
        }
    }
    Ok(parts)
}

impl Rows {
    fn push(&mut self, from: usize, to: usize) -> Result<()> {
        if let Rows::Run(a, b) = self {
            if *b == from {
                *b = to;
                return Ok(());
            }
            *self = Rows::Scattered((number(*a)?..number(*b)?).collect());
        }
        if let Rows::Scattered(rows) = self {
            rows.extend(number(from)?..number(to)?);
        }
        Ok(())
    }
}

/// Appends bytes that stand for the value in one row and are not the beginning of any other value's; arrays as for [`scalar_at`].
pub(crate) fn push_key(data_type: &DataType, column: &dyn Array, row: usize, key: &mut Vec<u8>) -> Result<()> {
    if column.is_null(row) {
        key.push(0);
        return Ok(());
    }
    key.push(1);
    // Lengths first, so that no two rows of values run together to the same key.
    let mut bytes = |bytes: &[u8]| {
        key.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        key.extend_from_slice(bytes);
    };
    match data_type {
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => bytes(column.as_string::<i32>().value(row).as_bytes()),
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => bytes(column.as_binary::<i32>().value(row)),
        _ => match scalar_at(data_type, column, row)? {
            Some(Scalar::Bool(v)) => key.push(u8::from(v)),
            Some(Scalar::Int(v) | Scalar::Timestamp(v) | Scalar::TimestampNanos(v)) => key.extend_from_slice(&v.to_le_bytes()),
            Some(Scalar::Float(v)) => key.extend_from_slice(&v.to_bits().to_le_bytes()),
            Some(Scalar::Double(v)) => key.extend_from_slice(&v.to_bits().to_le_bytes()),
            Some(Scalar::Decimal(v)) => key.extend_from_slice(&v.to_le_bytes()),
            Some(Scalar::Date(v) | Scalar::Time(v)) => key.extend_from_slice(&v.to_le_bytes()),
            Some(Scalar::String(_) | Scalar::Bytes(_)) | None => {}
        },
    }
    Ok(())
}

/// The value in one row of an array that is in the type's Arrow form ([`DataType::to_arrow`]). `Invalid`: a timestamp of milliseconds
/// beyond what microseconds can tell.
pub(crate) fn scalar_at(data_type: &DataType, array: &dyn Array, row: usize) -> Result<Option<Scalar>> {
    if array.is_null(row) {
        return Ok(None);
    }
    Ok(Some(match data_type {
        DataType::Boolean => Scalar::Bool(array.as_boolean().value(row)),
        DataType::TinyInt => Scalar::Int(array.as_primitive::<t::Int8Type>().value(row).into()),
        DataType::SmallInt => Scalar::Int(array.as_primitive::<t::Int16Type>().value(row).into()),
        DataType::Int => Scalar::Int(array.as_primitive::<t::Int32Type>().value(row).into()),
        DataType::BigInt => Scalar::Int(array.as_primitive::<t::Int64Type>().value(row)),
        DataType::Float => Scalar::Float(array.as_primitive::<t::Float32Type>().value(row)),
        DataType::Double => Scalar::Double(array.as_primitive::<t::Float64Type>().value(row)),
        DataType::Decimal { .. } => Scalar::Decimal(array.as_primitive::<t::Decimal128Type>().value(row)),
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => Scalar::String(array.as_string::<i32>().value(row).to_owned()),
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => Scalar::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        DataType::Date => Scalar::Date(array.as_primitive::<t::Date32Type>().value(row)),
        DataType::Timestamp(p) | DataType::TimestampLtz(p) if *p <= 3 => {
            let ms = array.as_primitive::<t::TimestampMillisecondType>().value(row);
            let far = || Error::invalid(format!("the timestamp {ms} ms is out of range")).hint("partition by a column with sane values");
            Scalar::Timestamp(ms.checked_mul(1000).ok_or_else(far)?)
        }
        DataType::Time(_) => Scalar::Time(array.as_primitive::<t::Time32MillisecondType>().value(row)),
        DataType::Timestamp(7..) | DataType::TimestampLtz(7..) => {
            Scalar::TimestampNanos(array.as_primitive::<t::TimestampNanosecondType>().value(row))
        }
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            Scalar::Timestamp(array.as_primitive::<t::TimestampMicrosecondType>().value(row))
        }
        DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) | DataType::Row(_) => {
            return Err(Error::invalid(format!("a value of type {data_type} cannot partition a table")).hint("partition by another column"));
        }
    }))
}
