//! Containers in the very schemas that we write, read by hand: ten times as fast as by a general reader, and it is what a merge, a scan and
//! the check of a replay mostly meet. Whatever looks odd is left to the general reader, which says what is wrong with it.

use apache_avro::{Codec, DeflateSettings, ZstandardSettings};

use super::super::stats::RawStats;
use super::{EntryKind, FileMeta, ManifestEntry, ManifestMeta, VERSION};

/// Reads a container whose header has exactly this schema. None: it has another, or something in it is odd.
pub(super) fn decode<T>(bytes: &[u8], schema: &str, one: fn(&mut Cursor<'_>) -> Option<T>) -> Option<Vec<T>> {
    let mut file = Cursor(bytes.strip_prefix(b"Obj\x01")?);
    let mut codec = None;
    let mut same = false;
    for _ in 0..file.long().filter(|n| (0..16).contains(n))? {
        match (file.blob()?, file.blob()?) {
            (b"avro.schema", text) => same = text == schema.as_bytes(),
            (b"avro.codec", name) => codec = codec_of(name),
            _ => {}
        }
    }
    if !same || file.long()? != 0 {
        return None;
    }
    let codec = codec?;
    let sync = file.take(16)?;
    let mut records = Vec::new();
    while !file.0.is_empty() {
        let count = file.long()?;
        let mut block = file.blob()?.to_vec();
        codec.decompress(&mut block).ok()?;
        let mut block = Cursor(&block);
        for _ in 0..count {
            records.push(one(&mut block)?);
        }
        if !block.0.is_empty() || file.take(16)? != sync {
            return None;
        }
    }
    Some(records)
}

fn codec_of(name: &[u8]) -> Option<Codec> {
    match name {
        b"null" => Some(Codec::Null),
        b"deflate" => Some(Codec::Deflate(DeflateSettings::default())),
        b"snappy" => Some(Codec::Snappy),
        b"zstandard" => Some(Codec::Zstandard(ZstandardSettings::default())),
        _ => None,
    }
}

/// The bytes that are left.
pub(super) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }
    fn long(&mut self) -> Option<i64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        None
    }
    fn int(&mut self) -> Option<i32> {
        i32::try_from(self.long()?).ok()
    }
    fn blob(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.long()?).ok()?;
        self.take(n)
    }
    fn text(&mut self) -> Option<String> {
        Some(std::str::from_utf8(self.blob()?).ok()?.to_owned())
    }
    /// Outer none: odd.
    fn option<T>(&mut self, one: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.long()? {
            0 => Some(None),
            1 => Some(Some(one(self)?)),
            _ => None,
        }
    }
    fn array<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        loop {
            match self.long()? {
                0 => return Some(items),
                n if n < 0 => {
                    self.long()?; // how many bytes follow
                    for _ in 0..n.unsigned_abs() {
                        items.push(one(self)?);
                    }
                }
                n => {
                    for _ in 0..n {
                        items.push(one(self)?);
                    }
                }
            }
        }
    }
    fn stats(&mut self) -> Option<RawStats> {
        let (min, max) = (self.blob()?.to_vec(), self.blob()?.to_vec());
        Some(RawStats { min, max, nulls: self.option(|c| c.array(|c| c.option(Cursor::long)))?.unwrap_or_default() })
    }
    /// Two optional ints that are there together.
    fn range(&mut self) -> Option<Option<(i32, i32)>> {
        Some(self.option(Cursor::int)?.zip(self.option(Cursor::int)?))
    }
}

pub(super) fn entry(c: &mut Cursor<'_>) -> Option<ManifestEntry> {
    if c.int()? != VERSION {
        return None;
    }
    let kind = match c.int()? {
        0 => EntryKind::Add,
        1 => EntryKind::Delete,
        _ => return None,
    };
    let (partition, bucket, total_buckets) = (c.blob()?.to_vec(), c.int()?, c.int()?);
    // In the order of the fields, which is that of the schema.
    let file = FileMeta {
        name: c.text()?,
        size: c.long()?,
        rows: c.long()?,
        min_key: c.blob()?.to_vec(),
        max_key: c.blob()?.to_vec(),
        key_stats: c.stats()?,
        value_stats: c.stats()?,
        min_sequence: c.long()?,
        max_sequence: c.long()?,
        schema_id: c.long()?,
        level: c.int()?,
        extra_files: c.array(Cursor::text)?,
        creation_time: c.option(Cursor::long)?,
        delete_rows: c.option(Cursor::long)?,
        embedded_index: c.option(|c| Some(c.blob()?.to_vec()))?,
        source: c.option(Cursor::int)?,
        value_stats_cols: c.option(|c| c.array(Cursor::text))?,
        external_path: c.option(Cursor::text)?,
        first_row_id: c.option(Cursor::long)?,
        write_cols: c.option(|c| c.array(Cursor::text))?,
        write_cols_sequences: c.option(|c| c.array(Cursor::long))?,
    };
    Some(ManifestEntry { kind, partition, bucket, total_buckets, file })
}

pub(super) fn meta(c: &mut Cursor<'_>) -> Option<ManifestMeta> {
    if c.int()? != VERSION {
        return None;
    }
    Some(ManifestMeta {
        name: c.text()?,
        size: c.long()?,
        added: c.long()?,
        deleted: c.long()?,
        partition_stats: c.stats()?,
        schema_id: c.long()?,
        buckets: c.range()?,
        levels: c.range()?,
        row_ids: c.option(Cursor::long)?.zip(c.option(Cursor::long)?),
    })
}
