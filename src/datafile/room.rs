//! How a [`FileWriter`] stays within its memory: which rows go into a file at once, which wait, and who leaves first.
//!
//! A batch's rows of one place (a partition and bucket) go straight into an open file when they are many. Few of them wait in [`Staged`],
//! together with those of other places, until they are worth a file of their own or the checkpoint comes: so 5,000 partitions cost 5,000
//! files once, and not 5,000 encoders all the time. When memory runs out, and the waiting rows hold more of it than the open files, the
//! half of them leaves whose places were not written to for the longest time; else the largest row group goes out, or, when even that is
//! small, the file that was not written to for the longest time.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesOrdered;

use crate::datafile::encode::{Encoder, bytes_per_row};
use crate::datafile::open::{Open, encode_files, finish};
use crate::datafile::partition::{Part, Rows};
use crate::datafile::staged::Run;
use crate::datafile::writer::FileWriter;
use crate::error::Result;
use crate::format::DataFile;

/// A row group smaller than this is not written on its own to save memory; whole files are closed instead.
const SMALL_ROW_GROUP: usize = 1 << 20;
/// So many files may be open at once; each costs a file descriptor or an upload.
const MAX_OPEN: usize = 256;
/// So many open files are completed at once when all are closed.
const FINISH_AT_ONCE: usize = 8;
/// Rows that wait are gathered, encoded and written in lots of about so many bytes,
const LOT_BYTES: usize = 4 << 20;
/// and at most so many files: each has a file descriptor until it is synced.
const LOT_FILES: usize = 256;
/// So many lots are on their way at once: while one is synced, others are encoded.
const LOTS_AT_ONCE: usize = 3;
/// A place's rows that wait become an open file when they have so many bytes,
const OPEN_AT: usize = 1 << 20;
/// rows that come together when they have so many times fewer,
const AT_ONCE: usize = 16;
/// and those of a place that has an open file when they have so many times fewer still.
const FOLLOW: usize = 8;

/// Files that are being completed: the place of each.
type Completing = FuturesOrdered<BoxFuture<'static, Result<Vec<(usize, DataFile)>>>>;

impl FileWriter {
    /// Bytes at which the rows of a place are worth an open file: a wide table's encoder is only worth having for more of them.
    fn open_at(&self) -> usize {
        let options = &self.format.options;
        let target = usize::try_from(options.target_file_size).unwrap_or(usize::MAX);
        OPEN_AT.max(Encoder::worth(&self.format)).min(options.memory / 16).min(target).max(1)
    }

    /// Takes the rows of a batch, place by place.
    pub(super) async fn spread(&mut self, batch: &RecordBatch, parts: Vec<(usize, Part)>) -> Result<()> {
        self.turn += 1;
        let per_row = bytes_per_row(batch);
        let at_once = self.open_at() / AT_ONCE;
        let only_place = self.partition_columns.is_empty() && self.buckets.is_none();
        let mut few = Vec::new();
        for (index, part) in parts {
            let place = &mut self.partitions[index];
            place.turn = self.turn;
            let enough = if place.open.is_some() { at_once / FOLLOW } else { at_once };
            if only_place || part.rows.len() * per_row >= enough {
                self.unstage(index).await?;
                self.append(index, batch, &part.rows, per_row).await?;
            } else {
                few.push((index, part.rows));
            }
        }
        self.stage(batch, few, per_row).await?;
        self.make_room().await
    }

    /// Writes the rows of one place, in steps small enough that the limits on row groups, files and memory are kept.
    async fn append(&mut self, index: usize, batch: &RecordBatch, rows: &Rows, per_row: usize) -> Result<()> {
        let step = self.rows_per_step(per_row);
        for from in (0..rows.len()).step_by(step) {
            self.encode(index, &rows.slice(batch, from, step.min(rows.len() - from))?).await?;
            self.make_room().await?;
        }
        Ok(())
    }

    fn rows_per_step(&self, per_row: usize) -> usize {
        let options = &self.format.options;
        let least = usize::try_from(options.target_file_size).unwrap_or(usize::MAX).min(options.memory);
        let wanted = (least / 8).clamp(64 << 10, 2 << 20);
        (wanted / per_row).clamp(1, 1 << 16)
    }

    /// Rows into the open file of their place; it is opened if there is none, and closed when it is full.
    async fn encode(&mut self, index: usize, rows: &RecordBatch) -> Result<()> {
        let mut open = match self.partitions[index].open.take() {
            Some(open) => open,
            None => self.open(index).await?,
        };
        open.encoder.write(rows)?;
        open.pass_on().await?;
        let full = self.account(&mut open) >= self.format.options.target_file_size;
        self.partitions[index].open = Some(open);
        if full {
            self.close(index).await?;
        }
        Ok(())
    }

    /// Lets rows wait. Those of places that have enough of them by now go into an open file.
    async fn stage(&mut self, batch: &RecordBatch, mut parts: Vec<(usize, Rows)>, per_row: usize) -> Result<()> {
        parts.sort_by_key(|(index, _)| *index);
        let most = (LOT_BYTES / per_row).max(1);
        let (mut numbers, mut runs) = (Vec::new(), Vec::new());
        let mut left = parts.iter().peekable();
        while let Some((index, rows)) = left.next() {
            let from = position(numbers.len());
            rows.append_to(&mut numbers)?;
            runs.push(Run { place: position(*index), from, to: position(numbers.len()) });
            if numbers.len() >= most || left.peek().is_none() {
                let rows = take_record_batch(batch, &UInt32Array::from(std::mem::take(&mut numbers)))?;
                self.staged.push(rows, std::mem::take(&mut runs))?;
            }
        }
        let enough = self.open_at();
        for (index, _) in parts {
            if self.staged.bytes_of(index) >= enough {
                self.unstage(index).await?;
                self.staged.tidy()?;
            }
        }
        Ok(())
    }

    /// The rows of a place that wait go into its open file.
    async fn unstage(&mut self, index: usize) -> Result<()> {
        if self.staged.bytes_of(index) == 0 {
            return Ok(());
        }
        let (rows, _) = self.staged.take(&[index])?;
        let step = self.rows_per_step(bytes_per_row(&rows));
        for from in (0..rows.num_rows()).step_by(step) {
            self.encode(index, &rows.slice(from, step.min(rows.num_rows() - from))).await?;
        }
        Ok(())
    }

    /// Brings the sums up to date after a change to an open file. The file's size so far, an estimate.
    fn account(&mut self, open: &mut Open) -> u64 {
        let (bytes, group) = (open.encoder.size(), open.encoder.group_memory());
        let memory = group + open.encoder.closed_memory() + open.upload.buffered();
        self.open_bytes = self.open_bytes - open.bytes + bytes;
        self.open_memory = self.open_memory - open.memory + memory;
        (open.bytes, open.group, open.memory) = (bytes, group, memory);
        bytes
    }

    /// The name of the next file of a place.
    fn next_path(&mut self, index: usize) -> Result<String> {
        let place = &self.partitions[index];
        let path = self.layout.file_path(&place.values, place.bucket, &self.unique, self.counter)?;
        self.counter = self.counter.wrapping_add(1);
        if self.counter == 0 {
            self.unique = self.store.env().uuid().to_string();
        }
        self.first_opened.get_or_insert(self.store.env().monotonic());
        tracing::debug!("opened {path}");
        Ok(path)
    }

    async fn open(&mut self, index: usize) -> Result<Open> {
        while self.open_files >= MAX_OPEN {
            let Some(oldest) = self.least_recent() else { break };
            self.close(oldest).await?;
        }
        let path = self.next_path(index)?;
        let upload = self.store.upload(&path).await?;
        self.open_files += 1;
        Ok(Open { path, encoder: Encoder::new(&self.format)?, upload, group: 0, bytes: 0, memory: 0 })
    }

    /// Takes the open file of a place out of the sums.
    fn take_open(&mut self, index: usize) -> Option<Open> {
        let open = self.partitions[index].open.take()?;
        self.open_files -= 1;
        self.open_bytes -= open.bytes;
        self.open_memory -= open.memory;
        Some(open)
    }

    async fn close(&mut self, index: usize) -> Result<()> {
        let Some(open) = self.take_open(index) else { return Ok(()) };
        let file = finish(self.store.clone(), self.format.schema.id, open).await?;
        self.closed_bytes += file.size;
        self.partitions[index].files.push(file);
        Ok(())
    }

    /// Keeps the memory budget; see the module.
    async fn make_room(&mut self) -> Result<()> {
        while self.memory() > self.format.options.memory {
            if self.staged.memory() > self.open_memory {
                self.thin_out().await?;
                continue;
            }
            let open = self.partitions.iter().enumerate().filter_map(|(i, p)| Some((p.open.as_ref()?.group, i)));
            match open.max() {
                Some((group, index)) if group >= SMALL_ROW_GROUP.min(self.format.options.memory / 2).max(1) => {
                    let Some(mut open) = self.partitions[index].open.take() else { break };
                    open.encoder.close_group()?;
                    open.pass_on().await?;
                    self.account(&mut open);
                    self.partitions[index].open = Some(open);
                }
                _ => {
                    let Some(oldest) = self.least_recent() else { break };
                    self.close(oldest).await?;
                }
            }
        }
        Ok(())
    }

    fn least_recent(&self) -> Option<usize> {
        let open = self.partitions.iter().enumerate().filter(|(_, p)| p.open.is_some());
        open.min_by_key(|(index, p)| (p.turn, *index)).map(|(index, _)| index)
    }

    /// Half of the rows that wait leave.
    async fn thin_out(&mut self) -> Result<()> {
        let mut places: Vec<usize> = (0..self.partitions.len()).filter(|index| self.staged.bytes_of(*index) > 0).collect();
        places.sort_by_key(|index| self.partitions[*index].turn);
        let mut left = self.staged.bytes().div_ceil(2);
        let mut alone = Vec::new();
        for index in places {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(self.staged.bytes_of(index));
            if self.partitions[index].open.is_some() {
                self.unstage(index).await?;
            } else {
                alone.push(index);
            }
        }
        self.write_files(alone).await?;
        self.staged.tidy()
    }

    /// Files of the rows that wait of these places.
    async fn write_files(&mut self, places: Vec<usize>) -> Result<()> {
        let mut running = Completing::new();
        let mut places = places.into_iter().peekable();
        let (mut lot, mut bytes) = (Vec::new(), 0);
        while let Some(index) = places.next() {
            lot.push(index);
            bytes += self.staged.bytes_of(index);
            if places.peek().is_some() && bytes < LOT_BYTES && lot.len() < LOT_FILES {
                continue;
            }
            let (rows, counts) = self.staged.take(&lot)?;
            let paths = lot.iter().map(|index| self.next_path(*index)).collect::<Result<Vec<_>>>()?;
            let files = encode_files(self.store.clone(), self.format.clone(), rows, counts.into_iter().zip(paths).collect());
            let of = std::mem::take(&mut lot);
            bytes = 0;
            running.push_back(async move { Ok(of.into_iter().zip(files.await?).collect()) }.boxed());
            if running.len() >= LOTS_AT_ONCE {
                self.completed(&mut running).await?;
            }
        }
        while !running.is_empty() {
            self.completed(&mut running).await?;
        }
        Ok(())
    }

    async fn completed(&mut self, running: &mut Completing) -> Result<()> {
        for (index, file) in running.next().await.transpose()?.unwrap_or_default() {
            self.closed_bytes += file.size;
            self.partitions[index].files.push(file);
        }
        Ok(())
    }

    /// Closes everything.
    pub(super) async fn close_all(&mut self) -> Result<()> {
        let mut running = Completing::new();
        let mut alone = Vec::new();
        for index in 0..self.partitions.len() {
            if self.partitions[index].open.is_some() {
                self.unstage(index).await?;
            }
            match self.take_open(index) {
                Some(open) => {
                    let file = finish(self.store.clone(), self.format.schema.id, open);
                    running.push_back(async move { Ok(vec![(index, file.await?)]) }.boxed());
                }
                None if self.staged.bytes_of(index) > 0 => alone.push(index),
                None => {}
            }
            if running.len() >= FINISH_AT_ONCE {
                self.completed(&mut running).await?;
            }
        }
        while !running.is_empty() {
            self.completed(&mut running).await?;
        }
        self.write_files(alone).await?;
        self.staged.clear();
        Ok(())
    }
}

/// A batch has fewer than 2^32 rows, and places are fewer than the rows in memory.
fn position(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
