//! Splits that are read to their end, many of them: a record of 32 bytes each instead of a name and a note, shared by all offsets that know
//! them, and written once into segments beside the chain instead of into every checkpoint.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Position;
use crate::error::{Error, Result};
use crate::schema::Hex;

/// The key under which offsets in JSON keep their finished splits; no file and no topic can be called so.
pub(crate) const FINISHED: &str = "//finished";
const RECORD_BYTES: usize = 32;
/// So many segments of one size become one of the next.
const MERGED: usize = 8;

/// Where a source keeps what is too much for every checkpoint: objects that are written once, never changed, never deleted, and named by
/// what is in them.
#[async_trait]
pub trait Shelf: Send + Sync {
    /// Keeps `bytes` under `name`, which says what they are; they may be there already. Durable when it returns.
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()>;
    /// What was kept under `name`; none: nothing was.
    async fn get(&self, name: &str) -> Result<Option<Bytes>>;
}

/// A split that is read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Of its name.
    pub(crate) split: u64,
    /// The offset of its end.
    pub(crate) offset: u64,
    /// The source's own: a file's size.
    pub(crate) size: u64,
    /// The source's own: what makes it recognisable.
    pub(crate) check: u64,
}

impl Record {
    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        for (i, v) in [self.split, self.offset, self.size, self.check].into_iter().enumerate() {
            out[i * 8..(i + 1) * 8].copy_from_slice(&v.to_be_bytes());
        }
        out
    }
    fn from_bytes(bytes: &[u8]) -> Record {
        let at = |i: usize| bytes[i * 8..(i + 1) * 8].iter().fold(0, |n, b| n << 8 | u64::from(*b));
        Record { split: at(0), offset: at(1), size: at(2), check: at(3) }
    }
    /// As a position; its note is a file's.
    fn position(&self) -> Position {
        let mut note = serde_json::json!({"size": self.size, "end": self.size, "check": format!("{:016x}", self.check)});
        if self.offset & TORN != 0 {
            note["torn"] = (if self.offset & QUOTE != 0 { "quote" } else { "line" }).into();
        }
        Position { offset: self.offset & !(TORN | QUOTE), note: Some(note) }
    }
}

/// In a record's offset: the end was in the middle of something; that was a quote.
const TORN: u64 = 1 << 63;
const QUOTE: u64 = 1 << 62;

/// The record of a finished split, made of a position that [`Record::position`] could have made; none for any other.
pub(crate) fn record(split: &str, offset: u64, size: u64, check: &str, torn: Option<&str>) -> Option<Record> {
    let check = u64::from_str_radix(check.get(..16)?, 16).ok()?;
    let flags = torn.map_or(0, |torn| TORN | if torn == "quote" { QUOTE } else { 0 });
    (offset < QUOTE).then_some(Record { split: digest(split), offset: offset | flags, size, check })
}

/// Of a split's name.
pub(crate) fn digest(split: &str) -> u64 {
    Sha256::digest(split.as_bytes())[..8].iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// A segment: its name on the shelf, and how many records it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Segment(pub(crate) String, pub(crate) u64);

#[derive(Serialize, Deserialize)]
struct Note {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    segments: Vec<Segment>,
    /// Records that are in no segment, in hexadecimal: only what was made of offsets that went different ways.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    records: String,
}

/// Finished splits. Where two segments name the same one, the greater offset counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finished {
    /// By the digest, rising; each once.
    records: Vec<Record>,
    /// Where they are kept; none: they are written out.
    segments: Vec<Segment>,
    /// They are still to be read from there.
    pending: bool,
}

fn offset_of(record: &Record) -> u64 {
    record.offset & !(TORN | QUOTE)
}

/// Both, each split once; of two records of one the one that `pick` says.
fn merged(a: &[Record], b: &[Record], pick: impl Fn(Record, Record) -> Record) -> Vec<Record> {
    let mut out = Vec::with_capacity(a.len().max(b.len()));
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        match a[i].split.cmp(&b[j].split) {
            std::cmp::Ordering::Less => (i, _) = (i + 1, out.push(a[i])),
            std::cmp::Ordering::Greater => (j, _) = (j + 1, out.push(b[j])),
            std::cmp::Ordering::Equal => (i, j, _) = (i + 1, j + 1, out.push(pick(a[i], b[j]))),
        }
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
    out
}

fn greater(a: Record, b: Record) -> Record {
    if offset_of(&b) >= offset_of(&a) { b } else { a }
}

impl Finished {
    pub(crate) fn len(&self) -> u64 {
        if self.pending { self.segments.iter().map(|s| s.1).sum() } else { self.records.len() as u64 }
    }
    fn find(&self, split: u64) -> Option<&Record> {
        self.records.binary_search_by_key(&split, |r| r.split).ok().map(|i| &self.records[i])
    }
    /// The position of a split, if it is one of these.
    pub(crate) fn position(&self, split: &str) -> Option<Position> {
        self.find(digest(split)).map(Record::position)
    }
    /// The offset of a split, if it is one of these.
    pub(crate) fn offset(&self, split: &str) -> Option<u64> {
        self.find(digest(split)).map(offset_of)
    }
    /// Of a file in an earlier look: its size, when it is one of these.
    pub(crate) fn size(&self, split: &str) -> Option<u64> {
        self.find(digest(split)).map(|r| r.size)
    }
    /// Does `other` stand in every one of these at least as far? `named`: digests of those that are looked at by their names.
    pub(crate) fn is_covered_by(&self, other: Option<&Arc<Finished>>, named: &dyn Fn() -> HashSet<u64>) -> bool {
        if other.is_some_and(|other| std::ptr::eq(Arc::as_ptr(other), self)) {
            return true;
        }
        let further = |r: &&Record| other.and_then(|f| f.find(r.split)).is_none_or(|o| offset_of(o) < offset_of(r));
        let mut lacking = self.records.iter().filter(further).peekable();
        if lacking.peek().is_none() {
            return true;
        }
        let named = named();
        lacking.all(|r| named.contains(&r.split))
    }

    /// The note of the entry in JSON.
    pub(crate) fn to_position(&self) -> Position {
        let mut records = String::new();
        if self.segments.is_empty() {
            self.records.iter().for_each(|r| records.push_str(&Hex(&r.to_bytes()).to_string()));
        }
        let note = serde_json::to_value(Note { segments: self.segments.clone(), records });
        Position { offset: self.len(), note: note.ok() }
    }
    /// What [`Finished::to_position`] wrote; segments are still to be read.
    pub(crate) fn from_position(position: &Position) -> Option<Finished> {
        let note = Note::deserialize(position.note.as_ref()?).ok()?;
        if !note.segments.is_empty() {
            return Some(Finished { records: Vec::new(), segments: note.segments, pending: true });
        }
        let records = of_bytes(&crate::schema::unhex(&note.records)?)?;
        Some(Finished { records, segments: Vec::new(), pending: false })
    }

    /// The segments that are still to be read; none: it is whole.
    pub(crate) fn pending(&self) -> Option<&[Segment]> {
        self.pending.then_some(self.segments.as_slice())
    }

    /// Reads what is still to be read. `Data`: a segment is missing or is not what its name says.
    pub(crate) async fn load(&self, shelf: &dyn Shelf) -> Result<Finished> {
        let mut records = Vec::new();
        for segment in &self.segments {
            let lost = |what: &str| {
                let hint = "restore the object: without it nobody can tell which files were read";
                Error::data(format!("the list of finished files {} {what}", segment.0)).hint(hint)
            };
            let bytes = shelf.get(&segment.0).await?.ok_or_else(|| lost("is missing"))?;
            let of_segment = of_bytes(&bytes).filter(|r| name_of(&bytes) == segment.0 && r.len() as u64 == segment.1);
            records = merged(&records, &of_segment.ok_or_else(|| lost("is damaged"))?, greater);
        }
        Ok(Finished { records, segments: self.segments.clone(), pending: false })
    }

    /// These and `more`, which go into a segment of their own; small segments are put together.
    pub(crate) async fn with(this: Option<&Finished>, mut more: Vec<Record>, shelf: &dyn Shelf) -> Result<Finished> {
        more.sort_unstable_by_key(|r| r.split);
        let mut segments = this.map_or_else(Vec::new, |f| f.segments.clone());
        if let Some(loose) = this.filter(|f| f.segments.is_empty()) {
            more = merged(&loose.records, &more, greater);
        }
        let tier = |records: u64| records.max(1).ilog(MERGED as u64);
        let mut added = more.clone();
        loop {
            let before = segments.iter().rev().take_while(|s| tier(s.1) <= tier(added.len() as u64)).count();
            if before + 1 < MERGED {
                break;
            }
            for segment in segments.drain(segments.len() - before..) {
                let one = Finished { records: Vec::new(), segments: vec![segment], pending: true }.load(shelf).await?;
                added = merged(&one.records, &added, greater);
            }
        }
        let bytes: Vec<u8> = added.iter().flat_map(|r| r.to_bytes()).collect();
        let name = name_of(&bytes);
        segments.push(Segment(name.clone(), added.len() as u64));
        shelf.put(&name, Bytes::from(bytes)).await?;
        let records = merged(this.map_or(&[], |f| &f.records), &more, greater);
        Ok(Finished { records, segments, pending: false })
    }
}

fn name_of(bytes: &[u8]) -> String {
    Hex(&Sha256::digest(bytes)[..16]).to_string()
}

/// None: these are no records.
fn of_bytes(bytes: &[u8]) -> Option<Vec<Record>> {
    let chunks = bytes.chunks_exact(RECORD_BYTES);
    if !chunks.remainder().is_empty() {
        return None;
    }
    let records: Vec<Record> = chunks.map(Record::from_bytes).collect();
    records.windows(2).all(|w| w[0].split < w[1].split).then_some(records)
}

pub(super) type Shared = Option<Arc<Finished>>;

fn same(a: &Shared, b: &Shared) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// As one of the two, when it is one of them: what is kept already need not be written again.
fn shared(records: Vec<Record>, a: &Shared, b: &Shared) -> Shared {
    if records.is_empty() {
        return None;
    }
    let known = [b, a].into_iter().flatten().find(|f| f.records == records);
    Some(known.cloned().unwrap_or_else(|| Arc::new(Finished { records, segments: Vec::new(), pending: false })))
}

fn records(of: &Shared) -> &[Record] {
    of.as_ref().map_or(&[], |f| &f.records)
}

/// Per split the greater.
pub(super) fn max(a: &Shared, b: &Shared) -> Shared {
    if same(a, b) { a.clone() } else { shared(merged(records(a), records(b), greater), a, b) }
}

/// `b`, and what only `a` knows.
pub(super) fn overlaid(a: &Shared, b: &Shared) -> Shared {
    if same(a, b) { a.clone() } else { shared(merged(records(a), records(b), |_, b| b), a, b) }
}

/// What both know, per split the smaller.
pub(super) fn min(a: &Shared, b: &Shared) -> Shared {
    if same(a, b) {
        return a.clone();
    }
    let (Some(left), Some(right)) = (a, b) else { return None };
    let both = left.records.iter().filter_map(|r| {
        let other = right.find(r.split)?;
        Some(if offset_of(other) < offset_of(r) { *other } else { *r })
    });
    shared(both.collect(), a, b)
}
