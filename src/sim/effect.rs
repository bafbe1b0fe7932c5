//! One call that took effect on the simulated store.

use bytes::Bytes;

/// What a call does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Writes an object unless it exists.
    Create,
    /// Writes or replaces an object.
    Put,
    /// Removes an object.
    Delete,
    /// Makes the parts of an upload one object.
    Complete,
}

/// One change of the store: what was at a key before and after.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Which process asked for it; [`Effect::OUTSIDE`]: nobody of ours.
    pub process: usize,
    /// What was asked.
    pub op: Op,
    /// The whole key.
    pub key: String,
    /// What was there.
    pub before: Option<Bytes>,
    /// What is there now.
    pub after: Option<Bytes>,
    /// True: another engine's expiry of snapshots.
    pub by_expiry: bool,
}

impl Effect {
    /// The process of what other engines do.
    pub const OUTSIDE: usize = usize::MAX;
}
