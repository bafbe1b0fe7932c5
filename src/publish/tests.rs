use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use object_store::path::Path;

use super::{Publication, publish};
use crate::env::{Deadline, Env};
use crate::error::{Kind, Result};
use crate::store::crash::{CrashDisk, Loss};
use crate::store::testing::{Answer, Jumping, Put, RIVAL, Scripted};
use crate::store::{DiskObserver, DiskOp, Durability, Store, StoreOptions};

const OURS: &[u8] = b"ours, nonce 1";

fn over(scripted: &Arc<Scripted>) -> Store {
    Store::over(scripted.clone(), Path::default(), "memory://test", &Jumping::env(), StoreOptions::default())
}

async fn publish_ours(store: &Store, after: Duration) -> Result<Publication> {
    publish(store, "n", Bytes::from_static(OURS), store.env().deadline(after)).await
}

const ALL: [Put; 9] = [
    Put::Works,
    Put::FailsBefore,
    Put::AppliesThenFails,
    Put::AppliesThenExists,
    Put::Conflict,
    Put::Precondition,
    Put::AppliesLater,
    Put::Rival,
    Put::Forbidden,
];

#[tokio::test]
async fn published_means_ours_is_there_and_taken_means_another_is_there_after_every_three_faults() {
    let (mut published, mut taken, mut refused, mut unknown) = (0, 0, 0, 0);
    for a in ALL {
        for b in ALL {
            for c in ALL {
                for failing_reads in 0..3 {
                    let script = [a, b, c];
                    let scripted = Scripted::new(&script, &vec![Answer::Fails; failing_reads]);
                    let result = publish_ours(&over(&scripted), Duration::from_secs(60)).await;
                    let there = scripted.peek("n").await;
                    match result {
                        Ok(Publication::Published) => {
                            published += 1;
                            assert_eq!(there.as_deref(), Some(OURS), "{script:?}");
                        }
                        Ok(Publication::Taken(bytes)) => {
                            taken += 1;
                            assert_ne!(bytes, OURS, "{script:?}");
                            assert_eq!(there, Some(bytes), "{script:?}");
                        }
                        Err(e) if e.kind() == Kind::Invalid => {
                            refused += 1;
                            assert_eq!(a, Put::Forbidden, "a definite no only counts if nothing unclear came before it: {script:?}");
                            assert_eq!(there, None, "{script:?}");
                        }
                        Err(e) => {
                            unknown += 1;
                            assert_eq!(e.kind(), Kind::Unavailable, "{script:?}: {e}");
                            assert!(script.contains(&Put::Forbidden) && e.to_string().contains("not known"), "{script:?}: {e}");
                        }
                    }
                }
            }
        }
    }
    assert!(published > 1000 && taken > 100 && refused == 243 && unknown > 10, "{published} {taken} {refused} {unknown}");
}

#[tokio::test]
async fn a_read_back_that_fails_is_not_absent() {
    let scripted = Scripted::new(&[Put::AppliesThenExists, Put::Forbidden], &[Answer::Fails; 1000]);
    let error = publish_ours(&over(&scripted), Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("whether it exists is not known"), "{error}");
    assert!(error.to_string().contains("memory://test/n"), "{error}");
    assert_eq!(scripted.puts.lock().unwrap().len(), 1, "absent would have been created again");
    assert_eq!(scripted.peek("n").await.as_deref(), Some(OURS), "nothing is deleted after an unclear outcome");
}

#[tokio::test]
async fn a_store_that_never_applies_ends_at_the_deadline() {
    let scripted = Scripted::new(&[Put::FailsBefore; 10_000], &[]);
    let store = over(&scripted);
    let error = publish_ours(&store, Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    let spent = store.env().monotonic();
    assert!(spent >= Duration::from_secs(60) && spent < Duration::from_secs(61), "{spent:?}");
}

#[tokio::test]
async fn one_try_is_made_and_read_back_although_the_deadline_has_passed() {
    let scripted = Scripted::new(&[Put::AppliesThenFails], &[]);
    assert_eq!(publish_ours(&over(&scripted), Duration::ZERO).await.unwrap(), Publication::Published);
}

#[tokio::test]
async fn a_dropped_publish_is_found_by_the_next_one() {
    for (again, expected) in [(OURS, Publication::Published), (b"another", Publication::Taken(Bytes::from_static(OURS)))] {
        let scripted = Scripted::new(&[Put::AppliesThenHangs], &[]);
        let store = over(&scripted);
        assert!(publish_ours(&store, Duration::from_secs(60)).now_or_never().is_none(), "dropped while it hangs");
        let result = publish(&store, "n", Bytes::from_static(again), Deadline::NEVER).await.unwrap();
        assert_eq!(result, expected);
    }
}

#[tokio::test]
async fn a_rival_that_came_first_is_returned_whole() {
    let scripted = Scripted::new(&[Put::Rival], &[Answer::Fails, Answer::Fails]);
    let result = publish_ours(&over(&scripted), Duration::from_secs(60)).await.unwrap();
    assert_eq!(result, Publication::Taken(Bytes::from_static(RIVAL)));
}

#[test]
fn of_eight_publishers_on_local_disk_exactly_one_wins_each_name_and_all_see_its_bytes() {
    const NAMES: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let body = |who: usize, name: usize| Bytes::from(format!("{name} by {who} ").repeat(500));
    // All begin each name together; else the first to start could be through before the second begins.
    let together = std::sync::Barrier::new(8);
    let results: Vec<Vec<Publication>> = std::thread::scope(|scope| {
        let publisher = |who: usize| {
            let location = dir.path().to_str().unwrap().to_owned();
            let together = &together;
            move || {
                let options = StoreOptions { durability: Durability::None, ..StoreOptions::default() };
                let store = Store::open(&location, &Env::real(), options).unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    let mut results = Vec::new();
                    for n in 0..NAMES {
                        together.wait();
                        results.push(publish(&store, &format!("deep/{n}"), body(who, n), Deadline::NEVER).await.unwrap());
                    }
                    results
                })
            }
        };
        let threads: Vec<_> = (0..8).map(|who| scope.spawn(publisher(who))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut winners = [0; 8];
    for name in 0..NAMES {
        let won: Vec<usize> = (0..8).filter(|who| results[*who][name] == Publication::Published).collect();
        assert_eq!(won.len(), 1, "name {name}: winners {won:?}");
        winners[won[0]] += 1;
        let there = std::fs::read(dir.path().join(format!("deep/{name}"))).unwrap();
        assert_eq!(there, body(won[0], name));
        for (who, seen) in results.iter().enumerate().filter(|(who, _)| *who != won[0]) {
            assert_eq!(seen[name], Publication::Taken(Bytes::from(there.clone())), "publisher {who}, name {name}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path().join("deep")).unwrap().count(), NAMES, "no staged file is left");
    assert!(winners.iter().filter(|w| **w > 0).count() > 1, "they did race: {winners:?}");
}

fn on_disk(root: &std::path::Path, disk: &Arc<CrashDisk>) -> Store {
    let options = StoreOptions { patience: Duration::ZERO, disk: Some(disk.clone()), ..StoreOptions::default() };
    Store::open(root.join("a/b").to_str().unwrap(), &Jumping::env(), options).unwrap()
}

/// Whole or absent; true if it is there.
fn is_there(root: &std::path::Path) -> bool {
    match std::fs::read(root.join("a/b/n")) {
        Ok(bytes) => {
            assert_eq!(bytes, OURS, "torn");
            true
        }
        Err(e) => {
            assert_eq!(e.kind(), std::io::ErrorKind::NotFound);
            false
        }
    }
}

/// Visible names; a staged file must be hidden, since readers parse every name that does not start with a dot.
fn visible(root: &std::path::Path) -> Vec<String> {
    let Ok(dir) = std::fs::read_dir(root.join("a/b")) else { return Vec::new() };
    dir.map(|e| e.unwrap().file_name().into_string().unwrap()).filter(|n| !n.starts_with('.')).collect()
}

const LOSSES: [Loss; 7] = [Loss::All, Loss::Contents, Loss::Names, Loss::Some(1), Loss::Some(2), Loss::Some(3), Loss::Some(4)];

#[tokio::test]
async fn a_publish_that_dies_at_any_step_leaves_the_object_whole_or_absent_and_keeps_what_it_acknowledged() {
    for loss in [None].into_iter().chain(LOSSES.map(Some)) {
        let mut step = 0;
        loop {
            let root = tempfile::tempdir().unwrap();
            let disk = CrashDisk::stopping_at(step);
            let result = publish_ours(&on_disk(root.path(), &disk), Duration::ZERO).await;
            if let Some(loss) = loss {
                disk.forget_unsynced(loss).unwrap();
            }
            let there = is_there(root.path());
            assert!(visible(root.path()).len() == usize::from(there), "step {step}, {loss:?}: {:?}", visible(root.path()));
            match result {
                Ok(published) => {
                    assert_eq!(published, Publication::Published);
                    assert!(there, "acknowledged and lost at step {step}, {loss:?}: {:#?}", disk.log());
                }
                Err(e) => {
                    assert_eq!(e.kind(), Kind::Unavailable, "{e}");
                    assert!(!(there && e.to_string().contains("it was not created")), "{e}");
                }
            }
            // The next life finds out.
            let next = publish_ours(&on_disk(root.path(), &CrashDisk::new()), Duration::ZERO).await.unwrap();
            assert_eq!(next, Publication::Published);
            if !disk.is_dead() {
                break;
            }
            step += 1;
        }
        assert!(step > 8, "only {step} steps");
    }
}

#[tokio::test]
async fn what_a_killed_process_left_unsynced_is_synced_by_whoever_publishes_or_finds_it_next() {
    for loss in LOSSES {
        let mut step = 0;
        loop {
            let root = tempfile::tempdir().unwrap();
            // Two lives on one running machine, so one disk: the first is killed at a step, the second acknowledges, then the power goes.
            let machine = CrashDisk::new();
            machine.stop_after(step);
            let _ = publish_ours(&on_disk(root.path(), &machine), Duration::ZERO).await;
            let killed = machine.is_dead();
            machine.revive();
            let second = publish_ours(&on_disk(root.path(), &machine), Duration::ZERO).await.unwrap();
            assert_eq!(second, Publication::Published);
            machine.forget_unsynced(loss).unwrap();
            assert!(is_there(root.path()), "lost after a kill at step {step}, {loss:?}: {:#?}", machine.log());
            if !killed {
                break;
            }
            step += 1;
        }
    }
}

#[tokio::test]
async fn a_name_that_is_too_long_is_invalid_at_once() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path().to_str().unwrap(), &Jumping::env(), StoreOptions::default()).unwrap();
    let error = publish(&store, &"n".repeat(300), Bytes::from_static(OURS), Deadline::NEVER).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(store.env().monotonic(), Duration::ZERO, "not tried again");
}

/// Fails one fsync of the published object itself, as a dying disk does: once, and then says yes.
struct FailsOneSync(AtomicBool);

impl DiskObserver for FailsOneSync {
    fn before(&self, op: &DiskOp<'_>) -> std::io::Result<()> {
        match op {
            DiskOp::SyncFile(path) if path.ends_with("n") && !self.0.swap(true, Ordering::SeqCst) => {
                Err(std::io::Error::from_raw_os_error(5))
            }
            _ => Ok(()),
        }
    }
    fn after(&self, _: &DiskOp<'_>) {}
}

#[tokio::test]
async fn a_found_object_whose_fsync_failed_is_not_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("n"), OURS).unwrap();
    let options = StoreOptions { disk: Some(Arc::new(FailsOneSync(AtomicBool::new(false)))), ..StoreOptions::default() };
    let store = Store::open(root.path().to_str().unwrap(), &Jumping::env(), options).unwrap();
    let error = publish_ours(&store, Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("whether it exists is not known"), "{error}");
}
