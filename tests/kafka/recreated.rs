//! A topic that was deleted and created again has other records at the same offsets: never taken for the old one.

use std::time::Duration;

use rustix::process::Signal;

use super::broker::Broker;
use super::flow::{Flow, ids, places, until_rows};

/// The text says which topic, both ids, and what to do.
fn assert_told(said: &str, topic: &str, before: &str) {
    assert!(said.contains(topic) && said.contains(before) && said.contains("deleted and created again"), "{said}");
    assert!(said.contains("another name"), "what to do: {said}");
}

fn id(flow: &Flow, split: &str) -> String {
    flow.position(split)["note"]["id"].as_str().expect("the topic's id is in the position").to_owned()
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_topic_recreated_between_two_runs_stops_the_second() {
    let broker = Broker::shared();
    // Longer or shorter than where the pipeline stands: offsets alone do not tell.
    for (topic, later) in [("recreated-longer", 20), ("recreated-shorter", 5)] {
        broker.create_topic(topic, 1, &[]);
        broker.produce(topic, 0, ids(0..10));
        let flow = Flow::new(topic, broker, topic, "stop: end");
        flow.run().with(0);
        let before = id(&flow, &format!("{topic}/0"));
        broker.delete_topic(topic);
        broker.create_topic(topic, 1, &[]);
        broker.produce(topic, 0, ids(100..100 + later));
        for _ in 0..2 {
            let ended = flow.run().with(5);
            assert_told(&ended.err(), topic, &before);
        }
        flow.assert_places(places(topic, 0, 0..10));
        // The way out: another chain into the same table would write (topic, partition, offset) again, so here into another one.
        let next = Flow::new(&format!("{topic}-2"), broker, topic, "stop: end");
        next.run().with(0);
        next.assert_places(places(topic, 0, 0..later));
        assert_ne!(id(&next, &format!("{topic}/0")), before);
    }
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_topic_recreated_during_a_run_stops_it_before_a_row_of_the_new_one_is_written() {
    let broker = Broker::shared();
    for (topic, later) in [("swapped-longer", 500), ("swapped-shorter", 5)] {
        broker.create_topic(topic, 1, &[]);
        broker.produce(topic, 0, ids(0..10));
        let flow = Flow::new(topic, broker, topic, "");
        let mut running = flow.start(&[]);
        until_rows(&flow, &mut running, 10);
        let before = id(&flow, &format!("{topic}/0"));
        // It finds the new topic as it is then: the longer one has a record at every offset that is asked for.
        running.send(Signal::STOP);
        broker.delete_topic(topic);
        broker.create_topic(topic, 1, &[]);
        broker.produce(topic, 0, ids(1000..1000 + later));
        running.send(Signal::CONT);
        let ended = running.end().with(5);
        assert_told(&ended.err(), topic, &before);
        flow.assert_places(places(topic, 0, 0..10));
    }
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_topic_that_is_deleted_and_stays_away_stops_the_run_and_the_next() {
    let broker = Broker::shared();
    broker.create_topic("gone", 1, &[]);
    broker.produce("gone", 0, ids(0..10));
    let flow = Flow::new("gone", broker, "gone", "");
    let mut running = flow.start(&[]);
    until_rows(&flow, &mut running, 10);
    broker.delete_topic("gone");
    std::thread::sleep(Duration::from_millis(100));
    let ended = running.end().with(5);
    assert!(ended.err().contains("gone") && ended.err().contains("deleted"), "{}", ended.err());
    let ended = flow.run().with(5);
    assert!(ended.err().contains("`gone`") && ended.err().contains("10"), "it says where it stood: {}", ended.err());
    flow.assert_places(places("gone", 0, 0..10));
}
