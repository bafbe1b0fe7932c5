//! Writing to topics.

use std::sync::Mutex;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};

use super::broker::Broker;

const PATIENCE: Duration = Duration::from_secs(60);

/// What is sent; without a value it is a tombstone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since 1970-01-01 UTC; none: now.
    pub(crate) timestamp: Option<i64>,
}

impl Message {
    /// A value without a key.
    pub(crate) fn new(value: impl Into<Vec<u8>>) -> Message {
        Message { value: Some(value.into()), ..Message::default() }
    }
    pub(crate) fn key(self, key: impl Into<Vec<u8>>) -> Message {
        Message { key: Some(key.into()), ..self }
    }
    pub(crate) fn at(self, timestamp: i64) -> Message {
        Message { timestamp: Some(timestamp), ..self }
    }
}

impl From<String> for Message {
    fn from(value: String) -> Message {
        Message::new(value)
    }
}

impl From<&str> for Message {
    fn from(value: &str) -> Message {
        Message::new(value)
    }
}

/// Remembers what was not delivered, and the offsets of what was.
#[derive(Default)]
struct Deliveries {
    failed: Mutex<Vec<String>>,
    delivered: Mutex<Vec<(i32, i64)>>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();
    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(message) => self.delivered.lock().unwrap().push((message.partition(), message.offset())),
            Err((e, message)) => self.failed.lock().unwrap().push(format!("{}[{}]: {e}", message.topic(), message.partition())),
        }
    }
}

/// A producer, with transactions if it was made so.
pub(crate) struct Producer(BaseProducer<Deliveries>);

impl Producer {
    /// One that may also be told other settings of librdkafka.
    pub(crate) fn new(broker: &Broker, settings: &[(&str, &str)]) -> Producer {
        let mut config = broker.client();
        config.set("enable.idempotence", "true").set("linger.ms", "5").set("message.max.bytes", "100000000");
        settings.iter().for_each(|(k, v)| {
            config.set(*k, *v);
        });
        Producer(config.create_with_context(Deliveries::default()).unwrap())
    }

    /// One that writes in transactions only.
    pub(crate) fn transactional(broker: &Broker, id: &str) -> Producer {
        let producer = Producer::new(broker, &[("transactional.id", id), ("transaction.timeout.ms", "300000")]);
        producer.0.init_transactions(PATIENCE).unwrap();
        producer
    }

    /// Hands one message over; [`flush`](Self::flush) sees it delivered.
    pub(crate) fn send(&self, topic: &str, partition: i32, message: &Message) {
        let mut tries = 0;
        loop {
            let mut record = BaseRecord::<[u8], [u8]>::to(topic).partition(partition);
            record.key = message.key.as_deref();
            record.payload = message.value.as_deref();
            record.timestamp = message.timestamp;
            if !message.headers.is_empty() {
                let headers =
                    message.headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| all.insert(Header { key, value: value.as_ref() }));
                record = record.headers(headers);
            }
            match self.0.send(record) {
                Ok(()) => return self.0.poll(Duration::ZERO),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => self.0.poll(Duration::from_millis(20)),
                // A partition that was added a moment ago.
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::UnknownPartition), _)) if tries < 100 => {
                    tries += 1;
                    self.0.client().fetch_metadata(Some(topic), PATIENCE).unwrap();
                    self.0.poll(Duration::from_millis(50));
                }
                Err((e, _)) => panic!("{topic}[{partition}]: {e}"),
            }
        }
    }

    /// Waits until everything is delivered; returns (partition, offset) of what was since the last time.
    pub(crate) fn flush(&self) -> Vec<(i32, i64)> {
        self.0.flush(PATIENCE).unwrap();
        let deliveries = self.0.context();
        let failed = std::mem::take(&mut *deliveries.failed.lock().unwrap());
        assert!(failed.is_empty(), "{failed:?}");
        std::mem::take(&mut *deliveries.delivered.lock().unwrap())
    }

    pub(crate) fn begin(&self) {
        self.0.begin_transaction().unwrap();
    }
    pub(crate) fn commit(&self) {
        self.0.commit_transaction(PATIENCE).unwrap();
    }
    pub(crate) fn abort(&self) {
        self.0.abort_transaction(PATIENCE).unwrap();
    }
}

impl Broker {
    /// Writes messages to one partition and waits until they are there; returns their offsets.
    pub(crate) fn produce<M: Into<Message>>(&self, topic: &str, partition: i32, messages: impl IntoIterator<Item = M>) -> Vec<i64> {
        let producer = Producer::new(self, &[]);
        messages.into_iter().for_each(|message| producer.send(topic, partition, &message.into()));
        producer.flush().into_iter().map(|(_, offset)| offset).collect()
    }
}
