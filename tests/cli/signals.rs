//! SIGINT and SIGTERM in the middle of a run.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Lake, ok, rows, table_cli};

const SLOW: [&str; 4] = ["--set", "source.generate.rows_per_second=20", "--set", "checkpoint.every=1s"];

fn started(lake: &Lake) -> Child {
    let pipeline = lake.pipeline();
    let args: Vec<&str> = ["ingest", pipeline.as_str()].into_iter().chain(SLOW).collect();
    table_cli(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn until_rows(lake: &Lake) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !lake.root().join("lake/shop.db/orders/snapshot/snapshot-1").exists() {
        assert!(Instant::now() < deadline, "no commit came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ids(lake: &Lake) -> Vec<i64> {
    let mut ids: Vec<i64> = rows(&["cat", &lake.table()]).iter().map(|r| r["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_signal_commits_what_was_read_and_the_next_run_goes_on() {
    for signal in [Signal::INT, Signal::TERM] {
        let lake = Lake::new();
        let child = started(&lake);
        until_rows(&lake);
        std::thread::sleep(Duration::from_millis(500)); // so that something was read since the last checkpoint
        send(&child, signal);
        let ended = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{err}");
        let sum: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert_eq!(sum["closed"], false);
        let read = sum["records"].as_i64().unwrap();
        assert!(read < 100, "the run was over before the signal came");
        assert_eq!(ids(&lake), (1..=read).collect::<Vec<_>>());
        ok(&["ingest", &lake.pipeline()]);
        assert_eq!(ids(&lake), (1..=100).collect::<Vec<_>>());
    }
}

#[test]
fn a_second_signal_ends_the_process_at_once_and_the_next_run_is_exact() {
    let lake = Lake::new();
    let child = started(&lake);
    until_rows(&lake);
    // Both arrive together, while the process cannot act on the first.
    send(&child, Signal::STOP);
    send(&child, Signal::INT);
    send(&child, Signal::TERM);
    send(&child, Signal::CONT);
    let ended = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(75), "{err}");
    assert!(err.contains("a second signal came") && err.contains("hint: nothing is lost"), "{err}");
    ok(&["ingest", &lake.pipeline()]);
    assert_eq!(ids(&lake), (1..=100).collect::<Vec<_>>());
}
