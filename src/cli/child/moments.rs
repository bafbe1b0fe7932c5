//! Where in its life a process is hit: drawn from a seed, aimed by what the process says, told by what lies on the store.

use std::time::Duration;

use serde_json::Value as Json;

/// Numbers from a seed, the same ones every time (SplitMix64).
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// 0 to n - 1.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % (n.max(1) as u64)).unwrap_or(0)
    }
    /// 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Where in its life a process was hit, by what lay on the store then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// There was no checkpoint but the one that opened the lineage, if any.
    BeforeTheFirst,
    /// The last checkpoint had landed everywhere, and the process had begun to write files for the next.
    Writing,
    /// A checkpoint was owned and had not landed in every sink.
    BetweenCheckpointAndCommit,
    /// The last checkpoint had landed everywhere, and nothing of the next was there.
    AfterCommit,
    /// The end of the input had landed everywhere.
    AtTheEnd,
}

impl Phase {
    pub(crate) const ALL: [Phase; 5] =
        [Phase::BeforeTheFirst, Phase::Writing, Phase::BetweenCheckpointAndCommit, Phase::AfterCommit, Phase::AtTheEnd];

    /// For eyes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::BeforeTheFirst => "before the first checkpoint",
            Phase::Writing => "while writing",
            Phase::BetweenCheckpointAndCommit => "between checkpoint and commit",
            Phase::AfterCommit => "after commit",
            Phase::AtTheEnd => "at the end",
        }
    }
    /// For programs.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Phase::BeforeTheFirst => "before_the_first_checkpoint",
            Phase::Writing => "while_writing",
            Phase::BetweenCheckpointAndCommit => "between_checkpoint_and_commit",
            Phase::AfterCommit => "after_commit",
            Phase::AtTheEnd => "at_the_end",
        }
    }
}

/// What a line of a process's log says, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A data file was opened.
    Opened,
    /// The start is over.
    Started,
    /// A checkpoint is owned. Is it the end of the input?
    Checkpointed { end: bool },
    /// A commit landed in one sink.
    Committed { end: bool },
    /// The start finished a checkpoint in one sink. Had it landed before?
    Finished { already: bool },
    /// Anything else.
    Other,
}

impl Said {
    /// Of a line of the log in JSON. An event is told twice, when it happens and by the command; only the first counts.
    pub(crate) fn of(line: &Json) -> Said {
        if line["message"].as_str().is_some_and(|m| m.starts_with("opened ")) {
            return Said::Opened;
        }
        line["event"].as_str().map_or(Said::Other, Said::of_event)
    }

    fn of_event(text: &str) -> Said {
        if text.starts_with("committed ") {
            return Said::Committed { end: text.starts_with("committed end of input ") };
        }
        if text.starts_with("new lineage ") || text.starts_with("going on as ") {
            return Said::Started;
        }
        match text.strip_prefix("checkpoint ") {
            Some(rest) if rest.contains(" written (") => Said::Checkpointed { end: rest.contains(" written (end,") },
            Some(rest) if rest.ends_with("; recognised") => Said::Finished { already: true },
            Some(rest) if rest.contains("; committed now as ") => Said::Finished { already: false },
            _ => Said::Other,
        }
    }
}

/// How often a process has said what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) opened: usize,
    pub(crate) checkpointed: usize,
    pub(crate) committed: usize,
    /// Commits since the last checkpoint.
    pub(crate) since: usize,
    /// Commits that its start recognised.
    pub(crate) recognised: u64,
    /// Commits that its start made.
    pub(crate) committed_at_start: u64,
    /// A file was opened after the last checkpoint or commit.
    pub(crate) writing: bool,
    /// It has owned the end of the input.
    pub(crate) ended: bool,
}

impl Counts {
    pub(crate) fn count(&mut self, said: Said) {
        match said {
            Said::Opened => (self.opened, self.writing) = (self.opened + 1, true),
            Said::Checkpointed { end } => {
                (self.checkpointed, self.since, self.writing) = (self.checkpointed + 1, 0, false);
                self.ended |= end;
            }
            Said::Committed { .. } => {
                (self.committed, self.since, self.writing) = (self.committed + 1, self.since + 1, false);
            }
            Said::Finished { already } => {
                self.recognised += u64::from(already);
                self.committed_at_start += u64::from(!already);
                self.writing = false;
            }
            Said::Started | Said::Other => {}
        }
    }
}

/// A run that was left alone: the measure for the moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clean {
    /// From start to end.
    pub(crate) took: Duration,
    /// From the start to the first checkpoint.
    pub(crate) to_first: Duration,
    /// From the last commit of a checkpoint to the next checkpoint, on average.
    pub(crate) writing: Duration,
    /// From a checkpoint to its last commit, on average.
    pub(crate) committing: Duration,
    /// From the last commit to the end.
    pub(crate) ending: Duration,
    /// Sinks and dead letters.
    pub(crate) tables: usize,
    pub(crate) counts: Counts,
}

impl Clean {
    /// How many tables a checkpoint has something for, on average.
    fn commits(&self) -> usize {
        let with_commits = self.counts.checkpointed.saturating_sub(1).max(1);
        ((self.counts.committed + with_commits / 2) / with_commits).clamp(1, self.tables.max(1))
    }
}

/// When to strike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Aim {
    /// So long after the start.
    After(Duration),
    /// So long after the n-th line of a kind.
    Line(Kind, usize, Duration),
}

/// A kind of line to aim at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Started,
    Opened,
    Checkpointed,
    /// A commit, in any sink.
    Committed,
    /// The commit that is so many after its checkpoint.
    Settled(usize),
    /// The checkpoint that is the end of the input.
    End,
    /// The commit of that which is so many after it.
    EndSettled(usize),
}

impl Kind {
    /// Is this line one? `counts`: with it.
    pub(crate) fn is(self, said: Said, counts: &Counts) -> bool {
        match self {
            Kind::Started => said == Said::Started,
            Kind::Opened => said == Said::Opened,
            Kind::Checkpointed => matches!(said, Said::Checkpointed { .. }),
            Kind::Committed => matches!(said, Said::Committed { .. }),
            Kind::Settled(n) => matches!(said, Said::Committed { .. }) && counts.since == n,
            Kind::End => said == Said::Checkpointed { end: true },
            Kind::EndSettled(n) => said == Said::Committed { end: true } && counts.since == n,
        }
    }
}

/// What is done to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Kill,
    Freeze,
}

/// How far the second process goes before the frozen one is woken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Started,
    Committed(usize),
    Ended,
}

/// Kills and freezes in the order of the seed.
pub(crate) fn hits(seed: u64, kills: u32, freezes: u32) -> Vec<How> {
    let mut all: Vec<How> = (0..kills).map(|_| How::Kill).chain((0..freezes).map(|_| How::Freeze)).collect();
    let mut draw = Draw(seed);
    for last in (1..all.len()).rev() {
        all.swap(last, draw.below(last + 1));
    }
    all
}

/// The numbers for one try of one hit.
pub(crate) fn draw_for(seed: u64, hit: usize, attempt: usize) -> Draw {
    let mut draw = Draw(seed ^ (hit as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ (attempt as u64).wrapping_mul(0xa076_1d64_78bd_642f));
    draw.next();
    draw
}

impl Aim {
    /// Where to hit a process that has the share `left` of the run before it. Every phase is aimed at; how long one lasts is the pipeline's
    /// affair, and some last but a moment.
    pub(crate) fn draw(draw: &mut Draw, clean: &Clean, left: f64) -> Aim {
        let (kind, share, more) = (draw.below(12), draw.share(), draw.share());
        // A count of lines is the count of a whole run, of which this process has only a part before it.
        let nth = |all: usize| 1 + (share * left * all.saturating_sub(1) as f64) as usize;
        let checkpoints = clean.counts.checkpointed;
        match kind {
            0 | 1 => Aim::After(clean.took.mul_f64(left * share)),
            2 | 3 => Aim::After(clean.to_first.mul_f64(share)),
            4 | 5 => Aim::Line(Kind::Opened, nth(clean.counts.opened), clean.writing.mul_f64(more)),
            6 | 7 => Aim::Line(Kind::Checkpointed, nth(checkpoints), clean.committing.mul_f64(more)),
            8 | 9 => Aim::Line(Kind::Settled(clean.commits()), nth(checkpoints), AN_INSTANT.mul_f64(more)),
            // `at_end: pause`: the last commit is the end.
            _ if !clean.counts.ended => Aim::Line(Kind::Committed, nth_last(clean, left), clean.ending.mul_f64(more)),
            10 => Aim::Line(Kind::End, 1, clean.committing.mul_f64(more)),
            _ => Aim::Line(Kind::EndSettled(clean.tables), 1, clean.ending.mul_f64(more)),
        }
    }
}

/// What follows a commit begins at once.
const AN_INSTANT: Duration = Duration::from_millis(3);

fn nth_last(clean: &Clean, left: f64) -> usize {
    ((left * clean.counts.committed as f64) as usize).max(1)
}

impl Wake {
    /// The second process's moment.
    pub(crate) fn moment(self) -> Aim {
        match self {
            Wake::Started => Aim::Line(Kind::Started, 1, Duration::ZERO),
            Wake::Committed(n) => Aim::Line(Kind::Committed, n, Duration::ZERO),
            Wake::Ended => Aim::Line(Kind::Started, usize::MAX, Duration::ZERO),
        }
    }
    pub(crate) fn draw(draw: &mut Draw) -> Wake {
        match draw.below(5) {
            0 => Wake::Started,
            1..=3 => Wake::Committed(1 + draw.below(3)),
            _ => Wake::Ended,
        }
    }
}

/// The p-th percentile (0 to 100) by nearest rank; none of nothing.
pub(crate) fn percentile(all: &[Duration], p: usize) -> Option<Duration> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * p).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::format::END_OF_INPUT;
    use crate::stream::Event;

    fn said(event: &Event) -> Said {
        Said::of(&json!({"level": "DEBUG", "event": event.to_string()}))
    }

    #[test]
    fn the_events_of_a_run_are_understood_as_they_are_worded() {
        let (sink, user, run) = ("/t".to_owned(), "p-1".to_owned(), "r".to_owned());
        for resumed in [true, false] {
            assert_eq!(said(&Event::Started { run: run.clone(), user: user.clone(), seq: 1, resumed }), Said::Started);
        }
        for already in [true, false] {
            let event = Event::Finished { seq: 3, sink: sink.clone(), identifier: 3, snapshot: 2, already };
            assert_eq!(said(&event), Said::Finished { already });
        }
        for (identifier, kind, end) in [(4, "data", false), (END_OF_INPUT, "end", true), (END_OF_INPUT, "closed", false)] {
            assert_eq!(said(&Event::Checkpointed { seq: 4, identifier, kind, millis: 1 }), Said::Checkpointed { end });
        }
        for (identifier, end) in [(4, false), (END_OF_INPUT, true)] {
            let event = Event::Committed { sink: sink.clone(), identifier, snapshot: 1, rows: 1, bytes: 1, files: 1, millis: 1 };
            assert_eq!(said(&event), Said::Committed { end });
        }
        assert_eq!(said(&Event::Idle { splits: vec!["t[0]".to_owned()], after: Duration::from_secs(5) }), Said::Other);
        assert_eq!(Said::of(&json!({"message": "opened bucket-0/data-1.parquet"})), Said::Opened);
        assert_eq!(Said::of(&json!({"message": "committed"})), Said::Other, "the command tells it once more");
    }

    #[test]
    fn a_seed_gives_the_same_hits_and_all_of_them() {
        let all = hits(7, 30, 5);
        assert_eq!(all, hits(7, 30, 5));
        assert_ne!(all, hits(8, 30, 5));
        assert_eq!((all.iter().filter(|h| **h == How::Kill).count(), all.len()), (30, 35));
        let clean = Clean { took: Duration::from_secs(2), ..Clean::default() };
        let aims = |seed| (0..20).map(|hit| Aim::draw(&mut draw_for(seed, hit, 0), &clean, 1.0)).collect::<Vec<_>>();
        assert_eq!(aims(7), aims(7));
        assert_ne!(aims(7), aims(8));
    }

    #[test]
    fn what_is_left_of_a_run_bounds_what_is_aimed_at() {
        let counts = Counts { opened: 60, checkpointed: 20, committed: 40, ended: true, ..Counts::default() };
        let ms = Duration::from_millis;
        let clean = Clean { took: ms(2000), to_first: ms(100), writing: ms(50), committing: ms(20), ending: ms(10), tables: 2, counts };
        let mut kinds = BTreeSet::new();
        for hit in 0..500 {
            let aim = Aim::draw(&mut draw_for(1, hit, 0), &clean, 0.5);
            kinds.insert(match aim {
                Aim::After(_) => "After".to_owned(),
                Aim::Line(kind, _, _) => format!("{kind:?}"),
            });
            match aim {
                Aim::After(after) => assert!(after <= ms(1000)),
                Aim::Line(Kind::Opened, n, after) => assert!((1..=30).contains(&n) && after <= ms(50)),
                Aim::Line(Kind::End | Kind::EndSettled(_), n, after) => assert!(n == 1 && after <= ms(20)),
                Aim::Line(_, n, after) => assert!((1..=10).contains(&n) && after <= ms(20)),
            }
        }
        let all = ["After", "Checkpointed", "End", "EndSettled(2)", "Opened", "Settled(2)"];
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
    }

    #[test]
    fn a_percentile_is_a_value_that_was_there() {
        let ms: Vec<Duration> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&ms, 50), Some(Duration::from_millis(50)));
        assert_eq!(percentile(&ms, 99), Some(Duration::from_millis(99)));
        assert_eq!(percentile(&ms[..1], 99), Some(Duration::from_millis(100)));
        assert_eq!(percentile(&[], 50), None);
    }
}
