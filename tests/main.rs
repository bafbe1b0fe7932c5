//! Tests of the built library and command, as a user meets them. One binary: one link.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod s3;
