//! The only clock, sleep and id maker, and the only way to put work on other threads.
//!
//! Everything else takes an [`Env`]; the lints forbid `SystemTime::now`, `Instant::now`, `Uuid::new_v4`, `tokio::time::sleep` and
//! `spawn` outside this file. That is what makes a run repeatable under simulation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::Either;
use uuid::Uuid;

/// Time, sleep, ids. Two implementations: the real one and the simulated one.
#[async_trait]
pub trait World: Send + Sync {
    /// Wall clock, milliseconds since 1970-01-01 UTC. Decides nothing; it is only written down.
    fn now_ms(&self) -> i64;
    /// Monotonic time since some fixed moment of this process.
    fn monotonic(&self) -> Duration;
    /// Sleeps.
    async fn sleep(&self, time: Duration);
    /// A fresh random id.
    fn uuid(&self) -> Uuid;
    /// True when work may be put on other threads.
    fn threads(&self) -> bool;
    /// Is this rule of the protocol switched off? Never outside simulation.
    #[cfg(any(test, feature = "sim"))]
    fn broken(&self, rule: Rule) -> bool {
        let _ = rule;
        false
    }
}

/// A rule of the protocol that a test can switch off, to see that the harness notices. Production code is built without the switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// The newest identifier is read together with the base to build on.
    OneRead,
    /// After its create a checkpoint is owned only if a listing shows none above it.
    ListAfterCreate,
    /// A checkpoint is created, never overwritten.
    CreateOnly,
    /// An unclear answer is read back.
    ReadBack,
    /// Nothing is deleted after an unclear answer.
    KeepUnclear,
    /// A start finishes `end` in every sink before it writes `closed`.
    FinishEnd,
    /// A rewind closes the old lineage in every sink.
    CloseOld,
    /// All lineages of a pipeline share one chain.
    OneChain,
    /// What a checkpoint says comes before it must equal what the table has.
    Equality,
    /// A lineage's snapshots are pinned against expiry.
    Pin,
    /// A pin is raised only after the checkpoint with that floor is owned.
    PinAfterOwned,
    /// The floor of an `open` is read again after its pin is written.
    FloorAfterPin,
    /// Before a table is called damaged the chain is listed: a newer owner may be at work.
    ListBeforeData,
    /// A merged manifest holds every entry of those that it stands for.
    MergeAll,
    /// A Delta table's state takes in what the commits of others say, their transactions too.
    Winners,
    /// The hint names a Delta checkpoint that is there and was read back.
    HintLast,
}

/// A handle to the [`World`]; cheap to clone.
#[derive(Clone)]
pub struct Env(Arc<dyn World>);

impl Env {
    /// Wraps a world.
    pub fn new(world: Arc<dyn World>) -> Self {
        Env(world)
    }
    /// The real clock, tokio's timer, random ids, tokio's blocking threads.
    pub fn real() -> Self {
        Env(Arc::new(Real::new()))
    }
    /// Wall clock, milliseconds since 1970-01-01 UTC.
    pub fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }
    /// Monotonic time since some fixed moment of this process.
    pub fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
    /// Sleeps.
    pub async fn sleep(&self, time: Duration) {
        self.0.sleep(time).await
    }
    /// A fresh random id.
    pub fn uuid(&self) -> Uuid {
        self.0.uuid()
    }
    /// The moment `after` from now.
    pub fn deadline(&self, after: Duration) -> Deadline {
        Deadline(self.monotonic().checked_add(after).unwrap_or(Duration::MAX))
    }
    /// Time left until `deadline`; `None` when it has passed.
    pub fn left(&self, deadline: Deadline) -> Option<Duration> {
        deadline.0.checked_sub(self.monotonic()).filter(|d| !d.is_zero())
    }
    /// Runs a CPU-bound closure: on a blocking thread in production, inline under simulation. The work starts at once, also when nobody
    /// polls the future yet; a future that is dropped does not stop it.
    pub fn cpu<T, F>(&self, work: F) -> impl Future<Output = T> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
        let started = if self.0.threads() { Either::Left(tokio::task::spawn_blocking(work)) } else { Either::Right(work()) };
        async move {
            let task = match started {
                Either::Right(value) => return value,
                Either::Left(task) => task,
            };
            match task.await {
                Ok(value) => value,
                Err(join) => match join.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => futures::future::pending().await, // the runtime is shutting down; nobody waits for this any more
                },
            }
        }
    }
    /// Does work beside everything else, on a thread of its own, and says nothing of its end. Where there are no threads the work is given
    /// back, and whoever asked does it.
    pub fn aside<F>(&self, work: F) -> Option<F>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if !self.0.threads() {
            return Some(work);
        }
        #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
        drop(tokio::task::spawn_blocking(move || futures::executor::block_on(work)));
        None
    }
    /// The same environment for work that [`Env::aside`] does: its waits stop the thread, and need no timer of a runtime that may be ending.
    pub(crate) fn on_a_thread(&self) -> Env {
        if self.0.threads() { Env(Arc::new(OnAThread(self.clone()))) } else { self.clone() }
    }
    /// Lets others go on: whoever drives this future may look at what has happened so far. Local disk never makes a future wait.
    pub async fn yield_once(&self) {
        let mut yielded = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return std::task::Poll::Ready(());
            }
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await
    }
    /// May work be put on other threads? Not under simulation.
    pub(crate) fn threads(&self) -> bool {
        self.0.threads()
    }
    /// Is this rule switched off? Never outside simulation.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn broken(&self, rule: Rule) -> bool {
        self.0.broken(rule)
    }
    /// Is this rule switched off? Never outside simulation.
    #[cfg(not(any(test, feature = "sim")))]
    pub(crate) const fn broken(&self, _: Rule) -> bool {
        false
    }
    /// A wait before try number `attempt` (0-based): exponential from 50 ms to 5 s, with full jitter on the upper half.
    pub fn backoff(&self, attempt: u32) -> Duration {
        let base = Duration::from_millis(50).saturating_mul(1 << attempt.min(7)).min(Duration::from_secs(5));
        let jitter = u64::from(self.uuid().as_bytes()[15]);
        base / 2 + (base / 2).mul_f64(jitter as f64 / 255.0)
    }
}

/// See [`Env::on_a_thread`].
struct OnAThread(Env);

#[async_trait]
impl World for OnAThread {
    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
    #[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
    async fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
    fn uuid(&self) -> Uuid {
        self.0.uuid()
    }
    fn threads(&self) -> bool {
        true
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}

/// A moment on the monotonic clock; made by [`Env::deadline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Duration);

impl Deadline {
    /// A moment that never comes.
    pub const NEVER: Deadline = Deadline(Duration::MAX);
}

struct Real {
    started: std::time::Instant,
}

impl Real {
    #[expect(clippy::disallowed_methods, reason = "this is the one clock")]
    fn new() -> Self {
        Real { started: std::time::Instant::now() }
    }
}

#[async_trait]
impl World for Real {
    #[expect(clippy::disallowed_methods, reason = "this is the one clock")]
    fn now_ms(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map(|d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX)).unwrap_or(0)
    }
    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
    #[expect(clippy::disallowed_methods, reason = "this is the one sleep")]
    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await
    }
    #[expect(clippy::disallowed_methods, reason = "this is the one id maker")]
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
    fn threads(&self) -> bool {
        true
    }
}
