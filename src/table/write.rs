//! Writing rows into data files, until they are prepared for a commit.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, RecordBatch, new_null_array};

use crate::datafile::{FileWriter, check_column};
use crate::error::{Error, Result};
use crate::format::{CommitMessage, CommitUser};
use crate::schema::{DataType, Field, Schema};
use crate::table::Table;
use crate::table::scan::shape::{self, Misfit};

/// What open files may hold together when nobody says otherwise, bytes.
const MEMORY: usize = 256 << 20;

/// Turns batches into data files. Nothing of it is visible before its messages are committed.
pub struct TableWrite {
    files: FileWriter,
    schema: Arc<Schema>,
}

impl TableWrite {
    pub(crate) fn new(table: &Table, user: &CommitUser, memory: Option<usize>) -> Result<TableWrite> {
        table.check_writable()?;
        let options = table.log.writer_options(&table.schema, memory.unwrap_or(MEMORY))?;
        let files = FileWriter::new(table.store.clone(), table.schema.clone(), table.layout(), user.clone(), options)?;
        let files = match table.log.buckets(&table.schema)? {
            Some(buckets) => files.with_buckets(buckets),
            None => files,
        };
        Ok(TableWrite { files, schema: table.schema.clone() })
    }

    /// Takes rows. Columns are matched by name, and so are the fields of a ROW; what is nullable and the batch lacks becomes null, what
    /// the table lacks is `Invalid`. How lists and maps name what is inside of them, and whether their types allow nulls, does not matter;
    /// a null that the table does not allow is `Invalid`.
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
                Some(column) => renamed(column, self.schema.field(field.name())),
                None if field.is_nullable() => Ok(new_null_array(field.data_type(), batch.num_rows())),
                None => Err(Error::invalid(format!("the batch has no column `{}`, which is NOT NULL", field.name()))),
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        // Arrow would refuse nulls without saying where they are.
        for (column, array) in self.schema.fields.iter().zip(&columns).filter(|(c, a)| !c.nullable && a.null_count() > 0) {
            check_column(column, array)?;
        }
        let batch = RecordBatch::try_new(wanted, columns).map_err(|e| Error::invalid("the batch does not fit the table").because(e))?;
        Ok(Some(batch))
    }
}

/// The array with the names and the nullability that the column has inside of its type. Nulls are looked for in between, because Arrow would
/// refuse them without saying where they are.
fn renamed(array: &ArrayRef, column: Option<&Field>) -> Result<ArrayRef> {
    let column = column.ok_or_else(|| Error::internal("a column of the table is not in its schema"))?;
    let loose = Field { data_type: shape::loose(&column.data_type), ..column.clone() };
    let fits = |array: &ArrayRef, old: &DataType, new: &Field| {
        shape::shaped(array, old, new, shape::From::Batch).map_err(|Misfit { path, want, got, because }| {
            let wrong = Error::invalid(format!("column `{path}` is {got} in the batch and {want} in the table"))
                .hint("write batches in the table's Arrow schema; names inside of lists and maps do not matter");
            match because {
                Some(e) => wrong.because(e),
                None => wrong,
            }
        })
    };
    let array = fits(array, &loose.data_type, &loose)?;
    check_column(column, &array)?;
    fits(&array, &loose.data_type, column)
}

#[cfg(test)]
mod tests;
