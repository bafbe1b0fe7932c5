//! Every type, through the writer and back.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, Int32Array, ListArray, RecordBatch, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{self, concat_batches};
use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, TimeUnit};
use futures::TryStreamExt as _;
use parquet::arrow::ArrowWriter;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use super::tests::{files, memory, writer};
use super::*;
use crate::datafile::random::{self, Dice};
use crate::datafile::{StatsMode, WriterOptions};
use crate::error::Kind;

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

async fn refused(scan: Scan, files: Vec<ScanFile>) -> Error {
    match scan.read(files) {
        Ok(mut rows) => rows.next().await.unwrap_err(),
        Err(e) => e,
    }
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
            for (field, array) in schema.fields.iter().zip(expected.columns()) {
                let of = |f: &ScanFile| f.stats.iter().find(|s| s.column == field.name).unwrap().clone();
                let all: Vec<ColumnStats> = files.iter().map(of).collect();
                prop_assert_eq!(all.iter().map(|s| s.nulls).sum::<u64>(), array.null_count() as u64, "nulls of {}", field.name);
                let bounded = all.iter().any(|s| s.min.is_some() || s.max.is_some());
                let unbounded = matches!(field.data_type, DataType::Timestamp(7..) | DataType::TimestampLtz(7..));
                prop_assert!(!bounded || !(field.data_type.is_nested() || unbounded), "bounds of {}", field.name);
            }
            let read = back(&store, &schema, files).await;
            for (column, (read, expected)) in schema.fields.iter().zip(read.columns().iter().zip(expected.columns())) {
                prop_assert_eq!(read, expected, "{}: {}", column.name, column.type_text());
            }
            Ok(())
        })?;
    }
}

fn of(columns: &[(&str, &str)]) -> Arc<Schema> {
    table(columns.iter().map(|(name, text)| Field::parse(0, *name, text).unwrap()).collect())
}

/// A file as another writer's Arrow form makes it.
async fn foreign(store: &Store, columns: Vec<(ArrowField, ArrayRef)>) -> ScanFile {
    let (fields, arrays): (Vec<ArrowField>, Vec<ArrayRef>) = columns.into_iter().unzip();
    let batch = RecordBatch::try_new(Arc::new(ArrowSchema::new(fields)), arrays).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let (path, size) = ("bucket-0/foreign.parquet".to_owned(), bytes.len() as u64);
    store.put(&path, bytes.into()).await.unwrap();
    ScanFile {
        path,
        size,
        rows: batch.num_rows() as u64,
        schema_id: 0,
        partition: vec![],
        stats: vec![],
        bucket: 0,
        created_ms: None,
        deleted: None,
    }
}

#[tokio::test]
async fn other_names_units_and_widths_inside_of_types_are_read() {
    let (store, dice) = (memory(), &mut Dice(3));
    let schema = of(&[
        ("a", "ARRAY<INT NOT NULL>"),
        ("m", "MAP<STRING, ARRAY<TIMESTAMP(3)>>"),
        ("r", "ROW<b BINARY(3), t TIME(0), x TIMESTAMP(9), l ARRAY<STRING>>"),
        ("n", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ]);
    let wanted = rows(&schema, 40, dice);
    // The same values in forms that others write: every list is called something else and large, units are finer, bytes have a fixed length.
    fn other(data_type: &ArrowType) -> ArrowType {
        let field = |name: &str, f: &ArrowField| Arc::new(ArrowField::new(name, other(f.data_type()), true));
        match data_type {
            ArrowType::List(f) => ArrowType::LargeList(field("item", f)),
            ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(|f| field(f.name(), f)).collect()),
            ArrowType::Map(entries, sorted) => {
                let ArrowType::Struct(kv) = entries.data_type() else { panic!("a map is made of structs") };
                let key = Arc::new(ArrowField::new("keys", other(kv[0].data_type()), false));
                let kv = ArrowType::Struct(vec![key, field("values", &kv[1])].into());
                ArrowType::Map(Arc::new(ArrowField::new("entries", kv, false)), *sorted)
            }
            ArrowType::Binary => ArrowType::FixedSizeBinary(3),
            ArrowType::Time32(_) => ArrowType::Time64(TimeUnit::Microsecond),
            ArrowType::Timestamp(TimeUnit::Millisecond, zone) => ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            plain => plain.clone(),
        }
    }
    let columns = schema.fields.iter().zip(wanted.columns()).map(|(f, array)| {
        let form = other(&f.data_type.to_arrow());
        (ArrowField::new(&f.name, form.clone(), true), compute::cast(array, &form).unwrap())
    });
    let file = foreign(&store, columns.collect()).await;
    let read = back(&store, &schema, vec![file]).await;
    for (field, (read, wanted)) in schema.fields.iter().zip(read.columns().iter().zip(wanted.columns())) {
        assert_eq!(read, wanted, "{}", field.name);
    }
}

#[tokio::test]
async fn what_a_type_cannot_hold_is_named_by_its_place() {
    let store = memory();
    let int = |values: Vec<Option<i32>>| -> ArrayRef { Arc::new(Int32Array::from(values)) };
    let list = |values: ArrayRef| -> ArrayRef {
        let item = Arc::new(ArrowField::new("item", values.data_type().clone(), true));
        Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([values.len()]), values, None))
    };
    let cases = [
        ("ARRAY<STRING>", list(int(vec![Some(1)])), "column `c[]` is STRING and the file holds Int32"),
        ("ARRAY<INT NOT NULL>", list(int(vec![None])), "column `c` is ARRAY<INT NOT NULL> and the file holds"),
        ("ARRAY<TINYINT>", list(int(vec![Some(300)])), "column `c[]` is TINYINT and the file holds Int32"),
        ("ROW<x INT>", list(int(vec![Some(1)])), "column `c` is ROW<x INT> and the file holds List"),
        ("INT", list(int(vec![Some(1)])), "column `c` is INT and the file holds List"),
    ];
    for (text, array, what) in cases {
        let schema = of(&[("c", text)]);
        let file = foreign(&store, vec![(ArrowField::new("c", array.data_type().clone(), true), array)]).await;
        let error = refused(Scan::new(store.clone(), schema, []), vec![file]).await;
        assert_eq!(error.kind(), Kind::Data, "{text}");
        assert!(error.to_string().contains(what), "{text}: {error}");
    }
}

#[tokio::test]
async fn fields_of_a_row_are_matched_by_id_through_renames_additions_and_drops() {
    let (store, dice) = (memory(), &mut Dice(5));
    let old = of(&[("c", "ARRAY<ROW<a INT, b STRING, gone DATE>>")]);
    let batch = rows(&old, 30, dice);
    let mut writer = writer(&store, &old, WriterOptions::default());
    writer.write(&batch).await.unwrap();
    let files = files(writer.prepare().await.unwrap());
    // `a` and `b` have changed names, and stand the other way round beside a new one.
    let field = |id, name: &str, text: &str| Field { id, ..Field::parse(0, name, text).unwrap() };
    let row = DataType::Row(vec![field(2, "a", "STRING"), field(9, "new", "INT"), field(1, "b", "INT")]);
    let element = Box::new(crate::schema::Item { data_type: row, nullable: true });
    let column = Field { data_type: DataType::Array(element), ..old.fields[0].clone() };
    let new = Arc::new(Schema { id: 1, fields: vec![column], partition_by: vec![] });
    let batches: Vec<RecordBatch> =
        Scan::new(store.clone(), new.clone(), [old.clone()]).read(files.clone()).unwrap().into_stream().try_collect().await.unwrap();
    let (was, is) = (batch.column(0).as_list::<i32>(), batches[0].column(0).as_list::<i32>());
    assert_eq!(was.len(), is.len());
    for i in (0..was.len()).filter(|i| was.is_valid(*i)) {
        let (was, is) = (was.value(i), is.value(i));
        let (was, is) = (was.as_struct(), is.as_struct());
        assert_eq!(was.nulls(), is.nulls());
        for j in (0..was.len()).filter(|j| was.is_valid(*j)) {
            let at = |row: &StructArray, column: usize| row.column(column).slice(j, 1);
            assert_eq!((at(was, 0), at(was, 1)), (at(is, 2), at(is, 0)));
        }
        assert_eq!(is.column(1).null_count(), is.len());
    }
    // Another type under the same id is refused.
    let row = DataType::Row(vec![field(2, "b", "BIGINT")]);
    let element = Box::new(crate::schema::Item { data_type: row, nullable: true });
    let changed = Field { data_type: DataType::Array(element), ..old.fields[0].clone() };
    let changed = Arc::new(Schema { id: 1, fields: vec![changed], partition_by: vec![] });
    assert_eq!(refused(Scan::new(store, changed, [old]), files).await.kind(), Kind::Invalid);
}

/// pyarrow reads our file and writes what it read, and we read that.
#[tokio::test]
#[ignore = "needs .venv: tests/setup.sh"]
async fn pyarrow_understands_every_type_and_is_understood() {
    let (dir, dice) = (tempfile::tempdir().unwrap(), &mut Dice(11));
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for round in 0..40 {
        let store = memory();
        let columns = random::columns(3, 8..12).new_tree(&mut runner).unwrap().current();
        let schema = table(columns);
        let batch = rows(&schema, 50, dice);
        let mut writer = writer(&store, &schema, WriterOptions::default());
        writer.write(&batch).await.unwrap();
        let mut file = files(writer.prepare().await.unwrap()).remove(0);
        let (ours, theirs) = (dir.path().join(format!("{round}-ours.parquet")), dir.path().join(format!("{round}-theirs.parquet")));
        std::fs::write(&ours, store.get(&file.path).await.unwrap().unwrap()).unwrap();
        let python = concat!(env!("CARGO_MANIFEST_DIR"), "/.venv/bin/python");
        let script = "import sys, pyarrow.parquet as pq; pq.write_table(pq.read_table(sys.argv[1]), sys.argv[2])";
        let done = std::process::Command::new(python).args(["-c", script]).args([&ours, &theirs]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let bytes = std::fs::read(&theirs).unwrap();
        file.size = bytes.len() as u64;
        store.put(&file.path, bytes.into()).await.unwrap();
        let read = back(&store, &schema, vec![file]).await;
        for (field, (read, wanted)) in schema.fields.iter().zip(read.columns().iter().zip(batch.columns())) {
            assert_eq!(read, wanted, "{}: {}", field.name, field.type_text());
        }
    }
}
