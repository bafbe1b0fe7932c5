//! `failover`: a user's own pipeline as a child process, killed and frozen at random moments, its tables compared with its source.
//!
//! A series is a row of rounds; a round is one run of the pipeline to the end of its input, into fresh tables, by as many processes as it
//! takes. `child` is a process, `moments` is where it is hit, `audit` is the comparison, `report` is what is told at the end.

mod audit;
mod ends;
mod ranges;
mod report;
pub(crate) mod scratch;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::Failed;
use crate::cli::args::FailoverArgs;
use crate::cli::child::moments::{Aim, Clean, How, Phase, Wake, draw_for, hits};
use crate::cli::child::standing::phase;
use crate::cli::child::{Child, Ended, Heard, Recipe};
use crate::cli::failover::audit::{Audit, Expected, input};
use crate::cli::failover::report::{Finding, Report};
use crate::cli::failover::scratch::{Round, Scratch, progress};
use crate::cli::logs::{Logs, Progress};
use crate::cli::output::Output;
use crate::cli::signals::Signals;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::{PipelineFile, SourceKind};
use crate::source::Offsets;

/// So many processes in a row may end fenced or unavailable and leave nothing new.
const IN_VAIN: usize = 10;
/// So many rounds in a row may go by without a hit.
const MISSED: u64 = 50;
/// SIGKILL.
const KILLED: i32 = 9;
/// Exit codes of a process that another may follow.
const DONE: i32 = 0;
const FENCED: i32 = 4;
const UNAVAILABLE: i32 = 75;

/// `failover`.
pub(crate) async fn failover(args: FailoverArgs, output: &mut Output, logs: &Logs) -> Result<(), Failed> {
    report::printable(output)?;
    let env = Env::real();
    let file = PipelineFile::load(&args.pipeline, &args.set)?;
    repeatable(&file)?;
    let seed = args.seed.unwrap_or_else(|| u64::from(env.uuid().as_fields().0));
    let mut scratch = Scratch::new(&args, &file, seed, &env).await?;
    scratch.settle(ends::settled(&file, seed, &env).await?);
    tracing::info!(
        seed,
        dir = scratch.dir(),
        "{}: your tables are not touched; this seed, and tables and checkpoints there",
        file.pipeline
    );
    let mut signals = Signals::new()?;
    let mut series = Series::new(&args, &file, seed, scratch, env, logs);
    // The work is dropped before anything is told, and its processes with it.
    let ended = tokio::select! { ended = series.run() => ended, _ = signals.next() => Err(Error::unavailable("stopped by a signal")) };
    if let Err(error) = ended {
        let left = format!("{}, seed {seed}, {}", series.scratch.dir(), series.report.so_far());
        return Err(error.at(left).into());
    }
    series.report.print(output)?;
    if series.report.finding.is_some() { Err(Failed::Found) } else { Ok(()) }
}

/// `Invalid`, with why, for a pipeline that never ends or cannot be read twice.
fn repeatable(file: &PipelineFile) -> Result<()> {
    let (what, hint) = match &file.source.kind {
        SourceKind::Stdin => (
            "standard input cannot be read again, neither by the process after a killed one nor to compare",
            "put the input into a file and name it under source.files",
        ),
        SourceKind::Generate(g) if g.rows.is_none() => (
            "the source never ends, so no run would ever be complete and there would be nothing to compare its tables with",
            "give it an end: --set source.generate.rows=100000",
        ),
        SourceKind::Generate(g) if g.fail_at.is_some() => {
            ("the source ends its process itself (fail_at), and here others do that", "leave it out: --set source.generate.fail_at=~")
        }
        SourceKind::Kafka(_) if file.source.is_unbounded() => (
            "the source never ends, so no run would ever be complete and there would be nothing to compare its tables with",
            "give it an end: --set source.kafka.stop=end",
        ),
        SourceKind::Files(_) if file.source.is_unbounded() => (
            "watched files never end, so no run would ever be complete and there would be nothing to compare its tables with",
            "read what is there: --set source.files.watch=false, and leave out what goes with it",
        ),
        SourceKind::Kafka(_) | SourceKind::Files(_) | SourceKind::Generate(_) => return Ok(()),
    };
    Err(file.locate("source", Error::invalid(what).hint(hint)))
}

struct Series {
    pipeline: PathBuf,
    seed: u64,
    keep: bool,
    scratch: Scratch,
    env: Env,
    bar: Option<Progress>,
    hits: Vec<How>,
    /// How many of them were made, how often the next was tried, and how many processes in a row ended in vain.
    done: usize,
    attempt: usize,
    in_vain: usize,
    /// Of the first round.
    clean: Option<Clean>,
    patience: Duration,
    report: Report,
    /// What happened in the round, in words.
    story: Vec<String>,
}

impl Series {
    fn new(args: &FailoverArgs, file: &PipelineFile, seed: u64, scratch: Scratch, env: Env, logs: &Logs) -> Series {
        let report = Report::new(file, seed, scratch.dir(), args);
        Series {
            pipeline: args.pipeline.clone(),
            seed,
            keep: args.keep,
            scratch,
            env,
            bar: logs.progress(String::new),
            hits: hits(seed, args.kills, args.freezes),
            done: 0,
            attempt: 0,
            in_vain: 0,
            clean: None,
            // Nothing is known yet of how long it may be silent.
            patience: Duration::from_secs(24 * 3600),
            report,
            story: Vec::new(),
        }
    }

    /// Rounds until all hits are made, or until one finds something.
    async fn run(&mut self) -> Result<()> {
        let mut expected: Option<Expected> = None;
        let mut missed = 0;
        for number in 1.. {
            let round = self.scratch.round(number)?;
            let (before, hits) = (input(&round.file, &self.env).await?, self.done);
            self.story.clear();
            self.round(&round).await?;
            self.report.rounds = number;
            expected = Some(self.compare(&round, expected.take(), &before).await?);
            if self.report.finding.is_some() {
                return Ok(());
            }
            self.tell(number);
            if !self.keep {
                self.scratch.remove(&round).await?;
            }
            missed = if number > 1 && self.done == hits { missed + 1 } else { 0 };
            if self.done == self.hits.len() {
                break;
            }
            if missed == MISSED {
                let what = format!("{MISSED} runs in a row were over before they could be hit");
                return Err(
                    Error::invalid(what).hint("make them longer: more input, or many small checkpoints, like --set checkpoint.rows=1000")
                );
            }
        }
        if !self.keep {
            self.scratch.remove_all();
        }
        Ok(())
    }

    /// One run of the pipeline to the end of its input.
    async fn round(&mut self, round: &Round) -> Result<()> {
        let (pipeline, env) = (self.pipeline.clone(), self.env.clone());
        let recipe = Recipe { pipeline: &pipeline, set: &round.set, env: &env, patience: self.patience };
        let Some(clean) = self.clean else { return self.measure(round, &recipe).await };
        let mut child = Child::start(&recipe)?;
        let mut after_hit = false;
        loop {
            let next = match self.hits.get(self.done).copied() {
                None => {
                    let ended = child.end(&round.dir).await?;
                    self.next(ended, after_hit, round, &recipe)?
                }
                Some(how) => {
                    let mut draw = draw_for(self.seed, self.done, self.attempt);
                    self.attempt += 1;
                    let aim = Aim::draw(&mut draw, &clean, 1.0 - progress(round, &clean, &env).await?);
                    if !child.live_to(aim, &round.dir).await? {
                        let ended = child.end(&round.dir).await?;
                        self.next(ended, after_hit, round, &recipe)?
                    } else if how == How::Kill {
                        self.kill(child, after_hit, round, &recipe).await?
                    } else {
                        self.freeze(child, Wake::draw(&mut draw), after_hit, round, &recipe).await?
                    }
                }
            };
            let Some(next) = next else { return Ok(()) };
            (child, after_hit) = (next, true);
        }
    }

    /// The first round, left alone.
    async fn measure(&mut self, round: &Round, recipe: &Recipe<'_>) -> Result<()> {
        let ended = Child::start(recipe)?.end(&round.dir).await?;
        if ended.status.code() != Some(DONE) {
            return Err(ended.failed("was left alone and failed", &round.dir));
        }
        let heard = &ended.heard;
        let Some(to_first) = heard.first_checkpoint else {
            let what = "there is nothing to read, so nothing can be lost or doubled";
            return Err(Error::invalid(what).at(round.file.file_name()).hint("give it input"));
        };
        self.patience = ended.took * 10 + round.file.commit.timeout * 2 + Duration::from_secs(60);
        self.clean = Some(Clean {
            took: ended.took,
            to_first,
            writing: heard.mean_writing(),
            committing: heard.mean_committing(),
            ending: ended.took.saturating_sub(heard.last_commit.unwrap_or(ended.took)),
            tables: self.report.sinks.len(),
            counts: heard.counts,
        });
        self.report.clean = ended.took;
        self.story.push(format!(
            "left alone: {:.1} s, {} checkpoints, {} commits",
            ended.took.as_secs_f64(),
            heard.counts.checkpointed,
            heard.counts.committed
        ));
        Ok(())
    }

    /// Kills it, and starts the next. None: it had ended by itself, and the input is done.
    async fn kill(&mut self, child: Child, after_hit: bool, round: &Round, recipe: &Recipe<'_>) -> Result<Option<Child>> {
        let dead = child.kill().await?;
        if dead.status.signal() != Some(KILLED) {
            return self.next(dead, after_hit, round, recipe);
        }
        self.hear(&dead.heard, after_hit);
        let at = phase(&round.file, &dead.heard.counts, &self.env).await?;
        self.struck(at, How::Kill, format!("killed {}", at.name()));
        Child::start(recipe).map(Some)
    }

    /// Freezes it, lets a second one go on, and wakes it up. The process that goes on; none: the input is done.
    async fn freeze(&mut self, mut first: Child, wake: Wake, after_hit: bool, round: &Round, recipe: &Recipe<'_>) -> Result<Option<Child>> {
        first.freeze().await;
        if first.is_over() {
            let ended = first.end(&round.dir).await?;
            return self.next(ended, after_hit, round, recipe);
        }
        let at = phase(&round.file, &first.heard.counts, &self.env).await?;
        let mut second = Child::start(recipe)?;
        let running = second.live_to(wake.moment(), &round.dir).await?;
        first.wake();
        let first = first.end_beside(&mut second, &round.dir).await?;
        self.hear(&first.heard, after_hit);
        let how = match first.status.code() {
            Some(FENCED) => {
                self.report.woken_fenced += 1;
                "fenced"
            }
            Some(DONE) => {
                self.report.woken_well += 1;
                "ended well"
            }
            Some(UNAVAILABLE) => {
                self.report.woken_unavailable += 1;
                "unavailable"
            }
            _ => return Err(first.failed("was frozen and woken up, while another one went on, and failed", &round.dir)),
        };
        self.struck(at, How::Freeze, format!("frozen {} ({how})", at.name()));
        if running && !second.is_over() {
            return Ok(Some(second));
        }
        let second = second.end(&round.dir).await?;
        self.next(second, true, round, recipe)
    }

    /// What comes after a process that ended by itself: another one, or none when the input is done.
    fn next(&mut self, ended: Ended, after_hit: bool, round: &Round, recipe: &Recipe<'_>) -> Result<Option<Child>> {
        self.hear(&ended.heard, after_hit);
        self.in_vain = if ended.heard.first_progress.is_some() { 0 } else { self.in_vain + 1 };
        match ended.status.code() {
            Some(DONE) => {
                self.in_vain = 0;
                return Ok(None);
            }
            // Both are answers that a supervisor meets with another start. On a slow store a dead process's last request may come late.
            Some(FENCED) => self.report.fenced += 1,
            Some(UNAVAILABLE) => self.report.unavailable += 1,
            _ => return Err(ended.failed("failed by itself", &round.dir)),
        }
        if self.in_vain == IN_VAIN {
            return Err(ended.failed(&format!("was the {IN_VAIN}th in a row to leave nothing new"), &round.dir));
        }
        Child::start(recipe).map(Some)
    }

    fn hear(&mut self, heard: &Heard, after_hit: bool) {
        let (recognised, committed) = (heard.counts.recognised, heard.counts.committed_at_start);
        self.report.replays += u64::from(recognised + committed > 0);
        self.report.recognised += recognised;
        self.report.committed_at_start += committed;
        self.report.recovery.extend(heard.first_progress.filter(|_| after_hit));
    }

    fn struck(&mut self, at: Phase, how: How, story: String) {
        let counts: &mut BTreeMap<Phase, u64> = if how == How::Kill { &mut self.report.kills } else { &mut self.report.freezes };
        *counts.entry(at).or_default() += 1;
        self.story.push(story);
        (self.done, self.attempt) = (self.done + 1, 0);
        if let Some(bar) = &self.bar {
            bar.set(format!("{}: {}", self.report.pipeline, self.report.so_far()));
        }
    }

    /// The tables of a round against the source.
    async fn compare(&mut self, round: &Round, known: Option<Expected>, before: &Offsets) -> Result<Expected> {
        let audit = Audit { file: &round.file, env: &self.env, dir: &round.dir };
        let expected = audit.expected(known, before).await?;
        self.report.records += expected.records;
        for (at, sink) in self.report.sinks.iter_mut().enumerate() {
            let compared = audit.compare(&expected, at).await?;
            sink.add(&compared);
            if !compared.is_exact() && self.report.finding.is_none() {
                self.report.finding = Some(Finding { round: round.number, dir: round.dir.clone(), sink: sink.name.clone(), compared });
            }
        }
        Ok(expected)
    }

    fn tell(&self, round: u64) {
        let story = if self.story.is_empty() { "over before it was hit".to_owned() } else { self.story.join(", ") };
        tracing::info!(pipeline = self.report.pipeline, round, "{story}; {} tables exact", self.report.sinks.len());
    }
}
