//! JSON records: one object each.
//!
//! A record is scanned once; only the places of the mapped values are noted, and then converted column by column. Records of a
//! stream mostly have the same keys in the same order, written the same way, so each key is first compared with the one that
//! followed the last time.
//!
//! * null, an absent key, `"null"` and `""` are four different things: the first two are NULL (and refused, with different words,
//!   by a NOT NULL column), the others are texts.
//! * A key that occurs twice: the last one counts, as with Jackson, Python and serde_json.
//! * Where a path goes through null or an absent key, there is no value; where it goes through anything else that is no object,
//!   the record is refused.
//! * A record that is not JSON through its end, not an object, or not UTF-8 is refused as a whole, whatever its values are.
//!   A byte order mark before it does not matter.

use std::collections::HashMap;

use super::cast::{Value, cut};
use super::mapping::{Mapping, OnNewField};
use super::rows::{BLOCK, Block, Kind, Rows, Slot, Syntax, chunk};
use super::scan::{Scanner, Wrong, unescape};
use super::{Decoded, Decoder, Stage};
use crate::error::Result;
use crate::source::Records;

/// Decodes JSON records, see the module.
pub struct JsonDecoder {
    rows: Rows,
    width: usize,
    shape: Vec<Node>,
    slots: Vec<Slot>,
}

/// One object that columns reach into.
#[derive(Default)]
struct Node {
    /// Keys that mean something.
    targets: HashMap<Vec<u8>, usize>,
    /// What they mean.
    wanted: Vec<Target>,
    /// Keys in the order in which they were first seen.
    plan: Vec<Planned>,
    /// Key as written -> place in `plan`.
    index: HashMap<Vec<u8>, usize>,
}

/// What a key means.
#[derive(Default)]
struct Target {
    /// Slots that take the value.
    slots: Vec<usize>,
    /// The object below, when columns reach into it.
    child: Option<usize>,
    /// All slots that are filled from below.
    below: Vec<usize>,
}

/// A key that was seen.
struct Planned {
    /// As written, from behind its opening quote to the value.
    written: Vec<u8>,
    target: Option<usize>,
}

/// So many keys of one object are remembered; more come only from records that use keys as data.
const PLANNED: usize = 1024;

/// A field that no column takes; where its key is.
type NewField = Option<(usize, usize)>;

impl JsonDecoder {
    /// For the rows of one sink.
    pub fn new(mapping: &Mapping) -> Self {
        let rows = Rows::new(mapping);
        let mut shape = vec![Node::default()];
        let paths = rows.paths();
        for (slot, (path, _)) in paths.iter().enumerate() {
            let mut node = 0;
            for (depth, name) in path.iter().enumerate() {
                let next = shape.len();
                let here = &mut shape[node];
                let id = *here.targets.entry(name.clone().into_bytes()).or_insert(here.wanted.len());
                if id == here.wanted.len() {
                    here.wanted.push(Target::default());
                }
                let target = &mut here.wanted[id];
                if depth + 1 == path.len() {
                    target.slots.push(slot);
                    break;
                }
                target.below.push(slot);
                node = *target.child.get_or_insert(next);
                if node == next {
                    shape.push(Node::default());
                }
            }
        }
        JsonDecoder { width: paths.len(), rows, shape, slots: Vec::new() }
    }

    /// Notes where the values of record `start..end` are; the reason when it is no record.
    fn scan(&mut self, bytes: &[u8], start: usize, end: usize, first_slot: usize) -> std::result::Result<NewField, String> {
        let bytes = &bytes[..end];
        let mut scanner = Scanner::new(bytes, start);
        if scanner.rest().starts_with(b"\xEF\xBB\xBF") {
            scanner.at += 3;
        }
        scanner.blanks();
        let mut new_field = None;
        let slots = &mut self.slots[first_slot..];
        let done = match scanner.peek() {
            b'{' => object(&mut self.shape, 0, &mut scanner, slots, &mut new_field),
            _ => other_than_object(&mut scanner),
        };
        let done = done.and_then(|()| {
            scanner.blanks();
            if scanner.at_end() { Ok(()) } else { Err("something follows the object") }
        });
        if done.is_ok() && !scanner.beyond_ascii {
            return Ok(new_field);
        }
        if let Err(e) = std::str::from_utf8(&bytes[start..]) {
            return Err(format!("not valid UTF-8 at byte {}", e.valid_up_to()));
        }
        done.map(|()| new_field).map_err(|why| {
            let near = &bytes[scanner.at.min(end)..];
            let near = if near.is_empty() { String::new() } else { format!(" (at {})", cut(&near[..near.len().min(20)])) };
            if why == NOT_AN_OBJECT { why.to_owned() } else { format!("not valid JSON at byte {}: {why}{near}", scanner.at - start) }
        })
    }
}

const NOT_AN_OBJECT: &str = "the record is JSON, but not an object";

fn other_than_object(scanner: &mut Scanner<'_>) -> std::result::Result<(), Wrong> {
    if scanner.at_end() {
        return Err("the record is empty");
    }
    scanner.value(0)?;
    scanner.blanks();
    if scanner.at_end() { Err(NOT_AN_OBJECT) } else { Err("something follows the value") }
}

/// Passes over an object that columns reach into.
fn object(
    shape: &mut [Node],
    node: usize,
    s: &mut Scanner<'_>,
    slots: &mut [Slot],
    new_field: &mut NewField,
) -> std::result::Result<(), Wrong> {
    s.at += 1;
    s.blanks();
    if s.peek() == b'}' {
        s.at += 1;
        return Ok(());
    }
    let mut cursor = 0;
    let mut taken = Some((0, 0));
    loop {
        let key = s.at;
        let target = shape[node].key(s, &mut cursor)?;
        let Some(target) = target else {
            if new_field.is_none() {
                *new_field = Some((key, s.at));
            }
            s.value(1)?;
            if s.next(b'}')? {
                return Ok(());
            }
            continue;
        };
        let (kind, start, end) = match shape[node].wanted[target].child {
            None => s.value(1)?,
            Some(child) => {
                let start = s.at;
                let below = s.peek() == b'{';
                // also takes back what an earlier object under the same key left
                for slot in &shape[node].wanted[target].below {
                    slots[*slot] = Slot::default();
                }
                if below {
                    // a column that takes the whole object takes all of its fields
                    let all = !shape[node].wanted[target].slots.is_empty();
                    object(shape, child, s, slots, if all { &mut taken } else { &mut *new_field })?;
                    (Kind::Json, start, s.at)
                } else {
                    let value = s.value(1)?;
                    let kind = if value.0 == Kind::Null { Kind::Null } else { Kind::NotObject };
                    for slot in &shape[node].wanted[target].below {
                        slots[*slot] = place(kind, start, s.at);
                    }
                    value
                }
            }
        };
        for slot in &shape[node].wanted[target].slots {
            slots[*slot] = place(kind, start, end);
        }
        if s.next(b'}')? {
            return Ok(());
        }
    }
}

/// A slot; a chunk is shorter than 2 GiB, see [`chunk`], so nothing is cut off.
#[inline]
fn place(kind: Kind, start: usize, end: usize) -> Slot {
    Slot { start: start as u32, end: end as u32, kind }
}

impl Node {
    /// Passes over a key, the colon and the blanks around it; what the key means.
    #[inline]
    fn key(&mut self, s: &mut Scanner<'_>, cursor: &mut usize) -> std::result::Result<Option<usize>, Wrong> {
        if s.peek() == b'"' {
            // one key may have been left out
            for ahead in 0..2 {
                if let Some(planned) = self.plan.get(*cursor + ahead)
                    && s.rest()[1..].starts_with(&planned.written)
                {
                    s.at += 1 + planned.written.len();
                    s.blanks();
                    *cursor += ahead + 1;
                    return Ok(planned.target);
                }
            }
        }
        self.unplanned(s, cursor)
    }

    #[inline(never)]
    fn unplanned(&mut self, s: &mut Scanner<'_>, cursor: &mut usize) -> std::result::Result<Option<usize>, Wrong> {
        let from = s.rest();
        let (start, end, escapes) = s.key()?;
        s.colon()?;
        let written = &from[1..s.at + 1 - start];
        let key = &written[..end - start];
        if let Some(place) = self.index.get(key) {
            *cursor = place + 1;
            return Ok(self.plan[*place].target);
        }
        let mut plain = Vec::new();
        let known = if escapes { unescape(key, &mut plain).ok().and_then(|()| self.targets.get(&plain)) } else { self.targets.get(key) };
        let target = known.copied();
        // a key that is not UTF-8 must be looked at each time: its records are refused
        if self.plan.len() < PLANNED && std::str::from_utf8(key).is_ok() {
            *cursor = self.plan.len() + 1;
            self.index.insert(key.to_vec(), self.plan.len());
            self.plan.push(Planned { written: written.to_vec(), target });
        }
        Ok(target)
    }
}

struct Json;

impl Syntax for Json {
    fn unescape<'s>(&self, text: &[u8], scratch: &'s mut Vec<u8>) -> Value<'s> {
        match unescape(text, scratch) {
            Ok(()) => Value::Text(scratch),
            Err(why) => Value::Broken(why),
        }
    }
    fn missing(&self, kind: Kind) -> &'static str {
        if kind == Kind::Null { "the record has null there" } else { "the record has no such key" }
    }
    fn json_in_text(&self) -> bool {
        false
    }
}

impl Decoder for JsonDecoder {
    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        let bytes = chunk(records)?;
        let mut bad = self.rows.start(records);
        let mut start = 0;
        for first in (0..records.len()).step_by(BLOCK) {
            let rows = BLOCK.min(records.len() - first);
            self.slots.clear();
            self.slots.resize(rows * self.width, Slot::default());
            for row in 0..rows {
                let end = records.ends[first + row] - records.start;
                let at = row * self.width;
                if bad.is(first + row) {
                    start = end;
                    continue;
                }
                match self.scan(bytes, start, end, at) {
                    Ok(Some((key, value))) if self.rows.mapping.on_new_field == OnNewField::Reject => {
                        let name = String::from_utf8_lossy(&bytes[key..value]);
                        let name = name.trim_end().trim_end_matches(':').trim_end().trim_matches('"').to_owned();
                        let error = || format!("{} is no column, and on_new_field is reject", cut(name.as_bytes()));
                        bad.report(first + row, Stage::Cast, Some(&name), error);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        // half a record is no record
                        self.slots[at..at + self.width].fill(Slot::default());
                        bad.report(first + row, Stage::Decode, None, || error);
                    }
                }
                start = end;
            }
            self.rows.block(&Block { syntax: &Json, bytes, slots: &self.slots, width: self.width, rows, first }, &mut bad);
        }
        self.rows.finish(records, bad)
    }
}
