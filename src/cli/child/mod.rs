//! A process that runs the pipeline: started, listened to, killed, frozen. It never outlives the command.

pub(crate) mod moments;
pub(crate) mod standing;

use std::collections::VecDeque;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStderr, Command};

use crate::cli::child::moments::{Aim, Counts, Said};
use crate::env::Env;
use crate::error::{Error, Kind, Result};

/// So many of its last lines are shown when it fails.
const SHOWN: usize = 8;
/// After a stop signal nothing more is said, but what was said before may still be on its way.
const QUIET: Duration = Duration::from_millis(5);

/// Tells a process who started it: its id.
const PARENT: &str = "LAKEWARD_FAILOVER_PARENT";

/// Ends this process when the `failover` that started it ends, also when that is killed and can do nothing about it. The kernel is asked by
/// the process itself, and only Linux can be.
pub(crate) fn end_with_parent() {
    #[cfg(target_os = "linux")]
    if let Some(parent) = std::env::var(PARENT).ok().and_then(|pid| pid.parse().ok()) {
        let asked = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        // It may be gone already.
        if asked.is_ok() && rustix::process::getppid() != Pid::from_raw(parent) {
            std::process::exit(i32::from(Kind::Unavailable.exit_code()));
        }
    }
}

/// What the processes of a round share.
#[derive(Clone, Copy)]
pub(crate) struct Recipe<'a> {
    pub(crate) pipeline: &'a Path,
    pub(crate) set: &'a [String],
    pub(crate) env: &'a Env,
    /// A process that says nothing for so long, and does not end, hangs.
    pub(crate) patience: Duration,
}

/// What is known of a process from what it said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) counts: Counts,
    /// From its start to its first checkpoint.
    pub(crate) first_checkpoint: Option<Duration>,
    /// From its start to the first commit that was not there before.
    pub(crate) first_progress: Option<Duration>,
    /// To the last of each.
    last_checkpoint: Option<Duration>,
    pub(crate) last_commit: Option<Duration>,
    /// All times from a checkpoint to its last commit, and from there to the next checkpoint.
    committing: Duration,
    writing: Duration,
    last: VecDeque<String>,
}

impl Heard {
    /// From a checkpoint to its last commit, on average.
    pub(crate) fn mean_committing(&self) -> Duration {
        self.committing / self.checkpoints()
    }
    /// From the last commit of a checkpoint to the next checkpoint, on average.
    pub(crate) fn mean_writing(&self) -> Duration {
        self.writing / self.checkpoints()
    }
    fn checkpoints(&self) -> u32 {
        u32::try_from(self.counts.checkpointed.max(1)).unwrap_or(u32::MAX)
    }

    fn hear(&mut self, text: &str, at: Duration) -> Said {
        let line: Json = serde_json::from_str(text).unwrap_or_default();
        let said = Said::of(&line);
        self.counts.count(said);
        match said {
            Said::Checkpointed { .. } => {
                self.first_checkpoint.get_or_insert(at);
                self.writing += self.last_commit.or(self.last_checkpoint).map_or(Duration::ZERO, |commit| at.saturating_sub(commit));
                self.last_checkpoint = Some(at);
            }
            Said::Committed { .. } => {
                self.first_progress.get_or_insert(at);
                let before = self.last_commit.max(self.last_checkpoint);
                self.committing += before.map_or(Duration::ZERO, |before| at.saturating_sub(before));
                self.last_commit = Some(at);
            }
            Said::Finished { already: false } => drop(self.first_progress.get_or_insert(at)),
            _ => {}
        }
        if self.last.len() == SHOWN {
            self.last.pop_front();
        }
        self.last.push_back(shown(&line, text));
        said
    }
}

/// A line of the log, for eyes.
fn shown(line: &Json, text: &str) -> String {
    let word = |key: &str| line[key].as_str();
    match (word("level"), word("message").or(word("event"))) {
        (Some(level), Some(message)) => {
            let hint = word("hint").map_or(String::new(), |hint| format!("; {hint}"));
            format!("{level} {message}{hint}")
        }
        _ => text.to_owned(),
    }
}

/// How a process ended.
pub(crate) struct Ended {
    pub(crate) pid: u32,
    pub(crate) status: ExitStatus,
    pub(crate) took: Duration,
    pub(crate) heard: Heard,
}

impl Ended {
    /// The error that says so, with its last lines. `round` is where its tables are.
    pub(crate) fn failed(&self, what: &str, round: &str) -> Error {
        let kind = match self.status.code() {
            Some(2) => Kind::Invalid,
            Some(4) => Kind::Fenced,
            Some(5) => Kind::Data,
            Some(75) => Kind::Unavailable,
            _ => Kind::Internal,
        };
        let lines: Vec<String> = self.heard.last.iter().map(|l| format!("  | {}", l.replace('\n', "\n  | "))).collect();
        let hint = format!("its tables and checkpoints are kept there; these are its last lines\n{}", lines.join("\n"));
        Error::new(kind, format!("process {} {what}: {}", self.pid, self.status)).at(round).hint(hint)
    }
}

/// A process. Killed when dropped.
pub(crate) struct Child {
    process: tokio::process::Child,
    lines: Lines<BufReader<ChildStderr>>,
    env: Env,
    patience: Duration,
    pub(crate) pid: u32,
    started: Duration,
    pub(crate) heard: Heard,
}

impl Child {
    /// Starts `table-cli ingest` of the same executable.
    pub(crate) fn start(recipe: &Recipe<'_>) -> Result<Child> {
        let cannot = |e: std::io::Error| Error::unavailable("a process cannot be started").because(e);
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.arg("ingest").arg(recipe.pipeline).args(["--log-format", "json", "-o", "jsonl"]);
        command.args(recipe.set.iter().flat_map(|set| ["--set", set]));
        // Each event is wanted at the moment when it happens.
        command.env("RUST_LOG", "info,lakeward=debug").env(PARENT, std::process::id().to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        // A Ctrl-C on the terminal is for the command; it ends the processes itself.
        command.process_group(0);
        let mut process = command.spawn().map_err(cannot)?;
        let (Some(err), Some(pid)) = (process.stderr.take(), process.id()) else {
            return Err(Error::internal("a process without standard error or id"));
        };
        let env = recipe.env.clone();
        let lines = BufReader::new(err).lines();
        Ok(Child { process, lines, started: env.monotonic(), env, patience: recipe.patience, pid, heard: Heard::default() })
    }

    /// The next thing that it says; none when it is over. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Option<Said> {
        // What is no text, or an error of the pipe, is no reason to lose the process.
        let line = self.lines.next_line().await.unwrap_or_default()?;
        Some(self.heard.hear(&line, self.env.monotonic().saturating_sub(self.started)))
    }

    /// [`Child::next`], or `Unavailable` when it hangs.
    async fn next_in_time(&mut self, round: &str) -> Result<Option<Said>> {
        let (env, patience, pid) = (self.env.clone(), self.patience, self.pid);
        tokio::select! {
            said = self.next() => Ok(said),
            () = env.sleep(patience) => {
                let what = format!("process {pid} has said nothing for {} seconds and does not end", patience.as_secs());
                Err(Error::unavailable(what).at(round).hint("its tables and checkpoints are kept there; look where it hangs"))
            }
        }
    }

    /// Lets it live to its moment. False: it was over before.
    pub(crate) async fn live_to(&mut self, aim: Aim, round: &str) -> Result<bool> {
        let after = match aim {
            Aim::After(after) => after.saturating_sub(self.age()),
            Aim::Line(kind, mut n, after) => {
                while n > 0 {
                    match self.next_in_time(round).await? {
                        None => return Ok(false),
                        Some(said) => n -= usize::from(kind.is(said, &self.heard.counts)),
                    }
                }
                after
            }
        };
        Ok(self.listen_for(after).await)
    }

    /// Listens for so long. False: it was over before.
    async fn listen_for(&mut self, time: Duration) -> bool {
        let env = self.env.clone();
        let over = env.sleep(time);
        tokio::pin!(over);
        loop {
            tokio::select! {
                biased;
                () = &mut over => return true,
                said = self.next() => if said.is_none() { return false },
            }
        }
    }

    fn age(&self) -> Duration {
        self.env.monotonic().saturating_sub(self.started)
    }

    /// SIGKILL. It may have ended by itself: the status tells.
    pub(crate) async fn kill(mut self) -> Result<Ended> {
        // Fails only for a process that is over.
        let _ = self.process.start_kill();
        while self.next().await.is_some() {}
        self.wait().await
    }

    /// SIGSTOP, and what it had said before.
    pub(crate) async fn freeze(&mut self) {
        self.send(Signal::STOP);
        while self.listen_for(QUIET).await {
            let before = self.heard.counts;
            if !self.listen_for(QUIET).await || before == self.heard.counts {
                return;
            }
        }
    }
    /// SIGTERM: it finishes what is pending and ends.
    #[cfg(feature = "kafka")]
    pub(crate) fn terminate(&self) {
        self.send(Signal::TERM);
    }
    /// SIGCONT.
    pub(crate) fn wake(&self) {
        self.send(Signal::CONT);
    }
    fn send(&self, signal: Signal) {
        // It is not reaped before it is waited for, so this is its id and nobody else's.
        if let Some(pid) = self.process.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Is it over? Then nothing can be done to it any more.
    pub(crate) fn is_over(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    /// Waits for its end, and listens to another one meanwhile.
    pub(crate) async fn end_beside(mut self, other: &mut Child, round: &str) -> Result<Ended> {
        let mut talks = true;
        loop {
            tokio::select! {
                said = self.next_in_time(round) => if said?.is_none() { break },
                said = other.next(), if talks => talks = said.is_some(),
            }
        }
        self.wait().await
    }

    /// Waits for its end.
    pub(crate) async fn end(mut self, round: &str) -> Result<Ended> {
        while self.next_in_time(round).await?.is_some() {}
        self.wait().await
    }

    async fn wait(mut self) -> Result<Ended> {
        let status = self.process.wait().await.map_err(|e| Error::unavailable("a process cannot be waited for").because(e))?;
        Ok(Ended { pid: self.pid, status, took: self.age(), heard: self.heard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_said_is_counted_and_timed() {
        let mut heard = Heard::default();
        let ms = Duration::from_millis;
        for (at, event) in [
            (5, "checkpoint 3: commit 3 had landed before in /t as snapshot 3; recognised"),
            (10, "checkpoint 4 written (data, identifier 4)"),
            (14, "committed 4 to /t: snapshot 4, 1 rows, 1 bytes, 1 ms"),
            (16, "committed 4 to /u: snapshot 4, 1 rows, 1 bytes, 1 ms"),
        ] {
            heard.hear(&serde_json::json!({"level": "DEBUG", "event": event}).to_string(), ms(at));
        }
        assert_eq!((heard.counts.recognised, heard.counts.checkpointed, heard.counts.committed), (1, 1, 2));
        assert_eq!((heard.first_checkpoint, heard.first_progress), (Some(ms(10)), Some(ms(14))));
        assert_eq!((heard.mean_committing(), heard.mean_writing(), heard.counts.since), (ms(6), ms(0), 2));
        assert!(!heard.counts.writing);
        heard.hear(r#"{"level":"DEBUG","message":"opened bucket-0/data.parquet"}"#, ms(20));
        assert!(heard.counts.writing);
        assert_eq!(heard.last.back().unwrap(), "DEBUG opened bucket-0/data.parquet");
    }
}
