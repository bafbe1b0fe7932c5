//! Delta tables: commits and checkpoints, from raw bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, AsArray as _};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value as Json};

use super::reader::{FileView, Live, Objects, Read, Reader, SnapshotView, TWICE, TableView, count};

/// Where the log lies.
pub(super) const LOG: &str = "_delta_log";
/// The hint, in that directory.
pub(super) const POINTER: &str = "_last_checkpoint";
/// What an application is called that says at what identifier a user was closed.
pub(super) const CLOSED: &str = "/closed-at";

/// Kind and value of each action, in order.
pub type Actions = Vec<(String, Json)>;

/// What a version did, and what the table is since.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Its actions.
    pub actions: Arc<Actions>,
    /// The state after it.
    pub state: Arc<State>,
}

/// A table's state, as replaying gives it. Nulls and what a checkpoint may say otherwise are taken out of the actions, so two that mean the
/// same are equal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The newest `protocol`.
    pub protocol: Json,
    /// The newest `metaData`.
    pub metadata: Json,
    /// The newest `txn` of each application.
    pub txns: BTreeMap<String, Json>,
    /// Those that are not removed.
    pub domains: BTreeMap<String, Json>,
    /// Live files, by path as it is written.
    pub adds: BTreeMap<String, Json>,
    /// Tombstones.
    pub removes: BTreeMap<String, Json>,
}

/// Which checkpoint a name in the log is, or is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Checkpoint {
    pub(super) version: u64,
    /// Of how many; 1: the classic name.
    pub(super) parts: u32,
    /// Counted from 1.
    pub(super) part: u32,
}

impl Checkpoint {
    pub(super) fn parse(name: &str) -> Option<Checkpoint> {
        let words: Vec<&str> = name.split('.').collect();
        let version = version(words.first()?)?;
        match words[1..] {
            ["checkpoint", "parquet"] => Some(Checkpoint { version, parts: 1, part: 1 }),
            ["checkpoint", part, parts, "parquet"] => Some(Checkpoint { version, parts: parts.parse().ok()?, part: part.parse().ok()? }),
            _ => None,
        }
    }
}

/// Twenty digits.
pub(super) fn version(text: &str) -> Option<u64> {
    if text.len() == 20 { text.parse().ok() } else { None }
}

/// The value of a column in a directory; `None`: it has none, or it is null.
pub(super) fn value_in(dir: &str, column: &str) -> Option<String> {
    let (_, value) = dir.split('/').filter_map(|part| part.split_once('=')).find(|(name, _)| unescaped(name).as_deref() == Some(column))?;
    if value == "__HIVE_DEFAULT_PARTITION__" { None } else { unescaped(value) }
}

/// `%41` is `A`, in directories and in the paths of actions.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let hex = || u8::from_str_radix(std::str::from_utf8(after.get(..2)?).ok()?, 16).ok();
        let escaped = if *first == b'%' { Some(hex()?) } else { None };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).ok()
}

/// Without what is null, at any depth but in a map of partition values, where null is a value.
fn plain(json: &Json) -> Json {
    match json {
        Json::Object(map) => {
            let kept = map.iter().filter(|(_, v)| !v.is_null());
            let one = |(k, v): (&String, &Json)| (k.clone(), if k == "partitionValues" { v.clone() } else { plain(v) });
            Json::Object(kept.map(one).collect())
        }
        other => other.clone(),
    }
}

/// As [`plain`], and without what a checkpoint leaves out or says otherwise.
fn reconciled(kind: &str, json: &Json) -> Json {
    let mut json = plain(json);
    if let Json::Object(map) = &mut json {
        map.retain(|key, _| {
            key != "dataChange" && !(kind == "remove" && ["stats", "tags", "extendedFileMetadata"].contains(&key.as_str()))
        });
        if let Some(Ok(stats)) = map.get("stats").and_then(Json::as_str).map(serde_json::from_str::<Json>) {
            map.insert("stats".to_owned(), plain(&stats));
        }
    }
    json
}

fn text<'a>(json: &'a Json, key: &str) -> Read<&'a str> {
    json.get(key).and_then(Json::as_str).ok_or_else(|| format!("an action has no {key}: {json}"))
}

impl State {
    fn take(&mut self, kind: &str, json: &Json) -> Read<()> {
        match kind {
            "protocol" => self.protocol = plain(json),
            "metaData" => self.metadata = reconciled(kind, json),
            "txn" => drop(self.txns.insert(text(json, "appId")?.to_owned(), plain(json))),
            "domainMetadata" => {
                let name = text(json, "domain")?.to_owned();
                match json.get("removed").and_then(Json::as_bool) {
                    Some(true) => drop(self.domains.remove(&name)),
                    _ => drop(self.domains.insert(name, plain(json))),
                }
            }
            "add" => {
                let path = text(json, "path")?.to_owned();
                if json.get("deletionVector").is_some_and(|v| !v.is_null()) {
                    return Err(format!("{path} has a deletion vector, which this reader does not know"));
                }
                self.removes.remove(&path);
                self.adds.insert(path, reconciled(kind, json));
            }
            "remove" => {
                let path = text(json, "path")?.to_owned();
                self.adds.remove(&path);
                self.removes.insert(path, reconciled(kind, json));
            }
            _ => {}
        }
        Ok(())
    }

    /// Of the rows of a checkpoint: each thing once.
    pub(super) fn of(actions: &Actions) -> Read<State> {
        let mut state = State::default();
        let mut names = BTreeSet::new();
        for (kind, json) in actions {
            let name = ["path", "appId", "domain"].iter().find_map(|key| json.get(*key).and_then(Json::as_str)).unwrap_or("");
            let of_files = if kind == "remove" { "add" } else { kind.as_str() };
            if kind == "commitInfo" || kind == "cdc" || !names.insert((of_files, name)) {
                return Err(format!("a checkpoint has no second {kind} {name}, and no commitInfo"));
            }
            state.take(kind, json)?;
        }
        if state.protocol.is_null() || state.metadata.is_null() {
            return Err("a checkpoint has a protocol and metaData".to_owned());
        }
        Ok(state)
    }

    /// What of `self` is otherwise in `other`; none: they mean the same.
    pub(super) fn differs(&self, other: &State) -> Option<String> {
        let one = |what: &str, a: &Json, b: &Json| (a != b).then(|| format!("{what} {a} and {b}"));
        let many = |what: &str, a: &BTreeMap<String, Json>, b: &BTreeMap<String, Json>| {
            let all: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let other = all.into_iter().find(|k| a.get(*k) != b.get(*k))?;
            Some(format!("{what} {other}: {:?} and {:?}", a.get(other).map(Json::to_string), b.get(other).map(Json::to_string)))
        };
        one("protocol", &self.protocol, &other.protocol)
            .or_else(|| one("metaData", &self.metadata, &other.metadata))
            .or_else(|| many("txn", &self.txns, &other.txns))
            .or_else(|| many("domain", &self.domains, &other.domains))
            .or_else(|| many("add", &self.adds, &other.adds))
            .or_else(|| many("remove", &self.removes, &other.removes))
    }
}

impl Reader {
    /// From the newest complete checkpoint on, or from the first commit; both when both are there, and they must agree.
    pub(super) fn delta_table(&self, objects: &Objects) -> Read<TableView> {
        let mut commits: BTreeMap<u64, &Bytes> = BTreeMap::new();
        let mut found: BTreeMap<(u64, u32), Vec<(u32, &Bytes)>> = BTreeMap::new();
        for (name, bytes) in self.log(objects) {
            if let Some(version) = self.format().snapshot_id(name) {
                commits.insert(version, bytes);
            } else if let Some(c) = Checkpoint::parse(name) {
                found.entry((c.version, c.parts)).or_default().push((c.part, bytes));
            }
        }
        let mut complete = found.into_iter().filter(|((_, parts), all)| all.len() == usize::try_from(*parts).unwrap_or(0));
        let newest = complete.next_back().map(|((version, _), parts)| (version, parts.into_iter().map(|(_, b)| b).collect::<Vec<_>>()));
        let whole = if commits.contains_key(&0) { Some(self.replay(None, &commits, objects)?) } else { None };
        let Some((version, parts)) = newest else {
            return Ok(whole.unwrap_or_default());
        };
        let mut actions = Vec::new();
        for part in parts {
            actions.extend(self.checkpoint(part)?.iter().cloned());
        }
        let view = self.replay(Some((version, State::of(&actions)?)), &commits, objects)?;
        if let Some(whole) = whole
            && whole.live != view.live
        {
            return Err(format!("{}: from the checkpoint {version} other files are live than from the first commit", self.root()));
        }
        Ok(view)
    }

    /// The commits above a checkpoint, or all.
    fn replay(&self, from: Option<(u64, State)>, commits: &BTreeMap<u64, &Bytes>, objects: &Objects) -> Read<TableView> {
        let mut view = TableView::default();
        let (mut next, mut state) = (0, Arc::new(State::default()));
        if let Some((version, checkpoint)) = from {
            view.live = Arc::new(self.live(&checkpoint, objects)?);
            (next, state) = (version + 1, Arc::new(checkpoint));
            view.newest = Some((version, state.clone()));
        }
        for (version, bytes) in commits.range(next..) {
            if *version != next {
                return Err(format!("{}: the commit {next} is missing, and {version} is there", self.root()));
            }
            let snapshot = self.commit(*version, bytes, objects, &state, &view.live)?;
            view.live = snapshot.live.clone();
            state = snapshot.delta.as_ref().map(|c| c.state.clone()).unwrap_or_default();
            view.snapshots.insert(*version, snapshot);
            view.newest = Some((*version, state.clone()));
            next += 1;
        }
        Ok(view)
    }

    fn live(&self, state: &State, objects: &Objects) -> Read<Live> {
        let files = state.adds.values().map(|add| self.file(add, objects));
        files.map(|file| file.map(|f| (f.path.clone(), f))).collect()
    }

    pub(super) fn delta_snapshot(&self, id: u64, bytes: &Bytes, objects: &Objects, before: Option<&SnapshotView>) -> Read<SnapshotView> {
        let nothing = (Arc::default(), Arc::default());
        let (state, live) = before.map_or(nothing, |b| (b.delta.as_ref().map(|c| c.state.clone()).unwrap_or_default(), b.live.clone()));
        self.commit(id, bytes, objects, &state, &live)
    }

    fn commit(&self, id: u64, bytes: &Bytes, objects: &Objects, state: &State, base: &Arc<Live>) -> Read<SnapshotView> {
        let what = format!("{}{}", self.root(), self.format().snapshot(id));
        let actions = self.cache.get(|k| &mut k.commits, bytes, || lines(bytes)).map_err(|e| format!("{what}: {e}"))?;
        let (mut state, mut live) = (state.clone(), Live::clone(base));
        let (mut added, mut deleted) = (Vec::new(), Vec::new());
        for (kind, json) in actions.iter() {
            if kind == "add" {
                let file = self.file(json, objects)?;
                if live.insert(file.path.clone(), file.clone()).is_some() {
                    return Err(format!("the file {} is {TWICE}", file.path));
                }
                added.push(file);
            } else if kind == "remove" {
                let path = unescaped(text(json, "path")?).ok_or_else(|| format!("{what}: a path cannot be read"))?;
                deleted.push(live.remove(&path).ok_or_else(|| format!("the file {path} is removed and was not live"))?);
            }
            state.take(kind, json)?;
        }
        if state.protocol.is_null() || state.metadata.is_null() {
            return Err(format!("{what}: there is no protocol, or no metaData, up to here"));
        }
        let info = actions.iter().find(|(kind, _)| kind == "commitInfo").map(|(_, json)| json);
        let ours = info.and_then(Json::as_object).into_iter().flatten().filter(|(k, _)| k.starts_with("lakeward."));
        let properties = ours.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect();
        let txns = || actions.iter().filter(|(kind, _)| kind == "txn").map(|(_, json)| json);
        let txn = txns().find(|t| !text(t, "appId").is_ok_and(|id| id.ends_with(CLOSED)));
        Ok(SnapshotView {
            id,
            bytes: bytes.clone(),
            commit_user: txn.map_or(Ok(""), |t| text(t, "appId"))?.to_owned(),
            commit_identifier: txn.and_then(|t| t.get("version")?.as_i64()).unwrap_or(0),
            kind: kind(&actions).to_owned(),
            properties,
            records: None,
            lists: Vec::new(),
            manifests: [Vec::new(), Vec::new()],
            added,
            places: Vec::new(),
            buckets: -1,
            deleted,
            base: base.clone(),
            live: Arc::new(live),
            delta: Some(Arc::new(Commit { actions, state: Arc::new(state) })),
        })
    }

    /// What an `add` says; rows are counted when it does not say how many.
    fn file(&self, add: &Json, objects: &Objects) -> Read<FileView> {
        let path = unescaped(text(add, "path")?).ok_or_else(|| format!("the path of {add} cannot be read"))?;
        let size = add.get("size").and_then(Json::as_u64).ok_or_else(|| format!("{path} has no size"))?;
        let stats = match add.get("stats") {
            Some(Json::String(stats)) => serde_json::from_str(stats).unwrap_or_default(),
            other => other.cloned().unwrap_or_default(),
        };
        let rows = match stats.get("numRecords").and_then(Json::as_u64) {
            Some(rows) => rows,
            None => count(self.object(&path, objects)?)?,
        };
        Ok(FileView { path, rows, size })
    }

    /// The actions of a checkpoint file.
    pub(super) fn checkpoint(&self, bytes: &Bytes) -> Read<Arc<Actions>> {
        self.cache.get(|k| &mut k.checkpoints, bytes, || rows(bytes))
    }
}

/// By what it does with files.
fn kind(actions: &Actions) -> &'static str {
    let has = |wanted: &str| actions.iter().any(|(kind, _)| kind == wanted);
    let changes = |json: &Json| json.get("dataChange").and_then(Json::as_bool).unwrap_or(true);
    let mut files = actions.iter().filter(|(kind, _)| kind == "add" || kind == "remove");
    if has("protocol") || has("metaData") || has("domainMetadata") {
        "OTHER"
    } else if has("remove") {
        if files.any(|(_, json)| changes(json)) { "OVERWRITE" } else { "COMPACT" }
    } else if files.all(|(_, json)| changes(json)) {
        "APPEND"
    } else {
        "OTHER"
    }
}

fn lines(bytes: &[u8]) -> Read<Actions> {
    let mut actions = Actions::new();
    for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        let json: Map<String, Json> = serde_json::from_slice(line).map_err(|e| format!("a line is no JSON object: {e}"))?;
        let mut kinds = json.into_iter();
        let (Some(action), None) = (kinds.next(), kinds.next()) else { return Err("a line has one action".to_owned()) };
        actions.push(action);
    }
    if actions.is_empty() { Err("the commit is empty".to_owned()) } else { Ok(actions) }
}

// ---- Parquet ---------------------------------------------------------------------------------------------------------------------------

/// Each row has one action; the other columns of it are null.
fn rows(bytes: &Bytes) -> Read<Actions> {
    let bad = |e: &dyn std::fmt::Display| format!("no checkpoint: {e}");
    let mut actions = Actions::new();
    for batch in ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).map_err(|e| bad(&e))?.build().map_err(|e| bad(&e))? {
        let batch = batch.map_err(|e| bad(&e))?;
        let schema = batch.schema();
        for row in 0..batch.num_rows() {
            let some = schema.fields().iter().zip(batch.columns()).filter(|(_, column)| column.is_valid(row));
            let mut some: Vec<_> = some.collect();
            let (Some((field, column)), None) = (some.pop(), some.pop()) else { return Err(bad(&"a row has one action")) };
            actions.push((field.name().clone(), json_of(column.as_ref(), row)?));
        }
    }
    Ok(actions)
}

fn json_of(array: &dyn Array, row: usize) -> Read<Json> {
    if array.is_null(row) {
        return Ok(Json::Null);
    }
    let unknown = || format!("a checkpoint has a value of type {}", array.data_type());
    match array.data_type() {
        DataType::Utf8 => Ok(array.as_string::<i32>().value(row).into()),
        DataType::Int32 => Ok(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Ok(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::Boolean => Ok(array.as_boolean().value(row).into()),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|i| json_of(items.as_ref(), i)).collect::<Read<Vec<_>>>().map(Json::Array)
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let [keys, values] = [entries.column(0), entries.column(1)];
            let pair = |i: usize| match json_of(keys.as_ref(), i)? {
                Json::String(key) => Ok((key, json_of(values.as_ref(), i)?)),
                _ => Err(unknown()),
            };
            (0..entries.len()).map(pair).collect::<Read<Map<_, _>>>().map(Json::Object)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            // The same again, as columns of their own.
            let some = fields.iter().zip(columns).filter(|(field, _)| !field.name().ends_with("_parsed"));
            some.map(|(field, column)| Ok((field.name().clone(), json_of(column.as_ref(), row)?)))
                .collect::<Read<Map<_, _>>>()
                .map(Json::Object)
        }
        _ => Err(unknown()),
    }
}
