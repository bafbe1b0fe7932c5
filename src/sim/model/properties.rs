//! What must always hold, and what must be reachable: a model in which nothing happens proves nothing.

use stateright::Property;

use super::commit::{Step, Why};
use super::process::{Asked, At, End, How};
use super::world::{Commit, FOREIGN, MAX, Table};
use super::{Config, World};

/// All of them. Which of the reachable ones a configuration must reach is said by its test.
pub(super) fn all() -> Vec<Property<Config>> {
    vec![
        Property::always("a record is in a table at most once per lineage", |c: &Config, w: &World| tables(c, w).all(once_per_lineage)),
        Property::always("without a rewind a record is in a table at most once", at_most_once),
        Property::always("nothing below a committed offset is missing", no_gap),
        Property::always("snapshot ids are contiguous", |c: &Config, w: &World| tables(c, w).all(contiguous)),
        Property::always("a user's identifier has one content", |c: &Config, w: &World| tables(c, w).all(one_content)),
        Property::always("the ranges of a lineage join", |c: &Config, w: &World| tables(c, w).all(ranges_join)),
        Property::always("what is committed was ordered by the owner of its checkpoint", ordered_by_owner),
        Property::always("a checkpoint has one owner", |c: &Config, w: &World| {
            c.budget.restore > 0 || w.chain.0.iter().all(|slot| slot.owners.len() <= 1)
        }),
        Property::always("a clean end means exactly once", |c: &Config, w: &World| !ended(w, |e| e == End::Done) || exact(c, w)),
        Property::always("no false alarm", |c: &Config, w: &World| {
            !c.honour || c.budget.restore > 0 || !ended(w, |e| matches!(e, End::Data(_)))
        }),
        Property::always("a clean life finishes", |c: &Config, w: &World| {
            w.verdict.is_none_or(|v| match v.end {
                End::Done => v.exact,
                End::Data(_) => !c.honour || c.budget.restore > 0,
                End::Fenced { .. } | End::Refused => false,
            })
        }),
        Property::sometimes("a process ends cleanly", |_: &Config, w: &World| ended(w, |e| e == End::Done)),
        Property::sometimes("both processes publish", both_publish),
        Property::sometimes("a replay commits", |_: &Config, w: &World| at(w, |at| matches!(at, At::Anchor(_, How::Landed)))),
        Property::sometimes("a replay recognises", |_: &Config, w: &World| at(w, |at| matches!(at, At::Anchor(_, How::Already)))),
        Property::sometimes("a fenced process stops", |_: &Config, w: &World| ended(w, |e| matches!(e, End::Fenced { .. }))),
        Property::sometimes("an unclear checkpoint is mine", |_: &Config, w: &World| at(w, |at| matches!(at, At::ListAfter(_, true)))),
        Property::sometimes("an unclear checkpoint is not mine", |_: &Config, w: &World| ended(w, |e| e == End::Fenced { unclear: true })),
        Property::sometimes("an unclear snapshot is mine", |_: &Config, w: &World| {
            at(w, |at| matches!(at, At::Job(job) if matches!(job.step, Step::Below(_, true))))
        }),
        Property::sometimes("an unclear snapshot is not mine", |_: &Config, w: &World| {
            at(w, |at| matches!(at, At::Job(job) if job.step == Step::Head(true)))
        }),
        Property::sometimes("a snapshot falls into an expired slot", |c: &Config, w: &World| tables(c, w).any(stray)),
        Property::sometimes("what fell into an expired slot is removed", |_: &Config, w: &World| {
            at(w, |at| matches!(at, At::Job(job) if matches!(job.step, Step::Delete(_))))
        }),
        Property::sometimes("unknown is answered `Data`", |_: &Config, w: &World| ended(w, |e| e == End::Data(Why::Unknown))),
        Property::sometimes("the fate of a snapshot is not known", |_: &Config, w: &World| ended(w, |e| e == End::Data(Why::Fate))),
        Property::sometimes("a lineage is closed", |c: &Config, w: &World| tables(c, w).any(|t| t.commits().iter().any(closing))),
        Property::sometimes("an old owner meets a closed lineage", |_: &Config, w: &World| {
            at(w, |at| matches!(at, At::ListBefore(Why::ClosedByOther)))
        }),
        Property::sometimes("a checkpoint is deleted", |_: &Config, w: &World| at(w, |at| *at == At::Retain)),
        Property::sometimes("an emptied seq is created again", |_: &Config, w: &World| {
            at(w, |at| matches!(at, At::ListAfter(draft, _) if w.chain.above(draft.link.seq)))
        }),
        Property::sometimes("a table is ahead of its chain", |_: &Config, w: &World| ended(w, |e| e == End::Data(Why::Ahead))),
    ]
}

fn tables<'a>(config: &Config, w: &'a World) -> impl Iterator<Item = &'a Table> {
    w.tables.iter().take(config.tables)
}

fn at(w: &World, is: impl Fn(&At) -> bool) -> bool {
    w.processes.iter().flatten().any(|p| is(&p.at))
}

fn ended(w: &World, is: impl Fn(End) -> bool) -> bool {
    at(w, |at| matches!(at, At::Stop(end) if is(*end)))
}

fn closing(commit: &Commit) -> bool {
    commit.closed_at.is_some()
}

fn count(table: &Table, record: u8) -> usize {
    table.commits().iter().filter(|c| c.rows & (1 << record) != 0).count()
}

fn rewound(config: &Config) -> bool {
    config.budget.asked > 0 && config.asked.iter().any(|a| matches!(a, Asked::RewindToOldest | Asked::RewindToNewest))
}

/// After a clean end: each record once. After a rewind at least once (its lineages are told apart by [`once_per_lineage`]).
pub(super) fn exact(config: &Config, w: &World) -> bool {
    let fits = |n: usize| n == 1 || (n > 1 && rewound(config));
    tables(config, w).zip(config.route).all(|(table, route)| {
        (0..config.total).all(|record| if route & (1 << record) == 0 { count(table, record) == 0 } else { fits(count(table, record)) })
            && once_per_lineage(table)
    })
}

fn once_per_lineage(table: &Table) -> bool {
    let commits = table.commits();
    commits.iter().enumerate().all(|(i, a)| commits[..i].iter().all(|b| a.user != b.user || a.rows & b.rows == 0))
}

fn at_most_once(config: &Config, w: &World) -> bool {
    rewound(config) || tables(config, w).all(|t| (0..config.total).all(|record| count(t, record) <= 1))
}

/// What the greatest checkpoint calls settled in a sink is there. An `open` that closes learns it only from the close.
fn no_gap(config: &Config, w: &World) -> bool {
    let Some(greatest) = w.chain.greatest().filter(|g| g.close.is_none()) else { return true };
    tables(config, w)
        .enumerate()
        .all(|(t, table)| (0..greatest.sinks[t].covered).all(|record| config.route[t] & (1 << record) == 0 || count(table, record) >= 1))
}

/// Each snapshot is built on the one below, and nothing is missing above what expired. What came late into an expired slot lies below.
fn contiguous(table: &Table) -> bool {
    let Some(newest) = table.newest() else { return true };
    let kept: Vec<_> = table.snapshots.iter().filter(|s| s.id > table.expired).collect();
    newest.commits.len() == usize::from(newest.id)
        && kept.iter().all(|s| table.in_history(s))
        && (table.expired + 1..=newest.id).eq(kept.iter().map(|s| s.id))
}

fn stray(table: &Table) -> bool {
    table.snapshots.iter().any(|s| s.id <= table.expired)
}

/// An empty snapshot of which history cannot tell may be there again: it adds nothing.
fn one_content(table: &Table) -> bool {
    let commits: Vec<_> = table.commits().iter().filter(|c| c.user < FOREIGN && !closing(c)).collect();
    let same = |a: &Commit, b: &Commit| a.user == b.user && a.ident == b.ident;
    commits.iter().enumerate().all(|(i, a)| commits[..i].iter().all(|b| !same(a, b) || (a.rows | b.rows == 0 && a.order == b.order)))
}

fn ranges_join(table: &Table) -> bool {
    let ranged = |c: &&Commit| c.user < FOREIGN && !closing(c) && !(c.ident == MAX && c.rows == 0);
    let commits: Vec<_> = table.commits().iter().filter(ranged).collect();
    commits.iter().enumerate().all(|(i, a)| {
        let before = commits[..i].iter().rev().find(|b| b.user == a.user);
        a.since <= a.until && before.is_none_or(|b| b.until == a.since)
    })
}

fn ordered_by_owner(config: &Config, w: &World) -> bool {
    tables(config, w).flat_map(Table::commits).filter(|c| c.user < FOREIGN).all(|c| {
        let slot = w.chain.0.get(usize::from(c.order.seq));
        slot.is_some_and(|slot| slot.owners.contains(&c.order.life))
    })
}

/// Two that are alive have each published.
fn both_publish(config: &Config, w: &World) -> bool {
    let published = |life: u8| tables(config, w).any(|t| t.commits().iter().any(|c| c.writer == life));
    let [Some(a), Some(b)] = &w.processes else { return false };
    published(a.life) && published(b.life)
}
