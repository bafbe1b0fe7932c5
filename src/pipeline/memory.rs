//! How `memory:` is shared out. `spec/memory.md` says what is counted where.

use std::fmt;

use super::file::{PipelineFile, SourceKind};

/// One budget for the whole process: so much for what the consumer has fetched, for records and rows between source and sinks, and for
/// the writers. What is left over is for what nobody counts: buffers of decoders and uploads, lists of files, the allocator.
///
/// When a share is used up, whoever fills it waits: writers close row groups and files, the window takes no more chunks, and then the
/// source is not polled, which holds its partitions back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// `memory:`, bytes.
    pub total: usize,
    /// Records that the source's consumer has fetched and nobody has asked for yet, bytes; 0 for a source that fetches nothing ahead.
    pub consumer: usize,
    /// Records that were read and rows that were decoded from them, until a writer has taken them, bytes. One chunk may have more.
    pub window: usize,
    /// Each sink's rows on their way into files, bytes; dead letters are a sink.
    pub writer: usize,
    /// How many writers there are.
    pub writers: usize,
}

impl MemoryPlan {
    /// Shares out `total` bytes. `fetches_ahead`: does the source have a consumer?
    pub fn new(total: u64, writers: usize, fetches_ahead: bool) -> MemoryPlan {
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        MemoryPlan {
            total,
            consumer: if fetches_ahead { total / 8 } else { 0 },
            window: total / 8,
            writer: total / 2 / writers.max(1),
            writers,
        }
    }
    /// What is left over, bytes.
    pub fn rest(&self) -> usize {
        self.total - self.consumer - self.window - self.writer * self.writers
    }
}

impl PipelineFile {
    /// How `memory:` is shared out.
    pub fn memory_plan(&self) -> MemoryPlan {
        let writers = self.sinks.len() + usize::from(self.dead_letter.is_some());
        MemoryPlan::new(self.memory, writers, matches!(self.source.kind, SourceKind::Kafka(_)))
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: usize| {
            let kib = bytes >> 10;
            if kib.is_multiple_of(1024) { format!("{} MiB", kib >> 10) } else { format!("{kib} KiB") }
        };
        write!(f, "memory {}: ", size(self.total))?;
        if self.consumer > 0 {
            write!(f, "{} fetched ahead, ", size(self.consumer))?;
        }
        write!(f, "{} read and decoded, {} in writers", size(self.window), size(self.writer * self.writers))?;
        if self.writers > 1 {
            write!(f, " ({} of them, {} each)", self.writers, size(self.writer))?;
        }
        write!(f, ", {} for the rest", size(self.rest()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_add_up_to_more_than_there_is() {
        for total in [16 << 20, (16 << 20) + 7, 512 << 20, u64::MAX] {
            for writers in [1, 2, 3, 30] {
                for ahead in [false, true] {
                    let plan = MemoryPlan::new(total, writers, ahead);
                    let sum = plan.consumer + plan.window + plan.writer * plan.writers + plan.rest();
                    assert_eq!(sum, plan.total);
                    assert!(plan.rest() >= plan.total / 4, "{plan}");
                    assert_eq!(plan.consumer > 0, ahead);
                }
            }
        }
    }

    #[test]
    fn the_plan_can_be_read() {
        assert_eq!(
            MemoryPlan::new(512 << 20, 2, true).to_string(),
            "memory 512 MiB: 64 MiB fetched ahead, 64 MiB read and decoded, 256 MiB in writers (2 of them, 128 MiB each), 128 MiB for the rest"
        );
        assert_eq!(
            MemoryPlan::new(16 << 20, 1, false).to_string(),
            "memory 16 MiB: 2 MiB read and decoded, 8 MiB in writers, 6 MiB for the rest"
        );
    }
}
