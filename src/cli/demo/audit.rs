//! The tables against what was produced: every good order once, every broken one once among the dead letters, with its coordinates.

use std::collections::{BTreeMap, HashMap};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Decimal128Type, Int32Type, Int64Type};

use crate::cli::demo::broker::{Broken, TOPIC, Truth};
use crate::cli::demo::orders::Orders;
use crate::error::{Error, Result};
use crate::maintain::audit;
use crate::maintain::finding::Check;
use crate::table::Table;

/// So many findings are told in words.
const TOLD: usize = 20;

/// A table after the demo.
#[derive(Debug, Default)]
pub(super) struct TableFacts {
    pub(super) rows: u64,
    pub(super) snapshots: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Files that killed processes left, and that nothing refers to.
    pub(super) unreferenced: u64,
    /// What must be there and is not; what is there more than once; what must not be there.
    pub(super) missing: u64,
    pub(super) doubled: u64,
    pub(super) strange: u64,
    /// What is wrong, in words.
    pub(super) findings: Vec<String>,
}

/// A dead letter, for the report.
#[derive(Clone, Debug)]
pub(super) struct DeadLetter {
    pub(super) partition: u64,
    pub(super) offset: u64,
    pub(super) stage: String,
    pub(super) error: String,
    pub(super) value: String,
}

/// Both tables.
#[derive(Debug, Default)]
pub(super) struct Audited {
    pub(super) orders: TableFacts,
    pub(super) cents: i128,
    pub(super) dead: TableFacts,
    pub(super) by_stage: BTreeMap<String, u64>,
    /// The first of each stage.
    pub(super) examples: Vec<DeadLetter>,
}

impl Audited {
    /// Everything that is wrong, in words.
    pub(super) fn findings(&self) -> Vec<String> {
        let of = |name: &str, facts: &TableFacts| facts.findings.iter().map(|f| format!("{name}: {f}")).collect::<Vec<_>>();
        [of("orders", &self.orders), of("orders_dead", &self.dead)].concat()
    }
}

/// One bit for each offset of each partition.
struct Seen(Vec<Vec<u64>>);

impl Seen {
    fn new(ends: &[u64]) -> Seen {
        Seen(ends.iter().map(|end| vec![0; usize::try_from(end / 64 + 1).unwrap_or_default()]).collect())
    }
    /// Was it seen before? It is now. None: there is no such place.
    fn see(&mut self, partition: u64, offset: u64) -> Option<bool> {
        let word = self.0.get_mut(usize::try_from(partition).ok()?)?.get_mut(usize::try_from(offset / 64).ok()?)?;
        let before = *word & (1 << (offset % 64)) != 0;
        *word |= 1 << (offset % 64);
        Some(before)
    }
}

/// Reads both tables.
pub(super) async fn audit_all(orders: &Table, dead: &Table, all: &Orders, truth: &Truth) -> Result<Audited> {
    let mut audited = Audited { orders: facts(orders).await?, dead: facts(dead).await?, ..Audited::default() };
    let broken: HashMap<(u64, u64), &Broken> = truth.broken.iter().map(|b| ((b.partition, b.offset), b)).collect();
    rows(orders, truth, &broken, &mut audited).await?;
    dead_letters(dead, all, broken, &mut audited).await?;
    for facts in [&mut audited.orders, &mut audited.dead] {
        let counts = [("missing", facts.missing), ("doubled", facts.doubled), ("not to be there", facts.strange)];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            facts.findings.push(format!("{count} rows are {what}"));
        }
    }
    if audited.cents != i128::from(truth.cents) {
        let what = format!("the amounts come to {} cents, and to {} in what was produced", audited.cents, truth.cents);
        audited.orders.findings.push(what);
    }
    Ok(audited)
}

/// What `table-cli audit` checks, and how much there is.
async fn facts(table: &Table) -> Result<TableFacts> {
    let checked = audit::audit(table.store(), None).await?;
    let plan = table.scan().plan().await?;
    let files = plan.files()?;
    let unreferenced = checked.findings.checks().into_iter().find(|(check, _, _)| *check == Check::Unreferenced).map_or(0, |(_, n, _)| n);
    Ok(TableFacts {
        snapshots: checked.snapshots.map_or(0, |(first, last)| last - first + 1),
        files: files.len() as u64,
        bytes: files.iter().map(|f| f.size).sum(),
        unreferenced,
        findings: checked.findings.list().iter().take(TOLD).map(|f| format!("{}: {}: {}", f.check, f.at, f.what)).collect(),
        ..TableFacts::default()
    })
}

async fn rows(table: &Table, truth: &Truth, broken: &HashMap<(u64, u64), &Broken>, audited: &mut Audited) -> Result<()> {
    let mut seen = Seen::new(&truth.ends);
    let mut good = 0;
    let mut rows = table.scan().select(["src_partition", "src_offset", "amount"]).rows().await?;
    let facts = &mut audited.orders;
    while let Some(batch) = rows.next().await? {
        let (partitions, offsets) = (ints(&batch, "src_partition")?, longs(&batch, "src_offset")?);
        let amounts = column(&batch, "amount")?.as_primitive_opt::<Decimal128Type>().ok_or_else(|| not_there("amount"))?;
        facts.rows += batch.num_rows() as u64;
        audited.cents += amounts.iter().flatten().sum::<i128>();
        for (partition, offset) in partitions.into_iter().zip(offsets) {
            let known = truth.ends.get(usize::try_from(partition).unwrap_or(usize::MAX)).is_some_and(|end| offset < *end);
            if !known || broken.contains_key(&(partition, offset)) {
                facts.strange += 1;
            } else if seen.see(partition, offset) == Some(true) {
                facts.doubled += 1;
            } else {
                good += 1;
            }
        }
    }
    facts.missing = truth.good().saturating_sub(good);
    Ok(())
}

/// Each broken order once, as it was produced, at the stage at which it had to be found.
async fn dead_letters(table: &Table, all: &Orders, mut broken: HashMap<(u64, u64), &Broken>, audited: &mut Audited) -> Result<()> {
    let mut rows = table.scan().select(["topic", "partition", "offset", "stage", "error", "value"]).rows().await?;
    let facts = &mut audited.dead;
    let (mut found, mut json) = (HashMap::new(), Vec::new());
    while let Some(batch) = rows.next().await? {
        let (partitions, offsets) = (ints(&batch, "partition")?, longs(&batch, "offset")?);
        let (topics, stages, errors) = (texts(&batch, "topic")?, texts(&batch, "stage")?, texts(&batch, "error")?);
        let values = column(&batch, "value")?.as_binary_opt::<i32>().ok_or_else(|| not_there("value"))?;
        facts.rows += batch.num_rows() as u64;
        for (i, place) in partitions.into_iter().zip(offsets).enumerate() {
            let value = if values.is_null(i) { &[] } else { values.value(i) };
            *audited.by_stage.entry(stages[i].clone()).or_default() += 1;
            let Some(wanted) = broken.remove(&place) else {
                *(if found.contains_key(&place) { &mut facts.doubled } else { &mut facts.strange }) += 1;
                continue;
            };
            found.insert(place, ());
            all.write(wanted.order, &mut json);
            if topics[i] != TOPIC || stages[i] != wanted.flaw.stage() || value != json.as_slice() {
                let is = format!("{} {} {}", topics[i], stages[i], String::from_utf8_lossy(value));
                let what = format!("{TOPIC}[{}]@{} is not what was produced there ({:?}): {is}", place.0, place.1, wanted.flaw);
                if facts.findings.len() < TOLD {
                    facts.findings.push(what);
                }
            }
            let letter = DeadLetter {
                partition: place.0,
                offset: place.1,
                stage: stages[i].clone(),
                error: errors[i].clone(),
                value: String::from_utf8_lossy(value).into_owned(),
            };
            match audited.examples.iter_mut().find(|e| e.stage == letter.stage) {
                // The same ones every time, in whatever order files are read.
                Some(known) if (letter.offset, letter.partition) < (known.offset, known.partition) => *known = letter,
                Some(_) => {}
                None => audited.examples.push(letter),
            }
        }
    }
    facts.missing = broken.len() as u64;
    audited.examples.sort_by(|a, b| b.stage.cmp(&a.stage));
    Ok(())
}

fn not_there(column: &str) -> Error {
    Error::data(format!("the column `{column}` is not what the demo made of it")).hint("start the demo again")
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a dyn arrow::array::Array> {
    batch.column_by_name(name).map(AsRef::as_ref).ok_or_else(|| not_there(name))
}

/// What is null or negative is nowhere.
fn ints(batch: &RecordBatch, name: &str) -> Result<Vec<u64>> {
    let values = column(batch, name)?.as_primitive_opt::<Int32Type>().ok_or_else(|| not_there(name))?;
    Ok(values.iter().map(|v| v.and_then(|v| u64::try_from(v).ok()).unwrap_or(u64::MAX)).collect())
}
fn longs(batch: &RecordBatch, name: &str) -> Result<Vec<u64>> {
    let values = column(batch, name)?.as_primitive_opt::<Int64Type>().ok_or_else(|| not_there(name))?;
    Ok(values.iter().map(|v| v.and_then(|v| u64::try_from(v).ok()).unwrap_or(u64::MAX)).collect())
}
fn texts(batch: &RecordBatch, name: &str) -> Result<Vec<String>> {
    let values = column(batch, name)?.as_string_opt::<i32>().ok_or_else(|| not_there(name))?;
    Ok(values.iter().map(|v| v.unwrap_or_default().to_owned()).collect())
}
