//! Nothing yet.

