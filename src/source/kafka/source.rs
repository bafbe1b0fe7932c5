//! [`KafkaSource`]: from offsets to a feed, and from the feed to the loop.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::client::{self, Client, Purpose};
use super::feed::{Feed, FeedStart};
use super::ids::{self, Ids};
use super::known::Known;
use super::options::{KafkaOptions, KafkaStop, OnDataLoss};
use super::resolve::{Line, Lookup};
use super::topics::{self, ANSWER, Topics, parse_split, split_name};
use super::waiting::Found;
use super::watch::{Watcher, Watching};
use super::{errors, keys, loss};
use crate::env::{Deadline, Env};
use crate::error::{Error, Result};
use crate::source::{Offsets, Origin, Polled, Position, Resolved, Source, Status};

/// Something that a person should know of a running source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Where each partition begins and ends, and why.
    Plan(Vec<String>),
    /// The brokers do not answer, or refuse something that is not needed. Told once in a while.
    Trouble(String),
    /// Records were gone before they were read, and reading goes on behind them, as `on_data_loss` says.
    Lost {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The first offset that is lost.
        from: u64,
        /// The first that is there.
        to: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Plan(lines) => f.write_str(&lines.join("\n")),
            Notice::Trouble(text) => f.write_str(text),
            Notice::Lost { topic, partition, from, to } => f.write_str(&loss::told(topic, *partition, [*from, *to])),
        }
    }
}

/// Takes notices, from any thread; must not block.
#[derive(Clone)]
pub struct Notices(Arc<dyn Fn(Notice) + Send + Sync>);

impl Notices {
    /// To this function.
    pub fn to(f: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Notices(Arc::new(f))
    }
    pub(super) fn tell(&self, notice: Notice) {
        (self.0)(notice);
    }
}

/// So many partitions are named in a plan.
const SHOWN: usize = 20;

/// One partition to read.
#[derive(Clone, Debug)]
pub(super) struct Split {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// The topic's id; none: the brokers have none.
    pub(super) id: Option<String>,
    pub(super) start: u64,
    pub(super) stop: Option<u64>,
}

impl Split {
    pub(super) fn name(&self) -> String {
        split_name(&self.topic, self.partition)
    }
}

/// Reads Kafka topics. `Invalid` at `new` when properties would break what it promises.
pub struct KafkaSource {
    pub(super) env: Env,
    options: Arc<KafkaOptions>,
    notices: Notices,
    positions: Offsets,
    /// By place in the feed.
    origins: Vec<Arc<Origin>>,
    watching: Option<Watching>,
    pub(super) feed: Option<Feed>,
    known: Known,
    client: Option<Arc<Client>>,
    /// The last answer, and for what.
    resolved: Option<(Option<Offsets>, Resolved, Vec<Line>)>,
}

/// What a start sees.
struct Seen {
    partitions: Vec<(String, i32)>,
    ids: Ids,
    /// First offset and end of each partition.
    bounds: BTreeMap<(String, i32), (u64, u64)>,
    /// Partitions of `offsets` that are gone, in words.
    gone: Vec<String>,
}

impl Seen {
    /// `Data` when topics are not those that `offsets` are of.
    fn now(lookup: &Lookup<'_>, offsets: &Offsets) -> Result<Seen> {
        let (_, gone) = lookup.known(&Topics::new(), Some(offsets))?;
        let topics = topics::find(lookup.client, lookup.options, lookup.patience)?;
        let (ids, _) = lookup.known(&topics, None)?;
        let partitions = Lookup::partitions(&topics);
        let at = |p: &(String, i32)| Some((p.clone(), offsets.position(&split_name(&p.0, p.1))?.offset));
        let bounds = loss::bounds(lookup, &partitions, &partitions.iter().filter_map(at).collect())?;
        Ok(Seen { partitions, ids, bounds, gone })
    }
}

impl KafkaSource {
    /// Checks the options; connects to nothing yet.
    pub fn new(env: Env, options: KafkaOptions, notices: Notices) -> Result<Self> {
        client::check(&options)?;
        topics::pattern(&options)?;
        let (positions, options, known) = (Offsets::default(), Arc::new(options), Known::default());
        Ok(KafkaSource {
            env,
            options,
            notices,
            positions,
            origins: Vec::new(),
            watching: None,
            feed: None,
            known,
            client: None,
            resolved: None,
        })
    }

    /// Runs a question to the brokers on another thread, again while they do not answer, until the patience is over.
    pub(super) async fn ask<T: Send + 'static>(
        &mut self,
        question: impl Fn(Lookup<'_>) -> Result<T> + Send + Sync + Clone + 'static,
    ) -> Result<T> {
        let deadline = self.env.deadline(self.options.patience);
        let client = match &self.client {
            Some(client) => client.clone(),
            None => {
                let (client, _) = client::connect(&self.options, Purpose::Lookup)?;
                self.client.insert(Arc::new(client)).clone()
            }
        };
        for attempt in 1.. {
            let (client, options, question) = (client.clone(), self.options.clone(), question.clone());
            let answer = self.env.cpu(move || {
                client::greet(&client, &options)?;
                question(Lookup { client: &client, options: &options, patience: ANSWER })
            });
            let answer = answer.await;
            match answer {
                Err(e) if errors::passes(&e) && self.env.left(deadline).is_some() => {
                    if attempt == 1 {
                        self.notices.tell(Notice::Trouble(format!("{e}; trying again")));
                    }
                    self.env.sleep(self.env.backoff(attempt)).await;
                }
                other => return other,
            }
        }
        Err(Error::internal("asked Kafka for ever"))
    }

    /// For people: these lines, and what holds for all.
    fn words(&self, lines: Vec<Line>, bounded: bool) -> Vec<String> {
        let more = lines.len().saturating_sub(SHOWN);
        let mut out: Vec<String> = lines.iter().take(SHOWN).map(Line::to_string).collect();
        if more > 0 {
            out.push(format!("and {more} more partitions"));
        }
        if !bounded {
            out.push("reads on for ever".to_owned());
        } else if self.options.stop == KafkaStop::End && self.options.read_committed() {
            out.push("the end is the last stable offset: what is in open transactions now is not waited for".to_owned());
        }
        out
    }

    /// Why a split begins where it does: what `resolve` found out, if it begins there.
    fn line(&self, split: &Split, offsets: &Offsets) -> Line {
        let known = self.resolved.iter().flat_map(|(.., lines)| lines);
        let mut known = known.filter(|l| l.topic == split.topic && l.partition == split.partition && l.start == split.start);
        let why = match known.next() {
            Some(line) => line.why.clone(),
            None if offsets.position(&split.name()).is_some() => "where the pipeline stood".to_owned(),
            None => "earliest: the partition is new".to_owned(),
        };
        Line { topic: split.topic.clone(), partition: split.partition, start: split.start, why, stop: split.stop }
    }

    /// These are read from now on.
    fn take_in(&mut self, splits: &[Split]) {
        for split in splits {
            let (name, partition) = (split.name(), Some(split.partition));
            let stands = self
                .positions
                .0
                .entry(name.clone())
                .or_insert(Position { offset: split.start, note: ids::note(split.id.as_deref()) })
                .offset;
            let origin = Origin { split: name, name: split.topic.clone(), partition, header: None };
            self.known.begins([(&origin, stands)].into_iter());
            self.origins.push(Arc::new(origin));
        }
    }

    /// The partitions to read from `offsets` to `stop`. Those that are new begin at their first record.
    async fn splits(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<Vec<Split>> {
        let asked = offsets.clone();
        let Seen { partitions, ids, bounds, gone } = self.ask(move |lookup| Seen::now(&lookup, &asked)).await?;
        gone.into_iter().for_each(|text| self.notices.tell(Notice::Trouble(text)));
        self.positions = offsets.clone();
        let mut splits = Vec::new();
        for p in &partitions {
            let name = split_name(&p.0, p.1);
            let (first, end) = bounds.get(p).copied().unwrap_or_default();
            let stop = match stop {
                None => None,
                Some(stop) => match stop.position(&name) {
                    Some(stop) => Some(stop.offset),
                    None => continue, // it came after the stop was decided
                },
            };
            let position = self.positions.0.entry(name.clone()).or_insert(Position { offset: first, note: None });
            let start = position.offset;
            let mut split = Split { topic: p.0.clone(), partition: p.1, id: ids.get(&p.0).cloned().flatten(), start, stop };
            // A partition that is read to its stop may lose what lies before it, but must still be the one that was read.
            if (stop.is_none_or(|stop| start < stop) || start > end)
                && let Some(first) = loss::judge(&p.0, p.1, start, (first, end), self.options.on_data_loss == OnDataLoss::Earliest)?
            {
                let to = first.min(stop.unwrap_or(u64::MAX));
                loss::mark(position, [start, to]);
                (position.offset, split.start) = (to, to);
                self.notices.tell(Notice::Lost { topic: p.0.clone(), partition: p.1, from: start, to });
            }
            splits.push(split);
        }
        ids::mark(&mut self.positions, &ids);
        for name in offsets.0.keys() {
            let Some((topic, partition)) = parse_split(name) else {
                return Err(
                    Error::data(format!("a checkpoint names `{name}`, which is no partition")).hint("was the source another one before?")
                );
            };
            let count = partitions.iter().filter(|p| p.0 == topic).count();
            if count > 0 && !partitions.contains(&(topic.to_owned(), partition)) {
                return Err(Error::data(format!("the topic has {count} partitions, but a checkpoint names partition {partition}"))
                    .at(topic)
                    .hint("was the topic deleted and created again? its records are others then"));
            }
        }
        Ok(splits)
    }
}

#[async_trait]
impl Source for KafkaSource {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        if let Some((asked, resolved, _)) = &self.resolved
            && asked.as_ref() == from
        {
            return Ok(resolved.clone()); // `latest` and `end` mean one moment, however often a start asks
        }
        let from = from.cloned();
        let asked = from.clone();
        let (resolved, lines) = self.ask(move |lookup| lookup.resolve(asked.as_ref())).await?;
        self.resolved = Some((from, resolved.clone(), lines));
        Ok(resolved)
    }

    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        (self.watching, self.feed) = (None, None);
        let splits = self.splits(offsets, stop).await?;
        self.origins.clear();
        self.known.status.update(BTreeMap::clear);
        self.take_in(&splits);
        for text in keys::warnings(&self.options.given()) {
            self.notices.tell(Notice::Trouble(text.to_owned()));
        }
        let lines = splits.iter().map(|split| self.line(split, offsets)).collect();
        self.notices.tell(Notice::Plan(self.words(lines, stop.is_some())));
        if stop.is_some() && splits.is_empty() {
            return Ok(());
        }
        self.client = None;
        let (env, options, notices, status) = (self.env.clone(), self.options.clone(), self.notices.clone(), self.known.status.clone());
        let known = splits.iter().map(|split| (split.topic.clone(), split.partition)).collect();
        let feed = Feed::start(FeedStart { env, options, splits, notices, status })?;
        let (env, options, notices, status) = (self.env.clone(), self.options.clone(), self.notices.clone(), self.known.status.clone());
        let (waiting, discover) = (feed.waiting.clone(), stop.is_none());
        self.watching = Some(Watcher { env, options, notices, status, waiting, known, discover }.start()?);
        self.feed = Some(feed);
        Ok(())
    }

    async fn poll(&mut self, deadline: Deadline) -> Result<Polled> {
        loop {
            let Some(feed) = &self.feed else { return Ok(Polled::End) };
            match feed.waiting.take()? {
                Found::Chunk(chunk) => {
                    let Some(origin) = self.origins.get(chunk.split) else { continue };
                    let next = chunk.next;
                    if let Some(position) = self.positions.0.get_mut(&origin.split) {
                        position.offset = position.offset.max(next);
                        if let Some(gap) = chunk.lost {
                            loss::mark(position, gap);
                        }
                    }
                    if chunk.len() > 0 {
                        let records = chunk.into_records(origin.clone());
                        self.known.read(origin, next, Some(&records));
                        return Ok(Polled::Records(records));
                    }
                    self.known.read(origin, next, None);
                }
                Found::Splits(new) => self.take_in(&new),
                Found::End => return Ok(Polled::End),
                Found::Nothing => {
                    let Some(left) = self.env.left(deadline) else { return Ok(Polled::Idle) };
                    let (news, sleep) = (std::pin::pin!(feed.waiting.news.notified()), std::pin::pin!(self.env.sleep(left)));
                    futures::future::select(news, sleep).await;
                }
            }
        }
    }

    async fn committed(&mut self, offsets: &Offsets) -> Result<()> {
        self.known.committed(offsets);
        let Some(feed) = &self.feed else { return Ok(()) };
        let known = |(place, origin): (usize, &Arc<Origin>)| Some((place, offsets.position(&origin.split)?.offset));
        let commit = self.origins.iter().enumerate().filter_map(known).collect();
        feed.waiting.ask(|state| state.commit = Some(commit));
        Ok(())
    }

    fn position(&self) -> Offsets {
        self.known.taken();
        self.positions.clone()
    }

    fn plan(&self) -> Vec<String> {
        let Some((_, resolved, lines)) = &self.resolved else { return Vec::new() };
        self.words(lines.clone(), resolved.stop.is_some())
    }

    fn status(&self) -> Option<Arc<Status>> {
        Some(self.known.status.clone())
    }
}
