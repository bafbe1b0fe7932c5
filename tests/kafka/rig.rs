//! The rig itself: a broker that is gone comes back with what it had.

use std::process::{Command, Stdio};

use super::broker::Broker;
use super::produce::Producer;

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_broker_that_was_killed_comes_back_with_its_address_and_data() {
    let broker = Broker::start();
    broker.create_topic("t", 2, &[]);
    assert_eq!(broker.produce("t", 1, ["a", "b"]), [0, 1]);
    broker.kill();
    broker.start_again();
    broker.add_partitions("t", 3);
    assert_eq!((broker.watermarks("t", 1), broker.watermarks("t", 2)), ((0, 2), (0, 0)));
    broker.delete_records("t", 1, 1);
    assert_eq!(broker.watermarks("t", 1), (1, 2));
    broker.stop();
    broker.start_again();
    broker.delete_topic("t");
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn the_shared_broker_takes_transactions() {
    let broker = Broker::shared();
    broker.create_topic("rig-transactions", 1, &[("cleanup.policy", "compact")]);
    let producer = Producer::transactional(broker, "rig");
    for commit in [true, false] {
        producer.begin();
        producer.send("rig-transactions", 0, &super::produce::Message::new("v").key("k"));
        producer.flush();
        if commit { producer.commit() } else { producer.abort() }
    }
    assert_eq!(broker.watermarks("rig-transactions", 0), (0, 4), "two messages and two markers");
}

/// Not a test: the next one kills the process that runs it.
#[test]
#[ignore = "part of the next test"]
fn child_that_holds_a_broker() {
    let Some(file) = std::env::var_os("LAKEWARD_KAFKA_CHILD") else { return };
    let broker = Broker::shared();
    std::fs::write(&file, &broker.address).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_broker_ends_with_the_process_that_started_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("address");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kafka::rig::child_that_holds_a_broker", "--ignored"])
        .env("LAKEWARD_KAFKA_CHILD", &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let soon = |what: &str, there: &dyn Fn() -> bool| {
        (0..600)
            .find(|_| {
                there() || {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    false
                }
            })
            .unwrap_or_else(|| panic!("{what}"));
    };
    soon("no broker", &|| std::fs::read_to_string(&file).is_ok_and(|a| !a.is_empty()));
    let address = std::fs::read_to_string(&file).unwrap();
    assert!(std::net::TcpStream::connect(&address).is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    soon("the broker lives", &|| std::net::TcpStream::connect(&address).is_err());
}
