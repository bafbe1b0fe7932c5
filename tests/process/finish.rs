//! What the next run finds pending, and says so: a commit that had not landed, one that had, and an end of input that landed in one sink only.

use std::collections::BTreeSet;

use super::kills::Moment;
use super::{Line, Place, assert_contiguous, users};

/// How often a moment is tried to be met.
const TRIES: usize = 60;

#[test]
fn the_next_run_commits_what_had_not_landed_and_recognises_what_had_and_says_which() {
    pending(&|place| place);
}

/// `to` may put the place somewhere else.
pub(crate) fn pending(to: &dyn Fn(Place) -> Place) {
    let place = to(Place::new("generate: {rows: 100000, rows_per_second: 1000}", "every: 50ms"));
    let mut met = BTreeSet::new();
    for n in 0..TRIES {
        let mut child = place.start(&[]);
        let line: fn(&Line) -> bool = if met.contains(&Moment::BetweenCheckpointAndCommit) { Line::committed } else { Line::checkpointed };
        child.until(2 + usize::from(n == 0), line).expect("there is plenty of input");
        let dead = child.kill();
        let moment = Moment::of(&dead, &place);
        let greatest = place.checkpoints().last().unwrap().clone();
        let landed = place.snapshots();

        let mut next = place.start(&[]);
        next.until(1, |l| l.says().starts_with("going on as ")).expect("it goes on");
        let next = next.kill();
        let (seq, id) = (&greatest["seq"], landed.last().map_or(0, |s| s["id"].as_u64().unwrap()));
        let table = place.location("table");
        let wanted = match moment {
            Moment::BetweenCheckpointAndCommit => {
                format!("checkpoint {seq}: commit {seq} had not landed in {table}; committed now as snapshot {}", id + 1)
            }
            Moment::AfterCommit | Moment::Writing => {
                format!("checkpoint {seq}: commit {seq} had landed before in {table} as snapshot {id}; recognised")
            }
            _ => continue,
        };
        assert!(next.lines.iter().any(|l| l.says() == wanted), "{wanted}\n{}", next.err());
        let mine = place.snapshots().into_iter().filter(|s| &s["commitIdentifier"] == seq).count();
        assert_eq!(mine, 1, "checkpoint {seq} landed once");
        met.insert(if moment == Moment::Writing { Moment::AfterCommit } else { moment });
        if met.len() == 2 {
            assert_contiguous(&place.snapshots());
            assert_eq!(users(&place.snapshots()).len(), 1);
            return;
        }
    }
    panic!("met only {met:?} in {TRIES} tries");
}

#[test]
fn an_end_of_input_that_landed_in_one_of_two_sinks_is_finished_before_new_input_is_read() {
    end_in_one_sink(&|place| place);
}

/// `to` may put the place somewhere else.
pub(crate) fn end_in_one_sink(to: &dyn Fn(Place) -> Place) {
    let input = |ids: std::ops::RangeInclusive<i64>| ids.map(|id| format!("{{\"id\": {id}}}\n")).collect::<String>();
    for _ in 0..TRIES {
        let mut place = to(Place::new("files: {paths: ['in-*.ndjson']}", "rows: 1000"));
        place.set(&format!("sinks.1.location={}", place.location("second")));
        let text = std::fs::read_to_string(place.file()).unwrap();
        let second = "  - location: second\n    columns: {id: BIGINT NOT NULL}\ncheckpoint:";
        std::fs::write(place.file(), text.replace("checkpoint:", second)).unwrap();
        std::fs::write(place.root.join("in-1.ndjson"), input(1..=10)).unwrap();
        let mut child = place.start(&[]);
        child.until(1, Line::committed);
        child.kill();
        let ended = |table: &str| {
            let all = place.snapshots_of(table);
            all.last().is_some_and(|s| s["commitIdentifier"] == i64::MAX)
        };
        if ended("table") == ended("second") {
            continue;
        }
        std::fs::write(place.root.join("in-2.ndjson"), input(11..=30)).unwrap();
        let next = place.run(&[]).with(0);
        let said = |what: &str| next.lines.iter().any(|l| l.says().contains(what) && l.says().contains("end of input"));
        assert!(said("had not landed in ") && said("had landed before in "), "{}", next.err());
        assert_eq!(next.report()["rows"], 40, "twenty rows for each of two sinks");
        for table in ["table", "second"] {
            assert_eq!(place.ids_of(table), (1..=30).collect::<Vec<_>>(), "{table}");
            let all = place.snapshots_of(table);
            let ends: Vec<bool> = all.iter().map(|s| s["commitIdentifier"] == i64::MAX).collect();
            assert_eq!(ends, [true, true], "{table}: one end of input of each lineage");
            assert_eq!(users(&all).len(), 2, "{table}");
        }
        return;
    }
    panic!("the moment between the two sinks was not met in {TRIES} tries");
}
