//! A local disk that loses power: stops at a chosen step, and then forgets what was not fsynced.
//!
//! Only what goes through an observed [`super::Store`] is known here; files from elsewhere count as durable. One [`CrashDisk`] is one life:
//! give it to every store of that life through [`super::StoreOptions::disk`], let the life end, call [`CrashDisk::forget_unsynced`], and
//! start the next life with a new one.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{DiskObserver, DiskOp};

/// How much of what was not fsynced a power cut takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Every name that its directory's fsync did not cover, and every byte that the file's fsync did not cover.
    All,
    /// Only the bytes: names are there, files are cut. What a journalling file system may do.
    Contents,
    /// Only the names: what still has a durable name is whole.
    Names,
    /// A part of it: of each directory's unsynced steps a first part stays, and of each file's unsynced bytes.
    Some(u64),
}

/// A disk that counts its steps, stops at one of them, and knows what is durable.
pub struct CrashDisk(Mutex<State>);

struct State {
    stop_at: Option<u64>,
    steps: u64,
    log: Vec<String>,
    /// Name changes that no fsync of their directory has covered, in order.
    pending: Vec<Pending>,
    /// Which file a name leads to.
    names: HashMap<PathBuf, usize>,
    files: Vec<Lengths>,
    /// What a step that is being done will destroy.
    doomed: Option<Saved>,
}

#[derive(Clone, Copy, Default)]
struct Lengths {
    written: u64,
    synced: u64,
}

/// A file whose name was taken away: its bytes, and which file it was.
struct Saved {
    bytes: Vec<u8>,
    file: Option<usize>,
}

struct Pending {
    dir: PathBuf,
    change: Change,
}

enum Change {
    Made(PathBuf),
    MadeDir(PathBuf),
    Gone(PathBuf, Saved),
    Moved { from: PathBuf, to: PathBuf, replaced: Option<Saved> },
}

impl CrashDisk {
    /// A disk that does every step.
    pub fn new() -> Arc<Self> {
        Self::build(None)
    }
    /// A disk that does `steps` steps and refuses every later one.
    pub fn stopping_at(steps: u64) -> Arc<Self> {
        Self::build(Some(steps))
    }
    fn build(stop_at: Option<u64>) -> Arc<Self> {
        let (log, pending, files) = (Vec::new(), Vec::new(), Vec::new());
        Arc::new(CrashDisk(Mutex::new(State { stop_at, steps: 0, log, pending, names: HashMap::new(), files, doomed: None })))
    }
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Steps done or refused so far. A life that stopped at no step needs as many runs as this to be cut everywhere.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }
    /// Has it refused a step?
    pub fn is_dead(&self) -> bool {
        let state = self.state();
        state.stop_at.is_some_and(|n| state.steps > n)
    }
    /// Does `steps` more steps and refuses every later one: zero kills at once.
    pub fn stop_after(&self, steps: u64) {
        let mut state = self.state();
        state.stop_at = Some(state.steps.saturating_add(steps));
    }
    /// Does every step again: the process died, the machine did not, and the next process runs on it.
    pub fn revive(&self) {
        self.state().stop_at = None;
    }
    /// The steps that were done, one line each, for messages.
    pub fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// Rewrites the real directories into what a power cut may leave of them. Nothing may use them meanwhile.
    pub fn forget_unsynced(&self, loss: Loss) -> io::Result<()> {
        let mut state = self.state();
        let mut dice = Dice(match loss {
            Loss::Some(seed) => seed,
            _ => 0,
        });
        if loss != Loss::Contents {
            let undone = state.undone(loss, &mut dice);
            for pending in undone.into_iter().rev() {
                state.undo(pending)?;
            }
        }
        if loss != Loss::Names {
            state.cut(loss, &mut dice)?;
        }
        Ok(())
    }
}

impl State {
    /// The pending changes that are lost: of each directory all, or all after some point.
    fn undone(&mut self, loss: Loss, dice: &mut Dice) -> Vec<Pending> {
        let pending = std::mem::take(&mut self.pending);
        let Loss::Some(_) = loss else { return pending };
        let mut counts: HashMap<PathBuf, (u64, u64)> = HashMap::new();
        for p in &pending {
            counts.entry(p.dir.clone()).or_default().0 += 1;
        }
        let mut dirs: Vec<_> = counts.iter_mut().collect();
        dirs.sort_by(|a, b| a.0.cmp(b.0));
        for (_, (all, kept)) in dirs {
            *kept = dice.below(*all + 1);
        }
        let mut lost = Vec::new();
        for p in pending {
            match counts.get_mut(&p.dir) {
                Some((_, kept)) if *kept > 0 => *kept -= 1,
                _ => lost.push(p),
            }
        }
        lost
    }

    fn undo(&mut self, pending: Pending) -> io::Result<()> {
        match pending.change {
            Change::Made(path) => {
                self.names.remove(&path);
                absent_is_fine(fs::remove_file(path))
            }
            Change::MadeDir(path) => {
                self.names.retain(|name, _| !name.starts_with(&path));
                absent_is_fine(fs::remove_dir_all(path))
            }
            Change::Gone(path, saved) => self.restore(path, saved),
            Change::Moved { from, to, replaced } => {
                absent_is_fine(fs::rename(&to, &from))?;
                if let Some(file) = self.names.remove(&to) {
                    self.names.insert(from, file);
                }
                replaced.map_or(Ok(()), |saved| self.restore(to, saved))
            }
        }
    }

    fn restore(&mut self, path: PathBuf, saved: Saved) -> io::Result<()> {
        if !path.parent().is_some_and(Path::exists) {
            return Ok(());
        }
        fs::write(&path, saved.bytes)?;
        if let Some(file) = saved.file {
            self.names.insert(path, file);
        }
        Ok(())
    }

    /// Cuts every file to what its last fsync covered.
    fn cut(&mut self, loss: Loss, dice: &mut Dice) -> io::Result<()> {
        let mut names: Vec<_> = self.names.iter().map(|(name, file)| (name.clone(), *file)).collect();
        names.sort();
        let mut kept: HashMap<usize, u64> = HashMap::new();
        for (name, file) in names {
            let Lengths { written, synced } = self.files.get(file).copied().unwrap_or_default();
            if synced == written {
                continue;
            }
            let length = *kept.entry(file).or_insert_with(|| match loss {
                Loss::Some(_) => synced + dice.below(written - synced + 1),
                _ => synced,
            });
            match fs::OpenOptions::new().write(true).open(&name) {
                Ok(open) => open.set_len(length)?,
                Err(e) => absent_is_fine(Err(e))?,
            }
        }
        Ok(())
    }

    fn save(&self, path: &Path) -> io::Result<Option<Saved>> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(Saved { bytes, file: self.names.get(path).copied() })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn changed(&mut self, path: &Path, change: Change) {
        let dir = path.parent().unwrap_or(path).to_owned();
        self.pending.push(Pending { dir, change });
    }

    fn file(&mut self, path: &Path) -> &mut Lengths {
        let next = self.files.len();
        let file = *self.names.entry(path.to_owned()).or_insert(next);
        if file == next {
            // Known to be there, but not written in this life: all of it is durable.
            let length = fs::metadata(path).map(|m| m.len()).unwrap_or_default();
            self.files.push(Lengths { written: length, synced: length });
        }
        &mut self.files[file]
    }

    fn done(&mut self, op: &DiskOp<'_>) {
        let doomed = self.doomed.take();
        match *op {
            DiskOp::CreateFile(path) => {
                let file = self.files.len();
                self.files.push(Lengths::default());
                if self.names.insert(path.to_owned(), file).is_none() {
                    self.changed(path, Change::Made(path.to_owned()));
                }
            }
            DiskOp::Write { path, .. } => {
                let length = fs::metadata(path).map(|m| m.len()).unwrap_or_default();
                self.file(path).written = length;
            }
            DiskOp::SyncFile(path) => {
                let file = self.file(path);
                file.synced = file.written;
            }
            DiskOp::Link { from, to } => {
                self.file(from);
                if let Some(file) = self.names.get(from).copied() {
                    self.names.insert(to.to_owned(), file);
                }
                self.changed(to, Change::Made(to.to_owned()));
            }
            DiskOp::Rename { from, to, .. } => {
                if let Some(file) = self.names.remove(from) {
                    self.names.insert(to.to_owned(), file);
                }
                self.changed(to, Change::Moved { from: from.to_owned(), to: to.to_owned(), replaced: doomed });
            }
            DiskOp::Unlink(path) => {
                self.names.remove(path);
                if let Some(saved) = doomed {
                    self.changed(path, Change::Gone(path.to_owned(), saved));
                }
            }
            DiskOp::MakeDir(path) => self.changed(path, Change::MadeDir(path.to_owned())),
            DiskOp::SyncDir(path) => self.pending.retain(|p| p.dir != path),
        }
    }
}

impl DiskObserver for CrashDisk {
    fn before(&self, op: &DiskOp<'_>) -> io::Result<()> {
        let mut state = self.state();
        state.steps += 1;
        if state.stop_at.is_some_and(|n| state.steps > n) {
            return Err(io::Error::other("the disk has lost power"));
        }
        state.doomed = match op {
            DiskOp::Rename { to: path, replace: true, .. } | DiskOp::Unlink(path) => state.save(path)?,
            _ => None,
        };
        Ok(())
    }
    fn after(&self, op: &DiskOp<'_>) {
        let mut state = self.state();
        state.log.push(format!("{op:?}"));
        state.done(op);
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(()),
        other => other,
    }
}

/// Small repeatable dice (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n.max(1)
    }
}
