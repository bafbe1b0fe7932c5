//! What a Kafka source is asked for: plain values.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What to read, from where to where, and how.
#[derive(Clone)]
pub struct KafkaOptions {
    /// `host:port,...`
    pub bootstrap_servers: String,
    /// Which topics.
    pub topics: KafkaTopics,
    /// Where a first lineage starts.
    pub start: KafkaStart,
    /// Where it stops.
    pub stop: KafkaStop,
    /// Instead of [`KafkaStart::Latest`]: so many offsets before the end of each partition, to see what its records look like.
    pub newest: Option<u64>,
    /// What to do when records were deleted before they were read.
    pub on_data_loss: OnDataLoss,
    /// Handed to librdkafka, but for those that would break what the source promises.
    pub properties: BTreeMap<String, String>,
    /// Properties whose text is in a file: read at each connection that is made anew. Secrets, certificates, names of users.
    pub property_files: BTreeMap<String, PathBuf>,
    /// The consumer group that committed offsets are told to, unless `group.id` is among the properties.
    pub group: String,
    /// What may wait between the brokers and [`poll`](crate::source::Source::poll), bytes: half in the client, half in chunks.
    pub memory_bytes: usize,
    /// So many bytes of values a chunk at most, but for a longer record.
    pub chunk_bytes: usize,
    /// So many records a chunk at most.
    pub chunk_records: usize,
    /// How long a start waits for brokers that do not answer.
    pub patience: Duration,
}

/// Which Kafka topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaTopics {
    /// These.
    Names(Vec<String>),
    /// All whose names match this regular expression somewhere.
    Pattern(String),
}

/// Where a first lineage starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaStart {
    /// At the first record that is kept.
    Earliest,
    /// After the last record.
    Latest,
    /// Where this consumer group stands.
    Group(String),
    /// At the first record not older than this, milliseconds since 1970-01-01 UTC.
    Timestamp(i64),
    /// Topic -> partition -> offset; a partition that is not named: at its first record.
    Offsets(BTreeMap<String, BTreeMap<i32, u64>>),
}

/// Where a lineage stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KafkaStop {
    /// Nowhere.
    Never,
    /// At the ends seen at start.
    End,
    /// At the first record not older than this, milliseconds since 1970-01-01 UTC; at the end seen at start where there is none.
    Timestamp(i64),
    /// Topic -> partition -> first offset not to read, which may be one that does not exist yet. Nothing is read of a partition that is not
    /// named.
    Offsets(BTreeMap<String, BTreeMap<i32, u64>>),
}

/// What to do when records were deleted before they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDataLoss {
    /// Stop.
    Fail,
    /// Go on with the first record that is there.
    Earliest,
}

impl KafkaOptions {
    /// Of these topics: from the first record, for ever.
    pub fn new(bootstrap_servers: impl Into<String>, topics: KafkaTopics, group: impl Into<String>) -> Self {
        KafkaOptions {
            bootstrap_servers: bootstrap_servers.into(),
            topics,
            start: KafkaStart::Earliest,
            stop: KafkaStop::Never,
            newest: None,
            on_data_loss: OnDataLoss::Fail,
            properties: BTreeMap::new(),
            property_files: BTreeMap::new(),
            group: group.into(),
            memory_bytes: 64 << 20,
            chunk_bytes: 512 << 10,
            chunk_records: usize::MAX,
            patience: Duration::from_secs(60),
        }
    }

    /// The group that committed offsets are told to.
    pub fn group_id(&self) -> &str {
        self.properties.get("group.id").map_or(&self.group, String::as_str)
    }

    /// Are records of open and aborted transactions left out?
    pub fn read_committed(&self) -> bool {
        self.properties.get("isolation.level").is_none_or(|level| level != "read_uncommitted")
    }
}
