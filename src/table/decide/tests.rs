//! Every combination of facts against the table of the protocol, written down a second time as rows.

use super::*;

const N: i64 = 7;

fn digest(n: u8) -> Digest {
    Digest::of(&[n])
}

fn at(identifier: i64, checkpoint: Option<Digest>, closed_at: Option<Option<i64>>) -> Landed {
    Landed::At { identifier, checkpoint, id: 40, sha256: digest(99), closed_at }
}

fn run(ask: Ask, landed: &Landed, last: Option<i64>, live: Option<bool>, resolve: Option<Resolution>) -> Decision {
    decide(&Facts { ask, landed, last, live, resolve })
}

fn rows(identifier: i64) -> Ask {
    Ask::Rows { identifier, digest: Some(digest(1)) }
}
fn empty(identifier: i64) -> Ask {
    Ask::Empty { identifier, digest: Some(digest(1)) }
}
fn close() -> Ask {
    Ask::Close { pending: Some((N, digest(1))) }
}

/// The columns of the protocol's table, for a table that was read without a gap.
fn row(landed: &Landed, last: Option<i64>, expected: [Decision; 4]) {
    for (ask, expected) in [rows(N), empty(N), Ask::Look, close()].into_iter().zip(expected) {
        for live in [None, Some(false), Some(true)] {
            for resolve in [None, Some(Resolution::Landed), Some(Resolution::Lost)] {
                assert_eq!(run(ask, landed, last, live, resolve), expected, "{ask:?} on {landed:?}, last {last:?}");
            }
        }
    }
}

fn stop(stop: Stop) -> Decision {
    Decision::Stop(stop)
}

#[test]
fn newest_equal_to_last_publishes() {
    for last in [None, Some(3), Some(6)] {
        let closes = Decision::PublishClose { closed_at: last };
        let expected = [Decision::Publish, Decision::Publish, Decision::Fine, closes];
        row(&Landed::None, last, expected.clone());
        if let Some(last_id) = last {
            row(&at(last_id, Some(digest(5)), None), last, expected.clone());
            // Only a Delta checkpoint is left of it: were our files landed before it was moved back?
            let unsure = at(last_id, None, None);
            for (live, expected) in
                [(None, Decision::LookForFiles), (Some(true), Decision::AlreadyLanded), (Some(false), Decision::Publish)]
            {
                assert_eq!(run(rows(N), &unsure, last, live, None), expected);
            }
            assert_eq!(run(empty(N), &unsure, last, None, None), Decision::Publish);
            assert_eq!(run(Ask::Look, &unsure, last, None, None), Decision::Fine);
        }
    }
}

/// The commit is there, and names no checkpoint: no chain made it, whatever it says.
#[test]
fn a_commit_in_our_name_that_names_no_checkpoint_stops_a_chain_whichever_way_it_moved_the_user() {
    for identifier in [3, 6, N, 8] {
        let moved = at(identifier, Some(Digest::of_nothing()), None);
        let expected = stop(Stop::MovedByOther(Some(identifier)));
        row(&moved, Some(6), [expected.clone(), expected.clone(), expected.clone(), expected]);
    }
    let without = Ask::Rows { identifier: N, digest: None };
    assert_eq!(run(without, &at(6, Some(Digest::of_nothing()), None), Some(6), None, None), Decision::Publish);
}

#[test]
fn ours_with_our_digest_or_none_has_landed() {
    for checkpoint in [Some(digest(1)), None] {
        for last in [None, Some(3)] {
            let closes = Decision::PublishClose { closed_at: Some(N) };
            let expected = [Decision::AlreadyLanded, Decision::AlreadyLanded, stop(Stop::Ahead(N)), closes];
            row(&at(N, checkpoint, None), last, expected);
        }
    }
}

#[test]
fn ours_with_another_digest_stops() {
    let other = stop(Stop::OtherContent);
    row(&at(N, Some(digest(2)), None), Some(3), [other.clone(), other.clone(), stop(Stop::Ahead(N)), other]);
}

#[test]
fn a_closed_lineage_stops_everything_but_its_own_close() {
    for (closed_at, told) in [(Some(None), None), (Some(Some(3)), Some(3)), (None, Some(END_OF_INPUT))] {
        let by_other = stop(Stop::ClosedByOther);
        let expected = [by_other.clone(), by_other.clone(), by_other, Decision::Closed { closed_at: told }];
        row(&at(END_OF_INPUT, Some(digest(9)), closed_at), Some(3), expected);
    }
}

#[test]
fn end_of_input_is_recognised_by_its_digest_and_never_taken_for_a_close() {
    for ask in [rows(END_OF_INPUT), empty(END_OF_INPUT)] {
        let ours = at(END_OF_INPUT, Some(digest(1)), None);
        assert_eq!(run(ask, &ours, Some(3), None, None), Decision::AlreadyLanded);
        let other = at(END_OF_INPUT, Some(digest(2)), None);
        assert_eq!(run(ask, &other, Some(3), None, None), stop(Stop::OtherContent));
        for digest_of_close in [Some(digest(1)), Some(digest(2)), None] {
            let closed = at(END_OF_INPUT, digest_of_close, Some(Some(3)));
            assert_eq!(run(ask, &closed, Some(3), None, None), stop(Stop::ClosedByOther));
        }
    }
}

#[test]
fn a_table_ahead_of_its_chain_stops() {
    let ahead = stop(Stop::Ahead(9));
    row(&at(9, Some(digest(1)), None), Some(3), [ahead.clone(), ahead.clone(), ahead.clone(), ahead]);
    let between = stop(Stop::Ahead(5));
    row(&at(5, None, None), Some(3), [between.clone(), between.clone(), between.clone(), between.clone()]);
    row(&at(5, None, None), None, [between.clone(), between.clone(), between.clone(), between]);
}

#[test]
fn a_table_behind_its_chain_stops() {
    let behind = stop(Stop::Behind(Some(2)));
    row(&at(2, None, None), Some(3), [behind.clone(), behind.clone(), behind.clone(), behind]);
}

#[test]
fn another_table_stops() {
    let other = stop(Stop::OtherTable("why".into()));
    row(&Landed::Other("why".into()), Some(3), [other.clone(), other.clone(), other.clone(), other]);
}

#[test]
fn closing_a_lineage_that_had_ended_lands_nothing() {
    assert_eq!(run(close(), &Landed::None, Some(END_OF_INPUT), None, None), Decision::Closed { closed_at: Some(END_OF_INPUT) });
}

#[test]
fn unknown_history_is_never_taken_for_not_committed() {
    let unknown = Landed::Unknown("gap".into());
    let stopped = stop(Stop::Unknown("gap".into()));
    let all = [None, Some(Resolution::Landed), Some(Resolution::Lost)];
    for last in [None, Some(3)] {
        for resolve in all {
            for live in [None, Some(false), Some(true)] {
                assert_eq!(run(Ask::Look, &unknown, last, live, resolve), Decision::FineAtHead);
                assert_eq!(run(empty(N), &unknown, last, live, resolve), Decision::Publish);
                let no_pending = Ask::Close { pending: None };
                assert_eq!(run(no_pending, &unknown, last, live, resolve), Decision::PublishClose { closed_at: last });
            }
            assert_eq!(run(rows(N), &unknown, last, None, resolve), Decision::LookForFiles);
            assert_eq!(run(close(), &unknown, last, None, resolve), Decision::LookForFiles);
            assert_eq!(run(rows(N), &unknown, last, Some(true), resolve), Decision::AlreadyLanded);
            assert_eq!(run(close(), &unknown, last, Some(true), resolve), Decision::PublishClose { closed_at: Some(N) });
        }
        assert_eq!(run(rows(N), &unknown, last, Some(false), None), stopped);
        assert_eq!(run(close(), &unknown, last, Some(false), None), stopped);
        assert_eq!(run(rows(N), &unknown, last, Some(false), all[1]), Decision::AlreadyLanded);
        assert_eq!(run(rows(N), &unknown, last, Some(false), all[2]), Decision::Publish);
        assert_eq!(run(close(), &unknown, last, Some(false), all[1]), Decision::PublishClose { closed_at: Some(N) });
        assert_eq!(run(close(), &unknown, last, Some(false), all[2]), Decision::PublishClose { closed_at: last });
    }
}

/// Over every combination: what may be published at all, and that nothing is answered by accident.
#[test]
fn nothing_is_published_unless_newest_is_last_or_a_person_or_an_empty_snapshot_allows_it() {
    let ids = [None, Some(2), Some(3), Some(N), Some(9), Some(END_OF_INPUT)];
    let digests = [None, Some(digest(1)), Some(digest(2))];
    let closings = [None, Some(None), Some(Some(2)), Some(Some(N))];
    let mut count = 0;
    for last in ids {
        for newest in ids {
            for seen in digests {
                for closing in closings {
                    let landed = newest.map_or(Landed::None, |id| at(id, seen, closing));
                    for identifier in [N, END_OF_INPUT] {
                        for ask in [rows(identifier), empty(identifier), Ask::Look, close(), Ask::Close { pending: None }] {
                            let decision = run(ask, &landed, last, None, None);
                            let known = newest.or(last);
                            let equal = if newest.is_none() { true } else { newest == last };
                            match (ask, &decision) {
                                (Ask::Rows { .. } | Ask::Empty { .. }, Decision::Publish) => assert!(equal),
                                (Ask::Rows { .. } | Ask::Empty { .. }, Decision::AlreadyLanded) => {
                                    assert_eq!(known, Some(identifier));
                                    assert_ne!(seen, Some(digest(2)));
                                    assert!(closing.is_none());
                                }
                                (Ask::Rows { .. }, Decision::LookForFiles) => assert!(equal && newest.is_some() && seen.is_none()),
                                (Ask::Look, Decision::Fine) => assert!(equal),
                                (Ask::Close { .. }, Decision::Closed { .. }) => assert_eq!(known, Some(END_OF_INPUT)),
                                (Ask::Close { pending }, Decision::PublishClose { closed_at }) => {
                                    assert_eq!(*closed_at, known);
                                    assert!(equal || pending.is_some_and(|(id, _)| Some(id) == newest));
                                }
                                (_, Decision::Stop(_)) => assert!(!equal),
                                other => panic!("{other:?} on {landed:?}, last {last:?}"),
                            }
                            count += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(count, 6 * 6 * 3 * 4 * 2 * 5);
}
