//! The same commands on a Delta table.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{Lake, ok, rows, run, table_cli};

const DELTA: [&str; 2] = ["--set", "sinks.0.format=delta"];

fn ingested() -> Lake {
    let lake = Lake::new();
    ok(&[&["ingest", &lake.pipeline()][..], &DELTA].concat());
    lake
}

fn log_of(lake: &Lake) -> std::path::PathBuf {
    lake.root().join("lake/shop.db/orders/_delta_log")
}

#[test]
fn versions_are_told_as_snapshots() {
    let lake = ingested();
    let all = rows(&["snapshots", &lake.table()]);
    assert_eq!((&all[0]["id"], &all[0]["kind"], &all[0]["user"]), (&0.into(), &"CREATE TABLE".into(), &Value::Null));
    let added: i64 = all.iter().map(|s| s["rows_added"].as_i64().unwrap()).sum();
    assert_eq!(added, 100);
    let (last, rest) = all[1..].split_last().unwrap();
    assert_eq!((&last["identifier"], &last["end_of_input"]), (&i64::MAX.into(), &true.into()));
    let identifiers: Vec<i64> = rest.iter().map(|s| s["identifier"].as_i64().unwrap()).collect();
    assert_eq!(identifiers, (1..=rest.len() as i64).collect::<Vec<_>>());
    for when in [["--at", "version:1"], ["--at", "snapshot:1"], ["--at", "1"], ["--snapshot", "1"], ["--version", "1"]] {
        assert_eq!(rows(&[&["count", &lake.table()][..], &when].concat())[0]["rows"], all[1]["rows_added"], "{when:?}");
    }
    let first = &rows(&["snapshot", &lake.table(), "1"])[0];
    assert_eq!(first["properties"]["lakeward.pipeline"], "orders");
    assert_eq!((&first["parameters"]["epochId"], &first["parameters"]["queryId"]), (&"1".into(), &all[1]["user"]));
}

#[test]
fn a_table_says_its_protocol_and_nothing_of_what_it_does_not_have() {
    let lake = ingested();
    let info = &rows(&["info", &lake.table()])[0];
    assert_eq!((info["format"].as_str(), info["rows"].as_i64()), (Some("delta"), Some(100)));
    assert_eq!((&info["min_reader_version"], &info["min_writer_version"], &info["features"]), (&1.into(), &2.into(), &json!([])));
    assert_eq!(info["options"]["delta.checkpointInterval"], "100");
    assert_eq!(info["registrations"][0]["pipeline"], "orders");
    for missing in ["schema_id", "bucket", "tags", "consumers"] {
        assert!(info.get(missing).is_none(), "{missing}");
    }
    let zoned = lake.path("zoned");
    ok(&["create", &zoned, "--format", "delta", "--columns", "at TIMESTAMP(6)"]);
    let info = &rows(&["info", &zoned])[0];
    assert_eq!((&info["min_reader_version"], info["snapshots"]["latest"].as_u64()), (&3.into(), Some(0)));
    assert!(info["features"].as_array().unwrap().contains(&"timestampNtz".into()), "{info}");
}

#[test]
fn files_and_partitions_add_up_and_strays_are_found() {
    let lake = ingested();
    let files = rows(&["files", &lake.table()]);
    assert_eq!(files.iter().map(|f| f["rows"].as_i64().unwrap()).sum::<i64>(), 100);
    for file in &files {
        let path = format!("{}/{}", lake.table(), file["path"].as_str().unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), file["size"].as_u64().unwrap(), "{path}");
    }
    assert_eq!(rows(&["partitions", &lake.table()])[0]["rows"], 100);
    assert_eq!(ok(&["files", &lake.table(), "--unreferenced"]), "");
    std::fs::write(format!("{}/part-left.parquet", lake.table()), "x").unwrap();
    let left = rows(&["files", &lake.table(), "--unreferenced"]);
    assert_eq!((left.len(), &left[0]["path"]), (1, &"part-left.parquet".into()));
    let last = rows(&["snapshots", &lake.table()]).len() - 1;
    let diff = rows(&["diff", &lake.table(), "0", &last.to_string()]);
    assert!(diff.iter().any(|d| d["kind"] == "table" && d["change"] == "added" && d["rows"] == 100), "{diff:?}");
}

#[test]
fn an_audit_tells_lineages_and_a_rewind_and_finds_damage() {
    let lake = ingested();
    let report = rows(&["audit", &lake.table(), "--pipeline", "orders"]);
    let of = |report: &[Value], kind: &str| report.iter().filter(|r| r["kind"] == kind).cloned().collect::<Vec<_>>();
    assert_eq!((of(&report, "lineage").len(), of(&report, "split").len(), of(&report, "finding").len()), (1, 1, 0), "{report:#?}");
    assert_eq!(of(&report, "split")[0]["to"], 100);
    ok(&[&["ingest", &lake.pipeline(), "--rewind", "2"][..], &DELTA].concat());
    let report = rows(&["audit", &lake.table()]);
    assert_eq!((of(&report, "lineage").len(), of(&report, "rewind").len(), of(&report, "finding").len()), (2, 1, 0), "{report:#?}");
    let path = format!("{}/{}", lake.table(), rows(&["files", &lake.table()])[1]["path"].as_str().unwrap());
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    for command in ["audit", "verify"] {
        let ran = run(&[command, &lake.table(), "-o", "jsonl"]);
        assert!(ran.code == 3 && ran.out.contains("bytes, and the log says"), "{command}: {}\n{}", ran.out, ran.err);
    }
}

#[test]
fn both_checks_run_beside_a_pipeline_that_writes_checkpoints_and_find_nothing() {
    let lake = Lake::new();
    let options = "sinks.0.options={delta.checkpointInterval: '5'}";
    let more = ["-q", "--set", "source.generate.rows=600", "--set", "checkpoint.rows=10", "--set", options];
    let mut child = table_cli(&[&["ingest", &lake.pipeline()][..], &DELTA, &more].concat()).spawn().unwrap();
    let mut looked = 0;
    while child.try_wait().unwrap().is_none() {
        if log_of(&lake).join("00000000000000000000.json").exists() {
            for command in ["audit", "verify"] {
                let ran = run(&[command, &lake.table(), "-o", "jsonl"]);
                assert_eq!(ran.code, 0, "{command}: {}\n{}", ran.out, ran.err);
                looked += 1;
            }
        }
    }
    assert!(looked > 1, "{looked}");
    let report = rows(&["audit", &lake.table()]);
    assert!(report.iter().any(|r| r["check"] == "checkpoints" && r["looked_at"].as_u64() > Some(0)), "{report:#?}");
}

#[test]
fn an_old_log_is_cleaned_up_when_it_is_said_and_the_pipeline_goes_on() {
    let lake = Lake::new();
    let slow = ["--set", "source.generate.rows_per_second=100", "--set", "sinks.0.options={delta.checkpointInterval: '2'}"];
    ok(&[&["ingest", &lake.pipeline()][..], &DELTA, &slow].concat());
    let expire = |more: &[&str]| run(&[&["expire", &lake.table(), "-o", "jsonl"][..], more].concat());
    assert_eq!((expire(&["--dry-run"]).code, expire(&["--dry-run"]).out.as_str()), (0, ""), "it is young");
    let old = SystemTime::now() - Duration::from_secs(40 * 24 * 3600);
    for entry in std::fs::read_dir(log_of(&lake)).unwrap() {
        std::fs::File::open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
    }
    let listed = expire(&["--dry-run"]);
    assert!(listed.code == 0 && listed.out.contains("_delta_log/00000000000000000000.json"), "{}{}", listed.out, listed.err);
    let asked = expire(&[]);
    assert!(asked.code == 2 && asked.err.contains("--yes") && log_of(&lake).join("00000000000000000000.json").exists(), "{}", asked.err);
    let done: Value = serde_json::from_str(&expire(&["--yes"]).out).unwrap();
    assert_eq!((done["deleted"].as_u64(), &done["deleted"]), (Some(listed.out.lines().count() as u64), &done["files"]));
    assert!(!log_of(&lake).join("00000000000000000000.json").exists());
    assert_eq!(rows(&["count", &lake.table()])[0]["rows"], 100);
    let gone = run(&["count", &lake.table(), "--at", "version:1"]);
    assert!(gone.code == 2 && gone.err.contains("there is no snapshot 1"), "{}", gone.err);
    let report = rows(&["audit", &lake.table()]);
    assert!(report.iter().any(|r| r["what"].as_str().is_some_and(|w| w.contains("was cleaned up"))), "{report:#?}");
    ok(&[&["ingest", &lake.pipeline(), "--set", "source.generate.rows=150"][..], &DELTA].concat());
    assert_eq!(rows(&["audit", &lake.table()]).iter().filter(|r| r["kind"] == "finding").count(), 0);
}
