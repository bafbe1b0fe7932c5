//! Files on their way to the store: one that takes rows, and many small ones at once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;

use crate::datafile::encode::{Encoded, Encoder, FileFormat};
use crate::error::{Error, Result};
use crate::format::DataFile;
use crate::store::{Store, Upload};

/// A file that takes rows.
pub(super) struct Open {
    pub(super) path: String,
    pub(super) encoder: Encoder,
    pub(super) upload: Upload,
    /// Bytes that writing the open row group would free.
    pub(super) group: usize,
    /// The shares in the writer's sums.
    pub(super) bytes: u64,
    pub(super) memory: usize,
}

impl Open {
    /// Hands on what the encoder has done with.
    pub(super) async fn pass_on(&mut self) -> Result<()> {
        for piece in self.encoder.take() {
            self.upload.write(piece).await?;
        }
        Ok(())
    }
}

/// Completes a file.
pub(super) async fn finish(store: Store, schema_id: u64, open: Open) -> Result<DataFile> {
    let Open { path, encoder, mut upload, .. } = open;
    let Encoded { pieces, size, rows, stats } = encoder.finish()?;
    for piece in pieces {
        upload.write(piece).await?;
    }
    let stored = upload.finish().await?;
    if stored != size {
        let what = format!("{size} bytes were written and the store says {stored}");
        return Err(Error::internal(what).at(format!("{}/{path}", store.url())).hint("please report this"));
    }
    Ok(DataFile { path, size, rows, schema_id, created_ms: store.env().now_ms(), stats })
}

/// Makes a file of each part of `rows` (so many of the next rows; a path) and writes them all. One is encoded at a time, because the
/// encoders of a wide table need much memory; what is encoded is together until it is written.
pub(super) async fn encode_files(
    store: Store,
    format: Arc<FileFormat>,
    rows: RecordBatch,
    parts: Vec<(usize, String)>,
) -> Result<Vec<DataFile>> {
    let schema_id = format.schema.id;
    let work = move || -> Result<Vec<(String, Encoded)>> {
        let mut from = 0;
        let encode = |(count, path): (usize, String)| {
            let mut encoder = Encoder::new(&format)?;
            encoder.write(&rows.slice(from, count))?;
            from += count;
            Ok((path, encoder.finish()?))
        };
        parts.into_iter().map(encode).collect()
    };
    let encoded = store.env().cpu(work).await?;
    let mut files = Vec::with_capacity(encoded.len());
    let mut objects = Vec::with_capacity(encoded.len());
    for (path, Encoded { pieces, size, rows, stats }) in encoded {
        objects.push((path.clone(), joined(pieces)));
        files.push(DataFile { path, size, rows, schema_id, created_ms: store.env().now_ms(), stats });
    }
    store.put_new_all(objects).await?;
    Ok(files)
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match (pieces.pop(), pieces.is_empty()) {
        (Some(only), true) => only,
        (None, _) => Bytes::new(),
        (Some(last), false) => {
            pieces.push(last);
            pieces.concat().into()
        }
    }
}
