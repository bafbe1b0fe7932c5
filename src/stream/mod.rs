//! The streaming path: the chain of checkpoints, what a start makes of it, and the one loop that carries records into sinks.
//!
//! A program with its own loop uses [`Chain`] alone. This one dies twice on the way, and every row is there once:
//!
#![doc = concat!("```\n", include_str!("../../examples/own_loop.rs"), "\n```")]
//!
//! Read in this order: `checkpoint` (the object), `decide` (pure), `ledger` (the objects on the store), `start`, `chain`, `coordinator` with `reading`, `window` and `writing`.

mod chain;
pub mod checkpoint;
pub mod coordinator;
pub mod dead_letters;
pub mod decide;
mod decoding;
mod event;
mod ledger;
mod library;
mod properties;
mod reading;
mod registered;
mod sinks;
mod start;
#[cfg(test)]
mod tests;
pub mod watermark;
mod window;
mod writing;

pub use self::chain::{Chain, ChainOptions, Committed, Configured, Owned};
pub use self::event::{Event, Events};
pub use self::ledger::{Ledger, Written};
pub use self::library::OpenTables;
pub use self::start::{OpenSink, Start, StartOptions};

// What the model calls besides `decide`.
#[cfg(test)]
pub(crate) use self::{chain::identifier_of, ledger::expendable, start::close_entry, start::least_covered};
