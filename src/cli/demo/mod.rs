//! `demo`: orders into a table while the process that writes it is killed, on a broker that this command brings along.
//!
//! `broker` is that broker and its producer, `orders` makes the orders up, `place` is the directory, `audit` compares the tables with what
//! was produced, `story` and `report` tell. The processes are `table-cli ingest` of the same executable, as `failover` starts them.

mod audit;
mod broker;
mod orders;
mod place;
mod report;
mod story;

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::cli::Failed;
use crate::cli::args::DemoArgs;
use crate::cli::child::moments::{Phase, Said};
use crate::cli::child::standing::{ledger, phase};
use crate::cli::child::{Child, Ended, Recipe};
use crate::cli::demo::broker::{PARTITIONS, Shared, Truth};
use crate::cli::demo::orders::Orders;
use crate::cli::demo::place::Place;
use crate::cli::demo::report::{Kill, Report};
use crate::cli::demo::story::{Story, thousands};
use crate::cli::logs::Logs;
use crate::cli::output::Output;
use crate::cli::signals::Signals;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::PipelineFile;
use crate::store::{Store, StoreOptions};
use crate::stream::Written;
use crate::table::{At, Table};

/// A checkpoint after at most such a part of the orders, so that there is a middle to be killed in, however fast the machine is.
const CHECKPOINTS: u64 = 12;
/// How often the bar is drawn.
const TICK: Duration = Duration::from_millis(100);
/// A process that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Until the broker's threads have ended; they end with this process anyway.
const FAREWELL: Duration = Duration::from_secs(2);
const SIGKILL: i32 = 9;
const DONE: i32 = 0;

/// `demo`.
pub(crate) async fn demo(args: DemoArgs, output: &mut Output, logs: &Logs) -> Result<(), Failed> {
    report::printable(output)?;
    let env = Env::real();
    let mut signals = Signals::new()?;
    let (place, earlier) = Place::new(&args.dir)?;
    let shown = place.shown();
    let orders = Orders { seed: args.seed, count: args.rows, partitions: PARTITIONS };
    let over = Over(Arc::new(Shared::default()));
    let (ready, servers) = oneshot::channel();
    let shared = over.0.clone();
    let mut host = Box::pin(env.cpu(move || broker::host(orders, &shared, ready)));
    let mut demo = Demo {
        story: Story::new(output, logs, env.clone(), args.rows),
        report: Report::new(&args, &place),
        options: StoreOptions::default(),
        shared: over.0.clone(),
        file: None,
        visible: 0,
        covered: 0,
        place,
        orders,
        env: env.clone(),
    };
    let told = {
        let mut run = Box::pin(demo.run(servers, earlier));
        tokio::select! {
            biased;
            _ = signals.next() => Err(Error::unavailable("stopped by a signal").into()),
            hosted = &mut host => Err(hosted.err().unwrap_or_else(|| Error::internal("the broker has ended before the demo")).into()),
            told = &mut run => told,
        }
    };
    let report = demo.report;
    demo.story.end();
    over.0.end();
    tokio::select! { _ = host => {}, () = env.sleep(FAREWELL) => {} }
    match told {
        Ok(()) => {}
        Err(Failed::Said(error)) => {
            let hint = match error.next_step() {
                Some(hint) => hint.to_owned(),
                None => "start the demo again: it begins anew there".to_owned(),
            };
            return Err(error.at(&shown).hint(hint).into());
        }
        Err(other) => return Err(other),
    }
    report.print(output)?;
    if report.findings.is_empty() { Ok(()) } else { Err(Failed::Found) }
}

/// Lets the broker's thread go, however the demo ends: the runtime would wait for it.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// When a process has come far enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// It opens a file after so many rows are visible; then the producer may go on to so many orders.
    Opened(u64, u64),
    /// It owns a checkpoint after that.
    Checkpointed(u64, u64),
    /// Everything is produced, and in a checkpoint.
    Covered,
    /// It ends by itself.
    End,
}

impl Goal {
    /// Where a kill at this moment is meant to hit.
    fn aim(self) -> Phase {
        match self {
            Goal::Checkpointed(..) => Phase::BetweenCheckpointAndCommit,
            _ => Phase::Writing,
        }
    }
    fn is(self, said: Said) -> bool {
        match self {
            Goal::Opened(..) => said == Said::Opened,
            Goal::Checkpointed(..) => matches!(said, Said::Checkpointed { .. }),
            Goal::Covered | Goal::End => false,
        }
    }
}

struct Demo<'a> {
    story: Story<'a>,
    report: Report,
    place: Place,
    orders: Orders,
    shared: Arc<Shared>,
    env: Env,
    options: StoreOptions,
    /// Known when the broker's address is.
    file: Option<PipelineFile>,
    /// Rows that a reader of the table sees.
    visible: u64,
    /// Orders below the offsets of the greatest checkpoint.
    covered: u64,
}

impl Demo<'_> {
    async fn run(&mut self, servers: oneshot::Receiver<String>, earlier: bool) -> Result<(), Failed> {
        self.begin(servers, earlier).await?;
        let share = |percent: u64| self.orders.count * percent / 100;
        let first = Goal::Opened(share(25), share(90));
        let second = Goal::Checkpointed(share(55), self.orders.count);
        self.shared.allow(share(60));
        let child = self.start(None)?;
        let child = self.kill(child, first).await?;
        let child = self.kill(child, second).await?;
        self.drain(child).await?;
        self.report.took = self.story.elapsed();
        self.audit().await
    }

    async fn begin(&mut self, servers: oneshot::Receiver<String>, earlier: bool) -> Result<(), Failed> {
        let (count, seed, dir) = (self.orders.count, self.orders.seed, self.place.shown());
        self.story.heading(&format!("Lakeward demo: {} orders, one in a thousand broken (seed {seed}), into {dir}", thousands(count)))?;
        if earlier {
            self.story.tell("dir", "what an earlier demo had left there is removed")?;
        }
        let Ok(servers) = servers.await else {
            // The host says why.
            return futures::future::pending().await;
        };
        self.place.write(&servers, (count / CHECKPOINTS).max(1))?;
        self.file = Some(PipelineFile::load(&self.place.file(), &[])?);
        let what =
            format!("librdkafka's mock broker in this process, {servers}: topic orders, {PARTITIONS} partitions; a producer fills it");
        self.story.tell("broker", &what)?;
        Ok(())
    }

    fn file(&self) -> Result<&PipelineFile> {
        self.file.as_ref().ok_or_else(|| Error::internal("the pipeline file is not read yet"))
    }

    /// The next process; `what`: instead of its command line.
    fn start(&mut self, what: Option<&str>) -> Result<Child, Failed> {
        let pipeline: PathBuf = self.place.file();
        let child = Child::start(&Recipe { pipeline: &pipeline, set: &[], env: &self.env, patience: PATIENCE })?;
        let typed = what.map_or_else(|| format!("table-cli ingest {}", self.place.typed("orders.yaml")), str::to_owned);
        self.story.tell("start", &format!("process {}: {typed}", child.pid))?;
        Ok(child)
    }

    /// Listens until the goal is reached. False: the process is over.
    async fn live(&mut self, child: &mut Child, goal: Goal) -> Result<bool, Failed> {
        let (mut armed, mut started, mut heard) = (false, false, self.env.monotonic());
        loop {
            // Before its start is over a process knows no SIGTERM.
            if goal == Goal::Covered && started && self.shared.is_done() && self.covered == self.orders.count {
                return Ok(true);
            }
            let said = tokio::select! {
                said = child.next() => said,
                () = self.env.sleep(TICK) => {
                    self.story.progress(self.shared.produced(), self.visible)?;
                    if self.env.monotonic().saturating_sub(heard) > PATIENCE {
                        let what = format!("process {} has said nothing for {} seconds", child.pid, PATIENCE.as_secs());
                        return Err(Error::unavailable(what).into());
                    }
                    continue;
                }
            };
            let Some(said) = said else { return Ok(false) };
            heard = self.env.monotonic();
            if armed && goal.is(said) {
                return Ok(true);
            }
            match said {
                Said::Started => {
                    started = true;
                    self.recovered(child)?;
                    self.checkpoint().await?;
                }
                Said::Checkpointed { .. } => drop(self.checkpoint().await?),
                Said::Committed { .. } | Said::Finished { .. } => {
                    self.look().await?;
                    if let Goal::Opened(rows, next) | Goal::Checkpointed(rows, next) = goal
                        && self.visible >= rows
                    {
                        armed = true;
                        // There is something to come after the moment, so that it comes.
                        self.shared.allow(next);
                    }
                    self.story.progress(self.shared.produced(), self.visible)?;
                }
                Said::Opened | Said::Other => {}
            }
        }
    }

    /// SIGKILL when the goal is reached, and the next process.
    async fn kill(&mut self, mut child: Child, goal: Goal) -> Result<Child, Failed> {
        let reached = self.live(&mut child, goal).await?;
        let ended = if reached { child.kill().await? } else { child.end(&self.place.shown()).await? };
        if ended.status.signal() != Some(SIGKILL) {
            return Err(ended.failed("was to be killed and ended by itself", &self.place.shown()).into());
        }
        let at = self.story.elapsed();
        self.heard(&ended);
        let phase = phase(self.file()?, &ended.heard.counts, &self.env).await?;
        self.look().await?;
        let greatest = self.checkpoint().await?;
        let kill = Kill {
            pid: ended.pid,
            at,
            aim: goal.aim(),
            phase,
            checkpoint: greatest.as_ref().map(|w| w.checkpoint.seq),
            covered: greatest.as_ref().map_or(0, covered),
            produced: self.shared.produced(),
            visible: self.visible,
            recognised: 0,
            committed: 0,
            recovery: None,
        };
        self.story.tell("kill -9", &kill.told())?;
        self.report.kills.push(kill);
        self.start(Some("the same command again, and nothing else"))
    }

    /// To the end of the topic. The pipeline reads it without end, so it is asked to stop when nothing is left.
    async fn drain(&mut self, mut child: Child) -> Result<(), Failed> {
        if self.live(&mut child, Goal::Covered).await? {
            let all = thousands(self.orders.count);
            self.story.tell("stop", &format!("all {all} orders are read: process {} is asked to end (SIGTERM)", child.pid))?;
            child.terminate();
            self.live(&mut child, Goal::End).await?;
        }
        self.ended_well(child.end(&self.place.shown()).await?)?;
        self.look().await?;
        Ok(())
    }

    fn ended_well(&mut self, ended: Ended) -> Result<(), Failed> {
        self.heard(&ended);
        match ended.status.code() {
            Some(DONE) => Ok(()),
            _ => Err(ended.failed("failed", &self.place.shown()).into()),
        }
    }

    /// How long the process that followed a kill took to go on is known when it is over.
    fn heard(&mut self, ended: &Ended) {
        self.report.processes += 1;
        if let Some(kill) = self.report.kills.last_mut().filter(|kill| kill.recovery.is_none()) {
            kill.recovery = ended.heard.first_progress;
        }
    }

    /// What the start after a kill did about it.
    fn recovered(&mut self, child: &Child) -> Result<(), Failed> {
        let counts = child.heard.counts;
        let Some(kill) = self.report.kills.last_mut().filter(|kill| kill.recognised + kill.committed == 0) else { return Ok(()) };
        (kill.recognised, kill.committed) = (counts.recognised, counts.committed_at_start);
        let told = kill.recovery_told();
        self.story.tell("recovery", &told)
    }

    /// The greatest checkpoint: nothing below it is read again, and the broker may drop it.
    async fn checkpoint(&mut self) -> Result<Option<Written>> {
        let greatest = ledger(self.file()?, &self.env)?.greatest().await?;
        if let Some(written) = &greatest {
            self.covered = covered(written);
            for (split, position) in &written.checkpoint.offsets.0 {
                if let Some(partition) = split.rsplit_once('/').and_then(|(_, partition)| partition.parse().ok()) {
                    self.shared.keep(partition, position.offset);
                }
            }
        }
        Ok(greatest)
    }

    /// How many rows a reader sees.
    async fn look(&mut self) -> Result<()> {
        if let Some(table) = Table::open_if_exists(self.store(&self.file()?.sinks[0].location)?).await? {
            let newest = table.snapshot_at(&At::Newest).await?;
            self.visible = newest.map_or(0, |s| u64::try_from(s.rows.unwrap_or(0)).unwrap_or(0));
        }
        Ok(())
    }

    fn store(&self, location: &str) -> Result<Store> {
        Store::open(location, &self.env, self.options.clone())
    }

    async fn audit(&mut self) -> Result<(), Failed> {
        self.story.tell("audit", "both tables are read and compared with what was produced")?;
        let began = self.story.elapsed();
        let truth: Truth = self.shared.truth().ok_or_else(|| Error::internal("it is not known what was produced"))?;
        let file = self.file()?;
        let dead = file.dead_letter.as_ref().ok_or_else(|| Error::internal("the pipeline has no dead letters"))?;
        let (orders, dead) = (self.store(&file.sinks[0].location)?, self.store(&dead.location)?);
        let (orders, dead) = (Table::open_in(orders).await?, Table::open_in(dead).await?);
        self.report.audited = audit::audit_all(&orders, &dead, &self.orders, &truth).await?;
        self.report.findings = self.report.audited.findings();
        self.report.truth = truth;
        self.report.audit_took = self.story.elapsed().saturating_sub(began);
        Ok(())
    }
}

/// Orders below the offsets of a checkpoint.
fn covered(written: &Written) -> u64 {
    written.checkpoint.offsets.0.values().map(|position| position.offset).sum()
}

#[cfg(test)]
mod tests;
