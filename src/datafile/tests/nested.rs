//! Columns of types within types: several Parquet columns each.

use super::*;

fn nested_schema() -> Arc<Schema> {
    let mut next = 0;
    let columns =
        [("id", "BIGINT NOT NULL"), ("r", "ROW<u BIGINT, a ARRAY<STRING>, t TIMESTAMP(9)>"), ("m", "MAP<STRING, DOUBLE>"), ("k", "INT")];
    let fields = columns.map(|(name, text)| Field::parse(0, name, text).unwrap().numbered(&mut next));
    Arc::new(Schema { id: 0, fields: fields.to_vec(), partition_by: vec![] })
}

/// Rows `from..to` of [`nested_schema`]: every third `r` is null, `m` has up to two entries.
fn nested_rows(schema: &Schema, range: std::ops::Range<i64>) -> RecordBatch {
    let lines: Vec<String> = range
        .map(|i| {
            let r =
                if i % 3 == 0 { "null".to_owned() } else { format!(r#"{{"u":{},"a":["x","y"],"t":"1970-01-01T00:00:00.{i:09}"}}"#, i * 7) };
            let m = if i % 2 == 0 { r#"{"a":1.0,"b":-0.0}"# } else { "{}" };
            format!(r#"{{"id":{i},"r":{r},"m":{m},"k":7}}"#)
        })
        .collect();
    let json = lines.join("\n");
    let reader = arrow_json::ReaderBuilder::new(schema.to_arrow()).with_batch_size(lines.len()).build(json.as_bytes());
    reader.unwrap().next().unwrap().unwrap()
}

#[tokio::test]
async fn each_leaf_of_a_nested_column_has_its_own_encoding() {
    let (store, schema) = (memory(), nested_schema());
    let mut w = writer(&store, &schema, WriterOptions::default());
    for round in 0..3 {
        w.write(&nested_rows(&schema, round * 6_000..(round + 1) * 6_000)).await.unwrap();
        let messages = w.prepare().await.unwrap();
        let file = files(&messages)[0];
        let footer = footer(&store, file).await;
        let columns = footer.row_group(0).columns();
        let dictionaries: Vec<(String, bool)> =
            columns.iter().map(|c| (c.column_path().string(), c.dictionary_page_offset().is_some())).collect();
        let fresh = round == 0;
        let expected = [
            ("id", fresh),
            ("r.u", fresh),
            ("r.a.list.element", true),
            ("r.t", fresh),
            ("m.key_value.key", true),
            ("m.key_value.value", true),
            ("k", true),
        ];
        assert_eq!(dictionaries, expected.map(|(path, dictionary)| (path.to_owned(), dictionary)), "round {round}");
        // Nulls of the columns, not of their leaves; bounds of flat columns only.
        let stats: Vec<(&str, bool, u64)> = file.stats.iter().map(|s| (s.column.as_str(), s.min.is_some(), s.nulls)).collect();
        assert_eq!(stats, [("id", true, 0), ("r", false, 2_000), ("m", false, 0), ("k", true, 0)]);
        let t = columns[3].statistics().unwrap();
        assert_eq!((t.null_count_opt(), t.min_bytes_opt(), t.max_bytes_opt()), (Some(2_000), None, None));
        assert_eq!(columns[5].statistics().unwrap().null_count_opt(), Some(3_000), "the empty maps");
    }
}

#[tokio::test]
async fn open_nested_columns_are_counted_in_the_memory_budget() {
    let (store, schema) = (memory(), nested_schema());
    let mut w = writer(&store, &schema, WriterOptions::default());
    let batch = nested_rows(&schema, 0..5_000);
    w.write(&batch).await.unwrap();
    // 3,333 timestamps of twelve bytes and their levels alone.
    assert!(w.memory() > 3_333 * 12 + 5_000 * 2, "{}", w.memory());
    assert!(w.bytes() > 3_333 * 12, "{}", w.bytes());
    w.prepare().await.unwrap();
    assert_eq!((w.memory(), w.bytes()), (0, 0));
}

#[tokio::test]
async fn a_row_without_fields_is_refused_before_anything_is_written() {
    let mut schema = Schema::clone(&nested_schema());
    schema.fields[1].data_type = DataType::Row(vec![]);
    let layout = Arc::new(Folders { only_first: false });
    let made = FileWriter::new(memory(), Arc::new(schema), layout, CommitUser::new("u"), WriterOptions::default());
    let error = made.err().unwrap();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.to_string().contains("the column `r` holds a ROW without fields"), "{error}");
}
