//! `diff`: what differs between two snapshots.

use std::collections::BTreeSet;

use crate::cli::Failed;
use crate::cli::args::DiffArgs;
use crate::cli::files::partition;
use crate::cli::output::{Columns, Output, Rows, Value};
use crate::cli::partitions::sums;
use crate::cli::rows::print;
use crate::cli::tables::{files_at, open};
use crate::error::Result;
use crate::format::Format;
use crate::schema::{Field, Schema};
use crate::table::scan::ScanFile;

/// `diff`.
pub(crate) async fn diff(args: DiffArgs, output: &mut Output) -> Result<(), Failed> {
    let table = open(&args.table).await?;
    let before = files_at(&table, &args.from).await?;
    if args.rows {
        let known: BTreeSet<&str> = before.iter().map(|f| f.path.as_str()).collect();
        let plan = table.scan().at(args.to).plan().await?.only(|f| !known.contains(f.path.as_str()));
        return print(plan.rows()?, false, output).await;
    }
    let after = files_at(&table, &args.to).await?;
    let (old, new) = (table.schema_at(&args.from).await?, table.schema_at(&args.to).await?);
    let mut rows = output.rows(Columns::new(["kind", "change", "partition", "name", "files", "rows", "bytes"]));
    columns(&old, &new, table.format(), &mut rows)?;
    let names = |files: &[ScanFile]| files.iter().map(|f| f.path.clone()).collect::<BTreeSet<_>>();
    let (had, has) = (names(&before), names(&after));
    let removed: Vec<&ScanFile> = before.iter().filter(|f| !has.contains(&f.path)).collect();
    let added: Vec<&ScanFile> = after.iter().filter(|f| !had.contains(&f.path)).collect();
    let changes = [("removed", removed), ("added", added)];
    for (change, files) in &changes {
        for file in files {
            let mut row = line("file", change);
            row[2] = Value::Map(partition(&table, &file.partition));
            row[3] = Value::text(&file.path);
            row[5] = Value::Count(file.live_rows());
            row[6] = Value::Size(file.size);
            rows.push(row)?;
        }
    }
    for (change, files) in &changes {
        for sum in sums(&table, files.iter().copied()).iter().filter(|s| !s.partition.is_empty()) {
            let mut row = line("partition", change);
            row[2] = Value::Map(partition(&table, &sum.partition));
            row[4] = Value::Count(sum.files);
            row[5] = Value::Count(sum.rows);
            row[6] = Value::Size(sum.bytes);
            rows.push(row)?;
        }
    }
    for (change, files) in &changes {
        let mut row = line("table", change);
        row[4] = Value::Count(files.len() as u64);
        row[5] = Value::Count(files.iter().map(|f| f.live_rows()).sum());
        row[6] = Value::Size(files.iter().map(|f| f.size).sum());
        rows.push(row)?;
    }
    rows.finish()
}

fn line(kind: &str, change: &str) -> Vec<Value> {
    let mut row = vec![Value::Null; 7];
    row[0] = Value::text(kind);
    row[1] = Value::text(change);
    row
}

/// Columns are the same when their field ids are; Delta: when their names are.
fn columns(old: &Schema, new: &Schema, format: Format, rows: &mut Rows<'_>) -> Result<(), Failed> {
    let same = |a: &Field, b: &Field| if format == Format::Delta { a.name == b.name } else { a.id == b.id };
    let mut push = |change: &str, text: String| {
        let mut row = line("column", change);
        row[3] = Value::Text(text);
        rows.push(row)
    };
    for field in old.fields.iter().filter(|f| !new.fields.iter().any(|n| same(n, f))) {
        push("removed", format!("{} {}", field.name, field.type_text()))?;
    }
    for field in &new.fields {
        match old.fields.iter().find(|o| same(o, field)) {
            None => push("added", format!("{} {}", field.name, field.type_text()))?,
            Some(o) if o.name != field.name || o.type_text() != field.type_text() => {
                push("changed", format!("{} {} -> {} {}", o.name, o.type_text(), field.name, field.type_text()))?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}
