//! The oracle: says of every change of the simulated store whether exactly-once still stands.
//!
//! It shares no code with what it judges: tables of either format are read from raw bytes ([`reader`]), checkpoints as plain JSON. A version of a
//! Delta table is called a snapshot here, too. It remembers everything
//! that ever was there (its *ghosts*), so what expiry and retention have removed is still held against what comes later.
//!
//! [`Oracle::after_call`] looks at what one change can break, and names it by the invariant of `spec/`:
//!
//! | | seen when | how |
//! |---|---|---|
//! | I1 | a snapshot appears, changes, goes | ids without a hole; never changed; removed by expiry alone, or when it had fallen into a slot that expiry had emptied; its base is exactly what was live in the snapshot before |
//! | I2 | a snapshot appears | one snapshot and one content per user and identifier (an empty one may come again when the first is expired); identifiers rise; no data file twice; no row twice within a lineage; its files are those of its checkpoint |
//! | I3 | a checkpoint appears, changes, goes | never changed; each links to the one before by digest; retention goes upwards, never takes the greatest, leaves `keep` with messages. One that is created in an emptied slot is nobody's |
//! | I4 | a snapshot or a checkpoint appears | the snapshot's checkpoint was in the chain, by seq and digest, and has messages for this table; checkpoint N+1 comes when N is visible in all its sinks (or is what it abandons) |
//! | I6 | any object is removed or replaced | by us never, when a snapshot or checkpoint that is there names it |
//! | I7 | a snapshot appears | ranges join within a lineage; between lineages nothing of the table lies in a gap, and only a rewind overlaps; the rows are exactly the input's rows in the ranges; the first names its predecessor; nothing comes after the end or the close |
//! | I7 | a checkpoint appears | within a lineage no split goes back; where it moves past offsets and has no rows for a table, the input has none there |
//! | I8 | a checkpoint, snapshot or registration appears | a commit user is made by one `open`, and is used in its lineage alone |
//! | I9 | a snapshot appears | empty only for end of input, a close, or `commit.empty` |
//! | I10 | a pin is written or removed, a checkpoint appears | a pin is never above the owned floor and the user's newest snapshot, is there from the first `data` on, goes only when its lineage has ended in the table; a floor says the truth and is not expired |
//! | I11 | a checkpoint or closing snapshot appears | after an `open` that goes back, all sinks are closed before the next; `closed-at` is what had landed |
//! | I12 | a snapshot or checkpoint appears | every object that it names is there, with its true size and rows; record counts add up |
//! | log | a Delta commit of ours appears | `commitInfo` first and true, a `txnId` of its own, one transaction (a close: two), blind appends alone, partition values as in the directories, statistics that leave no row out, rising times where asked; after somebody else moved our transaction nothing more of it |
//! | log | a checkpoint of a Delta log, or the hint, appears | it says what the commits up to it say; is written once, of a version that is there; the hint names one that is there and counts it right |
//! | buckets | a snapshot appears | each row is in the bucket of its key; within a bucket the sequence numbers of an appended file are above those of every live file |
//!
//! [`Oracle::at_end`] reads each table anew (a Delta table from its newest checkpoint, and from its first commit while that is there) and compares its rows with the input as a multiset. I5 is seen by [`Oracle::told`], which the simulated source calls.
//! Not judged: dropped sinks that come back, backfills, `--resolve`, `--adopt`.

mod chain;
pub mod delta;
mod invariants;
mod log;
mod paimon;
pub mod reader;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use self::chain::Chain;
use self::reader::{Cache, Format, Objects, Row, RowColumns};
use self::table::Ghost;
use super::effect::Effect;

/// What must hold.
#[derive(Clone, Debug)]
pub struct Config {
    /// Prefix of the chain's keys, `chain/p/`; the last segment is the pipeline.
    pub chain: String,
    /// How many checkpoints with messages retention has to leave; fewer than 2 count as 2.
    pub keep: usize,
    /// `commit.empty`.
    pub commit_empty: bool,
    /// The tables.
    pub tables: Vec<TableConfig>,
}

/// A table and what belongs there.
#[derive(Clone, Debug)]
pub struct TableConfig {
    /// Prefix of its keys: `one/`.
    pub root: String,
    /// What it is.
    pub format: Format,
    /// The sink's url, as checkpoints have it.
    pub url: String,
    /// Which columns name the record.
    pub columns: RowColumns,
    /// The rows that the input has for this table, all that there will be.
    pub rows: Vec<Row>,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which: `I1`, ...; `rows` at the end.
    pub invariant: &'static str,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

fn breaks<T>(invariant: &'static str, text: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { invariant, text: text.into() })
}

/// What a run left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Per table root: rows visible.
    pub rows: BTreeMap<String, usize>,
    /// Per table root: rows that a rewind wrote again.
    pub doubled: BTreeMap<String, usize>,
    /// Snapshots that ever were in a table's history, all tables.
    pub snapshots: usize,
    /// Snapshots that fell into an emptied slot.
    pub fallen: usize,
    /// Checkpoints that ever were in the chain.
    pub checkpoints: usize,
    /// Lineages.
    pub lineages: usize,
    /// Checkpoints of Delta logs that ever were written by us.
    pub log_checkpoints: usize,
}

/// Watches one simulated store. A clone watches a branch.
#[derive(Clone)]
pub struct Oracle {
    chain: Chain,
    commit_empty: bool,
    tables: Vec<Ghost>,
}

/// Where a key lies.
enum Place {
    Checkpoint(u64),
    Table(usize, String),
    Elsewhere,
}

impl Oracle {
    /// Over an empty store. Runs that share `cache` decode an object of the same bytes once.
    pub fn new(config: Config, cache: &Cache) -> Oracle {
        Oracle {
            chain: Chain::new(&config.chain, config.keep),
            commit_empty: config.commit_empty,
            tables: config.tables.into_iter().map(|t| Ghost::new(t, cache)).collect(),
        }
    }

    /// More input for the table under `root`.
    pub fn expect(&mut self, root: &str, rows: &[Row]) {
        let root = root.trim_end_matches('/');
        self.tables.iter_mut().filter(|t| t.root().trim_end_matches('/') == root).for_each(|t| t.expect(rows));
    }

    /// To be told of every call that took effect. `objects`: the store after it.
    pub fn after_call(&mut self, what: &Effect, objects: &Objects) -> Result<(), Violation> {
        if what.before == what.after {
            return Ok(());
        }
        match self.place(&what.key) {
            Place::Checkpoint(seq) => self.checkpoint_changed(seq, what, objects),
            Place::Table(at, path) => self.object_changed(at, &path, what, objects),
            Place::Elsewhere => Ok(()),
        }
        .map_err(|v| Violation { text: format!("{} (seen after {:?} of {})", v.text, what.op, what.key), ..v })
    }

    /// I5: to be told of offsets that the source was told to be committed. Every row below them is or was visible.
    pub fn told(&self, offsets: &BTreeMap<String, u64>) -> Result<(), Violation> {
        self.tables.iter().try_for_each(|table| table.has_all_below(offsets))
    }

    /// To be told when everything has been quiet for good: rows against the input.
    pub fn at_end(&self, objects: &Objects) -> Result<Summary, Violation> {
        let mut summary = Summary { checkpoints: self.chain.len(), lineages: self.chain.lineages(), ..Summary::default() };
        for table in &self.tables {
            let (rows, doubled) = table.at_end(objects)?;
            summary.rows.insert(table.root().to_owned(), rows);
            summary.doubled.insert(table.root().to_owned(), doubled);
            summary.snapshots += table.snapshots();
            summary.fallen += table.fallen_ever();
            summary.log_checkpoints += table.log.checkpoints();
        }
        Ok(summary)
    }

    /// Snapshots in history whose base lists other manifests than the one before them had, for the same files.
    pub fn merged(&self) -> usize {
        self.tables.iter().map(Ghost::merged).sum()
    }

    /// Checkpoints of Delta logs that we have written.
    pub fn log_checkpoints(&self) -> usize {
        self.tables.iter().map(|t| t.log.checkpoints()).sum()
    }

    /// Checkpoints that carried nothing for any table, and moved a position.
    pub fn idle(&self) -> usize {
        self.chain.idle()
    }

    fn place(&self, key: &str) -> Place {
        if let Some(seq) = self.chain.seq_of(key) {
            return Place::Checkpoint(seq);
        }
        let table = self.tables.iter().enumerate().find_map(|(i, t)| Some((i, key.strip_prefix(t.root())?.to_owned())));
        table.map_or(Place::Elsewhere, |(i, path)| Place::Table(i, path))
    }

    fn object_changed(&mut self, at: usize, path: &str, what: &Effect, objects: &Objects) -> Result<(), Violation> {
        let (dir, name) = path.split_once('/').unwrap_or(("", path));
        let format = self.tables[at].format();
        match dir {
            _ if dir == format.dir() => match format.snapshot_id(name) {
                Some(id) => self.snapshot_changed(at, id, what, objects),
                None if format == Format::Delta => self.tables[at].log_changed(name, what, objects),
                None => Ok(()),
            },
            "consumer" if format == Format::Paimon => match name.strip_prefix("consumer-") {
                Some(user) => self.pin_changed(at, user, what),
                None => Ok(()),
            },
            "_lakeward" => self.registration_changed(name, what),
            _ => self.file_changed(at, path, what),
        }
    }
}
