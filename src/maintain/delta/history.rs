//! Commits, checkpoints and the pointer, listed while others commit and clean up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use crate::error::Result;
use crate::format::delta::checkpoint::Checkpoint;
use crate::format::delta::names::{self, LOG_DIR, LogFile};
use crate::maintain::finding::{Check, Findings};
use crate::maintain::gaps;
use crate::store::{Entry, Store};

/// For so many listings a hole must stay as it is, and the wait before each: a listing is no single moment, and some clean up in no order.
const AGAIN: u32 = 8;
/// At most so long they are given time to come to an end.
const GRACE: Duration = Duration::from_secs(30);
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// What a log consists of.
pub(super) struct Listed {
    pub(super) commits: BTreeSet<u64>,
    /// Complete ones.
    pub(super) checkpoints: BTreeMap<u64, Vec<Checkpoint>>,
    /// Objects of checkpoints that are none: an empty one, or a part whose others are missing.
    incomplete: Vec<String>,
}

impl Listed {
    fn of(entries: &[Entry]) -> Listed {
        let checkpoints = Checkpoint::among(entries);
        let complete: BTreeSet<&str> = checkpoints.values().flatten().flat_map(|c| c.files.iter().map(|(name, _)| name.as_str())).collect();
        let mut commits = BTreeSet::new();
        let mut incomplete = Vec::new();
        for entry in entries {
            match names::parse(&entry.name) {
                Some(LogFile::Commit(version)) => drop(commits.insert(version)),
                Some(LogFile::Checkpoint(_) | LogFile::Part { .. } | LogFile::V2 { .. }) if !complete.contains(entry.name.as_str()) => {
                    incomplete.push(format!("{LOG_DIR}/{}", entry.name));
                }
                _ => {}
            }
        }
        Listed { commits, checkpoints, incomplete }
    }

    /// The newest version that there is anything of.
    pub(super) fn newest(&self) -> Option<u64> {
        self.commits.last().max(self.checkpoints.keys().next_back()).copied()
    }

    /// Is there something at or below this version that says what the table was?
    pub(super) fn begins_below(&self, version: u64) -> bool {
        self.commits.first() == Some(&0) || self.checkpoints.range(..=version).next().is_some()
    }

    /// Commits that are missing and that somebody needs: a log from which a cleanup has taken all that says how it began needs nothing
    /// below its next checkpoint.
    fn holes(&self) -> Vec<u64> {
        let mut known = self.commits.clone();
        // The commit of a checkpoint's version may be gone; after the newest checkpoint comes the next commit.
        let first = self.commits.first().copied().unwrap_or(0);
        known.extend(self.checkpoints.range(first..).map(|(version, _)| version));
        known.extend(self.checkpoints.keys().next_back());
        gaps(&known).into_iter().filter(|hole| self.begins_below(*hole) || self.checkpoints.range(hole..).next().is_none()).collect()
    }
}

/// Lists the log; a hole is one only if it stays.
pub(super) async fn read(store: &Store, findings: &mut Findings) -> Result<Listed> {
    let mut listed = Listed::of(&store.list(LOG_DIR).await?);
    let deadline = store.env().deadline(GRACE);
    let mut same = 0;
    while !listed.holes().is_empty() && same < AGAIN && store.env().left(deadline).is_some() {
        store.env().sleep(PAUSE).await;
        let again = Listed::of(&store.list(LOG_DIR).await?);
        same = if again.holes() == listed.holes() { same + 1 } else { 0 };
        listed = again;
    }
    for hole in listed.holes() {
        let after = listed.checkpoints.range(hole..).next();
        let what = match after {
            Some((checkpoint, _)) => {
                format!("the commit is missing: versions {hole} to {} cannot be read any more", checkpoint.saturating_sub(1).max(hole))
            }
            None => "the commit is missing, although others above it are there: no engine can read the table".to_owned(),
        };
        findings.find(Check::Snapshots, names::commit(hole), Some(hole), what);
    }
    if let Some(first) = listed.commits.first().copied().filter(|first| *first > 0)
        && listed.checkpoints.is_empty()
    {
        let what = format!("the log begins with version {first}, and there is no complete checkpoint: no engine can read the table");
        findings.find(Check::Snapshots, names::commit(first), Some(first), what);
    }
    if !listed.incomplete.is_empty() {
        let (first, count) = (&listed.incomplete[0], listed.incomplete.len());
        findings.note(format!(
            "{count} objects belong to no complete checkpoint, among them {first}: their writer died over them, and readers pass by"
        ));
    }
    Ok(listed)
}

/// Readers go where `_last_checkpoint` points to and fail when nothing is there. That it is old or missing does no harm, and what is no
/// pointer they pass by.
pub(super) async fn check_pointer(store: &Store, findings: &mut Findings) -> Result<()> {
    for again in 0..=AGAIN {
        let Some(bytes) = store.get(names::LAST_CHECKPOINT).await? else { return Ok(()) };
        if again == 0 {
            findings.look(Check::Hints, 1);
        }
        let pointer: Option<Value> = serde_json::from_slice(&bytes).ok();
        let Some(version) = pointer.as_ref().and_then(|p| p.get("version")?.as_u64()) else {
            findings.note(format!("{} is no pointer to a checkpoint: readers list the log instead", names::LAST_CHECKPOINT));
            return Ok(());
        };
        let listed = Listed::of(&store.list(LOG_DIR).await?);
        let parts = pointer.as_ref().and_then(|p| p.get("parts")?.as_u64());
        let fits = |c: &Checkpoint| parts.is_none_or(|parts| c.files.len() as u64 == parts);
        if listed.checkpoints.get(&version).is_some_and(|all| all.iter().any(fits)) {
            return Ok(());
        }
        if again == AGAIN {
            let of = parts.map_or_else(String::new, |parts| format!(" of {parts} parts"));
            let what = format!(
                "it names a checkpoint{of} of version {version}, and there is none that is complete: most engines cannot read the table"
            );
            findings.find(Check::Hints, names::LAST_CHECKPOINT, Some(version), what);
            return Ok(());
        }
        store.env().sleep(PAUSE).await;
    }
    Ok(())
}
