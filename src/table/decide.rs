//! What to do with one commit, decided on one read of the table. Pure: facts in, instruction out.
//!
//! The rule is equality: what a checkpoint says comes before it (`last`) must be what the table says is newest. Everything else is
//! either this very commit, seen again, or a reason to stop. `spec/commit.md` has the table that [`decide`] implements.

use crate::format::{Digest, END_OF_INPUT, Landed};
use crate::sink::Resolution;

/// What is asked of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Land files under `identifier`.
    Rows {
        /// The identifier to land.
        identifier: i64,
        /// Digest of the checkpoint that orders it; none outside a chain.
        digest: Option<Digest>,
    },
    /// Land an empty snapshot under `identifier`.
    Empty {
        /// The identifier to land.
        identifier: i64,
        /// Digest of the checkpoint that orders it; none outside a chain.
        digest: Option<Digest>,
    },
    /// Nothing to land: only look whether the table is as the checkpoint says.
    Look,
    /// End the lineage.
    Close {
        /// Identifier and digest of the checkpoint that was pending with something to land in this table.
        pending: Option<(i64, Digest)>,
    },
}

/// What was read, and what the checkpoint says.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What is asked.
    pub ask: Ask,
    /// The newest identifier of the user, as the table says.
    pub landed: &'a Landed,
    /// The newest identifier of the user at the floor, as the checkpoint says.
    pub last: Option<i64>,
    /// Is one of our files live at the head? None: not looked yet.
    pub live: Option<bool>,
    /// A person's word for what history cannot tell.
    pub resolve: Option<Resolution>,
}

/// The instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Stage and publish it on this head.
    Publish,
    /// It is there already; do nothing.
    AlreadyLanded,
    /// Nothing to land, and the table is as it should be.
    Fine,
    /// As [`Decision::Fine`], but history below the head is gone: the head becomes the floor.
    FineAtHead,
    /// Publish the closing snapshot; the lineage had landed `closed_at`.
    PublishClose {
        /// Its last identifier; none: nothing.
        closed_at: Option<i64>,
    },
    /// The lineage is closed already; it had landed `closed_at`.
    Closed {
        /// Its last identifier; none: nothing.
        closed_at: Option<i64>,
    },
    /// Look whether one of our files is live at this head, then decide again.
    LookForFiles,
    /// Stop: `Data`.
    Stop(Stop),
}

/// Why a commit must stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// This identifier was landed by another checkpoint.
    OtherContent,
    /// Somebody else committed in the user's name.
    MovedByOther(Option<i64>),
    /// The lineage was closed by somebody.
    ClosedByOther,
    /// The table holds more of this user than its chain knows.
    Ahead(i64),
    /// The table holds less of this user than its chain knows.
    Behind(Option<i64>),
    /// The table is not the one that the checkpoint speaks of.
    OtherTable(String),
    /// History cannot tell whether it landed; `--resolve` can.
    Unknown(String),
}

/// Decides. Total: every combination has an answer.
pub fn decide(facts: &Facts<'_>) -> Decision {
    match facts.landed {
        Landed::Other(why) => Decision::Stop(Stop::OtherTable(why.clone())),
        Landed::Unknown(why) => decide_unknown(facts, why),
        Landed::None => decide_known(facts, facts.last, None, None),
        Landed::Never => decide_known(facts, None, None, None),
        Landed::At { identifier, checkpoint, closed_at, .. } => decide_known(facts, Some(*identifier), Some(*checkpoint), *closed_at),
    }
}

/// `seen`: the checkpoint digest that the newest snapshot of the user carries, when such a snapshot was read (inner none: it carries none).
/// `closing`: that snapshot is a closing one, and closed the lineage at the inner value.
fn decide_known(facts: &Facts<'_>, newest: Option<i64>, seen: Option<Option<Digest>>, closing: Option<Option<i64>>) -> Decision {
    // Every commit of a chain names its checkpoint: one that is there and names none was made by somebody else in the user's name.
    let chain = !matches!(facts.ask, Ask::Rows { digest: None, .. } | Ask::Empty { digest: None, .. });
    if chain && seen == Some(Some(Digest::of_nothing())) {
        return Decision::Stop(Stop::MovedByOther(newest));
    }
    match facts.ask {
        // Only a Delta checkpoint is left of the commit: somebody may have moved the user back to where this one begins.
        Ask::Rows { .. } if newest == facts.last && seen == Some(None) && facts.live.is_none() => Decision::LookForFiles,
        Ask::Rows { .. } if newest == facts.last && seen == Some(None) && facts.live == Some(true) => Decision::AlreadyLanded,
        Ask::Close { pending } => decide_close(facts, newest, seen, closing, pending),
        Ask::Look if newest == facts.last => Decision::Fine,
        Ask::Rows { .. } | Ask::Empty { .. } if newest == facts.last => Decision::Publish,
        Ask::Rows { identifier, digest } | Ask::Empty { identifier, digest } if newest == Some(identifier) && closing.is_none() => {
            match seen.flatten() {
                // One that names no checkpoint was made without a chain: what is asked without one may well be it.
                Some(other) if Some(other) != digest && (digest.is_some() || other != Digest::of_nothing()) => {
                    Decision::Stop(Stop::OtherContent)
                }
                _ => Decision::AlreadyLanded,
            }
        }
        Ask::Look | Ask::Rows { .. } | Ask::Empty { .. } => Decision::Stop(stray(newest, facts.last)),
    }
}

fn decide_close(
    facts: &Facts<'_>,
    newest: Option<i64>,
    seen: Option<Option<Digest>>,
    closing: Option<Option<i64>>,
    pending: Option<(i64, Digest)>,
) -> Decision {
    if newest == Some(END_OF_INPUT) {
        return Decision::Closed { closed_at: closing.unwrap_or(Some(END_OF_INPUT)) };
    }
    if newest == facts.last {
        return Decision::PublishClose { closed_at: newest };
    }
    match pending {
        Some((identifier, digest)) if newest == Some(identifier) => match seen.flatten() {
            Some(other) if other != digest => Decision::Stop(Stop::OtherContent),
            _ => Decision::PublishClose { closed_at: newest },
        },
        _ => Decision::Stop(stray(newest, facts.last)),
    }
}

fn stray(newest: Option<i64>, last: Option<i64>) -> Stop {
    match newest {
        Some(END_OF_INPUT) => Stop::ClosedByOther,
        Some(id) if last.is_none_or(|last| id > last) => Stop::Ahead(id),
        other => Stop::Behind(other),
    }
}

fn decide_unknown(facts: &Facts<'_>, why: &str) -> Decision {
    match (facts.ask, facts.live, facts.resolve) {
        (Ask::Look, _, _) => Decision::FineAtHead,
        // An empty snapshot that landed twice adds nothing twice.
        (Ask::Empty { .. }, _, _) => Decision::Publish,
        (Ask::Close { pending: None }, _, _) => Decision::PublishClose { closed_at: facts.last },
        (Ask::Rows { .. } | Ask::Close { .. }, None, _) => Decision::LookForFiles,
        (Ask::Rows { .. }, Some(true), _) | (Ask::Rows { .. }, _, Some(Resolution::Landed)) => Decision::AlreadyLanded,
        (Ask::Rows { .. }, Some(false), Some(Resolution::Lost)) => Decision::Publish,
        (Ask::Close { pending: Some((id, _)) }, Some(true), _) | (Ask::Close { pending: Some((id, _)) }, _, Some(Resolution::Landed)) => {
            Decision::PublishClose { closed_at: Some(id) }
        }
        (Ask::Close { .. }, Some(false), Some(Resolution::Lost)) => Decision::PublishClose { closed_at: facts.last },
        (Ask::Rows { .. } | Ask::Close { .. }, Some(false), None) => Decision::Stop(Stop::Unknown(why.to_owned())),
    }
}

#[cfg(test)]
mod tests;
