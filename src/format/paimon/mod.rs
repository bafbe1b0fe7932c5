//! Apache Paimon append tables.

/// Uploaded manifests that a lost race leaves behind, for the next attempt.
#[derive(Debug, Default)]
pub(crate) struct PaimonWork {}
