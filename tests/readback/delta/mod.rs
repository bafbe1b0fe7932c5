//! Delta tables that we write, read by deltalake, DuckDB, Polars and Spark, and appended to by deltalake and Spark.
//!
//! ```text
//! cargo test --test main readback::delta -- --ignored --nocapture
//! ```

mod life;
mod types;

mod conflicts;
mod others;
mod partitions;
mod property;

use serde_json::json;

use super::Folder;
use super::readers::{DELTA_WRITERS, Row, assert_delta_rows, get, text};

#[test]
#[ignore = "needs tests/setup.sh: other people's readers"]
fn a_table_that_spark_and_deltalake_wrote_in_turns_is_read_alike_by_all() {
    for creator in DELTA_WRITERS {
        let folder = Folder::new();
        let table = folder.table("t");
        let columns = json!([["id", "BIGINT"], ["s", "STRING"], ["p", "DATE"]]);
        get(creator, &json!({"cmd": "create", "table": table, "columns": columns, "partition": ["p"]}));
        let mut rows: Vec<Row> = Vec::new();
        for (i, writer) in DELTA_WRITERS.iter().cycle().take(4).enumerate() {
            let more = json!([[format!("{i}"), "\u{e9} \u{6f22}", "day:1"], [format!("{}", i + 10), null, null]]);
            get(writer, &json!({"cmd": "append", "table": table, "rows": more}));
            rows.push(vec![text(&format!("{i}")), text("\u{e9} \u{6f22}"), text("day:1")]);
            rows.push(vec![text(&format!("{}", i + 10)), None, None]);
            if i == 1 {
                get(writer, &json!({"cmd": "checkpoint", "table": table}));
            }
        }
        assert_delta_rows(&table, &["id", "s", "p"], &rows);
    }
}
