//! `table-cli demo` from the outside: what it reports, what it leaves, what it refuses, how it stops.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lakeward::table::{CommitUser, Table};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::cli::{Ran, run, table_cli};

/// Few enough for a debug build, and enough for a kill in the middle.
const ORDERS: u64 = 20_000;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }
    fn dir(&self) -> PathBuf {
        self.0.path().join("demo")
    }
    fn path(&self, name: &str) -> String {
        self.dir().join(name).to_str().unwrap().to_owned()
    }
    fn args(&self, form: &'static str) -> [String; 7] {
        ["demo", "--rows", &ORDERS.to_string(), "--dir", self.dir().to_str().unwrap(), "-o", form].map(str::to_owned)
    }
    fn run(&self, form: &'static str) -> Ran {
        run(&self.args(form).each_ref().map(String::as_str))
    }
    fn spawn(&self) -> Child {
        let args = self.args("json");
        table_cli(&args.each_ref().map(String::as_str)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn report(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The first commit of the demo's own pipeline.
fn first_commit(place: &Place) {
    until("no commit came", || place.dir().join("lake/shop.db/orders/snapshot/snapshot-1").exists());
}

#[test]
fn killed_twice_the_demo_has_every_order_once_and_every_broken_one_among_the_dead_letters() {
    let place = Place::new();
    let ran = place.run("json");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report = report(&ran.out);
    let broken = ORDERS / 1000;
    let produced = &report["produced"];
    assert_eq!((&produced["orders"], &produced["good"], &produced["broken"]), (&json!(ORDERS), &json!(ORDERS - broken), &json!(broken)));
    assert_eq!(produced["amount"], report["amount"]);
    for (table, rows) in [("orders", ORDERS - broken), ("orders_dead", broken)] {
        let table = &report[table];
        let counts = ["produced", "rows", "missing", "doubled", "strange"].map(|key| table[key].as_u64());
        assert_eq!(counts, [Some(rows), Some(rows), Some(0), Some(0), Some(0)], "{table}");
        let checks = run(&["audit", table["location"].as_str().unwrap()]);
        assert_eq!(checks.code, 0, "{}\n{}", checks.out, checks.err);
    }
    assert_eq!((&report["exact"], &report["findings"], &report["seed"]), (&json!(true), &json!([]), &json!(42)));
    let kills = report["kills"].as_array().unwrap();
    assert_eq!(kills.len(), 2);
    for kill in kills {
        let (before, after) = (kill["orders_covered"].as_u64().unwrap(), kill["rows_visible"].as_u64().unwrap());
        assert!(before > ORDERS / 5 && after > ORDERS / 5 && before < ORDERS, "in the middle: {kill}");
        assert!(kill["recovery_ms"].as_u64().unwrap() > 0, "{kill}");
        // What the next process did is what the place of the kill asked for.
        let (recognised, committed) = (kill["recognised_commits"].as_u64().unwrap(), kill["committed_at_start"].as_u64().unwrap());
        match kill["hit"].as_str().unwrap() {
            "between_checkpoint_and_commit" => assert!(committed > 0, "{kill}"),
            _ => assert!(recognised > 0 && committed == 0, "{kill}"),
        }
    }
    let stages: u64 = report["dead_letters_by_stage"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!((stages, report["dead_letters"].as_array().unwrap().len()), (broken, 3));
    let amount = Command::new("sh")
        .arg("-c")
        .arg(format!("{} cat {} --columns amount -o csv", env!("CARGO_BIN_EXE_table-cli"), place.path("lake/shop.db/orders")))
        .output()
        .unwrap();
    let text = String::from_utf8(amount.stdout).unwrap();
    let cents: u64 = text.lines().skip(1).map(|l| l.replace('.', "").parse::<u64>().unwrap()).sum();
    assert_eq!(format!("{}.{:02}", cents / 100, cents % 100), produced["amount"].as_str().unwrap());
}

#[test]
fn the_page_fits_a_screen_and_every_command_on_it_works_as_it_is_printed() {
    let place = Place::new();
    let ran = place.run("table");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = &ran.out;
    for part in ["20,000 orders", "kill -9", "recovery", "nothing is missing, nothing is doubled", "Three of the dead letters:"] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    assert!(page.lines().count() <= 60, "{page}");
    let commands: Vec<&str> = page.lines().filter_map(|l| l.strip_prefix("  t ")).collect();
    assert!(commands.len() >= 6, "{page}");
    for command in commands {
        let line = format!("{} {command}", env!("CARGO_BIN_EXE_table-cli"));
        let output = Command::new("sh").arg("-c").arg(&line).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
    // Once more in the same place: what an earlier demo left is replaced, and the seed gives the same orders.
    let again = place.run("json");
    assert_eq!(again.code, 0, "{}", again.err);
    let amount = report(&again.out)["amount"].as_str().unwrap().to_owned();
    assert!(page.contains(&format!("{amount} in the table")), "{amount}\n{page}");
}

#[tokio::test]
async fn a_row_that_somebody_else_writes_again_ends_the_demo_with_3() {
    let place = Place::new();
    let child = place.spawn();
    first_commit(&place);
    let table = Table::open(&place.path("lake/shop.db/orders")).await.unwrap();
    let batch = table.scan().rows().await.unwrap().next().await.unwrap().unwrap().slice(0, 2);
    let user = CommitUser::new("somebody-else");
    let mut write = table.new_write(&user).unwrap();
    write.write(&batch).await.unwrap();
    table.new_commit(&user).commit(1, write.prepare_commit().await.unwrap()).await.unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3), "{}", String::from_utf8_lossy(&ended.stderr));
    let report = report(std::str::from_utf8(&ended.stdout).unwrap());
    assert_eq!((&report["exact"], &report["orders"]["doubled"], &report["orders"]["missing"]), (&json!(false), &json!(2), &json!(0)));
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|f| f == "orders: 2 rows are doubled"), "{findings:?}");
    assert!(findings.iter().any(|f| f.as_str().unwrap().contains("the amounts come to")), "{findings:?}");
}

#[test]
fn a_directory_with_something_else_in_it_is_refused_and_left_as_it_is() {
    let place = Place::new();
    std::fs::create_dir_all(place.dir()).unwrap();
    std::fs::write(place.dir().join("thesis.txt"), "years of work").unwrap();
    let ran = place.run("json");
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("thesis.txt is there, and no demo has written it") && ran.err.contains("--dir"), "{}", ran.err);
    let left: Vec<_> = std::fs::read_dir(place.dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["thesis.txt"]);
    let csv = place.run("csv");
    assert_eq!(csv.code, 2, "a report is no list of rows");
}

/// The parent of a process; none: it is over, whether or not somebody has waited for it.
fn alive(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `pid (name) state ppid ...`
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" { None } else { fields.next()?.parse().ok() }
}

/// The processes that `parent` has started and that are not over.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse::<u32>().ok());
    all.filter(|pid| alive(*pid) == Some(parent)).collect()
}

#[test]
fn a_signal_ends_the_demo_and_its_processes_and_so_does_its_own_death() {
    for (signal, code) in [(Signal::INT, Some(75)), (Signal::TERM, Some(75)), (Signal::KILL, None)] {
        let place = Place::new();
        let mut child = place.spawn();
        first_commit(&place);
        let own = children(child.id());
        assert!(!own.is_empty(), "no process is at work");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let began = Instant::now();
        assert_eq!(child.wait().unwrap().code(), code);
        assert!(began.elapsed() < Duration::from_secs(10));
        until("a process outlived the demo", || own.iter().all(|pid| alive(*pid).is_none()));
    }
}
