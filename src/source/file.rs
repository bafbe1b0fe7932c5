//! One file of a [`FilesSource`](super::FilesSource): opening it where it was left, noticing that it is not what it was, reading on.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::framing::{Framer, Framing, TAIL_BYTES, Torn, keep_tail};
use super::{Origin, Position, Records};
use crate::error::{Error, Result};

const CHECK_DIGITS: usize = 16;

fn check_of(head: &str, tail: &str) -> String {
    digest(format!("{head}{tail}").as_bytes())[..CHECK_DIGITS].to_owned()
}

/// How many of a file's first bytes make it recognisable.
const HEAD_BYTES: usize = 64 * 1024;
const CHANGED: &str = "the file changed since it was read, so exactly-once cannot hold";
const SHRUNK: &str = "the file shrank";
const PUT_BACK: &str = "put the file back as it was (new data belongs in a new file), or go back with --rewind to a checkpoint before it \
                        was read, which writes its rows again";

/// What a position knows of its file; the `note` in the chain.
///
/// A stop has `size` and, for a plain file, `head`. Hashes are the first 32 hex digits of SHA-256.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// Bytes on disk when the file was last taken stock of.
    pub(super) size: u64,
    /// Of the first bytes, at most 64 KiB: plain files on disk, within `size`; compressed ones decompressed, below the offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<String>,
    /// Of the last bytes below the offset, at most 1 KiB, decompressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tail: Option<String>,
    /// Number of the line that begins at the offset, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u64>,
    /// Compressed files: the offset is the end of the file that is this long on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<u64>,
    /// The end was in the middle of something: what follows may belong to a record that is delivered already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) torn: Option<String>,
    /// Parquet files: of the footer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) footer: Option<String>,
    /// Of a file that was finished and is kept in few bytes, instead of `head`, `tail` and `footer`: 16 hex digits, see [`Note::check`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) check: Option<String>,
}

impl Note {
    /// What a few bytes can say of a file: of a plain one the hash of its first and last bytes' hashes, of a compressed one that of its first
    /// bytes, of a Parquet file that of its footer. None: there is nothing to go by.
    pub(super) fn check(&self, packing: Packing) -> Option<String> {
        match (&self.check, &self.footer, packing) {
            (Some(check), ..) => Some(check.clone()),
            (_, Some(footer), _) => Some(footer.get(..CHECK_DIGITS)?.to_owned()),
            (_, _, Packing::Plain) => Some(check_of(self.head.as_ref()?, self.tail.as_ref()?)),
            _ => Some(self.head.as_ref()?.get(..CHECK_DIGITS)?.to_owned()),
        }
    }

    /// The note of a position; none when it has none. `Data` when it cannot be read.
    pub(super) fn of(position: &Position, split: &str) -> Result<Option<Note>> {
        let Some(note) = &position.note else { return Ok(None) };
        let unreadable = |e| {
            let what = "the checkpoint's note on this file cannot be read";
            Error::data(what).at(split).because(e).hint("was it written by a newer version, or by another kind of source?")
        };
        Note::deserialize(note).map(Some).map_err(unreadable)
    }
    pub(super) fn position(&self, offset: u64) -> Result<Position> {
        let note = serde_json::to_value(self).map_err(|e| Error::internal("a file's note is no JSON").because(e))?;
        Ok(Position { offset, note: Some(note) })
    }
}

/// How a file is packed; by the ending of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    pub(super) fn of(split: &str) -> Packing {
        match split.rsplit('.').next() {
            Some(end) if end.eq_ignore_ascii_case("gz") => Packing::Gzip,
            Some(end) if end.eq_ignore_ascii_case("zst") => Packing::Zstd,
            _ => Packing::Plain,
        }
    }
}

/// What the file system says about a path; none when nothing is there. `Invalid` for anything but a file.
pub(super) fn look(path: &Path) -> Result<Option<Metadata>> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => Ok(Some(meta)),
        Ok(meta) if meta.is_dir() => {
            Err(Error::invalid("a directory is no input file").at(path.display()).hint("name the files in it, for example with /*.ndjson"))
        }
        Ok(_) => Err(Error::invalid("not a regular file, so it cannot be read again after a crash")
            .at(path.display())
            .hint("pipe it into the source `stdin`")),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(os_error(e, path)),
    }
}

/// Is this error about a file that is not what it was?
pub(super) fn is_change(e: &Error) -> bool {
    e.message().starts_with(CHANGED) || e.message().starts_with(SHRUNK)
}

/// A file that was read, or promised to be read, is gone.
pub(super) fn missing(path: &Path) -> Error {
    let hint = "put the file back, or go back with --rewind to a checkpoint before it was found";
    Error::data("an input file that is not read to its end is missing").at(path.display()).hint(hint)
}

/// The file has less than it had.
pub(super) fn shrunk(path: &Path, now: u64, then: u64) -> Error {
    Error::data(format!("{SHRUNK}: it has {now} bytes and had {then}, so exactly-once cannot hold")).at(path.display()).hint(PUT_BACK)
}

pub(super) fn changed(path: &Path, where_: &str) -> Error {
    Error::data(format!("{CHANGED} ({where_})")).at(path.display()).hint(PUT_BACK)
}

pub(super) fn os_error(e: io::Error, path: &Path) -> Error {
    match e.kind() {
        ErrorKind::NotFound => missing(path),
        ErrorKind::PermissionDenied => {
            Error::invalid("the file may not be read").at(path.display()).because(e).hint("give this user the right to read it")
        }
        _ => {
            Error::unavailable("the file cannot be read").at(path.display()).because(e).hint("make the file readable, or correct the paths")
        }
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..16].iter().map(|b| format!("{b:02x}")).collect()
}

/// Hash of the first bytes on disk of a plain file that has or had `size` bytes.
pub(super) fn head_of(path: &Path, size: u64) -> Result<String> {
    let mut head = Vec::new();
    let open = File::open(path).and_then(|f| f.take(size.min(HEAD_BYTES as u64)).read_to_end(&mut head));
    open.map_err(|e| os_error(e, path))?;
    Ok(digest(&head))
}

/// Is the plain file at `path` still the one that `note` knows, below `offset`?
fn recognise(path: &Path, note: &Note, offset: u64) -> Result<()> {
    if let Some(head) = &note.head
        && *head != head_of(path, note.size)?
    {
        return Err(changed(path, "its first bytes are others"));
    }
    if let Some(tail) = &note.tail
        && *tail != digest(&before(path, offset)?)
    {
        return Err(changed(path, &format!("the bytes before offset {offset} are others")));
    }
    if let Some(check) = &note.check
        && *check != check_of(&head_of(path, note.size)?, &digest(&before(path, offset)?))
    {
        return Err(changed(path, &format!("its first bytes or those before offset {offset} are others")));
    }
    Ok(())
}

/// The last bytes before `offset` of a plain file.
fn before(path: &Path, offset: u64) -> Result<Vec<u8>> {
    let length = offset.min(TAIL_BYTES as u64);
    let mut tail = Vec::new();
    let read = |tail: &mut Vec<u8>| {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(offset - length))?;
        file.take(length).read_to_end(tail)
    };
    read(&mut tail).map_err(|e| os_error(e, path))?;
    Ok(tail)
}

/// Everything that opening a file needs to know.
pub(super) struct Ask<'a> {
    pub(super) split: &'a str,
    pub(super) path: &'a Path,
    pub(super) framing: Framing,
    pub(super) max_record: usize,
    /// About so many bytes come at once.
    pub(super) chunk_bytes: usize,
    /// Where to go on; none: at the start.
    pub(super) from: Option<&'a Position>,
    /// The end, and what is known about the file.
    pub(super) stop: &'a Position,
    /// Read a compressed file that was found cut off to the end it has now.
    pub(super) extend: bool,
    /// The stop is the end of the file: what stands before it without a line end is a record.
    pub(super) last: bool,
}

/// What a read of a file gave.
pub(super) enum Filled {
    /// More bytes, or the end.
    Fine,
    /// A compressed file ends in the middle, where it ended when it was found; it is longer now.
    Extend,
}

/// An open file.
pub(super) struct Reading {
    path: std::path::PathBuf,
    input: Box<dyn Read + Send>,
    packing: Packing,
    pub(super) origin: Arc<Origin>,
    pub(super) framer: Framer,
    known: Note,
    /// Decompressed bytes that were read, from the file's start.
    read: u64,
    /// The first decompressed bytes of a compressed file.
    head: Vec<u8>,
    head_digest: Option<String>,
    stop: u64,
    last: bool,
    eof: bool,
}

impl Reading {
    /// Opens a file and goes to `from`. `Data` when it is missing, shorter than it was, or not what the notes say.
    pub(super) fn open(ask: &Ask<'_>) -> Result<Reading> {
        let meta = look(ask.path)?.ok_or_else(|| missing(ask.path))?;
        let packing = Packing::of(ask.split);
        let mut known = Note::of(ask.stop, ask.split)?.unwrap_or(Note { size: meta.len(), ..Note::default() });
        let from = ask.from.filter(|p| p.offset > 0);
        let note = from.map(|p| Note::of(p, ask.split)).transpose()?.flatten();
        let offset = from.map_or(0, |p| p.offset);
        let then = known.size.max(note.as_ref().map_or(0, |n| n.size));
        if meta.len() < then {
            return Err(shrunk(ask.path, meta.len(), then));
        }
        if ask.extend {
            known.size = meta.len();
        }
        let origin = Arc::new(Origin { split: ask.split.to_owned(), name: ask.split.to_owned(), partition: None, header: None });
        let mut reading = Reading {
            path: ask.path.to_owned(),
            input: unpack(ask.path, packing, known.size)?,
            packing,
            origin,
            framer: Framer::at_start(ask.framing, ask.max_record, 0, 1),
            known,
            read: 0,
            head: Vec::new(),
            head_digest: None,
            stop: ask.stop.offset,
            last: ask.last,
            eof: false,
        };
        if packing == Packing::Plain {
            recognise(ask.path, &reading.known, 0)?;
        }
        if offset > 0 {
            reading.go_to(ask, offset, note.as_ref())?;
        }
        Ok(reading)
    }

    /// Goes to the middle: the header first, then the bytes before `offset`, which must be what they were.
    fn go_to(&mut self, ask: &Ask<'_>, offset: u64, note: Option<&Note>) -> Result<()> {
        if matches!(ask.framing, Framing::Csv { header: true, .. }) {
            self.origin = self.header(ask)?;
        }
        let line = note.and_then(|n| n.line);
        let mut lines = 0;
        let tail = if self.packing == Packing::Plain && line.is_some() {
            let mut file = File::open(&self.path).map_err(|e| os_error(e, &self.path))?;
            file.seek(SeekFrom::Start(offset)).map_err(|e| os_error(e, &self.path))?;
            self.input = Box::new(file);
            before(&self.path, offset)?
        } else {
            self.pass(offset, &mut lines)?
        };
        self.read = offset;
        if let Some(note) = note {
            match self.packing {
                Packing::Plain => recognise(&self.path, note, offset)?,
                _ if note.head.as_ref().is_some_and(|head| *head != digest(&self.head))
                    || note.check.as_ref().is_some_and(|check| !digest(&self.head).starts_with(check)) =>
                {
                    return Err(changed(&self.path, "its first bytes are others"));
                }
                _ if note.tail.as_ref().is_some_and(|hash| *hash != digest(&tail)) => {
                    return Err(changed(&self.path, &format!("the bytes before offset {offset} are others")));
                }
                _ => {}
            }
        }
        self.framer = Framer::in_middle(ask.framing, ask.max_record, (offset, line.unwrap_or(lines + 1)), tail);
        self.joint(note, offset)
    }

    /// What was read to a torn end may go on only with a new record.
    fn joint(&mut self, note: Option<&Note>, offset: u64) -> Result<()> {
        let Some(torn) = note.and_then(|n| n.torn.as_deref()) else { return Ok(()) };
        let peek = if self.packing == Packing::Plain { 2.min(usize::try_from(self.stop.saturating_sub(offset)).unwrap_or(2)) } else { 2 };
        let next = self.framer.room(peek);
        let (got, failed) = read_up_to(&mut self.input, next);
        let clean = got == 0 || (torn == "line" && (next[0] == b'\n' || next[..got] == *b"\r\n"));
        self.framer.unfilled(peek - got);
        self.read += got as u64;
        if let Some(e) = failed {
            return Err(self.error(e));
        }
        if clean {
            return Ok(());
        }
        let what = match torn {
            "line" => "the file grew in the middle of a line: its last line, which had no line end, was taken for a whole record",
            _ => "the file grew in the middle of a row: the quote that was open at its end made it a dead letter",
        };
        let hint = "put new data in a new file; to read this one again as it is now, go back with --rewind to a checkpoint before its end was read";
        Err(Error::data(what).at(format!("{} offset {offset}", self.path.display())).hint(hint))
    }

    /// Reads and forgets everything before `offset`, but for the last bytes.
    fn pass(&mut self, offset: u64, lines: &mut u64) -> Result<Vec<u8>> {
        let mut tail = Vec::new();
        let mut buffer = vec![0; 64 * 1024];
        while self.read < offset {
            let want = usize::try_from(offset - self.read).unwrap_or(usize::MAX).min(buffer.len());
            let (got, failed) = read_up_to(&mut self.input, &mut buffer[..want]);
            self.took(&buffer[..got]);
            *lines += memchr::memchr_iter(b'\n', &buffer[..got]).count() as u64;
            keep_tail(&mut tail, &buffer[..got]);
            if let Some(e) = failed {
                return Err(self.error(e));
            }
            if got < want {
                return Err(shrunk(&self.path, self.read, offset));
            }
        }
        Ok(tail)
    }

    /// The origin with the CSV header, read from the file's first row.
    fn header(&self, ask: &Ask<'_>) -> Result<Arc<Origin>> {
        let mut input = unpack(&self.path, self.packing, self.known.size)?;
        let mut framer = Framer::at_start(ask.framing, ask.max_record, 0, 1);
        let mut origin = self.origin.clone();
        let mut eof = false;
        while !framer.has_header() && !eof {
            let room = framer.room(64 * 1024);
            let want = room.len();
            let (got, failed) = read_up_to(&mut input, room);
            framer.unfilled(want - got);
            eof = got < want;
            framer.cut(eof, usize::MAX, &mut origin)?;
            if let Some(e) = failed.filter(|_| !framer.has_header()) {
                return Err(self.error(e));
            }
        }
        Ok(origin)
    }

    /// Reads about `want` bytes more.
    pub(super) fn fill(&mut self, want: usize) -> Result<Filled> {
        let left = usize::try_from(self.stop.saturating_sub(self.read)).unwrap_or(usize::MAX);
        let want = if self.packing == Packing::Plain { want.min(left) } else { want };
        let room = self.framer.room(want);
        let (got, failed) = read_up_to(&mut self.input, room);
        if self.packing != Packing::Plain && self.head.len() < HEAD_BYTES {
            let more = got.min(HEAD_BYTES - self.head.len());
            self.head.extend_from_slice(&room[..more]);
        }
        self.framer.unfilled(want - got);
        self.read += got as u64;
        if self.head.len() == HEAD_BYTES && self.head_digest.is_none() {
            self.head_digest = Some(digest(&self.head));
        }
        match failed {
            Some(e) if e.kind() == ErrorKind::UnexpectedEof && e.raw_os_error().is_none() && self.longer_now() => {
                return Ok(Filled::Extend);
            }
            Some(e) => return Err(self.error(e)),
            None => {}
        }
        self.eof = match self.packing {
            Packing::Plain if got < want => {
                let size = std::fs::metadata(&self.path).map_or(self.read, |meta| meta.len().min(self.read));
                return Err(shrunk(&self.path, size, self.stop));
            }
            Packing::Plain => self.read >= self.stop,
            _ => got < want,
        };
        Ok(Filled::Fine)
    }

    /// Whole records out of what was read.
    pub(super) fn cut(&mut self, limit: usize) -> Result<Records> {
        self.framer.cut(self.eof && self.last, limit, &mut self.origin)
    }

    /// Everything up to the stop was cut.
    pub(super) fn done(&self) -> bool {
        self.eof && !self.framer.more() && !(self.last && self.framer.in_record())
    }

    /// Everything was cut, and what is left is no record yet.
    fn clean(&self) -> bool {
        self.done() && !self.framer.in_record()
    }

    /// The position after everything that was cut.
    pub(super) fn position(&self) -> Result<Position> {
        let offset = self.framer.offset();
        let mut note = Note { tail: Some(digest(self.framer.tail())), line: Some(self.framer.line()), ..self.known.clone() };
        if self.packing != Packing::Plain {
            let head = &self.head[..self.head.len().min(usize::try_from(offset).unwrap_or(usize::MAX))];
            note.head = self.head_digest.clone().filter(|_| head.len() == HEAD_BYTES).or_else(|| Some(digest(head)));
            note.end = self.clean().then_some(self.known.size);
        }
        if self.clean() {
            note.torn = self.framer.torn().map(|t| if t == Torn::Line { "line" } else { "quote" }.to_owned());
        }
        note.position(offset)
    }

    fn took(&mut self, bytes: &[u8]) {
        self.read += bytes.len() as u64;
        if self.packing != Packing::Plain && self.head.len() < HEAD_BYTES {
            self.head.extend_from_slice(&bytes[..bytes.len().min(HEAD_BYTES - self.head.len())]);
        }
    }

    fn longer_now(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|m| m.len() > self.known.size)
    }

    /// The operating system's errors pass; what the decompressor says does not.
    fn error(&self, e: io::Error) -> Error {
        if self.packing == Packing::Plain || e.raw_os_error().is_some() {
            return os_error(e, &self.path);
        }
        let what = match (e.kind(), self.packing) {
            (ErrorKind::UnexpectedEof, Packing::Gzip) => "the gzip file is cut off",
            (ErrorKind::UnexpectedEof, _) => "the zstd file is cut off",
            (_, Packing::Gzip) => "the gzip file is corrupt",
            _ => "the zstd file is corrupt",
        };
        let place = format!("{} offset {} (decompressed)", self.path.display(), self.read);
        let hint = "put the complete file in its place and run again: it goes on after the last checkpoint";
        Error::data(what).at(place).because(e).hint(hint)
    }
}

/// The file's content, decompressed; of a compressed file the first `size` bytes on disk.
pub(super) fn unpack(path: &Path, packing: Packing, size: u64) -> Result<Box<dyn Read + Send>> {
    let file = File::open(path).map_err(|e| os_error(e, path))?;
    let packed = |file: File| BufReader::with_capacity(64 * 1024, file.take(size));
    Ok(match packing {
        Packing::Plain => Box::new(file),
        Packing::Gzip if size == 0 => Box::new(io::empty()),
        Packing::Gzip => Box::new(MultiGzDecoder::new(packed(file))),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(packed(file)).map_err(|e| os_error(e, path))?),
    })
}

/// Fills the buffer as far as the input goes; an error comes with what was read before it.
pub(super) fn read_up_to(input: &mut (impl Read + ?Sized), buffer: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return (got, Some(e)),
        }
    }
    (got, None)
}

/// Is a file that is read to its end still what it was, as far as that is cheap to tell? `size`: bytes on disk now.
pub(super) fn still_the_same(split: &str, path: &Path, position: &Position, size: u64) -> Result<()> {
    let Some(note) = Note::of(position, split)? else { return Ok(()) };
    if size < note.size {
        return Err(shrunk(path, size, note.size));
    }
    if Packing::of(split) == Packing::Plain {
        return recognise(path, &note, position.offset);
    }
    let Some(head) = note.head.as_ref().or(note.check.as_ref()) else { return Ok(()) };
    let mut bytes = vec![0; HEAD_BYTES.min(usize::try_from(position.offset).unwrap_or(usize::MAX))];
    let (got, _) = read_up_to(&mut unpack(path, Packing::of(split), note.size)?, &mut bytes);
    if !digest(&bytes[..got]).starts_with(head) {
        return Err(changed(path, "its first bytes are others"));
    }
    Ok(())
}
