//! Is everything that is named there?

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt as _;

use super::history;
use super::state::{DataFile, Found, Missing, Owner};
use crate::datafile::footer;
use crate::error::{Kind, Result};
use crate::format::paimon::paths;
use crate::maintain::finding::{Check, Findings};
use crate::maintain::size;
use crate::store::{Entry, Store};

/// Footers that are read at once.
const AT_ONCE: usize = 8;
/// An expiry removes files first and the snapshots that name them last; for so long it is given time to come to an end.
const GRACE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(250);

/// Looks each file up in a listing that is younger than what names it.
pub(super) async fn check(store: &Store, found: &mut Found, there: &[Entry], footers: bool, findings: &mut Findings) -> Result<()> {
    let by_path: HashMap<&str, u64> = there.iter().map(|e| (e.name.as_str(), e.size)).collect();
    // Names hold uuids. They are what is left where the directory cannot be told.
    let by_name: HashMap<&str, &Entry> = there.iter().map(|e| (e.name.rsplit('/').next().unwrap_or(&e.name), e)).collect();
    let (mut whole, mut external) = (Vec::new(), 0u64);
    let files = std::mem::take(&mut found.files);
    for file in files.iter().filter(|f| !f.owner.is_none()) {
        if file.external {
            external += 1;
            continue;
        }
        findings.look(Check::DataFiles, 1);
        let at = file.path.as_deref().filter(|p| by_path.contains_key(p));
        let elsewhere = || by_name.get(file.name.as_str()).map(|e| e.name.as_str());
        let Some(at) = at.or_else(elsewhere) else {
            let path = file.path.clone().unwrap_or_else(|| file.name.clone());
            found.missing.insert(path.clone(), Missing { check: Check::DataFiles, path, owner: file.owner.clone() });
            continue;
        };
        if let Some(wanted) = file.path.as_deref().filter(|wanted| *wanted != at) {
            findings.find(Check::DataFiles, at, file.owner.snapshot, format!("readers look for it at {wanted}"));
        }
        let size = by_path.get(at).copied().unwrap_or_default();
        if i64::try_from(size) != Ok(file.size) {
            let what = format!("it has {size} bytes, and its manifest says {}", file.size);
            findings.find(Check::DataFiles, at, file.owner.snapshot, what);
        } else {
            whole.push((at.to_owned(), size, file));
        }
        for extra in &file.extra {
            let path = at.rsplit_once('/').map_or_else(|| extra.clone(), |(dir, _)| format!("{dir}/{extra}"));
            if !by_path.contains_key(path.as_str()) {
                found.missing.insert(path.clone(), Missing { check: Check::DataFiles, path, owner: file.owner.clone() });
            }
        }
    }
    for (path, owner) in &found.others {
        findings.look(Check::IndexFiles, 1);
        let name = path.rsplit('/').next().unwrap_or(path);
        if !by_path.contains_key(path.as_str()) && !by_name.contains_key(name) {
            let missing = Missing { check: Check::IndexFiles, path: path.clone(), owner: owner.clone() };
            found.missing.insert(path.clone(), missing);
        }
    }
    if external > 0 {
        findings.note(format!("{external} data files lie outside of the table and were not looked at"));
    }
    if footers { rows(store, whole, &mut found.missing, findings).await } else { Ok(()) }
}

/// Opens every Parquet file and compares its rows.
async fn rows(
    store: &Store,
    files: Vec<(String, u64, &DataFile)>,
    missing: &mut std::collections::BTreeMap<String, Missing>,
    findings: &mut Findings,
) -> Result<()> {
    let (parquet, other): (Vec<_>, Vec<_>) = files.into_iter().partition(|(path, _, _)| path.ends_with(".parquet"));
    if !other.is_empty() {
        findings.note(format!("{} data files are no Parquet files; their rows were not counted", other.len()));
    }
    let count = |(path, size, file): (String, u64, &'_ DataFile)| {
        let (rows, owner) = (file.rows, file.owner.clone());
        async move {
            let counted = footer(store, &path, size, &path).await.map(|footer| footer.file_metadata().num_rows());
            (path, rows, owner, counted)
        }
    };
    let counting: Vec<_> = parquet.into_iter().map(count).collect();
    let mut counting = futures::stream::iter(counting).buffered(AT_ONCE);
    while let Some((path, rows, owner, counted)) = counting.next().await {
        findings.look(Check::RowCounts, 1);
        match counted {
            Ok(counted) if counted == rows => {}
            Ok(counted) => {
                let what = format!("it has {counted} rows, and its manifest says {rows}");
                findings.find(Check::RowCounts, path, owner.snapshot, what);
            }
            Err(e) if e.kind() != Kind::Data => return Err(e),
            // It was listed; if it has been expired since, that is told apart later.
            Err(_) if size(store, &path).await?.is_none() => {
                missing.insert(path.clone(), Missing { check: Check::DataFiles, path, owner });
            }
            Err(e) => findings.find(Check::RowCounts, path, owner.snapshot, e.message()),
        }
    }
    Ok(())
}

/// What is missing is a finding if what names it stays. Nobody expires the newest snapshot; of the others the end of an expiry is awaited.
pub(super) async fn settle_missing(
    store: &Store,
    missing: std::collections::BTreeMap<String, Missing>,
    findings: &mut Findings,
) -> Result<()> {
    let mut open: Vec<Missing> = missing.into_values().collect();
    let deadline = store.env().deadline(GRACE);
    while !open.is_empty() {
        let (ids, _) = history::ids(store).await?;
        let (mut left, mut final_ones) = (Vec::new(), Vec::new());
        for item in open {
            if !stands(store, &ids, &item.owner).await? || size(store, &item.path).await?.is_some() {
                continue;
            }
            let may_go = item.owner.tag.is_none() && item.owner.snapshot != ids.last().copied();
            if may_go { left.push(item) } else { final_ones.push(item) }
        }
        let over = store.env().left(deadline).is_none();
        if over {
            final_ones.append(&mut left);
        }
        for item in final_ones {
            findings.find(item.check, &item.path, item.owner.snapshot, format!("it is missing, and {} needs it", item.owner.place()));
        }
        open = left;
        if !open.is_empty() {
            store.env().sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Is a snapshot or tag that needs it still there?
async fn stands(store: &Store, ids: &std::collections::BTreeSet<u64>, owner: &Owner) -> Result<bool> {
    if owner.snapshot.is_some_and(|id| ids.contains(&id)) {
        return Ok(true);
    }
    match &owner.tag {
        Some(tag) => Ok(size(store, &format!("{}/tag-{tag}", paths::TAG_DIR)).await?.is_some()),
        None => Ok(false),
    }
}
