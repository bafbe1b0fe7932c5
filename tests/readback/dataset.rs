//! A real data set, from CSV and from NDJSON: every column's count, nulls, distinct values, minimum, maximum and sum as pandas has them.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::readers::{compared, count_comparison, each, get};
use super::{columns_yaml, ingest};

/// All of them; `LAKEWARD_DATASET_ROWS` takes fewer.
const ROWS: u64 = 435_352;

const FACTS: [&str; 6] = ["count", "nulls", "distinct", "min", "max", "sum"];

fn data_set(dir: &Path, rows: u64) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var("LAKEWARD_INTEROP_PYTHON").unwrap_or_else(|_| root.join(".venv/bin/python").display().to_string());
    let made = Command::new(&python).arg(root.join("tests/interop/dataset.py")).arg(dir).args(["--rows", &rows.to_string()]).output();
    let made = made.unwrap_or_else(|e| panic!("{python}: {e} (tests/setup.sh makes it)"));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    serde_json::from_slice(&std::fs::read(dir.join("expected.json")).unwrap()).unwrap()
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers and a data set"]
async fn a_real_data_set_has_the_facts_that_pandas_finds() {
    let start = Instant::now();
    let rows = std::env::var("LAKEWARD_DATASET_ROWS").ok().map_or(ROWS, |n| n.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let expected = data_set(dir.path(), rows);
    assert_eq!(expected["rows"], rows);
    let schema: Vec<(String, String)> = serde_json::from_value(expected["schema"].clone()).unwrap();
    let columns = columns_yaml(schema.iter().map(|(name, sql)| (name.as_str(), sql.as_str())));
    println!("{rows} rows x {} columns made after {:.1?}", schema.len(), start.elapsed());
    for ending in ["csv", "ndjson"] {
        let text = format!(
            "version: 1\npipeline: flights-{ending}\nsource: {{files: {{paths: [data.{ending}]}}}}\nsinks:\n  - location: shop.db/{ending}\n{columns}\n\
             checkpoint: {{location: chain, rows: 50000}}\n"
        );
        let report = ingest(dir.path(), &text).await;
        assert_eq!(report.rows, rows);
        println!("{ending} written after {:.1?}", start.elapsed());
        let table = dir.path().join("shop.db").join(ending);
        let snapshots = std::fs::read_dir(table.join("snapshot")).unwrap().count();
        assert!(snapshots > 3, "several commits: {snapshots}");
        each(&["pypaimon", "java-newest"], |reader| {
            let found = get(reader, &json!({"cmd": "summary", "table": table}));
            count_comparison();
            assert_eq!(found["count"], rows, "{reader} {ending}");
            for (name, _) in &schema {
                for fact in FACTS {
                    count_comparison();
                    assert_eq!(found["columns"][name][fact], expected["columns"][name][fact], "{reader} {ending} {name} {fact}");
                }
            }
        });
        println!("{ending} read after {:.1?}", start.elapsed());
    }
    println!("data set: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}
