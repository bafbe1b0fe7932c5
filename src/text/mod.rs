//! Numbers, dates and times as people write them: read exactly, shared by records, conditions and command lines.

pub(crate) mod number;
pub(crate) mod time;
