//! Texts of types, and what a new table needs.

use super::*;

fn every_type() -> Vec<DataType> {
    use DataType::*;
    let decimals = (1..=38u8).flat_map(|p| (0..=p).map(move |s| Decimal { precision: p, scale: s }));
    let item = |data_type, nullable| Box::new(Item { data_type, nullable });
    let field = |name: &str, data_type, nullable, text: Option<&str>| Field {
        id: 0,
        name: name.into(),
        data_type,
        nullable,
        description: text.map(str::to_owned),
    };
    [Boolean, TinyInt, SmallInt, Int, BigInt, Float, Double, Char(1), Char(7), VarChar(1), VarChar(4000), String, Bytes, Date]
        .into_iter()
        .chain([Binary(1), Binary(16), VarBinary(1), VarBinary(9)])
        .chain((0..=9).flat_map(|p| [Time(p), Timestamp(p), TimestampLtz(p)]))
        .chain(decimals)
        .chain([
            Array(item(Int, false)),
            Map(item(String, false), item(Array(item(Timestamp(9), true)), true)),
            Multiset(item(Row(vec![field("a b", Decimal { precision: 5, scale: 2 }, false, Some("it's"))]), true)),
            Row(vec![
                field("x`y", Int, true, None),
                field("NOT", Bytes, false, None),
                field("é", Map(item(Int, true), item(Date, false)), true, None),
            ]),
        ])
        .collect()
}

#[test]
fn every_type_survives_its_own_text() {
    for t in every_type() {
        for nullable in [true, false] {
            let field = Field { id: 0, name: "c".into(), data_type: t.clone(), nullable, description: None };
            assert_eq!(DataType::parse(&field.type_text()).unwrap(), (t.clone(), nullable), "{}", field.type_text());
        }
    }
}

#[test]
fn case_blanks_and_aliases_do_not_matter() {
    let cases = [
        ("  bigint   not  null ", DataType::BigInt, false),
        ("Integer", DataType::Int, true),
        ("int null", DataType::Int, true),
        ("DECIMAL", DataType::Decimal { precision: 10, scale: 0 }, true),
        ("decimal( 12 )", DataType::Decimal { precision: 12, scale: 0 }, true),
        ("numeric(12,2)NOT NULL", DataType::Decimal { precision: 12, scale: 2 }, false),
        ("timestamp", DataType::Timestamp(6), true),
        ("TIMESTAMP (3)", DataType::Timestamp(3), true),
        ("TIMESTAMP_LTZ(3) NOT NULL", DataType::TimestampLtz(3), false),
        ("timestamp_ltz", DataType::TimestampLtz(6), true),
        ("TIMESTAMP WITH LOCAL TIME ZONE", DataType::TimestampLtz(6), true),
        ("TIMESTAMP(3)  with local time zone NOT NULL", DataType::TimestampLtz(3), false),
        ("TIMESTAMP(6) WITHOUT TIME ZONE", DataType::Timestamp(6), true),
        ("VARCHAR(2147483647)", DataType::String, true),
        ("CHAR", DataType::Char(1), true),
        ("VARBINARY(2147483647)", DataType::Bytes, true),
        ("time", DataType::Time(0), true),
        ("TIME(3) WITHOUT TIME ZONE NOT NULL", DataType::Time(3), false),
        ("array < int not null > not null", DataType::Array(Box::new(Item { data_type: DataType::Int, nullable: false })), false),
        ("DOUBLE PRECISION", DataType::Double, true),
    ];
    for (text, t, nullable) in cases {
        assert_eq!(DataType::parse(text).unwrap(), (t, nullable), "{text}");
    }
}

#[test]
fn types_that_are_not_supported_are_refused_by_name() {
    let bad = [
        "VARIANT",
        "BLOB",
        "TIMESTAMP(3) WITH TIME ZONE",
        "TEXT",
        "",
        "NOT NULL",
        "INTNOT NULL",
        "GEOMETRY",
        "ARRAY(3)",
        "INT INT",
        "INT,",
    ];
    for text in bad {
        let e = DataType::parse(text).unwrap_err();
        assert_eq!(e.kind(), crate::Kind::Invalid);
        assert!(e.message().contains(&format!("`{text}` is not supported")), "{e}");
    }
    for text in [
        "INT(3)",
        "TIMESTAMP(10)",
        "TIME(-1)",
        "BINARY(0)",
        "ARRAY",
        "ARRAY<INT",
        "MAP<INT>",
        "ROW<>",
        "ROW<a>",
        "ROW<a INT, a INT>",
        "ROW<`a INT>",
        "DECIMAL(39)",
        "DECIMAL(5, 6)",
        "DECIMAL(0)",
        "CHAR(0)",
        "DECIMAL(1,2,3)",
        "DECIMAL(10",
        "VARCHAR(-1)",
        "CHAR(1,2)",
    ] {
        let e = DataType::parse(text).unwrap_err();
        assert!(e.message().contains(&format!("`{text}` is not valid")), "{e}");
    }
}

fn schema(columns: &[(&str, &str)], partition_by: &[&str]) -> Schema {
    let fields = columns.iter().zip(0..).map(|((n, t), id)| Field::parse(id, *n, t).unwrap()).collect();
    Schema { id: 0, fields, partition_by: partition_by.iter().map(|s| (*s).to_owned()).collect() }
}

#[test]
fn a_new_table_needs_sound_names_and_partition_columns() {
    assert!(schema(&[("id", "BIGINT"), ("dt", "STRING")], &["dt"]).check_new().is_ok());
    for (columns, partition_by, what) in [
        (&[][..], &[][..], "no columns"),
        (&[("", "INT")], &[], "empty name"),
        (&[("a", "INT"), ("A", "INT")], &[], "same name"),
        (&[("_KEY_a", "INT")], &[], "`_KEY_a`"),
        (&[("RowKind", "INT")], &[], "`RowKind`"),
        (&[("a", "INT")], &["b"], "`b` is not a column"),
        (&[("a", "INT"), ("b", "INT")], &["b", "b"], "twice"),
        (&[("a", "INT"), ("b", "DOUBLE")], &["b"], "`b` of type DOUBLE"),
        (&[("a", "INT")], &["a"], "every column"),
    ] {
        let e = schema(columns, partition_by).check_new().unwrap_err();
        assert!(e.message().contains(what), "{e}");
        assert_eq!(e.kind(), crate::Kind::Invalid);
    }
}

#[test]
fn what_is_not_supported_inside_of_a_type_is_named() {
    for (text, part) in [("ARRAY<BLOB>", "BLOB"), ("MAP<STRING, GEOMETRY(4)>", "GEOMETRY(4)"), ("ROW<a ROW<b VARIANT, c INT>>", "VARIANT")]
    {
        let e = DataType::parse(text).unwrap_err();
        assert_eq!(e.message(), format!("the type `{text}` is not supported: `{part}` is not"));
    }
    // Deep text is an error, not an exhausted stack.
    let deep = format!("{}INT{}", "ARRAY<".repeat(5000), ">".repeat(5000));
    assert!(DataType::parse(&deep).unwrap_err().message().contains("more than 64 deep"));
}
