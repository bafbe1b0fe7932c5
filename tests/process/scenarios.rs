//! The three scenarios that everything else builds on, with the pipelines that lie in `fixtures/`. On local disk here, on a bucket in
//! `tests/s3`.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;

use super::{Place, assert_exact, tree};

#[test]
fn a_checkpoint_every_two_seconds_gives_identifiers_1_2_and_end_of_input() {
    two_seconds(&Place::fixture("generator"));
}

/// Of the fixture `generator`.
pub(crate) fn two_seconds(place: &Place) {
    let ended = place.run(&[]).with(0);
    assert_eq!(ended.report()["closed"], true);
    let snapshots = place.snapshots();
    let identifiers: Vec<i64> = snapshots.iter().map(|s| s["commitIdentifier"].as_i64().unwrap()).collect();
    let (last, before) = identifiers.split_last().unwrap();
    assert_eq!(*last, i64::MAX);
    assert_eq!(before, (1..=before.len() as i64).collect::<Vec<_>>());
    assert!((1..=3).contains(&before.len()), "5 seconds, one every 2: {identifiers:?}");
    assert!(snapshots.iter().filter(|s| s["deltaRecordCount"].as_i64().unwrap() > 0).count() >= 2, "rows came by and by");
    assert_exact(&snapshots, 100);
    assert_eq!(place.ids(), (1..=100).collect::<Vec<_>>());
}

#[test]
fn killed_before_the_first_data_checkpoint_nothing_is_visible_and_the_next_run_has_all_rows() {
    killed_early(&Place::fixture("unbounded"));
}

/// Of the fixture `unbounded`.
pub(crate) fn killed_early(place: &Place) {
    let mut child = place.start(&[]);
    child.until(1, |l| l.opened().is_some()).expect("a data file is opened");
    std::thread::sleep(Duration::from_millis(500)); // and rows go into it
    let killed = child.kill();
    assert_eq!(killed.code, None);
    let kinds: Vec<String> = place.checkpoints().iter().map(|c| c["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["open"], "the kill came too late");
    assert_eq!(place.snapshots().len(), 0);
    assert_eq!(place.ids(), [0_i64; 0]);

    let mut next = place.start(&["--set", "checkpoint.every=500ms", "--set", "source.generate.rows_per_second=200"]);
    next.until(3, super::Line::committed).expect("it commits");
    next.send(Signal::INT);
    let report = next.end().with(0).report();
    let n = report["records"].as_u64().unwrap();
    assert!(n > 100);
    assert_exact(&place.snapshots(), n);
    assert_eq!(place.ids(), (1..=n.cast_signed()).collect::<Vec<_>>(), "from the first row on");
}

#[test]
fn an_unbounded_source_without_a_trigger_is_refused_with_what_to_set() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::at(dir.path(), "p", "generate: {rows_per_second: 20}", "keep: 3");
    let before = tree(dir.path());
    let ended = place.run(&[]).with(2);
    let error = &ended.lines.last().unwrap().json;
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("checkpoint.every"), "{error}");
    assert_eq!(tree(dir.path()), before, "something was written");
}

#[test]
fn a_process_that_dies_in_the_middle_leaves_200_rows_to_the_next_and_only_what_it_had_opened_behind() {
    // On a machine that is busy the commit before may be so late that the process dies before it opens the next file: then once more.
    assert!((0..3).any(|_| dies(&Place::fixture("failing"), true)), "row 120 came with no file open");
}

/// Of the fixture `failing`. Where the store answers at once, the process dies between two commits and with a file open; false: it did not.
pub(crate) fn dies(place: &Place, at_once: bool) -> bool {
    let died = place.run(&[]);
    assert_eq!(died.code, Some(86), "{}", died.err());
    let path = |rows: Vec<serde_json::Value>| -> BTreeSet<String> { rows.iter().map(|r| r["path"].as_str().unwrap().to_owned()).collect() };
    let last = |what: fn(&super::Line) -> bool| died.lines.iter().rposition(what);
    let pending = last(super::Line::checkpointed) > last(super::Line::committed);
    // Rows of the next checkpoint are written while one is committed: what was opened before the last commit may be of either.
    let opened: BTreeSet<String> = died.lines.iter().filter_map(|l| l.opened().map(str::to_owned)).collect();
    let opened = if at_once && !pending { &opened - &path(place.rows(&["files", &place.location("table")])) } else { BTreeSet::new() };
    if at_once && opened.is_empty() {
        return false;
    }
    let landed = place.snapshots().last().map_or(0, |s| s["totalRecordCount"].as_u64().unwrap());
    assert!(!at_once || (50..120).contains(&landed), "{landed}");

    let next = place.run(&[]).with(0);
    assert!(!at_once || next.report()["rows"] == 200 - landed);
    assert_exact(&place.snapshots(), 200);
    assert_eq!(place.ids(), (1..=200).collect::<Vec<_>>());

    let table = place.look_at("table");
    let below = |path: &std::path::Path| path.strip_prefix(&table).unwrap().to_str().unwrap().to_owned();
    let there: BTreeSet<String> = tree(&table.join("bucket-0")).keys().map(|p| below(p)).collect();
    let referenced = path(place.rows(&["files", &place.location("table")]));
    let left: BTreeSet<String> = there.difference(&referenced).cloned().collect();
    if !at_once {
        return true; // a request that is under way may land when nobody looks
    }
    if place.is_local() {
        assert_eq!(left, opened, "files on disk minus files referenced");
    } else {
        assert!(left.is_subset(&opened), "an object is there when it is whole: {left:?} of {opened:?}");
    }
    assert_eq!(path(place.rows(&["files", &place.location("table"), "--unreferenced"])), left);
    true
}
