//! One's own loop: the program reads its source itself, a chain of checkpoints makes it exactly once. It dies twice on the way.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field as ArrowField, Int64Type, Schema};
use lakeward::schema::Field;
use lakeward::source::{Offsets, Position};
use lakeward::stream::Chain;
use lakeward::table::{Table, TableSpec};
use lakeward::{Error, Result};

/// The numbers from 0 to 999: offset and value are the same.
struct Numbers {
    next: u64,
}

impl Numbers {
    /// Where a lineage begins: at the start, or where the one before ended.
    async fn start(ended: Option<Offsets>) -> Result<Offsets> {
        Ok(ended.unwrap_or_default())
    }
    fn seek(offsets: &Offsets) -> Numbers {
        Numbers { next: offsets.offset("numbers") }
    }
    fn next_batch(&mut self) -> Option<RecordBatch> {
        let values: Int64Array = (self.next..(self.next + 50).min(1000)).map(|n| n as i64).collect::<Vec<_>>().into();
        self.next += values.len() as u64;
        let schema = Schema::new(vec![ArrowField::new("id", DataType::Int64, false)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(values)]).ok()?;
        (batch.num_rows() > 0).then_some(batch)
    }
    fn wants_checkpoint(&self) -> bool {
        self.next.is_multiple_of(200)
    }
    fn offsets(&self) -> Offsets {
        Offsets::from([("numbers".to_owned(), Position { offset: self.next, note: None })])
    }
}

/// What a process does; `Err` is its death.
async fn live(dir: &str, dies: &str) -> Result<()> {
    let died = || Error::unavailable("the power is out");
    let table = Table::open_or_create(&format!("{dir}/orders"), TableSpec::paimon([Field::parse(0, "id", "BIGINT NOT NULL")?])).await?;
    // Finishes what is pending; opens a lineage if none is open.
    let mut chain = Chain::open(&format!("{dir}/_checkpoints"), "orders", [&table], Numbers::start).await?;
    let (mut write, mut source) = (table.new_write(chain.user())?, Numbers::seek(&chain.offsets()));
    while let Some(batch) = source.next_batch() {
        write.write(&batch).await?;
        if source.wants_checkpoint() {
            let c = chain.checkpoint(source.offsets(), [write.prepare_commit().await?]).await?; // `Fenced`: stop
            if dies == "between checkpoint and commit" {
                return Err(died());
            }
            chain.commit(c).await?;
            if dies == "after the commit" {
                return Err(died());
            }
        }
    }
    chain.end(source.offsets(), [write.prepare_commit().await?]).await // lands, and closes the lineage
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = tempfile::tempdir().map_err(|e| Error::unavailable("no temporary folder").because(e))?;
    let dir = &dir.path().to_string_lossy();
    assert!(live(dir, "between checkpoint and commit").await.is_err());
    assert!(live(dir, "after the commit").await.is_err());
    live(dir, "never").await?;

    let mut rows = Table::open(&format!("{dir}/orders")).await?.scan().rows().await?;
    let mut ids: Vec<i64> = Vec::new();
    while let Some(batch) = rows.next().await? {
        ids.extend(batch.column(0).as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..1000).collect::<Vec<_>>(), "every number once");
    println!("{} rows, each once", ids.len());
    Ok(())
}
