//! The metadata of any table, also one written by others: does everything in it agree, and is everything there?

use super::finding::Findings;
use super::{note_unreferenced, pass};
use crate::error::Result;
use crate::store::Store;

/// What a verification says.
#[derive(Debug)]
pub struct Verification {
    /// What is wrong, and what was looked at.
    pub findings: Findings,
    /// The least and greatest snapshot that was there; none: no snapshot.
    pub snapshots: Option<(u64, u64)>,
}

/// Verifies the table in `store`. `footers`: also opens every Parquet data file, counts its rows, and (Delta) looks whether statistics are too
/// narrow.
///
/// `Invalid`: there is no table here. `Unavailable`: the store does not answer.
pub async fn verify(store: &Store, footers: bool) -> Result<Verification> {
    let mut pass = pass(store, footers).await?;
    note_unreferenced(&mut pass);
    Ok(Verification { snapshots: pass.ids, findings: pass.findings })
}
