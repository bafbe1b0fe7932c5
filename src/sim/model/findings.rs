//! Searches that found something when they were first made (`spec/model.md`, "What it found"): all but one find nothing now.

use super::process::Asked::{Abandon, RewindToNewest};
use super::tests::{ASKED, CRASH, NOTHING, one, search, two};
use super::*;

fn finds_nothing(name: &str, config: &Config) {
    let found = search(config, &[]);
    println!("{name}: {} states", found.states);
    assert!(found.violated.is_empty(), "{name}: {:?}\n{}", found.violated, found.trace);
}

#[test]
fn a_chain_restored_to_its_open_writes_nothing_again() {
    let budget = Budget { restore: 1, ..CRASH };
    finds_nothing("chain restored to its open", &Config { batches: [1, 2], total: 3, lives: 3, budget, ..one() });
}

#[test]
fn with_pins_ignored_a_create_in_an_expired_slot_is_not_taken_for_landed() {
    let budget = Budget { foreign: [2, 0], expire: 3, ..CRASH };
    finds_nothing("create in an expired slot", &Config { honour: false, budget, ..one() });
}

#[test]
fn a_twins_late_create_is_not_left_at_the_floor() {
    let budget = Budget { foreign: [1, 0], expire: 2, ..NOTHING };
    finds_nothing("twin's late create", &Config { total: 1, budget, ..two() });
}

#[test]
fn the_first_snapshot_stays_when_it_is_empty_and_built_on() {
    finds_nothing("first snapshot, empty", &Config { budget: ASKED, asked: &[RewindToNewest], lives: 3, total: 1, ..two() });
}

#[test]
fn a_create_that_expires_before_it_is_confirmed_is_decided_again() {
    let budget = Budget { foreign: [1, 0], expire: 2, ..NOTHING };
    finds_nothing("expired before it is confirmed", &Config { budget, ..two() });
}

/// A rule that mends it makes this test fail: then turn it round.
fn still_finds(name: &str, config: &Config, property: &str) {
    let found = search(config, &[]);
    println!("{name}: {:?}\n{}", found.violated, found.trace);
    assert!(found.violated.iter().any(|(p, _)| *p == property), "{name}: not found any more");
}

/// As the twin's late create, but the snapshot above has merged the manifests, and twins name the same files.
#[test]
fn where_manifests_were_merged_a_twins_late_create_is_left_at_the_floor() {
    let budget = Budget { foreign: [1, 0], expire: 2, ..NOTHING };
    let config = Config { total: 1, compact: true, budget, ..two() };
    still_finds("twin's late create, merged", &config, "a clean life finishes");
}

#[test]
fn with_pins_ignored_a_close_in_an_expired_slot_doubles_nothing() {
    let budget = Budget { foreign: [1, 0], expire: 2, ..ASKED };
    finds_nothing("close in an expired slot", &Config { total: 1, honour: false, budget, asked: &[Abandon], ..two() });
}
