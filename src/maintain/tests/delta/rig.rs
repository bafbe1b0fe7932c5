//! A small Delta table in memory, and its commits and checkpoints made by hand.

use arrow::array::{Int32Array, Int64Array, RecordBatch, StringArray};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use crate::format::CommitUser;
use crate::format::delta::action::{Action, Add};
use crate::format::delta::checkpoint::rows::rows;
use crate::format::delta::{names, replay};
use crate::maintain::tests::rig::World;
use crate::schema::Field;
use crate::table::{Table, TableSpec};

/// Version 0 makes the table, partitioned by `p`; 1 to 5 add a file of two rows each, 6 removes that of 1.
pub(super) async fn six() -> World {
    let world = World::empty();
    for id in 1..=5 {
        commit(&world, id).await;
    }
    let first = added(&world, 1).await;
    append(&world, 6, &[json!({"commitInfo": {"operation": "DELETE"}}), removal(&first)]).await;
    world
}

pub(super) fn removal(add: &Add) -> Value {
    json!({"remove": {"path": add.path, "dataChange": true, "deletionTimestamp": 1}})
}

pub(super) async fn commit(world: &World, id: i64) -> u64 {
    let fields = [("id", "BIGINT NOT NULL"), ("p", "INT"), ("note", "STRING")].map(|(n, t)| Field::parse(0, n, t).unwrap());
    let spec = TableSpec::delta(fields).partition_by(["p"]);
    let table = Table::open_or_create_in(world.store.clone(), &spec).await.unwrap();
    let user = CommitUser::new("u");
    let mut write = table.new_write(&user).unwrap();
    let p = i32::try_from(id).unwrap() % 2;
    let columns: [arrow::array::ArrayRef; 3] = [
        std::sync::Arc::new(Int64Array::from(vec![id, -id])),
        std::sync::Arc::new(Int32Array::from(vec![p, p])),
        std::sync::Arc::new(StringArray::from(vec![Some("x"), None])),
    ];
    write.write(&RecordBatch::try_new(table.schema().to_arrow(), columns.to_vec()).unwrap()).await.unwrap();
    let messages = write.prepare_commit().await.unwrap();
    table.new_commit(&user).commit(id, messages).await.unwrap()
}

/// A commit with these actions.
pub(super) async fn append(world: &World, version: u64, actions: &[Value]) {
    let text: String = actions.iter().map(|a| format!("{a}\n")).collect();
    world.put(&names::commit(version), text.into()).await;
}

/// The actions of a commit, edited.
pub(super) async fn edit(world: &World, version: u64, edit: impl FnOnce(&mut Vec<Value>)) {
    let mut actions = lines(world, version).await;
    edit(&mut actions);
    append(world, version, &actions).await;
}

pub(super) async fn lines(world: &World, version: u64) -> Vec<Value> {
    let bytes = world.get(&names::commit(version)).await;
    bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).unwrap()).collect()
}

/// One kind of action of a commit.
pub(super) fn of<'a>(actions: &'a mut [Value], kind: &str) -> &'a mut Value {
    &mut actions.iter_mut().find(|a| a.get(kind).is_some()).unwrap()[kind]
}

/// The file that a commit adds.
pub(super) async fn added(world: &World, version: u64) -> Add {
    let actions = replay::actions(&world.get(&names::commit(version)).await).unwrap();
    actions.into_iter().find_map(|a| if let Action::Add(add) = a { Some(*add) } else { None }).unwrap()
}

/// All that is to be in the checkpoint of a version.
pub(super) async fn content(world: &World, version: u64) -> Vec<Action> {
    let log = replay::at(&world.store, version).await.unwrap().unwrap();
    let mut actions = vec![Action::Protocol(log.protocol), Action::MetaData(log.metadata)];
    actions.extend(log.txns.into_values().map(|seen| Action::Txn(seen.txn)));
    let live = replay::live_files(&world.store, version, &|_| true).await.unwrap();
    actions.extend(live.into_iter().map(|add| Action::Add(Box::new(add))));
    actions
}

pub(super) fn parquet(actions: &[Action]) -> Bytes {
    let batch = rows(actions).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap().into()
}

/// Writes the classic checkpoint of a version and points to it.
pub(super) async fn checkpoint(world: &World, version: u64) {
    let actions = content(world, version).await;
    world.put(&names::checkpoint(version), parquet(&actions)).await;
    world.put(names::LAST_CHECKPOINT, json!({"version": version, "size": actions.len()}).to_string().into()).await;
}
