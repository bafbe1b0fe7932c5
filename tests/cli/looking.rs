//! A table that was written by `ingest`, looked at in every form.

use std::process::Stdio;

use super::{Lake, ok, ran, rows, run, table_cli};

fn ingested() -> Lake {
    let lake = Lake::new();
    ok(&["ingest", &lake.pipeline()]);
    lake
}

#[test]
fn rows_come_out_in_every_form() {
    let lake = ingested();
    let ids = |values: Vec<i64>| {
        let mut ids = values;
        ids.sort_unstable();
        assert_eq!(ids, (1..=100).collect::<Vec<i64>>());
    };
    ids(rows(&["cat", &lake.table()]).iter().map(|r| r["id"].as_i64().unwrap()).collect());
    let array: Vec<serde_json::Value> = serde_json::from_str(&ok(&["cat", &lake.table(), "-o", "json"])).unwrap();
    ids(array.iter().map(|r| r["id"].as_i64().unwrap()).collect());
    let csv = ok(&["cat", &lake.table(), "-o", "csv"]);
    assert_eq!(csv.lines().next(), Some("id"));
    ids(csv.lines().skip(1).map(|l| l.parse().unwrap()).collect());
    let table = ok(&["cat", &lake.table(), "-o", "table"]);
    ids(table.lines().filter_map(|l| l.trim_matches(['│', ' ']).parse().ok()).collect());
    assert_eq!(rows(&["cat", &lake.table(), "--limit", "7"]).len(), 7);
    assert_eq!(ok(&["cat", &lake.table(), "--limit", "0", "-o", "json"]), "[]\n");
}

#[test]
fn count_is_of_the_newest_snapshot_or_of_an_older_one() {
    let lake = ingested();
    assert_eq!(rows(&["count", &lake.table()])[0]["rows"], 100);
    let first = &rows(&["snapshots", &lake.table()])[0];
    let id = first["id"].to_string();
    assert_eq!(rows(&["count", &lake.table(), "--snapshot", &id])[0]["rows"], first["rows_added"]);
    assert_eq!(run(&["count", &lake.table(), "--snapshot", "9999"]).code, 2);
}

#[test]
fn snapshots_tell_user_and_identifier_and_mark_end_of_input() {
    let lake = ingested();
    let all = rows(&["snapshots", &lake.table()]);
    assert!(all.len() >= 3, "{all:?}");
    assert!(all.iter().all(|s| s["user"] == all[0]["user"]));
    let added: i64 = all.iter().map(|s| s["rows_added"].as_i64().unwrap()).sum();
    assert_eq!(added, 100);
    let (last, rest) = all.split_last().unwrap();
    assert_eq!((&last["identifier"], &last["end_of_input"]), (&i64::MAX.into(), &true.into()));
    assert!(rest.iter().all(|s| s.get("end_of_input").is_none()));
    let identifiers: Vec<i64> = rest.iter().map(|s| s["identifier"].as_i64().unwrap()).collect();
    assert_eq!(identifiers, (1..=rest.len() as i64).collect::<Vec<_>>());
    assert_eq!(rows(&["snapshots", &lake.table(), "--limit", "2"]).len(), 2);
    assert!(ok(&["snapshots", &lake.table(), "-o", "table"]).contains("end of input"));
    assert!(ok(&["snapshots", &lake.table(), "-o", "csv"]).lines().next().unwrap().contains("identifier,end_of_input"));
}

#[test]
fn a_snapshot_and_the_table_tell_who_wrote_them() {
    let lake = ingested();
    let snapshot = &rows(&["snapshot", &lake.table(), "1"])[0];
    assert_eq!(snapshot["properties"]["lakeward.pipeline"], "orders");
    let info = &rows(&["info", &lake.table()])[0];
    assert_eq!((info["format"].as_str(), info["rows"].as_i64()), (Some("paimon"), Some(100)));
    assert_eq!(info["registrations"][0]["pipeline"], "orders");
    assert_eq!(info["columns"][0], serde_json::json!("id BIGINT NOT NULL"));
    assert!(ok(&["info", &lake.table(), "-o", "table"]).contains("end of input"));
    assert_eq!(run(&["snapshot", &lake.table(), "9999"]).code, 2);
}

#[test]
fn a_files_list_adds_up_and_what_nobody_refers_to_is_found() {
    let lake = ingested();
    let files = rows(&["files", &lake.table()]);
    assert_eq!(files.iter().map(|f| f["rows"].as_i64().unwrap()).sum::<i64>(), 100);
    for file in &files {
        let path = format!("{}/{}", lake.table(), file["path"].as_str().unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), file["size"].as_u64().unwrap(), "{path}");
    }
    assert_eq!(ok(&["files", &lake.table(), "--unreferenced"]), "");
    std::fs::write(format!("{}/bucket-0/data-left-behind-0.parquet", lake.table()), "x").unwrap();
    let left = rows(&["files", &lake.table(), "--unreferenced"]);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((&left[0]["path"], &left[0]["size"]), (&"bucket-0/data-left-behind-0.parquet".into(), &1.into()));
}

#[test]
fn checkpoints_are_found_by_pipeline_and_by_location() {
    let lake = ingested();
    let by_file = rows(&["checkpoints", &lake.pipeline()]);
    let strip = |rows: &[serde_json::Value]| rows.iter().map(|r| (r["seq"].clone(), r["kind"].clone())).collect::<Vec<_>>();
    let location = lake.path("lake/_checkpoints");
    assert_eq!(strip(&rows(&["checkpoints", &location, "orders"])), strip(&by_file));
    assert_eq!(by_file[0]["kind"], "closed");
    assert!(by_file.iter().any(|c| c["end_of_input"] == true));
    let seq = by_file[1]["seq"].to_string();
    let whole: serde_json::Value = serde_json::from_str(&ok(&["checkpoints", &lake.pipeline(), "--json", &seq])).unwrap();
    assert_eq!((whole["seq"].to_string(), whole["pipeline"].as_str()), (seq, Some("orders")));
    let missing = run(&["checkpoints", &location]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("these are here: orders"), "{}", missing.err);
    assert_eq!(run(&["checkpoints", &lake.pipeline(), "--json", "9999"]).code, 2);
}

#[test]
fn a_run_tells_each_commit_on_standard_error_and_its_sum_on_standard_output() {
    let lake = Lake::new();
    let told = run(&["ingest", &lake.pipeline(), "--log-format", "json"]);
    assert_eq!(told.code, 0, "{}", told.err);
    let lines: Vec<serde_json::Value> = told.err.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let commits: Vec<&serde_json::Value> = lines.iter().filter(|l| l["message"] == "committed").collect();
    assert_eq!(commits.iter().map(|c| c["rows"].as_i64().unwrap()).sum::<i64>(), 100);
    for key in ["pipeline", "run", "identifier", "snapshot", "rows", "bytes", "ms"] {
        assert!(commits.iter().all(|c| !c[key].is_null()), "{key}: {commits:?}");
    }
    let sum: serde_json::Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&sum["rows"], &sum["closed"]), (&100.into(), &true.into()));

    let again = run(&["ingest", &lake.pipeline(), "-q"]);
    assert_eq!((again.code, again.err.as_str()), (0, ""));
    assert!(again.out.contains("\"nothing_to_read\":true"), "{}", again.out);
    assert_eq!(rows(&["count", &lake.table()])[0]["rows"], 100);
}

#[test]
fn a_dry_run_shows_five_rows_and_writes_nothing() {
    let lake = Lake::new();
    // Fast enough for the first poll to give five rows.
    let (pipeline, fast) = (lake.pipeline(), ["--dry-run", "--set", "source.generate.rows_per_second=1000000"]);
    let args: Vec<&str> = ["ingest", &pipeline].into_iter().chain(fast).collect();
    let plan = rows(&args);
    assert_eq!(plan[0]["rows"].as_array().unwrap().len(), 5);
    assert_eq!((&plan[0]["exists"], &plan[0]["columns"]), (&false.into(), &serde_json::json!(["id BIGINT NOT NULL"])));
    let text = ok(&args.iter().copied().chain(["-o", "table"]).collect::<Vec<_>>());
    assert!(text.contains("creates") && text.contains("id BIGINT NOT NULL") && text.ends_with("nothing was written\n"), "{text}");
    assert!(!lake.root().join("lake").exists(), "a dry run wrote");
}

#[test]
fn a_table_of_nested_types_is_created_once_and_shown_as_it_was_written() {
    let lake = Lake::new();
    let table = lake.path("nested");
    let columns = "id BIGINT NOT NULL, tags ARRAY<STRING NOT NULL>, at TIME(0), \
        r ROW<x INT NOT NULL, `a b` MAP<STRING, DECIMAL(10, 2)>> NOT NULL, n MULTISET<INT>, t TIMESTAMP(9) WITH LOCAL TIME ZONE, b BINARY(3)";
    let create = ["create", &table, "--columns", columns, "--if-not-exists"];
    assert_eq!(rows(&create)[0]["created"], true);
    // The fields of `r` have ids in the table and none on the command line.
    assert_eq!(rows(&create)[0]["created"], false);
    let shown: Vec<String> =
        rows(&["schema", &table]).iter().map(|c| format!("{} {}", c["name"].as_str().unwrap(), c["type"].as_str().unwrap())).collect();
    assert_eq!(shown.join(", "), columns);
    assert_eq!(rows(&["info", &table])[0]["columns"].as_array().unwrap().len(), 7);
    let ids: Vec<i64> = rows(&["schema", &table]).iter().map(|c| c["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, [0, 1, 2, 3, 6, 7, 8]);
    let other = columns.replace("x INT NOT NULL", "x INT");
    let refused = run(&["create", &table, "--columns", &other, "--if-not-exists"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("column `r` is ROW<x INT NOT NULL"), "{}", refused.err);
}

#[test]
fn a_table_is_created_once() {
    let lake = Lake::new();
    let table = lake.path("t");
    let create = ["create", &table, "--columns", "id BIGINT NOT NULL, amount DECIMAL(10, 2), dt DATE", "--partition-by", "dt"];
    assert_eq!(rows(&create)[0]["created"], true);
    assert_eq!(run(&create).code, 2);
    let again: Vec<&str> = create.iter().copied().chain(["--if-not-exists"]).collect();
    assert_eq!(rows(&again)[0]["created"], false);
    let columns = rows(&["schema", &table]);
    let shown: Vec<String> = columns.iter().map(|c| format!("{} {}", c["name"].as_str().unwrap(), c["type"].as_str().unwrap())).collect();
    assert_eq!(shown, ["id BIGINT NOT NULL", "amount DECIMAL(10, 2)", "dt DATE"]);
    assert_eq!(columns[2]["partition"], true);
    assert_eq!(rows(&["count", &table])[0]["rows"], 0);
    assert_eq!(ok(&["snapshots", &table]), "");
    assert_eq!(rows(&["info", &table])[0]["snapshots"], serde_json::Value::Null);

    let wrong = run(&["create", &lake.path("u"), "--columns", "id BIGNT"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("BIGNT") && !lake.root().join("u").exists(), "{}", wrong.err);
    rows(&["create", "--pipeline", &lake.pipeline()]);
    assert_eq!(rows(&["schema", &lake.table()]).len(), 1);
}

#[test]
fn a_reader_that_leaves_in_the_middle_is_no_error() {
    let lake = ingested();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = ran(table_cli(&["cat", &lake.table()]).stdout(writer).stderr(Stdio::piped()).output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn dead_letters_show_the_record_as_it_came() {
    let lake = Lake::new();
    lake.write("in.ndjson", "{\"id\": 1}\n{\"id\": oops\n{\"id\": 2}\n");
    let pipeline = lake.write(
        "files.yaml",
        "version: 1\npipeline: files\nsource:\n  files: {paths: [\"in.ndjson\"]}\nsinks:\n  - location: ./lake/t\n    columns:\n      id: BIGINT NOT NULL\n\
         dead_letter:\n  location: ./lake/dead\ncheckpoint:\n  location: ./lake/_checkpoints\ndurability: none\n",
    );
    ok(&["ingest", &pipeline]);
    let dead = rows(&["dead-letters", &pipeline]);
    assert_eq!(dead.len(), 1);
    assert_eq!((&dead[0]["value"], &dead[0]["stage"], &dead[0]["line"]), (&"{\"id\": oops".into(), &"decode".into(), &2.into()));
    assert_eq!(rows(&["dead-letters", &lake.path("lake/dead")]).len(), 1);
    assert_eq!(ok(&["dead-letters", &pipeline, "--limit", "0"]), "");
    let none = run(&["dead-letters", &lake.pipeline()]);
    assert_eq!(none.code, 2);
    assert!(none.err.contains("dead_letter"), "{}", none.err);
}
