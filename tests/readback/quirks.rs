//! All that other people's readers do in their own way: the one list. What is not in it fails a test, and so does what is in it and no
//! longer so, as far as asking is safe.

use super::values::Kind;

/// An order that readers have for a type.
#[derive(Clone, Copy)]
pub(super) enum By {
    /// That of the format: numbers by value (NaN compares with nothing), text and bytes by unsigned bytes.
    Value,
    /// Floats: -0.0 below 0.0, NaN above all and equal to itself.
    Total,
    /// Floats: NaN above all and equal to itself, one zero.
    NanLast,
    /// Bytes as signed ones: 0x80 is the least.
    Signed,
}

/// The orders that a reader applies, one after the other.
///
/// Java orders floats totally. pypaimon-rust does so too, and tests/interop filters once more by IEEE what it gives. Java prunes row groups
/// by Parquet's order of BYTES, which is unsigned, and then filters rows by signed bytes: what passes by one order only may be there or not.
/// Spark knows one zero, but the Parquet library that it prunes row groups with knows two.
pub(super) fn orders(reader: &str, kind: Kind) -> &'static [By] {
    match kind {
        Kind::Float | Kind::Double if is_java(reader) => &[By::Total],
        Kind::Float | Kind::Double if reader == "pypaimon-rust" => &[By::Total, By::Value],
        Kind::Float | Kind::Double if matches!(reader, "deltalake" | "duckdb" | "polars") => &[By::NanLast],
        Kind::Float | Kind::Double if reader == "spark" => &[By::NanLast, By::Total],
        Kind::Bytes if is_java(reader) => &[By::Signed, By::Value],
        _ => &[By::Value],
    }
}

/// Part of the error with which a reader refuses to compare a column of this type with this value.
pub(super) fn refuses_filter(reader: &str, sql: &str, bound: &str) -> Option<&'static str> {
    // Year 1 to 9999.
    let days = |d: i64| !(-719_162..=2_932_896).contains(&d);
    let micros = |us: i128| !(-62_135_596_800_000_000..=253_402_300_799_999_999).contains(&us);
    let day = bound.strip_prefix("day:").and_then(|d| d.parse().ok());
    let us = bound.strip_prefix("us:").and_then(|us| us.parse().ok());
    match reader {
        // Its literals are integers of another class than the column's.
        "java-oldest" if matches!(sql, "TINYINT" | "SMALLINT") => Some("ClassCastException"),
        // Its own microseconds end before; it cannot write this value either.
        "java-newest" if sql.starts_with("TIMESTAMP(6)") && bound == "us:-9223372036854775808" => Some("long overflow"),
        // Python's datetime ends there, before the reader is asked.
        "pypaimon" | "pypaimon-rust" if day.is_some_and(days) || us.is_some_and(micros) => Some("OverflowError"),
        _ => None,
    }
}

/// What a table may have that not every reader knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Feature {
    /// `data-file.path-directory`.
    PathDirectory,
    /// `partition.legacy-name` = false: dates are spelt as dates.
    SpeltDates,
    /// A manifest of Java 0.9.
    OldManifest,
    /// A partition value of no-break spaces: blank by Python's rules and not by Java's, so that the directory is another, whoever wrote it.
    NoBreakSpaces,
}

/// Part of the error with which a reader refuses the table.
pub(super) fn refuses_table(reader: &str, feature: Feature) -> Option<&'static str> {
    match (reader, feature) {
        ("java-oldest", Feature::PathDirectory | Feature::SpeltDates) => Some("FileNotFoundException"),
        ("pypaimon", Feature::OldManifest) => Some("_VALUE_STATS_COLS"),
        ("pypaimon", Feature::NoBreakSpaces) => Some("FileNotFoundError"),
        _ => None,
    }
}

/// May a reader be asked to filter a table whose statistics speak of some or none of the columns? Java 0.9 does not know
/// `_VALUE_STATS_COLS`: it reads past their end, which fails or takes its process down. Without a filter it reads right.
pub(super) fn filters_with_partial_statistics(reader: &str) -> bool {
    reader != "java-oldest"
}

pub(super) fn is_java(reader: &str) -> bool {
    reader.starts_with("java")
}
