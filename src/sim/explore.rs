//! The explorer: polls every process until all wait, then a [`Driver`] picks what happens next, and the oracle looks after each change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Kind};
use crate::sim::drivers::Usual;
use crate::sim::effect::{Effect, Op};
use crate::sim::oracle::reader::{Cache, Format, Row, RowColumns};
use crate::sim::oracle::{Config, Oracle, TableConfig, Violation};
use crate::sim::outside::{self, Outside};
use crate::sim::process::{CHAIN, DEAD, PIPELINE, Process, Setup};
use crate::sim::scenario::{Budget, Ended, Fault, Scenario, Seen};
use crate::sim::source::is_broken;
use crate::sim::store::{Answer, Ask, Objects, hash128};
use crate::stream::coordinator::Report;

/// More calls than this in one life mean that it goes round in circles.
const CALLS: u64 = 3000;
/// More lives than this in one place mean that a pipeline cannot be brought to its end.
const LIVES: usize = 12;

/// One thing that may happen next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Move {
    /// The oldest call of this slot's process takes effect.
    Go(usize),
    /// Something else becomes of it.
    Fault(usize, Fault),
    /// A late request takes effect.
    Land(usize),
    /// Another engine does something to a table.
    Outside(Outside, &'static str),
}

/// Picks what happens.
pub trait Driver {
    /// Which of the moves; the first is the usual one. None: this run need not go on.
    fn choose(&mut self, at: &Choices<'_>) -> Option<usize>;
}

/// The moves at one point of a run.
pub struct Choices<'a> {
    run: &'a Run<'a>,
    moves: &'a [Move],
}

impl Choices<'_> {
    /// How many; at least two.
    pub fn count(&self) -> usize {
        self.moves.len()
    }
    /// A move in words, as in a trace.
    pub fn label(&self, i: usize) -> String {
        self.moves.get(i).map(|m| self.run.label(m)).unwrap_or_default()
    }
    /// What decides how a run can go on, and how much may still go wrong in it.
    pub fn state(&self) -> (u128, Budget) {
        (self.run.state(), self.run.budget)
    }
}

/// The world after the lives before: made once, copied for each run.
pub struct Prepared {
    scenario: Scenario,
    objects: Objects,
    oracle: Oracle,
}

impl Prepared {
    /// Runs the lives before.
    pub fn new(scenario: &Scenario) -> Result<Prepared, Violation> {
        let every = scenario.before.iter().map(|b| &b.setup).chain(&scenario.slots).chain([&scenario.last]);
        let oracle = Oracle::new(config(every), &Cache::default());
        let mut prepared = Prepared { scenario: scenario.clone(), objects: Objects::default(), oracle };
        let calm =
            Scenario { before: Vec::new(), slots: Vec::new(), budget: Budget::default(), broken: BTreeSet::new(), ..scenario.clone() };
        for (i, before) in scenario.before.iter().enumerate() {
            let calm = Scenario { slots: vec![before.setup.clone()], ..calm.clone() };
            let start = Prepared { scenario: calm, objects: prepared.objects.clone(), oracle: prepared.oracle.clone() };
            let mut run = Run::new(&start, false, 100 * (i + 1));
            run.until = before.until;
            run.slots_to_the_end(&mut Usual)?;
            (prepared.objects, prepared.oracle) = (run.objects, run.oracle);
        }
        Ok(prepared)
    }
    /// The scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }
    /// One run; with `trace`, what happened in words.
    pub fn run(&self, driver: &mut dyn Driver, trace: bool) -> (Ended, Seen, Vec<String>) {
        let mut run = Run::new(self, trace, 0);
        let ended = match run.whole(driver) {
            Ok(true) => Ended::Well,
            Ok(false) => Ended::Cut,
            Err(violation) => Ended::Violated(violation),
        };
        run.seen.merged = run.oracle.merged().saturating_sub(self.oracle.merged()) as u64;
        run.seen.log_checkpoints = run.oracle.log_checkpoints().saturating_sub(self.oracle.log_checkpoints()) as u64;
        run.seen.idle = run.oracle.idle().saturating_sub(self.oracle.idle()) as u64;
        (ended, run.seen, run.trace)
    }
}

/// What the oracle must know: every table of every life, and the most that any of them reads.
fn config<'a>(every: impl Iterator<Item = &'a Setup>) -> Config {
    let mut config = Config { chain: format!("{CHAIN}/{PIPELINE}/"), keep: usize::MAX, commit_empty: false, tables: Vec::new() };
    for setup in every {
        config.keep = config.keep.min(setup.keep);
        config.commit_empty |= setup.commit_empty;
        for sink in &setup.sinks {
            let all = rows(setup, |s, o| (sink.keep)(s, o) && !(setup.dead_letters && is_broken(o)));
            add_table(&mut config, sink.name, sink.format, RowColumns::SplitOff, all);
        }
        if setup.dead_letters {
            add_table(&mut config, DEAD, setup.dead_format(), RowColumns::TopicOffset, rows(setup, |_, o| is_broken(o)));
        }
    }
    config
}

fn add_table(config: &mut Config, name: &str, format: Format, columns: RowColumns, rows: Vec<Row>) {
    let root = format!("{name}/");
    match config.tables.iter_mut().find(|t| t.root == root) {
        Some(known) if known.rows.len() >= rows.len() => {}
        Some(known) => known.rows = rows,
        None => config.tables.push(TableConfig { root, format, url: format!("sim://{name}"), columns, rows }),
    }
}

fn rows(setup: &Setup, keep: impl Fn(&str, u64) -> bool) -> Vec<Row> {
    let all = setup.input.iter().flat_map(|(s, n)| (0..*n).map(|i| (*s, setup.offset_of(i))));
    all.filter(|(s, o)| keep(s, *o)).map(|(s, o)| (s.to_owned(), i64::try_from(o).unwrap_or(i64::MAX))).collect()
}

/// A request that waits somewhere.
#[derive(Clone, Debug)]
struct Late {
    ask: Ask,
    process: usize,
}

/// One process and its lives.
struct Slot {
    setup: Setup,
    life: usize,
    process: Option<Process>,
    told: usize,
}

struct Run<'p> {
    prepared: &'p Prepared,
    objects: Objects,
    oracle: Oracle,
    slots: Vec<Slot>,
    /// Which slot went last.
    current: usize,
    late: Vec<Late>,
    budget: Budget,
    seen: Seen,
    trace: Vec<String>,
    tracing: bool,
    first_number: usize,
    outside: u64,
    stopped_with_data: bool,
    /// See [`Before::until`].
    until: Option<&'static str>,
    /// Choice points so far.
    choices: usize,
    /// Where the next move was chosen, and which it was.
    mark: Option<(usize, usize)>,
}

impl<'p> Run<'p> {
    fn new(prepared: &'p Prepared, tracing: bool, first_number: usize) -> Run<'p> {
        let slot = |setup: &Setup| Slot { setup: setup.clone(), life: 0, process: None, told: 0 };
        Run {
            prepared,
            objects: prepared.objects.clone(),
            oracle: prepared.oracle.clone(),
            slots: prepared.scenario.slots.iter().map(slot).collect(),
            current: 0,
            late: Vec::new(),
            budget: prepared.scenario.budget,
            seen: Seen::default(),
            trace: Vec::new(),
            tracing,
            first_number,
            outside: 0,
            stopped_with_data: false,
            until: None,
            choices: 0,
            mark: None,
        }
    }

    fn say(&mut self, what: impl FnOnce() -> String) {
        if self.tracing {
            let n = self.trace.len() + 1;
            self.trace.push(format!("{n:4}  {}", what()));
        }
    }

    /// The number of a life: its ids are made of it.
    fn number(&self, slot: usize, life: usize) -> usize {
        self.first_number + slot * 20 + life
    }

    /// The slots, then the last life, then what is still on its way; false: cut.
    fn whole(&mut self, driver: &mut dyn Driver) -> Result<bool, Violation> {
        if !self.slots_to_the_end(driver)? {
            return Ok(false);
        }
        let setup = self.restarted(&self.prepared.scenario.last);
        self.budget = Budget::default();
        self.slots.push(Slot { setup, life: 0, process: None, told: 0 });
        self.say(|| "the last life begins".to_owned());
        self.current = self.slots.len() - 1;
        self.slots_to_the_end(&mut Usual)?;
        while let Some(late) = self.late.pop() {
            self.land(&late)?;
        }
        if self.stopped_with_data {
            return Ok(true); // it said so: nothing is doubled, and what is missing was not called done
        }
        self.oracle.at_end(&self.objects.map).map(|_| true)
    }

    fn slots_to_the_end(&mut self, driver: &mut dyn Driver) -> Result<bool, Violation> {
        for slot in 0..self.slots.len() {
            if self.slots[slot].life == 0 {
                self.start(slot)?;
            }
        }
        loop {
            if self.until.is_some_and(|key| self.objects.map.contains_key(key)) {
                return Ok(true);
            }
            let moves = self.moves();
            let Some(usual) = moves.first().cloned() else { return Ok(true) };
            let chosen = if moves.len() == 1 {
                usual
            } else {
                let Some(i) = driver.choose(&Choices { run: self, moves: &moves }) else { return Ok(false) };
                self.mark = Some((self.choices, i));
                self.choices += 1;
                moves.get(i).cloned().unwrap_or(usual)
            };
            self.make(chosen)?;
        }
    }

    // ---- what may happen -------------------------------------------------------------------------------------------------------------

    /// The first call of a slot.
    fn first(&self, slot: usize) -> Option<(u64, Ask)> {
        self.slots[slot].process.as_ref().and_then(|p| p.port.first())
    }

    fn moves(&self) -> Vec<Move> {
        let waiting: Vec<(usize, Ask)> = (0..self.slots.len()).filter_map(|s| self.first(s).map(|(_, ask)| (s, ask))).collect();
        let Some((usual, ask)) = waiting.iter().find(|(s, _)| *s == self.current).or_else(|| waiting.first()).cloned() else {
            return Vec::new();
        };
        let every = self.prepared.scenario.every_call;
        let mut moves = vec![Move::Go(usual)];
        if self.budget.faults > 0 && (every || !is_fresh(ask.key()) || self.slots.len() == 1) {
            moves.extend(Fault::ALL.into_iter().filter(|f| f.fits(&ask)).map(|f| Move::Fault(usual, f)));
        }
        if is_fresh(ask.key()) && !every {
            return moves; // nobody else can tell whether it took effect
        }
        let free = usual != self.current;
        if free || self.budget.preemptions > 0 {
            moves.extend(waiting.iter().filter(|(s, _)| *s != usual).map(|(s, _)| Move::Go(*s)));
        }
        for (i, late) in self.late.iter().enumerate() {
            if waiting.iter().any(|(_, ask)| ask.meets(late.ask.key())) {
                moves.push(Move::Land(i));
            }
        }
        if self.budget.outside > 0 {
            for table in self.tables() {
                let dirs = ["/snapshot", "/consumer", "/_delta_log"];
                let touched = |ask: &Ask| ask.key().strip_prefix(table).is_some_and(|r| dirs.iter().any(|dir| r.starts_with(dir)));
                if waiting.iter().any(|(_, ask)| touched(ask)) {
                    let format = self.format_of(table);
                    let some = self.prepared.scenario.outside.iter().filter(|what| what.is_possible(&self.objects.map, table, format));
                    moves.extend(some.map(|what| Move::Outside(*what, table)));
                }
            }
        }
        moves
    }

    fn tables(&self) -> BTreeSet<&'static str> {
        self.slots.iter().flat_map(|s| s.setup.tables()).collect()
    }

    fn format_of(&self, table: &str) -> Format {
        let slot = self.slots.iter().find(|s| s.setup.tables().contains(&table));
        slot.map(|s| s.setup.format_of(table)).unwrap_or_default()
    }

    /// Two runs with the same state go on in the same ways: the objects, what each process was answered, what is on its way.
    fn state(&self) -> u128 {
        let mut parts: Vec<u128> = vec![self.objects.sum(), self.current as u128, self.outside.into()];
        for slot in &self.slots {
            parts.push(slot.life as u128);
            parts.push(slot.process.as_ref().map_or(0, |p| p.history));
        }
        for late in &self.late {
            parts.push(hash128(&[late.ask.to_string().as_bytes(), &late.process.to_le_bytes()]));
        }
        let bytes: Vec<[u8; 16]> = parts.iter().map(|p| p.to_le_bytes()).collect();
        let slices: Vec<&[u8]> = bytes.iter().map(|b| &b[..]).collect();
        hash128(&slices)
    }

    // ---- what happens ----------------------------------------------------------------------------------------------------------------

    fn label(&self, m: &Move) -> String {
        let ask = |slot: usize| self.first(slot).map(|(_, ask)| ask.to_string()).unwrap_or_default();
        match m {
            Move::Go(slot) => format!("{} {}", name(*slot), ask(*slot)),
            Move::Fault(slot, fault) => format!("{} {}: {fault:?}", name(*slot), ask(*slot)),
            Move::Land(i) => format!("late: {}", self.late[*i].ask),
            Move::Outside(what, table) => format!("outside: {what:?} {table}"),
        }
    }

    fn make(&mut self, chosen: Move) -> Result<(), Violation> {
        if self.tracing {
            let label = self.label(&chosen);
            let mark = self.mark.take();
            self.say(|| match mark {
                Some((at, 0)) => format!("[{at}] {label}"),
                Some((at, choice)) => format!("[{at}:{choice}] {label}"),
                None => label,
            });
        }
        match chosen {
            Move::Go(slot) => {
                if slot != self.current && self.first(self.current).is_some() {
                    self.budget.preemptions = self.budget.preemptions.saturating_sub(1);
                }
                self.current = slot;
                let Some((n, ask)) = self.first(slot) else { return Ok(()) };
                let answer = self.apply(&ask, self.number(slot, self.slots[slot].life))?;
                self.answer(slot, n, &ask, answer)
            }
            Move::Fault(slot, fault) => {
                self.budget.faults = self.budget.faults.saturating_sub(1);
                let Some((n, ask)) = self.first(slot) else { return Ok(()) };
                let process = self.number(slot, self.slots[slot].life);
                match fault {
                    Fault::Refused => self.answer(slot, n, &ask, Answer::Unclear("503 Service Unavailable")),
                    Fault::SaysTaken => self.answer(slot, n, &ask, Answer::Exists),
                    Fault::AnswerLost => {
                        self.apply(&ask, process)?;
                        self.answer(slot, n, &ask, Answer::Unclear("connection reset"))
                    }
                    Fault::Late => {
                        self.late.push(Late { ask: ask.clone(), process });
                        self.answer(slot, n, &ask, Answer::Unclear("timed out"))
                    }
                    Fault::Dies => self.die(slot),
                    Fault::DiesLate => {
                        self.late.push(Late { ask, process });
                        self.die(slot)
                    }
                }
            }
            Move::Land(i) => {
                let late = self.late.remove(i);
                self.land(&late)
            }
            Move::Outside(what, table) => {
                self.budget.outside = self.budget.outside.saturating_sub(1);
                self.outside += 1;
                let format = self.format_of(table);
                for effect in outside::make(what, &mut self.objects, table, format, 5000 + self.outside) {
                    self.seen.expired += u64::from(effect.by_expiry);
                    self.oracle.after_call(&effect, &self.objects.map)?;
                }
                Ok(())
            }
        }
    }

    fn land(&mut self, late: &Late) -> Result<(), Violation> {
        let before = self.objects.sum();
        self.apply(&late.ask, late.process)?;
        if self.objects.sum() != before {
            self.seen.landed_late += 1;
            self.seen.late_snapshots += u64::from(is_snapshot(late.ask.key()));
        }
        Ok(())
    }

    fn apply(&mut self, ask: &Ask, process: usize) -> Result<Answer, Violation> {
        let (answer, changed) = self.objects.apply(ask);
        let Some(before) = changed else { return Ok(answer) };
        let op = match ask {
            Ask::Put { create: true, .. } => Op::Create,
            Ask::Delete { .. } => Op::Delete,
            Ask::Complete { .. } => Op::Complete,
            _ => Op::Put,
        };
        let key = ask.key().to_owned();
        let snapshot = is_snapshot(&key);
        self.seen.snapshots += u64::from(op == Op::Create && snapshot);
        self.seen.dead_snapshots += u64::from(op == Op::Delete && snapshot && before.is_some());
        self.seen.checkpoints += u64::from(op == Op::Create && key.starts_with(CHAIN));
        let after = self.objects.map.get(&key).cloned();
        let effect = Effect { process, op, key, before, after, by_expiry: false };
        self.oracle.after_call(&effect, &self.objects.map)?;
        Ok(answer)
    }

    fn answer(&mut self, slot: usize, n: u64, ask: &Ask, answer: Answer) -> Result<(), Violation> {
        let Some(process) = &mut self.slots[slot].process else { return Ok(()) };
        process.answer(n, ask, answer);
        if process.calls > CALLS {
            return Err(violation("bounded", format!("{} asked the store {CALLS} times and is not done", name(slot))));
        }
        self.advance(slot)
    }

    /// Polls a process; looks at how it ended, if it did.
    fn advance(&mut self, slot: usize) -> Result<(), Violation> {
        let Some(process) = &mut self.slots[slot].process else { return Ok(()) };
        let ended = process.poll();
        // Only the oldest call of a process is ever chosen. That leaves nothing out as long as what else waits commutes with everything:
        // data files of the next checkpoint do, while one is committed.
        let seen_by_others = process.port.waiting().into_iter().filter(|ask| !ask.reads() && !is_fresh(ask.key()));
        let seen_by_others: Vec<String> = seen_by_others.map(|ask| ask.to_string()).collect();
        if seen_by_others.len() > 1 {
            return Err(violation("one thing after the other", format!("{} asks at once: {}", name(slot), seen_by_others.join(", "))));
        }
        let told: Vec<_> = process.told.lock().map(|t| t.clone()).unwrap_or_default();
        for offsets in told.iter().skip(self.slots[slot].told) {
            let plain: BTreeMap<String, u64> = offsets.0.iter().map(|(s, p)| (s.clone(), p.offset)).collect();
            self.oracle.told(&plain)?;
        }
        self.slots[slot].told = told.len();
        match ended {
            None => Ok(()),
            Some(result) => {
                self.slots[slot].process = None;
                self.ended(slot, result)
            }
        }
    }

    fn ended(&mut self, slot: usize, result: Result<Report, Error>) -> Result<(), Violation> {
        self.say(|| match &result {
            Ok(report) => format!("{} ends: {report:?}", name(slot)),
            Err(e) => format!("{} ends: {e}", name(slot)),
        });
        let Err(error) = result else { return Ok(()) };
        let others = self.slots.len() > 1 || self.seen.landed_late > 0;
        match error.kind() {
            Kind::Fenced if others => {
                self.seen.fenced += 1;
                // The winner may be dead by now: whoever supervises starts it again.
                if self.slots.iter().any(|s| s.process.is_some()) { Ok(()) } else { self.start(slot) }
            }
            // What was asked is owned meanwhile, by a late request of the life before.
            Kind::Invalid if self.restarted(&self.slots[slot].setup).options.asked != self.slots[slot].setup.options.asked => {
                self.start(slot)
            }
            Kind::Data if self.prepared.scenario.data_allowed => {
                self.seen.data += 1;
                self.stopped_with_data = true;
                Ok(())
            }
            _ => Err(violation("goes on", format!("{} stopped: {error}", name(slot)))),
        }
    }

    fn die(&mut self, slot: usize) -> Result<(), Violation> {
        self.seen.died += 1;
        self.seen.died_checkpointing += u64::from(self.first(slot).is_some_and(|(_, ask)| is_of_checkpoint(ask.key())));
        self.slots[slot].process = None;
        self.start(slot)
    }

    /// Starts a slot's next life.
    fn start(&mut self, slot: usize) -> Result<(), Violation> {
        let life = self.slots[slot].life;
        if life >= LIVES {
            return Err(violation("goes on", format!("{} was started {LIVES} times and is not done", name(slot))));
        }
        let mut setup = self.slots[slot].setup.clone();
        if life > 0 {
            setup = self.restarted(&setup);
            setup.starts_at += 10 * i64::try_from(life).unwrap_or(0);
        }
        let number = self.number(slot, life + 1);
        let broken = Arc::new(self.prepared.scenario.broken.clone());
        self.slots[slot].life = life + 1;
        self.slots[slot].told = 0;
        self.slots[slot].process = Some(Process::spawn(number as u64, &setup, &broken));
        self.advance(slot)
    }

    /// What a person would ask of the next start: a rewind or an abandon that is owned is not asked for again.
    fn restarted(&self, setup: &Setup) -> Setup {
        let mut setup = setup.clone();
        let prefix = format!("{CHAIN}/{PIPELINE}/");
        let owned = self.objects.map.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix)).any(|(key, bytes)| {
            let closes =
                || serde_json::from_slice::<serde_json::Value>(bytes).ok().is_some_and(|c| c.get("close").is_some_and(|c| !c.is_null()));
            !self.prepared.objects.map.contains_key(key) && closes()
        });
        if owned {
            setup.options.asked = Default::default();
        }
        setup
    }
}

fn violation(invariant: &'static str, text: String) -> Violation {
    Violation { invariant, text }
}

fn name(slot: usize) -> char {
    char::from(b'A' + u8::try_from(slot).unwrap_or(25))
}

/// Is it a name that only its writer knows until a published object names it? Calls on such names commute with everything. A checkpoint of a
/// Delta log is not: its name is made of the version alone, so two writers meet at it, and readers look for it.
fn is_fresh(key: &str) -> bool {
    key.contains("/manifest/") || key.contains("/bucket-") || (key.ends_with(".parquet") && !key.contains("/_delta_log/"))
}

/// Of either format.
fn is_snapshot(key: &str) -> bool {
    key.contains("/snapshot/snapshot-") || (key.contains("/_delta_log/") && key.ends_with(".json"))
}

/// A checkpoint of a Delta log, or the hint to one.
fn is_of_checkpoint(key: &str) -> bool {
    key.contains("/_delta_log/") && (key.ends_with(".parquet") || key.ends_with("_last_checkpoint"))
}
