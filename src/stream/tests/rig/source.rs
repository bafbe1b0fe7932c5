//! The source of numbers, and the decoder that makes rows of them.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;

use super::store::turn;
use super::{Keep, World};
use crate::decode::{Decoded, Decoder};
use crate::env::Deadline;
use crate::error::Result;
use crate::source::{Offsets, Origin, Polled, Position, Records, Resolved, Source};

/// Record `offset` of `split`.
pub(super) fn id_of(split: &str, offset: u64) -> i64 {
    i64::from(split.as_bytes()[0]) * 100_000 + i64::try_from(offset).unwrap()
}

/// The world's input.
pub(super) struct Numbers {
    pub(super) world: World,
    pub(super) bounded: bool,
    pub(super) chunk: u64,
    pub(super) at: Offsets,
    pub(super) stop: Offsets,
}

impl Numbers {
    fn now(&self) -> Offsets {
        let inputs = self.world.inputs.lock().unwrap().clone();
        inputs.into_iter().map(|(s, n)| (s, Position { offset: n, note: None })).collect()
    }
}

#[async_trait]
impl Source for Numbers {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        Ok(Resolved { start: from.cloned().unwrap_or_default(), stop: self.bounded.then(|| self.now()) })
    }
    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        self.at = offsets.clone();
        self.stop = stop.cloned().unwrap_or_else(|| self.now());
        Ok(())
    }
    async fn poll(&mut self, _: Deadline) -> Result<Polled> {
        turn().await;
        let mut stop = self.now();
        if self.bounded {
            stop.0.iter_mut().for_each(|(split, p)| p.offset = p.offset.min(self.stop.offset(split)));
        }
        let Some((split, end)) = stop.0.iter().find(|(s, p)| self.at.offset(s) < p.offset) else {
            self.world.wait(Duration::from_millis(100));
            return Ok(if self.bounded { Polled::End } else { Polled::Idle });
        };
        let from = self.at.offset(split);
        let to = end.offset.min(from + self.chunk);
        let origin = Origin { split: split.clone(), name: split.clone(), partition: None, header: None };
        let mut records = Records::none(Arc::new(origin));
        let mut text = String::new();
        for offset in from..to {
            text.push_str(&id_of(split, offset).to_string());
            records.ends.push(text.len());
            records.offsets.push(offset);
        }
        records.bytes = Bytes::from(text);
        self.at.0.insert(split.clone(), Position { offset: to, note: None });
        Ok(Polled::Records(records))
    }
    fn position(&self) -> Offsets {
        self.at.clone()
    }
}

pub(super) struct ToIds {
    pub(super) schema: SchemaRef,
    pub(super) keep: Keep,
}

impl Decoder for ToIds {
    fn decode(&mut self, records: &Records) -> Result<Decoded> {
        let ids = (0..records.len()).map(|i| std::str::from_utf8(records.value(i)).unwrap().parse::<i64>().unwrap());
        let ids: Int64Array = ids.filter(|i| (self.keep)(*i)).collect::<Vec<i64>>().into();
        Ok(Decoded { batch: RecordBatch::try_new(self.schema.clone(), vec![Arc::new(ids)]).unwrap(), rejects: Vec::new() })
    }
}
