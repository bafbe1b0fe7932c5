//! The text of a condition to its tree. See [`super`] for the language.

use super::{Column, Kind, Literal, Node, Op, Pattern, Side, Wrong};
use crate::schema::unhex;
use crate::text::number::Exact;

/// Parentheses and `not`s within each other, at most.
const DEEPEST: usize = 64;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Name(String),
    Text(String),
    Number(String),
    Bytes(Vec<u8>),
    Op(Op),
    Open,
    Close,
    Comma,
    End,
}

type Parsed<T> = Result<T, Wrong>;

fn wrong<T>(at: usize, what: impl Into<String>) -> Parsed<T> {
    Err(Wrong(Some(at), what.into()))
}

/// The tree of a text.
pub(super) fn parse(text: &str, kind: &Kind) -> Parsed<Node> {
    let mut p = Parser { tokens: tokens(text, kind)?, at: 0, kind, depth: 0 };
    let node = p.any()?;
    match p.peek() {
        Token::End => Ok(node),
        _ => wrong(p.place(), "expected and, or, or the end"),
    }
}

/// May this character stand in a word, after its first one?
pub(super) fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

const KEYWORDS: [&str; 8] = ["and", "or", "not", "in", "is", "null", "like", "between"];
const VALUES: [&str; 5] = ["true", "false", "nan", "inf", "infinity"];

/// Is this, without backticks, no column?
pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().chain(&VALUES).any(|k| word.eq_ignore_ascii_case(k))
}

fn tokens(text: &str, kind: &Kind) -> Parsed<Vec<(Token, usize)>> {
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
            'x' | 'X' if matches!(two, "x'" | "X'") => {
                let (hex, length) = quoted(&rest[1..], '\'').ok_or_else(|| Wrong(Some(at), "this quote is not closed".into()))?;
                let Some(bytes) = unhex(&hex) else { return wrong(at, "is not hexadecimal, two digits for each byte, as in X'00ff'") };
                (Token::Bytes(bytes), length + 1)
            }
            '\'' | '"' | '`' => {
                let (text, length) = quoted(rest, c).ok_or_else(|| Wrong(Some(at), "this quote is not closed".into()))?;
                (if c == '`' { Token::Name(text) } else { Token::Text(text) }, length)
            }
            c if c.is_alphabetic() || c == '_' => {
                let length = rest.find(|c: char| !in_word(c)).unwrap_or(rest.len());
                (Token::Word(rest[..length].to_owned()), length)
            }
            '0'..='9' | '.' | '-' | '+' => {
                if date(rest) {
                    return wrong(at, "a date or a time stands in quotes, as in '2026-01-31'");
                }
                let length = number(rest);
                let digits = rest[..length].trim_start_matches(['-', '+']);
                let infinite = length == digits.len() + 1 && ["inf", "infinity"].iter().any(|w| digits.eq_ignore_ascii_case(w));
                if !infinite && Exact::parse(&rest.as_bytes()[..length]).is_err() {
                    let what = if length == 1 {
                        format!("arithmetic is not supported in {}", kind.many)
                    } else {
                        "is not a number of at most 38 digits".to_owned()
                    };
                    return wrong(at, what);
                }
                (Token::Number(if infinite { special(&rest[..length]) } else { rest[..length].to_owned() }), length)
            }
            '*' | '/' | '%' => return wrong(at, format!("arithmetic is not supported in {}", kind.many)),
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

/// `NaN`, `Infinity`, `-Infinity`, however it is written.
fn special(word: &str) -> String {
    match word {
        w if w.starts_with('-') => "-Infinity",
        w if w.eq_ignore_ascii_case("nan") => "NaN",
        _ => "Infinity",
    }
    .to_owned()
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

/// Does it begin like `2026-01`?
fn date(text: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| text.as_bytes().get(range).is_some_and(|d| d.iter().all(u8::is_ascii_digit));
    digits(0..4) && text.as_bytes().get(4) == Some(&b'-') && digits(5..7)
}

struct Parser<'a> {
    tokens: Vec<(Token, usize)>,
    at: usize,
    kind: &'a Kind,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }
    fn place(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(_, place)| *place)
    }
    fn eat(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Token::Word(w) if w.eq_ignore_ascii_case(word));
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

    fn any(&mut self) -> Parsed<Node> {
        let mut parts = vec![self.all()?];
        while self.eat("or") {
            parts.push(self.all()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Any(parts) })
    }

    fn all(&mut self) -> Parsed<Node> {
        let mut parts = vec![self.not()?];
        while self.eat("and") {
            parts.push(self.not()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::All(parts) })
    }

    fn not(&mut self) -> Parsed<Node> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return wrong(self.place(), format!("more than {DEEPEST} parentheses and nots within each other"));
        }
        let node = if self.eat("not") {
            Node::Not(Box::new(self.not()?))
        } else if *self.peek() == Token::Open {
            self.at += 1;
            let inner = self.any()?;
            self.expect(&Token::Close, ")")?;
            inner
        } else {
            self.predicate()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn predicate(&mut self) -> Parsed<Node> {
        let start = self.place();
        let left = self.side()?;
        let after = self.place();
        if let Token::Op(op) = *self.peek() {
            self.at += 1;
            let right = self.side()?;
            return compare(left, op, right, start);
        }
        let Side::Column(column) = left else { return wrong(start, "expected a column") };
        if self.eat("is") {
            let not = self.eat("not");
            if !self.eat("null") {
                return wrong(self.place(), "expected null");
            }
            return Ok(negate(not, Node::Null(column)));
        }
        let not = self.eat("not");
        if self.eat("in") {
            return Ok(negate(not, Node::In(column, self.list()?)));
        }
        if self.eat("between") {
            let low = self.side()?;
            if !self.eat("and") {
                return wrong(self.place(), "expected and, and a second value");
            }
            let high = self.side()?;
            let low = compare(Side::Column(column.clone()), Op::Ge, low, start)?;
            return Ok(negate(not, Node::All(vec![low, compare(Side::Column(column), Op::Le, high, start)?])));
        }
        if self.eat("like") {
            let (place, Token::Text(pattern)) = (self.place(), self.peek().clone()) else {
                return wrong(self.place(), "expected a pattern in quotes");
            };
            if Pattern::new(&pattern).is_none() {
                return wrong(place, "ends with a \\ that stands before nothing; write \\\\ for the character");
            }
            self.at += 1;
            return Ok(negate(not, Node::Like(column, pattern, Some(place))));
        }
        if not {
            return wrong(self.place(), "expected in, like or between");
        }
        Ok(Node::Holds(column, Some(after)))
    }

    /// What stands after `in`.
    fn list(&mut self) -> Parsed<Vec<(Literal, Option<usize>)>> {
        self.expect(&Token::Open, "(")?;
        let mut list = Vec::new();
        loop {
            let place = self.place();
            match self.side()? {
                Side::Value(literal, at) => list.push((literal, at)),
                Side::Column(_) => return wrong(place, "expected a value, as in is for values (a text stands in quotes)"),
            }
            if *self.peek() != Token::Comma {
                break;
            }
            self.at += 1;
        }
        self.expect(&Token::Close, ") or a comma")?;
        Ok(list)
    }

    fn side(&mut self) -> Parsed<Side> {
        let (token, place) = (self.peek().clone(), self.place());
        let at = Some(place);
        let side = match token {
            Token::Word(w) if w.eq_ignore_ascii_case("null") => return wrong(place, "nothing equals null; write is null or is not null"),
            Token::Word(w) if KEYWORDS.iter().any(|k| w.eq_ignore_ascii_case(k)) => return wrong(place, "expected a column or a value"),
            Token::Word(w) if w.eq_ignore_ascii_case("true") => Side::Value(Literal::Bool(true), at),
            Token::Word(w) if w.eq_ignore_ascii_case("false") => Side::Value(Literal::Bool(false), at),
            Token::Word(w) if is_keyword(&w) => Side::Value(Literal::Number(special(&w)), at),
            Token::Word(name) | Token::Name(name) => Side::Column(Column { name, at }),
            Token::Text(text) => Side::Value(Literal::Text(text), at),
            Token::Number(number) => Side::Value(Literal::Number(number), at),
            Token::Bytes(bytes) => Side::Value(Literal::Bytes(bytes), at),
            _ => return wrong(place, "expected a column or a value"),
        };
        self.at += 1;
        if matches!(side, Side::Column(_)) && *self.peek() == Token::Open {
            return wrong(place, format!("functions are not supported in {}", self.kind.many));
        }
        Ok(side)
    }
}

fn compare(left: Side, op: Op, right: Side, start: usize) -> Parsed<Node> {
    match (left, right) {
        (Side::Column(a), Side::Column(b)) => Ok(Node::Columns(a, op, b)),
        (Side::Column(c), Side::Value(value, at)) => Ok(Node::Value(c, op, value, at)),
        (Side::Value(value, at), Side::Column(c)) => Ok(Node::Value(c, op.flip(), value, at)),
        (Side::Value(..), Side::Value(..)) => wrong(start, "compares two values, and no column"),
    }
}

fn negate(not: bool, node: Node) -> Node {
    if not { Node::Not(Box::new(node)) } else { node }
}
