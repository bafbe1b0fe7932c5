//! What a source knows of its splits while it runs: how far each was read and committed, and where it ends now. The source writes it (from
//! whatever thread learns it), metrics, the watchdog and the progress line read it, also while a commit hangs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// One split, as of a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitStatus {
    /// Topic name or file path.
    pub name: String,
    /// The Kafka partition.
    pub partition: Option<i32>,
    /// The offset after the last record that exists, as far as is known (Kafka: the high watermark); none: not known yet.
    pub end: Option<u64>,
    /// Where reading ends for now although records follow (Kafka: the end that the reading client has seen; above it a transaction may be open); none: at `end`.
    pub readable: Option<u64>,
    /// The offset of the next record to read: everything below was handed on.
    pub read: u64,
    /// Timestamp of the last record below `read`, milliseconds since 1970-01-01 UTC.
    pub read_ms: Option<i64>,
    /// Everything below is durable and visible.
    pub committed: u64,
    /// Timestamp of the last record below `committed`, milliseconds since 1970-01-01 UTC.
    pub committed_ms: Option<i64>,
    /// Reading is held back because too much waits to be written.
    pub paused: bool,
}

impl SplitStatus {
    /// Records (or bytes, where offsets are bytes) that exist and were not read.
    pub fn write_lag(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.read))
    }
    /// Records that can be read and were not: [`SplitStatus::write_lag`] without those of open transactions.
    pub fn unread(&self) -> Option<u64> {
        self.readable.or(self.end).map(|end| end.saturating_sub(self.read))
    }
    /// Records that exist and are not committed.
    pub fn commit_lag(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.committed))
    }
}

/// All splits of a source, shared between it and those who look.
#[derive(Debug, Default)]
pub struct Status(Mutex<BTreeMap<String, SplitStatus>>);

impl Status {
    /// A copy of all, by split.
    pub fn splits(&self) -> BTreeMap<String, SplitStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Looks at them; must be quick.
    pub fn look<T>(&self, look: impl FnOnce(&BTreeMap<String, SplitStatus>) -> T) -> T {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// Changes them; must be quick.
    pub fn update(&self, change: impl FnOnce(&mut BTreeMap<String, SplitStatus>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
