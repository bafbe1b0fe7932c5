//! Rules switched off, one by one: the search must notice each. With all rules on the same search finds nothing.

use super::process::Asked::Abandon;
use super::tests::{ASKED, CRASH, NOTHING, UNCLEAR, one, search, two};
use super::*;

/// Who owns what is not harm by itself: the search goes on until something is lost, doubled, stuck or called damaged.
const NO_HARM: [&str; 2] = ["a checkpoint has one owner", "what is committed was ordered by the owner of its checkpoint"];

fn bites(rule: Rule, config: Config) {
    let sound = search(&config, &[]);
    assert!(sound.violated.is_empty(), "{:?}\n{}", sound.violated, sound.trace);
    let found = search(&Config { broken: Some(rule), ..config }, &NO_HARM);
    assert!(!found.violated.is_empty(), "without {rule:?} nothing is found in {} states", found.states);
    println!("{rule:?} off: {:?}", found.violated);
}

#[test]
fn identifier_read_apart_from_the_base() {
    bites(Rule::OneRead, Config { total: 1, ..two() });
}

#[test]
fn no_list_after_create() {
    bites(Rule::ListAfterCreate, Config { total: 3, ..two() });
}

#[test]
fn mutable_checkpoint() {
    bites(Rule::CreateOnly, Config { batches: [1, 2], ..two() });
}

#[test]
fn no_read_back() {
    bites(Rule::ReadBack, Config { budget: UNCLEAR, ..one() });
}

#[test]
fn delete_after_an_unclear_outcome() {
    bites(Rule::KeepUnclear, Config { budget: UNCLEAR, ..two() });
}

#[test]
fn end_not_finished_at_start() {
    bites(Rule::FinishEnd, Config { budget: CRASH, total: 1, ..one() });
}

/// Only an abandon needs the close for exactness: a rewind has finished what was pending before it.
#[test]
fn going_back_without_close() {
    bites(Rule::CloseOld, Config { budget: Budget { crash: 1, ..ASKED }, asked: &[Abandon], ..one() });
}

#[test]
fn one_chain_per_lineage() {
    bites(Rule::OneChain, two());
}

#[test]
fn order_instead_of_equality() {
    bites(Rule::Equality, Config { budget: Budget { restore: 1, ..CRASH }, lives: 3, total: 3, batches: [1, 2], ..one() });
}

#[test]
fn pin_not_written() {
    bites(Rule::Pin, Config { budget: Budget { foreign: [2, 0], expire: 2, ..CRASH }, ..one() });
}

#[test]
fn pin_raised_before_its_checkpoint_is_owned() {
    bites(Rule::PinAfterOwned, Config { budget: Budget { foreign: [2, 0], expire: 1, ..NOTHING }, total: 1, ..two() });
}

#[test]
fn floor_of_open_not_read_again_after_the_pin() {
    bites(Rule::FloorAfterPin, Config { budget: Budget { foreign: [2, 0], expire: 3, ..NOTHING }, ..one() });
}

#[test]
fn data_answered_before_the_chain_is_listed() {
    bites(Rule::ListBeforeData, two());
}
