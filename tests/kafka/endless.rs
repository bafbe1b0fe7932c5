//! A pipeline that never ends, as a service runs it: killed while a producer goes on and partitions are added, started twice, stopped and
//! started again; then drained with `stop: end`, it has every message once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::broker::Broker;
use super::flow::{Flow, Place, place, until_rows};
use super::produce::{Message, Producer};

/// Produces until it is told to stop, over as many partitions as there are; returns where every id went.
struct Load {
    topic: &'static str,
    partitions: std::sync::atomic::AtomicI32,
    over: AtomicBool,
}

impl Load {
    fn new(topic: &'static str, partitions: i32) -> Load {
        Load { topic, partitions: partitions.into(), over: AtomicBool::new(false) }
    }

    /// About a thousand messages a second, in transactions; now and then one is aborted.
    fn run(&self, broker: &Broker) -> BTreeMap<Place, Option<u64>> {
        let producer = Producer::transactional(broker, self.topic);
        let (mut all, mut id) = (BTreeMap::new(), 0);
        for turn in 0.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            producer.begin();
            let partitions = self.partitions.load(Ordering::Relaxed);
            let partition = turn % partitions;
            let ids: Vec<u64> = (id + 1..=id + 50).collect();
            ids.iter().for_each(|id| producer.send(self.topic, partition, &Message::new(format!("{{\"id\": {id}}}"))));
            let delivered = producer.flush();
            if turn % 7 == 3 {
                producer.abort();
            } else {
                producer.commit();
                id += 50;
                all.extend(
                    ids.into_iter().zip(delivered).map(|(id, (p, offset))| (place(self.topic, p, offset.cast_unsigned()), Some(id))),
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        all
    }
}

fn exact(flow: &Flow, wanted: &BTreeMap<Place, Option<u64>>) {
    let rows = flow.rows();
    let (found, wanted): (BTreeSet<_>, BTreeSet<_>) = (rows.iter().collect(), wanted.iter().collect());
    let some = |of: Vec<&(&Place, &Option<u64>)>| of.into_iter().take(3).map(|(place, id)| format!("{place:?} {id:?}")).collect::<Vec<_>>();
    let (missing, more) = (some(wanted.difference(&found).collect()), some(found.difference(&wanted).collect()));
    assert!(found == wanted, "{} rows instead of {}: missing {missing:?}, too much {more:?}", found.len(), wanted.len());
    flow.assert_joined();
}

/// Reads what is left, up to the end.
fn drain(flow: &mut Flow) {
    flow.set("source.kafka.stop=end");
    flow.run().with(0);
}

#[test]
#[ignore = "wants Kafka and Python: tests/setup.sh"]
fn killed_again_and_again_while_messages_come_and_partitions_are_added_every_message_is_there_once() {
    let broker = Broker::shared();
    broker.create_topic("endless", 2, &[]);
    let mut flow = Flow::new("endless", broker, "endless", "stop: never, properties: {topic.metadata.refresh.interval.ms: 1000}");
    let load = Load::new("endless", 2);
    let wanted = std::thread::scope(|scope| {
        let produced = scope.spawn(|| load.run(broker));
        let mut rows = 0;
        for n in 0..8_u64 {
            if n == 3 {
                broker.add_partitions("endless", 4);
                load.partitions.store(4, Ordering::Relaxed);
            }
            let mut running = flow.start(&[]);
            if n % 2 == 0 {
                // Some progress each second time; the other kills may come before any.
                let newest = |flow: &Flow| flow.snapshots().last().map_or(0, |s| s["totalRecordCount"].as_u64().unwrap());
                rows = if flow.table().join("snapshot").exists() { newest(&flow) } else { rows };
                until_rows(&flow, &mut running, rows + 1);
            }
            std::thread::sleep(Duration::from_millis(150 * n % 700));
            running.kill();
        }
        load.over.store(true, Ordering::Relaxed);
        produced.join().unwrap()
    });
    drain(&mut flow);
    exact(&flow, &wanted);
    assert_eq!(flow.assert_joined().len(), 4, "the partitions that came later too");
}

#[test]
#[ignore = "wants Kafka and Python: tests/setup.sh"]
fn of_two_processes_on_one_pipeline_one_is_fenced_and_every_message_is_there_once() {
    let broker = Broker::shared();
    broker.create_topic("twice", 2, &[]);
    let mut flow = Flow::new("twice", broker, "twice", "stop: never");
    let load = Load::new("twice", 2);
    let wanted = std::thread::scope(|scope| {
        let produced = scope.spawn(|| load.run(broker));
        let mut first = flow.start(&[]);
        until_rows(&flow, &mut first, 1);
        let mut second = flow.start(&[]);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !first.over() && !second.over() {
            assert!(Instant::now() < deadline, "nobody is fenced");
            std::thread::sleep(Duration::from_millis(20));
        }
        let (loser, mut winner) = if first.over() { (first, second) } else { (second, first) };
        let lost = loser.end().with(4);
        assert!(lost.err().contains("process"), "it says who won: {}", lost.err());
        let rows = flow.snapshots().last().unwrap()["totalRecordCount"].as_u64().unwrap();
        until_rows(&flow, &mut winner, rows + 200);
        // A stop signal is no end of input: what was read is committed, and the next start goes on there.
        winner.send(Signal::TERM);
        winner.end().with(0);
        let kind = flow.checkpoint()["kind"].clone();
        assert_eq!(kind, "data", "the lineage is open");
        let mut third = flow.start(&[]);
        let rows = flow.snapshots().last().unwrap()["totalRecordCount"].as_u64().unwrap();
        until_rows(&flow, &mut third, rows + 100);
        load.over.store(true, Ordering::Relaxed);
        third.send(Signal::TERM);
        third.end().with(0);
        produced.join().unwrap()
    });
    drain(&mut flow);
    exact(&flow, &wanted);
    let users: BTreeSet<String> = flow.snapshots().iter().map(|s| s["commitUser"].as_str().unwrap().to_owned()).collect();
    assert_eq!(users.len(), 1, "one lineage");
}
