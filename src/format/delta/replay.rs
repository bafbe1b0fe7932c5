//! Reading a log: the state of a table as of a version, from the newest checkpoint that can be read and the commits after it.
//!
//! The state has no list of files, and no column of files is read for it: opening a table costs the same with ten files and with a million.
//! `_last_checkpoint` only says where a listing may begin. What it says is not believed: the listing decides, and behind the newest commit
//! of the listing the next versions are asked for one by one until one is missing, because a listing is not one moment.

mod listing;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

pub(super) use self::listing::{Listing, hint};
use super::action::{Action, Add, CommitInfo, DomainMetadata, Metadata, Protocol, Txn, decode};
use super::checkpoint::{Checkpoint, read};
use super::names;
use crate::error::{Error, Kind, Result};
use crate::format::Digest;
use crate::store::Store;

/// So many commits are read at once.
const AT_ONCE: usize = 8;

/// What is seen of an application's newest transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// The transaction.
    pub txn: Txn,
    /// The commit that moved it, while its JSON is still there.
    pub commit: Option<Moved>,
}

/// The commit of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Its version.
    pub version: u64,
    /// Of its bytes.
    pub sha256: Digest,
    /// What it says of itself.
    pub info: CommitInfo,
}

/// A table's state as of one version, without its files.
#[derive(Clone, Debug, PartialEq)]
pub struct LogState {
    /// The version.
    pub version: u64,
    /// Of the JSON of `version`.
    pub sha256: Digest,
    /// That JSON; empty when only a checkpoint is left of that version.
    pub bytes: Bytes,
    /// What that commit says of itself.
    pub info: CommitInfo,
    /// The newest protocol.
    pub protocol: Protocol,
    /// The newest metadata.
    pub metadata: Metadata,
    /// The newest transaction of each application, by its id; those too that engines have forgotten because of their age.
    pub txns: BTreeMap<String, Seen>,
    /// Domains that were not removed, by name.
    pub domains: BTreeMap<String, DomainMetadata>,
    /// Version of the newest complete checkpoint known.
    pub checkpoint: Option<u64>,
}

/// What one commit says apart from files.
#[derive(Default)]
struct Said {
    info: Option<CommitInfo>,
    protocol: Option<Protocol>,
    metadata: Option<Metadata>,
    txns: Vec<Txn>,
    domains: Vec<DomainMetadata>,
}

impl LogState {
    /// Moves on by the next commit. `Data` when it is damaged or holds two actions that reconcile with each other.
    pub fn apply(&mut self, version: u64, bytes: &Bytes) -> Result<()> {
        if Some(version) != self.version.checked_add(1) {
            let what = format!("version {version} does not follow version {}", self.version);
            return Err(Error::internal(what).hint("please report this"));
        }
        let said = Said::of(bytes).map_err(|e| e.at(names::commit(version)))?;
        self.take(version, bytes, said);
        Ok(())
    }

    fn take(&mut self, version: u64, bytes: &Bytes, said: Said) {
        let Said { info, protocol, metadata, txns, domains } = said;
        (self.version, self.sha256, self.bytes) = (version, Digest::of(bytes), bytes.clone());
        self.info = info.unwrap_or_default();
        if let Some(protocol) = protocol {
            self.protocol = protocol;
        }
        if let Some(metadata) = metadata {
            self.metadata = metadata;
        }
        for txn in txns {
            let commit = Some(Moved { version, sha256: self.sha256, info: self.info.clone() });
            self.txns.insert(txn.app_id.clone(), Seen { txn, commit });
        }
        for domain in domains {
            if domain.removed {
                self.domains.remove(&domain.domain);
            } else {
                self.domains.insert(domain.domain.clone(), domain);
            }
        }
    }

    /// Version 0.
    fn first(bytes: &Bytes) -> Result<LogState> {
        let mut said = Said::of(bytes)?;
        let lacks =
            |what: &str| Error::data(format!("the first commit has no `{what}`")).hint("this is no table, or its first commit is damaged");
        let protocol = said.protocol.take().ok_or_else(|| lacks("protocol"))?;
        let metadata = said.metadata.take().ok_or_else(|| lacks("metaData"))?;
        let mut state = LogState::empty(0, protocol, metadata);
        state.take(0, bytes, said);
        Ok(state)
    }

    fn empty(version: u64, protocol: Protocol, metadata: Metadata) -> LogState {
        LogState {
            version,
            sha256: Digest::of(&[]),
            bytes: Bytes::new(),
            info: CommitInfo::default(),
            protocol,
            metadata,
            txns: BTreeMap::new(),
            domains: BTreeMap::new(),
            checkpoint: None,
        }
    }

    /// As a checkpoint has it. `bytes`: the commit of its version, if that is still there.
    async fn of(store: &Store, checkpoint: &Checkpoint, bytes: Option<Bytes>) -> Result<LogState> {
        let frame = read::frame(store, checkpoint).await?;
        let mut state = LogState::empty(checkpoint.version, frame.protocol, frame.metadata);
        for txn in frame.txns {
            state.txns.insert(txn.app_id.clone(), Seen { txn, commit: None });
        }
        let live = frame.domains.into_iter().filter(|domain| !domain.removed);
        state.domains = live.map(|domain| (domain.domain.clone(), domain)).collect();
        if let Some(bytes) = bytes {
            let said = Said::of(&bytes).map_err(|e| e.at(store.place(&names::commit(checkpoint.version))))?;
            state.take(checkpoint.version, &bytes, said);
        }
        Ok(state)
    }
}

impl Said {
    fn of(bytes: &[u8]) -> Result<Said> {
        let mut said = Said::default();
        let mut files = Vec::new();
        let actions = actions(bytes)?;
        for action in &actions {
            let twice = match action {
                // Free in form, and its place is asked for by one feature only: the first counts.
                Action::CommitInfo(info) => {
                    said.info.get_or_insert_with(|| info.clone());
                    false
                }
                Action::Protocol(protocol) => said.protocol.replace(protocol.clone()).is_some(),
                Action::MetaData(metadata) => said.metadata.replace(metadata.clone()).is_some(),
                Action::Txn(txn) => {
                    said.txns.push(txn.clone());
                    said.txns.iter().filter(|t| t.app_id == txn.app_id).count() > 1
                }
                Action::DomainMetadata(domain) => {
                    said.domains.push(domain.clone());
                    said.domains.iter().filter(|d| d.domain == domain.domain).count() > 1
                }
                Action::Add(_) | Action::Remove(_) => {
                    files.extend(key(action).map(|key| (key, action)));
                    false
                }
                _ => false,
            };
            if twice {
                return Err(reconciles(action));
            }
        }
        files.sort_by(|a, b| a.0.cmp(&b.0));
        // The same thing said twice says nothing else; readers bear it.
        match files.windows(2).find(|two| two[0].0 == two[1].0 && two[0].1 != two[1].1) {
            Some(two) => Err(reconciles(two[1].1)),
            None => Ok(said),
        }
    }
}

fn reconciles(action: &Action) -> Error {
    let what = match action {
        Action::Protocol(_) => "two actions `protocol`".to_owned(),
        Action::MetaData(_) => "two actions `metaData`".to_owned(),
        Action::Txn(txn) => format!("two actions `txn` of {}", txn.app_id),
        Action::DomainMetadata(domain) => format!("two actions `domainMetadata` of {}", domain.domain),
        Action::Add(add) => format!("two different actions for the file {}", add.path),
        Action::Remove(remove) => format!("two different actions for the file {}", remove.path),
        _ => "two actions of one kind".to_owned(),
    };
    Error::data(format!("the commit holds {what}, and engines differ in which one counts")).hint("find out who wrote it and what was meant")
}

/// Which file an action is of: path, and id of the deletion vector.
pub(crate) type FileKey = (String, Option<String>);

/// Which file an `add` or `remove` is of.
pub(crate) fn key(action: &Action) -> Option<FileKey> {
    let (path, vector) = match action {
        Action::Add(add) => (&add.path, &add.deletion_vector),
        Action::Remove(remove) => (&remove.path, &remove.deletion_vector),
        _ => return None,
    };
    Some((path.clone(), vector.as_ref().map(|v| v.unique_id())))
}

/// The actions of a commit. `Data`: it is empty or damaged.
pub(crate) fn actions(bytes: &[u8]) -> Result<Vec<Action>> {
    // An empty commit would count as one that did nothing, and its rows would be lost silently.
    if bytes.is_empty() {
        let hint = "its writer died over it, or a power cut took its bytes: find out what it was, then delete it if it is the newest";
        return Err(Error::data("the commit is empty").hint(hint));
    }
    decode(bytes)
}

/// The newest state. `None`: there is no table here (no commit, no checkpoint).
pub async fn newest(store: &Store) -> Result<Option<LogState>> {
    attempts(store, None, |listing: Arc<Listing>| async move {
        let Some(target) = listing.newest() else { return listing.nothing(store).map(|()| None) };
        let mut state = segment(store, &listing, target, &mut |from, commits| state_of(store, from, commits)).await?;
        while let Some(bytes) = commit(store, state.version + 1).await? {
            state.apply(state.version + 1, &bytes).map_err(|e| e.at(store.url()))?;
        }
        state.checkpoint = listing.checkpoints.keys().next_back().copied().filter(|v| *v <= state.version);
        Ok(Some(state))
    })
    .await
}

/// The state as of a version. `None`: the log does not reach so far yet, or not so far back any more.
pub async fn at(store: &Store, version: u64) -> Result<Option<LogState>> {
    attempts(store, Some(version), |listing: Arc<Listing>| async move {
        if !listing.has(version) && commit(store, version).await?.is_none() {
            return listing.absent(store, version).map(|()| None);
        }
        match segment(store, &listing, version, &mut |from, commits| state_of(store, from, commits)).await {
            Ok(mut state) => {
                state.checkpoint = listing.checkpoints.range(..=version).next_back().map(|(v, _)| *v);
                Ok(Some(state))
            }
            Err(e) if e.kind() == Kind::Data && listing.cleaned(version) && !listing.leads_to(version) => Ok(None),
            Err(e) => Err(e),
        }
    })
    .await
}

/// The versions of commits, and those of complete checkpoints, ascending.
pub async fn versions(store: &Store) -> Result<(Vec<u64>, Vec<u64>)> {
    let listing = Listing::whole(store).await?;
    Ok((listing.commits.into_iter().collect(), listing.checkpoints.into_keys().collect()))
}

/// The files that are live as of a version and that `keep` wants, by path. `Data`: the log does not tell what is live then.
pub async fn live_files(store: &Store, version: u64, keep: &(dyn Fn(&Add) -> bool + Sync)) -> Result<Vec<Add>> {
    attempts(store, Some(version), |listing: Arc<Listing>| async move {
        segment(store, &listing, version, &mut |from, commits| files_of(store, from, commits, keep)).await
    })
    .await
}

/// Tries it with the listing that the hint allows, and when that fails with a whole one: the hint may be wrong, and somebody may have
/// cleaned up meanwhile.
pub(super) async fn attempts<T, F: Future<Output = Result<T>>>(
    store: &Store,
    version: Option<u64>,
    work: impl Fn(Arc<Listing>) -> F,
) -> Result<T> {
    if let Some(listing) = Listing::from_hint(store, version).await? {
        match work(Arc::new(listing)).await {
            Err(e) if e.kind() == Kind::Data => {}
            other => return other,
        }
    }
    match work(Arc::new(Listing::whole(store).await?)).await {
        Err(e) if e.kind() == Kind::Data => work(Arc::new(Listing::whole(store).await?)).await,
        other => other,
    }
}

/// What a walk begins with, and the commits after it.
pub(super) type Commits = Vec<(u64, Bytes)>;

/// Walks from the newest checkpoint at or below `version` that can be read, or else from version 0, to `version`.
pub(super) async fn segment<T, F: Future<Output = Result<T>>>(
    store: &Store,
    listing: &Listing,
    version: u64,
    walk: &mut impl FnMut(Option<Checkpoint>, Commits) -> F,
) -> Result<T> {
    let mut first = None;
    let mut commits: Commits = Vec::new();
    let candidates: Vec<&Checkpoint> = listing.checkpoints.range(..=version).rev().flat_map(|(_, all)| all).collect();
    for from in candidates.into_iter().map(Some).chain([None]) {
        // The commits that the newer candidates need are needed here too.
        let known = commits.first().map_or(version + 1, |(v, _)| *v);
        let mut older = read_commits(store, from.map_or(0, |c| c.version + 1)..known).await.map_err(|e| first.take().unwrap_or(e))?;
        older.append(&mut commits);
        commits = older;
        match walk(from.cloned(), commits.clone()).await {
            Err(e) if e.kind() == Kind::Data && from.is_some() => drop(first.get_or_insert(e)),
            Err(e) => return Err(first.unwrap_or(e)),
            Ok(done) => return Ok(done),
        }
    }
    Err(first.unwrap_or_else(|| Error::internal("there was nothing to read").at(store.url()).hint("please report this")))
}

/// These commits. `Data`: one is missing.
async fn read_commits(store: &Store, versions: std::ops::Range<u64>) -> Result<Commits> {
    let read = |version: u64| async move {
        let missing = || {
            Error::data(format!("the log has no commit of version {version}"))
                .at(store.place(&names::commit(version)))
                .hint("restore the file: no engine can read the table without it")
        };
        Ok((version, commit(store, version).await?.ok_or_else(missing)?))
    };
    futures::stream::iter(versions).map(read).buffered(AT_ONCE).try_collect().await
}

/// The bytes of a commit, if it is there.
pub(crate) async fn commit(store: &Store, version: u64) -> Result<Option<Bytes>> {
    store.get(&names::commit(version)).await
}

pub(super) async fn state_of(store: &Store, from: Option<Checkpoint>, commits: Commits) -> Result<LogState> {
    let mut commits = commits.into_iter();
    let mut state = match from {
        Some(checkpoint) => {
            let bytes = commit(store, checkpoint.version).await?;
            LogState::of(store, &checkpoint, bytes).await?
        }
        None => match commits.next() {
            Some((_, bytes)) => LogState::first(&bytes).map_err(|e| e.at(store.place(&names::commit(0))))?,
            None => return Err(Error::internal("a log without commits was read").at(store.url()).hint("please report this")),
        },
    };
    for (version, bytes) in commits {
        state.apply(version, &bytes).map_err(|e| e.at(store.url()))?;
    }
    Ok(state)
}

async fn files_of(store: &Store, from: Option<Checkpoint>, commits: Commits, keep: &(dyn Fn(&Add) -> bool + Sync)) -> Result<Vec<Add>> {
    // The newest word on each file that a commit speaks of.
    let mut words: BTreeMap<FileKey, Option<Box<Add>>> = BTreeMap::new();
    for (version, bytes) in commits {
        let actions = actions(&bytes).map_err(|e| e.at(store.place(&names::commit(version))))?;
        // A file gets another deletion vector by a remove and an add; their order in the commit says nothing.
        for action in actions {
            let Some(key) = key(&action) else { continue };
            match action {
                Action::Add(add) => drop(words.insert(key, Some(add))),
                _ => drop(words.insert(key, None)),
            }
        }
    }
    let mut live = Vec::new();
    if let Some(checkpoint) = from {
        // A checkpoint that says nothing of the table may well lack files too.
        read::frame(store, &checkpoint).await?;
        read::adds(store, &checkpoint, |add| {
            let key = (add.path.clone(), add.deletion_vector.as_ref().map(|v| v.unique_id()));
            if !words.contains_key(&key) && keep(&add) {
                live.push(add);
            }
        })
        .await?;
    }
    live.extend(words.into_values().flatten().filter(|add| keep(add)).map(|add| *add));
    live.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(live)
}
