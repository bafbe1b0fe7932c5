//! A topic goes on growing while a series runs. Where every round begins and ends is asked once, and said to each process as offsets.

use std::collections::BTreeMap;

use serde_json::json;

use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::{PipelineFile, SourceKind};
use crate::pipeline::sources;
use crate::source::Offsets;

/// Overrides that make each round read the same of a Kafka source, and tell its offsets to a group of its own. None for other sources.
pub(super) async fn settled(file: &PipelineFile, seed: u64, env: &Env) -> Result<Vec<String>> {
    let SourceKind::Kafka(kafka) = &file.source.kind else { return Ok(Vec::new()) };
    let resolved = sources::open_for_a_look(file, env)?.resolve(None).await?;
    let ends = resolved.stop.unwrap_or_default();
    let (start, stop) = (by_topic(&resolved.start), by_topic(&ends));
    if stop.is_empty() {
        let what = "there is nothing to read, so nothing can be lost or doubled";
        return Err(Error::invalid(what).at(file.file_name()).hint("give it topics with messages"));
    }
    let group = kafka.properties.get("group.id").unwrap_or(&file.pipeline);
    let group = json!(format!("{group}-failover-{seed}"));
    Ok(vec![
        format!("source.kafka.start={}", json!({ "offsets": start })),
        format!("source.kafka.stop={}", json!({ "offsets": stop })),
        format!("source.kafka.properties.group.id={group}"),
    ])
}

/// Topic -> partition -> offset.
fn by_topic(offsets: &Offsets) -> BTreeMap<&str, BTreeMap<i32, u64>> {
    let mut all = BTreeMap::<&str, BTreeMap<i32, u64>>::new();
    for (split, position) in &offsets.0 {
        if let Some((topic, Ok(partition))) = split.rsplit_once('/').map(|(topic, partition)| (topic, partition.parse())) {
            all.entry(topic).or_default().insert(partition, position.offset);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Position;

    #[test]
    fn splits_are_spelt_as_a_pipeline_file_has_them() {
        let at = |offset| Position { offset, note: Some(json!({"topic": "id"})) };
        let offsets = Offsets::from([("a.b/0".to_owned(), at(3)), ("a.b/11".to_owned(), at(0)), ("c/2".to_owned(), at(7))]);
        assert_eq!(json!(by_topic(&offsets)), json!({"a.b": {"0": 3, "11": 0}, "c": {"2": 7}}));
    }
}
