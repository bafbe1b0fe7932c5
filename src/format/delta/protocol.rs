//! Which features a table has, and whether its rows can be read and rows be added. A feature that is listed need not be in use: some are
//! refused only when the schema or the properties use them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::action::{DomainMetadata, Metadata, Protocol};
use super::options::RawOptions;
use crate::error::{Error, Result};

/// What a feature is to this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// Rows are read and added.
    Supported,
    /// As well, while nothing in the table's schema or properties uses it.
    WhenUnused,
    /// Rows are read and not added.
    NotWritten,
    /// Neither.
    Refused,
}

use Standing::{NotWritten, Refused, Supported, WhenUnused};

/// One feature of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// As it stands in the lists of the protocol.
    pub name: &'static str,
    /// Must readers know it too? Then it is in both lists.
    pub reader: bool,
    /// The writer version, below 7, that implies it.
    pub legacy: Option<i32>,
    /// See [`Standing`].
    pub standing: Standing,
}

const fn writer(name: &'static str, standing: Standing) -> Feature {
    Feature { name, reader: false, legacy: None, standing }
}
const fn both(name: &'static str, standing: Standing) -> Feature {
    Feature { name, reader: true, legacy: None, standing }
}
const fn legacy(name: &'static str, version: i32, standing: Standing) -> Feature {
    Feature { name, reader: false, legacy: Some(version), standing }
}

/// Every feature that Delta knows, accepted, in preview or proposed, as of 2026-11. A name that is not here is refused too.
pub const FEATURES: &[Feature] = &[
    legacy("appendOnly", 2, Supported),
    legacy("invariants", 2, WhenUnused),
    legacy("checkConstraints", 3, WhenUnused),
    legacy("changeDataFeed", 4, Supported),
    legacy("generatedColumns", 4, WhenUnused),
    Feature { name: "columnMapping", reader: true, legacy: Some(5), standing: WhenUnused },
    legacy("identityColumns", 6, WhenUnused),
    writer("allowColumnDefaults", WhenUnused),
    writer("clustering", Supported),
    both("deletionVectors", Supported),
    writer("domainMetadata", Supported),
    writer("inCommitTimestamp", Supported),
    writer("rowTracking", WhenUnused),
    both("timestampNtz", Supported),
    both("typeWidening", Supported),
    both("typeWidening-preview", Supported),
    both("v2Checkpoint", Supported),
    both("vacuumProtocolCheck", Supported),
    // deltalake lists it in every table that lists features at all.
    both("variantShredding", WhenUnused),
    both("variantShredding-preview", WhenUnused),
    both("variantType", WhenUnused),
    both("variantType-preview", WhenUnused),
    writer("checkpointProtection", NotWritten),
    writer("collations", NotWritten),
    writer("collations-preview", NotWritten),
    writer("columnMappingUsageTracking", NotWritten),
    writer("concurrentIdentityColumns", NotWritten),
    writer("icebergCompatV1", NotWritten),
    writer("icebergCompatV2", NotWritten),
    writer("icebergCompatV3", NotWritten),
    writer("icebergWriterCompatV1", NotWritten),
    writer("icebergWriterCompatV3", NotWritten),
    writer("inCommitTimestamp-preview", NotWritten),
    writer("invisibleColumns", NotWritten),
    writer("liquid", NotWritten),
    writer("materializePartitionColumns", NotWritten),
    writer("multiTableTransaction", NotWritten),
    writer("recordLevelIndex", NotWritten),
    writer("redirectWriterOnly-preview", NotWritten),
    writer("tableBranching", NotWritten),
    both("adaptiveMetadata-preview", Refused),
    both("catalogManaged", Refused),
    both("catalogOwned-preview", Refused),
    // Writers' only, by the letter; but commits may lie where only a coordinator looks.
    writer("coordinatedCommits-preview", Refused),
    both("decFloat", Refused),
    both("fileType", Refused),
    both("geospatial", Refused),
    both("intervalType", Refused),
    writer("managedCommit-dev", Refused),
    writer("managedCommit-preview", Refused),
    both("parquetEncryption", Refused),
    both("redirectReaderWriter-preview", Refused),
    both("timestampNanos", Refused),
];

/// With these a table can be made: they promise nothing that a new and empty table would have to hold.
const CREATABLE: [&str; 9] = [
    "appendOnly",
    "changeDataFeed",
    "deletionVectors",
    "domainMetadata",
    "inCommitTimestamp",
    "invariants",
    "timestampNtz",
    "typeWidening",
    "vacuumProtocolCheck",
];

/// Properties that need a feature when they are `true`.
const BY_PROPERTY: [(&str, &str); 4] = [
    ("delta.enableChangeDataFeed", "changeDataFeed"),
    ("delta.enableDeletionVectors", "deletionVectors"),
    ("delta.enableInCommitTimestamps", "inCommitTimestamp"),
    ("delta.enableTypeWidening", "typeWidening"),
];

/// What names a feature among table properties, when a table is made.
pub const FEATURE_KEY: &str = "delta.feature.";
/// The greatest reader version that there is, the one with a list of features.
const READER: i32 = 3;
/// The greatest writer version that there is, the one with a list of features.
const WRITER: i32 = 7;
/// Where tables with these commit, nobody but their catalog says.
const CATALOG: [&str; 5] =
    ["catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview", "managedCommit-dev", "managedCommit-preview"];

/// The feature of this name, as far as Delta knows it.
pub fn feature(name: &str) -> Option<&'static Feature> {
    FEATURES.iter().find(|f| f.name == name)
}

/// Is the feature one that a new table can be made with?
pub fn creatable(name: &str) -> bool {
    CREATABLE.contains(&name)
}

/// Does the protocol have the feature: by its lists, or by an old version that implies it?
pub fn has(protocol: &Protocol, name: &str) -> bool {
    let listed = protocol.writer_features.as_ref().is_some_and(|list| list.iter().any(|f| f == name));
    let implied = feature(name).is_some_and(|f| {
        let by_writer = f.legacy.is_some_and(|v| (v..WRITER).contains(&protocol.min_writer_version));
        by_writer && (!f.reader || protocol.min_reader_version >= 2)
    });
    listed || implied
}

/// Checks that rows of the table can be read. `Invalid`: by the name of what is not supported. `Data`: the protocol contradicts itself.
pub fn check_readable(protocol: &Protocol, metadata: &Metadata) -> Result<()> {
    check_form(protocol)?;
    // What only writers have to know and somebody lists for readers too may mean anything, unless we know it well enough to write.
    let of_readers =
        listed(&protocol.reader_features).filter(|name| feature(name).is_none_or(|f| matches!(f.standing, NotWritten | Refused)));
    let of_writers = listed(&protocol.writer_features).filter(|name| feature(name).is_some_and(|f| f.standing == Refused));
    refuse(of_readers.chain(of_writers).map(String::as_str).collect(), "read")?;
    if metadata.format.provider != "parquet" {
        let what = format!("the table's files are of the format `{}`", metadata.format.provider);
        return Err(Error::invalid(what).hint("only Parquet can be read"));
    }
    let property = |key: &str| metadata.configuration.get(key).map(|v| v.trim()).filter(|v| !v.is_empty());
    if let Some(mode) = property("delta.columnMapping.mode").filter(|mode| !mode.eq_ignore_ascii_case("none")) {
        let what = format!("the table has the feature `columnMapping`, with `delta.columnMapping.mode` = `{mode}`, which is not supported");
        return Err(Error::invalid(what).hint("only `none` is: copy the rows into a table without it"));
    }
    let variants: Vec<&str> = listed(&protocol.reader_features).map(String::as_str).filter(|name| name.starts_with("variant")).collect();
    if !variants.is_empty()
        && let Some(column) = first_of_type(&parse(metadata)?, "variant")
    {
        let what = format!("the column `{column}` is a VARIANT, by the feature `{}`, which is not supported", variants.join("`, `"));
        return Err(Error::invalid(what).hint("use a table without it"));
    }
    if let Some(key) = metadata.configuration.keys().find(|key| key.starts_with("delta.coordinatedCommits.commitCoordinator")) {
        return Err(Error::invalid(format!("the table commits through a coordinator: `{key}` is set")).hint(THROUGH_CATALOG));
    }
    if let Some(to) = property("delta.redirectReaderWriter-preview") {
        let what = format!("the table is redirected to another one, by `delta.redirectReaderWriter-preview` = `{to}`");
        return Err(Error::invalid(what).hint("name the other table"));
    }
    Ok(())
}

/// Checks that rows can be read and added. Errors as of [`check_readable`]; `Data` too when the schema is damaged.
pub fn check_writable(protocol: &Protocol, metadata: &Metadata) -> Result<()> {
    check_readable(protocol, metadata)?;
    let unwritten = |name: &&String| feature(name).is_none_or(|f| matches!(f.standing, NotWritten | Refused));
    refuse(listed(&protocol.writer_features).filter(unwritten).map(String::as_str).collect(), "written")?;
    let schema = parse(metadata)?;
    check_unused(protocol, metadata, &schema)?;
    if let Some(column) = first_of_type(&schema, "timestamp_ntz").filter(|_| !has(protocol, "timestampNtz")) {
        let what = format!("the column `{column}` is of the type `timestamp_ntz`, and the table does not have the feature `timestampNtz`");
        return Err(
            Error::data(what).hint("add the feature: ALTER TABLE ... SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
        );
    }
    Ok(())
}

/// What must hold before files or log entries are deleted: who deletes must know every feature of readers and of writers.
pub fn vacuum_protocol_check(protocol: &Protocol, metadata: &Metadata) -> Result<()> {
    check_writable(protocol, metadata)
}

/// Does each commit carry an `inCommitTimestamp`?
pub fn ict_enabled(protocol: &Protocol, metadata: &Metadata) -> bool {
    let set = metadata.configuration.get("delta.enableInCommitTimestamps").is_some_and(|v| v.trim().eq_ignore_ascii_case("true"));
    set && has(protocol, "inCommitTimestamp")
}

/// The protocol of a new table, the lowest that its columns and options allow: the fewer features, the more readers. `needs_ntz`: a column
/// holds a TIMESTAMP without a zone, at any depth.
pub fn of_new(needs_ntz: bool, options: &RawOptions) -> Protocol {
    let mut features: BTreeSet<&str> = ["appendOnly", "invariants"].into();
    features.extend(needs_ntz.then_some("timestampNtz"));
    let on = |key: &str| options.get(key).is_some_and(|v| v.trim().eq_ignore_ascii_case("true"));
    features.extend(BY_PROPERTY.iter().filter(|(key, _)| on(key)).map(|(_, name)| *name));
    features.extend(options.keys().filter_map(|key| key.strip_prefix(FEATURE_KEY)).filter(|name| creatable(name)));
    let known: Vec<&Feature> = features.iter().filter_map(|name| feature(name)).collect();
    if let Some(versions) = known.iter().map(|f| f.legacy).collect::<Option<Vec<i32>>>() {
        let min_writer_version = versions.into_iter().max().unwrap_or(2);
        return Protocol { min_reader_version: 1, min_writer_version, ..Protocol::default() };
    }
    let names = |features: &mut dyn Iterator<Item = &&Feature>| features.map(|f| f.name.to_owned()).collect::<Vec<_>>();
    let reader = names(&mut known.iter().filter(|f| f.reader));
    Protocol {
        min_reader_version: if reader.is_empty() { 1 } else { READER },
        min_writer_version: WRITER,
        reader_features: (!reader.is_empty()).then_some(reader),
        writer_features: Some(names(&mut known.iter())),
    }
}

/// The columns by which the table is clustered, each as the path to it; empty: it is not. `Data`: the domain `delta.clustering` is damaged.
pub fn clustering_columns(domains: &BTreeMap<String, DomainMetadata>) -> Result<Vec<Vec<String>>> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Clustering {
        clustering_columns: Vec<Vec<String>>,
    }
    const DOMAIN: &str = "delta.clustering";
    match domains.get(DOMAIN) {
        Some(domain) if !domain.removed => {
            let clustering: Clustering = serde_json::from_str(&domain.configuration).map_err(|e| {
                let what = format!("the domain metadata `{DOMAIN}` is damaged");
                Error::data(what).because(e).hint("set it again: ALTER TABLE ... CLUSTER BY")
            })?;
            Ok(clustering.clustering_columns)
        }
        _ => Ok(Vec::new()),
    }
}

const THROUGH_CATALOG: &str =
    "its newest commits may lie elsewhere, and one written beside it would damage it: use the engine of that catalog";

/// `Invalid` when there are any; all of them are told at once.
fn refuse(names: BTreeSet<&str>, done: &str) -> Result<()> {
    let names: Vec<&str> = names.into_iter().collect();
    let hint = match names.as_slice() {
        [] => return Ok(()),
        names if names.iter().any(|name| CATALOG.contains(name)) => THROUGH_CATALOG.to_owned(),
        names if names.iter().all(|name| feature(name).is_none()) => {
            "it is newer than this program: look for a newer one, or use another table".to_owned()
        }
        ["checkpointProtection"] => "it stays for a day after a feature was dropped: drop it too, with TRUNCATE HISTORY".to_owned(),
        [first, ..] => format!("use another table, or drop it there: ALTER TABLE ... DROP FEATURE `{first}`"),
    };
    let what = match names.as_slice() {
        [one] => format!("the table has the feature `{one}` and cannot be {done}"),
        many => format!("the table has the features `{}` and cannot be {done}", many.join("`, `")),
    };
    Err(Error::invalid(what).hint(hint))
}

fn parse(metadata: &Metadata) -> Result<Value> {
    serde_json::from_str(&metadata.schema_string)
        .map_err(|e| Error::data("the table's `schemaString` is damaged").because(e).hint("restore the table; no engine can read it"))
}

fn listed(list: &Option<Vec<String>>) -> impl Iterator<Item = &String> {
    list.iter().flatten()
}

/// Do versions and lists fit together?
fn check_form(protocol: &Protocol) -> Result<()> {
    let (reader, writer) = (protocol.min_reader_version, protocol.min_writer_version);
    let damaged = |what: String| Err(Error::data(what).hint("no writer leaves a table like this; see who wrote its last `protocol`"));
    if reader < 1 || writer < 1 {
        return damaged(format!("the table's protocol has the versions {reader} (reader) and {writer} (writer)"));
    }
    if reader > READER || writer > WRITER {
        let what = format!("the table asks for reader version {reader} and writer version {writer}");
        return Err(Error::invalid(what).hint(format!("up to {READER} and {WRITER} are known: look for a newer version of this program")));
    }
    if reader == READER && writer != WRITER {
        return damaged(format!("the table's protocol has reader version {READER} without writer version {WRITER}"));
    }
    for (whose, version, last, list) in
        [("reader", reader, READER, &protocol.reader_features), ("writer", writer, WRITER, &protocol.writer_features)]
    {
        match list {
            None if version == last => {
                return damaged(format!("the table's protocol has {whose} version {last} without a list of features"));
            }
            // An empty list beside an old version is what some writers of checkpoints make of none.
            Some(list) if version < last && !list.is_empty() => {
                return damaged(format!("the table's protocol has a list of {whose} features beside {whose} version {version}"));
            }
            _ => {}
        }
    }
    let of_writers: BTreeSet<&String> = listed(&protocol.writer_features).collect();
    if let Some(name) = listed(&protocol.reader_features).find(|name| !of_writers.contains(name)) {
        return damaged(format!("the feature `{name}` is listed for readers and not for writers"));
    }
    let of_readers: BTreeSet<&String> = listed(&protocol.reader_features).collect();
    let missing = |name: &&&String| {
        let known = feature(name).filter(|f| f.reader && !of_readers.contains(*name));
        known.is_some_and(|f| reader == READER || !(f.legacy.is_some() && reader == 2))
    };
    match of_writers.iter().find(missing) {
        Some(name) => damaged(format!("the feature `{name}` is listed for writers and not for readers")),
        None => Ok(()),
    }
}

/// `Invalid` when the schema or a property uses what is supported only while it is not used. It does not matter whether the protocol lists
/// the feature: an engine that looks at the use alone would refuse our rows, or miss what it had to add to them.
fn check_unused(protocol: &Protocol, metadata: &Metadata, schema: &Value) -> Result<()> {
    let in_columns = [
        ("invariants", "delta.invariants", "rows would have to be checked against it"),
        ("generatedColumns", "delta.generationExpression", "its values would have to be made by that expression"),
        ("identityColumns", "delta.identity.", "its values would have to be counted"),
        ("allowColumnDefaults", "CURRENT_DEFAULT", "it would have to be filled in"),
    ];
    for (name, key, why) in in_columns {
        if let Some((column, key)) = first_with(schema, key) {
            let what = format!("the column `{column}` uses the feature `{name}`, by `{key}`, which is not supported: {why}");
            return Err(Error::invalid(what).hint("take it off the column, or use another table"));
        }
    }
    let constraint = metadata.configuration.keys().find(|key| key.to_ascii_lowercase().starts_with("delta.constraints."));
    if let Some(key) = constraint {
        let what =
            format!("the table uses the feature `checkConstraints`, by `{key}`, which is not supported: rows would have to be checked");
        return Err(Error::invalid(what).hint("drop the constraint and give the sink `checks`, or use another table"));
    }
    let on = |key: &str| metadata.configuration.get(key).is_some_and(|v| v.trim().eq_ignore_ascii_case("true"));
    if on("delta.enableRowTracking") || (has(protocol, "rowTracking") && !on("delta.rowTrackingSuspended")) {
        let what = "the table has the feature `rowTracking`, and new files would have to be numbered, which is not supported";
        return Err(
            Error::invalid(what).hint("suspend it, by `delta.enableRowTracking` = `false` and `delta.rowTrackingSuspended` = `true`")
        );
    }
    Ok(())
}

/// The first column, at any depth, whose metadata has a key that begins with `key`: its path, and the key.
fn first_with(schema: &Value, key: &str) -> Option<(String, String)> {
    walk(schema, &mut Vec::new(), &mut |path, part| {
        let metadata = part.get("metadata")?.as_object()?;
        metadata.keys().find(|k| k.starts_with(key)).map(|k| (path.join("."), k.clone()))
    })
}

/// The path of the first column that holds a type of this name, at any depth.
fn first_of_type(schema: &Value, name: &str) -> Option<String> {
    walk(schema, &mut Vec::new(), &mut |path, part| {
        let is = |key: &str| part.get(key).and_then(Value::as_str) == Some(name);
        ["type", "elementType", "keyType", "valueType"].into_iter().any(is).then(|| path.join("."))
    })
}

/// Visits each field of a struct and each type that is an object, parents first.
fn walk<T>(part: &Value, path: &mut Vec<String>, visit: &mut dyn FnMut(&[String], &Value) -> Option<T>) -> Option<T> {
    if let Some(found) = visit(path, part) {
        return Some(found);
    }
    for field in part.get("fields").and_then(Value::as_array).into_iter().flatten() {
        path.push(field.get("name").and_then(Value::as_str).unwrap_or_default().to_owned());
        let found = walk(field, path, visit);
        path.pop();
        if found.is_some() {
            return found;
        }
    }
    ["type", "elementType", "keyType", "valueType"].into_iter().find_map(|key| {
        let inner = part.get(key).filter(|inner| inner.is_object())?;
        walk(inner, path, visit)
    })
}

#[cfg(test)]
mod tests;
