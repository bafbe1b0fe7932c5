//! What the source tells of its partitions while it runs. Where they end is asked for by a thread with a client of its own: the client that
//! reads learns it only from what it fetches, and it fetches nothing while reading is held back, which is when lag matters most.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::client::{self, Client, Purpose};
use super::options::KafkaOptions;
use super::resolve::Lookup;
use super::topics::split_name;
use super::waiting::Waiting;
use crate::error::Result;
use crate::source::{Offsets, Origin, Records, SplitStatus, Status};

/// How often ends are asked for; less often where there are many.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_AT_MANY: Duration = Duration::from_secs(5);
const MANY: usize = 1000;

/// The status, and what it needs to know besides.
#[derive(Default)]
pub(super) struct Known {
    pub(super) status: Arc<Status>,
    /// Per split what the checkpoint has that is being made: the offset to read next, the timestamp of the last record below.
    taken: Mutex<HashMap<String, (u64, Option<i64>)>>,
}

impl Known {
    /// These are read, each from where it stands.
    pub(super) fn begins<'a>(&self, splits: impl Iterator<Item = (&'a Origin, u64)>) {
        self.status.update(|all| {
            for (origin, start) in splits {
                all.insert(origin.split.clone(), SplitStatus { read: start, committed: start, ..new(origin) });
            }
        });
    }

    /// A chunk was handed on; `records` may be none, then only the position moved.
    pub(super) fn read(&self, origin: &Origin, next: u64, records: Option<&Records>) {
        let last = records.and_then(|r| r.timestamps.last()).copied().filter(|ms| *ms >= 0);
        self.status.update(|all| {
            if !all.contains_key(&origin.split) {
                all.insert(origin.split.clone(), new(origin));
            }
            if let Some(s) = all.get_mut(&origin.split) {
                s.read = s.read.max(next);
                s.read_ms = last.or(s.read_ms);
                // What was read exists, whatever the last answer was.
                s.end = s.end.map(|end| end.max(next));
            }
        });
    }

    /// A checkpoint is made of what was read.
    pub(super) fn taken(&self) {
        let taken = self.status.look(|all| all.iter().map(|(split, s)| (split.clone(), (s.read, s.read_ms))).collect());
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = taken;
    }

    /// Everything below `offsets` is durable and visible.
    pub(super) fn committed(&self, offsets: &Offsets) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        self.status.update(|all| {
            for (split, s) in all {
                let Some(offset) = offsets.position(split).map(|p| p.offset) else { continue };
                s.committed = offset;
                if let Some((_, ms)) = taken.get(split).filter(|(next, _)| *next == offset) {
                    s.committed_ms = ms.or(s.committed_ms);
                }
            }
        });
    }
}

fn new(origin: &Origin) -> SplitStatus {
    SplitStatus { name: origin.name.clone(), partition: origin.partition, ..SplitStatus::default() }
}

/// Asks for ends until it is dropped.
pub(super) struct Ends(Arc<(Mutex<bool>, Condvar)>);

impl Ends {
    /// None when there can be no thread: then ends are not known, and nothing else is amiss.
    pub(super) fn watch(options: &KafkaOptions, status: Arc<Status>, waiting: Arc<Waiting>) -> Option<Ends> {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let (options, stop) = (options.to_the_end(), over.clone());
        let work = move || {
            let mut client = None;
            loop {
                if let Err(error) = look(&options, &mut client, &status) {
                    tracing::debug!(%error, "Kafka did not say where partitions end");
                }
                let held = waiting.lock().held;
                status.update(|all| all.values_mut().for_each(|s| s.paused = held));
                let pause = if status.look(BTreeMap::len) > MANY { LOOK_AT_MANY } else { LOOK };
                let ended = stop.0.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = stop.1.wait_timeout_while(ended, pause, |ended| !*ended);
                if waited.is_ok_and(|(ended, _)| *ended) {
                    return;
                }
            }
        };
        // It is not waited for: a question to brokers that are away takes its time.
        let thread = std::thread::Builder::new().name("kafka-ends".to_owned()).spawn(work);
        thread.inspect_err(|error| tracing::warn!(%error, "lag is not known: no thread to ask for it")).ok()?;
        Some(Ends(over))
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

fn look(options: &KafkaOptions, client: &mut Option<Client>, status: &Status) -> Result<()> {
    let client = match client {
        Some(client) => {
            client::hear(client);
            client
        }
        None => {
            let new = client::connect(options, Purpose::Lookup, None)?.0;
            client::greet(&new, options)?;
            client.insert(new)
        }
    };
    let partitions: Vec<(String, i32)> = status.look(|all| all.values().filter_map(|s| Some((s.name.clone(), s.partition?))).collect());
    let ends = Lookup { client, options }.ends(&partitions)?;
    status.update(|all| {
        for ((topic, partition), end) in ends {
            if let Some(s) = all.get_mut(&split_name(&topic, partition)) {
                s.end = Some(end.max(s.read));
            }
        }
    });
    Ok(())
}
