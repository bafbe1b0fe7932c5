//! A source written outside the crate, in at most 80 lines, keeps all promises; and the suite notices when one does not.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "../examples/own_source.rs"]
#[expect(dead_code, reason = "its main is for `cargo run --example`")]
mod own;

use lakeward::env::Deadline;
use lakeward::source::{Offsets, Polled, Resolved, Source, conformance};
use lakeward::{Env, Result};

fn log(records: usize) -> tempfile::NamedTempFile {
    let mut bytes = Vec::new();
    for n in 0..records {
        let value = format!("record {n} {}", "x".repeat(n % 300));
        bytes.extend_from_slice(&u32::try_from(value.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(value.as_bytes());
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

#[tokio::test]
async fn a_source_of_80_lines_passes_the_conformance_suite() {
    assert!(include_str!("../examples/own_source.rs").lines().count() <= 80);
    let file = log(5000);
    conformance::check(&Env::real(), || Ok(own::LogFile::new(Env::real(), file.path()))).await.unwrap();
}

/// The sample, broken in one way.
struct Broken(own::LogFile, &'static str, usize);

#[async_trait::async_trait]
impl Source for Broken {
    async fn resolve(&mut self, from: Option<&Offsets>) -> Result<Resolved> {
        self.0.resolve(if self.1 == "forgets from" { None } else { from }).await
    }
    async fn seek(&mut self, offsets: &Offsets, stop: Option<&Offsets>) -> Result<()> {
        let none = Offsets::default();
        self.0.seek(if self.1 == "seeks to the start" { &none } else { offsets }, stop).await
    }
    async fn poll(&mut self, deadline: Deadline) -> Result<Polled> {
        self.2 += 1;
        let mut polled = self.0.poll(deadline).await?;
        match (&mut polled, self.1) {
            (Polled::Records(r), "offsets stand still") => r.offsets[1] = r.offsets[0],
            (Polled::Records(r), "loses the last record") if self.2 == 2 => drop((r.ends.pop(), r.offsets.pop())),
            (Polled::Records(r), "other bytes") => r.bytes = r.bytes.iter().map(|b| b ^ Env::real().uuid().as_bytes()[0]).collect(),
            (Polled::End, "goes on after the end") if self.2.is_multiple_of(2) => {
                Env::real().sleep(std::time::Duration::from_millis(100)).await;
                return Ok(Polled::Idle);
            }
            (_, "is never on time") => Env::real().sleep(std::time::Duration::from_secs(3)).await,
            _ => {}
        }
        Ok(polled)
    }
    fn position(&self) -> Offsets {
        let mut position = self.0.position();
        if self.1 == "position runs ahead" {
            position.0.values_mut().for_each(|p| p.offset += 1000);
        }
        position
    }
}

#[tokio::test]
async fn every_broken_promise_is_noticed() {
    let file = log(2000);
    let broken = [
        ("forgets from", "resolve(from) starts before"),
        ("seeks to the start", "after seek the position is"),
        ("offsets stand still", "offsets must rise"),
        ("loses the last record", "after a seek to position"),
        ("other bytes", "read a second time"),
        ("goes on after the end", "after End came"),
        ("is never on time", "to its deadline took"),
        ("position runs ahead", "was not given yet"),
    ];
    for (how, message) in broken {
        let make = || Ok(Broken(own::LogFile::new(Env::real(), file.path()), how, 0));
        let found = conformance::check(&Env::real(), make).await.expect_err(how);
        assert!(found.contains(message), "{how}: {found}");
    }
}
