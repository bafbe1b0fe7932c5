//! Snapshots, tags and hints, read while others commit and expire.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};

use crate::error::Result;
use crate::format::paimon::paths;
use crate::format::paimon::snapshot::Snapshot;
use crate::maintain::finding::{Check, Findings};
use crate::maintain::gaps;
use crate::store::Store;

/// Objects that are read at once.
const AT_ONCE: usize = 16;
/// How often a hole is looked at again, and the wait before: a listing is no single moment, and a snapshot in an expired slot is taken back
/// by its writer.
const AGAIN: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// What there is.
pub(super) struct History {
    /// Those that can be read, ascending.
    pub(super) snapshots: Vec<Snapshot>,
    /// By name.
    pub(super) tags: Vec<(String, Snapshot)>,
    /// The least and greatest id that was listed.
    pub(super) ids: Option<(u64, u64)>,
}

/// Reads them all.
pub(super) async fn read(store: &Store, findings: &mut Findings) -> Result<History> {
    let ids = joined_ids(store, findings).await?;
    let snapshots = snapshots(store, &ids, findings).await?;
    let tags = tags(store, findings).await?;
    check_hints(store, findings).await?;
    Ok(History { snapshots, tags, ids: ids.first().copied().zip(ids.last().copied()) })
}

/// Ids of the snapshots that are listed now, and names that are no snapshot's.
pub(super) async fn ids(store: &Store) -> Result<(BTreeSet<u64>, Vec<String>)> {
    let (mut ids, mut strange) = (BTreeSet::new(), Vec::new());
    for entry in store.list(paths::SNAPSHOT_DIR).await? {
        match paths::id_of(&entry.name, "snapshot-") {
            Some(id) => drop(ids.insert(id)),
            None if entry.name.starts_with("snapshot-") => strange.push(entry.name),
            None => {}
        }
    }
    Ok((ids, strange))
}

/// A hole is one only if it stays.
async fn joined_ids(store: &Store, findings: &mut Findings) -> Result<BTreeSet<u64>> {
    let (mut found, mut strange) = ids(store).await?;
    let mut holes = gaps(&found);
    for _ in 0..AGAIN {
        if holes.is_empty() && strange.is_empty() {
            break;
        }
        store.env().sleep(PAUSE).await;
        (found, strange) = ids(store).await?;
        holes = gaps(&found);
    }
    for name in strange {
        let what = "the name is no snapshot's; Java takes it for a number, and listing the table fails";
        findings.find(Check::Snapshots, format!("{}/{name}", paths::SNAPSHOT_DIR), None, what);
    }
    for id in holes {
        let below = found.range(..id).next_back().copied().unwrap_or(0);
        let what = format!("the snapshot is missing, although {below} below it and others above are there: history has a hole");
        findings.find(Check::Snapshots, paths::snapshot(id), Some(id), what);
    }
    Ok(found)
}

async fn snapshots(store: &Store, ids: &BTreeSet<u64>, findings: &mut Findings) -> Result<Vec<Snapshot>> {
    let get = |id: u64| async move { Ok::<_, crate::Error>((id, store.get(&paths::snapshot(id)).await?)) };
    let mut all = Vec::new();
    let mut reading = futures::stream::iter(ids.iter().copied().map(get)).buffered(AT_ONCE);
    while let Some((id, bytes)) = reading.try_next().await? {
        // Expired between the listing and now.
        let Some(bytes) = bytes else { continue };
        findings.look(Check::Snapshots, 1);
        match Snapshot::decode(&bytes, id) {
            Ok(snapshot) => all.push(snapshot),
            Err(e) => findings.find(Check::Snapshots, paths::snapshot(id), Some(id), e.to_string()),
        }
    }
    Ok(all)
}

async fn tags(store: &Store, findings: &mut Findings) -> Result<Vec<(String, Snapshot)>> {
    let mut tags = Vec::new();
    for entry in store.list(paths::TAG_DIR).await? {
        let Some(name) = entry.name.strip_prefix("tag-") else { continue };
        let path = format!("{}/{}", paths::TAG_DIR, entry.name);
        let Some(bytes) = store.get(&path).await? else { continue };
        findings.look(Check::Tags, 1);
        match Snapshot::decode_any(&bytes) {
            Ok(snapshot) => tags.push((name.to_owned(), snapshot)),
            Err(e) => findings.find(Check::Tags, path, None, e.to_string()),
        }
    }
    Ok(tags)
}

/// Readers take LATEST when there is no snapshot after it. So it is harmful exactly when there is none, and it is not the newest.
///
/// Too small, missing or garbled it is of no harm, and EARLIEST never is: readers look whether its snapshot is there.
async fn check_hints(store: &Store, findings: &mut Findings) -> Result<()> {
    for again in 0..=AGAIN {
        let hint = |bytes: bytes::Bytes| std::str::from_utf8(&bytes).ok()?.trim().parse::<u64>().ok();
        let Some(latest) = store.get(paths::LATEST).await?.and_then(hint) else { return Ok(()) };
        if again == 0 {
            findings.look(Check::Hints, 1);
        }
        let (ids, _) = ids(store).await?;
        if ids.last() == Some(&latest) || ids.contains(&latest.saturating_add(1)) {
            return Ok(());
        }
        if again == AGAIN {
            let newest = ids.last().map_or("there is no snapshot".to_owned(), |n| format!("the newest snapshot is {n}"));
            let what = format!(
                "it says {latest}, but {newest} and {} is not there: readers take it for the newest and fail",
                latest.saturating_add(1)
            );
            findings.find(Check::Hints, paths::LATEST, None, what);
            return Ok(());
        }
        store.env().sleep(PAUSE).await;
    }
    Ok(())
}

impl History {
    /// Snapshots that were committed after this was read.
    pub(super) async fn newer(&mut self, store: &Store) -> Result<Vec<Snapshot>> {
        let greatest = self.ids.map_or(0, |(_, last)| last);
        let (ids, _) = ids(store).await?;
        let mut newer = Vec::new();
        for id in ids.iter().filter(|id| **id > greatest) {
            let bytes = store.get(&paths::snapshot(*id)).await?;
            newer.extend(bytes.and_then(|b| Snapshot::decode(&b, *id).ok()));
        }
        Ok(newer)
    }
}
