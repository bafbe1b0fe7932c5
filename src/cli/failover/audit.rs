//! The tables against the source: each row as often in one as in the other, in any order.
//!
//! The source is read again and decoded as a run decodes it, but nothing is written. Of each side only the number of rows and the sum of
//! their 128-bit hashes is kept. Only when these differ are the hashes themselves compared, part by part of their range, so that at
//! most [`AT_ONCE`] of them are in memory, 16 bytes each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray as _, RecordBatch, StringArray};
use arrow::row::{RowConverter, SortField};
use sha2::{Digest as _, Sha256};

use crate::cli::cells::Cells;
use crate::cli::failover::ranges::{self, SplitRange};
use crate::cli::output::Value;
use crate::decode::{Chunk, Reject, Stage};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::PipelineFile;
use crate::pipeline::plan::Planned;
use crate::pipeline::sources;
use crate::source::{Offsets, Polled};
use crate::store::{Store, StoreOptions};
use crate::stream::dead_letters::{self, Stamp};
use crate::table::Table;

/// So many hashes are in memory at a time.
const AT_ONCE: u64 = 8 << 20;
/// So many rows of a finding are shown: the first of up to so many.
const SHOWN: usize = 5;
const REMEMBERED: usize = 100_000;
/// A poll of the source.
const POLL: Duration = Duration::from_secs(1);
/// What tells one dead letter from another; the other columns say who wrote it, and when.
const COORDINATES: [&str; 12] =
    ["topic", "partition", "offset", "line", "timestamp", "key", "value", "headers", "sink", "stage", "error", "field"];

/// A multiset of rows: how many, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) rows: u64,
    hashes: u128,
}

impl Sum {
    fn add(&mut self, hashes: &[u128]) {
        self.rows += hashes.len() as u64;
        self.hashes = hashes.iter().fold(self.hashes, |sum, hash| sum.wrapping_add(*hash));
    }
}

/// What the tables of a pipeline must hold, sink by sink, the dead letters last.
pub(super) struct Expected {
    /// The input that it was read from: where it begins, and where it ends.
    start: Offsets,
    input: Offsets,
    /// Records that were read.
    pub(super) records: u64,
    sums: Vec<Sum>,
}

/// One table against the source.
#[derive(Clone, Debug)]
pub(super) struct Compared {
    pub(super) expected: u64,
    pub(super) found: u64,
    pub(super) missing: u64,
    pub(super) doubled: u64,
    /// How many different records the rows came of, where the table's columns tell.
    pub(super) distinct: Option<u64>,
    /// Per split what its snapshots say.
    pub(super) splits: BTreeMap<String, SplitRange>,
    /// What is wrong with that, in words.
    pub(super) wrong: Vec<String>,
    /// The first that are missing or doubled, in words.
    pub(super) first: Vec<(&'static str, Value)>,
}

impl Compared {
    /// Is the table what the source says?
    pub(super) fn is_exact(&self) -> bool {
        self.missing + self.doubled == 0 && self.wrong.is_empty()
    }
}

/// The audit of one round.
pub(super) struct Audit<'a> {
    pub(super) file: &'a PipelineFile,
    pub(super) env: &'a Env,
    /// Where the round's tables are; the dead letters name sinks below it.
    pub(super) dir: &'a str,
}

/// How much input there is now.
pub(super) async fn input(file: &PipelineFile, env: &Env) -> Result<Offsets> {
    Ok(sources::open_for_a_look(file, env)?.resolve(None).await?.stop.unwrap_or_default())
}

impl Audit<'_> {
    /// Reads the source, or takes `known` when it is of the same input. `Invalid`: the input changed while the round ran.
    pub(super) async fn expected(&self, known: Option<Expected>, before: &Offsets) -> Result<Expected> {
        let now = input(self.file, self.env).await?;
        if now != *before {
            return Err(Error::invalid("the input has changed while a round ran, so its tables cannot be compared with it")
                .at(self.dir)
                .hint("let nothing write to the input meanwhile, or give a copy: --set source.files.paths='[...]'"));
        }
        if let Some(known) = known.filter(|known| known.input == now) {
            return Ok(known);
        }
        let mut sums = vec![Sum::default(); self.tables()];
        let (start, records) = self
            .source(|table, batch, hashes| {
                let _ = batch;
                sums[table].add(hashes);
                Ok(())
            })
            .await?;
        Ok(Expected { start, input: now, records, sums })
    }

    fn tables(&self) -> usize {
        self.file.sinks.len() + usize::from(self.file.dead_letter.is_some())
    }

    /// Compares table number `table`.
    pub(super) async fn compare(&self, expected: &Expected, table: usize) -> Result<Compared> {
        let wanted = expected.sums.get(table).copied().unwrap_or_default();
        let mut found = Sum::default();
        self.table(table, |_, hashes| {
            found.add(hashes);
            Ok(())
        })
        .await?;
        let (splits, wrong) = ranges::read(&self.open(table).await?, &self.file.pipeline, &expected.start).await?;
        let distinct = self.distinct(table, found.rows).await?;
        let first = Vec::new();
        let mut compared = Compared { expected: wanted.rows, found: found.rows, missing: 0, doubled: 0, distinct, splits, wrong, first };
        if let Some(distinct) = distinct.filter(|distinct| *distinct != found.rows) {
            compared.wrong.push(format!("{} rows came of {distinct} records", found.rows));
        }
        if found != wanted {
            self.differences(table, &mut compared).await?;
        }
        Ok(compared)
    }

    /// How many different records the rows of a table came of; none when its columns do not tell.
    async fn distinct(&self, table: usize, rows: u64) -> Result<Option<u64>> {
        let columns = self.file.sinks.get(table).and_then(|sink| ranges::coordinates(sink.columns.as_deref()));
        let Some(columns) = columns else { return Ok(None) };
        let parts = u128::from(rows / AT_ONCE + 1);
        let mut distinct = 0;
        for part in 0..parts {
            let (mut hasher, mut all) = (Hasher::default(), Vec::new());
            self.table(table, |batch, _| {
                let hashes = hasher.hashes(&ranges::only(batch, &columns)?)?;
                all.extend(hashes.into_iter().filter(|hash| hash % parts == part));
                Ok(())
            })
            .await?;
            all.sort_unstable();
            all.dedup();
            distinct += all.len() as u64;
        }
        Ok(Some(distinct))
    }

    /// Opens table number `table`.
    async fn open(&self, table: usize) -> Result<Table> {
        let location = match self.file.sinks.get(table) {
            Some(sink) => &sink.location,
            None => self.file.dead_letter.as_ref().map(|dead| &dead.location).ok_or_else(|| Error::internal("a table is missing"))?,
        };
        Table::open_in(Store::open(location, self.env, StoreOptions::default())?).await
    }

    async fn differences(&self, table: usize, compared: &mut Compared) -> Result<()> {
        let parts = u128::from((compared.expected + compared.found) / AT_ONCE + 1);
        let (mut missing, mut doubled) = (BTreeSet::new(), BTreeSet::new());
        for part in 0..parts {
            let of_part = |hashes: &[u128], all: &mut Vec<u128>| all.extend(hashes.iter().filter(|hash| *hash % parts == part));
            let (mut wanted, mut found) = (Vec::new(), Vec::new());
            self.source(|at, _, hashes| {
                if at == table {
                    of_part(hashes, &mut wanted);
                }
                Ok(())
            })
            .await?;
            self.table(table, |_, hashes| {
                of_part(hashes, &mut found);
                Ok(())
            })
            .await?;
            let (lack, excess) = unequal(wanted, found);
            compared.missing += lack.len() as u64;
            compared.doubled += excess.len() as u64;
            missing.extend(lack.into_iter().take(REMEMBERED - missing.len()));
            doubled.extend(excess.into_iter().take(REMEMBERED - doubled.len()));
        }
        let mut first = Vec::new();
        self.source(|at, batch, hashes| if at == table { show("missing", &missing, batch, hashes, &mut first) } else { Ok(()) }).await?;
        let mut shown = Vec::new();
        self.table(table, |batch, hashes| show("doubled", &doubled, batch, hashes, &mut shown)).await?;
        first.extend(shown);
        compared.first = first;
        Ok(())
    }

    /// The rows of a table.
    async fn table(&self, table: usize, mut take: impl FnMut(&RecordBatch, &[u128]) -> Result<()>) -> Result<()> {
        let dead = table == self.file.sinks.len();
        let opened = self.open(table).await?;
        let scan = if dead { opened.scan().select(COORDINATES) } else { opened.scan() };
        let mut hasher = Hasher::default();
        let mut rows = scan.rows().await?;
        while let Some(batch) = rows.next().await? {
            let batch = if dead { self.without_dir(&batch)? } else { batch };
            let hashes = hasher.hashes(&batch)?;
            take(&batch, &hashes)?;
            self.env.yield_once().await;
        }
        Ok(())
    }

    /// What the source makes of each table: its place, rows, and their hashes. Where the source begins, and how many records it has.
    async fn source(&self, mut take: impl FnMut(usize, &RecordBatch, &[u128]) -> Result<()>) -> Result<(Offsets, u64)> {
        let planned = Planned::look(self.file, self.env, &StoreOptions::default()).await?;
        let mut decoders = planned.sinks.iter().map(|sink| sink.decoder(self.file)).collect::<Result<Vec<_>>>()?;
        let mut hashers: Vec<Hasher> = (0..self.tables()).map(|_| Hasher::default()).collect();
        let mut source = sources::open_for_a_look(self.file, self.env)?;
        let resolved = source.resolve(None).await?;
        source.seek(&resolved.start, resolved.stop.as_ref()).await?;
        let mut read = 0;
        loop {
            let chunk = match source.poll(self.env.deadline(POLL)).await? {
                Polled::End => return Ok((resolved.start, read)),
                polled => match Chunk::of(polled) {
                    Some(chunk) => chunk,
                    None => continue,
                },
            };
            read += chunk.len() as u64;
            let mut rejects = Vec::new();
            for (at, decoder) in decoders.iter_mut().enumerate() {
                let decoded = chunk.decode(decoder.as_mut())?;
                if decoded.batch.num_rows() > 0 {
                    take(at, &decoded.batch, &hashers[at].hashes(&decoded.batch)?)?;
                }
                rejects.push(decoded.rejects);
            }
            if self.file.dead_letter.is_some() {
                let dead = self.file.sinks.len();
                for batch in self.dead_letters(&chunk, rejects)? {
                    take(dead, &batch, &hashers[dead].hashes(&batch)?)?;
                }
            }
            self.env.yield_once().await;
        }
    }

    /// A record that cannot be read at all is one dead letter; one that is no row of a sink is one for each such sink.
    fn dead_letters(&self, chunk: &Chunk, rejects: Vec<Vec<Reject>>) -> Result<Vec<RecordBatch>> {
        let mut unreadable = BTreeSet::new();
        let mut batches = Vec::new();
        for (at, rejects) in rejects.into_iter().enumerate() {
            let (whole, of_sink): (Vec<Reject>, Vec<Reject>) = rejects.into_iter().partition(|r| r.stage == Stage::Decode);
            let whole: Vec<Reject> = whole.into_iter().filter(|r| unreadable.insert(r.index)).collect();
            let sink = (self.file.sinks.len() > 1).then_some(self.file.sinks[at].location.as_str());
            for (some, sink) in [(whole, None), (of_sink, sink)] {
                if some.is_empty() {
                    continue;
                }
                let stamp = Stamp { pipeline: &self.file.pipeline, seq: 0, sink, time_ms: 0, run: "" };
                let (records, some) = chunk.rejected(&some);
                let batch = dead_letters::batch(&records, &some, &stamp)?;
                let at = COORDINATES.iter().map(|c| batch.schema_ref().index_of(c)).collect::<Result<Vec<_>, _>>()?;
                batches.push(self.without_dir(&batch.project(&at)?)?);
            }
        }
        Ok(batches)
    }

    /// Sinks by their place below the round's directory: the same in every round.
    fn without_dir(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let at = batch.schema_ref().index_of("sink")?;
        let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
        let sinks: StringArray = columns[at].as_string::<i32>().iter().map(|s| s.map(|s| s.strip_prefix(self.dir).unwrap_or(s))).collect();
        columns[at] = Arc::new(sinks);
        Ok(RecordBatch::try_new(batch.schema(), columns)?)
    }
}

/// Adds to `shown` the rows whose hash is wanted, each once.
fn show(
    what: &'static str,
    wanted: &BTreeSet<u128>,
    batch: &RecordBatch,
    hashes: &[u128],
    shown: &mut Vec<(&'static str, Value)>,
) -> Result<()> {
    if shown.len() >= SHOWN || !hashes.iter().any(|hash| wanted.contains(hash)) {
        return Ok(());
    }
    let cells = Cells::untyped(batch);
    for (row, _) in hashes.iter().enumerate().filter(|(_, hash)| wanted.contains(*hash)) {
        let value = Value::Map(cells.names().map(str::to_owned).zip(cells.row(row)).collect());
        if shown.len() < SHOWN && !shown.iter().any(|(_, known)| *known == value) {
            shown.push((what, value));
        }
    }
    Ok(())
}

/// What `found` lacks, and what it has more often.
fn unequal(mut wanted: Vec<u128>, mut found: Vec<u128>) -> (Vec<u128>, Vec<u128>) {
    wanted.sort_unstable();
    found.sort_unstable();
    let (mut lack, mut excess) = (Vec::new(), Vec::new());
    let (mut w, mut f) = (wanted.into_iter().peekable(), found.into_iter().peekable());
    loop {
        match (w.peek(), f.peek()) {
            (Some(a), Some(b)) if a == b => drop((w.next(), f.next())),
            (Some(a), b) if b.is_none_or(|b| a < b) => lack.extend(w.next()),
            (_, Some(_)) => excess.extend(f.next()),
            (_, None) => return (lack, excess),
        }
    }
}

/// Hashes rows of one schema: all bits of all values count, and which are null.
#[derive(Default)]
struct Hasher(Option<RowConverter>);

impl Hasher {
    fn hashes(&mut self, batch: &RecordBatch) -> Result<Vec<u128>> {
        let converter = match &mut self.0 {
            Some(converter) => converter,
            none => {
                let fields = batch.schema_ref().fields().iter().map(|f| SortField::new(f.data_type().clone())).collect();
                none.insert(RowConverter::new(fields)?)
            }
        };
        let rows = converter.convert_columns(batch.columns())?;
        let hash = |row: &[u8]| {
            let digest: [u8; 32] = Sha256::digest(row).into();
            digest[..16].iter().fold(0_u128, |hash, byte| (hash << 8) | u128::from(*byte))
        };
        Ok(rows.iter().map(|row| hash(row.as_ref())).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;
    use crate::error::Kind;
    use crate::format::CommitUser;
    use crate::pipeline::Pipeline;

    const PIPELINE: &str = "\
version: 1
pipeline: p
source: {files: {paths: [in.csv]}}
sinks:
  - location: dir/sink-0
    columns: {id: BIGINT NOT NULL, amount: 'DECIMAL(10, 2)', note: STRING}
    checks: [amount >= 0]
  - location: dir/sink-1
    columns: {id: BIGINT NOT NULL, half: {type: DOUBLE, from: id}}
dead_letter: {location: dir/dead-letter}
checkpoint: {location: dir/checkpoints, rows: 100}
durability: none
";

    /// Rows 1 to `rows`; each tenth has no amount, each twentieth a bad one, each fiftieth no id.
    fn input_of(dir: &Path, rows: u32) {
        let mut text = "id,amount,note\n".to_owned();
        for i in 1..=rows {
            let id = if i % 50 == 0 { "x".to_owned() } else { i.to_string() };
            let amount = if i % 20 == 0 {
                "-1"
            } else if i % 10 == 0 {
                ""
            } else {
                "1.50"
            };
            writeln!(text, "{id},{amount},n").unwrap();
        }
        std::fs::write(dir.join("in.csv"), text).unwrap();
    }

    async fn done(dir: &Path, rows: u32) -> PipelineFile {
        input_of(dir, rows);
        let file = PipelineFile::parse(PIPELINE, "p.yaml", dir, &[], &|_| None).unwrap();
        Pipeline::from_parts(file.clone()).start().await.unwrap().finish().await.unwrap();
        file
    }

    async fn compared(file: &PipelineFile, dir: &Path) -> Vec<Compared> {
        let (env, dir) = (Env::real(), dir.join("dir"));
        let audit = Audit { file, env: &env, dir: dir.to_str().unwrap() };
        let expected = audit.expected(None, &input(file, &env).await.unwrap()).await.unwrap();
        let mut all = Vec::new();
        for table in 0..3 {
            all.push(audit.compare(&expected, table).await.unwrap());
        }
        all
    }

    fn numbers(all: &[Compared]) -> Vec<[u64; 4]> {
        all.iter().map(|c| [c.expected, c.found, c.missing, c.doubled]).collect()
    }

    #[tokio::test]
    async fn what_a_run_left_is_what_the_source_says_and_input_that_grew_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let file = done(dir.path(), 1000).await;
        // 20 without an id in both, 40 others with a negative amount in one.
        assert_eq!(numbers(&compared(&file, dir.path()).await), [[940, 940, 0, 0], [980, 980, 0, 0], [80, 80, 0, 0]]);
        input_of(dir.path(), 1100);
        let all = compared(&file, dir.path()).await;
        assert_eq!(numbers(&all), [[1034, 940, 94, 0], [1078, 980, 98, 0], [88, 80, 8, 0]]);
        assert_eq!(all[0].first.len(), SHOWN);
        let id = |(what, row): &(&'static str, Value)| {
            let Value::Map(row) = row else { panic!("{row:?}") };
            (*what, row[0].1.clone())
        };
        assert_eq!(id(&all[1].first[0]), ("missing", Value::Int(1001)));
    }

    #[tokio::test]
    async fn a_row_that_is_there_twice_is_doubled_and_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = done(dir.path(), 200).await;
        let table = Table::open(&file.sinks[1].location).await.unwrap();
        let batch = table.scan().rows().await.unwrap().next().await.unwrap().unwrap().slice(0, 3);
        let user = CommitUser::new("other");
        let mut write = table.new_write(&user).unwrap();
        write.write(&batch).await.unwrap();
        table.new_commit(&user).commit(1, write.prepare_commit().await.unwrap()).await.unwrap();
        let all = compared(&file, dir.path()).await;
        assert_eq!(numbers(&all), [[188, 188, 0, 0], [196, 199, 0, 3], [16, 16, 0, 0]]);
        assert_eq!(all[1].first.len(), 3);
        assert!(all[1].first.iter().all(|(what, _)| *what == "doubled"));
    }

    #[tokio::test]
    async fn input_that_changes_meanwhile_is_no_finding_but_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = done(dir.path(), 100).await;
        let (env, at) = (Env::real(), dir.path().join("dir"));
        let before = input(&file, &env).await.unwrap();
        input_of(dir.path(), 120);
        let audit = Audit { file: &file, env: &env, dir: at.to_str().unwrap() };
        let error = audit.expected(None, &before).await.err().unwrap();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.message().starts_with("the input has changed"), "{error}");
    }

    #[test]
    fn only_how_often_a_row_is_there_counts() {
        assert_eq!(unequal(vec![3, 1, 2], vec![2, 3, 1]), (vec![], vec![]));
        assert_eq!(unequal(vec![1, 1, 2], vec![1, 2, 2, 4]), (vec![1], vec![2, 4]));
        assert_eq!(unequal(vec![5, 5], vec![]), (vec![5, 5], vec![]));
        assert_eq!(unequal(vec![], vec![5]), (vec![], vec![5]));
    }
}
