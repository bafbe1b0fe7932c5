//! A chain or a table that is lost, moved, mistyped, older, or somebody else's (I14).

use super::rig::*;
use crate::error::Kind;
use crate::format::Digest;
use crate::stream::{Event, StartOptions};

fn run_of(records: u64) -> World {
    let world = World::new(&[("a", records)]);
    world.run(Setup::two().paused()).well();
    world
}

fn adopt() -> StartOptions {
    StartOptions { adopt: true, ..StartOptions::default() }
}
fn forget() -> StartOptions {
    StartOptions { forget: true, ..StartOptions::default() }
}

/// Stops with `Data`, and nothing is there that was not there before, or other than before.
#[track_caller]
fn stops(world: &World, setup: Setup) -> String {
    let before = world.tree();
    let ended = world.run(setup);
    let log = ended.log.join("\n");
    let error = ended.error(Kind::Data).to_string();
    let tree = world.tree();
    let changed: Vec<_> = tree.iter().filter(|(k, v)| before.get(*k) != Some(v)).map(|(k, _)| k).collect();
    assert!(changed.is_empty() && before.len() == tree.len(), "{error}: wrote {changed:?}\n{log}");
    error
}

#[test]
fn a_deleted_chain_stops_and_forget_begins_anew() {
    for closed in [false, true] {
        let world = run_of(25);
        if closed {
            world.run(Setup::two()).well();
            world.grow("a", 30);
        }
        let location = world.checkpoints()[0].chain.clone();
        world.remove_all("chain/");
        let error = stops(&world, Setup::two());
        assert!(
            error.contains("sim://one") && error.contains(&location) && error.contains("sim://chain") && error.contains("--forget"),
            "{error}"
        );
        world.run(Setup::two().asking(forget())).well();
        let mut expected = [world.input(all), World::new(&[("a", 25)]).input(all)].concat();
        expected.sort_unstable();
        assert_eq!(world.ids("one"), expected, "everything is written again, as it was asked for");
        assert!(world.pins("one").is_empty(), "no pin of the forgotten lineage is left");
    }
}

#[test]
fn a_chain_restored_to_its_open_stops_and_writes_nothing_again() {
    let world = run_of(20);
    let restored = world.tree().into_keys().filter(|name| name.starts_with("chain/p/"));
    let newer: Vec<_> = restored.skip(1).collect();
    assert_eq!(newer.len(), 2);
    newer.iter().for_each(|name| world.remove(name));
    assert_eq!(world.kinds(), "o");
    let error = stops(&world, Setup::two());
    assert!(error.contains("the table is ahead of the chain"), "{error}");
    for table in ["one", "two"] {
        assert_eq!(world.ids(table), world.input(all), "{table}");
    }
}

#[test]
fn a_mistyped_chain_location_stops() {
    let world = run_of(25);
    let error = stops(&world, Setup { chain: "chian", ..Setup::two() });
    assert!(error.contains("there is no chain at sim://chian") && error.contains("at sim://chain"), "{error}");
    let added = Setup { chain: "chian", ..Setup::of(&[("new", all), ("one", all)]) };
    world.run(added).error(Kind::Data);
    assert!(world.checkpoints_of("chian", "p").is_empty());
    world.run(Setup::two()).well();
    world.exact(&Setup::two(), "");
}

#[test]
fn forget_is_refused_when_there_is_a_chain() {
    let world = run_of(25);
    let before = world.tree();
    world.run(Setup::two().asking(forget())).error(Kind::Invalid);
    assert_eq!(world.tree(), before);
}

/// The chain as it was in `backup`.
fn restore(world: &World, backup: &World) {
    world.remove_all("chain/");
    for (name, bytes) in backup.tree().into_iter().filter(|(n, _)| n.starts_with("chain/")) {
        world.put(&name, bytes);
    }
}

#[test]
fn a_chain_restored_from_an_older_backup_stops() {
    // The table is ahead of a chain of the same lineage, pending or idle.
    for sinks in [Setup::two(), Setup::of(&[("one", all), ("two", |id| id % 100_000 > 20)])] {
        let world = World::new(&[("a", 20)]);
        world.run(sinks.clone().paused()).well();
        let backup = world.copy();
        world.grow("a", 45);
        world.run(sinks.clone().paused()).well();
        restore(&world, &backup);
        let error = stops(&world, sinks.clone().paused());
        assert!(error.contains("ahead of the chain"), "{error}");
        stops(&world, sinks.rewind(1));
    }
    // The table knows of a later lineage.
    let world = World::new(&[("a", 20)]);
    world.run(Setup::two()).well();
    let backup = world.copy();
    world.grow("a", 45);
    world.run(Setup::two()).well();
    restore(&world, &backup);
    let error = stops(&world, Setup::two());
    assert!(error.contains("the greatest checkpoint at sim://chain is") && error.contains("backup"), "{error}");
    stops(&world, Setup::two().asking(adopt()));
}

#[test]
fn a_greatest_checkpoint_that_cannot_be_read_stops_and_no_older_one_is_taken() {
    let world = run_of(25);
    let name = "chain/p/00000000000000000003.json";
    for bytes in ["", "{", "{\"version\":99}"] {
        world.put(name, bytes);
        let error = stops(&world, Setup::two());
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_damaged_older_checkpoint_does_not_hinder_a_start() {
    let world = run_of(25);
    world.put("chain/p/00000000000000000002.json", "{");
    world.run(Setup::two().paused().rewind(1)).error(Kind::Invalid);
    world.run(Setup::two()).well();
    world.exact(&Setup::two(), "");
}

#[test]
fn a_second_pipeline_of_the_same_name_stops() {
    let world = run_of(25);
    let other = Setup { chain: "elsewhere", ..Setup::of(&[("three", all)]) };
    world.run(other.clone().paused()).well();
    let error = stops(&world, Setup { sinks: vec![("three", all), ("one", all)], ..other.clone() });
    assert!(error.contains("two pipelines have one name"), "{error}");
    // The chain of one put in the place of the other's.
    world.remove_all("chain/");
    world.rename("elsewhere", "chain");
    stops(&world, Setup::two());
}

#[test]
fn a_moved_chain_and_a_moved_table_go_on_with_adopt_and_stop_without() {
    for pending in [false, true] {
        for closed in [false, true] {
            let world = World::new(&[("a", 25)]);
            let written_2 = |e: &Event| matches!(e, Event::Checkpointed { seq: 2, .. });
            match (pending, closed) {
                (true, _) => drop(world.run(Setup::two().dying_on(written_2)).dead()),
                (false, true) => drop(world.run(Setup::two()).well()),
                (false, false) => drop(world.run(Setup::two().paused()).well()),
            }
            world.rename("chain", "new-chain");
            world.rename("two", "zwei");
            world.grow("a", 45);
            let moved = Setup { chain: "new-chain", ..Setup::of(&[("one", all), ("zwei", all)]) };
            let error = world.run(moved.clone());
            assert!(matches!(&error.result, Some(Err(e)) if matches!(e.kind(), Kind::Data | Kind::Invalid)), "{error:?}");
            world.run(moved.clone().asking(adopt())).well();
            world.run(moved.clone()).well();
            world.exact(&moved, &format!("pending {pending}, closed {closed}"));
            world.grow("a", 50);
            world.run(moved.clone()).well();
            world.exact(&moved, "and without --adopt from then on");
            world.rename("new-chain", "chain");
            stops(&world, Setup { chain: "chain", ..moved });
        }
    }
}

#[test]
fn adopt_of_a_finished_pipeline_leaves_its_registration() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two()).well();
    world.rename("chain", "new-chain");
    let moved = Setup { chain: "new-chain", ..Setup::two() };
    assert!(world.run(moved.asking(adopt())).well().0.nothing);
    world.remove_all("new-chain/");
    stops(&world, Setup { chain: "new-chain", ..Setup::two() });
}

#[test]
fn pipelines_whose_names_begin_alike_leave_each_others_pins_and_registrations_alone() {
    let world = World::new(&[("a", 25)]);
    let orders = Setup { pipeline: "orders", ..Setup::two() };
    let europe = Setup { pipeline: "orders-eu", ..Setup::two() };
    world.run(europe.clone().paused()).well();
    world.run(orders.clone().paused()).well();
    world.run(orders.clone().paused().rewind(2)).well();
    let users = |p: &str| world.checkpoints_of("chain", p).pop().unwrap().user.to_string();
    for table in ["one", "two"] {
        let pins = world.pins(table);
        assert_eq!(pins.len(), 2, "{pins:?}");
        assert!(pins.contains_key(&users("orders")) && pins.contains_key(&users("orders-eu")), "{pins:?}");
    }
    world.run(orders).well();
    assert_eq!(world.pins("one").into_keys().collect::<Vec<_>>(), [users("orders-eu")]);
    world.run(europe).well();
    assert!(world.pins("one").is_empty());
}

#[test]
fn a_stray_checkpoint_in_an_emptied_slot_is_no_part_of_history() {
    let world = World::new(&[("a", 60)]);
    world.run(Setup { keep: 2, ..Setup::two().paused() }).well();
    assert!(world.checkpoints()[0].seq > 0, "retention has deleted the first ones");
    // What a fresh start that was overtaken leaves behind.
    let stray = World::new(&[("a", 5)]);
    stray.run(Setup::two().dying_on(|e| matches!(e, Event::Checkpointed { .. }))).dead();
    let left = stray.tree()["chain/p/00000000000000000000.json"].clone();
    assert_ne!(Digest::of(&left), Digest::of(b""));
    world.put("chain/p/00000000000000000000.json", left);
    world.run(Setup::two().paused().rewind(0)).error(Kind::Invalid);
    world.run(Setup::two()).well();
    world.exact(&Setup::two(), "");
}
