//! What a start asks of the tables before it touches anything: do they belong to this chain? (I14)

use crate::error::{Error, Kind, Result};
use crate::sink::{Anchor, Registration};
use crate::stream::event::Event;
use crate::stream::ledger::{Ledger, Written};
use crate::stream::sinks::Sinks;
use crate::stream::start::{Start, StartOptions};

impl StartOptions {
    /// Does what a table says of its chain fit the chain here? `Data`: the chain is lost, moved, mistyped or older, or belongs to somebody else.
    pub(crate) async fn check_registrations(&self, ledger: &Ledger, greatest: Option<&Written>, anchor: &dyn Anchor) -> Result<()> {
        for registration in anchor.registrations(ledger.pipeline()).await? {
            if let Some((what, hint)) = self.problem(ledger.location(), greatest, anchor.url(), &registration) {
                return Err(Error::data(what).at(anchor.url()).hint(hint));
            }
        }
        Ok(())
    }

    fn problem(&self, here: &str, greatest: Option<&Written>, url: &str, r: &Registration) -> Option<(String, &'static str)> {
        let theirs = format!("checkpoint {} of chain {} at {}", r.seq, r.chain, r.location);
        let Some(ours) = greatest.map(|w| &w.checkpoint) else {
            return (!self.forget).then(|| {
                (
                    format!("pipeline `{}` has written to this table before ({theirs}), and there is no chain at {here}", r.pipeline),
                    "the chain was moved, deleted or mistyped: set checkpoint.location to where it is; --forget begins anew and writes everything again",
                )
            });
        };
        if r.chain != ours.chain {
            return (!self.adopt).then(|| {
                (
                    format!("this table belongs to {theirs}; the chain at {here} is {}", ours.chain),
                    "two pipelines have one name: give one another; or take the table over with --adopt",
                )
            });
        }
        if r.seq > ours.seq {
            return Some((
                format!("the table knows of {theirs}; the greatest checkpoint at {here} is {}", ours.seq),
                "the chain is older than the table, as after restoring a backup: restore the newest one; going on would double rows",
            ));
        }
        ((r.location != here || r.sink != url) && !self.adopt).then(|| {
            (
                format!("the table says that its chain lies at {} and calls it {}; now they are at {here} and {url}", r.location, r.sink),
                "if both were moved on purpose and no copy is left behind, say so with --adopt",
            )
        })
    }

    /// What is asked for by name must be there: an option that is passed over is a defect.
    pub(crate) fn check(&self, greatest: Option<&Written>, sinks: &Sinks) -> Result<()> {
        if self.forget && greatest.is_some() {
            return Err(Error::invalid("--forget is for a chain that is gone, and there is one here")
                .hint("leave --forget out; to write everything again, use --rewind"));
        }
        let named = self.resolve.keys().chain(&self.drop_sinks);
        for url in named.map(|url| url.trim_end_matches('/')) {
            let mut known: Vec<&String> = greatest.iter().flat_map(|w| w.checkpoint.sinks.keys()).collect();
            known.extend(sinks.configured.keys());
            known.extend(greatest.iter().filter_map(|w| w.checkpoint.close.as_ref()).flat_map(|close| close.sinks.keys()));
            if !known.iter().any(|k| *k == url) {
                return Err(Error::invalid(format!("the pipeline has no sink {url}; it has {known:?}"))
                    .hint("--drop-sink and --resolve want a sink's absolute location, as the chain has it"));
            }
        }
        if let Some(url) = self.drop_sinks.iter().find(|url| sinks.configured.contains_key(url.trim_end_matches('/'))) {
            return Err(
                Error::invalid(format!("--drop-sink {url}: the pipeline file still names it")).hint("take it out of the file first")
            );
        }
        Ok(())
    }
}

impl Start<'_> {
    /// Checks every table first, and only then lets go of what `--adopt` and `--forget` replace.
    pub(super) async fn check_tables(&self, greatest: Option<&Written>, sinks: &Sinks) -> Result<()> {
        for (_, sink) in sinks.all() {
            self.options.check_registrations(&self.ledger, greatest, sink.anchor()).await?;
        }
        if self.options.adopt || self.options.forget {
            for (_, sink) in sinks.all() {
                sink.anchor().forget(self.ledger.pipeline()).await?;
            }
        }
        Ok(())
    }

    /// `--adopt` of moved sinks: a sink that the chain names and the file does not is matched with one that the file names and the chain
    /// does not, by the table's identity.
    pub(super) async fn adopt_moved_sinks(&self, written: &Written, sinks: &mut Sinks) -> Result<()> {
        if !self.options.adopt {
            return Ok(());
        }
        let mut new = Vec::new();
        for (url, sink) in sinks.all() {
            if !written.checkpoint.sinks.contains_key(url) {
                new.push((url.clone(), sink.anchor().head().await?.table));
            }
        }
        for (old, entry) in &written.checkpoint.sinks {
            if sinks.configured.contains_key(old) {
                continue;
            }
            let matching: Vec<&String> = new.iter().filter(|(_, table)| table == &entry.floor.table).map(|(url, _)| url).collect();
            if let [url] = matching[..] {
                self.events.tell(Event::Warning { text: format!("{old} is at {url} now") });
                sinks.moved.insert(old.clone(), url.clone());
            }
        }
        Ok(())
    }

    /// Opens every sink that the greatest checkpoint names. One that `--drop-sink` names may be gone; one that is there is finished and
    /// closed like the others.
    pub(super) async fn open_named(&self, written: &Written, sinks: &mut Sinks) -> Result<()> {
        let checkpoint = &written.checkpoint;
        let named = checkpoint.sinks.iter().map(|(url, e)| (url, &e.format));
        let closing = checkpoint.close.iter().flat_map(|c| &c.sinks).map(|(url, e)| (url, &e.format));
        for (url, format) in named.chain(closing) {
            let now_at = sinks.now_at(url);
            let Err(error) = sinks.get_by(&now_at, format, self.opener).await.map(drop) else { continue };
            if !self.dropped(url) || error.kind() == Kind::Unavailable {
                return Err(error);
            }
            sinks.gone.insert(url.clone());
        }
        Ok(())
    }
}
