//! The files of a snapshot that a scan wants: manifests, then files, are left out by what is known of their partitions. And tags.

use std::collections::HashMap;

use futures::{StreamExt as _, TryStreamExt as _};

use super::super::manifest::{EntryKind, ManifestEntry, ManifestMeta};
use super::super::paths;
use super::super::row;
use super::super::snapshot::Snapshot;
use super::bounds::{self, Bounds};
use super::{LiveFile, PaimonLog, sequence};
use crate::error::{Error, Result};
use crate::schema::Scalar;

/// Manifests that are read at the same time.
const AT_ONCE: usize = 8;

/// Minimum, maximum and null count of one partition column.
pub type PartitionRange = bounds::Range;

/// Which files are wanted.
pub trait Wanted: Sync {
    /// May a manifest of `entries` entries, whose partitions lie in these ranges, name a wanted file?
    fn manifest(&self, ranges: &[PartitionRange], entries: u64) -> bool;
    /// May a file of this partition be wanted?
    fn partition(&self, partition: &[Option<Scalar>]) -> Result<bool>;
    /// Are statistics wanted? They cost.
    fn stats(&self) -> bool;
}

/// The files that are wanted, and what was left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picked {
    /// In the order in which they were added; ordered buckets by their sequence numbers.
    pub files: Vec<LiveFile>,
    /// Manifests that were read.
    pub manifests: u64,
    /// Manifests that were left out.
    pub manifests_skipped: u64,
    /// Live files that were left out for their partition.
    pub files_skipped: u64,
}

impl PaimonLog {
    /// The live files of `snapshot` that are wanted. `Data` when one is added twice.
    pub async fn pick_files(&self, snapshot: &Snapshot, wanted: &dyn Wanted) -> Result<Picked> {
        let layout = self.layout();
        let types = layout.partition_types();
        let mut picked = Picked::default();
        let mut metas = Vec::new();
        for list in [&snapshot.base_manifest_list, &snapshot.delta_manifest_list] {
            metas.extend(self.read_list(list).await?);
        }
        let all = metas.len();
        metas.retain(|meta| match Bounds::of(meta, &types).partitions {
            Some(ranges) => wanted.manifest(&ranges, entries(meta)),
            None => true,
        });
        picked.manifests = metas.len() as u64;
        picked.manifests_skipped = (all - metas.len()) as u64;

        let mut live: Vec<Option<ManifestEntry>> = Vec::new();
        let mut at = HashMap::new();
        let mut skipped = 0i64;
        let mut verdicts: HashMap<Vec<u8>, bool> = HashMap::new();
        let names: Vec<String> = metas.into_iter().map(|m| m.name).collect();
        let reads: Vec<_> = names.iter().map(|name| self.read_manifest(name)).collect();
        let mut reads = futures::stream::iter(reads).buffered(AT_ONCE);
        while let Some(entries) = reads.try_next().await? {
            for entry in entries {
                let is_wanted = match verdicts.get(&entry.partition) {
                    Some(known) => *known,
                    None => {
                        let values = row::decode(&entry.partition, &types).map_err(|e| e.at(&entry.file.name))?;
                        let verdict = wanted.partition(&values)?;
                        verdicts.insert(entry.partition.clone(), verdict);
                        verdict
                    }
                };
                if !is_wanted {
                    skipped += if entry.kind == EntryKind::Add { 1 } else { -1 };
                    continue;
                }
                let identity = entry.identity();
                if entry.kind == EntryKind::Delete {
                    if let Some(i) = at.remove(&identity) {
                        live[i] = None;
                    }
                } else if at.insert(identity, live.len()).is_some() {
                    return Err(Error::data(format!("snapshot {} adds the file {} twice", snapshot.id, entry.file.name))
                        .at(self.store().url())
                        .hint("its rows may be doubled: roll back to a snapshot before it"));
                } else {
                    live.push(Some(entry));
                }
            }
        }
        picked.files_skipped = u64::try_from(skipped).unwrap_or(0);
        let mut live: Vec<ManifestEntry> = live.into_iter().flatten().collect();
        if self.schema().options.buckets.as_ref().is_some_and(|b| b.ordered) {
            sequence::order(&mut live);
        }
        for entry in live {
            picked.files.push(self.live_file(&layout, entry, wanted.stats()).await?);
        }
        Ok(picked)
    }

    /// The snapshot that a tag keeps; `None`: there is no such tag.
    pub async fn tag(&self, name: &str) -> Result<Option<Snapshot>> {
        let path = paths::tag(name);
        let Some(bytes) = self.store().get(&path).await? else { return Ok(None) };
        Snapshot::decode_any(&bytes).map(Some).map_err(|e| e.at(format!("{}/{path}", self.store().url())))
    }

    /// Names of the tags, in order.
    pub async fn tag_names(&self) -> Result<Vec<String>> {
        let entries = self.store().list(paths::TAG_DIR).await?;
        let mut names: Vec<String> = entries.iter().filter_map(|e| Some(e.name.strip_prefix("tag-")?.to_owned())).collect();
        names.sort_unstable();
        Ok(names)
    }
}

fn entries(meta: &ManifestMeta) -> u64 {
    u64::try_from(meta.added.saturating_add(meta.deleted)).unwrap_or(u64::MAX)
}
