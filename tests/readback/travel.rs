//! Tables that others made, tagged and altered, read by us: conditions, a tag, a time, widened columns.

use std::time::Duration;

use arrow::array::AsArray as _;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use futures::TryStreamExt as _;
use lakeward::Kind;
use lakeward::condition::Condition;
use lakeward::table::{At, Table, TableScan};
use serde_json::json;

use super::Folder;
use super::readers::{count_comparison, get};

async fn numbers(scan: TableScan) -> Vec<i64> {
    let batches: Vec<_> = scan.select(["n"]).stream().await.unwrap().try_collect().await.unwrap();
    let wide = batches.iter().map(|b: &arrow::array::RecordBatch| cast(b.column(0), &DataType::Int64).unwrap());
    let mut numbers: Vec<i64> = wide.flat_map(|a| a.as_primitive::<Int64Type>().values().to_vec()).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test]
#[ignore = "needs tests/setup.sh: other people's readers"]
async fn tables_of_others_are_read_at_a_tag_at_a_time_and_by_conditions() {
    const FAR: i64 = 5_000_000_000;
    for creator in ["pypaimon", "java-newest"] {
        let folder = Folder::new();
        let path = folder.table("travel");
        let append = |writer: &str, rows: serde_json::Value| get(writer, &json!({"cmd": "append", "table": path, "rows": rows}));
        let columns = json!([["n", "INT"], ["p", "STRING"], ["s", "STRING"]]);
        let options = json!({"bucket": "-1", "file.format": "parquet", "metadata.stats-mode": "truncate(16)"});
        get(creator, &json!({"cmd": "create", "table": path, "columns": columns, "partition": ["p"], "options": options}));
        append(creator, json!([["1", "a", "x"], ["2", "b", "abcdefghijklmnopq"]]));
        get("java-newest", &json!({"cmd": "tag", "table": path, "name": "first", "id": 1}));
        std::thread::sleep(Duration::from_millis(20));
        append(creator, json!([["3", "a", "y"]]));
        get("java-newest", &json!({"cmd": "alter", "table": path, "changes": [["retype", "n", "BIGINT"], ["add", "extra", "INT"]]}));
        append("java-newest", json!([[FAR.to_string(), "b", "z", "7"]]));

        let table = Table::open(path.to_str().unwrap()).await.unwrap();
        let all = || table.scan();
        assert_eq!(numbers(all()).await, [1, 2, 3, FAR], "{creator}");
        for (condition, expected) in [
            ("n > 2", &[3, FAR][..]),
            ("n < 5000000000 and p = 'a'", &[1, 3]),
            ("extra is null", &[1, 2, 3]),
            ("extra = 7 or s = 'abcdefghijklmnopq'", &[2, FAR]),
            ("s > 'abcdefghijklmnop' and not s like 'z%'", &[1, 2, 3]),
            ("p = 'b'", &[2, FAR]),
        ] {
            let scan = all().filter(Condition::parse(condition).unwrap());
            assert_eq!(numbers(scan.clone()).await, expected, "{creator}: {condition}");
            assert_eq!(scan.count().await.unwrap(), expected.len() as u64, "{creator}: {condition}");
            count_comparison();
        }
        let of_b = all().filter(Condition::parse("p = 'b'").unwrap()).plan().await.unwrap();
        assert_eq!(of_b.files().unwrap().len(), 2, "{creator}");

        let first = table.snapshot_at(&At::Snapshot(1)).await.unwrap().unwrap();
        for at in [At::Snapshot(1), At::Tag("first".into()), At::Time(first.time_ms.unwrap()), At::Time(first.time_ms.unwrap() + 1)] {
            assert_eq!(numbers(all().at(at.clone())).await, [1, 2], "{creator}: {at}");
            let then = all().at(at.clone()).plan().await.unwrap();
            assert_eq!((then.schema().fields.len(), then.schema().fields[0].type_text()), (3, "INT".to_owned()), "{creator}: {at}");
            count_comparison();
        }
        let early = all().at(At::Time(first.time_ms.unwrap() - 1)).count().await.unwrap_err();
        assert_eq!(early.kind(), Kind::Invalid);
    }
}
