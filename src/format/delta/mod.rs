//! Delta Lake: a log of commits, JSON objects numbered from 0. `log` does the I/O of a commit; the rest encodes and decodes.

pub mod action;
pub mod checkpoint;
pub mod cleanup;
pub mod deletion;
pub mod log;
pub mod names;
pub mod options;
pub mod partition;
pub mod protocol;
mod refit;
pub mod replay;
pub mod schema;
pub mod stats;
