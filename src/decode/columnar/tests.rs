use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::{Field, Int32Type, Schema};

use super::super::testing::{checked, mapping, spec};
use super::super::{Meta, make_decoder};
use super::*;
use crate::decode::{ColumnMapping, CsvOptions, RecordFormat};
use crate::source::Origin;

fn rows(columns: Vec<(&str, ArrayRef)>) -> Rows {
    let origin = Origin { split: "in/a.parquet".into(), name: "in/a.parquet".into(), partition: None, header: None };
    let fields: Vec<Field> = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    Rows { origin: Arc::new(origin), batch: RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap(), first: 1000 }
}

fn a<T: Array + 'static>(array: T) -> ArrayRef {
    Arc::new(array)
}

fn decode(specs: &[ColumnSpec], rows: &Rows) -> Decoded {
    make_decoder(RecordFormat::Parquet, &mapping(specs), &CsvOptions::default()).unwrap().decode_rows(rows).unwrap()
}

fn errors(decoded: &Decoded) -> Vec<(usize, &str)> {
    decoded.rejects.iter().map(|r| (r.index, r.error.as_str())).collect()
}

#[test]
fn columns_are_found_by_name_and_a_value_that_does_not_fit_takes_only_its_row() {
    let rows = rows(vec![
        ("other", a(Int32Array::from(vec![0, 0, 0, 0]))),
        ("n", a(Int64Array::from(vec![Some(1), Some(3_000_000_000), None, Some(4)]))),
        ("s", a(StringArray::from(vec!["a", "b", "c", "too long"]))),
    ]);
    let decoded = decode(&[spec("s", "VARCHAR(3)"), spec("n", "INT"), spec("missing", "DATE")], &rows);
    assert_eq!(
        errors(&decoded),
        [
            (1, "column n INT: 3000000000 is out of range, -2147483648 to 2147483647"),
            (3, "column s VARCHAR(3): \"too long\" has 8 characters, at most 3 fit"),
        ]
    );
    assert_eq!(decoded.rejects[0].stage, Stage::Cast);
    assert_eq!(decoded.batch.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(decoded.batch.column(1).as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(1), None]);
    assert_eq!(decoded.batch.column(2).null_count(), 2);
}

#[test]
fn not_null_paths_into_rows_meta_exprs_and_checks_are_as_for_records() {
    let inner = StructArray::from(vec![(
        Arc::new(Field::new("x", arrow::datatypes::DataType::Int32, true)),
        a(Int32Array::from(vec![Some(1), Some(2), None, Some(-4)])),
    )]);
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let (fields, columns, _) = inner.into_parts();
    let outer = StructArray::new(fields, columns, Some(nulls));
    let day = 86_400_000_000_i64;
    let rows = rows(vec![("o", a(outer)), ("ts", a(TimestampMicrosecondArray::from(vec![0, day, 2 * day, 3 * day + 1])))]);
    let with = |f: &dyn Fn(&mut ColumnSpec), name: &str, ty: &str| {
        let mut s = spec(name, ty);
        f(&mut s);
        s
    };
    let specs = [
        with(&|s| s.from = Some("o.x".into()), "x", "BIGINT NOT NULL"),
        spec("ts", "TIMESTAMP(3)"),
        with(&|s| s.expr = Some("date(ts)".into()), "d", "STRING"),
        with(&|s| s.meta = Some("offset".into()), "row", "BIGINT"),
    ];
    let mapping = checked(&specs, &["x >= 0"]);
    let decoded = make_decoder(RecordFormat::Parquet, &mapping, &CsvOptions::default()).unwrap().decode_rows(&rows).unwrap();
    let places: Vec<(usize, Stage)> = decoded.rejects.iter().map(|r| (r.index, r.stage)).collect();
    assert_eq!(places, [(1, Stage::Cast), (2, Stage::Cast), (3, Stage::Constraint)]);
    assert!(decoded.rejects[0].error.contains("column x is NOT NULL"), "{}", decoded.rejects[0].error);
    assert_eq!(decoded.batch.num_rows(), 1);
    assert_eq!(decoded.batch.column(3).as_primitive::<arrow::datatypes::Int64Type>().value(0), 1000);
    assert_eq!(decoded.batch.column(2).as_string::<i32>().value(0), "1970-01-01");
    let missing = decode(&[with(&|s| s.from = Some("ts.x".into()), "x", "INT")], &rows);
    assert_eq!(missing.rejects.len(), 4);
    assert!(missing.rejects[0].error.contains("is not an object"), "{}", missing.rejects[0].error);
}

#[test]
fn what_fits_as_a_whole_and_value_by_value_is_the_same() {
    let stamps = vec![Some(-1_i64), None, Some(1_700_000_000_123_456), Some(0)];
    let sources: Vec<ArrayRef> = vec![
        a(Int8Array::from(vec![Some(1), None, Some(-7), Some(0)])),
        a(UInt32Array::from(vec![Some(1), None, Some(4_000_000_000), Some(0)])),
        a(UInt64Array::from(vec![Some(1), None, Some(u64::MAX), Some(0)])),
        a(Int64Array::from(vec![Some(1), None, Some(i64::MIN), Some(20)])),
        a(Float32Array::from(vec![Some(0.1), None, Some(f32::INFINITY), Some(-0.0)])),
        a(Float64Array::from(vec![Some(0.1), None, Some(1e300), Some(3.0)])),
        a(Decimal128Array::from(vec![Some(125), None, Some(-99_999), Some(0)]).with_precision_and_scale(9, 2).unwrap()),
        a(StringArray::from(vec![Some("1"), None, Some("é\"\n"), Some("2020-01-02")])),
        a(BinaryArray::from(vec![Some(&b"1"[..]), None, Some(b"\xff\x00"), Some(b"abc")])),
        a(Date32Array::from(vec![Some(0), None, Some(-719_163), Some(19_000)])),
        a(TimestampMicrosecondArray::from(stamps.clone())),
        a(TimestampMillisecondArray::from(stamps.clone()).with_timezone("UTC")),
        a(TimestampNanosecondArray::from(stamps)),
        a(Time64MicrosecondArray::from(vec![Some(0), None, Some(86_399_999_999), Some(1_500_000)])),
        a(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)])),
        a(NullArray::new(4)),
    ];
    let types = [
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(9, 2)",
        "DECIMAL(38, 10)",
        "DECIMAL(5, 1)",
        "STRING",
        "BYTES",
        "DATE",
        "BOOLEAN",
        "TIMESTAMP(3)",
        "TIMESTAMP(6)",
        "TIMESTAMP(3) WITH LOCAL TIME ZONE",
        "TIME(0)",
        "TIME(3)",
        "TIMESTAMP(0)",
        "TIMESTAMP(9)",
        "TIMESTAMP(7)",
        "TIMESTAMP(4) WITH LOCAL TIME ZONE",
    ];
    let mut whole = 0;
    for array in &sources {
        for ty in types {
            let rows = rows(vec![("c", array.clone())]);
            let mapping = mapping(&[spec("c", ty)]);
            let column: &ColumnMapping = &mapping.columns[0];
            let Some(fits) = conform(array, &column.data_type) else { continue };
            whole += 1;
            if (ty, array.data_type()) == ("DOUBLE", &A::Float32) {
                continue; // the whole gives the number that it is, the text of it the nearest to what is printed
            }
            let mut builder = Builder::new(&mapping);
            let places = rows.places();
            let mut bad = builder.start(&places);
            let found = Found::Column(array.clone());
            builder.fill(0, &FileColumn { found: &found, len: 4, field: "c", bytes: ty == "BYTES" }, &mut bad);
            let one_by_one = builder.finish_with(&places, bad, Vec::new()).unwrap();
            assert!(one_by_one.rejects.is_empty(), "{} as {ty}: {:?}", array.data_type(), one_by_one.rejects);
            assert_eq!(&fits, one_by_one.batch.column(0), "{} as {ty}", array.data_type());
        }
    }
    assert!(whole > 35, "{whole}");
    assert!(matches!(mapping(&[spec("c", "INT")]).columns[0].from, ValueFrom::Record { .. }));
    let _ = Meta::Offset;
}

#[test]
fn nested_columns_fit_as_a_whole_or_value_by_value_and_one_that_does_not_takes_only_its_row() {
    use arrow::datatypes::Int64Type;
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![Some(1), None]), Some(vec![Some(5_000_000_000)]), None]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for n in 0..3 {
        map.keys().append_value(format!("k{n}"));
        map.values().append_value(n);
        map.append(true).unwrap();
    }
    let field = |name: &str, t| Arc::new(Field::new(name, t, true));
    let row = StructArray::from(vec![
        (field("y", A::Utf8), a(StringArray::from(vec![Some("a"), None, Some("c")]))),
        (field("x", A::Int32), a(Int32Array::from(vec![1, 2, 3]))),
    ]);
    let rows = rows(vec![("l", a(list)), ("m", a(map.finish())), ("r", a(row))]);
    let specs = [spec("l", "ARRAY<INT>"), spec("m", "MAP<STRING, BIGINT>"), spec("r", "ROW<x BIGINT, y STRING, z DATE>")];
    let decoded = decode(&specs, &rows);
    assert_eq!(decoded.rejects.iter().map(|r| (r.index, r.stage)).collect::<Vec<_>>(), [(1, Stage::Cast)], "{:?}", decoded.rejects);
    let shown = |row| {
        let mut out = Vec::new();
        let columns = decoded.batch.columns().iter().map(|c| (c.as_ref() as &dyn Array, row));
        arrow_value::object(["l", "m", "r"].map(|n| n.as_bytes().to_vec()).into_iter().zip(columns), &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(shown(0), r#"{"l":[1,null],"m":{"k0":0},"r":{"x":1,"y":"a","z":null}}"#);
    assert_eq!(shown(1), r#"{"l":null,"m":{"k2":2},"r":{"x":3,"y":"c","z":null}}"#);
    let strict = decode(&[spec("r", "ROW<x BIGINT, y STRING NOT NULL>")], &rows);
    assert_eq!(strict.rejects.iter().map(|r| r.index).collect::<Vec<_>>(), [1]);
    let inferred: Vec<String> = columns_of(&rows).unwrap().into_iter().map(|s| s.type_text).collect();
    assert_eq!(inferred, ["ARRAY<BIGINT>", "MAP<STRING NOT NULL, BIGINT>", "ROW<y STRING, x INT>"]);
}

#[test]
fn on_new_field_reject_looks_into_the_rows_that_columns_reach_into() {
    let inner = StructArray::from(vec![
        (Arc::new(Field::new("x", arrow::datatypes::DataType::Int32, true)), a(Int32Array::from(vec![1]))),
        (Arc::new(Field::new("y", arrow::datatypes::DataType::Int32, true)), a(Int32Array::from(vec![1]))),
    ]);
    let rows = rows(vec![("o", a(inner))]);
    let mut s = spec("x", "INT");
    s.from = Some("o.x".into());
    let mapping = Mapping::build(&[s], &[], OnNewField::Reject, &[]).unwrap();
    let decoded = ColumnarDecoder::new(&mapping).decode_rows(&rows).unwrap();
    assert_eq!(errors(&decoded), [(0, "y is no column, and on_new_field is reject")]);
}

#[test]
fn a_dead_letter_holds_the_row_as_json() {
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![None, Some(vec![Some(1), None])]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.append(false).unwrap();
    map.keys().append_value("k\"");
    map.values().append_value(7);
    map.append(true).unwrap();
    let rows = rows(vec![
        ("d", a(Decimal128Array::from(vec![1, 12345]).with_precision_and_scale(9, 3).unwrap())),
        ("l", a(list)),
        ("m", a(map.finish())),
        ("b", a(BinaryArray::from(vec![&b"x"[..], b"\xff\x00\x01\x02"]))),
        ("t", a(TimestampMillisecondArray::from(vec![0, -1]).with_timezone("UTC"))),
        ("f", a(Float64Array::from(vec![0.5, f64::NAN]))),
        ("s", a(StringArray::from(vec!["", "ä\n"]))),
    ]);
    let records = as_records(&rows, &[1]);
    assert_eq!(records.offsets, [1001]);
    let text = String::from_utf8(records.value(0).to_vec()).unwrap();
    assert_eq!(text, r#"{"d":12.345,"l":[1,null],"m":{"k\"":7},"b":"/wABAg==","t":"1969-12-31T23:59:59.999Z","f":"NaN","s":"ä\n"}"#);
}

#[test]
fn columns_of_a_file_become_types_of_a_table() {
    let rows = rows(vec![
        ("i", a(Int32Array::from(vec![1]))),
        ("a.b", a(StringArray::from(vec!["x"]))),
        ("t", a(TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC"))),
        ("d", a(Decimal128Array::from(vec![1]).with_precision_and_scale(9, 3).unwrap())),
        ("u", a(UInt64Array::from(vec![1]))),
    ]);
    let specs = columns_of(&rows).unwrap();
    let shown: Vec<(&str, &str)> = specs.iter().map(|s| (s.name.as_str(), s.type_text.as_str())).collect();
    assert_eq!(
        shown,
        [("i", "INT"), ("a.b", "STRING"), ("t", "TIMESTAMP(6) WITH LOCAL TIME ZONE"), ("d", "DECIMAL(9, 3)"), ("u", "DECIMAL(20, 0)")]
    );
    let decoded = decode(&specs, &rows);
    assert_eq!((decoded.rejects.len(), decoded.batch.num_rows()), (0, 1));
    assert_eq!(decoded.batch.column(1).as_string::<i32>().value(0), "x");
}
