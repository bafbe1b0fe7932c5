//! Records that are gone before they were read: deleted by retention, or by a broker that lost its disk. `spec/kafka-trouble.md` has the rules.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::client::{self, Purpose};
use super::ids;
use super::resolve::{At, Lookup};
use super::source::Split;
use crate::error::{Error, Result};
use crate::source::Position;

/// So many gaps are kept in a position's note; older ones are in snapshots long since.
const KEPT: usize = 100;

/// May reading go on at `next`, when the partition has `first` to `end`? None: yes. Some: at this offset, and everything between is lost.
/// `Data` when it is not for this program to decide.
pub(super) fn judge(topic: &str, partition: i32, next: u64, (first, end): (u64, u64), skip: bool) -> Result<Option<u64>> {
    let at = format!("{topic}[{partition}]");
    if next > end {
        let what = format!(
            "the partition ends at {end}, but records up to offset {next} were read of it: brokers have lost what they had acknowledged, and what \
             they write there now are other records"
        );
        let hint = "see whether a broker lost its disk or an unclean leader was elected; to go on, give the pipeline another name, which begins \
                    a new chain at `start`";
        return Err(Error::data(what).at(at).hint(hint));
    }
    if next >= first {
        return Ok(None);
    }
    if skip {
        return Ok(Some(first));
    }
    let what =
        format!("{} records are gone before they were read: offset {next} is wanted, the first that is there is {first}", first - next);
    Err(Error::data(what).at(at).hint("keep records longer; `on_data_loss: earliest` goes on with the first that is there and says so"))
}

/// First offset and end of one partition that was read up to `next`, as of now; `Data` when it is of another topic by now.
pub(super) fn look(lookup: &Lookup<'_>, split: &Split, next: u64) -> Result<(u64, u64)> {
    let now = lookup.ids([split.topic.clone()])?;
    match (&split.id, now.get(&split.topic)) {
        (_, None) => return Err(ids::deleted(&split.topic, split.partition, next)),
        (Some(before), Some(Some(now))) if before != now => {
            return Err(ids::recreated(&split.topic, split.partition, next, before, now));
        }
        _ => {}
    }
    let partition = (split.topic.clone(), split.partition);
    let at = At::from([(partition.clone(), next)]);
    bounds(lookup, std::slice::from_ref(&partition), &at)?.remove(&partition).ok_or_else(|| Error::internal("Kafka left a partition out"))
}

/// First offset and end of each partition. Where one of `at` lies beyond the end of what is committed, its end is the end of all.
pub(super) fn bounds(lookup: &Lookup<'_>, partitions: &[(String, i32)], at: &At) -> Result<BTreeMap<(String, i32), (u64, u64)>> {
    let (first, mut ends) = (lookup.earliest(partitions)?, lookup.ends(partitions)?);
    let beyond = |(p, at): (&(String, i32), &u64)| (ends.get(p)? < at).then(|| p.clone());
    let beyond: Vec<(String, i32)> = at.iter().filter_map(beyond).collect();
    if !beyond.is_empty() && lookup.options.read_committed() {
        let client = client::let_in(lookup.options, Purpose::Watch)?;
        ends.extend(Lookup { client: &client, options: lookup.options, patience: lookup.patience }.ends(&beyond)?);
    }
    Ok(first.into_iter().filter_map(|(p, first)| ends.get(&p).map(|end| (p.clone(), (first, (*end).max(first))))).collect())
}

/// In words, for the log.
pub(super) fn told(topic: &str, partition: i32, [from, to]: [u64; 2]) -> String {
    format!("{topic}[{partition}]: {} records are lost: offsets {from} to {} were deleted before they were read", to - from, to - 1)
}

/// Notes in a position that the offsets of this range were never there to read.
pub(super) fn mark(position: &mut Position, gap: [u64; 2]) {
    let mut gaps = position.lost();
    gaps.push(gap);
    let gaps = &gaps[gaps.len().saturating_sub(KEPT)..];
    match &mut position.note {
        Some(Value::Object(note)) => drop(note.insert(Position::LOST.to_owned(), json!(gaps))),
        note => *note = Some(Value::Object(Map::from_iter([(Position::LOST.to_owned(), json!(gaps))]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_gone_below_may_be_skipped_and_only_if_so_asked() {
        for skip in [false, true] {
            for next in 10..=20 {
                assert_eq!(judge("t", 1, next, (10, 20), skip).unwrap(), None);
            }
            let error = judge("t", 1, 21, (10, 20), skip).unwrap_err().to_string();
            assert!(error.contains("t[1]") && error.contains("ends at 20") && error.contains("21"), "{error}");
        }
        assert_eq!(judge("t", 1, 7, (10, 20), true).unwrap(), Some(10));
        let error = judge("t", 1, 7, (10, 20), false).unwrap_err().to_string();
        assert!(["t[1]", "3 records", "offset 7", "is 10"].iter().all(|part| error.contains(part)), "{error}");
    }

    #[test]
    fn gaps_are_kept_beside_what_the_note_says_already_and_not_for_ever() {
        let mut position = Position { offset: 9, note: Some(json!({"id": "x"})) };
        mark(&mut position, [1, 3]);
        mark(&mut position, [5, 9]);
        assert_eq!((position.lost(), position.note.as_ref().unwrap()["id"].as_str()), (vec![[1, 3], [5, 9]], Some("x")));
        (0..200).for_each(|i| mark(&mut position, [10 + i, 11 + i]));
        assert_eq!((position.lost().len(), position.lost()[KEPT - 1]), (KEPT, [209, 210]));
        let mut bare = Position { offset: 9, note: None };
        mark(&mut bare, [1, 3]);
        assert_eq!(bare.lost(), [[1, 3]]);
    }
}
