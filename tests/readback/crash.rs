//! A process that dies while it publishes a snapshot, beside Java's listing, reading and expiry.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use lakeward::store::{DiskObserver, DiskOp};
use serde_json::json;

use super::readers::{Row, assert_rows, assert_rows_by_all, compared, count_comparison, get};
use super::{Folder, columns_yaml, ingest, pipeline, try_ingest};

/// Before which step of the publication of a snapshot the process dies; from then on it changes nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Death {
    /// The temporary file is there and empty.
    Write,
    /// It is complete, and has only its own name.
    Link,
    /// The snapshot is there, and the temporary name still is.
    Unlink,
}

struct Dying {
    at: Death,
    snapshot: u64,
    dead: AtomicBool,
}

impl Dying {
    fn now(&self, op: &DiskOp<'_>) -> bool {
        let staged = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&format!(".snapshot-{}.", self.snapshot)) && name.ends_with(".tmp")
        };
        match (self.at, *op) {
            (Death::Write, DiskOp::Write { path, .. }) | (Death::Unlink, DiskOp::Unlink(path)) => staged(path),
            (Death::Link, DiskOp::Link { from, .. }) => staged(from),
            _ => false,
        }
    }
}

impl DiskObserver for Dying {
    fn before(&self, op: &DiskOp<'_>) -> io::Result<()> {
        if self.now(op) {
            self.dead.store(true, Ordering::Relaxed);
        }
        if self.dead.load(Ordering::Relaxed) { Err(io::Error::other("the process is dead")) } else { Ok(()) }
    }
    fn after(&self, _: &DiskOp<'_>) {}
}

/// The names of files in `snapshot/` that are temporary ones, with their sizes.
fn temporary(table: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(table.join("snapshot")).unwrap().map(|e| e.unwrap());
    let named = entries.map(|e| (e.file_name().into_string().unwrap(), e.metadata().unwrap().len()));
    named.filter(|(name, _)| name.starts_with('.') && name.ends_with(".tmp")).collect()
}

/// One commit of rows, by one run.
struct Writer {
    folder: Folder,
    table: PathBuf,
    rows: Vec<Row>,
}

impl Writer {
    fn new() -> Writer {
        let folder = Folder::new();
        let table = folder.table("crash");
        Writer { folder, table, rows: Vec::new() }
    }
    fn text(at_end: &str) -> String {
        pipeline("crash", at_end, &columns_yaml([("id", "BIGINT NOT NULL"), ("s", "STRING")])) + "commit: {timeout: 20ms}\n"
    }
    fn input(&mut self) {
        let ids = self.rows.len() + 1..self.rows.len() + 11;
        let lines: Vec<String> = ids.clone().map(|id| format!("{{\"id\":{id},\"s\":\"s{id}\"}}")).collect();
        self.folder.input(lines.iter().map(String::as_str));
        self.rows.extend(ids.map(|id| vec![Some(id.to_string()), Some(format!("s{id}"))]));
    }
    async fn commit(&mut self, at_end: &str) {
        self.input();
        let report = ingest(self.folder.path(), &Writer::text(at_end)).await;
        assert_eq!(report.rows, 10);
    }
    fn ids(&self, java: &str) -> Vec<u64> {
        count_comparison();
        let answer = get(java, &json!({"cmd": "snapshots", "table": self.table}));
        answer["snapshots"].as_array().unwrap().iter().map(|s| s["id"].as_u64().unwrap()).collect()
    }
    fn expire(&self, java: &str) {
        get(java, &json!({"cmd": "expire", "table": self.table, "retain_max": 1, "retain_min": 1, "time_retained_ms": 0}));
    }
}

const NAMES: [&str; 2] = ["id", "s"];

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn java_lists_reads_and_expires_a_table_whose_writer_died_while_publishing() {
    let start = Instant::now();
    for at in [Death::Write, Death::Link, Death::Unlink] {
        for java in ["java-newest", "java-oldest"] {
            let mut writer = Writer::new();
            for at_end in ["pause", "pause", "close"] {
                writer.commit(at_end).await;
            }
            let newest = writer.ids(java).last().copied().unwrap();
            let landed_before = writer.rows.clone();
            writer.input();
            let disk = Arc::new(Dying { at, snapshot: newest + 1, dead: AtomicBool::new(false) });
            let died = try_ingest(writer.folder.path(), &Writer::text("pause"), Some(disk.clone())).await;
            assert!(disk.dead.load(Ordering::Relaxed), "{at:?} {java}: {died:?}");
            let left = temporary(&writer.table);
            assert_eq!(left.len(), 1, "{left:?}");
            assert_eq!(left[0].1 == 0, at == Death::Write, "{left:?}");

            // As it lies: the new snapshot is there or is not.
            let is_there = at == Death::Unlink;
            let visible = if is_there { &writer.rows } else { &landed_before };
            let ids: Vec<u64> = (1..=newest + u64::from(is_there)).collect();
            assert_eq!(writer.ids(java), ids, "{at:?}");
            assert_rows(java, &writer.table, &NAMES, visible);
            assert_rows_by_all(&writer.table, &NAMES, visible);

            // Java expires up to what the dead writer has pinned, the snapshot below its own.
            writer.expire(java);
            assert_eq!(writer.ids(java), ids.into_iter().filter(|id| *id >= newest).collect::<Vec<_>>(), "{at:?} {java}");
            assert_rows_by_all(&writer.table, &NAMES, visible);

            // One clean life: everything once. With its end the pin goes, and Java expires all but the newest.
            ingest(writer.folder.path(), &Writer::text("close")).await;
            assert_rows_by_all(&writer.table, &NAMES, &writer.rows);
            let newest = writer.ids(java).last().copied().unwrap();
            writer.expire(java);
            assert_eq!(writer.ids(java), [newest], "{at:?} {java}");
            assert_rows_by_all(&writer.table, &NAMES, &writer.rows);
        }
    }
    println!("crash: {:.1?}, {} comparisons by all tests so far", start.elapsed(), compared());
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn java_expires_nothing_that_an_open_lineage_has_pinned() {
    for java in ["java-newest", "java-oldest"] {
        let mut writer = Writer::new();
        writer.commit("close").await;
        let closed = writer.ids(java).last().copied().unwrap();
        for _ in 0..3 {
            writer.commit("pause").await;
        }
        let all = writer.ids(java);
        let pins: Vec<_> = std::fs::read_dir(writer.table.join("consumer")).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(pins.len(), 1, "{pins:?}");
        let pin: serde_json::Value = serde_json::from_slice(&std::fs::read(&pins[0]).unwrap()).unwrap();
        let pinned = pin["nextSnapshot"].as_u64().unwrap();
        assert!(closed <= pinned && pinned < *all.last().unwrap(), "{pinned} of {all:?}");
        writer.expire(java);
        assert_eq!(writer.ids(java), all.into_iter().filter(|id| *id >= pinned).collect::<Vec<_>>(), "{java}, pinned {pinned}");
        // The lineage goes on as if nothing had happened.
        writer.commit("pause").await;
        assert_rows_by_all(&writer.table, &NAMES, &writer.rows);
    }
}
