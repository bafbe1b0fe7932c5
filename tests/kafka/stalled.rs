//! A store that takes nothing: what is fetched, decoded and waits stays within `memory:`, however many partitions there are and however much
//! input waits; and when the store is back every record is there once.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lakeward::pipeline::Pipeline;
use lakeward::store::{DiskObserver, DiskOp};

use super::broker::Broker;
use super::produce::{Message, Producer};

const PARTITIONS: i32 = 200;
const RECORDS: u64 = 300_000;
const STALL: Duration = Duration::from_secs(12);
/// Bytes of a record, about.
const EACH: usize = 400;

/// The disk is full for a while, for data files.
struct Full {
    until: Instant,
}

impl DiskObserver for Full {
    fn before(&self, op: &DiskOp<'_>) -> io::Result<()> {
        let path: &Path = match op {
            DiskOp::CreateFile(path) | DiskOp::Write { path, .. } => path,
            _ => return Ok(()),
        };
        let data = path.components().any(|c| c.as_os_str().to_string_lossy().starts_with("bucket-"));
        if data && Instant::now() < self.until { Err(io::Error::from_raw_os_error(28)) } else { Ok(()) }
    }
    fn after(&self, _: &DiskOp<'_>) {}
}

fn memory(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(key)).unwrap();
    line.trim().trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Not a test: the run of the next one, in a process of its own.
#[test]
#[ignore = "part of the next test"]
fn child_whose_disk_is_full() {
    let Some(file) = std::env::var_os("LAKEWARD_STALLED") else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let before = memory("VmRSS");
    let started = Instant::now();
    let full = Arc::new(Full { until: started + STALL });
    let watcher = std::thread::spawn(|| {
        std::thread::sleep(STALL - Duration::from_secs(1));
        memory("VmHWM")
    });
    let report = runtime.block_on(async {
        let run = Pipeline::from_file(Path::new(&file)).unwrap().disk(full).start().await.unwrap();
        run.finish().await.unwrap()
    });
    let stalled = watcher.join().unwrap();
    println!("stalled {before} {stalled} {} {}", memory("VmHWM"), report.rows);
    assert!(started.elapsed() >= STALL, "nothing was held up");
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_store_that_takes_nothing_holds_back_200_partitions_within_the_memory() {
    let broker = Broker::start();
    broker.create_topic("t", PARTITIONS, &[]);
    let producer = Producer::new(&broker, &[]);
    let pad = "x".repeat(EACH - 40);
    for id in 0..RECORDS {
        let partition = i32::try_from(id % u64::from(PARTITIONS.unsigned_abs())).unwrap();
        producer.send("t", partition, &Message::new(format!("{{\"id\":{id},\"pad\":\"{pad}\"}}")));
    }
    producer.flush();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pipeline.yaml");
    let text = format!(
        "version: 1\npipeline: stalled\nsource: {{kafka: {{bootstrap_servers: '{}', topics: [t], start: earliest, stop: end}}}}\n\
         sinks: [{{location: t, columns: {{id: BIGINT NOT NULL, pad: STRING}}}}]\ncheckpoint: {{location: c, every: 1s}}\n\
         memory: 64MiB\nthreads: 2\n",
        broker.address
    );
    std::fs::write(&file, text).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kafka::stalled::child_whose_disk_is_full", "--ignored", "--nocapture"])
        .env("LAKEWARD_STALLED", &file)
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success(), "{out}{}", String::from_utf8_lossy(&child.stderr));
    let line = out.lines().find_map(|l| l.split_once("stalled ").map(|(_, rest)| rest.to_owned())).unwrap();
    let [before, stalled, peak, rows] = line.split(' ').map(|w| w.parse::<u64>().unwrap()).collect::<Vec<_>>()[..] else {
        panic!("{line}")
    };
    let input = (RECORDS * EACH as u64) >> 20;
    println!(
        "{PARTITIONS} partitions, {input} MiB of input, memory: 64MiB: {before} MiB before, peak {stalled} MiB while stalled, {peak} MiB in all"
    );
    assert_eq!(rows, RECORDS);
    assert!(stalled - before <= 64, "{stalled} MiB while the store took nothing, {before} MiB before");
}
