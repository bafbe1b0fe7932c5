//! Looking after a table, and the place where it lies: checks that change nothing that is there.

pub mod doctor;
