//! Parquet files as a source.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::*;

/// Rows `range`, `group` of them in each row group.
pub(super) fn file(range: std::ops::Range<i64>, group: usize) -> Vec<u8> {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(range.clone()));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(range.map(|n| scramble(n as u32))));
    let batch = RecordBatch::try_from_iter([("id", ids), ("text", texts)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).set_data_page_row_count_limit(50).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    for from in (0..batch.num_rows()).step_by(100) {
        writer.write(&batch.slice(from, 100.min(batch.num_rows() - from))).unwrap();
    }
    writer.into_inner().unwrap()
}

fn dir() -> Dir {
    let mut dir = Dir::new(&["in/*.parquet"], Framing::Parquet);
    dir.1.chunk_bytes = 4000;
    dir
}

fn ids(source: &mut FilesSource) -> (Vec<(String, u64, i64)>, Result<()>) {
    let mut all = Vec::new();
    loop {
        match block(source.poll(Deadline::NEVER)) {
            Ok(Polled::Batch(rows)) => {
                let ids = rows.batch.column(0).as_primitive::<Int64Type>();
                all.extend((rows.first..).zip(ids.values()).map(|(at, id)| (rows.origin.split.clone(), at, *id)));
            }
            Ok(Polled::End) => return (all, Ok(())),
            Ok(other) => panic!("{other:?}"),
            Err(e) => return (all, Err(e)),
        }
    }
}

fn run(dir: &Dir, from: Option<&Offsets>) -> (Vec<(String, u64, i64)>, Offsets, Result<()>) {
    let mut source = dir.source();
    let begun = block(source.resolve(from)).and_then(|r| block(source.seek(&r.start, r.stop.as_ref())));
    match begun {
        Err(e) => (Vec::new(), Offsets::default(), Err(e)),
        Ok(()) => {
            let (all, end) = ids(&mut source);
            (all, source.position(), end)
        }
    }
}

#[test]
fn rows_come_in_order_with_their_numbers_from_files_of_many_row_groups() {
    let dir = dir();
    dir.put("in/b.parquet", file(1000..1301, 100)).put("in/a.parquet", file(0..777, 300)).put("in/empty.parquet", file(0..0, 10));
    let (all, end, done) = run(&dir, None);
    done.unwrap();
    assert_eq!(all.len(), 777 + 301);
    assert!(all.iter().all(|(split, at, id)| *id == *at as i64 + if split == "in/b.parquet" { 1000 } else { 0 }));
    assert_eq!((end.offset("in/a.parquet"), end.offset("in/b.parquet")), (777, 301));
    dir.conforms();
    dir.put("in/c.parquet", file(5..6, 10));
    let (all, _, done) = run(&dir, Some(&end));
    done.unwrap();
    assert_eq!(all, [("in/c.parquet".to_owned(), 0, 5)]);
}

#[test]
fn any_row_is_found_again() {
    let dir = dir();
    dir.put("in/a.parquet", file(0..500, 120));
    let mut source = dir.source();
    let resolved = block(source.resolve(None)).unwrap();
    for from in [1, 49, 50, 119, 120, 121, 240, 359, 499, 500] {
        let at = Offsets::from([("in/a.parquet".to_owned(), Position { offset: from, note: None })]);
        let mut source = dir.source();
        block(source.seek(&at, resolved.stop.as_ref())).unwrap();
        let (all, done) = ids(&mut source);
        done.unwrap();
        assert_eq!(all.iter().map(|x| x.2).collect::<Vec<_>>(), (from as i64..500).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_no_whole_parquet_file_is_data_with_its_path() {
    let whole = file(0..500, 100);
    for (bytes, words) in [
        (Vec::new(), "no footer"),
        (b"PAR1".to_vec(), "no footer"),
        (b"{\"id\": 1}\n{\"id\": 2}\n".to_vec(), "no footer"),
        (whole[..whole.len() - 1].to_vec(), "no footer"),
        (whole[..whole.len() / 2].to_vec(), "no footer"),
        ([&whole[..whole.len() - 8], &[0xff, 0xff, 0xff, 0x7f][..], b"PAR1"].concat(), "no footer"),
        ([&whole[..4], &[7; 300], &[100, 0, 0, 0][..], b"PAR1"].concat(), "damaged"),
    ] {
        let dir = dir();
        dir.put("in/a.parquet", bytes);
        let e = data(run(&dir, None).2, words);
        assert!(e.to_string().contains("in/a.parquet"), "{e}");
    }
}

#[test]
fn any_damaged_byte_is_data_or_does_no_harm_and_never_a_panic() {
    let whole = file(0..200, 60);
    let (mut refused, mut read) = (0, 0);
    for at in (0..whole.len()).step_by(whole.len() / 400) {
        for flip in [0xff, 0x01, 0x80] {
            let mut bad = whole.clone();
            bad[at] ^= flip;
            let dir = dir();
            dir.put("in/a.parquet", bad);
            match run(&dir, None).2 {
                Ok(()) => read += 1,
                Err(e) => {
                    refused += 1;
                    assert_eq!(e.kind(), Kind::Data, "byte {at}: {e}");
                    assert!(e.to_string().contains("in/a.parquet") && e.next_step().is_some(), "byte {at}: {e}");
                }
            }
        }
    }
    assert!(refused > 100 && read > 0, "{refused} {read}");
}

#[test]
fn a_parquet_file_that_changed_after_it_was_read_is_noticed() {
    let dir = dir();
    dir.put("in/a.parquet", file(0..500, 100));
    let mut source = dir.source();
    let resolved = block(source.resolve(None)).unwrap();
    block(source.seek(&resolved.start, resolved.stop.as_ref())).unwrap();
    assert!(matches!(block(source.poll(Deadline::NEVER)).unwrap(), Polled::Batch(_)));
    let middle = source.position();
    let end = run(&dir, None).1;
    for other in [file(1..501, 100), file(0..400, 100), file(0..600, 100)] {
        dir.put("in/a.parquet", other);
        for from in [&middle, &end] {
            let mut source = dir.source();
            let e = block(source.seek(&middle, resolved.stop.as_ref())).unwrap_err();
            assert_eq!(e.kind(), Kind::Data, "{e}");
            assert!(e.to_string().contains("changed") || e.to_string().contains("shrank"), "{e}");
            assert_eq!(run(&dir, Some(from)).2.unwrap_err().kind(), Kind::Data);
        }
    }
    dir.put("in/a.parquet", file(0..500, 100));
    let (rest, _, done) = run(&dir, Some(&middle));
    done.unwrap();
    assert_eq!(rest.len() as u64, 500 - middle.offset("in/a.parquet"));
}
