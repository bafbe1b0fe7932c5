//! Local files, in name order, each from its start to the end it had when the lineage began; or, watched, for ever.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs::Metadata;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::columnar::{Columnar, Footer};
use super::expand;
use super::file::{self, Ask, Filled, Note, Packing, Reading};
use super::framing::Framing;
use super::watch::{Check, Watch, Watching};
use super::{Finished, Offsets, Polled, Position, Resolved, Shelf, Source, finished};
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
    /// A longer record becomes a dead letter. Bytes; default 64 MiB. Of no meaning for Parquet.
    pub max_record: usize,
    /// Go on for ever with what appears and what grows; none: read what is there, and end.
    pub watch: Option<Watch>,
}

impl FilesOptions {
    /// These paths below `base`, with the defaults.
    pub fn new(base: impl Into<PathBuf>, paths: impl IntoIterator<Item = impl Into<String>>, framing: Framing) -> Self {
        let paths = paths.into_iter().map(Into::into).collect();
        FilesOptions { paths, base: base.into(), framing, chunk_bytes: 1 << 20, max_record: 64 << 20, watch: None }
    }
}

/// The open file.
pub(super) enum Open {
    Text(Box<Reading>),
    Rows(Box<Columnar>),
    /// A compressed file that is watched: is it whole?
    Check(Box<Check>),
}

impl Open {
    fn split(&self) -> &str {
        match self {
            Open::Text(reading) => &reading.origin.split,
            Open::Rows(reading) => &reading.origin.split,
            Open::Check(check) => &check.split,
        }
    }
    /// None: it stands where it was opened.
    fn position(&self) -> Result<Option<Position>> {
        match self {
            Open::Text(reading) => reading.position().map(Some),
            Open::Rows(reading) => reading.position().map(Some),
            Open::Check(_) => Ok(None),
        }
    }
}

/// Files on local disk: NDJSON or CSV, plain, gzip (`.gz`) or zstd (`.zst`) by the ending of their names; or Parquet.
///
/// A split is a file: its path relative to the base with `/`, or absolute when it is not below the base. An offset is a byte of the
/// decompressed file, or the number of a row of a Parquet file. Without [`Watch`], what is to be read is fixed by [`Source::resolve`]: files
/// that appear or grow later wait for the next lineage. The note of a position holds the file's size, hashes of its first bytes and of the
/// bytes before the offset (Parquet: of the footer), and the line number; a file that is missing, shorter or different is `Data`. Reading goes
/// on the calling thread.
pub struct FilesSource {
    pub(super) env: Env,
    pub(super) options: FilesOptions,
    base: PathBuf,
    /// Positions of all files but the open one.
    pub(super) positions: Offsets,
    stop: Offsets,
    pub(super) queue: VecDeque<String>,
    pub(super) current: Option<Open>,
    extend: BTreeSet<String>,
    pub(super) watching: Option<Watching>,
    shelf: Option<Arc<dyn Shelf>>,
    /// When files were read to their ends: those that have rested longest are put away first.
    ended: HashMap<String, u64>,
    reads: u64,
}

/// So many files that are read to their end keep their names in every checkpoint, for they are the ones that are likely to grow.
const NAMED: usize = 64;
/// So many more are put away together.
const PUT_AWAY: usize = 192;

impl FilesSource {
    /// `Invalid` when there are no paths or a number is 0. Reads nothing yet.
    pub fn new(env: Env, options: FilesOptions) -> Result<Self> {
        if options.paths.is_empty() {
            return Err(Error::invalid("the source `files` has no paths").hint("set source.files.paths"));
        }
        if options.chunk_bytes == 0 || options.max_record == 0 {
            return Err(Error::invalid("chunk_bytes and max_record must be greater than 0"));
        }
        if options.watch.as_ref().is_some_and(|watch| watch.every.is_zero()) {
            return Err(Error::invalid("the time between two looks at the watched files must be greater than 0"));
        }
        let base = if options.base.as_os_str().is_empty() { Path::new(".") } else { &options.base };
        let base = std::path::absolute(base).map_err(|e| Error::invalid("the base folder has no absolute path").because(e))?;
        Ok(FilesSource {
            watching: options.watch.clone().map(Watching::new),
            env,
            options,
            base,
            positions: Offsets::default(),
            stop: Offsets::default(),
            queue: VecDeque::new(),
            current: None,
            extend: BTreeSet::new(),
            shelf: None,
            ended: HashMap::new(),
            reads: 0,
        })
    }

    /// Keeps files that are read to their end, but for the last few, on this shelf; else every checkpoint names every file. Whoever reads
    /// the offsets must have the same shelf.
    pub fn with_shelf(self, shelf: Arc<dyn Shelf>) -> Self {
        FilesSource { shelf: Some(shelf), ..self }
    }

    /// Puts files away that are read to their end, up to what is `committed`. There must be no better use for their names: a file that is
    /// read in part is named, and so are those that were read last.
    async fn put_away(&mut self, committed: &Offsets) -> Result<()> {
        let Some(shelf) = self.shelf.clone() else { return Ok(()) };
        if self.positions.0.len() <= NAMED + PUT_AWAY {
            return Ok(());
        }
        let open = self.current.as_ref().map(Open::split);
        let mut done = Vec::new();
        for (split, position) in &self.positions.0 {
            if Some(split.as_str()) == open || committed.offset(split) < position.offset || !super::watch::is_finished(split, position)? {
                continue;
            }
            if let Some(note) = Note::of(position, split)?
                && let Some(check) = note.check(self.packing(split))
                && let Some(record) = finished::record(split, position.offset, note.size, &check, note.torn.as_deref())
            {
                done.push((self.ended.get(split).copied().unwrap_or(0), split.clone(), record));
            }
        }
        if done.len() <= NAMED + PUT_AWAY {
            return Ok(());
        }
        done.sort_unstable_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        done.truncate(done.len() - NAMED);
        let records = done.iter().map(|(.., record)| *record).collect();
        let finished = Finished::with(self.positions.1.as_deref(), records, shelf.as_ref()).await?;
        for (_, split, _) in &done {
            self.positions.0.remove(split);
            self.ended.remove(split);
        }
        self.positions.1 = Some(Arc::new(finished));
        Ok(())
    }

    /// The files that there are now.
    pub(super) fn find(&self) -> Result<BTreeMap<String, Metadata>> {
        let mut found = BTreeMap::new();
        for pattern in &self.options.paths {
            let path = plain(&self.base.join(pattern));
            if pattern.is_empty() {
                return Err(Error::invalid("a path of the source `files` is empty"));
            }
            match file::look(&path)? {
                Some(meta) => drop(found.insert(self.split(&path)?, meta)),
                None if pattern.contains(['*', '?', '[']) => self.expand(pattern, &mut found)?,
                None if self.watching.is_some() => {}
                None => {
                    return Err(Error::invalid("no such file")
                        .at(path.display())
                        .hint("mend source.files.paths; only wildcards may match nothing"));
                }
            }
        }
        Ok(found)
    }

    fn expand(&self, pattern: &str, found: &mut BTreeMap<String, Metadata>) -> Result<()> {
        for path in expand::expand(&self.base, pattern)? {
            let path = plain(&path);
            if path.is_dir() || (self.watching.is_some() && expand::is_unfinished(&path)) {
                continue;
            }
            // None: it went between the listing and this look.
            if let Some(meta) = file::look(&path)? {
                found.insert(self.split(&path)?, meta);
            }
        }
        Ok(())
    }

    fn split(&self, path: &Path) -> Result<String> {
        let name = path.strip_prefix(&self.base).unwrap_or(path);
        name.to_str().map(str::to_owned).ok_or_else(|| not_text(path))
    }

    pub(super) fn path(&self, split: &str) -> PathBuf {
        self.base.join(split)
    }

    pub(super) fn packing(&self, split: &str) -> Packing {
        if self.options.framing == Framing::Parquet { Packing::Plain } else { Packing::of(split) }
    }

    /// `last`: the stop is the end of the file, also when no line end stands before it.
    pub(super) fn open(&self, split: &str, from: Option<&Position>, stop: &Position, last: bool) -> Result<Open> {
        let ask = Ask {
            split,
            path: &self.path(split),
            framing: self.options.framing,
            max_record: self.options.max_record,
            chunk_bytes: self.options.chunk_bytes,
            from,
            stop,
            extend: self.extend.contains(split),
            last,
        };
        Ok(match ask.framing {
            Framing::Parquet => Open::Rows(Box::new(Columnar::open(&ask)?)),
            Framing::Lines | Framing::Csv { .. } => Open::Text(Box::new(Reading::open(&ask)?)),
        })
    }

    /// Is a file that was read up to `position`, and has `size` bytes now, still what it was, as far as that is cheap to tell?
    pub(super) fn still_the_same(&self, split: &str, position: &Position, size: u64) -> Result<()> {
        let path = self.path(split);
        if self.options.framing != Framing::Parquet {
            return file::still_the_same(split, &path, position, size);
        }
        match Note::of(position, split)? {
            Some(note) => Footer::read(&path)?.is(&note, &path),
            None => Ok(()),
        }
    }

    /// The stop of a file that has `size` bytes on disk now, when an earlier lineage ended at `from`.
    fn stop_of(&self, split: &str, size: u64, from: Option<&Position>) -> Result<Position> {
        let path = self.path(split);
        let from = from.filter(|p| p.offset > 0);
        if self.options.framing == Framing::Parquet {
            return self.stop_of_rows(split, &path, from);
        }
        let packing = Packing::of(split);
        let head = if packing == Packing::Plain { Some(file::head_of(&path, size)?) } else { None };
        let known = Note { size, head, ..Note::default() };
        let unknown_end = if size == 0 { 0 } else { Position::TO_END };
        let Some(from) = from else {
            return known.position(if packing == Packing::Plain { size } else { unknown_end });
        };
        let note = Note::of(from, split)?;
        if note.as_ref().is_none_or(|n| n.check.is_none() || n.size != size) {
            file::still_the_same(split, &path, from, size)?;
        }
        let stop = match packing {
            Packing::Plain if size < from.offset => return Err(file::shrunk(&path, size, from.offset)),
            Packing::Plain => known.position(size)?,
            _ if note.is_some_and(|n| n.end == Some(size)) => known.position(from.offset)?,
            _ => known.position(unknown_end)?,
        };
        if stop.offset > from.offset {
            self.open(split, Some(from), &stop, true)?; // everything that can be found wrong is found before `open` is written
        }
        Ok(stop)
    }

    fn stop_of_rows(&self, split: &str, path: &Path, from: Option<&Position>) -> Result<Position> {
        let footer = Footer::read(path)?;
        if let Some(note) = from.map(|p| Note::of(p, split)).transpose()?.flatten() {
            footer.is(&note, path)?;
        }
        footer.note.position(footer.rows)
    }

    /// Remembers where the open file stands, and closes it.
    pub(super) fn close(&mut self) -> Result<()> {
        if let Some(open) = self.current.take()
            && let Some(position) = open.position()?
        {
            self.positions.0.insert(open.split().to_owned(), position);
        }
        Ok(())
    }

    /// Closes the file that is read as far as it goes, and takes it out of the queue.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.close()?;
        if let Some(split) = self.queue.pop_front() {
            self.was_read(&split);
            self.reads += 1;
            if self.shelf.is_some() {
                self.ended.insert(split, self.reads);
            }
        }
        Ok(())
    }

    /// One step: reads and cuts once. None: nothing whole came of it.
    fn step(&mut self) -> Result<Option<Polled>> {
        if self.current.is_none() {
            let Some(split) = self.queue.front() else {
                return Ok(self.watching.is_none().then_some(Polled::End));
            };
            self.current = match self.watching {
                Some(_) => self.open_watched()?,
                None => {
                    let Some(stop) = self.stop.0.get(split) else {
                        return Err(Error::internal("a file in the queue has no stop").at(split));
                    };
                    Some(self.open(split, self.positions.position(split).as_deref(), stop, true)?)
                }
            };
        }
        match &self.current {
            Some(Open::Text(_)) => self.step_text(),
            Some(Open::Rows(_)) => self.step_rows(),
            Some(Open::Check(_)) => self.step_check().map(|()| None),
            None => Ok(None),
        }
    }

    fn step_text(&mut self) -> Result<Option<Polled>> {
        let Some(Open::Text(reading)) = &mut self.current else { return Ok(None) };
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
            self.finish()?;
        }
        Ok((!records.is_empty()).then_some(Polled::Records(records)))
    }

    fn step_rows(&mut self) -> Result<Option<Polled>> {
        let Some(Open::Rows(reading)) = &mut self.current else { return Ok(None) };
        let rows = match reading.read() {
            Ok(rows) => rows,
            Err(e) => {
                self.close()?;
                return Err(e);
            }
        };
        if reading.done() {
            self.finish()?;
        }
        Ok(rows.map(Polled::Batch))
    }
}

#[async_trait]
impl Source for FilesSource {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        let start = match from {
            Some(from) => whole(self.shelf.clone(), from).await?,
            None => Offsets::default(),
        };
        if self.watching.is_some() {
            return Ok(Resolved { start, stop: None });
        }
        let found = self.find()?;
        let mut stop = Offsets::default();
        for (split, meta) in &found {
            stop.0.insert(split.clone(), self.stop_of(split, meta.len(), start.position(split).as_deref())?);
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
        if self.watching.is_some() {
            let offsets = whole(self.shelf.clone(), offsets).await?;
            return self.begin_to_watch(&offsets);
        }
        self.stop = match stop {
            Some(stop) => stop.clone(),
            None => self.resolve(Some(offsets)).await?.stop.unwrap_or_default(),
        };
        (self.positions, self.current, self.queue) = (whole(self.shelf.clone(), offsets).await?, None, VecDeque::new());
        for (split, stop) in &self.stop.0 {
            let position = self.positions.position(split);
            let position = position.as_deref();
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
                        self.open(split, position, stop, true)?;
                    }
                    self.queue.push_back(split.clone());
                }
            }
        }
        Ok(())
    }

    async fn poll(&mut self, deadline: Deadline) -> Result<Polled> {
        loop {
            match self.step() {
                Ok(Some(polled)) => return Ok(polled),
                Ok(None) => {}
                Err(e) => self.failed(e)?,
            }
            let left = self.env.left(deadline);
            if self.watching.is_some() && self.current.is_none() && self.queue.is_empty() {
                self.look_or_wait(left.unwrap_or_default()).await?;
            }
            if left.is_none() {
                return Ok(Polled::Idle); // a very long record: it is read on at the next poll
            }
        }
    }

    async fn committed(&mut self, offsets: &Offsets) -> Result<()> {
        self.put_away(offsets).await
    }

    fn position(&self) -> Offsets {
        let mut all = self.positions.clone();
        if let Some(open) = &self.current
            && let Ok(Some(position)) = open.position()
            && position.offset > all.offset(open.split())
        {
            all.0.insert(open.split().to_owned(), position);
        }
        all
    }
}

/// These offsets, with the finished files from the shelf.
async fn whole(shelf: Option<Arc<dyn Shelf>>, offsets: &Offsets) -> Result<Offsets> {
    let Some(finished) = offsets.1.as_ref().filter(|f| f.pending().is_some()) else { return Ok(offsets.clone()) };
    let Some(shelf) = shelf else {
        return Err(Error::invalid("these offsets need a list of finished files, and there is no shelf to read it from")
            .hint("make the source with the shelf that it had: FilesSource::with_shelf"));
    };
    Ok(Offsets(offsets.0.clone(), Some(Arc::new(finished.load(shelf.as_ref()).await?))))
}

/// Without `.` in it, so that one file has one name.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|c| !matches!(c, Component::CurDir)).collect()
}

fn not_text(path: &Path) -> Error {
    Error::invalid("the path is not valid UTF-8, so no checkpoint can name it").at(path.display()).hint("rename the file or its folder")
}
