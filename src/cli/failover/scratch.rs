//! Where the rounds of a series lie, and what lies there: a copy of the pipeline with other locations.

use crate::cli::args::FailoverArgs;
use crate::cli::child::moments::Clean;
use crate::cli::child::standing::ledger;
use crate::cli::pipelines::here;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::pipeline::file::PipelineFile;
use crate::pipeline::location;
use crate::store::{Store, StoreOptions};

/// The directory of a series.
pub(super) struct Scratch {
    store: Store,
    pipeline: std::path::PathBuf,
    set: Vec<String>,
    sinks: usize,
    dead_letter: bool,
}

/// The directory of a round.
pub(super) struct Round {
    pub(super) number: u64,
    pub(super) dir: String,
    /// Overrides, the user's and those that move every location below `dir`.
    pub(super) set: Vec<String>,
    /// The pipeline with them.
    pub(super) file: PipelineFile,
}

impl Scratch {
    /// Beside the checkpoint location, or where it was asked for. `Invalid`: something is there, or it lies in one of the user's tables.
    pub(super) async fn new(args: &FailoverArgs, file: &PipelineFile, seed: u64, env: &Env) -> Result<Scratch> {
        let (dir, option) = match &args.dir {
            Some(dir) => (location::absolute(dir, &here()?).map_err(|e| e.at("--dir"))?, "--dir"),
            None => (beside(&file.checkpoint.location, seed)?, "the default of --dir"),
        };
        let own = file.sinks.iter().map(|s| &s.location).chain(file.dead_letter.iter().map(|d| &d.location));
        for place in own.chain([&file.checkpoint.location]) {
            if location::holds(&location::identity(place), &location::identity(&dir)) {
                let what = format!("{dir} lies inside of {place}, which the pipeline writes to");
                return Err(Error::invalid(what).at(option).hint("give another place with --dir"));
            }
        }
        let store = Store::open(&dir, env, StoreOptions::default())?;
        if store.is_file() || !store.list_all("").await?.is_empty() {
            let hint = "remove it if it is left of an earlier series, or give another --seed or --dir";
            return Err(Error::invalid("something is there already").at(store.url()).hint(hint));
        }
        if store.is_local() {
            // A child would try for minutes, and nobody would see why. A bucket may be slow and says so itself.
            let probe = Store::open(&dir, env, StoreOptions { patience: std::time::Duration::from_secs(5), ..StoreOptions::default() })?;
            let name = format!("writable-{}", env.uuid());
            probe.put_new(&name, bytes::Bytes::from_static(b"may be removed")).await?;
            probe.delete(&name).await?;
        }
        let (pipeline, set) = (args.pipeline.clone(), args.set.clone());
        Ok(Scratch { store, pipeline, set, sinks: file.sinks.len(), dead_letter: file.dead_letter.is_some() })
    }

    /// Overrides for all rounds.
    pub(super) fn settle(&mut self, set: Vec<String>) {
        self.set.extend(set);
    }

    /// Its location.
    pub(super) fn dir(&self) -> &str {
        self.store.url()
    }

    /// Round `number`: nothing is there yet.
    pub(super) fn round(&self, number: u64) -> Result<Round> {
        let dir = format!("{}/round-{number}", self.store.url().trim_end_matches('/'));
        let mut set = self.set.clone();
        // A JSON text is a YAML text too; `$` alone means something else.
        let mut put = |key: &str, name: &str| {
            let text = serde_json::Value::String(format!("{dir}/{name}").replace('$', "$$"));
            set.push(format!("{key}={text}"));
        };
        for i in 0..self.sinks {
            put(&format!("sinks.{i}.location"), &format!("sink-{i}"));
        }
        if self.dead_letter {
            put("dead_letter.location", "dead-letter");
        }
        put("checkpoint.location", "checkpoints");
        // Two processes of a round may live at once, and there is one port.
        set.push("metrics=~".to_owned());
        let file = PipelineFile::load(&self.pipeline, &set)?;
        Ok(Round { number, dir, set, file })
    }

    /// Removes what a round left.
    pub(super) async fn remove(&self, round: &Round) -> Result<()> {
        if self.store.is_local() {
            return std::fs::remove_dir_all(&round.dir)
                .map_err(|e| Error::unavailable("the round's directory cannot be removed").at(&round.dir).because(e));
        }
        let name = format!("round-{}", round.number);
        for entry in self.store.list_all(&name).await? {
            self.store.delete(&format!("{name}/{}", entry.name)).await?;
        }
        Ok(())
    }

    /// Removes the directory itself, if nothing is in it; a bucket has none.
    pub(super) fn remove_all(&self) {
        if self.store.is_local() {
            let _ = std::fs::remove_dir(self.store.url());
        }
    }
}

fn beside(checkpoints: &str, seed: u64) -> Result<String> {
    match checkpoints.rsplit_once('/').filter(|(parent, _)| !parent.ends_with('/')) {
        Some((parent, _)) => Ok(format!("{parent}/failover-{seed}")),
        None => Err(Error::invalid("there is no place beside the checkpoint location").at(checkpoints).hint("give one with --dir")),
    }
}

/// What share of the run is done, measured in checkpoints.
pub(super) async fn progress(round: &Round, clean: &Clean, env: &Env) -> Result<f64> {
    let greatest = ledger(&round.file, env)?.list().await?.last().copied().unwrap_or(0);
    // Without end more than all of it would be done after a few processes whose checkpoints were small.
    Ok((greatest as f64 / clean.counts.checkpointed.max(1) as f64).min(0.9))
}
