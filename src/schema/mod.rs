//! The logical schema of a table: field ids, types, nullability; its text form and its Arrow form.
//!
//! Type names are the ones that Paimon and Flink SQL use: `BIGINT NOT NULL`, `DECIMAL(10, 2)`,
//! `TIMESTAMP(3) WITH LOCAL TIME ZONE`.

mod parse;
mod scalar;
#[cfg(test)]
mod tests;
mod types;

use std::sync::Arc;

use arrow::datatypes as arrow_types;

use crate::error::{Error, Result};

pub use scalar::Scalar;
pub(crate) use scalar::{Hex, unhex};
pub(crate) use types::unit_digits;
pub use types::{DataType, Item};
pub(crate) use types::{ELEMENT, KEY_VALUE};

/// A column, or a field of a ROW.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
        self.check_new_by(Field::check_partition)
    }

    /// The same, with the format's own answer to whether a table may be partitioned by a column.
    pub(crate) fn check_new_by(&self, check_partition: impl Fn(&Field) -> Result<()>) -> Result<()> {
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
            check_partition(field)?;
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
        types::with_nullability(&self.data_type, self.nullable)
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
    /// This field with the id `next`, which is counted up, and its inner fields numbered after it.
    pub(crate) fn numbered(&self, next: &mut i32) -> Field {
        let id = *next;
        *next += 1;
        Field { id, data_type: self.data_type.numbered(next), ..self.clone() }
    }
    /// Checks that a table may be partitioned by this column. `Invalid` otherwise.
    pub fn check_partition(&self) -> Result<()> {
        let Some(why) = self.data_type.unfit_to_partition() else { return Ok(()) };
        let what = format!("the column `{}` of type {} cannot partition a table: {why}", self.name, self.data_type);
        Err(Error::invalid(what).hint("partition by another column, or by a STRING that you make of this one; `date(ts)` makes a DATE"))
    }
    /// The Arrow form.
    pub fn to_arrow(&self) -> arrow_types::Field {
        arrow_types::Field::new(&self.name, self.data_type.to_arrow(), self.nullable)
    }
}
