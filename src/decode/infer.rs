//! Columns from a sample of records, when the pipeline file names none.
//!
//! All columns are nullable, in the order in which their names first appear. What is seen decides, null left aside:
//!
//! | all values are | type |
//! |---|---|
//! | true, false | BOOLEAN |
//! | whole numbers | BIGINT; DECIMAL(38, 0) when one is beyond 64 bits |
//! | numbers, some with a point or an exponent | DOUBLE |
//! | texts `YYYY-MM-DD` | DATE |
//! | texts of timestamps without an offset | TIMESTAMP(3), or (6) when one has more than three digits behind the second |
//! | texts of timestamps, all with an offset (`Z`, `+02:00`) | the same WITH LOCAL TIME ZONE |
//! | objects | ROW of all fields that were seen, each by these rules |
//! | arrays | ARRAY of what all their elements together are |
//! | anything else, a mixture, nothing | STRING (what has no text of its own as its JSON text) |
//!
//! So an array without any element is `ARRAY<STRING>`, which takes every element, and an object that never has a field is STRING, as a ROW
//! needs one. Objects of more than 1,000 different fields use keys as data: they stay STRING (a MAP is never inferred, as nothing tells
//! it from a ROW), and so does what is deeper than 16 levels.
//!
//! In CSV the text of a field decides, quoted or not; a number that begins with a superfluous 0 (`00123`) is a text, and so is JSON text.

use std::collections::HashMap;

use super::cast;
use super::csv::{CsvField, line, split, undouble};
use super::rows::Kind;
use super::scan::{Scanner, unescape};
use super::{ColumnSpec, CsvOptions, RecordFormat};
use crate::error::{Error, Result};
use crate::schema::{DataType, Field, Item};
use crate::source::Records;
use crate::text::number::{Exact, NotExact};
use crate::text::time::{parse_date, parse_timestamp};

/// Objects and arrays within each other that become types.
const DEEPEST: usize = 16;
/// Fields of an object that becomes a ROW, at most.
const WIDEST: usize = 1000;

/// What was seen of one column, field or element.
#[derive(Default)]
struct Seen {
    bool: bool,
    whole: bool,
    beyond_64_bits: bool,
    beyond_38_digits: bool,
    real: bool,
    date: bool,
    local: bool,
    instant: bool,
    fine: bool,
    other: bool,
    /// Fields of all objects.
    object: Option<Table>,
    /// Elements of all arrays.
    array: Option<Box<Seen>>,
}

impl Seen {
    fn number(&mut self, text: &[u8]) {
        if text.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) {
            self.real = true;
            return;
        }
        match Exact::parse(text).map(|n| n.scaled(0)) {
            Ok(Ok(n)) if i64::try_from(n).is_ok() => self.whole = true,
            Ok(Ok(_)) => self.beyond_64_bits = true,
            Ok(Err(_)) | Err(NotExact::Digits) => self.beyond_38_digits = true,
            Err(NotExact::Syntax) => self.other = true,
        }
    }

    fn text(&mut self, text: &[u8]) {
        if parse_date(text).is_ok() {
            self.date = true;
        } else if let Ok(stamp) = parse_timestamp(text) {
            self.local |= !stamp.offset;
            self.instant |= stamp.offset;
            self.fine |= stamp.fraction > 3;
        } else {
            self.other = true;
        }
    }

    fn csv(&mut self, text: &[u8]) {
        let trimmed = text.trim_ascii();
        let mut scanner = Scanner::new(trimmed, 0);
        let is_number = matches!(scanner.value(0), Ok((Kind::Number, ..))) && scanner.at_end();
        if is_number {
            self.number(trimmed);
        } else if cast::boolean(cast::Value::Text(trimmed)).is_ok() {
            self.bool = true;
        } else if matches!(trimmed.to_ascii_lowercase().as_slice(), b"nan" | b"inf" | b"-inf" | b"infinity" | b"-infinity") {
            self.real = true;
        } else {
            self.text(trimmed);
        }
    }

    /// A JSON value that is `depth` levels below the record.
    fn json(&mut self, kind: Kind, text: &[u8], depth: usize) {
        match kind {
            Kind::Null | Kind::Absent => {}
            Kind::True | Kind::False => self.bool = true,
            Kind::Number => self.number(text),
            Kind::Text => self.text(text),
            Kind::Json if depth > DEEPEST => self.other = true,
            Kind::Json if text.starts_with(b"{") => {
                let table = self.object.get_or_insert_default();
                for (name, kind, value) in members(text).unwrap_or_default() {
                    if !name.trim().is_empty() && table.columns.len() <= WIDEST {
                        table.column(&name).json(kind, value, depth + 1);
                    }
                }
            }
            Kind::Json => {
                let seen = self.array.get_or_insert_default();
                elements(text).unwrap_or_default().into_iter().for_each(|(kind, element)| seen.json(kind, element, depth + 1));
            }
            Kind::Escaped | Kind::NotObject => self.other = true,
        }
    }

    fn data_type(self) -> DataType {
        let nested = (self.object, self.array);
        if nested.0.is_some() || nested.1.is_some() {
            let flat = self.bool || self.whole || self.beyond_64_bits || self.beyond_38_digits || self.real;
            let flat = flat || self.date || self.local || self.instant || self.other;
            return match nested {
                (Some(table), None) if !flat && (1..=WIDEST).contains(&table.columns.len()) => {
                    let field = |(name, seen): (String, Seen)| Field {
                        id: 0,
                        name,
                        data_type: seen.data_type(),
                        nullable: true,
                        description: None,
                    };
                    DataType::Row(table.columns.into_iter().map(field).collect())
                }
                (None, Some(element)) if !flat => DataType::Array(Box::new(Item { data_type: element.data_type(), nullable: true })),
                _ => DataType::String,
            };
        }
        let numbers = self.whole || self.beyond_64_bits || self.beyond_38_digits || self.real;
        let moments = self.date || self.local || self.instant;
        let fits = |precision| if self.fine { 6 } else { precision };
        match (self.bool, numbers, moments, self.other) {
            (true, false, false, false) => DataType::Boolean,
            (false, true, false, false) if self.real => DataType::Double,
            (false, true, false, false) if self.beyond_38_digits => DataType::String,
            (false, true, false, false) if self.beyond_64_bits => DataType::Decimal { precision: 38, scale: 0 },
            (false, true, false, false) => DataType::BigInt,
            (false, false, true, false) if self.instant && (self.local || self.date) => DataType::String,
            (false, false, true, false) if self.instant => DataType::TimestampLtz(fits(3)),
            (false, false, true, false) if self.local => DataType::Timestamp(fits(3)),
            (false, false, true, false) => DataType::Date,
            _ => DataType::String,
        }
    }
}

/// Names in the order of their first appearance, and what was seen.
#[derive(Default)]
struct Table {
    columns: Vec<(String, Seen)>,
    index: HashMap<String, usize>,
}

impl Table {
    fn column(&mut self, name: &str) -> &mut Seen {
        let at = *self.index.entry(name.to_owned()).or_insert(self.columns.len());
        if at == self.columns.len() {
            self.columns.push((name.to_owned(), Seen::default()));
        }
        &mut self.columns[at].1
    }
}

/// Columns for records like these; records that cannot be read are left aside. `Invalid` when there are no columns to see.
pub fn infer(format: RecordFormat, options: &CsvOptions, sample: &[Records]) -> Result<Vec<ColumnSpec>> {
    let mut table = Table::default();
    for records in sample {
        for i in (0..records.len()).filter(|i| !records.faults.iter().any(|(fault, _)| fault == i)) {
            match format {
                RecordFormat::Json => json(&mut table, records.value(i)),
                RecordFormat::Csv => csv(&mut table, records, i, options),
                RecordFormat::Parquet => {}
            }
        }
    }
    if table.columns.is_empty() {
        let what = format!(
            "columns cannot be inferred: none of the {} records of the sample has one",
            sample.iter().map(Records::len).sum::<usize>()
        );
        return Err(Error::invalid(what).hint("list the columns in the pipeline file, or correct `decode.format`"));
    }
    let column = |(name, seen): (String, Seen)| ColumnSpec { name, type_text: seen.data_type().to_string(), ..ColumnSpec::default() };
    Ok(table.columns.into_iter().map(column).collect())
}

fn json(table: &mut Table, record: &[u8]) {
    let record = record.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(record);
    if std::str::from_utf8(record).is_err() {
        return;
    }
    let Some(members) = members(record) else { return };
    for (name, kind, text) in members {
        table.column(&name).json(kind, text, 1);
    }
}

/// The elements of an array.
fn elements(array: &[u8]) -> Option<Vec<(Kind, &[u8])>> {
    let mut s = Scanner::new(array, 1);
    s.blanks();
    let mut out = Vec::new();
    let mut done = s.peek() == b']';
    while !done {
        let (kind, start, end) = s.value(1).ok()?;
        out.push((kind, &array[start..end]));
        done = s.next(b']').ok()?;
    }
    Some(out)
}

/// The members of a record that is an object; none when it is not one through its end.
fn members(record: &[u8]) -> Option<Vec<(String, Kind, &[u8])>> {
    let mut s = Scanner::new(record, 0);
    s.blanks();
    if s.peek() != b'{' {
        return None;
    }
    s.at += 1;
    s.blanks();
    let mut out = Vec::new();
    let mut plain = Vec::new();
    let mut done = s.peek() == b'}';
    s.at += usize::from(done);
    while !done {
        let (start, end, escapes) = s.key().ok()?;
        let mut name = &record[start..end];
        let mut half = false;
        if escapes {
            half = unescape(name, &mut plain).is_err();
            name = &plain;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        s.colon().ok()?;
        let (kind, start, end) = s.value(1).ok()?;
        if !half && !name.is_empty() {
            out.push((name, kind, &record[start..end]));
        }
        done = s.next(b'}').ok()?;
    }
    s.blanks();
    s.at_end().then_some(out)
}

fn csv(table: &mut Table, records: &Records, i: usize, options: &CsvOptions) {
    let record = records.value(i);
    let (start, end) = line(record, 0, record.len());
    let record = &record[start..end];
    let mut fields: Vec<CsvField> = Vec::new();
    if std::str::from_utf8(record).is_err() || split(record, 0, record.len(), options, |f| fields.push(f)).is_err() {
        return;
    }
    let header = records.origin.header.as_ref().filter(|_| options.header);
    if header.is_some_and(|h| h.len() != fields.len()) {
        return;
    }
    let mut plain = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let name = header.and_then(|h| h.get(at).cloned()).unwrap_or_else(|| format!("c{}", at + 1));
        let mut text = &record[field.start..field.end];
        if field.doubled {
            undouble(text, options.quote, &mut plain);
            text = &plain;
        }
        let seen = table.column(&name);
        let null = options.null.as_deref().is_some_and(|null| null.as_bytes() == text);
        if field.quoted || !(text.is_empty() || null) {
            seen.csv(text);
        }
    }
}
