//! Bytes become records: lines, or CSV rows with newlines inside quotes. The same bytes give the same records however they arrive in pieces.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use memchr::{memchr, memchr_iter, memchr2};

use super::{Origin, Records};
use crate::error::{Error, Result};

/// How the bytes of a file or of standard input become records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One record a line (`\n` or `\r\n`); blank lines are skipped.
    Lines,
    /// One record a CSV row; a newline inside quotes does not end it. Empty lines are skipped.
    Csv {
        /// The quote, `"` as a rule. It opens a quoted field only where a field begins; doubled inside quotes it stands for itself.
        quote: u8,
        /// The first row names the columns; it is not a record, and goes into [`Origin::header`].
        header: bool,
        /// What separates fields, `,` as a rule.
        delimiter: u8,
    },
    /// The rows of Parquet files, which are columns already. Only for files.
    Parquet,
}

/// How much is kept of a record that cannot be delivered whole.
const FAULT_BYTES: usize = 1024;
/// How many bytes before a position make it recognisable.
pub(super) const TAIL_BYTES: usize = 1024;
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Why the end of the input was no clean end of a record; continuing behind it would take a record apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Torn {
    /// The last record has no line end.
    Line,
    /// A quote was never closed.
    Quote,
}

/// Where a CSV scan stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Plain,
    Quoted,
    /// After a quote inside quotes: the end of the quotes, or the first half of a doubled one.
    QuoteInQuotes,
}

/// A record that is being passed over because it is longer than allowed.
struct Skip {
    offset: u64,
    line: u64,
    head: Vec<u8>,
    length: u64,
    tail: Vec<u8>,
}

/// One row found in the buffer, by positions in it.
struct Row {
    start: usize,
    end: usize,
    line: u64,
}

/// Cuts a stream of bytes into records. Holds at most one unfinished record and what was pushed last.
pub(super) struct Framer {
    framing: Framing,
    max_record: usize,
    /// Bytes that are not cut yet; the first stands at `offset`.
    buf: Vec<u8>,
    /// The scan has been up to here, in state `state`.
    scanned: usize,
    state: State,
    offset: u64,
    line: u64,
    tail: Vec<u8>,
    skip: Option<Skip>,
    more: bool,
    /// Nothing was cut yet, and the stream begins here: a byte order mark is not data.
    fresh: bool,
    needs_header: bool,
    torn: Option<Torn>,
}

impl Framer {
    /// A framer at the very start of a stream, whose first byte gets the offset `offset`.
    pub(super) fn at_start(framing: Framing, max_record: usize, offset: u64, line: u64) -> Self {
        let needs_header = matches!(framing, Framing::Csv { header: true, .. });
        Framer {
            framing,
            max_record,
            buf: Vec::new(),
            scanned: 0,
            state: State::FieldStart,
            offset,
            line,
            tail: Vec::new(),
            skip: None,
            more: false,
            fresh: true,
            needs_header,
            torn: None,
        }
    }

    /// A framer in the middle of a stream. `tail`: the last bytes before `offset`; `line`: number of the next line.
    pub(super) fn in_middle(framing: Framing, max_record: usize, at: (u64, u64), tail: Vec<u8>) -> Self {
        let mut framer = Self::at_start(framing, max_record, at.0, at.1);
        (framer.tail, framer.fresh, framer.needs_header) = (tail, false, false);
        framer
    }

    /// Room for `want` more bytes; `filled` says how many were written.
    pub(super) fn room(&mut self, want: usize) -> &mut [u8] {
        let len = self.buf.len();
        self.buf.resize(len + want, 0);
        &mut self.buf[len..]
    }
    /// Takes back the part of the last `room` that was not filled.
    pub(super) fn unfilled(&mut self, bytes: usize) {
        self.buf.truncate(self.buf.len() - bytes);
    }
    /// True when the buffer holds whole records that `cut` has not given yet.
    pub(super) fn more(&self) -> bool {
        self.more
    }
    /// Offset after everything that was given: bytes.
    pub(super) fn offset(&self) -> u64 {
        self.skip.as_ref().map_or(self.offset, |s| s.offset)
    }
    /// Number of the line that begins at `offset`.
    pub(super) fn line(&self) -> u64 {
        self.skip.as_ref().map_or(self.line, |s| s.line)
    }
    /// The last bytes before `offset`, at most [`TAIL_BYTES`].
    pub(super) fn tail(&self) -> &[u8] {
        &self.tail
    }
    /// How the input ended, after the last `cut`.
    pub(super) fn torn(&self) -> Option<Torn> {
        self.torn
    }
    /// False until the header, if there is one, was reached; it then is in the origin that `cut` was given.
    pub(super) fn has_header(&self) -> bool {
        !self.needs_header
    }
    /// True when bytes are waiting for the rest of their record.
    pub(super) fn in_record(&self) -> bool {
        self.skip.is_some() || !self.buf.is_empty()
    }

    /// Takes whole records out of the buffer, about `limit` bytes of them. `eof`: nothing will be pushed any more, so what is left is a record.
    pub(super) fn cut(&mut self, eof: bool, limit: usize, origin: &mut Arc<Origin>) -> Result<Records> {
        self.more = false;
        if self.skip.is_some() {
            return Ok(self.pass_over(eof, origin));
        }
        if self.fresh {
            if self.buf.len() < BOM.len() && BOM.starts_with(&self.buf) && !eof {
                return Ok(Records::none(origin.clone()));
            }
            self.fresh = false;
            if self.buf.starts_with(BOM) {
                self.consume(BOM.len());
            }
        }
        let (mut rows, mut faults, mut at) = (Vec::new(), Vec::new(), 0);
        while at < self.buf.len() {
            if at >= limit && !rows.is_empty() {
                self.more = true;
                break;
            }
            let Some((end, next, fault)) = self.row(at, eof) else { break };
            let content = trimmed(&self.buf[at..end]);
            let blank = match self.framing {
                Framing::Lines | Framing::Parquet => content.trim_ascii().is_empty(),
                Framing::Csv { .. } => content.is_empty(),
            };
            let (line, end) = (self.line, at + content.len());
            self.line += memchr_iter(b'\n', &self.buf[at..next]).count() as u64;
            if self.needs_header && !blank {
                self.take_header(at..end, fault, line, origin)?;
            } else if !blank {
                let end = if fault.is_some() { end.min(at + FAULT_BYTES) } else { end };
                faults.extend(fault.map(|why| (rows.len(), why)));
                rows.push(Row { start: at, end, line });
            }
            at = next;
        }
        if at == 0 {
            self.start_skip(eof, origin)?;
            return Ok(Records::none(origin.clone()));
        }
        Ok(self.give(&rows, faults, at, origin))
    }

    /// The row at `at`: its end, the start of the next one, and what is wrong with it. None: its end is not there yet.
    fn row(&mut self, at: usize, eof: bool) -> Option<(usize, usize, Option<String>)> {
        let (end, next) = match self.find(at) {
            Some(end) => (end, end + 1),
            None if self.state == State::Quoted && eof => {
                self.torn = Some(Torn::Quote);
                return self.first_line(at, eof);
            }
            None if matches!(self.framing, Framing::Csv { .. }) && self.too_much(self.buf.len() - at) => return self.first_line(at, eof),
            None if !eof => return None,
            None => {
                self.torn.get_or_insert(Torn::Line);
                (self.buf.len(), self.buf.len())
            }
        };
        let length = trimmed(&self.buf[at..end]).len();
        if length <= self.max_record {
            self.rescan(next);
            return Some((end, next, None));
        }
        match self.framing {
            Framing::Csv { .. } => self.first_line(at, eof),
            Framing::Lines | Framing::Parquet => {
                self.rescan(next);
                Some((end, next, Some(self.too_long(length as u64))))
            }
        }
    }

    /// The first line of a row that cannot be taken whole, so that an open quote spoils one line and not the rest of the file.
    fn first_line(&mut self, at: usize, eof: bool) -> Option<(usize, usize, Option<String>)> {
        let (end, next) = match memchr(b'\n', &self.buf[at..]) {
            Some(n) => (at + n, at + n + 1),
            None if eof => (self.buf.len(), self.buf.len()),
            None => return None,
        };
        self.rescan(next);
        let length = trimmed(&self.buf[at..end]).len();
        let why = if length > self.max_record {
            self.too_long(length as u64)
        } else {
            format!("a quote opened in this row is not closed before the end of the input, or within {} bytes", self.max_record)
        };
        Some((end, next, Some(why)))
    }

    fn too_long(&self, length: u64) -> String {
        format!("the record has {length} bytes, more than the {} that are allowed", self.max_record)
    }

    fn rescan(&mut self, at: usize) {
        (self.scanned, self.state) = (at, State::FieldStart);
    }

    /// The line end of the row at `at`; scans only what it has not scanned.
    fn find(&mut self, at: usize) -> Option<usize> {
        let Framing::Csv { quote, delimiter, .. } = self.framing else {
            let from = self.scanned.max(at);
            let found = memchr(b'\n', &self.buf[from..]).map(|n| from + n);
            self.scanned = self.buf.len();
            return found;
        };
        if self.scanned <= at {
            self.rescan(at);
            if let Some(n) = memchr(b'\n', &self.buf[at..])
                && memchr(quote, &self.buf[at..at + n]).is_none()
            {
                return Some(at + n); // most rows: a line without any quote
            }
        }
        let buf = &self.buf[..];
        let mut i = self.scanned;
        let found = loop {
            if i >= buf.len() {
                break None;
            }
            match self.state {
                State::FieldStart if buf[i] == quote => (self.state, i) = (State::Quoted, i + 1),
                State::FieldStart => self.state = State::Plain,
                State::Plain => match memchr2(delimiter, b'\n', &buf[i..]) {
                    Some(n) if buf[i + n] == b'\n' => break Some(i + n),
                    Some(n) => (self.state, i) = (State::FieldStart, i + n + 1),
                    None => i = buf.len(),
                },
                State::Quoted => match memchr(quote, &buf[i..]) {
                    Some(n) => (self.state, i) = (State::QuoteInQuotes, i + n + 1),
                    None => i = buf.len(),
                },
                State::QuoteInQuotes if buf[i] == quote => (self.state, i) = (State::Quoted, i + 1),
                State::QuoteInQuotes => self.state = State::Plain,
            }
        };
        self.scanned = found.unwrap_or(buf.len());
        found
    }

    /// True when bytes without a row's end are more than any allowed row; its line end is no part of it.
    fn too_much(&self, bytes: usize) -> bool {
        bytes > self.max_record.saturating_add(2)
    }

    fn take_header(&mut self, row: Range<usize>, fault: Option<String>, line: u64, origin: &mut Arc<Origin>) -> Result<()> {
        let Framing::Csv { quote, delimiter, .. } = self.framing else { return Ok(()) };
        let place = format!("{}:{line}", origin.name);
        if let Some(why) = fault {
            return Err(bad_header(&place, &why));
        }
        let names: Option<Vec<String>> = fields(&self.buf[row], quote, delimiter).into_iter().map(|n| String::from_utf8(n).ok()).collect();
        let names = Arc::new(names.ok_or_else(|| bad_header(&place, "it is not valid UTF-8"))?);
        self.needs_header = false;
        *origin = Arc::new(Origin { header: Some(names), ..(**origin).clone() });
        Ok(())
    }

    /// Begins to pass over the record at the buffer's start when it is longer than allowed and has no line end yet.
    fn start_skip(&mut self, eof: bool, origin: &Origin) -> Result<()> {
        if eof || !self.too_much(self.buf.len()) || memchr(b'\n', &self.buf).is_some() {
            return Ok(());
        }
        if self.needs_header {
            return Err(bad_header(&format!("{}:{}", origin.name, self.line), &self.too_long(self.buf.len() as u64)));
        }
        let head = self.buf[..FAULT_BYTES.min(self.buf.len())].to_vec();
        let mut tail = self.tail.clone();
        keep_tail(&mut tail, &self.buf);
        self.skip = Some(Skip { offset: self.offset, line: self.line, head, length: self.buf.len() as u64, tail });
        self.offset += self.buf.len() as u64;
        self.buf.clear();
        self.rescan(0);
        Ok(())
    }

    /// Passes over more of a record that is too long; gives its beginning when its end is there.
    fn pass_over(&mut self, eof: bool, origin: &Arc<Origin>) -> Records {
        let mut out = Records::none(origin.clone());
        let Some(mut skip) = self.skip.take() else { return out };
        let end = memchr(b'\n', &self.buf);
        let taken = end.map_or(self.buf.len(), |n| n + 1);
        skip.length += taken as u64;
        let room = FAULT_BYTES.saturating_sub(skip.head.len()).min(taken);
        skip.head.extend_from_slice(&self.buf[..room]);
        keep_tail(&mut skip.tail, &self.buf[..taken]);
        let last_but = |n: usize| skip.tail.len().checked_sub(n + 1).map(|at| skip.tail[at]);
        let carriage = last_but(usize::from(end.is_some())) == Some(b'\r');
        self.offset += taken as u64;
        self.buf.drain(..taken);
        self.rescan(0);
        if end.is_none() && !eof {
            self.skip = Some(skip);
            return out;
        }
        let line_end = u64::from(end.is_some());
        if end.is_none() {
            self.torn.get_or_insert(Torn::Line);
        }
        self.line += line_end;
        self.tail = skip.tail;
        self.more = !self.buf.is_empty();
        let length = skip.length - line_end - u64::from(carriage);
        skip.head.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        out.faults.push((0, self.too_long(length)));
        out.ends.push(skip.head.len());
        out.offsets.push(skip.offset);
        out.lines.push(skip.line);
        out.bytes = Bytes::from(skip.head);
        out
    }

    fn consume(&mut self, bytes: usize) {
        keep_tail(&mut self.tail, &self.buf[..bytes]);
        self.offset += bytes as u64;
        self.buf.drain(..bytes);
        self.scanned = self.scanned.saturating_sub(bytes);
    }

    /// Moves the rows together and hands them out; what begins at `at` stays. A copy within the cache instead of a start per record.
    fn give(&mut self, rows: &[Row], faults: Vec<(usize, String)>, at: usize, origin: &Arc<Origin>) -> Records {
        let rest = self.buf[at..].to_vec();
        let mut bytes = std::mem::replace(&mut self.buf, rest);
        keep_tail(&mut self.tail, &bytes[..at]);
        let mut out = Records::none(origin.clone());
        out.ends.reserve_exact(rows.len());
        out.offsets.reserve_exact(rows.len());
        out.lines.reserve_exact(rows.len());
        let mut end = 0;
        for row in rows {
            bytes.copy_within(row.start..row.end, end);
            end += row.end - row.start;
            out.ends.push(end);
            out.offsets.push(self.offset + row.start as u64);
            out.lines.push(row.line);
        }
        bytes.truncate(end);
        out.bytes = Bytes::from(bytes);
        out.faults = faults;
        self.offset += at as u64;
        self.scanned = self.scanned.saturating_sub(at);
        out
    }
}

fn bad_header(place: &str, why: &str) -> Error {
    Error::data(format!("the CSV header cannot be read: {why}")).at(place).hint("mend the file's first row")
}

/// A row without its carriage return.
fn trimmed(row: &[u8]) -> &[u8] {
    row.strip_suffix(b"\r").unwrap_or(row)
}

/// Keeps the last [`TAIL_BYTES`] of everything that `more` was ever added to.
pub(super) fn keep_tail(tail: &mut Vec<u8>, more: &[u8]) {
    let keep = TAIL_BYTES.saturating_sub(more.len()).min(tail.len());
    tail.drain(..tail.len() - keep);
    tail.extend_from_slice(&more[more.len().saturating_sub(TAIL_BYTES)..]);
}

/// The unquoted fields of one row.
fn fields(row: &[u8], quote: u8, delimiter: u8) -> Vec<Vec<u8>> {
    let mut reader = csv_core::ReaderBuilder::new().quote(quote).delimiter(delimiter).terminator(csv_core::Terminator::Any(b'\n')).build();
    let mut text = vec![0; row.len() + 1];
    let mut ends = vec![0; row.len() + 2];
    let (_, read, mut bytes, mut count) = reader.read_record(row, &mut text, &mut ends);
    // An empty input says that the row is complete.
    let (_, _, more_bytes, more) = reader.read_record(&row[read..], &mut text[bytes..], &mut ends[count..]);
    (bytes, count) = (bytes + more_bytes, count + more);
    let mut start = 0;
    let cut = |end: &usize| {
        let field = text.get(start..(*end).min(bytes)).unwrap_or_default().to_vec();
        start = *end;
        field
    };
    ends[..count].iter().map(cut).collect()
}
