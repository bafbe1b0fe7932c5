//! `table-cli failover` from the outside: what it refuses, what it reports, what it leaves.

pub(crate) mod delta;
mod series;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use lakeward::table::{At, CommitUser, Table};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cli::{Ran, run, table_cli};

/// A pipeline outside of the repository: CSV input, two sinks, dead letters.
pub(crate) struct Orders {
    dir: tempfile::TempDir,
    pub(crate) rows: u64,
}

impl Orders {
    /// With a checkpoint every so many rows.
    pub(crate) fn new(rows: u64, every: u64) -> Orders {
        let orders = Orders { dir: tempfile::tempdir().unwrap(), rows };
        let mut text = "id,customer,country,amount,created,note\n".to_owned();
        for i in 1..=rows {
            let id = if is_dead(i) { "none".to_owned() } else { i.to_string() };
            let cents = amount_cents(i);
            let amount = format!("{}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100);
            let note = if i % 4 == 0 { "\"\"" } else { "" };
            writeln!(text, "{id},c{},{},{amount},2026-01-{:02}T10:00:00Z,{note}", i % 97, country(i), 1 + i % 28).unwrap();
        }
        std::fs::create_dir(orders.root().join("in")).unwrap();
        std::fs::write(orders.root().join("in/orders.csv"), text).unwrap();
        let text = format!(
            "\
version: 1
pipeline: orders
source:
  files: {{paths: [in/*.csv]}}
sinks:
  - location: lake/shop.db/orders
    columns:
      id: BIGINT NOT NULL
      customer: STRING
      country: STRING
      amount: DECIMAL(10, 2)
      created: TIMESTAMP(3)
      note: STRING
    checks: [amount >= 0]
    partition_by: [country]
  - location: lake/shop.db/amounts
    columns:
      id: BIGINT NOT NULL
      amount: DECIMAL(10, 2)
      src: {{type: BIGINT, meta: offset}}
dead_letter:
  location: lake/shop.db/dead
checkpoint:
  location: lake/_checkpoints
  rows: {every}
"
        );
        std::fs::write(orders.root().join("orders.yaml"), text).unwrap();
        orders
    }
    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }
    pub(crate) fn file(&self) -> PathBuf {
        self.root().join("orders.yaml")
    }
    fn failover(&self, args: &[&str]) -> Ran {
        run(&[&["failover", self.file().to_str().unwrap()], args].concat())
    }
    /// How many rows each sink has, and how many dead letters there are.
    pub(crate) fn expected(&self) -> [u64; 3] {
        let all = || 1..=self.rows;
        let count = |n: usize| n as u64;
        let second = count(all().filter(|i| !is_dead(*i)).count());
        let first = count(all().filter(|i| !is_dead(*i) && amount_cents(*i) >= 0).count());
        [first, second, 2 * self.rows - first - second]
    }
    /// Where each record begins.
    pub(crate) fn offsets(&self) -> Vec<usize> {
        let text = std::fs::read_to_string(self.root().join("in/orders.csv")).unwrap();
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        starts.take(usize::try_from(self.rows).unwrap()).collect()
    }
}

/// Has record `i` no id? Then it is no row of either sink.
pub(crate) fn is_dead(i: u64) -> bool {
    i.is_multiple_of(100)
}
/// Negative ones are no rows of the first sink.
pub(crate) fn amount_cents(i: u64) -> i64 {
    if i.is_multiple_of(101) { -150 } else { (i % 50_000).cast_signed() }
}
pub(crate) fn country(i: u64) -> &'static str {
    ["DE", "FR", "US"][(i % 3) as usize]
}

pub(crate) fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}\n{}", ran.out, ran.err))
}

#[test]
fn killed_and_frozen_a_pipeline_from_outside_of_the_repository_is_exact_and_nothing_is_left() {
    let orders = Orders::new(6000, 500);
    let ran = orders.failover(&["--kills", "5", "--freezes", "1", "--seed", "3", "--set", "durability=none", "-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = report(&ran);
    let (exact, finding, seed) = (&report["exact"], &report["finding"], &report["seed"]);
    assert_eq!((exact, finding, seed), (&true.into(), &Value::Null, &3.into()));
    assert_eq!((report["kills"]["total"].as_u64(), report["freezes"]["total"].as_u64()), (Some(5), Some(1)));
    let woken = &report["woken"];
    assert_eq!(woken["fenced"].as_u64().unwrap() + woken["ended_well"].as_u64().unwrap(), 1, "{woken}");
    let rounds = report["rounds"].as_u64().unwrap();
    assert!(rounds >= 2);
    for (at, (name, rows)) in ["sinks.0", "sinks.1", "dead_letter"].into_iter().zip(orders.expected()).enumerate() {
        let sink = &report["sinks"][at];
        let all = Some(rows * rounds);
        assert_eq!((sink["sink"].as_str(), sink["expected"].as_u64(), sink["found"].as_u64()), (Some(name), all, all));
        assert_eq!((sink["missing"].as_u64(), sink["doubled"].as_u64()), (Some(0), Some(0)));
    }
    assert!(ran.err.contains("your tables are not touched"), "{}", ran.err);
    let left: Vec<PathBuf> = std::fs::read_dir(orders.root().join("lake")).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_row_that_somebody_else_writes_again_is_found_shown_and_kept() {
    let orders = Orders::new(10, 5);
    let source = "source={generate: {rows: 300, rows_per_second: 100}}";
    let sinks = "sinks=[{location: lake/t, columns: {id: BIGINT NOT NULL}}]";
    let file = orders.file();
    let args = ["failover", file.to_str().unwrap(), "--seed", "8", "-o", "json", "--set", source, "--set", sinks, "--set", "dead_letter=~"];
    let child = table_cli(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let round = orders.root().join("lake/failover-8/round-1");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !round.join("sink-0/snapshot/snapshot-1").exists() {
        assert!(Instant::now() < deadline, "no commit came");
        std::thread::sleep(Duration::from_millis(20));
    }
    let table = Table::open(round.join("sink-0").to_str().unwrap()).await.unwrap();
    let row = table.scan().at(At::Snapshot(1)).rows().await.unwrap().next().await.unwrap().unwrap().slice(0, 1);
    let user = CommitUser::new("somebody-else");
    let mut write = table.new_write(&user).unwrap();
    write.write(&row).await.unwrap();
    table.new_commit(&user).commit(1, write.prepare_commit().await.unwrap()).await.unwrap();

    let ended = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3), "{err}");
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(report["exact"], false);
    let wanted = json!({
        "round": 1, "dir": round, "sink": "sinks.0", "expected": 300, "found": 301, "missing": 0, "doubled": 1, "wrong": [],
        "first_missing": [], "first_doubled": [{"id": 1}]
    });
    assert_eq!(report["finding"], wanted);
    assert!(round.join("checkpoints/orders").is_dir());
}

#[test]
fn what_never_ends_or_cannot_be_read_again_is_refused_with_why_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.yaml");
    let says = |source: &str| {
        let text = format!(
            "version: 1\npipeline: p\nsource: {{{source}}}\nsinks: [{{location: t, columns: {{id: BIGINT}}}}]\n\
             checkpoint: {{location: _checkpoints, every: 1s}}\n"
        );
        std::fs::write(&file, text).unwrap();
        let ran = run(&["failover", file.to_str().unwrap(), "--kills", "1"]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{source}: {}", ran.err);
        assert!(std::fs::read_dir(dir.path()).unwrap().count() == 1, "{source}: something was written");
        ran.err
    };
    let err = says("generate: {rows_per_second: 10}");
    assert!(err.contains("the source never ends") && err.contains("hint: give it an end: --set source.generate.rows="), "{err}");
    let err = says("stdin: {}");
    assert!(err.contains("standard input cannot be read again") && err.contains("source.files"), "{err}");
    let err = says("generate: {rows: 10, fail_at: 5}");
    assert!(err.contains("fail_at") && err.contains("--set source.generate.fail_at=~"), "{err}");
    for args in [&["--dir", "t/x"][..], &["--dir", "_checkpoints"]] {
        let ran = table_cli(&[&["failover", file.to_str().unwrap(), "--set", "source={generate: {rows: 5}}"], args].concat())
            .current_dir(dir.path())
            .output()
            .unwrap();
        let err = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{err}");
        assert!(err.contains("which the pipeline writes to"), "{err}");
    }
}

#[test]
fn a_place_where_something_is_already_is_refused_and_left_alone() {
    let orders = Orders::new(10, 5);
    let there = orders.root().join("lake/failover-9");
    std::fs::create_dir_all(&there).unwrap();
    std::fs::write(there.join("mine"), "x").unwrap();
    let ran = orders.failover(&["--seed", "9"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("something is there already") && ran.err.contains("failover-9"), "{}", ran.err);
    assert_eq!(std::fs::read(there.join("mine")).unwrap(), b"x");
}

#[test]
fn a_process_that_fails_by_itself_ends_the_series_with_its_last_lines() {
    let orders = Orders::new(1000, 100);
    let ran = orders.failover(&["--set", "dead_letter=~", "--seed", "4", "-o", "json"]);
    assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{}", ran.err);
    let kept = orders.root().join("lake/failover-4/round-1");
    assert!(ran.err.contains("was left alone and failed") && ran.err.contains(kept.to_str().unwrap()), "{}", ran.err);
    assert!(ran.err.contains("  | ERROR ") && ran.err.contains("orders.csv:101"), "{}", ran.err);
    assert!(kept.join("checkpoints").is_dir());
}

/// The processes that this one started and that are not over.
fn children(of: &Child) -> Vec<i32> {
    let path = format!("/proc/{0}/task/{0}/children", of.id());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// A series of which the first round takes a minute, once its only process has committed.
fn slow(orders: &Orders) -> (Child, i32) {
    let source = "source={generate: {rows: 6000, rows_per_second: 100}}";
    let sinks = "sinks=[{location: lake/t, columns: {id: BIGINT}}]";
    let file = orders.file();
    let args = ["failover", file.to_str().unwrap(), "--seed", "6", "--set", source, "--set", sinks, "--set", "dead_letter=~"];
    let child = table_cli(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let table = orders.root().join("lake/failover-6/round-1/sink-0/snapshot/snapshot-1");
    while !table.exists() {
        assert!(Instant::now() < deadline, "no commit came");
        std::thread::sleep(Duration::from_millis(20));
    }
    let started = children(&child);
    assert_eq!(started.len(), 1);
    (child, started[0])
}

fn until_gone(pid: i32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let gone = || std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "));
    while !gone() {
        assert!(Instant::now() < deadline, "process {pid} lives on");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_signal_ends_the_series_and_its_processes_and_says_where_the_tables_are() {
    for signal in [Signal::INT, Signal::TERM] {
        let orders = Orders::new(1000, 100);
        let (child, process) = slow(&orders);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(75), "{err}");
        assert!(err.contains("stopped by a signal") && err.contains("lake/failover-6, seed 6"), "{err}");
        until_gone(process);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_series_that_is_killed_takes_its_processes_along() {
    let orders = Orders::new(1000, 100);
    let (mut child, process) = slow(&orders);
    child.kill().unwrap();
    until_gone(process);
    child.wait().unwrap();
}
