//! The broker that the demo brings along, and the producer that fills it: librdkafka's mock cluster, in this process.
//!
//! It keeps 5 MiB of each partition and drops what is older, whoever has read it. So the producer waits where more than [`ROOM`] would lie
//! above what the last checkpoint covers: whatever a killed process had read and not checkpointed is still there for the next one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tokio::sync::oneshot;

use crate::cli::demo::orders::{Flaw, Orders, number};
use crate::error::{Error, Result};

/// The topic, and how many partitions it has.
pub(super) const TOPIC: &str = "orders";
pub(super) const PARTITIONS: u64 = 16;
/// Bytes of JSON in a partition that no checkpoint covers yet, at most. LZ4 makes less than half of them.
const ROOM: u64 = 8 << 20;
/// One look at what holds the producer up.
const WAIT: Duration = Duration::from_millis(10);
/// Until what was produced is in the broker, which is in this process.
const FLUSH: Duration = Duration::from_secs(30);

/// A broken order, and where it went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Broken {
    pub(super) partition: u64,
    pub(super) offset: u64,
    /// Which order it is.
    pub(super) order: u64,
    pub(super) flaw: Flaw,
}

/// What was produced: what the tables must come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// Orders in each partition.
    pub(super) ends: Vec<u64>,
    pub(super) broken: Vec<Broken>,
    /// Of the good ones.
    pub(super) cents: u64,
    /// Of JSON.
    pub(super) bytes: u64,
}

impl Truth {
    pub(super) fn orders(&self) -> u64 {
        self.ends.iter().sum()
    }
    pub(super) fn good(&self) -> u64 {
        self.orders() - self.broken.len() as u64
    }
}

/// What the host and those who watch it share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Orders that were handed to the broker.
    produced: AtomicU64,
    /// No more orders than this, for the time being.
    allowed: AtomicU64,
    /// Offset in each partition below which no process will ever read again.
    kept: [AtomicU64; PARTITIONS as usize],
    over: AtomicBool,
    truth: Mutex<Option<Truth>>,
}

impl Shared {
    pub(super) fn produced(&self) -> u64 {
        self.produced.load(Ordering::Relaxed)
    }
    /// Lets the producer go on to so many orders.
    pub(super) fn allow(&self, orders: u64) {
        self.allowed.fetch_max(orders, Ordering::Relaxed);
    }
    /// Everything below `offset` is in a checkpoint.
    pub(super) fn keep(&self, partition: usize, offset: u64) {
        if let Some(kept) = self.kept.get(partition) {
            kept.fetch_max(offset, Ordering::Relaxed);
        }
    }
    /// Nobody needs the broker any more.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
    fn over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
    /// What was produced, once all of it is in the broker.
    pub(super) fn truth(&self) -> Option<Truth> {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    pub(super) fn is_done(&self) -> bool {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Starts the broker, tells its address, produces, and stays until [`Shared::end`]. Blocks its thread.
pub(super) fn host(orders: Orders, shared: &Shared, ready: oneshot::Sender<String>) -> Result<()> {
    let cluster = MockCluster::new(1).map_err(|e| failed("the broker cannot be started", e))?;
    let partitions = i32::try_from(orders.partitions).unwrap_or(i32::MAX);
    cluster.create_topic(TOPIC, partitions, 1).map_err(|e| failed("the topic cannot be created", e))?;
    let servers = cluster.bootstrap_servers();
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &servers)
        .set("compression.type", "lz4")
        // A fetch brings one batch of each partition, so batches should be large.
        .set("linger.ms", "20")
        // Each order is there once and in its place, as the offsets in the truth have it.
        .set("enable.idempotence", "true")
        .set("delivery.report.only.error", "true")
        .create()
        .map_err(|e| failed("the producer cannot be started", e))?;
    if ready.send(servers).is_err() {
        return Ok(());
    }
    let truth = match produce(&orders, &producer, shared)? {
        None => return Ok(()), // called off
        Some(truth) => truth,
    };
    *shared.truth.lock().unwrap_or_else(PoisonError::into_inner) = Some(truth);
    while !shared.over() {
        producer.poll(WAIT);
    }
    drop(producer);
    drop(cluster);
    Ok(())
}

fn produce(orders: &Orders, producer: &BaseProducer, shared: &Shared) -> Result<Option<Truth>> {
    let mut truth = Truth { ends: vec![0; usize::try_from(orders.partitions).unwrap_or_default()], ..Truth::default() };
    let (mut json, mut key) = (Vec::with_capacity(1024), Vec::new());
    for i in 0..orders.count {
        let order = orders.write(i, &mut json);
        let partition = usize::try_from(order.partition).unwrap_or_default();
        let offset = truth.ends[partition];
        truth.bytes += json.len() as u64;
        let room = ROOM * (i + 1) / truth.bytes; // in orders as long as those so far
        while i >= shared.allowed.load(Ordering::Relaxed) || offset - shared.kept[partition].load(Ordering::Relaxed).min(offset) >= room {
            if shared.over() {
                return Ok(None);
            }
            producer.poll(WAIT);
        }
        key.clear();
        number(i + 1, &mut key);
        let (to, time) = (i32::try_from(partition).unwrap_or_default(), order.time_ms.cast_signed());
        let mut record = BaseRecord::to(TOPIC).partition(to).key(key.as_slice()).payload(json.as_slice()).timestamp(time);
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) if !shared.over() => {
                    producer.poll(WAIT);
                    record = again;
                }
                Err((error, _)) => return Err(failed("an order cannot be produced", error)),
            }
        }
        truth.ends[partition] += 1;
        match order.flaw {
            None => truth.cents += order.cents,
            Some(flaw) => truth.broken.push(Broken { partition: order.partition, offset, order: i, flaw }),
        }
        shared.produced.store(i + 1, Ordering::Relaxed);
    }
    producer.flush(FLUSH).map_err(|e| failed("not all orders reached the broker", e))?;
    for (partition, end) in truth.ends.iter().enumerate() {
        let partition = i32::try_from(partition).unwrap_or_default();
        let (_, high) = producer.client().fetch_watermarks(TOPIC, partition, FLUSH).map_err(|e| failed("the broker does not answer", e))?;
        if u64::try_from(high).ok() != Some(*end) {
            let what = format!("{end} orders were produced to partition {partition}, and the broker ends at {high}");
            return Err(Error::internal(what));
        }
    }
    Ok(Some(truth))
}

fn failed(what: &str, cause: KafkaError) -> Error {
    Error::unavailable(what).at("the demo's broker").because(cause).hint("start the demo again")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rdkafka::consumer::{BaseConsumer, Consumer as _};

    use super::*;
    use crate::env::Env;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_producer_waits_for_checkpoints_before_the_broker_drops_what_a_killed_process_needs() {
        let (env, shared) = (Env::real(), Arc::new(Shared::default()));
        let orders = Orders { seed: 3, count: 60_000, partitions: 1 };
        let (ready, servers) = oneshot::channel();
        let (host_env, theirs) = (env.clone(), shared.clone());
        let host = async move { host_env.cpu(move || host(orders, &theirs, ready)).await };
        let watch = async {
            let servers = servers.await.unwrap();
            let client: BaseConsumer = ClientConfig::new().set("bootstrap.servers", &servers).create().unwrap();
            shared.allow(orders.count);
            let mut held = Vec::new();
            while !shared.is_done() {
                let before = shared.produced();
                env.sleep(Duration::from_millis(300)).await;
                if shared.produced() == before && !shared.is_done() {
                    // It waits. Nothing that is in no checkpoint is gone.
                    let (low, _) = client.fetch_watermarks(TOPIC, 0, FLUSH).unwrap();
                    assert!(u64::try_from(low).unwrap() <= held.last().copied().unwrap_or(0), "{low} {held:?}");
                    held.push(before);
                    shared.keep(0, before);
                }
            }
            shared.end();
            held
        };
        let (hosted, held) = futures::join!(host, watch);
        hosted.unwrap();
        assert!(held.iter().any(|n| (10_000..60_000).contains(n)), "{held:?}");
        let truth = shared.truth().unwrap();
        assert_eq!((truth.orders(), truth.good(), truth.broken.len()), (60_000, 59_940, 60));
    }
}
