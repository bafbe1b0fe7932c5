//! Local files, in name order, each from its start to the end it had when the lineage began.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Component, Path, PathBuf};

use async_trait::async_trait;

use super::expand;
use super::file::{self, Ask, Filled, Note, Packing, Reading};
use super::framing::Framing;
use super::{Offsets, Polled, Position, Resolved, Source};
use crate::env::{Deadline, Env};
use crate::error::{Error, Result};

/// What a [`FilesSource`] reads, and how.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// Paths, relative to `base` or absolute, with the wildcards `*`, `?`, `[...]` and `**`. Wildcards match no hidden file and pass
    /// over directories; one that matches nothing is nothing to read. A path without wildcards must be a file.
    pub paths: Vec<String>,
    /// Where relative paths begin: the folder of the pipeline file.
    pub base: PathBuf,
    /// How bytes become records.
    pub framing: Framing,
    /// About how many bytes one poll reads and gives. Default 1 MiB.
    pub chunk_bytes: usize,
    /// A longer record becomes a dead letter. Bytes; default 64 MiB.
    pub max_record: usize,
}

impl FilesOptions {
    /// These paths below `base`, with the defaults.
    pub fn new(base: impl Into<PathBuf>, paths: impl IntoIterator<Item = impl Into<String>>, framing: Framing) -> Self {
        let paths = paths.into_iter().map(Into::into).collect();
        FilesOptions { paths, base: base.into(), framing, chunk_bytes: 1 << 20, max_record: 64 << 20 }
    }
}

/// NDJSON or CSV files on local disk, plain, gzip (`.gz`) or zstd (`.zst`) by the ending of their names.
///
/// A split is a file: its path relative to the base with `/`, or absolute when it is not below the base. An offset is a byte of the
/// decompressed file. What is to be read is fixed by [`Source::resolve`]: files that appear or grow later wait for the next lineage. The
/// note of a position holds the file's size, hashes of its first bytes and of the bytes before the offset, and the line number; a file
/// that is missing, shorter or different is `Data`. Reading goes on the calling thread.
pub struct FilesSource {
    env: Env,
    options: FilesOptions,
    base: PathBuf,
    /// Positions of all files but the open one.
    positions: Offsets,
    stop: Offsets,
    queue: VecDeque<String>,
    current: Option<Reading>,
    extend: BTreeSet<String>,
}

impl FilesSource {
    /// `Invalid` when there are no paths or a number is 0. Reads nothing yet.
    pub fn new(env: Env, options: FilesOptions) -> Result<Self> {
        if options.paths.is_empty() {
            return Err(Error::invalid("the source `files` has no paths").hint("set source.files.paths"));
        }
        if options.chunk_bytes == 0 || options.max_record == 0 {
            return Err(Error::invalid("chunk_bytes and max_record must be greater than 0"));
        }
        let base = if options.base.as_os_str().is_empty() { Path::new(".") } else { &options.base };
        let base = std::path::absolute(base).map_err(|e| Error::invalid("the base folder has no absolute path").because(e))?;
        Ok(FilesSource {
            env,
            options,
            base,
            positions: Offsets::default(),
            stop: Offsets::default(),
            queue: VecDeque::new(),
            current: None,
            extend: BTreeSet::new(),
        })
    }

    /// The files that there are now: split -> size in bytes on disk.
    fn find(&self) -> Result<BTreeMap<String, u64>> {
        let mut found = BTreeMap::new();
        for pattern in &self.options.paths {
            let path = plain(&self.base.join(pattern));
            if pattern.is_empty() {
                return Err(Error::invalid("a path of the source `files` is empty"));
            }
            match file::look(&path)? {
                Some(meta) => drop(found.insert(self.split(&path)?, meta.len())),
                None if pattern.contains(['*', '?', '[']) => self.expand(pattern, &mut found)?,
                None => {
                    return Err(Error::invalid("no such file")
                        .at(path.display())
                        .hint("mend source.files.paths; only wildcards may match nothing"));
                }
            }
        }
        Ok(found)
    }

    fn expand(&self, pattern: &str, found: &mut BTreeMap<String, u64>) -> Result<()> {
        for path in expand::expand(&self.base, pattern)? {
            let path = plain(&path);
            if path.is_dir() {
                continue;
            }
            // None: it went between the listing and this look.
            if let Some(meta) = file::look(&path)? {
                found.insert(self.split(&path)?, meta.len());
            }
        }
        Ok(())
    }

    fn split(&self, path: &Path) -> Result<String> {
        let name = path.strip_prefix(&self.base).unwrap_or(path);
        name.to_str().map(str::to_owned).ok_or_else(|| not_text(path))
    }

    fn path(&self, split: &str) -> PathBuf {
        self.base.join(split)
    }

    fn open(&self, split: &str, from: Option<&Position>, stop: &Position) -> Result<Reading> {
        Reading::open(&Ask {
            split,
            path: &self.path(split),
            framing: self.options.framing,
            max_record: self.options.max_record,
            from,
            stop,
            extend: self.extend.contains(split),
        })
    }

    /// The stop of a file that has `size` bytes on disk now, when an earlier lineage ended at `from`.
    fn stop_of(&self, split: &str, size: u64, from: Option<&Position>) -> Result<Position> {
        let path = self.path(split);
        let packing = Packing::of(split);
        let head = if packing == Packing::Plain { Some(file::head_of(&path, size)?) } else { None };
        let known = Note { size, head, ..Note::default() };
        let unknown_end = if size == 0 { 0 } else { Position::TO_END };
        let Some(from) = from.filter(|p| p.offset > 0) else {
            return known.position(if packing == Packing::Plain { size } else { unknown_end });
        };
        file::still_the_same(split, &path, from, size)?;
        let note = Note::of(from, split)?;
        let stop = match packing {
            Packing::Plain if size < from.offset => return Err(file::shrunk(&path, size, from.offset)),
            Packing::Plain => known.position(size)?,
            _ if note.is_some_and(|n| n.end == Some(size)) => known.position(from.offset)?,
            _ => known.position(unknown_end)?,
        };
        if stop.offset > from.offset {
            self.open(split, Some(from), &stop)?; // everything that can be found wrong is found before `open` is written
        }
        Ok(stop)
    }

    /// Remembers where the open file stands, and closes it.
    fn close(&mut self) -> Result<()> {
        if let Some(reading) = self.current.take() {
            let split = reading.origin.split.clone();
            let position = reading.position()?;
            self.positions.0.insert(split, position);
        }
        Ok(())
    }

    /// One step: reads and cuts once. None: nothing whole came of it.
    fn step(&mut self) -> Result<Option<Polled>> {
        if self.current.is_none() {
            let Some(split) = self.queue.front() else { return Ok(Some(Polled::End)) };
            let Some(stop) = self.stop.0.get(split) else { return Err(Error::internal("a file in the queue has no stop").at(split)) };
            self.current = Some(self.open(split, self.positions.0.get(split), stop)?);
        }
        let Some(reading) = &mut self.current else { return Ok(None) };
        let filled = if reading.framer.more() { Ok(Filled::Fine) } else { reading.fill(self.options.chunk_bytes) };
        let records = reading.cut(self.options.chunk_bytes)?;
        let failed = !matches!(filled, Ok(Filled::Fine));
        if failed && records.is_empty() {
            let split = reading.origin.split.clone();
            self.close()?;
            filled?; // a later poll opens the file again: it may have been mended, or the disk may answer
            self.extend.insert(split);
            return Ok(None);
        }
        if failed {
            self.close()?; // what is whole goes out first; the next poll comes back to the error
        } else if reading.done() {
            self.close()?;
            self.queue.pop_front();
        }
        Ok((!records.is_empty()).then_some(Polled::Records(records)))
    }
}

#[async_trait]
impl Source for FilesSource {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        let start = from.cloned().unwrap_or_default();
        let found = self.find()?;
        let mut stop = Offsets::default();
        for (split, size) in &found {
            stop.0.insert(split.clone(), self.stop_of(split, *size, start.0.get(split))?);
        }
        for (split, position) in start.0.iter().filter(|(split, p)| p.offset > 0 && !found.contains_key(*split)) {
            let path = self.path(split);
            let whole = Note::of(position, split)?.is_some_and(|n| n.end.is_some() || position.offset >= n.size);
            if !whole && file::look(&path)?.is_none() {
                return Err(file::missing(&path));
            }
        }
        Ok(Resolved { start, stop: Some(stop) })
    }

    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        self.stop = match stop {
            Some(stop) => stop.clone(),
            None => self.resolve(Some(offsets)).await?.stop.unwrap_or_default(),
        };
        (self.positions, self.current, self.queue) = (offsets.clone(), None, VecDeque::new());
        for (split, stop) in &self.stop.0 {
            let position = self.positions.0.get(split);
            let path = self.path(split);
            let whole = stop.offset == 0 || position.is_some_and(|p| p.reached(stop));
            let size = file::look(&path)?.map(|meta| meta.len());
            let known = Note::of(stop, split)?.map_or(0, |n| n.size);
            match size {
                None if whole => {}
                None => return Err(file::missing(&path)),
                Some(size) if size < known => return Err(file::shrunk(&path, size, known)),
                Some(_) if whole => {}
                Some(_) => {
                    if position.is_some_and(|p| p.offset > 0) {
                        self.open(split, position, stop)?;
                    }
                    self.queue.push_back(split.clone());
                }
            }
        }
        Ok(())
    }

    async fn poll(&mut self, deadline: Deadline) -> Result<Polled> {
        loop {
            if let Some(polled) = self.step()? {
                return Ok(polled);
            }
            if self.env.left(deadline).is_none() {
                return Ok(Polled::Idle); // a very long record: it is read on at the next poll
            }
        }
    }

    fn position(&self) -> Offsets {
        let mut all = self.positions.clone();
        if let Some(reading) = &self.current
            && reading.framer.offset() > all.offset(&reading.origin.split)
            && let Ok(position) = reading.position()
        {
            all.0.insert(reading.origin.split.clone(), position);
        }
        all
    }
}

/// Without `.` in it, so that one file has one name.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|c| !matches!(c, Component::CurDir)).collect()
}

fn not_text(path: &Path) -> Error {
    Error::invalid("the path is not valid UTF-8, so no checkpoint can name it").at(path.display()).hint("rename the file or its folder")
}
