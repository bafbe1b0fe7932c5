//! The commit loop of `table::commit` for one sink, one call per step: head, create, read back, confirm.

use std::sync::Arc;

use super::bridge::{self, digest, ident, ident_back};
use super::process::{At, End, How, Process, Purpose};
use super::world::{Commit, Delayed, Floor, Ident, Life, Link, MAX, Off, Rows, Snapshot};
use super::{Answer, Config, World};
use crate::env::Rule;
use crate::format::Landed;
use crate::stream::checkpoint::CheckpointKind;
use crate::table::decide::{Ask, Decision, Stop};

/// Why a process stopped with `Data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Why {
    OtherContent,
    ClosedByOther,
    Ahead,
    Behind,
    OtherTable,
    Unknown,
    /// A published snapshot of which it cannot be said whether it is in history.
    Fate,
}

/// A commit at work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Job {
    pub(super) purpose: Purpose,
    pub(super) table: usize,
    pub(super) step: Step,
}

/// The call that comes next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    /// One read of the table, and the decision. True: a create of unclear outcome turned out to be somebody else's.
    Head(bool),
    Create(Staged),
    /// True: after an unclear answer.
    ReadBack(Staged, bool),
    /// Look at the snapshot below. True: reading back after an unclear answer had said that ours is there.
    Below(Staged, bool),
    /// List, and read the one above. True: the one below is the one that was built on.
    Above(Staged, bool),
    /// It fell into an expired slot.
    Delete(Staged),
}

/// A snapshot to publish.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Staged {
    snapshot: Snapshot,
    base: Floor,
}

/// What the checkpoint says of the sink.
struct Request {
    user: Life,
    floor: Floor,
    last: Option<Ident>,
    ask: Ask,
    /// The checkpoint whose files are looked for.
    files: Option<Link>,
    order: Link,
    ident: Ident,
    rows: Rows,
    since: Off,
    until: Off,
}

impl Job {
    pub(super) fn new(purpose: Purpose, table: usize) -> Self {
        Job { purpose, table, step: Step::Head(false) }
    }
    pub(super) fn creates(&self) -> bool {
        matches!(self.step, Step::Create(_))
    }
}

impl Process {
    /// The next call of a commit. False: this answer makes no difference.
    pub(super) fn job(&mut self, job: Job, w: &mut World, c: &Config, answer: Answer) -> bool {
        let Job { purpose, table: t, step } = job;
        match step {
            Step::Head(_) => self.head(purpose, t, w, c),
            Step::Create(staged) => return self.publish(purpose, t, staged, w, c, answer),
            Step::ReadBack(staged, unclear) => {
                let id = staged.snapshot.id;
                if c.off(Rule::KeepUnclear) {
                    w.tables[t].delete(id);
                }
                let step = match w.tables[t].get(id) {
                    None => Step::Create(staged),
                    Some(found) if *found == staged.snapshot => Step::Below(staged, unclear),
                    Some(_) => Step::Head(unclear),
                };
                self.go(purpose, t, step);
            }
            Step::Below(staged, _) => {
                let id = staged.snapshot.id;
                let built = id > 1 && w.tables[t].get(id - 1).is_some_and(|s| s.floor() == staged.base);
                if built && (1..id).contains(&self.pinned[t]) {
                    self.is_in(purpose, t, &staged, w, c);
                } else {
                    self.go(purpose, t, Step::Above(staged, built));
                }
            }
            Step::Above(staged, built) => self.confirm(purpose, t, staged, built, w, c),
            Step::Delete(staged) => {
                w.tables[t].delete(staged.snapshot.id);
                self.go(purpose, t, Step::Head(false));
            }
        }
        true
    }

    fn go(&mut self, purpose: Purpose, table: usize, step: Step) {
        self.at = At::Job(Box::new(Job { purpose, table, step }));
    }

    fn request(&self, purpose: Purpose, t: usize, w: &World) -> Request {
        let own = self.own();
        if let (Purpose::Close, Some(close)) = (purpose, &own.close) {
            let old = close.sinks[t];
            return Request {
                user: close.user,
                floor: old.floor,
                last: old.last,
                ask: Ask::Close { pending: old.identifier.map(|id| (ident(id), digest(old.digest))) },
                // The parent's messages name the files.
                files: own.parent.and_then(|link| w.chain.get(link)).map(|_| old.digest),
                order: own.link,
                ident: MAX,
                rows: 0,
                since: 0,
                until: 0,
            };
        }
        let e = own.sinks[t];
        let (identifier, digest) = (ident(own.ident), Some(digest(own.link)));
        let ask = match e.messages {
            None => Ask::Look,
            Some(0) => Ask::Empty { identifier, digest },
            Some(_) => Ask::Rows { identifier, digest },
        };
        let until = e.covered.max(own.offsets);
        let rows = e.messages.unwrap_or(0);
        Request {
            user: own.user,
            floor: e.floor,
            last: e.last,
            ask,
            files: Some(own.link),
            order: own.link,
            ident: own.ident,
            rows,
            since: e.since,
            until,
        }
    }

    fn head(&mut self, purpose: Purpose, t: usize, w: &World, c: &Config) {
        let request = self.request(purpose, t, w);
        let table = &w.tables[t];
        let landed = bridge::landed(table, request.user, request.floor);
        let live = || request.files.is_some_and(|order| table.newest().is_some_and(|s| s.holds(request.user, order)));
        match bridge::decide(request.ask, &landed, request.last, live, c.off(Rule::Equality)) {
            Decision::AlreadyLanded => {
                let at = match landed {
                    Landed::At { id, .. } => table.get(u8::try_from(id).unwrap()).map(Snapshot::floor),
                    _ => None,
                };
                self.done(purpose, t, How::Already, at.unwrap_or_else(|| table.head()), w, c);
            }
            Decision::Fine => self.done(purpose, t, How::Nothing, request.floor, w, c),
            Decision::FineAtHead => self.done(purpose, t, How::Nothing, table.head(), w, c),
            Decision::Closed { closed_at } => self.closed(t, closed_at.map(ident_back), c),
            Decision::Publish => self.go(purpose, t, Step::Create(stage(&request, table.newest(), self.life, None))),
            Decision::PublishClose { closed_at } => {
                let closed_at = closed_at.map(ident_back);
                self.go(purpose, t, Step::Create(stage(&request, table.newest(), self.life, Some(closed_at))));
            }
            Decision::Stop(stop) => self.stop(why(&stop), c),
            Decision::LookForFiles => unreachable!("the files were looked for"),
        }
    }

    fn stop(&mut self, why: Why, c: &Config) {
        self.at = if c.off(Rule::ListBeforeData) { At::Stop(End::Data(why)) } else { At::ListBefore(why) };
    }

    fn publish(&mut self, purpose: Purpose, t: usize, mut staged: Staged, w: &mut World, c: &Config, answer: Answer) -> bool {
        let table = &mut w.tables[t];
        if c.off(Rule::OneRead) {
            let own = *staged.snapshot.own();
            staged = on_top(table.newest(), own);
        }
        let created = match answer {
            Answer::Lost => false,
            Answer::Delayed => {
                w.delay(Delayed::Snapshot(t, staged.snapshot.clone()));
                false
            }
            _ => table.create(staged.snapshot.clone()),
        };
        if answer == Answer::Applied && !created {
            return false; // the same as lost
        }
        let unclear = answer != Answer::Clear;
        let step = match () {
            () if created && !unclear => Step::Below(staged, false),
            () if c.off(Rule::ReadBack) => Step::Below(staged, unclear),
            () => Step::ReadBack(staged, unclear),
        };
        self.go(purpose, t, step);
        true
    }

    /// `confirm` of `format::paimon`, after its first look. It looks again when the one above has expired meanwhile, so one step stands for all.
    fn confirm(&mut self, purpose: Purpose, t: usize, staged: Staged, built: bool, w: &World, c: &Config) {
        let table = &w.tables[t];
        let id = staged.snapshot.id;
        if table.get(id).is_none() {
            return self.go(purpose, t, Step::Head(false)); // expired already: the next look at the table tells whether it had landed
        }
        let newest = table.head().id == id;
        match table.get(id + 1) {
            _ if newest && !built && table.snapshots.len() > 1 => self.stop(Why::Fate, c),
            _ if newest => self.is_in(purpose, t, &staged, w, c),
            Some(_) if table.above_is_built_on(&staged.snapshot) => self.is_in(purpose, t, &staged, w, c),
            None if built => self.stop(Why::Fate, c),
            _ => self.go(purpose, t, Step::Delete(staged)),
        }
    }

    fn is_in(&mut self, purpose: Purpose, t: usize, staged: &Staged, w: &World, c: &Config) {
        match staged.snapshot.own().closed_at {
            Some(closed_at) => self.closed(t, closed_at, c),
            None => self.done(purpose, t, How::Landed, staged.snapshot.floor(), w, c),
        }
    }

    fn closed(&mut self, t: usize, closed_at: Option<Ident>, c: &Config) {
        self.closed_at[t] = closed_at;
        if t + 1 < c.tables {
            self.at = At::Job(Box::new(Job::new(Purpose::Close, t + 1)));
        } else {
            self.finish_sink(0, c);
        }
    }

    fn done(&mut self, purpose: Purpose, t: usize, how: How, floor: Floor, w: &World, c: &Config) {
        let own = self.own().clone();
        let last = if how == How::Nothing { own.sinks[t].last } else { Some(own.ident) };
        self.states[t] = bridge::after(&own, t, floor, last);
        match purpose {
            Purpose::Run => self.land(t + 1, w, c),
            Purpose::Finish if own.kind == CheckpointKind::Open && c.off(Rule::FloorAfterPin) => self.at = At::Floor(t),
            Purpose::Finish | Purpose::Close => self.at = At::Anchor(t, how),
        }
    }
}

fn stage(request: &Request, base: Option<&Snapshot>, writer: Life, closed_at: Option<Option<Ident>>) -> Staged {
    let own = Commit {
        user: request.user,
        ident: request.ident,
        order: request.order,
        writer,
        rows: request.rows,
        since: request.since,
        until: request.until,
        closed_at,
        compacts: false,
    };
    on_top(base, own)
}

fn on_top(base: Option<&Snapshot>, own: Commit) -> Staged {
    let mut commits = base.map_or_else(Vec::new, |s| s.commits.to_vec());
    commits.push(own);
    let id = base.map_or(0, |s| s.id) + 1;
    Staged { snapshot: Snapshot { id, commits: Arc::new(commits) }, base: base.map_or_else(Floor::default, Snapshot::floor) }
}

fn why(stop: &Stop) -> Why {
    match stop {
        Stop::OtherContent | Stop::MovedByOther(_) => Why::OtherContent,
        Stop::ClosedByOther => Why::ClosedByOther,
        Stop::Ahead(_) => Why::Ahead,
        Stop::Behind(_) => Why::Behind,
        Stop::OtherTable(_) => Why::OtherTable,
        Stop::Unknown(_) => Why::Unknown,
    }
}
