//! The thread that watches the topics while they are read: where they end, whether they are still the same, and which partitions are new. It
//! has a client of its own: the one that reads learns the ends only from what it fetches, and it fetches nothing while reading is held back,
//! which is when lag matters most; and it is not to wait for answers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::client::{self, Client, Purpose};
use super::feed::spawn;
use super::options::KafkaOptions;
use super::resolve::Lookup;
use super::source::Split;
use super::topics;
use super::waiting::Waiting;
use super::{Notice, Notices, raw};
use crate::env::Env;
use crate::error::Result;
use crate::source::Status;

/// How often the ends are asked for; less often where there are many.
const ENDS: Duration = Duration::from_secs(1);
const ENDS_OF_MANY: Duration = Duration::from_secs(5);
const MANY: usize = 1000;
/// How often the topics are asked what they are.
const GLANCE: Duration = Duration::from_secs(5);
/// How often new partitions are looked for, unless the property `metadata.max.age.ms` says another time.
const TOPICS: Duration = Duration::from_secs(30);
/// How long one question may take: the end of a run waits for it.
const ANSWER: Duration = Duration::from_secs(2);
/// How often trouble that goes on is told.
const TELL: Duration = Duration::from_secs(300);

/// A handle to the thread; ends it when dropped.
pub(super) struct Watching(Arc<Waiting>);

/// What the thread is given.
pub(super) struct Watcher {
    pub(super) env: Env,
    pub(super) options: Arc<KafkaOptions>,
    pub(super) notices: Notices,
    pub(super) status: Arc<Status>,
    /// Where new partitions are put.
    pub(super) waiting: Arc<Waiting>,
    /// The partitions that are read.
    pub(super) known: BTreeSet<(String, i32)>,
    /// Are new partitions read too?
    pub(super) discover: bool,
}

impl Watcher {
    /// Starts it.
    pub(super) fn start(self) -> Result<Watching> {
        let (client, _) = client::connect(&self.options, Purpose::Watch)?;
        let waiting = self.waiting.clone();
        spawn("kafka-watch", move || self.run(&client))?;
        Ok(Watching(waiting))
    }

    fn run(mut self, client: &Client) {
        let every = self.options.properties.get("metadata.max.age.ms").and_then(|ms| ms.parse().ok());
        let every = every.map_or(TOPICS, Duration::from_millis).max(Duration::from_millis(100));
        let (mut looked, mut glanced, mut told, mut known) = (self.env.monotonic(), Duration::ZERO, None, false);
        loop {
            if known {
                client::hear(client);
            } else {
                known = client::greet(client, &self.options).inspect_err(|error| tracing::debug!(%error, "watching Kafka")).is_ok();
            }
            if known {
                self.ends(client);
            }
            if known && self.env.monotonic().saturating_sub(glanced) >= GLANCE {
                glanced = self.env.monotonic();
                self.describe(client);
            }
            let ends = if self.known.len() > MANY { ENDS_OF_MANY } else { ENDS };
            if self.waiting.is_stopped(ends.min(every)) {
                return;
            }
            let now = self.env.monotonic();
            if !known || !self.discover || now.saturating_sub(looked) < every {
                continue;
            }
            looked = now;
            if let Err(error) = self.topics(client) {
                tracing::debug!(%error, "looking for new partitions");
                if !super::errors::passes(&error) && told.is_none_or(|at| now.saturating_sub(at) >= TELL) {
                    told = Some(now);
                    self.notices.tell(Notice::Trouble(error.to_string()));
                }
            }
        }
    }

    /// The high watermarks. When nobody answers they stay as they were.
    fn ends(&self, client: &Client) {
        let partitions: Vec<_> = self.known.iter().cloned().collect();
        let lookup = Lookup { client, options: &self.options, patience: ANSWER };
        match lookup.ends(&partitions) {
            Ok(ends) => self.status.update(|all| {
                for ((topic, partition), end) in ends {
                    if let Some(status) = all.get_mut(&topics::split_name(&topic, partition)) {
                        status.end = Some(end.max(status.read));
                    }
                }
            }),
            Err(error) => tracing::debug!(%error, "asking for the ends"),
        }
    }

    /// What the topics are now; whoever reads them judges.
    fn describe(&self, client: &Client) {
        let names: BTreeSet<&String> = self.known.iter().map(|(topic, _)| topic).collect();
        let names: Vec<String> = names.into_iter().cloned().collect();
        if let Some(Ok(topics)) = raw::topic_ids(client, &names, ANSWER) {
            self.waiting.lock().described = Some(topics);
        }
    }

    /// New partitions, and topics: from their first record, whatever `start` says, for they came after the start.
    fn topics(&mut self, client: &Client) -> Result<()> {
        let lookup = Lookup { client, options: &self.options, patience: ANSWER };
        let new: Vec<_> = lookup.all()?.into_iter().filter(|p| !self.known.contains(p)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let earliest = lookup.earliest(&new)?;
        let ids = lookup.ids(new.iter().map(|(topic, _)| topic.clone()))?;
        let lines = earliest.iter().map(|((topic, p), start)| format!("reads {topic}[{p}] from {start} (earliest: the partition is new)"));
        self.notices.tell(Notice::Plan(lines.collect()));
        self.known.extend(new);
        let splits = earliest.into_iter().map(|((topic, partition), start)| {
            let id = ids.get(&topic).cloned().flatten();
            Split { topic, partition, id, start, stop: None }
        });
        self.waiting.ask(|state| state.found.extend(splits));
        Ok(())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It is not waited for: a question to brokers that are away takes its time.
        self.0.ask(|state| state.stop = true);
    }
}
