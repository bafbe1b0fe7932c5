//! Messages that are no rows: each is a dead letter once, with its coordinates and all its bytes, over kills too; the others are rows.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::broker::Broker;
use super::flow::{Flow, Place, place};
use super::produce::{Message, Producer};
use crate::process::binary;
use crate::readback::readers;

/// Ways to be broken: a name, the stage that finds it, and a value.
const KINDS: u64 = 12;

fn kind(n: u64, id: u64) -> (&'static str, Option<Vec<u8>>) {
    let text = |stage, text: String| (stage, Some(text.into_bytes()));
    match n % KINDS {
        0 => text("decode", format!("no JSON {id}")),
        1 => text("decode", format!("{{\"id\": {id}, \"who\": ")),
        2 => text("cast", format!("{{\"id\": \"number {id}\"}}")),
        3 => text("cast", format!("{{\"id\": {id}e30}}")),
        4 => ("decode", Some([b"{\"id\": 1, \"note\": \"".as_slice(), &[0xff, 0xfe, 0xc3], b"\"}"].concat())),
        5 => text("cast", format!("{{\"id\": {id}, \"who\": {{\"name\": \"x\", \"age\": [{id}]}}}}")),
        6 => text("cast", format!("{{\"note\": \"{id}\"}}")),
        7 => text("cast", "{\"id\": null}".to_owned()),
        8 => ("decode", Some(Vec::new())),
        9 => ("decode", None),
        10 => text("decode", format!("{{\"id\": {id}, \"note\": \"{}", "x".repeat(300_000))),
        _ => text("constraint", format!("{{\"id\": -{id}}}")),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("hex:".to_owned(), |text, b| text + &format!("{b:02x}"))
}

/// What was written: rows, and what every dead letter must say.
#[derive(Default)]
struct Written {
    rows: BTreeMap<Place, Option<u64>>,
    dead: BTreeMap<Place, Value>,
}

/// `messages` over two partitions; of a hundred thousand, `share` are broken.
fn write(broker: &Broker, topic: &str, messages: u64, share: u64) -> Written {
    let producer = Producer::new(broker, &[]);
    let (mut written, mut next, mut broken) = (Written::default(), [0_u64; 2], 0);
    for id in 1..=messages {
        let partition = usize::try_from(id % 2).unwrap();
        let at = place(topic, i32::try_from(partition).unwrap(), next[partition]);
        next[partition] += 1;
        let is_broken = id * share / 100_000 > (id - 1) * share / 100_000;
        let timestamp = 1_767_225_600_000 + i64::try_from(id).unwrap();
        let (key, headers) =
            (format!("k{id}").into_bytes(), vec![("n".to_owned(), Some(id.to_string().into_bytes())), ("none".to_owned(), None)]);
        let value = if is_broken {
            let (stage, value) = kind(broken, id);
            broken += 1;
            let dead = json!({
                "stage": stage,
                "key": hex(&key),
                "value": value.as_ref().map(|v| hex(v)),
                "headers": json!([["n", id.to_string()], ["none", null]]).to_string(),
                "timestamp": format!("us:{}", timestamp * 1000),
            });
            written.dead.insert(at, dead);
            value
        } else {
            written.rows.insert(at, Some(id));
            Some(format!("{{\"id\": {id}, \"who\": {{\"name\": \"x\", \"age\": 7}}, \"note\": \"null\"}}").into_bytes())
        };
        producer.send(topic, i32::try_from(partition).unwrap(), &Message { key: Some(key), value, headers, timestamp: Some(timestamp) });
    }
    assert_eq!(producer.flush().len() as u64, messages);
    written
}

fn flow(broker: &Broker, topic: &str, rows: u64) -> Flow {
    let flow = Flow::new(topic, broker, topic, "stop: end");
    flow.edit("id: BIGINT\n", "id: BIGINT NOT NULL\n      who: ROW<name STRING, age INT>\n      note: STRING\n    checks: [id >= 0]\n");
    flow.edit("every: 500ms", &format!("rows: {rows}"));
    flow
}

/// Killed `kills` times, each time after some commits; then to its end.
fn run(flow: &Flow, kills: u64) {
    for n in 0..kills {
        let mut running = flow.start(&[]);
        running.until(
            usize::try_from(1 + n % 3).unwrap(),
            if n % 2 == 0 { crate::process::Line::committed } else { crate::process::Line::checkpointed },
        );
        running.kill();
    }
    flow.run().with(0);
}

fn check(topic: &str, messages: u64, share: u64, every: u64, kills: u64) {
    let broker = Broker::shared();
    // The timestamps are older than what is kept by default.
    broker.create_topic(topic, 2, &[("retention.ms", "-1")]);
    let written = write(broker, topic, messages, share);
    assert!(written.dead.len() as u64 >= KINDS, "every kind");
    let flow = flow(broker, topic, every);
    run(&flow, kills);
    let rows = flow.rows();
    assert!(rows == written.rows, "{} rows instead of {}", rows.len(), written.rows.len());
    flow.assert_joined();
    let dead = flow.dead_letters();
    assert_eq!(dead.keys().collect::<Vec<_>>(), written.dead.keys().collect::<Vec<_>>());
    for (at, wanted) in &written.dead {
        for (column, wanted) in wanted.as_object().unwrap() {
            assert!(
                dead[at][column] == *wanted,
                "{at:?}: {column} is {:.200} instead of {:.200}",
                dead[at][column].to_string(),
                wanted.to_string()
            );
        }
        assert!(dead[at]["error"].as_str().is_some_and(|e| !e.is_empty()), "{at:?}");
    }
}

#[test]
#[ignore = "wants Kafka and Python: tests/setup.sh"]
fn one_broken_message_in_a_thousand_is_a_dead_letter_once_over_kills() {
    check("poison-few", 24_000, 100, 2000, 5);
}

#[test]
#[ignore = "wants Kafka and Python: tests/setup.sh"]
fn every_second_message_broken_in_every_way_is_a_dead_letter_once_over_kills() {
    check("poison-half", 1200, 50_000, 100, 5);
}

/// The greatest amount of memory that a process had, in MiB; it only rises, and is gone with the process.
fn peak_mib(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mark = text.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    mark.unwrap_or(0) / 1024
}

#[test]
#[ignore = "wants Kafka and Python: tests/setup.sh"]
fn a_topic_in_which_every_message_is_broken_goes_on_to_its_end_in_bounded_memory() {
    let broker = Broker::shared();
    broker.create_topic("poison-all", 2, &[]);
    let (messages, size) = (40_000, 8_000);
    let producer = Producer::new(broker, &[]);
    (0..messages).for_each(|n| producer.send("poison-all", n % 2, &Message::new("x".repeat(size))));
    producer.flush();
    let mut flow = flow(broker, "poison-all", 4000);
    flow.set("memory=64MiB");
    let mut running = flow.start(&[]);
    let mut peak = 0;
    while !running.over() {
        peak = peak.max(peak_mib(running.id()));
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = running.end().with(0);
    let checkpoints = ended.lines.iter().filter(|l| l.checkpointed()).count();
    let mib = (40_000 * size) >> 20;
    println!("{mib} MiB of broken messages: {checkpoints} checkpoints, {peak} MiB at the peak");
    assert!(checkpoints >= 9, "{checkpoints} checkpoints");
    assert!(peak < 256, "{peak} MiB at the peak for {mib} MiB of messages");
    assert_eq!(flow.snapshots().len(), 0, "no rows, no snapshots");
    let found = readers::get("pypaimon", &json!({"cmd": "count", "table": flow.dead()}));
    assert_eq!(found["count"], messages);
}

/// User and system seconds of all children of this process that were waited for.
fn children_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // cutime and cstime are fields 16 and 17; the state is field 3. A tick is 10 ms on every Linux there is.
    (fields[13].parse::<f64>().unwrap() + fields[14].parse::<f64>().unwrap()) / 100.0
}

#[test]
#[ignore = "the long form: tests/long.sh poison"]
fn long_poison_costs_little() {
    if std::env::var_os("LAKEWARD_LONG").is_none() {
        return;
    }
    let messages = crate::process::kills::number("LAKEWARD_MESSAGES", 2_000_000);
    let broker = Broker::shared();
    let mut seconds = BTreeMap::new();
    println!("{messages} messages of 200 bytes with {}", binary().display());
    for (name, one_in) in [("clean", 0), ("0.1 % broken", 1000), ("50 % broken", 2)] {
        let topic = format!("cost-{one_in}");
        broker.create_topic(&topic, 4, &[]);
        let producer = Producer::new(broker, &[]);
        let good = |id: u64| format!("{{\"id\":{id},\"who\":{{\"name\":\"x\",\"age\":7}},\"note\":\"{}\"}}", "n".repeat(140));
        for id in 0..messages {
            let value = if one_in > 0 && id % one_in == 0 { format!("{}x", good(id)) } else { good(id) };
            producer.send(&topic, i32::try_from(id % 4).unwrap(), &Message::new(value));
        }
        producer.flush();
        let mut best = f64::MAX;
        for run in 0..3 {
            let flow = flow(broker, &topic, 500_000);
            flow.edit("pipeline: ", &format!("pipeline: run-{run}-"));
            let before = children_seconds();
            flow.run().with(0);
            best = best.min(children_seconds() - before);
        }
        seconds.insert(name, best);
        broker.delete_topic(&topic);
        println!("{name:>14}: {best:6.2} CPU s, {:.2} of clean throughput", seconds["clean"] / best);
    }
}
