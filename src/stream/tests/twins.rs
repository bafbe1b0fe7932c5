//! One pipeline started twice: whoever is overtaken ends fenced, and rows are exact whatever the interleaving.

use std::time::Duration;

use super::rig::*;
use crate::error::Kind;
use crate::stream::Ledger;

fn odd(id: i64) -> bool {
    id % 2 == 1
}

/// Runs twins by many seeds.
fn twins(seeds: std::ops::Range<u64>, setups: [Setup; 2], before: impl Fn() -> World) {
    let (mut both, mut fenced) = (0, 0);
    for seed in seeds {
        let world = before();
        let ended = interleave(setups.iter().map(|s| world.spawn(s.clone())).collect(), seed);
        let mut well = 0;
        for e in &ended {
            match &e.result {
                Some(Ok(_)) => well += 1,
                Some(Err(e)) if e.kind() == Kind::Fenced => fenced += 1,
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        assert!(well >= 1, "seed {seed}: both were fenced");
        both += u64::from(well == 2);
        world.exact(&setups[0], &format!("seed {seed}"));
        // And whoever comes next finds nothing to do.
        world.run(setups[0].clone()).well();
        world.exact(&setups[0], &format!("seed {seed}, afterwards"));
    }
    println!("both well {both}, fenced {fenced}");
    assert!(fenced > 0, "no seed made them meet");
}

#[test]
fn of_two_fresh_starts_one_is_fenced_or_both_end_well_and_rows_are_exact() {
    let setup = Setup::of(&[("one", all), ("two", odd)]);
    twins(0..120, [setup.clone(), setup], || World::new(&[("a", 33), ("b", 8)]));
}

#[test]
fn a_fresh_start_that_retention_overtakes_is_fenced() {
    let setup = Setup { keep: 2, ..Setup::one() };
    twins(1000..1120, [setup.clone(), setup], || World::new(&[("a", 58)]));
}

#[test]
fn two_starts_after_a_death_finish_one_checkpoint_once() {
    let setup = Setup { keep: 2, ..Setup::of(&[("one", all), ("two", odd)]) };
    for write in [15, 22, 30, 38] {
        twins(0..40, [setup.clone(), setup.clone()], || {
            let world = World::new(&[("a", 45)]);
            world.run(setup.clone().dying(write, write % 2 == 0));
            world
        });
    }
}

#[test]
fn a_twin_that_sleeps_through_a_whole_run_lands_nothing_when_it_wakes() {
    for asleep_after in (0..260).step_by(2) {
        let setup = Setup { keep: 2, ..Setup::two() };
        let world = World::new(&[("a", 45)]);
        let mut sleeper = world.spawn(setup.clone());
        for _ in 0..asleep_after {
            sleeper.turn();
        }
        world.run(setup.clone()).well();
        for table in ["one", "two"] {
            world.expire(table, 1, true);
        }
        let ended = sleeper.end();
        assert!(
            matches!(&ended.result, Some(Ok(_))) || matches!(&ended.result, Some(Err(e)) if e.kind() == Kind::Fenced),
            "asleep after {asleep_after}: {:?}",
            ended.result
        );
        assert_eq!(world.ids("one"), world.input(all), "asleep after {asleep_after}");
        assert_eq!(world.ids("two"), world.input(all), "asleep after {asleep_after}");
        world.run(setup.clone()).well();
        assert_eq!(world.ids("one"), world.input(all), "asleep after {asleep_after}");
    }
}

#[test]
fn an_older_twin_takes_no_pin_of_a_newer_lineage_away() {
    for asleep_after in (0..120).step_by(2) {
        let world = World::new(&[("a", 25)]);
        world.run(Setup::two().paused()).well();
        let mut older = world.spawn(Setup::two().paused());
        for _ in 0..asleep_after {
            older.turn();
        }
        if world.run(Setup::two().paused().rewind(2)).result.is_none_or(|r| r.is_err()) {
            continue;
        }
        let user = world.checkpoints().pop().unwrap().user.to_string();
        older.end();
        for table in ["one", "two"] {
            assert!(world.pins(table).contains_key(&user), "asleep after {asleep_after}: {:?}", world.pins(table));
        }
    }
}

#[test]
fn a_slot_that_retention_has_emptied_can_be_created_and_is_not_owned() {
    let world = World::new(&[("a", 58)]);
    world.run(Setup { keep: 2, ..Setup::one() }).well();
    let ledger = Ledger::new(world.store("chain", &Default::default()), "p");
    let mut late = world.checkpoints().pop().unwrap();
    for seq in [0, 1] {
        (late.seq, late.opened) = (seq, 0);
        let error = block_on(ledger.own(late.clone(), Duration::from_secs(1))).unwrap_err();
        assert!(error.kind() == Kind::Fenced && error.to_string().contains("host host, pid 7"), "{error}");
    }
}
