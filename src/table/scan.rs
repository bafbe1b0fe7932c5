//! Reads live data files as record batches: projection, conditions, columns matched by field id. [`Table::scan`](crate::table::Table::scan)
//! begins one. Files, then row groups, that cannot hold a row that passes are not opened; of the rest only the ranges that are needed are
//! read, columns of the condition first.

mod bind;
mod open;
mod predicate;
pub(crate) mod shape;
mod widen;

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod types_tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range as Span;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;

use self::open::OpenFile;
use self::predicate::{Bound, Range, Residual};
use self::widen::Widening;
use crate::condition::Condition;
use crate::error::{Error, Result};
use crate::format::ColumnStats;
use crate::format::delta::action::DeletionVector;
use crate::schema::{DataType, Field, Scalar, Schema};
use crate::store::Store;

use shape::Misfit;

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 8192;
/// Ranges with a gap of up to so many bytes are read at once.
const GAP: u64 = 32 << 10;

/// A data file to read.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanFile {
    /// Path under the table's root.
    pub path: String,
    /// True size, bytes.
    pub size: u64,
    /// Rows.
    pub rows: u64,
    /// The schema under which it was written.
    pub schema_id: u64,
    /// Partition values in the order of the partition columns.
    pub partition: Vec<Option<Scalar>>,
    /// Statistics by the column names of that schema.
    pub stats: Vec<ColumnStats>,
    /// The bucket; 0 in a table without buckets.
    pub bucket: i32,
    /// When it was made, milliseconds since 1970-01-01 UTC.
    pub created_ms: Option<i64>,
    /// Delta: which of its rows are deleted.
    pub deleted: Option<DeletionVector>,
}

impl ScanFile {
    /// Rows that are not deleted.
    pub fn live_rows(&self) -> u64 {
        let deleted = self.deleted.as_ref().map_or(0, |dv| u64::try_from(dv.cardinality).unwrap_or(0));
        self.rows.saturating_sub(deleted)
    }
}

/// What the files that are read belong to.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The object that keeps them: a snapshot or a tag.
    pub(crate) object: String,
    /// In words: `snapshot 7`.
    pub(crate) name: String,
}

/// What to read of a table's files.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    store: Store,
    schema: Arc<Schema>,
    schemas: BTreeMap<u64, Arc<Schema>>,
    /// Positions in `schema` of the columns asked for.
    columns: Vec<usize>,
    condition: Option<Bound>,
    limit: Option<u64>,
    origin: Option<Origin>,
    /// Are values of partition columns in the log alone?
    log_has_partitions: bool,
}

impl Scan {
    /// All columns and all rows, as `schema` names them. `old` are the schemas under which files may have been written.
    pub(crate) fn new(store: Store, schema: Arc<Schema>, old: impl IntoIterator<Item = Arc<Schema>>) -> Scan {
        let mut schemas: BTreeMap<u64, Arc<Schema>> = old.into_iter().map(|s| (s.id, s)).collect();
        schemas.insert(schema.id, schema.clone());
        let columns = (0..schema.fields.len()).collect();
        Scan { store, columns, schema, schemas, condition: None, limit: None, origin: None, log_has_partitions: false }
    }

    /// Only these columns, in this order. `Invalid`: there is none of that name.
    pub(crate) fn select<S: AsRef<str>>(mut self, columns: &[S]) -> Result<Scan> {
        self.columns = columns.iter().map(|c| self.position(c.as_ref())).collect::<Result<_>>()?;
        Ok(self)
    }

    /// Only rows for which this is true too. `Invalid`: there is no such column, or a value does not fit its column.
    pub(crate) fn filter(mut self, condition: &Condition) -> Result<Scan> {
        let bound = bind::bind(condition, &self.schema).map_err(|e| e.at(self.store.url()))?;
        self.condition = Some(match self.condition.take() {
            None => bound,
            Some(Bound::All(mut parts)) => {
                parts.push(bound);
                Bound::All(parts)
            }
            Some(other) => Bound::All(vec![other, bound]),
        });
        Ok(self)
    }

    /// Values of partition columns are those that the log has; what a file has in such a column is not looked at.
    pub(crate) fn with_partitions_from_the_log(mut self) -> Scan {
        self.log_has_partitions = true;
        self
    }

    /// At most so many rows.
    pub(crate) fn limit(mut self, rows: Option<u64>) -> Scan {
        self.limit = rows;
        self
    }

    /// What to ask after when a file is missing.
    pub(crate) fn of(mut self, origin: Option<Origin>) -> Scan {
        self.origin = origin;
        self
    }

    /// The columns of the table.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The Arrow schema of the batches.
    pub(crate) fn arrow_schema(&self) -> SchemaRef {
        Arc::new(ArrowSchema::new(self.columns.iter().map(|i| self.schema.fields[*i].to_arrow()).collect::<Vec<_>>()))
    }

    /// Does any condition look at a column that does not partition the table?
    pub(crate) fn needs_stats(&self) -> bool {
        let mut columns = Vec::new();
        self.condition.iter().for_each(|c| c.columns(&mut columns));
        columns.iter().any(|c| !self.schema.partition_by.contains(&self.schema.fields[*c].name))
    }

    /// Can rows with partition values in these ranges pass? Each has minimum, maximum and nulls of one partition column, among `rows`.
    pub(crate) fn may_hold_partitions(&self, ranges: &[(Option<Scalar>, Option<Scalar>, Option<u64>)], rows: u64) -> bool {
        let range = |column: usize| {
            let (min, max, nulls) = ranges.get(self.partition_place(column)?)?;
            Some(Range::counted(min.clone(), max.clone(), *nulls, rows))
        };
        self.condition.as_ref().is_none_or(|c| c.may_pass(&self.schema, &range))
    }

    /// Can a row of this partition pass?
    pub(crate) fn may_hold_partition(&self, partition: &[Option<Scalar>]) -> Result<bool> {
        let Some(condition) = &self.condition else { return Ok(true) };
        let constant = |column: usize| partition.get(self.partition_place(column)?).cloned();
        Ok(condition.residual(&self.schema, &constant)? != Residual::Never)
    }

    fn partition_place(&self, column: usize) -> Option<usize> {
        self.schema.partition_by.iter().position(|p| *p == self.schema.fields[column].name)
    }

    /// The columns that have one value in the whole file, by the log alone.
    fn constants(&self, file: &ScanFile) -> Result<BTreeMap<usize, ArrayRef>> {
        if !self.log_has_partitions {
            return Ok(BTreeMap::new());
        }
        let columns = (0..self.schema.fields.len()).filter_map(|column| Some((column, file.partition.get(self.partition_place(column)?)?)));
        columns.map(|(column, value)| Ok((column, predicate::one(&self.schema.fields[column].data_type, value.as_ref())?))).collect()
    }

    /// What is left of the condition in this file: partition columns have one value in it, columns that were added later are null.
    fn residual(&self, file: &ScanFile) -> Result<Residual> {
        let Some(condition) = &self.condition else { return Ok(Residual::Always) };
        let written = self.schemas.get(&file.schema_id);
        let constant = |column: usize| {
            let id = self.schema.fields[column].id;
            match written {
                Some(written) if !written.fields.iter().any(|f| f.id == id) => Some(None),
                _ => file.partition.get(self.partition_place(column)?).cloned(),
            }
        };
        condition.residual(&self.schema, &constant)
    }

    /// Can this file hold a row that passes? By its partition and statistics; true when they do not tell.
    pub(crate) fn may_hold(&self, file: &ScanFile) -> Result<bool> {
        Ok(match self.residual(file)? {
            Residual::Always => file.live_rows() > 0,
            Residual::Never => false,
            Residual::Rows(rest) => rest.may_pass(&self.schema, &|column| self.range(file, column)),
        })
    }

    /// What the file's statistics say of a column.
    fn range(&self, file: &ScanFile, column: usize) -> Option<Range> {
        let field = &self.schema.fields[column];
        let old = self.schemas.get(&file.schema_id)?.fields.iter().find(|f| f.id == field.id)?;
        let stats = file.stats.iter().find(|s| s.column == old.name)?;
        ranged(old, field, stats.min.as_ref(), stats.max.as_ref(), Some(stats.nulls), file.rows)
    }

    /// How many rows pass. No file is opened for what partitions and statistics decide.
    pub(crate) async fn count(&self, files: Vec<ScanFile>) -> Result<u64> {
        let (mut count, mut open) = (0, Vec::new());
        for file in files {
            match self.residual(&file)? {
                Residual::Always => count += file.live_rows(),
                Residual::Never => {}
                Residual::Rows(_) => open.push(file),
            }
        }
        let none: [&str; 0] = [];
        let mut rows = self.clone().limit(None).select(&none)?.read(open)?;
        while let Some(batch) = rows.next().await? {
            count += batch.num_rows() as u64;
        }
        Ok(self.limit.map_or(count, |most| count.min(most)))
    }

    /// The rows of these files, file after file. Files that cannot hold a row that passes are not opened.
    pub(crate) fn read(&self, files: Vec<ScanFile>) -> Result<Rows> {
        let mut wanted = VecDeque::new();
        for file in files {
            if self.may_hold(&file)? {
                wanted.push_back(file);
            }
        }
        Ok(Rows { arrow: self.arrow_schema(), left: self.limit.unwrap_or(u64::MAX), scan: self.clone(), files: wanted, open: None })
    }

    fn position(&self, column: &str) -> Result<usize> {
        let names = || self.schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
        self.schema.fields.iter().position(|f| f.name == column).ok_or_else(|| {
            Error::invalid(format!("the table has no column `{column}`")).at(self.store.url()).hint(format!("its columns are {}", names()))
        })
    }

    /// A data file is not there: it, or the snapshot that is read.
    async fn missing(&self, file: &ScanFile) -> Error {
        let place = format!("{}/{}", self.store.url(), file.path);
        if let Some(Origin { object, name }) = &self.origin
            && matches!(self.store.size(object).await, Ok(None))
        {
            return Error::unavailable(format!("{name} expired while it was read: a data file is missing"))
                .at(place)
                .hint("read a newer snapshot; a tag keeps one from expiring");
        }
        let hint = "it may have been expired (Delta: vacuumed): read again, or a newer snapshot; else the table is damaged";
        Error::data("a data file is missing").at(place).hint(hint)
    }

    /// Ranges of a file; neighbours are read together.
    async fn fetch_all(&self, file: &ScanFile, ranges: &[Span<u64>]) -> Result<Vec<Bytes>> {
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        order.sort_by_key(|i| ranges[*i].start);
        let mut runs: Vec<(Span<u64>, Vec<usize>)> = Vec::new();
        for i in order {
            match runs.last_mut() {
                Some((run, members)) if ranges[i].start <= run.end.saturating_add(GAP) => {
                    run.end = run.end.max(ranges[i].end);
                    members.push(i);
                }
                _ => runs.push((ranges[i].clone(), vec![i])),
            }
        }
        let mut out = vec![Bytes::new(); ranges.len()];
        let reads = runs.iter().map(|(run, _)| self.fetch(file, run.clone()));
        let reads = futures::future::try_join_all(reads).await?;
        for ((run, members), bytes) in runs.iter().zip(reads) {
            let at = |offset: u64| usize::try_from(offset - run.start).unwrap_or(usize::MAX);
            for i in members {
                out[*i] = bytes.slice(at(ranges[*i].start)..at(ranges[*i].end));
            }
        }
        Ok(out)
    }

    async fn fetch(&self, file: &ScanFile, range: Span<u64>) -> Result<Bytes> {
        match self.store.get_range(&file.path, range).await? {
            Some(bytes) => Ok(bytes),
            None => Err(self.missing(file).await),
        }
    }
}

/// What bounds that were taken of values of `old` say of them as values of `new`.
fn ranged(old: &Field, new: &Field, min: Option<&Scalar>, max: Option<&Scalar>, nulls: Option<u64>, rows: u64) -> Option<Range> {
    let how = widen::widening(&old.data_type, &new.data_type)?;
    let bound = |v: Option<&Scalar>| v.and_then(|v| widen::bound(v, &old.data_type, &new.data_type));
    // What a wider type cannot hold becomes null.
    let nulls = nulls.filter(|n| how == Widening::Same || *n > 0);
    Some(Range::counted(bound(min), bound(max), nulls, rows))
}

/// Rows that are being read.
pub struct Rows {
    scan: Scan,
    arrow: SchemaRef,
    files: VecDeque<ScanFile>,
    open: Option<OpenFile>,
    left: u64,
}

impl Rows {
    /// The table's schema under which the rows are read: the types that Arrow does not tell apart.
    pub fn table_schema(&self) -> &Arc<Schema> {
        &self.scan.schema
    }

    /// The next batch, never empty; `None` at the end. `Data`: a file is missing, damaged or not what its schema says. `Invalid`: a column
    /// has had a type since the file was written that it was not widened to. `Unavailable`: the snapshot expired meanwhile.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.left > 0 {
            let open = match &mut self.open {
                Some(open) => open,
                None => match self.files.pop_front() {
                    Some(file) => self.open.insert(OpenFile::open(&self.scan, file, self.left).await?),
                    None => return Ok(None),
                },
            };
            match open.next(&self.scan).await? {
                Some((_, 0)) => {}
                Some((columns, rows)) => {
                    self.left = self.left.saturating_sub(rows as u64);
                    let options = RecordBatchOptions::new().with_row_count(Some(rows));
                    let batch = RecordBatch::try_new_with_options(self.arrow.clone(), columns, &options);
                    let null = |e| Error::data("a file holds nulls in a NOT NULL column").because(e).at(self.scan.store.url());
                    return Ok(Some(batch.map_err(null)?));
                }
                None => self.open = None,
            }
        }
        Ok(None)
    }

    /// The Arrow schema of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.arrow.clone()
    }

    /// How many files are left to open.
    pub fn files_left(&self) -> usize {
        self.files.len()
    }

    /// As a stream; it ends after the first error.
    pub fn into_stream(self) -> BoxStream<'static, Result<RecordBatch>> {
        futures::stream::try_unfold(self, |mut rows| async move { Ok(rows.next().await?.map(|batch| (batch, rows))) }).boxed()
    }
}

/// The array in the Arrow form of the column's type; `written` is the type that it had then.
fn shaped(array: &ArrayRef, written: &DataType, field: &Field) -> Result<ArrayRef> {
    shape::shaped(array, written, field, shape::From::File).map_err(|Misfit { path, want, got, because }| {
        let wrong = Error::data(format!("column `{path}` is {want} and the file holds {got}")).hint("the file is not what the table says");
        match because {
            Some(e) => wrong.because(e),
            None => wrong,
        }
    })
}
