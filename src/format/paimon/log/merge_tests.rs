use apache_avro::Codec;

use super::super::manifest::{EntryKind, FileMeta, ManifestEntry, encode_manifest};
use super::super::options::Merging;
use super::super::row;
use super::super::stats::RawStats;
use super::merge::{Plan, describe, plan};
use super::tests::{again, append, commit, file, head, one, publish_staged, put, remove, store, user};
use super::*;
use crate::format::Work;
use crate::schema::{DataType, Field, Scalar};

type Size = fn(u64) -> u64;

const DEFAULT: Merging = Merging { target: 8 << 20, min_count: 30, full_threshold: 16 << 20 };

fn line(name: impl Into<String>, size: u64, added: i64, deleted: i64) -> ManifestMeta {
    ManifestMeta {
        name: name.into(),
        size: size.cast_signed(),
        added,
        deleted,
        partition_stats: RawStats::empty(),
        schema_id: 0,
        buckets: Some((0, 0)),
        levels: Some((0, 0)),
        row_ids: None,
    }
}

/// What so many commits cost, each with a manifest of `size(n)` bytes: the longest list, the bytes of the biggest merge, the bytes of all.
fn live(commits: u64, size: impl Fn(u64) -> u64, rules: &Merging) -> (usize, u64, u64) {
    let (mut list, mut longest, mut biggest, mut all) = (Vec::new(), 0, 0, 0);
    for n in 0..commits {
        if let Plan::Group(range) = plan(&list, rules, &BTreeSet::new()) {
            assert!(range.len() > 1, "{range:?}");
            let bytes: u64 = list[range.clone()].iter().map(|m: &ManifestMeta| m.size.cast_unsigned()).sum();
            (biggest, all) = (biggest.max(bytes), all + bytes);
            let count = list[range.clone()].iter().map(|m| m.added).sum();
            list.splice(range, [line("m", bytes, count, 0)]);
        }
        longest = longest.max(list.iter().filter(|m| m.size.cast_unsigned() < rules.target / 2).count());
        list.push(line("d", size(n), 1, 0));
    }
    assert_eq!(list.iter().map(|m| m.added).sum::<i64>(), commits.cast_signed(), "nothing was lost");
    (longest, biggest, all)
}

#[test]
fn the_list_stays_short_and_no_entry_is_rewritten_often_whatever_the_sizes() {
    let sizes: [(&str, Size); 6] = [
        ("small", |_| 2 << 10),
        ("of every size", |n| 1 << (10 + n * 7919 % 9)),
        ("now and then a big one", |n| if n % 17 == 0 { 300 << 10 } else { 2 << 10 }),
        ("one of two is big", |n| if n % 2 == 0 { 500 << 10 } else { 2 << 10 }),
        ("growing", |n| (2 << 10) + n * 40),
        ("now and then one beyond the target", |n| if n % 41 == 0 { 9 << 20 } else { 2 << 10 }),
    ];
    for (name, size) in sizes {
        let commits = 20_000;
        let (longest, biggest, all) = live(commits, size, &DEFAULT);
        let written: u64 = (0..commits).map(size).sum();
        println!("{name}: at most {longest} small ones, biggest merge {} KiB, {:.1} times", biggest >> 10, all as f64 / written as f64);
        let stretches = if name.ends_with("target") { 20_000 / 41 + 1 } else { 1 };
        assert!(longest <= 150 * stretches, "{name}: {longest}");
        assert!(biggest <= DEFAULT.target / 8 * 9, "{name}: {biggest}");
        assert!(all <= written * 6, "{name}: {all} of {written}");
    }
    for min_count in [1, 2, 3, 10] {
        let (longest, ..) = live(3000, |_| 2 << 10, &Merging { min_count, ..DEFAULT });
        assert!(longest <= 8 * min_count.max(2), "{min_count}: {longest}");
    }
}

#[test]
fn fewer_than_the_minimum_are_left_alone_and_a_medium_one_is_not_dragged_along() {
    let none = BTreeSet::new();
    let small = |n: usize| (0..n).map(|i| line(format!("m{i}"), 2 << 10, 1, 0)).collect::<Vec<_>>();
    assert_eq!(plan(&small(29), &DEFAULT, &none), Plan::Nothing);
    assert_eq!(plan(&small(30), &DEFAULT, &none), Plan::Group(0..30));
    let mut list = vec![line("medium", 3 << 20, 1000, 0)];
    list.extend(small(29));
    assert_eq!(plan(&list, &DEFAULT, &none), Plan::Nothing, "thirty, but the medium one would be rewritten for its own sake");
    list.extend(small(1));
    assert_eq!(plan(&list, &DEFAULT, &none), Plan::Group(1..31));
    list[0].size = 5 << 20;
    list[1].size = 5 << 20;
    assert_eq!(plan(&list, &DEFAULT, &none), Plan::Nothing, "two that are big enough, and twenty-nine");
    list.extend(small(9971));
    assert_eq!(plan(&list, &DEFAULT, &none), Plan::Group(2..122), "a list that nobody merged: step by step");
    let barred = BTreeSet::from(["m15".to_owned()]);
    assert_eq!(plan(&small(31), &DEFAULT, &barred), Plan::Nothing, "one that cannot be rewritten parts its neighbours");
}

#[test]
fn the_whole_list_is_gone_through_only_when_removals_have_piled_up() {
    let none = BTreeSet::new();
    let mut list = vec![line("old", 9 << 20, 1000, 0), line("gone", 7 << 20, 0, 900), line("new", 4 << 20, 500, 0)];
    assert_eq!(plan(&list, &DEFAULT, &none), Plan::Nothing);
    list.push(line("more", 9 << 20, 0, 900));
    assert_eq!(plan(&list, &DEFAULT, &none), Plan::Whole);
    assert_eq!(plan(&list, &DEFAULT, &BTreeSet::from(["more".to_owned()])), Plan::Nothing, "not again when it did not work");
    list.iter_mut().for_each(|m| m.deleted = 0);
    assert_eq!(plan(&list, &DEFAULT, &none), Plan::Nothing);
}

#[test]
fn a_line_tells_the_true_bounds_of_its_entries() {
    let types = [DataType::Int];
    let entry = |part: Option<i64>, bucket, level, schema_id, first_row_id, kind| {
        let value = part.map(Scalar::Int);
        let partition = row::encode([(&types[0], value.as_ref())]).unwrap();
        let file = FileMeta { name: format!("{part:?}"), level, schema_id, first_row_id, rows: 10, ..FileMeta::default() };
        ManifestEntry { kind, partition, bucket, total_buckets: 4, file }
    };
    let mut entries = vec![
        entry(Some(5), 2, 0, 3, Some(100), EntryKind::Add),
        entry(None, 1, 5, 7, Some(20), EntryKind::Delete),
        entry(Some(-4), 3, 1, 1, Some(0), EntryKind::Add),
    ];
    let meta = describe("m".into(), 99, &entries, &types).unwrap();
    assert_eq!((meta.size, meta.added, meta.deleted, meta.schema_id), (99, 2, 1, 7));
    assert_eq!((meta.buckets, meta.levels, meta.row_ids), (Some((1, 3)), Some((0, 5)), Some((0, 109))));
    assert_eq!(row::decode(&meta.partition_stats.min, &types).unwrap(), [Some(Scalar::Int(-4))]);
    assert_eq!(row::decode(&meta.partition_stats.max, &types).unwrap(), [Some(Scalar::Int(5))]);
    assert_eq!(meta.partition_stats.nulls, [Some(1)]);
    entries[1].file.first_row_id = None;
    assert_eq!(describe("m".into(), 99, &entries, &types).unwrap().row_ids, None, "one file without: nothing can be said");
}

async fn merging(options: &[(&str, &str)]) -> PaimonLog {
    let columns = Schema { id: 0, fields: vec![Field::parse(0, "id", "BIGINT").unwrap()], partition_by: vec![] };
    let options: RawOptions = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    PaimonLog::create(&store(), &columns, &options, None, Deadline::NEVER).await.unwrap()
}

async fn base(log: &PaimonLog, id: u64) -> Vec<ManifestMeta> {
    log.read_list(&log.snapshot(id).await.unwrap().unwrap().base_manifest_list).await.unwrap()
}
async fn live_paths(log: &PaimonLog, id: u64) -> Vec<String> {
    let snapshot = log.snapshot(id).await.unwrap().unwrap();
    log.files_at(&snapshot).await.unwrap().into_iter().map(|f| f.path).collect()
}

#[tokio::test]
async fn merged_manifests_hold_the_same_files_in_the_same_order() {
    let log = merging(&[("manifest.merge-min-count", "3")]).await;
    let mut wanted = Vec::new();
    for i in 1..=60 {
        // Another process each time now and then: then nothing is remembered, and the manifests are read.
        let log = if i % 7 == 0 { PaimonLog::open(&again(&log)).await.unwrap() } else { PaimonLog::open(log.store()).await.unwrap() };
        let files = vec![file("bucket-0", 3), file("bucket-0", 4)];
        wanted.extend(files.iter().map(|f| f.path.clone()));
        let id = commit(&log, &append("u", i, files)).await.id;
        assert_eq!(live_paths(&log, id).await, wanted);
        let base = base(&log, id).await;
        assert!(base.len() <= 9, "{i}: {}", base.len());
        assert_eq!(base.iter().map(|m| m.added).sum::<i64>(), 2 * (i - 1));
        for meta in &base {
            assert_eq!(log.store().size(&paths::manifest(&meta.name)).await.unwrap(), u64::try_from(meta.size).ok());
        }
    }
    for id in 1..=60 {
        assert_eq!(live_paths(&log, id).await, wanted[..2 * id as usize], "older snapshots are as they were");
    }
}

/// Publishes a snapshot of another engine, with these entries as its delta.
async fn foreign(log: &PaimonLog, entries: &[ManifestEntry]) {
    let before = commit(log, &append("compactor", 1, vec![])).await.id;
    let mut snapshot = log.snapshot(before).await.unwrap().unwrap();
    let bytes = encode_manifest(entries, Codec::Null, [1; 16]).unwrap();
    let name = format!("manifest-foreign-{before}");
    let meta = describe(name.clone(), bytes.len(), entries, &[]).unwrap();
    log.store().put_new(&paths::manifest(&name), bytes.into()).await.unwrap();
    let list = super::super::manifest::encode_list(&[meta], Codec::Null, [2; 16]).unwrap();
    snapshot.delta_manifest_list = format!("manifest-list-foreign-{before}");
    snapshot.delta_manifest_list_size = Some(list.len() as u64);
    snapshot.properties = None;
    log.store().put_new(&paths::manifest(&snapshot.delta_manifest_list), list.into()).await.unwrap();
    remove(log, before).await;
    put(log, &paths::snapshot(before), std::str::from_utf8(&snapshot.encode().unwrap()).unwrap()).await;
}

async fn entries(log: &PaimonLog, id: u64) -> Vec<ManifestEntry> {
    log.entries_at(&log.snapshot(id).await.unwrap().unwrap()).await.unwrap()
}

#[tokio::test]
async fn what_is_added_and_removed_goes_and_a_removal_from_an_older_manifest_stays() {
    let log = merging(&[("manifest.merge-min-count", "3"), ("manifest.full-compaction-threshold-size", "1 gb")]).await;
    commit(&log, &append("u", 1, (0..5000).map(|_| file("bucket-0", 1)).collect())).await;
    let removed = |e: &ManifestEntry| ManifestEntry { kind: EntryKind::Delete, ..e.clone() };
    let old = entries(&log, 1).await;
    commit(&log, &one("u", 2)).await;
    let young = entries(&log, 2).await.pop().unwrap();
    let again = PaimonLog::open(log.store()).await.unwrap();
    foreign(&again, &[removed(&old[7]), removed(&young)]).await;
    let log = PaimonLog::open(log.store()).await.unwrap();
    for i in 4..=6 {
        commit(&log, &one("u", i)).await;
    }
    let (id, lines) = (head(&log).await.id, base(&log, head(&log).await.id).await);
    assert_eq!((lines[0].added, lines[0].deleted), (5000, 0), "the big one is left alone");
    assert_eq!((lines[1].added, lines[1].deleted), (1, 1), "{lines:?}");
    let live = live_paths(&log, id).await;
    assert_eq!(live.len(), 4999 + 3);
    for gone in [&old[7], &young] {
        assert!(!live.contains(&log.path_of(gone).unwrap()));
    }
}

#[tokio::test]
async fn beyond_the_threshold_removals_meet_what_they_remove_and_untouched_manifests_stay() {
    let log = merging(&[
        ("manifest.target-file-size", "4 kb"),
        ("manifest.full-compaction-threshold-size", "3 kb"),
        ("manifest.merge-min-count", "1000"),
        ("manifest.compression", "null"),
    ])
    .await;
    for i in 1..=4 {
        commit(&log, &append("u", i, (0..20).map(|_| file("bucket-0", 1)).collect())).await;
    }
    let old = entries(&log, 4).await;
    let gone: Vec<_> = old[25..60].iter().map(|e| ManifestEntry { kind: EntryKind::Delete, ..e.clone() }).collect();
    foreign(&PaimonLog::open(log.store()).await.unwrap(), &gone).await;
    let log = PaimonLog::open(log.store()).await.unwrap();
    commit(&log, &one("u", 6)).await;
    let id = head(&log).await.id;
    let lines = base(&log, id).await;
    assert!(lines.iter().all(|m| m.deleted == 0), "{lines:?}");
    assert_eq!(lines.iter().map(|m| m.added).sum::<i64>(), 45);
    let kept: Vec<_> = old[..25].iter().chain(&old[60..]).map(|e| log.path_of(e).unwrap()).collect();
    assert_eq!(live_paths(&log, id).await[..45], kept);
    // A removal of what is not there: the table is damaged, and is not touched.
    foreign(&PaimonLog::open(log.store()).await.unwrap(), &gone).await;
    let log = PaimonLog::open(log.store()).await.unwrap();
    commit(&log, &one("u", 7)).await;
    assert_eq!(base(&log, head(&log).await.id).await.last().unwrap().deleted, 35);
}

#[tokio::test]
async fn after_a_lost_race_a_merge_is_used_again_unless_the_winner_merged_too() {
    for winner_merges in [false, true] {
        let log = merging(&[("manifest.merge-min-count", "5")]).await;
        for i in 1..=5 {
            commit(&log, &one("u", i)).await;
        }
        let before = head(&log).await;
        let (change, mut work) = (one("u", 6), Work::default());
        let loser = log.stage(&before, &change, &mut work).await.unwrap();
        let base_of = |staged: &Staged| {
            let snapshot = Snapshot::decode(&staged.bytes, staged.id).unwrap();
            let log = &log;
            async move { log.read_list(&snapshot.base_manifest_list).await.unwrap() }
        };
        let merged = base_of(&loser).await;
        assert_eq!(merged.len(), 1);
        let twin = PaimonLog::open(&again(&log)).await.unwrap();
        if !winner_merges {
            // As a writer would that never merges.
            let newest = log.snapshot(5).await.unwrap().unwrap();
            let newest = log.read_list(&newest.delta_manifest_list).await.unwrap();
            twin.state().barred.extend(newest.into_iter().map(|m| m.name));
        }
        let theirs = twin.stage(&before, &one("other", 1), &mut Work::default()).await.unwrap();
        assert!(publish_staged(&twin, &theirs).await && !publish_staged(&log, &loser).await);
        let next = log.head(Some(&user("u")), None, Some(&before)).await.unwrap();
        let files = log.store().list_all("manifest").await.unwrap().len();
        let staged = log.stage(&next, &change, &mut work).await.unwrap();
        assert_eq!(log.store().list_all("manifest").await.unwrap().len(), files + 1, "only a base list is made anew");
        let base = base_of(&staged).await;
        assert_eq!(base[0].name == merged[0].name, !winner_merges);
        assert!(publish_staged(&log, &staged).await);
        assert_eq!(live_paths(&log, 7).await.len(), 7);
    }
}

#[tokio::test]
async fn a_manifest_with_unknown_fields_is_left_as_it_is_and_merging_goes_on_beside_it() {
    let log = merging(&[("manifest.merge-min-count", "3"), ("manifest.compression", "null")]).await;
    commit(&log, &one("u", 1)).await;
    // Renames a field in the schema of the first manifest: a field of a version to come.
    let name = log.read_list(&log.snapshot(1).await.unwrap().unwrap().delta_manifest_list).await.unwrap()[0].name.clone();
    let bytes = log.store().get(&paths::manifest(&name)).await.unwrap().unwrap();
    let at = bytes.windows(21).position(|w| w == b"_WRITE_COLS_SEQUENCES").unwrap();
    let mut changed = bytes.to_vec();
    changed[at..at + 21].copy_from_slice(b"_FIELD_OF_TIMES_AHEAD");
    log.store().put(&paths::manifest(&name), changed.into()).await.unwrap();
    let log = PaimonLog::open(log.store()).await.unwrap();
    for i in 2..=20 {
        commit(&log, &one("u", i)).await;
    }
    let lines = base(&log, 20).await;
    assert_eq!(lines[0].name, name);
    assert!(lines.len() <= 10, "{}", lines.len());
    assert_eq!(live_paths(&log, 20).await.len(), 20);
}

#[tokio::test]
async fn a_manifest_that_is_missing_stops_the_commit_that_would_merge_it() {
    let log = merging(&[("manifest.merge-min-count", "3")]).await;
    for i in 1..=3 {
        commit(&log, &one("u", i)).await;
    }
    let name = base(&log, 3).await[0].name.clone();
    log.store().delete(&paths::manifest(&name)).await.unwrap();
    let log = PaimonLog::open(log.store()).await.unwrap();
    let e = log.stage(&head(&log).await, &one("u", 4), &mut Work::default()).await.unwrap_err();
    assert_eq!(e.kind(), crate::Kind::Data);
    assert!(e.to_string().contains(&name), "{e}");
}
