//! What one change can break: the chain and the tables held against each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chain::{Entry, Link};
use super::reader::{FileView, Format, Objects, Row, SnapshotView};
use super::{Oracle, Violation, breaks};
use crate::sim::effect::Effect;

const SEQ: &str = "lakeward.seq";
const CHECKPOINT: &str = "lakeward.checkpoint";
const OFFSETS: &str = "lakeward.offsets";
const PREDECESSOR: &str = "lakeward.predecessor";
const CLOSED_AT: &str = "lakeward.closed-at";
/// The identifier of end of input, and of a close.
const END: i64 = i64::MAX;

type Checked = Result<(), Violation>;

/// Did one of our processes ask for it?
fn by_us(what: &Effect) -> bool {
    what.process != Effect::OUTSIDE && !what.by_expiry
}

impl Oracle {
    // ---- checkpoints ------------------------------------------------------------------------------------------------------------------

    pub(super) fn checkpoint_changed(&mut self, seq: u64, what: &Effect, objects: &Objects) -> Checked {
        match (&what.before, &what.after) {
            (Some(_), Some(_)) => breaks("I3", format!("checkpoint {seq} was there and was changed")),
            (_, None) => self.chain.delete(seq, by_us(what)),
            (None, Some(bytes)) => {
                let before = self.chain.greatest().cloned();
                let Some(link) = self.chain.create(seq, bytes)? else { return Ok(()) };
                if let Some(before) = before {
                    self.is_finished(&before, &link)?;
                    self.goes_on(&before, &link)?;
                }
                for (url, entry) in &link.sinks {
                    let Some(table) = self.tables.iter().position(|t| t.url == *url) else { continue };
                    for file in entry.messages.iter().flatten() {
                        self.tables[table].file_is_true(file, objects)?;
                    }
                    self.floor_is_true(&link, entry, table, objects)?;
                    self.pin_is_there(&link, table, objects)?;
                }
                Ok(())
            }
        }
    }

    /// I4, I11: what came before is visible everywhere when the next checkpoint appears.
    fn is_finished(&self, before: &Link, next: &Link) -> Checked {
        let abandoned = next.from.as_ref().is_some_and(|(mode, seq)| mode == "abandon" && *seq == before.seq);
        for table in &self.tables {
            let pending = before.sinks.get(&table.url).is_some_and(|e| e.messages.is_some());
            let landed = table.landed(&before.user, before.identifier);
            if pending && !abandoned && landed != Some(before.digest.as_str()) {
                let text = format!("checkpoint {} appears, and {} is not visible in {}", next.seq, before.seq, table.root());
                return breaks("I4", text);
            }
            if let Some((user, sinks)) = &before.close
                && sinks.contains(&table.url)
                && table.landed(user, END).is_none()
            {
                let text = format!("checkpoint {} appears, and {user} is not closed in {}", next.seq, table.root());
                return breaks("I11", text);
            }
        }
        Ok(())
    }

    /// I7: within a lineage no split goes back, and a table without rows in this checkpoint passes over no record of its own.
    fn goes_on(&self, before: &Link, next: &Link) -> Checked {
        // What each sink lacks is learned only when a lineage that is gone back from is closed, after the checkpoint that says so.
        if before.user != next.user || before.close.is_some() {
            return Ok(());
        }
        let at = |offsets: &BTreeMap<String, u64>, split: &str| offsets.get(split).copied().unwrap_or(0);
        if let Some((split, stood)) = before.offsets.iter().find(|(split, stood)| at(&next.offsets, split) < **stood) {
            let now = at(&next.offsets, split);
            return breaks("I7", format!("checkpoint {} stands at {now} of {split}, and the one before at {stood}", next.seq));
        }
        for table in &self.tables {
            let (Some(old), Some(new)) = (before.sinks.get(&table.url), next.sinks.get(&table.url)) else { continue };
            let (settled, covered) = (before.settles(old), &new.covered);
            for (split, to) in covered.iter().filter(|_| new.messages.is_none()) {
                if let Some(row) = table.expected_in(split, at(&settled, split), *to).first() {
                    let text = format!("checkpoint {} passes over {row:?} and has nothing for {}", next.seq, table.root());
                    return breaks("I7", text);
                }
            }
        }
        Ok(())
    }

    /// I10: a floor is one statement, and true; the snapshot is kept by the pin.
    fn floor_is_true(&self, link: &Link, entry: &Entry, table: usize, objects: &Objects) -> Checked {
        let table = &self.tables[table];
        let place = || format!("checkpoint {}, {}", link.seq, table.root());
        if (entry.floor > 0 || entry.floor_digest.is_some()) && !table.had(entry.floor, entry.floor_digest.as_deref()) {
            return breaks("I10", format!("{}: the floor {} never had these bytes", place(), entry.floor));
        }
        if table.format() == Format::Delta && (entry.floor_digest.is_none() || table.id_at(entry.floor) != Some(entry.table.as_str())) {
            let text = format!("{}: the floor {} is of the table {:?}, {:?}", place(), entry.floor, entry.table, entry.floor_digest);
            return breaks("I10", text);
        }
        let last = table.newest_identifier(&link.user, entry.floor);
        // `closed` says so by its kind: `end` has landed, wherever its floor is.
        let last = if link.kind == "closed" { table.newest_identifier(&link.user, u64::MAX) } else { last };
        if last != entry.last {
            let text = format!("{}: at the floor {} the newest identifier is {last:?}, not {:?}", place(), entry.floor, entry.last);
            return breaks("I10", text);
        }
        let gone = entry.floor > 0 && table.reader.object(&table.format().snapshot(entry.floor), objects).is_err();
        let pinned = table.format().walks() && link.kind != "open" && !table.unprotected && !table.unpinned.contains(&link.user);
        if gone && pinned {
            return breaks("I10", format!("{}: the floor {} is expired already: it was read before the pin", place(), entry.floor));
        }
        Ok(())
    }

    /// I10: from the first `data` on.
    fn pin_is_there(&self, link: &Link, table: usize, objects: &Objects) -> Checked {
        let table = &self.tables[table];
        if !table.format().walks() {
            return Ok(()); // its history says what has landed, however much of it is gone
        }
        let joined = self.chain.get(link.seq.wrapping_sub(1)).is_some_and(|before| before.sinks.contains_key(&table.url));
        let wanted = (link.kind == "data" || link.kind == "end") && joined && !table.unpinned.contains(&link.user);
        if wanted && table.reader.object(&format!("consumer/consumer-{}", link.user), objects).is_err() {
            return breaks("I10", format!("checkpoint {} appears, and nothing pins {} in {}", link.seq, link.user, table.root()));
        }
        Ok(())
    }

    // ---- snapshots --------------------------------------------------------------------------------------------------------------------

    pub(super) fn snapshot_changed(&mut self, at: usize, id: u64, what: &Effect, objects: &Objects) -> Checked {
        match (&what.before, &what.after) {
            (Some(_), Some(_)) => breaks("I1", format!("{}: snapshot {id} was there and was changed", self.tables[at].root())),
            (_, None) => {
                self.look_for_ignored_pins(at, id, what, objects);
                self.tables[at].delete(id, by_us(what), what.by_expiry)
            }
            (None, Some(_)) => {
                let Some(view) = self.tables[at].create(id, objects)? else { return Ok(()) };
                if self.tables[at].format() == Format::Delta {
                    let owned = self.chain.opened(&view.commit_user).is_some();
                    self.tables[at].check_commit(&view, by_us(what), owned)?;
                    if owned && by_us(what) {
                        self.tables[at].check_bounds(&view, objects)?;
                    }
                    if owned && !by_us(what) {
                        return Ok(()); // somebody else moved our transaction, and the ghost knows it
                    }
                }
                if view.properties.contains_key(CHECKPOINT) || self.chain.opened(&view.commit_user).is_some() {
                    return self.snapshot_of_chain(at, &view, objects);
                }
                match view.kind.as_str() {
                    "COMPACT" => self.tables[at].check_rewrite(&view, objects),
                    _ => self.tables[at].take_rows(&view, u64::MAX, objects).map(drop),
                }
            }
        }
    }

    fn snapshot_of_chain(&mut self, at: usize, view: &SnapshotView, objects: &Objects) -> Checked {
        let place = format!("{}: snapshot {}", self.tables[at].root(), view.id);
        let property = |key: &str| view.properties.get(key).map(String::as_str);
        let seq = property(SEQ).and_then(|s| s.parse().ok());
        let named = seq.and_then(|s| self.chain.get(s)).filter(|l| Some(l.digest.as_str()) == property(CHECKPOINT));
        let Some(link) = named.cloned() else {
            return breaks("I4", format!("{place} names checkpoint {seq:?}, {:?}, which never was in the chain", property(CHECKPOINT)));
        };
        let Some(opened) = self.chain.opened(&view.commit_user) else {
            return breaks("I8", format!("{place} is of user {}, which no `open` made", view.commit_user));
        };
        let closes = property(CLOSED_AT);
        let again = self.may_land(at, view, closes.is_some(), &place)?;
        match closes {
            Some(closed_at) => self.check_close(at, view, &link, closed_at, again, &place)?,
            None => self.check_content(at, view, &link, &place)?,
        }
        let rows = self.tables[at].take_rows(view, opened, objects)?;
        if closes.is_none() && !again {
            self.check_predecessor(at, view, opened, &place)?;
            self.check_ranges(at, view, &link, opened, &rows, &place)?;
        }
        let landed = self.tables[at].users.entry(view.commit_user.clone()).or_default();
        landed.identifiers.insert(view.commit_identifier, (view.id, link.digest.clone()));
        Ok(())
    }

    /// I2, I7: nothing twice, nothing after the end. True: an empty snapshot that comes again, the first one being expired.
    fn may_land(&self, at: usize, view: &SnapshotView, closes: bool, place: &str) -> Result<bool, Violation> {
        let table = &self.tables[at];
        let (user, identifier) = (&view.commit_user, view.commit_identifier);
        let Some(landed) = table.users.get(user) else { return Ok(false) };
        if let Some((before, _)) = landed.identifiers.get(&identifier) {
            let known = table.history.get(before);
            let expired = known.is_some_and(|k| !k.there);
            let same = known.is_some_and(|k| k.view.added.is_empty() && !k.view.properties.contains_key(CLOSED_AT));
            // What closes a lineage adds nothing, whatever had ended it before.
            if table.format().walks() && expired && (closes || (same && view.added.is_empty())) {
                return Ok(true);
            }
            return breaks("I2", format!("{place} is {identifier} of {user}, and so was {before}"));
        }
        match landed.identifiers.last_key_value() {
            Some((&END, (before, _))) => breaks("I7", format!("{place} is of {user}, whose lineage ended with {before}")),
            Some((newest, _)) if *newest > identifier => {
                breaks("I2", format!("{place} is {identifier} of {user}, which had landed {newest} already"))
            }
            _ => Ok(false),
        }
    }

    /// I2, I4, I8, I9: it is what its checkpoint says.
    fn check_content(&self, at: usize, view: &SnapshotView, link: &Link, place: &str) -> Checked {
        if link.user != view.commit_user {
            return breaks("I8", format!("{place} is of user {}, its checkpoint {} of {}", view.commit_user, link.seq, link.user));
        }
        let messages = link.sinks.get(&self.tables[at].url).and_then(|e| e.messages.as_ref());
        let Some(messages) = messages.filter(|_| link.identifier == view.commit_identifier) else {
            return breaks("I4", format!("{place} is {}; checkpoint {} orders no such snapshot", view.commit_identifier, link.seq));
        };
        let sorted = |files: &[FileView]| {
            let mut files = files.to_vec();
            files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            files
        };
        if sorted(messages) != sorted(&view.added) || !view.deleted.is_empty() || view.kind != "APPEND" {
            return breaks("I2", format!("{place} does not add exactly the files of checkpoint {}", link.seq));
        }
        if view.added.is_empty() && link.kind != "end" && !self.commit_empty {
            return breaks("I9", format!("{place} is empty, and not the end"));
        }
        Ok(())
    }

    /// I11: a close is ordered by an `open`, and tells what had landed.
    fn check_close(&self, at: usize, view: &SnapshotView, link: &Link, closed_at: &str, again: bool, place: &str) -> Checked {
        let ordered = link.close.as_ref().is_some_and(|(user, _)| *user == view.commit_user);
        let empty = view.added.is_empty() && view.deleted.is_empty();
        if !ordered || !empty || view.commit_identifier != END {
            return breaks("I11", format!("{place} closes {}, which checkpoint {} does not order", view.commit_user, link.seq));
        }
        let landed = self.tables[at].newest_identifier(&view.commit_user, u64::MAX);
        let landed = landed.map_or_else(|| "none".to_owned(), |i| i.to_string());
        if !again && landed != closed_at {
            return breaks("I11", format!("{place} says that {} was closed at {closed_at}; it had landed {landed}", view.commit_user));
        }
        Ok(())
    }

    /// I7: a lineage's first snapshot names the lineage before.
    fn check_predecessor(&self, at: usize, view: &SnapshotView, opened: u64, place: &str) -> Checked {
        let first = self.tables[at].users.get(&view.commit_user).is_none_or(|l| l.identifiers.is_empty());
        let wanted = if first { self.chain.predecessor(opened) } else { None };
        let named = view.properties.get(PREDECESSOR).map(String::as_str);
        if named != wanted {
            return breaks("I7", format!("{place} names the predecessor {named:?}, and that is {wanted:?}"));
        }
        Ok(())
    }

    /// I7: the ranges go on where the last ones ended, and hold exactly these rows.
    fn check_ranges(&mut self, at: usize, view: &SnapshotView, link: &Link, opened: u64, rows: &[Row], place: &str) -> Checked {
        let text = view.properties.get(OFFSETS).map_or("", String::as_str);
        let Ok(ranges) = serde_json::from_str::<BTreeMap<String, [u64; 2]>>(text) else {
            return breaks("I7", format!("{place} has the ranges {text:?}"));
        };
        let covered = link.sinks.get(&self.tables[at].url).map(|e| &e.covered);
        for (split, [from, to]) in &ranges {
            self.check_begin(at, view, opened, (split, *from), place)?;
            let stand = |at: Option<&BTreeMap<String, u64>>| at.and_then(|a| a.get(split)).copied().unwrap_or(0);
            let wanted = stand(Some(&link.offsets)).max(stand(covered));
            if *to != wanted || from >= to {
                return breaks("I7", format!("{place} has [{from}, {to}) of {split}, and its checkpoint stands at {wanted}"));
            }
        }
        let mut expected: Vec<Row> = ranges.iter().flat_map(|(s, [from, to])| self.tables[at].expected_in(s, *from, *to)).collect();
        expected.sort_unstable();
        if expected != rows {
            let lacks: Vec<_> = expected.iter().filter(|r| !rows.contains(r)).take(3).collect();
            let besides: Vec<_> = rows.iter().filter(|r| !expected.contains(r)).take(3).collect();
            let counts = format!("{} rows where the input has {}", rows.len(), expected.len());
            return breaks("I7", format!("{place} has {counts} in {text}: it lacks {lacks:?}, has besides {besides:?}"));
        }
        for (split, range) in ranges {
            self.tables[at].landed_range(&view.commit_user, opened, &split, range);
        }
        Ok(())
    }

    fn check_begin(&self, at: usize, view: &SnapshotView, opened: u64, (split, from): (&str, u64), place: &str) -> Checked {
        let table = &self.tables[at];
        let own = table.users.get(&view.commit_user).and_then(|l| l.stands.get(split));
        if let Some(stands) = own {
            return if *stands == from { Ok(()) } else { breaks("I7", format!("{place} goes on at {from} of {split}, not at {stands}")) };
        }
        let (to, by) = table.stands.get(split).map_or((0, None), |s| (s.to, Some(s.opened)));
        if from < to {
            let back = by.and_then(|by| self.chain.rewound_to(by, opened, split));
            return match back {
                Some(back) if back <= from => Ok(()),
                _ => breaks("I7", format!("{place} begins at {from} of {split}, which had landed up to {to}; rewound to: {back:?}")),
            };
        }
        match table.expected_in(split, to, from).first() {
            None => Ok(()),
            Some(row) => breaks("I7", format!("{place} begins at {from} of {split}, and {row:?} is left out since {to}")),
        }
    }

    // ---- pins, registrations, files ---------------------------------------------------------------------------------------------------

    /// Another engine that expires what a pin keeps: from then on a floor may be gone.
    fn look_for_ignored_pins(&mut self, at: usize, id: u64, what: &Effect, objects: &Objects) {
        if !self.tables[at].format().walks() {
            return;
        }
        let Some(user) = self.chain.greatest().filter(|g| g.kind != "closed").map(|g| g.user.clone()) else { return };
        let table = &mut self.tables[at];
        let pin = table.reader.object(&format!("consumer/consumer-{user}"), objects).ok().and_then(|b| next_snapshot(b));
        let kept = pin.is_some_and(|pin| pin <= id) || table.unpinned.contains(&user);
        table.unprotected |= kept && !by_us(what);
    }

    pub(super) fn pin_changed(&mut self, at: usize, user: &str, what: &Effect) -> Checked {
        if !by_us(what) {
            if what.after.is_none() {
                self.tables[at].unpinned.insert(user.to_owned());
            }
            return Ok(());
        }
        if !user.starts_with(&format!("{}-", self.chain.pipeline())) {
            return Ok(());
        }
        let place = format!("{}: the pin of {user}", self.tables[at].root());
        let Some(newest) = self.chain.newest_of(user).cloned() else {
            return breaks("I10", format!("{place}: no `open` made this user"));
        };
        match &what.after {
            None => self.check_unpin(at, user, &newest, &place),
            Some(bytes) => {
                self.tables[at].unpinned.remove(user);
                self.check_pin(at, &newest, next_snapshot(bytes), &place)
            }
        }
    }

    fn check_pin(&self, at: usize, newest: &Arc<Link>, pin: Option<u64>, place: &str) -> Checked {
        let Some(pin) = pin else { return breaks("I10", format!("{place} cannot be read")) };
        let table = &self.tables[at];
        // A sink that joins is pinned before the checkpoint that records it.
        let Some(entry) = newest.sinks.get(&table.url) else { return Ok(()) };
        let bound = entry.floor.max(1).max(table.newest_of(&newest.user).unwrap_or(0));
        // What lies below has expired although it was pinned: no pin can keep it any more.
        if pin > bound && !table.unprotected {
            let text = format!("{place} is at {pin}; checkpoint {} has the floor {}, and the bound is {bound}", newest.seq, entry.floor);
            return breaks("I10", text);
        }
        Ok(())
    }

    fn check_unpin(&self, at: usize, user: &str, newest: &Arc<Link>, place: &str) -> Checked {
        let over = newest.kind == "closed" || self.chain.greatest().is_some_and(|g| g.user != user);
        let ended = self.tables[at].landed(user, END).is_some();
        if over && (ended || !newest.sinks.contains_key(&self.tables[at].url)) {
            return Ok(());
        }
        breaks("I10", format!("{place} was removed, and its lineage is open: `{}` is its newest checkpoint", newest.kind))
    }

    /// `<pipeline>/<seq>.json`
    pub(super) fn registration_changed(&mut self, name: &str, what: &Effect) -> Checked {
        let Some(name) = name.strip_prefix(&format!("{}/", self.chain.pipeline())) else { return Ok(()) };
        let Some(after) = what.after.as_ref().filter(|_| by_us(what)) else { return Ok(()) };
        if what.before.is_some() {
            return breaks("I8", format!("the registration {name} was there and was changed"));
        }
        let seq = name.strip_suffix(".json").and_then(|d| d.parse::<u64>().ok());
        let user = serde_json::from_slice::<serde_json::Value>(after).ok().and_then(|j| Some(j.get("user")?.as_str()?.to_owned()));
        let made = user.as_deref().and_then(|u| self.chain.opened(u));
        if made.is_none() || made != seq {
            return breaks("I8", format!("the registration {name} is of user {user:?}, which was opened at {made:?}"));
        }
        Ok(())
    }

    /// I6: any other object of a table.
    pub(super) fn file_changed(&mut self, at: usize, path: &str, what: &Effect) -> Checked {
        if what.before.is_none() || !by_us(what) {
            return Ok(());
        }
        let table = &self.tables[at];
        let done = if what.after.is_none() { "deleted" } else { "replaced" };
        if path.starts_with("schema/") {
            return breaks("I6", format!("{}{path} was {done}", table.root()));
        }
        if let Some(id) = table.named_by(path) {
            return breaks("I6", format!("{}{path} was {done}, and snapshot {id} names it", table.root()));
        }
        let names = |l: &Link| l.sinks.get(&table.url).is_some_and(|e| e.messages.iter().flatten().any(|f| f.path == path));
        if let Some(link) = self.chain.there().find(|l| names(l)) {
            return breaks("I6", format!("{}{path} was {done}, and checkpoint {} names it", table.root(), link.seq));
        }
        Ok(())
    }
}

fn next_snapshot(pin: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(pin).ok()?.get("nextSnapshot")?.as_u64()
}
