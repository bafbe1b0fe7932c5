//! Looking after a table, and the place where it lies. What is here so far are checks that change nothing that is there: [`audit`] checks
//! exactly-once from the table alone, [`verify`] the metadata of any table, whoever wrote it, [`doctor`] whether a location can carry a table.
//!
//! ```text
//! paimon    schemas, snapshots, tags and hints, manifests, data files
//! delta     commits, checkpoints, transactions, data files and what is said of them
//! lineage   whose snapshots, and do their ranges of offsets join: the same for both (pure)
//! ```
//!
//! A table that others write to and clean up while it is looked at is not at fault: what is missing is a finding only as long as what names
//! it is still there, and what comes after the beginning is left to the next run.

pub mod audit;
mod delta;
pub mod doctor;
pub mod finding;
pub mod lineage;
mod paimon;
#[cfg(test)]
mod tests;
pub mod verify;

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::store::Store;
use crate::table::SnapshotView;
use finding::{Check, Findings};

/// What a pass over the whole table has seen.
struct Pass {
    /// Those that can be read, ascending.
    snapshots: Vec<SnapshotView>,
    /// The least and greatest id that was listed.
    ids: Option<(u64, u64)>,
    /// What is said when history does not reach back to its beginning.
    expired: Option<String>,
    findings: Findings,
    /// Objects that lie where data files do and to which nothing refers.
    unreferenced: Vec<Unreferenced>,
}

/// An object to which nothing refers.
struct Unreferenced {
    size: u64,
    age_ms: i64,
}

/// Checks everything that the table says of itself, and its files. `footers`: also opens every data file and looks at its footer.
///
/// `Invalid`: there is no table here, or two. `Unavailable`: the store does not answer.
async fn pass(store: &Store, footers: bool) -> Result<Pass> {
    match (paimon::is_there(store).await?, delta::is_there(store).await?) {
        (true, true) => Err(Error::invalid("here are two tables, one of Apache Paimon and one of Delta Lake")
            .at(store.url())
            .hint("remove `schema/` or `_delta_log/`, whichever should not be there")),
        (true, false) => paimon::pass(store, footers).await,
        (false, true) => delta::pass(store, footers).await,
        (false, false) => Err(Error::invalid("there is no table here: no Paimon schema/schema-0 and no Delta _delta_log")
            .at(store.url())
            .hint("check the location")),
    }
}

/// Ids that are missing between the least and the greatest; of many the first hundred.
fn gaps(ids: &BTreeSet<u64>) -> Vec<u64> {
    const SHOWN: usize = 100;
    // Not over the whole range: a single damaged name must not make this long.
    let mut missing = Vec::new();
    for (before, id) in ids.iter().zip(ids.iter().skip(1)) {
        missing.extend((before.saturating_add(1)..*id).take(SHOWN.saturating_sub(missing.len())));
    }
    missing
}

/// Can an object have this name? One that is read from damaged metadata may be anything; then there is nothing of it.
fn is_name(name: &str) -> bool {
    !name.starts_with('/') && object_store::path::Path::parse(name).is_ok()
}

/// The object; none also for what is no name.
async fn get(store: &Store, name: &str) -> Result<Option<Bytes>> {
    if is_name(name) { store.get(name).await } else { Ok(None) }
}

/// Its size; none also for what is no name.
async fn size(store: &Store, name: &str) -> Result<Option<u64>> {
    if is_name(name) { store.size(name).await } else { Ok(None) }
}

/// Counts what nothing refers to. It is no fault: a run that is at work has not committed its files yet.
fn note_unreferenced(pass: &mut Pass) {
    const YOUNG_MS: i64 = 24 * 3600 * 1000;
    let all = &pass.unreferenced;
    let young = all.iter().filter(|u| u.age_ms < YOUNG_MS).count();
    pass.findings.look(Check::Unreferenced, all.len() as u64);
    if !all.is_empty() {
        let bytes: u64 = all.iter().map(|u| u.size).sum();
        pass.findings.note(format!(
            "{} files, {bytes} bytes, are referred to by nothing; {young} of them are younger than a day and may belong to a run that is at \
             work: `table-cli files LOCATION --unreferenced` lists them",
            all.len()
        ));
    }
}
