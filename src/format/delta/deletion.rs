//! Deletion vectors: which rows of a data file are deleted, as a compressed bitmap, in the log itself or in a file beside the data.

use bytes::Bytes;
use flate2::Crc;
use roaring::RoaringTreemap;
use uuid::Uuid;

use super::action::DeletionVector;
use crate::error::{Error, Result};
use crate::store::Store;

/// What a bitmap begins with: 32-bit bitmaps, each under the upper half of its rows' numbers.
const MAGIC: u32 = 1_681_511_377;
/// Characters of a uuid in base 85.
const UUID_CHARS: usize = 20;
/// The digits of base 85, of Z85.
const DIGITS: &[u8; 85] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
const HINT: &str = "rows that were deleted would come back without it: restore it, or read an older version";

/// The rows that a deletion vector deletes, counted from 0 in the file.
///
/// `Data`: it is missing, damaged, or holds another number of rows than the log says. `Invalid`: it lies at a full location, outside of
/// the table.
pub async fn deleted_rows(store: &Store, vector: &DeletionVector) -> Result<RoaringTreemap> {
    let at = |e: Error| e.at(format!("{}: deletion vector {}", store.url(), vector.unique_id()));
    let bytes = match vector.storage_type.as_str() {
        "i" => inline(vector).map_err(at)?,
        "u" => from_file(store, vector).await?,
        "p" => {
            let what = "the deletion vector lies at a full location, which is not read";
            return Err(at(Error::invalid(what).hint("read the table with the engine that made it, or let that rewrite the file")));
        }
        other => return Err(at(damage(&format!("is of a kind that is not known: `{other}`")))),
    };
    decode(&bytes, vector).map_err(at)
}

fn damage(what: &str) -> Error {
    Error::data(format!("the deletion vector {what}")).hint(HINT)
}

fn size(vector: &DeletionVector) -> Result<usize> {
    usize::try_from(vector.size_in_bytes).map_err(|_| damage("has a size below zero"))
}

fn inline(vector: &DeletionVector) -> Result<Bytes> {
    let mut bytes = base85(&vector.path_or_inline_dv).ok_or_else(|| damage("is no text of base 85"))?;
    let size = size(vector)?;
    // The encoding has whole groups of four.
    if bytes.len() < size || bytes.len() >= size + 4 {
        return Err(damage(&format!("has {} bytes where the log says {size}", bytes.len())));
    }
    bytes.truncate(size);
    Ok(Bytes::from(bytes))
}

/// The file of a deletion vector that has one under the table's root.
pub(crate) fn file(vector: &DeletionVector) -> Option<String> {
    let text = vector.path_or_inline_dv.as_str();
    let (prefix, id) = text.split_at_checked(text.len().checked_sub(UUID_CHARS)?)?;
    let id = Uuid::from_slice(&base85(id)?).ok()?;
    let dir = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    (vector.storage_type == "u").then(|| format!("{dir}deletion_vector_{id}.bin"))
}

/// In a file each bitmap has its size before it and its checksum behind it.
async fn from_file(store: &Store, vector: &DeletionVector) -> Result<Bytes> {
    let name = file(vector).ok_or_else(|| damage("names no file").at(store.url()))?;
    let damage = |what: &str| damage(what).at(store.place(&name));
    let size = size(vector).map_err(|e| e.at(store.place(&name)))?;
    // The first byte of the file is the version of its form.
    let offset = u64::try_from(vector.offset.unwrap_or(1)).map_err(|_| damage("begins before its file"))?;
    let range = offset..offset + size as u64 + 8;
    let bytes = store.get_range(&name, range).await.map_err(|e| e.hint(HINT))?.ok_or_else(|| damage("is missing"))?;
    let (head, tail) = (bytes.slice(..4), bytes.slice(4 + size..));
    if u32::from_be_bytes(four(&head)) as usize != size {
        return Err(damage("has another size in its file than in the log"));
    }
    let bytes = bytes.slice(4..4 + size);
    let mut crc = Crc::new();
    crc.update(&bytes);
    if crc.sum() != u32::from_be_bytes(four(&tail)) {
        return Err(damage("has another checksum than it should"));
    }
    Ok(bytes)
}

fn four(bytes: &[u8]) -> [u8; 4] {
    let mut out = [0; 4];
    out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    out
}

fn decode(bytes: &[u8], vector: &DeletionVector) -> Result<RoaringTreemap> {
    let (magic, mut bitmap) = bytes.split_at_checked(4).ok_or_else(|| damage("is cut off"))?;
    if u32::from_le_bytes(four(magic)) != MAGIC {
        return Err(damage("is of a form that is not known"));
    }
    let rows = RoaringTreemap::deserialize_from(&mut bitmap).map_err(|e| damage("is no bitmap").because(e))?;
    if i64::try_from(rows.len()) != Ok(vector.cardinality) {
        return Err(damage(&format!("deletes {} rows where the log says {}", rows.len(), vector.cardinality)));
    }
    Ok(rows)
}

/// Reads base 85: five digits are four bytes, greatest first. Some writers have a shorter last group, and fill it in front with the digit
/// `#`, which no whole group can begin with: it would be more than four bytes hold.
fn base85(text: &str) -> Option<Vec<u8>> {
    let digit = |c: &u8| DIGITS.iter().position(|d| d == c).and_then(|d| u32::try_from(d).ok());
    if !text.len().is_multiple_of(5) {
        return None;
    }
    let (mut bytes, mut left) = (Vec::new(), text.len() / 5);
    for five in text.as_bytes().chunks(5) {
        left -= 1;
        let filled = five.iter().take_while(|c| **c == b'#').count();
        let number = five[filled..].iter().try_fold(0u32, |n, c| n.checked_mul(85)?.checked_add(digit(c)?))?;
        let (front, rest) = number.to_be_bytes().split_at_checked(filled).map(|(a, b)| (a.to_vec(), b.to_vec()))?;
        if filled > 0 && (left > 0 || filled > 3 || front.iter().any(|byte| *byte != 0)) {
            return None;
        }
        bytes.extend(rest);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::store::StoreOptions;
    use crate::store::testing::Jumping;

    fn store(name: &str) -> Store {
        Store::open(&format!("memory://deletion-{name}/t"), &Jumping::env(), StoreOptions::default()).unwrap()
    }

    fn bitmap(rows: &[u64]) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        rows.iter().copied().collect::<RoaringTreemap>().serialize_into(&mut bytes).unwrap();
        bytes
    }

    fn encoded(bytes: &[u8]) -> String {
        let group = |four: &[u8]| {
            let n = four.iter().chain([&0; 3]).take(4).fold(0u32, |n, b| n << 8 | u32::from(*b));
            (0..5).rev().map(|i| char::from(DIGITS[(n / 85u32.pow(i) % 85) as usize])).collect::<String>()
        };
        bytes.chunks(4).map(group).collect()
    }

    fn vector(kind: &str, text: &str, size: usize, rows: i64) -> DeletionVector {
        let (storage_type, path_or_inline_dv) = (kind.to_owned(), text.to_owned());
        DeletionVector { storage_type, path_or_inline_dv, offset: None, size_in_bytes: size as i32, cardinality: rows }
    }

    #[tokio::test]
    async fn what_other_engines_write_is_read() {
        let text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L";
        let rows = deleted_rows(&store("example"), &vector("i", text, 44, 6)).await.unwrap();
        assert_eq!(rows.iter().collect::<Vec<_>>(), [3, 4, 7, 11, 18, 29]);
        let filled = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093";
        let rows = deleted_rows(&store("example"), &vector("i", filled, 34, 1)).await.unwrap();
        assert_eq!(rows.iter().collect::<Vec<_>>(), [3]);
        let named = vector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6);
        assert_eq!(file(&named).unwrap(), "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin");
    }

    #[tokio::test]
    async fn vectors_are_read_from_the_log_and_from_files() {
        let store = store("both");
        let id = Uuid::from_u128(0x1234_5678_9abc);
        let rows = [0, 1, 4095, 70_000, 1 << 33, (1 << 40) + 5];
        let bytes = bitmap(&rows);
        let inline = vector("i", &encoded(&bytes), bytes.len(), 6);
        assert_eq!(deleted_rows(&store, &inline).await.unwrap().iter().collect::<Vec<_>>(), rows);
        let mut crc = Crc::new();
        crc.update(&bytes);
        let framed = [&(bytes.len() as u32).to_be_bytes()[..], &bytes, &crc.sum().to_be_bytes()].concat();
        for (prefix, dir) in [("", ""), ("xy", "xy/")] {
            let name = format!("{dir}deletion_vector_{id}.bin");
            let text = format!("{prefix}{}", encoded(id.as_bytes()));
            let in_file = DeletionVector { offset: Some(6), ..vector("u", &text, bytes.len(), 6) };
            assert_eq!(deleted_rows(&store, &in_file).await.unwrap_err().kind(), Kind::Data);
            store.put(&name, Bytes::from([b"\x01other", &framed[..]].concat())).await.unwrap();
            assert_eq!(deleted_rows(&store, &in_file).await.unwrap().iter().collect::<Vec<_>>(), rows, "{name}");
            store.put(&name, Bytes::from([b"\x01", &framed[..]].concat())).await.unwrap();
            let first = DeletionVector { offset: None, ..in_file.clone() };
            assert_eq!(deleted_rows(&store, &first).await.unwrap().len(), 6);
            // Every byte of it counts.
            for at in 1..=framed.len() {
                let mut damaged = [b"\x01", &framed[..]].concat();
                damaged[at] ^= 0x10;
                store.put(&name, Bytes::from(damaged)).await.unwrap();
                assert_eq!(deleted_rows(&store, &first).await.unwrap_err().kind(), Kind::Data, "byte {at}");
            }
            store.put(&name, Bytes::from(framed[..framed.len() - 2].to_vec())).await.unwrap();
            assert_eq!(deleted_rows(&store, &first).await.unwrap_err().kind(), Kind::Data);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_trusted_is_refused() {
        let store = store("refused");
        let bytes = bitmap(&[1, 2]);
        let text = encoded(&bytes);
        for (what, wrong) in [
            ("rows", vector("i", &text, bytes.len(), 3)),
            ("size", vector("i", &text, bytes.len() + 1, 2)),
            ("negative", DeletionVector { size_in_bytes: -1, ..vector("i", &text, 0, 2) }),
            ("short", vector("i", &text, bytes.len() - 4, 2)),
            ("digits", vector("i", "\u{e9}\u{e9}\u{e9}", bytes.len(), 2)),
            ("overflow", vector("i", "#####", 4, 2)),
            ("filled", vector("i", "##$$$", 2, 2)),
            ("filled inside", vector("i", "##00000000", 6, 2)),
            ("magic", vector("i", &encoded(&[0; 12]), 12, 0)),
            ("empty", vector("i", "", 0, 0)),
            ("name", vector("u", "tooshort", 40, 6)),
            ("kind", vector("x", &text, bytes.len(), 2)),
        ] {
            assert_eq!(deleted_rows(&store, &wrong).await.unwrap_err().kind(), Kind::Data, "{what}");
        }
        assert_eq!(deleted_rows(&store, &vector("p", "s3://x/y", 1, 1)).await.unwrap_err().kind(), Kind::Invalid);
    }
}
