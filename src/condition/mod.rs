//! Conditions on rows, in a small part of SQL: `checks` of a pipeline and `--where` of the command line speak the same language, and
//! programs build the same tree with [`col`].
//!
//! ```text
//! amount >= 0 and (status in ('new', "paid") or note is null) and not deleted and start <= finish
//! name like 'a%' and dt between '2026-01-01' and '2026-01-31'
//! ```
//!
//! Comparisons `= == != <> < <= > >=` of a column with a value or with another column, `[not] in (..)`, `[not] between .. and ..`,
//! `[not] like '..'` (`%` any characters, `_` one, `\` takes away the meaning of the next), `is [not] null`, a BOOLEAN column by itself,
//! `and`, `or`, `not`, parentheses. A column is written as it is, or in backticks; a text in `'..'` or `".."` (the quote doubled inside);
//! bytes as `X'00ff'`; dates and times are texts, read by the column's type; `NaN` and `Infinity` are numbers.
//!
//! A condition says nothing of types. Who uses it binds it to a schema: what a comparison with null comes to, how NaN compares and which
//! values fit a column is decided there (checks in `decode`, scans in `table`).

mod like;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

pub(crate) use like::Pattern;

use crate::error::{Error, Result};
use crate::schema::{DataType, Scalar};

/// Values of one class are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Class {
    Number,
    Text,
    Bytes,
    Bool,
    Moment,
    Time,
}

impl Class {
    /// Of a type; nested ones have none.
    pub(crate) fn of(ty: &DataType) -> Option<Class> {
        use DataType as D;
        Some(match ty {
            D::TinyInt | D::SmallInt | D::Int | D::BigInt | D::Decimal { .. } | D::Float | D::Double => Class::Number,
            D::String | D::Char(_) | D::VarChar(_) => Class::Text,
            D::Binary(_) | D::VarBinary(_) | D::Bytes => Class::Bytes,
            D::Boolean => Class::Bool,
            D::Date | D::Timestamp(_) | D::TimestampLtz(_) => Class::Moment,
            D::Time(_) => Class::Time,
            D::Array(_) | D::Map(..) | D::Multiset(_) | D::Row(_) => return None,
        })
    }
}

/// How two values are compared.
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

impl Op {
    /// The same with the sides exchanged.
    pub(crate) fn flip(self) -> Op {
        match self {
            Op::Lt => Op::Gt,
            Op::Le => Op::Ge,
            Op::Gt => Op::Lt,
            Op::Ge => Op::Le,
            same => same,
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

/// A value in a condition, before it is known which type it is compared with.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Literal {
    /// `true`, `false`
    Bool(bool),
    /// A number in decimal notation, or `NaN`, `Infinity`, `-Infinity`
    Number(String),
    /// Text, also of a date or a time
    Text(String),
    /// Bytes
    Bytes(Vec<u8>),
    /// A value in the form of the column's type
    Exact(Scalar),
}

macro_rules! literal {
    ($($from:ty => $variant:ident, $v:ident, $value:expr;)*) => {
        $(impl From<$from> for Literal {
            fn from($v: $from) -> Literal {
                Literal::$variant($value)
            }
        })*
    };
}
literal! {
    bool => Bool, v, v;
    i32 => Number, v, v.to_string();
    i64 => Number, v, v.to_string();
    u32 => Number, v, v.to_string();
    u64 => Number, v, v.to_string();
    f32 => Number, v, float(v.into(), format!("{v:?}"));
    f64 => Number, v, float(v, format!("{v:?}"));
    &str => Text, v, v.to_owned();
    &String => Text, v, v.clone();
    String => Text, v, v;
    &[u8] => Bytes, v, v.to_vec();
    Vec<u8> => Bytes, v, v;
    Scalar => Exact, v, v;
}

/// `text` is the shortest that is read back as the same float.
fn float(v: f64, text: String) -> String {
    match v {
        v if v.is_nan() => "NaN".to_owned(),
        v if v.is_infinite() => if v > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        _ => text,
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Bool(v) => write!(f, "{v}"),
            Literal::Number(v) => f.write_str(v),
            Literal::Text(v) => write!(f, "'{}'", v.replace('\'', "''")),
            Literal::Bytes(v) => write!(f, "X'{}'", crate::schema::Hex(v)),
            Literal::Exact(v) => write!(f, "{v:?}"),
        }
    }
}

/// Byte in the text of the condition; none where it was not written as text.
pub(crate) type At = Option<usize>;

/// What is wrong, and where.
#[derive(Debug)]
pub(crate) struct Wrong(pub(crate) At, pub(crate) String);

/// The name of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) at: At,
}

/// A side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Side {
    Column(Column),
    Value(Literal, At),
}

/// The tree; at least one column is in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    Null(Column),
    /// A BOOLEAN column by itself, and the place after it.
    Holds(Column, At),
    /// A column with a value; the column is the left side.
    Value(Column, Op, Literal, At),
    /// Two columns; the place is that of the right one.
    Columns(Column, Op, Column),
    In(Column, Vec<(Literal, At)>),
    Like(Column, String, At),
}

/// What a text is, in the words of its messages.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) one: &'static str,
    pub(crate) many: &'static str,
    pub(crate) hint: &'static str,
}

/// Of a scan.
pub(crate) const CONDITION: Kind = Kind {
    one: "condition",
    many: "conditions",
    hint: "write it as in SQL: `amount >= 0 and (status in ('new', 'paid') or note is null) and name like 'a%'`",
};

/// A condition on rows; see the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    pub(crate) text: Option<String>,
    pub(crate) node: Node,
}

impl Condition {
    /// Understands `text`. `Invalid`, with a caret below the place that is wrong.
    pub fn parse(text: &str) -> Result<Condition> {
        Condition::parse_as(text, &CONDITION)
    }

    pub(crate) fn parse_as(text: &str, kind: &Kind) -> Result<Condition> {
        let node = parse::parse(text, kind).map_err(|wrong| explain(Some(text), kind, wrong))?;
        Ok(Condition { text: Some(text.to_owned()), node })
    }

    /// The error of who binds it.
    pub(crate) fn wrong(&self, kind: &Kind, wrong: Wrong) -> Error {
        match &self.text {
            Some(text) => explain(Some(text), kind, wrong),
            None => explain(Some(&self.to_string()), kind, Wrong(None, wrong.1)),
        }
    }

    fn built(node: Node) -> Condition {
        Condition { text: None, node }
    }

    /// True when both are.
    pub fn and(self, other: Condition) -> Condition {
        Condition::built(Node::All(match self.node {
            Node::All(mut parts) => {
                parts.push(other.node);
                parts
            }
            node => vec![node, other.node],
        }))
    }
    /// True when one of the two is, or both are.
    pub fn or(self, other: Condition) -> Condition {
        Condition::built(Node::Any(match self.node {
            Node::Any(mut parts) => {
                parts.push(other.node);
                parts
            }
            node => vec![node, other.node],
        }))
    }
}

impl std::ops::Not for Condition {
    type Output = Condition;
    /// True when it is false; a condition that is neither (a comparison with null) stays neither.
    fn not(self) -> Condition {
        Condition::built(Node::Not(Box::new(self.node)))
    }
}

/// A column of which to say something; see [`col`].
#[derive(Clone, Debug)]
pub struct Col(String);

/// The column called `name`.
///
/// ```
/// use lakeward::condition::{Condition, col};
/// let built = col("amount").ge(10).and(col("status").is_in(["new", "paid"])).or(!col("note").is_null());
/// let written = Condition::parse("amount >= 10 and status in ('new', 'paid') or not note is null")?;
/// assert_eq!(built.to_string(), written.to_string());
/// # Ok::<(), lakeward::Error>(())
/// ```
pub fn col(name: impl Into<String>) -> Col {
    Col(name.into())
}

impl Col {
    fn column(self) -> Column {
        Column { name: self.0, at: None }
    }
    fn is(self, op: Op, value: Literal) -> Condition {
        Condition::built(Node::Value(self.column(), op, value, None))
    }
    /// Equal to `value`. Null is equal to nothing.
    pub fn eq(self, value: impl Into<Literal>) -> Condition {
        self.is(Op::Eq, value.into())
    }
    /// Not equal to `value`, and not null.
    pub fn ne(self, value: impl Into<Literal>) -> Condition {
        self.is(Op::Ne, value.into())
    }
    /// Less than `value`.
    pub fn lt(self, value: impl Into<Literal>) -> Condition {
        self.is(Op::Lt, value.into())
    }
    /// Less than or equal to `value`.
    pub fn le(self, value: impl Into<Literal>) -> Condition {
        self.is(Op::Le, value.into())
    }
    /// Greater than `value`.
    pub fn gt(self, value: impl Into<Literal>) -> Condition {
        self.is(Op::Gt, value.into())
    }
    /// Greater than or equal to `value`.
    pub fn ge(self, value: impl Into<Literal>) -> Condition {
        self.is(Op::Ge, value.into())
    }
    /// Compares with another column of the same kind.
    pub fn compare(self, op: Op, other: Col) -> Condition {
        Condition::built(Node::Columns(self.column(), op, other.column()))
    }
    /// From `low` to `high`, both included.
    pub fn between(self, low: impl Into<Literal>, high: impl Into<Literal>) -> Condition {
        self.clone().ge(low).and(self.le(high))
    }
    /// Equal to one of these. None of them: never true.
    pub fn is_in<L: Into<Literal>>(self, values: impl IntoIterator<Item = L>) -> Condition {
        Condition::built(Node::In(self.column(), values.into_iter().map(|v| (v.into(), None)).collect()))
    }
    /// A text like this pattern: `%` stands for any characters, `_` for one, `\` takes away the meaning of the next.
    pub fn like(self, pattern: impl Into<String>) -> Condition {
        Condition::built(Node::Like(self.column(), pattern.into(), None))
    }
    /// A text that begins so.
    pub fn starts_with(self, prefix: &str) -> Condition {
        self.like(format!("{}%", like::escape(prefix)))
    }
    /// Null.
    pub fn is_null(self) -> Condition {
        Condition::built(Node::Null(self.column()))
    }
    /// Not null.
    pub fn is_not_null(self) -> Condition {
        !self.is_null()
    }
    /// A BOOLEAN column that is true.
    pub fn is_true(self) -> Condition {
        Condition::built(Node::Holds(self.column(), None))
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = self.name.starts_with(|c: char| c.is_alphabetic() || c == '_') && self.name.chars().all(parse::in_word);
        if plain && !parse::is_keyword(&self.name) { f.write_str(&self.name) } else { write!(f, "`{}`", self.name.replace('`', "``")) }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |f: &mut fmt::Formatter<'_>, parts: &[Node], word: &str| {
            for (i, part) in parts.iter().enumerate() {
                f.write_str(if i == 0 { "" } else { word })?;
                match part {
                    Node::Any(_) => write!(f, "({part})")?,
                    _ => write!(f, "{part}")?,
                }
            }
            Ok(())
        };
        match self {
            Node::All(parts) => join(f, parts, " and "),
            Node::Any(parts) => join(f, parts, " or "),
            Node::Not(part) => match &**part {
                Node::All(_) | Node::Any(_) => write!(f, "not ({part})"),
                _ => write!(f, "not {part}"),
            },
            Node::Null(c) => write!(f, "{c} is null"),
            Node::Holds(c, _) => write!(f, "{c}"),
            Node::Value(c, op, value, _) => write!(f, "{c} {op} {value}"),
            Node::Columns(a, op, b) => write!(f, "{a} {op} {b}"),
            Node::In(c, list) => {
                let list: Vec<String> = list.iter().map(|(v, _)| v.to_string()).collect();
                write!(f, "{c} in ({})", list.join(", "))
            }
            Node::Like(c, pattern, _) => write!(f, "{c} like {}", Literal::Text(pattern.clone())),
        }
    }
}

/// As a text that means the same.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.node)
    }
}

fn explain(text: Option<&str>, kind: &Kind, Wrong(at, what): Wrong) -> Error {
    let text = text.unwrap_or_default();
    let Some(at) = at else {
        return Error::invalid(format!("{} `{text}`: {what}", kind.one)).hint(kind.hint);
    };
    let before = text.get(..at).unwrap_or(text).chars().count();
    // A long text is cut so that the caret stays in view.
    let skip = if before > 100 { before - 60 } else { 0 };
    let line: String = text.chars().skip(skip).take(140).map(|c| if c.is_control() { ' ' } else { c }).collect();
    Error::invalid(format!("{}: {what}\n    {line}\n    {}^", kind.one, " ".repeat(before - skip))).hint(kind.hint)
}
