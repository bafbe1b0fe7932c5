//! Manifests: what each snapshot adds and removes, and what it holds by then.
//!
//! The state is carried from snapshot to snapshot. Where the base of a snapshot names the very manifests of the one before, only its delta
//! is read; where it does not (manifests were merged, or history begins here) the base is put together anew, and must come to what the
//! snapshot before held.

mod manifests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::shape::Shape;
use crate::error::Result;
use crate::format::paimon::manifest::{self, EntryKind, FileIdentity, ManifestMeta};
use crate::format::paimon::paths;
use crate::format::paimon::snapshot::Snapshot;
use crate::maintain::finding::{Check, Findings};
use crate::maintain::get;
use crate::schema::Scalar;
use crate::store::{Entry, Store};

/// What names an object. It is owed as long as one of these is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Owner {
    /// The newest snapshot that needs it.
    pub(super) snapshot: Option<u64>,
    /// A tag that needs it.
    pub(super) tag: Option<String>,
}

impl Owner {
    fn join(&mut self, other: &Owner) {
        self.snapshot = self.snapshot.max(other.snapshot);
        self.tag = self.tag.take().or_else(|| other.tag.clone());
    }
    pub(super) fn is_none(&self) -> bool {
        *self == Owner::default()
    }
    /// The object that names it.
    pub(super) fn place(&self) -> String {
        match (&self.snapshot, &self.tag) {
            (Some(id), _) => paths::snapshot(*id),
            (None, Some(tag)) => format!("{}/tag-{tag}", paths::TAG_DIR),
            (None, None) => String::new(),
        }
    }
}

/// A named object that was not there.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) check: Check,
    pub(super) path: String,
    pub(super) owner: Owner,
}

/// A data file, as manifests describe it.
#[derive(Debug)]
pub(super) struct DataFile {
    pub(super) name: String,
    /// Where readers look for it; none: it cannot be told.
    pub(super) path: Option<String>,
    /// It lies outside of the table.
    pub(super) external: bool,
    pub(super) size: i64,
    pub(super) rows: i64,
    pub(super) extra: Vec<String>,
    /// Who holds it; nobody: it was removed before history begins.
    pub(super) owner: Owner,
}

/// What the walk comes to.
pub(super) struct Found {
    pub(super) files: Vec<DataFile>,
    /// Index files and statistics, by path (`index/...`), with who needs them.
    pub(super) others: BTreeMap<String, Owner>,
    /// Names, without their directories, of all that anything refers to. Every one of them holds a uuid.
    pub(super) referenced: BTreeSet<String>,
    /// By path.
    pub(super) missing: BTreeMap<String, Missing>,
}

/// A manifest that was read, in few bytes.
struct Known {
    /// Adds or removes, and which file.
    entries: Vec<(EntryKind, usize)>,
    facts: Facts,
}

/// For each partition column: least, greatest, is one null.
type Bounds = Vec<(Option<Scalar>, Option<Scalar>, bool)>;

/// What a list may say of a manifest.
struct Facts {
    size: i64,
    added: i64,
    deleted: i64,
    buckets: Option<(i32, i32)>,
    levels: Option<(i32, i32)>,
    partitions: Option<Bounds>,
}

/// What is live, and since which snapshot.
type Live = HashMap<usize, u64>;

/// The state after a snapshot.
struct Before {
    id: u64,
    manifests: Vec<String>,
    live: Live,
    rows: i64,
    /// How far the snapshot's own total is off; what was told once is not told again.
    skew: i64,
}

/// The walk over snapshots and tags.
pub(super) struct Walk<'a> {
    store: &'a Store,
    shape: &'a Shape,
    /// None: it cannot be read.
    known: HashMap<String, Option<Arc<Known>>>,
    /// What a list said of a manifest and was looked at; other lists mostly say the same.
    told: HashMap<String, ManifestMeta>,
    indexes: HashMap<String, Vec<String>>,
    by_identity: HashMap<FileIdentity, usize>,
    found: Found,
    before: Option<Before>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(store: &'a Store, shape: &'a Shape) -> Self {
        let found = Found { files: Vec::new(), others: BTreeMap::new(), referenced: BTreeSet::new(), missing: BTreeMap::new() };
        Walk {
            store,
            shape,
            known: HashMap::new(),
            told: HashMap::new(),
            indexes: HashMap::new(),
            by_identity: HashMap::new(),
            found,
            before: None,
        }
    }

    /// Ascending.
    pub(super) async fn snapshots(&mut self, all: &[Snapshot], findings: &mut Findings) -> Result<()> {
        for s in all {
            let owner = Owner { snapshot: Some(s.id), tag: None };
            if self.before.as_ref().is_some_and(|b| b.id + 1 != s.id) {
                self.release();
            }
            self.step(s, &owner, findings).await?;
        }
        self.release();
        Ok(())
    }

    /// Tags of snapshots that have expired; the others were looked at already.
    pub(super) async fn tags(&mut self, tags: &[(String, Snapshot)], findings: &mut Findings) -> Result<()> {
        for (name, s) in tags {
            let owner = Owner { snapshot: None, tag: Some(name.clone()) };
            self.step(s, &owner, findings).await?;
            let Some(state) = self.before.take() else { continue };
            for file in state.live.keys() {
                self.found.files[*file].owner.join(&owner);
            }
        }
        Ok(())
    }

    /// What is live after the last snapshot that was walked, it needs.
    fn release(&mut self) {
        let Some(before) = self.before.take() else { return };
        let owner = Owner { snapshot: Some(before.id), tag: None };
        for file in before.live.keys() {
            self.found.files[*file].owner.join(&owner);
        }
    }

    async fn step(&mut self, s: &Snapshot, owner: &Owner, findings: &mut Findings) -> Result<()> {
        self.beside(s, owner, findings).await?;
        let base = self.list(&s.base_manifest_list, s.base_manifest_list_size, owner, findings).await?;
        let delta = self.list(&s.delta_manifest_list, s.delta_manifest_list_size, owner, findings).await?;
        let (Some(base), Some(delta)) = (base, delta) else {
            self.release();
            return Ok(());
        };
        let names = |metas: &[ManifestMeta]| metas.iter().map(|m| m.name.clone()).collect::<Vec<_>>();
        let mut manifests = names(&base);
        let told = self.before.as_ref().map_or(0, |b| b.skew);
        let state = match self.before.take() {
            Some(before) if before.manifests == manifests => Some((before.live, before.rows)),
            before => self.base(&base, before, s, owner, findings).await?,
        };
        let changes = self.entries(&delta, owner, findings).await?;
        let (Some((mut live, mut rows)), Some(changes)) = (state, changes) else { return Ok(()) };
        let added = self.apply(&changes, &mut live, s, owner, findings);
        rows += added;
        let skew = s.total_record_count.saturating_sub(rows);
        if !self.shape.counts_row_ids {
            self.count(s, owner, added, (rows, skew != told), findings);
        }
        manifests.extend(names(&delta));
        self.before = Some(Before { id: s.id, manifests, live, rows, skew });
        Ok(())
    }

    fn count(&self, s: &Snapshot, owner: &Owner, added: i64, (rows, is_new): (i64, bool), findings: &mut Findings) {
        findings.look(Check::RecordCounts, 1);
        if s.delta_record_count != added {
            let what = format!("deltaRecordCount is {}, and its manifests come to {added}", s.delta_record_count);
            findings.find(Check::RecordCounts, owner.place(), owner.snapshot, what);
        }
        if is_new && s.total_record_count != rows {
            let what = format!("totalRecordCount is {}, and its manifests come to {rows}", s.total_record_count);
            findings.find(Check::RecordCounts, owner.place(), owner.snapshot, what);
        }
    }

    /// The state of a base that does not name the manifests of the snapshot before. None: it cannot be read.
    async fn base(
        &mut self,
        metas: &[ManifestMeta],
        before: Option<Before>,
        s: &Snapshot,
        owner: &Owner,
        findings: &mut Findings,
    ) -> Result<Option<(Live, i64)>> {
        let mut live = Live::new();
        let Some(entries) = self.entries(metas, owner, findings).await? else {
            self.before = before;
            self.release();
            return Ok(None);
        };
        let rows = self.apply(&entries, &mut live, s, owner, findings);
        if let Some(mut before) = before {
            let missing: Vec<usize> = before.live.keys().filter(|f| !live.contains_key(f)).copied().collect();
            let stray: Vec<usize> = live.keys().filter(|f| !before.live.contains_key(f)).copied().collect();
            for (files, what) in [(&missing, "misses files that snapshot {} held"), (&stray, "holds files that snapshot {} did not hold")] {
                if let Some(first) = files.iter().map(|f| self.found.files[*f].name.as_str()).min() {
                    let what = what.replace("{}", &before.id.to_string());
                    let what = format!("its base {what} ({}, among them {first}): it was not built on the snapshot before it", files.len());
                    findings.find(Check::State, owner.place(), owner.snapshot, what);
                }
            }
            // What is in both has been there for longer; what is lost, the snapshot before still needs.
            live.iter_mut().for_each(|(file, since)| *since = before.live.get(file).copied().unwrap_or(*since));
            before.live.retain(|file, _| !live.contains_key(file));
            self.before = Some(before);
            self.release();
        }
        Ok(Some((live, rows)))
    }

    /// Applies entries in their order; returns the rows added less those removed.
    fn apply(&mut self, entries: &[(EntryKind, usize)], live: &mut Live, s: &Snapshot, owner: &Owner, findings: &mut Findings) -> i64 {
        let mut rows = 0i64;
        findings.look(Check::State, 1);
        for (kind, file) in entries {
            let facts = &mut self.found.files[*file];
            match kind {
                EntryKind::Add => {
                    rows = rows.saturating_add(facts.rows);
                    if live.insert(*file, s.id).is_some() {
                        let what =
                            format!("it adds the file {} a second time: Java refuses the table, others read its rows twice", facts.name);
                        findings.find(Check::State, owner.place(), owner.snapshot, what);
                    }
                }
                EntryKind::Delete => {
                    rows = rows.saturating_sub(facts.rows);
                    match live.remove(file) {
                        None => {
                            let what = format!("it removes the file {}, which was not there: Java refuses the table", facts.name);
                            findings.find(Check::State, owner.place(), owner.snapshot, what);
                        }
                        // Readers of the snapshot before still need it.
                        Some(since) if since < s.id => facts.owner.join(&Owner { snapshot: Some(s.id - 1), tag: None }),
                        Some(_) => {}
                    }
                }
            }
        }
        rows
    }

    /// What a snapshot names besides base and delta.
    async fn beside(&mut self, s: &Snapshot, owner: &Owner, findings: &mut Findings) -> Result<()> {
        if !self.shape.ids.contains(&s.schema_id) {
            let what = format!("its schema {} does not exist", s.schema_id);
            findings.find(Check::Schemas, owner.place(), owner.snapshot, what);
        }
        if let Some(name) = &s.statistics {
            self.other("statistics", name, owner);
        }
        if let Some(name) = &s.index_manifest {
            for file in self.index_names(name, owner, findings).await? {
                self.other("index", &file, owner);
            }
        }
        // An expiry takes the changelog of a tagged snapshot with it.
        let Some(name) = s.changelog_manifest_list.as_ref().filter(|_| owner.tag.is_none()) else { return Ok(()) };
        let Some(list) = self.list(name, s.changelog_manifest_list_size, owner, findings).await? else { return Ok(()) };
        let Some(entries) = self.entries(&list, owner, findings).await? else { return Ok(()) };
        let mut rows = 0i64;
        for (_, file) in entries {
            let facts = &mut self.found.files[file];
            facts.owner.join(owner);
            rows = rows.saturating_add(facts.rows);
        }
        if let Some(told) = s.changelog_record_count.filter(|told| *told != rows) {
            let what = format!("changelogRecordCount is {told}, and its manifests come to {rows}");
            findings.find(Check::RecordCounts, owner.place(), owner.snapshot, what);
        }
        Ok(())
    }

    fn other(&mut self, dir: &str, name: &str, owner: &Owner) {
        self.found.referenced.insert(name.to_owned());
        self.found.others.entry(format!("{dir}/{name}")).or_default().join(owner);
    }

    /// Notes what other roots name (newer snapshots, changelogs, branches), so that it does not count as referred to by nothing. What
    /// cannot be read is left out: it is not what is checked here.
    pub(super) async fn references_of(&mut self, roots: &[Snapshot]) {
        for s in roots {
            self.found.referenced.extend(s.statistics.iter().chain(&s.index_manifest).cloned());
            if let Some(name) = &s.index_manifest
                && let Ok(Some(bytes)) = get(self.store, &paths::manifest(name)).await
            {
                self.found.referenced.extend(manifest::decode_index_names(&bytes).unwrap_or_default());
            }
            for list in s.lists() {
                self.found.referenced.insert(list.to_owned());
                let Ok(Some(bytes)) = get(self.store, &paths::manifest(list)).await else { continue };
                for meta in manifest::decode_list(&bytes).unwrap_or_default() {
                    if self.known.contains_key(&meta.name) || !self.found.referenced.insert(meta.name.clone()) {
                        continue;
                    }
                    let Ok(Some(bytes)) = get(self.store, &paths::manifest(&meta.name)).await else { continue };
                    for entry in manifest::decode_manifest(&bytes).unwrap_or_default() {
                        self.found.referenced.extend(entry.file.extra_files);
                        self.found.referenced.insert(entry.file.name);
                    }
                }
            }
        }
    }

    /// The same for changelogs and branches, by a listing of the whole table.
    pub(super) async fn references_elsewhere(&mut self, there: &[Entry]) {
        for entry in there {
            let parts: Vec<&str> = entry.name.split('/').collect();
            let is_root = match parts[..] {
                ["changelog", name] => name.starts_with("changelog-"),
                ["branch", _, dir @ ("snapshot" | "tag" | "changelog"), name] => name.starts_with(&format!("{dir}-")),
                _ => false,
            };
            if is_root
                && let Ok(Some(bytes)) = self.store.get(&entry.name).await
                && let Ok(root) = Snapshot::decode_any(&bytes)
            {
                self.references_of(&[root]).await;
            }
        }
    }

    pub(super) fn finish(self) -> Found {
        self.found
    }
}
