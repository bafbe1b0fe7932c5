//! The pipeline file and what is made of it.

mod at;
mod check;
pub mod file;
pub mod location;
mod read;
mod shape;
#[cfg(test)]
mod tests;
pub mod units;
mod write;
mod yaml;
