//! Made-up orders: something to look at without any input, and the same rows every time.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;

use super::{Offsets, Origin, Polled, Position, Records, Resolved, Source};
use crate::env::{Deadline, Env};
use crate::error::{Error, Result};

/// The exit code of the process that `fail_at` ends.
pub const FAIL_AT_EXIT: i32 = 86;
/// The one split.
const SPLIT: &str = "generate";
/// At most so many rows a poll.
const CHUNK: u64 = 4096;
/// 2026-01-01T00:00:00Z, seconds since 1970.
const FIRST_SECOND: i64 = 1_767_225_600;

/// What a [`GenerateSource`] makes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerateOptions {
    /// How many rows; none: it never ends.
    pub rows: Option<u64>,
    /// At most so many rows a second, counted from the first poll of this process; none: as fast as they are taken.
    pub rows_per_second: Option<f64>,
    /// Exits the process, with [`FAIL_AT_EXIT`], instead of giving the row with this id; the rows before it were given by earlier polls.
    /// Only in the process that began the lineage, which is the one that called [`Source::resolve`]: the next one gets past it.
    pub fail_at: Option<u64>,
    /// At most so many rows a poll; none: 4096.
    pub chunk_rows: Option<u64>,
}

/// JSON records `{"id", "customer", "country", "amount", "quantity", "status", "created_at", "note"}`: `id` from 1, `amount` a number with
/// two decimals, `created_at` RFC 3339 and rising, `note` sometimes null. Row `id` is the same in every run; its offset is `id - 1`.
pub struct GenerateSource {
    env: Env,
    options: GenerateOptions,
    origin: Arc<Origin>,
    next: u64,
    stop: Option<u64>,
    /// When the first poll was, and the next row then.
    started: Option<(Duration, u64)>,
    began_the_lineage: bool,
}

impl GenerateSource {
    /// `Invalid` when `rows_per_second` is not greater than 0, or `fail_at` is 0.
    pub fn new(env: Env, options: GenerateOptions) -> Result<Self> {
        if options.rows_per_second.is_some_and(|r| !(r.is_finite() && r > 0.0)) {
            return Err(Error::invalid("rows_per_second must be greater than 0")
                .at("source.generate.rows_per_second")
                .hint("leave it out for no limit"));
        }
        if options.fail_at == Some(0) {
            return Err(Error::invalid("there is no row 0 to fail at").at("source.generate.fail_at").hint("ids begin at 1"));
        }
        let origin = Arc::new(Origin { split: SPLIT.into(), name: SPLIT.into(), partition: None, header: None });
        let stop = options.rows;
        Ok(GenerateSource { env, options, origin, next: 0, stop, started: None, began_the_lineage: false })
    }

    /// The first row that may not be given now, as far as the rate goes; and how long until that changes.
    fn due(&mut self) -> (u64, Duration) {
        let Some(rate) = self.options.rows_per_second else { return (u64::MAX, Duration::ZERO) };
        let now = self.env.monotonic();
        let (start, first) = *self.started.get_or_insert((now, self.next));
        let gone = ((now - start).as_secs_f64() * rate) as u64;
        let next = Duration::try_from_secs_f64((gone + 1) as f64 / rate).unwrap_or(Duration::MAX);
        (first.saturating_add(gone), (start.saturating_add(next)).saturating_sub(now).max(Duration::from_micros(100)))
    }

    fn make(&mut self, end: u64) -> Records {
        let mut text = String::new();
        let mut out = Records::none(self.origin.clone());
        for offset in self.next..end {
            row(&mut text, offset + 1);
            out.ends.push(text.len());
            out.offsets.push(offset);
        }
        out.bytes = Bytes::from(text);
        self.next = end;
        out
    }
}

/// One row, as JSON.
fn row(out: &mut String, id: u64) {
    const PEOPLE: [&str; 8] = ["Ada", "Bjørn", "Chiara", "Dmitri", "Émile", "Fatima", "Goro", "李雷"];
    const COUNTRIES: [&str; 6] = ["DE", "FR", "IT", "JP", "NO", "US"];
    const STATUS: [&str; 4] = ["new", "paid", "shipped", "returned"];
    let r = scatter(id);
    let pick = |shift: u32, n: usize| ((r >> shift) & 0xffff) as usize % n;
    let cents = (r >> 20) % 50_000;
    // Once a minute at first sight, never twice in the same millisecond: rising.
    let ms = i64::try_from(id).unwrap_or(i64::MAX).saturating_mul(61_001);
    let at = DateTime::from_timestamp_millis((FIRST_SECOND * 1000).saturating_add(ms)).unwrap_or_default();
    let (name, country, status) = (PEOPLE[pick(0, 8)], COUNTRIES[pick(8, 6)], STATUS[pick(16, 4)]);
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        r#"{{"id":{id},"customer":"{name}","country":"{country}","amount":{}.{:02},"quantity":{},"status":"{status}","created_at":"{}","note":"#,
        cents / 100,
        cents % 100,
        1 + pick(32, 9),
        at.format("%Y-%m-%dT%H:%M:%S%.3fZ"),
    );
    out.push_str(match pick(44, 4) {
        0 => r#""gift, wrap it""#,
        1 => r#""ring twice – 2. Stock ☕""#,
        _ => "null",
    });
    out.push('}');
}

/// Spreads neighbouring numbers over all 64 bits (the finaliser of MurmurHash3).
fn scatter(id: u64) -> u64 {
    let mut x = id.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        x = (x ^ (x >> 33)).wrapping_mul(factor);
    }
    x ^ (x >> 33)
}

#[async_trait]
impl Source for GenerateSource {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        self.began_the_lineage = true;
        let start = from.cloned().unwrap_or_default();
        let stop = self.options.rows.map(|rows| at(rows.max(start.offset(SPLIT))));
        Ok(Resolved { start, stop })
    }

    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        self.next = offsets.offset(SPLIT);
        self.stop = stop.map(|s| s.offset(SPLIT)).or(self.options.rows);
        self.started = None;
        Ok(())
    }

    async fn poll(&mut self, deadline: Deadline) -> Result<Polled> {
        let mut end = self.next.saturating_add(self.options.chunk_rows.unwrap_or(CHUNK).max(1)).min(self.stop.unwrap_or(u64::MAX));
        if end <= self.next {
            return Ok(Polled::End);
        }
        if let Some(id) = self.options.fail_at.filter(|id| self.began_the_lineage && *id > self.next) {
            end = end.min(id - 1);
        }
        loop {
            let (due, wait) = self.due();
            if due > self.next && end == self.next {
                die(end + 1);
            }
            if due > self.next {
                return Ok(Polled::Records(self.make(end.min(due))));
            }
            match self.env.left(deadline) {
                None => return Ok(Polled::Idle),
                Some(left) => self.env.sleep(wait.min(left)).await,
            }
        }
    }

    fn position(&self) -> Offsets {
        at(self.next)
    }
}

/// Ends the process as a crash does: no destructor, no flush, no checkpoint.
fn die(id: u64) {
    tracing::error!("generate: fail_at {id}: this process dies now, on purpose");
    std::process::exit(FAIL_AT_EXIT);
}

fn at(offset: u64) -> Offsets {
    Offsets::from([(SPLIT.to_owned(), Position { offset, note: None })])
}
