//! Column builders: a block of cells of one column is converted in one loop, appended to plain vectors, and becomes an Arrow array.
//!
//! A cell that cannot be converted leaves a null and a reject behind; its row is filtered out at the end. So a bad record
//! touches no other row, and nothing has to be rolled back.

use arrow::array::{ArrayRef, NullBufferBuilder};

use super::cast::{Cast, Value};
use super::leaf::{Feed, Leaf};
use super::mapping::{ColumnMapping, OnNewField};
use super::nested::Nested;
use super::{Reject, Stage};
use crate::error::Result;
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
    /// Is the text of a cell JSON when the column is of a nested type?
    fn json_in_text(&self) -> bool;
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

/// A column under construction.
pub(super) struct Column {
    name: String,
    data_type: DataType,
    nullable: bool,
    body: Body,
    nulls: NullBufferBuilder,
    scratch: Vec<u8>,
}

enum Body {
    Leaf(Leaf),
    /// Keeps its own nulls.
    Nested(Box<Nested>),
}

impl Column {
    pub(super) fn new(mapping: &ColumnMapping, on_new_field: OnNewField) -> Self {
        let (data_type, unit) = (&mapping.data_type, mapping.unit);
        let body = match data_type.is_nested() {
            true => Body::Nested(Box::new(Nested::new(data_type, mapping.nullable, unit, on_new_field == OnNewField::Reject))),
            false => Body::Leaf(Leaf::new(data_type, unit)),
        };
        Column {
            name: mapping.name.clone(),
            data_type: data_type.clone(),
            nullable: mapping.nullable,
            body,
            nulls: NullBufferBuilder::new(0),
            scratch: Vec::new(),
        }
    }

    /// Room for a chunk of `rows` records.
    pub(super) fn start(&mut self, rows: usize) {
        match &mut self.body {
            Body::Leaf(leaf) => {
                self.nulls = NullBufferBuilder::new(rows);
                leaf.start(rows);
            }
            Body::Nested(nested) => nested.start(),
        }
    }

    /// Appends a block whose first row is record `first` of the chunk.
    pub(super) fn fill<C: Cells>(&mut self, cells: &C, first: usize, bad: &mut Bad) {
        let mut fill = Fill {
            cells,
            first,
            bad,
            name: &self.name,
            data_type: &self.data_type,
            nullable: self.nullable,
            nulls: &mut self.nulls,
            scratch: &mut self.scratch,
        };
        match &mut self.body {
            Body::Leaf(leaf) => leaf.take(&mut fill),
            Body::Nested(nested) => fill.nested(nested),
        }
    }

    /// The array of everything that was appended; the column is empty again.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let array = match &mut self.body {
            Body::Leaf(leaf) => leaf.finish(self.nulls.finish()),
            Body::Nested(nested) => nested.finish(),
        };
        array.map_err(|e| e.at(format!("column {:?}", self.name)))
    }
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

impl<C: Cells> Feed for Fill<'_, C> {
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
}

impl<C: Cells> Fill<'_, C> {
    fn nested(&mut self, nested: &mut Nested) {
        for row in 0..self.cells.len() {
            match self.cells.value(row, self.scratch) {
                Value::Null | Value::Absent | Value::NotObject => {
                    nested.push_null();
                    self.missing(row);
                }
                value => {
                    if let Err(why) = nested.push(value, self.cells.json_in_text()) {
                        let (cells, name) = (self.cells, self.name);
                        let field = why.field(cells.field());
                        self.bad.report(self.first + row, Stage::Cast, Some(&field), || why.message(name, cells.field()));
                    }
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
