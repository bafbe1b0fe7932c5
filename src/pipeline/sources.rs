//! The source that a pipeline file names.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::{Decode, PipelineFile, SourceKind};
use crate::source::Source;

/// Opens it. `fail_here`: may this process obey `fail_at`?
pub(crate) fn open(file: &PipelineFile, env: &Env, fail_here: &Arc<AtomicBool>) -> Result<Box<dyn Source>> {
    let _ = (env, fail_here);
    match (&file.source.kind, &file.decode) {
        (SourceKind::Kafka(_), _) => Err(Error::invalid("this program was built without Kafka")),
        (_, Decode::Json | Decode::Csv(_)) => Err(Error::internal("not written yet")),
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
