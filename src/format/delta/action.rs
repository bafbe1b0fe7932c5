//! The actions of a commit: one JSON object a line. Reading leaves out what it does not know, as the format asks of readers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// One action of a commit or a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Action {
    /// Who committed what; free in form. The first line of a commit, and in no checkpoint.
    CommitInfo(CommitInfo),
    /// Which features a reader and a writer must know.
    Protocol(Protocol),
    /// Schema, partition columns, properties: the whole of them.
    MetaData(Metadata),
    /// A file becomes live, or what is said of a live file is replaced.
    Add(Box<Add>),
    /// A file is live no more.
    Remove(Box<Remove>),
    /// The newest version of an application: what a commit user landed last.
    Txn(Txn),
    /// Something that a feature or a user keeps in the log.
    DomainMetadata(DomainMetadata),
    /// A file of the change data feed: concerns no reader of the table.
    Cdc(Map<String, Value>),
    /// In a v2 checkpoint: which version it is of.
    CheckpointMetadata(CheckpointMetadata),
    /// In a v2 checkpoint: a file with more of its actions.
    Sidecar(Sidecar),
}

/// See [`Action::CommitInfo`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitInfo {
    /// First, where readers of the feature `inCommitTimestamp` look for it: milliseconds since 1970-01-01 UTC, rising with the versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_commit_timestamp: Option<i64>,
    /// The committer's clock, milliseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// `STREAMING UPDATE`, `WRITE`, `CREATE TABLE`, ...
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Values are texts by the habit of all engines, but not always.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub operation_parameters: Map<String, Value>,
    /// Does it add without having read? Others' conflict checks ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_blind_append: Option<bool>,
    /// Name and version of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_info: Option<String>,
    /// Made once for each attempt: tells this commit from every other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub txn_id: Option<String>,
    /// The version that it was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_version: Option<i64>,
    /// Counts, as texts.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub operation_metrics: Map<String, Value>,
    /// Everything else, the properties of [`crate::format::property`] among it.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// See [`Action::Protocol`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    /// Least version of a reader.
    pub min_reader_version: i32,
    /// Least version of a writer.
    pub min_writer_version: i32,
    /// Only with reader version 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<Vec<String>>,
    /// Only with writer version 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<Vec<String>>,
}

/// See [`Action::MetaData`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Which table this is, for the whole of its life.
    pub id: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Always Parquet.
    #[serde(default)]
    pub format: FileFormat,
    /// The schema, JSON in a text. Empty: the table has no columns yet; Databricks begins some tables so.
    #[serde(default)]
    pub schema_string: String,
    /// Names of the partition columns, in order.
    #[serde(default)]
    pub partition_columns: Vec<String>,
    /// Table properties.
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    /// Milliseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
}

/// How data files are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFormat {
    /// `parquet`
    pub provider: String,
    /// None are known.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

impl Default for FileFormat {
    fn default() -> Self {
        FileFormat { provider: "parquet".to_owned(), options: BTreeMap::new() }
    }
}

/// See [`Action::Add`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// Under the table's root, URI-encoded.
    pub path: String,
    /// By column name; the value's text, null for null. A missing one is null.
    #[serde(default)]
    pub partition_values: BTreeMap<String, Option<String>>,
    /// Bytes.
    pub size: i64,
    /// Milliseconds since 1970-01-01 UTC.
    pub modification_time: i64,
    /// Does it change what the table holds? False for what compaction moves.
    pub data_change: bool,
    /// JSON in a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    /// Free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, Option<String>>>,
    /// Rows of the file that are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
    /// Of the feature `rowTracking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_row_id: Option<i64>,
    /// Of the feature `rowTracking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_row_commit_version: Option<i64>,
    /// Who clustered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clustering_provider: Option<String>,
}

/// See [`Action::Remove`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// As it was added.
    pub path: String,
    /// Milliseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<i64>,
    /// See [`Add::data_change`].
    #[serde(default)]
    pub data_change: bool,
    /// Are the next three there?
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_file_metadata: Option<bool>,
    /// See [`Add::partition_values`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_values: Option<BTreeMap<String, Option<String>>>,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// The one that it was added with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
    /// Of the feature `rowTracking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_row_id: Option<i64>,
    /// Of the feature `rowTracking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_row_commit_version: Option<i64>,
}

/// Which rows of a file are deleted: a bitmap in the action itself or in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionVector {
    /// `u`: a file under the table's root, by an encoded uuid; `p`: a file by its full location; `i`: here.
    pub storage_type: String,
    /// Encoded uuid, location, or the bitmap itself.
    pub path_or_inline_dv: String,
    /// Where in the file, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    /// Of the bitmap, bytes.
    pub size_in_bytes: i32,
    /// Deleted rows.
    pub cardinality: i64,
}

impl DeletionVector {
    /// What tells two of one file apart.
    pub fn unique_id(&self) -> String {
        let at = self.offset.map_or_else(String::new, |offset| format!("@{offset}"));
        format!("{}{}{at}", self.storage_type, self.path_or_inline_dv)
    }
}

/// See [`Action::Txn`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Txn {
    /// The commit user.
    pub app_id: String,
    /// Its newest identifier.
    pub version: i64,
    /// Milliseconds since 1970-01-01 UTC; engines forget it after the table's `delta.setTransactionRetentionDuration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<i64>,
}

/// See [`Action::DomainMetadata`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainMetadata {
    /// Its name; `delta.` begins those of the format.
    pub domain: String,
    /// Whatever its owner writes.
    #[serde(default)]
    pub configuration: String,
    /// Is it gone?
    #[serde(default)]
    pub removed: bool,
}

/// See [`Action::CheckpointMetadata`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointMetadata {
    /// The version that the checkpoint is of.
    pub version: i64,
}

/// See [`Action::Sidecar`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sidecar {
    /// A name under `_delta_log/_sidecars/`, or a full location.
    pub path: String,
    /// Bytes.
    pub size_in_bytes: i64,
    /// Milliseconds since 1970-01-01 UTC.
    pub modification_time: i64,
}

/// Reads the actions of a commit, in order; kinds that are not known are left out. `Data` by the line.
pub fn decode(bytes: &[u8]) -> Result<Vec<Action>> {
    let mut actions = Vec::new();
    for (number, line) in (1..).zip(bytes.split(|b| *b == b'\n')) {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let damaged = |e: serde_json::Error| {
            Error::data(format!("line {number} of the commit is damaged")).because(e).hint("restore the file; every engine needs it")
        };
        // The name first: a kind of tomorrow may have any form.
        let named: BTreeMap<String, &serde_json::value::RawValue> = serde_json::from_slice(line).map_err(damaged)?;
        if named.keys().any(|name| KINDS.contains(&name.as_str())) {
            actions.push(match serde_json::from_slice(line) {
                Err(_) if named.contains_key("commitInfo") => Action::CommitInfo(free(line).map_err(damaged)?),
                action => action.map_err(damaged)?,
            });
        }
    }
    Ok(actions)
}

/// A `commitInfo` in which something has another type than by habit: it is free in form, so that is left out.
fn free(line: &[u8]) -> serde_json::Result<CommitInfo> {
    let mut named: BTreeMap<String, Map<String, Value>> = serde_json::from_slice(line)?;
    let mut info = named.remove("commitInfo").unwrap_or_default();
    info.retain(|key, value| serde_json::from_value::<CommitInfo>(Map::from_iter([(key.clone(), value.clone())]).into()).is_ok());
    serde_json::from_value(info.into())
}

const KINDS: [&str; 10] =
    ["commitInfo", "protocol", "metaData", "add", "remove", "txn", "domainMetadata", "cdc", "checkpointMetadata", "sidecar"];

/// The bytes of a commit: one action a line.
pub fn encode<'a>(actions: impl IntoIterator<Item = &'a Action>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for action in actions {
        serde_json::to_writer(&mut bytes, action).map_err(|e| Error::internal("an action cannot be written").because(e))?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let actions = [
            Action::CommitInfo(CommitInfo {
                operation: Some("WRITE".into()),
                other: Map::from_iter([("x".into(), "y".into())]),
                ..Default::default()
            }),
            Action::Protocol(Protocol { min_reader_version: 1, min_writer_version: 2, ..Default::default() }),
            Action::Txn(Txn { app_id: "u".into(), version: i64::MAX, last_updated: Some(1) }),
            Action::Add(Box::new(Add { path: "a%20b".into(), partition_values: [("p".to_owned(), None)].into(), ..Default::default() })),
        ];
        let bytes = encode(&actions).unwrap();
        assert_eq!(decode(&bytes).unwrap(), actions);
        assert!(String::from_utf8(bytes).unwrap().contains(r#""minReaderVersion":1"#));
    }

    #[test]
    fn who_committed_may_be_told_in_any_form() {
        let told = br#"{"commitInfo":{"timestamp":"now","operation":"WRITE","operationParameters":null,"x":[1]}}"#;
        let other = Map::from_iter([("x".to_owned(), serde_json::json!([1]))]);
        let info = CommitInfo { operation: Some("WRITE".into()), other, ..Default::default() };
        assert_eq!(decode(told).unwrap(), [Action::CommitInfo(info)]);
    }

    #[test]
    fn a_kind_of_tomorrow_is_left_out_and_a_torn_line_is_not() {
        assert_eq!(decode(b"{\"tomorrow\":[1]}\n\n{\"txn\":{\"appId\":\"a\",\"version\":1,\"new\":2}}").unwrap().len(), 1);
        let torn = decode(b"{\"txn\":{\"appId\":\"a\",\"version\":1}}\n{\"txn\":{\"appId\"").unwrap_err();
        assert_eq!(torn.kind(), crate::Kind::Data);
        assert!(torn.to_string().contains("line 2"), "{torn}");
    }
}
