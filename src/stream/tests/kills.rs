//! One process dies, before or after any of its writes; the next one leaves every row once.

use super::rig::*;
use crate::format::END_OF_INPUT;
use crate::stream::Event;

fn even(id: i64) -> bool {
    id % 2 == 0
}
/// Rows in some checkpoints only.
fn early(id: i64) -> bool {
    id % 100_000 < 8
}

fn setups() -> Vec<(&'static str, Setup)> {
    vec![
        ("one", Setup { keep: 2, ..Setup::one() }),
        ("two, one of them often without rows", Setup::of(&[("one", even), ("two", early)])),
        ("pause", Setup::two().paused()),
        ("empty commits", Setup { commit_empty: true, ..Setup::of(&[("one", all), ("two", early)]) }),
    ]
}

/// A chain's pin is there once it has an owned `data`, and not above what a walk may have to reach.
fn pins_hold(world: &World, setup: &Setup, what: &str) {
    let Some(greatest) = world.checkpoints().pop() else { return };
    for (name, _) in &setup.sinks {
        let pins = world.pins(name);
        let Some(entry) = greatest.sinks.get(&format!("sim://{name}")) else { continue };
        let pin = pins.get(greatest.user.as_str());
        match greatest.kind.as_str() {
            "data" | "end" => {
                let ours = world.snapshots(name).iter().rev().find(|s| s.commit_user == greatest.user.as_str()).map_or(0, |s| s.id);
                let pin = pin.unwrap_or_else(|| panic!("{what}: no pin in {name}: {pins:?}"));
                assert!(*pin <= entry.floor.id.max(ours).max(1), "{what}: pin {pin} above {entry:?}, ours {ours}");
            }
            _ => {}
        }
    }
}

#[test]
fn a_death_before_or_after_any_write_leaves_every_row_once() {
    let mut deaths = 0;
    for (name, setup) in setups() {
        for n in 0.. {
            let mut died = false;
            for after in [false, true] {
                let world = World::new(&[("a", 17), ("b", 8)]);
                let first = world.run(setup.clone().dying(n, after));
                let what = format!("{name}, died at write {n} ({}): {}", if after { "after" } else { "before" }, first.log.join("\n"));
                died |= first.result.is_none();
                if first.result.is_none() {
                    deaths += 1;
                    if world.tree().keys().any(|k| k.ends_with("schema-0"))
                        && world.tree().keys().filter(|k| k.ends_with("schema-0")).count() == setup.sinks.len()
                    {
                        pins_hold(&world, &setup, &what);
                    }
                    world.run(setup.clone()).well();
                }
                world.exact(&setup, &what);
                let users: std::collections::BTreeSet<String> =
                    setup.sinks.iter().flat_map(|(t, _)| world.snapshots(t)).map(|s| s.commit_user).collect();
                assert!(users.len() <= 1, "{what}: {users:?}");
                if setup.at_end == crate::stream::coordinator::AtEnd::Close {
                    assert_eq!(world.kinds().matches("cl").count(), 1, "{what}");
                    assert!(setup.sinks.iter().all(|(t, _)| world.pins(t).is_empty()), "{what}: a pin outlives its lineage");
                }
            }
            if !died {
                assert!(n > 15, "{n} writes are too few");
                break;
            }
        }
    }
    println!("{deaths} deaths");
}

#[test]
fn a_death_in_the_recovery_from_a_death_leaves_every_row_once() {
    let setup = Setup::of(&[("one", all), ("two", early)]);
    for n in (1..60).step_by(4) {
        for m in (0..30).step_by(3) {
            let world = World::new(&[("a", 17), ("b", 8)]);
            world.run(setup.clone().dying(n, n % 2 == 0));
            world.run(setup.clone().dying(m, m % 4 == 0));
            world.run(setup.clone());
            world.run(setup.clone()).well();
            world.exact(&setup, &format!("writes {n} and {m}"));
        }
    }
}

fn written_1(e: &Event) -> bool {
    matches!(e, Event::Checkpointed { seq: 1, .. })
}
fn committed_1_in_one(e: &Event) -> bool {
    matches!(e, Event::Committed { identifier: 1, sink, .. } if sink == "sim://one")
}
fn committed_1_in_two(e: &Event) -> bool {
    matches!(e, Event::Committed { identifier: 1, sink, .. } if sink == "sim://two")
}
fn end_in_one(e: &Event) -> bool {
    matches!(e, Event::Committed { identifier: END_OF_INPUT, sink, .. } if sink == "sim://one")
}

#[test]
fn a_checkpoint_that_was_written_and_not_committed_is_committed_once_by_the_next_start() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().dying_on(written_1)).dead();
    assert!(world.snapshots("one").is_empty() && world.snapshots("two").is_empty());
    let (_, events) = world.run(Setup::two()).well();
    let expected = [(1, "sim://one".to_owned(), false), (1, "sim://two".to_owned(), false)];
    assert_eq!(Ended::finished(&events)[..], expected);
    assert!(events.iter().any(|e| e.to_string().contains("had not landed in sim://one; committed now")));
    world.exact(&Setup::two(), "");
    assert_eq!(world.kinds(), "oddecl");
}

#[test]
fn a_commit_that_landed_before_the_death_is_recognised_and_nothing_is_added() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().dying_on(committed_1_in_two)).dead();
    let (_, events) = world.run(Setup::two()).well();
    assert_eq!(Ended::finished(&events)[..], [(1, "sim://one".to_owned(), true), (1, "sim://two".to_owned(), true)]);
    assert!(events.iter().any(|e| e.to_string().contains("had landed before in sim://one as snapshot 1; recognised")));
    world.exact(&Setup::two(), "");
    let ids: Vec<i64> = world.snapshots("one").iter().map(|s| s.commit_identifier).collect();
    assert_eq!(ids, [1, 2, END_OF_INPUT]);
}

#[test]
fn a_death_between_the_commits_of_two_sinks_lands_the_other_one_only() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().dying_on(committed_1_in_one)).dead();
    assert_eq!((world.snapshots("one").len(), world.snapshots("two").len()), (1, 0));
    let (_, events) = world.run(Setup::two()).well();
    assert_eq!(Ended::finished(&events)[..], [(1, "sim://one".to_owned(), true), (1, "sim://two".to_owned(), false)]);
    world.exact(&Setup::two(), "");
}

#[test]
fn an_end_that_landed_in_one_of_two_sinks_is_closed_before_new_input_begins_a_lineage() {
    for grow in [("a", 40), ("new", 12)] {
        let world = World::new(&[("a", 25)]);
        world.run(Setup::two().dying_on(end_in_one)).dead();
        assert_eq!(world.kinds(), "odde");
        world.grow(grow.0, grow.1);
        let (report, events) = world.run(Setup::two()).well();
        assert!(report.closed);
        assert_eq!(Ended::finished(&events)[..], [(3, "sim://one".to_owned(), true), (3, "sim://two".to_owned(), false)]);
        world.exact(&Setup::two(), "");
        assert!(world.kinds().starts_with("oddeclod"), "{}", world.kinds());
        assert_eq!(world.kinds().matches("cl").count(), 2);
        let users: std::collections::BTreeSet<_> = world.snapshots("two").into_iter().map(|s| s.commit_user).collect();
        assert_eq!(users.len(), 2, "a new lineage has a new commit user");
    }
}

#[test]
fn a_bounded_run_with_nothing_to_read_writes_nothing() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two()).well();
    let before = world.tree();
    assert!(world.run(Setup::two()).well().0.nothing);
    assert_eq!(world.tree(), before);
    let none = World::new(&[("a", 0)]);
    assert!(none.run(Setup::two()).well().0.nothing);
    assert!(none.checkpoints().is_empty());
}

#[test]
fn a_pause_leaves_the_lineage_open_and_the_stop_is_resolved_anew() {
    let setup = Setup::two().paused();
    let world = World::new(&[("a", 25)]);
    world.run(setup.clone()).well();
    assert_eq!(world.kinds(), "oddd");
    world.run(setup.clone()).well();
    assert_eq!(world.kinds(), "oddd", "nothing new, nothing written");
    world.grow("a", 30);
    world.grow("z", 3);
    world.run(setup.clone()).well();
    world.exact(&setup, "");
    let users: std::collections::BTreeSet<_> = world.snapshots("one").into_iter().map(|s| s.commit_user).collect();
    assert_eq!(users.len(), 1);
}

#[test]
fn a_stop_request_lands_what_was_read_and_the_next_run_adds_nothing_twice() {
    for turns in (1..400).step_by(7) {
        let setup = Setup { bounded: false, ..Setup::two() };
        let world = World::new(&[("a", 25), ("b", 9)]);
        let mut process = world.spawn(setup.clone());
        for _ in 0..turns {
            process.turn();
        }
        process.stop.request();
        let (report, _) = process.end().well();
        assert!(!report.closed);
        assert!(!world.kinds().contains('e'), "a stop is not end of input");
        world.run(Setup::two()).well();
        world.exact(&setup, &format!("stopped after {turns} turns"));
    }
}
