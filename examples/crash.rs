//! The crash harness by hand: `cargo run --release --features sim --example crash -- --help`.

use std::process::ExitCode;
use std::time::Instant;

use lakeward::sim::explore::{Prepared, Replay, Scenario, Schedule};
use lakeward::sim::families::{self, Family, How};

const HELP: &str = "crash list | run FAMILY [SCENARIO] | replay SCENARIO SCHEDULE [--without RULE]";

fn families() -> Vec<Family> {
    vec![
        families::singles(),
        families::doubles(),
        families::interleavings(0, 2),
        families::interleavings_by_seed(2000),
        families::expiry(1, 2),
        families::expiry_of_pairs(1),
        families::unpinned(1, 3),
    ]
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["run", name, ref rest @ ..] => {
            for family in families().into_iter().filter(|f| f.name == name || name == "all") {
                for s in family.scenarios.iter().filter(|s| rest.is_empty() || rest.contains(&s.name.as_str())) {
                    run(s, family.how);
                }
            }
            ExitCode::SUCCESS
        }
        ["replay", name, schedule, ref rest @ ..] => {
            let (Some(mut scenario), Some(schedule)) = (families::by_name(name), Schedule::parse(schedule)) else {
                eprintln!("no such scenario or schedule");
                return ExitCode::from(2);
            };
            scenario.broken.extend(rest.iter().filter_map(|r| families::rule(r)));
            match Prepared::new(&scenario) {
                Err(v) => println!("before: {v}"),
                Ok(prepared) => {
                    let (ended, _, trace) = prepared.run(&mut Replay::of(schedule), true);
                    println!("{}\n{ended:?}", trace.join("\n"));
                }
            }
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{HELP}");
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a stop watch for a person")]
fn run(scenario: &Scenario, how: How) {
    let from = Instant::now();
    let tally = families::explore(scenario, how, 3);
    let spent = from.elapsed();
    println!(
        "{:30} {:8} runs {:8} states {:4} violations {:7.1} s  {:6.2} ms/run",
        scenario.name,
        tally.runs,
        tally.states,
        tally.violations,
        spent.as_secs_f64(),
        spent.as_secs_f64() * 1000.0 / tally.runs as f64
    );
    println!("    {:?}", tally.seen);
    if let Some(found) = tally.first {
        println!("{}", found.report(scenario));
    }
}
