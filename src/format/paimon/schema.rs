//! `schema/schema-N`: JSON.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bucket;
use super::options::{RawOptions, TABLE_ID, TableOptions};
use super::paths::PaimonLayout;
use crate::error::{Error, Result};
use crate::schema::{DataType, Field, Item, Schema};

/// A schema file, decoded and found to be supported.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSchema {
    /// The columns and partition columns.
    pub schema: Arc<Schema>,
    /// Every option, as it stands in the file.
    pub raw_options: RawOptions,
    /// The options that steer the writer.
    pub options: TableOptions,
    /// Highest field id ever given.
    pub highest_field_id: i32,
    /// The table's comment.
    pub comment: Option<String>,
    /// When it was made, milliseconds since 1970-01-01 UTC.
    pub time_ms: i64,
}

/// The newest version of schema files that is understood, and the one that is written.
pub const VERSION: u32 = 3;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    #[serde(default = "one")]
    version: u32,
    id: u64,
    fields: Vec<ReadField>,
    highest_field_id: i32,
    #[serde(default)]
    partition_keys: Vec<String>,
    #[serde(default)]
    primary_keys: Vec<String>,
    #[serde(default)]
    options: RawOptions,
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    time_millis: i64,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadField {
    id: i32,
    name: String,
    #[serde(rename = "type")]
    data_type: Value,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    default_value: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Write<'a> {
    version: u32,
    id: u64,
    fields: Vec<WriteField<'a>>,
    highest_field_id: i32,
    partition_keys: &'a [String],
    primary_keys: [&'a str; 0],
    options: &'a RawOptions,
    // Java would read a null as the text "null".
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<&'a str>,
    time_millis: i64,
}

#[derive(Serialize)]
struct WriteField<'a> {
    id: i32,
    name: &'a str,
    #[serde(rename = "type")]
    data_type: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

impl TableSchema {
    /// A new table's first schema. Checks columns and options like [`TableSchema::decode`] does, fills in the options that say what the
    /// table is, and numbers the columns from 0. `table_id` must be unique.
    pub fn new(columns: &Schema, options: &RawOptions, comment: Option<String>, table_id: &str, time_ms: i64) -> Result<TableSchema> {
        columns.check_new()?;
        let mut next = 0;
        let schema = Schema { id: 0, fields: columns.fields.iter().map(|f| f.numbered(&mut next)).collect(), ..columns.clone() };
        let highest_field_id = next - 1;
        let mut raw_options = options.clone();
        for (key, value) in [("bucket", "-1"), ("file.format", "parquet")] {
            raw_options.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
        raw_options.insert(TABLE_ID.to_owned(), table_id.to_owned());
        TableOptions::check_new(&raw_options)?;
        let options = TableOptions::parse(&raw_options, VERSION)?;
        options.check_writable()?;
        options.check_readable()?;
        check_columns_of_options(&schema, &raw_options)?;
        check_layout(&schema, &options)?;
        Ok(TableSchema { schema: Arc::new(schema), raw_options, options, highest_field_id, comment, time_ms })
    }

    /// The file's bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let fields = self.schema.fields.iter().map(write_field);
        let file = Write {
            version: VERSION,
            id: self.schema.id,
            fields: fields.collect(),
            highest_field_id: self.highest_field_id,
            partition_keys: &self.schema.partition_by,
            primary_keys: [],
            options: &self.raw_options,
            comment: self.comment.as_deref(),
            time_millis: self.time_ms,
        };
        serde_json::to_vec_pretty(&file).map_err(|e| Error::internal("a schema could not be encoded").because(e))
    }

    /// Reads the file `schema-<id>`. `Data`: it is none, or of a newer version. `Invalid`: the table holds something that is not supported;
    /// the message names it.
    pub fn decode(bytes: &[u8], id: u64) -> Result<TableSchema> {
        let value: Value =
            serde_json::from_slice(bytes).map_err(|e| Error::data("this is no schema file").because(e).hint(super::DAMAGED))?;
        if let Some(version) = value.get("version").and_then(Value::as_i64).filter(|v| *v > i64::from(VERSION)) {
            return Err(Error::data(format!("the schema file has version {version}; this program understands up to {VERSION}"))
                .hint("use a newer lakeward"));
        }
        let read: Read =
            serde_json::from_value(value).map_err(|e| Error::data("this is no schema file").because(e).hint(super::DAMAGED))?;
        if read.id != id {
            return Err(Error::data(format!("the schema file says that its id is {}", read.id)).hint("put the right file back"));
        }
        if !read.primary_keys.is_empty() {
            return Err(Error::invalid(format!("the table has a primary key ({})", read.primary_keys.join(", ")))
                .hint("only append tables, without a primary key, can be written yet"));
        }
        let mut defaults = Vec::new();
        let fields = read.fields.into_iter().map(|f| field(f, 0, &mut defaults)).collect::<Result<Vec<_>>>()?;
        let schema = Schema { id, fields, partition_by: read.partition_keys };
        for name in &schema.partition_by {
            let Some(field) = schema.field(name) else {
                return Err(Error::data(format!("the partition column `{name}` is not a column")).hint("the schema file is damaged"));
            };
            field.check_partition()?;
        }
        let mut options = TableOptions::parse(&read.options, read.version)?;
        if let Some(e) = check_layout(&schema, &options).err() {
            options.refuse_writing(&e);
        }
        if let Some(name) = defaults.first() {
            let e = Error::invalid(format!("the default value of column `{name}` is not supported"));
            options.refuse_writing(&e.hint("a missing value would become null: drop the default value"));
        }
        Ok(TableSchema {
            schema: Arc::new(schema),
            options,
            raw_options: read.options,
            highest_field_id: read.highest_field_id,
            comment: read.comment,
            time_ms: read.time_millis,
        })
    }
}

fn write_field(f: &Field) -> WriteField<'_> {
    WriteField { id: f.id, name: &f.name, data_type: type_json(&f.data_type, f.nullable), description: f.description.as_deref() }
}

/// A type as schema files have it: text for those without others inside.
fn type_json(data_type: &DataType, nullable: bool) -> Value {
    let item = |i: &Item| type_json(&i.data_type, i.nullable);
    let named = |name: &str| if nullable { name.to_owned() } else { format!("{name} NOT NULL") };
    match data_type {
        DataType::Array(element) => json!({"type": named("ARRAY"), "element": item(element)}),
        DataType::Multiset(element) => json!({"type": named("MULTISET"), "element": item(element)}),
        DataType::Map(key, value) => json!({"type": named("MAP"), "key": item(key), "value": item(value)}),
        DataType::Row(fields) => json!({"type": named("ROW"), "fields": fields.iter().map(write_field).collect::<Vec<_>>()}),
        atomic => Value::String(named(&atomic.to_string())),
    }
}

/// `defaults` gets the name when the field has a default value.
fn field(f: ReadField, depth: usize, defaults: &mut Vec<String>) -> Result<Field> {
    let column = format!("column `{}`", f.name);
    if f.default_value.is_some_and(|v| !v.is_null()) {
        defaults.push(f.name.clone());
    }
    let Item { data_type, nullable } = type_of(&f.data_type, depth, defaults).map_err(|e| e.at(column))?;
    Ok(Field { id: f.id, name: f.name, data_type, nullable, description: f.description })
}

/// Types within each other, at most.
const DEPTH: usize = 64;

fn type_of(json: &Value, depth: usize, defaults: &mut Vec<String>) -> Result<Item> {
    if let Some(text) = json.as_str() {
        let (data_type, nullable) = DataType::parse(text)?;
        return Ok(Item { data_type, nullable });
    }
    let garbled = || Error::data(format!("`{json}` is no type")).hint(super::DAMAGED);
    let text = json.get("type").and_then(Value::as_str).ok_or_else(garbled)?;
    if depth >= DEPTH {
        return Err(Error::invalid(format!("types lie within each other more than {DEPTH} deep")).hint("flatten the column"));
    }
    let mut inner = |key: &str| json.get(key).ok_or_else(garbled).and_then(|t| type_of(t, depth + 1, defaults)).map(Box::new);
    let (name, nullable) = match text.trim().strip_suffix("NOT NULL") {
        Some(name) => (name.trim_end(), false),
        None => (text.trim(), true),
    };
    let data_type = match name {
        "ARRAY" => DataType::Array(inner("element")?),
        "MULTISET" => DataType::Multiset(inner("element")?),
        "MAP" => DataType::Map(inner("key")?, inner("value")?),
        "ROW" => {
            let fields: Vec<ReadField> = json.get("fields").and_then(|f| Vec::deserialize(f).ok()).ok_or_else(garbled)?;
            DataType::Row(fields.into_iter().map(|f| field(f, depth + 1, defaults)).collect::<Result<_>>()?)
        }
        _ => return Err(Error::invalid(format!("the type {name} is not supported")).hint("write to a table without it")),
    };
    Ok(Item { data_type, nullable })
}

/// Where rows go must be told by every writer alike, and found by every reader.
pub(crate) fn check_layout(schema: &Schema, options: &TableOptions) -> Result<()> {
    PaimonLayout::check(schema, options)?;
    options.buckets.iter().try_for_each(|buckets| bucket::check(schema, buckets).map(drop))
}

/// A per-column option of a column that is not there would be ignored in silence.
fn check_columns_of_options(schema: &Schema, raw: &RawOptions) -> Result<()> {
    for key in raw.keys() {
        if let Some(column) = key.strip_prefix("fields.").and_then(|k| k.strip_suffix(".stats-mode"))
            && schema.field(column).is_none()
        {
            let what = format!("the table option `{key}` speaks of a column that the table does not have");
            return Err(Error::invalid(what).hint("name a column of the table"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Schema {
        let f = |n: &str, t| Field::parse(9, n, t).unwrap();
        Schema { id: 5, fields: vec![f("id", "BIGINT NOT NULL"), f("name", "STRING"), f("dt", "DATE")], partition_by: vec!["dt".into()] }
    }

    #[test]
    fn a_new_schema_survives_the_way_there_and_back() {
        let made = TableSchema::new(&columns(), &RawOptions::new(), None, "t-1", 1795966155192).unwrap();
        let bytes = made.encode().unwrap();
        assert_eq!(TableSchema::decode(&bytes, 0).unwrap(), made);
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(json["version"], 3);
        assert_eq!(json["fields"][0], serde_json::json!({"id": 0, "name": "id", "type": "BIGINT NOT NULL"}));
        assert_eq!(json["highestFieldId"], 2);
        assert_eq!(json["partitionKeys"], serde_json::json!(["dt"]));
        assert_eq!(json["primaryKeys"], serde_json::json!([]));
        assert_eq!(json["options"]["bucket"], "-1");
        assert_eq!(json.get("comment"), None);
    }

    #[test]
    fn nested_types_survive_and_are_numbered_outer_fields_first() {
        let nested = Field::parse(0, "n", "ROW<a INT NOT NULL, b ARRAY<ROW<c STRING> NOT NULL>> NOT NULL").unwrap();
        let map = Field::parse(0, "m", "MAP<STRING NOT NULL, MULTISET<ROW<d TIME(3)>>>").unwrap();
        let schema = Schema { id: 0, fields: vec![nested, map, Field::parse(0, "z", "INT").unwrap()], partition_by: Vec::new() };
        let made = TableSchema::new(&schema, &RawOptions::new(), None, "t-1", 0).unwrap();
        let bytes = made.encode().unwrap();
        assert_eq!(TableSchema::decode(&bytes, 0).unwrap(), made);
        let json: Value = serde_json::from_slice(&bytes).unwrap();
        let inner = json!({"type": "ROW NOT NULL", "fields": [{"id": 3, "name": "c", "type": "STRING"}]});
        let b = json!({"type": "ARRAY", "element": inner});
        let fields = json!([{"id": 1, "name": "a", "type": "INT NOT NULL"}, {"id": 2, "name": "b", "type": b}]);
        assert_eq!(json["fields"][0], json!({"id": 0, "name": "n", "type": {"type": "ROW NOT NULL", "fields": fields}}));
        assert_eq!((&json["fields"][1]["id"], &json["fields"][2]["id"]), (&json!(4), &json!(6)));
        assert_eq!(json["highestFieldId"], 6);
    }

    #[test]
    fn schemas_of_other_writers_are_read() {
        let theirs =
            br#"{"version":3,"id":0,"fields":[{"id":0,"name":"id","type":"BIGINT NOT NULL"},{"id":3,"name":"t","type":"TIMESTAMP_LTZ(6)",
            "description":"when"}],"highestFieldId":4,"partitionKeys":[],"primaryKeys":[],"options":{"bucket":"-1"},"comment":null,
            "timeMillis":1795966155192,"somethingNew":{}}"#;
        let s = TableSchema::decode(theirs, 0).unwrap();
        assert_eq!(s.schema.fields[1].data_type, DataType::TimestampLtz(6));
        assert_eq!((s.schema.fields[1].id, s.highest_field_id), (3, 4));
        let old = br#"{"id":2,"fields":[{"id":0,"name":"id","type":"INT"}],"highestFieldId":0,"options":{"bucket":"-1","file.format":"parquet"}}"#;
        assert_eq!(TableSchema::decode(old, 2).unwrap().schema.id, 2);
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        let refuse = |fields: &str, rest: &str| {
            let text = format!(r#"{{"version":3,"id":0,"fields":[{fields}],"highestFieldId":9,"partitionKeys":[],"timeMillis":1{rest}}}"#);
            TableSchema::decode(text.as_bytes(), 0).unwrap_err()
        };
        let id = r#"{"id":0,"name":"id","type":"INT"}"#;
        for (fields, rest, what) in [
            (id, r#","primaryKeys":["id"]"#, "primary key (id)"),
            (r#"{"id":0,"name":"tags","type":{"type":"ARRAY","element":"BLOB"}}"#, "", "column `tags`: the type `BLOB`"),
            (r#"{"id":0,"name":"v","type":{"type":"VECTOR","element":"FLOAT","length":3}}"#, "", "column `v`: the type VECTOR"),
            (r#"{"id":0,"name":"v","type":"VARIANT"}"#, "", "column `v`: the type `VARIANT`"),
        ] {
            let e = refuse(fields, rest);
            assert_eq!(e.kind(), crate::Kind::Invalid, "{e}");
            assert!(e.to_string().contains(what), "{e}");
        }
        let text = br#"{"version":3,"id":0,"fields":[{"id":0,"name":"v","type":"INT","defaultValue":"7"}],"highestFieldId":0,"options":{"bucket":"-1"}}"#;
        let with_default = TableSchema::decode(text, 0).unwrap().options;
        assert!(with_default.check_readable().is_ok());
        assert!(with_default.check_writable().unwrap_err().message().contains("default value of column `v`"));
        let e = TableSchema::decode(br#"{"version":4,"id":0}"#, 0).unwrap_err();
        assert_eq!(e.kind(), crate::Kind::Data);
        assert!(e.message().contains("version 4"), "{e}");
        assert_eq!(TableSchema::decode(b"{", 0).unwrap_err().kind(), crate::Kind::Data);
        assert!(
            TableSchema::decode(br#"{"version":3,"id":1,"fields":[],"highestFieldId":0}"#, 0)
                .unwrap_err()
                .message()
                .contains("its id is 1")
        );
    }

    #[test]
    fn new_tables_are_checked_like_old_ones() {
        let with = |k: &str, v: &str| RawOptions::from([(k.to_owned(), v.to_owned())]);
        assert!(TableSchema::new(&columns(), &with("bucket", "3"), None, "t", 0).is_err());
        assert!(TableSchema::new(&columns(), &with("fields.x.stats-mode", "none"), None, "t", 0).is_err());
        assert!(TableSchema::new(&columns(), &with("fields.id.stats-mode", "none"), None, "t", 0).is_ok());
    }
}
