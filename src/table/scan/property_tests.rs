//! Any condition over any rows, against a look at each row; statistics as each writer makes them.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt as _;
use proptest::prelude::*;

use super::tests::{memory, schema, write};
use super::*;
use crate::condition::{Condition, col};
use crate::datafile::StatsMode;
use crate::schema::DataType;

/// A row: `p` partitions.
#[derive(Clone, Debug)]
struct Row {
    n: Option<i32>,
    x: Option<f64>,
    s: Option<String>,
    d: Option<i128>,
    t: Option<i64>,
    p: Option<i32>,
}

/// Texts around the place where statistics are cut.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[ab]{0,2}",
        "[ab]{1}".prop_map(|end| format!("abcdefghijklmno{end}")),
        "[aé\u{10ffff}]{1,3}".prop_map(|end| format!("abcdefghijklmno{end}")),
        "[\u{10ffff}\u{d7ff}]{15,18}",
        "%_{0,2}",
    ]
}
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(-f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN),
        Just(1.5),
        -3.0..3.0f64
    ]
}
fn whole() -> impl Strategy<Value = i32> {
    prop_oneof![Just(i32::MIN), Just(i32::MAX), -3..4i32]
}
fn unscaled() -> impl Strategy<Value = i128> {
    prop_oneof![Just(10i128.pow(38) - 1), Just(1 - 10i128.pow(38)), -3..4i128]
}
fn moment() -> impl Strategy<Value = i64> {
    prop_oneof![Just(-1i64), Just(253_402_300_799_999_999), -3..4i64]
}
fn row() -> impl Strategy<Value = Row> {
    use prop::option::of;
    (of(whole()), of(float()), of(text()), of(unscaled()), of(moment()), of(0..3i32)).prop_map(|(n, x, s, d, t, p)| Row {
        n,
        x,
        s,
        d,
        t,
        p,
    })
}

/// Is it true of a row? None: unknown.
type Truth = Arc<dyn Fn(&Row) -> Option<bool>>;

/// A condition and what it comes to for a row; none: unknown.
#[derive(Clone)]
struct Asked {
    condition: Condition,
    truth: Truth,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.condition)
    }
}

fn asked(condition: Condition, truth: impl Fn(&Row) -> Option<bool> + 'static) -> Asked {
    Asked { condition, truth: Arc::new(truth) }
}

/// As Spark orders them.
fn order(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if a < b => Ordering::Less,
        (false, false) if a > b => Ordering::Greater,
        (false, false) => Ordering::Equal,
    }
}

const OPS: [crate::condition::Op; 6] = {
    use crate::condition::Op::*;
    [Eq, Ne, Lt, Le, Gt, Ge]
};

fn holds(op: usize, order: Ordering) -> bool {
    [order.is_eq(), order.is_ne(), order.is_lt(), order.is_le(), order.is_gt(), order.is_ge()][op]
}

fn compared(column: &str, op: usize, value: impl Into<crate::condition::Literal>) -> Condition {
    let c = col(column);
    match op {
        0 => c.eq(value),
        1 => c.ne(value),
        2 => c.lt(value),
        3 => c.le(value),
        4 => c.gt(value),
        _ => c.ge(value),
    }
}

fn leaf() -> impl Strategy<Value = Asked> {
    prop_oneof![
        (0..6usize, whole()).prop_map(|(op, v)| asked(compared("n", op, v), move |r| Some(holds(op, r.n?.cmp(&v))))),
        (0..6usize, 0..4i32).prop_map(|(op, v)| asked(compared("p", op, v), move |r| Some(holds(op, r.p?.cmp(&v))))),
        (0..6usize, float()).prop_map(|(op, v)| asked(compared("x", op, v), move |r| Some(holds(op, order(r.x?, v))))),
        (0..6usize, text()).prop_map(|(op, v)| asked(compared("s", op, v.as_str()), move |r| Some(holds(op, r.s.as_ref()?.cmp(&v))))),
        (0..6usize, unscaled()).prop_map(|(op, v)| asked(compared("d", op, Scalar::Decimal(v)), move |r| Some(holds(op, r.d?.cmp(&v))))),
        (0..6usize, moment()).prop_map(|(op, v)| asked(compared("t", op, Scalar::Timestamp(v)), move |r| Some(holds(op, r.t?.cmp(&v))))),
        (0..6usize).prop_map(|op| asked(col("n").compare(OPS[op], col("p")), move |r| Some(holds(op, r.n?.cmp(&r.p?))))),
        (0..6usize).prop_map(|op| {
            asked(col("x").compare(OPS[op], col("n")), move |r| {
                let (x, n) = (r.x?, f64::from(r.n?));
                Some(holds(op, order(x, n)))
            })
        }),
        prop::collection::vec(whole(), 0..10).prop_map(|list| asked(col("n").is_in(list.clone()), move |r| if list.is_empty() {
            Some(false)
        } else {
            Some(list.contains(&r.n?))
        })),
        prop::collection::vec(text(), 1..10)
            .prop_map(|list| asked(col("s").is_in(list.clone()), move |r| Some(list.contains(r.s.as_ref()?)))),
        text().prop_map(|v| asked(col("s").starts_with(&v), move |r| Some(r.s.as_ref()?.starts_with(&v)))),
        Just(asked(col("s").is_null(), |r| Some(r.s.is_none()))),
        Just(asked(col("p").is_not_null(), |r| Some(r.p.is_some()))),
        Just(asked(col("x").is_null(), |r| Some(r.x.is_none()))),
    ]
}

fn condition() -> impl Strategy<Value = Asked> {
    leaf().prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| {
                let (x, y) = (a.truth.clone(), b.truth.clone());
                asked(a.condition.and(b.condition), move |r| match (x(r), y(r)) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                })
            }),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| {
                let (x, y) = (a.truth.clone(), b.truth.clone());
                asked(a.condition.or(b.condition), move |r| match (x(r), y(r)) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                })
            }),
            inner.prop_map(|a| {
                let x = a.truth.clone();
                asked(!a.condition, move |r| x(r).map(|t| !t))
            }),
        ]
    })
}

fn columns(rows: &[Row]) -> Vec<ArrayRef> {
    let decimals: Decimal128Array = rows.iter().map(|r| r.d).collect();
    vec![
        Arc::new((0..rows.len() as i64).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|r| r.n).collect::<Int32Array>()),
        Arc::new(rows.iter().map(|r| r.x).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|r| r.s.clone()).collect::<StringArray>()),
        Arc::new(decimals.with_precision_and_scale(38, 2).unwrap()),
        Arc::new(rows.iter().map(|r| r.t).collect::<TimestampMicrosecondArray>()),
        Arc::new(rows.iter().map(|r| r.p).collect::<Int32Array>()),
    ]
}

async fn found(scan: &Scan, files: &[ScanFile]) -> Vec<i64> {
    let rows = scan.clone().select(&["id"]).unwrap().read(files.to_vec()).unwrap();
    let batches: Vec<RecordBatch> = rows.into_stream().try_collect().await.unwrap();
    let mut ids: Vec<i64> = batches.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    ids.sort_unstable();
    ids
}

/// As a writer that cuts maxima and does not raise them.
fn not_raised(files: &[ScanFile], rows: &[Row]) -> Vec<ScanFile> {
    let mut files = files.to_vec();
    for file in &mut files {
        let p = match &file.partition[0] {
            Some(Scalar::Int(p)) => Some(i32::try_from(*p).unwrap()),
            _ => None,
        };
        let max = rows.iter().filter(|r| r.p == p).filter_map(|r| r.s.clone()).max();
        let cut = max.map(|m| Scalar::String(m.chars().take(16).collect()));
        file.stats.iter_mut().filter(|s| s.column == "s").for_each(|s| s.max = cut.clone());
    }
    files
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_filter_finds_the_rows_that_a_look_at_each_finds(rows in prop::collection::vec(row(), 1..12), asked in condition()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let result: std::result::Result<(), TestCaseError> = runtime.block_on(async {
            let store = memory();
            let decimal = DataType::Decimal { precision: 38, scale: 2 };
            let types = [
                (0, "id", DataType::BigInt), (1, "n", DataType::Int), (2, "x", DataType::Double), (3, "s", DataType::String), (4, "d", decimal),
                (5, "t", DataType::Timestamp(6)), (6, "p", DataType::Int),
            ];
            let schema = schema(0, &types, &["p"]);
            let files = write(&store, &schema, columns(&rows), StatsMode::Truncate(16)).await;
            let expected: Vec<i64> = (0i64..).zip(&rows).filter(|(_, r)| (asked.truth)(r) == Some(true)).map(|(i, _)| i).collect();
            let scan = Scan::new(store.clone(), schema.clone(), []).filter(&asked.condition).unwrap();
            prop_assert_eq!(found(&scan, &files).await, &expected[..]);
            prop_assert_eq!(scan.count(files.clone()).await.unwrap(), expected.len() as u64);
            let blind: Vec<ScanFile> = files.iter().cloned().map(|f| ScanFile { stats: Vec::new(), ..f }).collect();
            prop_assert_eq!(found(&scan, &blind).await, &expected[..], "without statistics");
            prop_assert_eq!(found(&scan, &not_raised(&files, &rows)).await, &expected[..], "with maxima that are cut and not raised");
            // As text it is the same condition, but for values that have no text of their own.
            if let Ok(again) = Condition::parse(&asked.condition.to_string()) {
                let again = Scan::new(store, schema, []).filter(&again).unwrap();
                prop_assert_eq!(found(&again, &files).await, expected, "as text");
            }
            Ok(())
        });
        result?;
    }
}
