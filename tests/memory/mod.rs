//! What the command holds in memory, and how many files it makes, when there is much of something: thousands of partitions, hundreds of
//! columns, strings of a megabyte. With what it read back by pypaimon.
//!
//! The short forms make the budget small instead of the input large. The long ones are in `tests/long.sh` (`fanout`, `wide`).

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::draw::Draw;
use crate::process::{binary, tally};

fn long() -> bool {
    std::env::var_os("LAKEWARD_LONG").is_some()
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// What a run took.
struct Cost {
    peak_mib: u64,
    took: Duration,
    /// Data files, in the table's whole history.
    files: usize,
}

/// Runs `pipeline.yaml` in `dir` to its end.
fn ingest(dir: &Path) -> Cost {
    let started = Instant::now();
    let log = dir.join("log");
    let err = || File::create(&log).unwrap();
    let mut command = Command::new(binary());
    command.arg("ingest").arg(dir.join("pipeline.yaml")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(err());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let ended = loop {
        // The high-water mark only rises, and is gone with the process.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mark = text.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        peak_kib = peak_kib.max(mark.unwrap_or(0));
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(ended.success(), "{}", std::fs::read_to_string(&log).unwrap());
    Cost { peak_mib: peak_kib.div_ceil(1024), took: started.elapsed(), files: data_files(&dir.join("t")) }
}

fn data_files(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    entries.map(|path| if path.is_dir() { data_files(&path) } else { usize::from(path.extension().is_some_and(|e| e == "parquet")) }).sum()
}

fn checkpoints(dir: &Path) -> usize {
    let snapshots = std::fs::read_dir(dir.join("t/snapshot")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    snapshots.filter(|name| name.starts_with("snapshot-")).count()
}

/// What pypaimon must find: ids from 0, an amount of `id % 1000` and `id % 100` hundredths.
fn expected(rows: u64) -> Value {
    let cents: u64 = (0..rows).map(|id| id % 1000 * 100 + id % 100).sum();
    let sum = rows * (rows - 1) / 2;
    json!({"rows": rows, "distinct": rows, "min": 0, "max": rows - 1, "sum": sum, "amount": format!("{}.{:02}", cents / 100, cents % 100), "nulls": 0})
}

/// About 200 bytes and ten columns a row, of a partition that a die picks.
fn shuffled(path: &Path, rows: u64, partitions: u64) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    let mut draw = Draw(7);
    for i in 0..rows {
        let (customer, month, day) = (i * 7919 % 100_000, i % 12 + 1, i % 28 + 1);
        writeln!(
            out,
            "{{\"id\":{i},\"customer\":{customer},\"status\":\"{}\",\"amount\":{}.{:02},\"score\":{}.{:03},\"paid\":{},\
             \"created_at\":\"2026-{month:02}-{day:02}T{:02}:{:02}:{:02}\",\"day\":\"2026-{month:02}-{day:02}\",\
             \"note\":\"order number {i} of customer {customer}\",\"shop\":\"shop-{:04}\"}}",
            ["new", "paid", "shipped"][(i % 3) as usize],
            i % 1000,
            i % 100,
            i * 31 % 97,
            i * 17 % 1000,
            i % 2 == 0,
            i % 24,
            i % 60,
            i % 59,
            draw.below(partitions),
        )
        .unwrap();
    }
    out.flush().unwrap();
}

const SHOPS: &str = "columns: {id: BIGINT NOT NULL, customer: INT, status: STRING, amount: 'DECIMAL(10, 2)', score: DOUBLE, paid: BOOLEAN, \
                     created_at: TIMESTAMP(3), day: DATE, note: STRING, shop: STRING}, partition_by: [shop]";

fn pipeline(dir: &Path, sink: &str, every: u64, memory: &str) {
    let text = format!(
        "version: 1\npipeline: memory\nsource: {{files: {{paths: [rows.ndjson]}}}}\nsinks: [{{location: t, {sink}}}]\n\
         checkpoint: {{location: c, rows: {every}}}\nmemory: {memory}\n"
    );
    std::fs::write(dir.join("pipeline.yaml"), text).unwrap();
}

#[test]
#[ignore = "wants Python (tests/setup.sh); a minute, the long form five"]
fn fanout_over_thousands_of_partitions_makes_one_file_of_each_a_checkpoint() {
    let (rows, partitions) = if long() { (1_000_000, 5_000) } else { (100_000, 2_000) };
    let (rows, partitions) = (setting("LAKEWARD_ROWS", rows), setting("LAKEWARD_PARTITIONS", partitions));
    let limit = 512;
    let dir = tempfile::tempdir().unwrap();
    shuffled(&dir.path().join("rows.ndjson"), rows, partitions);
    for every in [rows * 2, rows.div_ceil(4)] {
        pipeline(dir.path(), SHOPS, every, "512MiB");
        let cost = ingest(dir.path());
        let snapshots = checkpoints(dir.path());
        let [found] = &tally::read(&[dir.path().join("t")])[..] else { panic!("one table, one answer") };
        println!(
            "fanout: {rows} rows into {partitions} partitions, {snapshots} checkpoints: peak {} MiB, {} files, {:.1} s; read back {found}",
            cost.peak_mib,
            cost.files,
            cost.took.as_secs_f64()
        );
        assert_eq!(found, &expected(rows));
        assert!(cost.peak_mib <= limit, "{} MiB", cost.peak_mib);
        assert!(cost.files as u64 <= 2 * partitions * snapshots as u64, "{} files", cost.files);
        for made in ["t", "c"] {
            std::fs::remove_dir_all(dir.path().join(made)).unwrap();
        }
    }
}

const WIDE_COLUMNS: usize = 300;

/// Is a column one of the four with long strings?
fn is_long(column: usize) -> bool {
    column % 75 == 74
}

fn wide_columns() -> String {
    let kinds = ["BIGINT", "STRING", "DOUBLE", "BOOLEAN", "DATE", "'DECIMAL(12, 2)'"];
    let kind = |c| if is_long(c) { "STRING" } else { kinds[c % kinds.len()] };
    let more: Vec<String> = (2..WIDE_COLUMNS).map(|c| format!("c{c}: {}", kind(c))).collect();
    format!("columns: {{id: BIGINT NOT NULL, amount: 'DECIMAL(10, 2)', {}}}", more.join(", "))
}

/// Rows of [`WIDE_COLUMNS`] values, four of them strings of a megabyte that do not compress to nothing.
fn wide(path: &Path, rows: u64) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    let mut draw = Draw(11);
    let letters: String = (0..2 << 20).map(|_| char::from(b'a' + draw.below(26) as u8)).collect();
    for i in 0..rows {
        write!(out, "{{\"id\":{i},\"amount\":{}.{:02}", i % 1000, i % 100).unwrap();
        for c in 2..WIDE_COLUMNS {
            write!(out, ",\"c{c}\":").unwrap();
            match c % 6 {
                _ if is_long(c) => {
                    let at = draw.below(1 << 20) as usize;
                    write!(out, "\"{}\"", &letters[at..at + (1 << 20)])
                }
                0 => write!(out, "{}", i * c as u64),
                1 => write!(out, "\"text {} of column {c}\"", i % 17),
                2 => write!(out, "{}.5", i * c as u64),
                3 => write!(out, "{}", i % 3 == 0),
                4 => write!(out, "\"2026-{:02}-{:02}\"", i % 12 + 1, i % 28 + 1),
                _ => write!(out, "{}.{:02}", i * c as u64, i % 100),
            }
            .unwrap();
        }
        writeln!(out, "}}").unwrap();
    }
    out.flush().unwrap();
}

#[test]
#[ignore = "wants Python (tests/setup.sh); a minute, the long form five"]
fn wide_rows_with_strings_of_a_megabyte_stay_within_the_memory() {
    let (rows, memory, limit) = if long() { (500, "512MiB", 512) } else { (100, "192MiB", 320) };
    let rows = setting("LAKEWARD_ROWS", rows);
    let dir = tempfile::tempdir().unwrap();
    let input: PathBuf = dir.path().join("rows.ndjson");
    wide(&input, rows);
    pipeline(dir.path(), &wide_columns(), rows * 2, memory);
    let cost = ingest(dir.path());
    let read = std::fs::metadata(&input).unwrap().len() >> 20;
    let [found] = &tally::read(&[dir.path().join("t")])[..] else { panic!("one table, one answer") };
    println!(
        "wide: {rows} rows of {WIDE_COLUMNS} columns, {read} MiB of JSON, memory: {memory}: peak {} MiB, {} files, {:.1} s; read back {found}",
        cost.peak_mib,
        cost.files,
        cost.took.as_secs_f64()
    );
    assert_eq!(found, &expected(rows));
    assert!(cost.peak_mib <= limit, "{} MiB", cost.peak_mib);
}
