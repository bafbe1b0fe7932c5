//! A table as a sink.

use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::format::{Change, CommitMessage, CommitUser, Committable};
use crate::sink::{Anchor, CloseUser, ClosedAt, Message, Outcome, Sink, SinkCommit, SinkWriter};
use crate::table::commit::{Done, Loop, Request};
use crate::table::decide::Ask;
use crate::table::{Table, TableWrite};

/// A table as a sink.
pub struct TableSink {
    table: Table,
    timeout: Duration,
    memory: Option<usize>,
}

impl TableSink {
    /// A sink; `timeout` bounds each commit.
    pub fn new(table: Table, timeout: Duration) -> Self {
        TableSink { table, timeout, memory: None }
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

    fn run(&self) -> Loop<'_> {
        let store = self.table.store();
        Loop { log: self.table.log(), store, deadline: store.env().deadline(self.timeout) }
    }
    fn read(&self, messages: &[Message], user: &CommitUser) -> Result<Vec<CommitMessage>> {
        messages.iter().map(|m| read_message(m, user).map_err(|e| e.at(self.table.url()))).collect()
    }
}

/// The rows of a table on their way into files.
struct TableRows {
    write: TableWrite,
    url: String,
}

#[async_trait]
impl SinkWriter for TableRows {
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.write.write(batch).await.map_err(|e| if e.place().is_none() { e.at(&self.url) } else { e })
    }

    async fn prepare(&mut self) -> Result<Vec<Message>> {
        self.write.prepare_commit().await?.into_iter().map(|message| Message::new(&message)).collect()
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
    fn begin(&self, user: &CommitUser) -> Result<Box<dyn SinkWriter>> {
        let write = match self.memory {
            Some(bytes) => self.table.new_write_within(user, bytes)?,
            None => self.table.new_write(user)?,
        };
        Ok(Box::new(TableRows { write, url: self.table.url().to_owned() }))
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
