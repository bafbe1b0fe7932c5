//! The single steps that change a local disk, each announced to an observer: the seam at which tests count steps, fail them and crash.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use super::Durability;

/// One step that changes a local disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp<'a> {
    /// A file is created (and emptied, if it is there).
    CreateFile(&'a Path),
    /// `len` bytes are appended.
    Write {
        /// The file.
        path: &'a Path,
        /// How many bytes.
        len: usize,
    },
    /// fsync of a file.
    SyncFile(&'a Path),
    /// A second name for a file, in the same directory; fails if the name is taken.
    Link {
        /// The name that it has.
        from: &'a Path,
        /// The name that it gets.
        to: &'a Path,
    },
    /// A file changes its name within its directory.
    Rename {
        /// The old name.
        from: &'a Path,
        /// The new name.
        to: &'a Path,
        /// May a file of the new name be replaced?
        replace: bool,
    },
    /// A name is removed.
    Unlink(&'a Path),
    /// A directory is created.
    MakeDir(&'a Path),
    /// fsync of a directory: its names are durable.
    SyncDir(&'a Path),
}

/// Sees every step that changes a local disk. For tests and crash simulation.
pub trait DiskObserver: Send + Sync {
    /// Called before the step; an error is returned in its place and the step is not done.
    fn before(&self, op: &DiskOp<'_>) -> io::Result<()>;
    /// Called after a step that succeeded.
    fn after(&self, op: &DiskOp<'_>);
}

/// The steps, with the fsyncs left out when durability is off.
#[derive(Clone)]
pub(super) struct Disk {
    durability: Durability,
    observer: Option<Arc<dyn DiskObserver>>,
}

impl Disk {
    pub(super) fn new(durability: Durability, observer: Option<Arc<dyn DiskObserver>>) -> Self {
        Disk { durability, observer }
    }

    pub(super) fn durable(&self) -> bool {
        self.durability == Durability::Fsync
    }

    fn step<T>(&self, op: DiskOp<'_>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(observer) = &self.observer else { return work() };
        observer.before(&op)?;
        let done = work()?;
        observer.after(&op);
        Ok(done)
    }

    /// Creates a file; `fresh`: fails if the name is taken, else empties what is there.
    pub(super) fn create_file(&self, path: &Path, fresh: bool) -> io::Result<File> {
        self.step(DiskOp::CreateFile(path), || {
            let mut options = OpenOptions::new();
            options.write(true);
            if fresh {
                options.create_new(true)
            } else {
                options.create(true).truncate(true)
            };
            options.open(path)
        })
    }

    /// Appends some of the bytes; how many.
    pub(super) fn write_some(&self, file: &mut File, path: &Path, bytes: &[u8]) -> io::Result<usize> {
        self.step(DiskOp::Write { path, len: bytes.len() }, || {
            let written = file.write(bytes)?;
            if written == 0 && !bytes.is_empty() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(written) }
        })
    }

    pub(super) fn write_all(&self, file: &mut File, path: &Path, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_some(file, path, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    pub(super) fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        if !self.durable() {
            return Ok(());
        }
        self.step(DiskOp::SyncFile(path), || file.sync_all())
    }

    pub(super) fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if !self.durable() {
            return Ok(());
        }
        self.step(DiskOp::SyncDir(path), || File::open(path)?.sync_all())
    }

    pub(super) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(DiskOp::Link { from, to }, || std::fs::hard_link(from, to))
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(DiskOp::Rename { from, to, replace: true }, || std::fs::rename(from, to))
    }

    /// Renames unless the new name is taken, in one step of the file system.
    pub(super) fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        self.step(DiskOp::Rename { from, to, replace: false }, || Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?))
    }

    pub(super) fn unlink(&self, path: &Path) -> io::Result<()> {
        self.step(DiskOp::Unlink(path), || std::fs::remove_file(path))
    }

    pub(super) fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.step(DiskOp::MakeDir(path), || std::fs::create_dir(path))
    }
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Disk({:?})", self.durability)
    }
}
