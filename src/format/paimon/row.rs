//! BinaryRow: the bytes of partition values and of statistics in manifests.
//!
//! Four bytes of arity (big endian), then the row (little endian): a header with the row kind and the null bits, one slot of eight bytes
//! for each field, then what does not fit in a slot.

use crate::error::{Error, Result};
use crate::schema::{DataType, Scalar};

/// The row without fields.
pub const EMPTY: [u8; 12] = [0; 12];

/// Values of up to this length lie in their slot.
const INLINE: usize = 7;
/// A DECIMAL of up to this precision is an i64.
const COMPACT: u8 = 18;

/// Encodes one value of each type, in order; `None` is null.
///
/// `Internal` when a value does not have the type that is said of it.
pub fn encode<'a>(fields: impl IntoIterator<Item = (&'a DataType, Option<&'a Scalar>)>) -> Result<Vec<u8>> {
    let fields: Vec<_> = fields.into_iter().collect();
    let arity = fields.len();
    let header = header_len(arity);
    let mut row = vec![0u8; header + 8 * arity];
    for (i, (data_type, value)) in fields.into_iter().enumerate() {
        let at = header + 8 * i;
        match value {
            None => row[(i + 8) / 8] |= 1 << (i % 8),
            Some(value) => put(&mut row, at, data_type, value)?,
        }
    }
    let mut out = Vec::with_capacity(4 + row.len());
    out.extend_from_slice(&u32::try_from(arity).map_err(|_| Error::internal("a row with too many fields"))?.to_be_bytes());
    out.append(&mut row);
    Ok(out)
}

/// Decodes a row of these types. `Data` when the bytes are no such row.
pub fn decode<'a>(bytes: &[u8], types: impl IntoIterator<Item = &'a DataType>) -> Result<Vec<Option<Scalar>>> {
    let types: Vec<_> = types.into_iter().collect();
    let arity = arity(bytes)?;
    if arity != types.len() {
        return Err(Error::data(format!("a row of {arity} fields where {} are expected", types.len())));
    }
    let row = &bytes[4..];
    let header = header_len(arity);
    if row.len() < header + 8 * arity {
        return Err(cut());
    }
    let one = |(i, t): (usize, &DataType)| {
        let null = row[(i + 8) / 8] & (1 << (i % 8)) != 0;
        if null { Ok(None) } else { get(row, header + 8 * i, t).map(Some) }
    };
    types.into_iter().enumerate().map(one).collect()
}

/// How many fields the row says it has.
pub fn arity(bytes: &[u8]) -> Result<usize> {
    let head: [u8; 4] = bytes.get(..4).and_then(|b| b.try_into().ok()).ok_or_else(cut)?;
    usize::try_from(u32::from_be_bytes(head)).map_err(|_| cut())
}

fn header_len(arity: usize) -> usize {
    (arity + 63 + 8) / 64 * 8
}

fn cut() -> Error {
    Error::data("a row in a manifest is cut short or garbled")
}

fn put(row: &mut Vec<u8>, at: usize, data_type: &DataType, value: &Scalar) -> Result<()> {
    use DataType as T;
    let mismatch = || Error::internal(format!("a value that is no {data_type}: {value:?}"));
    let mut slot = [0u8; 8];
    match (data_type, value) {
        (T::Boolean, Scalar::Bool(v)) => slot[0] = u8::from(*v),
        (T::TinyInt, Scalar::Int(v)) => slot[..1].copy_from_slice(&i8::try_from(*v).map_err(|_| mismatch())?.to_le_bytes()),
        (T::SmallInt, Scalar::Int(v)) => slot[..2].copy_from_slice(&i16::try_from(*v).map_err(|_| mismatch())?.to_le_bytes()),
        (T::Int, Scalar::Int(v)) => slot[..4].copy_from_slice(&i32::try_from(*v).map_err(|_| mismatch())?.to_le_bytes()),
        (T::BigInt, Scalar::Int(v)) => slot = v.to_le_bytes(),
        (T::Float, Scalar::Float(v)) => slot[..4].copy_from_slice(&v.to_le_bytes()),
        (T::Double, Scalar::Double(v)) => slot = v.to_le_bytes(),
        (T::Date, Scalar::Date(v)) => slot[..4].copy_from_slice(&v.to_le_bytes()),
        (T::Decimal { precision, .. }, Scalar::Decimal(v)) if *precision <= COMPACT => {
            slot = i64::try_from(*v).map_err(|_| mismatch())?.to_le_bytes();
        }
        (T::Decimal { .. }, Scalar::Decimal(v)) => {
            let bytes = v.to_be_bytes();
            let short = &bytes[redundant_sign_bytes(&bytes)..];
            slot = reference(row, short, 16, short.len())?;
        }
        (T::Timestamp(p @ ..=6) | T::TimestampLtz(p @ ..=6), Scalar::Timestamp(micros)) => {
            let millis = micros.div_euclid(1000);
            if *p <= 3 {
                slot = millis.to_le_bytes();
            } else {
                let nanos = usize::try_from(micros.rem_euclid(1000) * 1000).unwrap_or(0); // 0..=999_000
                slot = reference(row, &millis.to_le_bytes(), 8, nanos)?;
            }
        }
        (T::Char(_) | T::VarChar(_) | T::String, Scalar::String(v)) => slot = text(row, v.as_bytes())?,
        (T::Timestamp(7..) | T::TimestampLtz(7..), Scalar::TimestampNanos(nanos)) => {
            let of_milli = usize::try_from(nanos.rem_euclid(1_000_000)).unwrap_or(0); // 0..=999_999
            slot = reference(row, &nanos.div_euclid(1_000_000).to_le_bytes(), 8, of_milli)?;
        }
        (T::Time(_), Scalar::Time(v)) => slot[..4].copy_from_slice(&v.to_le_bytes()),
        (T::Binary(_) | T::VarBinary(_) | T::Bytes, Scalar::Bytes(v)) => slot = text(row, v)?,
        _ => return Err(mismatch()),
    }
    row[at..at + 8].copy_from_slice(&slot);
    Ok(())
}

/// Leading bytes of a big-endian two's complement number that its value does not need.
fn redundant_sign_bytes(bytes: &[u8; 16]) -> usize {
    let sign = if bytes[0] & 0x80 == 0 { 0x00 } else { 0xff };
    (0..15).take_while(|&i| bytes[i] == sign && (bytes[i + 1] ^ sign) & 0x80 == 0).count()
}

/// Appends `data`, zero-padded to `area` bytes, and makes the slot `offset << 32 | low`.
fn reference(row: &mut Vec<u8>, data: &[u8], area: usize, low: usize) -> Result<[u8; 8]> {
    let too_long = || Error::internal("a row in a manifest would be longer than 2 GiB");
    let offset = u32::try_from(row.len()).ok().filter(|o| *o < 1 << 31).ok_or_else(too_long)?;
    let low = u32::try_from(low).map_err(|_| too_long())?;
    row.extend_from_slice(data);
    row.resize(offset as usize + area, 0);
    Ok((u64::from(offset) << 32 | u64::from(low)).to_le_bytes())
}

fn text(row: &mut Vec<u8>, data: &[u8]) -> Result<[u8; 8]> {
    if data.len() <= INLINE {
        let mut slot = [0u8; 8];
        slot[..data.len()].copy_from_slice(data);
        slot[7] = 0x80 | data.len() as u8;
        return Ok(slot);
    }
    reference(row, data, data.len().next_multiple_of(8), data.len())
}

fn get(row: &[u8], at: usize, data_type: &DataType) -> Result<Scalar> {
    use DataType as T;
    let slot: [u8; 8] = row[at..at + 8].try_into().map_err(|_| cut())?;
    let four = [slot[0], slot[1], slot[2], slot[3]];
    Ok(match data_type {
        T::Boolean => Scalar::Bool(slot[0] != 0),
        T::TinyInt => Scalar::Int(i64::from(slot[0] as i8)),
        T::SmallInt => Scalar::Int(i64::from(i16::from_le_bytes([slot[0], slot[1]]))),
        T::Int => Scalar::Int(i64::from(i32::from_le_bytes(four))),
        T::BigInt => Scalar::Int(i64::from_le_bytes(slot)),
        T::Float => Scalar::Float(f32::from_le_bytes(four)),
        T::Double => Scalar::Double(f64::from_le_bytes(slot)),
        T::Date => Scalar::Date(i32::from_le_bytes(four)),
        T::Decimal { precision, .. } if *precision <= COMPACT => Scalar::Decimal(i128::from(i64::from_le_bytes(slot))),
        T::Decimal { .. } => {
            let (offset, len) = split(slot);
            let bytes = area(row, offset, len)?;
            if bytes.is_empty() || bytes.len() > 16 {
                return Err(cut());
            }
            let mut wide = if bytes[0] & 0x80 == 0 { [0x00; 16] } else { [0xff; 16] };
            wide[16 - bytes.len()..].copy_from_slice(bytes);
            Scalar::Decimal(i128::from_be_bytes(wide))
        }
        T::Timestamp(p) | T::TimestampLtz(p) => {
            let (millis, nanos) = if *p <= 3 {
                (i64::from_le_bytes(slot), 0)
            } else {
                let (offset, nanos) = split(slot);
                let bytes: [u8; 8] = area(row, offset, 8)?.try_into().map_err(|_| cut())?;
                (i64::from_le_bytes(bytes), nanos as i64)
            };
            match p {
                ..=6 => Scalar::Timestamp(millis.checked_mul(1000).and_then(|m| m.checked_add(nanos / 1000)).ok_or_else(cut)?),
                _ => Scalar::TimestampNanos(millis.checked_mul(1_000_000).and_then(|m| m.checked_add(nanos)).ok_or_else(cut)?),
            }
        }
        T::Char(_) | T::VarChar(_) | T::String => Scalar::String(String::from_utf8(get_text(row, at, slot)?.to_vec()).map_err(|_| cut())?),
        T::Binary(_) | T::VarBinary(_) | T::Bytes => Scalar::Bytes(get_text(row, at, slot)?.to_vec()),
        T::Time(_) => Scalar::Time(i32::from_le_bytes(four)),
        T::Array(_) | T::Map(..) | T::Multiset(_) | T::Row(_) => {
            return Err(Error::invalid(format!("a value of type {data_type} in a partition, a key or statistics is not supported")));
        }
    })
}

fn get_text(row: &[u8], at: usize, slot: [u8; 8]) -> Result<&[u8]> {
    if slot[7] & 0x80 != 0 {
        let len = usize::from(slot[7] & 0x7f);
        return if len <= INLINE { Ok(&row[at..at + len]) } else { Err(cut()) };
    }
    let (offset, len) = split(slot);
    area(row, offset, len)
}

fn split(slot: [u8; 8]) -> (usize, usize) {
    let value = u64::from_le_bytes(slot);
    ((value >> 32) as usize, (value & 0xffff_ffff) as usize)
}

fn area(row: &[u8], offset: usize, len: usize) -> Result<&[u8]> {
    row.get(offset..offset.checked_add(len).ok_or_else(cut)?).ok_or_else(cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Hex, unhex};
    use proptest::prelude::*;

    fn string(s: &str) -> Option<Scalar> {
        Some(Scalar::String(s.into()))
    }
    fn check(fields: &[(DataType, Option<Scalar>)], hex: &str) {
        let bytes = unhex(&hex.replace(' ', "")).unwrap();
        let got = encode(fields.iter().map(|(t, v)| (t, v.as_ref()))).unwrap();
        assert_eq!(Hex(&got).to_string(), Hex(&bytes).to_string());
        let back = decode(&bytes, fields.iter().map(|(t, _)| t)).unwrap();
        assert_eq!(back, fields.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>());
    }

    #[test]
    fn rows_have_the_bytes_that_other_writers_make() {
        use DataType::*;
        check(&[], "00000000 0000000000000000");
        assert_eq!(encode([]).unwrap(), EMPTY);
        check(&[(String, string("a"))], "00000001 0000000000000000 61000000000000 81");
        check(
            &[(String, string("2024-01-01")), (Int, Some(Scalar::Int(1)))],
            "00000002 0000000000000000 0a00000018000000 0100000000000000 323032342d30312d3031000000000000",
        );
        check(&[(String, None), (BigInt, Some(Scalar::Int(2)))], "00000002 0001000000000000 0000000000000000 0200000000000000");
        check(&[(BigInt, Some(Scalar::Int(3)))], "00000001 0000000000000000 0300000000000000");
    }

    #[test]
    fn wide_decimals_and_microseconds_lie_behind_the_slots() {
        let wide = DataType::Decimal { precision: 38, scale: 0 };
        // -129 needs two bytes: ff7f; its area is sixteen bytes long.
        check(
            &[(wide.clone(), Some(Scalar::Decimal(-129)))],
            "00000001 0000000000000000 0200000010000000 ff7f0000000000000000000000000000",
        );
        check(&[(wide, Some(Scalar::Decimal(128)))], "00000001 0000000000000000 0200000010000000 00800000000000000000000000000000");
        let compact = DataType::Decimal { precision: 18, scale: 2 };
        check(&[(compact, Some(Scalar::Decimal(-1)))], "00000001 0000000000000000 ffffffffffffffff");
        // -1 microsecond: -1 millisecond and 999,000 nanoseconds (0x0f3e58).
        check(&[(DataType::Timestamp(6), Some(Scalar::Timestamp(-1)))], "00000001 0000000000000000 583e0f0010000000 ffffffffffffffff");
        check(&[(DataType::TimestampLtz(3), Some(Scalar::Timestamp(-1000)))], "00000001 0000000000000000 ffffffffffffffff");
    }

    #[test]
    fn null_bits_go_on_in_the_second_word() {
        let fields: Vec<_> = (0..60).map(|i| (DataType::Int, (i % 2 == 0).then_some(Scalar::Int(i)))).collect();
        let bytes = encode(fields.iter().map(|(t, v)| (t, v.as_ref()))).unwrap();
        assert_eq!(bytes.len(), 4 + 16 + 60 * 8);
        assert_eq!(decode(&bytes, fields.iter().map(|(t, _)| t)).unwrap(), fields.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>());
    }

    #[test]
    fn garbage_is_data_and_never_a_panic() {
        let types = [DataType::String, DataType::Decimal { precision: 30, scale: 1 }, DataType::Timestamp(6)];
        assert!(decode(&[], &types).is_err());
        assert!(decode(&EMPTY, &types).is_err());
        for fill in 0..=255u8 {
            let mut bytes = vec![fill; 4 + 8 + 24];
            bytes[..4].copy_from_slice(&[0, 0, 0, 3]);
            bytes[4..12].fill(0);
            let _ = decode(&bytes, &types);
        }
        assert!(encode([(&DataType::Int, Some(&Scalar::Int(i64::MAX)))]).is_err());
    }

    fn value() -> impl Strategy<Value = (DataType, Option<Scalar>)> {
        use DataType::*;
        prop_oneof![
            any::<bool>().prop_map(|v| (Boolean, Some(Scalar::Bool(v)))),
            any::<i8>().prop_map(|v| (TinyInt, Some(Scalar::Int(v.into())))),
            any::<i16>().prop_map(|v| (SmallInt, Some(Scalar::Int(v.into())))),
            any::<i64>().prop_map(|v| (BigInt, Some(Scalar::Int(v)))),
            any::<i32>().prop_map(|v| (Date, Some(Scalar::Date(v)))),
            any::<f32>().prop_map(|v| (Float, Some(Scalar::Float(v)))),
            any::<f64>().prop_map(|v| (Double, Some(Scalar::Double(v)))),
            any::<i128>().prop_map(|v| (Decimal { precision: 38, scale: 3 }, Some(Scalar::Decimal(v)))),
            any::<i64>().prop_map(|v| (Decimal { precision: 18, scale: 3 }, Some(Scalar::Decimal(v.into())))),
            any::<std::string::String>().prop_map(|v| (String, Some(Scalar::String(v)))),
            any::<Vec<u8>>().prop_map(|v| (Bytes, Some(Scalar::Bytes(v)))),
            (i64::MIN / 2..i64::MAX / 2).prop_map(|v| (TimestampLtz(6), Some(Scalar::Timestamp(v)))),
            Just((Timestamp(6), None)),
            Just((VarChar(9), None)),
        ]
    }

    proptest! {
        #[test]
        fn rows_survive_the_way_there_and_back(fields in prop::collection::vec(value(), 0..70)) {
            let bytes = encode(fields.iter().map(|(t, v)| (t, v.as_ref()))).unwrap();
            let back = decode(&bytes, fields.iter().map(|(t, _)| t)).unwrap();
            let again = encode(fields.iter().zip(&back).map(|((t, _), v)| (t, v.as_ref()))).unwrap();
            prop_assert_eq!(bytes, again);
        }
        #[test]
        fn any_bytes_decode_or_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 4..120)) {
            bytes[..4].copy_from_slice(&[0, 0, 0, 3]);
            let _ = decode(&bytes, &[DataType::String, DataType::Decimal { precision: 38, scale: 0 }, DataType::Timestamp(6)]);
        }
    }
}
