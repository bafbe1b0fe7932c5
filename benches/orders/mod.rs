//! What the benchmarks read: orders of ten columns, about 210 bytes each as JSON.

use std::io::Write;

use lakeward::decode::{ColumnSpec, Mapping, OnNewField};

/// Name and type of each column.
pub(crate) const COLUMNS: [(&str, &str); 10] = [
    ("id", "BIGINT NOT NULL"),
    ("customer", "INT"),
    ("status", "STRING"),
    ("amount", "DECIMAL(10, 2)"),
    ("score", "DOUBLE"),
    ("paid", "BOOLEAN"),
    ("country", "STRING"),
    ("created_at", "TIMESTAMP(3)"),
    ("day", "DATE"),
    ("note", "STRING"),
];

/// The columns as they are.
pub(crate) fn mapping() -> Mapping {
    let spec = |(name, ty): (&str, &str)| ColumnSpec { name: name.into(), type_text: ty.into(), ..ColumnSpec::default() };
    let specs: Vec<_> = COLUMNS.into_iter().map(spec).collect();
    Mapping::build(&specs, &[], OnNewField::Ignore, &[]).unwrap()
}

/// Order `i`, as one line.
pub(crate) fn write(out: &mut impl Write, i: u64) {
    let (status, country) = (["new", "paid", "shipped"][(i % 3) as usize], ["DE", "FR", "AT", "PL"][(i % 4) as usize]);
    let (month, day, customer) = (i % 12 + 1, i % 28 + 1, i * 7919 % 100_000);
    writeln!(
        out,
        "{{\"id\":{i},\"customer\":{customer},\"status\":\"{status}\",\"amount\":{}.{:02},\"score\":{}.{:03},\"paid\":{},\
         \"country\":\"{country}\",\"created_at\":\"2026-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}\",\
         \"day\":\"2026-{month:02}-{day:02}\",\"note\":\"order number {i} of customer {customer}\"}}",
        i % 1000,
        i % 100,
        i * 31 % 97,
        i * 17 % 1000,
        i.is_multiple_of(2),
        i % 24,
        i % 60,
        i % 59,
        i % 1000,
    )
    .unwrap();
}
