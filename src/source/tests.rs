mod columnar;
mod finished;
mod watch;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::env::Env;
use crate::error::{Error, Kind};

const CSV: Framing = Framing::Csv { quote: b'"', header: true, delimiter: b',' };
const BARE_CSV: Framing = Framing::Csv { quote: b'"', header: false, delimiter: b',' };

/// One record as the tests look at it: split, offset, line, text, fault.
type Seen = (String, u64, u64, String, Option<String>);

struct Dir(tempfile::TempDir, FilesOptions);

impl Dir {
    fn new(paths: &[&str], framing: Framing) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = FilesOptions::new(dir.path(), paths.iter().copied(), framing);
        Dir(dir, options)
    }
    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
        self
    }
    fn add(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::OpenOptions::new().append(true).open(self.0.path().join(name)).unwrap().write_all(bytes.as_ref()).unwrap();
    }
    fn source(&self) -> FilesSource {
        FilesSource::new(Env::real(), self.1.clone()).unwrap()
    }
    /// A whole lineage: resolve, seek, read. What came, where it ended, and what stopped it.
    fn run(&self, from: Option<&Offsets>) -> (Vec<Seen>, Offsets, Result<()>) {
        let mut source = self.source();
        match block(source.resolve(from)) {
            Ok(resolved) => self.go_on(&resolved.start, resolved.stop.as_ref()),
            Err(e) => (Vec::new(), Offsets::default(), Err(e)),
        }
    }
    fn go_on(&self, offsets: &Offsets, stop: Option<&Offsets>) -> (Vec<Seen>, Offsets, Result<()>) {
        let mut source = self.source();
        if let Err(e) = block(source.seek(offsets, stop)) {
            return (Vec::new(), Offsets::default(), Err(e));
        }
        let mut seen = Vec::new();
        let end = loop {
            match block(source.poll(Deadline::NEVER)) {
                Ok(Polled::Records(r)) => look_at(&r, &mut seen),
                Ok(Polled::End) => break Ok(()),
                Ok(other) => panic!("{other:?}"),
                Err(e) => break Err(e),
            }
        };
        (seen, source.position(), end)
    }
    fn texts(&self) -> Vec<String> {
        let (seen, _, end) = self.run(None);
        end.unwrap();
        texts(&seen)
    }
    fn conforms(&self) {
        block(conformance::check(&Env::real(), || FilesSource::new(Env::real(), self.1.clone()))).unwrap();
    }
    /// Resolves, reads `polls` chunks, and says where it stands and where it must stop.
    fn part(&self, polls: usize) -> (Offsets, Offsets) {
        let mut source = self.source();
        let resolved = block(source.resolve(None)).unwrap();
        block(source.seek(&resolved.start, resolved.stop.as_ref())).unwrap();
        for _ in 0..polls {
            assert!(matches!(block(source.poll(Deadline::NEVER)).unwrap(), Polled::Records(_)));
        }
        (source.position(), resolved.stop.unwrap())
    }
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn look_at(r: &Records, seen: &mut Vec<Seen>) {
    for i in 0..r.len() {
        let fault = r.faults.iter().find(|(at, _)| *at == i).map(|(_, why)| why.clone());
        seen.push((r.origin.split.clone(), r.offsets[i], r.lines[i], String::from_utf8_lossy(r.value(i)).into_owned(), fault));
    }
}

fn texts(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(|s| s.3.clone()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut e = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    e.write_all(bytes).unwrap();
    e.finish().unwrap()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 3).unwrap()
}

fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|n| format!("{{\"id\":{n},\"x\":\"{}\"}}\n", scramble(n))).collect()
}

/// Text that does not compress away.
fn scramble(n: u32) -> String {
    (0..4u32).map(|k| format!("{:08x}", (n * 4 + k).wrapping_mul(2_654_435_761).rotate_left(k * 7 + 3))).collect()
}

fn data(end: Result<()>, words: &str) -> Error {
    let e = end.unwrap_err();
    assert_eq!(e.kind(), Kind::Data, "{e}");
    assert!(e.to_string().contains(words), "{e}");
    assert!(e.next_step().is_some() && e.place().is_some(), "{e}");
    e
}

#[test]
fn lines_come_with_offset_and_line_and_without_their_ends() {
    let dir = Dir::new(&["a.ndjson"], Framing::Lines);
    dir.put("a.ndjson", "\u{feff}{1}\r\n\n  \r\n{\"ä\"}\n{3}");
    let (seen, end, done) = dir.run(None);
    done.unwrap();
    let of = |offset, line, text: &str| ("a.ndjson".to_owned(), offset, line, text.to_owned(), None);
    assert_eq!(seen, [of(3, 1, "{1}"), of(13, 4, "{\"ä\"}"), of(20, 5, "{3}")]);
    assert_eq!(end.offset("a.ndjson"), 23);
}

#[test]
fn files_come_in_name_order_and_hidden_files_and_folders_do_not() {
    let dir = Dir::new(&["in/*.ndjson", "./in/b.ndjson", "a/**/*.ndjson"], Framing::Lines);
    dir.put("in/b.ndjson", "b\n").put("in/a.ndjson", "a\n").put("in/.part.ndjson", "hidden\n").put("in/c.txt", "no\n");
    dir.put("in/d.ndjson/x", "no\n").put("a/1/z.ndjson", "z\n").put("in/10.ndjson", "10\n").put("in/9.ndjson", "9\n");
    assert_eq!(dir.texts(), ["z", "10", "9", "a", "b"]);
    assert_eq!(dir.run(None).1.0.keys().next().unwrap(), "a/1/z.ndjson");
}

#[test]
fn a_base_with_wildcards_in_its_name_is_taken_as_it_is() {
    let outer = Dir::new(&["x"], Framing::Lines);
    outer.put("we[i]rd*/in/[1].ndjson", "1\n").put("we[i]rd*/in/2.ndjson", "2\n");
    let options = FilesOptions::new(outer.0.path().join("we[i]rd*/in"), ["../in/?.ndjson", "[1].ndjson"], Framing::Lines);
    let dir = Dir(tempfile::tempdir().unwrap(), options);
    assert_eq!(dir.texts(), ["2", "1"]);
}

#[test]
fn wildcards_may_match_nothing_and_plain_paths_may_not() {
    let dir = Dir::new(&["in/*.ndjson"], Framing::Lines);
    assert_eq!(dir.run(None).0, []);
    for (path, words) in [("in/a.ndjson", "no such file"), (".", "directory"), ("in", "directory"), ("a[", "pattern"), ("", "empty")] {
        let dir = Dir::new(&[path], Framing::Lines);
        dir.put("in/x", "");
        let e = dir.run(None).2.unwrap_err();
        assert_eq!(e.kind(), Kind::Invalid, "{e}");
        assert!(e.to_string().contains(words), "{e}");
    }
}

#[test]
fn empty_files_and_files_of_nothing_give_nothing_and_are_never_in_the_way() {
    let dir = Dir::new(&["*"], Framing::Lines);
    dir.put("a", "").put("b.gz", "").put("c.gz", gzip(b"")).put("d.zst", zst(b"")).put("e", "\n\n").put("f", "\u{feff}").put("g", "g");
    let (seen, end, done) = dir.run(None);
    done.unwrap();
    assert_eq!(texts(&seen), ["g"]);
    let resolved = block(dir.source().resolve(Some(&end))).unwrap();
    assert!(resolved.start.covers(&resolved.stop.unwrap()));
    dir.conforms();
}

#[test]
fn csv_rows_keep_newlines_in_quotes_and_the_header_is_no_record() {
    let dir = Dir::new(&["a.csv"], CSV);
    dir.put("a.csv", "\u{feff}id,\"na\"\"me\",c\r\n1,\"a\nb\",x\r\n\r\n2,\"say \"\"hi\"\"\n,\",y\r\n3,5\" pipe,z\n4,\"q\"uoted\" rest,w");
    let (seen, _, done) = dir.run(None);
    done.unwrap();
    assert_eq!(texts(&seen), ["1,\"a\nb\",x", "2,\"say \"\"hi\"\"\n,\",y", "3,5\" pipe,z", "4,\"q\"uoted\" rest,w"]);
    assert_eq!(seen.iter().map(|s| s.2).collect::<Vec<_>>(), [2, 5, 7, 8]);
    let mut source = dir.source();
    block(source.seek(&Offsets::default(), None)).unwrap();
    let Polled::Records(r) = block(source.poll(Deadline::NEVER)).unwrap() else { panic!() };
    assert_eq!(**r.origin.header.as_ref().unwrap(), ["id", "na\"me", "c"]);
    dir.conforms();
}

#[test]
fn a_quote_that_is_never_closed_spoils_one_line() {
    let dir = Dir::new(&["a.csv"], BARE_CSV);
    dir.put("a.csv", "1,a\n2,\"open\n3,c\n4,\"d\ne\"\n5,f\n");
    // The quote of row 2 is closed by the one that opens in row 4; what then is wrong is for the decoder to say.
    assert_eq!(dir.texts(), ["1,a", "2,\"open\n3,c\n4,\"d", "e\"", "5,f"]);
    dir.put("a.csv", "1,a\n2,\"open\n3,c\n4,d\n");
    let (seen, _, done) = dir.run(None);
    done.unwrap();
    assert_eq!(texts(&seen), ["1,a", "2,\"open", "3,c", "4,d"]);
    assert_eq!(seen.iter().map(|s| s.4.is_some()).collect::<Vec<_>>(), [false, true, false, false]);
    dir.conforms();
}

#[test]
fn a_header_that_is_no_text_is_named() {
    let dir = Dir::new(&["a.csv"], CSV);
    dir.put("a.csv", b"id,\xff\n1,2\n");
    let e = data(dir.run(None).2, "header");
    assert!(e.place().unwrap().contains("a.csv:1"), "{e}");
}

#[test]
fn a_line_of_20_mb_is_one_record() {
    let dir = Dir::new(&["a"], Framing::Lines);
    let long = "x".repeat(20_000_000);
    dir.put("a", format!("1\n{long}\n3\n"));
    let (seen, ..) = dir.run(None);
    assert_eq!((seen.len(), seen[1].3.len(), &*seen[2].3, seen[2].2), (3, 20_000_000, "3", 3));
    assert_eq!(seen[1].4, None);
}

#[test]
fn a_record_longer_than_allowed_is_a_fault_and_takes_no_neighbour_along() {
    for framing in [Framing::Lines, BARE_CSV] {
        for chunk in [1, 7, 999, 5000, 1 << 20] {
            let mut dir = Dir::new(&["a"], framing);
            (dir.1.max_record, dir.1.chunk_bytes) = (2000, chunk);
            let (fits, long) = ("f".repeat(2000), "y".repeat(7001));
            dir.put("a", format!("1\n{fits}\r\n{long}\r\n3\n{long}"));
            let (seen, end, done) = dir.run(None);
            done.unwrap();
            assert_eq!(
                seen.iter().map(|s| (s.1, s.2, s.3.len())).collect::<Vec<_>>(),
                [(0, 1, 1), (2, 2, 2000), (2004, 3, 1024), (9007, 4, 1), (9009, 5, 1024)]
            );
            assert_eq!(seen[1].4, None);
            assert_eq!(seen[2].4.as_deref(), Some("the record has 7001 bytes, more than the 2000 that are allowed"));
            assert_eq!(seen[4].4, seen[2].4);
            assert_eq!(end.offset("a"), 16010);
            dir.conforms();
        }
    }
}

#[test]
fn compressed_files_of_several_parts_read_as_one() {
    let dir = Dir::new(&["*"], Framing::Lines);
    let text = lines(0..3000);
    let (a, b) = text.as_bytes().split_at(1234);
    dir.put("1.ndjson.gz", [gzip(a), gzip(b"").clone(), gzip(b)].concat())
        .put("2.ndjson.zst", [zst(a), zst(b)].concat())
        .put("3.ndjson", &text);
    let all = dir.texts();
    assert_eq!(all.len(), 9000);
    assert_eq!(all[..3000], all[3000..6000]);
    assert_eq!(all[..3000], all[6000..]);
    let mut small = Dir(dir.0, dir.1);
    small.1.chunk_bytes = 9_000;
    small.conforms();
}

#[test]
fn a_truncated_gzip_gives_its_whole_records_then_data_and_goes_on_when_it_is_complete() {
    for (name, whole) in [("a.gz", gzip(lines(0..40_000).as_bytes())), ("a.zst", zst(lines(0..40_000).as_bytes()))] {
        let mut dir = Dir::new(&["a.*"], Framing::Lines);
        dir.1.chunk_bytes = 10_000;
        dir.put(name, &whole[..whole.len() / 2]);
        let mut source = dir.source();
        let resolved = block(source.resolve(None)).unwrap();
        let (seen, at, end) = dir.go_on(&resolved.start, resolved.stop.as_ref());
        let e = data(end, "cut off");
        assert!(e.place().unwrap().contains(name) && e.place().unwrap().contains("offset"), "{e}");
        assert!(seen.len() > 10_000 && seen.len() < 30_000, "{}", seen.len());
        dir.put(name, &whole);
        let (rest, end, done) = dir.go_on(&at, resolved.stop.as_ref());
        done.unwrap();
        assert_eq!(seen.len() + rest.len(), 40_000);
        assert_eq!([texts(&seen), texts(&rest)].concat().join("\n") + "\n", lines(0..40_000));
        assert!(end.covers(resolved.stop.as_ref().unwrap()));
        assert_eq!(dir.run(Some(&end)).0, []);
    }
}

#[test]
fn a_corrupt_gzip_is_data_and_repairable() {
    let mut dir = Dir::new(&["a.gz"], Framing::Lines);
    dir.1.chunk_bytes = 10_000;
    let whole = gzip(lines(0..5000).as_bytes());
    let mut bad = whole.clone();
    let at = whole.len() - 6; // the checksum
    bad[at] ^= 0xff;
    dir.put("a.gz", &bad);
    let stop = block(dir.source().resolve(None)).unwrap().stop;
    let (seen, position, end) = dir.go_on(&Offsets::default(), stop.as_ref());
    data(end, "corrupt");
    dir.put("a.gz", &whole);
    let (rest, _, done) = dir.go_on(&position, stop.as_ref());
    done.unwrap();
    assert_eq!(seen.len() + rest.len(), 5000);
}

#[test]
fn a_file_that_is_no_gzip_is_data() {
    let dir = Dir::new(&["a.gz"], Framing::Lines);
    dir.put("a.gz", "{\"id\": 1}\n");
    data(dir.run(None).2, "corrupt");
}

#[test]
fn what_grows_or_appears_after_open_waits_for_the_next_lineage() {
    for pack in [|b: &[u8]| b.to_vec(), gzip, zst] {
        let ending = match pack(b"x")[0] {
            b'x' => "ndjson",
            0x1f => "gz",
            _ => "zst",
        };
        let a = format!("a.{ending}");
        let dir = Dir::new(&["*"], Framing::Lines);
        dir.put(&a, pack(b"1\n2\n"));
        let stop = block(dir.source().resolve(None)).unwrap().stop;
        dir.add(&a, pack(b"3\n"));
        dir.put("b.ndjson", "4\n");
        let (seen, end, done) = dir.go_on(&Offsets::default(), stop.as_ref());
        done.unwrap();
        assert_eq!(texts(&seen), ["1", "2"], "{ending}");
        assert!(end.covers(&stop.unwrap()));
        let (seen, end, done) = dir.run(Some(&end));
        done.unwrap();
        assert_eq!(texts(&seen), ["3", "4"], "{ending}");
        assert_eq!(seen[0].2, 3);
        let resolved = block(dir.source().resolve(Some(&end))).unwrap();
        let stop = resolved.stop.unwrap();
        assert!(resolved.start.covers(&stop), "{ending}: nothing to read must be seen");
        assert_eq!(stop.offset(&a), end.offset(&a), "{ending}: and seen without unpacking the file");
    }
}

#[test]
fn a_file_that_grew_in_the_middle_of_a_line_is_data_and_one_that_grew_by_whole_lines_is_not() {
    for name in ["a.ndjson", "a.gz"] {
        let pack = |b: &[u8]| if name == "a.gz" { gzip(b) } else { b.to_vec() };
        let dir = Dir::new(&["*"], Framing::Lines);
        for (more, taken) in [("\n2\n", true), ("\r\n2\n", true), ("2\n", false), ("\r2\n", false)] {
            dir.put(name, pack(b"1"));
            let (_, end, done) = dir.run(None);
            done.unwrap();
            dir.add(name, pack(more.as_bytes()));
            let (seen, _, done) = dir.run(Some(&end));
            if taken {
                done.unwrap();
                assert_eq!(texts(&seen), ["2"], "{name} {more:?}");
                assert_eq!(seen[0].2, 2);
            } else {
                data(done, "grew in the middle of a line");
            }
        }
    }
    let dir = Dir::new(&["a.csv"], BARE_CSV);
    dir.put("a.csv", "1,\"x\n");
    let (_, end, _) = dir.run(None);
    dir.add("a.csv", "\n\"\n");
    data(dir.run(Some(&end)).2, "middle of a row");
}

#[test]
fn a_file_that_shrank_is_data_in_the_lineage_and_in_the_next() {
    for name in ["a.ndjson", "a.gz"] {
        let pack = |b: String| if name == "a.gz" { gzip(b.as_bytes()) } else { b.into_bytes() };
        let mut dir = Dir::new(&["*"], Framing::Lines);
        dir.1.chunk_bytes = 4096;
        dir.put(name, pack(lines(0..1000)));
        let (middle, stop) = dir.part(2);
        let end = dir.run(None).1;
        dir.put(name, pack(lines(0..900)));
        let e = data(dir.go_on(&middle, Some(&stop)).2, "shrank");
        assert!(e.to_string().contains(name) && e.next_step().unwrap().contains("--rewind"), "{e}");
        data(dir.go_on(&end, Some(&stop)).2, "shrank");
        data(dir.run(Some(&end)).2, "shrank");
        data(dir.run(Some(&middle)).2, "shrank");
    }
}

#[test]
fn a_file_that_changed_is_data_wherever_it_changed() {
    let mut dir = Dir::new(&["*"], Framing::Lines);
    dir.1.chunk_bytes = 100_000;
    let text = lines(0..8000);
    dir.put("a.ndjson", &text);
    let (middle, stop) = dir.part(2);
    let end = dir.run(None).1;
    for (at, also_next) in [(5, true), (usize::try_from(middle.offset("a.ndjson")).unwrap() - 20, false), (text.len() - 20, true)] {
        let mut other = text.clone().into_bytes();
        other[at] ^= 1;
        dir.put("a.ndjson", &other);
        if at < text.len() - 20 {
            data(dir.go_on(&middle, Some(&stop)).2, "changed");
        }
        if also_next {
            data(dir.run(Some(&end)).2, "changed");
        }
    }
    dir.put("a.ndjson", text.to_uppercase());
    data(dir.go_on(&Offsets::default(), Some(&stop)).2, "changed");
    dir.put("a.ndjson", &text);
    dir.go_on(&middle, Some(&stop)).2.unwrap();
}

#[test]
fn a_compressed_file_with_other_content_is_data_and_the_same_content_packed_anew_is_not() {
    let mut dir = Dir::new(&["*"], Framing::Lines);
    dir.1.chunk_bytes = 100_000;
    let text = lines(0..8000);
    dir.put("a.gz", gzip(text.as_bytes()));
    let (middle, stop) = dir.part(2);
    let end = dir.run(None).1;
    for at in [5, usize::try_from(middle.offset("a.gz")).unwrap() - 20] {
        let mut other = text.clone().into_bytes();
        other[at] ^= 1;
        dir.put("a.gz", [gzip(&other), gzip(&[b'\n'; 100])].concat());
        data(dir.go_on(&middle, Some(&stop)).2, "changed");
        if at == 5 {
            data(dir.run(Some(&end)).2, "changed");
        }
    }
    let (a, b) = text.as_bytes().split_at(50_000);
    dir.put("a.gz", [gzip(a), gzip(b)].concat());
    dir.go_on(&middle, Some(&stop)).2.unwrap();
}

#[test]
fn a_missing_file_is_data_unless_it_is_read_to_its_end() {
    for name in ["a.ndjson", "a.gz"] {
        let mut dir = Dir::new(&["*"], Framing::Lines);
        dir.1.chunk_bytes = 4096;
        let text = lines(0..1000);
        let bytes = if name == "a.gz" { gzip(text.as_bytes()) } else { text.into_bytes() };
        dir.put(name, &bytes).put("b.ndjson", "b\n");
        let (middle, stop) = dir.part(2);
        let end = dir.run(None).1;
        let mut after_a = end.clone();
        after_a.0.remove("b.ndjson");
        fs::remove_file(dir.0.path().join(name)).unwrap();
        let e = data(dir.go_on(&middle, Some(&stop)).2, "missing");
        assert!(e.to_string().contains(name), "{e}");
        data(dir.go_on(&Offsets::default(), Some(&stop)).2, "missing");
        data(dir.run(Some(&middle)).2, "missing");
        assert_eq!(texts(&dir.go_on(&after_a, Some(&stop)).0), ["b"]);
        dir.put("c.ndjson", "c\n");
        let (seen, later, done) = dir.run(Some(&end));
        done.unwrap();
        assert_eq!(texts(&seen), ["c"]);
        dir.put(name, &bytes);
        assert_eq!(dir.run(Some(&later)).0, [], "a file that was read and comes back is not read again");
    }
}

#[test]
fn a_position_without_a_note_still_finds_its_line() {
    for name in ["a.csv", "a.csv.gz"] {
        let dir = Dir::new(&["a.*"], CSV);
        let text = b"id,x\n1,\"a\nb\"\n2,c\n";
        dir.put(name, if name == "a.csv" { text.to_vec() } else { gzip(text) });
        let at = Offsets::from([(name.to_owned(), Position { offset: 13, note: None })]);
        let (seen, _, done) = dir.go_on(&at, None);
        done.unwrap();
        assert_eq!(seen, [(name.to_owned(), 13, 4, "2,c".to_owned(), None)]);
    }
}

#[test]
fn a_note_of_another_kind_is_data() {
    let dir = Dir::new(&["a"], Framing::Lines);
    dir.put("a", "1\n2\n");
    let at = Offsets::from([("a".to_owned(), Position { offset: 2, note: Some(serde_json::json!({"topic": 1})) })]);
    data(dir.run(Some(&at)).2, "note");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Any bytes, any chunk size, any allowed length, plain and packed: from every position the rest is what a straight read gives.
    #[test]
    fn from_every_position_the_rest_is_what_a_straight_read_gives(
        text in "([a-c]{0,3}|\"|,|\n|\r\n|\r|\u{feff}|\"a\nb\",|ddddddddddddd){0,40}",
        chunk in 1_usize..40, max_record in 3_usize..60, kind in 0..3, packing in 0..3,
    ) {
        let framing = [Framing::Lines, CSV, BARE_CSV][kind as usize];
        let name = ["a", "a.gz", "a.zst"][packing as usize];
        let mut dir = Dir::new(&["a*"], framing);
        let bytes = [text.clone().into_bytes(), gzip(text.as_bytes()), zst(text.as_bytes())][packing as usize].clone();
        dir.put(name, bytes);
        dir.1.max_record = max_record;
        let straight = dir.run(None);
        // A header longer than allowed stops the run; the same wherever it is cut.
        dir.1.chunk_bytes = chunk;
        let pieces = dir.run(None);
        prop_assert_eq!(&pieces.0, &straight.0);
        prop_assert_eq!(pieces.2.is_ok(), straight.2.is_ok());
        if straight.2.is_ok() {
            let make = || FilesSource::new(Env::real(), dir.1.clone());
            prop_assert_eq!(block(conformance::check(&Env::real(), make)), Ok(()));
        }
    }
}

#[test]
fn rows_are_split_where_another_csv_reader_splits_them() {
    let mut runner = proptest::test_runner::TestRunner::default();
    let text = "([a-c]{1,3}|\"[ab\n,]{0,4}\"|,|\n|\"\"|[a]\"){0,30}";
    let run = |text: String| {
        let dir = Dir::new(&["a"], BARE_CSV);
        dir.put("a", &text);
        let (seen, ..) = dir.run(None);
        if seen.iter().any(|s| s.4.is_some()) {
            return Ok(());
        }
        let mut reader = csv_core::Reader::new();
        let (mut input, mut rows) = (text.as_bytes(), 0);
        let (mut out, mut ends) = (vec![0; 4096], vec![0; 256]);
        loop {
            let (result, read, ..) = reader.read_record(input, &mut out, &mut ends);
            input = &input[read..];
            match result {
                csv_core::ReadRecordResult::Record => rows += 1,
                csv_core::ReadRecordResult::End => break,
                _ => {}
            }
        }
        prop_assert_eq!(seen.len(), rows);
        Ok(())
    };
    runner.run(&text, run).unwrap();
}

/// A reader that gives its pieces one by one, and then waits.
struct Slow(Vec<&'static str>, Duration);

impl Read for Slow {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self.0.pop() {
            Some(piece) => {
                buf[..piece.len()].copy_from_slice(piece.as_bytes());
                Ok(piece.len())
            }
            None => {
                #[expect(clippy::disallowed_methods, reason = "a terminal nobody types at")]
                std::thread::sleep(self.1);
                Ok(0)
            }
        }
    }
}

fn stdin(framing: Framing, input: impl Read + Send + 'static) -> StdinSource {
    StdinSource::over(Env::real(), StdinOptions::new(framing), Box::new(input))
}

#[test]
fn stdin_keeps_its_promises_as_far_as_it_makes_any() {
    let text = lines(0..10_000);
    block(conformance::check(&Env::real(), || Ok(stdin(Framing::Lines, std::io::Cursor::new(text.clone()))))).unwrap();
    block(conformance::check(&Env::real(), || Ok(stdin(Framing::Lines, std::io::empty())))).unwrap();
    assert!(!stdin(Framing::Lines, std::io::empty()).replayable());
}

#[test]
fn stdin_does_not_block_past_the_deadline_and_loses_nothing_then() {
    block(async {
        let env = Env::real();
        let mut source = stdin(Framing::Lines, Slow(vec!["2\n3", "1\n"], Duration::from_millis(700)));
        source.seek(&Offsets::default(), None).await.unwrap();
        let before = env.monotonic();
        let (mut seen, mut idle) = (Vec::new(), 0);
        loop {
            match source.poll(env.deadline(Duration::from_millis(50))).await.unwrap() {
                Polled::Records(r) => look_at(&r, &mut seen),
                Polled::Idle => idle += 1,
                _ => break,
            }
        }
        assert_eq!(texts(&seen), ["1", "2", "3"]);
        assert!(idle >= 5, "{idle} idle polls in {:?}", env.monotonic() - before);
        assert_eq!(source.position().offset("stdin"), 5);
    });
}

#[test]
fn stdin_offsets_and_lines_go_on_where_the_last_process_stood() {
    block(async {
        let mut first = stdin(CSV, std::io::Cursor::new("\u{feff}id\n1\n2\n"));
        first.seek(&Offsets::default(), None).await.unwrap();
        let Polled::Records(r) = first.poll(Deadline::NEVER).await.unwrap() else { panic!() };
        assert_eq!((r.offsets, r.lines), (vec![6, 8], vec![2, 3]));
        let mut second = stdin(CSV, std::io::Cursor::new("id\n3\n"));
        let resolved = second.resolve(Some(&first.position())).await.unwrap();
        second.seek(&resolved.start, None).await.unwrap();
        let Polled::Records(r) = second.poll(Deadline::NEVER).await.unwrap() else { panic!() };
        assert_eq!((r.value(0), &r.offsets[..], &r.lines[..]), (&b"3"[..], &[13][..], &[5][..]));
        assert_eq!(**r.origin.header.as_ref().unwrap(), ["id"]);
    });
}

fn generate(options: GenerateOptions) -> GenerateSource {
    GenerateSource::new(Env::real(), options).unwrap()
}

#[test]
fn generated_rows_are_the_same_every_time_and_are_json() {
    let options = GenerateOptions { rows: Some(10_000), ..Default::default() };
    block(conformance::check(&Env::real(), || GenerateSource::new(Env::real(), options.clone()))).unwrap();
    let unbounded = || GenerateSource::new(Env::real(), GenerateOptions::default());
    block(conformance::check(&Env::real(), unbounded)).unwrap();
    let mut source = generate(options);
    let mut ids = 0;
    let mut last = String::new();
    while let Polled::Records(r) = block(source.poll(Deadline::NEVER)).unwrap() {
        for i in 0..r.len() {
            let row: serde_json::Value = serde_json::from_slice(r.value(i)).unwrap();
            ids += 1;
            assert_eq!((row["id"].as_u64(), r.offsets[i]), (Some(ids), ids - 1));
            let at = row["created_at"].as_str().unwrap().to_owned();
            assert!(at > last, "{at} after {last}");
            last = at;
        }
    }
    assert_eq!(ids, 10_000);
}

#[test]
fn the_generator_keeps_its_rate() {
    block(async {
        let env = Env::real();
        let mut source = generate(GenerateOptions { rows: Some(50), rows_per_second: Some(100.0), ..Default::default() });
        source.seek(&Offsets::default(), None).await.unwrap();
        let before = env.monotonic();
        let (mut rows, mut polls) = (0, 0);
        loop {
            match source.poll(env.deadline(Duration::from_millis(4))).await.unwrap() {
                Polled::Records(r) => rows += r.len(),
                Polled::Idle => polls += 1,
                _ => break,
            }
        }
        let took = env.monotonic() - before;
        assert_eq!(rows, 50);
        assert!(took >= Duration::from_millis(490) && polls > 10, "{took:?}, {polls} idle");
    });
}

#[test]
fn the_generator_refuses_numbers_that_mean_nothing() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let e = GenerateSource::new(Env::real(), GenerateOptions { rows_per_second: Some(rate), ..Default::default() }).err().unwrap();
        assert_eq!(e.kind(), Kind::Invalid);
    }
    assert!(GenerateSource::new(Env::real(), GenerateOptions { fail_at: Some(0), ..Default::default() }).is_err());
}

/// Run by the next test in a process of its own: dies at row 120 when it began the lineage.
#[test]
#[ignore = "ends its process"]
fn reads_to_the_end_or_dies() {
    let mut source = generate(GenerateOptions { rows: Some(200), fail_at: Some(120), ..Default::default() });
    if std::env::var_os("BEGIN").is_some() {
        block(source.resolve(None)).unwrap();
    }
    block(source.seek(&Offsets::default(), None)).unwrap();
    while let Polled::Records(_) = block(source.poll(Deadline::NEVER)).unwrap() {
        fs::write(std::env::var_os("OUT").unwrap(), source.position().offset("generate").to_string()).unwrap();
    }
}

#[test]
fn fail_at_ends_only_the_process_that_began_the_lineage_and_after_the_rows_before() {
    let out = tempfile::NamedTempFile::new().unwrap();
    for (begin, code, rows) in [(true, FAIL_AT_EXIT, "119"), (false, 0, "200")] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "source::tests::reads_to_the_end_or_dies"]).env_remove("BEGIN").env("OUT", out.path());
        if begin {
            child.env("BEGIN", "1");
        }
        assert_eq!(child.output().unwrap().status.code(), Some(code));
        assert_eq!(fs::read_to_string(out.path()).unwrap(), rows);
    }
}

#[test]
fn a_stop_with_an_open_end_is_reached_by_the_end_it_names_and_no_other() {
    let at = |offset, note: serde_json::Value| Offsets::from([("a".to_owned(), Position { offset, note: Some(note) })]);
    let stop = at(Position::TO_END, serde_json::json!({"size": 10}));
    assert!(!Offsets::default().covers(&stop));
    assert!(!at(500, serde_json::json!({"size": 10})).covers(&stop));
    assert!(!at(500, serde_json::json!({"size": 9, "end": 9})).covers(&stop));
    assert!(at(500, serde_json::json!({"size": 10, "end": 10})).covers(&stop));
    let newer = at(500, serde_json::json!({"size": 10})).max(&at(500, serde_json::json!({"size": 10, "end": 10})));
    assert!(newer.covers(&stop), "at equal offsets the newer note counts");
}

#[test]
fn faults_stay_with_their_records_when_some_are_skipped() {
    let origin = Origin { split: "a".into(), name: "a".into(), partition: None, header: None };
    let mut r = Records::none(origin.into());
    (r.bytes, r.ends, r.offsets) = (Bytes::from_static(b"abc"), vec![1, 2, 3], vec![0, 1, 2]);
    r.faults = vec![(0, "first".into()), (2, "third".into())];
    assert_eq!(r.slice(1, r.len()).faults, [(1, "third".to_owned())]);
    assert_eq!(r.slice(3, r.len()).faults, []);
}

#[test]
fn paths_that_are_no_files_are_invalid() {
    let dir = Dir::new(&["fifo"], Framing::Lines);
    let made = std::process::Command::new("mkfifo").arg(dir.0.path().join("fifo")).status();
    assert!(made.is_ok_and(|s| s.success()));
    let e = dir.run(None).2.unwrap_err();
    assert!(e.kind() == Kind::Invalid && e.to_string().contains("stdin"), "{e}");
    assert!(FilesSource::new(Env::real(), FilesOptions::new(Path::new("."), Vec::<String>::new(), Framing::Lines)).is_err());
}

#[tokio::test]
async fn packed_standard_input_is_named_instead_of_read_as_text() {
    for (first, name) in [(&[0x1f, 0x8b, 8][..], "gzip"), (&[0x28, 0xb5, 0x2f, 0xfd], "zstd")] {
        let mut source = StdinSource::over(Env::real(), StdinOptions::new(Framing::Lines), Box::new(first));
        let error = source.poll(Env::real().deadline(Duration::from_secs(5))).await.unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.message().contains(name), "{error}");
    }
}
