use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::memory::InMemory;

use super::super::super::options::RawOptions;
use super::super::super::paths;
use super::super::tests::{file, head, publish_staged, user};
use super::*;
use crate::env::{Deadline, Env};
use crate::format::{Change, CommitMessage, Committable, SnapshotLog as _, Staged, Standing, Work};
use crate::schema::{Field, Schema};
use crate::store::{Store, StoreOptions};

async fn table(partition_by: &[&str], options: &[(&str, &str)]) -> PaimonLog {
    let store =
        Store::over(Arc::new(InMemory::new()), object_store::path::Path::from("t"), "memory:///t", &Env::real(), StoreOptions::default());
    let fields = vec![Field::parse(0, "id", "BIGINT").unwrap(), Field::parse(1, "dt", "INT").unwrap()];
    let schema = Schema { id: 0, fields, partition_by: partition_by.iter().map(|s| (*s).to_owned()).collect() };
    let options = [("bucket", "2"), ("bucket-key", "id")].iter().chain(options);
    let options: RawOptions = options.map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    PaimonLog::create(&store, &schema, &options, None, Deadline::NEVER).await.unwrap()
}
async fn again(log: &PaimonLog) -> PaimonLog {
    PaimonLog::open(log.store()).await.unwrap()
}

/// Files of so many rows each, for one bucket.
fn message(dt: Option<i64>, bucket: i32, rows: &[u64]) -> CommitMessage {
    let dir = dt.map_or(String::new(), |d| format!("dt={d}/"));
    let files = rows.iter().map(|n| file(&format!("{dir}bucket-{bucket}"), *n)).collect();
    let partition = dt.map(|d| vec![Some(Scalar::Int(d))]).unwrap_or_default();
    CommitMessage { version: 1, user: user("u"), partition, bucket, total_buckets: 2, files }
}
fn change(identifier: i64, messages: Vec<CommitMessage>) -> Change {
    Change::Append(Committable { user: user("u"), identifier, checkpoint: None, watermark: None, properties: BTreeMap::new(), messages })
}
async fn stage(log: &PaimonLog, change: &Change) -> (Head, Staged) {
    let before = head(log).await;
    let staged = log.stage(&before, change, &mut Work::default()).await.unwrap();
    (before, staged)
}
async fn publish(log: &PaimonLog, (before, staged): (Head, Staged)) {
    assert!(publish_staged(log, &staged).await);
    assert_eq!(log.confirm(&before, &staged).await.unwrap(), Standing::In);
}
async fn commit(log: &PaimonLog, messages: Vec<CommitMessage>) {
    publish(log, stage(log, &change(1, messages)).await).await;
}
/// Bucket, least and greatest sequence number of each file that a snapshot adds.
async fn added(log: &PaimonLog, id: u64) -> Vec<(i32, i64, i64)> {
    let snapshot = log.snapshot(id).await.unwrap().unwrap();
    let mut all = Vec::new();
    for meta in log.read_list(&snapshot.delta_manifest_list).await.unwrap() {
        all.extend(log.read_manifest(&meta.name).await.unwrap());
    }
    all.iter().map(|e| (e.bucket, e.file.min_sequence, e.file.max_sequence)).collect()
}

#[tokio::test]
async fn numbers_go_on_in_each_bucket_after_commits_and_restarts() {
    let log = table(&[], &[]).await;
    commit(&log, vec![message(None, 1, &[3, 2]), message(None, 0, &[1]), message(None, 1, &[4])]).await;
    assert_eq!(added(&log, 1).await, [(1, 0, 2), (1, 3, 4), (0, 0, 0), (1, 5, 8)]);
    commit(&log, vec![message(None, 0, &[2])]).await;
    commit(&log, vec![message(None, 1, &[1])]).await;
    assert_eq!((added(&log, 2).await, added(&log, 3).await), (vec![(0, 1, 2)], vec![(1, 9, 9)]));
    commit(&again(&log).await, vec![message(None, 1, &[1]), message(None, 0, &[7])]).await;
    assert_eq!(added(&log, 4).await, [(1, 10, 10), (0, 3, 9)]);
    // The first log has seen nothing of that, and follows.
    commit(&log, vec![message(None, 1, &[1]), message(None, 0, &[1])]).await;
    assert_eq!(added(&log, 5).await, [(1, 11, 11), (0, 10, 10)]);
    let snapshot = log.snapshot(5).await.unwrap().unwrap();
    let order: Vec<_> = log.files_at(&snapshot).await.unwrap().iter().map(|f| (f.bucket, f.meta.min_sequence)).collect();
    assert_eq!(order, [(1, 0), (1, 3), (1, 5), (1, 9), (1, 10), (1, 11), (0, 0), (0, 1), (0, 3), (0, 10)]);
}

#[tokio::test]
async fn partitions_count_for_themselves_and_new_ones_begin_at_zero() {
    let log = table(&["dt"], &[]).await;
    for round in 0..4 {
        commit(&again(&log).await, vec![message(Some(round), 0, &[2]), message(Some(7), 0, &[3])]).await;
        let at = u64::try_from(round).unwrap() + 1;
        assert_eq!(added(&log, at).await, [(0, 0, 1), (0, 3 * round, 3 * round + 2)]);
    }
    commit(&log, vec![message(Some(1), 0, &[1]), message(Some(1), 1, &[1])]).await;
    assert_eq!(added(&log, 5).await, [(0, 2, 2), (1, 0, 0)]);
}

#[tokio::test]
async fn tables_that_keep_no_order_begin_each_file_at_zero() {
    let log = table(&[], &[("bucket-append-ordered", "false")]).await;
    commit(&log, vec![message(None, 0, &[3, 2])]).await;
    commit(&log, vec![message(None, 0, &[3])]).await;
    assert_eq!((added(&log, 1).await, added(&log, 2).await), (vec![(0, 0, 2), (0, 0, 1)], vec![(0, 0, 2)]));
}

fn delta_list(staged: &Staged) -> String {
    let json: serde_json::Value = serde_json::from_slice(&staged.bytes).unwrap();
    json["deltaManifestList"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_lost_race_numbers_again_and_uses_its_manifest_again_only_when_no_number_changed() {
    for (winner, reused, first) in [(0, false, 5), (1, true, 0)] {
        let (log, other) = {
            let log = table(&[], &[]).await;
            let other = again(&log).await;
            (log, other)
        };
        let (ours, mut work) = (change(1, vec![message(None, 0, &[2])]), Work::default());
        let before = head(&log).await;
        let lost = log.stage(&before, &ours, &mut work).await.unwrap();
        commit(&other, vec![message(None, winner, &[5])]).await;
        assert!(!publish_staged(&log, &lost).await);
        let before = head(&log).await;
        let won = log.stage(&before, &ours, &mut work).await.unwrap();
        assert_eq!(delta_list(&lost) == delta_list(&won), reused);
        publish(&log, (before, won)).await;
        assert_eq!(added(&log, 2).await, [(0, first, first + 1)]);
        // What was staged and lost must not count either.
        commit(&log, vec![message(None, 0, &[1])]).await;
        assert_eq!(added(&log, 3).await, [(0, first + 2, first + 2)]);
    }
}

#[tokio::test]
async fn a_history_that_was_taken_back_is_read_anew() {
    let log = table(&[], &[]).await;
    let other = again(&log).await;
    commit(&log, vec![message(None, 0, &[1])]).await;
    commit(&log, vec![message(None, 0, &[100])]).await;
    for id in [2, 1] {
        log.store().delete(&paths::snapshot(id)).await.unwrap();
    }
    log.store().put(paths::LATEST, "0".into()).await.unwrap();
    commit(&other, vec![message(None, 0, &[7])]).await;
    commit(&other, vec![message(None, 0, &[7])]).await;
    commit(&other, vec![message(None, 0, &[7])]).await;
    let before = other.head(None, None, None).await.unwrap();
    let staged = log.stage(&before, &change(9, vec![message(None, 0, &[1])]), &mut Work::default()).await.unwrap();
    publish(&log, (before, staged)).await;
    assert_eq!(added(&log, 4).await, [(0, 21, 21)]);
}

async fn alter(log: &PaimonLog, buckets: &str) {
    let mut next = (*log.schema()).clone();
    let mut schema = (*next.schema).clone();
    schema.id += 1;
    next.schema = Arc::new(schema);
    next.raw_options.insert("bucket".into(), buckets.into());
    log.store().put(&paths::schema(next.schema.id), next.encode().unwrap().into()).await.unwrap();
}

#[tokio::test]
async fn rows_spread_over_another_number_of_buckets_are_never_added() {
    let log = table(&["dt"], &[]).await;
    commit(&log, vec![message(Some(1), 0, &[1])]).await;
    alter(&log, "4").await;
    let old = change(2, vec![message(Some(1), 1, &[1])]);
    // Also by a process that starts after the change.
    for log in [&log, &again(&log).await] {
        let e = log.stage(&head(log).await, &old, &mut Work::default()).await.unwrap_err();
        assert_eq!(e.kind(), crate::Kind::Invalid);
        assert!(e.to_string().contains("spreads rows over 2 buckets, and the table's `bucket` is now 4"), "{e}");
    }
    let four = |dt, bucket| CommitMessage { total_buckets: 4, ..message(Some(dt), bucket, &[1]) };
    for log in [&log, &again(&log).await] {
        let e = log.stage(&head(log).await, &change(2, vec![four(1, 3)]), &mut Work::default()).await.unwrap_err();
        assert_eq!(e.kind(), crate::Kind::Conflict);
        assert!(e.to_string().contains("dt=1: 1 live files are spread over 2 buckets, and the table's `bucket` is now 4"), "{e}");
    }
    commit(&log, vec![four(2, 3)]).await;
    let e = log.stage(&head(&log).await, &change(3, vec![four(2, 4)]), &mut Work::default()).await.unwrap_err();
    assert!(e.to_string().contains("bucket 4 of 4"), "{e}");
}
