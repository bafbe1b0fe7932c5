//! A process's own clock, ids and switches: everything it sees besides the store, as a function of what it did.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::env::{Env, Rule, World};

/// Each process has a clock of its own, moved by its sleeps alone, and ids made of its number and a counter. So what a process does
/// depends on its answers and on nothing else, and the same schedule gives the same bytes.
#[derive(Debug)]
pub struct Alone {
    process: u64,
    /// Wall clock at the start, milliseconds since 1970-01-01 UTC.
    started_ms: i64,
    micros: AtomicU64,
    ids: AtomicU64,
    broken: Arc<BTreeSet<Rule>>,
}

impl Alone {
    /// The world of process `process`, at this time.
    pub fn new(process: u64, started_ms: i64, broken: Arc<BTreeSet<Rule>>) -> Arc<Alone> {
        Arc::new(Alone { process, started_ms, micros: AtomicU64::new(0), ids: AtomicU64::new(1), broken })
    }
    /// As an environment.
    pub fn env(self: &Arc<Self>) -> Env {
        Env::new(self.clone())
    }
    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        self.micros.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 4), Ordering::Relaxed);
    }
}

#[async_trait]
impl World for Alone {
    fn now_ms(&self) -> i64 {
        self.started_ms + i64::try_from(self.micros.load(Ordering::Relaxed) / 1000).unwrap_or(0)
    }
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
    async fn sleep(&self, time: Duration) {
        self.wait(time);
    }
    fn uuid(&self) -> Uuid {
        let n = self.ids.fetch_add(1, Ordering::Relaxed);
        Uuid::from_u128((0xabcd << 112) | (u128::from(self.process) << 64) | u128::from(n))
    }
    fn threads(&self) -> bool {
        false
    }
    fn broken(&self, rule: Rule) -> bool {
        self.broken.contains(&rule)
    }
}
