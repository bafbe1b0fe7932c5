//! What the source tells of its partitions while it runs. Where they end is asked for by [`watch`](super::watch).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::source::{Offsets, Origin, Records, SplitStatus, Status};

/// The status, and what it needs to know besides.
#[derive(Default)]
pub(super) struct Known {
    pub(super) status: Arc<Status>,
    /// Per split what the checkpoint has that is being made: the offset to read next, the timestamp of the last record below.
    taken: Mutex<HashMap<String, (u64, Option<i64>)>>,
}

impl Known {
    /// These are read, each from where it stands.
    pub(super) fn begins<'a>(&self, splits: impl Iterator<Item = (&'a Origin, u64)>) {
        self.status.update(|all| {
            for (origin, start) in splits {
                all.insert(origin.split.clone(), SplitStatus { read: start, committed: start, ..new(origin) });
            }
        });
    }

    /// A chunk was handed on; `records` may be none, then only the position moved.
    pub(super) fn read(&self, origin: &Origin, next: u64, records: Option<&Records>) {
        let last = records.and_then(|r| r.timestamps.last()).copied().filter(|ms| *ms >= 0);
        self.status.update(|all| {
            if !all.contains_key(&origin.split) {
                all.insert(origin.split.clone(), new(origin));
            }
            if let Some(s) = all.get_mut(&origin.split) {
                s.read = s.read.max(next);
                s.read_ms = last.or(s.read_ms);
                // What was read exists, whatever the last answer was.
                s.end = s.end.map(|end| end.max(next));
            }
        });
    }

    /// A checkpoint is made of what was read.
    pub(super) fn taken(&self) {
        let taken = self.status.look(|all| all.iter().map(|(split, s)| (split.clone(), (s.read, s.read_ms))).collect());
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = taken;
    }

    /// Everything below `offsets` is durable and visible.
    pub(super) fn committed(&self, offsets: &Offsets) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        self.status.update(|all| {
            for (split, s) in all {
                let Some(offset) = offsets.position(split).map(|p| p.offset) else { continue };
                s.committed = offset;
                if let Some((_, ms)) = taken.get(split).filter(|(next, _)| *next == offset) {
                    s.committed_ms = ms.or(s.committed_ms);
                }
            }
        });
    }
}

fn new(origin: &Origin) -> SplitStatus {
    SplitStatus { name: origin.name.clone(), partition: origin.partition, ..SplitStatus::default() }
}
