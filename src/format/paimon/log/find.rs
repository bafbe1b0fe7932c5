//! Is a file in a table? Looked for from the newest manifest down, and only in those that may hold it.

use std::collections::HashSet;

use super::super::manifest::EntryKind;
use super::super::paths::PaimonLayout;
use super::super::snapshot::Snapshot;
use super::PaimonLog;
use super::bounds::Bounds;
use crate::error::Result;
use crate::schema::{DataType, Scalar};

/// What a path says of where its file is listed. None: nothing that could be understood.
#[derive(Debug)]
struct Place {
    bucket: Option<i32>,
    values: Vec<Option<Scalar>>,
}

impl Place {
    fn of(path: &str, types: &[DataType], defaults: &[String]) -> Place {
        let mut segments = path.rsplit('/').skip(1);
        let bucket = segments.next().and_then(|s| s.strip_prefix("bucket-")?.parse().ok());
        let texts: Vec<Option<&str>> = types.iter().map(|_| Some(segments.next()?.split_once('=')?.1)).collect();
        let value = |((text, data_type), default): ((Option<&str>, &DataType), &String)| {
            let text = text.filter(|t| t != default)?;
            match data_type {
                DataType::Int | DataType::BigInt | DataType::SmallInt | DataType::TinyInt => text.parse().ok().map(Scalar::Int),
                // What is escaped is left alone.
                DataType::String | DataType::Char(_) | DataType::VarChar(_) if !text.contains('%') => Some(Scalar::String(text.to_owned())),
                DataType::Date => match text.parse() {
                    Ok(days) => Some(Scalar::Date(days)),
                    Err(_) => {
                        let date = chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
                        let days = date.signed_duration_since(chrono::NaiveDate::default()).num_days();
                        i32::try_from(days).ok().map(Scalar::Date)
                    }
                },
                _ => None,
            }
        };
        Place { bucket, values: texts.into_iter().rev().zip(types).zip(defaults).map(value).collect() }
    }

    fn may_be_in(&self, bounds: &Bounds) -> bool {
        self.bucket.is_none_or(|bucket| bounds.may_hold_bucket(bucket)) && bounds.may_hold_known(&self.values)
    }
}

impl PaimonLog {
    /// Is any of these paths live in `snapshot`?
    pub(super) async fn holds_any(&self, snapshot: &Snapshot, files: &[String]) -> Result<bool> {
        self.finds_any(&[&snapshot.base_manifest_list, &snapshot.delta_manifest_list], files, true).await
    }

    /// Does the base of `snapshot` add any of these paths, whether or not it removes them again?
    pub(super) async fn base_holds_any(&self, snapshot: &Snapshot, files: &[String]) -> Result<bool> {
        self.finds_any(&[&snapshot.base_manifest_list], files, false).await
    }

    /// The newest word on a file decides; so a file that is there is mostly found in the first manifests.
    async fn finds_any(&self, lists: &[&String], files: &[String], mind_removals: bool) -> Result<bool> {
        let mut open: HashSet<&str> = files.iter().map(String::as_str).collect();
        let names: HashSet<&str> = files.iter().map(|f| f.rsplit('/').next().unwrap_or(f)).collect();
        let layout = self.layout();
        let types = layout.partition_types();
        let places = places(files, &layout, &types)?;
        for list in lists.iter().rev() {
            for meta in self.read_list(list).await?.iter().rev() {
                if open.is_empty() {
                    return Ok(false);
                }
                let bounds = Bounds::of(meta, &types);
                if !places.iter().any(|p| p.may_be_in(&bounds)) {
                    continue;
                }
                for entry in self.read_manifest(&meta.name).await?.iter().rev() {
                    let bare = entry.file.external_path.as_deref().map_or(entry.file.name.as_str(), |p| p.rsplit('/').next().unwrap_or(p));
                    if !names.contains(bare) {
                        continue;
                    }
                    let path = self.path_of(entry)?;
                    match entry.kind {
                        EntryKind::Add if open.contains(path.as_str()) => return Ok(true),
                        EntryKind::Delete if mind_removals => drop(open.remove(path.as_str())),
                        _ => {}
                    }
                }
            }
        }
        Ok(false)
    }
}

fn places(files: &[String], layout: &PaimonLayout, types: &[DataType]) -> Result<Vec<Place>> {
    // How null is spelt in each partition column.
    let nulls = layout.bucket_dir(&vec![None; types.len()], 0)?;
    let mut defaults: Vec<String> =
        nulls.rsplit('/').skip(1).take(types.len()).map(|s| s.split_once('=').map_or("", |p| p.1).into()).collect();
    defaults.reverse();
    Ok(files.iter().map(|f| Place::of(f, types, &defaults)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_bucket_and_partition_where_it_can() {
        let types = [DataType::Int, DataType::String, DataType::Date];
        let defaults = ["none".into(), "none".into(), "none".into()];
        let place = |path: &str| Place::of(path, &types, &defaults);
        let all = place("data/n=-5/s=a b/d=19724/bucket-3/data-1-0.parquet");
        assert_eq!(all.bucket, Some(3));
        assert_eq!(all.values, [Some(Scalar::Int(-5)), Some(Scalar::String("a b".into())), Some(Scalar::Date(19724))]);
        let spelt = place("n=none/s=a%2Fb/d=2024-01-02/bucket-postpone/x");
        assert_eq!((spelt.bucket, spelt.values), (None, vec![None, None, Some(Scalar::Date(19724))]));
        assert_eq!(place("x").values, [None, None, None]);
    }
}
