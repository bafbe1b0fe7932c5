//! What one commit asks of the store, call by call.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};

use super::tests::{head, one, publish_staged, table_in, user};
use super::*;
use crate::env::Env;
use crate::store::StoreOptions;

#[derive(Debug, Default)]
struct Recording {
    inner: InMemory,
    calls: Mutex<Vec<String>>,
}

impl Recording {
    /// Uuids are cut off.
    fn note(&self, call: &str, path: &Path) {
        let name = path.as_ref().trim_start_matches("t/");
        let short = name.find("manifest/manifest-").map_or(name, |_| if name.contains("list") { "list" } else { "manifest" });
        self.calls.lock().unwrap().push(format!("{call} {short}"));
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recording")
    }
}

#[async_trait]
impl ObjectStore for Recording {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.note("PUT", location);
        self.inner.put_opts(location, payload, opts).await
    }
    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.note(if options.head { "HEAD" } else { "GET" }, location);
        self.inner.get_opts(location, options).await
    }
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.note("LIST", prefix.unwrap_or(&Path::default()));
        self.inner.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.note("LIST", prefix.unwrap_or(&Path::default()));
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

async fn commit(log: &PaimonLog, identifier: i64, after: &Head) -> Head {
    let before = log.head(Some(&user("u")), None, Some(after)).await.unwrap();
    let staged = log.stage(&before, &one("u", identifier), &mut Work::default()).await.unwrap();
    assert!(publish_staged(log, &staged).await);
    assert_eq!(log.confirm(&before, &staged).await.unwrap(), Standing::In);
    before
}

#[tokio::test]
async fn a_steady_commit_reads_three_objects_and_lists_nothing() {
    let objects = Arc::new(Recording::default());
    let store = Store::over(objects.clone(), Path::from("t"), "memory:///t", &Env::real(), StoreOptions::default());
    let log = table_in(&store, &[("id", "BIGINT")], &[]).await;
    let mut last = head(&log).await;
    for i in 1..=3 {
        last = commit(&log, i, &last).await;
        log.pin(&user("u"), 1).await.unwrap();
    }
    objects.calls.lock().unwrap().clear();
    last = commit(&log, 4, &last).await;
    let mut calls = std::mem::take(&mut *objects.calls.lock().unwrap());
    calls[2..5].sort(); // the uploads run side by side
    let steady = |n: u64| {
        let read = [format!("GET snapshot/snapshot-{n}"), "GET schema/schema-1".into()];
        let wrote = ["PUT list".into(), "PUT list".into(), "PUT manifest".into(), format!("PUT snapshot/snapshot-{}", n + 1)];
        read.into_iter().chain(wrote).chain([format!("GET snapshot/snapshot-{n}")]).collect::<Vec<String>>()
    };
    let mut want = steady(3);
    want.push("PUT snapshot/LATEST".into());
    assert_eq!(calls, want);

    // Without a pin: it looks above and below, and still lists nothing.
    log.unpin(&user("u")).await.unwrap();
    objects.calls.lock().unwrap().clear();
    commit(&log, 5, &last).await;
    let mut calls = std::mem::take(&mut *objects.calls.lock().unwrap());
    calls[2..5].sort();
    let mut want = steady(4);
    want.extend(["HEAD snapshot/snapshot-6".into(), "HEAD snapshot/snapshot-3".into(), "PUT snapshot/LATEST".into()]);
    assert_eq!(calls, want);
}

#[tokio::test]
async fn a_commit_that_merges_writes_one_manifest_more_and_reads_none_of_its_own() {
    let objects = Arc::new(Recording::default());
    let store = Store::over(objects.clone(), Path::from("t"), "memory:///t", &Env::real(), StoreOptions::default());
    let log = table_in(&store, &[("id", "BIGINT")], &[]).await;
    let mut last = head(&log).await;
    for i in 1..=30 {
        last = commit(&log, i, &last).await;
        log.pin(&user("u"), 1).await.unwrap();
    }
    let count = |what: &str| objects.calls.lock().unwrap().iter().filter(|c| *c == what).count();
    // Due; not due; and due for another process, which has to read them once.
    for (merges, reads) in [(1, 0), (0, 0), (1, 30)] {
        if reads > 0 {
            for i in 33..=59 {
                last = commit(&log, i, &last).await;
            }
        }
        let log = if reads > 0 { &PaimonLog::open(&store).await.unwrap() } else { &log };
        objects.calls.lock().unwrap().clear();
        last = commit(log, 31, &last).await;
        assert_eq!((count("PUT manifest"), count("PUT list"), count("GET manifest")), (1 + merges, 2, reads));
    }
}

#[tokio::test]
async fn a_file_that_is_looked_for_costs_the_manifests_that_may_hold_it() {
    let objects = Arc::new(Recording::default());
    let store = Store::over(objects.clone(), Path::from("t"), "memory:///t", &Env::real(), StoreOptions::default());
    let log = table_in(&store, &[("id", "BIGINT"), ("dt", "INT")], &["dt"]).await;
    let mut paths = Vec::new();
    for day in 1..=8 {
        let Change::Append(mut c) = one("u", day) else { panic!() };
        c.messages[0].partition = vec![Some(crate::schema::Scalar::Int(day))];
        c.messages[0].files[0].path = format!("dt={day}/{}", c.messages[0].files[0].path);
        paths.push(c.messages[0].files[0].path.clone());
        let before = head(&log).await;
        let staged = log.stage(&before, &Change::Append(c), &mut Work::default()).await.unwrap();
        assert!(publish_staged(&log, &staged).await);
    }
    let newest = head(&log).await;
    let absent = |day: i64| format!("dt={day}/bucket-0/data-none-0.parquet");
    for (wanted, found, manifests) in [
        (vec![paths[7].clone()], true, 1),
        (vec![paths[2].clone()], true, 1),
        (vec![absent(5), paths[6].clone()], true, 1),
        (vec![absent(5)], false, 1),
        (vec![absent(3), absent(4)], false, 2),
        (vec![absent(9)], false, 0),
        (vec!["dt=2/bucket-1/x".into()], false, 0),
        (vec!["elsewhere".into()], false, 8),
    ] {
        objects.calls.lock().unwrap().clear();
        assert_eq!(log.any_live(&newest, &wanted).await.unwrap(), found, "{wanted:?}");
        let read = objects.calls.lock().unwrap().iter().filter(|c| *c == "GET manifest").count();
        assert_eq!(read, manifests, "{wanted:?}");
    }
}
