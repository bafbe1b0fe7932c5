//! The same pipeline started twice, and runs that are stopped or have nothing to do.

use std::time::Duration;

use rustix::process::Signal;

use super::{Ended, Line, Place, Running, assert_exact, tree};

const SOURCE: &str = "generate: {rows: 600, rows_per_second: 200}";

/// Was it fenced, by this process?
fn fenced_by(loser: &Ended, winner: &Ended) {
    let error = &loser.lines.last().unwrap().json;
    assert_eq!((error["kind"].as_str(), error["exit_code"].as_i64()), (Some("Fenced"), Some(4)), "{}", loser.err());
    let message = error["message"].as_str().unwrap();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert!(message.contains(&format!("host {host}, pid {}", winner.pid)), "{message}");
}

#[test]
fn of_two_that_start_at_once_one_ends_fenced_and_names_the_other_and_every_row_is_there_once() {
    let place = Place::new(SOURCE, "every: 500ms");
    let both: [Running; 2] = std::array::from_fn(|_| place.start(&[]));
    let [a, b] = both.map(Running::end);
    let (winner, loser) = if a.code == Some(0) { (a, b) } else { (b, a) };
    let winner = winner.with(0);
    let loser = loser.with(4);
    fenced_by(&loser, &winner);
    assert_exact(&place.snapshots(), 600);
    assert_eq!(place.ids(), (1..=600).collect::<Vec<_>>());
}

#[test]
fn one_that_slept_while_another_went_on_wakes_up_fenced_and_adds_nothing() {
    let place = Place::new(SOURCE, "every: 300ms");
    let mut old = place.start(&[]);
    old.until(2, Line::committed).expect("it commits");
    old.send(Signal::STOP);
    let mut new = place.start(&[]);
    new.until(2, Line::committed).expect("it goes on");
    old.send(Signal::CONT);
    let old = old.end().with(4);
    let new = new.end().with(0);
    fenced_by(&old, &new);
    assert_exact(&place.snapshots(), 600);
    assert_eq!(place.ids(), (1..=600).collect::<Vec<_>>());
}

#[test]
fn neither_signal_is_end_of_input_and_the_next_run_adds_nothing_twice() {
    let place = Place::new(SOURCE, "every: 200ms");
    for signal in [Signal::INT, Signal::TERM] {
        let mut child = place.start(&[]);
        child.until(2, Line::committed).expect("it commits");
        std::thread::sleep(Duration::from_millis(90)); // so that something was read since
        child.send(signal);
        let report = child.end().with(0).report();
        assert_eq!(report["closed"], false);
        let newest = place.snapshots().last().unwrap()["commitIdentifier"].as_i64().unwrap();
        assert_ne!(newest, i64::MAX);
        assert_eq!(place.checkpoints().last().unwrap()["kind"], "data");
    }
    assert_eq!(place.run(&[]).with(0).report()["closed"], true);
    assert_exact(&place.snapshots(), 600);
    assert_eq!(place.ids(), (1..=600).collect::<Vec<_>>());
}

#[test]
fn a_run_with_nothing_new_exits_0_and_writes_nothing() {
    let place = Place::new("generate: {rows: 50}", "rows: 20");
    place.run(&[]).with(0);
    let before = tree(&place.root);
    let report = place.run(&[]).with(0).report();
    assert_eq!((&report["nothing_to_read"], &report["rows"]), (&true.into(), &0.into()));
    assert!(tree(&place.root) == before, "something was written");
}
