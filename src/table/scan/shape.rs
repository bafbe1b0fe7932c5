//! Arrays of other writers, and of older schemas, in the Arrow form of the table's types.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array, ListArray, MapArray, StructArray, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, Fields, Int64Type, TimeUnit};
use arrow::error::ArrowError;

use crate::schema::{DataType, Field, Item};

/// Where the array comes from.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum From {
    /// A data file: units and widths may differ, fields of a ROW are found by their ids.
    File,
    /// A batch that is to be written: only names and nullability inside of a type may differ, fields of a ROW are found by their names.
    Batch,
}

/// An array that is not what it should be.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// The place in the column, such as `a.b[]`.
    pub(crate) path: String,
    /// Its type in the table.
    pub(crate) want: String,
    /// What the array has there.
    pub(crate) got: String,
    /// More, if there is more to say.
    pub(crate) because: Option<ArrowError>,
}

/// Can a column that was written as `old` be read as `new`? Fields of a ROW may have come, gone, moved and been renamed.
pub(super) fn readable(old: &DataType, new: &DataType) -> bool {
    match (old, new) {
        (DataType::Array(o), DataType::Array(n)) | (DataType::Multiset(o), DataType::Multiset(n)) => readable(&o.data_type, &n.data_type),
        (DataType::Map(ok, ov), DataType::Map(nk, nv)) => readable(&ok.data_type, &nk.data_type) && readable(&ov.data_type, &nv.data_type),
        (DataType::Row(old), DataType::Row(new)) => {
            new.iter().all(|n| old.iter().find(|o| o.id == n.id).is_none_or(|o| readable(&o.data_type, &n.data_type)))
        }
        (old, new) => old == new,
    }
}

/// The type with nulls allowed everywhere inside of it, but in keys.
pub(crate) fn loose(data_type: &DataType) -> DataType {
    let item = |item: &Item| Box::new(Item { data_type: loose(&item.data_type), nullable: true });
    match data_type {
        DataType::Array(element) => DataType::Array(item(element)),
        DataType::Multiset(element) => DataType::Multiset(item(element)),
        DataType::Map(key, value) => DataType::Map(item(key), item(value)),
        DataType::Row(fields) => {
            DataType::Row(fields.iter().map(|f| Field { data_type: loose(&f.data_type), nullable: true, ..f.clone() }).collect())
        }
        plain => plain.clone(),
    }
}

/// The array in the Arrow form of `new`; values are copied only where their width changes. `old` is the type under which it was written.
pub(crate) fn shaped(array: &ArrayRef, old: &DataType, new: &Field, from: From) -> Result<ArrayRef, Misfit> {
    Shaper { from, path: new.name.clone() }.shape(array, None, old, &new.data_type)
}

struct Shaper {
    from: From,
    path: String,
}

impl Shaper {
    /// `mask`: where the ROW around it is null. Readers leave nulls under it in what is NOT NULL.
    fn shape(&mut self, array: &ArrayRef, mask: Option<&NullBuffer>, old: &DataType, new: &DataType) -> Result<ArrayRef, Misfit> {
        let want = new.to_arrow();
        if *array.data_type() == want && (!new.is_nested() || old == new) {
            return Ok(array.clone());
        }
        match (old, new) {
            (DataType::Array(o), DataType::Array(n)) => self.list(array, o, n, new),
            (DataType::Map(ok, ov), DataType::Map(nk, nv)) => self.map(array, [&ok.data_type, &ov.data_type], [nk, nv], new),
            (DataType::Multiset(o), DataType::Multiset(n)) => {
                let count = Item { data_type: DataType::Int, nullable: false };
                self.map(array, [&o.data_type, &DataType::Int], [n, &count], new)
            }
            (DataType::Row(o), DataType::Row(n)) => self.row(array, mask, (o, n), new),
            _ if self.from == From::Batch => Err(self.misfit(array, new)),
            _ => plain(array, &want).map_err(|because| Misfit { because, ..self.misfit(array, new) }),
        }
    }

    fn within(
        &mut self,
        step: &str,
        array: &ArrayRef,
        mask: Option<&NullBuffer>,
        (old, new): (&DataType, &DataType),
    ) -> Result<ArrayRef, Misfit> {
        let before = self.path.len();
        self.path.push_str(step);
        let shaped = self.shape(array, mask, old, new)?;
        self.path.truncate(before);
        Ok(shaped)
    }

    fn misfit(&self, array: &ArrayRef, new: &DataType) -> Misfit {
        Misfit { path: self.path.clone(), want: new.to_string(), got: array.data_type().to_string(), because: None }
    }

    fn list(&mut self, array: &ArrayRef, old: &Item, new: &Item, whole: &DataType) -> Result<ArrayRef, Misfit> {
        let narrow = match array.data_type() {
            ArrowType::List(_) => array.clone(),
            ArrowType::LargeList(f) | ArrowType::FixedSizeList(f, _) | ArrowType::ListView(f) | ArrowType::LargeListView(f) => {
                cast(array, &ArrowType::List(f.clone())).map_err(|e| Misfit { because: Some(e), ..self.misfit(array, whole) })?
            }
            _ => return Err(self.misfit(array, whole)),
        };
        let list = narrow.as_list::<i32>();
        let (offsets, from, len) = from_zero(list.offsets());
        let values = self.within("[]", &list.values().slice(from, len), None, (&old.data_type, &new.data_type))?;
        let ArrowType::List(field) = whole.to_arrow() else { return Err(self.misfit(array, whole)) };
        let made = ListArray::try_new(field, offsets, values, list.nulls().cloned());
        Ok(Arc::new(made.map_err(|e| Misfit { because: Some(e), ..self.misfit(array, whole) })?))
    }

    fn map(&mut self, array: &ArrayRef, old: [&DataType; 2], new: [&Item; 2], whole: &DataType) -> Result<ArrayRef, Misfit> {
        let Some(map) = array.as_map_opt() else { return Err(self.misfit(array, whole)) };
        let (offsets, from, len) = from_zero(map.offsets());
        let keys = self.within(".key", &map.keys().slice(from, len), None, (old[0], &new[0].data_type))?;
        let values = self.within(".value", &map.values().slice(from, len), None, (old[1], &new[1].data_type))?;
        let ArrowType::Map(field, ordered) = whole.to_arrow() else { return Err(self.misfit(array, whole)) };
        let ArrowType::Struct(fields) = field.data_type() else { return Err(self.misfit(array, whole)) };
        let made = StructArray::try_new(fields.clone(), vec![keys, values], None)
            .and_then(|entries| MapArray::try_new(field.clone(), offsets, entries, map.nulls().cloned(), ordered));
        Ok(Arc::new(made.map_err(|e| Misfit { because: Some(e), ..self.misfit(array, whole) })?))
    }

    fn row(
        &mut self,
        array: &ArrayRef,
        mask: Option<&NullBuffer>,
        (old, new): (&[Field], &[Field]),
        whole: &DataType,
    ) -> Result<ArrayRef, Misfit> {
        let Some(row) = array.as_struct_opt() else { return Err(self.misfit(array, whole)) };
        let nulls = NullBuffer::union(row.nulls(), mask);
        if self.from == From::Batch
            && let Some(extra) = row.column_names().into_iter().find(|name| !new.iter().any(|f| f.name == *name))
        {
            let because = Some(ArrowError::SchemaError(format!("the table has no field `{extra}` there")));
            return Err(Misfit { because, ..self.misfit(array, whole) });
        }
        let mut columns = Vec::with_capacity(new.len());
        for field in new {
            let found = old.iter().find(|o| match self.from {
                From::File => o.id == field.id,
                From::Batch => o.name == field.name,
            });
            columns.push(match found.and_then(|o| Some((o, row.column_by_name(&o.name)?))) {
                Some((o, column)) => self.within(&format!(".{}", field.name), column, nulls.as_ref(), (&o.data_type, &field.data_type))?,
                None => new_null_array(&field.data_type.to_arrow(), row.len()),
            });
        }
        let fields: Fields = new.iter().map(Field::to_arrow).map(Arc::new).collect::<Vec<Arc<ArrowField>>>().into();
        let made = StructArray::try_new(fields, columns, nulls);
        Ok(Arc::new(made.map_err(|e| Misfit { because: Some(e), ..self.misfit(array, whole) })?))
    }
}

/// The offsets beginning with 0, and which part of the values they then refer to: what a slice leaves out is not looked at.
fn from_zero(offsets: &OffsetBuffer<i32>) -> (OffsetBuffer<i32>, usize, usize) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let at = |o: i32| usize::try_from(o).unwrap_or(0);
    let moved = if first == 0 { offsets.clone() } else { OffsetBuffer::new(offsets.iter().map(|o| o - first).collect()) };
    (moved, at(first), at(last - first))
}

fn cast(array: &ArrayRef, want: &ArrowType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, want, &CastOptions { safe: false, ..Default::default() })
}

/// Types without others inside. Writers differ in units and widths; a value that the type cannot hold is an error, `Err(None)` a type
/// that cannot be meant.
fn plain(array: &ArrayRef, want: &ArrowType) -> Result<ArrayRef, Option<ArrowError>> {
    use ArrowType as A;
    match (array.data_type(), want) {
        (A::Timestamp(got, _), A::Timestamp(unit, _)) => {
            let raw = cast(array, &A::Int64).and_then(|raw| rescaled(raw.as_primitive(), per_second(got), per_second(unit)));
            raw.and_then(|raw| cast(&(Arc::new(raw) as ArrayRef), want)).map_err(Some)
        }
        (A::Time32(got) | A::Time64(got), A::Time32(unit)) => {
            let width = if matches!(array.data_type(), A::Time32(_)) { A::Int32 } else { A::Int64 };
            let raw = cast(array, &width).and_then(|raw| cast(&raw, &A::Int64));
            let raw = raw.and_then(|raw| rescaled(raw.as_primitive(), per_second(got), per_second(unit)));
            raw.and_then(|raw| cast(&(Arc::new(raw) as ArrayRef), &A::Int32)).and_then(|raw| cast(&raw, want)).map_err(Some)
        }
        (A::Decimal32(p, s) | A::Decimal64(p, s) | A::Decimal128(p, s), A::Decimal128(q, r)) if s == r && p <= q => {
            cast(array, want).map_err(Some)
        }
        (A::Int8 | A::Int16, A::Int16 | A::Int32 | A::Int64)
        | (A::Int32, A::Int8 | A::Int16 | A::Int64 | A::Time32(TimeUnit::Millisecond))
        | (A::LargeUtf8 | A::Utf8View | A::Binary, A::Utf8)
        | (A::LargeBinary | A::BinaryView | A::FixedSizeBinary(_), A::Binary) => cast(array, want).map_err(Some),
        _ => Err(None),
    }
}

fn per_second(unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Numbers of one unit in another; what is finer is cut off towards the past, before 1970 too.
fn rescaled(array: &Int64Array, from: i64, to: i64) -> Result<Int64Array, ArrowError> {
    if from >= to {
        let by = from / to;
        return Ok(array.unary::<_, Int64Type>(|v| v.div_euclid(by)));
    }
    let by = to / from;
    let far = |v| ArrowError::CastError(format!("{v} of 1/{from} s is out of range"));
    array.try_unary::<_, Int64Type, _>(|v| v.checked_mul(by).ok_or_else(|| far(v)))
}
