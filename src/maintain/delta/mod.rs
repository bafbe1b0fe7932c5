//! A Delta table, of any writer.
//!
//! ```text
//! history      commits, checkpoints and the pointer, while others commit and clean up
//! commit       what a single commit must be
//! state        commit after commit: what the table is made of by then; checkpoints must say the same
//! files        is every live file there with its true size, in its partition's directory
//! statistics   what is said of files, against their footers
//! ```

mod commit;
mod files;
mod history;
mod state;
mod statistics;

use std::collections::HashSet;

use super::finding::Findings;
use super::{Pass, Unreferenced};
use crate::error::Result;
use crate::format::delta::names;
use crate::store::{Entry, Store};
use history::Listed;
use state::{Walk, Walked};

/// How often everything is begun anew when the log is cleaned up under the one who reads it.
const AGAIN: u32 = 4;

/// Is there anything of a Delta log?
pub(super) async fn is_there(store: &Store) -> Result<bool> {
    Ok(store.list(names::LOG_DIR).await?.iter().any(|e| names::parse(&e.name).is_some()))
}

/// Checks commits, checkpoints, transactions and live files.
pub(super) async fn pass(store: &Store, footers: bool) -> Result<Pass> {
    let (mut findings, listed, mut walked) = settled(store).await?;
    history::check_pointer(store, &mut findings).await?;
    // The listing comes after what names its objects, so that nothing that is named can be too young for it.
    let there = store.list_all("").await?;
    // And once more what came meanwhile, so that its files do not count as unreferenced.
    walked.names_of_newer(store).await?;
    files::check(store, &walked, &there, footers, &mut findings).await?;
    let unreferenced = unreferenced(store, &there, &walked.named);
    let first = listed.commits.first().copied();
    let expired = first.filter(|first| *first > 0);
    let newest = listed.newest();
    Ok(Pass {
        snapshots: walked.snapshots,
        ids: first.or(newest).zip(newest),
        expired: expired.map(|first| format!("the log below version {first} was cleaned up: what is said of lineages holds from there on")),
        findings,
        unreferenced,
    })
}

/// Walks through the log as it is at one moment: when it is cleaned up meanwhile, once more.
async fn settled(store: &Store) -> Result<(Findings, Listed, Walked)> {
    let mut attempt = 0;
    loop {
        let mut findings = Findings::default();
        let listed = history::read(store, &mut findings).await?;
        let mut walk = Walk::new(store);
        let stayed = walk.run(&listed, &mut findings).await?;
        attempt += 1;
        if stayed || attempt > AGAIN {
            return Ok((findings, listed, walk.finish()));
        }
        store.env().sleep(history::PAUSE).await;
    }
}

/// Files that no commit and no checkpoint names.
fn unreferenced(store: &Store, there: &[Entry], named: &HashSet<String>) -> Vec<Unreferenced> {
    let now = store.env().now_ms();
    let lost = there.iter().filter(|e| !names::is_hidden(&e.name) && !named.contains(&e.name));
    lost.map(|e| Unreferenced { size: e.size, age_ms: now - e.modified_ms }).collect()
}
