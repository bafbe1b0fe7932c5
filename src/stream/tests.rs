//! Whole runs over a store in memory: real tables, chain, start and coordinator; a source of numbers. Each process is a future that can be
//! killed before or after any of its writes, or take turns with another.

mod rig;

mod adverse;
mod changes;
mod going_back;
mod hostile;
mod kills;
mod lost_chain;
mod overlap;
mod pins;
mod twins;
