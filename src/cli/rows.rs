//! The rows of a table: `cat`, `count`, `dead-letters`.

use arrow::array::RecordBatch;

use crate::cli::Failed;
use crate::cli::args::{CatArgs, CountArgs, DeadLettersArgs, TableArgs, WhenArgs};
use crate::cli::cells::Cells;
use crate::cli::output::{Columns, Output, Rows, Value};
use crate::cli::pipelines::{names_file, no_set};
use crate::cli::tables::open;
use crate::condition::Condition;
use crate::error::{Error, Result};
use crate::pipeline::file::PipelineFile;
use crate::schema::Schema;
use crate::stream::dead_letters::columns;
use crate::table::{Table, TableScan, scan};

/// `cat`.
pub(crate) async fn cat(args: CatArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let mut scan = chosen(&table, &args.when, args.condition);
    if !args.columns.is_empty() {
        scan = scan.select(args.columns);
    }
    print(limited(scan, args.limit).rows().await?, false, output).await
}

/// `count`: without a condition what the snapshot says, which every commit adds up.
pub(crate) async fn count(args: CountArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let (rows, snapshot) = match args.condition {
        None => {
            let snapshot = table.snapshot_at(&args.when.at()).await?;
            let rows = match &snapshot {
                Some(s) if s.rows.is_none() => Value::Count(chosen(&table, &args.when, None).count().await?),
                other => Value::Int(other.as_ref().and_then(|s| s.rows).unwrap_or(0)),
            };
            (rows, snapshot.map(|s| s.id))
        }
        some => {
            let plan = chosen(&table, &args.when, some).plan().await?;
            (Value::Count(plan.count().await?), plan.snapshot().map(|s| s.id))
        }
    };
    output.one(vec![("rows", rows), ("snapshot", Value::or_null(snapshot, Value::Count))])
}

fn chosen(table: &Table, when: &WhenArgs, condition: Option<Condition>) -> TableScan {
    let scan = table.scan().at(when.at());
    match condition {
        Some(condition) => scan.filter(condition),
        None => scan,
    }
}

fn limited(scan: TableScan, limit: Option<u64>) -> TableScan {
    match limit {
        Some(rows) => scan.limit(rows),
        None => scan,
    }
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
    print(limited(table.scan(), args.limit).rows().await?, true, output).await
}

/// All rows. `raw`: bytes are text where they are UTF-8.
pub(crate) async fn print(mut batches: scan::Rows, raw: bool, output: &mut Output) -> Result<(), Failed> {
    let schema = batches.table_schema().clone();
    let mut rows = output.rows(Columns::new(batches.schema().fields().iter().map(|f| f.name().as_str())));
    while let Some(batch) = batches.next().await? {
        print_batch(&batch, &schema, raw, &mut rows)?;
    }
    rows.finish()
}

fn print_batch(batch: &RecordBatch, schema: &Schema, raw: bool, rows: &mut Rows<'_>) -> Result<(), Failed> {
    let cells = Cells::new(batch, schema);
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
