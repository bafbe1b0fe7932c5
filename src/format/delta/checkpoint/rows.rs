//! The columns of a classic checkpoint: one row an action, one column a kind of action.

use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow_json::ReaderBuilder;

use super::super::action::Action;
use crate::error::{Error, Result};

/// The columns that this program writes. All may be null but the keys of maps: a field that may not be null inside of a struct that is
/// makes files that other engines cannot open.
pub(crate) static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let (text, long, int, truth) = (DataType::Utf8, DataType::Int64, DataType::Int32, DataType::Boolean);
    let vector = structure([
        ("storageType", text.clone()),
        ("pathOrInlineDv", text.clone()),
        ("offset", int.clone()),
        ("sizeInBytes", int.clone()),
        ("cardinality", long.clone()),
    ]);
    let columns = [
        ("txn", structure([("appId", text.clone()), ("version", long.clone()), ("lastUpdated", long.clone())])),
        (
            "add",
            structure([
                ("path", text.clone()),
                ("partitionValues", texts()),
                ("size", long.clone()),
                ("modificationTime", long.clone()),
                ("dataChange", truth.clone()),
                ("stats", text.clone()),
                ("tags", texts()),
                ("deletionVector", vector.clone()),
                ("baseRowId", long.clone()),
                ("defaultRowCommitVersion", long.clone()),
                ("clusteringProvider", text.clone()),
            ]),
        ),
        (
            "remove",
            structure([
                ("path", text.clone()),
                ("deletionTimestamp", long.clone()),
                ("dataChange", truth.clone()),
                ("extendedFileMetadata", truth.clone()),
                ("partitionValues", texts()),
                ("size", long.clone()),
                ("deletionVector", vector),
                ("baseRowId", long.clone()),
                ("defaultRowCommitVersion", long.clone()),
            ]),
        ),
        (
            "metaData",
            structure([
                ("id", text.clone()),
                ("name", text.clone()),
                ("description", text.clone()),
                ("format", structure([("provider", text.clone()), ("options", texts())])),
                ("schemaString", text.clone()),
                ("partitionColumns", list()),
                ("configuration", texts()),
                ("createdTime", long),
            ]),
        ),
        (
            "protocol",
            structure([
                ("minReaderVersion", int.clone()),
                ("minWriterVersion", int),
                ("readerFeatures", list()),
                ("writerFeatures", list()),
            ]),
        ),
        ("domainMetadata", structure([("domain", text.clone()), ("configuration", text), ("removed", truth)])),
    ];
    Arc::new(Schema::new(fields(columns)))
});

fn fields<const N: usize>(columns: [(&str, DataType); N]) -> Fields {
    columns.into_iter().map(|(name, of)| Field::new(name, of, true)).collect()
}

fn structure<const N: usize>(columns: [(&str, DataType); N]) -> DataType {
    DataType::Struct(fields(columns))
}

fn list() -> DataType {
    DataType::List(Arc::new(Field::new("element", DataType::Utf8, true)))
}

fn texts() -> DataType {
    let pair = [Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)];
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(pair.into_iter().collect()), false)), false)
}

/// These actions as rows.
pub(crate) fn rows(actions: &[Action]) -> Result<RecordBatch> {
    let wrong = |e| Error::internal("actions cannot be written as rows").because(e).hint("please report this");
    let mut decoder = ReaderBuilder::new(SCHEMA.clone()).with_batch_size(actions.len().max(1)).build_decoder().map_err(wrong)?;
    decoder.serialize(actions).map_err(wrong)?;
    Ok(decoder.flush().map_err(wrong)?.unwrap_or_else(|| RecordBatch::new_empty(SCHEMA.clone())))
}
