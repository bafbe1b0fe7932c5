//! Whole pipelines in this process, on local disk.

use std::path::Path;

use lakeward::pipeline::file::PipelineFile;
use lakeward::pipeline::run::Pipeline;
use lakeward::stream::Event;
use lakeward::stream::coordinator::Report;

/// A snapshot as it lies on disk.
pub(crate) fn snapshots(table: &Path) -> Vec<serde_json::Value> {
    let dir = table.join("snapshot");
    let Ok(entries) = std::fs::read_dir(&dir) else { return Vec::new() };
    let mut ids: Vec<u64> =
        entries.filter_map(|e| e.unwrap().file_name().to_string_lossy().strip_prefix("snapshot-").and_then(|n| n.parse().ok())).collect();
    ids.sort_unstable();
    ids.iter().map(|id| serde_json::from_slice(&std::fs::read(dir.join(format!("snapshot-{id}"))).unwrap()).unwrap()).collect()
}

async fn run(dir: &Path, text: &str) -> (lakeward::Result<Report>, Vec<Event>) {
    let file = PipelineFile::parse(text, "p.yaml", dir, &[], &|_| None).unwrap();
    let mut run = Pipeline::from_parts(file).start().await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = run.next_event().await {
        events.push(event);
    }
    (run.finish().await, events)
}

const GENERATE: &str = "
version: 1
pipeline: gen
source: {generate: {rows: 100}}
sinks:
  - location: t
    columns: {id: BIGINT NOT NULL, customer: STRING, amount: 'DECIMAL(10, 2)', created_at: TIMESTAMP(3)}
checkpoint: {location: c, rows: 40}
";

#[tokio::test]
async fn a_generated_stream_ends_up_in_the_table_and_a_second_run_has_nothing_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (report, events) = run(dir.path(), GENERATE).await;
    let report = report.unwrap();
    assert_eq!((report.rows, report.closed), (100, true), "{events:?}");
    let all = snapshots(&dir.path().join("t"));
    let last = all.last().unwrap();
    assert_eq!(last["totalRecordCount"], 100);
    assert_eq!(last["commitIdentifier"], i64::MAX);
    let users: std::collections::BTreeSet<String> = all.iter().map(|s| s["commitUser"].to_string()).collect();
    assert_eq!(users.len(), 1);
    let (again, _) = run(dir.path(), GENERATE).await;
    assert!(again.unwrap().nothing);
    assert_eq!(snapshots(&dir.path().join("t")).len(), all.len());
}
