//! What the tests of decoding share.

use std::sync::Arc;

use super::{ColumnSpec, Mapping, OnNewField};
use crate::source::{Origin, Records};

pub(super) fn spec(name: &str, type_text: &str) -> ColumnSpec {
    ColumnSpec { name: name.to_owned(), type_text: type_text.to_owned(), ..ColumnSpec::default() }
}

pub(super) fn mapping(specs: &[ColumnSpec]) -> Mapping {
    checked(specs, &[])
}

pub(super) fn checked(specs: &[ColumnSpec], checks: &[&str]) -> Mapping {
    let checks: Vec<String> = checks.iter().map(|c| (*c).to_owned()).collect();
    Mapping::build(specs, &checks, OnNewField::Ignore, &[]).unwrap()
}

pub(super) fn records<R: AsRef<[u8]>>(values: &[R]) -> Records {
    let mut bytes = b"before".to_vec();
    let start = bytes.len();
    let mut ends = Vec::new();
    for value in values {
        bytes.extend_from_slice(value.as_ref());
        ends.push(bytes.len());
    }
    let n = values.len() as u64;
    Records {
        origin: Arc::new(Origin { split: "in".into(), name: "in/a.ndjson".into(), partition: None, header: None }),
        bytes: bytes.into(),
        start,
        offsets: ends.iter().map(|e| *e as u64).collect(),
        ends,
        lines: (1..=n).collect(),
        timestamps: Vec::new(),
        keys: Vec::new(),
        headers: Vec::new(),
        faults: Vec::new(),
        nulls: Vec::new(),
    }
}
