//! Kills and freezes with Delta tables, and with one of each format in a pipeline; what is left is read by other people's readers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Orders, amount_cents, is_dead};
use crate::process::draw::Draw;
use crate::process::kills::number;
use crate::process::{Line, Place, binary};
use crate::readback::readers::{each, get};

/// Those that need no JVM.
const READERS: [&str; 3] = ["deltalake", "duckdb", "polars"];
/// A checkpoint of the log at every other commit: kills fall into the writing of many.
const OPTIONS: &str = "{delta.checkpointInterval: '2'}";

/// How many rows a table has, how many different ids, and their sum, by DuckDB.
pub(crate) fn sums(table: &Path) -> [u64; 3] {
    let sql = "SELECT CAST(count(*) AS VARCHAR) AS n, CAST(count(DISTINCT id) AS VARCHAR) AS d, CAST(sum(id) AS VARCHAR) AS s FROM {table}";
    let answer = get("duckdb", &json!({"cmd": "sql", "table": table, "sql": sql}));
    let row = &answer["rows"][0];
    ["n", "d", "s"].map(|key| row[key].as_str().unwrap_or("0").parse().unwrap())
}

/// Each reader counts so many rows.
pub(crate) fn counted(table: &Path, rows: u64) {
    each(&READERS, |reader| {
        let found = get(reader, &json!({"cmd": "count", "table": table}));
        assert_eq!(found["count"], rows, "{reader}: {}", table.display());
    });
}

// ---- whole series ----------------------------------------------------------------------------------------------------------------------

struct Series {
    rows: u64,
    every: u64,
    kills: u64,
    freezes: u64,
    seed: u64,
    /// One sink is a Paimon table.
    both: bool,
}

impl Series {
    fn check(&self) {
        let begun = Instant::now();
        let orders = Orders::new(self.rows, self.every);
        let kept = orders.root().join("kept");
        let mut command = Command::new(binary());
        command.arg("failover").arg(orders.file()).arg("--keep").arg("--dir").arg(&kept).args(["-o", "json"]);
        command.args(["--kills", &self.kills.to_string(), "--freezes", &self.freezes.to_string(), "--seed", &self.seed.to_string()]);
        command.args([
            "--set",
            "sinks.0.format=delta",
            "--set",
            &format!("sinks.0.options={OPTIONS}"),
            "--set",
            "dead_letter.format=delta",
        ]);
        if !self.both {
            command.args(["--set", "sinks.1.format=delta", "--set", &format!("sinks.1.options={OPTIONS}")]);
        }
        let output = command.env_remove("RUST_LOG").stdin(Stdio::null()).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{err}{}", String::from_utf8_lossy(&output.stdout));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let running = begun.elapsed();
        println!("{report:#}");
        let total = |what: &str| report[what]["total"].as_u64().unwrap();
        assert_eq!((total("kills"), total("freezes")), (self.kills, self.freezes));
        assert_eq!(report["exact"], true);
        let (mut tables, mut checkpoints) = (0, 0);
        for round in 1..=report["rounds"].as_u64().unwrap() {
            let dir = kept.join(format!("round-{round}"));
            for (sink, (name, rows)) in ["sink-0", "sink-1", "dead-letter"].into_iter().zip(orders.expected()).enumerate() {
                let table = dir.join(name);
                if sink == 1 && self.both {
                    assert_eq!(get("pypaimon", &json!({"cmd": "count", "table": table}))["count"], rows, "{}", table.display());
                    continue;
                }
                counted(&table, rows);
                if sink < 2 {
                    let ids = (1..=orders.rows).filter(|id| !is_dead(*id) && (sink == 1 || amount_cents(*id) >= 0));
                    assert_eq!(sums(&table), [rows, rows, ids.sum()], "{}", table.display());
                    checkpoints += Log::of(&table).checkpoints.len();
                }
                tables += 1;
            }
        }
        let reading = begun.elapsed() - running;
        println!(
            "{tables} Delta tables by {READERS:?}, {checkpoints} checkpoints of their logs: {:.0} s running, {:.0} s reading",
            running.as_secs_f64(),
            reading.as_secs_f64()
        );
        assert!(checkpoints > 0);
    }
}

#[test]
#[ignore = "wants deltalake, DuckDB and Polars (tests/setup.sh) and about a minute"]
fn killed_and_frozen_every_delta_table_is_exact_by_other_readers_too() {
    Series { rows: 6000, every: 300, kills: 8, freezes: 3, seed: 21, both: false }.check();
}

#[test]
#[ignore = "wants deltalake, DuckDB, Polars and pypaimon (tests/setup.sh) and about a minute"]
fn killed_and_frozen_tables_of_both_formats_in_one_pipeline_are_exact() {
    Series { rows: 6000, every: 300, kills: 6, freezes: 2, seed: 22, both: true }.check();
}

#[test]
#[ignore = "the long form: tests/long.sh delta"]
fn long_delta_series_of_kills_and_freezes() {
    if std::env::var_os("LAKEWARD_LONG").is_none() {
        return;
    }
    for both in [false, true] {
        let series = Series {
            rows: number("LAKEWARD_ROWS", 60_000),
            every: number("LAKEWARD_EVERY", 3000),
            kills: number("LAKEWARD_KILLS", 60),
            freezes: number("LAKEWARD_FREEZES", 20),
            seed: number("LAKEWARD_SEED", 2000),
            both,
        };
        series.check();
    }
}

// ---- kills while a checkpoint of the log is written --------------------------------------------------------------------------------------

/// What lies in a log: versions, checkpoints, the version in the hint, rows that were added; and is a file half written?
struct Log {
    newest: u64,
    checkpoints: Vec<u64>,
    hint: Option<u64>,
    rows: u64,
    torn: bool,
}

impl Log {
    fn of(table: &Path) -> Log {
        let mut log = Log { newest: 0, checkpoints: Vec::new(), hint: None, rows: 0, torn: false };
        let entries = std::fs::read_dir(table.join("_delta_log")).unwrap().map(|e| e.unwrap().path());
        for path in entries.collect::<Vec<PathBuf>>() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let version = || name[..20].parse::<u64>().unwrap();
            if name.starts_with('.') {
                log.torn |= name.contains("checkpoint");
            } else if name == "_last_checkpoint" {
                let json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
                log.hint = json["version"].as_u64();
            } else if name.ends_with(".checkpoint.parquet") {
                log.checkpoints.push(version());
            } else if name.ends_with(".json") {
                log.newest = log.newest.max(version());
                let text = std::fs::read_to_string(&path).unwrap();
                let adds = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()).filter(|a| a.get("add").is_some());
                let stats = adds.map(|a| serde_json::from_str::<Value>(a["add"]["stats"].as_str().unwrap()).unwrap());
                log.rows += stats.map(|s| s["numRecords"].as_u64().unwrap()).sum::<u64>();
            }
        }
        log.checkpoints.sort_unstable();
        log
    }

    /// Where in the writing of a checkpoint a process died that writes one after each commit.
    fn place(&self) -> &'static str {
        let newest = self.checkpoints.last().copied();
        match (self.torn, newest == Some(self.newest), self.hint == newest) {
            (true, _, false) => "a file was half written, the hint was not raised",
            (true, ..) => "a file was half written",
            (false, false, true) => "the checkpoint of the newest commit was not there yet",
            (false, _, false) => "it was there, and the hint was not raised",
            (false, true, true) => "all was done",
        }
    }
}

struct AtCheckpoints {
    kills: u64,
    seed: u64,
    both: bool,
}

impl AtCheckpoints {
    /// Kills a few milliseconds after a commit, which is when its checkpoint is written; after each kill three readers find what was
    /// committed, and at the end every row is there once.
    fn check(&self) {
        let mut place = Place::new("generate: {rows_per_second: 2000}", "rows: 40");
        place.set("sinks.0.format=delta");
        place.set("sinks.0.options={delta.checkpointInterval: '1'}");
        if self.both {
            let columns = "{id: BIGINT NOT NULL, customer: STRING, amount: 'DECIMAL(10, 2)', created_at: TIMESTAMP(3), note: STRING}";
            let two = "{location: table, format: delta, options: {delta.checkpointInterval: '1'}, columns: COLUMNS}, \
                       {location: beside, format: paimon, columns: COLUMNS}";
            place.set(&format!("sinks=[{}]", two.replace("COLUMNS", columns)));
        }
        let (mut draw, mut places) = (Draw(self.seed), BTreeMap::<&str, u64>::new());
        for kill in 1..=self.kills {
            let mut child = place.start(&[]);
            child.until(1 + usize::try_from(draw.below(4)).unwrap(), Line::committed).expect("it goes on and on");
            std::thread::sleep(Duration::from_micros((draw.share() * 25_000.0) as u64));
            assert_eq!(child.kill().code, None);
            let log = Log::of(&place.table());
            *places.entry(log.place()).or_default() += 1;
            counted(&place.table(), log.rows);
            assert_eq!(sums(&place.table()), [log.rows, log.rows, log.rows * (log.rows + 1) / 2], "after kill {kill}: {}", log.place());
        }
        let mut last = place.start(&[]);
        last.until(2, Line::committed).expect("it goes on");
        last.send(Signal::INT);
        last.end().with(0);
        let log = Log::of(&place.table());
        counted(&place.table(), log.rows);
        assert_eq!(sums(&place.table()), [log.rows, log.rows, log.rows * (log.rows + 1) / 2]);
        if self.both {
            let found = get("pypaimon", &json!({"cmd": "count", "table": place.root.join("beside")}));
            assert_eq!(found["count"], log.rows);
        }
        println!("{} kills, {} versions, {} rows, each read by {READERS:?}", self.kills, log.newest, log.rows);
        places.iter().for_each(|(place, n)| println!("{n:>6}  {place}"));
        let within: u64 = places.iter().filter(|(place, _)| **place != "all was done").map(|(_, n)| n).sum();
        assert!(within * 5 >= self.kills, "only {within} of {} kills fell into the writing of a checkpoint", self.kills);
    }
}

#[test]
#[ignore = "wants deltalake, DuckDB and Polars (tests/setup.sh); half a minute"]
fn killed_while_a_checkpoint_of_the_log_is_written_every_reader_finds_what_was_committed() {
    AtCheckpoints { kills: 12, seed: 5, both: true }.check();
}

#[test]
#[ignore = "the long form: tests/long.sh delta"]
fn long_delta_kills_while_checkpoints_are_written() {
    if std::env::var_os("LAKEWARD_LONG").is_none() {
        return;
    }
    for both in [false, true] {
        AtCheckpoints { kills: number("LAKEWARD_KILLS", 60), seed: number("LAKEWARD_SEED", 5), both }.check();
    }
}
