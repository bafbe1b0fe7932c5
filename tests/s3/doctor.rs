//! `table-cli doctor` at S3 servers, one that can carry exactly-once and one that only seems to.

use std::process::Output;

use serde_json::Value;

use super::server::{Server, settings};
use crate::cli::table_cli;

fn doctor(server: &Server, more: &[&str]) -> (i32, Vec<Value>, String) {
    let args = [&["doctor", "s3://lake/shop.db", "-o", "jsonl"], more].concat();
    let Output { status, stdout, stderr } = table_cli(&args).envs(settings(&server.address)).output().unwrap();
    let lines = String::from_utf8(stdout).unwrap().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    (status.code().unwrap(), lines, String::from_utf8(stderr).unwrap())
}

fn failed(checks: &[Value]) -> Vec<&str> {
    checks.iter().filter(|c| c["result"] == "failed").map(|c| c["check"].as_str().unwrap()).collect()
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn doctor_passes_a_bucket_whose_creates_have_one_winner() {
    let server = Server::moto();
    let (code, checks, err) = doctor(&server, &[]);
    assert_eq!(code, 0, "{checks:#?}\n{err}");
    assert!(checks.iter().all(|c| c["result"] == "ok"), "{checks:#?}");
    let race = checks.iter().find(|c| c["check"] == "race to create").unwrap();
    assert_eq!(race["detail"], "16 racers, each over a connection of its own: one winner in 40 of 40 rounds");
}

#[test]
#[ignore = "needs s3s-fs in target/interop (tests/setup.sh)"]
fn doctor_finds_out_a_server_that_refuses_a_second_create_and_lets_many_win_at_once() {
    let server = Server::s3s_fs();
    let (code, checks, err) = doctor(&server, &[]);
    assert_eq!(code, 3, "{checks:#?}\n{err}");
    assert_eq!(failed(&checks), ["race to create"], "{checks:#?}");
    let of = |name: &str| checks.iter().find(|c| c["check"] == name).unwrap();
    assert_eq!(of("create twice")["result"], "ok");
    let detail = of("race to create")["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("more than one winner in ") && detail.contains("cannot carry exactly-once with several writers"),
        "{detail}"
    );
    println!("{detail}");
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn doctor_at_a_bucket_that_is_not_there_says_so_and_exits_2() {
    let server = Server::moto();
    let output = table_cli(&["doctor", "s3://no-such-bucket/x"]).envs(settings(&server.address)).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("create the bucket"), "{err}");
}
