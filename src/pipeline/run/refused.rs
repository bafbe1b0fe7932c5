//! Runs that must stop before anything is written, from the pipeline file on.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::error::Kind;
use crate::store::Durability;

fn pipeline(sinks: &[&str], chain: &str, rows: u32) -> String {
    let sink = |at: &&str| format!("  - location: {at}\n    columns: {{id: BIGINT NOT NULL}}\n");
    format!(
        "version: 1\npipeline: gen\nsource: {{generate: {{rows: {rows}}}}}\nsinks:\n{}checkpoint: {{location: {chain}, rows: 10}}\n\
         commit: {{timeout: 1s}}\ndurability: none\n",
        sinks.iter().map(sink).collect::<String>()
    )
}

async fn run(dir: &Path, text: &str, options: StartOptions) -> Result<Report> {
    let file = PipelineFile::parse(text, "p.yaml", dir, &[], &|_| None)?;
    Pipeline::from_parts(file).options(options).start().await?.finish().await
}

/// Every file and directory below, with its bytes.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(tree(&path));
            all.insert(path, Vec::new());
        } else {
            all.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    all
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

async fn count(dir: &Path, table: &str) -> u64 {
    let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
    let store = Store::open(dir.join(table).to_str().unwrap(), &Env::real(), options).unwrap();
    Table::open_in(store).await.unwrap().scan().count().await.unwrap()
}

#[tokio::test]
async fn a_mistyped_chain_stops_before_a_new_table_is_created() {
    let dir = dir();
    run(dir.path(), &pipeline(&["one"], "chain", 25), StartOptions::default()).await.unwrap();
    let before = tree(dir.path());
    for sinks in [&["one", "new"][..], &["new", "one"], &["one"]] {
        let error = run(dir.path(), &pipeline(sinks, "chian", 30), StartOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Data, "{error}");
        assert!(tree(dir.path()) == before, "{error}: something was written");
    }
    let forget = StartOptions { forget: true, ..StartOptions::default() };
    run(dir.path(), &pipeline(&["one", "new"], "chian", 30), forget).await.unwrap();
    assert_eq!((count(dir.path(), "one").await, count(dir.path(), "new").await), (55, 30));
}

#[tokio::test]
async fn a_table_that_is_gone_is_not_created_again() {
    let dir = dir();
    run(dir.path(), &pipeline(&["one", "two"], "chain", 25), StartOptions::default()).await.unwrap();
    std::fs::remove_dir_all(dir.path().join("two")).unwrap();
    let before = tree(dir.path());
    let error = run(dir.path(), &pipeline(&["one", "two"], "chain", 30), StartOptions::default()).await.unwrap_err();
    assert!(error.kind() == Kind::Data && error.to_string().contains("it is gone"), "{error}");
    assert!(tree(dir.path()) == before);
    let url = dir.path().join("two").to_str().unwrap().to_owned();
    let drop = StartOptions { drop_sinks: vec![url], ..StartOptions::default() };
    run(dir.path(), &pipeline(&["one"], "chain", 30), drop).await.unwrap();
    run(dir.path(), &pipeline(&["one", "two"], "chain", 35), StartOptions { backfill: true, ..StartOptions::default() }).await.unwrap();
    assert_eq!((count(dir.path(), "one").await, count(dir.path(), "two").await), (35, 35));
}

/// What the pipeline file does not name is opened by what the chain says of it, whatever its format.
#[tokio::test]
async fn a_sink_that_is_not_named_any_more_is_missed_in_both_formats() {
    for format in ["paimon", "delta"] {
        let dir = dir();
        let text = |sinks: &[&str], rows| pipeline(sinks, "chain", rows).replace("columns:", &format!("format: {format}\n    columns:"));
        run(dir.path(), &text(&["one", "two"], 25), StartOptions::default()).await.unwrap();
        let error = run(dir.path(), &text(&["one"], 30), StartOptions::default()).await.unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.next_step().unwrap().contains("--drop-sink"), "{format}: {error}");
        let drop = StartOptions { drop_sinks: vec![dir.path().join("two").to_str().unwrap().to_owned()], ..StartOptions::default() };
        run(dir.path(), &text(&["one"], 30), drop).await.unwrap();
        assert_eq!((count(dir.path(), "one").await, count(dir.path(), "two").await), (30, 25), "{format}");
    }
}

#[tokio::test]
async fn a_finished_pipeline_is_looked_at_also_when_there_is_nothing_to_read() {
    let dir = dir();
    let text = pipeline(&["one"], "chain", 25);
    run(dir.path(), &text, StartOptions::default()).await.unwrap();
    let before = tree(dir.path());
    assert!(run(dir.path(), &text, StartOptions::default()).await.unwrap().nothing);
    assert!(tree(dir.path()) == before, "nothing to read, nothing written");
    assert!(run(dir.path(), &pipeline(&["one", "new"], "chain", 25), StartOptions::default()).await.unwrap().nothing);
    assert!(tree(dir.path()) == before, "not even an empty table");
    // A pin that a death after `closed` left behind.
    let user = std::fs::read_to_string(dir.path().join("chain/gen/00000000000000000004.json")).unwrap();
    let user = serde_json::from_str::<serde_json::Value>(&user).unwrap()["user"].as_str().unwrap().to_owned();
    let pin = dir.path().join(format!("one/consumer/consumer-{user}"));
    std::fs::write(&pin, "{\"nextSnapshot\":1}").unwrap();
    assert!(run(dir.path(), &text, StartOptions::default()).await.unwrap().nothing);
    assert!(!pin.exists(), "pins of a closed lineage are deleted by the next start");
    // A new sink that wants everything has something to read.
    run(dir.path(), &pipeline(&["one", "new"], "chain", 25), StartOptions { backfill: true, ..StartOptions::default() }).await.unwrap();
    assert_eq!((count(dir.path(), "one").await, count(dir.path(), "new").await), (25, 25));
}
