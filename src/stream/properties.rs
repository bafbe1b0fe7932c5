//! What every snapshot says about where it comes from (I7): enough to check exactly-once from the table alone.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::format::property;
use crate::source::{Offsets, Position};
use crate::stream::checkpoint::SinkEntry;
use crate::stream::ledger::{Ledger, Written};

/// What the properties are made of.
pub(crate) struct Context<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) run: &'a str,
    pub(crate) written: &'a Written,
}

/// The properties of a checkpoint's snapshot in one sink.
pub(crate) fn snapshot_properties(context: &Context<'_>, entry: &SinkEntry) -> Result<BTreeMap<String, String>> {
    let checkpoint = &context.written.checkpoint;
    let mut all = identity(context);
    let until = checkpoint.covered(entry).max(&checkpoint.offsets);
    let moved: BTreeMap<&str, [u64; 2]> = until
        .0
        .iter()
        .map(|(split, to)| (split.as_str(), [entry.since.offset(split), to.offset]))
        .filter(|(_, [from, to])| from < to)
        .collect();
    // What was read to its end and put away meanwhile has no name there any more.
    let put_away = entry.since.0.iter().filter(|(split, _)| !until.0.contains_key(*split));
    let put_away = put_away.map(|(split, from)| (split.as_str(), [from.offset, until.offset(split)])).filter(|(_, [from, to])| from < to);
    let moved: BTreeMap<&str, [u64; 2]> = moved.into_iter().chain(put_away).collect();
    let ranges = serde_json::to_string(&moved).map_err(|e| Error::internal("ranges cannot be written").because(e))?;
    all.insert(property::OFFSETS.to_owned(), ranges);
    let lost = lost(&checkpoint.offsets, &moved);
    if !lost.is_empty() {
        let lost = serde_json::to_string(&lost).map_err(|e| Error::internal("gaps cannot be written").because(e))?;
        all.insert(property::LOST.to_owned(), lost);
    }
    if let Some(predecessor) = &entry.predecessor {
        all.insert(property::PREDECESSOR.to_owned(), predecessor.to_string());
    }
    Ok(all)
}

/// What was gone before it was read of these ranges, by split.
fn lost<'a>(offsets: &Offsets, moved: &BTreeMap<&'a str, [u64; 2]>) -> BTreeMap<&'a str, Vec<[u64; 2]>> {
    let of = |split: &str, [from, to]: [u64; 2]| -> Vec<[u64; 2]> {
        let gaps = offsets.0.get(split).map(Position::lost).unwrap_or_default();
        gaps.into_iter().map(|[a, b]| [a.max(from), b.min(to)]).filter(|[a, b]| a < b).collect()
    };
    moved.iter().map(|(split, range)| (*split, of(split, *range))).filter(|(_, gaps)| !gaps.is_empty()).collect()
}

/// The properties that every snapshot of a chain has, closing ones too.
pub(crate) fn identity(context: &Context<'_>) -> BTreeMap<String, String> {
    let checkpoint = &context.written.checkpoint;
    let pairs = [
        (property::PIPELINE, checkpoint.pipeline.clone()),
        (property::CHAIN, checkpoint.chain.clone()),
        (property::CHAIN_LOCATION, context.ledger.location().to_owned()),
        (property::RUN, context.run.to_owned()),
        (property::SEQ, checkpoint.seq.to_string()),
        (property::CHECKPOINT, context.written.digest.to_string()),
    ];
    pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_told_by_the_snapshot_whose_range_it_lies_in() {
        let note = serde_json::json!({"lost": [[2, 4], [8, 12], [30, 31]]});
        let offsets = Offsets::from([
            ("a".to_owned(), Position { offset: 40, note: Some(note) }),
            ("b".to_owned(), Position { offset: 9, note: None }),
        ]);
        let told = |range| lost(&offsets, &BTreeMap::from([("a", range), ("b", [0, 9])]));
        assert_eq!(told([0, 40]), BTreeMap::from([("a", vec![[2, 4], [8, 12], [30, 31]])]));
        assert_eq!(told([4, 10]), BTreeMap::from([("a", vec![[8, 10]])]));
        assert_eq!(told([12, 30]), BTreeMap::new());
    }
}
