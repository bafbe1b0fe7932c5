//! What records may be: without a value, empty, with headers and keys, large.

use super::broker::Broker;
use super::flow::{Flow, ids, place, places};
use super::produce::Message;

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn tombstones_and_empty_values_are_dead_letters_with_their_coordinates() {
    let broker = Broker::shared();
    broker.create_topic("tombstones", 1, &[]);
    let headers = vec![("trace".to_owned(), Some(b"abc".to_vec())), ("none".to_owned(), None)];
    let messages = [
        Message::new("{\"id\": 1}").key("a"),
        Message { key: Some(b"a".to_vec()), headers, ..Message::default() },
        Message::new("").key("b"),
        Message::new("{\"id\": 2}"),
    ];
    broker.produce("tombstones", 0, messages);
    let flow = Flow::new("tombstones", broker, "tombstones", "stop: end");
    flow.run().with(0);
    flow.assert_places(places("tombstones", 0, [0, 3]));
    let dead = flow.dead_letters();
    assert_eq!(dead.keys().cloned().collect::<Vec<_>>(), places("tombstones", 0, [1, 2]));
    let (tombstone, empty) = (&dead[&place("tombstones", 0, 1)], &dead[&place("tombstones", 0, 2)]);
    assert_eq!((&tombstone["key"], &tombstone["value"]), (&"hex:61".into(), &serde_json::Value::Null), "{tombstone}");
    assert!(tombstone["error"].as_str().unwrap().contains("tombstone"), "{tombstone}");
    assert!(tombstone["headers"].to_string().contains("trace"), "{tombstone}");
    assert_eq!((&empty["key"], &empty["value"]), (&"hex:62".into(), &"hex:".into()), "{empty}");
    // Without a table for dead letters the first one stops the run, and says which.
    let strict = Flow::new("strict", broker, "tombstones", "stop: end");
    strict.edit("dead_letter: {location: shop.db/dead}\n", "");
    let ended = strict.run().with(5);
    assert!(ended.err().contains("tombstones[0]@1"), "{}", ended.err());
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn keys_headers_and_timestamps_become_columns() {
    let broker = Broker::shared();
    broker.create_topic("metadata", 1, &[]);
    let headers = vec![("source".to_owned(), Some(b"web".to_vec()))];
    let with = Message { headers, ..Message::new("{\"id\": 1}").key("k\u{e9}").at(1_767_225_600_123) };
    broker.produce("metadata", 0, [with, Message::new("{\"id\": 2}").at(1_767_225_600_124)]);
    let flow = Flow::new("metadata", broker, "metadata", "stop: end");
    let more = "id: BIGINT\n      k: {type: STRING, meta: key}\n      h: {type: STRING, meta: header.source}\n      at: {type: TIMESTAMP(3), meta: timestamp}\n";
    flow.edit("id: BIGINT\n", more);
    flow.run().with(0);
    let answer = crate::readback::readers::get("pypaimon", &serde_json::json!({"cmd": "rows", "table": flow.table()}));
    let rows = crate::readback::readers::rows_of(&answer, &["id", "k", "h", "at"]);
    let text = |t: &str| Some(t.to_owned());
    assert_eq!(
        rows,
        [
            vec![text("1"), text("k\u{e9}"), text("web"), text("us:1767225600123000")],
            vec![text("2"), None, None, text("us:1767225600124000")]
        ]
    );
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn messages_of_a_megabyte_and_larger_than_the_fetch_limit_come_whole() {
    let broker = Broker::shared();
    broker.create_topic("large", 1, &[("max.message.bytes", "20000000")]);
    let large = |id: u64, size: usize| Message::new(format!("{{\"id\": {id}, \"note\": \"{}\"}}", "x".repeat(size)));
    let messages = (0..8).map(|id| large(id, 1 << 20)).chain([large(8, 12 << 20)]).chain(ids(9..12));
    broker.produce("large", 0, messages);
    let mut flow = Flow::new("large", broker, "large", "stop: end, properties: {fetch.message.max.bytes: 100000}");
    flow.edit("id: BIGINT\n", "id: BIGINT\n      note: STRING\n");
    flow.set("memory=128MiB");
    flow.run().with(0);
    flow.assert_places(places("large", 0, 0..12));
    let answer =
        crate::readback::readers::get("pypaimon", &serde_json::json!({"cmd": "summary", "table": flow.table(), "columns": ["note"]}));
    assert_eq!(answer["columns"]["note"]["count"], "9", "{answer}");
}
