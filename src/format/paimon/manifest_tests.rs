use apache_avro::{DeflateSettings, Schema, ZstandardSettings};

use super::super::row;
use super::*;

fn entry(name: &str) -> ManifestEntry {
    let stats = RawStats { min: row::EMPTY.to_vec(), max: vec![1, 2], nulls: vec![Some(3), None, Some(i64::MAX)] };
    ManifestEntry {
        kind: EntryKind::Delete,
        partition: row::EMPTY.to_vec(),
        bucket: 0,
        total_buckets: -1,
        file: FileMeta {
            name: name.into(),
            size: i64::MAX,
            rows: 300,
            min_key: row::EMPTY.to_vec(),
            max_key: row::EMPTY.to_vec(),
            key_stats: RawStats::empty(),
            value_stats: stats,
            min_sequence: i64::MIN,
            max_sequence: -1,
            schema_id: 64,
            level: 5,
            extra_files: vec!["x".into(), String::new()],
            creation_time: Some(1795966155192),
            delete_rows: Some(0),
            embedded_index: Some(vec![0, 255]),
            source: Some(1),
            value_stats_cols: Some(vec!["größe".into()]),
            external_path: Some("s3://b/k".into()),
            first_row_id: Some(7),
            write_cols: Some(vec![]),
            write_cols_sequences: Some(vec![-9]),
        },
    }
}

fn bare(name: &str) -> ManifestEntry {
    let file = FileMeta {
        name: name.into(),
        min_key: row::EMPTY.to_vec(),
        max_key: row::EMPTY.to_vec(),
        key_stats: RawStats::empty(),
        value_stats: RawStats::empty(),
        ..FileMeta::default()
    };
    ManifestEntry { kind: EntryKind::Add, partition: row::EMPTY.to_vec(), bucket: 3, total_buckets: 4, file }
}

#[test]
fn our_own_files_read_by_hand_say_the_same_as_by_the_general_reader() {
    let entries = [entry("a"), bare("b"), entry("c")];
    let metas = [meta(None), meta(Some((1, 2)))];
    for codec in [Codec::Null, Codec::Snappy, Codec::Deflate(DeflateSettings::default()), Codec::Zstandard(ZstandardSettings::new(3))] {
        let bytes = encode_manifest(&entries, codec, [7; 16]).unwrap();
        assert_eq!(own::decode(&bytes, &ENTRY_SCHEMA, own::entry).unwrap(), entries);
        assert_eq!(decode_whole(&bytes).unwrap().unwrap(), entries);
        let list = encode_list(&metas, codec, [7; 16]).unwrap();
        assert_eq!(own::decode(&list, &LIST_SCHEMA, own::meta).unwrap(), metas);
        // Cut or changed anywhere, it is left to the general reader or reads as something; it never panics.
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x81;
            let _ = own::decode(&changed, &ENTRY_SCHEMA, own::entry);
            assert!(at == 0 || own::decode(&bytes[..at], &ENTRY_SCHEMA, own::entry).is_none_or(|e| e.len() < 3));
        }
    }
}

#[test]
fn a_manifest_with_a_field_that_we_do_not_know_is_read_and_not_taken_for_whole() {
    let bytes = encode_manifest(&[entry("a")], Codec::Null, [7; 16]).unwrap();
    let renamed = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    let other_names = renamed("org.apache.paimon.avro.generated.record", "org.apache.paimon.avro.generated.recorD");
    assert_eq!(decode_whole(&other_names).unwrap().unwrap(), [entry("a")], "names of records do not matter");
    for (from, to) in [("_WRITE_COLS_SEQUENCES", "_FIELD_OF_TIMES_AHEAD"), ("_NULL_COUNTS", "_BULL_COUNTS")] {
        let changed = renamed(from, to);
        assert_eq!(decode_manifest(&changed).unwrap()[0].file.name, "a");
        assert_eq!(decode_whole(&changed).unwrap(), None, "{to}");
    }
}

fn meta(row_ids: Option<(i64, i64)>) -> ManifestMeta {
    ManifestMeta {
        name: "manifest-1-0".into(),
        size: 1234,
        added: 2,
        deleted: 1,
        partition_stats: RawStats { min: vec![1], max: vec![2], nulls: vec![Some(0)] },
        schema_id: 3,
        buckets: Some((0, 5)),
        levels: row_ids.map(|_| (0, 0)),
        row_ids,
    }
}

fn codecs() -> [Codec; 4] {
    [Codec::Null, Codec::Deflate(DeflateSettings::default()), Codec::Snappy, Codec::Zstandard(ZstandardSettings::new(1))]
}

#[test]
fn manifests_and_lists_survive_the_way_there_and_back_in_every_codec() {
    for codec in codecs() {
        let entries = vec![entry("a"), bare("b")];
        assert_eq!(decode_manifest(&encode_manifest(&entries, codec, [7; 16]).unwrap()).unwrap(), entries, "{codec:?}");
        let metas = vec![meta(None), meta(Some((5, 9)))];
        assert_eq!(decode_list(&encode_list(&metas, codec, [7; 16]).unwrap()).unwrap(), metas, "{codec:?}");
    }
}

#[test]
fn an_empty_list_is_a_container_without_blocks() {
    let bytes = encode_list(&[], Codec::Zstandard(ZstandardSettings::new(1)), [9; 16]).unwrap();
    assert!(bytes.ends_with(&[9; 16]));
    assert_eq!(decode_list(&bytes).unwrap(), vec![]);
}

#[test]
fn long_manifests_have_several_blocks() {
    let entries: Vec<_> = (0..4000).map(|i| entry(&format!("data-{i}"))).collect();
    let bytes = encode_manifest(&entries, Codec::Zstandard(ZstandardSettings::new(1)), *b"0123456789abcdef").unwrap();
    assert!(bytes.windows(16).filter(|w| w == b"0123456789abcdef").count() > 2);
    assert_eq!(decode_manifest(&bytes).unwrap(), entries);
}

#[test]
fn the_top_fields_are_those_that_java_demands() {
    let Schema::Record(top) = Schema::parse_str(&entry_schema()).unwrap() else { panic!() };
    let types: Vec<_> = top.fields.iter().map(|f| (f.name.as_str(), f.schema.clone())).collect();
    assert!(matches!(
        types.as_slice(),
        [
            ("_VERSION", Schema::Int),
            ("_KIND", Schema::Int),
            ("_PARTITION", Schema::Bytes),
            ("_BUCKET", Schema::Int),
            ("_TOTAL_BUCKETS", Schema::Int),
            ("_FILE", Schema::Record(_))
        ]
    ));
    assert_eq!(top.name.to_string(), "org.apache.paimon.avro.generated.record");
}

/// Writes `records` with another writer's schema.
fn others(schema: &str, records: Vec<Value>) -> Vec<u8> {
    let schema = Schema::parse_str(schema).unwrap();
    let mut writer = apache_avro::Writer::new(&schema, Vec::new()).unwrap();
    for r in records {
        writer.append_value(r).unwrap();
    }
    writer.into_inner().unwrap()
}

#[test]
fn a_short_file_record_and_a_top_record_in_a_union_are_read() {
    let nested = record(
        "f",
        &[
            field("_FILE_NAME", r#""string""#),
            field("_FILE_SIZE", r#""long""#),
            field("_ROW_COUNT", r#""long""#),
            field("_MIN_KEY", r#""bytes""#),
            field("_MAX_KEY", r#""bytes""#),
            field("_KEY_STATS", &stats("k")),
            field("_VALUE_STATS", &stats("v")),
            field("_MIN_SEQUENCE_NUMBER", r#""long""#),
            field("_MAX_SEQUENCE_NUMBER", r#""long""#),
            field("_SCHEMA_ID", r#""long""#),
            field("_LEVEL", r#""int""#),
        ],
    );
    let top = record(
        "t",
        &[
            optional("_KIND", r#""int""#),
            field("_BUCKET", r#""int""#),
            field("_PARTITION", r#""bytes""#),
            field("_TOTAL_BUCKETS", r#""int""#),
            field("_FILE", &nested),
        ],
    );
    let b = || Value::Bytes(row::EMPTY.to_vec());
    let named = |fields: Vec<(&str, Value)>| Value::Record(fields.into_iter().map(|(n, v)| (n.to_owned(), v)).collect());
    let st = || named(vec![("_MIN_VALUES", b()), ("_MAX_VALUES", b()), ("_NULL_COUNTS", Value::Union(0, Box::new(Value::Null)))]);
    let file = named(vec![
        ("_FILE_NAME", Value::String("b".into())),
        ("_FILE_SIZE", Value::Long(1)),
        ("_ROW_COUNT", Value::Long(2)),
        ("_MIN_KEY", b()),
        ("_MAX_KEY", b()),
        ("_KEY_STATS", st()),
        ("_VALUE_STATS", st()),
        ("_MIN_SEQUENCE_NUMBER", Value::Long(0)),
        ("_MAX_SEQUENCE_NUMBER", Value::Long(0)),
        ("_SCHEMA_ID", Value::Long(0)),
        ("_LEVEL", Value::Int(0)),
    ]);
    let one = named(vec![
        ("_KIND", Value::Union(1, Box::new(Value::Int(0)))),
        ("_BUCKET", Value::Int(3)),
        ("_PARTITION", b()),
        ("_TOTAL_BUCKETS", Value::Int(4)),
        ("_FILE", file),
    ]);
    let bytes = others(&format!(r#"["null",{top}]"#), vec![Value::Union(1, Box::new(one))]);
    let mut want = bare("b");
    (want.file.size, want.file.rows) = (1, 2);
    assert_eq!(decode_manifest(&bytes).unwrap(), vec![want]);
}

#[test]
fn garbage_is_data_and_never_a_panic() {
    assert_eq!(decode_manifest(b"").unwrap_err().kind(), crate::Kind::Data);
    assert_eq!(decode_list(b"Obj\x01nonsense").unwrap_err().kind(), crate::Kind::Data);
    let list = encode_list(&[meta(None)], Codec::Null, [7; 16]).unwrap();
    assert!(decode_manifest(&list).unwrap_err().message().contains("_KIND"));
    let good = encode_manifest(&[entry("a")], Codec::Zstandard(ZstandardSettings::new(1)), [7; 16]).unwrap();
    for cut in 0..good.len() {
        let _ = decode_manifest(&good[..cut]);
    }
    for i in (0..good.len()).step_by(3) {
        let mut bad = good.clone();
        bad[i] ^= 0x55;
        let _ = decode_manifest(&bad);
    }
}
