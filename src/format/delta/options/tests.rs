use super::known::{FAMILIES, KNOWN, Standing, standing};
use super::*;
use crate::Kind;

fn raw(pairs: &[(&str, &str)]) -> RawOptions {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn schema(columns: &[(&str, &str)], partition_by: &[&str]) -> Schema {
    let fields = (0..).zip(columns).map(|(id, (name, text))| Field::parse(id, *name, text).unwrap()).collect();
    Schema { id: 0, fields, partition_by: partition_by.iter().map(|p| (*p).to_owned()).collect() }
}

#[test]
fn the_defaults_are_those_of_the_format() {
    let o = DeltaOptions::parse(&raw(&[])).unwrap();
    assert!(o.check_writable().is_ok());
    assert_eq!((o.append_only, o.stats_as_json, o.stats_as_struct, o.log_cleanup), (false, true, false, true));
    assert_eq!((o.checkpoint_interval, o.target_file_size, o.compression), (100, 256 << 20, Compression::Zstd(1)));
    assert_eq!((o.log_retention, o.file_retention, o.txn_retention), (30 * DAY, 7 * DAY, None));
}

#[test]
fn what_is_honoured_is_read() {
    let o = DeltaOptions::parse(&raw(&[
        ("delta.appendOnly", "TRUE"),
        ("delta.checkpointInterval", "7"),
        ("delta.checkpoint.writeStatsAsJson", "false"),
        ("delta.checkpoint.writeStatsAsStruct", "true"),
        ("delta.logRetentionDuration", "interval 1 week"),
        ("delta.enableExpiredLogCleanup", "false"),
        ("delta.deletedFileRetentionDuration", "2 days"),
        ("delta.setTransactionRetentionDuration", "interval 90 days"),
        ("delta.targetFileSize", "64mb"),
        ("delta.parquet.compression.codec", "ZSTD"),
        ("lakeward.zstd-level", "9"),
    ]))
    .unwrap();
    assert!(o.check_writable().is_ok());
    assert_eq!((o.append_only, o.stats_as_json, o.stats_as_struct, o.log_cleanup), (true, false, true, false));
    assert_eq!((o.checkpoint_interval, o.target_file_size, o.compression), (7, 64 << 20, Compression::Zstd(9)));
    assert_eq!((o.log_retention, o.file_retention, o.txn_retention), (7 * DAY, 2 * DAY, Some(90 * DAY)));
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (key, value, read) in [
        ("delta.columnMapping.mode", "name", false),
        ("delta.coordinatedCommits.commitCoordinator-preview", "dynamodb", false),
        ("delta.redirectReaderWriter-preview", "{}", false),
        ("delta.constraints.positive", "a > 0", true),
        ("delta.constraints.positive", "false", true),
        ("delta.enableRowTracking", "true", true),
        ("delta.enableIcebergCompatV2", "true", true),
        ("delta.universalFormat.enabledFormats", "iceberg", true),
        ("delta.compatibility.symlinkFormatManifest.enabled", "true", true),
        ("delta.requireCheckpointProtectionBeforeVersion", "12", true),
        ("delta.setTransactionRetentionDuration", "interval 29 days", true),
        ("delta.setTransactionRetentionDuration", "soon", true),
        ("delta.logRetentionDuration", "interval 1 month", true),
        ("delta.deletedFileRetentionDuration", "interval -1 days", true),
        ("delta.checkpointInterval", "0", true),
        ("delta.appendOnly", "yes", true),
        ("delta.enableChangeDataFeed", "on", true),
        ("delta.dataSkippingNumIndexedCols", "-2", true),
        ("delta.dataSkippingStatsColumns", "a,,b", true),
        ("delta.dataSkippingStringPrefixLength", "-1", true),
        ("delta.parquet.compression.codec", "brotli", true),
        ("delta.targetFileSize", "0", true),
        ("delta.targetFileSize", "large", true),
        ("lakeward.zstd-level", "23", true),
    ] {
        let parsed = DeltaOptions::parse(&raw(&[(key, value)]));
        assert_eq!(parsed.is_ok(), read, "{key} = {value}");
        let e = parsed.and_then(|o| o.check_writable()).unwrap_err();
        assert_eq!(e.kind(), Kind::Invalid);
        assert!(e.message().contains(&format!("`{key}`")), "{e}");
        assert!(e.next_step().is_some(), "{e}");
        assert!(DeltaOptions::check_new(&raw(&[(key, value)])).is_err(), "{key} = {value} in a new table");
    }
}

#[test]
fn switches_that_are_off_and_words_of_others_harm_nobody() {
    let o = DeltaOptions::parse(&raw(&[
        ("delta.columnMapping.mode", "none"),
        ("delta.enableRowTracking", "false"),
        ("delta.enableIcebergCompatV1", "FALSE"),
        ("delta.requireCheckpointProtectionBeforeVersion", "0"),
        ("delta.universalFormat.enabledFormats", ""),
        ("delta.setTransactionRetentionDuration", "interval 30 days"),
        ("delta.minReaderVersion", "1"),
        ("delta.feature.timestampNtz", "supported"),
        ("delta.autoOptimize.autoCompact", "true"),
        ("delta.tomorrow", "whatever"),
        ("owner", "me"),
    ]));
    assert!(o.unwrap().check_writable().is_ok());
}

#[test]
fn a_new_table_takes_no_slip_no_layout_and_no_accounts_of_others() {
    for (key, value, told) in [
        ("delta.checkpointinterval", "5", "did you mean `delta.checkpointInterval`?"),
        ("checkpointInterval", "5", "did you mean `delta.checkpointInterval`?"),
        ("delta.apendOnly", "true", "did you mean `delta.appendOnly`?"),
        ("delta.tomorrow", "1", "`delta.tomorrow`"),
        ("lakeward.tomorrow", "1", "`lakeward.tomorrow`"),
        ("target-file-size", "1 mb", "did you mean `delta.targetFileSize`?"),
        ("file.compression", "zstd", "did you mean `delta.parquet.compression.codec`?"),
        ("file.compression.zstd-level", "3", "did you mean `lakeward.zstd-level`?"),
        ("bucket", "4", "`bucket`"),
        ("delta.minWriterVersion", "7", "the protocol follows"),
        ("delta.feature.icebergCompatV2", "supported", "`icebergCompatV2`"),
        ("delta.feature.timestampNTZ", "supported", "did you mean `timestampNtz`?"),
        ("delta.feature.timestampNtz", "no", "it takes `supported`"),
        ("delta.randomizeFilePrefixes", "true", "laid out"),
        ("delta.parquet.format.version", "2.12.0", "laid out"),
        ("delta.columnMapping.maxColumnId", "3", "accounts"),
        ("delta.checkpointPolicy", "v2", "`classic`"),
    ] {
        let e = DeltaOptions::check_new(&raw(&[(key, value)])).unwrap_err();
        assert_eq!(e.kind(), Kind::Invalid);
        assert!(e.to_string().contains(told), "{key}: {e}");
    }
    for (key, value) in [
        ("owner", "me"),
        ("comment", "x"),
        ("my-team.cost-center", "3"),
        ("delta.autoOptimize.optimizeWrite", "true"),
        ("delta.checkpointPolicy", "classic"),
        ("delta.enableDeletionVectors", "true"),
        ("delta.feature.timestampNtz", "supported"),
        ("sink.parallelism", "3"),
    ] {
        assert!(DeltaOptions::check_new(&raw(&[(key, value)])).is_ok(), "{key}");
    }
}

#[test]
fn features_of_a_new_table_stand_in_the_protocol_and_not_among_its_properties() {
    let kept =
        DeltaOptions::configuration_of_new(&raw(&[("delta.feature.timestampNtz", "supported"), ("delta.appendOnly", "true"), ("a", "b")]));
    assert_eq!(kept, raw(&[("delta.appendOnly", "true"), ("a", "b"), ("delta.checkpointInterval", "100")]));
}

#[test]
fn intervals_are_read_as_spark_reads_them() {
    for (text, seconds) in [
        ("interval 30 days", Some(30 * 86400)),
        ("INTERVAL 1 WEEK", Some(7 * 86400)),
        ("2 weeks", Some(14 * 86400)),
        ("interval 1 day 2 hours 3 minutes 4 seconds", Some(86400 + 7384)),
        ("interval '7' day", Some(7 * 86400)),
        ("interval 1 week -1 day", Some(6 * 86400)),
        ("interval 0 days", Some(0)),
        ("  interval   5   minutes ", Some(300)),
        ("1500 milliseconds", Some(1)),
        ("interval 1.5 seconds", Some(1)),
        ("interval 1.5 days", None),
        ("interval 1 month", None),
        ("interval 1 year", None),
        ("interval", None),
        ("", None),
        ("30", None),
        ("days 30", None),
        ("interval -1 days", None),
        ("interval 99999999999999999999 days", None),
        ("interval 1 é", None),
    ] {
        assert_eq!(interval(text).map(|d| d.as_secs()), seconds, "{text}");
    }
}

#[test]
fn sizes_are_read_as_spark_reads_them() {
    for (text, bytes) in [
        ("104857600", Some(104_857_600)),
        ("100mb", Some(100 << 20)),
        ("1 GB", Some(1 << 30)),
        ("5k", Some(5120)),
        ("1.5g", None),
        ("mb", None),
    ] {
        assert_eq!(size(text), bytes, "{text}");
    }
}

#[test]
fn lists_of_columns_are_read_with_their_backticks() {
    let read = |text: &str| column_paths(text).map(|paths| paths.iter().map(|p| p.join("/")).collect::<Vec<_>>());
    assert_eq!(read("a, b.c ,`d,e`.`f``g`"), Some(vec!["a".into(), "b/c".into(), "d,e/f`g".into()]));
    assert_eq!(read(" "), Some(vec![]));
    for wrong in ["a,", ",a", "a..b", "`a", "`a`b", "a b`c`"] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn statistics_are_of_the_first_leaves_and_of_no_partition_column() {
    let s = schema(
        &[("p", "STRING"), ("r", "ROW<x INT, y ROW<z INT>>"), ("a", "STRING"), ("b", "BYTES"), ("l", "ARRAY<INT>"), ("c", "INT")],
        &["p"],
    );
    let modes = |pairs: &[(&str, &str)], clustering: &[Vec<String>]| {
        let w = DeltaOptions::parse(&raw(pairs)).unwrap().writer_options(&s, clustering, 1).unwrap();
        assert_eq!((w.stats, w.shape, w.memory), (None, FileShape::Delta, 1));
        ["p", "r", "a", "b", "l", "c"].map(|name| w.stats_mode(name))
    };
    use StatsMode::{Counts, None, Truncate};
    assert_eq!(modes(&[], &[]), [None, None, Truncate(32), Counts, Counts, Truncate(32)]);
    const COLUMNS: &str = "delta.dataSkippingNumIndexedCols";
    assert_eq!(modes(&[(COLUMNS, "3")], &[]), [None, None, Truncate(32), None, None, None]);
    assert_eq!(modes(&[(COLUMNS, "0")], &[]), [None; 6]);
    assert_eq!(modes(&[(COLUMNS, "-1")], &[])[5], Truncate(32));
    assert_eq!(modes(&[(COLUMNS, "0")], &[vec!["C".into()]])[5], Truncate(32), "clustering columns always have some");
    let named = [(COLUMNS, "0"), ("delta.dataSkippingStatsColumns", "C, r.x"), ("delta.dataSkippingStringPrefixLength", "5")];
    assert_eq!(modes(&named, &[]), [None, None, None, None, None, Truncate(5)]);
    assert_eq!(modes(&[("delta.dataSkippingStringPrefixLength", "0")], &[])[2], Counts);
    for unfit in [vec!["r".to_owned(), "x".to_owned()], vec!["nobody".to_owned()], vec!["r".to_owned()]] {
        let e = DeltaOptions::parse(&raw(&[])).unwrap().writer_options(&s, std::slice::from_ref(&unfit), 1).unwrap_err();
        assert!(e.message().contains(&format!("`{}`", unfit.join("."))), "{e}");
    }
}

#[test]
fn no_property_is_listed_twice() {
    let mut all: Vec<&str> = KNOWN.iter().flat_map(|(_, keys)| keys.iter().copied()).collect();
    let listed = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), listed);
    for (key, _) in ALLOWED {
        assert!(matches!(standing(key), Some(Standing::Refused | Standing::NotWritten)), "{key}");
    }
}

#[test]
fn the_specification_lists_every_property_with_the_same_word() {
    let spec = include_str!("../../../../spec/delta-features.md");
    let (_, table) = spec.split_once("### Every property").unwrap();
    let line_of = |word: &str| table.lines().find(|l| l.starts_with(&format!("| {word} |"))).unwrap_or_else(|| panic!("no line {word}"));
    let word = |standing: Standing| match standing {
        Standing::Honoured => "honoured",
        Standing::Others(word) => word,
        Standing::NotWritten => "not written",
        Standing::Refused => "refused",
    };
    let families = FAMILIES.iter().map(|(standing, start)| (*standing, format!("{start}*")));
    let listed = KNOWN.iter().flat_map(|(standing, keys)| keys.iter().map(|key| (*standing, (*key).to_owned())));
    let all: Vec<(Standing, String)> = listed.chain(families).collect();
    for (standing, key) in &all {
        assert!(line_of(word(*standing)).contains(&format!("`{key}`")), "{key} is not in the line `{}`", word(*standing));
    }
    let (table, _) = table.split_once("\n\n##").unwrap_or((table, ""));
    let keys = |line: &str| line.split('|').nth(3).map_or(0, |keys| keys.matches('`').count() / 2);
    let written = table.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| standing")).map(keys);
    assert_eq!(written.sum::<usize>(), all.len(), "some are in the specification alone");
}
