//! Others commit and expire just before any call of the one who looks: nothing is found.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::rig::{Edit, World, texts};

/// What leads from one state of a table to another: new objects first, those that others name before.
fn difference(before: &BTreeMap<String, Bytes>, after: &BTreeMap<String, Bytes>) -> Vec<Edit> {
    let mut new: Vec<Edit> = after.iter().filter(|(k, v)| before.get(*k) != Some(v)).map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
    new.sort_by_key(|(name, _)| (name.starts_with("snapshot/"), name.ends_with("LATEST")));
    new
}

/// As Java and Spark expire snapshots 1 to 4: the data file that 4 removed, then manifest lists, then snapshots upwards, then the hint.
async fn expiry(world: &World) -> Vec<Edit> {
    let kept: BTreeSet<String> = {
        let mut kept = BTreeSet::new();
        for id in 5..=6 {
            let s = world.snapshot(id).await;
            kept.extend(s.lists().map(str::to_owned));
            for list in s.lists() {
                kept.extend(world.list(list).await.into_iter().map(|m| m.name));
            }
        }
        kept
    };
    let mut edits = vec![(world.file_of(1).await, None)];
    for id in 1..=4 {
        for list in world.snapshot(id).await.lists() {
            edits.push((format!("manifest/{list}"), None));
        }
        let manifest = world.manifest_of(id).await;
        if !kept.contains(manifest.strip_prefix("manifest/").unwrap()) {
            edits.push((manifest, None));
        }
    }
    edits.extend((1..=4).map(|id| (format!("snapshot/snapshot-{id}"), None)));
    edits.push(("snapshot/EARLIEST".to_owned(), Some("5".into())));
    edits
}

async fn without_tag() -> World {
    let world = World::six().await;
    world.remove("tag/tag-two").await;
    world
}

#[tokio::test]
async fn a_commit_before_any_call_is_no_finding() {
    let world = without_tag().await;
    let before = world.all().await;
    world.commit(7).await;
    world.commit(8).await;
    let edits = difference(&before, &world.all().await);
    let mut at = 0;
    loop {
        let world = World::empty();
        for (path, bytes) in &before {
            world.put(path, bytes.clone()).await;
        }
        world.at([(at, edits.clone())]);
        let found = world.audit().await;
        assert_eq!(texts(&found), [""; 0], "commit before call {at}");
        assert!(!found.notes().iter().any(|n| n.contains("referred to by nothing")), "commit before call {at}: {:?}", found.notes());
        if world.calls() <= at {
            break;
        }
        at += 1;
    }
    assert!(at > 30, "{at} calls");
}

#[tokio::test]
async fn an_expiry_before_any_call_or_stretched_over_many_is_no_finding() {
    let world = without_tag().await;
    let before = world.all().await;
    let edits = expiry(&world).await;
    world.at([]);
    world.audit().await;
    let calls = world.calls();
    // All at once, one step a call, one step every third call.
    for pace in [0, 1, 3] {
        for at in 0..calls {
            let world = World::empty();
            for (path, bytes) in &before {
                world.put(path, bytes.clone()).await;
            }
            let mut script: BTreeMap<usize, Vec<Edit>> = BTreeMap::new();
            for (i, edit) in edits.iter().enumerate() {
                script.entry(at + i * pace).or_default().push(edit.clone());
            }
            world.at(script);
            let found = world.audit().await;
            assert_eq!(texts(&found), [""; 0], "expiry from call {at} on, pace {pace}");
        }
    }
}

#[tokio::test]
async fn an_expiry_that_died_half_way_is_found() {
    let world = without_tag().await;
    let edits = expiry(&world).await;
    for (path, bytes) in edits.iter().take(1) {
        assert!(bytes.is_none());
        world.remove(path).await;
    }
    let found = texts(&world.audit().await);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("it is missing, and snapshot/snapshot-3 needs it"), "{found:?}");
}
