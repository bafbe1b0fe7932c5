use std::sync::Arc;

use arrow::array::{
    BinaryArray, Decimal128Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
};
use proptest::prelude::*;

use super::super::row;
use super::*;
use crate::schema::Scalar;

const WIDE: DataType = DataType::Decimal { precision: 20, scale: 2 };

fn hash_of(columns: &[(DataType, ArrayRef)]) -> Vec<i32> {
    let columns: Vec<_> = columns.iter().map(|(t, c)| (t, c)).collect();
    hashes(&columns, columns[0].1.len()).unwrap()
}
fn longs(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}
fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[test]
fn hashes_are_those_of_java() {
    // From Java Paimon 1.4.2 and 0.9.0 (`buckets` of tests/interop, a bucket number of 2^31 - 1), and from the format's description.
    assert_eq!(
        hash_of(&[(DataType::BigInt, longs(&[Some(1), Some(2), Some(3), None]))]),
        [1465514398, 1340390384, -771300025, -1748325344]
    );
    assert_eq!(hash_of(&[(DataType::String, texts(&[Some("a"), Some("ccccccccccc")]))]), [943281246, 871589488]);
    let two = [(DataType::Int, Arc::new(Int32Array::from(vec![7])) as ArrayRef), (DataType::String, texts(&[Some("paimon-rust")]))];
    assert_eq!(hash_of(&two), [1473489574]);
    let decimals = Decimal128Array::from(vec![None, Some(100), Some(-129)]).with_precision_and_scale(20, 2).unwrap();
    let abs = |v: Vec<i32>| v.into_iter().map(i32::abs).collect::<Vec<_>>();
    assert_eq!(abs(hash_of(&[(WIDE, Arc::new(decimals))])), [1380280760, 81278861, 104809469]);
    let fine: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![None, Some(-1)]));
    assert_eq!(abs(hash_of(&[(DataType::Timestamp(6), fine)])), [340882661, 1236894319]);
    let coarse: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![None, Some(-1)]));
    assert_eq!(abs(hash_of(&[(DataType::Timestamp(3), coarse)])), [1748325344, 821098432]);
}

fn table(columns: &[(&str, &str)], partition_by: &[&str]) -> Schema {
    let fields = columns.iter().zip(0..).map(|((n, t), id)| Field::parse(id, *n, t).unwrap()).collect();
    Schema { id: 0, fields, partition_by: partition_by.iter().map(|s| (*s).to_owned()).collect() }
}
fn options(total: i32, key: &str, function: BucketFunction) -> BucketOptions {
    BucketOptions { total, key: key.split(',').map(str::to_owned).collect(), function, ordered: true }
}

#[test]
fn the_smallest_hash_and_negative_keys_have_buckets_too() {
    let schema = table(&[("v", "STRING"), ("k", "BIGINT")], &[]);
    let values = [i64::MIN, -7, -1, 0, 5, i64::MAX];
    let column: Vec<Option<i64>> = values.iter().map(|v| Some(*v)).chain([None]).collect();
    let batch = RecordBatch::try_new(schema.to_arrow(), vec![texts(&[None; 7]), longs(&column)]).unwrap();
    let assigned = FixedBuckets::new(&schema, &options(5, "k", BucketFunction::Mod)).unwrap().assign(&batch).unwrap();
    let expected: Vec<i32> = values.iter().map(|v| i32::try_from(v.rem_euclid(5)).unwrap()).chain([0]).collect();
    assert_eq!(assigned, expected);
    for total in [1, 2, 7, i32::MAX] {
        let buckets = FixedBuckets::new(&schema, &options(total, "k", BucketFunction::Hash)).unwrap();
        assert_eq!(buckets.total(), total);
        assert!(buckets.assign(&batch).unwrap().iter().all(|b| (0..total).contains(b)));
    }
}

#[test]
fn a_bucket_key_is_some_columns_that_do_not_partition() {
    let schema = table(&[("id", "BIGINT"), ("name", "STRING"), ("dt", "DATE")], &["dt"]);
    for (key, function, what) in [
        ("x", BucketFunction::Hash, "`x` is not a column"),
        ("id, name", BucketFunction::Hash, "` name` is not a column"),
        ("", BucketFunction::Hash, "`` is not a column"),
        ("id,dt", BucketFunction::Hash, "`dt` is a partition column"),
        ("id,id", BucketFunction::Hash, "`id` is named twice"),
        ("name", BucketFunction::Mod, "one bucket key of type INT or BIGINT, not `name`"),
        ("id,name", BucketFunction::Mod, "not `id,name`"),
    ] {
        let e = check(&schema, &options(2, key, function)).unwrap_err();
        assert_eq!(e.kind(), crate::Kind::Invalid);
        assert!(e.message().contains(what), "{e}");
    }
    assert_eq!(check(&schema, &options(2, "name,id", BucketFunction::Hash)).unwrap().iter().map(|(i, _)| *i).collect::<Vec<_>>(), [1, 0]);
}

/// The hash of one row's BinaryRow, from bytes that another module makes. It has no form for nulls of wide types.
fn slow(fields: &[(DataType, Option<Scalar>)]) -> i32 {
    let bytes = row::encode(fields.iter().map(|(t, v)| (t, v.as_ref()))).unwrap();
    let mut hash = Murmur(Murmur::SEED);
    bytes[4..].chunks(4).for_each(|w| hash.word(u32::from_le_bytes(w.try_into().unwrap())));
    hash.finish(u32::try_from(bytes.len() - 4).unwrap())
}

fn maybe<T: std::fmt::Debug>(values: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.8, values)
}

type Sample = (Option<i64>, Option<String>, i128, i64, Option<Vec<u8>>);

fn sample() -> impl Strategy<Value = Sample> {
    let text = prop_oneof!["[a-zé]{0,9}", "[x]{0,40}"];
    let wide = prop_oneof![any::<i128>().prop_map(|v| v % 10i128.pow(20)), -300i128..300];
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    (maybe(any::<i64>()), maybe(text), wide, -1_000_000_000_000_000i64..1_000_000_000_000_000, maybe(bytes))
}

proptest! {
    #[test]
    fn a_whole_batch_hashes_like_its_rows_one_by_one(samples in prop::collection::vec(sample(), 1..40)) {
        let wide = Decimal128Array::from_iter_values(samples.iter().map(|s| s.2)).with_precision_and_scale(20, 2).unwrap();
        let columns: Vec<(DataType, ArrayRef)> = vec![
            (DataType::BigInt, Arc::new(samples.iter().map(|s| s.0).collect::<Int64Array>())),
            (DataType::String, Arc::new(samples.iter().map(|s| s.1.clone()).collect::<StringArray>())),
            (WIDE, Arc::new(wide)),
            (DataType::Timestamp(6), Arc::new(TimestampMicrosecondArray::from_iter_values(samples.iter().map(|s| s.3)))),
            (DataType::Bytes, Arc::new(samples.iter().map(|s| s.4.clone()).collect::<BinaryArray>())),
        ];
        let one = |s: &Sample| slow(&[
            (DataType::BigInt, s.0.map(Scalar::Int)),
            (DataType::String, s.1.clone().map(Scalar::String)),
            (WIDE, Some(Scalar::Decimal(s.2))),
            (DataType::Timestamp(6), Some(Scalar::Timestamp(s.3))),
            (DataType::Bytes, s.4.clone().map(Scalar::Bytes)),
        ]);
        prop_assert_eq!(hash_of(&columns), samples.iter().map(one).collect::<Vec<_>>());
        // A slice has its own offsets and null bits.
        let half = samples.len() / 2;
        let sliced: Vec<_> = columns.iter().map(|(t, c)| (t.clone(), c.slice(half, samples.len() - half))).collect();
        prop_assert_eq!(hash_of(&sliced), samples[half..].iter().map(one).collect::<Vec<_>>());
    }
}

#[test]
fn null_bits_go_on_in_the_second_word() {
    let columns: Vec<(DataType, ArrayRef)> = (0..60).map(|i| (DataType::BigInt, longs(&[(i % 3 != 0).then_some(i)]))).collect();
    let fields: Vec<_> = (0..60).map(|i| (DataType::BigInt, (i % 3 != 0).then_some(Scalar::Int(i)))).collect();
    assert_eq!(hash_of(&columns), [slow(&fields)]);
}
