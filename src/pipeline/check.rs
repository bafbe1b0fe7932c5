//! What must hold between the parts of a pipeline.

use super::file::*;
use super::location::{holds, identity, is_local};
use super::read::DecodeText;
use crate::decode::RecordFormat;
use crate::error::{Error, Result};

/// Checks a whole pipeline.
pub(super) fn check(file: &PipelineFile) -> Result<()> {
    triggers(file)?;
    places(file)?;
    if file.durability == Durability::None && !locations(file).iter().any(|(_, at)| is_local(at)) {
        let e = Error::invalid("`durability: none` is for local disk, and nothing is written there").hint("remove it");
        return Err(file.locate("durability", e));
    }
    Ok(())
}

fn triggers(file: &PipelineFile) -> Result<()> {
    let c = &file.checkpoint;
    if !file.source.is_unbounded() || c.every.is_some() || c.rows.is_some() || c.bytes.is_some() {
        return Ok(());
    }
    let what = "the source never ends and nothing triggers a checkpoint, so no row would ever be visible";
    let hint = "set `checkpoint.every: 10s`, `checkpoint.rows` or `checkpoint.bytes`";
    Err(file.locate("checkpoint", Error::invalid(what).hint(hint)))
}

/// Every table: path in the file, location.
fn locations(file: &PipelineFile) -> Vec<(String, &str)> {
    let sinks = file.sinks.iter().enumerate().map(|(i, sink)| (format!("sinks.{i}.location"), sink.location.as_str()));
    let dead = file.dead_letter.iter().map(|d| ("dead_letter.location".to_owned(), d.location.as_str()));
    sinks.chain(dead).collect()
}

fn places(file: &PipelineFile) -> Result<()> {
    let tables: Vec<_> = locations(file).into_iter().map(|(path, at)| (path, at, identity(at))).collect();
    for (i, (path, at, id)) in tables.iter().enumerate() {
        for (first_path, first_at, first_id) in &tables[..i] {
            let relation = match (holds(first_id, id), holds(id, first_id)) {
                (true, true) => "is the same table as",
                (true, false) => "lies inside of",
                (false, true) => "holds",
                (false, false) => continue,
            };
            let what = format!("`{path}` ({at}) {relation} `{first_path}` ({first_at})");
            return Err(file.locate(path, Error::invalid(what).hint("give each table a directory of its own")));
        }
    }
    let chain = &file.checkpoint.location;
    let chain_id = identity(chain);
    for (path, at, id) in &tables {
        let relation = match (holds(id, &chain_id), holds(&chain_id, id)) {
            (true, true) => "is the same place as the table",
            (true, false) => "lies inside of the table",
            (false, true) => "holds the table",
            (false, false) => continue,
        };
        let what = format!("`checkpoint.location` ({chain}) {relation} `{path}` ({at})");
        let hint = "put checkpoints beside the tables, like `_checkpoints` in the same folder";
        return Err(file.locate("checkpoint.location", Error::invalid(what).hint(hint)));
    }
    match tables.iter().find(|(_, at, _)| is_local(chain) && !is_local(at)) {
        None => Ok(()),
        Some((path, at, _)) => {
            let what = format!("`checkpoint.location` ({chain}) is on local disk, but `{path}` ({at}) is not");
            let hint = "put checkpoints where the tables are: without this disk nobody could tell what was landed";
            Err(file.locate("checkpoint.location", Error::invalid(what).hint(hint)))
        }
    }
}

/// What the endings of file names say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Json,
    Csv,
    Tsv,
    Parquet,
    Later(&'static str),
}

fn ending(path: &str) -> Option<Ending> {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    if name.ends_with(".parquet") {
        return Some(Ending::Parquet);
    }
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "json" | "ndjson" | "jsonl" => Some(Ending::Json),
        "csv" => Some(Ending::Csv),
        "tsv" => Some(Ending::Tsv),
        "avro" => Some(Ending::Later("avro")),
        _ => None,
    }
}

/// Completes `decode` by the source. An error comes with the path of what it is about.
pub(super) fn decode_of(source: &SourceSpec, text: &DecodeText) -> Result<Decode, (&'static str, Error)> {
    let fail = |key, what: String, hint: &str| Err((key, Error::invalid(what).hint(hint)));
    let found = match (&source.kind, text.format) {
        (SourceKind::Generate(_), Some(RecordFormat::Csv)) => {
            return fail("decode.format", "`decode.format: csv` does not fit `source.generate`".to_owned(), "remove `decode`");
        }
        (SourceKind::Files(_), Some(RecordFormat::Parquet)) => Ending::Parquet,
        (_, Some(RecordFormat::Parquet)) => {
            return fail(
                "decode.format",
                "`decode.format: parquet` is only for `source.files`".to_owned(),
                "read files, or change `decode`",
            );
        }
        // With a format given, an ending still tells a tab from a comma.
        (SourceKind::Files(files), Some(RecordFormat::Csv)) if files.paths.iter().all(|p| ending(p) == Some(Ending::Tsv)) => Ending::Tsv,
        (_, Some(RecordFormat::Csv)) => Ending::Csv,
        (_, Some(RecordFormat::Json)) => Ending::Json,
        (SourceKind::Files(files), None) => by_ending(&files.paths).map_err(|e| ("source.files.paths", e))?,
        (_, None) => Ending::Json,
    };
    if found == Ending::Json || found == Ending::Parquet {
        let (is, decode) = if found == Ending::Json { ("JSON", Decode::Json) } else { ("Parquet", Decode::Parquet) };
        let csv_only = [
            ("decode.header", text.header.is_some()),
            ("decode.delimiter", text.delimiter.is_some()),
            ("decode.quote", text.quote.is_some()),
            ("decode.null", text.null.is_some()),
        ];
        return match csv_only.into_iter().find(|(_, given)| *given) {
            Some((key, _)) => fail(key, format!("`{key}` is for CSV, but the input is {is}"), "remove it, or write `format: csv`"),
            None => Ok(decode),
        };
    }
    let spec = CsvSpec {
        header: text.header.unwrap_or(true),
        delimiter: text.delimiter.unwrap_or(if found == Ending::Tsv { b'\t' } else { b',' }),
        quote: text.quote.unwrap_or(b'"'),
        null: text.null.clone(),
    };
    if spec.delimiter == spec.quote {
        return fail("decode.delimiter", "`decode.delimiter` and `decode.quote` are the same character".to_owned(), "change one");
    }
    Ok(Decode::Csv(spec))
}

fn by_ending(paths: &[String]) -> Result<Ending> {
    let mut first: Option<(&String, Ending)> = None;
    for path in paths {
        let found = match ending(path) {
            Some(Ending::Later(format)) => {
                return Err(
                    Error::invalid(format!("`{path}`: the format {format} is not supported yet")).hint("use NDJSON, CSV or Parquet")
                );
            }
            Some(found) => found,
            None => {
                let what = format!("the ending of `{path}` does not tell its format");
                return Err(Error::invalid(what)
                    .hint("write `decode: {format: json}`, `csv` or `parquet`; with --from, add `--set decode.format=json`"));
            }
        };
        match first {
            Some((other, before)) if before != found => {
                let what = format!("`{other}` and `{path}` are of different formats");
                return Err(Error::invalid(what).hint("read them in two pipelines, or write `decode: {format: ...}` if they are not"));
            }
            _ => first = Some((path, found)),
        }
    }
    Ok(first.map_or(Ending::Json, |(_, found)| found))
}
