//! Statistics as manifests hold them: two rows and null counts.

use std::cmp::Ordering;

use super::row;
use crate::error::{Error, Result};
use crate::format::ColumnStats;
use crate::schema::{DataType, Field, Scalar, Schema};

/// Minimum and maximum rows and null counts, encoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawStats {
    /// BinaryRow of the minima.
    pub min: Vec<u8>,
    /// BinaryRow of the maxima.
    pub max: Vec<u8>,
    /// Null count of each column; `None`: not known.
    pub nulls: Vec<Option<i64>>,
}

impl RawStats {
    /// Of no columns.
    pub fn empty() -> RawStats {
        RawStats { min: row::EMPTY.to_vec(), max: row::EMPTY.to_vec(), nulls: Vec::new() }
    }
}

fn count(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Encodes a file's statistics. Dense: only the columns that have some, named in the second value; else all columns of `schema` in order
/// and `None`. `Invalid` when `stats` speak of a column that `schema` does not have, or of one twice.
pub fn encode(schema: &Schema, stats: &[ColumnStats], dense: bool) -> Result<(RawStats, Option<Vec<String>>)> {
    for (i, s) in stats.iter().enumerate() {
        if schema.field(&s.column).is_none() || stats[..i].iter().any(|o| o.column == s.column) {
            return Err(Error::invalid(format!(
                "the statistics name the column `{}`, which schema {} does not have once",
                s.column, schema.id
            ))
            .hint("a file is written under exactly one schema"));
        }
    }
    let of = |f: &Field| stats.iter().find(|s| s.column == f.name);
    let columns: Vec<(&Field, Option<&ColumnStats>)> =
        schema.fields.iter().map(|f| (f, of(f))).filter(|(_, s)| s.is_some() || !dense).collect();
    // Java compares bytes as signed ones and would skip files by bounds in any other order. It writes none itself, only the null count.
    let bounded =
        |f: &Field| !f.data_type.is_nested() && !matches!(f.data_type, DataType::Binary(_) | DataType::VarBinary(_) | DataType::Bytes);
    let raw = RawStats {
        min: row::encode(columns.iter().map(|(f, s)| (&f.data_type, s.and_then(|s| s.min.as_ref()).filter(|_| bounded(f)))))?,
        max: row::encode(columns.iter().map(|(f, s)| (&f.data_type, s.and_then(|s| s.max.as_ref()).filter(|_| bounded(f)))))?,
        nulls: columns.iter().map(|(_, s)| s.map(|s| count(s.nulls))).collect(),
    };
    let names = dense.then(|| columns.iter().map(|(f, _)| f.name.clone()).collect());
    Ok((raw, names))
}

/// Decodes a file's statistics. `schema` is the one that the file was written under; `columns` and `write_columns` are what the manifest
/// says of them. Columns without a null count are left out.
pub fn decode(schema: &Schema, raw: &RawStats, columns: Option<&[String]>, write_columns: Option<&[String]>) -> Result<Vec<ColumnStats>> {
    if row::arity(&raw.min)? == 0 {
        return Ok(Vec::new());
    }
    let fields: Vec<&Field> = match columns.or(write_columns) {
        None => schema.fields.iter().collect(),
        Some(names) => names
            .iter()
            .map(|n| {
                schema.field(n).ok_or_else(|| Error::data(format!("statistics of a column `{n}` that schema {} does not have", schema.id)))
            })
            .collect::<Result<_>>()?,
    };
    let types = || fields.iter().map(|f| &f.data_type);
    let (mins, maxs) = (row::decode(&raw.min, types())?, row::decode(&raw.max, types())?);
    let all = fields.iter().zip(mins).zip(maxs).enumerate();
    Ok(all
        .filter_map(|(i, ((f, min), max))| {
            let nulls = raw.nulls.get(i).copied().flatten().and_then(|n| u64::try_from(n).ok())?;
            Some(ColumnStats { column: f.name.clone(), min, max, nulls })
        })
        .collect())
}

/// Partition statistics of a manifest: minimum and maximum over what is not null, and null counts, for each partition column.
pub fn of_partitions<'a>(types: &[DataType], partitions: impl IntoIterator<Item = &'a [Option<Scalar>]>) -> Result<RawStats> {
    let mut min: Vec<Option<&Scalar>> = vec![None; types.len()];
    let mut max = min.clone();
    let mut nulls = vec![0i64; types.len()];
    for partition in partitions {
        for (i, value) in partition.iter().take(types.len()).enumerate() {
            let Some(value) = value else {
                nulls[i] += 1;
                continue;
            };
            if min[i].is_none_or(|m| compare(value, m) == Ordering::Less) {
                min[i] = Some(value);
            }
            if max[i].is_none_or(|m| compare(value, m) == Ordering::Greater) {
                max[i] = Some(value);
            }
        }
    }
    Ok(RawStats {
        min: row::encode(types.iter().zip(min))?,
        max: row::encode(types.iter().zip(max))?,
        nulls: nulls.into_iter().map(Some).collect(),
    })
}

/// Strings compare by their UTF-8 bytes, as everywhere in the format.
fn compare(a: &Scalar, b: &Scalar) -> Ordering {
    a.partial_cmp(b).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let f = |n, t| Field::parse(0, n, t).unwrap();
        Schema { id: 0, fields: vec![f("a", "INT"), f("b", "STRING"), f("c", "DATE")], partition_by: vec![] }
    }
    fn text(s: &str) -> Option<Scalar> {
        Some(Scalar::String(s.into()))
    }

    #[test]
    fn statistics_survive_dense_and_full() {
        let stats = vec![
            ColumnStats { column: "a".into(), min: Some(Scalar::Int(-1)), max: Some(Scalar::Int(9)), nulls: 2 },
            ColumnStats { column: "b".into(), min: None, max: None, nulls: 4 },
        ];
        for dense in [true, false] {
            let (raw, columns) = encode(&schema(), &stats, dense).unwrap();
            assert_eq!(columns.is_some(), dense);
            assert_eq!(raw.nulls.len(), if dense { 2 } else { 3 });
            assert_eq!(decode(&schema(), &raw, columns.as_deref(), None).unwrap(), stats);
        }
    }

    #[test]
    fn no_statistics_are_empty_rows_and_an_empty_list_of_columns() {
        assert_eq!(encode(&schema(), &[], true).unwrap(), (RawStats::empty(), Some(vec![])));
        assert_eq!(decode(&schema(), &RawStats::empty(), None, None).unwrap(), vec![]);
    }

    #[test]
    fn bytes_have_a_null_count_and_no_bounds() {
        let columns = vec![Field::parse(0, "y", "BYTES").unwrap(), Field::parse(1, "n", "INT").unwrap()];
        let schema = Schema { id: 0, fields: columns, partition_by: vec![] };
        let bytes = |b: &[u8]| Some(Scalar::Bytes(b.to_vec()));
        let y = ColumnStats { column: "y".into(), min: bytes(&[0]), max: bytes(&[0xff; 3]), nulls: 5 };
        let n = ColumnStats { column: "n".into(), min: Some(Scalar::Int(1)), max: Some(Scalar::Int(2)), nulls: 0 };
        for dense in [true, false] {
            let (raw, names) = encode(&schema, &[y.clone(), n.clone()], dense).unwrap();
            let unbounded = ColumnStats { min: None, max: None, ..y.clone() };
            assert_eq!(decode(&schema, &raw, names.as_deref(), None).unwrap(), [unbounded, n.clone()]);
        }
    }

    #[test]
    fn statistics_of_another_schema_are_refused() {
        let stats = [ColumnStats { column: "zz".into(), min: None, max: None, nulls: 0 }];
        assert_eq!(encode(&schema(), &stats, true).unwrap_err().kind(), crate::Kind::Invalid);
        let (raw, _) = encode(&schema(), &[], false).unwrap();
        assert_eq!(decode(&schema(), &raw, Some(&["zz".into()]), None).unwrap_err().kind(), crate::Kind::Data);
    }

    #[test]
    fn partition_statistics_are_over_what_is_not_null() {
        let types = [DataType::String, DataType::Int];
        let rows: [Vec<Option<Scalar>>; 3] = [vec![text("b"), None], vec![None, None], vec![text("a"), None]];
        let raw = of_partitions(&types, rows.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(row::decode(&raw.min, &types).unwrap(), [text("a"), None]);
        assert_eq!(row::decode(&raw.max, &types).unwrap(), [text("b"), None]);
        assert_eq!(raw.nulls, [Some(1), Some(3)]);
        assert_eq!(of_partitions(&[], [&[][..]]).unwrap(), RawStats::empty());
    }
}
