//! A disk that forgets every unsynced write loses power before each of its steps. After each, one clean life must find a table that can be
//! read, and leave it exact: every row once, under one commit user, nothing of the dead life doubled.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

use super::*;
use crate::store::Durability;
use crate::store::crash::{CrashDisk, Loss};

/// Two sinks and dead letters, a trigger by rows, then end of input. `commit.timeout` is short: a dead disk never comes back.
const PIPELINE: &str = "
version: 1
pipeline: gen
source: {generate: {rows: 30}}
sinks:
  - location: one
    columns: {id: BIGINT NOT NULL, country: STRING}
    partition_by: [country]
  - location: two
    columns: {id: BIGINT NOT NULL, amount: 'DECIMAL(10, 2)'}
    checks: ['id <> 7']
dead_letter: {location: dead}
checkpoint: {location: chain, rows: 10}
commit: {timeout: 10ms}
";

/// Thousands of fsyncs cost nothing there, and what the test loses is not the machine's business.
fn memory_disk() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

async fn live(dir: &Path, disk: Arc<CrashDisk>) -> Result<Report> {
    let file = PipelineFile::parse(PIPELINE, "p.yaml", dir, &[], &|_| None)?;
    Pipeline::from_parts(file).disk(disk).start().await?.finish().await
}

/// The column `id` (or the dead letters' `offset`) of every row, sorted.
async fn ids(dir: &Path, table: &str, column: &str) -> Vec<i64> {
    let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
    let store = Store::open(dir.join(table).to_str().unwrap(), &Env::real(), options).unwrap();
    let mut rows = Table::open_in(store).await.unwrap().scan().rows().await.unwrap();
    let mut ids = Vec::new();
    while let Some(batch) = rows.next().await.unwrap() {
        ids.extend(batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    ids
}

fn commit_users(dir: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let users = |table: &str| {
        let snapshots = std::fs::read_dir(dir.join(table).join("snapshot")).unwrap();
        let named = snapshots.map(|e| e.unwrap().path()).filter(|p| p.file_name().unwrap().to_str().unwrap().starts_with("snapshot-"));
        let user = |p| serde_json::from_slice::<serde_json::Value>(&std::fs::read(p).unwrap()).unwrap()["commitUser"].to_string();
        named.map(user).collect()
    };
    ["one", "two", "dead"].map(|t| (t.to_owned(), users(t))).into()
}

async fn exact(dir: &Path, what: &str) {
    let all: Vec<i64> = (1..=30).collect();
    let but_seven: Vec<i64> = all.iter().copied().filter(|i| *i != 7).collect();
    assert_eq!(ids(dir, "one", "id").await, all, "{what}");
    assert_eq!(ids(dir, "two", "id").await, but_seven, "{what}");
    assert_eq!(ids(dir, "dead", "offset").await, [6], "{what}");
    assert!(commit_users(dir).values().all(|users| users.len() == 1), "{what}: {:?}", commit_users(dir));
}

#[tokio::test]
async fn a_power_cut_before_any_step_leaves_an_exact_table() {
    let mut crashes = 0;
    for loss in [Loss::All, Loss::Contents, Loss::Names, Loss::Some(1)] {
        // What is lost besides everything is a sample.
        let stride = if loss == Loss::All { 1 } else { 4 };
        for step in (0..).step_by(stride) {
            let dir = memory_disk();
            let disk = CrashDisk::stopping_at(step);
            let first = live(dir.path(), disk.clone()).await;
            let died = disk.is_dead();
            disk.forget_unsynced(loss).unwrap();
            let what = || format!("power cut before step {step} ({loss:?}): {first:?}\n{}", disk.log().join("\n"));
            if died {
                crashes += 1;
                live(dir.path(), CrashDisk::new()).await.unwrap_or_else(|e| panic!("{e}\n{}", what()));
            }
            exact(dir.path(), &what()).await;
            if !died {
                assert!(step > 100, "{step} steps are too few for this pipeline");
                break;
            }
        }
    }
    println!("{crashes} power cuts");
}

/// The same, but the life after the cut is cut too, a few steps in: recovery is itself recoverable.
#[tokio::test]
async fn a_power_cut_in_the_recovery_from_a_power_cut_leaves_an_exact_table() {
    for step in (0..).step_by(9) {
        let dir = memory_disk();
        let first = CrashDisk::stopping_at(step);
        let _ = live(dir.path(), first.clone()).await;
        first.forget_unsynced(Loss::All).unwrap();
        for again in (0..40).step_by(5) {
            let second = CrashDisk::stopping_at(again);
            let _ = live(dir.path(), second.clone()).await;
            second.forget_unsynced(Loss::All).unwrap();
        }
        live(dir.path(), CrashDisk::new()).await.unwrap_or_else(|e| panic!("after step {step}: {e}"));
        exact(dir.path(), &format!("first cut before step {step}")).await;
        if !first.is_dead() {
            break;
        }
    }
}
