use std::collections::BTreeSet;

use bytes::Bytes;
use parquet::arrow::ArrowWriter;

use super::super::action::{DeletionVector, Remove, Sidecar, encode};
use super::super::checkpoint::rows::rows;
use super::super::names::{self, LAST_CHECKPOINT};
use super::*;
use crate::store::StoreOptions;
use crate::store::testing::Jumping;

pub(crate) fn store(name: &str) -> Store {
    Store::open(&format!("memory://replay-{name}/t"), &Jumping::env(), StoreOptions::default()).unwrap()
}

pub(crate) fn protocol() -> Action {
    Action::Protocol(Protocol { min_reader_version: 1, min_writer_version: 2, ..Default::default() })
}

pub(crate) fn metadata(id: &str) -> Action {
    let configuration = [("delta.appendOnly".to_owned(), "true".to_owned())].into();
    let partition_columns = vec!["p".to_owned()];
    Action::MetaData(Metadata { id: id.into(), schema_string: "{}".into(), configuration, partition_columns, ..Default::default() })
}

pub(crate) fn txn(app: &str, version: i64) -> Action {
    Action::Txn(Txn { app_id: app.into(), version, last_updated: Some(7) })
}

pub(crate) fn added(path: &str) -> Add {
    let partition_values = [("p".to_owned(), Some("x".to_owned())), ("q".to_owned(), None)].into();
    Add { path: path.into(), partition_values, size: 5, stats: Some("{\"numRecords\":1}".into()), ..Default::default() }
}

pub(crate) fn add(path: &str) -> Action {
    Action::Add(Box::new(added(path)))
}

pub(crate) fn add_with(path: &str, vector: &str) -> Action {
    Action::Add(Box::new(Add { deletion_vector: Some(dv(vector)), ..added(path) }))
}

pub(crate) fn remove(path: &str) -> Action {
    Action::Remove(Box::new(Remove { path: path.into(), deletion_timestamp: Some(1), ..Default::default() }))
}

pub(crate) fn dv(id: &str) -> DeletionVector {
    DeletionVector { storage_type: "u".into(), path_or_inline_dv: id.into(), offset: Some(1), size_in_bytes: 34, cardinality: 2 }
}

pub(crate) fn domain(name: &str, removed: bool) -> Action {
    Action::DomainMetadata(DomainMetadata { domain: name.into(), configuration: "{}".into(), removed })
}

pub(crate) fn info(operation: &str) -> Action {
    Action::CommitInfo(CommitInfo { operation: Some(operation.into()), ..Default::default() })
}

pub(crate) fn parquet_of(actions: &[Action]) -> Bytes {
    let batch = rows(actions).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    Bytes::from(writer.into_inner().unwrap())
}

pub(crate) async fn put(store: &Store, name: &str, bytes: impl Into<Bytes>) {
    store.put(name, bytes.into()).await.unwrap();
}

pub(crate) async fn commit(store: &Store, version: u64, actions: &[Action]) {
    put(store, &names::commit(version), encode(actions).unwrap()).await;
}

pub(crate) async fn hint(store: &Store, version: u64) {
    put(store, LAST_CHECKPOINT, format!("{{\"version\":{version},\"size\":3}}")).await;
}

/// Commit 0 makes the table, each later one adds `f<version>` and moves the transaction of `user`.
pub(crate) async fn log(name: &str, versions: u64) -> Store {
    let store = store(name);
    commit(&store, 0, &[info("CREATE TABLE"), protocol(), metadata("m")]).await;
    for version in 1..=versions {
        commit(&store, version, &later(version)).await;
    }
    store
}

pub(crate) fn later(version: u64) -> Vec<Action> {
    vec![info("WRITE"), txn("user", version as i64), add(&format!("f{version}"))]
}

/// What a checkpoint of `version` of such a log holds.
pub(crate) fn held(version: u64) -> Vec<Action> {
    let mut actions = vec![protocol(), metadata("m"), txn("user", version as i64)];
    actions.extend((1..=version).map(|v| add(&format!("f{v}"))));
    actions
}

pub(crate) async fn drop_commits(store: &Store, versions: std::ops::Range<u64>) {
    for version in versions {
        store.delete(&names::commit(version)).await.unwrap();
    }
}

pub(crate) async fn paths(store: &Store, version: u64) -> Vec<String> {
    live_files(store, version, &|_| true).await.unwrap().into_iter().map(|add| add.path).collect()
}

pub(crate) fn files(versions: std::ops::RangeInclusive<u64>) -> Vec<String> {
    versions.map(|v| format!("f{v}")).collect()
}

#[tokio::test]
async fn a_log_without_checkpoints_is_read_from_its_first_commit() {
    let store = log("plain", 3).await;
    let state = newest(&store).await.unwrap().unwrap();
    let bytes = store.get(&names::commit(3)).await.unwrap().unwrap();
    assert_eq!((state.version, state.sha256, &state.bytes), (3, Digest::of(&bytes), &bytes));
    assert_eq!((state.metadata.id.as_str(), state.protocol.min_writer_version, state.checkpoint), ("m", 2, None));
    assert_eq!(state.info.operation.as_deref(), Some("WRITE"));
    let seen = &state.txns["user"];
    assert_eq!((seen.txn.version, seen.commit.as_ref().map(|c| (c.version, c.sha256))), (3, Some((3, Digest::of(&bytes)))));
    assert_eq!(paths(&store, 3).await, files(1..=3));
    assert_eq!(paths(&store, 1).await, files(1..=1));
    assert_eq!(at(&store, 1).await.unwrap().unwrap().txns["user"].txn.version, 1);
    assert_eq!(at(&store, 4).await.unwrap(), None);
    assert_eq!(newest(&self::store("nothing")).await.unwrap(), None);
}

#[tokio::test]
async fn a_commit_that_says_two_things_of_one_is_refused() {
    let store = log("twice", 1).await;
    let state = newest(&store).await.unwrap().unwrap();
    let refused = |actions: &[Action]| state.clone().apply(2, &Bytes::from(encode(actions).unwrap())).unwrap_err();
    for twice in [
        vec![txn("a", 1), txn("a", 1)],
        vec![protocol(), protocol()],
        vec![metadata("m"), metadata("m")],
        vec![domain("d", false), domain("d", true)],
        vec![add("f"), remove("f")],
    ] {
        assert_eq!(refused(&twice).kind(), Kind::Data, "{twice:?}");
    }
    assert_eq!(state.clone().apply(2, &Bytes::new()).unwrap_err().kind(), Kind::Data);
    // A file gets a deletion vector; and one thing said twice.
    let fine = [remove("f1"), add_with("f1", "v"), add("g"), add("g"), txn("a", 1), txn("b", 1)];
    state.clone().apply(2, &Bytes::from(encode(&fine).unwrap())).unwrap();
    assert_eq!(state.clone().apply(4, &Bytes::from_static(b"{}")).unwrap_err().kind(), Kind::Internal);
}

#[tokio::test]
async fn domains_and_transactions_are_the_newest_of_each() {
    let store = log("domains", 1).await;
    commit(&store, 2, &[txn("other", 9), domain("d", false), domain("e", false), metadata("n")]).await;
    commit(&store, 3, &[txn("user", -4), domain("d", true)]).await;
    let state = newest(&store).await.unwrap().unwrap();
    assert_eq!(state.domains.keys().collect::<Vec<_>>(), ["e"]);
    assert_eq!((state.txns["user"].txn.version, state.txns["other"].txn.version, state.metadata.id.as_str()), (-4, 9, "n"));
    assert_eq!(state.txns["other"].commit.as_ref().unwrap().version, 2);
}

/// Writes the checkpoint of version 5 as one kind of checkpoint.
pub(crate) async fn checkpoint(store: &Store, kind: &str, mut actions: Vec<Action>, version: u64) {
    let zero = format!("_delta_log/{version:020}.checkpoint");
    let id = "80a083e8-7026-4e79-81be-64bd76c43a11";
    let (adds, frame): (Vec<Action>, Vec<Action>) = actions.drain(..).partition(|a| matches!(a, Action::Add(_) | Action::Remove(_)));
    match kind {
        "classic" => put(store, &format!("{zero}.parquet"), parquet_of(&[frame, adds].concat())).await,
        "parts" => {
            put(store, &format!("{zero}.0000000001.0000000003.parquet"), parquet_of(&adds[..1])).await;
            put(store, &format!("{zero}.0000000002.0000000003.parquet"), parquet_of(&[&frame, &adds[1..2]].concat())).await;
            put(store, &format!("{zero}.0000000003.0000000003.parquet"), parquet_of(&adds[2..])).await;
        }
        "v2 json" => {
            let sidecar = parquet_of(&adds);
            put(store, "_delta_log/_sidecars/a.parquet", sidecar.clone()).await;
            let sidecar = Sidecar { path: "a.parquet".into(), size_in_bytes: sidecar.len() as i64, modification_time: 0 };
            let of = super::super::action::CheckpointMetadata { version: version as i64 };
            let all = [frame, vec![Action::CheckpointMetadata(of), Action::Sidecar(sidecar)]].concat();
            put(store, &format!("{zero}.{id}.json"), encode(&all).unwrap()).await;
        }
        "v2 parquet" | "v2 classic" => {
            let (one, two) = (parquet_of(&adds[..2]), parquet_of(&adds[2..]));
            put(store, "_delta_log/_sidecars/b.parquet", one.clone()).await;
            put(store, "_delta_log/_sidecars/c.parquet", two.clone()).await;
            let name = if kind == "v2 parquet" { format!("{zero}.{id}.parquet") } else { format!("{zero}.parquet") };
            put(store, &name, with_sidecars(&frame, version, &[("b.parquet", one.len()), ("c.parquet", two.len())])).await;
        }
        _ => unreachable!(),
    }
}

fn with_sidecars(frame: &[Action], version: u64, sidecars: &[(&str, usize)]) -> Bytes {
    use arrow::datatypes::{DataType, Field, Schema};
    let long = |name: &str| Field::new(name, DataType::Int64, true);
    let mut fields: Vec<Field> = rows(&[]).unwrap().schema().fields().iter().map(|f| f.as_ref().clone()).collect();
    fields.retain(|f| f.name() != "add" && f.name() != "remove");
    let sidecar = vec![Field::new("path", DataType::Utf8, true), long("sizeInBytes"), long("modificationTime")];
    fields.push(Field::new("sidecar", DataType::Struct(sidecar.into()), true));
    fields.push(Field::new("checkpointMetadata", DataType::Struct(vec![long("version")].into()), true));
    let schema = Arc::new(Schema::new(fields));
    let mut actions = frame.to_vec();
    actions.push(Action::CheckpointMetadata(super::super::action::CheckpointMetadata { version: version as i64 }));
    actions.extend(
        sidecars
            .iter()
            .map(|(path, size)| Action::Sidecar(Sidecar { path: (*path).into(), size_in_bytes: *size as i64, modification_time: 0 })),
    );
    let mut decoder = arrow_json::ReaderBuilder::new(schema.clone()).build_decoder().unwrap();
    decoder.serialize(&actions).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    writer.write(&decoder.flush().unwrap().unwrap()).unwrap();
    Bytes::from(writer.into_inner().unwrap())
}

pub(crate) const KINDS: [&str; 5] = ["classic", "parts", "v2 json", "v2 parquet", "v2 classic"];

#[tokio::test]
async fn every_kind_of_checkpoint_stands_for_the_commits_below_it() {
    for kind in KINDS {
        for hinted in [false, true] {
            let store = log(&format!("kinds {kind} {hinted}"), 7).await;
            let whole = newest(&store).await.unwrap().unwrap();
            let all = live_files(&store, 7, &|_| true).await.unwrap();
            checkpoint(&store, kind, held(5), 5).await;
            if hinted {
                hint(&store, 5).await;
            }
            drop_commits(&store, 0..5).await;
            let state = newest(&store).await.unwrap().unwrap();
            assert_eq!(state, LogState { checkpoint: Some(5), ..whole }, "{kind}");
            assert_eq!(live_files(&store, 7, &|_| true).await.unwrap(), all, "{kind}");
            assert_eq!(paths(&store, 5).await, files(1..=5), "{kind}");
            // Its own commit is still there, so it is known who moved the transaction.
            let five = at(&store, 5).await.unwrap().unwrap();
            assert_eq!(five.txns["user"].commit.as_ref().map(|c| c.version), Some(5), "{kind}");
            assert_eq!(at(&store, 4).await.unwrap(), None, "{kind}");
            assert_eq!(versions(&store).await.unwrap(), (vec![5, 6, 7], vec![5]), "{kind}");
            // Without it the state is the checkpoint's.
            drop_commits(&store, 5..8).await;
            let state = newest(&store).await.unwrap().unwrap();
            assert_eq!((state.version, state.bytes.len(), &state.txns["user"].commit), (5, 0, &None), "{kind}");
        }
    }
}

#[tokio::test]
async fn a_file_is_live_by_its_path_and_deletion_vector() {
    for kind in KINDS {
        let store = log(&format!("vectors {kind}"), 2).await;
        let mut actions = held(2);
        actions.extend([add_with("g", "one"), add("h"), remove("gone")]);
        checkpoint(&store, kind, actions, 2).await;
        drop_commits(&store, 0..2).await;
        let moved = Remove { path: "g".into(), deletion_vector: Some(dv("one")), ..Default::default() };
        commit(&store, 3, &[Action::Remove(Box::new(moved)), add_with("g", "two"), remove("f1")]).await;
        commit(&store, 4, &[remove("h"), add_with("h", "three"), add("f1")]).await;
        let live = live_files(&store, 4, &|_| true).await.unwrap();
        let of: Vec<_> = live.iter().map(|a| (a.path.as_str(), a.deletion_vector.as_ref().map(|v| v.path_or_inline_dv.as_str()))).collect();
        assert_eq!(of, [("f1", None), ("f2", None), ("g", Some("two")), ("h", Some("three"))], "{kind}");
        assert_eq!(paths(&store, 2).await, ["f1", "f2", "g", "h"], "{kind}");
        let kept = live_files(&store, 4, &|a| a.path.starts_with('f')).await.unwrap();
        assert_eq!(kept.len(), 2, "{kind}");
        assert_eq!(kept[1], added("f2"), "{kind}");
    }
}

#[tokio::test]
async fn the_pointer_is_only_a_hint() {
    for (name, text) in [
        ("garbage", "{\"version\":"),
        ("negative", "{\"version\":-1}"),
        ("nowhere", "{\"version\":6,\"size\":3}"),
        ("beyond", "{\"version\":18446744073709551615}"),
        ("empty", ""),
        ("old", "{\"version\":2,\"size\":3}"),
        ("list", "[5]"),
    ] {
        let store = log(&format!("hint {name}"), 9).await;
        checkpoint(&store, "classic", held(2), 2).await;
        checkpoint(&store, "classic", held(5), 5).await;
        put(&store, LAST_CHECKPOINT, text).await;
        let state = newest(&store).await.unwrap().unwrap();
        assert_eq!((state.version, state.checkpoint, state.txns["user"].txn.version), (9, Some(5), 9), "{name}");
        assert_eq!(paths(&store, 9).await, files(1..=9), "{name}");
        // Cleaning up took the commits between the old checkpoint and the new one, not yet the old one.
        drop_commits(&store, 3..5).await;
        assert_eq!(newest(&store).await.unwrap().unwrap().version, 9, "{name}");
        assert_eq!(paths(&store, 9).await, files(1..=9), "{name}");
        assert_eq!(at(&store, 2).await.unwrap().unwrap().version, 2, "{name}");
        assert_eq!(at(&store, 3).await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn a_damaged_checkpoint_is_passed_over_if_the_rest_suffices() {
    for (name, bytes) in [
        ("zero", Bytes::new()),
        ("torn", parquet_of(&held(5)).slice(..900)),
        ("garbage", Bytes::from_static(b"PAR1 is what it begins with")),
        ("no metadata", parquet_of(&[protocol(), add("f1")])),
        ("two protocols", parquet_of(&[held(5), vec![protocol()]].concat())),
    ] {
        let store = log(&format!("damaged {name}"), 7).await;
        checkpoint(&store, "classic", held(2), 2).await;
        put(&store, &names::checkpoint(5), bytes).await;
        hint(&store, 5).await;
        let all = |store: Store| async move { (newest(&store).await, live_files(&store, 7, &|_| true).await) };
        let (state, live) = all(store.clone()).await;
        assert_eq!((state.unwrap().unwrap().version, live.unwrap().len()), (7, 7), "{name}");
        drop_commits(&store, 0..2).await;
        let (state, live) = all(store.clone()).await;
        assert_eq!((state.unwrap().unwrap().version, live.unwrap().len()), (7, 7), "{name}");
        drop_commits(&store, 2..5).await;
        let (state, _) = all(store.clone()).await;
        let error = state.unwrap_err();
        assert_eq!(error.kind(), Kind::Data, "{name}");
        let named = if name == "zero" { "commit of version 3" } else { "00000000000000000005.checkpoint.parquet" };
        assert!(error.to_string().contains(named), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_version_of_a_damaged_checkpoint_is_not_said_to_be_cleaned_up() {
    let store = log("damaged below", 9).await;
    put(&store, &names::checkpoint(5), "garbage").await;
    checkpoint(&store, "classic", held(8), 8).await;
    drop_commits(&store, 0..5).await;
    let error = at(&store, 6).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Data);
    assert!(error.to_string().contains("00000000000000000005.checkpoint.parquet"), "{error}");
    drop_commits(&store, 6..7).await;
    assert_eq!(at(&store, 7).await.unwrap(), None);
    assert_eq!(newest(&store).await.unwrap().unwrap().version, 9);
}

#[tokio::test]
async fn parts_count_only_when_all_are_there() {
    let store = log("parts", 6).await;
    checkpoint(&store, "parts", held(5), 5).await;
    store.delete("_delta_log/00000000000000000005.checkpoint.0000000002.0000000003.parquet").await.unwrap();
    let state = newest(&store).await.unwrap().unwrap();
    assert_eq!((state.version, state.checkpoint), (6, None));
    drop_commits(&store, 0..1).await;
    assert_eq!(newest(&store).await.unwrap_err().kind(), Kind::Data);
}

#[tokio::test]
async fn a_gap_is_named() {
    let store = log("gap", 9).await;
    drop_commits(&store, 4..5).await;
    for error in [newest(&store).await.unwrap_err(), at(&store, 7).await.unwrap_err(), at(&store, 4).await.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Data);
        assert!(error.to_string().contains("commit of version 4"), "{error}");
    }
    assert_eq!(at(&store, 3).await.unwrap().unwrap().version, 3);
    // Nothing but the end of a log.
    let end = self::store("end");
    put(&end, "_delta_log/00000000000000000005.crc", "{}").await;
    assert_eq!(newest(&end).await.unwrap_err().kind(), Kind::Data);
}

#[tokio::test]
async fn an_empty_or_torn_commit_is_damage() {
    let store = log("torn", 3).await;
    for torn in ["", "{\"txn\":{\"appId\":\"user\""] {
        put(&store, &names::commit(4), torn).await;
        let error = newest(&store).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Data);
        assert!(error.to_string().contains("00000000000000000004.json"), "{error}");
        assert_eq!(live_files(&store, 4, &|_| true).await.unwrap_err().kind(), Kind::Data);
        assert_eq!(paths(&store, 3).await, files(1..=3));
    }
}

#[tokio::test]
async fn strays_in_the_log_are_no_part_of_it() {
    let store = log("strays", 2).await;
    for stray in ["00000000000000000003.json.tmp", ".00000000000000000003.json.x.tmp", "x", "00000000000000000009.crc", "_commits/0.json"] {
        put(&store, &format!("_delta_log/{stray}"), "{").await;
    }
    let compacted = encode(&[add("f1"), add("f2")]).unwrap();
    put(&store, "_delta_log/00000000000000000001.00000000000000000002.compacted.json", compacted).await;
    assert_eq!(newest(&store).await.unwrap().unwrap().version, 2);
    assert_eq!(paths(&store, 2).await, files(1..=2));
    let found: BTreeSet<u64> = versions(&store).await.unwrap().0.into_iter().collect();
    assert_eq!(found, [0, 1, 2].into());
}
