//! Reading a table: [`Table::scan`].

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::stream::BoxStream;

use crate::condition::Condition;
use crate::error::{Kind, Result};
use crate::format::Format;
use crate::format::delta::action::Add;
use crate::format::delta::partition;
use crate::format::paimon::log::{PartitionRange, Picked, Wanted};
use crate::schema::{Scalar, Schema};
use crate::table::at::At;
use crate::table::log::Log;
use crate::table::scan::{Origin, Rows, Scan, ScanFile};
use crate::table::{Native, SnapshotView, Table};

/// How often the newest snapshot is looked for again when it expires while its manifests are read.
const AGAIN: u32 = 4;

impl Table {
    /// Begins to read the table: which columns, which rows, as of when.
    ///
    /// Columns are those of the newest schema, or, as of an earlier snapshot, tag or time, those that the table had then. They are matched
    /// by field id, so a column that was renamed has its values and one that was added later is null where it was not; a widened one
    /// (`INT` to `BIGINT`, `FLOAT` to `DOUBLE`, ...) is widened in old files.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow::array::{Int64Array, RecordBatch, StringArray};
    /// # use lakeward::schema::Field;
    /// # use lakeward::table::{CommitUser, TableSpec};
    /// use futures::TryStreamExt as _;
    /// use lakeward::condition::{Condition, col};
    /// use lakeward::table::{At, Table};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lakeward::Result<()> {
    /// # let spec = TableSpec::paimon([Field::parse(0, "id", "BIGINT NOT NULL")?, Field::parse(1, "dt", "STRING")?]).partition_by(["dt"]);
    /// # let table = Table::open_or_create("memory://shop/orders", spec).await?;
    /// # let user = CommitUser::new("doc");
    /// # let mut write = table.new_write(&user)?;
    /// # let ids = Arc::new(Int64Array::from(vec![1, 2, 3]));
    /// # let days = Arc::new(StringArray::from(vec!["2026-01-01", "2026-01-02", "2026-01-02"]));
    /// # write.write(&RecordBatch::try_new(table.schema().to_arrow(), vec![ids, days]).unwrap()).await?;
    /// # table.new_commit(&user).commit(1, write.prepare_commit().await?).await?;
    /// let scan = table.scan().select(["id"]).filter(col("dt").eq("2026-01-02").and(col("id").gt(2)));
    /// let batches: Vec<RecordBatch> = scan.stream().await?.try_collect().await?;
    /// assert_eq!(batches[0].num_rows(), 1);
    ///
    /// // The same as text, as of a snapshot; counted.
    /// let written = Condition::parse("dt = '2026-01-02' and id > 2")?;
    /// assert_eq!(table.scan().filter(written).at(At::Snapshot(1)).count().await?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan(&self) -> TableScan {
        TableScan { table: self.clone(), columns: None, conditions: Vec::new(), at: At::Newest, limit: None }
    }
}

/// What to read of a table; see [`Table::scan`]. Nothing is read, and nothing is checked, before one of the asynchronous methods is called.
#[derive(Clone, Debug)]
pub struct TableScan {
    table: Table,
    columns: Option<Vec<String>>,
    conditions: Vec<Condition>,
    at: At,
    limit: Option<u64>,
}

impl TableScan {
    /// Only these columns, in this order.
    pub fn select<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> TableScan {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Only rows for which this is true; called again: and this too. A comparison with null is not true; NaN equals itself and is above
    /// every other number; -0.0 equals 0.0; texts compare by code points. Of nested columns only `is [not] null` can be asked.
    pub fn filter(mut self, condition: Condition) -> TableScan {
        self.conditions.push(condition);
        self
    }

    /// As of a snapshot, a tag or a time.
    pub fn at(mut self, at: At) -> TableScan {
        self.at = at;
        self
    }

    /// At most so many rows.
    pub fn limit(mut self, rows: u64) -> TableScan {
        self.limit = Some(rows);
        self
    }

    /// Finds the files to read. `Invalid`: there is no such snapshot, tag or column, or a value in a condition does not fit its column.
    /// `Invalid` too: an option of the table, or a file, cannot be read. `Unavailable`: the snapshot expired meanwhile. `Data`: the table is
    /// damaged.
    pub async fn plan(&self) -> Result<Plan> {
        for attempt in 1.. {
            let snapshot = self.table.snapshot_at(&self.at).await?;
            let (scan, partitioned) = self.scan(snapshot.as_ref()).await?;
            let Some(snapshot) = snapshot else { return Ok(Plan { scan, picked: Picked::default(), files: Vec::new(), snapshot: None }) };
            let (object, name) = self.table.keeper(&self.at, &snapshot);
            match self.files(&snapshot, &scan, &partitioned).await {
                Ok((picked, files)) => {
                    let scan = scan.of(Some(Origin { object, name }));
                    return Ok(Plan { scan, picked, files, snapshot: Some(snapshot) });
                }
                Err(e) if self.table.store().size(&object).await?.is_none() => {
                    if self.at == At::Newest && attempt < AGAIN {
                        continue;
                    }
                    return Err(expired(&name, e).at(self.table.url()));
                }
                Err(e) => return Err(e),
            }
        }
        Err(crate::Error::internal("a scan was planned endlessly").hint("please report this"))
    }

    /// What is asked, by the columns that the table had then; and those columns.
    async fn scan(&self, snapshot: Option<&SnapshotView>) -> Result<(Scan, Arc<Schema>)> {
        let (schema, old) = match (&self.table.log, snapshot.map(|s| &s.native)) {
            (Log::Paimon(log), native) => {
                let schema = match native {
                    Some(Native::Paimon(snapshot)) if self.at != At::Newest => log.schema_of(snapshot.schema_id).await?,
                    _ => log.schema(),
                };
                let old = log.schemas().await?.into_iter().map(|s| s.schema.clone()).collect();
                (schema.schema.clone(), old)
            }
            (Log::Delta(log), None) => (log.current().schema.schema.clone(), Vec::new()),
            (Log::Delta(_), Some(_)) => {
                let state = match snapshot {
                    Some(snapshot) => self.table.delta_state(snapshot).await?,
                    None => return Err(crate::Error::internal("a version without a version")),
                };
                (state.schema.schema.clone(), Vec::new())
            }
        };
        let mut scan = Scan::new(self.table.store().clone(), schema.clone(), old).limit(self.limit);
        if self.table.format() == Format::Delta {
            scan = scan.with_partitions_from_the_log();
        }
        for condition in &self.conditions {
            scan = scan.filter(condition)?;
        }
        if let Some(columns) = &self.columns {
            scan = scan.select(columns)?;
        }
        Ok((scan, schema))
    }

    /// The files of a snapshot whose partitions may hold what is asked.
    async fn files(&self, snapshot: &SnapshotView, scan: &Scan, schema: &Arc<Schema>) -> Result<(Picked, Vec<ScanFile>)> {
        match (&self.table.log, &snapshot.native) {
            (Log::Paimon(log), Native::Paimon(native)) => {
                let mut picked = log.pick_files(native, &Partitions(scan)).await?;
                log.check_readable(native, &picked.files).await?;
                let files = std::mem::take(&mut picked.files).into_iter().map(ScanFile::from).collect();
                Ok((picked, files))
            }
            (Log::Delta(log), _) => {
                // A value that cannot be read is told of when the file's turn comes.
                let may = |add: &Add| {
                    let values = partition::scalars(schema, &add.partition_values);
                    values.and_then(|values| scan.may_hold_partition(&values)).unwrap_or(true)
                };
                let adds = log.live_files(snapshot.id, &may).await?;
                Ok((Picked::default(), self.table.delta_files(adds, schema).await?))
            }
            (Log::Paimon(_), Native::Delta(_)) => Err(crate::Error::internal("a version of a Delta table was taken for a Paimon snapshot")),
        }
    }

    /// The rows, batch by batch; see [`Rows::next`].
    pub async fn rows(&self) -> Result<Rows> {
        self.plan().await?.rows()
    }

    /// The rows as a stream of batches; it ends after the first error.
    pub async fn stream(&self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        Ok(self.rows().await?.into_stream())
    }

    /// How many rows there are. Files for which partitions or statistics decide are not opened.
    pub async fn count(&self) -> Result<u64> {
        self.plan().await?.count().await
    }
}

fn expired(name: &str, e: crate::Error) -> crate::Error {
    crate::Error::new(Kind::Unavailable, format!("{name} expired while it was read"))
        .because(e)
        .hint("read a newer snapshot; a tag keeps one from expiring")
}

/// What a scan reads.
#[derive(Clone, Debug)]
pub struct Plan {
    scan: Scan,
    picked: Picked,
    files: Vec<ScanFile>,
    snapshot: Option<SnapshotView>,
}

impl Plan {
    /// The snapshot that is read; none: the table has none.
    pub fn snapshot(&self) -> Option<&SnapshotView> {
        self.snapshot.as_ref()
    }
    /// The files whose partition and statistics do not rule them out.
    pub fn files(&self) -> Result<Vec<&ScanFile>> {
        self.files.iter().filter_map(|f| self.scan.may_hold(f).map(|may| may.then_some(f)).transpose()).collect()
    }
    /// Manifests that were read, and those that were not because of their partitions.
    pub fn manifests(&self) -> (u64, u64) {
        (self.picked.manifests, self.picked.manifests_skipped)
    }
    /// The Arrow schema of the batches.
    pub fn arrow_schema(&self) -> arrow::datatypes::SchemaRef {
        self.scan.arrow_schema()
    }
    /// The columns that the table had then.
    pub fn schema(&self) -> &Arc<Schema> {
        self.scan.schema()
    }
    /// Only the files for which `keep` is true.
    pub fn only(mut self, keep: impl Fn(&ScanFile) -> bool) -> Plan {
        self.files.retain(|f| keep(f));
        self
    }
    /// The rows, batch by batch. They may be read again.
    pub fn rows(&self) -> Result<Rows> {
        self.scan.read(self.files.clone())
    }
    /// How many rows there are.
    pub async fn count(&self) -> Result<u64> {
        self.scan.count(self.files.clone()).await
    }
}

/// What a scan says of partitions.
struct Partitions<'a>(&'a Scan);

impl Wanted for Partitions<'_> {
    fn manifest(&self, ranges: &[PartitionRange], entries: u64) -> bool {
        self.0.may_hold_partitions(ranges, entries)
    }
    fn partition(&self, partition: &[Option<Scalar>]) -> Result<bool> {
        self.0.may_hold_partition(partition)
    }
    fn stats(&self) -> bool {
        self.0.needs_stats()
    }
}
