//! Runs that are looked at from elsewhere: over HTTP, and by the watchdog.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::error::Kind;
use crate::store::{DiskOp, Durability};

fn pipeline(source: &str, more: &str) -> String {
    format!(
        "version: 1\npipeline: gen\nsource: {{generate: {source}}}\nsinks:\n  - location: one\n    columns: {{id: BIGINT NOT NULL}}\n\
         checkpoint: {{location: chain, every: 100ms}}\ndurability: none\n{more}\n"
    )
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn parts(dir: &Path, text: &str) -> Pipeline {
    Pipeline::from_parts(PipelineFile::parse(text, "p.yaml", dir, &[], &|_| None).unwrap())
}

/// Until the run says where it answers.
async fn address(run: &mut Run) -> SocketAddr {
    loop {
        if let Event::Serving { address } = run.next_event().await.expect("it serves") {
            return address;
        }
    }
}

async fn until(run: &mut Run, wanted: impl Fn(&Event) -> bool) -> Event {
    loop {
        let event = run.next_event().await.expect("the run goes on");
        if wanted(&event) {
            return event;
        }
    }
}

/// What is answered to these bytes: status, body.
async fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await
}

fn health(body: &str) -> serde_json::Value {
    serde_json::from_str(body).unwrap()
}

#[tokio::test]
async fn a_run_answers_over_http_until_it_ends() {
    let dir = dir();
    let text = pipeline("{rows_per_second: 500}", "metrics: 127.0.0.1:0");
    let mut run = parts(dir.path(), &text).start().await.unwrap();
    let address = address(&mut run).await;
    assert_ne!(address.port(), 0);
    until(&mut run, |e| matches!(e, Event::Committed { .. })).await;
    // The run is not polled while these are answered.
    let (status, metrics) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(metrics.contains("# TYPE lakeward_rows_committed_total counter\n"), "{metrics}");
    let (status, body) = get(address, "/healthz").await;
    let said = health(&body);
    assert_eq!(
        (status, &said["status"], &said["pipeline"], said["last_identifier"].as_i64()),
        (200, &"running".into(), &"gen".into(), Some(1))
    );
    assert_eq!(get(address, "/metrics?x=1").await.0, 200);
    assert_eq!(get(address, "/").await.0, 404);
    assert_eq!(ask(address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").await.0, 405);
    assert_eq!(ask(address, "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await, (200, String::new()));
    assert_eq!(ask(address, "nonsense\r\n\r\n").await.0, 400);
    run.stop_handle().request();
    run.finish().await.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the port is free again");
}

#[tokio::test]
async fn slow_clients_hold_up_neither_the_run_nor_other_clients() {
    let dir = dir();
    let text = pipeline("{rows: 2000, rows_per_second: 1000}", "metrics: 127.0.0.1:0");
    let mut run = parts(dir.path(), &text).start().await.unwrap();
    let address = address(&mut run).await;
    let mut slow = Vec::new();
    for i in 0..50 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if i % 2 == 0 {
            stream.write_all(b"GET /met").await.unwrap();
        }
        slow.push(stream);
    }
    assert_eq!(get(address, "/metrics").await.0, 200);
    let report = run.finish().await.unwrap();
    assert_eq!(report.rows, 2000);
}

#[tokio::test]
async fn an_address_that_cannot_be_had_stops_a_run_before_anything_is_written() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = taken.local_addr().unwrap().to_string();
    for (address, kind, words) in
        [(own.as_str(), Kind::Unavailable, "is in use"), ("203.0.113.7:9464", Kind::Invalid, "does not have the address")]
    {
        let dir = dir();
        let run = parts(dir.path(), &pipeline("{rows: 5}", &format!("metrics: {address}"))).start().await.unwrap();
        let error = run.finish().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words) && error.to_string().contains("p.yaml:9:10"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{error}");
    }
}

/// Snapshots cannot be published while it is away; it hangs first, if it is told to.
#[derive(Default)]
struct Away {
    away: AtomicBool,
    hangs: AtomicBool,
}

impl DiskObserver for Away {
    #[expect(clippy::disallowed_methods, reason = "a disk that hangs")]
    fn before(&self, op: &DiskOp<'_>) -> std::io::Result<()> {
        let DiskOp::Link { to, .. } = op else { return Ok(()) };
        if !to.to_string_lossy().contains("/snapshot/") {
            return Ok(());
        }
        if self.hangs.swap(false, Ordering::Relaxed) {
            std::thread::sleep(Duration::from_secs(2));
        }
        match self.away.load(Ordering::Relaxed) {
            true => Err(std::io::Error::from_raw_os_error(30)), // EROFS
            false => Ok(()),
        }
    }
    fn after(&self, _: &DiskOp<'_>) {}
}

async fn ids(dir: &Path) -> u64 {
    let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
    let store = Store::open(dir.join("one").to_str().unwrap(), &Env::real(), options).unwrap();
    Table::open_in(store).await.unwrap().scan().count().await.unwrap()
}

#[tokio::test]
async fn a_store_that_goes_away_is_told_and_unhealthy_until_a_commit_lands() {
    let dir = dir();
    let disk = Arc::new(Away::default());
    let text = pipeline("{rows_per_second: 500}", "metrics: 127.0.0.1:0\nwatchdog: {intervals: 3}");
    let mut run = parts(dir.path(), &text).disk(disk.clone()).start().await.unwrap();
    let address = address(&mut run).await;
    until(&mut run, |e| matches!(e, Event::Committed { .. })).await;
    disk.away.store(true, Ordering::Relaxed);
    let event = until(&mut run, |e| matches!(e, Event::Stalled { .. })).await;
    assert!(event.to_string().contains("3 intervals of 100ms"), "{event}");
    let (status, body) = get(address, "/healthz").await;
    assert_eq!((status, &health(&body)["status"]), (503, &"stalled".into()));
    assert!(health(&body)["reason"].as_str().unwrap().contains("the commit of checkpoint"), "{body}");
    assert!(get(address, "/metrics").await.1.contains("lakeward_store_retries_total{pipeline=\"gen\",call=\"create\"}"));
    disk.away.store(false, Ordering::Relaxed);
    until(&mut run, |e| matches!(e, Event::Committed { .. })).await;
    until(&mut run, |e| matches!(e, Event::Checkpointed { .. })).await;
    assert_eq!(get(address, "/healthz").await.0, 200);
    run.stop_handle().request();
    run.finish().await.unwrap();
}

#[tokio::test]
async fn a_watchdog_that_exits_leaves_a_commit_for_the_next_start_and_loses_nothing() {
    let dir = dir();
    let disk = Arc::new(Away::default());
    let text = pipeline("{rows: 400, rows_per_second: 1000}", "watchdog: {intervals: 3, exit: true}");
    let mut run = parts(dir.path(), &text).disk(disk.clone()).start().await.unwrap();
    until(&mut run, |e| matches!(e, Event::Committed { .. })).await;
    disk.away.store(true, Ordering::Relaxed);
    until(&mut run, |e| matches!(e, Event::Stalled { .. })).await;
    let monitor = run.monitor();
    let error = run.finish().await.unwrap_err();
    assert_eq!((error.kind(), error.kind().exit_code()), (Kind::Unavailable, 75), "{error}");
    assert_eq!(monitor.health().status, "failed");
    let report = parts(dir.path(), &text).start().await.unwrap().finish().await.unwrap();
    assert!(report.closed);
    assert_eq!(ids(dir.path()).await, 400);
}

#[tokio::test]
async fn who_asks_is_answered_while_the_disk_hangs_in_a_call() {
    let dir = dir();
    let disk = Arc::new(Away::default());
    let text = pipeline("{rows_per_second: 500}", "metrics: 127.0.0.1:0\nwatchdog: {intervals: 3}");
    let mut run = parts(dir.path(), &text).disk(disk.clone()).start().await.unwrap();
    let address = address(&mut run).await;
    let env = Env::real();
    let asked = env.cpu(move || {
        // On a thread of its own: the run's hangs.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let env = Env::real();
            for _ in 0..200 {
                let (status, body) = get(address, "/healthz").await;
                if status == 503 {
                    return Some(body);
                }
                env.sleep(Duration::from_millis(20)).await;
            }
            None
        })
    });
    disk.hangs.store(true, Ordering::Relaxed);
    let follow = async {
        until(&mut run, |e| matches!(e, Event::Committed { .. })).await;
    };
    let (asked, ()) = futures::join!(asked, follow);
    assert!(asked.expect("503 while it hangs").contains("stalled"));
}
