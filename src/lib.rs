//! Lakeward: streams into lakehouse tables, exactly once, without a JVM and without a lock service.
//!
//! ```text
//! Source --Records--> Decoder --RecordBatch--> Sink.write --message--> Checkpoint N --> Sink.commit --> snapshot
//! ```
//!
//! Two phases. At checkpoint N every writer flushes, and the file lists and the source's offsets become one durable object. Then each table
//! publishes one snapshot tagged `(commit user, identifier = N)`. After a crash the greatest checkpoint is read and finished: what landed is
//! recognised, what did not lands, and the source goes back to the recorded offsets.
//!
//! A whole pipeline in a program: [`pipeline`]. A loop of one's own: [`stream`]. Tables alone: [`table`]. A module uses those above it in this
//! list and nothing below: [`error`], [`env`](mod@env), [`store`], [`publish`], [`schema`], `text`, [`condition`], [`datafile`], [`format`](mod@format), [`table`],
//! [`maintain`], [`source`], [`decode`], [`sink`], [`stream`], [`pipeline`], `cli`. Tests have `sim` besides (feature `sim`): it sees all and is seen by nobody.

#[cfg(feature = "cli")]
pub mod cli;
pub mod condition;
pub mod datafile;
pub mod decode;
pub mod env;
pub mod error;
pub mod format;
pub mod maintain;
pub mod pipeline;
pub mod publish;
pub mod schema;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod sink;
pub mod source;
pub mod store;
pub mod stream;
pub mod table;
mod text;

pub use env::Env;
pub use error::{Error, Kind, Result};
