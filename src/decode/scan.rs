//! The JSON grammar (RFC 8259), byte by byte, over one record. It only finds where values are; nothing is copied or converted.

use super::rows::Kind;

/// Objects and arrays within each other, at most.
const DEEPEST: u32 = 128;

/// What is wrong, at [`Scanner::at`].
pub(super) type Wrong = &'static str;

/// A record, and a position in it.
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    /// Was a byte seen that is not ASCII? (It may also have been seen right behind a text.)
    pub(super) beyond_ascii: bool,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The highest bit of each byte that ends a run of plain text: `"`, `\` or a control character. Exact up to the first such byte.
#[inline]
fn stops(word: u64) -> u64 {
    let quote = word ^ (ONES * 0x22);
    let escape = word ^ (ONES * 0x5C);
    (quote.wrapping_sub(ONES) & !quote | escape.wrapping_sub(ONES) & !escape | word.wrapping_sub(ONES * 0x20) & !word) & HIGHS
}

impl<'a> Scanner<'a> {
    /// `bytes` ends where the record ends.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        Scanner { bytes, at, beyond_ascii: false }
    }

    /// The next byte; 0 at the end, which is no byte of the grammar.
    #[inline]
    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// What follows.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    /// Passes over white space.
    #[inline]
    pub(super) fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
    }

    /// Passes over the rest of a text whose opening quote was passed; where its characters end, and whether there are escapes.
    #[inline]
    pub(super) fn text(&mut self) -> Result<(usize, bool), Wrong> {
        let mut escapes = false;
        loop {
            while let Some(word) = self.bytes.get(self.at..self.at + 8).and_then(|b| b.first_chunk::<8>()) {
                let word = u64::from_le_bytes(*word);
                self.beyond_ascii |= word & HIGHS != 0;
                let found = stops(word);
                if found != 0 {
                    self.at += (found.trailing_zeros() / 8) as usize;
                    break;
                }
                self.at += 8;
            }
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((self.at - 1, escapes));
                }
                Some(b'\\') => {
                    escapes = true;
                    self.escape()?;
                }
                Some(0..=0x1F) => return Err("a control character in a text must be written as an escape"),
                Some(b) => {
                    self.beyond_ascii |= *b >= 0x80;
                    self.at += 1;
                }
                None => return Err("the record ends within a text"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Wrong> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..self.at + 6);
                if !digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit)) {
                    return Err("\\u needs four hexadecimal digits");
                }
                self.at += 6;
            }
            Some(_) => return Err("an escape that JSON does not know"),
            None => return Err("the record ends within a text"),
        }
        Ok(())
    }

    /// Passes over a value: what it is, where it starts and ends. A text is what is between its quotes.
    #[inline]
    pub(super) fn value(&mut self, depth: u32) -> Result<(Kind, usize, usize), Wrong> {
        let start = self.at;
        match self.peek() {
            b'"' => {
                self.at += 1;
                let (end, escapes) = self.text()?;
                Ok((if escapes { Kind::Escaped } else { Kind::Text }, start + 1, end))
            }
            b'-' | b'0'..=b'9' => {
                self.number()?;
                Ok((Kind::Number, start, self.at))
            }
            b'{' | b'[' => {
                self.nested(depth)?;
                Ok((Kind::Json, start, self.at))
            }
            b't' => self.word(b"true", Kind::True),
            b'f' => self.word(b"false", Kind::False),
            b'n' => self.word(b"null", Kind::Null),
            0 if self.at_end() => Err("the record ends where a value is expected"),
            b'N' | b'I' => Err("NaN and Infinity are no JSON (write them as texts)"),
            _ => Err("a value is expected"),
        }
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<(Kind, usize, usize), Wrong> {
        if !self.rest().starts_with(word) {
            return Err("a value is expected");
        }
        let start = self.at;
        self.at += word.len();
        Ok((kind, start, self.at))
    }

    #[inline]
    fn digits(&mut self) -> bool {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.at > start
    }

    #[inline]
    fn number(&mut self) -> Result<(), Wrong> {
        self.at += usize::from(self.peek() == b'-');
        if self.peek() == b'0' {
            self.at += 1;
            if self.peek().is_ascii_digit() {
                return Err("a number must not begin with 0");
            }
        } else if !self.digits() {
            return Err("a digit is expected");
        }
        if self.peek() == b'.' {
            self.at += 1;
            if !self.digits() {
                return Err("a digit is expected behind the point");
            }
        }
        if let b'e' | b'E' = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
            if !self.digits() {
                return Err("a digit is expected in the exponent");
            }
        }
        Ok(())
    }

    /// Passes over an object or array.
    fn nested(&mut self, depth: u32) -> Result<(), Wrong> {
        if depth >= DEEPEST {
            return Err("more than 128 objects and arrays within each other");
        }
        let object = self.peek() == b'{';
        let close = if object { b'}' } else { b']' };
        self.at += 1;
        self.blanks();
        if self.peek() == close {
            self.at += 1;
            return Ok(());
        }
        loop {
            if object {
                self.key()?;
                self.colon()?;
            }
            self.value(depth + 1)?;
            if self.next(close)? {
                return Ok(());
            }
        }
    }

    /// Passes over a key: start and end of what is between its quotes, and whether there are escapes.
    pub(super) fn key(&mut self) -> Result<(usize, usize, bool), Wrong> {
        if self.peek() != b'"' {
            return Err(if self.at_end() { "the record ends within an object" } else { "a key in double quotes is expected" });
        }
        self.at += 1;
        let start = self.at;
        let (end, escapes) = self.text()?;
        Ok((start, end, escapes))
    }

    /// Passes over a colon and the white space around it.
    #[inline]
    pub(super) fn colon(&mut self) -> Result<(), Wrong> {
        self.blanks();
        if self.peek() != b':' {
            return Err("a colon is expected");
        }
        self.at += 1;
        self.blanks();
        Ok(())
    }

    /// Behind a member: passes over a comma (`false`) or the end of the object or array (`true`).
    #[inline]
    pub(super) fn next(&mut self, close: u8) -> Result<bool, Wrong> {
        self.blanks();
        let b = self.peek();
        if b == b',' {
            self.at += 1;
            self.blanks();
            return Ok(false);
        }
        if b == close {
            self.at += 1;
            return Ok(true);
        }
        match (self.at_end(), close) {
            (true, b'}') => Err("the record ends within an object"),
            (true, _) => Err("the record ends within an array"),
            (false, b'}') => Err("a comma or } is expected"),
            (false, _) => Err("a comma or ] is expected"),
        }
    }
}

/// Takes the escapes of a text, which was scanned before, away; fails for half of a surrogate pair.
pub(super) fn unescape(text: &[u8], out: &mut Vec<u8>) -> Result<(), Wrong> {
    out.clear();
    let mut rest = text;
    while let Some(at) = rest.iter().position(|b| *b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (byte, mut length) = match rest.get(at + 1) {
            Some(b'b') => (8, 2),
            Some(b'f') => (12, 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b't') => (b'\t', 2),
            Some(b'u') => (0, 0),
            Some(b) => (*b, 2),
            None => return Err("ends within an escape"),
        };
        if length == 2 {
            out.push(byte);
        } else {
            let high = hex4(rest, at);
            length = if matches!(high, Some(0xD800..=0xDBFF)) { 12 } else { 6 };
            let point = match (high, hex4(rest, at + 6)) {
                (Some(high @ 0xD800..=0xDBFF), Some(low @ 0xDC00..=0xDFFF)) => Some(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)),
                (point, _) => point,
            };
            let c = point.and_then(char::from_u32).ok_or("has half of a surrogate pair, which is no character")?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// The number of the `\uXXXX` at `at`.
fn hex4(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
