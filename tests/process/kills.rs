//! SIGKILL at moments drawn over whole runs, again and again, until a run is done; then every row is there once.
//!
//! Half of the kills fall anywhere in the time that is left. The other half fall up to 15 ms after some line of the log, so that also
//! the short windows are hit: between a checkpoint and its commit, after a commit, at the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::draw::Draw;
use super::{Ended, Line, Place, Running, assert_exact, tally};

/// Where in its life a process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    BeforeTheFirst,
    Writing,
    BetweenCheckpointAndCommit,
    AfterCommit,
    AtTheEnd,
    /// It had ended by itself.
    TooLate,
}

impl Moment {
    const ALL: [Moment; 6] = [
        Moment::BeforeTheFirst,
        Moment::Writing,
        Moment::BetweenCheckpointAndCommit,
        Moment::AfterCommit,
        Moment::AtTheEnd,
        Moment::TooLate,
    ];
    fn name(self) -> &'static str {
        match self {
            Moment::BeforeTheFirst => "before the first checkpoint",
            Moment::Writing => "while writing",
            Moment::BetweenCheckpointAndCommit => "between checkpoint and commit",
            Moment::AfterCommit => "after commit",
            Moment::AtTheEnd => "at the end",
            Moment::TooLate => "(it had ended by itself)",
        }
    }

    /// By what lies on disk and what the dead process had said.
    pub(crate) fn of(dead: &Ended, place: &Place) -> Moment {
        if dead.code.is_some() {
            return Moment::TooLate;
        }
        let checkpoints = place.checkpoints();
        let Some(greatest) = checkpoints.last() else { return Moment::BeforeTheFirst };
        let newest = place.snapshots().last().map(|s| s["commitIdentifier"].clone());
        match greatest["kind"].as_str().unwrap() {
            "open" => Moment::BeforeTheFirst,
            "closed" => Moment::AtTheEnd,
            _ if newest.as_ref() != Some(&greatest["identifier"]) => Moment::BetweenCheckpointAndCommit,
            "end" => Moment::AtTheEnd,
            _ => {
                // It landed. Has this process begun on the next one?
                let landed = dead.lines.iter().rposition(|l| l.checkpointed() || l.committed() || l.says().contains("recognised"));
                let opened = dead.lines.iter().rposition(|l| l.opened().is_some());
                if opened > landed { Moment::Writing } else { Moment::AfterCommit }
            }
        }
    }
}

/// When to kill.
#[derive(Clone, Copy, Debug)]
enum Aim {
    /// So far into the time that is left.
    Share(f64),
    /// So long after the n-th line of a kind; with fewer of them, after the last.
    Line(Kind, f64, Duration),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    First,
    Opened,
    Checkpointed,
    Committed,
    Last,
}

impl Aim {
    fn draw(draw: &mut Draw) -> Aim {
        if draw.below(2) == 0 {
            return Aim::Share(draw.share());
        }
        // Twice the last: that moment is short, and comes once.
        let kind = [Kind::First, Kind::Opened, Kind::Checkpointed, Kind::Committed, Kind::Last, Kind::Last][draw.below(6) as usize];
        Aim::Line(kind, draw.share(), Duration::from_micros(draw.below(15_000)))
    }
}

/// What a clean run takes: the measure for the moments.
struct Clean {
    took: Duration,
    checkpoints: usize,
}

fn settled(place: &Place) -> u64 {
    place.checkpoints().last().map_or(0, |c| c["offsets"]["generate"]["offset"].as_u64().unwrap_or(0))
}

/// Lets a child live until its moment, and kills it.
fn kill(mut child: Running, aim: Aim, clean: &Clean, left: f64) -> Ended {
    match aim {
        Aim::Share(share) => {
            let until = child.started() + clean.took.mul_f64(left.max(0.1) * share);
            while Instant::now() < until && !child.over() {
                std::thread::sleep(Duration::from_millis(1).min(until - Instant::now().min(until)));
            }
        }
        Aim::Line(kind, share, after) => {
            // All but `open`, `end` and `closed`.
            let nth = 1 + (share * left * clean.checkpoints.saturating_sub(3) as f64) as usize;
            let found = match kind {
                Kind::First => child.until(1 + (share * 2.0) as usize, |_| true),
                Kind::Opened => child.until(nth, |l| l.opened().is_some()),
                Kind::Checkpointed => child.until(nth, Line::checkpointed),
                Kind::Committed => child.until(nth, Line::committed),
                Kind::Last => child
                    .until(1, |l| if share < 0.3 { l.says().contains("(end,") } else { l.says().starts_with("committed end of input") }),
            };
            if let Some(line) = found {
                // The end is soon over.
                let until = line + if matches!(kind, Kind::Last) { after / 5 } else { after };
                std::thread::sleep(until - Instant::now().min(until));
            }
        }
    }
    child.kill()
}

struct Form {
    runs: u64,
    rows: u64,
    rate: u64,
    every: u64,
    seed: u64,
    /// So many kills at least in each moment.
    least: usize,
}

impl Form {
    fn place(&self, root: &std::path::Path, run: u64) -> Place {
        let root = root.join(format!("run-{run}"));
        std::fs::create_dir_all(&root).unwrap();
        let source = format!("generate: {{rows: {}, rows_per_second: {}}}", self.rows, self.rate);
        Place::at(&root, "kills", &source, &format!("rows: {}", self.every))
    }

    /// One run: one to three kills, then to its end.
    fn run(&self, place: &Place, clean: &Clean, seed: u64) -> Vec<Moment> {
        let mut draw = Draw(seed);
        let kills = 1 + draw.below(3);
        let mut moments = Vec::new();
        for _ in 0..kills {
            let left = 1.0 - settled(place) as f64 / self.rows as f64;
            let dead = kill(place.start(&[]), Aim::draw(&mut draw), clean, left);
            let moment = Moment::of(&dead, place);
            assert!(dead.code.is_none_or(|c| c == 0), "seed {seed}: {}", dead.err());
            moments.push(moment);
            if moment == Moment::TooLate {
                return moments;
            }
        }
        let last = place.run(&[]);
        assert_eq!(last.code, Some(0), "seed {seed}, after {moments:?}: {}", last.err());
        moments
    }

    async fn check(&self) {
        let begun = Instant::now();
        let dir = tempfile::tempdir().unwrap();
        let place = self.place(dir.path(), 0);
        let ended = place.run(&[]).with(0);
        let clean = Clean { took: ended.took, checkpoints: ended.lines.iter().filter(|l| l.checkpointed()).count() };
        println!(
            "a clean run of {} rows: {:.1} s, {} checkpoints; seeds {}..={}",
            self.rows,
            clean.took.as_secs_f64(),
            clean.checkpoints,
            self.seed + 1,
            self.seed + self.runs
        );
        assert!(clean.checkpoints >= 23, "20 with rows, and open, end, closed");

        let mut tables: Vec<PathBuf> = vec![place.table()];
        let mut counts: BTreeMap<Moment, usize> = BTreeMap::new();
        for run in 1..=self.runs {
            let place = self.place(dir.path(), run);
            let moments = self.run(&place, &clean, self.seed + run);
            assert_exact(&place.snapshots(), self.rows);
            println!("seed {}: killed {}", self.seed + run, moments.iter().map(|m| m.name()).collect::<Vec<_>>().join(", "));
            for moment in moments {
                *counts.entry(moment).or_default() += 1;
            }
            tables.push(place.table());
        }
        println!("{:>6}  kills", "");
        for moment in Moment::ALL {
            println!("{:>6}  {}", counts.get(&moment).unwrap_or(&0), moment.name());
        }
        let before = begun.elapsed();
        let wanted: Value = tally::expected(self.rows).await;
        for (table, found) in tables.iter().zip(tally::read(&tables)) {
            assert_eq!(found, wanted, "{}", table.display());
        }
        println!(
            "{} tables by pypaimon: each {wanted}; {:.0} s running, {:.0} s reading back",
            tables.len(),
            before.as_secs_f64(),
            (begun.elapsed() - before).as_secs_f64()
        );
        let late = counts.get(&Moment::TooLate).copied().unwrap_or(0);
        let real = counts.values().sum::<usize>() - late;
        assert!(2 * real as u64 >= self.runs, "only {real} kills in {} runs", self.runs);
        for moment in &Moment::ALL[..5] {
            let n = counts.get(moment).copied().unwrap_or(0);
            assert!(n >= self.least, "only {n} kills {}; another seed (LAKEWARD_SEED) or more runs", moment.name());
        }
    }
}

/// From the environment, or `or`.
pub(crate) fn number(name: &str, or: u64) -> u64 {
    std::env::var(name).map_or(or, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is no number")))
}

#[tokio::test]
#[ignore = "wants Python (tests/setup.sh) and about two minutes"]
async fn killed_at_any_moment_and_restarted_until_done_every_row_is_there_once() {
    let form = Form { runs: 6, rows: 20_000, rate: 5000, every: 800, seed: 7, least: 0 };
    form.check().await;
}

#[tokio::test]
#[ignore = "the long form: tests/long.sh kills"]
async fn long_killed_at_any_moment_and_restarted_until_done_every_row_is_there_once() {
    if std::env::var_os("LAKEWARD_LONG").is_none() {
        return;
    }
    let runs = number("LAKEWARD_RUNS", 60);
    let form = Form {
        runs,
        rows: number("LAKEWARD_ROWS", 2_000_000),
        rate: number("LAKEWARD_RATE", 500_000),
        every: number("LAKEWARD_EVERY", 80_000),
        seed: number("LAKEWARD_SEED", 1000),
        least: usize::try_from(runs / 20).unwrap().min(3),
    };
    form.check().await;
}
