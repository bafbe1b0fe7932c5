//! Exactly-once, told from what snapshots say of themselves: per lineage and split the ranges of offsets join, from lineage to lineage too.
//! Pure.
//!
//! What can be seen in a table alone: every snapshot of a pipeline carries `[first offset, first offset after)` for each split that moved.
//! Within a lineage these ranges must join; a lineage must begin where its predecessor stopped, or below: that is a rewind, which somebody
//! asked for, and is reported with how much was written again. What cannot be seen: whether the source had more, and which rows an offset
//! became.

use std::collections::{BTreeMap, HashMap};

use super::finding::{Check, Findings};
use crate::format::{END_OF_INPUT, property};
use crate::table::{Native, SnapshotView};

/// One split of one lineage, or with `split` none the whole lineage.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The pipeline; none: a commit user that is no pipeline's.
    pub pipeline: Option<String>,
    /// The lineage's commit user.
    pub user: String,
    /// The split; none: the line is about the whole lineage.
    pub split: Option<String>,
    /// The first offset that is there.
    pub from: Option<u64>,
    /// The first offset after.
    pub to: Option<u64>,
    /// Snapshots in which the split moved; of a lineage all.
    pub snapshots: u64,
    /// Rows that they added, less those that they removed; none for a split that never moved alone, so that they cannot be told apart.
    pub rows: Option<i64>,
    /// `open`, `ended`, or `closed at 7`: by a rewind, and what it had landed last. `another writer` when there is no pipeline.
    pub state: String,
    /// The first and the last snapshot.
    pub within: (u64, u64),
    /// Its beginning has expired: `from` is where history begins, not where the lineage does.
    pub cut: bool,
}

/// Offsets that a lineage wrote again although one before it had written them: a rewind, or a chain that was begun anew.
#[derive(Clone, Debug, PartialEq)]
pub struct Rewind {
    /// The pipeline.
    pub pipeline: String,
    /// The lineage that wrote again.
    pub user: String,
    /// Which one's offsets.
    pub before: String,
    /// The split.
    pub split: String,
    /// First offset that was written again.
    pub from: u64,
    /// First offset after.
    pub to: u64,
    /// It is another chain: the pipeline was begun anew (`--forget`), rather than rewound.
    pub anew: bool,
}

/// What the snapshots say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lineages {
    /// Each lineage, then its splits; last other writers.
    pub lines: Vec<Line>,
    /// What was written again.
    pub rewinds: Vec<Rewind>,
    /// Names of the pipelines that have snapshots here.
    pub pipelines: Vec<String>,
}

struct Lineage<'a> {
    pipeline: &'a str,
    chain: &'a str,
    user: &'a str,
    snapshots: Vec<&'a SnapshotView>,
    splits: BTreeMap<String, Split>,
    /// Named by its first snapshot.
    predecessor: Option<&'a str>,
    rows: i64,
}

#[derive(Default)]
struct Split {
    from: u64,
    to: u64,
    snapshots: u64,
    /// The first snapshot in which it moved.
    first: u64,
    rows: Option<i64>,
}

/// Checks `snapshots`, ascending, all of a table; `only`: of this pipeline.
pub fn check(snapshots: &[SnapshotView], only: Option<&str>, findings: &mut Findings) -> Lineages {
    let mut order: Vec<Lineage<'_>> = Vec::new();
    let mut at: HashMap<&str, usize> = HashMap::new();
    let mut others: Vec<Line> = Vec::new();
    for s in snapshots {
        let Some(pipeline) = s.property(property::PIPELINE) else {
            if s.user.is_none() && s.rows_added.unwrap_or(0) == 0 {
                continue; // Delta: made the table, or set its properties
            }
            foreign(&mut others, s);
            continue;
        };
        let i = *at.entry(s.user_text()).or_insert(order.len());
        if i == order.len() {
            order.push(Lineage {
                pipeline,
                chain: s.property(property::CHAIN).unwrap_or_default(),
                user: s.user_text(),
                snapshots: Vec::new(),
                splits: BTreeMap::new(),
                predecessor: s.property(property::PREDECESSOR),
                rows: 0,
            });
        }
        order[i].snapshots.push(s);
    }
    let mut pipelines: Vec<String> = order.iter().map(|l| l.pipeline.to_owned()).collect();
    pipelines.sort();
    pipelines.dedup();
    order.retain(|l| only.is_none_or(|p| p == l.pipeline));
    let whole = snapshots.first().is_none_or(|s| s.id == u64::from(matches!(s.native, Native::Paimon(_))));
    let mut all = Lineages { pipelines, ..Lineages::default() };
    for i in 0..order.len() {
        findings.look(Check::Lineages, 1);
        within(&mut order[i], findings);
        let cut = is_cut(&order, i, whole);
        if !cut {
            across(&order, i, &mut all.rewinds, findings);
        }
        all.lines.extend(lines(&order[i], cut));
    }
    all.lines.extend(others.into_iter().filter(|_| only.is_none()));
    all
}

/// Where in a report: the pipeline and the commit user.
fn place(l: &Lineage<'_>) -> String {
    format!("{}/{}", l.pipeline, l.user)
}

fn foreign(others: &mut Vec<Line>, s: &SnapshotView) {
    let known = others.iter().position(|o| o.user == s.user_text());
    let line = match known {
        Some(i) => &mut others[i],
        None => {
            others.push(Line {
                pipeline: None,
                user: s.user_text().to_owned(),
                split: None,
                from: None,
                to: None,
                snapshots: 0,
                rows: Some(0),
                state: "another writer".to_owned(),
                within: (s.id, s.id),
                cut: false,
            });
            let last = others.len() - 1;
            &mut others[last]
        }
    };
    line.snapshots += 1;
    line.rows = line.rows.map(|n| n.saturating_add(s.rows_added.unwrap_or(0)));
    line.within.1 = s.id;
}

/// Identifiers, ranges and the close of one lineage.
fn within(l: &mut Lineage<'_>, findings: &mut Findings) {
    let at = place(l);
    let mut before: Option<&SnapshotView> = None;
    for s in &l.snapshots {
        let mut wrong = |at: &str, what: String| findings.find(Check::Lineages, at, Some(s.id), what);
        identifiers(before, s, &mut |what| wrong(&at, what));
        if s.property(property::CHAIN).unwrap_or_default() != l.chain {
            wrong(&at, "it is of another chain than the snapshots of its lineage before it".to_owned());
        }
        if s.property(property::PIPELINE) != Some(l.pipeline) {
            wrong(&at, format!("it is of the pipeline {:?}", s.property(property::PIPELINE)));
        }
        l.rows = l.rows.saturating_add(s.rows_added.unwrap_or(0));
        before = Some(s);
        let Some(text) = s.property(property::OFFSETS) else {
            if s.property(property::CLOSED_AT).is_none() {
                wrong(&at, format!("it has no property {}", property::OFFSETS));
            }
            continue;
        };
        let ranges: BTreeMap<String, [u64; 2]> = match serde_json::from_str(text) {
            Ok(ranges) => ranges,
            Err(e) => {
                wrong(&at, format!("its property {} cannot be read: {e}", property::OFFSETS));
                continue;
            }
        };
        if ranges.is_empty() && s.rows_added.unwrap_or(0) > 0 {
            wrong(&at, format!("it adds {} rows, and no split moved", s.rows_added.unwrap_or(0)));
        }
        let alone = (ranges.len() == 1).then_some(s.rows_added.unwrap_or(0));
        for (name, [from, to]) in ranges {
            let at = format!("{at}, split {name}");
            if from >= to {
                wrong(&at, format!("its range [{from}, {to}) is empty"));
                continue;
            }
            let Some(split) = l.splits.get_mut(&name) else {
                l.splits.insert(name, Split { from, to, snapshots: 1, first: s.id, rows: alone });
                continue;
            };
            if from > split.to {
                wrong(&at, format!("offsets [{}, {from}) are missing: its range [{from}, {to}) does not join the one before", split.to));
            } else if from < split.to {
                let twice = split.to.min(to);
                wrong(&at, format!("offsets [{from}, {twice}) are there twice: its range [{from}, {to}) overlaps the one before"));
            }
            split.to = split.to.max(to);
            split.snapshots += 1;
            split.rows = split.rows.zip(alone).map(|(a, b)| a.saturating_add(b));
        }
    }
}

/// The identifier; every snapshot of a pipeline has one.
fn number(s: &SnapshotView) -> i64 {
    s.identifier.unwrap_or(0)
}

fn identifiers(before: Option<&SnapshotView>, s: &SnapshotView, wrong: &mut dyn FnMut(String)) {
    let name = |id: i64| if id == END_OF_INPUT { "end of input".to_owned() } else { format!("identifier {id}") };
    let id = number(s);
    match before {
        Some(b) if number(b) == id => wrong(format!("{} is there twice: snapshot {} has it too", name(id), b.id)),
        Some(b) if number(b) > id => wrong(format!("{} follows {} of snapshot {}", name(id), name(number(b)), b.id)),
        _ => {}
    }
    let closed_at = s.property(property::CLOSED_AT);
    let seq: Option<i64> = s.property(property::SEQ).and_then(|t| t.parse().ok());
    if id != END_OF_INPUT && seq != Some(id) {
        let seq = seq.map_or("none".to_owned(), |seq| seq.to_string());
        wrong(format!("its identifier is {id}, and the checkpoint that ordered it has the number {seq}"));
    }
    let Some(closed_at) = closed_at else { return };
    if id != END_OF_INPUT {
        wrong(format!("it closes the lineage, and its identifier is {id}"));
    }
    // Without one before it, what it had landed has expired, or there was nothing.
    if let Some(b) = before
        && closed_at.parse() != Ok(number(b))
    {
        wrong(format!("it closes the lineage at {closed_at}, which had landed {}", number(b)));
    }
}

/// The lineage before this one: the one that it names; else the one before it of the same chain, for one that landed nothing names none.
fn predecessor(order: &[Lineage<'_>], i: usize) -> Option<usize> {
    let l = &order[i];
    let named = l.predecessor.and_then(|user| order.iter().position(|o| o.user == user)).filter(|p| *p < i);
    named.or_else(|| order[..i].iter().rposition(|o| o.pipeline == l.pipeline && o.chain == l.chain))
}

/// Has its beginning expired, as far as that can be told?
fn is_cut(order: &[Lineage<'_>], i: usize, whole: bool) -> bool {
    !whole && order[i].predecessor.is_none() && predecessor(order, i).is_none()
}

fn across(order: &[Lineage<'_>], i: usize, rewinds: &mut Vec<Rewind>, findings: &mut Findings) {
    let l = &order[i];
    let (at, first) = (place(l), l.snapshots[0]);
    let Some(p) = predecessor(order, i) else { return anew(order, i, rewinds) };
    let before = &order[p];
    let mut wrong = |at: &str, id: u64, what: String| findings.find(Check::Lineages, at, Some(id), what);
    if l.predecessor.is_none() && first.property(property::CLOSED_AT).is_none() {
        wrong(&at, first.id, format!("it does not name its predecessor, and {} came before it", before.user));
    }
    if let Some(late) = before.snapshots.iter().find(|s| s.id > first.id) {
        wrong(&place(before), late.id, format!("it goes on after its successor {} began with snapshot {}", l.user, first.id));
    }
    if !before.snapshots.iter().any(|s| number(s) == END_OF_INPUT && s.id < first.id) {
        wrong(&at, first.id, format!("its predecessor {} had neither ended nor been closed", before.user));
    }
    if let Some(other) = order[..i].iter().find(|o| l.predecessor.is_some() && o.predecessor == l.predecessor && o.pipeline == l.pipeline) {
        wrong(&at, first.id, format!("{} has a second successor: {} followed it before", before.user, other.user));
    }
    for (name, split) in &l.splits {
        let mut back = Some(p);
        let stood = loop {
            let Some(b) = back else { break None };
            match order[b].splits.get(name) {
                Some(old) => break Some((order[b].user, old.to)),
                None => back = predecessor(order, b),
            }
        };
        let Some((user, stood)) = stood else { continue };
        if split.from > stood {
            let what = format!("offsets [{stood}, {}) are missing: {user} stopped at {stood}", split.from);
            wrong(&format!("{at}, split {name}"), split.first, what);
        } else if split.from < stood {
            rewinds.push(rewind(l, user, name, split, stood, false));
        }
    }
}

/// Another chain of the same name: somebody forgot the old one on purpose, and what it had written is written again.
fn anew(order: &[Lineage<'_>], i: usize, rewinds: &mut Vec<Rewind>) {
    let l = &order[i];
    for (name, split) in &l.splits {
        let old = order[..i].iter().rev().filter(|o| o.pipeline == l.pipeline).find_map(|o| Some((o.user, o.splits.get(name)?)));
        if let Some((user, old)) = old
            && split.from < old.to
            && old.from < split.to
        {
            rewinds.push(rewind(l, user, name, split, old.to, true));
        }
    }
}

/// As far as the new lineage has come.
fn rewind(l: &Lineage<'_>, before: &str, name: &str, split: &Split, stood: u64, anew: bool) -> Rewind {
    Rewind {
        pipeline: l.pipeline.to_owned(),
        user: l.user.to_owned(),
        before: before.to_owned(),
        split: name.to_owned(),
        from: split.from,
        to: stood.min(split.to),
        anew,
    }
}

fn lines(l: &Lineage<'_>, cut: bool) -> Vec<Line> {
    let last = l.snapshots[l.snapshots.len() - 1];
    let state = match last.property(property::CLOSED_AT) {
        Some(id) => format!("closed at {id}"),
        None if number(last) == END_OF_INPUT => "ended".to_owned(),
        None => "open".to_owned(),
    };
    let whole = Line {
        pipeline: Some(l.pipeline.to_owned()),
        user: l.user.to_owned(),
        split: None,
        from: None,
        to: None,
        snapshots: l.snapshots.len() as u64,
        rows: Some(l.rows),
        state,
        within: (l.snapshots[0].id, last.id),
        cut,
    };
    let split = |(name, s): (&String, &Split)| Line {
        split: Some(name.clone()),
        from: Some(s.from),
        to: Some(s.to),
        snapshots: s.snapshots,
        rows: s.rows,
        ..whole.clone()
    };
    let splits: Vec<Line> = l.splits.iter().map(split).collect();
    std::iter::once(whole).chain(splits).collect()
}

#[cfg(test)]
mod tests;
