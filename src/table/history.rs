//! Snapshots as every format tells them: what time travel, scans and the command line look at.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::datafile::footer;
use crate::error::{Error, Result};
use crate::format::CommitUser;
use crate::format::delta::action::Add;
use crate::format::delta::log::{DeltaSnapshot, DeltaState};
use crate::format::delta::{partition, stats};
use crate::format::paimon::log::LiveFile;
use crate::format::paimon::snapshot::Snapshot;
use crate::schema::Schema;
use crate::table::log::Log;
use crate::table::scan::ScanFile;
use crate::table::{At, Table};

/// One snapshot. A Delta table's versions are its snapshots.
#[derive(Clone, Debug)]
pub struct SnapshotView {
    /// The snapshot id; Delta: the version.
    pub id: u64,
    /// Who committed; Delta: the application whose transaction it moved, none when it moved none.
    pub user: Option<CommitUser>,
    /// Under which identifier.
    pub identifier: Option<i64>,
    /// Commit kind; Delta: the operation.
    pub kind: String,
    /// Milliseconds since 1970-01-01 UTC.
    pub time_ms: Option<i64>,
    /// Rows that it added, less those that it removed; Delta: of the files that it added.
    pub rows_added: Option<i64>,
    /// Rows in all; Delta does not say.
    pub rows: Option<i64>,
    /// Event-time watermark, milliseconds since 1970-01-01 UTC.
    pub watermark: Option<i64>,
    /// Paimon: the schema id.
    pub schema_id: Option<u64>,
    /// What its writer noted.
    pub properties: BTreeMap<String, String>,
    /// All that the format says.
    pub native: Native,
}

/// See [`SnapshotView::native`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Native {
    /// Of a Paimon table.
    Paimon(Box<Snapshot>),
    /// Of a Delta table.
    Delta(Box<DeltaSnapshot>),
}

impl From<Snapshot> for SnapshotView {
    fn from(s: Snapshot) -> SnapshotView {
        SnapshotView {
            id: s.id,
            user: Some(CommitUser::new(s.commit_user.as_str())),
            identifier: Some(s.commit_identifier),
            kind: s.commit_kind.0.clone(),
            time_ms: Some(s.time_millis),
            rows_added: Some(s.delta_record_count),
            rows: Some(s.total_record_count),
            // Other writers put the smallest number where there is no watermark.
            watermark: s.watermark.filter(|w| *w != i64::MIN),
            schema_id: Some(s.schema_id),
            properties: s.properties.clone().unwrap_or_default(),
            native: Native::Paimon(Box::new(s)),
        }
    }
}

impl From<DeltaSnapshot> for SnapshotView {
    fn from(s: DeltaSnapshot) -> SnapshotView {
        let text = |v: &serde_json::Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        SnapshotView {
            id: s.version,
            user: s.txn().map(|txn| CommitUser::new(txn.app_id.as_str())),
            identifier: s.txn().map(|txn| txn.version),
            kind: s.info.operation.clone().unwrap_or_else(|| "UNKNOWN".to_owned()),
            time_ms: s.time_ms(),
            rows_added: s.added.1.and_then(|rows| i64::try_from(rows).ok()),
            rows: None,
            watermark: s.watermark(),
            schema_id: None,
            properties: s.info.other.iter().map(|(k, v)| (k.clone(), text(v))).collect(),
            native: Native::Delta(Box::new(s)),
        }
    }
}

impl SnapshotView {
    /// One of its properties.
    pub fn property(&self, key: &str) -> Option<&str> {
        self.properties.get(key).map(String::as_str)
    }
    /// Who committed, for people.
    pub fn user_text(&self) -> &str {
        self.user.as_ref().map_or("nobody", CommitUser::as_str)
    }
    fn paimon(&self) -> Result<&Snapshot> {
        match &self.native {
            Native::Paimon(snapshot) => Ok(snapshot),
            Native::Delta(_) => Err(Error::internal("a version of a Delta table was taken for a Paimon snapshot")),
        }
    }
}

impl Table {
    /// Ids of the snapshots that are there, ascending.
    pub async fn snapshot_ids(&self) -> Result<Vec<u64>> {
        match &self.log {
            Log::Paimon(log) => log.snapshot_ids().await,
            Log::Delta(log) => log.versions().await,
        }
    }

    /// A snapshot; `None` when there is none.
    pub async fn snapshot(&self, id: u64) -> Result<Option<SnapshotView>> {
        Ok(match &self.log {
            Log::Paimon(log) => log.snapshot(id).await?.map(SnapshotView::from),
            Log::Delta(log) => log.snapshot(id).await?.map(SnapshotView::from),
        })
    }

    /// Every snapshot that is there, ascending; those that vanish while they are read are left out.
    pub async fn snapshots(&self) -> Result<Vec<SnapshotView>> {
        let mut all = Vec::new();
        for id in self.snapshot_ids().await? {
            all.extend(self.snapshot(id).await?);
        }
        Ok(all)
    }

    /// Names of the table's tags; a Delta table has none.
    pub async fn tag_names(&self) -> Result<Vec<String>> {
        match &self.log {
            Log::Paimon(log) => log.tag_names().await,
            Log::Delta(_) => Ok(Vec::new()),
        }
    }

    /// The columns that the table had as of a moment.
    pub async fn schema_at(&self, at: &At) -> Result<Arc<Schema>> {
        let Some(snapshot) = self.snapshot_at(at).await?.filter(|_| *at != At::Newest) else { return Ok(self.schema().clone()) };
        match &self.log {
            Log::Paimon(log) => Ok(log.schema_of(snapshot.paimon()?.schema_id).await?.schema.clone()),
            Log::Delta(_) => Ok(self.delta_state(&snapshot).await?.schema.schema.clone()),
        }
    }

    /// The files that are live in a snapshot, as many as there are.
    pub async fn files_at(&self, snapshot: &SnapshotView) -> Result<Vec<ScanFile>> {
        match &self.log {
            Log::Paimon(log) => Ok(log.files_at(snapshot.paimon()?).await?.into_iter().map(ScanFile::from).collect()),
            Log::Delta(log) => {
                let state = self.delta_state(snapshot).await?;
                let adds = log.live_files(snapshot.id, &|_| true).await?;
                self.delta_files(adds, &state.schema.schema).await
            }
        }
    }

    pub(super) async fn delta_state(&self, snapshot: &SnapshotView) -> Result<Arc<DeltaState>> {
        let Log::Delta(log) = &self.log else { return Err(Error::internal("a Paimon table was taken for one of Delta")) };
        let current = log.current();
        if current.log.version == snapshot.id {
            return Ok(current);
        }
        let gone = || {
            Error::invalid(format!("version {} cannot be read any more: the log below a checkpoint was cleaned up", snapshot.id))
                .at(self.url())
                .hint("read a newer version")
        };
        log.state_at(snapshot.id).await?.map(Arc::new).ok_or_else(gone)
    }
}

impl Table {
    /// Live files of a Delta table. Those whose statistics do not say how many rows there are, are asked themselves.
    pub(super) async fn delta_files(&self, adds: Vec<Add>, schema: &Schema) -> Result<Vec<ScanFile>> {
        let mut files = Vec::with_capacity(adds.len());
        for add in adds {
            let (mut file, counted) = delta_file(add, schema)?;
            if !counted {
                let place = self.store().place(&file.path);
                let rows = footer(self.store(), &file.path, file.size, &place).await?.file_metadata().num_rows();
                file.rows = u64::try_from(rows).unwrap_or(0);
            }
            files.push(file);
        }
        Ok(files)
    }
}

impl From<LiveFile> for ScanFile {
    fn from(file: LiveFile) -> Self {
        let LiveFile { path, size, rows, schema_id, partition, stats, bucket, meta } = file;
        ScanFile { path, size, rows, schema_id, partition, stats, bucket, created_ms: meta.creation_time, deleted: None }
    }
}

/// A live file of a Delta table, and whether its rows are known.
fn delta_file(add: Add, schema: &Schema) -> Result<(ScanFile, bool)> {
    let at = |e: Error| e.at(&add.path);
    let (rows, stats) = add.stats.as_deref().and_then(|text| stats::decode(schema, text)).unwrap_or_default();
    let size = u64::try_from(add.size).map_err(|_| at(Error::data(format!("a file of the log has {} bytes", add.size))))?;
    let file = ScanFile {
        path: partition::uri_decode(&add.path).map_err(at)?,
        size,
        rows: rows.unwrap_or(0),
        schema_id: schema.id,
        partition: partition::scalars(schema, &add.partition_values).map_err(at)?,
        stats,
        bucket: 0,
        created_ms: Some(add.modification_time),
        deleted: add.deletion_vector,
    };
    Ok((file, rows.is_some()))
}
