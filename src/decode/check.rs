//! `checks`: conditions on a row, in the language of [`crate::condition`].
//!
//! ```text
//! amount >= 0 and (status in ('new', "paid") or note is null) and not deleted and start <= finish
//! ```
//!
//! Numbers are compared exactly, but for FLOAT and DOUBLE columns, where the nearest float counts and NaN compares with nothing. Bytes and
//! nested types are only `is [not] null`.
//!
//! As with SQL's CHECK a row fails only when the condition is *false*: a comparison with null is neither true nor false, so
//! `amount >= 0` lets a null through (`amount is not null and amount >= 0` does not).

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes as t;
use arrow::datatypes::{DataType as A, TimeUnit};
use arrow::util::display::array_value_to_string;

use super::cast::{POWERS, cut};
use super::check_bind::bind;
use crate::condition::{Op, Pattern};
use crate::error::Result;
use crate::schema::Schema;
use crate::text::number::compare_scaled;
use crate::text::time::DAY_NS;

/// A condition on a row, bound to the columns of a schema; see the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    text: String,
    condition: Bound,
    /// Names and positions of the columns it looks at; at least one.
    columns: Vec<(String, usize)>,
}

/// Columns are positions in the schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bound {
    All(Vec<Bound>),
    Any(Vec<Bound>),
    Not(Box<Bound>),
    IsNull(usize),
    /// A BOOLEAN column by itself.
    Holds(usize),
    Literal(usize, Op, Literal),
    Columns(usize, Op, usize),
    In(usize, Vec<Literal>),
    Like(usize, Pattern),
}

/// None: the two cannot be compared (NaN).
fn holds(op: Op, ordering: Option<Ordering>) -> bool {
    match op {
        Op::Eq => ordering == Some(Ordering::Equal),
        Op::Ne => ordering != Some(Ordering::Equal),
        Op::Lt => ordering == Some(Ordering::Less),
        Op::Le => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        Op::Gt => ordering == Some(Ordering::Greater),
        Op::Ge => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
    }
}

/// A value, in the terms of the column that it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    /// At the column's scale, rounded down; `whole` when nothing was cut off.
    Exact {
        floor: i128,
        whole: bool,
    },
    Float(f64),
    Text(String),
    Bool(bool),
    /// Nanoseconds since 1970, also for a DATE; since midnight for a TIME.
    Moment(i128),
}

/// True, false or (none) unknown, for each row.
type Truth = Vec<Option<bool>>;

impl Check {
    /// Understands `text`. `Invalid`, with a caret below the place that is wrong.
    pub fn parse(text: &str, schema: &Schema) -> Result<Check> {
        let (condition, columns) = bind(text, schema)?;
        let columns = columns.into_iter().map(|c| (schema.fields[c].name.clone(), c)).collect();
        Ok(Check { text: text.to_owned(), condition, columns })
    }

    /// The text of the condition.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn first_column(&self) -> &str {
        self.columns.first().map_or("", |(name, _)| name)
    }

    /// Calls `fails` with each row for which the condition is false, and the message.
    pub(super) fn apply(&self, columns: &[ArrayRef], mut fails: impl FnMut(usize, String)) {
        let rows = columns.first().map_or(0, |c| c.len());
        for (row, truth) in self.condition.eval(columns, rows).into_iter().enumerate() {
            if truth == Some(false) {
                let shown = self.columns.iter().map(|(name, at)| {
                    let value = if columns[*at].is_null(row) {
                        "null".to_owned()
                    } else {
                        array_value_to_string(&columns[*at], row).unwrap_or_default()
                    };
                    format!("{name} = {}", cut(value.as_bytes()))
                });
                let shown = shown.collect::<Vec<_>>().join(", ");
                fails(row, format!("check {:?} is false: {shown}", self.text));
            }
        }
    }
}

impl Bound {
    fn eval(&self, columns: &[ArrayRef], rows: usize) -> Truth {
        match self {
            Bound::All(parts) => fold(parts, columns, rows, |a, b| match (a, b) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }),
            Bound::Any(parts) => fold(parts, columns, rows, |a, b| match (a, b) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            }),
            Bound::Not(part) => part.eval(columns, rows).into_iter().map(|t| t.map(|t| !t)).collect(),
            Bound::IsNull(c) => (0..rows).map(|row| Some(columns[*c].is_null(row))).collect(),
            Bound::Holds(c) => {
                let array = columns[*c].as_boolean();
                (0..rows).map(|row| array.is_valid(row).then(|| array.value(row))).collect()
            }
            Bound::Literal(c, op, literal) => {
                let (array, reader) = (&columns[*c], Reader::of(&columns[*c]));
                (0..rows).map(|row| array.is_valid(row).then(|| holds(*op, reader.literal(row, literal)))).collect()
            }
            Bound::In(c, list) => {
                let (array, reader) = (&columns[*c], Reader::of(&columns[*c]));
                let is_in = |row| list.iter().any(|l| holds(Op::Eq, reader.literal(row, l)));
                (0..rows).map(|row| array.is_valid(row).then(|| is_in(row))).collect()
            }
            Bound::Like(c, pattern) => {
                let array = columns[*c].as_string::<i32>();
                (0..rows).map(|row| array.is_valid(row).then(|| pattern.matches(array.value(row)))).collect()
            }
            Bound::Columns(a, op, b) => {
                let (left, right) = (&columns[*a], &columns[*b]);
                let (l, r) = (Reader::of(left), Reader::of(right));
                (0..rows).map(|row| (left.is_valid(row) && right.is_valid(row)).then(|| holds(*op, l.other(&r, row)))).collect()
            }
        }
    }
}

fn fold(parts: &[Bound], columns: &[ArrayRef], rows: usize, f: impl Fn(Option<bool>, Option<bool>) -> Option<bool>) -> Truth {
    let mut parts = parts.iter().map(|p| p.eval(columns, rows));
    let mut all = parts.next().unwrap_or_default();
    for part in parts {
        all.iter_mut().zip(part).for_each(|(a, b)| *a = f(*a, b));
    }
    all
}

/// Reads the cells of a column in the terms of [`Literal`].
enum Reader<'a> {
    Exact(Box<dyn Fn(usize) -> i128 + 'a>, u8),
    Float(Box<dyn Fn(usize) -> f64 + 'a>),
    Moment(Box<dyn Fn(usize) -> i128 + 'a>),
    Text(&'a arrow::array::StringArray),
    Bool(&'a arrow::array::BooleanArray),
    /// Bytes and nested types; the parser lets nothing but `is null` through.
    Other,
}

impl<'a> Reader<'a> {
    fn of(array: &'a ArrayRef) -> Self {
        macro_rules! cell {
            ($type:ty, $convert:expr) => {{
                let array = array.as_primitive::<$type>();
                Box::new(move |row| $convert(array.value(row)))
            }};
        }
        match array.data_type() {
            A::Int8 => Reader::Exact(cell!(t::Int8Type, i128::from), 0),
            A::Int16 => Reader::Exact(cell!(t::Int16Type, i128::from), 0),
            A::Int32 => Reader::Exact(cell!(t::Int32Type, i128::from), 0),
            A::Int64 => Reader::Exact(cell!(t::Int64Type, i128::from), 0),
            A::Decimal128(_, scale) => Reader::Exact(cell!(t::Decimal128Type, |v| v), scale.unsigned_abs()),
            A::Float32 => Reader::Float(cell!(t::Float32Type, f64::from)),
            A::Float64 => Reader::Float(cell!(t::Float64Type, |v| v)),
            A::Date32 => Reader::Moment(cell!(t::Date32Type, |v| i128::from(v) * DAY_NS)),
            A::Time32(TimeUnit::Millisecond) => Reader::Moment(cell!(t::Time32MillisecondType, |v| i128::from(v) * 1_000_000)),
            A::Timestamp(TimeUnit::Millisecond, _) => Reader::Moment(cell!(t::TimestampMillisecondType, |v| i128::from(v) * 1_000_000)),
            A::Timestamp(TimeUnit::Microsecond, _) => Reader::Moment(cell!(t::TimestampMicrosecondType, |v| i128::from(v) * 1000)),
            A::Timestamp(TimeUnit::Nanosecond, _) => Reader::Moment(cell!(t::TimestampNanosecondType, i128::from)),
            A::Utf8 => Reader::Text(array.as_string()),
            A::Boolean => Reader::Bool(array.as_boolean()),
            _ => Reader::Other,
        }
    }

    fn literal(&self, row: usize, literal: &Literal) -> Option<Ordering> {
        match (self, literal) {
            (Reader::Exact(cell, _), Literal::Exact { floor, whole }) => Some(match cell(row).cmp(floor) {
                Ordering::Equal if !whole => Ordering::Less,
                ordering => ordering,
            }),
            (Reader::Float(cell), Literal::Float(v)) => cell(row).partial_cmp(v),
            (Reader::Moment(cell), Literal::Moment(v)) => Some(cell(row).cmp(v)),
            (Reader::Text(array), Literal::Text(v)) => Some(array.value(row).cmp(v.as_str())),
            (Reader::Bool(array), Literal::Bool(v)) => Some(array.value(row).cmp(v)),
            _ => None,
        }
    }

    fn other(&self, other: &Reader<'_>, row: usize) -> Option<Ordering> {
        match (self, other) {
            (Reader::Exact(a, sa), Reader::Exact(b, sb)) => Some(compare_scaled((a(row), *sa), (b(row), *sb))),
            (Reader::Moment(a), Reader::Moment(b)) => Some(a(row).cmp(&b(row))),
            (Reader::Text(a), Reader::Text(b)) => Some(a.value(row).cmp(b.value(row))),
            (Reader::Bool(a), Reader::Bool(b)) => Some(a.value(row).cmp(&b.value(row))),
            (a, b) => a.float(row)?.partial_cmp(&b.float(row)?),
        }
    }

    /// A FLOAT or DOUBLE is on the other side, so the nearest float will do.
    fn float(&self, row: usize) -> Option<f64> {
        match self {
            Reader::Float(cell) => Some(cell(row)),
            Reader::Exact(cell, scale) => {
                Some(cell(row) as f64 / POWERS.get(usize::from(*scale)).copied().unwrap_or_else(|| 10f64.powi((*scale).into())))
            }
            _ => None,
        }
    }
}
