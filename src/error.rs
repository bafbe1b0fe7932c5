//! One error type, six kinds. The kind says what the caller must do; the text says what happened, where, and what to do next.

use std::error::Error as StdError;
use std::fmt;

/// What the caller must do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Somebody else changed the same thing and this change does not fit on top of it. Read again, decide again. Exit code 4.
    Conflict,
    /// A newer owner of the pipeline exists. Stop; write nothing more under this commit user. Exit code 4.
    Fenced,
    /// The store, the source or the disk did not answer in time. Nothing is known to be wrong; try again later. Exit code 75.
    Unavailable,
    /// The request, the pipeline file or the table's options are not valid. Change them. Exit code 2.
    Invalid,
    /// What is stored is not what it must be. A person must look; going on could lose or double rows. Exit code 5.
    Data,
    /// A bug in this program. Report it. Exit code 70.
    Internal,
}

impl Kind {
    /// The process exit code of `table-cli` for this kind.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Invalid => 2,
            Kind::Conflict | Kind::Fenced => 4,
            Kind::Data => 5,
            Kind::Internal => 70,
            Kind::Unavailable => 75,
        }
    }
}

/// An error: kind, what happened, where, what to do next, and what caused it.
///
/// `Display` prints one line: `WHERE: WHAT (CAUSE); HINT`.
pub struct Error {
    kind: Kind,
    message: String,
    at: Option<String>,
    hint: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), at: None, hint: None, source: None }
    }
    /// [`Kind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }
    /// [`Kind::Fenced`].
    pub fn fenced(message: impl Into<String>) -> Self {
        Self::new(Kind::Fenced, message)
    }
    /// [`Kind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }
    /// [`Kind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }
    /// [`Kind::Data`].
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(Kind::Data, message)
    }
    /// [`Kind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Says where: a path, a location, `file:line`, a topic with partition and offset. The outermost place wins the first position.
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        let place = place.to_string();
        self.at = Some(match self.at {
            // Nothing is said twice.
            Some(inner) if inner.strip_prefix(&place).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':'])) => inner,
            Some(inner) if place.strip_suffix(&inner).is_some_and(|head| head.ends_with(' ')) => place,
            Some(inner) => format!("{place}: {inner}"),
            None => place,
        });
        self
    }
    /// Says what to do next.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// Keeps the cause.
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the caller must do.
    pub fn kind(&self) -> Kind {
        self.kind
    }
    /// What happened, without place, cause and hint.
    pub fn message(&self) -> &str {
        &self.message
    }
    /// Where it happened, if known.
    pub fn place(&self) -> Option<&str> {
        self.at.as_deref()
    }
    /// What to do next, if known.
    pub fn next_step(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.at {
            write!(f, "{at}: ")?;
        }
        f.write_str(&self.message)?;
        let mut cause = self.source.as_deref().map(|e| e as &dyn StdError);
        while let Some(e) = cause {
            write!(f, " ({e})")?;
            cause = e.source();
        }
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn StdError + 'static))
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(e: arrow::error::ArrowError) -> Self {
        Error::internal("arrow could not do it").because(e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_not_said_twice() {
        let at = |places: &[&str]| places.iter().fold(Error::data("what"), |e, place| e.at(place)).to_string();
        assert_eq!(at(&["/t/snapshot-1", "/t"]), "/t/snapshot-1: what");
        assert_eq!(at(&["/t", "checkpoint 3, sink /t"]), "checkpoint 3, sink /t: what");
        assert_eq!(at(&["/table", "/t"]), "/t: /table: what");
        assert_eq!(at(&["line 3", "/t"]), "/t: line 3: what");
    }
}
