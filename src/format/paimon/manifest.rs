//! Manifests and manifest lists: Avro object container files.
//!
//! What we write has exactly the fields, order, types and record names that Java's readers insist on, and is encoded by hand: a commit
//! writes three of these files. What others wrote is read through a general Avro reader, and fields that a writer left out are filled in.

mod own;

use std::collections::HashMap;
use std::sync::LazyLock;

use apache_avro::types::Value;
use apache_avro::{Codec, Schema};

use super::stats::RawStats;
use crate::error::{Error, Result};

/// Does an entry add or remove its file?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// The file is live from this snapshot on.
    Add,
    /// The file is live no more.
    Delete,
}

/// One line of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestEntry {
    /// Adds or removes.
    pub kind: EntryKind,
    /// The partition, a BinaryRow.
    pub partition: Vec<u8>,
    /// The bucket.
    pub bucket: i32,
    /// Buckets in all; -1: none.
    pub total_buckets: i32,
    /// The file.
    pub file: FileMeta,
}

/// What makes two entries speak of the same file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    partition: Vec<u8>,
    bucket: i32,
    level: i32,
    name: String,
    extra_files: Vec<String>,
    embedded_index: Option<Vec<u8>>,
    external_path: Option<String>,
}

impl FileIdentity {
    /// The partition, a BinaryRow.
    pub fn partition(&self) -> &[u8] {
        &self.partition
    }
    /// The bucket.
    pub fn bucket(&self) -> i32 {
        self.bucket
    }
}

impl ManifestEntry {
    /// The identity of the entry's file.
    pub fn identity(&self) -> FileIdentity {
        FileIdentity {
            partition: self.partition.clone(),
            bucket: self.bucket,
            level: self.file.level,
            name: self.file.name.clone(),
            extra_files: self.file.extra_files.clone(),
            embedded_index: self.file.embedded_index.clone(),
            external_path: self.file.external_path.clone(),
        }
    }
}

/// A data file, as manifests describe it.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the format, without the underscore")]
pub struct FileMeta {
    pub name: String,
    /// Bytes.
    pub size: i64,
    pub rows: i64,
    /// BinaryRow.
    pub min_key: Vec<u8>,
    /// BinaryRow.
    pub max_key: Vec<u8>,
    pub key_stats: RawStats,
    pub value_stats: RawStats,
    pub min_sequence: i64,
    pub max_sequence: i64,
    pub schema_id: i64,
    pub level: i32,
    pub extra_files: Vec<String>,
    /// Milliseconds, a wall clock without a zone.
    pub creation_time: Option<i64>,
    pub delete_rows: Option<i64>,
    pub embedded_index: Option<Vec<u8>>,
    /// 0: appended, 1: compacted.
    pub source: Option<i32>,
    /// The columns of `value_stats`; none: all columns of the file's schema.
    pub value_stats_cols: Option<Vec<String>>,
    pub external_path: Option<String>,
    pub first_row_id: Option<i64>,
    pub write_cols: Option<Vec<String>>,
    pub write_cols_sequences: Option<Vec<i64>>,
}

/// One line of a manifest list.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestMeta {
    /// Name in `manifest/`.
    pub name: String,
    /// Bytes.
    pub size: i64,
    /// Entries that add.
    pub added: i64,
    /// Entries that remove.
    pub deleted: i64,
    /// Minimum, maximum and null count of each partition column.
    pub partition_stats: RawStats,
    /// Greatest schema id of its files.
    pub schema_id: i64,
    /// Least and greatest bucket.
    pub buckets: Option<(i32, i32)>,
    /// Least and greatest level.
    pub levels: Option<(i32, i32)>,
    /// Least and greatest row id.
    pub row_ids: Option<(i64, i64)>,
}

const VERSION: i32 = 2;
const STATS_FIELDS: &str = r#"[{"name":"_MIN_VALUES","type":"bytes"},{"name":"_MAX_VALUES","type":"bytes"},
    {"name":"_NULL_COUNTS","type":["null",{"type":"array","items":["null","long"]}],"default":null}]"#;

fn field(name: &str, data_type: &str) -> String {
    format!(r#"{{"name":"{name}","type":{data_type}}}"#)
}
fn optional(name: &str, data_type: &str) -> String {
    format!(r#"{{"name":"{name}","type":["null",{data_type}],"default":null}}"#)
}
fn record(name: &str, fields: &[String]) -> String {
    format!(r#"{{"type":"record","name":"{name}","fields":[{}]}}"#, fields.join(","))
}
fn stats(name: &str) -> String {
    format!(r#"{{"type":"record","name":"{name}","fields":{STATS_FIELDS}}}"#)
}

const TOP: &str = "org.apache.paimon.avro.generated.record";

static ENTRY_SCHEMA: LazyLock<String> = LazyLock::new(entry_schema);
static LIST_SCHEMA: LazyLock<String> = LazyLock::new(list_schema);

fn entry_schema() -> String {
    const STRINGS: &str = r#"{"type":"array","items":"string"}"#;
    let file = record(
        "record__FILE",
        &[
            field("_FILE_NAME", r#""string""#),
            field("_FILE_SIZE", r#""long""#),
            field("_ROW_COUNT", r#""long""#),
            field("_MIN_KEY", r#""bytes""#),
            field("_MAX_KEY", r#""bytes""#),
            field("_KEY_STATS", &stats("record__FILE__KEY_STATS")),
            field("_VALUE_STATS", &stats("record__FILE__VALUE_STATS")),
            field("_MIN_SEQUENCE_NUMBER", r#""long""#),
            field("_MAX_SEQUENCE_NUMBER", r#""long""#),
            field("_SCHEMA_ID", r#""long""#),
            field("_LEVEL", r#""int""#),
            field("_EXTRA_FILES", STRINGS),
            optional("_CREATION_TIME", r#"{"type":"long","logicalType":"timestamp-millis"}"#),
            optional("_DELETE_ROW_COUNT", r#""long""#),
            optional("_EMBEDDED_FILE_INDEX", r#""bytes""#),
            optional("_FILE_SOURCE", r#""int""#),
            optional("_VALUE_STATS_COLS", STRINGS),
            optional("_EXTERNAL_PATH", r#""string""#),
            optional("_FIRST_ROW_ID", r#""long""#),
            optional("_WRITE_COLS", STRINGS),
            optional("_WRITE_COLS_SEQUENCES", r#"{"type":"array","items":"long"}"#),
        ],
    );
    let int = |name| field(name, r#""int""#);
    let partition = field("_PARTITION", r#""bytes""#);
    record(TOP, &[int("_VERSION"), int("_KIND"), partition, int("_BUCKET"), int("_TOTAL_BUCKETS"), field("_FILE", &file)])
}

fn list_schema() -> String {
    record(
        TOP,
        &[
            field("_VERSION", r#""int""#),
            field("_FILE_NAME", r#""string""#),
            field("_FILE_SIZE", r#""long""#),
            field("_NUM_ADDED_FILES", r#""long""#),
            field("_NUM_DELETED_FILES", r#""long""#),
            field("_PARTITION_STATS", &stats("record__PARTITION_STATS")),
            field("_SCHEMA_ID", r#""long""#),
            optional("_MIN_BUCKET", r#""int""#),
            optional("_MAX_BUCKET", r#""int""#),
            optional("_MIN_LEVEL", r#""int""#),
            optional("_MAX_LEVEL", r#""int""#),
            optional("_MIN_ROW_ID", r#""long""#),
            optional("_MAX_ROW_ID", r#""long""#),
        ],
    )
}

/// Encodes a manifest. `sync` are 16 random bytes that separate the blocks.
pub fn encode_manifest(entries: &[ManifestEntry], codec: Codec, sync: [u8; 16]) -> Result<Vec<u8>> {
    container(&ENTRY_SCHEMA, codec, sync, entries, put_entry)
}

/// Encodes a manifest list. `sync` are 16 random bytes that separate the blocks.
pub fn encode_list(metas: &[ManifestMeta], codec: Codec, sync: [u8; 16]) -> Result<Vec<u8>> {
    container(&LIST_SCHEMA, codec, sync, metas, put_meta)
}

/// A block is closed when it has grown to this many bytes before compression.
const BLOCK: usize = 256 << 10;

fn container<T>(schema: &str, codec: Codec, sync: [u8; 16], records: &[T], put: fn(&mut Vec<u8>, &T)) -> Result<Vec<u8>> {
    let codec_name = match codec {
        Codec::Null => "null",
        Codec::Deflate(_) => "deflate",
        Codec::Snappy => "snappy",
        Codec::Zstandard(_) => "zstandard",
    };
    let mut out = b"Obj\x01".to_vec();
    long(&mut out, 2);
    for (key, value) in [("avro.schema", schema), ("avro.codec", codec_name)] {
        blob(&mut out, key.as_bytes());
        blob(&mut out, value.as_bytes());
    }
    long(&mut out, 0);
    out.extend_from_slice(&sync);
    let (mut block, mut count) = (Vec::new(), 0);
    for (i, item) in records.iter().enumerate() {
        put(&mut block, item);
        count += 1;
        if block.len() >= BLOCK || i + 1 == records.len() {
            let mut data = std::mem::take(&mut block);
            codec.compress(&mut data).map_err(|e| Error::internal("a manifest could not be compressed").because(e))?;
            long(&mut out, std::mem::take(&mut count));
            blob(&mut out, &data);
            out.extend_from_slice(&sync);
        }
    }
    Ok(out)
}

fn long(out: &mut Vec<u8>, value: i64) {
    let mut zigzag = ((value << 1) ^ (value >> 63)) as u64;
    while zigzag >= 0x80 {
        out.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}
fn blob(out: &mut Vec<u8>, bytes: &[u8]) {
    long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}
fn option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        None => long(out, 0),
        Some(v) => {
            long(out, 1);
            put(out, v);
        }
    }
}
fn array<T>(out: &mut Vec<u8>, items: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    if !items.is_empty() {
        long(out, items.len() as i64);
        items.iter().for_each(|i| put(out, i));
    }
    long(out, 0);
}
fn strings(out: &mut Vec<u8>, items: &[String]) {
    array(out, items, |out, s| blob(out, s.as_bytes()));
}
fn put_stats(out: &mut Vec<u8>, stats: &RawStats) {
    blob(out, &stats.min);
    blob(out, &stats.max);
    long(out, 1); // never null: Java would fail
    array(out, &stats.nulls, |out, n| option(out, *n, long));
}

fn put_entry(out: &mut Vec<u8>, entry: &ManifestEntry) {
    long(out, VERSION.into());
    long(out, if entry.kind == EntryKind::Add { 0 } else { 1 });
    blob(out, &entry.partition);
    long(out, entry.bucket.into());
    long(out, entry.total_buckets.into());
    let f = &entry.file;
    blob(out, f.name.as_bytes());
    long(out, f.size);
    long(out, f.rows);
    blob(out, &f.min_key);
    blob(out, &f.max_key);
    put_stats(out, &f.key_stats);
    put_stats(out, &f.value_stats);
    long(out, f.min_sequence);
    long(out, f.max_sequence);
    long(out, f.schema_id);
    long(out, f.level.into());
    strings(out, &f.extra_files);
    option(out, f.creation_time, long);
    option(out, f.delete_rows, long);
    option(out, f.embedded_index.as_deref(), blob);
    option(out, f.source.map(i64::from), long);
    option(out, f.value_stats_cols.as_deref(), strings);
    option(out, f.external_path.as_deref().map(str::as_bytes), blob);
    option(out, f.first_row_id, long);
    option(out, f.write_cols.as_deref(), strings);
    option(out, f.write_cols_sequences.as_deref(), |out, v| array(out, v, |out, n| long(out, *n)));
}

fn put_meta(out: &mut Vec<u8>, m: &ManifestMeta) {
    long(out, VERSION.into());
    blob(out, m.name.as_bytes());
    long(out, m.size);
    long(out, m.added);
    long(out, m.deleted);
    put_stats(out, &m.partition_stats);
    long(out, m.schema_id);
    for range in [m.buckets, m.levels] {
        option(out, range.map(|(min, _)| i64::from(min)), long);
        option(out, range.map(|(_, max)| i64::from(max)), long);
    }
    option(out, m.row_ids.map(|(min, _)| min), long);
    option(out, m.row_ids.map(|(_, max)| max), long);
}

/// Reads a manifest, of any writer. `Data` when it is none.
pub fn decode_manifest(bytes: &[u8]) -> Result<Vec<ManifestEntry>> {
    if let Some(entries) = own::decode(bytes, &ENTRY_SCHEMA, own::entry) {
        return Ok(entries);
    }
    read(bytes, "manifest", |mut r| {
        let kind = match r.int("_KIND")? {
            0 => EntryKind::Add,
            1 => EntryKind::Delete,
            other => return Err(Error::data(format!("an entry of the unknown kind {other}"))),
        };
        let mut file = r.record("_FILE")?;
        Ok(ManifestEntry {
            kind,
            partition: r.bytes("_PARTITION")?,
            bucket: r.int32("_BUCKET")?,
            total_buckets: r.int32("_TOTAL_BUCKETS")?,
            file: file_meta(&mut file)?,
        })
    })
}

/// As [`decode_manifest`]; none when it has fields that we do not know and so could not write again.
pub fn decode_whole(bytes: &[u8]) -> Result<Option<Vec<ManifestEntry>>> {
    let known = |schema: &Schema| known_fields(schema, &Schema::parse_str(&ENTRY_SCHEMA).ok()?);
    let same = own::decode(bytes, &ENTRY_SCHEMA, own::entry);
    if same.is_some() {
        return Ok(same);
    }
    let entries = decode_manifest(bytes)?;
    let schema = apache_avro::Reader::new(bytes).map(|r| r.writer_schema().clone());
    Ok(schema.ok().and_then(|s| known(&s)).map(|()| entries))
}

/// Has every field of `theirs` one of its name in `ours`, all the way down?
fn known_fields(theirs: &Schema, ours: &Schema) -> Option<()> {
    match (theirs, ours) {
        (Schema::Union(u), _) => u.variants().iter().filter(|v| **v != Schema::Null).try_for_each(|v| known_fields(v, ours)),
        (_, Schema::Union(u)) => u.variants().iter().find(|v| **v != Schema::Null).and_then(|v| known_fields(theirs, v)),
        (Schema::Record(t), Schema::Record(o)) => t.fields.iter().try_for_each(|f| {
            let of_ours = o.fields.iter().find(|g| g.name == f.name)?;
            known_fields(&f.schema, &of_ours.schema)
        }),
        _ => Some(()),
    }
}

fn file_meta(f: &mut Record) -> Result<FileMeta> {
    Ok(FileMeta {
        name: f.string("_FILE_NAME")?,
        size: f.int("_FILE_SIZE")?,
        rows: f.int("_ROW_COUNT")?,
        min_key: f.bytes("_MIN_KEY")?,
        max_key: f.bytes("_MAX_KEY")?,
        key_stats: raw_stats(&mut f.record("_KEY_STATS")?)?,
        value_stats: raw_stats(&mut f.record("_VALUE_STATS")?)?,
        min_sequence: f.int("_MIN_SEQUENCE_NUMBER")?,
        max_sequence: f.int("_MAX_SEQUENCE_NUMBER")?,
        schema_id: f.int("_SCHEMA_ID")?,
        level: f.int32("_LEVEL")?,
        extra_files: f.optional("_EXTRA_FILES", string_list)?.unwrap_or_default(),
        creation_time: f.optional("_CREATION_TIME", integer)?,
        delete_rows: f.optional("_DELETE_ROW_COUNT", integer)?,
        embedded_index: f.optional("_EMBEDDED_FILE_INDEX", byte_vec)?,
        source: f.optional("_FILE_SOURCE", integer)?.and_then(|v| i32::try_from(v).ok()),
        value_stats_cols: f.optional("_VALUE_STATS_COLS", string_list)?,
        external_path: f.optional("_EXTERNAL_PATH", text)?,
        first_row_id: f.optional("_FIRST_ROW_ID", integer)?,
        write_cols: f.optional("_WRITE_COLS", string_list)?,
        write_cols_sequences: f.optional("_WRITE_COLS_SEQUENCES", |v| list(v, integer))?,
    })
}

fn raw_stats(r: &mut Record) -> Result<RawStats> {
    let nulls = r.optional("_NULL_COUNTS", |v| list(v, |n| if n == Value::Null { Some(None) } else { integer(n).map(Some) }))?;
    Ok(RawStats { min: r.bytes("_MIN_VALUES")?, max: r.bytes("_MAX_VALUES")?, nulls: nulls.unwrap_or_default() })
}

/// Reads a manifest list, of any writer. `Data` when it is none.
pub fn decode_list(bytes: &[u8]) -> Result<Vec<ManifestMeta>> {
    if let Some(metas) = own::decode(bytes, &LIST_SCHEMA, own::meta) {
        return Ok(metas);
    }
    read(bytes, "manifest list", |mut r| {
        let mut range32 = |min, max| -> Result<Option<(i32, i32)>> {
            let as32 = |v: Value| integer(v).and_then(|n| i32::try_from(n).ok());
            Ok(r.optional(min, as32)?.zip(r.optional(max, as32)?))
        };
        let (buckets, levels) = (range32("_MIN_BUCKET", "_MAX_BUCKET")?, range32("_MIN_LEVEL", "_MAX_LEVEL")?);
        Ok(ManifestMeta {
            name: r.string("_FILE_NAME")?,
            size: r.int("_FILE_SIZE")?,
            added: r.int("_NUM_ADDED_FILES")?,
            deleted: r.int("_NUM_DELETED_FILES")?,
            partition_stats: raw_stats(&mut r.record("_PARTITION_STATS")?)?,
            schema_id: r.int("_SCHEMA_ID")?,
            buckets,
            levels,
            row_ids: r.optional("_MIN_ROW_ID", integer)?.zip(r.optional("_MAX_ROW_ID", integer)?),
        })
    })
}

/// Names of the index files in an index manifest. `Data` when it is none.
pub fn decode_index_names(bytes: &[u8]) -> Result<Vec<String>> {
    read(bytes, "index manifest", |mut r| r.string("_FILE_NAME"))
}

/// Does an index manifest name deletion vectors: rows of data files that are deleted? `Data` when it is none.
pub fn has_deletion_vectors(bytes: &[u8]) -> Result<bool> {
    let kinds = read(bytes, "index manifest", |mut r| r.string("_INDEX_TYPE"))?;
    Ok(kinds.iter().any(|kind| kind == "DELETION_VECTORS"))
}

fn read<T>(bytes: &[u8], what: &str, one: impl Fn(Record) -> Result<T>) -> Result<Vec<T>> {
    let garbled = || Error::data(format!("this is no {what}")).hint(super::DAMAGED);
    let reader = apache_avro::Reader::new(bytes).map_err(|e| garbled().because(e))?;
    reader.map(|value| Record::new(value.map_err(|e| garbled().because(e))?).and_then(&one)).collect::<Result<_>>().map_err(|e| {
        match e.kind() {
            crate::Kind::Data => e.hint("the file is damaged; restore it, or roll the table back to a snapshot before it"),
            _ => e,
        }
    })
}

/// The fields of an Avro record by name; values are taken out.
struct Record(HashMap<String, Value>);

impl Record {
    fn new(value: Value) -> Result<Record> {
        match peel(value) {
            Value::Record(fields) => Ok(Record(fields.into_iter().collect())),
            _ => Err(Error::data("a manifest holds something that is no record")),
        }
    }
    /// `None`: the writer left the field out, or it is null.
    fn optional<T>(&mut self, name: &str, convert: impl Fn(Value) -> Option<T>) -> Result<Option<T>> {
        match self.0.remove(name).map(peel) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match convert(value) {
                Some(v) => Ok(Some(v)),
                None => Err(Error::data(format!("the field {name} of a manifest has another type"))),
            },
        }
    }
    fn required<T>(&mut self, name: &str, convert: impl Fn(Value) -> Option<T>) -> Result<T> {
        self.optional(name, convert)?.ok_or_else(|| Error::data(format!("the field {name} of a manifest is missing")))
    }
    fn int(&mut self, name: &str) -> Result<i64> {
        self.required(name, integer)
    }
    fn int32(&mut self, name: &str) -> Result<i32> {
        self.required(name, |v| integer(v).and_then(|n| i32::try_from(n).ok()))
    }
    fn string(&mut self, name: &str) -> Result<String> {
        self.required(name, text)
    }
    fn bytes(&mut self, name: &str) -> Result<Vec<u8>> {
        self.required(name, byte_vec)
    }
    fn record(&mut self, name: &str) -> Result<Record> {
        Record::new(self.required(name, Some)?)
    }
}

fn peel(value: Value) -> Value {
    match value {
        Value::Union(_, inner) => peel(*inner),
        other => other,
    }
}
fn integer(value: Value) -> Option<i64> {
    match value {
        Value::Int(v) => Some(v.into()),
        Value::Long(v) | Value::TimestampMillis(v) | Value::LocalTimestampMillis(v) => Some(v),
        _ => None,
    }
}
fn text(value: Value) -> Option<String> {
    if let Value::String(v) = value { Some(v) } else { None }
}
fn byte_vec(value: Value) -> Option<Vec<u8>> {
    if let Value::Bytes(v) = value { Some(v) } else { None }
}
fn list<T>(value: Value, one: impl Fn(Value) -> Option<T>) -> Option<Vec<T>> {
    let Value::Array(items) = value else { return None };
    items.into_iter().map(|i| one(peel(i))).collect()
}
fn string_list(value: Value) -> Option<Vec<String>> {
    list(value, text)
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
