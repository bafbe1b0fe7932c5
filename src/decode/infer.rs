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
//! | anything else, a mixture, nothing | STRING (objects and arrays as JSON text) |
//!
//! In CSV the text of a field decides, quoted or not; a number that begins with a superfluous 0 (`00123`) is a text.

use std::collections::HashMap;

use super::cast;
use super::csv::{CsvField, line, split, undouble};
use super::rows::Kind;
use super::scan::{Scanner, unescape};
use super::{ColumnSpec, CsvOptions, RecordFormat};
use crate::error::{Error, Result};
use crate::schema::DataType;
use crate::source::Records;
use crate::text::number::{Exact, NotExact};
use crate::text::time::{parse_date, parse_timestamp};

/// What was seen of one column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

    fn data_type(self) -> DataType {
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
        let seen = table.column(&name);
        match kind {
            Kind::Null | Kind::Absent => {}
            Kind::True | Kind::False => seen.bool = true,
            Kind::Number => seen.number(text),
            Kind::Text => seen.text(text),
            Kind::Escaped | Kind::Json | Kind::NotObject => seen.other = true,
        }
    }
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
