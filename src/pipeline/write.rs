//! A pipeline as text, complete and with secrets masked.

use serde_json::{Map, Value, json};

use super::file::*;
use super::units::{show_duration, show_size};

/// The whole pipeline as a pipeline file.
pub(super) fn yaml(file: &PipelineFile) -> String {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| drop(out.insert(key.to_owned(), value));
    put("version", json!(1));
    put("pipeline", json!(file.pipeline));
    put("source", source(&file.source));
    put("decode", decode(&file.decode));
    put("sinks", file.sinks.iter().map(sink).collect());
    if let Some(dead) = &file.dead_letter {
        put("dead_letter", compact([("location", Some(text(&dead.location))), ("format", dead.format.map(|f| json!(f.name())))]));
    }
    let c = &file.checkpoint;
    put(
        "checkpoint",
        compact([
            ("location", Some(text(&c.location))),
            ("every", c.every.map(|d| json!(show_duration(d)))),
            ("rows", c.rows.map(|n| json!(n))),
            ("bytes", c.bytes.map(|n| json!(show_size(n)))),
            ("keep", Some(json!(c.keep))),
        ]),
    );
    put("commit", json!({"empty": file.commit.empty, "timeout": show_duration(file.commit.timeout)}));
    put("durability", json!(if file.durability == Durability::None { "none" } else { "fsync" }));
    put("memory", json!(show_size(file.memory)));
    put("threads", json!(file.threads));
    if let Some(address) = file.metrics {
        put("metrics", json!(address.to_string()));
    }
    put("watchdog", file.watchdog.map_or(json!("off"), |w| json!({"intervals": w.intervals, "exit": w.exit})));
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(&Value::Object(out), options).unwrap_or_default()
}

/// A text that reads back as it is: a dollar sign is doubled.
fn text(value: &str) -> Value {
    Value::String(value.replace('$', "$$"))
}

fn texts(values: &[String]) -> Value {
    values.iter().map(|v| text(v)).collect()
}

fn compact<const N: usize>(entries: [(&str, Option<Value>); N]) -> Value {
    Value::Object(entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

pub(super) fn properties(p: &Properties) -> Option<Value> {
    let name = |key: &str| key.replace('$', "$$");
    let texts = p.masked().map(|(key, value)| (name(key), text(value)));
    let files = p.files().iter().map(|(key, path)| (name(key), json!({"file": text(&path.display().to_string())})));
    let mut all: Vec<(String, Value)> = texts.chain(files).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    (!all.is_empty()).then(|| Value::Object(all.into_iter().collect()))
}

fn source(spec: &SourceSpec) -> Value {
    let (name, inner) = match &spec.kind {
        SourceKind::Kafka(k) => ("kafka", kafka(k)),
        SourceKind::Files(f) => ("files", files(f)),
        SourceKind::Stdin => ("stdin", json!({})),
        SourceKind::Generate(g) => (
            "generate",
            compact([
                ("rows", g.rows.map(|n| json!(n))),
                ("rows_per_second", g.rows_per_second.map(number)),
                ("fail_at", g.fail_at.map(|n| json!(n))),
            ]),
        ),
    };
    let at_end = if spec.at_end == AtEnd::Close { "close" } else { "pause" };
    compact([(name, Some(inner)), ("at_end", (!spec.is_unbounded()).then(|| json!(at_end)))])
}

fn files(f: &FilesSource) -> Value {
    let watch = |value: &dyn Fn(&Watch) -> Value| f.watch.as_ref().map(value);
    compact([
        ("paths", Some(texts(&f.paths))),
        ("watch", watch(&|_| json!(true))),
        ("watch_every", watch(&|w| json!(show_duration(w.every)))),
        ("settled_after", watch(&|w| json!(show_duration(w.settled_after)))),
        ("on_change", watch(&|w| json!(if w.on_change == OnChange::Ignore { "ignore" } else { "fail" }))),
    ])
}

fn number(n: f64) -> Value {
    // A whole number is written without `.0`, and never with an exponent.
    if n.fract() == 0.0 && n < 9e15 { json!(n as u64) } else { json!(n) }
}

fn moment(ms: i64) -> Value {
    json!(chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default().to_rfc3339())
}

pub(super) fn kafka_start(start: &KafkaStart) -> Value {
    match start {
        KafkaStart::Earliest => json!("earliest"),
        KafkaStart::Latest => json!("latest"),
        KafkaStart::Group(group) => json!({"group": text(group)}),
        KafkaStart::Timestamp(ms) => json!({"timestamp": moment(*ms)}),
        KafkaStart::Offsets(offsets) => json!({"offsets": offsets}),
    }
}

pub(super) fn kafka_stop(stop: &KafkaStop) -> Value {
    match stop {
        KafkaStop::Never => json!("never"),
        KafkaStop::End => json!("end"),
        KafkaStop::Timestamp(ms) => json!({"timestamp": moment(*ms)}),
        KafkaStop::Offsets(offsets) => json!({"offsets": offsets}),
    }
}

fn kafka(k: &KafkaSource) -> Value {
    let (names, pattern) = match &k.topics {
        KafkaTopics::Names(names) => (Some(texts(names)), None),
        KafkaTopics::Pattern(pattern) => (None, Some(text(pattern))),
    };
    compact([
        ("bootstrap_servers", Some(text(&k.bootstrap_servers))),
        ("topics", names),
        ("topic_pattern", pattern),
        ("start", Some(kafka_start(&k.start))),
        ("stop", Some(kafka_stop(&k.stop))),
        ("on_data_loss", Some(json!(if k.on_data_loss == OnDataLoss::Fail { "fail" } else { "earliest" }))),
        ("idle_after", k.idle_after.map(|d| json!(show_duration(d)))),
        ("properties", properties(&k.properties)),
    ])
}

fn decode(spec: &Decode) -> Value {
    match spec {
        Decode::Json => json!({"format": "json"}),
        Decode::Parquet => json!({"format": "parquet"}),
        Decode::Csv(csv) => compact([
            ("format", Some(json!("csv"))),
            ("header", Some(json!(csv.header))),
            ("delimiter", Some(text(&char::from(csv.delimiter).to_string()))),
            ("quote", Some(text(&char::from(csv.quote).to_string()))),
            ("null", csv.null.as_deref().map(text)),
        ]),
    }
}

fn sink(spec: &SinkSpec) -> Value {
    let list = |values: &[String]| (!values.is_empty()).then(|| texts(values));
    let watermark = |w: &WatermarkSpec| json!({"column": text(&w.column), "lateness": show_duration(w.lateness)});
    compact([
        ("location", Some(text(&spec.location))),
        ("format", spec.format.map(|f| json!(f.name()))),
        ("columns", spec.columns.as_ref().map(|all| Value::Object(all.iter().map(column).collect()))),
        ("checks", list(&spec.checks)),
        ("partition_by", list(&spec.partition_by)),
        ("on_new_field", Some(json!(if spec.on_new_field == OnNewField::Ignore { "ignore" } else { "reject" }))),
        ("options", properties(&spec.options)),
        ("watermark", spec.watermark.as_ref().map(watermark)),
    ])
}

fn column(spec: &ColumnSpec) -> (String, Value) {
    let extra = [("from", &spec.from), ("meta", &spec.meta), ("expr", &spec.expr), ("unit", &spec.unit)];
    let name = spec.name.replace('$', "$$");
    if extra.iter().all(|(_, value)| value.is_none()) {
        return (name, text(&spec.type_text));
    }
    let mut out = Map::from_iter([("type".to_owned(), text(&spec.type_text))]);
    out.extend(extra.into_iter().filter_map(|(key, value)| Some((key.to_owned(), text(value.as_deref()?)))));
    (name, Value::Object(out))
}
