//! Brokers that go away and come back.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::broker::Broker;
use super::flow::{Flow, ids, places, until_rows};

/// So long a broker stays away once; it costs time, but no processor.
const OUTAGE: Duration = Duration::from_secs(60);

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_broker_that_stops_for_a_minute_and_comes_back_is_waited_for() {
    let broker = Broker::start();
    broker.create_topic("outage", 2, &[]);
    (0..2).for_each(|p| drop(broker.produce("outage", p, ids(0..100))));
    let flow = Flow::new("outage", &broker, "outage", "");
    let mut running = flow.start(&[]);
    until_rows(&flow, &mut running, 200);
    for (round, kill) in [(1, false), (2, true)] {
        if kill {
            broker.kill()
        } else {
            broker.stop()
        }
        let started = Instant::now();
        running.until(round, |l| l.json["level"] == "WARN" && l.says().contains(&broker.address)).expect("it says so and lives");
        let wait = if kill { Duration::from_secs(3) } else { OUTAGE };
        std::thread::sleep(wait.saturating_sub(started.elapsed()));
        assert!(!running.over(), "it waits");
        broker.start_again();
        let from = 100 * u64::try_from(round).unwrap();
        (0..2).for_each(|p| drop(broker.produce("outage", p, ids(from..from + 100))));
        until_rows(&flow, &mut running, 2 * (from + 100));
    }
    running.send(Signal::TERM);
    running.end().with(0);
    flow.assert_places((0..2).flat_map(|p| places("outage", p, 0..300)));
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn sigterm_is_heard_while_the_broker_is_away() {
    let broker = Broker::start();
    broker.create_topic("away-at-end", 1, &[]);
    broker.produce("away-at-end", 0, ids(0..10));
    let flow = Flow::new("away-at-end", &broker, "away-at-end", "");
    let mut running = flow.start(&[]);
    until_rows(&flow, &mut running, 10);
    broker.kill();
    std::thread::sleep(Duration::from_secs(1));
    let asked = Instant::now();
    running.send(Signal::TERM);
    running.end().with(0);
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    flow.assert_places(places("away-at-end", 0, 0..10));
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_partition_that_moves_to_another_broker_is_followed() {
    let broker = Broker::start();
    let second = broker.beside(2);
    broker.create_topic("moved", 1, &[]);
    broker.produce("moved", 0, ids(0..100));
    let leader = broker.leader("moved", 0);
    let flow = Flow::new("moved", &broker, "moved", "");
    let mut running = flow.start(&[]);
    until_rows(&flow, &mut running, 100);
    broker.move_partition("moved", 0, 3 - leader);
    assert_eq!(broker.leader("moved", 0), 3 - leader);
    broker.produce("moved", 0, ids(100..200));
    until_rows(&flow, &mut running, 200);
    running.send(Signal::TERM);
    running.end().with(0);
    flow.assert_places(places("moved", 0, 0..200));
    drop(second);
}
