//! A simulated topic, with what Kafka has and files have not: several splits read by turns; offsets without records, also at a split's end,
//! so that a position moves and no row comes; splits that are found while it runs; notes that must come back; an end that is the end as of
//! the start, and none at all, when only a stop request ends the run.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::json;

use crate::env::Deadline;
use crate::error::{Error, Result};
use crate::sim::source::{Told, text};
use crate::sim::world::Alone;
use crate::source::{Offsets, Origin, Polled, Position, Records, Resolved, Source};
use crate::stream::coordinator::Stop;

/// When a life that reads a topic is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// At the end that the start saw (`stop: end`).
    End,
    /// Never (`stop: never`): when everything was read and nothing came for a while, somebody asks it to stop. All splits but the first
    /// are found one by one, each after so many polls.
    Asked {
        /// See above.
        found_after: u32,
    },
}

/// The offset of record `i` of a split: each is followed by the mark of its transaction, every second one by one more.
pub fn offset_of(i: u64) -> u64 {
    2 * i + i / 2
}

/// The offset after the last mark of a split of `n` records. One that has none has had a transaction that was aborted.
fn end_of(n: u64) -> u64 {
    if n == 0 { 1 } else { offset_of(n - 1) + 2 }
}

/// Where a split stands.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    /// Offset of what comes next.
    offset: u64,
    /// Below it nothing is new: it was sought to this, and may have begun earlier.
    sought: u64,
    /// The offset not to read any more.
    stop: u64,
}

/// What one life reads.
pub struct Topic {
    input: Vec<(String, u64)>,
    chunk: u64,
    slow: Duration,
    until: Until,
    idle: u32,
    clock: Arc<Alone>,
    told: Told,
    stop: Stop,
    early: bool,
    at: BTreeMap<String, At>,
    /// Polls since a split was found.
    polls: u32,
    /// The split that was read last.
    last: Option<String>,
}

/// How [`Topic`] is read.
pub struct Reading {
    /// Records in one poll.
    pub chunk: u64,
    /// How long each poll takes.
    pub slow: Duration,
    /// Polls that give nothing before it is over.
    pub idle: u32,
    /// After a seek the first chunk begins one record earlier, as a batch of a broker does.
    pub early: bool,
}

impl Topic {
    /// Splits and how many records each has. `stop`: what a person asks to stop with; `told`: what it is told to be committed.
    pub fn new(input: Vec<(String, u64)>, until: Until, reading: Reading, clock: Arc<Alone>, told: Told, stop: Stop) -> Topic {
        let Reading { chunk, slow, idle, early } = reading;
        Topic { input, chunk, slow, until, idle, clock, told, stop, early, at: BTreeMap::new(), polls: 0, last: None }
    }

    fn note() -> serde_json::Value {
        json!({"topic": "id-1"})
    }
    fn position_at(offset: u64) -> Position {
        Position { offset, note: Some(Self::note()) }
    }
    fn records(&self, split: &str) -> u64 {
        self.input.iter().find(|(s, _)| s == split).map_or(0, |(_, n)| *n)
    }

    /// One more split is found now and then.
    fn look_for_splits(&mut self) {
        let Until::Asked { found_after } = self.until else { return };
        self.polls += 1;
        if self.polls < found_after {
            return;
        }
        self.polls = 0;
        let next = self.input.iter().find(|(split, _)| !self.at.contains_key(split));
        if let Some((split, n)) = next.cloned() {
            self.at.insert(split, At { stop: end_of(n), ..At::default() });
        }
    }

    /// The next split by turns that has something before its stop.
    fn turn(&self) -> Option<(String, At)> {
        let open = |(_, at): &(&String, &At)| at.offset < at.stop;
        let after = self.at.iter().filter(|(split, _)| self.last.as_ref().is_none_or(|last| *split > last));
        let next = after.clone().find(open).or_else(|| self.at.iter().find(open));
        next.map(|(split, at)| (split.clone(), *at))
    }
}

#[async_trait]
impl Source for Topic {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        let begin = if self.until == Until::End { self.input.len() } else { 1 };
        let start: Offsets = self.input.iter().take(begin).map(|(s, _)| (s.clone(), Self::position_at(0))).collect();
        let ends = || self.input.iter().map(|(s, n)| (s.clone(), Self::position_at(end_of(*n)))).collect();
        let stop = (self.until == Until::End).then(ends);
        Ok(Resolved { start: from.map_or(start.clone(), |from| start.overlaid(from)), stop })
    }

    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        for (split, position) in &offsets.0 {
            if position.note != Some(Self::note()) {
                return Err(Error::data(format!("{split} has the note {:?}: another topic", position.note)).at(split));
            }
        }
        for (n, (split, records)) in self.input.iter().enumerate() {
            let known = self.until == Until::End || n == 0 || offsets.position(split).is_some();
            if !known {
                continue;
            }
            let sought = offsets.offset(split);
            let mut offset = sought;
            let stop = stop.map_or(end_of(*records), |stop| stop.offset(split).min(end_of(*records)));
            let below = (0..*records).rfind(|i| offset_of(*i) < offset);
            if let (true, Some(record)) = (self.early && offset < stop, below) {
                offset = offset_of(record);
            }
            self.at.insert(split.clone(), At { offset, sought, stop });
        }
        Ok(())
    }

    async fn poll(&mut self, _: Deadline) -> Result<Polled> {
        self.clock.wait(self.slow);
        self.look_for_splits();
        let Some((split, at)) = self.turn() else {
            let all = self.until == Until::End || self.at.len() == self.input.len();
            if !all {
                return Ok(Polled::Idle);
            }
            if self.idle > 0 {
                self.idle -= 1;
                return Ok(Polled::Idle);
            }
            if self.until == Until::End {
                return Ok(Polled::End);
            }
            self.stop.request();
            return Ok(Polled::Idle);
        };
        let some: Vec<u64> = (0..self.records(&split)).map(offset_of).filter(|o| (at.offset..at.stop).contains(o)).collect();
        let some = &some[..some.len().min(usize::try_from(self.chunk).unwrap_or(usize::MAX))];
        // After its last record only marks are left: the position moves, and nothing comes.
        let to = some.last().map_or(at.stop, |last| last + 1);
        self.at.insert(split.clone(), At { offset: to, ..at });
        self.last = Some(split.clone());
        if some.is_empty() {
            return Ok(Polled::Idle);
        }
        let partition = split.rsplit('/').next().and_then(|p| p.parse().ok());
        let mut records = Records::none(Arc::new(Origin { split: split.clone(), name: split.clone(), partition, header: None }));
        let mut all = String::new();
        for offset in some {
            all.push_str(&text(&split, *offset));
            records.ends.push(all.len());
            records.offsets.push(*offset);
        }
        records.bytes = Bytes::from(all);
        Ok(Polled::Records(records))
    }

    fn position(&self) -> Offsets {
        self.at.iter().map(|(s, at)| (s.clone(), Self::position_at(at.offset.max(at.sought)))).collect()
    }

    async fn committed(&mut self, offsets: &Offsets) -> Result<()> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(offsets.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::conformance;

    fn topic(until: Until, clock: &Arc<Alone>) -> Topic {
        let input = [("t/0", 5), ("t/1", 0), ("t/2", 3)].map(|(s, n)| (s.to_owned(), n)).to_vec();
        let reading = Reading { chunk: 2, slow: Duration::from_millis(100), idle: 1, early: false };
        Topic::new(input, until, reading, clock.clone(), Told::default(), Stop::default())
    }

    #[tokio::test]
    async fn a_topic_keeps_what_every_source_promises() {
        let clock = Alone::new(1, 0, Arc::default());
        conformance::check(&clock.env(), || Ok(topic(Until::End, &clock))).await.unwrap();
    }

    #[tokio::test]
    async fn positions_move_past_the_last_record_and_splits_are_found() {
        let clock = Alone::new(1, 0, Arc::default());
        let mut topic = topic(Until::Asked { found_after: 2 }, &clock);
        let resolved = topic.resolve(None).await.unwrap();
        assert_eq!((resolved.start.0.len(), &resolved.stop), (1, &None));
        topic.seek(&resolved.start, None).await.unwrap();
        let mut records = 0;
        while !topic.stop.requested() {
            if let Polled::Records(some) = topic.poll(clock.env().deadline(Duration::ZERO)).await.unwrap() {
                records += some.len();
            }
        }
        let at = topic.position();
        assert_eq!((records, at.offset("t/0"), at.offset("t/1"), at.offset("t/2")), (8, 12, 1, 7));
    }
}
