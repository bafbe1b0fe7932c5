//! A pipeline at work: from the file to a running coordinator.

use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::future::{Either, select};
use futures::task::AtomicWaker;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::{self, PipelineFile};
use crate::pipeline::monitor::{Beside, Monitor, Observed};
use crate::pipeline::plan::{Plan, Planned};
use crate::pipeline::sources;
use crate::sink::Sink;
use crate::sink::table::TableSink;
use crate::source::Source;
use crate::store::{DiskObserver, Store, StoreOptions};
use crate::stream::checkpoint::{CheckpointKind, Role, Writer};
use crate::stream::coordinator::{AtEnd, Coordinator, Lane, Report, Stop, Triggers, wait_if_fenced};
use crate::stream::decide::{Asked, anything_to_read};
use crate::stream::{ChainOptions, Configured, Event, Events, Ledger, OpenTables, Start, StartOptions};
use crate::table::Table;

/// A pipeline, ready to be started.
pub struct Pipeline {
    /// None: it was not read from a file.
    path: Option<PathBuf>,
    set: Vec<String>,
    file: PipelineFile,
    options: StartOptions,
    env: Env,
    disk: Option<Arc<dyn DiskObserver>>,
}

impl Pipeline {
    /// Reads a pipeline file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Pipeline> {
        Pipeline::from_file_with(path, &[])
    }
    /// Reads a pipeline file with overrides, `key.path=value` each.
    pub fn from_file_with(path: impl AsRef<Path>, set: &[String]) -> Result<Pipeline> {
        let file = PipelineFile::load(path.as_ref(), set)?;
        Ok(Pipeline { path: Some(path.as_ref().to_owned()), set: set.to_vec(), ..Pipeline::from_parts(file) })
    }
    /// Of a file that was read already.
    pub fn from_parts(file: PipelineFile) -> Pipeline {
        Pipeline { path: None, set: Vec::new(), file, options: StartOptions::default(), env: Env::real(), disk: None }
    }
    /// Overrides one key: `set("sinks.0.location", "/lake/orders")`.
    pub fn set(self, key: &str, value: &str) -> Result<Pipeline> {
        let Some(path) = &self.path else {
            return Err(Error::invalid("only a pipeline that was read from a file can be overridden"));
        };
        let mut set = self.set.clone();
        set.push(format!("{key}={value}"));
        Ok(Pipeline { options: self.options, env: self.env, disk: self.disk, ..Pipeline::from_file_with(path, &set)? })
    }
    /// What a person asks of the start: `--rewind` and the like.
    pub fn options(mut self, options: StartOptions) -> Pipeline {
        self.options = options;
        self
    }
    /// In this environment instead of the real one.
    pub fn env(mut self, env: Env) -> Pipeline {
        self.env = env;
        self
    }
    /// Lets a test see, count or fail each step on local disk.
    pub fn disk(mut self, observer: Arc<dyn DiskObserver>) -> Pipeline {
        self.disk = Some(observer);
        self
    }
    /// What it says.
    pub fn file(&self) -> &PipelineFile {
        &self.file
    }

    /// What a start would do, with the schema of each sink and the first rows. Writes nothing.
    pub async fn plan(self) -> Result<Plan> {
        let store = self.store_options(None);
        let ledger = self.ledger(&store)?;
        let planned = Planned::look(&self.file, &self.env, &store).await?;
        Plan::of(&self.file, planned, &ledger, &self.env).await
    }

    /// Starts: nothing happens before the first [`Run::next_event`] or [`Run::finish`].
    pub async fn start(self) -> Result<Run> {
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        let stop = Stop::default();
        let monitor = Monitor::new(&self.file, &self.env);
        let waker = Arc::new(AtomicWaker::new());
        let (sender, seen, news) = (queue.clone(), monitor.clone(), waker.clone());
        let events = Events::to(move |event| {
            seen.saw(&event);
            sender.lock().unwrap_or_else(PoisonError::into_inner).push_back(event);
            // Some come from another thread, while the run waits.
            news.wake();
        });
        let future: RunFuture = Box::pin(self.run(events, stop.clone(), monitor.clone()));
        Ok(Run { future: Some(future), queue, waker, result: None, stop, monitor })
    }

    /// The run, and beside it what watches over it. The watchdog may end it: a run that is dropped in the middle of a commit has an unclear
    /// outcome like any other, and the next start finds out (I6).
    async fn run(self, events: Events, stop: Stop, monitor: Arc<Monitor>) -> Result<Report> {
        let interval = self.file.checkpoint.every.unwrap_or(Duration::from_secs(1));
        let env = self.env.clone();
        let _beside = Beside::start(monitor.clone(), &self.file, events.clone())?;
        let work = Box::pin(self.run_once(events, stop, monitor.clone()));
        let result = match select(work, pin!(monitor.given_up())).await {
            Either::Left((result, _)) => result,
            Either::Right((given_up, work)) => {
                drop(work);
                Err(given_up)
            }
        };
        monitor.ended(&result);
        wait_if_fenced(result, &env, interval).await
    }

    async fn run_once(self, events: Events, stop: Stop, monitor: Arc<Monitor>) -> Result<Report> {
        let (file, env) = (&self.file, &self.env);
        let store = self.store_options(Some(events.clone()));
        let ledger = self.ledger(&store)?;
        let source = sources::open(file, env, Some(Arc::new(ledger.clone())), Some(&events))?;
        let mut source: Box<dyn Source> = Box::new(Observed::new(source, monitor));
        if self.nothing_to_read(&ledger, source.as_mut(), &store, &events).await? {
            return Ok(Report { nothing: true, ..Report::default() });
        }
        if !source.replayable() {
            let text = "this source cannot be read again: after a crash rows may be lost or doubled (at least once)".to_owned();
            events.tell(Event::Warning { text });
        }
        tracing::debug!(threads = file.threads, "{}", file.memory_plan());
        let mut planned = Planned::look(file, env, &store).await?;
        planned.belong_to(&ledger, &self.options).await?;
        planned.create_tables(&events).await?;
        let (configured, lanes, dead_letters) = self.sinks(planned)?;
        let timeout = file.commit.timeout;
        let start = Start {
            ledger,
            writer: Writer::here(env),
            events: events.clone(),
            chain: ChainOptions { keep: file.checkpoint.keep as usize, patience: timeout },
            options: self.options.clone(),
            start: sources::start_text(file),
            moment: sources::starts_at_a_moment(file),
            until: sources::stop_text(file),
            opener: &OpenTables { env: env.clone(), timeout, store },
        };
        let Some(chain) = start.run(configured, source.as_mut()).await? else {
            return Ok(Report { nothing: true, ..Report::default() });
        };
        events.tell(Event::Started {
            run: chain.run().to_owned(),
            user: chain.user().to_string(),
            seq: if chain.resumed() { chain.greatest().seq } else { chain.greatest().opened },
            resumed: chain.resumed(),
        });
        env.yield_once().await;
        let coordinator = Coordinator {
            chain,
            source,
            lanes,
            dead_letters,
            triggers: Triggers { every: file.checkpoint.every, rows: file.checkpoint.rows, bytes: file.checkpoint.bytes },
            at_end: match file.source.at_end {
                file::AtEnd::Close => AtEnd::Close,
                file::AtEnd::Pause => AtEnd::Pause,
            },
            commit_empty: file.commit.empty,
            threads: file.threads,
            window_bytes: file.memory_plan().window,
            events,
            stop,
        };
        coordinator.run().await
    }

    /// A bounded run between lineages that has nothing to read writes nothing, not even an empty table. After a lineage whose tables are all
    /// there the start itself finds out: it also finishes what was left.
    async fn nothing_to_read(&self, ledger: &Ledger, source: &mut dyn Source, store: &StoreOptions, events: &Events) -> Result<bool> {
        if self.options.asked != Asked::default() || self.options.backfill {
            return Ok(false);
        }
        let greatest = ledger.greatest().await?;
        let from = match &greatest {
            Some(w) if w.checkpoint.kind != CheckpointKind::Closed => return Ok(false),
            other => other.as_ref().map(|w| &w.checkpoint.offsets),
        };
        let resolved = source.resolve(from).await?;
        if let (file::SourceKind::Files(files), Some(true)) = (&self.file.source.kind, resolved.stop.as_ref().map(|stop| stop.0.is_empty()))
        {
            events.tell(Event::Warning { text: format!("no file matches {}", files.paths.join(", ")) });
        }
        let begins = greatest.is_none() && sources::starts_at_a_moment(&self.file);
        if begins || anything_to_read(&resolved.start, resolved.stop.as_ref()) {
            return Ok(false);
        }
        let locations = self.file.sinks.iter().map(|s| &s.location).chain(self.file.dead_letter.iter().map(|d| &d.location));
        for location in locations {
            let store = Store::open(location, &self.env, store.clone())?;
            let named = greatest.as_ref().is_some_and(|w| w.checkpoint.sinks.contains_key(store.url()));
            if Table::open_if_exists(store).await?.is_none() {
                return Ok(!named); // a table that the chain has written to and that is gone is no small matter
            }
        }
        Ok(greatest.is_none())
    }

    /// The sinks in the order of the file, the dead letters last; the lane of each but them; the place of the dead letters.
    fn sinks(&self, planned: Planned) -> Result<(Vec<Configured>, Vec<Lane>, Option<usize>)> {
        let timeout = self.file.commit.timeout;
        let memory = self.file.memory_plan().writer;
        let sink = |role, table: Table| {
            let sink = TableSink::new(table, timeout).with_memory(memory);
            Configured { role, sink: Box::new(sink) as Box<dyn Sink> }
        };
        let mut configured = Vec::new();
        let mut lanes = Vec::new();
        for (i, planned) in planned.sinks.iter().enumerate() {
            let decoders = (0..self.file.threads.max(1)).map(|_| planned.decoder(&self.file)).collect::<Result<_>>()?;
            lanes.push(Lane { sink: i, decoders, watermark: planned.watermark()? });
            configured.push(sink(Role::Sink, planned.table()?));
        }
        let mut dead_letters = None;
        if let Some(dead) = &planned.dead_letter {
            dead_letters = Some(configured.len());
            configured.push(sink(Role::DeadLetter, dead.table()?));
        }
        Ok((configured, lanes, dead_letters))
    }

    fn ledger(&self, options: &StoreOptions) -> Result<Ledger> {
        let store = Store::open(&self.file.checkpoint.location, &self.env, options.clone())?;
        Ok(Ledger::new(store, &self.file.pipeline))
    }

    fn store_options(&self, events: Option<Events>) -> StoreOptions {
        let on_retry = events.map(|events| {
            let tell = move |what: &str, attempt: u32, error: &str| {
                events.tell(Event::Retry { what: what.to_owned(), attempt, error: error.to_owned() });
            };
            Arc::new(tell) as crate::store::OnRetry
        });
        StoreOptions { durability: self.file.durability, patience: self.file.commit.timeout, on_retry, disk: self.disk.clone() }
    }
}

type RunFuture = Pin<Box<dyn Future<Output = Result<Report>> + Send>>;

/// A pipeline at work. It works only while [`Run::next_event`] or [`Run::finish`] is awaited.
pub struct Run {
    future: Option<RunFuture>,
    queue: Arc<Mutex<VecDeque<Event>>>,
    waker: Arc<AtomicWaker>,
    result: Option<Result<Report>>,
    stop: Stop,
    monitor: Arc<Monitor>,
}

impl Run {
    /// The next event; none when the run has ended ([`Run::finish`] says how). May be dropped and called again.
    pub async fn next_event(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            if let Some(event) = self.pop() {
                return Poll::Ready(Some(event));
            }
            let Some(future) = &mut self.future else { return Poll::Ready(None) };
            if let Poll::Ready(result) = future.as_mut().poll(context) {
                self.result = Some(result);
                self.future = None;
            }
            match (self.pop(), &self.future) {
                (Some(event), _) => Poll::Ready(Some(event)),
                (None, None) => Poll::Ready(None),
                (None, Some(_)) => Poll::Pending,
            }
        })
        .await
    }

    /// Asks to stop from elsewhere: finish the pending commit, checkpoint what is new, commit, end.
    pub fn stop_handle(&self) -> Stop {
        self.stop.clone()
    }

    /// Looks into the run from elsewhere: metrics, health, lag.
    pub fn monitor(&self) -> Arc<Monitor> {
        self.monitor.clone()
    }

    /// Runs to the end, however it ends.
    pub async fn finish(mut self) -> Result<Report> {
        while self.next_event().await.is_some() {}
        self.result.unwrap_or_else(|| Err(Error::internal("the run has ended without a result")))
    }

    fn pop(&self) -> Option<Event> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

#[cfg(test)]
mod power_cut;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod seen;
