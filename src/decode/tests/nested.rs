//! Nested types: a table of (type, input, value or error), and properties against an oracle that is not ours (arrow-json).

use std::fmt::Write as _;

use arrow::array::{Array, AsArray, RecordBatch};
use proptest::prelude::*;

use super::super::testing::{checked, mapping, records, spec};
use super::super::*;
use super::{cell, csv, json, one};
use crate::schema::DataType;

/// Type, JSON value, what comes out (errors without their `cast: column v`).
const JSON: &[(&str, &str, &str)] = &[
    ("ARRAY<INT>", "[1, \"2\" ,null]", "[1, 2, NULL]"),
    ("ARRAY<INT>", "[]", "[]"),
    ("ARRAY<INT>", "null", "NULL"),
    ("ARRAY<INT>", "[1,2.5]", "!: v[1] INT: 2.5 is not a whole number"),
    ("ARRAY<INT>", "{\"a\":1}", "! ARRAY<INT>: {\"a\":1} is not an array"),
    ("ARRAY<INT>", "\"[1]\"", "! ARRAY<INT>: \"[1]\" is not an array"),
    ("ARRAY<INT>", "7", "! ARRAY<INT>: 7 is not an array"),
    ("ARRAY<INT>", "true", "! ARRAY<INT>: true is not an array"),
    ("ARRAY<INT NOT NULL>", "[1]", "[1]"),
    ("ARRAY<INT NOT NULL>", "[1,null]", "!: v[1] is NOT NULL, but the record has null there"),
    ("ARRAY<INT> NOT NULL", "null", "! is NOT NULL, but the record has null there"),
    ("ARRAY<STRING>", "[\"\",\"null\",null,1,[2, 3],{\"x\":1},\"\\u00e9\\n\"]", "[, null, NULL, 1, [2, 3], {\"x\":1}, é\n]"),
    ("ARRAY<STRING>", "[\"a\",\"\\ud83d\"]", "!: v[1] STRING: \"\\ud83d\" has half of a surrogate pair, which is no character"),
    ("ARRAY<VARCHAR(2)>", "[\"é😀\",\"abc\"]", "!: v[1] VARCHAR(2): \"abc\" has 3 characters, at most 2 fit"),
    ("ARRAY<ARRAY<INT>>", "[[1],[],null,[2,3]]", "[[1], [], NULL, [2, 3]]"),
    ("ARRAY<ARRAY<INT>>", "[[1],[2,[3]]]", "!: v[1][1] INT: [3] is not a whole number"),
    ("ARRAY<TIME(3)>", "[\"12:34:56.789\"]", "[12:34:56.789]"),
    ("ARRAY<TIMESTAMP(9)>", "[\"2026-01-02 03:04:05.123456789\"]", "[2026-01-02T03:04:05.123456789]"),
    ("ARRAY<BINARY(2)>", "[\"AAE=\"]", "[0001]"),
    ("ARRAY<BINARY(2)>", "[\"AAE=\",\"AA==\"]", "!: v[1] BINARY(2): \"AA==\" is 1 bytes, exactly 2 fit"),
    ("ROW<a INT, b STRING>", "{\"b\":\"x\",\"a\":1}", "{a: 1, b: x}"),
    ("ROW<a INT, b STRING>", "{ \"a\" : 1 , \"z\" : [{}] }", "{a: 1, b: NULL}"),
    ("ROW<a INT, b STRING>", "{}", "{a: NULL, b: NULL}"),
    ("ROW<a INT, b STRING>", "null", "NULL"),
    ("ROW<a INT, b STRING>", "{\"a\":\"x\",\"a\":2,\"\\u0061\":3}", "{a: 3, b: NULL}"),
    ("ROW<a INT, b STRING>", "[1,\"x\"]", "! ROW<a INT, b STRING>: [1,\"x\"] is not an object"),
    ("ROW<a INT, b STRING>", "\"\"", "! ROW<a INT, b STRING>: \"\" is not an object"),
    ("ROW<a INT NOT NULL>", "{\"b\":1}", "!: v.a is NOT NULL, but the record has no such key"),
    ("ROW<a INT NOT NULL>", "{\"a\":null}", "!: v.a is NOT NULL, but the record has null there"),
    ("ROW<a INT NOT NULL>", "null", "NULL"),
    ("ROW<a INT NOT NULL> NOT NULL", "null", "! is NOT NULL, but the record has null there"),
    ("ROW<a ROW<`b.c` INT NOT NULL> NOT NULL>", "{\"a\":{\"b.c\":4}}", "{a: {b.c: 4}}"),
    ("ROW<a ROW<`b.c` INT NOT NULL> NOT NULL>", "{\"a\":{}}", "!: v.a.\"b.c\" is NOT NULL, but the record has no such key"),
    ("ROW<a ROW<b ARRAY<ROW<c DOUBLE>>>>", "{\"a\":{\"b\":[{\"c\":1},{\"c\":\"x\"}]}}", "!: v.a.b[1].c DOUBLE: \"x\" is not a number"),
    ("MAP<STRING, INT>", "{\"b\":1,\"a\":null,\"\":2,\"null\":3}", "{b: 1, a: NULL, : 2, null: 3}"),
    ("MAP<STRING, INT>", "{}", "{}"),
    ("MAP<STRING, INT>", "null", "NULL"),
    ("MAP<STRING, INT>", "{\"a\":\"x\",\"b\":2,\"\\u0061\":3}", "{a: 3, b: 2}"),
    ("MAP<STRING, INT>", "{\"a b\":\"x\"}", "!: v.\"a b\" INT: \"x\" is not a whole number"),
    ("MAP<STRING, INT NOT NULL>", "{\"a\":null}", "!: v.a is NOT NULL, but the record has null there"),
    ("MAP<STRING, INT>", "5", "! MAP<STRING, INT>: 5 is not an object, nor an array of keys and values"),
    ("MAP<INT, STRING>", "{\"1\":\"a\",\" 1.0 \":\"b\",\"2\":\"c\"}", "{1: b, 2: c}"),
    ("MAP<INT, STRING>", "{\"x\":\"a\"}", "!: the key \"x\" is not a whole number (INT)"),
    ("MAP<INT, STRING>", "{\"\":\"a\"}", "!: the key \"\" is empty (INT)"),
    ("MAP<INT, STRING>", "[[1,\"a\"],{\"value\":\"b\",\"key\":2},{\"key\":3},[1,\"c\"]]", "{1: c, 2: b, 3: NULL}"),
    ("MAP<INT, STRING>", "[]", "{}"),
    ("MAP<INT, STRING>", "[[1]]", "!: v[0]: [1] is neither [key, value] nor {\"key\": .., \"value\": ..}"),
    ("MAP<INT, STRING>", "[5]", "!: v[0]: 5 is neither [key, value] nor {\"key\": .., \"value\": ..}"),
    ("MAP<INT, STRING>", "[[null,\"a\"]]", "!: v[0]: the key is null, and a map's key cannot be"),
    ("MAP<INT, STRING>", "[{\"value\":1}]", "!: v[0]: the key is absent, and a map's key cannot be"),
    ("MAP<INT, STRING>", "[[\"x\",\"a\"]]", "!: v[0].key INT: \"x\" is not a whole number"),
    ("MAP<INT, INT>", "[[1,\"a\"]]", "!: v[0].value INT: \"a\" is not a whole number"),
    ("MAP<DATE, INT>", "{\"2026-01-02\":1}", "{2026-01-02: 1}"),
    ("MAP<BOOLEAN, INT>", "{\"true\":1,\"TRUE\":2}", "{true: 2}"),
    ("MAP<DECIMAL(4, 2), INT>", "{\"1.5\":1,\"1.50\":2}", "{1.50: 2}"),
    ("MAP<ROW<a INT>, INT>", "[[{\"a\":1},1],[{\"a\":1.0},2],[{},3]]", "{{a: 1}: 2, {a: NULL}: 3}"),
    ("MAP<ROW<a INT>, INT>", "{\"{}\":1}", "!: the keys of an object are texts, and ROW<a INT> is none (write an array instead)"),
    ("MAP<STRING, MAP<STRING, ARRAY<INT>>>", "{\"a\":{\"b\":[1],\"c\":null}}", "{a: {b: [1], c: NULL}}"),
    ("MAP<STRING, MAP<STRING, ARRAY<INT>>>", "{\"a\":{\"b\":[1,\"\"]}}", "!: v.a.b[1] INT: \"\" is empty"),
    ("MULTISET<STRING>", "{\"a\":2,\"b\":1.0}", "{a: 2, b: 1}"),
    ("MULTISET<STRING>", "[\"a\",\"b\",\"a\"]", "{a: 2, b: 1}"),
    ("MULTISET<STRING>", "[]", "{}"),
    ("MULTISET<INT>", "[1,\"1\",2,1.0]", "{1: 3, 2: 1}"),
    ("MULTISET<INT>", "{\"1\":4,\"1.0\":5}", "{1: 5}"),
    ("MULTISET<ROW<a INT>>", "[{\"a\":1},{\"a\":1}]", "{{a: 1}: 2}"),
    ("MULTISET<STRING>", "[\"a\",null]", "!: v[1] is null, and a value of a multiset cannot be"),
    ("MULTISET<STRING>", "{\"a\":0}", "!: v.a: 0 is not a count, a whole number from 1 to 2147483647"),
    ("MULTISET<STRING>", "{\"a\":\"1\"}", "!: v.a: \"1\" is not a count, a whole number from 1 to 2147483647"),
    ("MULTISET<STRING>", "{\"a\":3000000000}", "!: v.a: 3000000000 is not a count, a whole number from 1 to 2147483647"),
    ("MULTISET<STRING>", "7", "! MULTISET<STRING>: 7 is not an array, nor an object of counts"),
];

fn said(got: &str) -> String {
    got.strip_prefix("cast: column v").map_or_else(|| got.to_owned(), |why| format!("!{why}"))
}

#[test]
fn every_nested_type_takes_what_it_can_hold_and_refuses_the_rest() {
    for (ty, value, want) in JSON {
        let m = mapping(&[spec("v", ty)]);
        let decoded = json(&m, &[format!("{{\"v\":{value}}}")]);
        assert_eq!(said(&one(&decoded)), *want, "{ty} {value}");
    }
}

#[test]
fn the_field_of_a_reject_is_the_path_in_the_record() {
    let m = mapping(&[ColumnSpec { from: Some("o.items".into()), ..spec("v", "ARRAY<ROW<price DECIMAL(4, 2)>>") }]);
    let decoded = json(&m, &["{\"o\":{\"items\":[{},{\"price\":1.5},{\"price\":\"free\"}]}}", "{\"o\":[]}", "{\"o\":{\"items\":3}}"]);
    let rejects: Vec<_> = decoded.rejects.iter().map(|r| (r.index, r.error.as_str(), r.field.as_deref().unwrap())).collect();
    let want = [
        (0, "column v: o.items[2].price DECIMAL(4, 2): \"free\" is not a number", "o.items[2].price"),
        (1, "column v ARRAY<ROW<price DECIMAL(4, 2)>>: [] is not an object, so it has no o.items", "o.items"),
        (2, "column v ARRAY<ROW<price DECIMAL(4, 2)>>: 3 is not an array", "o.items"),
    ];
    assert_eq!(rejects, want);
}

#[test]
fn null_absent_and_two_texts_are_four_things_at_every_level() {
    let m = mapping(&[spec("v", "ROW<s STRING, r ROW<s STRING>, a ARRAY<STRING>>")]);
    let rows = [
        "{\"v\":{\"s\":null,\"r\":{\"s\":null},\"a\":[null]}}",
        "{\"v\":{\"r\":{},\"a\":[]}}",
        "{\"v\":{\"s\":\"null\",\"r\":{\"s\":\"null\"},\"a\":[\"null\"]}}",
        "{\"v\":{\"s\":\"\",\"r\":{\"s\":\"\"},\"a\":[\"\"]}}",
        "{\"v\":{\"r\":null,\"a\":null}}",
        "{\"v\":null}",
        "{}",
    ];
    let decoded = json(&m, &rows);
    let got: Vec<_> = (0..rows.len()).map(|r| cell(&decoded.batch, 0, r)).collect();
    let want = [
        "{s: NULL, r: {s: NULL}, a: [NULL]}",
        "{s: NULL, r: {s: NULL}, a: []}",
        "{s: null, r: {s: null}, a: [null]}",
        "{s: , r: {s: }, a: []}",
        "{s: NULL, r: NULL, a: NULL}",
        "NULL",
        "NULL",
    ];
    assert_eq!(got, want);
    assert!(decoded.rejects.is_empty());
}

#[test]
fn a_new_field_within_a_row_is_refused_when_asked_for() {
    let specs = [
        spec("v", "ARRAY<ROW<a INT, m MAP<STRING, INT>>>"),
        ColumnSpec { from: Some("o.x".into()), ..spec("x", "INT") },
        spec("o", "ROW<x INT, y INT>"),
    ];
    let rows = [
        "{\"v\":[{\"a\":1,\"m\":{\"any\":1}}],\"o\":{\"x\":1,\"y\":2}}",
        "{\"v\":[{},{\"b c\":1}]}",
        "{\"o\":{\"z\":1}}",
        "{\"v\":[{\"m\":[{\"key\":\"k\",\"value\":1,\"more\":1}]}]}",
    ];
    let strict = json(&Mapping::build(&specs, &[], OnNewField::Reject, &[]).unwrap(), &rows);
    let rejects: Vec<_> = strict.rejects.iter().map(|r| (r.index, r.error.as_str(), r.field.as_deref().unwrap())).collect();
    let why = "is no field of the type, and on_new_field is reject";
    let pair = "v[0].m[0]: {\"key\":\"k\",\"value\":1,\"more\":1} is neither [key, value] nor {\"key\": .., \"value\": ..}";
    assert_eq!(
        rejects,
        [
            (1, format!("column v: v[1].\"b c\" {why}").as_str(), "v[1].\"b c\""),
            (2, format!("column o: o.z {why}").as_str(), "o.z"),
            (3, format!("column v: {pair}").as_str(), "v[0].m[0]"),
        ]
    );
    assert!(json(&Mapping::build(&specs, &[], OnNewField::Ignore, &[]).unwrap(), &rows).rejects.is_empty());
}

#[test]
fn depth_bombs_are_rejects() {
    let m = mapping(&[spec("v", "ARRAY<ARRAY<STRING>>"), spec("n", "INT")]);
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for whole in [true, false] {
            let bomb = format!("{}1{}", open.repeat(10_000), if whole { close.repeat(10_000) } else { String::new() });
            let decoded = json(&m, &["{\"v\":[[1]],\"n\":1}".to_owned(), format!("{{\"v\":{bomb}}}"), "{\"n\":3}".to_owned()]);
            assert_eq!((decoded.batch.num_rows(), decoded.rejects.len()), (2, 1));
            assert!(
                decoded.rejects[0].error.contains("more than 128 objects and arrays within each other"),
                "{}",
                decoded.rejects[0].error
            );
            let quoted = format!("\"{}\"", bomb.replace('"', "\"\""));
            let decoded = csv(&m, None, &CsvOptions::default(), &["[[1]],1", &format!("{quoted},2"), ",3"]);
            assert_eq!((decoded.batch.num_rows(), decoded.rejects.len()), (2, 1));
            assert!(decoded.rejects[0].error.contains("more than 128 objects"), "{}", decoded.rejects[0].error);
        }
    }
    // as deep as a type can be
    let deep = format!("{}INT{}", "ARRAY<".repeat(60), ">".repeat(60));
    let value = format!("{}1{}", "[".repeat(60), "]".repeat(60));
    assert_eq!(cell(&json(&mapping(&[spec("v", &deep)]), &[format!("{{\"v\":{value}}}")]).batch, 0, 0), value);
}

#[test]
fn a_hundred_thousand_elements_are_fine() {
    let m = mapping(&[spec("a", "ARRAY<BIGINT NOT NULL>"), spec("m", "MAP<INT, ROW<x INT>>"), spec("s", "MULTISET<INT>")]);
    let n = 100_000;
    let list = (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
    let map = (0..n).map(|i| format!("\"{i}\":{{\"x\":{i}}}")).collect::<Vec<_>>().join(",");
    let row = format!("{{\"a\":[{list}],\"m\":{{{map}}},\"s\":[{list}]}}");
    let bad = format!("{{\"a\":[{list},null]}}");
    let decoded = json(&m, &[&bad, &row, &bad, &row]);
    assert_eq!(decoded.rejects.iter().map(|r| r.index).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(decoded.rejects[0].field.as_deref(), Some("a[100000]"));
    for row in 0..2 {
        assert_eq!(decoded.batch.column(0).as_list::<i32>().value(row).len(), n);
        assert_eq!(decoded.batch.column(1).as_map().value(row).len(), n);
        assert_eq!(decoded.batch.column(2).as_map().value(row).len(), n);
    }
}

#[test]
fn csv_has_nested_values_as_json_text() {
    let m = mapping(&[spec("a", "ARRAY<INT>"), spec("r", "ROW<s STRING> NOT NULL"), spec("b", "VARBINARY(2)")]);
    let options = CsvOptions { null: Some("\\N".into()), ..CsvOptions::default() };
    let rows = [
        "\"[1, 2]\",\"{\"\"s\"\": \"\"x\"\"}\",AAE=",
        ",{},",
        "\\N,{},\"\"",
        "null,{},",
        " [] ,\"{\"\"s\"\":null}\",",
        "\"\",{},",
        "[1,{},",
        "[1;],{},",
        "[1]],{},",
        "\"[1,\"\"x\"\"]\",{},",
        "{},{},",
        "[],,",
        "[],null,",
        "[],{},AAAA",
    ];
    let decoded = csv(&m, None, &options, &rows);
    let row = |r| (0..3).map(|c| cell(&decoded.batch, c, r)).collect::<Vec<_>>();
    assert_eq!(row(0), ["[1, 2]", "{s: x}", "b\"\\0\\x01\""]);
    assert_eq!(row(1), ["NULL", "{s: NULL}", "NULL"]);
    assert_eq!(row(2), ["NULL", "{s: NULL}", "b\"\""]);
    assert_eq!(row(3), ["NULL", "{s: NULL}", "NULL"]);
    assert_eq!(row(4), ["[]", "{s: NULL}", "NULL"]);
    assert_eq!(decoded.batch.num_rows(), 5);
    let errors: Vec<_> = decoded.rejects.iter().map(|r| (r.index, r.stage, r.error.as_str(), r.field.as_deref().unwrap())).collect();
    assert_eq!(
        errors,
        [
            (5, Stage::Cast, "column a ARRAY<INT>: \"\" is empty", "a"),
            (6, Stage::Cast, "column a ARRAY<INT>: \"[1\" is not valid JSON at byte 2: the record ends within an array", "a"),
            (7, Stage::Cast, "column a ARRAY<INT>: \"[1;]\" is not valid JSON at byte 2: a comma or ] is expected", "a"),
            (8, Stage::Cast, "column a ARRAY<INT>: \"[1]]\" is not valid JSON at byte 3: something follows the value", "a"),
            (9, Stage::Cast, "column a: a[1] INT: \"x\" is not a whole number", "a[1]"),
            (10, Stage::Cast, "column a ARRAY<INT>: {} is not an array", "a"),
            (11, Stage::Cast, "column r is NOT NULL, but the field is empty", "r"),
            (12, Stage::Cast, "column r is NOT NULL, but the record has null there", "r"),
            (13, Stage::Cast, "column b VARBINARY(2): \"AAAA\" is 3 bytes, at most 2 fit", "b"),
        ]
    );
}

#[test]
fn a_key_and_a_header_may_hold_json() {
    let m = mapping(&[ColumnSpec { meta: Some("key".into()), ..spec("k", "ROW<id INT>") }]);
    let mut r = records(&["{}", "{}", "{}", "{}"]);
    r.keys = vec![Some("{\"id\":1}".into()), None, Some("{\"id\":".into()), Some(bytes::Bytes::from_static(b"\xff"))];
    let decoded = JsonDecoder::new(&m).decode(&r).unwrap();
    assert_eq!((cell(&decoded.batch, 0, 0), cell(&decoded.batch, 0, 1)), ("{id: 1}".into(), "NULL".into()));
    let errors: Vec<_> = decoded.rejects.iter().map(|r| r.error.as_str()).collect();
    let want = [
        "column k ROW<id INT>: \"{\"id\":\" is not valid JSON at byte 6: the record ends where a value is expected",
        "column k ROW<id INT>: \"\u{fffd}\" is not valid UTF-8",
    ];
    assert_eq!(errors, want);
}

#[test]
fn a_unit_is_for_every_moment_within() {
    let unit = |unit: &str, ty: &str| ColumnSpec { unit: Some(unit.into()), ..spec("v", ty) };
    let m = mapping(&[unit("ms", "ARRAY<ROW<at TIMESTAMP(3), d DATE, n INT>>")]);
    let decoded = json(&m, &["{\"v\":[{\"at\":1700000000123,\"d\":0,\"n\":5}]}"]);
    assert_eq!(cell(&decoded.batch, 0, 0), "[{at: 2023-11-14T22:13:20.123, d: 1970-01-01, n: 5}]");
    let error = Mapping::build(&[unit("ms", "ARRAY<INT>")], &[], OnNewField::Ignore, &[]).unwrap_err().to_string();
    assert!(error.contains("unit: ms is for DATE, TIME and TIMESTAMP columns, and this one is ARRAY<INT>"), "{error}");
}

#[test]
fn checks_over_nested_columns_ask_for_null_only() {
    let specs = [spec("v", "ARRAY<INT>"), spec("r", "ROW<a INT>")];
    let decoded = json(&checked(&specs, &["v is not null"]), &["{\"v\":[]}", "{\"v\":null}"]);
    assert_eq!(decoded.rejects.iter().map(|r| (r.index, r.stage)).collect::<Vec<_>>(), [(1, Stage::Constraint)]);
    for (check, want) in [
        ("v = 1", "column v is ARRAY<INT>, which only is null and is not null are for"),
        ("v = r", "ARRAY<INT> and ROW<a INT> cannot be compared"),
    ] {
        let error = Mapping::build(&specs, &[check.to_owned()], OnNewField::Ignore, &[]).unwrap_err();
        assert!(error.message().contains(want), "{}", error.message());
    }
}

#[test]
fn a_text_column_keeps_an_object_as_it_was_written() {
    let decoded = json(&mapping(&[spec("v", "STRING")]), &["{\"v\": {\"b\" :1, \"a\":[ ]} }"]);
    assert_eq!(cell(&decoded.batch, 0, 0), "{\"b\" :1, \"a\":[ ]}");
}

fn inferred<R: AsRef<[u8]>>(values: &[R]) -> Vec<String> {
    let columns = infer(RecordFormat::Json, &CsvOptions::default(), &[records(values)]).unwrap();
    columns.into_iter().map(|c| format!("{} {}", c.name, c.type_text)).collect()
}

#[test]
fn objects_and_arrays_are_inferred_with_all_that_is_seen_in_them() {
    let rows = [
        r#"{"o":{"a":1,"b c":null},"l":[1,null],"r":[{"x":1}],"e":[],"n":{},"ll":[[],[true]],"mix":{"a":1},"ma":[1,"x"],"mo":{"a":[1]}}"#,
        r#"{"o":{"b c":"2026-01-02","a":2.5,"":1},"l":[2.5],"r":[{"y":{"z":"t"}},{"x":2}],"e":null,"n":null,"mix":[1],"ma":[],"mo":{"a":1}}"#,
    ];
    let want = [
        "o ROW<a DOUBLE, `b c` DATE>",
        "l ARRAY<DOUBLE>",
        "r ARRAY<ROW<x BIGINT, y ROW<z STRING>>>",
        "e ARRAY<STRING>",
        "n STRING",
        "ll ARRAY<ARRAY<BOOLEAN>>",
        "mix STRING",
        "ma ARRAY<STRING>",
        "mo ROW<a STRING>",
    ];
    assert_eq!(inferred(&rows), want);
    // and what was inferred takes the sample
    let columns = infer(RecordFormat::Json, &CsvOptions::default(), &[records(&rows)]).unwrap();
    assert_eq!(json(&mapping(&columns), &rows).rejects, []);

    let deep = |n: usize| inferred(&[format!("{{\"v\":{}1{}}}", "[".repeat(n), "]".repeat(n))]).remove(0);
    assert_eq!(deep(2), "v ARRAY<ARRAY<BIGINT>>");
    assert_eq!(deep(100), format!("v {}STRING{}", "ARRAY<".repeat(16), ">".repeat(16)));
    let wide = |n: usize| (0..n).map(|i| format!("\"k{i}\":1")).collect::<Vec<_>>().join(",");
    assert!(inferred(&[format!("{{\"v\":{{{}}}}}", wide(1000))])[0].starts_with("v ROW<k0 BIGINT, "));
    assert_eq!(inferred(&[format!("{{\"v\":{{{}}}}}", wide(1001))]), ["v STRING"]);
}

/// A small generator of random numbers: the same seed makes the same case.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    fn type_text(&mut self, depth: usize) -> String {
        const LEAVES: [&str; 10] =
            ["BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(10, 2)", "STRING", "DATE", "TIMESTAMP(3)", "TIMESTAMP(9)", "TIME(3)"];
        let item = |dice: &mut Dice, depth| {
            let not_null = dice.roll(3) == 0;
            format!("{}{}", dice.type_text(depth), if not_null { " NOT NULL" } else { "" })
        };
        match self.roll(if depth == 0 { 1 } else { 4 }) {
            0 => LEAVES[self.roll(LEAVES.len())].to_owned(),
            1 => format!("ARRAY<{}>", item(self, depth - 1)),
            2 => format!("MAP<STRING, {}>", item(self, depth - 1)),
            _ => {
                let fields: Vec<_> = (0..=self.roll(4)).map(|i| format!("f{i} {}", item(self, depth - 1))).collect();
                format!("ROW<{}>", fields.join(", "))
            }
        }
    }

    fn blank(&mut self) -> &'static str {
        ["", "", "", " ", "\t", "\r\n "][self.roll(6)]
    }

    fn join(&mut self, open: char, parts: &[String], close: char) -> String {
        let mut out = format!("{open}{}", self.blank());
        for (i, part) in parts.iter().enumerate() {
            write!(out, "{}{}{part}{}", if i == 0 { "" } else { "," }, self.blank(), self.blank()).unwrap();
        }
        out.push(close);
        out
    }

    fn text(&mut self) -> String {
        const PARTS: [&str; 9] = ["a", "é", "😀", "\\n", "\\u00e9", "\\ud83d\\ude00", "\\\"", "null", "[{"];
        let parts: Vec<_> = (0..self.roll(4)).map(|_| PARTS[self.roll(PARTS.len())]).collect();
        format!("\"{}\"", parts.concat())
    }

    fn leaf(&mut self, ty: &DataType) -> String {
        let n = self.roll(1 << 31);
        match ty {
            DataType::Boolean => ["true", "false"][n % 2].to_owned(),
            DataType::Int => format!("{}{n}", ["", "-"][n % 2]),
            DataType::BigInt => format!("{}{n}{:09}", ["", "-"][n % 2], self.roll(1_000_000_000)),
            DataType::Double => format!("{}{n}.{}{}", ["", "-"][n % 2], self.roll(1000), ["", "e5", "E-7"][n % 3]),
            DataType::Decimal { .. } => format!("{}{}.{:02}", ["", "-"][n % 2], n % 10_000_000, n % 100),
            DataType::String => self.text(),
            DataType::Date => format!("\"{:04}-{:02}-{:02}\"", 1 + n % 9999, 1 + n % 12, 1 + n % 28),
            DataType::Timestamp(3) => {
                format!(
                    "\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}\"",
                    1 + n % 9999,
                    1 + n % 12,
                    1 + n % 28,
                    n % 24,
                    n % 60,
                    n % 59,
                    n % 1000
                )
            }
            DataType::Timestamp(_) => {
                format!(
                    "\"{}-{:02}-{:02} {:02}:{:02}:{:02}.{:09}\"",
                    1700 + n % 500,
                    1 + n % 12,
                    1 + n % 28,
                    n % 24,
                    n % 60,
                    n % 59,
                    n % 1_000_000_000
                )
            }
            DataType::Time(_) => format!("\"{:02}:{:02}:{:02}.{:03}\"", n % 24, n % 60, n % 59, n % 1000),
            other => panic!("{other}"),
        }
    }

    fn value(&mut self, ty: &DataType, nullable: bool) -> String {
        if nullable && self.roll(5) == 0 {
            return "null".to_owned();
        }
        match ty {
            DataType::Array(item) => {
                let items: Vec<_> = (0..self.roll(4)).map(|_| self.value(&item.data_type, item.nullable)).collect();
                self.join('[', &items, ']')
            }
            DataType::Map(_, value) => {
                let members = (0..self.roll(4)).map(|i| {
                    let key = self.text();
                    format!("\"{i}{}:{}{}", &key[1..], self.blank(), self.value(&value.data_type, value.nullable))
                });
                let members: Vec<_> = members.collect();
                self.join('{', &members, '}')
            }
            DataType::Row(fields) => {
                let values = fields.iter().map(|f| (f.name.clone(), self.value(&f.data_type, f.nullable)));
                let values: Vec<_> = values.collect();
                self.object(values, &|name| fields.iter().any(|f| f.name == name && f.nullable))
            }
            leaf => self.leaf(leaf),
        }
    }

    /// In any order, with unknown members, without some of those that may be absent.
    fn object(&mut self, mut members: Vec<(String, String)>, may_be_absent: &dyn Fn(&str) -> bool) -> String {
        members.retain(|(name, value)| !(value == "null" && may_be_absent(name) && self.roll(2) == 0));
        for i in 0..self.roll(3) {
            let unknown = ["[{\"f0\":1}]", "{\"f1\":{}}", "\"f0\"", "null"][self.roll(4)];
            members.push((format!("unknown{i}"), unknown.to_owned()));
        }
        for i in (1..members.len()).rev() {
            let j = self.roll(i + 1);
            members.swap(i, j);
        }
        let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\"{}:{}{value}", self.blank(), self.blank())).collect();
        self.join('{', &members, '}')
    }

    /// A value with one thing wrong, and the path to it.
    fn misfit(&mut self, ty: &DataType, nullable: bool) -> (String, String) {
        if !nullable && self.roll(4) == 0 {
            return ("null".to_owned(), String::new());
        }
        let here = |text: &str| (text.to_owned(), String::new());
        match ty {
            DataType::Array(item) => {
                if self.roll(3) == 0 {
                    return here(["{}", "\"[]\"", "0", "true"][self.roll(4)]);
                }
                let at = self.roll(3);
                let (bad, path) = self.misfit(&item.data_type, item.nullable);
                let mut items: Vec<_> = (0..at).map(|_| self.value(&item.data_type, item.nullable)).collect();
                items.push(bad);
                items.extend((0..self.roll(3)).map(|_| self.value(&item.data_type, item.nullable)).collect::<Vec<_>>());
                (self.join('[', &items, ']'), format!("[{at}]{path}"))
            }
            DataType::Map(_, value) => {
                if self.roll(3) == 0 {
                    return here(["\"{}\"", "0", "false", "1.5"][self.roll(4)]);
                }
                let (bad, path) = self.misfit(&value.data_type, value.nullable);
                let good = self.value(&value.data_type, value.nullable);
                (self.join('{', &[format!("\"good\":{good}"), format!("\"bad\":{bad}")], '}'), format!(".bad{path}"))
            }
            DataType::Row(fields) => {
                if self.roll(3) == 0 {
                    return here(["[]", "\"{}\"", "0", "[1]"][self.roll(4)]);
                }
                let at = self.roll(fields.len());
                let mut bad_path = String::new();
                let mut values = Vec::new();
                for (i, f) in fields.iter().enumerate() {
                    if i == at {
                        let (bad, path) = self.misfit(&f.data_type, f.nullable);
                        bad_path = format!(".{}{path}", f.name);
                        values.push((f.name.clone(), bad));
                    } else {
                        values.push((f.name.clone(), self.value(&f.data_type, f.nullable)));
                    }
                }
                // what is wrong must stay in it
                (self.object(values, &|name| *name != fields[at].name && fields.iter().any(|f| f.name == name && f.nullable)), bad_path)
            }
            DataType::String => here("\"\\ud83d\""),
            DataType::Boolean => here(["1", "\"\"", "[]"][self.roll(3)]),
            _ => here(["\"x\"", "\"\"", "true", "{}", "[1]"][self.roll(5)]),
        }
    }
}

/// What arrow-json makes of the records.
fn theirs(m: &Mapping, rows: &[String]) -> RecordBatch {
    let mut decoder = arrow_json::ReaderBuilder::new(m.schema.to_arrow()).with_batch_size(rows.len()).build_decoder().unwrap();
    let text = rows.join("\n");
    assert_eq!(decoder.decode(text.as_bytes()).unwrap(), text.len());
    decoder.flush().unwrap().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nested_values_are_what_arrow_json_reads(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let ty = format!("{}{}", dice.type_text(3), if dice.roll(3) == 0 { " NOT NULL" } else { "" });
        let m = mapping(&[spec("v", &ty), spec("n", "INT")]);
        let field = m.schema.fields[0].clone();
        let rows = (0..1 + dice.roll(8)).map(|_| {
            let value = dice.value(&field.data_type, field.nullable);
            let n = dice.value(&DataType::Int, true);
            dice.object(vec![("v".into(), value), ("n".into(), n)], &|name| name == "n" || field.nullable)
        });
        let rows: Vec<String> = rows.collect();
        let ours = json(&m, &rows);
        prop_assert!(ours.rejects.is_empty(), "{} {:?}\n{}", ty, ours.rejects, rows.join("\n"));
        prop_assert_eq!(&ours.batch, &theirs(&m, &rows), "{}\n{}", ty, rows.join("\n"));
        if let Ok(columns) = infer(RecordFormat::Json, &CsvOptions::default(), &[records(&rows)]) {
            prop_assert_eq!(json(&mapping(&columns), &rows).rejects, [], "{:?}\n{}", columns, rows.join("\n"));
        }

        // the same through CSV, but for the null of a NOT NULL column
        let lines: Vec<String> = (0..rows.len()).map(|_| dice.value(&field.data_type, false)).collect();
        let records: Vec<String> = lines.iter().map(|v| format!("{{\"v\":{v}}}")).collect();
        // a text stands in a cell as it is, the others as JSON
        if field.data_type.is_nested() {
            let m = mapping(&[spec("v", &ty)]);
            let cells: Vec<String> = lines.iter().map(|v| format!("\"{}\"", v.replace('"', "\"\""))).collect();
            let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
            let from_csv = csv(&m, None, &CsvOptions::default(), &cells);
            prop_assert_eq!(&from_csv.rejects, &[]);
            prop_assert_eq!(from_csv.batch, json(&m, &records).batch);
        }
    }

    #[test]
    fn a_misfit_at_any_depth_takes_its_row_and_no_other(seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let ty = format!("{}{}", dice.type_text(3), if dice.roll(3) == 0 { " NOT NULL" } else { "" });
        let m = mapping(&[spec("n", "INT"), spec("v", &ty), spec("s", "STRING")]);
        let field = m.schema.fields[1].clone();
        let (mut rows, mut good, mut bad) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..2 + dice.roll(10) {
            let is_bad = dice.roll(3) == 0;
            let (value, path) = if is_bad { dice.misfit(&field.data_type, field.nullable) } else { (dice.value(&field.data_type, field.nullable), String::new()) };
            let row = format!("{{\"n\":{i},\"v\":{value},\"s\":\"row {i}\"}}");
            if is_bad { bad.push((i, format!("v{path}"))) } else { good.push(row.clone()) }
            rows.push(row);
        }
        let decoded = json(&m, &rows);
        let rejects: Vec<_> = decoded.rejects.iter().map(|r| (r.index, r.field.clone().unwrap())).collect();
        prop_assert_eq!(rejects, bad, "{}\n{}", ty, rows.join("\n"));
        prop_assert!(decoded.rejects.iter().all(|r| r.stage == Stage::Cast));
        prop_assert_eq!(decoded.batch, json(&m, &good).batch, "{}\n{}", ty, rows.join("\n"));
    }

    #[test]
    fn no_text_in_a_nested_column_panics(text in "[\\[\\]{}:,\"\\\\ak0.e -]{0,24}", seed in any::<u64>()) {
        let ty = Dice(seed).type_text(3);
        let m = mapping(&[spec("v", &ty), spec("w", "MAP<INT, MULTISET<STRING>>")]);
        let row = format!("{{\"v\":{text},\"w\":{text}}}");
        let decoded = json(&m, &[&row, "{}"]);
        prop_assert_eq!(decoded.batch.num_rows() + decoded.rejects.len(), 2);
        let cell = format!("\"{}\",{}", text.replace('"', "\"\""), text.replace(['"', ','], ""));
        let decoded = csv(&m, None, &CsvOptions::default(), &[&cell]);
        prop_assert_eq!(decoded.batch.num_rows() + decoded.rejects.len(), 1);
    }
}

#[test]
fn the_generator_makes_every_kind_of_type() {
    let types: String = (0..200).map(|seed| Dice(seed).type_text(3)).collect::<Vec<_>>().join(" ");
    for kind in ["ARRAY<ARRAY<", "ARRAY<ROW<", "MAP<STRING, MAP<", "MAP<STRING, ROW<", "NOT NULL>", "TIMESTAMP(9)", "TIME(3)"] {
        assert!(types.contains(kind), "{kind}");
    }
}
