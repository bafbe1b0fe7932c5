//! A pipeline in a program: its events, its death in the middle, and the run that goes on.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use lakeward::pipeline::Pipeline;
use lakeward::stream::Event;
use lakeward::table::Table;
use lakeward::{Error, Result};

const PIPELINE: &str = "
version: 1
pipeline: orders
source: {generate: {rows: 1000, rows_per_second: 4000}}
sinks:
  - location: lake/orders
    columns: {id: BIGINT NOT NULL, country: STRING, amount: 'DECIMAL(10, 2)'}
checkpoint: {location: lake/_checkpoints, rows: 50}
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let dir = tempfile::tempdir().map_err(|e| Error::unavailable("no temporary folder").because(e))?;
    let file = dir.path().join("orders.yaml");
    std::fs::write(&file, PIPELINE).map_err(|e| Error::unavailable("the file cannot be written").because(e))?;

    // This one is dropped between a checkpoint and its commit, as a process that is killed.
    let mut run = Pipeline::from_file(&file)?.set("source.generate.rows", "500")?.start().await?;
    while let Some(event) = run.next_event().await {
        println!("{event}");
        if matches!(event, Event::Checkpointed { seq: 3, .. }) {
            break;
        }
    }
    drop(run);

    let mut run = Pipeline::from_file(&file)?.set("source.generate.rows", "500")?.start().await?;
    while let Some(event) = run.next_event().await {
        println!("{event}");
    }
    let report = run.finish().await?;
    assert!(report.closed);

    let mut rows = Table::open(&dir.path().join("lake/orders").to_string_lossy()).await?.scan().rows().await?;
    let mut ids: Vec<i64> = Vec::new();
    while let Some(batch) = rows.next().await? {
        ids.extend(batch["id"].as_primitive::<Int64Type>().values());
    }
    ids.sort_unstable();
    assert_eq!(ids, (1..=500).collect::<Vec<_>>(), "every row once");
    println!("{} rows, each once", ids.len());
    Ok(())
}
