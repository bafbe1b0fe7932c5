//! The one integration test binary: it uses the public API and the built command only.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "a test may")]

mod architecture;
mod bad;
mod cli;
mod demo;
mod failover;
#[cfg(feature = "kafka")]
mod kafka;
mod memory;
mod process;
mod readback;
mod s3;
mod walk;
