//! Whether a run is well, in a few words.

use std::time::Duration;

use serde::Serialize;

use super::{Settings, Stage, State};
use crate::source::SplitStatus;

/// How a run stands: what `/healthz` answers, with 200 when healthy and 503 when not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Health {
    /// Is it?
    pub healthy: bool,
    /// `starting`, `running`, `stalled`, `fenced`, `failed` or `ended`.
    pub status: &'static str,
    /// Why it is not healthy.
    pub reason: Option<String>,
    /// The pipeline's name.
    pub pipeline: String,
    /// Uuid of the run, once it has started.
    pub run: Option<String>,
    /// The identifier that was committed last.
    pub last_identifier: Option<i64>,
    /// Since the last commit of this process; none: there was none yet.
    pub seconds_since_commit: Option<f64>,
    /// What exists and is not yet there; none: the source cannot tell.
    pub lag: Option<Lag>,
    /// Splits without a record for `idle_after`.
    pub idle: usize,
}

/// Over all splits whose end is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lag {
    /// Records that exist and were not read.
    pub write: u64,
    /// Records that exist and are not committed.
    pub commit: u64,
    /// The greatest age of a last committed record where there is lag; none: not known. 0 without lag.
    pub commit_seconds: Option<f64>,
}

impl Lag {
    /// None when no split's end is known.
    pub(super) fn of<'a>(splits: impl IntoIterator<Item = &'a SplitStatus>, now_ms: i64) -> Option<Lag> {
        let one = |s: &SplitStatus| Some((s.write_lag()?, s.commit_lag()?, seconds(s.commit_lag(), s.committed_ms, now_ms)));
        let add = |all: Option<Lag>, (write, commit, age): (u64, u64, Option<f64>)| {
            let all = all.unwrap_or(Lag { commit_seconds: Some(0.0), ..Lag::default() });
            Some(Lag {
                write: all.write.saturating_add(write),
                commit: all.commit.saturating_add(commit),
                commit_seconds: all.commit_seconds.zip(age).map(|(a, b)| a.max(b)),
            })
        };
        splits.into_iter().filter_map(one).fold(None, add)
    }
}

/// Age of the last record, where there is lag; 0 without lag, none when not known.
pub(super) fn seconds(lag: Option<u64>, last_ms: Option<i64>, now_ms: i64) -> Option<f64> {
    match (lag?, last_ms) {
        (0, _) => Some(0.0),
        (_, Some(ms)) => Some(now_ms.saturating_sub(ms).max(0) as f64 / 1000.0),
        (_, None) => None,
    }
}

pub(super) fn of(settings: &Settings, state: &State, lag: Option<Lag>, now: Duration) -> Health {
    let (status, reason) = match (state.stage, &state.stalled) {
        (Stage::Failed, _) if state.fenced => ("fenced", state.failed.clone()),
        (Stage::Failed, _) => ("failed", state.failed.clone()),
        (Stage::Ended, _) => ("ended", None),
        (_, Some(why)) => ("stalled", Some(why.clone())),
        (Stage::Running, None) => ("running", None),
        (Stage::Starting, None) => ("starting", None),
    };
    Health {
        healthy: matches!(status, "starting" | "running" | "ended"),
        status,
        reason,
        pipeline: settings.pipeline.clone(),
        run: state.run.clone(),
        last_identifier: state.identifier,
        seconds_since_commit: state.committed.map(|(_, at)| now.saturating_sub(at).as_secs_f64()),
        lag,
        idle: state.silence.idle(),
    }
}
