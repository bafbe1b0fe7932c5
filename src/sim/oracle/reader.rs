//! A small reader of Paimon append tables, from raw bytes: JSON, Avro and Parquet, and nothing of the code that it judges.
//!
//! What was decoded once is kept by content ([`Cache`]), so a call costs what is new in it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use apache_avro::types::Value as Avro;
use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value as Json;

/// The store: whole key -> bytes.
pub type Objects = BTreeMap<String, Bytes>;
/// A record: its split and its offset.
pub type Row = (String, i64);
/// Errors are sentences that name the object.
pub type Read<T> = Result<T, String>;

/// Which two columns say what record a row was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowColumns {
    /// `split` STRING and `off` BIGINT.
    SplitOff,
    /// `topic` STRING and `offset` BIGINT: a table of dead letters. The topic must be spelt as the split is.
    TopicOffset,
}

impl RowColumns {
    fn names(self) -> [&'static str; 2] {
        match self {
            RowColumns::SplitOff => ["split", "off"],
            RowColumns::TopicOffset => ["topic", "offset"],
        }
    }
}

/// A data file, as a manifest describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileView {
    /// Under the table's root.
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

/// A snapshot and the files that it means.
#[derive(Clone, Debug)]
pub struct SnapshotView {
    /// Its id.
    pub id: u64,
    /// The object.
    pub bytes: Bytes,
    /// Who committed.
    pub commit_user: String,
    /// Under which identifier.
    pub commit_identifier: i64,
    /// APPEND, COMPACT, OVERWRITE, ...
    pub kind: String,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
    /// `totalRecordCount` and `deltaRecordCount`.
    pub records: [i64; 2],
    /// The manifest lists: base and delta; under the table's root.
    pub lists: [String; 2],
    /// The manifests of both lists; under the table's root.
    pub manifests: [Vec<String>; 2],
    /// Files that it adds.
    pub added: Vec<FileView>,
    /// Where those stand.
    pub places: Vec<PlaceView>,
    /// The table's option `bucket`.
    pub buckets: i64,
    /// Files that it removes.
    pub deleted: Vec<FileView>,
    /// Live files before it, as its base says.
    pub base: Arc<Live>,
    /// Live files after it.
    pub live: Arc<Live>,
}

impl SnapshotView {
    /// Every object that it names and that is not a data file, under the table's root.
    pub fn metadata(&self) -> impl Iterator<Item = &String> {
        self.lists.iter().chain(self.manifests.iter().flatten())
    }
}

/// A table: every snapshot that is there.
#[derive(Clone, Debug, Default)]
pub struct TableView {
    /// By id.
    pub snapshots: BTreeMap<u64, SnapshotView>,
}

/// One line of a manifest.
struct Entry {
    adds: bool,
    partition: Vec<u8>,
    bucket: i64,
    total: i64,
    sequences: [i64; 2],
    name: String,
    rows: u64,
    size: u64,
}

/// What a path depends on.
struct Partitioning {
    /// Partition columns: name and type.
    columns: Vec<(String, String)>,
    null_name: String,
    directory: Option<String>,
    buckets: i64,
}

/// Decoded objects, by content. Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct Cache(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    lists: HashMap<Bytes, Arc<Vec<(String, u64)>>>,
    manifests: HashMap<Bytes, Arc<Vec<Entry>>>,
    schemas: HashMap<Bytes, Arc<Partitioning>>,
    rows: HashMap<(Bytes, RowColumns), Arc<Vec<Row>>>,
}

/// How the error of a file that is live already ends.
pub(super) const TWICE: &str = "added twice";
/// A map of the cache that has grown beyond this is emptied.
const KEPT: usize = 1 << 14;

impl Cache {
    fn get<K: std::hash::Hash + Eq + Clone, T>(
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
    cache: Cache,
}

impl Reader {
    /// Of the table under `root`.
    pub fn new(root: &str, cache: Cache) -> Reader {
        Reader { root: format!("{}/", root.trim_end_matches('/')), cache }
    }
    /// Prefix of all its keys, with a slash at the end.
    pub fn root(&self) -> &str {
        &self.root
    }
    /// The object at a path under the root.
    pub fn object<'a>(&self, path: &str, objects: &'a Objects) -> Read<&'a Bytes> {
        let key = format!("{}{path}", self.root);
        objects.get(&key).ok_or_else(|| format!("{key} is not there"))
    }

    /// Every snapshot that is there.
    pub fn table(&self, objects: &Objects) -> Read<TableView> {
        let mut view = TableView::default();
        let prefix = format!("{}snapshot/", self.root);
        let mut ids: Vec<(u64, &Bytes)> = Vec::new();
        for (key, bytes) in objects.range(prefix.clone()..).take_while(|(k, _)| k.starts_with(&prefix)) {
            if let Some(id) = snapshot_id(&key[prefix.len()..]) {
                ids.push((id, bytes));
            }
        }
        ids.sort_unstable_by_key(|(id, _)| *id);
        for (id, bytes) in ids {
            let before = view.snapshots.get(&id.wrapping_sub(1));
            let snapshot = self.snapshot(id, bytes, objects, before)?;
            view.snapshots.insert(id, snapshot);
        }
        Ok(view)
    }

    /// One snapshot. `before`: the one below it, which saves reading the base when this one plainly goes on from there.
    pub fn snapshot(&self, id: u64, bytes: &Bytes, objects: &Objects, before: Option<&SnapshotView>) -> Read<SnapshotView> {
        let what = format!("{}snapshot/snapshot-{id}", self.root);
        let json: Json = serde_json::from_slice(bytes).map_err(|e| format!("{what} is no JSON: {e}"))?;
        let text = |key: &str| json.get(key).and_then(Json::as_str).ok_or_else(|| format!("{what} has no {key}"));
        let number = |key: &str| json.get(key).and_then(Json::as_i64).ok_or_else(|| format!("{what} has no {key}"));
        if number("id")? != i64::try_from(id).unwrap_or(-1) {
            return Err(format!("{what} says that it is {}", number("id")?));
        }
        let properties = json.get("properties").and_then(Json::as_object);
        let pairs = properties.into_iter().flatten().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())));
        let lists = [format!("manifest/{}", text("baseManifestList")?), format!("manifest/{}", text("deltaManifestList")?)];
        let base_list = self.list(&lists[0], json.get("baseManifestListSize"), objects)?;
        let delta_list = self.list(&lists[1], json.get("deltaManifestListSize"), objects)?;
        let manifests = [&base_list, &delta_list].map(|l| l.iter().map(|(name, _)| format!("manifest/{name}")).collect::<Vec<_>>());
        let partitioning = self.partitioning(number("schemaId")?, objects)?;
        let base = match before {
            Some(b) if b.manifests.iter().flatten().eq(&manifests[0]) => b.live.clone(),
            _ => {
                let mut live = Live::new();
                self.apply(&mut live, &base_list, &partitioning, objects)?;
                Arc::new(live)
            }
        };
        let mut live = Live::clone(&base);
        let (added, deleted) = self.apply(&mut live, &delta_list, &partitioning, objects).map_err(|e| format!("{what}: {e}"))?;
        let places = self.places(&delta_list, &partitioning, objects)?;
        Ok(SnapshotView {
            id,
            bytes: bytes.clone(),
            commit_user: text("commitUser")?.to_owned(),
            commit_identifier: number("commitIdentifier")?,
            kind: text("commitKind")?.to_owned(),
            properties: pairs.collect(),
            records: [number("totalRecordCount")?, number("deltaRecordCount")?],
            lists,
            manifests,
            added,
            places,
            buckets: partitioning.buckets,
            deleted,
            base,
            live: Arc::new(live),
        })
    }

    /// The records of a data file.
    pub fn rows(&self, file: &FileView, columns: RowColumns, objects: &Objects) -> Read<Arc<Vec<Row>>> {
        let bytes = self.object(&file.path, objects)?;
        let what = || format!("{}{}", self.root, file.path);
        self.cache.get(|k| &mut k.rows, &(bytes.clone(), columns), || rows_of(bytes, columns).map_err(|e| format!("{}: {e}", what())))
    }

    fn list(&self, path: &str, size: Option<&Json>, objects: &Objects) -> Read<Arc<Vec<(String, u64)>>> {
        let bytes = self.object(path, objects)?;
        if size.and_then(Json::as_u64).is_some_and(|s| s != bytes.len() as u64) {
            return Err(format!("{}{path} has {} bytes, its snapshot says otherwise", self.root, bytes.len()));
        }
        self.cache.get(
            |k| &mut k.lists,
            bytes,
            || records(bytes, |r| Some((string(r, "_FILE_NAME")?, natural(r, "_FILE_SIZE")?))).map_err(|e| format!("{path}: {e}")),
        )
    }

    fn manifest(&self, name: &str, size: u64, objects: &Objects) -> Read<Arc<Vec<Entry>>> {
        let path = format!("manifest/{name}");
        let bytes = self.object(&path, objects)?;
        if size != bytes.len() as u64 {
            return Err(format!("{}{path} has {} bytes, its list says {size}", self.root, bytes.len()));
        }
        let entry = |r: &Avro| {
            let file = field(r, "_FILE")?;
            Some(Entry {
                adds: integer(r, "_KIND")? == 0,
                partition: blob(r, "_PARTITION")?,
                bucket: integer(r, "_BUCKET")?,
                total: integer(r, "_TOTAL_BUCKETS")?,
                sequences: [integer(file, "_MIN_SEQUENCE_NUMBER")?, integer(file, "_MAX_SEQUENCE_NUMBER")?],
                name: string(file, "_FILE_NAME")?,
                rows: natural(file, "_ROW_COUNT")?,
                size: natural(file, "_FILE_SIZE")?,
            })
        };
        self.cache.get(|k| &mut k.manifests, bytes, || records(bytes, entry).map_err(|e| format!("{path}: {e}")))
    }

    /// Applies the manifests of a list; returns what they add and remove.
    fn apply(
        &self,
        live: &mut Live,
        list: &[(String, u64)],
        partitioning: &Partitioning,
        objects: &Objects,
    ) -> Read<(Vec<FileView>, Vec<FileView>)> {
        let (mut added, mut deleted) = (Vec::new(), Vec::new());
        for (name, size) in list {
            for entry in self.manifest(name, *size, objects)?.iter() {
                let path = path_of(entry, partitioning).ok_or_else(|| format!("the partition of {} cannot be read", entry.name))?;
                let file = FileView { path: path.clone(), rows: entry.rows, size: entry.size };
                if entry.adds {
                    added.push(file.clone());
                    if live.insert(path.clone(), file).is_some() {
                        return Err(format!("the file {path} is {TWICE}"));
                    }
                } else {
                    deleted.push(file);
                    live.remove(&path).ok_or_else(|| format!("the file {path} is removed and was not live"))?;
                }
            }
        }
        Ok((added, deleted))
    }

    /// Where the files that a list adds stand in their buckets.
    fn places(&self, list: &[(String, u64)], partitioning: &Partitioning, objects: &Objects) -> Read<Vec<PlaceView>> {
        let mut places = Vec::new();
        for (name, size) in list {
            for entry in self.manifest(name, *size, objects)?.iter().filter(|e| e.adds) {
                let path = path_of(entry, partitioning).ok_or_else(|| format!("the partition of {} cannot be read", entry.name))?;
                places.push(PlaceView { path, bucket: entry.bucket, total: entry.total, sequences: entry.sequences });
            }
        }
        Ok(places)
    }

    fn partitioning(&self, schema: i64, objects: &Objects) -> Read<Arc<Partitioning>> {
        let path = format!("schema/schema-{schema}");
        let bytes = self.object(&path, objects)?;
        self.cache.get(|k| &mut k.schemas, bytes, || partitioning_of(bytes).ok_or_else(|| format!("{path} cannot be read")))
    }
}

/// The id in `snapshot-<id>`.
pub fn snapshot_id(name: &str) -> Option<u64> {
    name.strip_prefix("snapshot-")?.parse().ok()
}

// ---- JSON, Avro, Parquet ---------------------------------------------------------------------------------------------------------------

fn partitioning_of(schema: &[u8]) -> Option<Partitioning> {
    let json: Json = serde_json::from_slice(schema).ok()?;
    let fields = json.get("fields")?.as_array()?;
    let type_of = |name: &str| {
        let field = fields.iter().find(|f| f.get("name").and_then(Json::as_str) == Some(name))?;
        Some(field.get("type")?.as_str()?.to_owned())
    };
    let mut columns = Vec::new();
    for key in json.get("partitionKeys")?.as_array()? {
        columns.push((key.as_str()?.to_owned(), type_of(key.as_str()?)?));
    }
    let option = |key: &str| Some(json.get("options")?.get(key)?.as_str()?.to_owned());
    let null_name = option("partition.default-name").unwrap_or_else(|| "__DEFAULT_PARTITION__".to_owned());
    let buckets = option("bucket").and_then(|b| b.parse().ok()).unwrap_or(-1);
    Some(Partitioning { columns, null_name, directory: option("data-file.path-directory"), buckets })
}

/// `[<directory>/][<column>=<value>/...]bucket-<n>/<name>`
fn path_of(entry: &Entry, partitioning: &Partitioning) -> Option<String> {
    let mut path = partitioning.directory.as_ref().map(|d| format!("{d}/")).unwrap_or_default();
    for (i, (column, data_type)) in partitioning.columns.iter().enumerate() {
        let value = partition_value(&entry.partition, i, partitioning.columns.len(), data_type)?;
        let value = value.filter(|v| !v.trim().is_empty()).unwrap_or_else(|| partitioning.null_name.clone());
        path.push_str(&format!("{}={}/", escaped(column), escaped(&value)));
    }
    Some(format!("{path}bucket-{}/{}", entry.bucket, entry.name))
}

/// The text of one value of a BinaryRow that has its arity in front. Outer none: not readable; inner none: null.
fn partition_value(row: &[u8], at: usize, arity: usize, data_type: &str) -> Option<Option<String>> {
    let row = row.get(4..)?;
    let bit = at + 8;
    if row.get(bit / 8)? & (1 << (bit % 8)) != 0 {
        return Some(None);
    }
    let nulls = (arity + 8).div_ceil(64) * 8;
    let slot: [u8; 8] = row.get(nulls + 8 * at..nulls + 8 * at + 8)?.try_into().ok()?;
    let kind = data_type.trim_end_matches(" NOT NULL");
    let text = if kind == "STRING" || kind.starts_with("VARCHAR") || kind.starts_with("CHAR") {
        let bytes = if slot[7] & 0x80 != 0 {
            slot.get(..usize::from(slot[7] & 0x7f))?
        } else {
            let value = u64::from_le_bytes(slot);
            let (offset, len) = (usize::try_from(value >> 32).ok()?, usize::try_from(value & 0xffff_ffff).ok()?);
            row.get(offset..offset.checked_add(len)?)?
        };
        std::str::from_utf8(bytes).ok()?.to_owned()
    } else {
        match kind {
            "TINYINT" => i64::from(i8::from_le_bytes([slot[0]])).to_string(),
            "SMALLINT" => i64::from(i16::from_le_bytes([slot[0], slot[1]])).to_string(),
            "INT" | "DATE" => i64::from(i32::from_le_bytes([slot[0], slot[1], slot[2], slot[3]])).to_string(),
            "BIGINT" => i64::from_le_bytes(slot).to_string(),
            "BOOLEAN" => (slot[0] != 0).to_string(),
            _ => return None,
        }
    };
    Some(Some(text))
}

fn escaped(text: &str) -> String {
    const SPECIAL: &str = "\"#%'*/:=?\\{}[]^\u{7f}";
    let one = |c: char| if c < ' ' || SPECIAL.contains(c) { format!("%{:02X}", u32::from(c)) } else { c.to_string() };
    text.chars().map(one).collect()
}

fn records<T>(bytes: &[u8], one: impl Fn(&Avro) -> Option<T>) -> Read<Vec<T>> {
    let reader = apache_avro::Reader::new(bytes).map_err(|e| format!("no Avro: {e}"))?;
    let read = |value: Result<Avro, apache_avro::Error>| {
        one(&value.map_err(|e| format!("no Avro: {e}"))?).ok_or_else(|| "a record lacks a field".to_owned())
    };
    reader.map(read).collect()
}

/// A field of a record, out of its unions.
fn field<'a>(record: &'a Avro, name: &str) -> Option<&'a Avro> {
    let Avro::Record(fields) = bare(record) else { return None };
    fields.iter().find(|(n, _)| n == name).map(|(_, v)| bare(v))
}
fn bare(value: &Avro) -> &Avro {
    match value {
        Avro::Union(_, inner) => bare(inner),
        other => other,
    }
}
fn integer(record: &Avro, name: &str) -> Option<i64> {
    match field(record, name)? {
        Avro::Int(v) => Some(i64::from(*v)),
        Avro::Long(v) => Some(*v),
        _ => None,
    }
}
fn natural(record: &Avro, name: &str) -> Option<u64> {
    u64::try_from(integer(record, name)?).ok()
}
fn string(record: &Avro, name: &str) -> Option<String> {
    match field(record, name)? {
        Avro::String(v) => Some(v.clone()),
        _ => None,
    }
}
fn blob(record: &Avro, name: &str) -> Option<Vec<u8>> {
    match field(record, name)? {
        Avro::Bytes(v) => Some(v.clone()),
        _ => None,
    }
}

fn rows_of(bytes: &Bytes, columns: RowColumns) -> Read<Vec<Row>> {
    let bad = |e: &dyn std::fmt::Display| format!("no Parquet file with {:?}: {e}", columns.names());
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).map_err(|e| bad(&e))?;
    let mask = ProjectionMask::columns(builder.parquet_schema(), columns.names());
    let mut rows = Vec::new();
    for batch in builder.with_projection(mask).build().map_err(|e| bad(&e))? {
        let batch = batch.map_err(|e| bad(&e))?;
        let [split, offset] = columns.names().map(|n| batch.column_by_name(n));
        let split = split.and_then(|c| c.as_string_opt::<i32>()).ok_or_else(|| bad(&"the first is missing"))?;
        let offset = offset.and_then(|c| c.as_primitive_opt::<Int64Type>()).ok_or_else(|| bad(&"the second is missing"))?;
        for (split, offset) in split.iter().zip(offset) {
            rows.push((split.ok_or_else(|| bad(&"null"))?.to_owned(), offset.ok_or_else(|| bad(&"null"))?));
        }
    }
    Ok(rows)
}
