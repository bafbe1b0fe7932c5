//! Tables that are sound, that are damaged by hand, and that change while they are looked at.

mod changing;
mod damage;
mod delta;
mod rig;
