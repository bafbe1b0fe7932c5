//! `verify` and `audit` of tables that others made, changed and expired: nothing is wrong with them.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::readers::{WRITERS, count_comparison, get};
use super::{Folder, ingest, pipeline};

const NEEDS: [(&str, &str); 4] = [("id", "BIGINT NOT NULL"), ("p", "STRING"), ("d", "DATE"), ("v", "DECIMAL(38, 10)")];

/// Nothing is found, by either command; returns what `verify` looked at.
pub(super) fn assert_sound(table: &Path, when: &str) -> Vec<Value> {
    let table = table.to_str().unwrap();
    for args in [&["audit", table, "-o", "jsonl"][..], &["verify", table, "--footers", "-o", "jsonl"]] {
        count_comparison();
        let ran = crate::cli::run(args);
        let found: Vec<&str> = ran.out.lines().filter(|l| l.contains("\"kind\":\"finding\"")).collect();
        assert!(ran.code == 0 && found.is_empty(), "{when}: {} {}\n{found:#?}\n{}", args[0], ran.code, ran.err);
        if args[0] == "verify" {
            return ran.out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        }
    }
    unreachable!()
}

fn looked(report: &[Value], check: &str) -> u64 {
    report.iter().find(|r| r["check"] == check).map_or(0, |r| r["looked_at"].as_u64().unwrap())
}

/// What is created: partition columns, primary key, options.
type Shape = (&'static [&'static str], &'static [&'static str], &'static [(&'static str, &'static str)]);

const MERGING: (&str, &str) = ("manifest.merge-min-count", "2");
/// Every writer makes these.
const APPEND: [Shape; 3] = [
    (&[], &[], &[("bucket", "-1"), MERGING]),
    (&["p"], &[], &[("bucket", "-1"), MERGING, ("metadata.stats-mode", "truncate(16)")]),
    (&["d", "p"], &[], &[("bucket", "-1"), ("manifest.full-compaction-threshold-size", "1 b"), ("manifest.target-file-size", "1 b")]),
];
const KEYED: [Shape; 1] = [(&[], &["id"], &[("bucket", "2"), MERGING])];
/// Java alone.
const MORE: [Shape; 4] = [
    (&["p"], &["id", "p"], &[("bucket", "1"), MERGING, ("changelog-producer", "input")]),
    (&[], &["id"], &[("bucket", "1"), ("deletion-vectors.enabled", "true")]),
    (&[], &["id"], &[("bucket", "1"), ("merge-engine", "first-row"), ("file.format", "avro")]),
    (&[], &[], &[("bucket", "2"), ("bucket-key", "id"), MERGING]),
];

fn rows(from: usize) -> Value {
    let partition = |i: usize| [json!("a"), json!("b/=%"), Value::Null][i % 3].clone();
    let day = |i: usize| ["1969-12-31", "2024-02-29", "2024-03-01"][i % 3];
    // Keys are written again now and then, so that there is something to compact and to delete.
    (from..from + 3).map(|i| json!([(i % 10).to_string(), partition(i), day(i), "-1.5"])).collect()
}

fn create(writer: &str, table: &Path, (partition, key, options): Shape) {
    let options: serde_json::Map<String, Value> = options.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    let required = |name: &str| partition.contains(&name) && !key.is_empty();
    let columns: Vec<Value> =
        NEEDS.iter().map(|(n, t)| json!([n, if required(n) { format!("{t} NOT NULL") } else { (*t).to_owned() }])).collect();
    let question =
        json!({"cmd": "create", "table": table, "columns": columns, "partition": partition, "primary_key": key, "options": options});
    get(writer, &question);
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn nothing_is_found_in_tables_of_java_and_pypaimon() {
    let start = Instant::now();
    for writer in WRITERS {
        let java = writer.starts_with("java");
        for shape in APPEND.iter().chain(&KEYED).chain(MORE.iter().filter(|_| java)) {
            let folder = Folder::new();
            let table = folder.table("checked");
            let when = |step: &str| format!("{writer}, {shape:?}, after {step}");
            create(writer, &table, *shape);
            assert_sound(&table, &when("create"));
            let key_with_null = !shape.1.is_empty() && shape.0.contains(&"p");
            let some = |from: usize| {
                let mut all = rows(from);
                if key_with_null {
                    all.as_array_mut().unwrap().iter_mut().filter(|r| r[1].is_null()).for_each(|r| r[1] = json!("c"));
                }
                all
            };
            for n in 0..8 {
                get(writer, &json!({"cmd": "append", "table": table, "rows": some(n * 3)}));
            }
            assert_sound(&table, &when("appends"));
            if java {
                get(writer, &json!({"cmd": "tag", "table": table, "name": "five", "id": 5}));
                if shape.1.is_empty() && shape.2.contains(&("bucket", "-1")) {
                    let compacted = get(writer, &json!({"cmd": "compact", "table": table}));
                    assert!(compacted["compacted"].as_u64().unwrap() > 4, "{compacted}");
                    assert_sound(&table, &when("compact"));
                }
            }
            get(writer, &json!({"cmd": "append", "table": table, "rows": some(40), "overwrite": true}));
            let report = assert_sound(&table, &when("overwrite"));
            assert!(looked(&report, "snapshots") >= 9, "{report:#?}");
            if java {
                get(writer, &json!({"cmd": "expire", "table": table, "retain_max": 1, "retain_min": 1, "time_retained_ms": 0}));
                let report = assert_sound(&table, &when("expire"));
                assert_eq!((looked(&report, "snapshots"), looked(&report, "tags")), (1, 1), "{}", when("expire"));
            }
            get(writer, &json!({"cmd": "append", "table": table, "rows": some(50)}));
            let report = assert_sound(&table, &when("one more append"));
            // Java leaves the changelog files of a snapshot that has a tag, and removes the list that names them.
            let left = if shape.2.contains(&("changelog-producer", "input")) { 3 } else { 0 };
            assert_eq!(looked(&report, "unreferenced files"), left, "{}", when("all"));
        }
    }
    println!("checked: {:.1?}", start.elapsed());
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn nothing_is_found_in_a_table_of_ours_that_java_compacts_tags_and_expires() {
    for java in ["java-newest", "java-oldest"] {
        let mut folder = Folder::new();
        let table = folder.table("shared");
        for n in 0..6 {
            let lines: Vec<String> =
                (0..5).map(|i| json!({"id": n * 5 + i, "p": if i % 2 == 0 { "a" } else { "b" }}).to_string()).collect();
            folder.input(lines.iter().map(String::as_str));
            ingest(folder.path(), &pipeline("shared", "pause", "    columns: {id: BIGINT NOT NULL, p: STRING}\n    partition_by: [p]\n"))
                .await;
            if n == 3 {
                get(java, &json!({"cmd": "tag", "table": table, "name": "t", "id": 2}));
                get(java, &json!({"cmd": "compact", "table": table}));
            }
            assert_sound(&table, &format!("{java}, input {n}"));
        }
        get(java, &json!({"cmd": "expire", "table": table, "retain_max": 1, "retain_min": 1, "time_retained_ms": 0}));
        assert_sound(&table, &format!("{java}, expiry"));
        let lines = crate::cli::rows(&["audit", table.to_str().unwrap()]);
        let lineage: Vec<&Value> = lines.iter().filter(|l| l["kind"] == "lineage").collect();
        assert_eq!(lineage.len(), 1, "{lines:#?}");
        assert!(lines.iter().any(|l| l["kind"] == "note" && l["what"].as_str().unwrap().contains("have expired")), "{lines:#?}");
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn what_is_damaged_in_a_table_of_others_is_found() {
    for writer in WRITERS {
        let folder = Folder::new();
        let table = folder.table("damaged");
        create(writer, &table, APPEND[0]);
        for n in 0..3 {
            get(writer, &json!({"cmd": "append", "table": table, "rows": rows(n * 3)}));
        }
        assert_sound(&table, writer);
        let listed = crate::process::tree(&table);
        let some = |dir: &str, part: &str| {
            let is =
                |p: &&std::path::PathBuf| p.parent().unwrap().ends_with(dir) && p.file_name().unwrap().to_str().unwrap().contains(part);
            listed.keys().find(is).unwrap().clone()
        };
        let data = some("bucket-0", ".parquet");
        let bytes = std::fs::read(&data).unwrap();
        std::fs::write(&data, &bytes[..bytes.len() - 4]).unwrap();
        let found = |wanted: &str| {
            count_comparison();
            let ran = crate::cli::run(&["verify", table.to_str().unwrap(), "-o", "jsonl"]);
            assert_eq!(ran.code, 3, "{writer}: {}", ran.out);
            let findings: Vec<&str> = ran.out.lines().filter(|l| l.contains("\"kind\":\"finding\"")).collect();
            assert!(findings.iter().any(|l| l.contains(wanted)), "{writer}: {wanted} is not in {findings:#?}");
        };
        found("bytes, and its manifest says");
        std::fs::write(&data, &bytes).unwrap();
        let snapshot = some("snapshot", "snapshot-2");
        let text = std::fs::read(&snapshot).unwrap();
        std::fs::remove_file(&snapshot).unwrap();
        found("history has a hole");
        std::fs::write(&snapshot, &text).unwrap();
        assert_sound(&table, writer);
        std::fs::write(table.join("snapshot/LATEST"), "9").unwrap();
        found("readers take it for the newest and fail");
    }
}
