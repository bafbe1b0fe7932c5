//! The command `table-cli`: arguments, what they mean, running them; output and exit codes.

mod args;
mod cells;
mod checkpoints;
mod checks;
pub(crate) mod child;
mod create;
#[cfg(feature = "kafka")]
mod demo;
mod diff;
mod doctor;
mod expire;
mod failover;
mod files;
mod ingest;
#[cfg(feature = "kafka")]
mod lag;
mod logs;
mod output;
mod partitions;
mod pipelines;
mod rows;
mod signals;
mod tables;

use std::ffi::OsString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::cli::args::{Cli, Command};
use crate::cli::logs::Logs;
use crate::cli::output::Output;
use crate::error::{Error, Kind};

/// Exit code of a check that found something.
const FOUND: u8 = 3;

/// Why a command did not end well.
pub(crate) enum Failed {
    /// It is told, and has an exit code.
    Said(Error),
    /// A check found something, and the report says what: exit code 3.
    Found,
    /// Nobody reads standard output any more: as good as done.
    Closed,
    /// Standard output cannot be written.
    Output(io::Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed::Said(error)
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failed::Closed,
            _ => Failed::Output(error),
        }
    }
}

/// Runs the command line `args` (the first is the program's name) and says how it ended: see [`Kind::exit_code`].
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(usage) => {
            // Help and version come here too. A closed pipe is no error.
            let _ = usage.print();
            return ExitCode::from(if usage.use_stderr() { Kind::Invalid.exit_code() } else { 0 });
        }
    };
    let logs = Logs::start(&cli.global);
    let mut output = Output::stdout(cli.global.output);
    match catch_unwind(AssertUnwindSafe(|| dispatch(cli.command, &mut output, &logs))) {
        Ok(Ok(())) | Ok(Err(Failed::Closed)) => ExitCode::SUCCESS,
        Ok(Err(Failed::Found)) => ExitCode::from(FOUND),
        Ok(Err(Failed::Said(error))) => {
            logs.error(&error);
            ExitCode::from(error.kind().exit_code())
        }
        Ok(Err(Failed::Output(error))) => {
            logs.error(&Error::unavailable("it cannot be written").at("standard output").because(error));
            ExitCode::from(1)
        }
        // The panic has printed its own message.
        Err(_) => ExitCode::from(Kind::Internal.exit_code()),
    }
}

fn dispatch(command: Command, output: &mut Output, logs: &Logs) -> Result<(), Failed> {
    if let Command::Completions(args) = command {
        let mut script = Vec::new();
        clap_complete::generate(args.shell, &mut Cli::command(), "table-cli", &mut script);
        return output.text(&String::from_utf8_lossy(&script));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1) // for the connections of the store client; the work itself is on this thread and on blocking ones
        .enable_all()
        .build()
        .map_err(|e| Error::unavailable("the process cannot start its threads").because(e))?;
    let result = runtime.block_on(answer(command, output, logs));
    // A blocking thread may still hang in a call to a disk that is away; nothing waits for it.
    runtime.shutdown_background();
    result
}

async fn answer(command: Command, output: &mut Output, logs: &Logs) -> Result<(), Failed> {
    match command {
        Command::Ingest(args) => ingest::ingest(*args, output, logs).await,
        Command::Create(args) => create::create(args, output).await,
        Command::Info(args) => tables::info(args, output).await,
        Command::Schema(args) => tables::schema(args, output).await,
        Command::Snapshots(args) => tables::snapshots(args, output).await,
        Command::Snapshot(args) => tables::snapshot(args, output).await,
        Command::Manifests(args) => partitions::manifests(args, output).await,
        Command::Files(args) => files::files(args, output).await,
        Command::Partitions(args) => partitions::partitions(args, output).await,
        Command::Diff(args) => diff::diff(args, output).await,
        Command::Cat(args) => rows::cat(args, output).await,
        Command::Count(args) => rows::count(args, output).await,
        Command::Audit(args) => checks::audit(args, output).await,
        Command::Verify(args) => checks::verify(args, output).await,
        Command::Checkpoints(args) => checkpoints::checkpoints(args, output).await,
        #[cfg(feature = "kafka")]
        Command::Lag(args) => lag::lag(args, output).await,
        Command::Config(args) => pipelines::config(args, output),
        Command::Doctor(args) => doctor::doctor(args, output).await,
        Command::DeadLetters(args) => rows::dead_letters(args, output).await,
        #[cfg(feature = "kafka")]
        Command::Demo(args) => demo::demo(args, output, logs).await,
        Command::Failover(args) => failover::failover(args, output, logs).await,
        Command::Expire(args) => expire::expire(args, output).await,
        Command::Completions(_) => Ok(()),
    }
}
