//! `ingest`: arguments to a pipeline, and the pipeline to its end.

use std::sync::Arc;

use crate::cli::Failed;
use crate::cli::args::IngestArgs;
use crate::cli::cells::Cells;
use crate::cli::child::end_with_parent;
use crate::cli::logs::{Logs, Progress};
use crate::cli::output::{Columns, Form, Output, Value, size};
use crate::cli::pipelines::here;
use crate::cli::signals::watched;
use crate::cli::tables::columns_of;
use crate::env::Env;
use crate::error::Result;
use crate::format::Format;
use crate::pipeline::Monitor;
use crate::pipeline::file::PipelineFile;
use crate::pipeline::location;
use crate::pipeline::plan::{Plan, PlanSink};
use crate::pipeline::run::{Pipeline, Run};
use crate::stream::coordinator::Report;
use crate::stream::decide::Asked;
use crate::stream::{Event, StartOptions};

/// Runs a pipeline, or shows what a run would do.
pub(crate) async fn ingest(args: IngestArgs, output: &mut Output, logs: &Logs) -> Result<(), Failed> {
    end_with_parent();
    let file = file(&args)?;
    let name = file.pipeline.clone();
    let pipeline = Pipeline::from_parts(file).options(options(&args)?);
    if args.dry_run {
        return show(&pipeline.plan().await?, output);
    }
    let run = pipeline.start().await?;
    let stop = run.stop_handle();
    let (monitor, watchdog) = (run.monitor(), run.monitor());
    let given_up = async move { watchdog.given_up().await };
    let report = watched(&Env::real(), logs, stop, given_up, follow(run, Teller::new(&name, logs, monitor))).await??;
    tell(&name, &report, output)
}

fn file(args: &IngestArgs) -> Result<PipelineFile> {
    match (&args.pipeline, &args.to) {
        (Some(path), _) => PipelineFile::load(path, &args.set),
        (None, to) => {
            let to = to.as_deref().unwrap_or_default();
            let format = args.format.map(|format| format!("sinks.0.format={}", Format::from(format)));
            let set: Vec<String> = format.into_iter().chain(args.set.iter().cloned()).collect();
            PipelineFile::for_command(&args.from, to, &here()?, &set, &|name| std::env::var(name).ok())
        }
    }
}

fn options(args: &IngestArgs) -> Result<StartOptions> {
    let here = here()?;
    let url = |text: &str, option: &str| location::absolute(text, &here).map_err(|e| e.at(option));
    Ok(StartOptions {
        asked: Asked { rewind: args.rewind, abandon: args.abandon },
        resolve: args.resolve.iter().map(|(sink, word)| Ok((url(sink, "--resolve")?, *word))).collect::<Result<_>>()?,
        adopt: args.adopt,
        forget: args.forget,
        drop_sinks: args.drop_sink.iter().map(|sink| url(sink, "--drop-sink")).collect::<Result<_>>()?,
        backfill: args.backfill,
    })
}

async fn follow(mut run: Run, mut teller: Teller) -> Result<Report> {
    while let Some(event) = run.next_event().await {
        teller.tell(&event);
    }
    run.finish().await
}

/// Tells the events of a run: into the bar, if there is one, else a line each.
struct Teller {
    pipeline: String,
    /// Known when the run has started.
    run: Option<String>,
    bar: Option<Progress>,
    monitor: Arc<Monitor>,
    verbose: bool,
    commits: u64,
    rows: u64,
    bytes: u64,
}

impl Teller {
    fn new(pipeline: &str, logs: &Logs, monitor: Arc<Monitor>) -> Teller {
        let live = monitor.clone();
        let bar = logs.progress(move || now(&live));
        if let Some(bar) = &bar {
            bar.set(format!("{pipeline}: starting"));
        }
        Teller { pipeline: pipeline.to_owned(), run: None, bar, monitor, verbose: logs.verbose(), commits: 0, rows: 0, bytes: 0 }
    }

    fn tell(&mut self, event: &Event) {
        let pipeline = self.pipeline.as_str();
        match event {
            Event::Started { run, .. } => {
                self.run = Some(run.clone());
                tracing::info!(pipeline, run, "{event}");
            }
            Event::Committed { sink, identifier, snapshot, rows, bytes, millis, .. } => {
                self.commits += 1;
                self.rows += rows;
                self.bytes += bytes;
                if self.bar.is_none() || self.verbose {
                    let end_of_input = (*identifier == crate::format::END_OF_INPUT).then_some(true);
                    tracing::info!(
                        pipeline,
                        run = self.run,
                        identifier,
                        end_of_input,
                        snapshot,
                        rows,
                        bytes,
                        ms = millis,
                        lag = self.monitor.lag_after_commit(),
                        sink,
                        "committed"
                    );
                }
            }
            Event::DeadLetters { .. } | Event::Retry { .. } | Event::Warning { .. } | Event::GoingBack { .. } => {
                tracing::warn!(pipeline, run = self.run, "{event}");
            }
            Event::Finished { .. }
            | Event::LineageClosed { .. }
            | Event::TableCreated { .. }
            | Event::Serving { .. }
            | Event::Reading { .. } => {
                tracing::info!(pipeline, run = self.run, "{event}")
            }
            // What is idle or stalled is told by what watches over the run, also while this one waits.
            Event::Checkpointed { .. } | Event::Idle { .. } | Event::Resumed { .. } | Event::Stalled { .. } => {
                tracing::debug!(pipeline, run = self.run, "{event}")
            }
        }
        if let Some(bar) = &self.bar {
            bar.set(format!("{pipeline}: {} rows, {} in {} commits; {event}", self.rows, size(self.bytes), self.commits));
        }
    }
}

/// How fast it goes, how far behind it is, when it last committed: `1200 records/s, lag 340, last commit 2s ago; `.
fn now(monitor: &Monitor) -> String {
    let mut text = format!("{:.0} records/s", monitor.speed());
    if let Some(lag) = monitor.lag() {
        text.push_str(&format!(", lag {}", lag.commit));
    }
    if let Some(since) = monitor.since_commit() {
        text.push_str(&format!(", last commit {}s ago", since.as_secs()));
    }
    text + "; "
}

fn tell(pipeline: &str, report: &Report, output: &mut Output) -> Result<(), Failed> {
    let Report { records, rows, dead_letters, checkpoints, closed, nothing } = report;
    if output.form() == Form::Table {
        return output.text(&match (nothing, closed) {
            (true, _) => format!("{pipeline}: nothing to read; nothing was written"),
            (false, closed) => {
                let end = if *closed { "end of input" } else { "stopped; the next run goes on here" };
                format!("{pipeline}: {records} records read, {rows} rows and {dead_letters} dead letters committed in {checkpoints} checkpoints; {end}")
            }
        });
    }
    output.one(vec![
        ("pipeline", Value::text(pipeline)),
        ("records", Value::Count(*records)),
        ("rows", Value::Count(*rows)),
        ("dead_letters", Value::Count(*dead_letters)),
        ("checkpoints", Value::Count(*checkpoints)),
        ("closed", Value::Bool(*closed)),
        ("nothing_to_read", Value::Bool(*nothing)),
    ])
}

// ---- the dry run --------------------------------------------------------------------------------------------------------------------------

fn show(plan: &Plan, output: &mut Output) -> Result<(), Failed> {
    if output.form() != Form::Table {
        return show_as_rows(plan, output);
    }
    output.text(&plan.to_string())?;
    for sink in &plan.sinks {
        match &sink.rows {
            None => output.text(&format!("{}: there is nothing to read yet", sink.url))?,
            Some(batch) => {
                output.text(&format!("the first rows of {}:", sink.url))?;
                let cells = Cells::new(batch, &sink.schema);
                let mut rows = output.rows(Columns::new(cells.names()));
                for row in 0..batch.num_rows() {
                    rows.push(cells.row(row))?;
                }
                rows.finish()?;
            }
        }
        for reject in &sink.rejects {
            output.text(&format!("no row: {reject}"))?;
        }
    }
    output.text("nothing was written")
}

fn show_as_rows(plan: &Plan, output: &mut Output) -> Result<(), Failed> {
    let mut rows = output.rows(Columns::new(["sink", "exists", "columns", "partition_by", "rows", "rejects", "plan"]));
    for sink in &plan.sinks {
        rows.push(vec![
            Value::text(&sink.url),
            Value::Bool(sink.exists),
            Value::List(columns_of(&sink.schema)),
            Value::List(sink.schema.partition_by.iter().map(Value::text).collect()),
            sample(sink)?,
            Value::List(sink.rejects.iter().map(Value::text).collect()),
            Value::List(plan.lines.iter().map(Value::text).collect()),
        ])?;
    }
    rows.finish()
}

fn sample(sink: &PlanSink) -> Result<Value> {
    let Some(batch) = &sink.rows else { return Ok(Value::Null) };
    let cells = Cells::new(batch, &sink.schema);
    let row = |i| Value::Map(cells.names().map(str::to_owned).zip(cells.row(i)).collect());
    Ok(Value::List((0..batch.num_rows()).map(row).collect()))
}
