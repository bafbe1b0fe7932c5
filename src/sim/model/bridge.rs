//! The production functions, called with the model's values. Offsets have one split; a floor's id and writer share one number, which the
//! functions pass on as it is; time stands still.

use super::world::{self, Floor, Ident, Life, Link, MAX, Off, Rows};
use crate::format::{self, CommitUser, Digest, END_OF_INPUT, Landed};
use crate::sink::{Message, Outcome};
use crate::source::{Offsets, Position};
use crate::stream::checkpoint::{Checkpoint, CheckpointKind, CloseEntry, FromMode, Role, SinkEntry, VERSION, Writer};
use crate::stream::decide::{Asked, First, Greatest, SinkState, Then};
use crate::stream::{self, Written};
use crate::table::decide::{Ask, Decision, Facts};

/// What a process knows of a sink between two checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) floor: Floor,
    pub(super) last: Option<Ident>,
    pub(super) since: Off,
    pub(super) covered: Off,
}

pub(super) fn ident(id: Ident) -> i64 {
    if id == MAX { END_OF_INPUT } else { i64::from(id) }
}

pub(super) fn ident_back(id: i64) -> Ident {
    if id == END_OF_INPUT { MAX } else { Ident::try_from(id).unwrap() }
}

pub(super) fn digest(link: Link) -> Digest {
    Digest::of(&[link.seq, link.life])
}

fn snapshot_digest(floor: Floor) -> Digest {
    Digest::of(&[b's', floor.id, floor.writer])
}

fn offsets(off: Off) -> Offsets {
    let position = Position { offset: off.into(), note: None };
    if off == 0 { Offsets::default() } else { Offsets::from([("s".to_owned(), position)]) }
}

fn offsets_back(offsets: &Offsets) -> Off {
    Off::try_from(offsets.offset("s")).unwrap()
}

fn floor(floor: Floor) -> format::Floor {
    format::Floor { id: u64::from(floor.id) << 8 | u64::from(floor.writer), sha256: None, table: String::new() }
}

fn floor_back(floor: &format::Floor) -> Floor {
    Floor { id: u8::try_from(floor.id >> 8).unwrap(), writer: (floor.id & 0xff) as u8 }
}

fn messages(rows: Option<Rows>) -> Option<Vec<Message>> {
    rows.map(|rows| if rows == 0 { Vec::new() } else { vec![Message::new(&rows).unwrap()] })
}

fn messages_back(messages: Option<&Vec<Message>>) -> Option<Rows> {
    messages.map(|m| m.first().map_or(0, |rows| rows.read().unwrap()))
}

fn user(life: Life) -> CommitUser {
    CommitUser::new(char::from(life).to_string())
}

fn entry(e: &world::Entry, at: Off) -> SinkEntry {
    SinkEntry {
        role: Role::Sink,
        format: String::new(),
        floor: floor(e.floor),
        last: e.last.map(ident),
        since: offsets(e.since),
        covered: (e.covered != at).then(|| offsets(e.covered)),
        watermark: None,
        floor_read: 0,
        predecessor: None,
        messages: messages(e.messages),
    }
}

fn checkpoint(c: &world::Checkpoint, tables: usize) -> Checkpoint {
    Checkpoint {
        version: VERSION,
        pipeline: String::new(),
        chain: String::new(),
        seq: c.link.seq.into(),
        nonce: String::new(),
        writer: Writer { host: String::new(), pid: 0, started: 0, run: String::new() },
        parent: None,
        kind: c.kind,
        user: user(c.user),
        opened: c.opened.into(),
        identifier: ident(c.ident),
        offsets: offsets(c.offsets),
        stop: None,
        start: String::new(),
        until: String::new(),
        from: None,
        close: None,
        resolved: Default::default(),
        sinks: c.sinks.iter().take(tables).enumerate().map(|(t, e)| (t.to_string(), entry(e, c.offsets))).collect(),
    }
}

fn state(s: &State) -> SinkState {
    SinkState {
        role: Role::Sink,
        format: String::new(),
        floor: floor(s.floor),
        floor_read: 0,
        last: s.last.map(ident),
        since: offsets(s.since),
        covered: offsets(s.covered),
        watermark: None,
        predecessor: None,
    }
}

fn state_back(s: &SinkState) -> State {
    State { floor: floor_back(&s.floor), last: s.last.map(ident_back), since: offsets_back(&s.since), covered: offsets_back(&s.covered) }
}

pub(super) fn identifier_of(kind: CheckpointKind, seq: u8) -> Ident {
    ident_back(stream::identifier_of(kind, seq.into()))
}

pub(super) fn anything_to_read(from: Off, total: Off) -> bool {
    stream::decide::anything_to_read(&offsets(from), Some(&offsets(total)))
}

/// `stream::decide::start`. `--abandon` names the greatest. None: the request does not fit.
pub(super) fn start(greatest: Option<&world::Checkpoint>, rewind: Option<u8>, abandon: bool) -> Option<(First, Then)> {
    let facts = greatest.map(|c| Greatest { seq: c.link.seq.into(), kind: c.kind, messages: c.sinks.iter().any(|e| e.messages.is_some()) });
    let abandon = abandon.then(|| facts.map_or(0, |f| f.seq));
    stream::decide::start(facts, Asked { rewind: rewind.map(u64::from), abandon }).ok()
}

/// `stream::decide::next_entry`.
pub(super) fn next_entry(kind: CheckpointKind, s: &State, at: Off, rows: Option<Rows>, head: Option<Floor>) -> world::Entry {
    let e = stream::decide::next_entry(kind, &state(s), &offsets(at), messages(rows), head.map(|h| (floor(h), 0)));
    world::Entry {
        floor: floor_back(&e.floor),
        last: e.last.map(ident_back),
        since: offsets_back(&e.since),
        covered: e.covered.as_ref().map_or(at, offsets_back),
        messages: messages_back(e.messages.as_ref()),
    }
}

/// `stream::decide::after`.
pub(super) fn after(c: &world::Checkpoint, t: usize, now_at: Floor, last: Option<Ident>) -> State {
    let outcome = Outcome { already: false, floor: floor(now_at), last: last.map(ident) };
    let whole = checkpoint(c, t + 1);
    state_back(&stream::decide::after(&whole, &whole.sinks[&t.to_string()], &outcome, 0))
}

/// `stream::decide::after_close`: since and covered.
pub(super) fn after_close(mode: FromMode, old: &world::CloseEntry, closed_at: Option<Ident>, back_to: Off) -> (Off, Off) {
    let old = CloseEntry {
        format: String::new(),
        floor: floor(old.floor),
        last: old.last.map(ident),
        identifier: old.identifier.map(ident),
        digest: digest(old.digest),
        offsets: offsets(old.offsets),
        since: offsets(old.since),
        covered: offsets(old.covered),
    };
    let (since, covered) = stream::decide::after_close(mode, &old, closed_at.map(ident), &offsets(back_to));
    (offsets_back(&since), offsets_back(&covered))
}

/// What a start writes of the lineage that it closes.
pub(super) fn close_entry(parent: &world::Checkpoint, t: usize, known: &State) -> world::CloseEntry {
    let written = Written { checkpoint: checkpoint(parent, t + 1), digest: digest(parent.link) };
    let e = stream::close_entry(&written, &written.checkpoint.sinks[&t.to_string()], Some(&state(known)));
    world::CloseEntry {
        floor: floor_back(&e.floor),
        last: e.last.map(ident_back),
        identifier: e.identifier.map(ident_back),
        digest: parent.link,
        offsets: offsets_back(&e.offsets),
        since: offsets_back(&e.since),
        covered: offsets_back(&e.covered),
    }
}

pub(super) fn least_covered(c: &world::Checkpoint, tables: usize) -> Off {
    offsets_back(&stream::least_covered(&checkpoint(c, tables)))
}

/// What retention deletes next, if anything.
pub(super) fn expendable(seqs: &[u64], with_messages: &[u64]) -> Option<u8> {
    let first = stream::expendable(seqs, 2, &with_messages.iter().copied().collect()).first().copied()?;
    Some(u8::try_from(first).unwrap())
}

/// The walk of `format::paimon`, on one state of the table. What the one above is not built on fell into an expired slot and counts as missing.
pub(super) fn landed(table: &world::Table, user: Life, floor: Floor) -> Landed {
    let head = table.head().id;
    if floor.id > head {
        return Landed::Other(String::new());
    }
    for at in (floor.id.max(1)..=head).rev() {
        let is_floor = at == floor.id;
        let gone = if is_floor { Landed::None } else { Landed::Unknown(String::new()) };
        let Some(found) = table.get(at) else { return gone };
        if is_floor && found.floor() == floor {
            return Landed::None;
        }
        let own = found.own();
        if (own.user == user || is_floor) && at < head && !table.above_is_built_on(found) {
            return gone;
        }
        if is_floor {
            return Landed::Other(String::new());
        }
        if own.user == user {
            return Landed::At {
                identifier: ident(own.ident),
                checkpoint: Some(digest(own.order)),
                id: at.into(),
                sha256: snapshot_digest(found.floor()),
                closed_at: own.closed_at.map(|id| id.map(ident)),
            };
        }
    }
    Landed::None
}

/// `table::decide::decide`, as the commit loop asks it. `by_order`: other people's rule in place of equality.
pub(super) fn decide(ask: Ask, landed: &Landed, last: Option<Ident>, live: impl Fn() -> bool, by_order: bool) -> Decision {
    let mut facts = Facts { ask, landed, last: last.map(ident), live: None, resolve: None };
    let mut decision = crate::table::decide::decide(&facts);
    if decision == Decision::LookForFiles {
        facts.live = Some(live());
        decision = crate::table::decide::decide(&facts);
    }
    match ask {
        Ask::Rows { identifier, .. } | Ask::Empty { identifier, .. } if by_order => {
            let newest = match landed {
                Landed::At { identifier, .. } => Some(*identifier),
                Landed::None => facts.last,
                Landed::Never | Landed::Unknown(_) | Landed::Other(_) => None,
            };
            if newest.is_some_and(|newest| identifier <= newest) { Decision::AlreadyLanded } else { Decision::Publish }
        }
        _ => decision,
    }
}
