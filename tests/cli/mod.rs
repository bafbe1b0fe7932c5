//! `table-cli` from the outside: output forms, exit codes, help.

mod checking;
mod choosing;
mod delta;
mod looking;
mod signals;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Every command that there is.
const COMMANDS: &[&str] = &[
    "ingest",
    "demo",
    "lag",
    "create",
    "info",
    "schema",
    "snapshots",
    "snapshot",
    "manifests",
    "files",
    "partitions",
    "diff",
    "cat",
    "count",
    "checkpoints",
    "audit",
    "verify",
    "config",
    "dead-letters",
    "doctor",
    "failover",
    "expire",
    "completions",
];

/// The command, away from the caller's settings.
pub(crate) fn table_cli(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_table-cli"));
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// What a run of the command left.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn run(args: &[&str]) -> Ran {
    ran(table_cli(args).output().unwrap())
}

fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs it and expects success.
pub(crate) fn ok(args: &[&str]) -> String {
    let ran = run(args);
    assert_eq!(ran.code, 0, "{args:?}\n{}", ran.err);
    ran.out
}

/// Lines of `-o jsonl`.
pub(crate) fn rows(args: &[&str]) -> Vec<serde_json::Value> {
    ok(args).lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// A directory with a pipeline file that makes up 100 rows in a quarter of a second, with several checkpoints.
pub(crate) struct Lake {
    dir: tempfile::TempDir,
}

impl Lake {
    pub(crate) fn new() -> Lake {
        let lake = Lake { dir: tempfile::tempdir().unwrap() };
        let text = "\
version: 1
pipeline: orders
source:
  generate: {rows: 100, rows_per_second: 400}
sinks:
  - location: ./lake/shop.db/orders
    columns:
      id: BIGINT NOT NULL
checkpoint:
  location: ./lake/_checkpoints
  rows: 20
durability: none
";
        lake.write("orders.yaml", text);
        lake
    }
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        path
    }
    pub(crate) fn path(&self, name: &str) -> String {
        self.root().join(name).to_str().unwrap().to_owned()
    }
    pub(crate) fn root(&self) -> PathBuf {
        Path::new(self.dir.path()).to_owned()
    }
    pub(crate) fn pipeline(&self) -> String {
        self.path("orders.yaml")
    }
    pub(crate) fn table(&self) -> String {
        self.path("lake/shop.db/orders")
    }
}

#[test]
fn every_command_shows_an_example_of_itself() {
    let help = ok(&["--help"]);
    for command in COMMANDS {
        assert!(help.contains(command), "{command} is missing in\n{help}");
        let own = ok(&[command, "--help"]);
        assert!(own.contains("Example"), "{own}");
        assert!(own.contains(&format!("  table-cli {command} ")), "{own}");
        assert!(own.contains("--output"), "{own}");
    }
    let listed = help.lines().skip_while(|l| !l.starts_with("Commands:")).skip(1).take_while(|l| !l.trim().is_empty());
    let names: Vec<&str> =
        listed.filter(|l| l.starts_with("  ") && !l.starts_with("   ")).filter_map(|l| l.split_whitespace().next()).collect();
    let unknown: Vec<&&str> = names.iter().filter(|n| **n != "help" && !COMMANDS.contains(n)).collect();
    assert!(unknown.is_empty(), "not in this test: {unknown:?}");
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = ok(&["completions", shell]);
        assert!(script.contains("dead-letters") && script.contains("unreferenced"), "{shell}");
    }
    assert_eq!(run(&["completions", "tcsh"]).code, 2);
}

#[test]
fn wrong_usage_exits_2_and_writes_to_standard_error_only() {
    for args in [&["nonsense"][..], &[], &["cat"], &["cat", "t", "-f", "json"], &["ingest"], &["ingest", "p.yaml", "--set", "x"]] {
        let ran = run(args);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{args:?}");
        assert!(ran.err.contains("Usage") || ran.err.contains("--help"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn an_error_says_what_where_and_what_next() {
    let lake = Lake::new();
    let ran = run(&["ingest", &lake.path("absent.yaml")]);
    let wanted = format!("error: {}: there is no such file\nhint: give the path of a pipeline file\n", lake.path("absent.yaml"));
    assert_eq!((ran.code, ran.err), (2, wanted));

    let ran = run(&["ingest", &lake.path("absent.yaml"), "--log-format", "json"]);
    let line: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((line["exit_code"].as_i64(), line["kind"].as_str()), (Some(2), Some("Invalid")));
    assert_eq!(line["hint"], "give the path of a pipeline file");
}

#[test]
fn a_place_without_a_table_is_refused_by_every_command_that_looks() {
    let lake = Lake::new();
    for command in
        ["info", "schema", "snapshots", "snapshot", "manifests", "files", "partitions", "cat", "count", "audit", "verify", "dead-letters"]
    {
        let ran = run(&[command, &lake.table()]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{command}: {}", ran.err);
        assert!(ran.err.starts_with("error: ") && ran.err.contains(&lake.table()), "{command}: {}", ran.err);
    }
    assert!(!lake.root().join("lake").exists(), "looking made something");
}

#[test]
fn config_prints_a_pipeline_file_that_means_the_same() {
    let lake = Lake::new();
    let yaml = ok(&["config", &lake.pipeline(), "--set", "checkpoint.rows=7"]);
    let again = lake.write("again.yaml", &yaml);
    assert_eq!(ok(&["config", &again]), yaml);
    let json: serde_json::Value = serde_json::from_str(&ok(&["config", &again, "-o", "json"])).unwrap();
    assert_eq!(json["checkpoint"]["rows"], 7);
    assert_eq!(json["sinks"][0]["location"], lake.table());
    assert_eq!(run(&["config", &again, "-o", "csv"]).code, 2);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = ran(table_cli(&["completions", "bash"]).stdout(writer).stderr(Stdio::piped()).output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = ran(table_cli(&["completions", "bash"]).stdout(full).stderr(Stdio::piped()).output().unwrap());
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: standard output: it cannot be written"), "{}", ran.err);
}
