//! Kafka topics. A split is a partition, `topic/partition`; its offsets are Kafka's, gaps and all. `spec/kafka.md` has the rules.
//!
//! Partitions are assigned by this source and by nobody else; where it starts comes from the chain alone. The group's offsets are written
//! for lag tools, after each commit. What a pipeline file may say of Kafka (`keys`, `options`) is known to every build, also to one without
//! the client.

pub(crate) mod keys;
mod options;

#[cfg(feature = "kafka")]
mod bounds;
#[cfg(feature = "kafka")]
mod client;
#[cfg(feature = "kafka")]
mod errors;
#[cfg(feature = "kafka")]
mod feed;
#[cfg(feature = "kafka")]
mod ids;
#[cfg(feature = "kafka")]
mod known;
#[cfg(feature = "kafka")]
mod login;
#[cfg(feature = "kafka")]
mod loss;
#[cfg(feature = "kafka")]
mod oidc;
#[cfg(feature = "kafka")]
mod probe;
#[cfg(feature = "kafka")]
mod raw;
#[cfg(feature = "kafka")]
mod refusal;
#[cfg(feature = "kafka")]
mod resolve;
#[cfg(feature = "kafka")]
mod source;
#[cfg(test)]
#[cfg(feature = "kafka")]
mod tests;
#[cfg(feature = "kafka")]
mod topics;
#[cfg(feature = "kafka")]
mod waiting;
#[cfg(feature = "kafka")]
mod watch;

#[cfg(feature = "kafka")]
pub use bounds::Bounds;
pub use options::{KafkaOptions, KafkaStart, KafkaStop, KafkaTopics, OnDataLoss};
#[cfg(feature = "kafka")]
pub use source::{KafkaSource, Notice, Notices};
