//! What goes to standard output: rows of named, typed values, in one of four forms.
//!
//! In `json` and `jsonl` whole numbers and floats are numbers, everything that a number would bend is text: decimals, dates and times
//! (RFC 3339; a `Z` only on instants), bytes (hexadecimal), `NaN` and `Infinity`. Keys keep the order of the columns. Beside an identifier
//! of `i64::MAX`, which few JSON readers get right, stands `end_of_input: true`. In `csv` a null is an empty field and an empty string is
//! `""`, as `ingest` reads them. The form `table` is for eyes: sizes are rounded, control characters shown, long texts cut.

use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

use crate::cli::Failed;
use crate::format::END_OF_INPUT;
use crate::schema::Hex;

/// A table on a terminal is drawn anew after so many rows, so that memory stays bounded.
const ROWS_PER_TABLE: usize = 10_000;
/// A terminal that says it is narrower does not know its width; lines are then as long as they are.
const NARROWEST: u16 = 40;
/// A text in a table is cut after so many characters.
const LONGEST_CELL: usize = 300;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// Drawn, for eyes (default on a terminal)
    Table,
    /// One array
    Json,
    /// One object a line (default in a pipe)
    Jsonl,
    /// A header and a line for each row
    Csv,
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Count(u64),
    Float(f32),
    Double(f64),
    Text(String),
    /// A commit user in a list: for eyes the beginning of its uuid will do.
    User(String),
    /// Bytes, shown in hexadecimal.
    Hex(Vec<u8>),
    /// Bytes that most likely are text: text where they are UTF-8, else `{"hex": ..}`.
    Raw(Vec<u8>),
    /// A number of bytes.
    Size(u64),
    /// Milliseconds since 1970-01-01 UTC.
    Time(i64),
    /// Seconds.
    Age(u64),
    /// A commit identifier.
    Identifier(i64),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
    /// A list or a map that is JSON in every form.
    Json(Box<Value>),
}

impl Value {
    /// Text.
    pub(crate) fn text(text: impl Into<String>) -> Value {
        Value::Text(text.into())
    }
    /// The value, or null.
    pub(crate) fn or_null<T>(value: Option<T>, make: impl FnOnce(T) -> Value) -> Value {
        value.map_or(Value::Null, make)
    }

    /// As the key of a JSON object.
    pub(crate) fn key(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            other => serde_json::to_string(other).unwrap_or_default().trim_matches('"').to_owned(),
        }
    }

    fn is_number(&self) -> bool {
        matches!(
            self,
            Value::Int(_) | Value::Count(_) | Value::Float(_) | Value::Double(_) | Value::Size(_) | Value::Age(_) | Value::Identifier(_)
        )
    }

    /// For eyes.
    fn shown(&self) -> String {
        match self {
            Value::Null => "null".to_owned(),
            Value::Bool(v) => v.to_string(),
            Value::Int(v) => v.to_string(),
            Value::Count(v) => v.to_string(),
            Value::Float(_) | Value::Double(_) => serde_json::to_string(self).unwrap_or_default().trim_matches('"').to_owned(),
            Value::Text(v) => readable(v),
            Value::User(v) => readable(&brief(v)),
            Value::Hex(v) => readable(&Hex(v).to_string()),
            Value::Raw(v) => match std::str::from_utf8(v) {
                Ok(text) => readable(text),
                Err(_) => readable(&format!("hex:{}", Hex(v))),
            },
            Value::Size(v) => size(*v),
            Value::Time(v) => instant(*v, "%Y-%m-%d %H:%M:%SZ"),
            Value::Age(v) => age(*v),
            Value::Identifier(END_OF_INPUT) => "end of input".to_owned(),
            Value::Identifier(v) => v.to_string(),
            Value::List(all) => readable(&all.iter().map(Value::shown).collect::<Vec<_>>().join(", ")),
            Value::Json(v) => readable(&serde_json::to_string(v).unwrap_or_default()),
            Value::Map(all) => readable(&all.iter().map(|(k, v)| format!("{k}={}", v.shown())).collect::<Vec<_>>().join(", ")),
        }
    }

    /// One field of a CSV line, quoted where it must be.
    fn csv(&self) -> String {
        match self {
            Value::Null => String::new(),
            Value::Text(v) | Value::User(v) => csv_text(v),
            Value::Hex(v) => csv_text(&Hex(v).to_string()),
            Value::Raw(v) => match std::str::from_utf8(v) {
                Ok(text) => csv_text(text),
                Err(_) => format!("hex:{}", Hex(v)),
            },
            Value::Size(v) => v.to_string(),
            Value::Age(v) => v.to_string(),
            Value::Identifier(v) => v.to_string(),
            Value::List(_) | Value::Map(_) | Value::Json(_) => csv_text(&serde_json::to_string(self).unwrap_or_default()),
            Value::Time(v) => instant(*v, RFC_3339),
            Value::Bool(_) | Value::Int(_) | Value::Count(_) | Value::Float(_) | Value::Double(_) => self.shown(),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Null => s.serialize_unit(),
            Value::Bool(v) => s.serialize_bool(*v),
            Value::Int(v) | Value::Identifier(v) => s.serialize_i64(*v),
            Value::Count(v) | Value::Size(v) | Value::Age(v) => s.serialize_u64(*v),
            Value::Float(v) if v.is_finite() => s.serialize_f32(*v),
            Value::Double(v) if v.is_finite() => s.serialize_f64(*v),
            Value::Float(v) => s.serialize_str(not_finite(f64::from(*v))),
            Value::Double(v) => s.serialize_str(not_finite(*v)),
            Value::Text(v) | Value::User(v) => s.serialize_str(v),
            Value::Hex(v) => s.collect_str(&Hex(v)),
            Value::Raw(v) => match std::str::from_utf8(v) {
                Ok(text) => s.serialize_str(text),
                Err(_) => object(s, [("hex", &Value::Hex(v.clone()))].into_iter()),
            },
            Value::Time(v) => s.serialize_str(&instant(*v, RFC_3339)),
            Value::List(all) => {
                let mut list = s.serialize_seq(Some(all.len()))?;
                all.iter().try_for_each(|v| list.serialize_element(v))?;
                list.end()
            }
            Value::Json(v) => v.serialize(s),
            Value::Map(all) => object(s, all.iter().map(|(k, v)| (k.as_str(), v))),
        }
    }
}

fn object<'a, S: Serializer>(s: S, entries: impl Iterator<Item = (&'a str, &'a Value)>) -> Result<S::Ok, S::Error> {
    let mut map = s.serialize_map(None)?;
    for (key, value) in entries {
        map.serialize_entry(key, value)?;
        if *value == Value::Identifier(END_OF_INPUT) {
            map.serialize_entry("end_of_input", &true)?;
        }
    }
    map.end()
}

fn not_finite(v: f64) -> &'static str {
    match v {
        v if v.is_nan() => "NaN",
        v if v > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}

/// The names of the values of each row.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    names: Vec<String>,
    /// Which of them is an identifier, beside which `end_of_input` stands.
    identifier: Option<usize>,
}

impl Columns {
    /// These.
    pub(crate) fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Columns { names: names.into_iter().map(Into::into).collect(), identifier: None }
    }
    /// The column of this name holds commit identifiers.
    pub(crate) fn identifier(mut self, name: &str) -> Self {
        self.identifier = self.names.iter().position(|n| n == name);
        self
    }
    fn csv_header(&self) -> String {
        let mut fields = Vec::new();
        for (i, name) in self.names.iter().enumerate() {
            fields.push(csv_text(name));
            if self.identifier == Some(i) {
                fields.push("end_of_input".to_owned());
            }
        }
        fields.join(",")
    }
    fn csv_line(&self, row: &[Value]) -> String {
        let mut fields = Vec::new();
        for (i, value) in row.iter().enumerate() {
            fields.push(value.csv());
            if self.identifier == Some(i) {
                fields.push((*value == Value::Identifier(END_OF_INPUT)).to_string());
            }
        }
        fields.join(",")
    }
}

struct Object<'a> {
    names: &'a [String],
    row: &'a [Value],
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        object(s, self.names.iter().map(String::as_str).zip(self.row))
    }
}

/// Where data goes.
pub(crate) struct Output {
    form: Form,
    asked: Option<Form>,
    /// Fit tables into the terminal's width?
    fit: bool,
    out: Box<dyn Write>,
}

impl Output {
    /// Standard output; without a form asked for, the one that suits it.
    pub(crate) fn stdout(asked: Option<Form>) -> Output {
        let terminal = io::stdout().is_terminal();
        let form = asked.unwrap_or(if terminal { Form::Table } else { Form::Jsonl });
        Output { form, asked, fit: terminal, out: Box::new(BufWriter::with_capacity(1 << 16, io::stdout())) }
    }

    /// The form in which rows are written.
    pub(crate) fn form(&self) -> Form {
        self.form
    }
    /// The form that was asked for, if one was.
    pub(crate) fn asked(&self) -> Option<Form> {
        self.asked
    }

    /// Begins rows.
    pub(crate) fn rows(&mut self, columns: Columns) -> Rows<'_> {
        Rows { output: self, columns, written: 0, drawn: Vec::new() }
    }

    /// One object; drawn as a list of names and values.
    pub(crate) fn one(&mut self, entries: Vec<(&'static str, Value)>) -> Result<(), Failed> {
        if self.form == Form::Table {
            let mut table = self.table();
            for (name, value) in entries {
                let lines = match &value {
                    Value::List(all) if !all.is_empty() => all.iter().map(Value::shown).collect::<Vec<_>>().join("\n"),
                    Value::Map(all) if !all.is_empty() => {
                        all.iter().map(|(k, v)| format!("{} = {}", readable(k), v.shown())).collect::<Vec<_>>().join("\n")
                    }
                    Value::List(_) | Value::Map(_) => "none".to_owned(),
                    other => other.shown(),
                };
                table.add_row([name.to_owned(), lines]);
            }
            writeln!(self.out, "{}", table.trim_fmt())?;
            return Ok(self.out.flush()?);
        }
        let identifier = entries.iter().position(|(_, v)| matches!(v, Value::Identifier(_)));
        let (names, row): (Vec<String>, Vec<Value>) = entries.into_iter().map(|(n, v)| (n.to_owned(), v)).unzip();
        let mut rows = self.rows(Columns { names, identifier });
        rows.push(row)?;
        rows.finish()
    }

    /// A document that is JSON anyway: on one line in `jsonl`, else indented.
    pub(crate) fn object(&mut self, value: serde_json::Value) -> Result<(), Failed> {
        self.text(&if self.form == Form::Jsonl { value.to_string() } else { format!("{value:#}") })
    }

    /// Text as it is, for what is no row.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failed> {
        self.out.write_all(text.as_bytes())?;
        if !text.ends_with('\n') {
            self.out.write_all(b"\n")?;
        }
        Ok(self.out.flush()?)
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        if self.fit && table.width().is_some_and(|w| w >= NARROWEST) {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        table
    }
}

/// Rows that are being written.
pub(crate) struct Rows<'a> {
    output: &'a mut Output,
    columns: Columns,
    written: u64,
    drawn: Vec<Vec<Value>>,
}

impl Rows<'_> {
    /// The next row; as many values as there are columns.
    pub(crate) fn push(&mut self, row: Vec<Value>) -> Result<(), Failed> {
        let out = &mut self.output.out;
        let object = Object { names: &self.columns.names, row: &row };
        match self.output.form {
            Form::Table => {
                self.drawn.push(row);
                if self.drawn.len() >= ROWS_PER_TABLE {
                    self.draw()?;
                }
            }
            Form::Json => {
                out.write_all(if self.written == 0 { b"[\n  " } else { b",\n  " })?;
                serde_json::to_writer(&mut *out, &object).map_err(io::Error::from)?;
            }
            Form::Jsonl => {
                serde_json::to_writer(&mut *out, &object).map_err(io::Error::from)?;
                out.write_all(b"\n")?;
            }
            Form::Csv => {
                if self.written == 0 {
                    writeln!(out, "{}", self.columns.csv_header())?;
                }
                writeln!(out, "{}", self.columns.csv_line(&row))?;
            }
        }
        self.written += 1;
        Ok(())
    }

    /// Writes what must stand after the last row, and everything out.
    pub(crate) fn finish(mut self) -> Result<(), Failed> {
        match self.output.form {
            Form::Table if self.written == 0 || !self.drawn.is_empty() => self.draw()?,
            Form::Json if self.written == 0 => self.output.out.write_all(b"[]\n")?,
            Form::Json => self.output.out.write_all(b"\n]\n")?,
            Form::Csv if self.written == 0 => writeln!(self.output.out, "{}", self.columns.csv_header())?,
            Form::Table | Form::Jsonl | Form::Csv => {}
        }
        Ok(self.output.out.flush()?)
    }

    fn draw(&mut self) -> Result<(), Failed> {
        let mut table = self.output.table();
        table.set_header(self.columns.names.iter().map(|n| readable(n)));
        for row in self.drawn.drain(..) {
            table.add_row(row.iter().map(|value| {
                let cell = Cell::new(value.shown());
                if value.is_number() { cell.set_alignment(CellAlignment::Right) } else { cell }
            }));
        }
        writeln!(self.output.out, "{}", table.trim_fmt())?;
        Ok(())
    }
}

/// Control characters spelled out (a value must not drive the terminal), long texts cut.
fn readable(text: &str) -> String {
    let mut shown = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == LONGEST_CELL {
            shown.push('…');
            break;
        }
        // Writing into a `String` does not fail.
        let _ = if c.is_control() { write!(shown, "{}", c.escape_default()) } else { write!(shown, "{c}") };
    }
    shown
}

/// The empty string is `""`; nothing at all is null.
fn csv_text(text: &str) -> String {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

const RFC_3339: &str = "%Y-%m-%dT%H:%M:%S%.3fZ";

/// The number itself where the calendar ends.
fn instant(ms: i64, format: &str) -> String {
    match chrono::DateTime::from_timestamp_millis(ms) {
        Some(time) => time.format(format).to_string(),
        None => ms.to_string(),
    }
}

/// `orders-a32d41d1…` of `orders-a32d41d1-46cc-436e-92a5-9ad1da420820`.
fn brief(user: &str) -> String {
    let at = user.len().saturating_sub(36);
    match user.get(at..).filter(|end| uuid::Uuid::parse_str(end).is_ok()) {
        Some(_) => format!("{}…", &user[..at + 8]),
        None => user.to_owned(),
    }
}

/// The two greatest units: `3d 4h`.
fn age(seconds: u64) -> String {
    let (d, h, m, s) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (d, h, m) {
        (0, 0, 0) => format!("{s}s"),
        (0, 0, m) => format!("{m}m {s}s"),
        (0, h, m) => format!("{h}h {m}m"),
        (d, h, _) => format!("{d}d {h}h"),
    }
}

#[cfg(test)]
mod tests;
