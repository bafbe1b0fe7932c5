//! Many processes and one Delta table: they create it at once, and they append to it at once.
//!
//! An appender is this test binary once more, told by the environment what to do.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use arrow::array::{Int64Array, RecordBatch, StringArray};
use lakeward::format::CommitUser;
use lakeward::schema::Field;
use lakeward::table::{Table, TableSpec};
use serde_json::Value;
use tracing::span;

use super::kills::number;
use super::{Place, Running};

const APPENDERS: u64 = 16;
/// Rows of one commit.
const ROWS: i64 = 10;

fn spec() -> TableSpec {
    TableSpec::delta([Field::parse(0, "id", "BIGINT NOT NULL").unwrap(), Field::parse(1, "name", "STRING").unwrap()])
}

/// Counts the races that a commit loses.
struct Lost(AtomicU64);

impl tracing::Subscriber for Lost {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "lakeward::table::commit"
    }
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The appender's life, when this process is one.
#[tokio::test]
#[ignore = "the process that the tests below start"]
async fn appender() {
    let (Ok(location), Ok(me)) = (std::env::var("LAKEWARD_APPENDER_TABLE"), std::env::var("LAKEWARD_APPENDER")) else { return };
    let (me, seconds) = (me.parse::<i64>().unwrap(), number("LAKEWARD_APPENDER_SECONDS", 1));
    let lost = Arc::new(Lost(AtomicU64::new(0)));
    tracing::subscriber::set_global_default(lost.clone()).unwrap();
    let table = Table::open_or_create(&location, spec()).await.unwrap();
    let user = CommitUser::new(format!("appender-{me}"));
    let (mut write, mut commit) = (table.new_write(&user).unwrap(), table.new_commit(&user));
    let begun = Instant::now();
    let (mut slowest, mut n) = (Duration::ZERO, 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let ids: Vec<i64> = (0..ROWS).map(|i| (n * 100 + me) * ROWS + i).collect();
        let names = StringArray::from_iter_values(ids.iter().map(|i| format!("name {i}")));
        let batch = RecordBatch::try_new(table.schema().to_arrow(), vec![Arc::new(Int64Array::from(ids)), Arc::new(names)]).unwrap();
        let one = Instant::now();
        write.write(&batch).await.unwrap();
        commit.commit(n + 1, write.prepare_commit().await.unwrap()).await.unwrap();
        slowest = slowest.max(one.elapsed());
        n += 1;
    }
    println!("appended {n} {} {}", slowest.as_millis(), lost.0.load(Ordering::Relaxed));
}

/// What deltalake sees.
fn seen(location: &Path, apps: &[String]) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join(".venv/bin/python");
    assert!(python.exists(), "there is no {}: run tests/setup.sh", python.display());
    let output = Command::new(python).arg(root.join("tests/process/delta.py")).arg(location).args(apps).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// All of them append for so long, with default settings. None fails, and what was acknowledged is there.
fn append(seconds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("table");
    let start = |me: u64| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process::appenders::appender", "--ignored", "--nocapture"]);
        command.env("LAKEWARD_APPENDER_TABLE", &location).env("LAKEWARD_APPENDER", me.to_string());
        command.env("LAKEWARD_APPENDER_SECONDS", seconds.to_string());
        Running::start_as(&mut command)
    };
    let children: Vec<Running> = (0..APPENDERS).map(start).collect();
    let (mut commits, mut slowest, mut lost) = (Vec::new(), 0, 0);
    for child in children {
        let ended = child.end().with(0);
        let line = ended.out.lines().find_map(|l| l.strip_prefix("appended ")).unwrap_or_else(|| panic!("{}\n{}", ended.out, ended.err()));
        let [n, ms, races] = line.split(' ').map(|n| n.parse::<u64>().unwrap()).collect::<Vec<_>>().try_into().unwrap();
        commits.push(n);
        slowest = slowest.max(ms);
        lost += races;
    }
    let apps: Vec<String> = (0..APPENDERS).map(|me| format!("appender-{me}")).collect();
    let seen = seen(&location, &apps);
    let all: u64 = commits.iter().sum();
    println!(
        "{APPENDERS} appenders for {seconds} s: {all} commits ({} to {} each), {lost} races lost and tried again, slowest commit {slowest} ms",
        commits.iter().min().unwrap(),
        commits.iter().max().unwrap()
    );
    assert_eq!(seen["version"], all, "a version for each commit, and one that made the table");
    assert_eq!((&seen["rows"], &seen["distinct"]), (&(all * 10).into(), &(all * 10).into()));
    for (app, n) in apps.iter().zip(&commits) {
        assert_eq!(seen["apps"][app].as_u64(), Some(*n).filter(|n| *n > 0), "{app}");
    }
}

#[test]
#[ignore = "wants deltalake: tests/setup.sh"]
fn sixteen_appenders_with_default_settings_do_not_fail_and_what_they_were_told_is_there() {
    append(number("LAKEWARD_APPENDERS_SECONDS", 15));
}

#[test]
#[ignore = "wants deltalake: tests/setup.sh"]
fn five_pipelines_that_create_one_new_delta_table_at_once_make_one_table_with_all_rows() {
    for round in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let together = Barrier::new(5);
        std::thread::scope(|scope| {
            for worker in 0..5 {
                let (dir, together) = (dir.path(), &together);
                scope.spawn(move || {
                    let mut place = Place::at(dir, &format!("worker-{worker}"), "generate: {rows: 200}", "rows: 50");
                    place.set("sinks.0.format=delta");
                    place.set("sinks.0.columns={id: BIGINT NOT NULL, customer: STRING}");
                    together.wait();
                    place.run(&[]).with(0);
                });
            }
        });
        let seen = seen(&dir.path().join("table"), &[]);
        assert_eq!((&seen["rows"], &seen["distinct"]), (&1000.into(), &200.into()), "round {round}");
        let log = dir.path().join("table/_delta_log");
        let made = std::fs::read_dir(&log).unwrap().filter(|e| {
            let text = std::fs::read_to_string(e.as_ref().unwrap().path()).unwrap_or_default();
            text.contains("\"metaData\"")
        });
        assert_eq!(made.count(), 1, "one commit makes the table");
    }
}
