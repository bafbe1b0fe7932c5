//! Reading checkpoints: first their frame (everything but files), then file by file.

use std::collections::VecDeque;

use arrow::array::RecordBatch;

use super::super::action::{Action, Add, CheckpointMetadata, DomainMetadata, Metadata, Protocol, Sidecar, Txn, decode};
use super::super::names::{LOG_DIR, SIDECAR_DIR};
use super::Checkpoint;
use super::cells::{self, Files};
use super::parquet::ParquetRows;
use crate::error::{Error, Result};
use crate::store::Store;

const HINT: &str = "delete the checkpoint if the commits before it are there";

/// What a checkpoint says apart from files.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) protocol: Protocol,
    pub(crate) metadata: Metadata,
    pub(crate) txns: Vec<Txn>,
    pub(crate) domains: Vec<DomainMetadata>,
}

/// Everything that was found; there must be one of the first two.
#[derive(Default)]
struct Gathered {
    protocols: Vec<Protocol>,
    metadata: Vec<Metadata>,
    txns: Vec<Txn>,
    domains: Vec<DomainMetadata>,
    of: Vec<CheckpointMetadata>,
}

/// The frame of a checkpoint: no column of files is read. `Data`: it is damaged.
pub(crate) async fn frame(store: &Store, checkpoint: &Checkpoint) -> Result<Frame> {
    let mut found = Gathered::default();
    if checkpoint.json {
        for action in json(store, checkpoint).await? {
            match action {
                Action::Protocol(protocol) => found.protocols.push(protocol),
                Action::MetaData(metadata) => found.metadata.push(metadata),
                Action::Txn(txn) => found.txns.push(txn),
                Action::DomainMetadata(domain) => found.domains.push(domain),
                Action::CheckpointMetadata(of) => found.of.push(of),
                _ => {}
            }
        }
    } else {
        for (name, size) in &checkpoint.files {
            let columns = ["protocol", "metaData", "txn", "domainMetadata", "checkpointMetadata"];
            let path = format!("{LOG_DIR}/{name}");
            let mut rows = ParquetRows::open(store, path.clone(), *size, &columns).await?;
            while let Some(batch) = rows.next().await? {
                found.take(&batch).map_err(|e| e.at(store.place(&path)).hint(HINT))?;
            }
        }
    }
    found.framed(checkpoint.version).map_err(|e| e.at(place(store, checkpoint)).hint(HINT))
}

impl Gathered {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        self.protocols.extend(cells::actions(batch, "protocol")?);
        self.metadata.extend(cells::actions(batch, "metaData")?);
        self.txns.extend(cells::actions(batch, "txn")?);
        self.domains.extend(cells::actions(batch, "domainMetadata")?);
        self.of.extend(cells::actions(batch, "checkpointMetadata")?);
        Ok(())
    }

    fn framed(self, version: u64) -> Result<Frame> {
        fn one<T>(what: &str, mut all: Vec<T>) -> Result<T> {
            match (all.len(), all.pop()) {
                (1, Some(one)) => Ok(one),
                (n, _) => Err(Error::data(format!("the checkpoint holds {n} actions `{what}` and must hold one"))),
            }
        }
        if let Some(other) = self.of.iter().find(|of| u64::try_from(of.version) != Ok(version)) {
            return Err(Error::data(format!("the checkpoint says that it is of version {}", other.version)));
        }
        let (protocol, metadata) = (one("protocol", self.protocols)?, one("metaData", self.metadata)?);
        Ok(Frame { protocol, metadata, txns: self.txns, domains: self.domains })
    }
}

/// What one step through a checkpoint gives.
pub(crate) enum Chunk {
    /// Rows of a Parquet file: the columns asked for, as far as the file has them.
    Rows(RecordBatch),
    /// Actions of a JSON file.
    Actions(Vec<Action>),
}

/// A walk through all files of a checkpoint, its sidecars too.
pub(crate) struct Chunks {
    store: Store,
    columns: &'static [&'static str],
    actions: Option<Vec<Action>>,
    /// Parquet files to come: paths under the table's root and sizes.
    files: VecDeque<(String, u64)>,
    open: Option<(String, ParquetRows)>,
}

impl Chunks {
    /// Begins it; nothing but `columns` is read of Parquet files.
    pub(crate) async fn of(store: &Store, checkpoint: &Checkpoint, columns: &'static [&'static str]) -> Result<Chunks> {
        let mut files: VecDeque<(String, u64)> = VecDeque::new();
        let mut actions = None;
        if checkpoint.json {
            actions = Some(json(store, checkpoint).await?);
        } else {
            files.extend(checkpoint.files.iter().map(|(name, size)| (format!("{LOG_DIR}/{name}"), *size)));
        }
        files.extend(sidecars(store, checkpoint).await?);
        Ok(Chunks { store: store.clone(), columns, actions, files, open: None })
    }

    /// The next of it; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>> {
        if let Some(actions) = self.actions.take() {
            return Ok(Some(Chunk::Actions(actions)));
        }
        loop {
            let (_, rows) = match &mut self.open {
                Some(open) => open,
                None => match self.files.pop_front() {
                    Some((path, size)) => {
                        let rows = ParquetRows::open(&self.store, path.clone(), size, self.columns).await?;
                        self.open.insert((path, rows))
                    }
                    None => return Ok(None),
                },
            };
            match rows.next().await? {
                Some(batch) => return Ok(Some(Chunk::Rows(batch))),
                None => self.open = None,
            }
        }
    }

    /// Where the walk is, for messages.
    pub(crate) fn place(&self) -> String {
        self.store.place(self.open.as_ref().map_or(LOG_DIR, |(path, _)| path))
    }
}

/// The live files of a checkpoint, each handed to `each`. `Data`: it is damaged.
pub(crate) async fn adds(store: &Store, checkpoint: &Checkpoint, mut each: impl FnMut(Add)) -> Result<()> {
    let mut chunks = Chunks::of(store, checkpoint, &["add"]).await?;
    while let Some(chunk) = chunks.next().await? {
        match chunk {
            Chunk::Actions(actions) => {
                for action in actions {
                    if let Action::Add(add) = action {
                        each(*add);
                    }
                }
            }
            Chunk::Rows(batch) => {
                let Some(files) = Files::of(&batch, "add") else { continue };
                for row in 0..batch.num_rows() {
                    if let Some(add) = files.add(row).map_err(|e| e.at(chunks.place()).hint(HINT))? {
                        each(add);
                    }
                }
            }
        }
    }
    Ok(())
}

pub(super) async fn json(store: &Store, checkpoint: &Checkpoint) -> Result<Vec<Action>> {
    let mut actions = Vec::new();
    for (name, _) in &checkpoint.files {
        let path = format!("{LOG_DIR}/{name}");
        let missing = || Error::data("a file of the checkpoint is missing").at(store.place(&path)).hint(HINT);
        let bytes = store.get(&path).await?.ok_or_else(missing)?;
        actions.extend(decode(&bytes).map_err(|e| e.at(store.place(&path)))?);
    }
    Ok(actions)
}

/// The sidecars of a checkpoint: paths under the table's root, and sizes in bytes.
pub(crate) async fn sidecars(store: &Store, checkpoint: &Checkpoint) -> Result<Vec<(String, u64)>> {
    let mut found: Vec<Sidecar> = Vec::new();
    if checkpoint.json {
        let all = json(store, checkpoint).await?;
        found.extend(all.into_iter().filter_map(|action| if let Action::Sidecar(sidecar) = action { Some(sidecar) } else { None }));
    } else {
        for (name, size) in &checkpoint.files {
            let path = format!("{LOG_DIR}/{name}");
            let mut rows = ParquetRows::open(store, path.clone(), *size, &["sidecar"]).await?;
            while let Some(batch) = rows.next().await? {
                found.extend(cells::actions::<Sidecar>(&batch, "sidecar").map_err(|e| e.at(store.place(&path)).hint(HINT))?);
            }
        }
    }
    found.into_iter().map(|sidecar| located(store, checkpoint, sidecar)).collect()
}

fn located(store: &Store, checkpoint: &Checkpoint, sidecar: Sidecar) -> Result<(String, u64)> {
    let bad = |what: &str| Error::data(what).at(place(store, checkpoint)).hint(HINT);
    // Sidecars lie in the table's own log, so the last part of a full location says all.
    let name = sidecar.path.rsplit('/').next().unwrap_or_default();
    if name.is_empty() {
        return Err(bad("the checkpoint names a file without a name"));
    }
    let size = u64::try_from(sidecar.size_in_bytes).map_err(|_| bad("a file of the checkpoint has a size below zero"))?;
    Ok((format!("{SIDECAR_DIR}/{name}"), size))
}

/// Where a checkpoint is, for messages.
pub(crate) fn place(store: &Store, checkpoint: &Checkpoint) -> String {
    store.place(&format!("{LOG_DIR}/{}", checkpoint.files.first().map_or("", |(name, _)| name)))
}
