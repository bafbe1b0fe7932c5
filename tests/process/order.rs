//! The order of system calls: what a snapshot names is on the disk before the snapshot has its name.
//!
//! `strace` writes down what a whole run does. The reading below keeps, for each file and directory that the run made, whether its
//! content and its name would survive a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Place, Running, binary};

const CALLS: &str =
    "trace=openat,fsync,fdatasync,?link,linkat,?rename,renameat,renameat2,?unlink,unlinkat,?mkdir,mkdirat,write,pwrite64,writev,ftruncate";

/// One system call that succeeded.
#[derive(Debug)]
struct Call {
    name: String,
    /// Paths among the arguments: quoted ones, else those of file descriptors.
    paths: Vec<PathBuf>,
    args: String,
}

/// Reads the output of `strace -f -y`. A call that another thread interrupts in the log counts from where it is resumed.
fn calls(text: &str) -> Vec<Call> {
    let mut unfinished: BTreeMap<&str, String> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let (pid, rest) = line.split_once(' ').unwrap();
        let rest = rest.trim_start();
        let whole = if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            unfinished.insert(pid, begun.to_owned());
            continue;
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, tail) = resumed.split_once("resumed>").unwrap();
            format!("{}{tail}", unfinished.remove(pid).unwrap_or_default())
        } else {
            rest.to_owned()
        };
        // `+++ exited`, `--- SIGCHLD`, and calls that failed say nothing.
        let Some((call, result)) = whole.rsplit_once(" = ") else { continue };
        let Some((name, args)) = call.split_once('(') else { continue };
        if result.starts_with('-') || result.starts_with('?') {
            continue;
        }
        calls.push(Call { name: name.to_owned(), paths: paths(args), args: args.to_owned() });
    }
    calls
}

fn paths(args: &str) -> Vec<PathBuf> {
    let quoted: Vec<PathBuf> = args.split('"').skip(1).step_by(2).filter(|p| p.starts_with('/')).map(PathBuf::from).collect();
    if !quoted.is_empty() {
        return quoted;
    }
    args.split('<').skip(1).filter_map(|p| Some(PathBuf::from(p.split_once('>')?.0))).collect()
}

/// What the run has made so far.
#[derive(Default)]
struct Disk {
    /// Does the content survive? Directories count as true.
    content: BTreeMap<PathBuf, bool>,
    /// Does the name survive in its directory?
    named: BTreeMap<PathBuf, bool>,
}

impl Disk {
    fn make(&mut self, path: &Path, content: bool) {
        self.content.insert(path.to_owned(), content);
        self.named.insert(path.to_owned(), false);
    }
    fn apply(&mut self, call: &Call) {
        let Some(path) = call.paths.first() else { return };
        match call.name.as_str() {
            "openat" if call.args.contains("O_CREAT") => self.make(path, false),
            "mkdir" | "mkdirat" => self.make(path, true),
            "write" | "pwrite64" | "writev" | "ftruncate" => {
                if let Some(content) = self.content.get_mut(path) {
                    *content = false;
                }
            }
            "fsync" | "fdatasync" => {
                if let Some(content) = self.content.get_mut(path) {
                    *content = true;
                }
                let inside = self.named.iter_mut().filter(|(p, _)| p.parent() == Some(path));
                inside.for_each(|(_, named)| *named = true);
            }
            "link" | "linkat" => {
                let content = self.content.get(path).copied().unwrap_or(true);
                self.make(&call.paths[1], content);
            }
            "rename" | "renameat" | "renameat2" => {
                let content = self.content.remove(path).unwrap_or(true);
                self.named.remove(path);
                self.make(&call.paths[1], content);
            }
            "unlink" | "unlinkat" => {
                self.content.remove(path);
                self.named.remove(path);
            }
            _ => {}
        }
    }
    /// Why a power cut now would lose it; none: it would not.
    fn lost(&self, path: &Path) -> Option<String> {
        if self.content.get(path) == Some(&false) {
            return Some(format!("{}: the content is not synced", path.display()));
        }
        let unnamed = path.ancestors().find(|p| self.named.get(*p) == Some(&false))?;
        Some(format!("{}: its name is not synced", unnamed.display()))
    }
}

/// What the run would lose at each link of a snapshot or checkpoint, and how many snapshots it made.
fn losses(place: &Place, calls: &[Call]) -> (Vec<String>, u64) {
    let (table, chain) = (place.table(), place.root.join("_checkpoints"));
    let (mut disk, mut lost, mut snapshots) = (Disk::default(), Vec::new(), 0);
    for call in calls {
        if call.name.starts_with("link") {
            let to = &call.paths[1];
            lost.extend(disk.lost(&call.paths[0]).filter(|l| l.contains("content")).map(|l| format!("link of {}: {l}", to.display())));
            let made: BTreeSet<&Path> = disk.content.keys().map(PathBuf::as_path).collect();
            let needed: Vec<&Path> = if to.starts_with(table.join("snapshot")) {
                snapshots += 1;
                assert_named(&table, snapshots, &made);
                // Everything that a snapshot can name, the newest checkpoint, and the snapshots before; of the data files those that it
                // does name, since the next checkpoint's are written already.
                let named = named_files(&table, snapshots);
                let data =
                    made.iter().filter(|p| p.starts_with(&table) && p.file_name().is_some_and(|n| !n.to_string_lossy().starts_with('.')));
                let data = data.filter(|p| p.extension().is_none_or(|e| e != "parquet") || named.contains(**p));
                let objects = data.filter(|p| !p.ends_with("LATEST") && !p.ends_with("EARLIEST"));
                objects.chain(made.iter().rfind(|p| p.starts_with(&chain) && p.extension().is_some_and(|e| e == "json"))).copied().collect()
            } else if to.starts_with(&chain) {
                // The next checkpoint comes after the last commit is durable.
                made.iter().filter(|p| p.parent() == Some(&table.join("snapshot")) && is_snapshot(p)).copied().collect()
            } else {
                Vec::new()
            };
            lost.extend(needed.iter().filter_map(|p| disk.lost(p)).map(|l| format!("link of {}: {l}", to.display())));
        }
        disk.apply(call);
    }
    (lost, snapshots)
}

fn is_snapshot(path: &Path) -> bool {
    path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("snapshot-"))
}

/// The data files of snapshot `id`.
fn named_files(table: &Path, id: u64) -> BTreeSet<PathBuf> {
    let files = crate::cli::rows(&["files", table.to_str().unwrap(), "--snapshot", &id.to_string()]);
    files.iter().map(|f| table.join(f["path"].as_str().unwrap())).collect()
}

/// What snapshot `id` names is among what was made before its link.
fn assert_named(table: &Path, id: u64, made: &BTreeSet<&Path>) {
    let snapshot = super::read_json(&table.join(format!("snapshot/snapshot-{id}")));
    let mut names: Vec<PathBuf> =
        ["baseManifestList", "deltaManifestList"].iter().map(|k| Path::new("manifest").join(snapshot[k].as_str().unwrap())).collect();
    names.push(format!("schema/schema-{}", snapshot["schemaId"]).into());
    names.extend(named_files(table, id));
    for name in names {
        assert!(made.contains(table.join(&name).as_path()), "snapshot {id} names {}, which was not seen being made", name.display());
    }
    let manifest = |p: &&&Path| p.parent() == Some(&table.join("manifest")) && !p.to_string_lossy().contains("manifest-list");
    let read = |id| super::read_json(&table.join(format!("snapshot/snapshot-{id}")));
    let with_rows = (1..=id).filter(|id| read(*id)["deltaRecordCount"] != 0).count();
    assert!(made.iter().filter(manifest).count() >= with_rows, "a manifest each");
}

fn traced(place: &Place) -> Vec<Call> {
    let out = place.root.join("strace.txt");
    let mut command = Command::new("strace");
    command
        .args(["-f", "-y", "-s", "0", "-o", out.to_str().unwrap(), "-e", CALLS])
        .arg(binary())
        .args(place.args(&["--log-format", "json"]));
    Running::start_as(&mut command).end().with(0);
    calls(&std::fs::read_to_string(out).unwrap())
}

#[test]
#[ignore = "wants strace (tests/setup.sh)"]
fn what_a_snapshot_names_and_its_checkpoint_are_synced_before_it_is_linked() {
    let mut place = Place::new("generate: {rows: 60, rows_per_second: 200}", "rows: 20");
    let trace = traced(&place);
    let (lost, snapshots) = losses(&place, &trace);
    assert!(snapshots >= 3, "{snapshots}");
    assert!(lost.is_empty(), "{lost:#?}");
    let count = |name: &str| trace.iter().filter(|c| c.name == name).count();
    println!(
        "{} calls, {snapshots} snapshots; fsync {}, fdatasync {}, linkat {}, mkdir {}",
        trace.len(),
        count("fsync"),
        count("fdatasync"),
        count("linkat"),
        count("mkdir")
    );

    // The test itself can fail: without syncs everything would be lost.
    place = Place::new("generate: {rows: 60, rows_per_second: 200}", "rows: 20");
    place.set("durability=none");
    let (lost, snapshots) = losses(&place, &traced(&place));
    assert!(snapshots >= 3 && lost.len() as u64 > 4 * snapshots, "{lost:#?}");
}

#[test]
fn a_trace_is_read_as_strace_writes_it() {
    let text = "\
7 openat(AT_FDCWD</w>, \"/t/a\", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 9</t/a>
7 write(9</t/a>, \"\"..., 10 <unfinished ...>
8 fsync(11</t/b>) = -1 EIO (Input/output error)
7 <... write resumed>) = 10
7 linkat(AT_FDCWD</w>, \"/t/a\", AT_FDCWD</w>, \"/t/c\", 0) = 0
7 +++ exited with 0 +++
";
    let calls = calls(text);
    let names: Vec<&str> = calls.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["openat", "write", "linkat"]);
    assert_eq!(calls[1].paths, [Path::new("/t/a")]);
    assert_eq!(calls[2].paths, [Path::new("/t/a"), Path::new("/t/c")]);
    let mut disk = Disk::default();
    calls.iter().for_each(|c| disk.apply(c));
    assert_eq!(disk.lost(Path::new("/t/c")).unwrap(), "/t/c: the content is not synced");
}
