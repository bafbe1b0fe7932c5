use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path as FsPath;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;

use super::crash::{CrashDisk, Loss};
use super::testing::{Answer, Jumping, Scripted};
use super::{DiskObserver, DiskOp, Durability, Store, StoreOptions};
use crate::error::{Kind, Result};

fn open(location: &str) -> Store {
    Store::open(location, &Jumping::env(), StoreOptions::default()).unwrap()
}

fn local(root: &FsPath, options: StoreOptions) -> Store {
    Store::open(root.to_str().unwrap(), &Jumping::env(), options).unwrap()
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

async fn names(store: &Store, dir: &str) -> Vec<String> {
    store.list(dir).await.unwrap().into_iter().map(|e| e.name).collect()
}

/// One local and one memory store, for what must not differ.
fn both(name: &str) -> (tempfile::TempDir, [Store; 2]) {
    let root = tempfile::tempdir().unwrap();
    let stores = [local(root.path(), StoreOptions::default()), open(&format!("memory://{name}/dir"))];
    (root, stores)
}

#[test]
fn one_place_has_one_spelling() {
    let here = std::env::current_dir().unwrap();
    let here = here.to_str().unwrap();
    for (text, url) in [
        ("/a/b/", "/a/b"),
        ("/a/./b/../c//d", "/a/c/d"),
        ("file:///a/b/", "/a/b"),
        ("file:///a%20b/%C3%A9", "/a b/é"),
        ("/", "/"),
        ("lake/t", &format!("{here}/lake/t")),
        ("./lake/../t", &format!("{here}/t")),
        ("memory://m/a/b/", "memory://m/a/b"),
        ("memory://m", "memory://m"),
    ] {
        assert_eq!(open(text).url(), url, "{text}");
    }
}

#[test]
fn remote_locations_open_without_a_request() {
    // The builders read the environment of the test run; an endpoint over http without leave is the one thing that could refuse.
    for (text, url) in [
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("s3://bucket", "s3://bucket"),
        ("gs://bucket/a b%2F/", "gs://bucket/a b%2F"),
        ("abfss://container@account.dfs.core.windows.net/a/", "abfss://container@account.dfs.core.windows.net/a"),
    ] {
        let store = Store::open(text, &Jumping::env(), StoreOptions::default()).unwrap();
        assert_eq!(store.url(), url);
        assert!(!store.is_local());
    }
}

#[test]
fn a_location_that_cannot_be_is_invalid_and_says_what_to_write() {
    for text in ["", "ftp://host/a", "s3:///a", "s3://b/a?x=1", "s3://b/a/../c", "s3://b//a", "file://host/a", "memory:///a"] {
        let error = Store::open(text, &Jumping::env(), StoreOptions::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{text}");
        assert!(error.next_step().is_some(), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_named_memory_store_is_one_for_the_process() {
    open("memory://shared/a").put("b/n", bytes("x")).await.unwrap();
    assert_eq!(open("memory://shared").get("a/b/n").await.unwrap(), Some(bytes("x")));
    assert_eq!(open("memory://other").get("a/b/n").await.unwrap(), None);
}

#[test]
fn two_paths_to_one_directory_have_one_physical_url() {
    let root = tempfile::tempdir().unwrap();
    let real = root.path().canonicalize().unwrap();
    fs::create_dir(real.join("t")).unwrap();
    std::os::unix::fs::symlink(real.join("t"), real.join("l")).unwrap();
    let physical = |name: &str| local(&real.join(name), StoreOptions::default()).physical_url().unwrap();
    assert_eq!(physical("l"), physical("t"));
    assert_eq!(physical("l/not/yet"), physical("t/not/yet"));
    assert_ne!(local(&real.join("l"), StoreOptions::default()).url(), physical("l"), "the url keeps the link");
}

#[tokio::test]
async fn what_is_written_is_read_back_listed_and_deleted_alike_on_every_store() {
    let (_root, stores) = both("alike");
    for store in stores {
        let odd = "p/dt=a%2Fb c=ü/x.parquet";
        store.put_new(odd, bytes("0123456789")).await.unwrap();
        store.put("p/hint", bytes("1")).await.unwrap();
        store.put("p/hint", bytes("22")).await.unwrap();
        assert_eq!(store.get("p/hint").await.unwrap(), Some(bytes("22")), "{store:?}");
        assert_eq!(store.get(odd).await.unwrap(), Some(bytes("0123456789")), "{store:?}");
        assert_eq!(store.get_range(odd, 2..5).await.unwrap(), Some(bytes("234")));
        assert_eq!(store.get_range(odd, 0..0).await.unwrap(), Some(bytes("")));
        assert_eq!(store.size(odd).await.unwrap(), Some(10));
        assert_eq!(names(&store, "p").await, ["hint"]);
        let all: Vec<_> = store.list_all("").await.unwrap().into_iter().map(|e| (e.name, e.size)).collect();
        assert_eq!(all, [(odd.to_owned(), 10), ("p/hint".to_owned(), 2)]);
        let child = store.child("p").unwrap();
        assert_eq!(child.url(), format!("{}/p", store.url()));
        assert_eq!(child.get("hint").await.unwrap(), Some(bytes("22")));
        store.settle("p/hint").await.unwrap();
        store.delete("p/hint").await.unwrap();
        store.delete("p/hint").await.unwrap();
        for absent in ["p/hint", "p", "no/such"] {
            assert_eq!(store.get_range(absent, 0..1).await.unwrap(), None, "{absent} of {store:?}");
            assert_eq!(store.get(absent).await.unwrap(), None, "{absent} of {store:?}");
            assert_eq!(store.size(absent).await.unwrap(), None, "{absent} of {store:?}");
        }
        assert!(store.list("no/such").await.unwrap().is_empty() && store.list_all("no").await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_listing_after_a_name_has_the_greater_names_of_that_directory_only() {
    let (_root, stores) = both("after");
    for store in stores {
        for name in ["l/1.json", "l/2.json", "l/3.json", "l/_s/9", "m/4.json"] {
            store.put(name, bytes("")).await.unwrap();
        }
        let after = |name: &'static str| {
            let store = store.clone();
            async move { store.list_after("l", name).await.unwrap().into_iter().map(|e| e.name).collect::<Vec<_>>() }
        };
        assert_eq!(after("2").await, ["2.json", "3.json"], "{store:?}");
        assert_eq!(after("2.json").await, ["3.json"], "{store:?}");
        assert!(after("3.json").await.is_empty() && store.list_after("no/such", "1").await.unwrap().is_empty(), "{store:?}");
    }
}

#[tokio::test]
async fn a_range_past_the_end_is_data() {
    let (_root, stores) = both("ranges");
    for store in stores {
        store.put("n", bytes("0123")).await.unwrap();
        for range in [2..5, 4..5, 9..12] {
            let error = store.get_range("n", range).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Data, "{store:?}: {error}");
        }
    }
}

#[tokio::test]
async fn names_that_would_leave_the_directory_are_invalid() {
    let (_root, stores) = both("names");
    for store in stores {
        for name in ["../x", "a/../../x", "a//b", "/x", "./x", "a\nb", "a\0b"] {
            assert_eq!(store.put(name, bytes("x")).await.unwrap_err().kind(), Kind::Invalid, "{name:?}");
            assert_eq!(store.get(name).await.unwrap_err().kind(), Kind::Invalid, "{name:?}");
            assert_eq!(store.upload(name).await.unwrap_err().kind(), Kind::Invalid, "{name:?}");
        }
    }
}

#[tokio::test]
async fn an_upload_is_whole_whatever_its_pieces() {
    let (_root, stores) = both("uploads");
    for store in stores {
        for (name, pieces) in
            [("none", vec![]), ("small", vec![1, 0, 100]), ("big", vec![5 << 20, 9 << 20, 3, 8 << 20]), ("exact", vec![8 << 20])]
        {
            let mut upload = store.upload(name).await.unwrap();
            let mut expected = Vec::new();
            for (i, length) in pieces.into_iter().enumerate() {
                let piece = vec![u8::try_from(i).unwrap() + 1; length];
                expected.extend_from_slice(&piece);
                upload.write(Bytes::from(piece)).await.unwrap();
            }
            assert_eq!(upload.size(), expected.len() as u64);
            assert_eq!(upload.finish().await.unwrap(), expected.len() as u64);
            assert!(store.get(name).await.unwrap().unwrap() == expected, "{name} on {store:?}");
        }
        let mut upload = store.upload("dropped").await.unwrap();
        upload.write(Bytes::from(vec![1; 9 << 20])).await.unwrap();
        upload.abort().await;
        assert_eq!(store.get("dropped").await.unwrap(), None, "{store:?}");
    }
}

#[tokio::test]
async fn on_local_disk_the_file_of_an_upload_exists_from_the_start() {
    let root = tempfile::tempdir().unwrap();
    let store = local(root.path(), StoreOptions::default());
    let upload = store.upload("b/f").await.unwrap();
    assert!(root.path().join("b/f").exists());
    assert_eq!(store.upload("b/f").await.unwrap_err().kind(), Kind::Invalid, "a name is used once");
    drop(upload);
}

#[tokio::test]
async fn listing_skips_staged_files_and_names_that_are_not_utf8_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let not_utf8 = std::ffi::OsStr::from_bytes(b"x\xff");
    for name in [".n.0c9d.tmp".as_ref(), ".hidden".as_ref(), "n.tmp".as_ref(), "n".as_ref(), not_utf8] {
        fs::write(root.path().join(name), "").unwrap();
    }
    std::os::unix::fs::symlink("gone", root.path().join("dangling")).unwrap();
    std::os::unix::fs::symlink("loop", root.path().join("loop")).unwrap();
    let pipe = root.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    let store = local(root.path(), StoreOptions::default());
    assert_eq!(names(&store, "").await, [".hidden", "n", "n.tmp"]);
    assert_eq!(store.get("pipe").await.unwrap(), Some(bytes("")), "nobody waits for a writer");
}

/// A store over a script, and what it told about retries.
fn scripted(answers: &[Answer], patience: Duration) -> (Arc<Scripted>, Store, Arc<Mutex<Vec<String>>>) {
    let objects = Scripted::new(&[], answers);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ears = heard.clone();
    let on_retry = Arc::new(move |what: &str, attempt: u32, error: &str| {
        assert!(error.contains("503"), "{error}");
        ears.lock().unwrap().push(format!("{what} {attempt}"));
    });
    let options = StoreOptions { patience, on_retry: Some(on_retry), ..StoreOptions::default() };
    let store = Store::over(objects.clone(), Path::from("r"), "memory://scripted/", &Jumping::env(), options);
    (objects, store, heard)
}

/// Every call that is retried here, by number; its own result is of no interest.
async fn call(store: &Store, number: usize) -> Result<()> {
    match number {
        0 => store.get("n").await.map(drop),
        1 => store.size("n").await.map(drop),
        2 => store.get_range("n", 0..1).await.map(drop),
        3 => store.list("").await.map(drop),
        4 => store.list_all("").await.map(drop),
        5 => store.put("n", bytes("x")).await,
        6 => store.put_new("n", bytes("x")).await,
        7 => store.delete("n").await,
        _ => store.upload("n").await?.finish().await.map(drop),
    }
}

#[tokio::test]
async fn every_repeatable_call_is_tried_again_until_it_works_and_says_so() {
    for number in 0..9 {
        let (_, store, heard) = scripted(&[Answer::Fails; 3], Duration::from_secs(60));
        call(&store, number).await.unwrap();
        let heard = heard.lock().unwrap();
        assert_eq!(heard.len(), 3, "call {number}: {heard:?}");
        assert!(heard[2].contains("memory://scripted") && heard[2].ends_with(" 3"), "call {number}: {heard:?}");
    }
}

#[tokio::test]
async fn patience_ends_with_unavailable_that_says_what_where_and_how_long() {
    for number in 0..9 {
        let (_, store, _) = scripted(&[Answer::Fails; 1000], Duration::from_secs(60));
        let error = call(&store, number).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable, "call {number}");
        let text = error.to_string();
        assert!(text.starts_with("memory://scripted") && text.contains("tries in 60") && text.contains("503"), "call {number}: {text}");
        assert!(error.next_step().is_some());
    }
}

#[tokio::test]
async fn a_definite_no_is_invalid_at_once_and_never_absent() {
    for number in 0..9 {
        for answer in [Answer::Forbidden, Answer::NoBucket] {
            let (_, store, heard) = scripted(&[answer], Duration::from_secs(60));
            let error = call(&store, number).await.unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "call {number}: {error}");
            assert!(heard.lock().unwrap().is_empty(), "call {number} was tried again");
        }
    }
}

/// Fails the steps that a test picks with one errno, a number of times.
struct Faulty {
    errno: i32,
    times: Mutex<u32>,
    picks: fn(&DiskOp<'_>) -> bool,
    seen: Mutex<Vec<String>>,
}

impl Faulty {
    fn new(errno: i32, times: u32, picks: fn(&DiskOp<'_>) -> bool) -> Arc<Self> {
        Arc::new(Faulty { errno, times: Mutex::new(times), picks, seen: Mutex::default() })
    }
    fn options(self: &Arc<Self>) -> StoreOptions {
        StoreOptions { disk: Some(self.clone()), patience: Duration::from_secs(20), ..StoreOptions::default() }
    }
}

impl DiskObserver for Faulty {
    fn before(&self, op: &DiskOp<'_>) -> io::Result<()> {
        let mut times = self.times.lock().unwrap();
        if *times > 0 && (self.picks)(op) {
            *times -= 1;
            return Err(io::Error::from_raw_os_error(self.errno));
        }
        Ok(())
    }
    fn after(&self, op: &DiskOp<'_>) {
        self.seen.lock().unwrap().push(format!("{op:?}"));
    }
}

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EROFS: i32 = 30;
const EPERM: i32 = 1;
const EINVAL: i32 = 22;

#[tokio::test]
async fn a_full_or_read_only_disk_is_waited_for() {
    for errno in [ENOSPC, EROFS, EIO] {
        let root = tempfile::tempdir().unwrap();
        let faulty = Faulty::new(errno, 3, |op| matches!(op, DiskOp::Write { .. } | DiskOp::CreateFile(_)));
        let store = local(root.path(), faulty.options());
        for (n, name) in ["a", "b", "c"].into_iter().enumerate() {
            *faulty.times.lock().unwrap() = 3;
            match n {
                0 => store.put_new(name, bytes("whole")).await.unwrap(),
                1 => store.put(name, bytes("whole")).await.unwrap(),
                _ => {
                    let mut upload = store.upload(name).await.unwrap();
                    *faulty.times.lock().unwrap() = 3;
                    upload.write(bytes("who")).await.unwrap();
                    *faulty.times.lock().unwrap() = 3;
                    upload.write(bytes("le")).await.unwrap();
                    upload.finish().await.unwrap();
                }
            }
            assert_eq!(*faulty.times.lock().unwrap(), 0, "the fault did happen");
            assert_eq!(store.get(name).await.unwrap(), Some(bytes("whole")));
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3, "no staged file is left");
        *faulty.times.lock().unwrap() = u32::MAX;
        let error = store.put_new("d", bytes("x")).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().contains(root.path().to_str().unwrap()), "{error}");
    }
}

#[tokio::test]
async fn an_upload_whose_fsync_failed_is_lost_and_not_fsynced_again() {
    let root = tempfile::tempdir().unwrap();
    let faulty = Faulty::new(EIO, 1, |op| matches!(op, DiskOp::SyncFile(_)));
    let store = local(root.path(), faulty.options());
    let mut upload = store.upload("n").await.unwrap();
    upload.write(bytes("x")).await.unwrap();
    assert_eq!(upload.finish().await.unwrap_err().kind(), Kind::Unavailable);
    assert!(!faulty.seen.lock().unwrap().iter().any(|op| op.starts_with("SyncFile")), "a second fsync would have said yes");
    *faulty.times.lock().unwrap() = 1;
    assert_eq!(store.settle("n").await.unwrap_err().kind(), Kind::Unavailable, "nor is what was found settled twice");
}

#[tokio::test]
async fn without_hard_links_a_create_renames_without_replacing() {
    let root = tempfile::tempdir().unwrap();
    let faulty = Faulty::new(EPERM, u32::MAX, |op| matches!(op, DiskOp::Link { .. }));
    let store = local(root.path(), faulty.options());
    store.create("n", bytes("first")).await.unwrap();
    let failure = store.create("n", bytes("second")).await.unwrap_err();
    assert_eq!(failure.verdict, super::Verdict::Exists);
    assert_eq!(store.get("n").await.unwrap(), Some(bytes("first")));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "no staged file is left");
}

#[tokio::test]
async fn a_file_system_without_a_conditional_create_is_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let faulty = Faulty::new(EINVAL, u32::MAX, |op| matches!(op, DiskOp::Rename { .. }));
    struct Both(Arc<Faulty>, Arc<Faulty>);
    impl DiskObserver for Both {
        fn before(&self, op: &DiskOp<'_>) -> io::Result<()> {
            self.0.before(op)?;
            self.1.before(op)
        }
        fn after(&self, _: &DiskOp<'_>) {}
    }
    let no_links = Faulty::new(EPERM, u32::MAX, |op| matches!(op, DiskOp::Link { .. }));
    let options = StoreOptions { disk: Some(Arc::new(Both(no_links, faulty))), ..StoreOptions::default() };
    let failure = local(root.path(), options).create("n", bytes("x")).await.unwrap_err();
    assert_eq!(failure.verdict, super::Verdict::Refused);
    assert!(failure.error.to_string().contains("file system ("), "{}", failure.error);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn durability_none_never_fsyncs() {
    let root = tempfile::tempdir().unwrap();
    let faulty = Faulty::new(EIO, 0, |_| false);
    let store = local(root.path(), StoreOptions { durability: Durability::None, ..faulty.options() });
    store.create("a/n", bytes("x")).await.unwrap();
    call(&store, 5).await.unwrap();
    store.upload("u").await.unwrap().finish().await.unwrap();
    store.settle("a/n").await.unwrap();
    let seen = faulty.seen.lock().unwrap();
    assert!(seen.len() > 5 && !seen.iter().any(|op| op.starts_with("Sync")), "{seen:?}");
}

/// A small life: returns what was acknowledged, as (name, content), and which deletions were.
async fn life(store: &Store) -> (Vec<(&'static str, &'static str)>, BTreeSet<&'static str>) {
    let (mut written, mut deleted) = (Vec::new(), BTreeSet::new());
    if store.put_new("b/new", bytes("new")).await.is_ok() {
        written.push(("b/new", "new"));
    }
    let uploaded = async {
        let mut upload = store.upload("b/deep/up").await?;
        upload.write(bytes("up")).await?;
        upload.write(bytes("load")).await?;
        upload.finish().await
    };
    if uploaded.await.is_ok() {
        written.push(("b/deep/up", "upload"));
    }
    let many = [("b/m/1", "one"), ("b/m/2", "two"), ("b/n/3", "three")];
    if store.put_new_all(many.iter().map(|(name, content)| ((*name).to_owned(), bytes(content))).collect()).await.is_ok() {
        written.extend(many);
    }
    for content in ["hint 1", "hint 2"] {
        if store.put("hint", bytes(content)).await.is_ok() {
            written.retain(|(name, _)| *name != "hint");
            written.push(("hint", content));
        }
    }
    if store.delete("b/new").await.is_ok() && !written.is_empty() {
        written.retain(|(name, _)| *name != "b/new");
        deleted.insert("b/new");
    }
    (written, deleted)
}

#[tokio::test]
async fn after_a_power_cut_at_any_step_what_was_acknowledged_is_there_and_a_hint_is_never_torn() {
    for loss in [Loss::All, Loss::Contents, Loss::Names, Loss::Some(7), Loss::Some(8), Loss::Some(9)] {
        let mut step = 0;
        loop {
            let root = tempfile::tempdir().unwrap();
            let disk = CrashDisk::stopping_at(step);
            let options = StoreOptions { patience: Duration::ZERO, disk: Some(disk.clone()), ..StoreOptions::default() };
            let store = local(&root.path().join("t"), options);
            let (written, deleted) = life(&store).await;
            disk.forget_unsynced(loss).unwrap();
            let read = |name: &str| fs::read_to_string(root.path().join("t").join(name));
            for (name, content) in written {
                let found = read(name);
                let later = name == "hint" && matches!(found.as_deref(), Ok("hint 2"));
                let gone = name == "b/new" && disk.is_dead() && found.is_err();
                assert!(
                    later || gone || found.as_deref().ok() == Some(content),
                    "step {step}, {loss:?}: {name} is {found:?}: {:#?}",
                    disk.log()
                );
            }
            for name in deleted {
                assert!(read(name).is_err(), "step {step}, {loss:?}: {name} is back");
            }
            if let Ok(hint) = read("hint") {
                assert!(["hint 1", "hint 2"].contains(&hint.as_str()), "step {step}, {loss:?}: {hint:?}");
            }
            if !disk.is_dead() {
                break;
            }
            step += 1;
        }
        assert!(step > 20, "only {step} steps");
    }
}

#[test]
fn the_crash_disk_forgets_what_was_never_synced() {
    let root = tempfile::tempdir().unwrap();
    let disk = CrashDisk::new();
    fs::write(root.path().join("old"), "old").unwrap();
    let steps = super::disk::Disk::new(Durability::Fsync, Some(disk.clone()));
    let at = |name: &str| root.path().join(name);
    let write = |name: &str, synced: bool| {
        let mut file = steps.create_file(&at(name), true).unwrap();
        steps.write_all(&mut file, &at(name), b"content").unwrap();
        if synced {
            steps.sync_file(&file, &at(name)).unwrap();
        }
    };
    write("named", false);
    write("whole", true);
    steps.make_dir(&at("dir")).unwrap();
    steps.sync_dir(root.path()).unwrap();
    write("lost", true);
    write("dir/lost", true);
    steps.make_dir(&at("lostdir")).unwrap();
    write("lostdir/x", true);
    steps.rename(&at("whole"), &at("old")).unwrap();
    steps.unlink(&at("named")).unwrap();
    disk.forget_unsynced(Loss::All).unwrap();
    let read = |name: &str| fs::read_to_string(at(name)).ok();
    assert_eq!(read("named").as_deref(), Some(""), "a synced name, unsynced content; its removal is undone");
    assert_eq!(read("whole").as_deref(), Some("content"), "the rename is undone");
    assert_eq!(read("old").as_deref(), Some("old"), "what the rename replaced is back");
    assert!(at("dir").is_dir());
    for gone in ["lost", "dir/lost", "lostdir"] {
        assert!(!at(gone).exists(), "{gone}");
    }
}
