//! What may change in a pipeline between runs; retention; the hourly tick; empty commits.

use std::time::Duration;

use super::rig::*;
use crate::error::Kind;
use crate::sink::Resolution;
use crate::stream::coordinator::Triggers;
use crate::stream::{Event, StartOptions};

fn three() -> Setup {
    Setup::of(&[("one", all), ("two", all), ("new", all)])
}
fn backfill() -> StartOptions {
    StartOptions { backfill: true, ..StartOptions::default() }
}
fn dropping(url: &str) -> StartOptions {
    StartOptions { drop_sinks: vec![url.into()], ..StartOptions::default() }
}

#[test]
fn a_new_sink_joins_at_the_present_offsets() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().paused()).well();
    world.grow("a", 40);
    world.grow("b", 5);
    world.run(three().paused()).well();
    world.exact(&Setup::two(), "");
    assert_eq!(world.ids("new"), world.input(all).into_iter().filter(|id| !(9_700_000..9_700_025).contains(id)).collect::<Vec<_>>());
    world.run(three()).well();
    world.exact(&Setup::two(), "");
}

#[test]
fn a_new_sink_with_backfill_gets_everything_once_whatever_dies() {
    // In an open lineage, between lineages with new input, and between lineages without.
    for (finished, more) in [(false, false), (false, true), (true, true), (true, false)] {
        for n in 0.. {
            let mut died = false;
            for after in [false, true] {
                let world = World::new(&[("a", 17), ("b", 12)]);
                world.run(if finished { Setup::two() } else { Setup::two().paused() }).well();
                if more {
                    world.grow("b", 15);
                    world.grow("c", 6);
                }
                died |= world.run(three().asking(backfill()).dying(n, after)).result.is_none();
                // Until the new sink is recorded, it has to be asked for again.
                let recorded = world.checkpoints().iter().any(|c| c.sinks.contains_key("sim://new"));
                world.run(if recorded { three() } else { three().asking(backfill()) }).well();
                world.exact(&three(), &format!("finished {finished}, more {more}, write {n}, {after}"));
            }
            if !died {
                assert!(n > 10, "{n}");
                break;
            }
        }
    }
}

#[test]
fn a_missing_sink_is_refused_and_drop_sink_lets_it_go() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().paused()).well();
    let before = world.kinds();
    world.grow("a", 40);
    let error = world.run(Setup::one()).error(Kind::Invalid).to_string();
    assert!(error.contains("sim://two") && error.contains("--drop-sink"), "{error}");
    assert_eq!(world.kinds(), before);
    world.run(Setup::one().paused().asking(dropping("sim://two"))).well();
    assert_eq!(world.ids("one"), world.input(all));
    assert_eq!(world.ids("two").len(), 25);
    assert!(world.pins("two").is_empty(), "what is dropped is not kept from expiring");
    world.run(Setup::one()).well();
}

#[test]
fn dropping_a_sink_lands_what_is_pending_in_it_first() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().dying_on(|e| matches!(e, Event::Checkpointed { seq: 2, .. }))).dead();
    world.run(Setup::one().asking(dropping("sim://two"))).well();
    assert_eq!(world.ids("two").len(), 20, "checkpoint 2 said that they are in the table");
    assert_eq!(world.ids("one"), world.input(all));
}

#[test]
fn a_sink_that_was_dropped_may_come_back_in_the_same_lineage() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().paused()).well();
    world.run(Setup::one().paused().asking(dropping("sim://two"))).well();
    world.grow("a", 40);
    world.run(Setup::two().paused()).well();
    world.grow("a", 45);
    world.run(Setup::two()).well();
    world.exact(&Setup::two(), "nothing came while it was away");
}

#[test]
fn what_is_asked_for_by_name_must_be_there() {
    let world = World::new(&[("a", 25)]);
    world.run(Setup::two().paused()).well();
    let before = world.tree();
    world.run(Setup::two().asking(dropping("sim://tow"))).error(Kind::Invalid);
    world.run(Setup::two().asking(dropping("sim://two"))).error(Kind::Invalid);
    let resolve = [("sim://tow".to_owned(), Resolution::Lost)].into();
    world.run(Setup::two().asking(StartOptions { resolve, ..StartOptions::default() })).error(Kind::Invalid);
    assert_eq!(world.tree(), before);
    let twice = Setup::of(&[("one", all), ("one", all)]);
    world.run(twice).error(Kind::Invalid);
}

#[test]
fn retention_deletes_upwards_and_keeps_the_greatest_and_those_with_messages() {
    let world = World::new(&[("a", 95)]);
    let setup = Setup { keep: 3, ..Setup::two().paused() };
    let ended = world.run(setup.clone());
    let deleted: Vec<u64> =
        ended.log.iter().filter_map(|l| l.strip_prefix("delete chain/p/")?.strip_suffix(".json")?.parse().ok()).collect();
    assert!(deleted.is_sorted() && deleted == (0..deleted.len() as u64).collect::<Vec<_>>(), "{deleted:?}");
    ended.well();
    let left = world.checkpoints();
    assert_eq!(left.iter().filter(|c| c.has_messages()).count(), 3);
    world.run(Setup { keep: 1, ..setup.clone() }.rewind(9)).well();
    let left = world.checkpoints();
    assert!(left.iter().filter(|c| c.has_messages()).count() >= 2, "never fewer than two");
    world.run(Setup { keep: 0, ..Setup::two() }).well();
    assert_eq!(world.checkpoints().pop().unwrap().kind.as_str(), "closed");
}

/// An unbounded run that goes on until `stop` says so, then is asked to stop.
fn run_until(world: &World, setup: Setup, stop: impl Fn(&World) -> bool) {
    let mut process = world.spawn(Setup { bounded: false, ..setup });
    for _ in 0..200_000 {
        if stop(world) {
            break;
        }
        for _ in 0..50 {
            assert!(!process.turn(), "{:?}", process.events());
        }
    }
    process.stop.request();
    process.end().well();
}

fn hours(world: &World) -> u64 {
    world.env().monotonic().as_secs() / 3600
}

#[test]
fn an_idle_stream_makes_no_snapshot_and_one_checkpoint_an_hour_with_a_newer_floor_and_pin() {
    let world = World::new(&[("a", 10)]);
    let every = Triggers { every: Some(Duration::from_secs(10)), ..Triggers::default() };
    let setup = Setup { triggers: every, ..Setup::of(&[("one", all), ("two", |_| false)]) };
    let foreign = std::cell::Cell::new(0);
    run_until(&world, setup.clone(), |w| {
        if hours(w) > foreign.get() && w.checkpoints().len() > 1 {
            foreign.set(hours(w));
            w.foreign_commit("two", i64::try_from(foreign.get()).unwrap());
        }
        hours(w) >= 5
    });
    let checkpoints = world.checkpoints();
    assert_eq!(world.snapshots("one").len(), 1, "an idle stream makes no snapshots");
    assert!((6..=7).contains(&checkpoints.len()), "{}", world.kinds());
    let floors: Vec<u64> = checkpoints.iter().map(|c| c.sinks["sim://two"].floor.id).collect();
    assert!(floors.is_sorted() && *floors.last().unwrap() >= 3, "a quiet sink's floor follows the head: {floors:?}");
    assert_eq!(world.pins("two").values().max(), floors.last(), "and so does its pin");
    assert!(checkpoints[2..].iter().all(|c| !c.has_messages()));
}

#[test]
fn a_floor_from_the_future_is_read_again() {
    let world = World::new(&[("a", 10)]);
    world.set_clock_wrong_by(400 * 24 * 3_600_000);
    world.run(Setup::of(&[("one", all), ("two", |_| false)]).paused()).well();
    world.set_clock_wrong_by(0);
    world.foreign_commit("two", 1);
    world.grow("a", 20);
    world.run(Setup::of(&[("one", all), ("two", |_| false)]).paused()).well();
    assert_eq!(world.checkpoints().pop().unwrap().sinks["sim://two"].floor.id, 1);
}

#[test]
fn commit_empty_makes_a_snapshot_in_every_interval() {
    let world = World::new(&[("a", 10)]);
    let every = Triggers { every: Some(Duration::from_secs(60)), ..Triggers::default() };
    let setup = Setup { triggers: every, commit_empty: true, ..Setup::of(&[("one", all), ("two", |_| false)]) };
    run_until(&world, setup, |w| w.env().monotonic() > Duration::from_secs(650));
    let (one, two) = (world.snapshots("one"), world.snapshots("two"));
    assert!(one.len() >= 10 && one.len() == two.len(), "{} {}", one.len(), two.len());
    assert!(two.iter().all(|s| s.delta_record_count == 0));
}

#[test]
fn a_pipeline_that_ran_for_ever_is_drained_by_another_stop_and_goes_on_by_the_first() {
    let ever = Setup { until: "never", ..Setup::one() };
    let drain = Setup { until: "end", ..Setup::one().paused() };
    let world = World::new(&[("a", 25)]);
    run_until(&world, ever.clone(), |w| w.kinds().matches('d').count() == 2);
    world.grow("a", 40);
    world.run(drain.clone()).well();
    let stop = world.checkpoints().last().unwrap().stop.clone();
    assert_eq!(stop.map(|s| s.offset("a")), Some(40), "the end is the one at this start");
    world.exact(&drain, "drained");
    world.grow("a", 55);
    run_until(&world, ever, |w| w.ids("one").len() == 50);
    assert_eq!(world.checkpoints().last().unwrap().stop, None, "it goes on for ever again");
    world.run(drain.clone()).well();
    world.exact(&drain, "drained again");
}

#[test]
fn a_stop_that_is_not_reached_holds_while_the_pipeline_says_the_same() {
    let setup = Setup { until: "end", ..Setup::one() };
    let world = World::new(&[("a", 25)]);
    world.run(setup.clone().dying_on(|e| matches!(e, Event::Committed { identifier: 1, .. }))).dead();
    world.grow("a", 40);
    world.run(setup.clone().paused()).well();
    assert_eq!(world.ids("one").len(), 25, "what came after the start is not read by a run that goes on");
    world.run(setup.clone()).well();
    world.exact(&setup, "the next one reads it");
}
