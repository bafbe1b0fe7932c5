//! The log of a table, of either format: what differs between them, and only that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::datafile::{Buckets, Layout, WriterOptions};
use crate::error::{Error, Kind, Result};
use crate::format::delta::log::DeltaLog;
use crate::format::delta::names as delta_names;
use crate::format::paimon::bucket::FixedBuckets;
use crate::format::paimon::log::PaimonLog;
use crate::format::{CommitUser, Format, SnapshotLog};
use crate::schema::Schema;
use crate::store::Store;
use crate::table::TableSpec;

/// See the module.
#[derive(Clone)]
pub(crate) enum Log {
    Paimon(Arc<PaimonLog>),
    Delta(Arc<DeltaLog>),
}

impl Log {
    /// The table that is there, of whichever format.
    pub(crate) async fn find(store: &Store) -> Result<Option<Log>> {
        let Some(paimon) = PaimonLog::find(store).await? else {
            return Ok(DeltaLog::find(store).await?.map(|log| Log::Delta(Arc::new(log))));
        };
        if store.size(&delta_names::commit(0)).await?.is_some() {
            return Err(Error::invalid("here are two tables, one of Apache Paimon and one of Delta Lake")
                .at(store.url())
                .hint("remove `schema/` or `_delta_log/`, whichever should not be there"));
        }
        Ok(Some(Log::Paimon(Arc::new(paimon))))
    }

    /// Creates the table; when somebody else creates it at the same moment, that one is opened.
    pub(crate) async fn create(store: &Store, spec: &TableSpec) -> Result<Log> {
        let deadline = store.env().deadline(store.patience());
        let made = match spec.format {
            Format::Paimon => {
                PaimonLog::create(store, &spec.numbered(), &spec.options, None, deadline).await.map(|log| Log::Paimon(Arc::new(log)))
            }
            Format::Delta => DeltaLog::create(store, &spec.numbered(), &spec.options, deadline).await.map(|log| Log::Delta(Arc::new(log))),
        };
        match made {
            Err(e) if e.kind() == Kind::Conflict => {
                let gone = || Error::unavailable("somebody created the table and removed it again").at(store.url()).hint("try again");
                Log::find(store).await?.ok_or_else(gone)
            }
            other => other,
        }
    }

    pub(crate) fn format(&self) -> Format {
        match self {
            Log::Paimon(_) => Format::Paimon,
            Log::Delta(_) => Format::Delta,
        }
    }

    pub(crate) fn snapshots(&self) -> &dyn SnapshotLog {
        match self {
            Log::Paimon(log) => log.as_ref(),
            Log::Delta(log) => log.as_ref(),
        }
    }

    /// The newest schema that was read so far.
    pub(crate) fn schema(&self) -> Arc<Schema> {
        match self {
            Log::Paimon(log) => log.schema().schema.clone(),
            Log::Delta(log) => log.current().schema.schema.clone(),
        }
    }

    pub(crate) fn options(&self) -> BTreeMap<String, String> {
        match self {
            Log::Paimon(log) => log.schema().raw_options.clone(),
            Log::Delta(log) => log.configuration(),
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match self {
            Log::Paimon(log) => log.schema().options.check_writable(),
            Log::Delta(log) => log.current().check_writable(),
        }
    }

    pub(crate) fn layout(&self) -> Arc<dyn Layout> {
        match self {
            Log::Paimon(log) => Arc::new(log.layout()),
            Log::Delta(log) => Arc::new(log.layout()),
        }
    }

    /// How files of these columns are written within so many bytes of memory.
    pub(crate) fn writer_options(&self, schema: &Schema, memory: usize) -> Result<WriterOptions> {
        match self {
            Log::Paimon(log) => Ok(log.schema().options.writer_options(schema, memory)),
            Log::Delta(log) => log.writer_options(memory),
        }
    }

    pub(crate) fn buckets(&self, schema: &Schema) -> Result<Option<Arc<dyn Buckets>>> {
        match self {
            Log::Paimon(log) => FixedBuckets::of(schema, log.schema().options.buckets.as_ref()),
            Log::Delta(_) => Ok(None),
        }
    }

    /// Keeps snapshot `least` and everything above it from being expired. Delta has nothing of the kind, and needs none: the newest
    /// identifier of every user is in the table's newest state.
    pub(crate) async fn pin(&self, user: &CommitUser, least: u64) -> Result<()> {
        match self {
            Log::Paimon(log) => log.pin(user, least.max(1)).await,
            Log::Delta(_) => Ok(()),
        }
    }

    pub(crate) async fn unpin(&self, user: &CommitUser) -> Result<()> {
        match self {
            Log::Paimon(log) => log.unpin(user).await,
            Log::Delta(_) => Ok(()),
        }
    }

    /// Whose commit users begin with `prefix`, and what each keeps.
    pub(crate) async fn pins(&self, prefix: &str) -> Result<Vec<(CommitUser, u64)>> {
        match self {
            Log::Paimon(log) => log.pins(prefix).await,
            Log::Delta(_) => Ok(Vec::new()),
        }
    }

    /// Every object that something in the table's log names: paths under the table's root.
    pub(crate) async fn referenced(&self) -> Result<BTreeSet<String>> {
        match self {
            Log::Paimon(log) => log.referenced().await,
            Log::Delta(log) => log.referenced().await,
        }
    }
}
