//! Schedules by name, small families whole, and the teeth.

use crate::env::Rule;
use crate::sim::drivers::{Replay, Script, Seeded};
use crate::sim::explore::Prepared;
use crate::sim::families::{self, Family, Form, by_name};
use crate::sim::oracle::Violation;
use crate::sim::oracle::reader::Format;
use crate::sim::outside::Outside;
use crate::sim::scenario::{Budget, Ended, Scenario, Schedule, Seen};

/// Runs a scenario by a script, every step of which must be taken.
#[track_caller]
fn scripted(scenario: &Scenario, steps: &[&str]) -> (Option<Violation>, Seen, Vec<String>) {
    let prepared = Prepared::new(scenario).unwrap_or_else(|v| panic!("before: {v}"));
    let mut script = Script::of(steps);
    let (ended, seen, trace) = prepared.run(&mut script, true);
    assert_eq!(script.left(), None, "never offered\n{}", trace.join("\n"));
    match ended {
        Ended::Well => (None, seen, trace),
        Ended::Violated(v) => (Some(v), seen, trace),
        Ended::Cut => panic!("a script cuts nothing"),
    }
}

#[track_caller]
fn goes_well(scenario: &Scenario, steps: &[&str]) -> (Seen, Vec<String>) {
    let (violation, seen, trace) = scripted(scenario, steps);
    assert_eq!(violation, None, "\n{}", trace.join("\n"));
    (seen, trace)
}

#[track_caller]
fn position(trace: &[String], what: &str) -> usize {
    trace.iter().position(|t| t.contains(what)).unwrap_or_else(|| panic!("no `{what}` in\n{}", trace.join("\n")))
}

fn named(name: &str, budget: Budget) -> Scenario {
    Scenario { budget, ..by_name(name).unwrap() }
}

const fn budget(faults: u8, preemptions: u8, outside: u8) -> Budget {
    Budget { faults, preemptions, outside }
}

// ---- schedules by name -----------------------------------------------------------------------------------------------------------------

#[test]
fn a_delayed_put_of_a_snapshot_that_lands_after_the_successors_changes_nothing() {
    let scenario = named("single-one-start", budget(1, 0, 0));
    let (seen, _) = goes_well(
        &scenario,
        &["A create one/snapshot/snapshot-2: DiesLate", "A create one/snapshot/snapshot-2", "late: create one/snapshot/snapshot-2"],
    );
    assert_eq!((seen.died, seen.late_snapshots, seen.snapshots), (1, 0, 3));
}

#[test]
fn a_delayed_put_of_a_snapshot_that_lands_before_the_successors_is_recognised() {
    let scenario = named("single-one-start", budget(1, 0, 0));
    let (seen, _) = goes_well(
        &scenario,
        &["A create one/snapshot/snapshot-2: DiesLate", "A create one/snapshot/snapshot-2 | late: create one/snapshot/snapshot-2"],
    );
    assert_eq!((seen.died, seen.late_snapshots), (1, 1));
}

#[test]
fn a_put_that_lands_in_an_expired_slot_after_its_process_died_is_in_nobodys_history() {
    let scenario = named("expiry-slow", budget(1, 0, 1));
    let (seen, _) = goes_well(
        &scenario,
        &[
            "A create one/snapshot/snapshot-1: DiesLate",
            "A create one/snapshot/snapshot-1",
            "A create one/snapshot/snapshot-3 | outside: Expire one",
        ],
    );
    assert_eq!((seen.expired, seen.late_snapshots), (1, 1));
}

#[test]
fn a_paused_owner_whose_put_falls_into_an_expired_slot_removes_it_again() {
    let scenario = named("expiry-pair-zombie", budget(0, 1, 4));
    let (seen, trace) = goes_well(
        &scenario,
        &[
            "A create one/snapshot/snapshot-3 | B list one/schema/",
            "B create one/snapshot/snapshot-4 | outside: Expire one",
            "outside: Expire one",
            "outside: Expire one",
            "outside: Expire one",
        ],
    );
    assert_eq!((seen.expired, seen.dead_snapshots), (4, 1), "{}", trace.join("\n"));
    assert!(seen.fenced > 0);
}

#[test]
fn of_two_fresh_starts_with_retention_2_the_one_that_fills_an_emptied_slot_is_fenced() {
    let scenario = named("pair-fresh", budget(0, 2, 0));
    let first = "chain/p/00000000000000000000.json";
    let (seen, trace) = goes_well(&scenario, &["B list one/schema/", &format!("B create {first} | A list one/schema/")]);
    assert_eq!(seen.fenced, 1);
    assert!(position(&trace, &format!("A delete {first}")) < position(&trace, &format!("B create {first}")));
    assert!(position(&trace, "B ends: ") > position(&trace, "A ends: "));
}

#[test]
fn end_that_landed_in_one_of_two_sinks_is_finished_in_the_other() {
    let scenario = named("single-two-start", budget(1, 0, 0));
    let (seen, trace) = goes_well(&scenario, &["A create two/snapshot/snapshot-3: Dies"]);
    assert_eq!((seen.died, seen.snapshots), (1, 6));
    assert!(position(&trace, "A create one/snapshot/snapshot-3") < position(&trace, "Dies"));
}

#[test]
fn a_rewind_while_the_old_owner_is_paused_before_its_commit_fences_it() {
    for paused in ["A create one/snapshot/snapshot-3", "A create chain/p/00000000000000000005.json", "A create one/snapshot/snapshot-4"] {
        let scenario = named("pair-rewind", budget(0, 1, 0));
        let (seen, trace) = goes_well(&scenario, &[&format!("{paused} | B list one/schema/")]);
        assert_eq!(seen.fenced, 1, "{}", trace.join("\n"));
    }
}

#[test]
fn a_commit_whose_pin_another_engine_removed_and_whose_snapshot_expired_is_not_landed_again() {
    let scenario = Scenario { data_allowed: false, ..named("unpinned-finish", budget(1, 0, 3)) };
    let (seen, trace) = goes_well(
        &scenario,
        &[
            "A create one/snapshot/snapshot-2",
            "A get one/snapshot/snapshot-1: Dies",
            "outside: Commit one",
            "outside: Unpin one",
            "outside: ExpireAll one",
        ],
    );
    assert!(seen.expired >= 2, "{}", trace.join("\n"));
    assert_eq!(seen.data, 0, "its files are live, so it is known to have landed");
}

#[test]
fn a_late_put_in_a_slot_that_others_emptied_is_not_taken_for_the_newest_snapshot() {
    let scenario = named("unpinned-start", budget(1, 0, 3));
    let (seen, trace) = goes_well(
        &scenario,
        &[
            "A create one/snapshot/snapshot-3: Late",
            "outside: Commit one",
            "A create one/snapshot/snapshot-4",
            "outside: Commit one",
            "outside: ExpireAll one",
            "A list one/snapshot/",
            "late: create one/snapshot/snapshot-3",
        ],
    );
    assert_eq!((seen.late_snapshots, seen.data), (1, 0), "{}", trace.join("\n"));
}

// ---- whole families, small ---------------------------------------------------------------------------------------------------------------

#[track_caller]
fn sound(family: Family) -> Seen {
    let mut seen = Seen::default();
    for scenario in &family.scenarios {
        let tally = families::explore(scenario, family.how, 1);
        assert!(tally.first.is_none(), "{}", tally.first.map(|f| f.report(scenario)).unwrap_or_default());
        seen.add(&tally.seen);
    }
    seen
}

#[track_caller]
fn only(family: Family, names: &[&str]) -> Family {
    let scenarios: Vec<Scenario> = family.scenarios.into_iter().filter(|s| names.contains(&s.name.as_str())).collect();
    assert_eq!(scenarios.len(), names.len());
    Family { scenarios, ..family }
}

#[test]
fn no_single_fault_loses_or_doubles_a_row() {
    let seen = sound(only(families::singles(), &["single-one-start", "single-two-finish"]));
    assert!(seen.died > 0 && seen.landed_late > 0 && seen.late_snapshots > 0);
}

#[test]
fn no_fault_and_no_switch_around_a_merge_loses_or_doubles_a_row() {
    let alone = sound(only(families::singles(), &["single-merge-resume"]));
    let two = sound(only(families::interleavings(0, 1), &["pair-merge"]));
    assert!(alone.merged > 0 && two.merged > 0 && two.fenced > 0, "{alone:?} {two:?}");
}

#[test]
fn no_fault_while_a_topic_is_read_loses_or_doubles_a_row() {
    let seen = sound(only(families::topics(1, 1), &["topic-end-resume", "topic-never-start"]));
    assert!(seen.died > 0 && seen.landed_late > 0 && seen.idle > 0, "{seen:?}");
}

#[test]
fn no_switch_between_two_fresh_starts_loses_or_doubles_a_row() {
    let seen = sound(only(families::interleavings(0, 1), &["pair-fresh"]));
    assert!(seen.fenced > 0);
}

#[test]
fn the_same_schedule_gives_the_same_calls() {
    let scenario = by_name("seeded-zombie").unwrap();
    let prepared = Prepared::new(&scenario).unwrap();
    for seed in 1..6 {
        let mut seeded = Seeded::of(seed, 9);
        let (_, seen, trace) = prepared.run(&mut seeded, true);
        let text = seeded.schedule().to_string();
        let schedule = Schedule::parse(&text).unwrap();
        let (_, again, retrace) = prepared.run(&mut Replay::of(schedule), true);
        assert_eq!((seen, trace), (again, retrace), "{text}");
    }
}

#[test]
fn every_scenario_can_be_named_and_is_named_once() {
    for form in [Form::Short, Form::Long, Form::Deep] {
        for scenario in families::all(form).into_iter().flat_map(|f| f.scenarios) {
            assert!(by_name(&scenario.name).is_some(), "{}", scenario.name);
        }
    }
}

#[test]
fn another_engine_does_only_what_it_can() {
    let empty = Default::default();
    for what in [Outside::Expire, Outside::ExpireAll, Outside::Commit, Outside::Unpin] {
        assert!(!what.is_possible(&empty, "one", Format::Paimon), "{what:?}");
    }
}

// ---- teeth -------------------------------------------------------------------------------------------------------------------------------

/// Where each rule, switched off, is noticed; by two families of schedules, or by one and the model (`src/sim/model`).
const TEETH: [(Rule, &[(&str, Budget)]); 24] = [
    (Rule::OneRead, &[("single-one-start", budget(1, 0, 0)), ("pair-fresh", budget(0, 2, 0))]),
    // Alone nobody can be overtaken, so it takes two processes: with switches alone, and while snapshots expire.
    (Rule::ListAfterCreate, &[("pair-fresh", budget(0, 2, 0)), ("expiry-pair-fresh", budget(0, 1, 1))]),
    (Rule::CreateOnly, &[("single-one-start", budget(1, 0, 0)), ("pair-fresh", budget(0, 2, 0))]),
    (Rule::ReadBack, &[("single-one-start", budget(1, 0, 0)), ("pair-fresh", budget(0, 2, 0))]),
    (Rule::KeepUnclear, &[("single-one-start", budget(1, 0, 0)), ("pair-fresh", budget(0, 2, 0))]),
    (Rule::FinishEnd, &[("single-two-start", budget(1, 0, 0)), ("pair-fresh", budget(0, 2, 0))]),
    (Rule::CloseOld, &[("single-two-abandon", budget(0, 0, 0)), ("pair-rewind", budget(0, 1, 0))]),
    (Rule::OneChain, &[("single-one-rerun", budget(1, 0, 0)), ("pair-fresh", budget(0, 2, 0))]),
    // `<=` does harm only where history is gone: pins keep it, so only where another engine removes them. The model finds it too.
    (Rule::Equality, &[("unpinned-start", budget(0, 0, 3))]),
    (Rule::Pin, &[("single-one-start", budget(0, 0, 0)), ("expiry-start", budget(0, 0, 1))]),
    (Rule::PinAfterOwned, &[("single-one-rewind", budget(0, 0, 0)), ("expiry-start", budget(0, 0, 3))]),
    // Somebody must commit and expire between two reads of one start: only where other engines act. The model finds it too.
    (Rule::FloorAfterPin, &[("expiry-start", budget(0, 0, 3))]),
    // It takes an older process that looks at what a newer one did: two processes, with switches alone and while snapshots expire.
    (Rule::ListBeforeData, &[("pair-fresh", budget(0, 2, 0)), ("expiry-pair-fresh", budget(0, 1, 1))]),
    (Rule::MergeAll, &[("single-merge-start", budget(0, 0, 0)), ("pair-merge", budget(0, 1, 0))]),
    // Over Delta tables. There are no pins, and nothing is ever unknown; so `Equality` and the rules of pins have nothing to break there.
    (Rule::OneRead, &[("delta-single-one-start", budget(1, 0, 0))]),
    (Rule::ListAfterCreate, &[("delta-pair-fresh", budget(0, 2, 0))]),
    (Rule::OneChain, &[("delta-single-one-rerun", budget(1, 0, 0))]),
    (Rule::CreateOnly, &[("delta-single-one-start", budget(1, 0, 0))]),
    (Rule::ReadBack, &[("delta-single-one-start", budget(1, 0, 0))]),
    (Rule::KeepUnclear, &[("delta-single-one-start", budget(1, 0, 0))]),
    (Rule::FinishEnd, &[("delta-pair-fresh", budget(0, 2, 0))]),
    (Rule::CloseOld, &[("delta-single-both-abandon", budget(0, 0, 0))]),
    (Rule::Winners, &[("delta-single-one-start", budget(1, 0, 0)), ("delta-pair-zombie", budget(0, 2, 0))]),
    (Rule::HintLast, &[("delta-single-checkpoint-start", budget(0, 0, 0)), ("delta-pair-checkpoint", budget(0, 1, 0))]),
];

#[test]
fn each_rule_that_is_switched_off_is_noticed() {
    for (rule, places) in TEETH {
        for (name, budget) in places {
            let mut scenario = named(name, *budget);
            scenario.broken.insert(rule);
            let tally = families::explore(&scenario, families::How::Every { merge: true }, 1);
            let first = tally.first.unwrap_or_else(|| panic!("{rule:?} is off in {name}, and nothing was noticed in {} runs", tally.runs));
            println!("{rule:?}, {name}: run {}: {}", tally.runs, first.violation);
        }
    }
}

#[test]
fn a_case_with_every_call_as_a_choice_gives_the_same_verdicts() {
    let rules = [Rule::OneRead, Rule::ListAfterCreate, Rule::CreateOnly, Rule::KeepUnclear, Rule::ListBeforeData].map(Some);
    let mut noticed = 0;
    for rule in rules.into_iter().chain([None]) {
        let verdicts = families::unreduced().map(|mut scenario| {
            scenario.budget = budget(0, 2, 0);
            scenario.broken.extend(rule);
            families::explore(&scenario, families::How::Every { merge: true }, 1)
        });
        let found = verdicts.each_ref().map(|t| t.violations > 0);
        println!("{rule:?}: {found:?}, {} and {} runs", verdicts[0].runs, verdicts[1].runs);
        assert_eq!(found[0], found[1], "{rule:?}");
        assert!(rule.is_some() || !found[0]);
        noticed += usize::from(found[0]);
    }
    assert!(noticed >= 3, "{noticed}"); // with one record retention empties no slot, so not all
}
