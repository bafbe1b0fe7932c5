//! Crash it everywhere: the simulated object store, the explorer of schedules, the oracle.
//!
//! The production chain, coordinator, commit loop, log and uploads run here unchanged, on a store whose every call waits until the explorer
//! says what becomes of it. Besides, for tests only, `model`: the protocol as a finite model that calls the production decisions.

pub mod drivers;
pub mod effect;
pub mod explore;
pub mod families;
#[cfg(test)]
mod model;
pub mod oracle;
pub mod outside;
pub mod process;
pub mod scenario;
pub mod source;
pub mod store;
pub mod topic;
pub mod world;

#[cfg(test)]
mod tests;
