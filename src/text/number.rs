//! Decimal text, exactly: nothing in here goes through a float, so a big integer or a decimal is what was written or an error.

use std::cmp::Ordering;

/// The powers of ten that fit an `i128`.
pub(crate) const POW10: [i128; 39] = {
    let mut table = [1i128; 39];
    let mut i = 1;
    while i < 39 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

/// `(-1)^negative * digits * 10^exponent`; `digits` has no trailing zero, so the form is unique (zero is `0 * 10^0`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exact {
    pub(crate) negative: bool,
    pub(crate) digits: u128,
    pub(crate) exponent: i32,
}

/// Two unscaled decimals, each with its scale.
pub(crate) fn compare_scaled((a, scale_a): (i128, u8), (b, scale_b): (i128, u8)) -> Ordering {
    let up = |v: i128, by: u8| v.checked_mul(POW10[usize::from(by.min(38))]);
    if scale_a < scale_b {
        // beyond an i128 it is greater, by its sign, than anything of 38 digits
        up(a, scale_b - scale_a).map_or_else(|| a.cmp(&0), |a| a.cmp(&b))
    } else {
        up(b, scale_a - scale_b).map_or_else(|| 0.cmp(&b), |b| a.cmp(&b))
    }
}

/// Why a text is no [`Exact`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotExact {
    /// It is not a number in decimal notation.
    Syntax,
    /// More than 38 significant digits.
    Digits,
}

/// Why an [`Exact`] does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// Too large for 38 digits at this scale.
    Large,
    /// It has digits, not zeros, below the scale.
    Fraction,
}

impl Exact {
    /// Reads `-12.50`, `+7`, `1e3`, `.5`, `5.`; nothing around it.
    pub(crate) fn parse(text: &[u8]) -> Result<Exact, NotExact> {
        let (negative, rest) = match text.split_first() {
            Some((b'-', rest)) => (true, rest),
            Some((b'+', rest)) => (false, rest),
            _ => (false, text),
        };
        let (mut digits, mut significant, mut zeros, mut fraction) = (0u128, 0usize, 0i64, 0i64);
        let (mut seen, mut point, mut at) = (false, false, 0);
        while let Some(&b) = rest.get(at) {
            match b {
                b'0'..=b'9' => {
                    seen = true;
                    fraction += i64::from(point);
                    if b == b'0' {
                        zeros += i64::from(digits != 0);
                    } else {
                        let shift = usize::try_from(zeros).unwrap_or(usize::MAX).saturating_add(1);
                        significant = significant.saturating_add(shift);
                        if significant > 38 {
                            return only_number(&rest[at..], point).and(Err(NotExact::Digits));
                        }
                        digits = digits * POW10[shift].unsigned_abs() + u128::from(b - b'0');
                        zeros = 0;
                    }
                }
                b'.' if !point => point = true,
                _ => break,
            }
            at += 1;
        }
        if !seen {
            return Err(NotExact::Syntax);
        }
        let power = match rest.get(at) {
            None => 0,
            Some(b'e' | b'E') => power_of(&rest[at + 1..])?,
            Some(_) => return Err(NotExact::Syntax),
        };
        if digits == 0 {
            return Ok(Exact { negative: false, digits: 0, exponent: 0 });
        }
        let exponent = (zeros - fraction).saturating_add(power).clamp(-1_000_000, 1_000_000);
        Ok(Exact { negative, digits, exponent: i32::try_from(exponent).unwrap_or(i32::MAX) })
    }

    /// The value times `10^scale`, when that is an integer of at most 38 digits.
    pub(crate) fn scaled(self, scale: u8) -> Result<i128, Misfit> {
        match self.floor(scale) {
            (Some(v), true) => Ok(v),
            (Some(_), false) => Err(Misfit::Fraction),
            (None, _) => Err(Misfit::Large),
        }
    }

    /// The greatest integer not above the value times `10^scale` (none: beyond 38 digits), and whether it is that value exactly.
    pub(crate) fn floor(self, scale: u8) -> (Option<i128>, bool) {
        let up = self.exponent + i32::from(scale);
        let signed = |v: u128| i128::try_from(v).ok().map(|v| if self.negative { -v } else { v });
        if self.digits == 0 {
            return (Some(0), true);
        }
        let power = usize::try_from(up.unsigned_abs()).ok().and_then(|p| POW10.get(p)).map(|p| p.unsigned_abs());
        if up >= 0 {
            return (power.and_then(|p| self.digits.checked_mul(p)).filter(|v| *v < 10u128.pow(38)).and_then(signed), true);
        }
        // there are no trailing zeros, so something is cut off
        let whole = power.map_or(0, |p| self.digits / p);
        (signed(whole).map(|v| if self.negative { v - 1 } else { v }), false)
    }

    /// How many digits stand after the point.
    pub(crate) fn fraction_digits(self) -> u32 {
        if self.exponent < 0 { self.exponent.unsigned_abs() } else { 0 }
    }
}

/// Is the rest of a number, from a digit on, well formed?
fn only_number(rest: &[u8], mut point: bool) -> Result<(), NotExact> {
    for (i, &b) in rest.iter().enumerate() {
        match b {
            b'0'..=b'9' => {}
            b'.' if !point => point = true,
            b'e' | b'E' => return power_of(&rest[i + 1..]).map(drop),
            _ => return Err(NotExact::Syntax),
        }
    }
    Ok(())
}

/// The number behind `e`; cut at a billion, which is far beyond everything that fits anywhere.
fn power_of(text: &[u8]) -> Result<i64, NotExact> {
    let (sign, digits) = match text.split_first() {
        Some((b'-', rest)) => (-1, rest),
        Some((b'+', rest)) => (1, rest),
        _ => (1, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NotExact::Syntax);
    }
    Ok(sign * digits.iter().fold(0i64, |n, b| (n * 10 + i64::from(b - b'0')).min(1_000_000_000)))
}

/// An integer of at most 18 digits, the usual case; none for everything else, which is then read by [`Exact::parse`].
#[inline]
pub(crate) fn small_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut n = 0i64;
    for b in digits {
        let d = b.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n * 10 + i64::from(d);
    }
    Some(if negative { -n } else { n })
}

/// A plain decimal number of at most 18 digits: its digits as an integer, and how many of them stand after the point.
#[inline]
pub(crate) fn small_decimal(text: &[u8]) -> Option<(i64, u8)> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (mut n, mut count, mut point) = (0i64, 0u8, None);
    for b in digits {
        let d = b.wrapping_sub(b'0');
        if d <= 9 && count < 18 {
            n = n * 10 + i64::from(d);
            count += 1;
        } else if *b == b'.' && point.is_none() {
            point = Some(count);
        } else {
            return None;
        }
    }
    if count == 0 {
        return None;
    }
    Some((if negative { -n } else { n }, point.map_or(0, |p| count - p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(text: &str, scale: u8) -> Result<i128, String> {
        Exact::parse(text.as_bytes()).map_err(|e| format!("{e:?}"))?.scaled(scale).map_err(|e| format!("{e:?}"))
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for (text, scale, want) in [
            ("0", 0, 0),
            ("-0.000", 2, 0),
            ("0e999999999999", 0, 0),
            ("007", 0, 7),
            ("1.50", 2, 150),
            ("1.5000000000000000000000000000000000000000000000000", 2, 150),
            ("+.5", 1, 5),
            ("5.", 1, 50),
            ("1e3", 0, 1000),
            ("12.34E+1", 1, 1234),
            ("100e-2", 0, 1),
            ("1000000000000000000000000000000000000000000e-42", 0, 1),
            ("-99999999999999999999999999999999999999", 0, -99_999_999_999_999_999_999_999_999_999_999_999_999),
        ] {
            assert_eq!(scaled(text, scale), Ok(want), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        for (text, scale, want) in [
            ("", 0, "Syntax"),
            ("-", 0, "Syntax"),
            (".", 0, "Syntax"),
            ("1e", 0, "Syntax"),
            ("1e+", 0, "Syntax"),
            ("0x10", 0, "Syntax"),
            ("1 ", 0, "Syntax"),
            ("1.2.3", 2, "Syntax"),
            ("111111111111111111111111111111111111111x", 0, "Syntax"),
            ("1.005", 2, "Fraction"),
            ("1e-999999999999", 38, "Fraction"),
            ("1e38", 0, "Large"),
            ("1e999999999999", 0, "Large"),
            ("123456789012345678901234567890123456789", 0, "Digits"),
        ] {
            assert_eq!(scaled(text, scale), Err(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn floor_goes_down_on_both_sides_of_zero() {
        let floor = |t: &str, s| Exact::parse(t.as_bytes()).unwrap().floor(s);
        assert_eq!(floor("1.5", 0), (Some(1), false));
        assert_eq!(floor("-1.5", 0), (Some(-2), false));
        assert_eq!(floor("-1e-99", 0), (Some(-1), false));
        assert_eq!(floor("1e-99", 0), (Some(0), false));
        assert_eq!(floor("-2", 0), (Some(-2), true));
    }

    #[test]
    fn the_short_ways_agree_with_the_long_one() {
        for text in ["0", "-1", "12345", "999999999999999999", "-0", "1.25", "-0.5", ".5", "5.", "12.", "1e3", "", "-", ".", "1.1.1"] {
            if let Some(n) = small_int(text.as_bytes()) {
                assert_eq!(scaled(text, 0), Ok(n.into()), "{text}");
            }
            if let Some((n, s)) = small_decimal(text.as_bytes()) {
                assert_eq!(scaled(text, s), Ok(n.into()), "{text}");
            }
        }
    }
}
