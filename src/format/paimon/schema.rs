//! `schema/schema-N`: JSON.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::options::{RawOptions, TABLE_ID, TableOptions};
use crate::error::{Error, Result};
use crate::schema::{DataType, Field, Schema};

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
    data_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
}

impl TableSchema {
    /// A new table's first schema. Checks columns and options like [`TableSchema::decode`] does, fills in the options that say what the
    /// table is, and numbers the columns from 0. `table_id` must be unique.
    pub fn new(columns: &Schema, options: &RawOptions, comment: Option<String>, table_id: &str, time_ms: i64) -> Result<TableSchema> {
        columns.check_new()?;
        let mut schema = Schema { id: 0, ..columns.clone() };
        for (field, id) in schema.fields.iter_mut().zip(0..) {
            field.id = id;
        }
        let highest_field_id = schema.fields.last().map_or(-1, |f| f.id);
        let mut raw_options = options.clone();
        for (key, value) in [("bucket", "-1"), ("file.format", "parquet")] {
            raw_options.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
        raw_options.insert(TABLE_ID.to_owned(), table_id.to_owned());
        TableOptions::check_new(&raw_options)?;
        let options = TableOptions::parse(&raw_options, VERSION)?;
        check_columns_of_options(&schema, &raw_options)?;
        Ok(TableSchema { schema: Arc::new(schema), raw_options, options, highest_field_id, comment, time_ms })
    }

    /// The file's bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let field = |f: &'_ Field| (f.id, f.type_text());
        let fields = self.schema.fields.iter().map(|f| {
            let (id, data_type) = field(f);
            WriteField { id, name: &f.name, data_type, description: f.description.as_deref() }
        });
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
        let fields = read.fields.into_iter().map(field).collect::<Result<Vec<_>>>()?;
        let schema = Schema { id, fields, partition_by: read.partition_keys };
        for name in &schema.partition_by {
            let Some(field) = schema.field(name) else {
                return Err(Error::data(format!("the partition column `{name}` is not a column")).hint("the schema file is damaged"));
            };
            field.check_partition()?;
        }
        let options = TableOptions::parse(&read.options, read.version)?;
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

fn field(f: ReadField) -> Result<Field> {
    let column = format!("column `{}`", f.name);
    let Some(text) = f.data_type.as_str() else {
        let name = f.data_type.get("type").and_then(Value::as_str).unwrap_or("?");
        return Err(Error::invalid(format!("the type {name} is not supported")).at(column).hint("nested types cannot be written yet"));
    };
    if f.default_value.is_some_and(|v| !v.is_null()) {
        return Err(Error::invalid("a default value is not supported").at(column).hint("drop the default value"));
    }
    let (data_type, nullable): (DataType, bool) = DataType::parse(text).map_err(|e| e.at(column))?;
    Ok(Field { id: f.id, name: f.name, data_type, nullable, description: f.description })
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
            (id, r#","options":{"bucket":"4"}"#, "`bucket` = `4`"),
            (r#"{"id":0,"name":"tags","type":{"type":"ARRAY","element":"INT"}}"#, "", "column `tags`: the type ARRAY"),
            (r#"{"id":0,"name":"v","type":"VARIANT"}"#, "", "column `v`: the type `VARIANT`"),
            (r#"{"id":0,"name":"v","type":"INT","defaultValue":"7"}"#, "", "column `v`: a default value"),
        ] {
            let e = refuse(fields, rest);
            assert_eq!(e.kind(), crate::Kind::Invalid, "{e}");
            assert!(e.to_string().contains(what), "{e}");
        }
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
