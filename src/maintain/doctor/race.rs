//! Many create one name at once: one may win.

use bytes::Bytes;
use futures::future::join_all;

use super::Check;
use crate::error::{Error, Result};
use crate::store::{Failure, Store, Verdict};

pub(super) const NAME: &str = "race to create";

/// What follows from more than one winner.
const FOLLOWS: &str = "this store cannot carry exactly-once with several writers: two of them (also a hung process and its successor) would both \
    believe that they have committed, and rows get lost or doubled. Use a store whose conditional create (`If-None-Match: *`) is one atomic \
    step, such as Amazon S3, Google Cloud Storage, Azure Blob Storage, MinIO or a local disk";

/// What was seen in one round.
#[derive(Debug, Default, PartialEq, Eq)]
struct Round {
    /// Who was told that it won.
    winners: Vec<usize>,
    /// Who got no clear answer.
    unclear: Vec<usize>,
    /// Whose bytes are there; none: nothing is, or nobody's.
    there: Option<usize>,
    /// Is there anything?
    something: bool,
}

/// Why a round is no race with one winner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// So many were told that they won.
    Winners(usize),
    /// One was told that it won, and another's bytes are there.
    AnotherThere,
    /// One was told that it won, and nothing is there.
    NothingThere,
    /// All were told that they lost, and nobody's bytes are there.
    NobodysThere,
}

impl Round {
    fn wrong(&self) -> Option<Wrong> {
        match (self.winners.as_slice(), self.there) {
            ([_, _, ..], _) => Some(Wrong::Winners(self.winners.len())),
            ([winner], Some(there)) if *winner == there => None,
            ([_], _) if self.something => Some(Wrong::AnotherThere),
            ([_], _) => Some(Wrong::NothingThere),
            // The winner's answer was lost, or a store answers "conflict, try again" to everybody: legal, and resolved by reading back.
            ([], Some(_)) => None,
            ([], None) if self.something => Some(Wrong::NobodysThere),
            ([], None) => None,
        }
    }
}

/// Races for `rounds` names. The racers are the same directory, each opened by itself.
pub(super) async fn race(racers: &[Store], rounds: usize) -> Result<Check> {
    let Some(reader) = racers.first() else { return Err(Error::internal("a race without racers")) };
    // Connections are made beforehand, so that the creates start together.
    for warm in join_all(racers.iter().map(|r| r.get("race/none"))).await {
        warm?;
    }
    let mut all = Vec::with_capacity(rounds);
    let mut created = Vec::with_capacity(rounds);
    for number in 0..rounds {
        let (name, bodies) = (format!("race/{number}"), bodies(racers));
        let round = one(racers, &name, &bodies, number).await?;
        created.push((name, bodies, round.there));
        all.push(round);
    }
    // What was created stays: a create that was told "no", or is late, must not replace it.
    let mut replaced = 0;
    for (name, bodies, there) in &created {
        let now = reader.get(name).await?;
        if there.is_some_and(|who| bodies.get(who) != now.as_ref()) {
            replaced += 1;
        }
    }
    Ok(verdict(&all, racers.len(), replaced))
}

fn bodies(racers: &[Store]) -> Vec<Bytes> {
    racers.iter().enumerate().map(|(who, r)| Bytes::from(format!("racer {who} {}", r.env().uuid()))).collect()
}

async fn one(racers: &[Store], name: &str, bodies: &[Bytes], number: usize) -> Result<Round> {
    let n = racers.len();
    let tries = (0..n).map(|i| {
        // Another one starts each time.
        let who = (i + number) % n;
        let (racer, body) = (racers.get(who), bodies.get(who));
        async move {
            match (racer, body) {
                (Some(racer), Some(body)) => (who, create(racer, name, body.clone()).await),
                _ => (who, Ok(())),
            }
        }
    });
    let mut round = Round::default();
    for (who, answer) in join_all(tries).await {
        match answer {
            Ok(()) => round.winners.push(who),
            Err(failure) => match failure.verdict {
                Verdict::Exists => {}
                Verdict::Refused => return Err(refused(racers, failure)),
                _ => round.unclear.push(who),
            },
        }
    }
    let there = match racers.first() {
        Some(reader) => reader.get(name).await?,
        None => None,
    };
    round.something = there.is_some();
    round.there = there.and_then(|bytes| bodies.iter().position(|b| *b == bytes));
    Ok(round)
}

/// A local call blocks its thread, so each gets one of its own.
async fn create(racer: &Store, name: &str, body: Bytes) -> std::result::Result<(), Failure> {
    if !racer.is_local() {
        return racer.create(name, body).await;
    }
    let (store, name) = (racer.clone(), name.to_owned());
    racer.env().cpu(move || futures::executor::block_on(store.create(&name, body))).await
}

fn refused(racers: &[Store], failure: Failure) -> Error {
    let error = Error::invalid("a conditional create is refused").because(failure.error);
    match racers.first() {
        Some(racer) => error.at(racer.url()),
        None => error,
    }
}

fn verdict(all: &[Round], racers: usize, replaced: usize) -> Check {
    let (rounds, mut seen) = (all.len(), Vec::new());
    let wrong: Vec<Wrong> = all.iter().filter_map(Round::wrong).collect();
    let winners: Vec<usize> = wrong.iter().filter_map(|w| if let Wrong::Winners(n) = w { Some(*n) } else { None }).collect();
    if let Some(most) = winners.iter().max() {
        seen.push(format!("more than one winner in {} of {rounds} rounds, up to {most} of {racers}", winners.len()));
    }
    for (kind, what) in [
        (Wrong::AnotherThere, "the winner's object is not the one that is there"),
        (Wrong::NothingThere, "the winner's object is not there"),
        (Wrong::NobodysThere, "bytes are there that nobody wrote"),
    ] {
        let n = wrong.iter().filter(|w| **w == kind).count();
        if n > 0 {
            seen.push(format!("in {n} of {rounds} rounds {what}"));
        }
    }
    if replaced > 0 {
        seen.push(format!("{replaced} of {rounds} objects were replaced afterwards"));
    }
    if !seen.is_empty() {
        return Check::failed(NAME, format!("{}; {FOLLOWS}", seen.join("; ")));
    }
    let unclear: usize = all.iter().map(|r| r.unclear.len()).sum();
    let decided = all.iter().filter(|r| r.there.is_some()).count();
    if decided == 0 {
        return Check::failed(NAME, format!("in none of {rounds} rounds anybody could create the name: nothing could be committed here"));
    }
    let mut detail = format!("{racers} racers, each over a connection of its own: one winner in {decided} of {rounds} rounds");
    if decided < rounds {
        detail += ", in the others all were told to try again";
    }
    if unclear > 0 {
        return Check::warning(
            NAME,
            format!("{detail}; {unclear} creates got no clear answer: the store is overloaded or the network bad"),
        );
    }
    Check::ok(NAME, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintain::doctor::Health;

    fn round(winners: &[usize], there: Option<usize>) -> Round {
        Round { winners: winners.to_vec(), unclear: Vec::new(), there, something: there.is_some() }
    }

    #[test]
    fn answers_and_what_is_there_must_agree() {
        assert_eq!(round(&[3], Some(3)).wrong(), None);
        assert_eq!(round(&[3], Some(2)).wrong(), Some(Wrong::AnotherThere));
        assert_eq!(round(&[3], None).wrong(), Some(Wrong::NothingThere));
        assert_eq!(round(&[3, 4], Some(4)).wrong(), Some(Wrong::Winners(2)));
        assert_eq!(round(&[], Some(4)).wrong(), None, "an answer that got lost");
        assert_eq!(round(&[], None).wrong(), None, "all were told to try again");
        assert_eq!(Round { something: true, ..round(&[], None) }.wrong(), Some(Wrong::NobodysThere));
    }

    #[test]
    fn one_bad_round_is_enough_and_a_lost_answer_is_a_warning() {
        let good = || round(&[0], Some(0));
        assert_eq!(verdict(&[good(), good()], 2, 0).health, Health::Ok);
        let bad = verdict(&[good(), round(&[0, 1], Some(1))], 2, 0);
        assert_eq!(bad.health, Health::Failed);
        assert!(
            bad.detail.starts_with("more than one winner in 1 of 2 rounds, up to 2 of 2; this store cannot carry exactly-once"),
            "{bad:?}"
        );
        assert_eq!(verdict(&[good()], 2, 1).health, Health::Failed);
        assert_eq!(verdict(&[round(&[], None)], 2, 0).health, Health::Failed);
        let lost = Round { unclear: vec![1], ..round(&[], Some(1)) };
        assert_eq!(verdict(&[good(), lost], 2, 0).health, Health::Warning);
    }
}
