//! Is a commit as cheap after thousands of others as at first? And beside it the same commits by pypaimon and by the `paimon` crate.
//!
//! `cargo bench --bench flat [-- COMMITS [SNAPSHOTS]]`; the two others want what tests/setup.sh installs, and are left out without it.
//!
//! Two tables are printed. In the first a commit writes ten rows into a data file and publishes them; times are milliseconds. The second
//! opens a table of SNAPSHOTS snapshots with ten files each and a small one, restores, and commits; the big one is made beforehand.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may")]
#![expect(clippy::disallowed_methods, reason = "a benchmark has a stop watch")]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use lakeward::env::Env;
use lakeward::format::{CommitMessage, CommitUser, DataFile};
use lakeward::schema::Field;
use lakeward::source::Offsets;
use lakeward::store::{Durability, Store, StoreOptions};
use lakeward::stream::Chain;
use lakeward::table::{Table, TableSpec};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

async fn open(location: &Path, durability: Durability) -> Table {
    let options = StoreOptions { durability, ..StoreOptions::default() };
    let store = Store::open(location.to_str().unwrap(), &Env::real(), options).unwrap();
    let fields = [Field::parse(0, "id", "BIGINT NOT NULL").unwrap(), Field::parse(1, "name", "STRING").unwrap()];
    Table::open_or_create_in(store, &TableSpec::paimon(fields)).await.unwrap()
}

fn batch(table: &Table, n: i64) -> RecordBatch {
    let ids: Vec<i64> = (n * 10..n * 10 + 10).collect();
    let names = StringArray::from_iter_values(ids.iter().map(|i| format!("name {i}")));
    RecordBatch::try_new(table.schema().to_arrow(), vec![Arc::new(Int64Array::from(ids)), Arc::new(names)]).unwrap()
}

fn since(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1000.0
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

async fn ours(location: &Path, durability: Durability, commits: i64) -> Vec<f64> {
    let table = open(location, durability).await;
    let user = CommitUser::new("bench");
    let (mut write, mut commit) = (table.new_write(&user).unwrap(), table.new_commit(&user));
    let mut times = Vec::new();
    for n in 1..=commits {
        let rows = batch(&table, n);
        let begun = Instant::now();
        write.write(&rows).await.unwrap();
        commit.commit(n, write.prepare_commit().await.unwrap()).await.unwrap();
        times.push(since(begun));
    }
    times
}

/// None: not installed.
fn theirs(which: &str, location: &Path, commits: i64) -> Option<Vec<f64>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join(".venv/bin/python");
    if !python.exists() {
        return None;
    }
    let mut command = Command::new(python);
    let out = command.arg(root.join("benches/flat.py")).args([which, location.to_str().unwrap(), &commits.to_string()]).output().unwrap();
    assert!(out.status.success(), "{which}: {}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect())
}

fn line(name: &str, times: Option<&Vec<f64>>, ours: f64) {
    let Some(times) = times else {
        println!("{name:<28} not installed");
        return;
    };
    let n = times.len();
    let (early, late, all) = (median(&times[(n / 20).min(100)..(n / 10).max(2)]), median(&times[n - n / 20..]), median(times));
    let worst = times.iter().copied().fold(0.0, f64::max);
    println!("{name:<28} {early:>10.3} {late:>10.3} {:>8.2} {all:>10.3} {worst:>10.1} {:>10.1}", late / early, all / ours);
}

/// A table with so many snapshots of ten files each; the files themselves are not there.
async fn filled(location: &Path, snapshots: i64) {
    let table = open(location, Durability::None).await;
    let user = CommitUser::new("builder");
    let mut commit = table.new_commit(&user);
    for n in 1..=snapshots {
        let file = |i| DataFile {
            path: format!("bucket-0/data-{n:08}-{i}.parquet"),
            size: 1000,
            rows: 10,
            schema_id: 0,
            created_ms: 1_795_966_155_192,
            stats: Vec::new(),
        };
        let files = (0..10).map(file).collect();
        let message = CommitMessage { version: 1, user: user.clone(), partition: vec![], bucket: 0, total_buckets: -1, files };
        commit.commit(n, vec![message]).await.unwrap();
    }
}

/// Open and restore with a chain; open and restore without one; the next commit.
async fn restart(table_at: &Path, chain_at: &Path, n: i64) -> [f64; 3] {
    let begun = Instant::now();
    let table = open(table_at, Durability::Fsync).await;
    let mut chain = Chain::open(chain_at.to_str().unwrap(), "bench", [&table], |_| async { Ok(Offsets::default()) }).await.unwrap();
    let restored = since(begun);
    let mut write = table.new_write(chain.user()).unwrap();
    write.write(&batch(&table, n)).await.unwrap();
    let messages = write.prepare_commit().await.unwrap();
    let owned = chain.checkpoint(Offsets::default(), [messages]).await.unwrap();
    chain.commit(owned).await.unwrap();
    drop(chain);

    let begun = Instant::now();
    let table = open(table_at, Durability::None).await;
    let user = CommitUser::new("again");
    let (mut write, mut commit) = (table.new_write(&user).unwrap(), table.new_commit(&user));
    commit.filter_and_commit(Vec::new()).await.unwrap();
    let plain = since(begun);
    let rows = batch(&table, n);
    let begun = Instant::now();
    write.write(&rows).await.unwrap();
    commit.commit(n, write.prepare_commit().await.unwrap()).await.unwrap();
    [restored, plain, since(begun)]
}

#[tokio::main]
async fn main() {
    let numbers: Vec<i64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let commits = numbers.first().copied().unwrap_or(2000);
    let snapshots = numbers.get(1).copied().unwrap_or(10_000);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for theirs in ["pypaimon", "paimon"] {
        open(&at(theirs), Durability::None).await; // the same schema file for all
    }
    let none = ours(&at("none"), Durability::None, commits).await;
    let pypaimon = theirs("pypaimon", &at("pypaimon"), commits);
    let paimon = theirs("paimon", &at("paimon"), commits);
    let fsync = ours(&at("fsync"), Durability::Fsync, commits).await;
    println!("{commits} commits of 10 rows, medians in ms");
    println!(
        "{:<28} {:>10} {:>10} {:>8} {:>10} {:>10} {:>10}",
        "writer",
        format!("{}..{}", (commits / 20).min(100), (commits / 10).max(2)),
        format!("last {}", commits / 20),
        "ratio",
        "all",
        "slowest",
        "x of ours"
    );
    let base = median(&none);
    line("lakeward, durability none", Some(&none), base);
    line("pypaimon", pypaimon.as_ref(), base);
    line("paimon (crate)", paimon.as_ref(), base);
    line("lakeward, durability fsync", Some(&fsync), base);

    let begun = Instant::now();
    filled(&at("big"), snapshots).await;
    println!(
        "\n{snapshots} snapshots and {} files, made in {:.1} s; medians of 20 restarts in ms",
        snapshots * 10,
        begun.elapsed().as_secs_f64()
    );
    filled(&at("small"), 10).await;
    let mut times = [const { Vec::new() }; 2];
    for n in 0..21 {
        for (times, name) in times.iter_mut().zip(["small", "big"]) {
            times.push(Box::pin(restart(&at(name), &at(&format!("chain-{name}")), n + 1)).await);
        }
    }
    println!("{:<28} {:>14} {:>14} {:>14}", "table", "chain restored", "no chain", "next commit");
    let mut next = Vec::new();
    for (times, name) in times.iter().zip(["small", "big"]) {
        let of = |i: usize| median(&times[1..].iter().map(|t| t[i]).collect::<Vec<_>>());
        println!("{name:<28} {:>14.2} {:>14.2} {:>14.3}", of(0), of(1), of(2));
        println!("{:<28} {:>14.2} {:>14.2} {:>14.3}", format!("{name}, the first time"), times[0][0], times[0][1], times[0][2]);
        next.push(of(2));
    }
    println!("next commit, big to small: {:.2}", next[1] / next[0]);
}
