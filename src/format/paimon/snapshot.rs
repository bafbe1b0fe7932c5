//! `snapshot/snapshot-N`: JSON. Its creation is the commit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What a snapshot did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitKind(pub String);

impl CommitKind {
    /// The kind of every snapshot that adds files.
    pub fn append() -> Self {
        CommitKind("APPEND".to_owned())
    }
}

/// A snapshot. Fields that are not here are not carried from one snapshot to the next and are ignored when read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the format")]
pub struct Snapshot {
    #[serde(default = "three")]
    pub version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    pub id: u64,
    pub schema_id: u64,
    pub base_manifest_list: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_manifest_list_size: Option<u64>,
    pub delta_manifest_list: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_manifest_list_size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changelog_manifest_list: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changelog_manifest_list_size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_manifest: Option<String>,
    pub commit_user: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_version: Option<String>,
    pub commit_identifier: i64,
    pub commit_kind: CommitKind,
    pub time_millis: i64,
    #[serde(default)]
    pub total_record_count: i64,
    #[serde(default)]
    pub delta_record_count: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changelog_record_count: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_row_id: Option<i64>,
}

/// Snapshots before table version 1 had no `version`.
fn three() -> u32 {
    Snapshot::VERSION
}

impl Snapshot {
    /// The version that is written and the newest that is understood.
    pub const VERSION: u32 = 3;

    /// The file's bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|e| Error::internal("a snapshot could not be encoded").because(e))
    }

    /// Reads the file `snapshot-<id>`. `Data` when it is none, is of a newer version or says that it has another id.
    pub fn decode(bytes: &[u8], id: u64) -> Result<Snapshot> {
        let snapshot = Self::decode_any(bytes)?;
        if snapshot.id != id {
            return Err(Error::data(format!("the snapshot file says that its id is {}", snapshot.id)).hint("put the right file back"));
        }
        Ok(snapshot)
    }

    /// Reads a snapshot whose id is in the file alone: a tag.
    pub fn decode_any(bytes: &[u8]) -> Result<Snapshot> {
        let snapshot: Snapshot =
            serde_json::from_slice(bytes).map_err(|e| Error::data("this is no snapshot file").because(e).hint(super::DAMAGED))?;
        if snapshot.version > Self::VERSION {
            let what = format!("the snapshot has version {}; this program understands up to {}", snapshot.version, Self::VERSION);
            return Err(Error::data(what).hint("use a newer lakeward"));
        }
        Ok(snapshot)
    }

    /// A property of this snapshot's commit.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.as_ref()?.get(name).map(String::as_str)
    }

    /// Names of its manifest lists: base, delta, changelog.
    pub fn lists(&self) -> impl Iterator<Item = &str> {
        [Some(&self.base_manifest_list), Some(&self.delta_manifest_list), self.changelog_manifest_list.as_ref()]
            .into_iter()
            .flatten()
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEIRS: &str = r#"{"version":3,"id":2,"schemaId":0,"baseManifestList":"manifest-list-36c2-0","deltaManifestList":"manifest-list-36c2-1",
        "totalRecordCount":3,"deltaRecordCount":1,"commitUser":"73dc","commitIdentifier":2,"commitKind":"APPEND","timeMillis":1795965571485,
        "baseManifestListSize":1337,"deltaManifestListSize":1337,"uuid":"2aae","writerVersion":"python-2.1.0","operation":"WRITE","logOffsets":{}}"#;

    #[test]
    fn snapshots_of_other_writers_are_read() {
        let s = Snapshot::decode(THEIRS.as_bytes(), 2).unwrap();
        assert_eq!((s.id, s.total_record_count, s.commit_user.as_str(), s.watermark), (2, 3, "73dc", None));
        assert_eq!(s.lists().collect::<Vec<_>>(), ["manifest-list-36c2-0", "manifest-list-36c2-1"]);
    }

    #[test]
    fn what_is_unset_is_left_out_and_the_rest_survives() {
        let s = Snapshot::decode(THEIRS.as_bytes(), 2).unwrap();
        let bytes = s.encode().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(json.get("watermark"), None);
        assert_eq!(json.get("properties"), None);
        assert_eq!(json["commitKind"], "APPEND");
        assert_eq!(Snapshot::decode(&bytes, 2).unwrap(), s);
    }

    #[test]
    fn another_id_a_newer_version_and_garbage_are_data() {
        for (text, id, what) in [
            (THEIRS.to_owned(), 3, "its id is 2"),
            (THEIRS.replace(r#""version":3"#, r#""version":4"#), 2, "version 4"),
            (THEIRS.replace("schemaId", "schemaIdd"), 2, "no snapshot file"),
            (String::new(), 2, "no snapshot file"),
        ] {
            let e = Snapshot::decode(text.as_bytes(), id).unwrap_err();
            assert_eq!(e.kind(), crate::Kind::Data);
            assert!(e.message().contains(what), "{e}");
        }
    }
}
