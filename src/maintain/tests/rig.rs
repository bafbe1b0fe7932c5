//! A small table in memory whose objects can be edited, also at a chosen call of whoever reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use apache_avro::Codec;
use arrow::array::{Int32Array, Int64Array, RecordBatch};
use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt as _;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use serde_json::Value;

use crate::format::CommitUser;
use crate::format::paimon::manifest::{EntryKind, ManifestEntry, ManifestMeta, decode_list, decode_manifest, encode_list, encode_manifest};
use crate::format::paimon::snapshot::Snapshot;
use crate::maintain::finding::Findings;
use crate::maintain::{audit, verify};
use crate::schema::Field;
use crate::store::testing::Jumping;
use crate::store::{Store, StoreOptions};
use crate::table::{Table, TableSpec};

/// What happens to one object; none: it is removed.
pub(super) type Edit = (String, Option<Bytes>);

/// An object store in memory in which something happens just before the n-th call.
#[derive(Debug, Default)]
pub(super) struct Hooked {
    inner: InMemory,
    calls: AtomicUsize,
    at: Mutex<BTreeMap<usize, Vec<Edit>>>,
}

impl Hooked {
    async fn call(&self) {
        let n = self.calls.fetch_add(1, Ordering::SeqCst);
        let edits = self.at.lock().unwrap().remove(&n).unwrap_or_default();
        for (path, bytes) in edits {
            self.edit(&path, bytes).await;
        }
    }
    async fn edit(&self, path: &str, bytes: Option<Bytes>) {
        let path = Path::parse(format!("t/{path}")).unwrap();
        match bytes {
            Some(bytes) => drop(self.inner.put(&path, PutPayload::from(bytes)).await.unwrap()),
            None => self.inner.delete(&path).await.unwrap(),
        }
    }
}
impl fmt::Display for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooked")
    }
}

#[async_trait]
impl ObjectStore for Hooked {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, opts).await
    }
    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.call().await;
        self.inner.get_opts(location, options).await
    }
    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }
    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::executor::block_on(self.call());
        self.inner.list(prefix)
    }
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.call().await;
        self.inner.list_with_delimiter(prefix).await
    }
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// The table: partitioned by `p`, each commit adds one file of two rows.
pub(super) struct World {
    pub(super) objects: Arc<Hooked>,
    pub(super) store: Store,
}

impl World {
    pub(super) fn empty() -> World {
        let objects = Arc::new(Hooked::default());
        let store = Store::over(objects.clone(), Path::from("t"), "memory:///t", &Jumping::env(), StoreOptions::default());
        World { objects, store }
    }

    /// Snapshots 1 to 3 add a file each, 4 removes that of 1, 5 and 6 add again. Tag `two` is snapshot 2.
    pub(super) async fn six() -> World {
        let world = World::empty();
        for id in 1..=3 {
            world.commit(id).await;
        }
        world.overwrite().await;
        for id in 5..=6 {
            world.commit(id).await;
        }
        let tagged = world.get("snapshot/snapshot-2").await;
        world.put("tag/tag-two", tagged).await;
        world
    }

    pub(super) async fn commit(&self, id: i64) -> u64 {
        let fields = [("id", "BIGINT NOT NULL"), ("p", "INT")].map(|(n, t)| Field::parse(0, n, t).unwrap());
        let spec = TableSpec::paimon(fields).partition_by(["p"]);
        let table = Table::open_or_create_in(self.store.clone(), &spec).await.unwrap();
        let user = CommitUser::new("u");
        let mut write = table.new_write(&user).unwrap();
        let p = i32::try_from(id).unwrap() % 2;
        let batch = RecordBatch::try_new(
            table.schema().to_arrow(),
            vec![Arc::new(Int64Array::from(vec![id, -id])), Arc::new(Int32Array::from(vec![p, p]))],
        );
        write.write(&batch.unwrap()).await.unwrap();
        let messages = write.prepare_commit().await.unwrap();
        table.new_commit(&user).commit(id, messages).await.unwrap()
    }

    /// The next snapshot, of another writer, that removes the file of snapshot 1.
    async fn overwrite(&self) {
        let mut entry = self.added(1).await;
        entry.kind = EntryKind::Delete;
        self.snapshot_of("OVERWRITE", &[entry], -2).await;
    }

    /// The next snapshot, with these entries.
    pub(super) async fn snapshot_of(&self, kind: &str, entries: &[ManifestEntry], rows: i64) {
        let newest = *self.ids().await.last().unwrap();
        let before = self.snapshot(newest).await;
        let id = newest + 1;
        let manifest: Bytes = encode_manifest(entries, Codec::Null, [7; 16]).unwrap().into();
        let deleted = entries.iter().filter(|e| e.kind == EntryKind::Delete).count() as i64;
        let told = self.list(&self.snapshot(1).await.delta_manifest_list).await.remove(0);
        let meta = ManifestMeta {
            name: format!("manifest-by-hand-{id}-0"),
            size: manifest.len() as i64,
            added: entries.len() as i64 - deleted,
            deleted,
            ..told
        };
        self.put(&format!("manifest/{}", meta.name), manifest).await;
        let base = [self.list(&before.base_manifest_list).await, self.list(&before.delta_manifest_list).await].concat();
        let (base_name, delta_name) = (format!("manifest-list-by-hand-{id}-0"), format!("manifest-list-by-hand-{id}-1"));
        let (base, delta): (Bytes, Bytes) = (of_list(&base), of_list(&[meta]));
        let snapshot = Snapshot {
            id,
            base_manifest_list: base_name.clone(),
            base_manifest_list_size: Some(base.len() as u64),
            delta_manifest_list: delta_name.clone(),
            delta_manifest_list_size: Some(delta.len() as u64),
            commit_user: "another".to_owned(),
            commit_identifier: i64::MAX,
            commit_kind: crate::format::paimon::snapshot::CommitKind(kind.to_owned()),
            total_record_count: before.total_record_count + rows,
            delta_record_count: rows,
            ..before
        };
        self.put(&format!("manifest/{base_name}"), base).await;
        self.put(&format!("manifest/{delta_name}"), delta).await;
        self.put(&format!("snapshot/snapshot-{id}"), snapshot.encode().unwrap().into()).await;
        self.put("snapshot/LATEST", id.to_string().into()).await;
    }

    pub(super) async fn ids(&self) -> Vec<u64> {
        let listed = self.all().await;
        let mut ids: Vec<u64> = listed.keys().filter_map(|k| k.strip_prefix("snapshot/snapshot-")?.parse().ok()).collect();
        ids.sort_unstable();
        ids
    }
    pub(super) async fn get(&self, path: &str) -> Bytes {
        let path = Path::parse(format!("t/{path}")).unwrap();
        self.objects.inner.get(&path).await.unwrap().bytes().await.unwrap()
    }
    pub(super) async fn put(&self, path: &str, bytes: Bytes) {
        self.objects.edit(path, Some(bytes)).await;
    }
    pub(super) async fn remove(&self, path: &str) {
        self.objects.edit(path, None).await;
    }
    /// Every object.
    pub(super) async fn all(&self) -> BTreeMap<String, Bytes> {
        let metas: Vec<ObjectMeta> = self.objects.inner.list(None).try_collect().await.unwrap();
        let mut all = BTreeMap::new();
        for meta in metas {
            let name = meta.location.as_ref().strip_prefix("t/").unwrap().to_owned();
            let bytes = self.get(&name).await;
            all.insert(name, bytes);
        }
        all
    }

    pub(super) async fn snapshot(&self, id: u64) -> Snapshot {
        Snapshot::decode(&self.get(&format!("snapshot/snapshot-{id}")).await, id).unwrap()
    }
    /// The entry with which a snapshot's delta begins.
    pub(super) async fn added(&self, id: u64) -> ManifestEntry {
        let name = self.manifest_of(id).await;
        decode_manifest(&self.get(&name).await).unwrap().remove(0)
    }
    /// Path of the data file that it adds.
    pub(super) async fn file_of(&self, id: u64) -> String {
        format!("p={}/bucket-0/{}", id % 2, self.added(id).await.file.name)
    }
    /// Path of its delta's manifest.
    pub(super) async fn manifest_of(&self, id: u64) -> String {
        format!("manifest/{}", self.list(&self.snapshot(id).await.delta_manifest_list).await[0].name)
    }
    /// Path of its delta list.
    pub(super) async fn delta_of(&self, id: u64) -> String {
        format!("manifest/{}", self.snapshot(id).await.delta_manifest_list)
    }
    pub(super) async fn list(&self, name: &str) -> Vec<ManifestMeta> {
        decode_list(&self.get(&format!("manifest/{name}")).await).unwrap()
    }

    pub(super) async fn edit_json(&self, path: &str, edit: impl FnOnce(&mut Value)) {
        let mut value: Value = serde_json::from_slice(&self.get(path).await).unwrap();
        edit(&mut value);
        self.put(path, value.to_string().into()).await;
    }
    /// Changes the entries of a snapshot's manifest, and everything that knows of its size.
    pub(super) async fn edit_manifest(&self, id: u64, edit: impl FnOnce(&mut Vec<ManifestEntry>)) {
        let path = self.manifest_of(id).await;
        let mut entries = decode_manifest(&self.get(&path).await).unwrap();
        edit(&mut entries);
        let bytes: Bytes = encode_manifest(&entries, Codec::Null, [7; 16]).unwrap().into();
        let (name, size) = (path.rsplit('/').next().unwrap().to_owned(), bytes.len() as i64);
        self.put(&path, bytes).await;
        self.edit_lists(|meta| {
            if meta.name == name {
                meta.size = size;
            }
        })
        .await;
    }
    /// Changes what all lists say of manifests, and what snapshots and tags say of the lists.
    pub(super) async fn edit_lists(&self, mut edit: impl FnMut(&mut ManifestMeta)) {
        let mut sizes = BTreeMap::new();
        let all = self.all().await;
        for (path, bytes) in all.iter().filter(|(p, _)| p.starts_with("manifest/manifest-list-")) {
            let mut metas = decode_list(bytes).unwrap();
            metas.iter_mut().for_each(&mut edit);
            let bytes = of_list(&metas);
            sizes.insert(path.strip_prefix("manifest/").unwrap().to_owned(), bytes.len());
            self.put(path, bytes).await;
        }
        for path in all.keys().filter(|p| p.starts_with("snapshot/snapshot-") || p.starts_with("tag/")) {
            self.edit_json(path, |v| {
                for which in ["base", "delta"] {
                    let name = v[format!("{which}ManifestList")].as_str().unwrap().to_owned();
                    v[format!("{which}ManifestListSize")] = sizes[&name].into();
                }
            })
            .await;
        }
    }

    /// These happen just before the n-th call from now on, by n.
    pub(super) fn at(&self, edits: impl IntoIterator<Item = (usize, Vec<Edit>)>) {
        self.objects.calls.store(0, Ordering::SeqCst);
        *self.objects.at.lock().unwrap() = edits.into_iter().collect();
    }
    pub(super) fn calls(&self) -> usize {
        self.objects.calls.load(Ordering::SeqCst)
    }

    pub(super) async fn verify(&self) -> Findings {
        verify::verify(&self.store, false).await.unwrap().findings
    }
    pub(super) async fn audit(&self) -> Findings {
        audit::audit(&self.store, None).await.unwrap().findings
    }
}

fn of_list(metas: &[ManifestMeta]) -> Bytes {
    encode_list(metas, Codec::Null, [9; 16]).unwrap().into()
}

/// Findings in short.
pub(super) fn texts(findings: &Findings) -> Vec<String> {
    findings.list().iter().map(|f| format!("{}: {}: {}", f.check, f.at, f.what)).collect()
}
