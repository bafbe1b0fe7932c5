//! One chunk through the decoders of all lanes.

use crate::decode::{Chunk, Decoded, Reject};
use crate::error::Result;
use crate::stream::window::{Decoders, LaneOutput};

/// Decodes a chunk for every lane. Below a lane's second cut its rows are settled and only rejects count; below the first, nothing does.
pub(super) fn decode_all(decoders: &mut Decoders, chunk: &Chunk, cuts: &[(usize, usize)]) -> Result<Vec<LaneOutput>> {
    let mut all = Vec::with_capacity(decoders.len());
    for (decoder, (dead, rows)) in decoders.iter_mut().zip(cuts) {
        let mut output = LaneOutput { batch: None, rejects: Vec::new() };
        if dead < rows {
            output.rejects = shifted(chunk.slice(*dead, *rows).decode(decoder.as_mut())?.rejects, *dead);
        }
        if *rows < chunk.len() {
            let whole = *rows == 0;
            let Decoded { batch, rejects } =
                if whole { chunk.decode(decoder.as_mut())? } else { chunk.slice(*rows, chunk.len()).decode(decoder.as_mut())? };
            output.batch = Some(batch);
            output.rejects.extend(shifted(rejects, *rows).into_iter().filter(|r| r.index >= *dead));
        }
        all.push(output);
    }
    Ok(all)
}

fn shifted(rejects: Vec<Reject>, by: usize) -> Vec<Reject> {
    rejects.into_iter().map(|r| Reject { index: r.index + by, ..r }).collect()
}
