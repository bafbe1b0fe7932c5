//! What the tables of a round say of themselves: per split, `from` of each snapshot is `to` of the one before; and where the columns of a table
//! say which record a row came of, no record is there twice.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;

use crate::decode::ColumnSpec;
use crate::error::{Error, Result};
use crate::maintain::finding::Findings;
use crate::maintain::lineage;
use crate::source::Offsets;
use crate::table::Table;

/// One split in one table, over all rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SplitRange {
    /// The first offset.
    pub(super) from: u64,
    /// The first offset after.
    pub(super) to: u64,
    /// Snapshots in which it moved.
    pub(super) snapshots: u64,
}

/// The splits of a table, and what does not join, in words.
pub(super) async fn read(table: &Table, pipeline: &str, start: &Offsets) -> Result<(BTreeMap<String, SplitRange>, Vec<String>)> {
    let mut snapshots = Vec::new();
    for id in table.snapshot_ids().await? {
        let gone = || Error::data(format!("snapshot {id} is gone")).hint("nobody else may write to the tables of a series");
        snapshots.push(table.snapshot(id).await?.ok_or_else(gone)?);
    }
    let mut findings = Findings::default();
    let lineages = lineage::check(&snapshots, Some(pipeline), &mut findings);
    let mut wrong: Vec<String> = findings.list().iter().map(|f| format!("{}: {}", f.at, f.what)).collect();
    let again = |r: &lineage::Rewind| format!("offsets [{}, {}) of {} were written again by {}", r.from, r.to, r.split, r.user);
    wrong.extend(lineages.rewinds.iter().map(again));
    let mut splits = BTreeMap::<String, SplitRange>::new();
    for line in &lineages.lines {
        let (Some(split), Some(from), Some(to)) = (&line.split, line.from, line.to) else { continue };
        let range = splits.entry(split.clone()).or_insert(SplitRange { from, ..SplitRange::default() });
        range.from = range.from.min(from);
        range.to = range.to.max(to);
        range.snapshots += line.snapshots;
    }
    for (split, range) in &splits {
        let begins = start.offset(split);
        if range.from != begins {
            wrong.push(format!("{split} begins at {}, not at {begins}", range.from));
        }
    }
    Ok((splits, wrong))
}

/// The columns of a table that say which record a row came of, if it has them all.
pub(super) fn coordinates(columns: Option<&[ColumnSpec]>) -> Option<[String; 3]> {
    let column = |meta: &str| columns?.iter().find(|c| c.meta.as_deref() == Some(meta)).map(|c| c.name.clone());
    Some([column("topic")?, column("partition")?, column("offset")?])
}

/// These columns of a batch.
pub(super) fn only(batch: &RecordBatch, columns: &[String; 3]) -> Result<RecordBatch> {
    let at = columns.iter().map(|c| batch.schema_ref().index_of(c)).collect::<Result<Vec<_>, _>>()?;
    Ok(batch.project(&at)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_known_by_three_columns_or_not_at_all() {
        let column = |name: &str, meta: &str| ColumnSpec { name: name.into(), meta: Some(meta.into()), ..ColumnSpec::default() };
        let all = [column("t", "topic"), column("o", "offset"), ColumnSpec::default(), column("p", "partition")];
        assert_eq!(coordinates(Some(&all)), Some(["t", "p", "o"].map(str::to_owned)));
        assert_eq!(coordinates(Some(&all[1..])), None);
        assert_eq!(coordinates(None), None);
    }
}
