use std::sync::Arc;

use arrow::array::{Array, AsArray as _, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt as _;

use super::predicate::Test;
use super::*;
use crate::condition::Op;
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

pub(super) fn schema(id: u64, columns: &[(i32, &str, DataType)], partition_by: &[&str]) -> Arc<Schema> {
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

pub(super) async fn write(store: &Store, schema: &Arc<Schema>, columns: Vec<ArrayRef>, stats: StatsMode) -> Vec<ScanFile> {
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
        bucket: 0,
        created_ms: None,
        deleted: None,
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
    let batches: Vec<RecordBatch> = scan.read(files.to_vec()).unwrap().into_stream().try_collect().await.unwrap();
    batches.iter().flat_map(|b| b.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec()).collect()
}

fn filtered(store: &Store, condition: &str) -> Scan {
    let schema = numbers();
    Scan::new(store.clone(), schema.clone(), []).filter(&Condition::parse(condition).unwrap()).unwrap()
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
        assert_eq!(scan.count(files.clone()).await.unwrap(), expected.len() as u64, "{condition}");
    }
    let both = filtered(&store, "id > 0").filter(&Condition::parse("name is not null").unwrap()).unwrap();
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
        assert_eq!(filtered(&store, condition).count(files.clone()).await.unwrap(), 0, "{condition}");
    }
    let all = Scan::new(store.clone(), numbers(), []);
    assert_eq!(all.count(files.clone()).await.unwrap(), 6, "the table knows, no file is opened");
    let error = all.read(files).unwrap().next().await.unwrap_err();
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
        assert!(filtered(&store, condition).may_hold(&files[0]).unwrap(), "{condition}");
    }
    assert!(!filtered(&store, "x = 10").may_hold(&files[0]).unwrap());
    assert!(!filtered(&store, "x < 9").may_hold(&files[0]).unwrap());
}

#[tokio::test]
async fn columns_come_in_the_order_asked_for_and_those_of_conditions_are_not_shown() {
    let store = memory();
    let files = some(&store).await;
    let scan = filtered(&store, "x > 0").select(&["k", "id"]).unwrap();
    let batches: Vec<RecordBatch> = scan.read(files.clone()).unwrap().into_stream().try_collect().await.unwrap();
    assert!(batches.iter().all(|b| b.schema() == scan.arrow_schema() && b.num_columns() == 2));
    assert_eq!(ids(&scan, &files).await, [4, 5]);
    let twice = Scan::new(store.clone(), numbers(), []).select(&["id", "id"]).unwrap();
    assert_eq!(twice.read(files.clone()).unwrap().next().await.unwrap().unwrap().num_columns(), 2);
    let none: [&str; 0] = [];
    let rows = Scan::new(store.clone(), numbers(), []).select(&none).unwrap().read(files).unwrap().next().await.unwrap().unwrap();
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
    let batch = scan.read(files.clone()).unwrap().next().await.unwrap().unwrap();
    assert_eq!(batch.column_by_name("title").unwrap().as_string::<i32>().value(0), "a");
    assert_eq!(batch.column_by_name("name").unwrap().null_count(), 3);
    assert_eq!(batch.column_by_name("y").unwrap().null_count(), 3);
    let count = async |condition: &str| {
        let scan = Scan::new(store.clone(), new.clone(), [numbers()]).filter(&Condition::parse(condition).unwrap()).unwrap();
        scan.count(files.clone()).await.unwrap()
    };
    assert_eq!(count("title = 'z'").await, 1);
    assert_eq!((count("name = 'z'").await, count("name is null").await, count("y is not null").await), (0, 6, 0));
}

#[tokio::test]
async fn a_changed_type_is_refused_by_its_name_unless_it_was_widened_or_is_left_out() {
    let store = memory();
    let files = some(&store).await;
    let new = schema(1, &[(0, "id", DataType::BigInt), (1, "x", DataType::Float)], &[]);
    let scan = Scan::new(store, new, [numbers()]);
    let error = scan.read(files.clone()).unwrap().next().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("`x` is FLOAT and was DOUBLE"), "{error}");
    assert_eq!(ids(&scan.clone().select(&["id"]).unwrap(), &files).await.len(), 6);
    let unknown = ScanFile { schema_id: 7, ..files[0].clone() };
    assert_eq!(scan.read(vec![unknown]).unwrap().next().await.unwrap_err().kind(), Kind::Data);
}

#[tokio::test]
async fn widened_columns_have_their_values_and_their_bounds_are_widened_with_them() {
    use DataType::*;
    let decimal = |precision, scale| Decimal { precision, scale };
    let unscaled = |v: Vec<Option<i128>>, p, s| Arc::new(Decimal128Array::from(v).with_precision_and_scale(p, s).unwrap()) as ArrayRef;
    let ints = || Arc::new(Int32Array::from(vec![Some(-5), None, Some(100_000)])) as ArrayRef;
    let cases: Vec<(DataType, ArrayRef, DataType, &str, &str)> = vec![
        (Int, ints(), BigInt, "c = -5", "c > 100000"),
        (Int, ints(), Double, "c <= -5", "c > 1e5"),
        (Int, ints(), decimal(12, 2), "c = 100000.00", "c > 100000"),
        (Int, ints(), String, "c = '-5'", "c = '7'"),
        (Float, Arc::new(arrow::array::Float32Array::from(vec![0.1, 2.0, 5.0])), Double, "c = 2", "c < 0.1"),
        (decimal(10, 2), unscaled(vec![Some(500), None, Some(-1)], 10, 2), decimal(14, 4), "c = 5", "c > 5"),
        (decimal(20, 1), unscaled(vec![Some(1), None, Some(20)], 20, 1), Double, "c = 0.1", "c > 2"),
        (Char(3), Arc::new(StringArray::from(vec!["abc", "x", "zzz"])), String, "c = 'x'", "c > 'zzz'"),
        (
            Timestamp(3),
            Arc::new(arrow::array::TimestampMillisecondArray::from(vec![0, -1, 5])),
            Timestamp(9),
            "c = '1969-12-31 23:59:59.999'",
            "c > '1970-01-01 00:00:00.005'",
        ),
    ];
    for (old, array, new, one, none) in cases {
        let store = memory();
        let (old, new) = (schema(0, &[(0, "b", old)], &[]), schema(1, &[(0, "c", new)], &[]));
        let files = write(&store, &old, vec![array], StatsMode::Full).await;
        let scan = |text: &str| {
            let condition = Condition::parse(text).unwrap();
            Scan::new(store.clone(), new.clone(), [old.clone()]).filter(&condition).unwrap()
        };
        assert_eq!(scan(one).count(files.clone()).await.unwrap(), 1, "{one}");
        assert_eq!(scan(none).count(files.clone()).await.unwrap(), 0, "{none}");
        // Nothing is said of what is above a float's maximum.
        let unknown = matches!(new.fields[0].data_type, String | Double) && !matches!(old.fields[0].data_type, Char(_) | Float);
        assert_eq!(scan(none).may_hold(&files[0]).unwrap(), unknown, "{none}");
    }
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
        let error = Scan::new(store.clone(), numbers(), []).read(vec![file]).unwrap().next().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Data, "{error}");
        assert!(error.to_string().contains(&path), "{error}");
    }
}

#[test]
fn values_are_read_by_the_type_of_their_column() {
    use DataType::*;
    let columns = [
        (0, "a b", TinyInt),
        (1, "d", Decimal { precision: 4, scale: 2 }),
        (2, "day", Date),
        (3, "t", TimestampLtz(3)),
        (4, "y", Bytes),
        (5, "b", Boolean),
        (6, "n", Timestamp(9)),
        (7, "h", Time(3)),
        (8, "f", Float),
        (9, "l", Array(Box::new(crate::schema::Item { data_type: Int, nullable: true }))),
    ];
    let schema = schema(0, &columns, &[]);
    let read = |text: &str| bind::bind(&Condition::parse(text)?, &schema);
    let is = |column, op, value| Bound::Test(column, Test::Is(op, value));
    assert_eq!(read("`a b` >= -128").unwrap(), is(0, Op::Ge, Scalar::Int(-128)));
    assert_eq!(read("not -0.5e0 > d").unwrap(), is(1, Op::Ge, Scalar::Decimal(-50)));
    assert_eq!(read("d = 3").unwrap(), is(1, Op::Eq, Scalar::Decimal(300)));
    assert_eq!(read("day <= '1970-01-02'").unwrap(), is(2, Op::Le, Scalar::Date(1)));
    assert_eq!(read("t > '1970-01-01T00:00:01.500Z'").unwrap(), is(3, Op::Gt, Scalar::Timestamp(1_500_000)));
    assert_eq!(read("t != '1970-01-02'").unwrap(), is(3, Op::Ne, Scalar::Timestamp(86_400_000_000)));
    assert_eq!(read("t = '1970-01-01 01:00:00+01:00'").unwrap(), is(3, Op::Eq, Scalar::Timestamp(0)));
    assert_eq!(read("n = '1969-12-31 23:59:59.999999999'").unwrap(), is(6, Op::Eq, Scalar::TimestampNanos(-1)));
    assert_eq!(read("h = '23:59:59.999'").unwrap(), is(7, Op::Eq, Scalar::Time(86_399_999)));
    assert_eq!(read("y = X'00fF'").unwrap(), is(4, Op::Eq, Scalar::Bytes(vec![0, 255])));
    assert_eq!(read("b = TRUE").unwrap(), is(5, Op::Eq, Scalar::Bool(true)));
    assert_eq!(read("not b").unwrap(), is(5, Op::Eq, Scalar::Bool(false)));
    assert_eq!(read("b is  NOT null").unwrap(), Bound::Test(5, Test::NotNull));
    assert_eq!(read("not l is null").unwrap(), Bound::Test(9, Test::NotNull));
    for (bad, what) in [
        ("`a b` = 128", "128 is no TINYINT (column a b): it is not between -128 and 127"),
        ("`a b` = 1.5", "1.5 is no TINYINT"),
        ("d = 0.001", "0.001 is no DECIMAL(4, 2)"),
        ("d = 100", "100 is no DECIMAL(4, 2)"),
        ("d = NaN", "NaN is no DECIMAL(4, 2)"),
        ("f = 1e39", "1e39 is no FLOAT"),
        ("day = 1", "column day is DATE; compare it with a text like '2026-01-31'"),
        ("day = '2026-02-30'", "'2026-02-30' is no DATE"),
        ("t = '1970-01-01 00:00:00.0001'", "more than 3 digits"),
        ("n = '3000-01-01'", "is no TIMESTAMP(9)"),
        ("h = '24:00'", "'24:00' is no TIME(3)"),
        ("h = '12:00Z'", "'12:00Z' is no TIME(3)"),
        ("y = 'ff'", "column y is BYTES; compare it with bytes like X'00ff'"),
        ("day > h", "DATE and TIME(3) cannot be compared"),
        ("d like '1%'", "like is for texts"),
        ("l = 1", "column l is ARRAY<INT>, which only is null and is not null are for"),
        ("nope = 1", "nope is no column"),
        ("d", "expected one of"),
    ] {
        let error = read(bad).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{bad}");
        assert!(error.to_string().contains(what), "{bad}: {error}");
        assert!(error.next_step().is_some(), "{bad}");
    }
    let built = bind::bind(&crate::condition::col("d").eq("x"), &schema).unwrap_err().to_string();
    assert!(built.starts_with("condition `d = 'x'`: column d is DECIMAL(4, 2); compare it with a number"), "{built}");
}
