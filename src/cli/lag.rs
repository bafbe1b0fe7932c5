//! `lag`: how far a pipeline is behind its topics.

use std::time::Duration;

use crate::cli::Failed;
use crate::cli::args::LagArgs;
use crate::cli::output::{Columns, Form, Output, Value};
use crate::env::Env;
use crate::pipeline::file::PipelineFile;
use crate::pipeline::lag;
use crate::store::StoreOptions;

/// How long brokers are waited for.
const PATIENCE: Duration = Duration::from_secs(15);

/// A row a partition, and the sum for eyes. Beyond `--max-lag` the check has found something.
pub(crate) async fn lag(args: LagArgs, output: &mut Output) -> Result<(), Failed> {
    let mut file = PipelineFile::load(&args.pipeline, &args.set)?;
    // Who looks, from a probe perhaps, is not kept waiting as long as a run waits.
    file.commit.timeout = file.commit.timeout.min(PATIENCE);
    let all = lag::lag(&file, &Env::real(), StoreOptions::default()).await?;
    let total: u64 = all.iter().map(lag::PartitionLag::records).sum();
    let columns = ["topic", "partition", "first", "end", "committed", "pending", "lag", "lag_s"];
    let mut rows = output.rows(Columns::new(columns));
    for p in &all {
        rows.push(vec![
            Value::text(&p.topic),
            Value::Int(i64::from(p.partition)),
            Value::Count(p.first),
            Value::Count(p.end),
            Value::Count(p.committed),
            Value::or_null(p.pending, Value::Count),
            Value::Count(p.records()),
            Value::or_null(p.age_ms, |ms| Value::Age(ms / 1000)),
        ])?;
    }
    rows.finish()?;
    if output.form() == Form::Table {
        output.text(&format!("{}: {total} records behind in {} partitions", file.pipeline, all.len()))?;
    }
    match args.max_lag {
        Some(most) if total > most => {
            tracing::error!("{}: {total} records behind, more than {most}", file.pipeline);
            Err(Failed::Found)
        }
        _ => Ok(()),
    }
}
