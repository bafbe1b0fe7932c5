//! The sinks at hand during a start.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::sink::Sink;
use crate::stream::chain::{ChainSink, Configured};
use crate::stream::checkpoint::{Role, SinkEntry};
use crate::stream::decide::SinkState;
use crate::stream::start::OpenSink;

/// Those of the pipeline file, and those that only the chain names.
pub(crate) struct Sinks {
    pub(crate) order: Vec<String>,
    pub(crate) configured: BTreeMap<String, Configured>,
    roles: BTreeMap<String, Role>,
    /// Opened because a checkpoint names them.
    others: BTreeMap<String, Box<dyn Sink>>,
    /// `--adopt`: where the chain says that a sink is -> where it is.
    pub(crate) moved: BTreeMap<String, String>,
    /// Dropped, and not there any more.
    pub(crate) gone: BTreeSet<String>,
}

impl Sinks {
    /// `Invalid` when there are none, or two of them are one.
    pub(crate) fn new(configured: Vec<Configured>) -> Result<Self> {
        let order: Vec<String> = configured.iter().map(|c| c.sink.anchor().url().to_owned()).collect();
        let roles = configured.iter().map(|c| (c.sink.anchor().url().to_owned(), c.role)).collect();
        let configured = configured.into_iter().map(|c| (c.sink.anchor().url().to_owned(), c)).collect();
        if order.is_empty() {
            return Err(Error::invalid("there are no sinks").hint("give at least one"));
        }
        if let Some((i, url)) = order.iter().enumerate().find(|(i, url)| order[..*i].contains(url)) {
            return Err(Error::invalid(format!("sink {} is a table that another sink writes to", i + 1))
                .at(url)
                .hint("give each table once"));
        }
        Ok(Sinks { order, configured, roles, others: BTreeMap::new(), moved: BTreeMap::new(), gone: BTreeSet::new() })
    }
    pub(crate) fn all(&self) -> impl Iterator<Item = (&String, &dyn Sink)> {
        self.configured.iter().map(|(url, c)| (url, c.sink.as_ref())).chain(self.others.iter().map(|(url, s)| (url, s.as_ref())))
    }
    pub(crate) fn now_at(&self, url: &str) -> String {
        self.moved.get(url).cloned().unwrap_or_else(|| url.to_owned())
    }
    pub(crate) async fn get(&mut self, url: &str, entry: &SinkEntry, opener: &dyn OpenSink) -> Result<&mut dyn Sink> {
        self.get_by(url, &entry.format, opener).await
    }
    pub(crate) async fn get_by(&mut self, url: &str, format: &str, opener: &dyn OpenSink) -> Result<&mut dyn Sink> {
        if let Some(configured) = self.configured.get_mut(url) {
            return Ok(configured.sink.as_mut());
        }
        if !self.others.contains_key(url) {
            let sink = opener.open(url, format).await.map_err(|e| {
                e.at("a sink of the greatest checkpoint")
                    .hint(format!("if the table is gone for good: --drop-sink {url}, and --abandon N if a checkpoint is pending"))
            })?;
            self.others.insert(url.to_owned(), sink);
        }
        let sink = self.others.get_mut(url).ok_or_else(|| Error::internal("a sink is missing"))?;
        Ok(sink.as_mut())
    }
    pub(crate) fn take(&mut self, url: &str) -> Option<Box<dyn Sink>> {
        self.configured.remove(url).map(|c| c.sink).or_else(|| self.others.remove(url))
    }
    /// The configured sinks, in the order of the file, with their states.
    pub(crate) fn take_all(&mut self, states: &BTreeMap<String, SinkState>) -> Vec<(String, Box<dyn Sink>, SinkState)> {
        let mut all = Vec::new();
        for url in self.order.clone() {
            if let (Some(c), Some(state)) = (self.configured.remove(&url), states.get(&url)) {
                all.push((url, c.sink, SinkState { role: c.role, ..state.clone() }));
            }
        }
        all
    }
    pub(crate) fn put_back(&mut self, sinks: Vec<ChainSink>) {
        for s in sinks {
            match self.roles.get(&s.url) {
                Some(role) => drop(self.configured.insert(s.url, Configured { role: *role, sink: s.sink })),
                None => drop(self.others.insert(s.url, s.sink)),
            }
        }
    }
}
