//! The object store as one process sees it: each call is put into a queue and waits until the explorer answers it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartId, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What a process asks of the store. Keys and prefixes are whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Read an object, or (`bytes` false) only its size.
    Get {
        /// The key.
        key: String,
        /// True: its bytes are wanted too.
        bytes: bool,
    },
    /// List a directory; `deep`: and everything below.
    List {
        /// The directory, without a slash at its end.
        prefix: String,
        /// Also below?
        deep: bool,
    },
    /// Write an object; `create`: unless it is there.
    Put {
        /// The key.
        key: String,
        /// What.
        bytes: Bytes,
        /// Conditional?
        create: bool,
    },
    /// Remove an object.
    Delete {
        /// The key.
        key: String,
    },
    /// Begin an upload by parts.
    Begin {
        /// The key.
        key: String,
    },
    /// Send one part.
    Part {
        /// The key.
        key: String,
        /// The upload.
        upload: String,
        /// Which part, from 0.
        part: usize,
        /// What.
        bytes: Bytes,
    },
    /// Make the parts one object.
    Complete {
        /// The key.
        key: String,
        /// The upload.
        upload: String,
        /// How many parts.
        parts: usize,
    },
    /// Forget an upload.
    Abort {
        /// The key.
        key: String,
        /// The upload.
        upload: String,
    },
}

impl Ask {
    /// The key, or the prefix of a listing.
    pub fn key(&self) -> &str {
        match self {
            Ask::Get { key, .. }
            | Ask::Put { key, .. }
            | Ask::Delete { key }
            | Ask::Begin { key }
            | Ask::Part { key, .. }
            | Ask::Complete { key, .. }
            | Ask::Abort { key, .. } => key,
            Ask::List { prefix, .. } => prefix,
        }
    }
    /// Does it change nothing?
    pub fn reads(&self) -> bool {
        matches!(self, Ask::Get { .. } | Ask::List { .. })
    }
    /// Could its answer, or its effect, differ when `key` is written or removed before it instead of after?
    pub fn meets(&self, key: &str) -> bool {
        match self {
            Ask::List { prefix, deep } => {
                let rest = key.strip_prefix(prefix.as_str()).and_then(|r| r.strip_prefix('/'));
                rest.is_some_and(|r| *deep || !r.contains('/'))
            }
            other => other.key() == key,
        }
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::Get { key, bytes: true } => write!(f, "get {key}"),
            Ask::Get { key, bytes: false } => write!(f, "size {key}"),
            Ask::List { prefix, deep: false } => write!(f, "list {prefix}/"),
            Ask::List { prefix, deep: true } => write!(f, "list {prefix}/**"),
            Ask::Put { key, create: true, .. } => write!(f, "create {key}"),
            Ask::Put { key, create: false, .. } => write!(f, "put {key}"),
            Ask::Delete { key } => write!(f, "delete {key}"),
            Ask::Begin { key } => write!(f, "begin upload {key}"),
            Ask::Part { key, part, .. } => write!(f, "part {part} of {key}"),
            Ask::Complete { key, .. } => write!(f, "complete {key}"),
            Ask::Abort { key, .. } => write!(f, "abort upload {key}"),
        }
    }
}

/// What a call is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// The object, or none.
    Object(Option<Bytes>),
    /// Keys and sizes; and the directories in it.
    Listing(Vec<(String, u64)>, Vec<String>),
    /// The upload's name.
    Upload(String),
    /// The name is taken: 412 or 409.
    Exists,
    /// No answer in time, or a 5xx.
    Unclear(&'static str),
}

/// A process's end of the store.
#[derive(Debug, Default)]
pub struct Port {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    queue: Vec<(u64, Ask)>,
    answers: HashMap<u64, Answer>,
    wakers: HashMap<u64, Waker>,
}

impl Port {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The oldest call that waits.
    pub fn first(&self) -> Option<(u64, Ask)> {
        self.inner().queue.first().cloned()
    }
    /// All calls that wait, the oldest first.
    pub fn waiting(&self) -> Vec<Ask> {
        self.inner().queue.iter().map(|(_, ask)| ask.clone()).collect()
    }
    /// Takes a call out of the queue and answers it.
    pub fn answer(&self, n: u64, answer: Answer) {
        let mut inner = self.inner();
        inner.queue.retain(|(m, _)| *m != n);
        inner.answers.insert(n, answer);
        // Many calls at once are polled again only when they are woken.
        if let Some(waker) = inner.wakers.remove(&n) {
            waker.wake();
        }
    }
    async fn ask(&self, ask: Ask) -> Answer {
        let n = {
            let mut inner = self.inner();
            inner.next += 1;
            let n = inner.next;
            inner.queue.push((n, ask));
            n
        };
        std::future::poll_fn(move |context| {
            let mut inner = self.inner();
            match inner.answers.remove(&n) {
                Some(answer) => Poll::Ready(answer),
                None => {
                    inner.wakers.insert(n, context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// [`ObjectStore`] and [`MultipartStore`] over a [`Port`].
pub struct SimStore(pub Arc<Port>);

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimStore")
    }
}
impl fmt::Display for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimStore")
    }
}

fn failed(answer: Answer, key: &str) -> Error {
    match answer {
        Answer::Exists => Error::AlreadyExists { path: key.to_owned(), source: "412".into() },
        Answer::Unclear(why) => Error::Generic { store: "sim", source: why.into() },
        other => Error::Generic { store: "sim", source: format!("{other:?} is no answer to this").into() },
    }
}

fn meta(key: &str, size: u64) -> ObjectMeta {
    ObjectMeta { location: Path::from(key), last_modified: chrono::DateTime::UNIX_EPOCH, size, e_tag: None, version: None }
}

fn joined(payload: PutPayload) -> Bytes {
    payload.into()
}

impl SimStore {
    async fn done(&self, ask: Ask) -> Result<()> {
        let key = ask.key().to_owned();
        match self.0.ask(ask).await {
            Answer::Done => Ok(()),
            other => Err(failed(other, &key)),
        }
    }
    async fn listed(&self, prefix: Option<&Path>, deep: bool) -> Result<ListResult> {
        let prefix = prefix.map(ToString::to_string).unwrap_or_default();
        match self.0.ask(Ask::List { prefix: prefix.clone(), deep }).await {
            Answer::Listing(objects, dirs) => Ok(ListResult {
                objects: objects.iter().map(|(key, size)| meta(key, *size)).collect(),
                common_prefixes: dirs.iter().map(|d| Path::from(d.as_str())).collect(),
                extensions: Default::default(),
            }),
            other => Err(failed(other, &prefix)),
        }
    }
}

fn put_result() -> PutResult {
    PutResult { e_tag: None, version: None, extensions: Default::default() }
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let create = opts.mode == PutMode::Create;
        self.done(Ask::Put { key: location.to_string(), bytes: joined(payload), create }).await?;
        Ok(put_result())
    }
    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: "put_multipart".into(), implementer: "sim".into() })
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let key = location.to_string();
        let bytes = match self.0.ask(Ask::Get { key: key.clone(), bytes: !options.head }).await {
            Answer::Object(Some(bytes)) => bytes,
            Answer::Object(None) => return Err(Error::NotFound { path: key, source: "404".into() }),
            other => return Err(failed(other, &key)),
        };
        let size = bytes.len() as u64;
        let range: Range<u64> = match options.range {
            None => 0..size,
            Some(GetRange::Bounded(r)) => r.start.min(size)..r.end.min(size),
            Some(GetRange::Offset(o)) => o.min(size)..size,
            Some(GetRange::Suffix(n)) => size.saturating_sub(n)..size,
        };
        let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let part = bytes.slice(at(range.start)..at(range.end));
        let payload = GetResultPayload::Stream(stream::once(async move { Ok(part) }).boxed());
        Ok(GetResult { payload, meta: meta(&key, size), range, attributes: Attributes::default(), extensions: Default::default() })
    }
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let port = self.0.clone();
        let delete = move |location: Result<Path>| {
            let store = SimStore(port.clone());
            async move {
                let location = location?;
                store.done(Ask::Delete { key: location.to_string() }).await?;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let store = SimStore(self.0.clone());
        let prefix = prefix.cloned();
        let all = async move {
            match store.listed(prefix.as_ref(), true).await {
                Ok(found) => found.objects.into_iter().map(Ok).collect(),
                Err(e) => vec![Err(e)],
            }
        };
        stream::once(all).flat_map(stream::iter).boxed()
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.listed(prefix, false).await
    }
    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(Error::NotImplemented { operation: "copy".into(), implementer: "sim".into() })
    }
}

#[async_trait]
impl MultipartStore for SimStore {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        match self.0.ask(Ask::Begin { key: path.to_string() }).await {
            Answer::Upload(id) => Ok(id),
            other => Err(failed(other, path.as_ref())),
        }
    }
    async fn put_part(&self, path: &Path, id: &MultipartId, part: usize, data: PutPayload) -> Result<PartId> {
        self.done(Ask::Part { key: path.to_string(), upload: id.clone(), part, bytes: joined(data) }).await?;
        Ok(PartId { content_id: part.to_string() })
    }
    async fn complete_multipart(&self, path: &Path, id: &MultipartId, parts: Vec<PartId>) -> Result<PutResult> {
        match self.0.ask(Ask::Complete { key: path.to_string(), upload: id.clone(), parts: parts.len() }).await {
            Answer::Done => Ok(put_result()),
            // The upload is not known: it was completed before.
            Answer::Object(None) => Err(Error::NotFound { path: path.to_string(), source: "NoSuchUpload".into() }),
            other => Err(failed(other, path.as_ref())),
        }
    }
    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.done(Ask::Abort { key: path.to_string(), upload: id.clone() }).await
    }
}

/// What is on the store: objects, and uploads that are not complete.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Key to bytes.
    pub map: BTreeMap<String, Bytes>,
    uploads: BTreeMap<String, BTreeMap<usize, Bytes>>,
    begun: u64,
    /// Sum over the objects of a hash of key and bytes: the same objects, the same sum, in whichever order they came.
    sum: u128,
}

/// A hash of 128 bits that does not differ between runs.
pub fn hash128(parts: &[&[u8]]) -> u128 {
    let mut h: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for part in parts {
        for chunk in part.chunks(8) {
            let mut word = [0u8; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            h = (h ^ u128::from(u64::from_le_bytes(word))).wrapping_mul(0x0000_0001_0000_0000_0000_0000_0000_013b);
            h ^= h >> 61;
        }
        h = (h ^ part.len() as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        h ^= h >> 67;
    }
    h
}

impl Objects {
    /// See the field `sum`.
    pub fn sum(&self) -> u128 {
        self.sum
    }
    /// Writes or removes an object; what was there.
    pub fn set(&mut self, key: &str, bytes: Option<Bytes>) -> Option<Bytes> {
        let before = match bytes.clone() {
            Some(bytes) => self.map.insert(key.to_owned(), bytes),
            None => self.map.remove(key),
        };
        for (bytes, add) in [(&before, false), (&bytes, true)] {
            let Some(bytes) = bytes else { continue };
            let hash = hash128(&[key.as_bytes(), bytes]);
            self.sum = if add { self.sum.wrapping_add(hash) } else { self.sum.wrapping_sub(hash) };
        }
        before
    }

    /// Does what is asked. The answer, and what was at the key before if an object changed.
    pub fn apply(&mut self, ask: &Ask) -> (Answer, Option<Option<Bytes>>) {
        match ask {
            Ask::Get { key, .. } => (Answer::Object(self.map.get(key).cloned()), None),
            Ask::List { prefix, deep } => (self.list(prefix, *deep), None),
            Ask::Put { key, create: true, .. } if self.map.contains_key(key) => (Answer::Exists, None),
            Ask::Put { key, bytes, .. } => (Answer::Done, Some(self.set(key, Some(bytes.clone())))),
            Ask::Delete { key } => (Answer::Done, Some(self.set(key, None))),
            Ask::Begin { key } => {
                self.begun += 1;
                let id = format!("{key}#{}", self.begun);
                self.uploads.insert(id.clone(), BTreeMap::new());
                (Answer::Upload(id), None)
            }
            Ask::Part { upload, part, bytes, .. } => match self.uploads.get_mut(upload) {
                Some(parts) => {
                    parts.insert(*part, bytes.clone());
                    (Answer::Done, None)
                }
                None => (Answer::Unclear("NoSuchUpload"), None),
            },
            Ask::Complete { key, upload, parts } => match self.uploads.remove(upload) {
                Some(found) if found.len() == *parts => {
                    let whole: Vec<u8> = found.into_values().flatten().collect();
                    (Answer::Done, Some(self.set(key, Some(whole.into()))))
                }
                _ => (Answer::Object(None), None),
            },
            Ask::Abort { upload, .. } => {
                self.uploads.remove(upload);
                (Answer::Done, None)
            }
        }
    }

    fn list(&self, prefix: &str, deep: bool) -> Answer {
        let from = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (mut objects, mut dirs) = (Vec::new(), Vec::<String>::new());
        for (key, bytes) in self.map.range(from.clone()..) {
            let Some(rest) = key.strip_prefix(&from) else { break };
            match rest.split_once('/') {
                Some((dir, _)) if !deep => {
                    let dir = format!("{from}{dir}");
                    if dirs.last() != Some(&dir) {
                        dirs.push(dir);
                    }
                }
                _ => objects.push((key.clone(), bytes.len() as u64)),
            }
        }
        Answer::Listing(objects, dirs)
    }
}
