//! What every [`Source`] promises, as checks to run on your own.
//!
//! Give [`check`] a closure that makes a new source over the same data each time, as a new process would. Nothing panics: the first broken
//! promise comes back as a sentence. A source that never ends is read until it was idle three times, or to [`ENOUGH`] records.
//!
//! ```
//! # use lakeward::{Env, source::{GenerateOptions, GenerateSource, conformance}};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let make = || GenerateSource::new(Env::real(), GenerateOptions { rows: Some(100), ..Default::default() });
//! conformance::check(&Env::real(), make).await.unwrap();
//! # }
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;

use super::{Offsets, Polled, Records, Resolved, Rows, Source};
use crate::env::Env;
use crate::error::Result;

/// So many records are read of a source that does not end.
pub const ENOUGH: usize = 20_000;
/// How long a poll may wait in these checks, and how much later than that it may come back.
const PATIENCE: Duration = Duration::from_millis(100);
const LATENESS: Duration = Duration::from_secs(2);
/// So many positions are tried, spread over all.
const POSITIONS: usize = 64;

/// A broken promise, in words.
pub type Broken = String;

/// One record or row, with everything that must be the same when it is read again.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A record that is to be decoded.
    Record {
        /// Its bytes.
        value: Bytes,
        /// Its key.
        key: Option<Bytes>,
        /// Milliseconds since 1970-01-01 UTC.
        timestamp: Option<i64>,
        /// Its headers.
        headers: Vec<(String, Option<Bytes>)>,
        /// Its line number.
        line: Option<u64>,
        /// The columns of its file's header.
        header: Option<Vec<String>>,
        /// It could not be taken apart.
        fault: bool,
    },
    /// A row that is columnar already.
    Row(RecordBatch),
}

/// Everything one source gave, poll by poll.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// `(split, offset, item)` in the order they came.
    pub items: Vec<(String, u64, Item)>,
    /// After each poll that gave something: how many items there were by then, and the source's position.
    pub positions: Vec<(usize, Offsets)>,
    /// It said `End`.
    pub ended: bool,
}

impl Reading {
    /// How many records to read again: to the end, when that was seen.
    fn enough(&self, from: usize) -> usize {
        if self.ended { usize::MAX } else { self.items.len() - from }
    }

    /// Is `again` what came here after the first `from` items? Splits may be mixed differently; what had no end may go on differently far.
    fn same(&self, from: usize, again: &Reading, when: &str) -> Result<(), Broken> {
        let expected = &self.items[from..];
        if again.items.len() < expected.len() || (self.ended && again.items.len() > expected.len()) {
            return Err(format!("{when}: {} records, but there were {}", again.items.len(), expected.len()));
        }
        let (expected, found) = (by_split(expected), by_split(&again.items));
        for split in expected.keys().chain(found.keys()) {
            let (a, b) = (expected.get(split).map_or(&[][..], Vec::as_slice), found.get(split).map_or(&[][..], Vec::as_slice));
            let length = if self.ended { a.len().max(b.len()) } else { a.len().min(b.len()) };
            if let Some(n) = (0..length).find(|n| a.get(*n) != b.get(*n)) {
                return Err(format!("split {split}, {when}: record {n} is {:?}, but was {:?}", b.get(n), a.get(n)));
            }
        }
        Ok(())
    }
}

fn by_split(items: &[(String, u64, Item)]) -> BTreeMap<&str, Vec<(u64, &Item)>> {
    let mut map: BTreeMap<&str, Vec<(u64, &Item)>> = BTreeMap::new();
    for (split, offset, item) in items {
        map.entry(split).or_default().push((*offset, item));
    }
    map
}

/// Runs all checks. Sources that are not [`Source::replayable`] are spared those that read twice.
///
/// # Errors
/// The first broken promise, or the source's own error.
pub async fn check<S: Source>(env: &Env, make: impl Fn() -> Result<S>) -> Result<(), Broken> {
    idle_keeps_the_deadline(env, &make).await?;
    let (mut source, resolved) = start(&make, None).await?;
    let straight = read(env, &mut source, ENOUGH).await?;
    offsets_rise(&straight)?;
    positions_follow(&straight, &resolved)?;
    end_is_sticky(env, &mut source, &straight).await?;
    if !make().map_err(|e| e.to_string())?.replayable() {
        return Ok(());
    }
    replay_is_the_same(env, &make, &resolved, &straight).await?;
    every_position_continues(env, &make, &resolved, &straight).await?;
    from_goes_on(env, &make, &straight).await
}

/// Offsets rise within each split.
///
/// # Errors
/// Names the split and the offsets.
pub fn offsets_rise(reading: &Reading) -> Result<(), Broken> {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for (split, offset, _) in &reading.items {
        if let Some(before) = last.insert(split, *offset)
            && before >= *offset
        {
            return Err(format!("offsets must rise: split {split} gave {offset} after {before}"));
        }
    }
    Ok(())
}

/// After each poll the position is above everything given and not above anything still to come; between start and stop, and never falling.
///
/// # Errors
/// Names the split and the offsets.
pub fn positions_follow(reading: &Reading, resolved: &Resolved) -> Result<(), Broken> {
    let mut before = resolved.start.clone();
    for (count, position) in &reading.positions {
        if !position.covers(&before) {
            return Err(format!("position() fell: {position:?} after {before:?}"));
        }
        for (n, (split, offset, _)) in reading.items.iter().enumerate() {
            let given = n < *count;
            let at = position.offset(split);
            if given != (*offset < at) {
                let state = if given { "was given" } else { "was not given yet" };
                return Err(format!(
                    "position() of split {split} is {at} after {count} records, but its record at offset {offset} {state}"
                ));
            }
        }
        before = position.clone();
    }
    match (&resolved.stop, reading.ended, reading.positions.last()) {
        (Some(stop), true, Some((_, end))) if !end.covers(stop) => {
            let left = stop.0.iter().find(|(split, p)| !end.covers(&Offsets::from([((*split).clone(), (*p).clone())])));
            Err(format!("the source ended before its stop: {left:?}, position {end:?}"))
        }
        _ => Ok(()),
    }
}

/// After `End` comes `End`, and the position stays.
///
/// # Errors
/// Says what came instead.
pub async fn end_is_sticky(env: &Env, source: &mut impl Source, reading: &Reading) -> Result<(), Broken> {
    if !reading.ended {
        return Ok(());
    }
    let before = source.position();
    for _ in 0..3 {
        match poll(env, source).await? {
            Polled::End => {}
            other => return Err(format!("after End came {}", name(&other))),
        }
    }
    if source.position() != before {
        return Err("position() moved after End".into());
    }
    Ok(())
}

/// A poll comes back about when its deadline is reached, and says `Idle` only then.
///
/// # Errors
/// Says how long it took.
pub async fn idle_keeps_the_deadline<S: Source>(env: &Env, make: &impl Fn() -> Result<S>) -> Result<(), Broken> {
    let (mut source, _) = start(make, None).await?;
    for _ in 0..8 {
        let before = env.monotonic();
        let polled = poll(env, &mut source).await?;
        let took = env.monotonic().saturating_sub(before);
        if took > PATIENCE + LATENESS {
            return Err(format!("a poll with {PATIENCE:?} to its deadline took {took:?}"));
        }
        if matches!(polled, Polled::Idle) && took < PATIENCE / 2 {
            return Err(format!("Idle came after {took:?}, long before the deadline of {PATIENCE:?}"));
        }
    }
    Ok(())
}

/// A second source over the same data gives the same records at the same offsets.
///
/// # Errors
/// Names the first difference.
pub async fn replay_is_the_same<S: Source>(
    env: &Env,
    make: &impl Fn() -> Result<S>,
    resolved: &Resolved,
    straight: &Reading,
) -> Result<(), Broken> {
    let mut source = make().map_err(|e| e.to_string())?;
    seek(&mut source, &resolved.start, resolved).await?;
    let again = read(env, &mut source, straight.enough(0)).await?;
    straight.same(0, &again, "read a second time")
}

/// From every position that was given, also after it went through JSON as in a checkpoint, a new source gives exactly what is left.
///
/// # Errors
/// Names the position and the first difference.
pub async fn every_position_continues<S: Source>(
    env: &Env,
    make: &impl Fn() -> Result<S>,
    resolved: &Resolved,
    straight: &Reading,
) -> Result<(), Broken> {
    let step = straight.positions.len().div_ceil(POSITIONS).max(1);
    let last = straight.positions.len().saturating_sub(1);
    for (n, (count, position)) in straight.positions.iter().enumerate().filter(|(n, _)| n % step == 0 || *n == last) {
        let text = serde_json::to_string(position).map_err(|e| e.to_string())?;
        let stored: Offsets = serde_json::from_str(&text).map_err(|e| format!("position() does not survive JSON: {e}"))?;
        let mut source = make().map_err(|e| e.to_string())?;
        seek(&mut source, &stored, resolved).await?;
        if !source.position().covers(position) || !position.covers(&source.position()) {
            return Err(format!("after seek the position is {:?}, not {position:?}", source.position()));
        }
        let rest = read(env, &mut source, straight.enough(*count)).await?;
        straight.same(*count, &rest, &format!("after a seek to position {n}, {text}"))?;
    }
    Ok(())
}

/// A new lineage `from` where an earlier one stood begins there, and has nothing left when that one had ended.
///
/// # Errors
/// Names the first difference.
pub async fn from_goes_on<S: Source>(env: &Env, make: &impl Fn() -> Result<S>, straight: &Reading) -> Result<(), Broken> {
    let Some((_, end)) = straight.positions.last() else { return Ok(()) };
    let (count, middle) = &straight.positions[straight.positions.len() / 2];
    let (mut source, resolved) = start(make, Some(middle)).await?;
    if !resolved.start.covers(middle) {
        return Err(format!("resolve(from) starts before `from`: {:?}, from {middle:?}", resolved.start));
    }
    let rest = read(env, &mut source, straight.enough(*count)).await?;
    straight.same(*count, &rest, "in a lineage that begins where an earlier one stood")?;
    if straight.ended {
        let (mut source, resolved) = start(make, Some(end)).await?;
        if resolved.stop.as_ref().is_some_and(|stop| !resolved.start.covers(stop)) {
            return Err(format!("after everything was read, resolve(from) finds more to read: {resolved:?}"));
        }
        let more = read(env, &mut source, 1).await?;
        if !more.items.is_empty() {
            return Err(format!("after everything was read, a new lineage gave {:?}", more.items[0]));
        }
    }
    Ok(())
}

/// Makes a source, resolves and seeks, as the start of a lineage does.
async fn start<S: Source>(make: &impl Fn() -> Result<S>, from: Option<&Offsets>) -> Result<(S, Resolved), Broken> {
    let mut source = make().map_err(|e| e.to_string())?;
    let resolved = source.resolve(from).await.map_err(|e| format!("resolve failed: {e}"))?;
    seek(&mut source, &resolved.start, &resolved).await?;
    Ok((source, resolved))
}

async fn seek(source: &mut impl Source, offsets: &Offsets, resolved: &Resolved) -> Result<(), Broken> {
    source.seek(offsets, resolved.stop.as_ref()).await.map_err(|e| format!("seek to {offsets:?} failed: {e}"))
}

async fn poll(env: &Env, source: &mut impl Source) -> Result<Polled, Broken> {
    source.poll(env.deadline(PATIENCE)).await.map_err(|e| format!("poll failed: {e}"))
}

/// Reads until the end, until at least `enough` items came, or until nothing came three times.
///
/// # Errors
/// The source's own error.
pub async fn read(env: &Env, source: &mut impl Source, enough: usize) -> Result<Reading, Broken> {
    let mut reading = Reading::default();
    let mut idle = 0;
    while idle < 3 && reading.items.len() < enough {
        match poll(env, source).await? {
            Polled::Records(records) => {
                idle = 0;
                take_records(&mut reading, &records)?;
            }
            Polled::Batch(rows) => {
                idle = 0;
                take_rows(&mut reading, &rows);
            }
            Polled::Idle => idle += 1,
            Polled::End => {
                reading.ended = true;
                if let Some((count, position)) = reading.positions.last_mut()
                    && *count == reading.items.len()
                {
                    *position = source.position();
                }
                break;
            }
        }
        if idle == 0 {
            reading.positions.push((reading.items.len(), source.position()));
        }
    }
    Ok(reading)
}

fn take_records(reading: &mut Reading, records: &Records) -> Result<(), Broken> {
    let n = records.len();
    let fits = |len: usize| len == 0 || len == n;
    if n == 0
        || records.offsets.len() != n
        || !fits(records.lines.len())
        || !fits(records.timestamps.len())
        || !fits(records.keys.len())
        || !fits(records.headers.len())
    {
        return Err(format!("Records must hold something, and as much of everything: {n} ends, {} offsets", records.offsets.len()));
    }
    for i in 0..n {
        let item = Item::Record {
            value: Bytes::copy_from_slice(records.value(i)),
            key: records.keys.get(i).cloned().flatten(),
            timestamp: records.timestamps.get(i).copied(),
            headers: records.headers.get(i).cloned().unwrap_or_default(),
            line: records.lines.get(i).copied(),
            header: records.origin.header.as_deref().cloned(),
            fault: records.faults.iter().any(|(at, _)| *at == i),
        };
        reading.items.push((records.origin.split.clone(), records.offsets[i], item));
    }
    Ok(())
}

fn take_rows(reading: &mut Reading, rows: &Rows) {
    for i in 0..rows.batch.num_rows() {
        reading.items.push((rows.origin.split.clone(), rows.first + i as u64, Item::Row(rows.batch.slice(i, 1))));
    }
}

fn name(polled: &Polled) -> &'static str {
    match polled {
        Polled::Records(_) => "Records",
        Polled::Batch(_) => "Batch",
        Polled::Idle => "Idle",
        Polled::End => "End",
    }
}
