//! What is known of a run while it runs. Its events and its source write it; metrics, health, the progress line and the watchdog read it,
//! from another thread: also while the run computes, or hangs in a commit.

mod beside;
mod exposition;
mod health;
mod observed;
#[cfg(feature = "metrics")]
mod serve;
#[cfg(test)]
mod tests;
mod watch;

pub(super) use self::beside::Beside;
pub use self::exposition::FAMILIES;
pub use self::health::{Health, Lag};
pub(super) use self::observed::Observed;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch as cell;

use self::exposition::Histogram;
use self::watch::Silence;
use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::pipeline::file::{PipelineFile, SourceKind, WatchdogSpec};
use crate::source::Status;
use crate::stream::Event;

/// Speed is that of the last so many seconds.
const SPEED_OVER: Duration = Duration::from_secs(10);

/// Looks into a run while it runs: [`Monitor::metrics`], [`Monitor::health`]. Made with the run ([`super::Run::monitor`]); stays good after it.
pub struct Monitor {
    env: Env,
    settings: Settings,
    state: Mutex<State>,
    /// Why the watchdog ends the run.
    end: cell::Sender<Option<String>>,
}

/// What the pipeline file says of it.
#[derive(Clone, Debug)]
struct Settings {
    pipeline: String,
    watchdog: Option<WatchdogSpec>,
    idle_after: Option<Duration>,
    /// Is time a trigger?
    timed: bool,
    rows: Option<u64>,
    bytes: Option<u64>,
    memory: u64,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Starting,
    Running,
    Ended,
    Failed,
}

/// Records and bytes, counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Volume {
    records: u64,
    bytes: u64,
}

/// One sink's commits.
#[derive(Clone, Debug, Default)]
struct Commits {
    commits: u64,
    rows: u64,
    bytes: u64,
    files: u64,
    snapshot: u64,
    took: Histogram,
}

#[derive(Clone, Debug, Default)]
struct State {
    stage: Stage,
    /// The error that ended the run.
    failed: Option<String>,
    fenced: bool,
    /// Wall clock, milliseconds.
    started_ms: i64,
    /// The same moment, monotonic.
    began: Duration,
    run: Option<String>,
    user: Option<String>,
    seq: Option<u64>,
    identifier: Option<i64>,
    /// When everything that was read was last committed, or the run began; monotonic.
    settled: Duration,
    /// When the last commit landed: wall clock in milliseconds, and monotonic.
    committed: Option<(i64, Duration)>,
    /// Since when input waits; monotonic.
    waiting: Option<Duration>,
    /// Why the watchdog speaks, until a commit comes or nothing waits any more.
    stalled: Option<String>,
    /// Did it speak since the last commit?
    spoke: bool,
    stalls: u64,
    /// A checkpoint is owned and its commit is not over.
    under_way: bool,
    /// The source said that there is no more.
    end_of_input: bool,
    read: Volume,
    /// Of `read`, what is committed.
    settled_read: Volume,
    /// Of `read`, what the checkpoint has that is being made.
    taken: Volume,
    /// Offsets to read next, summed over all splits, when that checkpoint was made.
    taken_offsets: u64,
    sinks: BTreeMap<String, Commits>,
    checkpoints: BTreeMap<&'static str, u64>,
    checkpoint_took: Histogram,
    dead: BTreeMap<&'static str, u64>,
    retries: BTreeMap<String, u64>,
    recognised: u64,
    replayed: u64,
    silence: Silence,
    idle_spells: u64,
    /// (monotonic, records read) of the last seconds.
    speed: VecDeque<(Duration, u64)>,
    source: Option<Arc<Status>>,
}

impl Monitor {
    pub(super) fn new(file: &PipelineFile, env: &Env) -> Arc<Monitor> {
        let idle_after = match &file.source.kind {
            SourceKind::Kafka(kafka) => kafka.idle_after,
            _ => None,
        };
        Monitor::of(
            env,
            Settings {
                pipeline: file.pipeline.clone(),
                watchdog: file.watchdog,
                idle_after,
                timed: file.checkpoint.every.is_some(),
                rows: file.checkpoint.rows,
                bytes: file.checkpoint.bytes,
                memory: file.memory,
            },
        )
    }

    fn of(env: &Env, settings: Settings) -> Arc<Monitor> {
        let state = State { started_ms: env.now_ms(), began: env.monotonic(), settled: env.monotonic(), ..State::default() };
        Arc::new(Monitor { env: env.clone(), settings, state: Mutex::new(state), end: cell::Sender::new(None) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Metrics in the text format of Prometheus, version 0.0.4: what `/metrics` answers. [`FAMILIES`] lists them.
    pub fn metrics(&self) -> String {
        // Copied first: neither lock is held while the text is made.
        let state = self.state().clone();
        let splits = state.source.as_ref().map(|s| s.splits()).unwrap_or_default();
        exposition::text(&self.settings, &state, &splits, self.env.now_ms(), self.env.monotonic())
    }

    /// How the run stands: what `/healthz` answers.
    pub fn health(&self) -> Health {
        let lag = self.lag();
        health::of(&self.settings, &self.state(), lag, self.env.monotonic())
    }

    /// What exists and is not yet read, or committed; none: the source cannot tell.
    pub fn lag(&self) -> Option<Lag> {
        let now_ms = self.env.now_ms();
        let source = self.state().source.clone()?;
        source.look(|splits| Lag::of(splits.values(), now_ms))
    }

    /// Since the last commit of this process; none: there was none yet.
    pub fn since_commit(&self) -> Option<Duration> {
        let at = self.state().committed.map(|(_, at)| at)?;
        Some(self.env.monotonic().saturating_sub(at))
    }

    /// Records read a second, over the last ten seconds.
    pub fn speed(&self) -> f64 {
        let now = self.env.monotonic();
        let state = self.state();
        let Some((at, records)) = state.speed.front() else { return 0.0 };
        let time = now.saturating_sub(*at).as_secs_f64();
        if time > 0.0 { state.read.records.saturating_sub(*records) as f64 / time } else { 0.0 }
    }

    /// Records that exist and are not in the checkpoint that was made last; none: the source does not know.
    pub fn lag_after_commit(&self) -> Option<u64> {
        let (source, taken) = {
            let state = self.state();
            (state.source.clone()?, state.taken_offsets)
        };
        let ends = source.look(|splits| splits.values().filter_map(|s| s.end).reduce(u64::saturating_add));
        ends.map(|ends| ends.saturating_sub(taken))
    }

    /// Waits until the watchdog ends the run, and says why.
    pub(crate) async fn given_up(&self) -> Error {
        let mut end = self.end.subscribe();
        let why = end.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        // The sender lives as long as this monitor does.
        let Some(why) = why else { return futures::future::pending().await };
        let hint = "start again: what is pending is finished first, and nothing is lost or doubled (watchdog.exit is true)";
        Error::unavailable(why).at(format!("pipeline {}", self.settings.pipeline)).hint(hint)
    }

    // ---- what happens ----------------------------------------------------------------------------------------------------------------

    /// An event of the run.
    pub(super) fn saw(&self, event: &Event) {
        let (now, now_ms) = (self.env.monotonic(), self.env.now_ms());
        let mut state = self.state();
        match event {
            Event::Started { run, user, seq, .. } => {
                state.stage = Stage::Running;
                (state.run, state.user, state.seq) = (Some(run.clone()), Some(user.clone()), Some(*seq));
                state.settled = now;
            }
            Event::Finished { sink, identifier, snapshot, already, .. } => {
                if *already {
                    state.recognised += 1
                } else {
                    state.replayed += 1
                }
                state.sinks.entry(sink.clone()).or_default().snapshot = *snapshot;
                state.identifier = Some(*identifier);
                if !already {
                    state.committed = Some((now_ms, now));
                }
            }
            Event::Checkpointed { seq, kind, millis, .. } => {
                state.seq = Some(*seq);
                *state.checkpoints.entry(kind).or_default() += 1;
                state.checkpoint_took.add(Duration::from_millis(*millis));
                state.under_way = matches!(*kind, "data" | "end") && state.stage == Stage::Running;
            }
            Event::Committed { sink, identifier, snapshot, rows, bytes, files, millis } => {
                let sink = state.sinks.entry(sink.clone()).or_default();
                sink.commits += 1;
                sink.rows += rows;
                sink.bytes += bytes;
                sink.files += files;
                sink.snapshot = *snapshot;
                sink.took.add(Duration::from_millis(*millis));
                state.identifier = Some(*identifier);
                state.committed = Some((now_ms, now));
            }
            Event::DeadLetters { stages, .. } => {
                for (stage, records) in stages {
                    *state.dead.entry(stage).or_default() += records;
                }
            }
            Event::Retry { what, .. } => {
                // `create s3://...`: the name would make a series of every object.
                let call = what.split_once(' ').map_or(what.as_str(), |(call, _)| call);
                *state.retries.entry(call.to_owned()).or_default() += 1;
            }
            _ => {}
        }
    }

    /// The run has ended.
    pub(super) fn ended<T>(&self, result: &Result<T>) {
        let mut state = self.state();
        state.stage = if result.is_ok() { Stage::Ended } else { Stage::Failed };
        state.failed = result.as_ref().err().map(|e| e.message().to_owned());
        state.fenced = result.as_ref().is_err_and(|e| e.kind() == Kind::Fenced);
    }

    fn follows(&self, source: Option<Arc<Status>>) {
        self.state().source = source;
    }
    fn polled(&self, volume: Volume) {
        let mut state = self.state();
        state.read.records += volume.records;
        state.read.bytes += volume.bytes;
    }
    fn input_ended(&self) {
        self.state().end_of_input = true;
    }
    /// A checkpoint is made of all that was read so far.
    fn taken(&self) {
        let mut state = self.state();
        state.taken = state.read;
        let splits = state.source.as_ref().map(|s| s.look(|splits| splits.values().map(|s| s.read).fold(0, u64::saturating_add)));
        state.taken_offsets = splits.unwrap_or(0);
    }
    /// What was taken is committed in every sink.
    fn settled(&self) {
        let now = self.env.monotonic();
        let mut state = self.state();
        state.settled = now;
        state.settled_read = state.taken;
        (state.under_way, state.spoke, state.stalled, state.waiting) = (false, false, None, None);
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor").field("pipeline", &self.settings.pipeline).finish_non_exhaustive()
    }
}
