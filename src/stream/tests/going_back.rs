//! Rewind and abandon.

use super::rig::*;
use crate::error::Kind;
use crate::format::property;
use crate::stream::{Event, StartOptions};

/// A paused lineage: `open` 0, `data` 1 to 4 of ten rows each.
fn four() -> World {
    let world = World::new(&[("a", 40)]);
    world.run(Setup::two().paused()).well();
    assert_eq!(world.kinds(), "odddd");
    world
}

fn with_again(world: &World, again: std::ops::Range<usize>) -> Vec<i64> {
    let all = world.input(all);
    let mut expected = [&all[..], &all[again]].concat();
    expected.sort_unstable();
    expected
}

#[test]
fn a_rewind_closes_the_old_lineage_in_every_table_and_writes_the_rows_after_it_again() {
    let world = four();
    let old = world.checkpoints()[0].user.to_string();
    let (_, events) = world.run(Setup::two().paused().rewind(2)).well();
    let said = events.iter().find_map(|e| match e {
        Event::GoingBack { text } => Some(text.clone()),
        _ => None,
    });
    let said = said.unwrap();
    assert!(
        said.contains("rewind to checkpoint 2") && said.contains("WRITTEN AGAIN") && said.contains("a from 20 (it stood at 40)"),
        "{said}"
    );
    for table in ["one", "two"] {
        assert_eq!(world.ids(table), with_again(&world, 20..40));
        let closing: Vec<_> = world.snapshots(table).into_iter().filter(|s| s.property(property::CLOSED_AT).is_some()).collect();
        assert_eq!(closing.len(), 1);
        assert_eq!((closing[0].commit_user.as_str(), closing[0].commit_identifier), (old.as_str(), i64::MAX));
        assert_eq!(closing[0].property(property::CLOSED_AT), Some("4"));
        let first = world.snapshots(table).into_iter().find(|s| s.id > closing[0].id).unwrap();
        assert_ne!(first.commit_user, old);
        assert_eq!(first.property(property::PREDECESSOR), Some(old.as_str()));
        assert!(!world.pins(table).contains_key(&old), "a closed lineage has no pin");
        world.sound(table, "");
    }
    world.run(Setup::two().paused()).well();
    assert_eq!(world.ids("one"), with_again(&world, 20..40), "a plain start goes on");
}

#[test]
fn a_rewind_may_be_made_twice() {
    let world = four();
    world.run(Setup::two().paused().rewind(3)).well();
    world.run(Setup::two().paused().rewind(3)).well();
    let mut expected = with_again(&world, 30..40);
    expected.extend(&world.input(all)[30..40]);
    expected.sort_unstable();
    assert_eq!(world.ids("two"), expected);
    world.run(Setup::two()).well();
    assert_eq!(world.ids("two"), expected, "end of input adds none");
    world.run(Setup::two().rewind(4)).well();
    assert_eq!(world.ids("two"), expected, "everything up to 4 stays");
}

#[test]
fn a_death_at_any_write_of_a_rewind_doubles_what_it_must_and_nothing_else() {
    for n in 0.. {
        let mut died = false;
        for after in [false, true] {
            let world = four();
            let first = world.run(Setup::two().paused().rewind(2).dying(n, after));
            died |= first.result.is_none();
            let asked =
                if world.checkpoints().iter().any(|c| c.close.is_some()) { Setup::two().paused() } else { Setup::two().paused().rewind(2) };
            world.run(asked).well();
            for table in ["one", "two"] {
                assert_eq!(world.ids(table), with_again(&world, 20..40), "write {n}, {after}");
                world.sound(table, &format!("write {n}, {after}"));
            }
        }
        if !died {
            assert!(n > 15);
            break;
        }
    }
}

#[test]
fn a_rewind_beside_the_living_owner_fences_it_and_it_lands_nothing_more() {
    let live = Setup::two().paused();
    let mut fenced = 0;
    for seed in 0..150 {
        let world = World::new(&[("a", 60)]);
        let mut old = world.spawn(live.clone());
        old.until(|e| matches!(e, Event::Committed { identifier: 2, sink, .. } if sink == "sim://two"));
        let ended = interleave(vec![old, world.spawn(Setup::two().paused().rewind(1))], seed);
        let [old, new]: [Ended; 2] = ended.try_into().unwrap();
        let user = world.checkpoints()[0].user.to_string();
        fenced += u32::from(old.result.as_ref().is_some_and(|r| r.is_err()));
        match new.result {
            // It may have ended before the rewind came; else it is fenced.
            Some(Ok(_)) => assert!(!matches!(&old.result, Some(Err(e)) if e.kind() != Kind::Fenced), "seed {seed}: {:?}", old.result),
            // The old owner was faster by one checkpoint.
            Some(Err(e)) if e.kind() == Kind::Fenced => {
                assert!(world.checkpoints().iter().all(|c| c.close.is_none()));
                continue;
            }
            other => panic!("seed {seed}: {other:?}"),
        }
        for table in ["one", "two"] {
            let closed = world.snapshots(table).into_iter().find(|s| s.property(property::CLOSED_AT).is_some()).unwrap();
            let at: i64 = closed.property(property::CLOSED_AT).unwrap().parse().unwrap();
            let late = world.snapshots(table).into_iter().any(|s| s.id > closed.id && s.commit_user == user);
            assert!(!late, "seed {seed}: the old lineage landed something after it was closed");
            let landed = usize::try_from(at).unwrap() * 10;
            assert_eq!(world.ids(table), with_again(&world, 10..landed), "seed {seed}");
            world.sound(table, &format!("seed {seed}"));
        }
    }
    assert!(fenced > 20, "{fenced}");
}

#[test]
fn a_rewind_to_a_checkpoint_that_is_not_kept_is_refused_and_writes_nothing() {
    let world = World::new(&[("a", 80)]);
    let setup = Setup { keep: 2, ..Setup::two().paused() };
    world.run(setup.clone()).well();
    let before = world.tree();
    for k in [1, 99] {
        let error = world.run(setup.clone().rewind(k)).error(Kind::Invalid);
        assert!(error.to_string().contains(&format!("checkpoint {k}")), "{error}");
    }
    let after: Vec<_> = world.tree().into_iter().filter(|(k, v)| before.get(k) != Some(v)).map(|(k, _)| k).collect();
    assert!(after.iter().all(|k| k.contains("/consumer/")), "{after:?}");
    assert_eq!(world.ids("one"), world.input(all));
}

fn committed_2_in_one(e: &Event) -> bool {
    matches!(e, Event::Committed { identifier: 2, sink, .. } if sink == "sim://one")
}
fn written_2(e: &Event) -> bool {
    matches!(e, Event::Checkpointed { seq: 2, .. })
}
fn end_in_one(e: &Event) -> bool {
    matches!(e, Event::Committed { identifier: i64::MAX, sink, .. } if sink == "sim://one")
}

/// Takes away a data file that the greatest checkpoint wants to land in a table; its path.
fn lose_a_file(world: &World, table: &str) -> String {
    let greatest = world.checkpoints().pop().unwrap();
    let messages = greatest.sinks[&format!("sim://{table}")].messages.clone().unwrap();
    let path = messages[0].read::<serde_json::Value>().unwrap()["files"][0]["path"].as_str().unwrap().to_owned();
    world.remove(&format!("{table}/{path}"));
    path
}

#[test]
fn a_lost_data_file_stops_and_abandon_lands_its_rows_where_they_were_missing() {
    for (die, n) in [(written_2 as fn(&Event) -> bool, 2), (committed_2_in_one, 2), (end_in_one, 3)] {
        let world = World::new(&[("a", 25)]);
        world.run(Setup::two().dying_on(die)).dead();
        let path = lose_a_file(&world, "two");
        let error = world.run(Setup::two()).error(Kind::Data).to_string();
        assert!(error.contains(&path) && error.contains("--abandon"), "{error}");
        assert_eq!(world.run(Setup::two().abandon(n + 1)).error(Kind::Invalid).kind(), Kind::Invalid);
        world.run(Setup::two().abandon(n)).well();
        world.exact(&Setup::two(), &format!("abandon {n}"));
        assert!(world.run(Setup::two()).well().0.nothing);
    }
}

#[test]
fn a_death_at_any_write_of_an_abandon_leaves_every_row_once() {
    for die in [committed_2_in_one, end_in_one] {
        for n in 0.. {
            let mut died = false;
            for after in [false, true] {
                let world = World::new(&[("a", 25)]);
                world.run(Setup::two().dying_on(die)).dead();
                lose_a_file(&world, "two");
                let seq = world.checkpoints().pop().unwrap().seq;
                died |= world.run(Setup::two().abandon(seq).dying(n, after)).result.is_none();
                let owned = world.checkpoints().iter().any(|c| c.close.is_some());
                world.run(if owned { Setup::two() } else { Setup::two().abandon(seq) }).well();
                world.exact(&Setup::two(), &format!("write {n}, {after}"));
            }
            if !died {
                assert!(n > 10);
                break;
            }
        }
    }
}

#[test]
fn a_rewind_to_a_checkpoint_that_was_abandoned_skips_nothing() {
    let world = World::new(&[("a", 40)]);
    world.run(Setup::two().paused().dying_on(committed_2_in_one)).dead();
    lose_a_file(&world, "two");
    let opened = |e: &Event| matches!(e, Event::LineageClosed { sink, .. } if sink == "sim://two");
    world.run(Setup::two().paused().abandon(2).dying_on(opened)).dead();
    world.run(Setup::two().paused().rewind(2)).well();
    let mut two = world.ids("two");
    two.dedup();
    assert_eq!(two, world.input(all), "rows that the abandoned checkpoint had not landed in this table");
    assert_eq!(world.ids("one"), world.input(all));
}

#[test]
fn a_table_that_is_gone_is_dropped_with_what_was_pending_in_it() {
    for n in 0.. {
        let mut died = false;
        for after in [false, true] {
            let world = World::new(&[("a", 25)]);
            world.run(Setup::two().dying_on(written_2)).dead();
            world.remove_all("two/");
            let error = world.run(Setup::one()).error(Kind::Invalid).to_string();
            assert!(error.contains("--drop-sink sim://two"), "{error}");
            let dropping = Setup::one().asking(StartOptions { drop_sinks: vec!["sim://two".into()], ..StartOptions::default() });
            let error = world.run(dropping.clone()).error(Kind::Data).to_string();
            assert!(error.contains("--abandon 2 --drop-sink sim://two"), "{error}");
            died |= world.run(dropping.clone().abandon(2).dying(n, after)).result.is_none();
            let owned = world.checkpoints().iter().any(|c| c.close.is_some());
            world.run(if owned { Setup::one() } else { dropping.abandon(2) }).well();
            world.exact(&Setup::one(), &format!("write {n}, {after}"));
        }
        if !died {
            break;
        }
    }
}

#[test]
fn what_is_asked_must_fit_the_chain() {
    let empty = World::new(&[("a", 40)]);
    for setup in [Setup::two().rewind(0), Setup::two().abandon(0)] {
        empty.run(setup).error(Kind::Invalid);
        assert!(empty.checkpoints().is_empty());
    }
    let world = four();
    world.run(Setup::two().abandon(3)).error(Kind::Invalid);
    world.run(Setup::two().rewind(1).abandon(4)).error(Kind::Invalid);
    assert_eq!(world.kinds(), "odddd");
}

#[test]
fn a_changed_start_is_refused_unless_the_pipeline_is_rewound() {
    let world = four();
    let changed = Setup { start: "other numbers", ..Setup::two().paused() };
    let before = world.tree();
    let error = world.run(changed.clone()).error(Kind::Invalid).to_string();
    assert!(error.contains("`numbers`") && error.contains("`other numbers`") && error.contains("--rewind"), "{error}");
    world.run(changed.clone().abandon(4)).error(Kind::Invalid);
    assert_eq!(world.tree(), before);
    world.run(changed.clone().rewind(3)).well();
    assert_eq!(world.ids("one"), with_again(&world, 30..40));
    world.run(changed).well();
    world.run(Setup::two()).error(Kind::Invalid);
}
