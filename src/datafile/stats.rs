//! Statistics of a file, gathered from the statistics that the Parquet encoder makes of each column chunk anyway: nothing is
//! computed twice. What is kept may be wider than the truth, never narrower.

use std::cmp::Ordering;

use parquet::data_type::AsBytes as _;
use parquet::file::statistics::{Statistics, ValueStatistics};

use crate::datafile::StatsMode;
use crate::format::ColumnStats;
use crate::schema::{DataType, Field, Scalar};

/// Minimum, maximum and nulls of one column, over the row groups so far.
pub(super) struct Gathered {
    column: String,
    data_type: DataType,
    mode: StatsMode,
    /// `None`: a chunk came without its count, so nothing is said about the column.
    nulls: Option<u64>,
    range: Range,
}

enum Range {
    /// Only nulls so far.
    Empty,
    Known(Scalar, Scalar),
    /// There are values, and they have no usable bounds: NaN among them, or a bound that has no form.
    Unknown,
}

impl Gathered {
    pub(super) fn new(field: &Field, mode: StatsMode) -> Gathered {
        Gathered { column: field.name.clone(), data_type: field.data_type.clone(), mode, nulls: Some(0), range: Range::Empty }
    }

    /// Takes in one column chunk of `rows` rows.
    pub(super) fn add(&mut self, chunk: Option<&Statistics>, rows: u64) {
        let nulls = chunk.and_then(Statistics::null_count_opt);
        self.nulls = self.nulls.zip(nulls).map(|(sum, n)| sum + n);
        if matches!(self.mode, StatsMode::None | StatsMode::Counts) || nulls == Some(rows) {
            return;
        }
        let bounds = chunk.and_then(|s| bounds(&self.data_type, s));
        self.range = match (std::mem::replace(&mut self.range, Range::Unknown), bounds) {
            (Range::Empty, Some((min, max))) => Range::Known(min, max),
            (Range::Known(a, b), Some((min, max))) => Range::Known(least(a, min), greatest(b, max)),
            (Range::Unknown, _) | (_, None) => Range::Unknown,
        };
    }

    /// Takes in nulls of a column of types within types: it has no bounds, and its chunks do not say how many nulls it has.
    pub(super) fn add_nulls(&mut self, nulls: usize) {
        self.nulls = self.nulls.map(|sum| sum + nulls as u64);
    }

    /// The column's statistics in the wanted mode; `None`: it has none.
    pub(super) fn finish(self) -> Option<ColumnStats> {
        let (min, max) = match (self.range, self.mode) {
            (_, StatsMode::None) => return None,
            (Range::Known(min, max), StatsMode::Truncate(n)) => {
                // A bound that cannot be cut takes the other one along: readers take "no minimum but a maximum" for different things.
                cut(min, max, n).map_or((None, None), |(min, max)| (Some(min), Some(max)))
            }
            (Range::Known(min, max), _) => (Some(min), Some(max)),
            (Range::Empty | Range::Unknown, _) => (None, None),
        };
        Some(ColumnStats { column: self.column, min, max, nulls: self.nulls? })
    }
}

fn least(a: Scalar, b: Scalar) -> Scalar {
    if a.partial_cmp(&b) == Some(Ordering::Greater) { b } else { a }
}

fn greatest(a: Scalar, b: Scalar) -> Scalar {
    if a.partial_cmp(&b) == Some(Ordering::Less) { b } else { a }
}

/// How long the encoder may cut the strings in its own statistics so that the result after [`cut`] is the same as of uncut ones:
/// at least one code point beyond the cut. `None`: not at all.
pub(super) fn chunk_cut(modes: impl Iterator<Item = StatsMode>) -> Option<usize> {
    let mut longest = 64;
    for mode in modes {
        match mode {
            StatsMode::Full => return None,
            StatsMode::Truncate(n) => longest = longest.max(n.saturating_add(1).saturating_mul(4)),
            StatsMode::None | StatsMode::Counts => {}
        }
    }
    Some(longest)
}

/// Float statistics for the Parquet footer that no reader can prune wrongly by: none when there is a NaN (engines differ on where it
/// sorts), and zeros of both signs included when there is one of either. `None`: they are fine as they are.
pub(super) fn safe_floats(chunk: &Statistics) -> Option<Statistics> {
    fn repair<T: Copy + PartialEq + Default + std::ops::Neg<Output = T>>(s: &ValueStatistics<T>) -> Option<ValueStatistics<T>> {
        let zero = T::default();
        let nulls = s.null_count_opt();
        if s.nan_count_opt() != Some(0) {
            return Some(ValueStatistics::new(None, None, None, nulls, false).with_nan_count(s.nan_count_opt()));
        }
        let (min, max) = (*s.min_opt()?, *s.max_opt()?);
        if min != zero && max != zero {
            return None;
        }
        let (min, max) = (if min == zero { -zero } else { min }, if max == zero { zero } else { max });
        Some(ValueStatistics::new(Some(min), Some(max), None, nulls, false).with_nan_count(Some(0)).with_backwards_compatible_min_max(true))
    }
    match chunk {
        Statistics::Float(s) => repair(s).map(Statistics::Float),
        Statistics::Double(s) => repair(s).map(Statistics::Double),
        _ => None,
    }
}

/// Bounds as values of the column's type; floats must have gone through [`safe_floats`].
fn bounds(data_type: &DataType, chunk: &Statistics) -> Option<(Scalar, Scalar)> {
    fn both<T>(s: &ValueStatistics<T>, make: impl Fn(&T) -> Option<Scalar>) -> Option<(Scalar, Scalar)> {
        Some((make(s.min_opt()?)?, make(s.max_opt()?)?))
    }
    match chunk {
        Statistics::Boolean(s) => both(s, |v| Some(Scalar::Bool(*v))),
        Statistics::Int32(s) => both(s, |v| whole(data_type, i64::from(*v))),
        Statistics::Int64(s) => both(s, |v| whole(data_type, *v)),
        Statistics::Float(s) => both(s, |v| Some(Scalar::Float(*v))),
        Statistics::Double(s) => both(s, |v| Some(Scalar::Double(*v))),
        Statistics::ByteArray(s) => both(s, |v| match data_type {
            DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes => Some(Scalar::Bytes(v.data().to_vec())),
            _ => String::from_utf8(v.data().to_vec()).ok().map(Scalar::String),
        }),
        Statistics::FixedLenByteArray(s) => both(s, |v| big_endian(v.as_bytes()).map(Scalar::Decimal)),
        Statistics::Int96(_) => None,
    }
}

fn whole(data_type: &DataType, v: i64) -> Option<Scalar> {
    Some(match data_type {
        DataType::Date => Scalar::Date(i32::try_from(v).ok()?),
        DataType::Time(_) => Scalar::Time(i32::try_from(v).ok()?),
        DataType::Timestamp(7..) | DataType::TimestampLtz(7..) => Scalar::TimestampNanos(v),
        DataType::Decimal { .. } => Scalar::Decimal(i128::from(v)),
        // A millisecond beyond what microseconds can tell: no bound rather than a wrong one.
        DataType::Timestamp(p) | DataType::TimestampLtz(p) if *p <= 3 => Scalar::Timestamp(v.checked_mul(1000)?),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => Scalar::Timestamp(v),
        _ => Scalar::Int(v),
    })
}

fn big_endian(bytes: &[u8]) -> Option<i128> {
    let mut wide = [if bytes.first()? & 0x80 == 0 { 0 } else { 0xff }; 16];
    wide.get_mut(16usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}

/// Bounds cut to `n` code points or bytes; `None` when no cut maximum is above all values.
fn cut(min: Scalar, max: Scalar, n: usize) -> Option<(Scalar, Scalar)> {
    Some(match (min, max) {
        (Scalar::String(min), Scalar::String(max)) => (Scalar::String(min.chars().take(n).collect()), Scalar::String(cut_above(max, n)?)),
        (Scalar::Bytes(mut min), Scalar::Bytes(max)) => {
            min.truncate(n);
            (Scalar::Bytes(min), Scalar::Bytes(cut_bytes_above(max, n)?))
        }
        other => other,
    })
}

/// The shortest string of at most `n` code points that is above every string starting with the first `n` of `text`.
fn cut_above(text: String, n: usize) -> Option<String> {
    let mut kept: Vec<char> = text.chars().take(n.saturating_add(1)).collect();
    if kept.len() <= n {
        return Some(text);
    }
    kept.truncate(n);
    while let Some(last) = kept.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'), // what lies between are surrogates, which no string holds
            c => char::from_u32(u32::from(c) + 1),
        };
        if let Some(next) = next {
            kept.push(next);
            return Some(kept.into_iter().collect());
        }
    }
    None
}

fn cut_bytes_above(mut bytes: Vec<u8>, n: usize) -> Option<Vec<u8>> {
    if bytes.len() <= n {
        return Some(bytes);
    }
    bytes.truncate(n);
    while let Some(last) = bytes.pop() {
        if last < 0xff {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_maximum_carries_left_and_skips_surrogates() {
        let above = |text: &str, n| cut_above(text.to_owned(), n);
        assert_eq!(above("abcdefghijklmnopq", 16).as_deref(), Some("abcdefghijklmnoq"));
        assert_eq!(above("abcdefghijklmno\u{10FFFF}x", 16).as_deref(), Some("abcdefghijklmnp"));
        assert_eq!(above("a\u{D7FF}x", 2).as_deref(), Some("a\u{E000}"));
        assert_eq!(above("\u{10FFFF}\u{10FFFF}x", 2), None);
        assert_eq!(above("ab", 2).as_deref(), Some("ab"));
    }

    #[test]
    fn a_cut_maximum_of_bytes_carries_left() {
        assert_eq!(cut_bytes_above(vec![1, 0xff, 0xff, 7], 3), Some(vec![2]));
        assert_eq!(cut_bytes_above(vec![0xff; 17], 16), None);
        assert_eq!(cut_bytes_above(vec![0xff; 16], 16), Some(vec![0xff; 16]));
    }

    #[test]
    fn big_endian_keeps_the_sign() {
        assert_eq!(big_endian(&[0xff, 0xfe]), Some(-2));
        assert_eq!(big_endian(&[0x01, 0x00]), Some(256));
        assert_eq!(big_endian(&i128::MIN.to_be_bytes()), Some(i128::MIN));
    }
}
