//! Running sequence numbers of buckets, and that a partition has one number of buckets.
//!
//! Readers go through the files of a bucket by their least sequence number, so a file's numbers begin above every number that its bucket
//! has had at the head that the commit is built on. Numbers stand in manifests only: they are given when a commit is staged, again after
//! each lost race. What is known of live files is kept from one commit to the next and moved on by what newer snapshots add and remove;
//! only what was never looked at is read from the manifests that may speak of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use futures::{StreamExt as _, TryStreamExt as _};

use super::super::manifest::{EntryKind, ManifestEntry, ManifestMeta};
use super::super::options::BucketOptions;
use super::super::paths::PaimonLayout;
use super::super::schema::TableSchema;
use super::super::snapshot::Snapshot;
use super::PaimonLog;
use super::bounds::Bounds;
use crate::error::{Error, Result};
use crate::format::{Digest, Head};
use crate::schema::Scalar;

/// So many manifests are read at once.
const READ_AT_ONCE: usize = 8;
/// So many partitions are remembered; of a table with more, those of one commit.
const REMEMBERED: usize = 200_000;
/// A head that is further on than this is not followed snapshot by snapshot.
const FOLLOWED: u64 = 256;

/// What is known of the live files of partitions, as of one snapshot.
#[derive(Debug, Default)]
pub(super) struct Known {
    as_of: Option<At>,
    partitions: HashMap<Vec<u8>, Partition>,
    /// Every partition of the table is in `partitions`.
    all: bool,
    /// Manifests read since all of them were last read.
    read: usize,
    /// What was staged last: if it is the next head, nothing is read.
    staged: Option<(At, Vec<Fact>)>,
}

/// A snapshot: id (0: none) and the SHA-256 of its bytes.
type At = (u64, Option<Digest>);

#[derive(Debug, Default)]
struct Partition {
    /// Total number of buckets -> live files that were written under it.
    live: BTreeMap<i32, i64>,
    /// Bucket -> greatest sequence number that any of its files has had.
    last: HashMap<i32, i64>,
}

/// What one entry of a manifest says.
#[derive(Debug)]
struct Fact {
    partition: Vec<u8>,
    bucket: i32,
    total: i32,
    last: i64,
    adds: bool,
}

impl From<&ManifestEntry> for Fact {
    fn from(e: &ManifestEntry) -> Fact {
        let ManifestEntry { partition, bucket, total_buckets, file, kind } = e;
        Fact {
            partition: partition.clone(),
            bucket: *bucket,
            total: *total_buckets,
            last: file.max_sequence,
            adds: *kind == EntryKind::Add,
        }
    }
}

impl Partition {
    fn take(&mut self, fact: &Fact) {
        let files = self.live.entry(fact.total).or_default();
        *files += if fact.adds { 1 } else { -1 };
        if fact.adds {
            // A file that is gone counts too: numbers need not be without gaps.
            let last = self.last.entry(fact.bucket).or_insert(fact.last);
            *last = fact.last.max(*last);
        }
    }
}

impl Known {
    /// Takes in what a snapshot adds and removes.
    fn take(&mut self, facts: &[Fact]) {
        for fact in facts {
            match self.partitions.get_mut(&fact.partition) {
                Some(partition) => partition.take(fact),
                None if self.all => self.partitions.entry(fact.partition.clone()).or_default().take(fact),
                None => {}
            }
        }
    }

    fn forget_others(&mut self, touched: &HashSet<&[u8]>) {
        if self.partitions.len() > REMEMBERED {
            self.partitions.retain(|p, _| touched.contains(p.as_slice()));
            self.all = false;
        }
    }
}

impl PaimonLog {
    /// Checks that the touched partitions have one number of buckets, gives the new files their sequence numbers and returns the first one
    /// of each. Nothing is looked at for a table without buckets.
    ///
    /// `Conflict`: live files of a touched partition are spread over another number of buckets.
    pub(super) async fn number(
        &self,
        head: &Head,
        base: Option<&Snapshot>,
        manifests: &[ManifestMeta],
        newest: &TableSchema,
        entries: &mut [(ManifestEntry, Vec<Option<Scalar>>)],
    ) -> Result<Vec<i64>> {
        let Some(options) = newest.options.buckets.as_ref().filter(|_| !entries.is_empty()) else { return Ok(Vec::new()) };
        // Taken out of the lock while files are read: if this is dropped half-way, the next one begins anew.
        let known = std::mem::take(&mut self.state().buckets);
        let mut known = self.followed(known, head, base).await?;
        let touched: HashMap<&[u8], &[Option<Scalar>]> = entries.iter().map(|(e, p)| (e.partition.as_slice(), p.as_slice())).collect();
        self.look_at(&mut known, manifests, newest, &touched).await?;
        let numbered = numbers(&known, options, entries);
        known.forget_others(&touched.keys().copied().collect());
        self.state().buckets = known;
        let firsts = numbered.map_err(|(index, e)| match entries[index].1.as_slice() {
            [] => e,
            partition => e.at(self.layout().partition_label(partition)),
        })?;
        for ((entry, _), first) in entries.iter_mut().zip(&firsts) {
            entry.file.min_sequence = *first;
            entry.file.max_sequence = first.saturating_add((entry.file.rows - 1).max(0));
        }
        Ok(firsts)
    }

    /// Notes what the snapshot `at` will have added if it is published.
    pub(super) fn remember(&self, at: At, entries: &[(ManifestEntry, Vec<Option<Scalar>>)]) {
        let mut state = self.state();
        if state.buckets.as_of.is_some() {
            state.buckets.staged = Some((at, entries.iter().map(|(e, _)| Fact::from(e)).collect()));
        }
    }

    /// What is known, moved on to `head`; nothing when that cannot be done.
    async fn followed(&self, mut known: Known, head: &Head, base: Option<&Snapshot>) -> Result<Known> {
        let to: At = (head.id, head.sha256);
        let fresh = || Known { as_of: Some(to), ..Known::default() };
        let Some((id, sha256)) = known.as_of else { return Ok(fresh()) };
        let staged = known.staged.take();
        if (id, sha256) == to {
            return Ok(known);
        }
        if id >= head.id || head.id - id > FOLLOWED {
            return Ok(fresh());
        }
        known.as_of = Some(to);
        if let Some((_, facts)) = staged.filter(|(at, _)| head.id == id + 1 && *at == to) {
            known.take(&facts);
            return Ok(known);
        }
        // Is it still the snapshot that this is known of? Nobody may have taken it away and put another one there.
        if id > 0 && self.snapshot_bytes(id).await?.map(|b| Digest::of(&b)) != sha256 {
            return Ok(fresh());
        }
        for next in id + 1..=head.id {
            let read = if next == head.id { base.cloned() } else { self.snapshot(next).await? };
            let Some(snapshot) = read else { return Ok(fresh()) };
            let delta = self.read_list(&snapshot.delta_manifest_list).await?;
            known.take(&self.facts(delta.iter().map(name).collect()).await?);
        }
        Ok(known)
    }

    /// Reads what is not known of the touched partitions.
    async fn look_at(
        &self,
        known: &mut Known,
        manifests: &[ManifestMeta],
        newest: &TableSchema,
        touched: &HashMap<&[u8], &[Option<Scalar>]>,
    ) -> Result<()> {
        let missing: Vec<_> = touched.iter().filter(|(p, _)| !known.partitions.contains_key(**p)).collect();
        if !known.all && !missing.is_empty() {
            let types = PaimonLayout::new(&newest.schema, &newest.options).partition_types();
            let some: Vec<&ManifestMeta> = manifests
                .iter()
                .filter(|m| {
                    let bounds = Bounds::of(m, &types);
                    missing.iter().any(|(_, values)| bounds.may_hold(values))
                })
                .collect();
            // Bit by bit is only cheaper than everything at once as long as it is less in all.
            if known.read + some.len() >= manifests.len() {
                (known.partitions, known.all, known.read) = (HashMap::new(), true, 0);
                known.take(&self.facts(manifests.iter().map(name).collect()).await?);
            } else {
                known.read += some.len();
                let facts = self.facts(some.into_iter().map(name).collect()).await?;
                let wanted: HashSet<&[u8]> = missing.iter().map(|(p, _)| **p).collect();
                for fact in facts.iter().filter(|f| wanted.contains(f.partition.as_slice())) {
                    known.partitions.entry(fact.partition.clone()).or_default().take(fact);
                }
            }
        }
        for partition in touched.keys().filter(|p| !known.partitions.contains_key(**p)).collect::<Vec<_>>() {
            known.partitions.insert(partition.to_vec(), Partition::default());
        }
        Ok(())
    }

    /// What these manifests say, entry by entry.
    async fn facts(&self, manifests: Vec<String>) -> Result<Vec<Fact>> {
        let read = futures::stream::iter(manifests).map(|manifest| async move {
            let entries = self.read_manifest(&manifest).await?;
            Ok::<_, Error>(entries.iter().map(Fact::from).collect::<Vec<_>>())
        });
        let facts: Vec<Vec<Fact>> = read.buffered(READ_AT_ONCE).try_collect().await?;
        Ok(facts.into_iter().flatten().collect())
    }
}

fn name(meta: &ManifestMeta) -> String {
    meta.name.clone()
}

/// The first sequence number of each new file; with an error goes the index of the entry that does not fit.
fn numbers(
    known: &Known,
    options: &BucketOptions,
    entries: &[(ManifestEntry, Vec<Option<Scalar>>)],
) -> std::result::Result<Vec<i64>, (usize, Error)> {
    let mut next: HashMap<(&[u8], i32), i64> = HashMap::new();
    let mut firsts = Vec::with_capacity(entries.len());
    for (i, (entry, _)) in entries.iter().enumerate() {
        let partition = known.partitions.get(&entry.partition);
        let others = partition.and_then(|p| p.live.iter().find(|(total, files)| **files > 0 && **total != options.total));
        if let Some((total, files)) = others {
            let what = format!("{files} live files are spread over {total} buckets, and the table's `bucket` is now {}", options.total);
            let hint = "rewrite the partition with the engine that changed the option (INSERT OVERWRITE); or change it back, give the pending checkpoint up with \
                        --abandon N, and its rows are written again";
            return Err((i, Error::conflict(what).hint(hint)));
        }
        if !options.ordered {
            firsts.push(0);
            continue;
        }
        let full = || (i, Error::data(format!("bucket {} has no sequence numbers left", entry.bucket)).hint("rewrite the partition"));
        let first = match next.get(&(entry.partition.as_slice(), entry.bucket)) {
            Some(next) => *next,
            None => match partition.and_then(|p| p.last.get(&entry.bucket)) {
                Some(last) => last.checked_add(1).ok_or_else(full)?,
                None => 0,
            },
        };
        let after = first.checked_add(entry.file.rows.max(1)).ok_or_else(full)?;
        next.insert((&entry.partition, entry.bucket), after);
        firsts.push(first);
    }
    Ok(firsts)
}

/// Orders the live files of a table as its readers do: buckets by their first file, in each the files by their least sequence number.
pub(super) fn order(entries: &mut [ManifestEntry]) {
    let mut ranks: HashMap<(Vec<u8>, i32), usize> = HashMap::new();
    for entry in entries.iter() {
        let next = ranks.len();
        ranks.entry((entry.partition.clone(), entry.bucket)).or_insert(next);
    }
    entries.sort_by_cached_key(|e| (ranks.get(&(e.partition.clone(), e.bucket)).copied(), e.file.min_sequence));
}

#[cfg(test)]
mod tests;
