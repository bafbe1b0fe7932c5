//! The source that a pipeline file names.

use std::sync::Arc;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::{Decode, PipelineFile, SourceKind};
use crate::source::{FilesOptions, FilesSource, Framing, GenerateOptions, GenerateSource, Shelf, Source, StdinOptions, StdinSource};

/// Opens it. Reads nothing yet. `shelf`: where offsets of the pipeline keep what is too much for every checkpoint.
pub(crate) fn open(file: &PipelineFile, env: &Env, shelf: Option<Arc<dyn Shelf>>) -> Result<Box<dyn Source>> {
    let env = env.clone();
    Ok(match &file.source.kind {
        SourceKind::Kafka(_) => {
            let hint = "read files, standard input or made-up rows";
            return Err(Error::invalid("the source `kafka` is not supported yet").at(file.file_name()).hint(hint));
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
        _ => open(file, env, None),
    }
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
        SourceKind::Kafka(kafka) => format!("kafka {:?}", kafka.start),
        SourceKind::Files(_) => "files".to_owned(),
        SourceKind::Stdin => "stdin".to_owned(),
        SourceKind::Generate(_) => "generate".to_owned(),
    }
}
