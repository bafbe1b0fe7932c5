//! `LIKE` patterns.

/// A pattern, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern {
    /// This text and no other.
    Equal(String),
    /// Begins so: `abc%`.
    Prefix(String),
    /// Ends so: `%abc`.
    Suffix(String),
    /// Holds this: `%abc%`.
    Holds(String),
    /// Anything else.
    Pieces(Vec<Piece>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Piece {
    /// `%`
    Any,
    /// `_`
    One,
    Char(char),
}

/// Text as a pattern that only it is like.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

impl Pattern {
    /// `None`: it ends with a `\` that stands before nothing.
    pub(crate) fn new(text: &str) -> Option<Pattern> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '%' if pieces.last() == Some(&Piece::Any) => {}
                '%' => pieces.push(Piece::Any),
                '_' => pieces.push(Piece::One),
                '\\' => pieces.push(Piece::Char(chars.next()?)),
                c => pieces.push(Piece::Char(c)),
            }
        }
        fn plain(pieces: &[Piece]) -> Option<String> {
            pieces.iter().map(|p| if let Piece::Char(c) = p { Some(*c) } else { None }).collect()
        }
        Some(match pieces.as_slice() {
            all if plain(all).is_some() => Pattern::Equal(plain(all).unwrap_or_default()),
            [head @ .., Piece::Any] if plain(head).is_some() => Pattern::Prefix(plain(head).unwrap_or_default()),
            [Piece::Any, tail @ ..] if plain(tail).is_some() => Pattern::Suffix(plain(tail).unwrap_or_default()),
            [Piece::Any, inner @ .., Piece::Any] if plain(inner).is_some() => Pattern::Holds(plain(inner).unwrap_or_default()),
            _ => Pattern::Pieces(pieces),
        })
    }

    /// Is `text` like it?
    pub(crate) fn matches(&self, text: &str) -> bool {
        match self {
            Pattern::Equal(all) => text == all,
            Pattern::Prefix(head) => text.starts_with(head),
            Pattern::Suffix(tail) => text.ends_with(tail),
            Pattern::Holds(part) => text.contains(part.as_str()),
            Pattern::Pieces(pieces) => like(pieces, text),
        }
    }

    /// What every text begins with that is like it; may be empty.
    pub(crate) fn prefix(&self) -> String {
        match self {
            Pattern::Equal(text) | Pattern::Prefix(text) => text.clone(),
            Pattern::Suffix(_) | Pattern::Holds(_) => String::new(),
            Pattern::Pieces(pieces) => pieces.iter().map_while(|p| if let Piece::Char(c) = p { Some(*c) } else { None }).collect(),
        }
    }
}

/// Goes back to the last `%` only, so it takes at most the product of the lengths.
fn like(pieces: &[Piece], text: &str) -> bool {
    let (mut at, mut rest) = (0, text);
    let mut again: Option<(usize, &str)> = None;
    loop {
        let next = rest.chars().next();
        match (pieces.get(at), next) {
            (Some(Piece::Any), _) => {
                again = Some((at, rest));
                at += 1;
            }
            (Some(Piece::One), Some(c)) => {
                at += 1;
                rest = &rest[c.len_utf8()..];
            }
            (Some(Piece::Char(p)), Some(c)) if *p == c => {
                at += 1;
                rest = &rest[c.len_utf8()..];
            }
            (None, None) => return true,
            _ => match again {
                // One more character goes to the `%`.
                Some((any, from)) if !from.is_empty() => {
                    let step = from.chars().next().map_or(0, char::len_utf8);
                    again = Some((any, &from[step..]));
                    at = any + 1;
                    rest = &from[step..];
                }
                _ => return false,
            },
        }
    }
}
