//! Watched directories and Parquet files, as whole processes.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use rustix::process::Signal;

use super::draw::Draw;
use super::kills::number;
use super::{PATIENCE, Place};

fn line(id: u64) -> String {
    format!("{{\"id\": {id}, \"customer\": \"c{}\", \"amount\": \"{}.50\"}}\n", id % 97, id % 1000)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}

/// Writes `rows` lines in all: files that are renamed in, logs that grow in pieces that do not end at lines, files that are written in place.
fn feed(dir: &Path, rows: u64, files: u64, seed: u64) {
    let mut draw = Draw(seed);
    let mut next = 1;
    for n in 0.. {
        let some = if next > rows { 0 } else { (1 + draw.below(2 * rows / files)).min(rows + 1 - next) };
        if some == 0 {
            break;
        }
        let text: String = (next..next + some).map(line).collect();
        next += some;
        // Names in no order.
        let name = format!("{:03}-{n}", draw.below(1000));
        match draw.below(4) {
            0 => {
                let log = dir.join(format!("log-{}.ndjson", draw.below(3)));
                let (a, b) = text.as_bytes().split_at(draw.below(text.len() as u64) as usize);
                for piece in [a, b] {
                    fs::OpenOptions::new().create(true).append(true).open(&log).unwrap().write_all(piece).unwrap();
                    std::thread::sleep(Duration::from_millis(draw.below(20)));
                }
            }
            1 => {
                let bytes = gzip(text.as_bytes());
                let (a, b) = bytes.split_at(draw.below(bytes.len() as u64) as usize);
                let mut file = fs::File::create(dir.join(format!("{name}.ndjson.gz"))).unwrap();
                file.write_all(a).unwrap();
                std::thread::sleep(Duration::from_millis(draw.below(20)));
                file.write_all(b).unwrap();
            }
            _ => {
                let part = dir.join(format!("{name}.ndjson.tmp"));
                fs::write(&part, &text).unwrap();
                let below = dir.join(format!("{}", draw.below(3)));
                fs::create_dir_all(&below).unwrap();
                fs::rename(part, below.join(format!("{name}.ndjson"))).unwrap();
            }
        }
        std::thread::sleep(Duration::from_millis(draw.below(15)));
    }
}

fn total(place: &Place) -> u64 {
    place.snapshots().last().map_or(0, |s| s["totalRecordCount"].as_u64().unwrap())
}

/// Feeds and kills until everything was fed, then lets one go on until every row is there.
fn series(rows: u64, files: u64, seed: u64) {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in");
    fs::create_dir(&input).unwrap();
    let source = "files: {paths: [\"in/**/*.ndjson*\"], watch: true, watch_every: 30ms}";
    let place = Place::at(dir.path(), "watched", source, "every: 60ms");
    let text = fs::read_to_string(place.file()).unwrap();
    fs::write(place.file(), text + "decode: {format: json}\n").unwrap();
    let fed = Arc::new(AtomicBool::new(false));
    let feeder = {
        let (fed, input) = (fed.clone(), input.clone());
        std::thread::spawn(move || {
            feed(&input, rows, files, seed);
            fed.store(true, Ordering::SeqCst);
        })
    };
    let mut draw = Draw(seed + 1);
    let (mut kills, mut late) = (0, 0);
    while !fed.load(Ordering::SeqCst) || late < 3 {
        late += u64::from(fed.load(Ordering::SeqCst));
        let mut child = place.start(&[]);
        let until = Instant::now() + Duration::from_millis(20 + draw.below(900));
        while Instant::now() < until && !child.over() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let dead = child.kill();
        assert_eq!(dead.code, None, "seed {seed}: {}", dead.err());
        kills += 1;
    }
    feeder.join().unwrap();
    let mut last = place.start(&[]);
    let deadline = Instant::now() + PATIENCE;
    while total(&place) < rows && !last.over() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1)); // it may have had nothing to do, and not have come to listen yet
    last.until(1, |_| true);
    last.send(Signal::INT);
    let ended = last.end().with(0);
    assert_eq!(ended.report()["closed"], false, "a stop is no end of input");
    let ids = place.ids();
    assert_eq!(ids, (1..=rows.cast_signed()).collect::<Vec<_>>(), "seed {seed}, after {kills} kills");
    let audit = crate::cli::table_cli(&["audit", &place.location("table")]).output().unwrap();
    assert!(audit.status.success(), "{}", String::from_utf8_lossy(&audit.stdout));
    let checkpoints = place.checkpoints();
    let newest = checkpoints.last().unwrap();
    let (named, away) = (newest["offsets"].as_object().unwrap().len(), newest["offsets"]["//finished"]["offset"].as_u64().unwrap_or(0));
    let size = newest.to_string().len();
    println!("seed {seed}: {kills} kills, {rows} rows once each; {named} files named, {away} put away, a checkpoint of {size} bytes");
    // At most 256, and what was read to its end since the last commit: a great deal on a machine that is slow.
    assert!(away > 0 && named < 1000, "{named} {away}");
}

#[test]
fn killed_again_and_again_while_files_come_and_grow_every_row_is_there_once() {
    series(6000, 600, 1);
}

#[test]
#[ignore = "the long form: minutes"]
fn long_killed_again_and_again_while_files_come_and_grow_every_row_is_there_once() {
    if std::env::var_os("LAKEWARD_LONG").is_none() {
        return; // tests/long.sh runs it
    }
    let seed = number("LAKEWARD_SEED", 100);
    for seed in seed..seed + number("LAKEWARD_RUNS", 10) {
        series(number("LAKEWARD_ROWS", 20_000), 2000, seed);
    }
}

/// Rows `from..to` in a Parquet file; every hundredth has an id that fits no column.
fn parquet(path: &Path, rows: std::ops::Range<i64>, text: usize, group: usize) {
    let at_once = 20_000;
    let properties = parquet::file::properties::WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    let mut writer: Option<ArrowWriter<fs::File>> = None;
    for from in rows.clone().step_by(at_once) {
        let some = from..(from + at_once as i64).min(rows.end);
        let ids: ArrayRef = Arc::new(Int64Array::from_iter(some.clone().map(|n| (n % 100 != 0).then_some(n))));
        let mut draw = Draw(from.cast_unsigned());
        let texts = some.map(|_| (0..text / 16).map(|_| format!("{:016x}", draw.next())).collect::<String>());
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        let batch = RecordBatch::try_from_iter([("id", ids), ("customer", texts)]).unwrap();
        let writer = writer.get_or_insert_with(|| {
            ArrowWriter::try_new(fs::File::create(path).unwrap(), batch.schema(), Some(properties.clone())).unwrap()
        });
        writer.write(&batch).unwrap();
    }
    writer.unwrap().close().unwrap();
}

fn parquet_place(dir: &Path) -> Place {
    fs::create_dir(dir.join("in")).unwrap();
    let place = Place::at(dir, "rows", "files: {paths: [\"in/*.parquet\"]}", "rows: 1500");
    let text = fs::read_to_string(place.file()).unwrap();
    fs::write(place.file(), text + "dead_letter: {location: dead}\n").unwrap();
    place
}

#[test]
fn a_parquet_pipeline_is_exact_under_failover_and_its_bad_rows_are_dead_letters() {
    let dir = tempfile::tempdir().unwrap();
    let place = parquet_place(dir.path());
    parquet(&dir.path().join("in/a.parquet"), 1..4000, 16, 1000);
    parquet(&dir.path().join("in/b.parquet"), 4000..8000, 16, 100_000);
    let file = place.file().to_str().unwrap();
    let ran = crate::cli::table_cli(&["failover", file, "--kills", "3", "--freezes", "0"]).output().unwrap();
    assert!(ran.status.success(), "{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    place.run(&[]).with(0);
    assert_eq!(place.ids(), (1..8000).filter(|n| n % 100 != 0).collect::<Vec<_>>());
    let dead = place.rows(&["dead-letters", file]);
    assert_eq!(dead.len(), 79);
    let first = dead.iter().min_by_key(|d| (d["topic"].as_str().unwrap().to_owned(), d["offset"].as_u64())).unwrap();
    assert_eq!((&first["stage"], &first["offset"]), (&"cast".into(), &99.into()), "{first}");
    assert!(first["topic"].as_str().unwrap().ends_with("in/a.parquet") && first["error"].as_str().unwrap().contains("NOT NULL"), "{first}");
    assert!(first.to_string().contains("\\\"id\\\":null"), "the row as JSON: {first}");
}

#[test]
#[ignore = "writes a file of about 1 GB"]
fn a_parquet_file_larger_than_the_memory_is_read_within_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut place = parquet_place(dir.path());
    let rows = i64::try_from(number("LAKEWARD_ROWS", 1_000_000)).unwrap();
    let path = dir.path().join("in/a.parquet");
    parquet(&path, 1..rows, 1024, 10_000_000);
    for set in ["memory=128MiB", "checkpoint.rows=200000", "durability=none", "sinks.0.options={file.compression: none}"] {
        place.set(set);
    }
    let mut child = place.start(&[]);
    let mut peak = 0;
    while !child.over() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let now = status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        peak = peak.max(now.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = child.end().with(0);
    println!(
        "{} MB of Parquet in one row group, {} rows: peak {} MB",
        fs::metadata(&path).unwrap().len() >> 20,
        ended.report()["rows"],
        peak >> 10
    );
    assert!(peak < 512 << 10, "{peak} kB");
}
