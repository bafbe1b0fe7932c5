//! Reads live data files as record batches: projection, simple conditions, files skipped by their statistics, columns matched by field
//! id. Reads only the ranges that it needs.

mod predicate;
pub(crate) mod shape;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod types_tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute;
use arrow::datatypes::{Schema as ArrowSchema, SchemaRef};
use bytes::Bytes;
use futures::Stream;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder};

use crate::error::{Error, Result};
use crate::format::ColumnStats;
use crate::format::paimon::log::LiveFile;
use crate::schema::{DataType, Field, Scalar, Schema};
use crate::store::Store;

use shape::Misfit;

pub use predicate::{Op, Predicate, Test};

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 8192;
/// The end of a file that is read first; footers of usual size fit.
const FOOTER: u64 = 64 << 10;

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
}

impl From<LiveFile> for ScanFile {
    fn from(file: LiveFile) -> Self {
        let LiveFile { path, size, rows, schema_id, partition, stats, .. } = file;
        ScanFile { path, size, rows, schema_id, partition, stats }
    }
}

/// What to read of a table's files.
#[derive(Clone, Debug)]
pub struct Scan {
    store: Store,
    schema: Arc<Schema>,
    schemas: BTreeMap<u64, Arc<Schema>>,
    /// Positions in `schema`: the columns asked for, then those that only conditions need.
    columns: Vec<usize>,
    shown: usize,
    predicates: Vec<Predicate>,
}

impl Scan {
    /// All columns and all rows, as `schema` names them. `old` are the schemas under which files may have been written.
    pub fn new(store: Store, schema: Arc<Schema>, old: impl IntoIterator<Item = Arc<Schema>>) -> Scan {
        let mut schemas: BTreeMap<u64, Arc<Schema>> = old.into_iter().map(|s| (s.id, s)).collect();
        schemas.insert(schema.id, schema.clone());
        let shown = schema.fields.len();
        Scan { store, columns: (0..shown).collect(), schema, schemas, shown, predicates: Vec::new() }
    }

    /// Only these columns, in this order. `Invalid`: there is none of that name.
    pub fn select<S: AsRef<str>>(mut self, columns: &[S]) -> Result<Scan> {
        self.columns = columns.iter().map(|c| self.position(c.as_ref())).collect::<Result<_>>()?;
        self.shown = self.columns.len();
        self.with_predicates()
    }

    /// Only rows for which this is true too. `Invalid`: there is no such column.
    pub fn filter(mut self, predicate: Predicate) -> Result<Scan> {
        self.predicates.push(predicate);
        self.with_predicates()
    }

    /// The Arrow schema of the batches.
    pub fn arrow_schema(&self) -> SchemaRef {
        Arc::new(ArrowSchema::new(self.columns[..self.shown].iter().map(|i| self.schema.fields[*i].to_arrow()).collect::<Vec<_>>()))
    }

    /// Can this file hold a row that passes? By its statistics and partition values; true when they do not tell.
    pub fn may_hold(&self, file: &ScanFile) -> bool {
        let Some(written) = self.schemas.get(&file.schema_id) else { return true };
        self.predicates.iter().all(|predicate| {
            let Some(field) = self.schema.field(&predicate.column) else { return true };
            let all_null = ColumnStats { column: field.name.clone(), min: None, max: None, nulls: file.rows };
            let Some(old) = written.fields.iter().find(|f| f.id == field.id) else {
                return predicate.may_pass(field, &all_null, file.rows);
            };
            if old.data_type != field.data_type {
                return true;
            }
            let partition = written.partition_by.iter().position(|p| *p == old.name).and_then(|i| file.partition.get(i));
            let stats = match partition {
                Some(None) => Some(all_null),
                Some(Some(value)) => {
                    Some(ColumnStats { column: old.name.clone(), min: Some(value.clone()), max: Some(value.clone()), nulls: 0 })
                }
                None => file.stats.iter().find(|s| s.column == old.name).cloned(),
            };
            stats.is_none_or(|stats| predicate.may_pass(field, &stats, file.rows))
        })
    }

    /// How many rows pass. Without conditions no file is opened.
    pub async fn count(&self, files: &[ScanFile]) -> Result<u64> {
        if self.predicates.is_empty() {
            return Ok(files.iter().map(|f| f.rows).sum());
        }
        let none: [&str; 0] = [];
        let mut rows = self.clone().select(&none)?.read(files.to_vec());
        let mut count = 0;
        while let Some(batch) = rows.next().await? {
            count += batch.num_rows() as u64;
        }
        Ok(count)
    }

    /// The rows of these files, file after file. Files that cannot hold a row that passes are not opened.
    pub fn read(&self, files: Vec<ScanFile>) -> Rows {
        let files = files.into_iter().filter(|f| self.may_hold(f)).collect();
        Rows { arrow: self.arrow_schema(), scan: self.clone(), files, open: None }
    }

    fn position(&self, column: &str) -> Result<usize> {
        let names = || self.schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
        self.schema.fields.iter().position(|f| f.name == column).ok_or_else(|| {
            Error::invalid(format!("the table has no column `{column}`")).at(self.store.url()).hint(format!("its columns are {}", names()))
        })
    }

    fn with_predicates(mut self) -> Result<Scan> {
        self.columns.truncate(self.shown);
        for predicate in &self.predicates {
            let position = self.position(&predicate.column)?;
            if !self.columns.contains(&position) {
                self.columns.push(position);
            }
        }
        Ok(self)
    }
}

/// Rows that are being read; see [`Scan::read`].
pub struct Rows {
    scan: Scan,
    arrow: SchemaRef,
    files: VecDeque<ScanFile>,
    open: Option<OpenFile>,
}

impl Rows {
    /// The next batch, never empty; `None` at the end. `Data`: a file is missing, damaged or not what its schema says. `Invalid`: a column
    /// has had another type since the file was written.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let open = match &mut self.open {
                Some(open) => open,
                None => match self.files.pop_front() {
                    Some(file) => self.open.insert(OpenFile::open(&self.scan, file).await?),
                    None => return Ok(None),
                },
            };
            match open.next(&self.scan).await? {
                Some((columns, rows)) => {
                    if let Some(batch) = self.passing(&columns, rows)? {
                        return Ok(Some(batch));
                    }
                }
                None => self.open = None,
            }
        }
    }

    /// As a stream; it ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<RecordBatch>> {
        futures::stream::try_unfold(self, |mut rows| async move { Ok(rows.next().await?.map(|batch| (batch, rows))) })
    }

    /// The rows that pass, in the columns asked for.
    fn passing(&self, columns: &[ArrayRef], rows: usize) -> Result<Option<RecordBatch>> {
        let mut keep: Option<BooleanArray> = None;
        for predicate in &self.scan.predicates {
            let at = self.scan.columns.iter().position(|i| self.scan.schema.fields[*i].name == predicate.column);
            let Some((array, position)) = at.and_then(|at| Some((columns.get(at)?, self.scan.columns[at]))) else { continue };
            let passes = predicate.rows(&self.scan.schema.fields[position], array)?;
            keep = Some(match keep {
                Some(keep) => compute::and_kleene(&keep, &passes)?,
                None => passes,
            });
        }
        let shown = &columns[..self.scan.shown];
        let (shown, rows) = match keep {
            None => (shown.to_vec(), rows),
            Some(keep) => {
                let arrays = shown.iter().map(|a| compute::filter(a, &keep)).collect::<Result<Vec<_>, _>>()?;
                (arrays, keep.true_count())
            }
        };
        if rows == 0 {
            return Ok(None);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.arrow.clone(), shown, &options);
        Ok(Some(batch.map_err(|e| Error::data("a file holds nulls in a NOT NULL column").because(e).at(self.scan.store.url()))?))
    }
}

/// A file that is being read.
struct OpenFile {
    place: String,
    file: ScanFile,
    decoder: ParquetPushDecoder,
    /// For each column of the scan its position in what the decoder gives, and its type when it was written; `None`: the file has none, it
    /// reads as null.
    found: Vec<Option<(usize, DataType)>>,
}

impl OpenFile {
    async fn open(scan: &Scan, file: ScanFile) -> Result<OpenFile> {
        let place = format!("{}/{}", scan.store.url(), file.path);
        let written = scan.schemas.get(&file.schema_id).ok_or_else(|| {
            Error::data(format!("the file was written under schema {}, which is missing", file.schema_id))
                .at(&place)
                .hint("restore the schema file")
        })?;
        let columns = columns_in(scan, written).map_err(|e| e.at(&place))?;
        let metadata = footer(&scan.store, &file, &place).await?;
        // Types as Parquet has them: what a writer noted beside them about its own memory is not the table's.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options).map_err(|e| damaged(e, &place))?;
        let roots: Vec<Option<usize>> =
            columns.iter().map(|c| c.and_then(|c| metadata.schema().fields().iter().position(|f| *f.name() == c.name))).collect();
        let mut read: Vec<usize> = roots.iter().flatten().copied().collect();
        read.sort_unstable();
        read.dedup();
        let found =
            roots.iter().zip(&columns).map(|(root, c)| Some((read.binary_search(&(*root)?).ok()?, (*c)?.data_type.clone()))).collect();
        let mask = ProjectionMask::roots(metadata.parquet_schema(), read);
        let builder = ParquetPushDecoderBuilder::new_with_metadata(metadata).with_projection(mask).with_batch_size(BATCH_ROWS);
        let decoder = builder.build().map_err(|e| damaged(e, &place))?;
        Ok(OpenFile { place, file, decoder, found })
    }

    /// The scan's columns of the next rows, and how many rows.
    async fn next(&mut self, scan: &Scan) -> Result<Option<(Vec<ArrayRef>, usize)>> {
        loop {
            match self.decoder.try_decode().map_err(|e| damaged(e, &self.place))? {
                DecodeResult::Finished => return Ok(None),
                DecodeResult::NeedsData(ranges) => {
                    let mut bytes = Vec::with_capacity(ranges.len());
                    for range in &ranges {
                        bytes.push(fetch(&scan.store, &self.file, range.clone()).await?);
                    }
                    self.decoder.push_ranges(ranges, bytes).map_err(|e| damaged(e, &self.place))?;
                }
                DecodeResult::Data(batch) => {
                    let columns = self.found.iter().zip(&scan.columns).map(|(found, position)| {
                        let field = &scan.schema.fields[*position];
                        match found {
                            Some((at, written)) => shaped(batch.column(*at), written, field).map_err(|e| e.at(&self.place)),
                            None => Ok(new_null_array(&field.data_type.to_arrow(), batch.num_rows())),
                        }
                    });
                    return Ok(Some((columns.collect::<Result<_>>()?, batch.num_rows())));
                }
            }
        }
    }
}

/// What each column of the scan was when the file was written; `None`: it was not there.
fn columns_in<'a>(scan: &Scan, written: &'a Schema) -> Result<Vec<Option<&'a Field>>> {
    let columns = scan.columns.iter().map(|position| {
        let field = &scan.schema.fields[*position];
        match written.fields.iter().find(|f| f.id == field.id) {
            Some(old) if shape::readable(&old.data_type, &field.data_type) => Ok(Some(old)),
            Some(old) => {
                let what = format!("column `{}` is {} and was {} when this file was written", field.name, field.data_type, old.data_type);
                Err(Error::invalid(what).hint("leave the column out, or read with an engine that casts"))
            }
            None => Ok(None),
        }
    });
    columns.collect()
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

/// The footer of a Parquet file. `Data`: the file is missing or is none.
pub(crate) async fn footer(store: &Store, file: &ScanFile, place: &str) -> Result<ParquetMetaData> {
    let damaged = |e| damaged(e, place);
    let decoder = ParquetMetaDataPushDecoder::try_new(file.size).map_err(damaged)?;
    let mut decoder = decoder.with_page_index_policy(PageIndexPolicy::Skip);
    let tail = file.size.saturating_sub(FOOTER)..file.size;
    decoder.push_range(tail.clone(), fetch(store, file, tail).await?).map_err(damaged)?;
    loop {
        match decoder.try_decode().map_err(damaged)? {
            DecodeResult::Data(metadata) => return Ok(metadata),
            DecodeResult::NeedsData(ranges) => {
                for range in ranges {
                    decoder.push_range(range.clone(), fetch(store, file, range).await?).map_err(damaged)?;
                }
            }
            DecodeResult::Finished => return Err(Error::internal("a footer was read twice").at(place).hint("please report this")),
        }
    }
}

async fn fetch(store: &Store, file: &ScanFile, range: Range<u64>) -> Result<Bytes> {
    store.get_range(&file.path, range).await?.ok_or_else(|| {
        let hint = "it may have been expired while it was read: read again; else the table is damaged";
        Error::data("a data file is missing").at(format!("{}/{}", store.url(), file.path)).hint(hint)
    })
}

fn damaged(e: ParquetError, place: &str) -> Error {
    Error::data("this is no readable Parquet file of the size that the table says")
        .because(e)
        .at(place)
        .hint("the file is damaged, or is not Parquet")
}
