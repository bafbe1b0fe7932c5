//! Can a location carry Lakeward? Each thing that the protocol leans on is tried there.
//!
//! Nothing is believed because a store says that it is S3: one server refuses a second create that comes after the first, and lets every one
//! of sixteen creates win that come at once. So creates are raced, one try each, below [`publish`](mod@crate::publish): its reading back would
//! tell all but one winner that they had lost, and hide what is to be found out.

mod disk;
mod race;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::pin::pin;

use futures::FutureExt as _;

use crate::error::{Error, Kind, Result};
use crate::store::Store;

/// How a location is examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorOptions {
    /// How many create one name at once, each over a connection of its own: 2 to 256.
    pub racers: usize,
    /// How many names are raced for: 1 or more.
    pub rounds: usize,
}

impl Default for DoctorOptions {
    fn default() -> Self {
        DoctorOptions { racers: 16, rounds: 40 }
    }
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// As it must be.
    Ok,
    /// It does, under a condition that the detail names.
    Warning,
    /// The location cannot carry what is promised.
    Failed,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Health::Ok => "ok",
            Health::Warning => "warning",
            Health::Failed => "failed",
        })
    }
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was tried: `race to create`.
    pub name: &'static str,
    /// What came of it.
    pub health: Health,
    /// What was seen, and what follows.
    pub detail: String,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Check {
        Check { name, health: Health::Ok, detail: detail.into() }
    }
    fn warning(name: &'static str, detail: impl Into<String>) -> Check {
        Check { name, health: Health::Warning, detail: detail.into() }
    }
    fn failed(name: &'static str, detail: impl Into<String>) -> Check {
        Check { name, health: Health::Failed, detail: detail.into() }
    }
}

/// Tries everything below a directory of its own at the location, tells each check when it is done, and removes what it wrote.
///
/// `open` opens the location; it is called once for each racer, so that none shares a connection with another. When `stop` comes, the
/// examination ends after the check that is under way: nothing may be written after the cleaning. A check that fails is no error. `Invalid`,
/// `Unavailable`: the location cannot be examined at all, or not to the end.
pub async fn examine(
    open: &dyn Fn() -> Result<Store>,
    options: &DoctorOptions,
    tell: &mut dyn FnMut(Check),
    stop: impl Future<Output = ()>,
) -> Result<()> {
    if !(2..=256).contains(&options.racers) || options.rounds == 0 {
        return Err(Error::invalid(format!("{} racers in {} rounds make no race", options.racers, options.rounds))
            .hint("take 2 to 256 racers and one round at least"));
    }
    let store = open()?;
    let dir = format!("_lakeward-doctor-{}", store.env().uuid());
    let missing = disk::missing(&store);
    let mut reached = false;
    let mut told = |check: Check| {
        reached = true;
        tell(check);
    };
    let own = store.child(&dir)?;
    let mut stop = pin!(stop);
    let mut go_on = || match stop.as_mut().now_or_never() {
        None => Ok(()),
        Some(()) => Err(Error::unavailable("stopped before the end").hint("run it again")),
    };
    let checked = checks(open, &own, &dir, options, &mut told, &mut go_on).await;
    if !reached {
        return checked; // nothing was written, and a store that is away would be waited for once more
    }
    let cleaned = clean(&store, &dir, &missing).await;
    checked?;
    match cleaned {
        Ok(objects) => tell(Check::ok("clean up", format!("{objects} objects that were written are deleted"))),
        Err(e) => tell(Check::warning("clean up", format!("{dir} stays behind: {e}"))),
    }
    Ok(())
}

async fn checks(
    open: &dyn Fn() -> Result<Store>,
    own: &Store,
    dir: &str,
    options: &DoctorOptions,
    tell: &mut dyn FnMut(Check),
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    if own.is_local() {
        disk::checks(own)?.into_iter().for_each(&mut *tell);
    }
    // Also says that the bucket is missing, or that nobody may write to it: then there is nothing to examine.
    tell(settle("write and read", store::write_and_read(own).await, own.is_local())?);
    go_on()?;
    tell(settle("create twice", store::create_twice(own).await, true)?);
    let racers: Vec<Store> = (0..options.racers).map(|_| open()?.child(dir)).collect::<Result<_>>()?;
    go_on()?;
    tell(settle(race::NAME, race::race(&racers, options.rounds).await, true)?);
    go_on()?;
    tell(settle("read after create", store::read_after_create(own).await, true)?);
    go_on()?;
    tell(settle("list after create", store::list_after_create(own).await, true)?);
    go_on()?;
    tell(settle("list after delete", store::list_after_delete(own).await, true)?);
    go_on()?;
    tell(settle("replace", store::replace(own).await, true)?);
    go_on()?;
    tell(settle("upload by parts", store::upload(own).await, true)?);
    go_on()?;
    tell(settle("names", store::names(own).await, true)?);
    if own.url().starts_with("s3") {
        tell(Check::ok("other writers", OTHERS));
    }
    Ok(())
}

/// What no examination of a store can find out.
const OTHERS: &str = "cannot be tried from here: a Delta table is safe to share with those that create commits by `If-None-Match` (delta-rs by \
    default), and not with those that lock through DynamoDB (Spark's S3DynamoDBLogStore, delta-rs with AWS_S3_LOCKING_PROVIDER=dynamodb) or \
    believe to be alone (Spark's default log store on S3): they would replace our commits";

/// A store that refuses a call, or answers what makes no sense, has failed the check; one that is away cannot be examined.
fn settle(name: &'static str, checked: Result<Check>, examined: bool) -> Result<Check> {
    match checked {
        Ok(check) => Ok(check),
        Err(e) if examined && matches!(e.kind(), Kind::Invalid | Kind::Data) => Ok(Check::failed(name, e.to_string())),
        Err(e) => Err(e),
    }
}

/// Removes what was written; how many objects. What a listing left out may be in the next one.
async fn clean(store: &Store, dir: &str, missing: &[std::path::PathBuf]) -> Result<usize> {
    let mut deleted = BTreeSet::new();
    for _ in 0..5 {
        let entries = store.list_all(dir).await?;
        if entries.iter().all(|e| deleted.contains(&e.name)) {
            break;
        }
        for entry in entries {
            store.delete(&format!("{dir}/{}", entry.name)).await?;
            deleted.insert(entry.name);
        }
    }
    disk::clean(store, dir, missing)?;
    Ok(deleted.len())
}
