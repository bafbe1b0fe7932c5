use std::sync::atomic::{AtomicUsize, Ordering};

use object_store::memory::InMemory;

use super::*;
use crate::env::Env;
use crate::format::{ColumnStats, CommitMessage, Committable, DataFile};
use crate::schema::{Field, Scalar};
use crate::store::StoreOptions;

pub(super) fn store() -> Store {
    Store::over(Arc::new(InMemory::new()), object_store::path::Path::from("t"), "memory:///t", &Env::real(), StoreOptions::default())
}

async fn table_with(columns: &[(&str, &str)], partition_by: &[&str]) -> PaimonLog {
    table_in(&store(), columns, partition_by).await
}
pub(super) async fn table_in(store: &Store, columns: &[(&str, &str)], partition_by: &[&str]) -> PaimonLog {
    let fields = columns.iter().zip(0..).map(|((n, t), id)| Field::parse(id, *n, t).unwrap()).collect();
    let schema = Schema { id: 0, fields, partition_by: partition_by.iter().map(|s| (*s).to_owned()).collect() };
    PaimonLog::create(store, &schema, &RawOptions::new(), None, Deadline::NEVER).await.unwrap()
}
async fn table() -> PaimonLog {
    table_with(&[("id", "BIGINT NOT NULL"), ("name", "STRING")], &[]).await
}
pub(super) fn again(log: &PaimonLog) -> Store {
    log.store().clone()
}

static COUNTER: AtomicUsize = AtomicUsize::new(0);

pub(super) fn file(dir: &str, rows: u64) -> DataFile {
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let stats = vec![ColumnStats { column: "id".into(), min: Some(Scalar::Int(1)), max: Some(Scalar::Int(9)), nulls: 0 }];
    DataFile { path: format!("{dir}/data-u{n}-0.parquet"), size: 100, rows, schema_id: 0, created_ms: 1_795_966_155_192, stats }
}
pub(super) fn user(name: &str) -> CommitUser {
    CommitUser::new(name)
}
pub(super) fn append(name: &str, identifier: i64, files: Vec<DataFile>) -> Change {
    let messages = match files.is_empty() {
        true => vec![],
        false => vec![CommitMessage { version: 1, user: user(name), partition: vec![], bucket: 0, total_buckets: -1, files }],
    };
    let checkpoint = Some(Digest::of(&identifier.to_be_bytes()));
    Change::Append(Committable { user: user(name), identifier, checkpoint, watermark: None, properties: BTreeMap::new(), messages })
}
pub(super) fn one(name: &str, identifier: i64) -> Change {
    append(name, identifier, vec![file("bucket-0", 3)])
}

pub(super) async fn publish_staged(log: &PaimonLog, staged: &Staged) -> bool {
    publish(log.store(), &staged.name, staged.bytes.clone(), Deadline::NEVER).await.unwrap() == Publication::Published
}
pub(super) async fn head(log: &PaimonLog) -> Head {
    log.head(None, None, None).await.unwrap()
}
pub(super) async fn commit(log: &PaimonLog, change: &Change) -> Head {
    let before = head(log).await;
    let staged = log.stage(&before, change, &mut Work::default()).await.unwrap();
    assert!(publish_staged(log, &staged).await);
    assert_eq!(log.confirm(&before, &staged).await.unwrap(), Standing::In);
    head(log).await
}
async fn landed(log: &PaimonLog, name: &str, floor: Option<&Floor>) -> Landed {
    log.head(Some(&user(name)), floor, None).await.unwrap().landed
}
fn identifier(landed: &Landed) -> Option<i64> {
    if let Landed::At { identifier, .. } = landed { Some(*identifier) } else { None }
}
async fn rows(log: &PaimonLog) -> u64 {
    let newest = head(log).await;
    let snapshot = log.snapshot(newest.id).await.unwrap().unwrap();
    log.files_at(&snapshot).await.unwrap().iter().map(|f| f.rows).sum()
}
pub(super) async fn put(log: &PaimonLog, name: &str, text: &str) {
    log.store().put(name, text.to_owned().into()).await.unwrap();
}
pub(super) async fn remove(log: &PaimonLog, id: u64) {
    log.store().delete(&paths::snapshot(id)).await.unwrap();
}

#[tokio::test]
async fn commits_add_up_and_everything_can_be_read_back() {
    let log = table().await;
    assert_eq!(head(&log).await.id, 0);
    commit(&log, &one("u", 1)).await;
    let Change::Append(mut c) = one("u", 2) else { panic!() };
    c.watermark = Some(77);
    c.properties.insert("k".into(), "v".into());
    commit(&log, &Change::Append(c)).await;
    let third = commit(&log, &append("u", 3, vec![])).await;
    assert_eq!(third.id, 3);

    let reopened = PaimonLog::open(&again(&log)).await.unwrap();
    let s = reopened.snapshots().await.unwrap();
    assert_eq!(
        s.iter().map(|s| (s.id, s.commit_identifier, s.delta_record_count, s.total_record_count)).collect::<Vec<_>>(),
        [(1, 1, 3, 3), (2, 2, 3, 6), (3, 3, 0, 6)]
    );
    assert_eq!((s[1].property("k"), s[2].property("k")), (Some("v"), None));
    assert_eq!((s[0].watermark, s[1].watermark, s[2].watermark), (None, Some(77), Some(77)));
    assert!(s[0].time_millis <= s[1].time_millis && s[0].uuid != s[1].uuid);
    for s in &s {
        let size = |name: &str| paths::manifest(name);
        assert_eq!(reopened.store().size(&size(&s.base_manifest_list)).await.unwrap(), s.base_manifest_list_size);
        assert_eq!(reopened.store().size(&size(&s.delta_manifest_list)).await.unwrap(), s.delta_manifest_list_size);
        for meta in reopened.read_list(&s.delta_manifest_list).await.unwrap() {
            assert_eq!(reopened.store().size(&size(&meta.name)).await.unwrap(), u64::try_from(meta.size).ok());
        }
    }
    let files = reopened.files_at(&s[2]).await.unwrap();
    assert_eq!(files.len(), 2);
    assert_eq!(files[0].stats[0].max, Some(Scalar::Int(9)));
    assert_eq!((files[0].meta.min_sequence, files[0].meta.max_sequence, files[0].meta.delete_rows), (0, 2, Some(0)));
    assert_eq!(reopened.store().get(paths::LATEST).await.unwrap().unwrap(), "3");
    assert_eq!(reopened.store().get(paths::EARLIEST).await.unwrap().unwrap(), "1");
    assert_eq!(reopened.schemas().await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_newest_snapshot_of_the_user_is_the_answer() {
    let log = table().await;
    let start = head(&log).await.floor();
    assert_eq!(landed(&log, "u", Some(&start)).await, Landed::None);
    commit(&log, &one("u", 1)).await;
    let ours = commit(&log, &one("u", 4)).await;
    commit(&log, &one("other", 9)).await;
    let Landed::At { identifier, checkpoint, id, sha256, closed_at } = landed(&log, "u", Some(&start)).await else { panic!() };
    assert_eq!((identifier, checkpoint, id, Some(sha256), closed_at), (4, Some(Digest::of(&4i64.to_be_bytes())), 2, ours.sha256, None));
    assert_eq!(landed(&log, "u", Some(&ours.floor())).await, Landed::None, "at the floor, what the checkpoint says of the user holds");
    assert_eq!(landed(&log, "nobody", Some(&ours.floor())).await, Landed::None);
    assert_eq!(landed(&log, "nobody", None).await, Landed::None);
}

#[tokio::test]
async fn closing_says_what_landed_last() {
    let log = table().await;
    let close = |closed_at| Change::Close { user: user("u"), closed_at, properties: BTreeMap::from([("k".into(), "v".into())]) };
    commit(&log, &close(Some(5))).await;
    let Landed::At { identifier, closed_at, .. } = landed(&log, "u", None).await else { panic!() };
    assert_eq!((identifier, closed_at), (i64::MAX, Some(Some(5))));
    commit(&log, &close(None)).await;
    let Landed::At { closed_at, .. } = landed(&log, "u", None).await else { panic!() };
    assert_eq!(closed_at, Some(None), "closed, and nothing had landed: not the same as closed by an end of input");
}

#[tokio::test]
async fn missing_history_is_unknown_and_a_missing_floor_alone_is_not() {
    let log = table().await;
    let first = commit(&log, &one("u", 1)).await;
    for i in 2..=4 {
        commit(&log, &one("other", i)).await;
    }
    assert_eq!(identifier(&landed(&log, "u", None).await), Some(1));
    remove(&log, 1).await;
    assert_eq!(landed(&log, "u", Some(&first.floor())).await, Landed::None, "all above the floor was seen");
    assert!(matches!(landed(&log, "u", None).await, Landed::Unknown(_)));
    remove(&log, 2).await;
    let Landed::Unknown(why) = landed(&log, "u", Some(&first.floor())).await else { panic!() };
    assert!(why.contains("snapshot 2 is gone"), "{why}");
    assert_eq!(identifier(&landed(&log, "other", Some(&first.floor())).await), Some(4), "found before the hole");
}

#[tokio::test]
async fn another_table_other_bytes_and_a_head_below_the_floor_are_other() {
    let log = table().await;
    commit(&log, &one("u", 1)).await;
    let floor = commit(&log, &one("u", 2)).await.floor();
    let log = &log;
    let other = |f: Floor| async move { landed(log, "u", Some(&f)).await };
    assert!(matches!(other(Floor { table: "x".into(), ..floor.clone() }).await, Landed::Other(_)));
    assert!(matches!(other(Floor { id: 3, ..floor.clone() }).await, Landed::Other(_)));
    assert!(matches!(other(Floor { sha256: Some(Digest::of(b"x")), ..floor.clone() }).await, Landed::Other(_)));
    let first = Floor { id: 1, sha256: Some(Digest::of(b"x")), table: floor.table.clone() };
    let e = log.head(Some(&user("nobody")), Some(&first), None).await.unwrap().landed;
    assert!(matches!(e, Landed::Other(_)), "{e:?}");
    assert_eq!(other(floor.clone()).await, Landed::None);
}

#[tokio::test]
async fn whose_snapshot_was_replaced_is_told_by_whom() {
    let log = table().await;
    commit(&log, &one("u", 1)).await;
    let ours = commit(&log, &one("u", 2)).await;
    let replace = async || {
        let mut theirs = log.snapshot(2).await.unwrap().unwrap();
        (theirs.commit_user, theirs.commit_identifier) = ("somebody".into(), 7);
        theirs.writer_version = Some("python-2.1.0".into());
        remove(&log, 2).await;
        put(&log, &paths::snapshot(2), std::str::from_utf8(&theirs.encode().unwrap()).unwrap()).await;
    };
    // It had been built on ours: what is published on it now is not in history.
    let staged = log.stage(&ours, &one("v", 1), &mut Work::default()).await.unwrap();
    replace().await;
    let Landed::Other(why) = landed(&log, "u", Some(&ours.floor())).await else { panic!() };
    assert!(why.contains("snapshot 2") && why.contains("commit user somebody (python-2.1.0), identifier 7"), "{why}");
    assert!(publish_staged(&log, &staged).await);
    let e = log.confirm(&ours, &staged).await.unwrap_err();
    assert_eq!(e.kind(), crate::Kind::Data);
    assert!(e.to_string().contains("commit user somebody"), "{e}");
}

#[tokio::test]
async fn of_two_commits_on_one_base_one_wins_and_the_other_lands_above_it() {
    let log = table().await;
    let twin = PaimonLog::open(&again(&log)).await.unwrap();
    let (a, b) = (head(&log).await, head(&twin).await);
    let (mut work_a, mut work_b) = (Work::default(), Work::default());
    let change_b = one("b", 1);
    let staged_a = log.stage(&a, &one("a", 1), &mut work_a).await.unwrap();
    let staged_b = twin.stage(&b, &change_b, &mut work_b).await.unwrap();
    assert!(publish_staged(&log, &staged_a).await);
    assert!(!publish_staged(&twin, &staged_b).await);
    let before = log.store().list_all("manifest").await.unwrap().len();
    let b2 = twin.head(Some(&user("b")), None, Some(&b)).await.unwrap();
    assert_eq!((b2.id, &b2.landed), (1, &Landed::None));
    let again_b = twin.stage(&b2, &change_b, &mut work_b).await.unwrap();
    assert_eq!(log.store().list_all("manifest").await.unwrap().len(), before + 1, "only a base list is made anew");
    assert!(publish_staged(&twin, &again_b).await);
    assert_eq!(twin.confirm(&b2, &again_b).await.unwrap(), Standing::In);
    assert_eq!(rows(&log).await, 6);
    assert_eq!(log.confirm(&a, &staged_a).await.unwrap(), Standing::In, "the newest holds our file");
}

#[tokio::test]
async fn work_of_another_change_is_not_used_again() {
    let log = table().await;
    let h = head(&log).await;
    let mut work = Work::default();
    log.stage(&h, &one("a", 1), &mut work).await.unwrap();
    let second = log.stage(&h, &one("a", 2), &mut work).await.unwrap();
    assert!(publish_staged(&log, &second).await);
    let snapshot = log.snapshot(1).await.unwrap().unwrap();
    assert_eq!(log.files_at(&snapshot).await.unwrap()[0].path, second.files[0]);
}

#[tokio::test]
async fn a_snapshot_in_an_expired_slot_is_removed_again() {
    let log = table().await;
    commit(&log, &one("other", 1)).await;
    let h = head(&log).await;
    for (change, name) in [(one("u", 1), "files"), (append("u", 1, vec![]), "an empty one")] {
        let staged = log.stage(&h, &change, &mut Work::default()).await.unwrap();
        // While it sleeps, others commit 2 and 3, and 1 and 2 expire.
        if log.snapshot(3).await.unwrap().is_none() {
            commit(&log, &one("other", 2)).await;
            commit(&log, &one("other", 3)).await;
            remove(&log, 1).await;
            remove(&log, 2).await;
        }
        assert!(publish_staged(&log, &staged).await);
        assert_eq!(log.confirm(&h, &staged).await.unwrap(), Standing::Dead, "{name}");
        assert_eq!(log.snapshot_ids().await.unwrap(), [3], "{name}");
    }
    assert_eq!(log.store().get(paths::LATEST).await.unwrap().unwrap(), "3");
    assert_eq!(rows(&log).await, 9);
}

#[tokio::test]
async fn confirm_stands_by_what_is_in_history_and_refuses_to_guess() {
    let log = table().await;
    commit(&log, &one("other", 1)).await;
    let h = head(&log).await;
    let staged = log.stage(&h, &one("u", 1), &mut Work::default()).await.unwrap();
    assert!(publish_staged(&log, &staged).await);
    // Somebody commits on top of ours, and everything below has expired.
    let twin = PaimonLog::open(&again(&log)).await.unwrap();
    commit(&twin, &one("other", 2)).await;
    remove(&log, 1).await;
    assert_eq!(log.confirm(&h, &staged).await.unwrap(), Standing::In);
    remove(&log, 3).await;
    assert_eq!(log.confirm(&h, &staged).await.unwrap(), Standing::In, "it is the only one");
    put(&log, "snapshot/snapshot-1", "other bytes").await;
    assert_eq!(log.confirm(&h, &staged).await.unwrap_err().kind(), crate::Kind::Data);
    remove(&log, 2).await;
    assert_eq!(log.confirm(&h, &staged).await.unwrap(), Standing::Dead, "gone again: the next look at the table decides");
}

#[tokio::test]
async fn a_snapshot_whose_files_were_compacted_away_at_once_is_in_history() {
    let log = table().await;
    commit(&log, &one("other", 1)).await;
    let h = head(&log).await;
    let staged = log.stage(&h, &one("u", 1), &mut Work::default()).await.unwrap();
    assert!(publish_staged(&log, &staged).await);
    // A compaction of another program removes our file in snapshot 3.
    let twin = PaimonLog::open(&again(&log)).await.unwrap();
    let ours = twin.snapshot(2).await.unwrap().unwrap();
    let mut gone: Vec<_> = twin.read_manifest(&twin.read_list(&ours.delta_manifest_list).await.unwrap()[0].name).await.unwrap();
    gone[0].kind = super::super::manifest::EntryKind::Delete;
    let bytes = super::super::manifest::encode_manifest(&gone, apache_avro::Codec::Null, [1; 16]).unwrap();
    let mut compacted = commit(&twin, &one("compactor", 1)).await;
    let mut snapshot = twin.snapshot(3).await.unwrap().unwrap();
    let mut metas = twin.read_list(&snapshot.delta_manifest_list).await.unwrap();
    metas.push(ManifestMeta { name: "manifest-gone-0".into(), size: bytes.len() as i64, added: 0, deleted: 1, ..metas[0].clone() });
    let list = super::super::manifest::encode_list(&metas, apache_avro::Codec::Null, [1; 16]).unwrap();
    log.store().put("manifest/manifest-gone-0", bytes.into()).await.unwrap();
    log.store().put("manifest/manifest-list-gone-1", list.into()).await.unwrap();
    snapshot.delta_manifest_list = "manifest-list-gone-1".into();
    put(&log, "snapshot/snapshot-3", std::str::from_utf8(&snapshot.encode().unwrap()).unwrap()).await;
    compacted.id = 3;
    assert_eq!(log.confirm(&h, &staged).await.unwrap(), Standing::In, "what was built on it says so");
    assert!(log.snapshot(2).await.unwrap().is_some());
    // Under a pin there is no doubt.
    log.pin(&user("u"), 1).await.unwrap();
    assert_eq!(log.confirm(&h, &staged).await.unwrap(), Standing::In);
}

/// As if another engine had written it: nothing says what it was built on.
async fn says_no_base(log: &PaimonLog, id: u64) {
    let mut snapshot = log.snapshot(id).await.unwrap().unwrap();
    assert!(snapshot.properties.as_mut().unwrap().remove(property::BASE).is_some());
    remove(log, id).await;
    put(log, &paths::snapshot(id), std::str::from_utf8(&snapshot.encode().unwrap()).unwrap()).await;
}

#[tokio::test]
async fn a_strangers_snapshot_in_our_expired_slot_does_not_pass_for_history() {
    for floor_at in [0, 2] {
        let log = table().await;
        for i in 0..floor_at {
            commit(&log, &one("other", i + 1)).await;
        }
        let h = head(&log).await;
        let floor = h.floor();
        let stray = log.stage(&h, &one("stranger", 1), &mut Work::default()).await.unwrap();
        commit(&log, &one("u", 1)).await;
        commit(&log, &one("other", 9)).await;
        let ours = u64::try_from(floor_at).unwrap() + 1;
        for id in 1..=ours {
            remove(&log, id).await;
        }
        assert!(publish_staged(&log, &stray).await);
        let found = landed(&log, "u", Some(&floor)).await;
        assert!(matches!(&found, Landed::Unknown(why) if why.contains("fell into a slot")), "{found:?}");
    }
}

#[tokio::test]
async fn the_walk_takes_a_snapshot_in_an_expired_slot_for_missing() {
    for above_is_ours in [true, false] {
        let log = table().await;
        let floor = head(&log).await.floor();
        commit(&log, &one("other", 1)).await;
        let h = head(&log).await;
        let staged = log.stage(&h, &one("u", 1), &mut Work::default()).await.unwrap();
        commit(&log, &one("other", 2)).await;
        commit(&log, &one("other", 3)).await;
        if !above_is_ours {
            says_no_base(&log, 3).await;
        }
        remove(&log, 1).await;
        remove(&log, 2).await;
        // Its process dies before it confirms.
        assert!(publish_staged(&log, &staged).await);
        let found = landed(&log, "u", Some(&floor)).await;
        let Landed::Unknown(why) = found else { panic!("{above_is_ours}: {found:?}") };
        assert!(why.contains("snapshot 2 fell into a slot that expiry had emptied"), "{why}");
        assert!(!log.any_live(&head(&log).await, &staged.files).await.unwrap(), "and no file of it is live");
    }
}

#[tokio::test]
async fn a_twins_late_create_at_the_floor_is_passed_over_and_removed_by_its_maker() {
    for above_is_ours in [true, false] {
        let log = table().await;
        let twin = PaimonLog::open(&again(&log)).await.unwrap();
        commit(&log, &one("other", 1)).await;
        let (h, change) = (head(&log).await, one("u", 1));
        let late = twin.stage(&h, &change, &mut Work::default()).await.unwrap();
        let floor = commit(&log, &change).await.floor();
        commit(&log, &one("other", 2)).await;
        if !above_is_ours {
            says_no_base(&log, 3).await;
        }
        remove(&log, 1).await;
        remove(&log, 2).await;
        assert!(publish_staged(&twin, &late).await && Some(late.sha256()) != floor.sha256);
        assert_eq!(landed(&log, "u", Some(&floor)).await, Landed::None, "{above_is_ours}: as if it were not there");
        assert_eq!(twin.confirm(&h, &late).await.unwrap(), Standing::Dead, "{above_is_ours}: though the newest holds the same files");
        assert_eq!(log.snapshot_ids().await.unwrap(), [3]);
        assert_eq!(rows(&log).await, 9);
    }
}

#[tokio::test]
async fn a_close_that_fell_below_another_engines_snapshot_is_removed() {
    for before in [0, 2] {
        let log = table().await;
        for i in 0..before {
            commit(&log, &one("other", i)).await;
        }
        let h = head(&log).await;
        let close = Change::Close { user: user("u"), closed_at: None, properties: BTreeMap::new() };
        let staged = log.stage(&h, &close, &mut Work::default()).await.unwrap();
        // The old owner lands what was pending, another engine commits, and expiry minds no pin.
        let theirs = commit(&log, &one("u", 1)).await.id;
        commit(&log, &one("other", 9)).await;
        says_no_base(&log, theirs + 1).await;
        for id in 1..=theirs {
            remove(&log, id).await;
        }
        assert!(publish_staged(&log, &staged).await);
        assert_eq!(log.confirm(&h, &staged).await.unwrap(), Standing::Dead, "{before}: what has landed is not closed as if it had not");
        assert_eq!(log.snapshot_ids().await.unwrap(), [theirs + 1], "{before}");
    }
}

#[tokio::test]
async fn an_empty_first_snapshot_that_others_built_on_stays() {
    for above_is_ours in [true, false] {
        let log = table().await;
        let h = head(&log).await;
        let staged = log.stage(&h, &append("u", 1, vec![]), &mut Work::default()).await.unwrap();
        assert!(publish_staged(&log, &staged).await);
        let twin = PaimonLog::open(&again(&log)).await.unwrap();
        commit(&twin, &one("other", 1)).await;
        if !above_is_ours {
            says_no_base(&log, 2).await;
        }
        assert_eq!(log.confirm(&h, &staged).await.unwrap(), Standing::In, "{above_is_ours}");
        assert_eq!(log.snapshot_ids().await.unwrap(), [1, 2], "{above_is_ours}: no hole");
    }
}

#[tokio::test]
async fn a_create_that_expired_before_it_is_confirmed_is_decided_again() {
    let log = table().await;
    let twin = PaimonLog::open(&again(&log)).await.unwrap();
    let floor = commit(&log, &one("other", 1)).await.floor();
    let (h, change) = (head(&log).await, one("u", 1));
    let late = twin.stage(&h, &change, &mut Work::default()).await.unwrap();
    commit(&log, &change).await;
    commit(&log, &one("other", 2)).await;
    commit(&log, &one("other", 3)).await;
    remove(&log, 1).await;
    remove(&log, 2).await;
    assert!(publish_staged(&twin, &late).await);
    remove(&log, 2).await;
    remove(&log, 3).await;
    assert_eq!(twin.confirm(&h, &late).await.unwrap(), Standing::Dead);
    let next = twin.head(Some(&user("u")), Some(&floor), Some(&h)).await.unwrap();
    assert!(matches!(next.landed, Landed::Unknown(_)), "{:?}", next.landed);
    assert!(twin.any_live(&next, &late.files).await.unwrap(), "its files tell that it has landed");
}

#[tokio::test]
async fn the_row_id_zero_of_java_is_handed_on_and_any_other_is_refused() {
    let log = table().await;
    commit(&log, &one("u", 1)).await;
    let snapshot = log.store().get(&paths::snapshot(1)).await.unwrap().unwrap();
    for (next_row_id, fits) in [(0, true), (7, false)] {
        let mut theirs = Snapshot::decode(&snapshot, 1).unwrap();
        theirs.next_row_id = Some(next_row_id);
        remove(&log, 1).await;
        put(&log, &paths::snapshot(1), std::str::from_utf8(&theirs.encode().unwrap()).unwrap()).await;
        let log = PaimonLog::open(log.store()).await.unwrap();
        let staged = log.stage(&head(&log).await, &one("u", 2), &mut Work::default()).await;
        match staged {
            Ok(staged) => assert_eq!((fits, Snapshot::decode(&staged.bytes, 2).unwrap().next_row_id), (true, Some(0))),
            Err(e) => assert_eq!((fits, e.kind()), (false, crate::Kind::Invalid)),
        }
    }
}

#[tokio::test]
async fn hints_that_are_stale_garbage_or_ahead_do_no_harm() {
    let log = table().await;
    for i in 1..=3 {
        commit(&log, &one("u", i)).await;
    }
    for hint in ["1", "2", "9", "", "garbage", "-3", "18446744073709551615", "99999999999999999999999"] {
        put(&log, paths::LATEST, hint).await;
        let fresh = PaimonLog::open(&again(&log)).await.unwrap();
        assert_eq!(head(&fresh).await.id, 3, "{hint:?}");
    }
    // A leftover beside the snapshots is none.
    put(&log, "snapshot/snapshot-7#1", "x").await;
    put(&log, "snapshot/.snapshot-8.u.tmp", "x").await;
    assert_eq!(head(&log).await.id, 3);
}

#[tokio::test]
async fn the_head_after_ours_is_believed_once_and_then_looked_for() {
    let log = table().await;
    let h0 = head(&log).await;
    let staged = log.stage(&h0, &one("u", 1), &mut Work::default()).await.unwrap();
    assert!(publish_staged(&log, &staged).await);
    log.confirm(&h0, &staged).await.unwrap();
    let twin = PaimonLog::open(&again(&log)).await.unwrap();
    commit(&twin, &one("other", 1)).await;
    let believed = log.head(None, None, Some(&h0)).await.unwrap();
    assert_eq!(believed.id, 1, "one read; if it is behind, the publication is refused");
    let looked = log.head(None, None, Some(&believed)).await.unwrap();
    assert_eq!(looked.id, 2);
}

#[tokio::test]
async fn a_foreign_schema_is_seen_without_a_snapshot() {
    let log = table().await;
    let mut next = (*log.schema()).clone();
    let mut schema = (*next.schema).clone();
    schema.id = 1;
    schema.fields.push(Field::parse(2, "extra", "INT").unwrap());
    next.schema = Arc::new(schema);
    put(&log, "schema/schema-1", std::str::from_utf8(&next.encode().unwrap()).unwrap()).await;
    let h = commit(&log, &one("u", 1)).await;
    assert_eq!((h.schema.id, h.schema.fields.len()), (1, 3));
    let s = log.snapshot(1).await.unwrap().unwrap();
    assert_eq!((s.schema_id, log.files_at(&s).await.unwrap()[0].schema_id), (1, 0));
    put(&log, "schema/schema-2", r#"{"version":9,"id":2}"#).await;
    let e = log.head(None, None, None).await.unwrap_err();
    assert_eq!(e.kind(), crate::Kind::Data);
    assert!(e.to_string().contains("schema-2"), "{e}");
}

#[tokio::test]
async fn messages_that_do_not_fit_are_refused_before_anything_is_written() {
    let log = table_with(&[("id", "BIGINT"), ("dt", "DATE")], &["dt"]).await;
    let good = |partition: Vec<Option<Scalar>>, dir: &str| CommitMessage {
        version: 1,
        user: user("u"),
        partition,
        bucket: 0,
        total_buckets: -1,
        files: vec![file(dir, 1)],
    };
    let day = || vec![Some(Scalar::Date(19724))];
    let change = |m: Vec<CommitMessage>| {
        let properties = BTreeMap::new();
        Change::Append(Committable { user: user("u"), identifier: 1, checkpoint: None, watermark: None, properties, messages: m })
    };
    let h = head(&log).await;
    let base = || good(day(), "dt=19724/bucket-0");
    let doubled = base();
    let mut bad = vec![
        (vec![CommitMessage { version: 2, ..base() }], "version 2"),
        (vec![CommitMessage { user: user("x"), ..base() }], "of user x"),
        (vec![CommitMessage { bucket: 1, ..base() }], "bucket 1"),
        (vec![CommitMessage { total_buckets: 4, ..base() }], "no buckets"),
        (vec![good(vec![], "bucket-0")], "0 partition values"),
        (vec![good(day(), "dt=2024-01-02/bucket-0")], "does not lie in dt=19724/bucket-0"),
        (vec![good(vec![Some(Scalar::Int(1))], "dt=1/bucket-0")], "another type"),
        (vec![doubled.clone(), doubled], "twice"),
    ];
    let mut newer = base();
    newer.files[0].schema_id = 1;
    bad.push((vec![newer], "schema 1"));
    let mut stats = base();
    stats.files[0].stats[0].column = "nope".into();
    bad.push((vec![stats], "statistics"));
    for (messages, what) in bad {
        let e = log.stage(&h, &change(messages), &mut Work::default()).await.unwrap_err();
        assert_eq!(e.kind(), crate::Kind::Invalid, "{e}");
        assert!(e.to_string().contains(what), "{e}");
    }
    assert_eq!(log.store().list_all("manifest").await.unwrap(), vec![]);
    commit(&log, &change(vec![base(), good(vec![None], "dt=__DEFAULT_PARTITION__/bucket-0")])).await;
    let s = log.snapshot(1).await.unwrap().unwrap();
    let meta = &log.read_list(&s.delta_manifest_list).await.unwrap()[0];
    assert_eq!(meta.partition_stats.nulls, [Some(1)]);
    assert_eq!(log.files_at(&s).await.unwrap()[1].partition, [None]);
}

#[tokio::test]
async fn live_files_and_references_are_found() {
    let log = table().await;
    let live = file("bucket-0", 2);
    let h = commit(&log, &append("u", 1, vec![live.clone()])).await;
    assert!(log.any_live(&h, &["x".into(), live.path.clone()]).await.unwrap());
    assert!(!log.any_live(&h, &["x".into()]).await.unwrap());
    let h = commit(&log, &one("u", 2)).await;
    log.stage(&h, &one("u", 3), &mut Work::default()).await.unwrap();
    let named = log.referenced().await.unwrap();
    assert!(named.contains(&live.path));
    let orphans: Vec<_> =
        log.store().list_all("manifest").await.unwrap().into_iter().filter(|e| !named.contains(&paths::manifest(&e.name))).collect();
    assert_eq!(orphans.len(), 3, "manifest, base list and delta list of what was never published: {orphans:?}");
    log.store().put("tag/tag-a", log.snapshot_bytes(1).await.unwrap().unwrap()).await.unwrap();
    remove(&log, 1).await;
    remove(&log, 2).await;
    assert!(log.referenced().await.unwrap().contains(&live.path), "a tag names it");
}

#[tokio::test]
async fn a_file_added_twice_is_data() {
    let log = table().await;
    let twice = file("bucket-0", 2);
    commit(&log, &append("u", 1, vec![twice.clone()])).await;
    let h = commit(&log, &append("u", 2, vec![twice.clone()])).await;
    let snapshot = log.snapshot(h.id).await.unwrap().unwrap();
    assert_eq!(log.files_at(&snapshot).await.unwrap_err().kind(), crate::Kind::Data);
    assert!(log.any_live(&h, &[twice.path]).await.unwrap());
}

#[tokio::test]
async fn pins_are_consumers() {
    let log = table().await;
    log.pin(&user("orders-1"), 4).await.unwrap();
    log.pin(&user("orders-2"), 5).await.unwrap();
    log.pin(&user("clicks-1"), 6).await.unwrap();
    assert_eq!(log.store().get("consumer/consumer-orders-1").await.unwrap().unwrap(), r#"{"nextSnapshot":4}"#);
    assert_eq!(log.pins("orders-").await.unwrap(), [(user("orders-1"), 4), (user("orders-2"), 5)]);
    log.unpin(&user("orders-1")).await.unwrap();
    log.unpin(&user("orders-1")).await.unwrap();
    assert_eq!(log.pins("orders-").await.unwrap(), [(user("orders-2"), 5)]);
}

#[tokio::test]
async fn what_is_no_table_says_so() {
    let empty = store();
    assert!(PaimonLog::find(&empty).await.unwrap().is_none());
    let e = PaimonLog::open(&empty).await.unwrap_err();
    assert_eq!(e.kind(), crate::Kind::Invalid);
    assert!(e.to_string().contains("there is no Paimon table here"), "{e}");
    empty.put("in/a.ndjson", "x".into()).await.unwrap();
    let columns = Schema { id: 0, fields: vec![Field::parse(0, "a", "INT").unwrap()], partition_by: vec![] };
    let e = PaimonLog::create(&empty, &columns, &RawOptions::new(), None, Deadline::NEVER).await.unwrap_err();
    assert!(e.message().contains("in/a.ndjson"), "{e}");
    let log = table().await;
    let e = PaimonLog::create(log.store(), &columns, &RawOptions::new(), None, Deadline::NEVER).await.unwrap_err();
    assert_eq!(e.kind(), crate::Kind::Conflict);
    put(&log, "schema/schema-1", r#"{"version":4,"id":1}"#).await;
    let e = PaimonLog::open(log.store()).await.unwrap_err();
    assert_eq!(e.kind(), crate::Kind::Data);
    assert!(e.to_string().contains("schema-1: the schema file has version 4"), "{e}");
}
