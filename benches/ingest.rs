//! The main job beside its parts: 2M NDJSON rows of about 200 bytes and 10 columns into a Paimon table, against bare decoding plus bare
//! Parquet encoding of the same rows. Each part is a process of its own; what counts is its CPU seconds, and its peak memory.
//!
//! `cargo bench --bench ingest [-- ROWS]`
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark may")]

mod orders;

use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::RecordBatch;
use lakeward::decode::{CsvOptions, RecordFormat, make_decoder};
use lakeward::pipeline::file::PipelineFile;
use lakeward::pipeline::run::Pipeline;
use lakeward::source::{Origin, Records};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn write_input(path: &Path, rows: u64) {
    let mut out = BufWriter::new(std::fs::File::create(path).unwrap());
    (0..rows).for_each(|i| orders::write(&mut out, i));
    out.flush().unwrap();
}

/// Lines of the file in chunks of a megabyte, without a copy more than needed.
fn chunks(path: &Path, mut each: impl FnMut(Records)) {
    let origin = Arc::new(Origin { split: "a".into(), name: "a".into(), partition: None, header: None });
    let mut file = std::fs::File::open(path).unwrap();
    let (mut rest, mut offset) = (Vec::new(), 0u64);
    loop {
        let mut buffer = std::mem::take(&mut rest);
        let had = buffer.len();
        buffer.resize(had + (1 << 20), 0);
        let read = file.read(&mut buffer[had..]).unwrap();
        buffer.truncate(had + read);
        if read == 0 {
            break;
        }
        let last = buffer.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
        rest = buffer.split_off(last);
        let ends: Vec<usize> = buffer.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
        let mut records = Records::none(origin.clone());
        records.offsets = std::iter::once(0).chain(ends.iter().copied()).take(ends.len()).map(|e| offset + e as u64).collect();
        offset += buffer.len() as u64;
        records.ends = ends;
        records.bytes = buffer.into();
        each(records);
    }
}

/// Decodes everything and drops it; or encodes it too, into nothing.
fn bare(path: &Path, encode: bool) -> u64 {
    let mapping = orders::mapping();
    let mut decoder = make_decoder(RecordFormat::Json, &mapping, &CsvOptions::default()).unwrap();
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(1).unwrap())).build();
    let mut writer = ArrowWriter::try_new(std::io::sink(), mapping.schema.to_arrow(), Some(properties)).unwrap();
    let mut rows = 0;
    chunks(path, |records| {
        let batch: RecordBatch = decoder.decode(&records).unwrap().batch;
        rows += batch.num_rows() as u64;
        if encode {
            writer.write(&batch).unwrap();
        }
    });
    writer.close().unwrap();
    rows
}

fn ingest(path: &Path) -> u64 {
    let dir = path.parent().unwrap();
    let run = format!("run-{}", std::process::id());
    let columns: Vec<String> = orders::COLUMNS.iter().map(|(n, t)| format!("{n}: '{t}'")).collect();
    let text = format!(
        "version: 1\npipeline: bench\nsource: {{files: {{paths: [{}]}}}}\nsinks: [{{location: {run}/t, columns: {{{}}}}}]\n\
         checkpoint: {{location: {run}/c, rows: 500000}}\nmemory: 256MiB\n",
        path.file_name().unwrap().to_str().unwrap(),
        columns.join(", ")
    );
    let file = PipelineFile::parse(&text, "bench.yaml", dir, &[], &|_| None).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let report = runtime.block_on(async { Pipeline::from_parts(file).start().await.unwrap().finish().await.unwrap() });
    report.rows
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

/// Runs a part in a process of its own: CPU seconds, peak MiB, rows.
fn part(name: &str, input: &Path) -> (f64, f64, u64) {
    let out = Command::new(std::env::current_exe().unwrap()).args(["--part", name]).arg(input).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let mut words = text.split_whitespace();
    let mut next = || words.next().unwrap().parse::<f64>().unwrap();
    (next(), next(), next() as u64)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|a| a == "--part") {
        let path = Path::new(&args[at + 2]);
        let rows = match args[at + 1].as_str() {
            "decode" => bare(path, false),
            "decode+encode" => bare(path, true),
            _ => ingest(path),
        };
        let (cpu, peak) = usage();
        println!("{cpu} {peak} {rows}");
        return;
    }
    let rows: u64 = args.iter().skip(1).find_map(|a| a.parse().ok()).unwrap_or(2_000_000);
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("rows.ndjson");
    write_input(&input, rows);
    let bytes = std::fs::metadata(&input).unwrap().len();
    println!("{rows} rows, {} bytes a row", bytes / rows);
    println!(
        "{:>14} {:>14} {:>14} {:>8} {:>14} {:>14}",
        "decode CPU s", "+encode CPU s", "ingest CPU s", "ratio", "bare peak MiB", "ingest peak"
    );
    for _ in 0..5 {
        let decode = part("decode", &input);
        let both = part("decode+encode", &input);
        let ingest = part("ingest", &input);
        assert_eq!([decode.2, both.2, ingest.2], [rows; 3]);
        println!("{:>14.2} {:>14.2} {:>14.2} {:>8.3} {:>14.0} {:>14.0}", decode.0, both.0, ingest.0, ingest.0 / both.0, both.1, ingest.1);
    }
}
