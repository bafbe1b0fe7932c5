use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;
use proptest::prelude::*;

use super::partition::scalar_at;
use super::*;
use crate::env::Env;
use crate::error::Kind;
use crate::format::{ColumnStats, CommitMessage, CommitUser, DataFile};
use crate::schema::{DataType, Field, Schema};
use crate::store::{Durability, Store, StoreOptions};

mod nested;

/// One folder for each partition; refuses the partition `bad` and, when told so, every file but the first.
struct Folders {
    only_first: bool,
}

impl Layout for Folders {
    fn file_path(&self, partition: &[Option<Scalar>], bucket: i32, unique: &str, counter: u32) -> Result<String> {
        if partition.contains(&Some(Scalar::String("bad".into()))) || (self.only_first && counter > 0) {
            return Err(Error::invalid("no path"));
        }
        let folder: String = format!("{partition:?}").bytes().map(|b| format!("{b:02x}")).collect();
        Ok(format!("p{folder}/bucket-{bucket}/data-{unique}-{counter}.parquet"))
    }
}

fn memory() -> Store {
    Store::over(Arc::new(InMemory::new()), Path::default(), "memory://", &Env::real(), StoreOptions::default())
}

fn schema(columns: &[(&str, DataType)], partition_by: &[&str]) -> Arc<Schema> {
    let fields = columns.iter().enumerate().map(|(i, (name, data_type))| Field {
        id: i32::try_from(i).unwrap() + 10,
        name: (*name).to_owned(),
        data_type: data_type.clone(),
        nullable: *name != "id",
        description: None,
    });
    Arc::new(Schema { id: 3, fields: fields.collect(), partition_by: partition_by.iter().map(|p| (*p).to_owned()).collect() })
}

fn writer(store: &Store, schema: &Arc<Schema>, options: WriterOptions) -> FileWriter {
    FileWriter::new(store.clone(), schema.clone(), Arc::new(Folders { only_first: false }), CommitUser::new("u"), options).unwrap()
}

async fn bytes_of(store: &Store, file: &DataFile) -> Bytes {
    store.get(&file.path).await.unwrap().expect("the file must be there")
}

async fn read(store: &Store, file: &DataFile, schema: &SchemaRef) -> RecordBatch {
    let bytes = bytes_of(store, file).await;
    assert_eq!(bytes.len() as u64, file.size);
    let batches: Vec<_> = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap().map(Result::unwrap).collect();
    let plain: Vec<_> = batches.iter().map(|b| RecordBatch::try_new(schema.clone(), b.columns().to_vec()).unwrap()).collect();
    let all = concat_batches(schema, &plain).unwrap();
    assert_eq!(all.num_rows() as u64, file.rows);
    all
}

async fn footer(store: &Store, file: &DataFile) -> Arc<ParquetMetaData> {
    ParquetRecordBatchReaderBuilder::try_new(bytes_of(store, file).await).unwrap().metadata().clone()
}

fn files(messages: &[CommitMessage]) -> Vec<&DataFile> {
    messages.iter().flat_map(|m| &m.files).collect()
}

fn every_type() -> Vec<(&'static str, DataType)> {
    use DataType::*;
    vec![
        ("b", Boolean),
        ("i8", TinyInt),
        ("i16", SmallInt),
        ("i32", Int),
        ("i64", BigInt),
        ("f32", Float),
        ("f64", Double),
        ("d9", Decimal { precision: 9, scale: 2 }),
        ("d18", Decimal { precision: 18, scale: 4 }),
        ("d38", Decimal { precision: 38, scale: 10 }),
        ("c", Char(18)),
        ("v", VarChar(18)),
        ("s", String),
        ("y", Bytes),
        ("date", Date),
        ("t3", Timestamp(3)),
        ("t6", Timestamp(6)),
        ("l3", TimestampLtz(3)),
        ("l6", TimestampLtz(6)),
    ]
}

/// A row of [`every_type`], or a null for each column that is none.
#[derive(Clone, Debug)]
struct Row {
    whole: Option<i64>,
    float: Option<f64>,
    text: Option<String>,
    bytes: Option<Vec<u8>>,
}

fn batch_of(schema: &Schema, rows: &[Row]) -> RecordBatch {
    let wide = |p: u32| move |v: i64| (i128::from(v) * 9_999_999_999_999_999_999).clamp(1 - 10i128.pow(p), 10i128.pow(p) - 1);
    let decimal = |p: u8, s: i8| {
        let values = rows.iter().map(|r| r.whole.map(wide(p.into())));
        Arc::new(values.collect::<Decimal128Array>().with_precision_and_scale(p, s).unwrap()) as ArrayRef
    };
    #[expect(clippy::cast_possible_truncation, reason = "small types take what is left")]
    let column = |field: &Field| -> ArrayRef {
        let whole = || rows.iter().map(|r| r.whole);
        match &field.data_type {
            DataType::Boolean => Arc::new(whole().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
            DataType::TinyInt => Arc::new(whole().map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
            DataType::SmallInt => Arc::new(whole().map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
            DataType::Int => Arc::new(whole().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
            DataType::BigInt => Arc::new(whole().collect::<Int64Array>()),
            DataType::Float => Arc::new(rows.iter().map(|r| r.float.map(|v| v as f32)).collect::<Float32Array>()),
            DataType::Double => Arc::new(rows.iter().map(|r| r.float).collect::<Float64Array>()),
            DataType::Decimal { precision, scale } => decimal(*precision, i8::try_from(*scale).unwrap()),
            DataType::Char(_) | DataType::VarChar(_) | DataType::String => {
                Arc::new(rows.iter().map(|r| r.text.as_deref()).collect::<StringArray>())
            }
            DataType::Bytes => Arc::new(rows.iter().map(|r| r.bytes.as_deref()).collect::<BinaryArray>()),
            DataType::Date => Arc::new(whole().map(|v| v.map(|v| v as i32)).collect::<Date32Array>()),
            DataType::Timestamp(3) => Arc::new(whole().collect::<TimestampMillisecondArray>()),
            DataType::Timestamp(_) => Arc::new(whole().collect::<TimestampMicrosecondArray>()),
            DataType::TimestampLtz(3) => Arc::new(whole().collect::<TimestampMillisecondArray>().with_timezone("UTC")),
            DataType::TimestampLtz(_) => Arc::new(whole().collect::<TimestampMicrosecondArray>().with_timezone("UTC")),
            other => panic!("no values of type {other} here"),
        }
    };
    RecordBatch::try_new(schema.to_arrow(), schema.fields.iter().map(column).collect()).unwrap()
}

/// Statistics by looking at each value, for [`StatsMode::Truncate`].
fn brute_force(schema: &Schema, rows: &RecordBatch, n: usize) -> Vec<ColumnStats> {
    let columns = schema.fields.iter().zip(rows.columns()).map(|(field, array)| {
        let far = |row| {
            matches!(field.data_type, DataType::Timestamp(3) | DataType::TimestampLtz(3)) && {
                let ms = array.as_primitive::<arrow::datatypes::TimestampMillisecondType>();
                ms.is_valid(row) && ms.value(row).checked_mul(1000).is_none()
            }
        };
        let known: Vec<Scalar> =
            (0..array.len()).filter(|row| !far(*row)).filter_map(|row| scalar_at(&field.data_type, array, row).unwrap()).collect();
        let nan = known.iter().any(|v| v.partial_cmp(v).is_none());
        let unknown = nan || (0..array.len()).any(far);
        let pick = |greater: bool| {
            let better = |a: &Scalar, b: &Scalar| (a > b) == greater && a != b;
            known.iter().cloned().reduce(|a, b| if better(&b, &a) { b } else { a }).filter(|_| !unknown)
        };
        let (min, max) = match (pick(false), pick(true)) {
            (Some(Scalar::Float(a)), Some(Scalar::Float(b))) => {
                (Some(Scalar::Float(if a == 0.0 { -0.0 } else { a })), Some(Scalar::Float(if b == 0.0 { 0.0 } else { b })))
            }
            (Some(Scalar::Double(a)), Some(Scalar::Double(b))) => {
                (Some(Scalar::Double(if a == 0.0 { -0.0 } else { a })), Some(Scalar::Double(if b == 0.0 { 0.0 } else { b })))
            }
            (Some(Scalar::String(a)), Some(Scalar::String(b))) => match cut_text(&b, n) {
                Some(b) => (Some(Scalar::String(a.chars().take(n).collect())), Some(Scalar::String(b))),
                None => (None, None),
            },
            (Some(Scalar::Bytes(a)), Some(Scalar::Bytes(b))) => match cut_bytes(&b, n) {
                Some(b) => (Some(Scalar::Bytes(a[..a.len().min(n)].to_vec())), Some(Scalar::Bytes(b))),
                None => (None, None),
            },
            other => other,
        };
        ColumnStats { column: field.name.clone(), min, max, nulls: array.null_count() as u64 }
    });
    columns.collect()
}

fn cut_text(text: &str, n: usize) -> Option<String> {
    if text.chars().count() <= n {
        return Some(text.to_owned());
    }
    let head: Vec<char> = text.chars().take(n).collect();
    let last = head.iter().rposition(|c| *c < char::MAX)?;
    let next = (head[last]..=char::MAX).nth(1)?;
    Some(head[..last].iter().copied().chain([next]).collect())
}

fn cut_bytes(bytes: &[u8], n: usize) -> Option<Vec<u8>> {
    if bytes.len() <= n {
        return Some(bytes.to_vec());
    }
    let last = bytes[..n].iter().rposition(|b| *b < 0xff)?;
    Some([&bytes[..last], &[bytes[last] + 1]].concat())
}

fn some_rows() -> impl Strategy<Value = Vec<Row>> {
    let whole = prop_oneof![3 => any::<i64>(), 2 => -300i64..300, 1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0)]];
    let float = prop_oneof![
        20 => -1e30..1e30f64,
        4 => prop_oneof![Just(0.0), Just(-0.0), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(f64::MIN_POSITIVE)],
        1 => Just(f64::NAN),
    ];
    let letter = prop_oneof![6 => any::<char>(), 2 => Just(char::MAX), 1 => Just('\u{D7FF}'), 1 => Just('\u{7F}'), 3 => Just('a')];
    // Up to 17 letters: what is longer than the encoder's own cut is tested for being a bound only.
    let text = proptest::collection::vec(letter, 0..18).prop_map(|v| v.into_iter().collect::<String>());
    let bytes = proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..20);
    let row = (
        proptest::option::weighted(0.9, whole),
        proptest::option::weighted(0.9, float),
        proptest::option::weighted(0.9, text),
        proptest::option::weighted(0.9, bytes),
    );
    proptest::collection::vec(row.prop_map(|(whole, float, text, bytes)| Row { whole, float, text, bytes }), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn statistics_equal_a_look_at_each_value(batches in proptest::collection::vec(some_rows(), 1..4)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (store, schema) = (memory(), schema(&every_type(), &[]));
            // A budget of nothing: each batch becomes a row group or a file of its own.
            let mut split = writer(&store, &schema, WriterOptions { memory: 0, ..Default::default() });
            let mut whole = writer(&store, &schema, WriterOptions::default());
            let mut all = Vec::new();
            for rows in &batches {
                let batch = batch_of(&schema, rows);
                split.write(&batch).await.unwrap();
                whole.write(&batch).await.unwrap();
                all.push(batch);
            }
            let messages = whole.prepare().await.unwrap();
            let all = concat_batches(&schema.to_arrow(), &all).unwrap();
            prop_assert_eq!(messages.len(), usize::from(all.num_rows() > 0));
            for file in files(&messages) {
                let expected = brute_force(&schema, &all, 16);
                // Text, because NaN is not equal to itself and -0.0 is to 0.0.
                prop_assert_eq!(format!("{:?}", file.stats), format!("{expected:?}"));
            }
            for file in files(&split.prepare().await.unwrap()) {
                let rows = read(&store, file, &schema.to_arrow()).await;
                prop_assert_eq!(format!("{:?}", file.stats), format!("{:?}", brute_force(&schema, &rows, 16)));
            }
            Ok(())
        })?;
    }

    #[test]
    fn cut_bounds_of_long_strings_hold_every_value(texts in proptest::collection::vec("[\u{7F}\u{7FF}\u{FFFF}\u{10FFFF}a]{0,40}", 1..6), n in 1usize..20) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (store, schema) = (memory(), schema(&[("s", DataType::String)], &[]));
            let mut w = writer(&store, &schema, WriterOptions { stats: StatsMode::Truncate(n), ..Default::default() });
            let batch = RecordBatch::try_new(schema.to_arrow(), vec![Arc::new(StringArray::from(texts.clone()))]).unwrap();
            w.write(&batch).await.unwrap();
            let messages = w.prepare().await.unwrap();
            let stats = &files(&messages)[0].stats[0];
            if let (Some(Scalar::String(min)), Some(Scalar::String(max))) = (&stats.min, &stats.max) {
                prop_assert!(texts.iter().all(|t| min <= t && t <= max));
                prop_assert!(min.chars().count() <= n && max.chars().count() <= n);
            } else {
                let greatest = texts.iter().max().unwrap();
                prop_assert_eq!(cut_text(greatest, n), None, "bounds given up without need");
            }
            Ok(())
        })?;
    }
}

fn extremes() -> Vec<Row> {
    let row = |whole, float, text: Option<&str>, bytes: Option<&[u8]>| Row {
        whole,
        float,
        text: text.map(str::to_owned),
        bytes: bytes.map(<[u8]>::to_vec),
    };
    vec![
        row(Some(i64::MIN), Some(f64::MIN), Some(""), Some(&[])),
        row(None, None, None, None),
        row(Some(i64::MAX), Some(f64::NAN), Some("abcdefghijklmno\u{10FFFF}x"), Some(&[0xff; 40])),
        row(Some(0), Some(-0.0), Some("zażółć gęślą jaźń"), Some(b"\0")),
        row(Some(-1), Some(f64::INFINITY), None, None),
    ]
}

#[tokio::test]
async fn every_type_reads_back_with_nulls_and_extremes() {
    let (store, schema) = (memory(), schema(&every_type(), &[]));
    let mut w = writer(&store, &schema, WriterOptions::default());
    let batch = batch_of(&schema, &extremes());
    w.write(&batch).await.unwrap();
    w.write(&batch.slice(1, 3)).await.unwrap();
    assert_eq!(w.rows(), 8);
    assert!(w.bytes() > 0 && w.memory() > 0 && w.oldest_since().is_some());
    let messages = w.prepare().await.unwrap();
    assert_eq!((messages.len(), messages[0].bucket, messages[0].total_buckets, messages[0].version), (1, 0, -1, CommitMessage::VERSION));
    let file = files(&messages)[0];
    assert_eq!((file.schema_id, file.rows), (3, 8));
    let expected = concat_batches(&schema.to_arrow(), [&batch, &batch.slice(1, 3)]).unwrap();
    let got = read(&store, file, &schema.to_arrow()).await;
    assert_eq!(format!("{got:?}"), format!("{expected:?}"));
    assert_eq!((w.rows(), w.bytes(), w.memory(), w.oldest_since()), (0, 0, 0, None));
    assert!(w.prepare().await.unwrap().is_empty(), "nothing was written since");
}

#[tokio::test]
async fn a_file_has_the_physical_types_names_and_ids_that_other_engines_write() {
    let mut columns = every_type();
    columns.push(("id", DataType::BigInt));
    let (store, schema) = (memory(), schema(&columns, &[]));
    let mut w = writer(&store, &schema, WriterOptions::default());
    let nulls = batch_of(&schema, &[Row { whole: Some(1), float: None, text: None, bytes: None }]);
    w.write(&nulls).await.unwrap();
    let messages = w.prepare().await.unwrap();
    let footer = footer(&store, files(&messages)[0]).await;
    let mut text = Vec::new();
    parquet::schema::printer::print_schema(&mut text, footer.file_metadata().schema());
    let expected = "message paimon_schema {
  OPTIONAL BOOLEAN b [10];
  OPTIONAL INT32 i8 [11] (INTEGER(8,true));
  OPTIONAL INT32 i16 [12] (INTEGER(16,true));
  OPTIONAL INT32 i32 [13];
  OPTIONAL INT64 i64 [14];
  OPTIONAL FLOAT f32 [15];
  OPTIONAL DOUBLE f64 [16];
  OPTIONAL INT32 d9 [17] (DECIMAL(9,2));
  OPTIONAL INT64 d18 [18] (DECIMAL(18,4));
  OPTIONAL FIXED_LEN_BYTE_ARRAY (16) d38 [19] (DECIMAL(38,10));
  OPTIONAL BYTE_ARRAY c [20] (STRING);
  OPTIONAL BYTE_ARRAY v [21] (STRING);
  OPTIONAL BYTE_ARRAY s [22] (STRING);
  OPTIONAL BYTE_ARRAY y [23];
  OPTIONAL INT32 date [24] (DATE);
  OPTIONAL INT64 t3 [25] (TIMESTAMP(MILLIS,false));
  OPTIONAL INT64 t6 [26] (TIMESTAMP(MICROS,false));
  OPTIONAL INT64 l3 [27] (TIMESTAMP(MILLIS,true));
  OPTIONAL INT64 l6 [28] (TIMESTAMP(MICROS,true));
  REQUIRED INT64 id [29];
}
";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    assert!(footer.file_metadata().key_value_metadata().is_none(), "no ARROW:schema");
}

#[tokio::test]
async fn a_footer_has_no_float_bounds_beside_a_nan_and_both_zeros_beside_one() {
    let (store, schema) = (memory(), schema(&[("x", DataType::Double)], &[]));
    for (values, bounds) in [
        (vec![1.0, f64::NAN], None),
        (vec![f64::NAN], None),
        (vec![0.0, 5.0], Some((-0.0f64, 5.0f64))),
        (vec![-5.0, -0.0], Some((-5.0, 0.0))),
    ] {
        let mut w = writer(&store, &schema, WriterOptions::default());
        let batch = RecordBatch::try_new(schema.to_arrow(), vec![Arc::new(Float64Array::from(values))]).unwrap();
        w.write(&batch).await.unwrap();
        let messages = w.prepare().await.unwrap();
        let file = files(&messages)[0];
        let footer = footer(&store, file).await;
        let stats = footer.row_group(0).column(0).statistics().unwrap();
        assert_eq!(stats.null_count_opt(), Some(0));
        let bytes = |v: f64| v.to_le_bytes().to_vec();
        assert_eq!(stats.min_bytes_opt().map(<[u8]>::to_vec), bounds.map(|b| bytes(b.0)));
        assert_eq!(stats.max_bytes_opt().map(<[u8]>::to_vec), bounds.map(|b| bytes(b.1)));
        assert_eq!(format!("{:?}", file.stats[0].min), format!("{:?}", bounds.map(|b| Scalar::Double(b.0))));
        assert_eq!(format!("{:?}", file.stats[0].max), format!("{:?}", bounds.map(|b| Scalar::Double(b.1))));
    }
}

#[tokio::test]
async fn modes_decide_what_is_kept_of_each_column() {
    let (store, schema) =
        (memory(), schema(&[("a", DataType::String), ("b", DataType::String), ("c", DataType::String), ("d", DataType::String)], &[]));
    let stats_of = [("a", StatsMode::None), ("b", StatsMode::Counts), ("c", StatsMode::Full)].map(|(n, m)| (n.to_owned(), m));
    let options = WriterOptions { stats: StatsMode::Truncate(2), stats_of: stats_of.into(), ..Default::default() };
    let mut w = writer(&store, &schema, options);
    let long = Arc::new(StringArray::from(vec![Some("x".repeat(500)), None])) as ArrayRef;
    w.write(&RecordBatch::try_new(schema.to_arrow(), vec![long; 4]).unwrap()).await.unwrap();
    let messages = w.prepare().await.unwrap();
    let text = |t: &str| Some(Scalar::String(t.to_owned()));
    let stats = |column: &str, min, max| ColumnStats { column: column.to_owned(), min, max, nulls: 1 };
    let long = "x".repeat(500);
    assert_eq!(
        files(&messages)[0].stats,
        [stats("b", None, None), stats("c", text(&long), text(&long)), stats("d", text("xx"), text("xy"))]
    );

    let unknown = WriterOptions { stats_of: [("nope".to_owned(), StatsMode::None)].into(), ..Default::default() };
    let refused = FileWriter::new(store, schema, Arc::new(Folders { only_first: false }), CommitUser::new("u"), unknown);
    assert_eq!(refused.err().map(|e| e.kind()), Some(Kind::Invalid));
    assert_eq!(StatsMode::parse(" Truncate( 7 ) ").unwrap(), StatsMode::Truncate(7));
    assert!(["truncate(0)", "truncate", "all", "truncate(-1)"].iter().all(|t| StatsMode::parse(t).is_err()));
}

fn partitioned() -> Arc<Schema> {
    schema(&[("id", DataType::BigInt), ("p", DataType::String), ("q", DataType::Date), ("pad", DataType::String)], &["q", "p"])
}

fn rows_of(schema: &Schema, rows: &[(i64, Option<&str>, Option<i32>)], pad: usize) -> RecordBatch {
    let mut noise = 88_172_645_463_325_252u64;
    let mut letters = || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        format!("{noise:016x}")
    };
    let pads: Vec<String> = rows.iter().map(|_| (0..pad / 16).map(|_| letters()).collect()).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| Some(r.0)).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.1).collect::<StringArray>()),
        Arc::new(rows.iter().map(|r| r.2).collect::<Date32Array>()),
        Arc::new(StringArray::from(pads)),
    ];
    RecordBatch::try_new(schema.to_arrow(), columns).unwrap()
}

fn ids(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec()
}

#[tokio::test]
async fn rows_go_to_their_partition_in_order_and_null_is_not_the_empty_string() {
    let (store, schema) = (memory(), partitioned());
    let mut w = writer(&store, &schema, WriterOptions::default());
    let rows = [
        (1, Some("a"), Some(5)),
        (2, None, Some(5)),
        (3, Some(""), Some(5)),
        (4, Some("a"), Some(5)),
        (5, None, Some(5)),
        (6, Some("a"), None),
    ];
    w.write(&rows_of(&schema, &rows, 16)).await.unwrap();
    w.write(&rows_of(&schema, &[(7, Some(""), Some(5)), (8, Some(""), Some(5))], 16)).await.unwrap();
    let messages = w.prepare().await.unwrap();
    let mut found = Vec::new();
    for message in &messages {
        assert_eq!(message.files.len(), 1);
        found.push((message.partition.clone(), ids(&read(&store, &message.files[0], &schema.to_arrow()).await)));
    }
    let (day, text) = (Some(Scalar::Date(5)), |t: &str| Some(Scalar::String(t.to_owned())));
    let expected = vec![
        (vec![day.clone(), text("a")], vec![1, 4]),
        (vec![day.clone(), None], vec![2, 5]),
        (vec![day, text("")], vec![3, 7, 8]),
        (vec![None, text("a")], vec![6]),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_second_prepare_has_only_what_was_written_since() {
    let (store, schema) = (memory(), partitioned());
    let mut w = writer(&store, &schema, WriterOptions::default());
    w.write(&rows_of(&schema, &[(1, Some("a"), None)], 16)).await.unwrap();
    let first = w.prepare().await.unwrap();
    w.write(&rows_of(&schema, &[(2, Some("a"), None), (3, Some("b"), None)], 16)).await.unwrap();
    let second = w.prepare().await.unwrap();
    assert_eq!((first.len(), second.len()), (1, 2));
    assert_ne!(files(&first)[0].path, files(&second)[0].path);
    assert_eq!(ids(&read(&store, files(&first)[0], &schema.to_arrow()).await), [1]);
    assert_eq!(ids(&read(&store, files(&second)[0], &schema.to_arrow()).await), [2]);
}

#[tokio::test]
async fn a_file_is_closed_at_its_target_size() {
    let (store, schema) = (memory(), partitioned());
    let target = 256 << 10;
    let mut w = writer(&store, &schema, WriterOptions { target_file_size: target, compression: Compression::None, ..Default::default() });
    let rows: Vec<_> = (0..5_000).map(|i| (i, Some("a"), None)).collect();
    w.write(&rows_of(&schema, &rows, 400)).await.unwrap();
    let messages = w.prepare().await.unwrap();
    let files = files(&messages);
    assert!((7..=10).contains(&files.len()), "2 MB in files of 256 KiB: {}", files.len());
    let mut seen = Vec::new();
    for (i, file) in files.iter().enumerate() {
        assert!(file.size < target * 3 / 2 && (i + 1 == files.len() || file.size > target / 2), "{}", file.size);
        seen.extend(ids(&read(&store, file, &schema.to_arrow()).await));
    }
    assert_eq!(seen, (0..5_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn many_partitions_stay_within_the_memory_budget_and_the_limit_on_open_files() {
    let (store, schema) = (memory(), partitioned());
    for (memory, partitions) in [(2 << 20, 400), (64 << 20, 400), (16 << 10, 5)] {
        let mut w = writer(&store, &schema, WriterOptions { memory, ..Default::default() });
        let mut expected = Vec::new();
        for round in 0..3 {
            let rows: Vec<_> = (0..4_000).map(|i| (round * 4_000 + i, Some("a"), i32::try_from(i % partitions).ok())).collect();
            w.write(&rows_of(&schema, &rows, 200)).await.unwrap();
            assert!(w.memory() <= memory, "{} held, {memory} allowed", w.memory());
            expected.extend(rows.iter().map(|r| r.0));
        }
        let messages = w.prepare().await.unwrap();
        assert_eq!(messages.len() as i64, partitions);
        let mut seen = Vec::new();
        for message in &messages {
            for file in &message.files {
                let batch = read(&store, file, &schema.to_arrow()).await;
                assert_eq!(message.partition[0], scalar_at(&DataType::Date, batch.column(2), 0).unwrap());
                seen.extend(ids(&batch));
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn shuffled_partitions_get_one_file_each_however_many_and_however_small_the_batches_are() {
    let (store, schema) = (memory(), partitioned());
    let mut w = writer(&store, &schema, WriterOptions { memory: 32 << 20, ..Default::default() });
    for (checkpoint, batch) in [(0, 7), (1, 1_000)] {
        let rows: Vec<_> = (0..20_000_i64).map(|i| (i, Some("a"), i32::try_from(i * 7919 % 1_499).ok())).collect();
        for some in rows.chunks(batch) {
            w.write(&rows_of(&schema, some, 40)).await.unwrap();
        }
        assert_eq!(store.list_all("").await.unwrap().len(), checkpoint * 1_499, "nothing is written before its time");
        let messages = w.prepare().await.unwrap();
        assert_eq!(messages.len(), 1_499);
        let mut seen = Vec::new();
        for message in &messages {
            assert_eq!(message.files.len(), 1);
            let batch = read(&store, &message.files[0], &schema.to_arrow()).await;
            assert_eq!(message.partition[0], scalar_at(&DataType::Date, batch.column(2), batch.num_rows() - 1).unwrap());
            assert!(ids(&batch).is_sorted());
            seen.extend(ids(&batch));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..20_000).collect::<Vec<_>>());
        assert_eq!((w.rows(), w.bytes(), w.memory()), (0, 0, 0));
    }
}

#[tokio::test]
async fn when_memory_runs_out_the_partitions_that_were_not_written_to_for_the_longest_time_are_closed() {
    let (store, schema) = (memory(), partitioned());
    let mut w = writer(&store, &schema, WriterOptions { memory: 4 << 20, ..Default::default() });
    // A day after the other, as time goes by; day 0 comes again and again.
    for day in 1..=200 {
        let rows: Vec<_> = (0..100).map(|i| (i, Some("a"), Some(if i % 10 == 0 { 0 } else { day }))).collect();
        for some in rows.chunks(10) {
            w.write(&rows_of(&schema, some, 400)).await.unwrap();
        }
        assert!(w.memory() <= 4 << 20, "{}", w.memory());
    }
    let messages = w.prepare().await.unwrap();
    assert_eq!(messages.len(), 201);
    let files: Vec<usize> = messages.iter().map(|m| m.files.len()).collect();
    let twice = files[1..].iter().filter(|n| **n > 1).count();
    assert!(files[0] <= 8 && twice <= 8, "{} files of the day that is written to all the time, {twice} others with several", files[0]);
    assert_eq!(messages.iter().flat_map(|m| &m.files).map(|f| f.rows).sum::<u64>(), 20_000);
}

#[tokio::test]
async fn rows_that_wait_come_before_those_that_find_the_file_open() {
    let (store, schema) = (memory(), partitioned());
    let mut w = writer(&store, &schema, WriterOptions::default());
    let mut next = 0;
    // Few rows wait, many open the file, some follow into it, few wait again.
    for (count, pad) in [(3, 100), (2_000, 400), (3, 100), (100, 400), (2, 100)] {
        let rows: Vec<_> = (next..next + count).map(|i| (i, Some("a"), Some(1))).collect();
        w.write(&rows_of(&schema, &rows, pad)).await.unwrap();
        next += count;
    }
    let messages = w.prepare().await.unwrap();
    assert_eq!(messages[0].files.len(), 1);
    assert_eq!(ids(&read(&store, &messages[0].files[0], &schema.to_arrow()).await), (0..next).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_large_file_has_row_groups_of_bounded_size() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { durability: Durability::None, ..Default::default() };
    let (store, schema) = (Store::open(folder.path().to_str().unwrap(), &Env::real(), options).unwrap(), partitioned());
    let mut w = writer(&store, &schema, WriterOptions { compression: Compression::None, ..Default::default() });
    let rows: Vec<_> = (0..20_000).map(|i| (i, Some("a"), None)).collect();
    let mut most = 0;
    for _ in 0..5 {
        w.write(&rows_of(&schema, &rows, 800)).await.unwrap();
        most = most.max(w.memory());
    }
    assert!(most <= 36 << 20, "{most}");
    let messages = w.prepare().await.unwrap();
    let footer = footer(&store, files(&messages)[0]).await;
    assert_eq!(footer.num_row_groups(), 3);
    assert_eq!(files(&messages)[0].rows, 100_000);
}

#[tokio::test]
async fn a_column_without_repeated_values_goes_without_a_dictionary_after_the_first_time() {
    let (store, schema) = (memory(), partitioned());
    let mut w = writer(&store, &schema, WriterOptions::default());
    let mut dictionaries = Vec::new();
    for round in 0..3 {
        let rows: Vec<_> = (round * 2_000..(round + 1) * 2_000).map(|i| (i, Some("a"), Some(7))).collect();
        w.write(&rows_of(&schema, &rows, 64)).await.unwrap();
        let messages = w.prepare().await.unwrap();
        let footer = footer(&store, files(&messages)[0]).await;
        dictionaries.push(footer.row_group(0).columns().iter().map(|c| c.dictionary_page_offset().is_some()).collect::<Vec<_>>());
        let expected: Vec<i64> = rows.iter().map(|r| r.0).collect();
        assert_eq!(ids(&read(&store, files(&messages)[0], &schema.to_arrow()).await), expected);
    }
    assert_eq!(dictionaries, [[true; 4], [false, true, true, false], [false, true, true, false]]);
}

#[tokio::test]
async fn a_decimal_wider_than_an_integer_never_has_a_dictionary() {
    let decimal = |precision| DataType::Decimal { precision, scale: 0 };
    let (store, schema) = (memory(), schema(&[("d9", decimal(9)), ("d18", decimal(18)), ("d19", decimal(19)), ("d38", decimal(38))], &[]));
    let mut w = writer(&store, &schema, WriterOptions::default());
    let row = |whole| Row { whole: Some(whole), float: None, text: None, bytes: None };
    // The second round is encoded with other properties than the first: a column of few values keeps its dictionary.
    for _ in 0..2 {
        w.write(&batch_of(&schema, &vec![row(7); 2_000])).await.unwrap();
        let messages = w.prepare().await.unwrap();
        let footer = footer(&store, files(&messages)[0]).await;
        let dictionaries: Vec<bool> = footer.row_group(0).columns().iter().map(|c| c.dictionary_page_offset().is_some()).collect();
        assert_eq!(dictionaries, [true, true, false, false]);
    }
}

#[tokio::test]
async fn a_dropped_writer_leaves_only_files_that_no_message_names() {
    let (store, schema) = (memory(), partitioned());
    let options = WriterOptions { target_file_size: 64 << 10, ..Default::default() };
    let rows: Vec<_> = (0..2_000).map(|i| (i, Some("a"), None)).collect();
    let mut first = writer(&store, &schema, options.clone());
    first.write(&rows_of(&schema, &rows, 200)).await.unwrap();
    drop(first);
    let left: Vec<_> = store.list_all("").await.unwrap().into_iter().map(|e| e.name).collect();
    assert!(!left.is_empty());
    let mut second = writer(&store, &schema, options);
    second.write(&rows_of(&schema, &rows[..1], 16)).await.unwrap();
    let messages = second.prepare().await.unwrap();
    assert!(files(&messages).iter().all(|f| !left.contains(&f.path)), "a name is never used twice");
    assert_eq!(store.list_all("").await.unwrap().len(), left.len() + 1);
}

#[tokio::test]
async fn a_refused_batch_takes_nothing_and_the_writer_goes_on() {
    let (store, schema) = (memory(), partitioned());
    let mut w = writer(&store, &schema, WriterOptions::default());
    let good = rows_of(&schema, &[(1, Some("a"), None)], 16);
    let mut columns = good.columns().to_vec();
    columns[0] = Arc::new(Int64Array::from(vec![None]));
    let mut loose = (*schema).clone();
    loose.fields[0].nullable = true;
    let null = RecordBatch::try_new(loose.to_arrow(), columns).unwrap();
    let bad_path = rows_of(&schema, &[(2, Some("b"), None), (3, Some("bad"), None)], 16);
    let fewer = good.project(&[0, 1]).unwrap();
    let other = good.project(&[0, 1, 3, 2]).unwrap();
    for (batch, says) in [(null, "NOT NULL"), (bad_path, "no path"), (fewer, "2 columns"), (other, "column 2")] {
        let error = w.write(&batch).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.to_string().contains(says), "{error}");
    }
    w.write(&good).await.unwrap();
    let messages = w.prepare().await.unwrap();
    assert_eq!(files(&messages).iter().map(|f| f.rows).sum::<u64>(), 1);
    assert_eq!(store.list_all("").await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_decimal_beyond_its_precision_is_refused_unless_it_lies_under_a_null() {
    let (store, schema) = (memory(), schema(&[("d", DataType::Decimal { precision: 9, scale: 0 })], &[]));
    let mut w = writer(&store, &schema, WriterOptions::default());
    let decimals = |valid: Vec<bool>| {
        let values = Decimal128Array::new(vec![999_999_999i128, -5_000_000_000].into(), Some(valid.into()));
        RecordBatch::try_new(schema.to_arrow(), vec![Arc::new(values.with_precision_and_scale(9, 0).unwrap())]).unwrap()
    };
    assert_eq!(w.write(&decimals(vec![true, true])).await.unwrap_err().kind(), Kind::Invalid);
    w.write(&decimals(vec![true, false])).await.unwrap();
    assert_eq!(files(&w.prepare().await.unwrap())[0].stats[0].nulls, 1);
}

#[tokio::test]
async fn after_a_failure_halfway_the_writer_refuses_to_go_on() {
    let (store, schema) = (memory(), partitioned());
    let options = WriterOptions { target_file_size: 64 << 10, ..Default::default() };
    let mut w = FileWriter::new(store, schema.clone(), Arc::new(Folders { only_first: true }), CommitUser::new("u"), options).unwrap();
    let rows: Vec<_> = (0..5_000).map(|i| (i, Some("a"), None)).collect();
    assert!(w.write(&rows_of(&schema, &rows, 200)).await.is_err(), "the second file cannot be opened");
    assert_eq!(w.write(&rows_of(&schema, &rows[..1], 16)).await.unwrap_err().kind(), Kind::Internal);
    assert_eq!(w.prepare().await.unwrap_err().kind(), Kind::Internal);
}

/// The bucket is the id, by remainder.
struct ById(i32);

impl Buckets for ById {
    fn total(&self) -> i32 {
        self.0
    }
    fn assign(&self, batch: &RecordBatch) -> Result<Vec<i32>> {
        let ids = batch.column(0).as_primitive::<arrow::datatypes::Int64Type>();
        Ok(ids.values().iter().map(|id| i32::try_from(*id).unwrap() % self.0).collect())
    }
}

#[tokio::test]
async fn rows_go_to_the_files_of_their_bucket_in_order() {
    let schema = schema(&[("id", DataType::BigInt), ("p", DataType::String)], &["p"]);
    let store = memory();
    let mut w = writer(&store, &schema, WriterOptions::default()).with_buckets(Arc::new(ById(3)));
    let batch = |ids: &[i64], parts: &[&str]| {
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(ids.to_vec())), Arc::new(StringArray::from(parts.to_vec()))];
        RecordBatch::try_new(schema.to_arrow(), columns).unwrap()
    };
    w.write(&batch(&[1, 2, 4, 7, 8, 3], &["a", "a", "b", "a", "a", "a"])).await.unwrap();
    w.write(&batch(&[10, 1, 5], &["b", "a", "b"])).await.unwrap();
    let mut got = Vec::new();
    for m in w.prepare().await.unwrap() {
        assert_eq!((m.total_buckets, m.files.len()), (3, 1));
        assert!(m.files[0].path.contains(&format!("/bucket-{}/", m.bucket)), "{}", m.files[0].path);
        let rows = read(&store, &m.files[0], &schema.to_arrow()).await;
        let Some(Scalar::String(p)) = m.partition[0].clone() else { panic!() };
        got.push((p, m.bucket, rows.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec()));
    }
    let expected = [("a", 1, vec![1, 7, 1]), ("a", 2, vec![2, 8]), ("a", 0, vec![3]), ("b", 1, vec![4, 10]), ("b", 2, vec![5])];
    assert_eq!(got, expected.map(|(p, b, ids)| (p.to_owned(), b, ids)));
}
