//! Ranges, identifiers and closes, all made up.

use std::collections::BTreeMap;

use super::*;
use crate::format::paimon::snapshot::{CommitKind, Snapshot};

/// Snapshots from `first` on; each adds as many rows as its ranges have offsets.
struct History {
    all: Vec<SnapshotView>,
    next: u64,
}

impl History {
    fn from(first: u64) -> History {
        History { all: Vec::new(), next: first }
    }
    fn push(&mut self, user: &str, identifier: i64, properties: BTreeMap<String, String>, rows: i64) -> &mut SnapshotView {
        let id = self.next;
        self.next += 1;
        let snapshot = Snapshot {
            version: 3,
            uuid: None,
            id,
            schema_id: 0,
            base_manifest_list: String::new(),
            base_manifest_list_size: None,
            delta_manifest_list: String::new(),
            delta_manifest_list_size: None,
            changelog_manifest_list: None,
            changelog_manifest_list_size: None,
            index_manifest: None,
            commit_user: user.to_owned(),
            writer_version: None,
            commit_identifier: identifier,
            commit_kind: CommitKind::append(),
            time_millis: 0,
            total_record_count: 0,
            delta_record_count: rows,
            changelog_record_count: None,
            watermark: None,
            statistics: None,
            properties: (!properties.is_empty()).then_some(properties),
            next_row_id: None,
        };
        self.all.push(snapshot.into());
        self.all.last_mut().unwrap()
    }
    fn of_chain(&mut self, chain: &str, user: &str, identifier: i64, ranges: &[(&str, u64, u64)]) -> &mut SnapshotView {
        let map: BTreeMap<&str, [u64; 2]> = ranges.iter().map(|(s, a, b)| (*s, [*a, *b])).collect();
        let rows = ranges.iter().map(|(_, a, b)| *b as i64 - *a as i64).sum();
        let seq = if identifier == i64::MAX { 99 } else { identifier };
        let properties = [
            (property::PIPELINE, "p".to_owned()),
            (property::CHAIN, chain.to_owned()),
            (property::SEQ, seq.to_string()),
            (property::OFFSETS, serde_json::to_string(&map).unwrap()),
        ];
        self.push(user, identifier, properties.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(), rows)
    }
    fn add(&mut self, user: &str, identifier: i64, ranges: &[(&str, u64, u64)]) -> &mut SnapshotView {
        self.of_chain("c", user, identifier, ranges)
    }
    fn end(&mut self, user: &str) {
        self.add(user, i64::MAX, &[]);
    }
    fn close(&mut self, user: &str, at: &str) {
        let properties = &mut self.add(user, i64::MAX, &[]).properties;
        properties.remove(property::OFFSETS);
        properties.insert(property::CLOSED_AT.to_owned(), at.to_owned());
    }
    /// The first snapshot of a lineage that follows another.
    fn follow(&mut self, before: &str, user: &str, identifier: i64, ranges: &[(&str, u64, u64)]) {
        let properties = &mut self.add(user, identifier, ranges).properties;
        properties.insert(property::PREDECESSOR.to_owned(), before.to_owned());
    }
    fn check(&self) -> (Lineages, Vec<String>) {
        let mut findings = Findings::default();
        let all = check(&self.all, None, &mut findings);
        let text = |f: &super::super::finding::Finding| format!("{} in {}: {}", f.at, f.snapshot.unwrap(), f.what);
        (all, findings.list().iter().map(text).collect())
    }
    fn finds(&self, wanted: &[&str]) -> Lineages {
        let (all, found) = self.check();
        assert_eq!(found.len(), wanted.len(), "{found:#?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(found.contains(wanted), "{wanted} is not in {found:#?}");
        }
        all
    }
}

fn ended() -> History {
    let mut h = History::from(1);
    h.add("u", 1, &[("a", 0, 10)]);
    h.add("u", 2, &[("a", 10, 25), ("b", 0, 5)]);
    h.add("u", 5, &[("b", 5, 9)]);
    h.end("u");
    h
}

#[test]
fn ranges_that_join_are_one_line_for_each_split() {
    let all = ended().finds(&[]);
    let short: Vec<_> = all.lines.iter().map(|l| (l.split.as_deref(), l.from, l.to, l.snapshots, l.rows)).collect();
    assert_eq!(short, [(None, None, None, 4, Some(34)), (Some("a"), Some(0), Some(25), 2, None), (Some("b"), Some(0), Some(9), 2, None),]);
    assert_eq!((all.lines[0].state.as_str(), all.lines[0].within), ("ended", (1, 4)));
    assert_eq!(all.pipelines, ["p"]);
}

#[test]
fn a_gap_and_an_overlap_within_a_lineage_are_found_with_their_offsets() {
    let mut h = History::from(1);
    h.add("u", 1, &[("a", 0, 10)]);
    h.add("u", 2, &[("a", 12, 20)]);
    h.add("u", 3, &[("a", 15, 30)]);
    h.add("u", 4, &[("a", 30, 30)]);
    h.finds(&[
        "p/u, split a in 2: offsets [10, 12) are missing",
        "p/u, split a in 3: offsets [15, 20) are there twice",
        "split a in 4: its range [30, 30) is empty",
    ]);
}

#[test]
fn identifiers_rise_and_each_is_there_once() {
    let mut h = ended();
    h.add("u", 6, &[("a", 25, 26)]);
    h.finds(&["p/u in 5: identifier 6 follows end of input of snapshot 4"]);
    let mut h = History::from(1);
    h.add("u", 3, &[("a", 0, 10)]);
    h.add("u", 3, &[("a", 10, 20)]);
    h.add("u", 2, &[("a", 20, 30)]);
    h.finds(&["in 2: identifier 3 is there twice: snapshot 1 has it too", "in 3: identifier 2 follows identifier 3 of snapshot 2"]);
    let mut h = History::from(1);
    h.add("u", 3, &[]).properties.insert(property::SEQ.to_owned(), "4".to_owned());
    h.finds(&["its identifier is 3, and the checkpoint that ordered it has the number 4"]);
}

#[test]
fn the_next_lineage_begins_where_the_one_before_stopped() {
    let mut h = ended();
    h.follow("u", "v", 8, &[("a", 25, 30)]);
    h.add("v", 9, &[("b", 9, 12), ("c", 0, 7)]);
    let all = h.finds(&[]);
    assert!(all.rewinds.is_empty());
    assert_eq!(all.lines.iter().find(|l| l.user == "v").unwrap().state, "open");
    let mut h = ended();
    h.follow("u", "v", 8, &[("a", 25, 30)]);
    h.add("v", 9, &[("b", 10, 12)]);
    h.finds(&["p/v, split b in 6: offsets [9, 10) are missing: u stopped at 9"]);
}

#[test]
fn a_rewind_is_told_with_what_it_wrote_again_and_is_no_finding() {
    let mut h = History::from(1);
    h.add("u", 1, &[("a", 0, 10)]);
    h.add("u", 2, &[("a", 10, 20)]);
    h.close("u", "2");
    h.follow("u", "v", 4, &[("a", 5, 12)]);
    let all = h.finds(&[]);
    let told: Vec<_> = all.rewinds.iter().map(|r| (r.user.as_str(), r.before.as_str(), r.from, r.to, r.anew)).collect();
    assert_eq!(told, [("v", "u", 5, 12, false)], "as far as it has come");
    assert_eq!(all.lines[0].state, "closed at 2");
    h.add("v", 5, &[("a", 12, 30)]);
    assert_eq!(h.finds(&[]).rewinds[0].to, 20);
}

#[test]
fn a_lineage_that_landed_nothing_and_was_closed_is_passed_over() {
    let mut h = History::from(1);
    h.add("u", 1, &[("a", 0, 10)]);
    h.close("u", "1");
    h.close("v", "none");
    h.follow("v", "w", 5, &[("a", 10, 20)]);
    assert!(h.finds(&[]).rewinds.is_empty());
    let mut gap = History::from(1);
    gap.add("u", 1, &[("a", 0, 10)]);
    gap.close("u", "1");
    gap.close("v", "none");
    gap.follow("v", "w", 5, &[("a", 11, 20)]);
    gap.finds(&["offsets [10, 11) are missing: u stopped at 10"]);
}

#[test]
fn a_lineage_must_be_closed_before_its_successor_begins_and_have_one_successor() {
    let mut h = History::from(1);
    h.add("u", 1, &[("a", 0, 10)]);
    h.follow("u", "v", 3, &[("a", 10, 20)]);
    h.add("u", 2, &[("a", 10, 15)]);
    h.finds(&[
        "p/u in 3: it goes on after its successor v began with snapshot 2",
        "p/v in 2: its predecessor u had neither ended nor been closed",
    ]);
    let mut h = ended();
    h.follow("u", "v", 8, &[("a", 25, 30)]);
    h.end("v");
    h.follow("u", "w", 12, &[("a", 25, 30)]);
    let (_, found) = h.check();
    assert!(found.iter().any(|f| f.contains("u has a second successor: v followed it before")), "{found:?}");
    let mut h = ended();
    h.add("v", 8, &[("a", 25, 30)]);
    h.finds(&["p/v in 5: it does not name its predecessor, and u came before it"]);
}

#[test]
fn a_close_says_what_had_landed() {
    let mut h = History::from(1);
    h.add("u", 1, &[("a", 0, 10)]);
    h.add("u", 2, &[("a", 10, 20)]);
    h.close("u", "1");
    h.finds(&["p/u in 3: it closes the lineage at 1, which had landed 2"]);
    let mut h = History::from(9);
    h.close("u", "7");
    h.finds(&[]);
}

#[test]
fn where_history_has_expired_it_is_audited_from_there_on() {
    let mut h = History::from(40);
    h.add("u", 7, &[("a", 70, 80)]);
    h.add("u", 8, &[("a", 80, 90)]);
    h.end("u");
    h.follow("u", "v", 12, &[("a", 90, 95), ("b", 3, 4)]);
    let all = h.finds(&[]);
    assert!(all.lines[0].cut && !all.lines.last().unwrap().cut);
    h.add("v", 13, &[("a", 96, 97)]);
    h.finds(&["offsets [95, 96) are missing"]);
    // The predecessor has expired altogether.
    let mut h = History::from(40);
    h.follow("u", "v", 12, &[("a", 90, 95)]);
    assert!(!h.finds(&[]).lines[0].cut);
}

#[test]
fn a_chain_that_was_begun_anew_is_told_like_a_rewind() {
    let mut h = ended();
    h.of_chain("d", "v", 1, &[("a", 0, 30)]);
    let all = h.finds(&[]);
    assert_eq!(all.rewinds.len(), 1);
    assert!(all.rewinds[0].anew && (all.rewinds[0].from, all.rewinds[0].to) == (0, 25), "{:?}", all.rewinds);
}

#[test]
fn other_writers_are_counted_and_another_pipeline_is_left_alone() {
    let mut h = ended();
    h.push("spark", 1, BTreeMap::new(), -3);
    h.push("spark", 1, BTreeMap::new(), 5);
    let all = h.finds(&[]);
    let last = all.lines.last().unwrap();
    assert_eq!((last.pipeline.as_ref(), last.user.as_str(), last.snapshots, last.rows), (None, "spark", 2, Some(2)));
    h.add("q", 1, &[("a", 5, 5)]).properties.insert(property::PIPELINE.to_owned(), "other".to_owned());
    let mut findings = Findings::default();
    let only = check(&h.all, Some("p"), &mut findings);
    assert_eq!((findings.count(), only.lines.len(), only.pipelines.len()), (0, 3, 2));
}

#[test]
fn properties_that_cannot_be_read_are_found() {
    let mut h = History::from(1);
    h.add("u", 1, &[("a", 0, 10)]).properties.insert(property::OFFSETS.to_owned(), "{".to_owned());
    h.add("u", 2, &[("a", 10, 20)]).properties.remove(property::OFFSETS);
    h.add("u", 3, &[]).rows_added = Some(4);
    h.add("u", 4, &[]).properties.insert(property::CHAIN.to_owned(), "other".to_owned());
    h.finds(&["cannot be read", "it has no property lakeward.offsets", "it adds 4 rows, and no split moved", "of another chain"]);
}
