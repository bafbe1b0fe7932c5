//! Records that are gone before they were read: `on_data_loss`.

use std::collections::BTreeMap;

use rustix::process::Signal;

use super::broker::Broker;
use super::flow::{Flow, ids, places, until_rows};
use super::produce::Message;

/// The gaps that snapshots tell, per split.
fn gaps(flow: &Flow) -> BTreeMap<String, Vec<[u64; 2]>> {
    let mut all: BTreeMap<String, Vec<[u64; 2]>> = BTreeMap::new();
    for snapshot in flow.snapshots() {
        let Some(lost) = snapshot["properties"]["lakeward.lost"].as_str() else { continue };
        let lost: BTreeMap<String, Vec<[u64; 2]>> = serde_json::from_str(lost).unwrap();
        lost.into_iter().for_each(|(split, gaps)| all.entry(split).or_default().extend(gaps));
    }
    all
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn records_deleted_below_the_position_stop_the_run_unless_it_may_skip_them() {
    let broker = Broker::shared();
    broker.create_topic("lost", 2, &[]);
    (0..2).for_each(|p| drop(broker.produce("lost", p, ids(0..10))));
    let flow = Flow::new("lost", broker, "lost", "stop: end, on_data_loss: fail");
    flow.run().with(0);
    (0..2).for_each(|p| drop(broker.produce("lost", p, ids(10..40))));
    broker.delete_records("lost", 1, 30);
    for _ in 0..2 {
        let ended = flow.run().with(5);
        let said = ended.err();
        for part in ["lost[1]", "offset 10", "30", "on_data_loss: earliest"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        flow.assert_places((0..2).flat_map(|p| places("lost", p, 0..10)));
    }
    flow.edit("on_data_loss: fail", "on_data_loss: earliest");
    let ended = flow.run().with(0);
    assert!(ended.err().contains("20 records"), "the log says so: {}", ended.err());
    // The ranges still join; the gap is told apart.
    flow.assert_places([places("lost", 0, 0..40), places("lost", 1, 0..10), places("lost", 1, 30..40)].concat());
    assert_eq!(flow.assert_joined()["lost/1"], [0, 40]);
    assert_eq!(gaps(&flow), BTreeMap::from([("lost/1".to_owned(), vec![[10, 30]])]));
    // Told once.
    broker.produce("lost", 1, ids(40..41));
    let ended = flow.run().with(0);
    assert!(!ended.err().contains("20 records"), "{}", ended.err());
    assert_eq!(gaps(&flow).len(), 1);
    assert_eq!(gaps(&flow)["lost/1"].len(), 1);
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_gap_that_opens_while_the_pipeline_is_held_back_is_found() {
    // Its own: beside the load of other tests the pipeline was seen to stand still for a minute after the loss, which is not understood.
    let broker = &Broker::start();
    for (topic, skip) in [("held-earliest", true), ("held-fail", false)] {
        broker.create_topic(topic, 1, &[]);
        broker.produce(topic, 0, ids(0..10));
        let policy = if skip { "earliest" } else { "fail" };
        let flow = Flow::new(topic, broker, topic, &format!("on_data_loss: {policy}"));
        let mut running = flow.start(&[]);
        until_rows(&flow, &mut running, 10);
        // Stopped, it reads nothing; what one fetch under way brings (1 MiB at most, of 10) is read all the same.
        running.send(Signal::STOP);
        let wide = |id| Message::new(format!("{{\"id\": {id}, \"more\": \"{}\"}}", "x".repeat(10_000)));
        broker.produce(topic, 0, (10..1000).map(wide));
        broker.delete_records(topic, 0, 500);
        broker.produce(topic, 0, ids(1000..1010));
        running.send(Signal::CONT);
        if !skip {
            let ended = running.end();
            assert_eq!(ended.code, Some(5), "{}", ended.err());
            assert!(ended.err().contains("held-fail[0]"), "{}", ended.err());
            let read = flow.rows().len() as u64;
            flow.assert_places(places(topic, 0, 0..read));
            continue;
        }
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while flow.position(&format!("{topic}/0"))["offset"] != 1010 {
            assert!(std::time::Instant::now() < deadline, "{:#?}", running.lines());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        running.send(Signal::TERM);
        running.end().with(0);
        let lost: Vec<[u64; 2]> = gaps(&flow).remove(&format!("{topic}/0")).unwrap_or_default();
        let is_lost = |offset: &u64| lost.iter().any(|[from, to]| (from..to).contains(&offset));
        flow.assert_places(places(topic, 0, (0..1010).filter(|o| !is_lost(o))));
        assert_eq!(lost.len(), 1, "{lost:?}");
    }
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_partition_that_ends_below_the_position_is_not_gone_on_with() {
    // A broker that comes back with an older disk: what an unclean election does.
    let broker = Broker::start();
    broker.create_topic("truncated", 1, &[]);
    broker.produce("truncated", 0, ids(0..10));
    let old = broker.stop_and_keep();
    broker.start_again();
    broker.produce("truncated", 0, ids(10..20));
    let flow = Flow::new("truncated", &broker, "truncated", "stop: end, on_data_loss: earliest");
    flow.run().with(0);
    broker.go_back_to(&old);
    assert_eq!(broker.watermarks("truncated", 0), (0, 10));
    let ended = flow.run().with(5);
    for part in ["truncated[0]", "20", "10"] {
        assert!(ended.err().contains(part), "{part}: {}", ended.err());
    }
    flow.assert_places(places("truncated", 0, 0..20));
}
