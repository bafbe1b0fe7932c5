//! Conditional create of one object: `Published` or `Taken`. Unclear answers are resolved inside.

use bytes::Bytes;

use crate::env::Deadline;
use crate::error::{Error, Result};
use crate::store::Store;

/// What became of a conditional create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// The object is ours and durable.
    Published,
    /// Another object has the name: its bytes, durable.
    Taken(Bytes),
}

/// Creates `name` with `bytes` unless it exists. `bytes` must hold a nonce made for this attempt, so that reading the same bytes back
/// means *mine*.
///
/// `Unavailable` after `deadline`: whether the object exists is not known. `Invalid`: the store definitely refused.
pub async fn publish(store: &Store, name: &str, bytes: Bytes, deadline: Deadline) -> Result<Publication> {
    let _ = (store, name, bytes, deadline);
    Err(Error::internal("not written yet"))
}
