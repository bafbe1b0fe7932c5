//! `add.stats`: row count, bounds and null counts of a file, JSON in a text. What is written is wider than the truth or equal to it, never
//! narrower; what is read of others is widened where engines are known to round.
//!
//! Texts are not cut here: the writer must gather statistics with [`StatsMode::Truncate`](crate::datafile::StatsMode::Truncate), of 32 code
//! points unless `delta.dataSkippingStringPrefixLength` says otherwise. It raises a maximum that it cuts.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::partition;
use crate::error::{Error, Result};
use crate::format::ColumnStats;
use crate::schema::{DataType, Field, Scalar, Schema};
use crate::text::number::Exact;
use crate::text::time::{micros_in_range, parse_date, parse_timestamp};

/// The `stats` of a file with so many rows. `Invalid` when `stats` speak of a column that `schema` does not have, or of one twice.
/// Partition columns are left out, as the format wants it.
pub fn encode(schema: &Schema, rows: u64, stats: &[ColumnStats]) -> Result<String> {
    for (i, s) in stats.iter().enumerate() {
        if schema.field(&s.column).is_none() || stats[..i].iter().any(|o| o.column == s.column) {
            let what = format!("the statistics name the column `{}`, which the table's schema does not have once", s.column);
            return Err(Error::invalid(what).hint("a file is written under exactly one schema"));
        }
    }
    let (mut mins, mut maxs, mut nulls) = (Object::default(), Object::default(), Object::default());
    for s in stats {
        let Some(field) = schema.field(&s.column).filter(|f| !schema.partition_by.contains(&f.name)) else { continue };
        // The nulls of a struct are told field by field, and nobody counted those.
        if !matches!(field.data_type, DataType::Row(_)) {
            nulls.push(&field.name, &s.nulls.to_string())?;
        }
        // One bound without the other is taken for different things.
        let bound = |v: &Option<Scalar>, up| v.as_ref().and_then(|v| bound_text(&field.data_type, v, up));
        if let (Some(min), Some(max)) = (bound(&s.min, false), bound(&s.max, true)) {
            mins.push(&field.name, &min)?;
            maxs.push(&field.name, &max)?;
        }
    }
    Ok(format!(r#"{{"numRecords":{rows},"minValues":{},"maxValues":{},"nullCount":{}}}"#, mins.end(), maxs.end(), nulls.end()))
}

/// An object of JSON whose values are texts already: no value type of the library has all the digits of a decimal.
#[derive(Default)]
struct Object(String);

impl Object {
    fn push(&mut self, key: &str, value: &str) -> Result<()> {
        let key = quoted(key).ok_or_else(|| Error::internal("a name could not be encoded"))?;
        let comma = if self.0.is_empty() { '{' } else { ',' };
        write!(self.0, "{comma}{key}:{value}").map_err(|e| Error::internal("a text could not be written").because(e))
    }
    fn end(self) -> String {
        if self.0.is_empty() { "{}".to_owned() } else { self.0 + "}" }
    }
}

fn quoted(text: &str) -> Option<String> {
    serde_json::to_string(text).ok()
}

/// A bound in JSON; none where it has no form that every reader takes for what it is.
fn bound_text(data_type: &DataType, value: &Scalar, up: bool) -> Option<String> {
    match (data_type, value) {
        (DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt, Scalar::Int(v)) => Some(v.to_string()),
        // In the digits of a DOUBLE: it is the same value for readers of either width, and the short text of a FLOAT is not.
        (DataType::Float, Scalar::Float(v)) => float_text((*v).into(), up),
        (DataType::Double, Scalar::Double(v)) => float_text(*v, up),
        (DataType::Decimal { scale, .. }, Scalar::Decimal(v)) => Some(partition::decimal(*v, usize::from(*scale))),
        (DataType::Char(_) | DataType::VarChar(_) | DataType::String, Scalar::String(v)) => quoted(v),
        (DataType::Date, Scalar::Date(v)) => quoted(&partition::date(*v)?),
        (DataType::Timestamp(_), Scalar::Timestamp(us)) => quoted(&moment(*us, up, "")?),
        (DataType::TimestampLtz(_), Scalar::Timestamp(us)) => quoted(&moment(*us, up, "Z")?),
        _ => None,
    }
}

/// Readers do not agree on whether -0.0 is below 0.0: as a minimum zero is the lower of both, as a maximum the upper.
fn float_text(v: f64, up: bool) -> Option<String> {
    let v = match (v == 0.0, up) {
        (true, true) => 0.0,
        (true, false) => -0.0,
        _ => v,
    };
    v.is_finite().then(|| serde_json::to_string(&v).ok())?
}

/// Milliseconds, as all engines write them: a minimum is rounded down, a maximum up.
fn moment(us: i64, up: bool, zone: &str) -> Option<String> {
    let down = us.div_euclid(1000);
    let ms = if up && us.rem_euclid(1000) > 0 { down.checked_add(1)? } else { down };
    micros_in_range(ms.checked_mul(1000)?).ok()?;
    let at = chrono::DateTime::from_timestamp_millis(ms)?.naive_utc();
    Some(format!("{}{zone}", at.format("%Y-%m-%dT%H:%M:%S%.3f")))
}

type Members<'a> = HashMap<String, &'a RawValue>;

fn members(raw: Option<&RawValue>) -> Members<'_> {
    raw.and_then(|r| serde_json::from_str(r.get()).ok()).unwrap_or_default()
}

/// Rows, and the statistics of the columns that have a null count, in the order of `schema`. What is broken, of a wrong type or doubtful
/// is left out. None: this is no statistics at all.
pub fn decode(schema: &Schema, text: &str) -> Option<(Option<u64>, Vec<ColumnStats>)> {
    let read: Members<'_> = serde_json::from_str(text).ok()?;
    let within = |key: &str| members(read.get(key).copied());
    let (mins, maxs, nulls) = (within("minValues"), within("maxValues"), within("nullCount"));
    let rows = read.get("numRecords").and_then(|r| r.get().parse().ok());
    let one = |field: &Field| {
        let nulls = nulls.get(&field.name)?.get().parse().ok().filter(|n| rows.is_none_or(|rows| *n <= rows))?;
        let bound = |of: &Members<'_>, up| of.get(&field.name).and_then(|raw| read_bound(&field.data_type, raw.get(), up));
        let (mut min, mut max) = (bound(&mins, false), bound(&maxs, true));
        if matches!((&min, &max), (Some(min), Some(max)) if min > max) {
            (min, max) = (None, None);
        }
        Some(ColumnStats { column: field.name.clone(), min, max, nulls })
    };
    let fields = schema.fields.iter().filter(|f| !schema.partition_by.contains(&f.name));
    Some((rows, fields.filter_map(one).collect()))
}

fn read_bound(data_type: &DataType, json: &str, up: bool) -> Option<Scalar> {
    let text = || serde_json::from_str::<String>(json).ok();
    match data_type {
        DataType::Boolean => serde_json::from_str(json).ok().map(Scalar::Bool),
        DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt => json.parse().ok().map(Scalar::Int),
        DataType::Float => json.parse().ok().filter(|v: &f32| v.is_finite()).map(Scalar::Float),
        DataType::Double => json.parse().ok().filter(|v: &f64| v.is_finite()).map(Scalar::Double),
        DataType::Decimal { precision, scale } => read_decimal(json, *precision, *scale, up),
        DataType::Char(_) | DataType::VarChar(_) | DataType::String => text().map(Scalar::String),
        DataType::Date => parse_date(text()?.as_bytes()).ok().map(Scalar::Date),
        DataType::Timestamp(_) | DataType::TimestampLtz(_) => {
            let at = parse_timestamp(text()?.as_bytes()).ok()?;
            // Without a zone an instant could be in the zone of whoever wrote it.
            let sure = at.offset || matches!(data_type, DataType::Timestamp(_));
            // Engines cut a maximum down to the millisecond.
            let us = if up { at.us.checked_add(999)? } else { at.us };
            sure.then_some(Scalar::Timestamp(us))
        }
        _ => None,
    }
}

/// Rounded outwards where it has more digits than the type. Of more than 15 digits engines may have gone through a float: then the last
/// digits say nothing, and the bound moves by what a float cannot tell apart.
fn read_decimal(json: &str, precision: u8, scale: u8, up: bool) -> Option<Scalar> {
    let exact = Exact::parse(json.as_bytes()).ok()?;
    let (Some(down), whole) = exact.floor(scale) else { return None };
    let slack = if precision > 15 { down.abs() >> 51 } else { 0 } + i128::from(precision > 15);
    Some(Scalar::Decimal(if up { down + i128::from(!whole) + slack } else { down - slack }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(columns: &[(&str, &str)], by: &[&str]) -> Schema {
        let fields = columns.iter().map(|(n, t)| Field::parse(0, *n, t).unwrap()).collect();
        Schema { id: 0, fields, partition_by: by.iter().map(|b| (*b).to_owned()).collect() }
    }
    fn of(column: &str, min: Scalar, max: Scalar, nulls: u64) -> ColumnStats {
        ColumnStats { column: column.into(), min: Some(min), max: Some(max), nulls }
    }
    fn text(s: &str) -> Scalar {
        Scalar::String(s.into())
    }
    /// Both bounds of one column, as they are written.
    fn bounds(data_type: &str, min: Scalar, max: Scalar) -> (String, String) {
        let json = encode(&schema(&[("c", data_type)], &[]), 1, &[of("c", min, max, 0)]).unwrap();
        let read: HashMap<&str, &RawValue> = serde_json::from_str(&json).unwrap();
        let one =
            |key| serde_json::from_str::<Members<'_>>(read[key].get()).unwrap().get("c").map_or("-".to_owned(), |r| r.get().to_owned());
        (one("minValues"), one("maxValues"))
    }
    fn both(data_type: &str, min: Scalar, max: Scalar, want: (&str, &str)) {
        assert_eq!(bounds(data_type, min, max), (want.0.to_owned(), want.1.to_owned()));
    }

    #[test]
    fn statistics_are_json_without_partition_columns() {
        let schema =
            schema(&[("a", "INT"), ("p", "INT"), ("s\"", "STRING"), ("r", "ROW<x INT>"), ("l", "ARRAY<INT>"), ("n", "DATE")], &["p"]);
        let none = |column: &str, nulls| ColumnStats { column: column.into(), min: None, max: None, nulls };
        let stats = [
            of("a", Scalar::Int(-1), Scalar::Int(9), 2),
            of("p", Scalar::Int(1), Scalar::Int(1), 0),
            of("s\"", text("\"é"), text("z\u{1}"), 0),
            none("r", 1),
            none("l", 3),
            none("n", 10),
        ];
        let json = encode(&schema, 10, &stats).unwrap();
        let want = concat!(
            r#"{"numRecords":10,"minValues":{"a":-1,"s\"":"\"é"},"maxValues":{"a":9,"s\"":"z\u0001"},"#,
            r#""nullCount":{"a":2,"s\"":0,"l":3,"n":10}}"#
        );
        assert_eq!(json, want);
        let kept: Vec<ColumnStats> = stats.iter().filter(|s| s.column != "p" && s.column != "r").cloned().collect();
        assert_eq!(decode(&schema, &json), Some((Some(10), kept)));
        assert_eq!(encode(&schema, 0, &[]).unwrap(), r#"{"numRecords":0,"minValues":{},"maxValues":{},"nullCount":{}}"#);
        assert_eq!(encode(&schema, 1, &[none("zz", 0)]).unwrap_err().kind(), crate::Kind::Invalid);
        assert_eq!(encode(&schema, 1, &[none("a", 0), none("a", 0)]).unwrap_err().kind(), crate::Kind::Invalid);
    }

    #[test]
    fn a_moment_is_rounded_outwards() {
        let ltz = "TIMESTAMP(6) WITH LOCAL TIME ZONE";
        let at = Scalar::Timestamp;
        both(ltz, at(1), at(1), (r#""1970-01-01T00:00:00.000Z""#, r#""1970-01-01T00:00:00.001Z""#));
        both(ltz, at(-1), at(-1), (r#""1969-12-31T23:59:59.999Z""#, r#""1970-01-01T00:00:00.000Z""#));
        both(ltz, at(5000), at(5000), (r#""1970-01-01T00:00:00.005Z""#, r#""1970-01-01T00:00:00.005Z""#));
        both("TIMESTAMP(6)", at(0), at(1001), (r#""1970-01-01T00:00:00.000""#, r#""1970-01-01T00:00:00.002""#));
        let last = 253_402_300_799_999_999; // 9999-12-31T23:59:59.999999
        both(ltz, at(0), at(last), ("-", "-"));
        both(ltz, at(0), at(last - 999), (r#""1970-01-01T00:00:00.000Z""#, r#""9999-12-31T23:59:59.999Z""#));
        both(ltz, at(i64::MIN), at(0), ("-", "-"));
        both("DATE", Scalar::Date(-719_162), Scalar::Date(2_932_896), (r#""0001-01-01""#, r#""9999-12-31""#));
        both("DATE", Scalar::Date(-719_163), Scalar::Date(0), ("-", "-"));
    }

    #[test]
    fn numbers_have_all_their_digits() {
        let most = 10i128.pow(38) - 1;
        let nines = "9".repeat(28);
        let (min, max) = (format!("-{nines}.{}", "9".repeat(10)), format!("{nines}.{}", "9".repeat(10)));
        both("DECIMAL(38, 10)", Scalar::Decimal(-most), Scalar::Decimal(most), (&min, &max));
        both("DECIMAL(10, 2)", Scalar::Decimal(-5), Scalar::Decimal(150), ("-0.05", "1.50"));
        both("BIGINT", Scalar::Int(i64::MIN), Scalar::Int(i64::MAX), ("-9223372036854775808", "9223372036854775807"));
        both("DOUBLE", Scalar::Double(-f64::MAX), Scalar::Double(5e-324), ("-1.7976931348623157e+308", "5e-324"));
        both("FLOAT", Scalar::Float(0.1), Scalar::Float(0.1), ("0.10000000149011612", "0.10000000149011612"));
        assert_eq!("0.10000000149011612".parse::<f32>().unwrap().to_bits(), 0.1f32.to_bits());
    }

    #[test]
    fn zero_is_both_zeros_and_what_json_cannot_say_is_left_out() {
        both("DOUBLE", Scalar::Double(0.0), Scalar::Double(-0.0), ("-0.0", "0.0"));
        both("DOUBLE", Scalar::Double(f64::NEG_INFINITY), Scalar::Double(1.0), ("-", "-"));
        both("FLOAT", Scalar::Float(1.0), Scalar::Float(f32::NAN), ("-", "-"));
        both("BOOLEAN", Scalar::Bool(false), Scalar::Bool(true), ("-", "-"));
        both("BYTES", Scalar::Bytes(vec![0]), Scalar::Bytes(vec![9]), ("-", "-"));
    }

    #[test]
    fn foreign_bounds_are_widened_where_engines_round() {
        let one = |data_type: &str, min: &str, max: &str| {
            let json = format!(
                r#"{{"numRecords":5,"minValues":{{"c":{min}}},"maxValues":{{"c":{max}}},"nullCount":{{"c":1}},"tightBounds":false}}"#
            );
            let (rows, stats) = decode(&schema(&[("c", data_type)], &[]), &json).unwrap();
            assert_eq!((rows, stats.len(), stats[0].nulls), (Some(5), 1, 1));
            (stats[0].min.clone(), stats[0].max.clone())
        };
        let at = |us| Some(Scalar::Timestamp(us));
        let ltz = "TIMESTAMP(6) WITH LOCAL TIME ZONE";
        assert_eq!(one(ltz, r#""1970-01-01T00:00:00.001Z""#, r#""1970-01-01T05:30:00.002+05:30""#), (at(1000), at(2999)));
        assert_eq!(one(ltz, r#""1970-01-01T00:00:00.001""#, r#""1970-01-01 00:00:00""#), (None, None));
        assert_eq!(one("TIMESTAMP(6)", r#""1970-01-01T00:00:00.001""#, r#""1970-01-01 00:00:00.002""#), (at(1000), at(2999)));
        let decimal = |v| Some(Scalar::Decimal(v));
        assert_eq!(one("DECIMAL(5, 2)", "-1.005", "12.340000000000002"), (decimal(-101), decimal(1235)));
        assert_eq!(one("DECIMAL(5, 2)", "1.5", "1e2"), (decimal(150), decimal(10_000)));
        // 12345678901234567.89 by way of a float is 12345678901234568.00, and less in other engines.
        let (min, max) = one("DECIMAL(19, 2)", "12345678901234568.0", "12345678901234567.0");
        assert!(min <= decimal(1_234_567_890_123_456_789) && max >= decimal(1_234_567_890_123_456_789), "{min:?} {max:?}");
        assert_eq!(one("FLOAT", "0.1", "0.10000000149011612"), (Some(Scalar::Float(0.1)), Some(Scalar::Float(0.1))));
    }

    #[test]
    fn what_is_broken_bounds_nothing() {
        let schema = schema(&[("i", "INT"), ("d", "DOUBLE"), ("s", "STRING"), ("t", "DATE"), ("p", "INT")], &["p"]);
        for garbage in ["", "x", "[1]", "{", "null", "7"] {
            assert_eq!(decode(&schema, garbage), None, "{garbage}");
        }
        assert_eq!(decode(&schema, "{}"), Some((None, vec![])));
        assert_eq!(decode(&schema, r#"{"numRecords":-1,"minValues":7,"nullCount":[]}"#), Some((None, vec![])));
        let text = r#"{"numRecords":3,"minValues":{"i":1.5,"d":"NaN","s":7,"t":"x","p":1},"maxValues":{"i":"9","d":null,"s":null},
            "nullCount":{"i":0,"d":1,"s":4,"t":3,"p":0}}"#;
        let none = |column: &str, nulls| ColumnStats { column: column.into(), min: None, max: None, nulls };
        assert_eq!(decode(&schema, text), Some((Some(3), vec![none("i", 0), none("d", 1), none("t", 3)])));
        let crossed = r#"{"numRecords":3,"minValues":{"i":2},"maxValues":{"i":1},"nullCount":{"i":0}}"#;
        assert_eq!(decode(&schema, crossed), Some((Some(3), vec![none("i", 0)])));
    }
}
