//! Checkpoints: what a log says up to a version, in files that can be read without the commits before it.
//!
//! There are three kinds: *classic*, one Parquet file; *multi-part*, several of them, complete only together; *v2*, a file of JSON or Parquet
//! under a name of its own, which may name further files (sidecars). A v2 checkpoint may also lie under the classic name.

mod cells;
pub(crate) mod parquet;
pub(crate) mod pointer;
pub(crate) mod read;
pub(crate) mod rows;
mod shape;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;

pub use self::write::{Written, write};
use super::names::{LogFile, parse};
use crate::store::Entry;

/// A complete checkpoint, as a listing shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The version that it is of.
    pub version: u64,
    /// Its files under `_delta_log/` without its sidecars, and their sizes in bytes.
    pub files: Vec<(String, u64)>,
    /// A v2 checkpoint in JSON.
    pub json: bool,
}

impl Checkpoint {
    /// The complete ones among these entries of `_delta_log/`, by version; those of one version in no order of preference but the names'.
    /// An empty file is none: somebody died over it.
    pub fn among(entries: &[Entry]) -> BTreeMap<u64, Vec<Checkpoint>> {
        let mut found: BTreeMap<u64, Vec<Checkpoint>> = BTreeMap::new();
        let mut parts: BTreeMap<(u64, u32), BTreeMap<u32, (String, u64)>> = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.size > 0) {
            let file = (entry.name.clone(), entry.size);
            match parse(&entry.name) {
                Some(LogFile::Checkpoint(version)) => {
                    found.entry(version).or_default().push(Checkpoint { version, files: vec![file], json: false });
                }
                Some(LogFile::V2 { version, json }) => {
                    found.entry(version).or_default().push(Checkpoint { version, files: vec![file], json });
                }
                Some(LogFile::Part { version, part, parts: of }) => drop(parts.entry((version, of)).or_default().insert(part, file)),
                _ => {}
            }
        }
        for ((version, of), files) in parts {
            if files.len() == of as usize {
                found.entry(version).or_default().push(Checkpoint { version, files: files.into_values().collect(), json: false });
            }
        }
        found
    }
}
