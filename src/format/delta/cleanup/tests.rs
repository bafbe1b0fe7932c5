use std::path::Path;
use std::sync::Arc;

use super::super::names;
use super::super::replay::tests::*;
use super::super::replay::{hint as pointed, live_files, newest};
use super::*;
use crate::format::delta::action::Action;
use crate::format::delta::checkpoint::write;
use crate::store::StoreOptions;
use crate::store::crash::{CrashDisk, Loss};
use crate::store::testing::Jumping;

/// Files are some days old by their names' version: version 0 of the log is `days` days old, each later one a day younger.
fn local(root: &Path, disk: Option<Arc<CrashDisk>>) -> Store {
    let patience = std::time::Duration::from_secs(1);
    let disk = disk.map(|disk| disk as Arc<dyn crate::store::DiskObserver>);
    Store::open(root.to_str().unwrap(), &Jumping::env(), StoreOptions { disk, patience, ..Default::default() }).unwrap()
}

fn age(root: &Path, name: &str, days: u64) {
    let file = std::fs::File::options().write(true).open(root.join(name)).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs((1000 + days) * 24 * 3600)).unwrap();
}

/// Ten versions, one a day from day 1000 on, checkpoints at 3 and 6.
async fn table(root: &Path) -> Store {
    let store = local(root, None);
    commit(&store, 0, &[protocol(), metadata("m")]).await;
    for version in 1..=9 {
        commit(&store, version, &later(version)).await;
    }
    for version in [3, 6] {
        write(&store, version).await.unwrap();
        age(root, &names::checkpoint(version), version);
    }
    for version in 0..=9 {
        age(root, &names::commit(version), version);
        put(&store, &format!("_delta_log/{version:020}.crc"), "{}").await;
    }
    store
}

/// At the end of day 1000 + `day`, thirty days later: the retention.
fn now(day: i64) -> i64 {
    (1000 + day + 30) * DAY_MS + 5
}

fn numbers(plan: &CleanupPlan, end: &str) -> Vec<u64> {
    let names = plan.files.iter().filter_map(|(name, _)| name.strip_prefix("_delta_log/")?.strip_suffix(end)?.parse().ok());
    names.collect()
}

#[tokio::test]
async fn what_lies_below_the_newest_old_checkpoint_goes_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let store = table(root.path()).await;
    for (day, checkpoint) in [(-1, None), (2, None), (3, Some(3)), (5, Some(3)), (6, Some(6)), (100, Some(6))] {
        let plan = plan(&store, now(day)).await.unwrap();
        assert_eq!((plan.checkpoint, plan.cutoff_ms), (checkpoint, (1000 + day) * DAY_MS), "day {day}");
        let below: Vec<u64> = (0..checkpoint.unwrap_or(0)).collect();
        assert_eq!((numbers(&plan, ".json"), numbers(&plan, ".crc")), (below.clone(), below), "day {day}");
        assert_eq!(numbers(&plan, ".checkpoint.parquet"), if checkpoint == Some(6) { vec![3] } else { vec![] }, "day {day}");
    }
    let before = live_files(&store, 9, &|_| true).await.unwrap();
    let plan = plan(&store, now(7)).await.unwrap();
    assert_eq!(execute(&store, &plan).await.unwrap(), 13);
    assert_eq!(live_files(&store, 9, &|_| true).await.unwrap(), before);
    assert_eq!(newest(&store).await.unwrap().unwrap().version, 9);
    assert_eq!(replay::versions(&store).await.unwrap(), ((6..=9).collect(), vec![6]));
    assert_eq!(execute(&store, &plan).await.unwrap(), 13, "what is gone is no error");
}

#[tokio::test]
async fn a_commit_written_by_a_slow_clock_is_not_older_than_those_below_it() {
    let root = tempfile::tempdir().unwrap();
    let store = table(root.path()).await;
    age(root.path(), &names::commit(2), 8);
    assert_eq!(plan(&store, now(7)).await.unwrap().checkpoint, None);
    assert_eq!(plan(&store, now(9)).await.unwrap().checkpoint, Some(6));
}

#[tokio::test]
async fn a_damaged_checkpoint_is_nothing_to_rest_on() {
    let root = tempfile::tempdir().unwrap();
    let store = table(root.path()).await;
    let (six, made) = (names::checkpoint(6), plan(&store, now(9)).await.unwrap());
    let bytes = store.get(&six).await.unwrap().unwrap();
    put(&store, &six, bytes.slice(..bytes.len() - 9)).await;
    assert_eq!(plan(&store, now(9)).await.unwrap().checkpoint, Some(3));
    assert_eq!(execute(&store, &made).await.unwrap_err().kind(), Kind::Data);
    put(&store, &six, "").await;
    assert_eq!(execute(&store, &made).await.unwrap_err().kind(), Kind::Data);
    assert_eq!(live_files(&store, 9, &|_| true).await.unwrap().len(), 9);
}

#[tokio::test]
async fn a_pointer_to_what_goes_is_moved_first() {
    for pointer in ["{\"version\":3,\"size\":1}", "garbage", "{\"version\":40,\"size\":1}"] {
        let root = tempfile::tempdir().unwrap();
        let store = table(root.path()).await;
        put(&store, "_delta_log/_last_checkpoint", pointer).await;
        let plan = plan(&store, now(9)).await.unwrap();
        execute(&store, &plan).await.unwrap();
        assert_eq!(pointed(&store).await.unwrap(), Some(6), "{pointer}");
    }
}

#[tokio::test]
async fn whoever_keeps_the_whole_log_is_heard() {
    let store = log("cleanup off", 2).await;
    let Action::MetaData(mut kept) = metadata("m") else { unreachable!() };
    kept.configuration.insert("delta.enableExpiredLogCleanup".into(), "false".into());
    commit(&store, 3, &[Action::MetaData(kept)]).await;
    let error = plan(&store, 0).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("enableExpiredLogCleanup"), "{error}");
    assert_eq!(plan(&store_of_nothing(), 0).await.unwrap_err().kind(), Kind::Invalid);
}

fn store_of_nothing() -> Store {
    store("cleanup nothing")
}

#[tokio::test]
async fn sidecars_of_a_checkpoint_that_stays_stay() {
    let root = tempfile::tempdir().unwrap();
    let store = table(root.path()).await;
    checkpoint(&store, "v2 json", held(6), 6).await;
    for orphan in ["old.parquet", "young.parquet"] {
        put(&store, &format!("_delta_log/_sidecars/{orphan}"), "x").await;
    }
    for (name, day) in [("a.parquet", 6), ("old.parquet", 6), ("young.parquet", 39)] {
        age(root.path(), &format!("_delta_log/_sidecars/{name}"), day);
    }
    let plan = plan(&store, now(9)).await.unwrap();
    let sidecars: Vec<_> = plan.files.iter().filter(|(name, _)| name.contains("_sidecars")).map(|(name, _)| name.as_str()).collect();
    assert_eq!(sidecars, ["_delta_log/_sidecars/old.parquet"]);
}

#[tokio::test]
async fn after_a_death_at_any_step_the_table_is_whole_and_the_rest_can_go() {
    for step in (0..).step_by(3) {
        let root = tempfile::tempdir().unwrap();
        let store = table(root.path()).await;
        put(&store, "_delta_log/_last_checkpoint", "{\"version\":3,\"size\":1}").await;
        let before = live_files(&store, 9, &|_| true).await.unwrap();
        let made = plan(&store, now(9)).await.unwrap();
        let disk = CrashDisk::stopping_at(step);
        let done = execute(&local(root.path(), Some(disk.clone())), &made).await.is_ok();
        disk.forget_unsynced(if step % 2 == 0 { Loss::All } else { Loss::Some(step) }).unwrap();
        let store = local(root.path(), None);
        assert_eq!(live_files(&store, 9, &|_| true).await.unwrap(), before, "step {step}");
        assert_eq!(newest(&store).await.unwrap().unwrap().version, 9, "step {step}");
        let pointer = pointed(&store).await.unwrap().unwrap();
        assert!(replay::versions(&store).await.unwrap().1.contains(&pointer), "step {step}");
        execute(&store, &made).await.unwrap();
        assert_eq!(replay::versions(&store).await.unwrap().0, [6, 7, 8, 9], "step {step}");
        if done {
            break;
        }
    }
}
