//! The world in which the tests run: a store, a clock, input that can grow, and processes that can die.

mod source;
mod store;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::StreamExt as _;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore as _, ObjectStoreExt as _, PutPayload};

use self::source::{Numbers, ToIds, id_of};
pub(super) use self::store::Life;
use self::store::{Clock, LifeStore};
use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::format::paimon::snapshot::Snapshot;
use crate::format::property;
use crate::schema::Field;
use crate::sink::Sink;
use crate::sink::table::TableSink;
use crate::source::{Offsets, Source};
use crate::store::{Store, StoreOptions};
use crate::stream::checkpoint::{Checkpoint, Role, Writer};
use crate::stream::coordinator::{AtEnd, Coordinator, Lane, Report, Stop, Triggers};
use crate::stream::{Chain, ChainOptions, Configured, Event, Events, Ledger, OpenSink, Start, StartOptions};
use crate::table::{Table, TableSpec};

/// Everything that outlives a process.
#[derive(Clone)]
pub(super) struct World {
    pub(super) objects: Arc<InMemory>,
    clock: Arc<Clock>,
    /// Split -> how many records there are.
    inputs: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// Runs a future that never waits for anything but its turn.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

/// Which records a sink makes rows of.
pub(super) type Keep = fn(i64) -> bool;

/// Every record.
pub(super) fn all(_: i64) -> bool {
    true
}

/// What one process is told to do.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) pipeline: &'static str,
    pub(super) chain: &'static str,
    pub(super) sinks: Vec<(&'static str, Keep)>,
    pub(super) options: StartOptions,
    pub(super) triggers: Triggers,
    pub(super) at_end: AtEnd,
    pub(super) commit_empty: bool,
    pub(super) keep: usize,
    pub(super) start: &'static str,
    pub(super) until: &'static str,
    /// False: the source never ends.
    pub(super) bounded: bool,
    /// Records a poll.
    pub(super) chunk: u64,
    pub(super) die: Option<(u64, bool)>,
    /// Dies when it tells an event for which this says so.
    pub(super) die_on: Option<fn(&Event) -> bool>,
}

impl Setup {
    /// Two sinks, a checkpoint every 10 records, `end` at the end.
    pub(super) fn two() -> Setup {
        Setup::of(&[("one", all), ("two", all)])
    }
    pub(super) fn one() -> Setup {
        Setup::of(&[("one", all)])
    }
    pub(super) fn of(sinks: &[(&'static str, Keep)]) -> Setup {
        Setup {
            pipeline: "p",
            chain: "chain",
            sinks: sinks.to_vec(),
            options: StartOptions::default(),
            triggers: Triggers { rows: Some(10), ..Triggers::default() },
            at_end: AtEnd::Close,
            commit_empty: false,
            keep: 10,
            start: "numbers",
            until: "",
            bounded: true,
            chunk: 5,
            die: None,
            die_on: None,
        }
    }
    pub(super) fn dying(self, write: u64, after: bool) -> Setup {
        Setup { die: Some((write, after)), ..self }
    }
    pub(super) fn dying_on(self, event: fn(&Event) -> bool) -> Setup {
        Setup { die_on: Some(event), ..self }
    }
    pub(super) fn paused(self) -> Setup {
        Setup { at_end: AtEnd::Pause, ..self }
    }
    pub(super) fn asking(self, options: StartOptions) -> Setup {
        Setup { options, ..self }
    }
    pub(super) fn rewind(self, k: u64) -> Setup {
        let mut setup = self;
        setup.options.asked.rewind = Some(k);
        setup
    }
    pub(super) fn abandon(self, n: u64) -> Setup {
        let mut setup = self;
        setup.options.asked.abandon = Some(n);
        setup
    }
}

/// How a process ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// None: it was killed.
    pub(super) result: Option<Result<Report>>,
    pub(super) events: Vec<Event>,
    pub(super) log: Vec<String>,
}

impl Ended {
    #[track_caller]
    pub(super) fn well(self) -> (Report, Vec<Event>) {
        match self.result {
            Some(Ok(report)) => (report, self.events),
            other => panic!("{other:?}\n{}", self.log.join("\n")),
        }
    }
    #[track_caller]
    pub(super) fn dead(self) -> Vec<Event> {
        assert!(self.result.is_none(), "{:?}", self.result);
        self.events
    }
    #[track_caller]
    pub(super) fn error(self, kind: Kind) -> Error {
        match self.result {
            Some(Err(e)) if e.kind() == kind => e,
            other => panic!("{other:?}\n{}", self.log.join("\n")),
        }
    }
    /// `(seq, sink, already)` of what the start finished.
    pub(super) fn finished(events: &[Event]) -> Vec<(u64, String, bool)> {
        let some = events.iter().filter_map(|e| match e {
            Event::Finished { seq, sink, already, .. } => Some((*seq, sink.clone(), *already)),
            _ => None,
        });
        some.collect()
    }
}

/// A process that takes turns.
pub(super) struct Process {
    future: Option<Pin<Box<dyn Future<Output = Result<Report>>>>>,
    pub(super) life: Arc<Life>,
    events: Arc<Mutex<Vec<Event>>>,
    pub(super) stop: Stop,
    result: Option<Result<Report>>,
}

impl Process {
    /// One turn; true when it has ended or died.
    pub(super) fn turn(&mut self) -> bool {
        let Some(future) = &mut self.future else { return true };
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            self.result = Some(result);
            self.future = None;
        } else if self.life.is_dead() {
            self.future = None;
        }
        self.future.is_none()
    }
    /// Turns until this event was told.
    pub(super) fn until(&mut self, event: fn(&Event) -> bool) {
        let told = |p: &Process| p.events.lock().unwrap().iter().any(event);
        while !told(self) {
            assert!(!self.turn(), "it ended before: {:?}", self.result);
        }
    }
    pub(super) fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }
    pub(super) fn end(mut self) -> Ended {
        while !self.turn() {}
        let events = self.events();
        let log = self.life.log.lock().unwrap().clone();
        Ended { result: self.result, events, log }
    }
}

impl World {
    pub(super) fn new(inputs: &[(&str, u64)]) -> World {
        let clock = Clock { micros: AtomicU64::new(0), skew: AtomicI64::new(0) };
        let inputs = inputs.iter().map(|(s, n)| ((*s).to_owned(), *n)).collect();
        World { objects: Arc::new(InMemory::new()), clock: Arc::new(clock), inputs: Arc::new(Mutex::new(inputs)) }
    }
    /// The same objects once more, as a backup is.
    pub(super) fn copy(&self) -> World {
        let clock = Clock { micros: AtomicU64::new(self.clock.micros.load(Ordering::SeqCst)), skew: AtomicI64::new(0) };
        World {
            objects: Arc::new(self.objects.fork()),
            clock: Arc::new(clock),
            inputs: Arc::new(Mutex::new(self.inputs.lock().unwrap().clone())),
        }
    }
    pub(super) fn env(&self) -> Env {
        Env::new(self.clock.clone())
    }
    pub(super) fn wait(&self, time: Duration) {
        self.clock.micros.fetch_add(u64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }
    pub(super) fn set_clock_wrong_by(&self, ms: i64) {
        self.clock.skew.store(ms, Ordering::SeqCst);
    }
    pub(super) fn grow(&self, split: &str, records: u64) {
        self.inputs.lock().unwrap().insert(split.to_owned(), records);
    }
    pub(super) fn store(&self, name: &str, life: &Arc<Life>) -> Store {
        let objects = Arc::new(LifeStore { inner: self.objects.clone(), life: life.clone() });
        let options = StoreOptions { patience: Duration::from_secs(20), ..StoreOptions::default() };
        Store::over(objects, Path::from(name), format!("sim://{name}"), &self.env(), options)
    }
    pub(super) fn table(&self, name: &str) -> Table {
        block_on(Table::open_in(self.store(name, &Arc::default()))).unwrap()
    }

    /// Starts a process; nothing happens before its first turn.
    pub(super) fn spawn(&self, setup: Setup) -> Process {
        let life = Arc::new(Life { die: Mutex::new(setup.die), ..Life::default() });
        let events = Arc::new(Mutex::new(Vec::new()));
        let (queue, killed, die_on) = (events.clone(), life.clone(), setup.die_on);
        let sender = Events::to(move |event| {
            if !killed.is_dead() && die_on.is_some_and(|die| die(&event)) {
                killed.kill();
            }
            queue.lock().unwrap().push(event);
        });
        let stop = Stop::default();
        let future = Box::pin(live(self.clone(), life.clone(), setup, sender, stop.clone()));
        Process { future: Some(future), life, events, stop, result: None }
    }
    pub(super) fn run(&self, setup: Setup) -> Ended {
        self.spawn(setup).end()
    }

    // ---- what is there ---------------------------------------------------------------------------------------------------------------

    pub(super) fn tree(&self) -> BTreeMap<String, Bytes> {
        let objects = self.objects.clone();
        block_on(async move {
            let mut tree = BTreeMap::new();
            let found: Vec<_> = objects.list(None).collect().await;
            for meta in found {
                let location = meta.unwrap().location;
                tree.insert(location.to_string(), objects.get(&location).await.unwrap().bytes().await.unwrap());
            }
            tree
        })
    }
    pub(super) fn put(&self, name: &str, bytes: impl Into<Bytes>) {
        block_on(self.objects.put(&Path::from(name), PutPayload::from(bytes.into()))).unwrap();
    }
    pub(super) fn remove(&self, name: &str) {
        block_on(self.objects.delete(&Path::from(name))).unwrap();
    }
    /// Removes everything below.
    pub(super) fn remove_all(&self, prefix: &str) {
        for name in self.tree().into_keys().filter(|n| n.starts_with(prefix)) {
            self.remove(&name);
        }
    }
    /// Puts everything below `from` under `to`.
    pub(super) fn rename(&self, from: &str, to: &str) {
        for (name, bytes) in self.tree() {
            if let Some(rest) = name.strip_prefix(&format!("{from}/")) {
                self.put(&format!("{to}/{rest}"), bytes);
                self.remove(&name);
            }
        }
    }
    pub(super) fn checkpoints_of(&self, chain: &str, pipeline: &str) -> Vec<Checkpoint> {
        let prefix = format!("{chain}/{pipeline}/");
        let some = self.tree().into_iter().filter_map(|(name, bytes)| {
            let seq = name.strip_prefix(&prefix)?.strip_suffix(".json")?.parse().unwrap();
            Some(Checkpoint::from_bytes(&bytes, pipeline, seq).unwrap())
        });
        some.collect()
    }
    pub(super) fn checkpoints(&self) -> Vec<Checkpoint> {
        self.checkpoints_of("chain", "p")
    }
    /// The kinds of all checkpoints, by first letters: `oddec`.
    pub(super) fn kinds(&self) -> String {
        self.checkpoints().iter().map(|c| &c.kind.as_str()[..if c.kind.as_str() == "closed" { 2 } else { 1 }]).collect()
    }
    pub(super) fn snapshots(&self, table: &str) -> Vec<Snapshot> {
        block_on(self.table(table).paimon().unwrap().snapshots()).unwrap()
    }
    pub(super) fn ids(&self, table: &str) -> Vec<i64> {
        let table = self.table(table);
        let mut ids = block_on(async move {
            let mut rows = table.scan().rows().await.unwrap();
            let mut ids: Vec<i64> = Vec::new();
            while let Some(batch) = rows.next().await.unwrap() {
                ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
            }
            ids
        });
        ids.sort_unstable();
        ids
    }
    /// Every id that the input has.
    pub(super) fn input(&self, keep: Keep) -> Vec<i64> {
        let inputs = self.inputs.lock().unwrap().clone();
        let mut ids: Vec<i64> = inputs.iter().flat_map(|(s, n)| (0..*n).map(|o| id_of(s, o))).filter(|i| keep(*i)).collect();
        ids.sort_unstable();
        ids
    }
    /// User -> what its pin keeps.
    pub(super) fn pins(&self, table: &str) -> BTreeMap<String, u64> {
        let pins = block_on(self.table(table).pins()).unwrap();
        pins.into_iter().map(|(u, at)| (u.to_string(), at)).collect()
    }
    /// As Java expires: upwards, and not what a consumer still wants; or without minding them.
    pub(super) fn expire(&self, table: &str, keep: usize, honour: bool) {
        let ids: Vec<u64> = self.snapshots(table).iter().map(|s| s.id).collect();
        let pinned = self.pins(table).into_values().min().filter(|_| honour).unwrap_or(u64::MAX);
        for id in ids.iter().take(ids.len().saturating_sub(keep)).filter(|id| **id < pinned) {
            self.remove(&format!("{table}/snapshot/snapshot-{id}"));
        }
    }
    /// A commit of somebody else.
    pub(super) fn foreign_commit(&self, table: &str, identifier: i64) {
        let user = crate::format::CommitUser::new("somebody");
        block_on(self.table(table).new_commit(&user).commit(identifier, Vec::new())).unwrap();
    }

    /// Rows exact in these sinks, and each table's history sound.
    #[track_caller]
    pub(super) fn exact(&self, setup: &Setup, what: &str) {
        for (table, keep) in &setup.sinks {
            assert_eq!(self.ids(table), self.input(*keep), "rows of {table}; {what}");
            self.sound(table, what);
        }
    }

    /// I1, I2 and I7, from the table alone.
    #[track_caller]
    pub(super) fn sound(&self, table: &str, what: &str) {
        let mut seen = BTreeSet::new();
        let mut last: BTreeMap<String, i64> = BTreeMap::new();
        let mut stands: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut before: Option<u64> = None;
        for s in self.snapshots(table) {
            assert!(before.is_none_or(|b| s.id == b + 1), "{table}: snapshot {} after {before:?}; {what}", s.id);
            before = Some(s.id);
            let Some(ranges) = s.property(property::OFFSETS) else { continue };
            let user = s.commit_user.clone();
            assert!(seen.insert((user.clone(), s.commit_identifier)), "{table}: {user} {} twice; {what}", s.commit_identifier);
            let newest = last.insert(user.clone(), s.commit_identifier);
            assert!(newest.is_none_or(|n| n < s.commit_identifier), "{table}: identifiers fall; {what}");
            let ranges: BTreeMap<String, [u64; 2]> = serde_json::from_str(ranges).unwrap();
            for (split, [from, to]) in ranges {
                let at = stands.insert((user.clone(), split.clone()), to);
                assert!(at.is_none_or(|at| at == from), "{table}: {user} {split} goes on at {from}, not {at:?}; {what}");
            }
        }
    }
}

async fn live(world: World, life: Arc<Life>, setup: Setup, events: Events, stop: Stop) -> Result<Report> {
    let Some((chain, source)) = open(&world, &life, &setup, &events).await? else {
        return Ok(Report { nothing: true, ..Report::default() });
    };
    let schemas = spec().schema().unwrap().to_arrow();
    let lanes = setup.sinks.iter().enumerate().map(|(i, (_, keep))| Lane {
        sink: i,
        decoders: vec![Box::new(ToIds { schema: schemas.clone(), keep: *keep })],
        watermark: None,
    });
    let coordinator = Coordinator {
        chain,
        source,
        lanes: lanes.collect(),
        dead_letters: None,
        triggers: setup.triggers,
        at_end: setup.at_end,
        commit_empty: setup.commit_empty,
        threads: 2,
        window_bytes: usize::MAX,
        events,
        stop,
    };
    coordinator.run().await
}

/// The start alone.
pub(super) async fn open(world: &World, life: &Arc<Life>, setup: &Setup, events: &Events) -> Result<Option<(Chain, Box<dyn Source>)>> {
    let env = world.env();
    let mut source: Box<dyn Source> = Box::new(Numbers {
        world: world.clone(),
        bounded: setup.bounded,
        chunk: setup.chunk,
        at: Offsets::default(),
        stop: Offsets::default(),
    });
    let mut configured = Vec::new();
    for (name, _) in &setup.sinks {
        let table = Table::open_or_create_in(world.store(name, life), &spec()).await?;
        let sink = Box::new(TableSink::new(table, Duration::from_secs(20))) as Box<dyn Sink>;
        configured.push(Configured { role: Role::Sink, sink });
    }
    let start = Start {
        ledger: Ledger::new(world.store(setup.chain, life), setup.pipeline),
        writer: Writer { host: "host".into(), pid: 7, started: env.now_ms(), run: env.uuid().to_string() },
        events: events.clone(),
        chain: ChainOptions { keep: setup.keep, patience: Duration::from_secs(20) },
        options: setup.options.clone(),
        start: setup.start.to_owned(),
        moment: false,
        until: setup.until.to_owned(),
        opener: &ByUrl { world: world.clone(), life: life.clone() },
    };
    let chain = start.run(configured, source.as_mut()).await?;
    Ok(chain.map(|c| (c, source)))
}

pub(super) fn spec() -> TableSpec {
    TableSpec::paimon([Field::parse(0, "id", "BIGINT NOT NULL").unwrap()])
}

struct ByUrl {
    world: World,
    life: Arc<Life>,
}

#[async_trait]
impl OpenSink for ByUrl {
    async fn open(&self, url: &str, _: &str) -> Result<Box<dyn Sink>> {
        let table = Table::open_in(self.world.store(url.strip_prefix("sim://").unwrap(), &self.life)).await?;
        Ok(Box::new(TableSink::new(table, Duration::from_secs(20))))
    }
}

/// A die with a seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Runs processes by turns that the dice decide, some for many turns at once, until all have ended.
pub(super) fn interleave(processes: Vec<Process>, seed: u64) -> Vec<Ended> {
    let mut dice = Dice(seed);
    let mut all: Vec<Process> = processes;
    let mut live: VecDeque<usize> = (0..all.len()).collect();
    while !live.is_empty() {
        let who = live[usize::try_from(dice.roll(live.len() as u64)).unwrap()];
        let turns = if dice.roll(3) == 0 { 1 + dice.roll(80) } else { 1 + dice.roll(4) };
        for _ in 0..turns {
            if all[who].turn() {
                live.retain(|w| *w != who);
                break;
            }
        }
    }
    all.drain(..).map(Process::end).collect()
}
