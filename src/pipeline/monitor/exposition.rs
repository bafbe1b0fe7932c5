//! Metrics as text. All of one answer are of one moment: lag is always the difference of the offsets beside it. No registry: a split that is
//! gone has no series, and thousands of splits cost a line each.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::time::Duration;

use super::health::seconds;
use super::{Settings, Stage, State};
use crate::source::SplitStatus;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Only rises while the process lives.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts by upper bound.
    Histogram,
}

impl MetricType {
    /// The word after `# TYPE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Counter => "counter",
            Gauge => "gauge",
            Distribution => "histogram",
        }
    }
}

use MetricType::{Counter, Gauge, Histogram as Distribution};

/// A metric: its name, type, labels besides `pipeline`, and help text.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// With the prefix `lakeward_`, in base units.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricType,
    /// Label names besides `pipeline`.
    pub labels: &'static [&'static str],
    /// What it says.
    pub help: &'static str,
}

const fn family(name: &'static str, kind: MetricType, labels: &'static [&'static str], help: &'static str) -> Family {
    Family { name, kind, labels, help }
}

const SPLIT: &[&str] = &["topic", "partition"];

/// Every metric that there is; each is documented in `spec/metrics.md`.
pub const FAMILIES: [Family; 37] = [
    family("lakeward_build_info", Gauge, &["version"], "1, with the version of the program."),
    family("lakeward_run_info", Gauge, &["run", "user"], "1, with the uuid of the run and the commit user of its lineage."),
    family("lakeward_healthy", Gauge, &[], "1 when /healthz says 200."),
    family("lakeward_start_time_seconds", Gauge, &[], "When the run began, seconds since 1970."),
    family("lakeward_records_read_total", Counter, &[], "Records taken from the source; those read again after a start count again."),
    family("lakeward_bytes_read_total", Counter, &[], "Bytes of the values of those records."),
    family("lakeward_records_uncommitted", Gauge, &[], "Records taken from the source and not yet committed."),
    family("lakeward_dead_letters_total", Counter, &["stage"], "Records that became dead letters, by stage."),
    family("lakeward_commits_total", Counter, &["sink"], "Snapshots that landed."),
    family("lakeward_rows_committed_total", Counter, &["sink"], "Rows in them."),
    family("lakeward_bytes_committed_total", Counter, &["sink"], "Bytes of their data files."),
    family("lakeward_files_committed_total", Counter, &["sink"], "Their data files."),
    family("lakeward_snapshot_id", Gauge, &["sink"], "Id of the snapshot that landed last."),
    family("lakeward_commit_duration_seconds", Distribution, &["sink"], "From the create of a checkpoint until it landed in the sink."),
    family("lakeward_checkpoints_total", Counter, &["kind"], "Checkpoints written, by kind: open, data, end, closed."),
    family("lakeward_checkpoint_duration_seconds", Distribution, &[], "Writing and owning a checkpoint."),
    family("lakeward_checkpoint_seq", Gauge, &[], "Seq of the greatest checkpoint."),
    family("lakeward_last_identifier", Gauge, &[], "The identifier that was committed last; at end of input 9223372036854775807."),
    family("lakeward_last_commit_timestamp_seconds", Gauge, &[], "When the last commit landed, seconds since 1970."),
    family("lakeward_since_commit_seconds", Gauge, &[], "Since the last commit; before the first one, since the run began."),
    family(
        "lakeward_recovered_commits_total",
        Counter,
        &["outcome"],
        "Commits that a start finished: recognised had landed, made had not.",
    ),
    family("lakeward_store_retries_total", Counter, &["call"], "Calls to a store that failed and were tried again, by kind of call."),
    family("lakeward_fenced", Gauge, &[], "1 when another process has taken the pipeline over."),
    family("lakeward_stalled", Gauge, &[], "1 while the watchdog waits for a commit."),
    family("lakeward_stalls_total", Counter, &[], "How often the watchdog has spoken."),
    family("lakeward_watchdog_limit_seconds", Gauge, &[], "So long without a commit, input waiting, is too long."),
    family("lakeward_memory_limit_bytes", Gauge, &[], "The pipeline's `memory`."),
    family("lakeward_idle_spells_total", Counter, &[], "How often a partition fell silent for `idle_after`."),
    family("lakeward_partition_end_offset", Gauge, SPLIT, "The offset after the last record that exists."),
    family("lakeward_partition_read_offset", Gauge, SPLIT, "The offset of the next record to read."),
    family("lakeward_partition_committed_offset", Gauge, SPLIT, "Everything below is durable and visible."),
    family("lakeward_partition_write_lag_records", Gauge, SPLIT, "Pending write lag: records that exist and were not read."),
    family("lakeward_partition_write_lag_seconds", Gauge, SPLIT, "Age of the last record that was read; 0 without lag."),
    family("lakeward_partition_commit_lag_records", Gauge, SPLIT, "Pending commit lag: records that exist and are not committed."),
    family("lakeward_partition_commit_lag_seconds", Gauge, SPLIT, "Age of the last record that was committed; 0 without lag."),
    family("lakeward_partition_idle", Gauge, SPLIT, "1 when no record came for `idle_after` and none waits."),
    family("lakeward_partition_paused", Gauge, SPLIT, "1 while reading is held back because too much waits to be written."),
];

/// Upper bounds, seconds: a commit on local disk takes some milliseconds, one against a store that is away up to `commit.timeout`.
const BOUNDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// How many took how long.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: Duration,
}

impl Histogram {
    pub(super) fn add(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        for (count, _) in self.counts.iter_mut().zip(BOUNDS).filter(|(_, bound)| seconds <= *bound) {
            *count += 1;
        }
        self.count += 1;
        self.sum += took;
    }
}

/// Writes families in the order of [`FAMILIES`].
struct Text<'a> {
    out: String,
    pipeline: &'a str,
}

impl Text<'_> {
    fn head(&mut self, name: &str) {
        if let Some(family) = FAMILIES.iter().find(|f| f.name == name) {
            let _ = write!(self.out, "# HELP {name} {}\n# TYPE {name} {}\n", family.help, family.kind.as_str());
        }
    }
    fn labels(&self, more: &[(&str, &str)]) -> String {
        let mut out = "{pipeline=\"".to_owned();
        escape(&mut out, self.pipeline);
        for (name, value) in more {
            out.push_str("\",");
            out.push_str(name);
            out.push_str("=\"");
            escape(&mut out, value);
        }
        out.push_str("\"}");
        out
    }
    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = writeln!(self.out, "{name}{labels} {value}");
    }
    /// One sample without labels of its own; none: nothing is known, and there is no series.
    fn one(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.head(name);
            self.sample(name, &self.labels(&[]), value);
        }
    }
    fn each<'b, V: Display>(&mut self, name: &str, label: &str, all: impl IntoIterator<Item = (&'b str, V)>) {
        let mut all = all.into_iter().peekable();
        if all.peek().is_some() {
            self.head(name);
        }
        for (value, sample) in all {
            self.sample(name, &self.labels(&[(label, value)]), sample);
        }
    }
    fn distribution(&mut self, name: &str, more: &[(&str, &str)], histogram: &Histogram) {
        let with = |le: &str| self.labels(&[more, &[("le", le)]].concat());
        let bounds: Vec<String> = BOUNDS.iter().map(|b| with(&b.to_string())).chain([with("+Inf")]).collect();
        let bucket = format!("{name}_bucket");
        for (labels, count) in bounds.iter().zip(histogram.counts.iter().chain([&histogram.count])) {
            self.sample(&bucket, labels, count);
        }
        let labels = self.labels(more);
        self.sample(&format!("{name}_sum"), &labels, histogram.sum.as_secs_f64());
        self.sample(&format!("{name}_count"), &labels, histogram.count);
    }
}

/// Backslash, quote and line end, as the format wants them.
fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

/// Everything, as of a moment: wall clock in milliseconds, and monotonic.
pub(super) fn text(settings: &Settings, state: &State, splits: &BTreeMap<String, SplitStatus>, now_ms: i64, now: Duration) -> String {
    let mut text = Text { out: String::with_capacity(4096 + splits.len() * 1200), pipeline: &settings.pipeline };
    of_the_run(&mut text, settings, state);
    of_the_commits(&mut text, state, now);
    of_what_goes_wrong(&mut text, settings, state);
    of_the_splits(&mut text, state, splits, now_ms);
    text.out
}

fn of_the_run(text: &mut Text<'_>, settings: &Settings, state: &State) {
    text.each("lakeward_build_info", "version", [(env!("CARGO_PKG_VERSION"), 1)]);
    if let (Some(run), Some(user)) = (&state.run, &state.user) {
        text.head("lakeward_run_info");
        text.sample("lakeward_run_info", &text.labels(&[("run", run), ("user", user)]), 1);
    }
    let healthy = state.stage != Stage::Failed && state.stalled.is_none();
    text.one("lakeward_healthy", Some(u8::from(healthy)));
    text.one("lakeward_start_time_seconds", Some(state.started_ms as f64 / 1000.0));
    text.one("lakeward_records_read_total", Some(state.read.records));
    text.one("lakeward_bytes_read_total", Some(state.read.bytes));
    text.one("lakeward_records_uncommitted", Some(state.read.records.saturating_sub(state.settled_read.records)));
    text.one("lakeward_memory_limit_bytes", Some(settings.memory));
    // All stages from the start: a rate over a series that appears with its first sample misses it.
    let stage = |stage: crate::decode::Stage| (stage.as_str(), state.dead.get(stage.as_str()).copied().unwrap_or(0));
    use crate::decode::Stage::{Cast, Constraint, Decode, Partition};
    text.each("lakeward_dead_letters_total", "stage", [Decode, Cast, Constraint, Partition].map(stage));
}

fn of_the_commits(text: &mut Text<'_>, state: &State, now: Duration) {
    let sinks = || state.sinks.iter().map(|(url, commits)| (url.as_str(), commits));
    text.each("lakeward_commits_total", "sink", sinks().map(|(url, c)| (url, c.commits)));
    text.each("lakeward_rows_committed_total", "sink", sinks().map(|(url, c)| (url, c.rows)));
    text.each("lakeward_bytes_committed_total", "sink", sinks().map(|(url, c)| (url, c.bytes)));
    text.each("lakeward_files_committed_total", "sink", sinks().map(|(url, c)| (url, c.files)));
    text.each("lakeward_snapshot_id", "sink", sinks().map(|(url, c)| (url, c.snapshot)));
    if !state.sinks.is_empty() {
        text.head("lakeward_commit_duration_seconds");
    }
    for (url, commits) in sinks() {
        text.distribution("lakeward_commit_duration_seconds", &[("sink", url)], &commits.took);
    }
    text.each("lakeward_checkpoints_total", "kind", state.checkpoints.iter().map(|(kind, n)| (*kind, n)));
    text.head("lakeward_checkpoint_duration_seconds");
    text.distribution("lakeward_checkpoint_duration_seconds", &[], &state.checkpoint_took);
    text.one("lakeward_checkpoint_seq", state.seq);
    text.one("lakeward_last_identifier", state.identifier);
    text.one("lakeward_last_commit_timestamp_seconds", state.committed.map(|(ms, _)| ms as f64 / 1000.0));
    let since = state.committed.map_or(state.began, |(_, at)| at);
    text.one("lakeward_since_commit_seconds", Some(now.saturating_sub(since).as_secs_f64()));
    let recovered = [("recognised", state.recognised), ("made", state.replayed)];
    text.each("lakeward_recovered_commits_total", "outcome", recovered);
}

fn of_what_goes_wrong(text: &mut Text<'_>, settings: &Settings, state: &State) {
    text.each("lakeward_store_retries_total", "call", state.retries.iter().map(|(call, n)| (call.as_str(), n)));
    text.one("lakeward_fenced", Some(u8::from(state.fenced)));
    text.one("lakeward_stalled", Some(u8::from(state.stalled.is_some())));
    text.one("lakeward_stalls_total", Some(state.stalls));
    text.one("lakeward_watchdog_limit_seconds", settings.watchdog.map(|w| w.limit().as_secs_f64()));
    text.one("lakeward_idle_spells_total", Some(state.idle_spells));
}

fn of_the_splits(text: &mut Text<'_>, state: &State, splits: &BTreeMap<String, SplitStatus>, now_ms: i64) {
    let label = |s: &SplitStatus| {
        let partition = s.partition.map(|p| p.to_string()).unwrap_or_default();
        text.labels(&[("topic", &s.name), ("partition", &partition)])
    };
    let all: Vec<(String, &str, &SplitStatus)> = splits.iter().map(|(split, s)| (label(s), split.as_str(), s)).collect();
    let mut each = |name: &str, value: &dyn Fn(&str, &SplitStatus) -> Option<f64>| {
        let mut headed = false;
        for (labels, split, s) in &all {
            let Some(value) = value(split, s) else { continue };
            if !std::mem::replace(&mut headed, true) {
                text.head(name);
            }
            text.sample(name, labels, value);
        }
    };
    let some = |n: u64| Some(n as f64);
    let truth = |yes: bool| Some(f64::from(u8::from(yes)));
    each("lakeward_partition_end_offset", &|_, s| s.end.map(|n| n as f64));
    each("lakeward_partition_read_offset", &|_, s| some(s.read));
    each("lakeward_partition_committed_offset", &|_, s| some(s.committed));
    each("lakeward_partition_write_lag_records", &|_, s| s.write_lag().map(|n| n as f64));
    each("lakeward_partition_write_lag_seconds", &|_, s| seconds(s.write_lag(), s.read_ms, now_ms));
    each("lakeward_partition_commit_lag_records", &|_, s| s.commit_lag().map(|n| n as f64));
    each("lakeward_partition_commit_lag_seconds", &|_, s| seconds(s.commit_lag(), s.committed_ms, now_ms));
    each("lakeward_partition_idle", &|split, _| truth(state.silence.is_idle(split)));
    each("lakeward_partition_paused", &|_, s| truth(s.paused));
}
