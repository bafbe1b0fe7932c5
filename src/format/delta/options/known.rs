//! Every table property that Delta knows, and what it is to us. Nothing is read and then ignored: a property is honoured, concerns somebody
//! else, or is refused by its name.

use super::RawOptions;
use crate::format::delta::protocol::{FEATURE_KEY, FEATURES, creatable};
use crate::format::paimon::options::known as paimon;
use crate::text::near::distance;

/// What a table property is to this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It is done as it says.
    Honoured,
    /// It concerns others, for the reason that this word gives: see `spec/delta-features.md`.
    Others(&'static str),
    /// Nothing is written to a table in which it is set to anything but its default.
    NotWritten,
    /// Nor is anything read from it.
    Refused,
}

use Standing::{Honoured, NotWritten, Others, Refused};

/// Properties by their full names, in groups.
pub(super) const KNOWN: &[(Standing, &[&str])] = &[
    (
        Honoured,
        &[
            "delta.appendOnly",
            "delta.checkpoint.writeStatsAsJson",
            "delta.checkpoint.writeStatsAsStruct",
            "delta.checkpointInterval",
            "delta.dataSkippingNumIndexedCols",
            "delta.dataSkippingStatsColumns",
            "delta.dataSkippingStringPrefixLength",
            "delta.deletedFileRetentionDuration",
            "delta.enableChangeDataFeed",
            "delta.enableExpiredLogCleanup",
            "delta.enableInCommitTimestamps",
            "delta.logRetentionDuration",
            "delta.parquet.compression.codec",
            "delta.rowTrackingSuspended",
            "delta.setTransactionRetentionDuration",
            "delta.targetFileSize",
            "lakeward.zstd-level",
        ],
    ),
    (Refused, &["delta.columnMapping.mode", "delta.redirectReaderWriter-preview"]),
    (
        NotWritten,
        &[
            "delta.compatibility.symlinkFormatManifest.enabled",
            "delta.enableIcebergCompatV1",
            "delta.enableIcebergCompatV2",
            "delta.enableIcebergCompatV3",
            "delta.enableIcebergWriterCompatV1",
            "delta.enableIcebergWriterCompatV3",
            "delta.enableInCommitTimestamps-preview",
            "delta.enableMaterializePartitionColumnsFeature",
            "delta.enableRecordLevelIndex",
            "delta.enableRowTracking",
            "delta.redirectWriterOnly-preview",
            "delta.requireCheckpointProtectionBeforeVersion",
            "delta.universalFormat.enabledFormats",
            "delta.writePartitionColumnsToParquet",
        ],
    ),
    (Others("alter"), &["delta.enableTypeWidening"]),
    (Others("catalog"), &["delta.lastCommitTimestamp", "delta.lastUpdateVersion"]),
    (Others("checkpoints"), &["delta.checkpointPolicy", "delta.checkpointPolicy-dev"]),
    (
        Others("compaction"),
        &["delta.autoOptimize", "delta.autoOptimize.autoCompact", "delta.autoOptimize.optimizeWrite", "delta.tuneFileSizesForRewrites"],
    ),
    (Others("conflicts"), &["delta.isolationLevel"]),
    (Others("convert"), &["delta.castIcebergTimeType", "delta.ignoreIcebergBucketPartition"]),
    (Others("deletes"), &["delta.enableChangeDataCapture", "delta.enableDeletionVectors"]),
    (
        Others("expiry"),
        &[
            "delta.checkpointRetentionDuration",
            "delta.dropFeatureTruncateHistory.retentionDuration",
            "delta.enableFullRetentionRollback",
            "delta.sampleRetentionDuration",
        ],
    ),
    (
        Others("kept"),
        &[
            "delta.columnMapping.maxColumnId",
            "delta.inCommitTimestampEnablementTimestamp",
            "delta.inCommitTimestampEnablementTimestamp-preview",
            "delta.inCommitTimestampEnablementVersion",
            "delta.inCommitTimestampEnablementVersion-preview",
            "delta.rowTracking.materializedRowCommitVersionColumnName",
            "delta.rowTracking.materializedRowIdColumnName",
        ],
    ),
    (
        Others("layout"),
        &[
            "delta.parquet.format.version",
            "delta.parquet.format.version.afe.internal",
            "delta.randomPrefixLength",
            "delta.randomizeFilePrefixes",
        ],
    ),
    (Others("protocol"), &["delta.ignoreProtocolDefaults", "delta.minReaderVersion", "delta.minWriterVersion"]),
    (Others("variant"), &["delta.enableVariantShredding"]),
];

/// Properties by how they begin; where two fit, the first one decides.
pub(super) const FAMILIES: &[(Standing, &str)] = &[
    (NotWritten, "delta.constraints."),
    (Others("protocol"), FEATURE_KEY),
    (Others("uniform"), "delta.universalFormat."),
    (Others("uniform"), "delta.universalformat.config."),
    (Refused, "delta.coordinatedCommits."),
];

/// What is the property of this name? None: it is not one of Delta's, as far as we know.
pub fn standing(key: &str) -> Option<Standing> {
    let listed = KNOWN.iter().find(|(_, keys)| keys.contains(&key)).map(|(standing, _)| *standing);
    listed.or_else(|| FAMILIES.iter().find(|(_, start)| key.starts_with(start)).map(|(standing, _)| *standing))
}

/// What a Paimon table calls what a Delta table has too.
const OF_PAIMON: [(&str, &str); 6] = [
    ("file.compression", "delta.parquet.compression.codec"),
    ("file.compression.zstd-level", "lakeward.zstd-level"),
    ("metadata.stats-keep-first-n-columns", "delta.dataSkippingNumIndexedCols"),
    ("metadata.stats-mode", "delta.dataSkippingStringPrefixLength"),
    ("snapshot.time-retained", "delta.logRetentionDuration"),
    ("target-file-size", "delta.targetFileSize"),
];

/// The first key that is not known though it says that it is, or should be: with the right one, if one is near. Keys of the user's own are
/// free as long as they are nobody else's.
pub(super) fn slip(raw: &RawOptions) -> Option<(&str, Option<String>)> {
    raw.keys().map(String::as_str).filter(|key| standing(key).is_none()).find_map(|key| {
        if let Some((_, right)) = OF_PAIMON.iter().find(|(theirs, _)| *theirs == key) {
            return Some((key, Some((*right).to_owned())));
        }
        let near = nearest(key).map(str::to_owned);
        let lower = key.to_ascii_lowercase();
        let claims = lower.starts_with("delta.") || lower.starts_with("lakeward.");
        // A word of Paimon's that does something there would do nothing here.
        let theirs = paimon::standing(key).is_some_and(|standing| !matches!(standing, paimon::Standing::Others(_)));
        (claims || theirs || near.is_some()).then_some((key, near))
    })
}

/// The name that is at most one edit in five letters away, the nearest first; the prefix may be missing.
fn nearest(key: &str) -> Option<&'static str> {
    let plain = |text: &str| {
        let text = text.to_ascii_lowercase().replace(['_', '-', '.'], "");
        text.strip_prefix("delta").map(str::to_owned).unwrap_or(text)
    };
    let wanted = plain(key);
    let most = (wanted.len() / 5).min(3);
    let names = KNOWN.iter().flat_map(|(_, keys)| keys.iter().copied());
    let near = names.map(|name| (distance(&wanted, &plain(name)), name)).filter(|(far, _)| *far <= most);
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

/// The feature of a key `delta.feature.<name>`, if a new table cannot be made with it; inner: the nearest one, if it is a slip.
pub(super) fn uncreatable(key: &str) -> Option<(&str, Option<&'static str>)> {
    let name = key.strip_prefix(FEATURE_KEY).filter(|name| !creatable(name))?;
    let near = FEATURES.iter().map(|f| (distance(&name.to_ascii_lowercase(), &f.name.to_ascii_lowercase()), f.name));
    let near = near.filter(|(far, near)| *far <= (name.len() / 5).min(3) && *near != name && creatable(near));
    Some((name, near.min_by_key(|(far, _)| *far).map(|(_, near)| near)))
}
