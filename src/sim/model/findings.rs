//! Where the rules as they are do not hold: a counterexample each, and the same search with the rule mended finds none. What mends them is in
//! `spec/model.md`. A rule that is mended in production makes its search here find nothing: then turn it round, and take `Config::mended` away.

use super::process::Asked::RewindToNewest;
use super::tests::{ASKED, CRASH, NOTHING, one, search, two};
use super::*;

fn finds(name: &str, config: &Config, property: &str) {
    let others: Vec<_> = config.properties().iter().map(|p| p.name).filter(|name| *name != property).collect();
    let found = search(config, &others);
    println!("{name}: after {:?} actions\n{}", found.violated, found.trace);
    assert!(found.violated.iter().any(|(p, _)| *p == property), "{name} is not found any more: {:?}", found.violated);
    let mended = search(&Config { mended: true, ..config.clone() }, &[]);
    assert!(mended.violated.is_empty(), "{name}, mended: {:?}\n{}", mended.violated, mended.trace);
}

/// A start takes it that nothing of an `open`'s user has landed, and does not look.
#[test]
fn a_chain_restored_to_its_open_writes_again() {
    let budget = Budget { restore: 1, ..CRASH };
    let config = Config { batches: [1, 2], total: 3, lives: 3, budget, ..one() };
    finds("chain restored to its open", &config, "without a rewind a record is in a table at most once");
}

/// A create lands in an expired slot, its process dies before it confirms, and the next start takes the snapshot for history.
#[test]
fn with_pins_ignored_a_create_in_an_expired_slot_is_taken_for_landed() {
    let budget = Budget { foreign: [2, 0], expire: 3, ..CRASH };
    finds("create in an expired slot", &Config { honour: false, budget, ..one() }, "nothing below a committed offset is missing");
}

/// The slower of two that finish one checkpoint lands in the slot of the faster one's snapshot, which has expired; confirm sees their common
/// files in the newest snapshot and leaves it there. It lies at the floor with other bytes, so the next start stops.
#[test]
fn a_twins_late_create_is_left_at_the_floor() {
    let budget = Budget { foreign: [1, 0], expire: 2, ..NOTHING };
    finds("twin's late create", &Config { total: 1, budget, ..two() }, "a clean life finishes");
}

/// Two starts close one lineage in a table that was empty. The slower one's closing snapshot is the first, and the faster one builds on it;
/// confirm finds neither a snapshot below nor files in the newest, and deletes what others stand on.
#[test]
fn the_first_snapshot_is_deleted_when_it_is_empty_and_built_on() {
    let config = Config { budget: ASKED, asked: &[RewindToNewest], lives: 3, total: 1, ..two() };
    finds("first snapshot, empty", &config, "snapshot ids are contiguous");
}

/// A create lands in an expired slot, and expires again before it is confirmed.
#[test]
fn a_create_that_expires_before_it_is_confirmed_stops_the_run() {
    let budget = Budget { foreign: [1, 0], expire: 2, ..NOTHING };
    finds("expired before it is confirmed", &Config { budget, ..two() }, "no false alarm");
}
