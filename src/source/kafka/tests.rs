//! The plumbing, on librdkafka's mock cluster: it needs no server and carries no claim. Claims are shown on Kafka, in `tests/kafka`.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer as _};

use super::topics::{parse_split, split_name};
use super::*;
use crate::Kind;
use crate::env::Env;
use crate::error::Result;
use crate::source::Records;
use crate::source::conformance;
use crate::source::{Offsets, Polled, Position, Source};

struct Cluster {
    mock: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer,
}

impl Cluster {
    fn new(topics: &[(&str, i32)]) -> Cluster {
        let mock = MockCluster::new(1).unwrap();
        topics.iter().for_each(|(topic, partitions)| mock.create_topic(topic, *partitions, 1).unwrap());
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", mock.bootstrap_servers()).set("linger.ms", "1");
        Cluster { mock, producer: config.create().unwrap() }
    }
    fn send(&self, topic: &str, partition: i32, values: impl IntoIterator<Item = String>) {
        for value in values {
            let record = BaseRecord::<str, str>::to(topic).partition(partition).payload(&value);
            self.producer.send(record).unwrap();
            self.producer.poll(Duration::ZERO);
        }
        self.producer.flush(Duration::from_secs(10)).unwrap();
    }
    fn options(&self, topics: &[&str]) -> KafkaOptions {
        let names = KafkaTopics::Names(topics.iter().map(|t| (*t).to_owned()).collect());
        KafkaOptions::new(self.mock.bootstrap_servers(), names, "tests")
    }
}

fn source(options: KafkaOptions) -> Result<KafkaSource> {
    KafkaSource::new(Env::real(), options, Notices::to(|notice| println!("{notice}")))
}

/// Without what notes say of the topics.
fn bare(offsets: &Offsets) -> Offsets {
    offsets.0.iter().map(|(split, p)| (split.clone(), Position { offset: p.offset, note: None })).collect()
}

fn offsets(of: &[(&str, u64)]) -> Offsets {
    of.iter().map(|(split, offset)| ((*split).to_owned(), Position { offset: *offset, note: None })).collect()
}

/// Resolves, seeks, and reads to the end, or until nothing came for a second.
async fn read(source: &mut KafkaSource, from: Option<&Offsets>) -> Vec<Records> {
    let resolved = source.resolve(from).await.unwrap();
    source.seek(&resolved.start, resolved.stop.as_ref()).await.unwrap();
    more(source).await
}

async fn more(source: &mut KafkaSource) -> Vec<Records> {
    let mut out = Vec::new();
    loop {
        match source.poll(source.env.deadline(Duration::from_secs(1))).await.unwrap() {
            Polled::Records(records) => out.push(records),
            _ => return out,
        }
    }
}

fn values(all: &[Records]) -> BTreeMap<(String, u64), String> {
    let each = |r: &Records| {
        let value = |i| ((r.origin.split.clone(), r.offsets[i]), String::from_utf8_lossy(r.value(i)).into_owned());
        (0..r.len()).map(value).collect::<Vec<_>>()
    };
    all.iter().flat_map(each).collect()
}

#[tokio::test]
async fn it_keeps_what_every_source_promises() {
    let cluster = Cluster::new(&[("a", 2), ("b.c", 1)]);
    for (topic, partition, count) in [("a", 0, 700), ("a", 1, 3), ("b.c", 0, 50)] {
        cluster.send(topic, partition, (0..count).map(|i| format!("{topic} {partition} {i}")));
    }
    for (stop, chunk_records) in [(KafkaStop::End, 100), (KafkaStop::Never, usize::MAX)] {
        let options = KafkaOptions { stop, chunk_records, ..cluster.options(&["a", "b.c"]) };
        conformance::check(&Env::real(), || source(options.clone())).await.unwrap();
    }
}

#[tokio::test]
async fn keys_headers_timestamps_empty_and_null_values_come_through() {
    let cluster = Cluster::new(&[("t", 1)]);
    let to = || BaseRecord::<str, str>::to("t").partition(0).timestamp(1_700_000_000_123);
    let headers = rdkafka::message::OwnedHeaders::new()
        .insert(rdkafka::message::Header { key: "h", value: Some("1") })
        .insert(rdkafka::message::Header::<&str> { key: "h", value: None });
    for record in [to().payload("first"), to().payload("").key("k").headers(headers), to().key(""), to().payload("last")] {
        cluster.producer.send(record).map_err(|(e, _)| e).unwrap();
    }
    cluster.producer.flush(Duration::from_secs(10)).unwrap();
    let mut source = source(KafkaOptions { stop: KafkaStop::End, ..cluster.options(&["t"]) }).unwrap();
    let resolved = source.resolve(None).await.unwrap();
    source.seek(&resolved.start, resolved.stop.as_ref()).await.unwrap();
    source.env.sleep(Duration::from_millis(500)).await;
    let all = more(&mut source).await;
    let records = &all[0];
    assert_eq!((all.len(), records.len()), (1, 4), "little that comes at once is one chunk");
    assert_eq!(records.place(2), "t[0]@2");
    assert_eq!(records.offsets, [0, 1, 2, 3]);
    assert_eq!(records.timestamps, [1_700_000_000_123; 4]);
    assert_eq!((records.value(0), records.value(1), records.value(3)), (&b"first"[..], &b""[..], &b"last"[..]));
    assert_eq!(records.keys, [None, Some("k".into()), Some("".into()), None]);
    assert_eq!(records.headers[1], [("h".to_owned(), Some("1".into())), ("h".to_owned(), None)]);
    assert!(records.headers[0].is_empty() && records.headers.len() == 4);
    assert_eq!(records.faults.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [2], "a tombstone is no row, an empty value may be one");
}

#[tokio::test]
async fn records_without_keys_and_headers_carry_no_vectors_of_nothing() {
    let cluster = Cluster::new(&[("t", 1)]);
    cluster.send("t", 0, (0..10).map(|i| i.to_string()));
    let all = read(&mut source(KafkaOptions { stop: KafkaStop::End, ..cluster.options(&["t"]) }).unwrap(), None).await;
    assert!(all.iter().all(|r| r.keys.is_empty() && r.headers.is_empty() && r.lines.is_empty()));
}

#[tokio::test]
async fn a_start_is_resolved_once_and_goes_on_where_an_earlier_one_stood() {
    let cluster = Cluster::new(&[("t", 3)]);
    cluster.send("t", 0, (0..10).map(|i| i.to_string()));
    cluster.send("t", 1, (0..4).map(|i| i.to_string()));
    let given = [("t".to_owned(), BTreeMap::from([(0, 7)]))].into();
    let options = KafkaOptions { start: KafkaStart::Offsets(given), stop: KafkaStop::End, ..cluster.options(&["t"]) };
    let mut first = source(options.clone()).unwrap();
    let resolved = first.resolve(None).await.unwrap();
    assert_eq!(bare(&resolved.start), offsets(&[("t/0", 7), ("t/1", 0), ("t/2", 0)]));
    assert_eq!(bare(resolved.stop.as_ref().unwrap()), offsets(&[("t/0", 10), ("t/1", 4), ("t/2", 0)]));
    assert!(first.plan()[0].contains("reads t[0] from 7 (given) to 10"), "{:?}", first.plan());
    assert!(first.plan()[2].contains("nothing to read"), "{:?}", first.plan());
    cluster.send("t", 0, ["late".to_owned()]);
    assert_eq!(first.resolve(None).await.unwrap(), resolved, "a start asks more than once, and means one moment");
    assert_eq!(values(&read(&mut first, None).await).len(), 7, "and the end is the one that was seen at start");

    let newest = KafkaOptions { start: KafkaStart::Latest, newest: Some(3), ..options.clone() };
    assert_eq!(bare(&source(newest).unwrap().resolve(None).await.unwrap().start), offsets(&[("t/0", 8), ("t/1", 1), ("t/2", 0)]));

    let latest = KafkaOptions { start: KafkaStart::Latest, ..options };
    let mut again = source(latest).unwrap();
    let all = read(&mut again, Some(&offsets(&[("t/0", 9), ("gone/0", 5)]))).await;
    let expected = [("t/0", 9, "9"), ("t/0", 10, "late"), ("t/1", 0, "0"), ("t/1", 1, "1"), ("t/1", 2, "2"), ("t/1", 3, "3")];
    assert_eq!(values(&all), expected.map(|(s, o, v)| ((s.to_owned(), o), v.to_owned())).into(), "what is new begins at its first record");
    assert_eq!(bare(&again.position()), offsets(&[("gone/0", 5), ("t/0", 11), ("t/1", 4), ("t/2", 0)]));
}

#[tokio::test]
async fn offsets_that_are_not_there_are_refused() {
    let cluster = Cluster::new(&[("t", 1)]);
    cluster.send("t", 0, ["a".to_owned()]);
    for (topic, partition, offset, says) in [("t", 0, 2, "it has 0 to 1"), ("t", 1, 0, "no partition 1"), ("u", 0, 0, "topic `u`")] {
        let given = [(topic.to_owned(), BTreeMap::from([(partition, offset)]))].into();
        let options = KafkaOptions { start: KafkaStart::Offsets(given), ..cluster.options(&["t"]) };
        let error = source(options).unwrap().resolve(None).await.unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.to_string().contains(says), "{error}");
    }
}

#[tokio::test]
async fn a_topic_that_appears_is_read_from_its_first_record() {
    let cluster = Cluster::new(&[("orders-a", 1), ("other", 1)]);
    cluster.send("orders-a", 0, ["old".to_owned()]);
    let mut options = cluster.options(&[]);
    options.topics = KafkaTopics::Pattern("^orders-".to_owned());
    options.start = KafkaStart::Latest;
    options.properties.insert("metadata.max.age.ms".to_owned(), "100".to_owned());
    let mut source = source(options).unwrap();
    assert!(read(&mut source, None).await.is_empty());
    cluster.mock.create_topic("orders-b", 2, 1).unwrap();
    cluster.send("orders-b", 1, ["new".to_owned()]);
    cluster.send("other", 0, ["not asked for".to_owned()]);
    let mut all = Vec::new();
    for _ in 0..10 {
        all.extend(more(&mut source).await);
        if !all.is_empty() {
            break;
        }
    }
    assert_eq!(values(&all), [(("orders-b/1".to_owned(), 0), "new".to_owned())].into());
    assert_eq!(bare(&source.position()), offsets(&[("orders-a/0", 1), ("orders-b/0", 0), ("orders-b/1", 1)]));
}

#[tokio::test]
async fn what_waits_is_bounded_and_nothing_of_it_is_lost() {
    let cluster = Cluster::new(&[("t", 8)]);
    for partition in 0..8 {
        cluster.send("t", partition, (0..1000).map(|i| format!("{i:0500}")));
    }
    let options = KafkaOptions { memory_bytes: 512 << 10, chunk_bytes: 16 << 10, stop: KafkaStop::End, ..cluster.options(&["t"]) };
    let mut source = source(options).unwrap();
    let resolved = source.resolve(None).await.unwrap();
    source.seek(&resolved.start, resolved.stop.as_ref()).await.unwrap();
    let waits = |source: &KafkaSource| source.feed.as_ref().unwrap().waiting.lock().cost();
    for _ in 0..200 {
        if waits(&source) >= 256 << 10 {
            break;
        }
        source.env.sleep(Duration::from_millis(100)).await;
    }
    source.env.sleep(Duration::from_millis(500)).await;
    let (waiting, batch) = (waits(&source), 1000 * 524);
    assert!((256 << 10..(256 << 10) + batch).contains(&waiting), "{waiting}");
    let all = more(&mut source).await;
    assert_eq!(all.iter().map(Records::len).sum::<usize>(), 8000);
    assert!(all.iter().all(|r| r.bytes.len() <= (16 << 10) + 500));
}

#[tokio::test]
async fn a_topic_that_is_not_there_is_named() {
    let cluster = Cluster::new(&[("t", 1)]);
    cluster.mock.topic_error("nothing", rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    let error = source(cluster.options(&["nothing"])).unwrap().resolve(None).await.unwrap_err();
    assert!(error.kind() == Kind::Invalid && error.to_string().contains("`nothing`"), "{error}");
}

#[tokio::test]
async fn brokers_that_do_not_answer_are_waited_for_as_long_as_was_said() {
    let mut options = KafkaOptions::new("127.0.0.1:1", KafkaTopics::Names(vec!["t".to_owned()]), "tests");
    options.patience = Duration::from_millis(10);
    let error = source(options).unwrap().resolve(None).await.unwrap_err();
    assert!(error.kind() == Kind::Unavailable && error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[test]
fn a_split_is_named_by_topic_and_partition() {
    for (topic, partition) in [("a", 0), ("a.b-c_d", 12)] {
        assert_eq!(parse_split(&split_name(topic, partition)), Some((topic, partition)));
    }
    assert_eq!((parse_split("a"), parse_split("a/x"), parse_split("a/-1")), (None, None, None));
}
