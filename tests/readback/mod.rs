//! What Lakeward writes, read by other people's readers. They are installed by `tests/setup.sh`; without them these tests fail.
//!
//! ```text
//! cargo test --test main readback -- --ignored --nocapture       5 to 10 minutes on two cores, debug build
//! ```
//!
//! Expected values are the tests' own lists; the pipeline that writes runs in this process. `quirks` lists what readers get wrong.

mod buckets;
mod checked;
mod crash;
mod dataset;
mod delta;
mod foreign;
mod matrix;
mod merged;
mod model;
mod options;
mod partitions;
mod property;
pub(crate) mod quirks;
pub(crate) mod readers;
mod replay;
mod strangers;
mod travel;
mod types;
mod values;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lakeward::pipeline::file::PipelineFile;
use lakeward::pipeline::run::Pipeline;
use lakeward::store::DiskObserver;
use lakeward::stream::coordinator::Report;

/// A folder with a pipeline's input and tables.
struct Folder {
    dir: tempfile::TempDir,
    inputs: usize,
}

impl Folder {
    fn new() -> Folder {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("in")).unwrap();
        Folder { dir, inputs: 0 }
    }
    fn path(&self) -> &Path {
        self.dir.path()
    }
    /// A table in a database, where the readers' catalogs look.
    fn table(&self, name: &str) -> PathBuf {
        self.dir.path().join("shop.db").join(name)
    }
    /// One more input file.
    fn input<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.inputs += 1;
        let text: String = lines.into_iter().flat_map(|line| [line, "\n"]).collect();
        std::fs::write(self.dir.path().join(format!("in/{:03}.ndjson", self.inputs)), text).unwrap();
    }
}

/// A pipeline that reads `in/*.ndjson` into `shop.db/<table>`; `sink` is more of the sink, at its indentation.
fn pipeline(table: &str, at_end: &str, sink: &str) -> String {
    let mut text = format!("version: 1\npipeline: {table}\nsource:\n  files: {{paths: ['in/*.ndjson']}}\n  at_end: {at_end}\n");
    write!(text, "sinks:\n  - location: shop.db/{table}\n{sink}\ncheckpoint: {{location: chain}}\ndurability: none\n").unwrap();
    text
}

/// `columns:` of a sink.
fn columns_yaml<'a>(columns: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    columns.into_iter().fold("    columns:\n".to_owned(), |text, (name, sql)| text + &format!("      {name}: {sql}\n"))
}

async fn ingest(dir: &Path, text: &str) -> Report {
    try_ingest(dir, text, None).await.unwrap_or_else(|e| panic!("{e}\n{text}"))
}

async fn try_ingest(dir: &Path, text: &str, disk: Option<Arc<dyn DiskObserver>>) -> lakeward::Result<Report> {
    let file = PipelineFile::parse(text, "p.yaml", dir, &[], &|_| None)?;
    let pipeline = Pipeline::from_parts(file);
    let pipeline = if let Some(disk) = disk { pipeline.disk(disk) } else { pipeline };
    pipeline.start().await?.finish().await
}
