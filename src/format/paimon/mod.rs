//! Apache Paimon append tables: one codec for each kind of file, pure; only `log` does I/O.

pub mod bucket;
pub mod log;
pub mod manifest;
pub mod options;
pub mod paths;
pub mod row;
pub mod schema;
pub mod snapshot;
pub mod stats;

/// What to do about a file of a table that cannot be read.
pub(crate) const DAMAGED: &str = "restore the file from a backup: what it said cannot be guessed";

pub use log::PaimonLog;
pub(crate) use log::PaimonWork;
