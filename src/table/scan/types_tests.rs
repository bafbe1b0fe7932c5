//! Every type, through the writer and back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use futures::TryStreamExt as _;
use proptest::prelude::*;

use super::tests::{files, memory, writer};
use super::*;
use crate::datafile::random::{self, Dice};
use crate::datafile::{StatsMode, WriterOptions};

fn table(columns: Vec<Field>) -> Arc<Schema> {
    let mut next = 0;
    Arc::new(Schema { id: 0, fields: columns.iter().map(|f| f.numbered(&mut next)).collect(), partition_by: vec![] })
}

fn rows(schema: &Schema, count: usize, dice: &mut Dice) -> RecordBatch {
    let columns: Vec<ArrayRef> = schema.fields.iter().map(|f| random::array(&f.data_type, f.nullable, count, dice)).collect();
    RecordBatch::try_new(schema.to_arrow(), columns).unwrap()
}

async fn back(store: &Store, schema: &Arc<Schema>, files: Vec<ScanFile>) -> RecordBatch {
    let batches: Vec<RecordBatch> =
        Scan::new(store.clone(), schema.clone(), []).read(files).unwrap().into_stream().try_collect().await.unwrap();
    concat_batches(&schema.to_arrow(), &batches).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn rows_of_any_type_come_back_as_they_were(columns in random::columns(3, 1..5), seed in any::<u64>(), split in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (store, schema, dice) = (memory(), table(columns), &mut Dice(seed));
            // A budget of nothing: each batch becomes a row group or a file of its own.
            let options = WriterOptions { memory: if split { 0 } else { 1 << 20 }, stats: StatsMode::Full, ..Default::default() };
            let mut writer = writer(&store, &schema, options);
            let mut written = Vec::new();
            for _ in 0..3 {
                let batch = rows(&schema, dice.below(30) + 1, dice);
                // A slice: its lists do not begin at the first value.
                let batch = batch.slice(batch.num_rows() / 3, batch.num_rows() - batch.num_rows() / 3);
                writer.write(&batch).await.unwrap();
                written.push(batch);
            }
            let files = files(writer.prepare().await.unwrap());
            let expected = concat_batches(&schema.to_arrow(), &written).unwrap();
            let nulls: Vec<(&str, u64)> = schema.fields.iter().zip(expected.columns()).filter(|(f, _)| !f.data_type.is_nested())
                .map(|(f, a)| (f.name.as_str(), a.null_count() as u64)).collect();
            for (name, nulls) in nulls {
                let of = |f: &ScanFile| f.stats.iter().find(|s| s.column == name).unwrap().nulls;
                prop_assert_eq!(files.iter().map(of).sum::<u64>(), nulls, "nulls of {}", name);
            }
            let nested = |s: &ColumnStats| schema.field(&s.column).unwrap().data_type.is_nested();
            prop_assert!(!files.iter().flat_map(|f| &f.stats).any(nested), "statistics of a nested column");
            let read = back(&store, &schema, files).await;
            for (column, (read, expected)) in schema.fields.iter().zip(read.columns().iter().zip(expected.columns())) {
                prop_assert_eq!(read, expected, "{}: {}", column.name, column.type_text());
            }
            Ok(())
        })?;
    }
}
