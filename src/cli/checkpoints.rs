//! `checkpoints`: the series that a pipeline goes by.

use std::collections::BTreeMap;

use crate::cli::Failed;
use crate::cli::args::CheckpointsArgs;
use crate::cli::output::{Columns, Form, Output, Value};
use crate::cli::pipelines::{names_file, no_set, store};
use crate::error::{Error, Result};
use crate::pipeline::file::PipelineFile;
use crate::source::Offsets;
use crate::store::Store;
use crate::stream::Ledger;
use crate::stream::checkpoint::{Checkpoint, SinkEntry};

/// Lists the checkpoints, or shows one.
pub(crate) async fn checkpoints(args: CheckpointsArgs, output: &mut Output) -> Result<(), Failed> {
    let ledger = ledger(&args).await?;
    if let Some(seq) = args.json {
        return output.object(stored(&ledger, seq).await?);
    }
    let Some(greatest) = ledger.greatest().await? else {
        return Err(Error::invalid(format!("there is no checkpoint of pipeline `{}`", ledger.pipeline()))
            .at(ledger.location())
            .hint("has the pipeline run, and is this the checkpoint.location that it ran with?")
            .into());
    };
    let times: BTreeMap<String, i64> = ledger.store().list(ledger.pipeline()).await?.into_iter().map(|e| (e.name, e.modified_ms)).collect();
    let now = ledger.store().env().now_ms();
    // One table is what most pipelines write to; its url on every line would only make the lines long.
    let brief = output.form() == Form::Table && greatest.checkpoint.sinks.len() == 1;
    let columns = ["seq", "kind", "identifier", "user", "time", "age_s", "offsets", "rows", "messages", "writer", "from"];
    let mut rows = output.rows(Columns::new(columns).identifier("identifier"));
    for written in ledger.history(&greatest).await? {
        let time = times.get(&object(written.checkpoint.seq)).copied();
        rows.push(row(&written.checkpoint, time, now, brief))?;
    }
    rows.finish()
}

/// A checkpoint with everything that its object says, also what this program does not know.
async fn stored(ledger: &Ledger, seq: u64) -> Result<serde_json::Value> {
    let name = format!("{}/{}", ledger.pipeline(), object(seq));
    let bytes = ledger.store().get(&name).await?.ok_or_else(|| {
        Error::invalid(format!("there is no checkpoint {seq} of pipeline `{}`", ledger.pipeline()))
            .at(ledger.location())
            .hint("`table-cli checkpoints` without --json lists what is kept")
    })?;
    let at = |e| Error::data("this is no checkpoint").at(format!("{}/{name}", ledger.location())).because(e);
    serde_json::from_slice::<serde_json::Value>(&bytes).map_err(at)
}

fn object(seq: u64) -> String {
    format!("{seq:020}.json")
}

async fn ledger(args: &CheckpointsArgs) -> Result<Ledger> {
    if args.name.is_none() && names_file(&args.target) {
        let file = PipelineFile::load(args.target.as_ref(), &args.set)?;
        return Ok(Ledger::new(store(&file.checkpoint.location)?, &file.pipeline));
    }
    no_set(&args.set)?;
    let store = store(&args.target)?;
    match &args.name {
        Some(name) => Ok(Ledger::new(store, name)),
        None => {
            let there = pipelines(&store).await?;
            let hint = match there.is_empty() {
                true => "there is none here; give the pipeline file, or the checkpoint location and the pipeline's name".to_owned(),
                false => format!("these are here: {}", there.join(", ")),
            };
            Err(Error::invalid("which pipeline? its name is missing").at(store.url()).hint(hint))
        }
    }
}

/// Names of the pipelines that have a chain in a checkpoint location.
async fn pipelines(store: &Store) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for entry in store.list_all("").await? {
        if let Some((name, object)) = entry.name.split_once('/')
            && object.len() == 25
            && object.ends_with(".json")
            && names.last().is_none_or(|last| last != name)
        {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

fn row(c: &Checkpoint, time: Option<i64>, now: i64, brief: bool) -> Vec<Value> {
    let per_sink = |f: fn(&SinkEntry) -> u64| {
        let mut some = c.sinks.iter().filter(|(_, entry)| entry.messages.is_some());
        match brief {
            true => Value::or_null(some.next(), |(_, entry)| Value::Count(f(entry))),
            false => Value::Map(some.map(|(url, entry)| (url.clone(), Value::Count(f(entry)))).collect()),
        }
    };
    let from = c.from.as_ref().map(|from| format!("{} {}", format!("{:?}", from.mode).to_lowercase(), from.link.seq));
    vec![
        Value::Count(c.seq),
        Value::text(c.kind.as_str()),
        Value::Identifier(c.identifier),
        Value::User(c.user.to_string()),
        Value::or_null(time, Value::Time),
        Value::or_null(time, |t| Value::Age(u64::try_from((now - t) / 1000).unwrap_or(0))),
        offsets(&c.offsets),
        per_sink(Checkpoint::rows),
        per_sink(|entry| entry.messages.as_ref().map_or(0, |m| m.len() as u64)),
        Value::Text(format!("{} pid {}", c.writer.host, c.writer.pid)),
        Value::or_null(from, Value::Text),
    ]
}

/// By split; what is put away as its number.
fn offsets(offsets: &Offsets) -> Value {
    let finished = Some(offsets.finished()).filter(|n| *n > 0).map(|n| ("//finished".to_owned(), Value::Count(n)));
    Value::Map(finished.into_iter().chain(offsets.0.iter().map(|(split, p)| (split.clone(), Value::Count(p.offset)))).collect())
}
