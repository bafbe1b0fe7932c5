//! The ghost of a table: every snapshot that was ever in its history, and what was seen of its files, rows and ranges.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::chain::digest;
use super::log::LogGhost;
use super::reader::{Cache, FileView, Format, Objects, Reader, Row, RowColumns, SnapshotView, TWICE, TableView};
use super::{TableConfig, Violation, breaks};
use crate::sim::outside::FOREIGN;

/// A snapshot that is or was in history.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) view: Arc<SnapshotView>,
    pub(super) digest: String,
    /// On the store; else expired.
    pub(super) there: bool,
}

/// What a commit user landed here.
#[derive(Clone, Default)]
pub(super) struct Landed {
    /// Identifier -> snapshot and digest of its checkpoint.
    pub(super) identifiers: BTreeMap<i64, (u64, String)>,
    /// Split -> where its next range begins.
    pub(super) stands: BTreeMap<String, u64>,
}

/// Where a split stands in a table, over all lineages.
#[derive(Clone, Copy)]
pub(super) struct Stand {
    pub(super) to: u64,
    /// Seq of the `open` of the lineage that brought it there.
    pub(super) opened: u64,
}

/// A table.
#[derive(Clone)]
pub(super) struct Ghost {
    pub(super) reader: Reader,
    pub(super) url: String,
    pub(super) columns: RowColumns,
    /// Split -> offset -> how often the input has it.
    expected: BTreeMap<String, BTreeMap<i64, usize>>,
    pub(super) history: BTreeMap<u64, Known>,
    /// Taken away from the top by another engine.
    rolled_back: BTreeMap<u64, Known>,
    /// On the store, and published into a slot that expiry had emptied: in nobody's history.
    fallen: BTreeSet<u64>,
    fallen_ever: usize,
    /// Every data file that a snapshot ever added.
    files: HashSet<String>,
    /// Least and greatest sequence number of every file of a bucket that a snapshot ever added.
    sequences: BTreeMap<String, [i64; 2]>,
    /// How often each lineage (by seq of its `open`) made a row visible.
    rows: HashMap<Row, BTreeMap<u64, usize>>,
    pub(super) users: BTreeMap<String, Landed>,
    pub(super) stands: BTreeMap<String, Stand>,
    /// Every range that landed.
    ranges: Vec<(String, u64, u64)>,
    /// Users whose pin another engine removed.
    pub(super) unpinned: BTreeSet<String>,
    /// Another engine expired what a pin should have kept.
    pub(super) unprotected: bool,
    /// Delta: what was seen of its log besides versions.
    pub(super) log: LogGhost,
}

fn i12(text: String) -> Violation {
    Violation { invariant: "I12", text }
}

/// The bucket of a row whose key is one BIGINT that is not null: 16 bytes, of which the first eight are zero.
fn bucket_of(key: i64, total: i64) -> i64 {
    let words = [0, 0, key as u32, (key >> 32) as u32];
    let mut hash = words.into_iter().fold(42u32, |h, w| {
        let mixed = w.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (h ^ mixed).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    hash ^= 16;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    (i64::from((hash ^ hash >> 16).cast_signed()) % total).abs()
}

/// The files in `a` that are not in `b`.
fn only_in<'a>(a: &'a [FileView], b: &[FileView]) -> Vec<&'a FileView> {
    a.iter().filter(|f| !b.contains(f)).collect()
}

impl Ghost {
    pub(super) fn new(config: TableConfig, cache: &Cache) -> Ghost {
        let mut ghost = Ghost {
            reader: Reader::new(&config.root, config.format, cache.clone()),
            url: config.url,
            columns: config.columns,
            expected: BTreeMap::new(),
            history: BTreeMap::new(),
            rolled_back: BTreeMap::new(),
            fallen: BTreeSet::new(),
            fallen_ever: 0,
            files: HashSet::new(),
            sequences: BTreeMap::new(),
            rows: HashMap::new(),
            users: BTreeMap::new(),
            stands: BTreeMap::new(),
            ranges: Vec::new(),
            unpinned: BTreeSet::new(),
            unprotected: false,
            log: LogGhost::default(),
        };
        ghost.expect(&config.rows);
        ghost
    }
    pub(super) fn expect(&mut self, rows: &[Row]) {
        for (split, offset) in rows {
            *self.expected.entry(split.clone()).or_default().entry(*offset).or_default() += 1;
        }
    }
    pub(super) fn root(&self) -> &str {
        self.reader.root()
    }
    pub(super) fn format(&self) -> Format {
        self.reader.format()
    }
    pub(super) fn snapshots(&self) -> usize {
        self.history.len()
    }
    pub(super) fn fallen_ever(&self) -> usize {
        self.fallen_ever
    }
    /// Snapshots whose base names other manifests than the one below them.
    pub(super) fn merged(&self) -> usize {
        let pairs = self.history.values().zip(self.history.values().skip(1));
        pairs.filter(|(below, above)| !below.view.manifests.iter().flatten().eq(&above.view.manifests[0])).count()
    }
    pub(super) fn newest(&self) -> Option<&Known> {
        self.history.values().next_back()
    }
    /// The key of a path under the root.
    pub(super) fn key(&self, path: &str) -> String {
        format!("{}{path}", self.root())
    }

    /// Was there ever a snapshot `id` of these bytes?
    pub(super) fn had(&self, id: u64, digest: Option<&str>) -> bool {
        [&self.history, &self.rolled_back].iter().any(|m| m.get(&id).is_some_and(|k| Some(k.digest.as_str()) == digest))
    }
    /// The newest identifier of a user as of snapshot `id`.
    pub(super) fn newest_identifier(&self, user: &str, upto: u64) -> Option<i64> {
        let landed = self.users.get(user)?;
        landed.identifiers.iter().filter(|(_, (id, _))| *id <= upto).map(|(i, _)| *i).max()
    }
    /// The newest snapshot of a user.
    pub(super) fn newest_of(&self, user: &str) -> Option<u64> {
        self.users.get(user)?.identifiers.values().map(|(id, _)| *id).max()
    }
    /// Did the user land this identifier, and under which checkpoint?
    pub(super) fn landed(&self, user: &str, identifier: i64) -> Option<&str> {
        self.users.get(user)?.identifiers.get(&identifier).map(|(_, digest)| digest.as_str())
    }

    /// A file of a checkpoint or snapshot: there, with its true size and rows.
    pub(super) fn file_is_true(&self, file: &FileView, objects: &Objects) -> Result<Arc<Vec<Row>>, Violation> {
        let size = self.reader.object(&file.path, objects).map_err(i12)?.len() as u64;
        if size != file.size {
            return breaks("I12", format!("{} has {size} bytes, not {}", self.key(&file.path), file.size));
        }
        let rows = self.reader.rows(file, self.columns, objects).map_err(i12)?;
        if rows.len() as u64 != file.rows {
            return breaks("I12", format!("{} has {} rows, not {}", self.key(&file.path), rows.len(), file.rows));
        }
        Ok(rows)
    }

    /// A snapshot was created. None: it fell into a slot that expiry had emptied.
    pub(super) fn create(&mut self, id: u64, objects: &Objects) -> Result<Option<Arc<SnapshotView>>, Violation> {
        let next = self.newest().map_or(self.format().first(), |k| k.view.id + 1);
        if id < next {
            self.fallen.insert(id);
            self.fallen_ever += 1;
            return Ok(None);
        }
        if id != next {
            return breaks("I1", format!("{}: snapshot {id} comes where {next} is the next", self.root()));
        }
        let bytes = self.reader.object(&self.format().snapshot(id), objects).map_err(i12)?;
        let before = self.newest().map(|k| k.view.clone());
        let view = self.reader.snapshot(id, bytes, objects, before.as_deref());
        let unreadable = |text: String| Violation { invariant: if text.ends_with(TWICE) { "I2" } else { "I12" }, text };
        let view = Arc::new(view.map_err(unreadable)?);
        self.check_base(&view, before.as_deref())?;
        self.check_buckets(&view, objects)?;
        self.history.insert(id, Known { view: view.clone(), digest: digest(bytes), there: true });
        Ok(Some(view))
    }

    /// Rows are in the bucket of their key, and a bucket has each sequence number once; those of appended files are above all before.
    fn check_buckets(&mut self, view: &SnapshotView, objects: &Objects) -> Result<(), Violation> {
        let dir = |path: &str| path.rsplit_once('/').map_or("", |(dir, _)| dir).to_owned();
        let mut before: Vec<&String> = view.base.keys().collect();
        for (file, place) in view.added.iter().zip(&view.places).filter(|_| view.buckets > 0) {
            let at = format!("{}: snapshot {} adds {place:?}", self.root(), view.id);
            if place.path != file.path || place.total != view.buckets || !file.path.contains(&format!("bucket-{}/", place.bucket)) {
                return breaks("buckets", format!("{at} to a table of {} buckets", view.buckets));
            }
            let [first, last] = place.sequences;
            let beside = before.iter().filter(|p| dir(p) == dir(&file.path));
            let beside: Vec<&[i64; 2]> = beside.filter_map(|p| self.sequences.get(p.as_str())).collect();
            let apart = |o: &&[i64; 2]| o[1] < first || (view.kind == "COMPACT" && last < o[0]);
            if u64::try_from(last - first + 1) != Ok(file.rows) || !beside.iter().all(apart) {
                return breaks("buckets", format!("{at}, {} rows, beside {beside:?}", file.rows));
            }
            for (split, off) in self.file_is_true(file, objects)?.iter() {
                if bucket_of(*off, place.total) != place.bucket {
                    return breaks("buckets", format!("{at} with {split} {off}"));
                }
            }
            self.sequences.insert(file.path.clone(), place.sequences);
            before.push(&file.path);
        }
        Ok(())
    }

    fn check_base(&self, view: &SnapshotView, before: Option<&SnapshotView>) -> Result<(), Violation> {
        let id = view.id;
        let nothing = Arc::default();
        let live = before.map_or(&nothing, |b| &b.live);
        if !Arc::ptr_eq(live, &view.base) && **live != *view.base {
            let (was, is): (Vec<_>, Vec<_>) = (live.values().cloned().collect(), view.base.values().cloned().collect());
            let (lost, new) = (only_in(&was, &is), only_in(&is, &was));
            let text = format!("{}: snapshot {id} is not built on {}: it lacks {lost:?} and has besides {new:?}", self.root(), id - 1);
            return breaks("I1", text);
        }
        let Some(said) = view.records else { return Ok(()) };
        let sum = |files: &[FileView]| files.iter().map(|f| i64::try_from(f.rows).unwrap_or(i64::MAX)).sum::<i64>();
        let delta = sum(&view.added) - sum(&view.deleted);
        let records = [before.and_then(|b| b.records).map_or(0, |b| b[0]) + delta, delta];
        if said != records {
            return breaks("I12", format!("{}: snapshot {id} has the record counts {said:?}, not {records:?}", self.root()));
        }
        Ok(())
    }

    /// The files of a new snapshot; then its rows count for the lineage opened at `opened`. Returns the rows, sorted.
    pub(super) fn take_rows(&mut self, view: &SnapshotView, opened: u64, objects: &Objects) -> Result<Vec<Row>, Violation> {
        let mut all = Vec::new();
        for file in &view.added {
            if !self.files.insert(file.path.clone()) {
                return breaks("I2", format!("{}: snapshot {} adds {} again", self.root(), view.id, file.path));
            }
            all.extend(self.file_is_true(file, objects)?.iter().cloned());
        }
        for row in &all {
            let wanted = self.expected.get(&row.0).and_then(|s| s.get(&row.1)).copied().unwrap_or(0).max(1);
            let seen = self.rows.entry(row.clone()).or_default().entry(opened).or_default();
            *seen += 1;
            if *seen > wanted {
                let text = format!("{}: snapshot {} makes {row:?} visible again in the same lineage", self.reader.root(), view.id);
                return breaks("I2", text);
            }
        }
        all.sort_unstable();
        Ok(all)
    }

    /// A snapshot that rewrites what is there: the same rows, in other files.
    pub(super) fn check_rewrite(&mut self, view: &SnapshotView, objects: &Objects) -> Result<(), Violation> {
        let mut rows = [Vec::new(), Vec::new()];
        for (rows, files) in rows.iter_mut().zip([&view.added, &view.deleted]) {
            for file in files {
                rows.extend(self.file_is_true(file, objects)?.iter().cloned());
            }
            rows.sort_unstable();
        }
        self.files.extend(view.added.iter().map(|f| f.path.clone()));
        if rows[0] != rows[1] {
            return breaks("I2", format!("{}: snapshot {} ({}) changes the rows", self.root(), view.id, view.kind));
        }
        Ok(())
    }

    /// The input's rows of this table in `[from, to)` of a split, sorted.
    pub(super) fn expected_in(&self, split: &str, from: u64, to: u64) -> Vec<Row> {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let some = self.expected.get(split).into_iter().flat_map(|s| s.range(signed(from)..signed(to.max(from))));
        some.flat_map(|(offset, times)| std::iter::repeat_n((split.to_owned(), *offset), *times)).collect()
    }

    pub(super) fn landed_range(&mut self, user: &str, opened: u64, split: &str, [from, to]: [u64; 2]) {
        self.users.entry(user.to_owned()).or_default().stands.insert(split.to_owned(), to);
        self.stands.insert(split.to_owned(), Stand { to, opened });
        self.ranges.push((split.to_owned(), from, to));
    }

    /// A snapshot was removed.
    pub(super) fn delete(&mut self, id: u64, by_us: bool, by_expiry: bool) -> Result<(), Violation> {
        if self.fallen.remove(&id) {
            return Ok(());
        }
        // An empty one with nothing left below looks like one in an emptied slot; to remove it is what expiry would do next.
        let bare = self.history.get(&id).is_some_and(|k| k.view.added.is_empty() && k.view.deleted.is_empty());
        let next = self.newest().is_some_and(|k| k.view.id > id) && !self.history.range(..id).any(|(_, k)| k.there);
        if by_us && !(bare && next) {
            return breaks("I1", format!("{}: snapshot {id} was in history and was deleted", self.root()));
        }
        if !by_us && !by_expiry && self.newest().is_some_and(|k| k.view.id == id) {
            // A rollback. What our processes know of it is not held against them; the rows are.
            self.unprotected = true;
            self.rolled_back.extend(self.history.remove(&id).map(|k| (id, k)));
        } else if let Some(known) = self.history.get_mut(&id) {
            known.there = false;
        }
        Ok(())
    }

    /// Who names the object at `path`: a snapshot that is there.
    pub(super) fn named_by(&self, path: &str) -> Option<u64> {
        let there = self.history.values().filter(|k| k.there);
        let names =
            |v: &SnapshotView| v.live.contains_key(path) || v.added.iter().any(|f| f.path == path) || v.metadata().any(|m| m == path);
        there.map(|k| &k.view).find(|v| names(v)).map(|v| v.id)
    }

    /// Rows that are visible, and how many of them a rewind wrote again.
    pub(super) fn has_all_below(&self, offsets: &BTreeMap<String, u64>) -> Result<(), Violation> {
        for (split, to) in offsets {
            for offset in self.expected.get(split).into_iter().flat_map(BTreeMap::keys) {
                let below = u64::try_from(*offset).is_ok_and(|o| o < *to);
                if below && !self.rows.contains_key(&(split.clone(), *offset)) {
                    let text = format!("{}: offset {to} of {split} was told to be committed, and {offset} was never visible", self.root());
                    return breaks("I5", text);
                }
            }
        }
        Ok(())
    }

    pub(super) fn at_end(&self, objects: &Objects) -> Result<(usize, usize), Violation> {
        let view: TableView = self.read_again(objects)?;
        let mut seen: BTreeMap<Row, usize> = BTreeMap::new();
        self.log_at_end(&view, objects)?;
        for file in view.live.values() {
            for row in self.file_is_true(file, objects)?.iter() {
                *seen.entry(row.clone()).or_default() += 1;
            }
        }
        let mut doubled = 0;
        for (split, offsets) in &self.expected {
            for (offset, times) in offsets {
                let row = (split.clone(), *offset);
                let found = seen.remove(&row).unwrap_or(0);
                let at = u64::try_from(*offset).unwrap_or(0);
                let ranges = self.ranges.iter().filter(|(s, from, to)| s == split && (*from..*to).contains(&at)).count();
                if found == 0 || found != ranges * times {
                    let text = format!("{}: {row:?} is there {found} times; {ranges} ranges hold it", self.root());
                    return breaks("rows", text);
                }
                doubled += found - times;
            }
        }
        seen.retain(|row, _| row.0 != FOREIGN);
        if let Some((row, times)) = seen.pop_first() {
            return breaks("rows", format!("{}: {row:?} is there {times} times, and the input has no such row", self.root()));
        }
        Ok((self.expected.values().flat_map(BTreeMap::values).sum::<usize>() + doubled, doubled))
    }

    /// From the objects alone; what fell into emptied slots is nobody's.
    fn read_again(&self, objects: &Objects) -> Result<TableView, Violation> {
        if self.fallen.is_empty() {
            return self.reader.table(objects).map_err(i12);
        }
        let mut rest = objects.clone();
        for id in &self.fallen {
            rest.remove(&self.key(&self.format().snapshot(*id)));
        }
        self.reader.table(&rest).map_err(i12)
    }
}
