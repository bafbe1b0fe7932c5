//! `create`: tables from columns on the command line, or those of a pipeline.

use std::collections::BTreeMap;

use crate::cli::Failed;
use crate::cli::args::CreateArgs;
use crate::cli::output::{Columns, Output, Value};
use crate::cli::pipelines::store;
use crate::cli::tables::columns_of;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::pipeline::file::PipelineFile;
use crate::schema::Field;
use crate::stream::dead_letters;
use crate::table::{Table, TableSpec};

/// Creates, and says what.
pub(crate) async fn create(args: CreateArgs, output: &mut Output) -> Result<(), Failed> {
    let wanted = match &args.pipeline {
        Some(path) => of_pipeline(&PipelineFile::load(path, &[])?)?,
        None => vec![of_arguments(&args)?],
    };
    // Everything is looked at before anything is made.
    let mut tables = Vec::new();
    for wanted in wanted {
        let store = store(&wanted.location)?;
        let there = Table::open_if_exists(store.clone()).await?;
        let spec = wanted.spec(there.as_ref());
        spec.check().map_err(|e| e.at(&wanted.location))?;
        if let Some(table) = &there {
            if !args.if_not_exists {
                return Err(Error::invalid("there is a table already").at(table.url()).hint("--if-not-exists makes this no error").into());
            }
            table.fits(&spec)?;
        }
        tables.push((store, spec, there));
    }
    let mut rows = output.rows(Columns::new(["location", "created", "format", "columns", "partition_by"]));
    for (store, spec, there) in tables {
        let created = there.is_none();
        let table = match there {
            Some(table) => table,
            None => Table::open_or_create_in(store, &spec).await?,
        };
        rows.push(vec![
            Value::text(table.url()),
            Value::Bool(created),
            Value::text(table.format().name()),
            Value::List(columns_of(table.schema())),
            Value::List(table.schema().partition_by.iter().map(Value::text).collect()),
        ])?;
    }
    rows.finish()
}

/// A table to be made.
struct Wanted {
    location: String,
    /// None: that of the table that is there, else Paimon.
    format: Option<Format>,
    fields: Vec<Field>,
    partition_by: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Wanted {
    fn spec(&self, there: Option<&Table>) -> TableSpec {
        let format = self.format.or(there.map(Table::format)).unwrap_or_default();
        TableSpec::new(format, self.fields.clone()).partition_by(self.partition_by.clone()).options(self.options.clone())
    }
}

fn of_arguments(args: &CreateArgs) -> Result<Wanted> {
    let columns = args.columns.as_deref().unwrap_or_default();
    let fields = parse_columns(columns).map_err(|e| e.at("--columns"))?;
    let mut options = BTreeMap::new();
    for option in &args.options {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        if options.insert(key.trim().to_owned(), value.to_owned()).is_some() {
            return Err(Error::invalid(format!("the option `{key}` is given twice")).at("--options"));
        }
    }
    Ok(Wanted {
        location: args.location.clone().unwrap_or_default(),
        format: args.format.map(Format::from),
        fields,
        partition_by: args.partition_by.iter().map(|p| p.trim().to_owned()).collect(),
        options,
    })
}

fn of_pipeline(file: &PipelineFile) -> Result<Vec<Wanted>> {
    let mut all = Vec::new();
    for (i, sink) in file.sinks.iter().enumerate() {
        let place = format!("sinks.{i}");
        let Some(columns) = &sink.columns else {
            let error = Error::invalid("the sink has no `columns`; they are inferred when the pipeline runs");
            return Err(file.locate(&place, error.hint("write the columns down, or let `table-cli ingest` create the table")));
        };
        let mut fields = Vec::new();
        for (id, column) in (0..).zip(columns) {
            let field = Field::parse(id, &column.name, &column.type_text);
            fields.push(field.map_err(|e| file.locate(&format!("{place}.columns.{}", column.name), e))?);
        }
        all.push(Wanted {
            location: sink.location.clone(),
            format: sink.format,
            fields,
            partition_by: sink.partition_by.clone(),
            options: sink.options.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        });
    }
    if let Some(dead) = &file.dead_letter {
        let (location, fields) = (dead.location.clone(), dead_letters::columns());
        all.push(Wanted { location, format: dead.format, fields, partition_by: Vec::new(), options: BTreeMap::new() });
    }
    Ok(all)
}

/// `id BIGINT NOT NULL, amount DECIMAL(10, 2)`; a name in backticks may hold anything.
fn parse_columns(text: &str) -> Result<Vec<Field>> {
    let mut fields = Vec::new();
    for (id, part) in (0..).zip(split_at_commas(text)) {
        let part = part.trim();
        let (name, type_text) = match part.strip_prefix('`') {
            Some(rest) => rest.split_once('`').ok_or_else(|| Error::invalid(format!("the backtick in `{part}` is not closed")))?,
            None => part.split_once(char::is_whitespace).unwrap_or((part, "")),
        };
        if name.is_empty() || type_text.trim().is_empty() {
            let what = if part.is_empty() { "a column is empty".to_owned() } else { format!("the column `{part}` has no type") };
            return Err(Error::invalid(what).hint("write name and type, as in 'id BIGINT NOT NULL, amount DECIMAL(10, 2)'"));
        }
        fields.push(Field::parse(id, name, type_text.trim())?);
    }
    Ok(fields)
}

/// Commas in brackets and quotes do not count.
fn split_at_commas(text: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start) = (0_i32, None, 0);
    let mut parts = Vec::new();
    for (i, c) in text.char_indices() {
        match c {
            c if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '`' | '\'' => quote = Some(c),
            '(' | '<' => depth += 1,
            ')' | '>' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::DataType;

    #[test]
    fn columns_are_split_outside_of_brackets_and_backticks() {
        let fields = parse_columns("id BIGINT NOT NULL, amount\tDECIMAL(10, 2),`odd, name` STRING").unwrap();
        let texts: Vec<String> = fields.iter().map(|f| format!("{}:{}:{}:{}", f.id, f.name, f.data_type, f.nullable)).collect();
        assert_eq!(texts, ["0:id:BIGINT:false", "1:amount:DECIMAL(10, 2):true", "2:odd, name:STRING:true"]);
        let nested = "a ARRAY<INT>, r ROW<x MAP<STRING, DECIMAL(3, 1)>, `y>,` INT 'one, two>'> NOT NULL, z INT";
        let fields = parse_columns(nested).unwrap();
        assert_eq!(fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["a", "r", "z"]);
        let DataType::Row(inner) = &fields[1].data_type else { panic!("{}", fields[1].data_type) };
        assert_eq!((inner.len(), inner[1].name.as_str(), fields[1].nullable), (2, "y>,", false));
    }

    #[test]
    fn a_column_without_a_type_or_with_an_unknown_one_is_named() {
        for (text, what) in [
            ("id", "the column `id` has no type"),
            ("id BIGINT,", "a column is empty"),
            ("`id BIGINT", "is not closed"),
            ("id BIGNT", "BIGNT"),
        ] {
            let error = parse_columns(text).unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Invalid);
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
