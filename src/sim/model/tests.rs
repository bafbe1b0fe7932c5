//! The searches: no property is violated, and the count of states is pinned, so that a change of the model or of a rule is noticed.

use std::collections::BTreeSet;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path};

use super::process::Asked::{Abandon, RewindToNewest, RewindToOldest};
use super::*;

/// One process, one table, two records, and nothing goes wrong.
pub(super) fn one() -> Config {
    Config {
        tables: 1,
        route: [0b1111, 0b1111],
        total: 2,
        batches: [1, 1],
        processes: 1,
        lives: 2,
        budget: NOTHING,
        asked: &[],
        used: false,
        honour: true,
        compact: false,
        broken: None,
    }
}

/// Two processes at once.
pub(super) fn two() -> Config {
    Config { processes: 2, ..one() }
}

pub(super) const NOTHING: Budget = Budget { crash: 0, unclear: 0, foreign: [0, 0], expire: 0, ticks: 0, asked: 0, restore: 0 };
pub(super) const CRASH: Budget = Budget { crash: 1, ..NOTHING };
pub(super) const UNCLEAR: Budget = Budget { unclear: 1, ..NOTHING };
pub(super) const ASKED: Budget = Budget { asked: 1, ..NOTHING };

/// What a search found.
pub(super) struct Found {
    pub(super) states: usize,
    /// The violated properties and how many actions lead there, the shortest first.
    pub(super) violated: Vec<(&'static str, usize)>,
    /// The shortest counterexample.
    pub(super) trace: String,
    reached: BTreeSet<&'static str>,
}

/// Searches until everything is seen, or until a property outside `passed_over` is violated.
pub(super) fn search(config: &Config, passed_over: &[&str]) -> Found {
    let failures = |p: &Property<Config>| p.expectation == Expectation::Always;
    let stops = config.properties().into_iter().filter(failures).map(|p| p.name).filter(|name| !passed_over.contains(name)).collect();
    let checker = config.clone().checker().threads(1).finish_when(HasDiscoveries::AnyOf(stops)).spawn_bfs().join();
    let (mut violated, mut reached, mut trace, mut shortest) = (Vec::new(), BTreeSet::new(), String::new(), usize::MAX);
    let always: BTreeSet<&str> = config.properties().into_iter().filter(failures).map(|p| p.name).collect();
    for (name, path) in checker.discoveries() {
        let length = path.clone().into_actions().len();
        if !always.contains(name) {
            reached.insert(name);
        } else if !passed_over.contains(&name) {
            violated.push((name, length));
            if length < shortest {
                (trace, shortest) = (tell(path), length);
            }
        }
    }
    violated.sort_by_key(|(name, length)| (*length, *name));
    Found { states: checker.unique_state_count(), violated, trace, reached }
}

fn tell(path: Path<World, Action>) -> String {
    let mut text = String::new();
    for (world, action) in path.into_vec() {
        for process in world.processes.iter().flatten() {
            text += &format!("        {}: {:?}\n", process.life, process.at);
        }
        if let Some(action) = action {
            text += &format!("    {action:?}\n");
        } else {
            text += &format!("    verdict {:?}, tables {:?}\n", world.verdict, world.tables.each_ref().map(Table::commits));
        }
    }
    text
}

fn holds(name: &str, config: &Config, states: usize, reached: &[&str]) {
    let found = search(config, &[]);
    println!("{name}: {} states", found.states);
    assert!(found.violated.is_empty(), "{name}: {:?}\n{}", found.violated, found.trace);
    let missing: Vec<_> = reached.iter().filter(|r| !found.reached.contains(*r)).collect();
    assert!(missing.is_empty(), "{name} never reaches {missing:?}");
    assert_eq!(
        found.states, states,
        "{name}: the model or a rule has changed; if that was meant, pin the new count here and in spec/model.md"
    );
}

const REPLAYS: [&str; 3] = ["a process ends cleanly", "a replay commits", "a replay recognises"];
const FENCED: [&str; 5] = [
    "a process ends cleanly",
    "a fenced process stops",
    "both processes publish",
    "a checkpoint is deleted",
    "an emptied seq is created again",
];
const RESOLVED: [&str; 4] = [
    "an unclear checkpoint is mine",
    "an unclear checkpoint is not mine",
    "an unclear snapshot is mine",
    "an unclear snapshot is not mine",
];

#[test]
fn one_process_dies_anywhere_and_any_answer_is_lost() {
    let budget = Budget { unclear: 1, ..CRASH };
    holds("crash, unclear", &Config { budget, ..one() }, 1396, &REPLAYS);
    let config = Config { budget: Budget { crash: 2, unclear: 1, ..NOTHING }, lives: 3, ..one() };
    holds("crash x 2, unclear", &config, 6569, &REPLAYS);
}

#[test]
fn floors_and_pins_outlive_the_expiry_of_others() {
    let budget = Budget { foreign: [2, 0], expire: 3, ..CRASH };
    holds("crash, foreign x 2, expiry x 3", &Config { budget, ..one() }, 6057, &REPLAYS);
    let budget = Budget { foreign: [0, 1], expire: 2, ticks: 1, ..CRASH };
    let config = Config { tables: 2, route: [0b11, 0b01], budget, ..one() };
    holds("two tables, one quiet at the end: crash, foreign, expiry x 2, an hour", &config, 16_947, &REPLAYS);
}

#[test]
fn two_tables_are_finished_both() {
    let budget = Budget { unclear: 1, ticks: 1, ..CRASH };
    let config = Config { tables: 2, route: [0b11, 0b01], budget, ..one() };
    holds("two tables: crash, unclear, an hour", &config, 12_525, &REPLAYS);
    holds("two tables, two processes", &Config { tables: 2, route: [0b11, 0b10], ..two() }, 8534, &FENCED);
}

#[test]
fn of_two_processes_one_goes_on() {
    holds("two processes", &two(), 3483, &FENCED);
    holds("two processes, three records", &Config { total: 3, ..two() }, 7252, &FENCED);
    holds("two processes, other batches", &Config { total: 3, batches: [1, 2], ..two() }, 5174, &FENCED);
    holds("two processes: crash", &Config { lives: 3, budget: CRASH, ..two() }, 49_538, &FENCED);
}

#[test]
fn of_two_processes_any_answer_is_lost() {
    holds("two processes: unclear", &Config { budget: UNCLEAR, ..two() }, 37_278, &RESOLVED);
}

#[test]
fn a_rewind_meets_the_old_owner() {
    let reached = ["a lineage is closed", "a fenced process stops", "an old owner meets a closed lineage", "a process ends cleanly"];
    let config = Config { budget: ASKED, asked: &[RewindToOldest, RewindToNewest], used: true, ..two() };
    holds("two processes: rewind", &config, 9925, &reached);
    let config = Config { lives: 3, total: 1, ..config };
    holds("two processes, three lives: rewind", &config, 44_649, &reached);
}

#[test]
fn an_abandoned_checkpoint_meets_the_old_owner() {
    let reached = ["a lineage is closed", "a fenced process stops", "a process ends cleanly"];
    let config = Config { budget: Budget { crash: 1, ..ASKED }, asked: &[Abandon], used: true, lives: 3, total: 1, ..two() };
    holds("two processes: abandon, crash", &config, 57_527, &reached);
}

#[test]
fn two_processes_beside_expiry_are_exact() {
    let budget = Budget { foreign: [1, 0], expire: 2, ..NOTHING };
    let slot = ["a snapshot falls into an expired slot", "what fell into an expired slot is removed"];
    holds("two processes: foreign, expiry x 2", &Config { budget, ..two() }, 46_475, &slot);
    let config = Config { budget: Budget { asked: 1, ..budget }, asked: &[RewindToOldest], total: 1, ..two() };
    holds("two processes: foreign, expiry x 2, rewind", &config, 28_839, &slot);
}

#[test]
fn an_engine_that_ignores_pins_leads_to_a_stop_at_worst() {
    let budget = Budget { foreign: [2, 0], expire: 3, ..CRASH };
    let reached = ["unknown is answered `Data`", "a snapshot falls into an expired slot", "a process ends cleanly"];
    let config = Config { honour: false, budget, ..one() };
    holds("pins ignored: crash, foreign x 2, expiry x 3", &config, 10_671, &reached);
    holds("pins ignored, compactions: the same", &Config { compact: true, ..config }, 8612, &reached);
}

#[test]
fn an_older_chain_stops() {
    let budget = Budget { restore: 1, ..CRASH };
    let config = Config { batches: [1, 2], total: 3, lives: 3, budget, ..one() };
    holds("chain restored: crash", &config, 583, &["a table is ahead of its chain"]);
}

#[test]
#[ignore = "minutes"]
fn long_form() {
    let c = |crash, unclear| Budget { crash, unclear, ..NOTHING };
    let tables = Config { tables: 2, route: [0b11, 0b10], ..two() };
    for (name, config, states) in [
        ("two tables, two processes: crash", Config { lives: 3, budget: CRASH, ..tables.clone() }, 139_028),
        ("two processes, three records: crash", Config { total: 3, lives: 3, budget: CRASH, ..two() }, 143_615),
        ("two processes: crash, unclear", Config { lives: 3, budget: c(1, 1), ..two() }, 612_092),
        ("two processes: crash x 2", Config { lives: 4, budget: c(2, 0), ..two() }, 350_868),
        ("two processes: unclear x 2", Config { budget: c(0, 2), ..two() }, 221_097),
        ("two tables, two processes: unclear", Config { budget: c(0, 1), ..tables.clone() }, 96_634),
        ("two tables: crash x 2, unclear x 2", Config { processes: 1, lives: 3, budget: c(2, 2), ..tables.clone() }, 67_743),
    ] {
        holds(name, &config, states, &["a process ends cleanly"]);
    }
}
