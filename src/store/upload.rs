//! An object that is written piece by piece.

use std::fs::File;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use object_store::PutPayload;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;

use super::failure::{Failure, Retry, Verdict};
use super::local::LocalDir;
use super::{Backend, Parts as Client, Store};
use crate::error::Result;

/// An object that is being written piece by piece. Nothing refers to it before [`Upload::finish`] returns.
///
/// On local disk the file exists from the start; on a bucket at most one part (8 MiB) is held in memory. Dropped without
/// [`Upload::finish`] or [`Upload::abort`], a file stays as it is, and parts stay until the bucket's own rule for unfinished uploads
/// removes them.
pub struct Upload {
    store: Store,
    name: String,
    size: u64,
    to: Target,
}

enum Target {
    Disk(LocalDir, File),
    Parts(Parts),
    /// A store without an upload by parts: everything is kept and put at the end.
    Whole(BytesMut),
}

impl Upload {
    pub(super) async fn start(store: &Store, name: &str) -> Result<Upload> {
        let path = store.path(name)?;
        let to = match &store.backend {
            Backend::Disk(dir) => {
                let mut retry = Retry::new(store, "create", name);
                loop {
                    match dir.start(name, retry.attempt()) {
                        Ok(file) => break Target::Disk(dir.clone(), file),
                        Err(failure) => retry.again(failure).await?,
                    }
                }
            }
            Backend::Objects { parts: Some(client), .. } => Target::Parts(Parts::new(client, path)),
            Backend::Objects { parts: None, .. } => Target::Whole(BytesMut::new()),
        };
        Ok(Upload { store: store.clone(), name: name.to_owned(), size: 0, to })
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of these that are held in memory.
    pub fn buffered(&self) -> usize {
        match &self.to {
            Target::Disk(..) => 0,
            Target::Parts(parts) => parts.buffer.capacity().max(parts.buffer.len()),
            Target::Whole(buffer) => buffer.capacity(),
        }
    }

    /// Appends bytes. After an error the upload cannot go on: abort it.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.size += bytes.len() as u64;
        match &mut self.to {
            Target::Disk(dir, file) => {
                let mut left = bytes.as_ref();
                let mut retry = Retry::new(&self.store, "write", &self.name);
                while !left.is_empty() {
                    match dir.append(file, &self.name, left) {
                        Ok(written) => left = left.get(written..).unwrap_or_default(),
                        Err(failure) => retry.again(failure).await?,
                    }
                }
                Ok(())
            }
            Target::Parts(parts) => parts.write(&self.store, &self.name, bytes).await,
            Target::Whole(buffer) => {
                buffer.extend_from_slice(&bytes);
                Ok(())
            }
        }
    }

    /// Makes the object complete and durable. Its size in bytes.
    pub async fn finish(self) -> Result<u64> {
        let Upload { store, name, size, to } = self;
        match to {
            Target::Disk(dir, file) => {
                let mut retry = Retry::new(&store, "write", &name);
                // On another thread, so that several files wait for the disk together.
                let (here, file_name) = (dir.clone(), name.clone());
                if let Err(failure) = store.env().cpu(move || here.finish(&file, &file_name)).await {
                    return Err(retry.give_up(failure));
                }
                while let Err(failure) = dir.sync_parent(&name) {
                    retry.again(failure).await?;
                }
            }
            Target::Parts(parts) => parts.finish(&store, &name, size).await?,
            Target::Whole(buffer) => store.put_new(&name, buffer.freeze()).await?,
        }
        Ok(size)
    }

    /// Gives up; what was uploaded is removed, best effort and without retries.
    pub async fn abort(self) {
        match self.to {
            Target::Disk(dir, file) => {
                drop(file);
                let _ = dir.delete(&self.name);
            }
            Target::Parts(Parts { client, path, id: Some(id), .. }) => {
                let _ = client.abort_multipart(&path, &id).await;
            }
            Target::Parts(_) | Target::Whole(_) => {}
        }
    }
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upload({}, {} bytes)", self.store.place(&self.name), self.size)
    }
}

/// An upload to a bucket. Each part has its number, so that it can be sent again.
struct Parts {
    client: Arc<dyn MultipartStore>,
    /// Bytes of every part but the last.
    part: usize,
    path: Path,
    /// The store's name for the upload; none before the first part is full: a small object is one put.
    id: Option<String>,
    done: Vec<PartId>,
    buffer: BytesMut,
}

impl Parts {
    fn new(client: &Client, path: Path) -> Self {
        Parts { client: client.client.clone(), part: client.size, path, id: None, done: Vec::new(), buffer: BytesMut::new() }
    }

    async fn write(&mut self, store: &Store, name: &str, bytes: Bytes) -> Result<()> {
        self.buffer.extend_from_slice(&bytes);
        while self.buffer.len() > self.part {
            let part = self.buffer.split_to(self.part).freeze();
            self.send(store, name, part).await?;
        }
        Ok(())
    }

    async fn id(&mut self, store: &Store, name: &str) -> Result<String> {
        if let Some(id) = &self.id {
            return Ok(id.clone());
        }
        let mut retry = Retry::new(store, "upload", name);
        loop {
            match self.client.create_multipart(&self.path).await {
                Ok(id) => {
                    self.id = Some(id.clone());
                    return Ok(id);
                }
                Err(e) => retry.again(Failure::from(e).meaning(Verdict::Absent, Verdict::Refused)).await?,
            }
        }
    }

    async fn send(&mut self, store: &Store, name: &str, part: Bytes) -> Result<()> {
        let id = self.id(store, name).await?;
        let mut retry = Retry::new(store, "upload", name);
        loop {
            match self.client.put_part(&self.path, &id, self.done.len(), PutPayload::from(part.clone())).await {
                Ok(part) => {
                    self.done.push(part);
                    return Ok(());
                }
                // The store has forgotten the upload (its rule for unfinished ones): the earlier parts are gone.
                Err(e) => retry.again(Failure::from(e).meaning(Verdict::Absent, Verdict::Lost)).await?,
            }
        }
    }

    async fn finish(mut self, store: &Store, name: &str, size: u64) -> Result<()> {
        let rest = self.buffer.split().freeze();
        let Some(id) = self.id.clone() else { return store.put_new(name, rest).await };
        self.send(store, name, rest).await?;
        let mut retry = Retry::new(store, "upload", name);
        loop {
            let failure = match self.client.complete_multipart(&self.path, &id, self.done.clone()).await {
                Ok(_) => return Ok(()),
                Err(e) => Failure::from(e),
            };
            // An answer that got lost: the upload is no longer there because the object is.
            if store.size(name).await? == Some(size) {
                return Ok(());
            }
            retry.again(failure.meaning(Verdict::Absent, Verdict::Lost)).await?;
        }
    }
}
