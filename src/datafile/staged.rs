//! Rows that wait in memory until there are enough of their place (a partition and bucket) to make a file of them.
//!
//! They lie in compact pieces, ordered by place. A place's rows leave all together; the room that they leave in their pieces is taken back
//! when it is worth copying what stays.

use arrow::array::RecordBatch;
use arrow::compute::interleave_record_batch;

use crate::error::{Error, Result};

/// Pieces of so many bytes are large enough.
const LARGE: usize = 1 << 20;
/// So many smaller pieces of one level are put together.
const TOGETHER: usize = 8;
/// The level of pieces that are large enough.
const TOP: u8 = u8::MAX;

/// The rows of one place in a piece: `from..to`; none when they have left.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) place: u32,
    pub(super) from: u32,
    pub(super) to: u32,
}

struct Piece {
    rows: RecordBatch,
    /// Rising places.
    runs: Vec<Run>,
    /// Rows that have not left.
    live: usize,
    memory: usize,
    level: u8,
}

/// What waits of one place.
#[derive(Clone, Copy, Default)]
struct Waiting {
    rows: usize,
    bytes: usize,
}

/// See the module.
#[derive(Default)]
pub(super) struct Staged {
    /// In the order of arrival.
    pieces: Vec<Piece>,
    waiting: Vec<Waiting>,
    memory: usize,
    bytes: usize,
}

impl Staged {
    /// Bytes in memory, those included that have left and whose room is not taken back.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }
    /// Bytes of the rows that wait, an estimate.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
    /// Bytes of the rows of one place that wait, an estimate; 0 exactly if there are none.
    pub(super) fn bytes_of(&self, place: usize) -> usize {
        self.waiting.get(place).map_or(0, |w| w.bytes)
    }

    /// Takes rows in. `runs`: rising places, each with the next rows of `rows`, all of them together.
    pub(super) fn push(&mut self, rows: RecordBatch, runs: Vec<Run>) -> Result<()> {
        let per_row = (rows.get_array_memory_size() / rows.num_rows().max(1)).max(1);
        for run in &runs {
            let place = run.place as usize;
            if self.waiting.len() <= place {
                self.waiting.resize(place + 1, Waiting::default());
            }
            let count = run.len();
            self.waiting[place].rows += count;
            self.waiting[place].bytes += count * per_row;
            self.bytes += count * per_row;
        }
        self.keep(rows, runs, 0);
        // As in a counter with radix TOGETHER: each row is copied a few times at most, and there are few pieces.
        while let Some(last) = self.pieces.last().filter(|p| p.level != TOP) {
            let level = last.level;
            let same = self.pieces.iter().rev().take_while(|p| p.level == level).count();
            if same < TOGETHER {
                break;
            }
            let old = self.pieces.split_off(self.pieces.len() - same);
            self.memory -= old.iter().map(|p| p.memory).sum::<usize>();
            if let Some((rows, runs)) = together(&old)? {
                self.keep(rows, runs, level + 1);
            }
        }
        Ok(())
    }

    fn keep(&mut self, rows: RecordBatch, mut runs: Vec<Run>, level: u8) {
        runs.shrink_to_fit();
        let memory = rows.get_array_memory_size() + runs.len() * size_of::<Run>();
        self.memory += memory;
        let level = if memory >= LARGE { TOP } else { level };
        self.pieces.push(Piece { live: rows.num_rows(), rows, runs, memory, level });
    }

    /// Takes out all rows of these places: place by place, in the order of their arrival; with the number of rows of each.
    pub(super) fn take(&mut self, places: &[usize]) -> Result<(RecordBatch, Vec<usize>)> {
        let mut rows = Vec::new();
        let mut counts = Vec::with_capacity(places.len());
        for place in places {
            let before = rows.len();
            let waiting = self.waiting.get_mut(*place).map(std::mem::take).unwrap_or_default();
            self.bytes -= waiting.bytes;
            for (number, piece) in self.pieces.iter_mut().enumerate() {
                let Ok(at) = piece.runs.binary_search_by_key(place, |run| run.place as usize) else { continue };
                let run = &mut piece.runs[at];
                rows.extend((run.from..run.to).map(|row| (number, row as usize)));
                piece.live -= run.len();
                run.to = run.from;
            }
            debug_assert_eq!(rows.len() - before, waiting.rows);
            counts.push(rows.len() - before);
        }
        Ok((gather(&self.pieces, &rows)?, counts))
    }

    /// Takes back the room of rows that have left, where that is half of a piece or more.
    pub(super) fn tidy(&mut self) -> Result<()> {
        for piece in std::mem::take(&mut self.pieces) {
            if piece.live * 2 > piece.rows.num_rows() {
                self.pieces.push(piece);
                continue;
            }
            self.memory -= piece.memory;
            let level = piece.level;
            if let Some((rows, runs)) = together(&[piece])? {
                self.keep(rows, runs, level);
            }
        }
        Ok(())
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Staged::default();
    }
}

impl Run {
    fn len(&self) -> usize {
        (self.to - self.from) as usize
    }
}

/// The rows of these pieces that have not left, as one piece; none: all have left.
fn together(pieces: &[Piece]) -> Result<Option<(RecordBatch, Vec<Run>)>> {
    let of = |(number, piece): (usize, &Piece)| piece.runs.iter().filter(|r| r.len() > 0).map(move |r| (number, *r)).collect::<Vec<_>>();
    let mut runs: Vec<(usize, Run)> = pieces.iter().enumerate().flat_map(of).collect();
    if runs.is_empty() {
        return Ok(None);
    }
    runs.sort_by_key(|(_, run)| run.place); // stable: earlier pieces first
    let mut rows = Vec::with_capacity(pieces.iter().map(|p| p.live).sum());
    let mut places: Vec<Run> = Vec::new();
    let mut at = 0;
    for (number, run) in runs {
        rows.extend((run.from..run.to).map(|row| (number, row as usize)));
        let to = at + run.to - run.from;
        match places.last_mut() {
            Some(last) if last.place == run.place => last.to = to,
            _ => places.push(Run { place: run.place, from: at, to }),
        }
        at = to;
    }
    Ok(Some((gather(pieces, &rows)?, places)))
}

/// These rows (piece and row), in a batch of their own.
fn gather(pieces: &[Piece], rows: &[(usize, usize)]) -> Result<RecordBatch> {
    let batches: Vec<&RecordBatch> = pieces.iter().map(|p| &p.rows).collect();
    if batches.is_empty() {
        return Err(Error::internal("rows are asked for where none wait").hint("please report this"));
    }
    Ok(interleave_record_batch(&batches, rows)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray as _, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use proptest::prelude::*;

    use super::*;

    fn rows(ids: &[i64], pad: usize) -> RecordBatch {
        let texts = StringArray::from_iter_values(ids.iter().map(|id| format!("{id}{}", "x".repeat(pad))));
        RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(ids.to_vec())) as ArrayRef), ("t", Arc::new(texts))]).unwrap()
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// The places of the next rows, and how long they are.
        Push(Vec<usize>, usize),
        Take(Vec<usize>),
        Tidy,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let push = (proptest::collection::vec(0..12_usize, 1..40), prop_oneof![Just(0_usize), Just(20), Just(70_000)]);
        let step = prop_oneof![
            6 => push.prop_map(|(places, pad)| Step::Push(places, pad)),
            2 => proptest::sample::subsequence((0..12).collect::<Vec<usize>>(), 0..6).prop_map(Step::Take),
            1 => Just(Step::Tidy),
        ];
        proptest::collection::vec(step, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn what_leaves_is_what_came_in_the_order_in_which_it_came(steps in steps()) {
            let (mut staged, mut expected, mut next) = (Staged::default(), vec![Vec::new(); 12], 0_i64);
            let all = Step::Take((0..12).collect());
            for step in steps.into_iter().chain([all]) {
                match step {
                    Step::Push(mut places, pad) => {
                        places.sort_unstable();
                        let ids: Vec<i64> = (next..).take(places.len()).collect();
                        next += places.len() as i64;
                        let mut runs: Vec<Run> = Vec::new();
                        for (at, (place, id)) in places.iter().zip(&ids).enumerate() {
                            expected[*place].push(*id);
                            let at = at as u32;
                            match runs.last_mut() {
                                Some(last) if last.place == *place as u32 => last.to = at + 1,
                                _ => runs.push(Run { place: *place as u32, from: at, to: at + 1 }),
                            }
                        }
                        staged.push(rows(&ids, pad), runs).unwrap();
                    }
                    Step::Take(places) => {
                        let wanted: Vec<Vec<i64>> = places.iter().map(|p| std::mem::take(&mut expected[*p])).collect();
                        if staged.pieces.is_empty() {
                            prop_assert!(wanted.concat().is_empty());
                            continue;
                        }
                        let (batch, counts) = staged.take(&places).unwrap();
                        prop_assert_eq!(batch.column(0).as_primitive::<Int64Type>().values().to_vec(), wanted.concat());
                        prop_assert_eq!(counts, wanted.iter().map(Vec::len).collect::<Vec<_>>());
                    }
                    Step::Tidy => {
                        staged.tidy().unwrap();
                        prop_assert!(staged.pieces.iter().all(|p| p.live * 2 > p.rows.num_rows()));
                    }
                }
                let held: usize = staged.pieces.iter().map(|p| p.rows.get_array_memory_size() + p.runs.len() * size_of::<Run>()).sum();
                prop_assert_eq!(staged.memory(), held);
                for (place, rows) in expected.iter().enumerate() {
                    prop_assert_eq!(staged.bytes_of(place) > 0, !rows.is_empty());
                }
                let small = staged.pieces.iter().filter(|p| p.level != TOP).count();
                prop_assert!(small <= TOGETHER * 6, "{} small pieces", small);
            }
            prop_assert_eq!(staged.bytes(), 0);
            staged.tidy().unwrap();
            prop_assert_eq!(staged.memory(), 0);
        }
    }
}
