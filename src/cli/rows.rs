//! The rows of a table: `cat`, `count`, `dead-letters`.

use arrow::array::RecordBatch;

use crate::cli::Failed;
use crate::cli::args::{CatArgs, CountArgs, DeadLettersArgs, TableArgs};
use crate::cli::cells::Cells;
use crate::cli::output::{Columns, Output, Rows, Value};
use crate::cli::pipelines::{names_file, no_set};
use crate::cli::tables::{open, pick};
use crate::error::{Error, Result};
use crate::pipeline::file::PipelineFile;
use crate::stream::dead_letters::columns;
use crate::table::{At, Table};

/// `cat`.
pub(crate) async fn cat(args: CatArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    print(&table, args.snapshot, args.limit, false, output).await
}

/// `count`: what the snapshot says, which every commit adds up.
pub(crate) async fn count(args: CountArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let snapshot = pick(&table, args.snapshot).await?;
    output.one(vec![
        ("rows", Value::Int(snapshot.as_ref().map_or(0, |s| s.total_record_count))),
        ("snapshot", Value::or_null(snapshot, |s| Value::Count(s.id))),
    ])
}

/// `dead-letters`.
pub(crate) async fn dead_letters(args: DeadLettersArgs, output: &mut Output) -> Result<(), Failed> {
    let location = if names_file(&args.target) {
        let file = PipelineFile::load(args.target.as_ref(), &args.set)?;
        let dead = file
            .dead_letter
            .as_ref()
            .ok_or_else(|| Error::invalid("the pipeline has no `dead_letter`: its first bad record stops it").at(file.file_name()))?;
        dead.location.clone()
    } else {
        no_set(&args.set)?;
        args.target
    };
    let table = open(&TableArgs { location }).await?;
    if let Some(missing) = columns().iter().find(|c| table.schema().field(&c.name).is_none()) {
        return Err(Error::invalid(format!("this is no table of dead letters: it has no column `{}`", missing.name))
            .at(table.url())
            .hint("`table-cli cat` shows the rows of any table")
            .into());
    }
    print(&table, None, args.limit, true, output).await
}

/// `raw`: bytes are text where they are UTF-8.
async fn print(table: &Table, snapshot: Option<u64>, limit: Option<u64>, raw: bool, output: &mut Output) -> Result<(), Failed> {
    let mut scan = table.scan();
    if let Some(id) = snapshot {
        scan = scan.at(At::Snapshot(id));
    }
    let mut batches = scan.rows().await?;
    let mut rows = output.rows(Columns::new(batches.schema().fields().iter().map(|f| f.name().as_str())));
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(batch) = batches.next().await? else { break };
        let some = batch.slice(0, batch.num_rows().min(usize::try_from(left).unwrap_or(usize::MAX)));
        left -= some.num_rows() as u64;
        print_batch(&some, raw, &mut rows)?;
    }
    rows.finish()
}

fn print_batch(batch: &RecordBatch, raw: bool, rows: &mut Rows<'_>) -> Result<(), Failed> {
    let cells = Cells::new(batch)?;
    for i in 0..batch.num_rows() {
        let mut row = cells.row(i);
        if raw {
            for value in &mut row {
                if let Value::Hex(bytes) = value {
                    *value = Value::Raw(std::mem::take(bytes));
                }
            }
        }
        rows.push(row)?;
    }
    Ok(())
}
