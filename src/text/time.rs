//! Dates and timestamps as text: the proleptic Gregorian calendar, years 0001 to 9999, no leap seconds, UTC.

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;
/// Nanoseconds of a day.
pub(crate) const DAY_NS: i128 = DAY_US as i128 * 1000;
const FIRST_DAY: i32 = -719_162; // 0001-01-01
const LAST_DAY: i32 = 2_932_896; // 9999-12-31
const DATE_FORM: &str = "is not written YYYY-MM-DD";
const YEARS: &str = "is outside the years 0001 to 9999";

/// Days since 1970-01-01 of a date that exists.
fn days(year: i32, month: u32, day: u32) -> i32 {
    // years that begin on 1 March, so that the leap day is the last one; 400 years have 146,097 days
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let of_year = (153 * m.cast_signed() + 2) / 5 + day.cast_signed() - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month, day of a number of days since 1970-01-01.
pub(crate) fn civil(days: i32) -> (i32, u32, u32) {
    let z = i64::from(days) + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let m = (5 * of_year + 2) / 153;
    let day = of_year - (153 * m + 2) / 5 + 1;
    let month = if m < 10 { m + 3 } else { m - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (i32::try_from(year).unwrap_or(i32::MAX), u32::try_from(month).unwrap_or(1), u32::try_from(day).unwrap_or(1))
}

/// Checks that a day is within the years that are supported.
pub(crate) fn day_in_range(day: i64) -> Result<i32, &'static str> {
    i32::try_from(day).ok().filter(|d| (FIRST_DAY..=LAST_DAY).contains(d)).ok_or(YEARS)
}

/// Checks that microseconds since 1970 are within the years that are supported.
pub(crate) fn micros_in_range(us: i64) -> Result<i64, &'static str> {
    day_in_range(us.div_euclid(DAY_US)).map(|_| us)
}

fn two(text: &[u8], at: usize) -> Option<u32> {
    match text.get(at..at + 2) {
        Some([a @ b'0'..=b'9', b @ b'0'..=b'9']) => Some(u32::from(a - b'0') * 10 + u32::from(b - b'0')),
        _ => None,
    }
}

/// Reads the `YYYY-MM-DD` that `text` begins with; days since 1970-01-01.
fn leading_date(text: &[u8]) -> Result<i32, &'static str> {
    let parts = || {
        let year = two(text, 0)? * 100 + two(text, 2)?;
        (text.get(4) == Some(&b'-') && text.get(7) == Some(&b'-')).then_some(())?;
        Some((year.cast_signed(), two(text, 5)?, two(text, 8)?))
    };
    let (year, month, day) = parts().ok_or(DATE_FORM)?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year == 0 {
        return Err(YEARS);
    }
    if !(1..=12).contains(&month) || !(1..=length).contains(&day) {
        return Err("is a date that does not exist");
    }
    Ok(days(year, month, day))
}

/// Reads `YYYY-MM-DD`; days since 1970-01-01.
pub(crate) fn parse_date(text: &[u8]) -> Result<i32, &'static str> {
    if text.len() > 10 && leading_date(text).is_ok() && matches!(text[10], b'T' | b't' | b' ') {
        return Err("has a time of day, and a DATE has none (use a TIMESTAMP column and expr: date(...))");
    }
    if text.len() != 10 {
        return Err(DATE_FORM);
    }
    leading_date(text)
}

/// A timestamp text, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Microseconds since 1970-01-01 00:00, in UTC when an offset was given.
    pub(crate) us: i64,
    /// Nanoseconds beyond them, 0 to 999.
    pub(crate) nanos: i64,
    /// Was there an offset (`Z`, `+02:00`)?
    pub(crate) offset: bool,
    /// Digits after the second.
    pub(crate) fraction: usize,
}

/// Reads RFC 3339, `YYYY-MM-DD HH:MM[:SS[.f]]` with or without an offset, or a date alone (midnight). Digits below the nanosecond are cut off.
pub(crate) fn parse_timestamp(text: &[u8]) -> Result<Stamp, &'static str> {
    const FORM: &str = "is not written YYYY-MM-DD HH:MM:SS[.f] or as RFC 3339";
    let day = leading_date(text).map_err(|e| if e == DATE_FORM { FORM } else { e })?;
    if text.len() == 10 {
        return Ok(Stamp { us: i64::from(day) * DAY_US, nanos: 0, offset: false, fraction: 0 });
    }
    if !matches!(text[10], b'T' | b't' | b' ') {
        return Err(FORM);
    }
    let clock = clock(&text[11..], FORM)?;
    let offset = offset_seconds(&text[11 + clock.length..]).ok_or(FORM)?;
    let seconds = clock.seconds - offset.unwrap_or(0);
    let us = micros_in_range(i64::from(day) * DAY_US + seconds * 1_000_000 + clock.nanos / 1000)?;
    Ok(Stamp { us, nanos: clock.nanos % 1000, offset: offset.is_some(), fraction: clock.fraction })
}

/// Reads `HH:MM[:SS[.f]]`; microseconds since midnight.
pub(crate) fn parse_time(text: &[u8]) -> Result<i64, &'static str> {
    const FORM: &str = "is not written HH:MM:SS[.f]";
    let clock = clock(text, FORM)?;
    if clock.length < text.len() {
        return Err(match offset_seconds(&text[clock.length..]) {
            Some(_) => "has an offset, and a TIME has none",
            None => FORM,
        });
    }
    Ok(clock.seconds * 1_000_000 + clock.nanos / 1000)
}

/// A time of day at the beginning of a text.
struct Clock {
    /// Since midnight.
    seconds: i64,
    /// Beyond them.
    nanos: i64,
    /// Digits after the second.
    fraction: usize,
    /// Bytes of the text.
    length: usize,
}

#[inline]
fn clock(text: &[u8], form: &'static str) -> Result<Clock, &'static str> {
    let (hour, minute) = match (two(text, 0), text.get(2), two(text, 3)) {
        (Some(hour), Some(b':'), Some(minute)) => (hour, minute),
        _ => return Err(form),
    };
    let (mut length, mut second, mut nanos, mut fraction) = (5, 0, 0i64, 0);
    if text.get(5) == Some(&b':') {
        second = two(text, 6).ok_or(form)?;
        length = 8;
        if text.get(8) == Some(&b'.') {
            fraction = text[9..].iter().take_while(|b| b.is_ascii_digit()).count();
            let digit = |i: usize| if i < fraction { i64::from(text[9 + i] - b'0') } else { 0 };
            nanos = (0..6).fold(0, |n, i| n * 10 + digit(i)) * 1000;
            if fraction > 6 {
                nanos += (6..9).fold(0, |n, i| n * 10 + digit(i));
            }
            length = 9 + fraction;
            if fraction == 0 {
                return Err(form);
            }
        }
    }
    if second == 60 {
        return Err("is a leap second, which tables cannot hold");
    }
    if hour > 23 || minute > 59 || second > 59 {
        return Err("is a time of day that does not exist");
    }
    Ok(Clock { seconds: i64::from(hour * 3600 + minute * 60 + second), nanos, fraction, length })
}

/// `Z`, `+02:00`, `+0200`, `+02`, one blank before it or none; `Some(None)` when there is nothing.
fn offset_seconds(text: &[u8]) -> Option<Option<i64>> {
    let text = if let [b' ', rest @ ..] = text { rest } else { text };
    let sign = match text.first() {
        None => return Some(None),
        Some(b'Z' | b'z') if text.len() == 1 => return Some(Some(0)),
        Some(b'+') => 1,
        Some(b'-') => -1,
        Some(_) => return None,
    };
    let hours = two(text, 1)?;
    let minutes = match (text.len(), text.get(3)) {
        (3, _) => 0,
        (5, _) => two(text, 3)?,
        (6, Some(b':')) => two(text, 4)?,
        _ => return None,
    };
    (hours <= 23 && minutes <= 59).then(|| Some(sign * i64::from(hours * 3600 + minutes * 60)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_there_and_back() {
        let mut text = String::new();
        for day in FIRST_DAY..=LAST_DAY {
            let (y, m, d) = civil(day);
            text.clear();
            std::fmt::Write::write_fmt(&mut text, format_args!("{y:04}-{m:02}-{d:02}")).unwrap();
            assert_eq!(parse_date(text.as_bytes()), Ok(day), "{text}");
        }
    }

    #[test]
    fn days_agree_with_chrono() {
        for day in (FIRST_DAY..=LAST_DAY).step_by(97) {
            let other = chrono::NaiveDate::from_epoch_days(day).unwrap();
            let (y, m, d) = civil(day);
            assert_eq!(other.format("%Y-%m-%d").to_string(), format!("{y:04}-{m:02}-{d:02}"));
        }
    }

    #[test]
    fn forms_of_times() {
        let us = |t: &str| parse_time(t.as_bytes());
        assert_eq!(us("00:00"), Ok(0));
        assert_eq!(us("12:34:56"), Ok(45_296_000_000));
        assert_eq!(us("23:59:59.9999999"), Ok(DAY_US - 1));
        for bad in ["", "12", "12:3", "12:34:", "12:34:5", "12:34:56.", "12:34:56x", "2026-01-02 12:34", "1:02:03"] {
            assert_eq!(us(bad), Err("is not written HH:MM:SS[.f]"), "{bad}");
        }
        assert_eq!(us("12:34:56Z"), Err("has an offset, and a TIME has none"));
        assert_eq!(us("24:00:00"), Err("is a time of day that does not exist"));
        assert_eq!(us("23:59:60"), Err("is a leap second, which tables cannot hold"));
    }

    #[test]
    fn forms_of_timestamps() {
        let us = |t: &str| parse_timestamp(t.as_bytes()).map(|s| s.us);
        let base = 1_767_323_045_000_000; // 2026-01-02T03:04:05Z
        assert_eq!(us("2026-01-02T03:04:05Z"), Ok(base));
        assert_eq!(us("2026-01-02t03:04:05z"), Ok(base));
        assert_eq!(us("2026-01-02 03:04:05"), Ok(base));
        assert_eq!(us("2026-01-02 03:04"), Ok(base - 5_000_000));
        assert_eq!(us("2026-01-02"), Ok(base - 11_045_000_000));
        assert_eq!(us("2026-01-02T05:04:05.5+02:00"), Ok(base + 500_000));
        assert_eq!(us("2026-01-02T05:04:05 +0200"), Ok(base));
        assert_eq!(us("2026-01-01T22:04:05.1234567-05"), Ok(base + 123_456));
        let stamp = parse_timestamp(b"1969-12-31T23:59:59.1234567899").unwrap();
        assert_eq!((stamp.us, stamp.nanos, stamp.fraction), (-876_544, 789, 10));
        for bad in [
            "",
            "2026",
            "2026-01-02T",
            "2026-01-02T03",
            "2026-01-02T03:04:05.",
            "2026-01-02T03:04:05X",
            "2026-01-02T03:04:05Zx",
            "2026-01-02 03:04:05 +2",
        ] {
            assert!(us(bad).is_err(), "{bad}");
        }
        assert_eq!(us("2026-02-29 00:00:00"), Err("is a date that does not exist"));
        assert_eq!(us("2026-02-28 24:00:00"), Err("is a time of day that does not exist"));
        assert_eq!(us("2016-12-31T23:59:60Z"), Err("is a leap second, which tables cannot hold"));
        assert_eq!(us("0000-12-31T23:59:59Z"), Err(YEARS));
        assert_eq!(us("0001-01-01T00:00:00+01:00"), Err(YEARS));
        assert_eq!(us("9999-12-31T23:59:59.999999"), Ok(i64::from(LAST_DAY + 1) * DAY_US - 1));
    }
}
