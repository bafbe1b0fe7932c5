//! Schemas of any writer, read so far as paths and partitions need it. Nothing is refused for what we could not write.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::format::paimon::manifest::ManifestEntry;
use crate::format::paimon::paths::{self, PaimonLayout};
use crate::format::paimon::row;
use crate::format::paimon::schema::VERSION;
use crate::maintain::finding::{Check, Findings};
use crate::maintain::gaps;
use crate::schema::{DataType, Field, Scalar};
use crate::store::Store;

/// What the schema files say.
pub(super) struct Shape {
    /// Ids of all schema files, damaged ones too.
    pub(super) ids: BTreeSet<u64>,
    /// Types of the partition columns and where files lie; none: the newest schema is damaged, or has a type that we do not know.
    layout: Option<PaimonLayout>,
    /// `data-file.path-directory`.
    directory: Option<String>,
    /// Rows are counted by ranges of row ids, not by files.
    pub(super) counts_row_ids: bool,
}

/// `Invalid`: there is no table here.
pub(super) async fn read(store: &Store, findings: &mut Findings) -> Result<Shape> {
    let listed = store.list(paths::SCHEMA_DIR).await?;
    let ids: BTreeSet<u64> = listed.iter().filter_map(|e| paths::id_of(&e.name, "schema-")).collect();
    let Some(newest) = ids.last().copied() else {
        return Err(Error::invalid("there is no Paimon table here: no schema/schema-0").at(store.url()).hint("check the location"));
    };
    for entry in listed.iter().filter(|e| e.name.starts_with("schema-") && paths::id_of(&e.name, "schema-").is_none()) {
        findings.find(
            Check::Schemas,
            format!("schema/{}", entry.name),
            None,
            "the name is no schema's; Java takes it for a number and fails",
        );
    }
    // A table begins with schema 0, and schemas never expire.
    for gap in gaps(&ids.iter().copied().chain([0]).collect()).into_iter().chain((!ids.contains(&0)).then_some(0)) {
        let what =
            format!("the schema is missing, although there is schema-{newest}; no reader finds the columns of files written under it");
        findings.find(Check::Schemas, paths::schema(gap), None, what);
    }
    let mut last = None;
    for id in &ids {
        findings.look(Check::Schemas, 1);
        let name = paths::schema(*id);
        let read = match store.get(&name).await? {
            Some(bytes) => Parsed::of(&bytes, *id),
            None => Err("it was listed and cannot be read".to_owned()),
        };
        last = read.map_err(|what| findings.find(Check::Schemas, name, None, what)).ok();
    }
    let options = last.as_ref().map(|p| p.options.clone()).unwrap_or_default();
    let directory = options.get("data-file.path-directory").map(|d| d.trim_matches('/').to_owned()).filter(|d| !d.is_empty());
    let counts_row_ids = options.get("data-evolution.enabled").is_some_and(|v| v == "true");
    Ok(Shape { ids, layout: last.and_then(Parsed::layout), directory, counts_row_ids })
}

/// Is it a data type, as far as its first word goes? Nested ones are objects.
fn is_type(value: &Value) -> bool {
    const PLAIN: [&str; 21] = [
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "INTEGER",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "NUMERIC",
        "CHAR",
        "VARCHAR",
        "STRING",
        "BINARY",
        "VARBINARY",
        "BYTES",
        "DATE",
        "TIME",
        "TIMESTAMP",
        "TIMESTAMP_LTZ",
        "VARIANT",
    ];
    const OTHERS: [&str; 6] = ["BLOB", "VECTOR", "ARRAY", "MAP", "MULTISET", "ROW"];
    let text = if value.is_object() { value["type"].as_str() } else { value.as_str() };
    let word = text.map(|t| t.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default().to_ascii_uppercase());
    word.is_some_and(|w| PLAIN.contains(&w.as_str()) || OTHERS.contains(&w.as_str()))
}

/// A list of names; none at all is an empty one.
fn strings(json: &Value, key: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("`{key}` is no list of names");
    match &json[key] {
        Value::Null => Ok(Vec::new()),
        Value::Array(all) => all.iter().map(|v| v.as_str().map(str::to_owned).ok_or_else(wrong)).collect(),
        _ => Err(wrong()),
    }
}

struct Parsed {
    partition: Option<Vec<Field>>,
    options: BTreeMap<String, String>,
}

impl Parsed {
    fn of(bytes: &[u8], id: u64) -> Result<Parsed, String> {
        let json: Value = serde_json::from_slice(bytes).map_err(|e| format!("this is no schema file: {e}"))?;
        let version = json.get("version").map_or(Some(1), Value::as_u64).ok_or("`version` is no number")?;
        if version > u64::from(VERSION) {
            return Err(format!("it has version {version}; this program understands up to {VERSION}"));
        }
        if json["id"].as_u64() != Some(id) {
            return Err(format!("it says that its id is {}", json["id"]));
        }
        let fields = json["fields"].as_array().ok_or("it has no list `fields`")?;
        let highest = json["highestFieldId"].as_i64().ok_or("it has no number `highestFieldId`")?;
        let (mut ids, mut names) = (HashSet::new(), HashSet::new());
        let mut types: BTreeMap<&str, &Value> = BTreeMap::new();
        for field in fields {
            let name = field["name"].as_str().ok_or("a field has no name")?;
            let id = field["id"].as_i64().ok_or_else(|| format!("the field `{name}` has no id"))?;
            if !names.insert(name) || !ids.insert(id) {
                return Err(format!("the field `{name}`, id {id}, is there twice"));
            }
            if id > highest {
                return Err(format!(
                    "the field `{name}` has id {id}, above `highestFieldId` {highest}: the next column would get an id that is taken"
                ));
            }
            if id < 0 {
                return Err(format!("the field `{name}` has the id {id}"));
            }
            let data_type = field.get("type").unwrap_or(&Value::Null);
            if !is_type(data_type) {
                return Err(format!("the field `{name}` has the type {data_type}, which is none of Paimon's"));
            }
            types.insert(name, data_type);
        }
        let (partition_by, keys) = (strings(&json, "partitionKeys")?, strings(&json, "primaryKeys")?);
        if let Some(stray) = partition_by.iter().chain(&keys).find(|name| !types.contains_key(name.as_str())) {
            return Err(format!("the key column `{stray}` is not a column"));
        }
        if !json["options"].is_null() && !json["options"].is_object() {
            return Err("`options` is no object".to_owned());
        }
        let mut options = BTreeMap::new();
        for (key, value) in json["options"].as_object().into_iter().flatten() {
            options.insert(key.clone(), value.as_str().ok_or_else(|| format!("the option `{key}` is no text"))?.to_owned());
        }
        let field = |name: &String| {
            let (data_type, nullable) = DataType::parse(types.get(name.as_str())?.as_str()?).ok()?;
            Some(Field { id: 0, name: name.clone(), data_type, nullable, description: None })
        };
        let partition = partition_by.iter().map(field).collect();
        Ok(Parsed { partition, options })
    }

    fn layout(self) -> Option<PaimonLayout> {
        Some(PaimonLayout::of_any(self.partition?, &self.options))
    }
}

impl Shape {
    /// The directory in which readers look for the entry's file; none: it cannot be told.
    pub(super) fn dir_of(&self, partition: &[u8], bucket: i32) -> Option<String> {
        let layout = self.layout.as_ref()?;
        let values = row::decode(partition, &layout.partition_types()).ok()?;
        layout.bucket_dir(&values, bucket).ok()
    }

    /// The partition values of an entry; none: the layout is not known. `Err`: the bytes are no partition of this table.
    pub(super) fn partition_of(&self, entry: &ManifestEntry) -> Option<Result<Vec<Option<Scalar>>>> {
        Some(row::decode(&entry.partition, &self.layout.as_ref()?.partition_types()))
    }

    /// The partition columns, when they are known.
    pub(super) fn partition_types(&self) -> Option<Vec<DataType>> {
        self.layout.as_ref().map(PaimonLayout::partition_types)
    }

    /// Does this object lie where data files or manifests lie?
    pub(super) fn holds_files(&self, name: &str) -> bool {
        let below = match &self.directory {
            Some(dir) => name.strip_prefix(dir.as_str()).and_then(|rest| rest.strip_prefix('/')),
            None => Some(name),
        };
        let data = below.and_then(|b| b.split_once('/')).is_some_and(|(first, _)| first.starts_with("bucket-") || first.contains('='));
        data || name.starts_with("manifest/") || name.starts_with("index/") || name.starts_with("statistics/")
    }
}
