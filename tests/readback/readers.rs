//! Other people's readers (tests/interop): one process each for the whole test binary, asked in JSON.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::quirks::{Feature, refuses_table};

/// All of them. `java-newest` and `java-oldest` are what tests/setup.sh has installed, 1.4.2 and 0.9.0.
pub(crate) const READERS: [&str; 4] = ["pypaimon", "pypaimon-rust", "java-newest", "java-oldest"];
/// Those that also create tables and append rows.
pub(crate) const WRITERS: [&str; 3] = ["pypaimon", "java-newest", "java-oldest"];

/// Readers of Delta tables.
pub(crate) const DELTA_READERS: [&str; 4] = ["deltalake", "duckdb", "polars", "spark"];
/// Those that also create Delta tables and append rows.
pub(crate) const DELTA_WRITERS: [&str; 2] = ["deltalake", "spark"];

/// Answers that were compared with what a test expects.
static COMPARED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn compared() -> u64 {
    COMPARED.load(Ordering::Relaxed)
}
pub(crate) fn count_comparison() {
    COMPARED.fetch_add(1, Ordering::Relaxed);
}

struct Process {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    child: Child,
    log: String,
}

static RUNNING: Mutex<BTreeMap<String, &'static Mutex<Process>>> = Mutex::new(BTreeMap::new());

fn start(reader: &str) -> Process {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let log = format!("{}/{}.stderr", env!("CARGO_TARGET_TMPDIR"), reader.replace('/', "-"));
    let (name, zone) = reader.split_once('@').map_or((reader, None), |(name, zone)| (name, Some(zone)));
    let mut child = Command::new(root.join("tests/interop/read.sh"))
        .args([name, "batch"])
        .envs(zone.map(|zone| ("TZ", zone)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    Process { input, output, child, log }
}

/// Asks a reader that is started by the first question; `duckdb@Asia/Kolkata` is one in that time zone. A reader that is not installed or dies fails the test.
pub(crate) fn ask(reader: &str, question: &Value) -> Value {
    let process = *RUNNING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(reader.to_owned())
        .or_insert_with(|| Box::leak(Box::new(Mutex::new(start(reader)))));
    let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
    let mut line = String::new();
    let answered = writeln!(process.input, "{question}").is_ok() && process.output.read_line(&mut line).is_ok_and(|n| n > 0);
    if !answered {
        let status = process.child.wait();
        let log = std::fs::read_to_string(&process.log).unwrap_or_default();
        panic!("{reader} does not answer ({status:?}; is it installed? tests/setup.sh): {log}");
    }
    serde_json::from_str(&line).unwrap()
}

/// Asks, and expects an answer rather than an error.
pub(crate) fn get(reader: &str, question: &Value) -> Value {
    let answer = ask(reader, question);
    assert_eq!(answer["ok"], true, "{reader} refuses {question}: {answer}");
    answer
}

/// Does something with each reader, all at once; what goes wrong is told for all of them together.
pub(crate) fn each(readers: &[&'static str], check: impl Fn(&'static str) + Sync) {
    let wrong: Vec<&str> = std::thread::scope(|scope| {
        let running: Vec<_> = readers.iter().map(|reader| (*reader, scope.spawn(|| check(reader)))).collect();
        running.into_iter().filter_map(|(reader, running)| running.join().is_err().then_some(reader)).collect()
    });
    assert!(wrong.is_empty(), "wrong by {wrong:?}, see above");
}

/// A row: the canonical text of each column, see tests/interop/README.md.
pub(crate) type Row = Vec<Option<String>>;

pub(crate) fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// The rows of an answer, with these columns, sorted.
pub(crate) fn rows_of(answer: &Value, columns: &[&str]) -> Vec<Row> {
    let cell = |row: &Value, column: &str| {
        let value = row.get(column).unwrap_or_else(|| panic!("no column {column} in {row}"));
        value.as_str().map(str::to_owned)
    };
    let mut rows: Vec<Row> = answer["rows"].as_array().unwrap().iter().map(|row| columns.iter().map(|c| cell(row, c)).collect()).collect();
    rows.sort();
    rows
}

/// All rows of a table by one reader are these, in any order.
pub(crate) fn assert_rows(reader: &str, table: &Path, columns: &[&str], expected: &[Row]) {
    let mut expected = expected.to_vec();
    expected.sort();
    let rows = rows_of(&get(reader, &json!({"cmd": "rows", "table": table})), columns);
    count_comparison();
    assert!(rows == expected, "{reader} reads {}: {}", table.display(), difference(&rows, &expected));
}

/// All rows by all readers; those that do not know a feature of the table refuse it.
pub(super) fn assert_rows_by_all_who_know(feature: Option<Feature>, table: &Path, columns: &[&str], expected: &[Row]) {
    each(&READERS, |reader| match feature.and_then(|f| refuses_table(reader, f)) {
        Some(why) => {
            count_comparison();
            let answer = ask(reader, &json!({"cmd": "rows", "table": table}));
            assert!(answer["error"].as_str().is_some_and(|e| e.contains(why)), "{reader} read a table with {feature:?}: {answer:.300}");
        }
        None => assert_rows(reader, table, columns, expected),
    });
}

/// All rows of a table by all readers.
pub(crate) fn assert_rows_by_all(table: &Path, columns: &[&str], expected: &[Row]) {
    assert_rows_by_all_who_know(None, table, columns, expected);
}

/// All rows of a Delta table by all its readers.
pub(crate) fn assert_delta_rows(table: &Path, columns: &[&str], expected: &[Row]) {
    each(&DELTA_READERS, |reader| assert_rows(reader, table, columns, expected));
}

/// The rows that only one side has, in few words.
pub(crate) fn difference(rows: &[Row], expected: &[Row]) -> String {
    let brief = |row: &Row| {
        let cells = row.iter().map(|c| c.as_ref().map_or("null".to_owned(), |c| c.chars().take(60).collect::<String>()));
        format!("{:?}", cells.collect::<Vec<_>>())
    };
    let only = |a: &[Row], b: &[Row]| a.iter().filter(|r| !b.contains(r)).take(3).map(brief).collect::<Vec<_>>().join("\n  ");
    format!(
        "{} rows instead of {}\n only read:\n  {}\n only expected:\n  {}",
        rows.len(),
        expected.len(),
        only(rows, expected),
        only(expected, rows)
    )
}
