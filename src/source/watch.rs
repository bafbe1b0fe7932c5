//! Watched files: what appears, grows, is replaced or goes while a [`FilesSource`] runs.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use super::columnar::Footer;
use super::file::{self, Note, Packing, is_change, read_up_to, unpack};
use super::files::{FilesSource, Open};
use super::framing::Framing;
use super::{Offsets, Position};
use crate::error::{Error, Kind, Result};

/// How files are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Time between two looks at the directories; more when a look takes more than a tenth of it. Default one second.
    pub every: Duration,
    /// A file that has not changed for so long is not being written any more: its last line is a record also without a line end, and one
    /// that is not whole is warned about. Default one minute.
    pub settled_after: Duration,
    /// What to do about a file that was replaced or cut after it was read.
    pub on_change: OnChange,
}

impl Default for Watch {
    fn default() -> Self {
        Watch { every: Duration::from_secs(1), settled_after: Duration::from_secs(60), on_change: OnChange::Fail }
    }
}

/// What to do about a watched file whose content, as far as it was read, is another now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnChange {
    /// Stop with `Data`.
    #[default]
    Fail,
    /// Warn, and read no more of it.
    Ignore,
}

/// What tells that a file has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    size: u64,
    modified: (i64, i64),
    inode: u64,
}

impl Stamp {
    fn of(meta: &Metadata) -> Stamp {
        Stamp { size: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()), inode: meta.ino() }
    }
}

/// What is known of a file as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing yet.
    New,
    /// Everything in it was read, or it is not to be read.
    Done,
    /// All but a last line without a line end.
    LastLine,
    /// A compressed or Parquet file without its end; `true`: that was said.
    Incomplete(bool),
}

struct Seen {
    stamp: Stamp,
    since: Duration,
    state: State,
}

/// The state of watching; what must outlive the process is in the offsets.
pub(super) struct Watching {
    options: Watch,
    seen: HashMap<String, Seen>,
    /// When to look again.
    pub(super) next_look: Duration,
}

impl Watching {
    pub(super) fn new(options: Watch) -> Watching {
        Watching { options, seen: HashMap::new(), next_look: Duration::ZERO }
    }
    fn is_settled(&self, split: &str, now: Duration) -> bool {
        self.seen.get(split).is_some_and(|s| now.saturating_sub(s.since) >= self.options.settled_after)
    }
    fn set(&mut self, split: &str, state: State) {
        if let Some(seen) = self.seen.get_mut(split) {
            seen.state = state;
        }
    }
}

/// A compressed file that is unpacked once to see whether it is whole.
pub(super) struct Check {
    pub(super) split: String,
    path: PathBuf,
    input: Box<dyn Read + Send>,
    size: u64,
}

impl FilesSource {
    pub(super) fn begin_to_watch(&mut self, offsets: &Offsets) -> Result<()> {
        self.positions = offsets.clone();
        (self.current, self.watching) = (None, self.options.watch.clone().map(Watching::new));
        self.queue.clear();
        self.look_around()?;
        if self.watching.as_ref().is_some_and(|w| w.seen.is_empty()) {
            tracing::warn!("no file matches {} yet; waiting for one", self.options.paths.join(", "));
        }
        Ok(())
    }

    /// Nothing is left to read: looks for more, or waits for the next look, at most `left`.
    pub(super) async fn look_or_wait(&mut self, left: Duration) -> Result<()> {
        let Some(watching) = &self.watching else { return Ok(()) };
        let rest = watching.next_look.saturating_sub(self.env.monotonic());
        if rest.is_zero() {
            return self.look_around();
        }
        self.env.sleep(rest.min(left)).await;
        Ok(())
    }

    /// Looks at all files that there are, and queues those that have something to read, in the order of their names.
    fn look_around(&mut self) -> Result<()> {
        let begun = self.env.monotonic();
        let found = self.find()?;
        self.none_may_be_missing(&found)?;
        for (split, meta) in &found {
            let stamp = Stamp::of(meta);
            let Some(watching) = &mut self.watching else { return Ok(()) };
            let known = watching.seen.get(split).filter(|s| s.stamp == stamp).map(|s| s.state);
            if known.is_none() {
                watching.seen.insert(split.clone(), Seen { stamp, since: begun, state: State::New });
            }
            let settled = watching.is_settled(split, begun);
            match known.unwrap_or(State::New) {
                State::Done | State::Incomplete(true) => {}
                State::Incomplete(false) if settled => {
                    watching.set(split, State::Incomplete(true));
                    tracing::warn!(
                        "{}: the file is not whole and does not change any more; it is read when it is",
                        self.path(split).display()
                    );
                }
                State::Incomplete(false) => {}
                State::LastLine if settled => self.queue.push_back(split.clone()),
                State::LastLine => {}
                State::New => self.new_content(split, stamp.size)?,
            }
        }
        let now = self.env.monotonic();
        if let Some(watching) = &mut self.watching {
            if watching.seen.len() > found.len() {
                watching.seen.retain(|split, _| found.contains_key(split));
            }
            watching.next_look = begun + watching.options.every.max((now - begun) * 10);
        }
        Ok(())
    }

    /// A file that is new, or not what it was at the last look.
    fn new_content(&mut self, split: &str, size: u64) -> Result<()> {
        if !self.positions.0.contains_key(split) && self.positions.1.as_ref().and_then(|f| f.size(split)) == Some(size) {
            // Put away long ago, and not longer nor shorter: to read it again would cost too much.
            if let Some(watching) = &mut self.watching {
                watching.set(split, State::Done);
            }
            return Ok(());
        }
        let position = self.positions.position(split).filter(|p| p.offset > 0).map(std::borrow::Cow::into_owned);
        let Some(position) = position else {
            if size > 0 {
                self.queue.push_back(split.to_owned());
            }
            return Ok(());
        };
        if let Err(e) = self.still_the_same(split, &position, size) {
            return self.changed(split, e);
        }
        let note = Note::of(&position, split)?;
        let read = match self.packing(split) {
            Packing::Plain if self.options.framing != Framing::Parquet => position.offset >= size,
            _ => note.is_some_and(|n| n.end == Some(size)),
        };
        match &mut self.watching {
            Some(watching) if read => watching.set(split, State::Done),
            _ => self.queue.push_back(split.to_owned()),
        }
        Ok(())
    }

    /// A file whose content, as far as it was read, is another; any other error goes on.
    fn changed(&mut self, split: &str, e: Error) -> Result<()> {
        let Some(watching) = &mut self.watching else { return Err(e) };
        if !is_change(&e) || watching.options.on_change == OnChange::Fail {
            return Err(e);
        }
        tracing::warn!("{e}: on_change is ignore, so no more is read of it");
        watching.set(split, State::Done);
        Ok(())
    }

    /// Reading the first file of the queue failed: goes on with the next when that is what was asked for.
    pub(super) fn failed(&mut self, e: Error) -> Result<()> {
        let ignore = self.watching.as_ref().is_some_and(|w| w.options.on_change == OnChange::Ignore);
        if !ignore || !is_change(&e) {
            return Err(e);
        }
        self.close()?;
        match self.queue.pop_front() {
            Some(split) => self.changed(&split, e),
            None => Err(e),
        }
    }

    /// `Data` when a file that is read in part is gone.
    fn none_may_be_missing(&self, found: &std::collections::BTreeMap<String, Metadata>) -> Result<()> {
        for (split, position) in self.positions.0.iter().filter(|(split, p)| p.offset > 0 && !found.contains_key(*split)) {
            if !is_finished(split, position)? && file::look(&self.path(split))?.is_none() {
                return Err(file::missing(&self.path(split)));
            }
        }
        Ok(())
    }

    /// Opens the first file of the queue. None: there is nothing to read in it yet, or no more.
    pub(super) fn open_watched(&mut self) -> Result<Option<Open>> {
        let Some(split) = self.queue.front().cloned() else { return Ok(None) };
        let opened = self.try_to_open(&split);
        match opened {
            Ok(Some(open)) => Ok(Some(open)),
            other => {
                self.queue.pop_front();
                match other {
                    Err(e) => self.changed(&split, e).map(|()| None),
                    Ok(_) => Ok(None),
                }
            }
        }
    }

    fn try_to_open(&mut self, split: &str) -> Result<Option<Open>> {
        let path = self.path(split);
        let size = file::look(&path)?.ok_or_else(|| file::missing(&path))?.len();
        let position = self.positions.position(split);
        let position = position.as_deref();
        if self.options.framing == Framing::Parquet {
            return match Footer::read(&path) {
                Ok(footer) => self.open(split, position, &footer.note.position(footer.rows)?, true).map(Some),
                Err(e) if e.kind() == Kind::Data && position.is_none_or(|p| p.offset == 0) => {
                    tracing::debug!("{e}: not whole yet");
                    self.is_incomplete(split);
                    Ok(None)
                }
                Err(e) => Err(e),
            };
        }
        let packing = Packing::of(split);
        if packing != Packing::Plain {
            let input = unpack(&path, packing, size)?;
            return Ok(Some(Open::Check(Box::new(Check { split: split.to_owned(), path, input, size }))));
        }
        let last = self.watching.as_ref().is_some_and(|w| {
            let now = self.env.monotonic();
            w.is_settled(split, now) && w.seen.get(split).is_some_and(|s| s.stamp.size == size)
        });
        let stop = Note { size, head: Some(file::head_of(&path, size)?), ..Note::default() }.position(size)?;
        self.open(split, position, &stop, last).map(Some)
    }

    fn is_incomplete(&mut self, split: &str) {
        if let Some(watching) = &mut self.watching {
            watching.set(split, State::Incomplete(false));
        }
    }

    /// Unpacks a piece of a compressed file; at its end it is opened to be read.
    pub(super) fn step_check(&mut self) -> Result<()> {
        let Some(Open::Check(check)) = &mut self.current else { return Ok(()) };
        let mut buffer = vec![0; 1 << 20];
        let (got, failed) = read_up_to(&mut check.input, &mut buffer);
        if got == buffer.len() && failed.is_none() {
            return Ok(());
        }
        let (split, path, size) = (check.split.clone(), check.path.clone(), check.size);
        self.current = None;
        match failed {
            Some(e) if e.raw_os_error().is_some() => Err(file::os_error(e, &path)),
            Some(e) => {
                tracing::debug!("{}: not whole yet: {e}", path.display());
                debug_assert_ne!(e.kind(), ErrorKind::Interrupted);
                self.queue.pop_front();
                self.is_incomplete(&split);
                Ok(())
            }
            None => {
                let stop = Note { size, ..Note::default() }.position(Position::TO_END)?;
                match self.open(&split, self.positions.position(&split).as_deref(), &stop, true) {
                    Ok(open) => {
                        self.current = Some(open);
                        Ok(())
                    }
                    Err(e) => {
                        self.queue.pop_front();
                        self.changed(&split, e)
                    }
                }
            }
        }
    }

    /// A file was read as far as it goes.
    pub(super) fn was_read(&mut self, split: &str) {
        let finished = self.positions.0.get(split).is_some_and(|p| matches!(is_finished(split, p), Ok(true)));
        if let Some(watching) = &mut self.watching {
            watching.set(split, if finished { State::Done } else { State::LastLine });
        }
    }
}

/// Was a file read to the end that it had?
pub(super) fn is_finished(split: &str, position: &Position) -> Result<bool> {
    Ok(Note::of(position, split)?.is_some_and(|n| n.end.is_some() || position.offset >= n.size))
}
