//! What is run and what may go wrong in it, as values: scenarios, faults, budgets, schedules, and what was seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::env::Rule;
use crate::sim::oracle::Violation;
use crate::sim::outside::Outside;
use crate::sim::process::Setup;
use crate::sim::store::Ask;

/// What can become of a call besides taking effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// Answered 503; no effect.
    Refused,
    /// Takes effect; the answer gets lost.
    AnswerLost,
    /// The answer is a time-out; the request waits somewhere and takes effect later, or never.
    Late,
    /// A create is answered 409 or 412; no effect.
    SaysTaken,
    /// The process dies; no effect. (Dying after the call is dying before the next one.)
    Dies,
    /// The process dies; the request waits somewhere and takes effect later, or never.
    DiesLate,
}

impl Fault {
    pub(super) const ALL: [Fault; 6] = [Fault::Refused, Fault::AnswerLost, Fault::Late, Fault::SaysTaken, Fault::Dies, Fault::DiesLate];

    pub(super) fn fits(self, ask: &Ask) -> bool {
        match self {
            Fault::Refused | Fault::Dies => true,
            Fault::AnswerLost | Fault::Late | Fault::DiesLate => !ask.reads(),
            Fault::SaysTaken => matches!(ask, Ask::Put { create: true, .. }),
        }
    }
}

/// How much may go wrong in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Calls of which something else becomes.
    pub faults: u8,
    /// Times that a process is left waiting although it could go on.
    pub preemptions: u8,
    /// Things that other engines do.
    pub outside: u8,
}

impl Budget {
    pub(super) fn covers(self, other: Budget) -> bool {
        self.faults >= other.faults && self.preemptions >= other.preemptions && self.outside >= other.outside
    }
}

/// A pipeline and what may happen to it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name in schedules.
    pub name: String,
    /// Lives that ran before, without trouble; some were killed when a certain object had been written.
    pub before: Vec<Before>,
    /// The processes; each is started again when it dies.
    pub slots: Vec<Setup>,
    /// The life after all, without trouble.
    pub last: Setup,
    /// How much may go wrong.
    pub budget: Budget,
    /// What other engines may do.
    pub outside: Vec<Outside>,
    /// May a start end with `Data`, because what it needs to know is gone?
    pub data_allowed: bool,
    /// Are calls on fresh names choice points too?
    pub every_call: bool,
    /// The rules that are switched off.
    pub broken: BTreeSet<Rule>,
}

/// A life that ran before.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// What it was told to do.
    pub setup: Setup,
    /// It was killed when it had written the object with this key; none: it ended.
    pub until: Option<&'static str>,
}

/// The choices of one run that were not the usual one: which branching, which move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule(pub BTreeMap<usize, usize>);

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(at, choice)| format!("{at}:{choice}")).collect();
        f.write_str(if parts.is_empty() { "-".to_owned() } else { parts.join(".") }.as_str())
    }
}

impl Budget {
    /// Faults, preemptions, outside: `1.3.0`. With the schedule it tells a run.
    pub fn parse(text: &str) -> Option<Budget> {
        let mut parts = text.split('.').map(|p| p.parse().ok());
        Some(Budget { faults: parts.next()??, preemptions: parts.next()??, outside: parts.next()?? })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.faults, self.preemptions, self.outside)
    }
}

impl Schedule {
    /// Reads the text form.
    pub fn parse(text: &str) -> Option<Schedule> {
        if text == "-" {
            return Some(Schedule::default());
        }
        let pair = |part: &str| {
            let (at, choice) = part.split_once(':')?;
            Some((at.parse().ok()?, choice.parse().ok()?))
        };
        text.split('.').map(pair).collect::<Option<BTreeMap<_, _>>>().map(Schedule)
    }
}

/// How one run ended.
#[derive(Debug)]
pub enum Ended {
    /// Every row once, every invariant kept.
    Well,
    /// Stopped by the driver: what follows was seen before.
    Cut,
    /// Not.
    Violated(Violation),
}

/// Things that happened, so that a test can ask for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Lives that ended as fenced.
    pub fenced: u64,
    /// Lives that stopped with `Data`.
    pub data: u64,
    /// Lives that died.
    pub died: u64,
    /// Late requests that took effect.
    pub landed_late: u64,
    /// Late creates of a snapshot that took effect when their process was dead or had gone on.
    pub late_snapshots: u64,
    /// Snapshots that other engines removed.
    pub expired: u64,
    /// Snapshots of ours that were removed again because they had fallen into an expired slot.
    pub dead_snapshots: u64,
    /// Checkpoints created.
    pub checkpoints: u64,
    /// Snapshots published by us.
    pub snapshots: u64,
    /// Snapshots in history whose base names other manifests than those before it: some were merged.
    pub merged: u64,
    /// Checkpoints of ours that moved a position and had no rows for any table.
    pub idle: u64,
    /// Checkpoints of Delta logs that we wrote.
    pub log_checkpoints: u64,
    /// Lives that died with a call on such a checkpoint, or on the hint to it, in their hands.
    pub died_checkpointing: u64,
}

impl Seen {
    /// Adds up.
    pub fn add(&mut self, other: &Seen) {
        self.fenced += other.fenced;
        self.data += other.data;
        self.died += other.died;
        self.landed_late += other.landed_late;
        self.late_snapshots += other.late_snapshots;
        self.expired += other.expired;
        self.dead_snapshots += other.dead_snapshots;
        self.checkpoints += other.checkpoints;
        self.snapshots += other.snapshots;
        self.merged += other.merged;
        self.idle += other.idle;
        self.log_checkpoints += other.log_checkpoints;
        self.died_checkpointing += other.died_checkpointing;
    }
}
