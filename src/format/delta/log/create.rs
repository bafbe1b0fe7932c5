//! A new table: its version 0.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::env::Deadline;
use crate::error::{Error, Result};
use crate::format::REGISTRATION_DIR;
use crate::format::delta::action::{self, Action, CommitInfo, Metadata};
use crate::format::delta::options::DeltaOptions;
use crate::format::delta::{names, protocol, schema};
use crate::publish::{Publication, publish};
use crate::schema::Schema;
use crate::store::Store;

use super::DeltaLog;
use super::stage::ENGINE;

/// `Invalid` when no table can be made of it.
pub(crate) fn check_new(columns: &Schema, options: &BTreeMap<String, String>) -> Result<()> {
    schema::canonical(columns)?;
    DeltaOptions::check_new(options)?;
    DeltaOptions::parse(options)?.check_writable()
}

impl DeltaLog {
    /// Creates a table. `Conflict` when there is one already. `Invalid`: columns or options are not supported, or the directory holds
    /// something else.
    pub async fn create(store: &Store, columns: &Schema, options: &BTreeMap<String, String>, deadline: Deadline) -> Result<DeltaLog> {
        check_new(columns, options).map_err(|e| super::at_table(e, store))?;
        let exists = || Error::conflict("the table exists already").at(store.url()).hint("open it");
        let name = names::commit(0);
        if Self::find(store).await?.is_some() {
            return Err(exists());
        }
        if let Some(entry) = store.list_all("").await?.into_iter().find(|e| !ours_before_creation(&e.name)) {
            // Somebody may have created the table and written to it since it was looked for.
            if store.size(&name).await?.is_some() {
                return Err(exists());
            }
            let what = format!("the directory is no table but is not empty: it holds {}", entry.name);
            return Err(Error::invalid(what).at(store.url()).hint("create the table in a directory of its own"));
        }
        let bytes = Bytes::from(action::encode(&first(store, &schema::canonical(columns)?, options)?)?);
        match publish(store, &name, bytes, deadline).await? {
            Publication::Published => Self::open(store).await,
            Publication::Taken(_) => Err(exists()),
        }
    }
}

fn first(store: &Store, columns: &Schema, options: &BTreeMap<String, String>) -> Result<[Action; 3]> {
    let env = store.env();
    let now = env.now_ms();
    let configuration = DeltaOptions::configuration_of_new(options);
    let metadata = Metadata {
        id: env.uuid().to_string(),
        schema_string: schema::encode(columns)?,
        partition_columns: columns.partition_by.clone(),
        created_time: Some(now),
        configuration,
        ..Metadata::default()
    };
    // Values are texts, those that are lists or objects too: so do all engines.
    let mut parameters = Map::new();
    parameters.insert("isManaged".to_owned(), "false".into());
    parameters.insert("partitionBy".to_owned(), Value::from(serde_json::json!(metadata.partition_columns).to_string()));
    parameters.insert("properties".to_owned(), Value::from(serde_json::json!(metadata.configuration).to_string()));
    let protocol = protocol::of_new(schema::needs_timestamp_ntz(columns), options);
    let info = CommitInfo {
        in_commit_timestamp: protocol::ict_enabled(&protocol, &metadata).then_some(now),
        timestamp: Some(now),
        operation: Some("CREATE TABLE".to_owned()),
        operation_parameters: parameters,
        is_blind_append: Some(true),
        engine_info: Some(ENGINE.to_owned()),
        txn_id: Some(env.uuid().to_string()),
        ..CommitInfo::default()
    };
    Ok([Action::CommitInfo(info), Action::Protocol(protocol), Action::MetaData(metadata)])
}

/// What may lie in a table's directory before its first commit: registrations, and the commit of somebody who was faster.
fn ours_before_creation(name: &str) -> bool {
    [REGISTRATION_DIR, names::LOG_DIR].iter().any(|d| name.strip_prefix(d).is_some_and(|rest| rest.starts_with('/')))
}
