//! Delta logs made by hand: what is sound is found sound, what is broken is named.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use super::super::delta::unescaped;
use super::super::reader::{Cache, Format, Objects, Reader, RowColumns};
use super::super::{Config, Oracle, TableConfig, Violation};
use crate::sim::effect::{Effect, Op};

const ROOT: &str = "one";

fn log(name: &str) -> String {
    format!("{ROOT}/_delta_log/{name}")
}
fn commit_key(version: u64) -> String {
    log(&format!("{version:020}.json"))
}
fn checkpoint_key(version: u64) -> String {
    log(&format!("{version:020}.checkpoint.parquet"))
}
fn lines(actions: &[Value]) -> Bytes {
    actions.iter().map(|a| format!("{a}\n")).collect::<String>().into()
}

fn parquet(batch: &RecordBatch) -> Bytes {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes.into()
}

/// Rows of split `a`; `part` is a partition column, so it is not in the file.
fn data(offsets: &[i64]) -> Bytes {
    let columns: [(&str, ArrayRef); 2] =
        [("split", Arc::new(StringArray::from(vec!["a"; offsets.len()]))), ("off", Arc::new(Int64Array::from(offsets.to_vec())))];
    parquet(&RecordBatch::try_from_iter(columns).unwrap())
}

fn add(path: &str, size: usize, offsets: &[i64]) -> Value {
    let stats = json!({"numRecords": offsets.len(), "minValues": {"off": offsets[0]}, "maxValues": {"off": offsets[offsets.len() - 1]}});
    json!({"add": {"path": path, "partitionValues": {"part": "p 1"}, "size": size, "modificationTime": 1, "dataChange": true,
        "stats": stats.to_string()}})
}

/// A checkpoint of these actions, with the types that engines expect.
fn checkpoint(actions: &[Value]) -> Bytes {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let long = |name: &str| Field::new(name, DataType::Int64, true);
    let map = |name: &str| {
        let pair = Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)]);
        Field::new(name, DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(pair), false)), false), true)
    };
    let list = |name: &str| Field::new(name, DataType::List(Arc::new(Field::new("element", DataType::Utf8, true))), true);
    let of = |name: &str, fields: Vec<Field>| Field::new(name, DataType::Struct(fields.into()), true);
    let int = |name: &str| Field::new(name, DataType::Int32, true);
    let flag = |name: &str| Field::new(name, DataType::Boolean, true);
    let schema = Arc::new(Schema::new(vec![
        of("txn", vec![text("appId"), long("version"), long("lastUpdated")]),
        of("add", vec![text("path"), map("partitionValues"), long("size"), long("modificationTime"), flag("dataChange"), text("stats")]),
        of("remove", vec![text("path"), long("deletionTimestamp"), flag("dataChange")]),
        of(
            "metaData",
            vec![
                text("id"),
                of("format", vec![text("provider"), map("options")]),
                text("schemaString"),
                list("partitionColumns"),
                map("configuration"),
            ],
        ),
        of("protocol", vec![int("minReaderVersion"), int("minWriterVersion")]),
    ]));
    let mut decoder = arrow_json::ReaderBuilder::new(schema).build_decoder().unwrap();
    decoder.serialize(actions).unwrap();
    parquet(&decoder.flush().unwrap().unwrap())
}

fn metadata() -> Value {
    json!({"metaData": {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": "{}", "partitionColumns": ["part"],
        "configuration": {"a": "b"}}})
}
fn protocol() -> Value {
    json!({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
}
fn txn(version: i64) -> Value {
    json!({"txn": {"appId": "somebody", "version": version, "lastUpdated": 5}})
}
fn info() -> Value {
    json!({"commitInfo": {"operation": "WRITE"}})
}

/// What another engine did: two files, one of them compacted away, with a checkpoint of version 2 and the hint.
struct Made {
    effects: Vec<(String, Option<Bytes>)>,
}

impl Made {
    fn new() -> Made {
        let mut made = Made { effects: Vec::new() };
        let files: [(&str, &[i64]); 4] = [("x", &[0, 1]), ("y", &[2]), ("xy", &[0, 1, 2]), ("z", &[3])];
        let mut size = BTreeMap::new();
        for (name, offsets) in files {
            let bytes = data(offsets);
            size.insert(name, bytes.len());
            made.put(&format!("{ROOT}/part=p 1/{name}.parquet"), bytes);
        }
        let add = |name: &str, offsets: &[i64]| add(&format!("part=p%201/{name}.parquet"), size[name], offsets);
        let gone = |name: &str| {
            let path = format!("part=p%201/{name}.parquet");
            json!({"remove": {"path": path, "deletionTimestamp": 9, "dataChange": false}})
        };
        let mut merged = add("xy", &[0, 1, 2]);
        merged["add"]["dataChange"] = json!(false);
        made.put(&commit_key(0), lines(&[info(), protocol(), metadata()]));
        made.put(&commit_key(1), lines(&[info(), txn(1), add("x", &[0, 1]), add("y", &[2])]));
        made.put(&commit_key(2), lines(&[info(), txn(2), merged.clone(), gone("x"), gone("y")]));
        let all = [protocol(), metadata(), txn(2), merged, gone("x"), gone("y")];
        let bytes = checkpoint(&all);
        let pointer = json!({"version": 2, "size": all.len(), "sizeInBytes": bytes.len(), "numOfAddFiles": 1});
        made.put(&checkpoint_key(2), bytes);
        made.put(&log("_last_checkpoint"), pointer.to_string().into());
        made.put(&commit_key(3), lines(&[info(), add("z", &[3])]));
        made
    }
    fn put(&mut self, key: &str, bytes: Bytes) {
        self.effects.push((key.to_owned(), Some(bytes)));
    }
    fn at(&mut self, key: &str) -> &mut Option<Bytes> {
        &mut self.effects.iter_mut().find(|(k, _)| k == key).unwrap().1
    }
    fn objects(&self) -> Objects {
        let mut objects = Objects::new();
        for (key, bytes) in &self.effects {
            match bytes {
                Some(bytes) => drop(objects.insert(key.clone(), bytes.clone())),
                None => drop(objects.remove(key)),
            }
        }
        objects
    }
    /// As if `by` had done it all; the rows are another engine's.
    fn verdict_of(&self, by: impl Fn(&str) -> usize) -> Result<(), Violation> {
        let table = TableConfig {
            root: format!("{ROOT}/"),
            format: Format::Delta,
            url: "sim://one".into(),
            columns: RowColumns::SplitOff,
            rows: Vec::new(),
        };
        let config = Config { chain: "chain/p/".into(), keep: 2, commit_empty: false, tables: vec![table] };
        let (mut oracle, mut objects) = (Oracle::new(config, &Cache::default()), Objects::new());
        for (key, after) in &self.effects {
            let before = objects.get(key).cloned();
            match after {
                Some(bytes) => drop(objects.insert(key.clone(), bytes.clone())),
                None => drop(objects.remove(key)),
            }
            let effect = Effect { process: by(key), op: Op::Put, key: key.clone(), before, after: after.clone(), by_expiry: false };
            oracle.after_call(&effect, &objects)?;
        }
        Ok(())
    }
    fn verdict(&self) -> Result<(), Violation> {
        self.verdict_of(|_| Effect::OUTSIDE)
    }
    /// As if checkpoints and hint were ours.
    fn verdict_of_ours(&self) -> Result<(), Violation> {
        self.verdict_of(|key| if key.ends_with(".json") { Effect::OUTSIDE } else { 1 })
    }
}

#[track_caller]
fn names(done: Result<(), Violation>, invariant: &str, words: &str) {
    let violation = done.unwrap_err();
    assert!(violation.invariant == invariant && violation.text.contains(words), "{violation}");
}

#[test]
fn a_table_is_read_from_its_commits_and_from_its_checkpoint_alone() {
    let made = Made::new();
    made.verdict().unwrap();
    made.verdict_of_ours().unwrap();
    let reader = Reader::new(ROOT, Format::Delta, Cache::default());
    let mut objects = made.objects();
    for cleaned in [false, true] {
        if cleaned {
            (0..2).for_each(|v| drop(objects.remove(&commit_key(v))));
        }
        let view = reader.table(&objects).unwrap();
        assert_eq!(view.newest.as_ref().unwrap().0, 3);
        let mut rows = Vec::new();
        for file in view.live.values() {
            rows.extend(reader.rows(file, RowColumns::SplitOff, &objects).unwrap().iter().map(|(_, off)| *off));
        }
        rows.sort();
        assert_eq!(rows, [0, 1, 2, 3]);
        assert_eq!(view.newest.unwrap().1.txns["somebody"]["version"], json!(2));
    }
}

#[test]
fn a_hole_in_the_log_and_a_file_that_is_added_twice_are_named() {
    let mut hole = Made::new();
    hole.put(&commit_key(5), lines(&[info(), txn(3)]));
    names(hole.verdict(), "I1", "where 4 is the next");
    let reader = Reader::new(ROOT, Format::Delta, Cache::default());
    assert!(reader.table(&hole.objects()).unwrap_err().contains("4 is missing"));
    let mut twice = Made::new();
    let again = twice.at(&commit_key(3)).clone().unwrap();
    twice.put(&commit_key(4), again);
    names(twice.verdict(), "I2", "added twice");
    let mut missing = Made::new();
    missing.put(&commit_key(4), lines(&[info(), add("nowhere.parquet", 7, &[9])]));
    names(missing.verdict(), "I12", "nowhere.parquet is not there");
}

#[test]
fn a_checkpoint_that_says_otherwise_than_the_commits_is_named() {
    let with = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut made = Made::new();
        let reader = Reader::new(ROOT, Format::Delta, Cache::default());
        let kept = reader.checkpoint(&made.at(&checkpoint_key(2)).clone().unwrap()).unwrap();
        let mut actions: Vec<Value> = kept.iter().map(|(kind, action)| json!({kind: action})).collect();
        change(&mut actions);
        *made.at(&checkpoint_key(2)) = Some(checkpoint(&actions));
        made
    };
    let without = |kind: &str| with(&|all| all.retain(|a| a.get(kind).is_none()));
    names(without("add").verdict(), "log", "says otherwise");
    names(without("txn").verdict(), "log", "txn somebody");
    names(without("remove").verdict(), "log", "remove part=p%201/x.parquet");
    names(without("metaData").verdict(), "log", "a checkpoint has a protocol and metaData");
    names(with(&|all| all.push(txn(2))).verdict(), "log", "no second txn somebody");
    let moved = with(&|all| all.iter_mut().filter(|a| a.get("txn").is_some()).for_each(|a| a["txn"]["version"] = json!(1)));
    names(moved.verdict(), "log", "txn somebody");
    let mut future = Made::new();
    let bytes = future.at(&checkpoint_key(2)).clone().unwrap();
    future.put(&checkpoint_key(4), bytes.clone());
    names(future.verdict(), "log", "of a version that is not there");
    let mut again = Made::new();
    again.put(&checkpoint_key(2), [&bytes[..], b"x"].concat().into());
    names(again.verdict_of_ours(), "log", "was there and was changed");
    let mut gone = Made::new();
    gone.effects.push((checkpoint_key(2), None));
    names(gone.verdict_of_ours(), "log", "was deleted");
}

#[test]
fn a_hint_to_a_checkpoint_that_is_not_there_or_counts_otherwise_is_named() {
    let hint = |text: Value| {
        let mut made = Made::new();
        made.put(&log("_last_checkpoint"), text.to_string().into());
        made.verdict_of_ours()
    };
    hint(json!({"version": 2, "size": 6})).unwrap();
    names(hint(json!({"version": 3, "size": 6})), "log", "names 3, which is not there");
    names(hint(json!({"version": 2, "size": 5})), "log", "has 6 actions");
    let mut early = Made::new();
    let (checkpoint, pointer) = (early.effects.len() - 3, early.effects.len() - 2);
    early.effects.swap(checkpoint, pointer);
    names(early.verdict_of_ours(), "log", "names 2, which is not there");
}

#[test]
fn a_commit_of_ours_that_is_none_of_the_chain_is_named() {
    let ours = |version: u64, actions: &[Value]| {
        let mut made = Made::new();
        made.put(&commit_key(version), lines(actions));
        made.verdict_of(|key| if key == commit_key(version) { 1 } else { Effect::OUTSIDE })
    };
    let attempt = json!({"commitInfo": {"operation": "WRITE", "txnId": "1"}});
    names(ours(4, std::slice::from_ref(&attempt)), "I4", "no transaction");
    names(ours(4, &[txn(3), attempt.clone()]), "log", "not one as its first line");
    names(ours(4, &[info(), txn(3)]), "log", "which another has too");
    names(ours(4, &[attempt, txn(3)]), "log", "its commitInfo says otherwise");
}

#[test]
fn paths_are_unescaped_once() {
    assert_eq!(unescaped("a%20b%252Fc").as_deref(), Some("a b%2Fc"));
    assert_eq!(unescaped("é%C3%A9").as_deref(), Some("éé"));
    assert_eq!(unescaped("%4"), None);
    assert_eq!(unescaped("%FF"), None);
}
