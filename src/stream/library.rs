//! The chain for a program's own loop: no coordinator, no decoder, tables given by hand.

use std::future::Future;

use async_trait::async_trait;

use crate::env::{Deadline, Env};
use crate::error::{Error, Result};
use crate::format::CommitMessage;
use crate::sink::table::TableSink;
use crate::sink::{Message, Sink};
use crate::source::{Offsets, Polled, Resolved, Source};
use crate::store::{Store, StoreOptions};
use crate::stream::chain::{Chain, ChainOptions, Configured, Owned};
use crate::stream::checkpoint::{CheckpointKind, Role, Writer};
use crate::stream::event::Events;
use crate::stream::ledger::Ledger;
use crate::stream::start::{OpenSink, Start, StartOptions};
use crate::table::Table;

impl Chain {
    /// Opens the chain of `pipeline` under a checkpoint location: finishes what is pending, and opens a lineage at `start()` when none is
    /// open. `start` gets the offsets at which an earlier lineage ended.
    ///
    /// The messages of [`Chain::checkpoint`] are given in the order of `tables`.
    pub async fn open<'t, F, R>(location: &str, pipeline: &str, tables: impl IntoIterator<Item = &'t Table>, start: F) -> Result<Chain>
    where
        F: FnMut(Option<Offsets>) -> R + Send,
        R: Future<Output = Result<Offsets>> + Send,
    {
        let env = Env::real();
        let store = Store::open(location, &env, StoreOptions::default())?;
        let tables: Vec<&Table> = tables.into_iter().collect();
        check_places(&store, pipeline, &tables)?;
        let options = ChainOptions::default();
        let timeout = options.patience;
        let configured = tables
            .into_iter()
            .map(|t| Configured { role: Role::Sink, sink: Box::new(TableSink::new(t.clone(), timeout)) as Box<dyn Sink> })
            .collect();
        let begin = Start {
            ledger: Ledger::new(store, pipeline),
            writer: Writer::here(&env),
            events: Events::ignored(),
            chain: options,
            options: StartOptions::default(),
            start: String::new(),
            moment: false,
            until: String::new(),
            opener: &OpenTables { env: env.clone(), timeout, store: StoreOptions::default() },
        };
        let chain = begin.run(configured, &mut OnlyStart(start)).await?;
        chain.ok_or_else(|| Error::internal("an unbounded source has nothing to read"))
    }

    /// Makes one checkpoint: offsets and, per table in the order of [`Chain::open`], its messages (none for a table without rows).
    /// `Fenced`: another process owns the pipeline now; stop.
    pub async fn checkpoint(&mut self, offsets: Offsets, messages: impl IntoIterator<Item = Vec<CommitMessage>>) -> Result<Owned> {
        let messages = messages.into_iter().map(|m| if m.is_empty() { Ok(None) } else { to_messages(m).map(Some) });
        let messages = messages.collect::<Result<Vec<_>>>()?;
        self.write(CheckpointKind::Data, offsets, messages).await
    }

    /// End of input: lands the last messages under `i64::MAX` in every table and closes the lineage. The next [`Chain::open`] begins a new one.
    pub async fn end(mut self, offsets: Offsets, messages: impl IntoIterator<Item = Vec<CommitMessage>>) -> Result<()> {
        let messages = messages.into_iter().map(|m| to_messages(m).map(Some)).collect::<Result<Vec<_>>>()?;
        let owned = self.write(CheckpointKind::End, offsets.clone(), messages).await?;
        self.commit(owned).await?;
        self.write_closed(offsets).await
    }

    /// Says that end of input landed everywhere.
    pub(crate) async fn write_closed(&mut self, offsets: Offsets) -> Result<()> {
        let none = self.sinks.iter().map(|_| None).collect();
        let owned = self.write(CheckpointKind::Closed, offsets, none).await?;
        self.commit(owned).await?;
        Ok(())
    }
}

/// What the pipeline file checks for those who have one.
fn check_places(chain: &Store, pipeline: &str, tables: &[&Table]) -> Result<()> {
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let first = pipeline.chars().next().is_some_and(word);
    if !first || pipeline.len() > 63 || !pipeline.chars().all(|c| word(c) || c == '_' || c == '-') {
        return Err(Error::invalid(format!("`{pipeline}` cannot name a pipeline"))
            .hint("use at most 63 of a-z, 0-9, `_` and `-`, beginning with a letter or a digit"));
    }
    let mut places = std::collections::BTreeSet::new();
    for table in tables {
        if chain.is_local() && !table.store().is_local() {
            return Err(Error::invalid(format!("the chain is on local disk ({}), and this table is not", chain.url()))
                .at(table.url())
                .hint("put the chain where the tables are: without this disk nobody could tell what was landed"));
        }
        if !places.insert(table.store().physical_url()?) {
            return Err(Error::invalid("this table is given twice").at(table.url()).hint("give each table once"));
        }
    }
    Ok(())
}

fn to_messages(messages: Vec<CommitMessage>) -> Result<Vec<Message>> {
    messages.into_iter().map(|message| Message::new(&message)).collect()
}

/// Opens tables by what a checkpoint says of them.
pub struct OpenTables {
    /// The environment.
    pub env: Env,
    /// Bounds each commit.
    pub timeout: std::time::Duration,
    /// How their stores are opened.
    pub store: StoreOptions,
}

#[async_trait]
impl OpenSink for OpenTables {
    async fn open(&self, url: &str, format: &str) -> Result<Box<dyn Sink>> {
        let table = Table::open_in(Store::open(url, &self.env, self.store.clone())?).await?;
        if table.format().name() != format {
            let what = format!("a checkpoint names a sink of format `{format}`, and here is a {} table", table.format());
            return Err(Error::data(what).at(url).hint("restore the table that the chain has written to"));
        }
        Ok(Box::new(TableSink::new(table, self.timeout)))
    }
}

/// A source that only knows where to begin.
struct OnlyStart<F>(F);

#[async_trait]
impl<F, R> Source for OnlyStart<F>
where
    F: FnMut(Option<Offsets>) -> R + Send,
    R: Future<Output = Result<Offsets>> + Send,
{
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        Ok(Resolved { start: (self.0)(from.cloned()).await?, stop: None })
    }
    async fn seek(&mut self, _: &Offsets, _: Option<&Offsets>) -> Result<()> {
        Err(Error::internal("the program reads its source itself"))
    }
    async fn poll(&mut self, _: Deadline) -> Result<Polled> {
        Err(Error::internal("the program reads its source itself"))
    }
    fn position(&self) -> Offsets {
        Offsets::default()
    }
}

impl Writer {
    /// This process.
    pub fn here(env: &Env) -> Writer {
        Writer {
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid: std::process::id(),
            started: env.now_ms(),
            run: env.uuid().to_string(),
        }
    }
}
