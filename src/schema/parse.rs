//! The text of a type, as Flink SQL and Paimon spell it.

use super::types::Problem;
use super::{DataType, Field, Item};

/// Types inside of types, at most; deeper text is refused before it can exhaust the stack.
const DEPTH: usize = 64;

/// One word, number or sign of a type's text, and where it begins and ends.
struct Token<'a> {
    kind: Kind<'a>,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind<'a> {
    /// Letters, digits and `_`.
    Word(&'a str),
    /// The inside of backticks.
    Name(&'a str),
    /// The inside of single quotes.
    Quoted(&'a str),
    Sign(char),
}

/// Reads a type by recursive descent.
pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// The type that `text` spells, and whether it may be null.
    pub(super) fn read(text: &'a str) -> Result<(DataType, bool), Problem> {
        let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
        let item = parser.item()?;
        if parser.at < parser.tokens.len() {
            return Err(Problem::Unknown(text.trim().to_owned()));
        }
        Ok((item.data_type, item.nullable))
    }

    fn item(&mut self) -> Result<Item, Problem> {
        let data_type = self.data_type()?;
        let nullable = match self.words(&["NOT", "NULL"]) {
            true => false,
            false => {
                self.words(&["NULL"]);
                true
            }
        };
        Ok(Item { data_type, nullable })
    }

    fn data_type(&mut self) -> Result<DataType, Problem> {
        let from = self.at;
        let Some(Kind::Word(word)) = self.kind() else {
            return Err(if self.depth > 0 { Problem::Bad("a type is missing".into()) } else { self.unknown(from) });
        };
        self.at += 1;
        let head = word.to_ascii_uppercase();
        if matches!(head.as_str(), "ARRAY" | "MAP" | "MULTISET" | "ROW") {
            return self.nested(&head, from);
        }
        let numbers = self.numbers()?;
        let plain = |t: DataType| match &numbers {
            None => Ok(t),
            Some(_) => Err(Problem::Bad("it takes no number".into())),
        };
        let length = || match numbers.as_deref() {
            None => Ok(1),
            Some([n]) if *n >= 1 && *n <= i32::MAX as u32 => Ok(*n),
            Some(_) => Err(Problem::Bad("its length is one number from 1".into())),
        };
        let longest = |n: u32| n == i32::MAX as u32;
        let precision = |default: u8| match numbers.as_deref() {
            None => Ok(default),
            Some([p @ 0..=9]) => Ok(u8::try_from(*p).unwrap_or(default)),
            Some(_) => Err(Problem::Bad("its precision is one number from 0 to 9".into())),
        };
        match head.as_str() {
            "BOOLEAN" | "BOOL" => plain(DataType::Boolean),
            "TINYINT" => plain(DataType::TinyInt),
            "SMALLINT" => plain(DataType::SmallInt),
            "INT" | "INTEGER" => plain(DataType::Int),
            "BIGINT" => plain(DataType::BigInt),
            "FLOAT" => plain(DataType::Float),
            "DOUBLE" => {
                self.words(&["PRECISION"]);
                plain(DataType::Double)
            }
            "STRING" => plain(DataType::String),
            "BYTES" => plain(DataType::Bytes),
            "DATE" => plain(DataType::Date),
            "CHAR" => length().map(DataType::Char),
            // Flink and Paimon print STRING and BYTES for the longest VARCHAR and VARBINARY; both texts mean the same type.
            "VARCHAR" => length().map(|n| if longest(n) { DataType::String } else { DataType::VarChar(n) }),
            "BINARY" => length().map(DataType::Binary),
            "VARBINARY" => length().map(|n| if longest(n) { DataType::Bytes } else { DataType::VarBinary(n) }),
            "DECIMAL" | "DEC" | "NUMERIC" => decimal(numbers.as_deref().unwrap_or_default()),
            "TIME" => {
                let p = precision(0)?;
                self.words(&["WITHOUT", "TIME", "ZONE"]);
                Ok(DataType::Time(p))
            }
            "TIMESTAMP" => {
                let p = precision(6)?;
                if self.words(&["WITH", "LOCAL", "TIME", "ZONE"]) {
                    return Ok(DataType::TimestampLtz(p));
                }
                self.words(&["WITHOUT", "TIME", "ZONE"]);
                Ok(DataType::Timestamp(p))
            }
            "TIMESTAMP_LTZ" => precision(6).map(DataType::TimestampLtz),
            _ => Err(self.unknown(from)),
        }
    }

    fn nested(&mut self, head: &str, from: usize) -> Result<DataType, Problem> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Problem::Bad(format!("types lie within each other more than {DEPTH} deep")));
        }
        if !self.sign('<') {
            return Err(match self.kind() {
                None => Problem::Bad(format!("{head} needs its types in angle brackets, as in {}", example(head))),
                Some(_) => self.unknown(from),
            });
        }
        let made = match head {
            "ARRAY" => DataType::Array(Box::new(self.item()?)),
            "MULTISET" => DataType::Multiset(Box::new(self.item()?)),
            "MAP" => {
                let key = self.item()?;
                if !self.sign(',') {
                    return Err(Problem::Bad("a MAP has two types, with a comma between".into()));
                }
                DataType::Map(Box::new(key), Box::new(self.item()?))
            }
            _ => DataType::Row(self.fields()?),
        };
        if !self.sign('>') {
            return Err(Problem::Bad(format!("the angle bracket of {head} is not closed")));
        }
        self.depth -= 1;
        Ok(made)
    }

    fn fields(&mut self) -> Result<Vec<Field>, Problem> {
        let mut fields: Vec<Field> = Vec::new();
        loop {
            let name = match self.kind() {
                Some(Kind::Word(word)) => word.to_owned(),
                Some(Kind::Name(name)) => name.replace("``", "`"),
                _ => return Err(Problem::Bad("a ROW has fields, each a name and a type, with commas between".into())),
            };
            self.at += 1;
            if name.trim().is_empty() {
                return Err(Problem::Bad("a field of a ROW has an empty name".into()));
            }
            if fields.iter().any(|f| f.name == name) {
                return Err(Problem::Bad(format!("a ROW has two fields `{name}`")));
            }
            let item = self.item()?;
            let description = match self.kind() {
                Some(Kind::Quoted(text)) => {
                    self.at += 1;
                    Some(text.replace("''", "'"))
                }
                _ => None,
            };
            fields.push(Field { id: 0, name, data_type: item.data_type, nullable: item.nullable, description });
            if !self.sign(',') {
                return Ok(fields);
            }
        }
    }

    /// `(1, 2)`; none when there is no bracket.
    fn numbers(&mut self) -> Result<Option<Vec<u32>>, Problem> {
        if !self.sign('(') {
            return Ok(None);
        }
        let mut numbers = Vec::new();
        loop {
            let number = match self.kind() {
                Some(Kind::Word(word)) => word.parse().ok(),
                None => return Err(Problem::Bad("the bracket is not closed".into())),
                Some(_) => None,
            };
            numbers.push(number.ok_or_else(|| Problem::Bad("whole numbers go between the brackets".into()))?);
            self.at += 1;
            if self.sign(')') {
                return Ok(Some(numbers));
            }
            if !self.sign(',') {
                return Err(match self.kind() {
                    None => Problem::Bad("the bracket is not closed".into()),
                    Some(_) => Problem::Bad("whole numbers go between the brackets".into()),
                });
            }
        }
    }

    fn kind(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at).map(|t| t.kind)
    }
    fn sign(&mut self, sign: char) -> bool {
        let is = self.kind() == Some(Kind::Sign(sign));
        self.at += usize::from(is);
        is
    }
    fn words(&mut self, words: &[&str]) -> bool {
        let here = self.tokens.get(self.at..self.at + words.len()).unwrap_or_default();
        let same = here.len() == words.len()
            && here.iter().zip(words).all(|(t, w)| matches!(t.kind, Kind::Word(word) if word.eq_ignore_ascii_case(w)));
        if same {
            self.at += words.len();
        }
        same
    }
    /// The text from token `from` to before the next sign that ends a type.
    fn unknown(&self, from: usize) -> Problem {
        if self.depth == 0 {
            return Problem::Unknown(self.text.trim().to_owned());
        }
        let ends = |t: &&Token<'_>| matches!(t.kind, Kind::Sign(',' | '>'));
        let start = self.tokens.get(from).map_or(self.text.len(), |t| t.start);
        let end = self.tokens.iter().skip(from).take_while(|t| !ends(t)).last().map_or(start, |t| t.end);
        Problem::Unknown(self.text[start..end].to_owned())
    }
}

fn example(head: &str) -> &'static str {
    match head {
        "ARRAY" => "ARRAY<INT>",
        "MAP" => "MAP<STRING, INT>",
        "MULTISET" => "MULTISET<STRING>",
        _ => "ROW<id INT, name STRING>",
    }
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, Problem> {
    let mut tokens = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((start, c)) = rest.next() {
        let kind = match c {
            c if c.is_whitespace() => continue,
            '`' | '\'' => {
                // A doubled quote stands for one.
                let end = loop {
                    match rest.next() {
                        Some((_, q)) if q == c && rest.peek().is_some_and(|(_, n)| *n == c) => drop(rest.next()),
                        Some((end, q)) if q == c => break end,
                        Some(_) => {}
                        None => return Err(Problem::Bad(format!("{c} is not closed"))),
                    }
                };
                let inside = &text[start + 1..end];
                tokens.push(Token { kind: if c == '`' { Kind::Name(inside) } else { Kind::Quoted(inside) }, start, end: end + 1 });
                continue;
            }
            c if c.is_alphanumeric() || c == '_' => {
                let mut end = start + c.len_utf8();
                while let Some((at, n)) = rest.next_if(|(_, n)| n.is_alphanumeric() || *n == '_') {
                    end = at + n.len_utf8();
                }
                tokens.push(Token { kind: Kind::Word(&text[start..end]), start, end });
                continue;
            }
            sign => Kind::Sign(sign),
        };
        tokens.push(Token { kind, start, end: start + c.len_utf8() });
    }
    Ok(tokens)
}

fn decimal(numbers: &[u32]) -> Result<DataType, Problem> {
    let (precision, scale) = match numbers {
        [] => (10, 0),
        [p] => (*p, 0),
        [p, s] => (*p, *s),
        _ => return Err(Problem::Bad("it takes a precision and a scale".into())),
    };
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(p @ 1..=38), Ok(s)) if s <= p => Ok(DataType::Decimal { precision: p, scale: s }),
        _ => Err(Problem::Bad("the precision is 1 to 38 and the scale 0 to the precision".into())),
    }
}
