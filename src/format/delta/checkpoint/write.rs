//! Writing classic checkpoints: beside the commits, once for each version, and nobody's loss when it fails.
//!
//! The rows of the checkpoint before are passed through batch by batch; what the commits since then speak of is left out of them and
//! follows at the end. So memory holds the newer commits and the packed bytes of the new file, whatever is live.
//!
//! The file is created under its own name, unless it exists: one of two writers wins, and the other finds a checkpoint of the same version
//! that says the same. `_last_checkpoint` moves only after the file was read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::filter_record_batch;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::super::action::{Action, Remove};
use super::super::names::{self, LOG_DIR};
use super::super::options::DeltaOptions;
use super::super::replay::{self, Commits, FileKey, Listing, LogState};
use super::Checkpoint;
use super::cells::{Files, int};
use super::pointer;
use super::read::{self, Chunk, Chunks};
use super::rows::{SCHEMA, rows};
use super::shape::shaped;
use crate::env::Rule;
use crate::error::{Error, Result};
use crate::publish::{Publication, publish};
use crate::store::Store;

/// Actions that become rows at once.
const AT_ONCE: usize = 4096;
/// Rows of a row group: what a reader, and the next writer, has in memory.
const ROW_GROUP_ROWS: usize = 1 << 15;

/// What became of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was written.
    New {
        /// Its actions.
        rows: u64,
        /// Live files among them.
        files: u64,
        /// Its size.
        bytes: u64,
    },
    /// There was one of this version.
    Found,
    /// The table's checkpoints are left to its other writers: why.
    Left(String),
}

/// What is to be written.
enum Made {
    There(Checkpoint),
    Left(String),
    New { bytes: Bytes, rows: u64, files: u64 },
}

/// Writes the checkpoint of a version, verifies it, and moves the pointer if it is the newest. May be called again, by anybody, at any time.
///
/// `Data`: the log cannot be read up to `version`, or a checkpoint of that version is there and damaged. `Unavailable`: the store did not
/// answer in time. No error harms the table.
pub async fn write(store: &Store, version: u64) -> Result<Written> {
    let made = replay::attempts(store, Some(version), |listing: Arc<Listing>| async move {
        if let Some(found) = listing.checkpoints.get(&version).and_then(|all| all.first()) {
            return Ok(Made::There(found.clone()));
        }
        replay::segment(store, &listing, version, &mut |from, commits| make(store, version, from, commits)).await
    })
    .await?;
    let (bytes, rows, files) = match made {
        Made::Left(why) => return Ok(Written::Left(why)),
        Made::There(found) => return settle(store, &found).await,
        Made::New { bytes, rows, files } => (bytes, rows, files),
    };
    let (name, size) = (names::checkpoint(version), bytes.len() as u64);
    let deadline = store.env().deadline(store.patience());
    let classic = |size: u64| Checkpoint { version, files: vec![(file_name(version), size)], json: false };
    if store.env().broken(Rule::HintLast) {
        pointer::put(store, &classic(size), rows, Some(files)).await?;
    }
    if let Publication::Taken(theirs) = publish(store, &name, bytes, deadline).await? {
        return settle(store, &classic(theirs.len() as u64)).await;
    }
    let checkpoint = classic(size);
    let read = counted(store, &checkpoint).await?;
    if read != rows {
        let what = format!("the checkpoint was written with {rows} actions and is read with {read}");
        return Err(Error::data(what).at(store.place(&name)).hint("delete the checkpoint: the commits stand"));
    }
    pointer::raise(store, &checkpoint, rows, Some(files)).await?;
    Ok(Written::New { rows, files, bytes: size })
}

/// A checkpoint that somebody else, or an earlier try, has written: its writer may have died before the pointer moved.
async fn settle(store: &Store, found: &Checkpoint) -> Result<Written> {
    let rows = counted(store, found).await?;
    pointer::raise(store, found, rows, None).await?;
    Ok(Written::Found)
}

/// Reads a checkpoint back: its frame must be whole. How many actions it holds, without those of sidecars.
async fn counted(store: &Store, checkpoint: &Checkpoint) -> Result<u64> {
    read::frame(store, checkpoint).await?;
    pointer::actions(store, checkpoint).await
}

fn file_name(version: u64) -> String {
    names::checkpoint(version).trim_start_matches(LOG_DIR).trim_start_matches('/').to_owned()
}

/// What the commits since the checkpoint before say of a file.
type Words = BTreeMap<FileKey, Action>;

async fn make(store: &Store, version: u64, from: Option<Checkpoint>, commits: Commits) -> Result<Made> {
    let state = replay::state_of(store, from.clone(), commits.clone()).await?;
    if state.version != version {
        return Err(Error::internal(format!("version {} was read for {version}", state.version)).hint("please report this"));
    }
    let options = DeltaOptions::parse(&state.metadata.configuration)?;
    if options.stats_as_struct {
        return Ok(Made::Left("it asks for delta.checkpoint.writeStatsAsStruct, which is not written here".to_owned()));
    }
    let retention = i64::try_from(options.file_retention.as_millis()).unwrap_or(i64::MAX);
    let rules = Rules { oldest: store.env().now_ms().saturating_sub(retention), stats: options.stats_as_json };
    let mut words = Words::new();
    for (version, bytes) in commits {
        for action in replay::actions(&bytes).map_err(|e| e.at(store.place(&names::commit(version))))? {
            if let Some(key) = replay::key(&action) {
                words.insert(key, action);
            }
        }
    }
    let mut out = Out::new()?;
    out.actions(frame(state))?;
    if let Some(checkpoint) = &from {
        let mut chunks = Chunks::of(store, checkpoint, &["add", "remove"]).await?;
        while let Some(chunk) = chunks.next().await? {
            match chunk {
                Chunk::Rows(batch) => {
                    let (batch, files) = rules.pass(&batch, &words).map_err(|e| e.at(chunks.place()))?;
                    out.batch(&batch, files)?;
                }
                Chunk::Actions(actions) => {
                    let passes = |action: &Action| replay::key(action).is_some_and(|key| !words.contains_key(&key));
                    out.actions(actions.into_iter().filter(passes).filter_map(|action| rules.take(action)).collect())?;
                }
            }
        }
    }
    out.actions(words.into_values().filter_map(|action| rules.take(action)).collect())?;
    let Out { writer, rows, files } = out;
    let bytes = writer.into_inner().map_err(unwritten)?;
    Ok(Made::New { bytes: Bytes::from(bytes), rows, files })
}

/// Everything but files.
fn frame(state: LogState) -> Vec<Action> {
    let mut actions = vec![Action::Protocol(state.protocol), Action::MetaData(state.metadata)];
    actions.extend(state.txns.into_values().map(|seen| Action::Txn(seen.txn)));
    actions.extend(state.domains.into_values().map(Action::DomainMetadata));
    actions
}

/// What of files goes into a checkpoint.
struct Rules {
    /// What was removed before is forgotten; milliseconds since 1970-01-01 UTC.
    oldest: i64,
    /// Are there statistics?
    stats: bool,
}

impl Rules {
    fn take(&self, action: Action) -> Option<Action> {
        match action {
            Action::Add(mut add) => {
                add.data_change = false;
                add.stats = add.stats.filter(|_| self.stats);
                Some(Action::Add(add))
            }
            Action::Remove(remove) if self.remembers(remove.deletion_timestamp) => {
                Some(Action::Remove(Box::new(Remove { data_change: false, ..*remove })))
            }
            _ => None,
        }
    }

    /// A removal without a time is as old as can be.
    fn remembers(&self, removed_at: Option<i64>) -> bool {
        removed_at.unwrap_or(0) > self.oldest
    }

    /// The rows of the checkpoint before that still hold, in the columns of this one, and how many of them are live files.
    fn pass(&self, batch: &RecordBatch, words: &Words) -> Result<(RecordBatch, u64)> {
        let (adds, removes) = (Files::of(batch, "add"), Files::of(batch, "remove"));
        let mut live = 0;
        let mut holds = |row: usize| -> Result<bool> {
            let new = |key: Option<(&str, Option<String>)>| key.is_some_and(|(path, id)| !words.contains_key(&(path.to_owned(), id)));
            if let Some(adds) = &adds
                && new(adds.key(row)?)
            {
                live += 1;
                return Ok(true);
            }
            let Some(removes) = &removes else { return Ok(false) };
            let time = removes.all.column_by_name("deletionTimestamp").and_then(|column| int(column, row));
            Ok(new(removes.key(row)?) && self.remembers(time))
        };
        let held: Vec<bool> = (0..batch.num_rows()).map(&mut holds).collect::<Result<_>>()?;
        let held = filter_record_batch(batch, &BooleanArray::from(held))?;
        let column = |field: &Arc<arrow::datatypes::Field>| -> Result<ArrayRef> {
            match held.column_by_name(field.name()) {
                Some(column) if field.name() == "add" => super::shape::add(column, field.data_type(), self.stats),
                Some(column) if field.name() == "remove" => shaped(column, field.data_type()),
                _ => Ok(new_null_array(field.data_type(), held.num_rows())),
            }
        };
        let columns = SCHEMA.fields().iter().map(column).collect::<Result<_>>()?;
        Ok((RecordBatch::try_new(SCHEMA.clone(), columns)?, live))
    }
}

/// The file that is being made.
struct Out {
    writer: ArrowWriter<Vec<u8>>,
    rows: u64,
    files: u64,
}

impl Out {
    fn new() -> Result<Out> {
        let column = |name: &str| ColumnPath::new(vec!["add".to_owned(), name.to_owned()]);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).map_err(unwritten)?))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            // Each is another one: a dictionary of them only costs.
            .set_column_dictionary_enabled(column("path"), false)
            .set_column_dictionary_enabled(column("stats"), false)
            .set_created_by(concat!("lakeward version ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), SCHEMA.clone(), options).map_err(unwritten)?;
        Ok(Out { writer, rows: 0, files: 0 })
    }

    fn actions(&mut self, actions: Vec<Action>) -> Result<()> {
        for some in actions.chunks(AT_ONCE) {
            let files = some.iter().filter(|action| matches!(action, Action::Add(_))).count();
            self.batch(&rows(some)?, files as u64)?;
        }
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, files: u64) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        self.files += files;
        self.writer.write(batch).map_err(unwritten)
    }
}

fn unwritten(e: ParquetError) -> Error {
    Error::internal("the checkpoint cannot be encoded").because(e).hint("please report this")
}
