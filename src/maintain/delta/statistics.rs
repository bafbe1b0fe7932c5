//! What the log says of a file, against the file's footer. Bounds that are too wide cost time; too narrow ones lose rows silently.

use arrow::array::{Array as _, ArrayRef, UInt64Array};
use arrow::compute::cast;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;
use serde_json::Value;

use crate::datafile::scalar_at;
use crate::format::ColumnStats;
use crate::format::delta::stats;
use crate::maintain::finding::{Check, Findings};
use crate::schema::{DataType, Field, Scalar, Schema};

/// Compares everything that is said of a file (by its commit, and by checkpoints where they say something else) with its footer.
pub(super) fn check(footer: &ParquetMetaData, path: &str, since: u64, said: &[String], schema: Option<&Schema>, findings: &mut Findings) {
    let rows = u64::try_from(footer.file_metadata().num_rows()).unwrap_or(0);
    for text in said {
        let told = serde_json::from_str::<Value>(text).ok().and_then(|v| v.get("numRecords")?.as_u64());
        if let Some(told) = told.filter(|told| *told != rows) {
            let what = format!("it has {rows} rows, and the log says {told}");
            findings.find(Check::RowCounts, path, Some(since), what);
        }
        let Some(schema) = schema else { continue };
        findings.look(Check::Statistics, 1);
        for column in told_of(schema, text) {
            let Some((field, seen)) = schema.field(&column.column).and_then(|field| Some((field, Seen::of(footer, field)?))) else {
                continue;
            };
            let mut wrong = |what: String| findings.find(Check::Statistics, path, Some(since), format!("column `{}`: {what}", field.name));
            let narrow = |bound: &Option<Scalar>, seen: &Option<Scalar>, which| {
                bound.as_ref().zip(seen.as_ref()).is_some_and(|(bound, seen)| bound.partial_cmp(seen) == Some(which))
            };
            if narrow(&column.min, &seen.min, std::cmp::Ordering::Greater) {
                wrong(format!("its least value is said to be {:?}, and its footer has {:?}: readers lose rows", column.min, seen.min));
            }
            if narrow(&column.max, &seen.max, std::cmp::Ordering::Less) {
                wrong(format!("its greatest value is said to be {:?}, and its footer has {:?}: readers lose rows", column.max, seen.max));
            }
            // Asked for nulls readers pass by a file that has none, asked for values one that has nothing else.
            let loses = |nulls: u64| (column.nulls == 0 && nulls > 0) || (column.nulls == rows && nulls < rows);
            if let Some(nulls) = seen.nulls.filter(|nulls| loses(*nulls)) {
                wrong(format!("it is said to have {} nulls, and its footer has {nulls}: readers lose rows", column.nulls));
            }
        }
    }
}

/// The statistics by column. Each bound by itself: a reader believes it, whatever the other is.
fn told_of(schema: &Schema, text: &str) -> Vec<ColumnStats> {
    let without = |key: &str| {
        let mut value: Value = serde_json::from_str(text).ok()?;
        value.as_object_mut()?.remove(key);
        Some(stats::decode(schema, &value.to_string())?.1)
    };
    let (Some(mins), Some(maxs)) = (without("maxValues"), without("minValues")) else { return Vec::new() };
    mins.into_iter().zip(maxs).map(|(min, max)| ColumnStats { max: max.max, ..min }).collect()
}

/// What a footer says of a column. None: nothing that is sure.
struct Seen {
    min: Option<Scalar>,
    max: Option<Scalar>,
    nulls: Option<u64>,
}

impl Seen {
    fn of(footer: &ParquetMetaData, field: &Field) -> Option<Seen> {
        if field.data_type.is_nested() {
            return None;
        }
        let parquet = footer.file_metadata().schema_descr();
        let arrow = parquet::arrow::parquet_to_arrow_schema(parquet, None).ok()?;
        // A column that the file does not have is null in all its rows.
        if arrow.field_with_name(&field.name).is_err() {
            let rows = u64::try_from(footer.file_metadata().num_rows()).ok()?;
            return Some(Seen { min: None, max: None, nulls: Some(rows) });
        }
        let converter = StatisticsConverter::try_new(&field.name, &arrow, parquet).ok()?.with_missing_null_counts_as_zero(false);
        let groups = footer.row_groups();
        let nulls = converter.row_group_null_counts(groups).ok().and_then(|nulls| total(&nulls));
        let exact = !is_text(&field.data_type)
            || converter.parquet_column_index().is_some_and(|column| {
                groups.iter().all(|g| g.column(column).statistics().is_none_or(|s| s.min_is_exact() && s.max_is_exact()))
            });
        let wanted = field.to_arrow().data_type().clone();
        let of = |array: parquet::errors::Result<ArrayRef>| cast(&array.ok()?, &wanted).ok();
        let bounds = (exact && comparable(&field.data_type, &arrow, &field.name))
            .then(|| Some((of(converter.row_group_mins(groups))?, of(converter.row_group_maxes(groups))?)))
            .flatten();
        let (min, max) = bounds.map_or((None, None), |(mins, maxs)| {
            (extreme(&field.data_type, &mins, std::cmp::Ordering::Less), extreme(&field.data_type, &maxs, std::cmp::Ordering::Greater))
        });
        Some(Seen { min, max, nulls })
    }
}

/// Encoders cut long texts in their statistics, and say so.
fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Char(_) | DataType::VarChar(_) | DataType::String | DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes
    )
}

/// Is the file's type one whose values are those of the table's? Some files have other types than they should, and readers differ.
fn comparable(data_type: &DataType, arrow: &arrow::datatypes::Schema, name: &str) -> bool {
    use arrow::datatypes::DataType as A;
    let Ok(found) = arrow.field_with_name(name) else { return false };
    match (data_type, found.data_type()) {
        (DataType::Decimal { scale, .. }, A::Decimal32(_, s) | A::Decimal64(_, s) | A::Decimal128(_, s)) => {
            i16::from(*scale) == i16::from(*s)
        }
        (DataType::Decimal { .. }, _) => false,
        (DataType::Timestamp(_) | DataType::TimestampLtz(_), found) => matches!(found, A::Timestamp(_, _)),
        (DataType::Float | DataType::Double, found) => found.is_floating(),
        (DataType::TinyInt | DataType::SmallInt | DataType::Int | DataType::BigInt, found) => found.is_signed_integer(),
        (DataType::Date, found) => *found == A::Date32,
        (DataType::Boolean, found) => *found == A::Boolean,
        (text, found) if is_text(text) => matches!(found, A::Utf8 | A::Binary),
        _ => false,
    }
}

/// None: of a row group it is not known.
fn total(nulls: &UInt64Array) -> Option<u64> {
    (0..nulls.len()).map(|i| nulls.is_valid(i).then(|| nulls.value(i))).sum()
}

/// The least or greatest of all row groups that say one.
fn extreme(data_type: &DataType, values: &ArrayRef, which: std::cmp::Ordering) -> Option<Scalar> {
    let all = (0..values.len()).filter_map(|i| scalar_at(data_type, values, i).ok().flatten());
    all.reduce(|a, b| if b.partial_cmp(&a) == Some(which) { b } else { a })
}
