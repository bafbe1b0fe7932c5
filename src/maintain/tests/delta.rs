//! The same for Delta tables.

mod changing;
mod damage;
mod rig;
