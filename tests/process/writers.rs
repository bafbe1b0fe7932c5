//! Several processes that commit to one table at once: pipelines, and writers without a chain (the contract of `TableCommit`).
//!
//! Each of those writers is this test binary once more, told by the environment what to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{AsArray as _, Decimal128Array, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use lakeward::format::CommitUser;
use lakeward::schema::Field;
use lakeward::table::{Table, TableSpec};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::kills::number;
use super::{Line, Place, Running, assert_contiguous, assert_lineage, tally, users};

/// Rows of one commit.
const ROWS: i64 = 3;
const WRITERS: i64 = 4;

fn spec() -> TableSpec {
    TableSpec::paimon([Field::parse(0, "id", "BIGINT NOT NULL").unwrap(), Field::parse(1, "amount", "DECIMAL(10, 2)").unwrap()])
}

/// The writer's life, when this process is one.
#[tokio::test]
#[ignore = "the process that the tests below start"]
async fn writer() {
    let (Ok(location), Ok(writer)) = (std::env::var("LAKEWARD_WRITER_TABLE"), std::env::var("LAKEWARD_WRITER")) else { return };
    let (writer, commits) = (writer.parse::<i64>().unwrap(), number("LAKEWARD_WRITER_COMMITS", 1).cast_signed());
    let table = Table::open(&location).await.unwrap();
    let beside = std::env::var_os("LAKEWARD_WRITER_BESIDE").is_some();
    let user = CommitUser::new(format!("writer-{writer}"));
    let (mut write, mut commit) = (table.new_write(&user).unwrap(), table.new_commit(&user));
    for n in 0..commits {
        let ids: Vec<i64> = (0..ROWS).map(|i| 1 + (n * WRITERS + writer) * ROWS + i).collect();
        let amounts = Decimal128Array::from_iter_values(ids.iter().map(|id| i128::from(*id))).with_precision_and_scale(10, 2).unwrap();
        let batch = RecordBatch::try_new(table.schema().to_arrow(), vec![Arc::new(Int64Array::from(ids)), Arc::new(amounts)]).unwrap();
        write.write(&batch).await.unwrap();
        match commit.commit(n + 1, write.prepare_commit().await.unwrap()).await {
            Ok(snapshot) => eprintln!("acknowledged {writer} {} {snapshot}", n + 1),
            Err(e) if beside => return stopped(&location, writer, &e),
            Err(e) => panic!("{e}"),
        }
    }
    if beside {
        // Whose last snapshot is replaced has no next commit that would see it. So it looks once more when the other one has stopped.
        std::fs::write(format!("{location}.done-{writer}"), "").unwrap();
        while !Path::new(&format!("{location}.quiet")).exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        if let Err(e) = commit.filter_and_commit(Vec::new()).await {
            stopped(&location, writer, &e);
        }
    }
}

fn stopped(location: &str, writer: i64, e: &lakeward::Error) {
    eprintln!("stopped {writer} {:?}: {e}", e.kind());
    std::fs::write(format!("{location}.done-{writer}"), "").unwrap();
}

async fn check(commits: u64) {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("table");
    Table::open_or_create(location.to_str().unwrap(), spec()).await.unwrap();
    let begun = Instant::now();
    let children: Vec<Running> = (0..WRITERS).map(|w| start(&location, w, commits, false)).collect();
    // (writer, identifier) -> snapshot
    let mut acknowledged: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for child in children {
        let ended = child.end().with(0);
        for line in ended.lines.iter().filter_map(acknowledgement) {
            let [writer, identifier, snapshot] = line;
            assert_eq!(acknowledged.insert((writer, identifier), snapshot), None);
        }
    }
    let all = WRITERS.cast_unsigned() * commits;
    println!("{} acknowledged of {WRITERS} x {commits}, {:.1} s", acknowledged.len(), begun.elapsed().as_secs_f64());
    assert_eq!(acknowledged.len() as u64, all);

    let snapshots = crate::walk::snapshots(&location);
    assert_contiguous(&snapshots);
    assert_eq!(snapshots.len() as u64, all);
    for ((writer, identifier), snapshot) in &acknowledged {
        let found = &snapshots[usize::try_from(*snapshot).unwrap() - 1];
        assert_eq!(found["commitUser"], format!("writer-{writer}"), "snapshot {snapshot}");
        assert_eq!(found["commitIdentifier"], *identifier, "snapshot {snapshot}");
        assert_eq!(found["deltaRecordCount"], ROWS);
    }
    for (before, s) in std::iter::once(0).chain(snapshots.iter().map(|s| s["totalRecordCount"].as_i64().unwrap())).zip(&snapshots) {
        assert_eq!(s["totalRecordCount"], before + ROWS, "counts add up: snapshot {}", s["id"]);
    }

    let n = i128::from(all) * i128::from(ROWS);
    let sum = n * (n + 1) / 2;
    let amount = format!("{}.{:02}", sum / 100, sum % 100);
    let wanted = serde_json::json!({"rows": n as i64, "distinct": n as i64, "min": 1, "max": n as i64, "sum": sum as i64, "amount": amount, "nulls": 0});
    assert_eq!(tally::read(&[location]), [wanted]);
}

fn start(location: &Path, writer: i64, commits: u64, beside: bool) -> Running {
    let binary: PathBuf = std::env::current_exe().unwrap();
    let mut command = Command::new(binary);
    command.args(["--exact", "process::writers::writer", "--ignored", "--nocapture"]);
    command.env("LAKEWARD_WRITER_TABLE", location).env("LAKEWARD_WRITER", writer.to_string());
    command.env("LAKEWARD_WRITER_COMMITS", commits.to_string());
    if beside {
        command.env("LAKEWARD_WRITER_BESIDE", "1");
    }
    Running::start_as(&mut command)
}

fn acknowledgement(line: &Line) -> Option<[i64; 3]> {
    let numbers = line.text.strip_prefix("acknowledged ")?;
    let numbers: Vec<i64> = numbers.split(' ').map(|n| n.parse().unwrap()).collect();
    numbers.try_into().ok()
}

/// Beside a writer that renames over what is there: nothing of ours is lost unless its writer was told, by the name of who did it.
async fn check_beside(commits: u64) {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("table");
    let table = Table::open_or_create(location.to_str().unwrap(), spec()).await.unwrap();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python");
    assert!(python.exists(), "there is no {}: run tests/setup.sh", python.display());
    let mut other = Command::new(python);
    other
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/beside.py"))
        .args([location.to_str().unwrap(), &WRITERS.to_string()]);
    let begun = Instant::now();
    let other = Running::start_as(&mut other);
    let children: Vec<Running> = (0..WRITERS).map(|w| start(&location, w, commits, true)).collect();
    let (mut acknowledged, mut told) = (Vec::new(), BTreeMap::new());
    for (child, writer) in children.into_iter().zip(0..) {
        let ended = child.end().with(0);
        acknowledged.extend(ended.lines.iter().filter_map(acknowledgement));
        if let Some(why) = ended.lines.iter().find_map(|l| l.text.strip_prefix(&format!("stopped {writer} "))) {
            assert!(why.starts_with("Data: ") && why.contains("renaming-pypaimon"), "{why}");
            told.insert(writer, why.to_owned());
        }
    }
    let theirs = other.end().with(0);

    let newest = table.paimon().unwrap().snapshots().await.unwrap().pop().unwrap();
    let mut live: Vec<i64> = Vec::new();
    for file in table.paimon().unwrap().files_at(&newest).await.unwrap() {
        let opened = std::fs::File::open(location.join(&file.path)).unwrap();
        for batch in ParquetRecordBatchReaderBuilder::try_new(opened).unwrap().build().unwrap() {
            live.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().values());
        }
    }
    live.sort_unstable();
    assert!(live.windows(2).all(|w| w[0] != w[1]), "nothing is there twice");
    let is_there = |[writer, identifier, _]: &[i64; 3]| {
        let first = 1 + ((identifier - 1) * WRITERS + writer) * ROWS;
        (first..first + ROWS).filter(|id| live.binary_search(id).is_ok()).count()
    };
    let (mut there, mut lost) = (0, 0);
    for a in &acknowledged {
        let rows = is_there(a);
        if rows == usize::try_from(ROWS).unwrap() {
            there += 1;
            continue;
        }
        assert!(
            rows == 0 && told.contains_key(&a[0]),
            "writer {} was acknowledged {} in snapshot {}, and {rows} rows of it are there",
            a[0],
            a[1],
            a[2]
        );
        let last = acknowledged.iter().filter(|b| b[0] == a[0]).map(|b| b[1]).max();
        assert_eq!(last, Some(a[1]), "it stopped at once");
        lost += 1;
    }
    println!(
        "{} acknowledged of {WRITERS} x {commits}: {there} there, {lost} replaced and told by {} writers that stopped; {} rows of pypaimon there, which says {}; {:.1} s",
        acknowledged.len(),
        told.len(),
        live.iter().filter(|id| **id < 0).count(),
        theirs.out.trim().replacen(' ', " committed and ", 1) + " given up",
        begun.elapsed().as_secs_f64()
    );
    told.values().for_each(|why| println!("    {why}"));
    assert!(told.len() == WRITERS as usize || acknowledged.len() as u64 >= commits, "who was not told goes on");
}

#[tokio::test]
#[ignore = "wants Python (tests/setup.sh)"]
async fn beside_a_writer_that_renames_nothing_of_ours_is_lost_in_silence() {
    check_beside(40).await;
}

#[tokio::test]
#[ignore = "the long form: tests/long.sh writers"]
async fn long_beside_a_writer_that_renames_nothing_of_ours_is_lost_in_silence() {
    if std::env::var_os("LAKEWARD_LONG").is_some() {
        check_beside(number("LAKEWARD_COMMITS", 250)).await;
    }
}

#[tokio::test]
#[ignore = "wants Python (tests/setup.sh)"]
async fn what_four_processes_were_acknowledged_is_there() {
    check(25).await;
}

#[tokio::test]
#[ignore = "the long form: tests/long.sh writers"]
async fn long_what_four_processes_were_acknowledged_is_there() {
    if std::env::var_os("LAKEWARD_LONG").is_some() {
        check(number("LAKEWARD_COMMITS", 250)).await;
    }
}

#[test]
fn four_pipelines_on_one_table_lose_and_double_nothing() {
    const ROWS_EACH: u64 = 300;
    let dir = tempfile::tempdir().unwrap();
    let names = ["north", "east", "south", "west"];
    let source = format!("generate: {{rows: {ROWS_EACH}}}");
    let places = names.map(|name| Place::at(dir.path(), name, &source, "rows: 20"));
    let children = places.each_ref().map(|p| p.start(&[])); // all of them find no table and create it
    let ended = children.map(|c| c.end().with(0));
    let acknowledged: usize = ended.iter().map(|e| e.lines.iter().filter(|l| l.committed()).count()).sum();

    let snapshots = places[0].snapshots();
    assert_contiguous(&snapshots);
    assert_eq!(snapshots.len(), acknowledged);
    assert!(acknowledged >= names.len() * 15, "{acknowledged}");
    assert_eq!(users(&snapshots).len(), names.len());
    for name in names {
        assert_lineage(snapshots.iter().filter(|s| s["properties"]["lakeward.pipeline"] == name), ROWS_EACH);
    }
    assert_eq!(snapshots.last().unwrap()["totalRecordCount"], ROWS_EACH * 4);
    let wanted: Vec<i64> = (1..=ROWS_EACH.cast_signed()).flat_map(|id| [id; 4]).collect();
    assert_eq!(places[0].ids(), wanted);
    let of_one: Vec<&str> = snapshots.iter().map(|s| s["commitUser"].as_str().unwrap()).collect();
    assert!(of_one.windows(2).filter(|w| w[0] != w[1]).count() > 10, "they did not work at the same time");
}
