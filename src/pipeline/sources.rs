//! The source that a pipeline file names.

use std::sync::Arc;

use crate::env::Env;
#[cfg(not(feature = "kafka"))]
use crate::error::Error;
use crate::error::Result;
use crate::pipeline::file::{Decode, KafkaStart, PipelineFile, SourceKind};
use crate::pipeline::write;
use crate::source::{FilesOptions, FilesSource, Framing, GenerateOptions, GenerateSource, Shelf, Source, StdinOptions, StdinSource};
#[cfg(feature = "kafka")]
use crate::source::{KafkaOptions, KafkaSource, KafkaStop, Notice, Notices};
#[cfg(feature = "kafka")]
use crate::stream::Event;
use crate::stream::Events;

/// Opens it. Reads nothing yet. `shelf`: where offsets of the pipeline keep what is too much for every checkpoint. `events`: where the source
/// tells what a person should know.
pub(crate) fn open(file: &PipelineFile, env: &Env, shelf: Option<Arc<dyn Shelf>>, events: Option<&Events>) -> Result<Box<dyn Source>> {
    let env = env.clone();
    Ok(match &file.source.kind {
        #[cfg(feature = "kafka")]
        SourceKind::Kafka(k) => Box::new(KafkaSource::new(env, kafka(file, k), notices(events.cloned()))?),
        #[cfg(not(feature = "kafka"))]
        SourceKind::Kafka(_) => {
            let _ = events;
            let e = Error::invalid("this build cannot read Kafka").hint("build it with the feature `kafka`, which is on by default");
            return Err(file.locate("source.kafka", e));
        }
        SourceKind::Files(files) => {
            let mut options = FilesOptions::new(file.base_dir(), files.paths.iter().cloned(), framing(file));
            options.chunk_bytes = chunk_bytes(file, options.chunk_bytes);
            options.watch = files.watch.clone();
            let source = FilesSource::new(env, options)?;
            Box::new(match shelf {
                Some(shelf) => source.with_shelf(shelf),
                None => source,
            })
        }
        SourceKind::Stdin => Box::new(StdinSource::new(env, StdinOptions::new(framing(file)))),
        SourceKind::Generate(g) => {
            let chunk_rows = file.checkpoint.rows.filter(|rows| *rows < MANY_ROWS);
            let options = GenerateOptions { rows: g.rows, rows_per_second: g.rows_per_second, fail_at: g.fail_at, chunk_rows };
            Box::new(GenerateSource::new(env, options)?)
        }
    })
}

/// The same source, to look at its first records: made-up rows come at once, and do not end the
/// process; what is read of standard input stays there for [`open`].
pub(crate) fn open_for_a_look(file: &PipelineFile, env: &Env) -> Result<Box<dyn Source>> {
    match &file.source.kind {
        SourceKind::Generate(g) => {
            Ok(Box::new(GenerateSource::new(env.clone(), GenerateOptions { rows: g.rows, ..GenerateOptions::default() })?))
        }
        SourceKind::Stdin => Ok(Box::new(StdinSource::peeking(env.clone(), StdinOptions::new(framing(file))))),
        #[cfg(feature = "kafka")]
        SourceKind::Kafka(k) => {
            let mut options = kafka(file, k);
            if options.stop == KafkaStop::Never {
                options.stop = KafkaStop::End;
            }
            Ok(Box::new(KafkaSource::new(env.clone(), options, notices(None))?))
        }
        _ => open(file, env, None, None),
    }
}

/// The same again, for its first records; those of topics that are to be read from their end are the last that are there.
pub(crate) fn open_for_a_sample(file: &PipelineFile, env: &Env) -> Result<Box<dyn Source>> {
    #[cfg(feature = "kafka")]
    if let SourceKind::Kafka(k) = &file.source.kind {
        let mut options = kafka(file, k);
        options.stop = KafkaStop::End;
        options.newest = Some(SAMPLE_OF_A_PARTITION);
        return Ok(Box::new(KafkaSource::new(env.clone(), options, notices(None))?));
    }
    open_for_a_look(file, env)
}

/// So many offsets before its end a sample begins in each partition.
#[cfg(feature = "kafka")]
const SAMPLE_OF_A_PARTITION: u64 = 500;

#[cfg(feature = "kafka")]
fn kafka(file: &PipelineFile, k: &super::file::KafkaSource) -> KafkaOptions {
    let options = KafkaOptions::new(&k.bootstrap_servers, k.topics.clone(), &file.pipeline);
    KafkaOptions {
        start: k.start.clone(),
        stop: k.stop.clone(),
        on_data_loss: k.on_data_loss,
        property_files: k.properties.files().clone(),
        properties: k.properties.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        memory_bytes: file.memory_plan().consumer,
        chunk_bytes: chunk_bytes(file, options.chunk_bytes),
        chunk_records: file
            .checkpoint
            .rows
            .filter(|rows| *rows < MANY_ROWS)
            .map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX)),
        patience: file.commit.timeout,
        ..options
    }
}

/// The same, to ask the brokers and not to read.
#[cfg(feature = "kafka")]
pub(crate) fn kafka_source(file: &PipelineFile, k: &super::file::KafkaSource, env: &Env) -> Result<KafkaSource> {
    KafkaSource::new(env.clone(), kafka(file, k), notices(None))
}

#[cfg(feature = "kafka")]
fn notices(events: Option<Events>) -> Notices {
    Notices::to(move |notice| match (&events, notice) {
        (Some(events), Notice::Plan(lines)) => lines.into_iter().for_each(|text| events.tell(Event::Reading { text })),
        (Some(events), notice) => events.tell(Event::Warning { text: notice.to_string() }),
        (None, notice) => tracing::debug!(%notice),
    })
}

/// From here on a whole poll more or less makes no difference to a trigger.
const MANY_ROWS: u64 = 20_000;

/// Triggers are looked at between polls, so a small trigger needs small polls.
fn chunk_bytes(file: &PipelineFile, most: usize) -> usize {
    let few_rows = file.checkpoint.rows.filter(|rows| *rows < MANY_ROWS).map(|rows| rows * 50);
    let few_bytes = file.checkpoint.bytes.map(|bytes| bytes / 4);
    let wanted = few_rows.into_iter().chain(few_bytes).min().and_then(|bytes| usize::try_from(bytes).ok());
    wanted.map_or(most, |bytes| bytes.clamp(4096, most))
}

fn framing(file: &PipelineFile) -> Framing {
    match &file.decode {
        Decode::Json => Framing::Lines,
        Decode::Parquet => Framing::Parquet,
        Decode::Csv(csv) => Framing::Csv { quote: csv.quote, header: csv.header, delimiter: csv.delimiter },
    }
}

/// What decides where a first lineage starts. A change under a running pipeline is refused.
pub(crate) fn start_text(file: &PipelineFile) -> String {
    match &file.source.kind {
        SourceKind::Kafka(kafka) => format!("kafka {}", shown(write::kafka_start(&kafka.start))),
        SourceKind::Files(_) => "files".to_owned(),
        SourceKind::Stdin => "stdin".to_owned(),
        SourceKind::Generate(_) => "generate".to_owned(),
    }
}

/// What decides where a lineage stops. When it changes, an open lineage gets another stop.
pub(crate) fn stop_text(file: &PipelineFile) -> String {
    match &file.source.kind {
        SourceKind::Kafka(kafka) => shown(write::kafka_stop(&kafka.stop)),
        // What is there at the start, and for ever when watched: neither is a choice of the moment.
        SourceKind::Files(_) | SourceKind::Stdin | SourceKind::Generate(_) => String::new(),
    }
}

/// As it would be written on one line.
fn shown(value: serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Would `start:` mean another place at the next start? Then the first one must be kept, whatever there is to read.
pub(crate) fn starts_at_a_moment(file: &PipelineFile) -> bool {
    let SourceKind::Kafka(kafka) = &file.source.kind else { return false };
    !matches!(kafka.start, KafkaStart::Earliest | KafkaStart::Offsets(_))
}
