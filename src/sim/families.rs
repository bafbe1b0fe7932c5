//! What is run: pipelines in every shape, and what may happen to them.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::env::Rule;
use crate::sim::drivers::{Depth, Replay, Seeded};
use crate::sim::explore::Prepared;
use crate::sim::oracle::Violation;
use crate::sim::oracle::reader::Format;
use crate::sim::outside::Outside;
use crate::sim::process::{Setup, SimSink, every};
use crate::sim::scenario::{Before, Budget, Ended, Scenario, Schedule, Seen};
use crate::sim::topic::Until;
use crate::stream::StartOptions;
use crate::stream::coordinator::AtEnd;
use crate::stream::decide::Asked;

/// How a family goes through its schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Every schedule within the budget; `merge`: states that were seen are not gone through again.
    Every {
        /// Merge?
        merge: bool,
    },
    /// So many schedules by seed; one in `one_in` choices is not the usual one.
    Seeds {
        /// How many.
        count: u64,
        /// See above.
        one_in: u64,
    },
}

/// Scenarios that are run in one way.
#[derive(Clone, Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// How.
    pub how: How,
    /// What.
    pub scenarios: Vec<Scenario>,
}

/// A schedule that broke an invariant.
#[derive(Clone, Debug)]
pub struct Found {
    /// The scenario's name.
    pub scenario: String,
    /// The schedule.
    pub schedule: Schedule,
    /// What was seen.
    pub violation: Violation,
}

/// What a family found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Runs, those that were cut short because their state was seen included.
    pub runs: u64,
    /// Different states at which something was chosen; 0 when states are not merged.
    pub states: u64,
    /// Runs that broke an invariant.
    pub violations: u64,
    /// The first of them.
    pub first: Option<Found>,
    /// What happened in them.
    pub seen: Seen,
}

impl Tally {
    /// Adds up.
    pub fn add(&mut self, other: Tally) {
        self.runs += other.runs;
        self.states += other.states;
        self.violations += other.violations;
        self.first = self.first.take().or(other.first);
        self.seen.add(&other.seen);
    }
}

impl Found {
    /// The trace of calls, what was broken, and the command that shows it again.
    pub fn report(&self, scenario: &Scenario) -> String {
        let mut text = String::new();
        if let Ok(prepared) = Prepared::new(scenario) {
            let (_, _, trace) = prepared.run(&mut Replay::of(self.schedule.clone()), true);
            text.push_str(&trace.join("\n"));
        }
        let broken: Vec<String> = scenario.broken.iter().map(|r| format!(" --without {r:?}")).collect();
        format!(
            "{text}\n{}\nagain: cargo run --release --features sim --example crash -- replay {} {}/{}{}",
            self.violation,
            self.scenario,
            scenario.budget,
            self.schedule,
            broken.concat()
        )
    }
}

/// Goes through one scenario. Stops after `enough` violations.
pub fn explore(scenario: &Scenario, how: How, enough: u64) -> Tally {
    let mut tally = Tally::default();
    let found = |schedule, violation| Found { scenario: scenario.name.clone(), schedule, violation };
    let prepared = match Prepared::new(scenario) {
        Ok(prepared) => prepared,
        Err(violation) => {
            let first = Some(found(Schedule::default(), violation));
            return Tally { runs: 1, violations: 1, first, ..tally };
        }
    };
    let mut count = |ended: Ended, seen: &Seen, schedule: &dyn Fn() -> Schedule| {
        tally.runs += 1;
        tally.seen.add(seen);
        if let Ended::Violated(violation) = ended {
            tally.violations += 1;
            tally.first.get_or_insert_with(|| found(schedule(), violation));
        }
        tally.violations < enough
    };
    match how {
        How::Every { merge } => {
            let mut depth = Depth::new(merge);
            loop {
                let (ended, seen, _) = prepared.run(&mut depth, false);
                if !count(ended, &seen, &|| depth.schedule()) || !depth.advance() {
                    break;
                }
            }
            tally.states = depth.states() as u64;
        }
        How::Seeds { count: seeds, one_in } => {
            for seed in 0..seeds {
                let mut seeded = Seeded::of(seed + 1, one_in);
                let (ended, seen, _) = prepared.run(&mut seeded, false);
                if !count(ended, &seen, &|| seeded.schedule()) {
                    break;
                }
            }
        }
    }
    tally
}

// ---- shapes ----------------------------------------------------------------------------------------------------------------------------

fn even(_: &str, offset: u64) -> bool {
    offset.is_multiple_of(2)
}

fn sink(name: &'static str) -> SimSink {
    SimSink { name, format: Format::Paimon, keep: every, partitioned: false, buckets: 0 }
}

/// Two buckets in each of two partitions, and manifests are merged as soon as there are two of a size.
fn over_buckets(setup: Setup) -> Setup {
    let sinks = vec![SimSink { partitioned: true, buckets: 2, ..sink("one") }];
    Setup { sinks, merge_at: Some(2), ..setup }
}

/// The shapes of a pipeline: name and setup.
pub fn shapes() -> Vec<(&'static str, Setup)> {
    let one = Setup::default();
    vec![
        ("one", one.clone()),
        ("two", Setup { sinks: vec![sink("one"), SimSink { keep: even, ..sink("two") }], ..one.clone() }),
        ("dead", Setup { dead_letters: true, ..one.clone() }),
        ("parts", Setup { sinks: vec![SimSink { partitioned: true, ..sink("one") }], part: Some(400), ..one.clone() }),
        ("merge", merging(one.clone())),
        ("buckets", over_buckets(one)),
    ]
}

/// Commits of one record each, and manifests are merged as soon as there are two of a size. So many checkpoints are kept that a rewind finds
/// its own.
fn merging(setup: Setup) -> Setup {
    Setup { merge_at: Some(2), rows: 1, chunk: 1, keep: 20, ..setup }
}

/// The same pipeline over Delta tables. There are no buckets there, and no manifests to merge: checkpoints of the log instead.
fn delta(setup: Setup) -> Setup {
    let sinks = setup.sinks.into_iter().map(|s| SimSink { format: Format::Delta, buckets: 0, ..s }).collect();
    Setup { sinks, checkpoint_at: setup.merge_at, merge_at: None, ..setup }
}

/// A scenario over Delta tables.
fn delta_of(s: Scenario) -> Scenario {
    Scenario {
        name: format!("delta-{}", s.name),
        before: s.before.into_iter().map(|b| Before { setup: delta(b.setup), ..b }).collect(),
        slots: s.slots.into_iter().map(delta).collect(),
        last: delta(s.last),
        ..s
    }
}

/// Rows go to a table of each format.
fn both(setup: Setup) -> Setup {
    let two = SimSink { format: Format::Delta, partitioned: true, ..sink("two") };
    Setup { sinks: vec![sink("one"), two], checkpoint_at: Some(2), ..setup }
}

/// The shapes of a pipeline over Delta tables, and over one of each format.
pub fn delta_shapes() -> Vec<(&'static str, Setup)> {
    let one = Setup::default();
    let mut shapes: Vec<(&str, Setup)> = shapes()
        .into_iter()
        .filter(|(name, _)| *name != "buckets")
        .map(|(name, setup)| (if name == "merge" { "checkpoint" } else { name }, delta(setup)))
        .collect();
    shapes.push(("both", both(one)));
    shapes
}

/// What happens to a pipeline of a shape: name, lives before, the life that is troubled.
fn histories(shape: &Setup) -> Vec<(&'static str, Vec<Before>, Setup)> {
    let some = |n| vec![("a", n)];
    let keep = shape.keep.max(5);
    let ended = |n| Before { setup: Setup { input: some(n), ..shape.clone() }, until: None };
    let paused = |n| Before { setup: Setup { input: some(n), at_end: AtEnd::Pause, keep, ..shape.clone() }, until: None };
    let second = match shape.format_of("one") {
        _ if shape.tables().len() == 1 => "chain/p/00000000000000000002.json",
        Format::Paimon => "one/snapshot/snapshot-2",
        Format::Delta => "one/_delta_log/00000000000000000002.json",
    };
    let pending = Before { until: Some(second), ..paused(5) };
    let asking = |asked| StartOptions { asked, ..StartOptions::default() };
    let more = Setup { keep, ..shape.clone() };
    let rewind = asking(Asked { rewind: Some(1), ..Asked::default() });
    let abandon = asking(Asked { abandon: Some(2), ..Asked::default() });
    let slow = Setup { slow: Duration::from_secs(1900), idle: 3, input: some(3), keep, threads: 1, ..shape.clone() };
    vec![
        ("start", vec![], shape.clone()),
        ("idle", vec![], slow),
        ("resume", vec![paused(3)], more.clone()),
        ("rerun", vec![ended(3)], shape.clone()),
        ("finish", vec![pending.clone()], more.clone()),
        ("rewind", vec![paused(5)], Setup { options: rewind, input: some(6), ..more.clone() }),
        ("abandon", vec![pending], Setup { options: abandon, ..more }),
    ]
}

fn scenario(name: String, before: Vec<Before>, slots: Vec<Setup>, budget: Budget) -> Scenario {
    let mut last = slots.last().cloned().unwrap_or_default();
    last.starts_at += 1000;
    Scenario { name, before, slots, last, budget, outside: Vec::new(), data_allowed: false, every_call: true, broken: BTreeSet::new() }
}

fn alone(faults: u8) -> Budget {
    Budget { faults, preemptions: 0, outside: 0 }
}

/// Every single fault in every shape and history.
pub fn singles() -> Family {
    let mut scenarios = Vec::new();
    for (shape, setup) in shapes() {
        for (history, before, troubled) in histories(&setup) {
            scenarios.push(scenario(format!("single-{shape}-{history}"), before, vec![troubled], alone(1)));
        }
    }
    Family { name: "single faults", how: How::Every { merge: true }, scenarios }
}

/// Every single fault in every shape over Delta tables and in every history; in `quick` the shapes that a fault of one table says nothing
/// new about go through less.
pub fn delta_singles(quick: bool) -> Family {
    let mut scenarios = Vec::new();
    for (shape, setup) in delta_shapes() {
        for (history, before, troubled) in histories(&setup) {
            let told = match shape {
                "one" | "checkpoint" => true,
                "both" => history != "idle",
                _ => history == "start" || history == "finish",
            };
            if told || !quick {
                scenarios.push(scenario(format!("delta-single-{shape}-{history}"), before, vec![troubled], alone(1)));
            }
        }
    }
    Family { name: "delta: single faults", how: How::Every { merge: true }, scenarios }
}

/// Every two faults in one shape.
pub fn doubles() -> Family {
    let setup = Setup { input: vec![("a", 3)], ..Setup::default() };
    Family {
        name: "double faults",
        how: How::Every { merge: true },
        scenarios: vec![scenario("double-one-start".into(), vec![], vec![setup], alone(2))],
    }
}

fn two_processes(name: &str, before: Vec<Before>, slots: Vec<Setup>, faults: u8, preemptions: u8) -> Scenario {
    let budget = Budget { faults, preemptions, outside: 0 };
    Scenario { every_call: false, ..scenario(name.to_owned(), before, slots, budget) }
}

/// Two live processes: two fresh starts, a zombie and its successor, a rewind and the old owner.
fn pairs(faults: u8, preemptions: u8) -> Vec<Scenario> {
    let some = |n| vec![("a", n)];
    let small = Setup { input: some(3), ..Setup::default() };
    let paused = Before { setup: Setup { at_end: AtEnd::Pause, keep: 10, ..small.clone() }, until: None };
    let resumed = Setup { input: some(5), ..small.clone() };
    let rewind = StartOptions { asked: Asked { rewind: Some(1), ..Asked::default() }, ..StartOptions::default() };
    // Enough is kept for the rewind to find its checkpoint when the old owner was faster.
    let owner = Setup { keep: 10, ..resumed.clone() };
    let back = Setup { options: rewind, ..owner.clone() };
    // Two that go on where there are manifests to merge at once: one of them loses the race with a merge in its hands.
    let merged = Setup { input: some(4), ..merging(small.clone()) };
    let unmerged = Before { setup: Setup { input: some(2), at_end: AtEnd::Pause, ..merged.clone() }, until: None };
    vec![
        two_processes("pair-fresh", vec![], vec![small.clone(), small.clone()], faults, preemptions),
        two_processes("pair-zombie", vec![paused.clone()], vec![resumed.clone(), resumed.clone()], faults, preemptions),
        two_processes("pair-rewind", vec![paused], vec![owner, back], faults, preemptions),
        two_processes("pair-merge", vec![unmerged], vec![merged.clone(), merged], faults, preemptions),
    ]
}

/// Two live processes, every schedule within the budget.
pub fn interleavings(faults: u8, preemptions: u8) -> Family {
    Family { name: "two processes", how: How::Every { merge: true }, scenarios: pairs(faults, preemptions) }
}

/// Two live processes, any number of switches, by seed.
pub fn interleavings_by_seed(count: u64) -> Family {
    Family {
        name: "two processes by seed",
        how: How::Seeds { count, one_in: 12 },
        scenarios: pairs(3, 60).into_iter().map(|s| Scenario { name: s.name.replace("pair-", "seeded-"), ..s }).collect(),
    }
}

/// Two live processes over partitions and buckets, and another engine that adds rows to the same buckets between any two calls.
pub fn buckets(faults: u8, preemptions: u8, outside: u8) -> Family {
    let mut scenarios: Vec<Scenario> = pairs(faults, preemptions)
        .into_iter()
        .map(|s| Scenario {
            name: s.name.replace("pair-", "buckets-pair-"),
            before: s.before.into_iter().map(|b| Before { setup: over_buckets(b.setup), ..b }).collect(),
            slots: s.slots.into_iter().map(over_buckets).collect(),
            last: over_buckets(s.last),
            ..s
        })
        .collect();
    let setup = over_buckets(Setup { input: vec![("a", 4)], ..Setup::default() });
    let paused = Before { setup: Setup { at_end: AtEnd::Pause, input: vec![("a", 2)], ..setup.clone() }, until: None };
    let budget = Budget { faults, preemptions: 0, outside };
    for (name, before) in [("buckets-shared", vec![]), ("buckets-shared-resume", vec![paused])] {
        let one = scenario(name.into(), before, vec![setup.clone()], budget);
        scenarios.push(Scenario { outside: vec![Outside::Append, Outside::Expire], every_call: false, ..one });
    }
    Family { name: "buckets", how: How::Every { merge: true }, scenarios }
}

/// A topic of three splits: one of them has no records, the last is found while it runs or after it. `grown`: with what came later.
fn topic(grown: bool, until: Until) -> Setup {
    let input = if grown { vec![("t/0", 3), ("t/1", 0), ("t/2", 2)] } else { vec![("t/0", 2), ("t/1", 0)] };
    Setup { input, topic: Some(until), at_end: AtEnd::Pause, keep: 5, idle: 1, ..Setup::default() }
}

/// A topic read to its end and again to a later one, or until somebody asks to stop; killed on the way, gone back, given up; beside a twin.
pub fn topics(faults: u8, preemptions: u8) -> Family {
    let never = Until::Asked { found_after: 2 };
    let asking = |asked| StartOptions { asked, ..StartOptions::default() };
    let (rewind, abandon) = (Asked { rewind: Some(1), ..Asked::default() }, Asked { abandon: Some(1), ..Asked::default() });
    let mut scenarios = Vec::new();
    for (name, until) in [("end", Until::End), ("never", never)] {
        let (less, more) = (topic(false, until), topic(true, until));
        let paused = Before { setup: less.clone(), until: None };
        let pending = Before { setup: less.clone(), until: Some("chain/p/00000000000000000001.json") };
        let two = Setup { dead_letters: true, sinks: vec![sink("one"), SimSink { keep: even, ..sink("two") }], ..more.clone() };
        let slow = Setup { slow: Duration::from_secs(1900), rows: 100, threads: 1, ..more.clone() };
        let mut add = |what: &str, before: Vec<Before>, setup: Setup| {
            scenarios.push(scenario(format!("topic-{name}-{what}"), before, vec![setup], alone(faults)));
        };
        add("start", vec![], more.clone());
        add("resume", vec![paused.clone()], more.clone());
        add("finish", vec![pending.clone()], more.clone());
        add("rewind", vec![paused.clone()], Setup { options: asking(rewind), ..more.clone() });
        add("abandon", vec![pending], Setup { options: asking(abandon), ..more.clone() });
        add("dead", vec![], two);
        add("idle", vec![], slow);
        scenarios.push(two_processes(&format!("topic-{name}-pair"), vec![paused], vec![more.clone(), more], 0, preemptions));
    }
    Family { name: "topics", how: How::Every { merge: true }, scenarios }
}

/// Snapshots expire between any two calls, others commit; pins are honoured.
pub fn expiry(faults: u8, outside: u8) -> Family {
    let setup = Setup { input: vec![("a", 4)], ..Setup::default() };
    let what = vec![Outside::Expire, Outside::Commit];
    let budget = Budget { faults, preemptions: 0, outside };
    let with = |s: Scenario| Scenario { outside: what.clone(), every_call: false, ..s };
    let paused = Before { setup: Setup { at_end: AtEnd::Pause, input: vec![("a", 2)], ..setup.clone() }, until: None };
    let slow = Setup { slow: Duration::from_secs(2000), threads: 1, ..setup.clone() };
    Family {
        name: "expiry",
        how: How::Every { merge: true },
        scenarios: vec![
            with(scenario("expiry-start".into(), vec![], vec![setup.clone()], budget)),
            with(scenario("expiry-slow".into(), vec![], vec![slow], budget)),
            with(scenario("expiry-resume".into(), vec![paused], vec![setup.clone()], budget)),
            // The other engine's commit is between the head and the publication: the race is lost with a merge in hand.
            with(scenario("expiry-merge".into(), vec![], vec![Setup { input: vec![("a", 3)], ..merging(setup) }], budget)),
        ],
    }
}

/// Two processes while snapshots expire; slow ones, so that pins are raised.
pub fn expiry_of_pairs(preemptions: u8, outside: u8) -> Family {
    let slow = |setup: Setup| Setup { slow: Duration::from_secs(100), threads: 1, ..setup };
    let scenarios = pairs(0, preemptions).into_iter().map(|s| Scenario {
        name: s.name.replace("pair-", "expiry-pair-"),
        outside: vec![Outside::Expire, Outside::Commit],
        budget: Budget { outside, ..s.budget },
        slots: s.slots.into_iter().map(slow).collect(),
        last: slow(s.last),
        ..s
    });
    Family { name: "two processes and expiry", how: How::Every { merge: true }, scenarios: scenarios.collect() }
}

/// Another engine removes the pin, then expires: what cannot be known stops the run; nothing is doubled, nothing lost in silence.
pub fn unpinned(faults: u8, outside: u8) -> Family {
    let setup = Setup { input: vec![("a", 4)], ..Setup::default() };
    let budget = Budget { faults, preemptions: 0, outside };
    let with = |s: Scenario| Scenario {
        outside: vec![Outside::Unpin, Outside::ExpireAll, Outside::Commit],
        every_call: false,
        data_allowed: true,
        ..s
    };
    let pending = Before { setup: Setup { at_end: AtEnd::Pause, ..setup.clone() }, until: Some("chain/p/00000000000000000002.json") };
    Family {
        name: "pins removed",
        how: How::Every { merge: true },
        scenarios: vec![
            with(scenario("unpinned-start".into(), vec![], vec![setup.clone()], budget)),
            with(scenario("unpinned-finish".into(), vec![pending], vec![setup], budget)),
        ],
    }
}

/// One small scenario of two processes in which every call is a choice point: no call is taken to commute with the others.
pub fn unreduced() -> [Scenario; 2] {
    let setup = Setup { input: vec![("a", 1)], ..Setup::default() };
    let reduced = two_processes("small-reduced", vec![], vec![setup.clone(), setup], 1, 1);
    [reduced.clone(), Scenario { name: "small-every-call".into(), every_call: true, ..reduced }]
}

/// Two live processes over Delta tables, and over one of each format.
fn delta_pairs(faults: u8, preemptions: u8) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = pairs(faults, preemptions)
        .into_iter()
        .map(|s| Scenario { name: s.name.replace("-merge", "-checkpoint"), ..s })
        .map(delta_of)
        .collect();
    let small = both(Setup { input: vec![("a", 3)], ..Setup::default() });
    scenarios.push(two_processes("delta-pair-both", vec![], vec![small.clone(), small], faults, preemptions));
    scenarios
}

/// Two live processes over Delta tables, every schedule within the budget.
pub fn delta_interleavings(faults: u8, preemptions: u8) -> Family {
    Family { name: "delta: two processes", how: How::Every { merge: true }, scenarios: delta_pairs(faults, preemptions) }
}

/// Two live processes over Delta tables, any number of switches, by seed.
pub fn delta_by_seed(count: u64) -> Family {
    let scenarios = delta_pairs(3, 60).into_iter().map(|s| Scenario { name: s.name.replace("pair-", "seeded-"), ..s });
    Family { name: "delta: two processes by seed", how: How::Seeds { count, one_in: 12 }, scenarios: scenarios.collect() }
}

/// What other engines do to a Delta table.
const OF_DELTA: [Outside; 6] =
    [Outside::Append, Outside::Metadata, Outside::Protocol, Outside::Checkpoint, Outside::Expire, Outside::ExpireAll];

/// Others append, change properties and protocol, write checkpoints and clean the log up, between any two calls. What users have landed is in
/// the newest state, so nothing is ever unknown.
pub fn delta_foreign(faults: u8, outside: u8) -> Family {
    let setup = delta(merging(Setup { input: vec![("a", 3)], ..Setup::default() }));
    let budget = Budget { faults, preemptions: 0, outside };
    let paused = Before { setup: Setup { at_end: AtEnd::Pause, ..setup.clone() }, until: None };
    let more = Setup { input: vec![("a", 5)], ..setup.clone() };
    let rewind = StartOptions { asked: Asked { rewind: Some(1), ..Asked::default() }, ..StartOptions::default() };
    let back = Setup { options: rewind, ..more.clone() };
    let with = |s: Scenario| Scenario { outside: OF_DELTA.to_vec(), every_call: false, ..s };
    Family {
        name: "delta: other engines",
        how: How::Every { merge: true },
        scenarios: vec![
            with(scenario("delta-foreign-start".into(), vec![], vec![setup], budget)),
            with(scenario("delta-foreign-resume".into(), vec![paused.clone()], vec![more], budget)),
            with(scenario("delta-foreign-rewind".into(), vec![paused], vec![back], budget)),
        ],
    }
}

/// Two processes over Delta tables while others clean up and write checkpoints, by seed.
pub fn delta_foreign_pairs(count: u64) -> Family {
    let scenarios = delta_pairs(2, 20).into_iter().filter(|s| s.name != "delta-pair-both").map(|s| Scenario {
        name: s.name.replace("pair-", "foreign-pair-"),
        outside: OF_DELTA.to_vec(),
        budget: Budget { outside: 5, ..s.budget },
        ..s
    });
    Family { name: "delta: two processes and other engines by seed", how: How::Seeds { count, one_in: 10 }, scenarios: scenarios.collect() }
}

/// A topic into Delta tables.
pub fn delta_topics(faults: u8, preemptions: u8) -> Family {
    let wanted = ["topic-end-resume", "topic-never-start", "topic-end-pair"];
    let some = topics(faults, preemptions).scenarios.into_iter().filter(|s| wanted.contains(&s.name.as_str()));
    Family { name: "delta: topics", how: How::Every { merge: true }, scenarios: some.map(delta_of).collect() }
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In every CI run, unoptimised: minutes.
    Short,
    /// By hand, optimised: an hour or so.
    Long,
    /// By hand, optimised: two processes with three preemptions and one fault, hours.
    Deep,
}

/// All families.
pub fn all(form: Form) -> Vec<Family> {
    match form {
        Form::Short => {
            vec![
                singles(),
                interleavings(0, 2),
                interleavings_by_seed(500),
                expiry(0, 3),
                expiry_of_pairs(1, 1),
                unpinned(0, 3),
                buckets(0, 1, 2),
                topics(1, 1),
                delta_singles(true),
                delta_interleavings(0, 1),
                delta_by_seed(200),
                delta_foreign(0, 1),
                delta_foreign_pairs(200),
                delta_topics(1, 1),
            ]
        }
        Form::Long => vec![
            singles(),
            doubles(),
            interleavings(0, 3),
            Family { name: "two processes, one fault", ..interleavings(1, 1) },
            interleavings_by_seed(20_000),
            expiry(1, 2),
            Family { name: "expiry, three acts", ..expiry(0, 3) },
            expiry_of_pairs(2, 1),
            unpinned(1, 2),
            Family { name: "pins removed, three acts", ..unpinned(0, 3) },
            buckets(1, 1, 2),
            topics(1, 2),
            Family { name: "topics, two faults", ..topics(2, 1) },
            delta_singles(false),
            delta_interleavings(0, 2),
            Family { name: "delta: two processes, one fault", ..delta_interleavings(1, 1) },
            delta_by_seed(10_000),
            delta_foreign(1, 2),
            Family { name: "delta: other engines, three acts", ..delta_foreign(0, 3) },
            delta_foreign_pairs(10_000),
            delta_topics(1, 2),
        ],
        Form::Deep => vec![
            interleavings(1, 2),
            interleavings(1, 3),
            expiry(1, 3),
            expiry_of_pairs(2, 2),
            unpinned(1, 3),
            delta_interleavings(0, 3),
            delta_interleavings(1, 2),
            delta_foreign(1, 3),
        ],
    }
}

/// All scenarios by name, for replays.
pub fn by_name(name: &str) -> Option<Scenario> {
    let [reduced, every_call] = unreduced();
    all(Form::Long).into_iter().rev().flat_map(|f| f.scenarios).chain([reduced, every_call]).find(|s| s.name == name)
}

/// Reads the name of a rule.
pub fn rule(name: &str) -> Option<Rule> {
    ALL_RULES.into_iter().find(|r| format!("{r:?}") == name)
}

/// Every rule that can be switched off.
pub const ALL_RULES: [Rule; 16] = [
    Rule::OneRead,
    Rule::ListAfterCreate,
    Rule::CreateOnly,
    Rule::ReadBack,
    Rule::KeepUnclear,
    Rule::FinishEnd,
    Rule::CloseOld,
    Rule::OneChain,
    Rule::Equality,
    Rule::Pin,
    Rule::PinAfterOwned,
    Rule::FloorAfterPin,
    Rule::ListBeforeData,
    Rule::MergeAll,
    Rule::Winners,
    Rule::HintLast,
];
