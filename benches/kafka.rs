//! The main job: a Kafka topic of 4 partitions with 2M JSON messages of about 200 bytes into a Paimon table, against bare consuming plus bare
//! decoding plus bare encoding of the same messages. Each part is a process of its own; what counts is its CPU seconds, and its peak memory.
//!
//! Wants Kafka: `tests/setup.sh` installs it, this starts and stops it. `cargo bench --bench kafka [-- MESSAGES [ROUNDS]]`
//!
//! * consume: librdkafka's client, polled, doing nothing with what comes;
//! * decode: arrow-json over the same bytes, without Kafka;
//! * decode+encode: the same, and the `parquet` crate's writer with the settings of the pipeline, into nothing;
//! * pipeline: the library with `stop: end`, files on local disk with fsync, a checkpoint every ten seconds at least.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a benchmark may")]
#![expect(clippy::disallowed_methods, reason = "a benchmark has a stop watch")]

mod orders;

use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use lakeward::pipeline::file::PipelineFile;
use lakeward::pipeline::run::Pipeline;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer};
use rdkafka::{Message as _, Offset, TopicPartitionList};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 4;
/// The broker, by the script of the tests.
struct Broker {
    dir: tempfile::TempDir,
    address: String,
}

impl Broker {
    fn start() -> Broker {
        let dir = tempfile::tempdir().unwrap();
        let port = 20_000 + std::process::id() % 12_000;
        let done = script().arg("start").arg(dir.path()).arg(port.to_string()).status().unwrap();
        assert!(done.success(), "no Kafka; tests/setup.sh installs it");
        Broker { dir, address: format!("127.0.0.1:{port}") }
    }
    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address);
        config
    }
    /// Creates the topic and fills it; what was sent also goes into a file.
    fn fill(&self, messages: u64, file: &Path) {
        let class = ["tool", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", &self.address, "--create", "--topic", TOPIC];
        assert!(script().args(class).args(["--partitions", &PARTITIONS.to_string()]).status().unwrap().success());
        let mut config = self.client();
        config.set("linger.ms", "20").set("batch.num.messages", "10000").set("queue.buffering.max.messages", "200000");
        let producer: ThreadedProducer<DefaultProducerContext> = config.create().unwrap();
        let (mut line, mut out) = (Vec::new(), BufWriter::new(std::fs::File::create(file).unwrap()));
        for i in 0..messages {
            line.clear();
            orders::write(&mut line, i);
            out.write_all(&line).unwrap();
            let value = &line[..line.len() - 1];
            let mut record = BaseRecord::<(), [u8]>::to(TOPIC).partition(i32::try_from(i % 4).unwrap()).payload(value);
            while let Err((_, back)) = producer.send(record) {
                record = back;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        out.flush().unwrap();
        producer.flush(Duration::from_secs(120)).unwrap();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = script().arg("stop").arg(self.dir.path()).status();
    }
}

fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/broker.sh"))
}

fn consume(address: &str, messages: u64) -> u64 {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address).set("group.id", "bare").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(TOPIC, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&list).unwrap();
    let (mut seen, mut bytes) = (0, 0);
    while seen < messages {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            bytes += message.unwrap().payload().map_or(0, <[u8]>::len);
            seen += 1;
        }
    }
    assert!(bytes > 0);
    seen
}

/// Decodes everything and drops it; or encodes it too, into nothing.
fn bare(file: &Path, encode: bool) -> u64 {
    let schema = orders::mapping().schema.to_arrow();
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap())).build();
    let mut writer = ArrowWriter::try_new(std::io::sink(), schema.clone(), Some(properties)).unwrap();
    let mut decoder = arrow_json::ReaderBuilder::new(schema).with_batch_size(8192).build_decoder().unwrap();
    let mut rows = 0;
    let mut take = |batch: Option<RecordBatch>| {
        let Some(batch) = batch else { return };
        rows += batch.num_rows() as u64;
        if encode {
            writer.write(&batch).unwrap();
        }
    };
    let mut file = std::fs::File::open(file).unwrap();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        let mut at = 0;
        while at < read {
            let used = decoder.decode(&buffer[at..read]).unwrap();
            at += used;
            if at < read || used == 0 {
                take(decoder.flush().unwrap());
            }
        }
    }
    take(decoder.flush().unwrap());
    writer.close().unwrap();
    rows
}

fn pipeline(address: &str, dir: &Path) -> u64 {
    let columns: Vec<String> = orders::COLUMNS.iter().map(|(n, t)| format!("{n}: '{t}'")).collect();
    let text = format!(
        "version: 1\npipeline: bench\nsource: {{kafka: {{bootstrap_servers: '{address}', topics: [{TOPIC}], start: earliest, stop: end}}}}\n\
         sinks: [{{location: t, columns: {{{}}}}}]\ncheckpoint: {{location: c, every: 10s}}\n",
        columns.join(", ")
    );
    let file = PipelineFile::parse(&text, "bench.yaml", dir, &[], &|_| None).unwrap();
    // As the command does it.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { Pipeline::from_parts(file).start().await.unwrap().finish().await.unwrap() }).rows
}

/// CPU seconds and peak resident MiB of this process so far.
fn usage() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = [11, 12].iter().map(|i| fields[*i].parse::<f64>().unwrap()).sum();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap();
    (ticks / 100.0, peak.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0)
}

/// What one part took.
struct Cost {
    cpu: f64,
    peak: f64,
    wall: f64,
}

/// Runs a part in a process of its own.
fn part(name: &str, address: &str, file: &Path, messages: u64) -> Cost {
    let dir = tempfile::tempdir().unwrap();
    let started = Instant::now();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let out = command.args(["--part", name, address, &messages.to_string()]).arg(file).arg(dir.path()).output().unwrap();
    assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let words: Vec<f64> = text.split_whitespace().map(|w| w.parse().unwrap()).collect();
    assert_eq!(words[2] as u64, messages, "{name}: every message once");
    Cost { cpu: words[0], peak: words[1], wall: started.elapsed().as_secs_f64() }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|a| a == "--part") {
        let [name, address, messages, file, dir] = &args[at + 1..at + 6] else { panic!("five words") };
        let rows = match name.as_str() {
            "consume" => consume(address, messages.parse().unwrap()),
            "decode" => bare(Path::new(file), false),
            "decode+encode" => bare(Path::new(file), true),
            _ => pipeline(address, Path::new(dir)),
        };
        let (cpu, peak) = usage();
        println!("{cpu} {peak} {rows}");
        return;
    }
    let mut numbers = args.iter().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let messages = numbers.next().unwrap_or(2_000_000);
    let rounds = numbers.next().unwrap_or(3);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("messages");
    let broker = Broker::start();
    broker.fill(messages, &file);
    let bytes = std::fs::metadata(&file).unwrap().len() / messages;
    println!("{messages} messages of {bytes} bytes in {PARTITIONS} partitions; CPU seconds per million messages");
    println!(
        "{:>8} {:>8} {:>8} {:>8} {:>9} {:>7} {:>9} {:>10}",
        "consume", "decode", "encode", "sum", "pipeline", "ratio", "peak MiB", "wall s"
    );
    for _ in 0..rounds {
        let run = |name| part(name, &broker.address, &file, messages);
        let (consume, decode, both, pipeline) = (run("consume"), run("decode"), run("decode+encode"), run("pipeline"));
        let per = |seconds: f64| seconds / messages as f64 * 1e6;
        let sum = consume.cpu + both.cpu;
        println!(
            "{:>8.3} {:>8.3} {:>8.3} {:>8.3} {:>9.3} {:>7.3} {:>9.0} {:>10.1}",
            per(consume.cpu),
            per(decode.cpu),
            per(both.cpu - decode.cpu),
            per(sum),
            per(pipeline.cpu),
            pipeline.cpu / sum,
            pipeline.peak,
            pipeline.wall,
        );
    }
}
