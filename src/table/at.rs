//! As of when a table is looked at.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use crate::error::{Error, Result};
use crate::format::delta::log::DeltaSnapshot;
use crate::format::paimon::paths;
use crate::format::{Format, SnapshotLog as _};
use crate::table::log::Log;
use crate::table::{SnapshotView, Table};
use crate::text::time::parse_timestamp;

/// As of when a table is looked at. As text: `snapshot:7` or `7` (`version:7` too, as Delta users say), `tag:monthly`, a time like `2026-01-31T12:00:00Z` (without a zone: UTC).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum At {
    /// The newest snapshot, with the newest columns.
    #[default]
    Newest,
    /// The snapshot with this id, with the columns that it had.
    Snapshot(u64),
    /// The snapshot that a tag keeps.
    Tag(String),
    /// The newest snapshot that was committed at this time or before it, milliseconds since 1970-01-01 UTC.
    Time(i64),
}

impl FromStr for At {
    type Err = Error;
    fn from_str(text: &str) -> Result<At> {
        let wrong = |what: String| Error::invalid(what).hint("write snapshot:7, tag:NAME or a time like 2026-01-31T12:00:00Z");
        let id = |digits: &str| digits.parse().map(At::Snapshot).map_err(|_| wrong(format!("`{digits}` is no snapshot id")));
        if let Some(digits) = text.strip_prefix("snapshot:").or_else(|| text.strip_prefix("version:")) {
            return id(digits);
        }
        if let Some(name) = text.strip_prefix("tag:") {
            return if name.is_empty() { Err(wrong("the tag has no name".to_owned())) } else { Ok(At::Tag(name.to_owned())) };
        }
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return id(text);
        }
        let time =
            parse_timestamp(text.as_bytes()).map_err(|why| wrong(format!("`{text}` is no snapshot, no tag, and as a time it {why}")))?;
        Ok(At::Time(time.us.div_euclid(1000)))
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Newest => f.write_str("the newest snapshot"),
            At::Snapshot(id) => write!(f, "snapshot {id}"),
            At::Tag(name) => write!(f, "tag {name}"),
            At::Time(ms) => f.write_str(&instant(*ms)),
        }
    }
}

fn instant(ms: i64) -> String {
    DateTime::<Utc>::from_timestamp_millis(ms).map_or_else(|| format!("{ms} ms"), |t| t.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

impl Table {
    /// The snapshot as of then; `None`: the table has no snapshot at all. `Invalid`: there is none as of then.
    pub async fn snapshot_at(&self, at: &At) -> Result<Option<SnapshotView>> {
        match at {
            At::Newest => self.newest().await,
            At::Snapshot(id) => match self.snapshot(*id).await? {
                Some(found) => Ok(Some(found)),
                None => {
                    let ids = self.snapshot_ids().await?;
                    let hint = match (ids.first(), ids.last()) {
                        (Some(first), Some(last)) => format!("there are {first} to {last}; `table-cli snapshots` lists them"),
                        _ => "the table has no snapshot yet".to_owned(),
                    };
                    Err(Error::invalid(format!("there is no snapshot {id}")).at(self.url()).hint(hint))
                }
            },
            At::Tag(name) => match self.tag(name).await? {
                Some(found) => Ok(Some(found)),
                None => {
                    let names = self.tag_names().await?;
                    let hint = match (&self.log, names.is_empty()) {
                        (Log::Delta(_), _) => "Delta tables have no tags; name a version or a time".to_owned(),
                        (Log::Paimon(_), true) => "the table has no tags".to_owned(),
                        (Log::Paimon(_), false) => format!("its tags are {}", names.join(", ")),
                    };
                    Err(Error::invalid(format!("there is no tag `{name}`")).at(self.url()).hint(hint))
                }
            },
            At::Time(ms) => self.snapshot_as_of(*ms).await,
        }
    }

    async fn tag(&self, name: &str) -> Result<Option<SnapshotView>> {
        match &self.log {
            Log::Paimon(log) => Ok(log.tag(name).await?.map(SnapshotView::from)),
            Log::Delta(_) => Ok(None),
        }
    }

    /// A listed snapshot may be expired before it is read; then there is a newer one.
    async fn newest(&self) -> Result<Option<SnapshotView>> {
        if let Log::Delta(log) = &self.log {
            let version = log.newest().await?.log.version;
            // Of a version that is a checkpoint only the checkpoint may be left.
            let bare = || SnapshotView::from(DeltaSnapshot { version, ..DeltaSnapshot::default() });
            return Ok(Some(self.snapshot(version).await?.unwrap_or_else(bare)));
        }
        for _ in 0..10 {
            let Some(newest) = self.snapshot_ids().await?.last().copied() else { return Ok(None) };
            if let Some(found) = self.snapshot(newest).await? {
                return Ok(Some(found));
            }
        }
        Err(Error::data("the newest snapshot is listed but cannot be read").at(self.url()).hint("see `table-cli verify`"))
    }

    /// Times rise with ids, so few snapshots are read. (Where clocks of writers disagreed they may not; then one of those that fit is taken,
    /// as other engines do.)
    async fn snapshot_as_of(&self, ms: i64) -> Result<Option<SnapshotView>> {
        let ids = self.snapshot_ids().await?;
        let (mut low, mut high, mut found, mut oldest) = (0, ids.len(), None, None);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.snapshot(ids[middle]).await? {
                // A commit that tells no time counts as older than all that do.
                Some(snapshot) if snapshot.time_ms.is_none_or(|time| time <= ms) => {
                    found = Some(snapshot);
                    low = middle + 1;
                }
                Some(snapshot) => {
                    oldest = Some(snapshot);
                    high = middle;
                }
                // Expired meanwhile, and so is what was before it.
                None => low = middle + 1,
            }
        }
        match (found, oldest) {
            (None, Some(oldest)) => {
                let what = format!("there is no snapshot as old as {}", instant(ms));
                let oldest = format!("the oldest is {} of {}", oldest.id, instant(oldest.time_ms.unwrap_or_default()));
                let hint = if self.format() == Format::Paimon { oldest + "; a tag may be older" } else { oldest };
                Err(Error::invalid(what).at(self.url()).hint(hint))
            }
            (found, _) => Ok(found),
        }
    }

    /// The object that keeps a snapshot's files from being deleted, and its name in words.
    pub(super) fn keeper(&self, at: &At, snapshot: &SnapshotView) -> (String, String) {
        match (&self.log, at) {
            (Log::Paimon(_), At::Tag(name)) => (paths::tag(name), format!("tag {name}")),
            (Log::Paimon(log), _) => (log.object(snapshot.id), format!("snapshot {}", snapshot.id)),
            (Log::Delta(log), _) => (log.object(snapshot.id), format!("version {}", snapshot.id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_by_its_form() {
        let read = |text: &str| text.parse::<At>().unwrap();
        assert_eq!(read("snapshot:7"), At::Snapshot(7));
        assert_eq!((read("12"), read("version:12")), (At::Snapshot(12), At::Snapshot(12)));
        assert_eq!(read("tag:2026-01-01"), At::Tag("2026-01-01".into()));
        assert_eq!(read("1970-01-01T01:00:00.001+01:00"), At::Time(1));
        assert_eq!(read("1970-01-02"), At::Time(86_400_000));
        for bad in ["", "snapshot:x", "snapshot:-1", "tag:", "yesterday", "99999999999999999999"] {
            let error = bad.parse::<At>().unwrap_err();
            assert_eq!(error.kind(), crate::Kind::Invalid, "{bad}");
            assert!(error.next_step().is_some());
        }
    }
}
