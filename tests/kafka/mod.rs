//! Topics of a real Apache Kafka into tables. `tests/setup.sh` installs it; without it these tests fail.
//!
//! ```text
//! cargo test --test main kafka -- --ignored
//! ```
//!
//! [`broker::Broker`] is the server, [`produce`] writes to it.

#[allow(dead_code, reason = "tests of other parts come for the rest")]
pub(crate) mod broker;
mod endless;
mod failover;
mod flow;
mod idle;
mod login;
mod lost;
mod modes;
mod nulls;
mod outage;
mod poison;
#[allow(dead_code, reason = "tests of other parts come for the rest")]
pub(crate) mod produce;
mod recreated;
mod refused;
mod rig;
mod seeing;
mod stalled;
mod transactions;
mod values;
