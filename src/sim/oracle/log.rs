//! The ghost of a Delta log: what its commits, checkpoints and hint must be, besides what is asked of every format.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value as Json;

use super::delta::{CLOSED, Checkpoint, Commit, POINTER, State, value_in};
use super::reader::{Format, Objects, SnapshotView, TableView};
use super::table::Ghost;
use super::{Violation, breaks};
use crate::sim::effect::Effect;

type Checked = Result<(), Violation>;

const CLOSED_AT: &str = "lakeward.closed-at";

/// What was seen.
#[derive(Clone, Default)]
pub(super) struct LogGhost {
    /// Every `txnId` of ours.
    attempts: HashSet<String>,
    /// Checkpoints that we wrote.
    ours: BTreeSet<String>,
    /// Checkpoints that were there and that another engine removed.
    cleaned: BTreeSet<u64>,
    /// Users whose transaction somebody else moved.
    stolen: BTreeSet<String>,
}

impl LogGhost {
    pub(super) fn checkpoints(&self) -> usize {
        self.ours.len()
    }
}

fn by_us(what: &Effect) -> bool {
    what.process != Effect::OUTSIDE && !what.by_expiry
}

fn text<'a>(json: &'a Json, key: &str) -> Option<&'a str> {
    json.get(key)?.as_str()
}

impl Ghost {
    fn commit_at(&self, version: u64) -> Option<&Commit> {
        self.history.get(&version).and_then(|k| k.view.delta.as_deref())
    }
    /// `metaData.id` as of a version.
    pub(super) fn id_at(&self, version: u64) -> Option<&str> {
        text(&self.commit_at(version)?.state.metadata, "id")
    }

    // ---- commits ----------------------------------------------------------------------------------------------------------------------

    /// `owned`: its transaction is of a user of the chain.
    pub(super) fn check_commit(&mut self, view: &SnapshotView, by_us: bool, owned: bool) -> Checked {
        let place = format!("{}: version {}", self.root(), view.id);
        if !by_us {
            if owned {
                self.log.stolen.insert(view.commit_user.clone());
            }
            return Ok(());
        }
        let Some(commit) = view.delta.as_deref() else { return Ok(()) };
        let attempt = text(self.info(commit, &place)?, "txnId").unwrap_or_default().to_owned();
        if attempt.is_empty() || !self.log.attempts.insert(attempt.clone()) {
            return breaks("log", format!("{place} has the txnId {attempt:?}, which another has too"));
        }
        if view.commit_user.is_empty() {
            let creates = view.id == 0 && view.added.is_empty();
            return if creates { Ok(()) } else { breaks("I4", format!("{place} has no transaction, and is not what makes the table")) };
        }
        if self.log.stolen.contains(&view.commit_user) {
            return breaks("I2", format!("{place} goes on with {}, which somebody else moved", view.commit_user));
        }
        self.check_shape(view, commit, &place)?;
        self.check_time(view, commit, &place)?;
        let adds = commit.actions.iter().filter(|(kind, _)| kind == "add");
        adds.into_iter().try_for_each(|(_, add)| self.check_partition(add, commit, &place))
    }

    /// The first line, and the only one of its kind.
    fn info<'a>(&self, commit: &'a Commit, place: &str) -> Result<&'a Json, Violation> {
        let infos = commit.actions.iter().filter(|(kind, _)| kind == "commitInfo").count();
        match commit.actions.first() {
            Some((kind, info)) if kind == "commitInfo" && infos == 1 => Ok(info),
            _ => breaks("log", format!("{place} has {infos} commitInfo, and not one as its first line")),
        }
    }

    /// A blind append of one transaction.
    fn check_shape(&self, view: &SnapshotView, commit: &Commit, place: &str) -> Checked {
        let info = self.info(commit, place)?;
        let parameters = info.get("operationParameters").cloned().unwrap_or_default();
        let (user, identifier) = (view.commit_user.as_str(), view.commit_identifier.to_string());
        let operation = text(info, "operation") == Some("STREAMING UPDATE")
            && text(&parameters, "queryId") == Some(user)
            && text(&parameters, "epochId") == Some(identifier.as_str());
        if !operation || info.get("isBlindAppend") != Some(&Json::Bool(true)) {
            return breaks("log", format!("{place} is {identifier} of {user}, and its commitInfo says otherwise: {info}"));
        }
        let mut txns: BTreeMap<&str, i64> = BTreeMap::new();
        for (kind, json) in commit.actions.iter().skip(1) {
            let fine = match kind.as_str() {
                "add" => json.get("dataChange") == Some(&Json::Bool(true)),
                "txn" => {
                    let (app, version) = (text(json, "appId").unwrap_or_default(), json.get("version").and_then(Json::as_i64));
                    let dated = json.get("lastUpdated").is_some_and(Json::is_i64);
                    dated && version.is_some_and(|v| txns.insert(app, v).is_none())
                }
                _ => false,
            };
            if !fine {
                return breaks("log", format!("{place} has no business with this: {kind} {json}"));
            }
        }
        let closed = view.properties.get(CLOSED_AT).map(|at| at.parse().unwrap_or(-1));
        let companion = format!("{user}{CLOSED}");
        let wanted: BTreeMap<&str, i64> =
            [(user, view.commit_identifier)].into_iter().chain(closed.map(|at| (companion.as_str(), at))).collect();
        if txns != wanted {
            return breaks("log", format!("{place} has the transactions {txns:?}, not {wanted:?}"));
        }
        Ok(())
    }

    /// Times in commits rise where the table says so.
    fn check_time(&self, view: &SnapshotView, commit: &Commit, place: &str) -> Checked {
        let switch =
            |c: &Commit| c.state.metadata.get("configuration").and_then(|c| text(c, "delta.enableInCommitTimestamps")) == Some("true");
        let time =
            |c: &Commit| c.actions.iter().find(|(kind, _)| kind == "commitInfo").and_then(|(_, i)| i.get("inCommitTimestamp")?.as_i64());
        if !switch(commit) {
            return Ok(());
        }
        let before = view.id.checked_sub(1).and_then(|id| self.commit_at(id)).filter(|c| switch(c)).and_then(time);
        match time(commit) {
            Some(now) if before.is_none_or(|before| before < now) => Ok(()),
            now => breaks("log", format!("{place} was made at {now:?}, the one before at {before:?}")),
        }
    }

    /// Every partition column has its value, in the log as in the directory; statistics leave no value out.
    fn check_partition(&self, add: &Json, commit: &Commit, place: &str) -> Checked {
        let columns = commit.state.metadata.get("partitionColumns").and_then(Json::as_array).cloned().unwrap_or_default();
        let values = add.get("partitionValues").and_then(Json::as_object).cloned().unwrap_or_default();
        let path = text(add, "path").and_then(super::delta::unescaped).unwrap_or_default();
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        let agrees = |column: &Json| {
            let Some(column) = column.as_str() else { return false };
            values.get(column).is_some_and(|value| value.as_str().map(str::to_owned) == value_in(dir, column))
        };
        if values.len() != columns.len() || !columns.iter().all(agrees) {
            return breaks("log", format!("{place} adds {path} with the partition values {values:?}"));
        }
        Ok(())
    }

    /// Each row's columns lie within the bounds that the log gives for its file.
    pub(super) fn check_bounds(&self, view: &SnapshotView, objects: &Objects) -> Checked {
        let Some(commit) = view.delta.as_deref() else { return Ok(()) };
        let adds = commit.actions.iter().filter(|(kind, _)| kind == "add").map(|(_, add)| add);
        for (file, add) in view.added.iter().zip(adds) {
            let stats: Json = text(add, "stats").and_then(|s| serde_json::from_str(s).ok()).unwrap_or_default();
            let [name, number] = self.columns.names();
            let bound = |which: &str, column: &str| stats.get(which).and_then(|b| b.get(column)).cloned();
            for (split, off) in self.file_is_true(file, objects)?.iter() {
                let low = |column: &str| bound("minValues", column);
                let high = |column: &str| bound("maxValues", column);
                let within = low(name).is_none_or(|b| b.as_str().is_some_and(|b| b <= split.as_str()))
                    && high(name).is_none_or(|b| b.as_str().is_some_and(|b| b >= split.as_str()))
                    && low(number).is_none_or(|b| b.as_i64().is_some_and(|b| b <= *off))
                    && high(number).is_none_or(|b| b.as_i64().is_some_and(|b| b >= *off));
                if !within || high(number).is_none() {
                    return breaks("log", format!("{}: ({split}, {off}) is in {}, and not within {stats}", self.root(), file.path));
                }
            }
        }
        Ok(())
    }

    // ---- checkpoints and the hint -----------------------------------------------------------------------------------------------------

    /// Any object of the log's directory but commits.
    pub(super) fn log_changed(&mut self, name: &str, what: &Effect, objects: &Objects) -> Checked {
        if name == POINTER {
            return if by_us(what) { self.check_pointer(what, objects) } else { Ok(()) };
        }
        let Some(found) = Checkpoint::parse(name) else { return Ok(()) };
        let place = format!("{}: the checkpoint {name}", self.root());
        match (&what.before, &what.after) {
            (Some(_), Some(_)) if by_us(what) => breaks("log", format!("{place} was there and was changed")),
            (_, None) if by_us(what) => breaks("log", format!("{place} was deleted")),
            (_, None) => {
                self.log.cleaned.insert(found.version);
                Ok(())
            }
            (_, Some(bytes)) => {
                if by_us(what) {
                    self.log.ours.insert(name.to_owned());
                }
                if found.parts > 1 {
                    return Ok(()); // looked at when they are read together
                }
                let state = self.reader.checkpoint(bytes).and_then(|actions| State::of(&actions));
                let state = state.map_err(|text| Violation { invariant: "log", text: format!("{place}: {text}") })?;
                self.is_state_of(found.version, &state, &place)
            }
        }
    }

    fn is_state_of(&self, version: u64, state: &State, place: &str) -> Checked {
        let Some(commit) = self.commit_at(version) else {
            return breaks("log", format!("{place} is of a version that is not there"));
        };
        match commit.state.differs(state) {
            None => Ok(()),
            Some(what) => breaks("log", format!("{place} says otherwise than the commits up to it: {what}")),
        }
    }

    /// The hint names a checkpoint that is there, and counts it right. (That a cleaner took it meanwhile is the cleaner's doing.)
    fn check_pointer(&self, what: &Effect, objects: &Objects) -> Checked {
        let place = format!("{}: {POINTER}", self.root());
        let Some(bytes) = &what.after else { return breaks("log", format!("{place} was deleted")) };
        let json: Json = serde_json::from_slice(bytes).unwrap_or_default();
        let number = |key: &str| json.get(key).and_then(Json::as_u64);
        let (Some(version), Some(size)) = (number("version"), number("size")) else {
            return breaks("log", format!("{place} says {json}"));
        };
        if self.log.cleaned.contains(&version) {
            return Ok(());
        }
        let Ok(file) = self.reader.object(&format!("{}/{version:020}.checkpoint.parquet", Format::Delta.dir()), objects) else {
            return breaks("log", format!("{place} names {version}, which is not there"));
        };
        let actions = self.reader.checkpoint(file).map_err(|text| Violation { invariant: "log", text: format!("{place}: {text}") })?;
        let adds = actions.iter().filter(|(kind, _)| kind == "add").count() as u64;
        let right = size == actions.len() as u64
            && number("sizeInBytes").is_none_or(|n| n == file.len() as u64)
            && number("numOfAddFiles").is_none_or(|n| n == adds);
        if !right {
            let text = format!("{place} says {json}, and the checkpoint has {} actions, {adds} adds, {} bytes", actions.len(), file.len());
            return breaks("log", text);
        }
        Ok(())
    }

    /// What a reader of today finds is what history says, and so does every checkpoint that is left.
    pub(super) fn log_at_end(&self, view: &TableView, objects: &Objects) -> Checked {
        if self.format() != Format::Delta {
            return Ok(());
        }
        if let Some(newest) = self.newest()
            && newest.view.live != view.live
        {
            return breaks("log", format!("{}: a reader finds other files than history has", self.root()));
        }
        for (name, bytes) in self.reader.log(objects) {
            let Some(found) = Checkpoint::parse(name).filter(|c| c.parts == 1) else { continue };
            let place = format!("{}: the checkpoint {name}", self.root());
            let state = self.reader.checkpoint(bytes).and_then(|actions| State::of(&actions));
            let state = state.map_err(|text| Violation { invariant: "log", text: format!("{place}: {text}") })?;
            self.is_state_of(found.version, &state, &place)?;
        }
        Ok(())
    }
}
