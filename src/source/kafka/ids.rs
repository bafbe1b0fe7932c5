//! Topic ids: what tells a topic from another one of the same name. A position keeps the id in its note, and every record is of that topic.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::topics::parse_split;
use crate::error::{Error, Result};
use crate::source::{Offsets, Position};

/// Topic -> its id, as Kafka's own tools print it; none: brokers before 2.8 have no ids.
pub(super) type Ids = BTreeMap<String, Option<String>>;

/// Key of the id in a note.
const ID: &str = "id";

/// The sixteen bytes of an id as Kafka prints them; none for the id that says that there is none.
pub(super) fn text(most: i64, least: i64) -> Option<String> {
    if most == 0 && least == 0 {
        return None;
    }
    let bits = (u128::from(most.cast_unsigned()) << 64) | u128::from(least.cast_unsigned());
    Some(BASE64.encode(bits.to_be_bytes()))
}

/// librdkafka follows a name, not an id, and says so only in its debug log: this finds the topic and the id that it reads from now on.
/// It is written before the first record of that topic is asked for.
pub(super) fn adopted(message: &str) -> Option<(&str, String)> {
    let (head, ids) = message.split_once(" changed id from ")?;
    let topic = head.rsplit_once("Topic ")?.1;
    let (_, to) = ids.split_once(" to ")?;
    let url_safe = |c| match c {
        '+' => '-',
        '/' => '_',
        c => c,
    };
    Some((topic, to.trim().chars().map(url_safe).collect()))
}

/// The note of a position in a topic with this id.
pub(super) fn note(id: Option<&str>) -> Option<Value> {
    id.map(|id| Value::Object(Map::from_iter([(ID.to_owned(), id.into())])))
}

/// The id that a position is of; none: it does not say.
pub(super) fn of(position: &Position) -> Option<&str> {
    position.note.as_ref()?.get(ID)?.as_str()
}

/// `Data` when a position is of another topic than the one that has its name now. Topics that are not read now are not looked at.
pub(super) fn check(offsets: &Offsets, ids: &Ids) -> Result<()> {
    for (split, position) in &offsets.0 {
        let Some((topic, partition)) = parse_split(split) else { continue };
        if let (Some(before), Some(Some(now))) = (of(position), ids.get(topic))
            && before != now
        {
            return Err(recreated(topic, partition, position.offset, before, now));
        }
    }
    Ok(())
}

/// Puts the ids of their topics into the notes of positions that have none.
pub(super) fn mark(offsets: &mut Offsets, ids: &Ids) {
    for (split, position) in &mut offsets.0 {
        let id = parse_split(split).and_then(|(topic, _)| ids.get(topic)?.as_deref());
        match &mut position.note {
            None => position.note = note(id),
            Some(Value::Object(note)) if !note.contains_key(ID) => {
                note.extend(id.map(|id| (ID.to_owned(), id.into())));
            }
            Some(_) => {}
        }
    }
}

/// The topic is another one now.
pub(super) fn recreated(topic: &str, partition: i32, offset: u64, before: &str, now: &str) -> Error {
    let what = format!(
        "the topic was deleted and created again: its id was {before} and is {now} now, so what lies at offset {offset} is another record than it was"
    );
    Error::data(what).at(format!("{topic}[{partition}]")).hint(WAY_OUT)
}

/// A topic that was read is not there any more.
pub(super) fn deleted(topic: &str, partition: i32, offset: u64) -> Error {
    let what = format!("the topic `{topic}` was deleted; it was read up to offset {offset}");
    Error::data(what).at(format!("{topic}[{partition}]")).hint(
        "if that was intended, take it out of source.kafka.topics; if it was created again meanwhile, its records are others: \
         give the pipeline another name, which begins a new chain at `start`",
    )
}

const WAY_OUT: &str = "nothing of the new topic was written; to read it, give the pipeline another name, which begins a new chain at `start` \
                       (`start: {group: ...}` with this pipeline's group goes on with the other topics where they stand)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_kafka_writes_them() {
        // The id of the metadata topic, and one that `kafka-topics --describe` and an independent encoder agree on.
        assert_eq!(text(0, 1).unwrap(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(text(-1, -1).unwrap(), "_____________________w");
        let bytes = *b"lakeward-tests-1";
        let (most, least) = (i64::from_be_bytes(bytes[..8].try_into().unwrap()), i64::from_be_bytes(bytes[8..].try_into().unwrap()));
        assert_eq!(text(most, least).unwrap(), "bGFrZXdhcmQtdGVzdHMtMQ");
        assert_eq!(text(0, 0), None);
    }

    #[test]
    fn the_id_that_the_client_reads_from_now_on_is_found_in_its_log() {
        let line = "[thrd:main]: Topic orders.v1 changed id from AAAAAAAAAAAAAAAAAAAAAA to qz+/Zy1kRkq0sL3Vh0h1xA";
        assert_eq!(adopted(line), Some(("orders.v1", "qz-_Zy1kRkq0sL3Vh0h1xA".to_owned())));
        assert_eq!(adopted("[thrd:main]: Topic orders [0] Leader 1 Epoch 0"), None);
    }

    #[test]
    fn a_position_of_another_topic_is_refused_and_one_without_an_id_takes_the_one_that_is_there() {
        let at = |note| Position { offset: 7, note };
        let ids = Ids::from([("a".to_owned(), Some("new".to_owned())), ("old".to_owned(), None)]);
        let mut offsets =
            Offsets::from([("a/0".to_owned(), at(None)), ("old/1".to_owned(), at(None)), ("x/0".to_owned(), at(note(Some("x"))))]);
        check(&offsets, &ids).unwrap();
        mark(&mut offsets, &ids);
        assert_eq!((of(&offsets.0["a/0"]), of(&offsets.0["old/1"]), of(&offsets.0["x/0"])), (Some("new"), None, Some("x")));
        check(&offsets, &ids).unwrap();
        offsets.0.insert("a/1".to_owned(), at(note(Some("before"))));
        let error = check(&offsets, &ids).unwrap_err().to_string();
        assert!(["a[1]", "before", "new", "offset 7"].iter().all(|part| error.contains(part)), "{error}");
    }
}
