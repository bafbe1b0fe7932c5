//! Pipeline files: found, read, shown.

use std::path::{Path, PathBuf};

use crate::cli::Failed;
use crate::cli::args::ConfigArgs;
use crate::cli::output::{Form, Output};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::PipelineFile;
use crate::pipeline::location;
use crate::store::{Store, StoreOptions};

/// `config`.
pub(crate) fn config(args: ConfigArgs, output: &mut Output) -> Result<(), Failed> {
    let yaml = PipelineFile::load(&args.pipeline, &args.set)?.to_yaml_masked();
    match output.asked() {
        None | Some(Form::Table) => output.text(&yaml),
        Some(Form::Csv) => Err(Error::invalid("a pipeline file is no list of rows").hint("use -o json, or leave -o out for YAML").into()),
        Some(Form::Json | Form::Jsonl) => {
            let value: serde_json::Value = serde_saphyr::from_str(&yaml)
                .map_err(|e| Error::internal("the pipeline file that was printed cannot be read").because(e.to_string()))?;
            output.object(value)
        }
    }
}

/// Does this text name a pipeline file rather than a location?
pub(crate) fn names_file(target: &str) -> bool {
    let path = Path::new(target);
    let yaml = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("yaml") || e.eq_ignore_ascii_case("yml"));
    location::is_local(target) && (path.is_file() || (yaml && !path.is_dir()))
}

/// `--set` changes a pipeline file; without one it would be parsed and ignored.
pub(crate) fn no_set(set: &[String]) -> Result<()> {
    if set.is_empty() {
        return Ok(());
    }
    Err(Error::invalid("--set overrides keys of a pipeline file, and none was given"))
}

/// The directory from which the command was called.
pub(crate) fn here() -> Result<PathBuf> {
    std::env::current_dir().map_err(|e| Error::invalid("the current directory cannot be found").because(e))
}

/// A location from the command line, as a store.
pub(crate) fn store(text: &str) -> Result<Store> {
    Store::open(&location::absolute(text, &here()?)?, &Env::real(), StoreOptions::default())
}
