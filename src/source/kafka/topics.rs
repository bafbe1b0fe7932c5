//! Which partitions there are.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::MetadataTopic;
use regex::Regex;

use super::client::Client;
use super::errors;
use super::options::{KafkaOptions, KafkaTopics};
use crate::error::{Error, Result};

/// How long one question may take.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// Topic -> number of partitions.
pub(super) type Topics = BTreeMap<String, i32>;

/// `topic/partition`: a topic name holds no slash.
pub(super) fn split_name(topic: &str, partition: i32) -> String {
    format!("{topic}/{partition}")
}

/// What [`split_name`] made.
pub(super) fn parse_split(split: &str) -> Option<(&str, i32)> {
    let (topic, partition) = split.rsplit_once('/')?;
    Some((topic, partition.parse().ok().filter(|p| *p >= 0)?))
}

/// The pattern, understood. `Invalid` when it is none.
pub(super) fn pattern(options: &KafkaOptions) -> Result<Option<Regex>> {
    let KafkaTopics::Pattern(text) = &options.topics else { return Ok(None) };
    Regex::new(text).map(Some).map_err(|e| {
        Error::invalid("`topic_pattern` is no regular expression")
            .at("source.kafka.topic_pattern")
            .because(e)
            .hint("write one like `^orders-`")
    })
}

/// Asks the brokers. Internal topics match no pattern.
pub(super) fn find(client: &Client, options: &KafkaOptions, patience: Duration) -> Result<Topics> {
    let mut found = Topics::new();
    match (&options.topics, pattern(options)?) {
        (_, Some(pattern)) => {
            let metadata = client.fetch_metadata(None, patience).map_err(|e| errors::of(&e, options, "Kafka did not list its topics"))?;
            for topic in metadata.topics().iter().filter(|t| pattern.is_match(t.name()) && !t.name().starts_with("__")) {
                found.insert(topic.name().to_owned(), partitions(topic, options)?);
            }
        }
        (KafkaTopics::Names(names), None) => {
            for name in names {
                let metadata = client.fetch_metadata(Some(name), patience);
                let metadata = metadata.map_err(|e| errors::of(&e, options, &format!("Kafka did not describe the topic `{name}`")))?;
                let topic = metadata.topics().iter().find(|t| t.name() == name);
                let topic = topic.ok_or_else(|| Error::unavailable(format!("Kafka said nothing of the topic `{name}`")))?;
                found.insert(name.clone(), partitions(topic, options)?);
            }
        }
        (KafkaTopics::Pattern(_), None) => {}
    }
    Ok(found)
}

fn partitions(topic: &MetadataTopic, options: &KafkaOptions) -> Result<i32> {
    let name = topic.name();
    if let Some(error) = topic.error() {
        let code = RDKafkaErrorCode::from(error);
        let what = match code {
            RDKafkaErrorCode::UnknownTopicOrPartition => format!("there is no topic `{name}`"),
            RDKafkaErrorCode::TopicAuthorizationFailed => format!("the topic `{name}` may not be read"),
            _ => format!("the topic `{name}` cannot be read: {code}"),
        };
        return Err(errors::of_code(code, options, &what));
    }
    let count = i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
    if count == 0 {
        return Err(Error::unavailable(format!("the topic `{name}` has no partitions yet")).at(&options.bootstrap_servers));
    }
    Ok(count)
}
