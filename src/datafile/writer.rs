//! [`FileWriter`]: the open files of one table and one commit user.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;

use crate::datafile::check;
use crate::datafile::encode::FileFormat;
use crate::datafile::open::Open;
use crate::datafile::partition::{Part, scalar_at, split};
use crate::datafile::staged::Staged;
use crate::datafile::{Buckets, Layout, WriterOptions};
use crate::error::{Error, Result};
use crate::format::{CommitMessage, CommitUser, DataFile};
use crate::schema::{DataType, Scalar, Schema};
use crate::store::Store;

/// Writes rows into data files that nothing refers to yet, and says which files they are.
///
/// After an error other than `Invalid` from [`FileWriter::write`], and after a `write` or `prepare` that was dropped before it ended,
/// what was written is not known row by row any more: the writer refuses to go on (`Internal`). Begin again from the last checkpoint with
/// a new writer. Files of a writer that is dropped stay where they are, unreferenced.
pub struct FileWriter {
    pub(super) store: Store,
    pub(super) layout: Arc<dyn Layout>,
    /// `None`: a table without buckets.
    pub(super) buckets: Option<Arc<dyn Buckets>>,
    user: CommitUser,
    pub(super) format: Arc<FileFormat>,
    pub(super) arrow: SchemaRef,
    pub(super) partition_columns: Vec<usize>,
    pub(super) unique: String,
    pub(super) counter: u32,
    pub(super) partitions: Vec<Partition>,
    by_key: HashMap<Vec<u8>, usize>,
    /// Rows of partitions that have too few for an open file.
    pub(super) staged: Staged,
    rows: u64,
    pub(super) closed_bytes: u64,
    /// Sums over the open files, kept up to date because there may be many.
    pub(super) open_bytes: u64,
    pub(super) open_memory: usize,
    pub(super) open_files: usize,
    /// Counts writes; orders partitions by when they were last written to.
    pub(super) turn: u64,
    pub(super) first_opened: Option<Duration>,
    broken: bool,
}

/// Where files lie: the values of one partition, and one bucket.
pub(super) struct Partition {
    pub(super) values: Vec<Option<Scalar>>,
    pub(super) bucket: i32,
    pub(super) turn: u64,
    pub(super) open: Option<Open>,
    pub(super) files: Vec<DataFile>,
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
            staged: Staged::default(),
            rows: 0,
            closed_bytes: 0,
            open_bytes: 0,
            open_memory: 0,
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
        self.spread(batch, parts).await?;
        self.rows += batch.num_rows() as u64;
        self.broken = false;
        Ok(())
    }

    /// Closes all files: everything written since the last `prepare` is durable and nothing of it is visible. One message for each
    /// partition and bucket, in the order of their first rows, with files in the order of their rows; none when nothing was written.
    pub async fn prepare(&mut self) -> Result<Vec<CommitMessage>> {
        self.usable()?;
        self.broken = true;
        self.close_all().await?;
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
        (self.rows, self.closed_bytes) = (0, 0);
        self.first_opened = None;
        self.broken = false;
        Ok(messages)
    }

    /// Rows since the last `prepare`.
    pub fn rows(&self) -> u64 {
        self.rows
    }
    /// Bytes of the files since the last `prepare`: true ones of closed files, an estimate for open ones and for rows that wait.
    pub fn bytes(&self) -> u64 {
        self.closed_bytes + self.open_bytes + self.staged.bytes() as u64
    }
    /// Bytes in memory: rows that wait for a file, and what open files hold in their row groups and on their way to the store.
    pub fn memory(&self) -> usize {
        self.open_memory + self.staged.memory()
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
                    self.partitions.push(Partition { values, bucket: part.bucket, turn: 0, open: None, files: Vec::new() });
                    self.by_key.insert(part.key.clone(), self.partitions.len() - 1);
                    self.partitions.len() - 1
                }
            };
            placed.push((index, part));
        }
        Ok(placed)
    }
}
