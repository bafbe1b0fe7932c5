//! Merging of manifests: what keeps the base list short, and with it the cost of a commit.
//!
//! [`plan`] is pure: it looks at a list and says which consecutive manifests become one. Merging is tiered by size: a manifest is rewritten
//! only together with others that make the result several times as big, so every entry is rewritten a few times in a table's life, one
//! commit rewrites about `manifest.target-file-size` at the most, and the list stays as short as the logarithm of what it holds.
//!
//! [`PaimonLog::merged`] does what the plan says. Entries keep their order. What is added and removed again within the group goes; a removal
//! of something that an older manifest adds stays. Where removals have piled up to `manifest.full-compaction-threshold-size`, the whole
//! list is gone through, and all of them meet what they remove.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::super::manifest::{self, EntryKind, FileIdentity, ManifestEntry, ManifestMeta, encode_manifest};
use super::super::options::Merging;
use super::super::paths::{self, PaimonLayout};
use super::super::row;
use super::super::schema::TableSchema;
use super::super::stats;
use super::PaimonLog;
use super::bounds::Bounds;
use crate::env::Rule;
use crate::error::{Error, Result};
use crate::schema::{DataType, Scalar};

/// What is to be merged in a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    Nothing,
    /// These become one, or none where all of it cancels.
    Group(Range<usize>),
    /// The whole list: its removals meet what they remove.
    Whole,
}

/// A merge that was done: these consecutive manifests of a list are those now.
#[derive(Clone, Debug)]
pub(super) struct Merged {
    inputs: Vec<String>,
    outputs: Vec<ManifestMeta>,
}

impl Merged {
    /// The list with the merge in it; none: it does not hold the inputs any more, side by side.
    fn fitted_into(&self, list: &[ManifestMeta]) -> Option<Vec<ManifestMeta>> {
        let first = self.inputs.first()?;
        let at = list.iter().position(|m| m.name == *first)?;
        let same = list.get(at..at + self.inputs.len())?.iter().map(|m| &m.name).eq(&self.inputs);
        same.then(|| [&list[..at], &self.outputs, &list[at + self.inputs.len()..]].concat())
    }
}

/// Of one commit: lost races use it again.
#[derive(Debug, Default)]
pub(super) struct MergeWork {
    /// Was it looked at? A retry merges nothing that the first try did not: it is in a hurry.
    planned: bool,
    merged: Option<Merged>,
}

/// Manifests of ours that a merge will want, so that it need not read them. Encoded.
#[derive(Debug, Default)]
pub(super) struct Recent {
    names: VecDeque<String>,
    held: HashMap<String, Bytes>,
    bytes: usize,
}

impl Recent {
    /// Bytes that are held at most.
    const MOST: usize = 4 << 20;

    pub(super) fn insert(&mut self, name: &str, bytes: &Bytes) {
        if bytes.len() > Self::MOST / 8 || self.held.contains_key(name) {
            return;
        }
        self.bytes += bytes.len();
        self.names.push_back(name.to_owned());
        self.held.insert(name.to_owned(), bytes.clone());
        while self.bytes > Self::MOST
            && let Some(oldest) = self.names.pop_front()
        {
            self.bytes -= self.held.remove(&oldest).map_or(0, |b| b.len());
        }
    }
    fn get(&self, name: &str) -> Option<Bytes> {
        self.held.get(name).cloned()
    }
}

fn size(meta: &ManifestMeta) -> u64 {
    u64::try_from(meta.size).unwrap_or(0)
}

/// A list of so many times the minimum is merged step by step, not in one commit.
const STEP: usize = 4;

/// What to merge in `list`. `barred` are manifests that cannot be rewritten.
pub(super) fn plan(list: &[ManifestMeta], rules: &Merging, barred: &BTreeSet<String>) -> Plan {
    let big = |m: &ManifestMeta| size(m) >= rules.target / 2;
    let removes = |m: &ManifestMeta| m.deleted > 0;
    if list.iter().any(removes) && !list.iter().any(|m| barred.contains(&m.name)) {
        let changing: u64 = list.iter().filter(|m| removes(m) || !big(m)).map(size).sum();
        if changing >= rules.full_threshold {
            return Plan::Whole;
        }
    }
    let mut start = 0;
    for stretch in list.split_inclusive(|m| big(m) || barred.contains(&m.name)) {
        let end = start + stretch.len();
        let closed = stretch.last().is_some_and(|m| big(m) || barred.contains(&m.name));
        let small = &stretch[..stretch.len() - usize::from(closed)];
        if let Some(found) = packed(small, rules).or_else(|| tiered(small, rules)) {
            return Plan::Group(start + found.start..start + found.end);
        }
        start = end;
    }
    Plan::Nothing
}

/// The oldest manifests that together come to the target: what is made of them is not merged again.
fn packed(small: &[ManifestMeta], rules: &Merging) -> Option<Range<usize>> {
    let enough = rules.target / 8 * 5;
    let mut sum = 0u64;
    for (i, meta) in small.iter().enumerate() {
        sum = sum.saturating_add(size(meta));
        if sum >= enough && i > 0 {
            // A list that nobody has ever merged: the first part of it, and more with the next commits.
            return Some(0..(i + 1).min(most(rules)));
        }
    }
    None
}

fn most(rules: &Merging) -> usize {
    rules.min_count.max(2).saturating_mul(STEP)
}

/// Neighbours of about the same size, smallest first, when there are enough of them and none of them makes up most of the sum.
fn tiered(small: &[ManifestMeta], rules: &Merging) -> Option<Range<usize>> {
    let least = rules.min_count.max(2);
    if small.len() < least {
        return None;
    }
    let factor = u64::try_from(least / 4).unwrap_or(u64::MAX).clamp(2, 8);
    let class = |m: &ManifestMeta| size(m).max(1).ilog2();
    let classes: BTreeSet<u32> = small.iter().map(class).collect();
    for up_to in classes {
        let mut start = 0;
        for run in small.split(|m| class(m) > up_to) {
            for (i, part) in run.chunks(most(rules)).enumerate() {
                let from = start + i * most(rules);
                let (sum, max) = (part.iter().map(size).sum::<u64>(), part.iter().map(size).max().unwrap_or(0));
                if part.len() >= least && sum >= max.saturating_mul(factor) {
                    return Some(from..from + part.len());
                }
            }
            start += run.len() + 1;
        }
    }
    None
}

/// Takes out what is added and then removed. None: something is added twice, so that the table is damaged and better left as it is.
fn cancel(entries: Vec<ManifestEntry>) -> Option<Vec<ManifestEntry>> {
    if entries.iter().all(|e| e.kind == EntryKind::Add) {
        let mut seen = HashSet::with_capacity(entries.len());
        return entries.iter().all(|e| seen.insert(e.identity())).then_some(entries);
    }
    let mut kept: Vec<Option<ManifestEntry>> = Vec::with_capacity(entries.len());
    let mut added: HashMap<FileIdentity, usize> = HashMap::new();
    for entry in entries {
        let identity = entry.identity();
        match (entry.kind, added.remove(&identity)) {
            (EntryKind::Add, None) => {
                added.insert(identity, kept.len());
                kept.push(Some(entry));
            }
            (EntryKind::Add, Some(_)) => return None,
            (EntryKind::Delete, Some(at)) => kept[at] = None,
            (EntryKind::Delete, None) => kept.push(Some(entry)),
        }
    }
    Some(kept.into_iter().flatten().collect())
}

/// The list line of a manifest that holds these entries.
pub(super) fn describe(name: String, bytes: usize, entries: &[ManifestEntry], types: &[DataType]) -> Result<ManifestMeta> {
    let count = |kind| entries.iter().filter(|e| e.kind == kind).count();
    let signed = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let mut partitions: HashMap<&[u8], Vec<Option<Scalar>>> = HashMap::new();
    for entry in entries {
        if !partitions.contains_key(entry.partition.as_slice()) {
            partitions.insert(&entry.partition, row::decode(&entry.partition, types)?);
        }
    }
    let rows = entries.iter().map(|e| partitions.get(e.partition.as_slice()).map_or(&[][..], Vec::as_slice));
    let range = |of: fn(&ManifestEntry) -> i32| entries.iter().map(of).min().zip(entries.iter().map(of).max());
    // Row ids only prune where every file has them.
    let ids = entries.iter().map(|e| e.file.first_row_id.map(|first| (first, first.saturating_add(e.file.rows - 1))));
    let ids: Option<Vec<(i64, i64)>> = ids.collect();
    Ok(ManifestMeta {
        name,
        size: signed(bytes),
        added: signed(count(EntryKind::Add)),
        deleted: signed(count(EntryKind::Delete)),
        partition_stats: stats::of_partitions(types, rows)?,
        schema_id: entries.iter().map(|e| e.file.schema_id).max().unwrap_or(0),
        buckets: range(|e| e.bucket),
        levels: range(|e| e.file.level),
        row_ids: ids.and_then(|ids| ids.iter().map(|i| i.0).min().zip(ids.iter().map(|i| i.1).max())),
    })
}

/// What a group becomes.
enum Rewritten {
    /// Its entries as one manifest, which may have none.
    Entries(Vec<ManifestEntry>, Vec<u8>),
    /// It cannot be rewritten: something is added twice, or a manifest has fields that we would drop.
    Not,
}

impl PaimonLog {
    /// The base list to build on: `known`, merged where that is due.
    pub(super) async fn merged(
        &self,
        known: &Arc<Vec<ManifestMeta>>,
        newest: &TableSchema,
        work: &mut MergeWork,
    ) -> Result<Arc<Vec<ManifestMeta>>> {
        if work.planned {
            let again = work.merged.as_ref().and_then(|m| m.fitted_into(known));
            return Ok(again.map_or_else(|| known.clone(), Arc::new));
        }
        work.planned = true;
        let next = {
            let mut state = self.state();
            state.barred.retain(|name| known.iter().any(|m| m.name == *name));
            plan(known, &newest.options.merging, &state.barred)
        };
        let (range, outputs) = match next {
            Plan::Nothing => return Ok(known.clone()),
            Plan::Group(range) => (range.clone(), self.merge_group(&known[range], newest).await?),
            Plan::Whole => (0..known.len(), self.merge_whole(known, newest).await?),
        };
        let inputs: Vec<String> = known[range].iter().map(|m| m.name.clone()).collect();
        let Some(outputs) = outputs else {
            self.state().barred.extend(inputs);
            return Ok(known.clone());
        };
        tracing::debug!(table = self.store.url(), from = inputs.len(), to = outputs.len(), "manifests merged");
        let merged = Merged { inputs, outputs };
        let list = merged.fitted_into(known).ok_or_else(|| Error::internal("a merge does not fit the list that it was made of"))?;
        work.merged = Some(merged);
        Ok(Arc::new(list))
    }

    /// None: they cannot be rewritten.
    async fn merge_group(&self, group: &[ManifestMeta], newest: &TableSchema) -> Result<Option<Vec<ManifestMeta>>> {
        let manifests = futures::future::try_join_all(group.iter().map(|m| self.manifest_bytes(&m.name))).await?;
        let (codec, sync, drop_one) = (newest.options.manifest_codec, self.sync(), self.store.env().broken(Rule::MergeAll));
        let rewritten = self.store.env().cpu(move || {
            let mut entries = Vec::new();
            for bytes in &manifests {
                match manifest::decode_whole(bytes)? {
                    Some(some) => entries.extend(some),
                    None => return Ok(Rewritten::Not),
                }
            }
            let Some(mut entries) = cancel(entries) else { return Ok(Rewritten::Not) };
            if drop_one {
                entries.pop();
            }
            let bytes = encode_manifest(&entries, codec, sync)?;
            Ok::<_, Error>(Rewritten::Entries(entries, bytes))
        });
        match rewritten.await.map_err(|e| e.at(self.store.place(paths::MANIFEST_DIR)))? {
            Rewritten::Not => Ok(None),
            Rewritten::Entries(entries, _) if entries.is_empty() => Ok(Some(Vec::new())),
            Rewritten::Entries(entries, bytes) => {
                let types = PaimonLayout::new(&newest.schema, &newest.options).partition_types();
                let name = format!("manifest-{}-0", self.store.env().uuid());
                Ok(Some(vec![self.put_manifest(name, bytes, &entries, &types).await?]))
            }
        }
    }

    async fn put_manifest(&self, name: String, bytes: Vec<u8>, entries: &[ManifestEntry], types: &[DataType]) -> Result<ManifestMeta> {
        let bytes = Bytes::from(bytes);
        let meta = describe(name, bytes.len(), entries, types)?;
        self.store.put_new(&paths::manifest(&meta.name), bytes.clone()).await?;
        self.state().recent.insert(&meta.name, &bytes);
        Ok(meta)
    }

    /// Goes through the list and leaves out what is removed, and the removals. Manifests that are big and hold nothing of it stay as they
    /// are. None: it cannot be done.
    async fn merge_whole(&self, list: &[ManifestMeta], newest: &TableSchema) -> Result<Option<Vec<ManifestMeta>>> {
        let types = PaimonLayout::new(&newest.schema, &newest.options).partition_types();
        // How often each file is removed. Only these are kept in memory.
        let mut removed: HashMap<FileIdentity, u32> = HashMap::new();
        for meta in list.iter().filter(|m| m.deleted > 0) {
            let Some(entries) = self.read_whole(&meta.name).await? else { return Ok(None) };
            for entry in entries.iter().filter(|e| e.kind == EntryKind::Delete) {
                *removed.entry(entry.identity()).or_default() += 1;
            }
        }
        let places: BTreeSet<(&[u8], i32)> = removed.keys().map(|f| (f.partition(), f.bucket())).collect();
        let places = places.into_iter().map(|(partition, bucket)| Ok((row::decode(partition, &types)?, bucket)));
        let places = places.collect::<Result<Vec<_>>>()?;
        let touched = |meta: &ManifestMeta| {
            let bounds = Bounds::of(meta, &types);
            places.iter().any(|(partition, bucket)| bounds.may_hold_bucket(*bucket) && bounds.may_hold(partition))
        };
        let mut open: HashSet<FileIdentity> = HashSet::new();
        let target = newest.options.merging.target;
        let (mut out, mut pack, mut bytes) = (Vec::new(), Vec::new(), 0u64);
        for meta in list {
            let stays = meta.deleted == 0 && size(meta) >= target / 2 && !touched(meta);
            if stays || (bytes > 0 && bytes + size(meta) > target) {
                self.flush(&mut pack, &mut out, newest, &types).await?;
                bytes = 0;
            }
            if stays {
                out.push(meta.clone());
                continue;
            }
            let Some(entries) = self.read_whole(&meta.name).await? else { return Ok(None) };
            let whole = entries.len().max(1) as u64;
            let before = pack.len();
            for entry in entries {
                let identity = entry.identity();
                match (entry.kind, removed.get_mut(&identity)) {
                    (EntryKind::Delete, _) if !open.remove(&identity) => return Ok(None), // of nothing: the table is damaged
                    (EntryKind::Delete, _) => {}
                    (EntryKind::Add, _) if open.contains(&identity) => return Ok(None), // twice
                    (EntryKind::Add, Some(left)) if *left > 0 => {
                        *left -= 1;
                        open.insert(identity);
                    }
                    (EntryKind::Add, _) => pack.push(entry),
                }
            }
            bytes += size(meta) * (pack.len() - before) as u64 / whole;
        }
        if !open.is_empty() {
            return Ok(None);
        }
        self.flush(&mut pack, &mut out, newest, &types).await?;
        Ok(Some(out))
    }

    async fn flush(
        &self,
        pack: &mut Vec<ManifestEntry>,
        out: &mut Vec<ManifestMeta>,
        newest: &TableSchema,
        types: &[DataType],
    ) -> Result<()> {
        let entries = std::mem::take(pack);
        if entries.is_empty() {
            return Ok(());
        }
        let (codec, sync) = (newest.options.manifest_codec, self.sync());
        let name = format!("manifest-{}-0", self.store.env().uuid());
        let (bytes, entries) = self.store.env().cpu(move || (encode_manifest(&entries, codec, sync), entries)).await;
        out.push(self.put_manifest(name, bytes?, &entries, types).await?);
        Ok(())
    }

    /// The entries of a manifest; none: it has fields that we do not know.
    async fn read_whole(&self, name: &str) -> Result<Option<Vec<ManifestEntry>>> {
        let bytes = self.manifest_bytes(name).await?;
        let decoded = self.store.env().cpu(move || manifest::decode_whole(&bytes)).await;
        decoded.map_err(|e| e.at(self.place(&paths::manifest(name))))
    }

    async fn manifest_bytes(&self, name: &str) -> Result<Bytes> {
        let held = self.state().recent.get(name);
        match held {
            Some(bytes) => Ok(bytes),
            None => self.meta_file(name).await,
        }
    }
}
