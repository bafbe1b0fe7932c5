//! One Parquet file, encoded row group by row group; no I/O. The bytes come out in pieces as row groups are closed.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression as Codec, Type, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, TypePtr};

use crate::datafile::nanos::{NanosColumn, Way, ways};
use crate::datafile::physical;
use crate::datafile::stats::{Gathered, chunk_cut, safe_floats};
use crate::datafile::{Compression, FileShape, WriterOptions};
use crate::error::{Error, Result};
use crate::format::ColumnStats;
use crate::schema::{DataType, Schema};

/// A row group is closed when its encoder holds so many bytes. Bounds memory, and is what a reader takes in at once.
const ROW_GROUP_BYTES: usize = 32 << 20;
/// Or so many rows.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// So many row groups a leaf goes without a dictionary after one that did not pay.
const PLAIN_GROUPS: u8 = 30;
/// Fewer values say nothing about whether a dictionary pays.
const ENOUGH_TO_TELL: u64 = 1000;
/// What an encoder holds for each leaf that its own count leaves out, measured, in bytes: pages, and an idle compressor,
const LEAF_BYTES: usize = 9 << 10;
/// and with zstd a decompressor that nobody uses.
const ZSTD_LEAF_BYTES: usize = 96 << 10;
/// What its own count has for a leaf without values, in bytes: mostly the hash table of a dictionary.
const EMPTY_LEAF_BYTES: usize = 80 << 10;
/// A leaf that holds so many bytes has compressed a page, or soon will.
const COMPRESSING: usize = 256 << 10;
/// So many leaves have room for theirs within [`ROW_GROUP_BYTES`].
const ORDINARY_LEAVES: usize = 32;
/// What a file holds for each leaf of each closed row group, until its footer is written. An estimate, in bytes.
const CHUNK_METADATA: usize = 1 << 10;
/// Pieces of about this size go to the store.
const PIECE: usize = 4 << 20;

/// What all files of one writer share.
pub(super) struct FileFormat {
    pub(super) schema: Arc<Schema>,
    pub(super) options: WriterOptions,
    /// The columns that are stored in files, and, where those are not all, their positions.
    stored: Arc<Schema>,
    positions: Option<Vec<usize>>,
    arrow: SchemaRef,
    root: TypePtr,
    properties: WriterPropertiesPtr,
    leaves: Vec<Leaf>,
    next: Mutex<Next>,
}

/// A column of the Parquet file; one column of the table has several when it is nested.
struct Leaf {
    descr: ColumnDescPtr,
    /// Position of the table's column, and is it one of types within types?
    column: usize,
    nested: bool,
    /// The way there, if it is INT96.
    way: Option<Way>,
}

/// How the leaves of the next row group are encoded. Dictionaries of leaves with hardly a value twice cost time and make files larger,
/// so a leaf where one did not pay goes without for some row groups.
struct Next {
    /// For each leaf, so many row groups are still to go without.
    plain: Vec<u8>,
    /// Which leaves `made` encodes without.
    made_plain: Vec<bool>,
    properties: WriterPropertiesPtr,
    made: Arc<ArrowRowGroupWriterFactory>,
}

impl FileFormat {
    /// `Invalid`: an option that does not fit.
    pub(super) fn new(schema: Arc<Schema>, options: WriterOptions) -> Result<FileFormat> {
        if let Some(unknown) = options.stats_of.keys().find(|name| schema.field(name).is_none()) {
            return Err(Error::invalid(format!("a statistics mode is set for `{unknown}`, which is no column")).hint("correct the option"));
        }
        if let Some(field) = schema.fields.iter().find(|f| has_empty_row(&f.data_type)) {
            let what = format!("the column `{}` holds a ROW without fields, which Parquet does not have", field.name);
            return Err(Error::invalid(what).hint("give the ROW a field"));
        }
        let (stored, positions) = stored(&schema, options.shape);
        let arrow = stored.to_arrow();
        let root = physical::root(&stored, options.shape).map_err(failed)?;
        let descr = SchemaDescriptor::new(root.clone());
        let ways = stored.fields.iter().flat_map(|f| ways(&f.data_type, f.nullable));
        let leaf = |(i, way)| {
            let column = descr.get_column_root_idx(i);
            Leaf { descr: descr.column(i), column, nested: stored.fields[column].data_type.is_nested(), way }
        };
        let leaves: Vec<Leaf> = ways.enumerate().map(leaf).collect();
        let properties = Arc::new(properties(&stored, &options, &leaves)?.build());
        let next = Next {
            plain: vec![0; leaves.len()],
            made_plain: vec![false; leaves.len()],
            made: factory(&root, &arrow, properties.clone())?,
            properties: properties.clone(),
        };
        Ok(FileFormat { schema, options, stored, positions, arrow, root, properties, leaves, next: Mutex::new(next) })
    }

    /// Encoders for the leaves of a new row group.
    fn encoders(&self) -> Result<Vec<LeafEncoder>> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let plain: Vec<bool> = next.plain.iter().map(|left| *left > 0).collect();
        if plain != next.made_plain {
            let mut changed = properties(&self.stored, &self.options, &self.leaves)?;
            for (leaf, _) in self.leaves.iter().zip(&plain).filter(|(_, plain)| **plain) {
                changed = changed.set_column_dictionary_enabled(leaf.descr.path().clone(), false);
            }
            next.properties = Arc::new(changed.build());
            next.made = factory(&self.root, &self.arrow, next.properties.clone())?;
            next.made_plain = plain;
        }
        next.plain.iter_mut().for_each(|left| *left = left.saturating_sub(1));
        // The number of the row group matters to encryption only.
        let arrow = next.made.create_column_writers(0).map_err(failed)?;
        let encoders = arrow.into_iter().zip(&self.leaves).map(|(arrow, leaf)| match &leaf.way {
            Some(way) => LeafEncoder::Nanos(NanosColumn::new(leaf.descr.clone(), next.properties.clone(), way.clone())),
            None => LeafEncoder::Arrow(arrow),
        });
        Ok(encoders.collect())
    }

    /// A dictionary did not pay for this leaf.
    fn go_plain(&self, leaf: usize) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = next.plain.get_mut(leaf) {
            *left = PLAIN_GROUPS;
        }
    }
}

/// The columns that are stored in files, with their positions where they are not all.
fn stored(schema: &Arc<Schema>, shape: FileShape) -> (Arc<Schema>, Option<Vec<usize>>) {
    if shape == FileShape::Paimon || schema.partition_by.is_empty() {
        return (schema.clone(), None);
    }
    let kept: Vec<usize> = (0..schema.fields.len()).filter(|i| !schema.partition_by.contains(&schema.fields[*i].name)).collect();
    let fields = kept.iter().map(|i| schema.fields[*i].clone()).collect();
    (Arc::new(Schema { id: schema.id, fields, partition_by: Vec::new() }), Some(kept))
}

fn has_empty_row(data_type: &DataType) -> bool {
    match data_type {
        DataType::Row(fields) => fields.is_empty() || fields.iter().any(|f| has_empty_row(&f.data_type)),
        DataType::Array(item) | DataType::Multiset(item) => has_empty_row(&item.data_type),
        DataType::Map(key, value) => has_empty_row(&key.data_type) || has_empty_row(&value.data_type),
        _ => false,
    }
}

/// One leaf of the row group that takes rows.
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
enum LeafEncoder {
    Arrow(ArrowColumnWriter),
    Nanos(NanosColumn),
}

/// An encoded leaf.
enum Chunk {
    Arrow(ArrowColumnChunk),
    Nanos(Bytes, ColumnCloseResult),
}

impl LeafEncoder {
    fn memory(&self) -> usize {
        match self {
            LeafEncoder::Arrow(writer) => writer.memory_size(),
            LeafEncoder::Nanos(column) => column.memory(),
        }
    }
    fn size(&self) -> usize {
        match self {
            LeafEncoder::Arrow(writer) => writer.get_estimated_total_bytes(),
            LeafEncoder::Nanos(column) => column.size(),
        }
    }
    fn close(self) -> Result<Chunk, ParquetError> {
        Ok(match self {
            LeafEncoder::Arrow(writer) => Chunk::Arrow(writer.close()?),
            LeafEncoder::Nanos(column) => {
                let (bytes, closed) = column.close()?;
                Chunk::Nanos(bytes, closed)
            }
        })
    }
}

impl Chunk {
    fn metadata(&mut self) -> &mut ColumnChunkMetaData {
        match self {
            Chunk::Arrow(chunk) => &mut chunk.close_mut().metadata,
            Chunk::Nanos(_, closed) => &mut closed.metadata,
        }
    }
    fn append<W: Write + Send>(self, group: &mut SerializedRowGroupWriter<'_, W>) -> Result<(), ParquetError> {
        match self {
            Chunk::Arrow(chunk) => chunk.append_to_row_group(group),
            Chunk::Nanos(bytes, closed) => group.append_column(&bytes, closed),
        }
    }
}

fn factory(root: &TypePtr, arrow: &SchemaRef, properties: WriterPropertiesPtr) -> Result<Arc<ArrowRowGroupWriterFactory>> {
    // The factory takes schema and properties from a file and nothing else, so one that goes nowhere will do.
    let nowhere = SerializedFileWriter::new(std::io::sink(), root.clone(), properties).map_err(failed)?;
    Ok(Arc::new(ArrowRowGroupWriterFactory::new(&nowhere, arrow.clone())))
}

fn properties(schema: &Schema, options: &WriterOptions, leaves: &[Leaf]) -> Result<WriterPropertiesBuilder> {
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("lakeward version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(codec(options.compression)?)
        // Bounds per column chunk serve row-group pruning and, gathered, the file's statistics; per page they would only cost.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_statistics_truncate_length(chunk_cut(schema.fields.iter().map(|f| options.stats_mode(&f.name))))
        .set_max_row_group_row_count(None);
    // Decimals too wide for an integer. Java Paimon 1.4 looks up `=` literals by their shortest bytes in a dictionary whose entries have the
    // full length, finds none and leaves out row groups that hold them.
    for leaf in leaves.iter().filter(|l| l.descr.physical_type() == Type::FIXED_LEN_BYTE_ARRAY) {
        builder = builder.set_column_dictionary_enabled(leaf.descr.path().clone(), false);
    }
    Ok(builder)
}

/// Did a dictionary make this column chunk hardly smaller than its values as they are?
fn dictionary_was_useless(chunk: &ColumnChunkMetaData) -> bool {
    let nulls = chunk.statistics().and_then(Statistics::null_count_opt).unwrap_or(0);
    let values = u64::try_from(chunk.num_values()).unwrap_or(0).saturating_sub(nulls);
    let plain = match chunk.column_type() {
        Type::BOOLEAN => return false,
        Type::INT32 | Type::FLOAT => 4 * values,
        Type::INT64 | Type::DOUBLE => 8 * values,
        Type::INT96 => 12 * values,
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(chunk.column_descr().type_length()).unwrap_or(0) * values,
        Type::BYTE_ARRAY => match chunk.unencoded_byte_array_data_bytes().map(u64::try_from) {
            Some(Ok(bytes)) => bytes + 4 * values,
            _ => return false,
        },
    };
    let encoded = u64::try_from(chunk.uncompressed_size()).unwrap_or(0);
    chunk.dictionary_page_offset().is_some() && values >= ENOUGH_TO_TELL && encoded > plain / 10 * 8
}

fn leaf_bytes(compression: Compression) -> usize {
    LEAF_BYTES + if matches!(compression, Compression::Zstd(_)) { ZSTD_LEAF_BYTES } else { 0 }
}

/// Bytes that a compressor holds from its first page on, by its level; an estimate.
fn workspace(compression: Compression) -> usize {
    match compression {
        Compression::None => 0,
        Compression::Snappy | Compression::Lz4 => 64 << 10,
        Compression::Zstd(level) => (640 << 10) << (level.max(1) / 4).min(5),
    }
}

/// Bytes of a row, on average.
pub(super) fn bytes_per_row(batch: &RecordBatch) -> usize {
    let bytes: usize = batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum();
    (bytes / batch.num_rows().max(1)).max(1)
}

fn codec(compression: Compression) -> Result<Codec> {
    Ok(match compression {
        Compression::None => Codec::UNCOMPRESSED,
        Compression::Snappy => Codec::SNAPPY,
        Compression::Lz4 => Codec::LZ4_RAW,
        Compression::Zstd(level) => Codec::ZSTD(
            ZstdLevel::try_new(level).map_err(|_| Error::invalid(format!("{level} is no zstd level")).hint("levels are 1 to 22"))?,
        ),
    })
}

fn failed(e: ParquetError) -> Error {
    Error::internal("a Parquet file could not be encoded").because(e).hint("please report this with the table's schema")
}

/// Where the encoder writes to: grows piece by piece, so that nothing is copied to grow.
#[derive(Default)]
struct Pieces {
    done: Vec<Bytes>,
    open: Vec<u8>,
}

impl Pieces {
    fn take(&mut self) -> Vec<Bytes> {
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open).into());
        }
        std::mem::take(&mut self.done)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.open.len() + bytes.len() > PIECE && !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open).into());
        }
        self.open.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One Parquet file that is being encoded.
pub(super) struct Encoder {
    format: Arc<FileFormat>,
    file: SerializedFileWriter<Pieces>,
    /// The row group that takes rows, with its number of rows.
    group: Option<(Vec<LeafEncoder>, usize)>,
    /// Of each column of the table.
    stats: Vec<Gathered>,
    rows: u64,
    /// Bytes of a row, where they were most.
    widest: usize,
}

/// A complete file.
pub(super) struct Encoded {
    /// What has not been taken yet, to the end of the file.
    pub(super) pieces: Vec<Bytes>,
    /// Of the whole file.
    pub(super) size: u64,
    pub(super) rows: u64,
    pub(super) stats: Vec<ColumnStats>,
}

impl Encoder {
    pub(super) fn new(format: &Arc<FileFormat>) -> Result<Encoder> {
        let file = SerializedFileWriter::new(Pieces::default(), format.root.clone(), format.properties.clone()).map_err(failed)?;
        let stats = format.stored.fields.iter().map(|f| Gathered::new(f, format.options.stats_mode(&f.name))).collect();
        Ok(Encoder { format: format.clone(), file, group: None, stats, rows: 0, widest: 0 })
    }

    /// Encodes rows. Closes the row group when it is full.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.group.is_none() {
            self.group = Some((self.format.encoders()?, 0));
        }
        let stored = self.format.positions.as_ref().map(|positions| batch.project(positions)).transpose()?;
        let batch = stored.as_ref().unwrap_or(batch);
        let Some((encoders, rows)) = &mut self.group else { return Ok(()) };
        let mut encoders = encoders.iter_mut();
        for ((field, array), stats) in self.format.arrow.fields().iter().zip(batch.columns()).zip(&mut self.stats) {
            if array.data_type().is_nested() {
                // What the leaves say of nulls is not what the column says.
                stats.add_nulls(array.null_count());
            }
            for leaf in compute_leaves(field, array).map_err(failed)? {
                match encoders.next() {
                    Some(LeafEncoder::Arrow(writer)) => writer.write(&leaf).map_err(failed)?,
                    Some(LeafEncoder::Nanos(column)) => column.write(array),
                    None => return Err(failed(ParquetError::General(format!("too many leaves of `{}`", field.name())))),
                }
            }
        }
        *rows += batch.num_rows();
        self.rows += batch.num_rows() as u64;
        self.widest = self.widest.max(bytes_per_row(batch));
        // What a wide table's encoders hold for nothing makes no row group full.
        let most = ROW_GROUP_BYTES + self.format.leaves.len().saturating_sub(ORDINARY_LEAVES) * EMPTY_LEAF_BYTES;
        if *rows >= ROW_GROUP_ROWS || self.counted_memory() >= most {
            self.close_group()?;
        }
        Ok(())
    }

    /// Bytes of rows for which an encoder is worth having: it holds that much for nothing.
    pub(super) fn worth(format: &FileFormat) -> usize {
        format.leaves.len() * leaf_bytes(format.options.compression)
    }

    /// Closes the row group that takes rows, if any; its bytes can be taken then.
    pub(super) fn close_group(&mut self) -> Result<()> {
        let Some((encoders, rows)) = self.group.take() else { return Ok(()) };
        let mut group = self.file.next_row_group().map_err(failed)?;
        for (i, (encoder, leaf)) in encoders.into_iter().zip(&self.format.leaves).enumerate() {
            let mut chunk = encoder.close().map_err(failed)?;
            let metadata = chunk.metadata();
            if let Some(safe) = metadata.statistics().and_then(safe_floats) {
                *metadata = metadata.clone().into_builder().set_statistics(safe).build().map_err(failed)?;
            }
            if dictionary_was_useless(metadata) {
                self.format.go_plain(i);
            }
            if !leaf.nested {
                self.stats[leaf.column].add(metadata.statistics(), rows as u64);
            }
            chunk.append(&mut group).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        Ok(())
    }

    /// Bytes of closed row groups that were not taken yet, in order.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        self.file.inner_mut().take()
    }

    /// What the encoders of the row group that takes rows count themselves.
    fn counted_memory(&self) -> usize {
        self.group.as_ref().map_or(0, |(encoders, _)| encoders.iter().map(LeafEncoder::memory).sum())
    }

    /// Bytes held by the row group that takes rows, with what its encoders do not count: their compressors, and copies of the least and
    /// the greatest value for the statistics.
    pub(super) fn group_memory(&self) -> usize {
        let Some((encoders, _)) = &self.group else { return 0 };
        let compression = self.format.options.compression;
        let (idle, workspace) = (leaf_bytes(compression), workspace(compression));
        let leaf = |encoder: &LeafEncoder| {
            let counted = encoder.memory();
            counted + idle + if counted >= COMPRESSING { workspace } else { 0 }
        };
        encoders.iter().map(leaf).sum::<usize>() + 2 * self.widest
    }

    /// Bytes held for the row groups that are closed, which stay until the file is.
    pub(super) fn closed_memory(&self) -> usize {
        self.file.flushed_row_groups().len() * self.format.leaves.len() * CHUNK_METADATA
    }

    /// What the file would have if it were closed now, without its footer: an estimate, in bytes.
    pub(super) fn size(&self) -> u64 {
        let open: usize = self.group.as_ref().map_or(0, |(encoders, _)| encoders.iter().map(LeafEncoder::size).sum());
        (self.file.bytes_written() + open) as u64
    }

    /// Closes the file.
    pub(super) fn finish(mut self) -> Result<Encoded> {
        self.close_group()?;
        self.file.finish().map_err(failed)?;
        self.file.flush().map_err(|e| failed(e.into()))?;
        let size = self.file.bytes_written() as u64;
        let pieces = self.file.inner_mut().take();
        let stats = self.stats.into_iter().filter_map(Gathered::finish).collect();
        Ok(Encoded { pieces, size, rows: self.rows, stats })
    }
}
