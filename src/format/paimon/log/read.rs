//! What scans, the command line and other formats' users read: snapshots, live files, references, pins.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::super::manifest::{self, EntryKind, FileMeta, ManifestEntry, ManifestMeta};
use super::super::paths::{self, PaimonLayout};
use super::super::row;
use super::super::schema::TableSchema;
use super::super::snapshot::Snapshot;
use super::super::stats;
use super::{PaimonLog, list_ids, sequence};
use crate::error::{Error, Result};
use crate::format::{ColumnStats, CommitUser};
use crate::schema::Scalar;

/// A file that is live in a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveFile {
    /// Path under the table's root; a file elsewhere has its full location.
    pub path: String,
    /// Partition values in the order of the partition columns.
    pub partition: Vec<Option<Scalar>>,
    /// The bucket.
    pub bucket: i32,
    /// Bytes.
    pub size: u64,
    /// Rows.
    pub rows: u64,
    /// The schema under which it was written.
    pub schema_id: u64,
    /// Statistics of the columns that have some, by their names in that schema.
    pub stats: Vec<ColumnStats>,
    /// Everything that the manifest says.
    pub meta: FileMeta,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Consumer {
    next_snapshot: u64,
}

impl PaimonLog {
    /// A snapshot's bytes; `None` when there is none.
    pub async fn snapshot_bytes(&self, id: u64) -> Result<Option<Bytes>> {
        self.store.get(&paths::snapshot(id)).await
    }

    /// A snapshot; `None` when there is none.
    pub async fn snapshot(&self, id: u64) -> Result<Option<Snapshot>> {
        self.snapshot_bytes(id).await?.map(|bytes| self.decode(&bytes, id)).transpose()
    }

    /// Every snapshot, ascending; those that vanish while they are read are left out.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let mut snapshots = Vec::new();
        for id in self.snapshot_ids().await? {
            snapshots.extend(self.snapshot(id).await?);
        }
        Ok(snapshots)
    }

    /// Every schema, ascending. `Invalid` when an old one held something that is not supported.
    pub async fn schemas(&self) -> Result<Vec<Arc<TableSchema>>> {
        let mut schemas = Vec::new();
        for id in list_ids(&self.store, paths::SCHEMA_DIR, "schema-").await? {
            schemas.push(self.schema_of(id).await?);
        }
        Ok(schemas)
    }

    /// A manifest list, by its name. `Data` when it is missing or damaged.
    pub async fn read_list(&self, name: &str) -> Result<Vec<ManifestMeta>> {
        let bytes = self.meta_file(name).await?;
        manifest::decode_list(&bytes).map_err(|e| e.at(self.place(&paths::manifest(name))))
    }

    /// A manifest, by its name. `Data` when it is missing or damaged.
    pub async fn read_manifest(&self, name: &str) -> Result<Vec<ManifestEntry>> {
        let bytes = self.meta_file(name).await?;
        manifest::decode_manifest(&bytes).map_err(|e| e.at(self.place(&paths::manifest(name))))
    }

    pub(super) async fn meta_file(&self, name: &str) -> Result<Bytes> {
        let path = paths::manifest(name);
        self.store.get(&path).await?.ok_or_else(|| {
            Error::data("a file that a snapshot names is missing")
                .at(self.place(&path))
                .hint("read a newer snapshot; this one may just have expired")
        })
    }

    /// Can the rows of `snapshot` be read from these files alone? `Invalid` by the option, or by the file, where not.
    pub async fn check_readable(&self, snapshot: &Snapshot, files: &[LiveFile]) -> Result<()> {
        let schema = self.schema();
        schema.options.check_readable().map_err(|e| e.at(self.store.url()))?;
        let not_read = |what: &str, file: &LiveFile| {
            let e = Error::invalid(format!("{what}, which cannot be read yet")).at(self.place(&file.path));
            Err(e.hint("read the table with another engine, or another snapshot"))
        };
        for file in files {
            // Readers take the format of a file from its name.
            match file.path.rsplit_once('.') {
                _ if file.meta.external_path.is_some() => return not_read("the file lies outside the table", file),
                Some((_, "parquet")) => {}
                Some((_, format)) => return not_read(&format!("the file is {format}, not Parquet"), file),
                None => return not_read("the name of the file does not say its format", file),
            }
        }
        if let Some(name) = &snapshot.index_manifest
            && manifest::has_deletion_vectors(&self.meta_file(name).await?).map_err(|e| e.at(self.place(&paths::manifest(name))))?
        {
            let e = Error::invalid(format!("snapshot {} has deletion vectors, which cannot be applied yet", snapshot.id));
            return Err(e.at(self.store.url()).hint("read the table with another engine, or compact it there first"));
        }
        Ok(())
    }

    /// The files that are live in `snapshot`, in the order in which they were added; in a table whose buckets keep their order, those of
    /// one bucket together and by their sequence numbers. `Data` when one is added twice.
    pub async fn files_at(&self, snapshot: &Snapshot) -> Result<Vec<LiveFile>> {
        let layout = self.layout();
        let mut files = Vec::new();
        let mut entries = self.entries_at(snapshot).await?;
        if self.schema().options.buckets.as_ref().is_some_and(|b| b.ordered) {
            sequence::order(&mut entries);
        }
        for entry in entries {
            files.push(self.live_file(&layout, entry, true).await?);
        }
        Ok(files)
    }

    /// `with_stats`: they cost, and are left out otherwise.
    pub(super) async fn live_file(&self, layout: &PaimonLayout, entry: ManifestEntry, with_stats: bool) -> Result<LiveFile> {
        let number =
            |n: i64| u64::try_from(n).map_err(|_| Error::data(format!("the file {} has a negative size, count or id", entry.file.name)));
        let schema_id = number(entry.file.schema_id)?;
        let schema = self.schema_of(schema_id).await?;
        let f = &entry.file;
        let stats = match with_stats {
            true => stats::decode(&schema.schema, &f.value_stats, f.value_stats_cols.as_deref(), f.write_cols.as_deref())
                .map_err(|e| e.at(&f.name))?,
            false => Vec::new(),
        };
        Ok(LiveFile {
            path: path_in(layout, &entry)?,
            partition: row::decode(&entry.partition, &layout.partition_types())?,
            bucket: entry.bucket,
            size: number(f.size)?,
            rows: number(f.rows)?,
            schema_id,
            stats,
            meta: entry.file,
        })
    }

    /// The ADD entries of what is live in `snapshot`.
    pub async fn entries_at(&self, snapshot: &Snapshot) -> Result<Vec<ManifestEntry>> {
        let mut entries: Vec<Option<ManifestEntry>> = Vec::new();
        let mut at = HashMap::new();
        for list in [&snapshot.base_manifest_list, &snapshot.delta_manifest_list] {
            for meta in self.read_list(list).await? {
                for entry in self.read_manifest(&meta.name).await? {
                    let identity = entry.identity();
                    if entry.kind == EntryKind::Delete {
                        if let Some(i) = at.remove(&identity) {
                            entries[i] = None;
                        }
                    } else if at.insert(identity, entries.len()).is_some() {
                        return Err(Error::data(format!("snapshot {} adds the file {} twice", snapshot.id, entry.file.name))
                            .at(self.store.url())
                            .hint("its rows may be doubled: roll back to a snapshot before it"));
                    } else {
                        entries.push(Some(entry));
                    }
                }
            }
        }
        Ok(entries.into_iter().flatten().collect())
    }

    /// The paths that `snapshot` adds.
    pub(super) async fn added_by(&self, snapshot: &Snapshot) -> Result<Vec<String>> {
        let mut paths = Vec::new();
        for meta in self.read_list(&snapshot.delta_manifest_list).await? {
            for entry in self.read_manifest(&meta.name).await?.iter().filter(|e| e.kind == EntryKind::Add) {
                paths.push(self.path_of(entry)?);
            }
        }
        Ok(paths)
    }

    pub(super) fn path_of(&self, entry: &ManifestEntry) -> Result<String> {
        path_in(&self.layout(), entry)
    }

    /// Every object that a snapshot, tag or changelog, of any branch, names, directly or through its manifests: paths under the table's
    /// root. What is under the data directories or in `manifest/` and not in here is an orphan.
    pub async fn referenced(&self) -> Result<BTreeSet<String>> {
        let mut roots: Vec<String> = Vec::new();
        for (dir, prefix) in [(paths::SNAPSHOT_DIR, "snapshot-"), (paths::TAG_DIR, "tag-"), ("changelog", "changelog-")] {
            roots.extend(
                self.store.list(dir).await?.into_iter().filter(|e| e.name.starts_with(prefix)).map(|e| format!("{dir}/{}", e.name)),
            );
        }
        for entry in self.store.list_all("branch").await? {
            let parts: Vec<&str> = entry.name.split('/').collect();
            if let [_, dir @ ("snapshot" | "tag" | "changelog"), name] = parts[..]
                && name.starts_with(&format!("{dir}-"))
            {
                roots.push(format!("branch/{}", entry.name));
            }
        }
        let mut found = BTreeSet::new();
        for root in roots {
            if let Err(e) = self.add_references(&root, &mut found).await {
                // It may have expired while it was read; then what it named does not count.
                if self.store.size(&root).await?.is_some() {
                    return Err(e);
                }
            }
        }
        Ok(found)
    }

    async fn add_references(&self, root: &str, found: &mut BTreeSet<String>) -> Result<()> {
        let Some(bytes) = self.store.get(root).await? else { return Ok(()) };
        let snapshot = Snapshot::decode_any(&bytes).map_err(|e| e.at(self.place(root)))?;
        found.extend(snapshot.statistics.iter().map(|s| format!("statistics/{s}")));
        if let Some(name) = &snapshot.index_manifest
            && found.insert(paths::manifest(name))
        {
            let names = manifest::decode_index_names(&self.meta_file(name).await?).map_err(|e| e.at(self.place(&paths::manifest(name))))?;
            found.extend(names.into_iter().map(|n| format!("index/{n}")));
        }
        let layout = self.layout();
        for list in snapshot.lists() {
            let metas = self.read_list(list).await?;
            found.insert(paths::manifest(list));
            for meta in metas {
                if found.contains(&paths::manifest(&meta.name)) {
                    continue; // manifests are shared by many snapshots and read once
                }
                for entry in self.read_manifest(&meta.name).await? {
                    let path = path_in(&layout, &entry)?;
                    let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
                    found.extend(entry.file.extra_files.iter().map(|f| format!("{dir}/{f}")));
                    found.insert(path);
                }
                found.insert(paths::manifest(&meta.name));
            }
        }
        Ok(())
    }

    /// Keeps snapshot `least` and everything above it from expiring, in every engine. Rewritten each time, so that it stays young.
    pub async fn pin(&self, user: &CommitUser, least: u64) -> Result<()> {
        let bytes =
            serde_json::to_vec(&Consumer { next_snapshot: least }).map_err(|e| Error::internal("a pin could not be encoded").because(e))?;
        let written = self.store.env().monotonic();
        self.store.put(&paths::consumer(user.as_str()), bytes.into()).await?;
        self.state().pin = Some((least, written));
        Ok(())
    }

    /// Lets go of what [`PaimonLog::pin`] keeps. A pin that is not there is no error.
    pub async fn unpin(&self, user: &CommitUser) -> Result<()> {
        self.state().pin = None;
        self.store.delete(&paths::consumer(user.as_str())).await
    }

    /// Every pin whose commit user begins with `prefix`, and what it keeps; one that cannot be read keeps nothing (0).
    pub async fn pins(&self, prefix: &str) -> Result<Vec<(CommitUser, u64)>> {
        let mut pins = Vec::new();
        for entry in self.store.list(paths::CONSUMER_DIR).await? {
            let Some(user) = entry.name.strip_prefix("consumer-").filter(|u| u.starts_with(prefix)) else { continue };
            let Some(bytes) = self.store.get(&paths::consumer(user)).await? else { continue };
            let least = serde_json::from_slice::<Consumer>(&bytes).map_or(0, |c| c.next_snapshot);
            pins.push((CommitUser::new(user), least));
        }
        Ok(pins)
    }
}

fn path_in(layout: &PaimonLayout, entry: &ManifestEntry) -> Result<String> {
    if let Some(external) = &entry.file.external_path {
        return Ok(external.clone());
    }
    let partition = row::decode(&entry.partition, &layout.partition_types()).map_err(|e| e.at(&entry.file.name))?;
    Ok(format!("{}/{}", layout.bucket_dir(&partition, entry.bucket)?, entry.file.name))
}
