//! From a change to the one object to publish: validation, manifests, lists, snapshot.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use chrono::TimeZone as _;

use super::super::manifest::{EntryKind, FileMeta, ManifestEntry, ManifestMeta, encode_list, encode_manifest};
use super::super::options::BucketOptions;
use super::super::paths::{self, PaimonLayout};
use super::super::row;
use super::super::schema::TableSchema;
use super::super::snapshot::{CommitKind, Snapshot};
use super::super::stats::{self, RawStats};
use super::PaimonLog;
use super::merge::MergeWork;
use crate::error::{Error, Result};
use crate::format::{Change, CommitMessage, CommitUser, DataFile, Digest, END_OF_INPUT, Head, Staged, property};

/// The delta of the change that was staged last: it does not depend on the head (but for the sequence numbers of buckets), so that after a
/// lost race only the base list and the snapshot are made anew. And the manifests that were merged: they still stand for those that they
/// were made of.
#[derive(Debug, Default)]
pub(crate) struct PaimonWork {
    done: Option<(Key, Delta)>,
    merge: MergeWork,
}

#[derive(Clone, Debug, PartialEq)]
struct Key {
    user: CommitUser,
    identifier: i64,
    checkpoint: Option<Digest>,
    paths: Vec<String>,
    /// First sequence number of each file; empty: not given by the head.
    sequences: Vec<i64>,
}

#[derive(Clone, Debug)]
struct Delta {
    list: Named,
    manifests: Vec<ManifestMeta>,
    rows: i64,
}

#[derive(Clone, Debug)]
struct Named {
    name: String,
    size: u64,
}

/// Entries in one manifest at most; about 8 MiB.
const ENTRIES: usize = 20_000;

/// What both kinds of change come to.
struct Plan<'a> {
    key: Key,
    watermark: Option<i64>,
    properties: BTreeMap<String, String>,
    messages: &'a [CommitMessage],
}

impl<'a> Plan<'a> {
    fn of(change: &'a Change) -> Plan<'a> {
        match change {
            Change::Append(c) => {
                let mut properties = c.properties.clone();
                if let Some(digest) = c.checkpoint {
                    properties.insert(property::CHECKPOINT.to_owned(), digest.to_string());
                }
                let paths = c.files().map(|f| f.path.clone()).collect();
                let key = Key { user: c.user.clone(), identifier: c.identifier, checkpoint: c.checkpoint, paths, sequences: Vec::new() };
                Plan { key, watermark: c.watermark, properties, messages: &c.messages }
            }
            Change::Close { user, closed_at, properties } => {
                let mut properties = properties.clone();
                properties.insert(property::CLOSED_AT.to_owned(), closed_at.map_or_else(|| "none".to_owned(), |id| id.to_string()));
                let key = Key { user: user.clone(), identifier: END_OF_INPUT, checkpoint: None, paths: Vec::new(), sequences: Vec::new() };
                Plan { key, watermark: None, properties, messages: &[] }
            }
        }
    }
}

impl PaimonLog {
    pub(super) async fn stage_change(&self, head: &Head, change: &Change, work: &mut PaimonWork) -> Result<Staged> {
        let base = head.snapshot.as_ref().map(|bytes| self.decode(bytes, head.id)).transpose()?;
        // Java 1.4 writes 0 in every table; only where rows are tracked does it grow.
        if base.as_ref().and_then(|b| b.next_row_id).is_some_and(|id| id != 0) {
            return Err(
                Error::invalid("the table tracks row ids, which is not supported").hint("write to a table without `row-tracking.enabled`")
            );
        }
        let newest = self.schema_of(head.schema.id).await?;
        let mut plan = Plan::of(change);
        if !plan.messages.is_empty() {
            newest.options.check_writable()?; // somebody may have altered the table since it was opened
        }
        let mut entries = self.entries(&plan, &newest).await?;
        let known = self.lists_of(base.as_ref()).await?;
        plan.key.sequences = self.number(head, base.as_ref(), &known, &newest, &mut entries).await?;
        let uploaded = work.done.as_ref().filter(|(key, _)| *key == plan.key).map(|(_, delta)| delta.clone());
        let base_of = async |merge: &mut MergeWork| {
            let kept = self.merged(&known, &newest, merge).await?;
            Ok::<_, Error>((self.put_list(&kept, 0, &newest).await?, kept))
        };
        let ((base_list, kept), delta) = match uploaded {
            Some(delta) => (base_of(&mut work.merge).await?, delta),
            None => {
                let (list, delta) = futures::try_join!(base_of(&mut work.merge), self.put_delta(&entries, &newest))?;
                work.done = Some((plan.key.clone(), delta.clone()));
                (list, delta)
            }
        };
        let built_on = head.sha256.map_or_else(|| "none".to_owned(), |d| d.to_string());
        plan.properties.insert(property::BASE.to_owned(), format!("{built_on} {}", delta.list.name));
        let snapshot = self.snapshot_on(base.as_ref(), &newest, &plan, &base_list, &delta);
        let all: Vec<_> = kept.iter().chain(&delta.manifests).cloned().collect();
        // If it is published, the next commit on top of it need not read what this one wrote.
        self.state().lists = Some(([base_list.name, delta.list.name], Arc::new(all)));
        let bytes = Bytes::from(snapshot.encode()?);
        if newest.options.buckets.is_some() {
            self.remember((snapshot.id, Some(Digest::of(&bytes))), &entries);
        }
        Ok(Staged { id: snapshot.id, name: paths::snapshot(snapshot.id), bytes, files: plan.key.paths })
    }

    fn snapshot_on(&self, base: Option<&Snapshot>, newest: &TableSchema, plan: &Plan<'_>, base_list: &Named, delta: &Delta) -> Snapshot {
        let env = self.store.env();
        let schema_id = newest.schema.id;
        Snapshot {
            version: Snapshot::VERSION,
            uuid: Some(env.uuid().to_string()),
            id: base.map_or(0, |b| b.id) + 1,
            schema_id,
            base_manifest_list: base_list.name.clone(),
            base_manifest_list_size: Some(base_list.size),
            delta_manifest_list: delta.list.name.clone(),
            delta_manifest_list_size: Some(delta.list.size),
            changelog_manifest_list: None,
            changelog_manifest_list_size: None,
            index_manifest: base.and_then(|b| b.index_manifest.clone()),
            commit_user: plan.key.user.as_str().to_owned(),
            writer_version: Some(concat!("lakeward-", env!("CARGO_PKG_VERSION")).to_owned()),
            commit_identifier: plan.key.identifier,
            commit_kind: CommitKind::append(),
            time_millis: env.now_ms().max(base.map_or(0, |b| b.time_millis)),
            total_record_count: base.map_or(0, |b| b.total_record_count).saturating_add(delta.rows),
            delta_record_count: delta.rows,
            changelog_record_count: None,
            watermark: plan.watermark.max(base.and_then(|b| b.watermark)),
            statistics: base.filter(|b| b.schema_id == schema_id).and_then(|b| b.statistics.clone()),
            properties: Some(plan.properties.clone()).filter(|p| !p.is_empty()),
            next_row_id: base.and_then(|b| b.next_row_id),
        }
    }

    /// Checks every message and makes the entries of the manifest.
    async fn entries(&self, plan: &Plan<'_>, newest: &TableSchema) -> Result<Vec<(ManifestEntry, Vec<Option<crate::schema::Scalar>>)>> {
        let layout = PaimonLayout::new(&newest.schema, &newest.options);
        let types = layout.partition_types();
        let mut seen = HashSet::new();
        let mut entries = Vec::new();
        for message in plan.messages {
            check_message(message, &plan.key.user, newest.options.buckets.as_ref())?;
            let dir = layout.bucket_dir(&message.partition, message.bucket)?;
            let partition = row::encode(types.iter().zip(message.partition.iter().map(Option::as_ref)))
                .map_err(|e| Error::invalid("a commit message has a partition value of another type than the table's").because(e))?;
            for file in &message.files {
                let name =
                    file.path.strip_prefix(&dir).and_then(|rest| rest.strip_prefix('/')).filter(|n| !n.is_empty() && !n.contains('/'));
                let Some(name) = name else {
                    return Err(Error::invalid(format!("the file {} does not lie in {dir}, where readers look for it", file.path))
                        .hint("the table's partition columns or path options differ from those that the file was written under"));
                };
                if !seen.insert(&file.path) {
                    return Err(Error::invalid(format!("the file {} is committed twice", file.path)).hint("commit each message once"));
                }
                if file.schema_id > newest.schema.id {
                    let what = format!(
                        "the file {} was written under schema {}, newer than the table's {}",
                        file.path, file.schema_id, newest.schema.id
                    );
                    return Err(Error::invalid(what).hint("is this the table that it was written for?"));
                }
                let schema = self.schema_of(file.schema_id).await?;
                let entry = ManifestEntry {
                    kind: EntryKind::Add,
                    partition: partition.clone(),
                    bucket: message.bucket,
                    total_buckets: message.total_buckets,
                    file: file_meta(file, name, &schema)?,
                };
                entries.push((entry, message.partition.clone()));
            }
        }
        Ok(entries)
    }

    async fn put_delta(&self, entries: &[(ManifestEntry, Vec<Option<crate::schema::Scalar>>)], newest: &TableSchema) -> Result<Delta> {
        let types = PaimonLayout::new(&newest.schema, &newest.options).partition_types();
        let mut manifests = Vec::new();
        let mut uploads = Vec::new();
        let set = self.store.env().uuid();
        for (i, chunk) in entries.chunks(ENTRIES).enumerate() {
            let only: Vec<_> = chunk.iter().map(|(e, _)| e.clone()).collect();
            let bytes = encode_manifest(&only, newest.options.manifest_codec, self.sync())?;
            let name = format!("manifest-{set}-{i}");
            let buckets = only.iter().map(|e| e.bucket).min().zip(only.iter().map(|e| e.bucket).max());
            manifests.push(ManifestMeta {
                name: name.clone(),
                size: signed(bytes.len()),
                added: signed(chunk.len()),
                deleted: 0,
                partition_stats: stats::of_partitions(&types, chunk.iter().map(|(_, p)| p.as_slice()))?,
                schema_id: only.iter().map(|e| e.file.schema_id).max().unwrap_or(0),
                buckets,
                levels: Some((0, 0)),
                row_ids: None,
            });
            let bytes = Bytes::from(bytes);
            self.state().recent.insert(&name, &bytes);
            uploads.push((paths::manifest(&name), bytes));
        }
        let puts =
            futures::future::try_join_all(uploads.into_iter().map(|(name, bytes)| async move { self.store.put_new(&name, bytes).await }));
        let (list, _) = futures::try_join!(self.put_list(&manifests, 1, newest), puts)?;
        let rows = entries.iter().fold(0i64, |n, (e, _)| n.saturating_add(e.file.rows));
        Ok(Delta { list, manifests, rows })
    }

    async fn put_list(&self, metas: &[ManifestMeta], part: u8, newest: &TableSchema) -> Result<Named> {
        let name = format!("manifest-list-{}-{part}", self.store.env().uuid());
        let bytes = encode_list(metas, newest.options.manifest_codec, self.sync())?;
        let size = bytes.len() as u64;
        self.store.put_new(&paths::manifest(&name), bytes.into()).await?;
        Ok(Named { name, size })
    }

    /// Sixteen bytes that are not in the data: what separates the blocks of an Avro file.
    pub(super) fn sync(&self) -> [u8; 16] {
        *self.store.env().uuid().as_bytes()
    }

    /// Every manifest of a snapshot: the base of the next one.
    async fn lists_of(&self, snapshot: Option<&Snapshot>) -> Result<Arc<Vec<ManifestMeta>>> {
        let Some(s) = snapshot else { return Ok(Arc::default()) };
        let names = [s.base_manifest_list.clone(), s.delta_manifest_list.clone()];
        let known = self.state().lists.clone().filter(|(of, _)| *of == names);
        if let Some((_, metas)) = known {
            return Ok(metas);
        }
        let mut metas = self.read_list(&names[0]).await?;
        metas.extend(self.read_list(&names[1]).await?);
        Ok(Arc::new(metas))
    }
}

fn signed(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn check_message(message: &CommitMessage, user: &CommitUser, buckets: Option<&BucketOptions>) -> Result<()> {
    if message.version == 0 || message.version > CommitMessage::VERSION {
        return Err(Error::invalid(format!(
            "a commit message has version {}; this program understands up to {}",
            message.version,
            CommitMessage::VERSION
        ))
        .hint("use a newer lakeward"));
    }
    if message.user != *user {
        return Err(Error::invalid(format!("a commit message is of user {}, but {user} commits", message.user))
            .hint("commit what a writer of the same user made"));
    }
    let CommitMessage { bucket, total_buckets, .. } = message;
    match buckets {
        None if (*bucket, *total_buckets) != (0, -1) => {
            let what = format!("a commit message is for bucket {bucket} of {total_buckets}, but the table has no buckets");
            Err(Error::invalid(what).hint("write the rows again with this table's writer"))
        }
        Some(b) if *total_buckets != b.total => {
            let what = format!("a commit message spreads rows over {total_buckets} buckets, and the table's `bucket` is now {}", b.total);
            Err(Error::invalid(what).hint("the option was changed after the rows were written: change it back, or give the checkpoint up with --abandon N, and its rows are \
                written again"))
        }
        Some(b) if !(0..b.total).contains(bucket) => {
            Err(Error::invalid(format!("a commit message is for bucket {bucket} of {total_buckets}")).hint("buckets are counted from 0"))
        }
        _ => Ok(()),
    }
}

fn file_meta(file: &DataFile, name: &str, schema: &TableSchema) -> Result<FileMeta> {
    let number = |what: &str, n: u64| i64::try_from(n).map_err(|_| Error::invalid(format!("the file {} has {what} {n}", file.path)));
    let rows = number("rows", file.rows)?;
    let (value_stats, value_stats_cols) = stats::encode(&schema.schema, &file.stats, schema.options.stats_dense)
        .map_err(|e| Error::invalid("the statistics of a file do not fit its schema").at(&file.path).because(e))?;
    Ok(FileMeta {
        name: name.to_owned(),
        size: number("size", file.size)?,
        rows,
        min_key: row::EMPTY.to_vec(),
        max_key: row::EMPTY.to_vec(),
        key_stats: RawStats::empty(),
        value_stats,
        min_sequence: 0,
        max_sequence: (rows - 1).max(0),
        schema_id: number("schema id", file.schema_id)?,
        creation_time: Some(local_wall_clock(file.created_ms)),
        delete_rows: Some(0),
        source: Some(0),
        value_stats_cols,
        ..FileMeta::default()
    })
}

/// The format wants the local wall clock as if it were UTC; readers take the zone off again.
fn local_wall_clock(utc_ms: i64) -> i64 {
    let Some(utc) = chrono::DateTime::from_timestamp_millis(utc_ms) else { return utc_ms };
    let offset = chrono::Local.offset_from_utc_datetime(&utc.naive_utc());
    utc_ms.saturating_add(i64::from(offset.local_minus_utc()) * 1000)
}
