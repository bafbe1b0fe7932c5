//! From the columns of somebody's checkpoint to those of ours: by name, at every depth.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, ListArray, MapArray, StringArray, StructArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::cells::{stats, text};
use crate::error::{Error, Result};

/// The column `add`; what is kept of statistics as columns only becomes the text that it stands for.
pub(super) fn add(array: &ArrayRef, to: &DataType, with_stats: bool) -> Result<ArrayRef> {
    let made = shaped(array, to)?;
    let from = array.as_struct_opt().ok_or_else(|| misfit(array.data_type(), to))?;
    let parsed = from.column_by_name("stats_parsed").and_then(|column| column.as_struct_opt());
    let new: ArrayRef = match parsed {
        _ if !with_stats => new_null_array(&DataType::Utf8, from.len()),
        None => return Ok(made),
        Some(parsed) => {
            let told = from.column_by_name("stats");
            let one = |row: usize| match told.and_then(|told| text(told, row)) {
                Some(told) => Some(told.to_owned()),
                None => stats(parsed, row),
            };
            Arc::new((0..from.len()).map(one).collect::<StringArray>())
        }
    };
    let made = made.as_struct_opt().ok_or_else(|| misfit(array.data_type(), to))?.clone();
    let (fields, mut columns, nulls) = made.into_parts();
    if let Some((at, _)) = fields.find("stats") {
        columns[at] = new;
    }
    Ok(Arc::new(StructArray::try_new(fields, columns, nulls)?))
}

/// An array as one of the type `to`. `Data`: it is something else.
pub(super) fn shaped(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    let misfit = || misfit(array.data_type(), to);
    match to {
        DataType::Struct(fields) => {
            let from = array.as_struct_opt().ok_or_else(misfit)?;
            let column = |field: &Arc<arrow::datatypes::Field>| match from.column_by_name(field.name()) {
                Some(column) => shaped(column, field.data_type()),
                None => Ok(new_null_array(field.data_type(), from.len())),
            };
            let columns = fields.iter().map(column).collect::<Result<_>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, from.nulls().cloned())?))
        }
        DataType::List(element) => {
            let from = array.as_list_opt::<i32>().ok_or_else(misfit)?;
            let values = shaped(from.values(), element.data_type())?;
            Ok(Arc::new(ListArray::try_new(element.clone(), from.offsets().clone(), values, from.nulls().cloned())?))
        }
        DataType::Map(entries, sorted) => {
            let from = array.as_any().downcast_ref::<MapArray>().ok_or_else(misfit)?;
            let DataType::Struct(fields) = entries.data_type() else { return Err(misfit()) };
            // Writers name the two differently; their order is the format's.
            let pairs = from.entries().columns().iter().zip(fields).map(|(column, field)| shaped(column, field.data_type()));
            let pairs = StructArray::try_new(fields.clone(), pairs.collect::<Result<_>>()?, None)?;
            Ok(Arc::new(MapArray::try_new(entries.clone(), from.offsets().clone(), pairs, from.nulls().cloned(), *sorted)?))
        }
        _ if array.data_type().is_nested() => Err(misfit()),
        _ => cast(array, to).map_err(|e| misfit().because(e)),
    }
}

fn misfit(from: &DataType, to: &DataType) -> Error {
    Error::data(format!("a column of the checkpoint is {from} and must be {to}")).hint("the checkpoint is not what the format says")
}
