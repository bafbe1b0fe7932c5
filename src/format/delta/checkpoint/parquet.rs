//! Reads a Parquet file of the log over a [`Store`], as ranges of it are needed: a few columns, batch by batch.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use parquet::DecodeResult;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::push_decoder::{ParquetPushDecoder, ParquetPushDecoderBuilder};
use parquet::errors::ParquetError;

use crate::datafile::{footer_with, unknown_codec};
use crate::error::{Error, Result};
use crate::store::Store;

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 4096;
const HINT: &str = "delete it if the commits before it are there";
/// Ranges with a gap of up to so many bytes are read at once.
const GAP: u64 = 64 << 10;

/// A file that is being read.
pub(crate) struct ParquetRows {
    file: File,
    /// None: the file has none of the columns.
    decoder: Option<ParquetPushDecoder>,
    rows: u64,
}

struct File {
    store: Store,
    name: String,
    size: u64,
}

impl ParquetRows {
    /// Opens `name`, of `size` bytes, to read the top-level columns `columns`, in the file's order. `Data`: it is missing or damaged.
    pub(crate) async fn open(store: &Store, name: String, size: u64, columns: &[&str]) -> Result<ParquetRows> {
        let file = File { store: store.clone(), name, size };
        let place = file.place();
        let footer = footer_with(|range| file.fetch(range), file.size, &place).await?;
        let rows = u64::try_from(footer.file_metadata().num_rows()).unwrap_or_default();
        // Types as Parquet has them: what a writer noted beside them about its own memory says nothing.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = ArrowReaderMetadata::try_new(Arc::new(footer), options).map_err(|e| file.damaged(e))?;
        let wanted = metadata.schema().fields().iter().enumerate().filter(|(_, f)| columns.contains(&f.name().as_str()));
        let roots: Vec<usize> = wanted.map(|(i, _)| i).collect();
        let decoder = if roots.is_empty() {
            None
        } else {
            let mask = ProjectionMask::roots(metadata.parquet_schema(), roots);
            let builder = ParquetPushDecoderBuilder::new_with_metadata(metadata).with_projection(mask).with_batch_size(BATCH_ROWS);
            Some(builder.build().map_err(|e| file.damaged(e))?)
        };
        Ok(ParquetRows { file, decoder, rows })
    }

    /// All rows of the file, by its footer.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// The next rows; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let Some(decoder) = &mut self.decoder else { return Ok(None) };
        loop {
            match decoder.try_decode().map_err(|e| self.file.damaged(e))? {
                DecodeResult::Finished => return Ok(None),
                DecodeResult::Data(batch) if batch.num_rows() > 0 => return Ok(Some(batch)),
                DecodeResult::Data(_) => {}
                DecodeResult::NeedsData(ranges) => {
                    let bytes = self.file.fetch_all(&ranges).await?;
                    decoder.push_ranges(ranges, bytes).map_err(|e| self.file.damaged(e))?;
                }
            }
        }
    }
}

impl File {
    /// Ranges in their order; neighbours are read together.
    async fn fetch_all(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        order.sort_by_key(|i| ranges[*i].start);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for range in order.iter().map(|i| &ranges[*i]) {
            match runs.last_mut() {
                Some(run) if range.start <= run.end.saturating_add(GAP) => run.end = run.end.max(range.end),
                _ => runs.push(range.clone()),
            }
        }
        let read = futures::future::try_join_all(runs.iter().map(|run| self.fetch(run.clone()))).await?;
        let cut = |range: &Range<u64>| {
            let at = runs.iter().position(|run| run.start <= range.start && range.end <= run.end)?;
            let offset = |n: u64| usize::try_from(n - runs[at].start).ok();
            Some(read[at].slice(offset(range.start)?..offset(range.end)?))
        };
        let missing = || Error::internal("a range was not read").at(self.place()).hint("please report this");
        ranges.iter().map(|range| cut(range).ok_or_else(missing)).collect()
    }

    async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let missing = || Error::data("a file of the log is missing").at(self.place()).hint("somebody cleaned up, or the table is damaged");
        self.store.get_range(&self.name, range).await?.ok_or_else(missing)
    }

    fn damaged(&self, e: ParquetError) -> Error {
        if let Some(unknown) = unknown_codec(&e) {
            return unknown.at(self.place());
        }
        Error::data("this checkpoint is no readable Parquet file").because(e).at(self.place()).hint(HINT)
    }

    fn place(&self) -> String {
        format!("{}/{}", self.store.url(), self.name)
    }
}
