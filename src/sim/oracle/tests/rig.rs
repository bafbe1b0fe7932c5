//! Small worlds made by the production code, as lists of what it did to the store.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use uuid::Uuid;

use super::super::reader::{Cache, Format, Objects, Row, RowColumns};
use super::super::{Config, Oracle, Summary, TableConfig, Violation};
use crate::decode::{Decoded, Decoder, Reject, Stage};
use crate::env::{Deadline, Env};
use crate::error::Result;
use crate::schema::Field;
use crate::sim::effect::{Effect, Op};
use crate::sink::Sink;
use crate::sink::table::TableSink;
use crate::source::{Offsets, Origin, Polled, Position, Records, Resolved, Source};
use crate::store::{Store, StoreOptions};
use crate::stream::checkpoint::{Role, Writer};
use crate::stream::coordinator::{AtEnd, Coordinator, Lane, Report, Stop, Triggers};
use crate::stream::{ChainOptions, Configured, Events, Ledger, OpenSink, Start, StartOptions, dead_letters};
use crate::table::{Table, TableSpec};

/// What a process is told.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) format: Format,
    /// Name, and whether it is partitioned.
    pub(super) sinks: Vec<(&'static str, bool)>,
    /// Every record whose offset is divisible by 5 is a dead letter.
    pub(super) dead: bool,
    pub(super) input: Vec<(&'static str, u64)>,
    pub(super) at_end: AtEnd,
    pub(super) keep: usize,
    pub(super) commit_empty: bool,
    pub(super) options: StartOptions,
}

impl Setup {
    pub(super) fn two() -> Setup {
        Setup {
            format: Format::Paimon,
            sinks: vec![("one", false), ("two", true)],
            dead: false,
            input: vec![("a", 6), ("b", 3)],
            at_end: AtEnd::Close,
            keep: 10,
            commit_empty: false,
            options: StartOptions::default(),
        }
    }
    pub(super) fn one() -> Setup {
        Setup { sinks: vec![("one", false)], ..Setup::two() }
    }
    pub(super) fn reading(self, input: &[(&'static str, u64)]) -> Setup {
        Setup { input: input.to_vec(), ..self }
    }
    pub(super) fn of(self, format: Format) -> Setup {
        Setup { format, ..self }
    }
    pub(super) fn paused(self) -> Setup {
        Setup { at_end: AtEnd::Pause, ..self }
    }
    pub(super) fn rewind(mut self, k: u64) -> Setup {
        self.options.asked.rewind = Some(k);
        self
    }
    pub(super) fn abandon(mut self, n: u64) -> Setup {
        self.options.asked.abandon = Some(n);
        self
    }
    fn offset_of(i: u64) -> u64 {
        i + i / 2
    }
    /// What belongs where.
    pub(super) fn config(&self) -> Config {
        let rows = |dead: bool| -> Vec<Row> {
            let all = self.input.iter().flat_map(|(s, n)| (0..*n).map(|i| ((*s).to_owned(), Self::offset_of(i) as i64)));
            all.filter(|(_, o)| !self.dead || dead == (o % 5 == 0)).collect()
        };
        let table = |name: &str, columns, rows| TableConfig {
            root: format!("{name}/"),
            format: self.format,
            url: format!("sim://{name}"),
            columns,
            rows,
        };
        let mut tables: Vec<TableConfig> = self.sinks.iter().map(|(n, _)| table(n, RowColumns::SplitOff, rows(false))).collect();
        if self.dead {
            tables.push(table("dead", RowColumns::TopicOffset, rows(true)));
        }
        Config { chain: "chain/p/".into(), keep: self.keep, commit_empty: self.commit_empty, tables }
    }
}

/// Everything that was done to a store, from its beginning.
#[derive(Clone, Default)]
pub(super) struct World {
    pub(super) effects: Vec<Effect>,
    processes: u64,
}

impl World {
    /// Runs a process to its end.
    pub(super) fn run(&mut self, setup: &Setup) -> Result<Report> {
        self.on_store(async |life| live(life, setup.clone()).await)
    }
    /// A process runs well.
    pub(super) fn then(mut self, setup: &Setup) -> World {
        self.run(setup).unwrap();
        self
    }
    /// Somebody else commits an empty snapshot.
    pub(super) fn foreign_commit(&mut self, table: &str, identifier: i64) {
        let from = self.effects.len();
        self.on_store(async |life| {
            let table = Table::open_in(life.store(table)).await?;
            table.new_commit(&crate::format::CommitUser::new("somebody")).commit(identifier, Vec::new()).await
        })
        .unwrap();
        self.effects[from..].iter_mut().for_each(|e| e.process = Effect::OUTSIDE);
    }
    fn on_store<T>(&mut self, work: impl AsyncFnOnce(Life) -> T) -> T {
        self.processes += 1;
        let objects = InMemory::new();
        for (key, bytes) in self.objects() {
            block_on(objects.put(&Path::parse(key).unwrap(), PutPayload::from(bytes))).unwrap();
        }
        let effects = Arc::new(Mutex::new(std::mem::take(&mut self.effects)));
        let life = Life { number: self.processes, objects: Arc::new(objects), effects: effects.clone(), clock: Arc::default() };
        let done = block_on(work(life));
        self.effects = effects.lock().unwrap().clone();
        done
    }
    /// As if everybody had died after `n` effects.
    pub(super) fn cut(&self, n: usize) -> World {
        World { effects: self.effects[..n].to_vec(), processes: self.processes }
    }
    /// As if everybody had died right before this key was touched.
    pub(super) fn cut_before(&self, key: &str) -> World {
        self.cut(self.find(key))
    }
    /// Where a key was first touched.
    pub(super) fn find(&self, key: &str) -> usize {
        self.effects.iter().position(|e| e.key == key).unwrap_or_else(|| panic!("{key} is not in {:?}", self.keys()))
    }
    pub(super) fn keys(&self) -> Vec<&str> {
        self.effects.iter().map(|e| e.key.as_str()).collect()
    }
    pub(super) fn objects(&self) -> Objects {
        let mut objects = Objects::new();
        self.effects.iter().for_each(|e| apply(e, &mut objects));
        objects
    }
    /// One more effect: of process 1, or of somebody else.
    pub(super) fn change(&mut self, key: &str, after: Option<Bytes>) {
        self.change_by(1, key, after);
    }
    pub(super) fn expire(&mut self, key: &str) {
        self.change_by(Effect::OUTSIDE, key, None);
        self.effects.last_mut().unwrap().by_expiry = true;
    }
    pub(super) fn change_by(&mut self, process: usize, key: &str, after: Option<Bytes>) {
        let before = self.objects().get(key).cloned();
        let op = if after.is_some() { Op::Put } else { Op::Delete };
        self.effects.push(Effect { process, op, key: key.to_owned(), before, after, by_expiry: false });
    }
    /// Changes the JSON object that an effect wrote.
    pub(super) fn edit(&mut self, key: &str, edit: impl FnOnce(&mut serde_json::Value)) {
        let at = self.find(key);
        let mut json = serde_json::from_slice(self.effects[at].after.as_ref().unwrap()).unwrap();
        edit(&mut json);
        self.effects[at].after = Some(serde_json::to_vec(&json).unwrap().into());
    }
    /// What the oracle says of it, up to the end.
    pub(super) fn verdict(&self, config: Config) -> std::result::Result<Summary, Violation> {
        self.verdict_with(config, &Cache::default())
    }
    pub(super) fn verdict_with(&self, config: Config, cache: &Cache) -> std::result::Result<Summary, Violation> {
        let (mut oracle, mut objects) = (Oracle::new(config, cache), Objects::new());
        for effect in &self.effects {
            apply(effect, &mut objects);
            oracle.after_call(effect, &objects)?;
        }
        oracle.at_end(&objects)
    }
}

fn apply(effect: &Effect, objects: &mut Objects) {
    match &effect.after {
        Some(bytes) => drop(objects.insert(effect.key.clone(), bytes.clone())),
        None => drop(objects.remove(&effect.key)),
    }
}

/// Runs a future that never waits for anything but its turn.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
}

#[derive(Clone)]
struct Life {
    number: u64,
    objects: Arc<InMemory>,
    effects: Arc<Mutex<Vec<Effect>>>,
    clock: Arc<Clock>,
}

#[derive(Default)]
struct Clock {
    micros: AtomicU64,
    ids: AtomicU64,
    process: AtomicU64,
}

#[async_trait]
impl crate::env::World for Clock {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + i64::try_from(self.micros.load(Ordering::SeqCst) / 1000).unwrap()
    }
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }
    async fn sleep(&self, time: Duration) {
        self.micros.fetch_add(u64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }
    fn uuid(&self) -> Uuid {
        let process = u128::from(self.process.load(Ordering::SeqCst));
        Uuid::from_u128((0xabcd << 112) | (process << 64) | u128::from(self.ids.fetch_add(1, Ordering::SeqCst)))
    }
    fn threads(&self) -> bool {
        false
    }
}

impl Life {
    fn env(&self) -> Env {
        self.clock.process.store(self.number, Ordering::SeqCst);
        Env::new(self.clock.clone())
    }
    fn store(&self, name: &str) -> Store {
        Store::over(Arc::new(self.clone()), Path::from(name), format!("sim://{name}"), &self.env(), StoreOptions::default())
    }
    async fn bytes(&self, location: &Path) -> Option<Bytes> {
        Some(self.objects.get(location).await.ok()?.bytes().await.unwrap())
    }
    async fn changed(&self, op: Op, location: &Path, before: Option<Bytes>) {
        let (process, after) = (usize::try_from(self.number).unwrap(), self.bytes(location).await);
        self.effects.lock().unwrap().push(Effect { process, op, key: location.to_string(), before, after, by_expiry: false });
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Life")
    }
}
impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Life")
    }
}

#[async_trait]
impl ObjectStore for Life {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> object_store::Result<PutResult> {
        let before = self.bytes(location).await;
        let op = if opts.mode == PutMode::Create { Op::Create } else { Op::Put };
        let done = self.objects.put_opts(location, payload, opts).await;
        self.changed(op, location, before).await;
        done
    }
    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> object_store::Result<Box<dyn MultipartUpload>> {
        Err(object_store::Error::NotImplemented { operation: "multipart".into(), implementer: "test".into() })
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.objects.get_opts(location, options).await
    }
    fn delete_stream(&self, locations: BoxStream<'static, object_store::Result<Path>>) -> BoxStream<'static, object_store::Result<Path>> {
        let life = self.clone();
        let delete = move |location: object_store::Result<Path>| {
            let life = life.clone();
            async move {
                let location = location?;
                let before = life.bytes(&location).await;
                life.objects.delete(&location).await?;
                life.changed(Op::Delete, &location, before).await;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.objects.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        Err(object_store::Error::NotImplemented { operation: "copy".into(), implementer: "test".into() })
    }
}

fn named(format: Format) -> crate::format::Format {
    match format {
        Format::Paimon => crate::format::Format::Paimon,
        Format::Delta => crate::format::Format::Delta,
    }
}

fn spec(format: Format, partitioned: bool) -> TableSpec {
    let fields = [(0, "split", "STRING NOT NULL"), (1, "off", "BIGINT NOT NULL"), (2, "part", "INT NOT NULL")];
    let fields = fields.map(|(id, name, text)| Field::parse(id, name, text).unwrap());
    let options = match format {
        Format::Paimon => Default::default(),
        Format::Delta => [("delta.checkpointInterval".to_owned(), "2".to_owned())].into(),
    };
    let spec = TableSpec::new(named(format), fields).options(options);
    if partitioned { spec.partition_by(["part", "split"]) } else { spec }
}

async fn live(life: Life, setup: Setup) -> Result<Report> {
    let mut source: Box<dyn Source> = Box::new(Splits { input: setup.input.clone(), at: Offsets::default(), stop: Offsets::default() });
    let (mut configured, mut lanes) = (Vec::new(), Vec::new());
    for (i, (name, partitioned)) in setup.sinks.iter().enumerate() {
        let table = Table::open_or_create_in(life.store(name), &spec(setup.format, *partitioned)).await?;
        let decoder = Box::new(ToRows { schema: table.schema().to_arrow(), dead: setup.dead });
        lanes.push(Lane { sink: i, decoders: vec![decoder], watermark: None });
        configured.push(Configured { role: Role::Sink, sink: Box::new(TableSink::new(table, Duration::from_secs(20))) as Box<dyn Sink> });
    }
    if setup.dead {
        let table = Table::open_or_create_in(life.store("dead"), &TableSpec::new(named(setup.format), dead_letters::columns())).await?;
        configured.push(Configured { role: Role::DeadLetter, sink: Box::new(TableSink::new(table, Duration::from_secs(20))) });
    }
    let env = life.env();
    let start = Start {
        ledger: Ledger::new(life.store("chain"), "p"),
        writer: Writer { host: "host".into(), pid: 7, started: env.now_ms(), run: env.uuid().to_string() },
        events: Events::ignored(),
        chain: ChainOptions { keep: setup.keep, patience: Duration::from_secs(20) },
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
        dead_letters: setup.dead.then_some(setup.sinks.len()),
        triggers: Triggers { rows: Some(2), ..Triggers::default() },
        at_end: setup.at_end,
        commit_empty: setup.commit_empty,
        threads: 1,
        window_bytes: usize::MAX,
        events: Events::ignored(),
        stop: Stop::default(),
    };
    coordinator.run().await
}

struct ByUrl(Life);

#[async_trait]
impl OpenSink for ByUrl {
    async fn open(&self, url: &str, _: &str) -> Result<Box<dyn Sink>> {
        let table = Table::open_in(self.0.store(url.strip_prefix("sim://").unwrap())).await?;
        Ok(Box::new(TableSink::new(table, Duration::from_secs(20))))
    }
}

/// Two records a poll.
struct Splits {
    input: Vec<(&'static str, u64)>,
    at: Offsets,
    stop: Offsets,
}

impl Splits {
    fn ends(&self) -> Offsets {
        let end = |n: u64| Position { offset: Setup::offset_of(n - 1) + 1, note: None };
        self.input.iter().map(|(s, n)| ((*s).to_owned(), end(*n))).collect()
    }
}

#[async_trait]
impl Source for Splits {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        Ok(Resolved { start: from.cloned().unwrap_or_default(), stop: Some(self.ends()) })
    }
    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        self.at = offsets.clone();
        self.stop = stop.cloned().unwrap_or_else(|| self.ends());
        Ok(())
    }
    async fn poll(&mut self, _: Deadline) -> Result<Polled> {
        for (split, n) in &self.input {
            let (at, stop) = (self.at.offset(split), self.stop.offset(split));
            let offsets: Vec<u64> = (0..*n).map(Setup::offset_of).filter(|o| (at..stop).contains(o)).take(2).collect();
            let Some(last) = offsets.last() else { continue };
            let origin = Origin { split: (*split).to_owned(), name: (*split).to_owned(), partition: None, header: None };
            let mut records = Records::none(Arc::new(origin));
            records.bytes = Bytes::from_static(b"x");
            records.ends = vec![1; offsets.len()];
            self.at.0.insert((*split).to_owned(), Position { offset: last + 1, note: None });
            records.offsets = offsets;
            return Ok(Polled::Records(records));
        }
        Ok(Polled::End)
    }
    fn position(&self) -> Offsets {
        self.at.clone()
    }
}

struct ToRows {
    schema: SchemaRef,
    dead: bool,
}

impl Decoder for ToRows {
    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        let (mut offsets, mut rejects) = (Vec::new(), Vec::new());
        for (index, offset) in records.offsets.iter().enumerate() {
            if self.dead && offset.is_multiple_of(5) {
                rejects.push(Reject { index, stage: Stage::Decode, error: "broken".into(), field: None });
            } else {
                offsets.push(i64::try_from(*offset).unwrap());
            }
        }
        let parts = arrow::array::Int32Array::from_iter_values(offsets.iter().map(|o| i32::try_from(o % 2).unwrap() - 1));
        let splits = StringArray::from(vec![records.origin.split.as_str(); offsets.len()]);
        let columns: Vec<ArrayRef> = vec![Arc::new(splits), Arc::new(Int64Array::from(offsets)), Arc::new(parts)];
        Ok(Decoded { batch: RecordBatch::try_new(self.schema.clone(), columns).unwrap(), rejects })
    }
}
