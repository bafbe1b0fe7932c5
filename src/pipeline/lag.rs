//! How far a pipeline is behind its topics: what the brokers have against what its chain says. Writes nothing, and needs no run.

use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::{PipelineFile, SourceKind};
use crate::pipeline::sources;
use crate::source::Offsets;
use crate::store::{Store, StoreOptions};
use crate::stream::Ledger;
use crate::stream::checkpoint::Checkpoint;

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// Offset of the first record that is kept.
    pub first: u64,
    /// The offset after the last record that exists.
    pub end: u64,
    /// What the greatest checkpoint covers. Where it does not name the partition, its first record.
    pub committed: u64,
    /// Records below `committed` that the consumer group does not have: the checkpoint's commit may be under way. None: the group has nothing
    /// of this partition.
    pub pending: Option<u64>,
    /// Milliseconds since the first record that waits was written, by its own timestamp; 0 without lag; none: it could not be read.
    pub age_ms: Option<u64>,
}

impl PartitionLag {
    /// Records that exist and are not covered.
    pub fn records(&self) -> u64 {
        self.end.saturating_sub(self.committed)
    }
}

/// Every partition that the pipeline reads now, by topic and number. `Invalid` when its source is not Kafka, or it has never run.
pub async fn lag(file: &PipelineFile, env: &Env, options: StoreOptions) -> Result<Vec<PartitionLag>> {
    let SourceKind::Kafka(kafka) = &file.source.kind else {
        let hint = "`table-cli checkpoints` shows how far it is";
        return Err(file.locate("source", Error::invalid("lag is known of Kafka topics only").hint(hint)));
    };
    let ledger = Ledger::new(Store::open(&file.checkpoint.location, env, options)?, &file.pipeline);
    let Some(greatest) = ledger.greatest().await? else {
        return Err(Error::invalid(format!("there is no checkpoint of pipeline `{}`", file.pipeline))
            .at(ledger.location())
            .hint("has it run, and is this the checkpoint.location that it ran with?"));
    };
    let offsets = finished(&greatest.checkpoint);
    let mut source = sources::kafka_source(file, kafka, env)?;
    let mut all = Vec::new();
    for b in source.bounds().await? {
        let committed = offsets.position(&b.split()).map_or(b.first, |p| p.offset);
        let pending = b.group.map(|group| committed.saturating_sub(group));
        all.push(PartitionLag { topic: b.topic, partition: b.partition, first: b.first, end: b.end, committed, pending, age_ms: Some(0) });
    }
    let behind: Vec<_> = all.iter().filter(|p| p.records() > 0).map(|p| (p.topic.clone(), p.partition, p.committed)).collect();
    if !behind.is_empty() {
        let written = source.timestamps_at(&behind).await?;
        let now = env.now_ms();
        for p in all.iter_mut().filter(|p| p.records() > 0) {
            let at = written.get(&(p.topic.clone(), p.partition));
            p.age_ms = at.map(|ms| u64::try_from(now.saturating_sub(*ms)).unwrap_or(0));
        }
    }
    Ok(all)
}

/// What is covered in every sink once this checkpoint is finished.
fn finished(checkpoint: &Checkpoint) -> Offsets {
    let settled = checkpoint.sinks.values().map(|entry| checkpoint.settled(entry));
    settled.reduce(|least, other| least.min(&other)).unwrap_or_else(|| checkpoint.offsets.clone())
}
