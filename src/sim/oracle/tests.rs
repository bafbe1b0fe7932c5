//! Sound worlds are found sound wherever they are cut; each thing that is broken by hand is called by its name.

mod delta;
mod rig;

use bytes::Bytes;
use serde_json::{Value, json};

use self::rig::{Setup, World};
use super::Config;
use super::reader::{Cache, Format, Reader, RowColumns};

const MAX: &str = "9223372036854775807";

/// Worlds are cut after every so many effects; the explorer cuts everywhere.
const STEP: usize = 3;

fn seq(n: u64) -> String {
    format!("chain/p/{n:020}.json")
}

#[track_caller]
fn names(world: &World, config: Config, invariant: &str, words: &str) {
    let violation = world.verdict(config).unwrap_err();
    assert!(violation.invariant == invariant && violation.text.contains(words), "{violation}");
}

/// Names of the snapshots of a table, and the users and identifiers.
fn history(world: &World, table: &str) -> Vec<(String, String, i64)> {
    let all = world.objects().into_iter().filter(|(k, _)| k.starts_with(&format!("{table}/snapshot/snapshot-")));
    let facts = |(key, bytes): (String, Bytes)| {
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        (key, json["commitUser"].as_str().unwrap().to_owned(), json["commitIdentifier"].as_i64().unwrap())
    };
    all.map(facts).collect()
}

fn finished() -> World {
    World::default().then(&Setup::one())
}
fn three() -> Setup {
    Setup::one().reading(&[("a", 6)])
}
/// Three snapshots, with rows 0 1, 3 4, 6 7, and the lineage open.
fn open() -> World {
    World::default().then(&three().paused())
}

// ---- sound worlds ----------------------------------------------------------------------------------------------------------------------

/// Each world, and what its last process was told.
fn sound(format: Format) -> Vec<(&'static str, World, Setup)> {
    let two = Setup::two().of(format);
    let dead = Setup { dead: true, ..two.clone() };
    let less = |s: &Setup| s.clone().reading(&[("a", 3), ("b", 1)]);
    let pending = World::default().then(&two.clone().paused()).cut_before(&format!("two/{}", format.snapshot(2)));
    vec![
        ("start", World::default(), two.clone()),
        ("dead letters", World::default(), dead.clone()),
        ("again", World::default().then(&less(&dead)), dead),
        ("going on", World::default().then(&less(&two).paused()), two.clone()),
        ("rewind", World::default().then(&less(&two).paused()), two.clone().rewind(1)),
        ("rewind after the end", World::default().then(&less(&two)), two.clone().rewind(1)),
        ("abandon", pending.clone(), two.clone().abandon(2)),
        ("finish", pending, two.clone()),
        ("retention", World::default(), Setup { keep: 2, ..two.clone() }.reading(&[("a", 14)])),
        ("empty", World::default(), Setup { commit_empty: true, dead: true, ..two.clone() }),
        ("awkward splits", World::default(), two.reading(&[("eight by/te=s%:", 3), ("é 7", 2)])),
    ]
}

#[test]
fn what_the_production_code_does_is_sound_wherever_it_was_cut() {
    sound_wherever_it_was_cut(Format::Paimon);
}

#[test]
fn what_the_production_code_does_with_a_delta_table_is_sound_wherever_it_was_cut() {
    sound_wherever_it_was_cut(Format::Delta);
}

fn sound_wherever_it_was_cut(format: Format) {
    for (name, before, setup) in sound(format) {
        let (begun, config, cache) = (before.effects.len(), setup.config(), Cache::default());
        let whole = before.then(&setup);
        let summary = whole.verdict_with(config.clone(), &cache).unwrap_or_else(|v| panic!("{name}: {v}"));
        assert!(summary.rows.values().all(|n| *n > 0), "{name}: {summary:?}");
        assert_eq!(summary.doubled.values().sum::<usize>() > 0, name.starts_with("rewind"), "{name}: {summary:?}");
        // Whoever comes after has nothing to ask for.
        let plain = Setup { options: Default::default(), ..setup };
        for n in (begun..whole.effects.len()).step_by(STEP) {
            let mut cut = whole.cut(n);
            let done = cut.run(&plain);
            assert!(done.is_ok(), "{name}, {n}: {done:?}");
            let verdict = cut.verdict_with(config.clone(), &cache);
            assert!(verdict.is_ok(), "{name}, cut after {n}, {:?}: {}", whole.effects[n].key, verdict.unwrap_err());
        }
    }
}

#[test]
fn the_reader_finds_every_row_of_every_partition() {
    let setup = Setup::two().reading(&[("eight by/te=s%:", 3), ("é 7", 2)]);
    let objects = World::default().then(&setup).objects();
    let reader = Reader::new("two", Format::Paimon, Cache::default());
    let view = reader.table(&objects).unwrap();
    let newest = view.snapshots.values().last().unwrap();
    let paths: Vec<&String> = newest.live.keys().collect();
    assert!(paths.iter().any(|p| p.starts_with("part=-1/split=eight by%2Fte%3Ds%25%3A/bucket-0/")), "{paths:?}");
    let mut rows = Vec::new();
    for file in newest.live.values() {
        rows.extend(reader.rows(file, RowColumns::SplitOff, &objects).unwrap().iter().cloned());
    }
    rows.sort();
    let mut expected = setup.config().tables[1].rows.clone();
    expected.sort();
    assert_eq!(rows, expected);
    assert_eq!(newest.records.map(|r| r[0]), Some(5));
}

#[test]
fn a_snapshot_in_an_expired_slot_is_nobodys_and_may_go() {
    let (mut world, setup) = (open(), three());
    let old = world.objects()["one/snapshot/snapshot-1"].clone();
    world.expire("one/snapshot/snapshot-1");
    world.change("one/snapshot/snapshot-1", Some(old));
    let mut world = world.then(&setup);
    assert_eq!(world.verdict(setup.config()).unwrap().fallen, 1);
    world.change("one/snapshot/snapshot-1", None);
    world.verdict(setup.config()).unwrap();
}

#[test]
fn a_checkpoint_in_an_emptied_slot_is_nobodys() {
    let setup = Setup { keep: 2, ..Setup::one() }.reading(&[("a", 14)]);
    let mut world = World::default().then(&setup);
    assert!(!world.objects().contains_key(&seq(0)));
    let old = world.effects[world.find(&seq(0))].after.clone();
    world.change(&seq(0), old);
    world.verdict(setup.config()).unwrap();
    world.change(&seq(0), None);
    world.verdict(setup.config()).unwrap();
}

#[test]
fn a_lineage_that_ended_and_was_expired_may_be_closed() {
    let (mut world, setup) = (finished(), Setup::one().rewind(1));
    world.foreign_commit("one", 1);
    world.foreign_commit("one", 2);
    let all = history(&world, "one");
    all[..all.len() - 1].iter().for_each(|(key, _, _)| world.expire(key));
    let world = world.then(&setup);
    assert!(world.verdict(setup.config()).unwrap().doubled["one/"] > 0);
}

#[test]
fn an_empty_snapshot_with_nothing_below_may_go_as_if_expired_and_no_other_may() {
    let setup = three().rewind(1);
    let mut world = open().then(&setup);
    (1..=3).for_each(|id| world.expire(&format!("one/snapshot/snapshot-{id}")));
    let mut other = world.clone();
    world.change("one/snapshot/snapshot-4", None);
    world.verdict(setup.config()).unwrap();
    other.change("one/snapshot/snapshot-5", None);
    names(&other, setup.config(), "I1", "was deleted");
}

// ---- broken by hand --------------------------------------------------------------------------------------------------------------------

#[test]
fn i1_a_changed_snapshot_a_hole_a_deletion_and_another_base_are_named() {
    let world = open();
    let config = three().config();
    let third = world.objects()["one/snapshot/snapshot-3"].clone();
    let with = |key: &str, bytes: Option<Bytes>| {
        let mut world = world.clone();
        world.change(key, bytes);
        world
    };
    names(&with("one/snapshot/snapshot-2", Some(third.clone())), config.clone(), "I1", "was changed");
    names(&with("one/snapshot/snapshot-5", Some(third)), config.clone(), "I1", "where 4 is the next");
    names(&with("one/snapshot/snapshot-3", None), config.clone(), "I1", "was deleted");
    let mut other = world.clone();
    let first: Value = serde_json::from_slice(&world.objects()["one/snapshot/snapshot-1"]).unwrap();
    other.edit("one/snapshot/snapshot-2", |s| {
        s["baseManifestList"] = first["baseManifestList"].clone();
        s["baseManifestListSize"] = first["baseManifestListSize"].clone();
    });
    names(&other, config, "I1", "not built on 1");
}

#[test]
fn i2_an_identifier_a_file_and_a_row_that_come_twice_are_named() {
    let config = three().config();
    let first: Value = serde_json::from_slice(&open().objects()["one/snapshot/snapshot-1"]).unwrap();
    let mut identifier = open();
    identifier.edit("one/snapshot/snapshot-2", |s| {
        s["commitIdentifier"] = json!(1);
        s["properties"] = first["properties"].clone();
    });
    names(&identifier, config.clone(), "I2", "and so was 1");
    let mut file = open();
    file.edit("one/snapshot/snapshot-2", |s| {
        s["deltaManifestList"] = first["deltaManifestList"].clone();
        s["deltaManifestListSize"] = first["deltaManifestListSize"].clone();
    });
    names(&file, config.clone(), "I2", "added twice");
    let mut row = open();
    let files: Vec<usize> = (0..row.effects.len()).filter(|i| row.effects[*i].key.ends_with(".parquet")).collect();
    row.effects[files[1]].after = row.effects[files[0]].after.clone();
    names(&row, config, "I2", "visible again");
}

#[test]
fn i2_files_that_its_checkpoint_does_not_have_are_named() {
    let mut world = open();
    let second = world.find(&seq(2));
    let mut json: Value = serde_json::from_slice(world.effects[second].after.as_ref().unwrap()).unwrap();
    json["sinks"]["sim://one"]["messages"][0]["files"] = json!([]);
    let bytes = Bytes::from(serde_json::to_vec(&json).unwrap());
    let digest = super::chain::digest(&bytes);
    world.effects[second].after = Some(bytes);
    world.edit("one/snapshot/snapshot-2", |s| s["properties"]["lakeward.checkpoint"] = json!(digest));
    names(&world, three().config(), "I2", "exactly the files of checkpoint 2");
}

#[test]
fn i3_a_changed_checkpoint_a_torn_chain_and_bad_retention_are_named() {
    let (world, config) = (open(), three().config());
    let bytes = world.objects()[&seq(1)].clone();
    let with = |key: String, bytes: Option<Bytes>| {
        let mut world = world.clone();
        world.change(&key, bytes);
        world
    };
    names(&with(seq(2), Some(bytes.clone())), config.clone(), "I3", "was changed");
    names(&with(seq(9), Some(bytes.clone())), config.clone(), "I3", "never was");
    names(&with(seq(4), Some(bytes)), config.clone(), "I3", "lacks something");
    names(&with(seq(3), None), config.clone(), "I3", "the greatest");
    names(&with(seq(1), None), config.clone(), "I3", "0 is still there");
    names(&with(seq(0), None), config.clone(), "I3", "only 3 with messages");
    let mut torn = world.clone();
    torn.edit(&seq(2), |c| c["parent"]["sha256"] = json!("00"));
    names(&torn, config, "I3", "its parent");
}

#[test]
fn i4_a_snapshot_without_its_checkpoint_and_a_checkpoint_before_its_time_are_named() {
    let config = three().config();
    let mut early = open();
    let snapshot = early.find("one/snapshot/snapshot-2");
    early.effects.remove(snapshot);
    names(&early, config.clone(), "I4", "2 is not visible in one/");
    let mut unknown = open();
    unknown.edit("one/snapshot/snapshot-2", |s| s["properties"]["lakeward.checkpoint"] = json!("00"));
    names(&unknown, config.clone(), "I4", "never was in the chain");
    let mut late = open();
    let checkpoint = late.find(&seq(3));
    let moved = late.effects.remove(checkpoint);
    late.effects.push(moved);
    names(&late, config, "I4", "never was in the chain");
}

#[test]
fn i6_deleting_or_replacing_what_is_named_is_named() {
    let (world, config) = (open(), three().config());
    let snapshot: Value = serde_json::from_slice(&world.objects()["one/snapshot/snapshot-2"]).unwrap();
    let list = format!("one/manifest/{}", snapshot["deltaManifestList"].as_str().unwrap());
    let file = world.keys().into_iter().rfind(|k| k.ends_with(".parquet")).unwrap().to_owned();
    for key in [&list, &file] {
        for bytes in [None, Some(Bytes::from("other"))] {
            let mut world = world.clone();
            world.change(key, bytes);
            names(&world, config.clone(), "I6", "names it");
        }
    }
    let mut pending = world.cut_before("one/snapshot/snapshot-3");
    pending.change(&file, None);
    names(&pending, config.clone(), "I6", "checkpoint 3 names it");
    let mut orphan = world.clone();
    orphan.change("one/bucket-0/data-1.parquet", Some(Bytes::from("x")));
    orphan.change("one/bucket-0/data-1.parquet", None);
    orphan.verdict(config).unwrap();
}

#[test]
fn i7_ranges_that_do_not_join_or_hold_other_rows_are_named() {
    let config = three().config();
    let ranged = |text: &str| {
        let mut world = open();
        world.edit("one/snapshot/snapshot-2", |s| s["properties"]["lakeward.offsets"] = json!(text));
        world
    };
    names(&ranged(r#"{"a":[1,5]}"#), config.clone(), "I7", "goes on at 1 of a, not at 2");
    names(&ranged(r#"{"a":[3,5]}"#), config.clone(), "I7", "not at 2");
    names(&ranged(r#"{"a":[2,4]}"#), config.clone(), "I7", "stands at 5");
    names(&ranged(r#"{}"#), config.clone(), "I7", "2 rows where the input has 0");
    let mut more = config.clone();
    more.tables[0].rows.push(("a".into(), 2));
    names(&open(), more, "I7", "it lacks [(\"a\", 2)]");
    let mut less = config;
    less.tables[0].rows.retain(|(_, o)| *o != 4);
    names(&open(), less, "I7", "has besides [(\"a\", 4)]");
}

#[test]
fn i7_a_split_that_goes_back_and_a_record_that_is_passed_over_without_a_row_are_named() {
    let mut back = open();
    back.edit(&seq(3), |c| c["offsets"]["a"]["offset"] = json!(4));
    names(&back, three().config(), "I7", "stands at 4 of a, and the one before at 5");
    let mut over = open();
    over.edit(&seq(3), |c| c["sinks"]["sim://one"].as_object_mut().unwrap().retain(|key, _| key != "messages" && key != "covered"));
    names(&over, three().config(), "I7", "passes over (\"a\", 6)");
}

#[test]
fn i7_lineages_that_overlap_or_leave_a_gap_or_go_on_after_their_close_are_named() {
    let setup = three();
    let more = Setup::one().reading(&[("a", 8)]);
    let again = World::default().then(&setup).then(&more);
    again.verdict(more.config()).unwrap();
    let all = history(&again, "one");
    let next = all.iter().position(|(_, user, _)| *user != all[0].1).unwrap();
    let with = |from: u64| {
        let mut world = again.clone();
        world.edit(&all[next].0, |s| s["properties"]["lakeward.offsets"] = json!(format!(r#"{{"a":[{from},11]}}"#)));
        world
    };
    names(&with(7), more.config(), "I7", "which had landed up to 8");
    names(&with(10), more.config(), "I7", "left out");
    let mut orphan = again.clone();
    orphan.edit(&all[next].0, |s| drop(s["properties"].as_object_mut().unwrap().remove("lakeward.predecessor")));
    names(&orphan, more.config(), "I7", "predecessor None");
    let mut after = again.clone();
    after.edit(&all[next].0, |s| s["commitUser"] = json!(all[0].1));
    names(&after, more.config(), "I7", "whose lineage ended");
}

#[test]
fn i8_a_user_of_two_lineages_is_named() {
    let more = Setup::one().reading(&[("a", 8)]);
    let again = World::default().then(&three()).then(&more);
    let all = history(&again, "one");
    let opens = |(key, bytes): &(&String, &Bytes)| {
        let kind = || serde_json::from_slice::<Value>(bytes).unwrap()["kind"].clone();
        key.starts_with("chain/p/") && **key > seq(0) && kind() == "open"
    };
    let second = again.objects().iter().find(opens).unwrap().0.clone();
    let mut shared = again.clone();
    shared.edit(&second, |c| c["user"] = json!(all[0].1));
    names(&shared, more.config(), "I8", "was made by 0");
    let registration = again.keys().into_iter().rfind(|k| k.starts_with("one/_lakeward/")).unwrap().to_owned();
    let mut registered = again.clone();
    registered.edit(&registration, |r| r["user"] = json!(all[0].1));
    names(&registered, more.config(), "I8", "which was opened at Some(0)");
    let mut stranger = open();
    stranger.edit("one/snapshot/snapshot-2", |s| s["commitUser"] = json!("p-somebody"));
    names(&stranger, three().config(), "I8", "which no `open` made");
}

#[test]
fn i9_an_empty_snapshot_is_named_unless_it_was_asked_for() {
    let setup = Setup { commit_empty: true, dead: true, ..three() };
    let world = World::default().then(&setup);
    world.verdict(setup.config()).unwrap();
    names(&world, Config { commit_empty: false, ..setup.config() }, "I9", "is empty");
}

#[test]
fn i10_a_pin_that_is_too_high_or_missing_is_named() {
    let (world, config) = (open(), three().config());
    let pin = world.keys().into_iter().find(|k| k.contains("/consumer/")).unwrap().to_owned();
    let pinned = |at: u64| {
        let mut world = world.clone();
        world.change(&pin, Some(Bytes::from(format!(r#"{{"nextSnapshot":{at}}}"#))));
        world
    };
    pinned(3).verdict(config.clone()).unwrap();
    names(&pinned(4), config.clone(), "I10", "the bound is 3");
    let mut removed = world.clone();
    removed.change(&pin, None);
    names(&removed, config.clone(), "I10", "its lineage is open");
    let mut never = world.clone();
    never.effects.retain(|e| e.key != pin);
    names(&never, config.clone(), "I10", "nothing pins");
    let mut foreign = world.cut_before("one/snapshot/snapshot-2");
    foreign.change_by(super::Effect::OUTSIDE, &pin, None);
    foreign.then(&three()).verdict(config).unwrap();
}

#[test]
fn i10_a_floor_that_lies_or_was_read_before_the_pin_is_named() {
    let mut lies = open();
    lies.edit(&seq(2), |c| c["sinks"]["sim://one"]["last"] = json!(7));
    names(&lies, three().config(), "I10", "not Some(7)");
    let mut bytes = open();
    bytes.edit(&seq(2), |c| c["sinks"]["sim://one"]["floor"]["sha256"] = json!("00"));
    names(&bytes, three().config(), "I10", "never had these bytes");
    // The second lineage has read its floor and not pinned it; then it expires.
    let more = Setup::one().reading(&[("a", 8)]);
    let whole = finished().then(&more);
    let pin = whole.effects.iter().rposition(|e| e.key.contains("/consumer/") && e.before.is_none()).unwrap();
    let mut world = whole.cut(pin);
    let newest = history(&world, "one").pop().unwrap().0;
    world.foreign_commit("one", 1);
    world.expire(&newest);
    world.effects.extend(whole.effects[pin..].iter().cloned());
    let config = Setup::one().reading(&[("a", 8), ("b", 3)]).config();
    names(&world, config, "I10", "read before the pin");
}

#[test]
fn i11_a_lineage_that_was_not_closed_and_a_close_that_lies_are_named() {
    let setup = three().rewind(1);
    let world = open().then(&setup);
    world.verdict(setup.config()).unwrap();
    let all = history(&world, "one");
    let close = &all.iter().find(|(_, user, identifier)| *user == all[0].1 && identifier.to_string() == MAX).unwrap().0;
    let mut unclosed = world.clone();
    let pin = format!("one/consumer/consumer-{}", all[0].1);
    unclosed.effects.retain(|e| e.key != *close && (e.key != pin || e.after.is_some()));
    names(&unclosed, setup.config(), "I11", "is not closed in one/");
    let mut lies = world.clone();
    lies.edit(close, |s| s["properties"]["lakeward.closed-at"] = json!("2"));
    names(&lies, setup.config(), "I11", "it had landed 3");
    let mut unasked = world.clone();
    unasked.edit(&all[1].0, |s| s["properties"]["lakeward.closed-at"] = json!("1"));
    names(&unasked, setup.config(), "I11", "does not order");
}

#[test]
fn i12_what_is_named_and_missing_or_of_another_size_is_named() {
    let config = three().config();
    let without = |part: &str| {
        let mut world = open();
        let at = world.effects.iter().position(|e| e.key.contains(part)).unwrap();
        world.effects.remove(at);
        world
    };
    names(&without(".parquet"), config.clone(), "I12", "is not there");
    names(&without("one/manifest/manifest-list-"), config.clone(), "I12", "is not there");
    names(&without("one/schema/"), config.clone(), "I12", "is not there");
    let mut longer = open();
    let at = longer.effects.iter().position(|e| e.key.ends_with(".parquet")).unwrap();
    longer.effects[at].after = Some(Bytes::from("cut"));
    names(&longer, config.clone(), "I12", "has 3 bytes");
    let mut counts = open();
    counts.edit("one/snapshot/snapshot-2", |s| s["totalRecordCount"] = json!(7));
    names(&counts, config, "I12", "record counts");
}

#[test]
fn rows_that_are_missing_at_the_end_or_in_nobodys_input_are_named() {
    names(&open().cut_before("one/snapshot/snapshot-3"), three().config(), "rows", "there 0 times");
    let mut more = three().config();
    more.tables[0].rows.push(("z".into(), 1));
    names(&open(), more, "rows", "(\"z\", 1) is there 0 times");
}
