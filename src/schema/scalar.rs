//! One value of a column, and the text form of bytes.

use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// BINARY, VARBINARY, BYTES; hexadecimal in JSON
    Bytes(#[serde(with = "hex_bytes")] Vec<u8>),
    /// DATE, days since 1970-01-01
    Date(i32),
    /// TIMESTAMP and its LOCAL TIME ZONE form up to precision 6, microseconds since 1970-01-01 00:00
    Timestamp(i64),
    /// TIMESTAMP and its LOCAL TIME ZONE form from precision 7, nanoseconds since 1970-01-01 00:00
    TimestampNanos(i64),
    /// TIME, milliseconds since midnight
    Time(i32),
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
