//! Tables of other people: the public acceptance tables, and one for each feature, made by Spark, by deltalake and by hand. What we read of
//! them is what the other engines read, and where we may append, the engine that made a table reads our row and appends after us.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use futures::TryStreamExt as _;
use lakeward::condition::Condition;
use lakeward::schema::Field;
use lakeward::table::{CommitUser, Table, TableSpec};
use lakeward::{Kind, Result};
use serde_json::{Value, json};

use super::super::model::{answered, batch, rows_of_batch};
use super::super::readers::{Row, ask, compared, count_comparison, get};

/// Public tables that we refuse to read, each with a word of the reason.
const REFUSED: [(&str, &str); 6] = [
    ("deltalake/simple_table_features", "reader version 5"),
    ("deltalake/spark-shredded-variant-preview-delta", "`variantShredding-preview`"),
    ("deltalake/spark-variant-checkpoint", "`variantType-preview`"),
    ("deltalake/spark-variant-stable-feature-checkpoint", "`variantType`"),
    ("deltalake/table_with_column_mapping", "`columnMapping`"),
    ("deltalake/table_with_partitioning_mapping", "`columnMapping`"),
];

fn target(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/interop").join(name)
}

async fn open(path: &Path) -> Result<Table> {
    Table::open(path.to_str().unwrap()).await
}

/// All rows, sorted, by the table's columns.
async fn rows(table: &Table) -> Result<Vec<Row>> {
    let fields = &table.schema().fields;
    let batches: Vec<_> = table.scan().stream().await?.try_collect().await?;
    let mut rows: Vec<Row> = batches.iter().flat_map(|b| rows_of_batch(b, fields)).collect();
    rows.sort();
    count_comparison();
    Ok(rows)
}

/// Directories under this one that hold a `_delta_log`.
fn tables_under(dir: &Path, found: &mut BTreeSet<PathBuf>) {
    if dir.join("_delta_log").is_dir() {
        found.insert(dir.to_owned());
        return;
    }
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tables_under(&path, found);
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &to) } else { fs::copy(&path, &to).map(drop).unwrap() }
    }
}

/// What is wrong with our reading of a public table; the engines that read it.
async fn judge(path: &Path, name: &str) -> (Vec<&'static str>, Option<String>) {
    let table = match (open(path).await, REFUSED.iter().find(|(refused, _)| *refused == name)) {
        (Err(e), Some((_, why))) if e.to_string().contains(why) && e.next_step().is_some() => return (Vec::new(), None),
        (found, Some((_, why))) => return (Vec::new(), Some(format!("is not refused for {why}: {found:?}"))),
        (Ok(table), None) => table,
        (Err(e), None) => return (Vec::new(), Some(format!("cannot be opened: {e}"))),
    };
    let fields = &table.schema().fields;
    let ours = rows(&table).await;
    let mut readers = Vec::new();
    let mut wrong = None;
    // Spark takes longest and is asked only when the others do not read it, or not as we do: some are known to be wrong.
    for reader in ["deltalake", "duckdb", "spark"] {
        if !readers.is_empty() {
            break;
        }
        let answer = ask(reader, &json!({"cmd": "rows", "table": path}));
        if answer["ok"] != true {
            continue;
        }
        let theirs = answered(&answer, fields);
        match &ours {
            Ok(ours) if *ours == theirs => readers.push(reader),
            Ok(ours) => {
                let of = |rows: &[Row], others: &[Row]| rows.iter().find(|r| !others.contains(r)).cloned();
                let (more, less) = (of(ours, &theirs), of(&theirs, ours));
                wrong = Some(format!("{} rows, by {reader} {}: we alone {more:?}, it alone {less:?}", ours.len(), theirs.len()));
            }
            Err(e) => wrong = Some(format!("read by {reader}, not by us: {e}")),
        }
    }
    let wrong = wrong.filter(|_| readers.is_empty());
    (readers, wrong)
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers and tables"]
async fn public_tables_are_read_as_another_engine_reads_them() {
    let root = target("delta-tables");
    let mut found = BTreeSet::new();
    tables_under(&root, &mut found);
    assert!(found.len() > 80, "{} tables under {}", found.len(), root.display());
    let (mut alike, mut wrong) = (0, Vec::new());
    for path in &found {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let (readers, error) = judge(path, &name).await;
        alike += usize::from(!readers.is_empty());
        if let Some(error) = error {
            wrong.push(format!("{name}: {error}"));
        }
    }
    println!("{} public tables, {alike} read as at least one engine reads them, {} refused by name", found.len(), REFUSED.len());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), found.len(), wrong.join("\n"));
}

/// One table of `features.py`.
struct Made {
    name: String,
    maker: String,
    features: Vec<String>,
    refused: Option<String>,
    append: Option<Vec<Value>>,
    rows: Option<Value>,
}

fn made() -> (PathBuf, Vec<Made>) {
    let (root, out) = (Path::new(env!("CARGO_MANIFEST_DIR")), target("delta-features"));
    let made = Command::new(root.join(".venv/bin/python")).arg(root.join("tests/interop/delta/features.py")).arg(&out).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let list: Vec<Value> = serde_json::from_slice(&fs::read(out.join("tables.json")).unwrap()).unwrap();
    let text = |v: &Value| v.as_str().map(str::to_owned);
    let tables = list.into_iter().map(|t| Made {
        name: text(&t["name"]).unwrap(),
        maker: text(&t["maker"]).unwrap(),
        features: t["features"].as_array().unwrap().iter().filter_map(text).collect(),
        refused: text(&t["refused"]),
        append: t["append"].as_array().cloned(),
        rows: Some(t["rows"].clone()).filter(|rows| !rows.is_null()),
    });
    (out, tables.collect())
}

/// Adds one row as a commit user of its own.
async fn append(table: &Table, row: &[Value]) -> Result<u64> {
    let user = CommitUser::new("lakeward-others");
    let mut write = table.new_write(&user)?;
    write.write(&batch(&table.schema().fields, &[row.to_vec()])).await?;
    table.new_commit(&user).commit(1, write.prepare_commit().await?).await
}

impl Made {
    /// What the table has that keeps us from appending.
    fn forbids(&self) -> Option<&str> {
        match self.name.as_str() {
            "txn-retention" => Some("delta.setTransactionRetentionDuration"),
            // An engine would store no such column; what it makes of ours is anybody's guess.
            "void-column" => Some("void"),
            // Column mapping, without which there is none, already keeps us from reading.
            "iceberg-compat-v1" | "iceberg-compat-v2" => Some("columnMapping"),
            _ => self.refused.as_deref(),
        }
    }

    async fn check(&self, original: &Path) -> std::result::Result<&'static str, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        copy(original, &path);
        let table = match (open(&path).await, self.forbids()) {
            (Ok(table), _) => table,
            // By its name, or by the property that says so.
            (Err(e), Some(name)) if e.kind() == Kind::Invalid && e.to_string().contains(name) => return Ok("refused"),
            (Err(e), _) => return Err(format!("cannot be opened: {e}")),
        };
        let fields = table.schema().fields.clone();
        let sorted = |rows: &Value| answered(&json!({"rows": rows}), &fields);
        let mut expected = self.rows.as_ref().map(sorted);
        if let Some(expected) = &expected {
            same("we read", &rows(&table).await.map_err(|e| format!("cannot be read: {e}"))?, expected)?;
        }
        if let Some(name) = self.forbids() {
            return match table.new_write(&CommitUser::new("u")) {
                Err(e) if e.kind() == Kind::Invalid && e.to_string().contains(name) => Ok("read only"),
                other => Err(format!("is not refused for {name} when it is written to: {:?}", other.err())),
            };
        }
        let (Some(row), Some(expected)) = (&self.append, &mut expected) else { return Ok("read") };
        let version = append(&table, row).await.map_err(|e| format!("cannot be appended to: {e}"))?;
        if self.features.iter().any(|f| f == "clustering") {
            let commit = fs::read_to_string(path.join(format!("_delta_log/{version:020}.json"))).unwrap();
            let column = if self.name == "clustering" { "s" } else { "id" };
            if !commit.contains(r#"\"minValues\":{"#) || !commit.contains(&format!(r#"\"{column}\":"#)) {
                return Err(format!("has no statistics of the clustering column: {commit}"));
            }
        }
        let one = answered(&json!({"rows": [object(&fields, row)]}), &fields);
        expected.extend(one.clone());
        expected.sort();
        for reader in ["spark", "deltalake", "duckdb", "polars"] {
            let question = |path: &Path| json!({"cmd": "rows", "table": path});
            let answer = ask(reader, &question(&path));
            if answer["ok"] == true {
                same(&format!("{reader} reads after us"), &answered(&answer, &fields), expected)?;
            } else if ask(reader, &question(original))["ok"] == true {
                return Err(format!("{reader} does not read it any more: {}", answer["error"]));
            }
        }
        let back = ask(&self.maker, &json!({"cmd": "append", "table": path, "rows": [row]}));
        if back["ok"] != true {
            return Err(format!("{} cannot append after us: {}", self.maker, back["error"]));
        }
        expected.extend(one);
        expected.sort();
        same("we read after it", &rows(&table).await.map_err(|e| format!("cannot be read after the maker: {e}"))?, expected)?;
        Ok("appended to")
    }
}

fn object(fields: &[Field], row: &[Value]) -> Value {
    fields.iter().zip(row).map(|(f, v)| (f.name.clone(), v.clone())).collect::<serde_json::Map<_, _>>().into()
}

fn same(what: &str, found: &[Row], expected: &[Row]) -> std::result::Result<(), String> {
    count_comparison();
    if found == expected { Ok(()) } else { Err(format!("{what} {found:?}, not {expected:?}")) }
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn tables_with_each_feature_are_read_and_appended_to_or_refused_by_its_name() {
    let (root, tables) = made();
    assert!(tables.len() > 50, "{} tables", tables.len());
    let (mut fates, mut wrong) = (std::collections::BTreeMap::<&str, u32>::new(), Vec::new());
    for table in &tables {
        match table.check(&root.join(&table.name)).await {
            Ok(fate) => *fates.entry(fate).or_default() += 1,
            Err(e) => wrong.push(format!("{}: {e:.1500}", table.name)),
        }
    }
    println!("{} tables with a feature each: {fates:?}, {} comparisons by all tests so far", tables.len(), compared());
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), tables.len(), wrong.join("\n"));
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn a_feature_that_somebody_adds_during_a_run_is_refused_then() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let sql = |statement: &str| get("spark", &json!({"cmd": "sql", "table": path, "sql": statement}));
    sql("CREATE TABLE {table} (id BIGINT, s STRING) USING delta");
    let table = open(&path).await.unwrap();
    let user = CommitUser::new("run");
    let (mut write, mut commit) = (table.new_write(&user).unwrap(), table.new_commit(&user));
    let row = batch(&table.schema().fields, &[vec![json!("1"), json!("a")]]);
    for (identifier, statement, refused) in [
        (1, "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')", None),
        (2, "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", None),
        (3, "ALTER TABLE {table} ADD COLUMNS (x INT)", None),
        (4, "ALTER TABLE {table} ADD CONSTRAINT small CHECK (id < 10)", Some("checkConstraints")),
        (4, "ALTER TABLE {table} DROP CONSTRAINT small", None),
        (5, "ALTER TABLE {table} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 2 days')", Some("Retention")),
        (5, "ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')", None),
        (6, "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')", Some("rowTracking")),
    ] {
        write.write(&row).await.unwrap();
        let messages = write.prepare_commit().await.unwrap();
        sql(statement);
        match (commit.commit(identifier, messages).await, refused) {
            (Ok(_), None) => {}
            (Err(e), Some(name)) => assert!(e.kind() == Kind::Invalid && e.to_string().contains(name), "{statement}: {e}"),
            (found, _) => panic!("{statement}: {found:?}"),
        }
    }
    let answer = get("spark", &json!({"cmd": "count", "table": path}));
    count_comparison();
    assert_eq!(answer["count"], 5);
}

#[tokio::test]
async fn older_files_of_a_column_that_was_widened_are_read_as_the_wider_type() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    let columns = [("i", "INT"), ("n", "SMALLINT"), ("f", "FLOAT"), ("d", "DECIMAL(5, 2)"), ("day", "DATE"), ("x", "TINYINT")];
    let fields = columns.map(|(name, text)| Field::parse(0, name, text).unwrap());
    let table = Table::open_or_create(path.to_str().unwrap(), TableSpec::delta(fields)).await.unwrap();
    append(&table, &["7", "8", "f32:3fc00000", "1.25", "day:19782", "9"].map(|v| json!(v))).await.unwrap();

    let log = |version: u64| path.join(format!("_delta_log/{version:020}.json"));
    let mut metadata = None;
    for line in fs::read_to_string(log(0)).unwrap().lines() {
        let action: Value = serde_json::from_str(line).unwrap();
        metadata = metadata.or(action.get("metaData").cloned());
    }
    let mut metadata = metadata.unwrap();
    let mut schema: Value = serde_json::from_str(metadata["schemaString"].as_str().unwrap()).unwrap();
    for (field, wide) in schema["fields"].as_array_mut().unwrap().iter_mut().zip([
        "long",
        "double",
        "double",
        "decimal(12,4)",
        "timestamp_ntz",
        "decimal(10,1)",
    ]) {
        field["type"] = wide.into();
    }
    metadata["schemaString"] = schema.to_string().into();
    let features = json!(["typeWidening", "timestampNtz"]);
    let protocol = json!({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features});
    fs::write(log(2), format!("{}\n{}\n", json!({ "protocol": protocol }), json!({ "metaData": metadata }))).unwrap();

    let table = open(&path).await.unwrap();
    let us = format!("us:{}", 19782 * 86_400_000_000_i64);
    let old = ["7", "f64:4020000000000000", "f64:3ff8000000000000", "1.2500", &us, "9.0"].map(|v| Some(v.to_owned())).to_vec();
    assert_eq!(rows(&table).await.unwrap(), std::slice::from_ref(&old));
    for (condition, expected) in [
        ("i = 7", 1),
        ("i > 7", 0),
        ("n = 8", 1),
        ("f < 1.5", 0),
        ("d = 1.25", 1),
        ("d > 1.25", 0),
        ("day >= '2024-02-29 00:00:00'", 1),
        ("x = 9", 1),
        ("x < 9", 0),
    ] {
        let found = table.scan().filter(Condition::parse(condition).unwrap()).count().await.unwrap();
        assert_eq!(found, expected, "{condition}");
    }
}
