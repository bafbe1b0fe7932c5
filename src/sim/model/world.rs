//! What lies on the store, reduced to what the rules look at, and what becomes of it by one call.

use std::sync::Arc;

use crate::stream::checkpoint::{CheckpointKind, FromMode};

/// Number of a process's life; also its nonce, and the commit user of the lineage that it opens.
pub(super) type Life = u8;
/// Seq of a checkpoint.
pub(super) type Seq = u8;
/// Offset in the one split.
pub(super) type Off = u8;
/// An identifier; [`MAX`] stands for end of input.
pub(super) type Ident = u8;
/// Records 0..8, one bit each.
pub(super) type Rows = u8;

/// End of input.
pub(super) const MAX: Ident = u8::MAX;
/// The commit user of everybody else; those that write are numbered from here.
pub(super) const FOREIGN: u8 = 100;
/// Tables at most.
pub(super) const TABLES: usize = 2;

/// A snapshot by its id and who wrote it, which stands for its bytes: nobody writes one id twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Floor {
    pub(super) id: u8,
    pub(super) writer: u8,
}

/// A checkpoint by its seq and who wrote it, which stands for its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub(super) seq: Seq,
    pub(super) life: Life,
}

/// One sink in a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) floor: Floor,
    pub(super) last: Option<Ident>,
    pub(super) since: Off,
    pub(super) covered: Off,
    /// None: nothing to commit; no bit: an empty snapshot; else the records in its files.
    pub(super) messages: Option<Rows>,
}

/// One sink of the lineage that an `open` closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct CloseEntry {
    pub(super) floor: Floor,
    pub(super) last: Option<Ident>,
    pub(super) identifier: Option<Ident>,
    pub(super) digest: Link,
    pub(super) offsets: Off,
    pub(super) since: Off,
    pub(super) covered: Off,
}

/// The lineage that an `open` closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Close {
    pub(super) mode: FromMode,
    pub(super) user: Life,
    pub(super) sinks: [CloseEntry; TABLES],
}

/// A checkpoint object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Checkpoint {
    pub(super) link: Link,
    pub(super) kind: CheckpointKind,
    pub(super) user: Life,
    pub(super) opened: Seq,
    pub(super) ident: Ident,
    pub(super) offsets: Off,
    pub(super) parent: Option<Link>,
    pub(super) close: Option<Close>,
    pub(super) sinks: [Entry; TABLES],
}

/// What one snapshot added to the one below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Commit {
    pub(super) user: Life,
    pub(super) ident: Ident,
    /// The checkpoint that ordered it.
    pub(super) order: Link,
    pub(super) writer: Life,
    pub(super) rows: Rows,
    pub(super) since: Off,
    pub(super) until: Off,
    /// Some: it closes the lineage, which had landed this.
    pub(super) closed_at: Option<Option<Ident>>,
    /// A compaction: rows stay, and no file below is live any more.
    pub(super) compacts: bool,
}

/// A snapshot, with everything that it is built on: history cannot be cut off it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Snapshot {
    pub(super) id: u8,
    pub(super) commits: Arc<Vec<Commit>>,
}

impl Snapshot {
    pub(super) fn own(&self) -> &Commit {
        &self.commits[self.commits.len() - 1]
    }
    pub(super) fn floor(&self) -> Floor {
        Floor { id: self.id, writer: self.own().writer }
    }
    /// Is a file that this checkpoint ordered live here?
    pub(super) fn holds(&self, user: Life, order: Link) -> bool {
        held(&self.commits, user, order)
    }
}

/// Each adds one manifest, if anything; a compaction rewrites those before.
fn manifests(commits: &[Commit]) -> Vec<&Commit> {
    let from = commits.iter().rposition(|c| c.compacts).unwrap_or(0);
    commits[from..].iter().filter(|c| c.rows != 0 || c.compacts).collect()
}

fn held(commits: &[Commit], user: Life, order: Link) -> bool {
    commits.iter().rev().take_while(|c| !c.compacts).any(|c| c.user == user && c.order == order && c.rows != 0)
}

/// Keeps snapshots from `next` on, on behalf of a lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pin {
    pub(super) user: Life,
    pub(super) opened: Seq,
    pub(super) next: u8,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Table {
    /// By id, rising.
    pub(super) snapshots: Vec<Snapshot>,
    /// By user, rising.
    pub(super) pins: Vec<Pin>,
    /// Ghost: the greatest id that was ever expired.
    pub(super) expired: u8,
}

impl Table {
    pub(super) fn newest(&self) -> Option<&Snapshot> {
        self.snapshots.last()
    }
    pub(super) fn head(&self) -> Floor {
        self.newest().map_or(Floor::default(), Snapshot::floor)
    }
    pub(super) fn get(&self, id: u8) -> Option<&Snapshot> {
        self.snapshots.iter().find(|s| s.id == id)
    }
    /// Everything in history.
    pub(super) fn commits(&self) -> &[Commit] {
        self.newest().map_or(&[], |s| &s.commits)
    }
    /// For properties: is the newest built on it? If not, it lies in a slot that expiry had emptied.
    pub(super) fn in_history(&self, s: &Snapshot) -> bool {
        self.commits().get(..usize::from(s.id)) == Some(&s.commits[..])
    }
    /// `is_built_on` of `format::paimon`: was the snapshot above this one built on it? Ours name the bytes of their base. Of others it is looked
    /// whether the base has the manifests that this one added; where they were merged (here: by a compaction), its files.
    /// What adds nothing is told by what was there before.
    pub(super) fn above_is_built_on(&self, s: &Snapshot) -> bool {
        let Some(above) = self.get(s.id + 1) else { return false };
        let own = s.own();
        let base = &above.commits[..above.commits.len() - 1];
        let has_its_files = || held(base, own.user, own.order);
        match above.own() {
            _ if base == &s.commits[..] => true,
            theirs if theirs.user != FOREIGN => false,
            theirs if own.rows == 0 => {
                let (kept, base) = (manifests(&s.commits), manifests(base));
                let merged = theirs.compacts && !kept.is_empty();
                merged || !kept.iter().all(|m| base.contains(m)) || base.len() == kept.len()
            }
            theirs => theirs.compacts && has_its_files(),
        }
    }
    /// Creates a snapshot unless its name is taken.
    pub(super) fn create(&mut self, snapshot: Snapshot) -> bool {
        let at = self.snapshots.partition_point(|s| s.id < snapshot.id);
        if self.snapshots.get(at).is_some_and(|s| s.id == snapshot.id) {
            return false;
        }
        self.snapshots.insert(at, snapshot);
        true
    }
    pub(super) fn delete(&mut self, id: u8) {
        self.snapshots.retain(|s| s.id != id);
    }
    pub(super) fn pin(&mut self, pin: Pin) {
        self.pins.retain(|p| p.user != pin.user);
        self.pins.push(pin);
        self.pins.sort_by_key(|p| p.user);
    }
    /// Takes away the pins of lineages that were opened below `before`. True: there were some.
    pub(super) fn unpin(&mut self, before: Seq) -> bool {
        let many = self.pins.len();
        self.pins.retain(|p| p.opened >= before);
        self.pins.len() != many
    }
    /// The oldest snapshot, if another engine may expire it.
    pub(super) fn expirable(&self, honour: bool) -> Option<u8> {
        let oldest = self.snapshots.first()?.id;
        let kept = self.pins.iter().any(|p| honour && p.next <= oldest);
        (self.snapshots.len() > 1 && !kept).then_some(oldest)
    }
    pub(super) fn expire(&mut self, id: u8) {
        self.delete(id);
        self.expired = self.expired.max(id);
    }
    /// Everybody else adds a snapshot.
    pub(super) fn add_foreign(&mut self, compacts: bool) {
        let mut commits = self.commits().to_vec();
        let writer = FOREIGN + u8::try_from(commits.iter().filter(|c| c.user == FOREIGN).count()).unwrap();
        let order = Link { seq: 0, life: FOREIGN };
        commits.push(Commit {
            user: FOREIGN,
            ident: 0,
            order,
            writer,
            rows: 0,
            since: 0,
            until: 0,
            closed_at: None,
            compacts: compacts && commits.iter().any(|c| c.rows != 0),
        });
        self.create(Snapshot { id: self.head().id + 1, commits: Arc::new(commits) });
    }
}

/// A place in the chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    /// What is there now. More than one only when each lineage has a chain of its own.
    pub(super) there: Vec<Arc<Checkpoint>>,
    /// Ghost: everybody who created it while nothing above was there; in truth one.
    pub(super) owners: Vec<Life>,
}

/// The chain, by seq; deleted places stay as empty ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Chain(pub(super) Vec<Slot>);

impl Chain {
    /// One atomic list and read: what is listed is never changed, and the greatest never deleted.
    pub(super) fn greatest(&self) -> Option<&Arc<Checkpoint>> {
        self.0.iter().rev().find_map(|slot| slot.there.last())
    }
    pub(super) fn get(&self, link: Link) -> Option<&Arc<Checkpoint>> {
        self.0.get(usize::from(link.seq))?.there.iter().find(|c| c.link == link)
    }
    /// Is there any above?
    pub(super) fn above(&self, seq: Seq) -> bool {
        self.0.iter().skip(usize::from(seq) + 1).any(|slot| !slot.there.is_empty())
    }
    /// Those that are there.
    pub(super) fn seqs(&self) -> Vec<u64> {
        (0..).zip(&self.0).filter(|(_, slot)| !slot.there.is_empty()).map(|(seq, _)| seq).collect()
    }
    /// What parent links reach, newest first.
    pub(super) fn history(&self, from: &Arc<Checkpoint>) -> Vec<Arc<Checkpoint>> {
        let mut all = vec![from.clone()];
        while let Some(parent) = all[all.len() - 1].parent.and_then(|link| self.get(link)) {
            all.push(parent.clone());
        }
        all
    }
    /// Creates a checkpoint unless its name is taken. `overwrite` and `by_lineage` are broken rules.
    pub(super) fn create(&mut self, checkpoint: &Arc<Checkpoint>, overwrite: bool, by_lineage: bool) -> bool {
        let seq = usize::from(checkpoint.link.seq);
        let greatest = !self.above(checkpoint.link.seq);
        if self.0.len() <= seq {
            self.0.resize(seq + 1, Slot::default());
        }
        let slot = &mut self.0[seq];
        if overwrite {
            slot.there.clear();
        }
        let taken = if by_lineage { slot.there.iter().any(|c| c.user == checkpoint.user) } else { !slot.there.is_empty() };
        if taken {
            return false;
        }
        slot.there.push(checkpoint.clone());
        slot.there.sort_by_key(|c| c.user);
        if greatest && !slot.owners.contains(&checkpoint.link.life) {
            slot.owners.push(checkpoint.link.life);
        }
        true
    }
    pub(super) fn delete(&mut self, seq: Seq) {
        if let Some(slot) = self.0.get_mut(usize::from(seq)) {
            slot.there.clear();
        }
    }
}

/// A create whose answer was lost and which may still take effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Delayed {
    Checkpoint(Arc<Checkpoint>),
    Snapshot(usize, Snapshot),
}
