//! The store goes away in the middle of a run and comes back: a full disk, a read-only disk, read-only directories. Each test mounts a tmpfs
//! of its own. What is there at the end is read by pypaimon.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::{Ended, Line, Place, Running, assert_exact, binary, tally};

/// How long the store is away.
const AWAY: Duration = Duration::from_secs(30);
const SOURCE: &str = "generate: {rows: 800, rows_per_second: 50}";
const ROWS: u64 = 800;

/// A small file system in memory; gone when dropped.
struct Tmpfs {
    at: PathBuf,
    _dir: tempfile::TempDir,
}

impl Tmpfs {
    fn mount() -> Tmpfs {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("disk");
        std::fs::create_dir(&at).unwrap();
        let tmpfs = Tmpfs { at, _dir: dir };
        assert!(tmpfs.try_mount("size=4m"), "mount is not permitted: run this as root");
        tmpfs
    }
    fn try_mount(&self, options: &str) -> bool {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.at);
        command.status().unwrap().success()
    }
    fn remount(&self, how: &str) -> bool {
        let output = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&self.at).output().unwrap();
        output.status.success()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

/// How a store goes away and comes back.
#[derive(Clone, Copy, Debug)]
enum How {
    Full,
    ReadOnly,
    /// Every directory of the table and of the chain: what is open can be written, nothing can be made, renamed or removed.
    ReadOnlyDirectories,
}

impl How {
    fn go(self, disk: &Tmpfs) {
        match self {
            How::Full => {
                let mut file = std::fs::File::create(ballast(&disk.at)).unwrap();
                while file.write_all(&[0; 4096]).is_ok() {}
            }
            How::ReadOnlyDirectories => chmod(&disk.at, 0o555),
            // Refused while a file is open for writing: between two checkpoints there is none for a moment.
            How::ReadOnly => {
                let until = Instant::now() + Duration::from_secs(20);
                while !disk.remount("ro") {
                    assert!(Instant::now() < until, "a file is always open");
                }
            }
        }
    }
    fn come_back(self, disk: &Tmpfs) {
        match self {
            How::Full => std::fs::remove_file(ballast(&disk.at)).unwrap(),
            How::ReadOnly => assert!(disk.remount("rw")),
            How::ReadOnlyDirectories => chmod(&disk.at, 0o755),
        }
    }
}

/// Of every directory below this one.
fn chmod(dir: &Path, mode: u32) {
    let below = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    for path in below.filter(|path| path.is_dir()) {
        chmod(&path, mode);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Starts the pipeline without root's right to write where the mode says no.
fn start(place: &Place) -> Running {
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--"]).arg(binary()).args(place.args(&[]));
    Running::start_as(command.args(["--log-format", "json", "-o", "jsonl"]))
}

fn ballast(disk: &Path) -> PathBuf {
    disk.join("ballast")
}

/// Starts a run, and takes its store away after a few commits.
fn away(how: How, timeout: &str) -> (Tmpfs, Place, Running) {
    let disk = Tmpfs::mount();
    let mut place = Place::at(&disk.at, "p", SOURCE, "every: 400ms");
    place.set(&format!("commit.timeout={timeout}"));
    let mut child = start(&place);
    child.until(3, Line::committed).expect("it commits");
    how.go(&disk);
    (disk, place, child)
}

fn retries(ended: &Ended) -> usize {
    ended.lines.iter().filter(|l| l.says().contains("trying again")).count()
}

/// By the snapshots, by our own reader, and by pypaimon.
fn every_row_once(place: &Place) {
    assert_exact(&place.snapshots(), ROWS);
    assert_eq!(place.ids(), (1..=ROWS.cast_signed()).collect::<Vec<_>>());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(tally::read(&[place.table()]), [runtime.block_on(tally::expected(ROWS))]);
}

fn goes_on(how: How) {
    let (disk, place, mut child) = away(how, "5m");
    let gone = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let landed = place.snapshots().len();
    std::thread::sleep(AWAY.saturating_sub(gone.elapsed()));
    assert!(!child.over(), "it has given up");
    assert_eq!(place.snapshots().len(), landed, "nothing lands on a store that is away");
    how.come_back(&disk);
    let ended = child.end().with(0);
    println!("{how:?}: away for {AWAY:?}, {} retries told, the whole run {:.1} s", retries(&ended), ended.took.as_secs_f64());
    assert!(retries(&ended) >= 3, "{}", ended.err());
    every_row_once(&place);
}

fn gives_up(how: How) {
    let (disk, place, child) = away(how, "5s");
    let gone = Instant::now();
    let ended = child.end().with(75);
    let after = gone.elapsed();
    println!("{how:?}: exit 75 {:.1} s after the store went away, {} retries told", after.as_secs_f64(), retries(&ended));
    // The timeout bounds each object's creation and each commit; what comes on top are the writes before.
    assert!(after < Duration::from_secs(15), "{after:?}");
    let error = &ended.lines.last().unwrap().json;
    assert_eq!(error["kind"], "Unavailable");
    assert!(error["hint"].as_str().is_some(), "{error}");
    let still = start(&place).end();
    assert_eq!(still.code, Some(75), "a start while it is away: {}", still.err());
    how.come_back(&disk);
    place.run(&[]).with(0);
    every_row_once(&place);
}

#[test]
#[ignore = "mounts a tmpfs, as root; wants Python (tests/setup.sh); 40 seconds"]
fn a_disk_that_is_full_for_30_seconds_holds_a_run_up_and_no_more() {
    goes_on(How::Full);
}

#[test]
#[ignore = "mounts a tmpfs, as root; wants Python (tests/setup.sh); 40 seconds"]
fn a_disk_that_is_read_only_for_30_seconds_holds_a_run_up_and_no_more() {
    goes_on(How::ReadOnly);
}

#[test]
#[ignore = "mounts a tmpfs, as root; wants Python (tests/setup.sh); 40 seconds"]
fn directories_that_are_read_only_for_30_seconds_hold_a_run_up_and_no_more() {
    goes_on(How::ReadOnlyDirectories);
}

#[test]
#[ignore = "mounts a tmpfs, as root; wants Python (tests/setup.sh); 40 seconds"]
fn a_disk_that_stays_full_ends_the_run_in_time_and_the_next_is_exact() {
    gives_up(How::Full);
}

#[test]
#[ignore = "mounts a tmpfs, as root; wants Python (tests/setup.sh); 40 seconds"]
fn a_disk_that_stays_read_only_ends_the_run_in_time_and_the_next_is_exact() {
    gives_up(How::ReadOnly);
}

#[test]
#[ignore = "mounts a tmpfs, as root; wants Python (tests/setup.sh); 40 seconds"]
fn directories_that_stay_read_only_end_the_run_in_time_and_the_next_is_exact() {
    gives_up(How::ReadOnlyDirectories);
}
