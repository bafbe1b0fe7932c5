use super::*;
use crate::Kind;

fn schema(columns: &[(&str, &str)]) -> Schema {
    let fields: Vec<_> = columns.iter().zip(0..).map(|((n, t), id)| Field::parse(id, *n, t).unwrap()).collect();
    Schema { id: 0, partition_by: fields.iter().map(|f| f.name.clone()).collect(), fields }
}
fn layout(columns: &[(&str, &str)]) -> DeltaLayout {
    DeltaLayout::new(&schema(columns), Compression::Zstd(1))
}
fn text(s: &str) -> Option<Scalar> {
    Some(Scalar::String(s.into()))
}
fn ty(text: &str) -> DataType {
    DataType::parse(text).unwrap().0
}

#[test]
fn values_are_spelt_as_all_engines_read_them() {
    let us = 1_704_070_800_500_000; // 2024-01-01 01:00:00.5
    for (data_type, value, want, directory) in [
        ("STRING", Scalar::String("a/b %é".into()), "a/b %é", "a/b %é"),
        ("BOOLEAN", Scalar::Bool(true), "true", "true"),
        ("TINYINT", Scalar::Int(-128), "-128", "-128"),
        ("BIGINT", Scalar::Int(i64::MIN), "-9223372036854775808", "-9223372036854775808"),
        ("DECIMAL(10, 2)", Scalar::Decimal(100), "1.00", "1.00"),
        ("DECIMAL(10, 2)", Scalar::Decimal(150), "1.50", "1.50"),
        ("DECIMAL(10, 2)", Scalar::Decimal(-5), "-0.05", "-0.05"),
        ("DECIMAL(38, 38)", Scalar::Decimal(1), "0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"),
        ("DECIMAL(3, 0)", Scalar::Decimal(-7), "-7", "-7"),
        ("DATE", Scalar::Date(19_724), "2024-01-02", "2024-01-02"),
        ("DATE", Scalar::Date(-719_162), "0001-01-01", "0001-01-01"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", Scalar::Timestamp(us), "2024-01-01T01:00:00.500000Z", "2024-01-01 01:00:00.500000"),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", Scalar::Timestamp(-1), "1969-12-31T23:59:59.999999Z", "1969-12-31 23:59:59.999999"),
        ("TIMESTAMP(6)", Scalar::Timestamp(us), "2024-01-01 01:00:00.500000", "2024-01-01 01:00:00.500000"),
        ("DOUBLE", Scalar::Double(1e10), "1.0E10", "1.0E10"),
    ] {
        let data_type = ty(data_type);
        assert_eq!(to_text(&data_type, Some(&value)).unwrap().as_deref(), Some(want));
        assert_eq!(to_directory(&data_type, Some(&value)).unwrap().as_deref(), Some(directory));
        assert_eq!(from_text(&data_type, Some(want)).unwrap(), Some(value));
    }
}

#[test]
fn floats_are_spelt_as_java_spells_them() {
    for (v, want) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-12.5, "-12.5"),
        (0.001, "0.001"),
        (0.0123, "0.0123"),
        (9_999_999.0, "9999999.0"),
        (1234567.25, "1234567.25"),
        (1e7, "1.0E7"),
        (1.5e-4, "1.5E-4"),
        (f64::MAX, "1.7976931348623157E308"),
        (f64::NAN, "NaN"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        let got = to_text(&DataType::Double, Some(&Scalar::Double(v))).unwrap().unwrap();
        assert_eq!(got, want);
        let Some(Scalar::Double(back)) = from_text(&DataType::Double, Some(&got)).unwrap() else { panic!() };
        assert_eq!(back.to_bits(), v.to_bits());
    }
    assert_eq!(to_text(&DataType::Float, Some(&Scalar::Float(0.1))).unwrap().as_deref(), Some("0.1"));
}

#[test]
fn what_other_engines_write_is_read() {
    let us = Some(Scalar::Timestamp(1_704_070_800_500_000));
    for form in ["2024-01-01 01:00:00.5", "2024-01-01T01:00:00.500Z", "2024-01-01T01:00:00.500000Z", "2024-01-01T06:30:00.5+05:30"] {
        assert_eq!(from_text(&DataType::TimestampLtz(6), Some(form)).unwrap(), us, "{form}");
    }
    assert_eq!(from_text(&DataType::Timestamp(6), Some("2024-01-01 01:00:00.5")).unwrap(), us);
    let decimal = ty("DECIMAL(10, 2)");
    for (form, want) in [("1.5", 150), ("100", 10_000), ("1.500", 150), ("1E+2", 10_000), ("-0.05", -5)] {
        assert_eq!(from_text(&decimal, Some(form)).unwrap(), Some(Scalar::Decimal(want)), "{form}");
    }
    for data_type in ["STRING", "INT", "DATE", "BOOLEAN"] {
        assert_eq!(from_text(&ty(data_type), Some("")).unwrap(), None);
        assert_eq!(from_text(&ty(data_type), None).unwrap(), None);
    }
    assert_eq!(from_text(&DataType::Boolean, Some("TRUE")).unwrap(), Some(Scalar::Bool(true)));
    for (data_type, bad) in [
        ("TINYINT", "128"),
        ("INT", "1.0"),
        ("BOOLEAN", "yes"),
        ("DATE", "2024-02-30"),
        ("TIMESTAMP(6)", "noon"),
        ("DECIMAL(3, 2)", "10"),
        ("DECIMAL(3, 2)", "0.001"),
        ("DOUBLE", "x"),
    ] {
        assert_eq!(from_text(&ty(data_type), Some(bad)).unwrap_err().kind(), Kind::Data, "{bad}");
    }
}

#[test]
fn hostile_strings_become_hive_directories() {
    let one = layout(&[("p", "STRING")]);
    let dir = |s: &str| one.directory(&[text(s)]).unwrap();
    assert_eq!(dir("a//b=c:d%e f"), "p=a%2F%2Fb%3Dc%3Ad%25e f/");
    assert_eq!(dir(".."), "p=../");
    assert_eq!(dir(" x "), "p= x /");
    assert_eq!(dir("<>|é漢🦀"), "p=<>|é漢🦀/");
    assert_eq!(dir("\n\u{7f}"), "p=%0A%7F/");
    assert_eq!(dir(""), "p=__HIVE_DEFAULT_PARTITION__/");
    assert_eq!(one.directory(&[None]).unwrap(), "p=__HIVE_DEFAULT_PARTITION__/");
    let name = layout(&[("a:b", "STRING")]).file_path(&[text("x")], 0, "u", 7).unwrap();
    assert_eq!(name, "a%3Ab=x/part-00007-u-c000.zstd.parquet");
    assert_eq!(uri_encode(&name), "a%253Ab=x/part-00007-u-c000.zstd.parquet");
    assert_eq!(layout(&[]).file_path(&[], 0, "u", 0).unwrap(), "part-00000-u-c000.zstd.parquet");
    let moment = layout(&[("t", "TIMESTAMP_LTZ(6)")]).directory(&[Some(Scalar::Timestamp(0))]).unwrap();
    assert_eq!(moment, "t=1970-01-01 00%3A00%3A00.000000/");
}

#[test]
fn a_long_value_has_a_short_directory_of_its_own() {
    let one = layout(&[("p", "STRING")]);
    let dir = |s: &str| one.directory(&[text(s)]).unwrap();
    assert_eq!(dir(&"x".repeat(253)), format!("p={}/", "x".repeat(253)));
    for long in ["x".repeat(254), "漢".repeat(300), "/".repeat(300), format!("{}/{}", "x".repeat(219), "y".repeat(80))] {
        let (a, b) = (dir(&long), dir(&format!("{long}!")));
        assert!(a.len() <= 256 && a.len() > 250, "{a}");
        assert_ne!(a, b);
        let cut = a.split_once('~').unwrap().0;
        assert!(!cut.ends_with('%') && !cut.ends_with("%2"), "{a}");
        assert_eq!(values(&schema(&[("p", "STRING")]), &[text(&long)]).unwrap()["p"].as_deref(), Some(long.as_str()));
    }
    let many = layout(&[("a", "STRING"), ("b", "STRING"), ("c", "STRING"), ("d", "STRING"), ("e", "STRING")]);
    let path = many.directory(&vec![text(&"é".repeat(300)); 5]).unwrap();
    assert!(path.len() <= 805, "{}", path.len());
}

#[test]
fn values_go_into_the_log_and_come_back() {
    let schema = schema(&[("s", "STRING"), ("n", "INT NOT NULL"), ("t", "TIMESTAMP_LTZ(6)")]);
    let given = [None, Some(Scalar::Int(-1)), Some(Scalar::Timestamp(1))];
    let kept = values(&schema, &given).unwrap();
    assert_eq!(kept["s"], None);
    assert_eq!(kept["t"].as_deref(), Some("1970-01-01T00:00:00.000001Z"));
    assert_eq!(scalars(&schema, &kept).unwrap(), given);
    assert_eq!(scalars(&schema, &BTreeMap::new()).unwrap(), [None, None, None]);
    assert_eq!(values(&schema, &[text(""), Some(Scalar::Int(1)), None]).unwrap()["s"], None);
    let wrong = BTreeMap::from([("n".to_owned(), Some("x".to_owned()))]);
    assert!(scalars(&schema, &wrong).unwrap_err().to_string().contains("`n`"));
    assert_eq!(values(&schema, &[None]).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn what_cannot_be_kept_is_refused_by_the_column() {
    let strict = schema(&[("s", "STRING NOT NULL")]);
    let layout = DeltaLayout::new(&strict, Compression::None);
    for (value, what) in [(text(""), "`s` is empty"), (None, "`s` is null"), (text("a\0b"), "NUL")] {
        for e in [values(&strict, std::slice::from_ref(&value)).unwrap_err(), layout.directory(std::slice::from_ref(&value)).unwrap_err()] {
            assert_eq!(e.kind(), Kind::Invalid);
            assert!(e.to_string().contains(what) && e.to_string().contains("`s`"), "{e}");
        }
    }
    for (data_type, value) in [
        ("DATE", Scalar::Date(i32::MAX)),
        ("DATE", Scalar::Date(-719_163)),
        ("TIMESTAMP(6)", Scalar::Timestamp(i64::MAX)),
        ("TIMESTAMP_LTZ(6)", Scalar::Timestamp(253_402_300_800_000_000)),
        ("BYTES", Scalar::Bytes(vec![1])),
        ("INT", Scalar::String("1".into())),
    ] {
        assert_eq!(to_text(&ty(data_type), Some(&value)).unwrap_err().kind(), Kind::Invalid, "{value:?}");
    }
    assert_eq!(check_append(&schema(&[("y", "BYTES")])).unwrap_err().kind(), Kind::Invalid);
    check_append(&schema(&[("y", "DOUBLE")])).unwrap();
}

#[test]
fn paths_are_uris_and_come_back() {
    for path in ["p=a%2Fb é漢🦀<>|`{}^\"\\[]?#/part-0.parquet", "a b/c+d&e=f;@!$'()*,~", "x\u{a0}\u{3000}\u{7f}"] {
        let encoded = uri_encode(path);
        assert!(encoded.bytes().all(|b| b.is_ascii_graphic() && !b"\"#<>?[\\]^`{|}".contains(&b)), "{encoded}");
        assert_eq!(uri_decode(&encoded).unwrap(), path);
    }
    assert_eq!(uri_decode("p=é 100%/x%2").unwrap(), "p=é 100%/x%2");
    assert_eq!(uri_decode("p=1:2/x").unwrap(), "p=1:2/x");
    assert_eq!(uri_decode(&uri_encode("a+b:c")).unwrap(), "a+b:c");
}

#[test]
fn a_path_out_of_the_table_is_refused() {
    for path in ["/a/b", "s3://b/k", "file:///x", "abfss://c@a/x", "../x", "a/%2E%2E/x", "a//b", "", "hdfs:/x", "a+b:c"] {
        assert_eq!(uri_decode(path).unwrap_err().kind(), Kind::Invalid, "{path}");
    }
    assert_eq!(uri_decode("a%FF").unwrap_err().kind(), Kind::Data);
}
