//! Manifest lists, manifests and index manifests: read once each, and looked at.

use std::sync::Arc;

use super::{Bounds, DataFile, Facts, Known, Missing, Owner, Walk};
use crate::error::Result;
use crate::format::paimon::manifest::{self, EntryKind, ManifestEntry, ManifestMeta};
use crate::format::paimon::paths;
use crate::format::paimon::row;
use crate::maintain::finding::{Check, Findings};
use crate::maintain::get;
use crate::schema::Scalar;

impl Walk<'_> {
    /// An object of `manifest/`. None: it is not there, which is remembered.
    async fn named(&mut self, check: Check, name: &str, owner: &Owner) -> Result<Option<bytes::Bytes>> {
        let path = paths::manifest(name);
        self.found.referenced.insert(name.to_owned());
        let bytes = get(self.store, &path).await?;
        if bytes.is_none() {
            self.is_missing(check, path, owner);
        }
        Ok(bytes)
    }

    fn is_missing(&mut self, check: Check, path: String, owner: &Owner) {
        let missing = || Missing { check, path: path.clone(), owner: Owner::default() };
        self.found.missing.entry(path.clone()).or_insert_with(missing).owner.join(owner);
    }

    /// A manifest list. None: it is missing or damaged.
    pub(super) async fn list(
        &mut self,
        name: &str,
        size: Option<u64>,
        owner: &Owner,
        findings: &mut Findings,
    ) -> Result<Option<Vec<ManifestMeta>>> {
        let Some(bytes) = self.named(Check::ManifestLists, name, owner).await? else { return Ok(None) };
        findings.look(Check::ManifestLists, 1);
        if let Some(told) = size.filter(|told| *told != bytes.len() as u64) {
            let what = format!("{} says that it has {told} bytes, and it has {}", owner.place(), bytes.len());
            findings.find(Check::ManifestLists, paths::manifest(name), owner.snapshot, what);
        }
        match manifest::decode_list(&bytes) {
            Ok(metas) => Ok(Some(metas)),
            Err(e) => {
                findings.find(Check::ManifestLists, paths::manifest(name), owner.snapshot, e.to_string());
                Ok(None)
            }
        }
    }

    /// The entries of these manifests, in order. None: one is missing or damaged.
    pub(super) async fn entries(
        &mut self,
        metas: &[ManifestMeta],
        owner: &Owner,
        findings: &mut Findings,
    ) -> Result<Option<Vec<(EntryKind, usize)>>> {
        let mut all = Some(Vec::new());
        for meta in metas {
            // The others are looked at all the same.
            match (self.manifest(meta, owner, findings).await?, &mut all) {
                (Some(known), Some(all)) => all.extend_from_slice(&known.entries),
                _ => all = None,
            }
        }
        Ok(all)
    }

    async fn manifest(&mut self, meta: &ManifestMeta, owner: &Owner, findings: &mut Findings) -> Result<Option<Arc<Known>>> {
        let known = match self.known.get(&meta.name) {
            Some(known) => known.clone(),
            None => {
                let known = self.read(meta, owner, findings).await?;
                self.known.insert(meta.name.clone(), known.clone());
                known
            }
        };
        let Some(known) = known else {
            let path = paths::manifest(&meta.name);
            if self.found.missing.contains_key(&path) {
                self.is_missing(Check::Manifests, path, owner);
            }
            return Ok(None);
        };
        if self.told.get(&meta.name) != Some(meta) {
            self.compare(meta, &known.facts, owner, findings);
            self.told.insert(meta.name.clone(), meta.clone());
        }
        Ok(Some(known))
    }

    async fn read(&mut self, meta: &ManifestMeta, owner: &Owner, findings: &mut Findings) -> Result<Option<Arc<Known>>> {
        let Some(bytes) = self.named(Check::Manifests, &meta.name, owner).await? else { return Ok(None) };
        findings.look(Check::Manifests, 1);
        let place = paths::manifest(&meta.name);
        let entries = match manifest::decode_manifest(&bytes) {
            Ok(entries) => entries,
            Err(e) => {
                findings.find(Check::Manifests, place, owner.snapshot, e.to_string());
                return Ok(None);
            }
        };
        let count = |kind| entries.iter().filter(|e| e.kind == kind).count() as i64;
        let facts = Facts {
            size: i64::try_from(bytes.len()).unwrap_or(i64::MAX),
            added: count(EntryKind::Add),
            deleted: count(EntryKind::Delete),
            buckets: range(entries.iter().map(|e| e.bucket)),
            levels: range(entries.iter().map(|e| e.file.level)),
            partitions: self.bounds(&entries, &place, owner, findings),
        };
        let mut short = Vec::with_capacity(entries.len());
        for entry in entries {
            short.push((entry.kind, self.file(entry, &place, owner, findings)));
        }
        Ok(Some(Arc::new(Known { entries: short, facts })))
    }

    /// Bounds of the partition values. None: the types are not known, or an entry's bytes are no partition.
    fn bounds(&self, entries: &[ManifestEntry], place: &str, owner: &Owner, findings: &mut Findings) -> Option<Bounds> {
        let mut bounds: Bounds = self.shape.partition_types()?.iter().map(|_| (None, None, false)).collect();
        for entry in entries {
            let values = match self.shape.partition_of(entry)? {
                Ok(values) => values,
                Err(e) => {
                    let what = format!("the partition of the file {} cannot be read: {e}", entry.file.name);
                    findings.find(Check::Manifests, place, owner.snapshot, what);
                    return None;
                }
            };
            for ((least, greatest, null), value) in bounds.iter_mut().zip(values) {
                let Some(value) = value else {
                    *null = true;
                    continue;
                };
                if least.as_ref().is_none_or(|l| value < *l) {
                    *least = Some(value.clone());
                }
                if greatest.as_ref().is_none_or(|g| value > *g) {
                    *greatest = Some(value);
                }
            }
        }
        Some(bounds)
    }

    /// The number of the entry's file; looks at it when it is new.
    fn file(&mut self, entry: ManifestEntry, place: &str, owner: &Owner, findings: &mut Findings) -> usize {
        let identity = entry.identity();
        if let Some(known) = self.by_identity.get(&identity).copied() {
            let facts = &self.found.files[known];
            if (facts.size, facts.rows) != (entry.file.size, entry.file.rows) {
                let what = format!(
                    "the file {} has {} bytes and {} rows here, and {} bytes and {} rows in another manifest",
                    facts.name, entry.file.size, entry.file.rows, facts.size, facts.rows
                );
                findings.find(Check::Manifests, place, owner.snapshot, what);
            }
            return known;
        }
        let f = &entry.file;
        let mut wrong = |what: String| findings.find(Check::DataFiles, place, owner.snapshot, format!("the file {}: {what}", f.name));
        if f.size < 0 || f.rows < 0 {
            wrong(format!("it has {} bytes and {} rows", f.size, f.rows));
        }
        if !u64::try_from(f.schema_id).is_ok_and(|id| self.shape.ids.contains(&id)) {
            wrong(format!("it was written under schema {}, which does not exist", f.schema_id));
        }
        if let Some(nulls) = f.value_stats.nulls.iter().flatten().find(|n| !(0..=f.rows).contains(*n)) {
            wrong(format!("its statistics count {nulls} nulls in {} rows", f.rows));
        }
        if let (Ok(min), Ok(max)) = (row::arity(&f.value_stats.min), row::arity(&f.value_stats.max))
            && min != max
        {
            wrong(format!("its statistics have {min} minima and {max} maxima"));
        }
        let dir = self.shape.dir_of(&entry.partition, entry.bucket);
        let number = self.found.files.len();
        self.found.referenced.insert(f.name.clone());
        self.found.referenced.extend(f.extra_files.iter().cloned());
        self.found.files.push(DataFile {
            path: dir.map(|dir| format!("{dir}/{}", f.name)),
            external: f.external_path.is_some(),
            size: f.size,
            rows: f.rows,
            extra: f.extra_files.clone(),
            name: entry.file.name,
            owner: Owner::default(),
        });
        self.by_identity.insert(identity, number);
        number
    }

    /// What a manifest list says of a manifest: readers skip manifests by it.
    fn compare(&self, meta: &ManifestMeta, facts: &Facts, owner: &Owner, findings: &mut Findings) {
        let mut wrong = |what: String| {
            let what = format!("{what}, as a list of {} says it", owner.place());
            findings.find(Check::Manifests, paths::manifest(&meta.name), owner.snapshot, what);
        };
        if meta.size != facts.size {
            wrong(format!("it has {} bytes and not {}", facts.size, meta.size));
        }
        if (meta.added, meta.deleted) != (facts.added, facts.deleted) {
            wrong(format!("it adds {} files and removes {}, and not {} and {}", facts.added, facts.deleted, meta.added, meta.deleted));
        }
        for (what, told, is) in [("buckets", meta.buckets, facts.buckets), ("levels", meta.levels, facts.levels)] {
            if let (Some(told), Some(is)) = (told, is)
                && (told.0 > is.0 || told.1 < is.1)
            {
                wrong(format!("its {what} go from {} to {}, and not from {} to {}", is.0, is.1, told.0, told.1));
            }
        }
        let (Some(types), Some(bounds)) = (self.shape.partition_types(), &facts.partitions) else { return };
        let stats = &meta.partition_stats;
        let (Ok(min), Ok(max)) = (row::decode(&stats.min, &types), row::decode(&stats.max, &types)) else {
            wrong("its partition statistics cannot be read, and are not what they are".to_owned());
            return;
        };
        for (i, (least, greatest, null)) in bounds.iter().enumerate() {
            let told = |values: &[Option<Scalar>]| values.get(i).cloned().flatten();
            let outside = |value: &Option<Scalar>, told: Option<Scalar>, beyond: fn(&Scalar, &Scalar) -> bool| match (value, told) {
                (Some(value), Some(told)) => beyond(value, &told),
                (Some(_), None) => true,
                (None, _) => false,
            };
            if outside(least, told(&min), |v, t| v < t) || outside(greatest, told(&max), |v, t| v > t) {
                wrong(format!(
                    "partition column {i} goes from {least:?} to {greatest:?}, and not from {:?} to {:?}",
                    told(&min),
                    told(&max)
                ));
            }
            if *null && stats.nulls.get(i).copied().flatten() == Some(0) {
                wrong(format!("partition column {i} holds nulls, and not none"));
            }
        }
    }

    /// Names of the index files in an index manifest.
    pub(super) async fn index_names(&mut self, name: &str, owner: &Owner, findings: &mut Findings) -> Result<Vec<String>> {
        if let Some(known) = self.indexes.get(name) {
            return Ok(known.clone());
        }
        let Some(bytes) = self.named(Check::IndexFiles, name, owner).await? else { return Ok(Vec::new()) };
        let names = manifest::decode_index_names(&bytes).unwrap_or_else(|e| {
            findings.find(Check::IndexFiles, paths::manifest(name), owner.snapshot, e.to_string());
            Vec::new()
        });
        self.indexes.insert(name.to_owned(), names.clone());
        Ok(names)
    }
}

fn range(values: impl Iterator<Item = i32> + Clone) -> Option<(i32, i32)> {
    values.clone().min().zip(values.max())
}
