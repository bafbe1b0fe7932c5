//! The built command as whole processes: killed, started twice, starved of disk. What is here happens on local disk; `tests/s3`
//! does some of it on a bucket.
//!
//! Tests that want Python, root or minutes are ignored by default; `.ci/run` runs them. The long forms are in `tests/long.sh`.

mod appenders;
mod away;
mod back;
pub(crate) mod draw;
pub(crate) mod finish;
pub(crate) mod kills;
mod order;
pub(crate) mod scenarios;
pub(crate) mod tally;
mod together;
mod watched;
mod writers;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::s3::server::{Server, settings};

/// Nothing here takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command under test: the one that was built with these tests, or `LAKEWARD_BIN`.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("LAKEWARD_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_table-cli")), PathBuf::from)
}

/// One line of a child's standard error.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// When it was read here.
    pub(crate) at: Instant,
    pub(crate) json: Value,
    pub(crate) text: String,
}

impl Line {
    /// What it says: a log message, or an event as it happens.
    pub(crate) fn says(&self) -> &str {
        self.json["event"].as_str().or(self.json["message"].as_str()).unwrap_or(&self.text)
    }
    /// The path of the data file that was opened.
    pub(crate) fn opened(&self) -> Option<&str> {
        self.says().strip_prefix("opened ")
    }
    /// The event itself, told when it happens; the command tells many of them again, a moment later.
    fn event(&self) -> &str {
        self.json["event"].as_str().unwrap_or_default()
    }
    /// A checkpoint is owned now.
    pub(crate) fn checkpointed(&self) -> bool {
        self.event().starts_with("checkpoint ") && self.event().contains(" written (")
    }
    /// A commit has landed now.
    pub(crate) fn committed(&self) -> bool {
        self.event().starts_with("committed ")
    }
}

/// A process that this test started. Killed and waited for when dropped.
pub(crate) struct Running {
    child: Child,
    started: Instant,
    lines: Arc<Mutex<Vec<Line>>>,
    err: Option<JoinHandle<()>>,
    out: Option<JoinHandle<String>>,
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// None: by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) pid: u32,
    pub(crate) took: Duration,
    pub(crate) out: String,
    pub(crate) lines: Vec<Line>,
}

impl Ended {
    pub(crate) fn err(&self) -> String {
        self.lines.iter().map(|l| format!("{}\n", l.text)).collect()
    }
    /// The report that `ingest` prints.
    pub(crate) fn report(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}\n{}", self.out, self.err()))
    }
    /// Expects this exit code.
    pub(crate) fn with(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{}", self.err());
        self
    }
}

impl Running {
    /// The command, its log as JSON with every event at the moment when it happens.
    pub(crate) fn start_as(command: &mut Command) -> Running {
        let command = command.env("RUST_LOG", "info,lakeward=debug").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let started = Instant::now();
        let lines: Arc<Mutex<Vec<Line>>> = Arc::default();
        let (sink, err, mut out) = (lines.clone(), child.stderr.take().unwrap(), child.stdout.take().unwrap());
        let err = std::thread::spawn(move || {
            for text in BufReader::new(err).lines().map_while(Result::ok) {
                let json = serde_json::from_str(&text).unwrap_or_default();
                sink.lock().unwrap().push(Line { at: Instant::now(), json, text });
            }
        });
        let out = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        Running { child, started, lines, err: Some(err), out: Some(out) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
    pub(crate) fn started(&self) -> Instant {
        self.started
    }
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap().clone()
    }
    pub(crate) fn over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until `n` lines are as wanted, and returns when the last of them came; none: the process ended before.
    pub(crate) fn until(&mut self, n: usize, wanted: impl Fn(&Line) -> bool) -> Option<Instant> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let over = self.over(); // before the lines are looked at
            let found = self.lines.lock().unwrap().iter().filter(|l| wanted(l)).nth(n - 1).map(|l| l.at);
            if found.is_some() || over {
                return found;
            }
            assert!(Instant::now() < deadline, "the line did not come in {PATIENCE:?}\n{:#?}", self.lines());
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) -> Ended {
        let _ = self.child.kill();
        self.finish()
    }
    /// Waits for it.
    pub(crate) fn end(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE * 4;
        while !self.over() {
            assert!(Instant::now() < deadline, "the process does not end\n{:#?}", self.lines());
            std::thread::sleep(Duration::from_millis(2));
        }
        self.finish()
    }
    fn finish(&mut self) -> Ended {
        let status = self.child.wait().unwrap();
        let took = self.started.elapsed();
        self.err.take().unwrap().join().unwrap();
        let out = self.out.take().unwrap().join().unwrap();
        Ended { code: status.code(), pid: self.child.id(), took, out, lines: self.lines() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a pipeline of these tests lives: `table` and the chain below `_checkpoints`.
pub(crate) struct Place {
    /// On a bucket: what was there when it was last looked at.
    pub(crate) root: PathBuf,
    pub(crate) pipeline: String,
    file: PathBuf,
    set: Vec<String>,
    bucket: Option<Bucket>,
    _dir: Option<tempfile::TempDir>,
}

/// A directory on a bucket, in which a place lies instead of on local disk.
#[derive(Clone)]
pub(crate) struct Bucket {
    server: Arc<Server>,
    /// Whom the command talks to: the server, or a proxy before it.
    address: String,
    /// The directory in the bucket.
    dir: String,
}

impl Bucket {
    /// A new directory.
    pub(crate) fn new(server: &Arc<Server>, address: &str) -> Bucket {
        static DIRS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);
        let dir = format!("place-{}", DIRS.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        Bucket { server: server.clone(), address: address.to_owned(), dir }
    }
    /// A location in it.
    pub(crate) fn location(&self, name: &str) -> String {
        format!("s3://lake/{}/{name}", self.dir)
    }
    /// The environment of a command that is to find it. A reply that does not come is waited for so long.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        settings(&self.address).into_iter().chain([("AWS_TIMEOUT", "2s".to_owned())]).collect()
    }
}

impl Place {
    /// A pipeline of `fixtures/pipelines`, its table and its chain in a new directory.
    pub(crate) fn fixture(name: &str) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_owned();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/pipelines/{name}.yaml"));
        let set = vec![
            format!("sinks.0.location={}", root.join("table").display()),
            format!("checkpoint.location={}", root.join("_checkpoints").display()),
        ];
        Place { root, pipeline: name.to_owned(), file, set, bucket: None, _dir: Some(dir) }
    }
    /// A pipeline of its own with this source and these triggers, in flow style.
    pub(crate) fn new(source: &str, triggers: &str) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::at(dir.path(), "p", source, triggers);
        Place { _dir: Some(dir), ..place }
    }
    /// In a directory that is there.
    pub(crate) fn at(root: &Path, pipeline: &str, source: &str, triggers: &str) -> Place {
        let text = format!(
            "version: 1\npipeline: {pipeline}\nsource: {{{source}}}\nsinks:\n  - location: table\n    columns: {{id: BIGINT NOT NULL, customer: STRING, \
             amount: 'DECIMAL(10, 2)', created_at: TIMESTAMP(3), note: STRING}}\ncheckpoint: {{location: _checkpoints, {triggers}}}\n"
        );
        let file = root.join(format!("{pipeline}.yaml"));
        std::fs::write(&file, text).unwrap();
        Place { root: root.to_owned(), pipeline: pipeline.to_owned(), file, set: Vec::new(), bucket: None, _dir: None }
    }
    /// Table and chain in a bucket, the pipeline file where it was.
    pub(crate) fn on(mut self, bucket: Bucket) -> Place {
        self.set(&format!("sinks.0.location={}", bucket.location("table")));
        self.set(&format!("checkpoint.location={}", bucket.location("_checkpoints")));
        self.bucket = Some(bucket);
        self
    }
    /// With one more override.
    pub(crate) fn set(&mut self, key_value: &str) {
        self.set.push(key_value.to_owned());
    }
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }
    /// The table, as a directory of this machine: on a bucket what was there when it was last looked at.
    pub(crate) fn table(&self) -> PathBuf {
        self.root.join("table")
    }
    /// The location of a table of this place, as the command names it.
    pub(crate) fn location(&self, name: &str) -> String {
        self.bucket.as_ref().map_or_else(|| self.root.join(name).display().to_string(), |bucket| bucket.location(name))
    }
    pub(crate) fn is_local(&self) -> bool {
        self.bucket.is_none()
    }
    /// On a bucket: downloads a directory of it.
    pub(crate) fn look_at(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        if let Some(bucket) = &self.bucket {
            bucket.server.download(&format!("{}/{name}", bucket.dir), &path);
        }
        path
    }
    /// `table-cli ARGS`, with what it needs to reach this place; lines of `-o jsonl`.
    pub(crate) fn rows(&self, args: &[&str]) -> Vec<Value> {
        let settings = self.bucket.as_ref().map(Bucket::settings).unwrap_or_default();
        let output = crate::cli::table_cli(args).envs(settings).output().unwrap();
        assert!(output.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }
    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let mut args = vec!["ingest", self.file.to_str().unwrap()];
        args.extend(self.set.iter().flat_map(|s| ["--set", s]));
        args.extend(more);
        args
    }
    /// Starts the pipeline.
    pub(crate) fn start(&self, more: &[&str]) -> Running {
        let mut command = Command::new(binary());
        command.args(self.args(more)).args(["--log-format", "json", "-o", "jsonl"]);
        command.envs(self.bucket.as_ref().map(Bucket::settings).unwrap_or_default());
        Running::start_as(&mut command)
    }
    /// Runs it to its end.
    pub(crate) fn run(&self, more: &[&str]) -> Ended {
        self.start(more).end()
    }

    pub(crate) fn snapshots(&self) -> Vec<Value> {
        self.snapshots_of("table")
    }
    pub(crate) fn snapshots_of(&self, table: &str) -> Vec<Value> {
        crate::walk::snapshots(self.look_at(&format!("{table}/snapshot")).parent().unwrap())
    }
    /// The checkpoints that are kept, by seq.
    pub(crate) fn checkpoints(&self) -> Vec<Value> {
        let dir = self.look_at(&format!("_checkpoints/{}", self.pipeline));
        let mut names: Vec<PathBuf> = match std::fs::read_dir(dir) {
            Ok(entries) => entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "json")).collect(),
            Err(_) => Vec::new(),
        };
        names.sort();
        names.iter().filter(|n| !n.file_name().unwrap().to_string_lossy().starts_with('.')).map(|n| read_json(n)).collect()
    }
    /// Every id in the table, as `cat` shows it.
    pub(crate) fn ids(&self) -> Vec<i64> {
        self.ids_of("table")
    }
    /// Every id in this table.
    pub(crate) fn ids_of(&self, table: &str) -> Vec<i64> {
        let rows = self.rows(&["cat", &self.location(table)]);
        let mut ids: Vec<i64> = rows.iter().map(|r| r["id"].as_i64().unwrap()).collect();
        ids.sort_unstable();
        ids
    }
}

pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The commit users of these snapshots.
pub(crate) fn users(snapshots: &[Value]) -> BTreeSet<&str> {
    snapshots.iter().map(|s| s["commitUser"].as_str().unwrap()).collect()
}

/// Everything below a directory: path to content.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for path in entries.map(|e| e.unwrap().path()) {
            if path.is_dir() {
                todo.push(path.clone());
                all.insert(path, Vec::new());
            } else {
                all.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    all
}

/// I1.
pub(crate) fn assert_contiguous(snapshots: &[Value]) {
    let ids: Vec<u64> = snapshots.iter().map(|s| s["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
}

/// Asserts on the snapshots alone: they are contiguous, of one lineage, and hold `rows` rows.
pub(crate) fn assert_exact(snapshots: &[Value], rows: u64) {
    assert_contiguous(snapshots);
    assert_lineage(snapshots, rows);
    assert_eq!(snapshots.last().unwrap()["totalRecordCount"], rows);
}

/// I2, I7: one commit user, its identifiers rise, its ranges of offsets join from 0 to `rows`, and each snapshot has a row for each offset.
pub(crate) fn assert_lineage<'a>(snapshots: impl IntoIterator<Item = &'a Value>, rows: u64) {
    let snapshots: Vec<&Value> = snapshots.into_iter().collect();
    assert!(snapshots.iter().all(|s| s["commitUser"] == snapshots[0]["commitUser"]), "one commit user");
    let identifiers: Vec<i64> = snapshots.iter().map(|s| s["commitIdentifier"].as_i64().unwrap()).collect();
    assert!(identifiers.is_sorted_by(|a, b| a < b), "{identifiers:?}");
    let mut at = 0;
    for s in snapshots {
        let ranges: Value = serde_json::from_str(s["properties"]["lakeward.offsets"].as_str().unwrap()).unwrap();
        let Some(range) = ranges.get("generate") else {
            assert_eq!(s["deltaRecordCount"], 0);
            continue;
        };
        assert_eq!(range[0], at, "ranges join: {ranges} in snapshot {}", s["id"]);
        let to = range[1].as_u64().unwrap();
        assert_eq!(s["deltaRecordCount"], to - at, "a row each: snapshot {}", s["id"]);
        at = to;
    }
    assert_eq!(at, rows);
}
