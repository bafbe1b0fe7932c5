//! Every row of the protocol's table "what floor, last, since and covered become", and every start.

use super::*;
use crate::error::Kind;
use crate::format::{CommitMessage, Digest};
use crate::source::Position;
use crate::stream::checkpoint::{From, Link, Writer};

fn offsets(pairs: &[(&str, u64)]) -> Offsets {
    pairs.iter().map(|(s, o)| ((*s).to_owned(), Position { offset: *o, note: None })).collect()
}

fn floor(id: u64) -> Floor {
    Floor { id, sha256: Some(Digest::of(&id.to_le_bytes())), table: "t".into() }
}

fn state() -> SinkState {
    SinkState {
        role: Role::Sink,
        format: "paimon".into(),
        floor: floor(10),
        floor_read: 1000,
        last: Some(4),
        since: offsets(&[("a", 40), ("b", 7)]),
        covered: offsets(&[("a", 50), ("b", 7)]),
        watermark: Some(77),
        predecessor: None,
    }
}

fn checkpoint(kind: CheckpointKind, seq: u64, offsets: Offsets, entry: SinkEntry) -> Checkpoint {
    Checkpoint {
        version: 1,
        pipeline: "p".into(),
        chain: "c".into(),
        seq,
        nonce: "n".into(),
        writer: Writer { host: "h".into(), pid: 1, started: 0, run: "r".into() },
        parent: None,
        kind,
        user: CommitUser::new("p-1"),
        opened: 0,
        identifier: crate::stream::chain::identifier_of(kind, seq),
        offsets,
        stop: None,
        start: String::new(),
        until: String::new(),
        from: None,
        close: None,
        resolved: Default::default(),
        sinks: [("s".to_owned(), entry)].into(),
    }
}

fn message() -> Vec<Message> {
    vec![Message::new(&serde_json::json!({"version": 1})).unwrap()]
}

fn landed(id: u64, last: Option<i64>) -> Outcome {
    Outcome { already: false, floor: floor(id), last }
}

#[test]
fn data_with_rows_keeps_its_facts_until_it_has_landed() {
    let o = offsets(&[("a", 60), ("b", 9), ("c", 1)]);
    let entry = next_entry(CheckpointKind::Data, &state(), &o, Some(message()), None);
    assert_eq!((&entry.floor, entry.last, &entry.since), (&floor(10), Some(4), &state().since));
    assert_eq!(entry.covered.as_ref(), Some(&state().covered));
    let c = checkpoint(CheckpointKind::Data, 5, o.clone(), entry.clone());
    let after = after(&c, &entry, &landed(12, Some(5)), 2000);
    assert_eq!((after.floor, after.floor_read, after.last), (floor(12), 2000, Some(5)));
    assert_eq!((after.since, after.covered), (o.clone(), o));
}

#[test]
fn data_without_rows_settles_the_offsets_and_moves_nothing_else() {
    let o = offsets(&[("a", 45), ("b", 9)]);
    let entry = next_entry(CheckpointKind::Data, &state(), &o, None, None);
    let settled = offsets(&[("a", 50), ("b", 9)]);
    assert_eq!(entry.covered.as_ref(), Some(&settled), "covered never goes back, per split");
    let c = checkpoint(CheckpointKind::Data, 5, o, entry.clone());
    let after = after(&c, &entry, &Outcome { already: true, floor: floor(10), last: Some(4) }, 2000);
    assert_eq!((after.floor, after.floor_read, after.last), (floor(10), 1000, Some(4)));
    assert_eq!((after.since, after.covered), (state().since, settled));
}

#[test]
fn covered_is_left_out_when_it_is_the_offsets() {
    let o = offsets(&[("a", 60), ("b", 9)]);
    let entry = next_entry(CheckpointKind::Data, &state(), &o, None, None);
    assert_eq!(entry.covered, None);
    let c = checkpoint(CheckpointKind::Data, 5, o.clone(), entry.clone());
    assert_eq!(c.covered(&entry), &o);
}

#[test]
fn an_old_floor_is_replaced_by_the_head_and_last_stays() {
    for (kind, messages) in [(CheckpointKind::Data, None), (CheckpointKind::Data, Some(message())), (CheckpointKind::End, Some(vec![]))] {
        let entry = next_entry(kind, &state(), &offsets(&[]), messages, Some((floor(30), 9000)));
        assert_eq!((entry.floor, entry.floor_read, entry.last), (floor(30), 9000, Some(4)));
    }
}

#[test]
fn end_lands_under_max_with_rows_or_without() {
    for messages in [message(), Vec::new()] {
        let o = offsets(&[("a", 60), ("b", 9)]);
        let entry = next_entry(CheckpointKind::End, &state(), &o, Some(messages), None);
        let c = checkpoint(CheckpointKind::End, 5, o.clone(), entry.clone());
        let after = after(&c, &entry, &landed(12, Some(END_OF_INPUT)), 2000);
        assert_eq!((after.last, after.since, after.covered), (Some(END_OF_INPUT), o.clone(), o));
    }
}

#[test]
fn closed_says_max_and_begins_at_its_offsets() {
    let o = offsets(&[("a", 60), ("b", 9)]);
    let ended = SinkState { last: Some(END_OF_INPUT), since: o.clone(), covered: o.clone(), ..state() };
    let entry = next_entry(CheckpointKind::Closed, &ended, &o, None, None);
    assert_eq!((entry.last, &entry.since, &entry.covered), (Some(END_OF_INPUT), &o, &None));
}

#[test]
fn the_first_landed_snapshot_names_the_predecessor_and_no_later_one() {
    let first = SinkState { last: None, predecessor: Some(CommitUser::new("old")), ..state() };
    let o = offsets(&[("a", 60)]);
    let idle = next_entry(CheckpointKind::Data, &first, &o, None, None);
    let c = checkpoint(CheckpointKind::Data, 5, o.clone(), idle.clone());
    let still = after(&c, &idle, &Outcome { already: true, floor: floor(10), last: None }, 0);
    assert_eq!(still.predecessor, first.predecessor);
    let entry = next_entry(CheckpointKind::Data, &still, &o, Some(message()), None);
    assert_eq!(entry.predecessor, first.predecessor);
    let c = checkpoint(CheckpointKind::Data, 6, o, entry.clone());
    assert_eq!(after(&c, &entry, &landed(12, Some(6)), 0).predecessor, None);
}

fn close_entry(identifier: Option<i64>) -> CloseEntry {
    CloseEntry {
        format: "paimon".into(),
        floor: floor(10),
        last: Some(4),
        identifier,
        digest: Digest::of(b"parent"),
        offsets: offsets(&[("a", 60), ("b", 5)]),
        since: offsets(&[("a", 40)]),
        covered: offsets(&[("a", 50), ("b", 7)]),
    }
}

#[test]
fn a_rewind_goes_back_to_its_checkpoint_in_every_sink() {
    let k = offsets(&[("a", 20)]);
    for identifier in [None, Some(5)] {
        for closed_at in [None, Some(4), Some(5), Some(END_OF_INPUT)] {
            assert_eq!(after_close(FromMode::Rewind, &close_entry(identifier), closed_at, &k), (k.clone(), k.clone()));
        }
    }
}

#[test]
fn a_rewind_never_goes_forward_in_a_sink_that_lags() {
    let k = offsets(&[("a", 55), ("b", 6)]);
    let given_up = offsets(&[("a", 50), ("b", 6)]);
    assert_eq!(after_close(FromMode::Rewind, &close_entry(Some(5)), Some(4), &k), (given_up.clone(), given_up));
    assert_eq!(after_close(FromMode::Rewind, &close_entry(Some(5)), Some(5), &k), (k.clone(), k.clone()));
    assert_eq!(after_close(FromMode::Rewind, &close_entry(None), Some(4), &k), (k.clone(), k));
}

#[test]
fn an_abandon_settles_a_sink_only_where_it_had_landed_or_had_nothing() {
    let settled = offsets(&[("a", 60), ("b", 7)]);
    let close = close_entry(Some(5));
    let unused = offsets(&[]);
    assert_eq!(after_close(FromMode::Abandon, &close, Some(5), &unused), (settled.clone(), settled.clone()));
    for closed_at in [None, Some(4)] {
        assert_eq!(after_close(FromMode::Abandon, &close, closed_at, &unused), (close.since.clone(), close.covered.clone()));
    }
    let nothing = close_entry(None);
    assert_eq!(after_close(FromMode::Abandon, &nothing, Some(4), &unused), (close.since.clone(), settled));
    let ended = close_entry(Some(END_OF_INPUT));
    let (_, covered) = after_close(FromMode::Abandon, &ended, Some(END_OF_INPUT), &unused);
    assert_eq!(covered, offsets(&[("a", 60), ("b", 7)]));
}

#[test]
fn every_start_has_an_answer() {
    use CheckpointKind::{Closed, Data, End, Open};
    let none = Asked::default();
    assert_eq!(start(None, none).unwrap(), (First::Nothing, Then::Begin));
    for kind in [Open, Data, End, Closed] {
        for messages in [false, true] {
            let greatest = Some(Greatest { seq: 6, kind, messages });
            let then = match kind {
                Open | Data => Then::GoOn,
                End => Then::WriteClosed,
                Closed => Then::Begin,
            };
            assert_eq!(start(greatest, none).unwrap(), (First::Finish, then));
            for k in 0..9 {
                let rewind = start(greatest, Asked { rewind: Some(k), abandon: None });
                match k {
                    0..=6 => assert_eq!(rewind.unwrap(), (First::Finish, Then::GoBack(FromMode::Rewind))),
                    _ => assert_eq!(rewind.unwrap_err().kind(), Kind::Invalid),
                }
                let abandon = start(greatest, Asked { rewind: None, abandon: Some(k) });
                match (k, messages) {
                    (6, true) => assert_eq!(abandon.unwrap(), (First::GiveUp, Then::GoBack(FromMode::Abandon))),
                    _ => assert_eq!(abandon.unwrap_err().kind(), Kind::Invalid),
                }
            }
            let both = start(greatest, Asked { rewind: Some(1), abandon: Some(6) });
            assert_eq!(both.unwrap_err().kind(), Kind::Invalid);
        }
    }
    for asked in [Asked { rewind: Some(0), abandon: None }, Asked { rewind: None, abandon: Some(0) }] {
        assert_eq!(start(None, asked).unwrap_err().kind(), Kind::Invalid);
    }
}

#[test]
fn a_bounded_source_at_its_stop_has_nothing_to_read() {
    let at = offsets(&[("a", 5)]);
    assert!(anything_to_read(&at, None));
    assert!(anything_to_read(&at, Some(&offsets(&[("a", 6)]))));
    assert!(anything_to_read(&at, Some(&offsets(&[("b", 1)]))));
    assert!(!anything_to_read(&at, Some(&offsets(&[("a", 5)]))));
    assert!(!anything_to_read(&at, Some(&offsets(&[]))));
}

#[test]
fn a_checkpoint_survives_its_json() {
    let entry = next_entry(CheckpointKind::Data, &state(), &offsets(&[("a", 1)]), Some(message()), None);
    let mut c = checkpoint(CheckpointKind::Data, 5, offsets(&[("a", 1)]), entry);
    c.from = Some(From { link: Link { seq: 3, sha256: Digest::of(b"x") }, mode: FromMode::Rewind });
    let bytes = c.to_bytes().unwrap();
    assert_eq!(Checkpoint::from_bytes(&bytes, "p", 5).unwrap(), c);
    assert_eq!(Checkpoint::from_bytes(&bytes, "q", 5).unwrap_err().kind(), Kind::Data);
    assert_eq!(Checkpoint::from_bytes(&bytes, "p", 6).unwrap_err().kind(), Kind::Data);
    let newer = String::from_utf8(bytes.to_vec()).unwrap().replacen("\"version\":1", "\"version\":3", 1);
    let error = Checkpoint::from_bytes(newer.as_bytes(), "p", 5).unwrap_err();
    assert!(error.message().contains("version 3"), "{error}");
}

/// Checkpoints as programs before this one wrote them (of version 2 without most of the files that it names).
#[test]
fn checkpoints_of_every_version_are_read_and_say_the_same_when_written_again() {
    let first = include_bytes!("../../../fixtures/checkpoints/version-1.json");
    let second = include_bytes!("../../../fixtures/checkpoints/version-2.json");
    for (bytes, version, seq) in [(&first[..], 1, 2), (second, 2, 9)] {
        let read = Checkpoint::from_bytes(bytes, "golden", seq).unwrap();
        assert_eq!((read.version, read.kind), (version, CheckpointKind::Data));
        let messages = read.sinks.values().next().unwrap().messages.as_ref().unwrap();
        let message: CommitMessage = messages[0].read().unwrap();
        assert!(message.files[0].rows > 0, "{message:?}");
        let again: serde_json::Value = serde_json::from_slice(&read.to_bytes().unwrap()).unwrap();
        assert_eq!(again, serde_json::from_slice::<serde_json::Value>(bytes).unwrap(), "version {version}");
    }
}
