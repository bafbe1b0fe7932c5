use proptest::prelude::*;

use super::*;

fn shown(text: &str) -> String {
    Condition::parse(text).unwrap().to_string()
}

#[test]
fn a_condition_that_is_printed_means_the_same() {
    for text in [
        "a = 1 or b <> 'it''s' and not c",
        "(a = 1 or b > 2) and not (c or d)",
        "`and` is null and not `odd ``name` like 'x\\%%'",
        "x between -1.5 and 1e3 or y not in ('a', \"b\", X'00fF', NaN, -inf, true)",
        "a < b and 3 >= c",
    ] {
        let once = shown(text);
        assert_eq!(shown(&once), once, "{text}");
    }
    assert_eq!(shown("3 >= c and a is not null"), "c <= 3 and not a is null");
    assert_eq!(shown("`nan` = NAN"), "`nan` = NaN");
}

#[test]
fn what_is_wrong_is_pointed_at() {
    for (text, at, want) in [
        ("dt >= 2026-01-31", 6, "a date or a time stands in quotes, as in '2026-01-31'"),
        ("a like b", 7, "expected a pattern in quotes"),
        ("a like 'x\\'", 7, "ends with a \\ that stands before nothing; write \\\\ for the character"),
        ("a between 1", 11, "expected and, and a second value"),
        ("a not 1", 6, "expected in, like or between"),
        ("a = X'0'", 4, "is not hexadecimal, two digits for each byte, as in X'00ff'"),
        ("a = -x", 4, "is not a number of at most 38 digits"),
        ("f(a) = 1", 0, "functions are not supported in conditions"),
    ] {
        let error = Condition::parse(text).unwrap_err();
        assert_eq!(error.message(), format!("condition: {want}\n    {text}\n    {}^", " ".repeat(at)));
        assert_eq!(error.kind(), crate::Kind::Invalid);
    }
}

#[test]
fn floats_are_written_so_that_they_are_read_back() {
    for v in [0.1, -0.0, 1e300, f64::MIN_POSITIVE, f64::MAX] {
        let Literal::Number(text) = Literal::from(v) else { panic!() };
        assert_eq!(text.parse::<f64>().unwrap().to_bits(), v.to_bits());
    }
    assert_eq!(Literal::from(f32::NAN), Literal::Number("NaN".into()));
    assert_eq!(Literal::from(f64::NEG_INFINITY), Literal::Number("-Infinity".into()));
}

#[test]
fn patterns_are_taken_apart_by_what_is_fast() {
    assert_eq!(Pattern::new("a\\%b"), Some(Pattern::Equal("a%b".into())));
    assert_eq!(Pattern::new("ab%%"), Some(Pattern::Prefix("ab".into())));
    assert_eq!(Pattern::new("%ab"), Some(Pattern::Suffix("ab".into())));
    assert_eq!(Pattern::new("%a_"), Some(Pattern::Pieces(vec![Piece::Any, Piece::Char('a'), Piece::One])));
    assert_eq!(Pattern::new("ab_%").unwrap().prefix(), "ab");
    assert_eq!(Pattern::new("a\\"), None);
}

use super::like::Piece;

/// By definition: `%` is nothing, or one character and `%`.
fn by_definition(pattern: &[Piece], text: &[char]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([Piece::Any, rest @ ..], _) => by_definition(rest, text) || (!text.is_empty() && by_definition(pattern, &text[1..])),
        ([Piece::One, rest @ ..], [_, more @ ..]) => by_definition(rest, more),
        ([Piece::Char(c), rest @ ..], [d, more @ ..]) => c == d && by_definition(rest, more),
        _ => false,
    }
}

proptest! {
    #[test]
    fn like_is_what_its_definition_says(pattern in "[ab%_é]{0,6}", text in "[abé]{0,7}") {
        let pieces: Vec<Piece> = pattern.chars().map(|c| match c { '%' => Piece::Any, '_' => Piece::One, c => Piece::Char(c) }).collect();
        let chars: Vec<char> = text.chars().collect();
        let pattern = Pattern::new(&pattern).unwrap();
        prop_assert_eq!(pattern.matches(&text), by_definition(&pieces, &chars), "{:?} like {:?}", text, pattern);
        prop_assert!(!pattern.matches(&text) || text.starts_with(&pattern.prefix()));
    }
    #[test]
    fn any_text_is_a_condition_or_is_refused(text in "\\PC{0,40}") {
        if let Ok(condition) = Condition::parse(&text) {
            let once = condition.to_string();
            prop_assert_eq!(shown(&once), once);
        }
    }
}
