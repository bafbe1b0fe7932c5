//! What is looked at every second: which splits are silent, and whether commits come while input waits.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Monitor, SPEED_OVER, Settings, Stage, State, Volume};
use crate::pipeline::file::WatchdogSpec;
use crate::pipeline::units::show_duration;
use crate::source::SplitStatus;
use crate::stream::Event;

/// The longest time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest.
const SHORTEST_LOOK: Duration = Duration::from_millis(50);

/// Per split: since when nothing came.
#[derive(Clone, Debug, Default)]
pub(super) struct Silence(BTreeMap<String, Heard>);

#[derive(Clone, Debug)]
struct Heard {
    read: u64,
    /// When `read` last moved; monotonic.
    at: Duration,
    idle: bool,
}

impl Silence {
    /// How many splits are idle.
    pub(super) fn idle(&self) -> usize {
        self.0.values().filter(|heard| heard.idle).count()
    }
    pub(super) fn is_idle(&self, split: &str) -> bool {
        self.0.get(split).is_some_and(|heard| heard.idle)
    }
    /// The names of the splits that fell silent, and of those that came back.
    fn look(&mut self, splits: &BTreeMap<String, SplitStatus>, idle_after: Option<Duration>, now: Duration) -> (Vec<String>, Vec<String>) {
        let (mut fell, mut came) = (Vec::new(), Vec::new());
        self.0.retain(|split, _| splits.contains_key(split));
        for (split, s) in splits {
            if !self.0.contains_key(split) {
                self.0.insert(split.clone(), Heard { read: s.read, at: now, idle: false });
            }
            let Some(heard) = self.0.get_mut(split) else { continue };
            if heard.read != s.read {
                (heard.read, heard.at) = (s.read, now);
            }
            let long = idle_after.is_some_and(|after| now.saturating_sub(heard.at) >= after);
            // Once idle, only records end it: a broker that is asked for the end of a partition and does not answer is no record.
            let idle = long && s.unread().map_or(heard.idle, |unread| unread == 0);
            if idle != heard.idle {
                heard.idle = idle;
                if idle { fell.push(name(s)) } else { came.push(name(s)) }
            }
        }
        (fell, came)
    }
}

/// `topic[partition]`, or the file.
fn name(s: &SplitStatus) -> String {
    s.partition.map_or_else(|| s.name.clone(), |p| format!("{}[{p}]", s.name))
}

impl Monitor {
    /// How long until the next look.
    pub(super) fn look_every(&self) -> Duration {
        let some = [self.settings.watchdog.map(|w| w.interval), self.settings.idle_after];
        let least = some.into_iter().flatten().min().unwrap_or(LOOK);
        (least / 4).clamp(SHORTEST_LOOK, LOOK)
    }

    /// Looks, tells what there is to tell, and ends the run where that is wanted. Logs too: who takes the events may be the one that hangs.
    pub(super) fn look(&self, tell: &dyn Fn(Event)) {
        for event in self.news() {
            let pipeline = self.settings.pipeline.as_str();
            match &event {
                Event::Stalled { .. } => tracing::error!(pipeline, "{event}"),
                Event::Idle { .. } => tracing::warn!(pipeline, "{event}"),
                _ => tracing::info!(pipeline, "{event}"),
            }
            tell(event);
        }
        let exit = self.settings.watchdog.is_some_and(|spec| spec.exit);
        let stalled = self.state().stalled.clone();
        if exit && stalled.is_some() {
            self.end.send_replace(stalled);
        }
    }

    fn news(&self) -> Vec<Event> {
        let now = self.env.monotonic();
        let mut told = Vec::new();
        let mut state = self.state();
        let read = state.read.records;
        state.speed.push_back((now, read));
        while state.speed.front().is_some_and(|(at, _)| now.saturating_sub(*at) > SPEED_OVER) && state.speed.len() > 2 {
            state.speed.pop_front();
        }
        if state.stage != Stage::Running {
            return told;
        }
        match state.source.clone() {
            Some(source) => source.look(|splits| self.look_at(&mut state, splits, now, &mut told)),
            None => self.look_at(&mut state, &BTreeMap::new(), now, &mut told),
        }
        told
    }

    fn look_at(&self, state: &mut State, splits: &BTreeMap<String, SplitStatus>, now: Duration, told: &mut Vec<Event>) {
        let (fell, came) = state.silence.look(splits, self.settings.idle_after, now);
        state.idle_spells += fell.len() as u64;
        if !came.is_empty() {
            told.push(Event::Resumed { splits: came });
        }
        if !fell.is_empty() {
            told.push(Event::Idle { splits: fell, after: self.settings.idle_after.unwrap_or_default() });
        }
        if let Some(spec) = &self.settings.watchdog
            && let Some(why) = guard(spec, &self.settings, state, splits, now)
        {
            told.push(Event::Stalled { why });
        }
    }
}

/// The watchdog: what it has to say, once until a commit comes.
fn guard(
    spec: &WatchdogSpec,
    settings: &Settings,
    state: &mut State,
    splits: &BTreeMap<String, SplitStatus>,
    now: Duration,
) -> Option<String> {
    let unread = splits.values().filter_map(SplitStatus::unread).fold(0, u64::saturating_add);
    if !waits(settings, state, unread) {
        (state.waiting, state.stalled) = (None, None);
        return None;
    }
    let since = *state.waiting.get_or_insert(now);
    let silent = now.saturating_sub(since.max(state.settled));
    if silent < spec.limit() || state.spoke {
        return None;
    }
    let uncommitted = state.read.records.saturating_sub(state.settled_read.records);
    let what = match (state.under_way, state.seq) {
        (true, Some(seq)) => format!("the commit of checkpoint {seq} does not end"),
        _ => "no checkpoint was made".to_owned(),
    };
    let why = format!(
        "no commit for {} ({} intervals of {}) while input waits ({uncommitted} records read and not committed, {unread} not read): {what}",
        show_duration(Duration::from_secs(silent.as_secs()).max(spec.limit())),
        spec.intervals,
        show_duration(spec.interval),
    );
    state.stalls += 1;
    state.spoke = true;
    state.stalled = Some(why.clone());
    Some(why)
}

/// Is there something that should be committed by now, or soon? Where time is no trigger, only once a checkpoint is due: records may
/// rightly wait for others as long as they like.
fn waits(settings: &Settings, state: &State, unread: u64) -> bool {
    let Volume { records, bytes } = state.read;
    let (records, bytes) = (records.saturating_sub(state.settled_read.records), bytes.saturating_sub(state.settled_read.bytes));
    let due = settings.rows.is_some_and(|rows| records >= rows)
        || settings.bytes.is_some_and(|most| bytes >= most)
        || (state.end_of_input && records > 0);
    state.under_way || due || (settings.timed && (records > 0 || unread > 0))
}
