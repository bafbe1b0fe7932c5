//! One value of a record to one value of a column. The rules, for every format:
//!
//! * whole numbers: a number or a text of one; `1.0` and `1e3` count, as they are whole; out of range or with a fraction is refused;
//! * BOOLEAN: `true`, `false`, or the text of one, in any case;
//! * DECIMAL: exactly what is written, from a number or a text; digits that do not fit are refused unless they are zeros;
//! * FLOAT, DOUBLE: the nearest one, from a number or a text; `NaN`, `Infinity`, `-Infinity` as texts; a finite number that
//!   would become infinite is refused;
//! * STRING, CHAR, VARCHAR: text as it is; a number, boolean, object or array becomes its JSON text as written; lengths are code points; CHAR is not padded;
//! * BYTES, BINARY, VARBINARY: base64 (the standard alphabet, with or without padding); lengths are bytes, a BINARY(n) has n of them;
//! * DATE: `YYYY-MM-DD`; TIMESTAMP: RFC 3339, `YYYY-MM-DD HH:MM[:SS[.f]]`, or a date (midnight); digits below the column's
//!   precision are cut off; a text with an offset becomes UTC, one without is taken as UTC; years 0001 to 9999,
//!   for precisions above 6 what 64 bits of nanoseconds can hold, 1677-09-21 to 2262-04-11;
//! * TIME: `HH:MM[:SS[.f]]`, no offset; digits below the precision, and always those below the millisecond, are cut off;
//! * numbers for DATE, TIME and TIMESTAMP (and texts of one) need the column's `unit`;
//! * around the text of a number, boolean, date, time or timestamp blanks do not count.

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD as BASE64, BASE64_STANDARD_NO_PAD as BASE64_BARE};
use std::borrow::Cow;

use super::mapping::Unit;
use crate::text::number::{Exact, Misfit, NotExact, POW10, small_decimal, small_int};
use crate::text::time::{DAY_US, Stamp, day_in_range, micros_in_range, parse_date, parse_time, parse_timestamp};

/// A value as a record has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// The record says null.
    Null,
    /// The record has no such field.
    Absent,
    /// An outer object of the path is something else.
    NotObject,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as written.
    Number(&'a [u8]),
    /// A text, quotes and escapes taken away; UTF-8.
    Text(&'a [u8]),
    /// An object or an array, as written.
    Json(&'a [u8]),
    /// A number that comes with the record.
    Int(i64),
    /// Milliseconds since 1970-01-01 UTC that come with the record.
    Millis(i64),
    /// Bytes that come with the record: a key, a header.
    Bytes(&'a [u8]),
    /// A text that cannot be one, and why.
    Broken(&'static str),
}

/// Why a value does not fit; reads on after the value itself: `is not a number`.
pub(crate) type Why = Cow<'static, str>;
pub(crate) type Cast<T> = Result<T, Why>;

fn no<T>(why: &'static str) -> Cast<T> {
    Err(Cow::Borrowed(why))
}

/// Shows a value in a message: at most 80 characters, control characters escaped.
pub(crate) fn cut(value: &[u8]) -> String {
    const MOST: usize = 80;
    let text = String::from_utf8_lossy(&value[..value.len().min(4 * MOST + 4)]);
    let mut out = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == MOST {
            break;
        }
        match c {
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    if value.len() > 4 * MOST + 4 || text.chars().nth(MOST).is_some() {
        out.push_str("...");
    }
    out
}

/// The bytes of a number, or of a text that may hold one, blanks trimmed.
fn number_text<'a>(value: Value<'a>, not: &'static str) -> Cast<&'a [u8]> {
    match value {
        Value::Number(text) => Ok(text),
        Value::Text(text) | Value::Bytes(text) => match text.trim_ascii() {
            [] => no("is empty"),
            text => Ok(text),
        },
        Value::Broken(why) => no(why),
        _ => no(not),
    }
}

fn exact(text: &[u8]) -> Cast<Exact> {
    Exact::parse(text).map_err(|e| match e {
        NotExact::Syntax => "is not a number".into(),
        NotExact::Digits => "has more than 38 digits".into(),
    })
}

pub(crate) fn boolean(value: Value<'_>) -> Cast<bool> {
    match value {
        Value::Bool(b) => Ok(b),
        Value::Text(text) | Value::Bytes(text) => match text.trim_ascii() {
            t if t.eq_ignore_ascii_case(b"true") => Ok(true),
            t if t.eq_ignore_ascii_case(b"false") => Ok(false),
            _ => no("is not true or false"),
        },
        Value::Broken(why) => no(why),
        _ => no("is not true or false"),
    }
}

/// A whole number within `min..=max`.
#[inline]
pub(crate) fn integer(value: Value<'_>, min: i64, max: i64) -> Cast<i64> {
    let n = match value {
        Value::Number(text) | Value::Text(text) => small_int(text),
        Value::Int(n) | Value::Millis(n) => Some(n),
        _ => None,
    };
    match n {
        Some(n) if min <= n && n <= max => Ok(n),
        Some(_) => Err(range(min, max)),
        None => integer_slow(value, min, max),
    }
}

fn range(min: i64, max: i64) -> Why {
    format!("is out of range, {min} to {max}").into()
}

#[cold]
fn integer_slow(value: Value<'_>, min: i64, max: i64) -> Cast<i64> {
    let number = match Exact::parse(number_text(value, "is not a whole number")?) {
        Ok(number) => number,
        Err(NotExact::Syntax) => return no("is not a whole number"),
        Err(NotExact::Digits) => return Err(range(min, max)),
    };
    match number.scaled(0) {
        Ok(n) => i64::try_from(n).ok().filter(|n| min <= *n && *n <= max).ok_or_else(|| range(min, max)),
        Err(Misfit::Large) => Err(range(min, max)),
        Err(Misfit::Fraction) => no("is not a whole number"),
    }
}

/// The unscaled value of a DECIMAL(precision, scale).
#[inline]
pub(crate) fn decimal(value: Value<'_>, precision: u8, scale: u8) -> Cast<i128> {
    if let Value::Number(text) | Value::Text(text) = value
        && let Some((n, fraction)) = small_decimal(text)
        && fraction <= scale
    {
        // 18 digits times 10^38 can overflow; then the slow way says so
        let limit = POW10[usize::from(precision.min(38))];
        if let Some(v) = i128::from(n).checked_mul(POW10[usize::from(scale - fraction)])
            && -limit < v
            && v < limit
        {
            return Ok(v);
        }
    }
    decimal_slow(value, precision, scale)
}

#[cold]
fn decimal_slow(value: Value<'_>, precision: u8, scale: u8) -> Cast<i128> {
    let number = match value {
        Value::Int(n) | Value::Millis(n) => Exact::parse(n.to_string().as_bytes()).map_err(|_| "is not a number")?,
        value => exact(number_text(value, "is not a number")?)?,
    };
    let whole = precision.saturating_sub(scale);
    let large = || format!("is too large, at most {whole} digits fit before the point").into();
    match number.scaled(scale) {
        Ok(v) if v.unsigned_abs() < POW10[usize::from(precision.min(38))].unsigned_abs() => Ok(v),
        Ok(_) | Err(Misfit::Large) => Err(large()),
        Err(Misfit::Fraction) => Err(format!("has {} digits after the point, {scale} fit", number.fraction_digits()).into()),
    }
}

/// Powers of ten that are exact as floats.
pub(crate) const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
const POWERS_32: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];

/// What FLOAT and DOUBLE have in common.
pub(crate) trait Real: Copy + std::str::FromStr {
    const NAN: Self;
    const INFINITY: Self;
    fn negative(self) -> Self;
    fn finite(self) -> bool;
    /// The quotient of two numbers that are both exact, which is then the nearest; none when they are not.
    fn quotient(n: i64, power: u8) -> Option<Self>;
}

impl Real for f64 {
    const NAN: f64 = f64::NAN;
    const INFINITY: f64 = f64::INFINITY;
    fn negative(self) -> f64 {
        -self
    }
    fn finite(self) -> bool {
        self.is_finite()
    }
    fn quotient(n: i64, power: u8) -> Option<f64> {
        POWERS.get(usize::from(power)).filter(|_| n.unsigned_abs() < 1 << 53).map(|p| n as f64 / p)
    }
}

impl Real for f32 {
    const NAN: f32 = f32::NAN;
    const INFINITY: f32 = f32::INFINITY;
    fn negative(self) -> f32 {
        -self
    }
    fn finite(self) -> bool {
        self.is_finite()
    }
    fn quotient(n: i64, power: u8) -> Option<f32> {
        POWERS_32.get(usize::from(power)).filter(|_| n.unsigned_abs() < 1 << 24).map(|p| n as f32 / p)
    }
}

/// The nearest FLOAT or DOUBLE.
#[inline]
pub(crate) fn real<T: Real>(value: Value<'_>) -> Cast<T> {
    if let Value::Number(text) | Value::Text(text) = value
        && let Some((n, power)) = small_decimal(text)
        && n != 0 // -0 has a sign
        && let Some(v) = T::quotient(n, power)
    {
        return Ok(v);
    }
    real_slow(value)
}

#[cold]
fn real_slow<T: Real>(value: Value<'_>) -> Cast<T> {
    if let Value::Int(n) | Value::Millis(n) = value {
        return n.to_string().parse().or(no("is not a number"));
    }
    let text = number_text(value, "is not a number")?;
    let (sign, name) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let signed = |v: T| if sign { v.negative() } else { v };
    if name.eq_ignore_ascii_case(b"nan") {
        return Ok(T::NAN);
    }
    if name.eq_ignore_ascii_case(b"infinity") || name.eq_ignore_ascii_case(b"inf") {
        return Ok(signed(T::INFINITY));
    }
    let parsed =
        if Exact::parse(text) == Err(NotExact::Syntax) { None } else { std::str::from_utf8(text).ok().and_then(|t| t.parse::<T>().ok()) };
    match parsed {
        Some(v) if v.finite() => Ok(v),
        Some(_) => no("is out of range"),
        None => no("is not a number"),
    }
}

/// Days since 1970-01-01.
#[inline]
pub(crate) fn date(value: Value<'_>, unit: Option<Unit>) -> Cast<i32> {
    match value {
        Value::Text(text) | Value::Bytes(text) => match parse_date(text) {
            Ok(day) => Ok(day),
            Err(why) => {
                let text = text.trim_ascii();
                match (unit, Exact::parse(text)) {
                    (Some(unit), Ok(_)) => date(Value::Number(text), Some(unit)),
                    _ if text.is_empty() => no("is empty"),
                    _ => parse_date(text).or(no(why)),
                }
            }
        },
        Value::Number(_) | Value::Int(_) | Value::Millis(_) => match unit {
            Some(Unit::Days) => Ok(day_in_range(integer(value, i32::MIN.into(), i32::MAX.into())?)?),
            Some(unit) => Ok(day_in_range(epoch(value, unit)?.div_euclid(DAY_US))?),
            None => no("is a number, and the column does not say of what (set unit: d for days, or s, ms, us, ns since 1970-01-01)"),
        },
        Value::Broken(why) => no(why),
        _ => no("is not a date"),
    }
}

/// Microseconds since 1970-01-01 00:00 UTC.
#[inline]
pub(crate) fn timestamp(value: Value<'_>, unit: Option<Unit>) -> Cast<i64> {
    match value {
        Value::Text(text) | Value::Bytes(text) => match parse_timestamp(text) {
            Ok(stamp) => Ok(stamp.us),
            Err(why) => match timestamp_slow(text.trim_ascii(), unit, why)? {
                Moment::Stamp(stamp) => Ok(stamp.us),
                Moment::Number(unit) => epoch(Value::Number(text.trim_ascii()), unit),
            },
        },
        Value::Number(_) | Value::Int(_) => match unit {
            Some(unit) => epoch(value, unit),
            None => no(UNIT),
        },
        Value::Millis(ms) => Ok(micros_in_range(ms.saturating_mul(1000))?),
        Value::Broken(why) => no(why),
        _ => no("is not a timestamp"),
    }
}

const OUT: &str = "is outside the years 0001 to 9999";
const UNIT: &str = "is a number, and the column does not say of what (set unit: s, ms, us or ns, since 1970-01-01 UTC)";
const NANOS: &str =
    "is outside what nanoseconds can hold, 1677-09-21 00:12:43.145224192 to 2262-04-11 23:47:16.854775807 (precision 6 holds more)";

/// Nanoseconds since 1970-01-01 00:00 UTC, a multiple of `step`: what is beyond is cut off.
pub(crate) fn timestamp_nanos(value: Value<'_>, unit: Option<Unit>, step: i64) -> Cast<i64> {
    let ns = nanos(value, unit)?;
    let ns = ns - ns.rem_euclid(step.into());
    i64::try_from(ns).or_else(|_| {
        let us = i64::try_from(ns.div_euclid(1000)).unwrap_or(i64::MAX);
        micros_in_range(us)?;
        no(NANOS)
    })
}

/// Nanoseconds since 1970-01-01 00:00 UTC, which are not checked to fit 64 bits.
pub(crate) fn nanos(value: Value<'_>, unit: Option<Unit>) -> Cast<i128> {
    let of = |stamp: Stamp| i128::from(stamp.us) * 1000 + i128::from(stamp.nanos);
    match value {
        Value::Text(text) | Value::Bytes(text) => match parse_timestamp(text) {
            Ok(stamp) => Ok(of(stamp)),
            Err(why) => match timestamp_slow(text.trim_ascii(), unit, why)? {
                Moment::Stamp(stamp) => Ok(of(stamp)),
                Moment::Number(unit) => epoch_nanos(Value::Number(text.trim_ascii()), unit, OUT),
            },
        },
        Value::Number(_) | Value::Int(_) => match unit {
            Some(unit) => epoch_nanos(value, unit, OUT),
            None => no(UNIT),
        },
        value => Ok(i128::from(timestamp(value, unit)?) * 1000),
    }
}

/// What a text turned out to be that is no timestamp as it stands.
enum Moment {
    Stamp(Stamp),
    Number(Unit),
}

#[cold]
fn timestamp_slow(text: &[u8], unit: Option<Unit>, why: &'static str) -> Cast<Moment> {
    match (unit, Exact::parse(text)) {
        (Some(unit), Ok(_)) => Ok(Moment::Number(unit)),
        (None, Ok(_)) if text.len() > 4 => no(UNIT),
        _ if text.is_empty() => no("is empty"),
        _ => parse_timestamp(text).map(Moment::Stamp).or(no(why)),
    }
}

/// Milliseconds since midnight, those below the precision cut off.
pub(crate) fn time(value: Value<'_>, unit: Option<Unit>, precision: u8) -> Cast<i32> {
    const UNIT: &str = "is a number, and the column does not say of what (set unit: s, ms, us or ns, since midnight)";
    let us = match value {
        Value::Text(text) | Value::Bytes(text) => match (text.trim_ascii(), unit) {
            ([], _) => return no("is empty"),
            (text, unit) => match (parse_time(text), unit, Exact::parse(text)) {
                (Ok(us), ..) => us,
                (Err(_), Some(unit), Ok(_)) => of_day(Value::Number(text), unit)?,
                (Err(_), None, Ok(_)) => return no(UNIT),
                (Err(why), ..) => return no(why),
            },
        },
        Value::Number(_) | Value::Int(_) => match unit {
            Some(unit) => of_day(value, unit)?,
            None => return no(UNIT),
        },
        Value::Broken(why) => return no(why),
        _ => return no("is not a time of day"),
    };
    let ms = i32::try_from(us / 1000).map_err(|_| "is not a time of day")?;
    Ok(ms - ms % 10i32.pow(u32::from(3u8.saturating_sub(precision))))
}

/// A number of seconds, ..., since midnight, as microseconds.
fn of_day(value: Value<'_>, unit: Unit) -> Cast<i64> {
    const OUT: &str = "is not within a day, from 0 to before 24 hours";
    let ns = epoch_nanos(value, unit, OUT)?;
    let us = i64::try_from(ns.div_euclid(1000)).ok().filter(|us| (0..DAY_US).contains(us));
    Ok(us.ok_or(OUT)?)
}

/// A number of seconds, ..., as nanoseconds, rounded down.
fn epoch_nanos(value: Value<'_>, unit: Unit, out: &'static str) -> Cast<i128> {
    let (digits, factor) = match unit {
        Unit::Days => (0, i128::from(DAY_US) * 1000),
        Unit::Seconds => (9, 1),
        Unit::Millis => (6, 1),
        Unit::Micros => (3, 1),
        Unit::Nanos => (0, 1),
    };
    let scaled = match value {
        Value::Int(n) => i128::from(n).checked_mul(POW10[digits]),
        value => exact(number_text(value, "is not a number")?)?.floor(u8::try_from(digits).unwrap_or(0)).0,
    };
    Ok(scaled.and_then(|n| n.checked_mul(factor)).ok_or(out)?)
}

/// A number of seconds, ..., as microseconds, rounded down.
fn epoch(value: Value<'_>, unit: Unit) -> Cast<i64> {
    let (up, down) = match unit {
        Unit::Days => (DAY_US, 1),
        Unit::Seconds => (1_000_000, 1),
        Unit::Millis => (1000, 1),
        Unit::Micros => (1, 1),
        Unit::Nanos => (1, 1000),
    };
    let small = match value {
        Value::Number(text) => small_int(text),
        Value::Int(n) => Some(n),
        _ => None,
    };
    let us = match small {
        Some(n) => n.checked_mul(up).map(|n| n.div_euclid(down)).ok_or(OUT)?,
        None => {
            let number = exact(number_text(value, "is not a number")?)?;
            // microseconds = number * up / down; up and down are powers of ten here (a fraction of a day is not)
            let digits = match unit {
                Unit::Days => 0,
                Unit::Seconds => 6,
                Unit::Millis => 3,
                Unit::Micros | Unit::Nanos => 0,
            };
            let scaled = number.floor(digits).0.ok_or(OUT)?;
            let factor = if unit == Unit::Days { DAY_US } else { 1 };
            let us = scaled.checked_mul(factor.into()).map(|n| n.div_euclid(down.into())).ok_or(OUT)?;
            i64::try_from(us).map_err(|_| OUT)?
        }
    };
    Ok(micros_in_range(us)?)
}

/// The text of a STRING, CHAR or VARCHAR of at most `most` code points; a number that comes with the record is written to `scratch`.
#[inline]
pub(crate) fn text<'a>(value: Value<'a>, most: Option<u32>, scratch: &'a mut Vec<u8>) -> Cast<&'a [u8]> {
    let text = match value {
        Value::Text(text) | Value::Number(text) | Value::Json(text) => text,
        Value::Bool(true) => b"true",
        Value::Bool(false) => b"false",
        Value::Int(n) | Value::Millis(n) => {
            scratch.clear();
            scratch.extend_from_slice(n.to_string().as_bytes());
            scratch
        }
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.as_bytes(),
            Err(_) => return no("is not valid UTF-8"),
        },
        Value::Broken(why) => return no(why),
        Value::Null | Value::Absent | Value::NotObject => return no("is not a text"),
    };
    match most {
        Some(most) if text.len() > most as usize => {
            let points = bytecount(text);
            if points > most as usize { Err(format!("has {points} characters, at most {most} fit").into()) } else { Ok(text) }
        }
        _ => Ok(text),
    }
}

/// Code points of a valid UTF-8 text.
fn bytecount(text: &[u8]) -> usize {
    text.iter().filter(|b| **b & 0xC0 != 0x80).count()
}

/// How many bytes a BINARY(n) or VARBINARY(n) takes.
#[derive(Clone, Copy)]
pub(crate) struct Length {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

/// The same as [`bytes`], of a length that fits.
pub(crate) fn sized_bytes(value: Value<'_>, length: Length, out: &mut Vec<u8>) -> Cast<()> {
    let start = out.len();
    bytes(value, out)?;
    let n = out.len() - start;
    if (length.least as usize..=length.most as usize).contains(&n) {
        return Ok(());
    }
    out.truncate(start);
    let how = if length.least == length.most { "exactly" } else { "at most" };
    Err(format!("is {n} bytes, {how} {} fit", length.most).into())
}

/// BYTES: what base64 stands for, or bytes that come with the record as they are.
pub(crate) fn bytes(value: Value<'_>, out: &mut Vec<u8>) -> Cast<()> {
    match value {
        Value::Text(text) => {
            let start = out.len();
            base64(text, out).ok_or_else(|| {
                out.truncate(start);
                "is not base64".into()
            })
        }
        Value::Bytes(bytes) => {
            out.extend_from_slice(bytes);
            Ok(())
        }
        Value::Broken(why) => no(why),
        _ => no("is not a text of base64"),
    }
}

/// Padded to the last character, or not at all.
fn base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let engine = if text.ends_with(b"=") { BASE64 } else { BASE64_BARE };
    engine.decode_vec(text, out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_agrees_with_its_definition() {
        let read = |t: &str| {
            let mut out = Vec::new();
            base64(t.as_bytes(), &mut out).map(|()| out)
        };
        for (text, want) in [("", ""), ("Zg==", "f"), ("Zg", "f"), ("Zm8=", "fo"), ("Zm8", "fo"), ("Zm9v", "foo"), ("Zm9vYmFy", "foobar")] {
            assert_eq!(read(text).as_deref(), Some(want.as_bytes()), "{text}");
        }
        for bad in ["Z", "Zh==", "Zg=", "=", "====", "Zm9v=", "Zm 9v", "Zm9-"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn floats_are_the_nearest_ones() {
        for text in ["0.1", "-0.3", "123456.789", "9007199254740993", "16777217", "3.4028235e38", "1e-45", "0.000001", "-0", "8.5e-1"] {
            assert_eq!(real::<f64>(Value::Number(text.as_bytes())).unwrap().to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
            assert_eq!(real::<f32>(Value::Number(text.as_bytes())).unwrap().to_bits(), text.parse::<f32>().unwrap().to_bits(), "{text}");
        }
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        let long = "é".repeat(1000);
        assert_eq!(cut(long.as_bytes()), format!("{}...", "é".repeat(80)));
        assert_eq!(cut(b"a\nb"), "a\\nb");
        assert_eq!(cut("x".repeat(80).as_bytes()), "x".repeat(80));
    }
}
