//! Decoding as a whole: a table of (type, input, value or error), and properties.

mod nested;
mod nulls;

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use proptest::prelude::*;

use super::testing::{checked, mapping, records, spec};
use super::*;
use crate::schema::Scalar;
use crate::source::{Origin, Records};

fn json<R: AsRef<[u8]>>(mapping: &Mapping, values: &[R]) -> Decoded {
    JsonDecoder::new(mapping).decode(&records(values)).unwrap()
}

fn csv(mapping: &Mapping, header: Option<&[&str]>, options: &CsvOptions, values: &[&str]) -> Decoded {
    let mut records = records(values);
    let header = header.map(|h| Arc::new(h.iter().map(|n| (*n).to_owned()).collect()));
    records.origin = Arc::new(Origin { header, ..(*records.origin).clone() });
    CsvDecoder::new(mapping, options).unwrap().decode(&records).unwrap()
}

fn cell(batch: &RecordBatch, column: usize, row: usize) -> String {
    let options = FormatOptions::new().with_null("NULL");
    let array = batch.column(column);
    if array.data_type() == &arrow::datatypes::DataType::Binary && array.is_valid(row) {
        return format!("{:?}", Bytes::copy_from_slice(array.as_binary::<i32>().value(row)));
    }
    ArrayFormatter::try_new(array, &options).unwrap().value(row).to_string()
}

/// The value of the only row, or the stage and error of the only reject.
fn one(decoded: &Decoded) -> String {
    match decoded.rejects.as_slice() {
        [] => cell(&decoded.batch, 0, 0),
        [reject] => {
            assert_eq!(decoded.batch.num_rows(), 0);
            format!("{}: {}", reject.stage.as_str(), reject.error)
        }
        more => panic!("{more:?}"),
    }
}

/// Type, unit, JSON value, what comes out (errors without their `cast: column v TYPE: `).
const JSON: &[(&str, &str, &str, &str)] = &[
    ("BOOLEAN", "", "true", "true"),
    ("BOOLEAN", "", "\"FALSE\"", "false"),
    ("BOOLEAN", "", "null", "NULL"),
    ("BOOLEAN", "", "1", "! 1 is not true or false"),
    ("BOOLEAN", "", "\"yes\"", "! \"yes\" is not true or false"),
    ("TINYINT", "", "-128", "-128"),
    ("TINYINT", "", "127", "127"),
    ("TINYINT", "", "128", "! 128 is out of range, -128 to 127"),
    ("SMALLINT", "", "-32768", "-32768"),
    ("SMALLINT", "", "40000", "! 40000 is out of range, -32768 to 32767"),
    ("INT", "", "2147483647", "2147483647"),
    ("INT", "", "1.0", "1"),
    ("INT", "", "1e3", "1000"),
    ("INT", "", "1.5", "! 1.5 is not a whole number"),
    ("INT", "", "3000000000", "! 3000000000 is out of range, -2147483648 to 2147483647"),
    ("INT", "", "\" 42 \"", "42"),
    ("INT", "", "\"\"", "! \"\" is empty"),
    ("INT", "", "\"null\"", "! \"null\" is not a whole number"),
    ("INT", "", "true", "! true is not a whole number"),
    ("INT", "", "[1]", "! [1] is not a whole number"),
    ("INT", "", "\"4\\u0032\"", "42"),
    ("BIGINT", "", "9223372036854775807", "9223372036854775807"),
    ("BIGINT", "", "-9223372036854775808", "-9223372036854775808"),
    ("BIGINT", "", "9223372036854775808", "! 9223372036854775808 is out of range, -9223372036854775808 to 9223372036854775807"),
    ("BIGINT", "", "9007199254740993", "9007199254740993"),
    ("BIGINT", "", "\"9007199254740993\"", "9007199254740993"),
    ("BIGINT", "", "1e400", "! 1e400 is out of range, -9223372036854775808 to 9223372036854775807"),
    ("FLOAT", "", "0.1", "0.1"),
    ("FLOAT", "", "1e39", "! 1e39 is out of range"),
    ("FLOAT", "", "\"-Infinity\"", "-inf"),
    ("DOUBLE", "", "0.1", "0.1"),
    ("DOUBLE", "", "-0", "-0.0"),
    ("DOUBLE", "", "123456789012345678", "1.2345678901234568e17"),
    ("DOUBLE", "", "\"NaN\"", "NaN"),
    ("DOUBLE", "", "1e400", "! 1e400 is out of range"),
    ("DOUBLE", "", "\"abc\"", "! \"abc\" is not a number"),
    ("DECIMAL(10, 2)", "", "12.34", "12.34"),
    ("DECIMAL(10, 2)", "", "12.340", "12.34"),
    ("DECIMAL(10, 2)", "", "\"-0.05\"", "-0.05"),
    ("DECIMAL(10, 2)", "", "1e3", "1000.00"),
    ("DECIMAL(10, 2)", "", "99999999.99", "99999999.99"),
    ("DECIMAL(10, 2)", "", "100000000", "! 100000000 is too large, at most 8 digits fit before the point"),
    ("DECIMAL(10, 2)", "", "1.005", "! 1.005 has 3 digits after the point, 2 fit"),
    ("DECIMAL(10, 2)", "", "\"\"", "! \"\" is empty"),
    ("DECIMAL(10, 2)", "", "\"1,5\"", "! \"1,5\" is not a number"),
    ("DECIMAL(10, 2)", "", "\"NaN\"", "! \"NaN\" is not a number"),
    ("DECIMAL(38, 0)", "", "99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
    ("DECIMAL(38, 38)", "", "0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"),
    ("DECIMAL(38, 38)", "", "1", "! 1 is too large, at most 0 digits fit before the point"),
    ("DECIMAL(38, 0)", "", "123456789012345678901234567890123456789", "! 123456789012345678901234567890123456789 has more than 38 digits"),
    ("STRING", "", "\"\"", ""),
    ("STRING", "", "\"null\"", "null"),
    ("STRING", "", "null", "NULL"),
    ("STRING", "", "\"a\\n\\\"\\u00e9\\ud83d\\ude00/\\/\"", "a\n\"é😀//"),
    ("STRING", "", "\"\\ud83d\"", "! \"\\ud83d\" has half of a surrogate pair, which is no character"),
    ("STRING", "", "12.50", "12.50"),
    ("STRING", "", "true", "true"),
    ("STRING", "", "{\"a\": [1, 2]}", "{\"a\": [1, 2]}"),
    ("CHAR(3)", "", "\"é\"", "é"),
    ("VARCHAR(3)", "", "\"é😀x\"", "é😀x"),
    ("VARCHAR(3)", "", "\"abcd\"", "! \"abcd\" has 4 characters, at most 3 fit"),
    ("CHAR(3)", "", "1234", "! 1234 has 4 characters, at most 3 fit"),
    ("BYTES", "", "\"AAH/\"", "b\"\\0\\x01\\xff\""),
    ("BYTES", "", "\"\"", "b\"\""),
    ("BYTES", "", "\"a\"", "! \"a\" is not base64"),
    ("BYTES", "", "7", "! 7 is not a text of base64"),
    ("BINARY(3)", "", "\"AAH/\"", "b\"\\0\\x01\\xff\""),
    ("BINARY(3)", "", "\"AAE=\"", "! \"AAE=\" is 2 bytes, exactly 3 fit"),
    ("BINARY(3)", "", "\"AAH/AA\"", "! \"AAH/AA\" is 4 bytes, exactly 3 fit"),
    ("BINARY(3)", "", "null", "NULL"),
    ("BINARY(3)", "", "\"?\"", "! \"?\" is not base64"),
    ("VARBINARY(2)", "", "\"\"", "b\"\""),
    ("VARBINARY(2)", "", "\"AAE\"", "b\"\\0\\x01\""),
    ("VARBINARY(2)", "", "\"AAH/\"", "! \"AAH/\" is 3 bytes, at most 2 fit"),
    ("VARBINARY(2)", "", "[0]", "! [0] is not a text of base64"),
    ("TIME(3)", "", "\"12:34:56.789\"", "12:34:56.789"),
    ("TIME(3)", "", "\"00:00\"", "00:00:00"),
    ("TIME(3)", "", "\" 23:59:59.9999 \"", "23:59:59.999"),
    ("TIME(9)", "", "\"12:34:56.789999\"", "12:34:56.789"),
    ("TIME(0)", "", "\"12:34:56.789\"", "12:34:56"),
    ("TIME(1)", "", "\"12:34:56.789\"", "12:34:56.700"),
    ("TIME(3)", "", "\"24:00:00\"", "! \"24:00:00\" is a time of day that does not exist"),
    ("TIME(3)", "", "\"12:00:00+02:00\"", "! \"12:00:00+02:00\" has an offset, and a TIME has none"),
    ("TIME(3)", "", "\"noon\"", "! \"noon\" is not written HH:MM:SS[.f]"),
    ("TIME(3)", "", "\"\"", "! \"\" is empty"),
    ("TIME(3)", "", "45296789", "! 45296789 is a number, and the column does not say of what (set unit: s, ms, us or ns, since midnight)"),
    ("TIME(3)", "", "true", "! true is not a time of day"),
    ("TIME(3)", "ms", "45296789", "12:34:56.789"),
    ("TIME(3)", "ms", "\"45296789\"", "12:34:56.789"),
    ("TIME(3)", "s", "0.25", "00:00:00.250"),
    ("TIME(3)", "ns", "86399999999999", "23:59:59.999"),
    ("TIME(3)", "s", "86400", "! 86400 is not within a day, from 0 to before 24 hours"),
    ("TIME(3)", "us", "-1", "! -1 is not within a day, from 0 to before 24 hours"),
    ("TIME(3)", "s", "1e99", "! 1e99 is not within a day, from 0 to before 24 hours"),
    ("DATE", "", "\"2024-02-29\"", "2024-02-29"),
    ("DATE", "", "\"2023-02-29\"", "! \"2023-02-29\" is a date that does not exist"),
    ("DATE", "", "\"29.02.2024\"", "! \"29.02.2024\" is not written YYYY-MM-DD"),
    (
        "DATE",
        "",
        "19782",
        "! 19782 is a number, and the column does not say of what (set unit: d for days, or s, ms, us, ns since 1970-01-01)",
    ),
    ("DATE", "d", "19782", "2024-02-29"),
    ("DATE", "ms", "-1", "1969-12-31"),
    ("DATE", "", "true", "! true is not a date"),
    ("TIMESTAMP(3)", "", "\"2026-01-02T03:04:05.123456Z\"", "2026-01-02T03:04:05.123"),
    ("TIMESTAMP(6)", "", "\"2026-01-02T03:04:05.1234567+02:00\"", "2026-01-02T01:04:05.123456"),
    ("TIMESTAMP(3)", "", "\"1969-12-31 23:59:59.9999\"", "1969-12-31T23:59:59.999"),
    ("TIMESTAMP(3)", "", "\"2026-01-02\"", "2026-01-02T00:00:00"),
    ("TIMESTAMP(3)", "", "\"yesterday\"", "! \"yesterday\" is not written YYYY-MM-DD HH:MM:SS[.f] or as RFC 3339"),
    (
        "TIMESTAMP(3)",
        "",
        "1700000000",
        "! 1700000000 is a number, and the column does not say of what (set unit: s, ms, us or ns, since 1970-01-01 UTC)",
    ),
    ("TIMESTAMP(3)", "s", "1700000000.5", "2023-11-14T22:13:20.500"),
    ("TIMESTAMP(3)", "s", "\"1700000000\"", "2023-11-14T22:13:20"),
    ("TIMESTAMP(3)", "ms", "-1", "1969-12-31T23:59:59.999"),
    ("TIMESTAMP(6)", "us", "1", "1970-01-01T00:00:00.000001"),
    ("TIMESTAMP(6)", "ns", "-1", "1969-12-31T23:59:59.999999"),
    ("TIMESTAMP(6)", "s", "1e300", "! 1e300 is outside the years 0001 to 9999"),
    ("TIMESTAMP(6)", "s", "253402300800", "! 253402300800 is outside the years 0001 to 9999"),
    ("TIMESTAMP(6)", "ms", "\"2026-01-02 03:04:05\"", "2026-01-02T03:04:05"),
    ("TIMESTAMP(0)", "", "\"1969-12-31 23:59:59.9\"", "1969-12-31T23:59:59"),
    ("TIMESTAMP(1)", "s", "-0.25", "1969-12-31T23:59:59.700"),
    ("TIMESTAMP(4)", "", "\"2026-01-02 03:04:05.123456\"", "2026-01-02T03:04:05.123400"),
    ("TIMESTAMP(5)", "us", "-1", "1969-12-31T23:59:59.999990"),
    ("TIMESTAMP(7)", "", "\"2026-01-02 03:04:05.123456789\"", "2026-01-02T03:04:05.123456700"),
    ("TIMESTAMP(8)", "ns", "-1", "1969-12-31T23:59:59.999999990"),
    ("TIMESTAMP(9)", "", "\"2026-01-02T03:04:05.1234567899+02:00\"", "2026-01-02T01:04:05.123456789"),
    ("TIMESTAMP(9)", "", "\"1969-12-31 23:59:59.999999999\"", "1969-12-31T23:59:59.999999999"),
    ("TIMESTAMP(9)", "", "\"2026-01-02\"", "2026-01-02T00:00:00"),
    ("TIMESTAMP(9)", "ns", "1700000000123456789", "2023-11-14T22:13:20.123456789"),
    ("TIMESTAMP(9)", "s", "1700000000.123456789", "2023-11-14T22:13:20.123456789"),
    ("TIMESTAMP(9)", "ms", "\"1700000000123.456789\"", "2023-11-14T22:13:20.123456789"),
    ("TIMESTAMP(9)", "us", "1700000000123456.7", "2023-11-14T22:13:20.123456700"),
    ("TIMESTAMP(9)", "", "\"2262-04-11 23:47:16.854775807\"", "2262-04-11T23:47:16.854775807"),
    ("TIMESTAMP(9)", "", "\"1677-09-21 00:12:43.145224192\"", "1677-09-21T00:12:43.145224192"),
    (
        "TIMESTAMP(9)",
        "",
        "\"2262-04-11 23:47:16.854775808\"",
        "! \"2262-04-11 23:47:16.854775808\" is outside what nanoseconds can hold, 1677-09-21 00:12:43.145224192 to \
         2262-04-11 23:47:16.854775807 (precision 6 holds more)",
    ),
    (
        "TIMESTAMP(7)",
        "s",
        "-62000000000",
        "! -62000000000 is outside what nanoseconds can hold, 1677-09-21 00:12:43.145224192 to \
         2262-04-11 23:47:16.854775807 (precision 6 holds more)",
    ),
    ("TIMESTAMP(9)", "s", "1e300", "! 1e300 is outside the years 0001 to 9999"),
    ("TIMESTAMP(9)", "s", "253402300800", "! 253402300800 is outside the years 0001 to 9999"),
    ("TIMESTAMP(9)", "", "\"yesterday\"", "! \"yesterday\" is not written YYYY-MM-DD HH:MM:SS[.f] or as RFC 3339"),
    ("TIMESTAMP(9) WITH LOCAL TIME ZONE", "", "\"2026-01-02T03:04:05.5-05:00\"", "2026-01-02T08:04:05.500Z"),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "", "\"2026-01-02T03:04:05-05:00\"", "2026-01-02T08:04:05Z"),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "", "\"2026-01-02 03:04:05\"", "2026-01-02T03:04:05Z"),
];

#[test]
fn every_type_takes_what_it_can_hold_and_refuses_the_rest() {
    for (ty, unit, value, want) in JSON {
        let mut column = spec("v", ty);
        column.unit = Some((*unit).to_owned()).filter(|u| !u.is_empty());
        let got = one(&json(&mapping(&[column]), &[format!("{{\"v\":{value}}}")]));
        let want = want.strip_prefix("! ").map_or_else(|| (*want).to_owned(), |w| format!("cast: column v {ty}: {w}"));
        assert_eq!(got, want, "{ty} {value}");
    }
}

#[test]
fn null_absent_and_two_texts_are_four_things() {
    let rows = ["{\"v\":null}", "{}", "{\"v\":\"null\"}", "{\"v\":\"\"}"];
    let decoded = json(&mapping(&[spec("v", "STRING")]), &rows);
    let column = decoded.batch.column(0).as_string::<i32>();
    assert_eq!(column.iter().collect::<Vec<_>>(), [None, None, Some("null"), Some("")]);

    let decoded = json(&mapping(&[spec("v", "STRING NOT NULL")]), &rows);
    assert_eq!(decoded.batch.column(0).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("null"), Some("")]);
    let errors: Vec<_> = decoded.rejects.iter().map(|r| (r.index, r.stage, r.error.as_str(), r.field.as_deref())).collect();
    assert_eq!(
        errors,
        [
            (0, Stage::Cast, "column v is NOT NULL, but the record has null there", Some("v")),
            (1, Stage::Cast, "column v is NOT NULL, but the record has no such key", Some("v")),
        ]
    );
}

#[test]
fn what_is_no_record_says_where_and_why() {
    let m = mapping(&[spec("v", "BIGINT")]);
    let deep = format!("{{\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
    for (record, want) in [
        (&b"{\"v\":1"[..], "not valid JSON at byte 6: the record ends within an object"),
        (b"{\"v\":1,}", "not valid JSON at byte 7: a key in double quotes is expected (at })"),
        (b"{\"v\" 1}", "not valid JSON at byte 5: a colon is expected (at 1})"),
        (b"{v:1}", "not valid JSON at byte 1: a key in double quotes is expected (at v:1})"),
        (b"{\"v\":01}", "not valid JSON at byte 6: a number must not begin with 0 (at 1})"),
        (b"{\"v\":1.}", "not valid JSON at byte 7: a digit is expected behind the point (at })"),
        (b"{\"v\":NaN}", "not valid JSON at byte 5: NaN and Infinity are no JSON (write them as texts) (at NaN})"),
        (b"{\"v\":tru}", "not valid JSON at byte 5: a value is expected (at tru})"),
        (b"{\"v\":\"\t\"}", "not valid JSON at byte 6: a control character in a text must be written as an escape (at \\t\"})"),
        (b"{\"v\":\"\\x\"}", "not valid JSON at byte 6: an escape that JSON does not know (at \\x\"})"),
        (b"{\"v\":1} {\"v\":2}", "not valid JSON at byte 8: something follows the object (at {\"v\":2})"),
        (b"[1]", "the record is JSON, but not an object"),
        (b"null", "the record is JSON, but not an object"),
        (b"", "not valid JSON at byte 0: the record is empty"),
        (b"hello", "not valid JSON at byte 0: a value is expected (at hello)"),
        (b"{\"w\":\"\xff\"}", "not valid UTF-8 at byte 6"),
        (b"{\"\xc3\":1}", "not valid UTF-8 at byte 2"),
        (deep.as_bytes(), "not valid JSON at byte 132: more than 128 objects and arrays within each other (at [[[[[[[[[[[[[[[[[[[[)"),
    ] {
        assert_eq!(one(&json(&m, &[record])), format!("decode: {want}"));
    }
}

#[test]
fn what_the_source_could_not_take_apart_is_not_read() {
    let m = mapping(&[spec("v", "BIGINT")]);
    let mut r = records(&["{\"v\":1}", "{\"v\":2}", "{\"v\":3}"]);
    r.faults = vec![(1, "the line is longer than 16 MiB".into())];
    let mut csv = records(&["1", "2", "3"]);
    csv.faults.clone_from(&r.faults);
    for decoded in [JsonDecoder::new(&m).decode(&r).unwrap(), CsvDecoder::new(&m, &CsvOptions::default()).unwrap().decode(&csv).unwrap()] {
        assert_eq!((cell(&decoded.batch, 0, 0), cell(&decoded.batch, 0, 1)), ("1".into(), "3".into()));
        let error = "the line is longer than 16 MiB".to_owned();
        assert_eq!(decoded.rejects, [Reject { index: 1, stage: Stage::Decode, error, field: None }]);
    }
}

#[test]
fn a_bad_key_is_refused_each_time() {
    let bad = &b"{\"\xc3\":1,\"v\":2}"[..];
    let decoded = json(&mapping(&[spec("v", "BIGINT")]), &[bad, bad, b"{\"v\":3}"]);
    assert_eq!(decoded.rejects.len(), 2);
    assert_eq!(decoded.batch.num_rows(), 1);
}

#[test]
fn a_character_torn_over_two_records_is_refused_in_both() {
    let decoded = json(&mapping(&[spec("v", "STRING")]), &[&b"{\"v\":\"\xc3"[..], b"\xa9\"}", b"{\"v\":\"\xc3\xa9\"}"]);
    assert_eq!(decoded.rejects.iter().map(|r| r.index).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(cell(&decoded.batch, 0, 0), "é");
}

#[test]
fn the_last_of_two_equal_keys_counts() {
    let m = mapping(&[spec("v", "BIGINT"), ColumnSpec { from: Some("o.a".into()), ..spec("a", "BIGINT") }]);
    let decoded = json(&m, &["{\"v\":\"x\",\"v\":1,\"\\u0076\":2,\"o\":{\"a\":1},\"o\":{\"b\":1}}"]);
    assert_eq!((cell(&decoded.batch, 0, 0), cell(&decoded.batch, 1, 0)), ("2".into(), "NULL".into()));
}

#[test]
fn paths_go_through_objects_only() {
    let m = mapping(&[
        ColumnSpec { from: Some("o.a".into()), ..spec("a", "BIGINT") },
        ColumnSpec { from: Some("o".into()), ..spec("o", "STRING") },
        ColumnSpec { from: Some("\"x.y\".z".into()), ..spec("z", "STRING") },
    ]);
    let decoded = json(
        &m,
        &[
            "{\"o\": {\"a\": 1 }, \"x.y\":{\"q\":[{}],\"z\":\"k\"}}",
            "{\"o\":null}",
            "{\"x\":{\"y\":{\"z\":1}}}",
            "{\"o\":[1]}",
            "{\"o\":\"t\"}",
        ],
    );
    let row = |r| (0..3).map(|c| cell(&decoded.batch, c, r)).collect::<Vec<_>>();
    assert_eq!(row(0), ["1", "{\"a\": 1 }", "k"]);
    assert_eq!(row(1), ["NULL", "NULL", "NULL"]);
    assert_eq!(row(2), ["NULL", "NULL", "NULL"]);
    assert_eq!(decoded.rejects[0].error, "column a BIGINT: [1] is not an object, so it has no o.a");
    assert_eq!(decoded.rejects[1].error, "column a BIGINT: \"t\" is not an object, so it has no o.a");
}

#[test]
fn keys_in_any_order_with_any_blanks_give_the_same_rows() {
    let m = mapping(&[spec("a", "BIGINT"), spec("b", "STRING")]);
    let decoded = json(
        &m,
        &[
            "{\"a\":1,\"b\":\"x\",\"c\":0}",
            "{ \"b\" : \"x\" , \"a\" :\t1}",
            "{\"b\":\"x\",\"d\":{\"a\":7},\"a\":  1}\r\n",
            "\u{feff}{\"c\":[],\"a\":1,\"b\":\"x\"}",
            "  {\"a\":1,\"c\":3,\"b\":\"x\"}",
        ],
    );
    assert_eq!(decoded.rejects, []);
    for row in 0..5 {
        assert_eq!((cell(&decoded.batch, 0, row), cell(&decoded.batch, 1, row)), ("1".into(), "x".into()), "{row}");
    }
}

#[test]
fn a_new_field_is_refused_when_asked_for() {
    let specs = [ColumnSpec { from: Some("o.a".into()), ..spec("a", "BIGINT") }];
    let m = Mapping::build(&specs, &[], OnNewField::Reject, &[]).unwrap();
    let decoded = json(&m, &["{\"o\":{\"a\":1}}", "{\"o\":{\"a\":1}, \"n\" : 1}", "{\"o\":{\"m\":1}}"]);
    assert_eq!(decoded.batch.num_rows(), 1);
    let errors: Vec<_> = decoded.rejects.iter().map(|r| (r.error.as_str(), r.field.as_deref().unwrap())).collect();
    assert_eq!(errors, [("n is no column, and on_new_field is reject", "n"), ("m is no column, and on_new_field is reject", "m")]);
}

#[test]
fn meta_columns_come_from_around_the_record() {
    let meta = |name: &str, ty: &str, meta: &str| ColumnSpec { meta: Some(meta.into()), ..spec(name, ty) };
    let m = mapping(&[
        meta("t", "STRING", "topic"),
        meta("p", "INT", "partition"),
        meta("o", "BIGINT", "offset"),
        meta("ts", "TIMESTAMP(3)", "timestamp"),
        meta("ms", "BIGINT", "timestamp"),
        meta("k", "STRING", "key"),
        meta("kb", "BYTES", "key"),
        meta("h", "INT", "header.v"),
    ]);
    let mut r = records(&["{}", "{}", "{}"]);
    let decoded = JsonDecoder::new(&m).decode(&r).unwrap();
    let row = |d: &Decoded, r| (0..8).map(|c| cell(&d.batch, c, r)).collect::<Vec<_>>();
    assert_eq!(row(&decoded, 0), ["in/a.ndjson", "NULL", "8", "NULL", "NULL", "NULL", "NULL", "NULL"]);

    r.origin = Arc::new(Origin { name: "orders".into(), partition: Some(3), ..(*r.origin).clone() });
    r.timestamps = vec![1_700_000_000_123; 3];
    r.keys = vec![Some(Bytes::from_static(b"k\xc3\xa9")), Some(Bytes::from_static(b"\xff")), None];
    r.headers =
        vec![vec![("v".into(), Some("1".into())), ("w".into(), None), ("v".into(), Some("2".into()))], vec![], vec![("v".into(), None)]];
    let decoded = JsonDecoder::new(&m).decode(&r).unwrap();
    assert_eq!(row(&decoded, 0)[..7], ["orders", "3", "8", "2023-11-14T22:13:20.123", "1700000000123", "ké", "b\"k\\xc3\\xa9\""]);
    assert_eq!(row(&decoded, 0)[7], "2");
    assert_eq!(row(&decoded, 1)[5..], ["NULL", "NULL", "NULL"]);
    assert_eq!(decoded.rejects.len(), 1);
    assert_eq!(decoded.rejects[0].error, "column k STRING: \"\u{fffd}\" is not valid UTF-8");
    assert_eq!(decoded.rejects[0].field.as_deref(), Some("meta key"));
}

#[test]
fn exprs_compute_from_other_columns() {
    let expr = |name: &str, ty: &str, expr: &str| ColumnSpec { expr: Some(expr.into()), ..spec(name, ty) };
    let m = mapping(&[
        expr("dt", "STRING", "date(ts)"),
        spec("ts", "TIMESTAMP(3)"),
        expr("d", "DATE", " DATE( `ts` ) "),
        expr("y", "INT", "year(ts)"),
        expr("m", "STRING", "month(ts)"),
        expr("dd", "TINYINT", "day(ts)"),
        expr("h", "CHAR(3)", "hour(ts)"),
    ]);
    let decoded = json(&m, &["{\"ts\":\"2026-03-04 05:06:07\"}", "{\"ts\":\"1969-12-31T23:59:59Z\"}", "{}"]);
    let row = |r| (0..7).map(|c| cell(&decoded.batch, c, r)).collect::<Vec<_>>();
    assert_eq!(row(0), ["2026-03-04", "2026-03-04T05:06:07", "2026-03-04", "2026", "03", "4", "05"]);
    assert_eq!(row(1), ["1969-12-31", "1969-12-31T23:59:59", "1969-12-31", "1969", "12", "31", "23"]);
    assert_eq!(row(2), ["NULL"; 7]);

    let m = mapping(&[
        spec("ts", "TIMESTAMP(9)"),
        expr("d", "DATE", "date(ts)"),
        expr("h", "INT", "hour(ts)"),
        spec("t", "TIME(3)"),
        expr("th", "INT", "hour(t)"),
    ]);
    let decoded = json(&m, &["{\"ts\":\"1969-12-31 23:59:59.999999999\",\"t\":\"21:00\"}"]);
    assert_eq!([1, 2, 4].map(|c| cell(&decoded.batch, c, 0)), ["1969-12-31", "23", "21"]);

    let m = mapping(&[spec("ts", "TIMESTAMP(6)"), expr("dt", "STRING NOT NULL", "date(ts)")]);
    let decoded = json(&m, &["{}", "{\"ts\":\"2026-03-04 05:06:07\"}"]);
    assert_eq!(decoded.rejects[0].error, "column dt is NOT NULL, but date(ts) is null, as ts is");
    assert_eq!(decoded.batch.num_rows(), 1);
}

#[test]
fn csv_tells_null_from_the_empty_text() {
    let m = mapping(&[spec("a", "STRING"), spec("b", "INT"), spec("gone", "INT")]);
    let options = CsvOptions { null: Some("\\N".into()), ..CsvOptions::default() };
    let decoded = csv(
        &m,
        Some(&["b", "x", "a"]),
        &options,
        &["1,,x\r\n", "\"2\",,\n", ",,\"\"", "\\N,,\"\\N\"", "4,\"q,\n\",\"say \"\"hi\"\"\"", "5,, b ", "6,,b\"c\""],
    );
    assert_eq!(decoded.rejects, []);
    let row = |r| (0..3).map(|c| cell(&decoded.batch, c, r)).collect::<Vec<_>>();
    let want = [["x", "1"], ["NULL", "2"], ["", "NULL"], ["\\N", "NULL"], ["say \"hi\"", "4"], [" b ", "5"], ["b\"c\"", "6"]];
    for (r, [a, b]) in want.iter().enumerate() {
        assert_eq!(row(r), [*a, *b, "NULL"], "{r}");
    }
}

#[test]
fn a_bad_csv_row_says_why() {
    let m = mapping(&[spec("a", "INT NOT NULL"), spec("b", "STRING")]);
    let options = CsvOptions { delimiter: b';', quote: b'\'', ..CsvOptions::default() };
    for (row, want) in [
        ("1", "decode: the row has 1 fields, fewer than the header, 2"),
        ("1;2;3", "decode: the row has 3 fields, more than the header, 2"),
        ("1;'x", "decode: not valid CSV at byte 2: a quoted field is not closed (at 'x)"),
        ("1;'x'y", "decode: not valid CSV at byte 5: something follows a closing quote (at y)"),
        (";x", "cast: column a is NOT NULL, but the field is empty"),
        ("'';x", "cast: column a INT: \"\" is empty"),
        ("1.5;x", "cast: column a INT: \"1.5\" is not a whole number"),
    ] {
        assert_eq!(one(&csv(&m, Some(&["a", "b"]), &options, &[row])), want);
    }
    assert_eq!(one(&csv(&m, Some(&["b", "c"]), &options, &["1;2"])), "cast: column a is NOT NULL, but the header has no such name");
    assert_eq!(one(&csv(&m, Some(&["a", "a"]), &options, &["1;2"])), "decode: the header has the name \"a\" twice");
    assert_eq!(one(&csv(&m, None, &options, &["1;2;3"])), "decode: the row has 3 fields, more than the columns, 2");
    let bad = CsvDecoder::new(&m, &options).unwrap().decode(&records(&[&b"1;\xff"[..]])).unwrap();
    assert_eq!(one(&bad), "decode: not valid UTF-8 at byte 2");
}

#[test]
fn csv_without_a_header_goes_by_position() {
    let m = mapping(&[ColumnSpec { meta: Some("offset".into()), ..spec("o", "BIGINT") }, spec("a", "INT"), spec("b", "STRING")]);
    let options = CsvOptions { header: false, ..CsvOptions::default() };
    let decoded = csv(&m, None, &options, &["1,x", "2,"]);
    assert_eq!(
        (cell(&decoded.batch, 1, 1), cell(&decoded.batch, 2, 0), cell(&decoded.batch, 2, 1)),
        ("2".into(), "x".into(), "NULL".into())
    );
    let named = mapping(&[ColumnSpec { from: Some("x".into()), ..spec("a", "INT") }]);
    let error = CsvDecoder::new(&named, &options).err().unwrap().to_string();
    assert!(error.starts_with("column \"a\": from: x needs a header"), "{error}");
}

fn passing(check: &str, rows: &[&str]) -> Vec<usize> {
    let m = checked(
        &[
            spec("id", "BIGINT"),
            spec("amount", "DECIMAL(10, 2)"),
            spec("f", "FLOAT"),
            spec("name", "STRING"),
            spec("ok", "BOOLEAN"),
            spec("d", "DATE"),
            spec("ts", "TIMESTAMP(3)"),
            spec("te", "TIMESTAMP(6)"),
            spec("tn", "TIMESTAMP(9)"),
            spec("tm", "TIME(3)"),
            spec("odd name", "INT"),
        ],
        &[check],
    );
    let decoded = json(&m, rows);
    let failed: Vec<usize> = decoded.rejects.iter().map(|r| r.index).collect();
    assert!(decoded.rejects.iter().all(|r| r.stage == Stage::Constraint));
    (0..rows.len()).filter(|r| !failed.contains(r)).collect()
}

#[test]
fn checks_compare_exactly_and_let_unknown_through() {
    let amounts = ["{\"amount\":-0.01}", "{\"amount\":0}", "{\"amount\":0.01}", "{}"];
    assert_eq!(passing("amount >= 0", &amounts), [1, 2, 3]);
    assert_eq!(passing("0 <= amount", &amounts), [1, 2, 3]);
    assert_eq!(passing("amount > 0.005", &amounts), [2, 3]);
    assert_eq!(passing("amount < 0.005", &amounts), [0, 1, 3]);
    assert_eq!(passing("amount >= -0.005", &amounts), [1, 2, 3]);
    assert_eq!(passing("amount = 0.010", &amounts), [2, 3]);
    assert_eq!(passing("amount != 0.005", &amounts), [0, 1, 2, 3]);
    assert_eq!(passing("amount < 1e30 and amount > -1e99", &amounts), [0, 1, 2, 3]);
    assert_eq!(passing("amount is not null and amount >= 0", &amounts), [1, 2]);
    assert_eq!(passing("not (amount >= 0)", &amounts), [0, 3]);
    assert_eq!(passing("amount in (0, 0.01)", &amounts), [1, 2, 3]);
    assert_eq!(passing("amount NOT IN (0, 0.01)", &amounts), [0, 3]);
    assert_eq!(passing("amount >= 0 or name is null", &amounts), [0, 1, 2, 3]);
    assert_eq!(passing("amount > id", &["{\"amount\":1.01,\"id\":1}", "{\"amount\":1,\"id\":1}", "{\"id\":1}"]), [0, 2]);
    assert_eq!(passing("id = 9007199254740993", &["{\"id\":9007199254740992}", "{\"id\":9007199254740993}"]), [1]);
    assert_eq!(passing("f = 0.1", &["{\"f\":0.1}", "{\"f\":0.2}", "{\"f\":\"NaN\"}"]), [0]);
    assert_eq!(passing("f < id", &["{\"f\":0.5,\"id\":1}", "{\"f\":1.5,\"id\":1}"]), [0]);
    assert_eq!(passing("name in ('a', \"it's\", 'it''s')", &["{\"name\":\"a\"}", "{\"name\":\"it's\"}", "{\"name\":\"b\"}"]), [0, 1]);
    assert_eq!(passing("ok", &["{\"ok\":true}", "{\"ok\":false}", "{}"]), [0, 2]);
    assert_eq!(passing("not ok or ok = true", &["{\"ok\":true}", "{\"ok\":false}"]), [0, 1]);
    assert_eq!(passing("d >= '2026-01-01'", &["{\"d\":\"2025-12-31\"}", "{\"d\":\"2026-01-01\"}"]), [1]);
    assert_eq!(passing("ts < '2026-01-01T00:00:00.0005'", &["{\"ts\":\"2026-01-01\"}", "{\"ts\":\"2026-01-01 00:00:00.001\"}"]), [0]);
    assert_eq!(
        passing("ts <= te", &["{\"ts\":\"2026-01-01\",\"te\":\"2026-01-01\"}", "{\"ts\":\"2026-01-02\",\"te\":\"2026-01-01\"}"]),
        [0]
    );
    assert_eq!(passing("amount between 0 and 0.005", &amounts), [1, 3]);
    assert_eq!(passing("amount not between 0 and 0.005", &amounts), [0, 2, 3]);
    assert_eq!(passing("name like 'a%_'", &["{\"name\":\"ab\"}", "{\"name\":\"a\"}", "{}"]), [0, 2]);
    let fine = ["{\"tn\":\"2026-01-01 00:00:00.000000001\"}", "{\"tn\":\"2026-01-01 00:00:00.000000002\"}"];
    assert_eq!(passing("tn <= '2026-01-01 00:00:00.000000001'", &fine), [0]);
    assert_eq!(passing("tn < '9999-12-31' and tn > '0001-01-01'", &fine), [0, 1]);
    assert_eq!(passing("te < tn", &["{\"te\":\"2026-01-01\",\"tn\":\"2026-01-01 00:00:00.000000001\"}"]), [0]);
    assert_eq!(passing("tm < '12:00'", &["{\"tm\":\"11:59:59.999\"}", "{\"tm\":\"12:00:00\"}", "{}"]), [0, 2]);
    assert_eq!(passing("`odd name` <> 3", &["{\"odd name\":3}", "{\"odd name\":4}"]), [1]);
}

#[test]
fn a_failing_check_shows_its_values() {
    let m = checked(&[spec("a", "DECIMAL(4, 2)"), spec("b", "STRING")], &["a >= 0 or b = 'x'"]);
    let decoded = json(&m, &["{\"a\":-1.5,\"b\":\"y\"}"]);
    assert_eq!(one(&decoded), "constraint: check \"a >= 0 or b = 'x'\" is false: a = -1.50, b = y");
    assert_eq!(decoded.rejects[0].field.as_deref(), Some("a"));
}

#[test]
fn a_wrong_check_points_at_the_place() {
    for (check, at, want) in [
        ("", 0, "expected a column or a value"),
        ("1 = 1", 0, "compares two values, and no column"),
        ("amount >> 0", 8, "expected a column or a value"),
        ("amount >= 'x'", 10, "column amount is DECIMAL(4, 2); compare it with a number, without quotes"),
        ("status = 1", 0, "status is no column (the columns are: amount, näme, t, b; a text stands in quotes)"),
        ("näme = 1", 7, "column näme is STRING; compare it with a text in quotes"),
        ("t = 12", 4, "column t is TIME(0); compare it with a text like '12:30:00'"),
        ("t = '12'", 4, "12 is not written HH:MM:SS[.f] (column t is TIME(0))"),
        ("b = 'x'", 4, "column b is BINARY(2), which only is null and is not null are for"),
        ("amount = null", 9, "nothing equals null; write is null or is not null"),
        ("amount in ()", 11, "expected a column or a value"),
        ("amount in (1", 12, "expected ) or a comma"),
        ("(amount = 1", 11, "expected )"),
        ("amount", 6, "expected one of: = != < <= > >= in, between, like, is null, is not null"),
        ("amount + 1 > 2", 7, "arithmetic is not supported in checks"),
        ("abs(amount) > 2", 0, "functions are not supported in checks"),
        ("amount > 1 extra", 11, "expected and, or, or the end"),
        ("näme = 'x", 7, "this quote is not closed"),
        ("amount = näme", 9, "DECIMAL(4, 2) and STRING cannot be compared"),
        ("amount > 1 && amount < 2", 11, "write and"),
        ("amount = X'00'", 9, "bytes are not compared in checks"),
        ("amount like '1%'", 12, "column amount is DECIMAL(4, 2), and like is for texts"),
        ("amount < NaN", 9, "is not a number of at most 38 digits"),
    ] {
        let specs = [spec("amount", "DECIMAL(4, 2)"), spec("näme", "STRING"), spec("t", "TIME"), spec("b", "BINARY(2)")];
        let error = Mapping::build(&specs, &[check.to_owned()], OnNewField::Ignore, &[]).unwrap_err();
        assert_eq!(error.kind(), crate::Kind::Invalid);
        assert_eq!(error.message(), format!("check: {want}\n    {check}\n    {}^", " ".repeat(at)));
    }
    let deep = format!("{}ok{}", "(".repeat(10_000), ")".repeat(10_000));
    let specs = [spec("ok", "BOOLEAN")];
    assert!(Mapping::build(&specs, &[deep], OnNewField::Ignore, &[]).is_err());
}

#[test]
fn a_partition_that_cannot_be_takes_its_rows_and_no_others() {
    let specs = [spec("p", "STRING"), spec("v", "INT")];
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let check: PartitionCheck = Arc::new(move |values| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match values {
            [Some(Scalar::String(s))] if s.len() > 3 => Err("the name of the directory is too long".into()),
            _ => Ok(()),
        }
    });
    let m = Mapping::build(&specs, &[], OnNewField::Ignore, &["p".into()]).unwrap().with_partition_check(check);
    let decoded =
        json(&m, &["{\"p\":\"a\"}", "{\"p\":\"long\"}", "{\"p\":\"a\"}", "{}", "{\"p\":\"long\",\"v\":1}", "{\"p\":\"long\",\"v\":\"x\"}"]);
    let rejects: Vec<_> = decoded.rejects.iter().map(|r| (r.index, r.stage)).collect();
    assert_eq!(rejects, [(1, Stage::Partition), (4, Stage::Partition), (5, Stage::Cast)]);
    assert_eq!(decoded.rejects[0].error, "the name of the directory is too long");
    assert_eq!(decoded.batch.num_rows(), 3);
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[test]
fn columns_are_inferred_from_what_is_seen() {
    let got = |format, options: &CsvOptions, r: &Records| {
        let columns = infer(format, options, std::slice::from_ref(r)).unwrap();
        columns.into_iter().map(|c| (c.name, c.type_text)).collect::<Vec<_>>()
    };
    let r = records(&[
        "{\"b\":true,\"i\":1,\"big\":1,\"d\":1,\"dt\":\"2026-01-02\",\"ts\":\"2026-01-02 03:04:05\",\"z\":\"2026-01-02T03:04:05.1234Z\"}",
        "{\"n\":null,\"b\":null,\"i\":-9223372036854775808,\"big\":9223372036854775808,\"d\":1.5,\"dt\":\"2026-01-03\",\"ts\":\"2026-01-02\"}",
        "not json",
        "{\"o\":{\"x\":1},\"s\":\"\",\"m\":1}",
        "{\"m\":\"x\",\"huge\":123456789012345678901234567890123456789,\"mix\":\"2026-01-02 03:04:05\"}",
        "{\"mix\":\"2026-01-02T03:04:05Z\"}",
    ]);
    let want = [
        ("b", "BOOLEAN"),
        ("i", "BIGINT"),
        ("big", "DECIMAL(38, 0)"),
        ("d", "DOUBLE"),
        ("dt", "DATE"),
        ("ts", "TIMESTAMP(3)"),
        ("z", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ("n", "STRING"),
        ("o", "ROW<x BIGINT>"),
        ("s", "STRING"),
        ("m", "STRING"),
        ("huge", "STRING"),
        ("mix", "STRING"),
    ];
    let want: Vec<_> = want.iter().map(|(n, t)| ((*n).to_owned(), (*t).to_owned())).collect();
    assert_eq!(got(RecordFormat::Json, &CsvOptions::default(), &r), want);

    let r = records(&["1,x,,TRUE,007,1.5,\"2026-01-02\"\n", "\"2\",\"1\",,false,8,NaN,2026-01-03\n", "bad\"row\n"]);
    let options = CsvOptions { header: false, ..CsvOptions::default() };
    let types: Vec<_> =
        got(RecordFormat::Csv, &options, &records(&["1,x,,TRUE,007,1.5,\"2026-01-02\"\n", "\"2\",\"1\",,false,8,NaN,2026-01-03\n"]))
            .into_iter()
            .map(|c| c.1)
            .collect();
    assert_eq!(types, ["BIGINT", "STRING", "STRING", "BOOLEAN", "STRING", "DOUBLE", "DATE"]);
    assert_eq!(infer(RecordFormat::Csv, &options, &[r]).unwrap()[6].name, "c7");
    assert!(infer(RecordFormat::Json, &options, &[records(&["[]"])]).is_err());
}

#[test]
fn formats_that_are_not_there_yet_are_refused_by_name() {
    assert!(RecordFormat::parse("avro").unwrap_err().to_string().contains("avro is not supported yet"));
    assert!(RecordFormat::parse("debezium").is_err());
    let m = mapping(&[spec("v", "INT")]);
    let mut decoder = make_decoder(RecordFormat::parse("csv").unwrap(), &m, &CsvOptions::default()).unwrap();
    assert_eq!(decoder.decode(&records(&["1", "2"])).unwrap().batch.num_rows(), 2);
    assert!(make_decoder(RecordFormat::Csv, &m, &CsvOptions { quote: b',', ..CsvOptions::default() }).is_err());
}

fn everything() -> Vec<ColumnSpec> {
    vec![
        spec("b", "BOOLEAN"),
        spec("i", "INT NOT NULL"),
        spec("f", "DOUBLE"),
        spec("d", "DECIMAL(10, 2)"),
        spec("s", "STRING"),
        spec("c", "VARCHAR(3)"),
        spec("y", "BYTES"),
        spec("t", "DATE"),
        ColumnSpec { unit: Some("ms".into()), ..spec("ts", "TIMESTAMP(6)") },
        ColumnSpec { from: Some("o.p".into()), ..spec("p", "STRING") },
    ]
}

fn good_row(i: usize) -> String {
    format!(
        "{{\"b\":{},\"i\":{i},\"f\":{i}.25,\"d\":\"{i}.50\",\"s\":\"é\\n{i}\",\"y\":\"AAEC\",\"t\":\"2026-01-02\",\"ts\":{i},\"o\":{{\"p\":{i}}}}}\n",
        i.is_multiple_of(2)
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn one_bad_record_never_changes_the_good_ones(
        rows in 1usize..1200,
        at in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        change in prop::option::of(any::<(prop::sample::Index, u8)>()),
    ) {
        let m = checked(&everything(), &["i >= 0"]);
        let good: Vec<Vec<u8>> = (0..rows).map(|i| good_row(i).into_bytes()).collect();
        let mut with_bad = good.clone();
        let mut bad = good_row(7).into_bytes();
        match change {
            Some((place, byte)) => { let place = place.index(bad.len()); bad[place] = byte; }
            None => bad.truncate(cut.index(bad.len())),
        }
        let at = at.index(rows + 1);
        with_bad.insert(at, bad);
        let alone = json(&m, &good);
        prop_assert!(alone.rejects.is_empty());
        let both = json(&m, &with_bad);
        if both.rejects.is_empty() {
            // the change did no harm: it is a row among the others
            prop_assert_eq!(both.batch.slice(0, at), alone.batch.slice(0, at));
            prop_assert_eq!(both.batch.slice(at + 1, rows - at), alone.batch.slice(at, rows - at));
        } else {
            prop_assert_eq!(both.rejects.len(), 1);
            prop_assert_eq!(both.rejects[0].index, at);
            prop_assert_eq!(both.batch, alone.batch);
        }
    }

    #[test]
    fn every_record_is_a_row_or_a_reject_whatever_its_bytes(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let m = checked(&everything(), &["i >= 0"]);
        let decoded = json(&m, &values);
        prop_assert_eq!(decoded.batch.num_rows() + decoded.rejects.len(), values.len());
        let header: Vec<String> = everything().into_iter().map(|c| c.name).collect();
        let mut r = records(&values);
        r.origin = Arc::new(Origin { header: Some(Arc::new(header)), ..(*r.origin).clone() });
        let decoded = CsvDecoder::new(&m, &CsvOptions::default()).unwrap().decode(&r).unwrap();
        prop_assert_eq!(decoded.batch.num_rows() + decoded.rejects.len(), values.len());
        let _ = infer(RecordFormat::Json, &CsvOptions::default(), &[r.clone()]);
        let _ = infer(RecordFormat::Csv, &CsvOptions::default(), &[r]);
    }

    #[test]
    fn what_is_json_for_serde_is_json_here(text in "[\\[\\]{}:,\"\\\\a0.e+ -]{0,14}", object in any::<bool>()) {
        let text = if object { format!("{{\"v\":{text}}}") } else { text };
        let decoded = json(&mapping(&[spec("x", "STRING")]), &[&text]);
        let theirs = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text).or_else(|e| {
            // serde refuses numbers that no float holds; they are JSON all the same
            if e.to_string().contains("out of range") { Ok(serde_json::Map::new()) } else { Err(e) }
        });
        prop_assert_eq!(decoded.rejects.is_empty(), theirs.is_ok(), "{} {:?}", text, decoded.rejects);
    }

    #[test]
    fn texts_come_out_as_serde_writes_them(s in any::<String>(), escape in any::<bool>()) {
        let mut value = serde_json::to_string(&s).unwrap();
        if escape {
            let units: String = s.encode_utf16().map(|u| format!("\\u{u:04x}")).collect();
            value = format!("\"{units}\"");
        }
        let decoded = json(&mapping(&[spec("v", "STRING")]), &[format!("{{\"v\":{value}}}")]);
        prop_assert_eq!(decoded.batch.column(0).as_string::<i32>().value(0), s);
    }

    #[test]
    fn csv_texts_come_out_as_they_were_quoted(values in prop::collection::vec(any::<String>(), 3)) {
        let row = values.iter().map(|v| format!("\"{}\"", v.replace('"', "\"\""))).collect::<Vec<_>>().join(",");
        let m = mapping(&[spec("a", "STRING"), spec("b", "STRING"), spec("c", "STRING")]);
        let decoded = csv(&m, None, &CsvOptions::default(), &[&row]);
        prop_assert_eq!(&decoded.rejects, &[]);
        for (c, value) in values.iter().enumerate() {
            prop_assert_eq!(decoded.batch.column(c).as_string::<i32>().value(0), value);
        }
    }

    #[test]
    fn integers_and_decimals_agree_with_their_text(n in any::<i64>(), d in -9_999_999_999_i64..=9_999_999_999) {
        let m = mapping(&[spec("n", "BIGINT"), spec("d", "DECIMAL(10, 2)")]);
        let sign = if d < 0 { "-" } else { "" };
        let text = format!("{sign}{}.{:02}", d.unsigned_abs() / 100, d.unsigned_abs() % 100);
        let decoded = json(&m, &[format!("{{\"n\":{n},\"d\":{text}}}")]);
        prop_assert_eq!((cell(&decoded.batch, 0, 0), cell(&decoded.batch, 1, 0)), (n.to_string(), text));
    }

    #[test]
    fn no_check_text_panics(text in "\\PC{0,40}", words in prop::collection::vec(prop::sample::select(vec!["id", "name", "(", ")", "and", "or", "not", "in", "is", "null", "=", "<", ",", "1", "'x'", "true"]), 0..12)) {
        let specs = [spec("id", "BIGINT"), spec("name", "STRING")];
        for check in [text, words.join(" ")] {
            if let Ok(m) = Mapping::build(&specs, &[check], OnNewField::Ignore, &[]) {
                json(&m, &["{\"id\":1}", "{\"name\":\"x\"}"]);
            }
        }
    }

    #[test]
    fn no_path_and_no_expr_panics(text in "\\PC{0,20}") {
        let specs = [ColumnSpec { from: Some(text.clone()), ..spec("a", "INT") }];
        let _ = Mapping::build(&specs, &[], OnNewField::Ignore, &[]);
        let specs = [ColumnSpec { expr: Some(text), ..spec("a", "INT") }];
        let _ = Mapping::build(&specs, &[], OnNewField::Ignore, &[]);
    }
}
