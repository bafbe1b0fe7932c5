//! Every option that Paimon knows, and what it is to us. Nothing is read and then ignored: an option is honoured, concerns somebody else, or
//! is refused by its name, for writing, for reading or for both.

use super::RawOptions;
use crate::text::near::distance;

/// What an option is to this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It is done as it says.
    Honoured,
    /// It concerns others, for the reason that this word gives: see `spec/paimon.md`.
    Others(&'static str),
    /// Nothing is written to a table in which it is set to anything but its default. Reading is right without it.
    NotWritten,
    /// Nothing is read from a table in which it is set to anything but its default. Writing is right without it.
    NotRead,
    /// Neither.
    Refused,
}

use Standing::{Honoured, NotRead, NotWritten, Others, Refused};

/// Options by their full names, in groups.
const KNOWN: &[(Standing, &[&str])] = &[
    (
        Honoured,
        &[
            "bucket",
            "bucket-key",
            "bucket-append-ordered",
            "bucket-function.type",
            "consumer.changelog-only",
            "consumer.expiration-time",
            "data-file.path-directory",
            "data-file.prefix",
            "file.compression",
            "file.compression.zstd-level",
            "manifest.compression",
            "manifest.full-compaction-threshold-size",
            "manifest.merge-min-count",
            "manifest.target-file-size",
            "metadata.stats-dense-store",
            "metadata.stats-keep-first-n-columns",
            "metadata.stats-mode",
            "partition.default-name",
            "partition.legacy-name",
            "target-file-size",
        ],
    ),
    (
        Refused,
        &[
            "branch",
            "chain-table.enabled",
            "data-evolution.enabled",
            "deletion-vectors.enabled",
            "manifest.format",
            "partition",
            "primary-key",
            "query-auth.enabled",
            "type",
        ],
    ),
    (
        NotWritten,
        &[
            "changelog-producer",
            "commit.callbacks",
            "commit.strict-mode.last-safe-snapshot",
            "data-file.external-paths",
            "data-file.external-paths.strategy",
            "file.compression.per.level",
            "file.format",
            "file.format.per.level",
            "file.suffix.include.compression",
            "global-index.external-path",
            "log.system",
            "manifest.sidecar.enabled",
            "metadata.iceberg-compatible",
            "metadata.iceberg.storage",
            "metadata.stats-mode.per.level",
            "metastore.partitioned-table",
            "row-tracking.enabled",
            "rowkind.field",
            "upsert-key",
        ],
    ),
    (
        NotRead,
        &[
            "batch-scan-mode",
            "incremental-between",
            "incremental-between-timestamp",
            "incremental-to-auto-tag",
            "scan.creation-time-millis",
            "scan.fallback-branch",
            "scan.fallback-delta-branch",
            "scan.fallback-snapshot-branch",
            "scan.file-creation-time-millis",
            "scan.mode",
            "scan.primary-branch",
            "scan.snapshot-id",
            "scan.tag-name",
            "scan.timestamp",
            "scan.timestamp-millis",
            "scan.version",
            "scan.watermark",
        ],
    ),
    (Others("alter"), &["add-column-before-partition", "alter-column-null-to-not-null.disabled", "disable-explicit-type-casting"]),
    (
        Others("blob"),
        &[
            "blob-as-descriptor",
            "blob-descriptor-field",
            "blob-external-storage-field",
            "blob-external-storage-path",
            "blob-field",
            "blob.split-by-file-size",
            "blob.target-file-size",
        ],
    ),
    (
        Others("catalog"),
        &[
            "auto-create",
            "metastore.tag-to-partition",
            "metastore.tag-to-partition.preview",
            "path",
            "partition.idle-time-to-report-statistic",
        ],
    ),
    (
        Others("changelog"),
        &[
            "changelog-file.compression",
            "changelog-file.format",
            "changelog-file.prefix",
            "changelog-file.stats-mode",
            "changelog-producer.row-deduplicate",
            "changelog-producer.row-deduplicate-ignore-fields",
            "changelog.num-retained.max",
            "changelog.num-retained.min",
            "changelog.time-retained",
            "delete.force-produce-changelog",
            "streaming-read-append-overwrite",
            "streaming-read-overwrite",
        ],
    ),
    (
        Others("commit"),
        &[
            "commit.discard-duplicate-files",
            "commit.force-create-snapshot",
            "commit.max-retries",
            "commit.max-retry-wait",
            "commit.min-retry-wait",
            "commit.timeout",
            "commit.user-prefix",
            "snapshot.ignore-empty-commit",
            "snapshot.watermark-idle-timeout",
            "visibility-callback.check-interval",
            "visibility-callback.enabled",
            "visibility-callback.timeout",
        ],
    ),
    (
        Others("compaction"),
        &[
            "clustering.columns",
            "clustering.history-partition.idle-to-full-sort",
            "clustering.history-partition.limit",
            "clustering.incremental",
            "clustering.incremental.mode",
            "clustering.incremental.optimize-write",
            "clustering.strategy",
            "commit.force-compact",
            "compaction.delete-ratio-threshold",
            "compaction.file-num-limit",
            "compaction.force-rewrite-all-files",
            "compaction.force-up-level-0",
            "compaction.incremental-size-threshold",
            "compaction.max-size-amplification-percent",
            "compaction.max.file-num",
            "compaction.min.file-num",
            "compaction.offpeak-ratio",
            "compaction.offpeak.end.hour",
            "compaction.offpeak.start.hour",
            "compaction.optimization-interval",
            "compaction.size-ratio",
            "compaction.total-size-threshold",
            "full-compaction.delta-commits",
            "num-levels",
            "num-sorted-run.compaction-trigger",
            "num-sorted-run.stop-trigger",
            "sort-compaction.local-sample.magnification",
            "sort-compaction.range-strategy",
            "zorder.var-length-contribution",
        ],
    ),
    (
        Others("deletes"),
        &[
            "deletion-vector.index-file.target-size",
            "deletion-vectors.bitmap64",
            "deletion-vectors.modifiable",
            "manifest.delete-file-drop-stats",
        ],
    ),
    (
        Others("expiry"),
        &[
            "delete-file.thread-num",
            "end-input.check-partition-expire",
            "partition.expiration-batch-size",
            "partition.expiration-check-interval",
            "partition.expiration-max-num",
            "partition.expiration-strategy",
            "partition.expiration-time",
            "partition.timestamp-format.strict",
            "partition.timestamp-formatter",
            "partition.timestamp-pattern",
            "snapshot.clean-empty-directories",
            "snapshot.expire.execution-mode",
            "snapshot.expire.limit",
            "snapshot.num-retained.max",
            "snapshot.num-retained.min",
            "snapshot.time-retained",
            "write-only",
        ],
    ),
    (
        Others("flink"),
        &[
            "materialized-table.definition-query",
            "materialized-table.interval-freshness",
            "materialized-table.interval-freshness.time-unit",
            "materialized-table.logical-refresh-mode",
            "materialized-table.refresh-handler-bytes",
            "materialized-table.refresh-handler-description",
            "materialized-table.refresh-mode",
            "materialized-table.refresh-status",
            "partition.end-input-to-done",
            "partition.mark-done-action",
            "partition.mark-done-action.custom.class",
            "partition.mark-done-action.http.params",
            "partition.mark-done-action.http.url",
            "partition.sink-strategy",
        ],
    ),
    (
        Others("indexes"),
        &[
            "file-index.in-manifest-threshold",
            "file-index.read.enabled",
            "global-index.build.max-parallelism",
            "global-index.build.max-shard",
            "global-index.column-update-action",
            "global-index.enabled",
            "global-index.row-count-per-shard",
            "global-index.thread-num",
            "index-file-in-data-file-dir",
        ],
    ),
    (
        Others("keys"),
        &[
            "aggregation.remove-record-on-delete",
            "cross-partition-upsert.bootstrap-parallelism",
            "cross-partition-upsert.index-ttl",
            "data-file.thin-mode",
            "dynamic-bucket.assigner-parallelism",
            "dynamic-bucket.initial-buckets",
            "dynamic-bucket.max-buckets",
            "dynamic-bucket.target-row-num",
            "fields.default-aggregate-function",
            "force-lookup",
            "ignore-delete",
            "ignore-update-before",
            "key-value.sequence_number.enabled",
            "local-merge-buffer-size",
            "lookup-compact",
            "lookup-compact.max-interval",
            "lookup-wait",
            "merge-engine",
            "partial-update.remove-record-on-delete",
            "partial-update.remove-record-on-sequence-group",
            "pk-clustering-override",
            "postpone.batch-write-fixed-bucket",
            "postpone.batch-write-fixed-bucket.max-parallelism",
            "postpone.default-bucket-num",
            "record-level.expire-time",
            "record-level.time-field",
            "record-level.time-field-type",
            "sequence.field",
            "sequence.field.sort-order",
            "sort-engine",
            "table-read.sequence-number.enabled",
        ],
    ),
    (Others("layout"), &["file.block-size", "parquet.enable.dictionary"]),
    (Others("overwrite"), &["dynamic-partition-overwrite", "overwrite-upgrade"]),
    (
        Others("reading"),
        &[
            "file-operation.thread-num",
            "file-reader-async-threshold",
            "incremental-between-scan-mode",
            "incremental-between-tag-to-snapshot",
            "read.batch-size",
            "scan.ignore-corrupt-files",
            "scan.ignore-lost-files",
            "scan.manifest.parallelism",
            "scan.max-splits-per-task",
            "scan.plan-sort-partition",
            "source.split.open-file-cost",
            "source.split.target-size",
        ],
    ),
    (
        Others("resources"),
        &[
            "async-file-write",
            "cache-page-size",
            "local-sort.max-num-file-handles",
            "page-size",
            "sort-spill-buffer-size",
            "sort-spill-threshold",
            "spill-compression",
            "spill-compression.zstd-level",
            "write-buffer-for-append",
            "write-buffer-size",
            "write-buffer-spill.max-disk-size",
            "write-buffer-spillable",
            "write-manifest-cache",
            "write-max-writers-to-spill",
            "write.batch-memory",
            "write.batch-size",
        ],
    ),
    (
        Others("streaming"),
        &[
            "consumer-id",
            "consumer.ignore-progress",
            "consumer.mode",
            "continuous.discovery-interval",
            "scan.bounded.watermark",
            "stream-scan-mode",
            "streaming-read-mode",
            "streaming.read.snapshot.delay",
        ],
    ),
    (
        Others("tags"),
        &[
            "sink.process-time-zone",
            "sink.watermark-time-zone",
            "tag.automatic-completion",
            "tag.automatic-creation",
            "tag.batch.customized-name",
            "tag.callbacks",
            "tag.create-success-file",
            "tag.creation-delay",
            "tag.creation-period",
            "tag.creation-period-duration",
            "tag.default-time-retained",
            "tag.num-retained-max",
            "tag.period-formatter",
            "tag.time-expire-enabled",
        ],
    ),
    (Others("vectors"), &["vector-field", "vector.file.format", "vector.target-file-size"]),
];

/// Options by how they begin; where two fit, the first one decides.
const FAMILIES: &[(Standing, &str)] = &[
    (NotWritten, "commit.callback."),
    (NotWritten, "file-index."),
    (NotWritten, "pk-bitmap.index."),
    (NotWritten, "pk-btree.index."),
    (NotWritten, "pk-full-text.index."),
    (NotWritten, "pk-vector.index."),
    (Others("blob"), "blob."),
    (Others("catalog"), "hive."),
    (Others("catalog"), "metadata.iceberg."),
    (Others("chain"), "chain-table."),
    (Others("external"), "data-file.external-paths."),
    (Others("flink"), "log."),
    (Others("flink"), "scan."),
    (Others("flink"), "sink."),
    (Others("flink"), "source."),
    (Others("flink"), "unaware-bucket."),
    (Others("format-table"), "format-table."),
    (Others("keys"), "lookup."),
    (Others("layout"), "avro."),
    (Others("layout"), "orc."),
    (Others("layout"), "parquet."),
    (Others("ours"), "lakeward."),
    (Others("tags"), "tag.callback."),
    (Others("variant"), "variant."),
];

/// What `fields.<column>.` may be followed by.
const OF_A_COLUMN: &[(Standing, &str)] = &[
    (Honoured, "stats-mode"),
    (NotWritten, "default-value"),
    (Others("keys"), "aggregate-function"),
    (Others("keys"), "count-limit"),
    (Others("keys"), "distinct"),
    (Others("keys"), "ignore-retract"),
    (Others("keys"), "list-agg-delimiter"),
    (Others("keys"), "nested-key"),
    (Others("keys"), "sequence-group"),
];

/// What is the option of this name? None: it is not one of Paimon's, as far as we know.
pub fn standing(key: &str) -> Option<Standing> {
    let listed = KNOWN.iter().find(|(_, keys)| keys.contains(&key)).map(|(standing, _)| *standing);
    let of_column = || {
        let (_, of) = key.strip_prefix("fields.")?.rsplit_once('.')?;
        OF_A_COLUMN.iter().find(|(_, name)| *name == of).map(|(standing, _)| *standing)
    };
    let family = || FAMILIES.iter().find(|(_, start)| key.starts_with(start)).map(|(standing, _)| *standing);
    listed.or_else(of_column).or_else(family)
}

/// Keys that are none of Paimon's and differ from one of them by a slip, each with the right one.
pub(super) fn slips(raw: &RawOptions) -> Vec<(&str, String)> {
    let mut slips = Vec::new();
    for key in raw.keys().filter(|key| standing(key).is_none()) {
        let of_column = key.strip_prefix("fields.").and_then(|k| k.rsplit_once('.'));
        let nearest = match of_column {
            Some((column, of)) => nearest(of, OF_A_COLUMN.iter().map(|(_, name)| *name)).map(|right| format!("fields.{column}.{right}")),
            None => nearest(key, KNOWN.iter().flat_map(|(_, keys)| keys.iter().copied())).map(str::to_owned),
        };
        slips.extend(nearest.map(|right| (key.as_str(), right)));
    }
    slips
}

/// The name that is at most one edit in five letters away, the nearest first.
fn nearest<'a>(key: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // `_` for `-` and capitals are the usual slips of people who come from other systems.
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', '.'], "-");
    let most = (key.len() / 5).min(3);
    let near = names.map(|name| (distance(&plain(key), &plain(name)), name)).filter(|(far, _)| *far <= most);
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_is_listed_twice() {
        let mut all: Vec<&str> = KNOWN.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
        let listed = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), listed);
    }

    #[test]
    fn the_specification_lists_every_option_with_the_same_word() {
        let spec = include_str!("../../../../spec/paimon.md");
        let (_, table) = spec.split_once("### Every option").unwrap();
        let line_of =
            |word: &str| table.lines().find(|l| l.starts_with(&format!("| {word} |"))).unwrap_or_else(|| panic!("no line {word}"));
        let word = |standing: Standing| match standing {
            Honoured => "honoured",
            Others(word) => word,
            NotWritten => "not written",
            NotRead => "not read",
            Refused => "refused",
        };
        for (standing, keys) in KNOWN {
            for key in *keys {
                assert!(line_of(word(*standing)).contains(&format!("`{key}`")), "{key} is not in the line `{}`", word(*standing));
            }
        }
        for (standing, start) in FAMILIES {
            assert!(line_of(word(*standing)).contains(&format!("`{start}*`")), "{start}* is not in the line `{}`", word(*standing));
        }
        for (standing, of) in OF_A_COLUMN {
            assert!(line_of(word(*standing)).contains(&format!("`fields.<column>.{of}`")), "{of} is not in the line `{}`", word(*standing));
        }
    }

    #[test]
    fn a_slip_is_told_with_the_right_name() {
        for (key, right) in [
            ("target_file_size", Some("target-file-size")),
            ("file-format", Some("file.format")),
            ("target-filesize", Some("target-file-size")),
            ("metadata.stat-mode", Some("metadata.stats-mode")),
            ("Bucket-Key", Some("bucket-key")),
            ("bukcet", Some("bucket")),
            ("bukcte", None), // two edits in six letters may as well be another word
            ("fields.a.stat-mode", Some("fields.a.stats-mode")),
            ("owner", None),
            ("my-team.cost-center", None),
            ("target-file-size", None),
            ("scan.parallelism", None),
        ] {
            let raw = RawOptions::from([(key.to_owned(), "x".to_owned())]);
            assert_eq!(slips(&raw).first().map(|s| s.1.as_str()), right, "{key}");
        }
    }
}
