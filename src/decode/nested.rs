//! Arrays, maps, multisets and rows, from JSON text. The forms:
//!
//! * ARRAY: an array.
//! * ROW: an object. An absent field is NULL, as at the top of a record; what no field takes is left out, or refused with
//!   `on_new_field: reject`; the last of two equal keys counts. An array is no ROW.
//! * MAP: an object, whose keys are cast from text to the type of the key; or an array of `[key, value]` or `{"key": .., "value": ..}`,
//!   for keys that are no texts. A key is never null. Of two keys that are equal after the cast the last one's value counts, at the
//!   place of the first.
//! * MULTISET: an array of its values, in any order; or an object, value to count (1 at least).
//!
//! The text was found to be JSON before ([`Scanner`] goes over it again, to find the members). A value that does not fit says where it is
//! within the column, `items[3].price`, and takes the column's whole value with it: what was appended for it is taken back.

mod keyed;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, ListArray, MapArray, NullBufferBuilder, StructArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType as A, FieldRef};

use super::cast::{Cast, Value, cut};
use super::leaf::{Feed, Leaf};
use super::mapping::Unit;
use super::rows::{Kind, Slot};
use super::scan::{Scanner, Wrong, unescape};
use crate::error::{Error, Result};
use crate::schema::{DataType, Item};

/// Why a value does not fit, and where in it.
#[derive(Debug, Default)]
pub(super) struct Misfit {
    /// Where, from the inside out: `.price`, `[3]`.
    path: Vec<String>,
    /// Reads on after the place: ` INT: "x" is not a whole number`.
    why: String,
}

type Fit = std::result::Result<(), Box<Misfit>>;

fn misfit(why: String) -> Box<Misfit> {
    Box::new(Misfit { path: Vec::new(), why })
}

impl Misfit {
    fn within(mut self: Box<Self>, segment: impl FnOnce() -> String) -> Box<Self> {
        self.path.push(segment());
        self
    }
    /// The place in the record, for a column whose value comes from `field`.
    pub(super) fn field(&self, field: &str) -> String {
        self.path.iter().rev().fold(field.to_owned(), |path, segment| path + segment)
    }
    /// The message.
    pub(super) fn message(&self, column: &str, field: &str) -> String {
        if self.path.is_empty() {
            format!("column {column}{}", self.why)
        } else {
            format!("column {column}: {}{}", self.field(field), self.why)
        }
    }
}

/// `.name`, quoted when it is more than a word.
fn member(name: &[u8]) -> String {
    let plain = !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'$') || *b >= 0x80);
    if plain && name.len() <= 80 { format!(".{}", String::from_utf8_lossy(name)) } else { format!(".\"{}\"", cut(name)) }
}

/// A column of a nested type under construction.
pub(super) struct Nested {
    root: Node,
    work: Work,
}

/// What all levels share.
struct Work {
    /// Are fields that no ROW has refused?
    reject_new: bool,
    /// Members of the rows that are open.
    slots: Vec<Slot>,
    /// The text of a value that has escapes.
    scratch: Vec<u8>,
}

/// One level of a type.
struct Node {
    data_type: DataType,
    arrow: A,
    nullable: bool,
    /// As long as there are values.
    nulls: NullBufferBuilder,
    body: Body,
}

enum Body {
    Leaf(Leaf),
    /// Where each array ends in the elements.
    Array(Vec<i32>, Box<Node>),
    Map(Vec<i32>, Box<Node>, Box<Node>),
    Multiset(Vec<i32>, Box<Node>, Vec<i32>),
    Row(Row),
}

struct Row {
    fields: Vec<(Vec<u8>, Node)>,
    index: HashMap<Vec<u8>, usize>,
}

impl Nested {
    /// `unit`: what numbers in its dates, times and timestamps mean.
    pub(super) fn new(data_type: &DataType, nullable: bool, unit: Option<Unit>, reject_new: bool) -> Self {
        Nested { root: Node::new(data_type, nullable, unit), work: Work { reject_new, slots: Vec::new(), scratch: Vec::new() } }
    }

    pub(super) fn start(&mut self) {
        self.root.start();
    }

    pub(super) fn push_null(&mut self) {
        self.root.push_null();
    }

    /// Appends a value, or null when it does not fit. `json_in_text`: is a text the JSON text of the value?
    pub(super) fn push(&mut self, value: Value<'_>, json_in_text: bool) -> Fit {
        let rows = self.root.nulls.len();
        self.work.slots.clear();
        let fit = self.value(value, json_in_text);
        if fit.is_err() {
            self.root.truncate(rows);
            self.root.push_null();
        }
        fit
    }

    fn value(&mut self, value: Value<'_>, json_in_text: bool) -> Fit {
        let root = &mut self.root;
        let (text, shown) = match value {
            Value::Json(text) => return root.push(text, whole(text, Kind::Json), &mut self.work),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => (text.as_bytes(), bytes),
                Err(_) => return Err(root.wrong(&format!("\"{}\"", cut(bytes)), "is not valid UTF-8")),
            },
            Value::Text(text) if json_in_text => (text, text),
            Value::Text(text) => return Err(root.shape(&format!("\"{}\"", cut(text)))),
            Value::Number(text) => return Err(root.shape(&cut(text))),
            Value::Int(n) | Value::Millis(n) => return Err(root.shape(&n.to_string())),
            Value::Bool(b) => return Err(root.shape(if b { "true" } else { "false" })),
            Value::Broken(why) => return Err(root.wrong("the text", why)),
            Value::Null | Value::Absent | Value::NotObject => return Err(root.shape("null")),
        };
        let mut s = Scanner::new(text, 0);
        let found = json(&mut s);
        match found {
            Ok(slot) => root.push(text, slot, &mut self.work),
            Err(_) if text.trim_ascii().is_empty() => Err(root.wrong(&format!("\"{}\"", cut(shown)), "is empty")),
            Err(why) => Err(root.wrong(&format!("\"{}\"", cut(shown)), &format!("is not valid JSON at byte {}: {why}", s.at))),
        }
    }

    /// The array of everything that was appended; the column is empty again.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        self.root.finish()
    }
}

/// A text that is one JSON value.
fn json(s: &mut Scanner<'_>) -> std::result::Result<Slot, Wrong> {
    s.blanks();
    let (kind, start, end) = s.value(0)?;
    s.blanks();
    if s.at_end() { Ok(place(kind, start, end)) } else { Err("something follows the value") }
}

fn place(kind: Kind, start: usize, end: usize) -> Slot {
    // a chunk is shorter than 2 GiB
    Slot { start: start as u32, end: end as u32, kind }
}

fn whole(text: &[u8], kind: Kind) -> Slot {
    place(kind, 0, text.len())
}

/// How a value is shown in a message.
fn show(text: &[u8], slot: Slot) -> String {
    let shown = cut(&text[slot.start as usize..slot.end as usize]);
    if matches!(slot.kind, Kind::Text | Kind::Escaped) { format!("\"{shown}\"") } else { shown }
}

/// Calls `each` with the elements of an array.
fn elements(text: &[u8], slot: Slot, mut each: impl FnMut(usize, Slot) -> Fit) -> Fit {
    let mut s = Scanner::new(&text[..slot.end as usize], slot.start as usize + 1);
    let again = |why: Wrong| misfit(format!(": {why}"));
    s.blanks();
    let mut done = s.peek() == b']';
    let mut n = 0;
    while !done {
        let (kind, start, end) = s.value(0).map_err(again)?;
        each(n, place(kind, start, end))?;
        n += 1;
        done = s.next(b']').map_err(again)?;
    }
    Ok(())
}

/// A key between its quotes.
#[derive(Clone, Copy)]
struct Key<'a> {
    written: &'a [u8],
    escapes: bool,
}

impl<'a> Key<'a> {
    /// Its text; a key that cannot be one is `Broken`.
    fn value<'s>(self, scratch: &'s mut Vec<u8>) -> Value<'s>
    where
        'a: 's,
    {
        if !self.escapes {
            return Value::Text(self.written);
        }
        match unescape(self.written, scratch) {
            Ok(()) => Value::Text(scratch),
            Err(why) => Value::Broken(why),
        }
    }
    fn segment(self) -> String {
        let mut scratch = Vec::new();
        if let Value::Text(text) = self.value(&mut scratch) { member(text) } else { member(self.written) }
    }
}

/// Calls `each` with the members of an object.
fn members<'a>(text: &'a [u8], slot: Slot, mut each: impl FnMut(Key<'a>, Slot) -> Fit) -> Fit {
    let mut s = Scanner::new(&text[..slot.end as usize], slot.start as usize + 1);
    let again = |why: Wrong| misfit(format!(": {why}"));
    s.blanks();
    let mut done = s.peek() == b'}';
    while !done {
        let (start, end, escapes) = s.key().map_err(again)?;
        s.colon().map_err(again)?;
        let (kind, from, to) = s.value(0).map_err(again)?;
        each(Key { written: &text[start..end], escapes }, place(kind, from, to))?;
        done = s.next(b'}').map_err(again)?;
    }
    Ok(())
}

/// Does an object or an array begin there?
fn begins(text: &[u8], slot: Slot, with: u8) -> bool {
    slot.kind == Kind::Json && text.get(slot.start as usize) == Some(&with)
}

/// One value for a leaf; none: a null.
struct One<'a> {
    value: Option<Value<'a>>,
    fits: Cast<()>,
}

impl Feed for One<'_> {
    #[inline]
    fn each<T: Default>(&mut self, convert: impl Fn(Value<'_>) -> Cast<T>, mut push: impl FnMut(T)) {
        match self.value.map(convert) {
            Some(Ok(v)) => push(v),
            None => push(T::default()),
            Some(Err(why)) => self.fits = Err(why),
        }
    }
    #[inline]
    fn run(&mut self, mut convert: impl FnMut(Value<'_>, &mut Vec<u8>) -> Cast<()>, out: &mut Vec<u8>, ends: &mut Vec<i32>) {
        if let Some(value) = self.value {
            self.fits = convert(value, out);
        }
        if self.fits.is_ok() {
            ends.push(i32::try_from(out.len()).unwrap_or(i32::MAX));
        }
    }
}

impl Node {
    fn new(data_type: &DataType, nullable: bool, unit: Option<Unit>) -> Self {
        let of = |item: &Item, nullable: bool| Box::new(Node::new(&item.data_type, nullable, unit));
        let body = match data_type {
            DataType::Array(item) => Body::Array(Vec::new(), of(item, item.nullable)),
            DataType::Map(key, value) => Body::Map(Vec::new(), of(key, false), of(value, value.nullable)),
            DataType::Multiset(item) => Body::Multiset(Vec::new(), of(item, false), Vec::new()),
            DataType::Row(fields) => {
                let named = |f: &crate::schema::Field| (f.name.clone().into_bytes(), Node::new(&f.data_type, f.nullable, unit));
                let index = fields.iter().enumerate().map(|(i, f)| (f.name.clone().into_bytes(), i)).collect();
                Body::Row(Row { fields: fields.iter().map(named).collect(), index })
            }
            leaf => Body::Leaf(Leaf::new(leaf, unit)),
        };
        Node { data_type: data_type.clone(), arrow: data_type.to_arrow(), nullable, nulls: NullBufferBuilder::new(0), body }
    }

    fn start(&mut self) {
        match &mut self.body {
            Body::Leaf(leaf) => leaf.start(0),
            Body::Array(ends, item) => {
                ends.push(0);
                item.start();
            }
            Body::Map(ends, key, value) => {
                ends.push(0);
                key.start();
                value.start();
            }
            Body::Multiset(ends, item, _) => {
                ends.push(0);
                item.start();
            }
            Body::Row(row) => row.fields.iter_mut().for_each(|(_, f)| f.start()),
        }
    }

    fn push_null(&mut self) {
        self.nulls.append_null();
        match &mut self.body {
            Body::Leaf(leaf) => leaf.take(&mut One { value: None, fits: Ok(()) }),
            Body::Array(ends, _) | Body::Map(ends, ..) | Body::Multiset(ends, ..) => ends.push(ends.last().copied().unwrap_or(0)),
            // below a null no field has a value, NOT NULL or not
            Body::Row(row) => row.fields.iter_mut().for_each(|(_, f)| f.push_null()),
        }
    }

    /// Takes back what is behind the first `len` values.
    fn truncate(&mut self, len: usize) {
        self.nulls.truncate(len);
        let cut = |ends: &mut Vec<i32>| {
            ends.truncate(len + 1);
            ends.last().and_then(|e| usize::try_from(*e).ok()).unwrap_or(0)
        };
        match &mut self.body {
            Body::Leaf(leaf) => leaf.truncate(len),
            Body::Array(ends, item) => item.truncate(cut(ends)),
            Body::Map(ends, key, value) => {
                let len = cut(ends);
                key.truncate(len);
                value.truncate(len);
            }
            Body::Multiset(ends, item, counts) => {
                let len = cut(ends);
                item.truncate(len);
                counts.truncate(len);
            }
            Body::Row(row) => row.fields.iter_mut().for_each(|(_, f)| f.truncate(len)),
        }
    }

    fn wrong(&self, shown: &str, why: &str) -> Box<Misfit> {
        misfit(format!(" {}: {shown} {why}", cut(self.data_type.to_string().as_bytes())))
    }

    /// The value is of another shape.
    fn shape(&self, shown: &str) -> Box<Misfit> {
        let why = match &self.data_type {
            DataType::Array(_) => "is not an array",
            DataType::Map(..) => "is not an object, nor an array of keys and values",
            DataType::Multiset(_) => "is not an array, nor an object of counts",
            _ => "is not an object",
        };
        self.wrong(shown, why)
    }

    /// Appends a value of `text`, which is JSON. After an error there may be a part of it.
    fn push(&mut self, text: &[u8], slot: Slot, work: &mut Work) -> Fit {
        if let Kind::Null | Kind::Absent | Kind::NotObject = slot.kind {
            if self.nullable {
                self.push_null();
                return Ok(());
            }
            let why = if slot.kind == Kind::Absent { "the record has no such key" } else { "the record has null there" };
            return Err(misfit(format!(" is NOT NULL, but {why}")));
        }
        let (object, array) = (begins(text, slot, b'{'), begins(text, slot, b'['));
        match &mut self.body {
            Body::Leaf(leaf) => {
                let span = &text[slot.start as usize..slot.end as usize];
                let value = match slot.kind {
                    Kind::Text => Value::Text(span),
                    Kind::Escaped => Key { written: span, escapes: true }.value(&mut work.scratch),
                    Kind::Number => Value::Number(span),
                    Kind::True => Value::Bool(true),
                    Kind::False => Value::Bool(false),
                    _ => Value::Json(span),
                };
                let mut one = One { value: Some(value), fits: Ok(()) };
                leaf.take(&mut one);
                if let Err(why) = one.fits {
                    return Err(self.wrong(&show(text, slot), &why));
                }
            }
            Body::Array(ends, item) if array => {
                elements(text, slot, |i, element| item.push(text, element, work).map_err(|e| e.within(|| format!("[{i}]"))))?;
                ends.push(item.end());
            }
            Body::Map(ends, key, value) if object => {
                keyed::object_map(text, slot, key, value, work)?;
                ends.push(key.end());
            }
            Body::Map(ends, key, value) if array => {
                keyed::pairs_map(text, slot, key, value, work)?;
                ends.push(key.end());
            }
            Body::Multiset(ends, item, counts) if object => {
                keyed::object_multiset(text, slot, item, counts)?;
                ends.push(item.end());
            }
            Body::Multiset(ends, item, counts) if array => {
                keyed::array_multiset(text, slot, item, counts, work)?;
                ends.push(item.end());
            }
            Body::Row(row) if object => row.push(text, slot, work)?,
            _ => return Err(self.shape(&show(text, slot))),
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends the key of an object.
    fn push_key(&mut self, key: Key<'_>) -> Fit {
        let mut scratch = Vec::new();
        let value = key.value(&mut scratch);
        let Body::Leaf(leaf) = &mut self.body else {
            let ty = cut(self.data_type.to_string().as_bytes());
            return Err(misfit(format!(": the keys of an object are texts, and {ty} is none (write an array instead)")));
        };
        let mut one = One { value: Some(value), fits: Ok(()) };
        leaf.take(&mut one);
        if let Err(why) = one.fits {
            return Err(misfit(format!(": the key \"{}\" {why} ({})", cut(key.written), self.data_type)));
        }
        self.nulls.append_non_null();
        Ok(())
    }

    fn len(&self) -> usize {
        self.nulls.len()
    }

    /// The number of values as an offset; `finish` refuses what is beyond.
    fn end(&self) -> i32 {
        i32::try_from(self.len()).unwrap_or(i32::MAX)
    }

    /// Appends bytes that are the same for equal values, and no others.
    fn print(&self, at: usize, out: &mut Vec<u8>) {
        let valid = self.nulls.is_valid(at);
        out.push(valid.into());
        if !valid {
            return;
        }
        let all = |ends: &[i32], of: &[&Node], out: &mut Vec<u8>| {
            let offset = |i: usize| ends.get(i).and_then(|e| usize::try_from(*e).ok()).unwrap_or(0);
            let range = offset(at)..offset(at + 1);
            out.extend_from_slice(&range.len().to_le_bytes());
            range.for_each(|i| of.iter().for_each(|n| n.print(i, out)));
        };
        match &self.body {
            Body::Leaf(leaf) => leaf.print(at, out),
            Body::Array(ends, item) => all(ends, &[item], out),
            Body::Map(ends, key, value) => all(ends, &[key, value], out),
            Body::Multiset(ends, item, _) => all(ends, &[item], out),
            Body::Row(row) => row.fields.iter().for_each(|(_, f)| f.print(at, out)),
        }
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let len = self.len();
        let nulls = self.nulls.finish();
        let other = || Error::internal(format!("a column of {} that is {}", self.data_type, self.arrow));
        let offsets = |ends: &mut Vec<i32>, items: &ArrayRef| {
            i32::try_from(items.len()).map_err(|_| Error::internal("more than 2^31 elements in one chunk"))?;
            Ok::<_, Error>(OffsetBuffer::new(ScalarBuffer::from(std::mem::take(ends))))
        };
        let entries = |entries: &FieldRef, arrays: Vec<ArrayRef>| match entries.data_type() {
            A::Struct(fields) => Ok(StructArray::try_new(fields.clone(), arrays, None)?),
            _ => Err(other()),
        };
        Ok(match (&mut self.body, &self.arrow) {
            (Body::Leaf(leaf), _) => leaf.finish(nulls)?,
            (Body::Array(ends, item), A::List(field)) => {
                let items = item.finish()?;
                Arc::new(ListArray::try_new(Arc::clone(field), offsets(ends, &items)?, items, nulls)?)
            }
            (Body::Map(ends, key, value), A::Map(field, sorted)) => {
                let (keys, values) = (key.finish()?, value.finish()?);
                let offsets = offsets(ends, &keys)?;
                Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries(field, vec![keys, values])?, nulls, *sorted)?)
            }
            (Body::Multiset(ends, item, counts), A::Map(field, sorted)) => {
                let (keys, counts) = (item.finish()?, Arc::new(Int32Array::from(std::mem::take(counts))));
                let offsets = offsets(ends, &keys)?;
                Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries(field, vec![keys, counts])?, nulls, *sorted)?)
            }
            (Body::Row(row), A::Struct(fields)) => {
                let arrays = row.fields.iter_mut().map(|(_, f)| f.finish()).collect::<Result<Vec<_>>>()?;
                Arc::new(StructArray::try_new_with_length(fields.clone(), arrays, nulls, len)?)
            }
            _ => return Err(other()),
        })
    }
}

impl Row {
    fn push(&mut self, text: &[u8], slot: Slot, work: &mut Work) -> Fit {
        let base = work.slots.len();
        work.slots.resize(base + self.fields.len(), Slot::default());
        let mut next = 0;
        members(text, slot, |key, value| {
            // mostly the fields come in their order
            let field = match self.fields.get(next) {
                Some((name, _)) if !key.escapes && name.as_slice() == key.written => Some(next),
                _ => match key.value(&mut work.scratch) {
                    Value::Text(name) => self.index.get(name).copied(),
                    _ => None,
                },
            };
            match field {
                Some(field) => {
                    work.slots[base + field] = value;
                    next = field + 1;
                }
                None if work.reject_new => {
                    return Err(misfit(" is no field of the type, and on_new_field is reject".to_owned()).within(|| key.segment()));
                }
                None => {}
            }
            Ok(())
        })?;
        for (i, (name, field)) in self.fields.iter_mut().enumerate() {
            let slot = work.slots[base + i];
            field.push(text, slot, work).map_err(|e| e.within(|| member(name)))?;
        }
        work.slots.truncate(base);
        Ok(())
    }
}
