//! Every type with its extremes: as NDJSON has a value, and as every reader must say it. Written by hand, not taken from our output.

use std::cmp::Ordering;

use super::quirks::{By, orders};
use super::readers::Row;

/// How the values of a column compare.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Whole,
    Float,
    Double,
    Text,
    Bytes,
}

/// A column and its values, least first: JSON text and canonical text.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
    pub(crate) kind: Kind,
    pub(crate) values: Vec<(String, String)>,
}

impl Column {
    /// A value as a reader shows and compares it: Spark fills a CHAR(n) up with blanks.
    pub(crate) fn seen_by(&self, reader: &str, text: &str) -> String {
        let width = self.sql.strip_prefix("CHAR(").and_then(|s| s.strip_suffix(')')).and_then(|n| n.parse().ok());
        match width {
            Some(width) if reader == "spark" => format!("{text:width$}"),
            _ => text.to_owned(),
        }
    }
}

fn json_text(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let n = chunk.iter().chain([&0, &0]).take(3).fold(0u32, |n, b| n << 8 | u32::from(*b));
        let letters = (0..4).map(|i| char::from(LETTERS[(n >> (18 - 6 * i)) as usize & 63]));
        letters.take(chunk.len() + 1).chain("==".chars().take(3 - chunk.len())).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    format!("hex:{}", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
}

/// Values whose JSON text is the canonical one.
fn same(values: &[&str]) -> Vec<(String, String)> {
    values.iter().map(|v| ((*v).to_owned(), (*v).to_owned())).collect()
}

fn texts(values: &[String]) -> Vec<(String, String)> {
    values.iter().map(|v| (json_text(v), v.clone())).collect()
}

/// Texts, quoted in JSON and spelt `us:...` or `day:...` by readers.
fn times(prefix: &str, values: &[(&str, i64)]) -> Vec<(String, String)> {
    values.iter().map(|(json, n)| (json_text(json), format!("{prefix}:{n}"))).collect()
}

fn strings() -> Vec<String> {
    let mut all = vec![
        String::new(),
        " ".to_owned(),
        "null".to_owned(),
        "NULL".to_owned(),
        "line\nbreak\ttab \"quoted\" \\ \u{0}end".to_owned(),
        "ünï 漢字 😀".to_owned(),
        "abcdefghijklmno\u{10FFFF}z".to_owned(), // 17 characters, the 16th is the greatest there is
        "abcdefghijklmno\u{D7FF}z".to_owned(),
        "é".repeat(17),
        "x".repeat(1001),
        format!("{}{}", "x".repeat(1000), "漢".repeat(200)),
        "\u{FFFF}".repeat(20),
        "\u{10FFFF}".repeat(20),
    ];
    all.sort_unstable();
    all
}

/// Every type: values in ascending order, nulls come from [`rows`].
pub(crate) fn columns() -> Vec<Column> {
    let c = |name, sql, kind, values| Column { name, sql, kind, values };
    let float = |values: &[f32]| {
        let json = |v: &f32| if v.is_finite() { format!("{v:?}") } else { json_text(&format!("{v}").replace("inf", "Infinity")) };
        values.iter().map(|v| (json(v), format!("f32:{:08x}", v.to_bits()))).collect::<Vec<_>>()
    };
    let double = |values: &[f64]| {
        let json = |v: &f64| if v.is_finite() { format!("{v:?}") } else { json_text(&format!("{v}").replace("inf", "Infinity")) };
        values.iter().map(|v| (json(v), format!("f64:{:016x}", v.to_bits()))).collect::<Vec<_>>()
    };
    let short = |most: usize| strings().into_iter().filter(|s| s.chars().count() <= most).collect::<Vec<_>>();
    let mut three = ["", "a", "abc", "é€😀", "\u{FFFF}\u{FFFF}\u{FFFF}", "\u{10FFFF}\u{10FFFF}\u{10FFFF}"].map(str::to_owned);
    three.sort_unstable();
    let bytes: [Vec<u8>; 7] = [vec![], vec![0], vec![0; 20], vec![0x7f, 0xff], vec![0x80], vec![0xff; 3], vec![0xff; 1001]];
    let bytes = bytes.iter().map(|b| (json_text(&base64(b)), hex(b))).collect();
    let ms = [
        ("0001-01-01 00:00:00", -62_135_596_800_000_000),
        ("1969-12-31 23:59:59.999", -1000),
        ("1970-01-01 00:00:00", 0),
        ("2023-11-14 22:13:20.123", 1_700_000_000_123_000),
        ("9999-12-31 23:59:59.999", 253_402_300_799_999_000),
    ];
    let us = [
        ("0001-01-01 00:00:00", -62_135_596_800_000_000),
        ("1969-12-31 23:59:59.999999", -1),
        ("1970-01-01 00:00:00.000", 0),
        ("2023-11-14 22:13:20.123456", 1_700_000_000_123_456),
        ("9999-12-31 23:59:59.999999", 253_402_300_799_999_999),
    ];
    let zoned = [
        ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
        ("1970-01-01T00:59:59.999+01:00", -1000),
        ("1970-01-01T00:00:00Z", 0),
        ("2023-11-14T16:13:20.123-06:00", 1_700_000_000_123_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999_000),
    ];
    vec![
        c("b", "BOOLEAN", Kind::Whole, same(&["false", "true"])),
        c("i8", "TINYINT", Kind::Whole, same(&["-128", "-1", "0", "1", "127"])),
        c("i16", "SMALLINT", Kind::Whole, same(&["-32768", "-1", "0", "1", "32767"])),
        c("i32", "INT", Kind::Whole, same(&["-2147483648", "-1", "0", "1", "2147483647"])),
        c("i64", "BIGINT", Kind::Whole, same(&["-9223372036854775808", "-1", "0", "1", "9007199254740993", "9223372036854775807"])),
        c("f", "FLOAT", Kind::Float, float(&[f32::NEG_INFINITY, f32::MIN, -1.5, -1e-45, -0.0, 0.0, 1e-45, 1.5, f32::MAX, f32::INFINITY])),
        c("f_nan", "FLOAT", Kind::Float, float(&[-0.0, 0.0, 1.5, f32::NAN])),
        c(
            "d",
            "DOUBLE",
            Kind::Double,
            double(&[f64::NEG_INFINITY, f64::MIN, -0.1, -5e-324, -0.0, 0.0, 5e-324, 0.1, f64::MAX, f64::INFINITY]),
        ),
        c("d_nan", "DOUBLE", Kind::Double, double(&[-1.5, -0.0, 0.0, f64::NAN])),
        c("dec1", "DECIMAL(1, 0)", Kind::Whole, same(&["-9", "-1", "0", "1", "9"])),
        c("dec9", "DECIMAL(9, 2)", Kind::Whole, same(&["-9999999.99", "-0.01", "0.00", "0.01", "9999999.99"])),
        c("dec10", "DECIMAL(10, 2)", Kind::Whole, same(&["-99999999.99", "-0.01", "0.00", "0.01", "99999999.99"])),
        c("dec18", "DECIMAL(18, 4)", Kind::Whole, same(&["-99999999999999.9999", "-0.0001", "0.0000", "1.0000", "99999999999999.9999"])),
        c("dec19", "DECIMAL(19, 0)", Kind::Whole, same(&["-9999999999999999999", "-1", "0", "1", "9999999999999999999"])),
        c(
            "dec38",
            "DECIMAL(38, 10)",
            Kind::Whole,
            same(&[
                "-9999999999999999999999999999.9999999999",
                "-0.0000000001",
                "0.0000000000",
                "1.0000000000",
                "9999999999999999999999999999.9999999999",
            ]),
        ),
        c(
            "dec38_38",
            "DECIMAL(38, 38)",
            Kind::Whole,
            same(&[
                "-0.99999999999999999999999999999999999999",
                "-0.00000000000000000000000000000000000001",
                "0.00000000000000000000000000000000000000",
                "0.99999999999999999999999999999999999999",
            ]),
        ),
        c("s", "STRING", Kind::Text, texts(&strings())),
        c("c", "CHAR(3)", Kind::Text, texts(&three)),
        c("v", "VARCHAR(20)", Kind::Text, texts(&short(20))),
        c("y", "BYTES", Kind::Bytes, bytes),
        c(
            "dt",
            "DATE",
            Kind::Whole,
            times(
                "day",
                &[("0001-01-01", -719_162), ("1969-12-31", -1), ("1970-01-01", 0), ("2024-02-29", 19_782), ("9999-12-31", 2_932_896)],
            ),
        ),
        c("t3", "TIMESTAMP(3)", Kind::Whole, times("us", &ms)),
        c("t6", "TIMESTAMP(6)", Kind::Whole, times("us", &us)),
        c("l3", "TIMESTAMP(3) WITH LOCAL TIME ZONE", Kind::Whole, times("us", &zoned)),
        c("l6", "TIMESTAMP(6) WITH LOCAL TIME ZONE", Kind::Whole, times("us", &us)),
    ]
}

/// A row to write and to expect: `id`, then a value of each column.
pub(crate) struct Line {
    pub(crate) json: String,
    pub(crate) row: Row,
}

/// Gives rows their ids.
struct Lines<'a> {
    columns: &'a [Column],
    id: usize,
}

impl Lines<'_> {
    /// A row: of each column the value that `pick` says, or null, spelt out or left out.
    fn next(&mut self, pick: impl Fn(&Column) -> Option<usize>, say_null: bool) -> Line {
        self.id += 1;
        let mut json = format!("{{\"id\":{}", self.id);
        let mut row = vec![Some(self.id.to_string())];
        for column in self.columns {
            let value = pick(column).map(|i| &column.values[i]);
            match value {
                Some((text, _)) => json += &format!(",\"{}\":{text}", column.name),
                None if say_null => json += &format!(",\"{}\":null", column.name),
                None => {}
            }
            row.push(value.map(|(_, text)| text.clone()));
        }
        Line { json: json + "}", row }
    }
}

fn longest(columns: &[Column]) -> usize {
    columns.iter().map(|c| c.values.len()).max().unwrap()
}

/// Rows of six files. Four hold ascending ranges of each column, one spans all of them, one is null but for `id`. Two rows of the others are
/// null too: one says so, one leaves the keys out.
pub(crate) fn files(columns: &[Column]) -> Vec<Vec<Line>> {
    const IN_A_QUARTER: usize = 5;
    let mut lines = Lines { columns, id: 0 };
    let mut files: Vec<Vec<Line>> = Vec::new();
    for quarter in 0..4 {
        let at = |r: usize| move |c: &Column| Some((quarter * IN_A_QUARTER + r) * c.values.len() / (4 * IN_A_QUARTER));
        files.push((0..IN_A_QUARTER).map(|r| lines.next(at(r), true)).collect());
    }
    files[1].push(lines.next(|_| None, true));
    files.push((0..longest(columns)).map(|r| lines.next(|c| Some(r % c.values.len()), true)).collect());
    files[4].push(lines.next(|_| None, false));
    files.push((0..3).map(|_| lines.next(|_| None, false)).collect());
    files
}

/// Each value in a file of its own, where it is minimum and maximum at once.
pub(crate) fn single_files(columns: &[Column]) -> Vec<Vec<Line>> {
    let mut lines = Lines { columns, id: 0 };
    (0..longest(columns)).map(|r| vec![lines.next(|c| Some(r % c.values.len()), true)]).collect()
}

/// How two values compare; none: they do not (NaN).
fn order(by: By, kind: Kind, a: &str, b: &str) -> Option<Ordering> {
    match (kind, by) {
        (Kind::Whole, _) => Some(whole(a).cmp(&whole(b))),
        (Kind::Bytes, By::Signed) => Some(signed(a).cmp(&signed(b))),
        (Kind::Float | Kind::Double, By::NanLast) => {
            let (a, b) = (float(kind, a), float(kind, b));
            a.partial_cmp(&b).or_else(|| Some(a.is_nan().cmp(&b.is_nan())))
        }
        (Kind::Text | Kind::Bytes, _) => Some(a.as_bytes().cmp(b.as_bytes())), // hexadecimal keeps the order
        (Kind::Float | Kind::Double, _) => {
            let (a, b) = (float(kind, a), float(kind, b));
            if matches!(by, By::Total) { Some(a.total_cmp(&b)) } else { a.partial_cmp(&b) }
        }
    }
}

fn float(kind: Kind, text: &str) -> f64 {
    let bits = u64::from_str_radix(&text[4..], 16).unwrap();
    match kind {
        Kind::Float => f64::from(f32::from_bits(u32::try_from(bits).unwrap())),
        _ => f64::from_bits(bits),
    }
}

fn whole(text: &str) -> i128 {
    match text {
        "false" => 0,
        "true" => 1,
        _ => text.trim_start_matches("day:").trim_start_matches("us:").replace('.', "").parse().unwrap(),
    }
}

fn signed(text: &str) -> Vec<i8> {
    let digits = text.strip_prefix("hex:").unwrap();
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap().cast_signed()).collect()
}

/// Is a row with this value in a reader's answer to a filter?
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kept {
    Yes,
    No,
    /// The reader is not of one mind.
    Either,
}

pub(crate) fn kept(reader: &str, kind: Kind, value: Option<&str>, op: &str, bound: &str) -> Kept {
    let orders = orders(reader, kind);
    let passing = orders.iter().filter(|by| passes(**by, kind, value, op, bound)).count();
    match passing {
        n if n == orders.len() => Kept::Yes,
        0 => Kept::No,
        _ if reader == "spark" => Kept::Either,
        // The second filter of tests/interop is exact; Java's second is by signed bytes, its first by groups of rows only.
        _ if kind == Kind::Bytes && passes(By::Signed, kind, value, op, bound) => Kept::Either,
        _ => Kept::No,
    }
}

fn passes(by: By, kind: Kind, value: Option<&str>, op: &str, bound: &str) -> bool {
    let Some(value) = value else { return op == "is_null" };
    let order = || order(by, kind, value, bound);
    match op {
        "is_null" => false,
        "is_not_null" => true,
        "eq" => order() == Some(Ordering::Equal),
        "ge" => order().is_some_and(Ordering::is_ge),
        "le" => order().is_some_and(Ordering::is_le),
        "gt" => order().is_some_and(Ordering::is_gt),
        "lt" => order().is_some_and(Ordering::is_lt),
        _ => panic!("{op}"),
    }
}

/// What is wrong with the rows of a reader's answer to a filter, in terms of their first column.
pub(crate) fn filtered_wrongly(
    reader: &str,
    kind: Kind,
    found: &[Row],
    rows: &[Row],
    at: usize,
    op: &str,
    bound: Option<&str>,
) -> Option<String> {
    let (mut lost, mut extra) = (Vec::new(), Vec::new());
    for row in rows {
        let there = found.iter().filter(|f| f[0] == row[0]).count();
        match kept(reader, kind, row[at].as_deref(), op, bound.unwrap_or_default()) {
            Kept::Yes if there == 0 => lost.push(&row[0]),
            Kept::No if there > 0 => extra.push(&row[0]),
            _ if there > 1 => extra.push(&row[0]),
            _ => {}
        }
    }
    let wrong = !lost.is_empty() || !extra.is_empty();
    wrong.then(|| format!("lost {lost:?}, has too much {extra:?}"))
}
