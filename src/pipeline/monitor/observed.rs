//! A source that tells a monitor what it gives.

use std::sync::Arc;

use async_trait::async_trait;

use super::{Monitor, Volume};
use crate::env::Deadline;
use crate::error::Result;
use crate::source::{Offsets, Polled, Resolved, Source, Status};

/// The source of a run, counted.
pub(in crate::pipeline) struct Observed {
    source: Box<dyn Source>,
    monitor: Arc<Monitor>,
}

impl Observed {
    pub(in crate::pipeline) fn new(source: Box<dyn Source>, monitor: Arc<Monitor>) -> Self {
        Observed { source, monitor }
    }
}

#[async_trait]
impl Source for Observed {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        self.source.resolve(from).await
    }

    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        self.source.seek(offsets, stop).await?;
        self.monitor.follows(self.source.status());
        Ok(())
    }

    async fn poll(&mut self, deadline: Deadline) -> Result<Polled> {
        let polled = self.source.poll(deadline).await?;
        match &polled {
            Polled::Records(records) => {
                let bytes = records.ends.last().map_or(0, |end| end.saturating_sub(records.start)) as u64;
                self.monitor.polled(Volume { records: records.len() as u64, bytes });
            }
            Polled::Batch(rows) => {
                let bytes = rows.batch.get_array_memory_size() as u64;
                self.monitor.polled(Volume { records: rows.batch.num_rows() as u64, bytes });
            }
            Polled::End => self.monitor.input_ended(),
            Polled::Idle => {}
        }
        Ok(polled)
    }

    fn position(&self) -> Offsets {
        self.monitor.taken();
        self.source.position()
    }

    async fn committed(&mut self, offsets: &Offsets) -> Result<()> {
        self.monitor.settled();
        self.source.committed(offsets).await
    }

    fn plan(&self) -> Vec<String> {
        self.source.plan()
    }

    fn status(&self) -> Option<Arc<Status>> {
        self.source.status()
    }

    fn replayable(&self) -> bool {
        self.source.replayable()
    }
}
