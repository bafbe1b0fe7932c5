//! Values of every type in three forms: the canonical text of tests/interop (nested ones as JSON), Arrow arrays, and types as schema files
//! have them. Written for the tests; shares no code with the writer or the reader.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray as _, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray, StructArray, Time32MillisecondArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{self as t, Fields};
use lakeward::schema::{DataType, Field, Item};
use serde_json::{Map, Value, json};

use super::readers::Row;

/// A column by its name and the text of its type.
pub(crate) fn field(name: &str, sql: &str) -> Field {
    Field::parse(0, name, sql).unwrap()
}

/// A type as schema files have it. Fields of a ROW have no ids: who creates the table numbers them.
pub(crate) fn type_json(data_type: &DataType, nullable: bool) -> Value {
    let item = |i: &Item| type_json(&i.data_type, i.nullable);
    let named = |name: &str| if nullable { name.to_owned() } else { format!("{name} NOT NULL") };
    match data_type {
        DataType::Array(e) => json!({"type": named("ARRAY"), "element": item(e)}),
        DataType::Multiset(e) => json!({"type": named("MULTISET"), "element": item(e)}),
        DataType::Map(k, v) => json!({"type": named("MAP"), "key": item(k), "value": item(v)}),
        DataType::Row(fields) => {
            let fields: Vec<Value> = fields.iter().map(|f| json!({"name": f.name, "type": type_json(&f.data_type, f.nullable)})).collect();
            json!({"type": named("ROW"), "fields": fields})
        }
        atomic => json!(named(&atomic.to_string())),
    }
}

/// Is there a MULTISET in it, at any depth?
pub(crate) fn has_multiset(data_type: &DataType) -> bool {
    match data_type {
        DataType::Multiset(_) => true,
        DataType::Array(e) => has_multiset(&e.data_type),
        DataType::Map(k, v) => has_multiset(&k.data_type) || has_multiset(&v.data_type),
        DataType::Row(fields) => fields.iter().any(|f| has_multiset(&f.data_type)),
        _ => false,
    }
}

/// Nanoseconds of `us:..` and `ns:..`.
pub(crate) fn nanos(text: &str) -> i128 {
    let n: i128 = text[3..].parse().unwrap();
    if text.starts_with("us:") { n * 1000 } else { n }
}

fn after(text: &str) -> &str {
    text.split_once(':').unwrap().1
}

fn unscaled(text: &str) -> i128 {
    text.replace('.', "").parse().unwrap()
}

pub(crate) fn decimal(unscaled: i128, scale: usize) -> String {
    if scale == 0 {
        return unscaled.to_string();
    }
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{part}", if unscaled < 0 { "-" } else { "" })
}

fn bytes(text: &str) -> Vec<u8> {
    let digits = after(text);
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()).collect()
}

fn bits(text: &str) -> u64 {
    u64::from_str_radix(after(text), 16).unwrap()
}

/// Canonical values as an Arrow array of the type that a table hands out.
pub(crate) fn array(data_type: &DataType, values: &[&Value]) -> ArrayRef {
    fn each<'a, T: 'a>(values: &'a [&Value], parse: impl Fn(&str) -> T + 'a) -> impl Iterator<Item = Option<T>> + 'a {
        values.iter().map(move |v| v.as_str().map(&parse))
    }
    macro_rules! numbers {
        ($array:ident) => {
            Arc::new(each(values, |s| s.parse().unwrap()).collect::<$array>())
        };
    }
    let whole = |unit: i128| each(values, move |s| i64::try_from(nanos(s).div_euclid(unit)).unwrap());
    let valid = || NullBuffer::from_iter(values.iter().map(|v| !v.is_null()));
    match data_type {
        DataType::Boolean => Arc::new(each(values, |s| s == "true").collect::<BooleanArray>()),
        DataType::TinyInt => numbers!(Int8Array),
        DataType::SmallInt => numbers!(Int16Array),
        DataType::Int => numbers!(Int32Array),
        DataType::BigInt => numbers!(Int64Array),
        DataType::Float => Arc::new(each(values, |s| f32::from_bits(u32::try_from(bits(s)).unwrap())).collect::<Float32Array>()),
        DataType::Double => Arc::new(each(values, |s| f64::from_bits(bits(s))).collect::<Float64Array>()),
        DataType::Decimal { precision, scale } => {
            let decimals: Decimal128Array = each(values, unscaled).collect();
            Arc::new(decimals.with_precision_and_scale(*precision, i8::try_from(*scale).unwrap()).unwrap())
        }
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => Arc::new(each(values, str::to_owned).collect::<StringArray>()),
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => Arc::new(each(values, bytes).collect::<BinaryArray>()),
        DataType::Date => Arc::new(each(values, |s| after(s).parse().unwrap()).collect::<Date32Array>()),
        DataType::Time(_) => Arc::new(each(values, |s| after(s).parse().unwrap()).collect::<Time32MillisecondArray>()),
        DataType::Timestamp(..=3) => Arc::new(whole(1_000_000).collect::<TimestampMillisecondArray>()),
        DataType::Timestamp(..=6) => Arc::new(whole(1000).collect::<TimestampMicrosecondArray>()),
        DataType::Timestamp(_) => Arc::new(whole(1).collect::<TimestampNanosecondArray>()),
        DataType::TimestampLtz(..=3) => Arc::new(whole(1_000_000).collect::<TimestampMillisecondArray>().with_timezone("UTC")),
        DataType::TimestampLtz(..=6) => Arc::new(whole(1000).collect::<TimestampMicrosecondArray>().with_timezone("UTC")),
        DataType::TimestampLtz(_) => Arc::new(whole(1).collect::<TimestampNanosecondArray>().with_timezone("UTC")),
        DataType::Array(e) => {
            let inner: Vec<&Value> = values.iter().filter_map(|v| v.as_array()).flatten().collect();
            let t::DataType::List(item) = data_type.to_arrow() else { unreachable!() };
            Arc::new(ListArray::new(item, lengths(values), array(&e.data_type, &inner), Some(valid())))
        }
        DataType::Map(k, v) => entries(data_type, values, &k.data_type, &v.data_type),
        DataType::Multiset(e) => entries(data_type, values, &e.data_type, &DataType::Int),
        DataType::Row(fields) => {
            let missing = Value::Null;
            let columns = fields.iter().map(|f| {
                // Below a null row a NOT NULL field has some value, which nobody sees.
                let filler = if f.nullable { Value::Null } else { filler(&f.data_type) };
                let of = |v: &&'_ Value| v.get(&f.name).unwrap_or(&missing).clone();
                let inner: Vec<Value> = values.iter().map(|v| if v.is_null() { filler.clone() } else { of(v) }).collect();
                array(&f.data_type, &inner.iter().collect::<Vec<_>>())
            });
            let columns: Vec<ArrayRef> = columns.collect();
            let arrow: Fields = fields.iter().map(Field::to_arrow).collect();
            Arc::new(StructArray::new(arrow, columns, Some(valid())))
        }
        other => panic!("no values of type {other}"),
    }
}

fn lengths(values: &[&Value]) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths(values.iter().map(|v| v.as_array().map_or(0, Vec::len)))
}

fn entries(data_type: &DataType, values: &[&Value], key: &DataType, value: &DataType) -> ArrayRef {
    let t::DataType::Map(arrow, sorted) = data_type.to_arrow() else { unreachable!() };
    let t::DataType::Struct(fields) = arrow.data_type().clone() else { unreachable!() };
    let side = |i: usize| values.iter().filter_map(|v| v.as_array()).flatten().map(|e| &e[i]).collect::<Vec<_>>();
    let inner = StructArray::new(fields, vec![array(key, &side(0)), array(value, &side(1))], None);
    let valid = NullBuffer::from_iter(values.iter().map(|v| !v.is_null()));
    Arc::new(MapArray::new(arrow, lengths(values), inner, Some(valid), sorted))
}

/// Some value of a type.
fn filler(data_type: &DataType) -> Value {
    match data_type {
        DataType::Boolean => json!("false"),
        DataType::Float => json!("f32:00000000"),
        DataType::Double => json!("f64:0000000000000000"),
        DataType::Decimal { scale, .. } => json!(decimal(0, (*scale).into())),
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => json!(""),
        DataType::Binary(n) => json!(format!("hex:{}", "00".repeat(*n as usize))),
        DataType::VarBinary(_) | DataType::Bytes => json!("hex:"),
        DataType::Date => json!("day:0"),
        DataType::Time(_) => json!("time-ms:0"),
        DataType::Timestamp(p) | DataType::TimestampLtz(p) => json!(if *p > 6 { "ns:0" } else { "us:0" }),
        DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) => json!([]),
        DataType::Row(fields) => fields
            .iter()
            .map(|f| (f.name.clone(), if f.nullable { Value::Null } else { filler(&f.data_type) }))
            .collect::<Map<_, _>>()
            .into(),
        _ => json!("0"),
    }
}

/// The canonical value at `i` of an array that a table hands out.
pub(crate) fn canonical(data_type: &DataType, array: &dyn Array, i: usize) -> Value {
    if array.is_null(i) {
        return Value::Null;
    }
    macro_rules! at {
        ($arrow:ident) => {
            array.as_primitive::<t::$arrow>().value(i)
        };
    }
    let hex = |b: &[u8]| format!("hex:{}", b.iter().map(|b| format!("{b:02x}")).collect::<String>());
    let micros = |n: i64, unit: i128| format!("us:{}", i128::from(n) * unit);
    json!(match data_type {
        DataType::Boolean => array.as_boolean().value(i).to_string(),
        DataType::TinyInt => at!(Int8Type).to_string(),
        DataType::SmallInt => at!(Int16Type).to_string(),
        DataType::Int => at!(Int32Type).to_string(),
        DataType::BigInt => at!(Int64Type).to_string(),
        DataType::Float => format!("f32:{:08x}", at!(Float32Type).to_bits()),
        DataType::Double => format!("f64:{:016x}", at!(Float64Type).to_bits()),
        DataType::Decimal { scale, .. } => decimal(at!(Decimal128Type), (*scale).into()),
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => array.as_string::<i32>().value(i).to_owned(),
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => hex(array.as_binary::<i32>().value(i)),
        DataType::Date => format!("day:{}", at!(Date32Type)),
        DataType::Time(_) => format!("time-ms:{}", at!(Time32MillisecondType)),
        DataType::Timestamp(..=3) | DataType::TimestampLtz(..=3) => micros(at!(TimestampMillisecondType), 1000),
        DataType::Timestamp(..=6) | DataType::TimestampLtz(..=6) => micros(at!(TimestampMicrosecondType), 1),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => format!("ns:{}", at!(TimestampNanosecondType)),
        DataType::Array(e) => {
            let inner = array.as_list::<i32>().value(i);
            return (0..inner.len()).map(|j| canonical(&e.data_type, &inner, j)).collect();
        }
        DataType::Map(k, v) => return pairs(&array.as_map().value(i), &k.data_type, &v.data_type),
        DataType::Multiset(e) => return pairs(&array.as_map().value(i), &e.data_type, &DataType::Int),
        DataType::Row(fields) => {
            let columns = array.as_struct().columns();
            return fields.iter().zip(columns).map(|(f, c)| (f.name.clone(), canonical(&f.data_type, c, i))).collect::<Map<_, _>>().into();
        }
        other => panic!("no values of type {other}"),
    })
}

fn pairs(entries: &StructArray, key: &DataType, value: &DataType) -> Value {
    (0..entries.len()).map(|j| json!([canonical(key, entries.column(0), j), canonical(value, entries.column(1), j)])).collect()
}

/// The value with the entries of its maps and multisets in one order: they have none.
pub(crate) fn ordered(data_type: &DataType, value: &Value) -> Value {
    let pairs = |k: &DataType, v: &DataType| {
        let mut all: Vec<Value> = value.as_array().unwrap().iter().map(|e| json!([ordered(k, &e[0]), ordered(v, &e[1])])).collect();
        all.sort_by_key(Value::to_string);
        Value::from(all)
    };
    match data_type {
        _ if value.is_null() => Value::Null,
        DataType::Array(e) => value.as_array().unwrap().iter().map(|v| ordered(&e.data_type, v)).collect(),
        DataType::Map(k, v) => pairs(&k.data_type, &v.data_type),
        DataType::Multiset(e) => pairs(&e.data_type, &DataType::Int),
        DataType::Row(fields) => {
            fields.iter().map(|f| (f.name.clone(), ordered(&f.data_type, &value[&f.name]))).collect::<Map<_, _>>().into()
        }
        _ => value.clone(),
    }
}

/// A cell of a [`Row`]: leaves as they are, nested values as JSON.
pub(crate) fn cell(field: &Field, value: &Value) -> Option<String> {
    match ordered(&field.data_type, value) {
        Value::Null => None,
        Value::String(text) => Some(text),
        nested => Some(nested.to_string()),
    }
}

/// Rows of values as a batch.
pub(crate) fn batch(fields: &[Field], rows: &[Vec<Value>]) -> RecordBatch {
    let columns = fields.iter().enumerate().map(|(i, f)| array(&f.data_type, &rows.iter().map(|r| &r[i]).collect::<Vec<_>>()));
    let schema = t::Schema::new(fields.iter().map(Field::to_arrow).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.collect()).unwrap()
}

/// Rows of values as cells.
pub(crate) fn cells(fields: &[Field], rows: &[Vec<Value>]) -> Vec<Row> {
    rows.iter().map(|row| fields.iter().zip(row).map(|(f, v)| cell(f, v)).collect()).collect()
}

/// The rows of a reader's answer, with these columns, sorted.
pub(crate) fn answered(answer: &Value, fields: &[Field]) -> Vec<Row> {
    let of = |row: &Value, f: &Field| cell(f, row.get(&f.name).unwrap_or_else(|| panic!("no column {} in {row}", f.name)));
    let mut rows: Vec<Row> = answer["rows"].as_array().unwrap().iter().map(|r| fields.iter().map(|f| of(r, f)).collect()).collect();
    rows.sort();
    rows
}

/// The rows of a batch, by the order of its columns.
pub(crate) fn rows_of_batch(batch: &RecordBatch, fields: &[Field]) -> Vec<Row> {
    let value = |f: &Field, i: usize| canonical(&f.data_type, batch.column_by_name(&f.name).unwrap(), i);
    (0..batch.num_rows()).map(|i| fields.iter().map(|f| cell(f, &value(f, i))).collect()).collect()
}
