//! The text of a check to a [`Condition`]. See [`super::check`] for the language.

use super::cast::{self, Value, cut};
use super::check::{Condition, Literal, Op};
use super::number::Exact;
use super::time::DAY_US;
use crate::error::{Error, Result};
use crate::schema::{DataType, Schema};

/// Parentheses and `not`s within each other, at most.
const DEEPEST: usize = 64;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Name(String),
    Text(String),
    Number(String),
    Op(Op),
    Open,
    Close,
    Comma,
    End,
}

/// What is wrong, and at which byte of the text.
struct Wrong(usize, String);
type Parsed<T> = std::result::Result<T, Wrong>;

fn wrong<T>(at: usize, what: impl Into<String>) -> Parsed<T> {
    Err(Wrong(at, what.into()))
}

/// The condition, and the positions of its columns in order of first mention.
pub(super) fn parse(text: &str, schema: &Schema) -> Result<(Condition, Vec<usize>)> {
    let parsed = tokens(text).and_then(|tokens| {
        let mut p = Parser { tokens, at: 0, schema, columns: Vec::new(), depth: 0 };
        let condition = p.any()?;
        match p.peek() {
            Token::End if !p.columns.is_empty() => Ok((condition, p.columns)),
            Token::End => wrong(0, "names no column"),
            _ => wrong(p.place(), "expected and, or, or the end"),
        }
    });
    parsed.map_err(|Wrong(at, what)| {
        let before = text.get(..at).unwrap_or(text).chars().count();
        // A long check is cut so that the caret stays in view.
        let skip = if before > 100 { before - 60 } else { 0 };
        let line: String = text.chars().skip(skip).take(140).map(|c| if c.is_control() { ' ' } else { c }).collect();
        Error::invalid(format!("check: {what}\n    {line}\n    {}^", " ".repeat(before - skip)))
            .hint("checks compare columns with values or columns, as in `amount >= 0 and status in ('new', 'paid')`")
    })
}

fn tokens(text: &str) -> Parsed<Vec<(Token, usize)>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let two = rest.get(..2).unwrap_or("");
        let (token, length) = match c {
            c if c.is_whitespace() => {
                at += c.len_utf8();
                continue;
            }
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            ',' => (Token::Comma, 1),
            '=' if two == "==" => (Token::Op(Op::Eq), 2),
            '=' => (Token::Op(Op::Eq), 1),
            '!' if two == "!=" => (Token::Op(Op::Ne), 2),
            '<' if two == "<>" => (Token::Op(Op::Ne), 2),
            '<' if two == "<=" => (Token::Op(Op::Le), 2),
            '<' => (Token::Op(Op::Lt), 1),
            '>' if two == ">=" => (Token::Op(Op::Ge), 2),
            '>' => (Token::Op(Op::Gt), 1),
            '\'' | '"' | '`' => {
                let (text, length) = quoted(rest, c).ok_or_else(|| Wrong(at, "this quote is not closed".into()))?;
                (if c == '`' { Token::Name(text) } else { Token::Text(text) }, length)
            }
            c if c.is_alphabetic() || c == '_' => {
                let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
                (Token::Word(rest[..length].to_owned()), length)
            }
            '0'..='9' | '.' | '-' | '+' => {
                let length = number(rest);
                if Exact::parse(&rest.as_bytes()[..length]).is_err() {
                    return wrong(
                        at,
                        if length == 1 { "arithmetic is not supported in checks" } else { "is not a number of at most 38 digits" },
                    );
                }
                (Token::Number(rest[..length].to_owned()), length)
            }
            '*' | '/' | '%' => return wrong(at, "arithmetic is not supported in checks"),
            '&' => return wrong(at, "write and"),
            '|' => return wrong(at, "write or"),
            '!' => return wrong(at, "write not"),
            _ => return wrong(at, "this character means nothing here"),
        };
        out.push((token, at));
        at += length;
    }
    out.push((Token::End, text.len()));
    Ok(out)
}

/// A quoted text with doubled quotes inside, and its length with the quotes.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c != quote {
            out.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            out.push(quote);
        } else {
            return Some((out, at + 1));
        }
    }
    None
}

/// How long the number at the beginning is, well formed or not.
fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(b) = bytes.get(at) {
        let sign = matches!(b, b'+' | b'-') && matches!(bytes[at - 1], b'e' | b'E');
        if !(b.is_ascii_alphanumeric() || *b == b'.' || sign) {
            break;
        }
        at += 1;
    }
    at
}

struct Parser<'a> {
    tokens: Vec<(Token, usize)>,
    at: usize,
    schema: &'a Schema,
    columns: Vec<usize>,
    depth: usize,
}

enum Operand {
    Column(usize),
    Literal(Token, usize),
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }
    fn place(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(_, place)| *place)
    }
    fn word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(w) if w.eq_ignore_ascii_case(word))
    }
    fn eat(&mut self, word: &str) -> bool {
        let found = self.word(word);
        self.at += usize::from(found);
        found
    }
    fn expect(&mut self, token: &Token, what: &str) -> Parsed<()> {
        if self.peek() != token {
            return wrong(self.place(), format!("expected {what}"));
        }
        self.at += 1;
        Ok(())
    }

    fn any(&mut self) -> Parsed<Condition> {
        let mut parts = vec![self.all()?];
        while self.eat("or") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::Any(parts) })
    }

    fn all(&mut self) -> Parsed<Condition> {
        let mut parts = vec![self.not()?];
        while self.eat("and") {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::All(parts) })
    }

    fn not(&mut self) -> Parsed<Condition> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return wrong(self.place(), format!("more than {DEEPEST} parentheses and nots within each other"));
        }
        let condition = if self.eat("not") {
            Condition::Not(Box::new(self.not()?))
        } else if *self.peek() == Token::Open {
            self.at += 1;
            let inner = self.any()?;
            self.expect(&Token::Close, ")")?;
            inner
        } else {
            self.predicate()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn predicate(&mut self) -> Parsed<Condition> {
        let start = self.place();
        let left = self.operand()?;
        let after = self.place();
        if let Token::Op(op) = *self.peek() {
            self.at += 1;
            let place = self.place();
            return match (left, self.operand()?) {
                (Operand::Column(a), Operand::Column(b)) => {
                    self.comparable(a, b, place)?;
                    Ok(Condition::Columns(a, op, b))
                }
                (Operand::Column(c), Operand::Literal(token, at)) => Ok(Condition::Literal(c, op, self.literal(c, &token, at)?)),
                (Operand::Literal(token, at), Operand::Column(c)) => Ok(Condition::Literal(c, op.flip(), self.literal(c, &token, at)?)),
                (Operand::Literal(..), Operand::Literal(..)) => wrong(start, "compares two values, and no column"),
            };
        }
        let Operand::Column(column) = left else { return wrong(start, "expected a column") };
        if self.eat("is") {
            let not = self.eat("not");
            if !self.eat("null") {
                return wrong(self.place(), "expected null");
            }
            return Ok(negate(not, Condition::IsNull(column)));
        }
        let not = self.eat("not");
        if self.eat("in") {
            self.expect(&Token::Open, "(")?;
            let mut list = Vec::new();
            loop {
                let place = self.place();
                match self.operand()? {
                    Operand::Literal(token, at) => list.push(self.literal(column, &token, at)?),
                    Operand::Column(_) => return wrong(place, "expected a value, as in is for values (a text stands in quotes)"),
                }
                if *self.peek() != Token::Comma {
                    break;
                }
                self.at += 1;
            }
            self.expect(&Token::Close, ") or a comma")?;
            return Ok(negate(not, Condition::In(column, list)));
        }
        if not {
            return wrong(self.place(), "expected in");
        }
        match self.schema.fields[column].data_type {
            DataType::Boolean => Ok(Condition::Holds(column)),
            _ => wrong(after, "expected one of: = != < <= > >= in, is null, is not null"),
        }
    }

    fn operand(&mut self) -> Parsed<Operand> {
        const KEYWORDS: [&str; 6] = ["and", "or", "not", "in", "is", "null"];
        let (token, place) = (self.peek().clone(), self.place());
        let name = match &token {
            Token::Word(w) if w.eq_ignore_ascii_case("true") || w.eq_ignore_ascii_case("false") => None,
            Token::Word(w) if w.eq_ignore_ascii_case("null") => return wrong(place, "nothing equals null; write is null or is not null"),
            Token::Word(w) if KEYWORDS.iter().any(|k| w.eq_ignore_ascii_case(k)) => return wrong(place, "expected a column or a value"),
            Token::Word(w) | Token::Name(w) => Some(w),
            Token::Text(_) | Token::Number(_) => None,
            _ => return wrong(place, "expected a column or a value"),
        };
        self.at += 1;
        let Some(name) = name else { return Ok(Operand::Literal(token, place)) };
        let Some(column) = self.schema.fields.iter().position(|f| f.name == *name) else {
            if *self.peek() == Token::Open {
                return wrong(place, "functions are not supported in checks");
            }
            let names = self.schema.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
            return wrong(place, format!("{name} is no column (the columns are: {names}; a text stands in quotes)"));
        };
        if !self.columns.contains(&column) {
            self.columns.push(column);
        }
        Ok(Operand::Column(column))
    }

    fn comparable(&self, a: usize, b: usize, place: usize) -> Parsed<()> {
        let (a, b) = (&self.schema.fields[a].data_type, &self.schema.fields[b].data_type);
        match (class(a), class(b)) {
            (Some(x), Some(y)) if x == y => Ok(()),
            _ => wrong(place, format!("{a} and {b} cannot be compared")),
        }
    }

    /// A value in the terms of the column.
    fn literal(&self, column: usize, token: &Token, at: usize) -> Parsed<Literal> {
        let field = &self.schema.fields[column];
        let (name, ty) = (&field.name, &field.data_type);
        let value = match token {
            Token::Text(text) => Value::Text(text.as_bytes()),
            Token::Number(text) => Value::Number(text.as_bytes()),
            Token::Word(word) => Value::Bool(word.eq_ignore_ascii_case("true")),
            _ => return wrong(at, "expected a value"),
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
            (DataType::Date, Value::Text(_)) => cast::date(value, None).map(|d| Literal::Moment(i64::from(d) * DAY_US)).map_err(misfit),
            (DataType::Timestamp(_) | DataType::TimestampLtz(_), Value::Text(_)) => {
                cast::timestamp(value, None).map(Literal::Moment).map_err(misfit)
            }
            (ty, _) if class(ty).is_none() => wrong(at, format!("column {name} is {ty}, which only is null and is not null are for")),
            _ => {
                let right = match class(ty) {
                    Some(Class::Number) => "a number, without quotes",
                    Some(Class::Bool) => "true or false",
                    Some(Class::Moment) => "a text like '2026-01-31'",
                    _ => "a text in quotes",
                };
                wrong(at, format!("column {name} is {ty}; compare it with {right}"))
            }
        }
    }
}

fn negate(not: bool, condition: Condition) -> Condition {
    if not { Condition::Not(Box::new(condition)) } else { condition }
}

fn exact(text: &[u8], scale: u8, at: usize) -> Parsed<Literal> {
    let number = Exact::parse(text).map_err(|_| Wrong(at, "is not a number of at most 38 digits".into()))?;
    // beyond 38 digits it is less or greater than everything
    let beyond = if number.negative { i128::MIN } else { i128::MAX };
    Ok(match number.floor(scale) {
        (Some(floor), whole) => Literal::Exact { floor, whole },
        (None, _) => Literal::Exact { floor: beyond, whole: false },
    })
}

#[derive(PartialEq)]
enum Class {
    Number,
    Text,
    Bool,
    Moment,
}

fn class(ty: &DataType) -> Option<Class> {
    use DataType as D;
    match ty {
        D::TinyInt | D::SmallInt | D::Int | D::BigInt | D::Decimal { .. } | D::Float | D::Double => Some(Class::Number),
        D::String | D::Char(_) | D::VarChar(_) => Some(Class::Text),
        D::Boolean => Some(Class::Bool),
        D::Date | D::Timestamp(_) | D::TimestampLtz(_) => Some(Class::Moment),
        D::Binary(_) | D::VarBinary(_) | D::Bytes | D::Time(_) | D::Array(_) | D::Map(..) | D::Multiset(_) | D::Row(_) => None,
    }
}
