//! `expire`: what old versions alone need is deleted.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::cli::Failed;
use crate::cli::args::ExpireArgs;
use crate::cli::output::{Columns, Output, Value, size};
use crate::cli::tables::open;
use crate::error::{Error, Result};
use crate::format::delta::cleanup::{self, CleanupPlan};
use crate::table::Table;

/// Shows, asks and deletes.
pub(crate) async fn expire(args: ExpireArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    if table.delta().is_none() {
        let e = Error::invalid("snapshots of a Paimon table are not expired by this program yet").at(table.url());
        return Err(e.hint("let Flink or Spark do it (`CALL sys.expire_snapshots(..)`): what a live pipeline needs is pinned").into());
    }
    let plan = cleanup::plan(table.store(), table.store().env().now_ms()).await?;
    if args.dry_run {
        let mut rows = output.rows(Columns::new(["path", "size"]));
        for (path, size) in &plan.files {
            rows.push(vec![Value::text(path), Value::Size(*size)])?;
        }
        return rows.finish();
    }
    let mut deleted = 0;
    if !plan.files.is_empty() && (args.yes || agreed(&table, &plan)?) {
        deleted = cleanup::execute(table.store(), &plan).await?;
    }
    output.one(vec![
        ("location", Value::text(table.url())),
        ("older_than", Value::Time(plan.cutoff_ms)),
        ("checkpoint", Value::or_null(plan.checkpoint, Value::Count)),
        ("files", Value::Count(plan.files.len() as u64)),
        ("bytes", Value::Size(plan.bytes())),
        ("deleted", Value::Count(deleted as u64)),
    ])
}

/// Asks at the terminal.
fn agreed(table: &Table, plan: &CleanupPlan) -> Result<bool> {
    let checkpoint = plan.checkpoint.unwrap_or_default();
    let what = format!("{} files of the log, {}, below the checkpoint of version {checkpoint}", plan.files.len(), size(plan.bytes()));
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Error::invalid(format!("{what} would be deleted, and there is no terminal to ask at"))
            .at(table.url())
            .hint("--yes deletes without asking, --dry-run shows them"));
    }
    let broken = |e: io::Error| Error::invalid("the answer cannot be read").because(e).hint("--yes deletes without asking");
    let mut terminal = io::stderr().lock();
    write!(terminal, "{}: delete {what}? Versions below it cannot be read any more. [y/N] ", table.url()).map_err(broken)?;
    terminal.flush().map_err(broken)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(broken)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
