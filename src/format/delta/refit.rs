//! Does a file that was written under other columns still fit the table?

use parquet::arrow::parquet_to_arrow_schema;

use crate::datafile::footer;
use crate::error::{Error, Result};
use crate::format::DataFile;
use crate::schema::{DataType, Field, Schema};
use crate::store::Store;

/// `Invalid` when the file does not hold what `schema` says of its columns: by the column, and what it has. `Data`: the file is missing or
/// damaged.
pub(super) async fn fits(store: &Store, file: &DataFile, schema: &Schema, widening: bool) -> Result<()> {
    let place = store.place(&file.path);
    let metadata = footer(store, &file.path, file.size, &place).await?;
    // Types as Parquet has them, whatever was noted beside them.
    let held = parquet_to_arrow_schema(metadata.file_metadata().schema_descr(), None).map_err(|e| crate::datafile::damaged(e, &place))?;
    let misfit = |what: String| {
        Err(Error::invalid(what).at(&place).hint(
            "the table's columns were changed after the file was written: change them back, or give the checkpoint up with --abandon N, and \
             its rows are written again",
        ))
    };
    for field in schema.fields.iter().filter(|f| !schema.partition_by.contains(&f.name)) {
        let Some(has) = held.fields().iter().find(|f| *f.name() == field.name) else {
            if field.nullable {
                continue; // reads as null
            }
            return misfit(format!("the table's column `{}` is NOT NULL now, and a file of this commit has no such column", field.name));
        };
        let same = has.data_type() == &physical(field) || (field.data_type.is_nested() && alike(has.data_type(), &physical(field)));
        let fits = same || (widening && widens(has.data_type(), &field.data_type));
        if !fits {
            return misfit(format!(
                "the table's column `{}` is {} now, and a file of this commit holds {}",
                field.name,
                field.data_type,
                has.data_type()
            ));
        }
        let nulls = file.stats.iter().find(|s| s.column == field.name).map(|s| s.nulls);
        if !field.nullable && has.is_nullable() && nulls != Some(0) {
            return misfit(format!("the table's column `{}` is NOT NULL now, and a file of this commit may hold nulls in it", field.name));
        }
    }
    Ok(())
}

fn physical(field: &Field) -> arrow::datatypes::DataType {
    field.data_type.to_arrow()
}

/// The same but for nullability within.
fn alike(a: &arrow::datatypes::DataType, b: &arrow::datatypes::DataType) -> bool {
    use arrow::datatypes::DataType as A;
    match (a, b) {
        (A::List(a), A::List(b)) => alike(a.data_type(), b.data_type()),
        (A::Map(a, _), A::Map(b, _)) => alike(a.data_type(), b.data_type()),
        (A::Struct(a), A::Struct(b)) => {
            b.iter().all(|b| a.iter().find(|a| a.name() == b.name()).is_some_and(|a| alike(a.data_type(), b.data_type())))
        }
        (a, b) => a == b,
    }
}

/// May the type have been widened to this one since?
fn widens(has: &arrow::datatypes::DataType, now: &DataType) -> bool {
    use arrow::datatypes::DataType as A;
    match (has, now) {
        (A::Int8, DataType::SmallInt | DataType::Int | DataType::BigInt | DataType::Double)
        | (A::Int16, DataType::Int | DataType::BigInt | DataType::Double)
        | (A::Int32, DataType::BigInt | DataType::Double)
        | (A::Float32, DataType::Double) => true,
        (A::Decimal128(p, s), DataType::Decimal { precision, scale }) => {
            u8::try_from(*s).is_ok_and(|s| *scale >= s && precision.saturating_sub(*scale) >= p.saturating_sub(s))
        }
        _ => false,
    }
}
