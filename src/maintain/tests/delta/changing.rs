//! Others commit, clean up and vacuum just before any call of the one who looks: nothing is found.

use std::collections::BTreeMap;

use serde_json::json;

use super::rig::{added, append, checkpoint, commit, removal, six};
use crate::format::delta::names::{self, LAST_CHECKPOINT};
use crate::maintain::tests::rig::{Edit, World, texts};

/// Each edit `pace` calls after the one before, beginning with any call at all.
async fn from_any_call(before: &World, edits: &[Edit], what: &str) {
    let before = before.all().await;
    for pace in [0, 1, 3] {
        let mut at = 0;
        loop {
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
            assert_eq!(texts(&found), [""; 0], "{what} from call {at} on, pace {pace}");
            // Slower ones leave files for a while that nothing names yet, or any more.
            let stray = found.notes().iter().any(|n| n.contains("referred to by nothing"));
            assert!(pace > 0 || !stray, "{what} before call {at}: {:?}", found.notes());
            if world.calls() <= at {
                break;
            }
            at += 1;
        }
        assert!(at > 12, "{at} calls");
    }
}

/// What leads from one state of a table to another: data files first.
async fn difference(before: &World, after: &World) -> Vec<Edit> {
    let (old, new) = (before.all().await, after.all().await);
    let mut edits: Vec<Edit> = new.iter().filter(|(k, v)| old.get(*k) != Some(v)).map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
    edits.sort_by_key(|(name, _)| (name.starts_with(names::LOG_DIR), name == LAST_CHECKPOINT));
    edits
}

async fn copied(world: &World) -> World {
    let copy = World::empty();
    for (path, bytes) in world.all().await {
        copy.put(&path, bytes).await;
    }
    copy
}

#[tokio::test]
async fn a_commit_and_a_checkpoint_before_any_call_are_no_finding() {
    let before = six().await;
    let after = copied(&before).await;
    commit(&after, 7).await;
    checkpoint(&after, 7).await;
    commit(&after, 8).await;
    from_any_call(&before, &difference(&before, &after).await, "commits").await;
}

#[tokio::test]
async fn a_cleanup_in_any_order_before_any_call_is_no_finding() {
    let before = six().await;
    checkpoint(&before, 2).await;
    let after = copied(&before).await;
    checkpoint(&after, 5).await;
    let made = difference(&before, &after).await;
    let mut gone: Vec<Edit> = (0..5).map(|v| (names::commit(v), None)).collect();
    gone.insert(3, (names::checkpoint(2), None));
    from_any_call(&before, &[made.clone(), gone.clone()].concat(), "cleanup").await;
    gone.reverse();
    from_any_call(&before, &[made, gone].concat(), "cleanup from above").await;
}

#[tokio::test]
async fn a_compaction_and_a_vacuum_before_any_call_are_no_finding() {
    let before = six().await;
    let after = copied(&before).await;
    let (two, four) = (added(&before, 2).await, added(&before, 4).await);
    let mut moved = serde_json::to_value(&two).unwrap();
    let path = two.path.replace("part-", "part-moved-");
    moved["path"] = path.clone().into();
    after.put(&path, before.get(&two.path).await).await;
    append(&after, 7, &[json!({"commitInfo": {}}), json!({"add": moved}), removal(&two), removal(&four)]).await;
    let mut edits = difference(&before, &after).await;
    edits.extend([(two.path, None), (four.path, None)]);
    from_any_call(&before, &edits, "vacuum").await;
}
