//! What a single commit must be, whatever came before it.

use std::collections::{BTreeMap, HashMap};

use crate::error::Result;
use crate::format::delta::action::{Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Remove, Txn};
use crate::format::delta::replay::{self, FileKey};

/// The actions of one commit, by kind.
#[derive(Default)]
pub(super) struct Commit {
    /// The first one.
    pub(super) info: Option<CommitInfo>,
    /// Does it stand at the beginning, where readers of `inCommitTimestamp` look?
    pub(super) info_first: bool,
    pub(super) protocol: Option<Protocol>,
    pub(super) metadata: Option<Metadata>,
    pub(super) txns: Vec<Txn>,
    pub(super) domains: Vec<DomainMetadata>,
    pub(super) adds: Vec<Add>,
    pub(super) removes: Vec<Remove>,
    /// Files of the change data feed, as the log names them.
    pub(super) cdc: Vec<String>,
}

impl Commit {
    /// Reads one, and tells what engines understand differently. `Data`: it is empty or damaged.
    pub(super) fn read(bytes: &[u8], wrong: &mut dyn FnMut(String)) -> Result<Commit> {
        let mut commit = Commit::default();
        let mut told: HashMap<FileKey, Action> = HashMap::new();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut count = |what: String| *counts.entry(what).or_default() += 1;
        for (i, action) in replay::actions(bytes)?.into_iter().enumerate() {
            if let Some(key) = replay::key(&action) {
                match told.get(&key) {
                    // The same thing said twice says nothing else.
                    Some(before) if *before != action => {
                        wrong(format!("it holds two different actions for the file {}, and engines differ in which one counts", key.0))
                    }
                    _ => drop(told.insert(key, action.clone())),
                }
            }
            match action {
                Action::CommitInfo(info) => {
                    commit.info_first |= i == 0;
                    commit.info.get_or_insert(info);
                }
                Action::Protocol(protocol) => {
                    count("`protocol`".to_owned());
                    commit.protocol = Some(protocol);
                }
                Action::MetaData(metadata) => {
                    count("`metaData`".to_owned());
                    commit.metadata = Some(metadata);
                }
                Action::Txn(txn) => {
                    count(format!("`txn` of {}", txn.app_id));
                    commit.txns.push(txn);
                }
                Action::DomainMetadata(domain) => {
                    count(format!("`domainMetadata` of {}", domain.domain));
                    commit.domains.push(domain);
                }
                Action::Add(add) => commit.adds.push(*add),
                Action::Remove(remove) => commit.removes.push(*remove),
                Action::Cdc(cdc) => commit.cdc.extend(cdc.get("path").and_then(|p| p.as_str()).map(str::to_owned)),
                Action::CheckpointMetadata(_) | Action::Sidecar(_) => {}
            }
        }
        for (what, n) in counts.into_iter().filter(|(_, n)| *n > 1) {
            wrong(format!("it holds {n} actions {what}, and engines differ in which one counts"));
        }
        Ok(commit)
    }
}
