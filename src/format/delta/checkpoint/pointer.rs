//! `_last_checkpoint`: where readers begin. It only rises, and names nothing that was not read back.

use serde::Serialize;

use super::super::names::{LAST_CHECKPOINT, LOG_DIR};
use super::super::replay;
use super::Checkpoint;
use super::parquet::ParquetRows;
use super::read;
use crate::error::{Error, Result};
use crate::store::Store;

/// So many times the pointer is set right when others move it at the same moment.
const TRIES: usize = 4;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pointer {
    version: u64,
    /// Actions.
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<usize>,
    size_in_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_of_add_files: Option<u64>,
}

/// Points to this checkpoint, which was read back and holds `rows` actions, if it is the newest and the pointer is lower.
///
/// Between looking and writing another writer may have pointed higher; so the log is looked at again afterwards, and what is newest then
/// is pointed to.
pub(crate) async fn raise(store: &Store, checkpoint: &Checkpoint, rows: u64, files: Option<u64>) -> Result<()> {
    let (mut checkpoint, mut rows, mut files) = (checkpoint.clone(), rows, files);
    let mut wrote = false;
    for _ in 0..TRIES {
        let entries = store.list_after(LOG_DIR, &format!("{:020}", checkpoint.version)).await?;
        let complete = Checkpoint::among(&entries);
        match complete.into_iter().next_back() {
            Some((version, mut newer)) if version > checkpoint.version => {
                if !wrote {
                    // Whoever wrote that one points to it.
                    return Ok(());
                }
                let Some(newest) = newer.pop() else { return Ok(()) };
                (rows, files) = (actions(store, &newest).await?, None);
                checkpoint = newest;
            }
            Some((version, _)) if version == checkpoint.version => {
                // A pointer above the newest checkpoint points nowhere: readers fail on it.
                if replay::hint(store).await? == Some(version) {
                    return Ok(());
                }
            }
            _ => {
                let what = "a checkpoint that was just read is gone";
                return Err(Error::data(what).at(read::place(store, &checkpoint)).hint("somebody cleaned up; look who"));
            }
        }
        put(store, &checkpoint, rows, files).await?;
        wrote = true;
    }
    Ok(())
}

pub(super) async fn put(store: &Store, checkpoint: &Checkpoint, size: u64, num_of_add_files: Option<u64>) -> Result<()> {
    let Checkpoint { version, ref files, .. } = *checkpoint;
    let parts = Some(files.len()).filter(|parts| *parts > 1);
    let size_in_bytes = files.iter().map(|(_, size)| size).sum();
    let pointer = Pointer { version, size, parts, size_in_bytes, num_of_add_files };
    let bytes = serde_json::to_vec(&pointer).map_err(|e| Error::internal("the pointer cannot be written").because(e))?;
    store.put(LAST_CHECKPOINT, bytes.into()).await
}

/// How many actions a checkpoint holds, without those of its sidecars, by its footers.
pub(crate) async fn actions(store: &Store, checkpoint: &Checkpoint) -> Result<u64> {
    if checkpoint.json {
        return Ok(read::json(store, checkpoint).await?.len() as u64);
    }
    let mut rows = 0;
    for (name, size) in &checkpoint.files {
        rows += ParquetRows::open(store, format!("{LOG_DIR}/{name}"), *size, &[]).await?.rows();
    }
    Ok(rows)
}
