//! A condition of a scan, bound to a schema: columns become positions, values get the type of their column, and `not` is moved down to
//! the comparisons, where it disappears. (With null a comparison and its opposite are both not true, so that says the same.)

use super::predicate::{Bound, Test};
use crate::condition::{At, CONDITION, Class, Column, Condition, Literal, Node, Op, Pattern, Wrong};
use crate::error::Result;
use crate::schema::{DataType, Field, Scalar, Schema};
use crate::text::number::{Exact, POW10};
use crate::text::time::{parse_date, parse_time, parse_timestamp};

type Fits<T> = std::result::Result<T, Wrong>;

fn wrong<T>(at: At, what: impl Into<String>) -> Fits<T> {
    Err(Wrong(at, what.into()))
}

/// `Invalid`: a column that is not there, or a value that its column's type cannot hold.
pub(super) fn bind(condition: &Condition, schema: &Schema) -> Result<Bound> {
    Binder { schema }.node(&condition.node, false).map_err(|e| condition.wrong(&CONDITION, e))
}

struct Binder<'a> {
    schema: &'a Schema,
}

impl Binder<'_> {
    /// `not`: the opposite is wanted.
    fn node(&self, node: &Node, not: bool) -> Fits<Bound> {
        let all = |parts: &[Node]| parts.iter().map(|p| self.node(p, not)).collect::<Fits<Vec<_>>>();
        Ok(match node {
            Node::Not(part) => self.node(part, !not)?,
            Node::All(parts) if not => Bound::Any(all(parts)?),
            Node::Any(parts) if not => Bound::All(all(parts)?),
            Node::All(parts) => Bound::All(all(parts)?),
            Node::Any(parts) => Bound::Any(all(parts)?),
            Node::Null(c) => Bound::Test(self.column(c)?, if not { Test::NotNull } else { Test::Null }),
            Node::Holds(c, after) => {
                let column = self.column(c)?;
                if self.field(column).data_type != DataType::Boolean {
                    return wrong(*after, "expected one of: = != < <= > >= in, between, like, is null, is not null");
                }
                Bound::Test(column, Test::Is(Op::Eq, Scalar::Bool(!not)))
            }
            Node::Value(c, op, value, at) => {
                let column = self.column(c)?;
                let value = self.value(column, value, *at)?;
                Bound::Test(column, Test::Is(if not { opposite(*op) } else { *op }, value))
            }
            Node::Columns(a, op, b) => {
                let (left, right) = (self.column(a)?, self.column(b)?);
                let (x, y) = (&self.field(left).data_type, &self.field(right).data_type);
                if !comparable(x, y) {
                    return wrong(b.at, format!("{x} and {y} cannot be compared"));
                }
                Bound::Columns(left, if not { opposite(*op) } else { *op }, right)
            }
            Node::In(c, list) => {
                let column = self.column(c)?;
                let values = list.iter().map(|(value, at)| self.value(column, value, *at)).collect::<Fits<Vec<_>>>()?;
                // Nothing is in an empty list, null neither: the one comparison that is never unknown.
                match (values.is_empty(), not) {
                    (true, true) => Bound::All(Vec::new()),
                    (true, false) => Bound::Any(Vec::new()),
                    (false, _) => Bound::Test(column, Test::of_list(values, not)),
                }
            }
            Node::Like(c, pattern, at) => {
                let column = self.column(c)?;
                let field = self.field(column);
                if !matches!(field.data_type, DataType::Char(_) | DataType::VarChar(_) | DataType::String) {
                    return wrong(*at, format!("column {} is {}, and like is for texts", field.name, field.data_type));
                }
                let Some(pattern) = Pattern::new(pattern) else {
                    return wrong(*at, "the pattern ends with a \\ that stands before nothing");
                };
                Bound::Test(column, Test::Like(pattern, !not))
            }
        })
    }

    fn field(&self, column: usize) -> &Field {
        &self.schema.fields[column]
    }

    fn column(&self, column: &Column) -> Fits<usize> {
        self.schema.fields.iter().position(|f| f.name == column.name).ok_or_else(|| {
            let names = self.schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
            Wrong(column.at, format!("{} is no column (the columns are: {names}; a text stands in quotes)", column.name))
        })
    }

    fn value(&self, column: usize, value: &Literal, at: At) -> Fits<Scalar> {
        let field = self.field(column);
        typed(value, &field.data_type).map_err(|why| {
            let ty = &field.data_type;
            Wrong(
                at,
                match why {
                    Misfit::Kind => format!("column {} is {ty}; compare it with {}", field.name, wanted(ty)),
                    Misfit::Nested => format!("column {} is {ty}, which only is null and is not null are for", field.name),
                    Misfit::Value(why) => format!("{value} is no {ty} (column {}): {why}", field.name),
                },
            )
        })
    }
}

fn opposite(op: Op) -> Op {
    match op {
        Op::Eq => Op::Ne,
        Op::Ne => Op::Eq,
        Op::Lt => Op::Ge,
        Op::Le => Op::Gt,
        Op::Gt => Op::Le,
        Op::Ge => Op::Lt,
    }
}

fn comparable(a: &DataType, b: &DataType) -> bool {
    matches!((Class::of(a), Class::of(b)), (Some(x), Some(y)) if x == y)
}

fn wanted(ty: &DataType) -> &'static str {
    match ty {
        DataType::Date => "a text like '2026-01-31'",
        DataType::Time(_) => "a text like '23:59:59.5'",
        _ => match Class::of(ty) {
            Some(Class::Number) => "a number, without quotes",
            Some(Class::Bool) => "true or false",
            Some(Class::Moment) => "a text like '2026-01-31 23:59:59' or '2026-01-31T23:59:59Z'",
            Some(Class::Bytes) => "bytes like X'00ff'",
            _ => "a text in quotes",
        },
    }
}

enum Misfit {
    /// Another kind of value.
    Kind,
    /// The column has no values that are compared.
    Nested,
    Value(String),
}

/// The literal as a value of the type.
fn typed(value: &Literal, ty: &DataType) -> Result<Scalar, Misfit> {
    use DataType as D;
    let value_misfit = |why: &str| Misfit::Value(why.to_owned());
    match (ty, value) {
        (ty, _) if ty.is_nested() => Err(Misfit::Nested),
        (ty, Literal::Exact(value)) if has_type(value, ty) => Ok(value.clone()),
        (D::Boolean, Literal::Bool(v)) => Ok(Scalar::Bool(*v)),
        (D::TinyInt, Literal::Number(text)) => whole(text, i8::MIN.into(), i8::MAX.into()),
        (D::SmallInt, Literal::Number(text)) => whole(text, i16::MIN.into(), i16::MAX.into()),
        (D::Int, Literal::Number(text)) => whole(text, i32::MIN.into(), i32::MAX.into()),
        (D::BigInt, Literal::Number(text)) => whole(text, i64::MIN, i64::MAX),
        (D::Decimal { precision, scale }, Literal::Number(text)) => {
            let unscaled = exact(text)?.scaled(*scale).map_err(|_| value_misfit("it has more digits"))?;
            let most = POW10.get(usize::from(*precision)).copied().unwrap_or(i128::MAX);
            if unscaled.abs() < most { Ok(Scalar::Decimal(unscaled)) } else { Err(value_misfit("it has more digits")) }
        }
        (D::Float, Literal::Number(text)) => {
            let v: f32 = text.parse().map_err(|_| value_misfit("it is no number"))?;
            if v.is_infinite() && !text.ends_with("Infinity") { Err(value_misfit("it is out of range")) } else { Ok(Scalar::Float(v)) }
        }
        (D::Double, Literal::Number(text)) => {
            let v: f64 = text.parse().map_err(|_| value_misfit("it is no number"))?;
            if v.is_infinite() && !text.ends_with("Infinity") { Err(value_misfit("it is out of range")) } else { Ok(Scalar::Double(v)) }
        }
        (D::Char(_) | D::VarChar(_) | D::String, Literal::Text(text)) => Ok(Scalar::String(text.clone())),
        (D::Binary(_) | D::VarBinary(_) | D::Bytes, Literal::Bytes(bytes)) => Ok(Scalar::Bytes(bytes.clone())),
        (D::Date, Literal::Text(text)) => parse_date(text.as_bytes()).map(Scalar::Date).map_err(|why| Misfit::Value(format!("it {why}"))),
        (D::Time(precision), Literal::Text(text)) => time(text, *precision),
        (D::Timestamp(precision) | D::TimestampLtz(precision), Literal::Text(text)) => timestamp(text, *precision),
        _ => Err(Misfit::Kind),
    }
}

/// Has the value the form of the type?
fn has_type(value: &Scalar, ty: &DataType) -> bool {
    use DataType as D;
    let within = |v: i64, least: i64, most: i64| (least..=most).contains(&v);
    match (ty, value) {
        (D::TinyInt, Scalar::Int(v)) => within(*v, i8::MIN.into(), i8::MAX.into()),
        (D::SmallInt, Scalar::Int(v)) => within(*v, i16::MIN.into(), i16::MAX.into()),
        (D::Int, Scalar::Int(v)) => within(*v, i32::MIN.into(), i32::MAX.into()),
        (D::Timestamp(0..=3) | D::TimestampLtz(0..=3), Scalar::Timestamp(us)) => us % 1000 == 0,
        (D::BigInt, Scalar::Int(_))
        | (D::Boolean, Scalar::Bool(_))
        | (D::Float, Scalar::Float(_))
        | (D::Double, Scalar::Double(_))
        | (D::Decimal { .. }, Scalar::Decimal(_))
        | (D::Char(_) | D::VarChar(_) | D::String, Scalar::String(_))
        | (D::Binary(_) | D::VarBinary(_) | D::Bytes, Scalar::Bytes(_))
        | (D::Date, Scalar::Date(_))
        | (D::Time(_), Scalar::Time(_))
        | (D::Timestamp(4..=6) | D::TimestampLtz(4..=6), Scalar::Timestamp(_))
        | (D::Timestamp(7..) | D::TimestampLtz(7..), Scalar::TimestampNanos(_)) => true,
        _ => false,
    }
}

fn exact(text: &str) -> Result<Exact, Misfit> {
    Exact::parse(text.as_bytes()).map_err(|_| Misfit::Value("it is no number of at most 38 digits".to_owned()))
}

fn whole(text: &str, least: i64, most: i64) -> Result<Scalar, Misfit> {
    let scaled = exact(text)?.scaled(0).map_err(|_| Misfit::Value("it is no whole number of that size".to_owned()))?;
    match i64::try_from(scaled) {
        Ok(v) if (least..=most).contains(&v) => Ok(Scalar::Int(v)),
        _ => Err(Misfit::Value(format!("it is not between {least} and {most}"))),
    }
}

/// No digit beyond the precision may say anything.
fn timestamp(text: &str, precision: u8) -> Result<Scalar, Misfit> {
    let stamp = parse_timestamp(text.as_bytes()).map_err(|why| Misfit::Value(format!("it {why}")))?;
    let nanos = i128::from(stamp.us) * 1000 + i128::from(stamp.nanos);
    if nanos % POW10[usize::from(9u8.saturating_sub(precision))] != 0 || stamp.fraction > 9 {
        return Err(Misfit::Value(format!("it has more than {precision} digits after the second")));
    }
    match precision {
        0..=6 => Ok(Scalar::Timestamp(stamp.us)),
        _ => i64::try_from(nanos).map(Scalar::TimestampNanos).map_err(|_| Misfit::Value("it is out of range".to_owned())),
    }
}

/// A time of day; columns of every precision hold milliseconds.
fn time(text: &str, precision: u8) -> Result<Scalar, Misfit> {
    let us = parse_time(text.as_bytes()).map_err(|why| Misfit::Value(format!("it {why}")))?;
    let precision = precision.min(3);
    match i32::try_from(us / 1000) {
        Ok(ms) if i128::from(us) % POW10[usize::from(6 - precision)] == 0 => Ok(Scalar::Time(ms)),
        _ => Err(Misfit::Value(format!("it has more than {precision} digits after the second"))),
    }
}
