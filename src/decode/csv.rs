//! CSV records: one row each (RFC 4180), cut out by the source with its quotes.
//!
//! * An unquoted empty field is NULL, a quoted one is the empty text; the text of `null:` is NULL when it is not quoted.
//! * Blanks belong to a text; around numbers, booleans, dates and timestamps they do not count.
//! * A quote only means something at the beginning of a field; inside a quoted field it is written twice.
//! * A value of a nested type is JSON text.
//! * Names come from the header ([`Origin::header`](crate::source::Origin::header)). Without one the fields are the columns that
//!   come from the record, in their order.
//! * A column that the header does not have is like an absent key of JSON; a row with fewer or more fields than the header is refused.

use std::sync::Arc;

use super::cast::{Value, cut};
use super::mapping::{Mapping, OnNewField, ValueFrom};
use super::rows::{BLOCK, Block, Kind, Rows, Slot, Syntax, chunk};
use super::{Decoded, Decoder, Stage};
use crate::error::{Error, Result};
use crate::source::Records;

/// How CSV is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// Does each file begin with the names of its fields?
    pub header: bool,
    /// Between two fields; ASCII.
    pub delimiter: u8,
    /// Around a field; ASCII.
    pub quote: u8,
    /// An unquoted field of this text is NULL, besides the empty one.
    pub null: Option<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions { header: true, delimiter: b',', quote: b'"', null: None }
    }
}

impl CsvOptions {
    /// `Invalid` when rows could not be read this way.
    pub fn validate(&self) -> Result<()> {
        let one = |name: &str, b: u8| match b {
            b'\n' | b'\r' | 0x80.. => Err(Error::invalid(format!("decode.{name} must be one ASCII character, and no line end"))),
            _ => Ok(()),
        };
        one("delimiter", self.delimiter)?;
        one("quote", self.quote)?;
        if self.delimiter == self.quote {
            return Err(Error::invalid("decode.delimiter and decode.quote are the same character"));
        }
        Ok(())
    }
}

/// One field of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CsvField {
    /// What is between the quotes, or all of it.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) quoted: bool,
    /// Are there doubled quotes inside?
    pub(super) doubled: bool,
}

/// The row without line ends around it, which belong to no field.
pub(super) fn line(bytes: &[u8], mut start: usize, mut end: usize) -> (usize, usize) {
    while end > start && matches!(bytes[end - 1], b'\n' | b'\r') {
        end -= 1;
    }
    while start < end && matches!(bytes[start], b'\n' | b'\r') {
        start += 1;
    }
    (start, end)
}

/// Calls `field` with the fields of the row `bytes[start..end]`, line end left out; what is wrong, at which byte.
pub(super) fn split(
    bytes: &[u8],
    start: usize,
    end: usize,
    options: &CsvOptions,
    mut field: impl FnMut(CsvField),
) -> std::result::Result<(), (usize, &'static str)> {
    let (delimiter, quote) = (options.delimiter, options.quote);
    let row = &bytes[..end];
    let mut at = start;
    loop {
        if row.get(at) != Some(&quote) {
            let length = row[at..].iter().position(|b| *b == delimiter).unwrap_or(end - at);
            field(CsvField { start: at, end: at + length, quoted: false, doubled: false });
            at += length;
        } else {
            let (from, mut doubled) = (at + 1, false);
            at = from;
            loop {
                let Some(length) = row[at..].iter().position(|b| *b == quote) else {
                    return Err((from - 1, "a quoted field is not closed"));
                };
                at += length + 1;
                if row.get(at) != Some(&quote) {
                    break;
                }
                doubled = true;
                at += 1;
            }
            field(CsvField { start: from, end: at - 1, quoted: true, doubled });
            if row.get(at).is_some_and(|b| *b != delimiter) {
                return Err((at, "something follows a closing quote"));
            }
        }
        if at >= end {
            return Ok(());
        }
        at += 1;
    }
}

/// Decodes CSV records, see the module.
pub struct CsvDecoder {
    rows: Rows,
    options: CsvOptions,
    /// Path texts of the columns that come from the record.
    paths: Vec<(Vec<String>, String)>,
    slots: Vec<Slot>,
    fields: Vec<CsvField>,
    /// The header that `places` was made for.
    header: Option<Arc<Vec<String>>>,
    places: Vec<usize>, // slot -> field; NOWHERE: not in the header
    new_field: Option<String>,
    twice: Option<String>,
}

const NOWHERE: usize = usize::MAX;

impl CsvDecoder {
    /// For the rows of one sink.
    pub fn new(mapping: &Mapping, options: &CsvOptions) -> Result<Self> {
        options.validate()?;
        for column in &mapping.columns {
            if let ValueFrom::Record { explicit: true, text, .. } = &column.from
                && !options.header
            {
                let error = Error::invalid(format!("from: {text} needs a header, and decode.header is false"));
                return Err(error
                    .at(format!("column {:?}", column.name))
                    .hint("remove from, and list the columns in the order of the fields"));
            }
        }
        let rows = Rows::new(mapping);
        let paths = rows.paths();
        let places = (0..paths.len()).collect();
        let options = options.clone();
        Ok(CsvDecoder { rows, options, paths, slots: Vec::new(), fields: Vec::new(), header: None, places, new_field: None, twice: None })
    }

    /// Finds the columns in the header.
    fn head(&mut self, header: &Option<Arc<Vec<String>>>) {
        let header = header.as_ref().filter(|_| self.options.header);
        if self.header.as_ref() == header {
            return;
        }
        self.header = header.cloned();
        (self.new_field, self.twice) = (None, None);
        let Some(header) = header else {
            self.places = (0..self.paths.len()).collect();
            return;
        };
        let is = |(path, text): &(Vec<String>, String), name: &String| text == name || matches!(path.as_slice(), [one] if one == name);
        self.places = self.paths.iter().map(|path| header.iter().position(|name| is(path, name)).unwrap_or(NOWHERE)).collect();
        self.new_field = header.iter().find(|name| !self.paths.iter().any(|p| is(p, name))).cloned();
        let twice = |(at, name): &(usize, &String)| header[..*at].contains(name) && self.paths.iter().any(|p| is(p, name));
        self.twice = header.iter().enumerate().find(twice).map(|(_, name)| name.clone());
    }

    /// Notes where the values of a row are.
    fn scan(&mut self, bytes: &[u8], start: usize, end: usize, first_slot: usize) -> std::result::Result<(), String> {
        let (start, end) = line(bytes, start, end);
        if let Err(e) = std::str::from_utf8(&bytes[start..end]) {
            return Err(format!("not valid UTF-8 at byte {}", e.valid_up_to()));
        }
        if let Some(name) = &self.twice {
            return Err(format!("the header has the name {:?} twice", cut(name.as_bytes())));
        }
        self.fields.clear();
        let fields = &mut self.fields;
        split(bytes, start, end, &self.options, |f| fields.push(f)).map_err(|(at, why)| {
            let near = &bytes[at..end.min(at + 20)];
            format!("not valid CSV at byte {}: {why} (at {})", at - start, cut(near))
        })?;
        let (got, want) = (self.fields.len(), self.header.as_ref().map_or(self.paths.len(), |h| h.len()));
        if got != want {
            let than = if self.header.is_some() { "the header" } else { "the columns" };
            let less = if got < want { "fewer" } else { "more" };
            return Err(format!("the row has {got} fields, {less} than {than}, {want}"));
        }
        let null = self.options.null.as_deref().map(str::as_bytes);
        for (slot, place) in self.slots[first_slot..].iter_mut().zip(&self.places) {
            if let Some(field) = self.fields.get(*place) {
                let text = &bytes[field.start..field.end];
                let kind = match field {
                    CsvField { quoted: false, .. } if text.is_empty() || Some(text) == null => Kind::Null,
                    CsvField { doubled: true, .. } => Kind::Escaped,
                    _ => Kind::Text,
                };
                // a chunk is shorter than 2 GiB, see `chunk`
                *slot = Slot { start: field.start as u32, end: field.end as u32, kind };
            }
        }
        Ok(())
    }
}

/// One quote for two.
pub(super) fn undouble(text: &[u8], quote: u8, out: &mut Vec<u8>) {
    out.clear();
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b == quote) {
        out.extend_from_slice(&rest[..=at]);
        rest = rest.get(at + 2..).unwrap_or(&[]);
    }
    out.extend_from_slice(rest);
}

struct Csv(u8);

impl Syntax for Csv {
    fn unescape<'s>(&self, text: &[u8], scratch: &'s mut Vec<u8>) -> Value<'s> {
        undouble(text, self.0, scratch);
        Value::Text(scratch)
    }
    fn missing(&self, kind: Kind) -> &'static str {
        if kind == Kind::Null { "the field is empty" } else { "the header has no such name" }
    }
    fn json_in_text(&self) -> bool {
        true
    }
}

impl Decoder for CsvDecoder {
    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        let bytes = chunk(records)?;
        self.head(&records.origin.header);
        let (width, reject_new) = (self.paths.len(), self.rows.mapping.on_new_field == OnNewField::Reject);
        let mut bad = self.rows.start(records);
        let mut start = 0;
        for first in (0..records.len()).step_by(BLOCK) {
            let rows = BLOCK.min(records.len() - first);
            self.slots.clear();
            self.slots.resize(rows * width, Slot::default());
            for row in 0..rows {
                let end = records.ends[first + row] - records.start;
                if bad.is(first + row) {
                    // the source's fault; nothing of it is read
                } else if let Err(error) = self.scan(bytes, start, end, row * width) {
                    bad.report(first + row, Stage::Decode, None, || error);
                } else if let Some(name) = self.new_field.as_ref().filter(|_| reject_new) {
                    let error = || format!("{} is no column, and on_new_field is reject", cut(name.as_bytes()));
                    bad.report(first + row, Stage::Cast, Some(name), error);
                }
                start = end;
            }
            self.rows.block(&Block { syntax: &Csv(self.options.quote), bytes, slots: &self.slots, width, rows, first }, &mut bad);
        }
        self.rows.finish(records, bad)
    }
}
