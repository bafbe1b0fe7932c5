//! Offsets without records: transactions, committed, aborted and open, and compaction.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{Message as _, Offset, TopicPartitionList};
use rustix::process::Signal;

use super::broker::Broker;
use super::flow::{Flow, ids, places, until_rows};
use super::produce::{Message, Producer};

/// In this order: 10 committed, 10 aborted, 10 committed, 5 aborted; a marker after each. Returns the places of what was committed.
fn fill(broker: &Broker, topic: &str) -> Vec<super::flow::Place> {
    let producer = Producer::transactional(broker, topic);
    for (commit, count) in [(true, 10), (false, 10), (true, 10), (false, 5)] {
        producer.begin();
        ids(0..count).for_each(|m| producer.send(topic, 0, &m));
        producer.flush();
        if commit { producer.commit() } else { producer.abort() }
    }
    assert_eq!(broker.watermarks(topic, 0), (0, 39));
    [places(topic, 0, 0..10), places(topic, 0, 22..32)].concat()
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn committed_transactions_are_read_and_aborted_ones_are_not() {
    let broker = Broker::shared();
    broker.create_topic("transactions", 1, &[]);
    let committed = fill(broker, "transactions");
    let flow = Flow::new("transactions", broker, "transactions", "stop: end");
    let started = Instant::now();
    flow.run().with(0);
    assert!(started.elapsed() < Duration::from_secs(20), "the end lies behind what was aborted, and is found");
    flow.assert_places(committed.clone());
    assert_eq!(flow.position("transactions/0")["offset"], 39, "markers and aborted records are behind us");
    let rows = flow.snapshots().len();
    flow.run().with(0);
    assert_eq!(flow.snapshots().len(), rows, "nothing is left to read");
    // All of them, when that is asked for.
    let raw = Flow::new("uncommitted", broker, "transactions", "stop: end, properties: {isolation.level: read_uncommitted}");
    raw.run().with(0);
    raw.assert_places(
        [places("transactions", 0, 0..10), places("transactions", 0, 11..21), committed[10..].to_vec(), places("transactions", 0, 33..38)]
            .concat(),
    );
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn an_open_transaction_holds_back_what_lies_behind_it_until_it_is_over() {
    let broker = Broker::shared();
    broker.create_topic("open-transaction", 1, &[]);
    broker.produce("open-transaction", 0, ids(0..5));
    let producer = Producer::transactional(broker, "open-transaction");
    producer.begin();
    ids(5..8).for_each(|m| producer.send("open-transaction", 0, &m));
    producer.flush();
    broker.produce("open-transaction", 0, ids(8..10));
    // A bounded run ends at the last stable offset: it does not wait.
    let bounded = Flow::new("open-bounded", broker, "open-transaction", "stop: end");
    bounded.run().with(0);
    bounded.assert_places(places("open-transaction", 0, 0..5));
    let flow = Flow::new("open-followed", broker, "open-transaction", "");
    let mut running = flow.start(&[]);
    until_rows(&flow, &mut running, 5);
    std::thread::sleep(Duration::from_secs(2));
    flow.assert_places(places("open-transaction", 0, 0..5));
    producer.commit();
    until_rows(&flow, &mut running, 10);
    running.send(Signal::TERM);
    running.end().with(0);
    flow.assert_places(places("open-transaction", 0, 0..10));
    bounded.run().with(0);
    bounded.assert_places(places("open-transaction", 0, 0..10));
}

/// The offsets that a topic still has, by a plain consumer.
fn offsets(broker: &Broker, topic: &str) -> Vec<u64> {
    let mut config = broker.client();
    let consumer: BaseConsumer = config.set("group.id", "look").set("enable.partition.eof", "true").create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
    consumer.assign(&list).unwrap();
    let mut found = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline, "the end of {topic} does not come");
        match consumer.poll(Duration::from_secs(1)) {
            Some(Ok(message)) => found.push(u64::try_from(message.offset()).unwrap()),
            Some(Err(_)) => return found, // the end
            None => {}
        }
    }
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_compacted_topic_is_read_as_it_is_gaps_and_all() {
    let broker = Broker::shared();
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "1000"),
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("min.compaction.lag.ms", "0"),
    ];
    broker.create_topic("compacted", 1, &configs);
    // Every tenth key comes once, the others again and again.
    let key = |round: u64, i: u64| if i.is_multiple_of(10) { format!("once-{round}-{i}") } else { format!("k{}", i % 20) };
    let write = move |round: u64| {
        let messages = (0..200).map(move |i| Message::new(format!("{{\"id\": {}}}", round * 1000 + i)).key(key(round, i)));
        broker.produce("compacted", 0, messages);
        std::thread::sleep(Duration::from_millis(1100)); // the next one rolls the segment
    };
    (0..4).for_each(write);
    let deadline = Instant::now() + Duration::from_secs(60);
    let left = loop {
        let left = offsets(broker, "compacted");
        if left.len() < 400 && left.last() == Some(&799) {
            // It may go on; what is compared must stand still.
            std::thread::sleep(Duration::from_secs(2));
            if offsets(broker, "compacted") == left {
                break left;
            }
        }
        assert!(Instant::now() < deadline, "the topic is not compacted: {} records\n{}", left.len(), broker.log());
    };
    assert!(left.windows(2).any(|w| w[1] > w[0] + 1), "there are gaps");
    let flow = Flow::new("compacted", broker, "compacted", "stop: end");
    flow.run().with(0);
    flow.assert_places(places("compacted", 0, left));
    assert_eq!(flow.position("compacted/0")["offset"], 800);
}
