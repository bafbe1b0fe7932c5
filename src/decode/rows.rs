//! What all record formats share: from slots to a batch. A format finds where the values of a record are ([`Slot`]); everything
//! behind that (casts, meta columns, exprs, checks, partitions, taking bad rows out) is here.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::FilterBuilder;

use super::cast::{Value, cut};
use super::columns::{Bad, Cells, Column};
use super::mapping::{ColumnMapping, Mapping, Meta, ValueFrom};
use super::{Decoded, Stage};
use crate::datafile::{push_key, scalar_at};
use crate::error::{Error, Result};
use crate::schema::{DataType, Scalar};
use crate::source::Records;

/// Records that are converted together: few enough that their slots stay in the cache.
pub(super) const BLOCK: usize = 512;

/// What stands at a value's place in the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing.
    #[default]
    Absent,
    Null,
    /// Something that has no fields stands where the path goes on.
    NotObject,
    True,
    False,
    Number,
    /// A text without escapes; the slot is what is between the quotes.
    Text,
    /// A text with escapes.
    Escaped,
    /// An object or an array.
    Json,
}

/// Where a value is in the chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) kind: Kind,
}

/// What differs between formats when a slot is read.
pub(super) trait Syntax {
    /// Takes the escapes away.
    fn unescape<'s>(&self, text: &[u8], scratch: &'s mut Vec<u8>) -> Value<'s>;
    /// What a message says about a record that has no value there.
    fn missing(&self, kind: Kind) -> &'static str;
    /// Are values of nested types written as JSON in a text?
    fn json_in_text(&self) -> bool;
}

/// Records whose values are found.
pub(super) struct Block<'a, S> {
    pub(super) syntax: &'a S,
    /// The chunk.
    pub(super) bytes: &'a [u8],
    /// Slots of the block, record by record.
    pub(super) slots: &'a [Slot],
    /// Slots of one record.
    pub(super) width: usize,
    /// Records of the block.
    pub(super) rows: usize,
    /// Which record of the chunk is its first.
    pub(super) first: usize,
}

/// One column of a block.
struct BlockColumn<'a, S> {
    block: &'a Block<'a, S>,
    /// The column's place in the slots of a record.
    at: usize,
    /// The path.
    field: &'a str,
}

impl<S: Syntax> BlockColumn<'_, S> {
    #[inline]
    fn slot(&self, row: usize) -> (Slot, &[u8]) {
        let slot = self.block.slots[row * self.block.width + self.at];
        (slot, &self.block.bytes[slot.start as usize..slot.end as usize])
    }
}

impl<S: Syntax> Cells for BlockColumn<'_, S> {
    #[inline]
    fn len(&self) -> usize {
        self.block.rows
    }
    #[inline]
    fn value<'s>(&'s self, row: usize, scratch: &'s mut Vec<u8>) -> Value<'s> {
        let (slot, text) = self.slot(row);
        match slot.kind {
            Kind::Text => Value::Text(text),
            Kind::Number => Value::Number(text),
            Kind::Escaped => self.block.syntax.unescape(text, scratch),
            Kind::True => Value::Bool(true),
            Kind::False => Value::Bool(false),
            Kind::Json => Value::Json(text),
            Kind::Null => Value::Null,
            Kind::Absent => Value::Absent,
            Kind::NotObject => Value::NotObject,
        }
    }
    fn show(&self, row: usize) -> String {
        let (slot, text) = self.slot(row);
        if matches!(slot.kind, Kind::Text | Kind::Escaped) { format!("\"{}\"", cut(text)) } else { cut(text) }
    }
    fn missing(&self, row: usize) -> &'static str {
        self.block.syntax.missing(self.slot(row).0.kind)
    }
    fn field(&self) -> &str {
        self.field
    }
    fn json_in_text(&self) -> bool {
        self.block.syntax.json_in_text()
    }
}

/// A meta column.
struct MetaColumn<'a> {
    records: &'a Records,
    meta: &'a Meta,
    field: String,
}

impl Cells for MetaColumn<'_> {
    fn len(&self) -> usize {
        self.records.len()
    }
    fn value<'s>(&'s self, row: usize, _: &'s mut Vec<u8>) -> Value<'s> {
        let records = self.records;
        let bytes = |b: Option<&'s bytes::Bytes>| b.map_or(Value::Null, |b| Value::Bytes(b));
        match self.meta {
            Meta::Topic => Value::Text(records.origin.name.as_bytes()),
            Meta::Partition => records.origin.partition.map_or(Value::Null, |p| Value::Int(p.into())),
            Meta::Offset => i64::try_from(records.offsets[row]).map_or(Value::Broken("is out of range"), Value::Int),
            Meta::Timestamp => records.timestamps.get(row).map_or(Value::Null, |ms| Value::Millis(*ms)),
            Meta::Key => bytes(records.keys.get(row).and_then(Option::as_ref)),
            Meta::Header(name) => {
                let of_name = |all: &'s Vec<(String, Option<bytes::Bytes>)>| all.iter().rev().find(|(n, _)| n == name);
                bytes(records.headers.get(row).and_then(of_name).and_then(|(_, value)| value.as_ref()))
            }
        }
    }
    fn show(&self, row: usize) -> String {
        match self.value(row, &mut Vec::new()) {
            Value::Text(b) | Value::Bytes(b) => format!("\"{}\"", cut(b)),
            Value::Int(n) | Value::Millis(n) => n.to_string(),
            _ => String::new(),
        }
    }
    fn missing(&self, _: usize) -> &'static str {
        match self.meta {
            Meta::Partition => "the record has no partition",
            Meta::Timestamp => "the record has no timestamp",
            Meta::Key => "the record has no key",
            _ => "the record has no such header",
        }
    }
    fn field(&self) -> &str {
        &self.field
    }
    fn json_in_text(&self) -> bool {
        true
    }
}

/// Builds batches of one sink's rows.
pub(super) struct Rows {
    pub(super) mapping: Mapping,
    schema: arrow::datatypes::SchemaRef,
    columns: Vec<Option<Column>>, // none: an expr
    partition: Vec<usize>,
    /// What the partition check said of partitions that were seen.
    asked: HashMap<Vec<u8>, Option<String>>,
}

/// The answers on that many partitions are kept.
const ASKED: usize = 10_000;

impl Rows {
    pub(super) fn new(mapping: &Mapping) -> Self {
        let column =
            |c: &ColumnMapping| if let ValueFrom::Expr { .. } = c.from { None } else { Some(Column::new(c, mapping.on_new_field)) };
        Rows {
            schema: mapping.schema.to_arrow(),
            columns: mapping.columns.iter().map(column).collect(),
            partition: mapping.schema.partition_indices(),
            asked: HashMap::new(),
            mapping: mapping.clone(),
        }
    }

    /// The columns that come from the record: path in segments and as text. Slot i of a record is the i-th of them.
    pub(super) fn paths(&self) -> Vec<(Vec<String>, String)> {
        let path = |c: &ColumnMapping| match &c.from {
            ValueFrom::Record { path, text, .. } => Some((path.clone(), text.clone())),
            _ => None,
        };
        self.mapping.columns.iter().filter_map(path).collect()
    }

    /// A new chunk. Records that the source could not take apart are bad from the start.
    pub(super) fn start(&mut self, records: &Records) -> Bad {
        self.columns.iter_mut().flatten().for_each(|c| c.start(records.len()));
        let mut bad = Bad::of(records.len());
        for (index, why) in &records.faults {
            bad.report(*index, Stage::Decode, None, || why.clone());
        }
        bad
    }

    /// Converts a block of records.
    pub(super) fn block<S: Syntax>(&mut self, block: &Block<'_, S>, bad: &mut Bad) {
        let mut at = 0;
        for (column, mapping) in self.columns.iter_mut().zip(&self.mapping.columns) {
            if let (Some(column), ValueFrom::Record { text, .. }) = (column, &mapping.from) {
                column.fill(&BlockColumn { block, at, field: text }, block.first, bad);
                at += 1;
            }
        }
    }

    /// Converts one column of a whole chunk.
    pub(super) fn fill<C: Cells>(&mut self, column: usize, cells: &C, bad: &mut Bad) {
        if let Some(Some(column)) = self.columns.get_mut(column) {
            column.fill(cells, 0, bad);
        }
    }

    /// The batch: meta columns, exprs, checks, partitions; then the bad rows are taken out.
    pub(super) fn finish(&mut self, records: &Records, bad: Bad) -> Result<Decoded> {
        self.finish_with(records, bad, Vec::new())
    }

    /// The same, with columns that are `ready` and were not filled.
    pub(super) fn finish_with(&mut self, records: &Records, mut bad: Bad, mut ready: Vec<Option<ArrayRef>>) -> Result<Decoded> {
        let mut arrays: Vec<Option<ArrayRef>> = Vec::with_capacity(self.columns.len());
        for (column, mapping) in self.columns.iter_mut().zip(&self.mapping.columns) {
            if let (Some(column), ValueFrom::Meta(meta)) = (column.as_mut(), &mapping.from) {
                let name = match meta {
                    Meta::Topic => "meta topic",
                    Meta::Partition => "meta partition",
                    Meta::Offset => "meta offset",
                    Meta::Timestamp => "meta timestamp",
                    Meta::Key => "meta key",
                    Meta::Header(name) => &format!("meta header.{name}"),
                };
                column.fill(&MetaColumn { records, meta, field: name.to_owned() }, 0, &mut bad);
            }
            let built = column.as_mut().map(Column::finish).transpose()?;
            let at = arrays.len();
            arrays.push(ready.get_mut(at).and_then(Option::take).or(built));
        }
        for (at, mapping) in self.mapping.columns.iter().enumerate() {
            if let ValueFrom::Expr { function, argument, text } = &mapping.from {
                let Some(from) = arrays.get(*argument).and_then(Option::as_ref) else {
                    return Err(Error::internal(format!("column {:?} is computed from one that is computed", mapping.name)));
                };
                let array = function.apply(from, &mapping.data_type)?;
                if !mapping.nullable && array.null_count() > 0 {
                    let (name, argument) = (&mapping.name, &self.mapping.columns[*argument].name);
                    for row in (0..array.len()).filter(|row| array.is_null(*row)) {
                        bad.report(row, Stage::Cast, Some(text), || {
                            format!("column {name} is NOT NULL, but {text} is null, as {argument} is")
                        });
                    }
                }
                arrays[at] = Some(array);
            }
        }
        let arrays: Vec<ArrayRef> = arrays.into_iter().flatten().collect();
        for check in &self.mapping.checks {
            check.apply(&arrays, |row, error| bad.report(row, Stage::Constraint, Some(check.first_column()), || error));
        }
        self.partitions(&arrays, &mut bad)?;
        self.good(arrays, bad)
    }

    /// Rejects the rows of partitions that cannot be.
    fn partitions(&mut self, arrays: &[ArrayRef], bad: &mut Bad) -> Result<()> {
        let Some(check) = self.mapping.partition_check.clone().filter(|_| !self.partition.is_empty()) else { return Ok(()) };
        let columns: Vec<(&DataType, &ArrayRef)> =
            self.partition.iter().map(|i| (&self.mapping.columns[*i].data_type, &arrays[*i])).collect();
        let (mut this, mut last, mut answer) = (Vec::new(), Vec::new(), None::<String>);
        let mut first = true;
        for row in 0..bad.flags().len() {
            if bad.is(row) {
                continue;
            }
            this.clear();
            columns.iter().try_for_each(|(t, c)| push_key(t, c, row, &mut this))?;
            if first || this != last {
                first = false;
                if !self.asked.contains_key(&this) {
                    if self.asked.len() >= ASKED {
                        self.asked.clear();
                    }
                    let values = columns.iter().map(|(t, c)| scalar_at(t, c, row)).collect::<Result<Vec<Option<Scalar>>>>()?;
                    self.asked.insert(this.clone(), check(&values).err());
                }
                answer = self.asked.get(&this).cloned().flatten();
                std::mem::swap(&mut this, &mut last);
            }
            if let Some(why) = &answer {
                let names = &self.mapping.schema.partition_by;
                bad.report(row, Stage::Partition, names.first().map(String::as_str), || why.clone());
            }
        }
        Ok(())
    }

    fn good(&self, mut arrays: Vec<ArrayRef>, mut bad: Bad) -> Result<Decoded> {
        let mut rows = bad.flags().len();
        if !bad.rejects.is_empty() {
            let keep = BooleanArray::new(BooleanBuffer::collect_bool(rows, |row| !bad.is(row)), None);
            let filter = FilterBuilder::new(&keep).optimize().build();
            for array in &mut arrays {
                *array = filter.filter(array)?;
            }
            rows = filter.count();
            bad.rejects.sort_by_key(|r| r.index);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        Ok(Decoded { batch, rejects: bad.rejects })
    }
}

/// The bytes of a chunk, small enough for [`Slot`] and for Arrow's text columns.
pub(super) fn chunk(records: &Records) -> Result<&[u8]> {
    let Some(&last) = records.ends.last() else { return Ok(&[]) };
    let bytes = records.bytes.get(records.start..last).filter(|b| i32::try_from(b.len()).is_ok());
    bytes.ok_or_else(|| Error::internal("a chunk of records is longer than 2 GiB, or than its buffer").at(&records.origin.name))
}
