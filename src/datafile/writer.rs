//! [`FileWriter`]: the open files of one table and one commit user.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array as _, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use futures::{StreamExt as _, TryStreamExt as _};

use crate::datafile::check;
use crate::datafile::encode::{Encoded, Encoder, FileFormat};
use crate::datafile::partition::{Part, scalar_at, split};
use crate::datafile::{Buckets, Layout, WriterOptions};
use crate::error::{Error, Result};
use crate::format::{CommitMessage, CommitUser, DataFile};
use crate::schema::{DataType, Scalar, Schema};
use crate::store::{Store, Upload};

/// A row group smaller than this is not written on its own to save memory; whole files are closed instead.
const SMALL_ROW_GROUP: usize = 1 << 20;
/// So many files may be open at once; each costs a file descriptor or an upload.
const MAX_OPEN: usize = 256;
/// So many files are completed at once when all are closed.
const FINISH_AT_ONCE: usize = 8;

/// Writes rows into data files that nothing refers to yet, and says which files they are.
///
/// After an error other than `Invalid` from [`FileWriter::write`], and after a `write` or `prepare` that was dropped before it ended,
/// what was written is not known row by row any more: the writer refuses to go on (`Internal`). Begin again from the last checkpoint with
/// a new writer. Files of a writer that is dropped stay where they are, unreferenced.
pub struct FileWriter {
    store: Store,
    layout: Arc<dyn Layout>,
    /// `None`: a table without buckets.
    buckets: Option<Arc<dyn Buckets>>,
    user: CommitUser,
    format: Arc<FileFormat>,
    arrow: SchemaRef,
    partition_columns: Vec<usize>,
    unique: String,
    counter: u32,
    partitions: Vec<Partition>,
    by_key: HashMap<Vec<u8>, usize>,
    rows: u64,
    closed_bytes: u64,
    /// Sums over the open files, kept up to date because there may be many.
    open_bytes: u64,
    memory: usize,
    open_files: usize,
    /// Counts writes; orders files by when they were last written to.
    turn: u64,
    first_opened: Option<Duration>,
    broken: bool,
}

/// Where files lie: the values of one partition, and one bucket.
struct Partition {
    values: Vec<Option<Scalar>>,
    bucket: i32,
    open: Option<Open>,
    files: Vec<DataFile>,
}

struct Open {
    path: String,
    encoder: Encoder,
    upload: Upload,
    turn: u64,
    /// Bytes that writing the open row group would free.
    group: usize,
    /// The shares in the writer's sums.
    bytes: u64,
    memory: usize,
}

impl FileWriter {
    /// A writer of tables with this schema and without buckets. Makes no request. `Invalid`: an option that does not fit.
    pub fn new(store: Store, schema: Arc<Schema>, layout: Arc<dyn Layout>, user: CommitUser, options: WriterOptions) -> Result<FileWriter> {
        let unique = store.env().uuid().to_string();
        let (arrow, partition_columns) = (schema.to_arrow(), schema.partition_indices());
        let format = Arc::new(FileFormat::new(schema, options)?);
        Ok(FileWriter {
            store,
            layout,
            buckets: None,
            user,
            format,
            arrow,
            partition_columns,
            unique,
            counter: 0,
            partitions: Vec::new(),
            by_key: HashMap::new(),
            rows: 0,
            closed_bytes: 0,
            open_bytes: 0,
            memory: 0,
            open_files: 0,
            turn: 0,
            first_opened: None,
            broken: false,
        })
    }

    /// The same writer, of a table whose rows are spread over buckets.
    pub fn with_buckets(mut self, buckets: Arc<dyn Buckets>) -> FileWriter {
        self.buckets = Some(buckets);
        self
    }

    /// Takes rows. The batch must be in the Arrow form of the table's schema ([`Schema::to_arrow`]).
    ///
    /// `Invalid`, with nothing taken: other columns or types; at any depth a null where there may be none, a decimal with more digits, a
    /// text or bytes of another length or a time beyond the day that its type has, a map with a key twice; a partition value that cannot
    /// be a path. Digits of a timestamp beyond its type's precision are kept, as other writers of the format do.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.usable()?;
        self.check(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let parts = self.place(batch)?;
        self.broken = true;
        for (partition, part) in parts {
            self.append(partition, &part.of(batch)?).await?;
        }
        self.rows += batch.num_rows() as u64;
        self.broken = false;
        Ok(())
    }

    /// Closes all files: everything written since the last `prepare` is durable and nothing of it is visible. One message for each
    /// partition and bucket, in the order of their first rows, with files in the order of their rows; none when nothing was written.
    pub async fn prepare(&mut self) -> Result<Vec<CommitMessage>> {
        self.usable()?;
        self.broken = true;
        let mut closing = Vec::new();
        for (index, partition) in self.partitions.iter_mut().enumerate() {
            if let Some(open) = partition.open.take() {
                closing.push((index, open));
            }
        }
        let finished = futures::stream::iter(closing).map(|(index, open)| {
            let (store, schema_id) = (&self.store, self.format.schema.id);
            async move { Ok::<_, Error>((index, finish(store, schema_id, open).await?)) }
        });
        let files: Vec<(usize, DataFile)> = finished.buffered(FINISH_AT_ONCE).try_collect().await?;
        for (index, file) in files {
            self.partitions[index].files.push(file);
        }
        let user = &self.user;
        let total_buckets = self.buckets.as_ref().map_or(-1, |b| b.total());
        let messages = std::mem::take(&mut self.partitions).into_iter().filter(|p| !p.files.is_empty()).map(|p| CommitMessage {
            version: CommitMessage::VERSION,
            user: user.clone(),
            partition: p.values,
            bucket: p.bucket,
            total_buckets,
            files: p.files,
        });
        let messages = messages.collect();
        self.by_key.clear();
        (self.rows, self.closed_bytes, self.open_bytes, self.memory, self.open_files) = (0, 0, 0, 0, 0);
        self.first_opened = None;
        self.broken = false;
        Ok(messages)
    }

    /// Rows since the last `prepare`.
    pub fn rows(&self) -> u64 {
        self.rows
    }
    /// Bytes of the files since the last `prepare`: true ones of closed files, an estimate for open ones.
    pub fn bytes(&self) -> u64 {
        self.closed_bytes + self.open_bytes
    }
    /// Bytes that the open files hold in memory, in their row groups and on their way to the store.
    pub fn memory(&self) -> usize {
        self.memory
    }
    /// When the oldest file that no `prepare` has handed out yet was opened: monotonic time of this process, see
    /// [`crate::Env::monotonic`]. `None`: there is none.
    pub fn oldest_since(&self) -> Option<Duration> {
        self.first_opened
    }
    /// The commit user that messages carry.
    pub fn user(&self) -> &CommitUser {
        &self.user
    }

    fn usable(&self) -> Result<()> {
        if self.broken {
            let hint = "go back to the last checkpoint and begin again with a new writer";
            return Err(Error::internal("this writer failed before, and what it wrote is not known any more")
                .at(self.store.url())
                .hint(hint));
        }
        Ok(())
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema_ref();
        if schema.fields().len() != self.arrow.fields().len() {
            let what = format!("a batch has {} columns, the table has {}", schema.fields().len(), self.arrow.fields().len());
            return Err(Error::invalid(what).at(self.store.url()).hint("write batches in the table's Arrow schema"));
        }
        for (i, column) in self.format.schema.fields.iter().enumerate() {
            let (got, want) = (schema.field(i), self.arrow.field(i));
            if got.name() != want.name() || got.data_type() != want.data_type() {
                let what = format!(
                    "column {i} of a batch is `{}` {}, the table has `{}` {}",
                    got.name(),
                    got.data_type(),
                    want.name(),
                    want.data_type()
                );
                return Err(Error::invalid(what).at(self.store.url()).hint("write batches in the table's Arrow schema"));
            }
            check::column(column, batch.column(i)).map_err(|e| e.at(self.store.url()))?;
        }
        Ok(())
    }

    /// Finds the partition and bucket of each part of a batch; new ones are added, after their values are known to make a path.
    fn place(&mut self, batch: &RecordBatch) -> Result<Vec<(usize, Part)>> {
        let format = self.format.clone();
        let types: Vec<&DataType> = self.partition_columns.iter().map(|i| &format.schema.fields[*i].data_type).collect();
        let columns: Vec<ArrayRef> = self.partition_columns.iter().map(|i| batch.column(*i).clone()).collect();
        let buckets = self.buckets.as_ref().map(|b| b.assign(batch)).transpose()?;
        let mut placed = Vec::new();
        for part in split(&types, &columns, buckets.as_deref(), batch.num_rows())? {
            let index = match self.by_key.get(&part.key) {
                Some(index) => *index,
                None => {
                    let values = types.iter().zip(&columns).map(|(t, c)| scalar_at(t, c, part.row)).collect::<Result<Vec<_>>>()?;
                    self.layout.file_path(&values, part.bucket, &self.unique, self.counter)?;
                    self.partitions.push(Partition { values, bucket: part.bucket, open: None, files: Vec::new() });
                    self.by_key.insert(part.key.clone(), self.partitions.len() - 1);
                    self.partitions.len() - 1
                }
            };
            placed.push((index, part));
        }
        Ok(placed)
    }

    /// Writes the rows of one partition, in steps small enough that the limits on row groups, files and memory are kept.
    async fn append(&mut self, index: usize, batch: &RecordBatch) -> Result<()> {
        let step = self.rows_per_step(batch);
        let mut from = 0;
        while from < batch.num_rows() {
            let rows = step.min(batch.num_rows() - from);
            let mut open = match self.partitions[index].open.take() {
                Some(open) => open,
                None => self.open(index).await?,
            };
            self.turn += 1;
            open.turn = self.turn;
            open.encoder.write(&batch.slice(from, rows))?;
            for piece in open.encoder.take() {
                open.upload.write(piece).await?;
            }
            let full = self.account(&mut open) >= self.format.options.target_file_size;
            self.partitions[index].open = Some(open);
            if full {
                self.close(index).await?;
            }
            self.make_room().await?;
            from += rows;
        }
        Ok(())
    }

    fn rows_per_step(&self, batch: &RecordBatch) -> usize {
        let bytes: usize = batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum();
        let options = &self.format.options;
        let least = usize::try_from(options.target_file_size).unwrap_or(usize::MAX).min(options.memory);
        let wanted = (least / 8).clamp(64 << 10, 2 << 20);
        let per_row = (bytes / batch.num_rows().max(1)).max(1);
        (wanted / per_row).clamp(1, 1 << 16)
    }

    /// Brings the sums up to date after a change to an open file. The file's size so far, an estimate.
    fn account(&mut self, open: &mut Open) -> u64 {
        let (bytes, group) = (open.encoder.size(), open.encoder.memory());
        let memory = group + open.upload.buffered();
        self.open_bytes = self.open_bytes - open.bytes + bytes;
        self.memory = self.memory - open.memory + memory;
        (open.bytes, open.group, open.memory) = (bytes, group, memory);
        bytes
    }

    async fn open(&mut self, index: usize) -> Result<Open> {
        while self.open_files >= MAX_OPEN {
            let Some(oldest) = self.least_recent() else { break };
            self.close(oldest).await?;
        }
        let partition = &self.partitions[index];
        let path = self.layout.file_path(&partition.values, partition.bucket, &self.unique, self.counter)?;
        self.counter = self.counter.wrapping_add(1);
        if self.counter == 0 {
            self.unique = self.store.env().uuid().to_string();
        }
        let upload = self.store.upload(&path).await?;
        tracing::debug!("opened {path}");
        self.open_files += 1;
        self.first_opened.get_or_insert(self.store.env().monotonic());
        Ok(Open { path, encoder: Encoder::new(&self.format)?, upload, turn: 0, group: 0, bytes: 0, memory: 0 })
    }

    async fn close(&mut self, index: usize) -> Result<()> {
        let Some(open) = self.partitions[index].open.take() else { return Ok(()) };
        self.open_files -= 1;
        self.open_bytes -= open.bytes;
        self.memory -= open.memory;
        let file = finish(&self.store, self.format.schema.id, open).await?;
        self.closed_bytes += file.size;
        self.partitions[index].files.push(file);
        Ok(())
    }

    /// Keeps the memory budget: the largest row group goes out as it is, unless even that one is small; then whole files are closed,
    /// beginning with the one that was not written to for the longest time.
    async fn make_room(&mut self) -> Result<()> {
        while self.memory > self.format.options.memory {
            let open = self.partitions.iter().enumerate().filter_map(|(i, p)| Some((p.open.as_ref()?.group, i)));
            match open.max() {
                Some((group, index)) if group >= SMALL_ROW_GROUP.min(self.format.options.memory / 2).max(1) => {
                    let Some(mut open) = self.partitions[index].open.take() else { break };
                    open.encoder.close_group()?;
                    for piece in open.encoder.take() {
                        open.upload.write(piece).await?;
                    }
                    self.account(&mut open);
                    self.partitions[index].open = Some(open);
                }
                _ => {
                    let Some(oldest) = self.least_recent() else { break };
                    self.close(oldest).await?;
                }
            }
        }
        Ok(())
    }

    fn least_recent(&self) -> Option<usize> {
        let open = self.partitions.iter().enumerate().filter_map(|(i, p)| Some((p.open.as_ref()?.turn, i)));
        open.min().map(|(_, index)| index)
    }
}

/// Completes a file.
async fn finish(store: &Store, schema_id: u64, open: Open) -> Result<DataFile> {
    let Open { path, encoder, mut upload, .. } = open;
    let Encoded { pieces, size, rows, stats } = encoder.finish()?;
    for piece in pieces {
        upload.write(piece).await?;
    }
    let stored = upload.finish().await?;
    if stored != size {
        let what = format!("{size} bytes were written and the store says {stored}");
        return Err(Error::internal(what).at(format!("{}/{path}", store.url())).hint("please report this"));
    }
    Ok(DataFile { path, size, rows, schema_id, created_ms: store.env().now_ms(), stats })
}
