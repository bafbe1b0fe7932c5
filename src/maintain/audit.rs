//! Exactly-once, checked from the table alone.

use super::finding::{Check, Findings};
use super::lineage::{self, Lineages};
use super::{note_unreferenced, pass};
use crate::error::{Error, Result};
use crate::store::Store;

/// What an audit says.
#[derive(Debug)]
pub struct Audit {
    /// Lineages, their splits, and what was written again.
    pub lineages: Lineages,
    /// What is wrong, and what was looked at.
    pub findings: Findings,
    /// The least and greatest snapshot that was there; none: no snapshot.
    pub snapshots: Option<(u64, u64)>,
}

/// Audits the table in `store`: all that [`verify`](super::verify::verify) checks; besides, every data file's footer
/// has as many rows as the table says, and per lineage and split the ranges of offsets join. `pipeline`: lineages of this
/// pipeline only.
///
/// `Invalid`: there is no table, or nothing of this pipeline in it. `Unavailable`: the store does not answer.
pub async fn audit(store: &Store, pipeline: Option<&str>) -> Result<Audit> {
    let mut pass = pass(store, true).await?;
    let lineages = lineage::check(&pass.snapshots, pipeline, &mut pass.findings);
    if let Some(wanted) = pipeline.filter(|p| !lineages.pipelines.iter().any(|l| l == p)) {
        let hint = match lineages.pipelines.as_slice() {
            [] => "no snapshot that is there was made by a pipeline".to_owned(),
            all => format!("snapshots of these pipelines are here: {}", all.join(", ")),
        };
        return Err(Error::invalid(format!("the table has no snapshot of the pipeline {wanted}")).at(store.url()).hint(hint));
    }
    let snapshots = pass.ids;
    if let Some(expired) = pass.expired.take() {
        pass.findings.note(expired);
    }
    if lineages.pipelines.is_empty() && snapshots.is_some() {
        pass.findings.note("no snapshot has lakeward's properties: manifests and files were checked, exactly-once cannot be");
        pass.findings.look(Check::Lineages, 0);
    }
    note_unreferenced(&mut pass);
    Ok(Audit { lineages, findings: pass.findings, snapshots })
}
