//! A Paimon table, of any writer.
//!
//! ```text
//! shape     schemas and where files lie; nothing is refused for what we cannot write
//! history   snapshots, tags and hints, while others commit and expire
//! state     manifests: what each snapshot adds, removes and holds
//! files     is everything that is named there, with its true size and rows
//! ```

mod files;
mod history;
mod shape;
mod state;

use std::collections::BTreeSet;

use super::finding::{Check, Findings};
use super::{Pass, Unreferenced};
use crate::error::Result;
use crate::format::paimon::paths;
use crate::store::{Entry, Store};
use crate::table::SnapshotView;
use shape::Shape;
use state::Walk;

/// Is there anything of a Paimon table?
pub(super) async fn is_there(store: &Store) -> Result<bool> {
    Ok(store.list(paths::SCHEMA_DIR).await?.iter().any(|e| paths::id_of(&e.name, "schema-").is_some()))
}

/// Checks schemas, snapshots, tags, manifests and files.
pub(super) async fn pass(store: &Store, footers: bool) -> Result<Pass> {
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
    let expired = history.ids.filter(|(first, _)| *first > 1);
    Ok(Pass {
        snapshots: history.snapshots.into_iter().map(SnapshotView::from).collect(),
        ids: history.ids,
        expired: expired
            .map(|(first, _)| format!("snapshots below {first} have expired: what is said of lineages holds from snapshot {first} on")),
        findings,
        unreferenced,
    })
}

/// A manifest list is written only right before its snapshot: old ones without any snapshot say that the snapshots were deleted.
fn no_snapshot(store: &Store, there: &[Entry], findings: &mut Findings) {
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

fn unreferenced(store: &Store, shape: &Shape, there: &[Entry], referenced: &BTreeSet<String>) -> Vec<Unreferenced> {
    let now = store.env().now_ms();
    let lost = there.iter().filter(|e| shape.holds_files(&e.name) && !referenced.contains(e.name.rsplit('/').next().unwrap_or(&e.name)));
    lost.map(|e| Unreferenced { size: e.size, age_ms: now - e.modified_ms }).collect()
}
