//! The orders through the demo's own pipeline, with a file where its topic is.

use std::path::Path;

use arrow::array::AsArray as _;
use arrow::datatypes::Decimal128Type;

use super::orders::Orders;
use super::place;
use crate::pipeline::Pipeline;
use crate::pipeline::file::PipelineFile;
use crate::table::Table;

fn from_a_file(dir: &Path) -> PipelineFile {
    let text = place::pipeline("localhost:1", 2000);
    let (start, end) = (text.find("source:").unwrap(), text.find("sinks:").unwrap());
    let text = format!("{}source: {{files: {{paths: [in.ndjson]}}}}\n{}durability: none\n", &text[..start], &text[end..]);
    PipelineFile::parse(&text, "orders.yaml", dir, &[], &|_| None).unwrap()
}

#[tokio::test]
async fn every_good_order_is_a_row_and_every_broken_one_a_dead_letter_of_its_stage() {
    let dir = tempfile::tempdir().unwrap();
    let orders = Orders { seed: 1, count: 8000, partitions: 1 };
    let (mut all, mut json, mut broken, mut cents, mut good) = (Vec::new(), Vec::new(), Vec::new(), 0, 0);
    for i in 0..orders.count {
        let order = orders.write(i, &mut json);
        all.extend_from_slice(&json);
        all.push(b'\n');
        match order.flaw {
            Some(flaw) => broken.push((json.clone(), flaw.stage().to_owned())),
            None => (cents, good) = (cents + i128::from(order.cents), good + 1),
        }
    }
    std::fs::write(dir.path().join("in.ndjson"), all).unwrap();
    let file = from_a_file(dir.path());
    Pipeline::from_parts(file.clone()).start().await.unwrap().finish().await.unwrap();

    let (mut rows, mut sum) = (0, 0);
    let table = Table::open(&file.sinks[0].location).await.unwrap();
    let mut batches = table.scan().select(["amount"]).rows().await.unwrap();
    while let Some(batch) = batches.next().await.unwrap() {
        rows += batch.num_rows();
        sum += batch.column(0).as_primitive::<Decimal128Type>().iter().flatten().sum::<i128>();
    }
    assert_eq!((rows, sum), (good, cents));

    let mut dead = Vec::new();
    let table = Table::open(&file.dead_letter.unwrap().location).await.unwrap();
    let mut batches = table.scan().select(["value", "stage"]).rows().await.unwrap();
    while let Some(batch) = batches.next().await.unwrap() {
        let (values, stages) = (batch.column(0).as_binary::<i32>(), batch.column(1).as_string::<i32>());
        dead.extend(values.iter().zip(stages.iter()).map(|(v, s)| (v.unwrap().to_vec(), s.unwrap().to_owned())));
    }
    dead.sort();
    broken.sort();
    assert_eq!(broken.len(), 8);
    let shown = |all: &[(Vec<u8>, String)]| all.iter().map(|(v, s)| format!("{s} {}", String::from_utf8_lossy(v))).collect::<Vec<_>>();
    assert_eq!(shown(&dead), shown(&broken));
}
