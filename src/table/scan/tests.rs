use std::sync::Arc;

use arrow::array::{Array, AsArray as _, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt as _;

use super::*;
use crate::datafile::{FileWriter, Layout, StatsMode, WriterOptions};
use crate::env::Env;
use crate::error::Kind;
use crate::format::{CommitMessage, CommitUser};
use crate::schema::DataType;
use crate::store::StoreOptions;

struct Flat;

impl Layout for Flat {
    fn file_path(&self, _: &[Option<Scalar>], _: i32, unique: &str, counter: u32) -> Result<String> {
        Ok(format!("bucket-0/data-{unique}-{counter}.parquet"))
    }
}

pub(super) fn memory() -> Store {
    Store::open("memory://scan", &Env::real(), StoreOptions::default()).unwrap()
}

fn schema(id: u64, columns: &[(i32, &str, DataType)], partition_by: &[&str]) -> Arc<Schema> {
    let field = |(id, name, data_type): &(i32, &str, DataType)| Field {
        id: *id,
        name: (*name).to_owned(),
        data_type: data_type.clone(),
        nullable: true,
        description: None,
    };
    let partition_by = partition_by.iter().map(|p| (*p).to_owned()).collect();
    Arc::new(Schema { id, fields: columns.iter().map(field).collect(), partition_by })
}

pub(super) fn writer(store: &Store, schema: &Arc<Schema>, options: WriterOptions) -> FileWriter {
    FileWriter::new(store.clone(), schema.clone(), Arc::new(Flat), CommitUser::new("u"), options).unwrap()
}

async fn write(store: &Store, schema: &Arc<Schema>, columns: Vec<ArrayRef>, stats: StatsMode) -> Vec<ScanFile> {
    let options = WriterOptions { stats, ..Default::default() };
    let mut writer = writer(store, schema, options);
    writer.write(&RecordBatch::try_new(schema.to_arrow(), columns).unwrap()).await.unwrap();
    files(writer.prepare().await.unwrap())
}

pub(super) fn files(messages: Vec<CommitMessage>) -> Vec<ScanFile> {
    let files = messages.into_iter().flat_map(|m| m.files.into_iter().map(move |f| (m.partition.clone(), f)));
    let file = |(partition, f): (Vec<Option<Scalar>>, crate::format::DataFile)| ScanFile {
        path: f.path,
        size: f.size,
        rows: f.rows,
        schema_id: f.schema_id,
        partition,
        stats: f.stats,
    };
    files.map(file).collect()
}

fn numbers() -> Arc<Schema> {
    schema(0, &[(0, "id", DataType::BigInt), (1, "x", DataType::Double), (2, "name", DataType::String), (3, "k", DataType::Int)], &["k"])
}

async fn some(store: &Store) -> Vec<ScanFile> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..6)),
        Arc::new(Float64Array::from(vec![Some(-1.5), Some(0.0), Some(-0.0), None, Some(f64::NAN), Some(9.0)])),
        Arc::new(StringArray::from(vec![Some("a"), Some(""), None, Some("abcdefghijklmnopqrst"), Some("z"), Some("it's")])),
        Arc::new(Int32Array::from(vec![Some(1), Some(1), Some(1), None, None, Some(2)])),
    ];
    write(store, &numbers(), columns, StatsMode::Truncate(16)).await
}

async fn ids(scan: &Scan, files: &[ScanFile]) -> Vec<i64> {
    let batches: Vec<RecordBatch> = scan.read(files.to_vec()).into_stream().try_collect().await.unwrap();
    batches.iter().flat_map(|b| b.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn filtered(store: &Store, condition: &str) -> Scan {
    let schema = numbers();
    Scan::new(store.clone(), schema.clone(), []).filter(Predicate::parse(condition, &schema).unwrap()).unwrap()
}

#[tokio::test]
async fn conditions_are_applied_exactly_whether_or_not_statistics_help() {
    let store = memory();
    let files = some(&store).await;
    assert_eq!(files.len(), 3);
    let blind: Vec<ScanFile> = files.iter().cloned().map(|f| ScanFile { stats: vec![], partition: vec![], ..f }).collect();
    let cases: [(&str, &[i64]); 24] = [
        ("id >= 0", &[0, 1, 2, 3, 4, 5]),
        ("id > 5", &[]),
        ("id <= 0", &[0]),
        ("id <> 3", &[0, 1, 2, 4, 5]),
        ("x = 0", &[1, 2]),
        ("x = -0.0", &[1, 2]),
        ("x < 0", &[0]),
        ("x <= -0.0", &[0, 1, 2]),
        ("x > 0", &[4, 5]),
        ("x > 100", &[4]),
        ("x = NaN", &[4]),
        ("x <> 9", &[0, 1, 2, 4]),
        ("x is null", &[3]),
        ("x is not null", &[0, 1, 2, 4, 5]),
        ("name = ''", &[1]),
        ("name = 'abcdefghijklmnopqrst'", &[3]),
        ("name > 'abcdefghijklmnop'", &[3, 4, 5]),
        ("name < 'abcdefghijklmnoq'", &[0, 1, 3]),
        ("name = 'it''s'", &[5]),
        ("name IS NULL", &[2]),
        ("k = 1", &[0, 1, 2]),
        ("k is null", &[3, 4]),
        ("`k` != 1", &[5]),
        ("k>=3", &[]),
    ];
    for (condition, expected) in cases {
        let scan = filtered(&store, condition);
        assert_eq!(ids(&scan, &files).await, expected, "{condition}");
        assert_eq!(ids(&scan, &blind).await, expected, "{condition}, without statistics");
        assert_eq!(scan.count(&files).await.unwrap(), expected.len() as u64, "{condition}");
    }
    let both = filtered(&store, "id > 0").filter(Predicate::parse("name is not null", &numbers()).unwrap()).unwrap();
    assert_eq!(ids(&both, &files).await, [1, 3, 4, 5]);
}

#[tokio::test]
async fn files_that_cannot_hold_a_row_are_not_opened() {
    let store = memory();
    let files = some(&store).await;
    for file in &files {
        store.delete(&file.path).await.unwrap();
    }
    for condition in ["id > 5", "id < 0", "k = 3", "k > 2", "name > 'z'", "name < ''", "name = 'zz'"] {
        assert_eq!(filtered(&store, condition).count(&files).await.unwrap(), 0, "{condition}");
    }
    let all = Scan::new(store.clone(), numbers(), []);
    assert_eq!(all.count(&files).await.unwrap(), 6, "the table knows, no file is opened");
    let error = all.read(files).next().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Data);
    assert!(error.to_string().contains("missing"), "{error}");
}

#[tokio::test]
async fn a_maximum_that_leaves_out_nan_hides_no_row() {
    let store = memory();
    let mut files = some(&store).await;
    let stats = ColumnStats { column: "x".into(), min: Some(Scalar::Double(9.0)), max: Some(Scalar::Double(9.0)), nulls: 0 };
    files.iter_mut().for_each(|f| f.stats = vec![stats.clone()]);
    for condition in ["x > 9", "x >= 10", "x = NaN", "x <> 9"] {
        assert!(filtered(&store, condition).may_hold(&files[0]), "{condition}");
    }
    assert!(!filtered(&store, "x = 10").may_hold(&files[0]));
    assert!(!filtered(&store, "x < 9").may_hold(&files[0]));
}

#[tokio::test]
async fn columns_come_in_the_order_asked_for_and_those_of_conditions_are_not_shown() {
    let store = memory();
    let files = some(&store).await;
    let scan = filtered(&store, "x > 0").select(&["k", "id"]).unwrap();
    let batches: Vec<RecordBatch> = scan.read(files.clone()).into_stream().try_collect().await.unwrap();
    assert!(batches.iter().all(|b| b.schema() == scan.arrow_schema() && b.num_columns() == 2));
    assert_eq!(ids(&scan, &files).await, [4, 5]);
    let twice = Scan::new(store.clone(), numbers(), []).select(&["id", "id"]).unwrap();
    assert_eq!(twice.read(files.clone()).next().await.unwrap().unwrap().num_columns(), 2);
    let none: [&str; 0] = [];
    let rows = Scan::new(store.clone(), numbers(), []).select(&none).unwrap().read(files).next().await.unwrap().unwrap();
    assert_eq!((rows.num_columns(), rows.num_rows()), (0, 3));
    assert_eq!(Scan::new(store, numbers(), []).select(&["nope"]).unwrap_err().kind(), Kind::Invalid);
}

#[tokio::test]
async fn columns_are_matched_by_field_id_through_renames_additions_and_drops() {
    let store = memory();
    let files = some(&store).await;
    // `name` became `title`, a new column took its old name, `x` went, `y` came.
    let columns = [
        (0, "id", DataType::BigInt),
        (2, "title", DataType::String),
        (3, "k", DataType::Int),
        (4, "name", DataType::String),
        (5, "y", DataType::Double),
    ];
    let new = schema(1, &columns, &["k"]);
    let scan = Scan::new(store.clone(), new.clone(), [numbers()]);
    let batch = scan.read(files.clone()).next().await.unwrap().unwrap();
    assert_eq!(batch.column_by_name("title").unwrap().as_string::<i32>().value(0), "a");
    assert_eq!(batch.column_by_name("name").unwrap().null_count(), 3);
    assert_eq!(batch.column_by_name("y").unwrap().null_count(), 3);
    let count = async |condition: &str| {
        let scan = Scan::new(store.clone(), new.clone(), [numbers()]).filter(Predicate::parse(condition, &new).unwrap()).unwrap();
        scan.count(&files).await.unwrap()
    };
    assert_eq!(count("title = 'z'").await, 1);
    assert_eq!((count("name = 'z'").await, count("name is null").await, count("y is not null").await), (0, 6, 0));
}

#[tokio::test]
async fn a_changed_type_is_refused_by_its_name_unless_the_column_is_left_out() {
    let store = memory();
    let files = some(&store).await;
    let new = schema(1, &[(0, "id", DataType::BigInt), (3, "k", DataType::BigInt)], &["k"]);
    let scan = Scan::new(store, new, [numbers()]);
    let error = scan.read(files.clone()).next().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("`k` is BIGINT and was INT"), "{error}");
    assert_eq!(ids(&scan.clone().select(&["id"]).unwrap(), &files).await.len(), 6);
    let decimal = |id, scale| schema(id, &[(0, "d", DataType::Decimal { precision: 10, scale })], &[]);
    let five = Arc::new(Decimal128Array::from(vec![500]).with_precision_and_scale(10, 2).unwrap());
    let written = write(&scan.store, &decimal(0, 2), vec![five], StatsMode::Full).await;
    let wider = Scan::new(scan.store.clone(), decimal(1, 4), [decimal(0, 2)]);
    let wider = wider.filter(Predicate::parse("d = 5", &decimal(1, 4)).unwrap()).unwrap();
    assert_eq!(wider.count(&written).await.unwrap_err().kind(), Kind::Invalid, "its old statistics say nothing about the new type");
    let unknown = ScanFile { schema_id: 7, ..files[0].clone() };
    assert_eq!(scan.read(vec![unknown]).next().await.unwrap_err().kind(), Kind::Data);
}

#[tokio::test]
async fn damaged_files_are_data_errors_that_name_the_file() {
    let store = memory();
    let files = some(&store).await;
    let whole = store.get(&files[0].path).await.unwrap().unwrap();
    let mut flipped = whole.to_vec();
    flipped[4..40].fill(0xff);
    let cases = [
        (Bytes::from(flipped), files[0].size),
        (Bytes::from(vec![0; whole.len()]), files[0].size),
        (Bytes::from_static(b"PAR1"), 4),
        (Bytes::new(), 0),
    ];
    for (i, (bytes, size)) in cases.into_iter().enumerate() {
        let path = format!("bucket-0/damaged-{i}.parquet");
        store.put_new(&path, bytes).await.unwrap();
        let file = ScanFile { path: path.clone(), size, ..files[0].clone() };
        let error = Scan::new(store.clone(), numbers(), []).read(vec![file]).next().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Data, "{error}");
        assert!(error.to_string().contains(&path), "{error}");
    }
}

#[test]
fn conditions_are_read_by_the_type_of_their_column() {
    let columns = [
        (0, "a b", DataType::TinyInt),
        (1, "d", DataType::Decimal { precision: 10, scale: 2 }),
        (2, "day", DataType::Date),
        (3, "t", DataType::TimestampLtz(3)),
        (4, "y", DataType::Bytes),
        (5, "b", DataType::Boolean),
    ];
    let schema = schema(0, &columns, &[]);
    let read = |text: &str| Predicate::parse(text, &schema).map(|p| p.test);
    let is = |op, value| Test::Is(op, value);
    assert_eq!(read("`a b` >= -128").unwrap(), is(Op::Ge, Scalar::Int(-128)));
    assert_eq!(read("d <-0.50").unwrap(), is(Op::Lt, Scalar::Decimal(-50)));
    assert_eq!(read("d = 3").unwrap(), is(Op::Eq, Scalar::Decimal(300)));
    assert_eq!(read("day <= '1970-01-02'").unwrap(), is(Op::Le, Scalar::Date(1)));
    assert_eq!(read("t > 1970-01-01T00:00:01.5Z").unwrap(), is(Op::Gt, Scalar::Timestamp(1_500_000)));
    assert_eq!(read("t != '1970-01-02'").unwrap(), is(Op::Ne, Scalar::Timestamp(86_400_000_000)));
    assert_eq!(read("y = 0x00fF").unwrap(), is(Op::Eq, Scalar::Bytes(vec![0, 255])));
    assert_eq!(read("b = TRUE").unwrap(), is(Op::Eq, Scalar::Bool(true)));
    assert_eq!(read("b is  NOT null").unwrap(), Test::NotNull);
    for bad in ["`a b` = 128", "d = 0.001", "d = 1e3", "d = -", "day = 1", "nope = 1", "b", "b =", "`b = true", "t = 'x", "y = 0x0", ""] {
        let error = read(bad).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{bad}");
        assert!(error.next_step().is_some(), "{bad}");
    }
}
