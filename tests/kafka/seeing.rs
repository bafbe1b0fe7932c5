//! Lag as Kafka's own tool sees it, and a store that stops.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::broker::Broker;
use crate::process::{Bucket, Line, Place, Running};
use crate::s3::server::Server;

/// Nothing here takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Records `{"id": ..}` with these ids.
pub(super) fn records(ids: std::ops::Range<i64>) -> impl Iterator<Item = String> {
    ids.map(|id| format!("{{\"id\":{id},\"customer\":\"c{id}\"}}"))
}

/// What a running pipeline answers.
pub(super) struct Seen(String);

impl Seen {
    /// Waits until the run says where it answers.
    pub(super) fn of(run: &mut Running) -> Seen {
        let said = |line: &Line| line.says().starts_with("metrics at http://");
        run.until(1, said).expect("it serves");
        let line = run.lines().into_iter().find(said).unwrap();
        Seen(line.says()["metrics at http://".len()..].split('/').next().unwrap().to_owned())
    }
    /// Status and body.
    pub(super) fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.0).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer within 3 s");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
    /// `lakeward_partition_NAME` of each partition of `topic`.
    pub(super) fn partitions(&self, name: &str, topic: &str) -> BTreeMap<i32, f64> {
        let (_, text) = self.get("/metrics");
        let start = format!("lakeward_partition_{name}{{pipeline=\"p\",topic=\"{topic}\",partition=\"");
        let of = |rest: &str| rest.split_once("\"} ").map(|(p, value)| (p.parse().unwrap(), value.parse().unwrap()));
        text.lines().filter_map(|line| of(line.strip_prefix(&start)?)).collect()
    }
}

pub(super) fn eventually(what: &str, wanted: impl Fn() -> bool) {
    let since = Instant::now();
    while !wanted() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Topic, table and chain of a test of its own; metrics on a free port.
pub(super) fn place(broker: &Broker, topic: &str, more: &str, triggers: &str) -> Place {
    let source = format!("kafka: {{bootstrap_servers: '{}', topics: [{topic}], properties: {{group.id: {topic}}}{more}}}", broker.address);
    let mut place = Place::new(&source, triggers);
    place.set("metrics=127.0.0.1:0");
    place
}

/// `table-cli lag`: partition -> (end, committed, lag).
fn lag(place: &Place) -> BTreeMap<i32, [i64; 3]> {
    let rows = place.rows(&[
        "lag",
        place.file().to_str().unwrap(),
        "-o",
        "jsonl",
        "--set",
        &format!("checkpoint.location={}", place.location("_checkpoints")),
    ]);
    let number = |row: &Value, key: &str| row[key].as_i64().unwrap_or_else(|| panic!("{key}: {row}"));
    rows.iter()
        .map(|row| (i32::try_from(number(row, "partition")).unwrap(), ["end", "committed", "lag"].map(|key| number(row, key))))
        .collect()
}

/// The same by Kafka's own tool.
fn by_kafka(broker: &Broker, group: &str) -> BTreeMap<i32, [i64; 3]> {
    let all = broker.lag(group).into_iter();
    all.map(|((_, p), [current, end, lag])| (p, [end.unwrap(), current.unwrap(), lag.unwrap()])).collect()
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn lag_at_rest_and_of_a_stopped_pipeline_is_what_kafkas_own_tool_computes() {
    let (broker, topic) = (Broker::shared(), "seeing-lag");
    broker.create_topic(topic, 4, &[]);
    for p in 0..4 {
        broker.produce(topic, p, records(0..500 * (i64::from(p) + 1)));
    }
    let place = place(broker, topic, "", "every: 300ms");
    let mut run = place.start(&[]);
    let seen = Seen::of(&mut run);
    eventually("everything is committed", || {
        let lag = seen.partitions("commit_lag_records", topic);
        lag.len() == 4 && lag.values().all(|lag| *lag == 0.0)
    });
    assert_eq!(seen.partitions("committed_offset", topic), BTreeMap::from([(0, 500.0), (1, 1000.0), (2, 1500.0), (3, 2000.0)]));
    // The group is told after the commit; the tool takes a second to start.
    let tool = by_kafka(broker, topic);
    assert_eq!(tool, BTreeMap::from([(0, [500, 500, 0]), (1, [1000, 1000, 0]), (2, [1500, 1500, 0]), (3, [2000, 2000, 0])]));
    assert_eq!(lag(&place), tool, "while it runs");
    run.send(Signal::TERM);
    run.end().with(0);
    broker.produce(topic, 0, records(0..100));
    broker.produce(topic, 2, records(0..7));
    let tool = by_kafka(broker, topic);
    assert_eq!([tool[&0][2], tool[&1][2], tool[&2][2], tool[&3][2]], [100, 0, 7, 0]);
    assert_eq!(lag(&place), tool, "while nothing runs");
    let chain = format!("checkpoint.location={}", place.location("_checkpoints"));
    let too_far = |most: &str| {
        let args = ["lag", place.file().to_str().unwrap(), "--set", &chain, "--max-lag", most];
        crate::cli::table_cli(&args).output().unwrap().status.code()
    };
    assert_eq!([too_far("107"), too_far("106")], [Some(0), Some(3)]);
}

#[test]
#[ignore = "wants Kafka and moto: tests/setup.sh"]
fn a_store_that_stops_is_told_once_and_unhealthy_and_ends_the_run_if_so_configured() {
    let (broker, topic) = (Broker::shared(), "seeing-store");
    broker.create_topic(topic, 2, &[]);
    broker.produce(topic, 0, records(0..100));
    let server = Arc::new(Server::moto());
    let mut place = place(broker, topic, "", "every: 500ms").on(Bucket::new(&server, &server.address));
    place.set("watchdog.intervals=6");
    let mut run = place.start(&[]);
    let seen = Seen::of(&mut run);
    run.until(1, Line::committed).expect("it commits");
    eventually("it is at rest", || seen.partitions("commit_lag_records", topic).values().all(|lag| *lag == 0.0));
    assert_eq!(seen.get("/healthz").0, 200);

    server.send(Signal::STOP);
    let stopped = Instant::now();
    broker.produce(topic, 0, records(100..300));
    broker.produce(topic, 1, records(300..350));
    let spoke = run.until(1, said_by_the_watchdog).expect("the watchdog speaks");
    let after = spoke - stopped;
    assert!(
        (Duration::from_secs(3)..Duration::from_secs(8)).contains(&after),
        "it speaks after 6 intervals of 500 ms, not after {after:?}"
    );
    let (status, body) = seen.get("/healthz");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("\"status\":\"stalled\"") && body.contains("no commit for"), "{body}");
    // Nothing of it is committed, and everybody knows.
    assert_eq!(seen.partitions("commit_lag_records", topic), BTreeMap::from([(0, 200.0), (1, 50.0)]));
    let tool = by_kafka(broker, topic);
    assert_eq!((tool[&0], tool[&1]), ([300, 100, 200], [50, 0, 50]));
    let (committed, seconds) = (seen.partitions("committed_offset", topic), seen.partitions("commit_lag_seconds", topic));
    assert_eq!(committed, BTreeMap::from([(0, 100.0), (1, 0.0)]));
    assert!(seconds[&0] >= after.as_secs_f64(), "the last committed record is older than the stop: {seconds:?}");
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(run.lines().iter().filter(|l| said_by_the_watchdog(l)).count(), 1, "it has spoken");
    server.send(Signal::CONT);
    eventually("it is healthy again", || seen.get("/healthz").0 == 200);
    eventually("everything is committed", || seen.partitions("commit_lag_records", topic).values().all(|lag| *lag == 0.0));
    run.send(Signal::TERM);
    run.end().with(0);

    let mut run = place.start(&["--set", "watchdog.exit=true"]);
    let _seen = Seen::of(&mut run);
    run.until(1, |l| l.says().starts_with("going on as ")).expect("it goes on");
    server.send(Signal::STOP);
    let stopped = Instant::now();
    broker.produce(topic, 1, records(350..400));
    let ended = run.end().with(75);
    assert!(stopped.elapsed() < Duration::from_secs(12), "{:?}", stopped.elapsed());
    assert!(ended.err().contains("no commit for"), "{}", ended.err());
    server.send(Signal::CONT);
    let mut run = place.start(&[]);
    let seen = Seen::of(&mut run);
    eventually("what was pending is finished", || seen.partitions("committed_offset", topic) == BTreeMap::from([(0, 300.0), (1, 100.0)]));
    run.send(Signal::TERM);
    run.end().with(0);
    assert_eq!(place.ids(), (0..400).collect::<Vec<_>>());
}

/// At the level of an error: the event itself is told too.
pub(super) fn said_by_the_watchdog(line: &Line) -> bool {
    line.json["level"] == "ERROR" && line.json["message"].as_str().is_some_and(|m| m.starts_with("no commit for"))
}
