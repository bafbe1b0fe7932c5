//! The schema of a Delta table: `metaData.schemaString`, JSON in a text, and what of it is supported.

mod lengths;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::action::Metadata;
use super::partition;
use crate::error::{Error, Result};
use crate::schema::{DataType, Field, Item, Schema};

/// A table's schema, decoded and found to be supported.
#[derive(Clone, Debug, PartialEq)]
pub struct DeltaSchema {
    /// The columns and partition columns. Field ids are positions, because the format has none; the id is made of the schema's text.
    pub schema: Arc<Schema>,
    /// What is said of each column, by its name.
    pub columns: BTreeMap<String, Map<String, Value>>,
    /// The schema as it stands in the log.
    pub raw: Value,
}

/// Key of a field's metadata: a comment.
const COMMENT: &str = "comment";
/// Key of a column's metadata: its type with the lengths of texts, which the format's own types do not have.
const LENGTHS: &str = "__CHAR_VARCHAR_TYPE_STRING";
/// Key of a field's metadata: texts compare otherwise than by their code points.
const COLLATIONS: &str = "__COLLATIONS";
const DAMAGED: &str = "the log is damaged: restore it";
const LEAVE: &str = "drop the column, or write to a table without it";

impl DeltaSchema {
    /// Reads a table's schema. `Data`: it is none. `Invalid` names the column whose type is not supported.
    pub fn decode(metadata: &Metadata) -> Result<DeltaSchema> {
        let garbled = |e: serde_json::Error| Error::data("`schemaString` is no JSON").because(e).hint(DAMAGED);
        let raw: Value = serde_json::from_str(&metadata.schema_string).map_err(garbled)?;
        if raw.get("type").and_then(Value::as_str) != Some("struct") {
            return Err(Error::data("`schemaString` is no schema").hint(DAMAGED));
        }
        let (mut next, mut columns) = (0, BTreeMap::new());
        let mut fields = Vec::new();
        for (json, field) in list(&raw)?.iter().zip(fields_of(&raw)?) {
            let said = metadata_of(json).cloned().unwrap_or_default();
            let data_type = match said.get(LENGTHS).and_then(Value::as_str) {
                // A text that does not fit the type is one of an earlier type: engines go by the type.
                Some(text) => lengths::with(&field.data_type, text).unwrap_or(field.data_type),
                None => field.data_type,
            };
            columns.insert(field.name.clone(), said);
            fields.push(Field { data_type, ..field }.numbered(&mut next));
        }
        let schema = Schema { id: id_of(metadata)?, fields, partition_by: metadata.partition_columns.clone() };
        for name in &schema.partition_by {
            match schema.field(name) {
                None => return Err(Error::data(format!("the partition column `{name}` is not a column")).hint(DAMAGED)),
                Some(f) if f.data_type.is_nested() => {
                    let what = format!("the partition column `{name}` has the type {}, whose values have parts", f.data_type);
                    return Err(Error::data(what).hint(DAMAGED));
                }
                Some(_) => {}
            }
        }
        Ok(DeltaSchema { schema: Arc::new(schema), columns, raw })
    }

    /// The path of the first field, at any depth, whose metadata has a key that begins with `key`: `a`, `a.b`, `a.element.b`, `m.value.b`.
    pub fn any_metadata(&self, key: &str) -> Option<String> {
        any_metadata(&self.raw, key)
    }
}

/// See [`DeltaSchema::any_metadata`]; of a schema as it stands in the log.
pub fn any_metadata(raw: &Value, key: &str) -> Option<String> {
    search(raw, "", &|said| said.keys().any(|k| k.starts_with(key)))
}

fn search(json: &Value, path: &str, wanted: &dyn Fn(&Map<String, Value>) -> bool) -> Option<String> {
    let within = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    if let Some(fields) = json.get("fields").and_then(Value::as_array) {
        return fields.iter().find_map(|field| {
            let path = within(field.get("name").and_then(Value::as_str).unwrap_or_default());
            if metadata_of(field).is_some_and(wanted) {
                return Some(path);
            }
            field.get("type").and_then(|t| search(t, &path, wanted))
        });
    }
    [("elementType", "element"), ("keyType", "key"), ("valueType", "value")]
        .into_iter()
        .find_map(|(key, name)| search(json.get(key)?, &within(name), wanted))
}

fn metadata_of(field: &Value) -> Option<&Map<String, Value>> {
    field.get("metadata").and_then(Value::as_object)
}

/// 63 bits of a digest of what makes two schemas different.
fn id_of(metadata: &Metadata) -> Result<u64> {
    let by = serde_json::to_vec(&metadata.partition_columns).map_err(|e| Error::internal("names could not be encoded").because(e))?;
    let digest: [u8; 32] = Sha256::new().chain_update(&metadata.schema_string).chain_update([0]).chain_update(by).finalize().into();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    Ok(u64::from_be_bytes(first) >> 1)
}

fn list(json: &Value) -> Result<&Vec<Value>> {
    json.get("fields").and_then(Value::as_array).ok_or_else(|| Error::data("a struct in `schemaString` has no fields").hint(DAMAGED))
}

fn fields_of(json: &Value) -> Result<Vec<Field>> {
    let mut fields: Vec<Field> = Vec::new();
    for json in list(json)? {
        let garbled = || Error::data(format!("`{json}` is no column")).hint(DAMAGED);
        let name = json.get("name").and_then(Value::as_str).ok_or_else(garbled)?;
        let data_type = json.get("type").ok_or_else(garbled)?;
        let nullable = json.get("nullable").and_then(Value::as_bool).ok_or_else(garbled)?;
        if fields.iter().any(|f| f.name == name) {
            return Err(Error::data(format!("two columns are called `{name}`")).hint(DAMAGED));
        }
        let said = metadata_of(json);
        if said.and_then(|m| m.get(COLLATIONS)).is_some_and(|c| c.as_object().is_none_or(|c| !c.is_empty())) {
            let what = format!("the column `{name}` has a collation, which is not supported");
            return Err(Error::invalid(what).hint(LEAVE));
        }
        let data_type = type_of(data_type).map_err(|e| e.at(format!("column `{name}`")))?;
        let description = said.and_then(|m| m.get(COMMENT)).and_then(Value::as_str).map(str::to_owned);
        fields.push(Field { id: 0, name: name.to_owned(), data_type, nullable, description });
    }
    if fields.is_empty() {
        return Err(Error::invalid("a struct without fields is not supported").hint("add a column"));
    }
    Ok(fields)
}

/// The parser of JSON limits how deep this goes.
fn type_of(json: &Value) -> Result<DataType> {
    let garbled = || Error::data(format!("`{json}` is no type")).hint(DAMAGED);
    if let Some(name) = json.as_str() {
        return primitive(name).ok_or_else(|| Error::invalid(format!("the type `{name}` is not supported")).hint(LEAVE));
    }
    let inner = |key: &str, nullable: bool| {
        let data_type = type_of(json.get(key).ok_or_else(garbled)?)?;
        Ok::<_, Error>(Box::new(Item { data_type, nullable }))
    };
    let flag = |key: &str| json.get(key).and_then(Value::as_bool).ok_or_else(garbled);
    match json.get("type").and_then(Value::as_str).ok_or_else(garbled)? {
        "struct" => Ok(DataType::Row(fields_of(json)?)),
        "array" => Ok(DataType::Array(inner("elementType", flag("containsNull")?)?)),
        "map" => Ok(DataType::Map(inner("keyType", false)?, inner("valueType", flag("valueContainsNull")?)?)),
        name => Err(Error::invalid(format!("the type `{name}` is not supported")).hint(LEAVE)),
    }
}

fn primitive(name: &str) -> Option<DataType> {
    Some(match name {
        "string" => DataType::String,
        "long" => DataType::BigInt,
        "integer" => DataType::Int,
        "short" => DataType::SmallInt,
        "byte" => DataType::TinyInt,
        "float" => DataType::Float,
        "double" => DataType::Double,
        "boolean" => DataType::Boolean,
        "binary" => DataType::Bytes,
        "date" => DataType::Date,
        "timestamp" => DataType::TimestampLtz(6),
        "timestamp_ntz" => DataType::Timestamp(6),
        // What Spark writes for DECIMAL without digits.
        "decimal" => DataType::Decimal { precision: 10, scale: 0 },
        _ => {
            let (precision, scale) = name.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
            let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
            ((1..=38).contains(&precision) && scale <= precision).then_some(DataType::Decimal { precision, scale })?
        }
    })
}

/// The `schemaString` of a new table; the schema is brought into its [`canonical`] form first, and refused like there.
pub fn encode(schema: &Schema) -> Result<String> {
    let schema = canonical(schema)?;
    let fields: Vec<Value> = schema.fields.iter().map(|f| field_json(f, true)).collect::<Result<_>>()?;
    Ok(json!({"type": "struct", "fields": fields}).to_string())
}

fn field_json(field: &Field, column: bool) -> Result<Value> {
    let mut said = Map::new();
    if let Some(text) = &field.description {
        said.insert(COMMENT.to_owned(), text.as_str().into());
    }
    if let Some(text) = lengths::text(&field.data_type).filter(|_| column) {
        said.insert(LENGTHS.to_owned(), text.into());
    }
    Ok(json!({"name": field.name, "type": type_json(&field.data_type)?, "nullable": field.nullable, "metadata": said}))
}

fn type_json(data_type: &DataType) -> Result<Value> {
    Ok(match data_type {
        DataType::Array(item) => {
            json!({"type": "array", "elementType": type_json(&item.data_type)?, "containsNull": item.nullable})
        }
        DataType::Map(key, value) => {
            let (k, v) = (type_json(&key.data_type)?, type_json(&value.data_type)?);
            json!({"type": "map", "keyType": k, "valueType": v, "valueContainsNull": value.nullable})
        }
        DataType::Row(fields) => {
            let fields: Vec<Value> = fields.iter().map(|f| field_json(f, false)).collect::<Result<_>>()?;
            json!({"type": "struct", "fields": fields})
        }
        DataType::Decimal { precision, scale } => format!("decimal({precision},{scale})").into(),
        other => Value::from(match other {
            DataType::Boolean => "boolean",
            DataType::TinyInt => "byte",
            DataType::SmallInt => "short",
            DataType::Int => "integer",
            DataType::BigInt => "long",
            DataType::Float => "float",
            DataType::Double => "double",
            DataType::Char(_) | DataType::VarChar(_) | DataType::String => "string",
            DataType::Bytes => "binary",
            DataType::Date => "date",
            DataType::Timestamp(6) => "timestamp_ntz",
            DataType::TimestampLtz(6) => "timestamp",
            _ => return Err(Error::internal(format!("{other} has no Delta type")).hint("please report this")),
        }),
    })
}

/// The schema as a new Delta table keeps it: timestamps in microseconds, bytes without a length, fields numbered by position. `Invalid`
/// names the column that a Delta table cannot have, and says what to do.
pub fn canonical(schema: &Schema) -> Result<Schema> {
    let mut next = 0;
    let mut fields = Vec::new();
    for field in &schema.fields {
        let data_type = canonical_type(&field.data_type).map_err(|e| e.at(format!("column `{}`", field.name)))?;
        fields.push(Field { data_type, ..field.clone() }.numbered(&mut next));
    }
    check_names(&fields)?;
    let schema = Schema { fields, ..schema.clone() };
    schema.check_new_by(partition::check_new)?;
    Ok(schema)
}

fn canonical_type(data_type: &DataType) -> Result<DataType> {
    let item = |i: &Item| Ok::<_, Error>(Box::new(Item { data_type: canonical_type(&i.data_type)?, nullable: i.nullable }));
    let refused = |hint: &str| Err(Error::invalid(format!("a Delta table has no type {data_type}")).hint(hint));
    match data_type {
        DataType::Timestamp(0..=6) => Ok(DataType::Timestamp(6)),
        DataType::TimestampLtz(0..=6) => Ok(DataType::TimestampLtz(6)),
        DataType::Timestamp(_) => refused("it keeps microseconds: write TIMESTAMP(6), or keep the nanoseconds in a BIGINT"),
        DataType::TimestampLtz(_) => {
            refused("it keeps microseconds: write TIMESTAMP(6) WITH LOCAL TIME ZONE, or keep the nanoseconds in a BIGINT")
        }
        DataType::Time(_) => refused("write STRING, or INT for the milliseconds of the day"),
        DataType::Multiset(inner) => refused(&format!("write MAP<{}, INT>", inner.data_type)),
        DataType::Binary(_) | DataType::VarBinary(_) => Ok(DataType::Bytes),
        DataType::Array(element) => Ok(DataType::Array(item(element)?)),
        // A key is never null; the format has no word for it.
        DataType::Map(key, value) => {
            Ok(DataType::Map(Box::new(Item { data_type: canonical_type(&key.data_type)?, nullable: false }), item(value)?))
        }
        DataType::Row(fields) => {
            check_names(fields)?;
            let field = |f: &Field| {
                let data_type = canonical_type(&f.data_type).map_err(|e| e.at(format!("field `{}`", f.name)))?;
                Ok(Field { data_type, ..f.clone() })
            };
            fields.iter().map(field).collect::<Result<_>>().map(DataType::Row)
        }
        other => Ok(other.clone()),
    }
}

/// Characters that Parquet's writers and Hive cannot have in a name; Spark refuses tables with them.
const BAD: [char; 11] = [' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '=', '\0'];

fn check_names(fields: &[Field]) -> Result<()> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for Field { name, .. } in fields {
        if name.is_empty() {
            return Err(Error::invalid("a column has an empty name").hint("give it a name"));
        }
        if let Some(bad) = name.chars().find(|c| BAD.contains(c)) {
            let what =
                format!("the column name `{}` has the character {bad:?}, which a Delta table cannot have in names", name.escape_debug());
            return Err(Error::invalid(what).hint("rename the column; with `from:` its field in the record may keep the name"));
        }
        if let Some(other) = seen.insert(name.to_lowercase(), name) {
            let what = format!("the columns `{other}` and `{name}` have the same name");
            return Err(Error::invalid(what).hint("rename one; upper and lower case do not make a difference"));
        }
    }
    Ok(())
}

/// Is there a timestamp without a zone, at any depth? Then readers must know the feature `timestampNtz`.
pub fn needs_timestamp_ntz(schema: &Schema) -> bool {
    fn has(data_type: &DataType) -> bool {
        match data_type {
            DataType::Timestamp(_) => true,
            DataType::Array(i) | DataType::Multiset(i) => has(&i.data_type),
            DataType::Map(k, v) => has(&k.data_type) || has(&v.data_type),
            DataType::Row(fields) => fields.iter().any(|f| has(&f.data_type)),
            _ => false,
        }
    }
    schema.fields.iter().any(|f| has(&f.data_type))
}
