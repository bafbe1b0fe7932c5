//! Writes what comes out of the [`Window`] into the sinks, and prepares checkpoints.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use futures::future::join_all;

use crate::decode::{Chunk, Reject, Stage};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::sink::{Message, SinkWriter};
use crate::stream::chain::Chain;
use crate::stream::dead_letters::{self, Stamp};
use crate::stream::watermark::Watermark;
use crate::stream::window::{LaneOutput, Messages, Window};

/// The writing side.
pub(super) struct Writing {
    env: Env,
    pipeline: String,
    run: String,
    /// Per sink of the chain.
    sinks: Vec<Target>,
    /// Per lane: the place of its sink, and its watermark.
    lanes: Vec<(usize, Option<Watermark>)>,
    dead_letters: Option<usize>,
    /// The checkpoint that rows of now will belong to.
    pub(super) seq: u64,
    /// Rows over the run.
    pub(super) rows: u64,
    since: Written,
    /// Sinks one after the other?
    one_by_one: bool,
}

struct Target {
    url: String,
    writer: Box<dyn SinkWriter>,
}

impl Target {
    async fn write(&mut self, batches: Vec<RecordBatch>) -> Result<()> {
        for batch in batches {
            self.writer.write(&batch).await?;
        }
        Ok(())
    }
    async fn prepare(&mut self, some: bool) -> Result<Vec<Message>> {
        if some { self.writer.prepare().await } else { Ok(Vec::new()) }
    }
}

/// What was written since the last checkpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// Per sink of the chain: has it rows?
    some: Vec<bool>,
    /// Per sink of the chain, milliseconds since 1970-01-01 UTC.
    pub(super) watermarks: Vec<Option<i64>>,
    /// Dead letters by stage.
    pub(super) dead: BTreeMap<&'static str, u64>,
    /// The first of them, in words.
    pub(super) first_dead: Option<String>,
}

impl Written {
    fn nothing(sinks: usize) -> Written {
        Written { some: vec![false; sinks], watermarks: vec![None; sinks], ..Written::default() }
    }
}

impl Writing {
    /// Begins to write into the sinks of a chain.
    pub(super) fn begin(
        chain: &Chain,
        lanes: Vec<(usize, Option<Watermark>)>,
        dead_letters: Option<usize>,
        threads: usize,
    ) -> Result<Self> {
        let begin = |sink: &crate::stream::chain::ChainSink| -> Result<Target> {
            Ok(Target { url: sink.url.clone(), writer: sink.sink.begin(chain.user())? })
        };
        let sinks = chain.sinks.iter().map(begin).collect::<Result<Vec<_>>>()?;
        Ok(Writing {
            env: chain.env().clone(),
            pipeline: chain.greatest().pipeline.clone(),
            run: chain.run().to_owned(),
            since: Written::nothing(sinks.len()),
            sinks,
            lanes,
            dead_letters,
            seq: chain.next_seq(),
            rows: 0,
            one_by_one: threads <= 1,
        })
    }

    /// What was written since the last call.
    pub(super) fn take_written(&mut self) -> Written {
        std::mem::replace(&mut self.since, Written::nothing(self.sinks.len()))
    }

    /// Closes the files of every sink that has rows. `empty_too`: a sink without rows gets an empty snapshot.
    pub(super) async fn prepare(&mut self, written: &Written, empty_too: bool) -> Result<Messages> {
        let all = self.sinks.iter_mut().zip(&written.some).map(|(target, some)| target.prepare(*some));
        let prepared = in_order(all, self.one_by_one).await?;
        let message = |prepared: Vec<Message>| (!prepared.is_empty() || empty_too).then_some(prepared);
        Ok(prepared.into_iter().map(message).collect())
    }

    /// Writes what comes until the window is closed and empty, or something goes wrong elsewhere.
    pub(super) async fn write(&mut self, window: &Window) -> Result<()> {
        while let Some(ready) = window.next().await {
            let (chunk, decoded, cost) = ready.parts()?;
            self.write_chunk(chunk, decoded).await?;
            window.written(cost);
        }
        Ok(())
    }

    /// Writes a decoded chunk into the sinks, its rejects into the dead letters.
    async fn write_chunk(&mut self, chunk: Chunk, decoded: Vec<LaneOutput>) -> Result<()> {
        let mut batches: Vec<Vec<RecordBatch>> = vec![Vec::new(); self.sinks.len()];
        let mut undecodable = BTreeSet::new();
        for (lane, output) in decoded.into_iter().enumerate() {
            let sink = self.lanes[lane].0;
            if let Some(batch) = output.batch.filter(|b| b.num_rows() > 0) {
                if let Some(watermark) = &self.lanes[lane].1 {
                    self.since.watermarks[sink] = self.since.watermarks[sink].max(watermark.of(&batch)?);
                }
                self.rows += batch.num_rows() as u64;
                batches[sink].push(batch);
            }
            // A record that cannot be read at all is one dead letter, however many sinks there are.
            let rejects: Vec<Reject> =
                output.rejects.into_iter().filter(|r| r.stage != Stage::Decode || undecodable.insert(r.index)).collect();
            if !rejects.is_empty() {
                let (dead, rows) = self.dead_letters_of(&chunk, &rejects, sink)?;
                batches[dead].extend(rows);
            }
        }
        drop(chunk);
        for (some, batches) in self.since.some.iter_mut().zip(&batches) {
            *some |= !batches.is_empty();
        }
        let all = self.sinks.iter_mut().zip(batches).map(|(target, batches)| target.write(batches));
        in_order(all, self.one_by_one).await?;
        Ok(())
    }

    /// The rows of the dead letters that rejects become, and the place of their sink.
    fn dead_letters_of(&mut self, chunk: &Chunk, rejects: &[Reject], sink: usize) -> Result<(usize, Vec<RecordBatch>)> {
        let first = &rejects[0];
        let records = &chunk.records;
        let Some(dead) = self.dead_letters else {
            return Err(Error::data(words(first)).at(records.place(first.index)).hint(
                "mend the record, or name a table for such records under `dead_letter:` (on the command line: --set dead_letter.location=DIR); nothing \
                 after the last checkpoint was committed",
            ));
        };
        let several = self.lanes.len() > 1;
        let mut batches = Vec::new();
        for undecodable in [true, false] {
            let some: Vec<Reject> = rejects.iter().filter(|r| (r.stage == Stage::Decode) == undecodable).cloned().collect();
            if some.is_empty() {
                continue;
            }
            let stamp = Stamp {
                pipeline: &self.pipeline,
                seq: self.seq,
                sink: (several && !undecodable).then_some(self.sinks[sink].url.as_str()),
                time_ms: self.env.now_ms(),
                run: &self.run,
            };
            let (records, some) = chunk.rejected(&some);
            batches.push(dead_letters::batch(&records, &some, &stamp)?);
        }
        for reject in rejects {
            *self.since.dead.entry(reject.stage.as_str()).or_default() += 1;
        }
        self.since.first_dead.get_or_insert_with(|| format!("{}: {}", records.place(first.index), words(first)));
        Ok((dead, batches))
    }
}

/// One after the other, or all at once. The results in their order, or the first error in their order.
async fn in_order<T>(all: impl Iterator<Item = impl Future<Output = Result<T>>>, one_by_one: bool) -> Result<Vec<T>> {
    if !one_by_one {
        return join_all(all).await.into_iter().collect();
    }
    let mut done = Vec::new();
    for each in all {
        done.push(each.await?);
    }
    Ok(done)
}

/// `stage: error`.
fn words(reject: &Reject) -> String {
    match &reject.field {
        Some(field) if !reject.error.contains(field.as_str()) => format!("{} ({field}): {}", reject.stage.as_str(), reject.error),
        _ => format!("{}: {}", reject.stage.as_str(), reject.error),
    }
}
