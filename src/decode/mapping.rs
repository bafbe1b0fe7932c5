//! What the columns of a sink mean: where each value comes from, and which rows are good.

use std::fmt;
use std::sync::Arc;

use super::check::Check;
use super::expr::Function;
use crate::error::{Error, Result};
use crate::schema::{DataType, Field, Scalar, Schema};

/// A column as the pipeline file writes it; plain texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The column's name.
    pub name: String,
    /// Type and nullability, `BIGINT NOT NULL`.
    pub type_text: String,
    /// Path of the value in the record: `a.b`; a segment with a dot in its name is quoted: `"a.b".c`. None: the column's name.
    pub from: Option<String>,
    /// Taken from around the record: `topic partition offset timestamp key header.NAME`.
    pub meta: Option<String>,
    /// Computed from other columns of the table: `date(ts)`.
    pub expr: Option<String>,
    /// What a number means in a DATE, TIME or TIMESTAMP column: `s ms us ns` since 1970-01-01 UTC (a TIME: since midnight), or `d` (days) for a DATE.
    /// In a nested type it is for all of them.
    pub unit: Option<String>,
}

/// What to do with a field of a record that no column takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNewField {
    /// Leave it out.
    #[default]
    Ignore,
    /// The record is a reject. Fields of every object that columns reach into count, and those of every ROW, not only those at the top.
    Reject,
}

impl OnNewField {
    /// Reads `ignore` or `reject`; anything else is `Invalid`.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "ignore" => Ok(OnNewField::Ignore),
            "reject" => Ok(OnNewField::Reject),
            "add" => Err(Error::invalid("on_new_field: add is not supported yet").hint("write ignore or reject")),
            other => Err(Error::invalid(format!("on_new_field: {other:?} is unknown")).hint("write ignore or reject")),
        }
    }
}

/// Validates the values of a partition, in the order of the partition columns; the error says why they cannot name a partition.
pub type PartitionCheck = Arc<dyn Fn(&[Option<Scalar>]) -> Result<(), String> + Send + Sync>;

/// The unit of a number that stands for a date or a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Days; only for DATE.
    Days,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// Something that comes with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meta {
    /// The topic's name, or the file's path.
    Topic,
    /// The Kafka partition; null for a file.
    Partition,
    /// The offset in the split.
    Offset,
    /// The record's timestamp; null when it has none.
    Timestamp,
    /// The record's key; null when it has none.
    Key,
    /// The last header of this name; null when there is none.
    Header(String),
}

/// Where a column's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueFrom {
    /// From the record.
    Record {
        /// Names from the outside in; one for CSV.
        path: Vec<String>,
        /// As the pipeline file writes it, and as messages show it.
        text: String,
        /// Was it written with `from:`?
        explicit: bool,
    },
    /// From around the record.
    Meta(Meta),
    /// From another column of the table.
    Expr {
        /// The function.
        function: Function,
        /// Position of its argument in [`Mapping::columns`].
        argument: usize,
        /// As the pipeline file writes it.
        text: String,
    },
}

/// A column, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnMapping {
    /// The name.
    pub name: String,
    /// The type.
    pub data_type: DataType,
    /// May it be null?
    pub nullable: bool,
    /// Where the value comes from.
    pub from: ValueFrom,
    /// What a number in a DATE, TIME or TIMESTAMP column means.
    pub unit: Option<Unit>,
}

/// What the columns of a sink mean. Made by [`Mapping::build`].
#[derive(Clone)]
pub struct Mapping {
    /// The columns, in the table's order.
    pub columns: Vec<ColumnMapping>,
    /// Rows for which one of these is false are rejects.
    pub checks: Vec<Check>,
    /// What to do with fields that no column takes.
    pub on_new_field: OnNewField,
    /// The columns as a schema: id 0, field ids from 0.
    pub schema: Schema,
    /// Asked once for each distinct partition; rows of a refused one are rejects of the stage `partition`.
    pub partition_check: Option<PartitionCheck>,
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("columns", &self.columns).field("checks", &self.checks).finish_non_exhaustive()
    }
}

impl Mapping {
    /// Understands the columns and checks of one sink. Every mistake is `Invalid`, and says which column and what would be right.
    pub fn build(specs: &[ColumnSpec], checks: &[String], on_new_field: OnNewField, partition_by: &[String]) -> Result<Mapping> {
        let types = specs.iter().map(|s| DataType::parse(&s.type_text).map_err(|e| e.at(place(&s.name))));
        let types = types.collect::<Result<Vec<_>>>()?;
        if specs.is_empty() {
            return Err(Error::invalid("a table needs at least one column"));
        }
        let mut columns = Vec::with_capacity(specs.len());
        for (i, (spec, (data_type, nullable))) in specs.iter().zip(&types).enumerate() {
            if spec.name.is_empty() {
                return Err(Error::invalid("the name is empty").at(format!("column {}", i + 1)));
            }
            if specs[..i].iter().any(|s| s.name == spec.name) {
                return Err(Error::invalid("there are two columns of this name").at(place(&spec.name)));
            }
            columns.push(column(spec, data_type, *nullable, specs, &types).map_err(|e| e.at(place(&spec.name)))?);
        }
        for (i, name) in partition_by.iter().enumerate() {
            if !columns.iter().any(|c| &c.name == name) {
                let names = columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Error::invalid(format!("{name:?} is no column")).at("partition_by").hint(format!("the columns are: {names}")));
            }
            if partition_by[..i].contains(name) {
                return Err(Error::invalid(format!("{name:?} is listed twice")).at("partition_by"));
            }
        }
        let field = |(id, c): (usize, &ColumnMapping)| Field {
            id: i32::try_from(id).unwrap_or(i32::MAX),
            name: c.name.clone(),
            data_type: c.data_type.clone(),
            nullable: c.nullable,
            description: None,
        };
        let schema = Schema { id: 0, fields: columns.iter().enumerate().map(field).collect(), partition_by: partition_by.to_vec() };
        let checks = checks.iter().map(|text| Check::parse(text, &schema)).collect::<Result<_>>()?;
        Ok(Mapping { columns, checks, on_new_field, schema, partition_check: None })
    }

    /// Validates partitions too.
    pub fn with_partition_check(mut self, check: PartitionCheck) -> Mapping {
        self.partition_check = Some(check);
        self
    }
}

fn place(name: &str) -> String {
    format!("column {name:?}")
}

fn column(spec: &ColumnSpec, ty: &DataType, nullable: bool, specs: &[ColumnSpec], types: &[(DataType, bool)]) -> Result<ColumnMapping> {
    let from = match (&spec.from, &spec.meta, &spec.expr) {
        (from, None, None) => ValueFrom::Record {
            path: from.as_deref().map_or_else(|| Ok(vec![spec.name.clone()]), path)?,
            text: from.clone().unwrap_or_else(|| spec.name.clone()),
            explicit: from.is_some(),
        },
        (None, Some(meta), None) => ValueFrom::Meta(parse_meta(meta, ty)?),
        (None, None, Some(expr)) => parse_expr(expr, spec, ty, specs, types)?,
        _ => return Err(Error::invalid("has more than one of from, meta and expr").hint("keep one: it says where the value comes from")),
    };
    let unit = spec.unit.as_deref().map(|unit| parse_unit(unit, ty, &from)).transpose()?;
    Ok(ColumnMapping { name: spec.name.clone(), data_type: ty.clone(), nullable, from, unit })
}

fn parse_unit(text: &str, ty: &DataType, from: &ValueFrom) -> Result<Unit> {
    if !matches!(from, ValueFrom::Record { .. }) {
        return Err(
            Error::invalid("unit says what a number in the record means, and this value does not come from the record").hint("remove unit")
        );
    }
    let unit = match text {
        "s" => Unit::Seconds,
        "ms" => Unit::Millis,
        "us" => Unit::Micros,
        "ns" => Unit::Nanos,
        "d" if *ty == DataType::Date => Unit::Days,
        _ => return Err(Error::invalid(format!("unit: {text:?} is unknown")).hint("write s, ms, us or ns (or d, days, for a DATE)")),
    };
    if !has_moments(ty) {
        return Err(Error::invalid(format!("unit: {text} is for DATE, TIME and TIMESTAMP columns, and this one is {ty}"))
            .hint("remove unit, or change the type"));
    }
    Ok(unit)
}

/// Is it a date, a time or a timestamp, or are there any in it?
fn has_moments(ty: &DataType) -> bool {
    match ty {
        DataType::Date | DataType::Time(_) | DataType::Timestamp(_) | DataType::TimestampLtz(_) => true,
        DataType::Array(item) | DataType::Multiset(item) => has_moments(&item.data_type),
        DataType::Map(key, value) => has_moments(&key.data_type) || has_moments(&value.data_type),
        DataType::Row(fields) => fields.iter().any(|f| has_moments(&f.data_type)),
        _ => false,
    }
}

fn parse_meta(text: &str, ty: &DataType) -> Result<Meta> {
    use DataType as D;
    let meta = match text {
        "topic" => Meta::Topic,
        "partition" => Meta::Partition,
        "offset" => Meta::Offset,
        "timestamp" => Meta::Timestamp,
        "key" => Meta::Key,
        _ => match text.strip_prefix("header.").filter(|name| !name.is_empty()) {
            Some(name) => Meta::Header(name.to_owned()),
            None => {
                let known = "write one of: topic partition offset timestamp key header.NAME";
                return Err(Error::invalid(format!("meta: {text:?} is unknown")).hint(known));
            }
        },
    };
    let is_text = matches!(ty, D::String | D::Char(_) | D::VarChar(_));
    let (fits, right) = match meta {
        Meta::Topic => (is_text, "STRING"),
        Meta::Partition => (matches!(ty, D::Int | D::BigInt) || is_text, "INT, BIGINT or STRING"),
        Meta::Offset => (*ty == D::BigInt || is_text, "BIGINT or STRING"),
        Meta::Timestamp => (
            matches!(ty, D::BigInt | D::Timestamp(_) | D::TimestampLtz(_)),
            "TIMESTAMP, TIMESTAMP WITH LOCAL TIME ZONE or BIGINT (milliseconds)",
        ),
        Meta::Key | Meta::Header(_) => (true, ""),
    };
    if !fits {
        return Err(Error::invalid(format!("meta: {text} cannot be {ty}")).hint(format!("declare the column {right}")));
    }
    Ok(meta)
}

fn parse_expr(text: &str, spec: &ColumnSpec, ty: &DataType, specs: &[ColumnSpec], types: &[(DataType, bool)]) -> Result<ValueFrom> {
    let call = text.trim().strip_suffix(')').and_then(|t| t.split_once('(')).map(|(f, a)| (f.trim(), a.trim()));
    let function = call.and_then(|(name, argument)| Function::parse(name).map(|f| (f, argument)));
    let Some((function, argument)) = function else {
        return Err(Error::invalid(format!("expr: {text:?} is not supported")).hint(format!("write one of: {}", Function::LIST)));
    };
    let argument = argument.strip_prefix('`').and_then(|a| a.strip_suffix('`')).unwrap_or(argument);
    let Some(position) = specs.iter().position(|s| s.name == argument) else {
        let names = specs.iter().map(|s| s.name.as_str()).filter(|n| *n != spec.name).collect::<Vec<_>>().join(", ");
        return Err(
            Error::invalid(format!("expr: {text}: {argument:?} is no column of this table")).hint(format!("the columns are: {names}"))
        );
    };
    if specs[position].expr.is_some() {
        return Err(Error::invalid(format!("expr: {text}: {argument:?} is itself an expr")).hint("use the column that it is computed from"));
    }
    function
        .fits(&types[position].0, ty)
        .map_err(|why| Error::invalid(format!("expr: {text}: {why}")).hint("change the type of the column, or the expr"))?;
    Ok(ValueFrom::Expr { function, argument: position, text: text.to_owned() })
}

/// Reads `a.b` and `"a.b".c` (or with backticks).
fn path(text: &str) -> Result<Vec<String>> {
    let wrong = |why: &str| {
        Error::invalid(format!("from: {text:?} {why}")).hint("write a path like a.b, and quote a name that has a dot: '\"a.b\".c'")
    };
    let mut segments = Vec::new();
    let mut rest = text;
    loop {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '`'));
        let (segment, after) = match quote {
            Some(quote) => rest[1..].split_once(quote).ok_or_else(|| wrong("has a quote that is not closed"))?,
            None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        if segment.is_empty() {
            return Err(wrong("has an empty name"));
        }
        if quote.is_none() && segment.ends_with(']') && segment.contains('[') {
            return Err(wrong("looks into an array, which is not supported yet"));
        }
        segments.push(segment.to_owned());
        match after.strip_prefix('.') {
            Some(more) => rest = more,
            None if after.is_empty() => return Ok(segments),
            None => return Err(wrong("has something behind a closing quote")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::spec;
    use super::*;

    fn wrong(specs: &[ColumnSpec], partition_by: &[&str]) -> String {
        let partition_by: Vec<String> = partition_by.iter().map(|s| (*s).to_owned()).collect();
        Mapping::build(specs, &[], OnNewField::Ignore, &partition_by).unwrap_err().to_string()
    }

    #[test]
    fn paths() {
        assert_eq!(path("a").unwrap(), ["a"]);
        assert_eq!(path("a.b.c").unwrap(), ["a", "b", "c"]);
        assert_eq!(path("\"a.b\".c").unwrap(), ["a.b", "c"]);
        assert_eq!(path("x.`é.`").unwrap(), ["x", "é."]);
        for bad in ["", ".", "a.", ".a", "a..b", "\"a", "\"a\"b", "a[0]"] {
            assert!(path(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_mistake_says_which_column_and_what_is_right() {
        let id = spec("id", "BIGINT");
        let ts = spec("ts", "TIMESTAMP(3)");
        let with = |f: &dyn Fn(&mut ColumnSpec), name: &str, ty: &str| {
            let mut s = spec(name, ty);
            f(&mut s);
            s
        };
        for (specs, partition_by, want) in [
            (vec![], vec![], "a table needs at least one column"),
            (vec![spec("", "INT")], vec![], "column 1: the name is empty"),
            (vec![id.clone(), id.clone()], vec![], "column \"id\": there are two columns of this name"),
            (vec![id.clone()], vec!["dt"], "partition_by: \"dt\" is no column; the columns are: id"),
            (vec![id.clone()], vec!["id", "id"], "partition_by: \"id\" is listed twice"),
            (
                vec![with(&|s| s.unit = Some("ms".into()), "n", "INT")],
                vec![],
                "column \"n\": unit: ms is for DATE, TIME and TIMESTAMP columns, and this one is INT; remove unit, or change the type",
            ),
            (
                vec![with(&|s| s.unit = Some("min".into()), "t", "TIMESTAMP(3)")],
                vec![],
                "column \"t\": unit: \"min\" is unknown; write s, ms, us or ns (or d, days, for a DATE)",
            ),
            (
                vec![with(&|s| s.meta = Some("ofset".into()), "o", "BIGINT")],
                vec![],
                "column \"o\": meta: \"ofset\" is unknown; write one of: topic partition offset timestamp key header.NAME",
            ),
            (
                vec![with(&|s| s.meta = Some("topic".into()), "o", "BIGINT")],
                vec![],
                "column \"o\": meta: topic cannot be BIGINT; declare the column STRING",
            ),
            (
                vec![ts.clone(), with(&|s| s.expr = Some("trunc(ts)".into()), "d", "STRING")],
                vec![],
                "column \"d\": expr: \"trunc(ts)\" is not supported; write one of: date(c), year(c), month(c), day(c), hour(c)",
            ),
            (
                vec![ts.clone(), with(&|s| s.expr = Some("date(tz)".into()), "d", "STRING")],
                vec![],
                "column \"d\": expr: date(tz): \"tz\" is no column of this table; the columns are: ts",
            ),
            (
                vec![id.clone(), with(&|s| s.expr = Some("date(id)".into()), "d", "STRING")],
                vec![],
                "column \"d\": expr: date(id): date needs a TIMESTAMP or DATE column, and this one is BIGINT; change the type of the column, or the expr",
            ),
            (
                vec![ts.clone(), with(&|s| s.expr = Some("date(ts)".into()), "d", "BOOLEAN")],
                vec![],
                "column \"d\": expr: date(ts): date gives DATE or STRING, and the column is BOOLEAN; change the type of the column, or the expr",
            ),
        ] {
            assert_eq!(wrong(&specs, &partition_by), want);
        }
        assert!(OnNewField::parse("add").unwrap_err().to_string().contains("not supported yet"));
    }
}
