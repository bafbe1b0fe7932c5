//! Looking after a table, and the place where it lies. What is here so far are checks that change nothing that is there: [`audit`] checks
//! exactly-once from the table alone, [`verify`] the metadata of any Paimon table, [`doctor`] whether a location can carry a table.
//!
//! ```text
//! shape     schemas and where files lie, of any writer; nothing is refused for what we cannot write
//! history   snapshots, tags and hints, while others commit and expire
//! state     manifests: what each snapshot adds, removes and holds
//! files     is everything that is named there, with its true size and rows
//! lineage   whose snapshots, and do their ranges of offsets join (pure)
//! ```
//!
//! A table that others write to and expire while it is looked at is not at fault: what is missing is a finding only as long as a snapshot
//! or tag that names it is still there, and what comes after the beginning is left to the next run.

pub mod audit;
pub mod doctor;
mod files;
pub mod finding;
mod history;
pub mod lineage;
mod shape;
mod state;
#[cfg(test)]
mod tests;
pub mod verify;

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::error::Result;
use crate::store::Store;
use finding::{Check, Findings};
use history::History;
use shape::Shape;
use state::Walk;

/// What a pass over the whole table has seen.
struct Pass {
    history: History,
    findings: Findings,
    /// Objects below the data and manifest directories to which nothing refers.
    unreferenced: Vec<Unreferenced>,
}

/// An object to which nothing refers.
struct Unreferenced {
    size: u64,
    age_ms: i64,
}

/// Checks schemas, snapshots, tags, manifests and files. `footers`: also opens every data file and counts its rows.
///
/// `Invalid`: there is no table here. `Unavailable`: the store does not answer.
async fn pass(store: &Store, footers: bool) -> Result<Pass> {
    let mut findings = Findings::default();
    let shape = shape::read(store, &mut findings).await?;
    let mut history = history::read(store, &mut findings).await?;
    let mut walk = Walk::new(store, &shape);
    walk.snapshots(&history.snapshots, &mut findings).await?;
    walk.tags(&history.tags, &mut findings).await?;
    // The listing comes after what names its objects, so that nothing that is named can be too young for it.
    let there = store.list_all("").await?;
    // And once more what came meanwhile, so that its files do not count as unreferenced.
    let newer = history.newer(store).await?;
    walk.references_of(&newer).await;
    walk.references_elsewhere(&there).await;
    let mut found = walk.finish();
    files::check(store, &mut found, &there, footers, &mut findings).await?;
    let unreferenced = unreferenced(store, &shape, &there, &found.referenced);
    files::settle_missing(store, found.missing, &mut findings).await?;
    if history.ids.is_none() && newer.is_empty() {
        no_snapshot(store, &there, &mut findings);
    }
    Ok(Pass { history, findings, unreferenced })
}

/// A manifest list is written only right before its snapshot: old ones without any snapshot say that the snapshots were deleted.
fn no_snapshot(store: &Store, there: &[crate::store::Entry], findings: &mut Findings) {
    const HOUR_MS: i64 = 3600 * 1000;
    let lists = there.iter().filter(|e| e.name.starts_with("manifest/manifest-list-"));
    let ages: Vec<i64> = lists.map(|e| store.env().now_ms() - e.modified_ms).collect();
    let count = ages.len();
    match ages.into_iter().max() {
        None => findings.note("the table has no snapshot yet"),
        Some(oldest) if oldest < HOUR_MS => findings.note(format!(
            "the table has no snapshot, and {count} manifest lists: unless its first commit is at work right now, its snapshots were deleted"
        )),
        Some(_) => findings.find(
            Check::Snapshots,
            "snapshot".to_owned(),
            None,
            format!("there is no snapshot, but there are {count} manifest lists: the snapshots were deleted"),
        ),
    }
}

/// Can an object have this name? One that is read from a damaged manifest may be anything; then there is nothing of it.
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

fn unreferenced(store: &Store, shape: &Shape, there: &[crate::store::Entry], referenced: &BTreeSet<String>) -> Vec<Unreferenced> {
    let now = store.env().now_ms();
    let lost = there.iter().filter(|e| shape.holds_files(&e.name) && !referenced.contains(e.name.rsplit('/').next().unwrap_or(&e.name)));
    lost.map(|e| Unreferenced { size: e.size, age_ms: now - e.modified_ms }).collect()
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
