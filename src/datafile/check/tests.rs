use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, ListArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, Schema as ArrowSchema};

use super::*;
use crate::error::Kind;

/// The type with nulls allowed everywhere but in keys: what is checked must not depend on what Arrow checks.
fn nullable(data_type: &ArrowType) -> ArrowType {
    let field = |f: &ArrowField| Arc::new(ArrowField::new(f.name(), nullable(f.data_type()), true));
    match data_type {
        ArrowType::List(f) => ArrowType::List(field(f)),
        ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(|f| field(f)).collect()),
        ArrowType::Map(entries, sorted) => {
            let ArrowType::Struct(kv) = entries.data_type() else { panic!("a map is made of structs") };
            let kv = vec![kv[0].clone(), field(&kv[1])];
            ArrowType::Map(Arc::new(ArrowField::new(entries.name(), ArrowType::Struct(kv.into()), false)), *sorted)
        }
        // The reader of JSON would refuse what is to be refused here.
        ArrowType::Decimal128(_, scale) => ArrowType::Decimal128(38, *scale),
        plain => plain.clone(),
    }
}

fn of_json(field: &Field, json: &str) -> ArrayRef {
    let arrow = ArrowField::new("c", nullable(&field.data_type.to_arrow()), true);
    let schema = Arc::new(ArrowSchema::new(vec![arrow]));
    let mut reader = arrow_json::ReaderBuilder::new(schema).build(json.as_bytes()).unwrap();
    reader.next().unwrap().unwrap().column(0).clone()
}

/// `c` of each row.
fn checked(type_text: &str, rows: &[&str]) -> Result<()> {
    let field = Field::parse(0, "c", type_text).unwrap();
    let json: Vec<String> = rows.iter().map(|row| format!("{{\"c\": {row}}}")).collect();
    column(&field, &of_json(&field, &json.join("\n")))
}

#[test]
fn what_does_not_fit_is_named_by_its_place_and_row_at_every_depth() {
    let cases: [(&str, &[&str], &str); 20] = [
        ("INT NOT NULL", &["1", "null"], "column `c` is NOT NULL and row 1 of the batch is null"),
        ("ARRAY<INT NOT NULL>", &["[1]", "[]", "[1, null]"], "column `c[]` is NOT NULL and row 2 of the batch is null"),
        ("ARRAY<INT> NOT NULL", &["[null]", "null"], "column `c` is NOT NULL and row 1"),
        ("ROW<a ROW<b INT NOT NULL>>", &[r#"{"a":{"b":1}}"#, "null", r#"{"a":{"b":null}}"#], "column `c.a.b` is NOT NULL and row 2"),
        ("ROW<a ARRAY<ROW<b INT NOT NULL>>>", &[r#"{"a":[{"b":1},{"b":null}]}"#], "column `c.a[].b` is NOT NULL and row 0"),
        ("ROW<a INT NOT NULL> NOT NULL", &[r#"{"a":1}"#, r#"{}"#], "column `c.a` is NOT NULL and row 1"),
        ("MAP<STRING, INT NOT NULL>", &[r#"{"x":1}"#, r#"{"x":null}"#], "column `c.value` is NOT NULL and row 1"),
        ("MAP<STRING, ARRAY<INT NOT NULL>>", &[r#"{"x":[1],"y":[null]}"#], "column `c.value[]` is NOT NULL and row 0"),
        ("DECIMAL(3, 1)", &["99.9", "null", "100.0"], "column `c` is DECIMAL with 3 digits and row 2 of the batch has more"),
        ("ARRAY<DECIMAL(3, 1)>", &["[1.0]", "[-100.0]"], "column `c[]` is DECIMAL with 3 digits and row 1"),
        ("VARCHAR(2)", &[r#""éé""#, r#""ééé""#], "column `c` is VARCHAR(2) and row 1 of the batch has 3 characters"),
        ("CHAR(2)", &[r#""é""#, r#""abc""#], "column `c` is CHAR(2) and row 1 of the batch has 3 characters"),
        ("MAP<VARCHAR(2), INT>", &[r#"{"ab":1}"#, r#"{"abc":1}"#], "column `c.key` is VARCHAR(2) and row 1"),
        ("MULTISET<VARCHAR(2)>", &[r#"{"abc":1}"#], "column `c.key` is VARCHAR(2) and row 0"),
        ("BINARY(2)", &[r#""0102""#, "null", r#""01""#], "column `c` is BINARY(2) and row 2 of the batch has 1 bytes"),
        ("BINARY(2)", &[r#""010203""#], "column `c` is BINARY(2) and row 0 of the batch has 3 bytes"),
        ("VARBINARY(2)", &[r#""01""#, r#""010203""#], "column `c` is VARBINARY(2) and row 1 of the batch has 3 bytes"),
        ("TIME(0)", &["0", "86399999", "86400000"], "column `c` is TIME(0) and row 2 of the batch has 86400000 milliseconds"),
        ("ARRAY<TIME(3)>", &["[0]", "[null, -1]"], "column `c[]` is TIME(3) and row 1 of the batch has -1 milliseconds"),
        ("ARRAY<MULTISET<STRING>>", &[r#"[{"a":1}, {"a":1,"b":2,"a":3}]"#], "column `c[]` is a map and row 0 of the batch has a key twice"),
    ];
    for (type_text, rows, wanted) in cases {
        let error = checked(type_text, rows).expect_err(type_text);
        assert_eq!(error.kind(), Kind::Invalid, "{type_text}");
        assert!(error.to_string().contains(wanted), "{type_text}: {error}\nwanted {wanted}");
        // Without its last value or row it fits, so nothing else was complained about.
        if rows.len() > 1 {
            checked(type_text, &rows[..rows.len() - 1]).expect(type_text);
        }
    }
}

#[test]
fn many_keys_are_compared_too() {
    let row = |n: usize, last: usize| {
        let keys: Vec<String> = (0..n).chain([last]).map(|i| format!("\"k{i}\": {i}")).collect();
        format!("{{{}}}", keys.join(","))
    };
    checked("MAP<STRING, INT>", &[&row(20, 20), &row(7, 7)]).unwrap();
    for n in [7, 8, 20] {
        let error = checked("MAP<STRING, INT>", &[&row(3, 3), &row(n, 2)]).unwrap_err();
        assert!(error.to_string().contains("row 1 of the batch has a key twice"), "{error}");
    }
}

#[test]
fn what_lies_under_a_null_or_outside_of_a_slice_does_not_count() {
    let item = Arc::new(ArrowField::new("element", ArrowType::Int32, true));
    let values: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(1), None, Some(2)]));
    // Rows: [null] under a null, [1], [null], [2].
    let offsets = OffsetBuffer::from_lengths([1, 1, 1, 1]);
    let list: ArrayRef = Arc::new(ListArray::new(item, offsets, values, Some(NullBuffer::from(vec![false, true, true, true]))));
    let field = Field::parse(0, "c", "ARRAY<INT NOT NULL>").unwrap();
    assert!(column(&field, &list).unwrap_err().to_string().contains("row 2"));
    column(&field, &list.slice(0, 2)).unwrap();
    column(&field, &list.slice(3, 1)).unwrap();

    let inner: ArrayRef = Arc::new(Int32Array::from(vec![None, Some(1)]));
    let fields = vec![ArrowField::new("a", ArrowType::Int32, true)];
    let row: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![inner], Some(NullBuffer::from(vec![false, true]))));
    column(&Field::parse(0, "c", "ROW<a INT NOT NULL>").unwrap(), &row).unwrap();
}
