//! The pipeline file and what is made of it. In a program, with a death in the middle:
//!
#![doc = concat!("```\n", include_str!("../../examples/in_a_program.rs"), "\n```")]

mod at;
mod check;
pub mod file;
mod handed;
#[cfg(feature = "kafka")]
pub mod lag;
pub mod location;
pub mod memory;
pub mod monitor;
pub mod plan;
mod read;
pub mod run;
mod shape;
pub(crate) mod sources;
#[cfg(test)]
mod tests;
pub mod units;
mod write;
mod yaml;

pub use self::monitor::Monitor;
pub use self::run::{Pipeline, Run};
