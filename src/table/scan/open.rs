//! One file that is being read.

use std::collections::BTreeMap;
use std::ops::Range as Span;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array as _, ArrayRef, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{DataType as ArrowType, FieldRef, Schema as ArrowSchema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, RowFilter, RowSelection, RowSelector};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder};
use parquet::errors::ParquetError;
use roaring::RoaringTreemap;

use super::predicate::{Bound, Range, Residual};
use super::widen::{widen, widening};
use super::{BATCH_ROWS, Scan, ScanFile, ranged, shaped};
use crate::datafile::{damaged, footer_with, scalar_at};
use crate::error::{Error, Result};
use crate::format::delta::deletion::deleted_rows;
use crate::schema::{DataType, Field, Schema};

/// A file that is being read.
pub(super) struct OpenFile {
    place: String,
    file: ScanFile,
    decoder: ParquetPushDecoder,
    /// For each column of the scan how to take it from what the decoder gives.
    found: Vec<Found>,
    /// Why the row filter failed; the decoder keeps only a text of it.
    failed: Failed,
}

type Failed = Arc<Mutex<Option<Error>>>;

/// Where a column is in a batch of the decoder.
#[derive(Clone)]
struct Found {
    new: Field,
    /// Its position, and the column as it was when the file was written; `None`: the file has none, it reads as null.
    at: Option<(usize, Field)>,
    /// The one value that it has in the whole file, whatever the file says.
    constant: Option<ArrayRef>,
}

impl Found {
    fn take(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        if let Some(constant) = &self.constant {
            return Ok(take(constant, &UInt32Array::from_value(0, batch.num_rows()), None)?);
        }
        match &self.at {
            Some((at, old)) if old.data_type.is_nested() => shaped(batch.column(*at), &old.data_type, &self.new),
            Some((at, old)) => widen(&shaped(batch.column(*at), &old.data_type, old)?, &old.data_type, &self.new.data_type),
            None => Ok(new_null_array(&self.new.data_type.to_arrow(), batch.num_rows())),
        }
    }
}

impl OpenFile {
    /// Opens it to read at most `most` rows.
    pub(super) async fn open(scan: &Scan, file: ScanFile, most: u64) -> Result<OpenFile> {
        let place = format!("{}/{}", scan.store.url(), file.path);
        let written = scan.schemas.get(&file.schema_id).ok_or_else(|| {
            Error::data(format!("the file was written under schema {}, which is missing", file.schema_id))
                .at(&place)
                .hint("restore the schema file")
        })?;
        let condition = match scan.residual(&file)? {
            Residual::Rows(rest) => Some(rest),
            Residual::Always => None,
            Residual::Never => Some(Bound::Any(Vec::new())),
        };
        let mut tested = Vec::new();
        condition.iter().for_each(|c| c.columns(&mut tested));
        let mut shown = olds(scan, written, &scan.columns).map_err(|e| e.at(&place))?;
        let mut tested_olds = olds(scan, written, &tested).map_err(|e| e.at(&place))?;

        let metadata = footer_with(|range| scan.fetch(&file, range), file.size, &place).await?;
        // Types as Parquet has them: what a writer noted beside them about its own memory is not the table's.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let mut metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), options.clone()).map_err(|e| damaged(e, &place))?;
        if scan.log_has_partitions {
            if let Some(schema) = in_microseconds(&metadata) {
                let options = options.with_schema(schema);
                metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), options).map_err(|e| damaged(e, &place))?;
            }
            shown.iter_mut().chain(&mut tested_olds).flatten().for_each(|old| held(old, &metadata));
        }
        let constants = scan.constants(&file)?;
        let (mask, found) = project(scan, &metadata, &scan.columns, &shown, &constants);
        let mut builder = ParquetPushDecoderBuilder::new_with_metadata(metadata.clone()).with_projection(mask).with_batch_size(BATCH_ROWS);
        if let Ok(most) = usize::try_from(most)
            && most < usize::MAX
        {
            builder = builder.with_limit(most);
        }
        let failed = Failed::default();
        let mut wanted: Vec<usize> = (0..metadata.metadata().num_row_groups()).collect();
        if let Some(condition) = &condition {
            wanted = groups(scan, &metadata, condition, &tested, &tested_olds);
            if wanted.len() < metadata.metadata().num_row_groups() {
                builder = builder.with_row_groups(wanted.clone());
            }
        }
        if let Some(vector) = &file.deleted {
            let deleted = deleted_rows(&scan.store, vector).await.map_err(|e| if e.place().is_none() { e.at(&place) } else { e })?;
            builder = builder.with_row_selection(without(&metadata, &wanted, &deleted));
        }
        if let Some(condition) = condition {
            let (mask, found) = project(scan, &metadata, &tested, &tested_olds, &constants);
            builder = builder.with_row_filter(filter(scan.schema.clone(), condition, tested, mask, found, failed.clone()));
        }
        let decoder = builder.build().map_err(|e| damaged(e, &place))?;
        Ok(OpenFile { place, file, decoder, found, failed })
    }

    /// The scan's columns of the next rows that pass, and how many rows.
    pub(super) async fn next(&mut self, scan: &Scan) -> Result<Option<(Vec<ArrayRef>, usize)>> {
        loop {
            match self.decoder.try_decode().map_err(|e| self.error(e))? {
                DecodeResult::Finished => return Ok(None),
                DecodeResult::NeedsData(ranges) => {
                    let ranges: Vec<Span<u64>> = ranges;
                    let bytes = scan.fetch_all(&self.file, &ranges).await?;
                    self.decoder.push_ranges(ranges, bytes).map_err(|e| damaged(e, &self.place))?;
                }
                DecodeResult::Data(batch) => {
                    let columns = self.found.iter().map(|f| f.take(&batch).map_err(|e| e.at(&self.place)));
                    return Ok(Some((columns.collect::<Result<_>>()?, batch.num_rows())));
                }
            }
        }
    }

    fn error(&self, e: ParquetError) -> Error {
        let own = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        own.map_or_else(|| damaged(e, &self.place), |own| own.at(&self.place))
    }
}

/// The columns as they were when the file was written; `None`: they were not there. `Invalid`: one was not widened to what it is now.
fn olds(scan: &Scan, written: &Schema, columns: &[usize]) -> Result<Vec<Option<Field>>> {
    let old = |position: &usize| {
        let field = &scan.schema.fields[*position];
        match written.fields.iter().find(|f| f.id == field.id) {
            Some(old) if widening(&old.data_type, &field.data_type).is_some() => Ok(Some(old.clone())),
            Some(old) => {
                let what = format!("column `{}` is {} and was {} when this file was written", field.name, field.data_type, old.data_type);
                Err(Error::invalid(what).hint("leave the column out, or read with an engine that casts"))
            }
            None => Ok(None),
        }
    };
    columns.iter().map(old).collect()
}

/// The file's columns with INT96 as microseconds, which Delta means by it; nanoseconds, the reader's own choice, end in 2262. `None`: there is
/// no INT96.
fn in_microseconds(metadata: &ArrowReaderMetadata) -> Option<SchemaRef> {
    fn micros(held: &ArrowType) -> ArrowType {
        let inner = |f: &FieldRef| Arc::new(f.as_ref().clone().with_data_type(micros(f.data_type())));
        match held {
            ArrowType::Timestamp(TimeUnit::Nanosecond, zone) => ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            ArrowType::List(f) => ArrowType::List(inner(f)),
            ArrowType::Map(f, ordered) => ArrowType::Map(inner(f), *ordered),
            ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(inner).collect()),
            other => other.clone(),
        }
    }
    let parquet = metadata.parquet_schema();
    let int96 = |leaf: &usize| parquet.column(*leaf).physical_type() == parquet::basic::Type::INT96;
    let roots: Vec<usize> = (0..parquet.num_columns()).filter(int96).map(|leaf| parquet.get_column_root_idx(leaf)).collect();
    if roots.is_empty() {
        return None;
    }
    let fields = metadata.schema().fields().iter().enumerate();
    let fields = fields
        .map(|(i, f)| if roots.contains(&i) { Arc::new(f.as_ref().clone().with_data_type(micros(f.data_type()))) } else { f.clone() });
    Some(Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>())))
}

/// A log without the schemas of old does not say what a column was when the file was written; the file does.
fn held(old: &mut Field, metadata: &ArrowReaderMetadata) {
    let Some(found) = metadata.schema().fields().iter().find(|f| *f.name() == old.name) else { return };
    let was = match found.data_type() {
        ArrowType::Int8 => DataType::TinyInt,
        ArrowType::Int16 => DataType::SmallInt,
        ArrowType::Int32 => DataType::Int,
        ArrowType::Int64 => DataType::BigInt,
        ArrowType::Float32 => DataType::Float,
        ArrowType::Decimal128(precision, scale) => {
            let Ok(scale) = u8::try_from(*scale) else { return };
            DataType::Decimal { precision: *precision, scale }
        }
        ArrowType::Date32 => DataType::Date,
        _ => return,
    };
    // Text is no widening to Delta: a number under a text column is a mistake of somebody's.
    if old.data_type != DataType::String && widening(&was, &old.data_type).is_some() {
        old.data_type = was;
    }
}

/// What to read of the file for these columns, and where each is then.
fn project(
    scan: &Scan,
    metadata: &ArrowReaderMetadata,
    columns: &[usize],
    olds: &[Option<Field>],
    constants: &BTreeMap<usize, ArrayRef>,
) -> (ProjectionMask, Vec<Found>) {
    let root = |(column, old): (&usize, &Option<Field>)| {
        let old = old.as_ref().filter(|_| !constants.contains_key(column))?;
        metadata.schema().fields().iter().position(|f| *f.name() == old.name)
    };
    let roots: Vec<Option<usize>> = columns.iter().zip(olds).map(root).collect();
    let mut read: Vec<usize> = roots.iter().flatten().copied().collect();
    read.sort_unstable();
    read.dedup();
    let found = columns.iter().zip(olds).zip(&roots).map(|((column, old), root)| Found {
        new: scan.schema.fields[*column].clone(),
        at: root.and_then(|root| read.binary_search(&root).ok()).zip(old.clone()),
        constant: constants.get(column).cloned(),
    });
    let found = found.collect();
    (ProjectionMask::roots(metadata.parquet_schema(), read), found)
}

/// The rows of these row groups that are not deleted. `deleted` counts rows from the beginning of the file.
fn without(metadata: &ArrowReaderMetadata, groups: &[usize], deleted: &RoaringTreemap) -> RowSelection {
    let rows_of = |group: &parquet::file::metadata::RowGroupMetaData| u64::try_from(group.num_rows()).unwrap_or(0);
    let mut selectors = Vec::new();
    let mut push = |rows: u64, kept: bool| {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        selectors.push(if kept { RowSelector::select(rows) } else { RowSelector::skip(rows) });
    };
    let mut first = 0;
    for (i, group) in metadata.metadata().row_groups().iter().enumerate() {
        let end = first + rows_of(group);
        if groups.contains(&i) {
            let mut at = first;
            let mut gone = deleted.iter();
            gone.advance_to(first);
            for row in gone.take_while(|row| *row < end) {
                push(row - at, true);
                push(1, false);
                at = row + 1;
            }
            push(end - at, true);
        }
        first = end;
    }
    selectors.into()
}

/// Looks at the columns of the condition first, and lets the others be read only where rows pass.
fn filter(schema: Arc<Schema>, condition: Bound, tested: Vec<usize>, mask: ProjectionMask, found: Vec<Found>, failed: Failed) -> RowFilter {
    let test = move |batch: RecordBatch| -> std::result::Result<BooleanArray, ArrowError> {
        let column = |wanted: usize| match tested.iter().position(|c| *c == wanted) {
            Some(at) => found[at].take(&batch),
            None => Err(Error::internal("a condition looks at a column that was not read").hint("please report this")),
        };
        condition.rows(&schema, batch.num_rows(), &column).map_err(|e| {
            let text = e.to_string();
            *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
            ArrowError::ComputeError(text)
        })
    };
    RowFilter::new(vec![Box::new(ArrowPredicateFn::new(mask, test))])
}

/// The row groups that may hold a row that passes, by their statistics.
fn groups(scan: &Scan, metadata: &ArrowReaderMetadata, condition: &Bound, tested: &[usize], olds: &[Option<Field>]) -> Vec<usize> {
    let groups = metadata.metadata().row_groups();
    let known: Vec<Option<Vec<Option<Range>>>> =
        tested.iter().zip(olds).map(|(column, old)| ranges(metadata, old.as_ref()?, &scan.schema.fields[*column]).ok().flatten()).collect();
    let may = |group: &usize| {
        let range = |column: usize| known[tested.iter().position(|c| *c == column)?].as_ref()?.get(*group)?.clone();
        condition.may_pass(&scan.schema, &range)
    };
    (0..groups.len()).filter(may).collect()
}

/// What the footer says of a column in each row group. An error says nothing.
fn ranges(metadata: &ArrowReaderMetadata, old: &Field, new: &Field) -> Result<Option<Vec<Option<Range>>>> {
    if old.data_type.is_nested() {
        return Ok(None);
    }
    let groups = metadata.metadata().row_groups();
    let unknown = |e: ParquetError| Error::internal("no statistics").because(e);
    let converter = StatisticsConverter::try_new(&old.name, metadata.schema(), metadata.parquet_schema()).map_err(unknown)?;
    let converter = converter.with_missing_null_counts_as_zero(false);
    let mins = shaped(&converter.row_group_mins(groups).map_err(unknown)?, &old.data_type, old)?;
    let maxs = shaped(&converter.row_group_maxes(groups).map_err(unknown)?, &old.data_type, old)?;
    let nulls = converter.row_group_null_counts(groups).map_err(unknown)?;
    let one = |(i, group): (usize, &parquet::file::metadata::RowGroupMetaData)| {
        let (min, max) = (scalar_at(&old.data_type, &mins, i).ok()?, scalar_at(&old.data_type, &maxs, i).ok()?);
        let nulls = nulls.is_valid(i).then(|| nulls.value(i));
        ranged(old, new, min.as_ref(), max.as_ref(), nulls, u64::try_from(group.num_rows()).ok()?)
    };
    Ok(Some(groups.iter().enumerate().map(one).collect()))
}
