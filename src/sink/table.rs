//! A table as a sink.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::format::{Change, CommitMessage, CommitUser, Committable};
use crate::sink::{Anchor, CloseUser, ClosedAt, Message, Outcome, Sink, SinkCommit};
use crate::table::commit::{Done, Loop, Request};
use crate::table::decide::Ask;
use crate::table::{Table, TableWrite};

/// A table as a sink. Before [`Sink::begin`] it can only commit, close and look: that is what a start needs to finish a checkpoint.
pub struct TableSink {
    table: Table,
    /// Never locked: only `get_mut`. It makes the sink `Sync`, which a Parquet writer is not.
    write: Option<Mutex<TableWrite>>,
    timeout: Duration,
    memory: Option<usize>,
}

impl TableSink {
    /// A sink; `timeout` bounds each commit.
    pub fn new(table: Table, timeout: Duration) -> Self {
        TableSink { table, write: None, timeout, memory: None }
    }
    /// Gives its writer a memory budget in bytes.
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = Some(bytes);
        self
    }
    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    fn writer(&mut self) -> Result<&mut TableWrite> {
        let writer = self.write.as_mut().ok_or_else(|| Error::internal("a sink was written to before its lineage began"))?;
        Ok(writer.get_mut().unwrap_or_else(PoisonError::into_inner))
    }
    fn run(&self) -> Loop<'_> {
        let store = self.table.store();
        Loop { log: self.table.paimon(), store, deadline: store.env().deadline(self.timeout) }
    }
    fn read(&self, messages: &[Message], user: &CommitUser) -> Result<Vec<CommitMessage>> {
        messages.iter().map(|m| read_message(m, user).map_err(|e| e.at(self.table.url()))).collect()
    }
}

/// A message of any version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Versioned {
    version: serde_json::Value,
}

/// Reads a stored message: of a known version, of this user.
fn read_message(message: &Message, user: &CommitUser) -> Result<CommitMessage> {
    let version = message.read::<Versioned>()?.version.as_u64().unwrap_or(0);
    if version > u64::from(CommitMessage::VERSION) {
        return Err(Error::data(format!("a commit message has version {version}, this program reads up to {}", CommitMessage::VERSION))
            .hint("use the newer program that wrote it"));
    }
    let message: CommitMessage = message.read()?;
    if &message.user != user {
        return Err(Error::invalid(format!("a message of commit user {} cannot be committed by {user}", message.user)));
    }
    Ok(message)
}

/// What a commit of this sink asks of the table.
fn ask(commit: &SinkCommit) -> Ask {
    let (identifier, digest) = (commit.identifier, Some(commit.digest));
    match &commit.messages {
        None => Ask::Look,
        Some(messages) if messages.is_empty() => Ask::Empty { identifier, digest },
        Some(_) => Ask::Rows { identifier, digest },
    }
}

#[async_trait]
impl Sink for TableSink {
    fn begin(&mut self, user: &CommitUser) -> Result<()> {
        let write = match self.memory {
            Some(bytes) => self.table.new_write_within(user, bytes)?,
            None => self.table.new_write(user)?,
        };
        self.write = Some(Mutex::new(write));
        Ok(())
    }

    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let url = self.table.url().to_owned();
        self.writer()?.write(batch).await.map_err(|e| if e.place().is_none() { e.at(url) } else { e })
    }

    async fn prepare(&mut self) -> Result<Vec<Message>> {
        self.writer()?.prepare_commit().await?.into_iter().map(|message| Message::new(&message)).collect()
    }

    async fn commit(&mut self, commit: &SinkCommit) -> Result<Outcome> {
        let messages = self.read(commit.messages.as_deref().unwrap_or_default(), &commit.user)?;
        let committable = Committable {
            user: commit.user.clone(),
            identifier: commit.identifier,
            checkpoint: Some(commit.digest),
            watermark: commit.watermark,
            properties: commit.properties.clone(),
            messages,
        };
        let request = Request {
            user: &commit.user,
            floor: Some(&commit.floor),
            last: commit.last,
            ask: ask(commit),
            change: Some(Change::Append(committable)),
            resolve: commit.resolve,
            check_files: commit.replay,
            pending_files: Vec::new(),
        };
        let landed = |already, floor| Outcome { already, floor, last: Some(commit.identifier) };
        match self.run().run(&request).await? {
            Done::Landed(floor) => Ok(landed(false, floor)),
            Done::Already(floor) => Ok(landed(true, floor)),
            Done::Fine(moved) => Ok(Outcome { already: true, floor: moved.unwrap_or_else(|| commit.floor.clone()), last: commit.last }),
            Done::Closed(_) => Err(Error::internal("a commit ended as a close")),
        }
    }

    async fn close(&mut self, close: &CloseUser) -> Result<ClosedAt> {
        let pending = self.read(close.messages.as_deref().unwrap_or_default(), &close.user)?;
        let change = Change::Close { user: close.user.clone(), closed_at: None, properties: close.properties.clone() };
        let request = Request {
            user: &close.user,
            floor: Some(&close.floor),
            last: close.last,
            ask: Ask::Close { pending: close.pending },
            change: Some(change),
            resolve: close.resolve,
            check_files: false,
            pending_files: pending.iter().flat_map(|m| &m.files).map(|f| f.path.clone()).collect(),
        };
        match self.run().run(&request).await? {
            Done::Closed(at) => Ok(at),
            Done::Landed(_) | Done::Already(_) | Done::Fine(_) => Err(Error::internal("a close ended as a commit")),
        }
    }

    fn anchor(&self) -> &dyn Anchor {
        &self.table
    }
}
