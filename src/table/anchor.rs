//! What a chain keeps in a table: registrations under `_lakeward/`, and the pin against expiry.

use async_trait::async_trait;
use bytes::Bytes;

use crate::env::Rule;
use crate::error::{Error, Result};
use crate::format::{CommitUser, Floor, REGISTRATION_DIR, registration};
use crate::publish::{Publication, publish};
use crate::sink::{Anchor, Registration};
use crate::table::Table;

#[async_trait]
impl Anchor for Table {
    fn url(&self) -> &str {
        self.store.url()
    }
    fn format(&self) -> &str {
        self.log.format().name()
    }

    async fn head(&self) -> Result<Floor> {
        Ok(self.log.snapshots().head(None, None, None).await?.floor())
    }

    async fn register(&self, ours: &Registration) -> Result<()> {
        let name = registration(&ours.pipeline, ours.seq);
        let text = serde_json::to_vec_pretty(ours).map_err(|e| Error::internal("a registration cannot be written").because(e))?;
        let deadline = self.store.env().deadline(self.store.patience());
        // The bytes hold the lineage's commit user, a fresh uuid, so the same bytes are this very registration.
        match publish(&self.store, &name, Bytes::from(text), deadline).await? {
            Publication::Published => Ok(()),
            Publication::Taken(other) => {
                let other: Option<Registration> = serde_json::from_slice(&other).ok();
                if other.as_ref() == Some(ours) {
                    return Ok(());
                }
                let whose = other.map_or_else(|| "unreadable".to_owned(), |o| format!("of chain {} at {}", o.chain, o.location));
                Err(Error::data(format!("the registration {name} is there already, {whose}"))
                    .at(self.url())
                    .hint("two chains write to this table under one pipeline name; give one another name, or take over with --adopt"))
            }
        }
    }

    async fn registrations(&self, pipeline: &str) -> Result<Vec<Registration>> {
        let dir = format!("{REGISTRATION_DIR}/{pipeline}");
        let mut found = Vec::new();
        for entry in self.store.list(&dir).await? {
            let name = format!("{dir}/{}", entry.name);
            let Some(bytes) = self.store.get(&name).await? else { continue };
            let registration = serde_json::from_slice(&bytes)
                .map_err(|e| Error::data("this registration cannot be read").at(format!("{}/{name}", self.url())).because(e))?;
            found.push(registration);
        }
        Ok(found)
    }

    async fn forget(&self, pipeline: &str) -> Result<()> {
        let dir = format!("{REGISTRATION_DIR}/{pipeline}");
        for entry in self.store.list(&dir).await? {
            self.store.delete(&format!("{dir}/{}", entry.name)).await?;
        }
        Ok(())
    }

    async fn pin(&self, user: &CommitUser, snapshot: u64) -> Result<()> {
        if self.store.env().broken(Rule::Pin) {
            return Ok(());
        }
        self.log.pin(user, snapshot).await
    }

    async fn unpin(&self, pipeline: &str, before: u64) -> Result<()> {
        let prefix = format!("{pipeline}-");
        // Pins first: a lineage is registered before it is pinned, so a pin that is seen here and has no registration below is nobody's.
        let pins = self.log.pins(&prefix).await?;
        if pins.is_empty() {
            return Ok(());
        }
        let registered = self.registrations(pipeline).await?;
        for (user, _) in pins {
            // `orders-` also begins the users of a pipeline called `orders-eu`; after ours comes a uuid and nothing else.
            let ours = user.as_str().strip_prefix(&prefix).is_some_and(|rest| uuid::Uuid::try_parse(rest).is_ok());
            let later = registered.iter().any(|r| r.user == user && r.seq >= before);
            if ours && !later {
                self.log.unpin(&user).await?;
            }
        }
        Ok(())
    }
}
