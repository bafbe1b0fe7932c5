//! Columns whose type was changed after a file was written: the widenings that Paimon allows, done to values and to bounds.

use arrow::array::{Array as _, ArrayRef, AsArray as _, Decimal128Array, Float32Array, Float64Array};
use arrow::compute::{self, CastOptions};
use arrow::datatypes as t;
use std::sync::Arc;

use super::predicate::one;
use super::shape::readable;
use crate::datafile::scalar_at;
use crate::error::{Error, Result};
use crate::schema::{DataType, Scalar};

/// How values of an old type become values of the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Widening {
    /// The types are the same, or have the same Arrow form.
    Same,
    /// What was less stays less or becomes equal, so bounds are widened with the values.
    Ordered,
    /// Bounds say nothing.
    Unordered,
}

/// `None`: it is no widening, so what was written is not read under the new type.
pub(super) fn widening(old: &DataType, new: &DataType) -> Option<Widening> {
    use DataType as D;
    use Widening::{Ordered, Same, Unordered};
    let rank = |d: &DataType| [D::TinyInt, D::SmallInt, D::Int, D::BigInt].iter().position(|i| i == d);
    let length = |d: &DataType| match d {
        D::Char(n) | D::VarChar(n) | D::Binary(n) | D::VarBinary(n) => *n,
        _ => u32::MAX,
    };
    Some(match (old, new) {
        (old, new) if old == new || (old.is_nested() && readable(old, new)) => Same,
        (old, new) if rank(old).is_some() && rank(new).is_some() => {
            if rank(old) > rank(new) {
                return None;
            }
            Ordered
        }
        // Beyond the digits of the new type it is null, as in Java.
        (old, D::Float | D::Double | D::Decimal { .. }) if rank(old).is_some() => Ordered,
        (D::Float, D::Double) | (D::Decimal { .. }, D::Float | D::Double) => Ordered,
        (D::Decimal { precision: p, scale: s }, D::Decimal { precision: q, scale: r }) if s <= r && p - s <= q - r => Ordered,
        (D::Char(_) | D::VarChar(_), D::VarChar(_) | D::String) if length(old) <= length(new) => Same,
        (D::Binary(_) | D::VarBinary(_), D::VarBinary(_) | D::Bytes) if length(old) <= length(new) => Same,
        (D::Time(p), D::Time(q)) if p <= q => Same,
        (D::Timestamp(p), D::Timestamp(q)) | (D::TimestampLtz(p), D::TimestampLtz(q)) if p <= q => Ordered,
        (D::Date, D::Timestamp(_)) => Ordered,
        (old, D::String) if rank(old).is_some() || *old == D::Boolean => Unordered,
        _ => return None,
    })
}

/// The values of an array, in the Arrow form of `old`, as values of `new`; what `new` cannot hold is null.
pub(super) fn widen(array: &ArrayRef, old: &DataType, new: &DataType) -> Result<ArrayRef> {
    let want = new.to_arrow();
    if *array.data_type() == want {
        return Ok(array.clone());
    }
    // A float is the one nearest to what is written, which a division of two floats is not always.
    fn nearest<T: std::str::FromStr>(array: &Decimal128Array) -> impl Iterator<Item = Option<T>> {
        (0..array.len()).map(|i| if array.is_null(i) { None } else { array.value_as_string(i).parse().ok() })
    }
    match (old, new) {
        (DataType::Decimal { .. }, DataType::Float) => {
            Ok(Arc::new(nearest::<f32>(array.as_primitive::<t::Decimal128Type>()).collect::<Float32Array>()))
        }
        (DataType::Decimal { .. }, DataType::Double) => {
            Ok(Arc::new(nearest::<f64>(array.as_primitive::<t::Decimal128Type>()).collect::<Float64Array>()))
        }
        _ => compute::cast_with_options(array, &want, &CastOptions { safe: true, ..Default::default() })
            .map_err(|e| Error::internal(format!("{old} could not be widened to {new}")).because(e).hint("please report this")),
    }
}

/// A bound, widened; `None`: nothing is known.
pub(super) fn bound(value: &Scalar, old: &DataType, new: &DataType) -> Option<Scalar> {
    if old == new {
        return Some(value.clone());
    }
    match widening(old, new)? {
        Widening::Unordered => None,
        Widening::Same | Widening::Ordered => scalar_at(new, &widen(&one(old, Some(value)).ok()?, old, new).ok()?, 0).ok().flatten(),
    }
}
