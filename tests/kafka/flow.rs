//! A pipeline from topics into one table, and what must hold of it: each record once, with the coordinates that Kafka gave it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::broker::Broker;
use super::produce::Message;
use crate::process::{Ended, Running, binary, read_json};
use crate::readback::readers;

/// (topic, partition, offset).
pub(crate) type Place = (String, i32, u64);

/// Where a record lies.
pub(crate) fn place(topic: &str, partition: i32, offset: u64) -> Place {
    (topic.to_owned(), partition, offset)
}

/// The places of these offsets of one partition.
pub(crate) fn places(topic: &str, partition: i32, offsets: impl IntoIterator<Item = u64>) -> Vec<Place> {
    offsets.into_iter().map(|offset| place(topic, partition, offset)).collect()
}

/// Messages `{"id": n}`.
pub(crate) fn ids(ids: impl IntoIterator<Item = u64>) -> impl Iterator<Item = Message> {
    ids.into_iter().map(|id| Message::new(format!("{{\"id\": {id}}}")))
}

/// A pipeline file, its tables and its chain in a directory.
pub(crate) struct Flow {
    dir: tempfile::TempDir,
    name: String,
    set: Vec<String>,
}

impl Flow {
    /// Reads `topics`, a YAML list, of this broker; `more` goes into `source.kafka`, in flow style: `stop: end`.
    pub(crate) fn new(name: &str, broker: &Broker, topics: &str, more: &str) -> Flow {
        Flow::of(name, &format!("bootstrap_servers: '{}', topics: [{topics}], {more}", broker.address))
    }

    /// With everything in `source.kafka`. Columns: topic, part, off, id.
    pub(crate) fn of(name: &str, kafka: &str) -> Flow {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "version: 1\npipeline: {name}\nsource:\n  kafka: {{{kafka}}}\nsinks:\n  - location: shop.db/t\n    columns:\n      \
             topic: {{type: STRING, meta: topic}}\n      part: {{type: INT, meta: partition}}\n      off: {{type: BIGINT, meta: offset}}\n      \
             id: BIGINT\ndead_letter: {{location: shop.db/dead}}\ncheckpoint: {{location: chain, every: 500ms}}\ndurability: none\n"
        );
        std::fs::write(dir.path().join("p.yaml"), text).unwrap();
        Flow { dir, name: name.to_owned(), set: Vec::new() }
    }

    /// With one more override.
    pub(crate) fn set(&mut self, key_value: &str) {
        self.set.push(key_value.to_owned());
    }
    /// Other text in the pipeline file.
    pub(crate) fn edit(&self, from: &str, to: &str) {
        let file = self.file();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(from), "{text}");
        std::fs::write(file, text.replace(from, to)).unwrap();
    }
    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("p.yaml")
    }
    pub(crate) fn table(&self) -> PathBuf {
        self.dir.path().join("shop.db/t")
    }
    pub(crate) fn dead(&self) -> PathBuf {
        self.dir.path().join("shop.db/dead")
    }

    /// Starts it, with these arguments besides.
    pub(crate) fn start(&self, more: &[&str]) -> Running {
        let mut command = Command::new(binary());
        command.arg("ingest").arg(self.file()).args(self.set.iter().flat_map(|s| ["--set", s])).args(more);
        Running::start_as(command.args(["--log-format", "json", "-o", "jsonl"]))
    }
    /// Runs it to its end.
    pub(crate) fn run(&self) -> Ended {
        self.start(&[]).end()
    }

    pub(crate) fn snapshots(&self) -> Vec<Value> {
        crate::walk::snapshots(&self.table())
    }
    /// The greatest checkpoint.
    pub(crate) fn checkpoint(&self) -> Value {
        let dir = self.dir.path().join("chain").join(&self.name);
        let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        let greatest = names.filter(|p| p.extension().is_some_and(|e| e == "json") && !hidden(p)).max().expect("a checkpoint");
        read_json(&greatest)
    }
    /// Where the greatest checkpoint says that a split stands.
    pub(crate) fn position(&self, split: &str) -> Value {
        self.checkpoint()["offsets"][split].clone()
    }

    /// The rows as pypaimon reads them: where each came from, and its id. Each place is there once.
    pub(crate) fn rows(&self) -> BTreeMap<Place, Option<u64>> {
        let answer = readers::get("pypaimon", &json!({"cmd": "rows", "table": self.table()}));
        let rows = answer["rows"].as_array().unwrap();
        let number = |row: &Value, column: &str| row[column].as_str().map(|text| text.parse::<u64>().unwrap());
        let place = |row: &Value| {
            let partition = i32::try_from(number(row, "part").unwrap()).unwrap();
            (row["topic"].as_str().unwrap().to_owned(), partition, number(row, "off").unwrap())
        };
        let all: BTreeMap<Place, Option<u64>> = rows.iter().map(|row| (place(row), number(row, "id"))).collect();
        readers::count_comparison();
        assert_eq!(all.len(), rows.len(), "a record is there more than once");
        all
    }

    /// The table holds exactly these records.
    pub(crate) fn assert_places(&self, expected: impl IntoIterator<Item = Place>) {
        let expected: BTreeSet<Place> = expected.into_iter().collect();
        let rows: BTreeSet<Place> = self.rows().into_keys().collect();
        let some = |of: Vec<&Place>| of.into_iter().take(5).cloned().collect::<Vec<_>>();
        let (missing, more) = (some(expected.difference(&rows).collect()), some(rows.difference(&expected).collect()));
        assert!(rows == expected, "{} rows instead of {}; missing {missing:?}, too much {more:?}", rows.len(), expected.len());
        self.assert_joined();
    }

    /// I7: per split, `from` of each snapshot is `to` of the one before. Returns where the first begins and the last ends.
    pub(crate) fn assert_joined(&self) -> BTreeMap<String, [u64; 2]> {
        let mut all: BTreeMap<String, [u64; 2]> = BTreeMap::new();
        for snapshot in self.snapshots() {
            let Some(ranges) = snapshot["properties"]["lakeward.offsets"].as_str() else { continue };
            let ranges: BTreeMap<String, [u64; 2]> = serde_json::from_str(ranges).unwrap();
            for (split, [from, to]) in ranges {
                let range = all.entry(split.clone()).or_insert([from, from]);
                assert_eq!(range[1], from, "the ranges of {split} join, up to snapshot {}", snapshot["id"]);
                range[1] = to;
            }
        }
        all
    }

    /// The dead letters: where each came from, and what is wrong with it.
    pub(crate) fn dead_letters(&self) -> BTreeMap<Place, Value> {
        if !self.dead().exists() {
            return BTreeMap::new();
        }
        let answer = readers::get("pypaimon", &json!({"cmd": "rows", "table": self.dead()}));
        let rows = answer["rows"].as_array().unwrap();
        let at = |row: &Value| {
            let number = |column: &str| row[column].as_str().unwrap().parse::<u64>().unwrap();
            place(row["topic"].as_str().unwrap(), i32::try_from(number("partition")).unwrap(), number("offset"))
        };
        let all: BTreeMap<Place, Value> = rows.iter().map(|row| (at(row), row.clone())).collect();
        assert_eq!(all.len(), rows.len(), "a dead letter is there more than once");
        all
    }
}

fn hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// Waits until this pipeline has committed so many rows in all.
pub(crate) fn until_rows(flow: &Flow, running: &mut Running, rows: u64) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(90);
    let there = || flow.snapshots().last().is_some_and(|s| s["totalRecordCount"].as_u64().unwrap() >= rows);
    while !there() {
        let lines = || running.lines().iter().map(|l| format!("{}\n", l.text)).collect::<String>();
        assert!(!running.lines().is_empty() || std::time::Instant::now() < deadline, "it says nothing");
        assert!(std::time::Instant::now() < deadline, "{rows} rows did not come\n{}", lines());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
