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

/// Column names that Paimon and Delta keep for themselves.
const SYSTEM_NAMES: [&str; 7] = ["_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID", "_change_type", "_commit_version"];

impl Schema {
    /// Checks that a new table may have this schema: there are columns, their names are unique, not empty and not reserved, every partition
    /// column exists once, has a type that can partition, and at least one column is no partition column. `Invalid` names what is wrong.
    pub fn check_new(&self) -> Result<()> {
        if self.fields.is_empty() {
            return Err(Error::invalid("the table has no columns").hint("name at least one under `columns`"));
        }
        let mut seen: std::collections::HashMap<String, &str> = std::collections::HashMap::new();
        for field in &self.fields {
            field.check_name()?;
            // Engines that fold case (Hive, Spark, Delta) cannot tell `ID` from `id`.
            if let Some(other) = seen.insert(field.name.to_lowercase(), &field.name) {
                let what = format!("the columns `{other}` and `{}` have the same name", field.name);
                return Err(Error::invalid(what).hint("rename one; upper and lower case do not make a difference"));
            }
        }
        for (i, name) in self.partition_by.iter().enumerate() {
            let Some(field) = self.field(name) else {
                return Err(Error::invalid(format!("the partition column `{name}` is not a column")).hint("add it under `columns`"));
            };
            if self.partition_by[..i].contains(name) {
                return Err(Error::invalid(format!("the partition column `{name}` is named twice")).hint("name it once"));
            }
            field.check_partition()?;
        }
        if self.partition_by.len() == self.fields.len() {
            return Err(Error::invalid("every column is a partition column").hint("leave at least one column out of `partition_by`"));
        }
        Ok(())
    }
}

impl Field {
    /// A column from its name and the text of its type, such as `BIGINT NOT NULL`. `Invalid` names the column.
    pub fn parse(id: i32, name: impl Into<String>, type_text: &str) -> Result<Field> {
        let name = name.into();
        let (data_type, nullable) = DataType::parse(type_text).map_err(|e| e.at(format!("column `{name}`")))?;
        Ok(Field { id, name, data_type, nullable, description: None })
    }
    /// The type with its nullability, as [`DataType::parse`] reads it.
    pub fn type_text(&self) -> String {
        if self.nullable { self.data_type.to_string() } else { format!("{} NOT NULL", self.data_type) }
    }
    /// Checks that a column may have this name. `Invalid` otherwise.
    pub fn check_name(&self) -> Result<()> {
        if self.name.trim().is_empty() {
            return Err(Error::invalid("a column has an empty name").hint("give it a name"));
        }
        if SYSTEM_NAMES.iter().any(|s| s.eq_ignore_ascii_case(&self.name)) || self.name.starts_with("_KEY_") {
            let what = format!("the column name `{}` belongs to the table format", self.name);
            return Err(Error::invalid(what).hint("rename the column; with `from:` its field in the record may keep the name"));
        }
        Ok(())
    }
    /// Checks that a table may be partitioned by this column. `Invalid` otherwise.
    pub fn check_partition(&self) -> Result<()> {
        if self.data_type.can_partition() {
            return Ok(());
        }
        let what =
            format!("the column `{}` of type {} cannot partition a table: engines spell its values differently", self.name, self.data_type);
        Err(Error::invalid(what).hint("partition by a BOOLEAN, an integer, CHAR, VARCHAR, STRING or DATE; `date(ts)` makes a DATE"))
    }
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
        let upper = text.to_ascii_uppercase();
        let words: Vec<&str> = upper.split_whitespace().collect();
        let joined = words.join(" ");
        let (body, nullable) = match joined.strip_suffix("NOT NULL") {
            Some(rest) if rest.ends_with([' ', ')']) => (rest.trim_end(), false),
            _ => (joined.strip_suffix(" NULL").unwrap_or(&joined), true),
        };
        let data_type = Self::parse_body(body).map_err(|problem| {
            Error::invalid(match problem {
                Problem::Unknown => format!("the type `{}` is not supported", text.trim()),
                Problem::Bad(why) => format!("the type `{}` is not valid: {why}", text.trim()),
            })
            .hint(SUPPORTED)
        })?;
        Ok((data_type, nullable))
    }

    fn parse_body(body: &str) -> Result<DataType, Problem> {
        let (head, rest) = body.split_once('(').map_or((body, None), |(h, r)| (h.trim(), Some(r)));
        let (numbers, tail) = match rest {
            None => (Vec::new(), ""),
            Some(rest) => {
                let (inner, tail) = rest.split_once(')').ok_or(Problem::Bad("the bracket is not closed".into()))?;
                let parsed: Result<Vec<u32>, _> = inner.split(',').map(|n| n.trim().parse::<u32>()).collect();
                (parsed.map_err(|_| Problem::Bad("whole numbers go between the brackets".into()))?, tail.trim())
            }
        };
        // `TIMESTAMP WITH LOCAL TIME ZONE` has its words in the head when there is no bracket.
        let (head, tail) = match head.split_once(' ') {
            Some((first, words)) if tail.is_empty() && rest.is_none() => (first, words),
            _ => (head, tail),
        };
        let plain = |t: DataType| match (numbers.is_empty(), tail) {
            (true, "") => Ok(t),
            (false, "") => Err(Problem::Bad("it takes no number".into())),
            _ => Err(Problem::Unknown),
        };
        let length = || match (numbers.as_slice(), tail) {
            ([], "") => Ok(1),
            ([n], "") if *n >= 1 && *n <= i32::MAX as u32 => Ok(*n),
            (_, "") => Err(Problem::Bad("its length is one number from 1".into())),
            _ => Err(Problem::Unknown),
        };
        match head {
            "BOOLEAN" | "BOOL" => plain(DataType::Boolean),
            "TINYINT" => plain(DataType::TinyInt),
            "SMALLINT" => plain(DataType::SmallInt),
            "INT" | "INTEGER" => plain(DataType::Int),
            "BIGINT" => plain(DataType::BigInt),
            "FLOAT" => plain(DataType::Float),
            "DOUBLE" => plain(DataType::Double),
            "STRING" => plain(DataType::String),
            "BYTES" => plain(DataType::Bytes),
            "DATE" => plain(DataType::Date),
            "CHAR" => length().map(DataType::Char),
            // Flink and Paimon print STRING for the longest VARCHAR; both texts mean the same type.
            "VARCHAR" => length().map(|n| if n == i32::MAX as u32 { DataType::String } else { DataType::VarChar(n) }),
            "DECIMAL" | "DEC" | "NUMERIC" if tail.is_empty() => decimal(&numbers),
            "TIMESTAMP" if tail.is_empty() || tail == "WITHOUT TIME ZONE" => precision(&numbers).map(DataType::Timestamp),
            "TIMESTAMP" if tail == "WITH LOCAL TIME ZONE" => precision(&numbers).map(DataType::TimestampLtz),
            "TIMESTAMP_LTZ" if tail.is_empty() => precision(&numbers).map(DataType::TimestampLtz),
            _ => Err(Problem::Unknown),
        }
    }

    /// May a table be partitioned by a column of this type? Only types whose directory names all engines spell alike.
    pub fn can_partition(&self) -> bool {
        use DataType::*;
        matches!(self, Boolean | TinyInt | SmallInt | Int | BigInt | Char(_) | VarChar(_) | String | Date)
    }
}

enum Problem {
    Unknown,
    Bad(String),
}

const SUPPORTED: &str = "supported are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), CHAR(n), VARCHAR(n), STRING, BYTES, \
    DATE, TIMESTAMP(3), TIMESTAMP(6) and TIMESTAMP(3 or 6) WITH LOCAL TIME ZONE, each with or without NOT NULL";

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

fn precision(numbers: &[u32]) -> Result<u8, Problem> {
    match numbers {
        [] | [6] => Ok(6),
        [3] => Ok(3),
        _ => Err(Problem::Unknown),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn every_type() -> Vec<DataType> {
        use DataType::*;
        let decimals = (1..=38u8).flat_map(|p| (0..=p).map(move |s| Decimal { precision: p, scale: s }));
        [Boolean, TinyInt, SmallInt, Int, BigInt, Float, Double, Char(1), Char(7), VarChar(1), VarChar(4000), String, Bytes, Date]
            .into_iter()
            .chain([Timestamp(3), Timestamp(6), TimestampLtz(3), TimestampLtz(6)])
            .chain(decimals)
            .collect()
    }

    #[test]
    fn every_type_survives_its_own_text() {
        for t in every_type() {
            for nullable in [true, false] {
                let field = Field { id: 0, name: "c".into(), data_type: t.clone(), nullable, description: None };
                assert_eq!(DataType::parse(&field.type_text()).unwrap(), (t.clone(), nullable), "{}", field.type_text());
            }
        }
    }

    #[test]
    fn case_blanks_and_aliases_do_not_matter() {
        let cases = [
            ("  bigint   not  null ", DataType::BigInt, false),
            ("Integer", DataType::Int, true),
            ("int null", DataType::Int, true),
            ("DECIMAL", DataType::Decimal { precision: 10, scale: 0 }, true),
            ("decimal( 12 )", DataType::Decimal { precision: 12, scale: 0 }, true),
            ("numeric(12,2)NOT NULL", DataType::Decimal { precision: 12, scale: 2 }, false),
            ("timestamp", DataType::Timestamp(6), true),
            ("TIMESTAMP (3)", DataType::Timestamp(3), true),
            ("TIMESTAMP_LTZ(3) NOT NULL", DataType::TimestampLtz(3), false),
            ("timestamp_ltz", DataType::TimestampLtz(6), true),
            ("TIMESTAMP WITH LOCAL TIME ZONE", DataType::TimestampLtz(6), true),
            ("TIMESTAMP(3)  with local time zone NOT NULL", DataType::TimestampLtz(3), false),
            ("TIMESTAMP(6) WITHOUT TIME ZONE", DataType::Timestamp(6), true),
            ("VARCHAR(2147483647)", DataType::String, true),
            ("CHAR", DataType::Char(1), true),
        ];
        for (text, t, nullable) in cases {
            assert_eq!(DataType::parse(text).unwrap(), (t, nullable), "{text}");
        }
    }

    #[test]
    fn types_that_are_not_supported_are_refused_by_name() {
        let bad = [
            "BINARY(3)",
            "VARBINARY(9)",
            "TIME",
            "TIME(3)",
            "ARRAY<INT>",
            "MAP<INT, INT>",
            "ROW<a INT>",
            "VARIANT",
            "BLOB",
            "TIMESTAMP(0)",
            "TIMESTAMP(1)",
            "TIMESTAMP(2)",
            "TIMESTAMP(4)",
            "TIMESTAMP(5)",
            "TIMESTAMP(7)",
            "TIMESTAMP(9)",
            "TIMESTAMP_LTZ(9)",
            "TIMESTAMP(3) WITH TIME ZONE",
            "TEXT",
            "",
            "NOT NULL",
            "INTNOT NULL",
            "GEOMETRY",
        ];
        for text in bad {
            let e = DataType::parse(text).unwrap_err();
            assert_eq!(e.kind(), crate::Kind::Invalid);
            assert!(e.message().contains(&format!("`{text}` is not supported")), "{e}");
        }
        for text in
            ["INT(3)", "DECIMAL(39)", "DECIMAL(5, 6)", "DECIMAL(0)", "CHAR(0)", "DECIMAL(1,2,3)", "DECIMAL(10", "VARCHAR(-1)", "CHAR(1,2)"]
        {
            let e = DataType::parse(text).unwrap_err();
            assert!(e.message().contains(&format!("`{text}` is not valid")), "{e}");
        }
    }

    fn schema(columns: &[(&str, &str)], partition_by: &[&str]) -> Schema {
        let fields = columns.iter().zip(0..).map(|((n, t), id)| Field::parse(id, *n, t).unwrap()).collect();
        Schema { id: 0, fields, partition_by: partition_by.iter().map(|s| (*s).to_owned()).collect() }
    }

    #[test]
    fn a_new_table_needs_sound_names_and_partition_columns() {
        assert!(schema(&[("id", "BIGINT"), ("dt", "STRING")], &["dt"]).check_new().is_ok());
        for (columns, partition_by, what) in [
            (&[][..], &[][..], "no columns"),
            (&[("", "INT")], &[], "empty name"),
            (&[("a", "INT"), ("A", "INT")], &[], "same name"),
            (&[("_KEY_a", "INT")], &[], "`_KEY_a`"),
            (&[("RowKind", "INT")], &[], "`RowKind`"),
            (&[("a", "INT")], &["b"], "`b` is not a column"),
            (&[("a", "INT"), ("b", "INT")], &["b", "b"], "twice"),
            (&[("a", "INT"), ("b", "DOUBLE")], &["b"], "`b` of type DOUBLE"),
            (&[("a", "INT")], &["a"], "every column"),
        ] {
            let e = schema(columns, partition_by).check_new().unwrap_err();
            assert!(e.message().contains(what), "{e}");
            assert_eq!(e.kind(), crate::Kind::Invalid);
        }
    }
}
