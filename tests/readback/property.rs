//! Random tables against brute force: random schemas (nested to depth 3), random values, random filters; written by us, read by us and by
//! others.
//!
//! ```text
//! cargo test --test main readback::property -- --ignored --nocapture         1,000 cases
//! ```
//!
//! `PROPTEST_RNG_SEED` makes it the same ones each time; `LAKEWARD_PROPERTY_CASES` says how many. pypaimon reads every table without a
//! MULTISET, pypaimon-rust every other one and all with a MULTISET, Java 1.4.2 each fifth, each with filters of its own. What is left out for
//! a reader is in [`asks`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use lakeward::condition::{Condition, Literal, col};
use lakeward::env::Env;
use lakeward::schema::{DataType, Field, Item, Scalar};
use lakeward::store::{Durability, Store, StoreOptions};
use lakeward::table::{CommitUser, Table, TableSpec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Map, Value, json};

use super::model::{answered, batch, cells, decimal, has_multiset, nanos, rows_of_batch};
use super::readers::{Row, ask, compared, count_comparison, difference};

pub(super) const OPS: [&str; 7] = ["eq", "lt", "le", "gt", "ge", "is_null", "is_not_null"];

/// A table, what is written to it commit by commit, and what is asked.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) fields: Vec<Field>,
    pub(super) partitioned: bool,
    pub(super) buckets: usize,
    pub(super) stats: &'static str,
    pub(super) commits: Vec<Vec<Vec<Value>>>,
    pub(super) filters: Vec<Filter>,
}

#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) column: usize,
    pub(super) op: &'static str,
    /// Canonical text; none for `is_null` and `is_not_null`.
    pub(super) bound: Option<String>,
}

// ---------------------------------------------------------------- types and values

fn atom() -> BoxedStrategy<DataType> {
    let decimal = (1u8..=38).prop_flat_map(|precision| (Just(precision), 0..=precision));
    prop_oneof![
        3 => proptest::sample::select(vec![
            DataType::Boolean, DataType::TinyInt, DataType::SmallInt, DataType::Int, DataType::BigInt, DataType::Float, DataType::Double,
            DataType::String, DataType::Bytes, DataType::Date,
        ]),
        1 => decimal.prop_map(|(precision, scale)| DataType::Decimal { precision, scale }),
        1 => (1u32..6).prop_map(DataType::Char),
        1 => (1u32..30).prop_map(DataType::VarChar),
        1 => (1u32..6).prop_map(DataType::Binary),
        1 => (1u32..30).prop_map(DataType::VarBinary),
        1 => (0u8..=9).prop_map(DataType::Time),
        1 => (0u8..=9).prop_map(DataType::Timestamp),
        1 => (0u8..=9).prop_map(DataType::TimestampLtz),
    ]
    .boxed()
}

/// Keys have no nulls, and no floats: NaN and -0.0 are the same key to some and not to others.
fn key() -> BoxedStrategy<Item> {
    let float = |t: &DataType| matches!(t, DataType::Float | DataType::Double);
    atom().prop_filter("a float is no key", move |t| !float(t)).prop_map(|data_type| Item { data_type, nullable: false }).boxed()
}

pub(super) fn item(data_type: BoxedStrategy<DataType>) -> BoxedStrategy<Box<Item>> {
    (data_type, any::<bool>()).prop_map(|(data_type, nullable)| Box::new(Item { data_type, nullable })).boxed()
}

/// A type, up to three others within each other.
fn data_type() -> BoxedStrategy<DataType> {
    let nested = atom().prop_recursive(3, 10, 3, |inner| {
        let row = proptest::collection::vec((inner.clone(), any::<bool>()), 1..4).prop_map(|fields| {
            let field = |(i, (data_type, nullable))| Field { id: 0, name: format!("f{i}"), data_type, nullable, description: None };
            DataType::Row(fields.into_iter().enumerate().map(field).collect())
        });
        prop_oneof![
            3 => item(inner.clone().boxed()).prop_map(DataType::Array),
            2 => (key(), item(inner.boxed())).prop_map(|(k, v)| DataType::Map(Box::new(k), v)),
            3 => row,
            1 => key().prop_map(|k| DataType::Multiset(Box::new(k))),
        ]
        .boxed()
    });
    prop_oneof![atom(), nested.boxed()].boxed()
}

/// Values of an integer type: its ends, around zero, anything.
fn whole(least: i128, most: i128) -> BoxedStrategy<i128> {
    let near = (-3i128..=3).prop_map(move |n| n.clamp(least, most));
    prop_oneof![1 => Just(least), 1 => Just(most), 3 => near, 3 => least..=most].boxed()
}

fn letters(most: u32) -> BoxedStrategy<String> {
    let most = most as usize;
    let letter = prop_oneof![4 => proptest::char::range('a', 'e'), 1 => any::<char>(), 1 => Just('\u{10FFFF}'), 1 => Just('é')];
    proptest::collection::vec(letter, 0..=most).prop_map(|v| v.into_iter().collect()).boxed()
}

fn hex(least: u32, most: u32) -> BoxedStrategy<Value> {
    let byte = prop_oneof![Just(0u8), Just(0xff), Just(0x80), any::<u8>()];
    let text = |b: Vec<u8>| json!(format!("hex:{}", b.iter().map(|b| format!("{b:02x}")).collect::<String>()));
    proptest::collection::vec(byte, least as usize..=most as usize).prop_map(text).boxed()
}

pub(super) const YEARS: (i128, i128) = (-62_135_596_800_000_000, 253_402_300_799_999_999);

fn moment(precision: u8) -> BoxedStrategy<Value> {
    let step = |digits: u8| 10i128.pow(u32::from(digits - precision));
    let (least, most, step, unit) = match precision {
        ..=6 => (YEARS.0, YEARS.1, step(6), "us"),
        _ => (i64::MIN.into(), i64::MAX.into(), step(9), "ns"),
    };
    whole(least / step, most / step).prop_map(move |n| json!(format!("{unit}:{}", n * step))).boxed()
}

pub(super) fn value(data_type: &DataType) -> BoxedStrategy<Value> {
    let number = |least: i64, most: i64| whole(least.into(), most.into()).prop_map(|n| json!(n.to_string())).boxed();
    match data_type {
        DataType::Boolean => any::<bool>().prop_map(|b| json!(b.to_string())).boxed(),
        DataType::TinyInt => number(-128, 127),
        DataType::SmallInt => number(-32768, 32767),
        DataType::Int => number(i32::MIN.into(), i32::MAX.into()),
        DataType::BigInt => number(i64::MIN, i64::MAX),
        DataType::Float => {
            let special = proptest::sample::select(vec![0.0f32, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.5, f32::MAX]);
            prop_oneof![special, any::<f32>()].prop_map(|v| json!(format!("f32:{:08x}", v.to_bits()))).boxed()
        }
        DataType::Double => {
            let special = proptest::sample::select(vec![0.0f64, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5, f64::MIN]);
            prop_oneof![special, any::<f64>()].prop_map(|v| json!(format!("f64:{:016x}", v.to_bits()))).boxed()
        }
        DataType::Decimal { precision, scale } => {
            let (most, scale) = (10i128.pow(u32::from(*precision)) - 1, usize::from(*scale));
            whole(-most, most).prop_map(move |n| json!(decimal(n, scale))).boxed()
        }
        DataType::Char(n) | DataType::VarChar(n) => letters(*n).prop_map(Value::from).boxed(),
        DataType::String => prop_oneof![4 => letters(12), 1 => Just("x".repeat(600))].prop_map(Value::from).boxed(),
        DataType::Binary(n) => hex(*n, *n),
        DataType::VarBinary(n) => hex(0, *n),
        DataType::Bytes => hex(0, 20),
        DataType::Date => whole(-719_162, 2_932_896).prop_map(|n| json!(format!("day:{n}"))).boxed(),
        DataType::Time(p) => {
            let step = 10i128.pow(3u32.saturating_sub((*p).into()));
            whole(0, 86_399_999 / step).prop_map(move |n| json!(format!("time-ms:{}", n * step))).boxed()
        }
        DataType::Timestamp(p) | DataType::TimestampLtz(p) => moment(*p),
        DataType::Array(e) => proptest::collection::vec(nullable(&e.data_type, e.nullable), 0..4).prop_map(Value::from).boxed(),
        DataType::Map(k, v) => entries(value(&k.data_type), nullable(&v.data_type, v.nullable)),
        DataType::Multiset(e) => entries(value(&e.data_type), (1i32..).prop_map(|n| json!(n.to_string())).boxed()),
        DataType::Row(fields) => {
            let names: Vec<String> = fields.iter().map(|f| f.name.clone()).collect();
            let of: Vec<BoxedStrategy<Value>> = fields.iter().map(|f| nullable(&f.data_type, f.nullable)).collect();
            of.prop_map(move |v| Value::from(names.iter().cloned().zip(v).collect::<Map<_, _>>())).boxed()
        }
        other => panic!("no values of type {other}"),
    }
}

fn entries(key: BoxedStrategy<Value>, value: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let once = |all: Vec<(Value, Value)>| {
        let unique: BTreeMap<String, (Value, Value)> = all.into_iter().map(|(k, v)| (k.to_string(), (k, v))).collect();
        unique.into_values().map(|(k, v)| json!([k, v])).collect::<Value>()
    };
    proptest::collection::vec((key, value), 0..4).prop_map(once).boxed()
}

pub(super) fn nullable(data_type: &DataType, nullable: bool) -> BoxedStrategy<Value> {
    let value = value(data_type);
    if nullable { prop_oneof![1 => Just(Value::Null), 3 => value].boxed() } else { value }
}

// ---------------------------------------------------------------- cases

fn case() -> BoxedStrategy<Case> {
    let columns = proptest::collection::vec((data_type(), any::<bool>()), 1..5);
    let partition = proptest::option::weighted(0.3, proptest::sample::select(vec!["STRING", "INT", "DATE", "BOOLEAN"]));
    let stats = proptest::sample::select(vec!["truncate(16)", "truncate(16)", "truncate(2)", "full", "counts", "none"]);
    (columns, partition, 0usize..4, stats)
        .prop_flat_map(|(columns, partition, buckets, stats)| {
            let mut fields = vec![Field::parse(0, "id", "BIGINT NOT NULL").unwrap()];
            fields.extend(partition.map(|sql| Field::parse(0, "p", sql).unwrap()));
            let named = columns.into_iter().enumerate().map(|(i, (data_type, nullable))| {
                // Some readers compare the names of columns only, so they must not be those of fields within.
                Field { id: 0, name: format!("c{i}"), data_type, nullable, description: None }
            });
            fields.extend(named);
            let of_partition = |f: &Field| match f.data_type {
                // Blanks have tests of their own: some readers take other characters for blank.
                DataType::String => prop_oneof![Just(Value::Null), "[a-c/=%]{0,2}".prop_map(Value::from)].boxed(),
                _ => nullable(&f.data_type, true),
            };
            let row: Vec<BoxedStrategy<Value>> = fields
                .iter()
                .map(|f| match f.name.as_str() {
                    "id" => Just(Value::Null).boxed(), // numbered below
                    "p" => of_partition(f),
                    _ => nullable(&f.data_type, f.nullable),
                })
                .collect();
            let commits = proptest::collection::vec(proptest::collection::vec(row, 1..6), 1..4);
            let filter = (0..fields.len(), proptest::sample::select(OPS.to_vec()), any::<proptest::sample::Index>());
            let filters = proptest::collection::vec(filter, 1..4);
            (Just(fields), Just(partition.is_some()), Just(buckets), Just(stats), commits, filters)
        })
        .prop_map(|(fields, partitioned, buckets, stats, mut commits, picked)| {
            for (i, row) in commits.iter_mut().flatten().enumerate() {
                row[0] = json!(i.to_string());
            }
            let filters = picked.into_iter().map(|(column, op, index)| {
                let there: Vec<&Value> = commits.iter().flatten().map(|r| &r[column]).filter(|v| !v.is_null()).collect();
                let bound = if there.is_empty() { None } else { index.get(&there).as_str().map(str::to_owned) };
                // Of nested columns, and of nothing but nulls, only this can be asked.
                let op = if bound.is_none() && !op.starts_with("is_") { "is_null" } else { op };
                Filter { column, op, bound: bound.filter(|_| !op.starts_with("is_")) }
            });
            let filters = filters.collect();
            Case { fields, partitioned, buckets, stats, commits, filters }
        })
        .boxed()
}

// ---------------------------------------------------------------- brute force

/// Whose rules a comparison follows.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum By {
    /// NaN equals itself and is above all, -0.0 equals 0.0: ours.
    Sql,
    /// NaN equals nothing: the second filter of tests/interop.
    Ieee,
    /// -NaN is below all, NaN above all, and -0.0 equals 0.0: deltalake's query engine.
    Total,
}

pub(super) fn order(by: By, data_type: &DataType, a: &str, b: &str) -> Option<Ordering> {
    let float = |t: &str| match data_type {
        DataType::Float => f64::from(f32::from_bits(u32::from_str_radix(&t[4..], 16).unwrap())),
        _ => f64::from_bits(u64::from_str_radix(&t[4..], 16).unwrap()),
    };
    let after = |t: &str| t.split_once(':').unwrap().1.parse::<i128>().unwrap();
    Some(match data_type {
        DataType::Float | DataType::Double => {
            let (a, b) = (float(a), float(b));
            match by {
                By::Ieee => a.partial_cmp(&b)?,
                By::Total => (a + 0.0).total_cmp(&(b + 0.0)), // which makes one zero of two
                By::Sql => a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
            }
        }
        DataType::Boolean => a.cmp(b), // false, true
        DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt | DataType::Decimal { .. } => {
            let whole = |t: &str| t.replace('.', "").parse::<i128>().unwrap();
            whole(a).cmp(&whole(b))
        }
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => nanos(a).cmp(&nanos(b)),
        DataType::Date | DataType::Time(_) => after(a).cmp(&after(b)),
        _ => a.as_bytes().cmp(b.as_bytes()),
    })
}

fn passes(by: By, data_type: &DataType, value: &Value, filter: &Filter) -> bool {
    let order = || order(by, data_type, value.as_str().unwrap(), filter.bound.as_deref().unwrap());
    match (filter.op, value.is_null()) {
        ("is_null", null) => null,
        ("is_not_null", null) => !null,
        (_, true) => false,
        ("eq", _) => order() == Some(Ordering::Equal),
        ("lt", _) => order().is_some_and(Ordering::is_lt),
        ("le", _) => order().is_some_and(Ordering::is_le),
        ("gt", _) => order().is_some_and(Ordering::is_gt),
        _ => order().is_some_and(Ordering::is_ge),
    }
}

pub(super) fn expected(case: &Case, by: By, filter: Option<&Filter>) -> Vec<Row> {
    let keeps = |row: &&Vec<Value>| filter.is_none_or(|f| passes(by, &case.fields[f.column].data_type, &row[f.column], f));
    let rows: Vec<Vec<Value>> = case.commits.iter().flatten().filter(keeps).cloned().collect();
    let mut rows = cells(&case.fields, &rows);
    rows.sort();
    rows
}

// ---------------------------------------------------------------- readers

fn scalar(data_type: &DataType, text: &str) -> Scalar {
    let after = || text.split_once(':').unwrap().1;
    let bits = || u64::from_str_radix(after(), 16).unwrap();
    match data_type {
        DataType::Boolean => Scalar::Bool(text == "true"),
        DataType::Float => Scalar::Float(f32::from_bits(u32::try_from(bits()).unwrap())),
        DataType::Double => Scalar::Double(f64::from_bits(bits())),
        DataType::Decimal { .. } => Scalar::Decimal(text.replace('.', "").parse().unwrap()),
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => Scalar::String(text.to_owned()),
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => {
            let digits = after();
            Scalar::Bytes((0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect())
        }
        DataType::Date => Scalar::Date(after().parse().unwrap()),
        DataType::Time(_) => Scalar::Time(after().parse().unwrap()),
        DataType::Timestamp(7..) | DataType::TimestampLtz(7..) => Scalar::TimestampNanos(after().parse().unwrap()),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => Scalar::Timestamp(after().parse().unwrap()),
        _ => Scalar::Int(text.parse().unwrap()),
    }
}

fn condition(case: &Case, filter: &Filter) -> Condition {
    let (field, column) = (&case.fields[filter.column], col(case.fields[filter.column].name.clone()));
    let value = || Literal::from(scalar(&field.data_type, filter.bound.as_deref().unwrap()));
    match filter.op {
        "eq" => column.eq(value()),
        "lt" => column.lt(value()),
        "le" => column.le(value()),
        "gt" => column.gt(value()),
        "ge" => column.ge(value()),
        "is_null" => column.is_null(),
        _ => column.is_not_null(),
    }
}

/// May this be asked of the reader? What cannot is a matter of the reader, not of what we wrote, and has its place in
/// tests/interop/README.md.
fn asks(reader: &str, case: &Case, filter: &Filter) -> bool {
    let data_type = &case.fields[filter.column].data_type;
    // pypaimon-rust panics in its Parquet reader when it filters by some nested columns.
    let Some(bound) = &filter.bound else { return reader != "pypaimon-rust" || !data_type.is_nested() };
    let python = reader.starts_with("pypaimon");
    let far = bound.starts_with("us:") && !(YEARS.0..=YEARS.1).contains(&bound[3..].parse().unwrap());
    match data_type {
        // Literals of Python have microseconds; pypaimon loses the zone of an INT96.
        DataType::Timestamp(7..) if python => nanos(bound) % 1000 == 0,
        DataType::TimestampLtz(7..) if python => reader != "pypaimon" && nanos(bound) % 1000 == 0,
        DataType::Timestamp(_) | DataType::TimestampLtz(_) if python => !far,
        // Arrow's kernels tell the two zeros apart.
        DataType::Float | DataType::Double if reader == "pypaimon-rust" && is_zero(bound) => false,
        // Java's order of floats is total, and its bytes are signed.
        DataType::Float | DataType::Double | DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => python,
        _ => true,
    }
}

/// 0.0 or -0.0.
pub(super) fn is_zero(bound: &str) -> bool {
    bound.split_once(':').is_some_and(|(_, bits)| bits.trim_start_matches(['0', '8']).is_empty())
}

/// Java 1.4 fails on a MULTISET of timestamps or decimals (ClassCastException), its own ones too.
fn java_fails(data_type: &DataType) -> bool {
    match data_type {
        DataType::Multiset(e) => matches!(e.data_type, DataType::Timestamp(_) | DataType::TimestampLtz(_) | DataType::Decimal { .. }),
        DataType::Array(e) => java_fails(&e.data_type),
        DataType::Map(k, v) => java_fails(&k.data_type) || java_fails(&v.data_type),
        DataType::Row(fields) => fields.iter().any(|f| java_fails(&f.data_type)),
        _ => false,
    }
}

async fn write(case: &Case, location: &Path) -> lakeward::Result<Table> {
    let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
    let store = Store::open(location.to_str().unwrap(), &Env::real(), options)?;
    let mut table_options = BTreeMap::from([("metadata.stats-mode".to_owned(), case.stats.to_owned())]);
    if case.buckets > 0 {
        table_options.insert("bucket".to_owned(), case.buckets.to_string());
        table_options.insert("bucket-key".to_owned(), "id".to_owned());
    }
    let partition = case.partitioned.then_some("p");
    let spec = TableSpec::paimon(case.fields.clone()).partition_by(partition).options(table_options);
    let table = Table::open_or_create_in(store, &spec).await?;
    let user = CommitUser::new("property");
    let (mut write, mut commit) = (table.new_write(&user)?, table.new_commit(&user));
    for (rows, identifier) in case.commits.iter().zip(1..) {
        write.write(&batch(&case.fields, rows)).await?;
        commit.commit(identifier, write.prepare_commit().await?).await?;
    }
    Ok(table)
}

pub(super) async fn read(case: &Case, table: &Table, filter: Option<&Filter>) -> lakeward::Result<Vec<Row>> {
    let scan = table.scan();
    let scan = if let Some(filter) = filter { scan.filter(condition(case, filter)) } else { scan };
    let mut rows = scan.rows().await?;
    let mut all = Vec::new();
    while let Some(batch) = rows.next().await? {
        all.extend(rows_of_batch(&batch, &case.fields));
    }
    all.sort();
    Ok(all)
}

pub(super) fn same(who: &str, filter: Option<&Filter>, found: &[Row], expected: &[Row]) -> Result<(), TestCaseError> {
    count_comparison();
    if found == expected {
        return Ok(());
    }
    Err(TestCaseError::fail(format!("{who}, {filter:?}: {}", difference(found, expected))))
}

fn ask_reader(reader: &str, case: &Case, table: &Path, filter: Option<&Filter>) -> Result<(), TestCaseError> {
    let filter_json = filter.map(|f| {
        let name = &case.fields[f.column].name;
        f.bound.as_ref().map_or_else(|| json!([name, f.op]), |bound| json!([name, f.op, bound]))
    });
    let answer = ask(reader, &json!({"cmd": "rows", "table": table, "filter": filter_json}));
    if answer["ok"] != true {
        return Err(TestCaseError::fail(format!("{reader}, {filter:?}: {answer:.1500}")));
    }
    let by = if reader.starts_with("java") { By::Sql } else { By::Ieee };
    same(reader, filter, &answered(&answer, &case.fields), &expected(case, by, filter))
}

fn check(case: &Case, number: usize, folder: &Path, runtime: &tokio::runtime::Runtime) -> Result<(), TestCaseError> {
    let location = folder.join("shop.db").join(format!("t{number}"));
    let _ = std::fs::remove_dir_all(&location); // a smaller form of the same case
    let failed = |e: lakeward::Error| TestCaseError::fail(e.to_string());
    let table = runtime.block_on(write(case, &location)).map_err(failed)?;
    for filter in std::iter::once(None).chain(case.filters.iter().map(Some)) {
        let found = runtime.block_on(read(case, &table, filter)).map_err(failed)?;
        same("we", filter, &found, &expected(case, By::Sql, filter))?;
    }
    let multiset = case.fields.iter().any(|f| has_multiset(&f.data_type));
    let readers = [
        ("pypaimon", !multiset),
        ("pypaimon-rust", multiset || number.is_multiple_of(2)),
        ("java-newest", number.is_multiple_of(5) && !case.fields.iter().any(|f| java_fails(&f.data_type))),
    ];
    for (reader, _) in readers.into_iter().filter(|(_, asked)| *asked) {
        ask_reader(reader, case, &location, None)?;
        // One filter each: the time goes into their answers.
        for filter in case.filters.iter().filter(|f| asks(reader, case, f)).take(1) {
            ask_reader(reader, case, &location, Some(filter))?;
        }
    }
    std::fs::remove_dir_all(&location).unwrap();
    Ok(())
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn random_tables_are_read_as_brute_force_says_by_us_and_by_others() {
    let start = Instant::now();
    let cases = std::env::var("LAKEWARD_PROPERTY_CASES").ok().map_or(1000, |n| n.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let result = TestRunner::new(config).run(&case(), |case| {
        number.set(number.get() + 1);
        check(&case, number.get(), folder.path(), &runtime)
    });
    println!("property: {} cases, {:.1?}, {} comparisons by all tests so far", number.get(), start.elapsed(), compared());
    if let Err(e) = result {
        panic!("{e}");
    }
}
