//! What goes on at the same time in a run with threads, and what never does. The store is in memory, the clock is the real one; sinks, source
//! and decoder say what they do, and wait where a test holds them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow::array::{AsArray as _, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use crate::decode::{Decoded, Decoder};
use crate::env::{Deadline, Env};
use crate::error::{Error, Kind, Result};
use crate::format::CommitUser;
use crate::schema::Field;
use crate::sink::table::TableSink;
use crate::sink::{Anchor, CloseUser, ClosedAt, Message, Outcome, Sink, SinkCommit, SinkWriter};
use crate::source::{Offsets, Origin, Polled, Position, Records, Resolved, Source};
use crate::store::{Store, StoreOptions};
use crate::stream::checkpoint::{Role, Writer};
use crate::stream::coordinator::{AtEnd, Coordinator, Lane, Report, Stop, Triggers};
use crate::stream::{ChainOptions, Configured, Events, Ledger, OpenTables, Start, StartOptions};
use crate::table::{Table, TableSpec};

/// What happened, in order, and where things wait.
struct Stage {
    env: Env,
    log: Mutex<Vec<String>>,
    /// A commit takes one.
    commits: Semaphore,
    /// A write takes one.
    writes: Semaphore,
    polls: AtomicUsize,
    table: Table,
}

impl Stage {
    async fn new(name: &str) -> Arc<Stage> {
        let env = Env::real();
        let store = Store::open(&format!("memory://overlap-{name}/t"), &env, StoreOptions::default()).unwrap();
        let spec = TableSpec::paimon([Field::parse(0, "id", "BIGINT NOT NULL").unwrap()]);
        let table = Table::open_or_create_in(store, &spec).await.unwrap();
        let (commits, writes) = (Semaphore::new(1000), Semaphore::new(1000));
        Arc::new(Stage { env, log: Mutex::default(), commits, writes, polls: AtomicUsize::new(0), table })
    }
    fn say(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
    }
    fn at(&self, what: &str) -> Option<usize> {
        self.log.lock().unwrap().iter().position(|line| line == what)
    }
    async fn until(&self, what: &str) {
        for _ in 0..1000 {
            if self.at(what).is_some() {
                return;
            }
            self.env.sleep(Duration::from_millis(5)).await;
        }
        panic!("never came to {what}: {:?}", self.log.lock().unwrap());
    }
    fn writes(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().filter(|line| line.starts_with("write")).cloned().collect()
    }
    async fn rows(&self) -> u64 {
        self.table.scan().count().await.unwrap()
    }
}

/// Gives chunks of ten records with rising ids; then nothing, or the end.
struct Chunks {
    stage: Arc<Stage>,
    chunks: usize,
    ends: bool,
    next: usize,
}

const EACH: usize = 10;

#[async_trait]
impl Source for Chunks {
    async fn resolve(&mut self, _: Option<&Offsets>) -> Result<Resolved> {
        Ok(Resolved::default())
    }
    async fn seek(&mut self, _: &Offsets, _: Option<&Offsets>) -> Result<()> {
        Ok(())
    }
    async fn poll(&mut self, deadline: Deadline) -> Result<Polled> {
        if self.next == self.chunks {
            if self.ends {
                return Ok(Polled::End);
            }
            self.stage.env.sleep(self.stage.env.left(deadline).unwrap_or_default()).await;
            return Ok(Polled::Idle);
        }
        self.stage.say(format!("poll {}", self.next));
        self.stage.polls.fetch_add(1, Ordering::SeqCst);
        let origin = Origin { split: "s".into(), name: "s".into(), partition: None, header: None };
        let mut records = Records::none(Arc::new(origin));
        let mut text = String::new();
        for id in self.next * EACH..(self.next + 1) * EACH {
            text.push_str(&format!("{id:>10}"));
            records.ends.push(text.len());
            records.offsets.push(id as u64);
        }
        records.bytes = Bytes::from(text);
        self.next += 1;
        Ok(Polled::Records(records))
    }
    fn position(&self) -> Offsets {
        [("s".to_owned(), Position { offset: (self.next * EACH) as u64, note: None })].into()
    }
    async fn committed(&mut self, offsets: &Offsets) -> Result<()> {
        self.stage.say(format!("told {}", offsets.offset("s")));
        Ok(())
    }
}

/// Takes longer for earlier chunks, if it is to; fails at this id.
struct Slow {
    stage: Arc<Stage>,
    falling: bool,
    fails_at: Option<i64>,
}

impl Decoder for Slow {
    #[expect(clippy::disallowed_methods, reason = "work for a while")]
    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        let ids: Vec<i64> = (0..records.len()).map(|i| std::str::from_utf8(records.value(i)).unwrap().trim().parse().unwrap()).collect();
        if self.falling {
            std::thread::sleep(Duration::from_millis(if (ids[0] / EACH as i64) % 2 == 0 { 40 } else { 1 }));
        }
        if self.fails_at.is_some_and(|id| ids.contains(&id)) {
            self.stage.say("decoding fails");
            return Err(Error::internal("the decoder has a bug"));
        }
        let batch = RecordBatch::try_new(self.stage.table.schema().to_arrow(), vec![Arc::new(Int64Array::from(ids))])?;
        Ok(Decoded { batch, rejects: Vec::new() })
    }
}

/// A table whose commits and writes can be held.
struct Held {
    stage: Arc<Stage>,
    inner: TableSink,
}

struct HeldRows {
    stage: Arc<Stage>,
    inner: Box<dyn SinkWriter>,
}

#[async_trait]
impl Sink for Held {
    fn begin(&self, user: &CommitUser) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(HeldRows { stage: self.stage.clone(), inner: self.inner.begin(user)? }))
    }
    async fn commit(&mut self, commit: &SinkCommit) -> Result<Outcome> {
        self.stage.say(format!("commit {} begins", commit.identifier));
        self.stage.commits.acquire().await.unwrap().forget();
        let outcome = self.inner.commit(commit).await?;
        self.stage.say(format!("commit {} ends", commit.identifier));
        Ok(outcome)
    }
    async fn close(&mut self, close: &CloseUser) -> Result<ClosedAt> {
        self.inner.close(close).await
    }
    fn anchor(&self) -> &dyn Anchor {
        self.inner.anchor()
    }
}

#[async_trait]
impl SinkWriter for HeldRows {
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.stage.writes.acquire().await.unwrap().forget();
        self.stage.say(format!("write {}", batch.column(0).as_primitive::<Int64Type>().value(0)));
        self.inner.write(batch).await
    }
    async fn prepare(&mut self) -> Result<Vec<Message>> {
        self.inner.prepare().await
    }
}

#[derive(Clone, Copy)]
struct Setup {
    chunks: usize,
    ends: bool,
    threads: usize,
    window: usize,
    triggers: Triggers,
    falling: bool,
    fails_at: Option<i64>,
}

impl Default for Setup {
    fn default() -> Self {
        let triggers = Triggers { rows: Some(EACH as u64), ..Triggers::default() };
        Setup { chunks: 4, ends: true, threads: 4, window: usize::MAX, triggers, falling: false, fails_at: None }
    }
}

fn run(stage: Arc<Stage>, name: &'static str, setup: Setup, stop: Stop) -> BoxFuture<'static, Result<Report>> {
    Box::pin(run_on(stage, name, setup, stop))
}

async fn run_on(stage: Arc<Stage>, name: &'static str, setup: Setup, stop: Stop) -> Result<Report> {
    let env = stage.env.clone();
    let mut source = Box::new(Chunks { stage: stage.clone(), chunks: setup.chunks, ends: setup.ends, next: 0 });
    let store = Store::open(&format!("memory://overlap-{name}/c"), &env, StoreOptions::default())?;
    let timeout = Duration::from_secs(60);
    let sink = Held { stage: stage.clone(), inner: TableSink::new(stage.table.clone(), timeout) };
    let start = Start {
        ledger: Ledger::new(store, "p"),
        writer: Writer::here(&env),
        events: Events::ignored(),
        chain: ChainOptions::default(),
        options: StartOptions::default(),
        start: String::new(),
        moment: false,
        until: String::new(),
        opener: &OpenTables { env: env.clone(), timeout, store: StoreOptions::default() },
    };
    let chain = start.run(vec![Configured { role: Role::Sink, sink: Box::new(sink) }], source.as_mut()).await?.unwrap();
    let decoder = || Box::new(Slow { stage: stage.clone(), falling: setup.falling, fails_at: setup.fails_at }) as Box<dyn Decoder>;
    let coordinator = Coordinator {
        chain,
        source,
        lanes: vec![Lane { sink: 0, decoders: (0..setup.threads).map(|_| decoder()).collect(), watermark: None }],
        dead_letters: None,
        triggers: setup.triggers,
        at_end: AtEnd::Pause,
        commit_empty: false,
        threads: setup.threads,
        window_bytes: setup.window,
        events: Events::ignored(),
        stop,
    };
    coordinator.run().await
}

/// The run beside the test's own steps.
async fn beside<T>(run: BoxFuture<'static, Result<Report>>, steps: impl Future<Output = T>) -> (Result<Report>, T) {
    futures::join!(run, steps)
}

#[tokio::test]
async fn while_a_commit_hangs_the_next_rows_are_written_and_no_checkpoint_follows() {
    let stage = Stage::new("hangs").await;
    stage.commits.forget_permits(1000);
    let steps = async {
        stage.until("commit 1 begins").await;
        stage.until("write 10").await;
        stage.env.sleep(Duration::from_millis(300)).await;
        assert_eq!(stage.at("commit 1 ends"), None);
        assert_eq!(stage.at("commit 2 begins"), None, "checkpoint 2 follows only on commit 1");
        assert_eq!(stage.polls.load(Ordering::SeqCst), 2, "an interval takes no more than its rows while the one before hangs");
        assert_eq!(stage.rows().await, 0, "what is written is not visible");
        stage.commits.add_permits(1000);
    };
    let (report, ()) = beside(run(stage.clone(), "hangs", Setup::default(), Stop::default()), steps).await;
    assert_eq!(report.unwrap().checkpoints, 4);
    assert_eq!(stage.rows().await, 40);
    for n in 1..4 {
        let (ends, begins) = (stage.at(&format!("commit {n} ends")).unwrap(), stage.at(&format!("commit {} begins", n + 1)).unwrap());
        assert!(ends < begins, "{:?}", stage.log.lock().unwrap());
        assert!(stage.at(&format!("told {}", n * EACH)).unwrap() > ends, "offsets are told only after the commit");
    }
}

#[tokio::test]
async fn with_time_alone_as_trigger_reading_goes_on_until_the_commit_is_there() {
    let stage = Stage::new("time").await;
    stage.commits.forget_permits(1000);
    let triggers = Triggers { every: Some(Duration::from_millis(50)), ..Triggers::default() };
    let steps = async {
        stage.until("commit 1 begins").await;
        stage.env.sleep(Duration::from_millis(300)).await;
        assert_eq!(stage.at("commit 2 begins"), None);
        stage.commits.add_permits(1000);
        stage.until("told 10").await;
    };
    let setup = Setup { chunks: 1, ends: false, triggers, ..Setup::default() };
    let stop = Stop::default();
    let steps = async {
        steps.await;
        stop.request();
    };
    let (report, ()) = beside(run(stage.clone(), "time", setup, stop.clone()), steps).await;
    assert_eq!(report.unwrap().checkpoints, 1);
    assert_eq!(stage.rows().await, 10);
}

#[tokio::test]
async fn with_one_thread_nothing_is_read_while_a_commit_is_pending() {
    let stage = Stage::new("one").await;
    run(stage.clone(), "one", Setup { threads: 1, ..Setup::default() }, Stop::default()).await.unwrap();
    let log = stage.log.lock().unwrap().clone();
    let wanted: Vec<String> = (0..4)
        .flat_map(|n| {
            let id = n + 1;
            [
                format!("poll {n}"),
                format!("write {}", n * EACH),
                format!("commit {id} begins"),
                format!("commit {id} ends"),
                format!("told {}", id * EACH),
            ]
        })
        .collect();
    assert_eq!(log, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_are_written_in_the_order_in_which_they_were_read_whoever_is_decoded_first() {
    let stage = Stage::new("order").await;
    let setup = Setup { chunks: 20, falling: true, triggers: Triggers::default(), ..Setup::default() };
    run(stage.clone(), "order", setup, Stop::default()).await.unwrap();
    let wanted: Vec<String> = (0..20).map(|n| format!("write {}", n * EACH)).collect();
    assert_eq!(stage.writes(), wanted);
    let (reads, first) = (stage.at("poll 3").unwrap(), stage.at("write 0").unwrap());
    assert!(reads < first, "several chunks are in decode before the first is done");
    assert_eq!(stage.rows().await, 200);
}

#[tokio::test]
async fn when_nothing_can_be_written_the_source_is_not_polled_beyond_the_window() {
    for (name, window, polls) in [("chunks", usize::MAX, 5), ("bytes", 2 * 10 * EACH + 1, 2), ("one-chunk", 1, 1)] {
        let stage = Stage::new(name).await;
        stage.writes.forget_permits(1000);
        let setup = Setup { chunks: 50, window, triggers: Triggers::default(), ..Setup::default() };
        let steps = async {
            stage.env.sleep(Duration::from_millis(400)).await;
            assert_eq!(stage.polls.load(Ordering::SeqCst), polls, "{name}");
            stage.writes.add_permits(1000);
        };
        let (report, ()) = beside(run(stage.clone(), name, setup, Stop::default()), steps).await;
        assert_eq!(report.unwrap().rows, 500);
        assert_eq!(stage.rows().await, 500);
    }
}

#[tokio::test]
async fn an_error_while_a_commit_is_pending_ends_the_run_after_that_commit() {
    let stage = Stage::new("error").await;
    stage.commits.forget_permits(1000);
    let steps = async {
        stage.until("decoding fails").await;
        stage.env.sleep(Duration::from_millis(200)).await;
        assert_eq!(stage.rows().await, 0);
        stage.commits.add_permits(1000);
    };
    let setup = Setup { fails_at: Some(15), ..Setup::default() };
    let (report, ()) = beside(run(stage.clone(), "error", setup, Stop::default()), steps).await;
    assert_eq!(report.unwrap_err().kind(), Kind::Internal);
    assert_eq!(stage.rows().await, 10, "the pending commit landed, and nothing else");
    assert!(stage.at("told 10").is_some());
}

#[tokio::test]
async fn a_lone_record_is_written_at_once_and_a_stop_is_seen() {
    let stage = Stage::new("lone").await;
    let setup = Setup { chunks: 1, ends: false, triggers: Triggers::default(), ..Setup::default() };
    let stop = Stop::default();
    let steps = async {
        let started = stage.env.monotonic();
        stage.until("write 0").await;
        assert!(stage.env.monotonic() - started < Duration::from_millis(500), "it does not wait for another chunk");
        stop.request();
        stage.env.monotonic()
    };
    let (report, asked) = beside(run(stage.clone(), "lone", setup, stop.clone()), steps).await;
    assert_eq!(report.unwrap().checkpoints, 1);
    assert!(stage.env.monotonic() - asked < Duration::from_secs(1));
    assert_eq!(stage.rows().await, 10);
}
