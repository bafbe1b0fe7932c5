//! Partitioned tables: rows by all readers, filters on partition columns.

use std::time::Instant;

use serde_json::json;

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
