//! What a local disk has to do besides: names that are never replaced, bytes that outlive a power cut.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::Check;
use crate::error::{Error, Result};
use crate::store::Store;

/// File systems whose server, or driver, decides what `link`, `rename` and `fsync` mean: several machines see one directory, or a program does
/// the work.
const SHARED: [(u64, &str); 13] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB 2"),
    (0x517b, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
];
/// Nothing of these outlives a power cut.
const MEMORY: [(u64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
/// Named only so that people know what they have.
const OTHERS: [(u64, &str); 8] = [
    (0xef53, "ext4"),
    (0x5846_5342, "XFS"),
    (0x9123_683e, "Btrfs"),
    (0x2fc1_2fc1, "ZFS"),
    (0x794c_7630, "overlayfs"),
    (0x4d44, "FAT"),
    (0x2011_bab0, "exFAT"),
    (0xf2f5_2010, "F2FS"),
];

/// Directories of a local location that are not there yet, the lowest first.
pub(super) fn missing(store: &Store) -> Vec<PathBuf> {
    if !store.is_local() {
        return Vec::new();
    }
    Path::new(store.url()).ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).map(Path::to_owned).collect()
}

/// Removes the directories that were made: `dir` with all below it, and those of the location that were `missing`.
pub(super) fn clean(store: &Store, dir: &str, missing: &[PathBuf]) -> Result<()> {
    if !store.is_local() {
        return Ok(());
    }
    let own = Path::new(store.url()).join(dir);
    match fs::remove_dir_all(&own) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::unavailable("the directory cannot be removed").at(own.display()).because(e).hint("remove it by hand"));
        }
        _ => {}
    }
    for made in missing {
        // Not empty: somebody else uses it by now.
        if fs::remove_dir(made).is_err() {
            break;
        }
    }
    Ok(())
}

/// Makes the directory `own` and examines it.
pub(super) fn checks(own: &Store) -> Result<Vec<Check>> {
    let dir = Path::new(own.url());
    fs::create_dir_all(dir).map_err(|e| {
        let what = "the directory cannot be made";
        let error = if e.kind() == io::ErrorKind::NotADirectory { Error::invalid(what) } else { Error::unavailable(what) };
        error.at(dir.display()).because(e).hint("correct the location, or make it a directory that can be written to")
    })?;
    let place = |e: io::Error| Error::unavailable("the directory cannot be examined").at(dir.display()).because(e).hint("look at its disk");
    Ok(vec![file_system(dir), names(dir).map_err(place)?, fsync(dir).map_err(place)?])
}

fn file_system(dir: &Path) -> Check {
    const NAME: &str = "file system";
    match rustix::fs::statfs(dir) {
        Ok(found) => kind(found.f_type as u64 & 0xffff_ffff),
        Err(e) => Check::warning(NAME, format!("its kind is not known: {}", io::Error::from(e))),
    }
}

fn kind(magic: u64) -> Check {
    const NAME: &str = "file system";
    let named = |list: &[(u64, &'static str)]| list.iter().find(|(m, _)| *m == magic).map(|(_, name)| *name);
    if let Some(name) = named(&SHARED) {
        return Check::warning(
            NAME,
            format!(
                "{name}: its server or driver decides whether a name can be created twice and whether fsync means anything; what is seen here \
                 holds for this machine alone. Run pipelines of one chain on one machine only, or use a local disk or an object store"
            ),
        );
    }
    if let Some(name) = named(&MEMORY) {
        return Check::warning(NAME, format!("{name}: everything is in memory, and gone with the power"));
    }
    Check::ok(NAME, named(&OTHERS).map_or_else(|| format!("type {magic:#x}"), str::to_owned))
}

/// `link`, else `renameat2(NOREPLACE)`: one of them has to refuse a name that is taken.
fn names(dir: &Path) -> io::Result<Check> {
    const NAME: &str = "names that are never replaced";
    let (a, b, taken) = (dir.join("names-a"), dir.join("names-b"), dir.join("names-taken"));
    for path in [&a, &b] {
        fs::write(path, path.to_string_lossy().as_bytes())?;
    }
    fs::write(&taken, b"taken")?;
    let untouched = || fs::read(&taken).is_ok_and(|bytes| bytes == b"taken");
    let link = fs::hard_link(&a, dir.join("names-linked"));
    let over = fs::hard_link(&a, &taken);
    if over.is_ok() || !untouched() {
        return Ok(Check::failed(NAME, "a hard link replaces a file that has the name"));
    }
    let rename = renameat_with(CWD, &b, CWD, &taken, RenameFlags::NOREPLACE);
    if rename.is_ok() || !untouched() {
        return Ok(Check::failed(NAME, "a rename that must not replace replaces"));
    }
    let rename = renameat_with(CWD, &b, CWD, dir.join("names-renamed"), RenameFlags::NOREPLACE);
    Ok(match (link, rename) {
        (Ok(()), Ok(())) => Check::ok(NAME, "link (used) and renameat2(NOREPLACE) work"),
        (Ok(()), Err(e)) => {
            Check::ok(NAME, format!("link works; renameat2(NOREPLACE) does not, and is not needed ({})", io::Error::from(e)))
        }
        (Err(e), Ok(())) => Check::ok(NAME, format!("renameat2(NOREPLACE) works, and takes the place of link, which does not ({e})")),
        (Err(l), Err(r)) => {
            let r = io::Error::from(r);
            Check::failed(
                NAME,
                format!("neither link ({l}) nor renameat2(NOREPLACE) ({r}) works: nothing can be published on this file system"),
            )
        }
    })
}

fn fsync(dir: &Path) -> io::Result<Check> {
    const NAME: &str = "fsync";
    let mut file = File::create(dir.join("fsync"))?;
    file.write_all(b"durable?")?;
    if let Err(e) = file.sync_all() {
        return Ok(Check::failed(NAME, format!("of a file: {e}; nothing that is acknowledged here survives a power cut")));
    }
    if let Err(e) = File::open(dir).and_then(|d| d.sync_all()) {
        return Ok(Check::failed(NAME, format!("of a directory: {e}; choose another file system, or `durability: none`")));
    }
    Ok(Check::ok(NAME, "of files and directories"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintain::doctor::Health;

    #[test]
    fn a_network_file_system_is_a_warning_and_a_disk_is_not() {
        for magic in [0x6969, 0xff53_4d42, 0x6573_5546] {
            assert_eq!(kind(magic).health, Health::Warning, "{magic:#x}");
        }
        assert!(kind(0x6969).detail.starts_with("NFS: its server"));
        assert_eq!(kind(0xef53), Check::ok("file system", "ext4"));
        assert_eq!(kind(0x1234_5678), Check::ok("file system", "type 0x12345678"));
        assert_eq!(kind(0x0102_1994).health, Health::Warning);
    }
}
