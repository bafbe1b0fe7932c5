//! Decoding NDJSON of about 200 bytes and 10 columns: ours beside arrow-json, on the same records and to the same columns.
//!
//! Besides criterion's figures it prints CPU seconds per million records, taken in pairs, one after the other.
#![allow(clippy::unwrap_used, reason = "a benchmark may")]

mod orders;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use lakeward::decode::{CsvOptions, Mapping, RecordFormat, make_decoder};
use lakeward::source::{Origin, Records};

const ROWS: usize = 20_000;

fn records() -> Records {
    let mut bytes = Vec::new();
    let (mut ends, mut offsets) = (Vec::new(), Vec::new());
    for i in 0..ROWS {
        offsets.push(bytes.len() as u64);
        orders::write(&mut bytes, i as u64);
        ends.push(bytes.len());
    }
    Records {
        origin: Arc::new(Origin { split: "a".into(), name: "a.ndjson".into(), partition: None, header: None }),
        bytes: bytes.into(),
        ends,
        start: 0,
        offsets,
        lines: Vec::new(),
        timestamps: Vec::new(),
        keys: Vec::new(),
        headers: Vec::new(),
        faults: Vec::new(),
        nulls: Vec::new(),
    }
}

fn ours(mapping: &Mapping, records: &Records) -> usize {
    let mut decoder = make_decoder(RecordFormat::Json, mapping, &CsvOptions::default()).unwrap();
    let decoded = decoder.decode(records).unwrap();
    assert!(decoded.rejects.is_empty(), "{:?}", decoded.rejects);
    decoded.batch.num_rows()
}

fn theirs(schema: &SchemaRef, records: &Records) -> usize {
    let mut decoder = arrow_json::ReaderBuilder::new(Arc::clone(schema)).with_batch_size(ROWS).build_decoder().unwrap();
    decoder.decode(&records.bytes).unwrap();
    decoder.flush().unwrap().unwrap().num_rows()
}

/// CPU seconds of this thread, which does all the work.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn per_million(mut run: impl FnMut() -> usize) -> f64 {
    let start = cpu();
    let rows: usize = (0..10).map(|_| run()).sum();
    (cpu() - start) * 1e6 / rows as f64
}

fn decode(c: &mut Criterion) {
    let (mapping, records) = (orders::mapping(), records());
    let schema = mapping.schema.to_arrow();
    println!("{} bytes a record", records.bytes.len() / ROWS);
    for _ in 0..5 {
        let (a, b) = (per_million(|| ours(&mapping, &records)), per_million(|| theirs(&schema, &records)));
        println!("CPU s per million records: ours {a:.3}, arrow-json {b:.3}");
    }
    let mut group = c.benchmark_group("decode");
    group.throughput(Throughput::Elements(ROWS as u64)).sample_size(20);
    group.bench_function("ours", |b| b.iter(|| ours(&mapping, &records)));
    group.bench_function("arrow-json", |b| b.iter(|| theirs(&schema, &records)));
    group.finish();
}

criterion_group!(benches, decode);
criterion_main!(benches);
