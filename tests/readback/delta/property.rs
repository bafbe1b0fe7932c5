//! Random Delta tables against brute force: random schemas, values, and filters at each file's minima and maxima and one step around them.
//!
//! ```text
//! cargo test --test main readback::delta::property -- --ignored --nocapture         150 cases
//! ```
//!
//! `PROPTEST_RNG_SEED` makes it the same ones each time; `LAKEWARD_PROPERTY_CASES` says how many. Every table is read by us, deltalake, DuckDB and
//! Polars, every other one by Spark, which is asked fewer filters because each takes it a second.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use lakeward::env::Env;
use lakeward::schema::{DataType, Field, Item};
use lakeward::store::{Durability, Store, StoreOptions};
use lakeward::table::{CommitUser, Table, TableSpec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::readback::model::{answered, batch, decimal};
use crate::readback::property::{By, Case, Filter, OPS, YEARS, expected, is_zero, item, nullable, order, read, same};
use crate::readback::readers::{ask, compared};

/// Creates a table and commits each list of rows.
pub(super) async fn write(location: &Path, fields: Vec<Field>, by: Option<&str>, commits: &[Vec<Vec<Value>>]) -> lakeward::Result<Table> {
    let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
    let store = Store::open(location.to_str().unwrap(), &Env::real(), options)?;
    let table = Table::open_or_create_in(store, &TableSpec::delta(fields.clone()).partition_by(by)).await?;
    let user = CommitUser::new("u");
    let (mut write, mut commit) = (table.new_write(&user)?, table.new_commit(&user));
    for (rows, identifier) in commits.iter().zip(1..) {
        write.write(&batch(&fields, rows)).await?;
        commit.commit(identifier, write.prepare_commit().await?).await?;
    }
    Ok(table)
}

// ---------------------------------------------------------------- types and values

fn atom() -> BoxedStrategy<DataType> {
    let decimal = (1u8..=38).prop_flat_map(|precision| (Just(precision), 0..=precision));
    let plain = vec![
        DataType::Boolean,
        DataType::TinyInt,
        DataType::SmallInt,
        DataType::Int,
        DataType::BigInt,
        DataType::Float,
        DataType::Double,
        DataType::String,
        DataType::Bytes,
        DataType::Date,
        DataType::Timestamp(6),
        DataType::TimestampLtz(6),
    ];
    prop_oneof![
        4 => proptest::sample::select(plain),
        1 => decimal.prop_map(|(precision, scale)| DataType::Decimal { precision, scale }),
        1 => (1u32..40).prop_map(DataType::VarChar),
    ]
    .boxed()
}

fn data_type() -> BoxedStrategy<DataType> {
    let key = atom().prop_filter("a float is no key", |t| !matches!(t, DataType::Float | DataType::Double));
    let nested = atom().prop_recursive(2, 6, 3, move |inner| {
        let row = proptest::collection::vec((inner.clone(), any::<bool>()), 1..4).prop_map(|fields| {
            let field = |(i, (data_type, nullable))| Field { id: 0, name: format!("f{i}"), data_type, nullable, description: None };
            DataType::Row(fields.into_iter().enumerate().map(field).collect())
        });
        let key = key.clone().prop_map(|data_type| Box::new(Item { data_type, nullable: false }));
        prop_oneof![
            item(inner.clone().boxed()).prop_map(DataType::Array),
            (key, item(inner.boxed())).prop_map(|(k, v)| DataType::Map(k, v)),
            row,
        ]
        .boxed()
    });
    prop_oneof![3 => atom(), 1 => nested.boxed()].boxed()
}

/// Values whose statistics are cut: long ones that begin alike, also with code points that have none above them.
fn long_text() -> BoxedStrategy<Value> {
    let head = proptest::sample::select(vec![
        "x".repeat(31),
        "x".repeat(32),
        "\u{e9}".repeat(40),
        "\u{10FFFF}".repeat(35),
        "\u{D7FF}".repeat(33),
        "\u{1f980}".repeat(33),
    ]);
    (head, "[a-c\u{e9}\u{10FFFF}]{0,3}").prop_map(|(head, tail)| json!(format!("{head}{tail}"))).boxed()
}

fn of(field: &Field) -> BoxedStrategy<Value> {
    let text = |plain: BoxedStrategy<Value>| prop_oneof![2 => plain, 1 => long_text()].boxed();
    match field.data_type {
        DataType::String if field.name == "p" => "[a-c/=% \u{e9}]{1,3}".prop_map(Value::from).boxed(),
        DataType::String if field.nullable => text(nullable(&field.data_type, true)),
        DataType::String => text(nullable(&field.data_type, false)),
        _ => nullable(&field.data_type, field.nullable),
    }
}

fn case() -> BoxedStrategy<Case> {
    let columns = proptest::collection::vec((data_type(), any::<bool>()), 1..6);
    let by = ["STRING", "INT", "DATE", "BOOLEAN", "DECIMAL(10, 2)", "TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE"];
    let partition = proptest::option::weighted(0.4, proptest::sample::select(by.to_vec()));
    (columns, partition)
        .prop_flat_map(|(columns, partition)| {
            let mut fields = vec![Field::parse(0, "id", "BIGINT NOT NULL").unwrap()];
            fields.extend(partition.map(|sql| Field::parse(0, "p", sql).unwrap()));
            let named = columns.into_iter().enumerate().map(|(i, (data_type, nullable))| {
                let name = format!("c{i}");
                Field { id: 0, name, data_type, nullable, description: None }
            });
            fields.extend(named);
            let row: Vec<BoxedStrategy<Value>> =
                fields.iter().map(|f| if f.name == "id" { Just(Value::Null).boxed() } else { of(f) }).collect();
            let commits = proptest::collection::vec(proptest::collection::vec(row, 1..6), 1..4);
            (Just(fields), Just(partition.is_some()), commits, proptest::collection::vec(any::<proptest::sample::Index>(), FILTERS))
        })
        .prop_map(|(fields, partitioned, mut commits, picks)| {
            for (i, row) in commits.iter_mut().flatten().enumerate() {
                row[0] = json!(i.to_string());
            }
            let all = filters(&fields, &commits);
            let filters = picks.iter().map(|pick| pick.get(&all).clone()).collect();
            Case { fields, partitioned, buckets: 0, stats: "", commits, filters }
        })
        .boxed()
}

/// Filters of one table that are asked of every reader; Spark is asked the first ones.
const FILTERS: usize = 12;
const FILTERS_OF_SPARK: usize = 3;

// ---------------------------------------------------------------- bounds

/// Every comparison with every commit's minimum and maximum of every column, and with what lies one step around them.
fn filters(fields: &[Field], commits: &[Vec<Vec<Value>>]) -> Vec<Filter> {
    let mut all = Vec::new();
    for (column, field) in fields.iter().enumerate() {
        for rows in commits {
            let mut texts: Vec<&str> = rows.iter().filter_map(|r| r[column].as_str()).collect();
            texts.sort_by(|a, b| order(By::Total, &field.data_type, a, b).unwrap());
            let ends = [texts.first(), texts.last()].into_iter().flatten().map(|t| (*t).to_owned());
            let bounds: Vec<String> = ends.flat_map(|t| [around(&field.data_type, &t), vec![t]].concat()).collect();
            // A literal with NUL cannot be written in SQL.
            for bound in bounds.into_iter().filter(|b| !b.contains('\0')) {
                all.extend(OPS[..5].iter().map(|op| Filter { column, op, bound: Some(bound.clone()) }));
            }
        }
        all.extend(OPS[5..].iter().map(|op| Filter { column, op, bound: None }));
    }
    all
}

/// The values next to one, below and above, as far as the type has them.
fn around(data_type: &DataType, text: &str) -> Vec<String> {
    let after = || text.split_once(':').unwrap().1;
    let steps = |n: i128, least: i128, most: i128| [n - 1, n + 1].into_iter().filter(move |n| (least..=most).contains(n));
    let whole = |least: i64, most: i64| steps(text.parse().unwrap(), least.into(), most.into()).map(|n| n.to_string()).collect();
    match data_type {
        DataType::TinyInt => whole(i8::MIN.into(), i8::MAX.into()),
        DataType::SmallInt => whole(i16::MIN.into(), i16::MAX.into()),
        DataType::Int => whole(i32::MIN.into(), i32::MAX.into()),
        DataType::BigInt => whole(i64::MIN, i64::MAX),
        DataType::Float => {
            let v = f32::from_bits(u32::from_str_radix(after(), 16).unwrap());
            [v.next_down(), v.next_up()].map(|v| format!("f32:{:08x}", v.to_bits())).to_vec()
        }
        DataType::Double => {
            let v = f64::from_bits(u64::from_str_radix(after(), 16).unwrap());
            [v.next_down(), v.next_up()].map(|v| format!("f64:{:016x}", v.to_bits())).to_vec()
        }
        DataType::Decimal { precision, scale } => {
            let most = 10i128.pow(u32::from(*precision)) - 1;
            steps(text.replace('.', "").parse().unwrap(), -most, most).map(|n| decimal(n, usize::from(*scale))).collect()
        }
        DataType::Date => steps(after().parse().unwrap(), -719_162, 2_932_896).map(|n| format!("day:{n}")).collect(),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            steps(after().parse().unwrap(), YEARS.0, YEARS.1).map(|n| format!("us:{n}")).collect()
        }
        DataType::VarChar(_) | DataType::String => {
            let mut shorter = text.to_owned();
            shorter.pop();
            vec![shorter, format!("{text}\u{1}")]
        }
        DataType::Bytes => [text.strip_suffix("00").map(str::to_owned), Some(format!("{text}00"))].into_iter().flatten().collect(),
        _ => Vec::new(),
    }
}

// ---------------------------------------------------------------- readers

/// Whose comparison of floats a reader has.
fn rules(reader: &str) -> By {
    if reader == "deltalake" { By::Total } else { By::Sql }
}

/// What a reader gets wrong itself, by its number in tests/interop/README.md.
fn known(reader: &str, case: &Case, filter: Option<&Filter>) -> bool {
    let Some((column, Some(bound))) = filter.map(|f| (&case.fields[f.column], f.bound.as_deref())) else { return false };
    // D7
    reader == "spark" && matches!(column.data_type, DataType::Float | DataType::Double) && is_zero(bound)
}

fn ask_reader(reader: &str, case: &Case, table: &Path, filter: Option<&Filter>) -> Result<(), TestCaseError> {
    if known(reader, case, filter) {
        return Ok(());
    }
    let filter_json = filter.map(|f| {
        let name = &case.fields[f.column].name;
        f.bound.as_ref().map_or_else(|| json!([name, f.op]), |bound| json!([name, f.op, bound]))
    });
    let answer = ask(reader, &json!({"cmd": "rows", "table": table, "filter": filter_json}));
    if answer["ok"] != true {
        return Err(TestCaseError::fail(format!("{reader}, {filter:?}: {answer:.1500}")));
    }
    same(reader, filter, &answered(&answer, &case.fields), &expected(case, rules(reader), filter))
}

fn check(case: &Case, number: usize, folder: &Path, runtime: &tokio::runtime::Runtime) -> Result<(), TestCaseError> {
    let location = folder.join(format!("t{number}"));
    let _ = std::fs::remove_dir_all(&location); // a smaller form of the same case
    let failed = |e: lakeward::Error| TestCaseError::fail(e.to_string());
    let by = case.partitioned.then_some("p");
    let table = runtime.block_on(write(&location, case.fields.clone(), by, &case.commits)).map_err(failed)?;
    for filter in std::iter::once(None).chain(case.filters.iter().map(Some)) {
        let found = runtime.block_on(read(case, &table, filter)).map_err(failed)?;
        same("we", filter, &found, &expected(case, By::Sql, filter))?;
        for reader in ["deltalake", "duckdb", "polars"] {
            ask_reader(reader, case, &location, filter)?;
        }
    }
    if number.is_multiple_of(2) {
        for filter in std::iter::once(None).chain(case.filters.iter().take(FILTERS_OF_SPARK).map(Some)) {
            ask_reader("spark", case, &location, filter)?;
        }
    }
    std::fs::remove_dir_all(&location).unwrap();
    Ok(())
}

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn random_delta_tables_are_read_as_brute_force_says_by_us_and_by_others() {
    let start = Instant::now();
    let cases = std::env::var("LAKEWARD_PROPERTY_CASES").ok().map_or(150, |n| n.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let number = std::cell::Cell::new(0usize);
    let types = std::cell::RefCell::new(BTreeMap::new());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 60, ..Config::default() };
    let result = TestRunner::new(config).run(&case(), |case| {
        number.set(number.get() + 1);
        for field in &case.fields {
            *types.borrow_mut().entry(field.data_type.to_string().split(['(', '<']).next().unwrap_or_default().to_owned()).or_insert(0) +=
                1;
        }
        if number.get().is_multiple_of(20) {
            println!("{} cases, {:.1?}", number.get(), start.elapsed());
        }
        check(&case, number.get(), folder.path(), &runtime)
    });
    println!(
        "delta property: {} cases, {:.1?}, {} comparisons by all tests so far; columns {:?}",
        number.get(),
        start.elapsed(),
        compared(),
        types.take()
    );
    if let Err(e) = result {
        panic!("{e}");
    }
}
