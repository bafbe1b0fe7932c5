//! A commit that loses the race for its version: what the winner may have done, and what stops us. Nobody else's program takes part: the
//! winner's commit is put under the name at the very moment when ours would appear there.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use futures::TryStreamExt as _;
use lakeward::env::Env;
use lakeward::schema::Field;
use lakeward::store::{DiskObserver, DiskOp, Durability, Store, StoreOptions};
use lakeward::table::{CommitMessage, CommitUser, Table, TableCommit, TableSpec};
use lakeward::{Error, Kind};
use serde_json::{Value, json};

use super::super::model::batch;

/// Is first with these commits, one for each time that one of ours is about to appear.
#[derive(Default)]
struct Faster(Mutex<VecDeque<String>>);

impl DiskObserver for Faster {
    fn before(&self, op: &DiskOp<'_>) -> io::Result<()> {
        let (DiskOp::Link { to, .. } | DiskOp::Rename { to, .. }) = op else { return Ok(()) };
        let commit = to.extension().is_some_and(|e| e == "json") && to.parent().is_some_and(|p| p.ends_with("_delta_log"));
        if commit && let Some(bytes) = self.0.lock().unwrap().pop_front() {
            fs::write(to, bytes)?;
        }
        Ok(())
    }
    fn after(&self, _: &DiskOp<'_>) {}
}

/// A table whose user has landed identifier 5 with the rows 1 and 2, and has files for the rows 3 and 4.
struct Rig {
    dir: tempfile::TempDir,
    faster: Arc<Faster>,
    table: Table,
    commit: TableCommit,
    messages: Vec<CommitMessage>,
}

const USER: &str = "me";

async fn messages(table: &Table, ids: [u32; 2]) -> Vec<CommitMessage> {
    let rows: Vec<Vec<Value>> = ids.iter().map(|id| vec![json!(id.to_string()), json!("s")]).collect();
    let mut write = table.new_write(&CommitUser::new(USER)).unwrap();
    write.write(&batch(&table.schema().fields, &rows)).await.unwrap();
    write.prepare_commit().await.unwrap()
}

impl Rig {
    async fn new() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let faster = Arc::new(Faster::default());
        let options = StoreOptions { durability: Durability::None, disk: Some(faster.clone()), ..StoreOptions::default() };
        let store = Store::open(dir.path().join("t").to_str().unwrap(), &Env::real(), options).unwrap();
        let fields = [Field::parse(0, "id", "BIGINT").unwrap(), Field::parse(1, "s", "STRING").unwrap()];
        let table = Table::open_or_create_in(store, &TableSpec::delta(fields)).await.unwrap();
        let mut commit = table.new_commit(&CommitUser::new(USER));
        assert_eq!(commit.commit(5, messages(&table, [1, 2]).await).await.unwrap(), 1);
        let messages = messages(&table, [3, 4]).await;
        Rig { dir, faster, table, commit, messages }
    }
    fn log(&self, version: u64) -> PathBuf {
        self.dir.path().join(format!("t/_delta_log/{version:020}.json"))
    }
    fn actions(&self, version: u64) -> Vec<Value> {
        fs::read_to_string(self.log(version)).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
    fn action(&self, version: u64, kind: &str) -> Option<Value> {
        self.actions(version).iter().find_map(|a| a.get(kind).cloned())
    }
    fn metadata(&self, change: impl Fn(&mut Value)) -> Value {
        let mut metadata = self.action(0, "metaData").unwrap();
        change(&mut metadata);
        json!({ "metaData": metadata })
    }
    /// Somebody commits this first, or before ours begins.
    async fn against(&mut self, racing: bool, actions: &[Value]) -> Result<u64, Error> {
        let info = json!({"commitInfo": {"timestamp": 1, "operation": "OTHER"}});
        let text: String = std::iter::once(&info).chain(actions).map(|a| format!("{a}\n")).collect();
        if racing {
            self.faster.0.lock().unwrap().push_back(text)
        } else {
            fs::write(self.log(2), text).unwrap()
        }
        let landed = self.commit.commit(6, self.messages.clone()).await;
        assert!(self.faster.0.lock().unwrap().is_empty(), "the race took place");
        landed
    }
    async fn ids(&self) -> Vec<i64> {
        use arrow::array::AsArray as _;
        let batches: Vec<_> = self.table.scan().select(["id"]).stream().await.unwrap().try_collect().await.unwrap();
        let of = |b: &arrow::array::RecordBatch| b.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec();
        let mut ids: Vec<i64> = batches.iter().flat_map(of).collect();
        ids.sort_unstable();
        ids
    }
    fn files_are_there(&self) {
        for file in self.messages.iter().flat_map(|m| &m.files) {
            assert!(self.dir.path().join("t").join(&file.path).exists(), "{} was deleted", file.path);
        }
    }
}

/// Goes on with what the winner did, in a race and when it came before; our commit is the next version.
async fn goes_on(actions: impl Fn(&Rig) -> Vec<Value>) -> Rig {
    let mut last = None;
    for racing in [false, true] {
        let mut rig = Rig::new().await;
        let actions = actions(&rig);
        assert_eq!(rig.against(racing, &actions).await.unwrap(), 3, "racing: {racing}");
        assert_eq!(rig.action(3, "txn").unwrap()["version"], 6);
        rig.files_are_there();
        last = Some(rig);
    }
    last.unwrap()
}

/// Stops, publishes nothing and deletes nothing; the error.
async fn stops(actions: impl Fn(&Rig) -> Vec<Value>, kind: Kind) -> Error {
    let mut last = None;
    for racing in [false, true] {
        let mut rig = Rig::new().await;
        let actions = actions(&rig);
        let e = rig.against(racing, &actions).await.unwrap_err();
        assert_eq!(e.kind(), kind, "racing: {racing}: {e}");
        assert!(e.next_step().is_some(), "{e}");
        assert!(!rig.log(3).exists(), "racing: {racing}: something was published after {e}");
        rig.files_are_there();
        last = Some(e);
    }
    last.unwrap()
}

fn columns(more: &str) -> impl Fn(&mut Value) {
    let schema = format!(
        r#"{{"type":"struct","fields":[{{"name":"id","type":"long","nullable":true,"metadata":{{}}}},{{"name":"s","type":"string","nullable":true,"metadata":{{}}}}{more}]}}"#
    );
    move |metadata| metadata["schemaString"] = schema.clone().into()
}

#[tokio::test]
async fn files_that_others_add_and_remove_are_no_conflict() {
    let add = |rig: &Rig| {
        let mut add = rig.action(1, "add").unwrap();
        let from = rig.dir.path().join("t").join(add["path"].as_str().unwrap());
        fs::copy(from, rig.dir.path().join("t/other.parquet")).unwrap();
        add["path"] = "other.parquet".into();
        vec![json!({ "add": add })]
    };
    assert_eq!(goes_on(add).await.ids().await, [1, 1, 2, 2, 3, 4]);
    let remove = |rig: &Rig| {
        let path = rig.action(1, "add").unwrap()["path"].clone();
        vec![json!({"remove": {"path": path, "dataChange": true, "deletionTimestamp": 1}})]
    };
    assert_eq!(goes_on(remove).await.ids().await, [3, 4]);
    let domain = |_: &Rig| vec![json!({"txn": {"appId": "another", "version": 9}})];
    assert_eq!(goes_on(domain).await.ids().await, [1, 2, 3, 4]);
}

#[tokio::test]
async fn changed_columns_and_properties_are_looked_at_anew() {
    let rig = goes_on(|rig| vec![rig.metadata(|m| m["configuration"]["delta.checkpointInterval"] = "3".into())]).await;
    assert_eq!(rig.ids().await, [1, 2, 3, 4]);
    let more = columns(r#",{"name":"x","type":"integer","nullable":true,"metadata":{}}"#);
    assert_eq!(goes_on(|rig| vec![rig.metadata(&more)]).await.ids().await, [1, 2, 3, 4]);
    for (change, told) in [
        (columns(r#",{"name":"x","type":"integer","nullable":false,"metadata":{}}"#), "`x`"),
        (columns(r#",{"name":"x","type":"integer","nullable":true,"metadata":{"CURRENT_DEFAULT":"1"}}"#), "`allowColumnDefaults`"),
    ] {
        let e = stops(|rig| vec![rig.metadata(&change)], Kind::Invalid).await;
        assert!(e.to_string().contains(told), "{e}");
    }
    let other_type = |m: &mut Value| m["schemaString"] = m["schemaString"].as_str().unwrap().replace("\"long\"", "\"string\"").into();
    let e = stops(|rig| vec![rig.metadata(other_type)], Kind::Invalid).await;
    assert!(e.to_string().contains("`id`"), "{e}");
    let partitioned = |m: &mut Value| m["partitionColumns"] = json!(["s"]);
    stops(|rig| vec![rig.metadata(partitioned)], Kind::Invalid).await;
    let forgets = |m: &mut Value| m["configuration"]["delta.setTransactionRetentionDuration"] = "interval 1 day".into();
    let e = stops(|rig| vec![rig.metadata(forgets)], Kind::Invalid).await;
    assert!(e.to_string().contains("delta.setTransactionRetentionDuration"), "{e}");
}

#[tokio::test]
async fn a_protocol_that_grows_is_followed_as_far_as_it_is_understood() {
    let protocol = |reader: &[&str], writer: &[&str]| {
        let versions = if reader.is_empty() { (1, Value::Null) } else { (3, json!(reader)) };
        let mut protocol = json!({"minReaderVersion": versions.0, "minWriterVersion": 7, "writerFeatures": writer});
        if !versions.1.is_null() {
            protocol["readerFeatures"] = versions.1;
        }
        vec![json!({ "protocol": protocol })]
    };
    let known = protocol(&["deletionVectors"], &["deletionVectors", "domainMetadata"]);
    assert_eq!(goes_on(|_| known.clone()).await.ids().await, [1, 2, 3, 4]);
    for (reader, writer, name) in [
        (vec![], vec!["icebergCompatV2"], "`icebergCompatV2`"),
        (vec![], vec!["tomorrow"], "`tomorrow`"),
        (vec!["tomorrow"], vec!["tomorrow"], "`tomorrow`"),
        (vec!["catalogManaged"], vec!["catalogManaged", "inCommitTimestamp"], "`catalogManaged`"),
    ] {
        let e = stops(|_| protocol(&reader, &writer), Kind::Invalid).await;
        assert!(e.to_string().contains(name), "{e}");
    }
    let in_future = 32_503_680_000_000_i64;
    let timestamps = |rig: &Rig| {
        let on = |m: &mut Value| m["configuration"]["delta.enableInCommitTimestamps"] = "true".into();
        [protocol(&[], &["inCommitTimestamp"]), vec![rig.metadata(on)]].concat()
    };
    let rig = goes_on(timestamps).await;
    assert!(rig.actions(3)[0]["commitInfo"]["inCommitTimestamp"].is_i64(), "the first line says when");
    // A winner whose clock is ahead: ours comes after it.
    let mut rig = Rig::new().await;
    let mut actions = timestamps(&rig);
    let info = json!({"commitInfo": {"inCommitTimestamp": in_future}});
    actions.insert(0, info);
    let text: String = actions.iter().map(|a| format!("{a}\n")).collect();
    rig.faster.0.lock().unwrap().push_back(text);
    assert_eq!(rig.commit.commit(6, rig.messages.clone()).await.unwrap(), 3);
    assert_eq!(rig.actions(3)[0]["commitInfo"]["inCommitTimestamp"], in_future + 1);
}

#[tokio::test]
async fn the_same_user_moved_by_somebody_else_stops_us_whatever_the_direction() {
    for version in [0, 4, 7, i64::MAX] {
        let moved = move |_: &Rig| vec![json!({"txn": {"appId": USER, "version": version, "lastUpdated": 1}})];
        for racing in [false, true] {
            let mut rig = Rig::new().await;
            let e = rig.against(racing, &moved(&rig)).await.unwrap_err();
            assert!(matches!(e.kind(), Kind::Data | Kind::Conflict | Kind::Fenced), "{version}, racing {racing}: {e}");
            assert!(!rig.log(3).exists(), "{version}, racing {racing}: {e}");
            rig.files_are_there();
        }
    }
    // The very identifier that we were about to land: not ours, and never taken for it.
    for racing in [false, true] {
        let mut rig = Rig::new().await;
        let e = rig.against(racing, &[json!({"txn": {"appId": USER, "version": 6}})]).await.unwrap_err();
        assert_eq!(e.kind(), Kind::Conflict, "{e}");
        assert!(!rig.log(3).exists());
    }
    // Or before the user has landed anything.
    let rig = Rig::new().await;
    let fresh = CommitUser::new("fresh");
    let mut commit = rig.table.new_commit(&fresh);
    rig.faster.0.lock().unwrap().push_back(format!("{}\n", json!({"txn": {"appId": "fresh", "version": 0}})));
    assert!(commit.commit(1, Vec::new()).await.is_err());
    assert!(!rig.log(3).exists());
}

#[tokio::test]
async fn a_table_that_is_replaced_by_another_is_never_appended_to() {
    for racing in [false, true] {
        let mut rig = Rig::new().await;
        let e = rig.against(racing, &[rig.metadata(|m| m["id"] = "another".into())]).await.unwrap_err();
        assert_eq!(e.kind(), Kind::Data, "{e}");
        assert!(!rig.log(3).exists());
    }
}

/// A directory has these commits and no others.
#[tokio::test]
async fn several_lost_races_in_a_row_are_lost_one_by_one() {
    let mut rig = Rig::new().await;
    for n in 0..3 {
        rig.faster.0.lock().unwrap().push_back(format!("{}\n", json!({"txn": {"appId": "another", "version": n}})));
    }
    assert_eq!(rig.commit.commit(6, rig.messages.clone()).await.unwrap(), 5);
    let names: Vec<_> = (0..=5).filter(|v| Path::new(&rig.log(*v)).exists()).collect();
    assert_eq!(names, [0, 1, 2, 3, 4, 5]);
    assert_eq!(rig.ids().await, [1, 2, 3, 4]);
}
