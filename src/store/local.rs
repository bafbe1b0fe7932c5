//! A directory of this machine as a store. Every call is a few system calls, made in place: no thread, no await.
//!
//! What is published is staged beside its name, fsynced, and linked to it: `link` is the conditional create of a local disk. The staged
//! file's name starts with a dot, because a stray `snapshot-7.something` would stop readers that parse every name in the directory.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rustix::fs::OFlags;
use rustix::io::Errno;
use uuid::Uuid;

use super::disk::Disk;
use super::failure::{Failure, Verdict};
use super::many::Unsynced;
use super::{Entry, Listed, StoreOptions};

/// A directory on local disk.
#[derive(Clone, Debug)]
pub(super) struct LocalDir {
    root: PathBuf,
    disk: Disk,
    /// Directories whose names are known to be durable, each in its parent, all the way up.
    settled: Arc<Mutex<HashSet<PathBuf>>>,
}

/// An outcome of a local call.
type Done<T> = Result<T, Failure>;

impl LocalDir {
    pub(super) fn new(root: PathBuf, options: &StoreOptions) -> Self {
        LocalDir { root, disk: Disk::new(options.durability, options.disk.clone()), settled: Arc::default() }
    }

    pub(super) fn child(&self, name: &str) -> Self {
        LocalDir { root: self.root.join(name), ..self.clone() }
    }

    fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    pub(super) fn get(&self, name: &str) -> Done<Bytes> {
        let mut bytes = Vec::new();
        open(&self.path(name)).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(read_failed)?;
        Ok(Bytes::from(bytes))
    }

    pub(super) fn get_range(&self, name: &str, range: Range<u64>) -> Done<Bytes> {
        let mut file = open(&self.path(name)).map_err(may_not)?;
        file.seek(SeekFrom::Start(range.start))?;
        let wanted = range.end.saturating_sub(range.start);
        let mut bytes = Vec::with_capacity(usize::try_from(wanted.min(1 << 30)).unwrap_or_default());
        file.take(wanted).read_to_end(&mut bytes).map_err(read_failed)?;
        Ok(Bytes::from(bytes))
    }

    pub(super) fn size(&self, name: &str) -> Done<u64> {
        let found = fs::metadata(self.path(name)).map_err(may_not)?;
        if found.is_dir() { Err(io::Error::from(io::ErrorKind::NotFound).into()) } else { Ok(found.len()) }
    }

    pub(super) fn list(&self, dir: &str, what: Listed<'_>) -> Done<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut todo = vec![(self.path(dir), String::new())];
        while let Some((path, prefix)) = todo.pop() {
            let reading = match fs::read_dir(&path) {
                Ok(reading) => reading,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(may_not(e)),
            };
            for item in reading {
                let item = item?;
                // Nobody of us writes a name that is not UTF-8, so nothing can refer to it.
                let Ok(name) = item.file_name().into_string() else { continue };
                if name.starts_with('.') && name.ends_with(".tmp") {
                    continue;
                }
                // Before the file is looked at: that is what costs.
                if matches!(what, Listed::After(after) if name.as_str() <= after) {
                    continue;
                }
                // Follows symbolic links; what vanished since is not there, nor is what a link that leads to itself names.
                let found = match fs::metadata(item.path()) {
                    Ok(found) => found,
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) if Errno::from_io_error(&e) == Some(Errno::LOOP) => continue,
                    Err(e) => return Err(may_not(e)),
                };
                let name = format!("{prefix}{name}");
                if found.is_file() {
                    entries.push(Entry { name, size: found.len(), modified_ms: modified_ms(&found) });
                } else if matches!(what, Listed::Deep) && found.is_dir() {
                    todo.push((item.path(), format!("{name}/")));
                }
            }
        }
        Ok(entries)
    }

    pub(super) fn delete(&self, name: &str) -> Done<()> {
        let path = self.path(name);
        match self.disk.unlink(&path) {
            // Perhaps gone by an earlier try that could not fsync the directory.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
        Ok(self.disk.sync_dir(parent(&path))?)
    }

    /// Writes under a new name. A later `try_number` overwrites what an earlier one of the same call left.
    pub(super) fn put_new(&self, name: &str, bytes: &[u8], try_number: u32) -> Done<()> {
        let mut file = self.start(name, try_number)?;
        let path = self.path(name);
        let written = self.disk.write_all(&mut file, &path, bytes).and_then(|()| self.disk.sync_file(&file, &path));
        if let Err(e) = written {
            // Nothing refers to it and the next try writes it anew. After a failed fsync only a new file can be trusted.
            let _ = self.disk.unlink(&path);
            return Err(e.into());
        }
        Ok(self.disk.sync_dir(parent(&path))?)
    }

    /// As [`LocalDir::put_new`], but nothing is durable before everything in `unsynced` is synced.
    pub(super) fn write_unsynced(&self, name: &str, bytes: &[u8], try_number: u32, unsynced: &mut Unsynced) -> Done<()> {
        let path = self.path(name);
        let dir = parent(&path);
        let missing = self.missing(dir);
        for path in missing.iter().rev() {
            self.make_dir(path)?;
            unsynced.dirs.insert(parent(path).to_owned());
        }
        let made = self.disk.create_file(&path, try_number == 0);
        let mut file =
            made.map_err(|e| if e.kind() == io::ErrorKind::AlreadyExists { Failure::new(Verdict::Refused, e) } else { e.into() })?;
        if let Err(e) = self.disk.write_all(&mut file, &path, bytes) {
            let _ = self.disk.unlink(&path);
            return Err(e.into());
        }
        if self.disk.durable() {
            unsynced.files.push((file, name.to_owned()));
            unsynced.dirs.insert(dir.to_owned());
            // As in `settle_dirs`: what was there may have no durable name yet.
            for path in dir.ancestors().skip(missing.len()).take_while(|path| !self.is_settled(path)) {
                unsynced.dirs.extend(path.parent().filter(|p| !p.as_os_str().is_empty()).map(Path::to_owned));
            }
            unsynced.settled.insert(dir.to_owned());
        }
        Ok(())
    }

    /// Makes the names in a directory durable; one that was not made by us may refuse.
    pub(super) fn sync_above(&self, dir: &Path) -> Done<()> {
        match self.disk.sync_dir(dir) {
            Err(e) if !dir.starts_with(&self.root) && not_ours(&e) => Ok(()),
            other => Ok(other?),
        }
    }

    /// These directories have durable names, all the way up.
    pub(super) fn settled_now(&self, dirs: BTreeSet<PathBuf>) {
        for path in dirs.iter().flat_map(|dir| dir.ancestors()) {
            self.remember_settled(path);
        }
    }

    /// Is anything made durable at all?
    pub(super) fn durable(&self) -> bool {
        self.disk.durable()
    }

    /// Creates the empty file of an upload.
    pub(super) fn start(&self, name: &str, try_number: u32) -> Done<File> {
        let path = self.path(name);
        self.make_dirs(parent(&path))?;
        self.disk.create_file(&path, try_number == 0).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Failure::new(Verdict::Refused, e),
            _ => e.into(),
        })
    }

    pub(super) fn append(&self, file: &mut File, name: &str, bytes: &[u8]) -> Done<usize> {
        match self.disk.write_some(file, &self.path(name), bytes) {
            Ok(written) => Ok(written),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(e) => Err(e.into()),
        }
    }

    /// Makes an uploaded file durable. A failed fsync is final: the kernel may have dropped the bytes, and a second fsync would not say so.
    pub(super) fn finish(&self, file: &File, name: &str) -> Done<()> {
        let path = self.path(name);
        self.disk.sync_file(file, &path).map_err(|e| Failure::new(Verdict::Lost, e))
    }

    pub(super) fn sync_parent(&self, name: &str) -> Done<()> {
        Ok(self.disk.sync_dir(parent(&self.path(name)))?)
    }

    /// Replaces atomically.
    pub(super) fn put(&self, name: &str, bytes: &[u8], id: Uuid) -> Done<()> {
        let path = self.path(name);
        let staged = self.stage(&path, bytes, id)?;
        if let Err(e) = self.disk.rename(&staged, &path) {
            let _ = self.disk.unlink(&staged);
            return Err(e.into());
        }
        Ok(self.disk.sync_dir(parent(&path))?)
    }

    /// Creates `name` with `bytes` unless it exists; the whole object or nothing.
    pub(super) fn create(&self, name: &str, bytes: &[u8], id: Uuid) -> Done<()> {
        let path = self.path(name);
        let staged = self.stage(&path, bytes, id)?;
        let linked = match self.disk.link(&staged, &path) {
            Err(e) if no_links(&e) => self.disk.rename_new(&staged, &path).map_err(|e| no_create(&path, e)),
            other => other.map_err(link_failed),
        };
        match linked {
            Ok(()) => {
                // From here on it exists; whether it survives a power cut is what the caller has to find out if this fails.
                self.disk.sync_dir(parent(&path)).map_err(|e| Failure::new(Verdict::Unclear, e))?;
                let _ = self.disk.unlink(&staged);
                Ok(())
            }
            Err(failure) => {
                if failure.verdict != Verdict::Unclear {
                    let _ = self.disk.unlink(&staged);
                }
                Err(failure)
            }
        }
    }

    /// Writes and fsyncs the file that is to get the name `path`.
    fn stage(&self, path: &Path, bytes: &[u8], id: Uuid) -> Done<PathBuf> {
        let dir = parent(path);
        self.make_dirs(dir)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let staged = dir.join(format!(".{name}.{id}.tmp"));
        let written = self.disk.create_file(&staged, true).and_then(|mut file| {
            self.disk.write_all(&mut file, &staged, bytes)?;
            self.disk.sync_file(&file, &staged)
        });
        match written {
            Ok(()) => Ok(staged),
            Err(e) => {
                let _ = self.disk.unlink(&staged);
                Err(Failure::from(e).meaning(Verdict::Absent, Verdict::Failed))
            }
        }
    }

    /// Makes what was found durable: the file, its name, and the names of the directories above it. As in [`LocalDir::finish`], a failed
    /// fsync of the file is final.
    pub(super) fn settle(&self, name: &str) -> Done<()> {
        if !self.disk.durable() {
            return Ok(());
        }
        let path = self.path(name);
        let file = File::open(&path)?;
        self.disk.sync_file(&file, &path).map_err(|e| Failure::new(Verdict::Lost, e))?;
        self.disk.sync_dir(parent(&path))?;
        self.settle_dirs(parent(&path), 0)
    }

    /// Creates what is missing of the directory and makes its whole path durable.
    fn make_dirs(&self, dir: &Path) -> Done<()> {
        let missing = self.missing(dir);
        for path in missing.iter().rev() {
            self.make_dir(path)?;
            self.disk.sync_dir(parent(path))?;
        }
        self.settle_dirs(dir, missing.len())
    }

    /// What is missing of a directory, from below.
    fn missing<'a>(&self, dir: &'a Path) -> Vec<&'a Path> {
        dir.ancestors().take_while(|d| !d.as_os_str().is_empty() && !d.is_dir()).collect()
    }

    fn make_dir(&self, path: &Path) -> Done<()> {
        // Whoever else creates it now may die before its fsync, so ours is needed either way.
        self.forget_settled(path);
        match self.disk.make_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(Errno::NOTDIR.into_failure()),
            other => Ok(other?),
        }
    }

    /// A directory that exists was perhaps made by a process that died before it could fsync the name; so each directory on the way is
    /// fsynced once by every store that writes below it. Above the root, one that may not be opened, is read-only or knows no fsync was
    /// not made by us.
    /// The lowest `done` of them are.
    fn settle_dirs(&self, dir: &Path, done: usize) -> Done<()> {
        if !self.disk.durable() {
            return Ok(());
        }
        for path in dir.ancestors().skip(done) {
            let Some(above) = path.parent().filter(|p| !p.as_os_str().is_empty()) else { break };
            if self.is_settled(path) {
                break;
            }
            self.sync_above(above)?;
        }
        for path in dir.ancestors() {
            self.remember_settled(path);
        }
        Ok(())
    }

    fn is_settled(&self, dir: &Path) -> bool {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).contains(dir)
    }
    fn remember_settled(&self, dir: &Path) {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).insert(dir.to_owned());
    }
    fn forget_settled(&self, dir: &Path) {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).remove(dir);
    }
}

trait IntoFailure {
    fn into_failure(self) -> Failure;
}
impl IntoFailure for Errno {
    fn into_failure(self) -> Failure {
        io::Error::from(self).into()
    }
}

fn not_ours(e: &io::Error) -> bool {
    matches!(Errno::from_io_error(e), Some(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::INVAL | Errno::OPNOTSUPP))
}

/// Opens a file to read. A pipe of that name must not be waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    File::options().read(true).custom_flags(flags).open(path)
}

/// Who may not read will not be allowed to by waiting. A directory that may not be written to is waited for, as a read-only disk is.
fn may_not(e: io::Error) -> Failure {
    let refused = matches!(Errno::from_io_error(&e), Some(Errno::ACCESS | Errno::PERM));
    Failure::from(e).meaning(if refused { Verdict::Failed } else { Verdict::Refused }, Verdict::Refused)
}

/// A directory is no object.
fn read_failed(e: io::Error) -> Failure {
    let absent = e.kind() == io::ErrorKind::IsADirectory;
    may_not(e).meaning(if absent { Verdict::Refused } else { Verdict::Absent }, Verdict::Absent)
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn modified_ms(found: &fs::Metadata) -> i64 {
    let since = found.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    since.and_then(|d| i64::try_from(d.as_millis()).ok()).unwrap_or_default()
}

/// Does this file system have no hard links? (EPERM: FAT and some FUSE; EMLINK cannot happen to a new file but means the same.)
fn no_links(e: &io::Error) -> bool {
    matches!(Errno::from_io_error(e), Some(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::XDEV))
}

/// What a failed `link` means: a network file system may have done it and lost the answer.
fn link_failed(e: io::Error) -> Failure {
    let verdict = match Errno::from_io_error(&e) {
        Some(Errno::EXIST) => Verdict::Exists,
        Some(Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::ACCESS | Errno::NOENT) => Verdict::Failed,
        Some(Errno::NAMETOOLONG) => Verdict::Refused,
        _ => Verdict::Unclear,
    };
    Failure::new(verdict, e)
}

fn no_create(path: &Path, e: io::Error) -> Failure {
    match Errno::from_io_error(&e) {
        Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
            let kind = file_system(parent(path));
            Failure::new(Verdict::Refused, format!("the file system ({kind}) has neither hard links nor a rename that does not replace"))
        }
        _ => link_failed(e),
    }
}

/// The name of a file system, for messages.
fn file_system(dir: &Path) -> String {
    let Ok(found) = rustix::fs::statfs(dir) else { return "unknown".into() };
    let magic = found.f_type as u64 & 0xffff_ffff;
    let name = match magic {
        0x4d44 => "FAT",
        0x2011_bab0 => "exFAT",
        0x6573_5546 => "FUSE",
        0x6969 => "NFS",
        0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x0102_1997 => "9p",
        0x794c_7630 => "overlayfs",
        0xef53 => "ext4",
        _ => return format!("type {magic:#x}"),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_read_is_said_at_once_and_what_may_not_be_written_is_waited_for() {
        for errno in [Errno::ACCESS, Errno::PERM] {
            let error = || io::Error::from(errno);
            assert_eq!([read_failed(error()), may_not(error())].map(|f| f.verdict), [Verdict::Refused; 2]);
            assert_eq!(Failure::from(error()).verdict, Verdict::Failed);
        }
        assert_eq!(read_failed(Errno::NOENT.into()).verdict, Verdict::Absent);
        assert_eq!(read_failed(Errno::ISDIR.into()).verdict, Verdict::Absent);
        assert_eq!(may_not(Errno::IO.into()).verdict, Verdict::Failed);
    }
}
