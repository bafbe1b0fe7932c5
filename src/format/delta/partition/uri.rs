//! `add.path`: a path under the table's root as a relative URI.

use crate::error::{Error, Result};

/// A path as the log has it: everything that cannot stand in a URI as `%XX`, also what is not ASCII, and the `%` of escaped directories.
pub fn uri_encode(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'.' | b'_' | b'~' | b'/' | b'=' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'@' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The path that `path` of the log stands for. `Invalid`: it is not under the table's root. `Data`: it is no text.
pub fn uri_decode(path: &str) -> Result<String> {
    // A colon ends a scheme: `s3://...`, and what readers would take for one.
    if path.starts_with('/') || path.split_once(':').is_some_and(|(head, _)| is_scheme(head)) {
        let what = format!("the file `{path}` is named by a full location");
        return Err(Error::invalid(what).hint("only files under the table's own directory can be read; shallow clones cannot"));
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| hex(after)).flatten();
        // Others leave a stray `%` as it is, too.
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    let decoded = String::from_utf8(bytes)
        .map_err(|e| Error::data(format!("the path `{path}` is no text")).because(e).hint("the log is damaged: restore it"))?;
    if decoded.split('/').any(|segment| segment.is_empty() || segment == "." || segment == "..") {
        let what = format!("the path `{path}` has an empty segment, `.` or `..`");
        return Err(Error::invalid(what).hint("only files under the table's own directory can be read"));
    }
    Ok(decoded)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digits = digits.get(..2)?;
    let value = |b: u8| char::from(b).to_digit(16);
    u8::try_from(value(digits[0])? * 16 + value(digits[1])?).ok()
}
