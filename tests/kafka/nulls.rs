//! Null, absent, the text `null` and the empty text, through Kafka and back out of pypaimon; for every type the page is `spec/decode.md`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::broker::Broker;
use super::flow::Flow;
use super::produce::Message;
use crate::readback::readers::{get, rows_of};

/// What is written of field `f` of the record, in this order: absent, null, `"null"`, `""`.
const FORMS: [&str; 4] = ["{}", "{\"f\": null}", "{\"f\": \"null\"}", "{\"f\": \"\"}"];

/// Type, and what a nullable column holds of the four; none: a dead letter.
const TYPES: [(&str, [Option<Option<&str>>; 4]); 8] = [
    ("STRING", [Some(None), Some(None), Some(Some("null")), Some(Some(""))]),
    ("VARCHAR(8)", [Some(None), Some(None), Some(Some("null")), Some(Some(""))]),
    ("BYTES", [Some(None), Some(None), Some(Some("hex:9ee965")), Some(Some("hex:"))]),
    ("BIGINT", [Some(None), Some(None), None, None]),
    ("DOUBLE", [Some(None), Some(None), None, None]),
    ("BOOLEAN", [Some(None), Some(None), None, None]),
    ("DECIMAL(10, 2)", [Some(None), Some(None), None, None]),
    ("TIMESTAMP(3)", [Some(None), Some(None), None, None]),
];

#[test]
#[ignore = "wants Kafka and Python: tests/setup.sh"]
fn null_absent_and_two_texts_stay_apart_from_the_topic_to_the_reader() {
    let broker = Broker::shared();
    broker.create_topic("nulls", 1, &[]);
    // Keys and headers are null, absent, empty and the text, too.
    let keys = [None, Some("null"), Some(""), Some("k")].map(|key| key.map(|k| k.as_bytes().to_vec()));
    let header = |value: Option<&str>| vec![("h".to_owned(), value.map(|v| v.as_bytes().to_vec()))];
    let headers = [Vec::new(), header(None), header(Some("null")), header(Some(""))];
    let messages = FORMS.iter().zip(keys).zip(headers).map(|((text, key), headers)| Message { key, headers, ..Message::new(*text) });
    broker.produce("nulls", 0, messages);
    for nullable in [true, false] {
        let flow = Flow::new(if nullable { "nulls" } else { "strict" }, broker, "nulls", "stop: end");
        let not_null = if nullable { "" } else { " NOT NULL" };
        let sink = |(i, (ty, _)): (usize, &(&str, _))| {
            format!(
                "  - location: shop.db/t{i}\n    columns: {{off: {{type: BIGINT, meta: offset}}, k: {{type: STRING, meta: key}}, h: {{type: STRING, meta: header.h}}, \
                 f: '{ty}{not_null}'}}\n"
            )
        };
        let sinks: String = TYPES.iter().enumerate().map(sink).collect();
        let file = flow.file();
        let text = std::fs::read_to_string(&file).unwrap();
        let (head, tail) = (text.split_once("  - location: shop.db/t\n").unwrap().0, text.split_once("dead_letter:").unwrap().1);
        std::fs::write(&file, format!("{head}{sinks}dead_letter:{tail}")).unwrap();
        flow.run().with(0);
        let meta: [(Option<&str>, Option<&str>); 4] = [(None, None), (Some("null"), None), (Some(""), Some("null")), (Some("k"), Some(""))];
        let mut refused: BTreeMap<u64, u64> = BTreeMap::new();
        for (i, (ty, wanted)) in TYPES.iter().enumerate() {
            let mut rows = Vec::new();
            for (offset, (value, (key, header))) in wanted.iter().zip(meta).enumerate() {
                let own = |text: Option<&str>| text.map(str::to_owned);
                match value {
                    Some(None) if !nullable => *refused.entry(offset as u64).or_default() += 1,
                    None => *refused.entry(offset as u64).or_default() += 1,
                    Some(value) => rows.push(vec![Some(offset.to_string()), own(key), own(header), own(*value)]),
                }
            }
            let table = flow.table().with_file_name(format!("t{i}"));
            // A table that never had a row may have no snapshot; it has its columns.
            let found = get("pypaimon", &json!({"cmd": "rows", "table": table}));
            let mut found = rows_of(&found, &["off", "k", "h", "f"]);
            found.sort();
            assert_eq!(found, rows, "{ty}{not_null}");
        }
        let dead = get("pypaimon", &json!({"cmd": "rows", "table": flow.dead()}));
        let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
        for row in dead["rows"].as_array().unwrap() {
            assert_eq!((&row["stage"], &row["field"]), (&Value::from("cast"), &Value::from("f")), "{row}");
            let offset: u64 = row["offset"].as_str().unwrap().parse().unwrap();
            *counted.entry(offset).or_default() += 1;
        }
        assert_eq!(counted, refused, "{not_null}");
    }
}
