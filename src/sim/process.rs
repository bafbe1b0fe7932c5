//! One process: the production start and coordinator on the simulated store, polled by hand.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use object_store::path::Path;

use crate::env::Env;
use crate::error::Result;
use crate::schema::Field;
use crate::sim::oracle::reader::Format;
use crate::sim::source::{self, Keep, Splits, ToRows, Told};
use crate::sim::store::{Answer, Ask, Port, SimStore, hash128};
use crate::sim::topic::{self, Reading, Topic, Until};
use crate::sim::world::Alone;
use crate::sink::Sink;
use crate::sink::table::TableSink;
use crate::source::Source;
use crate::store::{Store, StoreOptions};
use crate::stream::checkpoint::{Role, Writer};
use crate::stream::coordinator::{AtEnd, Coordinator, Lane, Report, Stop, Triggers};
use crate::stream::{ChainOptions, Configured, Events, Ledger, OpenSink, Start, StartOptions, dead_letters};
use crate::table::{Table, TableSpec};

/// How long a call or a commit may try.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pipeline's name.
pub const PIPELINE: &str = "p";
/// The checkpoint location.
pub const CHAIN: &str = "chain";
/// The table of dead letters.
pub const DEAD: &str = "dead";

/// A table that rows go to.
#[derive(Clone, Debug)]
pub struct SimSink {
    /// Its directory.
    pub name: &'static str,
    /// What it is.
    pub format: Format,
    /// Which rows it gets.
    pub keep: Keep,
    /// By `part`?
    pub partitioned: bool,
    /// Buckets, by `off`; 0: none.
    pub buckets: u32,
}

/// Every row.
pub fn every(_: &str, _: u64) -> bool {
    true
}

/// What one life is told to do.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where rows go.
    pub sinks: Vec<SimSink>,
    /// Are broken records kept as dead letters?
    pub dead_letters: bool,
    /// Splits, and how many records each has.
    pub input: Vec<(&'static str, u64)>,
    /// The input is a topic, read until then.
    pub topic: Option<Until>,
    /// Records in one poll.
    pub chunk: u64,
    /// A checkpoint after so many records.
    pub rows: u64,
    /// How long each poll takes.
    pub slow: Duration,
    /// Polls that give nothing, before the end.
    pub idle: u32,
    /// What a person asks of the start.
    pub options: StartOptions,
    /// What happens at the end of the input.
    pub at_end: AtEnd,
    /// A snapshot in every interval.
    pub commit_empty: bool,
    /// How many checkpoints are kept.
    pub keep: usize,
    /// `manifest.merge-min-count` of every table of rows; none: the format's own, which no short run comes to.
    pub merge_at: Option<u32>,
    /// `delta.checkpointInterval` of every Delta table of rows; none: our own, which no short run comes to.
    pub checkpoint_at: Option<u32>,
    /// 1: one thing after the other; more: rows of the next checkpoint are read and written while one is committed. A slow poll moves the
    /// clock for the commit beside it too, which real ones do not: use it with 1.
    pub threads: usize,
    /// Bytes of an upload's part; none: uploads are one put.
    pub part: Option<usize>,
    /// When it starts, seconds after the world began.
    pub starts_at: i64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            sinks: vec![SimSink { name: "one", format: Format::Paimon, keep: every, partitioned: false, buckets: 0 }],
            dead_letters: false,
            input: vec![("a", 5)],
            topic: None,
            chunk: 2,
            rows: 2,
            slow: Duration::from_millis(100),
            idle: 0,
            options: StartOptions::default(),
            at_end: AtEnd::Close,
            commit_empty: false,
            keep: 2,
            merge_at: None,
            checkpoint_at: None,
            threads: 2,
            part: None,
            starts_at: 0,
        }
    }
}

impl Setup {
    /// The offset of record `i` of a split.
    pub fn offset_of(&self, i: u64) -> u64 {
        if self.topic.is_some() { topic::offset_of(i) } else { source::offset_of(i) }
    }
    /// The directories of all its tables.
    pub fn tables(&self) -> Vec<&'static str> {
        let dead = self.dead_letters.then_some(DEAD);
        self.sinks.iter().map(|s| s.name).chain(dead).collect()
    }
    /// What the table of dead letters is: what the first table is.
    pub fn dead_format(&self) -> Format {
        self.sinks.first().map(|s| s.format).unwrap_or_default()
    }
    /// What a table is.
    pub fn format_of(&self, table: &str) -> Format {
        self.sinks.iter().find(|s| s.name == table).map_or(self.dead_format(), |s| s.format)
    }
}

/// A process that goes on when its calls are answered.
pub struct Process {
    future: Pin<Box<dyn Future<Output = Result<Report>>>>,
    /// Its calls.
    pub port: Arc<Port>,
    /// Of everything that it was answered: with the setup this decides what it does next.
    pub history: u128,
    /// How many calls were answered.
    pub calls: u64,
    /// See [`Told`].
    pub told: Told,
}

impl Process {
    /// Starts a life; nothing happens before its first poll.
    pub fn spawn(number: u64, setup: &Setup, broken: &Arc<std::collections::BTreeSet<crate::env::Rule>>) -> Process {
        let clock = Alone::new(number, 1_700_000_000_000 + setup.starts_at * 1000, broken.clone());
        let (port, told) = (Arc::new(Port::default()), Told::default());
        let life = Life { port: port.clone(), env: clock.env(), part: setup.part };
        let future = Box::pin(live(life, setup.clone(), clock, told.clone(), number));
        Process { future, port, history: hash128(&[&number.to_le_bytes()]), calls: 0, told }
    }

    /// Polls until it waits for the store (none) or has ended.
    pub fn poll(&mut self) -> Option<Result<Report>> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match self.future.as_mut().poll(&mut context) {
                Poll::Ready(done) => return Some(done),
                Poll::Pending if self.port.first().is_some() => return None,
                Poll::Pending => {} // it gave others a turn; between processes that share nothing but the store that means nothing
            }
        }
    }

    /// Answers a call.
    pub fn answer(&mut self, n: u64, ask: &Ask, answer: Answer) {
        let what = match &answer {
            Answer::Done => hash128(&[b"done"]),
            Answer::Object(None) => hash128(&[b"none"]),
            Answer::Object(Some(bytes)) => hash128(&[b"some", bytes]),
            Answer::Listing(objects, _) => {
                let sizes: Vec<u8> = objects.iter().flat_map(|(_, size)| size.to_le_bytes()).collect();
                let keys: Vec<&[u8]> = objects.iter().map(|(key, _)| key.as_bytes()).chain([&sizes[..]]).collect();
                hash128(&keys)
            }
            Answer::Upload(id) => hash128(&[id.as_bytes()]),
            Answer::Exists => hash128(&[b"exists"]),
            Answer::Unclear(why) => hash128(&[why.as_bytes()]),
        };
        self.history = hash128(&[&self.history.to_le_bytes(), ask.key().as_bytes(), &what.to_le_bytes()]);
        self.calls += 1;
        self.port.answer(n, answer);
    }
}

#[derive(Clone)]
struct Life {
    port: Arc<Port>,
    env: Env,
    part: Option<usize>,
}

impl Life {
    fn store(&self, name: &str) -> Store {
        let quiet = Arc::new(|_: &str, _: u32, _: &str| {});
        let options = StoreOptions { patience: PATIENCE, on_retry: Some(quiet), ..StoreOptions::default() };
        let objects = Arc::new(SimStore(self.port.clone()));
        let store = Store::over(objects.clone(), Path::from(name), format!("sim://{name}"), &self.env, options);
        match self.part {
            Some(bytes) => store.with_parts(objects).with_part_size(bytes),
            None => store,
        }
    }
}

/// The table of a sink: its columns, how rows are spread, when its manifests are merged, and when its log gets a checkpoint.
pub fn spec(sink: &SimSink, setup: &Setup) -> Result<TableSpec> {
    let fields = [(0, "split", "STRING NOT NULL"), (1, "off", "BIGINT NOT NULL"), (2, "part", "STRING NOT NULL")];
    let fields = fields.into_iter().map(|(id, name, text)| Field::parse(id, name, text)).collect::<Result<Vec<_>>>()?;
    let buckets = [("bucket", sink.buckets.to_string()), ("bucket-key", "off".to_owned())].into_iter().filter(|_| sink.buckets > 0);
    let options: Vec<(&str, String)> = match sink.format {
        Format::Paimon => buckets.chain(setup.merge_at.map(|n| ("manifest.merge-min-count", n.to_string()))).collect(),
        Format::Delta => setup.checkpoint_at.map(|n| ("delta.checkpointInterval", n.to_string())).into_iter().collect(),
    };
    let spec = TableSpec::new(named(sink.format), fields).options(options.into_iter().map(|(k, v)| (k.to_owned(), v)).collect());
    Ok(if sink.partitioned { spec.partition_by(["part"]) } else { spec })
}

/// The oracle has a name of its own for each.
fn named(format: Format) -> crate::format::Format {
    match format {
        Format::Paimon => crate::format::Format::Paimon,
        Format::Delta => crate::format::Format::Delta,
    }
}

fn open(setup: &Setup, clock: Arc<Alone>, told: Told, number: u64, stop: &Stop) -> Box<dyn Source> {
    let input = setup.input.iter().map(|(s, n)| ((*s).to_owned(), *n)).collect();
    let (chunk, slow, idle, early) = (setup.chunk, setup.slow, setup.idle, number % 2 == 1);
    match setup.topic {
        Some(until) => Box::new(Topic::new(input, until, Reading { chunk, slow, idle, early }, clock, told, stop.clone())),
        None => {
            let (at, ends) = (BTreeMap::new(), BTreeMap::new());
            Box::new(Splits { input, chunk, slow, early, idle, clock, told, at, stop: ends })
        }
    }
}

async fn live(life: Life, setup: Setup, clock: Arc<Alone>, told: Told, number: u64) -> Result<Report> {
    let stop = Stop::default();
    let mut source = open(&setup, clock, told, number, &stop);
    let mut configured = Vec::new();
    let mut lanes = Vec::new();
    for (i, sink) in setup.sinks.iter().enumerate() {
        let table = Table::open_or_create_in(life.store(sink.name), &spec(sink, &setup)?).await?;
        let decoder = Box::new(ToRows { schema: table.schema().to_arrow(), keep: sink.keep, rejects: setup.dead_letters });
        lanes.push(Lane { sink: i, decoders: vec![decoder], watermark: None });
        configured.push(Configured { role: Role::Sink, sink: Box::new(TableSink::new(table, PATIENCE)) as Box<dyn Sink> });
    }
    if setup.dead_letters {
        let table =
            Table::open_or_create_in(life.store(DEAD), &TableSpec::new(named(setup.dead_format()), dead_letters::columns())).await?;
        configured.push(Configured { role: Role::DeadLetter, sink: Box::new(TableSink::new(table, PATIENCE)) });
    }
    let run = life.env.uuid().to_string();
    let start = Start {
        ledger: Ledger::new(life.store(CHAIN), PIPELINE),
        writer: Writer { host: "host".into(), pid: u32::try_from(number).unwrap_or(0), started: life.env.now_ms(), run },
        events: Events::ignored(),
        chain: ChainOptions { keep: setup.keep, patience: PATIENCE },
        options: setup.options.clone(),
        start: String::new(),
        moment: false,
        until: String::new(),
        opener: &ByUrl(life.clone()),
    };
    let Some(chain) = start.run(configured, source.as_mut()).await? else {
        return Ok(Report { nothing: true, ..Report::default() });
    };
    let coordinator = Coordinator {
        chain,
        source,
        lanes,
        dead_letters: setup.dead_letters.then_some(setup.sinks.len()),
        triggers: Triggers { rows: Some(setup.rows), ..Triggers::default() },
        at_end: setup.at_end,
        commit_empty: setup.commit_empty,
        threads: setup.threads,
        window_bytes: usize::MAX,
        events: Events::ignored(),
        stop,
    };
    coordinator.run().await
}

struct ByUrl(Life);

#[async_trait]
impl OpenSink for ByUrl {
    async fn open(&self, url: &str, _: &str) -> Result<Box<dyn Sink>> {
        let name = url.strip_prefix("sim://").unwrap_or(url);
        let table = Table::open_in(self.0.store(name)).await?;
        Ok(Box::new(TableSink::new(table, PATIENCE)))
    }
}

/// Runs a future on these objects at once: what other engines do between two calls of ours.
pub fn at_once<T>(objects: &mut crate::sim::store::Objects, work: impl AsyncFnOnce(Store) -> T, table: &str, number: u64) -> T {
    let port = Arc::new(Port::default());
    let life = Life { port: port.clone(), env: Alone::new(number, 1_700_000_500_000, Arc::default()).env(), part: None };
    let mut future = Box::pin(work(life.store(table)));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
        while let Some((n, ask)) = port.first() {
            let (answer, _) = objects.apply(&ask);
            port.answer(n, answer);
        }
    }
}
