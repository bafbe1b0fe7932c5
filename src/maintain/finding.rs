//! What a check says: findings with coordinates, notes, and how much was looked at.

use std::collections::BTreeMap;
use std::fmt;

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Check {
    /// Schema files are there and say what they must; Delta: protocol, columns and properties.
    Schemas,
    /// Snapshot files can be read, and their ids join; Delta: commits.
    Snapshots,
    /// `LATEST` and `EARLIEST`, Delta's `_last_checkpoint`, lead no reader astray.
    Hints,
    /// Delta: checkpoints can be read, and say what the commits come to.
    Checkpoints,
    /// Tags can be read.
    Tags,
    /// Manifest lists can be read and have their true size.
    ManifestLists,
    /// Manifests can be read, and the lists say true things of them.
    Manifests,
    /// Each snapshot holds what the one before held and its own changes; no file is added twice or removed without being there.
    State,
    /// Delta: transactions rise.
    Transactions,
    /// Record counts of snapshots are those of the manifests.
    RecordCounts,
    /// Data files are there with their true size, under a schema that exists.
    DataFiles,
    /// Delta: partition values can be read, and directories say the same.
    Partitions,
    /// Parquet footers have as many rows as the manifests, or the log, say.
    RowCounts,
    /// Delta: no bound is narrower than the footer's.
    Statistics,
    /// Delta: the rows that are deleted can be told.
    DeletionVectors,
    /// Index manifests, index files and statistics files are there.
    IndexFiles,
    /// Ranges of offsets join, identifiers rise, lineages close.
    Lineages,
    /// Files to which nothing refers; never a finding.
    Unreferenced,
}

impl Check {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Check::Schemas => "schemas",
            Check::Snapshots => "snapshots",
            Check::Hints => "hints",
            Check::Checkpoints => "checkpoints",
            Check::Tags => "tags",
            Check::ManifestLists => "manifest lists",
            Check::Manifests => "manifests",
            Check::State => "state",
            Check::Transactions => "transactions",
            Check::RecordCounts => "record counts",
            Check::DataFiles => "data files",
            Check::Partitions => "partition values",
            Check::RowCounts => "row counts",
            Check::Statistics => "statistics",
            Check::DeletionVectors => "deletion vectors",
            Check::IndexFiles => "index files",
            Check::Lineages => "lineages",
            Check::Unreferenced => "unreferenced files",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that is not as it must be, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub check: Check,
    /// An object under the table's root, or the lineage (`pipeline/commit user`, then the split).
    pub at: String,
    /// The snapshot, when it is about one.
    pub snapshot: Option<u64>,
    /// What is wrong, and what follows from it.
    pub what: String,
}

/// So many findings of one check are kept; the rest are counted.
const KEPT: u64 = 1000;

/// All that was found, and how much was looked at.
#[derive(Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    looked: BTreeMap<Check, u64>,
    found: BTreeMap<Check, u64>,
    notes: Vec<String>,
}

impl Findings {
    /// `n` more things were looked at.
    pub(super) fn look(&mut self, check: Check, n: u64) {
        *self.looked.entry(check).or_default() += n;
    }
    /// Something is wrong.
    pub(super) fn find(&mut self, check: Check, at: impl Into<String>, snapshot: Option<u64>, what: impl Into<String>) {
        let n = self.found.entry(check).or_default();
        *n += 1;
        if *n <= KEPT {
            self.list.push(Finding { check, at: at.into(), snapshot, what: what.into() });
        }
    }
    /// Worth knowing, and nothing is wrong.
    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The findings, in the order in which they were made; of one check at most a thousand.
    pub fn list(&self) -> &[Finding] {
        &self.list
    }
    /// How many findings there are, also those that are not kept.
    pub fn count(&self) -> u64 {
        self.found.values().sum()
    }
    /// For each check that was made: how many things were looked at, and how many findings there are.
    pub fn checks(&self) -> Vec<(Check, u64, u64)> {
        let mut all: BTreeMap<Check, (u64, u64)> = self.looked.iter().map(|(c, n)| (*c, (*n, 0))).collect();
        for (check, n) in &self.found {
            all.entry(*check).or_default().1 = *n;
        }
        all.into_iter().map(|(c, (looked, found))| (c, looked, found)).collect()
    }
    /// What is worth knowing although nothing is wrong.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}
