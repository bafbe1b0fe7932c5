//! Watched files: what appears, grows, is replaced or goes while the source runs.

use super::super::watch::{OnChange, Watch};
use super::columnar::file as parquet_file;
use super::*;

const EVERY: Duration = Duration::from_millis(2);

fn dir(paths: &[&str], framing: Framing, settled_after: Duration) -> Dir {
    let mut dir = Dir::new(paths, framing);
    dir.1.watch = Some(Watch { every: EVERY, settled_after, ..Watch::default() });
    dir
}

fn lazy(paths: &[&str]) -> Dir {
    dir(paths, Framing::Lines, Duration::from_secs(1000))
}

fn begin(dir: &Dir, from: &Offsets) -> FilesSource {
    let mut source = dir.source();
    block(source.seek(from, None)).unwrap();
    source
}

/// Everything that there is to read now.
fn now(source: &mut FilesSource) -> Result<Vec<Seen>> {
    let (mut seen, env) = (Vec::new(), source.env.clone());
    source.watching.as_mut().unwrap().next_look = Duration::ZERO;
    loop {
        let deadline = env.deadline(EVERY * 5);
        match block(source.poll(deadline))? {
            Polled::Records(r) => look_at(&r, &mut seen),
            Polled::Batch(rows) => {
                seen.extend((0..rows.batch.num_rows()).map(|i| (rows.origin.split.clone(), rows.first + i as u64, 0, String::new(), None)));
            }
            Polled::Idle if source.queue.is_empty() && source.current.is_none() => return Ok(seen),
            Polled::Idle => {}
            other => panic!("{other:?}"),
        }
    }
}

fn found(source: &mut FilesSource) -> Vec<String> {
    texts(&now(source).unwrap())
}

fn error(source: &mut FilesSource) -> Error {
    let e = now(source).unwrap_err();
    assert_eq!(e.kind(), Kind::Data, "{e}");
    assert!(e.place().is_some() && e.next_step().is_some(), "{e}");
    e
}

#[test]
fn new_files_are_read_whatever_their_names_and_nothing_twice_by_a_source_that_goes_on() {
    let dir = lazy(&["in/**/*.ndjson"]);
    let mut source = begin(&dir, &Offsets::default());
    assert!(found(&mut source).is_empty());
    dir.put("in/m.ndjson", "1\n2\n");
    assert_eq!(found(&mut source), ["1", "2"]);
    dir.put("in/z.ndjson", "3\n").put("in/a.ndjson", "4\n").put("in/new/b.ndjson", "5\n");
    assert_eq!(found(&mut source), ["4", "5", "3"]);
    let at = source.position();
    dir.put("in/0.ndjson", "6\n");
    assert_eq!(found(&mut source), ["6"]);
    let mut next = begin(&dir, &at);
    assert_eq!(found(&mut next), ["6"], "from the checkpoint before it");
    assert!(found(&mut next).is_empty());
}

#[test]
fn a_file_that_grows_is_read_on_and_a_line_that_is_being_written_is_no_record() {
    let dir = lazy(&["*.ndjson"]);
    let mut source = begin(&dir, &Offsets::default());
    dir.put("a.ndjson", "1\n2");
    assert_eq!(found(&mut source), ["1"]);
    assert_eq!(source.position().offset("a.ndjson"), 2);
    let at = source.position();
    dir.add("a.ndjson", "2\n3\n");
    assert_eq!(found(&mut source), ["22", "3"]);
    let mut next = begin(&dir, &at);
    assert_eq!(found(&mut next), ["22", "3"]);
    dir.add("a.ndjson", "4");
    assert!(found(&mut source).is_empty());
    dir.add("a.ndjson", "\n");
    let seen = now(&mut source).unwrap();
    assert_eq!((seen[0].2, &*seen[0].3), (4, "4"), "with its line number");
}

#[test]
fn a_csv_row_whose_quote_is_open_waits_for_its_end() {
    let dir = dir(&["*.csv"], CSV, Duration::from_secs(1000));
    let mut source = begin(&dir, &Offsets::default());
    dir.put("a.csv", "id,x\n");
    assert!(found(&mut source).is_empty());
    let at = source.position();
    dir.add("a.csv", "1,\"a\nb");
    assert!(found(&mut source).is_empty());
    dir.add("a.csv", "\"\n2,c\n");
    assert_eq!(found(&mut source), ["1,\"a\nb\"", "2,c"]);
    assert_eq!(found(&mut begin(&dir, &at)), ["1,\"a\nb\"", "2,c"]);
}

#[test]
fn the_last_line_of_a_file_that_has_settled_is_a_record_and_more_behind_it_is_data() {
    let dir = dir(&["*.ndjson"], Framing::Lines, Duration::from_millis(30));
    dir.put("a.ndjson", "1\n2");
    let mut source = begin(&dir, &Offsets::default());
    let mut seen = found(&mut source);
    for _ in 0..50 {
        seen.extend(found(&mut source));
    }
    assert_eq!(seen, ["1", "2"]);
    dir.add("a.ndjson", "\n3\n");
    assert_eq!(found(&mut source), ["3"], "a line end was all that it lacked");
    dir.add("a.ndjson", "4");
    let mut seen = Vec::new();
    for _ in 0..50 {
        seen.extend(found(&mut source));
    }
    assert_eq!(seen, ["4"]);
    dir.add("a.ndjson", "4\n");
    assert!(error(&mut source).to_string().contains("grew in the middle of a line"));
}

#[test]
fn a_file_that_was_replaced_or_cut_after_it_was_read_is_data_or_ignored_as_asked() {
    for (content, words) in [("9\n8\n7\n", "changed"), ("9\n2\n", "changed"), ("1\n", "shrank"), ("", "shrank")] {
        for on_change in [OnChange::Fail, OnChange::Ignore] {
            for restarted in [false, true] {
                let mut dir = lazy(&["*.ndjson"]);
                dir.1.watch.as_mut().unwrap().on_change = on_change;
                let mut source = begin(&dir, &Offsets::default());
                dir.put("a.ndjson", "1\n2\n");
                assert_eq!(found(&mut source), ["1", "2"]);
                let at = source.position();
                dir.put("new", content);
                fs::rename(dir.0.path().join("new"), dir.0.path().join("a.ndjson")).unwrap();
                dir.put("b.ndjson", "3\n");
                if on_change == OnChange::Fail {
                    let e = if restarted { block(dir.source().seek(&at, None)).unwrap_err() } else { error(&mut source) };
                    assert!(e.kind() == Kind::Data && e.to_string().contains("a.ndjson") && e.to_string().contains(words), "{e}");
                } else {
                    let mut source = if restarted { begin(&dir, &at) } else { source };
                    assert_eq!(found(&mut source), ["3"], "{content:?}");
                    assert!(found(&mut source).is_empty());
                }
            }
        }
    }
}

#[test]
fn a_file_that_was_only_touched_or_written_again_as_it_was_is_no_change() {
    let dir = lazy(&["*.ndjson"]);
    let mut source = begin(&dir, &Offsets::default());
    dir.put("a.ndjson", "1\n2\n");
    assert_eq!(found(&mut source), ["1", "2"]);
    dir.put("a.ndjson", "1\n2\n");
    assert!(found(&mut source).is_empty());
    dir.put("a.ndjson", "1\n2\n3\n");
    assert_eq!(found(&mut source), ["3"]);
}

#[test]
fn a_file_may_go_when_it_is_read_to_its_end_and_not_before() {
    let dir = lazy(&["*.ndjson"]);
    let mut source = begin(&dir, &Offsets::default());
    dir.put("a.ndjson", "1\n").put("b.ndjson", "2\nhalf");
    assert_eq!(found(&mut source), ["1", "2"]);
    let at = source.position();
    fs::remove_file(dir.0.path().join("a.ndjson")).unwrap();
    assert!(found(&mut source).is_empty());
    dir.put("a.ndjson", "1\n");
    assert!(found(&mut source).is_empty(), "it came back");
    fs::remove_file(dir.0.path().join("b.ndjson")).unwrap();
    let e = error(&mut source);
    assert!(e.to_string().contains("b.ndjson") && e.to_string().contains("missing"), "{e}");
    assert_eq!(block(dir.source().seek(&at, None)).unwrap_err().kind(), Kind::Data);
}

#[test]
fn compressed_and_parquet_files_are_read_when_they_are_whole() {
    let text = lines(0..3000);
    for (name, whole, framing) in [
        ("a.gz", gzip(text.as_bytes()), Framing::Lines),
        ("a.zst", zst(text.as_bytes()), Framing::Lines),
        ("a.parquet", parquet_file(0..3000, 500), Framing::Parquet),
    ] {
        let dir = dir(&["a.*"], framing, Duration::from_millis(20));
        let mut source = begin(&dir, &Offsets::default());
        for part in [1, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
            dir.put(name, &whole[..part]);
            for _ in 0..3 {
                assert_eq!(now(&mut source).unwrap(), [], "{name}, {part} bytes of {}", whole.len());
            }
            assert_eq!(source.position(), Offsets::default());
        }
        dir.put(name, &whole);
        assert_eq!(now(&mut source).unwrap().len(), 3000, "{name}");
        assert_eq!(now(&mut source).unwrap(), []);
        let at = source.position();
        let mut next = begin(&dir, &at);
        assert_eq!(now(&mut next).unwrap(), [], "{name}");
        if framing == Framing::Parquet {
            dir.put(name, parquet_file(0..3001, 500));
            assert!(error(&mut source).to_string().contains("changed"));
            continue;
        }
        let more = if name == "a.gz" { gzip(b"x\n") } else { zst(b"x\n") };
        dir.add(name, &more[..more.len() / 2]);
        assert_eq!(now(&mut source).unwrap(), [], "{name}");
        dir.add(name, &more[more.len() / 2..]);
        assert_eq!(found(&mut source), ["x"], "{name}: another part");
        assert_eq!(found(&mut next), ["x"]);
    }
}

#[test]
fn names_of_files_that_are_being_written_are_passed_over_until_they_are_renamed() {
    let dir = lazy(&["**/*"]);
    let mut source = begin(&dir, &Offsets::default());
    for name in [".a", "b.tmp", "c.ndjson.part", "_SUCCESS", "_temporary/0/d", "e~", "f.TEMP", ".g/h", "i.inprogress"] {
        dir.put(name, "no\n");
    }
    dir.put("_is/read", "1\n");
    assert_eq!(found(&mut source), ["1"]);
    fs::rename(dir.0.path().join("b.tmp"), dir.0.path().join("b")).unwrap();
    assert_eq!(found(&mut source), ["no"]);
}

#[test]
fn watched_files_conform() {
    let mut small = lazy(&["in/*"]);
    small.1.chunk_bytes = 5_000;
    small.put("in/a", lines(0..500)).put("in/b", lines(500..700)).put("in/c.gz", gzip(lines(0..900).as_bytes())).put("in/d", "half");
    small.conforms();
    let mut rows = dir(&["in/*"], Framing::Parquet, Duration::from_secs(1000));
    rows.1.chunk_bytes = 5_000;
    rows.put("in/a", parquet_file(0..500, 100)).put("in/b", parquet_file(0..7, 100));
    rows.conforms();
}

#[test]
fn a_path_without_wildcards_may_come_later() {
    let dir = lazy(&["in/a.log.ndjson"]);
    let mut source = begin(&dir, &Offsets::default());
    assert!(found(&mut source).is_empty());
    dir.put("in/a.log.ndjson", "1\n");
    assert_eq!(found(&mut source), ["1"]);
}
