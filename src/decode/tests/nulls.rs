//! Null, absent, the text `null` and the empty text, for every type, nullable and not: the tables of `spec/decode.md` are what comes out.

use super::*;

const TYPES: [&str; 25] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "CHAR(8)",
    "VARCHAR(8)",
    "STRING",
    "BINARY(3)",
    "VARBINARY(8)",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP(3) WITH LOCAL TIME ZONE",
    "TIMESTAMP(9) WITH LOCAL TIME ZONE",
    "ARRAY<INT>",
    "MAP<STRING, INT>",
    "MULTISET<STRING>",
    "ROW<a INT>",
];

/// What a record makes of the only column that matters, in the words of the page.
fn outcome(decoded: &Decoded, ty: &str) -> String {
    let [] = decoded.rejects.as_slice() else {
        let [reject] = decoded.rejects.as_slice() else { panic!("{:?}", decoded.rejects) };
        assert_eq!((decoded.batch.num_rows(), reject.stage), (0, Stage::Cast), "{ty}");
        let said = reject.error.strip_prefix(&format!("column v {ty}: "));
        let not_null = reject.error.strip_prefix("column v is NOT NULL, but ");
        let said = said.map(str::to_owned).or_else(|| not_null.map(|why| format!("NOT NULL, but {why}")));
        return format!("*{}*", said.unwrap_or_else(|| panic!("{}", reject.error)));
    };
    let text = cell(&decoded.batch, 0, 0);
    if text == "NULL" { text } else { format!("`{}`", if text.starts_with("b\"") { text } else { format!("{text:?}") }) }
}

/// The cell of the page: once when a nullable column and one that is not do the same, else both.
fn both(ty: &str, decode: impl Fn(&Mapping) -> Decoded) -> String {
    let nullable = outcome(&decode(&mapping(&[spec("v", ty), spec("w", "INT")])), ty);
    let strict = format!("{ty} NOT NULL");
    let not_null = outcome(&decode(&mapping(&[spec("v", &strict), spec("w", "INT")])), ty);
    if nullable == not_null { nullable } else { format!("{nullable} or {not_null}") }
}

fn table(head: &[&str], cells: impl Fn(&str) -> Vec<String>) -> String {
    let mut text = format!("| type | {} |\n|---|{}\n", head.join(" | "), "---|".repeat(head.len()));
    // Types that do the same share a line.
    let mut lines: Vec<(Vec<&str>, Vec<String>)> = Vec::new();
    for ty in TYPES {
        let cells = cells(ty);
        match lines.iter_mut().find(|(_, known)| *known == cells) {
            Some((types, _)) => types.push(ty),
            None => lines.push((vec![ty], cells)),
        }
    }
    for (types, cells) in lines {
        // Outside of code a page takes `<INT>` for markup.
        let types: Vec<String> = types.iter().map(|ty| if ty.contains('<') { format!("`{ty}`") } else { (*ty).to_owned() }).collect();
        text.push_str(&format!("| {} | {} |\n", types.join(", "), cells.join(" | ")));
    }
    text
}

fn json_table() -> String {
    let records = [r#"{"w":1}"#, r#"{"v":null,"w":1}"#, r#"{"v":"null","w":1}"#, r#"{"v":"","w":1}"#];
    table(&["absent", "`null`", "`\"null\"`", "`\"\"`"], |ty| records.map(|record| both(ty, |m| json(m, &[record]))).to_vec())
}

fn csv_table() -> String {
    let rows = [("w", "1"), ("v,w", ",1"), ("v,w", "\"\",1"), ("v,w", "null,1"), ("v,w", "\"null\",1")];
    table(&["no such column", "`,`", "`\"\",`", "`null,`", "`\"null\",`"], |ty| {
        let cell = |(header, row): (&str, &str)| {
            let header: Vec<&str> = header.split(',').collect();
            both(ty, |m| csv(m, Some(&header), &CsvOptions::default(), &[row]))
        };
        rows.map(cell).to_vec()
    })
}

#[test]
fn for_every_type_null_absent_and_two_texts_are_what_the_page_says() {
    let page = include_str!("../../../spec/decode.md");
    let (json, csv) = (json_table(), csv_table());
    assert!(page.contains(&json) && page.contains(&csv), "spec/decode.md says something else; this is what comes out:\n{json}\n{csv}");
}
