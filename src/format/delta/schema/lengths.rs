//! CHAR(n) and VARCHAR(n): for the format they are plain texts, and the metadata of the column they lie in has the whole type of that column
//! as the catalogs of Hive and Spark spell it: `varchar(10)`, `array<struct<a:char(3),b:int>>`.

use crate::schema::{DataType, Field, Item};

/// The type's text; none when there is no length in it.
pub(super) fn text(data_type: &DataType) -> Option<String> {
    fn has(data_type: &DataType) -> bool {
        match data_type {
            DataType::Char(_) | DataType::VarChar(_) => true,
            DataType::Array(i) => has(&i.data_type),
            DataType::Map(k, v) => has(&k.data_type) || has(&v.data_type),
            DataType::Row(fields) => fields.iter().any(|f| has(&f.data_type)),
            _ => false,
        }
    }
    has(data_type).then(|| {
        let mut out = String::new();
        spell(data_type, &mut out);
        out
    })
}

fn spell(data_type: &DataType, out: &mut String) {
    match data_type {
        DataType::Char(n) => out.push_str(&format!("char({n})")),
        DataType::VarChar(n) => out.push_str(&format!("varchar({n})")),
        DataType::Array(item) => {
            out.push_str("array<");
            spell(&item.data_type, out);
            out.push('>');
        }
        DataType::Map(key, value) => {
            out.push_str("map<");
            spell(&key.data_type, out);
            out.push(',');
            spell(&value.data_type, out);
            out.push('>');
        }
        DataType::Row(fields) => {
            out.push_str("struct<");
            for (i, field) in fields.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { "," });
                out.push_str(&field.name);
                out.push(':');
                spell(&field.data_type, out);
            }
            out.push('>');
        }
        DataType::Decimal { precision, scale } => out.push_str(&format!("decimal({precision},{scale})")),
        other => out.push_str(plain(other)),
    }
}

fn plain(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "boolean",
        DataType::TinyInt => "tinyint",
        DataType::SmallInt => "smallint",
        DataType::Int => "int",
        DataType::BigInt => "bigint",
        DataType::Float => "float",
        DataType::Double => "double",
        DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => "binary",
        DataType::Date => "date",
        DataType::Timestamp(_) => "timestamp_ntz",
        DataType::TimestampLtz(_) => "timestamp",
        _ => "string",
    }
}

/// The type with the lengths that `text` gives to its texts; none when `text` is of another type.
pub(super) fn with(data_type: &DataType, text: &str) -> Option<DataType> {
    let mut rest = text.trim();
    let found = read(data_type, &mut rest)?;
    rest.is_empty().then_some(found)
}

fn read(data_type: &DataType, rest: &mut &str) -> Option<DataType> {
    let item = |i: &Item, rest: &mut &str| Some(Box::new(Item { data_type: read(&i.data_type, rest)?, nullable: i.nullable }));
    Some(match data_type {
        DataType::String => {
            for (name, make) in [("varchar(", DataType::VarChar as fn(u32) -> DataType), ("char(", DataType::Char)] {
                if let Some(after) = rest.strip_prefix(name) {
                    let (n, after) = after.split_once(')')?;
                    *rest = after;
                    return Some(make(n.trim().parse().ok().filter(|n| *n > 0)?));
                }
            }
            skip(rest, "string")?;
            DataType::String
        }
        DataType::Array(element) => {
            skip(rest, "array<")?;
            let element = item(element, rest)?;
            skip(rest, ">")?;
            DataType::Array(element)
        }
        DataType::Map(key, value) => {
            skip(rest, "map<")?;
            let key = item(key, rest)?;
            skip(rest, ",")?;
            let value = item(value, rest)?;
            skip(rest, ">")?;
            DataType::Map(key, value)
        }
        DataType::Row(fields) => {
            skip(rest, "struct<")?;
            let mut found = Vec::new();
            for (i, field) in fields.iter().enumerate() {
                skip(rest, if i == 0 { "" } else { "," })?;
                // Newer versions of Spark quote names that are no plain words.
                let quoted = format!("`{}`", field.name.replace('`', "``"));
                skip(rest, &quoted).or_else(|| skip(rest, &field.name))?;
                skip(rest, ":")?;
                found.push(Field { data_type: read(&field.data_type, rest)?, ..field.clone() });
            }
            skip(rest, ">")?;
            DataType::Row(found)
        }
        other => {
            let mut expected = String::new();
            spell(other, &mut expected);
            skip(rest, &expected)?;
            other.clone()
        }
    })
}

fn skip(rest: &mut &str, text: &str) -> Option<()> {
    *rest = rest.strip_prefix(text)?;
    Some(())
}
