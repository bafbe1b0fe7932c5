//! What a pipeline means before it runs: each sink's table, columns and decoder; and the plan that `--dry-run` prints.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;

use crate::decode::{Chunk, ColumnSpec, Decoder, Mapping, RecordFormat, columns_of, infer, make_decoder};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::format::Format;
use crate::pipeline::file::{PipelineFile, SinkSpec};
use crate::pipeline::sources;
use crate::schema::{Field, Scalar, Schema};
use crate::source::{Offsets, Records};
use crate::store::{Store, StoreOptions};
use crate::stream::watermark::Watermark;
use crate::stream::{Event, Events, Ledger, StartOptions, dead_letters};
use crate::table::{Table, TableSpec};

/// How many records are looked at to infer columns.
const SAMPLE_RECORDS: usize = 1000;
/// How many rows, and how many rejects, a plan shows.
const SHOWN: usize = 5;
/// How long a sample is waited for.
const SAMPLE_PATIENCE: Duration = Duration::from_secs(3);

/// One sink, understood: its table if it is there, and what its columns mean.
pub(crate) struct PlannedSink {
    store: Store,
    table: Option<Table>,
    spec: TableSpec,
    mapping: Option<Mapping>,
    inferred: bool,
    watermark: Option<(String, Duration)>,
}

/// All sinks of a pipeline.
pub(crate) struct Planned {
    pub(crate) sinks: Vec<PlannedSink>,
    pub(crate) dead_letter: Option<PlannedSink>,
    sample: Vec<Chunk>,
}

impl Planned {
    /// Opens what is there and understands the rest. Writes nothing.
    pub(crate) async fn look(file: &PipelineFile, env: &Env, options: &StoreOptions) -> Result<Planned> {
        let mut planned = Planned { sinks: Vec::new(), dead_letter: None, sample: Vec::new() };
        for (i, sink) in file.sinks.iter().enumerate() {
            let store = Store::open(&sink.location, env, options.clone())?;
            let table = Table::open_if_exists(store.clone()).await?;
            let specs = match (&sink.columns, &table) {
                (Some(columns), _) => columns.clone(),
                (None, Some(table)) => table.schema().fields.iter().map(column_of).collect(),
                (None, None) => planned.inferred(file, env, sink).await?,
            };
            let format = format_of(sink.format, table.as_ref());
            let specs = kept(format, &specs).map_err(|e| file.locate(&part(i, sink, &specs, &e), e))?;
            let at = |e: Error| file.locate(&part(i, sink, &specs, &e), e);
            // A table that is there says itself how it is partitioned.
            let partition_by = match &table {
                Some(table) if sink.partition_by.is_empty() => table.schema().partition_by.clone(),
                _ => sink.partition_by.clone(),
            };
            let mapping = Mapping::build(&specs, &sink.checks, sink.on_new_field, &partition_by).map_err(at)?;
            let options = sink.options.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            let spec = TableSpec::new(format, mapping.schema.fields.clone()).partition_by(partition_by).options(options);
            spec.check().map_err(at)?;
            if let Some(table) = &table {
                table.fits(&spec).map_err(at)?;
            }
            let watermark = sink.watermark.as_ref().map(|w| (w.column.clone(), w.lateness));
            let inferred = sink.columns.is_none() && table.is_none();
            let sink = PlannedSink { store, table, spec, mapping: Some(mapping), inferred, watermark };
            sink.watermark().map_err(|e| file.locate(&format!("sinks.{i}.watermark.column"), e))?;
            planned.sinks.push(sink);
        }
        if let Some(dead) = &file.dead_letter {
            let store = Store::open(&dead.location, env, options.clone())?;
            let table = Table::open_if_exists(store.clone()).await?;
            // They go with the rows: where all sinks are of one format, so is their table.
            let first = planned.sinks.first().map(|sink| sink.spec.format());
            let common = first.filter(|first| planned.sinks.iter().all(|sink| sink.spec.format() == *first));
            let format = dead.format.or(table.as_ref().map(Table::format)).or(common).unwrap_or_default();
            let spec = TableSpec::new(format, dead_letters::columns());
            if let Some(table) = &table {
                table.fits(&spec)?;
            }
            planned.dead_letter = Some(PlannedSink { store, table, spec, mapping: None, inferred: false, watermark: None });
        }
        Ok(planned)
    }

    async fn inferred(&mut self, file: &PipelineFile, env: &Env, sink: &SinkSpec) -> Result<Vec<ColumnSpec>> {
        if self.sample.is_empty() {
            self.sample = sample(file, env).await?;
        }
        if self.sample.is_empty() {
            return Err(Error::invalid("there are no records to infer columns from")
                .at(&sink.location)
                .hint("give the sink its `columns`, or start again when there is input"));
        }
        if let Some(rows) = self.sample.iter().find_map(Chunk::rows) {
            return columns_of(rows).map_err(|e| e.at(&sink.location));
        }
        let (format, csv) = record_format(file);
        let records: Vec<Records> = self.sample.iter().map(|chunk| chunk.records.clone()).collect();
        infer(format, &csv, &records).map_err(|e| e.at(&sink.location))
    }

    /// Do the tables that are there belong to this chain, and are those there that it names? Asked before any table is created: a run that must
    /// stop writes nothing.
    pub(crate) async fn belong_to(&self, ledger: &Ledger, options: &StartOptions) -> Result<()> {
        let greatest = ledger.greatest().await?;
        let seen = greatest.as_ref().map(|w| w.checkpoint.seq);
        for sink in self.sinks.iter().chain(&self.dead_letter) {
            let url = sink.store.url();
            let named = greatest.as_ref().is_some_and(|w| w.checkpoint.sinks.contains_key(url));
            let checked = match &sink.table {
                Some(table) => options.check_registrations(ledger, greatest.as_ref(), table).await,
                None if named => Err(Error::data("the chain has written to this table, and it is gone").at(url).hint(format!(
                    "restore it, or set the sink's location to where it is and say --adopt; if it is gone for good, take the sink out of the \
                     pipeline file and say --drop-sink; to begin anew, remove {}/{} too: the input is then read from its start",
                    ledger.location(),
                    ledger.pipeline()
                ))),
                None => Ok(()),
            };
            if let Err(error) = checked {
                // Another run may have begun since the chain was read; then this one is merely the older of two.
                ledger.no_other_run_since(seen, "").await?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Creates the tables that are not there yet.
    pub(crate) async fn create_tables(&mut self, events: &Events) -> Result<()> {
        for sink in self.sinks.iter_mut().chain(&mut self.dead_letter) {
            if let Some(table) = &sink.table {
                let has = table.options();
                for (key, value) in sink.spec.table_options().iter().filter(|(key, value)| has.get(*key) != Some(value)) {
                    let kept = has.get(key).map_or("without it".to_owned(), |kept| format!("with `{kept}`"));
                    let text = format!("{} was created {kept}, so the option `{key}: {value}` changes nothing", table.url());
                    events.tell(Event::Warning { text });
                }
                continue;
            }
            let table = Table::open_or_create_in(sink.store.clone(), &sink.spec).await?;
            let (sink_url, columns) = (table.url().to_owned(), columns(table.schema()));
            events.tell(Event::TableCreated { format: table.format(), sink: sink_url, columns, inferred: sink.inferred });
            sink.table = Some(table);
        }
        Ok(())
    }
}

impl PlannedSink {
    /// The table.
    pub(crate) fn table(&self) -> Result<Table> {
        self.table.clone().ok_or_else(|| Error::internal("a table was not created"))
    }
    /// The sink's watermark.
    pub(crate) fn watermark(&self) -> Result<Option<Watermark>> {
        let Some((column, lateness)) = &self.watermark else { return Ok(None) };
        let schema = self.spec.schema()?;
        let field = schema.field(column).ok_or_else(|| {
            let names: Vec<&str> = schema.fields.iter().map(|f| f.name.as_str()).collect();
            Error::invalid(format!("the watermark's column `{column}` is not in `columns`; there are: {}", names.join(", ")))
        })?;
        Watermark::new(column, *lateness, &field.data_type).map(Some)
    }
    /// A decoder for its rows.
    pub(crate) fn decoder(&self, file: &PipelineFile) -> Result<Box<dyn Decoder>> {
        let mapping = self.mapping.clone().ok_or_else(|| Error::internal("the dead letters have no decoder"))?;
        let mapping = match &self.table {
            Some(table) if !table.schema().partition_by.is_empty() => mapping.with_partition_check(partition_check(table)),
            _ => mapping,
        };
        let (format, csv) = record_format(file);
        make_decoder(format, &mapping, &csv)
    }
}

/// Rows whose partition cannot name a directory are dead letters, not failures of the run.
fn partition_check(table: &Table) -> crate::decode::PartitionCheck {
    let layout = table.layout();
    Arc::new(move |values: &[Option<Scalar>]| {
        layout.file_path(values, 0, "00000000-0000-0000-0000-000000000000", 0).map(drop).map_err(|e| e.message().to_owned())
    })
}

fn record_format(file: &PipelineFile) -> (RecordFormat, crate::decode::CsvOptions) {
    use crate::pipeline::file::Decode;
    match &file.decode {
        Decode::Json => (RecordFormat::Json, crate::decode::CsvOptions::default()),
        Decode::Parquet => (RecordFormat::Parquet, crate::decode::CsvOptions::default()),
        Decode::Csv(csv) => {
            let options =
                crate::decode::CsvOptions { header: csv.header, delimiter: csv.delimiter, quote: csv.quote, null: csv.null.clone() };
            (RecordFormat::Csv, options)
        }
    }
}

fn column_of(field: &Field) -> ColumnSpec {
    ColumnSpec { name: field.name.clone(), type_text: field.type_text(), ..ColumnSpec::default() }
}

/// The part of a sink that an error is about: the check, column or list that it names.
fn part(i: usize, sink: &SinkSpec, specs: &[ColumnSpec], error: &Error) -> String {
    let (message, place) = (error.message(), error.place().unwrap_or_default());
    if message.starts_with("check: ") {
        let shown = sink.checks.iter().enumerate().filter(|(_, check)| message.contains(check.as_str()));
        let at = shown.max_by_key(|(_, check)| check.len()).map_or(String::new(), |(at, _)| format!(".{at}"));
        return format!("sinks.{i}.checks{at}");
    }
    if message.contains("`partition_by`") || message.contains("partition a table") {
        return format!("sinks.{i}.partition_by");
    }
    let quoted = |name: &str| format!("column `{name}`");
    let named = |name: &str| place == format!("column {name:?}") || place == quoted(name) || message.contains(&quoted(name));
    match specs.iter().find(|spec| named(&spec.name)) {
        Some(spec) => format!("sinks.{i}.columns.{}", spec.name),
        None if message.contains("table option") => format!("sinks.{i}.options"),
        None => format!("sinks.{i}"),
    }
}

/// What the pipeline says; else what the table is that is there.
fn format_of(said: Option<Format>, table: Option<&Table>) -> Format {
    said.or_else(|| table.map(Table::format)).unwrap_or_default()
}

/// The columns with the types that the format keeps.
fn kept(format: Format, specs: &[ColumnSpec]) -> Result<Vec<ColumnSpec>> {
    if format == Format::Paimon {
        return Ok(specs.to_vec()); // It has every type, and the mapping says what is wrong with one.
    }
    let fields = specs.iter().map(|s| Field::parse(0, &s.name, &s.type_text)).collect::<Result<Vec<_>>>()?;
    let kept = TableSpec::new(format, fields).schema()?;
    Ok(specs.iter().zip(&kept.fields).map(|(spec, field)| ColumnSpec { type_text: field.type_text(), ..spec.clone() }).collect())
}

/// The first records, read through a second reader: the run's own source is not touched.
async fn sample(file: &PipelineFile, env: &Env) -> Result<Vec<Chunk>> {
    let mut source = sources::open_for_a_sample(file, env)?;
    let resolved = source.resolve(None).await?;
    source.seek(&resolved.start, resolved.stop.as_ref()).await?;
    let deadline = env.deadline(SAMPLE_PATIENCE);
    let (mut sample, mut count) = (Vec::new(), 0);
    while count < SAMPLE_RECORDS && env.left(deadline).is_some() {
        let Some(chunk) = Chunk::of(source.poll(deadline).await?) else { break };
        let some = chunk.slice(0, chunk.len().min(SAMPLE_RECORDS - count));
        count += some.len();
        sample.push(some);
    }
    Ok(sample)
}

fn columns(schema: &Schema) -> String {
    let one = |f: &Field| format!("{} {}", f.name, f.type_text());
    schema.fields.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What `--dry-run` prints.
pub struct Plan {
    /// One line each: what a start would do.
    pub lines: Vec<String>,
    /// Each sink: url, schema, the first rows, and what is wrong with the first bad records.
    pub sinks: Vec<PlanSink>,
}

/// One sink of a [`Plan`].
pub struct PlanSink {
    /// The url.
    pub url: String,
    /// Is the table there already?
    pub exists: bool,
    /// The schema.
    pub schema: Schema,
    /// The first rows, at most five; none: there was nothing to read.
    pub rows: Option<RecordBatch>,
    /// Of the first records, those that would be dead letters: place and reason.
    pub rejects: Vec<String>,
}

impl Plan {
    pub(crate) async fn of(file: &PipelineFile, planned: Planned, ledger: &Ledger, env: &Env) -> Result<Plan> {
        let mut lines = vec![format!("pipeline {}: chain at {}/{}", file.pipeline, ledger.location(), file.pipeline)];
        let greatest = ledger.greatest().await?;
        let from = match &greatest {
            None => {
                lines.push("no checkpoint yet: a new lineage would be opened".to_owned());
                Offsets::default()
            }
            Some(w) => {
                let c = &w.checkpoint;
                let what = if c.has_messages() { "its commit would be finished first" } else { "nothing is pending" };
                lines.push(format!("greatest checkpoint {} ({}, commit user {}): {what}", c.seq, c.kind.as_str(), c.user));
                c.offsets.clone()
            }
        };
        let mut source = sources::open(file, env, Some(Arc::new(ledger.clone())), None)?;
        let resolved = source.resolve(greatest.as_ref().map(|_| &from)).await?;
        match source.plan() {
            words if words.is_empty() => lines.extend(splits(&resolved.start, resolved.stop.as_ref())),
            words => lines.extend(words),
        }
        let sample = match planned.sample {
            known if !known.is_empty() => known,
            _ => sample(file, env).await?,
        };
        let mut sinks = Vec::new();
        for sink in &planned.sinks {
            sinks.push(plan_sink(file, sink, &sample)?);
        }
        if let Some(dead) = &planned.dead_letter {
            lines.push(format!("dead letters go to {}", dead.store.url()));
        }
        lines.push(file.memory_plan().to_string());
        Ok(Plan { lines, sinks })
    }
}

fn splits(start: &Offsets, stop: Option<&Offsets>) -> Vec<String> {
    let Some(stop) = stop else {
        return vec!["reads on for ever".to_owned()];
    };
    let end = |o: u64| if o == crate::source::Position::TO_END { "its end".to_owned() } else { o.to_string() };
    stop.0.iter().map(|(split, p)| format!("reads {split} from {} to {}", start.offset(split), end(p.offset))).collect()
}

fn plan_sink(file: &PipelineFile, sink: &PlannedSink, sample: &[Chunk]) -> Result<PlanSink> {
    let (mut rows, mut rejects) = (Vec::new(), Vec::new());
    let mut decoder = sink.decoder(file)?;
    let mut left = SHOWN;
    for chunk in sample {
        let (decoded, records) = (chunk.decode(decoder.as_mut())?, &chunk.records);
        let reject = |r: &crate::decode::Reject| format!("{}: {}: {}", records.place(r.index), r.stage.as_str(), r.error);
        rejects.extend(decoded.rejects.iter().take(SHOWN.saturating_sub(rejects.len())).map(reject));
        rows.push(decoded.batch.slice(0, decoded.batch.num_rows().min(left)));
        left -= rows.last().map_or(0, RecordBatch::num_rows);
        if left == 0 {
            break;
        }
    }
    let rows = match rows.first() {
        Some(first) => Some(arrow::compute::concat_batches(&first.schema(), &rows)?),
        None => None,
    };
    let schema = match &sink.table {
        Some(table) => table.schema().as_ref().clone(),
        None => sink.spec.schema()?,
    };
    Ok(PlanSink { url: sink.store.url().to_owned(), exists: sink.table.is_some(), schema, rows, rejects })
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        for sink in &self.sinks {
            writeln!(f, "{} {}", if sink.exists { "appends to" } else { "creates" }, sink.url)?;
            for field in &sink.schema.fields {
                writeln!(f, "  {} {}", field.name, field.type_text())?;
            }
            if !sink.schema.partition_by.is_empty() {
                writeln!(f, "  partitioned by {}", sink.schema.partition_by.join(", "))?;
            }
        }
        Ok(())
    }
}
