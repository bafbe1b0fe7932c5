//! The Parquet schema of a table's files: as Java Paimon makes it, and the same without ids for Delta.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::Result;
use parquet::schema::types::{PrimitiveTypeBuilder, Type, TypePtr};

use crate::datafile::FileShape;
use crate::schema::{DataType, ELEMENT, Field, KEY_VALUE, Schema};

/// Ids of what has no field id in the table begin here, those of map keys going down.
const INNER_IDS: i32 = i32::MAX / 4;
/// So many of them for each field.
const IDS_PER_FIELD: i32 = 1 << 10;

/// The root of the Parquet schema.
pub(super) fn root(schema: &Schema, shape: FileShape) -> Result<TypePtr> {
    let (name, ids) = match shape {
        FileShape::Paimon => ("paimon_schema", true),
        FileShape::Delta => ("schema", false),
    };
    Ok(Arc::new(Type::group_type_builder(name).with_fields(columns(&schema.fields, ids)?).build()?))
}

fn columns(fields: &[Field], ids: bool) -> Result<Vec<TypePtr>> {
    fields.iter().map(|f| node(&Node { name: &f.name, id: f.id, field: f.id, depth: 0, ids }, &f.data_type, f.nullable)).collect()
}

/// Where a type lies: its name and id in Parquet, the field of the table that it is part of, and how deep in it.
struct Node<'a> {
    name: &'a str,
    id: i32,
    field: i32,
    depth: i32,
    /// Are ids written?
    ids: bool,
}

impl Node<'_> {
    fn id(&self) -> Option<i32> {
        self.ids.then_some(self.id)
    }
    fn inner<'a>(&self, name: &'a str) -> Node<'a> {
        let depth = self.depth + 1;
        Node {
            name,
            id: INNER_IDS.wrapping_add(self.field.wrapping_mul(IDS_PER_FIELD)).wrapping_add(depth),
            field: self.field,
            depth,
            ids: self.ids,
        }
    }
    fn key<'a>(&self, name: &'a str) -> Node<'a> {
        let depth = self.depth + 1;
        Node {
            name,
            id: INNER_IDS.wrapping_sub(self.field.wrapping_mul(IDS_PER_FIELD)).wrapping_sub(depth),
            field: self.field,
            depth,
            ids: self.ids,
        }
    }
    fn primitive(&self, physical: Physical, nullable: bool) -> PrimitiveTypeBuilder<'_> {
        Type::primitive_type_builder(self.name, physical).with_repetition(repetition(nullable)).with_id(self.id())
    }
    /// A group with one repeated group inside.
    fn repeated(&self, kind: LogicalType, nullable: bool, inner: &str, fields: Vec<TypePtr>) -> Result<TypePtr> {
        let repeated = Type::group_type_builder(inner).with_repetition(Repetition::REPEATED).with_fields(fields).build()?;
        let group = Type::group_type_builder(self.name).with_repetition(repetition(nullable)).with_id(self.id());
        Ok(Arc::new(group.with_logical_type(Some(kind)).with_fields(vec![Arc::new(repeated)]).build()?))
    }
}

fn repetition(nullable: bool) -> Repetition {
    if nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED }
}

fn node(at: &Node<'_>, data_type: &DataType, nullable: bool) -> Result<TypePtr> {
    let plain = |physical| at.primitive(physical, nullable);
    let logical = |physical, logical| at.primitive(physical, nullable).with_logical_type(Some(logical));
    let [key_value, key, value] = KEY_VALUE;
    let built = match data_type {
        DataType::Boolean => plain(Physical::BOOLEAN),
        DataType::TinyInt => logical(Physical::INT32, LogicalType::integer(8, true)),
        DataType::SmallInt => logical(Physical::INT32, LogicalType::integer(16, true)),
        DataType::Int => plain(Physical::INT32),
        DataType::BigInt => plain(Physical::INT64),
        DataType::Float => plain(Physical::FLOAT),
        DataType::Double => plain(Physical::DOUBLE),
        DataType::Decimal { precision, scale } => {
            let (p, s) = (i32::from(*precision), i32::from(*scale));
            let physical = match precision {
                ..=9 => Physical::INT32,
                ..=18 => Physical::INT64,
                _ => Physical::FIXED_LEN_BYTE_ARRAY,
            };
            let length = if *precision > 18 { bytes_of(*precision) } else { -1 };
            logical(physical, LogicalType::decimal(s, p)).with_length(length).with_precision(p).with_scale(s)
        }
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => logical(Physical::BYTE_ARRAY, LogicalType::String),
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => plain(Physical::BYTE_ARRAY),
        DataType::Date => logical(Physical::INT32, LogicalType::Date),
        // A time of day has no zone; that it is said to be in UTC is Java's.
        DataType::Time(_) => logical(Physical::INT32, LogicalType::time(true, TimeUnit::MILLIS)),
        // Java knows nanoseconds in this old form only: it takes others for microseconds, or refuses the file.
        DataType::Timestamp(7..) | DataType::TimestampLtz(7..) => plain(Physical::INT96),
        DataType::Timestamp(p) => logical(Physical::INT64, LogicalType::timestamp(false, unit(*p))),
        DataType::TimestampLtz(p) => logical(Physical::INT64, LogicalType::timestamp(true, unit(*p))),
        DataType::Array(item) => {
            let element = node(&at.inner(ELEMENT), &item.data_type, item.nullable)?;
            return at.repeated(LogicalType::List, nullable, "list", vec![element]);
        }
        DataType::Map(k, v) => {
            let fields = vec![node(&at.key(key), &k.data_type, false)?, node(&at.inner(value), &v.data_type, v.nullable)?];
            return at.repeated(LogicalType::Map, nullable, key_value, fields);
        }
        DataType::Multiset(k) => {
            let fields = vec![node(&at.key(key), &k.data_type, false)?, node(&at.inner(value), &DataType::Int, false)?];
            return at.repeated(LogicalType::Map, nullable, key_value, fields);
        }
        DataType::Row(fields) => {
            let group = Type::group_type_builder(at.name).with_repetition(repetition(nullable)).with_id(at.id());
            return Ok(Arc::new(group.with_fields(columns(fields, at.ids)?).build()?));
        }
    };
    Ok(Arc::new(built.build()?))
}

fn unit(precision: u8) -> TimeUnit {
    if precision <= 3 { TimeUnit::MILLIS } else { TimeUnit::MICROS }
}

/// The fewest bytes that hold every number of so many digits, with its sign.
fn bytes_of(precision: u8) -> i32 {
    let greatest = 10u128.checked_pow(u32::from(precision)).unwrap_or(u128::MAX) - 1;
    // u128::BITS less the leading zeros, and one bit for the sign.
    let bits = u128::BITS - greatest.leading_zeros() + 1;
    i32::try_from(bits.div_ceil(8)).unwrap_or(16)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::datatypes::Schema as ArrowSchema;
    use parquet::arrow::{ArrowSchemaConverter, PARQUET_FIELD_ID_META_KEY};
    use parquet::schema::printer::print_schema;

    use super::*;

    fn schema(columns: &[(&str, &str)]) -> Schema {
        let mut next = 0;
        let fields = columns.iter().map(|(name, text)| Field::parse(0, *name, text).unwrap().numbered(&mut next)).collect();
        Schema { id: 0, fields, partition_by: vec![] }
    }

    #[test]
    fn a_flat_schema_is_what_the_parquet_crate_makes_of_its_arrow_form() {
        let names = ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "CHAR(3)", "STRING", "BYTES", "DATE"];
        let decimals = (1..=38).map(|p| format!("DECIMAL({p}, {})", p / 2));
        let times = (0..=6).flat_map(|p| [format!("TIMESTAMP({p})"), format!("TIMESTAMP({p}) WITH LOCAL TIME ZONE")]);
        let texts: Vec<String> = names.iter().map(ToString::to_string).chain(decimals).chain(times).collect();
        let texts = texts.iter().flat_map(|t| [t.clone(), format!("{t} NOT NULL")]).collect::<Vec<_>>();
        let schema = schema(&texts.iter().map(|t| (t.as_str(), t.as_str())).collect::<Vec<_>>());
        let with_id = |f: &Field| f.to_arrow().with_metadata(HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), f.id.to_string())]));
        let arrow = ArrowSchema::new(schema.fields.iter().map(with_id).collect::<Vec<_>>());
        let expected = ArrowSchemaConverter::new().schema_root("paimon_schema").convert(&arrow).unwrap();
        assert_eq!(root(&schema, FileShape::Paimon).unwrap(), expected.root_schema_ptr());
    }

    /// Flat columns as files of Java Paimon 1.4.2 have them; nested ones by the rules that were seen in such files.
    #[test]
    fn nested_types_lie_as_java_writes_them() {
        let schema = schema(&[
            ("id", "INT NOT NULL"),
            ("a", "ARRAY<INT NOT NULL>"),
            ("m", "MAP<STRING, ARRAY<TIME>> NOT NULL"),
            ("s", "MULTISET<STRING>"),
            ("r", "ROW<x INT NOT NULL, y ROW<z TIMESTAMP(9)>>"),
            ("t", "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        ]);
        let mut text = Vec::new();
        print_schema(&mut text, &root(&schema, FileShape::Paimon).unwrap());
        let expected = "\
message paimon_schema {
  REQUIRED INT32 id [0];
  OPTIONAL group a [1] (LIST) {
    REPEATED group list {
      REQUIRED INT32 element [536871936];
    }
  }
  REQUIRED group m [2] (MAP) {
    REPEATED group key_value {
      REQUIRED BYTE_ARRAY key [536868862] (STRING);
      OPTIONAL group value [536872960] (LIST) {
        REPEATED group list {
          OPTIONAL INT32 element [536872961] (TIME(MILLIS,true));
        }
      }
    }
  }
  OPTIONAL group s [3] (MAP) {
    REPEATED group key_value {
      REQUIRED BYTE_ARRAY key [536867838] (STRING);
      REQUIRED INT32 value [536873984];
    }
  }
  OPTIONAL group r [4] {
    REQUIRED INT32 x [5];
    OPTIONAL group y [6] {
      OPTIONAL INT96 z [7];
    }
  }
  OPTIONAL INT96 t [8];
}
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
