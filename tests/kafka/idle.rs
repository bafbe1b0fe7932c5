//! Partitions that fall silent.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::broker::Broker;
use super::seeing::{Seen, eventually, place, records};
use crate::process::{Line, Running};

/// Warnings of silence, as they name the partitions.
fn warnings(run: &Running) -> Vec<String> {
    let warned = |l: &Line| l.json["level"] == "WARN" && l.says().starts_with("no record for");
    run.lines().iter().filter(|l| warned(l)).map(|l| l.says().to_owned()).collect()
}

fn notices(run: &Running) -> usize {
    run.lines().iter().filter(|l| l.json["level"] == "INFO" && l.says().starts_with("records come again")).count()
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn silence_of_one_partition_is_told_once_and_of_all_stops_nothing() {
    const EVERY: Duration = Duration::from_secs(1);
    let (broker, topic) = (Broker::shared(), "idle");
    broker.create_topic(topic, 4, &[]);
    (0..4).for_each(|p| drop(broker.produce(topic, p, records(i64::from(p)..i64::from(p) + 1))));
    let place = place(broker, topic, ", idle_after: 5s", "every: 1s");
    let mut run = place.start(&[]);
    let seen = Seen::of(&mut run);
    run.until(1, Line::committed).expect("it commits");

    // Three bring records, one is silent.
    let (began, mut next) = (Instant::now(), 4);
    while began.elapsed() < Duration::from_secs(8) {
        for p in 0..3 {
            broker.produce(topic, p, records(next..next + 1));
            next += 1;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(warnings(&run), [format!("no record for 5s from {topic}[3]; the others go on")]);
    let idle = || seen.partitions("idle", topic).into_values().map(|v| v as u8).collect::<Vec<_>>();
    assert_eq!(idle(), [0, 0, 0, 1]);
    let commits = run.lines().iter().filter(|l| l.committed()).count();
    assert!(commits >= 5, "checkpoints went on: {commits} in 8 s");

    // All are silent.
    eventually("all are idle", || idle() == [1, 1, 1, 1]);
    let (snapshots, checkpoints) = (place.snapshots().len(), place.checkpoints().len());
    std::thread::sleep(3 * EVERY);
    assert_eq!((place.snapshots().len(), place.checkpoints().len()), (snapshots, checkpoints), "an idle stream makes no snapshot");
    assert!(!run.over());
    assert_eq!(seen.get("/healthz").0, 200);
    let told = warnings(&run).join("\n");
    for p in 0..4 {
        assert_eq!(told.matches(&format!("{topic}[{p}]")).count(), 1, "{told}");
    }

    // The producer is back.
    let before = run.lines().iter().filter(|l| l.committed()).count();
    let at = Instant::now();
    broker.produce(topic, 3, records(next..next + 1));
    let visible = run.until(before + 1, Line::committed).expect("it commits") - at;
    assert!(visible <= 2 * EVERY, "the row was visible after {visible:?}");
    assert_eq!(place.ids().last(), Some(&next));
    eventually("it is told", || notices(&run) == 1);
    assert_eq!(idle(), [1, 1, 1, 0]);
    run.send(Signal::TERM);
    run.end().with(0);
    assert_eq!(place.ids(), (0..=next).collect::<Vec<_>>());
}
