//! Where partitions begin and end, as any client of the cluster sees it: for whoever shows lag.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::Message as _;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::client::{self, Purpose};
use super::resolve::{At, Lookup};
use super::topics::split_name;
use super::{KafkaSource, errors};
use crate::error::Result;

/// How long the records that wait are looked for.
const PEEK: Duration = Duration::from_secs(5);

/// One partition, as the brokers have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// Offset of the first record that is kept.
    pub first: u64,
    /// The offset after the last record (the high watermark), whether or not a transaction is open below it.
    pub end: u64,
    /// What the pipeline's group has committed; none: nothing.
    pub group: Option<u64>,
}

impl Bounds {
    /// The split's name, as in [`Offsets`](crate::source::Offsets).
    pub fn split(&self) -> String {
        split_name(&self.topic, self.partition)
    }
}

impl KafkaSource {
    /// Every partition that is read now. Reads no record; may be asked at any time.
    pub async fn bounds(&mut self) -> Result<Vec<Bounds>> {
        self.ask(|lookup| {
            let options = lookup.options;
            let client = client::let_in(options, Purpose::Watch)?;
            let lookup = Lookup { client: &client, ..lookup };
            let partitions = lookup.all()?;
            let (first, end) = (lookup.earliest(&partitions)?, lookup.ends(&partitions)?);
            let group = lookup.committed(&partitions, options.group_id())?;
            let of = |at: &At, p: &(String, i32)| at.get(p).copied().unwrap_or(0);
            let bounds = |p: (String, i32)| Bounds {
                first: of(&first, &p),
                end: of(&end, &p),
                group: group.get(&p).copied().flatten(),
                topic: p.0,
                partition: p.1,
            };
            Ok(partitions.into_iter().map(bounds).collect())
        })
        .await
    }

    /// Timestamps, in milliseconds since 1970-01-01 UTC, of the first record that can be read at or after each of these offsets. What does
    /// not come within some seconds is left out.
    pub async fn timestamps_at(&mut self, offsets: &[(String, i32, u64)]) -> Result<BTreeMap<(String, i32), i64>> {
        let (offsets, env) = (offsets.to_vec(), self.env.clone());
        self.ask(move |lookup| {
            let failed = |e: KafkaError| errors::of(&e, lookup.options, "Kafka gave no record");
            let client = client::let_in(lookup.options, Purpose::Feed { partitions: offsets.len() })?;
            let mut list = TopicPartitionList::with_capacity(offsets.len());
            for (topic, partition, offset) in &offsets {
                let offset = Offset::Offset(i64::try_from(*offset).unwrap_or(i64::MAX));
                list.add_partition_offset(topic, *partition, offset).map_err(failed)?;
            }
            client.assign(&list).map_err(failed)?;
            let mut found = BTreeMap::new();
            let deadline = env.deadline(PEEK);
            while let Some(left) = env.left(deadline).filter(|_| found.len() < offsets.len()) {
                // Errors, ends of partitions among them, are of one partition: it stays without an answer.
                let Some(Ok(message)) = client.poll(left) else { continue };
                if let Some(ms) = message.timestamp().to_millis() {
                    found.entry((message.topic().to_owned(), message.partition())).or_insert(ms);
                }
                let mut done = TopicPartitionList::new();
                done.add_partition(message.topic(), message.partition());
                client.pause(&done).map_err(failed)?;
            }
            Ok(found)
        })
        .await
    }
}
