//! Reading a table: the live files of a snapshot, as a scan.

use crate::error::{Error, Result};
use crate::format::paimon::snapshot::Snapshot;
use crate::table::Table;
use crate::table::scan::{Rows, Scan, ScanFile};

impl Table {
    /// The rows of the newest snapshot, or of the snapshot with this id (under the columns that it had). A table without snapshots has none.
    pub async fn scan(&self, snapshot: Option<u64>) -> Result<Rows> {
        let (scan, files) = self.scan_files(snapshot).await?;
        Ok(scan.read(files))
    }

    /// A scan to select columns and filter with, and the files to give it.
    pub async fn scan_files(&self, snapshot: Option<u64>) -> Result<(Scan, Vec<ScanFile>)> {
        let log = self.paimon();
        let found = self.find(snapshot).await?;
        let schema = match &found {
            Some(found) if snapshot.is_some() => log.schema_of(found.schema_id).await?.schema.clone(),
            _ => log.schema().schema.clone(),
        };
        let old = log.schemas().await?.into_iter().map(|s| s.schema.clone());
        let files = match &found {
            Some(found) => log.files_at(found).await?.into_iter().map(ScanFile::from).collect(),
            None => Vec::new(),
        };
        Ok((Scan::new(self.store().clone(), schema, old), files))
    }

    async fn find(&self, snapshot: Option<u64>) -> Result<Option<Snapshot>> {
        let log = self.paimon();
        let Some(id) = snapshot else {
            // A listed snapshot may be expired before it is read; then there is a newer one.
            for _ in 0..10 {
                let Some(newest) = log.snapshot_ids().await?.last().copied() else { return Ok(None) };
                if let Some(found) = log.snapshot(newest).await? {
                    return Ok(Some(found));
                }
            }
            return Err(Error::data("the newest snapshot is listed but cannot be read").at(self.url()));
        };
        match log.snapshot(id).await? {
            Some(found) => Ok(Some(found)),
            None => Err(Error::invalid(format!("there is no snapshot {id}"))
                .at(self.url())
                .hint("`table-cli snapshots` lists those that are there; older ones have expired")),
        }
    }
}
