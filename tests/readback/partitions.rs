//! Partitioned tables: rows by all readers, filters on partition columns.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use lakeward::format::paimon::options::{RawOptions, TableOptions};
use lakeward::format::paimon::paths::PaimonLayout;
use lakeward::schema::{DataType, Field, Scalar, Schema};
use lakeward::table::{CommitUser, Table, TableSpec};

use super::buckets::{Random, column};
use super::quirks::{Feature, is_java, refuses_table};
use super::readers::{READERS, Row, assert_rows_by_all_who_know, compared, count_comparison, each, get, rows_of, text};
use super::values::{Kind, filtered_wrongly};
use super::{Folder, columns_yaml, ingest, pipeline};

/// One value of a partition column: JSON text (none: the key is left out) and canonical text.
type Cell = (Option<String>, Option<String>);

fn null() -> Cell {
    (None, None)
}
fn string(value: &str) -> Cell {
    (Some(serde_json::to_string(value).unwrap()), text(value))
}
fn number(value: i32) -> Cell {
    (Some(value.to_string()), Some(value.to_string()))
}
fn boolean(value: bool) -> Cell {
    (Some(value.to_string()), Some(value.to_string()))
}
fn date(value: &str, day: i32) -> Cell {
    (Some(format!("\"{value}\"")), Some(format!("day:{day}")))
}

struct Case {
    table: &'static str,
    /// Name, type, kind.
    by: Vec<(&'static str, &'static str, Kind)>,
    partitions: Vec<Vec<Cell>>,
    options: &'static str,
    hard: Option<Feature>,
}

fn strings() -> Vec<Cell> {
    let long = "漢".repeat(80); // 240 bytes; with `p=` a directory name has 242 of at most 255
    let texts = [
        "",
        " ",
        "\t",
        "\u{3000}",
        "\u{1c}",
        "a/b",
        "x:y",
        "100%",
        "k=v",
        ".",
        "..",
        "two\nlines",
        "a b",
        "a%2Fb",
        "'\"\\{}[]^#*?",
        "null",
        "NULL",
        "__DEFAULT_PARTITION__",
        "ünï 漢字 😀",
        "\u{FFFF}",
        "\u{10FFFF}",
        "-1",
        "2024-01-01",
        &long,
    ];
    texts.iter().map(|t| string(t)).chain([null()]).collect()
}

fn cases() -> Vec<Case> {
    let single = |cells: Vec<Cell>| cells.into_iter().map(|c| vec![c]).collect::<Vec<_>>();
    let numbers = [i32::MIN, -1, 0, 7, i32::MAX].map(number).into_iter().chain([null()]).collect();
    let dates = || {
        let days = [("0001-01-01", -719_162), ("1969-12-31", -1), ("1970-01-01", 0), ("2024-02-29", 19_782), ("9999-12-31", 2_932_896)];
        days.map(|(text, day)| date(text, day)).into_iter().chain([null()]).collect::<Vec<_>>()
    };
    let both = || {
        let regions = [string("eu"), string("a/b=c"), string(""), null()];
        dates().into_iter().skip(2).flat_map(|d| regions.clone().map(|r| vec![d.clone(), r])).collect::<Vec<_>>()
    };
    vec![
        Case { table: "by_string", by: vec![("p", "STRING", Kind::Text)], partitions: single(strings()), options: "", hard: None },
        Case { table: "by_int", by: vec![("p", "INT", Kind::Whole)], partitions: single(numbers), options: "", hard: None },
        Case { table: "by_date", by: vec![("p", "DATE", Kind::Whole)], partitions: single(dates()), options: "", hard: None },
        Case {
            table: "by_spelt_date",
            by: vec![("p", "DATE", Kind::Whole)],
            partitions: single(dates()),
            options: "    options: {partition.legacy-name: 'false'}\n",
            hard: Some(Feature::SpeltDates),
        },
        Case {
            table: "by_boolean",
            by: vec![("p", "BOOLEAN", Kind::Whole)],
            partitions: single(vec![boolean(false), boolean(true), null()]),
            options: "",
            hard: None,
        },
        Case {
            table: "by_two",
            by: vec![("dt", "DATE", Kind::Whole), ("region", "STRING", Kind::Text)],
            partitions: both(),
            options: "    options: {partition.default-name: none-at-all, manifest.compression: snappy}\n",
            hard: None,
        },
    ]
}

/// Writes two commits, the second without the last partition but one: `id`, the partition's columns, `v`.
async fn write(folder: &mut Folder, case: &Case) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let columns = [("id", "BIGINT NOT NULL")].into_iter().chain(case.by.iter().map(|b| (b.0, b.1))).chain([("v", "STRING")]);
    let by: Vec<&str> = case.by.iter().map(|b| b.0).collect();
    let sink = format!("{}    partition_by: [{}]\n{}", columns_yaml(columns), by.join(", "), case.options);
    for round in 0..2 {
        let mut lines = Vec::new();
        for cells in case.partitions.iter().skip(round) {
            let id = rows.len() + 1;
            let keys = case.by.iter().zip(cells).filter_map(|(b, cell)| Some(format!(",\"{}\":{}", b.0, cell.0.as_ref()?)));
            lines.push(format!("{{\"id\":{id}{},\"v\":\"v{id}\"}}", keys.collect::<String>()));
            rows.push([vec![Some(id.to_string())], cells.iter().map(|c| c.1.clone()).collect(), vec![Some(format!("v{id}"))]].concat());
        }
        folder.input(lines.iter().map(String::as_str));
        let report = ingest(folder.path(), &pipeline(case.table, if round == 0 { "pause" } else { "close" }, &sink)).await;
        assert_eq!(report.rows, lines.len() as u64);
    }
    rows
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn partitions_are_found_by_all_readers_and_by_their_values() {
    let start = Instant::now();
    for case in cases() {
        let mut folder = Folder::new();
        let rows = write(&mut folder, &case).await;
        let table = folder.table(case.table);
        let columns: Vec<&str> = ["id"].into_iter().chain(case.by.iter().map(|b| b.0)).chain(["v"]).collect();
        assert_rows_by_all_who_know(case.hard, &table, &columns, &rows);
        let knowing = READERS.into_iter().filter(|r| case.hard.is_none_or(|f| refuses_table(r, f).is_none()));
        each(&knowing.collect::<Vec<_>>(), |reader| {
            let mut wrong = Vec::new();
            for (i, (name, _, kind)) in case.by.iter().enumerate() {
                let mut values: Vec<&str> = rows.iter().filter_map(|r| r[i + 1].as_deref()).collect();
                values.sort_unstable();
                values.dedup();
                let bounds = values.iter().flat_map(|v| ["eq", "ge", "le"].map(|op| (op, Some(*v))));
                for (op, bound) in bounds.chain([("is_null", None), ("is_not_null", None)]) {
                    let filter = bound.map_or(json!([name, op]), |b| json!([name, op, b]));
                    let answer = get(reader, &json!({"cmd": "rows", "table": table, "filter": filter, "columns": ["id", "v"]}));
                    count_comparison();
                    let found = rows_of(&answer, &["id", "v"]);
                    wrong.extend(filtered_wrongly(reader, *kind, &found, &rows, i + 1, op, bound).map(|w| format!("{filter}: {w}")));
                    // Every partition has one file with one row in each commit.
                    let (files, planned) = (answer["files"].as_u64(), answer["planned_rows"].as_u64());
                    if op == "eq" && files.or(planned) != Some(found.len() as u64) {
                        wrong.push(format!("{filter}: {} rows from {files:?} files, {planned:?} rows", found.len()));
                    }
                }
            }
            if is_java(reader) {
                count_comparison();
                let listed = get(reader, &json!({"cmd": "list", "table": table}));
                assert_eq!(listed["files"].as_array().map(Vec::len), Some(rows.len()), "{reader}");
            }
            assert!(wrong.is_empty(), "{reader}, {}:\n{}", case.table, wrong.join("\n"));
        });
        println!("{}: {} partitions, {} rows", case.table, case.partitions.len(), rows.len());
    }
    println!("partitions: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn a_partition_of_no_break_spaces_lies_where_java_looks() {
    let partitions = ["\u{a0}", "\u{2007}\u{202f}", "\u{85}", "x"].map(|t| vec![string(t)]).to_vec();
    let hard = Some(Feature::NoBreakSpaces);
    let case = Case { table: "blank", by: vec![("p", "STRING", Kind::Text)], partitions, options: "", hard };
    let mut folder = Folder::new();
    let rows = write(&mut folder, &case).await;
    assert_rows_by_all_who_know(hard, &folder.table(case.table), &["id", "p", "v"], &rows);
}

/// Types that partition a table and are spelt by a rule. A zoned timestamp only in UTC, which is the legacy spelling.
const SPELT: [&str; 18] = [
    "BOOLEAN",
    "TINYINT",
    "BIGINT",
    "DECIMAL(9, 2)",
    "DECIMAL(3, 3)",
    "DECIMAL(38, 0)",
    "DECIMAL(38, 20)",
    "VARCHAR(20)",
    "DATE",
    "TIME(0)",
    "TIME(2)",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(4)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
];

fn spelt(legacy: bool) -> impl Iterator<Item = &'static str> {
    SPELT.into_iter().filter(move |sql| legacy || !sql.contains("ZONE"))
}

/// A value from its canonical text.
fn scalar(data_type: &DataType, text: &str) -> Scalar {
    let whole = |t: &str| t.parse().unwrap();
    match (data_type, text.split_once(':').map_or(text, |(_, n)| n)) {
        (DataType::Boolean, t) => Scalar::Bool(t == "true"),
        (DataType::Decimal { .. }, t) => Scalar::Decimal(t.replace('.', "").parse().unwrap()),
        (DataType::VarChar(_), _) => Scalar::String(text.to_owned()),
        (DataType::Date, t) => Scalar::Date(t.parse().unwrap()),
        (DataType::Time(_), t) => Scalar::Time(t.parse().unwrap()),
        (_, t) if text.starts_with("us:") => Scalar::Timestamp(whole(t)),
        (_, t) if text.starts_with("ns:") => Scalar::TimestampNanos(whole(t)),
        (_, t) => Scalar::Int(whole(t)),
    }
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn every_partition_value_lies_where_java_puts_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for legacy in [true, false] {
        for (i, sql) in spelt(legacy).enumerate() {
            let table = dir.path().join(format!("{legacy}{i}"));
            let options = json!({"bucket": "-1", "file.format": "parquet", "partition.legacy-name": legacy.to_string()});
            let columns = json!([["id", "BIGINT"], ["p", sql]]);
            get("java-newest", &json!({"cmd": "create", "table": table, "columns": columns, "partition": ["p"], "options": options}));
            let (data_type, _, texts) = column(sql, 400, &mut Random(7));
            let partitions: Vec<_> = texts.iter().map(|t| [t]).collect();
            let answer = get("java-newest", &json!({"cmd": "directories", "table": table, "partitions": partitions}));
            let fields = vec![Field::parse(0, "id", "BIGINT").unwrap(), Field::parse(1, "p", sql).unwrap()];
            let schema = Schema { id: 0, fields, partition_by: vec!["p".into()] };
            let raw: RawOptions = serde_json::from_value(options).unwrap();
            let layout = PaimonLayout::new(&schema, &TableOptions::parse(&raw, 3).unwrap());
            for (text, theirs) in texts.iter().zip(answer["directories"].as_array().unwrap()) {
                let value = text.as_deref().map(|t| scalar(&data_type, t));
                match layout.bucket_dir(&[value], 0) {
                    Ok(ours) => assert_eq!(Some(ours.trim_end_matches("bucket-0")), theirs.as_str(), "{sql}, legacy {legacy}: {text:?}"),
                    // Years that a cast cannot spell.
                    Err(_) => assert!(!legacy && sql == "DATE", "{sql}: {text:?}, {theirs}"),
                }
                compared += 1;
            }
        }
    }
    println!("{compared} directories are those of Java");
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn partitions_of_every_type_are_found_by_all_readers() {
    let dir = tempfile::tempdir().unwrap();
    for legacy in [true, false] {
        // The Rust crate spells whole seconds of a TIME(1..9) without a fraction, so we refuse those here.
        let found = spelt(legacy).filter(|sql| legacy || !matches!(*sql, "TIME(2)" | "TIME(3)"));
        for (i, sql) in found.enumerate() {
            let (_, array, texts) = column(sql, 16, &mut Random(11));
            // What Python's dates can hold.
            let sane = |t: &str| t.strip_prefix("day:").is_none_or(|d| (-719_162..=2_932_896).contains(&d.parse::<i32>().unwrap()));
            let kept: Vec<u32> = (0..16).filter(|row| texts[*row as usize].as_deref().is_none_or(sane)).collect();
            let array: ArrayRef = arrow::compute::take(&array, &UInt32Array::from(kept.clone()), None).unwrap();
            let path = dir.path().join(format!("shop.db/{legacy}{i}"));
            let fields = [(0, "id", "BIGINT"), (1, "p", sql)].map(|(id, name, sql)| Field::parse(id, name, sql).unwrap());
            let options = [("partition.legacy-name".to_owned(), legacy.to_string())].into();
            let spec = TableSpec::paimon(fields).partition_by(["p"]).options(options);
            let table = Table::open_or_create(path.to_str().unwrap(), spec).await.unwrap();
            let user = CommitUser::new("u");
            let mut write = table.new_write(&user).unwrap();
            let ids = Int64Array::from_iter_values(kept.iter().map(|row| i64::from(*row)));
            write.write(&RecordBatch::try_new(table.schema().to_arrow(), vec![Arc::new(ids), array]).unwrap()).await.unwrap();
            table.new_commit(&user).commit(1, write.prepare_commit().await.unwrap()).await.unwrap();
            let rows: Vec<Row> = kept.iter().map(|row| vec![Some(row.to_string()), texts[*row as usize].clone()]).collect();
            // The old Java knows the legacy spelling only; pypaimon does not find nanoseconds.
            let able = |r: &&str| (legacy || *r != "java-oldest") && (sql != "TIMESTAMP(9)" || *r != "pypaimon");
            each(&READERS.into_iter().filter(able).collect::<Vec<_>>(), |reader| {
                super::readers::assert_rows(reader, &path, &["id", "p"], &rows);
            });
        }
    }
}
