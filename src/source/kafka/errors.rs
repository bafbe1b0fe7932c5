//! What Kafka's errors mean to whoever runs a pipeline.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::options::KafkaOptions;
use crate::error::{Error, Kind};

/// An error of a call.
pub(super) fn of(error: &KafkaError, options: &KafkaOptions, what: &str) -> Error {
    match error.rdkafka_error_code() {
        Some(code) => of_code(code, options, what).because(error.clone()),
        None => Error::invalid(what).at(&options.bootstrap_servers).because(error.clone()).hint("mend source.kafka"),
    }
}

/// An error by its code. The kind says whether trying again can help.
pub(super) fn of_code(code: RDKafkaErrorCode, options: &KafkaOptions, what: &str) -> Error {
    use RDKafkaErrorCode as Code;
    let (kind, hint) = match code {
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition | Code::InvalidTopic => {
            (Kind::Invalid, "create the topic, or mend source.kafka.topics")
        }
        Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed | Code::ClusterAuthorizationFailed => {
            (Kind::Invalid, "let the user of this client read the topic: it needs Read and Describe on it")
        }
        Code::Authentication | Code::SaslAuthenticationFailed => (Kind::Invalid, "mend the credentials in source.kafka.properties"),
        Code::OffsetOutOfRange | Code::AutoOffsetReset => {
            (Kind::Data, "records were deleted before they were read; `on_data_loss: earliest` goes on with the first that is there")
        }
        _ => (Kind::Unavailable, "see whether the brokers are up and can be reached from here"),
    };
    Error::new(kind, what).at(&options.bootstrap_servers).hint(hint)
}

/// Can trying again help?
pub(super) fn passes(error: &Error) -> bool {
    error.kind() == Kind::Unavailable
}
