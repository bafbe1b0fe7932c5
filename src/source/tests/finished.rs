//! Files that were read to their ends and are put away: offsets stay small, and mean the same.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use async_trait::async_trait;
use bytes::Bytes;

use super::super::finished::{Finished, Record, digest, record};
use super::super::watch::Watch;
use super::*;

#[derive(Default)]
struct Memory(Mutex<HashMap<String, Bytes>>);

#[async_trait]
impl Shelf for Memory {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.0.lock().unwrap().insert(name.to_owned(), bytes);
        Ok(())
    }
    async fn get(&self, name: &str) -> Result<Option<Bytes>> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }
}

fn rec(name: &str, offset: u64) -> Record {
    record(name, offset, offset, "0123456789abcdef", None).unwrap()
}

fn with(this: Option<&Finished>, more: Vec<Record>, shelf: &Memory) -> Finished {
    block(Finished::with(this, more, shelf)).unwrap()
}

fn reloaded(offsets: &Offsets, shelf: &Memory) -> Offsets {
    let text = serde_json::to_string(offsets).unwrap();
    let back: Offsets = serde_json::from_str(&text).unwrap();
    let finished = back.1.map(|f| if f.pending().is_some() { Arc::new(block(f.load(shelf)).unwrap()) } else { f });
    Offsets(back.0, finished)
}

/// Named offsets, and which of them to put away; the same with everything named is what they mean.
type Model = (Offsets, BTreeMap<String, u64>);

fn plain(model: &BTreeMap<String, u64>) -> Offsets {
    model.iter().map(|(split, offset)| (split.clone(), Position { offset: *offset, note: None })).collect()
}

/// Everything that the models put away.
static SHELF: LazyLock<Memory> = LazyLock::new(Memory::default);

fn models() -> impl Strategy<Value = Vec<Model>> {
    // Per split: not known, named, put away, or put away and named again (further or not as far).
    let split = || (0..5u8, 1..4u64, 1..4u64);
    prop::collection::vec(prop::collection::vec(split(), 6), 2).prop_map(|both| {
        let one = |splits: Vec<(u8, u64, u64)>| {
            let (mut named, mut away, mut means) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
            for (i, (kind, a, b)) in splits.into_iter().enumerate() {
                let name = format!("f{i}");
                let position = Position { offset: a, note: None };
                match kind {
                    0 | 1 => {}
                    2 => drop(named.insert(name.clone(), position)),
                    3 => away.push(rec(&name, a)),
                    _ => {
                        named.insert(name.clone(), position);
                        away.push(rec(&name, b));
                    }
                }
                if kind > 1 {
                    means.insert(name, a);
                }
            }
            let finished = (!away.is_empty()).then(|| Arc::new(with(None, away, &SHELF)));
            (Offsets(named, finished), means)
        };
        both.into_iter().map(one).collect()
    })
}

fn means(offsets: &Offsets) -> BTreeMap<String, u64> {
    (0..6).map(|i| format!("f{i}")).map(|f| (f.clone(), offsets.offset(&f))).filter(|(_, offset)| *offset > 0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn offsets_mean_the_same_whichever_splits_are_put_away(models in models()) {
        let [(a, plain_a), (b, plain_b)] = &models[..] else { panic!() };
        let (pa, pb) = (plain(plain_a), plain(plain_b));
        prop_assert_eq!(&means(a), plain_a);
        prop_assert_eq!(means(&a.max(b)), means(&pa.max(&pb)), "max");
        prop_assert_eq!(means(&a.min(b)), means(&pa.min(&pb)), "min");
        prop_assert_eq!(means(&a.overlaid(b)), means(&pa.overlaid(&pb)), "overlaid");
        prop_assert_eq!(a.covers(b), pa.covers(&pb), "covers");
        prop_assert!(a.covers(a) && a.max(b).covers(a) && a.covers(&a.min(b)));
        // Also what is in no segment survives JSON.
        let back = reloaded(&a.min(b), &SHELF);
        prop_assert_eq!(back, a.min(b));
    }
}

#[test]
fn segments_are_put_together_and_read_back_and_a_lost_or_damaged_one_is_data() {
    let shelf = Memory::default();
    let mut all: Option<Finished> = None;
    for n in 0..500 {
        let more = (0..200).map(|i| rec(&format!("in/{n}-{i}"), n + 1)).collect();
        all = Some(with(all.as_ref(), more, &shelf));
    }
    let all = all.unwrap();
    assert_eq!(all.len(), 100_000);
    let offsets = Offsets(BTreeMap::new(), Some(Arc::new(all)));
    let text = serde_json::to_string(&offsets).unwrap();
    assert!(text.len() < 1500, "{text}");
    assert_eq!(reloaded(&offsets, &shelf), offsets);
    assert_eq!((offsets.offset("in/7-3"), offsets.offset("in/7-200")), (8, 0));
    let back: Offsets = serde_json::from_str(&text).unwrap();
    let listed = back.1.unwrap();
    let name = listed.pending().unwrap()[0].0.clone();
    shelf.0.lock().unwrap().insert(name.clone(), Bytes::from_static(&[0; 32]));
    assert!(block(listed.load(&shelf)).unwrap_err().to_string().contains("damaged"));
    shelf.0.lock().unwrap().remove(&name);
    let e = block(listed.load(&shelf)).unwrap_err();
    assert_eq!(e.kind(), Kind::Data, "{e}");
    assert!(e.next_step().is_some());
}

fn watched(dir: &Dir, shelf: &Arc<Memory>) -> FilesSource {
    let mut options = dir.1.clone();
    options.watch = Some(Watch { every: Duration::from_millis(2), ..Watch::default() });
    FilesSource::new(Env::real(), options).unwrap().with_shelf(shelf.clone())
}

fn rest(source: &mut FilesSource) -> Vec<String> {
    let (mut seen, env) = (Vec::new(), source.env.clone());
    source.watching.as_mut().unwrap().next_look = Duration::ZERO;
    loop {
        match block(source.poll(env.deadline(Duration::from_millis(10)))).unwrap() {
            Polled::Records(r) => look_at(&r, &mut seen),
            Polled::Idle if source.queue.is_empty() && source.current.is_none() => return texts(&seen),
            Polled::Idle => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn many_finished_files_make_small_offsets_and_none_is_read_twice_or_missed() {
    let dir = Dir::new(&["in/**/*"], Framing::Lines);
    let shelf = Arc::new(Memory::default());
    let mut source = watched(&dir, &shelf);
    block(source.seek(&Offsets::default(), None)).unwrap();
    let mut count = 0;
    for round in 0..4 {
        for n in 0..300 {
            dir.put(&format!("in/{}/{n:04}", 9 - round), format!("{round} {n}"));
        }
        dir.put(&format!("in/{round}.gz"), gzip(b"packed\n"));
        for n in 0..300 {
            dir.add(&format!("in/{}/{n:04}", 9 - round), "\n");
        }
        count += rest(&mut source).len();
        let position = source.position();
        block(source.committed(&position)).unwrap();
    }
    assert_eq!(count, 1204);
    let end = source.position();
    assert_eq!(end.finished() as usize + end.0.len(), 1204);
    assert!(end.0.len() < 300, "{}", end.0.len());
    let stored = reloaded(&end, &shelf);
    for name in ["in/9/0000", "in/6/0299"] {
        assert!(stored.position(name).unwrap().note.is_some());
    }
    let unread: Offsets = serde_json::from_str(&serde_json::to_string(&end).unwrap()).unwrap();
    let mut source = watched(&dir, &shelf);
    block(source.seek(&unread, None)).unwrap();
    assert!(rest(&mut source).is_empty());
    dir.put("in/6/0000a", "low\n").put("in/0", "lowest\n");
    dir.add("in/9/0007", "grown\n");
    dir.add("in/0.gz", gzip(b"more\n"));
    assert_eq!(rest(&mut source), ["lowest", "more", "low", "grown"]);
    let later = source.position();
    assert!(later.covers(&end) && !end.covers(&later));
    assert_eq!(later.offset("in/9/0007"), end.offset("in/9/0007") + 6);
    // What was put away is still known by its bytes.
    dir.put("in/9/0008", "other and longer\n");
    let e = block(watched(&dir, &shelf).seek(&later, None)).unwrap_err();
    assert!(e.kind() == Kind::Data && e.to_string().contains("in/9/0008"), "{e}");
    let alone = FilesSource::new(Env::real(), FilesOptions { watch: Some(Watch::default()), ..dir.1.clone() }).unwrap();
    assert_eq!(block({ alone }.seek(&unread, None)).unwrap_err().kind(), Kind::Invalid, "not without the shelf");
}

#[test]
fn parquet_files_are_put_away_too_and_a_changed_one_is_noticed() {
    let dir = Dir::new(&["in/*.parquet"], Framing::Parquet);
    let shelf = Arc::new(Memory::default());
    let mut source = watched(&dir, &shelf);
    let small = columnar::file(0..3, 10);
    for n in 0..300 {
        dir.put(&format!("in/{n:03}.parquet"), &small);
    }
    block(source.seek(&Offsets::default(), None)).unwrap();
    let mut rows = 0;
    while rows < 900 {
        if let Polled::Batch(batch) = block(source.poll(source.env.deadline(Duration::from_millis(50)))).unwrap() {
            rows += batch.batch.num_rows();
        }
    }
    let at = source.position();
    block(source.committed(&at)).unwrap();
    let end = source.position();
    assert_eq!((end.finished(), end.0.len()), (236, 64));
    let mut again = watched(&dir, &shelf);
    block(again.seek(&end, None)).unwrap();
    assert!(matches!(block(again.poll(again.env.deadline(Duration::from_millis(10)))).unwrap(), Polled::Idle));
    dir.put("in/000.parquet", columnar::file(0..4, 10));
    let e = block(watched(&dir, &shelf).seek(&end, None)).unwrap_err();
    assert!(e.kind() == Kind::Data && e.to_string().contains("in/000.parquet"), "{e}");
}

#[test]
fn names_have_digests_of_their_own() {
    let all: std::collections::HashSet<u64> = (0..100_000).map(|n| digest(&format!("in/{n}"))).collect();
    assert_eq!(all.len(), 100_000);
}
