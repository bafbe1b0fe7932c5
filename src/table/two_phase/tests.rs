//! The contract of Paimon's `StreamTableCommit`.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};

use super::*;
use crate::env::Env;
use crate::error::Kind;
use crate::schema::Field;
use crate::store::{Store, StoreOptions};
use crate::table::TableSpec;

async fn table(name: &str) -> Table {
    let store = Store::open(&format!("memory://two-phase-{name}/t"), &Env::real(), StoreOptions::default()).unwrap();
    Table::open_or_create_in(store, &TableSpec::paimon([Field::parse(0, "id", "BIGINT NOT NULL").unwrap()])).await.unwrap()
}

fn user(name: &str) -> CommitUser {
    CommitUser::new(name)
}

/// Messages for two rows.
async fn messages(table: &Table, name: &str) -> Vec<CommitMessage> {
    let mut write = table.new_write(&user(name)).unwrap();
    let ids: Int64Array = vec![1i64, 2].into();
    write.write(&RecordBatch::try_new(table.schema().to_arrow(), vec![Arc::new(ids)]).unwrap()).await.unwrap();
    write.prepare_commit().await.unwrap()
}

async fn rows(table: &Table) -> u64 {
    table.scan().count().await.unwrap()
}

async fn remove_snapshot(table: &Table, id: u64) {
    table.store().delete(&format!("snapshot/snapshot-{id}")).await.unwrap();
}

#[tokio::test]
async fn an_identifier_at_or_below_the_newest_is_a_conflict_and_never_skipped() {
    let table = table("old").await;
    let mut commit = table.new_commit(&user("u"));
    assert_eq!(commit.commit(3, messages(&table, "u").await).await.unwrap(), 1);
    for id in [3, 2, i64::MIN] {
        for commit in [&mut commit, &mut table.new_commit(&user("u"))] {
            let error = commit.commit(id, messages(&table, "u").await).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Conflict, "{error}");
        }
    }
    assert_eq!(rows(&table).await, 2);
    assert_eq!(commit.commit(i64::MAX, vec![]).await.unwrap(), 2, "no messages: an empty snapshot");
    assert_eq!(rows(&table).await, 2);
}

#[tokio::test]
async fn filter_and_commit_sorts_skips_what_landed_and_stops_at_the_first_failure() {
    let table = table("filter").await;
    let mut commit = table.new_commit(&user("u"));
    let list = [(5, messages(&table, "u").await), (1, messages(&table, "u").await), (3, messages(&table, "u").await)];
    commit.commit(1, list[1].1.clone()).await.unwrap();
    let gone = list[0].1[0].files[0].path.clone();
    let bytes = table.store().get(&gone).await.unwrap().unwrap();
    table.store().delete(&gone).await.unwrap();
    let error = commit.filter_and_commit(list.to_vec()).await.unwrap_err();
    assert!(error.kind() == Kind::Data && error.to_string().contains(&gone), "{error}");
    assert_eq!(rows(&table).await, 4, "1 was skipped, 3 landed, 5 stopped it");
    table.store().put_new(&gone, bytes).await.unwrap();
    let filtered = table.new_commit(&user("u")).filter_and_commit(list.to_vec()).await.unwrap();
    assert_eq!(filtered, Filtered { landed: vec![5], skipped: vec![1, 3] });
    let filtered = commit.filter_and_commit(list.to_vec()).await.unwrap();
    assert_eq!(filtered, Filtered { landed: vec![], skipped: vec![1, 3, 5] });
    assert_eq!(rows(&table).await, 6);
    let twice = vec![(7, vec![]), (7, vec![])];
    assert_eq!(commit.filter_and_commit(twice).await.unwrap_err().kind(), Kind::Invalid);
}

#[tokio::test]
async fn a_user_that_is_not_found_in_a_history_that_was_expired_is_data() {
    let table = table("expired").await;
    table.new_commit(&user("u")).commit(1, messages(&table, "u").await).await.unwrap();
    for id in 1..3 {
        table.new_commit(&user("other")).commit(id, vec![]).await.unwrap();
    }
    let mut knows = table.new_commit(&user("u"));
    knows.commit(2, messages(&table, "u").await).await.unwrap();
    table.new_commit(&user("other")).commit(9, vec![]).await.unwrap();
    for id in 1..=4 {
        remove_snapshot(&table, id).await;
    }
    let again = vec![(2, messages(&table, "u").await)];
    for result in [
        table.new_commit(&user("u")).filter_and_commit(again.clone()).await.map(drop),
        table.new_commit(&user("u")).commit(3, vec![]).await.map(drop),
    ] {
        assert_eq!(result.unwrap_err().kind(), Kind::Data);
    }
    assert_eq!(knows.filter_and_commit(again).await.unwrap().skipped, [2], "who has committed knows where to look");
}

#[tokio::test]
async fn a_message_of_another_user_is_refused() {
    let table = table("foreign").await;
    let theirs = messages(&table, "they").await;
    let mut commit = table.new_commit(&user("u"));
    assert_eq!(commit.commit(1, theirs.clone()).await.unwrap_err().kind(), Kind::Invalid);
    assert_eq!(commit.filter_and_commit(vec![(1, theirs.clone())]).await.unwrap_err().kind(), Kind::Invalid);
    assert_eq!(commit.abort(theirs).await.unwrap_err().kind(), Kind::Invalid);
}

#[tokio::test]
async fn abort_removes_what_was_not_committed_and_nothing_else() {
    let table = table("abort").await;
    let mut commit = table.new_commit(&user("u"));
    let (landed, unused) = (messages(&table, "u").await, messages(&table, "u").await);
    commit.commit(1, landed.clone()).await.unwrap();
    assert_eq!(commit.abort(landed).await.unwrap_err().kind(), Kind::Conflict);
    assert_eq!(rows(&table).await, 2);
    commit.abort(unused.clone()).await.unwrap();
    commit.abort(unused.clone()).await.unwrap();
    assert_eq!(table.store().size(&unused[0].files[0].path).await.unwrap(), None);
}

/// Two committers of one user: the second has looked before the first landed.
#[tokio::test]
async fn of_two_commits_of_one_identifier_by_one_user_the_second_is_a_conflict() {
    let table = table("race").await;
    let (mut first, mut second) = (table.new_commit(&user("u")), table.new_commit(&user("u")));
    let (last, floor) = second.newest().await.unwrap();
    assert_eq!(last, None);
    first.commit(1, messages(&table, "u").await).await.unwrap();
    let messages = messages(&table, "u").await;
    let again = Committable { user: user("u"), identifier: 1, checkpoint: None, watermark: None, properties: BTreeMap::new(), messages };
    let error = second.publish(again, last, &floor).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert_eq!(rows(&table).await, 2);
}
