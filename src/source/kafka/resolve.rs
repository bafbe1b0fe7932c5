//! `start` and `stop` made absolute: one offset per partition, and why.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client::{self, Client, Purpose};
use super::errors;
use super::ids::{self, Ids};
use super::options::{KafkaOptions, KafkaStart, KafkaStop, KafkaTopics};
use super::raw;
use super::topics::{self, Topics, parse_split, split_name};
use crate::error::{Error, Result};
use crate::source::{Offsets, Position, Resolved};

/// Partition of a topic -> offset.
pub(super) type At = BTreeMap<(String, i32), u64>;

/// Where one partition begins and ends, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) start: u64,
    pub(super) why: String,
    pub(super) stop: Option<u64>,
}

/// Asks the brokers questions; blocks while it does.
pub(super) struct Lookup<'a> {
    pub(super) client: &'a Client,
    pub(super) options: &'a KafkaOptions,
    /// How long each question may take.
    pub(super) patience: Duration,
}

impl Lookup<'_> {
    /// All partitions.
    pub(super) fn partitions(topics: &Topics) -> Vec<(String, i32)> {
        topics.iter().flat_map(|(topic, count)| (0..*count).map(|p| (topic.clone(), p))).collect()
    }

    /// Those that the options name, now.
    pub(super) fn all(&self) -> Result<Vec<(String, i32)>> {
        Ok(Self::partitions(&topics::find(self.client, self.options, self.patience)?))
    }

    /// `Offset::Beginning`, `Offset::End` or a moment, for each: what the brokers answer, in one question per broker. Under
    /// `read_committed` the end is the last stable offset. None: no record is so young.
    fn ask(&self, partitions: &[(String, i32)], when: Offset, what: &str) -> Result<BTreeMap<(String, i32), Option<u64>>> {
        let failed = |e: &rdkafka::error::KafkaError| errors::of(e, self.options, what);
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for (topic, partition) in partitions {
            list.add_partition_offset(topic, *partition, when).map_err(|e| failed(&e))?;
        }
        let answer =
            if partitions.is_empty() { list } else { self.client.offsets_for_times(list, self.patience).map_err(|e| failed(&e))? };
        let mut found = BTreeMap::new();
        for element in answer.elements() {
            let at = format!("{}[{}]", element.topic(), element.partition());
            element.error().map_err(|e| failed(&e).at(&at))?;
            let offset = match element.offset() {
                Offset::Offset(offset) => u64::try_from(offset).ok(),
                _ => None,
            };
            found.insert((element.topic().to_owned(), element.partition()), offset);
        }
        Ok(found)
    }

    /// The ids of these topics. One that is not there is left out.
    pub(super) fn ids(&self, topics: impl IntoIterator<Item = String>) -> Result<Ids> {
        // Each once: a name that is given twice is refused.
        let (names, what) = (Vec::from_iter(BTreeSet::from_iter(topics)), "Kafka did not describe its topics");
        if names.is_empty() {
            return Ok(Ids::new());
        }
        let silent = || Error::unavailable(what).at(&self.options.bootstrap_servers).hint("see whether the brokers are up");
        let answer = raw::topic_ids(self.client, &names, self.patience).ok_or_else(silent)?;
        let mut found = Ids::new();
        for (topic, id) in answer.map_err(|code| errors::of_code(code, self.options, what))? {
            match id {
                Ok(id) => drop(found.insert(topic, id)),
                Err(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownTopicId) => {}
                Err(code) => return Err(errors::of_code(code, self.options, what).at(topic)),
            }
        }
        Ok(found)
    }

    /// The ids of all topics that are read and of those that `from` knows. `Data` when one of those was deleted, or deleted and created again.
    /// A topic that only a pattern asks for may be gone; it is in the second answer.
    pub(super) fn known(&self, topics: &Topics, from: Option<&Offsets>) -> Result<(Ids, Vec<String>)> {
        let pattern = topics::pattern(self.options)?;
        let reads = |topic: &str| match (&pattern, &self.options.topics) {
            (Some(pattern), _) => pattern.is_match(topic),
            (None, KafkaTopics::Names(names)) => names.iter().any(|name| name == topic),
            (None, KafkaTopics::Pattern(_)) => false,
        };
        let splits = || from.into_iter().flat_map(|from| &from.0).filter_map(|(split, at)| Some((parse_split(split)?, at.offset)));
        let before = splits().map(|((topic, _), _)| topic.to_owned()).filter(|topic| reads(topic));
        let names: BTreeSet<String> = topics.keys().cloned().chain(before).collect();
        let ids = self.ids(names)?;
        let mut gone = Vec::new();
        for ((topic, partition), offset) in splits().filter(|((topic, _), _)| reads(topic) && !ids.contains_key(*topic)) {
            match &pattern {
                None => return Err(ids::deleted(topic, partition, offset)),
                Some(_) => gone.push(format!("{topic}[{partition}] is gone; it was read up to offset {offset}")),
            }
        }
        if let Some(from) = from {
            ids::check(from, &ids)?;
        }
        Ok((ids, gone))
    }

    fn sure(&self, partitions: &[(String, i32)], when: Offset, what: &str) -> Result<At> {
        let found = self.ask(partitions, when, what)?;
        let sure = |((topic, partition), offset): ((String, i32), Option<u64>)| {
            let none = || Error::unavailable(what).at(format!("{topic}[{partition}]")).hint("see whether the brokers are up");
            offset.ok_or_else(none).map(|o| ((topic.clone(), partition), o))
        };
        found.into_iter().map(sure).collect()
    }

    /// The first offset that is kept of each.
    pub(super) fn earliest(&self, partitions: &[(String, i32)]) -> Result<At> {
        self.sure(partitions, Offset::Beginning, "Kafka did not say where a partition begins")
    }

    /// The end of each, as this client sees it.
    pub(super) fn ends(&self, partitions: &[(String, i32)]) -> Result<At> {
        self.sure(partitions, Offset::End, "Kafka did not say where a partition ends")
    }

    /// The first record not older than `ms` of each; the end where there is none.
    fn since(&self, partitions: &[(String, i32)], ms: i64, ends: &At) -> Result<At> {
        let found = self.ask(partitions, Offset::Offset(ms), "Kafka did not look a timestamp up")?;
        Ok(found.into_iter().map(|(p, offset)| (p.clone(), offset.unwrap_or_else(|| ends.get(&p).copied().unwrap_or(0)))).collect())
    }

    /// What group `group` has committed of each.
    pub(super) fn committed(&self, partitions: &[(String, i32)], group: &str) -> Result<BTreeMap<(String, i32), Option<u64>>> {
        let client = client::let_in(self.options, Purpose::Group(group))?;
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for (topic, partition) in partitions {
            list.add_partition(topic, *partition);
        }
        let what = format!("Kafka did not say where the group `{group}` stands");
        let answer = client.committed_offsets(list, self.patience).map_err(|e| errors::of(&e, self.options, &what))?;
        let mut found = BTreeMap::new();
        for element in answer.elements() {
            element.error().map_err(|e| errors::of(&e, self.options, &what))?;
            let offset = match element.offset() {
                Offset::Offset(offset) => u64::try_from(offset).ok(),
                _ => None,
            };
            found.insert((element.topic().to_owned(), element.partition()), offset);
        }
        Ok(found)
    }

    /// Start and stop of a lineage, with the reasons. `from`: where an earlier one stood.
    pub(super) fn resolve(&self, from: Option<&Offsets>) -> Result<(Resolved, Vec<Line>)> {
        if let Some(from) = from {
            self.known(&Topics::new(), Some(from))?;
        }
        let topics = topics::find(self.client, self.options, self.patience)?;
        let (ids, _) = self.known(&topics, None)?;
        let partitions = Self::partitions(&topics);
        let (earliest, ends) = (self.earliest(&partitions)?, self.ends(&partitions)?);
        let starts = match from {
            Some(from) => partitions.iter().map(|p| (p.clone(), gone_on(p, from, &earliest))).collect(),
            None => self.first(&partitions, &earliest, &ends)?,
        };
        let stops = match self.options.stop {
            KafkaStop::Never => None,
            KafkaStop::End => Some(ends),
            KafkaStop::Timestamp(ms) => Some(self.since(&partitions, ms, &ends)?),
            KafkaStop::Offsets(ref offsets) => Some(stops_given(&partitions, offsets)?),
        };
        let mut resolved = Resolved { start: from.cloned().unwrap_or_default(), stop: stops.as_ref().map(|_| Offsets::default()) };
        let mut lines = Vec::new();
        for (p, (start, why)) in starts {
            let split = split_name(&p.0, p.1);
            let note = from.and_then(|f| f.position(&split)?.note.clone());
            let stop = stops.as_ref().map(|stops| stops.get(&p).copied().unwrap_or(start).max(start));
            resolved.start.0.insert(split.clone(), Position { offset: start, note });
            if let (Some(all), Some(stop)) = (&mut resolved.stop, stop) {
                all.0.insert(split, Position { offset: stop, note: None });
            }
            lines.push(Line { topic: p.0, partition: p.1, start, why, stop });
        }
        ids::mark(&mut resolved.start, &ids);
        Ok((resolved, lines))
    }

    /// Where a first lineage starts.
    fn first(&self, partitions: &[(String, i32)], earliest: &At, ends: &At) -> Result<BTreeMap<(String, i32), (u64, String)>> {
        let of = |at: &At, why: &str| partitions.iter().map(|p| (p.clone(), (at.get(p).copied().unwrap_or(0), why.to_owned()))).collect();
        Ok(match &self.options.start {
            KafkaStart::Earliest => of(earliest, "earliest"),
            KafkaStart::Latest => {
                let count = self.options.newest.unwrap_or(0);
                let before = |(p, end): (&(String, i32), &u64)| {
                    let first = earliest.get(p).copied().unwrap_or(0);
                    (p.clone(), end.saturating_sub(count).max(first))
                };
                of(&ends.iter().map(before).collect(), "latest")
            }
            KafkaStart::Timestamp(ms) => {
                let why = chrono::DateTime::from_timestamp_millis(*ms).map_or_else(|| format!("{ms} ms"), |t| t.to_rfc3339());
                of(&self.since(partitions, *ms, ends)?, &format!("first record not older than {why}"))
            }
            KafkaStart::Group(group) => {
                let committed = self.committed(partitions, group)?;
                if committed.values().all(Option::is_none) {
                    return Err(Error::invalid(format!("the group `{group}` has committed no offset of these topics"))
                        .at(&self.options.bootstrap_servers)
                        .hint("mend source.kafka.start.group, or start at earliest or latest"));
                }
                let stands = |p: &(String, i32)| match committed.get(p).copied().flatten() {
                    Some(offset) => (offset, format!("group {group} stands there")),
                    None => (earliest.get(p).copied().unwrap_or(0), format!("earliest: group {group} has no offset here")),
                };
                partitions.iter().map(|p| (p.clone(), stands(p))).collect()
            }
            KafkaStart::Offsets(offsets) => self.given(partitions, offsets, earliest, ends)?,
        })
    }

    fn given(
        &self,
        partitions: &[(String, i32)],
        offsets: &BTreeMap<String, BTreeMap<i32, u64>>,
        earliest: &At,
        ends: &At,
    ) -> Result<BTreeMap<(String, i32), (u64, String)>> {
        let wrong = |what: String| Error::invalid(what).at("source.kafka.start.offsets");
        all_there(partitions, offsets).map_err(|e| e.at("source.kafka.start.offsets"))?;
        let mut found = BTreeMap::new();
        for p in partitions {
            let (first, end) = (earliest.get(p).copied().unwrap_or(0), ends.get(p).copied().unwrap_or(0));
            let at = match offsets.get(&p.0).and_then(|of| of.get(&p.1)) {
                Some(offset) if (first..=end).contains(offset) => (*offset, "given".to_owned()),
                Some(offset) => {
                    return Err(wrong(format!("offset {offset} of {}[{}] is not there: it has {first} to {end}", p.0, p.1))
                        .hint("give an offset between the two"));
                }
                None => (first, "earliest: no offset is given".to_owned()),
            };
            found.insert(p.clone(), at);
        }
        Ok(found)
    }
}

fn stops_given(partitions: &[(String, i32)], offsets: &BTreeMap<String, BTreeMap<i32, u64>>) -> Result<At> {
    all_there(partitions, offsets).map_err(|e| e.at("source.kafka.stop.offsets"))?;
    let given = offsets.iter().flat_map(|(topic, of)| of.iter().map(move |(p, offset)| ((topic.clone(), *p), *offset)));
    Ok(given.collect())
}

/// `Invalid` when offsets are given for a partition that is not read.
fn all_there(partitions: &[(String, i32)], offsets: &BTreeMap<String, BTreeMap<i32, u64>>) -> Result<()> {
    let mut given = offsets.iter().flat_map(|(topic, of)| of.keys().map(move |p| (topic.clone(), *p)));
    match given.find(|p| !partitions.contains(p)) {
        None => Ok(()),
        Some((topic, partition)) => {
            Err(Error::invalid(format!("there is no partition {partition} of a topic `{topic}` among those that are read"))
                .hint("mend the topic or the partition"))
        }
    }
}

fn gone_on(p: &(String, i32), from: &Offsets, earliest: &At) -> (u64, String) {
    match from.position(&split_name(&p.0, p.1)) {
        Some(position) => (position.offset, "where the pipeline stood".to_owned()),
        None => (earliest.get(p).copied().unwrap_or(0), "earliest: the partition is new".to_owned()),
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reads {}[{}] from {} ({})", self.topic, self.partition, self.start, self.why)?;
        match self.stop {
            Some(stop) if stop <= self.start => f.write_str(", nothing to read"),
            Some(stop) => write!(f, " to {stop}"),
            None => Ok(()),
        }
    }
}
