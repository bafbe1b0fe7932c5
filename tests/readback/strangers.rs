//! Tables of strangers: each option that Java knows has its standing here; what is honoured is done, what is refused is refused by name for
//! what it forbids and for nothing else; schemas that others alter are followed.

use std::path::{Path, PathBuf};

use lakeward::format::paimon::options::known::{Standing, standing};
use lakeward::schema::Field;
use lakeward::table::{At, CommitUser, Table};
use serde_json::{Value, json};

use super::Folder;
use super::matrix::{Group, OURS, SHAPES, Shape, Written, append_ours, read_ours};
use super::model::{answered, batch, cells, field, rows_of_batch, type_json};
use super::quirks::Feature;
use super::readers::{READERS, Row, assert_rows, count_comparison, difference, each, get, text};

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn every_option_of_java_has_its_standing() {
    for java in ["java-newest", "java-oldest"] {
        let answer = get(java, &json!({"cmd": "options"}));
        let options = answer["options"].as_object().unwrap();
        assert!(options.len() > 150, "{java}: {}", options.len());
        count_comparison();
        let unknown: Vec<&String> = options.keys().filter(|key| standing(key).is_none()).collect();
        assert!(unknown.is_empty(), "{java} knows {unknown:?}: say in src/format/paimon/options/known.rs what they are to us");
        let of = |wanted: Standing| options.keys().filter(|k| standing(k) == Some(wanted)).count();
        println!(
            "{java}: {} options, {} honoured, {} not written, {} not read",
            options.len(),
            of(Standing::Honoured),
            of(Standing::NotWritten),
            of(Standing::NotRead)
        );
    }
}

/// `id`, `p`, `s` and a nested column.
fn fields() -> Vec<Field> {
    [("id", "BIGINT NOT NULL"), ("p", "STRING"), ("s", "STRING"), ("a", "ARRAY<INT>")].map(|(n, t)| field(n, t)).to_vec()
}

fn values(from: usize) -> Vec<Vec<Value>> {
    let p = |i: usize| [json!("a"), Value::Null][i % 2].clone();
    (from..from + 4).map(|i| vec![json!(i.to_string()), p(i), json!(format!("s{i}")), json!([i.to_string(), null])]).collect()
}

fn create(java: &str, table: &Path, partition: &[&str], options: &[(&str, &str)]) {
    let columns: Vec<Value> = fields().iter().map(|f| json!([f.name, type_json(&f.data_type, f.nullable)])).collect();
    let options: serde_json::Map<String, Value> = options.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
    get(java, &json!({"cmd": "create", "table": table, "columns": columns, "partition": partition, "options": options}));
}

fn append(java: &str, table: &Path, values: &[Vec<Value>]) {
    get(java, &json!({"cmd": "append", "table": table, "rows": values}));
}

/// What forbids us to write, by its name; none: we may.
async fn write_refused(table: &Path) -> Option<String> {
    let opened = Table::open(table.to_str().unwrap()).await;
    let written = opened.and_then(|table| table.new_write(&CommitUser::new("stranger")).map(drop));
    written.err().map(|e| e.to_string())
}

async fn read_refused(table: &Path) -> Option<String> {
    match Table::open(table.to_str().unwrap()).await {
        Ok(table) => table.scan().count().await.err().map(|e| e.to_string()),
        Err(e) => Some(e.to_string()),
    }
}

const PLAIN: [(&str, &str); 2] = [("bucket", "-1"), ("file.format", "parquet")];

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn what_only_writers_care_for_is_refused_for_writing_and_read() {
    for (java, key, value) in [
        ("java-newest", "row-tracking.enabled", "true"),
        ("java-newest", "file-index.bloom-filter.columns", "s"),
        ("java-newest", "file-index.bitmap.columns", "s"),
        ("java-newest", "file.suffix.include.compression", "true"),
        ("java-newest", "metadata.stats-mode.per.level", "0:none"),
        ("java-newest", "upsert-key", "id"),
        ("java-newest", "consumer.expiration-time", "1 h"),
        ("java-newest", "commit.strict-mode.last-safe-snapshot", "1"),
        ("java-oldest", "fields.s.default-value", "x"),
        ("java-oldest", "file-index.bloom-filter.columns", "s"),
    ] {
        let folder = Folder::new();
        let table = folder.table("t");
        create(java, &table, &[], &[PLAIN.as_slice(), &[(key, value)]].concat());
        append(java, &table, &values(0));
        let refused = write_refused(&table).await.unwrap_or_else(|| panic!("{key} of {java} may be written"));
        assert!(refused.contains(&format!("`{key}`")), "{refused}");
        assert_eq!(read_refused(&table).await, None, "{java} {key}");
        let mut expected = cells(&fields(), &values(0));
        expected.sort();
        let ours = read_ours(&table, &fields()).await;
        assert!(ours == expected, "{java} {key}: {}", difference(&ours, &expected));
        count_comparison();
        // The command too: it shows the rows, and does not write.
        let ran = crate::cli::run(&["cat", table.to_str().unwrap(), "-o", "jsonl"]);
        assert_eq!((ran.code, ran.out.lines().count()), (0, 4), "{key}: {}", ran.err);
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn what_would_be_read_wrongly_is_refused_for_reading_and_can_be_looked_at() {
    let external = tempfile::tempdir().unwrap();
    let outside = format!("file://{}", external.path().display());
    for (options, named, writes) in [
        (&[("file.format", "orc")][..], "is orc, not Parquet", false),
        (&[("file.format", "avro")], "is avro, not Parquet", false),
        (&[("data-file.external-paths", &outside), ("data-file.external-paths.strategy", "round-robin")], "lies outside the table", false),
        (&[("deletion-vectors.enabled", "true")], "`deletion-vectors.enabled`", false),
        (&[("row-tracking.enabled", "true"), ("data-evolution.enabled", "true")], "`data-evolution.enabled`", false),
        (&[("scan.snapshot-id", "1"), ("scan.mode", "from-snapshot")], "`scan.", true),
    ] {
        let folder = Folder::new();
        let table = folder.table("t");
        let altered = named == "`scan.";
        let mut all: Vec<(&str, &str)> = vec![("bucket", "-1")];
        if !altered {
            all.extend_from_slice(options);
        }
        create("java-newest", &table, &[], &all);
        append("java-newest", &table, &values(0));
        if altered {
            let changes: Vec<Value> = options.iter().map(|(k, v)| json!(["set", k, v])).collect();
            get("java-newest", &json!({"cmd": "alter", "table": table, "changes": changes}));
        }
        let refused = read_refused(&table).await.unwrap_or_else(|| panic!("{options:?} is read"));
        assert!(refused.contains(named), "{options:?}: {refused}");
        assert_eq!(write_refused(&table).await.is_none(), writes, "{options:?}: {:?}", write_refused(&table).await);
        count_comparison();
        for (command, code) in [("snapshots", 0), ("schema", 0), ("cat", 2)] {
            let ran = crate::cli::run(&[command, table.to_str().unwrap(), "-o", "jsonl"]);
            assert_eq!(ran.code, code, "{options:?} {command}: {}", ran.err);
        }
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn what_concerns_others_forbids_nothing() {
    let harmless = [
        ("write-only", "true"),
        ("snapshot.num-retained.min", "5"),
        ("snapshot.num-retained.max", "9"),
        ("snapshot.time-retained", "2 h"),
        ("tag.num-retained-max", "3"),
        ("partition.expiration-time", "3650 d"),
        ("partition.timestamp-formatter", "yyyyMMdd"),
        ("compaction.min.file-num", "7"),
        ("consumer-id", "somebody"),
        ("consumer.expiration-time", "7 d"),
        ("scan.plan-sort-partition", "true"),
        ("source.split.target-size", "1 mb"),
        ("write-buffer-for-append", "true"),
        ("parquet.enable.dictionary", "false"),
        ("file.block-size", "1 mb"),
        ("num-sorted-run.compaction-trigger", "9"),
        ("owner", "the team next door"),
    ];
    for java in ["java-newest", "java-oldest"] {
        let folder = Folder::new();
        let shape = Shape { partition: &["p"], options: &[("bucket", "-1")] };
        let mut written = Written::create(&folder, "t", java, Group::Decimals, shape, &harmless).await;
        written.append(java).await;
        written.append(OURS).await;
        written.append(java).await;
        written.append(OURS).await;
        written.read_by_all(&format!("harmless options of {java}")).await;
    }
}

/// The data files below a table, as paths relative to it.
fn data_files(table: &Path) -> Vec<PathBuf> {
    let all = crate::process::tree(table);
    let mut files: Vec<PathBuf> = all.keys().filter(|p| p.extension().is_some_and(|e| e == "parquet")).cloned().collect();
    files.sort();
    files.iter().map(|p| p.strip_prefix(table).unwrap_or(p).to_owned()).collect()
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn options_of_a_table_that_java_made_are_honoured() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    for (codec, named) in [("zstd", "ZSTD"), ("snappy", "SNAPPY"), ("lz4", "LZ4_RAW"), ("none", "UNCOMPRESSED")] {
        let folder = Folder::new();
        let table = folder.table("t");
        let options = [
            PLAIN.as_slice(),
            &[
                ("file.compression", codec),
                ("file.compression.zstd-level", "7"),
                ("data-file.prefix", "part-"),
                ("data-file.path-directory", "deep/data"),
                ("partition.default-name", "NOTHING"),
                ("metadata.stats-mode", "counts"),
                ("fields.s.stats-mode", "full"),
                ("manifest.compression", "snappy"),
            ],
        ];
        create("java-newest", &table, &["p"], &options.concat());
        append_ours(&table, &fields(), &values(0), 1).await;
        let files = data_files(&table);
        assert_eq!(files.len(), 2, "{files:?}");
        for file in &files {
            let text = file.to_str().unwrap();
            let right = ["deep/data/p=a/bucket-0/part-", "deep/data/p=NOTHING/bucket-0/part-"].iter().any(|start| text.starts_with(start));
            assert!(right, "{text}");
            let reader = SerializedFileReader::new(std::fs::File::open(table.join(file)).unwrap()).unwrap();
            let of_chunk = format!("{:?}", reader.metadata().row_group(0).column(0).compression());
            assert!(of_chunk.starts_with(named), "{of_chunk} instead of {named}");
        }
        append("java-newest", &table, &values(4));
        for file in data_files(&table) {
            assert!(file.to_str().unwrap().contains("/part-"), "{file:?}: Java writes beside us, to the same place");
        }
        let listed = get("java-newest", &json!({"cmd": "list", "table": table}));
        count_comparison();
        for file in listed["files"].as_array().unwrap() {
            let stats = &file["stats"];
            assert!(stats["s"]["min"].is_string() && stats["id"]["min"].is_null() && stats["id"]["nulls"] == 0, "{file}");
        }
        let expected = cells(&fields(), &[values(0), values(4)].concat());
        let names = ["id", "p", "s"];
        let flat: Vec<Row> = expected.iter().map(|r| r[..3].to_vec()).collect();
        for reader in READERS.into_iter().filter(|r| super::quirks::refuses_table(r, Feature::PathDirectory).is_none()) {
            assert_rows(reader, &table, &names, &flat);
        }
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn schemas_that_java_alters_are_followed() {
    for shape in SHAPES {
        let folder = Folder::new();
        let table = folder.table("t");
        let before: Vec<Field> = [
            ("id", "BIGINT NOT NULL"),
            ("p", "STRING"),
            ("n", "INT"),
            ("gone", "STRING"),
            ("r", "ROW<x INT, y STRING>"),
            ("must", "INT NOT NULL"),
        ]
        .map(|(n, t)| field(n, t))
        .to_vec();
        let columns: Vec<Value> = before.iter().map(|f| json!([f.name, type_json(&f.data_type, f.nullable)])).collect();
        let options: serde_json::Map<String, Value> = shape.options.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect();
        get("java-newest", &json!({"cmd": "create", "table": table, "columns": columns, "partition": shape.partition, "options": options}));
        let old = |i: usize| {
            let n = if i.is_multiple_of(2) { json!(i32::MIN.to_string()) } else { Value::Null };
            vec![json!(i.to_string()), json!("a"), n, json!("g"), json!({"x": "1", "y": null}), json!("5")]
        };
        append("java-newest", &table, &[old(0), old(1)]);
        append_ours(&table, &before, &[old(2), old(3)], 1).await;
        get("java-newest", &json!({"cmd": "tag", "table": table, "name": "before", "id": 2}));
        let changes = json!([
            ["add", "tags", {"type": "ARRAY", "element": "STRING"}],
            ["rename", "n", "number"],
            ["retype", "number", "BIGINT"],
            ["drop", "gone"],
            ["nullable", "must", true],
            ["set", "snapshot.num-retained.max", "100"]
        ]);
        get("java-newest", &json!({"cmd": "alter", "table": table, "changes": changes}));
        let after: Vec<Field> = [
            ("id", "BIGINT NOT NULL"),
            ("p", "STRING"),
            ("number", "BIGINT"),
            ("r", "ROW<x INT, y STRING>"),
            ("must", "INT"),
            ("tags", "ARRAY<STRING>"),
        ]
        .map(|(n, t)| field(n, t))
        .to_vec();
        let new = |i: usize| {
            vec![
                json!(i.to_string()),
                Value::Null,
                json!(i64::MAX.to_string()),
                json!({"x": null, "y": "z"}),
                Value::Null,
                json!(["t", null]),
            ]
        };
        append_ours(&table, &after, &[new(4), new(5)], 2).await;
        append("java-newest", &table, &[new(6)]);
        append_ours(&table, &after, &[new(7)], 3).await;
        let as_new =
            |i: usize| vec![old(i)[0].clone(), old(i)[1].clone(), old(i)[2].clone(), old(i)[4].clone(), old(i)[5].clone(), Value::Null];
        let all: Vec<Vec<Value>> = (0..4).map(as_new).chain((4..8).map(new)).collect();
        let mut expected = cells(&after, &all);
        expected.sort();
        let ours = read_ours(&table, &after).await;
        count_comparison();
        assert!(ours == expected, "{shape:?}: we read {}", difference(&ours, &expected));
        each(&READERS, |reader| {
            let answer = get(reader, &json!({"cmd": "rows", "table": table}));
            count_comparison();
            let found = answered(&answer, &after);
            assert!(found == expected, "{shape:?}: {reader} reads {}", difference(&found, &expected));
        });
        // As of the tag the columns are those of then.
        let opened = Table::open(table.to_str().unwrap()).await.unwrap();
        let mut rows = opened.scan().at(At::Tag("before".to_owned())).rows().await.unwrap();
        let mut found = Vec::new();
        while let Some(batch) = rows.next().await.unwrap() {
            found.extend(rows_of_batch(&batch, &before));
        }
        found.sort();
        let mut expected = cells(&before, &(0..4).map(old).collect::<Vec<_>>());
        expected.sort();
        count_comparison();
        assert!(found == expected, "{shape:?} at the tag: {}", difference(&found, &expected));
        // A writer that was opened before the table was altered does not write what the table no longer is.
        let stale = opened.new_write(&CommitUser::new("stale")).unwrap();
        drop(stale);
    }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn a_table_that_is_altered_so_that_we_cannot_write_is_refused_at_the_commit() {
    let folder = Folder::new();
    let table = folder.table("t");
    create("java-newest", &table, &[], &PLAIN);
    let user = CommitUser::new("stale");
    let opened = Table::open(table.to_str().unwrap()).await.unwrap();
    let mut write = opened.new_write(&user).unwrap();
    write.write(&batch(&fields(), &values(0))).await.unwrap();
    let messages = write.prepare_commit().await.unwrap();
    get("java-newest", &json!({"cmd": "alter", "table": table, "changes": [["set", "commit.callbacks", "a.B"]]}));
    let refused = opened.new_commit(&user).commit(1, messages).await.unwrap_err();
    assert!(refused.to_string().contains("`commit.callbacks`"), "{refused}");
    assert_eq!(text("0"), Some(read_ours(&table, &fields()).await.len().to_string()));
    count_comparison();
}
