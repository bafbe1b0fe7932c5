use super::*;
use crate::Kind;

fn old(reader: i32, writer: i32) -> Protocol {
    Protocol { min_reader_version: reader, min_writer_version: writer, ..Protocol::default() }
}

/// 3/7, or 1/7 when no feature is the readers' too.
fn with(names: &[&str]) -> Protocol {
    let texts = |names: &mut dyn Iterator<Item = &&str>| names.map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let reader = texts(&mut names.iter().filter(|n| feature(n).is_some_and(|f| f.reader)));
    Protocol {
        min_reader_version: if reader.is_empty() { 1 } else { 3 },
        min_writer_version: 7,
        reader_features: (!reader.is_empty()).then_some(reader),
        writer_features: Some(texts(&mut names.iter())),
    }
}

fn table(properties: &[(&str, &str)], fields: &str) -> Metadata {
    Metadata {
        id: "t".into(),
        schema_string: format!(r#"{{"type":"struct","fields":[{fields}]}}"#),
        configuration: properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        ..Metadata::default()
    }
}

fn plain() -> Metadata {
    table(&[], r#"{"name":"id","type":"long","nullable":true,"metadata":{}}"#)
}

/// Can it be read, and written?
fn fate(protocol: &Protocol, metadata: &Metadata) -> (bool, bool) {
    for e in [check_readable(protocol, metadata), check_writable(protocol, metadata)].into_iter().filter_map(Result::err) {
        assert!(e.next_step().is_some(), "{e}");
    }
    (check_readable(protocol, metadata).is_ok(), check_writable(protocol, metadata).is_ok())
}

#[test]
fn every_feature_is_read_and_written_or_refused_by_its_name() {
    for f in FEATURES {
        let protocol = with(&[f.name]);
        let expected = match f.standing {
            // Row tracking numbers new files unless it is suspended, whether it is enabled or not.
            WhenUnused if f.name == "rowTracking" => (true, false),
            Supported | WhenUnused => (true, true),
            NotWritten => (true, false),
            Refused => (false, false),
        };
        assert_eq!(fate(&protocol, &plain()), expected, "{}", f.name);
        if let Err(e) = check_writable(&protocol, &plain()) {
            assert_eq!(e.kind(), Kind::Invalid);
            assert!(e.message().contains(&format!("`{}`", f.name)), "{e}");
        }
    }
}

#[test]
fn a_feature_that_nobody_knows_is_refused_for_what_it_is_listed_for() {
    let for_writers = with(&["tomorrow"]);
    assert_eq!(fate(&for_writers, &plain()), (true, false));
    let for_both = Protocol { min_reader_version: 3, reader_features: Some(vec!["tomorrow".into()]), ..for_writers };
    assert_eq!(fate(&for_both, &plain()), (false, false));
    assert!(check_readable(&for_both, &plain()).unwrap_err().to_string().contains("`tomorrow`"));
}

#[test]
fn all_features_that_are_missing_are_told_at_once() {
    let e = check_writable(&with(&["appendOnly", "icebergCompatV2", "tomorrow", "collations"]), &plain()).unwrap_err();
    assert!(e.message().contains("`collations`, `icebergCompatV2`, `tomorrow`"), "{e}");
}

#[test]
fn old_versions_imply_their_features_and_are_written_while_nothing_uses_them() {
    for (reader, writer) in [(1, 1), (1, 2), (1, 3), (1, 4), (1, 6), (2, 5), (2, 6)] {
        assert_eq!(fate(&old(reader, writer), &plain()), (true, true), "{reader}/{writer}");
    }
    let names = |protocol: &Protocol| FEATURES.iter().filter(|f| has(protocol, f.name)).map(|f| f.name).collect::<Vec<_>>();
    assert_eq!(names(&old(1, 1)), [""; 0]);
    assert_eq!(names(&old(1, 4)), ["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"]);
    assert!(has(&old(2, 5), "columnMapping") && !has(&old(1, 5), "columnMapping"));
    assert_eq!(names(&with(&["deletionVectors"])), ["deletionVectors"]);
}

#[test]
fn what_is_listed_is_refused_only_when_it_is_used() {
    let column = |metadata: &str| {
        format!(
            r#"{{"name":"s","type":{{"type":"struct","fields":[{{"name":"x","type":"long","nullable":true,"metadata":{metadata}}}]}},"nullable":true,"metadata":{{}}}}"#
        )
    };
    for (name, metadata) in [
        ("invariants", r#"{"delta.invariants":"{}"}"#),
        ("generatedColumns", r#"{"delta.generationExpression":"y + 1"}"#),
        ("identityColumns", r#"{"delta.identity.start":1}"#),
        ("allowColumnDefaults", r#"{"CURRENT_DEFAULT":"7"}"#),
    ] {
        for protocol in [with(&[name]), old(1, 2)] {
            let used = table(&[], &column(metadata));
            assert_eq!(fate(&protocol, &used), (true, false), "{name}");
            let e = check_writable(&protocol, &used).unwrap_err();
            assert!(e.message().contains(&format!("`{name}`")) && e.message().contains("`s.x`"), "{e}");
            assert_eq!(fate(&protocol, &table(&[], &column(r#"{"comment":"c","delta.typeChanges":[]}"#))), (true, true), "{name}");
        }
    }
    let variant = table(&[], &column("{}").replace("\"long\"", "\"variant\""));
    for name in ["variantType", "variantType-preview"] {
        assert_eq!(fate(&with(&[name]), &variant), (false, false), "{name}");
        let e = check_readable(&with(&[name]), &variant).unwrap_err();
        assert!(e.message().contains(&format!("`{name}`")) && e.message().contains("`s.x`"), "{e}");
    }
    let by_property = |name: &str, properties: &[(&str, &str)]| fate(&with(&[name]), &table(properties, ""));
    assert_eq!(by_property("checkConstraints", &[("delta.constraints.positive", "a > 0")]), (true, false));
    assert_eq!(by_property("columnMapping", &[("delta.columnMapping.mode", "none")]), (true, true));
    assert_eq!(by_property("columnMapping", &[("delta.columnMapping.mode", "name")]), (false, false));
    assert_eq!(by_property("columnMapping", &[("delta.columnMapping.mode", "id")]), (false, false));
    assert_eq!(by_property("rowTracking", &[("delta.enableRowTracking", "false")]), (true, false));
    assert_eq!(by_property("rowTracking", &[("delta.rowTrackingSuspended", "true")]), (true, true));
    let both = [("delta.rowTrackingSuspended", "true"), ("delta.enableRowTracking", "true")];
    assert_eq!(by_property("rowTracking", &both), (true, false));
}

#[test]
fn keys_of_column_metadata_are_found_inside_of_lists_and_maps() {
    let inner = r#"{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{"CURRENT_DEFAULT":"1"}}]}"#;
    for nested in [
        format!(r#"{{"type":"array","elementType":{inner},"containsNull":true}}"#),
        format!(r#"{{"type":"map","keyType":"string","valueType":{inner},"valueContainsNull":true}}"#),
        format!(r#"{{"type":"map","keyType":{inner},"valueType":"string","valueContainsNull":true}}"#),
    ] {
        let field = format!(r#"{{"name":"l","type":{nested},"nullable":true,"metadata":{{}}}}"#);
        let e = check_writable(&old(1, 2), &table(&[], &field)).unwrap_err();
        assert!(e.message().contains("`l.x`"), "{e}");
    }
}

#[test]
fn tables_of_catalogs_and_coordinators_are_never_opened() {
    for name in CATALOG {
        assert_eq!(fate(&with(&[name]), &plain()), (false, false), "{name}");
    }
    let coordinated = table(&[("delta.coordinatedCommits.commitCoordinator-preview", "dynamodb")], "");
    assert_eq!(fate(&old(1, 2), &coordinated), (false, false));
}

#[test]
fn protocols_that_contradict_themselves_are_damaged() {
    let list = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
    let of = |reader, writer, reader_features, writer_features| Protocol {
        min_reader_version: reader,
        min_writer_version: writer,
        reader_features,
        writer_features,
    };
    for protocol in [
        of(0, 2, None, None),
        of(1, 0, None, None),
        of(3, 2, list(&[]), None),
        of(3, 7, None, list(&[])),
        of(1, 7, None, None),
        of(1, 2, None, list(&["appendOnly"])),
        of(1, 7, list(&["deletionVectors"]), list(&["deletionVectors"])),
        of(3, 7, list(&["deletionVectors"]), list(&["appendOnly"])),
        of(3, 7, list(&[]), list(&["deletionVectors"])),
        of(1, 7, None, list(&["deletionVectors"])),
        of(1, 7, None, list(&["columnMapping"])),
    ] {
        let e = check_readable(&protocol, &plain()).unwrap_err();
        assert_eq!(e.kind(), Kind::Data, "{protocol:?}: {e}");
    }
    for protocol in [of(2, 7, None, list(&["columnMapping"])), of(1, 2, list(&[]), list(&[])), of(3, 7, list(&[]), list(&[]))] {
        assert_eq!(fate(&protocol, &plain()), (true, true), "{protocol:?}");
    }
    for protocol in [old(4, 7), old(1, 8)] {
        assert_eq!(check_readable(&protocol, &plain()).unwrap_err().kind(), Kind::Invalid);
    }
}

#[test]
fn a_type_needs_its_feature_and_files_are_parquet() {
    let ntz = table(
        &[],
        r#"{"name":"l","type":{"type":"array","elementType":"timestamp_ntz","containsNull":true},"nullable":true,"metadata":{}}"#,
    );
    let e = check_writable(&old(1, 2), &ntz).unwrap_err();
    assert_eq!(e.kind(), Kind::Data);
    assert!(e.message().contains("`l`") && e.message().contains("`timestampNtz`"), "{e}");
    assert_eq!(fate(&with(&["timestampNtz"]), &ntz), (true, true));
    let mut orc = plain();
    orc.format.provider = "orc".into();
    assert_eq!(fate(&old(1, 2), &orc), (false, false));
    let damaged = Metadata { schema_string: "{".into(), ..plain() };
    assert_eq!(check_writable(&old(1, 2), &damaged).unwrap_err().kind(), Kind::Data);
}

#[test]
fn a_new_table_has_the_lowest_protocol_that_its_columns_and_options_allow() {
    let of = |ntz, options: &[(&str, &str)]| {
        let raw = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let protocol = of_new(ntz, &raw);
        check_writable(&protocol, &Metadata { configuration: raw, ..plain() }).unwrap();
        protocol
    };
    assert_eq!(of(false, &[]), old(1, 2));
    assert_eq!(of(false, &[("delta.enableChangeDataFeed", "TRUE")]), old(1, 4));
    assert_eq!(of(false, &[("delta.enableDeletionVectors", "false")]), old(1, 2));
    assert_eq!(of(true, &[]), with(&["appendOnly", "invariants", "timestampNtz"]));
    assert_eq!(of(false, &[("delta.enableInCommitTimestamps", "true")]), with(&["appendOnly", "inCommitTimestamp", "invariants"]));
    assert_eq!(of(false, &[("delta.enableDeletionVectors", "true")]), with(&["appendOnly", "deletionVectors", "invariants"]));
    let all: Vec<String> = CREATABLE.iter().map(|name| format!("{FEATURE_KEY}{name}")).collect();
    let all: Vec<(&str, &str)> = all.iter().map(|key| (key.as_str(), "supported")).collect();
    assert_eq!(of(false, &all), with(&CREATABLE));
    assert_eq!(of(false, &[("delta.feature.icebergCompatV2", "supported")]), old(1, 2), "it is refused before, by its key");
}

#[test]
fn in_commit_timestamps_are_on_when_both_say_so() {
    let on = table(&[("delta.enableInCommitTimestamps", "true")], "");
    assert!(ict_enabled(&with(&["inCommitTimestamp"]), &on));
    assert!(!ict_enabled(&with(&["inCommitTimestamp"]), &plain()));
    assert!(!ict_enabled(&old(1, 2), &on));
}

#[test]
fn clustering_columns_come_from_their_domain() {
    let domains = |configuration: &str, removed| {
        let domain = DomainMetadata { domain: "delta.clustering".into(), configuration: configuration.into(), removed };
        BTreeMap::from([("delta.clustering".to_owned(), domain)])
    };
    let written = r#"{"clusteringColumns":[["a"],["b","c"]],"domainName":"delta.clustering"}"#;
    assert_eq!(clustering_columns(&domains(written, false)).unwrap(), [vec!["a"], vec!["b", "c"]]);
    assert!(clustering_columns(&domains(written, true)).unwrap().is_empty());
    assert!(clustering_columns(&BTreeMap::new()).unwrap().is_empty());
    assert_eq!(clustering_columns(&domains("{}", false)).unwrap_err().kind(), Kind::Data);
}

#[test]
fn the_specification_lists_every_feature_with_the_same_word() {
    let spec = include_str!("../../../../spec/delta-features.md");
    let (_, rest) = spec.split_once("## Features").unwrap();
    let (table, _) = rest.split_once("\n## ").unwrap();
    let mut lines: Vec<&str> = table.lines().filter(|l| l.starts_with("| `")).collect();
    for f in FEATURES {
        let version = f.legacy.map_or("7".to_owned(), |v| v.to_string());
        let whose = if f.reader { "both" } else { "writers" };
        let word = match f.standing {
            Supported => "supported",
            WhenUnused => "when unused",
            NotWritten => "not written",
            Refused => "refused",
        };
        let start = format!("| `{}` | {whose} | {version} | {word} |", f.name);
        let at = lines.iter().position(|l| l.starts_with(&start)).unwrap_or_else(|| panic!("no line {start}"));
        lines.remove(at);
    }
    assert!(lines.is_empty(), "these are in the specification alone: {lines:?}");
}
