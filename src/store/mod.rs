//! Locations and what lies there: a path or URL becomes a [`Store`].
//!
//! Reads and writes that may be repeated (everything but a conditional create, which is `publish`'s) are retried here, with backoff,
//! until the store's patience ends; then they are `Unavailable`. What the store definitely refuses is `Invalid` at once. Nobody above
//! retries a store call.

#[cfg(any(test, feature = "sim"))]
pub mod crash;
mod disk;
mod failure;
mod local;
mod many;
mod open;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod upload;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload};

pub use self::disk::{DiskObserver, DiskOp};
pub(crate) use self::failure::{Failure, Retry, Verdict};
use self::local::LocalDir;
use self::open::{Location, connect};
pub use self::upload::Upload;
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

/// Hears of every call that failed and is tried again: what is tried (`read s3://lake/orders/snapshot/snapshot-7`), how many times it has
/// failed, and what the store said last.
pub type OnRetry = Arc<dyn Fn(&str, u32, &str) + Send + Sync>;

/// How a [`Store`] is opened.
#[derive(Clone)]
pub struct StoreOptions {
    /// See [`Durability`].
    pub durability: Durability,
    /// How long a call is tried again before it is `Unavailable`.
    pub patience: Duration,
    /// Hears of retries.
    pub on_retry: Option<OnRetry>,
    /// Sees, fails or counts the steps on a local disk; for tests.
    pub disk: Option<Arc<dyn DiskObserver>>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions { durability: Durability::Fsync, patience: Duration::from_secs(300), on_retry: None, disk: None }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions").field("durability", &self.durability).field("patience", &self.patience).finish_non_exhaustive()
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

/// What of a directory is listed.
#[derive(Clone, Copy)]
enum Listed<'a> {
    /// The objects in it.
    Here,
    /// The objects in it whose names are greater.
    After(&'a str),
    /// Those below it too.
    Deep,
}

/// A directory on an object store, on local disk or in memory. Cheap to clone. Names are relative, `/` between segments, and are taken
/// as they are (no percent-encoding is added or removed).
#[derive(Clone)]
pub struct Store {
    backend: Backend,
    url: String,
    env: Env,
    options: StoreOptions,
}

#[derive(Clone)]
enum Backend {
    Disk(LocalDir),
    Objects { objects: Arc<dyn ObjectStore>, parts: Option<Parts>, root: Path },
}

/// How uploads go piece by piece.
#[derive(Clone)]
struct Parts {
    client: Arc<dyn MultipartStore>,
    /// Bytes of every part but the last.
    size: usize,
}

impl Parts {
    /// Stores want at least 5 MiB, some want equal parts, and 10,000 parts are the most.
    const SIZE: usize = 8 << 20;
}

impl Store {
    /// Opens a path, `file://`, `memory://NAME/`, `s3://`, `gs://` or `az://` location. Makes no request.
    ///
    /// Credentials, endpoint and region come from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`). A path is made absolute and
    /// normalised by its words; symbolic links stay. `memory://NAME` is one store for the whole process.
    pub fn open(location: &str, env: &Env, options: StoreOptions) -> Result<Store> {
        match Location::parse(location)? {
            Location::Local(path) => {
                let url = path.to_string_lossy().into_owned();
                let backend = Backend::Disk(LocalDir::new(path, &options));
                Ok(Store { backend, url, env: env.clone(), options })
            }
            Location::Bucket { scheme, bucket, dir, url } => {
                let clients = connect(scheme, &bucket, &url)?;
                let parts = Some(Parts { client: clients.parts, size: Parts::SIZE });
                let backend = Backend::Objects { objects: clients.objects, parts, root: dir };
                Ok(Store { backend, url, env: env.clone(), options })
            }
        }
    }

    /// Over a given object store: `root` is the directory in it, `url` what people see. An [`Upload`] is kept in memory until it is
    /// finished, and put at once; see [`Store::with_parts`].
    pub fn over(objects: Arc<dyn ObjectStore>, root: Path, url: impl Into<String>, env: &Env, options: StoreOptions) -> Store {
        let url = url.into();
        let url = url.strip_suffix('/').unwrap_or(&url).to_owned();
        Store { backend: Backend::Objects { objects, parts: None, root }, url, env: env.clone(), options }
    }

    /// Uploads by parts through this client of the same object store.
    pub fn with_parts(mut self, client: Arc<dyn MultipartStore>) -> Store {
        if let Backend::Objects { parts, .. } = &mut self.backend {
            *parts = Some(Parts { client, size: Parts::SIZE });
        }
        self
    }

    /// Parts of so many bytes: real stores want 5 MiB and more.
    #[cfg(any(test, feature = "sim"))]
    pub fn with_part_size(mut self, bytes: usize) -> Store {
        if let Backend::Objects { parts: Some(parts), .. } = &mut self.backend {
            parts.size = bytes;
        }
        self
    }

    /// The directory `name` in this one.
    pub fn child(&self, name: &str) -> Result<Store> {
        let path = self.path(name)?;
        let backend = match &self.backend {
            Backend::Disk(dir) => Backend::Disk(dir.child(name)),
            Backend::Objects { objects, parts, .. } => Backend::Objects { objects: objects.clone(), parts: parts.clone(), root: path },
        };
        Ok(Store { backend, url: self.place(name), env: self.env.clone(), options: self.options.clone() })
    }

    /// The absolute location, as it goes into checkpoints: a plain path for local disk, else a URL; no slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }
    /// The location with symbolic links resolved, as far as it exists: two stores are one place exactly if these are equal.
    pub fn physical_url(&self) -> Result<String> {
        let Backend::Disk(_) = &self.backend else { return Ok(self.url.clone()) };
        let path = PathBuf::from(&self.url);
        for dir in path.ancestors() {
            match dir.canonicalize() {
                Ok(real) => {
                    return Ok(real.join(path.strip_prefix(dir).unwrap_or(&path)).to_string_lossy().trim_end_matches('/').to_owned());
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => {
                    return Err(Error::unavailable("cannot follow the path")
                        .at(&self.url)
                        .because(e)
                        .hint("make every directory on it readable"));
                }
            }
        }
        Ok(self.url.clone())
    }
    /// The same place for work beside everything else ([`Env::aside`]): a call is tried for `patience` at most, so that nothing waits long for
    /// that work to end.
    pub(crate) fn aside(&self, patience: Duration) -> Store {
        let options = StoreOptions { patience: self.options.patience.min(patience), ..self.options.clone() };
        Store { env: self.env.on_a_thread(), options, ..self.clone() }
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
        matches!(self.backend, Backend::Disk(_))
    }

    /// Is the location itself a file? Then nothing below it will ever answer.
    pub(crate) fn is_file(&self) -> bool {
        self.is_local() && std::path::Path::new(&self.url).is_file()
    }

    /// The whole object; `None` when there is none.
    pub async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let mut retry = Retry::new(self, "read", name);
        loop {
            match self.get_once(name).await {
                Ok(found) => return Ok(found),
                Err(failure) => retry.again(failure).await?,
            }
        }
    }
    /// The bytes `range` of the object, all of them; `None` when there is no object, `Data` when it is shorter.
    pub async fn get_range(&self, name: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        let wanted = range.end.saturating_sub(range.start);
        let path = self.path(name)?;
        let mut retry = Retry::new(self, "read", name);
        loop {
            let got = match &self.backend {
                Backend::Disk(dir) => dir.get_range(name, range.clone()),
                Backend::Objects { .. } if wanted == 0 => Ok(Bytes::new()),
                Backend::Objects { objects, .. } => objects.get_range(&path, range.clone()).await.map_err(Failure::from),
            };
            match got {
                Ok(bytes) if bytes.len() as u64 == wanted => return Ok(Some(bytes)),
                Ok(bytes) => {
                    let what = format!("{} of the {wanted} bytes from {} are there", bytes.len(), range.start);
                    retry.again(Failure::new(Verdict::Short, what)).await?;
                }
                Err(Failure { verdict: Verdict::Absent, .. }) => return Ok(None),
                Err(failure) => retry.again(failure).await?,
            }
        }
    }
    /// Size of the object in bytes; `None` when there is none.
    pub async fn size(&self, name: &str) -> Result<Option<u64>> {
        let path = self.path(name)?;
        let mut retry = Retry::new(self, "read", name);
        loop {
            let got = match &self.backend {
                Backend::Disk(dir) => dir.size(name),
                Backend::Objects { objects, .. } => objects.head(&path).await.map(|meta| meta.size).map_err(Failure::from),
            };
            match got {
                Ok(size) => return Ok(Some(size)),
                Err(Failure { verdict: Verdict::Absent, .. }) => return Ok(None),
                Err(failure) => retry.again(failure).await?,
            }
        }
    }
    /// Objects directly in `dir` (not below), sorted by name. A directory that does not exist is empty.
    pub async fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        self.listed(dir, Listed::Here).await
    }
    /// As [`Store::list`], but only names greater than `after`: costs little when few are.
    pub async fn list_after(&self, dir: &str, after: &str) -> Result<Vec<Entry>> {
        self.listed(dir, Listed::After(after)).await
    }
    /// Every object in and below `dir`, sorted by name. A directory that does not exist is empty.
    pub async fn list_all(&self, dir: &str) -> Result<Vec<Entry>> {
        self.listed(dir, Listed::Deep).await
    }
    async fn listed(&self, dir: &str, what: Listed<'_>) -> Result<Vec<Entry>> {
        self.path(dir)?;
        let mut retry = Retry::new(self, "list", dir);
        loop {
            match self.list_once(dir, what).await {
                Ok(mut entries) => {
                    entries.sort_by(|a, b| a.name.cmp(&b.name));
                    return Ok(entries);
                }
                Err(failure) => retry.again(failure.meaning(Verdict::Absent, Verdict::Unclear)).await?,
            }
        }
    }
    /// Writes an object whose name is new (a fresh uuid) and to which nothing refers yet. Durable when it returns.
    pub async fn put_new(&self, name: &str, bytes: Bytes) -> Result<()> {
        let path = self.path(name)?;
        let mut retry = Retry::new(self, "write", name);
        loop {
            let put = match &self.backend {
                Backend::Disk(dir) => dir.put_new(name, &bytes, retry.attempt()),
                Backend::Objects { objects, .. } => put_object(objects.as_ref(), &path, &bytes).await,
            };
            match put {
                Ok(()) => return Ok(()),
                Err(failure) => retry.again(failure).await?,
            }
        }
    }
    /// Writes or replaces an object atomically: hints and pins only. Durable when it returns.
    pub async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        let path = self.path(name)?;
        let mut retry = Retry::new(self, "write", name);
        loop {
            let put = match &self.backend {
                Backend::Disk(dir) => dir.put(name, &bytes, self.env.uuid()),
                Backend::Objects { objects, .. } => put_object(objects.as_ref(), &path, &bytes).await,
            };
            match put {
                Ok(()) => return Ok(()),
                Err(failure) => retry.again(failure).await?,
            }
        }
    }
    /// Removes an object; one that is not there is no error.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        let mut retry = Retry::new(self, "delete", name);
        loop {
            let deleted = match &self.backend {
                Backend::Disk(dir) => dir.delete(name),
                Backend::Objects { objects, .. } => objects.delete(&path).await.map_err(Failure::from),
            };
            match deleted {
                Ok(()) | Err(Failure { verdict: Verdict::Absent, .. }) => return Ok(()),
                Err(failure) => retry.again(failure).await?,
            }
        }
    }
    /// Starts a new object of unknown length under a new name. On local disk the file exists from now on.
    pub async fn upload(&self, name: &str) -> Result<Upload> {
        Upload::start(self, name).await
    }
    /// Makes durable what was *found* rather than written (local disk: fsync of the file, its directory and the directories above).
    /// `Data` when it is gone.
    pub async fn settle(&self, name: &str) -> Result<()> {
        let mut retry = Retry::new(self, "fsync", name);
        loop {
            match self.settle_once(name) {
                Ok(()) => return Ok(()),
                Err(Failure { verdict: Verdict::Absent, error }) => {
                    return Err(Error::data("the object is gone")
                        .at(self.place(name))
                        .because(error)
                        .hint("somebody deleted it; look who"));
                }
                Err(failure) => retry.again(failure).await?,
            }
        }
    }

    /// One conditional create, no retry: for `publish` alone.
    pub(crate) async fn create(&self, name: &str, bytes: Bytes) -> std::result::Result<(), Failure> {
        let path = self.path(name).map_err(|e| Failure::new(Verdict::Refused, e))?;
        match &self.backend {
            Backend::Disk(dir) => dir.create(name, &bytes, self.env.uuid()),
            Backend::Objects { objects, .. } => {
                let put = objects.put_opts(&path, PutPayload::from(bytes), PutOptions::from(PutMode::Create)).await;
                // "Not found" is no answer to a create unless the bucket is missing.
                put.map(|_| ()).map_err(|e| Failure::from(e).meaning(Verdict::Absent, Verdict::Refused))
            }
        }
    }
    /// One read, no retry: for `publish` alone.
    pub(crate) async fn get_once(&self, name: &str) -> std::result::Result<Option<Bytes>, Failure> {
        let path = self.path(name).map_err(|e| Failure::new(Verdict::Refused, e))?;
        let got = match &self.backend {
            Backend::Disk(dir) => dir.get(name),
            Backend::Objects { objects, .. } => match objects.get(&path).await {
                Ok(got) => got.bytes().await.map_err(Failure::from),
                Err(e) => Err(e.into()),
            },
        };
        match got {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Failure { verdict: Verdict::Absent, .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
    /// One try of [`Store::settle`]: for `publish` alone.
    pub(crate) fn settle_once(&self, name: &str) -> std::result::Result<(), Failure> {
        match &self.backend {
            Backend::Disk(dir) => dir.settle(name),
            Backend::Objects { .. } => Ok(()),
        }
    }
    async fn list_once(&self, dir: &str, what: Listed<'_>) -> std::result::Result<Vec<Entry>, Failure> {
        let (objects, prefix) = match &self.backend {
            Backend::Disk(local) => return local.list(dir, what),
            Backend::Objects { objects, .. } => (objects, self.path(dir).map_err(|e| Failure::new(Verdict::Refused, e))?),
        };
        let found: Vec<ObjectMeta> = match what {
            Listed::Here => objects.list_with_delimiter(Some(&prefix)).await?.objects,
            Listed::Deep => objects.list(Some(&prefix)).try_collect().await?,
            Listed::After(name) => objects.list_with_offset(Some(&prefix), &prefix.clone().join(name)).try_collect().await?,
        };
        let entry = |meta: ObjectMeta| {
            let name = meta.location.as_ref().strip_prefix(prefix.as_ref())?.trim_start_matches('/').to_owned();
            Some(Entry { name, size: meta.size, modified_ms: meta.last_modified.timestamp_millis() })
        };
        let below = |entry: &Entry| matches!(what, Listed::After(_)) && entry.name.contains('/');
        Ok(found.into_iter().filter_map(entry).filter(|entry| !below(entry)).collect())
    }

    /// Where `name` is, for messages.
    pub(crate) fn place(&self, name: &str) -> String {
        let name = name.trim_end_matches('/');
        if name.is_empty() { self.url.clone() } else { format!("{}/{name}", self.url.trim_end_matches('/')) }
    }
    /// Says that a call failed and is tried again.
    pub(crate) fn retrying(&self, what: &str, name: &str, attempt: u32, error: &str) {
        let url = self.place(name);
        match &self.options.on_retry {
            Some(listener) => listener(&format!("{what} {url}"), attempt, error),
            None => tracing::warn!(url, attempt, error, "could not {what}, trying again"),
        }
    }
    /// The key in a bucket; checks the name for every kind of store, so that what is written here can be copied there.
    fn path(&self, name: &str) -> Result<Path> {
        let bad = || {
            let hint = "leave out control characters, a slash in front, and segments that are empty, `.` or `..`";
            Error::invalid("this is no object name").at(self.place(name)).hint(hint)
        };
        if name.starts_with('/') {
            return Err(bad());
        }
        let relative = Path::parse(name.trim_end_matches('/')).map_err(|e| bad().because(e))?;
        match &self.backend {
            Backend::Objects { root, .. } if relative.as_ref().is_empty() => Ok(root.clone()),
            Backend::Objects { root, .. } if !root.as_ref().is_empty() => {
                Path::parse(format!("{root}/{relative}")).map_err(|e| bad().because(e))
            }
            _ => Ok(relative),
        }
    }
}

async fn put_object(objects: &dyn ObjectStore, path: &Path, bytes: &Bytes) -> std::result::Result<(), Failure> {
    let put = objects.put(path, PutPayload::from(bytes.clone())).await;
    put.map(|_| ()).map_err(|e| Failure::from(e).meaning(Verdict::Absent, Verdict::Refused))
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.url)
    }
}
