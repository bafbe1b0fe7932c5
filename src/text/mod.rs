//! Numbers, dates and times as people write them, and words that they mistype: shared by records, conditions, options and command lines.

pub(crate) mod near;
pub(crate) mod number;
pub(crate) mod time;
