//! The pipeline file and what is made of it.

mod at;
mod check;
pub mod file;
pub mod location;
pub mod plan;
mod read;
pub mod run;
mod shape;
mod sources;
#[cfg(test)]
mod tests;
pub mod units;
mod write;
mod yaml;
