//! Where reading starts and where it stops; several topics, patterns, and what appears while a pipeline runs.

use rustix::process::Signal;

use super::broker::Broker;
use super::flow::{Flow, ids, place, places, until_rows};
use super::produce::Message;

/// A topic with two partitions of ten records each, at the seconds 1000, 1001, ... of 2026.
fn topic(name: &str) -> &'static Broker {
    let broker = Broker::shared();
    broker.create_topic(name, 2, &[]);
    for partition in [0, 1] {
        broker.produce(name, partition, (0..10).map(|i| Message::new(format!("{{\"id\": {i}}}")).at(ms(i))));
    }
    broker
}

fn ms(i: i64) -> i64 {
    1_767_225_600_000 + (1000 + i) * 1000
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn earliest_to_end_reads_all_that_was_there_and_the_next_run_what_came_since() {
    let broker = topic("modes-earliest");
    let flow = Flow::new("earliest", broker, "modes-earliest", "start: earliest, stop: end");
    let ended = flow.run().with(0);
    let all = |n: u64| (0..2).flat_map(move |p| places("modes-earliest", p, 0..n)).collect::<Vec<_>>();
    flow.assert_places(all(10));
    assert!(ended.err().contains("modes-earliest[0]"), "the plan names each partition: {}", ended.err());
    let snapshots = flow.snapshots().len();
    flow.run().with(0);
    assert_eq!(flow.snapshots().len(), snapshots, "nothing came, nothing is written");
    (0..2).for_each(|p| drop(broker.produce("modes-earliest", p, ids(10..15))));
    flow.run().with(0);
    flow.assert_places(all(15));
    assert!(flow.rows().iter().all(|((_, _, offset), id)| *id == Some(*offset)), "the row is that of the record");
    // The group is told: any lag tool sees it.
    let lag = broker.lag("earliest");
    assert_eq!(lag[&("modes-earliest".to_owned(), 1)], [Some(15), Some(15), Some(0)]);
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn latest_without_stop_reads_what_comes_until_it_is_told_to_end() {
    let broker = topic("modes-latest");
    let flow = Flow::new("latest", broker, "modes-latest", "start: latest");
    let mut running = flow.start(&[]);
    running.until(1, |l| l.says().contains("new lineage")).expect("it starts");
    broker.produce("modes-latest", 1, ids(10..13));
    until_rows(&flow, &mut running, 3);
    running.send(Signal::TERM);
    running.end().with(0);
    flow.assert_places(places("modes-latest", 1, 10..13));
    // A start goes on where the chain says, not at the latest.
    broker.produce("modes-latest", 0, ids(10..12));
    let mut running = flow.start(&[]);
    until_rows(&flow, &mut running, 5);
    running.send(Signal::TERM);
    running.end().with(0);
    flow.assert_places([places("modes-latest", 0, 10..12), places("modes-latest", 1, 10..13)].concat());
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn latest_with_an_end_is_the_moment_of_the_first_run_although_nothing_was_there_to_read() {
    let broker = topic("modes-moment");
    let flow = Flow::new("moment", broker, "modes-moment", "start: latest, stop: end");
    flow.run().with(0);
    broker.produce("modes-moment", 1, ids(10..13));
    flow.run().with(0);
    broker.produce("modes-moment", 0, ids(10..12));
    flow.run().with(0);
    flow.assert_places([places("modes-moment", 0, 10..12), places("modes-moment", 1, 10..13)].concat());
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn timestamps_bound_what_is_read() {
    let broker = topic("modes-timestamps");
    let bounds = "start: {timestamp: '2026-01-01T00:16:43Z'}, stop: {timestamp: '2026-01-01T00:16:46Z'}";
    let flow = Flow::new("timestamps", broker, "modes-timestamps", bounds);
    flow.run().with(0);
    flow.assert_places((0..2).flat_map(|p| places("modes-timestamps", p, 3..6)));
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn given_offsets_and_a_group_say_where_a_first_run_starts() {
    let broker = topic("modes-given");
    let flow = Flow::new("given", broker, "modes-given", "start: {offsets: {modes-given: {0: 7}}}, stop: end");
    flow.run().with(0);
    flow.assert_places([places("modes-given", 0, 7..10), places("modes-given", 1, 0..10)].concat());
    // That run has told the group `given`, and this pipeline starts where the group stands.
    broker.produce("modes-given", 0, ids(10..12));
    let next = Flow::new("next", broker, "modes-given", "start: {group: given}, stop: end");
    next.run().with(0);
    next.assert_places(places("modes-given", 0, 10..12));
    let nobody = Flow::new("nobody", broker, "modes-given", "start: {group: nobody}, stop: end");
    let refused = nobody.run().with(2);
    assert!(refused.err().contains("nobody"), "{}", refused.err());
    let beyond = Flow::new("beyond", broker, "modes-given", "start: {offsets: {modes-given: {1: 11}}}, stop: end");
    let refused = beyond.run().with(2);
    assert!(refused.err().contains("modes-given[1]"), "{}", refused.err());
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn several_topics_and_a_pattern_come_into_one_table() {
    let broker = Broker::shared();
    for (topic, partitions) in [("several-a", 1), ("several-b", 2), ("other-several", 1)] {
        broker.create_topic(topic, partitions, &[]);
        (0..partitions).for_each(|p| drop(broker.produce(topic, p, ids(0..5))));
    }
    let expected = [places("several-a", 0, 0..5), places("several-b", 0, 0..5), places("several-b", 1, 0..5)].concat();
    let listed = Flow::new("listed", broker, "several-a, several-b", "stop: end");
    listed.run().with(0);
    listed.assert_places(expected.clone());
    let pattern = Flow::of("pattern", &format!("bootstrap_servers: '{}', topic_pattern: '^several-', stop: end", broker.address));
    pattern.run().with(0);
    pattern.assert_places(expected);
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn topics_and_partitions_that_appear_during_a_run_are_read_from_their_beginning() {
    let broker = Broker::shared();
    broker.create_topic("appear-a", 1, &[]);
    broker.produce("appear-a", 0, ids(0..5));
    let of = format!(
        "bootstrap_servers: '{}', topic_pattern: '^appear-', properties: {{topic.metadata.refresh.interval.ms: 500}}",
        broker.address
    );
    let flow = Flow::of("appear", &of);
    let mut running = flow.start(&[]);
    until_rows(&flow, &mut running, 5);
    broker.add_partitions("appear-a", 2);
    broker.produce("appear-a", 1, ids(0..7));
    broker.create_topic("appear-b", 1, &[]);
    broker.produce("appear-b", 0, ids(0..3));
    until_rows(&flow, &mut running, 15);
    running.kill();
    // What was found is in the chain: it goes on there.
    broker.produce("appear-b", 0, ids(3..4));
    let mut running = flow.start(&[]);
    until_rows(&flow, &mut running, 16);
    running.send(Signal::TERM);
    running.end().with(0);
    flow.assert_places([places("appear-a", 0, 0..5), places("appear-a", 1, 0..7), places("appear-b", 0, 0..4)].concat());
    assert_eq!(flow.assert_joined()["appear-b/0"], [0, 4]);
    assert!(flow.rows().contains_key(&place("appear-b", 0, 3)));
}
