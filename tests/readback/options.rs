//! Table options that change the bytes: whatever they say, all readers find the rows.

use std::time::Instant;

use serde_json::json;

use super::quirks::{Feature, filters_with_partial_statistics, refuses_table};
use super::readers::{READERS, Row, ask, assert_rows_by_all_who_know, compared, count_comparison, each, rows_of};
use super::values::{columns, files, filtered_wrongly};
use super::{Folder, columns_yaml, ingest, pipeline};

/// What of it some readers do not know.
#[derive(Clone, Copy, PartialEq)]
enum Hard {
    Nothing,
    /// Statistics of some or none of the columns.
    PartialStatistics,
    Feature(Feature),
}
use Hard::{Nothing, PartialStatistics};

const CASES: &[(&[(&str, &str)], Hard)] = &[
    (&[("metadata.stats-mode", "none")], PartialStatistics),
    (&[("metadata.stats-mode", "counts")], Nothing),
    (&[("metadata.stats-mode", "truncate(4)")], Nothing),
    (&[("metadata.stats-mode", "full")], Nothing),
    (&[("metadata.stats-dense-store", "false")], Nothing),
    (&[("metadata.stats-dense-store", "false"), ("metadata.stats-mode", "none")], Nothing),
    (&[("metadata.stats-dense-store", "false"), ("metadata.stats-keep-first-n-columns", "5")], Nothing),
    (&[("metadata.stats-keep-first-n-columns", "5"), ("fields.s.stats-mode", "full")], PartialStatistics),
    (&[("file.compression", "none")], Nothing),
    (&[("file.compression", "snappy")], Nothing),
    (&[("file.compression", "lz4")], Nothing),
    (&[("file.compression", "zstd"), ("file.compression.zstd-level", "9")], Nothing),
    (&[("manifest.compression", "null")], Nothing),
    (&[("manifest.compression", "snappy")], Nothing),
    (&[("manifest.compression", "deflate")], Nothing),
    (&[("manifest.compression", "zstd"), ("file.compression.zstd-level", "19")], Nothing),
    (&[("manifest.compression", "ZSTD"), ("file.compression", "Snappy")], Nothing),
    (&[("data-file.prefix", "rows-"), ("target-file-size", "1 kb")], Nothing),
    (&[("data-file.path-directory", "a/b")], Hard::Feature(Feature::PathDirectory)),
];

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn options_that_change_the_bytes_change_no_row() {
    let start = Instant::now();
    let (columns, filtered) = (columns(), ["i64", "s", "dec38", "t6"]);
    let names: Vec<&str> = ["id"].into_iter().chain(columns.iter().map(|c| c.name)).collect();
    let files = files(&columns);
    let rows: Vec<Row> = files.iter().flatten().map(|l| l.row.clone()).collect();
    for (options, hard) in CASES {
        let mut folder = Folder::new();
        let options_yaml = options.iter().map(|(k, v)| format!("      {k}: '{v}'\n")).collect::<String>();
        let yaml = columns_yaml([("id", "BIGINT NOT NULL")].into_iter().chain(columns.iter().map(|c| (c.name, c.sql))));
        for (i, lines) in files.iter().enumerate() {
            folder.input(lines.iter().map(|l| l.json.as_str()));
            let at_end = if i + 1 == files.len() { "close" } else { "pause" };
            ingest(folder.path(), &pipeline("options", at_end, &format!("{yaml}    options:\n{options_yaml}"))).await;
        }
        let table = folder.table("options");
        let what = format!("{options:?}");
        println!("{what}");
        let feature = if let Hard::Feature(feature) = hard { Some(*feature) } else { None };
        assert_rows_by_all_who_know(feature, &table, &names, &rows);
        let filters = |reader: &&str| match *hard {
            Nothing => true,
            PartialStatistics => filters_with_partial_statistics(reader),
            Hard::Feature(feature) => refuses_table(reader, feature).is_none(),
        };
        each(&READERS.into_iter().filter(filters).collect::<Vec<_>>(), |reader| {
            for (i, column) in columns.iter().enumerate().filter(|(_, c)| filtered.contains(&c.name)) {
                let bounds = [&column.values[0].1, &column.values[column.values.len() - 1].1];
                for (op, bound) in [("eq", Some(bounds[0])), ("ge", Some(bounds[1])), ("is_null", None)] {
                    let filter = bound.map_or(json!([column.name, op]), |b| json!([column.name, op, b]));
                    let answer = ask(reader, &json!({"cmd": "rows", "table": table, "filter": filter, "columns": ["id"]}));
                    count_comparison();
                    assert_eq!(answer["ok"], true, "{reader} {what} {filter}: {answer}");
                    let (found, bound) = (rows_of(&answer, &["id"]), bound.map(String::as_str));
                    assert_eq!(filtered_wrongly(reader, column.kind, &found, &rows, i + 1, op, bound), None, "{reader} {what} {filter}");
                }
            }
        });
    }
    println!("options: {} variants, {:.1?}, {} comparisons by all tests so far", CASES.len(), start.elapsed(), compared());
}
