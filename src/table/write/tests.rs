use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, Int32Array, ListArray, MapArray, StringArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as ArrowType, Field as ArrowField};

use super::*;
use crate::error::Kind;

fn column(type_text: &str) -> Field {
    Field::parse(0, "c", type_text).unwrap()
}

fn list(name: &str, nullable: bool, values: ArrayRef, lengths: &[usize]) -> ArrayRef {
    let field = Arc::new(ArrowField::new(name, values.data_type().clone(), nullable));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths.iter().copied()), values, None))
}

fn numbers(values: &[Option<i32>]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

#[test]
fn other_names_inside_of_a_list_are_taken_without_copying_its_values() {
    let values = numbers(&[Some(1), Some(2), Some(3)]);
    let batch = list("item", true, values.clone(), &[1, 2]);
    let field = column("ARRAY<INT NOT NULL>");
    let renamed = renamed(&batch, Some(&field)).unwrap();
    assert_eq!(*renamed.data_type(), field.data_type.to_arrow());
    let same = |a: &ArrayRef, b: &ArrayRef| a.to_data().buffers()[0].as_ptr() == b.to_data().buffers()[0].as_ptr();
    assert!(same(renamed.as_list::<i32>().values(), &values));
    assert_eq!(renamed.as_list::<i32>().value(1).as_ref(), numbers(&[Some(2), Some(3)]).as_ref());
}

#[test]
fn a_null_that_the_table_does_not_allow_is_named() {
    let batch = list("item", true, numbers(&[Some(1), None]), &[1, 1]);
    let error = renamed(&batch, Some(&column("ARRAY<INT NOT NULL>"))).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("column `c[]` is NOT NULL and row 1 of the batch is null"), "{error}");
    // What a slice leaves out does not count.
    renamed(&batch.slice(0, 1), Some(&column("ARRAY<INT NOT NULL>"))).unwrap();
}

#[test]
fn other_names_inside_of_a_map_are_taken() {
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let fields = vec![ArrowField::new("keys", ArrowType::Utf8, false), ArrowField::new("values", ArrowType::Int32, true)];
    let entries = StructArray::new(fields.into(), vec![keys, numbers(&[Some(1), Some(2)])], None);
    let entry = Arc::new(ArrowField::new("entries", entries.data_type().clone(), false));
    let batch: ArrayRef = Arc::new(MapArray::new(entry, OffsetBuffer::from_lengths([2]), entries, None, true));
    for text in ["MAP<STRING, INT>", "MAP<STRING NOT NULL, INT NOT NULL>", "MULTISET<STRING>"] {
        let field = column(text);
        assert_eq!(*renamed(&batch, Some(&field)).unwrap().data_type(), field.data_type.to_arrow(), "{text}");
    }
    let error = renamed(&batch, Some(&column("MAP<STRING, BIGINT>"))).unwrap_err();
    assert!(error.to_string().contains("column `c.value` is Int32 in the batch and BIGINT in the table"), "{error}");
}

#[test]
fn fields_of_a_row_are_matched_by_name() {
    let row = |names: [&str; 2]| -> ArrayRef {
        let fields: Vec<ArrowField> = names.iter().map(|n| ArrowField::new(*n, ArrowType::Int32, true)).collect();
        let columns = vec![numbers(&[Some(1), None]), numbers(&[Some(2), None])];
        Arc::new(StructArray::new(fields.into(), columns, Some(NullBuffer::from(vec![true, false]))))
    };
    let field = column("ROW<b INT NOT NULL, x STRING, a INT>");
    let made = renamed(&row(["a", "b"]), Some(&field)).unwrap();
    assert_eq!(*made.data_type(), field.data_type.to_arrow());
    let made = made.as_struct();
    let (b, x, a) = (made.column(0), made.column(1), made.column(2));
    assert_eq!((b.as_ref(), a.as_ref()), (numbers(&[Some(2), None]).as_ref(), numbers(&[Some(1), None]).as_ref()));
    assert_eq!((x.null_count(), made.null_count()), (2, 1));
    let error = renamed(&row(["a", "z"]), Some(&field)).unwrap_err();
    assert!(error.to_string().contains("the table has no field `z` there"), "{error}");
    let error = renamed(&row(["a", "x"]), Some(&column("ROW<b INT NOT NULL, a INT, x INT>"))).unwrap_err();
    assert!(error.to_string().contains("column `c.b` is NOT NULL and row 0 of the batch is null"), "{error}");
}
