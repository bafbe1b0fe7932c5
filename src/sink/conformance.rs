//! What every [`Sink`] promises, as checks to run on your own.
//!
//! Give [`check`] a [`Bench`]: how to open the sink anew, as a new process would, some rows for it, and how many rows can be seen in it.
//! Nothing panics: the first broken promise comes back as a sentence.

use arrow::array::RecordBatch;
use async_trait::async_trait;

use super::{CloseUser, ClosedAt, Message, Outcome, Registration, Sink, SinkCommit, SinkWriter};
use crate::error::{Kind, Result};
use crate::format::{CommitUser, Digest, END_OF_INPUT, Floor};

/// A broken promise, in words.
pub type Broken = String;

/// What the checks need to know of a sink.
#[async_trait]
pub trait Bench: Send + Sync {
    /// The sink, opened anew: it shares nothing with the one before but what is stored.
    async fn open(&self) -> Result<Box<dyn Sink>>;
    /// A batch of this many rows that the sink takes.
    fn rows(&self, rows: usize) -> RecordBatch;
    /// How many rows everybody can see.
    async fn count(&self) -> Result<u64>;
}

/// Runs all checks, on a sink that holds nothing yet of pipeline `conformance`.
///
/// # Errors
/// The first broken promise, or the sink's own error.
pub async fn check(bench: &dyn Bench) -> Result<(), Broken> {
    let mut chain = Chain::begin(bench, 1).await?;
    nothing_is_prepared_of_nothing(&mut chain).await?;
    prepared_rows_are_invisible_and_land_once(&mut chain).await?;
    rows_of_the_next_checkpoint_may_be_written_meanwhile(&mut chain).await?;
    a_message_outlives_its_process(&mut chain).await?;
    looking_and_empty_commits_add_nothing(&mut chain).await?;
    what_does_not_fit_is_refused(&mut chain).await?;
    closing_ends_a_lineage(bench, chain).await?;
    closing_tells_whether_the_pending_commit_landed(bench).await?;
    anchors_hold(bench).await
}

/// What a chain knows of the sink.
struct Chain<'a> {
    bench: &'a dyn Bench,
    sink: Box<dyn Sink>,
    writer: Box<dyn SinkWriter>,
    user: CommitUser,
    floor: Floor,
    last: Option<i64>,
    rows: u64,
}

fn words(error: crate::Error) -> Broken {
    error.to_string()
}

fn ensure(holds: bool, promise: impl Into<String>) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(promise.into()) }
}

/// The commit user of the `n`-th lineage.
fn user(n: u8) -> CommitUser {
    CommitUser::new(format!("conformance-{}", uuid::Uuid::from_u128(u128::from(n))))
}

fn digest(identifier: i64) -> Digest {
    Digest::of(&identifier.to_le_bytes())
}

impl<'a> Chain<'a> {
    async fn begin(bench: &'a dyn Bench, n: u8) -> Result<Chain<'a>, Broken> {
        let sink = bench.open().await.map_err(words)?;
        let user = user(n);
        let writer = sink.begin(&user).map_err(words)?;
        let floor = sink.anchor().head().await.map_err(words)?;
        sink.anchor().pin(&user, floor.id).await.map_err(words)?;
        let rows = bench.count().await.map_err(words)?;
        Ok(Chain { bench, sink, writer, user, floor, last: None, rows })
    }
    async fn prepare(&mut self, rows: usize) -> Result<Vec<Message>, Broken> {
        self.writer.write(&self.bench.rows(rows)).await.map_err(words)?;
        self.writer.prepare().await.map_err(words)
    }
    fn order(&self, identifier: i64, messages: Option<Vec<Message>>) -> SinkCommit {
        SinkCommit {
            user: self.user.clone(),
            identifier,
            digest: digest(identifier),
            floor: self.floor.clone(),
            last: self.last,
            messages,
            properties: [("conformance".to_owned(), identifier.to_string())].into(),
            watermark: None,
            replay: true,
            resolve: None,
        }
    }
    async fn commit(&mut self, order: &SinkCommit) -> Result<Outcome, Broken> {
        self.sink.commit(order).await.map_err(words)
    }
    fn learn(&mut self, outcome: &Outcome) {
        (self.floor, self.last) = (outcome.floor.clone(), outcome.last);
    }
    fn closing(&self, pending: Option<&SinkCommit>) -> CloseUser {
        CloseUser {
            user: self.user.clone(),
            floor: self.floor.clone(),
            last: self.last,
            pending: pending.map(|p| (p.identifier, p.digest)),
            messages: pending.and_then(|p| p.messages.clone()),
            properties: [("conformance".to_owned(), "close".to_owned())].into(),
            resolve: None,
        }
    }
    async fn sees(&self, rows: u64, when: &str) -> Result<(), Broken> {
        let seen = self.bench.count().await.map_err(words)?;
        ensure(seen == rows, format!("{when}: {seen} rows can be seen, not {rows}"))
    }
    /// A new process takes over.
    async fn reopen(&mut self) -> Result<(), Broken> {
        self.sink = self.bench.open().await.map_err(words)?;
        self.writer = self.sink.begin(&self.user).map_err(words)?;
        Ok(())
    }
    async fn refused(&mut self, order: &SinkCommit, why: &str) -> Result<(), Broken> {
        match self.sink.commit(order).await {
            Err(e) if matches!(e.kind(), Kind::Data | Kind::Invalid) => self.sees(self.rows, why).await,
            Err(e) => Err(format!("{why}: must be Data or Invalid, not {e:?}")),
            Ok(_) => Err(format!("{why}: must be refused")),
        }
    }
}

async fn nothing_is_prepared_of_nothing(chain: &mut Chain<'_>) -> Result<(), Broken> {
    let none = chain.writer.prepare().await.map_err(words)?;
    ensure(none.is_empty(), "prepare without rows must return no messages")
}

async fn prepared_rows_are_invisible_and_land_once(chain: &mut Chain<'_>) -> Result<(), Broken> {
    let messages = chain.prepare(3).await?;
    ensure(!messages.is_empty(), "prepare after rows must return messages")?;
    chain.sees(chain.rows, "after prepare").await?;
    let order = chain.order(1, Some(messages));
    let outcome = chain.commit(&order).await?;
    ensure(!outcome.already && outcome.last == Some(1), "the first commit lands, and says so")?;
    chain.rows += 3;
    chain.sees(chain.rows, "after the commit").await?;
    for _ in 0..2 {
        let again = chain.commit(&order).await?;
        ensure(again.already && again.last == Some(1), "a commit that has landed is recognised")?;
        chain.sees(chain.rows, "after the same commit again").await?;
        chain.reopen().await?;
    }
    chain.learn(&outcome);
    Ok(())
}

async fn a_message_outlives_its_process(chain: &mut Chain<'_>) -> Result<(), Broken> {
    let messages = chain.prepare(2).await?;
    let order = chain.order(4, Some(messages));
    chain.reopen().await?;
    let outcome = chain.commit(&order).await?;
    ensure(!outcome.already && outcome.last == Some(4), "another process lands it; identifiers may leave holes")?;
    chain.rows += 2;
    chain.sees(chain.rows, "after another process's commit").await?;
    chain.learn(&outcome);
    Ok(())
}

async fn looking_and_empty_commits_add_nothing(chain: &mut Chain<'_>) -> Result<(), Broken> {
    let look = chain.order(5, None);
    let outcome = chain.commit(&look).await?;
    ensure(outcome.last == Some(4), "looking lands nothing: the newest identifier stays")?;
    let empty = chain.order(6, Some(Vec::new()));
    let outcome = chain.commit(&empty).await?;
    ensure(outcome.last == Some(6), "an empty commit lands its identifier")?;
    ensure(chain.commit(&empty).await?.already, "and is recognised")?;
    chain.learn(&outcome);
    chain.sees(chain.rows, "after looking and an empty commit").await
}

async fn rows_of_the_next_checkpoint_may_be_written_meanwhile(chain: &mut Chain<'_>) -> Result<(), Broken> {
    // Files of the next checkpoint are open, and the commit neither takes them nor touches them.
    let messages = chain.prepare(2).await?;
    chain.writer.write(&chain.bench.rows(3)).await.map_err(words)?;
    let order = chain.order(2, Some(messages));
    let (outcome, written) = {
        let batch = chain.bench.rows(1);
        futures::join!(chain.sink.commit(&order), chain.writer.write(&batch))
    };
    written.map_err(words)?;
    chain.learn(&outcome.map_err(words)?);
    chain.rows += 2;
    chain.sees(chain.rows, "after a commit while the next rows were written").await?;
    let messages = chain.writer.prepare().await.map_err(words)?;
    let order = chain.order(3, Some(messages));
    let outcome = chain.commit(&order).await?;
    chain.rows += 4;
    chain.sees(chain.rows, "after the commit of the rows that were written meanwhile").await?;
    chain.learn(&outcome);
    Ok(())
}

async fn what_does_not_fit_is_refused(chain: &mut Chain<'_>) -> Result<(), Broken> {
    let messages = chain.prepare(1).await?;
    let strange = SinkCommit { floor: Floor { table: "another".into(), ..chain.floor.clone() }, ..chain.order(7, Some(messages.clone())) };
    chain.refused(&strange, "a checkpoint that speaks of another table").await?;
    let ahead = SinkCommit { floor: Floor { id: chain.floor.id + 100, ..chain.floor.clone() }, ..chain.order(7, Some(messages.clone())) };
    chain.refused(&ahead, "a checkpoint that speaks of a state that is not there").await?;
    let (floor, last) = (chain.floor.clone(), chain.last);
    let order = chain.order(7, Some(messages));
    let outcome = chain.commit(&order).await?;
    chain.rows += 1;
    let other = chain.prepare(1).await?;
    let twin = SinkCommit { digest: digest(-7), messages: Some(other.clone()), ..order };
    chain.refused(&twin, "the same identifier of another checkpoint").await?;
    let older = SinkCommit { identifier: 5, digest: digest(5), messages: Some(other.clone()), floor, last, ..twin };
    chain.refused(&older, "a checkpoint that is older than what has landed").await?;
    chain.learn(&outcome);
    let foreign = SinkCommit { user: user(99), ..chain.order(8, Some(other)) };
    chain.refused(&foreign, "a message of another commit user").await
}

async fn closing_ends_a_lineage(bench: &dyn Bench, mut chain: Chain<'_>) -> Result<(), Broken> {
    let messages = chain.prepare(1).await?;
    let close = chain.closing(None);
    for _ in 0..2 {
        let at: ClosedAt = chain.sink.close(&close).await.map_err(words)?;
        ensure(at == Some(7), format!("closed at {at:?}, not at the newest identifier 7, also the second time"))?;
        chain.reopen().await?;
    }
    let late = chain.order(9, Some(messages));
    chain.refused(&late, "a commit of a closed lineage").await?;
    let nothing = Chain::begin(bench, 2).await?;
    let mut sink = bench.open().await.map_err(words)?;
    let at = sink.close(&nothing.closing(None)).await.map_err(words)?;
    ensure(at.is_none(), "a lineage that has landed nothing is closed at nothing")
}

async fn closing_tells_whether_the_pending_commit_landed(bench: &dyn Bench) -> Result<(), Broken> {
    for (n, identifier, lands) in [(3, 1, true), (4, 1, false), (5, END_OF_INPUT, true), (6, END_OF_INPUT, false)] {
        let mut chain = Chain::begin(bench, n).await?;
        let messages = chain.prepare(1).await?;
        let order = chain.order(identifier, Some(messages));
        if lands {
            chain.commit(&order).await?;
            chain.rows += 1;
        }
        chain.reopen().await?;
        let close = chain.closing(Some(&order));
        let at = chain.sink.close(&close).await.map_err(words)?;
        ensure(at == lands.then_some(identifier), format!("a pending commit {identifier} that landed: {lands}; closed at {at:?}"))?;
        if !lands {
            chain.refused(&order, "the pending commit of a closed lineage").await?;
        }
    }
    Ok(())
}

async fn anchors_hold(bench: &dyn Bench) -> Result<(), Broken> {
    let (one, two) = (bench.open().await.map_err(words)?, bench.open().await.map_err(words)?);
    let registration = |pipeline: &str, n: u8| Registration {
        pipeline: pipeline.to_owned(),
        chain: "chain".into(),
        location: "place".into(),
        sink: one.anchor().url().to_owned(),
        user: user(n),
        seq: u64::from(n),
    };
    let (first, second) = (registration("conformance", 1), registration("conformance", 2));
    for anchor in [one.anchor(), two.anchor()] {
        anchor.register(&first).await.map_err(words)?;
    }
    let taken = two.anchor().register(&Registration { chain: "another".into(), ..first.clone() }).await;
    ensure(matches!(taken, Err(e) if e.kind() == Kind::Data), "another registration in the same place is Data")?;
    one.anchor().register(&second).await.map_err(words)?;
    one.anchor().register(&registration("conformance-eu", 1)).await.map_err(words)?;
    let mut found = two.anchor().registrations("conformance").await.map_err(words)?;
    found.sort_by_key(|r| r.seq);
    ensure(found == [first, second], format!("registrations of one pipeline, all of them and no others: {found:?}"))?;
    for n in [1, 2] {
        one.anchor().pin(&user(n), 1).await.map_err(words)?;
    }
    two.anchor().unpin("conformance", 2).await.map_err(words)?;
    two.anchor().unpin("conformance", 2).await.map_err(words)?;
    two.anchor().forget("conformance").await.map_err(words)?;
    let none = one.anchor().registrations("conformance").await.map_err(words)?;
    let other = one.anchor().registrations("conformance-eu").await.map_err(words)?;
    ensure(none.is_empty() && other.len() == 1, "forget takes away the registrations of one pipeline, and no others")
}

#[cfg(test)]
mod tests;
