use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use object_store::memory::InMemory;

use super::*;
use crate::env::{Deadline, Env};
use crate::error::Kind;
use crate::format::delta::action::{self, Action, Txn};
use crate::format::{ColumnStats, CommitMessage, Committable, DataFile};
use crate::publish::{Publication, publish};
use crate::schema::{Field, Scalar};
use crate::store::StoreOptions;
use crate::store::testing::{Put, Scripted};

fn store() -> Store {
    Store::over(Arc::new(InMemory::new()), object_store::path::Path::from("t"), "memory:///t", &Env::real(), StoreOptions::default())
}

async fn table_in(store: &Store, options: &[(&str, &str)]) -> DeltaLog {
    let fields = vec![Field::parse(0, "id", "BIGINT NOT NULL").unwrap(), Field::parse(1, "name", "STRING").unwrap()];
    let schema = Schema { id: 0, fields, partition_by: vec![] };
    let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    DeltaLog::create(store, &schema, &options, Deadline::NEVER).await.unwrap()
}
async fn table() -> DeltaLog {
    table_in(&store(), &[]).await
}

static COUNTER: AtomicUsize = AtomicUsize::new(0);

fn file(log: &DeltaLog) -> DataFile {
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let stats = vec![ColumnStats { column: "id".into(), min: Some(Scalar::Int(1)), max: Some(Scalar::Int(9)), nulls: 0 }];
    let schema_id = log.current().schema.schema.id;
    DataFile { path: format!("part-{n}.parquet"), size: 100, rows: 3, schema_id, created_ms: 1_795_966_155_192, stats }
}
fn user(name: &str) -> CommitUser {
    CommitUser::new(name)
}
fn one(log: &DeltaLog, name: &str, identifier: i64) -> Change {
    let message = CommitMessage { version: 1, user: user(name), partition: vec![], bucket: 0, total_buckets: -1, files: vec![file(log)] };
    let checkpoint = Some(Digest::of(&identifier.to_be_bytes()));
    let messages = vec![message];
    Change::Append(Committable { user: user(name), identifier, checkpoint, watermark: None, properties: BTreeMap::new(), messages })
}

async fn head(log: &DeltaLog) -> Head {
    log.head(None, None, None).await.unwrap()
}
async fn stage(log: &DeltaLog, head: &Head, change: &Change) -> Staged {
    log.stage(head, change, &mut Work::default()).await.unwrap()
}
async fn publish_staged(log: &DeltaLog, staged: &Staged) -> bool {
    publish(log.store(), &staged.name, staged.bytes.clone(), Deadline::NEVER).await.unwrap() == Publication::Published
}
async fn commit(log: &DeltaLog, change: &Change) -> Head {
    let before = head(log).await;
    let staged = stage(log, &before, change).await;
    assert!(publish_staged(log, &staged).await);
    assert_eq!(log.confirm(&before, &staged).await.unwrap(), Standing::In);
    head(log).await
}
async fn landed(log: &DeltaLog, name: &str, floor: Option<&Floor>) -> Landed {
    log.head(Some(&user(name)), floor, None).await.unwrap().landed
}
fn identifier(landed: &Landed) -> Option<i64> {
    if let Landed::At { identifier, .. } = landed { Some(*identifier) } else { None }
}
/// What another engine publishes.
async fn foreign(log: &DeltaLog, version: u64, actions: &[Action]) {
    log.store().put(&names::commit(version), action::encode(actions).unwrap().into()).await.unwrap();
}
fn txn(app: &str, version: i64) -> Action {
    Action::Txn(Txn { app_id: app.to_owned(), version, last_updated: Some(1) })
}

#[tokio::test]
async fn the_transaction_of_the_user_is_the_answer_whoever_committed_since() {
    let log = table().await;
    assert_eq!(landed(&log, "u", None).await, Landed::Never);
    commit(&log, &one(&log, "u", 1)).await;
    commit(&log, &one(&log, "other", 7)).await;
    let newest = commit(&log, &one(&log, "u", 5)).await;
    assert_eq!(newest.id, 3);
    for log in [&log, &DeltaLog::open(log.store()).await.unwrap()] {
        let Landed::At { identifier, checkpoint, id, sha256, closed_at } = landed(log, "u", None).await else { panic!() };
        assert_eq!((identifier, id, Some(sha256), closed_at), (5, 3, newest.sha256, None));
        assert_eq!(checkpoint, Some(Digest::of(&5i64.to_be_bytes())));
        assert_eq!(identifier_of(log, "other").await, Some(7));
    }
}
async fn identifier_of(log: &DeltaLog, name: &str) -> Option<i64> {
    identifier(&landed(log, name, None).await)
}

#[tokio::test]
async fn the_first_line_says_who_committed_what_and_the_transaction_is_dated() {
    let log = table().await;
    let newest = commit(&log, &one(&log, "u", 1)).await;
    let actions = action::decode(&newest.snapshot.unwrap()).unwrap();
    let Action::CommitInfo(info) = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(info.operation.as_deref(), Some("STREAMING UPDATE"));
    assert_eq!((info.operation_parameters["queryId"].as_str(), info.operation_parameters["epochId"].as_str()), (Some("u"), Some("1")));
    assert_eq!((info.is_blind_append, info.read_version), (Some(true), Some(0)));
    assert!(info.txn_id.is_some() && info.engine_info.as_deref().unwrap().starts_with("lakeward"));
    assert!(matches!(&actions[1], Action::Txn(Txn { version: 1, last_updated: Some(at), .. }) if *at > 0));
    let Action::Add(add) = &actions[2] else { panic!("{actions:?}") };
    assert!(add.data_change && add.partition_values.is_empty() && add.stats.as_deref().unwrap().contains("\"numRecords\":3"));
    assert_eq!(actions.len(), 3);
}

#[tokio::test]
async fn of_two_commits_on_one_version_one_wins_and_the_other_lands_above_it_reading_the_winner_alone() {
    let log = table().await;
    let twin = DeltaLog::open(log.store()).await.unwrap();
    let before = head(&log).await;
    let ours = stage(&log, &before, &one(&log, "u", 1)).await;
    commit(&twin, &one(&twin, "other", 1)).await;
    assert!(!publish_staged(&log, &ours).await);
    let after = log.head(Some(&user("u")), None, Some(&before)).await.unwrap();
    assert_eq!((after.id, after.landed.clone()), (1, Landed::Never));
    let again = stage(&log, &after, &one(&log, "u", 1)).await;
    assert!(again.id == 2 && publish_staged(&log, &again).await);
    assert_eq!(log.confirm(&after, &again).await.unwrap(), Standing::In);
}

#[tokio::test]
async fn closing_says_what_landed_last_and_goes_on_saying_so_without_its_commit() {
    for (landed_last, told) in [(Some(4), Some(4)), (None, None)] {
        let log = table().await;
        if let Some(identifier) = landed_last {
            commit(&log, &one(&log, "u", identifier)).await;
        }
        commit(&log, &Change::Close { user: user("u"), closed_at: landed_last, properties: BTreeMap::new() }).await;
        let closed = |landed: Landed| match landed {
            Landed::At { identifier: END_OF_INPUT, closed_at, .. } => closed_at,
            other => panic!("{other:?}"),
        };
        assert_eq!(closed(landed(&log, "u", None).await), Some(told));
        // A checkpoint keeps transactions and no commitInfo.
        let mut state = (*log.current()).clone();
        state.log.txns.values_mut().for_each(|seen| seen.commit = None);
        assert_eq!(closed(state.landed(&user("u"))), Some(told));
    }
}

#[tokio::test]
async fn a_commit_that_another_one_made_in_our_name_carries_no_checkpoint_of_ours() {
    let log = table().await;
    commit(&log, &one(&log, "u", 1)).await;
    foreign(&log, 2, &[txn("u", 2)]).await;
    let Landed::At { identifier: 2, checkpoint: Some(digest), .. } = landed(&log, "u", None).await else { panic!() };
    assert_eq!(digest, Digest::of_nothing());
}

#[tokio::test]
async fn another_table_other_bytes_and_a_head_below_the_floor_are_other() {
    let store = store();
    let log = table_in(&store, &[]).await;
    commit(&log, &one(&log, "u", 1)).await;
    let floor = commit(&log, &one(&log, "u", 2)).await.floor();
    assert_eq!(identifier(&landed(&log, "u", Some(&floor)).await), Some(2));
    let other = async |floor: &Floor| {
        let log = DeltaLog::open(&store).await.unwrap();
        matches!(landed(&log, "u", Some(floor)).await, Landed::Other(_))
    };
    assert!(!other(&floor).await);
    assert!(other(&Floor { id: 3, ..floor.clone() }).await, "restored to an older version");
    assert!(other(&Floor { table: "x".into(), ..floor.clone() }).await);
    assert!(other(&Floor { sha256: Some(Digest::of(b"x")), ..floor.clone() }).await);
    assert!(other(&Floor { id: 1, sha256: Some(Digest::of(b"x")), ..floor.clone() }).await, "below the newest too");
    // An old commit that was cleaned up says nothing against it.
    store.delete(&names::commit(0)).await.unwrap();
    let log = DeltaLog { store: store.clone(), state: log.state.clone() };
    assert!(!matches!(landed(&log, "u", Some(&Floor { id: 0, ..floor.clone() })).await, Landed::Other(_)));
}

/// A running writer, whose table somebody removes and makes anew.
#[tokio::test]
async fn a_table_that_is_recreated_under_a_writer_is_other_and_nothing_is_published_into_it() {
    let store = store();
    let log = table_in(&store, &[]).await;
    let floor = commit(&log, &one(&log, "u", 1)).await.floor();
    for entry in store.list_all("").await.unwrap() {
        store.delete(&entry.name).await.unwrap();
    }
    let gone = log.head(Some(&user("u")), Some(&floor), None).now_or_never().unwrap().unwrap_err();
    assert_eq!(gone.kind(), Kind::Data);
    table_in(&store, &[]).await;
    assert!(matches!(landed(&log, "u", Some(&floor)).await, Landed::Other(_)));
}

/// The log was cleaned up to a version above ours while our commit was on its way: it fills a hole that nobody reads.
#[tokio::test]
async fn a_commit_in_a_slot_that_was_cleaned_up_is_removed_again_and_lands_above() {
    let store = store();
    let log = table_in(&store, &[("delta.checkpointInterval", "3")]).await;
    let before = head(&log).await;
    let late = stage(&log, &before, &one(&log, "u", 1)).await;
    let twin = DeltaLog::open(&store).await.unwrap();
    for n in 1..=4 {
        commit(&twin, &one(&twin, "other", n)).await;
    }
    settled(&twin, 3).await;
    for version in 0..3 {
        store.delete(&names::commit(version)).await.unwrap();
    }
    assert!(publish_staged(&log, &late).await);
    assert_eq!(log.confirm(&before, &late).await.unwrap(), Standing::Dead);
    assert_eq!(store.size(&late.name).await.unwrap(), None);
    let after = log.head(Some(&user("u")), None, Some(&before)).await.unwrap();
    assert_eq!((after.id, after.landed.clone()), (4, Landed::Never));
    let again = stage(&log, &after, &one(&log, "u", 1)).await;
    assert!(publish_staged(&log, &again).await);
    assert_eq!(log.confirm(&after, &again).await.unwrap(), Standing::In);
}

/// Ours landed; then others went on, made a checkpoint and cleaned up, all before we could confirm.
#[tokio::test]
async fn a_commit_that_was_cleaned_up_before_it_is_confirmed_is_in_history() {
    let store = store();
    let log = table_in(&store, &[("delta.checkpointInterval", "3")]).await;
    let before = head(&log).await;
    let ours = stage(&log, &before, &one(&log, "u", 1)).await;
    assert!(publish_staged(&log, &ours).await);
    let twin = DeltaLog::open(&store).await.unwrap();
    for n in 1..=4 {
        commit(&twin, &one(&twin, "other", n)).await;
    }
    settled(&twin, 3).await;
    for version in 0..3 {
        store.delete(&names::commit(version)).await.unwrap();
    }
    assert_eq!(log.confirm(&before, &ours).await.unwrap(), Standing::In);
    assert_eq!(identifier_of(&log, "u").await, Some(1));
}

/// The same, and a newer owner of the chain has even landed the next identifier.
#[tokio::test]
async fn a_commit_that_a_newer_owner_built_on_before_it_is_confirmed_stays() {
    let store = store();
    let log = table_in(&store, &[("delta.checkpointInterval", "3")]).await;
    let before = head(&log).await;
    let ours = stage(&log, &before, &one(&log, "u", 1)).await;
    assert!(publish_staged(&log, &ours).await);
    let twin = DeltaLog::open(&store).await.unwrap();
    for n in 2..=5 {
        commit(&twin, &one(&twin, "u", n)).await;
    }
    settled(&twin, 3).await;
    assert_eq!(log.confirm(&before, &ours).await.unwrap(), Standing::In);
    assert!(store.size(&ours.name).await.unwrap().is_some(), "it is part of history");
}

/// Waits for the checkpoint that is written beside.
async fn settled(log: &DeltaLog, version: u64) {
    for _ in 0..2000 {
        if log.pointed_to().await.unwrap() == Some(version) {
            return;
        }
        log.store().env().sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("no checkpoint of version {version}");
}

#[tokio::test]
async fn commit_times_rise_where_the_table_asks_for_it_whatever_the_clock_says() {
    let log = table_in(&store(), &[("delta.enableInCommitTimestamps", "true")]).await;
    let time = async |log: &DeltaLog| log.current().log.info.in_commit_timestamp.unwrap();
    commit(&log, &one(&log, "u", 1)).await;
    let first = time(&log).await;
    let far = first + 1_000_000;
    foreign(&log, 2, &[Action::CommitInfo(CommitInfo { in_commit_timestamp: Some(far), ..CommitInfo::default() })]).await;
    commit(&log, &one(&log, "u", 2)).await;
    assert_eq!(time(&log).await, far + 1);
}

/// Every kind of unclear answer to the create of a commit.
#[tokio::test]
async fn after_a_lost_reply_every_added_path_is_named_once_and_nothing_was_deleted() {
    for put in [Put::AppliesThenFails, Put::AppliesThenExists, Put::AppliesLater, Put::FailsBefore, Put::Conflict] {
        let scripted = Scripted::new(&[], &[]);
        let over: Arc<dyn object_store::ObjectStore> = scripted.clone();
        let env = crate::store::testing::Jumping::env();
        let store = Store::over(over, object_store::path::Path::from("t"), "s3://t", &env, StoreOptions::default());
        let log = table_in(&store, &[]).await;
        let change = one(&log, "u", 1);
        let Change::Append(c) = &change else { unreachable!() };
        let path = c.messages[0].files[0].path.clone();
        store.put_new(&path, Bytes::from_static(b"rows")).await.unwrap();
        let before = head(&log).await;
        let staged = stage(&log, &before, &change).await;
        scripted.puts.lock().unwrap().push_back(put);
        assert!(publish_staged(&log, &staged).await, "{put:?}");
        assert_eq!(log.confirm(&before, &staged).await.unwrap(), Standing::In, "{put:?}");
        let live = log.live_files(1, &|_| true).await.unwrap();
        assert_eq!(live.iter().map(|add| add.path.as_str()).collect::<Vec<_>>(), [path.as_str()], "{put:?}");
        assert!(store.size(&path).await.unwrap().is_some(), "{put:?}");
        assert_eq!(head(&log).await.id, 1, "{put:?}");
    }
}

#[tokio::test]
async fn what_is_no_table_says_so() {
    let error = DeltaLog::open(&store()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("_delta_log"), "{error}");
}
