//! A clock that jumps, and the store as one process sees it: each call gives the others a turn, and each write may be its last.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};
use uuid::Uuid;

pub(super) struct Clock {
    pub(super) micros: AtomicU64,
    /// Added to the wall clock alone, milliseconds.
    pub(super) skew: AtomicI64,
}

static IDS: AtomicU64 = AtomicU64::new(1);

#[async_trait]
impl crate::env::World for Clock {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000 + i64::try_from(self.micros.load(Ordering::SeqCst) / 1000).unwrap() + self.skew.load(Ordering::SeqCst)
    }
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::SeqCst))
    }
    async fn sleep(&self, time: Duration) {
        self.micros.fetch_add(u64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
        turn().await;
    }
    fn uuid(&self) -> Uuid {
        Uuid::from_u128(0xabcd_0000_0000_0000_0000_0000_0000_0000 | u128::from(IDS.fetch_add(1, Ordering::SeqCst)))
    }
    fn threads(&self) -> bool {
        false
    }
}

/// Gives the other process a turn.
pub(super) async fn turn() {
    let mut first = true;
    std::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// One process, as its store sees it.
#[derive(Default)]
pub(in super::super) struct Life {
    /// Writes and deletes so far.
    pub(in super::super) writes: AtomicU64,
    /// Dies at this write; true: it takes effect first.
    pub(in super::super) die: Mutex<Option<(u64, bool)>>,
    /// Dies when this event is told.
    pub(in super::super) dead: AtomicBool,
    pub(in super::super) log: Mutex<Vec<String>>,
}

impl Life {
    pub(in super::super) fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }
    pub(in super::super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }
}

/// The store of one process.
pub(super) struct LifeStore {
    pub(super) inner: Arc<InMemory>,
    pub(super) life: Arc<Life>,
}

impl LifeStore {
    async fn read(&self) {
        turn().await;
        if self.life.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}

/// One write: before it, and after it.
async fn writing<T>(life: &Life, what: String, work: impl Future<Output = T>) -> T {
    turn().await;
    let n = life.writes.fetch_add(1, Ordering::SeqCst);
    let die = life.die.lock().unwrap().filter(|(at, _)| *at == n);
    if die.is_some_and(|(_, after)| !after) {
        life.kill();
    }
    if life.is_dead() {
        std::future::pending::<()>().await;
    }
    life.log.lock().unwrap().push(what);
    let done = work.await;
    if die.is_some() {
        life.kill();
        std::future::pending::<()>().await;
    }
    done
}

impl fmt::Debug for LifeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LifeStore")
    }
}
impl fmt::Display for LifeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LifeStore")
    }
}

#[async_trait]
impl ObjectStore for LifeStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> object_store::Result<PutResult> {
        let what = format!("{} {location}", if opts.mode == PutMode::Create { "create" } else { "put" });
        writing(&self.life, what, self.inner.put_opts(location, payload, opts)).await
    }
    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> object_store::Result<Box<dyn MultipartUpload>> {
        Err(object_store::Error::NotImplemented { operation: "multipart".into(), implementer: "test".into() })
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.read().await;
        self.inner.get_opts(location, options).await
    }
    fn delete_stream(&self, locations: BoxStream<'static, object_store::Result<Path>>) -> BoxStream<'static, object_store::Result<Path>> {
        let (inner, life) = (self.inner.clone(), self.life.clone());
        let delete = move |location: object_store::Result<Path>| {
            let (inner, life) = (inner.clone(), life.clone());
            async move {
                let location = location?;
                writing(&life, format!("delete {location}"), inner.delete(&location)).await?;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.read().await;
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        Err(object_store::Error::NotImplemented { operation: "copy".into(), implementer: "test".into() })
    }
}
