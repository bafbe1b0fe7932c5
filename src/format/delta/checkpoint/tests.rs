use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;

use super::super::action::{Action, Add, Remove};
use super::super::names::{self, LAST_CHECKPOINT};
use super::super::replay::tests::*;
use super::super::replay::{LogState, at, hint as pointed, live_files, newest};
use super::write::{Written, write};
use super::{Checkpoint, read};
use crate::Kind;
use crate::store::crash::{CrashDisk, Loss};
use crate::store::testing::Jumping;
use crate::store::{Store, StoreOptions};

const DAY: i64 = 24 * 3600 * 1000;

/// The state without what only a commit's JSON tells.
async fn state(store: &Store, version: u64) -> LogState {
    let mut state = at(store, version).await.unwrap().unwrap();
    state.checkpoint = None;
    state.txns.values_mut().for_each(|seen| seen.commit = None);
    state
}

async fn live(store: &Store, version: u64) -> Vec<Add> {
    let mut live = live_files(store, version, &|_| true).await.unwrap();
    live.iter_mut().for_each(|add| add.data_change = false);
    live
}

fn removed(path: &str, days_ago: i64) -> Action {
    Action::Remove(Box::new(Remove { path: path.into(), deletion_timestamp: Some(1 - days_ago * DAY), ..Default::default() }))
}

fn rich(path: &str) -> Action {
    let mut add = Add { data_change: true, modification_time: 9, deletion_vector: Some(dv("v")), ..added(path) };
    add.tags = Some([("k".to_owned(), Some("v".to_owned())), ("n".to_owned(), None)].into());
    (add.base_row_id, add.default_row_commit_version, add.clustering_provider) = (Some(1 << 40), Some(3), Some("liquid".into()));
    Action::Add(Box::new(add))
}

#[tokio::test]
async fn a_checkpoint_says_what_the_commits_below_it_said() {
    let store = log("checkpoint says", 4).await;
    commit(&store, 5, &[txn("other", i64::MAX), domain("d", false), domain("e", false), removed("f2", 1), rich("g"), metadata("n")]).await;
    commit(&store, 6, &[domain("e", true), removed("f3", 8), add("f1")]).await;
    let (before, files) = (state(&store, 6).await, live(&store, 6).await);
    let Written::New { rows, files: count, bytes } = write(&store, 6).await.unwrap() else { panic!("it was there") };
    // protocol, metaData, two transactions, one domain, three files, and the removal of yesterday.
    assert_eq!((rows, count), (9, 3));
    let pointer = store.get(LAST_CHECKPOINT).await.unwrap().unwrap();
    assert_eq!(
        String::from_utf8(pointer.to_vec()).unwrap(),
        format!("{{\"version\":6,\"size\":9,\"sizeInBytes\":{bytes},\"numOfAddFiles\":3}}")
    );
    drop_commits(&store, 0..6).await;
    assert_eq!((state(&store, 6).await, live(&store, 6).await), (before, files));
    assert_eq!(newest(&store).await.unwrap().unwrap().checkpoint, Some(6));
    // The next one is made of this one.
    commit(&store, 7, &[removed("f1", 0), add("f2"), txn("user", 7)]).await;
    commit(
        &store,
        8,
        &[
            add("h"),
            Action::Remove(Box::new(Remove { deletion_vector: Some(dv("v")), ..Remove { path: "g".into(), ..Default::default() } })),
        ],
    )
    .await;
    let (before, files) = (state(&store, 8).await, live(&store, 8).await);
    assert_eq!(files.iter().map(|add| add.path.as_str()).collect::<Vec<_>>(), ["f2", "f4", "h"]);
    assert!(matches!(write(&store, 8).await.unwrap(), Written::New { files: 3, .. }));
    drop_commits(&store, 0..9).await;
    store.delete(&names::checkpoint(6)).await.unwrap();
    let after = newest(&store).await.unwrap().unwrap();
    assert_eq!((&after.txns, &after.domains, &after.metadata), (&before.txns, &before.domains, &before.metadata));
    assert_eq!(live(&store, 8).await, files);
}

#[tokio::test]
async fn a_checkpoint_is_made_of_any_kind_before_it() {
    for kind in KINDS {
        let store = log(&format!("checkpoint of {kind}"), 7).await;
        let mut actions = held(5);
        actions.extend([rich("g"), removed("old", 8), removed("young", 1)]);
        checkpoint(&store, kind, actions, 5).await;
        drop_commits(&store, 0..5).await;
        commit(&store, 8, &[remove("f3"), add("young")]).await;
        let (before, files) = (state(&store, 8).await, live(&store, 8).await);
        // protocol, metaData, txn, seven files, `g`, `young`, without f3, with its removal.
        assert!(matches!(write(&store, 8).await.unwrap(), Written::New { rows: 12, files: 8, .. }), "{kind}");
        drop_commits(&store, 0..8).await;
        for old in store.list("_delta_log").await.unwrap() {
            if old.name.starts_with("00000000000000000005") {
                store.delete(&format!("_delta_log/{}", old.name)).await.unwrap();
            }
        }
        assert_eq!((state(&store, 8).await, live(&store, 8).await), (before, files), "{kind}");
    }
}

#[tokio::test]
async fn statistics_go_where_the_table_wants_them() {
    let store = log("checkpoint stats", 1).await;
    let with = |key: &str, value: &str| {
        let Action::MetaData(mut metadata) = metadata("m") else { unreachable!() };
        metadata.configuration.insert(key.into(), value.into());
        Action::MetaData(metadata)
    };
    commit(&store, 2, &[with("delta.checkpoint.writeStatsAsJson", "false")]).await;
    write(&store, 1).await.unwrap();
    write(&store, 2).await.unwrap();
    drop_commits(&store, 0..2).await;
    assert_eq!(live(&store, 2).await[0].stats, None);
    assert!(live(&store, 1).await[0].stats.is_some());
    commit(&store, 3, &[with("delta.checkpoint.writeStatsAsStruct", "true")]).await;
    assert!(matches!(write(&store, 3).await.unwrap(), Written::Left(why) if why.contains("writeStatsAsStruct")));
    assert_eq!(pointed(&store).await.unwrap(), Some(2));
}

#[tokio::test]
async fn statistics_that_are_columns_only_become_a_text_again() {
    let bounds = || {
        let fields = vec![
            Field::new("i", DataType::Int32, true),
            Field::new("x", DataType::Float64, true),
            Field::new("d", DataType::Date32, true),
            Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
            Field::new("m", DataType::Decimal128(10, 2), true),
            Field::new("s", DataType::Struct(vec![Field::new("u", DataType::Utf8, true)].into()), true),
        ];
        DataType::Struct(fields.into())
    };
    let parsed = vec![Field::new("numRecords", DataType::Int64, true), Field::new("minValues", bounds(), true)];
    let fields = vec![
        Field::new("path", DataType::LargeUtf8, true),
        Field::new("size", DataType::Int64, true),
        Field::new("stats_parsed", DataType::Struct(parsed.into()), true),
    ];
    let frame = held(0);
    let mut all: Vec<Field> = super::rows::SCHEMA.fields().iter().map(|f| f.as_ref().clone()).filter(|f| f.name() != "add").collect();
    all.push(Field::new("add", DataType::Struct(fields.into()), true));
    let schema = Arc::new(Schema::new(all));
    let mut decoder = arrow_json::ReaderBuilder::new(schema.clone()).build_decoder().unwrap();
    decoder.serialize(&frame).unwrap();
    let min = serde_json::json!({"i": -5, "x": 1.5, "d": "2024-02-29", "t": "2024-02-29T01:02:03.000004Z", "m": "12.50", "s": {"u": "é"}});
    let one = serde_json::json!({"add": {"path": "p", "size": 3, "stats_parsed": {"numRecords": 4, "minValues": min}}});
    decoder.serialize(&[one, serde_json::json!({"add": {"path": "q", "size": 3}})]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, None).unwrap();
    writer.write(&decoder.flush().unwrap().unwrap()).unwrap();
    let store = log("checkpoint parsed", 0).await;
    put(&store, &names::checkpoint(0), writer.into_inner().unwrap()).await;
    let told = r#"{"numRecords":4,"minValues":{"i":-5,"x":1.5,"d":"2024-02-29","t":"2024-02-29T01:02:03.000004Z","m":12.5,"s":{"u":"é"}}}"#;
    let stats = |live: Vec<Add>| live.into_iter().map(|add| (add.path, add.stats)).collect::<Vec<_>>();
    let wanted = vec![("p".to_owned(), Some(told.to_owned())), ("q".to_owned(), None)];
    assert_eq!(stats(live(&store, 0).await), wanted);
    commit(&store, 1, &[txn("user", 1)]).await;
    write(&store, 1).await.unwrap();
    drop_commits(&store, 0..1).await;
    store.delete(&names::checkpoint(0)).await.unwrap();
    assert_eq!(stats(live(&store, 1).await), wanted);
}

#[tokio::test]
async fn the_pointer_rises_and_names_the_newest_checkpoint() {
    let store = log("checkpoint pointer", 9).await;
    for (pointer, then) in [(None, 5), (Some("{"), 5), (Some("{\"version\":2,\"size\":1}"), 5), (Some("{\"version\":8,\"size\":1}"), 5)] {
        if let Some(text) = pointer {
            put(&store, LAST_CHECKPOINT, text).await;
        }
        write(&store, 5).await.unwrap();
        assert_eq!(pointed(&store).await.unwrap(), Some(then), "{pointer:?}");
    }
    assert!(matches!(write(&store, 7).await.unwrap(), Written::New { .. }));
    assert_eq!(pointed(&store).await.unwrap(), Some(7));
    // Late for an older version: that checkpoint is of use, the pointer stays.
    assert!(matches!(write(&store, 6).await.unwrap(), Written::New { .. }));
    assert_eq!((write(&store, 5).await.unwrap(), pointed(&store).await.unwrap()), (Written::Found, Some(7)));
    assert_eq!(write(&store, 11).await.unwrap_err().kind(), Kind::Data);
}

#[tokio::test]
async fn two_writers_at_once_make_one_checkpoint() {
    let store = log("checkpoint twice", 6).await;
    let (a, b) = futures::join!(write(&store, 5), write(&store, 5));
    let new = [a.unwrap(), b.unwrap()].iter().filter(|w| matches!(w, Written::New { .. })).count();
    assert!(new <= 2);
    let (a, b) = futures::join!(write(&store, 6), write(&store, 4));
    assert!(matches!((a.unwrap(), b.unwrap()), (Written::New { .. }, Written::New { .. })));
    assert_eq!((pointed(&store).await.unwrap(), live(&store, 6).await.len()), (Some(6), 6));
}

#[tokio::test]
async fn what_is_there_and_damaged_is_never_pointed_to() {
    let store = log("checkpoint damaged", 5).await;
    for bytes in ["", "PAR1 no, PAR1"] {
        put(&store, &names::checkpoint(5), bytes).await;
        let error = write(&store, 5).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Data);
        assert!(error.to_string().contains("00000000000000000005.checkpoint.parquet"), "{error}");
        assert_eq!(store.get(LAST_CHECKPOINT).await.unwrap(), None);
    }
}

fn local(root: &Path, disk: Option<Arc<CrashDisk>>) -> Store {
    let patience = std::time::Duration::from_secs(1);
    let disk = disk.map(|disk| disk as Arc<dyn crate::store::DiskObserver>);
    Store::open(root.to_str().unwrap(), &Jumping::env(), StoreOptions { disk, patience, ..Default::default() }).unwrap()
}

#[tokio::test]
async fn after_a_death_at_any_step_the_table_is_whole_and_the_next_try_succeeds() {
    let mut ends = 0;
    for step in 0.. {
        let mut alive = false;
        for loss in [Loss::All, [Loss::Contents, Loss::Names, Loss::Some(step)][step as usize % 3]] {
            let root = tempfile::tempdir().unwrap();
            let store = local(root.path(), None);
            commit(&store, 0, &[protocol(), metadata("m")]).await;
            for version in 1..=4 {
                commit(&store, version, &later(version)).await;
            }
            write(&store, 2).await.unwrap();
            let (before, files) = (state(&store, 4).await, live(&store, 4).await);
            let disk = CrashDisk::stopping_at(step);
            let written = write(&local(root.path(), Some(disk.clone())), 4).await;
            alive = written.is_ok();
            disk.forget_unsynced(loss).unwrap();
            let store = local(root.path(), None);
            assert_eq!((state(&store, 4).await, live(&store, 4).await), (before, files.clone()), "step {step}, {loss:?}");
            // What the pointer names is there: other engines fail on it else.
            let pointer = pointed(&store).await.unwrap().unwrap();
            let whole = Checkpoint::among(&store.list("_delta_log").await.unwrap());
            for there in whole.values().flatten() {
                read::frame(&store, there).await.unwrap();
            }
            assert!(whole.contains_key(&pointer), "step {step}, {loss:?}");
            write(&store, 4).await.unwrap();
            assert_eq!(pointed(&store).await.unwrap(), Some(4), "step {step}, {loss:?}");
            drop_commits(&store, 0..4).await;
            assert_eq!(live(&store, 4).await, files);
        }
        if alive {
            ends = step;
            break;
        }
    }
    assert!(ends > 6, "only {ends} steps");
}

/// Small repeatable dice.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[tokio::test]
async fn any_history_is_read_alike_with_and_without_checkpoints() {
    for seed in 0..25 {
        let mut dice = Dice(seed);
        let store = store(&format!("checkpoint history {seed}"));
        commit(&store, 0, &[protocol(), metadata("m")]).await;
        let mut live: BTreeMap<(String, Option<String>), ()> = BTreeMap::new();
        for version in 1..=14u64 {
            let mut actions = vec![txn("user", version as i64)];
            let mut spoken = Vec::new();
            for _ in 0..dice.below(4) {
                let (path, vector) = (format!("f{}", dice.below(5)), ["", "one", "two"][dice.below(3) as usize]);
                let id = (!vector.is_empty()).then(|| dv(vector).unique_id());
                let key = (path.clone(), id);
                if spoken.contains(&key) {
                    continue;
                }
                spoken.push(key.clone());
                let with = (!vector.is_empty()).then(|| dv(vector));
                if dice.below(3) > 0 {
                    live.insert(key, ());
                    actions.push(Action::Add(Box::new(Add { deletion_vector: with, ..added(&path) })));
                } else {
                    live.remove(&key);
                    let time = Some(if dice.below(2) > 0 { 1 } else { -9 * DAY });
                    actions.push(Action::Remove(Box::new(Remove {
                        path,
                        deletion_vector: with,
                        deletion_timestamp: time,
                        ..Default::default()
                    })));
                }
            }
            commit(&store, version, &actions).await;
            if dice.below(3) == 0 {
                write(&store, version).await.unwrap();
                if dice.below(2) == 0 {
                    drop_commits(&store, 0..version).await;
                }
            }
            let found = live_files(&store, version, &|_| true).await.unwrap();
            let found: BTreeMap<_, _> = found.into_iter().map(|a| ((a.path, a.deletion_vector.map(|v| v.unique_id())), ())).collect();
            assert_eq!(found, live, "seed {seed}, version {version}");
            assert_eq!(newest(&store).await.unwrap().unwrap().txns["user"].txn.version, version as i64);
        }
    }
}
