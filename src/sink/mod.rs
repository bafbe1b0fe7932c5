//! Where rows go. A sink prepares (everything durable, nothing visible) and commits (everything visible, once).

pub mod conformance;
pub mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::format::{CommitUser, Digest, Floor};

/// What a sink prepared, as the chain stores it; only the sink that made it reads it. JSON text, because there may be thousands of them:
/// parsed they would need twenty times the memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Message(Arc<RawValue>);

impl Message {
    /// Of anything that is JSON; `Internal` when it is not.
    pub fn new(value: &impl Serialize) -> Result<Message> {
        let text = serde_json::value::to_raw_value(value);
        text.map(|text| Message(text.into())).map_err(|e| Error::internal("a commit message cannot be written").because(e))
    }
    /// What it is made of; `Data` when it is something else.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(self.0.get()).map_err(|e| Error::data("a commit message cannot be read").because(e))
    }
}

impl PartialEq for Message {
    /// Of the same text.
    fn eq(&self, other: &Message) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Message, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|text| Message(text.into()))
    }
}

/// One commit of one sink, as its checkpoint orders it.
#[derive(Clone, Debug)]
pub struct SinkCommit {
    /// The lineage's commit user.
    pub user: CommitUser,
    /// The checkpoint's identifier.
    pub identifier: i64,
    /// SHA-256 of the checkpoint object.
    pub digest: Digest,
    /// Where the walk for the user's newest identifier ends.
    pub floor: Floor,
    /// The user's newest identifier at `floor`.
    pub last: Option<i64>,
    /// None: nothing to commit, only look; empty: an empty snapshot.
    pub messages: Option<Vec<Message>>,
    /// Goes into the snapshot as it is.
    pub properties: BTreeMap<String, String>,
    /// Event-time watermark, milliseconds since 1970-01-01 UTC.
    pub watermark: Option<i64>,
    /// True when a start finishes a checkpoint of an earlier process: files must be there, and the answer is logged.
    pub replay: bool,
    /// `--resolve SINK=landed|lost`: a person's word for what history cannot tell any more.
    pub resolve: Option<Resolution>,
}

/// A person's word on a commit that history cannot tell any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// It landed.
    Landed,
    /// It did not.
    Lost,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// True: recognised, it had landed before.
    pub already: bool,
    /// Where the user's newest identifier is now known to be `last`.
    pub floor: Floor,
    /// That identifier.
    pub last: Option<i64>,
}

/// What a closed lineage had landed in a sink: its last identifier, none when nothing.
pub type ClosedAt = Option<i64>;

/// Left in each sink by each lineage, so that a lost or moved chain is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The pipeline.
    pub pipeline: String,
    /// Uuid of the chain (of its seq 0).
    pub chain: String,
    /// Where the chain lives.
    pub location: String,
    /// The sink's url, as the chain names it.
    pub sink: String,
    /// The lineage's commit user.
    pub user: CommitUser,
    /// Seq of the lineage's `open`.
    pub seq: u64,
}

/// Where rows go: what makes prepared rows visible. Rows are taken by the [`SinkWriter`] that [`Sink::begin`] gives. The two share nothing
/// but the store, so that the rows of the next checkpoint are written while this one is committed.
#[async_trait]
pub trait Sink: Send + Sync {
    /// A lineage begins to write: a writer of which everything that it prepares belongs to `user`.
    fn begin(&self, user: &CommitUser) -> Result<Box<dyn SinkWriter>>;
    /// Makes one checkpoint's messages visible, exactly once, or recognises that they are.
    async fn commit(&mut self, commit: &SinkCommit) -> Result<Outcome>;
    /// Ends a lineage: after this `user` lands nothing any more. What it had landed last.
    async fn close(&mut self, close: &CloseUser) -> Result<ClosedAt>;
    /// What the chain keeps in the sink.
    fn anchor(&self) -> &dyn Anchor;
}

/// Takes the rows of one lineage. It may be at work while the messages that it prepared before are committed.
#[async_trait]
pub trait SinkWriter: Send {
    /// Takes rows. They are in the sink's Arrow schema.
    async fn write(&mut self, batch: &RecordBatch) -> Result<()>;
    /// Makes everything written since the last `prepare` durable, and invisible. Empty when nothing was written.
    async fn prepare(&mut self) -> Result<Vec<Message>>;
}

/// Ends a lineage in one sink.
#[derive(Clone, Debug)]
pub struct CloseUser {
    /// The lineage's commit user.
    pub user: CommitUser,
    /// Where the walk ends.
    pub floor: Floor,
    /// The user's newest identifier at `floor`.
    pub last: Option<i64>,
    /// Identifier and digest of the checkpoint that was pending, when it had messages for this sink.
    pub pending: Option<(i64, Digest)>,
    /// Its messages, when they can still be read: they tell whether it landed when history cannot.
    pub messages: Option<Vec<Message>>,
    /// Goes into the closing snapshot as it is.
    pub properties: BTreeMap<String, String>,
    /// `--resolve`.
    pub resolve: Option<Resolution>,
}

/// What a chain leaves in a sink, so that neither can be lost, moved or expired without the other noticing.
#[async_trait]
pub trait Anchor: Send + Sync {
    /// The sink's absolute url.
    fn url(&self) -> &str;
    /// `paimon`, `delta`, ...
    fn format(&self) -> &str;
    /// The newest state, as a floor.
    async fn head(&self) -> Result<Floor>;
    /// Writes the registration unless it is there; `Data` when a different one is.
    async fn register(&self, registration: &Registration) -> Result<()>;
    /// Every registration of a pipeline.
    async fn registrations(&self, pipeline: &str) -> Result<Vec<Registration>>;
    /// Removes every registration of a pipeline (`--forget`, `--adopt`).
    async fn forget(&self, pipeline: &str) -> Result<()>;
    /// Keeps `snapshot` and everything above from being expired, on behalf of `user`.
    async fn pin(&self, user: &CommitUser, snapshot: u64) -> Result<()>;
    /// Takes away the pins of a pipeline's lineages that were opened by a checkpoint below `before`. Those of later ones stay: the caller
    /// may be the older of two processes.
    async fn unpin(&self, pipeline: &str, before: u64) -> Result<()>;
}
