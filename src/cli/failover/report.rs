//! What a series tells at its end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::cli::Failed;
use crate::cli::args::FailoverArgs;
use crate::cli::child::moments::{Phase, percentile};
use crate::cli::failover::audit::Compared;
use crate::cli::failover::ranges::SplitRange;
use crate::cli::output::{Columns, Form, Output, Value};
use crate::error::Error;
use crate::pipeline::file::PipelineFile;

/// What happened in a series.
pub(super) struct Report {
    pub(super) pipeline: String,
    seed: u64,
    dir: String,
    wanted: (u32, u32),
    keep: bool,
    pub(super) rounds: u64,
    /// How long a run takes that is left alone.
    pub(super) clean: Duration,
    pub(super) kills: BTreeMap<Phase, u64>,
    pub(super) freezes: BTreeMap<Phase, u64>,
    /// How the frozen processes ended after they were woken up.
    pub(super) woken_fenced: u64,
    pub(super) woken_well: u64,
    pub(super) woken_unavailable: u64,
    /// Starts that found a checkpoint with messages and finished it.
    pub(super) replays: u64,
    /// Commits that such starts recognised, and that they made.
    pub(super) recognised: u64,
    pub(super) committed_at_start: u64,
    /// Processes that ended so without having been frozen.
    pub(super) fenced: u64,
    pub(super) unavailable: u64,
    /// From a start after a hit to the first commit that was not there before.
    pub(super) recovery: Vec<Duration>,
    /// Records that the source has, over all rounds.
    pub(super) records: u64,
    pub(super) sinks: Vec<SinkRows>,
    pub(super) finding: Option<Finding>,
}

/// So many splits are shown one by one.
const SPLITS: usize = 40;

/// The rows of one sink, over all rounds.
pub(super) struct SinkRows {
    /// As in `--set`: `sinks.0`, `dead_letter`.
    pub(super) name: String,
    expected: u64,
    found: u64,
    missing: u64,
    doubled: u64,
    /// Different records, where the columns tell.
    distinct: Option<u64>,
    /// Per split; snapshots of all rounds.
    splits: BTreeMap<String, SplitRange>,
    /// Every range joins the one before it, in every round.
    joined: bool,
}

impl SinkRows {
    fn new(name: String) -> SinkRows {
        SinkRows { name, expected: 0, found: 0, missing: 0, doubled: 0, distinct: None, splits: BTreeMap::new(), joined: true }
    }
    pub(super) fn add(&mut self, compared: &Compared) {
        self.expected += compared.expected;
        self.found += compared.found;
        self.missing += compared.missing;
        self.doubled += compared.doubled;
        self.distinct = compared.distinct.map(|n| n + self.distinct.unwrap_or(0));
        self.joined &= compared.wrong.is_empty();
        for (split, range) in &compared.splits {
            let known = self.splits.entry(split.clone()).or_insert(SplitRange { snapshots: 0, ..range.clone() });
            known.from = known.from.min(range.from);
            known.to = known.to.max(range.to);
            known.snapshots += range.snapshots;
        }
    }
}

/// A table that is not what the source says.
pub(super) struct Finding {
    pub(super) round: u64,
    pub(super) dir: String,
    pub(super) sink: String,
    pub(super) compared: Compared,
}

/// `Invalid` for a form that cannot hold a report; asked before anything is done.
pub(super) fn printable(output: &Output) -> Result<(), Error> {
    match output.form() {
        Form::Csv => Err(Error::invalid("a report is no list of rows").hint("use -o json, or -o table")),
        Form::Table | Form::Json | Form::Jsonl => Ok(()),
    }
}

impl Report {
    pub(super) fn new(file: &PipelineFile, seed: u64, dir: &str, args: &FailoverArgs) -> Report {
        let sinks = (0..file.sinks.len()).map(|i| format!("sinks.{i}")).chain(file.dead_letter.iter().map(|_| "dead_letter".to_owned()));
        Report {
            pipeline: file.pipeline.clone(),
            seed,
            dir: dir.to_owned(),
            wanted: (args.kills, args.freezes),
            keep: args.keep,
            rounds: 0,
            clean: Duration::ZERO,
            kills: BTreeMap::new(),
            freezes: BTreeMap::new(),
            woken_fenced: 0,
            woken_well: 0,
            woken_unavailable: 0,
            replays: 0,
            recognised: 0,
            committed_at_start: 0,
            fenced: 0,
            unavailable: 0,
            recovery: Vec::new(),
            records: 0,
            sinks: sinks.map(SinkRows::new).collect(),
            finding: None,
        }
    }

    /// On a line.
    pub(super) fn so_far(&self) -> String {
        let ((kills, freezes), of) = (self.struck(), self.wanted);
        format!("{kills} of {} kills, {freezes} of {} freezes, {} rounds exact", of.0, of.1, self.rounds)
    }

    fn struck(&self) -> (u64, u64) {
        (self.kills.values().sum(), self.freezes.values().sum())
    }

    /// In the form that was asked for.
    pub(super) fn print(&self, output: &mut Output) -> Result<(), Failed> {
        if output.form() != Form::Table {
            return output.object(self.json());
        }
        output.one(self.facts())?;
        let mut rows = output.rows(Columns::new(["where in its life", "killed", "frozen"]));
        for phase in Phase::ALL {
            let of = |counts: &BTreeMap<Phase, u64>| Value::Count(counts.get(&phase).copied().unwrap_or(0));
            rows.push(vec![Value::text(phase.name()), of(&self.kills), of(&self.freezes)])?;
        }
        rows.push(vec![Value::text("in all"), Value::Count(self.struck().0), Value::Count(self.struck().1)])?;
        rows.finish()?;
        let mut rows = output.rows(Columns::new(["sink", "expected", "found", "missing", "doubled", "distinct records"]));
        for sink in &self.sinks {
            let counts = [sink.expected, sink.found, sink.missing, sink.doubled].map(Value::Count);
            let distinct = Value::or_null(sink.distinct, Value::Count);
            rows.push([Value::text(&sink.name)].into_iter().chain(counts).chain([distinct]).collect())?;
        }
        rows.finish()?;
        self.print_splits(output)?;
        match &self.finding {
            None if self.keep => output.text(&format!("every row is there once; the tables are kept in {}", self.dir)),
            None => output.text("every row is there once"),
            Some(finding) => finding.print(output),
        }
    }

    fn print_splits(&self, output: &mut Output) -> Result<(), Failed> {
        let all: usize = self.sinks.iter().map(|s| s.splits.len()).sum();
        if all > SPLITS {
            let joined = self.sinks.iter().all(|s| s.joined);
            let words = if joined { "every range joins the one before it" } else { "NOT every range joins the one before it" };
            return output.text(&format!("{all} splits in {} tables: {words}", self.sinks.len()));
        }
        let mut rows = output.rows(Columns::new(["sink", "split", "from", "to", "snapshots", "each joins the one before"]));
        for sink in &self.sinks {
            for (split, range) in &sink.splits {
                let counts = [range.from, range.to, range.snapshots].map(Value::Count);
                let joined = Value::text(if sink.joined { "yes" } else { "NO" });
                rows.push([Value::text(&sink.name), Value::text(split)].into_iter().chain(counts).chain([joined]).collect())?;
            }
        }
        rows.finish()
    }

    fn facts(&self) -> Vec<(&'static str, Value)> {
        let ms = |p| Value::or_null(percentile(&self.recovery, p), |d| Value::Text(format!("{} ms", d.as_millis())));
        let woken = [("fenced", self.woken_fenced), ("ended well", self.woken_well), ("unavailable", self.woken_unavailable)];
        vec![
            ("pipeline", Value::text(&self.pipeline)),
            ("seed", Value::Count(self.seed)),
            ("rounds", Value::Count(self.rounds)),
            ("records of the source", Value::Count(self.records)),
            ("a run left alone", Value::Text(format!("{} ms", self.clean.as_millis()))),
            ("starts that finished a checkpoint", Value::Count(self.replays)),
            ("commits they recognised", Value::Count(self.recognised)),
            ("commits they made", Value::Count(self.committed_at_start)),
            ("frozen, then woken up", Value::Map(woken.into_iter().map(|(k, n)| (k.to_owned(), Value::Count(n))).collect())),
            ("others that were fenced", Value::Count(self.fenced)),
            ("others that ended unavailable", Value::Count(self.unavailable)),
            ("recovery, p50", ms(50)),
            ("recovery, p99", ms(99)),
        ]
    }

    fn json(&self) -> Json {
        let phases = |counts: &BTreeMap<Phase, u64>| {
            let all = Phase::ALL.map(|p| (p.key().to_owned(), json!(counts.get(&p).copied().unwrap_or(0))));
            Json::Object(std::iter::once(("total".to_owned(), json!(counts.values().sum::<u64>()))).chain(all).collect())
        };
        let ms = |p| percentile(&self.recovery, p).map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        let split = |(name, r): (&String, &SplitRange)| json!({"split": name, "from": r.from, "to": r.to, "snapshots": r.snapshots});
        let sink = |s: &SinkRows| {
            json!({
                "sink": s.name,
                "expected": s.expected,
                "found": s.found,
                "missing": s.missing,
                "doubled": s.doubled,
                "distinct_records": s.distinct,
                "ranges_join": s.joined,
                "splits": s.splits.iter().map(split).collect::<Vec<_>>(),
            })
        };
        json!({
            "pipeline": self.pipeline,
            "seed": self.seed,
            "dir": self.dir,
            "kept": self.keep || self.finding.is_some(),
            "rounds": self.rounds,
            "clean_run_ms": u64::try_from(self.clean.as_millis()).unwrap_or(u64::MAX),
            "kills": phases(&self.kills),
            "freezes": phases(&self.freezes),
            "woken": {"fenced": self.woken_fenced, "ended_well": self.woken_well, "unavailable": self.woken_unavailable},
            "replays": self.replays,
            "recognised_commits": self.recognised,
            "committed_at_start": self.committed_at_start,
            "fenced": self.fenced,
            "unavailable": self.unavailable,
            "records": self.records,
            "recovery_ms": {"p50": ms(50), "p99": ms(99), "samples": self.recovery.len()},
            "sinks": self.sinks.iter().map(sink).collect::<Vec<_>>(),
            "exact": self.finding.is_none(),
            "finding": self.finding.as_ref().map(Finding::json),
        })
    }
}

impl Finding {
    fn print(&self, output: &mut Output) -> Result<(), Failed> {
        let c = &self.compared;
        output.text(&format!(
            "round {}, {}: {} rows are missing and {} doubled; its tables and checkpoints are kept in {}",
            self.round, self.sink, c.missing, c.doubled, self.dir
        ))?;
        for wrong in &c.wrong {
            output.text(wrong)?;
        }
        let mut rows = output.rows(Columns::new(["what", "row"]));
        for (what, row) in &c.first {
            rows.push(vec![Value::text(*what), row.clone()])?;
        }
        rows.finish()
    }

    fn json(&self) -> Json {
        let c = &self.compared;
        let rows = |wanted: &str| c.first.iter().filter(|(what, _)| *what == wanted).map(|(_, row)| json!(row)).collect::<Vec<_>>();
        json!({
            "round": self.round,
            "dir": self.dir,
            "sink": self.sink,
            "expected": c.expected,
            "found": c.found,
            "missing": c.missing,
            "doubled": c.doubled,
            "wrong": c.wrong,
            "first_missing": rows("missing"),
            "first_doubled": rows("doubled"),
        })
    }
}
