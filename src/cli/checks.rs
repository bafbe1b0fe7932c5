//! `audit` and `verify`: what a check says, and exit code 3 when it found something.

use crate::cli::Failed;
use crate::cli::args::{AuditArgs, VerifyArgs};
use crate::cli::output::{Columns, Form, Output, Value};
use crate::cli::pipelines::store;
use crate::maintain::finding::{Check, Finding, Findings};
use crate::maintain::lineage::{Line, Rewind};
use crate::maintain::{audit as auditing, verify as verifying};

/// One line of a report; which of its values are there depends on its kind. In a drawn report each kind is a table of its own.
#[derive(Default)]
struct Entry {
    kind: &'static str,
    values: Vec<(&'static str, Value)>,
}

/// `audit`.
pub(crate) async fn audit(args: AuditArgs, output: &mut Output) -> Result<(), Failed> {
    let audit = auditing::audit(&store(&args.table.location)?, args.pipeline.as_deref()).await?;
    let mut report: Vec<Entry> = audit.lineages.lines.iter().map(line).collect();
    report.extend(audit.lineages.rewinds.iter().map(rewind));
    report.extend(checks(&audit.findings));
    const COLUMNS: [&str; 17] = [
        "kind",
        "pipeline",
        "user",
        "split",
        "from",
        "to",
        "snapshots",
        "rows",
        "state",
        "first_snapshot",
        "last_snapshot",
        "check",
        "looked_at",
        "findings",
        "at",
        "snapshot",
        "what",
    ];
    finish(report, &audit.findings, audit.snapshots, &COLUMNS, output)
}

/// `verify`.
pub(crate) async fn verify(args: VerifyArgs, output: &mut Output) -> Result<(), Failed> {
    let verified = verifying::verify(&store(&args.table.location)?, args.footers).await?;
    const COLUMNS: [&str; 7] = ["kind", "check", "looked_at", "findings", "at", "snapshot", "what"];
    finish(checks(&verified.findings), &verified.findings, verified.snapshots, &COLUMNS, output)
}

/// What was looked at.
fn checks(findings: &Findings) -> Vec<Entry> {
    let one = |(check, looked, found): (Check, u64, u64)| Entry {
        kind: "check",
        values: vec![("check", Value::text(check.name())), ("looked_at", Value::Count(looked)), ("findings", Value::Count(found))],
    };
    findings.checks().into_iter().map(one).collect()
}

fn line(line: &Line) -> Entry {
    let kind = match (&line.pipeline, &line.split) {
        (None, _) => "writer",
        (Some(_), None) => "lineage",
        (Some(_), Some(_)) => "split",
    };
    let state = if line.cut { format!("{}, its beginning has expired", line.state) } else { line.state.clone() };
    let values = vec![
        ("pipeline", Value::or_null(line.pipeline.clone(), Value::Text)),
        ("user", Value::User(line.user.clone())),
        ("split", Value::or_null(line.split.clone(), Value::Text)),
        ("from", Value::or_null(line.from, Value::Count)),
        ("to", Value::or_null(line.to, Value::Count)),
        ("snapshots", Value::Count(line.snapshots)),
        ("rows", Value::or_null(line.rows, Value::Int)),
        ("state", if line.split.is_none() { Value::Text(state) } else { Value::Null }),
        ("first_snapshot", Value::Count(line.within.0)),
        ("last_snapshot", Value::Count(line.within.1)),
    ];
    Entry { kind, values }
}

fn rewind(r: &Rewind) -> Entry {
    let how = if r.anew { "the pipeline was begun anew" } else { "rewind" };
    let what = format!("{how}: {} offsets that {} had written were written again", r.to.saturating_sub(r.from), r.before);
    let values = vec![
        ("pipeline", Value::text(&r.pipeline)),
        ("user", Value::User(r.user.clone())),
        ("split", Value::text(&r.split)),
        ("from", Value::Count(r.from)),
        ("to", Value::Count(r.to)),
        ("what", Value::Text(what)),
    ];
    Entry { kind: "rewind", values }
}

fn finding(f: &Finding) -> Entry {
    let values = vec![
        ("check", Value::text(f.check.name())),
        ("at", Value::text(&f.at)),
        ("snapshot", Value::or_null(f.snapshot, Value::Count)),
        ("what", Value::text(&f.what)),
    ];
    Entry { kind: "finding", values }
}

/// Findings last, and the verdict on standard error.
fn finish(
    mut report: Vec<Entry>,
    findings: &Findings,
    snapshots: Option<(u64, u64)>,
    columns: &[&'static str],
    output: &mut Output,
) -> Result<(), Failed> {
    let more = findings.count() - findings.list().len() as u64;
    report.extend(findings.notes().iter().map(|note| Entry { kind: "note", values: vec![("what", Value::text(note))] }));
    report.extend(findings.list().iter().map(finding));
    if more > 0 {
        report.push(Entry { kind: "note", values: vec![("what", Value::Text(format!("{more} findings more are not shown")))] });
    }
    write(report, columns, output)?;
    let range = snapshots.map_or("no snapshot".to_owned(), |(first, last)| format!("snapshots {first} to {last}"));
    match findings.count() {
        0 => tracing::info!("{range}: nothing is wrong"),
        1 => tracing::error!("{range}: 1 finding"),
        n => tracing::error!("{range}: {n} findings"),
    }
    if findings.count() > 0 { Err(Failed::Found) } else { Ok(()) }
}

fn write(report: Vec<Entry>, columns: &[&'static str], output: &mut Output) -> Result<(), Failed> {
    if output.form() != Form::Table {
        let mut rows = output.rows(Columns::new(columns.iter().copied()));
        for mut entry in report {
            let mut row = vec![Value::text(entry.kind)];
            row.extend(columns[1..].iter().map(|column| {
                let found = entry.values.iter().position(|(name, _)| name == column);
                found.map_or(Value::Null, |i| entry.values.swap_remove(i).1)
            }));
            rows.push(row)?;
        }
        return rows.finish();
    }
    // For eyes: lines that have the same values are one table; texts are lines.
    let mut report = report.into_iter().peekable();
    while let Some(entry) = report.next() {
        if entry.kind == "note" {
            let text = entry.values.first().map(|(_, v)| v.clone());
            if let Some(Value::Text(text)) = text {
                output.text(&format!("note: {text}"))?;
            }
            continue;
        }
        let names: Vec<&'static str> = entry.values.iter().map(|(name, _)| *name).collect();
        let mut rows = output.rows(Columns::new(names.iter().copied()));
        rows.push(entry.values.into_iter().map(|(_, v)| v).collect())?;
        let same = |e: &Entry| e.values.iter().map(|(name, _)| *name).eq(names.iter().copied());
        while let Some(next) = report.next_if(same) {
            rows.push(next.values.into_iter().map(|(_, v)| v).collect())?;
        }
        rows.finish()?;
    }
    Ok(())
}
