//! Rows that are columns already, such as those of Parquet files. Columns are found by name; a column that does not fit its type as it is is
//! cast value by value, by the rules for all formats: a row that does not fit is a reject, and its neighbours are not.

use arrow::array::{Array, ArrayRef, AsArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType as A, Fields};

use super::cast::{Value, cut};
use super::columns::Cells;
use super::conform::{conform, type_of};
use super::mapping::{Mapping, OnNewField, ValueFrom};
use super::rows::Rows as Builder;
use super::{ColumnSpec, Decoded, Decoder, Stage, arrow_value};
use crate::error::{Error, Result};
use crate::schema::DataType;
use crate::source::{Records, Rows};

/// Turns columnar rows into rows of one sink.
pub struct ColumnarDecoder {
    rows: Builder,
}

impl ColumnarDecoder {
    /// For the rows of a sink.
    pub fn new(mapping: &Mapping) -> Self {
        ColumnarDecoder { rows: Builder::new(mapping) }
    }
}

const NULL: &str = "the row has null there";

/// What stands at the end of a path.
enum Found {
    Absent,
    /// Something that has no fields stands where the path goes on.
    NotRow(ArrayRef),
    Column(ArrayRef),
}

fn find(rows: &Rows, path: &[String]) -> Result<Found> {
    let Some((first, rest)) = path.split_first() else { return Ok(Found::Absent) };
    let Some(mut column) = rows.batch.column_by_name(first).cloned() else { return Ok(Found::Absent) };
    let mut outer: Option<NullBuffer> = None;
    for name in rest {
        let Some(row) = column.as_struct_opt() else { return Ok(Found::NotRow(with_nulls(&column, outer)?)) };
        outer = NullBuffer::union(outer.as_ref(), row.nulls());
        let Some(inner) = row.column_by_name(name).cloned() else { return Ok(Found::Absent) };
        column = inner;
    }
    with_nulls(&column, outer).map(Found::Column)
}

/// A column that is null where the row around it is.
fn with_nulls(column: &ArrayRef, outer: Option<NullBuffer>) -> Result<ArrayRef> {
    let Some(outer) = outer.filter(|nulls| nulls.null_count() > 0) else { return Ok(column.clone()) };
    let nulls = NullBuffer::union(Some(&outer), column.nulls());
    Ok(make_array(column.to_data().into_builder().nulls(nulls).build()?))
}

/// One column of a file.
struct FileColumn<'a> {
    found: &'a Found,
    len: usize,
    field: &'a str,
    /// Text is for a column of bytes, and means its own bytes.
    bytes: bool,
}

impl Cells for FileColumn<'_> {
    fn len(&self) -> usize {
        self.len
    }
    fn value<'s>(&'s self, row: usize, scratch: &'s mut Vec<u8>) -> Value<'s> {
        match self.found {
            Found::Absent => Value::Absent,
            Found::NotRow(array) if array.is_null(row) => Value::Null,
            Found::NotRow(_) => Value::NotObject,
            Found::Column(array) => match arrow_value::value(array, row, scratch) {
                Value::Text(text) if self.bytes => Value::Bytes(text),
                value => value,
            },
        }
    }
    fn show(&self, row: usize) -> String {
        let (Found::NotRow(array) | Found::Column(array)) = self.found else { return String::new() };
        let mut out = Vec::new();
        arrow_value::json(array, row, &mut out);
        cut(&out)
    }
    fn missing(&self, _: usize) -> &'static str {
        if matches!(self.found, Found::Absent) { "the file has no such column" } else { NULL }
    }
    fn field(&self) -> &str {
        self.field
    }
    fn json_in_text(&self) -> bool {
        false
    }
}

impl Decoder for ColumnarDecoder {
    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        Err(Error::internal("records came where rows of Parquet files were expected").at(&records.origin.name))
    }

    fn decode_rows(&mut self, rows: &Rows) -> Result<Decoded> {
        let places = rows.places();
        let mut bad = self.rows.start(&places);
        let columns = self.rows.mapping.columns.clone();
        if self.rows.mapping.on_new_field == OnNewField::Reject {
            let paths: Vec<(Vec<String>, String)> = self.rows.paths();
            let paths: Vec<&[String]> = paths.iter().map(|(path, _)| path.as_slice()).collect();
            if let Some(name) = unknown(rows.batch.schema_ref().fields(), &paths) {
                for row in 0..places.len() {
                    bad.report(row, Stage::Cast, Some(&name), || {
                        format!("{} is no column, and on_new_field is reject", cut(name.as_bytes()))
                    });
                }
            }
        }
        let mut ready: Vec<Option<ArrayRef>> = vec![None; columns.len()];
        for (at, mapping) in columns.iter().enumerate() {
            let ValueFrom::Record { path, text, .. } = &mapping.from else { continue };
            let found = find(rows, path)?;
            let fits = match &found {
                Found::Column(array) => conform(array, &mapping.data_type),
                Found::Absent | Found::NotRow(_) => None,
            };
            if let Some(nulls) = fits.as_ref().and_then(|a| a.nulls()).filter(|_| !mapping.nullable) {
                for row in (0..nulls.len()).filter(|row| nulls.is_null(*row)) {
                    bad.report(row, Stage::Cast, Some(text), || format!("column {} is NOT NULL, but {NULL}", mapping.name));
                }
            }
            if fits.is_none() {
                let bytes = matches!(mapping.data_type, DataType::Bytes | DataType::Binary(_) | DataType::VarBinary(_));
                let cells = FileColumn { found: &found, len: places.len(), field: text, bytes };
                self.rows.fill(at, &cells, &mut bad);
            }
            ready[at] = fits;
        }
        self.rows.finish_with(&places, bad, ready)
    }
}

/// A field of the file that no column takes; also inside of rows that columns reach into.
fn unknown(fields: &Fields, paths: &[&[String]]) -> Option<String> {
    fields.iter().find_map(|field| {
        let of_field = paths.iter().filter(|path| path.first() == Some(field.name()));
        let tails: Vec<&[String]> = of_field.map(|path| &path[1..]).collect();
        match field.data_type() {
            _ if tails.is_empty() => Some(field.name().clone()),
            A::Struct(inner) if tails.iter().all(|tail| !tail.is_empty()) => unknown(inner, &tails),
            _ => None,
        }
    })
}

/// Some of `rows` as records, each a JSON object: what dead letters keep of them.
pub(crate) fn as_records(rows: &Rows, which: &[usize]) -> Records {
    let (places, schema) = (rows.places(), rows.batch.schema());
    let mut out = Records::none(rows.origin.clone());
    let mut bytes = Vec::new();
    for row in which {
        let names = schema.fields().iter().map(|f| f.name().as_bytes().to_vec());
        arrow_value::object(names.zip(rows.batch.columns().iter().map(|c| (c.as_ref() as &dyn Array, *row))), &mut bytes);
        out.ends.push(bytes.len());
        out.offsets.push(places.offsets[*row]);
    }
    out.bytes = bytes.into();
    out
}

/// The columns of files, when the pipeline file names none; all may be null. `Invalid`: there is no type for one of them.
pub(crate) fn columns_of(rows: &Rows) -> Result<Vec<ColumnSpec>> {
    let spec = |field: &arrow::datatypes::FieldRef| {
        let data_type = type_of(field.data_type()).ok_or_else(|| {
            Error::invalid(format!("the column `{}` of type {} has no type in a table", field.name(), field.data_type()))
                .at(&rows.origin.name)
                .hint("give the sink its `columns`, without this one")
        })?;
        let from = field.name().contains(['.', '"', '`']).then(|| quoted(field.name()));
        Ok(ColumnSpec { name: field.name().clone(), type_text: data_type.to_string(), from, ..ColumnSpec::default() })
    };
    rows.batch.schema_ref().fields().iter().map(spec).collect()
}

/// A name as a path of one segment.
fn quoted(name: &str) -> String {
    if name.contains('"') { format!("`{name}`") } else { format!("\"{name}\"") }
}

#[cfg(test)]
mod tests;
