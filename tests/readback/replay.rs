//! The replay of a pending checkpoint after others have removed the pin, expired the user's snapshots, or compacted its files away.
//!
//! A run is killed between checkpoint N and its being known as landed: before commit N has landed, or after. Then other engines do to the
//! table what the pin should keep them from. The next run may recognise the commit, or stop with exit code 5 and say what a person can
//! answer. It never doubles a row, and never ends with exit code 0 and rows missing. Rows are counted by pypaimon.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::readers::{count_comparison, get};
use crate::process::kills::Moment;
use crate::process::{Ended, Line, Place, Running};

/// Rows of the source; the last third is never reached before the moment is met.
const ROWS: i64 = 3000;
const TRIES: usize = 60;

/// Where a run died.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Died {
    /// Checkpoint N is written, commit N has not landed.
    BeforeItLanded,
    /// Commit N has landed, and no later checkpoint says so.
    AfterItLanded,
}

/// Where a checkpoint stands: the id of the last row before it.
fn offset(checkpoint: &Value) -> i64 {
    checkpoint["offsets"]["generate"]["offset"].as_i64().unwrap_or(0)
}

/// How the next run ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// Exit code 0, every row once.
    Finished,
    /// Exit code 5; what it asked was answered truly, and then it finished.
    Asked,
}

/// A dead run with a pending checkpoint.
struct Pending {
    place: Place,
    died: Died,
    seq: Value,
    user: String,
    /// Paths of the files of the pending commit.
    files: Vec<PathBuf>,
    /// Rows that others have appended: ids below zero.
    foreign: i64,
    /// Rows of the source.
    last: i64,
    /// The last row of the pending commit.
    until: i64,
}

impl Pending {
    fn new(died: Died) -> Pending {
        let source = format!("generate: {{rows: {ROWS}, rows_per_second: 2000}}");
        let fresh = || Place::new(&source, "every: 50ms");
        let mut place = fresh();
        for _ in 0..TRIES {
            let mut child: Running = place.start(&[]);
            let line: fn(&Line) -> bool = if died == Died::BeforeItLanded { Line::checkpointed } else { Line::committed };
            child.until(3, line);
            let dead = child.kill();
            let met = match Moment::of(&dead, &place) {
                Moment::BetweenCheckpointAndCommit => died == Died::BeforeItLanded,
                Moment::AfterCommit | Moment::Writing => died == Died::AfterItLanded,
                _ => false,
            };
            let greatest = place.checkpoints().last().unwrap().clone();
            if met && greatest["kind"] == "data" {
                let sink = greatest["sinks"].as_object().unwrap().values().next().unwrap();
                let messages = sink["messages"].as_array().unwrap();
                let files = messages.iter().flat_map(|m| m["files"].as_array().unwrap());
                let files = files.map(|f| place.table().join(f["path"].as_str().unwrap())).collect();
                let user = greatest["user"].as_str().unwrap().to_owned();
                let until = offset(&greatest);
                return Pending { died, seq: greatest["seq"].clone(), user, files, foreign: 0, last: ROWS, until, place };
            }
            if offset(&greatest) > ROWS * 2 / 3 {
                place = fresh();
            }
        }
        panic!("{died:?} was not met in {TRIES} tries");
    }

    fn pin(&self) -> PathBuf {
        self.place.table().join("consumer").join(format!("consumer-{}", self.user))
    }
    fn lose_pin(&self, engine: &str) {
        assert!(self.pin().exists(), "an open lineage has a pin");
        get(engine, &json!({"cmd": "delete_consumer", "table": self.place.table(), "consumer": self.user}));
        assert!(!self.pin().exists());
    }
    /// Another writer's commits, so that this user's are not the newest.
    fn others_append(&mut self, writer: &str) {
        for _ in 0..3 {
            self.foreign += 1;
            let row = json!([(-self.foreign).to_string(), null, null, null, null]);
            get(writer, &json!({"cmd": "append", "table": self.place.table(), "rows": [row]}));
        }
    }
    /// All snapshots but the newest go; returns the least that is there.
    fn expire(&self, engine: &str) -> u64 {
        let table = self.place.table();
        let newest = self.place.snapshots().last().unwrap()["id"].as_u64().unwrap();
        match engine {
            // It has no expiry; what remains is that somebody removes snapshots through it.
            "pypaimon" => get(engine, &json!({"cmd": "drop_snapshots", "table": table, "below": newest})),
            java => get(java, &json!({"cmd": "expire", "table": table, "retain_max": 1, "retain_min": 1, "time_retained_ms": 0})),
        };
        self.place.snapshots().first().unwrap()["id"].as_u64().unwrap()
    }
    fn compact(&self, java: &str) {
        let compacted = get(java, &json!({"cmd": "compact", "table": self.place.table()}));
        assert!(compacted["compacted"].as_u64().unwrap() > 1, "{compacted}");
    }

    /// How often each id is there, by pypaimon.
    fn rows(&self) -> BTreeMap<i64, usize> {
        count_comparison();
        let answer = get("pypaimon", &json!({"cmd": "rows", "table": self.place.table(), "columns": ["id"]}));
        let mut times = BTreeMap::new();
        for row in answer["rows"].as_array().unwrap() {
            *times.entry(row["id"].as_str().unwrap().parse().unwrap()).or_default() += 1;
        }
        times
    }
    fn assert_exact(&self, next: &Ended) {
        let wanted: BTreeMap<i64, usize> = (-self.foreign..=self.last).filter(|id| *id != 0).map(|id| (id, 1)).collect();
        let rows = self.rows();
        let doubled: Vec<_> = rows.iter().filter(|(_, n)| **n > 1).take(3).collect();
        let missing: Vec<_> = wanted.keys().filter(|id| !rows.contains_key(*id)).take(3).collect();
        assert!(rows == wanted, "{:?}: doubled {doubled:?}, missing {missing:?}\n{}", self.died, next.err());
    }

    /// What a person finds out: the last row of the pending commit is there or is not.
    fn truth(&self) -> &'static str {
        if self.rows().contains_key(&self.until) { "landed" } else { "lost" }
    }

    /// Runs the pipeline again with these options, and once more with a true answer if it asks.
    fn replay_with(&self, options: &[&str]) -> Outcome {
        let before = self.rows();
        let next = self.place.run(options);
        if next.code == Some(0) {
            self.assert_exact(&next);
            self.assert_audited();
            return Outcome::Finished;
        }
        assert_eq!(next.code, Some(5), "{}", next.err());
        assert!(self.rows() == before, "a run that stopped changed rows");
        let said = &next.lines.last().unwrap().json;
        let (message, hint) = (said["message"].as_str().unwrap(), said["hint"].as_str().unwrap());
        assert!(message.contains("cannot be known any more") && message.contains(&self.user), "{message}");
        let answer = format!("{}={}", self.place.table().display(), self.truth());
        assert!(hint.contains(&format!("--resolve {answer}")), "{hint}");
        // Asked again it says the same. An abandon has been written down by now, and is not asked for twice.
        let again = self.place.run(&[]).with(5);
        assert_eq!(again.lines.last().unwrap().json["message"], said["message"]);
        let next = self.place.run(&["--resolve", &answer]).with(0);
        self.assert_exact(&next);
        self.assert_audited();
        Outcome::Asked
    }
    fn replay(&self) -> Outcome {
        let wanted = if self.died == Died::AfterItLanded { "landed" } else { "lost" };
        assert_eq!(self.truth(), wanted);
        self.replay_with(&[])
    }
    /// And the table alone shows no fault.
    fn assert_audited(&self) {
        let ran = crate::cli::run(&["audit", self.place.table().to_str().unwrap(), "-o", "jsonl"]);
        assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    }
}

/// The pin is removed, or ignored where that is none, and the user's snapshots are expired.
fn after_expiry(pin: Option<&str>, writer: &str, expiry: &str) {
    for died in [Died::BeforeItLanded, Died::AfterItLanded] {
        let mut pending = Pending::new(died);
        if let Some(engine) = pin {
            pending.lose_pin(engine);
        }
        pending.others_append(writer);
        let least = pending.expire(expiry);
        let snapshots = pending.place.snapshots();
        assert!(least > 3 && snapshots.iter().all(|s| s["commitUser"] != pending.user.as_str()), "the user's snapshots are gone");
        let outcome = pending.replay();
        // Its files are live if it landed, so it is recognised. If not, that they are not live proves nothing.
        let wanted = if died == Died::AfterItLanded { Outcome::Finished } else { Outcome::Asked };
        assert_eq!(outcome, wanted, "{died:?}, checkpoint {}, {pin:?} {writer} {expiry}", pending.seq);
    }
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn a_snapshot_pin_removed_by_another_engine_then_expiry_then_replay() {
    after_expiry(Some("pypaimon"), "java-newest", "java-newest");
    after_expiry(Some("java-newest"), "pypaimon", "java-oldest");
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn a_replay_after_the_users_snapshots_were_expired_by_java_doubles_and_loses_nothing() {
    after_expiry(Some("java-newest"), "java-newest", "java-newest");
    after_expiry(Some("java-oldest"), "java-newest", "java-oldest");
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn a_replay_after_the_users_snapshots_were_removed_through_pypaimon_doubles_and_loses_nothing() {
    after_expiry(Some("pypaimon"), "pypaimon", "pypaimon");
    after_expiry(None, "pypaimon", "pypaimon");
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn a_replay_after_the_committed_files_were_compacted_away_by_java_and_are_still_on_disk_doubles_and_loses_nothing() {
    for expired in [false, true] {
        for died in [Died::BeforeItLanded, Died::AfterItLanded] {
            let mut pending = Pending::new(died);
            let newest = pending.place.snapshots().last().unwrap()["id"].clone();
            // A tag keeps the files, as a backup does.
            get("java-newest", &json!({"cmd": "tag", "table": pending.place.table(), "name": "backup", "id": newest}));
            pending.lose_pin("java-newest");
            pending.others_append("java-newest");
            pending.compact("java-newest");
            if expired {
                pending.expire("java-newest");
            }
            assert!(!pending.files.is_empty() && pending.files.iter().all(|f| f.exists()), "{:?}", pending.files);
            let outcome = pending.replay();
            let wanted = if expired { Outcome::Asked } else { Outcome::Finished };
            assert_eq!(outcome, wanted, "{died:?}, expired: {expired}, checkpoint {}", pending.seq);
        }
    }
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn under_the_pin_a_replay_after_compaction_and_expiry_by_java_needs_no_person() {
    for java in ["java-newest", "java-oldest"] {
        for died in [Died::BeforeItLanded, Died::AfterItLanded] {
            let mut pending = Pending::new(died);
            pending.others_append("java-newest");
            pending.compact("java-newest");
            let pin = crate::process::read_json(&pending.pin())["nextSnapshot"].as_u64().unwrap();
            let least = pending.expire(java);
            assert_eq!(least, pin, "{java}: it expires up to the pin");
            assert_eq!(pending.replay(), Outcome::Finished, "{died:?} {java}");
        }
    }
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn an_abandon_after_expiry_and_compaction_doubles_and_loses_nothing() {
    for compacted in [false, true] {
        for died in [Died::BeforeItLanded, Died::AfterItLanded] {
            let mut pending = Pending::new(died);
            pending.lose_pin("java-newest");
            pending.others_append("java-newest");
            if compacted {
                pending.compact("java-newest");
            }
            pending.expire("java-newest");
            let outcome = pending.replay_with(&["--abandon", &pending.seq.to_string()]);
            let known = died == Died::AfterItLanded && !compacted;
            assert_eq!(outcome, if known { Outcome::Finished } else { Outcome::Asked }, "{died:?}, compacted: {compacted}");
        }
    }
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn an_end_of_input_that_is_replayed_after_expiry_doubles_and_loses_nothing() {
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..TRIES {
        // Its end has rows: 300 come in less time than a checkpoint takes.
        let place = Place::new("generate: {rows: 300, rows_per_second: 2000}", "every: 100ms");
        let mut child = place.start(&[]);
        let landed = seen.contains("lost");
        child.until(1, |l| if landed { l.says().starts_with("committed end of input") } else { l.says().contains("(end,") });
        child.kill();
        let greatest = place.checkpoints().last().unwrap().clone();
        let sink = greatest["sinks"].as_object().unwrap().values().next().unwrap();
        if greatest["kind"] != "end" || sink["messages"].as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        let (user, seq) = (greatest["user"].as_str().unwrap().to_owned(), greatest["seq"].clone());
        let mut pending =
            Pending { place, died: Died::AfterItLanded, seq, user, files: Vec::new(), foreign: 0, last: 300, until: offset(&greatest) };
        let truth = pending.truth();
        if seen.contains(truth) {
            continue;
        }
        pending.lose_pin("java-newest");
        pending.others_append("java-newest");
        pending.expire("java-newest");
        let outcome = pending.replay_with(&[]);
        assert_eq!(outcome, if truth == "landed" { Outcome::Finished } else { Outcome::Asked }, "{truth}");
        seen.insert(truth);
        if seen.len() == 2 {
            return;
        }
    }
    panic!("met only {seen:?}");
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn a_run_that_was_frozen_while_others_expired_its_snapshots_doubles_and_loses_nothing() {
    let mut codes = BTreeMap::new();
    for n in 0..8 {
        let place = Place::new(&format!("generate: {{rows: {ROWS}, rows_per_second: 2000}}"), "every: 50ms");
        let mut child = place.start(&[]);
        let line: fn(&Line) -> bool = if n % 2 == 0 { Line::checkpointed } else { Line::committed };
        child.until(3, line);
        std::thread::sleep(Duration::from_millis(n / 2 * 2));
        child.send(Signal::STOP);
        // A stop is not at once.
        std::thread::sleep(Duration::from_millis(20));
        let greatest = place.checkpoints().last().unwrap().clone();
        let (user, seq) = (greatest["user"].as_str().unwrap().to_owned(), greatest["seq"].clone());
        let mut pending =
            Pending { place, died: Died::AfterItLanded, seq, user, files: Vec::new(), foreign: 0, last: ROWS, until: offset(&greatest) };
        pending.lose_pin("java-newest");
        pending.others_append("java-newest");
        pending.expire("java-newest");
        child.send(Signal::CONT);
        let ended = child.end();
        let code = ended.code.unwrap();
        *codes.entry(code).or_insert(0) += 1;
        match code {
            0 => pending.assert_exact(&ended),
            5 => {
                // It may have gone on before it stopped.
                pending.until = offset(pending.place.checkpoints().last().unwrap());
                pending.replay_with(&[]);
            }
            _ => panic!("{code}: {}", ended.err()),
        }
    }
    println!("frozen while its snapshots were expired: exit codes {codes:?}");
}
