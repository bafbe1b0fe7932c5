//! What a bound condition says of rows, and what it says of a file, a row group or a manifest of which only bounds are known.
//!
//! A comparison with null is not true, as in SQL. NaN equals itself and is above every other number, -0.0 equals 0.0, as in Spark. Texts
//! compare by code points, bytes as unsigned numbers.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, ArrowPrimitiveType, AsArray as _, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Int8Array, Int16Array,
    Int32Array, Int64Array, PrimitiveArray, StringArray, Time32MillisecondArray, new_null_array,
};
use arrow::compute;
use arrow::compute::kernels::cmp;
use arrow::datatypes as t;

use crate::condition::{Op, Pattern};
use crate::datafile::scalar_at;
use crate::error::{Error, Result};
use crate::schema::{DataType, Scalar, Schema};
use crate::text::number::compare_scaled;

/// A condition over the columns of one schema, by their positions. There is no `not` in it, so "unknown" and "false" need not be told apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bound {
    All(Vec<Bound>),
    Any(Vec<Bound>),
    Test(usize, Test),
    Columns(usize, Op, usize),
}

/// What is demanded of a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Is(Op, Scalar),
    /// One of these; or none of them, and not null.
    In(Vec<Scalar>, Known, bool),
    /// Like this; or not, and not null.
    Like(Pattern, bool),
    Null,
    NotNull,
}

/// The values of a long list, to look up.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    /// Too few, or of a type for which it does not pay.
    Few,
    Whole(HashSet<i64>),
    Texts(HashSet<String>),
}

/// Up to so many values are compared one by one.
const FEW: usize = 6;

impl Test {
    pub(super) fn of_list(values: Vec<Scalar>, not: bool) -> Test {
        let whole = |v: &Scalar| if let Scalar::Int(v) = v { Some(*v) } else { None };
        let text = |v: &Scalar| if let Scalar::String(v) = v { Some(v.clone()) } else { None };
        let known = match values.first() {
            Some(Scalar::Int(_)) if values.len() > FEW => values.iter().map(whole).collect::<Option<_>>().map_or(Known::Few, Known::Whole),
            Some(Scalar::String(_)) if values.len() > FEW => {
                values.iter().map(text).collect::<Option<_>>().map_or(Known::Few, Known::Texts)
            }
            _ => Known::Few,
        };
        Test::In(values, known, !not)
    }
}

/// What is known of the values of a column in some rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Range {
    /// At most what the least value is; none: not known.
    pub(super) min: Option<Scalar>,
    /// At least what the greatest value is, or the beginning of that; none: not known.
    pub(super) max: Option<Scalar>,
    /// May there be nulls?
    pub(super) nulls: bool,
    /// May there be values?
    pub(super) values: bool,
}

impl Range {
    /// Of bounds and a count of nulls among `rows`.
    pub(super) fn counted(min: Option<Scalar>, max: Option<Scalar>, nulls: Option<u64>, rows: u64) -> Range {
        Range { min, max, nulls: nulls != Some(0), values: nulls.is_none_or(|n| n < rows) }
    }
}

/// What rows of a file can be said to be without opening it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Residual {
    /// Every row passes.
    Always,
    /// None does.
    Never,
    /// Those that pass this.
    Rows(Bound),
}

impl Bound {
    /// Adds the columns that it looks at.
    pub(super) fn columns(&self, out: &mut Vec<usize>) {
        let mut add = |c: usize| {
            if !out.contains(&c) {
                out.push(c);
            }
        };
        match self {
            Bound::All(parts) | Bound::Any(parts) => parts.iter().for_each(|p| p.columns(out)),
            Bound::Test(c, _) => add(*c),
            Bound::Columns(a, _, b) => {
                add(*a);
                add(*b);
            }
        }
    }

    /// Can a row pass? `range` says what is known of a column; none: nothing.
    pub(super) fn may_pass(&self, schema: &Schema, range: &dyn Fn(usize) -> Option<Range>) -> bool {
        match self {
            Bound::All(parts) => parts.iter().all(|p| p.may_pass(schema, range)),
            Bound::Any(parts) => parts.iter().any(|p| p.may_pass(schema, range)),
            Bound::Test(c, test) => range(*c).is_none_or(|r| test.may_pass(&schema.fields[*c].data_type, &r)),
            Bound::Columns(a, _, b) => [a, b].iter().all(|c| range(**c).is_none_or(|r| r.values)),
        }
    }

    /// What is left to look at when some columns have one value in all rows; `constant` gives it.
    pub(super) fn residual(&self, schema: &Schema, constant: &dyn Fn(usize) -> Option<Option<Scalar>>) -> Result<Residual> {
        let decided = |passes: bool| if passes { Residual::Always } else { Residual::Never };
        Ok(match self {
            Bound::All(parts) | Bound::Any(parts) => {
                // For `any` the same with true and false exchanged.
                let all = matches!(self, Bound::All(_));
                let mut left = Vec::new();
                for part in parts {
                    match part.residual(schema, constant)? {
                        Residual::Rows(rest) => left.push(rest),
                        Residual::Always if all => {}
                        Residual::Never if !all => {}
                        settled => return Ok(settled),
                    }
                }
                match left.len() {
                    0 => decided(all),
                    1 => Residual::Rows(left.remove(0)),
                    _ if all => Residual::Rows(Bound::All(left)),
                    _ => Residual::Rows(Bound::Any(left)),
                }
            }
            Bound::Test(c, test) => match constant(*c) {
                Some(value) => {
                    let data_type = &schema.fields[*c].data_type;
                    decided(passes(&test.rows(data_type, &one(data_type, value.as_ref())?)?))
                }
                None => Residual::Rows(self.clone()),
            },
            Bound::Columns(a, op, b) => match (constant(*a), constant(*b)) {
                (Some(x), Some(y)) => {
                    let (dx, dy) = (&schema.fields[*a].data_type, &schema.fields[*b].data_type);
                    decided(passes(&columns(dx, &one(dx, x.as_ref())?, *op, dy, &one(dy, y.as_ref())?)?))
                }
                _ => Residual::Rows(self.clone()),
            },
        })
    }

    /// Which rows pass: those that are true; false and null mean the same. `column` gives a column in its Arrow form.
    pub(super) fn rows(&self, schema: &Schema, rows: usize, column: &dyn Fn(usize) -> Result<ArrayRef>) -> Result<BooleanArray> {
        let all = |value: bool| BooleanArray::from(vec![value; rows]);
        match self {
            Bound::All(parts) => {
                let mut keep: Option<BooleanArray> = None;
                for part in parts {
                    let passes = part.rows(schema, rows, column)?;
                    keep = Some(match keep {
                        Some(keep) => compute::and_kleene(&keep, &passes)?,
                        None => passes,
                    });
                    if keep.as_ref().is_some_and(|k| !k.has_true()) {
                        break;
                    }
                }
                Ok(keep.unwrap_or_else(|| all(true)))
            }
            Bound::Any(parts) => {
                let mut keep: Option<BooleanArray> = None;
                for part in parts {
                    let passes = part.rows(schema, rows, column)?;
                    keep = Some(match keep {
                        Some(keep) => compute::or_kleene(&keep, &passes)?,
                        None => passes,
                    });
                }
                Ok(keep.unwrap_or_else(|| all(false)))
            }
            Bound::Test(c, test) => test.rows(&schema.fields[*c].data_type, &column(*c)?),
            Bound::Columns(a, op, b) => {
                let (x, y) = (&schema.fields[*a].data_type, &schema.fields[*b].data_type);
                columns(x, &column(*a)?, *op, y, &column(*b)?)
            }
        }
    }
}

fn passes(one: &BooleanArray) -> bool {
    one.has_true()
}

impl Test {
    fn may_pass(&self, data_type: &DataType, range: &Range) -> bool {
        match self {
            Test::Null => range.nulls,
            _ if !range.values => false,
            Test::NotNull => true,
            Test::Is(op, value) => may_be(data_type, range, *op, value),
            // What is one of few values can be none of them only when they are all values that there are.
            Test::In(values, _, true) => values.iter().any(|v| may_be(data_type, range, Op::Eq, v)),
            Test::In(_, _, false) | Test::Like(_, false) => true,
            Test::Like(pattern, true) => may_begin(&pattern.prefix(), range),
        }
    }

    fn rows(&self, data_type: &DataType, array: &ArrayRef) -> Result<BooleanArray> {
        match self {
            Test::Null => Ok(compute::is_null(array)?),
            Test::NotNull => Ok(compute::is_not_null(array)?),
            Test::Is(op, value) => compare(data_type, array, *op, value),
            Test::Like(pattern, wanted) => {
                let texts: &StringArray = array.as_string();
                Ok(match pattern {
                    // Prefixes are what is asked for most; without the check of the pattern's form for each row.
                    Pattern::Prefix(head) => BooleanArray::from_unary(texts, |v| v.as_bytes().starts_with(head.as_bytes()) == *wanted),
                    pattern => BooleanArray::from_unary(texts, |v| pattern.matches(v) == *wanted),
                })
            }
            Test::In(_, Known::Texts(known), wanted) => {
                Ok(BooleanArray::from_unary(array.as_string::<i32>(), |v| known.contains(v) == *wanted))
            }
            Test::In(_, Known::Whole(known), wanted) => {
                let wide = compute::cast(array, &t::DataType::Int64)?;
                Ok(BooleanArray::from_unary(wide.as_primitive::<t::Int64Type>(), |v| known.contains(&v) == *wanted))
            }
            Test::In(values, Known::Few, wanted) => {
                let mut any: Option<BooleanArray> = None;
                for value in values {
                    let (op, this) = if *wanted { (Op::Eq, compute::or_kleene as Fold) } else { (Op::Ne, compute::and_kleene as Fold) };
                    let passes = compare(data_type, array, op, value)?;
                    any = Some(match any {
                        Some(any) => this(&any, &passes)?,
                        None => passes,
                    });
                }
                Ok(any.unwrap_or_else(|| BooleanArray::from(vec![!*wanted; array.len()])))
            }
        }
    }
}

type Fold = fn(&BooleanArray, &BooleanArray) -> std::result::Result<BooleanArray, arrow::error::ArrowError>;

/// May a value in this range compare so?
fn may_be(data_type: &DataType, range: &Range, op: Op, value: &Scalar) -> bool {
    // Writers do not agree on an order of bytes.
    if matches!(data_type, DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes) {
        return true;
    }
    // Other writers leave NaN out of their bounds, so a float's maximum says nothing about what is above.
    let float = matches!(data_type, DataType::Float | DataType::Double);
    let trust_max = !float || (op == Op::Eq && !is_nan(value));
    let least = range.min.as_ref().filter(|v| !is_nan(v)).and_then(|min| order(min, value));
    let greatest = range.max.as_ref().filter(|v| trust_max && !is_nan(v)).and_then(|max| above(max, value));
    match op {
        // Bounds may be cut, so equal ones do not say that all values are equal.
        Op::Ne => true,
        Op::Eq => least.is_none_or(Ordering::is_le) && greatest.is_none_or(Ordering::is_ge),
        Op::Lt => least.is_none_or(Ordering::is_lt),
        Op::Le => least.is_none_or(Ordering::is_le),
        Op::Gt => greatest.is_none_or(Ordering::is_gt),
        Op::Ge => greatest.is_none_or(Ordering::is_ge),
    }
}

/// Texts of so many code points may be cut: this is where statistics are cut unless a table says otherwise.
const CUT: usize = 16;

/// How a maximum compares with a value; none where it may be the cut beginning of a greater one. Who cuts a maximum has to raise it, but a
/// row that is left out because somebody did not is not missed by anybody.
fn above(max: &Scalar, value: &Scalar) -> Option<Ordering> {
    match (max, value) {
        (Scalar::String(max), Scalar::String(value)) if value.starts_with(max.as_str()) && max.chars().count() >= CUT => None,
        _ => order(max, value),
    }
}

/// May a text in this range begin so?
fn may_begin(prefix: &str, range: &Range) -> bool {
    let above_all = matches!(&range.max, Some(Scalar::String(max)) if max.as_str() < prefix && (!prefix.starts_with(max.as_str()) || max.chars().count() < CUT));
    let below_all = matches!(&range.min, Some(Scalar::String(min)) if min.as_str() > prefix && !min.starts_with(prefix));
    !above_all && !below_all
}

fn is_nan(value: &Scalar) -> bool {
    matches!(value, Scalar::Float(v) if v.is_nan()) || matches!(value, Scalar::Double(v) if v.is_nan())
}

/// NaN is above everything and equals NaN; zeros are equal.
fn float_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn holds(op: Op, order: Ordering) -> bool {
    match op {
        Op::Eq => order.is_eq(),
        Op::Ne => order.is_ne(),
        Op::Lt => order.is_lt(),
        Op::Le => order.is_le(),
        Op::Gt => order.is_gt(),
        Op::Ge => order.is_ge(),
    }
}

fn order(a: &Scalar, b: &Scalar) -> Option<Ordering> {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => Some(float_order((*a).into(), (*b).into())),
        (Scalar::Double(a), Scalar::Double(b)) => Some(float_order(*a, *b)),
        (a, b) if std::mem::discriminant(a) == std::mem::discriminant(b) => a.partial_cmp(b),
        _ => None,
    }
}

/// A value, or null, as an array of one, in the Arrow form of its type.
pub(super) fn one(data_type: &DataType, value: Option<&Scalar>) -> Result<ArrayRef> {
    let arrow = data_type.to_arrow();
    let Some(value) = value else { return Ok(new_null_array(&arrow, 1)) };
    let no = || Error::internal(format!("{value:?} is no {data_type}")).hint("please report this");
    let fits = |v: Option<ArrayRef>| v.ok_or_else(no);
    let array: ArrayRef = match (data_type, value) {
        (DataType::Boolean, Scalar::Bool(v)) => Arc::new(BooleanArray::from(vec![*v])),
        (DataType::TinyInt, Scalar::Int(v)) => fits(i8::try_from(*v).ok().map(|v| Arc::new(Int8Array::from(vec![v])) as ArrayRef))?,
        (DataType::SmallInt, Scalar::Int(v)) => fits(i16::try_from(*v).ok().map(|v| Arc::new(Int16Array::from(vec![v])) as ArrayRef))?,
        (DataType::Int, Scalar::Int(v)) => fits(i32::try_from(*v).ok().map(|v| Arc::new(Int32Array::from(vec![v])) as ArrayRef))?,
        (DataType::BigInt, Scalar::Int(v)) => Arc::new(Int64Array::from(vec![*v])),
        (DataType::Float, Scalar::Float(v)) => Arc::new(PrimitiveArray::<t::Float32Type>::from(vec![*v])),
        (DataType::Double, Scalar::Double(v)) => Arc::new(PrimitiveArray::<t::Float64Type>::from(vec![*v])),
        (DataType::Decimal { .. }, Scalar::Decimal(v)) => Arc::new(Decimal128Array::from(vec![*v]).with_data_type(arrow)),
        (DataType::Char(_) | DataType::VarChar(_) | DataType::String, Scalar::String(v)) => Arc::new(StringArray::from(vec![v.as_str()])),
        (DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes, Scalar::Bytes(v)) => {
            Arc::new(BinaryArray::from(vec![v.as_slice()]))
        }
        (DataType::Date, Scalar::Date(v)) => Arc::new(Date32Array::from(vec![*v])),
        (DataType::Time(_), Scalar::Time(v)) => Arc::new(Time32MillisecondArray::from(vec![*v])),
        (DataType::Timestamp(_) | DataType::TimestampLtz(_), Scalar::Timestamp(us)) => match &arrow {
            t::DataType::Timestamp(t::TimeUnit::Millisecond, _) => {
                let ms = PrimitiveArray::<t::TimestampMillisecondType>::from(vec![us.div_euclid(1000)]);
                Arc::new(ms.with_data_type(arrow))
            }
            t::DataType::Timestamp(t::TimeUnit::Microsecond, _) => {
                Arc::new(PrimitiveArray::<t::TimestampMicrosecondType>::from(vec![*us]).with_data_type(arrow))
            }
            _ => return Err(no()),
        },
        (DataType::Timestamp(7..) | DataType::TimestampLtz(7..), Scalar::TimestampNanos(ns)) => {
            Arc::new(PrimitiveArray::<t::TimestampNanosecondType>::from(vec![*ns]).with_data_type(arrow))
        }
        _ => return Err(no()),
    };
    Ok(array)
}

fn compare(data_type: &DataType, array: &ArrayRef, op: Op, value: &Scalar) -> Result<BooleanArray> {
    match value {
        Scalar::Float(x) => Ok(floats(array.as_primitive::<t::Float32Type>(), op, |v| v.into(), (*x).into())),
        Scalar::Double(x) => Ok(floats(array.as_primitive::<t::Float64Type>(), op, |v| v, *x)),
        value => same(array, op, &arrow::array::Scalar::new(one(data_type, Some(value))?)),
    }
}

/// With one value, as floats are compared; without a branch for each row where it is no NaN.
fn floats<P: ArrowPrimitiveType>(array: &PrimitiveArray<P>, op: Op, wide: impl Fn(P::Native) -> f64, x: f64) -> BooleanArray {
    if x.is_nan() {
        return BooleanArray::from_unary(array, |v| holds(op, float_order(wide(v), x)));
    }
    match op {
        Op::Eq => BooleanArray::from_unary(array, |v| wide(v) == x),
        Op::Ne => BooleanArray::from_unary(array, |v| wide(v) != x),
        Op::Lt => BooleanArray::from_unary(array, |v| wide(v) < x),
        Op::Le => BooleanArray::from_unary(array, |v| wide(v) <= x),
        // NaN is above.
        Op::Gt => BooleanArray::from_unary(array, |v| wide(v) > x || wide(v).is_nan()),
        Op::Ge => BooleanArray::from_unary(array, |v| wide(v) >= x || wide(v).is_nan()),
    }
}

/// Two sides of one Arrow type that is no float.
fn same(left: &dyn arrow::array::Datum, op: Op, right: &dyn arrow::array::Datum) -> Result<BooleanArray> {
    Ok(match op {
        Op::Eq => cmp::eq(left, right)?,
        Op::Ne => cmp::neq(left, right)?,
        Op::Lt => cmp::lt(left, right)?,
        Op::Le => cmp::lt_eq(left, right)?,
        Op::Gt => cmp::gt(left, right)?,
        Op::Ge => cmp::gt_eq(left, right)?,
    })
}

/// Two columns of one kind, row by row.
fn columns(left_type: &DataType, left: &ArrayRef, op: Op, right_type: &DataType, right: &ArrayRef) -> Result<BooleanArray> {
    let float = |d: &DataType| matches!(d, DataType::Float | DataType::Double);
    if left.data_type() == right.data_type() && !float(left_type) {
        return same(left, op, right);
    }
    let pairs = (0..left.len()).map(|row| {
        let (a, b) = (scalar_at(left_type, left, row)?, scalar_at(right_type, right, row)?);
        Ok(match (a, b) {
            (Some(a), Some(b)) => mixed(left_type, &a, right_type, &b).map(|o| holds(op, o)),
            _ => None,
        })
    });
    pairs.collect()
}

/// Two values of one kind; numbers of different types exactly, unless one is a float.
fn mixed(left_type: &DataType, left: &Scalar, right_type: &DataType, right: &Scalar) -> Option<Ordering> {
    let exact = |d: &DataType, s: &Scalar| match (d, s) {
        (_, Scalar::Int(v)) => Some((i128::from(*v), 0u8)),
        (DataType::Decimal { scale, .. }, Scalar::Decimal(v)) => Some((*v, *scale)),
        (_, Scalar::Date(days)) => Some((i128::from(*days) * 86_400_000_000_000, 9)),
        (_, Scalar::Timestamp(us)) => Some((i128::from(*us) * 1000, 9)),
        (_, Scalar::TimestampNanos(ns)) => Some((i128::from(*ns), 9)),
        _ => None,
    };
    let float = |d: &DataType, s: &Scalar| match s {
        Scalar::Float(v) => Some(f64::from(*v)),
        Scalar::Double(v) => Some(*v),
        _ => exact(d, s).and_then(|(v, scale)| format!("{v}e-{scale}").parse().ok()),
    };
    match (exact(left_type, left), exact(right_type, right)) {
        (Some(a), Some(b)) => Some(compare_scaled(a, b)),
        _ => match order(left, right) {
            Some(order) => Some(order),
            None => Some(float_order(float(left_type, left)?, float(right_type, right)?)),
        },
    }
}
