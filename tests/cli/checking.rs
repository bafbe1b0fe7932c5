//! `audit` and `verify` from the outside.

use serde_json::Value;

use super::{Lake, ok, rows, run, table_cli};

fn ingested() -> Lake {
    let lake = Lake::new();
    ok(&["ingest", &lake.pipeline()]);
    lake
}

fn of_kind<'a>(report: &'a [Value], kind: &str) -> Vec<&'a Value> {
    report.iter().filter(|r| r["kind"] == kind).collect()
}

#[test]
fn an_audit_has_a_line_for_each_lineage_and_split_and_tells_a_rewind() {
    let lake = ingested();
    let report = rows(&["audit", &lake.table(), "--pipeline", "orders"]);
    let (lineages, splits) = (of_kind(&report, "lineage"), of_kind(&report, "split"));
    assert_eq!((lineages.len(), splits.len()), (1, 1), "{report:#?}");
    assert_eq!((&lineages[0]["rows"], &lineages[0]["state"]), (&100.into(), &"ended".into()));
    assert_eq!(
        (&splits[0]["split"], &splits[0]["from"], &splits[0]["to"], &splits[0]["rows"]),
        (&"generate".into(), &0.into(), &100.into(), &100.into())
    );
    assert!(of_kind(&report, "rewind").is_empty() && of_kind(&report, "finding").is_empty());

    ok(&["ingest", &lake.pipeline(), "--rewind", "2"]);
    let back = rows(&["checkpoints", &lake.pipeline(), "--json", "2"])[0]["offsets"]["generate"]["offset"].clone();
    let report = rows(&["audit", &lake.table()]);
    let rewinds = of_kind(&report, "rewind");
    assert_eq!(rewinds.len(), 1, "{report:#?}");
    assert_eq!((&rewinds[0]["from"], &rewinds[0]["to"]), (&back, &100.into()));
    assert_eq!(of_kind(&report, "lineage").len(), 2);
    assert!(of_kind(&report, "finding").is_empty());
}

#[test]
fn a_finding_exits_3_and_is_there_in_every_form() {
    let lake = ingested();
    let file = rows(&["files", &lake.table()])[1]["path"].as_str().unwrap().to_owned();
    let path = format!("{}/{file}", lake.table());
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    for command in ["audit", "verify"] {
        for form in ["table", "json", "jsonl", "csv"] {
            let ran = run(&[command, &lake.table(), "-o", form]);
            assert_eq!(ran.code, 3, "{command} {form}: {}", ran.err);
            assert!(ran.out.contains(&file) && ran.out.contains("its manifest says"), "{command} {form}: {}", ran.out);
            assert!(ran.err.contains("1 finding"), "{command} {form}: {}", ran.err);
        }
        let report: Vec<Value> = serde_json::from_str(&run(&[command, &lake.table(), "-o", "json"]).out).unwrap();
        let finding = of_kind(&report, "finding")[0];
        assert_eq!((&finding["check"], &finding["at"]), (&"data files".into(), &file.as_str().into()));
        assert!(finding["snapshot"].is_u64());
        let csv = run(&[command, &lake.table(), "-o", "csv"]).out;
        assert!(csv.lines().next().unwrap().starts_with("kind,"), "{csv}");
    }
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(run(&["verify", &lake.table(), "--footers", "-q"]).code, 0);
}

#[test]
fn rows_that_are_there_twice_and_rows_that_are_missing_are_found_by_their_offsets() {
    let lake = ingested();
    let snapshot = format!("{}/snapshot/snapshot-2", lake.table());
    let text = std::fs::read_to_string(&snapshot).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let told = json["properties"]["lakeward.offsets"].as_str().unwrap();
    let ranges: Value = serde_json::from_str(told).unwrap();
    let (from, to) = (ranges["generate"][0].as_u64().unwrap(), ranges["generate"][1].as_u64().unwrap());
    for (shifted, what) in [
        (from - 1, format!("offsets [{}, {from}) are there twice", from - 1)),
        (from + 1, format!("offsets [{from}, {}) are missing", from + 1)),
    ] {
        let mut json = json.clone();
        json["properties"]["lakeward.offsets"] = format!("{{\"generate\":[{shifted},{to}]}}").into();
        std::fs::write(&snapshot, json.to_string()).unwrap();
        let ran = run(&["audit", &lake.table(), "-o", "jsonl"]);
        assert_eq!(ran.code, 3, "{}", ran.out);
        assert!(ran.out.contains(&what) && ran.out.contains("split generate"), "{what}: {}", ran.out);
        assert_eq!(run(&["verify", &lake.table()]).code, 0, "nothing is wrong with the metadata");
    }
}

#[test]
fn a_table_without_our_properties_is_said_to_be_one_and_its_files_are_checked() {
    let lake = Lake::new();
    ok(&["create", &lake.table(), "--columns", "id BIGINT"]);
    assert!(rows(&["audit", &lake.table()]).iter().any(|r| r["what"] == "the table has no snapshot yet"));
    let lake = ingested();
    for entry in std::fs::read_dir(format!("{}/snapshot", lake.table())).unwrap().map(|e| e.unwrap().path()) {
        if entry.file_name().unwrap().to_str().unwrap().starts_with("snapshot-") {
            let mut json: Value = serde_json::from_slice(&std::fs::read(&entry).unwrap()).unwrap();
            json.as_object_mut().unwrap().remove("properties");
            std::fs::write(&entry, json.to_string()).unwrap();
        }
    }
    let report = rows(&["audit", &lake.table()]);
    assert!(
        of_kind(&report, "note").iter().any(|n| n["what"].as_str().unwrap().contains("no snapshot has lakeward's properties")),
        "{report:#?}"
    );
    assert_eq!(of_kind(&report, "writer").len(), 1);
    let ran = run(&["audit", &lake.table(), "--pipeline", "orders"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("no snapshot of the pipeline orders"), "{}", ran.err);
}

#[test]
fn both_run_beside_a_pipeline_and_find_nothing() {
    let lake = Lake::new();
    let mut child =
        table_cli(&["ingest", &lake.pipeline(), "-q", "--set", "source.generate.rows=600", "--set", "checkpoint.rows=10"]).spawn().unwrap();
    let mut looked = 0;
    while child.try_wait().unwrap().is_none() {
        if std::path::Path::new(&lake.table()).join("schema/schema-0").exists() {
            for command in ["audit", "verify"] {
                let ran = run(&[command, &lake.table(), "-o", "jsonl"]);
                assert_eq!(ran.code, 0, "{command}: {}\n{}", ran.out, ran.err);
                looked += 1;
            }
        }
    }
    assert!(looked > 4, "{looked}");
    assert_eq!(run(&["audit", &lake.table()]).code, 0);
}
