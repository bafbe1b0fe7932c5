//! What the demo tells at the end.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::cli::Failed;
use crate::cli::args::DemoArgs;
use crate::cli::child::moments::Phase;
use crate::cli::demo::audit::{Audited, TableFacts};
use crate::cli::demo::broker::{TOPIC, Truth};
use crate::cli::demo::place::Place;
use crate::cli::demo::story::thousands;
use crate::cli::output::{Columns, Form, Output, Value, size};
use crate::error::Error;

/// So much of a broken order is shown.
const SHOWN: usize = 72;

/// A process that was killed, and how the next one took over.
#[derive(Debug)]
pub(super) struct Kill {
    pub(super) pid: u32,
    /// Since the demo began.
    pub(super) at: Duration,
    /// Where it was meant to be hit, and where it was.
    pub(super) aim: Phase,
    pub(super) phase: Phase,
    /// The greatest checkpoint then, and how many orders it covers.
    pub(super) checkpoint: Option<u64>,
    pub(super) covered: u64,
    pub(super) produced: u64,
    pub(super) visible: u64,
    /// Commits of it that the next process found in the tables, and those that it made.
    pub(super) recognised: u64,
    pub(super) committed: u64,
    /// From the start of the next process to its first commit that was not there before.
    pub(super) recovery: Option<Duration>,
}

impl Kill {
    pub(super) fn told(&self) -> String {
        let checkpoint = self.checkpoint.unwrap_or(0);
        let how = match self.phase {
            Phase::Writing => format!("while writing: files for checkpoint {} were open", checkpoint + 1),
            Phase::BetweenCheckpointAndCommit => {
                format!("between checkpoint and commit: checkpoint {checkpoint} was written, its commit was not")
            }
            other => other.name().to_owned(),
        };
        format!("process {}, {how}; {} rows were visible", self.pid, thousands(self.visible))
    }

    pub(super) fn recovery_told(&self) -> String {
        let checkpoint = self.checkpoint.unwrap_or(0);
        let what = match (self.recognised, self.committed) {
            (0, 0) => "nothing was pending".to_owned(),
            (_, 0) => format!("checkpoint {checkpoint} had landed: recognised, not repeated"),
            (0, _) => format!("checkpoint {checkpoint} had not landed: its files are committed now, not written again"),
            (_, _) => format!("checkpoint {checkpoint} had landed in one table: recognised there, committed now in the other"),
        };
        format!("{what}; goes on after the {} orders that it covers", thousands(self.covered))
    }

    fn json(&self) -> Json {
        json!({
            "process": self.pid,
            "after_ms": ms(self.at),
            "aimed_at": self.aim.key(),
            "hit": self.phase.key(),
            "checkpoint": self.checkpoint,
            "orders_covered": self.covered,
            "orders_produced": self.produced,
            "rows_visible": self.visible,
            "recognised_commits": self.recognised,
            "committed_at_start": self.committed,
            "recovery_ms": self.recovery.map(ms),
        })
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Everything that is told.
pub(super) struct Report {
    seed: u64,
    dir: String,
    /// As they are typed: the pipeline file, the tables.
    names: [String; 3],
    pub(super) kills: Vec<Kill>,
    pub(super) processes: u64,
    pub(super) truth: Truth,
    pub(super) audited: Audited,
    pub(super) findings: Vec<String>,
    /// Until the last commit; the audit.
    pub(super) took: Duration,
    pub(super) audit_took: Duration,
}

/// `Invalid` for a form that cannot hold a report; asked before anything is done.
pub(super) fn printable(output: &Output) -> Result<(), Error> {
    match output.form() {
        Form::Csv => Err(Error::invalid("a report is no list of rows").hint("use -o json, or -o table")),
        Form::Table | Form::Json | Form::Jsonl => Ok(()),
    }
}

impl Report {
    pub(super) fn new(args: &DemoArgs, place: &Place) -> Report {
        Report {
            seed: args.seed,
            dir: place.shown(),
            names: ["orders.yaml", "lake/shop.db/orders", "lake/shop.db/orders_dead"].map(|name| place.typed(name)),
            kills: Vec::new(),
            processes: 0,
            truth: Truth::default(),
            audited: Audited::default(),
            findings: Vec::new(),
            took: Duration::ZERO,
            audit_took: Duration::ZERO,
        }
    }

    fn rows_per_second(&self) -> u64 {
        (self.truth.orders() as f64 / self.took.as_secs_f64().max(0.001)) as u64
    }

    /// In the form that was asked for.
    pub(super) fn print(&self, output: &mut Output) -> Result<(), Failed> {
        if output.form() != Form::Table {
            return output.object(self.json());
        }
        output.text("")?;
        self.print_tables(output)?;
        output.text(&self.summary())?;
        self.print_letters(output)?;
        if self.findings.is_empty() {
            output.text(
                "audit: nothing is missing, nothing is doubled, every amount adds up, every file and every range of offsets is in order",
            )?;
        } else {
            output.text("audit: THIS MUST NOT BE")?;
            for finding in &self.findings {
                output.text(&format!("  {finding}"))?;
            }
        }
        self.print_next(output)
    }

    fn print_tables(&self, output: &mut Output) -> Result<(), Failed> {
        const COLUMNS: [&str; 9] = ["table", "produced", "rows", "missing", "doubled", "snapshots", "files", "bytes", "left by the kills"];
        let mut rows = output.rows(Columns::new(COLUMNS));
        let mut row = |name: &str, produced: u64, facts: &TableFacts| {
            let counts =
                [produced, facts.rows, facts.missing, facts.doubled + facts.strange, facts.snapshots, facts.files].map(Value::Count);
            let left = if facts.unreferenced == 0 { "nothing".to_owned() } else { format!("{} files in no snapshot", facts.unreferenced) };
            let ends = [Value::Size(facts.bytes), Value::Text(left)];
            rows.push([Value::text(name)].into_iter().chain(counts).chain(ends).collect())
        };
        row("orders", self.truth.good(), &self.audited.orders)?;
        row("orders_dead", self.truth.broken.len() as u64, &self.audited.dead)?;
        rows.finish()
    }

    fn summary(&self) -> String {
        let recovery: Vec<String> = self.kills.iter().filter_map(|k| k.recovery).map(|r| format!("{} ms", r.as_millis())).collect();
        format!(
            "{} orders, {} of JSON, in {:.1} s with {} processes: {} orders/s, kills and starts included. A new process needed {} to its first \
             commit.\namounts: {} produced, {} in the table. The audit took {:.1} s.\n",
            thousands(self.truth.orders()),
            size(self.truth.bytes),
            self.took.as_secs_f64(),
            self.processes,
            thousands(self.rows_per_second()),
            recovery.join(" and "),
            money(i128::from(self.truth.cents)),
            money(self.audited.cents),
            self.audit_took.as_secs_f64(),
        )
    }

    fn print_letters(&self, output: &mut Output) -> Result<(), Failed> {
        output.text("Three of the dead letters:")?;
        for letter in self.audited.examples.iter().take(3) {
            let cut = |text: &str| {
                let short: String = text.chars().take(SHOWN).collect();
                if short.len() < text.len() { format!("{short}…") } else { short }
            };
            output.text(&format!("  {TOPIC}[{}]@{} {}: {}", letter.partition, letter.offset, letter.stage, letter.error))?;
            output.text(&format!("    {}", cut(&letter.value)))?;
        }
        output.text("")
    }

    fn print_next(&self, output: &mut Output) -> Result<(), Failed> {
        let me = std::env::args().next().filter(|arg| arg.contains('/')).unwrap_or_else(|| "table-cli".to_owned());
        let [pipeline, orders, dead] = &self.names;
        output.text(&format!(
            "\nLook closer:\n  alias t={me}\n  t cat {orders} --limit 5\n  t count {orders} --where \"country = 'JP' and amount > 500\"\n  \
             t snapshots {orders}\n  t audit {orders}\n  t dead-letters {pipeline} --limit 5\n  t cat {dead} --columns stage,error --limit 5\n  \
             t checkpoints {pipeline}"
        ))
    }

    fn json(&self) -> Json {
        let table = |name: &str, produced: u64, facts: &TableFacts| {
            json!({
                "location": name,
                "produced": produced,
                "rows": facts.rows,
                "missing": facts.missing,
                "doubled": facts.doubled,
                "strange": facts.strange,
                "snapshots": facts.snapshots,
                "files": facts.files,
                "bytes": facts.bytes,
                "unreferenced_files": facts.unreferenced,
            })
        };
        let letter = |l: &super::audit::DeadLetter| json!({"topic": TOPIC, "partition": l.partition, "offset": l.offset, "stage": l.stage, "error": l.error, "value": l.value});
        json!({
            "seed": self.seed,
            "dir": self.dir,
            "pipeline": self.names[0],
            "produced": {
                "orders": self.truth.orders(),
                "good": self.truth.good(),
                "broken": self.truth.broken.len(),
                "bytes": self.truth.bytes,
                "amount": money(i128::from(self.truth.cents)),
            },
            "processes": self.processes,
            "kills": self.kills.iter().map(Kill::json).collect::<Vec<_>>(),
            "orders": table(&self.names[1], self.truth.good(), &self.audited.orders),
            "amount": money(self.audited.cents),
            "orders_dead": table(&self.names[2], self.truth.broken.len() as u64, &self.audited.dead),
            "dead_letters_by_stage": self.audited.by_stage,
            "dead_letters": self.audited.examples.iter().take(3).map(letter).collect::<Vec<_>>(),
            "ms": ms(self.took),
            "audit_ms": ms(self.audit_took),
            "orders_per_second": self.rows_per_second(),
            "exact": self.findings.is_empty(),
            "findings": self.findings,
        })
    }
}

fn money(cents: i128) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.unsigned_abs();
    format!("{sign}{}.{:02}", cents / 100, cents % 100)
}
