//! Who picks what happens: every schedule, a seed, a script, a replay.

use std::collections::HashMap;

use crate::sim::explore::{Choices, Driver};
use crate::sim::scenario::{Budget, Schedule};

/// Always the usual move.
pub struct Usual;

impl Driver for Usual {
    fn choose(&mut self, _: &Choices<'_>) -> Option<usize> {
        Some(0)
    }
}

/// Every schedule, depth first; what was seen with at least this budget is not gone through again.
#[derive(Default)]
pub struct Depth {
    path: Vec<(usize, usize)>,
    at: usize,
    seen: HashMap<u128, Vec<Budget>>,
    merge: bool,
}

impl Depth {
    /// Merging states that were seen, or going through everything.
    pub fn new(merge: bool) -> Depth {
        Depth { merge, ..Depth::default() }
    }
    /// The next schedule; false: there is none.
    pub fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((choice, count)) = self.path.pop() {
            if choice + 1 < count {
                self.path.push((choice + 1, count));
                return true;
            }
        }
        false
    }
    /// What this run chose.
    pub fn schedule(&self) -> Schedule {
        Schedule(self.path.iter().enumerate().filter(|(_, (c, _))| *c > 0).map(|(i, (c, _))| (i, *c)).collect())
    }
    /// How many states were seen.
    pub fn states(&self) -> usize {
        self.seen.len()
    }
}

impl Driver for Depth {
    fn choose(&mut self, at: &Choices<'_>) -> Option<usize> {
        if let Some((choice, _)) = self.path.get(self.at) {
            self.at += 1;
            return Some(*choice);
        }
        if self.merge {
            let (state, budget) = at.state();
            let known = self.seen.entry(state).or_default();
            if known.iter().any(|b| b.covers(budget)) {
                return None;
            }
            known.retain(|b| !budget.covers(*b));
            known.push(budget);
        }
        self.path.push((0, at.count()));
        self.at += 1;
        Some(0)
    }
}

/// Follows a schedule.
#[derive(Default)]
pub struct Replay {
    /// What to choose.
    pub schedule: Schedule,
    at: usize,
    misfit: Option<usize>,
}

impl Replay {
    /// Of this schedule.
    pub fn of(schedule: Schedule) -> Replay {
        Replay { schedule, at: 0, misfit: None }
    }
}

impl Replay {
    /// The first choice of the schedule that the run did not offer: then it is the schedule of another run.
    pub fn misfit(&self) -> Option<usize> {
        self.misfit.or_else(|| self.schedule.0.range(self.at..).next().map(|(at, _)| *at))
    }
}

impl Driver for Replay {
    fn choose(&mut self, at: &Choices<'_>) -> Option<usize> {
        let choice = self.schedule.0.get(&self.at).copied().unwrap_or(0);
        if choice >= at.count() {
            self.misfit.get_or_insert(self.at);
        }
        self.at += 1;
        Some(choice.min(at.count() - 1))
    }
}

/// By a seed: mostly the usual move.
pub struct Seeded {
    dice: u64,
    /// One in so many choices is not the usual one.
    one_in: u64,
    at: usize,
    chosen: Schedule,
}

impl Seeded {
    /// Of this seed.
    pub fn of(seed: u64, one_in: u64) -> Seeded {
        Seeded { dice: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, one_in, at: 0, chosen: Schedule::default() }
    }
    /// What this run chose.
    pub fn schedule(&self) -> Schedule {
        self.chosen.clone()
    }
    fn roll(&mut self, sides: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) % sides
    }
}

impl Driver for Seeded {
    fn choose(&mut self, at: &Choices<'_>) -> Option<usize> {
        let index = self.at;
        self.at += 1;
        if self.roll(self.one_in) > 0 {
            return Some(0);
        }
        let choice = usize::try_from(self.roll(at.count() as u64)).unwrap_or(0);
        if choice > 0 {
            self.chosen.0.insert(index, choice);
        }
        Some(choice)
    }
}

/// Takes the moves with these labels, in this order; the usual one until then.
pub struct Script {
    steps: Vec<(Option<String>, String)>,
    next: usize,
}

impl Script {
    /// Each step is a label (`late: create one/snapshot/snapshot-2`), taken as soon as it is offered; or `USUAL | LABEL`: taken when the
    /// usual move has the label USUAL.
    pub fn of(steps: &[&str]) -> Script {
        let step = |text: &&str| match text.split_once(" | ") {
            Some((usual, label)) => (Some(usual.to_owned()), label.to_owned()),
            None => (None, (*text).to_owned()),
        };
        Script { steps: steps.iter().map(step).collect(), next: 0 }
    }
    /// The first step that was never taken.
    pub fn left(&self) -> Option<&str> {
        self.steps.get(self.next).map(|(_, label)| label.as_str())
    }
}

impl Driver for Script {
    fn choose(&mut self, at: &Choices<'_>) -> Option<usize> {
        let Some((usual, label)) = self.steps.get(self.next) else { return Some(0) };
        if usual.as_ref().is_some_and(|usual| at.label(0) != *usual) {
            return Some(0);
        }
        let found = (0..at.count()).find(|i| at.label(*i) == *label);
        self.next += usize::from(found.is_some());
        Some(found.unwrap_or(0))
    }
}
