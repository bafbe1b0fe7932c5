//! The narrow seam under the commit loop: [`SnapshotLog`] and its values. A format encodes and decodes its files; it decides nothing,
//! loops over nothing and retries nothing.

pub mod delta;
pub mod paimon;

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::error::Result;
use crate::schema::{Hex, Scalar, Schema, unhex};

/// Which table format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// Apache Paimon
    #[default]
    Paimon,
    /// Delta Lake
    Delta,
}

impl Format {
    /// The name, as in a pipeline file.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Paimon => "paimon",
            Format::Delta => "delta",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The identifier of end of input.
pub const END_OF_INPUT: i64 = i64::MAX;

/// Who commits: belongs to exactly one lineage of one pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitUser(String);

impl CommitUser {
    /// Wraps the text of a commit user.
    pub fn new(text: impl Into<String>) -> Self {
        CommitUser(text.into())
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CommitUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// SHA-256 of an object's bytes; 64 hexadecimal digits in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }
    /// Stands for the checkpoint of a snapshot that is there and names none.
    pub(crate) fn of_nothing() -> Self {
        Digest::of(b"")
    }
    /// Reads the hexadecimal form.
    pub fn parse(text: &str) -> Option<Self> {
        unhex(text)?.try_into().ok().map(Digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hex(&self.0), f)
    }
}
impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Hex(&self.0[..6]), f)
    }
}
impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        Digest::parse(&text).ok_or_else(|| serde::de::Error::custom("not a SHA-256 in hexadecimal"))
    }
}

/// Names of the properties that a chain's snapshots carry.
pub mod property {
    /// The pipeline.
    pub const PIPELINE: &str = "lakeward.pipeline";
    /// Uuid of the chain.
    pub const CHAIN: &str = "lakeward.chain";
    /// Where the chain lay.
    pub const CHAIN_LOCATION: &str = "lakeward.chain-location";
    /// Uuid of the run that published it.
    pub const RUN: &str = "lakeward.run";
    /// Seq of the checkpoint that ordered it.
    pub const SEQ: &str = "lakeward.seq";
    /// SHA-256 of that checkpoint object.
    pub const CHECKPOINT: &str = "lakeward.checkpoint";
    /// JSON object: split -> [first offset, first offset after], for each split that moved.
    pub const OFFSETS: &str = "lakeward.offsets";
    /// JSON object: split -> [[first offset, first offset after], ...]: parts of those ranges whose records were gone before they were read.
    pub const LOST: &str = "lakeward.lost";
    /// Commit user of the lineage before; only on a lineage's first snapshot.
    pub const PREDECESSOR: &str = "lakeward.predecessor";
    /// SHA-256 of the snapshot that this one was built on (`none` for the first), a space, and the name of its own delta list: an engine that
    /// copies properties does not copy that. It tells a snapshot in history from one of the same id that was created in a slot that expiry
    /// had emptied.
    pub const BASE: &str = "lakeward.base";
    /// Event-time watermark, milliseconds since 1970-01-01 UTC; where the format has no place of its own for it.
    pub const WATERMARK: &str = "lakeward.watermark";
    /// Only on a snapshot that closes a lineage: the last identifier that it had landed, or `none`.
    pub const CLOSED_AT: &str = "lakeward.closed-at";
}

/// One data file, as its writer knows it. Part of checkpoints, so its JSON is a format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataFile {
    /// Path under the table's root, `/` between segments, as it is on the store (partition values escaped).
    pub path: String,
    /// True size, bytes.
    pub size: u64,
    /// Rows.
    pub rows: u64,
    /// The schema under which it was written.
    pub schema_id: u64,
    /// When it was closed, milliseconds since 1970-01-01 UTC.
    pub created_ms: i64,
    /// Statistics of each column that has some, in schema order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<ColumnStats>,
}

/// Minimum, maximum and null count of one column of one file. `min` and `max` may be wider than the true ones (cut strings), never narrower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnStats {
    /// The column.
    pub column: String,
    /// Not above any value; `None`: unknown or all null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Scalar>,
    /// Not below any value; `None`: unknown or all null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Scalar>,
    /// How many rows are null.
    pub nulls: u64,
}

/// What one writer made for one partition and bucket. A serialisable value; its JSON is a format (see [`CommitMessage::VERSION`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommitMessage {
    /// [`CommitMessage::VERSION`] when written.
    pub version: u32,
    /// The writer's commit user; a message of another user is refused.
    pub user: CommitUser,
    /// Partition values in the order of the partition columns; empty for an unpartitioned table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition: Vec<Option<Scalar>>,
    /// The bucket; 0 for a table without buckets.
    pub bucket: i32,
    /// Buckets in all; -1 for a table without buckets.
    pub total_buckets: i32,
    /// New files.
    pub files: Vec<DataFile>,
}

impl CommitMessage {
    /// The version that this code writes and the greatest that it reads.
    pub const VERSION: u32 = 1;
}

/// What one commit adds: identifier, digest of its checkpoint, watermark, properties, messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Committable {
    /// The commit user.
    pub user: CommitUser,
    /// The identifier; rises within the user.
    pub identifier: i64,
    /// SHA-256 of the checkpoint object that orders this commit; none outside a chain.
    pub checkpoint: Option<Digest>,
    /// Event-time watermark, milliseconds since 1970-01-01 UTC.
    pub watermark: Option<i64>,
    /// Goes into the snapshot as it is.
    pub properties: BTreeMap<String, String>,
    /// Empty: an empty snapshot.
    pub messages: Vec<CommitMessage>,
}

impl Committable {
    /// Every new file.
    pub fn files(&self) -> impl Iterator<Item = &DataFile> {
        self.messages.iter().flat_map(|m| &m.files)
    }
}

/// At snapshot `id`, whose bytes have `sha256`, the newest identifier of the user is `last`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// The snapshot id; 0: the table has no snapshot yet.
    pub id: u64,
    /// Of the bytes of that snapshot; none when `id` is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    /// Which table this is: Paimon: SHA-256 of `schema/schema-0`; Delta: `metaData.id`.
    pub table: String,
}

/// The newest identifier that a user landed, as of one head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landed {
    /// Walked down to the floor and found nothing of the user above it: the answer is the floor's `last`.
    None,
    /// The table itself says that the user has landed nothing, whatever the floor says.
    Never,
    /// The newest snapshot of the user above the floor (or at it, when it was read); or, where the table keeps the newest identifier of
    /// every user, what it says, with the head as the snapshot where that holds.
    At {
        /// Its identifier.
        identifier: i64,
        /// The checkpoint's digest that it carries; none when it carries none.
        checkpoint: Option<Digest>,
        /// Its snapshot id.
        id: u64,
        /// SHA-256 of its bytes.
        sha256: Digest,
        /// Some for a closing snapshot: what the lineage had landed last (inner none: nothing).
        closed_at: Option<Option<i64>>,
    },
    /// History is missing between the head and the floor.
    Unknown(String),
    /// The table is not the one that the floor speaks of: head below the floor, other bytes at the floor, another table.
    Other(String),
}

/// One consistent read of a table's newest state.
#[derive(Clone, Debug)]
pub struct Head {
    /// Newest snapshot id; 0: none.
    pub id: u64,
    /// Of the bytes of that snapshot.
    pub sha256: Option<Digest>,
    /// Which table this is, see [`Floor::table`].
    pub table: String,
    /// The user's newest identifier as of `id`.
    pub landed: Landed,
    /// The newest schema.
    pub schema: std::sync::Arc<Schema>,
    /// When the head was read, monotonic time of this process.
    pub read_at: std::time::Duration,
    /// Newest snapshot of the table, the format's own bytes.
    pub snapshot: Option<Bytes>,
}

impl Head {
    /// The head as a floor.
    pub fn floor(&self) -> Floor {
        Floor { id: self.id, sha256: self.sha256, table: self.table.clone() }
    }
}

/// What to publish on top of a head.
#[derive(Clone, Debug)]
pub enum Change {
    /// Add files.
    Append(Committable),
    /// An empty snapshot of `user` with [`END_OF_INPUT`] and the property `closed_at`.
    Close {
        /// The lineage to close.
        user: CommitUser,
        /// What it landed last; none: nothing.
        closed_at: Option<i64>,
        /// Goes into the snapshot as it is.
        properties: BTreeMap<String, String>,
    },
}

/// The one object to publish next, and what stands behind it.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The snapshot id that it would have.
    pub id: u64,
    /// The object's name under the table's root.
    pub name: String,
    /// Its bytes; they hold a nonce, so no other attempt has the same.
    pub bytes: Bytes,
    /// Paths of the data files that it adds.
    pub files: Vec<String>,
}

impl Staged {
    /// SHA-256 of the bytes.
    pub fn sha256(&self) -> Digest {
        Digest::of(&self.bytes)
    }
}

/// Is a published snapshot in history?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Yes.
    In,
    /// It fell into an expired slot and was removed again; decide anew.
    Dead,
}

/// Work that a lost race leaves behind and the next `stage` may use again (uploaded manifests).
#[derive(Debug, Default)]
pub struct Work {
    /// What the format keeps; its own.
    pub(crate) paimon: Option<paimon::PaimonWork>,
}

/// Where the registration of a lineage lies in its table: of a pipeline, by the seq of the lineage's `open`.
pub fn registration(pipeline: &str, seq: u64) -> String {
    format!("{REGISTRATION_DIR}/{pipeline}/{seq:020}.json")
}

/// Where registrations lie in a table.
pub const REGISTRATION_DIR: &str = "_lakeward";

/// A table's log of snapshots. No loops, no retries, no decisions.
#[async_trait]
pub trait SnapshotLog: Send + Sync {
    /// One consistent read: newest id, newest schema, and the newest identifier of `user` as of that id. The walk goes from the newest id
    /// down to the floor's; `after` is an earlier head, from which what did not change may be taken.
    async fn head(&self, user: Option<&CommitUser>, floor: Option<&Floor>, after: Option<&Head>) -> Result<Head>;
    /// Checks `change` against `head`, writes objects that nothing references yet, returns the one object to publish next.
    /// `Conflict` or `Invalid`: it does not fit on this head, and never will.
    async fn stage(&self, head: &Head, change: &Change, work: &mut Work) -> Result<Staged>;
    /// After publish: is it in history? Then the hints, best effort.
    async fn confirm(&self, head: &Head, staged: &Staged) -> Result<Standing>;
    /// Is any of these data files live at `head`?
    async fn any_live(&self, head: &Head, paths: &[String]) -> Result<bool>;
    /// The object that is the snapshot `id`, under the table's root.
    fn object(&self, id: u64) -> String;
}
