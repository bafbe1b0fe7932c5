//! The life of a table: every type, nested ones too, partitioned and not, before and after our own checkpoint with the older commits removed,
//! then appended to by deltalake, by Spark and by us, with a checkpoint of each, and read by all after each step.

use std::path::{Path, PathBuf};
use std::time::Instant;

use lakeward::schema::Field;
use lakeward::table::{Table, TableSpec};
use serde_json::{Value, json};

use crate::readback::Folder;
use crate::readback::matrix::{append_ours, read_ours};
use crate::readback::model::{answered, cells, field};
use crate::readback::readers::{DELTA_READERS, DELTA_WRITERS, Row, ask, compared, count_comparison, difference, each, get};

/// Columns with values in canonical text. Every reader and writer takes them all: what some of them cannot is in `types`.
fn columns() -> Vec<(Field, Vec<Value>)> {
    let c = |name, sql, values: Value| (field(name, sql), values.as_array().unwrap().clone());
    vec![
        c("b", "BOOLEAN", json!(["false", "true"])),
        c("i8", "TINYINT", json!(["-128", "0", "127"])),
        c("i16", "SMALLINT", json!(["-32768", "32767"])),
        c("i32", "INT", json!(["-2147483648", "7", "2147483647"])),
        c("i64", "BIGINT", json!(["-9223372036854775808", "9007199254740993", "9223372036854775807"])),
        c("f", "FLOAT", json!(["f32:ff800000", "f32:80000000", "f32:3fc00000", "f32:7fc00000"])),
        c("d", "DOUBLE", json!(["f64:0000000000000001", "f64:7fefffffffffffff", "f64:7ff8000000000000"])),
        c("dec9", "DECIMAL(9, 2)", json!(["-9999999.99", "0.01"])),
        c("dec18", "DECIMAL(18, 4)", json!(["-99999999999999.9999", "0.0001"])),
        c("dec38", "DECIMAL(38, 38)", json!(["-0.99999999999999999999999999999999999999", "0.00000000000000000000000000000000000001"])),
        c("s", "STRING", json!(["", "ünï 漢字 😀\n\t\"'\\", "x".repeat(100)])),
        c("v", "VARCHAR(20)", json!(["", "01234567890123456789"])),
        c("y", "BYTES", json!(["hex:", "hex:00ff80", format!("hex:{}", "ff".repeat(40))])),
        c("dt", "DATE", json!(["day:-719162", "day:19782", "day:2932896"])),
        c("l6", "TIMESTAMP(6) WITH LOCAL TIME ZONE", json!(["us:-62135596800000000", "us:-1", "us:1700000000123456"])),
        c("a", "ARRAY<INT>", json!([[], ["1", null, "3"]])),
        c("a_a", "ARRAY<ARRAY<STRING>>", json!([[["a", null], null, []], [[]]])),
        c("a_r", "ARRAY<ROW<x INT, t DATE>>", json!([[{"x": "1", "t": "day:3"}, null], []])),
        c("m", "MAP<STRING NOT NULL, INT>", json!([[["a", "1"], ["b", null]], []])),
        c("m_a", "MAP<INT NOT NULL, ARRAY<DECIMAL(20, 2)>>", json!([[["1", ["1.00", null]], ["2", null]], []])),
        c("r", "ROW<x INT, y STRING, z DECIMAL(20, 4)>", json!([{"x": "1", "y": "q", "z": "0.0001"}, {"x": null, "y": "", "z": null}])),
        c(
            "r3",
            "ROW<a ARRAY<ROW<m MAP<INT NOT NULL, ROW<z DATE>>>>, b BYTES>",
            json!([{"a": [{"m": [["1", {"z": "day:3"}], ["2", null]]}, null], "b": "hex:00"}, {"a": [], "b": null}]),
        ),
        c("nn_i", "INT NOT NULL", json!(["0", "-1"])),
        c("nn_s", "STRING NOT NULL", json!(["", "z"])),
    ]
}

/// TIMESTAMP without a zone needs a table feature, so that it has a table of its own.
fn without_zone() -> Vec<(Field, Vec<Value>)> {
    let c = |name, sql, values: Value| (field(name, sql), values.as_array().unwrap().clone());
    vec![
        c("t", "TIMESTAMP(6)", json!(["us:-62135596800000000", "us:253402300799999000"])),
        c("t6", "TIMESTAMP(6)", json!(["us:-1", "us:1700000000123456", "us:253402300799999999"])),
        c("a_t", "ARRAY<TIMESTAMP(6)>", json!([["us:-1", null], []])),
        c("r_t", "ROW<t TIMESTAMP(6)>", json!([{"t": "us:-1"}, {"t": null}])),
    ]
}

struct Life {
    what: String,
    table: PathBuf,
    columns: Vec<(Field, Vec<Value>)>,
    rows: Vec<Row>,
    commits: i64,
    wrong: Vec<String>,
    _folder: Folder,
}

impl Life {
    async fn new(columns: Vec<(Field, Vec<Value>)>, partition: Option<(Field, Vec<Value>)>) -> Life {
        let folder = Folder::new();
        let by: Vec<String> = partition.iter().map(|(f, _)| f.name.clone()).collect();
        let mut all = vec![(field("id", "BIGINT NOT NULL"), Vec::new())];
        all.extend(columns);
        all.extend(partition);
        let table = folder.table("life");
        let options = [("delta.checkpointInterval", "4")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let spec = TableSpec::delta(all.iter().map(|c| c.0.clone())).partition_by(by.clone()).options(options.into());
        Table::open_or_create(table.to_str().unwrap(), spec).await.unwrap();
        let what = by.first().map_or("unpartitioned".to_owned(), |p| format!("by {p}"));
        Life { what, table, columns: all, rows: Vec::new(), commits: 0, wrong: Vec::new(), _folder: folder }
    }

    fn fields(&self) -> Vec<Field> {
        self.columns.iter().map(|c| c.0.clone()).collect()
    }

    /// Three more rows in one commit; every third value is null where it may be.
    async fn append(&mut self, writer: &str) {
        let rows: Vec<Vec<Value>> = (self.rows.len()..self.rows.len() + 3)
            .map(|n| {
                let value = |(i, (f, values)): (usize, &(Field, Vec<Value>))| match values.len() {
                    0 => json!(n.to_string()),
                    _ if f.nullable && (n + i) % 3 == 2 => Value::Null,
                    many => values[(n / 2 + i) % many].clone(),
                };
                self.columns.iter().enumerate().map(value).collect()
            })
            .collect();
        self.commits += 1;
        if writer == "ours" {
            append_ours(&self.table, &self.fields(), &rows, self.commits).await;
        } else {
            let answer = ask(writer, &json!({"cmd": "append", "table": self.table, "rows": rows}));
            count_comparison();
            if answer["ok"] != true {
                self.wrong.push(format!("{}: {writer} cannot append: {answer:.500}", self.what));
                return;
            }
        }
        self.rows.extend(cells(&self.fields(), &rows));
    }

    /// The rows by us and by all readers.
    async fn read(&mut self, when: &str) {
        let fields = self.fields();
        let mut expected = self.rows.clone();
        expected.sort();
        let ours = read_ours(&self.table, &fields).await;
        count_comparison();
        if ours != expected {
            self.wrong.push(format!("{}, {when}: we read {}", self.what, difference(&ours, &expected)));
        }
        let wrong = std::sync::Mutex::new(Vec::new());
        each(&DELTA_READERS, |reader| {
            let answer = ask(reader, &json!({"cmd": "rows", "table": self.table}));
            count_comparison();
            let found = if answer["ok"] == true { Ok(answered(&answer, &fields)) } else { Err(answer.to_string()) };
            let trouble = match found {
                Ok(rows) if rows == expected => None,
                Ok(rows) => Some(difference(&rows, &expected)),
                Err(error) => Some(format!("{error:.500}")),
            };
            wrong.lock().unwrap().extend(trouble.map(|t| format!("{}, {when}: {reader} reads {t}", self.what)));
        });
        self.wrong.extend(wrong.into_inner().unwrap());
    }

    /// Removes the commits below the newest checkpoint, which must be of this version or a later one.
    fn forget(&self, at_least: u64) {
        let log = self.table.join("_delta_log");
        let names: Vec<String> = std::fs::read_dir(&log).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        let newest =
            names.iter().filter(|n| n.ends_with(".checkpoint.parquet") && !n.starts_with('.')).filter_map(|n| n[..20].parse().ok());
        let newest: u64 = newest.max().unwrap_or_else(|| panic!("{}: no checkpoint in {names:?}", self.what));
        assert!(newest >= at_least, "{}: the newest checkpoint is {newest}, not {at_least}", self.what);
        forget_commits(&self.table, newest);
    }
}

/// Removes the commits below a version, as a cleanup of the log does.
fn forget_commits(table: &Path, below: u64) {
    for version in 0..below {
        for name in [format!("{version:020}.json"), format!(".{version:020}.json.crc"), format!("{version:020}.crc")] {
            let path = table.join("_delta_log").join(name);
            if path.exists() {
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

async fn live(columns: Vec<(Field, Vec<Value>)>, partition: Option<(Field, Vec<Value>)>) -> Vec<String> {
    let mut life = Life::new(columns, partition).await;
    for _ in 0..3 {
        life.append("ours").await;
    }
    life.read("before a checkpoint").await;
    life.append("ours").await;
    life.append("ours").await;
    life.forget(4);
    life.read("after a checkpoint, the older commits removed").await;
    for writer in DELTA_WRITERS {
        life.append(writer).await;
        life.read(&format!("after {writer} appended")).await;
        get(writer, &json!({"cmd": "checkpoint", "table": life.table}));
        life.append("ours").await;
        life.forget(6);
        life.read(&format!("after a checkpoint of {writer}, the older commits removed")).await;
    }
    life.wrong
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn a_table_of_every_type_is_read_by_all_before_and_after_checkpoints_of_ours_and_of_others() {
    let start = Instant::now();
    let p = |name, sql, values: Value| Some((field(name, sql), values.as_array().unwrap().clone()));
    let mut wrong = live(columns(), None).await;
    wrong.extend(live(columns(), p("p", "STRING", json!(["a/b=c d%", "é 漢 😀", "x"]))).await);
    wrong.extend(live(without_zone(), p("p", "DATE", json!(["day:0", "day:19782"]))).await);
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    println!("delta life: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}
