//! Checkpoints: do they say what the commits come to?

use std::collections::HashMap;

use super::{Live, State, Walk};
use crate::error::{Kind, Result};
use crate::format::delta::action::{Add, Metadata, Protocol};
use crate::format::delta::checkpoint::{Checkpoint, read};
use crate::format::delta::names::LOG_DIR;
use crate::format::delta::replay::FileKey;
use crate::format::delta::{deletion, partition};
use crate::maintain::finding::{Check, Findings};
use crate::maintain::size;

/// Without it a checkpoint need not keep transactions.
const RETENTION: &str = "delta.setTransactionRetentionDuration";

/// What a checkpoint says.
struct Content {
    frame: read::Frame,
    adds: HashMap<FileKey, Add>,
    /// Files that it holds twice.
    doubled: Vec<String>,
}

impl Walk<'_> {
    /// Compares a checkpoint with what the commits come to, or goes on from it.
    pub(super) async fn checkpoint(&mut self, checkpoint: &Checkpoint, findings: &mut Findings) -> Result<()> {
        let version = checkpoint.version;
        let at = checkpoint.files.first().map_or_else(String::new, |(name, _)| format!("{LOG_DIR}/{name}"));
        let content = match self.content(checkpoint).await {
            Ok(content) => content,
            Err(e) if !matches!(e.kind(), Kind::Data | Kind::Invalid) => return Err(e),
            Err(e) => {
                for (name, _) in &checkpoint.files {
                    if size(self.store, &format!("{LOG_DIR}/{name}")).await?.is_none() {
                        // Cleaned up. What is needed of it, a newer one has.
                        self.changed = true;
                        return Ok(());
                    }
                }
                findings.look(Check::Checkpoints, 1);
                findings.find(Check::Checkpoints, at, Some(version), format!("{}: engines that begin with it fail", e.message()));
                return Ok(());
            }
        };
        findings.look(Check::Checkpoints, 1);
        for path in content.adds.values().map(|add| &add.path) {
            self.named.extend(partition::uri_decode(path).ok());
        }
        self.named.extend(content.adds.values().filter_map(|add| deletion::file(add.deletion_vector.as_ref()?)));
        let mut wrong = |what: String| findings.find(Check::Checkpoints, &at, Some(version), what);
        if let Some(first) = content.doubled.first() {
            wrong(format!("it holds {} files twice, among them {first}: readers see their rows twice", content.doubled.len()));
        }
        match &mut self.state {
            Some(state) => compare(state, content, &mut wrong),
            None => {
                let Content { frame, adds, .. } = content;
                let mut state = State::of(version, frame.protocol, frame.metadata, false);
                state.txns = frame.txns.into_iter().map(|txn| (txn.app_id.clone(), txn)).collect();
                state.domains = frame.domains.into_iter().filter(|d| !d.removed).map(|d| (d.domain.clone(), d)).collect();
                state.live = adds.into_iter().map(|(key, add)| (key, Live { add, other_stats: Vec::new(), since: version })).collect();
                self.understand(&state, &at, findings);
                self.state = Some(state);
            }
        }
        Ok(())
    }

    async fn content(&self, checkpoint: &Checkpoint) -> Result<Content> {
        let frame = read::frame(self.store, checkpoint).await?;
        let (mut adds, mut doubled) = (HashMap::new(), Vec::new());
        read::adds(self.store, checkpoint, |add| {
            let key = (add.path.clone(), add.deletion_vector.as_ref().map(|v| v.unique_id()));
            if let Some(before) = adds.insert(key, add) {
                doubled.push(before.path);
            }
        })
        .await?;
        Ok(Content { frame, adds, doubled })
    }
}

/// Everything must be in it that the commits come to, and nothing else.
fn compare(state: &mut State, content: Content, wrong: &mut dyn FnMut(String)) {
    let Content { frame, adds, .. } = content;
    if !same_protocol(&frame.protocol, &state.protocol) {
        wrong("its `protocol` is not that of the commits: engines take the table for another kind".to_owned());
    }
    if !same_metadata(&frame.metadata, &state.metadata) {
        wrong("its `metaData` is not that of the commits: engines see other columns or properties".to_owned());
    }
    let first = |mut paths: Vec<&str>| {
        paths.sort_unstable();
        (paths.len(), paths.first().map_or_else(String::new, |path| (*path).to_owned()))
    };
    let (lacks, one) = first(state.live.keys().filter(|key| !adds.contains_key(*key)).map(|key| key.0.as_str()).collect());
    if lacks > 0 {
        wrong(format!("it lacks {lacks} files that are live by then, among them {one}: readers lose their rows"));
    }
    let (strays, one) = first(adds.keys().filter(|key| !state.live.contains_key(*key)).map(|key| key.0.as_str()).collect());
    if strays > 0 {
        wrong(format!("it holds {strays} files that are not live by then, among them {one}: readers see rows that are gone"));
    }
    for (key, add) in adds {
        let Some(live) = state.live.get_mut(&key) else { continue };
        if live.add.size != add.size || values(&live.add) != values(&add) {
            wrong(format!("what it says of the file {} (size, partition) is not what its commit says", add.path));
        }
        if let Some(stats) = add.stats.filter(|stats| live.add.stats.as_ref() != Some(stats)) {
            live.other_stats.push(stats);
        }
    }
    let expires = state.metadata.configuration.contains_key(RETENTION);
    for (app, txn) in &state.txns {
        match frame.txns.iter().find(|t| t.app_id == *app) {
            None if expires && txn.last_updated.is_some() => {}
            None => wrong(format!("it lacks the transaction of {app}: a writer that goes on from it writes again what has landed")),
            Some(t) if t.version != txn.version => {
                wrong(format!("its transaction of {app} is {}, and by its commits {}", t.version, txn.version));
            }
            Some(_) => {}
        }
    }
    if let Some(stray) = frame.txns.iter().find(|t| state.whole && !state.txns.contains_key(&t.app_id)) {
        wrong(format!("it has a transaction of {}, which no commit has", stray.app_id));
    }
    for (name, domain) in &state.domains {
        if !frame.domains.iter().any(|d| d.domain == *name && !d.removed && d.configuration == domain.configuration) {
            wrong(format!("it lacks the domain {name}, or has another configuration of it"));
        }
    }
    if let Some(stray) = frame.domains.iter().find(|d| state.whole && !d.removed && !state.domains.contains_key(&d.domain)) {
        wrong(format!("it has the domain {}, which was removed or never there", stray.domain));
    }
}

/// Null and the empty text are one value; a column that is not named is null.
fn values(add: &Add) -> Vec<(&str, &str)> {
    add.partition_values.iter().filter_map(|(k, v)| Some((k.as_str(), v.as_deref().filter(|v| !v.is_empty())?))).collect()
}

fn same_protocol(a: &Protocol, b: &Protocol) -> bool {
    let features = |list: &Option<Vec<String>>| {
        let mut list = list.clone().unwrap_or_default();
        list.sort_unstable();
        list
    };
    let all = |p: &Protocol| (p.min_reader_version, p.min_writer_version, features(&p.reader_features), features(&p.writer_features));
    all(a) == all(b)
}

fn same_metadata(a: &Metadata, b: &Metadata) -> bool {
    let schema = |m: &Metadata| serde_json::from_str::<serde_json::Value>(&m.schema_string).ok();
    (&a.id, &a.partition_columns, &a.configuration, &a.format.provider)
        == (&b.id, &b.partition_columns, &b.configuration, &b.format.provider)
        && (a.schema_string == b.schema_string || schema(a).is_some_and(|s| Some(s) == schema(b)))
}
