//! Fixed buckets: the bucket of a row is the one that Java finds, and the order in a bucket is kept, whoever else writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, StringArray, Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray,
};
use lakeward::datafile::Buckets as _;
use lakeward::format::paimon::bucket::FixedBuckets;
use lakeward::format::paimon::options::{BucketFunction, BucketOptions};
use lakeward::schema::{DataType, Field, Schema};
use lakeward::table::{CommitUser, Table, TableSpec};
use lakeward::{Error, Kind};
use serde_json::{Value, json};

use super::readers::{READERS, count_comparison, each, get};
use super::values::hex;

/// Numbers that look random and are the same each time.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    /// Of every magnitude, now and then one of the ends.
    pub(super) fn whole(&mut self, least: i128, greatest: i128) -> i128 {
        match self.below(20) {
            0 => least,
            1 => greatest,
            2 => 0,
            _ => {
                let wide = i128::from_be_bytes([self.next().to_be_bytes(), self.next().to_be_bytes()].concat().try_into().unwrap());
                (wide >> self.below(127)).clamp(least, greatest)
            }
        }
    }
}

/// A value of a type: canonical text.
type Text = Option<String>;

/// `n` values of a type, a tenth of them null: as an Arrow column and as text.
pub(super) fn column(sql: &str, n: usize, random: &mut Random) -> (DataType, ArrayRef, Vec<Text>) {
    let (data_type, _) = DataType::parse(sql).unwrap();
    let mut wholes = |least: i128, greatest: i128| -> Vec<Option<i128>> {
        (0..n).map(|_| (random.below(10) > 0).then(|| random.whole(least, greatest))).collect()
    };
    fn cut<T: TryFrom<i128>>(values: &[Option<i128>]) -> Vec<Option<T>> {
        values.iter().map(|v| v.map(|v| T::try_from(v).ok().unwrap())).collect()
    }
    let text = |values: &[Option<i128>], prefix: &str| values.iter().map(|v| v.map(|v| format!("{prefix}{v}"))).collect::<Vec<Text>>();
    let (array, texts): (ArrayRef, Vec<Text>) = match &data_type {
        DataType::Boolean => {
            let v = wholes(0, 1);
            let bools: BooleanArray = v.iter().map(|v| v.map(|v| v == 1)).collect();
            (Arc::new(bools), v.iter().map(|v| v.map(|v| (v == 1).to_string())).collect())
        }
        DataType::TinyInt => {
            let v = wholes(i8::MIN.into(), i8::MAX.into());
            (Arc::new(Int8Array::from(cut(&v))), text(&v, ""))
        }
        DataType::SmallInt => {
            let v = wholes(i16::MIN.into(), i16::MAX.into());
            (Arc::new(Int16Array::from(cut(&v))), text(&v, ""))
        }
        DataType::Int => {
            let v = wholes(i32::MIN.into(), i32::MAX.into());
            (Arc::new(Int32Array::from(cut(&v))), text(&v, ""))
        }
        DataType::BigInt => {
            let v = wholes(i64::MIN.into(), i64::MAX.into());
            (Arc::new(Int64Array::from(cut(&v))), text(&v, ""))
        }
        DataType::Date => {
            let v = wholes(-800_000, 3_000_000);
            (Arc::new(Date32Array::from(cut(&v))), text(&v, "day:"))
        }
        DataType::Time(_) => {
            let v = wholes(0, 86_399_999);
            (Arc::new(Time32MillisecondArray::from(cut(&v))), text(&v, "time-ms:"))
        }
        DataType::Float => {
            let v = wholes(0, u32::MAX.into());
            let bits: Vec<Option<u32>> = cut(&v);
            let floats: Float32Array = bits.iter().map(|b| b.map(f32::from_bits)).collect();
            (Arc::new(floats), bits.iter().map(|b| b.map(|b| format!("f32:{b:08x}"))).collect())
        }
        DataType::Double => {
            let v = wholes(0, u64::MAX.into());
            let bits: Vec<Option<u64>> = cut(&v);
            let doubles: Float64Array = bits.iter().map(|b| b.map(f64::from_bits)).collect();
            (Arc::new(doubles), bits.iter().map(|b| b.map(|b| format!("f64:{b:016x}"))).collect())
        }
        DataType::Decimal { precision, scale } => {
            let limit = 10i128.pow(u32::from(*precision)) - 1;
            let v = wholes(-limit, limit);
            let array = Decimal128Array::from(v.clone()).with_precision_and_scale(*precision, i8::try_from(*scale).unwrap()).unwrap();
            let spelt = v.iter().map(|v| v.map(|v| decimal(v, usize::from(*scale)))).collect();
            (Arc::new(array), spelt)
        }
        DataType::Timestamp(p) | DataType::TimestampLtz(p) => timestamps(*p, &mut wholes, matches!(data_type, DataType::TimestampLtz(_))),
        DataType::Char(most) | DataType::VarChar(most) => strings(n, u64::from(*most), random),
        DataType::String => strings(n, 40, random),
        DataType::Binary(most) | DataType::VarBinary(most) => bytes(n, u64::from(*most), random),
        DataType::Bytes => bytes(n, 40, random),
        other => panic!("{other}"),
    };
    (data_type, array, texts)
}

fn timestamps(p: u8, wholes: &mut dyn FnMut(i128, i128) -> Vec<Option<i128>>, zoned: bool) -> (ArrayRef, Vec<Text>) {
    // Years 1 to 9999, as far as nanoseconds reach.
    let (least, greatest) =
        if p > 6 { (i64::MIN.into(), i64::MAX.into()) } else { (-62_135_596_800_000_000_000, 253_402_300_799_999_999_999) };
    let step = 10i128.pow(u32::from(9 - p));
    let nanos: Vec<Option<i128>> =
        wholes(least, greatest).iter().map(|v| v.map(|v| v.div_euclid(step) * step).map(|v| v.max(least))).collect();
    let unit: i128 = if p <= 3 {
        1_000_000
    } else if p <= 6 {
        1000
    } else {
        1
    };
    let raw: Vec<Option<i64>> = nanos.iter().map(|v| v.map(|v| i64::try_from(v.div_euclid(unit)).unwrap())).collect();
    let zone = zoned.then_some("UTC");
    let array: ArrayRef = match unit {
        1_000_000 => Arc::new(TimestampMillisecondArray::from(raw.clone()).with_timezone_opt(zone)),
        1000 => Arc::new(TimestampMicrosecondArray::from(raw.clone()).with_timezone_opt(zone)),
        _ => Arc::new(TimestampNanosecondArray::from(raw.clone()).with_timezone_opt(zone)),
    };
    let spelt = |v: i64| if unit == 1 { format!("ns:{v}") } else { format!("us:{}", i128::from(v) * unit / 1000) };
    (array, raw.into_iter().map(|v| v.map(spelt)).collect())
}

fn strings(n: usize, most: u64, random: &mut Random) -> (ArrayRef, Vec<Text>) {
    let letters: Vec<char> = "abcXYZ 012éß漢字😀\u{7f}".chars().collect();
    let one = |random: &mut Random| {
        let len = random.below(most + 1);
        (0..len).map(|_| letters[usize::try_from(random.below(letters.len() as u64)).unwrap()]).collect::<String>()
    };
    let texts: Vec<Text> = (0..n).map(|_| (random.below(10) > 0).then(|| one(random))).collect();
    (Arc::new(StringArray::from(texts.clone())), texts)
}

fn bytes(n: usize, most: u64, random: &mut Random) -> (ArrayRef, Vec<Text>) {
    let one = |random: &mut Random| (0..random.below(most + 1)).map(|_| random.next() as u8).collect::<Vec<u8>>();
    let values: Vec<Option<Vec<u8>>> = (0..n).map(|_| (random.below(10) > 0).then(|| one(random))).collect();
    let array: BinaryArray = values.iter().map(Option::as_deref).collect();
    (Arc::new(array), values.iter().map(|v| v.as_deref().map(hex)).collect())
}

fn decimal(unscaled: i128, scale: usize) -> String {
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

const KEYS: [&str; 29] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(9, 2)",
    "DECIMAL(18, 18)",
    "DECIMAL(19, 0)",
    "DECIMAL(38, 10)",
    "CHAR(5)",
    "VARCHAR(20)",
    "STRING",
    "BINARY(4)",
    "VARBINARY(20)",
    "BYTES",
    "DATE",
    "TIME(0)",
    "TIME(3)",
    "TIMESTAMP(0)",
    "TIMESTAMP(3)",
    "TIMESTAMP(4)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(0) WITH LOCAL TIME ZONE",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
];

/// The bucket keys that are tried: each column alone, all together, and random ones.
fn bucket_keys(random: &mut Random) -> Vec<Vec<String>> {
    let name = |i: usize| format!("c{i}");
    let alone = (0..KEYS.len()).map(|i| vec![name(i)]);
    let mut keys: Vec<Vec<String>> = alone.chain([(0..KEYS.len()).map(name).collect()]).collect();
    for _ in 0..40 {
        let mut key: Vec<String> = Vec::new();
        for _ in 0..2 + random.below(5) {
            let one = name(usize::try_from(random.below(KEYS.len() as u64)).unwrap());
            if !key.contains(&one) {
                key.push(one);
            }
        }
        keys.push(key);
    }
    keys
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn every_row_goes_to_the_bucket_that_java_finds() {
    const ROWS: usize = 2000;
    let mut random = Random(4);
    let columns: Vec<_> = KEYS.iter().map(|sql| column(sql, ROWS, &mut random)).collect();
    let fields: Vec<Field> = (0..).zip(KEYS).map(|(i, sql)| Field::parse(i, format!("c{i}"), sql).unwrap()).collect();
    let schema = Schema { id: 0, fields, partition_by: Vec::new() };
    let batch = RecordBatch::try_new(schema.to_arrow(), columns.iter().map(|c| c.1.clone()).collect()).unwrap();
    let rows: Vec<Vec<&Text>> = (0..ROWS).map(|row| columns.iter().map(|c| &c.2[row]).collect()).collect();
    let mut wanted: Vec<BucketOptions> = Vec::new();
    for key in bucket_keys(&mut random) {
        // The greatest number of buckets shows all of the hash but its sign.
        for total in [i32::MAX, 1 + i32::try_from(random.below(40)).unwrap()] {
            wanted.push(BucketOptions { total, key: key.clone(), function: BucketFunction::Hash, ordered: true });
        }
    }
    let remainder = |c: usize, total| BucketOptions { total, key: vec![format!("c{c}")], function: BucketFunction::Mod, ordered: true };
    let by_remainder = [remainder(3, 7), remainder(4, 7), remainder(3, i32::MAX), remainder(4, i32::MAX)];
    each(&["java-newest", "java-oldest"], |reader| {
        // The old one knows no other function.
        let all: Vec<&BucketOptions> = wanted.iter().chain(by_remainder.iter().filter(|_| reader == "java-newest")).collect();
        let option = |o: &BucketOptions| {
            let function = if o.function == BucketFunction::Mod { "mod" } else { "default" };
            json!({"bucket": o.total.to_string(), "bucket-key": o.key.join(","), "bucket-function.type": function})
        };
        let types: Vec<(String, &str)> = KEYS.iter().enumerate().map(|(i, sql)| (format!("c{i}"), *sql)).collect();
        let options: Vec<Value> = all.iter().map(|o| option(o)).collect();
        let answer = get(reader, &json!({"cmd": "buckets", "columns": types, "options": options, "rows": rows}));
        for (options, theirs) in all.iter().zip(answer["buckets"].as_array().unwrap()) {
            let ours = FixedBuckets::new(&schema, options).unwrap().assign(&batch).unwrap();
            let theirs: Vec<i32> = serde_json::from_value(theirs.clone()).unwrap();
            count_comparison();
            let differs = ours.iter().zip(&theirs).position(|(a, b)| a != b);
            assert!(ours.len() == ROWS && differs.is_none(), "{reader}, {options:?}: row {differs:?}: {:?}", rows[differs.unwrap()]);
        }
        println!("{reader}: {} bucket keys and numbers of buckets, {ROWS} rows each, all alike", all.len());
    });
}

// ---- tables ----------------------------------------------------------------------------------------------------------------------------

fn spec(extra: &[(&str, &str)]) -> TableSpec {
    let fields = [(0, "k", "STRING"), (1, "n", "BIGINT NOT NULL")].map(|(id, name, sql)| Field::parse(id, name, sql).unwrap());
    let options = [("bucket", "2"), ("bucket-key", "k")].iter().chain(extra).map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    TableSpec::paimon(fields).options(options.collect())
}

/// Keys that fall into both buckets; every third is null.
fn key(n: i64) -> Text {
    (n % 3 > 0).then(|| format!("k{}", n % 7))
}

/// Rows that carry on the number, by a new process: it has seen nothing of what there is.
async fn append(table: &Path, spec: &TableSpec, next: &mut i64, rows: i64) -> Result<(), Error> {
    let table = Table::open_or_create(table.to_str().unwrap(), spec.clone()).await?;
    let user = CommitUser::new(format!("u{next}"));
    let mut write = table.new_write(&user)?;
    let numbers: Vec<i64> = (*next..*next + rows).collect();
    let keys: StringArray = numbers.iter().map(|n| key(*n)).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(Int64Array::from(numbers))];
    write.write(&RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap()).await?;
    table.new_commit(&user).commit(1, write.prepare_commit().await?).await?;
    *next += rows;
    Ok(())
}

/// The same by another engine.
fn append_by(writer: &str, table: &Path, next: &mut i64, rows: i64, more: &Value) {
    let rows: Vec<_> = (0..rows).map(|i| (key(*next + i), (*next + i).to_string())).collect();
    let mut question = json!({"cmd": "append", "table": table, "rows": rows});
    question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    get(writer, &question);
    *next += i64::try_from(rows.len()).unwrap();
}

fn assigned(total: i32, keys: &[Text]) -> Vec<i32> {
    let schema = spec(&[]).schema().unwrap();
    let numbers = Int64Array::from(vec![0; keys.len()]);
    let batch = RecordBatch::try_new(schema.to_arrow(), vec![Arc::new(StringArray::from(keys.to_vec())), Arc::new(numbers)]).unwrap();
    let options = BucketOptions { total, key: vec!["k".into()], function: BucketFunction::Hash, ordered: true };
    FixedBuckets::new(&schema, &options).unwrap().assign(&batch).unwrap()
}

/// Every number below `next` is there once; of `ordered` buckets in each in the order in which it was written.
fn assert_numbers(reader: &str, table: &Path, next: i64, ordered: Option<i32>) {
    let answer = get(reader, &json!({"cmd": "rows", "table": table}));
    count_comparison();
    let rows = answer["rows"].as_array().unwrap();
    let keys: Vec<Text> = rows.iter().map(|r| r["k"].as_str().map(str::to_owned)).collect();
    let numbers: Vec<i64> = rows.iter().map(|r| r["n"].as_str().unwrap().parse().unwrap()).collect();
    let mut all = numbers.clone();
    all.sort_unstable();
    assert_eq!(all, (0..next).collect::<Vec<_>>(), "{reader}");
    let mut last: BTreeMap<i32, i64> = BTreeMap::new();
    for (bucket, n) in assigned(ordered.unwrap_or(2), &keys).into_iter().zip(numbers) {
        let before = last.insert(bucket, n);
        assert!(ordered.is_none() || before.is_none_or(|b| b < n), "{reader}: in bucket {bucket} {n} comes after {before:?}");
    }
    assert!(last.len() > 1, "{reader}: {last:?}");
}

/// Sequence numbers of the live files of each bucket, by Java.
fn sequences(table: &Path) -> BTreeMap<i64, Vec<(i64, i64)>> {
    let answer = get("java-newest", &json!({"cmd": "list", "table": table}));
    let mut buckets: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for f in answer["files"].as_array().unwrap() {
        let number = |key: &str| f[key].as_i64().unwrap();
        buckets.entry(number("bucket")).or_default().push((number("minSequence"), number("maxSequence")));
    }
    buckets.values_mut().for_each(|b| b.sort_unstable());
    buckets
}

fn assert_apart(table: &Path) {
    for (bucket, ranges) in sequences(table) {
        for pair in ranges.windows(2) {
            assert!(pair[0].1 < pair[1].0, "bucket {bucket}: {ranges:?}");
        }
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn the_order_in_a_bucket_is_kept_through_restarts_java_appends_and_java_compaction() {
    let dir = tempfile::tempdir().unwrap();
    for writer in ["java-newest", "java-oldest"] {
        let table = dir.path().join("shop.db").join(writer.replace('-', "_"));
        let (spec, mut next) = (spec(&[]), 0);
        for _ in 0..3 {
            append(&table, &spec, &mut next, 20).await.unwrap();
        }
        let check = |next: i64, what: &str| {
            // Java reads by sequence number. The old one cannot filter our statistics, but reads them.
            for reader in ["java-newest", "java-oldest"] {
                assert_numbers(reader, &table, next, Some(2));
            }
            assert_apart(&table);
            println!("{writer}, {what}: {:?}", sequences(&table));
        };
        check(next, "ours");
        append_by(writer, &table, &mut next, 20, &json!({}));
        append_by(writer, &table, &mut next, 20, &json!({"identifier": 1, "user": "j"}));
        append(&table, &spec, &mut next, 20).await.unwrap();
        check(next, "ours after a Java append");
        get(writer, &json!({"cmd": "compact_buckets", "table": table}));
        append(&table, &spec, &mut next, 20).await.unwrap();
        append(&table, &spec, &mut next, 1).await.unwrap();
        check(next, "ours after a Java compaction");
        append_by(writer, &table, &mut next, 20, &json!({}));
        check(next, "a Java append after ours");
        assert!(sequences(&table).values().any(|ranges| ranges[0].1 > 20), "{writer} has compacted nothing");
        // The others keep no order, but find every row. pypaimon cannot read what the old Java wrote.
        for reader in READERS.into_iter().filter(|r| *r != "pypaimon" || writer == "java-newest") {
            assert_numbers(reader, &table, next, None);
        }
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn numbers_are_above_those_of_engines_that_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("shop.db/t");
    let (spec, mut next) = (spec(&[]), 0);
    append(&table, &spec, &mut next, 30).await.unwrap();
    // pypaimon gives every file the numbers 1, 1.
    append_by("pypaimon", &table, &mut next, 30, &json!({}));
    let before: BTreeMap<i64, i64> = sequences(&table).into_iter().map(|(b, r)| (b, r.iter().map(|r| r.1).max().unwrap())).collect();
    append(&table, &spec, &mut next, 30).await.unwrap();
    for (bucket, ranges) in sequences(&table) {
        assert!(ranges.last().unwrap().0 > before[&bucket], "bucket {bucket}: {ranges:?}");
    }
    for reader in READERS {
        assert_numbers(reader, &table, next, None);
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn a_table_that_java_spreads_anew_is_written_only_when_it_is_spread_anew() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("shop.db/t");
    let (spec, mut next) = (spec(&[]), 0);
    append(&table, &spec, &mut next, 30).await.unwrap();
    get("java-newest", &json!({"cmd": "alter", "table": table, "changes": [["set", "bucket", "4"]]}));
    let e = append(&table, &spec, &mut next, 30).await.unwrap_err();
    assert_eq!(e.kind(), Kind::Conflict, "{e}");
    assert!(e.to_string().contains("live files are spread over 2 buckets, and the table's `bucket` is now 4"), "{e}");
    next = 0;
    append_by("java-newest", &table, &mut next, 30, &json!({"overwrite": true}));
    append(&table, &spec, &mut next, 30).await.unwrap();
    let buckets: Vec<i64> = sequences(&table).into_keys().collect();
    assert_eq!(buckets.iter().max(), Some(&3), "{buckets:?}");
    for reader in READERS {
        assert_numbers(reader, &table, next, None);
    }
    assert_numbers("java-newest", &table, next, Some(4));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn two_writers_racing_on_one_bucket_share_its_numbers() {
    const COMMITS: i64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db/t");
    let spec = spec(&[("bucket", "1")]);
    let spec = &spec;
    let run = async |which: i64| {
        let table = Table::open_or_create(path.to_str().unwrap(), spec.clone()).await.unwrap();
        let user = CommitUser::new(format!("u{which}"));
        let (mut write, mut commit) = (table.new_write(&user).unwrap(), table.new_commit(&user));
        for id in 1..=COMMITS {
            let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(vec!["a"; 3])), Arc::new(Int64Array::from(vec![which, id, 0]))];
            write.write(&RecordBatch::try_new(table.schema().to_arrow(), columns).unwrap()).await.unwrap();
            let messages = write.prepare_commit().await.unwrap();
            commit.commit(id, messages).await.unwrap();
        }
    };
    futures::join!(run(1), run(2));
    let ranges = sequences(&path).remove(&0).unwrap();
    let expected: Vec<(i64, i64)> = (0..2 * COMMITS).map(|i| (3 * i, 3 * i + 2)).collect();
    assert_eq!(ranges, expected);
    // In the order of their numbers each writer's commits come one after the other.
    let answer = get("java-newest", &json!({"cmd": "rows", "table": path}));
    let rows: Vec<i64> = answer["rows"].as_array().unwrap().iter().map(|r| r["n"].as_str().unwrap().parse().unwrap()).collect();
    for which in [1, 2] {
        let ids: Vec<i64> = rows.chunks(3).filter(|r| r[0] == which).map(|r| r[1]).collect();
        assert_eq!(ids, (1..=COMMITS).collect::<Vec<_>>());
    }
}
