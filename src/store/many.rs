//! Many new objects at once.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use super::failure::Retry;
use super::local::LocalDir;
use super::{Backend, Store};
use crate::error::Result;

/// So many objects are put at once, and so many files and directories are synced at once.
const AT_ONCE: usize = 8;

/// Files and directories of this machine whose names or bytes are not durable yet.
#[derive(Default)]
pub(super) struct Unsynced {
    /// Each with its name.
    pub(super) files: Vec<(File, String)>,
    /// To be synced for the names in them.
    pub(super) dirs: BTreeSet<PathBuf>,
    /// Have durable names afterwards.
    pub(super) settled: BTreeSet<PathBuf>,
}

impl Store {
    /// [`Store::put_new`] of many objects: all are durable when it returns, in no order. On local disk everything is written first and
    /// synced then, which costs a few journal commits where one after the other costs a few for each.
    pub async fn put_new_all(&self, objects: Vec<(String, Bytes)>) -> Result<()> {
        match &self.backend {
            Backend::Disk(dir) => self.put_files(dir, objects).await,
            Backend::Objects { .. } => {
                let puts = futures::stream::iter(objects).map(|(name, bytes)| async move { self.put_new(&name, bytes).await });
                puts.buffered(AT_ONCE).try_collect().await
            }
        }
    }

    async fn put_files(&self, dir: &LocalDir, objects: Vec<(String, Bytes)>) -> Result<()> {
        let mut unsynced = Unsynced::default();
        for (name, bytes) in &objects {
            self.path(name)?;
            let mut retry = Retry::new(self, "write", name);
            while let Err(failure) = dir.write_unsynced(name, bytes, retry.attempt(), &mut unsynced) {
                retry.again(failure).await?;
            }
        }
        drop(objects);
        if !dir.durable() {
            return Ok(());
        }
        let Unsynced { files, dirs, settled } = unsynced;
        let here = dir.clone();
        let synced = self.on_threads(files, move |(file, name)| here.finish(file, name).map_err(|failure| (name.clone(), failure))).await;
        if let Err((name, failure)) = synced {
            return Err(Retry::new(self, "write", &name).give_up(failure));
        }
        let mut retry = Retry::new(self, "sync", "");
        loop {
            let here = dir.clone();
            match self.on_threads(dirs.iter().cloned().collect(), move |above: &PathBuf| here.sync_above(above)).await {
                Ok(()) => break,
                Err(failure) => retry.again(failure).await?,
            }
        }
        dir.settled_now(settled);
        Ok(())
    }

    /// Does something with each of `all`, on a few threads because the disk is waited for most of the time. The error of one that fails.
    async fn on_threads<T, E>(
        &self,
        all: Vec<T>,
        work: impl Fn(&T) -> std::result::Result<(), E> + Clone + Send + 'static,
    ) -> std::result::Result<(), E>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let mut groups: Vec<Vec<T>> = (0..AT_ONCE.min(all.len())).map(|_| Vec::new()).collect();
        let count = groups.len().max(1);
        for (i, item) in all.into_iter().enumerate() {
            groups[i % count].push(item);
        }
        let running = groups.into_iter().map(|group| {
            let work = work.clone();
            self.env.cpu(move || group.iter().try_for_each(work))
        });
        futures::future::join_all(running).await.into_iter().collect()
    }
}
