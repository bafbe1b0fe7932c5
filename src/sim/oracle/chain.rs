//! The ghost of the chain: every checkpoint that was ever the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use super::reader::{FileView, Read};
use super::{Violation, breaks};

/// Split -> offset; absent: 0.
pub(super) type At = BTreeMap<String, u64>;

/// A checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) seq: u64,
    pub(super) digest: String,
    pub(super) chain: String,
    pub(super) parent: Option<(u64, String)>,
    pub(super) kind: String,
    pub(super) user: String,
    pub(super) opened: u64,
    pub(super) identifier: i64,
    pub(super) offsets: At,
    /// `rewind` or `abandon`, and the seq of which.
    pub(super) from: Option<(String, u64)>,
    /// The user that it closes, and in which sinks.
    pub(super) close: Option<(String, Vec<String>)>,
    pub(super) sinks: BTreeMap<String, Entry>,
}

/// A sink in a checkpoint.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) floor: u64,
    pub(super) floor_digest: Option<String>,
    /// Which table the floor is of.
    pub(super) table: String,
    pub(super) last: Option<i64>,
    pub(super) covered: At,
    pub(super) messages: Option<Vec<FileView>>,
}

/// SHA-256, hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

impl Link {
    fn parse(seq: u64, bytes: &[u8]) -> Read<Link> {
        let json: Json = serde_json::from_slice(bytes).map_err(|e| format!("checkpoint {seq} is no JSON: {e}"))?;
        Link::of(seq, bytes, &json).ok_or_else(|| format!("checkpoint {seq} lacks something"))
    }

    fn of(seq: u64, bytes: &[u8], json: &Json) -> Option<Link> {
        let text = |v: &Json, key: &str| Some(v.get(key)?.as_str()?.to_owned());
        let number = |v: &Json, key: &str| v.get(key)?.as_u64();
        if number(json, "seq")? != seq {
            return None;
        }
        let offsets = offsets(json.get("offsets")?)?;
        let mut sinks = BTreeMap::new();
        for (url, sink) in json.get("sinks")?.as_object()? {
            let floor = sink.get("floor")?;
            let messages = match sink.get("messages") {
                None | Some(Json::Null) => None,
                Some(all) => Some(files(all)?),
            };
            let entry = Entry {
                floor: number(floor, "id")?,
                floor_digest: text(floor, "sha256"),
                table: text(floor, "table")?,
                last: sink.get("last").and_then(Json::as_i64),
                covered: match sink.get("covered") {
                    None | Some(Json::Null) => offsets.clone(),
                    Some(covered) => self::offsets(covered)?,
                },
                messages,
            };
            sinks.insert(url.clone(), entry);
        }
        let close = json.get("close").filter(|c| !c.is_null());
        let closed = |c: &Json| Some((text(c, "user")?, c.get("sinks")?.as_object()?.keys().cloned().collect()));
        let parent = json.get("parent").filter(|p| !p.is_null());
        Some(Link {
            seq,
            digest: digest(bytes),
            chain: text(json, "chain")?,
            parent: parent.and_then(|p| Some((number(p, "seq")?, text(p, "sha256")?))),
            kind: text(json, "kind")?,
            user: text(json, "user")?,
            opened: number(json, "opened")?,
            identifier: json.get("identifier")?.as_i64()?,
            offsets,
            from: json.get("from").and_then(|f| Some((text(f, "mode")?, number(f, "seq")?))),
            close: match close {
                None => None,
                Some(c) => Some(closed(c)?),
            },
            sinks,
        })
    }

    pub(super) fn has_messages(&self) -> bool {
        self.sinks.values().any(|s| s.messages.is_some())
    }
    /// Everything below this is settled in a sink once this checkpoint is finished.
    pub(super) fn settles(&self, entry: &Entry) -> At {
        let mut settled = entry.covered.clone();
        if entry.messages.is_some() {
            for (split, offset) in &self.offsets {
                let at = settled.entry(split.clone()).or_default();
                *at = (*at).max(*offset);
            }
        }
        settled
    }
}

/// `split -> {offset, note}`.
fn offsets(json: &Json) -> Option<At> {
    json.as_object()?.iter().map(|(split, at)| Some((split.clone(), at.get("offset")?.as_u64()?))).collect()
}

/// The files of all messages.
fn files(messages: &Json) -> Option<Vec<FileView>> {
    let mut all = Vec::new();
    for message in messages.as_array()? {
        for file in message.get("files")?.as_array()? {
            let number = |key: &str| file.get(key)?.as_u64();
            all.push(FileView { path: file.get("path")?.as_str()?.to_owned(), rows: number("rows")?, size: number("size")? });
        }
    }
    Some(all)
}

/// All of them.
#[derive(Clone)]
pub(super) struct Chain {
    prefix: String,
    keep: usize,
    /// By seq; each was the next one when it was created.
    links: Vec<Arc<Link>>,
    /// Those that are on the store.
    there: BTreeSet<u64>,
    /// On the store, and created in a slot that retention had emptied: nobody's.
    fallen: BTreeSet<u64>,
    /// Commit user -> seq of its `open`.
    users: BTreeMap<String, u64>,
}

impl Chain {
    pub(super) fn new(prefix: &str, keep: usize) -> Chain {
        Chain {
            prefix: format!("{}/", prefix.trim_end_matches('/')),
            keep: keep.max(2),
            links: Vec::new(),
            there: BTreeSet::new(),
            fallen: BTreeSet::new(),
            users: BTreeMap::new(),
        }
    }
    pub(super) fn len(&self) -> usize {
        self.links.len()
    }
    pub(super) fn lineages(&self) -> usize {
        self.users.len()
    }
    pub(super) fn idle(&self) -> usize {
        let moved = |pair: &&[Arc<Link>]| pair[1].kind == "data" && !pair[1].has_messages() && pair[0].offsets != pair[1].offsets;
        self.links.windows(2).filter(moved).count()
    }
    pub(super) fn pipeline(&self) -> &str {
        let path = self.prefix.trim_end_matches('/');
        path.rsplit('/').next().unwrap_or(path)
    }
    pub(super) fn seq_of(&self, key: &str) -> Option<u64> {
        // With one series for each lineage (a switch of the teeth) there is a directory between.
        let digits = key.strip_prefix(&self.prefix)?.rsplit('/').next()?.strip_suffix(".json")?;
        if digits.len() == 20 { digits.parse().ok() } else { None }
    }
    pub(super) fn get(&self, seq: u64) -> Option<&Arc<Link>> {
        self.links.get(usize::try_from(seq).ok()?)
    }
    pub(super) fn greatest(&self) -> Option<&Arc<Link>> {
        self.links.last()
    }
    /// Those that are on the store and in the chain.
    pub(super) fn there(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.there.iter().filter_map(|s| self.get(*s))
    }
    /// Seq of the `open` of a user.
    pub(super) fn opened(&self, user: &str) -> Option<u64> {
        self.users.get(user).copied()
    }
    /// The newest checkpoint of a user's lineage.
    pub(super) fn newest_of(&self, user: &str) -> Option<&Arc<Link>> {
        self.links.iter().rev().find(|l| l.user == user)
    }
    /// The user of the lineage before that of the `open` at `opened`.
    pub(super) fn predecessor(&self, opened: u64) -> Option<&str> {
        Some(self.get(opened.checked_sub(1)?)?.user.as_str())
    }
    /// The least offset of a split to which the rewinds in `(after, upto]` went back; none: there was none.
    pub(super) fn rewound_to(&self, after: u64, upto: u64, split: &str) -> Option<u64> {
        let opens = (after + 1..=upto).filter_map(|seq| self.get(seq));
        let rewinds = opens.filter(|l| l.from.as_ref().is_some_and(|(mode, _)| mode == "rewind"));
        rewinds.map(|l| l.offsets.get(split).copied().unwrap_or(0)).min()
    }

    /// One was created. None: it is not part of the chain.
    pub(super) fn create(&mut self, seq: u64, bytes: &[u8]) -> Result<Option<Arc<Link>>, Violation> {
        let next = self.links.len() as u64;
        if seq < next {
            self.fallen.insert(seq);
            return Ok(None);
        }
        if seq > next {
            return breaks("I3", format!("checkpoint {seq} was created, and {next} never was"));
        }
        let link = Link::parse(seq, bytes).map_err(|text| Violation { invariant: "I3", text })?;
        let parent = self.greatest().map(|g| (g.seq, g.digest.clone()));
        if link.parent != parent {
            return breaks("I3", format!("checkpoint {seq} says that its parent is {:?}, and that is {parent:?}", link.parent));
        }
        if let Some(g) = self.greatest() {
            if g.chain != link.chain {
                return breaks("I3", format!("checkpoint {seq} is of chain {}, the one before of {}", link.chain, g.chain));
            }
            let fits = match link.kind.as_str() {
                "open" => link.close.is_some() || g.kind == "closed",
                "closed" => g.kind == "end",
                "data" | "end" => g.kind == "open" || g.kind == "data",
                _ => false,
            };
            if !fits {
                return breaks("I3", format!("checkpoint {seq} is `{}` after `{}`", link.kind, g.kind));
            }
        } else if link.kind != "open" {
            return breaks("I3", format!("the chain begins with `{}`", link.kind));
        }
        self.check_user(&link)?;
        let ends = link.kind == "end" || link.kind == "closed";
        let identifier = if ends { i64::MAX } else { i64::try_from(seq).unwrap_or(i64::MAX) };
        if link.identifier != identifier {
            return breaks("I2", format!("checkpoint {seq} has identifier {}", link.identifier));
        }
        let link = Arc::new(link);
        self.links.push(link.clone());
        self.there.insert(seq);
        Ok(Some(link))
    }

    fn check_user(&mut self, link: &Link) -> Result<(), Violation> {
        let seq = link.seq;
        if link.kind != "open" {
            let before = self.greatest().map(|g| (g.user.as_str(), g.opened));
            return match before {
                Some((user, opened)) if user == link.user && opened == link.opened => Ok(()),
                _ => breaks("I8", format!("checkpoint {seq} is of user {}, opened at {}; before it: {before:?}", link.user, link.opened)),
            };
        }
        if link.opened != seq || !link.user.starts_with(&format!("{}-", self.pipeline())) {
            return breaks("I8", format!("the `open` {seq} has user {}, opened at {}", link.user, link.opened));
        }
        match self.users.insert(link.user.clone(), seq) {
            None => Ok(()),
            Some(other) => breaks("I8", format!("user {} of the `open` {seq} was made by {other}", link.user)),
        }
    }

    /// One was removed, by us or by somebody else.
    pub(super) fn delete(&mut self, seq: u64, by_us: bool) -> Result<(), Violation> {
        if self.fallen.remove(&seq) {
            return Ok(());
        }
        self.there.remove(&seq);
        if !by_us {
            return Ok(());
        }
        if self.greatest().is_some_and(|g| g.seq == seq) {
            return breaks("I3", format!("the greatest checkpoint, {seq}, was deleted"));
        }
        if let Some(below) = self.there.iter().find(|s| **s < seq) {
            return breaks("I3", format!("checkpoint {seq} was deleted, and {below} is still there"));
        }
        let left = self.there().filter(|l| l.seq > seq && l.has_messages()).count();
        if left < self.keep {
            return breaks("I3", format!("checkpoint {seq} was deleted, and only {left} with messages are above it"));
        }
        Ok(())
    }
}
