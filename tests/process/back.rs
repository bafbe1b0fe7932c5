//! `--rewind` and `--abandon` through the command; chains that are gone; a pipeline that changed.

use std::collections::BTreeMap;

use super::{Ended, Line, Place, tree, users};

const SOURCE: &str = "generate: {rows: 300, rows_per_second: 300}";

fn warnings(ended: &Ended) -> String {
    ended.lines.iter().filter(|l| l.json["level"] == "WARN").map(|l| format!("{}\n", l.says())).collect()
}

fn last_error(ended: &Ended) -> String {
    let json = &ended.lines.last().unwrap().json;
    format!("{}; {}", json["message"].as_str().unwrap(), json["hint"].as_str().unwrap())
}

/// How often each id is there.
fn times(place: &Place) -> BTreeMap<i64, usize> {
    let mut times = BTreeMap::new();
    for id in place.ids() {
        *times.entry(id).or_default() += 1;
    }
    times
}

#[test]
fn a_rewind_closes_the_old_lineage_and_says_what_is_written_again() {
    let place = Place::new(SOURCE, "every: 250ms");
    place.run(&[]).with(0);
    let before = place.snapshots();
    let back_to = place.checkpoints().iter().find(|c| c["kind"] == "data").unwrap().clone();
    let seq = back_to["seq"].to_string();
    let from = back_to["offsets"]["generate"]["offset"].as_u64().unwrap();
    assert!((1..300).contains(&from));

    let rewound = place.run(&["--rewind", &seq]).with(0);
    let said = warnings(&rewound);
    assert!(said.contains(&format!("rewind to checkpoint {seq}")) && said.contains("WRITTEN AGAIN"), "{said}");
    assert!(said.contains(&from.to_string()) && said.contains("300"), "the offsets: {said}");
    assert_eq!(rewound.report()["rows"], 300 - from);

    let open = place.checkpoints().into_iter().rfind(|c| c["kind"] == "open").unwrap();
    let opened = format!("opened by checkpoint {}", open["seq"]);
    assert!(rewound.lines.iter().any(|l| l.says().starts_with("new lineage p-") && l.says().contains(&opened)), "{}", rewound.err());

    let after = place.snapshots();
    assert_eq!(&after[..before.len()], before, "what was there stays");
    assert_eq!(users(&before).len(), 1);
    assert_eq!(users(&after[before.len()..]).len(), 1, "the old one had ended by itself, so nothing had to close it");
    assert!(users(&before).is_disjoint(&users(&after[before.len()..])), "a new commit user");
    let wanted: BTreeMap<i64, usize> = (1..=300_i64).map(|id| (id, if id.cast_unsigned() <= from { 1 } else { 2 })).collect();
    assert_eq!(times(&place), wanted);
}

#[test]
fn a_rewind_of_a_lineage_that_was_killed_closes_it_in_the_table() {
    let place = Place::new(SOURCE, "every: 150ms");
    let mut child = place.start(&[]);
    child.until(2, Line::committed).expect("it commits");
    child.kill();
    let before = place.snapshots();
    place.run(&["--rewind", "1"]).with(0);
    let all = place.snapshots();
    let old: Vec<_> = all.iter().filter(|s| s["commitUser"] == before[0]["commitUser"]).collect();
    let close = old.last().unwrap();
    assert_eq!(close["commitIdentifier"], i64::MAX);
    assert_eq!(close["deltaRecordCount"], 0);
    assert_eq!(close["properties"]["lakeward.closed-at"], old[old.len() - 2]["commitIdentifier"].to_string());
    assert!(close["id"].as_u64() > before.last().unwrap()["id"].as_u64());
    assert_eq!(users(&all).len(), 2);
    assert_eq!(times(&place).len(), 300);
}

#[test]
fn going_back_to_what_is_not_there_is_refused_and_writes_nothing() {
    let place = Place::new("generate: {rows: 50}", "rows: 20");
    place.run(&[]).with(0);
    let (chain, greatest) = (place.root.join("_checkpoints"), place.checkpoints().last().unwrap()["seq"].to_string());
    let before = tree(&place.root);
    let refused = place.run(&["--rewind", "77"]).with(2);
    assert_eq!(
        last_error(&refused),
        format!(
            "{}: there is no checkpoint 77; the greatest is {greatest}; `table-cli checkpoints` lists those that are kept",
            chain.display()
        )
    );
    let refused = place.run(&["--abandon", &greatest]).with(2);
    assert!(last_error(&refused).contains("nothing pending"), "{}", refused.err());
    assert!(tree(&place.root) == before, "something was written");
}

#[test]
fn after_a_pending_file_is_lost_the_run_stops_and_an_abandon_has_every_row_once() {
    // The second sink cannot commit, because its checkpoint's file is gone; the first has landed it.
    let place = Place::new(SOURCE, "every: 200ms");
    let text = std::fs::read_to_string(place.file()).unwrap();
    let second = "  - location: second\n    columns: {id: BIGINT NOT NULL}\ncheckpoint:";
    std::fs::write(place.file(), text.replace("checkpoint:", second)).unwrap();
    let mut tries = 0;
    let (url_of_second, pending) = loop {
        tries += 1;
        assert!(tries < 60, "the moment between two commits was not met");
        // Killed between the two commits of one checkpoint, if the moment is met; else again from there.
        let mut child = place.start(&[]);
        let n = child.until(3, Line::committed);
        let dead = child.kill();
        assert!(n.is_some(), "the input ended before the moment was met\n{}", dead.err());
        let greatest = place.checkpoints().last().unwrap().clone();
        let landed = |table: &str| {
            let newest = crate::walk::snapshots(&place.root.join(table));
            newest.last().is_some_and(|s| s["commitIdentifier"] == greatest["identifier"])
        };
        if greatest["kind"] == "data" && landed("second") != landed("table") {
            let url =
                greatest["sinks"].as_object().unwrap().keys().find(|u| u.ends_with(if landed("second") { "/table" } else { "/second" }));
            break (url.unwrap().clone(), greatest.clone());
        }
        if greatest["offsets"]["generate"]["offset"].as_u64() > Some(200) {
            // Too near to the end: begin anew.
            for name in ["table", "second", "_checkpoints"] {
                std::fs::remove_dir_all(place.root.join(name)).unwrap();
            }
        }
    };
    let file = pending["sinks"][&url_of_second]["messages"][0]["files"][0]["path"].as_str().unwrap();
    let table = std::path::Path::new(url_of_second.strip_prefix("file://").unwrap_or(&url_of_second));
    std::fs::remove_file(table.join(file)).unwrap();
    let seq = pending["seq"].to_string();

    let before = tree(&place.root);
    let stopped = place.run(&[]).with(5);
    let error = last_error(&stopped);
    assert!(error.contains(file) && error.contains(&format!("checkpoint {seq},")) && error.contains("--abandon"), "{error}");
    assert!(tree(&place.root) == before, "something was written");
    let other = (seq.parse::<u64>().unwrap() + 1).to_string();
    place.run(&["--abandon", &other]).with(2);

    let abandoned = place.run(&["--abandon", &seq]).with(0);
    let said = warnings(&abandoned);
    assert!(said.contains(&format!("abandon checkpoint {seq}")) && said.contains("nothing twice"), "{said}");
    for table in ["table", "second"] {
        let rows = crate::cli::rows(&["cat", place.root.join(table).to_str().unwrap()]);
        let mut ids: Vec<i64> = rows.iter().map(|r| r["id"].as_i64().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (1..=300).collect::<Vec<_>>(), "{table}");
    }
}

#[test]
fn a_deleted_a_mistyped_and_an_older_chain_stop_the_run_and_nothing_is_written() {
    let place = Place::new(SOURCE, "every: 200ms");
    let mut child = place.start(&[]);
    child.until(2, Line::committed).expect("it commits");
    child.kill();
    let chain = place.root.join("_checkpoints");

    let before = tree(&place.root);
    let mistyped = place.run(&["--set", "checkpoint.location=_chekpoints"]).with(5);
    let error = last_error(&mistyped);
    assert!(error.contains("_chekpoints") && error.contains("/_checkpoints") && error.contains("--forget"), "{error}");
    assert!(tree(&place.root) == before, "something was written");

    std::fs::rename(&chain, place.root.join("moved")).unwrap();
    let before = tree(&place.root);
    let deleted = place.run(&[]).with(5);
    assert!(last_error(&deleted).contains("there is no chain"), "{}", deleted.err());
    assert!(tree(&place.root) == before, "something was written");

    // As after restoring a backup: the greatest checkpoint is one that another lineage has followed.
    let backup = tree(&place.root.join("moved"));
    std::fs::rename(place.root.join("moved"), &chain).unwrap();
    place.run(&["--rewind", "1"]).with(0);
    std::fs::remove_dir_all(&chain).unwrap();
    std::fs::create_dir_all(chain.join("p")).unwrap();
    for (path, bytes) in backup.iter().filter(|(p, _)| p.extension().is_some_and(|e| e == "json")) {
        std::fs::write(chain.join("p").join(path.file_name().unwrap()), bytes).unwrap();
    }
    let before = tree(&place.root);
    let older = place.run(&[]).with(5);
    assert!(last_error(&older).contains("older than the table"), "{}", older.err());
    assert!(tree(&place.root) == before, "something was written");
}

#[test]
fn another_kind_of_source_under_a_running_pipeline_is_refused() {
    let place = Place::new("generate: {rows: 50}, at_end: pause", "rows: 20");
    place.run(&[]).with(0);
    std::fs::write(place.root.join("in.ndjson"), "{\"id\": 1}\n").unwrap();
    let text = std::fs::read_to_string(place.file()).unwrap();
    std::fs::write(place.file(), text.replace("generate: {rows: 50}", "files: {paths: [in.ndjson]}")).unwrap();
    let before = tree(&place.root);
    let refused = place.run(&[]).with(2);
    let error = last_error(&refused);
    assert!(error.contains("generate") && error.contains("files") && error.contains("--rewind"), "{error}");
    assert!(tree(&place.root) == before, "something was written");
    assert_eq!(place.checkpoints().last().unwrap()["start"], "generate");
}
