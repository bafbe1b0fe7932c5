//! A small reader of tables, from raw bytes: JSON, Avro and Parquet, and nothing of the code that it judges. What is the same for all formats
//! is here; [`super::paimon`] and [`super::delta`] have the rest.
//!
//! What was decoded once is kept by content ([`Cache`]), so a call costs what is new in it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::delta::{self, Actions, Commit, State};
use super::paimon::{Entry, Partitioning};

/// The store: whole key -> bytes.
pub type Objects = BTreeMap<String, Bytes>;
/// A record: its split and its offset.
pub type Row = (String, i64);
/// Errors are sentences that name the object.
pub type Read<T> = Result<T, String>;

/// What a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Apache Paimon.
    #[default]
    Paimon,
    /// Delta Lake.
    Delta,
}

impl Format {
    /// Where snapshots lie, under the table's root.
    pub fn dir(self) -> &'static str {
        match self {
            Format::Paimon => "snapshot",
            Format::Delta => delta::LOG,
        }
    }
    /// The name of a snapshot, under the table's root.
    pub fn snapshot(self, id: u64) -> String {
        match self {
            Format::Paimon => format!("snapshot/snapshot-{id}"),
            Format::Delta => format!("{}/{id:020}.json", delta::LOG),
        }
    }
    /// Which snapshot has this name in that directory?
    pub fn snapshot_id(self, name: &str) -> Option<u64> {
        match self {
            Format::Paimon => name.strip_prefix("snapshot-")?.parse().ok(),
            Format::Delta => delta::version(name.strip_suffix(".json")?),
        }
    }
    /// The id of the first snapshot.
    pub fn first(self) -> u64 {
        match self {
            Format::Paimon => 1,
            Format::Delta => 0,
        }
    }
    /// Is what a commit user has landed found by walking through history, which pins keep? Else each snapshot says it.
    pub fn walks(self) -> bool {
        self == Format::Paimon
    }
}

/// Which two columns say what record a row was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowColumns {
    /// `split` STRING and `off` BIGINT.
    SplitOff,
    /// `topic` STRING and `offset` BIGINT: a table of dead letters. The topic must be spelt as the split is.
    TopicOffset,
}

impl RowColumns {
    pub(super) fn names(self) -> [&'static str; 2] {
        match self {
            RowColumns::SplitOff => ["split", "off"],
            RowColumns::TopicOffset => ["topic", "offset"],
        }
    }
}

/// A data file, as the log describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileView {
    /// Under the table's root, as it is on the store.
    pub path: String,
    /// Rows.
    pub rows: u64,
    /// Bytes.
    pub size: u64,
}

/// Where a file stands in its bucket, as a manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceView {
    /// The file, under the table's root.
    pub path: String,
    /// Its bucket.
    pub bucket: i64,
    /// How many there are; -1: none.
    pub total: i64,
    /// Least and greatest sequence number.
    pub sequences: [i64; 2],
}

/// Live files by path.
pub type Live = BTreeMap<String, FileView>;

/// A snapshot (Delta: a version) and the files that it means.
#[derive(Clone, Debug)]
pub struct SnapshotView {
    /// Its id.
    pub id: u64,
    /// The object.
    pub bytes: Bytes,
    /// Who committed; Delta: whose transaction it has, empty when none.
    pub commit_user: String,
    /// Under which identifier.
    pub commit_identifier: i64,
    /// APPEND, COMPACT, OVERWRITE, ...; Delta: by its actions.
    pub kind: String,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
    /// Paimon: `totalRecordCount` and `deltaRecordCount`.
    pub records: Option<[i64; 2]>,
    /// Paimon: the manifest lists, base and delta; under the table's root.
    pub lists: Vec<String>,
    /// Paimon: the manifests of both lists; under the table's root.
    pub manifests: [Vec<String>; 2],
    /// Files that it adds.
    pub added: Vec<FileView>,
    /// Where those stand.
    pub places: Vec<PlaceView>,
    /// The table's option `bucket`; -1: none.
    pub buckets: i64,
    /// Files that it removes.
    pub deleted: Vec<FileView>,
    /// Live files before it, as its base says.
    pub base: Arc<Live>,
    /// Live files after it.
    pub live: Arc<Live>,
    /// Delta: its actions, and the state after it.
    pub delta: Option<Arc<Commit>>,
}

impl SnapshotView {
    /// Every object that it names and that is not a data file, under the table's root.
    pub fn metadata(&self) -> impl Iterator<Item = &String> {
        self.lists.iter().chain(self.manifests.iter().flatten())
    }
}

/// A table: every snapshot from which it can be read.
#[derive(Clone, Debug, Default)]
pub struct TableView {
    /// By id.
    pub snapshots: BTreeMap<u64, SnapshotView>,
    /// Live files of the newest.
    pub live: Arc<Live>,
    /// Delta: the newest version, and the state as of it.
    pub newest: Option<(u64, Arc<State>)>,
}

/// Decoded objects, by content. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct Cache(Arc<Mutex<Kept>>);

/// Of which file, which columns: the directory has the values of partition columns.
type RowsOf = (Bytes, RowColumns, String);

#[derive(Default)]
pub(super) struct Kept {
    pub(super) lists: HashMap<Bytes, Arc<Vec<(String, u64)>>>,
    pub(super) manifests: HashMap<Bytes, Arc<Vec<Entry>>>,
    pub(super) schemas: HashMap<Bytes, Arc<Partitioning>>,
    pub(super) commits: HashMap<Bytes, Arc<Actions>>,
    pub(super) checkpoints: HashMap<Bytes, Arc<Actions>>,
    rows: HashMap<RowsOf, Arc<Vec<Row>>>,
}

/// How the error of a file that is live already ends.
pub(super) const TWICE: &str = "added twice";
/// A map of the cache that has grown beyond this is emptied.
const KEPT: usize = 1 << 14;

impl Cache {
    pub(super) fn get<K: std::hash::Hash + Eq + Clone, T>(
        &self,
        map: fn(&mut Kept) -> &mut HashMap<K, Arc<T>>,
        key: &K,
        decode: impl FnOnce() -> Read<T>,
    ) -> Read<Arc<T>> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = map(&mut lock()).get(key) {
            return Ok(found.clone());
        }
        let new = Arc::new(decode()?);
        let mut kept = lock();
        let map = map(&mut kept);
        if map.len() >= KEPT {
            map.clear();
        }
        map.insert(key.clone(), new.clone());
        Ok(new)
    }
}

/// Reads one table.
#[derive(Clone)]
pub struct Reader {
    /// Prefix of all its keys, with a slash at the end.
    root: String,
    format: Format,
    pub(super) cache: Cache,
}

impl Reader {
    /// Of the table under `root`.
    pub fn new(root: &str, format: Format, cache: Cache) -> Reader {
        Reader { root: format!("{}/", root.trim_end_matches('/')), format, cache }
    }
    /// Prefix of all its keys, with a slash at the end.
    pub fn root(&self) -> &str {
        &self.root
    }
    /// What it is.
    pub fn format(&self) -> Format {
        self.format
    }
    /// The object at a path under the root.
    pub fn object<'a>(&self, path: &str, objects: &'a Objects) -> Read<&'a Bytes> {
        let key = format!("{}{path}", self.root);
        objects.get(&key).ok_or_else(|| format!("{key} is not there"))
    }
    /// The objects of the directory of snapshots: names in it, and bytes.
    pub(super) fn log<'a>(&self, objects: &'a Objects) -> impl Iterator<Item = (&'a str, &'a Bytes)> {
        let prefix = format!("{}{}/", self.root, self.format.dir());
        let len = prefix.len();
        let from = objects.range(prefix.clone()..).take_while(move |(k, _)| k.starts_with(&prefix));
        from.map(move |(k, bytes)| (&k[len..], bytes))
    }

    /// Every snapshot that is there, and what is live in the newest.
    pub fn table(&self, objects: &Objects) -> Read<TableView> {
        match self.format {
            Format::Paimon => self.paimon_table(objects),
            Format::Delta => self.delta_table(objects),
        }
    }

    /// One snapshot. `before`: the one below it, which saves reading the base when this one plainly goes on from there.
    pub fn snapshot(&self, id: u64, bytes: &Bytes, objects: &Objects, before: Option<&SnapshotView>) -> Read<SnapshotView> {
        match self.format {
            Format::Paimon => self.paimon_snapshot(id, bytes, objects, before),
            Format::Delta => self.delta_snapshot(id, bytes, objects, before),
        }
    }

    /// The records of a data file.
    pub fn rows(&self, file: &FileView, columns: RowColumns, objects: &Objects) -> Read<Arc<Vec<Row>>> {
        let bytes = self.object(&file.path, objects)?;
        let dir = file.path.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
        let failed = |e| format!("{}{}: {e}", self.root, file.path);
        let key = (bytes.clone(), columns, dir);
        self.cache.get(|k| &mut k.rows, &key, || rows_of(bytes, columns, &key.2).map_err(failed))
    }
}

/// How many rows a Parquet file has.
pub(super) fn count(bytes: &Bytes) -> Read<u64> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).map_err(|e| format!("no Parquet file: {e}"))?;
    Ok(u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0))
}

/// A column that is not in the file is a partition column, and the directory has its value.
fn rows_of(bytes: &Bytes, columns: RowColumns, dir: &str) -> Read<Vec<Row>> {
    let bad = |e: &dyn std::fmt::Display| format!("no Parquet file with {:?}: {e}", columns.names());
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).map_err(|e| bad(&e))?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.names());
    let constants = columns.names().map(|name| delta::value_in(dir, name));
    let mut rows = Vec::new();
    for batch in builder.with_projection(mask).build().map_err(|e| bad(&e))? {
        let batch = batch.map_err(|e| bad(&e))?;
        let [split, offset] = columns.names().map(|n| batch.column_by_name(n));
        let split = split.and_then(|c| c.as_string_opt::<i32>());
        let offset = offset.and_then(|c| c.as_primitive_opt::<Int64Type>());
        for i in 0..batch.num_rows() {
            let split = match split {
                Some(column) => column.is_valid(i).then(|| column.value(i).to_owned()),
                None => constants[0].clone(),
            };
            let offset = match offset {
                Some(column) => column.is_valid(i).then(|| column.value(i)),
                None => constants[1].as_ref().and_then(|text| text.parse().ok()),
            };
            rows.push((split.ok_or_else(|| bad(&"the first is missing or null"))?, offset.ok_or_else(|| bad(&"the second is"))?));
        }
    }
    Ok(rows)
}
