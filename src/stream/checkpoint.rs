//! The checkpoint: one create-only JSON object that decides offsets, files and identifier together. `spec/checkpoint.md` has the bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::{CommitUser, Digest, END_OF_INPUT, Floor};
use crate::sink::{ClosedAt, Message, Resolution};
use crate::source::Offsets;
use crate::stream::chain::identifier_of;

/// The version of a checkpoint whose offsets name every split.
pub const VERSION: u32 = 1;
/// The version of one that keeps finished splits elsewhere, which older programs must not take for none; the greatest that this code reads.
pub const NEWEST: u32 = 2;

/// A checkpoint of a pipeline. Never changed once written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// [`VERSION`] or [`NEWEST`] when written.
    pub version: u32,
    /// The pipeline.
    pub pipeline: String,
    /// Uuid of the chain, made by seq 0.
    pub chain: String,
    /// Position in the chain.
    pub seq: u64,
    /// Made once per attempt, so that the same bytes mean the same attempt.
    pub nonce: String,
    /// Who wrote it.
    pub writer: Writer,
    /// The checkpoint before it; none for seq 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Link>,
    /// What it is.
    pub kind: CheckpointKind,
    /// The lineage's commit user.
    pub user: CommitUser,
    /// Seq of the lineage's `open`.
    pub opened: u64,
    /// The identifier under which its messages land: seq, or `i64::MAX` for `end`.
    pub identifier: i64,
    /// Where the source stood: everything below is in this or an earlier checkpoint.
    pub offsets: Offsets,
    /// Where the source ends; none: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Offsets>,
    /// What the pipeline's `start:` said when the lineage began.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub start: String,
    /// What the pipeline's `stop:` said when `stop` was resolved; empty where there is no choice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub until: String,
    /// An `open` that goes back: to what, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<From>,
    /// An `open` that goes back: the lineage that it closes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub close: Option<Close>,
    /// A person's words by which its parent was finished.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved: BTreeMap<String, Resolution>,
    /// The sinks, by url.
    pub sinks: BTreeMap<String, SinkEntry>,
}

/// What a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointKind {
    /// Begins a lineage.
    Open,
    /// Goes on; without messages it is idle.
    Data,
    /// End of input.
    End,
    /// End of input landed everywhere.
    Closed,
}

/// Who wrote a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// When the process started its run, milliseconds since 1970-01-01 UTC.
    pub started: i64,
    /// Uuid of the run.
    pub run: String,
}

/// Names a checkpoint by position and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its seq.
    pub seq: u64,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
}

/// Where an `open` goes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct From {
    /// The checkpoint to go back to (rewind), or to give up (abandon).
    #[serde(flatten)]
    pub link: Link,
    /// Which of the two.
    pub mode: FromMode,
}

/// How an `open` goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromMode {
    /// Rows after the checkpoint are read and written again.
    Rewind,
    /// The pending checkpoint is given up; what of it landed is not written again.
    Abandon,
}

/// The lineage that a rewind or abandon closes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Close {
    /// Its commit user.
    pub user: CommitUser,
    /// Its sinks, by url.
    pub sinks: BTreeMap<String, CloseEntry>,
}

/// A sink of the lineage to be closed: the old lineage's facts, copied from the parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloseEntry {
    /// `paimon`, ...
    pub format: String,
    /// See [`SinkEntry::floor`].
    pub floor: Floor,
    /// See [`SinkEntry::last`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<i64>,
    /// The parent's identifier, when it had messages for this sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identifier: Option<i64>,
    /// The parent's digest.
    pub digest: Digest,
    /// The parent's offsets.
    pub offsets: Offsets,
    /// See [`SinkEntry::since`].
    pub since: Offsets,
    /// The sink's covered offsets before the parent's messages.
    pub covered: Offsets,
}

/// What a sink is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Rows.
    Sink,
    /// Records that became no rows.
    DeadLetter,
}

/// One sink in a checkpoint. `floor` and `last` are one statement: at that snapshot the newest identifier of the user is `last`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SinkEntry {
    /// What it is for.
    pub role: Role,
    /// `paimon`, ...
    pub format: String,
    /// Where the walk for the user's newest identifier ends.
    pub floor: Floor,
    /// The newest identifier at the floor; none: the user has landed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<i64>,
    /// Where the range of its next snapshot begins.
    pub since: Offsets,
    /// Everything below is settled in this sink; none: the checkpoint's offsets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered: Option<Offsets>,
    /// Event-time watermark, milliseconds since 1970-01-01 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<i64>,
    /// When `floor` was read, milliseconds since 1970-01-01 UTC; only tells how old it is.
    pub floor_read: i64,
    /// What closed the lineage before this one here, when this lineage has landed nothing yet: its commit user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<CommitUser>,
    /// None: nothing to commit; empty: an empty snapshot; else the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Message>>,
}

impl Checkpoint {
    /// The object's bytes.
    pub fn to_bytes(&self) -> Result<Bytes> {
        let mut text = serde_json::to_vec(self).map_err(|e| Error::internal("a checkpoint cannot be written").because(e))?;
        text.push(b'\n');
        Ok(Bytes::from(text))
    }

    /// Reads an object: of this pipeline, of this seq, of a known version.
    pub fn from_bytes(bytes: &[u8], pipeline: &str, seq: u64) -> Result<Checkpoint> {
        let unreadable = || "an older checkpoint is no substitute: rows after it would be doubled. Restore the object, or --rewind";
        let wrong = |e| Error::data("the checkpoint cannot be read").because(e).hint(unreadable());
        // First only the version: what else a newer one has is not known.
        let Versioned { version } = serde_json::from_slice(bytes).map_err(wrong)?;
        let version = version.as_ref().and_then(serde_json::Value::as_u64);
        if version.is_some_and(|v| v > u64::from(NEWEST)) {
            return Err(Error::data(format!("the checkpoint has version {}, this program reads up to {NEWEST}", version.unwrap_or(0)))
                .hint("use the newer program that wrote it"));
        }
        let checkpoint: Checkpoint = serde_json::from_slice(bytes).map_err(wrong)?;
        if checkpoint.pipeline != pipeline {
            return Err(Error::data(format!("the checkpoint belongs to pipeline `{}`, not to `{pipeline}`", checkpoint.pipeline))
                .hint("give each pipeline its own name"));
        }
        if checkpoint.seq != seq {
            return Err(Error::data(format!("the checkpoint says that it is seq {}, its name says {seq}", checkpoint.seq)));
        }
        // Also bounds `seq`: there is always a next one.
        if checkpoint.identifier != identifier_of(checkpoint.kind, seq) || seq >= END_OF_INPUT.unsigned_abs() - 1 || checkpoint.opened > seq
        {
            let what = format!("checkpoint {seq} has identifier {} and was opened by {}", checkpoint.identifier, checkpoint.opened);
            return Err(Error::data(what).hint(unreadable()));
        }
        Ok(checkpoint)
    }

    /// All offsets that it holds.
    pub(crate) fn all_offsets(&mut self) -> Vec<&mut Offsets> {
        let mut all = vec![&mut self.offsets];
        all.extend(&mut self.stop);
        for sink in self.sinks.values_mut() {
            all.push(&mut sink.since);
            all.extend(&mut sink.covered);
        }
        for sink in self.close.iter_mut().flat_map(|close| close.sinks.values_mut()) {
            all.extend([&mut sink.offsets, &mut sink.since, &mut sink.covered]);
        }
        all
    }

    /// Does any sink have messages?
    pub fn has_messages(&self) -> bool {
        self.sinks.values().any(|s| s.messages.is_some())
    }
    /// What is settled in a sink.
    pub fn covered<'a>(&'a self, sink: &'a SinkEntry) -> &'a Offsets {
        sink.covered.as_ref().unwrap_or(&self.offsets)
    }
    /// What is settled in a sink once this checkpoint is finished there.
    pub fn settled(&self, sink: &SinkEntry) -> Offsets {
        match sink.messages {
            Some(_) => self.covered(sink).max(&self.offsets),
            None => self.covered(sink).clone(),
        }
    }
    /// Rows in the messages of one sink.
    pub fn rows(sink: &SinkEntry) -> u64 {
        sum_over_files(sink, |file| file.rows)
    }
    /// Files in the messages of one sink.
    pub fn files(sink: &SinkEntry) -> u64 {
        sum_over_files(sink, |_| 1)
    }
    /// Bytes of the files in the messages of one sink.
    pub fn bytes(sink: &SinkEntry) -> u64 {
        sum_over_files(sink, |file| file.size)
    }
}

/// Of any version.
#[derive(Deserialize)]
struct Versioned {
    version: Option<serde_json::Value>,
}

/// What the messages of table sinks have in common.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Files {
    files: Vec<FileCounts>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FileCounts {
    rows: u64,
    size: u64,
}

fn sum_over_files(sink: &SinkEntry, of: fn(&FileCounts) -> u64) -> u64 {
    let files = sink.messages.iter().flatten().flat_map(|m| m.read::<Files>().unwrap_or_default().files);
    files.map(|file| of(&file)).fold(0, u64::saturating_add)
}

/// What was learned by closing a lineage in its sinks.
pub type ClosedSinks = BTreeMap<String, ClosedAt>;
