//! Rows, columns and the moment are chosen: `--where`, `--columns`, `--at`; `partitions`, `manifests`, `diff`.

use std::process::Stdio;

use serde_json::{Value, json};

use super::{Lake, ok, ran, rows, run, table_cli};

/// A table partitioned by day, with two snapshots: three rows of two days, then two more of a third; `monthly` is a tag on the first.
fn orders() -> (Lake, String) {
    let lake = Lake::new();
    let table = lake.path("lake/orders");
    let pipeline = lake.write(
        "choose.yaml",
        "version: 1\npipeline: choose\nsource:\n  files: {paths: [\"choose/*.ndjson\"]}\n  at_end: pause\nsinks:\n  - location: ./lake/orders\n    columns:\n      \
         id: BIGINT NOT NULL\n      amount: DECIMAL(10, 2)\n      note: STRING\n      dt: DATE\n    partition_by: [dt]\n\
         checkpoint:\n  location: ./lake/_checkpoints\ndurability: none\n",
    );
    std::fs::create_dir(lake.path("choose")).unwrap();
    let first = "{\"id\":1,\"amount\":\"1.50\",\"note\":\"urgent: a\",\"dt\":\"2026-01-01\"}\n\
         {\"id\":2,\"amount\":\"20\",\"dt\":\"2026-01-02\"}\n{\"id\":3,\"amount\":\"-3\",\"note\":\"it's\",\"dt\":\"2026-01-02\"}\n";
    lake.write("choose/1.ndjson", first);
    ok(&["ingest", &pipeline]);
    std::fs::create_dir_all(format!("{table}/tag")).unwrap();
    std::fs::copy(format!("{table}/snapshot/snapshot-1"), format!("{table}/tag/tag-monthly")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(5));
    lake.write("choose/2.ndjson", "{\"id\":4,\"amount\":\"0\",\"dt\":\"2026-01-03\"}\n{\"id\":5,\"dt\":\"2026-01-03\"}\n");
    ok(&["ingest", &pipeline]);
    (lake, table)
}

fn ids(args: &[&str]) -> Vec<i64> {
    let mut ids: Vec<i64> = rows(args).iter().map(|r| r["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn rows_and_columns_are_chosen_by_cat_and_count() {
    let (_lake, table) = orders();
    for (condition, expected) in [
        ("amount > 1.5", &[2][..]),
        ("dt = '2026-01-02' and not (amount < 0)", &[2]),
        ("note like 'urgent%' or note = 'it''s'", &[1, 3]),
        ("amount is null or dt in ('2026-01-01')", &[1, 5]),
        ("id between 2 and 4 and dt <> '2026-01-03'", &[2, 3]),
        ("id > 5", &[]),
    ] {
        assert_eq!(ids(&["cat", &table, "--where", condition]), expected, "{condition}");
        assert_eq!(rows(&["count", &table, "--where", condition])[0]["rows"], expected.len(), "{condition}");
    }
    let some = ok(&["cat", &table, "--columns", "dt,id", "--where", "id = 2", "-o", "csv"]);
    assert_eq!(some, "dt,id\n2026-01-02,2\n");
    assert_eq!(rows(&["cat", &table, "--where", "id > 0", "--limit", "2"]).len(), 2);
    assert_eq!(ok(&["cat", &table, "--where", "id > 9", "-o", "json"]), "[]\n");
}

#[test]
fn what_is_not_read_need_not_be_there() {
    let (_lake, table) = orders();
    for file in rows(&["files", &table]) {
        let kept = file["partition"]["dt"] == "2026-01-01";
        if !kept {
            std::fs::remove_file(format!("{table}/{}", file["path"].as_str().unwrap())).unwrap();
        }
    }
    assert_eq!(ids(&["cat", &table, "--where", "dt < '2026-01-02'"]), [1]);
    assert_eq!(ids(&["cat", &table, "--where", "note >= 'k'"]), [1], "by statistics");
    assert_eq!(rows(&["count", &table, "--where", "dt >= '2026-01-02'"])[0]["rows"], 4, "no file is opened");
    let ran = run(&["cat", &table]);
    assert_eq!(ran.code, 5);
    assert!(ran.err.contains("a data file is missing"), "{}", ran.err);
}

#[test]
fn a_snapshot_a_tag_and_a_time_are_looked_at_alike() {
    let (_lake, table) = orders();
    let second = rows(&["snapshot", &table, "2"])[0]["time"].as_str().unwrap().to_owned();
    let first = rows(&["snapshot", &table, "1"])[0]["time"].as_str().unwrap().to_owned();
    for when in ["snapshot:1", "1", "tag:monthly", &first] {
        assert_eq!(ids(&["cat", &table, "--at", when]), [1, 2, 3], "{when}");
        assert_eq!(rows(&["count", &table, "--at", when])[0]["rows"], 3, "{when}");
        assert_eq!(rows(&["count", &table, "--at", when, "--where", "amount > 0"])[0]["rows"], 2, "{when}");
        assert_eq!(rows(&["files", &table, "--at", when]).len(), 2, "{when}");
        assert_eq!(rows(&["partitions", &table, "--at", when]).len(), 2, "{when}");
        assert_eq!(rows(&["info", &table, "--at", when])[0]["rows"], 3, "{when}");
        assert_eq!(rows(&["schema", &table, "--at", when]).len(), 4, "{when}");
    }
    assert_eq!(ids(&["cat", &table, "--at", &second]).len(), 5);
    // The tag keeps what it needs when its snapshot is gone.
    std::fs::remove_file(format!("{table}/snapshot/snapshot-1")).unwrap();
    assert_eq!(ids(&["cat", &table, "--at", "tag:monthly"]), [1, 2, 3]);
    for (when, what) in [
        ("snapshot:1", "there is no snapshot 1"),
        ("tag:yearly", "its tags are monthly"),
        (first.as_str(), "there is no snapshot as old as"),
        ("yesterday", "is no snapshot, no tag"),
    ] {
        let ran = run(&["cat", &table, "--at", when]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{when}");
        assert!(ran.err.contains(what), "{when}: {}", ran.err);
    }
    assert_eq!(run(&["cat", &table, "--at", "2", "--snapshot", "2"]).code, 2);
}

#[test]
fn partitions_and_manifests_add_up() {
    let (_lake, table) = orders();
    let partitions = rows(&["partitions", &table]);
    let shown: Vec<(&Value, &Value, &Value)> = partitions.iter().map(|p| (&p["partition"]["dt"], &p["rows"], &p["files"])).collect();
    assert_eq!(
        shown,
        [
            (&json!("2026-01-01"), &json!(1), &json!(1)),
            (&json!("2026-01-02"), &json!(2), &json!(1)),
            (&json!("2026-01-03"), &json!(2), &json!(1))
        ]
    );
    let bytes: u64 = rows(&["files", &table]).iter().map(|f| f["size"].as_u64().unwrap()).sum();
    assert_eq!(partitions.iter().map(|p| p["bytes"].as_u64().unwrap()).sum::<u64>(), bytes);
    assert!(partitions.iter().all(|p| p["newest_file"].is_string() && p["buckets"] == 1), "{partitions:?}");
    let manifests = rows(&["manifests", &table]);
    assert_eq!(manifests.iter().map(|m| m["files_added"].as_i64().unwrap()).sum::<i64>(), 3);
    let delta: Vec<&Value> = manifests.iter().filter(|m| m["list"] == "delta").collect();
    assert_eq!((&delta[0]["partition_min"]["dt"], &delta[0]["partition_max"]["dt"]), (&json!("2026-01-03"), &json!("2026-01-03")));
    assert!(ok(&["partitions", &table, "-o", "table"]).contains("dt=2026-01-02"));
}

#[test]
fn a_diff_names_files_partitions_and_the_whole() {
    let (_lake, table) = orders();
    let changes = rows(&["diff", &table, "1", "2"]);
    let of = |kind: &str| changes.iter().filter(|c| c["kind"] == kind).collect::<Vec<_>>();
    assert_eq!((of("column").len(), of("file").len()), (0, 1));
    let partitions = of("partition");
    assert_eq!(partitions.len(), 1);
    assert_eq!(
        (&partitions[0]["change"], &partitions[0]["partition"]["dt"], &partitions[0]["rows"]),
        (&json!("added"), &json!("2026-01-03"), &json!(2))
    );
    let table_wide: Vec<(&Value, &Value)> = of("table").iter().map(|c| (&c["change"], &c["rows"])).collect();
    assert_eq!(table_wide, [(&json!("removed"), &json!(0)), (&json!("added"), &json!(2))]);
    assert_eq!(ids(&["diff", &table, "tag:monthly", "2", "--rows"]), [4, 5]);
    let back = rows(&["diff", &table, "2", "tag:monthly"]);
    assert!(back.iter().any(|c| c["kind"] == "table" && c["change"] == "removed" && c["rows"] == 2), "{back:?}");
    assert_eq!(rows(&["diff", &table, "2", "2"]).len(), 2, "nothing but the sums");
    assert_eq!(run(&["diff", &table, "1"]).code, 2);
}

#[test]
fn a_wrong_condition_is_pointed_at() {
    let (_lake, table) = orders();
    let ran = run(&["cat", &table, "--where", "amount >> 1"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(
        ran.err.contains("condition: expected a column or a value") && ran.err.contains("    amount >> 1\n            ^"),
        "{}",
        ran.err
    );
    let ran = run(&["count", &table, "--where", "amount = 0.001"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("0.001 is no DECIMAL(10, 2) (column amount)"), "{}", ran.err);
    let ran = run(&["cat", &table, "--columns", "id,nope"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("the table has no column `nope`") && ran.err.contains("its columns are id, amount"), "{}", ran.err);
}

#[test]
fn a_reader_that_leaves_a_chosen_cat_is_no_error() {
    let (_lake, table) = orders();
    for args in [&["cat", &table, "--where", "id > 0"][..], &["diff", &table, "1", "2"], &["partitions", &table]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = ran(table_cli(args).stdout(writer).stderr(Stdio::piped()).output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    }
}
