//! Which partitions and buckets a manifest may speak of, by the statistics of its list line. What these do not tell is never left out.

use super::super::manifest::ManifestMeta;
use super::super::row;
use crate::schema::{DataType, Scalar};

/// Least and greatest value (none: not known, or all null) and number of nulls of one partition column.
pub(super) type Range = (Option<Scalar>, Option<Scalar>, Option<u64>);

/// The bounds of one manifest.
pub(super) struct Bounds {
    /// Of each partition column; none: the statistics are missing, or not what they should be.
    pub(super) partitions: Option<Vec<Range>>,
    buckets: Option<(i32, i32)>,
}

impl Bounds {
    /// `types` are those of the partition columns.
    pub(super) fn of(meta: &ManifestMeta, types: &[DataType]) -> Bounds {
        let stats = &meta.partition_stats;
        let decoded = |bytes: &[u8]| row::decode(bytes, types).ok();
        let nulls = |i: usize| stats.nulls.get(i).copied().flatten().and_then(|n| u64::try_from(n).ok());
        let partitions = decoded(&stats.min).zip(decoded(&stats.max));
        let partitions = partitions.map(|(min, max)| min.into_iter().zip(max).enumerate().map(|(i, (a, b))| (a, b, nulls(i))).collect());
        Bounds { partitions, buckets: meta.buckets }
    }

    /// May it speak of this bucket?
    pub(super) fn may_hold_bucket(&self, bucket: i32) -> bool {
        self.buckets.is_none_or(|(min, max)| (min..=max).contains(&bucket))
    }

    /// May it speak of a partition with these values?
    pub(super) fn may_hold(&self, partition: &[Option<Scalar>]) -> bool {
        self.each(partition, |value, range| match value {
            None => range.2 != Some(0),
            Some(value) => within(value, range),
        })
    }

    /// The same where a value that is none is not known, instead of null.
    pub(super) fn may_hold_known(&self, values: &[Option<Scalar>]) -> bool {
        self.each(values, |value, range| value.as_ref().is_none_or(|value| within(value, range)))
    }

    fn each(&self, values: &[Option<Scalar>], passes: impl Fn(&Option<Scalar>, &Range) -> bool) -> bool {
        self.partitions.as_ref().is_none_or(|ranges| values.iter().zip(ranges).all(|(value, range)| passes(value, range)))
    }
}

/// Values that cannot be compared are not known to be outside.
fn within(value: &Scalar, (min, max, _): &Range) -> bool {
    !min.as_ref().is_some_and(|min| value < min) && !max.as_ref().is_some_and(|max| value > max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::paimon::stats;

    fn meta(values: &[Option<i64>], buckets: Option<(i32, i32)>) -> ManifestMeta {
        let rows: Vec<Vec<Option<Scalar>>> = values.iter().map(|v| vec![v.map(Scalar::Int)]).collect();
        ManifestMeta {
            name: "m".into(),
            size: 1,
            added: 1,
            deleted: 0,
            partition_stats: stats::of_partitions(&[DataType::Int], rows.iter().map(Vec::as_slice)).unwrap(),
            schema_id: 0,
            buckets,
            levels: None,
            row_ids: None,
        }
    }

    #[test]
    fn only_what_lies_outside_of_known_bounds_is_left_out() {
        let int = |v: i64| [Some(Scalar::Int(v))];
        let of = |values: &[Option<i64>]| Bounds::of(&meta(values, None), &[DataType::Int]);
        let some = of(&[Some(5), Some(7)]);
        assert_eq!([4, 5, 6, 7, 8].map(|v| some.may_hold(&int(v))), [false, true, true, true, false]);
        assert!(!some.may_hold(&[None]) && some.may_hold_known(&[None]) && !some.may_hold_known(&int(8)));
        assert!(of(&[Some(5), None]).may_hold(&[None]));
        // All null: no bounds, so nothing is known of values.
        assert!(of(&[None]).may_hold(&[None]) && of(&[None]).may_hold(&int(1)));
        // A row of another arity: the statistics are not what they should be.
        assert!(Bounds::of(&meta(&[Some(5)], None), &[DataType::Int, DataType::Int]).may_hold(&int(9)));
        let buckets = Bounds::of(&meta(&[], Some((1, 2))), &[]);
        assert_eq!([0, 1, 2, 3].map(|b| buckets.may_hold_bucket(b)), [false, true, true, false]);
        assert!(some.may_hold_bucket(9));
    }

    #[test]
    fn each_partition_column_counts() {
        let types = [DataType::Int, DataType::String];
        let one = |v: i64, s: &str| vec![Some(Scalar::Int(v)), Some(Scalar::String(s.into()))];
        let null = |v: i64| vec![Some(Scalar::Int(v)), None];
        let partitions = [one(3, "b"), one(5, "d"), null(4)];
        let partition_stats = stats::of_partitions(&types, partitions.iter().map(Vec::as_slice)).unwrap();
        let bounds = Bounds::of(&ManifestMeta { partition_stats, ..meta(&[], None) }, &types);
        for (partition, may) in [
            (one(3, "c"), true),
            (one(4, "a"), false),
            (one(2, "b"), false),
            (one(6, "b"), false),
            (null(3), true),
            (vec![None, Some(Scalar::String("c".into()))], false),
        ] {
            assert_eq!(bounds.may_hold(&partition), may, "{partition:?}");
        }
        let unknown = Bounds::of(&ManifestMeta { partition_stats: stats::RawStats::default(), ..meta(&[], None) }, &types);
        assert!(unknown.may_hold(&one(9, "z")));
    }
}
