//! Tables: open or create one, write to it, commit to it, read it. The same for every format.

mod anchor;
mod at;
pub(crate) mod commit;
pub mod decide;
mod history;
mod log;
mod read;
pub mod scan;
mod two_phase;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use self::at::At;
pub use self::history::{Native, SnapshotView};
pub use self::read::{Plan, TableScan};
pub use self::two_phase::{Filtered, TableCommit};
pub use self::write::TableWrite;
pub use crate::format::{ColumnStats, CommitMessage, CommitUser, Committable, DataFile, Digest, END_OF_INPUT, Floor, Format};

use crate::datafile::Layout;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::format::SnapshotLog;
use crate::format::delta::log::{self as delta, DeltaLog};
use crate::format::paimon::{self, log::PaimonLog, options::TableOptions};
use crate::schema::{Field, Schema};
use crate::store::{Store, StoreOptions};
use crate::table::log::Log;

/// What a new table looks like.
#[derive(Clone, Debug)]
pub struct TableSpec {
    format: Format,
    fields: Vec<Field>,
    partition_by: Vec<String>,
    options: BTreeMap<String, String>,
}

impl TableSpec {
    /// A table of this format with these columns.
    pub fn new(format: Format, fields: impl IntoIterator<Item = Field>) -> Self {
        TableSpec { format, fields: fields.into_iter().collect(), partition_by: Vec::new(), options: BTreeMap::new() }
    }
    /// An Apache Paimon append table with these columns.
    pub fn paimon(fields: impl IntoIterator<Item = Field>) -> Self {
        TableSpec::new(Format::Paimon, fields)
    }
    /// A Delta Lake table with these columns. Delta keeps some types as wider ones: `TIMESTAMP(3)` as `TIMESTAMP(6)`, `BINARY(n)` as `BYTES`.
    pub fn delta(fields: impl IntoIterator<Item = Field>) -> Self {
        TableSpec::new(Format::Delta, fields)
    }
    /// Partitioned by these columns, in this order.
    pub fn partition_by<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.partition_by = columns.into_iter().map(Into::into).collect();
        self
    }
    /// The format's own table options.
    pub fn options(mut self, options: BTreeMap<String, String>) -> Self {
        self.options = options;
        self
    }
    /// The schema that the table would have: field ids are given in order from 0, types are those that the format keeps. `Invalid`: the
    /// format has no such type.
    pub fn schema(&self) -> Result<Schema> {
        match self.format {
            Format::Paimon => Ok(self.numbered()),
            Format::Delta => delta::kept(&self.numbered()),
        }
    }
    fn numbered(&self) -> Schema {
        let fields = (0..).zip(&self.fields).map(|(id, f)| Field { id, ..f.clone() }).collect();
        Schema { id: 0, fields, partition_by: self.partition_by.clone() }
    }
    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }
    /// `Invalid` when no table can be made of it.
    pub fn check(&self) -> Result<()> {
        if self.format == Format::Delta {
            return delta::create::check_new(&self.numbered(), &self.options);
        }
        let columns = self.numbered();
        columns.check_new()?;
        TableOptions::check_new(&self.options)?;
        let options = TableOptions::parse(&self.options, paimon::schema::VERSION)?;
        options.check_writable().and_then(|()| options.check_readable())?;
        paimon::schema::check_layout(&columns, &options)
    }
    /// The format's own table options.
    pub fn table_options(&self) -> &BTreeMap<String, String> {
        &self.options
    }
}

/// A table. Cheap to clone.
#[derive(Clone)]
pub struct Table {
    store: Store,
    log: Log,
    schema: Arc<Schema>,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.url())
    }
}

impl Table {
    /// Opens the table at `location`; `Invalid` when there is none, when it holds something that is not supported (by its name), or
    /// when it was written by a newer version. A table that can only be read is refused when it is written to, by
    /// [`Table::check_writable`].
    pub async fn open(location: &str) -> Result<Table> {
        Table::open_in(Store::open(location, &Env::real(), StoreOptions::default())?).await
    }
    /// Opens the table in a store.
    pub async fn open_in(store: Store) -> Result<Table> {
        let none = || {
            Error::invalid("there is no table here: no Paimon schema/schema-0 and no Delta _delta_log")
                .at(store.url())
                .hint("check the location, or create the table first")
        };
        Table::open_if_exists(store.clone()).await?.ok_or_else(none)
    }
    /// Opens the table, or creates it when nothing is there. An existing table must have the columns of `spec`, by name and type, and its
    /// partition columns; options of an existing table stay as they are.
    pub async fn open_or_create(location: &str, spec: TableSpec) -> Result<Table> {
        Table::open_or_create_in(Store::open(location, &Env::real(), StoreOptions::default())?, &spec).await
    }
    /// [`Table::open_or_create`] in a store.
    pub async fn open_or_create_in(store: Store, spec: &TableSpec) -> Result<Table> {
        let table = match Table::open_if_exists(store.clone()).await? {
            Some(table) => table,
            None => Table::create_in(store, spec).await?,
        };
        table.fits(spec)?;
        Ok(table)
    }
    /// Opens the table; none when nothing is there.
    pub async fn open_if_exists(store: Store) -> Result<Option<Table>> {
        Ok(Log::find(&store).await?.map(|log| Table::over(store, log)))
    }
    /// Creates the table; when somebody else creates it at the same moment, that one is opened.
    pub async fn create_in(store: Store, spec: &TableSpec) -> Result<Table> {
        let log = Log::create(&store, spec).await?;
        Ok(Table::over(store, log))
    }

    fn over(store: Store, log: Log) -> Table {
        let schema = log.schema();
        Table { store, log, schema }
    }

    /// `Invalid` when nothing can be written to this table, by the name of the option that forbids it.
    pub fn check_writable(&self) -> Result<()> {
        self.log.check_writable().map_err(|e| if e.place().is_none() { e.at(self.url()) } else { e })
    }
    /// `Invalid` when nothing can be written to this table, or rows of `spec` do not fit it: by the column's name, and what to do.
    pub fn fits(&self, spec: &TableSpec) -> Result<()> {
        self.check_writable()?;
        let names = |list: &[String]| if list.is_empty() { "nothing".to_owned() } else { format!("`{}`", list.join(", ")) };
        let differs = |what: String, hint: &str| Err(Error::invalid(what).at(self.url()).hint(hint));
        if spec.format != self.format() {
            return differs(
                format!("this is a {} table, and `format` says {}", self.format(), spec.format),
                "write the table's format, or use another location",
            );
        }
        let columns = spec.schema()?;
        for wanted in &columns.fields {
            match self.schema.field(&wanted.name) {
                None => {
                    return differs(
                        format!("the table has no column `{}`", wanted.name),
                        "add the column to the table, or take it out of `columns`",
                    );
                }
                Some(has) if !has.data_type.is_same(&wanted.data_type) || has.nullable != wanted.nullable => {
                    return differs(
                        format!("column `{}` is {} in the table and {} in `columns`", wanted.name, has.type_text(), wanted.type_text()),
                        "write the table's type in `columns`",
                    );
                }
                Some(_) => {}
            }
        }
        for has in &self.schema.fields {
            if !has.nullable && !spec.fields.iter().any(|f| f.name == has.name) {
                return differs(
                    format!("the table's column `{}` is NOT NULL and is not in `columns`", has.name),
                    "give the column a source in `columns`",
                );
            }
        }
        if self.schema.partition_by != spec.partition_by {
            return differs(
                format!(
                    "the table is partitioned by {}, and `partition_by` says {}",
                    names(&self.schema.partition_by),
                    names(&spec.partition_by)
                ),
                "a table's partition columns never change: write them as they are, or use a new table",
            );
        }
        Ok(())
    }

    /// The absolute location.
    pub fn url(&self) -> &str {
        self.store.url()
    }
    /// The format.
    pub fn format(&self) -> Format {
        self.log.format()
    }
    /// The format's own table options.
    pub fn options(&self) -> BTreeMap<String, String> {
        self.log.options()
    }
    /// Where data files lie.
    pub fn layout(&self) -> Arc<dyn Layout> {
        self.log.layout()
    }
    /// Every object that something in the table's log names: paths under the table's root. Data files that are not among them are orphans.
    pub async fn referenced(&self) -> Result<std::collections::BTreeSet<String>> {
        self.log.referenced().await
    }
    /// Who keeps snapshots from being expired, and from which on; one whose pin cannot be read keeps nothing (0).
    pub async fn pins(&self) -> Result<Vec<(CommitUser, u64)>> {
        self.log.pins("").await
    }
    /// The schema as of the opening.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }
    /// Where it lies.
    pub fn store(&self) -> &Store {
        &self.store
    }
    pub(crate) fn log(&self) -> &dyn SnapshotLog {
        self.log.snapshots()
    }
    /// The log of a Paimon table, for inspection.
    pub fn paimon(&self) -> Option<&PaimonLog> {
        match &self.log {
            Log::Paimon(log) => Some(log),
            Log::Delta(_) => None,
        }
    }
    /// The log of a Delta table, for inspection.
    pub fn delta(&self) -> Option<&DeltaLog> {
        match &self.log {
            Log::Paimon(_) => None,
            Log::Delta(log) => Some(log),
        }
    }
    /// A writer whose messages carry `user`.
    pub fn new_write(&self, user: &CommitUser) -> Result<TableWrite> {
        TableWrite::new(self, user, None)
    }
    /// A writer with a memory budget in bytes.
    pub fn new_write_within(&self, user: &CommitUser, memory: usize) -> Result<TableWrite> {
        TableWrite::new(self, user, Some(memory))
    }
    /// Commits without a chain: Paimon's contract, for both formats (`commit`, `filter_and_commit`, `abort`).
    pub fn new_commit(&self, user: &CommitUser) -> TableCommit {
        TableCommit::new(self.clone(), user.clone())
    }
}
