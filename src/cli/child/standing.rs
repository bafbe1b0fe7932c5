//! Where a pipeline stands, read from its chain and its tables: of a process that is dead or frozen nothing else tells.

use crate::cli::child::moments::{Counts, Phase};
use crate::env::Env;
use crate::error::Result;
use crate::pipeline::file::PipelineFile;
use crate::store::{Store, StoreOptions};
use crate::stream::Ledger;
use crate::stream::checkpoint::{CheckpointKind, SinkEntry};
use crate::table::Table;

/// The checkpoints of a pipeline.
pub(crate) fn ledger(file: &PipelineFile, env: &Env) -> Result<Ledger> {
    let store = Store::open(&file.checkpoint.location, env, StoreOptions::default())?;
    Ok(Ledger::new(store, &file.pipeline))
}

/// Where in its life a process was that is dead or frozen now and had said `heard`.
pub(crate) async fn phase(file: &PipelineFile, heard: &Counts, env: &Env) -> Result<Phase> {
    let Some(greatest) = ledger(file, env)?.greatest().await? else { return Ok(Phase::BeforeTheFirst) };
    let checkpoint = &greatest.checkpoint;
    match checkpoint.kind {
        CheckpointKind::Open => return Ok(Phase::BeforeTheFirst),
        CheckpointKind::Closed => return Ok(Phase::AtTheEnd),
        CheckpointKind::Data | CheckpointKind::End => {}
    }
    for (url, SinkEntry { messages, .. }) in &checkpoint.sinks {
        if messages.is_some() && newest(url, env).await? != Some(checkpoint.identifier) {
            return Ok(Phase::BetweenCheckpointAndCommit);
        }
    }
    Ok(match checkpoint.kind {
        CheckpointKind::End => Phase::AtTheEnd,
        _ if checkpoint.stop.as_ref().is_some_and(|stop| checkpoint.offsets.covers(stop)) => Phase::AtTheEnd,
        _ if heard.writing => Phase::Writing,
        _ => Phase::AfterCommit,
    })
}

/// The identifier of a table's newest snapshot. Nobody else writes to it.
async fn newest(url: &str, env: &Env) -> Result<Option<i64>> {
    let table = Table::open_in(Store::open(url, env, StoreOptions::default())?).await?;
    let Some(id) = table.snapshot_ids().await?.last().copied() else { return Ok(None) };
    Ok(table.snapshot(id).await?.and_then(|snapshot| snapshot.identifier))
}
