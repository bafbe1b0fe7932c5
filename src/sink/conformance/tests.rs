//! The suite on a table, and on sinks that break one promise each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::Int64Array;

use super::*;
use crate::env::Env;
use crate::schema::Field;
use crate::sink::Anchor;
use crate::sink::table::TableSink;
use crate::store::{Store, StoreOptions};
use crate::table::{Table, TableSpec};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    LandsTwice,
    ForgetsDigest,
    NeverCloses,
    VisibleAtPrepare,
    ForgetsOthers,
    DropsMeanwhile,
}

struct TableBench {
    store: Store,
    fault: Fault,
}

struct Faulty {
    inner: TableSink,
    fault: Fault,
    table: Table,
    lies: u64,
    committed: Arc<AtomicBool>,
}

impl TableBench {
    fn new(name: &str, fault: Fault) -> TableBench {
        let store = Store::open(&format!("memory://conformance-{name}-{fault:?}/t"), &Env::real(), StoreOptions::default()).unwrap();
        TableBench { store, fault }
    }
}

#[async_trait]
impl Bench for TableBench {
    async fn open(&self) -> Result<Box<dyn Sink>> {
        let spec = TableSpec::paimon([Field::parse(0, "id", "BIGINT NOT NULL")?]);
        let table = Table::open_or_create_in(self.store.clone(), &spec).await?;
        let inner = TableSink::new(table.clone(), Duration::from_secs(10));
        Ok(Box::new(Faulty { inner, fault: self.fault, table, lies: 100, committed: Arc::default() }))
    }
    fn rows(&self, rows: usize) -> RecordBatch {
        let ids: Int64Array = (0..rows as i64).collect::<Vec<_>>().into();
        let schema = TableSpec::paimon([Field::parse(0, "id", "BIGINT NOT NULL").unwrap()]).schema().unwrap().to_arrow();
        RecordBatch::try_new(schema, vec![Arc::new(ids)]).unwrap()
    }
    async fn count(&self) -> Result<u64> {
        let Some(table) = Table::open_if_exists(self.store.clone()).await? else { return Ok(0) };
        table.scan().count().await
    }
}

/// A writer that shows what it prepares.
struct FaultyRows {
    inner: Box<dyn SinkWriter>,
    fault: Fault,
    table: Table,
    user: CommitUser,
    committed: Arc<AtomicBool>,
}

#[async_trait]
impl SinkWriter for FaultyRows {
    async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.fault == Fault::DropsMeanwhile && self.committed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.inner.write(batch).await
    }
    async fn prepare(&mut self) -> Result<Vec<Message>> {
        let messages = self.inner.prepare().await?;
        if self.fault == Fault::VisibleAtPrepare && !messages.is_empty() {
            let read: Vec<crate::format::CommitMessage> = messages.iter().map(|m| m.read().unwrap()).collect();
            self.table.new_commit(&self.user).commit(1, read).await?;
        }
        Ok(messages)
    }
}

#[async_trait]
impl Sink for Faulty {
    fn begin(&self, user: &CommitUser) -> Result<Box<dyn SinkWriter>> {
        let inner = self.inner.begin(user)?;
        self.committed.store(false, Ordering::Relaxed);
        let (table, committed) = (self.table.clone(), self.committed.clone());
        Ok(Box::new(FaultyRows { inner, fault: self.fault, table, user: user.clone(), committed }))
    }
    async fn commit(&mut self, commit: &SinkCommit) -> Result<Outcome> {
        self.committed.store(true, Ordering::Relaxed);
        let outcome = self.inner.commit(commit).await;
        if self.fault == Fault::ForgetsDigest && outcome.is_err() && commit.digest == digest(-7) {
            return Ok(Outcome { already: true, floor: commit.floor.clone(), last: Some(commit.identifier) });
        }
        if self.fault == Fault::LandsTwice
            && outcome.as_ref().is_ok_and(|o| o.already)
            && commit.messages.as_ref().is_some_and(|m| !m.is_empty())
        {
            self.lies += 1;
            let user = CommitUser::new(format!("liar-{}", self.lies));
            let mut write = self.table.new_write(&user)?;
            write.write(&TableBench::new("x", Fault::None).rows(1)).await?;
            let messages = write.prepare_commit().await?;
            self.table.new_commit(&user).commit(1, messages).await?;
        }
        outcome
    }
    async fn close(&mut self, close: &CloseUser) -> Result<ClosedAt> {
        if self.fault == Fault::NeverCloses { Ok(close.last) } else { self.inner.close(close).await }
    }
    fn anchor(&self) -> &dyn Anchor {
        if self.fault == Fault::ForgetsOthers { self } else { self.inner.anchor() }
    }
}

/// Forgets the registrations of every pipeline.
#[async_trait]
impl Anchor for Faulty {
    fn url(&self) -> &str {
        self.inner.anchor().url()
    }
    fn format(&self) -> &str {
        "paimon"
    }
    async fn head(&self) -> Result<Floor> {
        self.inner.anchor().head().await
    }
    async fn register(&self, registration: &Registration) -> Result<()> {
        self.inner.anchor().register(registration).await
    }
    async fn registrations(&self, pipeline: &str) -> Result<Vec<Registration>> {
        self.inner.anchor().registrations(pipeline).await
    }
    async fn forget(&self, pipeline: &str) -> Result<()> {
        self.inner.anchor().forget(pipeline).await?;
        self.inner.anchor().forget("conformance-eu").await
    }
    async fn pin(&self, user: &CommitUser, snapshot: u64) -> Result<()> {
        self.inner.anchor().pin(user, snapshot).await
    }
    async fn unpin(&self, pipeline: &str, before: u64) -> Result<()> {
        self.inner.anchor().unpin(pipeline, before).await
    }
}

#[tokio::test]
async fn a_table_keeps_every_promise_of_a_sink() {
    check(&TableBench::new("table", Fault::None)).await.unwrap();
}

#[tokio::test]
async fn a_broken_promise_is_named() {
    for (fault, said) in [
        (Fault::VisibleAtPrepare, "after prepare"),
        (Fault::DropsMeanwhile, "after the commit of the rows that were written meanwhile"),
        (Fault::LandsTwice, "after the same commit again"),
        (Fault::ForgetsDigest, "the same identifier of another checkpoint"),
        (Fault::NeverCloses, "a commit of a closed lineage"),
        (Fault::ForgetsOthers, "forget takes away the registrations of one pipeline"),
    ] {
        let broken = check(&TableBench::new("faulty", fault)).await.unwrap_err();
        assert!(broken.contains(said), "{fault:?}: {broken}");
    }
}
