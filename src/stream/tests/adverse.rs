//! Tables that change under the chain.

use super::rig::*;
use crate::error::Kind;
use crate::stream::Event;
use crate::table::Table;

/// Our newest snapshot, replaced by somebody's as a writer does that renames over it.
fn replace_newest(world: &World, table: &str) {
    let newest = world.snapshots(table).pop().unwrap();
    world.remove(&format!("{table}/snapshot/snapshot-{}", newest.id));
    world.foreign_commit(table, 1);
    assert_eq!(world.snapshots(table).pop().unwrap().id, newest.id);
}

#[test]
fn a_snapshot_of_ours_that_was_replaced_stops_the_next_commit_and_every_start() {
    let world = World::new(&[("a", 45)]);
    let mut process = world.spawn(Setup::two());
    process.until(|e| matches!(e, Event::Committed { identifier: 2, sink, .. } if sink == "sim://two"));
    replace_newest(&world, "two");
    let error = process.end().error(Kind::Data).to_string();
    assert!(error.contains("sim://two") && error.contains("snapshot 2 has other bytes"), "{error}");
    let before = world.tree();
    // The other table may be finished; this one is left alone.
    world.run(Setup::two()).error(Kind::Data);
    let changed: Vec<_> = world.tree().into_iter().filter(|(k, v)| before.get(k) != Some(v)).map(|(k, _)| k).collect();
    assert!(changed.iter().all(|k| k.starts_with("one/consumer/")), "{changed:?}");
    assert_eq!(world.snapshots("two").len(), 2);
}

#[test]
fn a_replaced_snapshot_of_the_greatest_checkpoint_is_landed_again() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().paused()).well();
    replace_newest(&world, "two");
    assert_eq!(world.ids("two").len(), 20);
    world.run(Setup::two()).well();
    world.exact(&Setup::two(), "");
}

#[test]
fn a_table_that_was_recreated_under_the_chain_stops() {
    for pending in [false, true] {
        let world = World::new(&[("a", 25)]);
        if pending {
            world.run(Setup::two().dying_on(|e| matches!(e, Event::Checkpointed { seq: 2, .. }))).dead();
        } else {
            world.run(Setup::two().paused()).well();
        }
        world.remove_all("two/");
        block_on(Table::create_in(world.store("two", &Default::default()), &spec())).unwrap();
        world.grow("a", 40);
        let error = world.run(Setup::two()).error(Kind::Data).to_string();
        assert!(error.contains("sim://two") && error.contains("this is table"), "{error}");
        assert!(world.snapshots("two").is_empty());
    }
}

#[test]
fn a_table_that_was_rolled_back_stops() {
    let world = World::new(&[("a", 35)]);
    world.run(Setup::two().paused()).well();
    for id in [4, 3] {
        world.remove(&format!("two/snapshot/snapshot-{id}"));
    }
    world.grow("a", 45);
    let error = world.run(Setup::two()).error(Kind::Data).to_string();
    assert!(error.contains("the newest is 2"), "{error}");
}

#[test]
fn commits_of_others_between_ours_are_built_upon() {
    for seed in 0..40 {
        let world = World::new(&[("a", 45)]);
        let mut process = world.spawn(Setup::two());
        let mut dice = Dice(seed);
        let mut n = 0;
        while !process.turn() {
            if dice.roll(60) == 0 && world.tree().contains_key("two/schema/schema-0") {
                n += 1;
                world.foreign_commit("two", n);
            }
        }
        process.end().well();
        world.exact(&Setup::two(), &format!("seed {seed}"));
        assert_eq!(world.snapshots("two").iter().filter(|s| s.commit_user == "somebody").count() as i64, n);
    }
}
