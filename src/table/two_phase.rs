//! Commits without a chain: the contract of Paimon's `StreamTableCommit`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::format::{Change, CommitMessage, CommitUser, Committable, Floor, Landed};
use crate::table::Table;
use crate::table::commit::{Done, Loop, Request, identifier};
use crate::table::decide::Ask;

#[cfg(test)]
mod tests;

/// Commits messages of one user. Identifiers must rise; after a failure use [`TableCommit::filter_and_commit`] with everything that is
/// not known to have landed.
pub struct TableCommit {
    table: Table,
    user: CommitUser,
    timeout: Duration,
    /// The user's newest identifier and where it was seen; so that a walk is short.
    known: Option<(Option<i64>, Floor)>,
}

/// What [`TableCommit::filter_and_commit`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Identifiers that were committed now.
    pub landed: Vec<i64>,
    /// Identifiers that had landed before.
    pub skipped: Vec<i64>,
}

impl TableCommit {
    pub(crate) fn new(table: Table, user: CommitUser) -> Self {
        TableCommit { table, user, timeout: Duration::from_secs(300), known: None }
    }

    /// How long a commit may try against other writers and an absent store.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Publishes one snapshot and returns its id. An identifier at or below the user's newest is `Conflict`, never a silent skip;
    /// a message of another user is `Invalid`. No messages: an empty snapshot.
    pub async fn commit(&mut self, id: i64, messages: Vec<CommitMessage>) -> Result<u64> {
        self.commit_with(id, messages, BTreeMap::new(), None).await
    }

    /// [`TableCommit::commit`] with snapshot properties and a watermark (milliseconds since 1970-01-01 UTC).
    pub async fn commit_with(
        &mut self,
        id: i64,
        messages: Vec<CommitMessage>,
        properties: BTreeMap<String, String>,
        watermark: Option<i64>,
    ) -> Result<u64> {
        self.check_users(&messages)?;
        let (last, floor) = self.newest().await?;
        if last.is_some_and(|last| id <= last) {
            return Err(Error::conflict(format!(
                "identifier {} is not above {}, the newest of commit user {}",
                identifier(id),
                identifier(last.unwrap_or_default()),
                self.user
            ))
            .at(self.table.url())
            .hint("a commit that may have landed before goes through filter_and_commit"));
        }
        let committable = Committable { user: self.user.clone(), identifier: id, checkpoint: None, watermark, properties, messages };
        self.publish(committable, last, &floor).await
    }

    /// Lands it on top of whatever comes, as long as `last` at `floor` is the user's newest.
    async fn publish(&mut self, committable: Committable, last: Option<i64>, floor: &Floor) -> Result<u64> {
        let id = committable.identifier;
        let ask = if committable.messages.is_empty() {
            Ask::Empty { identifier: id, digest: None }
        } else {
            Ask::Rows { identifier: id, digest: None }
        };
        let request = Request {
            user: &self.user,
            floor: Some(floor),
            last,
            ask,
            change: Some(Change::Append(committable)),
            resolve: None,
            check_files: false,
            pending_files: Vec::new(),
        };
        let store = self.table.store();
        let run = Loop { log: self.table.log.snapshots(), store, deadline: store.env().deadline(self.timeout) };
        match run.run(&request).await? {
            Done::Landed(at) => {
                let snapshot = at.id;
                self.known = Some((Some(id), at));
                Ok(snapshot)
            }
            // Not there a moment ago, and not published here: there is no checkpoint that could tell whose it is.
            Done::Already(_) => {
                Err(Error::conflict(format!("identifier {} of commit user {} was landed by another process", identifier(id), self.user))
                    .at(self.table.url())
                    .hint("run one committer at a time for a commit user; the files of this commit are in no snapshot"))
            }
            Done::Fine(_) | Done::Closed(_) => Err(Error::internal("a commit ended as something else")),
        }
    }

    /// Sorts by identifier, skips those at or below the user's newest, commits the rest in order, stops at the first failure.
    /// `Data` when the user is not found and history has been expired, or a file to be committed is gone.
    pub async fn filter_and_commit(&mut self, mut list: Vec<(i64, Vec<CommitMessage>)>) -> Result<Filtered> {
        list.sort_by_key(|(id, _)| *id);
        if let Some(pair) = list.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::invalid(format!("identifier {} is given twice", identifier(pair[0].0))));
        }
        let (last, _) = self.newest().await?;
        let mut filtered = Filtered::default();
        for (id, messages) in list {
            if last.is_some_and(|last| id <= last) {
                filtered.skipped.push(id);
                continue;
            }
            for file in messages.iter().flat_map(|m| &m.files) {
                if self.table.store().size(&file.path).await? != Some(file.size) {
                    return Err(Error::data(format!("a data file of identifier {} is gone or has another size", identifier(id)))
                        .at(format!("{}/{}", self.table.url(), file.path))
                        .hint("this commit cannot be replayed; write its rows again under a new identifier"));
                }
            }
            self.commit(id, messages).await?;
            filtered.landed.push(id);
        }
        Ok(filtered)
    }

    /// Removes the files of messages that were never given to a commit. Messages of a commit that failed or may have landed must not be
    /// given here: nobody knows whether they are in the table.
    pub async fn abort(&mut self, messages: Vec<CommitMessage>) -> Result<()> {
        self.check_users(&messages)?;
        let paths: Vec<String> = messages.iter().flat_map(|m| &m.files).map(|f| f.path.clone()).collect();
        let head = self.table.log.snapshots().head(Some(&self.user), None, None).await?;
        if self.table.log.snapshots().any_live(&head, &paths).await? {
            return Err(Error::conflict("these files are in the table already; they stay").at(self.table.url()));
        }
        for path in paths {
            self.table.store().delete(&path).await?;
        }
        Ok(())
    }

    /// The user's newest identifier, and the snapshot where it was read.
    async fn newest(&mut self) -> Result<(Option<i64>, Floor)> {
        let (last, floor) = match &self.known {
            Some((last, floor)) => (*last, Some(floor.clone())),
            None => (None, None),
        };
        let head = self.table.log.snapshots().head(Some(&self.user), floor.as_ref(), None).await?;
        let newest = match &head.landed {
            Landed::None => last,
            Landed::Never => None,
            Landed::At { identifier, .. } => Some(*identifier),
            Landed::Unknown(why) => {
                return Err(Error::data(format!("whether commit user {} has landed anything cannot be known: {why}", self.user))
                    .at(self.table.url())
                    .hint("use a new commit user, after making sure that nothing of this one is pending"));
            }
            Landed::Other(why) => return Err(Error::data(why.clone()).at(self.table.url())),
        };
        if last.is_some_and(|last| newest.is_none_or(|newest| newest < last)) {
            let told = |id: Option<i64>| id.map_or_else(|| "nothing".to_owned(), identifier);
            let what = format!("commit user {} had landed {}, and the table says {} now", self.user, told(last), told(newest));
            return Err(Error::data(what)
                .at(self.table.url())
                .hint("the table was restored, or another process writes under the same commit user; nothing was written"));
        }
        self.known = Some((newest, head.floor()));
        Ok((newest, head.floor()))
    }

    fn check_users(&self, messages: &[CommitMessage]) -> Result<()> {
        match messages.iter().find(|m| m.user != self.user) {
            None => Ok(()),
            Some(m) => {
                Err(Error::invalid(format!("a message of commit user {} cannot be committed by {}", m.user, self.user))
                    .at(self.table.url()))
            }
        }
    }
}
