//! Commit after commit: what the table is made of by then. Where there is a checkpoint it must say the same; where the commits below are
//! gone it is where the walk begins.

mod checkpoints;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;

use super::commit::Commit;
use super::history::Listed;
use crate::error::{Kind, Result};
use crate::format::END_OF_INPUT;
use crate::format::delta::action::{Add, DomainMetadata, Metadata, Protocol, Txn};
use crate::format::delta::log::DeltaSnapshot;
use crate::format::delta::replay::{self, FileKey};
use crate::format::delta::schema::DeltaSchema;
use crate::format::delta::{deletion, names, partition, protocol};
use crate::maintain::finding::{Check, Findings};
use crate::store::Store;
use crate::table::SnapshotView;

/// Commits that are read at once.
const AT_ONCE: usize = 16;

/// A live file.
pub(super) struct Live {
    pub(super) add: Add,
    /// What checkpoints say of its statistics, where that differs.
    pub(super) other_stats: Vec<String>,
    /// The version that added it, or the checkpoint that the walk began with.
    pub(super) since: u64,
}

/// What the table is as of one version.
pub(super) struct State {
    pub(super) version: u64,
    pub(super) protocol: Protocol,
    pub(super) metadata: Metadata,
    txns: BTreeMap<String, Txn>,
    domains: BTreeMap<String, DomainMetadata>,
    pub(super) live: HashMap<FileKey, Live>,
    /// The newest `inCommitTimestamp`.
    stamp: Option<i64>,
    /// Every commit since version 0 is in it.
    whole: bool,
}

/// What the walk comes to.
pub(super) struct Walked {
    /// As of the newest version; none: it cannot be told.
    pub(super) newest: Option<State>,
    /// Its columns; none: they cannot be told, or have a type that we do not know.
    pub(super) schema: Option<Arc<DeltaSchema>>,
    pub(super) snapshots: Vec<SnapshotView>,
    /// Paths of all files that any commit or checkpoint names.
    pub(super) named: HashSet<String>,
}

pub(super) struct Walk<'a> {
    store: &'a Store,
    state: Option<State>,
    schema: Option<Arc<DeltaSchema>>,
    snapshots: Vec<SnapshotView>,
    named: HashSet<String>,
    /// Something was listed and is gone.
    changed: bool,
    /// Files that were removed and not there.
    strays: u64,
    /// Why rows of this table are not read here; told once.
    unread: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        Walk {
            store,
            state: None,
            schema: None,
            snapshots: Vec::new(),
            named: HashSet::new(),
            changed: false,
            strays: 0,
            unread: BTreeSet::new(),
        }
    }

    /// Walks through all that is listed; false: some of it was cleaned up meanwhile.
    pub(super) async fn run(&mut self, listed: &Listed, findings: &mut Findings) -> Result<bool> {
        let store = self.store;
        let versions: BTreeSet<u64> = listed.commits.iter().chain(listed.checkpoints.keys()).copied().collect();
        let get = |version: u64| async move {
            let bytes = if listed.commits.contains(&version) { Some(replay::commit(store, version).await?) } else { None };
            Ok::<_, crate::Error>((version, bytes))
        };
        let mut reading = futures::stream::iter(versions.into_iter().map(get)).buffered(AT_ONCE);
        while let Some(read) = reading.next().await {
            let (version, bytes) = read?;
            match bytes {
                Some(Some(bytes)) => self.commit(version, &bytes, findings),
                Some(None) => self.changed = true,
                None => {}
            }
            if self.state.as_ref().is_some_and(|s| s.version != version) {
                self.state = None;
            }
            for checkpoint in listed.checkpoints.get(&version).into_iter().flatten() {
                self.checkpoint(checkpoint, findings).await?;
            }
        }
        if self.state.is_none() && !self.changed {
            let what = "what the table is made of cannot be told: no commit or checkpoint to begin with can be read";
            findings.find(Check::State, names::LOG_DIR, listed.newest(), what);
        }
        if self.strays > 0 {
            findings.note(format!("{} files were removed that were not there by then; readers bear it", self.strays));
        }
        for why in &self.unread {
            findings.note(format!("lakeward reads no rows of this table: {why}"));
        }
        Ok(!self.changed)
    }

    pub(super) fn finish(self) -> Walked {
        Walked { newest: self.state, schema: self.schema, snapshots: self.snapshots, named: self.named }
    }

    /// Takes in the next commit.
    fn commit(&mut self, version: u64, bytes: &Bytes, findings: &mut Findings) {
        findings.look(Check::Snapshots, 1);
        let at = names::commit(version);
        let mut wrong = Vec::new();
        let read = Commit::read(bytes, &mut |what| wrong.push(what));
        wrong.into_iter().for_each(|what| findings.find(Check::Snapshots, &at, Some(version), what));
        let commit = match read {
            Ok(commit) => commit,
            Err(e) => {
                let why = e.next_step().map_or_else(String::new, |hint| format!("; {hint}"));
                findings.find(Check::Snapshots, &at, Some(version), format!("{}{why}", e.message()));
                self.state = None;
                return;
            }
        };
        self.snapshots.extend(DeltaSnapshot::decode(version, bytes).ok().map(SnapshotView::from));
        for path in commit.adds.iter().map(|a| &a.path).chain(commit.removes.iter().map(|r| &r.path)).chain(&commit.cdc) {
            self.named.extend(partition::uri_decode(path).ok());
        }
        let vectors = commit.adds.iter().map(|a| &a.deletion_vector).chain(commit.removes.iter().map(|r| &r.deletion_vector));
        self.named.extend(vectors.flatten().filter_map(deletion::file));
        let mut state = match self.state.take() {
            Some(state) if state.version + 1 == version => state,
            None if version == 0 => {
                let (Some(protocol), Some(metadata)) = (commit.protocol.clone(), commit.metadata.clone()) else {
                    let what = "it is the first commit, and lacks `protocol` or `metaData`: this is no table to any engine";
                    findings.find(Check::Snapshots, &at, Some(0), what);
                    return;
                };
                State::of(0, protocol, metadata, true)
            }
            _ => return, // A checkpoint says more, or nothing does.
        };
        state.version = version;
        self.declared(&mut state, &commit, findings);
        transactions(&mut state, &commit.txns, findings);
        self.strays += state.files(commit, findings);
        self.state = Some(state);
    }

    /// Protocol, columns, properties, and what they ask of the commit.
    fn declared(&mut self, state: &mut State, commit: &Commit, findings: &mut Findings) {
        let (version, at) = (state.version, names::commit(state.version));
        if let Some(metadata) = &commit.metadata {
            if metadata.id != state.metadata.id {
                findings.note(format!("version {version} gives the table another id: pipelines that wrote to it before stop"));
            }
            state.metadata = metadata.clone();
        }
        if let Some(protocol) = &commit.protocol {
            state.protocol = protocol.clone();
        }
        if commit.metadata.is_some() || commit.protocol.is_some() {
            self.understand(state, &at, findings);
        }
        for domain in &commit.domains {
            if domain.removed {
                state.domains.remove(&domain.domain);
            } else {
                state.domains.insert(domain.domain.clone(), domain.clone());
            }
        }
        let mut wrong = |what: String| findings.find(Check::Snapshots, &at, Some(version), what);
        if protocol::ict_enabled(&state.protocol, &state.metadata) {
            match commit.info.as_ref().and_then(|info| info.in_commit_timestamp).filter(|_| commit.info_first) {
                None => wrong("it does not begin with a `commitInfo` that has an `inCommitTimestamp`, which the table asks for".to_owned()),
                Some(stamp) => {
                    if let Some(before) = state.stamp.filter(|before| *before >= stamp) {
                        wrong(format!("its `inCommitTimestamp` is {stamp}, and that of the commit before it {before}: it must rise"));
                    }
                    state.stamp = Some(stamp);
                }
            }
        }
        let only_appends = protocol::has(&state.protocol, "appendOnly")
            && state.metadata.configuration.get("delta.appendOnly").is_some_and(|v| v.trim().eq_ignore_ascii_case("true"));
        // What the same commit makes so holds from the next one on.
        if only_appends && commit.metadata.is_none() && commit.removes.iter().any(|r| r.data_change) {
            wrong("it removes rows, and `delta.appendOnly` is set".to_owned());
        }
    }

    /// What of protocol and columns is damaged, and what is only unknown here.
    fn understand(&mut self, state: &State, at: &str, findings: &mut Findings) {
        findings.look(Check::Schemas, 1);
        let readable = protocol::check_readable(&state.protocol, &state.metadata);
        let schema = DeltaSchema::decode(&state.metadata);
        for e in [readable.as_ref().err(), schema.as_ref().err()].into_iter().flatten() {
            if e.kind() == Kind::Data {
                findings.find(Check::Schemas, at, Some(state.version), e.message());
            } else {
                self.unread.insert(e.message().to_owned());
            }
        }
        // Of a table that is not understood nothing can be said of what its files hold.
        self.schema = schema.ok().filter(|_| readable.is_ok()).map(Arc::new);
    }
}

impl State {
    fn of(version: u64, protocol: Protocol, metadata: Metadata, whole: bool) -> State {
        let (txns, domains, live) = (BTreeMap::new(), BTreeMap::new(), HashMap::new());
        State { version, protocol, metadata, txns, domains, live, stamp: None, whole }
    }

    /// Applies adds and removes, whose order within a commit says nothing; how many files were removed that were not there.
    fn files(&mut self, commit: Commit, findings: &mut Findings) -> u64 {
        findings.look(Check::State, 1);
        let mut strays = 0;
        for remove in commit.removes {
            let key = (remove.path, remove.deletion_vector.as_ref().map(|v| v.unique_id()));
            strays += u64::from(self.live.remove(&key).is_none());
        }
        let mut added = Vec::new();
        for add in commit.adds {
            let key = (add.path.clone(), add.deletion_vector.as_ref().map(|v| v.unique_id()));
            added.push(key.clone());
            self.live.insert(key, Live { add, other_stats: Vec::new(), since: self.version });
        }
        // A file without a deletion vector and the same one with it are two files to a reader.
        let mut doubled: Vec<&str> = Vec::new();
        if added.iter().any(|(_, vector)| vector.is_some()) {
            let mut times: HashMap<&str, u64> = HashMap::new();
            self.live.keys().for_each(|(path, _)| *times.entry(path).or_default() += 1);
            doubled.extend(added.iter().map(|(path, _)| path.as_str()).filter(|path| times.get(path).is_some_and(|n| *n > 1)));
        }
        for path in doubled {
            let what = format!("by then the file {path} is live twice, with different deletion vectors: readers see its rows twice");
            findings.find(Check::State, names::commit(self.version), Some(self.version), what);
        }
        strays
    }
}

/// Who counts by a transaction skips what is at or below its version, or writes it again.
fn transactions(state: &mut State, txns: &[Txn], findings: &mut Findings) {
    for txn in txns {
        findings.look(Check::Transactions, 1);
        if let Some(before) = state.txns.get(&txn.app_id).filter(|before| before.version >= txn.version) {
            let name = |version: i64| if version == END_OF_INPUT { "end of input".to_owned() } else { version.to_string() };
            let what = match before.version == txn.version {
                true => {
                    format!("it sets the transaction of {} to {} a second time: that was committed twice", txn.app_id, name(txn.version))
                }
                false => format!(
                    "it sets the transaction of {} back from {} to {}: what is in between may be committed twice",
                    txn.app_id,
                    name(before.version),
                    name(txn.version)
                ),
            };
            findings.find(Check::Transactions, names::commit(state.version), Some(state.version), what);
        }
        state.txns.insert(txn.app_id.clone(), txn.clone());
    }
}

impl Walked {
    /// Notes what commits that came after the walk name, so that it does not count as referred to by nothing.
    pub(super) async fn names_of_newer(&mut self, store: &Store) -> Result<()> {
        let Some(newest) = self.snapshots.last().map(|s| s.id).max(self.newest.as_ref().map(|s| s.version)) else { return Ok(()) };
        let mut version = newest + 1;
        while let Some(bytes) = replay::commit(store, version).await? {
            if let Ok(commit) = Commit::read(&bytes, &mut |_| {}) {
                self.named.extend(commit.adds.iter().filter_map(|a| partition::uri_decode(&a.path).ok()));
                self.named.extend(commit.adds.iter().filter_map(|a| deletion::file(a.deletion_vector.as_ref()?)));
            }
            version += 1;
        }
        Ok(())
    }
}
