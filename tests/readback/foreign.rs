//! Tables that others made: opened and appended to by us, read by all.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::quirks::Feature;
use super::readers::{Row, WRITERS, assert_rows_by_all_who_know, compared, count_comparison, get, text};
use super::{Folder, ingest, pipeline};

const COLUMNS: [(&str, &str); 8] = [
    ("id", "BIGINT NOT NULL"),
    ("p", "STRING"),
    ("s", "STRING"),
    ("d", "DOUBLE"),
    ("wide", "DECIMAL(38, 10)"),
    ("day", "DATE"),
    ("at", "TIMESTAMP(6)"),
    ("zoned", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
];

/// A row as NDJSON and as canonical text.
fn row(id: usize, partition: Option<&str>) -> (String, Row) {
    let json = json!({"id": id, "p": partition, "s": format!("ü{id}"), "d": 0.5, "wide": "-1.5", "day": "2024-02-29",
        "at": "2023-11-14 22:13:20.123456", "zoned": "2023-11-14T22:13:20.123Z"});
    let texts =
        [format!("ü{id}").as_str(), "f64:3fe0000000000000", "-1.5000000000", "day:19782", "us:1700000000123456", "us:1700000000123000"]
            .map(text);
    (json.to_string(), [vec![Some(id.to_string()), partition.map(str::to_owned)], texts.to_vec()].concat())
}

struct Foreign {
    folder: Folder,
    rows: Vec<Row>,
    /// Java 0.9 has committed.
    old: bool,
}

impl Foreign {
    fn next(&mut self) -> Vec<(String, Row)> {
        let next: Vec<_> = [Some("a"), Some("b/=%"), None].into_iter().zip(self.rows.len() + 1..).map(|(p, id)| row(id, p)).collect();
        self.rows.extend(next.iter().map(|n| n.1.clone()));
        next
    }
    fn append(&mut self, writer: &str, table: &Path) {
        let rows: Vec<Row> = self.next().into_iter().map(|n| n.1).collect();
        get(writer, &json!({"cmd": "append", "table": table, "rows": rows}));
        self.old |= writer == "java-oldest";
    }
    async fn ingest(&mut self, partitioned: bool) {
        let next = self.next();
        self.folder.input(next.iter().map(|n| n.0.as_str()));
        // Without `columns` they are those of the table.
        let sink = if partitioned { "    partition_by: [p]\n" } else { "" };
        let report = ingest(self.folder.path(), &pipeline("foreign", "pause", sink)).await;
        assert_eq!(report.rows, 3);
    }
    fn read(&self, table: &Path) {
        let feature = self.old.then_some(Feature::OldManifest);
        assert_rows_by_all_who_know(feature, table, &COLUMNS.map(|c| c.0), &self.rows);
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn tables_of_other_writers_are_appended_to_in_turns() {
    let start = Instant::now();
    for (creator, partition) in WRITERS.into_iter().flat_map(|w| [(w, vec![]), (w, vec!["p"])]) {
        let folder = Folder::new();
        let table = folder.table("foreign");
        let columns: Vec<Value> = COLUMNS.iter().map(|(n, t)| json!([n, t])).collect();
        let options = json!({"bucket": "-1", "file.format": "parquet", "metadata.stats-mode": "truncate(16)"});
        get(creator, &json!({"cmd": "create", "table": table, "columns": columns, "partition": partition, "options": options}));
        let mut foreign = Foreign { folder, rows: Vec::new(), old: false };
        let partitioned = !partition.is_empty();
        // Ours is the first snapshot of a table that another made; then all take turns.
        foreign.ingest(partitioned).await;
        foreign.read(&table);
        foreign.append(creator, &table);
        foreign.ingest(partitioned).await;
        foreign.read(&table);
        for other in
            ["java-newest", "pypaimon"].into_iter().filter(|o| *o != creator && (*o != "pypaimon" || !foreign.old)).collect::<Vec<_>>()
        {
            foreign.append(other, &table);
            foreign.ingest(partitioned).await;
        }
        foreign.read(&table);
        let snapshots = get("java-newest", &json!({"cmd": "snapshots", "table": table}));
        count_comparison();
        let last = snapshots["snapshots"].as_array().unwrap().last().unwrap();
        assert_eq!(last["totalRecordCount"], foreign.rows.len(), "{creator}");
        println!("{creator}, partitioned by {partition:?}: {} rows in {} snapshots", foreign.rows.len(), snapshots["latest"]);
    }
    println!("foreign: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}
