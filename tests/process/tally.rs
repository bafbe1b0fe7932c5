//! What pypaimon finds in a table of made-up rows, and what there has to be.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lakeward::Env;
use lakeward::source::{GenerateOptions, GenerateSource, Offsets, Polled, Source as _};
use serde_json::{Value, json};

/// Rows 1 to `rows`, counted from the records of the generator itself: nothing of the decoder, the writer or the table takes part.
pub(crate) async fn expected(rows: u64) -> Value {
    let env = Env::real();
    let mut source = GenerateSource::new(env.clone(), GenerateOptions { rows: Some(rows), ..GenerateOptions::default() }).unwrap();
    source.seek(&Offsets::default(), None).await.unwrap();
    let (mut count, mut sum, mut cents) = (0_u64, 0_u64, 0_u64);
    loop {
        let records = match source.poll(env.deadline(Duration::from_secs(1))).await.unwrap() {
            Polled::Records(records) => records,
            Polled::End => break,
            other => panic!("{other:?}"),
        };
        let mut from = records.start;
        for end in &records.ends {
            let text = std::str::from_utf8(&records.bytes[from..*end]).unwrap();
            count += 1;
            sum += number(text, "\"id\":").parse::<u64>().unwrap();
            cents += number(text, "\"amount\":").replace('.', "").parse::<u64>().unwrap();
            from = *end;
        }
    }
    json!({"rows": count, "distinct": count, "min": 1, "max": count, "sum": sum, "amount": format!("{}.{:02}", cents / 100, cents % 100), "nulls": 0})
}

fn number<'a>(text: &'a str, key: &str) -> &'a str {
    let rest = &text[text.find(key).unwrap() + key.len()..];
    &rest[..rest.find(',').unwrap()]
}

/// The same of each table, by one process of pypaimon.
pub(crate) fn read(tables: &[PathBuf]) -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("LAKEWARD_INTEROP_PYTHON").map_or_else(|| root.join(".venv/bin/python"), PathBuf::from);
    assert!(python.exists(), "there is no {}: run tests/setup.sh", python.display());
    let mut command = Command::new(python);
    command.arg(root.join("tests/process/tally.py")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    for table in tables {
        writeln!(input, "{}", table.display()).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let answers: Vec<Value> =
        output.stdout.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).unwrap()).collect();
    assert_eq!(answers.len(), tables.len());
    answers
}
