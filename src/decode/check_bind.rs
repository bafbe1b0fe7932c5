//! A condition to a check: columns become positions, values take the form of their columns.

use super::cast::{self, Value, cut};
use super::check::{Bound, Literal};
use crate::condition::{At, Class, Column, Condition, Kind, Literal as Written, Node, Pattern, Wrong};
use crate::error::Result;
use crate::schema::{DataType, Schema};
use crate::text::number::Exact;
use crate::text::time::{DAY_NS, parse_time};

const CHECK: Kind = Kind {
    one: "check",
    many: "checks",
    hint: "checks compare columns with values or columns, as in `amount >= 0 and status in ('new', 'paid')`",
};

type Fits<T> = std::result::Result<T, Wrong>;

fn wrong<T>(at: At, what: impl Into<String>) -> Fits<T> {
    Err(Wrong(at, what.into()))
}

/// The check that a text is, and the positions of its columns in order of first mention.
pub(super) fn bind(text: &str, schema: &Schema) -> Result<(Bound, Vec<usize>)> {
    let condition = Condition::parse_as(text, &CHECK)?;
    let mut binder = Binder { schema, columns: Vec::new() };
    let bound = binder.node(&condition.node).map_err(|e| condition.wrong(&CHECK, e))?;
    Ok((bound, binder.columns))
}

struct Binder<'a> {
    schema: &'a Schema,
    columns: Vec<usize>,
}

impl Binder<'_> {
    fn node(&mut self, node: &Node) -> Fits<Bound> {
        Ok(match node {
            Node::All(parts) => Bound::All(parts.iter().map(|p| self.node(p)).collect::<Fits<_>>()?),
            Node::Any(parts) => Bound::Any(parts.iter().map(|p| self.node(p)).collect::<Fits<_>>()?),
            Node::Not(part) => Bound::Not(Box::new(self.node(part)?)),
            Node::Null(c) => Bound::IsNull(self.column(c)?),
            Node::Holds(c, after) => {
                let column = self.column(c)?;
                if self.schema.fields[column].data_type != DataType::Boolean {
                    return wrong(*after, "expected one of: = != < <= > >= in, between, like, is null, is not null");
                }
                Bound::Holds(column)
            }
            Node::Value(c, op, value, at) => {
                let column = self.column(c)?;
                Bound::Literal(column, *op, self.literal(column, value, *at)?)
            }
            Node::Columns(a, op, b) => {
                let (left, right) = (self.column(a)?, self.column(b)?);
                self.comparable(left, right, b.at)?;
                Bound::Columns(left, *op, right)
            }
            Node::In(c, list) => {
                let column = self.column(c)?;
                Bound::In(column, list.iter().map(|(value, at)| self.literal(column, value, *at)).collect::<Fits<_>>()?)
            }
            Node::Like(c, pattern, at) => {
                let column = self.column(c)?;
                let field = &self.schema.fields[column];
                match (class(&field.data_type), Pattern::new(pattern)) {
                    (Some(Class::Text), Some(pattern)) => Bound::Like(column, pattern),
                    _ => return wrong(*at, format!("column {} is {}, and like is for texts", field.name, field.data_type)),
                }
            }
        })
    }

    fn column(&mut self, column: &Column) -> Fits<usize> {
        let Some(position) = self.schema.fields.iter().position(|f| f.name == column.name) else {
            let names = self.schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
            return wrong(column.at, format!("{} is no column (the columns are: {names}; a text stands in quotes)", column.name));
        };
        if !self.columns.contains(&position) {
            self.columns.push(position);
        }
        Ok(position)
    }

    fn comparable(&self, a: usize, b: usize, at: At) -> Fits<()> {
        let (a, b) = (&self.schema.fields[a].data_type, &self.schema.fields[b].data_type);
        match (class(a), class(b)) {
            (Some(x), Some(y)) if x == y => Ok(()),
            _ => wrong(at, format!("{a} and {b} cannot be compared")),
        }
    }

    /// A value in the terms of the column.
    fn literal(&self, column: usize, written: &Written, at: At) -> Fits<Literal> {
        let field = &self.schema.fields[column];
        let (name, ty) = (&field.name, &field.data_type);
        let value = match written {
            Written::Text(text) => Value::Text(text.as_bytes()),
            Written::Number(text) => Value::Number(text.as_bytes()),
            Written::Bool(v) => Value::Bool(*v),
            Written::Bytes(_) | Written::Exact(_) => return wrong(at, "bytes are not compared in checks"),
        };
        let misfit = |why: cast::Why| {
            let shown = if let Value::Text(t) | Value::Number(t) = value { cut(t) } else { String::new() };
            Wrong(at, format!("{shown} {why} (column {name} is {ty})"))
        };
        match (ty, value) {
            (DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt, Value::Number(text)) => exact(text, 0, at),
            (DataType::Decimal { scale, .. }, Value::Number(text)) => exact(text, *scale, at),
            (DataType::Float, Value::Number(_)) => cast::real::<f32>(value).map(|v| Literal::Float(v.into())).map_err(misfit),
            (DataType::Double, Value::Number(_)) => cast::real::<f64>(value).map(Literal::Float).map_err(misfit),
            (DataType::Boolean, Value::Bool(v)) => Ok(Literal::Bool(v)),
            (DataType::String | DataType::Char(_) | DataType::VarChar(_), Value::Text(text)) => {
                Ok(Literal::Text(String::from_utf8_lossy(text).into_owned()))
            }
            (DataType::Date, Value::Text(_)) => cast::date(value, None).map(|d| Literal::Moment(i128::from(d) * DAY_NS)).map_err(misfit),
            (DataType::Time(_), Value::Text(text)) => {
                parse_time(text.trim_ascii()).map(|us| Literal::Moment(i128::from(us) * 1000)).map_err(|e| misfit(e.into()))
            }
            (DataType::Timestamp(_) | DataType::TimestampLtz(_), Value::Text(_)) => {
                cast::nanos(value, None).map(Literal::Moment).map_err(misfit)
            }
            (ty, _) if class(ty).is_none() => wrong(at, format!("column {name} is {ty}, which only is null and is not null are for")),
            _ => {
                let right = match class(ty) {
                    Some(Class::Number) => "a number, without quotes",
                    Some(Class::Bool) => "true or false",
                    Some(Class::Moment) => "a text like '2026-01-31'",
                    Some(Class::Time) => "a text like '12:30:00'",
                    _ => "a text in quotes",
                };
                wrong(at, format!("column {name} is {ty}; compare it with {right}"))
            }
        }
    }
}

fn exact(text: &[u8], scale: u8, at: At) -> Fits<Literal> {
    let number = Exact::parse(text).map_err(|_| Wrong(at, "is not a number of at most 38 digits".into()))?;
    // beyond 38 digits it is less or greater than everything
    let beyond = if number.negative { i128::MIN } else { i128::MAX };
    Ok(match number.floor(scale) {
        (Some(floor), whole) => Literal::Exact { floor, whole },
        (None, _) => Literal::Exact { floor: beyond, whole: false },
    })
}

/// Bytes are not compared in checks.
fn class(ty: &DataType) -> Option<Class> {
    Class::of(ty).filter(|class| *class != Class::Bytes)
}
