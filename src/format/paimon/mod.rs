//! Apache Paimon append tables: one codec for each kind of file, pure; only `log` does I/O.

pub mod log;
pub mod manifest;
pub mod options;
pub mod paths;
pub mod row;
pub mod schema;
pub mod snapshot;
pub mod stats;

pub use log::PaimonLog;
pub(crate) use log::PaimonWork;
