//! What a change comes to: the one commit object to publish next.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::format::delta::action::{self, Action, Add, CommitInfo, Txn};
use crate::format::delta::names;
use crate::format::delta::partition::{self, DeltaLayout};
use crate::format::delta::{protocol, refit, stats};
use crate::format::{Change, CommitMessage, CommitUser, DataFile, END_OF_INPUT, Head, Staged, property};
use crate::schema::Schema;

use super::{DeltaLog, DeltaState, closed_at};

/// The name under which others see this program.
pub(super) const ENGINE: &str = concat!("lakeward/", env!("CARGO_PKG_VERSION"));

/// What both kinds of change come to.
struct Plan<'a> {
    user: &'a CommitUser,
    identifier: i64,
    closed_at: Option<Option<i64>>,
    properties: BTreeMap<String, String>,
    messages: &'a [CommitMessage],
}

impl<'a> Plan<'a> {
    fn of(change: &'a Change) -> Plan<'a> {
        match change {
            Change::Append(c) => {
                let mut properties = c.properties.clone();
                if let Some(digest) = c.checkpoint {
                    properties.insert(property::CHECKPOINT.to_owned(), digest.to_string());
                }
                if let Some(watermark) = c.watermark {
                    properties.insert(property::WATERMARK.to_owned(), watermark.to_string());
                }
                Plan { user: &c.user, identifier: c.identifier, closed_at: None, properties, messages: &c.messages }
            }
            Change::Close { user, closed_at, properties } => {
                let mut properties = properties.clone();
                properties.insert(property::CLOSED_AT.to_owned(), closed_at.map_or_else(|| "none".to_owned(), |id| id.to_string()));
                Plan { user, identifier: END_OF_INPUT, closed_at: Some(*closed_at), properties, messages: &[] }
            }
        }
    }
}

impl DeltaLog {
    pub(super) async fn stage_change(&self, head: &Head, change: &Change) -> Result<Staged> {
        let state = self.current();
        if state.log.metadata.id != head.table {
            return Err(Error::data("the table was recreated while it was written to").at(self.store.url()).hint("start again"));
        }
        // Somebody may have changed protocol or columns since the table was opened.
        state.check_writable().map_err(|e| super::at_table(e, &self.store))?;
        let plan = Plan::of(change);
        let adds = self.adds(&state, &plan).await?;
        let now = self.store.env().now_ms();
        let txn = |app_id: String, version| Action::Txn(Txn { app_id, version, last_updated: Some(now) });
        let mut actions = vec![Action::CommitInfo(self.info(&state, head, &plan, &adds, now))];
        actions.push(txn(plan.user.to_string(), plan.identifier));
        if let Some(at) = plan.closed_at {
            actions.push(txn(closed_at(plan.user), at.unwrap_or(-1)));
        }
        actions.extend(adds.into_iter().map(|add| Action::Add(Box::new(add))));
        let bytes = Bytes::from(action::encode(&actions)?);
        let files = plan.messages.iter().flat_map(|m| &m.files).map(|f| f.path.clone()).collect();
        let id = head.id + 1;
        Ok(Staged { id, name: names::commit(id), bytes, files })
    }

    fn info(&self, state: &DeltaState, head: &Head, plan: &Plan<'_>, adds: &[Add], now: i64) -> CommitInfo {
        let texts = |all: &[(&str, String)]| all.iter().map(|(k, v)| ((*k).to_owned(), Value::from(v.as_str()))).collect::<Map<_, _>>();
        let files = plan.messages.iter().flat_map(|m| &m.files);
        let (rows, bytes) = files.fold((0u64, 0u64), |(rows, bytes), f| (rows + f.rows, bytes + f.size));
        let parameters =
            [("outputMode", "Append".to_owned()), ("queryId", plan.user.to_string()), ("epochId", plan.identifier.to_string())];
        let metrics = [
            ("numAddedFiles", adds.len().to_string()),
            ("numRemovedFiles", "0".to_owned()),
            ("numOutputRows", rows.to_string()),
            ("numOutputBytes", bytes.to_string()),
        ];
        // Rising with the versions, whatever the clocks say.
        let in_commit = protocol::ict_enabled(&state.log.protocol, &state.log.metadata)
            .then(|| state.log.info.in_commit_timestamp.map_or(now, |before| now.max(before.saturating_add(1))));
        CommitInfo {
            in_commit_timestamp: in_commit,
            timestamp: Some(in_commit.unwrap_or(now)),
            operation: Some("STREAMING UPDATE".to_owned()),
            operation_parameters: texts(&parameters),
            is_blind_append: Some(true),
            engine_info: Some(ENGINE.to_owned()),
            txn_id: Some(self.store.env().uuid().to_string()),
            read_version: i64::try_from(head.id).ok(),
            operation_metrics: texts(&metrics),
            other: plan.properties.iter().map(|(k, v)| (k.clone(), Value::from(v.as_str()))).collect(),
        }
    }

    /// Checks every message and makes its actions.
    async fn adds(&self, state: &DeltaState, plan: &Plan<'_>) -> Result<Vec<Add>> {
        let schema = &state.schema.schema;
        let layout = DeltaLayout::new(schema, state.options.compression);
        let mut seen = HashSet::new();
        let mut adds = Vec::new();
        for message in plan.messages {
            check_message(message, plan.user, schema)?;
            let values = partition::values(schema, &message.partition)?;
            let dir = layout.directory(&message.partition)?;
            for file in &message.files {
                if file.path.strip_prefix(&dir).is_none_or(|name| name.is_empty() || name.contains('/')) {
                    let at = if dir.is_empty() { "the table's own directory" } else { &dir };
                    return Err(Error::invalid(format!("the file {} does not lie in {at}, where its partition belongs", file.path))
                        .hint("the table's partition columns differ from those that the file was written under"));
                }
                if !seen.insert(&file.path) {
                    return Err(Error::invalid(format!("the file {} is committed twice", file.path)).hint("commit each message once"));
                }
                if file.schema_id != schema.id {
                    // The columns were changed after it was written: does it still hold what they say?
                    refit::fits(&self.store, file, schema, protocol::has(&state.log.protocol, "typeWidening")).await?;
                }
                adds.push(add(file, schema, values.clone())?);
            }
        }
        Ok(adds)
    }
}

fn add(file: &DataFile, schema: &Schema, partition_values: BTreeMap<String, Option<String>>) -> Result<Add> {
    Ok(Add {
        path: partition::uri_encode(&file.path),
        partition_values,
        size: i64::try_from(file.size).map_err(|_| Error::invalid(format!("the file {} has {} bytes", file.path, file.size)))?,
        modification_time: file.created_ms,
        data_change: true,
        stats: Some(stats::encode(schema, file.rows, &file.stats)?),
        ..Add::default()
    })
}

fn check_message(message: &CommitMessage, user: &CommitUser, schema: &Schema) -> Result<()> {
    if message.version == 0 || message.version > CommitMessage::VERSION {
        let what = format!("a commit message has version {}; this program understands up to {}", message.version, CommitMessage::VERSION);
        return Err(Error::invalid(what).hint("use a newer lakeward"));
    }
    if message.user != *user {
        return Err(Error::invalid(format!("a commit message is of user {}, but {user} commits", message.user))
            .hint("commit what a writer of the same user made"));
    }
    if (message.bucket, message.total_buckets) != (0, -1) {
        return Err(Error::invalid("a commit message is for a bucket, and a Delta table has none").hint("was it made for another table?"));
    }
    if message.partition.len() != schema.partition_by.len() {
        let what =
            format!("a commit message has {} partition values, the table {} columns", message.partition.len(), schema.partition_by.len());
        return Err(Error::invalid(what).hint("the table's partition columns differ from those that the rows were written under"));
    }
    Ok(())
}
