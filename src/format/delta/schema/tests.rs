use super::*;
use crate::Kind;

fn schema(columns: &[(&str, &str)], by: &[&str]) -> Schema {
    let fields = columns.iter().map(|(n, t)| Field::parse(7, *n, t).unwrap()).collect();
    Schema { id: 3, fields, partition_by: by.iter().map(|b| (*b).to_owned()).collect() }
}
fn metadata(schema_string: &str, by: &[&str]) -> Metadata {
    let partition_columns = by.iter().map(|b| (*b).to_owned()).collect();
    Metadata { schema_string: schema_string.to_owned(), partition_columns, ..Metadata::default() }
}
fn one(field_type: &str) -> String {
    format!(r#"{{"type":"struct","fields":[{{"name":"c","type":{field_type},"nullable":true,"metadata":{{}}}}]}}"#)
}

#[test]
fn every_type_survives_the_way_there_and_back() {
    let all = schema(
        &[
            ("b", "BOOLEAN NOT NULL"),
            ("i8", "TINYINT"),
            ("i16", "SMALLINT"),
            ("i32", "INT"),
            ("i64", "BIGINT"),
            ("f32", "FLOAT"),
            ("f64", "DOUBLE"),
            ("d", "DECIMAL(38, 4)"),
            ("c", "CHAR(3)"),
            ("v", "VARCHAR(10) NOT NULL"),
            ("s", "STRING"),
            ("y", "BYTES"),
            ("day", "DATE"),
            ("t", "TIMESTAMP(6)"),
            ("z", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
            ("a", "ARRAY<ROW<x INT NOT NULL, `é.y` ARRAY<VARCHAR(3)>> NOT NULL>"),
            ("m", "MAP<CHAR(2) NOT NULL, MAP<INT NOT NULL, DECIMAL(5, 2)> NOT NULL>"),
            ("r", "ROW<a STRING 'why', b ROW<c TIMESTAMP(6)>>"),
        ],
        &["day", "i8"],
    );
    let canonical = canonical(&all).unwrap();
    let text = encode(&all).unwrap();
    let read = DeltaSchema::decode(&metadata(&text, &["day", "i8"])).unwrap();
    assert_eq!(*read.schema, Schema { id: read.schema.id, ..canonical });
    assert_eq!((read.schema.fields[0].id, read.schema.fields[16].id, read.schema.fields[17].id), (0, 18, 19));
    assert_eq!(read.columns["a"][LENGTHS], "array<struct<x:int,é.y:array<varchar(3)>>>");
    assert_eq!(read.columns["m"][LENGTHS], "map<char(2),map<int,decimal(5,2)>>");
    assert_eq!(read.columns["s"], Map::new());
    assert!(needs_timestamp_ntz(&read.schema));
    assert!(!needs_timestamp_ntz(&schema(&[("z", "TIMESTAMP_LTZ(3)")], &[])));
    assert!(needs_timestamp_ntz(&schema(&[("z", "MAP<INT, ARRAY<ROW<a TIMESTAMP(3)>>>")], &[])));
}

#[test]
fn the_text_is_the_one_that_engines_write() {
    let mut columns = schema(&[("id", "BIGINT NOT NULL"), ("v", "VARCHAR(10)"), ("a", "ARRAY<INT NOT NULL>")], &[]);
    columns.fields[0].description = Some("the \"key\"".to_owned());
    let want = concat!(
        r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":false,"metadata":{"comment":"the \"key\""}},"#,
        r#"{"name":"v","type":"string","nullable":true,"metadata":{"__CHAR_VARCHAR_TYPE_STRING":"varchar(10)"}},"#,
        r#"{"name":"a","type":{"type":"array","elementType":"integer","containsNull":false},"nullable":true,"metadata":{}}]}"#
    );
    assert_eq!(encode(&columns).unwrap(), want);
    let read = DeltaSchema::decode(&metadata(want, &[])).unwrap();
    assert_eq!(read.schema.fields[0].description.as_deref(), Some("the \"key\""));
}

#[test]
fn a_schema_is_known_by_its_text_and_its_partition_columns() {
    let id = |text: &str, by: &[&str]| DeltaSchema::decode(&metadata(text, by)).unwrap().schema.id;
    let text = encode(&schema(&[("a", "INT"), ("b", "INT"), ("c", "INT")], &[])).unwrap();
    assert_eq!(id(&text, &["a", "b"]), id(&text, &["a", "b"]));
    assert_ne!(id(&text, &["a", "b"]), id(&text, &["b", "a"]));
    assert_ne!(id(&text, &[]), id(&text.replace("true", "false"), &[]));
    assert!(i64::try_from(id(&text, &[])).is_ok());
}

#[test]
fn a_new_table_keeps_microseconds_and_bytes_of_any_length() {
    let given = schema(&[("t", "TIMESTAMP(3)"), ("a", "ARRAY<ROW<z TIMESTAMP_LTZ(0), y BINARY(4)>>"), ("y", "VARBINARY(9) NOT NULL")], &[]);
    let kept = canonical(&given).unwrap();
    let texts: Vec<String> = kept.fields.iter().map(Field::type_text).collect();
    assert_eq!(texts, ["TIMESTAMP(6)", "ARRAY<ROW<z TIMESTAMP(6) WITH LOCAL TIME ZONE, y BYTES>>", "BYTES NOT NULL"]);
    assert_eq!(canonical(&kept).unwrap(), kept);
}

#[test]
fn a_new_table_without_a_delta_form_is_refused_with_what_to_do() {
    for (columns, by, what) in [
        (vec![("t", "TIME(3)")], "", "column `t`: a Delta table has no type TIME(3); write STRING"),
        (
            vec![("m", "ARRAY<ROW<m MULTISET<STRING>>>")],
            "",
            "column `m`: field `m`: a Delta table has no type MULTISET<STRING>; write MAP<STRING, INT>",
        ),
        (vec![("t", "TIMESTAMP(7)")], "", "TIMESTAMP(6)"),
        (vec![("t", "MAP<INT, TIMESTAMP_LTZ(9)>")], "", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (vec![("a b", "INT")], "", "`a b` has the character ' '"),
        (vec![("r", "ROW<`x=y` INT>")], "", "column `r`: the column name `x=y`"),
        (vec![("a", "INT"), ("A", "INT")], "", "`a` and `A` have the same name"),
        (vec![("r", "ROW<a INT, A INT>")], "", "`a` and `A` have the same name"),
        (vec![("a", "ARRAY<INT>"), ("b", "INT")], "a", "`a` of type ARRAY<INT> cannot partition"),
        (vec![("a", "BINARY(3)"), ("b", "INT")], "a", "`a` of type BYTES cannot partition"),
        (vec![("a", "INT")], "a", "every column is a partition column"),
        (vec![], "", "no columns"),
    ] {
        let by: Vec<&str> = by.split_terminator(',').collect();
        let e = canonical(&schema(&columns, &by)).unwrap_err();
        assert_eq!(e.kind(), Kind::Invalid);
        assert!(e.to_string().contains(what), "{e}");
        assert!(e.next_step().is_some(), "{e}");
    }
    // What Paimon cannot partition by, and Delta can.
    let zoned = schema(&[("z", "TIMESTAMP_LTZ(3)"), ("d", "DOUBLE"), ("v", "INT")], &["z", "d"]);
    canonical(&zoned).unwrap();
}

#[test]
fn types_that_are_not_supported_are_refused_by_name() {
    for (json, what) in [
        (r#""variant""#, "column `c`: the type `variant`"),
        (r#""void""#, "`void`"),
        (r#""interval day to second""#, "`interval day to second`"),
        (r#""geometry(OGC:CRS84)""#, "`geometry(OGC:CRS84)`"),
        (r#""time(6)""#, "`time(6)`"),
        (r#""decimal(39,0)""#, "`decimal(39,0)`"),
        (r#""decimal(5,-2)""#, "`decimal(5,-2)`"),
        (r#"{"type":"udt","class":"x"}"#, "`udt`"),
        (r#"{"type":"array","elementType":"variant","containsNull":true}"#, "column `c`: the type `variant`"),
        (r#"{"type":"struct","fields":[]}"#, "struct without fields"),
    ] {
        let e = DeltaSchema::decode(&metadata(&one(json), &[])).unwrap_err();
        assert_eq!(e.kind(), Kind::Invalid, "{e}");
        assert!(e.to_string().contains(what), "{e}");
    }
    let collated = one(r#""string""#).replace(r#""metadata":{}"#, r#""metadata":{"__COLLATIONS":{"c":"ICU.UNICODE_CI"}}"#);
    assert!(DeltaSchema::decode(&metadata(&collated, &[])).unwrap_err().to_string().contains("`c` has a collation"));
}

#[test]
fn a_damaged_schema_is_data() {
    let twice = one(r#""long""#).replace("[{", r#"[{"name":"c","type":"long","nullable":true,"metadata":{}},{"#);
    for (text, by) in [
        ("", ""),
        ("[]", ""),
        (r#"{"type":"array"}"#, ""),
        (r#"{"type":"struct"}"#, ""),
        (r#"{"type":"struct","fields":[{"name":"a"}]}"#, ""),
        (r#"{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":"long"},"nullable":true}]}"#, ""),
        (one(r#""long""#).as_str(), "d"),
        (one(r#"{"type":"array","elementType":"long","containsNull":true}"#).as_str(), "c"),
        (twice.as_str(), ""),
    ] {
        let by: Vec<&str> = by.split_terminator(',').collect();
        assert_eq!(DeltaSchema::decode(&metadata(text, &by)).unwrap_err().kind(), Kind::Data, "{text}");
    }
}

#[test]
fn metadata_is_found_at_any_depth() {
    let text = r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{"comment":"x"}},
        {"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"array","elementType":{"type":"struct","fields":[
            {"name":"deep","type":"long","nullable":true,"metadata":{"delta.identity.start":1}}]},"containsNull":true},
            "valueContainsNull":true},"nullable":true,"metadata":{}}]}"#;
    let read = DeltaSchema::decode(&metadata(text, &[])).unwrap();
    assert_eq!(read.any_metadata("delta.identity.").as_deref(), Some("m.value.element.deep"));
    assert_eq!(read.any_metadata("comm").as_deref(), Some("id"));
    assert_eq!(read.any_metadata("delta.invariants"), None);
}

#[test]
fn lengths_of_an_earlier_type_are_left_out() {
    let with = |t: &str, lengths: &str| {
        let text = one(t).replace(r#""metadata":{}"#, &format!(r#""metadata":{{"__CHAR_VARCHAR_TYPE_STRING":"{lengths}"}}"#));
        DeltaSchema::decode(&metadata(&text, &[])).unwrap().schema.fields[0].data_type.to_string()
    };
    assert_eq!(with(r#""string""#, "char(4)"), "CHAR(4)");
    assert_eq!(with(r#""string""#, "varchar(0)"), "STRING");
    assert_eq!(with(r#""string""#, "array<char(4)>"), "STRING");
    assert_eq!(with(r#""string""#, "char(4)x"), "STRING");
    let row = r#"{"type":"struct","fields":[{"name":"a b","type":"string","nullable":true,"metadata":{}}]}"#;
    assert_eq!(with(row, "struct<`a b`:varchar(2)>"), "ROW<`a b` VARCHAR(2)>");
}
