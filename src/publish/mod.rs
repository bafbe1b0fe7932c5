//! Conditional create of one object: `Published` or `Taken`. Unclear answers are resolved inside.
//!
//! *Already exists*, 409, 412, a timeout and a 5xx all mean *maybe me*: the client, a proxy or the network may have sent the request
//! twice. So the object is read back, and its bytes decide. Nothing is ever deleted here: what is there may be ours, and what is not
//! there yet may still arrive.

#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::env::{Deadline, Rule};
use crate::error::{Error, Result};
use crate::store::{Failure, Store, Verdict};

/// What became of a conditional create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publication {
    /// The object is ours and durable.
    Published,
    /// Another object has the name: its bytes, durable.
    Taken(Bytes),
}

/// Creates `name` with `bytes` unless it exists. `bytes` must hold a nonce made for this attempt, so that reading the same bytes back
/// means *mine*.
///
/// One try is made even if `deadline` has passed. `Unavailable` after `deadline`: the message says whether the object may exist.
/// `Invalid`: the store definitely refused, and nothing was written.
pub async fn publish(store: &Store, name: &str, bytes: Bytes, deadline: Deadline) -> Result<Publication> {
    let mut attempt = Attempt { store, name, deadline, failures: 0, maybe: false };
    loop {
        let failure = match store.create(name, bytes.clone()).await {
            Ok(()) => return Ok(Publication::Published),
            Err(failure) => failure,
        };
        match failure.verdict {
            // An earlier try may still take effect, or has: only then a refusal of this one says nothing.
            Verdict::Refused if !attempt.maybe => return Err(failure.refused(store, "create", name)),
            Verdict::Failed if !attempt.maybe => {
                attempt.wait(failure).await?;
                continue;
            }
            _ => attempt.maybe = true,
        }
        let env = store.env();
        if env.broken(Rule::ReadBack) {
            return Ok(Publication::Published);
        }
        if env.broken(Rule::KeepUnclear) {
            let _ = store.delete(name).await;
            attempt.wait(failure).await?;
            continue;
        }
        match attempt.read_back().await? {
            Some(found) if found == bytes => return attempt.settled(Publication::Published).await,
            Some(found) => return attempt.settled(Publication::Taken(found)).await,
            None if failure.verdict == Verdict::Refused => return Err(attempt.give_up(failure)),
            None => attempt.wait(failure).await?,
        }
    }
}

struct Attempt<'a> {
    store: &'a Store,
    name: &'a str,
    deadline: Deadline,
    /// Calls that failed so far.
    failures: u32,
    /// May an object of ours exist?
    maybe: bool,
}

impl Attempt<'_> {
    /// What is there now. A read that fails is not "absent".
    async fn read_back(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self.store.get_once(self.name).await {
                Ok(found) => return Ok(found),
                Err(failure) => self.wait(failure).await?,
            }
        }
    }

    /// Whoever finds an object makes it durable before going on: its writer may have died before it could.
    async fn settled(&mut self, publication: Publication) -> Result<Publication> {
        loop {
            match self.store.settle_once(self.name) {
                // Removed since it was read: that is for the caller's next look at the directory.
                Ok(()) | Err(Failure { verdict: Verdict::Absent, .. }) => return Ok(publication),
                // The kernel may have dropped the bytes: trying again would say yes and mean nothing.
                Err(failure) if failure.verdict == Verdict::Lost => return Err(self.give_up(failure)),
                Err(failure) => self.wait(failure).await?,
            }
        }
    }

    async fn wait(&mut self, failure: Failure) -> Result<()> {
        self.failures += 1;
        let env = self.store.env();
        let Some(left) = env.left(self.deadline) else { return Err(self.give_up(failure)) };
        self.store.retrying("create", self.name, self.failures, &failure.error.to_string());
        env.sleep(env.backoff(self.failures - 1).min(left)).await;
        Ok(())
    }

    fn give_up(&self, failure: Failure) -> Error {
        let tries = self.failures.max(1);
        let known = if self.maybe { "whether it exists is not known" } else { "it was not created" };
        Error::unavailable(format!("could not create this in time ({tries} tries); {known}"))
            .at(self.store.place(self.name))
            .because(failure.error)
            .hint("run it again when the store answers: it then finds out")
    }
}
