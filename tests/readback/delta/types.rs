//! Every type with its extremes, in a column and as a partition, with filters at every value and one step beside it, against brute force.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::json;

use crate::readback::quirks::refuses_filter;
use crate::readback::readers::{DELTA_READERS, Row, ask, compared, count_comparison, difference, each, rows_of};
use crate::readback::values::{Column, Kind, Line, columns, files, filtered_wrongly, single_files};
use crate::readback::{Folder, columns_yaml, ingest, pipeline};

/// The unscaled integers that a type has; none for texts, bytes and floats.
fn range(sql: &str) -> Option<(i128, i128)> {
    let digits = |sql: &str| sql.strip_prefix("DECIMAL(").and_then(|s| s.split([',', ')']).next()).and_then(|p| p.parse::<u32>().ok());
    Some(match sql {
        "TINYINT" => (-128, 127),
        "SMALLINT" => (-32768, 32767),
        "INT" => (i32::MIN.into(), i32::MAX.into()),
        "BIGINT" => (i64::MIN.into(), i64::MAX.into()),
        // Where Python's and our texts end.
        "DATE" => (-719_162, 2_932_896),
        _ if sql.starts_with("TIMESTAMP") => (-62_135_596_800_000_000, 253_402_300_799_999_999),
        _ => digits(sql).map(|p| (1 - 10i128.pow(p), 10i128.pow(p) - 1))?,
    })
}

/// The values next to this one, below and above, as far as the type has them.
fn beside(column: &Column, text: &str) -> (Option<String>, Option<String>) {
    let some = |all: Vec<String>| all.into_iter().next();
    match column.kind {
        Kind::Whole => {
            let Some((least, most)) = range(column.sql) else { return (None, None) };
            let prefix = text.split_once(':').map_or(String::new(), |(p, _)| format!("{p}:"));
            let number = &text[prefix.len()..];
            let scale = number.split_once('.').map_or(0, |(_, s)| s.len());
            let n: i128 = number.replace('.', "").parse().unwrap();
            let spelt = |n: i128| (least..=most).contains(&n).then(|| format!("{prefix}{}", crate::readback::model::decimal(n, scale)));
            (spelt(n - 1), spelt(n + 1))
        }
        Kind::Float => {
            let v = f32::from_bits(u32::from_str_radix(&text[4..], 16).unwrap());
            let spelt = |v: f32| v.is_finite().then(|| format!("f32:{:08x}", v.to_bits()));
            (spelt(v.next_down()), spelt(v.next_up()))
        }
        Kind::Double => {
            let v = f64::from_bits(u64::from_str_radix(&text[4..], 16).unwrap());
            let spelt = |v: f64| v.is_finite().then(|| format!("f64:{:016x}", v.to_bits()));
            (spelt(v.next_down()), spelt(v.next_up()))
        }
        Kind::Text => {
            let shorter: Vec<char> = text.chars().collect();
            (some(shorter.split_last().map(|(_, rest)| rest.iter().collect()).into_iter().collect()), Some(format!("{text}\u{1}")))
        }
        Kind::Bytes => ((text.len() > 4).then(|| text[..text.len() - 2].to_owned()), Some(format!("{text}00"))),
    }
}

/// What is asked of a column about its values: all comparisons at and beside each of them; briefly, those at both ends that statistics which
/// are too narrow would fail.
fn questions(column: &Column, briefly: bool) -> Vec<(&'static str, Option<String>)> {
    let mut all = vec![("is_null", None)];
    if briefly {
        let (least, most) = (&column.values[0].1, &column.values[column.values.len() - 1].1);
        all.extend([("eq", Some(least.clone())), ("eq", Some(most.clone())), ("le", Some(least.clone())), ("ge", Some(most.clone()))]);
        all.extend(beside(column, least).1.map(|a| ("lt", Some(a))));
        all.extend(beside(column, most).0.map(|b| ("gt", Some(b))));
        return all;
    }
    all.push(("is_not_null", None));
    for (_, value) in &column.values {
        all.extend(["eq", "le", "ge", "lt", "gt"].map(|op| (op, Some(value.clone()))));
        let (below, above) = beside(column, value);
        all.extend(below.into_iter().flat_map(|b| [("gt", Some(b.clone())), ("le", Some(b))]));
        all.extend(above.into_iter().flat_map(|a| [("lt", Some(a.clone())), ("ge", Some(a))]));
    }
    all
}

/// A table and what it must hold: `id`, then these columns.
pub(super) struct Written<'a> {
    pub(super) table: PathBuf,
    pub(super) columns: &'a [Column],
    pub(super) rows: Vec<Row>,
    _folder: Folder,
}

impl<'a> Written<'a> {
    /// One commit for each file, by a pipeline.
    pub(super) async fn new(columns: &'a [Column], files: &[Vec<Line>], partition: Option<&str>, more: &str) -> Written<'a> {
        let mut folder = Folder::new();
        let yaml = columns_yaml([("id", "BIGINT NOT NULL")].into_iter().chain(columns.iter().map(|c| (c.name, c.sql))));
        let by = partition.map_or(String::new(), |p| format!("    partition_by: [{p}]\n"));
        for (i, lines) in files.iter().enumerate() {
            folder.input(lines.iter().map(|l| l.json.as_str()));
            let at_end = if i + 1 == files.len() { "close" } else { "pause" };
            let report = ingest(folder.path(), &pipeline("types", at_end, &format!("    format: delta\n{yaml}{by}{more}"))).await;
            assert_eq!(report.rows, lines.len() as u64);
        }
        let mut rows: Vec<Row> = files.iter().flatten().map(|l| l.row.clone()).collect();
        for row in rows.iter_mut().filter(|_| partition.is_some()) {
            // An empty text is null as a partition.
            row.iter_mut().skip(1).for_each(|cell| *cell = cell.take().filter(|text| !text.is_empty()));
        }
        Written { table: folder.table("types"), columns, rows, _folder: folder }
    }

    /// The rows as a reader shows them.
    fn seen_by(&self, reader: &str) -> Vec<Row> {
        let seen = |i: usize, cell: &Option<String>| {
            cell.as_deref().map(|text| if i == 0 { text.to_owned() } else { self.columns[i - 1].seen_by(reader, text) })
        };
        self.rows.iter().map(|row| row.iter().enumerate().map(|(i, cell)| seen(i, cell)).collect()).collect()
    }

    fn wrong_rows(&self, reader: &str) -> Option<String> {
        let names: Vec<&str> = ["id"].into_iter().chain(self.columns.iter().map(|c| c.name)).collect();
        let answer = ask(reader, &json!({"cmd": "rows", "table": self.table}));
        count_comparison();
        if answer["ok"] != true {
            return Some(format!("{reader}: {answer:.600}"));
        }
        let found = rows_of(&answer, &names);
        let mut expected = self.seen_by(reader);
        expected.sort();
        (found != expected).then(|| format!("{reader} reads {}", difference(&found, &expected)))
    }

    /// What a reader's own push-down gives for filters at each value and beside it. Spark, which takes long over each, is asked fewer.
    fn wrong_filters(&self, reader: &str) -> Vec<String> {
        let (mut wrong, rows) = (Vec::new(), self.seen_by(reader));
        for (i, column) in self.columns.iter().enumerate() {
            for (op, bound) in questions(column, reader == "spark") {
                let filter = bound.as_ref().map_or(json!([column.name, op]), |b| json!([column.name, op, b]));
                count_comparison();
                let answer = ask(reader, &json!({"cmd": "rows", "table": self.table, "filter": filter, "columns": ["id"], "keep": true}));
                if let Some(why) = bound.as_ref().and_then(|b| refuses_filter(reader, column.sql, b)) {
                    if !answer["error"].as_str().is_some_and(|e| e.contains(why)) {
                        wrong.push(format!("{reader} {filter} is not refused: {answer:.300}"));
                    }
                    continue;
                }
                if answer["ok"] != true {
                    wrong.push(format!("{reader} {filter:.80}: {answer:.300}"));
                    continue;
                }
                let found = rows_of(&answer, &["id"]);
                let bound = bound.map(|b| column.seen_by(reader, &b));
                wrong.extend(
                    filtered_wrongly(reader, column.kind, &found, &rows, i + 1, op, bound.as_deref())
                        .map(|w| format!("{reader} {filter:.120}: {w}")),
                );
            }
        }
        wrong
    }

    /// All that is wrong with what the readers give.
    pub(super) fn wrong(&self, filters: bool) -> Vec<String> {
        let wrong = Mutex::new(Vec::new());
        each(&DELTA_READERS, |reader| {
            let mut of_this: Vec<String> = self.wrong_rows(reader).into_iter().collect();
            if filters {
                of_this.extend(self.wrong_filters(reader));
            }
            wrong.lock().unwrap().append(&mut of_this);
        });
        wrong.into_inner().unwrap()
    }
}

fn nothing(wrong: &[String]) {
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn every_type_with_its_extremes_is_read_by_all_and_filters_lose_nothing() {
    let start = Instant::now();
    let columns = columns();
    nothing(&Written::new(&columns, &files(&columns), None, "").await.wrong(true));
    println!("delta types: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn a_value_alone_in_its_file_is_found_by_the_bounds_of_the_file() {
    let start = Instant::now();
    let columns = columns();
    nothing(&Written::new(&columns, &single_files(&columns), None, "").await.wrong(true));
    println!("delta single values: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}

/// May a new table be partitioned by this column?
fn partitions(column: &Column) -> bool {
    !matches!(column.kind, Kind::Float | Kind::Double | Kind::Bytes)
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn every_type_that_may_partition_is_found_by_its_values() {
    let start = Instant::now();
    let mut wrong = Vec::new();
    for mut column in columns().into_iter().filter(partitions) {
        // No directory's name has a NUL: such a row is refused. What is longer than such a name is for `partitions`.
        column.values.retain(|(_, text)| !text.contains('\0') && text.len() < 200);
        let name = column.name;
        let columns = [column];
        let written = Written::new(&columns, &files(&columns), Some(name), "").await;
        wrong.extend(written.wrong(true).into_iter().map(|w| format!("by {name}: {w}")));
    }
    nothing(&wrong);
    println!("delta partitions: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}
