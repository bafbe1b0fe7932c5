//! The scenarios of `tests/process` on a bucket: directly, and through a network that does everything wrong that a network can.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::proxy::{Proxy, Weather};
use super::server::{KEY, Server};
use crate::process::{Bucket, Place, finish, scenarios, tally};

/// A proxy before a server, in bad weather.
fn bad(server: &Server, seed: u64) -> Proxy {
    Proxy::start(&server.address, Weather { seed, per_mille: 120, away: Duration::from_secs(5), aways: 1, from: "" })
}

fn fixture(name: &str, server: &Arc<Server>, address: &str) -> Place {
    Place::fixture(name).on(Bucket::new(server, address))
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn the_three_scenarios_hold_on_a_bucket() {
    let server = Arc::new(Server::moto());
    scenarios::two_seconds(&fixture("generator", &server, &server.address));
    scenarios::killed_early(&fixture("unbounded", &server, &server.address));
    assert!((0..3).any(|_| scenarios::dies(&fixture("failing", &server, &server.address), true)), "row 120 came with no file open");
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn the_three_scenarios_hold_on_a_bucket_behind_a_bad_network() {
    let server = Arc::new(Server::moto());
    let proxy = bad(&server, 11);
    scenarios::two_seconds(&fixture("generator", &server, &proxy.address));
    scenarios::killed_early(&fixture("unbounded", &server, &proxy.address));
    assert!(scenarios::dies(&fixture("failing", &server, &proxy.address), false));
    println!("{} requests: {:?}", proxy.requests(), proxy.counts());
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn on_a_bucket_too_the_next_run_says_what_had_landed_and_finishes_what_had_not() {
    let server = Arc::new(Server::moto());
    let to = |place: Place| place.on(Bucket::new(&server, &server.address));
    finish::pending(&to);
    finish::end_in_one_sink(&to);
}

#[tokio::test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh); a minute"]
async fn behind_a_bad_network_that_does_everything_wrong_every_row_is_there_once() {
    const ROWS: u64 = 20_000;
    let server = Arc::new(Server::moto());
    let proxy = bad(&server, 5);
    let source = format!("generate: {{rows: {ROWS}, rows_per_second: 1000}}");
    let mut place = Place::new(&source, "rows: 400").on(Bucket::new(&server, &proxy.address));
    // Where a catalog looks for it.
    const TABLE: &str = "shop.db/table";
    place.set(&format!("sinks.0.location={}", place.location(TABLE)));
    let ended = place.run(&[]).with(0);
    proxy.assert_all_met();
    println!("{:.1} s", ended.took.as_secs_f64());
    crate::process::assert_exact(&place.snapshots_of(TABLE), ROWS);
    let table = place.look_at(TABLE);
    assert_eq!(tally::read(&[table]), [tally::expected(ROWS).await], "by pypaimon, downloaded");

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = Command::new(root.join(".venv/bin/python"));
    python.arg(root.join("tests/s3/pypaimon_s3.py")).args([
        &format!("http://{}", server.address),
        KEY,
        &place.location(""),
        "shop",
        "table",
    ]);
    let output = python.output().unwrap();
    let found: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(found, json!({"rows": ROWS, "distinct": ROWS, "sum": ROWS * (ROWS + 1) / 2}), "by pypaimon, from the bucket");
}
