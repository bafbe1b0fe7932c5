//! A column chunk of INT96 timestamps, at any depth. The Arrow writer of the parquet crate has no such columns.

use arrow::array::{Array, AsArray as _};
use arrow::datatypes::TimestampNanosecondType;
use bytes::Bytes;
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::Int96;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use crate::schema::DataType;

const NANOS_PER_DAY: i64 = 86_400_000_000_000;
/// The Julian day on which 1970-01-01 begins.
const EPOCH_DAY: i64 = 2_440_588;

/// One step from a column towards a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To what is repeated in an array, or to the keys or values of a map.
    Element,
    Key,
    Value,
    /// To a field of a ROW.
    Field(usize),
}

/// The way from a column to one of its INT96 leaves: for each type on it, may it be null, and the step into it (none at the leaf).
#[derive(Clone, Debug)]
pub(super) struct Way(Vec<(bool, Option<Step>)>);

/// For each leaf of a column, in the order of Parquet: the way to it, if it is INT96.
pub(super) fn ways(data_type: &DataType, nullable: bool) -> Vec<Option<Way>> {
    let mut ways = Vec::new();
    walk(data_type, nullable, &mut Vec::new(), &mut ways);
    ways
}

fn walk(data_type: &DataType, nullable: bool, way: &mut Vec<(bool, Option<Step>)>, ways: &mut Vec<Option<Way>>) {
    let mut into = |step, data_type: &DataType, inner: bool, ways: &mut Vec<Option<Way>>| {
        way.push((nullable, Some(step)));
        walk(data_type, inner, way, ways);
        way.pop();
    };
    match data_type {
        DataType::Array(item) => into(Step::Element, &item.data_type, item.nullable, ways),
        DataType::Map(key, value) => {
            into(Step::Key, &key.data_type, false, ways);
            into(Step::Value, &value.data_type, value.nullable, ways);
        }
        DataType::Multiset(key) => {
            into(Step::Key, &key.data_type, false, ways);
            into(Step::Value, &DataType::Int, false, ways);
        }
        DataType::Row(fields) => fields.iter().enumerate().for_each(|(i, f)| into(Step::Field(i), &f.data_type, f.nullable, ways)),
        DataType::Timestamp(7..) | DataType::TimestampLtz(7..) => {
            let mut whole = way.clone();
            whole.push((nullable, None));
            ways.push(Some(Way(whole)));
        }
        _ => ways.push(None),
    }
}

/// Values and levels of an open row group. Encoded when it is closed.
pub(super) struct NanosColumn {
    descr: ColumnDescPtr,
    properties: WriterPropertiesPtr,
    way: Way,
    values: Vec<Int96>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl NanosColumn {
    pub(super) fn new(descr: ColumnDescPtr, properties: WriterPropertiesPtr, way: Way) -> NanosColumn {
        NanosColumn { descr, properties, way, values: Vec::new(), definitions: Vec::new(), repetitions: Vec::new() }
    }

    /// Takes in the rows of the whole column, which is in the Arrow form of its type.
    pub(super) fn write(&mut self, column: &dyn Array) {
        let way = self.way.clone();
        for row in 0..column.len() {
            self.put(column, &way.0, row, 0, 0, 0);
        }
    }

    /// One value: `definition` levels are fulfilled above it, `repetition` is the level at which it repeats, `depth` the repeated types
    /// above it.
    fn put(&mut self, array: &dyn Array, way: &[(bool, Option<Step>)], at: usize, definition: i16, repetition: i16, depth: i16) {
        let Some(((nullable, step), rest)) = way.split_first() else { return };
        if *nullable && array.is_null(at) {
            return self.level(definition, repetition);
        }
        let definition = definition + i16::from(*nullable);
        let (inner, range) = match step {
            None => {
                self.values.push(int96(array.as_primitive::<TimestampNanosecondType>().value(at)));
                return self.level(definition, repetition);
            }
            Some(Step::Field(i)) => return self.put(array.as_struct().column(*i), rest, at, definition, repetition, depth),
            Some(Step::Element) => {
                let list = array.as_list::<i32>();
                (list.values(), range(list.value_offsets(), at))
            }
            Some(Step::Key) => (array.as_map().keys(), range(array.as_map().value_offsets(), at)),
            Some(Step::Value) => (array.as_map().values(), range(array.as_map().value_offsets(), at)),
        };
        if range.is_empty() {
            return self.level(definition, repetition);
        }
        let first = range.start;
        for i in range {
            self.put(inner, rest, i, definition + 1, if i == first { repetition } else { depth + 1 }, depth + 1);
        }
    }

    fn level(&mut self, definition: i16, repetition: i16) {
        self.definitions.push(definition);
        self.repetitions.push(repetition);
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        size_of::<Int96>() * self.values.capacity() + 2 * (self.definitions.capacity() + self.repetitions.capacity())
    }

    /// Bytes of the values as they are.
    pub(super) fn size(&self) -> usize {
        size_of::<Int96>() * self.values.len()
    }

    /// Encodes the chunk.
    pub(super) fn close(self) -> Result<(Bytes, ColumnCloseResult)> {
        let nulls = (self.definitions.len() - self.values.len()) as u64;
        let mut sink = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut sink));
        let ColumnWriter::Int96ColumnWriter(mut writer) = get_column_writer(self.descr.clone(), self.properties.clone(), pages) else {
            return Err(ParquetError::General(format!("the column {} is not INT96", self.descr.path())));
        };
        let definitions = (self.descr.max_def_level() > 0).then_some(self.definitions.as_slice());
        let repetitions = (self.descr.max_rep_level() > 0).then_some(self.repetitions.as_slice());
        writer.write_batch(&self.values, definitions, repetitions)?;
        let mut closed = writer.close()?;
        // Bounds of INT96 mean something else to each reader.
        let statistics = Statistics::int96(None, None, None, Some(nulls), false);
        closed.metadata = closed.metadata.into_builder().set_statistics(statistics).build()?;
        Ok((sink.into_inner()?.into(), closed))
    }
}

#[expect(clippy::cast_sign_loss, reason = "offsets are not negative")]
fn range(offsets: &[i32], at: usize) -> std::ops::Range<usize> {
    offsets[at] as usize..offsets[at + 1] as usize
}

/// Nanoseconds of the day, then the Julian day.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "halves of a number; a day is within 106,751 of 1970")]
fn int96(nanos: i64) -> Int96 {
    let (day, of_day) = (nanos.div_euclid(NANOS_PER_DAY) + EPOCH_DAY, nanos.rem_euclid(NANOS_PER_DAY));
    let mut value = Int96::new();
    value.set_data(of_day as u32, (of_day >> 32) as u32, day as u32);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_survive_as_int96() {
        for nanos in [0, 1, -1, i64::MAX, i64::MIN, NANOS_PER_DAY, -NANOS_PER_DAY, 1_764_460_800_123_456_789] {
            assert_eq!(int96(nanos).to_nanos(), nanos);
        }
        // 1970-01-01T00:00:00.000000001 as Java writes it.
        assert_eq!(int96(1).data(), [1, 0, 2_440_588]);
    }
}
