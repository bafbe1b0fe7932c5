//! Durations and sizes with obligatory units, as they are written in the pipeline file: `10s`, `256MiB`.

use std::time::Duration;

use crate::error::{Error, Result};

const TIME_UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZE_UNITS: [(&str, u64); 7] =
    [("B", 1), ("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
const TIME_HINT: &str = "durations are a whole number and one of ms, s, m, h, d, like `10s`";
const SIZE_HINT: &str = "sizes are a whole number and one of B, KB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024), like `64MiB`";
/// What people write instead, in lower case.
const TIME_HABITS: [(&str, &str); 17] = [
    ("msec", "ms"),
    ("millis", "ms"),
    ("milliseconds", "ms"),
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("min", "m"),
    ("mins", "m"),
    ("minute", "m"),
    ("minutes", "m"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
    ("ms", "ms"),
];

/// Reads `500ms`, `10s`, `5m`, `1h`, `7d`. A number without a unit is `Invalid`; so is a fraction.
pub fn parse_duration(text: &str) -> Result<Duration> {
    parse(text, "duration", &TIME_UNITS, TIME_HINT).map(Duration::from_millis)
}

/// Reads `512B`, `64KB`, `1MiB`, ... as bytes. A number without a unit is `Invalid`; so is a fraction.
pub fn parse_size(text: &str) -> Result<u64> {
    parse(text, "size", &SIZE_UNITS, SIZE_HINT)
}

/// The shortest text that [`parse_duration`] reads as the same duration, to the millisecond.
pub fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), &TIME_UNITS, "0s")
}

/// The shortest text that [`parse_size`] reads as the same number of bytes.
pub fn show_size(bytes: u64) -> String {
    show(bytes, &SIZE_UNITS, "0B")
}

fn show(value: u64, units: &[(&str, u64)], zero: &str) -> String {
    let fitting = units.iter().filter(|(_, factor)| value.is_multiple_of(*factor));
    match fitting.max_by_key(|(_, factor)| *factor) {
        Some((unit, factor)) if value > 0 => format!("{}{unit}", value / factor),
        _ => zero.to_owned(),
    }
}

fn parse(text: &str, what: &str, units: &[(&str, u64)], hint: &str) -> Result<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim_start());
    let refuse = |message: String| Err(Error::invalid(message).hint(hint));
    if digits.is_empty() || unit.starts_with(|c: char| !c.is_alphabetic()) {
        return refuse(format!("`{text}` is no {what}"));
    }
    if unit.is_empty() {
        return refuse(format!("the {what} `{text}` has no unit"));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let hint = match habit(unit, units) {
            Some(right) => format!("did you mean `{digits}{right}`? {hint}"),
            None => hint.to_owned(),
        };
        return Err(Error::invalid(format!("`{unit}` in `{text}` is no unit of a {what}")).hint(hint));
    };
    match digits.parse::<u64>().ok().and_then(|n| n.checked_mul(*factor)) {
        Some(value) => Ok(value),
        None => Err(Error::invalid(format!("the {what} `{text}` is too large")).hint(format!("the largest is {}", largest(units)))),
    }
}

/// The unit that was probably meant.
fn habit<'a>(unit: &str, units: &[(&'a str, u64)]) -> Option<&'a str> {
    let lower = unit.to_lowercase();
    let meant = TIME_HABITS.iter().find(|(habit, _)| *habit == lower).map(|(_, right)| *right);
    units.iter().map(|(name, _)| *name).find(|name| Some(*name) == meant || name.to_lowercase() == lower)
}

fn largest(units: &[(&str, u64)]) -> String {
    let (unit, factor) = units.iter().max_by_key(|(_, factor)| *factor).copied().unwrap_or(("", 1));
    format!("{}{unit}", u64::MAX / factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_unit_has_its_factor() {
        for (text, ms) in [("5ms", 5), ("5s", 5_000), ("5m", 300_000), ("5h", 18_000_000), ("5d", 432_000_000), ("10 s", 10_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for (text, bytes) in [
            ("7B", 7),
            ("7KB", 7_000),
            ("7MB", 7_000_000),
            ("7GB", 7_000_000_000),
            ("7KiB", 7_168),
            ("7MiB", 7_340_032),
            ("7GiB", 7_516_192_768),
        ] {
            assert_eq!(parse_size(text).unwrap(), bytes, "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_refused_and_the_units_are_named() {
        assert_eq!(
            parse_duration("10").unwrap_err().to_string(),
            "the duration `10` has no unit; durations are a whole number and one of ms, s, m, h, d, like `10s`"
        );
        assert_eq!(
            parse_size("1024").unwrap_err().to_string(),
            "the size `1024` has no unit; sizes are a whole number and one of B, KB, MB, GB (powers of 1000), KiB, MiB, GiB \
             (powers of 1024), like `64MiB`"
        );
    }

    #[test]
    fn a_near_miss_names_what_was_meant() {
        let near = |e: Error| e.next_step().unwrap().split('?').next().unwrap().to_owned();
        assert_eq!(parse_duration("10sec").unwrap_err().message(), "`sec` in `10sec` is no unit of a duration");
        assert_eq!(near(parse_duration("10sec").unwrap_err()), "did you mean `10s`");
        assert_eq!(near(parse_duration("10 Minutes").unwrap_err()), "did you mean `10m`");
        assert_eq!(near(parse_size("64mb").unwrap_err()), "did you mean `64MB`");
        assert_eq!(near(parse_size("64mib").unwrap_err()), "did you mean `64MiB`");
        assert_eq!(parse_size("64s").unwrap_err().message(), "`s` in `64s` is no unit of a size");
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "s", "-5s", "1.5h", "1h30m", "10s!", "五s", "5 5s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_size("18446744073709551615GiB").unwrap_err().next_step(), Some("the largest is 17179869183GiB"));
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "\\PC{0,20}") {
            let _ = (parse_duration(&text), parse_size(&text));
        }
        #[test]
        fn what_is_shown_reads_back(n in any::<u64>()) {
            prop_assert_eq!(parse_size(&show_size(n)).unwrap(), n);
            prop_assert_eq!(parse_duration(&show_duration(Duration::from_millis(n))).unwrap(), Duration::from_millis(n));
        }
    }
}
