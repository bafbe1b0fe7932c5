//! Lakeward: streams into lakehouse tables, exactly once, without a JVM and without a lock service.

#[cfg(feature = "cli")]
pub mod cli;
pub mod datafile;
pub mod decode;
pub mod env;
pub mod error;
pub mod format;
pub mod pipeline;
pub mod publish;
pub mod schema;
pub mod sink;
pub mod source;
pub mod store;
pub mod stream;
pub mod table;

pub use env::Env;
pub use error::{Error, Kind, Result};
