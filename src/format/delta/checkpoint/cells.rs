//! From the columns of a checkpoint to actions. Lenient in the widths of integers and texts, as writers differ there.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray as _, BooleanArray, Float32Array, Float64Array, MapArray, StructArray};
use arrow::datatypes::{
    DataType, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use super::super::action::{Add, DeletionVector};
use crate::error::{Error, Result};

/// A cell that holds a whole number.
pub(super) fn int(array: &dyn Array, row: usize) -> Option<i64> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Int8 => Some(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Some(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Some(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Some(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Some(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Some(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Some(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => i64::try_from(array.as_primitive::<UInt64Type>().value(row)).ok(),
        _ => None,
    }
}

/// A cell that holds a text.
pub(super) fn text(array: &dyn Array, row: usize) -> Option<&str> {
    if array.is_null(row) {
        return None;
    }
    match array.data_type() {
        DataType::Utf8 => Some(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(array.as_string_view().value(row)),
        // Some writers leave out that it is a text.
        DataType::Binary => std::str::from_utf8(array.as_binary::<i32>().value(row)).ok(),
        _ => None,
    }
}

fn truth(array: &dyn Array, row: usize) -> Option<bool> {
    array.as_any().downcast_ref::<BooleanArray>().filter(|a| a.is_valid(row)).map(|a| a.value(row))
}

/// A map's texts by their keys.
fn texts(array: &dyn Array, row: usize) -> Option<BTreeMap<String, Option<String>>> {
    let map = array.as_any().downcast_ref::<MapArray>().filter(|a| a.is_valid(row))?;
    let entries = map.value(row);
    let (keys, values) = (entries.column(0), entries.column(1));
    let pair = |i: usize| Some((text(keys, i)?.to_owned(), text(values, i).map(str::to_owned)));
    (0..entries.len()).map(pair).collect()
}

/// Any cell as JSON; fields of structs that are null are left out.
fn json(array: &dyn Array, row: usize) -> Option<Value> {
    if array.is_null(row) {
        return None;
    }
    let list = |values: &dyn Array| Value::Array((0..values.len()).map(|i| json(values, i).unwrap_or(Value::Null)).collect());
    Some(match array.data_type() {
        DataType::Boolean => Value::Bool(truth(array, row)?),
        DataType::Struct(_) => Value::Object(object(array.as_struct(), row)),
        DataType::List(_) => list(&array.as_list::<i32>().value(row)),
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row)),
        DataType::Map(..) => texts(array, row)?.into_iter().map(|(k, v)| (k, v.map_or(Value::Null, Value::String))).collect(),
        _ => match int(array, row) {
            Some(n) => Value::Number(n.into()),
            None => Value::String(text(array, row)?.to_owned()),
        },
    })
}

fn object(array: &StructArray, row: usize) -> Map<String, Value> {
    let field = |(name, column): (&&str, &arrow::array::ArrayRef)| Some(((*name).to_owned(), json(column, row)?));
    array.column_names().iter().zip(array.columns()).filter_map(field).collect()
}

/// The actions in the column `name` of a batch. `Data`: one is not what it must be.
pub(super) fn actions<T: DeserializeOwned>(batch: &arrow::array::RecordBatch, name: &str) -> Result<Vec<T>> {
    let Some(column) = batch.column_by_name(name).and_then(|c| c.as_struct_opt()) else { return Ok(Vec::new()) };
    let rows = (0..column.len()).filter(|row| column.is_valid(*row));
    let read = |row: usize| {
        let damaged = |e| Error::data(format!("a `{name}` of the checkpoint is damaged")).because(e);
        serde_json::from_value(Value::Object(object(column, row))).map_err(damaged)
    };
    rows.map(read).collect()
}

/// The column `add` or `remove` of a batch, its fields found once.
pub(super) struct Files<'a> {
    /// Null where the row is another action.
    pub(super) all: &'a StructArray,
    name: &'static str,
    path: Option<&'a dyn Array>,
    vector: Option<&'a StructArray>,
}

impl<'a> Files<'a> {
    pub(super) fn of(batch: &'a arrow::array::RecordBatch, name: &'static str) -> Option<Files<'a>> {
        let all = batch.column_by_name(name)?.as_struct_opt()?;
        let path = field(all, "path");
        Some(Files { all, name, path, vector: field(all, "deletionVector").and_then(|v| v.as_struct_opt()) })
    }

    /// Which file the row is of: path, and id of its deletion vector; `None`: it is another action.
    pub(super) fn key(&self, row: usize) -> Result<Option<(&'a str, Option<String>)>> {
        // Writers differ in whether a struct whose fields are all null is null itself.
        match self.path.and_then(|path| text(path, row)) {
            _ if self.all.is_null(row) => Ok(None),
            Some(path) => Ok(Some((path, self.vector(row).map(|vector| vector.unique_id())))),
            None if self.all.columns().iter().all(|column| column.is_null(row)) => Ok(None),
            None => Err(self.lacks("path")),
        }
    }

    fn vector(&self, row: usize) -> Option<DeletionVector> {
        let vector = self.vector.filter(|v| v.is_valid(row))?;
        let whole = |name: &str| field(vector, name).and_then(|column| int(column, row));
        let texts = |name: &str| field(vector, name).and_then(|column| text(column, row)).map(str::to_owned);
        Some(DeletionVector {
            storage_type: texts("storageType")?,
            path_or_inline_dv: texts("pathOrInlineDv")?,
            offset: whole("offset").and_then(|n| i32::try_from(n).ok()),
            size_in_bytes: whole("sizeInBytes").and_then(|n| i32::try_from(n).ok())?,
            cardinality: whole("cardinality")?,
        })
    }

    fn lacks(&self, what: &str) -> Error {
        Error::data(format!("an `{}` of the checkpoint has no `{what}`", self.name))
    }

    /// The row as an `add`, `Data`: it is not what it must be.
    pub(super) fn add(&self, row: usize) -> Result<Option<Add>> {
        let Some((path, id)) = self.key(row)? else { return Ok(None) };
        let whole = |name: &str| field(self.all, name).and_then(|column| int(column, row));
        let map = |name: &str| field(self.all, name).and_then(|column| texts(column, row));
        let string = |name: &str| field(self.all, name).and_then(|column| text(column, row)).map(str::to_owned);
        let deletion_vector = self.vector(row);
        if id.is_none() && self.vector.is_some_and(|v| v.is_valid(row) && v.columns().iter().any(|c| c.is_valid(row))) {
            return Err(self.lacks("deletionVector.storageType").at(path));
        }
        let parsed = || stats(self.all.column_by_name("stats_parsed")?.as_struct_opt()?, row);
        Ok(Some(Add {
            path: path.to_owned(),
            partition_values: map("partitionValues").unwrap_or_default(),
            size: whole("size").ok_or_else(|| self.lacks("size"))?,
            modification_time: whole("modificationTime").unwrap_or_default(),
            data_change: field(self.all, "dataChange").and_then(|column| truth(column, row)).unwrap_or_default(),
            stats: string("stats").or_else(parsed),
            tags: map("tags"),
            deletion_vector,
            base_row_id: whole("baseRowId"),
            default_row_commit_version: whole("defaultRowCommitVersion"),
            clustering_provider: string("clusteringProvider"),
        }))
    }
}

fn field<'a>(array: &'a StructArray, name: &str) -> Option<&'a dyn Array> {
    array.column_by_name(name).map(|column| column.as_ref())
}

/// Statistics that are kept as columns only, as the text that they stand for.
pub(super) fn stats(parsed: &StructArray, row: usize) -> Option<String> {
    parsed.is_valid(row).then(|| Value::Object(bounds(parsed, row))).filter(|v| v.get("numRecords").is_some()).map(|v| v.to_string())
}

fn bounds(array: &StructArray, row: usize) -> Map<String, Value> {
    let cell = |column: &dyn Array| -> Option<Value> {
        if column.is_null(row) {
            return None;
        }
        match column.data_type() {
            DataType::Struct(_) => Some(Value::Object(bounds(column.as_struct(), row))),
            DataType::Float32 => float(column.as_any().downcast_ref::<Float32Array>()?.value(row).into()),
            DataType::Float64 => float(column.as_any().downcast_ref::<Float64Array>()?.value(row)),
            DataType::Decimal128(..) => decimal(&column.as_primitive::<Decimal128Type>().value_as_string(row)),
            DataType::Date32 | DataType::Timestamp(..) => moment(column, row),
            // A bound that is not understood is no bound.
            DataType::Binary => None,
            _ => json(column, row),
        }
    };
    array.column_names().iter().zip(array.columns()).filter_map(|(name, column)| Some(((*name).to_owned(), cell(column)?))).collect()
}

fn float(value: f64) -> Option<Value> {
    Number::from_f64(value).map(Value::Number)
}

/// With all its digits only where a JSON number keeps them.
fn decimal(text: &str) -> Option<Value> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if digits > 15 { None } else { serde_json::from_str(text).ok() }
}

fn moment(column: &dyn Array, row: usize) -> Option<Value> {
    use arrow::array::{Date32Array, TimestampMicrosecondArray};
    if let Some(days) = column.as_any().downcast_ref::<Date32Array>() {
        return Some(Value::String(days.value_as_date(row)?.to_string()));
    }
    let zone = match column.data_type() {
        DataType::Timestamp(_, Some(_)) => "Z",
        _ => "",
    };
    // All the digits that are there: cutting the greatest value would make it too small.
    let time = column.as_any().downcast_ref::<TimestampMicrosecondArray>()?.value_as_datetime(row)?;
    Some(Value::String(format!("{}{zone}", time.format("%Y-%m-%dT%H:%M:%S%.6f"))))
}
