//! Paimon append tables: snapshots, manifest lists and manifests, from raw bytes.

use std::sync::Arc;

use apache_avro::types::Value as Avro;
use bytes::Bytes;
use serde_json::Value as Json;

use super::reader::{FileView, Live, Objects, PlaceView, Read, Reader, SnapshotView, TWICE, TableView};

/// One line of a manifest.
pub(super) struct Entry {
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
pub(super) struct Partitioning {
    /// Partition columns: name and type.
    columns: Vec<(String, String)>,
    null_name: String,
    directory: Option<String>,
    buckets: i64,
}

impl Reader {
    pub(super) fn paimon_table(&self, objects: &Objects) -> Read<TableView> {
        let mut view = TableView::default();
        let all = self.log(objects).filter_map(|(name, bytes)| Some((self.format().snapshot_id(name)?, bytes)));
        let mut ids: Vec<(u64, &Bytes)> = all.collect();
        ids.sort_unstable_by_key(|(id, _)| *id);
        for (id, bytes) in ids {
            let before = view.snapshots.get(&id.wrapping_sub(1));
            let snapshot = self.paimon_snapshot(id, bytes, objects, before)?;
            view.live = snapshot.live.clone();
            view.snapshots.insert(id, snapshot);
        }
        Ok(view)
    }

    pub(super) fn paimon_snapshot(&self, id: u64, bytes: &Bytes, objects: &Objects, before: Option<&SnapshotView>) -> Read<SnapshotView> {
        let what = format!("{}snapshot/snapshot-{id}", self.root());
        let json: Json = serde_json::from_slice(bytes).map_err(|e| format!("{what} is no JSON: {e}"))?;
        let text = |key: &str| json.get(key).and_then(Json::as_str).ok_or_else(|| format!("{what} has no {key}"));
        let number = |key: &str| json.get(key).and_then(Json::as_i64).ok_or_else(|| format!("{what} has no {key}"));
        if number("id")? != i64::try_from(id).unwrap_or(-1) {
            return Err(format!("{what} says that it is {}", number("id")?));
        }
        let properties = json.get("properties").and_then(Json::as_object);
        let pairs = properties.into_iter().flatten().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())));
        let lists = vec![format!("manifest/{}", text("baseManifestList")?), format!("manifest/{}", text("deltaManifestList")?)];
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
            records: Some([number("totalRecordCount")?, number("deltaRecordCount")?]),
            lists,
            manifests,
            added,
            places,
            buckets: partitioning.buckets,
            deleted,
            base,
            live: Arc::new(live),
            delta: None,
        })
    }

    fn list(&self, path: &str, size: Option<&Json>, objects: &Objects) -> Read<Arc<Vec<(String, u64)>>> {
        let bytes = self.object(path, objects)?;
        if size.and_then(Json::as_u64).is_some_and(|s| s != bytes.len() as u64) {
            return Err(format!("{}{path} has {} bytes, its snapshot says otherwise", self.root(), bytes.len()));
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
            return Err(format!("{}{path} has {} bytes, its list says {size}", self.root(), bytes.len()));
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

// ---- JSON, Avro ------------------------------------------------------------------------------------------------------------------------

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
