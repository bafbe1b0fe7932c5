//! The crash harness by hand: `cargo run --release --features sim --example crash -- --help`; what it does is in `spec/harness.md`.

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use lakeward::env::Rule;
use lakeward::sim::drivers::Replay;
use lakeward::sim::explore::Prepared;
use lakeward::sim::families::{self, Family, Form, How, Tally};
use lakeward::sim::scenario::{Budget, Ended, Scenario, Schedule};

const HELP: &str = "\
Crashes simulated pipelines everywhere and looks whether any row is lost or doubled.

  crash short [FAMILY...]                what CI runs, or these families of it
  crash long                             everything; optimised, an hour or so
  crash deep                             larger budgets, two processes with 3 preemptions and 1 fault among them; hours
  crash run SCENARIO...                  these, in each of their long forms; minutes each
  crash list                             names of scenarios and rules
  crash teeth [RULE...]                  each rule of the protocol switched off: which families notice
  crash replay SCENARIO SCHEDULE         one run, call by call
    --without RULE                       (run, replay) with this rule switched off

Exit code 3: something was lost, doubled or broken.";

/// One scenario of a family, and how it is run.
struct Job {
    family: &'static str,
    how: How,
    scenario: Scenario,
}

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut without: Vec<Rule> = Vec::new();
    while let Some(at) = words.iter().position(|w| w == "--without") {
        let Some(rule) = words.get(at + 1).and_then(|r| families::rule(r)) else {
            return usage("--without wants a rule; see `crash list`");
        };
        without.push(rule);
        words.drain(at..at + 2);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["short", ref names @ ..] => {
            let wanted = |f: &Family| names.is_empty() || names.contains(&f.name);
            table(jobs(families::all(Form::Short).into_iter().filter(wanted).collect()))
        }
        ["long"] => table(jobs(families::all(Form::Long))),
        ["deep"] => table(jobs(families::all(Form::Deep))),
        ["run", ref names @ ..] => {
            let some = jobs(families::all(Form::Long)).into_iter().filter(|j| names.contains(&j.scenario.name.as_str()));
            table(
                some.map(|mut j| {
                    j.scenario.broken.extend(without.iter().copied());
                    j
                })
                .collect(),
            )
        }
        ["list"] => {
            for family in families::all(Form::Long) {
                println!("{}", family.name);
                family.scenarios.iter().for_each(|s| println!("    {}", s.name));
            }
            families::ALL_RULES.iter().for_each(|r| println!("rule {r:?}"));
            ExitCode::SUCCESS
        }
        ["teeth", ref names @ ..] => teeth(names),
        ["replay", name, schedule] => {
            let parsed = schedule.split_once('/').and_then(|(b, s)| Some((Budget::parse(b)?, Schedule::parse(s)?)));
            let (Some(mut scenario), Some((budget, schedule))) = (families::by_name(name), parsed) else {
                return usage(
                    "no such scenario, or no schedule (BUDGET/CHOICES, as a failure prints it; 0.0.0/- is the run without trouble)",
                );
            };
            scenario.budget = budget;
            scenario.broken.extend(without);
            replay(&scenario, schedule)
        }
        ["-h" | "--help"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => usage(HELP),
    }
}

fn usage(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::from(2)
}

fn replay(scenario: &Scenario, schedule: Schedule) -> ExitCode {
    match Prepared::new(scenario) {
        Err(v) => {
            println!("in the lives before: {v}");
            return ExitCode::from(3);
        }
        Ok(prepared) => {
            let mut replay = Replay::of(schedule);
            let (ended, _, trace) = prepared.run(&mut replay, true);
            println!("{}", trace.join("\n"));
            if let Some(at) = replay.misfit() {
                return usage(&format!("the schedule is of another run: at choice point {at} there is no such move"));
            }
            if let Ended::Violated(violation) = ended {
                println!("{violation}");
                return ExitCode::from(3);
            }
            println!("well: every row once, every invariant kept");
        }
    }
    ExitCode::SUCCESS
}

fn jobs(families: Vec<Family>) -> Vec<Job> {
    let each = |f: Family| f.scenarios.into_iter().map(move |scenario| Job { family: f.name, how: f.how, scenario });
    families.into_iter().flat_map(each).collect()
}

/// Runs the jobs on two threads, in order; prints a line for each and a table of the families.
#[expect(clippy::disallowed_methods, reason = "a stop watch for a person")]
fn table(jobs: Vec<Job>) -> ExitCode {
    let started = Instant::now();
    let next = Mutex::new(jobs.iter());
    let families: Mutex<Vec<(&str, usize, f64, Tally)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(job) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else { return };
                    let from = Instant::now();
                    let tally = families::explore(&job.scenario, job.how, 3);
                    let spent = from.elapsed().as_secs_f64();
                    println!(
                        "{:28} {:9} runs {:9} states {:3} violations {spent:7.1} s",
                        job.scenario.name, tally.runs, tally.states, tally.violations
                    );
                    if let Some(found) = &tally.first {
                        println!("{}", found.report(&job.scenario));
                    }
                    let mut all = families.lock().unwrap_or_else(PoisonError::into_inner);
                    match all.iter_mut().find(|(name, ..)| *name == job.family) {
                        Some((_, scenarios, seconds, sum)) => {
                            *scenarios += 1;
                            *seconds += spent;
                            sum.add(tally);
                        }
                        None => all.push((job.family, 1, spent, tally)),
                    }
                }
            });
        }
    });
    let all = families.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "\n| family | scenarios | runs | states | violations | deaths | fenced | late landings | expired | fell into a slot | merges | idle checkpoints | log checkpoints | deaths at them | stopped with Data | seconds |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, scenarios, seconds, t) in &all {
        let s = &t.seen;
        println!(
            "| {name} | {scenarios} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {seconds:.0} |",
            t.runs,
            t.states,
            t.violations,
            s.died,
            s.fenced,
            s.landed_late,
            s.expired,
            s.dead_snapshots,
            s.merged,
            s.idle,
            s.log_checkpoints,
            s.died_checkpointing,
            s.data
        );
    }
    by_format(&all);
    let bad: u64 = all.iter().map(|(_, _, _, t)| t.violations).sum();
    let runs: u64 = all.iter().map(|(_, _, _, t)| t.runs).sum();
    println!("\n{runs} runs, {bad} violations, {:.0} s", started.elapsed().as_secs_f64());
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

/// Runs and violations over Paimon tables alone, and over Delta tables or one of each.
fn by_format(all: &[(&str, usize, f64, Tally)]) {
    println!();
    for (format, is_delta) in [("paimon", false), ("delta", true)] {
        let some = || all.iter().filter(|(name, ..)| name.starts_with("delta") == is_delta);
        let sum = |what: fn(&Tally) -> u64| some().map(|(_, _, _, t)| what(t)).sum::<u64>();
        let seconds: f64 = some().map(|(_, _, seconds, _)| seconds).sum();
        println!(
            "{format}: {} scenarios, {} runs, {} violations, {} deaths, {} of them at a checkpoint of the log, {seconds:.0} s",
            some().map(|(_, scenarios, ..)| scenarios).sum::<usize>(),
            sum(|t| t.runs),
            sum(|t| t.violations),
            sum(|t| t.seen.died),
            sum(|t| t.seen.died_checkpointing),
        );
    }
}

/// Per rule that is switched off and family: how many runs, up to the tenth violation, and how many violate.
fn teeth(names: &[&str]) -> ExitCode {
    println!("| rule switched off | family | runs | violations | the first |");
    println!("|---|---|---|---|---|");
    let mut toothless = 0;
    for rule in families::ALL_RULES.into_iter().filter(|r| names.is_empty() || names.contains(&format!("{r:?}").as_str())) {
        let mut noticed = 0;
        for family in families::all(Form::Short) {
            let mut sum = Tally::default();
            for scenario in &family.scenarios {
                let mut scenario = scenario.clone();
                scenario.broken.insert(rule);
                sum.add(families::explore(&scenario, family.how, 10));
                if sum.violations >= 10 {
                    break;
                }
            }
            let Some(first) = sum.first else { continue };
            noticed += 1;
            println!(
                "| {rule:?} | {} | {} | {} | {} {}: {} |",
                family.name, sum.runs, sum.violations, first.scenario, first.schedule, first.violation
            );
        }
        if noticed == 0 {
            println!("| {rule:?} | none | | 0 | |");
            toothless += 1;
        }
    }
    if toothless == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) }
}
