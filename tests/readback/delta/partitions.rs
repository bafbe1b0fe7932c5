//! Hostile partition values, found again by their value.

use std::time::Instant;

use arrow::array::AsArray as _;
use lakeward::schema::Field;
use lakeward::table::Table;
use serde_json::{Value, json};

use super::property::write;
use crate::readback::model::cells;
use crate::readback::property::{Case as Asked, Filter, read};
use crate::readback::readers::{DELTA_READERS, Row, ask, assert_rows, count_comparison, difference, each, rows_of};
use crate::readback::{Folder, ingest, pipeline};

/// Values of one column that partitions a table, in canonical text.
struct Case {
    name: &'static str,
    sql: &'static str,
    values: Vec<Value>,
}

fn strings() -> Vec<Value> {
    let ascii: String = (' '..='~').collect();
    let mut texts: Vec<String> = (' '..='~').map(String::from).collect();
    texts.extend(
        [
            "\u{e9}",
            "\u{6f22}\u{5b57}",
            "\u{1f980}",
            "..",
            "a//b",
            "/a/",
            " leading",
            "trailing ",
            " ",
            "\t",
            "\n",
            "\u{7f}",
            "\u{a0}",
            "\u{3000}",
        ]
        .map(str::to_owned),
    );
    texts.extend(
        [
            "a%2Fb",
            "%",
            "%zz",
            "a=b/c=d",
            "null",
            "NULL",
            "1",
            "-1",
            "01",
            "1.0",
            "true",
            "2024-01-01",
            "2024-01-01 00:00:00",
            "A",
            "a",
            "a+b",
            "~",
        ]
        .map(str::to_owned),
    );
    texts.push(ascii);
    texts.into_iter().map(Value::from).chain([json!(""), Value::Null]).collect()
}

/// Longer than the name of a directory can be.
fn long() -> Vec<Value> {
    ["x".repeat(300), "y".repeat(253), "y".repeat(254), "\u{6f22}".repeat(300), "/".repeat(300), format!("{}a", "x".repeat(299))]
        .map(Value::from)
        .to_vec()
}

fn texts(values: &[&str]) -> Vec<Value> {
    values.iter().map(|v| json!(v)).chain([Value::Null]).collect()
}

fn cases() -> Vec<Case> {
    // 2024-01-01 01:00:00.5, the same without a fraction, 1969, and an hour that Kolkata's clock shows on another day.
    let moments = [
        "us:1704070800500000",
        "us:1704070800000000",
        "us:-1",
        "us:1704049200000001",
        "us:0",
        "us:-62135596800000000",
        "us:253402300799999999",
    ];
    // 0.0, 1.5, 0.1, 1e-5, 1e7, the greatest, the least above zero, an infinity, NaN.
    let doubles = [
        "f64:0000000000000000",
        "f64:3ff8000000000000",
        "f64:3fb999999999999a",
        "f64:3ee4f8b588e368f1",
        "f64:416312d000000000",
        "f64:7fefffffffffffff",
        "f64:0000000000000001",
        "f64:fff0000000000000",
        "f64:7ff8000000000000",
    ];
    let floats =
        ["f32:00000000", "f32:3fc00000", "f32:3dcccccd", "f32:3727c5ac", "f32:7f7fffff", "f32:00000001", "f32:7f800000", "f32:7fc00000"];
    vec![
        Case { name: "strings", sql: "STRING", values: strings() },
        Case { name: "decimals", sql: "DECIMAL(10, 2)", values: texts(&["1.00", "1.50", "-0.05", "0.00", "-99999999.99"]) },
        Case {
            name: "wide",
            sql: "DECIMAL(38, 10)",
            values: texts(&["1.0000000000", "9999999999999999999999999999.9999999999", "-0.0000000001"]),
        },
        Case { name: "doubles", sql: "DOUBLE", values: texts(&doubles) },
        Case { name: "floats", sql: "FLOAT", values: texts(&floats) },
        Case { name: "whole", sql: "BIGINT", values: texts(&["0", "-1", "9223372036854775807", "-9223372036854775808"]) },
        Case { name: "tiny", sql: "TINYINT", values: texts(&["0", "-128", "127"]) },
        Case { name: "truth", sql: "BOOLEAN", values: texts(&["true", "false"]) },
        Case { name: "days", sql: "DATE", values: texts(&["day:0", "day:-1", "day:19782", "day:-719162", "day:2932896"]) },
        Case { name: "moments", sql: "TIMESTAMP(6)", values: texts(&moments) },
        Case { name: "instants", sql: "TIMESTAMP(6) WITH LOCAL TIME ZONE", values: texts(&moments) },
    ]
}

async fn check(case: &Case, zone: Option<&str>) {
    let start = Instant::now();
    let folder = Folder::new();
    let path = folder.table(case.name);
    let fields = || vec![Field::parse(0, "id", "BIGINT NOT NULL").unwrap(), Field::parse(1, "p", case.sql).unwrap()];
    let rows: Vec<Vec<Value>> = case.values.iter().enumerate().map(|(i, v)| vec![json!(i.to_string()), v.clone()]).collect();
    // In two commits; a few values in both.
    let again = rows
        .iter()
        .step_by(7)
        .map(|r| vec![json!(format!("{}", r[0].as_str().unwrap().parse::<usize>().unwrap() + 1000)), r[1].clone()])
        .collect();
    let commits = [rows, again];
    let table = write(&path, fields(), Some("p"), &commits).await.unwrap();
    let columns = ["id", "p"];
    // To the format, the empty text is null.
    let empty = |v: &Option<String>| v.clone().filter(|t| !t.is_empty());
    let expected: Vec<Row> = commits.iter().flat_map(|c| cells(&fields(), c)).map(|r| vec![r[0].clone(), empty(&r[1])]).collect();
    let equal = |v: &Value| Filter { column: 1, op: "eq", bound: v.as_str().map(str::to_owned) };
    let filters = case.values.iter().filter(|v| v.as_str().is_some_and(|t| !t.is_empty())).map(equal).collect();
    let ours = Asked { fields: fields(), partitioned: true, buckets: 0, stats: "", commits: commits.to_vec(), filters };
    let mut sorted = expected.clone();
    sorted.sort();
    assert_eq!(read(&ours, &table, None).await.unwrap(), sorted);
    for filter in &ours.filters {
        let mut want: Vec<Row> = expected.iter().filter(|r| r[1] == filter.bound).cloned().collect();
        want.sort();
        assert_eq!(read(&ours, &table, Some(filter)).await.unwrap(), want, "{filter:?}");
    }
    // Polars goes by the directory (D5), which cannot be that long.
    let readers: Vec<&str> = DELTA_READERS.into_iter().filter(|r| *r != "polars" || case.name != "long").collect();
    each(&readers, |reader| {
        let process = zone.map_or(reader.to_owned(), |zone| format!("{reader}@{zone}"));
        assert_rows(&process, &path, &columns, &expected);
        let mut wrong = Vec::new();
        let filters = case.values.iter().filter(|v| v.as_str().is_some_and(|t| !t.is_empty())).map(|v| json!(["p", "eq", v]));
        for filter in filters.chain([json!(["p", "is_null"])]) {
            count_comparison();
            let answer = ask(&process, &json!({"cmd": "rows", "table": path, "filter": filter}));
            let mut want: Vec<Row> =
                expected.iter().filter(|r| r[1].as_deref() == filter.get(2).and_then(Value::as_str)).cloned().collect();
            want.sort();
            if answer["ok"] != true {
                wrong.push(format!("{filter}: {answer:.300}"));
            } else if rows_of(&answer, &columns) != want {
                wrong.push(format!("{filter}: {}", difference(&rows_of(&answer, &columns), &want)));
            }
        }
        assert!(wrong.is_empty(), "{process}, {}:\n{}", case.name, wrong.join("\n"));
    });
    println!("{}: {} values, {:.1?}", case.name, case.values.len(), start.elapsed());
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn hostile_partition_values_are_found_again_by_all() {
    let only = std::env::var("LAKEWARD_PARTITION_CASE").ok();
    for case in cases().iter().filter(|c| only.as_deref().is_none_or(|o| o == c.name)) {
        check(case, None).await;
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn a_partition_value_longer_than_a_directory_is_found_again() {
    check(&Case { name: "long", sql: "STRING", values: long() }, None).await;
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn moments_that_partition_are_found_again_wherever_the_reader_is() {
    for case in cases().into_iter().filter(|c| matches!(c.name, "days" | "moments" | "instants")) {
        check(&case, Some("Asia/Kolkata")).await;
    }
}

#[tokio::test]
async fn a_value_that_no_partition_can_have_is_a_dead_letter_of_its_stage() {
    let mut folder = Folder::new();
    let lines = [r#"{"id":1,"p":"a"}"#, r#"{"id":2,"p":""}"#, r#"{"id":3,"p":"b\u0000c"}"#, r#"{"id":4,"p":null}"#, r#"{"id":5,"p":"b"}"#];
    folder.input(lines);
    let sink = "    format: delta\n    columns:\n      id: BIGINT\n      p: STRING NOT NULL\n    partition_by: [p]\ndead_letter: {location: shop.db/dead}\n";
    let report = ingest(folder.path(), &pipeline("strict", "close", sink)).await;
    assert_eq!((report.records, report.rows, report.dead_letters), (5, 2, 3));
    let dead = Table::open(folder.table("dead").to_str().unwrap()).await.unwrap();
    let mut rows = dead.scan().rows().await.unwrap();
    let mut said = Vec::new();
    while let Some(batch) = rows.next().await.unwrap() {
        let text = |name: &str, i: usize| batch.column_by_name(name).unwrap().as_string::<i32>().value(i).to_owned();
        said.extend((0..batch.num_rows()).map(|i| (text("stage", i), text("error", i))));
    }
    said.sort();
    assert_eq!(said.iter().filter(|s| s.0 == "partition").count(), 2, "{said:?}");
    for what in
        ["`p` is empty, which is null to the format", "partition column `p`: the value \"b\\0c\" cannot name a partition: it has a NUL"]
    {
        assert!(said.iter().any(|s| s.1.contains(what)), "{what}: {said:?}");
    }
}
