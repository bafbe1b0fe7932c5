//! Footers of Parquet files on a store, read without threads or clients of their own: the simulated store goes the same way.

use std::ops::Range as Span;

use bytes::Bytes;
use parquet::DecodeResult;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataPushDecoder};

use crate::datafile::unknown_codec;
use crate::error::{Error, Result};
use crate::store::Store;

/// The end of a file that is read first; footers of usual size fit.
const FOOTER: u64 = 64 << 10;

/// The footer of a Parquet file. `Data`: the file is missing or is none.
pub(crate) async fn footer(store: &Store, path: &str, size: u64, place: &str) -> Result<ParquetMetaData> {
    let fetch = async |range| {
        store.get_range(path, range).await?.ok_or_else(|| {
            let hint = "it may have been expired (Delta: vacuumed): read again, or a newer snapshot; else the table is damaged";
            Error::data("a data file is missing").at(place).hint(hint)
        })
    };
    footer_with(fetch, size, place).await
}

/// The footer of a Parquet file of `size` bytes, of which `fetch` gives ranges.
pub(crate) async fn footer_with<F: Future<Output = Result<Bytes>>>(
    fetch: impl Fn(Span<u64>) -> F,
    size: u64,
    place: &str,
) -> Result<ParquetMetaData> {
    let damaged = |e| damaged(e, place);
    let decoder = ParquetMetaDataPushDecoder::try_new(size).map_err(damaged)?;
    let mut decoder = decoder.with_page_index_policy(PageIndexPolicy::Skip);
    let tail = size.saturating_sub(FOOTER)..size;
    decoder.push_range(tail.clone(), fetch(tail).await?).map_err(damaged)?;
    loop {
        match decoder.try_decode().map_err(damaged)? {
            DecodeResult::Data(metadata) => return Ok(metadata),
            DecodeResult::NeedsData(ranges) => {
                for range in ranges {
                    decoder.push_range(range.clone(), fetch(range).await?).map_err(damaged)?;
                }
            }
            DecodeResult::Finished => return Err(Error::internal("a footer was read twice").at(place).hint("please report this")),
        }
    }
}

/// What is said of a file that Parquet's decoder refuses.
pub(crate) fn damaged(e: ParquetError, place: &str) -> Error {
    if let Some(unknown) = unknown_codec(&e) {
        return unknown.at(place);
    }
    Error::data("this is no readable Parquet file of the size that the table says")
        .because(e)
        .at(place)
        .hint("the file is damaged, or is not Parquet")
}
