//! The Kafka client: its configuration, and what it tells of its own accord.

use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::errors;
use super::options::KafkaOptions;
use crate::error::{Error, Result};

/// A consumer, used as a client of any kind.
pub(super) type Client = BaseConsumer<Context>;

/// What a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Reads records of so many partitions.
    Feed { partitions: usize },
    /// Asks for topics and offsets.
    Lookup,
}

/// What the client told since it was last asked.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The last error that is not about one partition.
    pub(super) trouble: Option<(KafkaError, String)>,
    /// Answers to commits of group offsets.
    pub(super) commits: Vec<KafkaResult<()>>,
}

/// Takes what the client tells, on whatever thread that happens.
#[derive(Clone, Default)]
pub(super) struct Context(Arc<Mutex<Told>>);

impl Context {
    /// What was told since the last time.
    pub(super) fn take(&self) -> Told {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn change(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::debug!(facility, "librdkafka: {message}");
            }
            _ => tracing::trace!(facility, "librdkafka: {message}"),
        }
    }
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "librdkafka: {reason}");
        self.change(|told| told.trouble = Some((error, reason.to_owned())));
    }
}

impl ConsumerContext for Context {
    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        self.change(|told| told.commits.push(result));
    }
}

/// Properties that are the source's own business, and why.
const OWN: [(&str, &str); 14] = [
    ("enable.auto.commit", "offsets are told to the group only after a commit has landed"),
    ("enable.auto.offset.store", "offsets are told to the group only after a commit has landed"),
    ("auto.commit.interval.ms", "offsets are told to the group only after a commit has landed"),
    ("auto.offset.reset", "where reading starts is decided by `start`, and what to do about lost records by `on_data_loss`"),
    ("enable.partition.eof", "the source needs it to find the end of a partition"),
    ("group.instance.id", "partitions are assigned by the source itself, not by the group"),
    ("group.protocol", "partitions are assigned by the source itself, not by the group"),
    ("partition.assignment.strategy", "partitions are assigned by the source itself, not by the group"),
    ("bootstrap.servers", "write `source.kafka.bootstrap_servers`"),
    ("metadata.broker.list", "write `source.kafka.bootstrap_servers`"),
    ("client.rack", "reading from followers is not supported: a follower may not have the offsets that a checkpoint names"),
    ("queued.max.messages.kbytes", "it follows from `memory`"),
    ("fetch.max.bytes", "it follows from `memory`"),
    ("plugin.library.paths", "a pipeline file loads no code"),
];

/// `Invalid` when a property would break what the source promises.
pub(super) fn check(options: &KafkaOptions) -> Result<()> {
    for (key, why) in OWN {
        if options.properties.contains_key(key) {
            return Err(Error::invalid(format!("`{key}` cannot be set: {why}")).at("source.kafka.properties").hint("remove it"));
        }
    }
    match options.properties.get("isolation.level").map(String::as_str) {
        None | Some("read_committed" | "read_uncommitted") => {}
        Some(other) => {
            return Err(Error::invalid(format!("`isolation.level` is `{other}`"))
                .at("source.kafka.properties")
                .hint("write read_committed, which is the default, or read_uncommitted"));
        }
    }
    match config(options, Purpose::Lookup).create_native_config() {
        Ok(_) => Ok(()),
        Err(e) => Err(Error::invalid("the Kafka client does not accept the properties").at("source.kafka.properties").because(e)),
    }
}

fn config(options: &KafkaOptions, purpose: Purpose) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("client.id", "lakeward").set("isolation.level", "read_committed").set("group.id", &options.group);
    config.set("socket.keepalive.enable", "true").set("log.connection.close", "false");
    for (key, value) in &options.properties {
        config.set(key, value);
    }
    config.set("bootstrap.servers", &options.bootstrap_servers);
    config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false").set("auto.offset.reset", "error");
    config.set("allow.auto.create.topics", "false").set("enable.partition.eof", "true");
    match purpose {
        Purpose::Feed { partitions } => limits(&mut config, options, partitions),
        Purpose::Lookup => {}
    }
    config
}

/// What the client may hold: half of the memory in its queue, and as much as one fetch brings of each partition.
fn limits(config: &mut ClientConfig, options: &KafkaOptions, partitions: usize) {
    let share = options.memory_bytes / 4;
    let queued = (share >> 10).max(1024);
    let fetch = share.clamp(1 << 20, 50 << 20);
    let each = (share / partitions.max(1)).clamp(64 << 10, 1 << 20);
    let mut default = |key: &str, value: usize| {
        if !options.properties.contains_key(key) {
            config.set(key, value.to_string());
        }
    };
    default("queued.max.messages.kbytes", queued);
    default("queued.min.messages", 1_000_000);
    default("fetch.max.bytes", fetch);
    default("fetch.message.max.bytes", each);
    default("receive.message.max.bytes", (fetch + (1 << 20)).max(100_000_000));
    default("fetch.wait.max.ms", 100);
}

/// A new client. Connects in the background.
pub(super) fn connect(options: &KafkaOptions, purpose: Purpose, group: Option<&str>) -> Result<(Client, Context)> {
    let context = Context::default();
    let mut config = config(options, purpose);
    if let Some(group) = group {
        config.set("group.id", group);
    }
    let client = config.create_with_context(context.clone()).map_err(|e| errors::of(&e, options, "making a Kafka client"))?;
    Ok((client, context))
}
