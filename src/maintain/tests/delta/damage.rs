//! Each kind of damage, made by hand, is found and named, by its check and its place; and nothing is found where nothing is wrong.

use bytes::Bytes;
use serde_json::{Value, json};

use super::rig::{added, append, checkpoint, commit, content, edit, lines, of, parquet, removal, six};
use crate::format::delta::action::Action;
use crate::format::delta::names::{self, LAST_CHECKPOINT};
use crate::maintain::finding::Check;
use crate::maintain::tests::rig::{World, texts};

/// The check finds exactly this: every finding holds one of the texts, every text is in one.
async fn finds(world: &World, wanted: &[(Check, &str)]) {
    let all = texts(&world.audit().await);
    let is = |text: &str, (check, part): &(Check, &str)| text.starts_with(&format!("{check}: ")) && text.contains(part);
    for one in wanted {
        assert!(all.iter().any(|text| is(text, one)), "{one:?} is not in {all:#?}");
    }
    for text in &all {
        assert!(wanted.iter().any(|one| is(text, one)), "{text} is not in {wanted:?}");
    }
}

/// The same, also when the log is read from a checkpoint at version 3 on.
async fn finds_both(damage: impl AsyncFn(&World), wanted: &[(Check, &str)]) {
    for cleaned in [false, true] {
        let world = six().await;
        checkpoint(&world, 3).await;
        for version in 0..3 {
            if cleaned {
                world.remove(&names::commit(version)).await;
            }
        }
        finds(&world, &[]).await;
        damage(&world).await;
        finds(&world, wanted).await;
    }
}

#[tokio::test]
async fn nothing_is_found_in_a_sound_table() {
    let world = six().await;
    let found = world.audit().await;
    assert_eq!(texts(&found), [""; 0]);
    let looked = |check: Check| found.checks().iter().find(|c| c.0 == check).map(|c| c.1);
    assert_eq!(looked(Check::Snapshots), Some(7));
    assert_eq!(looked(Check::DataFiles), Some(4), "only what is live as of the newest version is owed");
    assert_eq!((looked(Check::RowCounts), looked(Check::Statistics), looked(Check::Partitions)), (Some(4), Some(4), Some(4)));
    assert_eq!(looked(Check::Unreferenced), Some(0), "an older version has the file of 1");
    assert!(texts(&world.verify().await).is_empty());
    checkpoint(&world, 3).await;
    let found = world.audit().await;
    assert_eq!((texts(&found).len(), found.checks().iter().find(|c| c.0 == Check::Checkpoints).map(|c| c.1)), (0, Some(1)));
}

#[tokio::test]
async fn a_log_that_was_cleaned_up_is_sound_from_its_checkpoint_on() {
    let world = six().await;
    checkpoint(&world, 3).await;
    for version in 0..3 {
        world.remove(&names::commit(version)).await;
        finds(&world, &[]).await;
    }
    let audit = crate::maintain::audit::audit(&world.store, None).await.unwrap();
    assert_eq!(audit.snapshots, Some((3, 6)));
    assert!(audit.findings.notes().iter().any(|n| n.starts_with("the log below version 3 was cleaned up")), "{:?}", audit.findings.notes());
    // One that nobody needs, left by a cleanup that keeps to no order.
    append(&world, 1, &[json!({"commitInfo": {}})]).await;
    finds(&world, &[]).await;
    world.remove(&names::checkpoint(3)).await;
    world.remove(&names::commit(1)).await;
    world.remove(LAST_CHECKPOINT).await;
    let wanted = [
        (Check::Snapshots, "3.json: the log begins with version 3, and there is no complete checkpoint"),
        (Check::State, "what the table is made of"),
    ];
    finds(&world, &wanted).await;
}

#[tokio::test]
async fn a_commit_that_is_missing_empty_torn_or_no_commit_is_found() {
    let world = six().await;
    world.remove(&names::commit(4)).await;
    let wanted = [(Check::Snapshots, "4.json: the commit is missing, although others above it"), (Check::State, "cannot be told")];
    finds(&world, &wanted).await;
    world.put(&names::commit(4), Bytes::new()).await;
    finds(&world, &[(Check::Snapshots, "4.json: the commit is empty"), (Check::State, "")]).await;
    let world = six().await;
    checkpoint(&world, 4).await;
    let bytes = world.get(&names::commit(3)).await;
    world.remove(&names::commit(3)).await;
    finds(&world, &[(Check::Snapshots, "3.json: the commit is missing: versions 3 to 3 cannot be read any more")]).await;
    world.put(&names::commit(3), bytes.slice(..bytes.len() / 2)).await;
    finds(&world, &[(Check::Snapshots, "3.json: line 2 of the commit is damaged")]).await;
    world.put(&names::commit(3), "{\"add\": 7}\n".into()).await;
    finds(&world, &[(Check::Snapshots, "3.json: line 1 of the commit is damaged")]).await;
    let world = six().await;
    edit(&world, 0, |actions| actions.retain(|a| a.get("protocol").is_none())).await;
    finds(&world, &[(Check::Snapshots, "0.json: it is the first commit, and lacks"), (Check::State, "")]).await;
}

#[tokio::test]
async fn actions_that_reconcile_in_one_commit_are_found() {
    let world = six().await;
    let twice = |kind: &'static str| {
        move |actions: &mut Vec<Value>| {
            let again = of(actions, kind).clone();
            actions.push(json!({kind: again}));
        }
    };
    edit(&world, 0, twice("metaData")).await;
    edit(&world, 0, twice("protocol")).await;
    edit(&world, 5, twice("txn")).await;
    let wanted = [
        (Check::Snapshots, "0.json: it holds 2 actions `metaData`"),
        (Check::Snapshots, "0.json: it holds 2 actions `protocol`"),
        (Check::Snapshots, "5.json: it holds 2 actions `txn` of u"),
        (Check::Transactions, "5.json: it sets the transaction of u to 5 a second time"),
    ];
    finds(&world, &wanted).await;
    let world = six().await;
    edit(&world, 5, twice("add")).await;
    finds(&world, &[]).await;
    let stray = added(&world, 5).await;
    edit(&world, 5, |actions| actions.push(removal(&stray))).await;
    finds(&world, &[(Check::Snapshots, &format!("5.json: it holds two different actions for the file {}", stray.path))]).await;
}

#[tokio::test]
async fn transactions_rise() {
    let (check, path) = (Check::Transactions, |text: &str| text.to_owned());
    for (version, what) in [(3, "back from 4 to 3"), (4, "to 4 a second time")] {
        finds_both(
            async |world| edit(world, 5, |actions| of(actions, "txn")["version"] = version.into()).await,
            &[(check, &path(&format!("5.json: it sets the transaction of u {what}")))],
        )
        .await;
    }
}

#[tokio::test]
async fn a_data_file_that_is_cut_short_or_gone_is_found() {
    let world = six().await;
    let (cut, gone) = (added(&world, 2).await.path, added(&world, 3).await.path);
    finds_both(
        async |world| {
            let (cut, gone) = (added(world, 4).await.path, added(world, 5).await.path);
            let bytes = world.get(&cut).await;
            world.put(&cut, bytes.slice(..bytes.len() - 1)).await;
            world.remove(&gone).await;
        },
        &[(Check::DataFiles, "it has"), (Check::DataFiles, "it is missing, and version 6 needs it")],
    )
    .await;
    // What an old version alone has may have been vacuumed.
    let old = added(&world, 1).await.path;
    world.remove(&old).await;
    finds(&world, &[]).await;
    assert!(cut.starts_with("p=0/") && gone.starts_with("p=1/"));
}

#[tokio::test]
async fn partition_values_must_be_readable_and_be_those_of_their_directory() {
    let lie = |value: Value| {
        async move |world: &World| edit(world, 5, |actions| of(actions, "add")["partitionValues"]["p"] = value.clone()).await
    };
    finds_both(lie(json!("x")), &[(Check::Partitions, "partition column `p`: the partition value \"x\" is no INT")]).await;
    finds_both(lie(json!("7")), &[(Check::Partitions, "its directory says `p` = \"1\", and the log \"7\"")]).await;
    finds_both(lie(Value::Null), &[(Check::Partitions, "and the log \"null\"")]).await;
}

#[tokio::test]
async fn statistics_must_not_be_narrower_than_the_footer_and_rows_be_counted() {
    let lie = |pointer: &'static str, value: Value| {
        async move |world: &World| {
            edit(world, 5, |actions| {
                let add = of(actions, "add");
                let mut stats: Value = serde_json::from_str(add["stats"].as_str().unwrap()).unwrap();
                *stats.pointer_mut(pointer).unwrap() = value.clone();
                add["stats"] = stats.to_string().into();
            })
            .await;
        }
    };
    finds_both(lie("/numRecords", json!(3)), &[(Check::RowCounts, "it has 2 rows, and the log says 3")]).await;
    finds_both(lie("/minValues/id", json!(-4)), &[(Check::Statistics, "column `id`: its least value is said to be Some(Int(-4))")]).await;
    finds_both(lie("/maxValues/id", json!(4)), &[(Check::Statistics, "column `id`: its greatest value")]).await;
    finds_both(lie("/maxValues/note", json!("w")), &[(Check::Statistics, "column `note`: its greatest value")]).await;
    finds_both(lie("/nullCount/note", json!(0)), &[(Check::Statistics, "column `note`: it is said to have 0 nulls")]).await;
    // Too wide does no harm.
    finds_both(lie("/maxValues/id", json!(400)), &[]).await;
    finds_both(lie("/minValues/note", json!("")), &[]).await;
}

#[tokio::test]
async fn a_file_that_is_no_parquet_is_found_when_it_is_opened() {
    let world = six().await;
    let path = added(&world, 5).await.path;
    let garbage = vec![b'x'; world.get(&path).await.len()];
    world.put(&path, garbage.into()).await;
    finds(&world, &[(Check::RowCounts, "no readable Parquet file")]).await;
    assert!(texts(&world.verify().await).is_empty(), "without footers nothing can be seen of it");
}

#[tokio::test]
async fn a_checkpoint_that_says_something_else_than_its_commits_is_found() {
    let world = six().await;
    let whole = content(&world, 5).await;
    let is_add = |a: &Action| matches!(a, Action::Add(_));
    let at = |f: fn(&Action) -> bool| whole.iter().position(f).unwrap();
    let first = at(|a| matches!(a, Action::Add(_)));
    type Lie = (Box<dyn Fn(&mut Vec<Action>)>, &'static str);
    let gone = added(&world, 1).await;
    let lies: Vec<Lie> = vec![
        (Box::new(move |all| drop(all.remove(first))), "it lacks 1 files that are live by then"),
        (
            Box::new(move |all| {
                let Action::Add(add) = &mut all[first] else { panic!() };
                add.path = "p=1/stray".into();
            }),
            "it holds 1 files that are not live by then, among them p=1/stray",
        ),
        (Box::new(move |all| all.push(all[first].clone())), "it holds 1 files twice"),
        (
            Box::new(move |all| {
                let Action::Add(add) = &mut all[first] else { panic!() };
                add.size += 1;
            }),
            "(size, partition) is not what its commit says",
        ),
        (Box::new(|all| all.retain(|a| !matches!(a, Action::Txn(_)))), "it lacks the transaction of u"),
        (
            Box::new(|all| {
                all.iter_mut().for_each(|a| {
                    if let Action::Txn(txn) = a {
                        txn.version = 4;
                    }
                });
            }),
            "its transaction of u is 4, and by its commits 5",
        ),
        (
            Box::new(|all| {
                all.iter_mut().for_each(|a| {
                    if let Action::MetaData(m) = a {
                        drop(m.configuration.insert("x".into(), "y".into()));
                    }
                });
            }),
            "its `metaData` is not that of the commits",
        ),
        (
            Box::new(|all| {
                all.iter_mut().for_each(|a| {
                    if let Action::Protocol(p) = a {
                        p.min_writer_version = 3;
                    }
                });
            }),
            "its `protocol` is not that of the commits",
        ),
        (Box::new(|all| all.retain(|a| !matches!(a, Action::MetaData(_)))), "holds 0 actions `metaData`"),
    ];
    assert!(whole.iter().filter(|a| is_add(a)).count() == 5 && whole.iter().any(|a| matches!(a, Action::Add(f) if f.path == gone.path)));
    for (lie, what) in &lies {
        let mut actions = whole.clone();
        lie(&mut actions);
        world.put(&names::checkpoint(5), parquet(&actions)).await;
        let all = texts(&world.audit().await);
        assert!(all.iter().all(|t| t.starts_with("checkpoints: _delta_log/00000000000000000005.checkpoint.parquet: ")), "{all:#?}");
        assert!(all.iter().any(|t| t.contains(what)), "{what}: {all:#?}");
    }
    world.put(&names::checkpoint(5), "garbage".into()).await;
    finds(&world, &[(Check::Checkpoints, "5.checkpoint.parquet: ")]).await;
    world.put(&names::checkpoint(5), Bytes::new()).await;
    finds(&world, &[]).await;
    assert!(world.audit().await.notes().iter().any(|n| n.contains("1 objects belong to no complete checkpoint")));
    world.put(&names::checkpoint(5), parquet(&whole)).await;
    finds(&world, &[]).await;
}

#[tokio::test]
async fn parts_and_v2_checkpoints_are_compared_too() {
    let world = six().await;
    let whole = content(&world, 5).await;
    let name = |rest: &str| format!("_delta_log/00000000000000000005.checkpoint.{rest}");
    let (one, two) = (name("0000000001.0000000002.parquet"), name("0000000002.0000000002.parquet"));
    world.put(&one, parquet(&whole[..3])).await;
    finds(&world, &[]).await;
    world.put(&two, parquet(&whole[3..])).await;
    finds(&world, &[]).await;
    world.put(&two, parquet(&whole[4..])).await;
    finds(&world, &[(Check::Checkpoints, "it lacks 1 files")]).await;
    world.remove(&one).await;
    world.remove(&two).await;
    let sidecar = parquet(&whole[3..]);
    let v2 = |size: usize| {
        let mut text: String = whole[..3].iter().map(|a| format!("{}\n", serde_json::to_string(a).unwrap())).collect();
        text += &format!("{}\n", json!({"checkpointMetadata": {"version": 5}}));
        text += &format!("{}\n", json!({"sidecar": {"path": "s.parquet", "sizeInBytes": size, "modificationTime": 1}}));
        text
    };
    let path = name("80a083e8-7026-4e79-81be-64bd76c43a11.json");
    world.put(&path, v2(sidecar.len()).into()).await;
    finds(&world, &[(Check::Checkpoints, &path)]).await;
    world.put("_delta_log/_sidecars/s.parquet", sidecar.clone()).await;
    finds(&world, &[]).await;
    world.put("_delta_log/_sidecars/s.parquet", parquet(&whole[4..])).await;
    world.put(&path, v2(parquet(&whole[4..]).len()).into()).await;
    finds(&world, &[(Check::Checkpoints, "it lacks 1 files")]).await;
}

#[tokio::test]
async fn a_pointer_is_a_finding_only_if_it_leads_readers_astray() {
    let world = six().await;
    checkpoint(&world, 2).await;
    checkpoint(&world, 4).await;
    for (pointer, harm) in [
        (json!({"version": 5, "size": 1}), true),
        (json!({"version": 4, "size": 1, "parts": 2}), true),
        (json!({"version": 4, "size": 1}), false),
        (json!({"version": 2, "size": 1}), false),
        (json!([]), false),
        (json!({}), false),
    ] {
        world.put(LAST_CHECKPOINT, pointer.to_string().into()).await;
        finds(&world, if harm { &[(Check::Hints, "_last_checkpoint: it names a checkpoint")] } else { &[] }).await;
    }
    world.put(LAST_CHECKPOINT, "{".into()).await;
    finds(&world, &[]).await;
    world.remove(LAST_CHECKPOINT).await;
    finds(&world, &[]).await;
}

#[tokio::test]
async fn what_the_table_asks_of_commits_is_looked_at() {
    let world = six().await;
    let stamped = |actions: &mut Vec<Value>, at: i64| of(actions, "commitInfo")["inCommitTimestamp"] = at.into();
    edit(&world, 0, |actions| {
        *of(actions, "protocol") =
            json!({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp", "appendOnly"]});
        of(actions, "metaData")["configuration"] = json!({"delta.enableInCommitTimestamps": "true", "delta.appendOnly": "true"});
        stamped(actions, 1);
    })
    .await;
    for (version, at) in [(1, 2), (2, 3), (4, 3), (5, 6), (6, 7)] {
        edit(&world, version, |actions| stamped(actions, at)).await;
    }
    let wanted = [
        (Check::Snapshots, "3.json: it does not begin with a `commitInfo`"),
        (Check::Snapshots, "4.json: its `inCommitTimestamp` is 3, and that of the commit before it 3"),
        (Check::Snapshots, "6.json: it removes rows, and `delta.appendOnly` is set"),
    ];
    finds(&world, &wanted).await;
}

#[tokio::test]
async fn columns_that_are_damaged_are_found_and_those_that_are_unknown_are_noted() {
    let world = six().await;
    edit(&world, 0, |actions| of(actions, "metaData")["schemaString"] = "{".into()).await;
    finds(&world, &[(Check::Schemas, "0.json: `schemaString` is no JSON")]).await;
    let world = six().await;
    edit(&world, 0, |actions| {
        let text = of(actions, "metaData")["schemaString"].as_str().unwrap().replace("\"string\"", "\"variant\"");
        of(actions, "metaData")["schemaString"] = text.into();
    })
    .await;
    finds(&world, &[]).await;
    assert!(world.audit().await.notes().iter().any(|n| n.contains("lakeward reads no rows of this table") && n.contains("variant")));
}

#[tokio::test]
async fn a_deletion_vector_that_cannot_be_read_and_one_file_with_two_are_found() {
    let world = six().await;
    let mut add = serde_json::to_value(added(&world, 5).await).unwrap();
    add["deletionVector"] = json!({"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1});
    append(&world, 7, &[json!({"commitInfo": {}}), json!({"add": add})]).await;
    let wanted = [
        (Check::State, "is live twice, with different deletion vectors"),
        (Check::DeletionVectors, "the deletion vector is no text of base 85"),
    ];
    finds(&world, &wanted).await;
}

#[tokio::test]
async fn ranges_of_a_pipeline_must_join() {
    let world = six().await;
    for (version, range) in [(1, "[0,2]"), (2, "[2,4]"), (3, "[4,6]"), (4, "[7,9]"), (5, "[8,10]")] {
        edit(&world, version, |actions| {
            let info = of(actions, "commitInfo");
            info["lakeward.pipeline"] = "p".into();
            info["lakeward.chain"] = "c".into();
            info["lakeward.seq"] = version.to_string().into();
            info["lakeward.offsets"] = format!("{{\"s\":{range}}}").into();
        })
        .await;
    }
    let wanted = [(Check::Lineages, "p/u, split s: offsets [6, 7) are missing"), (Check::Lineages, "offsets [8, 9) are there twice")];
    finds(&world, &wanted).await;
}

#[tokio::test]
async fn files_to_which_nothing_refers_are_counted_and_are_no_finding() {
    let world = six().await;
    for hidden in ["_change_data/x.parquet", ".hidden", "p=1/_tmp/x"] {
        world.put(hidden, "abc".into()).await;
    }
    world.put("p=0/part-left.parquet", "abc".into()).await;
    let found = world.verify().await;
    assert_eq!(found.count(), 0);
    assert!(found.notes().iter().any(|n| n.starts_with("1 files, 3 bytes, are referred to by nothing")), "{:?}", found.notes());
}

#[tokio::test]
async fn two_tables_in_one_place_and_no_table_are_refused() {
    let world = six().await;
    world.put("schema/schema-0", "{}".into()).await;
    let e = crate::maintain::verify::verify(&world.store, false).await.unwrap_err();
    assert!(e.kind() == crate::Kind::Invalid && e.to_string().contains("here are two tables"), "{e}");
    assert_eq!(commit(&World::empty(), 1).await, 1);
    assert!(lines(&six().await, 6).await.len() == 2);
}
