//! One Parquet file of a [`FilesSource`](super::FilesSource): its rows come as they are, a few thousand at a time; an offset is a row's number.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Type as PhysicalType;

use super::file::{Ask, Note, changed, digest, look, missing, os_error, shrunk};
use super::{Origin, Position, Rows};
use crate::datafile::unknown_codec;
use crate::error::{Error, Result};

/// Rows of one batch, at most and at least; between them the size decides.
const MOST_ROWS: usize = 8192;
/// What a footer may hold; a longer one is no Parquet file that anybody writes.
const MOST_FOOTER: u64 = 256 << 20;
const MAGIC: &[u8] = b"PAR1";

/// An open Parquet file.
pub(super) struct Columnar {
    pub(super) origin: Arc<Origin>,
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    known: Note,
    next: u64,
    stop: u64,
}

/// What the end of a Parquet file says: how many rows there are, and a note that makes it recognisable.
pub(super) struct Footer {
    pub(super) rows: u64,
    pub(super) note: Note,
    metadata: ArrowReaderMetadata,
}

impl Footer {
    /// Reads it. `Data`: this is no Parquet file, or not a whole one.
    pub(super) fn read(path: &Path) -> Result<Footer> {
        let size = look(path)?.ok_or_else(|| missing(path))?.len();
        let mut file = File::open(path).map_err(|e| os_error(e, path))?;
        let bytes = end_of(&mut file, size).map_err(|e| os_error(e, path))?.ok_or_else(|| cut_off(path))?;
        let metadata = guarded(path, || load(&file))?.map_err(|e| damaged(path, &e))?;
        let counts = metadata.metadata().row_groups().iter().map(|g| u64::try_from(g.num_rows()).ok());
        let rows = counts.sum::<Option<u64>>().ok_or_else(|| damaged(path, &"a row group with less than no rows"))?;
        let note = Note { size, footer: Some(digest(&bytes)), ..Note::default() };
        Ok(Footer { rows, note, metadata })
    }

    /// `Data` when the file is not the one that `note` knows.
    pub(super) fn is(&self, note: &Note, path: &Path) -> Result<()> {
        match note.footer.as_ref().or(note.check.as_ref()) {
            Some(_) if self.note.size < note.size => Err(shrunk(path, self.note.size, note.size)),
            Some(footer) if self.note.footer.as_ref().is_none_or(|now| !now.starts_with(footer)) || self.note.size != note.size => {
                Err(changed(path, "its footer is another"))
            }
            _ => Ok(()),
        }
    }
}

/// The footer's bytes with its length and the magic number; none: there is no footer.
fn end_of(file: &mut File, size: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut last = [0; 8];
    if size < 12 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(size - 8))?;
    file.read_exact(&mut last)?;
    let [a, b, c, d, magic @ ..] = last;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if magic != *MAGIC || length == 0 || length + 12 > size || length > MOST_FOOTER {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(size - 8 - length))?;
    file.take(length + 8).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 == length + 8).then_some(bytes))
}

/// Types as the file's own schema says, not as the Arrow schema that some writers add: the same rows come the same way from every writer.
fn load(file: &File) -> parquet::errors::Result<ArrowReaderMetadata> {
    let plain = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(file, plain())?;
    // The timestamps of Hive and old Spark reach further than nanoseconds do.
    let columns = metadata.parquet_schema().columns().iter();
    let old: Vec<usize> = columns.enumerate().filter(|(_, c)| c.physical_type() == PhysicalType::INT96).map(|(i, _)| i).collect();
    if old.is_empty() {
        return Ok(metadata);
    }
    let mut leaf = 0;
    let fields: Vec<FieldRef> = metadata.schema().fields().iter().map(|f| in_micros(f, &old, &mut leaf)).collect();
    ArrowReaderMetadata::try_new(metadata.metadata().clone(), plain().with_schema(Arc::new(Schema::new(fields))))
}

fn in_micros(field: &FieldRef, old: &[usize], leaf: &mut usize) -> FieldRef {
    let mut below = |f: &FieldRef| in_micros(f, old, leaf);
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(below).collect()),
        DataType::List(inner) => DataType::List(below(inner)),
        DataType::Map(inner, sorted) => DataType::Map(below(inner), *sorted),
        other => {
            let at = *leaf;
            *leaf += 1;
            match other {
                DataType::Timestamp(_, zone) if old.contains(&at) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
                other => other.clone(),
            }
        }
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone()))
}

impl Columnar {
    /// Opens a file and goes to `from`. `Data` when it is missing, or not what the notes say.
    pub(super) fn open(ask: &Ask<'_>) -> Result<Columnar> {
        let path = ask.path;
        let footer = Footer::read(path)?;
        let stop = Note::of(ask.stop, ask.split)?;
        let from = ask.from.filter(|p| p.offset > 0);
        let note = from.map(|p| Note::of(p, ask.split)).transpose()?.flatten();
        for note in stop.iter().chain(&note) {
            footer.is(note, path)?;
        }
        let next = from.map_or(0, |p| p.offset);
        let stop = ask.stop.offset.min(footer.rows);
        if next > footer.rows {
            return Err(changed(path, &format!("it has {} rows, and {next} were read", footer.rows)));
        }
        let file = File::open(path).map_err(|e| os_error(e, path))?;
        let reader = guarded(path, || reader(file, &footer, (next, stop), ask.chunk_bytes))?.map_err(|e| damaged(path, &e))?;
        let origin = Arc::new(Origin { split: ask.split.to_owned(), name: ask.split.to_owned(), partition: None, header: None });
        Ok(Columnar { origin, path: path.to_owned(), reader, known: footer.note, next, stop })
    }

    /// The next rows; none at the stop. `Data`: they cannot be read.
    pub(super) fn read(&mut self) -> Result<Option<Rows>> {
        while self.next < self.stop {
            let Some(batch) = guarded(&self.path, || self.reader.next())? else {
                return Err(damaged(&self.place(), &format!("it ends after {} of {} rows", self.next, self.stop)));
            };
            let batch: RecordBatch = batch.map_err(|e| self.error(e))?;
            let first = self.next;
            self.next += batch.num_rows() as u64;
            if batch.num_rows() > 0 {
                return Ok(Some(Rows { origin: self.origin.clone(), batch, first }));
            }
        }
        Ok(None)
    }

    pub(super) fn done(&self) -> bool {
        self.next >= self.stop
    }

    pub(super) fn position(&self) -> Result<Position> {
        let end = self.done().then_some(self.known.size);
        Note { end, ..self.known.clone() }.position(self.next)
    }

    fn place(&self) -> PathBuf {
        let mut place = self.path.clone().into_os_string();
        place.push(format!(" row {}", self.next));
        place.into()
    }

    /// A file that was replaced under the reader is not damaged.
    fn error(&self, e: arrow::error::ArrowError) -> Error {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&e);
        while let Some(inner) = cause {
            if inner.downcast_ref::<std::io::Error>().is_some_and(|e| e.raw_os_error().is_some()) {
                let hint = "make the file readable, and run again";
                return Error::unavailable("the file cannot be read").at(self.place().display()).because(e.to_string()).hint(hint);
            }
            cause = inner.source();
        }
        match Footer::read(&self.path).and_then(|now| now.is(&self.known, &self.path)) {
            Err(changed) => changed,
            Ok(()) => damaged(&self.place(), &e),
        }
    }
}

/// A reader of the rows `next..stop`, which begins with the row group that holds the first of them.
fn reader(file: File, footer: &Footer, (next, stop): (u64, u64), chunk_bytes: usize) -> parquet::errors::Result<ParquetRecordBatchReader> {
    let whole = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let groups = footer.metadata.metadata().row_groups();
    let (mut first, mut before) = (0, 0);
    for (i, group) in groups.iter().enumerate() {
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        if before + rows > next {
            break;
        }
        (first, before) = (i + 1, before + rows);
    }
    let bytes: u64 = groups.iter().map(|g| u64::try_from(g.total_byte_size()).unwrap_or(0)).fold(0, u64::saturating_add);
    let row = (bytes / footer.rows.max(1)).max(1);
    let rows = whole(chunk_bytes as u64 / row).clamp(1, MOST_ROWS);
    ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.metadata.clone())
        .with_row_groups((first..groups.len()).collect())
        .with_offset(whole(next - before))
        .with_limit(whole(stop.saturating_sub(next)))
        .with_batch_size(rows)
        .build()
}

/// The Parquet reader checks a great deal, but where it does not it panics: that too is only a damaged file.
fn guarded<T>(path: &Path, work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        damaged(path, &text.unwrap_or("its reader gave up"))
    })
}

fn cut_off(path: &Path) -> Error {
    Error::data("not a whole Parquet file: there is no footer at its end")
        .at(path.display())
        .hint("put the complete file in its place and run again; leave out of `paths` what is no Parquet file")
}

fn damaged(path: &Path, why: &dyn std::fmt::Display) -> Error {
    if let Some(unknown) = unknown_codec(why) {
        return unknown.at(path.display());
    }
    Error::data(format!("the Parquet file is damaged: {why}"))
        .at(path.display())
        .hint("put the undamaged file in its place and run again: it goes on after the last checkpoint")
}
