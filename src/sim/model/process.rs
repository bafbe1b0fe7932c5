//! One process, step by step: `stream::start`, `stream::chain`, the loop of `stream::coordinator` and the commit loop of `table::commit`, with
//! one call on the store per step. What is decided between two calls, production code decides (see `bridge`).

use std::sync::Arc;

use super::bridge::{self, State};
use super::commit::{Job, Why};
use super::world::{Checkpoint, Close, Delayed, Entry, Ident, Life, Link, Off, Pin, Rows, Seq, TABLES};
use super::{Answer, Config, World};
use crate::env::Rule;
use crate::stream::checkpoint::{CheckpointKind, FromMode};
use crate::stream::decide::{First, Then};

/// What a person asks of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    Nothing,
    /// `--rewind` to the oldest checkpoint that parent links reach.
    RewindToOldest,
    /// `--rewind` to the greatest.
    RewindToNewest,
    /// `--abandon` the greatest.
    Abandon,
}

/// How a process ended, other than by dying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    /// Everything is read and landed.
    Done,
    /// Another one is at work. `unclear`: found out by reading back after an unclear answer.
    Fenced { unclear: bool },
    /// Exit code 5.
    Data(Why),
    /// What was asked does not fit the chain.
    Refused,
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum How {
    /// Nothing was to be done here.
    Nothing,
    /// Published by this process.
    Landed,
    /// Recognised.
    Already,
}

/// Why a commit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// It ends the lineage before an `open`.
    Close,
    /// A start finishes what it found.
    Finish,
    /// The running process lands its own checkpoint.
    Run,
}

/// What is to be gone on with when the checkpoint at hand is finished everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Goal {
    Then(Then2),
    Opened,
    WentBack,
}

/// `stream::decide::Then`, hashable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Then2 {
    Begin,
    WriteClosed,
    GoOn,
    GoBack(FromMode),
}

/// The call that a process makes next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum At {
    /// List the chain, read the greatest.
    Read,
    /// Work on a commit.
    Job(Box<Job>),
    /// Write the pin, delete those of closed lineages.
    Anchor(usize, How),
    /// After an `open`: the head again.
    Floor(usize),
    /// List the chain before going on.
    Still,
    /// A head for a new `open`.
    OpenHead(usize, Arc<Checkpoint>),
    /// Running: what comes next?
    Turn,
    /// A newer floor for the next checkpoint.
    Fresh(usize, Arc<Checkpoint>),
    /// Only without `PinAfterOwned`: a pin for a checkpoint that is not owned.
    Early(usize, Arc<Checkpoint>),
    Create(Arc<Checkpoint>),
    ReadBack(Arc<Checkpoint>, bool),
    /// List the chain after the create. True: reading back after an unclear answer had said that it is ours.
    ListAfter(Arc<Checkpoint>, bool),
    Pin(usize),
    Unpin(usize),
    Retain,
    /// List the chain before a table is called damaged.
    ListBefore(Why),
    Stop(End),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) life: Life,
    asked: Asked,
    pub(super) at: At,
    /// The greatest checkpoint that it read or owns.
    pub(super) greatest: Option<Arc<Checkpoint>>,
    give_up: bool,
    back_to: Off,
    goal: Goal,
    pub(super) states: [State; TABLES],
    pub(super) closed_at: [Option<Ident>; TABLES],
    /// The pin that it wrote itself last; 0: none.
    pub(super) pinned: [u8; TABLES],
    /// Seqs that it listed last, and those of them with messages: bits.
    seqs: u32,
    with_messages: u32,
}

impl Process {
    pub(super) fn new(life: Life, asked: Asked) -> Self {
        Process {
            life,
            asked,
            at: At::Read,
            greatest: None,
            give_up: false,
            back_to: 0,
            goal: Goal::Opened,
            states: Default::default(),
            closed_at: Default::default(),
            pinned: Default::default(),
            seqs: 0,
            with_messages: 0,
        }
    }

    pub(super) fn own(&self) -> &Arc<Checkpoint> {
        self.greatest.as_ref().unwrap()
    }

    /// May the answer to its next call be lost?
    pub(super) fn creates(&self) -> bool {
        match &self.at {
            At::Create(_) => true,
            At::Job(job) => job.creates(),
            _ => false,
        }
    }

    /// Makes the next call. False: this answer makes no difference.
    pub(super) fn step(&mut self, w: &mut World, c: &Config, answer: Answer) -> bool {
        match std::mem::replace(&mut self.at, At::Read) {
            At::Read => self.read(w, c),
            At::Job(job) => return self.job(*job, w, c, answer),
            At::Anchor(t, _) => self.anchor(t, w, c),
            At::Floor(t) => self.floor(t, w, c),
            At::Still => self.still(w, c),
            At::OpenHead(t, mut open) => {
                Arc::make_mut(&mut open).sinks[t].floor = w.tables[t].head();
                self.at = if t + 1 < c.tables { At::OpenHead(t + 1, open) } else { At::Create(open) };
            }
            At::Turn => self.write_rows(answer == Answer::Fresh, answer == Answer::Tick, c),
            At::Fresh(t, draft) => self.fresh(t, draft, w, c),
            At::Early(t, draft) => {
                let pin = Pin { user: draft.user, opened: draft.opened, next: w.tables[t].head().id.max(1) };
                w.tables[t].pin(pin);
                self.at = if t + 1 < c.tables { At::Early(t + 1, draft) } else { At::Create(draft) };
            }
            At::Create(draft) => return self.create(draft, w, c, answer),
            At::ReadBack(draft, unclear) => self.read_back(draft, unclear, w, c),
            At::ListAfter(draft, _) => {
                if w.chain.above(draft.link.seq) && !c.off(Rule::ListAfterCreate) {
                    self.at = At::Stop(End::Fenced { unclear: false });
                } else {
                    self.owned(draft, w, c);
                }
            }
            At::Pin(t) => {
                self.pin(t, self.states[t].floor.id, w, c);
                self.at = At::Pin(t + 1);
                if t + 1 == c.tables {
                    self.retain(w, c);
                }
            }
            At::Unpin(t) => {
                w.tables[t].unpin(self.own().opened + 1);
                self.at = At::Unpin(t + 1);
                if t + 1 == c.tables {
                    self.retain(w, c);
                }
            }
            At::Retain => {
                if let Some(seq) = self.expendable() {
                    w.chain.delete(seq);
                    self.seqs &= !(1 << seq);
                    self.with_messages &= !(1 << seq);
                }
                self.retain(w, c);
            }
            At::ListBefore(why) => {
                let newer = w.chain.above(self.own().link.seq);
                self.at = At::Stop(if newer { End::Fenced { unclear: false } } else { End::Data(why) });
            }
            At::Stop(end) => self.at = At::Stop(end),
        }
        true
    }

    // ---- start ----------------------------------------------------------------------------------------------------------------------

    fn read(&mut self, w: &World, c: &Config) {
        let greatest = w.chain.greatest().cloned();
        let history = greatest.as_ref().map(|g| w.chain.history(g)).unwrap_or_default();
        let target = match self.asked {
            Asked::RewindToOldest => history.last(),
            Asked::RewindToNewest => history.first(),
            Asked::Nothing | Asked::Abandon => None,
        };
        let rewind = target.map(|k| k.link.seq).or((self.asked != Asked::Nothing && self.asked != Asked::Abandon).then_some(0));
        let Some((first, then)) = bridge::start(greatest.as_deref(), rewind, self.asked == Asked::Abandon) else {
            self.at = At::Stop(End::Refused);
            return;
        };
        self.goal = Goal::Then(match then {
            Then::Begin => Then2::Begin,
            Then::WriteClosed => Then2::WriteClosed,
            Then::GoOn => Then2::GoOn,
            Then::GoBack(mode) => Then2::GoBack(mode),
        });
        let Some(greatest) = greatest else { return self.begin(c) };
        self.give_up = first == First::GiveUp || (c.off(Rule::FinishEnd) && greatest.kind == CheckpointKind::End);
        self.back_to = target.map_or_else(|| bridge::least_covered(&greatest, c.tables), |k| k.offsets);
        self.greatest = Some(greatest);
        self.finish(c);
    }

    /// The greatest's close, then its messages.
    fn finish(&mut self, c: &Config) {
        match self.own().close {
            Some(close) if c.off(Rule::CloseOld) => {
                self.closed_at = close.sinks.map(|old| old.identifier.or(old.last));
                self.finish_sink(0, c);
            }
            Some(_) => self.at = At::Job(Box::new(Job::new(Purpose::Close, 0))),
            None => self.finish_sink(0, c),
        }
    }

    pub(super) fn finish_sink(&mut self, t: usize, c: &Config) {
        if t == c.tables {
            self.closed_at = Default::default();
            return self.finished(c);
        }
        let own = self.own().clone();
        match own.kind {
            // Its own it need not look at: nothing of its user can have landed.
            CheckpointKind::Open if matches!(self.goal, Goal::Then(_)) => {
                self.at = At::Job(Box::new(Job::new(Purpose::Finish, t)));
            }
            CheckpointKind::Open if c.off(Rule::FloorAfterPin) => self.at = At::Floor(t),
            CheckpointKind::Open => self.at = At::Anchor(t, How::Nothing),
            _ if self.give_up => {
                self.states[t] = bridge::after(&own, t, own.sinks[t].floor, own.sinks[t].last);
                self.finish_sink(t + 1, c);
            }
            _ => self.at = At::Job(Box::new(Job::new(Purpose::Finish, t))),
        }
    }

    fn anchor(&mut self, t: usize, w: &mut World, c: &Config) {
        let own = self.own().clone();
        if own.kind == CheckpointKind::Closed {
            w.tables[t].unpin(own.opened + 1);
        } else {
            self.pin(t, own.sinks[t].floor.id, w, c);
            if w.tables[t].unpin(own.opened) {
                self.pinned[t] = 0; // the log forgets its pin with any that it deletes
            }
        }
        if own.kind == CheckpointKind::Open && !c.off(Rule::FloorAfterPin) {
            self.at = At::Floor(t);
        } else {
            self.finish_sink(t + 1, c);
        }
    }

    /// Nothing of an `open`'s user can have landed, so this head is the floor.
    fn floor(&mut self, t: usize, w: &World, c: &Config) {
        let own = self.own().clone();
        self.states[t] = bridge::after(&own, t, w.tables[t].head(), None);
        if let Some(close) = &own.close {
            let (since, covered) = bridge::after_close(close.mode, &close.sinks[t], self.closed_at[t], own.offsets);
            (self.states[t].since, self.states[t].covered) = (since, covered);
        }
        if c.off(Rule::FloorAfterPin) {
            self.at = At::Anchor(t, How::Nothing);
        } else {
            self.finish_sink(t + 1, c);
        }
    }

    fn pin(&mut self, t: usize, floor: u8, w: &mut World, c: &Config) {
        if !c.off(Rule::Pin) {
            let own = self.own();
            w.tables[t].pin(Pin { user: own.user, opened: own.opened, next: floor.max(1) });
            self.pinned[t] = floor.max(1);
        }
    }

    fn finished(&mut self, c: &Config) {
        match self.goal {
            Goal::Then(Then2::Begin) => self.begin(c),
            Goal::Then(Then2::GoBack(mode)) => {
                let own = self.own().clone();
                let mut sinks = [Default::default(); TABLES];
                for (t, entry) in sinks.iter_mut().enumerate().take(c.tables) {
                    *entry = bridge::close_entry(&own, t, &self.states[t]);
                }
                let open = self.open(self.back_to, Some(Close { mode, user: own.user, sinks }));
                self.at = At::OpenHead(0, open);
            }
            Goal::Then(Then2::WriteClosed | Then2::GoOn) | Goal::Opened | Goal::WentBack => self.at = At::Still,
        }
    }

    fn begin(&mut self, c: &Config) {
        let from = self.greatest.as_ref().map_or(0, |g| g.offsets);
        self.at = if bridge::anything_to_read(from, c.total) { At::OpenHead(0, self.open(from, None)) } else { At::Stop(End::Done) };
    }

    fn open(&self, offsets: Off, close: Option<Close>) -> Arc<Checkpoint> {
        let parent = self.greatest.as_ref().map(|g| g.link);
        let seq = parent.map_or(0, |p| p.seq + 1);
        let entry = Entry { since: offsets, covered: offsets, ..Entry::default() };
        Arc::new(Checkpoint {
            link: Link { seq, life: self.life },
            kind: CheckpointKind::Open,
            user: self.life,
            opened: seq,
            ident: bridge::identifier_of(CheckpointKind::Open, seq),
            offsets,
            parent,
            close,
            sinks: [entry; TABLES],
        })
    }

    fn still(&mut self, w: &World, c: &Config) {
        let own = self.own().clone();
        if w.chain.above(own.link.seq) && !c.off(Rule::ListAfterCreate) {
            self.at = At::Stop(End::Fenced { unclear: false });
            return;
        }
        self.seqs = bits(w.chain.seqs());
        let with = w.chain.history(&own).into_iter().filter(|k| has_messages(k));
        self.with_messages = bits(with.map(|k| k.link.seq.into()));
        match self.goal {
            Goal::Then(Then2::WriteClosed) => self.write(CheckpointKind::Closed, own.offsets, [None; TABLES], false, c),
            // What each sink lacks after a close is recorded before the first poll.
            _ if own.close.is_some() && own.kind == CheckpointKind::Open => {
                self.write(CheckpointKind::Data, self.position(c), [None; TABLES], false, c);
            }
            _ => self.turn(w, c),
        }
    }

    // ---- the running chain ----------------------------------------------------------------------------------------------------------

    fn position(&self, c: &Config) -> Off {
        self.states.iter().take(c.tables).map(|s| s.covered).min().unwrap_or_default()
    }

    fn turn(&mut self, w: &World, c: &Config) {
        // From here on it is of no account how the process began.
        (self.asked, self.goal, self.give_up, self.back_to) = (Asked::Nothing, Goal::Opened, false, 0);
        // Without a choice this is no step of its own: nobody sees it.
        match w.budget.ticks {
            0 => self.write_rows(false, false, c),
            _ => self.at = At::Turn,
        }
    }

    fn write_rows(&mut self, fresh: bool, tick: bool, c: &Config) {
        let from = self.position(c);
        let to = if tick { from } else { c.total.min(from + c.batches[usize::from(self.life) % 2]) };
        let kind = if to == c.total && !tick { CheckpointKind::End } else { CheckpointKind::Data };
        let mut rows = [None; TABLES];
        for (t, rows) in rows.iter_mut().enumerate().take(c.tables) {
            let some: Rows = (self.states[t].covered.max(from)..to).map(|r| 1 << r).sum::<Rows>() & c.route[t];
            *rows = (some != 0 || kind == CheckpointKind::End).then_some(some);
        }
        self.write(kind, to, rows, fresh || tick, c);
    }

    fn write(&mut self, kind: CheckpointKind, offsets: Off, rows: [Option<Rows>; TABLES], fresh: bool, c: &Config) {
        let own = self.own();
        let seq = own.link.seq + 1;
        let mut sinks = [Entry::default(); TABLES];
        for (t, entry) in sinks.iter_mut().enumerate().take(c.tables) {
            *entry = bridge::next_entry(kind, &self.states[t], offsets, rows[t], None);
        }
        let draft = Arc::new(Checkpoint {
            link: Link { seq, life: self.life },
            kind,
            user: own.user,
            opened: own.opened,
            ident: bridge::identifier_of(kind, seq),
            offsets,
            parent: Some(own.link),
            close: None,
            sinks,
        });
        self.at = match () {
            () if fresh => At::Fresh(0, draft),
            () if c.off(Rule::PinAfterOwned) => At::Early(0, draft),
            () => At::Create(draft),
        };
    }

    /// A head read after the previous commit was confirmed: `last` holds there too.
    fn fresh(&mut self, t: usize, mut draft: Arc<Checkpoint>, w: &World, c: &Config) {
        let (kind, offsets, rows) = (draft.kind, draft.offsets, draft.sinks[t].messages);
        Arc::make_mut(&mut draft).sinks[t] = bridge::next_entry(kind, &self.states[t], offsets, rows, Some(w.tables[t].head()));
        self.at = match t + 1 {
            t if t < c.tables => At::Fresh(t, draft),
            _ if c.off(Rule::PinAfterOwned) => At::Early(0, draft),
            _ => At::Create(draft),
        };
    }

    fn create(&mut self, draft: Arc<Checkpoint>, w: &mut World, c: &Config, answer: Answer) -> bool {
        let (overwrite, by_lineage) = (c.off(Rule::CreateOnly), c.off(Rule::OneChain));
        let unclear = answer != Answer::Clear;
        let created = match answer {
            Answer::Lost => false,
            Answer::Delayed => {
                w.delay(Delayed::Checkpoint(draft.clone()));
                false
            }
            _ => w.chain.create(&draft, overwrite, by_lineage),
        };
        if answer == Answer::Applied && !created {
            return false; // the same as lost
        }
        self.at = match () {
            () if created && !unclear => At::ListAfter(draft, false),
            () if c.off(Rule::ReadBack) => At::ListAfter(draft, unclear),
            () => At::ReadBack(draft, unclear),
        };
        true
    }

    fn read_back(&mut self, draft: Arc<Checkpoint>, unclear: bool, w: &mut World, c: &Config) {
        if c.off(Rule::KeepUnclear) {
            w.chain.delete(draft.link.seq);
        }
        let slot = w.chain.0.get(usize::from(draft.link.seq));
        let found = slot.and_then(|s| s.there.iter().find(|k| !c.off(Rule::OneChain) || k.user == draft.user));
        self.at = match found {
            None => At::Create(draft),
            Some(found) if *found == draft => At::ListAfter(draft, unclear),
            Some(_) => At::Stop(End::Fenced { unclear }),
        };
    }

    fn owned(&mut self, draft: Arc<Checkpoint>, w: &World, c: &Config) {
        self.seqs = bits(w.chain.seqs());
        let kind = draft.kind;
        if kind == CheckpointKind::Open {
            self.goal = if draft.close.is_some() { Goal::WentBack } else { Goal::Opened };
            self.give_up = false;
            self.states = Default::default();
        }
        self.greatest = Some(draft);
        match kind {
            CheckpointKind::Open => self.finish(c),
            CheckpointKind::Data | CheckpointKind::End | CheckpointKind::Closed => self.land(0, w, c),
        }
    }

    /// Lands the owned checkpoint in sink `t` and those after it; then pins and retention.
    pub(super) fn land(&mut self, t: usize, w: &World, c: &Config) {
        let own = self.own().clone();
        if t < c.tables && own.sinks[t].messages.is_some() {
            self.at = At::Job(Box::new(Job::new(Purpose::Run, t)));
        } else if t < c.tables {
            self.states[t] = bridge::after(&own, t, own.sinks[t].floor, own.sinks[t].last);
            self.land(t + 1, w, c);
        } else {
            if has_messages(&own) {
                self.with_messages |= 1 << own.link.seq;
            }
            match own.kind {
                CheckpointKind::Closed => self.at = At::Unpin(0),
                _ if c.off(Rule::Pin) => self.retain(w, c),
                _ => self.at = At::Pin(0),
            }
        }
    }

    fn expendable(&self) -> Option<Seq> {
        let list = |bits: u32| (0..32).filter(|i| bits & (1 << i) != 0).collect::<Vec<u64>>();
        bridge::expendable(&list(self.seqs), &list(self.with_messages))
    }

    fn retain(&mut self, w: &World, c: &Config) {
        if self.expendable().is_some() {
            self.at = At::Retain;
            return;
        }
        let own = self.own();
        match own.kind {
            CheckpointKind::End => self.write(CheckpointKind::Closed, own.offsets, [None; TABLES], false, c),
            CheckpointKind::Closed if self.goal == Goal::Then(Then2::WriteClosed) => self.begin(c),
            CheckpointKind::Closed => self.at = At::Stop(End::Done),
            CheckpointKind::Open | CheckpointKind::Data => self.turn(w, c),
        }
    }
}

fn bits(seqs: impl IntoIterator<Item = u64>) -> u32 {
    seqs.into_iter().fold(0, |bits, seq| bits | 1 << seq)
}

fn has_messages(checkpoint: &Checkpoint) -> bool {
    checkpoint.sinks.iter().any(|e| e.messages.is_some())
}
