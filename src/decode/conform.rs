//! Columns that fit a table's type as they are, or by a cast that loses nothing: a whole array at once.
//!
//! Whatever is not certain here (a length to check, a value out of range) is left to the cast of each value, which says what is wrong with it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast, cast_with_options, max, min};
use arrow::datatypes::{DataType as A, FieldRef, Int64Type, TimeUnit};

use crate::schema::{DataType, Field, Item, unit_digits};

/// `array` as a column of type `to`; none: look at each value.
pub(super) fn conform(array: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    use DataType as D;
    let target = to.to_arrow();
    let from = array.data_type();
    if *from == A::Null {
        return Some(new_null_array(&target, array.len()));
    }
    match to {
        // Lengths are checked value by value.
        D::Char(_) | D::VarChar(_) | D::Binary(_) | D::VarBinary(_) => None,
        D::Boolean | D::String | D::Float if *from == target => Some(array.clone()),
        D::Bytes => match from {
            A::Binary => Some(array.clone()),
            A::Utf8 | A::FixedSizeBinary(_) => cast(array, &target).ok(),
            _ => None,
        },
        D::TinyInt | D::SmallInt | D::Int | D::BigInt if from.is_integer() => lossless(array, &target),
        D::Double if matches!(from, A::Float64 | A::Float32 | A::Float16) || from.is_integer() => lossless(array, &target),
        D::Decimal { precision, scale } => match from {
            A::Decimal128(p, s) if p == precision && i16::from(*s) == i16::from(*scale) => Some(array.clone()),
            A::Decimal128(_, s) if i16::from(*s) <= i16::from(*scale) => lossless(array, &target),
            from if from.is_integer() => lossless(array, &target),
            _ => None,
        },
        D::Date if *from == A::Date32 => within(&cast(array, &A::Int64).ok().or_else(|| wide(array))?, DAYS).then(|| array.clone()),
        D::Time(3..) if matches!(from, A::Time32(_) | A::Time64(_)) => {
            let out = cast(array, &target).ok()?;
            within(&cast(&cast(&out, &A::Int32).ok()?, &A::Int64).ok()?, (0, 86_400_000 - 1)).then_some(out)
        }
        D::Timestamp(p) | D::TimestampLtz(p) => timestamps(array, *p, &target),
        D::Array(item) => {
            let list = array.as_list_opt::<i32>()?;
            let A::List(field) = target else { return None };
            let values = child(list.values(), item)?;
            Some(Arc::new(ListArray::try_new(field, list.offsets().clone(), values, list.nulls().cloned()).ok()?))
        }
        D::Map(key, value) => map(array, &target, (key, value)),
        D::Multiset(item) => map(array, &target, (item, &Item { data_type: D::Int, nullable: false })),
        D::Row(fields) => row(array, fields),
        _ => None,
    }
}

/// Days of the years 0001 to 9999.
const DAYS: (i64, i64) = (-719_162, 2_932_896);

fn wide(array: &ArrayRef) -> Option<ArrayRef> {
    cast(&cast(array, &A::Int32).ok()?, &A::Int64).ok()
}

fn within(array: &ArrayRef, (least, most): (i64, i64)) -> bool {
    let Some(values) = array.as_primitive_opt::<Int64Type>() else { return false };
    min(values).is_none_or(|v| v >= least) && max(values).is_none_or(|v| v <= most)
}

/// A cast after which nothing is missing.
fn lossless(array: &ArrayRef, target: &A) -> Option<ArrayRef> {
    let out = cast_with_options(array, target, &CastOptions { safe: true, ..CastOptions::default() }).ok()?;
    (out.null_count() == array.null_count()).then_some(out)
}

/// Digits below the precision are cut off; an instant and a wall clock in UTC are the same number.
fn timestamps(array: &ArrayRef, precision: u8, target: &A) -> Option<ArrayRef> {
    let (A::Timestamp(from, _), A::Timestamp(to, _)) = (array.data_type(), target) else { return None };
    let (from, to) = (u32::from(unit_digits(*from)), u32::from(unit_digits(*to)));
    let values = cast(array, &A::Int64).ok()?;
    let one = 10_i64.pow(from);
    if !within(&values, (DAYS.0.saturating_mul(86_400).saturating_mul(one), (DAYS.1 + 1).saturating_mul(86_400).saturating_mul(one) - 1)) {
        return None;
    }
    let values = values.as_primitive::<Int64Type>();
    let (up, down) = (10_i64.pow(to.saturating_sub(from)), 10_i64.pow(from.saturating_sub(to)));
    let cut = 10_i64.pow(to.saturating_sub(precision.into()));
    for end in [min(values), max(values)].into_iter().flatten() {
        end.checked_mul(up)?;
    }
    let values: Int64Array = values.unary(|v| {
        // A value that is null may be anything.
        let v = v.wrapping_mul(up).div_euclid(down);
        v - v.rem_euclid(cut)
    });
    cast(&values, target).ok()
}

fn child(array: &ArrayRef, item: &Item) -> Option<ArrayRef> {
    let out = conform(array, &item.data_type)?;
    (item.nullable || out.null_count() == 0).then_some(out)
}

fn map(array: &ArrayRef, target: &A, (key, value): (&Item, &Item)) -> Option<ArrayRef> {
    let map = array.as_map_opt()?;
    let A::Map(field, _) = target else { return None };
    let A::Struct(fields) = field.data_type() else { return None };
    let keys = child(map.keys(), key)?;
    let values = child(map.values(), value)?;
    if keys.null_count() > 0 {
        return None;
    }
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None).ok()?;
    Some(Arc::new(MapArray::try_new(field.clone(), map.offsets().clone(), entries, map.nulls().cloned(), false).ok()?))
}

fn row(array: &ArrayRef, fields: &[Field]) -> Option<ArrayRef> {
    let row = array.as_struct_opt()?;
    let column = |field: &Field| match row.column_by_name(&field.name) {
        Some(column) => conform(column, &field.data_type),
        None => field.nullable.then(|| new_null_array(&field.data_type.to_arrow(), row.len())),
    };
    let columns = fields.iter().map(column).collect::<Option<Vec<_>>>()?;
    let fields: Vec<FieldRef> = fields.iter().map(|f| Arc::new(f.to_arrow())).collect();
    // Refuses a null in a field that must have a value.
    Some(Arc::new(StructArray::try_new(fields.into(), columns, row.nulls().cloned()).ok()?))
}

/// The type of a table's column for a column of a file; none: there is no such type.
pub(super) fn type_of(from: &A) -> Option<DataType> {
    use DataType as D;
    Some(match from {
        A::Boolean => D::Boolean,
        A::Int8 => D::TinyInt,
        A::Int16 | A::UInt8 => D::SmallInt,
        A::Int32 | A::UInt16 => D::Int,
        A::Int64 | A::UInt32 => D::BigInt,
        A::UInt64 => D::Decimal { precision: 20, scale: 0 },
        A::Float16 | A::Float32 => D::Float,
        A::Float64 => D::Double,
        A::Decimal128(p, s) => D::Decimal { precision: *p, scale: u8::try_from(*s).ok()? },
        A::Utf8 | A::Null => D::String,
        A::Binary | A::FixedSizeBinary(_) => D::Bytes,
        A::Date32 => D::Date,
        A::Time32(_) => D::Time(3),
        A::Time64(TimeUnit::Microsecond) => D::Time(6),
        A::Time64(_) => D::Time(9),
        A::Timestamp(unit, zone) => {
            let p = unit_digits(*unit);
            if zone.is_some() { D::TimestampLtz(p) } else { D::Timestamp(p) }
        }
        A::List(inner) => D::Array(Box::new(item(inner)?)),
        A::Struct(fields) => {
            let field = |f: &FieldRef| {
                Some(Field { id: 0, name: f.name().clone(), data_type: type_of(f.data_type())?, nullable: true, description: None })
            };
            D::Row(fields.iter().map(field).collect::<Option<_>>()?)
        }
        A::Map(entries, _) => match entries.data_type() {
            A::Struct(fields) if fields.len() == 2 => {
                D::Map(Box::new(Item { nullable: false, ..item(&fields[0])? }), Box::new(item(&fields[1])?))
            }
            _ => return None,
        },
        _ => return None,
    })
}

fn item(field: &FieldRef) -> Option<Item> {
    Some(Item { data_type: type_of(field.data_type())?, nullable: true })
}
