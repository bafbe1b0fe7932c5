//! Every type, and filters at its extremes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::{Value, json};

use super::quirks::refuses_filter;
use super::readers::{READERS, Row, ask, assert_rows_by_all, compared, count_comparison, each, get, rows_of};
use super::values::{Column, Kind, Line, columns, files, filtered_wrongly, single_files};
use super::{Folder, columns_yaml, ingest, pipeline};

/// pypaimon has a short form of a time zone, pypaimon-rust a long one of texts and bytes without a bound.
fn usual_spelling(sql: &str) -> String {
    let zoned = sql.strip_prefix("TIMESTAMP_LTZ").map(|precision| format!("TIMESTAMP{precision} WITH LOCAL TIME ZONE"));
    match sql {
        "VARBINARY(2147483647)" => "BYTES".to_owned(),
        "VARCHAR(2147483647)" => "STRING".to_owned(),
        _ => zoned.unwrap_or_else(|| sql.to_owned()),
    }
}

struct Filters<'a> {
    table: &'a Path,
    columns: &'a [Column],
    rows: &'a [Row],
    files: usize,
}

impl Filters<'_> {
    /// Did the reader leave out more than the file that has only nulls, which null counts rule out?
    fn left_out(&self, answer: &Value) -> bool {
        let of_nulls = self.rows.iter().filter(|r| r[1..].iter().all(Option::is_none)).count();
        match (answer["files"].as_u64(), answer["planned_rows"].as_u64()) {
            (Some(files), _) => files + 1 < self.files as u64,
            (None, Some(rows)) => rows < (self.rows.len() - of_nulls) as u64,
            (None, None) => panic!("{answer}"),
        }
    }

    /// Each column equal to each of its values, at its minimum and maximum, null, not null, by a reader's own push-down. How many requests
    /// were answered without some of the files.
    fn check(&self, reader: &str) -> BTreeMap<&'static str, usize> {
        let mut pruned = BTreeMap::new();
        let (mut wrong, mut asked) = (Vec::new(), 0);
        for (i, column) in self.columns.iter().enumerate() {
            let values = || column.values.iter().map(|(_, text)| text);
            let ends = [&column.values[0].1, &column.values[column.values.len() - 1].1];
            let bounds = values().map(|v| ("eq", Some(v))).chain(ends.into_iter().flat_map(|v| [("ge", Some(v)), ("le", Some(v))]));
            for (op, bound) in bounds.chain([("is_null", None), ("is_not_null", None)]) {
                let filter = bound.map_or(json!([column.name, op]), |b| json!([column.name, op, b]));
                let question = json!({"cmd": "rows", "table": self.table, "filter": filter, "columns": ["id"]});
                count_comparison();
                asked += 1;
                let answer = ask(reader, &question);
                if let Some(why) = bound.and_then(|b| refuses_filter(reader, column.sql, b)) {
                    assert!(answer["error"].as_str().is_some_and(|e| e.contains(why)), "{reader} {filter} is not refused: {answer}");
                    continue;
                }
                if answer["ok"] != true {
                    wrong.push(format!("{filter:.80}: {answer}"));
                    continue;
                }
                let found = rows_of(&answer, &["id"]);
                let bound = bound.map(String::as_str);
                wrong.extend(
                    filtered_wrongly(reader, column.kind, &found, self.rows, i + 1, op, bound).map(|w| format!("{filter:.80}: {w}")),
                );
                *pruned.entry(column.name).or_default() += usize::from(self.left_out(&answer));
            }
        }
        assert!(wrong.is_empty(), "{reader}: {} wrong of {asked}\n{}", wrong.len(), wrong.join("\n"));
        pruned
    }
}

/// Writes one commit for each file, then reads and filters by all. What each reader left out, by column.
async fn round(columns: &[Column], files: &[Vec<Line>]) -> BTreeMap<&'static str, BTreeMap<&'static str, usize>> {
    let mut folder = Folder::new();
    let yaml = columns_yaml([("id", "BIGINT NOT NULL")].into_iter().chain(columns.iter().map(|c| (c.name, c.sql))));
    for (i, lines) in files.iter().enumerate() {
        folder.input(lines.iter().map(|l| l.json.as_str()));
        let at_end = if i + 1 == files.len() { "close" } else { "pause" };
        let report = ingest(folder.path(), &pipeline("types", at_end, &yaml)).await;
        assert_eq!(report.rows, lines.len() as u64);
    }
    let table = folder.table("types");
    let rows: Vec<Row> = files.iter().flatten().map(|l| l.row.clone()).collect();
    let names: Vec<&str> = ["id"].into_iter().chain(columns.iter().map(|c| c.name)).collect();
    assert_rows_by_all(&table, &names, &rows);
    each(&READERS, |reader| {
        let schema = get(reader, &json!({"cmd": "schema", "table": table}));
        count_comparison();
        for (i, column) in columns.iter().enumerate() {
            assert_eq!(usual_spelling(schema["columns"][i + 1][1].as_str().unwrap()), column.sql, "{reader}");
        }
    });
    let filters = Filters { table: &table, columns, rows: &rows, files: files.len() };
    let pruned = Mutex::new(BTreeMap::new());
    each(&READERS, |reader| {
        let by = filters.check(reader);
        pruned.lock().unwrap().insert(reader, by);
    });
    pruned.into_inner().unwrap()
}

const HAVE_BOUNDS: [&str; 11] = ["i32", "i64", "dec9", "dec38", "s", "dt", "t3", "t6", "l6", "f", "d"];

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn every_type_with_its_extremes_is_read_by_all_and_filters_lose_nothing() {
    let start = Instant::now();
    let columns = columns();
    for (reader, by) in round(&columns, &files(&columns)).await {
        println!("{reader}: {} requests left files out: {by:?}", by.values().sum::<usize>());
        for column in HAVE_BOUNDS {
            assert!(by[column] > 0, "{reader} has read every file for each filter on {column}: are there statistics?");
        }
    }
    println!("types: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn a_value_alone_in_its_file_is_found_by_the_bounds_of_the_file() {
    let start = Instant::now();
    let columns = columns();
    for (reader, by) in round(&columns, &single_files(&columns)).await {
        for column in HAVE_BOUNDS {
            let least = columns.iter().find(|c| c.name == column).unwrap().values.len();
            assert!(by[column] >= least, "{reader} has left out files for {} filters on {column} only", by[column]);
        }
    }
    println!("single values: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn dates_and_timestamps_at_the_ends_of_their_integers_are_read_by_all() {
    // Texts end with the year 9999, so these come through the library's table API.
    use arrow::array::{Array, ArrayRef, Date32Array, Int64Array, RecordBatch, TimestampMicrosecondArray, TimestampMillisecondArray};
    use lakeward::schema::Field;
    use lakeward::table::{CommitUser, Table, TableSpec};
    use std::sync::Arc;

    let folder = Folder::new();
    let location = folder.table("far");
    let columns = [
        ("id", "BIGINT NOT NULL"),
        ("dt", "DATE"),
        ("t3", "TIMESTAMP(3)"),
        ("t6", "TIMESTAMP(6)"),
        ("l3", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("l6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ];
    let spec = TableSpec::paimon(columns.map(|(name, sql)| Field::parse(0, name, sql).unwrap()));
    let table = Table::open_or_create(location.to_str().unwrap(), spec).await.unwrap();
    let user = CommitUser::new("far");
    let (mut write, mut commit) = (table.new_write(&user).unwrap(), table.new_commit(&user));
    let mut rows: Vec<Row> = Vec::new();
    for (n, (day, long)) in (1i64..).zip([(i32::MIN, i64::MIN), (0, 0), (i32::MAX, i64::MAX)]) {
        let millis = || TimestampMillisecondArray::from(vec![Some(long), None]);
        let micros = || TimestampMicrosecondArray::from(vec![Some(long), None]);
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![2 * n, 2 * n + 1])),
            Arc::new(Date32Array::from(vec![Some(day), None])),
            Arc::new(millis()),
            Arc::new(micros()),
            Arc::new(millis().with_timezone("UTC")),
            Arc::new(micros().with_timezone("UTC")),
        ];
        assert!(arrays.iter().all(|a| a.len() == 2));
        write.write(&RecordBatch::try_new(table.schema().to_arrow(), arrays).unwrap()).await.unwrap();
        let messages = write.prepare_commit().await.unwrap();
        commit.commit(n, messages).await.unwrap();
        let (ms, us) = (Some(format!("us:{}", i128::from(long) * 1000)), Some(format!("us:{long}")));
        rows.push(vec![Some((2 * n).to_string()), Some(format!("day:{day}")), ms.clone(), us.clone(), ms, us]);
        rows.push([vec![Some((2 * n + 1).to_string())], vec![None; 5]].concat());
    }
    let names = columns.map(|(name, _)| name);
    assert_rows_by_all(&location, &names, &rows);
    for reader in READERS {
        for (i, name) in names.iter().enumerate().skip(1) {
            for op in ["eq", "ge", "le"] {
                for row in [&rows[0], &rows[4]] {
                    let bound = row[i].as_deref();
                    let filter = json!([name, op, bound]);
                    let answer = ask(reader, &json!({"cmd": "rows", "table": location, "filter": filter, "columns": ["id"]}));
                    count_comparison();
                    if let Some(why) = bound.and_then(|b| refuses_filter(reader, columns[i].1, b)) {
                        assert!(answer["error"].as_str().is_some_and(|e| e.contains(why)), "{reader} {filter} is not refused: {answer}");
                        continue;
                    }
                    assert_eq!(answer["ok"], true, "{reader} {filter}: {answer}");
                    let found = rows_of(&answer, &["id"]);
                    assert_eq!(filtered_wrongly(reader, Kind::Whole, &found, &rows, i, op, bound), None, "{reader} {filter}");
                }
            }
        }
    }
}
