//! THE commit loop: read, decide, stage, publish, confirm; again when the race was lost.

use std::time::Duration;

use crate::env::{Deadline, Env, Rule};
use crate::error::{Error, Kind, Result};
use crate::format::{Change, CommitUser, DataFile, Digest, Floor, Head, Landed, SnapshotLog, Standing, Work};
use crate::publish::{Publication, publish};
use crate::sink::Resolution;
use crate::store::Store;
use crate::table::decide::{Ask, Decision, Facts, Stop, decide};

/// A file that lay longer than this between checkpoint and commit may have been taken for an orphan by another engine's clean-up.
const OLD_FILE: Duration = Duration::from_secs(12 * 3600);

/// Between two tries of one commit.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
const MOST_PAUSE: Duration = Duration::from_secs(1);

/// One commit of one user.
pub(crate) struct Request<'a> {
    pub(crate) user: &'a CommitUser,
    /// None: walk as far as history goes.
    pub(crate) floor: Option<&'a Floor>,
    pub(crate) last: Option<i64>,
    pub(crate) ask: Ask,
    /// What to publish, if it comes to that. `Close` gets its `closed_at` from the decision.
    pub(crate) change: Option<Change>,
    pub(crate) resolve: Option<Resolution>,
    /// Files that must exist before they are published (a replay).
    pub(crate) check_files: bool,
    /// Files of the pending messages, for a close that must find out whether they landed.
    pub(crate) pending_files: Vec<String>,
}

/// How a commit ended, when it ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Published now, at this floor.
    Landed(Floor),
    /// Seen to have landed before, at this floor.
    Already(Floor),
    /// Nothing to land; `Some`: history below is gone, this is the floor now.
    Fine(Option<Floor>),
    /// The lineage is closed.
    Closed(Option<i64>),
}

/// What the loop works on.
pub(crate) struct Loop<'a> {
    pub(crate) log: &'a dyn SnapshotLog,
    pub(crate) store: &'a Store,
    pub(crate) deadline: Deadline,
}

impl Loop<'_> {
    pub(crate) async fn run(&self, request: &Request<'_>) -> Result<Done> {
        let env = self.store.env();
        let mut work = Work::default();
        let mut before: Option<Head> = None;
        for attempt in 0.. {
            let mut head = self.log.head(Some(request.user), request.floor, before.as_ref()).await?;
            if env.broken(Rule::OneRead) {
                let base = self.log.head(Some(request.user), request.floor, None).await?;
                head = Head { landed: head.landed, ..base };
            }
            match self.decide(request, &head).await? {
                Decision::AlreadyLanded => return Ok(Done::Already(self.landed_at(&head).await?)),
                Decision::Fine => return Ok(Done::Fine(None)),
                Decision::FineAtHead => return Ok(Done::Fine(Some(head.floor()))),
                Decision::Closed { closed_at } => return Ok(Done::Closed(closed_at)),
                Decision::Publish => {
                    let change = request.change.clone().ok_or_else(|| Error::internal("nothing to publish was given"))?;
                    if let Some(floor) = self.attempt(request, &head, &change, &mut work).await? {
                        return Ok(Done::Landed(floor));
                    }
                }
                Decision::PublishClose { closed_at } => {
                    let change = close_change(request, closed_at)?;
                    if self.attempt(request, &head, &change, &mut work).await?.is_some() {
                        return Ok(Done::Closed(closed_at));
                    }
                }
                Decision::Stop(stop) => return Err(self.stop(request, stop)),
                Decision::LookForFiles => return Err(Error::internal("the files were looked for already")),
            }
            tracing::debug!(table = self.store.url(), attempt, head = head.id, "another writer was first; again on the new head");
            self.wait(env, attempt, env.monotonic().saturating_sub(head.read_at)).await?;
            before = Some(head);
        }
        Err(Error::internal("the commit loop ended"))
    }

    async fn decide(&self, request: &Request<'_>, head: &Head) -> Result<Decision> {
        let mut facts = Facts { ask: request.ask, landed: &head.landed, last: request.last, live: None, resolve: request.resolve };
        let mut decision = decide(&facts);
        if decision == Decision::LookForFiles {
            facts.live = Some(self.log.any_live(head, &request.files()).await?);
            decision = decide(&facts);
        }
        if self.store.env().broken(Rule::Equality) {
            decision = by_order(&facts, decision);
        }
        Ok(decision)
    }

    /// One try on this head. None: the race was lost.
    async fn attempt(&self, request: &Request<'_>, head: &Head, change: &Change, work: &mut Work) -> Result<Option<Floor>> {
        if request.check_files {
            self.files_exist(change).await?;
        }
        let staged = self.log.stage(head, change, work).await?;
        match publish(self.store, &staged.name, staged.bytes.clone(), self.deadline).await? {
            Publication::Taken(_) => Ok(None),
            Publication::Published => match self.log.confirm(head, &staged).await? {
                Standing::Dead => Ok(None),
                Standing::In => {
                    if request.check_files && self.has_old_files(change) {
                        self.files_exist(change).await?;
                    }
                    Ok(Some(Floor { id: staged.id, sha256: Some(staged.sha256()), table: head.table.clone() }))
                }
            },
        }
    }

    /// The snapshot that was recognised, made durable before anybody builds on it; the head itself when only its files were seen.
    async fn landed_at(&self, head: &Head) -> Result<Floor> {
        let Landed::At { id, sha256, .. } = &head.landed else { return Ok(head.floor()) };
        match self.store.settle(&self.log.object(*id)).await {
            Ok(()) => Ok(Floor { id: *id, sha256: Some(*sha256), table: head.table.clone() }),
            // Delta: cleaned up below a checkpoint since the head was read. The head has it too.
            Err(e) if e.kind() == Kind::Data && *id < head.id => {
                self.store.settle(&self.log.object(head.id)).await?;
                Ok(head.floor())
            }
            Err(e) => Err(e),
        }
    }

    async fn files_exist(&self, change: &Change) -> Result<()> {
        for file in files(change) {
            let found = self.store.size(&file.path).await?;
            if found != Some(file.size) {
                let what = match found {
                    None => "a data file of the pending checkpoint is gone".to_owned(),
                    Some(size) => format!("a data file of the pending checkpoint has {size} bytes, not {}", file.size),
                };
                return Err(Error::data(what)
                    .at(format!("{}/{}", self.store.url(), file.path))
                    .hint("put the file back, or give the checkpoint up with --abandon N: its rows are then read and written again"));
            }
        }
        Ok(())
    }

    fn has_old_files(&self, change: &Change) -> bool {
        let limit = self.store.env().now_ms() - i64::try_from(OLD_FILE.as_millis()).unwrap_or(i64::MAX);
        files(change).any(|f| f.created_ms < limit)
    }

    /// After a lost race, in which `took` went by.
    async fn wait(&self, env: &Env, attempt: u32, took: Duration) -> Result<()> {
        // A race is over in the time that one try takes, be that a millisecond or a second: so that is what the waits are made of. Whoever
        // waited much longer than others need for a commit would hardly ever get a turn.
        let jitter = f64::from(env.uuid().as_bytes()[15]) / 255.0;
        let pause = (took * (1 << attempt.min(3))).mul_f64(jitter).clamp(LEAST_PAUSE, MOST_PAUSE);
        match env.left(self.deadline) {
            Some(left) if left > pause => env.sleep(pause).await,
            _ => {
                return Err(Error::unavailable(format!("other writers were first {} times; the commit's time is over", attempt + 1))
                    .at(self.store.url())
                    .hint("nothing was lost: start again, or raise commit.timeout"));
            }
        }
        Ok(())
    }

    fn stop(&self, request: &Request<'_>, stop: Stop) -> Error {
        let user = request.user;
        let last = request.last.map_or_else(|| "nothing".to_owned(), identifier);
        let (what, hint) = match stop {
            Stop::OtherContent => (
                format!("identifier {} of commit user {user} was landed by another checkpoint", asked(&request.ask)),
                "two chains wrote with one commit user, or the chain was restored from a backup; compare `table-cli snapshots` with `table-cli checkpoints`".to_owned(),
            ),
            Stop::MovedByOther(id) => (
                format!("somebody else committed as {user}, and set its identifier to {}", id.map_or_else(|| "nothing".to_owned(), identifier)),
                "find out who writes under this application id, and what its commits hold; then start anew with --rewind K".to_owned(),
            ),
            Stop::ClosedByOther => (
                format!("the lineage of commit user {user} was closed"),
                "a rewind or another copy of the chain ended it; look at `table-cli checkpoints`".to_owned(),
            ),
            Stop::Ahead(id) => (
                format!("the table is ahead of the chain: commit user {user} has landed {}, the chain knows of {last}", identifier(id)),
                "the chain is older than the table (restored from a backup?); restore the newest chain; going on would double rows".to_owned(),
            ),
            Stop::Behind(id) => (
                format!(
                    "the table is behind the chain: commit user {user} has landed {}, the chain says {last}",
                    id.map_or_else(|| "nothing".to_owned(), identifier)
                ),
                "the table was rolled back or restored, or a writer replaced a snapshot; go back with --rewind K to a checkpoint that it holds".to_owned(),
            ),
            Stop::OtherTable(why) => (
                why,
                "a table at this place was recreated, rolled back, or had a snapshot replaced; nothing was written. Restore it; or, to write \
                 everything again into the table as it is now, remove the pipeline's checkpoints and start with --forget"
                    .to_owned(),
            ),
            Stop::Unknown(why) => (
                format!("whether {} of commit user {user} has landed cannot be known any more: {why}", asked(&request.ask)),
                format!("find out, then start with --resolve {url}=landed or --resolve {url}=lost", url = self.store.url()),
            ),
        };
        Error::data(what).at(self.store.url()).hint(hint)
    }
}

impl Request<'_> {
    fn files(&self) -> Vec<String> {
        match &self.change {
            Some(change @ Change::Append(_)) => files(change).map(|f| f.path.clone()).collect(),
            Some(Change::Close { .. }) | None => self.pending_files.clone(),
        }
    }
}

fn files(change: &Change) -> impl Iterator<Item = &DataFile> {
    let committable = match change {
        Change::Append(c) => Some(c),
        Change::Close { .. } => None,
    };
    committable.into_iter().flat_map(|c| c.files())
}

fn close_change(request: &Request<'_>, closed: Option<i64>) -> Result<Change> {
    match &request.change {
        Some(Change::Close { user, properties, .. }) => {
            Ok(Change::Close { user: user.clone(), closed_at: closed, properties: properties.clone() })
        }
        Some(Change::Append(_)) | None => Err(Error::internal("a close without its change")),
    }
}

/// What others do: skip an identifier at or below the newest, land any other. Only for [`Rule::Equality`].
fn by_order(facts: &Facts<'_>, decision: Decision) -> Decision {
    let (Ask::Rows { identifier, .. } | Ask::Empty { identifier, .. }) = facts.ask else { return decision };
    let newest = match facts.landed {
        Landed::At { identifier, .. } => Some(*identifier),
        Landed::None => facts.last,
        Landed::Never | Landed::Unknown(_) | Landed::Other(_) => None,
    };
    if newest.is_some_and(|newest| identifier <= newest) { Decision::AlreadyLanded } else { Decision::Publish }
}

/// An identifier as people read it.
pub(crate) fn identifier(id: i64) -> String {
    if id == crate::format::END_OF_INPUT { "end of input".to_owned() } else { id.to_string() }
}

fn asked(ask: &Ask) -> String {
    match ask {
        Ask::Rows { identifier: id, .. } | Ask::Empty { identifier: id, .. } => identifier(*id),
        Ask::Look => "nothing".to_owned(),
        Ask::Close { pending } => pending.map_or_else(|| "nothing".to_owned(), |(id, _): (i64, Digest)| identifier(id)),
    }
}
