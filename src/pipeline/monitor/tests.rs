use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use uuid::Uuid;

use super::*;
use crate::env::World;
use crate::source::SplitStatus;

/// A clock that is put forward by hand.
#[derive(Default)]
struct Clock(AtomicU64);

/// Wall clock of [`Clock`] at its beginning, milliseconds.
const BEGIN: i64 = 1_800_000_000_000;

#[async_trait]
impl World for Clock {
    fn now_ms(&self) -> i64 {
        BEGIN + i64::try_from(self.0.load(Ordering::Relaxed)).unwrap()
    }
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
    async fn sleep(&self, _: Duration) {}
    fn uuid(&self) -> Uuid {
        Uuid::from_u128(1)
    }
    fn threads(&self) -> bool {
        false
    }
}

struct Rig {
    clock: Arc<Clock>,
    monitor: Arc<Monitor>,
    status: Arc<Status>,
}

impl Rig {
    fn new(settings: Settings) -> Rig {
        let clock = Arc::new(Clock::default());
        let rig = Rig { monitor: Monitor::of(&Env::new(clock.clone()), settings), clock, status: Arc::default() };
        rig.monitor.follows(Some(rig.status.clone()));
        rig.monitor.saw(&Event::Started { run: "r".into(), user: "orders-1".into(), seq: 3, resumed: false });
        rig
    }
    /// Lets `seconds` pass, with a look every second, and returns what was told.
    fn pass(&self, seconds: u64) -> Vec<Event> {
        let told = Mutex::new(Vec::new());
        for _ in 0..seconds {
            self.clock.0.fetch_add(1000, Ordering::Relaxed);
            self.monitor.look(&|event| told.lock().unwrap().push(event));
        }
        told.into_inner().unwrap()
    }
    fn split(&self, partition: i32, change: impl FnOnce(&mut SplitStatus)) {
        self.status.update(|splits| {
            let new = || SplitStatus { name: "orders".into(), partition: Some(partition), end: Some(0), ..SplitStatus::default() };
            change(splits.entry(format!("orders-{partition}")).or_insert_with(new));
        });
    }
    fn read(&self, records: u64) {
        self.monitor.polled(Volume { records, bytes: records * 100 });
    }
    fn checkpoint(&self) {
        self.monitor.taken();
        let seq = self.monitor.state().seq.unwrap() + 1;
        let identifier = i64::try_from(seq).unwrap();
        self.monitor.saw(&Event::Checkpointed { seq, identifier, kind: "data", millis: 7 });
    }
    fn commit(&self) {
        let identifier = i64::try_from(self.monitor.state().seq.unwrap()).unwrap();
        let (sink, snapshot) = ("file:///lake/orders".to_owned(), 2);
        self.monitor.saw(&Event::Committed { sink, identifier, snapshot, rows: 10, bytes: 1000, files: 1, millis: 40 });
        self.monitor.settled();
    }
}

/// `every: 10s`, three intervals, `idle_after: 5s`.
fn settings() -> Settings {
    let interval = Duration::from_secs(10);
    Settings {
        pipeline: "orders".to_owned(),
        watchdog: Some(WatchdogSpec { intervals: 3, interval, exit: false }),
        idle_after: Some(Duration::from_secs(5)),
        timed: true,
        rows: None,
        bytes: None,
        memory: 1 << 29,
    }
}

fn stalls(events: &[Event]) -> usize {
    events.iter().filter(|e| matches!(e, Event::Stalled { .. })).count()
}

// ---- the watchdog ----------------------------------------------------------------------------------------------------------------------

#[test]
fn the_watchdog_speaks_once_after_its_intervals_and_again_only_after_a_commit() {
    let rig = Rig::new(settings());
    rig.read(5);
    rig.checkpoint();
    assert_eq!(stalls(&rig.pass(29)), 0, "29 s are less than three intervals");
    assert!(rig.monitor.health().healthy);
    let told = rig.pass(3);
    assert_eq!(stalls(&told), 1, "{told:?}");
    let health = rig.monitor.health();
    assert_eq!((health.healthy, health.status), (false, "stalled"));
    assert!(health.reason.unwrap().contains("the commit of checkpoint 4 does not end"));
    assert_eq!(stalls(&rig.pass(300)), 0, "it has spoken");
    rig.commit();
    assert!(rig.monitor.health().healthy, "a commit came");
    rig.read(1);
    assert_eq!(stalls(&rig.pass(29)), 0);
    assert_eq!(stalls(&rig.pass(2)), 1, "and no other one");
    assert!(rig.monitor.metrics().contains("lakeward_stalls_total{pipeline=\"orders\"} 2\n"));
}

#[test]
fn the_time_without_input_does_not_count_against_a_run() {
    let rig = Rig::new(settings());
    assert_eq!(stalls(&rig.pass(3600)), 0, "nothing waits");
    rig.read(1);
    assert_eq!(stalls(&rig.pass(29)), 0, "the record came after an hour of silence");
    rig.checkpoint();
    rig.commit();
    assert_eq!(stalls(&rig.pass(3600)), 0, "nothing waits");
    rig.split(0, |s| s.end = Some(10));
    assert_eq!(stalls(&rig.pass(40)), 1, "records that exist and are not read wait too");
}

#[test]
fn records_of_a_transaction_that_is_open_do_not_wait() {
    let rig = Rig::new(settings());
    rig.split(0, |s| (s.end, s.readable, s.read) = (Some(10), Some(4), 4));
    let told = rig.pass(3600);
    assert_eq!((stalls(&told), idle(&told).len()), (0, 1), "nothing can be read: {told:?}");
    rig.split(0, |s| s.readable = Some(10));
    assert_eq!(stalls(&rig.pass(40)), 1, "now they can");
}

#[test]
fn a_stream_that_commits_is_no_stall_however_far_behind_it_is() {
    let rig = Rig::new(settings());
    rig.split(0, |s| s.end = Some(1_000_000));
    for _ in 0..20 {
        rig.read(10);
        assert_eq!(stalls(&rig.pass(20)), 0);
        rig.checkpoint();
        rig.commit();
    }
}

#[test]
fn without_a_trigger_by_time_input_waits_only_once_a_checkpoint_is_due() {
    let interval = WatchdogSpec::WITHOUT_EVERY;
    let spec = WatchdogSpec { intervals: 10, interval, exit: true };
    let rig = Rig::new(Settings { timed: false, rows: Some(100), watchdog: Some(spec), ..settings() });
    rig.read(99);
    rig.split(0, |s| (s.end, s.read) = (Some(200), 99));
    assert_eq!(stalls(&rig.pass(3600)), 0, "99 records may wait for one more as long as they like");
    rig.read(1);
    assert_eq!(stalls(&rig.pass(590)), 0);
    assert_eq!(stalls(&rig.pass(20)), 1);
    let error = futures::executor::block_on(rig.monitor.given_up());
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert!(error.to_string().contains("10 intervals of 1m"), "{error}");
}

#[test]
fn a_watchdog_that_is_not_to_end_the_run_does_not() {
    let rig = Rig::new(settings());
    rig.read(1);
    assert_eq!(stalls(&rig.pass(40)), 1);
    assert!(futures::FutureExt::now_or_never(rig.monitor.given_up()).is_none());
}

#[test]
fn ten_intervals_are_the_default_and_a_minute_the_least() {
    let limit = |every: Option<u64>| WatchdogSpec::new(every.map(Duration::from_millis)).limit().as_secs();
    assert_eq!([limit(None), limit(Some(10_000)), limit(Some(60_000)), limit(Some(200)), limit(Some(7_000))], [600, 100, 600, 60, 70]);
}

// ---- silence ---------------------------------------------------------------------------------------------------------------------------

fn idle(events: &[Event]) -> Vec<String> {
    events.iter().filter_map(|e| if let Event::Idle { splits, .. } = e { Some(splits.join(",")) } else { None }).collect()
}

fn resumed(events: &[Event]) -> Vec<String> {
    events.iter().filter_map(|e| if let Event::Resumed { splits } = e { Some(splits.join(",")) } else { None }).collect()
}

#[test]
fn a_silent_split_is_told_once_a_spell_and_the_others_are_not() {
    let rig = Rig::new(settings());
    let mut told = Vec::new();
    for second in 1..=20 {
        (0..3).for_each(|p| rig.split(p, |s| (s.end, s.read) = (Some(second), second)));
        rig.split(3, |_| {});
        told.extend(rig.pass(1));
    }
    assert_eq!((idle(&told), resumed(&told)), (vec!["orders[3]".to_owned()], vec![]));
    let text = rig.monitor.metrics();
    assert!(text.contains("lakeward_partition_idle{pipeline=\"orders\",topic=\"orders\",partition=\"3\"} 1\n"), "{text}");
    assert!(text.contains("lakeward_partition_idle{pipeline=\"orders\",topic=\"orders\",partition=\"0\"} 0\n"), "{text}");
    rig.split(3, |s| (s.end, s.read) = (Some(1), 1));
    let told = rig.pass(1);
    assert_eq!((idle(&told), resumed(&told)), (vec![], vec!["orders[3]".to_owned()]));
    let told = rig.pass(10);
    assert_eq!(idle(&told).join(",").matches("orders[3]").count(), 1, "the next spell is told again: {told:?}");
    assert_eq!(rig.monitor.health().idle, 4);
}

#[test]
fn a_split_with_records_that_wait_is_not_silent() {
    let rig = Rig::new(settings());
    rig.split(0, |s| s.end = Some(5));
    assert_eq!(idle(&rig.pass(20)), Vec::<String>::new());
}

#[test]
fn without_idle_after_no_split_is_idle() {
    let rig = Rig::new(Settings { idle_after: None, ..settings() });
    rig.split(0, |_| {});
    assert_eq!(idle(&rig.pass(100)), Vec::<String>::new());
}

#[test]
fn a_broker_that_does_not_answer_wakes_no_idle_split() {
    let rig = Rig::new(settings());
    rig.split(0, |_| {});
    assert_eq!(idle(&rig.pass(6)), ["orders[0]"]);
    rig.split(0, |s| s.end = None);
    let told = rig.pass(10);
    assert_eq!((idle(&told), resumed(&told)), (vec![], vec![]));
}

// ---- metrics and health ----------------------------------------------------------------------------------------------------------------

/// Everything that can be said was said once.
fn full() -> Rig {
    let rig = Rig::new(settings());
    rig.split(0, |s| {
        (s.end, s.read, s.committed) = (Some(100), 90, 70);
        (s.read_ms, s.committed_ms) = (Some(BEGIN - 2_000), Some(BEGIN - 9_500));
    });
    rig.split(1, |s| (s.end, s.read, s.committed) = (Some(5), 5, 5));
    rig.split(2, |s| (s.end, s.paused) = (None, true));
    rig.read(95);
    rig.checkpoint();
    rig.commit();
    let (what, error) = ("create file:///lake/orders/snapshot/snapshot-3".to_owned(), "away".to_owned());
    rig.monitor.saw(&Event::Retry { what, attempt: 1, error });
    let stages = BTreeMap::from([("decode", 2), ("cast", 1)]);
    rig.monitor.saw(&Event::DeadLetters { records: 3, stages, first: String::new() });
    let (sink, identifier) = ("file:///lake/orders".to_owned(), 3);
    rig.monitor.saw(&Event::Finished { seq: 3, sink, identifier, snapshot: 1, already: true });
    rig
}

fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn lag_is_end_less_position_and_its_seconds_are_the_age_of_the_last_record() {
    let rig = full();
    let text = rig.monitor.metrics();
    let of =
        |name: &str, p: u32| value(&text, &format!("lakeward_partition_{name}{{pipeline=\"orders\",topic=\"orders\",partition=\"{p}\"}}"));
    assert_eq!([of("write_lag_records", 0), of("commit_lag_records", 0)], [Some(10.0), Some(30.0)]);
    assert_eq!([of("write_lag_seconds", 0), of("commit_lag_seconds", 0)], [Some(2.0), Some(9.5)]);
    assert_eq!([of("commit_lag_records", 1), of("commit_lag_seconds", 1)], [Some(0.0), Some(0.0)], "no lag has no age");
    assert_eq!([of("end_offset", 2), of("commit_lag_records", 2), of("read_offset", 2)], [None, None, Some(0.0)], "its end is not known");
    assert_eq!([of("paused", 0), of("paused", 2)], [Some(0.0), Some(1.0)]);
    let lag = rig.monitor.health().lag.unwrap();
    assert_eq!((lag.write, lag.commit), (10, 30));
}

#[test]
fn the_text_is_what_a_scraper_reads() {
    let text = full().monitor.metrics();
    assert!(text.ends_with('\n'));
    let mut current = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let name = rest.split(' ').next().unwrap();
            current = Some(FAMILIES.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("{name} is not listed")));
            continue;
        }
        let family = current.unwrap();
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest, format!("{} {}", family.name, family.kind.as_str()));
            continue;
        }
        let (name, rest) = line.split_once('{').unwrap();
        let (labels, value) = rest.rsplit_once("} ").unwrap();
        value.parse::<f64>().unwrap();
        let suffix = name.strip_prefix(family.name).unwrap_or_else(|| panic!("{line} stands under {}", family.name));
        let histogram = family.kind == exposition::MetricType::Histogram;
        assert!(if histogram { ["_bucket", "_sum", "_count"].contains(&suffix) } else { suffix.is_empty() }, "{line}");
        let names: Vec<&str> = labels.split("\",").map(|label| label.split('=').next().unwrap()).filter(|name| *name != "le").collect();
        assert_eq!(names, [&["pipeline"], family.labels].concat(), "{line}");
    }
    for family in FAMILIES {
        let count = text.matches(&format!("# TYPE {} ", family.name)).count();
        assert_eq!(count, 1, "{}", family.name);
        assert!(family.kind != exposition::MetricType::Counter || family.name.ends_with("_total"), "{}", family.name);
    }
}

#[test]
fn buckets_count_everything_below_their_bound() {
    let rig = Rig::new(settings());
    for millis in [4, 5, 40, 4_000, 400_000] {
        rig.monitor.saw(&Event::Checkpointed { seq: 4, identifier: 4, kind: "data", millis });
    }
    let text = rig.monitor.metrics();
    let below =
        |le: &str| value(&text, &format!("lakeward_checkpoint_duration_seconds_bucket{{pipeline=\"orders\",le=\"{le}\"}}")).unwrap();
    assert_eq!([below("0.005"), below("0.05"), below("2.5"), below("5"), below("300"), below("+Inf")], [2.0, 3.0, 3.0, 4.0, 4.0, 5.0]);
    let one = |end: &str| value(&text, &format!("lakeward_checkpoint_duration_seconds_{end}{{pipeline=\"orders\"}}")).unwrap();
    assert_eq!((one("sum"), one("count")), (404.049, 5.0));
}

#[test]
fn label_values_are_escaped() {
    let rig = Rig::new(settings());
    rig.status.update(|splits| {
        let name = "a\"b\\c\nd".to_owned();
        drop(splits.insert("x".to_owned(), SplitStatus { name, partition: None, ..SplitStatus::default() }));
    });
    let text = rig.monitor.metrics();
    assert!(text.contains(r#"lakeward_partition_idle{pipeline="orders",topic="a\"b\\c\nd",partition=""} 0"#), "{text}");
}

#[test]
fn thousands_of_partitions_are_a_line_each_and_those_that_go_leave_nothing_behind() {
    let rig = Rig::new(settings());
    (0..5000).for_each(|p| rig.split(p, |s| (s.end, s.read_ms, s.committed_ms) = (Some(7), Some(BEGIN), Some(BEGIN))));
    let text = rig.monitor.metrics();
    assert_eq!(text.lines().filter(|l| l.starts_with("lakeward_partition_")).count(), 5000 * 9);
    rig.pass(1);
    rig.status.update(|splits| splits.clear());
    rig.pass(1);
    assert!(!rig.monitor.metrics().contains("lakeward_partition_"));
    assert_eq!(rig.monitor.health().lag, None);
}

#[test]
fn the_page_of_metrics_names_each_with_its_type_and_labels_and_no_other() {
    let page = include_str!("../../../spec/metrics.md");
    for family in FAMILIES {
        let labels: Vec<String> = family.labels.iter().map(|l| format!("`{l}`")).collect();
        let row = format!("| `{}` | {} | {} |", family.name, family.kind.as_str(), labels.join(", "));
        assert!(page.contains(&row), "spec/metrics.md lacks: {row} {} |", family.help);
    }
    let words = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("lakeward_"));
    let plain = |word: &str| ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_owned();
    for word in words {
        assert!(FAMILIES.iter().any(|f| f.name == word || f.name == plain(word)), "spec/metrics.md names `{word}`, which is not exported");
    }
}

#[test]
fn a_run_that_lost_its_pipeline_to_another_is_unhealthy_and_says_why() {
    let rig = full();
    rig.monitor.ended::<()>(&Err(Error::fenced("another process has written checkpoint 5")));
    let health = rig.monitor.health();
    assert_eq!((health.healthy, health.status), (false, "fenced"));
    assert_eq!(health.reason.as_deref(), Some("another process has written checkpoint 5"));
    assert!(rig.monitor.metrics().contains("lakeward_fenced{pipeline=\"orders\"} 1\n"));
}
