//! Fixed buckets: which bucket a row belongs to, by the values of the bucket key.
//!
//! The number must be the one that every other writer finds, because they order and compact a bucket by itself. It is taken from a hash
//! of the BinaryRow of the key, computed here column by column over a whole batch: a row's header first, then one slot for each column, then
//! what does not fit in a slot.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes as t;

use super::options::{BucketFunction, BucketOptions};
use crate::datafile::Buckets;
use crate::error::{Error, Result};
use crate::schema::{DataType, Field, Schema};

/// Values of up to this length lie in their slot.
const INLINE: usize = 7;
/// A decimal of up to this precision is an i64.
const COMPACT_DECIMAL: u8 = 18;
/// A timestamp of up to this precision is an i64.
const COMPACT_TIMESTAMP: u8 = 3;

/// The buckets of one table.
#[derive(Debug)]
pub struct FixedBuckets {
    total: i32,
    function: BucketFunction,
    /// Position in the schema, and type.
    key: Vec<(usize, DataType)>,
}

impl FixedBuckets {
    /// Of a table with this schema. `Invalid`: see [`check`].
    pub fn new(schema: &Schema, options: &BucketOptions) -> Result<FixedBuckets> {
        let key = check(schema, options)?.into_iter().map(|(i, f)| (i, f.data_type.clone())).collect();
        Ok(FixedBuckets { total: options.total, function: options.function, key })
    }

    /// As [`FixedBuckets::new`]; `None` for a table without buckets.
    pub fn of(schema: &Schema, options: Option<&BucketOptions>) -> Result<Option<Arc<dyn Buckets>>> {
        let make = |options| Ok(Arc::new(FixedBuckets::new(schema, options)?) as Arc<dyn Buckets>);
        options.map(make).transpose()
    }
}

/// Checks that a table with this schema may have these buckets; the columns of the bucket key and their positions.
///
/// `Invalid` names the column: it is not there, partitions the table, or has a type that no bucket key may have.
pub fn check<'a>(schema: &'a Schema, options: &BucketOptions) -> Result<Vec<(usize, &'a Field)>> {
    let bad = |name: &str, why: String, hint: &str| Err(Error::invalid(format!("the bucket key `{name}` {why}")).hint(hint.to_owned()));
    let mut key = Vec::new();
    for name in &options.key {
        let Some((i, field)) = schema.fields.iter().enumerate().find(|(_, f)| &f.name == name) else {
            return bad(name, "is not a column".into(), "name columns of the table in `bucket-key`, with commas and no blanks between");
        };
        if schema.partition_by.contains(name) {
            let hint = "every partition has its own buckets: take another column";
            return bad(name, "is a partition column".into(), hint);
        }
        if key.iter().any(|(k, _)| *k == i) {
            return bad(name, "is named twice".into(), "name it once");
        }
        if field.data_type.is_nested() {
            return bad(name, format!("has the type {}", field.data_type), "take columns of types without parts");
        }
        key.push((i, field));
    }
    if options.function == BucketFunction::Mod
        && !matches!(key.as_slice(), [(_, f)] if matches!(f.data_type, DataType::Int | DataType::BigInt))
    {
        let what = format!("`bucket-function.type` = `mod` takes one bucket key of type INT or BIGINT, not `{}`", options.key.join(","));
        return Err(Error::invalid(what).hint("leave the option out"));
    }
    Ok(key)
}

impl Buckets for FixedBuckets {
    fn total(&self) -> i32 {
        self.total
    }

    fn assign(&self, batch: &RecordBatch) -> Result<Vec<i32>> {
        let columns: Vec<(&DataType, &ArrayRef)> = self.key.iter().map(|(i, t)| (t, batch.column(*i))).collect();
        match (self.function, columns.as_slice()) {
            (BucketFunction::Mod, [(_, column)]) => remainders(column, self.total),
            // The remainder is taken first, so that the absolute value of the smallest i32 is never asked for.
            _ => Ok(hashes(&columns, batch.num_rows())?.into_iter().map(|h| (h % self.total).abs()).collect()),
        }
    }
}

/// The mathematical remainder of the one key; a null counts as 0.
fn remainders(column: &ArrayRef, total: i32) -> Result<Vec<i32>> {
    let of = |v: i64| i32::try_from(v.rem_euclid(i64::from(total))).unwrap_or(0); // below an i32
    Ok(match column.data_type() {
        t::DataType::Int32 => column.as_primitive::<t::Int32Type>().iter().map(|v| of(v.unwrap_or(0).into())).collect(),
        t::DataType::Int64 => column.as_primitive::<t::Int64Type>().iter().map(|v| of(v.unwrap_or(0))).collect(),
        other => return Err(Error::internal(format!("a bucket key by remainder that is {other}"))),
    })
}

// ---- the hash --------------------------------------------------------------------------------------------------------------------------

/// MurmurHash3 (x86, 32 bits) in the making, over words of four bytes.
#[derive(Clone, Copy)]
struct Murmur(u32);

impl Murmur {
    const SEED: u32 = 42;

    #[inline]
    fn word(&mut self, word: u32) {
        let k = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        self.0 = (self.0 ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a long")]
    fn long(&mut self, long: u64) {
        self.word(long as u32);
        self.word((long >> 32) as u32);
    }
    #[expect(clippy::cast_possible_wrap, reason = "the format's hash is signed")]
    fn finish(self, bytes: u32) -> i32 {
        let mut h = self.0 ^ bytes;
        h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
        h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
        (h ^ h >> 16) as i32
    }
}

/// What of a value lies behind the slots, for each row; the slots come first, so it waits.
enum Behind<'a> {
    Nothing,
    /// Texts and bytes longer than a slot.
    Bytes(Vec<&'a [u8]>),
    /// A wide decimal: 16 bytes, of which only so many as its value needs are not zero. Nulls keep their place.
    Decimal(Vec<u128>),
    /// The milliseconds of a fine timestamp. Nulls keep their place.
    Millis(Vec<u64>),
}

/// Hashes of rows, each as far as it has come.
struct Rows {
    hash: Vec<Murmur>,
    /// Where the next thing behind the slots goes: the row's length so far, bytes.
    end: Vec<u32>,
}

/// The hash of each row of these columns.
fn hashes(columns: &[(&DataType, &ArrayRef)], rows: usize) -> Result<Vec<i32>> {
    let header = (columns.len() + 63 + 8) / 64; // words of eight bytes
    let fixed = u32::try_from(8 * (header + columns.len())).map_err(|_| Error::internal("a bucket key with too many columns"))?;
    let mut state = Rows { hash: vec![Murmur(Murmur::SEED); rows], end: vec![fixed; rows] };
    for word in 0..header {
        state.header(columns, word);
    }
    let behind = columns.iter().map(|(data_type, column)| state.slots(data_type, column)).collect::<Result<Vec<_>>>()?;
    for part in behind {
        state.behind(part);
    }
    Ok(state.hash.into_iter().zip(state.end).map(|(h, len)| h.finish(len)).collect())
}

impl Rows {
    /// One word of null bits; the first one has the row kind, which is 0, in its lowest byte.
    fn header(&mut self, columns: &[(&DataType, &ArrayRef)], word: usize) {
        let bits = columns.iter().enumerate().filter(|(i, (_, c))| (i + 8) / 64 == word && c.null_count() > 0);
        let nullable: Vec<(u32, &ArrayRef)> = bits.map(|(i, (_, c))| (((i + 8) % 64) as u32, *c)).collect();
        for (row, hash) in self.hash.iter_mut().enumerate() {
            let nulls = nullable.iter().fold(0u64, |w, (bit, c)| w | u64::from(c.is_null(row)) << bit);
            hash.long(nulls);
        }
    }

    /// The slots of one column.
    fn slots<'a>(&mut self, data_type: &DataType, column: &'a ArrayRef) -> Result<Behind<'a>> {
        use DataType as T;
        match data_type {
            T::Boolean => {
                let values = column.as_boolean();
                self.fixed(column, |row| u64::from(values.value(row)));
            }
            T::TinyInt => self.primitive::<t::Int8Type>(column, |v| u64::from(v as u8)),
            T::SmallInt => self.primitive::<t::Int16Type>(column, |v| u64::from(v as u16)),
            T::Int => self.primitive::<t::Int32Type>(column, |v| u64::from(v as u32)),
            T::Date => self.primitive::<t::Date32Type>(column, |v| u64::from(v as u32)),
            T::Time(_) => self.primitive::<t::Time32MillisecondType>(column, |v| u64::from(v as u32)),
            T::BigInt => self.primitive::<t::Int64Type>(column, |v| v as u64),
            T::Float => self.primitive::<t::Float32Type>(column, |v| u64::from(v.to_bits())),
            T::Double => self.primitive::<t::Float64Type>(column, f64::to_bits),
            T::Decimal { precision, .. } if *precision <= COMPACT_DECIMAL => self.primitive::<t::Decimal128Type>(column, |v| v as u64),
            T::Decimal { .. } => return Ok(self.decimals(column)),
            T::Timestamp(p) | T::TimestampLtz(p) => return self.timestamps(*p, column),
            T::Char(_) | T::VarChar(_) | T::String => {
                let values = column.as_string::<i32>();
                return self.bytes(column, |row| values.value(row).as_bytes());
            }
            T::Binary(_) | T::VarBinary(_) | T::Bytes => {
                let values = column.as_binary::<i32>();
                return self.bytes(column, |row| values.value(row));
            }
            T::Array(_) | T::Map(..) | T::Multiset(_) | T::Row(_) => {
                return Err(Error::internal(format!("a bucket key of type {data_type}")));
            }
        }
        Ok(Behind::Nothing)
    }

    /// Slots that hold the whole value; that of a null is 0.
    fn fixed(&mut self, column: &ArrayRef, slot: impl Fn(usize) -> u64) {
        let nulls = column.nulls();
        for (row, hash) in self.hash.iter_mut().enumerate() {
            hash.long(if nulls.is_some_and(|n| n.is_null(row)) { 0 } else { slot(row) });
        }
    }

    fn primitive<P: arrow::array::ArrowPrimitiveType>(&mut self, column: &ArrayRef, slot: impl Fn(P::Native) -> u64) {
        let values = column.as_primitive::<P>().values();
        self.fixed(column, |row| slot(values[row]));
    }

    /// A slot that says where something lies; moves the end on.
    #[inline]
    fn reference(&mut self, row: usize, low: u32, area: u32) {
        self.hash[row].long(u64::from(self.end[row]) << 32 | u64::from(low));
        self.end[row] += area;
    }

    fn bytes<'a>(&mut self, column: &'a ArrayRef, value: impl Fn(usize) -> &'a [u8]) -> Result<Behind<'a>> {
        let mut long = Vec::new();
        for row in 0..self.hash.len() {
            let bytes = if column.is_null(row) { None } else { Some(value(row)) };
            let mut rest: &[u8] = &[];
            match bytes {
                None => self.hash[row].long(0),
                Some(short) if short.len() <= INLINE => {
                    let mut slot = [0u8; 8];
                    slot[..short.len()].copy_from_slice(short);
                    slot[7] = 0x80 | short.len() as u8;
                    self.hash[row].long(u64::from_le_bytes(slot));
                }
                Some(bytes) => {
                    let fits = u32::try_from(bytes.len().next_multiple_of(8)).ok().filter(|len| self.end[row].checked_add(*len).is_some());
                    let area = fits.ok_or_else(|| Error::invalid("a bucket key is longer than 2 GiB").hint("take a shorter column"))?;
                    self.reference(row, u32::try_from(bytes.len()).unwrap_or(u32::MAX), area);
                    rest = bytes;
                }
            }
            long.push(rest);
        }
        Ok(Behind::Bytes(long))
    }

    /// Wide decimals. Java keeps the place of a null: its slot says where, and the place is zero.
    fn decimals<'a>(&mut self, column: &ArrayRef) -> Behind<'a> {
        let values = column.as_primitive::<t::Decimal128Type>().values();
        let mut areas = Vec::with_capacity(values.len());
        for (row, value) in values.iter().enumerate() {
            let (len, area) = if column.is_null(row) { (0, 0) } else { shortest(*value) };
            self.reference(row, len, 16);
            areas.push(area);
        }
        Behind::Decimal(areas)
    }

    fn timestamps<'a>(&mut self, precision: u8, column: &ArrayRef) -> Result<Behind<'a>> {
        let values: &[i64] = match column.data_type() {
            t::DataType::Timestamp(t::TimeUnit::Millisecond, _) => column.as_primitive::<t::TimestampMillisecondType>().values(),
            t::DataType::Timestamp(t::TimeUnit::Microsecond, _) => column.as_primitive::<t::TimestampMicrosecondType>().values(),
            t::DataType::Timestamp(t::TimeUnit::Nanosecond, _) => column.as_primitive::<t::TimestampNanosecondType>().values(),
            other => return Err(Error::internal(format!("a timestamp in a bucket key that is {other}"))),
        };
        let (per_milli, nanos) = match column.data_type() {
            t::DataType::Timestamp(t::TimeUnit::Millisecond, _) => (1, 1_000_000),
            t::DataType::Timestamp(t::TimeUnit::Microsecond, _) => (1000, 1000),
            _ => (1_000_000, 1),
        };
        if precision <= COMPACT_TIMESTAMP {
            self.fixed(column, |row| values[row].div_euclid(per_milli) as u64);
            return Ok(Behind::Nothing);
        }
        let mut millis = Vec::with_capacity(values.len());
        for (row, value) in values.iter().enumerate() {
            let null = column.is_null(row);
            let rest = if null { 0 } else { value.rem_euclid(per_milli) * nanos };
            self.reference(row, u32::try_from(rest).unwrap_or(0), 8); // below a million
            millis.push(if null { 0 } else { value.div_euclid(per_milli) as u64 });
        }
        Ok(Behind::Millis(millis))
    }

    fn behind(&mut self, part: Behind<'_>) {
        match part {
            Behind::Nothing => {}
            Behind::Bytes(values) => {
                for (hash, bytes) in self.hash.iter_mut().zip(values) {
                    for chunk in bytes.chunks(8) {
                        let mut word = [0u8; 8];
                        word[..chunk.len()].copy_from_slice(chunk);
                        hash.long(u64::from_le_bytes(word));
                    }
                }
            }
            Behind::Decimal(values) => {
                for (hash, area) in self.hash.iter_mut().zip(values) {
                    hash.long(area as u64);
                    hash.long((area >> 64) as u64);
                }
            }
            Behind::Millis(values) => {
                for (hash, millis) in self.hash.iter_mut().zip(values) {
                    hash.long(millis);
                }
            }
        }
    }
}

/// A number's big-endian bytes, as few as its sign allows: how many, and as they lie in an area of 16 bytes (little-endian words).
fn shortest(value: i128) -> (u32, u128) {
    let magnitude = if value < 0 { !value } else { value };
    let len = (128 - magnitude.leading_zeros()) / 8 + 1;
    let shifted = (value as u128) << (8 * (16 - len));
    (len, shifted.swap_bytes())
}

#[cfg(test)]
mod tests;
