use std::sync::{Arc, Mutex};

use super::*;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn written(form: Form, run: impl FnOnce(&mut Output) -> Result<(), Failed>) -> String {
    let shared = Shared::default();
    let mut output = Output { form, asked: Some(form), fit: false, out: Box::new(shared.clone()) };
    assert!(run(&mut output).is_ok());
    let bytes = shared.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn sample(output: &mut Output) -> Result<(), Failed> {
    let mut rows = output.rows(Columns::new(["id", "identifier", "name", "amount"]).identifier("identifier"));
    rows.push(vec![Value::Int(1), Value::Identifier(7), Value::text("a,\"b\""), Value::text("10.50")])?;
    rows.push(vec![Value::Null, Value::Identifier(i64::MAX), Value::text(""), Value::Double(0.5)])?;
    rows.finish()
}

#[test]
fn jsonl_is_one_object_a_line_and_marks_end_of_input() {
    assert_eq!(
        written(Form::Jsonl, sample),
        "{\"id\":1,\"identifier\":7,\"name\":\"a,\\\"b\\\"\",\"amount\":\"10.50\"}\n\
         {\"id\":null,\"identifier\":9223372036854775807,\"end_of_input\":true,\"name\":\"\",\"amount\":0.5}\n"
    );
}

#[test]
fn json_is_one_array_even_of_nothing() {
    let parsed: serde_json::Value = serde_json::from_str(&written(Form::Json, sample)).unwrap();
    assert_eq!(parsed.as_array().unwrap().len(), 2);
    assert_eq!(parsed[1]["end_of_input"], true);
    assert_eq!(written(Form::Json, |o| o.rows(Columns::new(["a"])).finish()), "[]\n");
}

#[test]
fn csv_keeps_null_and_the_empty_string_apart() {
    assert_eq!(
        written(Form::Csv, sample),
        "id,identifier,end_of_input,name,amount\n1,7,false,\"a,\"\"b\"\"\",10.50\n,9223372036854775807,true,\"\",0.5\n"
    );
    assert_eq!(written(Form::Csv, |o| o.rows(Columns::new(["a", "b,c"])).finish()), "a,\"b,c\"\n");
}

#[test]
fn a_table_says_end_of_input_and_null() {
    let text = written(Form::Table, sample);
    assert!(text.contains("end of input") && text.contains("null") && text.contains("identifier"), "{text}");
    assert!(!text.contains("9223372036854775807"), "{text}");
}

#[test]
fn a_table_of_many_rows_is_drawn_in_parts_and_loses_none() {
    let text = written(Form::Table, |o| {
        let mut rows = o.rows(Columns::new(["n"]));
        for n in 0..ROWS_PER_TABLE as i64 + 1 {
            rows.push(vec![Value::Int(n)])?;
        }
        rows.finish()
    });
    let numbers = text.lines().filter(|l| l.chars().any(|c| c.is_ascii_digit())).count();
    assert_eq!(numbers, ROWS_PER_TABLE + 1);
}

#[test]
fn what_a_number_would_bend_is_text() {
    let text = |v: &Value| serde_json::to_string(v).unwrap();
    assert_eq!(text(&Value::Double(f64::NAN)), "\"NaN\"");
    assert_eq!(text(&Value::Float(f32::NEG_INFINITY)), "\"-Infinity\"");
    assert_eq!(text(&Value::Float(0.1)), "0.1");
    assert_eq!(text(&Value::Double(-0.0)), "-0.0");
    assert_eq!(text(&Value::Int(i64::MIN)), "-9223372036854775808");
    assert_eq!(text(&Value::Hex(vec![0, 255])), "\"00ff\"");
    assert_eq!(text(&Value::Raw(b"{\"a\":1".to_vec())), "\"{\\\"a\\\":1\"");
    assert_eq!(text(&Value::Raw(vec![0xff])), "{\"hex\":\"ff\"}");
    assert_eq!(text(&Value::Time(1_767_225_600_123)), "\"2026-01-01T00:00:00.123Z\"");
    assert_eq!(text(&Value::Time(i64::MAX)), "\"9223372036854775807\"");
    assert_eq!(
        text(&Value::Map(vec![("identifier".into(), Value::Identifier(i64::MAX))])),
        "{\"identifier\":9223372036854775807,\"end_of_input\":true}"
    );
}

#[test]
fn floats_look_the_same_in_every_form() {
    for (value, text) in [(Value::Double(1e300), "1e+300"), (Value::Double(f64::INFINITY), "Infinity"), (Value::Float(0.1), "0.1")] {
        assert_eq!((value.csv().as_str(), value.shown().as_str()), (text, text));
        assert_eq!(serde_json::to_string(&value).unwrap().trim_matches('"'), text);
    }
}

#[test]
fn a_commit_user_is_cut_for_eyes_only() {
    let user = Value::User("orders-a32d41d1-46cc-436e-92a5-9ad1da420820".to_owned());
    assert_eq!((user.shown().as_str(), user.csv().as_str()), ("orders-a32d41d1…", "orders-a32d41d1-46cc-436e-92a5-9ad1da420820"));
    for other in ["é", "73dc", "a32d41d1-46cc-436e-92a5-9ad1da42082é", "Spark job 1"] {
        assert_eq!(Value::User(other.to_owned()).shown(), other);
    }
    assert_eq!(Value::Time(0).shown(), "1970-01-01 00:00:00Z");
}

#[test]
fn a_value_cannot_drive_the_terminal() {
    assert_eq!(Value::text("a\x1b[31m\nb\t").shown(), "a\\u{1b}[31m\\nb\\t");
    assert_eq!(Value::text("x".repeat(1000)).shown().chars().count(), LONGEST_CELL + 1);
}

#[test]
fn sizes_and_ages_are_rounded_for_eyes_only() {
    let sizes: Vec<String> = [0, 1023, 1024, 1536, 1_048_570, 1_048_576, u64::MAX].map(size).to_vec();
    assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "16.0 EiB"]);
    assert_eq!(serde_json::to_string(&Value::Size(1536)).unwrap(), "1536");
    let ages: Vec<String> = [0, 59, 61, 3_660, 90_000].map(age).to_vec();
    assert_eq!(ages, ["0s", "59s", "1m 1s", "1h 1m", "1d 1h"]);
}
