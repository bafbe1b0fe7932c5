//! Does every value of a batch fit its type? Arrow keeps neither lengths nor digits, and Parquet would cut off or mix up what does not fit.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray as _, DynComparator, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{ArrowNativeType as _, Decimal128Type, Time32MillisecondType};

use crate::error::{Error, Result};
use crate::schema::{DataType, Field};

/// A day, in milliseconds: a TIME is less.
const DAY: i32 = 86_400_000;
/// Up to so many keys of a map are compared each with each; more are sorted.
const FEW_KEYS: usize = 8;

/// Checks the values of one column, at every depth. `array` must be in the Arrow form of the column's type; names and nullability within
/// it do not matter. `Invalid` names the place in the column, such as `a.b[]` or `m.value`, and the row.
pub(crate) fn column(field: &Field, array: &ArrayRef) -> Result<()> {
    if fits(&field.data_type, field.nullable, array.as_ref()) {
        return Ok(());
    }
    // Something is wrong, or lies where nobody looks: under a null. So look at each value that counts.
    let place = Place { data_type: &field.data_type, nullable: field.nullable, array: array.as_ref() };
    let mut path = field.name.clone();
    match (0..array.len()).find_map(|row| Some((row, place.wrong(row, &mut path)?))) {
        None => Ok(()),
        Some((row, Wrong { path, what, hint })) => {
            Err(Error::invalid(format!("column `{path}` {}", what.replace("{row}", &format!("row {row} of the batch")))).hint(hint))
        }
    }
}

/// True: every value fits. False: look closer. Whole arrays at a time, as fast as can be.
fn fits(data_type: &DataType, nullable: bool, array: &dyn Array) -> bool {
    if !nullable && array.null_count() > 0 {
        return false;
    }
    match data_type {
        DataType::Decimal { precision, .. } => {
            let limit = limit(*precision);
            array.as_primitive::<Decimal128Type>().values().iter().fold(true, |fits, v| fits & (v.unsigned_abs() < limit))
        }
        DataType::Time(_) => {
            array.as_primitive::<Time32MillisecondType>().values().iter().fold(true, |fits, v| fits & (0..DAY).contains(v))
        }
        // A code point has a byte at least.
        DataType::Char(n) | DataType::VarChar(n) => {
            let longest = length(*n);
            lengths(array.as_string::<i32>().value_offsets()).all(|bytes| bytes <= longest)
        }
        DataType::VarBinary(n) => lengths(array.as_binary::<i32>().value_offsets()).all(|bytes| bytes <= length(*n)),
        DataType::Binary(n) => {
            lengths(array.as_binary::<i32>().value_offsets()).enumerate().all(|(i, bytes)| bytes == length(*n) || array.is_null(i))
        }
        DataType::Array(item) => {
            let list = array.as_list::<i32>();
            fits(&item.data_type, item.nullable, &within(list.values(), list.value_offsets()))
        }
        DataType::Map(key, value) => {
            let map = array.as_map();
            fits(&key.data_type, false, &within(map.keys(), map.value_offsets()))
                && fits(&value.data_type, value.nullable, &within(map.values(), map.value_offsets()))
                && keys_are_unique(array)
        }
        DataType::Multiset(item) => {
            let map = array.as_map();
            fits(&item.data_type, false, &within(map.keys(), map.value_offsets()))
                && fits(&DataType::Int, false, &within(map.values(), map.value_offsets()))
                && keys_are_unique(array)
        }
        DataType::Row(fields) => {
            let row = array.as_struct();
            fields.iter().zip(row.columns()).all(|(field, column)| {
                // A field of a row that is null is null, whatever its type says.
                let nulls_are_the_rows = row.nulls().zip(column.nulls()).is_some_and(|(row, column)| row.contains(column));
                fits(&field.data_type, field.nullable || nulls_are_the_rows, column.as_ref())
            })
        }
        _ => true,
    }
}

/// The part of the values that a list or a map refers to.
fn within(values: &ArrayRef, offsets: &[i32]) -> ArrayRef {
    let (from, to) = (offsets.first().map_or(0, |o| o.as_usize()), offsets.last().map_or(0, |o| o.as_usize()));
    values.slice(from, to - from)
}

fn keys_are_unique(array: &dyn Array) -> bool {
    let map = array.as_map();
    if lengths(map.value_offsets()).all(|n| n < 2) {
        return true;
    }
    // Types that Arrow cannot compare are not looked at.
    let Ok(order) = make_comparator(map.keys(), map.keys(), SortOptions::default()) else { return true };
    (0..map.len()).all(|row| unique(&order, range(map.value_offsets(), row)))
}

fn unique(order: &DynComparator, keys: Range<usize>) -> bool {
    let same = |a, b| order(a, b) == Ordering::Equal;
    if keys.len() <= FEW_KEYS {
        return keys.clone().all(|a| (a + 1..keys.end).all(|b| !same(a, b)));
    }
    let mut sorted: Vec<usize> = keys.collect();
    sorted.sort_unstable_by(|a, b| order(*a, *b));
    sorted.windows(2).all(|pair| !same(pair[0], pair[1]))
}

fn lengths(offsets: &[i32]) -> impl Iterator<Item = usize> {
    offsets.windows(2).map(|pair| pair[1].as_usize() - pair[0].as_usize())
}

fn range(offsets: &[i32], at: usize) -> Range<usize> {
    offsets[at].as_usize()..offsets[at + 1].as_usize()
}

fn length(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn limit(precision: u8) -> u128 {
    10u128.checked_pow(u32::from(precision)).unwrap_or(u128::MAX)
}

/// Values of one type, and whether they may be null.
#[derive(Clone, Copy)]
struct Place<'a> {
    data_type: &'a DataType,
    nullable: bool,
    array: &'a dyn Array,
}

struct Wrong {
    path: String,
    /// With `{row}` where the row is named.
    what: String,
    hint: &'static str,
}

const LEAVE_OUT: &str = "leave such rows out, or make a table with a wider type";

impl Place<'_> {
    /// What is wrong with the value at `at`, if it is reached at all; `path` is as before after the call.
    fn wrong(&self, at: usize, path: &mut String) -> Option<Wrong> {
        let wrong = |path: &str, what: String, hint| Some(Wrong { path: path.to_owned(), what, hint });
        if self.array.is_null(at) {
            let hint = "leave such rows out, or make the column nullable";
            return if self.nullable { None } else { wrong(path, "is NOT NULL and {row} is null".to_owned(), hint) };
        }
        let (what, hint) = match self.data_type {
            DataType::Decimal { precision, .. } => {
                let value = self.array.as_primitive::<Decimal128Type>().value(at);
                (value.unsigned_abs() >= limit(*precision))
                    .then(|| (format!("is DECIMAL with {precision} digits and {{row}} has more"), LEAVE_OUT))?
            }
            DataType::Time(_) => {
                let value = self.array.as_primitive::<Time32MillisecondType>().value(at);
                (!(0..DAY).contains(&value)).then(|| {
                    let hint = "a time of day is 0 to 86399999 milliseconds";
                    (format!("is {} and {{row}} has {value} milliseconds", self.data_type), hint)
                })?
            }
            DataType::Char(n) | DataType::VarChar(n) => {
                let text = self.array.as_string::<i32>().value(at);
                // Bytes first: code points are counted for long ones only.
                let points = if text.len() <= length(*n) { 0 } else { text.chars().count() };
                (points > length(*n)).then(|| (format!("is {} and {{row}} has {points} characters", self.data_type), LEAVE_OUT))?
            }
            DataType::Binary(n) | DataType::VarBinary(n) => {
                let bytes = self.array.as_binary::<i32>().value(at).len();
                let exactly = matches!(self.data_type, DataType::Binary(_));
                (bytes > length(*n) || (exactly && bytes < length(*n)))
                    .then(|| (format!("is {} and {{row}} has {bytes} bytes", self.data_type), LEAVE_OUT))?
            }
            _ => return self.wrong_within(at, path),
        };
        wrong(path, what, hint)
    }

    fn wrong_within(&self, at: usize, path: &mut String) -> Option<Wrong> {
        let mut each = |data_type, nullable, array: &ArrayRef, mut range: Range<usize>, step: &str| {
            let before = path.len();
            path.push_str(step);
            let place = Place { data_type, nullable, array: array.as_ref() };
            let found = range.find_map(|i| place.wrong(i, path));
            path.truncate(before);
            found
        };
        match self.data_type {
            DataType::Array(item) => {
                let list = self.array.as_list::<i32>();
                each(&item.data_type, item.nullable, list.values(), range(list.value_offsets(), at), "[]")
            }
            DataType::Map(..) | DataType::Multiset(_) => {
                let map = self.array.as_map();
                let entries = range(map.value_offsets(), at);
                let (key, value, nullable) = match self.data_type {
                    DataType::Map(key, value) => (&key.data_type, &value.data_type, value.nullable),
                    DataType::Multiset(key) => (&key.data_type, &DataType::Int, false),
                    _ => return None,
                };
                each(key, false, map.keys(), entries.clone(), ".key")
                    .or_else(|| each(value, nullable, map.values(), entries.clone(), ".value"))
                    .or_else(|| {
                        let order = make_comparator(map.keys(), map.keys(), SortOptions::default()).ok()?;
                        (!unique(&order, entries)).then(|| Wrong {
                            path: path.clone(),
                            what: "is a map and {row} has a key twice".to_owned(),
                            hint: "readers differ in which of them they take; leave one out",
                        })
                    })
            }
            DataType::Row(fields) => {
                let row = self.array.as_struct();
                let mut all = fields.iter().zip(row.columns());
                all.find_map(|(f, column)| each(&f.data_type, f.nullable, column, at..at + 1, &format!(".{}", f.name)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
