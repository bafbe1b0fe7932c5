//! Standard input. It cannot be read again, so a pipeline that reads it is at-least-once.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::future::{BoxFuture, Either, select};

use super::framing::{Framer, Framing};
use super::{Offsets, Origin, Polled, Position, Resolved, Source};
use crate::env::{Deadline, Env};
use crate::error::{Error, Result};

/// The one split of a [`StdinSource`].
const SPLIT: &str = "stdin";

/// How a [`StdinSource`] reads.
#[derive(Clone, Debug)]
pub struct StdinOptions {
    /// How bytes become records. A CSV header is read from the first row of each process's input.
    pub framing: Framing,
    /// About how many bytes one poll gives. Default 1 MiB.
    pub chunk_bytes: usize,
    /// A longer record becomes a dead letter. Bytes; default 64 MiB.
    pub max_record: usize,
}

impl StdinOptions {
    /// This framing, with the defaults.
    pub fn new(framing: Framing) -> Self {
        StdinOptions { framing, chunk_bytes: 1 << 20, max_record: 64 << 20 }
    }
}

type Input = Box<dyn Read + Send>;
/// The input, what it gave (nothing: its end), and what went wrong.
type Given = (Input, Vec<u8>, Option<io::Error>);

/// NDJSON or CSV from standard input, or from any reader. Offsets count bytes over all processes of a lineage; `End` at the end of input.
///
/// The read runs on a thread of [`Env::cpu`], since it may never come back: a program that stops while one is outstanding must leave with
/// `process::exit` or `Runtime::shutdown_background`, or it waits for the next line.
pub struct StdinSource {
    env: Env,
    options: StdinOptions,
    input: Option<Input>,
    reading: Option<BoxFuture<'static, Given>>,
    framer: Framer,
    origin: Arc<Origin>,
    /// Has anything been read?
    began: bool,
    eof: bool,
}

impl StdinSource {
    /// Reads the process's standard input.
    pub fn new(env: Env, options: StdinOptions) -> Self {
        Self::over(env, options, Box::new(Rest))
    }
    /// Reads the process's standard input and leaves what it reads to be read again, by [`StdinSource::new`].
    pub fn peeking(env: Env, options: StdinOptions) -> Self {
        Self::over(env, options, Box::new(Peek))
    }
    /// Reads any input.
    pub fn over(env: Env, options: StdinOptions, input: Box<dyn Read + Send>) -> Self {
        let framer = Framer::at_start(options.framing, options.max_record, 0, 1);
        let origin = Arc::new(Origin { split: SPLIT.into(), name: SPLIT.into(), partition: None, header: None });
        StdinSource { env, options, input: Some(input), reading: None, framer, origin, began: false, eof: false }
    }

    /// More bytes into the framer; false at the deadline.
    async fn read(&mut self, deadline: Deadline) -> Result<bool> {
        let want = self.options.chunk_bytes.clamp(1, 256 << 10);
        let reading = match (self.reading.take(), self.input.take()) {
            (Some(reading), _) => reading,
            (None, Some(input)) => {
                let env = self.env.clone();
                Box::pin(async move { env.cpu(move || read_once(input, want)).await })
            }
            (None, None) => return Err(Error::internal("standard input is gone")),
        };
        let env = self.env.clone();
        let timer = Box::pin(async move {
            if let Some(left) = env.left(deadline) {
                env.sleep(left).await;
            }
        });
        match select(reading, timer).await {
            Either::Right(((), reading)) => {
                self.reading = Some(reading);
                Ok(false)
            }
            Either::Left(((input, bytes, failed), _)) => {
                self.input = Some(input);
                if let Some(e) = failed {
                    return Err(Error::unavailable("standard input cannot be read").because(e));
                }
                self.eof = bytes.is_empty();
                if !std::mem::replace(&mut self.began, true) {
                    refuse_packed(&bytes)?;
                }
                self.framer.room(bytes.len()).copy_from_slice(&bytes);
                Ok(true)
            }
        }
    }
}

/// Only the names of files say that they are packed; a stream has none.
fn refuse_packed(bytes: &[u8]) -> Result<()> {
    let (what, with) = match bytes {
        [0x1f, 0x8b, ..] => ("gzip", "gunzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("zstd", "unzstd"),
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("standard input is packed with {what}"))
        .hint(format!("unpack it on the way: {with} -c FILE | table-cli ...")))
}

/// What was looked at of the process's standard input, and not read yet.
static PEEKED: Mutex<VecDeque<u8>> = Mutex::new(VecDeque::new());

fn peeked() -> MutexGuard<'static, VecDeque<u8>> {
    PEEKED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard input, to be read again.
struct Peek;

impl Read for Peek {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // The lock keeps a look that is still waiting and the reader after it in order.
        let mut stdin = io::stdin().lock();
        let count = stdin.read(buf)?;
        peeked().extend(buf.iter().take(count));
        Ok(count)
    }
}

/// Standard input from its start, whatever was looked at.
struct Rest;

impl Read for Rest {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut stdin = io::stdin().lock();
        let count = peeked().read(buf)?;
        if count > 0 { Ok(count) } else { stdin.read(buf) }
    }
}

fn read_once(mut input: Input, want: usize) -> Given {
    let mut bytes = vec![0; want];
    loop {
        match input.read(&mut bytes) {
            Ok(n) => {
                bytes.truncate(n);
                return (input, bytes, None);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return (input, Vec::new(), Some(e)),
        }
    }
}

#[async_trait]
impl Source for StdinSource {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        Ok(Resolved { start: from.cloned().unwrap_or_default(), stop: None })
    }

    async fn seek(&mut self, offsets: &Offsets, _stop: Option<&Offsets>) -> Result<()> {
        let note = offsets.0.get(SPLIT).and_then(|p| p.note.as_ref());
        let line = note.and_then(|n| n.get("line")).and_then(serde_json::Value::as_u64);
        self.framer = Framer::at_start(self.options.framing, self.options.max_record, offsets.offset(SPLIT), line.unwrap_or(1));
        Ok(())
    }

    async fn poll(&mut self, deadline: Deadline) -> Result<Polled> {
        loop {
            let records = self.framer.cut(self.eof, self.options.chunk_bytes, &mut self.origin)?;
            if !records.is_empty() {
                return Ok(Polled::Records(records));
            }
            if self.framer.more() {
                continue;
            }
            if self.eof {
                return Ok(Polled::End);
            }
            if !self.read(deadline).await? {
                return Ok(Polled::Idle);
            }
        }
    }

    fn position(&self) -> Offsets {
        let note = serde_json::json!({ "line": self.framer.line() });
        let position = Position { offset: self.framer.offset(), note: Some(note) };
        Offsets::from([(SPLIT.to_owned(), position)])
    }

    fn replayable(&self) -> bool {
        false
    }
}
