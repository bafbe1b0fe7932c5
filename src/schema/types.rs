//! [`DataType`]: what a column holds, its SQL text and its Arrow form.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes as arrow_types;

use super::Field;
use super::parse::Parser;
use crate::error::{Error, Result};

/// The type of a column, without its nullability.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// `BOOLEAN`
    Boolean,
    /// `TINYINT`, 8 bits, signed
    TinyInt,
    /// `SMALLINT`, 16 bits, signed
    SmallInt,
    /// `INT`, 32 bits, signed
    Int,
    /// `BIGINT`, 64 bits, signed
    BigInt,
    /// `FLOAT`, IEEE 754, 32 bits
    Float,
    /// `DOUBLE`, IEEE 754, 64 bits
    Double,
    /// `DECIMAL(precision, scale)`, precision 1..=38, scale 0..=precision
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `CHAR(n)`, n code points
    Char(u32),
    /// `VARCHAR(n)`, at most n code points
    VarChar(u32),
    /// `STRING`
    String,
    /// `BINARY(n)`, n bytes
    Binary(u32),
    /// `VARBINARY(n)`, at most n bytes
    VarBinary(u32),
    /// `BYTES`
    Bytes,
    /// `DATE`, days since 1970-01-01
    Date,
    /// `TIME(p)`: a time of day, p 0..=9; kept in milliseconds whatever p says, as Paimon does
    Time(u8),
    /// `TIMESTAMP(p)`: a wall clock without a zone, p 0..=9
    Timestamp(u8),
    /// `TIMESTAMP(p) WITH LOCAL TIME ZONE`: an instant, p 0..=9
    TimestampLtz(u8),
    /// `ARRAY<T>`
    Array(Box<Item>),
    /// `MAP<K, V>`; a key is never null, whatever its type says
    Map(Box<Item>, Box<Item>),
    /// `MULTISET<T>`: values, each with how often it is in
    Multiset(Box<Item>),
    /// `ROW<name T, ...>`
    Row(Vec<Field>),
}

/// A type with its nullability: what arrays, maps and multisets are made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    /// The type.
    pub data_type: DataType,
    /// May it be null?
    pub nullable: bool,
}

impl Item {
    /// The type with its nullability, as [`DataType::parse`] reads it.
    pub fn type_text(&self) -> String {
        with_nullability(&self.data_type, self.nullable)
    }
}

pub(super) fn with_nullability(data_type: &DataType, nullable: bool) -> String {
    if nullable { data_type.to_string() } else { format!("{data_type} NOT NULL") }
}

/// Name of the one field inside of an array's Arrow list; Parquet calls it so too.
pub(crate) const ELEMENT: &str = "element";
/// Name of the struct inside of a map, and of its two fields.
pub(crate) const KEY_VALUE: [&str; 3] = ["key_value", "key", "value"];

impl DataType {
    /// The Arrow type that holds this type. Strings are `Utf8`, bytes `Binary`, a time of day `Time32(Millisecond)`, an instant has the zone
    /// `UTC`. The unit of a timestamp is milliseconds up to precision 3, microseconds up to 6, nanoseconds above. A multiset is a map to `Int32`.
    pub fn to_arrow(&self) -> arrow_types::DataType {
        use arrow_types::{DataType as A, TimeUnit};
        let unit = |p: &u8| match p {
            0..=3 => TimeUnit::Millisecond,
            4..=6 => TimeUnit::Microsecond,
            _ => TimeUnit::Nanosecond,
        };
        match self {
            DataType::Boolean => A::Boolean,
            DataType::TinyInt => A::Int8,
            DataType::SmallInt => A::Int16,
            DataType::Int => A::Int32,
            DataType::BigInt => A::Int64,
            DataType::Float => A::Float32,
            DataType::Double => A::Float64,
            #[expect(clippy::cast_possible_wrap, reason = "scale is at most 38")]
            DataType::Decimal { precision, scale } => A::Decimal128(*precision, *scale as i8),
            DataType::Char(_) | DataType::VarChar(_) | DataType::String => A::Utf8,
            DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => A::Binary,
            DataType::Date => A::Date32,
            DataType::Time(_) => A::Time32(TimeUnit::Millisecond),
            DataType::Timestamp(p) => A::Timestamp(unit(p), None),
            DataType::TimestampLtz(p) => A::Timestamp(unit(p), Some("UTC".into())),
            DataType::Array(item) => A::List(Arc::new(arrow_types::Field::new(ELEMENT, item.data_type.to_arrow(), item.nullable))),
            DataType::Map(key, value) => map_of(key, value.data_type.to_arrow(), value.nullable),
            DataType::Multiset(item) => map_of(item, A::Int32, false),
            DataType::Row(fields) => A::Struct(fields.iter().map(Field::to_arrow).collect()),
        }
    }

    /// Reads `BIGINT NOT NULL`, `ARRAY<INT>`, `` ROW<id INT NOT NULL, `a b` STRING> `` and the like: the type and whether it may be null. Case
    /// and blanks do not matter; `TIMESTAMP_LTZ(p)` is understood. Fields of a ROW get the id 0; a table's schema numbers them. A type that
    /// is not supported is `Invalid` by its name.
    pub fn parse(text: &str) -> Result<(DataType, bool)> {
        Parser::read(text).map_err(|problem| {
            let text = text.trim();
            Error::invalid(match problem {
                Problem::Unknown(part) if part == text => format!("the type `{text}` is not supported"),
                Problem::Unknown(part) => format!("the type `{text}` is not supported: `{part}` is not"),
                Problem::Bad(why) => format!("the type `{text}` is not valid: {why}"),
            })
            .hint(SUPPORTED)
        })
    }

    /// May a table be partitioned by a column of this type? Only types whose directory names engines spell alike.
    pub fn can_partition(&self) -> bool {
        self.unfit_to_partition().is_none()
    }

    /// Why a table cannot be partitioned by a column of this type; `None`: it can.
    pub(crate) fn unfit_to_partition(&self) -> Option<&'static str> {
        match self {
            DataType::Float | DataType::Double => {
                Some("Java's versions and pypaimon spell its values differently, so not every reader would find them")
            }
            DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => {
                Some("Java names their directories by where the value lies in memory, and finds them no more")
            }
            nested if nested.is_nested() => Some("its values have parts"),
            _ => None,
        }
    }

    /// Is it made of other types?
    pub fn is_nested(&self) -> bool {
        matches!(self, DataType::Array(_) | DataType::Map(..) | DataType::Multiset(_) | DataType::Row(_))
    }

    /// The same type, whatever the ids and comments of the fields of its ROWs are? The nullability of keys, which are never null, does not
    /// count either.
    pub fn is_same(&self, other: &DataType) -> bool {
        let item = |a: &Item, b: &Item| a.nullable == b.nullable && a.data_type.is_same(&b.data_type);
        match (self, other) {
            (DataType::Array(a), DataType::Array(b)) => item(a, b),
            (DataType::Multiset(a), DataType::Multiset(b)) => a.data_type.is_same(&b.data_type),
            (DataType::Map(ak, av), DataType::Map(bk, bv)) => ak.data_type.is_same(&bk.data_type) && item(av, bv),
            (DataType::Row(a), DataType::Row(b)) => {
                let field = |(a, b): (&Field, &Field)| a.name == b.name && a.nullable == b.nullable && a.data_type.is_same(&b.data_type);
                a.len() == b.len() && a.iter().zip(b).all(field)
            }
            (a, b) => a == b,
        }
    }

    /// This type with its ROW fields numbered, `next` being the id of the next one: an outer field before its inner ones, one field after
    /// the other, as Paimon does.
    pub(crate) fn numbered(&self, next: &mut i32) -> DataType {
        let item = |i: &Item, next: &mut i32| Box::new(Item { data_type: i.data_type.numbered(next), nullable: i.nullable });
        match self {
            DataType::Array(element) => DataType::Array(item(element, next)),
            DataType::Multiset(element) => DataType::Multiset(item(element, next)),
            DataType::Map(key, value) => {
                let key = item(key, next);
                DataType::Map(key, item(value, next))
            }
            DataType::Row(fields) => DataType::Row(fields.iter().map(|f| f.numbered(next)).collect()),
            other => other.clone(),
        }
    }
}

/// How many digits a second has in this unit.
pub(crate) fn unit_digits(unit: arrow_types::TimeUnit) -> u8 {
    match unit {
        arrow_types::TimeUnit::Second => 0,
        arrow_types::TimeUnit::Millisecond => 3,
        arrow_types::TimeUnit::Microsecond => 6,
        arrow_types::TimeUnit::Nanosecond => 9,
    }
}

fn map_of(key: &Item, value: arrow_types::DataType, nullable: bool) -> arrow_types::DataType {
    let [entries, k, v] = KEY_VALUE;
    let fields = [arrow_types::Field::new(k, key.data_type.to_arrow(), false), arrow_types::Field::new(v, value, nullable)];
    let entries = arrow_types::Field::new(entries, arrow_types::DataType::Struct(fields.into_iter().collect()), false);
    arrow_types::DataType::Map(Arc::new(entries), false)
}

/// What is wrong with the text of a type.
#[derive(Debug)]
pub(super) enum Problem {
    /// This part is no type that is known.
    Unknown(String),
    Bad(String),
}

const SUPPORTED: &str = "supported are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR(n), VARCHAR(n), STRING, \
    BINARY(n), VARBINARY(n), BYTES, DATE, TIME(p), TIMESTAMP(p), TIMESTAMP(p) WITH LOCAL TIME ZONE, ARRAY<T>, MAP<K, V>, MULTISET<T> and \
    ROW<name T, ...>, each with or without NOT NULL";

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataType::Boolean => f.write_str("BOOLEAN"),
            DataType::TinyInt => f.write_str("TINYINT"),
            DataType::SmallInt => f.write_str("SMALLINT"),
            DataType::Int => f.write_str("INT"),
            DataType::BigInt => f.write_str("BIGINT"),
            DataType::Float => f.write_str("FLOAT"),
            DataType::Double => f.write_str("DOUBLE"),
            DataType::Decimal { precision, scale } => write!(f, "DECIMAL({precision}, {scale})"),
            DataType::Char(n) => write!(f, "CHAR({n})"),
            DataType::VarChar(n) => write!(f, "VARCHAR({n})"),
            DataType::String => f.write_str("STRING"),
            DataType::Binary(n) => write!(f, "BINARY({n})"),
            DataType::VarBinary(n) => write!(f, "VARBINARY({n})"),
            DataType::Bytes => f.write_str("BYTES"),
            DataType::Date => f.write_str("DATE"),
            DataType::Time(p) => write!(f, "TIME({p})"),
            DataType::Timestamp(p) => write!(f, "TIMESTAMP({p})"),
            DataType::TimestampLtz(p) => write!(f, "TIMESTAMP({p}) WITH LOCAL TIME ZONE"),
            DataType::Array(item) => write!(f, "ARRAY<{}>", item.type_text()),
            DataType::Map(key, value) => write!(f, "MAP<{}, {}>", key.type_text(), value.type_text()),
            DataType::Multiset(item) => write!(f, "MULTISET<{}>", item.type_text()),
            DataType::Row(fields) => {
                f.write_str("ROW<")?;
                for (i, field) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{} {}", name_text(&field.name), field.type_text())?;
                    if let Some(text) = &field.description {
                        write!(f, " '{}'", text.replace('\'', "''"))?;
                    }
                }
                f.write_str(">")
            }
        }
    }
}

/// A field's name as the text of a ROW has it: in backticks unless it is a plain word.
fn name_text(name: &str) -> String {
    let plain =
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}
