//! Writing rows into data files, until they are prepared for a commit.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, new_null_array};

use crate::datafile::FileWriter;
use crate::error::{Error, Result};
use crate::format::paimon::bucket::FixedBuckets;
use crate::format::{CommitMessage, CommitUser};
use crate::schema::Schema;
use crate::table::Table;

/// What open files may hold together when nobody says otherwise, bytes.
const MEMORY: usize = 256 << 20;

/// Turns batches into data files. Nothing of it is visible before its messages are committed.
pub struct TableWrite {
    files: FileWriter,
    schema: Arc<Schema>,
}

impl TableWrite {
    pub(crate) fn new(table: &Table, user: &CommitUser, memory: Option<usize>) -> Result<TableWrite> {
        let newest = table.log.schema();
        let options = newest.options.writer_options(&table.schema, memory.unwrap_or(MEMORY));
        let buckets = FixedBuckets::of(&table.schema, newest.options.buckets.as_ref())?;
        let layout = Arc::new(table.log.layout());
        let files = FileWriter::new(table.store.clone(), table.schema.clone(), layout, user.clone(), options)?;
        let files = match buckets {
            Some(buckets) => files.with_buckets(buckets),
            None => files,
        };
        Ok(TableWrite { files, schema: table.schema.clone() })
    }

    /// Takes rows. Columns are matched by name; a nullable column that the batch lacks becomes null, a column that the table lacks is
    /// `Invalid`.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self.aligned(batch)? {
            Some(aligned) => self.files.write(&aligned).await,
            None => self.files.write(batch).await,
        }
    }

    /// Closes all files. What it returns is durable, invisible, and may be committed by the user that the writer was made for.
    /// Empty when nothing was written.
    pub async fn prepare_commit(&mut self) -> Result<Vec<CommitMessage>> {
        self.files.prepare().await
    }

    /// Rows since the last [`TableWrite::prepare_commit`].
    pub fn rows(&self) -> u64 {
        self.files.rows()
    }
    /// Bytes of data files since the last [`TableWrite::prepare_commit`], those still in memory estimated.
    pub fn bytes(&self) -> u64 {
        self.files.bytes()
    }

    /// None: the batch is in the table's schema as it is.
    fn aligned(&self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let wanted = self.schema.to_arrow();
        if batch.schema_ref() == &wanted {
            return Ok(None);
        }
        if let Some(extra) = batch.schema_ref().fields().iter().find(|f| self.schema.field(f.name()).is_none()) {
            return Err(Error::invalid(format!("the table has no column `{}`", extra.name())));
        }
        let columns = wanted.fields().iter().map(|field| -> Result<ArrayRef> {
            match batch.column_by_name(field.name()) {
                Some(column) if column.data_type() == field.data_type() => Ok(column.clone()),
                Some(column) => Err(Error::invalid(format!(
                    "column `{}` is {} in the batch and {} in the table",
                    field.name(),
                    column.data_type(),
                    field.data_type()
                ))),
                None if field.is_nullable() => Ok(new_null_array(field.data_type(), batch.num_rows())),
                None => Err(Error::invalid(format!("the batch has no column `{}`, which is NOT NULL", field.name()))),
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new(wanted, columns).map_err(|e| Error::invalid("the batch does not fit the table").because(e))?;
        Ok(Some(batch))
    }
}
