//! Is a commit to a Delta table as cheap after 20,000 others, and with 200,000 live files, as at first? And beside it deltalake's first ones.
//!
//! `cargo bench --bench delta [-- COMMITS [FILES]]`; deltalake wants what tests/setup.sh installs, and is left out without it.
//!
//! A commit writes ten rows into a data file and publishes them, `durability: none`. Times are wall milliseconds of one commit, CPU is that
//! of the whole process, checkpoints (every 100 commits, on a thread of their own) among it.
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
use lakeward::store::{Durability, Store, StoreOptions};
use lakeward::table::{Table, TableSpec};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

async fn open(location: &Path) -> Table {
    let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
    let store = Store::open(location.to_str().unwrap(), &Env::real(), options).unwrap();
    let fields = [Field::parse(0, "id", "BIGINT NOT NULL").unwrap(), Field::parse(1, "name", "STRING").unwrap()];
    Table::open_or_create_in(store, &TableSpec::delta(fields)).await.unwrap()
}

fn batch(table: &Table, n: i64) -> RecordBatch {
    let ids: Vec<i64> = (n * 10..n * 10 + 10).collect();
    let names = StringArray::from_iter_values(ids.iter().map(|i| format!("name {i}")));
    RecordBatch::try_new(table.schema().to_arrow(), vec![Arc::new(Int64Array::from(ids)), Arc::new(names)]).unwrap()
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// CPU seconds of this process so far, and its memory and the peak of it, MiB.
fn process() -> (f64, f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = |key: &str| status.lines().find_map(|l| l.strip_prefix(key)?.trim().strip_suffix(" kB")?.parse::<f64>().ok()).unwrap();
    (ticks / 100.0, kib("VmRSS:") / 1024.0, kib("VmHWM:") / 1024.0)
}

/// Commits, and what each took; a line at each of `marks`.
async fn commits(table: &Table, user: &str, from: i64, count: i64, marks: &[i64]) -> Vec<f64> {
    let user = CommitUser::new(user);
    let (mut write, mut commit) = (table.new_write(&user).unwrap(), table.new_commit(&user));
    let mut times = Vec::new();
    let begun_with = process().0;
    for n in 1..=count {
        let rows = batch(table, from + n);
        let begun = Instant::now();
        write.write(&rows).await.unwrap();
        commit.commit(n, write.prepare_commit().await.unwrap()).await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
        if marks.contains(&n) {
            let (cpu, memory, peak) = process();
            println!(
                "{n:>8} commits   CPU {:>7.3} ms a commit   median of the last 100 {:>7.3} ms   memory {memory:>6.1} MiB, peak {peak:>6.1}",
                (cpu - begun_with) * 1000.0 / n as f64,
                median(&times[times.len().saturating_sub(100)..]),
            );
        }
    }
    times
}

/// None: not installed.
fn deltalake(location: &Path, commits: i64) -> Option<Vec<f64>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join(".venv/bin/python");
    if !python.exists() {
        return None;
    }
    let mut command = Command::new(python);
    let out =
        command.arg(root.join("benches/flat.py")).args(["deltalake", location.to_str().unwrap(), &commits.to_string()]).output().unwrap();
    assert!(out.status.success(), "deltalake: {}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect())
}

/// Adds so many live files, a thousand with each commit; the files themselves are not there.
async fn fill(table: &Table, files: i64) {
    let user = CommitUser::new("builder");
    let schema_id = table.schema().id;
    let mut commit = table.new_commit(&user);
    for n in 1..=files / 1000 {
        let file = |i| DataFile {
            path: format!("part-{n:06}-{i:03}.parquet"),
            size: 1000,
            rows: 10,
            schema_id,
            created_ms: 1_795_966_155_192,
            stats: Vec::new(),
        };
        let files = (0..1000).map(file).collect();
        let message = CommitMessage { version: 1, user: user.clone(), partition: vec![], bucket: 0, total_buckets: -1, files };
        commit.commit(n, vec![message]).await.unwrap();
    }
}

#[tokio::main]
async fn main() {
    let numbers: Vec<i64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let count = numbers.first().copied().unwrap_or(20_000);
    let files = numbers.get(1).copied().unwrap_or(200_000);
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);

    println!("{count} commits of 10 rows, durability none");
    let marks = [count / 20, count / 2, count];
    let table = open(&at("ours")).await;
    let ours = commits(&table, "bench", 0, count, &marks).await;
    let (first, last) =
        (median(&ours[100.min(ours.len() / 4)..(300.min(ours.len() / 2))]), median(&ours[ours.len().saturating_sub(100)..]));
    let slowest = ours.iter().copied().fold(0.0, f64::max);
    println!("median of commits 100 to 300 {first:.3} ms, of the last 100 {last:.3} ms: {:.2} x; slowest {slowest:.1} ms", last / first);

    let first = 1000.min(count);
    let base = median(&ours[..usize::try_from(first).unwrap()]);
    match deltalake(&at("deltalake"), first) {
        Some(theirs) => {
            println!("deltalake's first {first}: median {:.3} ms, ours {base:.3} ms: {:.1} x", median(&theirs), median(&theirs) / base)
        }
        None => println!("deltalake is not installed"),
    }

    println!("\n{files} live files first");
    let table = open(&at("big")).await;
    fill(&table, files).await;
    // The checkpoint of those many files holds in memory what large commits said: one commit asks for it, and it is waited for.
    let pointer = at("big").join("_delta_log/_last_checkpoint");
    let pointed = || {
        let text = std::fs::read_to_string(&pointer).unwrap_or_default();
        text.split("\"version\":").nth(1).and_then(|rest| rest.split(',').next()?.parse::<i64>().ok())
    };
    let mut asked = 0;
    while pointed().is_none_or(|version| version < files / 1000) {
        commits(&table, &format!("wait-{asked}"), 0, 1, &[]).await;
        asked += 1;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let (_, before, _) = process();
    println!("memory {before:.1} MiB");
    // The peak from here on.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let after = (count / 4).max(100);
    let big = commits(&table, "after", 0, after, &[after / 10, after / 2, after]).await;
    let small = median(&ours[..usize::try_from(first).unwrap()]);
    println!("median {:.3} ms, in the empty table {small:.3} ms: {:.2} x", median(&big), median(&big) / small);
    let begun = Instant::now();
    drop(table);
    open(&at("big")).await;
    println!("opened again in {:.1} ms", begun.elapsed().as_secs_f64() * 1000.0);
}
