//! The logical schema of a table: field ids, types, nullability; its text form and its Arrow form.
//!
//! Type names are the ones that Paimon and Flink SQL use: `BIGINT NOT NULL`, `DECIMAL(10, 2)`,
//! `TIMESTAMP(3) WITH LOCAL TIME ZONE`.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes as arrow_types;
use serde::{Deserialize, Serialize};

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
    /// `BYTES`
    Bytes,
    /// `DATE`, days since 1970-01-01
    Date,
    /// `TIMESTAMP(p)`: a wall clock without a zone; p is 3 (milliseconds) or 6 (microseconds)
    Timestamp(u8),
    /// `TIMESTAMP(p) WITH LOCAL TIME ZONE`: an instant; p is 3 or 6
    TimestampLtz(u8),
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Unique in the table for ever; never used again after a drop.
    pub id: i32,
    /// The name.
    pub name: String,
    /// The type.
    pub data_type: DataType,
    /// May it be null?
    pub nullable: bool,
    /// A comment, if there is one.
    pub description: Option<String>,
}

/// A table's schema as of one schema id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The id in the table's series of schemas, from 0.
    pub id: u64,
    /// The columns, in order.
    pub fields: Vec<Field>,
    /// Names of the partition columns, in order.
    pub partition_by: Vec<String>,
}

/// One value of one column: partition values and statistics. Serialised in checkpoints, so variants and their names are a format.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Scalar {
    /// BOOLEAN
    Bool(bool),
    /// TINYINT, SMALLINT, INT, BIGINT, by the column's type
    Int(i64),
    /// FLOAT, as its bits, so that NaN and -0.0 survive
    Float(#[serde(with = "bits32")] f32),
    /// DOUBLE, as its bits
    Double(#[serde(with = "bits64")] f64),
    /// DECIMAL, unscaled; text in JSON
    Decimal(#[serde(with = "text128")] i128),
    /// CHAR, VARCHAR, STRING
    String(String),
    /// BYTES, hexadecimal in JSON
    Bytes(#[serde(with = "hex_bytes")] Vec<u8>),
    /// DATE, days since 1970-01-01
    Date(i32),
    /// TIMESTAMP and its LOCAL TIME ZONE form, microseconds since 1970-01-01 00:00
    Timestamp(i64),
}

mod bits32 {
    use serde::{Deserialize, Deserializer, Serializer};
    pub(super) fn serialize<S: Serializer>(v: &f32, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u32(v.to_bits())
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f32, D::Error> {
        u32::deserialize(d).map(f32::from_bits)
    }
}
mod bits64 {
    use serde::{Deserialize, Deserializer, Serializer};
    pub(super) fn serialize<S: Serializer>(v: &f64, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(v.to_bits())
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        u64::deserialize(d).map(f64::from_bits)
    }
}
mod text128 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    pub(super) fn serialize<S: Serializer>(v: &i128, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(v)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<i128, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}
mod hex_bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    pub(super) fn serialize<S: Serializer>(v: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&super::Hex(v))
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        super::unhex(&String::deserialize(d)?).ok_or_else(|| D::Error::custom("not hexadecimal"))
    }
}

/// Shows bytes in lower-case hexadecimal.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// Reads what [`Hex`] shows; `None` for anything else.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).ok()).collect()
}

impl Schema {
    /// The column called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }
    /// Positions of the partition columns in [`Schema::fields`], in partition order.
    pub fn partition_indices(&self) -> Vec<usize> {
        self.partition_by.iter().filter_map(|p| self.fields.iter().position(|f| &f.name == p)).collect()
    }
    /// The Arrow form: one Arrow field for each column, same order, same names, same nullability.
    pub fn to_arrow(&self) -> arrow_types::SchemaRef {
        Arc::new(arrow_types::Schema::new(self.fields.iter().map(Field::to_arrow).collect::<Vec<_>>()))
    }
}

impl Field {
    /// The Arrow form.
    pub fn to_arrow(&self) -> arrow_types::Field {
        arrow_types::Field::new(&self.name, self.data_type.to_arrow(), self.nullable)
    }
}

impl DataType {
    /// The Arrow type that holds this type. Strings are `Utf8`, bytes `Binary`, an instant has the zone `UTC`.
    pub fn to_arrow(&self) -> arrow_types::DataType {
        use arrow_types::{DataType as A, TimeUnit};
        let unit = |p: &u8| if *p <= 3 { TimeUnit::Millisecond } else { TimeUnit::Microsecond };
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
            DataType::Bytes => A::Binary,
            DataType::Date => A::Date32,
            DataType::Timestamp(p) => A::Timestamp(unit(p), None),
            DataType::TimestampLtz(p) => A::Timestamp(unit(p), Some("UTC".into())),
        }
    }

    /// Reads `BIGINT NOT NULL` and the like: the type and whether it may be null. Case and blanks do not matter;
    /// `TIMESTAMP_LTZ(p)` is understood. A type that is not supported is `Invalid` by its name.
    pub fn parse(text: &str) -> Result<(DataType, bool)> {
        let _ = text;
        Err(Error::internal("not written yet"))
    }
}

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
            DataType::Bytes => f.write_str("BYTES"),
            DataType::Date => f.write_str("DATE"),
            DataType::Timestamp(p) => write!(f, "TIMESTAMP({p})"),
            DataType::TimestampLtz(p) => write!(f, "TIMESTAMP({p}) WITH LOCAL TIME ZONE"),
        }
    }
}
