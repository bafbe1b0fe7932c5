//! A source of one's own: an append-only file of records, each a length (4 bytes, little endian) and that many bytes.

use std::{fs, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use lakeward::env::Deadline;
use lakeward::source::{Offsets, Origin, Polled, Position, Records, Resolved, Source};
use lakeward::{Env, Error, Result};

const SPLIT: &str = "log";

pub(crate) struct LogFile {
    env: Env,
    path: PathBuf,
    next: u64,
    stop: u64,
}

impl LogFile {
    pub(crate) fn new(env: Env, path: impl Into<PathBuf>) -> Self {
        LogFile { env, path: path.into(), next: 0, stop: 0 }
    }
    fn bytes(&self) -> Result<Vec<u8>> {
        fs::read(&self.path).map_err(|e| Error::unavailable("the log cannot be read").at(self.path.display()).because(e))
    }
}

fn at(offset: u64) -> Offsets {
    Offsets::from([(SPLIT.to_owned(), Position { offset, note: None })])
}

#[async_trait]
impl Source for LogFile {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        Ok(Resolved { start: from.cloned().unwrap_or_default(), stop: Some(at(self.bytes()?.len() as u64)) })
    }
    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        self.next = offsets.offset(SPLIT);
        self.stop = stop.map_or(u64::MAX, |s| s.offset(SPLIT));
        let size = self.bytes()?.len() as u64;
        if size < self.next {
            return Err(Error::data(format!("the log has {size} bytes, but {} were read", self.next)).at(self.path.display()));
        }
        Ok(())
    }
    async fn poll(&mut self, deadline: Deadline) -> Result<Polled> {
        if self.next >= self.stop {
            return Ok(Polled::End);
        }
        let all = self.bytes()?;
        let mut records = Records::none(Arc::new(Origin { split: SPLIT.into(), name: "log".into(), partition: None, header: None }));
        let mut values = Vec::new();
        while let Some(length) = all.get(self.next as usize..).and_then(|rest| rest.first_chunk::<4>()) {
            let start = self.next as usize + 4;
            let Some(value) = all.get(start..start + u32::from_le_bytes(*length) as usize) else { break };
            if self.next >= self.stop || values.len() > 1 << 16 {
                break;
            }
            values.extend_from_slice(value);
            records.ends.push(values.len());
            records.offsets.push(self.next);
            self.next = (start + value.len()) as u64;
        }
        if records.is_empty() {
            self.env.sleep(self.env.left(deadline).unwrap_or_default()).await;
            return Ok(Polled::Idle);
        }
        records.bytes = values.into();
        Ok(Polled::Records(records))
    }
    fn position(&self) -> Offsets {
        at(self.next)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), String> {
    let path = std::env::args().nth(1).ok_or("usage: own_source LOG")?;
    lakeward::source::conformance::check(&Env::real(), || Ok(LogFile::new(Env::real(), &path))).await
}
