//! Stores that break one promise each, and stores that keep them all.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};

use super::*;
use crate::env::Env;
use crate::store::StoreOptions;
use crate::store::testing::Jumping;

/// Which promise is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breach {
    None,
    /// A create looks, waits a little and writes.
    LooksThenWrites,
    /// The same, in this round alone, and by two of the sixteen alone.
    LooksThenWritesOnce(usize),
    /// The condition of a create is ignored.
    Unconditional,
    /// A create that loses is told so, and replaces all the same.
    LoserReplaces,
    /// Conditional creates are not implemented.
    NoCreate,
    /// An object is listed from the second listing on.
    ListsLate,
    /// A deleted object stays listed.
    ListsDeleted,
    /// That there was nothing is remembered for one more read.
    RemembersNothing,
    /// `=` in a name becomes something else.
    BendsNames,
}

struct Bad {
    inner: InMemory,
    breach: Breach,
    creates: AtomicUsize,
    asked: Mutex<HashMap<String, usize>>,
    deleted: Mutex<Vec<ObjectMeta>>,
}

impl fmt::Debug for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bad({:?})", self.breach)
    }
}
impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bad({:?})", self.breach)
    }
}

impl Bad {
    fn key(&self, location: &Path) -> Path {
        match self.breach {
            Breach::BendsNames => Path::parse(location.as_ref().replace('=', "-")).unwrap(),
            _ => location.clone(),
        }
    }
    fn taken(path: &Path) -> StoreError {
        StoreError::AlreadyExists { path: path.to_string(), source: "412".into() }
    }
    async fn look_then_write(&self, path: &Path, payload: PutPayload) -> StoreResult<PutResult> {
        if self.inner.head(path).await.is_ok() {
            return Err(Self::taken(path));
        }
        Env::real().yield_once().await;
        self.inner.put(path, payload).await
    }
    /// So often was this asked for before.
    fn before(&self, what: String) -> usize {
        let mut asked = self.asked.lock().unwrap();
        let n = asked.entry(what).or_default();
        *n += 1;
        *n - 1
    }
    fn shown(&self, meta: &ObjectMeta) -> bool {
        self.breach != Breach::ListsLate || self.before(format!("listed {}", meta.location)) > 0
    }
}

#[async_trait]
impl ObjectStore for Bad {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> StoreResult<PutResult> {
        let path = self.key(location);
        if opts.mode != PutMode::Create {
            return self.inner.put_opts(&path, payload, opts).await;
        }
        let n = self.creates.fetch_add(1, Ordering::SeqCst);
        match self.breach {
            Breach::LooksThenWrites => self.look_then_write(&path, payload).await,
            // Two creates come before the races.
            Breach::LooksThenWritesOnce(round) if n.checked_sub(2 + 16 * round).is_some_and(|i| i < 2) => {
                self.look_then_write(&path, payload).await
            }
            Breach::Unconditional => self.inner.put(&path, payload).await,
            Breach::LoserReplaces => {
                let there = self.inner.head(&path).await.is_ok();
                let put = self.inner.put(&path, payload).await;
                if there { Err(Self::taken(&path)) } else { put }
            }
            Breach::NoCreate => Err(StoreError::NotImplemented { operation: "create".into(), implementer: "bad".into() }),
            _ => self.inner.put_opts(&path, payload, opts).await,
        }
    }
    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> StoreResult<Box<dyn MultipartUpload>> {
        Err(StoreError::NotImplemented { operation: "upload".into(), implementer: "bad".into() })
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> StoreResult<GetResult> {
        let found = self.inner.get_opts(&self.key(location), options).await;
        let n = self.before(format!("read {location}"));
        if self.breach == Breach::RemembersNothing && n == 1 && location.as_ref().contains("/read/") {
            return Err(StoreError::NotFound { path: location.to_string(), source: "404".into() });
        }
        found
    }
    fn delete_stream(&self, locations: BoxStream<'static, StoreResult<Path>>) -> BoxStream<'static, StoreResult<Path>> {
        if self.breach != Breach::ListsDeleted {
            return self.inner.delete_stream(locations);
        }
        let paths: Vec<StoreResult<Path>> = futures::executor::block_on(locations.collect());
        for path in paths.iter().flatten() {
            if let Ok(meta) = futures::executor::block_on(self.inner.head(path)) {
                self.deleted.lock().unwrap().push(meta);
            }
        }
        self.inner.delete_stream(futures::stream::iter(paths).boxed())
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        let all: Vec<_> = futures::executor::block_on(self.inner.list(prefix).collect());
        let shown: Vec<_> = all.into_iter().filter(|m| m.as_ref().is_ok_and(|m| self.shown(m))).collect();
        futures::stream::iter(shown).boxed()
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> StoreResult<ListResult> {
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        listed.objects.retain(|m| self.shown(m));
        let dir = prefix.map(|p| format!("{p}/")).unwrap_or_default();
        listed.objects.extend(self.deleted.lock().unwrap().iter().filter(|m| m.location.as_ref().starts_with(&dir)).cloned());
        Ok(listed)
    }
    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> StoreResult<()> {
        Err(StoreError::NotImplemented { operation: "copy".into(), implementer: "bad".into() })
    }
}

async fn examined(breach: Breach) -> (Vec<Check>, Arc<Bad>) {
    let objects =
        Arc::new(Bad { inner: InMemory::new(), breach, creates: AtomicUsize::new(0), asked: Mutex::default(), deleted: Mutex::default() });
    let env = Jumping::env();
    let open = || Ok(Store::over(objects.clone(), Path::from("lake"), "bad://lake", &env, StoreOptions::default()));
    let mut checks = Vec::new();
    examine(&open, &DoctorOptions::default(), &mut |check| checks.push(check), std::future::pending()).await.unwrap();
    (checks, objects)
}

fn failed(checks: &[Check]) -> Vec<&str> {
    checks.iter().filter(|c| c.health == Health::Failed).map(|c| c.name).collect()
}

#[tokio::test]
async fn a_store_that_keeps_every_promise_passes_and_is_left_as_it_was() {
    let (checks, objects) = examined(Breach::None).await;
    assert!(checks.iter().all(|c| c.health == Health::Ok), "{checks:?}");
    assert_eq!(checks.len(), 10);
    let left: Vec<_> = objects.inner.list(None).collect().await;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn each_broken_promise_is_found_by_its_check() {
    for (breach, wanted) in [
        (Breach::LooksThenWrites, &["race to create"][..]),
        (Breach::LooksThenWritesOnce(37), &["race to create"]),
        (Breach::Unconditional, &["create twice", "race to create"]),
        (Breach::LoserReplaces, &["create twice", "race to create"]),
        (Breach::NoCreate, &["create twice", "race to create", "list after delete"]),
        (Breach::ListsLate, &["list after create", "names"]),
        (Breach::ListsDeleted, &["list after delete"]),
        (Breach::RemembersNothing, &["read after create"]),
        (Breach::BendsNames, &["names"]),
    ] {
        let (checks, _) = examined(breach).await;
        assert_eq!(failed(&checks), wanted, "{breach:?}: {checks:#?}");
    }
}

#[tokio::test]
async fn sixteen_winners_of_sixteen_are_told_with_what_follows() {
    let (checks, _) = examined(Breach::LooksThenWrites).await;
    let race = checks.iter().find(|c| c.name == "race to create").unwrap();
    assert!(
        race.detail.starts_with("more than one winner in 40 of 40 rounds, up to 16 of 16; this store cannot carry exactly-once"),
        "{race:?}"
    );
}

#[tokio::test]
async fn a_local_disk_passes_and_a_location_that_was_not_there_is_not_there_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("lake/shop.db");
    let env = Env::real();
    let open = || Store::open(location.to_str().unwrap(), &env, StoreOptions::default());
    let mut checks = Vec::new();
    examine(&open, &DoctorOptions { racers: 8, rounds: 10 }, &mut |check| checks.push(check), std::future::pending()).await.unwrap();
    assert_eq!(failed(&checks), [""; 0], "{checks:#?}");
    let names: Vec<_> = checks.iter().map(|c| c.name).collect();
    assert!(names.starts_with(&["file system", "names that are never replaced", "fsync", "write and read"]), "{names:?}");
    assert!(dir.path().read_dir().unwrap().next().is_none(), "the directories that were made are gone");
}

#[tokio::test]
async fn a_file_in_the_place_of_the_directory_is_invalid_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("file");
    std::fs::write(&location, "mine").unwrap();
    let env = Env::real();
    let open = || Store::open(location.to_str().unwrap(), &env, StoreOptions::default());
    let error = examine(&open, &DoctorOptions::default(), &mut |_| {}, std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(std::fs::read(&location).unwrap(), b"mine");
}

#[tokio::test]
async fn one_racer_is_no_race() {
    let open = || panic!("nothing is opened");
    for options in [DoctorOptions { racers: 1, rounds: 40 }, DoctorOptions { racers: 16, rounds: 0 }] {
        let error = examine(&open, &options, &mut |_| {}, std::future::pending()).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
    }
}

#[tokio::test]
async fn an_examination_that_is_stopped_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().to_str().unwrap().to_owned();
    let open = || Store::open(&place, &Env::real(), StoreOptions::default());
    let stop = tokio::sync::Notify::new();
    // After the first check something has been written.
    let error = examine(&open, &DoctorOptions::default(), &mut |_| stop.notify_one(), stop.notified()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}
