//! Each kind of damage, made by hand, is found and named, by its check and its place; and nothing is found where nothing is wrong.

use serde_json::json;

use super::rig::{World, texts};
use crate::maintain::finding::Check;

/// The check finds exactly this: every finding holds one of the texts, every text is in one.
async fn finds(world: &World, wanted: &[(Check, &str)]) {
    let found = world.audit().await;
    let all = texts(&found);
    let is = |text: &str, (check, part): &(Check, &str)| text.starts_with(&format!("{check}: ")) && text.contains(part);
    for one in wanted {
        assert!(all.iter().any(|text| is(text, one)), "{one:?} is not in {all:#?}");
    }
    for text in &all {
        assert!(wanted.iter().any(|one| is(text, one)), "{text} is not in {wanted:?}");
    }
}

#[tokio::test]
async fn nothing_is_found_in_a_sound_table() {
    let world = World::six().await;
    let found = world.audit().await;
    assert_eq!(texts(&found), [""; 0]);
    let looked = |check: Check| found.checks().iter().find(|c| c.0 == check).map(|c| c.1);
    assert_eq!(looked(Check::Snapshots), Some(6));
    assert_eq!(looked(Check::DataFiles), Some(5), "the file that snapshot 4 removes is needed by those before");
    assert_eq!(looked(Check::RowCounts), Some(5));
    assert_eq!(looked(Check::Unreferenced), Some(0));
    assert!(texts(&world.verify().await).is_empty());
}

#[tokio::test]
async fn a_table_whose_snapshots_were_all_deleted_does_not_pass_for_a_new_one() {
    let world = World::six().await;
    for name in ["LATEST", "EARLIEST"] {
        world.remove(&format!("snapshot/{name}")).await;
    }
    for id in 1..=6 {
        world.remove(&format!("snapshot/snapshot-{id}")).await;
    }
    world.remove("tag/tag-two").await;
    let audit = world.audit().await;
    let told: Vec<String> = texts(&audit).into_iter().chain(audit.notes().iter().cloned()).collect();
    assert!(told.iter().any(|t| t.contains("snapshots were deleted")), "{told:?}");
}

#[tokio::test]
async fn a_table_without_snapshots_and_a_place_without_a_table_are_told_apart() {
    let world = World::empty();
    let e = crate::maintain::verify::verify(&world.store, false).await.unwrap_err();
    assert_eq!(e.kind(), crate::Kind::Invalid);
    let six = World::six().await;
    world.put("schema/schema-0", six.get("schema/schema-0").await).await;
    assert!(texts(&world.audit().await).is_empty());
}

#[tokio::test]
async fn a_data_file_that_is_cut_short_gone_or_moved_is_found() {
    let world = World::six().await;
    let (cut, gone, moved) = (world.file_of(2).await, world.file_of(3).await, world.file_of(5).await);
    let bytes = world.get(&cut).await;
    world.put(&cut, bytes.slice(..bytes.len() - 1)).await;
    world.remove(&gone).await;
    let bytes = world.get(&moved).await;
    world.remove(&moved).await;
    let elsewhere = moved.replace("p=1", "p=9");
    world.put(&elsewhere, bytes).await;
    let wanted = [
        (Check::DataFiles, format!("{cut}: it has")),
        (Check::DataFiles, format!("{gone}: it is missing, and snapshot/snapshot-6 needs it")),
        (Check::DataFiles, format!("{elsewhere}: readers look for it at {moved}")),
    ];
    finds(&world, &wanted.each_ref().map(|(c, t)| (*c, t.as_str()))).await;
}

#[tokio::test]
async fn a_file_that_only_an_old_snapshot_or_a_tag_needs_is_missed_too() {
    let world = World::six().await;
    let file = world.file_of(1).await;
    world.remove(&file).await;
    finds(&world, &[(Check::DataFiles, "it is missing, and snapshot/snapshot-3 needs it")]).await;
    for id in 1..=4 {
        world.remove(&format!("snapshot/snapshot-{id}")).await;
    }
    finds(&world, &[(Check::DataFiles, "it is missing, and tag/tag-two needs it")]).await;
    world.remove("tag/tag-two").await;
    finds(&world, &[]).await;
}

#[tokio::test]
async fn rows_are_counted_in_the_footer() {
    let world = World::six().await;
    world.edit_manifest(3, |entries| entries[0].file.rows = 5).await;
    for id in 3..=6 {
        let path = format!("snapshot/snapshot-{id}");
        world.edit_json(&path, |v| v["totalRecordCount"] = (v["totalRecordCount"].as_i64().unwrap() + 3).into()).await;
    }
    world.edit_json("snapshot/snapshot-3", |v| v["deltaRecordCount"] = 5.into()).await;
    finds(&world, &[(Check::RowCounts, "it has 2 rows, and its manifest says 5")]).await;
    assert!(texts(&world.verify().await).is_empty(), "without footers nothing can be seen of it");
    let file = world.file_of(5).await;
    let garbage = vec![b'x'; world.get(&file).await.len()];
    world.put(&file, garbage.into()).await;
    finds(&world, &[(Check::RowCounts, "has 2 rows"), (Check::RowCounts, "no readable Parquet file")]).await;
}

#[tokio::test]
async fn manifests_and_lists_that_are_missing_or_garbled_are_found() {
    for id in [2, 6] {
        let world = World::six().await;
        let manifest = world.manifest_of(id).await;
        world.remove(&manifest).await;
        finds(&world, &[(Check::Manifests, &format!("{manifest}: it is missing, and snapshot/snapshot-6 needs it"))]).await;
        world.put(&manifest, "garbage".into()).await;
        finds(&world, &[(Check::Manifests, &format!("{manifest}: this is no manifest"))]).await;

        let world = World::six().await;
        let list = world.delta_of(id).await;
        world.remove(&list).await;
        finds(&world, &[(Check::ManifestLists, &format!("{list}: it is missing, and snapshot/snapshot-{id} needs it"))]).await;
    }
    let world = World::six().await;
    let list = world.delta_of(5).await;
    let bytes = world.get(&list).await;
    world.put(&list, bytes.slice(..bytes.len() - 20)).await;
    finds(&world, &[(Check::ManifestLists, "says that it has"), (Check::ManifestLists, "this is no manifest list")]).await;
}

#[tokio::test]
async fn a_flipped_byte_in_a_manifest_is_found_nearly_anywhere_and_never_a_panic() {
    let world = World::six().await;
    let manifest = world.manifest_of(5).await;
    let bytes = world.get(&manifest).await;
    let (mut found, mut tried) = (0, 0);
    // The header holds names that nobody reads and defaults; the data comes after it.
    for at in (0..bytes.len()).step_by(23).chain(bytes.len() - 200..bytes.len()) {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x10;
        world.put(&manifest, damaged.into()).await;
        let all = texts(&world.verify().await);
        if at >= bytes.len() - 200 {
            tried += 1;
            found += usize::from(!all.is_empty());
        }
    }
    assert!(found * 10 >= tried * 6, "{found} of {tried}");
}

#[tokio::test]
async fn wrong_record_counts_are_found_where_they_begin() {
    let world = World::six().await;
    world.edit_json("snapshot/snapshot-3", |v| v["deltaRecordCount"] = 3.into()).await;
    finds(&world, &[(Check::RecordCounts, "snapshot-3: deltaRecordCount is 3, and its manifests come to 2")]).await;
    let world = World::six().await;
    for id in 4..=6 {
        world
            .edit_json(&format!("snapshot/snapshot-{id}"), |v| v["totalRecordCount"] = (v["totalRecordCount"].as_i64().unwrap() + 1).into())
            .await;
    }
    finds(&world, &[(Check::RecordCounts, "snapshot-4: totalRecordCount is 5, and its manifests come to 4")]).await;
}

#[tokio::test]
async fn a_file_that_is_added_twice_or_removed_without_being_there_is_found() {
    let world = World::six().await;
    let twice = world.added(5).await;
    world.snapshot_of("APPEND", std::slice::from_ref(&twice), 2).await;
    finds(&world, &[(Check::State, &format!("snapshot-7: it adds the file {} a second time", twice.file.name))]).await;

    let world = World::six().await;
    let mut stray = world.added(1).await;
    stray.kind = crate::format::paimon::manifest::EntryKind::Delete;
    world.snapshot_of("COMPACT", &[stray], -2).await;
    finds(&world, &[(Check::State, "which was not there")]).await;
}

#[tokio::test]
async fn a_snapshot_that_was_not_built_on_the_one_before_is_found() {
    let world = World::six().await;
    // Its writer had read snapshot 4 and took the place of 6.
    let base = world.snapshot(5).await;
    world
        .edit_json("snapshot/snapshot-6", |v| {
            v["baseManifestList"] = base.base_manifest_list.clone().into();
            v["baseManifestListSize"] = base.base_manifest_list_size.into();
            v["totalRecordCount"] = 6.into();
        })
        .await;
    let lost = world.added(5).await.file.name;
    finds(&world, &[(Check::State, &format!("snapshot-6: its base misses files that snapshot 5 held (1, among them {lost})"))]).await;
}

#[tokio::test]
async fn a_hole_in_history_a_strange_name_and_a_snapshot_that_is_none_are_found() {
    let world = World::six().await;
    world.remove("snapshot/snapshot-3").await;
    finds(&world, &[(Check::Snapshots, "snapshot-3: the snapshot is missing, although 2 below it")]).await;
    let world = World::six().await;
    world.put("snapshot/snapshot-7#1", "{}".into()).await;
    finds(&world, &[(Check::Snapshots, "snapshot/snapshot-7#1: the name")]).await;
    let world = World::six().await;
    world.put("snapshot/snapshot-3", world.get("snapshot/snapshot-2").await).await;
    finds(&world, &[(Check::Snapshots, "snapshot-3: the snapshot file says that its id is 2")]).await;
    world.put("snapshot/snapshot-3", "{".into()).await;
    finds(&world, &[(Check::Snapshots, "snapshot-3: this is no snapshot file")]).await;
}

#[tokio::test]
async fn schemas_that_are_missing_garbled_or_say_other_ids_are_found() {
    let world = World::six().await;
    world.edit_json("snapshot/snapshot-6", |v| v["schemaId"] = 4.into()).await;
    finds(&world, &[(Check::Schemas, "snapshot-6: its schema 4 does not exist")]).await;
    let world = World::six().await;
    world.edit_manifest(2, |entries| entries[0].file.schema_id = 1).await;
    finds(&world, &[(Check::DataFiles, "it was written under schema 1, which does not exist")]).await;
    let world = World::six().await;
    let schema = world.get("schema/schema-0").await;
    world.put("schema/schema-2", schema.clone()).await;
    let wanted = [(Check::Schemas, "schema-1: the schema is missing"), (Check::Schemas, "schema-2: it says that its id is 0")];
    finds(&world, &wanted).await;
    world.remove("schema/schema-2").await;
    for (edit, what) in [
        (json!({"version": 9}), "version 9"),
        (json!({"highestFieldId": 0}), "above `highestFieldId` 0"),
        (json!({"partitionKeys": ["q"]}), "the key column `q` is not a column"),
        (json!({"fields": [{"id": 0, "name": "id", "type": "INT"}, {"id": 0, "name": "p", "type": "INT"}]}), "is there twice"),
        (json!({"fields": [{"id": 0, "name": "id", "type": "SRING"}]}), "`id` has the type \"SRING\", which is none of Paimon's"),
        (json!({"fields": [{"id": 0, "name": "id", "type": {}}]}), "which is none of Paimon's"),
        (json!({"fields": [{"id": -5, "name": "id", "type": "INT"}]}), "has the id -5"),
        (json!({"options": 7}), "`options` is no object"),
        (json!({"primaryKeys": -1}), "`primaryKeys` is no list of names"),
    ] {
        world.put("schema/schema-0", schema.clone()).await;
        world.edit_json("schema/schema-0", |v| v.as_object_mut().unwrap().extend(edit.as_object().unwrap().clone())).await;
        finds(&world, &[(Check::Schemas, what)]).await;
    }
    world.put("schema/schema-0", "{".into()).await;
    finds(&world, &[(Check::Schemas, "schema-0: this is no schema file")]).await;
}

#[tokio::test]
async fn a_hint_is_a_finding_only_if_it_leads_readers_astray() {
    let world = World::six().await;
    for id in [1, 2] {
        world.remove(&format!("snapshot/snapshot-{id}")).await;
    }
    for (hint, harm) in [("7", true), ("99", true), ("1", true), ("2", false), ("3", false), ("5", false), ("6", false), ("x", false)] {
        world.put("snapshot/LATEST", hint.into()).await;
        finds(&world, if harm { &[(Check::Hints, "snapshot/LATEST: it says")] } else { &[] }).await;
    }
    world.remove("snapshot/LATEST").await;
    world.put("snapshot/EARLIEST", "1".into()).await;
    finds(&world, &[]).await;
}

#[tokio::test]
async fn what_lists_say_of_manifests_must_be_true() {
    let world = World::six().await;
    let name = world.manifest_of(5).await.rsplit('/').next().unwrap().to_owned();
    type Lie = (fn(&mut crate::format::paimon::manifest::ManifestMeta), &'static str);
    let lies: [Lie; 5] = [
        (|m| m.size += 1, "bytes and not"),
        (|m| m.added = 2, "it adds 1 files and removes 0, and not 2 and 0"),
        (|m| m.buckets = Some((1, 1)), "its buckets go from 0 to 0, and not from 1 to 1"),
        (|m| m.levels = Some((1, 5)), "its levels go from 0 to 0, and not from 1 to 5"),
        (|m| std::mem::swap(&mut m.partition_stats.min, &mut m.partition_stats.max), ""),
    ];
    for (lie, what) in lies.into_iter().take(4) {
        let world = World::six().await;
        let name = world.manifest_of(5).await.rsplit('/').next().unwrap().to_owned();
        world
            .edit_lists(|meta| {
                if meta.name == name {
                    lie(meta)
                }
            })
            .await;
        finds(&world, &[(Check::Manifests, what)]).await;
    }
    let other = world.list(&world.snapshot(6).await.delta_manifest_list).await.remove(0).partition_stats;
    world
        .edit_lists(|meta| {
            if meta.name == name {
                meta.partition_stats = other.clone()
            }
        })
        .await;
    finds(&world, &[(Check::Manifests, "partition column 0 goes from Some(Int(1)) to Some(Int(1)), and not from Some(Int(0))")]).await;
    let world = World::six().await;
    world.edit_json("snapshot/snapshot-2", |v| v["deltaManifestListSize"] = 1.into()).await;
    finds(&world, &[(Check::ManifestLists, "snapshot-2 says that it has 1 bytes")]).await;
}

#[tokio::test]
async fn statistics_that_count_more_nulls_than_rows_are_found() {
    let world = World::six().await;
    world.edit_manifest(3, |entries| entries[0].file.value_stats.nulls[0] = Some(3)).await;
    finds(&world, &[(Check::DataFiles, "its statistics count 3 nulls in 2 rows")]).await;
}

#[tokio::test]
async fn index_manifests_index_files_and_statistics_must_be_there() {
    let world = World::six().await;
    world
        .edit_json("snapshot/snapshot-6", |v| {
            v["indexManifest"] = "index-manifest-x-0".into();
            v["statistics"] = "stat-x-0".into();
        })
        .await;
    let wanted = [
        (Check::IndexFiles, "manifest/index-manifest-x-0: it is missing, and snapshot/snapshot-6 needs it"),
        (Check::IndexFiles, "statistics/stat-x-0: it is missing"),
    ];
    finds(&world, &wanted).await;
    world.put("statistics/stat-x-0", "{}".into()).await;
    world.put("manifest/index-manifest-x-0", "garbage".into()).await;
    finds(&world, &[(Check::IndexFiles, "index-manifest-x-0: this is no index manifest")]).await;
}

#[tokio::test]
async fn tags_are_looked_at_like_snapshots() {
    let world = World::six().await;
    world.put("tag/tag-bad", "{".into()).await;
    finds(&world, &[(Check::Tags, "tag/tag-bad: this is no snapshot file")]).await;
    world.remove("tag/tag-bad").await;
    world.edit_json("tag/tag-two", |v| v["deltaManifestList"] = "manifest-list-gone-1".into()).await;
    finds(&world, &[(Check::ManifestLists, "manifest-list-gone-1: it is missing, and tag/tag-two needs it")]).await;
}

#[tokio::test]
async fn files_to_which_nothing_refers_are_counted_and_are_no_finding() {
    let world = World::six().await;
    world.put("p=0/bucket-0/data-left-0.parquet", "abc".into()).await;
    world.put("manifest/manifest-left-0", "de".into()).await;
    let found = world.verify().await;
    assert_eq!(found.count(), 0);
    assert!(found.notes().iter().any(|n| n.starts_with("2 files, 5 bytes, are referred to by nothing")), "{:?}", found.notes());
}
