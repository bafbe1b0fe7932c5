//! The protocol as a finite model, searched exhaustively by stateright. Only compiled for tests.
//!
//! # What the real objects are
//!
//! * The *chain*: `<location>/<pipeline>/<seq>.json`, each a create-only object that decides identifier, files and offsets together.
//! * A *table*: `snapshot/snapshot-<id>`, each a create-only object; its pins `consumer/consumer-<user>`; everything that expires is removed by
//!   other engines, oldest first.
//! * A *process*: a start, the running chain, the commit loop. It shares nothing with another but these objects.
//! * The *source*: one split whose record `i` is always the same.
//!
//! # Which abstraction is made
//!
//! A process is a state machine with one call on the store per step; between two calls nobody sees anything, so what is decided there belongs
//! to the step. What it decides, production code decides: `table::decide::decide`, `stream::decide::{start, next_entry, after, after_close}`
//! and `anything_to_read`, `close_entry`, `least_covered`, `identifier_of` and retention's `expendable` are called by `next_state` (`bridge`).
//! The calls around them (`stream::start`, `stream::chain`, `table::commit`, `format::paimon::log`) are written down again here, in the same
//! order. An object's bytes are its name and the number of the life that wrote it. A snapshot holds all that it is built on, so history is a
//! value, and the properties cannot ask it wrongly. A number stands for a uuid: the life's. Slots for processes are filled from the lowest, so that two
//! processes that differ in name only are one state.
//!
//! # Why two steps are separate
//!
//! Each of these is a race that has lost or doubled rows in some version of the rules:
//!
//! * *head* and *create*: another writer takes the id; expiry empties it, and the create lands below history.
//! * *create* and *read back*: what was taken may be expired when it is read.
//! * *create* and *list* of a checkpoint: retention of a faster process may have emptied the slot.
//! * *publish* and the two looks of *confirm*, and its *delete*: history goes on meanwhile.
//! * head of an `open`, its *create*, its *pin*, and *head again*: expiry runs between them.
//! * *owning* a checkpoint and *raising* the pin: the slower process still needs what the faster one lets go.
//! * `Data` and the *list before it*: the table may only be newer than this process.
//! * *close* of one sink and of the next; the commits of two sinks.
//!
//! Steps that are merged: list and read of the chain (what is listed is never changed, the greatest never deleted); the walk of a head (it is
//! one read as far as the decision goes: a hole that appears during the walk is a hole); writing a pin and removing older ones (an extra pin
//! only keeps more); the listing and reading of confirm (when the one
//! above expires in between, it does both again).
//!
//! # Ghost state
//!
//! `Slot::owners`: who created a checkpoint while none above it was there. `Table::expired`: the greatest id that was ever expired.
//! `Snapshot::commits`: see above. Nothing decides on them: whether a snapshot is in
//! history a process finds out as production does, from the one above (`Table::above_is_built_on`).
//!
//! # What the properties prove
//!
//! See `properties`: within the bounds of each configuration, over *all* interleavings, deaths, lost answers and delayed creates. Each path
//! ends with a *finale*: everybody else commits and expires what the pins allow, then a clean life must finish, with each record exactly once.
//! The configurations and their pinned counts are in `tests`, the broken rules and their counterexamples in `teeth`, and the searches that once
//! found something wrong in the rules in `findings`.
//!
//! # What is not modelled
//!
//! Bytes, files, manifests, schemas, several splits, clocks (floors and pins may age at any time instead), registrations and lost chains,
//! added, dropped and moved sinks, `--resolve`, dead letters, `at_end: pause`, deletes and pins that take effect late, more than two processes
//! at once, a failed read (it is a pause or a death). `spec/model.md` says which of them the simulation covers.

mod bridge;
mod commit;
mod findings;
mod process;
mod properties;
mod teeth;
mod tests;
mod world;

use stateright::{Model, Property};

use self::process::{Asked, At, End, Process};
use self::world::{Chain, Delayed, Life, TABLES, Table};
use crate::env::Rule;

/// The bounds of one search, and what is broken in it.
#[derive(Clone, Debug)]
struct Config {
    /// Tables in use.
    tables: usize,
    /// Which records go to which table: bits.
    route: [u8; TABLES],
    /// Records in the source.
    total: u8,
    /// Records per checkpoint, of even lives and of odd ones.
    batches: [u8; 2],
    /// Processes at once.
    processes: usize,
    /// Starts in all.
    lives: Life,
    /// How often each thing may happen.
    budget: Budget,
    /// What the starts after the first may ask for, within `budget.asked`.
    asked: &'static [Asked],
    /// Has somebody else written to the tables before?
    used: bool,
    /// Do other engines honour pins?
    honour: bool,
    /// Do other engines compact when they commit?
    compact: bool,
    /// The rule that is switched off.
    broken: Option<Rule>,
}

impl Config {
    fn off(&self, rule: Rule) -> bool {
        self.broken == Some(rule)
    }
}

/// How often each thing may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Budget {
    /// Deaths.
    crash: u8,
    /// Creates without an answer.
    unclear: u8,
    /// Snapshots of everybody else, per table.
    foreign: [u8; TABLES],
    /// Snapshots that other engines expire, over all tables.
    expire: u8,
    /// Hours that pass: a checkpoint gets newer floors, with rows or without.
    ticks: u8,
    /// Starts that ask for something.
    asked: u8,
    /// The chain is restored from a backup that lacks the greatest checkpoint.
    restore: u8,
}

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct World {
    chain: Chain,
    tables: [Table; TABLES],
    processes: [Option<Process>; 2],
    delayed: Vec<Delayed>,
    lives: Life,
    budget: Budget,
    verdict: Option<Verdict>,
}

/// How a clean life ended at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Verdict {
    end: End,
    /// Is each record there as often as it should be?
    exact: bool,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    /// It takes effect and is answered.
    Clear,
    /// It takes effect, and the answer is lost.
    Applied,
    /// It never takes effect, and nobody says so.
    Lost,
    /// It takes effect later, and nobody says so.
    Delayed,
    /// At a turn: an hour has passed without records.
    Tick,
    /// At a turn: an hour has passed, and there are records.
    Fresh,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    Start(Asked),
    Step(usize, Answer),
    Crash(usize),
    /// A delayed create takes effect, if its name is free.
    Lands(usize),
    Foreign(usize),
    Expire(usize),
    Restore,
    Finale,
}

impl World {
    fn delay(&mut self, create: Delayed) {
        self.delayed.push(create);
    }
    fn idle(&self) -> bool {
        self.processes.iter().all(Option::is_none)
    }
    fn start(&mut self, asked: Asked) -> Option<()> {
        let slot = self.processes.iter_mut().find(|p| p.is_none())?;
        *slot = Some(Process::new(self.lives, asked));
        self.lives += 1;
        Some(())
    }
    fn step(&mut self, slot: usize, config: &Config, answer: Answer) -> Option<()> {
        let mut process = self.processes[slot].take()?;
        if matches!(process.at, At::Stop(_)) {
            self.close_ranks(slot);
            return Some(());
        }
        let matters = process.step(self, config, answer);
        self.processes[slot] = Some(process);
        matters.then_some(())
    }
    /// A free slot is never below a taken one: which of two processes came first is of no account.
    fn close_ranks(&mut self, slot: usize) {
        if slot == 0 {
            self.processes.swap(0, 1);
        }
    }
    /// Everybody else goes on as far as the pins allow, then a life without faults.
    fn finale(mut self, config: &Config) -> World {
        for table in self.tables.iter_mut().take(config.tables) {
            table.add_foreign(config.compact);
            while let Some(id) = table.expirable(config.honour) {
                table.expire(id);
            }
        }
        self.budget = Budget::default();
        self.start(Asked::Nothing);
        for _ in 0..1000 {
            if let Some(At::Stop(end)) = self.processes[0].as_ref().map(|p| &p.at) {
                let verdict = Verdict { end: *end, exact: properties::exact(config, &self) };
                return World { verdict: Some(verdict), ..World::default() };
            }
            self.step(0, config, Answer::Clear);
        }
        panic!("a clean life does not end: {self:?}")
    }
}

impl Model for Config {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut w = World { budget: self.budget, ..World::default() };
        if self.used {
            w.tables.iter_mut().take(self.tables).for_each(|table| table.add_foreign(false));
        }
        vec![w]
    }

    fn actions(&self, w: &World, actions: &mut Vec<Action>) {
        if w.verdict.is_some() {
            return;
        }
        let b = &w.budget;
        let running = w.processes.iter().flatten().count();
        if running < self.processes && w.lives < self.lives {
            actions.push(Action::Start(Asked::Nothing));
            if b.asked > 0 && w.lives > 0 {
                actions.extend(self.asked.iter().map(|asked| Action::Start(*asked)));
            }
        }
        for (slot, process) in w.processes.iter().enumerate() {
            let Some(process) = process else { continue };
            actions.push(Action::Step(slot, Answer::Clear));
            if b.ticks > 0 && process.at == At::Turn {
                actions.extend([Answer::Tick, Answer::Fresh].map(|a| Action::Step(slot, a)));
            }
            if b.unclear > 0 && process.creates() {
                actions.extend([Answer::Applied, Answer::Lost, Answer::Delayed].map(|a| Action::Step(slot, a)));
            }
            if b.crash > 0 && !matches!(process.at, At::Stop(_) | At::Read) {
                actions.push(Action::Crash(slot));
            }
        }
        actions.extend((0..w.delayed.len()).map(Action::Lands));
        for t in 0..self.tables {
            if b.foreign[t] > 0 {
                actions.push(Action::Foreign(t));
            }
            if b.expire > 0 && w.tables[t].expirable(self.honour).is_some() {
                actions.push(Action::Expire(t));
            }
        }
        if w.idle() {
            if b.restore > 0 && w.chain.greatest().is_some_and(|g| g.link.seq > 0) {
                actions.push(Action::Restore);
            }
            if w.lives == self.lives {
                actions.push(Action::Finale);
            }
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut w = before.clone();
        match action {
            Action::Start(asked) => {
                w.budget.asked -= u8::from(asked != Asked::Nothing);
                w.start(asked)?;
            }
            Action::Step(slot, answer) => {
                w.budget.unclear -= u8::from(matches!(answer, Answer::Applied | Answer::Lost | Answer::Delayed));
                w.budget.ticks -= u8::from(matches!(answer, Answer::Tick | Answer::Fresh));
                w.step(slot, self, answer)?;
            }
            Action::Crash(slot) => {
                w.budget.crash -= 1;
                w.processes[slot] = None;
                w.close_ranks(slot);
            }
            Action::Lands(i) => match w.delayed.remove(i) {
                Delayed::Checkpoint(c) => drop(w.chain.create(&c, self.off(Rule::CreateOnly), self.off(Rule::OneChain))),
                Delayed::Snapshot(t, snapshot) => drop(w.tables[t].create(snapshot)),
            },
            Action::Foreign(t) => {
                w.budget.foreign[t] -= 1;
                w.tables[t].add_foreign(self.compact);
            }
            Action::Expire(t) => {
                w.budget.expire -= 1;
                let id = w.tables[t].expirable(self.honour)?;
                w.tables[t].expire(id);
            }
            Action::Restore => {
                w.budget.restore -= 1;
                let seq = w.chain.greatest()?.link.seq;
                w.chain.delete(seq);
            }
            Action::Finale => w = w.finale(self),
        }
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
