//! Snapshot expiry by other engines: honoured pins keep what a walk needs, and ignored ones never double or lose a row.

use super::rig::*;
use crate::error::Kind;
use crate::sink::Resolution;
use crate::stream::{Event, StartOptions};

fn seldom(id: i64) -> bool {
    id % 100_000 < 8
}

/// Others commit to both tables and expire nearly everything.
fn others_work(world: &World, honour: bool, round: i64) {
    for table in ["one", "two"] {
        if world.tree().contains_key(&format!("{table}/schema/schema-0")) {
            for i in 0..3 {
                world.foreign_commit(table, round * 10 + i + 1);
            }
            world.expire(table, 1, honour);
        }
    }
}

#[test]
fn expiry_that_honours_pins_between_any_two_writes_doubles_nothing_and_stops_nothing() {
    for setup in [Setup::two(), Setup::of(&[("one", all), ("two", seldom)])] {
        for n in 0.. {
            let mut died = false;
            for after in [false, true] {
                let world = World::new(&[("a", 27)]);
                died |= world.run(setup.clone().dying(n, after)).result.is_none();
                others_work(&world, true, 1);
                world.run(setup.clone()).well();
                let what = format!("write {n}, {after}");
                for (table, keep) in &setup.sinks {
                    assert_eq!(world.ids(table), world.input(*keep), "{what}");
                }
            }
            if !died {
                break;
            }
        }
    }
}

#[test]
fn expiry_beside_a_living_run_doubles_nothing() {
    for seed in 0..60 {
        let setup = Setup { bounded: true, ..Setup::of(&[("one", all), ("two", seldom)]) };
        let world = World::new(&[("a", 65)]);
        let mut process = world.spawn(setup.clone());
        let mut dice = Dice(seed);
        let mut round = 0;
        loop {
            let turns = 20 + dice.roll(200);
            if (0..turns).any(|_| process.turn()) {
                break;
            }
            round += 1;
            others_work(&world, true, round);
        }
        process.end().well();
        for (table, keep) in &setup.sinks {
            assert_eq!(world.ids(table), world.input(*keep), "seed {seed}");
        }
    }
}

fn written_2(e: &Event) -> bool {
    matches!(e, Event::Checkpointed { seq: 2, .. })
}
fn committed_2_in_two(e: &Event) -> bool {
    matches!(e, Event::Committed { identifier: 2, sink, .. } if sink == "sim://two")
}

/// Checkpoint 2 is pending in both tables, and history cannot tell.
fn unknown() -> World {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().dying_on(written_2)).dead();
    others_work(&world, false, 1);
    world
}

fn resolving(words: &[(&str, Resolution)]) -> StartOptions {
    StartOptions { resolve: words.iter().map(|(s, r)| ((*s).to_owned(), *r)).collect(), ..StartOptions::default() }
}

#[test]
fn a_pin_that_was_ignored_stops_and_names_resolve() {
    let world = unknown();
    let before = world.tree();
    for _ in 0..2 {
        let error = world.run(Setup::two()).error(Kind::Data).to_string();
        assert!(error.contains("--resolve sim://one=landed") && error.contains("--resolve sim://one=lost"), "{error}");
    }
    assert_eq!(world.tree(), before);
}

#[test]
fn resolve_lost_lands_it_and_resolve_landed_does_not_and_both_are_recorded() {
    let world = unknown();
    let words = [("sim://one", Resolution::Lost), ("sim://two", Resolution::Landed)];
    world.run(Setup::two().asking(resolving(&words))).well();
    assert_eq!(world.ids("one"), world.input(all), "it was lost, and is there now");
    assert_eq!(
        world.ids("two"),
        world.input(all).into_iter().enumerate().filter(|(i, _)| !(10..20).contains(i)).map(|(_, id)| id).collect::<Vec<_>>()
    );
    let recorded = world.checkpoints().into_iter().find(|c| c.seq == 3).unwrap().resolved;
    assert_eq!(recorded.into_iter().collect::<Vec<_>>(), words.map(|(s, r)| (s.to_owned(), r)));
    assert!(world.checkpoints().iter().filter(|c| c.seq != 3).all(|c| c.resolved.is_empty()));
}

#[test]
fn an_ignored_pin_does_not_hide_files_that_are_live() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().dying_on(committed_2_in_two)).dead();
    others_work(&world, false, 1);
    let (_, events) = world.run(Setup::two()).well();
    assert!(Ended::finished(&events).iter().all(|(_, _, already)| *already));
    for table in ["one", "two"] {
        assert_eq!(world.ids(table), world.input(all));
    }
}

#[test]
fn resolve_decides_an_abandon_whose_history_is_gone() {
    for word in [Resolution::Lost, Resolution::Landed] {
        let world = unknown();
        let error = world.run(Setup::two().abandon(2)).error(Kind::Data).to_string();
        assert!(error.contains("--resolve"), "{error}");
        let words = resolving(&[("sim://one", word), ("sim://two", Resolution::Lost)]);
        world.run(Setup::two().asking(words)).well();
        assert_eq!(world.ids("two"), world.input(all));
        assert_eq!(world.ids("one").len(), if word == Resolution::Lost { 25 } else { 15 });
    }
}

#[test]
fn an_end_without_rows_is_published_again_when_history_is_gone() {
    let world = World::new(&[("a", 20)]);
    let end_in_two = |e: &Event| matches!(e, Event::Committed { identifier: i64::MAX, sink, .. } if sink == "sim://two");
    world.run(Setup::two().dying_on(end_in_two)).dead();
    others_work(&world, false, 1);
    world.run(Setup::two()).well();
    for table in ["one", "two"] {
        assert_eq!(world.ids(table), world.input(all));
        assert_eq!(world.snapshots(table).last().unwrap().commit_identifier, i64::MAX);
    }
}

#[test]
fn a_quiet_sink_goes_on_from_the_head_when_its_history_is_gone() {
    let setup = Setup::of(&[("one", all), ("two", |id| id % 100_000 >= 30)]);
    let world = World::new(&[("a", 25)]);
    world.run(setup.clone().paused()).well();
    for i in 1..4 {
        world.foreign_commit("two", i);
    }
    world.expire("two", 1, false);
    world.run(setup.clone().paused()).well();
    world.grow("a", 45);
    world.run(setup.clone()).well();
    world.exact(&setup, "");
}
