//! Test doubles: a clock that jumps, and an object store that follows a script.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use uuid::Uuid;

use crate::env::{Env, World};

/// Sleeping is free and moves the clock.
#[derive(Default)]
pub(crate) struct Jumping {
    micros: AtomicU64,
}

/// Ids differ between worlds too: a second life must not meet the first one's names.
static IDS: AtomicU64 = AtomicU64::new(1);

impl Jumping {
    pub(crate) fn env() -> Env {
        Env::new(Arc::new(Jumping::default()))
    }
}

#[async_trait]
impl World for Jumping {
    fn now_ms(&self) -> i64 {
        0
    }
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }
    async fn sleep(&self, time: Duration) {
        self.micros.fetch_add(u64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }
    fn uuid(&self) -> Uuid {
        Uuid::from_u128(u128::from(IDS.fetch_add(1, Ordering::SeqCst)))
    }
    fn threads(&self) -> bool {
        false
    }
}

/// What the store does with one conditional create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// What it should.
    Works,
    /// Nothing, and says that it failed.
    FailsBefore,
    /// What it should, and says that it failed.
    AppliesThenFails,
    /// What it should, and says that the name was taken.
    AppliesThenExists,
    /// Nothing, and says 409.
    Conflict,
    /// Nothing, and says 412.
    Precondition,
    /// Says that it failed, and does what it should when the next call of any kind comes.
    AppliesLater,
    /// Somebody else gets in first.
    Rival,
    /// Nothing, and says 403.
    Forbidden,
    /// What it should, and never answers.
    AppliesThenHangs,
}

/// Answers to other calls than creates, one each; works when there are none left.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// A server error.
    Fails,
    /// 403.
    Forbidden,
    /// 404 with the S3 code for a missing bucket.
    NoBucket,
}

pub(crate) struct Scripted {
    pub(crate) inner: InMemory,
    pub(crate) puts: Mutex<VecDeque<Put>>,
    pub(crate) answers: Mutex<VecDeque<Answer>>,
    pub(crate) calls: AtomicU64,
    later: Mutex<Vec<(Path, PutPayload)>>,
}

pub(crate) const RIVAL: &[u8] = b"somebody else's";

pub(crate) fn broken() -> Error {
    Error::Generic { store: "scripted", source: "Server returned non-2xx status code: 503 Service Unavailable".into() }
}

impl Scripted {
    pub(crate) fn new(puts: &[Put], answers: &[Answer]) -> Arc<Self> {
        Arc::new(Scripted {
            inner: InMemory::new(),
            puts: Mutex::new(puts.iter().copied().collect()),
            answers: Mutex::new(answers.iter().copied().collect()),
            calls: AtomicU64::new(0),
            later: Mutex::default(),
        })
    }

    /// What is really there, without a script.
    pub(crate) async fn peek(&self, path: &str) -> Option<Bytes> {
        match self.inner.get(&Path::from(path)).await {
            Ok(got) => Some(got.bytes().await.unwrap()),
            Err(_) => None,
        }
    }

    async fn catch_up(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let late = std::mem::take(&mut *self.later.lock().unwrap());
        for (path, payload) in late {
            let _ = self.create(&path, payload).await;
        }
    }

    async fn create(&self, path: &Path, payload: PutPayload) -> Result<PutResult> {
        self.inner.put_opts(path, payload, PutOptions::from(PutMode::Create)).await
    }

    fn answer(&self) -> Result<()> {
        let path = String::from("p");
        match self.answers.lock().unwrap().pop_front() {
            None => Ok(()),
            Some(Answer::Fails) => Err(broken()),
            Some(Answer::Forbidden) => Err(Error::PermissionDenied { path, source: "status code: 403".into() }),
            Some(Answer::NoBucket) => Err(Error::NotFound { path, source: "status code: 404: <Code>NoSuchBucket</Code>".into() }),
        }
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}
impl fmt::Display for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

#[async_trait]
impl ObjectStore for Scripted {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.catch_up().await;
        if opts.mode != PutMode::Create {
            self.answer()?;
            return self.inner.put_opts(location, payload, opts).await;
        }
        let path = location.to_string();
        let put = self.puts.lock().unwrap().pop_front().unwrap_or(Put::Works);
        match put {
            Put::Works => self.create(location, payload).await,
            Put::FailsBefore => Err(broken()),
            Put::AppliesThenFails => {
                let _ = self.create(location, payload).await;
                Err(broken())
            }
            Put::AppliesThenExists => {
                let _ = self.create(location, payload).await;
                Err(Error::AlreadyExists { path, source: "412".into() })
            }
            Put::Conflict => Err(Error::AlreadyExists { path, source: "409".into() }),
            Put::Precondition => Err(Error::Precondition { path, source: "412".into() }),
            Put::AppliesLater => {
                self.later.lock().unwrap().push((location.clone(), payload));
                Err(broken())
            }
            Put::Rival => {
                let _ = self.create(location, PutPayload::from_static(RIVAL)).await;
                self.create(location, payload).await
            }
            Put::Forbidden => Err(Error::PermissionDenied { path, source: "403".into() }),
            Put::AppliesThenHangs => {
                let _ = self.create(location, payload).await;
                futures::future::pending().await
            }
        }
    }
    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(broken())
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.catch_up().await;
        self.answer()?;
        self.inner.get_opts(location, options).await
    }
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match self.answer() {
            Ok(()) => self.inner.delete_stream(locations),
            Err(e) => stream::once(async { Err(e) }).boxed(),
        }
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.answer() {
            Ok(()) => self.inner.list(prefix),
            Err(e) => stream::once(async { Err(e) }).boxed(),
        }
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.answer()?;
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(broken())
    }
}
