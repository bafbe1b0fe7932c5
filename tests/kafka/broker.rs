//! Apache Kafka brokers on free ports of the loopback device, by `broker.sh`. They end with their value, and with the process of the tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::metadata::Metadata;
use rdkafka::{Offset, TopicPartitionList};
use rustix::process::{Pid, Signal, kill_process};

/// Nothing that a broker is asked for takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(180);

/// Brokers of 300 MB each that tests may have to themselves at once, besides the shared one.
const SLOTS: usize = 2;
static TAKEN: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// The right to a broker of one's own.
struct Slot;

impl Slot {
    fn take() -> Slot {
        let taken = TAKEN.0.lock().unwrap();
        *TAKEN.1.wait_while(taken, |taken| *taken >= SLOTS).unwrap() += 1;
        Slot
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *TAKEN.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) -= 1;
        TAKEN.1.notify_all();
    }
}

/// What a broker is started with. `broker.sh` formats its storage with it too.
pub(crate) struct Properties {
    /// `server.properties`. The listener `PLAINTEXT` is there already, also for the brokers among themselves.
    pub(crate) server: BTreeMap<String, String>,
    /// More arguments of the storage tool: `["--add-scram", "SCRAM-SHA-512=[name=alice,password=secret]"]`.
    pub(crate) format: Vec<String>,
    /// More arguments of the JVM: `-Dname=value`.
    pub(crate) java: Vec<String>,
}

impl Properties {
    /// Node 1 of a cluster is its controller too; the others follow it.
    fn new(dir: &Path, node: u32, address: &str, controller: &str) -> Properties {
        let (roles, listeners) = match node {
            1 => ("broker,controller", format!("PLAINTEXT://{address},CONTROLLER://{controller}")),
            _ => ("broker", format!("PLAINTEXT://{address}")),
        };
        let data = dir.join("data");
        let server = [
            ("process.roles", roles),
            ("node.id", &node.to_string()),
            ("controller.quorum.voters", &format!("1@{controller}")),
            ("listeners", &listeners),
            ("advertised.listeners", &format!("PLAINTEXT://{address}")),
            ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            ("inter.broker.listener.name", "PLAINTEXT"),
            ("controller.listener.names", "CONTROLLER"),
            ("log.dirs", data.to_str().unwrap()),
            ("auto.create.topics.enable", "false"),
            ("offsets.topic.replication.factor", "1"),
            ("offsets.topic.num.partitions", "1"),
            ("transaction.state.log.replication.factor", "1"),
            ("transaction.state.log.min.isr", "1"),
            ("transaction.state.log.num.partitions", "1"),
            ("group.initial.rebalance.delay.ms", "0"),
            ("num.network.threads", "2"),
            ("num.io.threads", "4"),
            // The records of tests are of any age.
            ("log.retention.ms", "-1"),
            // What is to be cleaned or deleted is so at once.
            ("log.initial.task.delay.ms", "200"),
            ("log.cleaner.backoff.ms", "200"),
            ("log.retention.check.interval.ms", "500"),
            ("log.segment.delete.delay.ms", "500"),
            // Everybody may do everything but what a test denies.
            ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            ("allow.everyone.if.no.acl.found", "true"),
        ];
        let server = server.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Properties { server, format: Vec::new(), java: Vec::new() }
    }

    /// Sets one of `server.properties`.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.server.insert(key.to_owned(), value.to_owned());
    }

    /// One more listener, by a name of capital letters; returns its address.
    pub(crate) fn listener(&mut self, name: &str, protocol: &str) -> String {
        let address = free_address();
        for (key, more) in [
            ("listeners", format!("{name}://{address}")),
            ("advertised.listeners", format!("{name}://{address}")),
            ("listener.security.protocol.map", format!("{name}:{protocol}")),
        ] {
            write!(self.server.get_mut(key).unwrap(), ",{more}").unwrap();
        }
        address
    }

    fn store(&self, dir: &Path) {
        let text: String = self.server.iter().map(|(k, v)| format!("{k}={}\n", v.replace('\\', "\\\\"))).collect();
        std::fs::write(dir.join("server.properties"), text).unwrap();
        std::fs::write(dir.join("java.options"), self.java.join("\n")).unwrap();
    }
}

/// A broker with a directory of its own. It may be stopped and started again, with the same address and data.
pub(crate) struct Broker {
    /// Host and port of the listener `PLAINTEXT`.
    pub(crate) address: String,
    controller: String,
    dir: PathBuf,
    /// `broker.sh run`, whose standard input ends the broker; none: it is stopped.
    process: Mutex<Option<Child>>,
    _slot: Option<Slot>,
}

impl Broker {
    /// One for all tests that want topics of their own and leave the broker itself alone.
    pub(crate) fn shared() -> &'static Broker {
        static SHARED: OnceLock<Broker> = OnceLock::new();
        SHARED.get_or_init(|| Broker::new(None, None, |_| ()))
    }

    /// One of the test's own. A third waits until one of two is gone: do not hold two.
    pub(crate) fn start() -> Broker {
        Broker::with(|_| ())
    }

    /// One of the test's own, after these changes.
    pub(crate) fn with(change: impl FnOnce(&mut Properties)) -> Broker {
        Broker::new(Some(Slot::take()), None, change)
    }

    /// Another broker of the same cluster, node 2 or greater; it needs this one to live.
    pub(crate) fn beside(&self, node: u32) -> Broker {
        Broker::new(None, Some((node, &self.controller)), |_| ())
    }

    fn new(slot: Option<Slot>, of: Option<(u32, &str)>, change: impl FnOnce(&mut Properties)) -> Broker {
        let dir = tempfile::Builder::new().prefix("lakeward-kafka-").tempdir().unwrap().keep();
        let address = free_address();
        let (node, controller) = of.map_or_else(|| (1, free_address()), |(node, controller)| (node, controller.to_owned()));
        let mut properties = Properties::new(&dir, node, &address, &controller);
        change(&mut properties);
        properties.store(&dir);
        let broker = Broker { address, controller, dir, process: Mutex::new(None), _slot: slot };
        let output = script().arg("format").arg(&broker.dir).args(&properties.format).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        broker.start_again();
        broker
    }

    /// Starts it after it was stopped or killed, and waits until it is ready.
    pub(crate) fn start_again(&self) {
        let mut process = self.process.lock().unwrap();
        assert!(process.is_none(), "it runs");
        std::fs::write(self.dir.join("kafka.log"), "").unwrap();
        let mut command = script();
        command.arg("run").arg(&self.dir).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains("Kafka Server started") {
            let ended = child.try_wait().unwrap().is_some();
            assert!(!ended && Instant::now() < deadline, "the broker does not start\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
        *process = Some(child);
    }

    /// Stops it in order, as an upgrade does.
    pub(crate) fn stop(&self) {
        self.end(Signal::TERM);
    }

    /// SIGKILL.
    pub(crate) fn kill(&self) {
        self.end(Signal::KILL);
    }

    fn end(&self, signal: Signal) {
        let mut child = self.process.lock().unwrap().take().expect("it runs");
        self.send(signal);
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().unwrap().is_none() {
            if Instant::now() >= deadline {
                self.send(Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops it in order, and keeps a copy of its data.
    pub(crate) fn stop_and_keep(&self) -> PathBuf {
        self.stop();
        let kept = self.dir.join("kept");
        self.copy(&self.dir.join("data"), &kept);
        kept
    }

    /// Starts it again with data that was kept: as if its disk had been an older one.
    pub(crate) fn go_back_to(&self, kept: &Path) {
        self.stop();
        std::fs::remove_dir_all(self.dir.join("data")).unwrap();
        self.copy(kept, &self.dir.join("data"));
        self.start_again();
    }

    fn copy(&self, from: &Path, to: &Path) {
        let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
        assert!(status.success(), "{}", self.dir.display());
    }

    /// SIGSTOP: connections stay open, nothing is answered.
    pub(crate) fn pause(&self) {
        self.send(Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.send(Signal::CONT);
    }

    fn send(&self, signal: Signal) {
        let pid = std::fs::read_to_string(self.dir.join("pid")).unwrap();
        kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), signal).unwrap();
    }

    /// What it said since it was started last.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("kafka.log")).unwrap_or_default()
    }

    /// One of Kafka's own tools, with `--bootstrap-server` before `args`; returns its standard output.
    pub(crate) fn tool(&self, class: &str, args: &[&str]) -> String {
        let output = script().args(["tool", class, "--bootstrap-server", &self.address]).args(args).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{class} {args:?}\n{out}{}", String::from_utf8_lossy(&output.stderr));
        out
    }

    /// `CURRENT-OFFSET`, `LOG-END-OFFSET` and `LAG` of each partition that a group has committed, by Kafka's own tool. None is `-` there.
    pub(crate) fn lag(&self, group: &str) -> BTreeMap<(String, i32), [Option<i64>; 3]> {
        let out = self.tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &["--describe", "--group", group]);
        let rows = out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|words| words.first() == Some(&group));
        rows.map(|w| ((w[1].to_owned(), w[2].parse().unwrap()), [3, 4, 5].map(|i| w[i].parse().ok()))).collect()
    }

    /// The settings of a client of this broker.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.address).set("topic.metadata.propagation.max.ms", "100");
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().unwrap()
    }

    /// Creates a topic and waits until every partition has a leader.
    pub(crate) fn create_topic(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let topic = configs.iter().fold(topic, |topic, (k, v)| topic.set(k, v));
        block_on(self.admin().create_topics([&topic], &options())).unwrap().remove(0).unwrap();
        self.until_partitions(name, partitions);
    }

    /// Makes it `partitions` in all, and waits until each has a leader.
    pub(crate) fn add_partitions(&self, name: &str, partitions: i32) {
        let wanted = NewPartitions::new(name, usize::try_from(partitions).unwrap());
        block_on(self.admin().create_partitions([&wanted], &options())).unwrap().remove(0).unwrap();
        self.until_partitions(name, partitions);
    }

    /// Deletes a topic and waits until it is gone.
    pub(crate) fn delete_topic(&self, name: &str) {
        block_on(self.admin().delete_topics(&[name], &options())).unwrap().remove(0).unwrap();
        self.until(name, |metadata| metadata.topics().iter().all(|t| t.error().is_some()));
    }

    /// Deletes what lies below `offset` in a partition, as retention does.
    pub(crate) fn delete_records(&self, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).unwrap();
        let done = block_on(self.admin().delete_records(&list, &options())).unwrap();
        done.elements()[0].error().unwrap();
    }

    fn until_partitions(&self, topic: &str, partitions: i32) {
        let partitions = usize::try_from(partitions).unwrap();
        self.until(topic, |metadata| {
            metadata.topics().iter().all(|t| t.partitions().len() == partitions && t.partitions().iter().all(|p| p.leader() > 0))
        });
    }

    /// Waits until the metadata of a topic is as wanted.
    pub(crate) fn until(&self, topic: &str, wanted: impl Fn(&Metadata) -> bool) {
        let consumer: BaseConsumer = self.client().create().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while !consumer.fetch_metadata(Some(topic), Duration::from_secs(10)).is_ok_and(|metadata| wanted(&metadata)) {
            assert!(Instant::now() < deadline, "the topic {topic} is not as wanted\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The broker that leads a partition.
    pub(crate) fn leader(&self, topic: &str, partition: i32) -> i32 {
        let consumer: BaseConsumer = self.client().create().unwrap();
        let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).unwrap();
        metadata.topics()[0].partitions().iter().find(|p| p.id() == partition).unwrap().leader()
    }

    /// Moves a partition to this broker, and waits until it leads it.
    pub(crate) fn move_partition(&self, topic: &str, partition: i32, node: i32) {
        let file = self.dir.join("move.json");
        let plan = format!("{{\"version\":1,\"partitions\":[{{\"topic\":\"{topic}\",\"partition\":{partition},\"replicas\":[{node}]}}]}}");
        std::fs::write(&file, plan).unwrap();
        let args = ["--execute", "--reassignment-json-file", file.to_str().unwrap()];
        self.tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", &args);
        self.until(topic, |metadata| metadata.topics()[0].partitions().iter().any(|p| p.id() == partition && p.leader() == node));
    }

    /// The first offset that is there and the one after the last (the high watermark).
    pub(crate) fn watermarks(&self, topic: &str, partition: i32) -> (i64, i64) {
        let consumer: BaseConsumer = self.client().create().unwrap();
        consumer.fetch_watermarks(topic, partition, PATIENCE).unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let process = self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(mut child) = process {
            drop(child.stdin.take()); // which ends it
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE))
}

fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kafka/broker.sh"))
}

/// A port that nobody listens on, and that no connection takes for its own end while a broker is stopped: those are from 32768.
fn free_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id().wrapping_mul(31);
    for _ in 0..10_000 {
        let address = format!("127.0.0.1:{}", 20_000 + first.wrapping_add(NEXT.fetch_add(1, Ordering::SeqCst)) % 12_000);
        if TcpListener::bind(&address).is_ok() {
            return address;
        }
    }
    panic!("no free port");
}
