//! What a start says when it cannot read.

use super::broker::Broker;
use super::flow::{Flow, ids};

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_topic_that_is_not_there_is_named() {
    let broker = Broker::shared();
    broker.create_topic("there", 1, &[]);
    let flow = Flow::new("unknown", broker, "there, not-there", "stop: end");
    let ended = flow.run().with(2);
    assert!(ended.err().contains("not-there") && ended.err().contains("create the topic"), "{}", ended.err());
    assert!(flow.snapshots().is_empty());
    // A pattern may match nothing yet, but a bounded run has nothing to read then.
    let none = Flow::of("none", &format!("bootstrap_servers: '{}', topic_pattern: '^no-such-thing', stop: end", broker.address));
    none.run().with(0);
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_broker_that_is_away_at_start_is_named_after_the_patience() {
    let flow = Flow::of("away", "bootstrap_servers: '127.0.0.1:1', topics: [t], stop: end");
    flow.edit("durability: none\n", "durability: none\ncommit: {timeout: 3s}\n");
    let ended = flow.run().with(75);
    assert!(ended.err().contains("127.0.0.1:1"), "{}", ended.err());
    assert!(ended.took >= std::time::Duration::from_secs(2), "it was patient: {:?}", ended.took);
    assert!(ended.took < std::time::Duration::from_secs(30), "but not for ever: {:?}", ended.took);
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_topic_that_may_not_be_read_is_named_with_what_is_missing() {
    let broker = Broker::shared();
    for (topic, operation) in [("denied-read", "Read"), ("denied-all", "All")] {
        broker.create_topic(topic, 1, &[]);
        broker.produce(topic, 0, ids(0..3));
        let acl = ["--add", "--force", "--deny-principal", "User:ANONYMOUS", "--operation", operation, "--topic", topic];
        broker.tool("org.apache.kafka.tools.AclCommand", &acl);
        let flow = Flow::new(topic, broker, topic, "stop: end");
        let ended = flow.run().with(2);
        assert!(ended.err().contains(topic) && ended.err().contains("Read"), "{topic}: {}", ended.err());
        assert!(flow.snapshots().is_empty());
    }
}
