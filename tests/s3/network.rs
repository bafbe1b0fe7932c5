//! One thing goes wrong on the way to a bucket, at a request that matters; then every row is there once all the same.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::proxy::{Ill, Proxy, Weather};
use super::server::Server;
use crate::process::{Bucket, Ended, Place, assert_exact, tally};

const ROWS: u64 = 1000;
const PER_CHECKPOINT: &str = "rows: 100";

/// A pipeline of a thousand rows on a bucket behind a proxy.
struct Setting {
    proxy: Proxy,
    place: Place,
    server: Arc<Server>,
}

impl Setting {
    fn new() -> Setting {
        Setting::at(&Arc::new(Server::moto()))
    }
    fn at(server: &Arc<Server>) -> Setting {
        let proxy = Proxy::start(&server.address, Weather::calm());
        let source = format!("generate: {{rows: {ROWS}, rows_per_second: 2000}}");
        let place = Place::new(&source, PER_CHECKPOINT).on(Bucket::new(server, &proxy.address));
        Setting { proxy, place, server: server.clone() }
    }
    fn exact(&self) {
        assert_exact(&self.place.snapshots(), ROWS);
        assert_eq!(self.place.ids(), (1..=ROWS.cast_signed()).collect::<Vec<_>>());
    }
    /// Runs to the end with this at the first request that fits.
    fn run_with(&self, method: &'static str, path: &str, ill: Ill) -> Ended {
        self.proxy.next(method, path, ill);
        let ended = self.place.run(&[]).with(0);
        assert!(self.proxy.count(ill) > 0, "{ill:?} was not met");
        self.exact();
        ended
    }
    /// The next run, to its end, after a child died with this request held up.
    fn dies_with_held(&self, path: &str) -> (Ended, Ended) {
        self.proxy.next("PUT", path, Ill::Held);
        let child = self.place.start(&[]);
        self.proxy.wait_for(Ill::Held);
        (child.kill(), self.place.run(&[]).with(0))
    }
    fn pypaimon(&self) -> Value {
        tally::read(&[self.place.look_at("table")] as &[PathBuf]).remove(0)
    }
}

fn retried(ended: &Ended, what: &str) -> usize {
    ended.lines.iter().filter(|l| l.json["event"].is_string() && l.says().starts_with(what) && l.says().contains("trying again")).count()
}

const SNAPSHOT: &str = "/table/snapshot/snapshot-3";
const CHECKPOINT: &str = "/_checkpoints/p/*3.json";

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_delayed_put_landing_past_its_retry_is_refused_by_the_store_and_changes_nothing() {
    let server = Arc::new(Server::moto());
    for object in [SNAPSHOT, CHECKPOINT] {
        let mut setting = Setting::at(&server);
        // Retention must not empty the slot before.
        setting.place.set("checkpoint.keep=50");
        let ended = setting.run_with("PUT", object, Ill::Held);
        assert_eq!(retried(&ended, "create"), 1, "{}", ended.err());
        setting.proxy.release();
        let late = setting.proxy.late(1);
        assert!(late[0].contains(" 412 "), "{object}: {late:?}");
        setting.exact();
    }
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_put_that_is_never_answered_is_given_up_and_may_land_past_its_retry() {
    let setting = Setting::new();
    let ended = setting.run_with("PUT", SNAPSHOT, Ill::StalledThenLands);
    assert_eq!(retried(&ended, "create"), 1, "{}", ended.err());
    assert!(setting.proxy.late(1)[0].contains(" 412 "));
    assert!(ended.took > Duration::from_secs(2), "it waited for its time-out");
    setting.exact();
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_409_once_is_read_back_and_the_same_bytes_are_created_again() {
    let server = Arc::new(Server::moto());
    for object in [SNAPSHOT, CHECKPOINT] {
        let setting = Setting::at(&server);
        let ended = setting.run_with("PUT", object, Ill::Conflict);
        assert_eq!(retried(&ended, "create"), 1, "{}", ended.err());
        assert_eq!(setting.proxy.count(Ill::Conflict), 1);
    }
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_create_whose_reply_is_lost_is_read_back_as_ours_and_nobody_is_fenced() {
    let server = Arc::new(Server::moto());
    for object in [SNAPSHOT, CHECKPOINT, "/_checkpoints/p/*0.json"] {
        for ill in [Ill::ReplyDropped, Ill::ResetReply] {
            let setting = Setting::at(&server);
            let ended = setting.run_with("PUT", object, ill);
            assert_eq!(retried(&ended, "create"), 0, "its own bytes were there: {}", ended.err());
        }
    }
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_store_that_is_away_for_a_while_holds_a_run_up_and_no_more() {
    let setting = Setting::new();
    let ended = setting.run_with("PUT", SNAPSHOT, Ill::Away);
    assert!(ended.took > Duration::from_secs(5), "it is away for five seconds: {:?}", ended.took);
    assert!(setting.proxy.count(Ill::Away) >= 5, "asked again and again");
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_throttled_a_stalled_and_a_cut_call_of_every_kind_are_made_again() {
    let calls = [
        ("PUT", "/table/bucket-0/data-*"),
        ("PUT", "/table/manifest/manifest-*"),
        ("PUT", "/table/snapshot/LATEST"),
        ("PUT", "/table/consumer/*"),
        ("GET", "/table/snapshot/snapshot-2"),
        ("GET", "list-type=2*_checkpoints"),
    ];
    let server = Arc::new(Server::moto());
    for ill in [Ill::SlowDown, Ill::TooMany, Ill::Stalled, Ill::ResetRequest, Ill::ResetReply, Ill::SlowBytes, Ill::ReplyDropped] {
        let setting = Setting::at(&server);
        let calls: Vec<_> = calls.iter().filter(|(method, _)| ill != Ill::ResetRequest || *method == "PUT").collect();
        for (method, path) in &calls {
            setting.proxy.next(method, path, ill);
        }
        setting.place.run(&[]).with(0);
        assert_eq!(setting.proxy.count(ill), calls.len() as u64, "{ill:?}");
        setting.exact();
    }
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_delayed_put_of_a_snapshot_landing_after_the_successors_changes_nothing() {
    let setting = Setting::new();
    setting.dies_with_held(SNAPSHOT);
    setting.exact();
    setting.proxy.release();
    assert!(setting.proxy.late(1)[0].contains(" 412 "));
    setting.exact();
    assert_eq!(setting.pypaimon()["rows"], ROWS);
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_delayed_put_of_a_checkpoint_landing_after_its_owner_was_replaced_changes_nothing() {
    let mut setting = Setting::new();
    // Retention must not empty the slot before it lands; that case is for the one below.
    setting.place.set("checkpoint.keep=50");
    setting.dies_with_held(CHECKPOINT);
    setting.proxy.release();
    assert!(setting.proxy.late(1)[0].contains(" 412 "));
    setting.exact();
    let again = setting.place.run(&[]).with(0);
    assert_eq!(again.report()["rows"], 0, "{}", again.out);
    setting.exact();
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_delayed_checkpoint_that_lands_in_a_slot_which_retention_has_emptied_is_not_the_greatest_and_changes_nothing() {
    let mut setting = Setting::new();
    setting.place.set("checkpoint.keep=2");
    setting.dies_with_held(CHECKPOINT);
    setting.proxy.release();
    assert!(setting.proxy.late(1)[0].contains(" 200 "), "the slot was empty");
    setting.exact();
    let again = setting.place.run(&[]).with(0);
    assert_eq!(again.report()["rows"], 0, "{}", again.out);
    setting.exact();
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_delayed_put_of_a_snapshot_landing_in_a_slot_that_expiry_has_emptied_changes_nothing() {
    let setting = Setting::new();
    setting.dies_with_held(SNAPSHOT);
    setting.exact();
    // As an expiry does, upwards; what the newest snapshot refers to stays.
    for key in setting.server.keys("place-") {
        if key.ends_with("/EARLIEST") || (1..=5).any(|id| key.ends_with(&format!("/snapshot-{id}"))) {
            setting.server.delete(&key);
        }
    }
    setting.proxy.release();
    assert!(setting.proxy.late(1)[0].contains(" 200 "), "the slot was empty");
    let all = || setting.place.snapshots().iter().map(|s| s["id"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(all()[..2], [3, 6], "{:?}", all());
    let ids: Vec<i64> = (1..=ROWS.cast_signed()).collect();
    assert_eq!(setting.place.ids(), ids);
    assert_eq!(setting.pypaimon()["distinct"], ROWS);
    // A new lineage goes on top of it: the rows after an early checkpoint come again, on purpose. (On a slow machine the first are not kept.)
    let kept = setting.place.checkpoints().into_iter().filter(|c| c["kind"] == "data");
    let first = kept.min_by_key(|c| c["seq"].as_u64()).expect("some are kept");
    let rows = 2 * ROWS - first["offsets"]["generate"]["offset"].as_u64().unwrap();
    setting.place.run(&["--rewind", &first["seq"].to_string()]).with(0);
    assert_eq!(setting.place.ids().len() as u64, rows);
    assert_eq!(setting.pypaimon()["rows"], rows);
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_delayed_hint_that_lands_late_hides_nothing_from_us_or_from_pypaimon() {
    let setting = Setting::new();
    setting.dies_with_held("/table/snapshot/LATEST");
    setting.exact();
    setting.proxy.release();
    assert!(setting.proxy.late(1)[0].contains(" 200 "), "a hint is replaced");
    let hint = std::fs::read_to_string(setting.place.look_at("table").join("snapshot/LATEST")).unwrap();
    let newest = setting.place.snapshots().len();
    assert!(hint.parse::<usize>().unwrap() < newest, "{hint} of {newest}");
    setting.exact();
    assert_eq!(setting.pypaimon()["rows"], ROWS);
}

#[test]
#[ignore = "needs moto[server] in .venv (tests/setup.sh)"]
fn a_store_that_never_answers_is_given_up_after_the_time_out_of_one_request_and_the_run_exits_75() {
    let mut setting = Setting::new();
    setting.place.set("commit.timeout=5s");
    for _ in 0..100 {
        setting.proxy.next("PUT", SNAPSHOT, Ill::Stalled);
    }
    let ended = setting.place.run(&[]).with(75);
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    assert!((2..=5).contains(&setting.proxy.count(Ill::Stalled)), "{:?}", setting.proxy.counts());
    let error = &ended.lines.last().unwrap().json;
    assert_eq!(error["kind"], "Unavailable", "{error}");
    assert!(error["message"].as_str().unwrap().contains("whether it exists is not known"), "{error}");
}
