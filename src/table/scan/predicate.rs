//! Simple conditions on one column: what they mean for a row, and what statistics say about them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use arrow::array::{ArrayAccessor, ArrayRef, AsArray as _, BooleanArray};
use arrow::compute;
use arrow::datatypes as t;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};

use crate::error::{Error, Result};
use crate::format::ColumnStats;
use crate::schema::{DataType, Field, Scalar, Schema, unhex};

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Op {
    /// `=`
    Eq,
    /// `<>` or `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

/// A condition on one column. A comparison with null is not true, as in SQL; NaN equals itself and is above every other number, as in
/// Flink and Spark; -0.0 equals 0.0.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicate {
    /// The column's name in the schema that is read.
    pub column: String,
    /// What must be true of it.
    pub test: Test,
}

/// What a [`Predicate`] demands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Test {
    /// It compares so with this value, which has the column's type.
    Is(Op, Scalar),
    /// It is null.
    Null,
    /// It is not null.
    NotNull,
}

impl Op {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Op::Eq => order.is_eq(),
            Op::Ne => order.is_ne(),
            Op::Lt => order.is_lt(),
            Op::Le => order.is_le(),
            Op::Gt => order.is_gt(),
            Op::Ge => order.is_ge(),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Eq => "=",
            Op::Ne => "<>",
            Op::Lt => "<",
            Op::Le => "<=",
            Op::Gt => ">",
            Op::Ge => ">=",
        })
    }
}

impl Predicate {
    /// Reads `amount >= 3.50`, `name = 'it''s'`, `dt is null`, `dt is not null`. A column with blanks or signs in its name stands in
    /// back quotes; text, dates and times may stand in single quotes; a time without a zone is taken as UTC. `Invalid`: no such column, or a value that its type cannot have.
    pub fn parse(text: &str, schema: &Schema) -> Result<Predicate> {
        let bad = |what: &str| {
            Error::invalid(format!("`{text}`: {what}")).hint("write COLUMN OP VALUE with one of = <> < <= > >=, or COLUMN is [not] null")
        };
        let trimmed = text.trim();
        let (name, rest) = match trimmed.strip_prefix('`') {
            Some(quoted) => quoted.split_once('`').ok_or_else(|| bad("a back quote is not closed"))?,
            None => trimmed.split_at(trimmed.find(|c: char| c.is_whitespace() || "=<>!".contains(c)).unwrap_or(trimmed.len())),
        };
        let field = schema.field(name).ok_or_else(|| {
            let names: Vec<&str> = schema.fields.iter().map(|f| f.name.as_str()).collect();
            Error::invalid(format!("`{text}`: the table has no column `{name}`")).hint(format!("its columns are {}", names.join(", ")))
        })?;
        let rest = rest.trim();
        let words: Vec<String> = rest.split_whitespace().map(str::to_ascii_lowercase).collect();
        let test = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["is", "null"] => Test::Null,
            ["is", "not", "null"] => Test::NotNull,
            _ => {
                // The longer signs first: `<=` begins with `<`.
                let signs = [("<>", Op::Ne), ("!=", Op::Ne), ("<=", Op::Le), (">=", Op::Ge), ("=", Op::Eq), ("<", Op::Lt), (">", Op::Gt)];
                let found = signs.iter().find_map(|(sign, op)| Some((*op, rest.strip_prefix(sign)?)));
                let (op, value) = found.ok_or_else(|| bad("there is no comparison"))?;
                Test::Is(op, literal(value.trim(), &field.data_type).map_err(|what| bad(&what))?)
            }
        };
        Ok(Predicate { column: name.to_owned(), test })
    }

    /// Which rows pass; `array` is in the Arrow form of the column's type.
    pub(super) fn rows(&self, field: &Field, array: &ArrayRef) -> Result<BooleanArray> {
        match &self.test {
            Test::Null => Ok(compute::is_null(array)?),
            Test::NotNull => Ok(compute::is_not_null(array)?),
            Test::Is(op, value) => compare(&field.data_type, array, *op, value),
        }
    }

    /// Can a row of a file pass? `stats` are of the same column and type, `rows` the file's.
    pub(super) fn may_pass(&self, field: &Field, stats: &ColumnStats, rows: u64) -> bool {
        let (op, value) = match &self.test {
            Test::Null => return stats.nulls > 0,
            Test::NotNull => return stats.nulls < rows,
            Test::Is(op, value) => (*op, value),
        };
        if stats.nulls >= rows {
            return false;
        }
        // Other writers leave NaN out of a maximum, so a float's says nothing about what is above.
        let float = matches!(field.data_type, DataType::Float | DataType::Double);
        let trust_max = !float || (op == Op::Eq && !is_nan(value));
        let least = stats.min.as_ref().and_then(|min| order(min, value));
        let greatest = stats.max.as_ref().filter(|_| trust_max).and_then(|max| order(max, value));
        match op {
            // Bounds may be cut, so equal ones do not say that all values are equal.
            Op::Ne => true,
            Op::Eq => least.is_none_or(Ordering::is_le) && greatest.is_none_or(Ordering::is_ge),
            Op::Lt | Op::Le => least.is_none_or(|o| op.holds(o)),
            Op::Gt | Op::Ge => greatest.is_none_or(|o| op.holds(o)),
        }
    }
}

fn is_nan(value: &Scalar) -> bool {
    matches!(value, Scalar::Float(v) if v.is_nan()) || matches!(value, Scalar::Double(v) if v.is_nan())
}

/// NaN is above everything and equals NaN; zeros are equal.
fn float_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn order(a: &Scalar, b: &Scalar) -> Option<Ordering> {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => Some(float_order((*a).into(), (*b).into())),
        (Scalar::Double(a), Scalar::Double(b)) => Some(float_order(*a, *b)),
        (a, b) if std::mem::discriminant(a) == std::mem::discriminant(b) => a.partial_cmp(b),
        _ => None,
    }
}

fn compare(data_type: &DataType, array: &ArrayRef, op: Op, value: &Scalar) -> Result<BooleanArray> {
    fn each<A: ArrayAccessor>(array: A, op: Op, order: impl Fn(A::Item) -> Ordering) -> BooleanArray {
        BooleanArray::from_unary(array, |v| op.holds(order(v)))
    }
    macro_rules! whole {
        ($arrow:ty, $value:expr) => {
            each(array.as_primitive::<$arrow>(), op, |v| i128::from(v).cmp(&i128::from(*$value)))
        };
    }
    Ok(match (data_type, value) {
        (DataType::Boolean, Scalar::Bool(x)) => each(array.as_boolean(), op, |v| v.cmp(x)),
        (DataType::TinyInt, Scalar::Int(x)) => whole!(t::Int8Type, x),
        (DataType::SmallInt, Scalar::Int(x)) => whole!(t::Int16Type, x),
        (DataType::Int, Scalar::Int(x)) => whole!(t::Int32Type, x),
        (DataType::BigInt, Scalar::Int(x)) => whole!(t::Int64Type, x),
        (DataType::Float, Scalar::Float(x)) => each(array.as_primitive::<t::Float32Type>(), op, |v| float_order(v.into(), (*x).into())),
        (DataType::Double, Scalar::Double(x)) => each(array.as_primitive::<t::Float64Type>(), op, |v| float_order(v, *x)),
        (DataType::Decimal { .. }, Scalar::Decimal(x)) => each(array.as_primitive::<t::Decimal128Type>(), op, |v| v.cmp(x)),
        (DataType::Char(_) | DataType::VarChar(_) | DataType::String, Scalar::String(x)) => {
            each(array.as_string::<i32>(), op, |v| v.cmp(x.as_str()))
        }
        (DataType::Bytes, Scalar::Bytes(x)) => each(array.as_binary::<i32>(), op, |v| v.cmp(x.as_slice())),
        (DataType::Date, Scalar::Date(x)) => whole!(t::Date32Type, x),
        (DataType::Timestamp(p) | DataType::TimestampLtz(p), Scalar::Timestamp(x)) if *p <= 3 => {
            each(array.as_primitive::<t::TimestampMillisecondType>(), op, |v| (i128::from(v) * 1000).cmp(&i128::from(*x)))
        }
        (DataType::Timestamp(_) | DataType::TimestampLtz(_), Scalar::Timestamp(x)) => whole!(t::TimestampMicrosecondType, x),
        _ => return Err(Error::invalid(format!("{value:?} cannot be compared with {data_type}")).hint("use a value of the column's type")),
    })
}

/// A literal as a value of the type; the error says what is wrong.
fn literal(text: &str, data_type: &DataType) -> Result<Scalar, String> {
    if text.is_empty() {
        return Err("the value is missing".to_owned());
    }
    let quoted = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).filter(|_| text.len() > 1);
    if quoted.is_none() && text.starts_with('\'') {
        return Err("a quote is not closed".to_owned());
    }
    let plain = quoted.map_or_else(|| text.to_owned(), |q| q.replace("''", "'"));
    let bad = || format!("`{plain}` is no {data_type}");
    fn number<T: FromStr>(text: &str) -> Option<T> {
        text.parse().ok()
    }
    let whole = |min: i64, max: i64| number::<i64>(&plain).filter(|v| (min..=max).contains(v)).map(Scalar::Int);
    let value = match data_type {
        DataType::Boolean => match plain.to_ascii_lowercase().as_str() {
            "true" => Some(Scalar::Bool(true)),
            "false" => Some(Scalar::Bool(false)),
            _ => None,
        },
        DataType::TinyInt => whole(i8::MIN.into(), i8::MAX.into()),
        DataType::SmallInt => whole(i16::MIN.into(), i16::MAX.into()),
        DataType::Int => whole(i32::MIN.into(), i32::MAX.into()),
        DataType::BigInt => whole(i64::MIN, i64::MAX),
        DataType::Float => number(&plain).map(Scalar::Float),
        DataType::Double => number(&plain).map(Scalar::Double),
        DataType::Decimal { scale, .. } => decimal(&plain, *scale).map(Scalar::Decimal),
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => Some(Scalar::String(plain.clone())),
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => {
            unhex(plain.strip_prefix("0x").unwrap_or(&plain)).map(Scalar::Bytes)
        }
        DataType::Date => date(&plain).map(Scalar::Date),
        DataType::Time(_) => time(&plain).map(Scalar::Time),
        DataType::Timestamp(7..) | DataType::TimestampLtz(7..) => {
            timestamp(&plain).and_then(|t| t.timestamp_nanos_opt()).map(Scalar::TimestampNanos)
        }
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => timestamp(&plain).map(|t| Scalar::Timestamp(t.timestamp_micros())),
        nested if nested.is_nested() => return Err(format!("values of type {nested} cannot be compared")),
        _ => None,
    };
    value.ok_or_else(bad)
}

/// Unscaled; `None` when digits would be lost.
fn decimal(text: &str, scale: u8) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let fraction = fraction.trim_end_matches('0');
    let zeros = usize::from(scale).checked_sub(fraction.len())?;
    let digits = || text.trim_start_matches(['-', '+']).bytes().filter(|b| *b != b'.');
    if digits().next().is_none() || digits().any(|b| !b.is_ascii_digit()) || fraction.contains('.') {
        return None;
    }
    format!("{whole}{fraction}{}", "0".repeat(zeros)).parse().ok()
}

fn date(text: &str) -> Option<i32> {
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    i32::try_from(day.signed_duration_since(NaiveDate::from_ymd_opt(1970, 1, 1)?).num_days()).ok()
}

/// `HH:MM[:SS[.f]]`; milliseconds since midnight, what is finer cut off.
fn time(text: &str) -> Option<i32> {
    use chrono::Timelike as _;
    let time = ["%H:%M:%S%.f", "%H:%M"].iter().find_map(|f| NaiveTime::parse_from_str(text, f).ok())?;
    i32::try_from(time.num_seconds_from_midnight() * 1000 + time.nanosecond() / 1_000_000).ok()
}

/// RFC 3339 or `YYYY-MM-DD HH:MM:SS[.f]` or a date alone, which is its midnight.
fn timestamp(text: &str) -> Option<DateTime<chrono::Utc>> {
    if let Ok(instant) = DateTime::parse_from_rfc3339(text) {
        return Some(instant.to_utc());
    }
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"];
    let time = formats.iter().find_map(|f| NaiveDateTime::parse_from_str(text, f).ok());
    time.map(|time| time.and_utc()).or_else(|| DateTime::from_timestamp(i64::from(date(text)?).checked_mul(86_400)?, 0))
}
