//! From the tree to the types. Keys and kinds have been checked against [`super::shape`]; here values are.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::at::At;
use super::file::*;
use super::handed::kafka_properties;
use super::location;
use super::shape::nearest;
use super::yaml::{Mark, Node, Value};
use crate::decode::RecordFormat;
use crate::error::{Error, Result};

/// Collects where everything stands: a value at its first character, a mapping or list at its key.
pub(super) fn places(node: &Node, path: &str, out: &mut BTreeMap<String, Mark>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match &node.value {
        Value::Scalar { .. } => {}
        Value::List(items) => items.iter().enumerate().for_each(|(i, item)| {
            out.insert(below(&i.to_string()), item.mark);
            places(item, &below(&i.to_string()), out);
            // A column in a list is found by its name, too.
            if let Some(name) = named(item).filter(|_| path.ends_with(".columns")) {
                out.insert(below(name), item.mark);
                places(item, &below(name), out);
            }
        }),
        Value::Map(entries) => entries.iter().for_each(|e| {
            let mark = if matches!(e.node.value, Value::Scalar { .. }) && !e.node.is_null() { e.node.mark } else { e.key_mark };
            out.insert(below(&e.key), mark);
            places(&e.node, &below(&e.key), out);
        }),
    }
}

fn named(item: &Node) -> Option<&str> {
    let Value::Map(entries) = &item.value else { return None };
    entries.iter().find(|e| e.key == "name").and_then(|e| match &e.node.value {
        Value::Scalar { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

pub(super) fn file(root: &Node, origin: Arc<Origin>) -> Result<PipelineFile> {
    let (texts, base) = (&origin.texts, origin.base.as_path());
    let at = At { texts, node: Some(root), mark: Mark { len: 1, ..root.mark }, path: String::new() };
    version(&at.get("version"))?;
    let pipeline = name(&at.get("pipeline"))?;
    let source = source(&at.get("source"), base)?;
    let decode = super::check::decode_of(&source, &decode(&at.get("decode"))?).map_err(|(path, e)| origin.locate(path, e))?;
    let sinks_at = at.get("sinks");
    let sinks = sinks_at.items().iter().map(|item| sink(item, base)).collect::<Result<Vec<_>>>()?;
    if sinks.is_empty() {
        return Err(sinks_at.missing("write at least one `- location: ...`"));
    }
    let dead = at.get("dead_letter");
    let dead_letter = match dead.given() {
        true => Some(DeadLetterSpec { location: dead.get("location").location(base)?, format: format(&dead.get("format"))? }),
        false => None,
    };
    let checkpoint = checkpoint(&at.get("checkpoint"), base)?;
    let commit = at.get("commit");
    let commit = CommitSpec {
        empty: commit.get("empty").truth()?.unwrap_or(false),
        timeout: commit.get("timeout").some_time()?.unwrap_or(Duration::from_secs(300)),
    };
    Ok(PipelineFile {
        pipeline,
        source,
        decode,
        sinks,
        dead_letter,
        commit,
        durability: at.get("durability").word(&[("fsync", Durability::Fsync), ("none", Durability::None)], &[])?.unwrap_or_default(),
        memory: memory(&at.get("memory"))?,
        threads: threads(&at.get("threads"))?,
        metrics: metrics(&at.get("metrics"))?,
        watchdog: watchdog(&at.get("watchdog"), checkpoint.every)?,
        checkpoint,
        origin,
    })
}

fn version(at: &At<'_>) -> Result<()> {
    match at.whole()? {
        Some(1) => Ok(()),
        Some(other) => Err(at.fail(format!("`version` {other} is not known"), "this program reads version 1")),
        None => Err(at.missing("write `version: 1`")),
    }
}

fn name(at: &At<'_>) -> Result<String> {
    let text = at.required("name the pipeline: its checkpoints are kept under this name")?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let good = text.starts_with(fits) && text.len() <= 63 && text.chars().all(|c| fits(c) || c == '_' || c == '-');
    if good { Ok(text.to_owned()) } else { Err(at.wrong(text, "a name", "use 1 to 63 of a-z, 0-9, `_` and `-`, first a letter or digit")) }
}

fn memory(at: &At<'_>) -> Result<u64> {
    match at.size()? {
        None => Ok(512 << 20),
        Some(bytes) if bytes < 16 << 20 => Err(at.fail("`memory` must be at least 16MiB", "512MiB is the default")),
        Some(bytes) => Ok(bytes),
    }
}

fn threads(at: &At<'_>) -> Result<usize> {
    match at.positive()? {
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
        Some(n) if n > 1024 => Err(at.fail("`threads` must be at most 1024", "leave it out to use every core")),
        Some(n) => Ok(usize::try_from(n).unwrap_or(1)),
    }
}

fn metrics(at: &At<'_>) -> Result<Option<SocketAddr>> {
    let Some(text) = at.text() else { return Ok(None) };
    let by_name = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    match by_name.as_deref().unwrap_or(text).parse() {
        Ok(address) => Ok(Some(address)),
        Err(_) => {
            let hint = "write it like 127.0.0.1:9464, [::1]:9464, or 0.0.0.0:9464 for every interface; port 0 takes one that is free";
            Err(at.wrong(text, "an IP address with a port", hint))
        }
    }
}

fn watchdog(at: &At<'_>, every: Option<Duration>) -> Result<Option<WatchdogSpec>> {
    let default = WatchdogSpec::new(every);
    if at.text().is_some() {
        at.word(&[("off", ())], &[])?;
        return Ok(None);
    }
    let intervals = at.get("intervals");
    let too_many = |_| intervals.fail("`watchdog.intervals` is too large", "write `watchdog: off` for no watchdog");
    Ok(Some(WatchdogSpec {
        intervals: intervals.positive()?.map_or(Ok(default.intervals), u32::try_from).map_err(too_many)?,
        exit: at.get("exit").truth()?.unwrap_or(default.exit),
        ..default
    }))
}

fn checkpoint(at: &At<'_>, base: &Path) -> Result<CheckpointSpec> {
    if !at.given() {
        return Err(at.missing("write `checkpoint:` with a `location:` outside of the tables, like `./lake/_checkpoints`"));
    }
    let keep = at.get("keep");
    Ok(CheckpointSpec {
        location: at.get("location").location(base)?,
        every: at.get("every").some_time()?,
        rows: at.get("rows").positive()?,
        bytes: match at.get("bytes").size()? {
            Some(0) => return Err(at.get("bytes").fail("`checkpoint.bytes` must be at least 1B", "write more, or leave it out")),
            other => other,
        },
        keep: match keep.whole()? {
            None => 10,
            Some(n) if n < 2 => return Err(keep.fail("`checkpoint.keep` must be at least 2", "10 is the default")),
            Some(n) => u32::try_from(n).map_err(|_| keep.fail("`checkpoint.keep` is too large", "10 is the default"))?,
        },
    })
}

fn source(at: &At<'_>, base: &Path) -> Result<SourceSpec> {
    const KINDS: [&str; 4] = ["kafka", "files", "stdin", "generate"];
    let given: Vec<&str> = KINDS.into_iter().filter(|kind| at.has(kind)).collect();
    let kind = match given[..] {
        ["kafka"] => SourceKind::Kafka(kafka(&at.get("kafka"), base)?),
        ["files"] => SourceKind::Files(files(&at.get("files"), base)?),
        ["stdin"] => SourceKind::Stdin,
        [_] => SourceKind::Generate(generate(&at.get("generate"))?),
        [] => return Err(at.fail("`source` is missing", "write `source:` with one of files, stdin, generate, kafka")),
        [first, second, ..] => {
            let at = at.get(second);
            return Err(at.fail(format!("`source` has both `{first}` and `{second}`"), "a pipeline has one source; keep one"));
        }
    };
    let default = match &kind {
        SourceKind::Kafka(_) => AtEnd::Pause,
        _ => AtEnd::Close,
    };
    let end = at.get("at_end");
    let at_end = end.word(&[("close", AtEnd::Close), ("pause", AtEnd::Pause)], &[])?;
    let spec = SourceSpec { kind, at_end: at_end.unwrap_or(default) };
    if at_end.is_some() && spec.is_unbounded() {
        return Err(end.fail("`source.at_end` is set, but this source never ends", "remove it, or give the source an end"));
    }
    Ok(spec)
}

fn files(at: &At<'_>, base: &Path) -> Result<FilesSource> {
    let watched = at.get("watch").truth()? == Some(true);
    let default = Watch::default();
    let watch = Watch {
        every: at.get("watch_every").some_time()?.unwrap_or(default.every),
        settled_after: at.get("settled_after").some_time()?.unwrap_or(default.settled_after),
        on_change: at.get("on_change").word(&[("fail", OnChange::Fail), ("ignore", OnChange::Ignore)], &[])?.unwrap_or(default.on_change),
    };
    if let Some(key) = ["watch_every", "settled_after", "on_change"].into_iter().find(|key| !watched && at.get(key).given()) {
        let at = at.get(key);
        return Err(at.fail(format!("`{}` is for files that are watched", at.path), "set `watch: true`, or remove it"));
    }
    let paths = at.get("paths");
    let out = paths.items().iter().map(|item| input(item, base)).collect::<Result<Vec<_>>>()?;
    if out.is_empty() {
        Err(paths.missing("write `paths: [\"in/*.ndjson\"]`"))
    } else {
        Ok(FilesSource { paths: out, watch: watched.then_some(watch) })
    }
}

/// One path or glob, absolute.
fn input(at: &At<'_>, base: &Path) -> Result<String> {
    let text = at.required("write a path")?;
    if text.contains("://") && !text.starts_with("file://") {
        return Err(at.wrong(text, "a path on this machine", "remote files are not supported yet; copy them here first"));
    }
    if text.starts_with('/') || text.contains("://") || text.starts_with('~') || text.trim().is_empty() {
        // `absolute` knows what is wrong with these.
        let path = at.placed(location::absolute(text, base))?;
        return glob_of(at, path);
    }
    // Only what the file says is a glob, not the name of the folder that it lies in.
    let (up, rest) = leading_dots(text);
    let folder = at.placed(location::absolute(if up.is_empty() { "." } else { up }, base))?;
    let joined = format!("{}/{rest}", glob::Pattern::escape(folder.trim_end_matches('/')));
    glob_of(at, at.placed(location::absolute(&joined, base))?)
}

/// Splits `../../in/*.csv` into `../../` and `in/*.csv`.
fn leading_dots(text: &str) -> (&str, &str) {
    let mut end = 0;
    for part in text.split_inclusive('/') {
        if matches!(part, "../" | "./" | "/" | ".." | ".") { end += part.len() } else { break }
    }
    text.split_at(end)
}

fn glob_of(at: &At<'_>, path: String) -> Result<String> {
    match glob::Pattern::new(&path) {
        Ok(_) => Ok(path),
        Err(e) => Err(at.wrong(&path, "a path or a glob", format!("{}; write `[*]` for a plain `*`", e.msg))),
    }
}

fn generate(at: &At<'_>) -> Result<GenerateSource> {
    let (rows, fail_at, rate) = (at.get("rows"), at.get("fail_at"), at.get("rows_per_second"));
    let spec = GenerateSource { rows: rows.positive()?, rows_per_second: speed(&rate)?, fail_at: fail_at.positive()? };
    match (spec.rows, spec.fail_at) {
        (Some(rows), Some(row)) if row > rows => {
            Err(fail_at.fail(format!("`source.generate.fail_at` is {row}, but there are only {rows} rows"), "choose a row that comes"))
        }
        _ => Ok(spec),
    }
}

fn speed(at: &At<'_>) -> Result<Option<f64>> {
    let wants = "a number greater than 0";
    let Some(text) = at.bare(wants)? else { return Ok(None) };
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match text.parse::<f64>() {
        Ok(n) if digits && n > 0.0 && n.is_finite() => Ok(Some(n)),
        _ => Err(at.wrong(text, wants, "write digits, like `20`")),
    }
}

fn kafka(at: &At<'_>, base: &Path) -> Result<KafkaSource> {
    let (names, pattern) = (at.get("topics"), at.get("topic_pattern"));
    let topics = match (names.given(), pattern.text()) {
        (true, None) => KafkaTopics::Names(names.texts()?),
        (false, Some(text)) => KafkaTopics::Pattern(text.to_owned()),
        (true, Some(_)) => return Err(pattern.fail("both `topics` and `topic_pattern` are given", "keep one")),
        (false, None) => return Err(names.missing("write `topics: [name]` or `topic_pattern: \"^name-\"`")),
    };
    if topics == KafkaTopics::Names(Vec::new()) {
        return Err(names.fail("`source.kafka.topics` is empty", "write `topics: [name]`"));
    }
    Ok(KafkaSource {
        bootstrap_servers: at.get("bootstrap_servers").required("write `bootstrap_servers: host:9092`")?.to_owned(),
        topics,
        start: kafka_start(&at.get("start"))?,
        stop: kafka_stop(&at.get("stop"))?,
        on_data_loss: at
            .get("on_data_loss")
            .word(&[("fail", OnDataLoss::Fail), ("earliest", OnDataLoss::Earliest)], &[])?
            .unwrap_or(OnDataLoss::Fail),
        idle_after: at.get("idle_after").some_time()?,
        properties: kafka_properties(&at.get("properties"), base)?,
    })
}

/// The only key of a mapping that must have one.
fn only<'a>(at: &At<'a>, hint: &str) -> Result<(&'a str, At<'a>)> {
    let mut entries = at.entries();
    match (entries.pop(), entries.is_empty()) {
        (Some(entry), true) => Ok(entry),
        _ => Err(at.fail(format!("`{}` must have exactly one key", at.path), hint)),
    }
}

fn kafka_start(at: &At<'_>) -> Result<KafkaStart> {
    const HINT: &str = "write earliest, latest, {group: ...}, {timestamp: ...} or {offsets: {topic: {partition: offset}}}";
    if !at.given() || at.text().is_some() {
        return Ok(match at.word(&[("earliest", true), ("latest", false)], &[]).map_err(|e| one_of_forms(at, e, HINT))? {
            Some(false) => KafkaStart::Latest,
            _ => KafkaStart::Earliest,
        });
    }
    let (key, value) = only(at, HINT)?;
    match key {
        "group" => Ok(KafkaStart::Group(value.required("name a consumer group")?.to_owned())),
        "timestamp" => Ok(KafkaStart::Timestamp(value.moment()?)),
        _ => Ok(KafkaStart::Offsets(kafka_offsets(&value, "write the first offset to read", HINT)?)),
    }
}

fn kafka_offsets(at: &At<'_>, wants: &str, hint: &str) -> Result<BTreeMap<String, BTreeMap<i32, u64>>> {
    let mut out = BTreeMap::<String, BTreeMap<i32, u64>>::new();
    for (topic, partitions) in at.entries() {
        for (partition, offset) in partitions.entries() {
            let number = partition.parse::<i32>().ok().filter(|p| *p >= 0);
            let number = number.ok_or_else(|| offset.fail(format!("`{partition}` is no partition number"), "write digits only"))?;
            let offset = offset.whole()?.ok_or_else(|| offset.missing(wants))?;
            out.entry(topic.to_owned()).or_default().insert(number, offset);
        }
    }
    if out.is_empty() { Err(at.fail("`offsets` is empty", hint)) } else { Ok(out) }
}

/// The words are not all that may stand here.
fn one_of_forms(at: &At<'_>, e: Error, hint: &str) -> Error {
    if e.next_step().is_some_and(|h| h.starts_with("did you mean")) { e } else { at.fail(e.message(), hint) }
}

fn kafka_stop(at: &At<'_>) -> Result<KafkaStop> {
    const HINT: &str = "write never, end, {timestamp: ...} or {offsets: {topic: {partition: offset}}}";
    if !at.given() || at.text().is_some() {
        return Ok(match at.word(&[("never", false), ("end", true)], &[]).map_err(|e| one_of_forms(at, e, HINT))? {
            Some(true) => KafkaStop::End,
            _ => KafkaStop::Never,
        });
    }
    let (key, value) = only(at, HINT)?;
    match key {
        "timestamp" => Ok(KafkaStop::Timestamp(value.moment()?)),
        _ => Ok(KafkaStop::Offsets(kafka_offsets(&value, "write the first offset not to read", HINT)?)),
    }
}

/// What `decode` says, before the file endings fill in what it does not.
#[derive(Debug, Default)]
pub(super) struct DecodeText {
    pub(super) format: Option<RecordFormat>,
    pub(super) header: Option<bool>,
    pub(super) delimiter: Option<u8>,
    pub(super) quote: Option<u8>,
    pub(super) null: Option<String>,
}

fn decode(at: &At<'_>) -> Result<DecodeText> {
    let null = at.get("null");
    if at.has("null") && !null.given() {
        return Err(null.fail("`decode.null` has no text", "put it into quotes: `null: \"null\"`; an empty field is null anyway"));
    }
    Ok(DecodeText {
        format: at.get("format").word(
            &[("json", RecordFormat::Json), ("csv", RecordFormat::Csv), ("parquet", RecordFormat::Parquet)],
            &["avro", "debezium", "raw"],
        )?,
        header: at.get("header").truth()?,
        delimiter: character(&at.get("delimiter"))?,
        quote: character(&at.get("quote"))?,
        null: null.text().map(str::to_owned),
    })
}

fn character(at: &At<'_>) -> Result<Option<u8>> {
    match at.text().map(str::as_bytes) {
        None => Ok(None),
        Some([c]) if c.is_ascii() && !matches!(c, b'\n' | b'\r' | 0) => Ok(Some(*c)),
        Some(_) => Err(at.wrong(at.text().unwrap_or_default(), "one ASCII character", "a tab is written \"\\t\", in double quotes")),
    }
}

fn format(at: &At<'_>) -> Result<Option<Format>> {
    at.word(&[("paimon", Format::Paimon), ("delta", Format::Delta)], &[])
}

fn sink(at: &At<'_>, base: &Path) -> Result<SinkSpec> {
    let columns = columns(&at.get("columns"))?;
    let missing = |name: &str| columns.as_ref().is_some_and(|all| !all.iter().any(|c| c.name == name));
    let nearest_column = |name: &str| {
        let names = || columns.iter().flatten().map(|c| c.name.as_str());
        match nearest(name, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the columns are {}", names().collect::<Vec<_>>().join(", ")),
        }
    };
    let partition = at.get("partition_by");
    let partition_by = partition.texts()?;
    for (i, item) in partition.items().iter().enumerate() {
        let name = &partition_by[i];
        if missing(name) {
            return Err(item.fail(format!("`partition_by` names `{name}`, which is no column"), nearest_column(name)));
        }
        if partition_by[..i].contains(name) {
            return Err(item.fail(format!("`partition_by` names `{name}` twice"), "keep one"));
        }
    }
    let mark = at.get("watermark");
    let watermark = match mark.given() {
        false => None,
        true => {
            let column = mark.get("column");
            let name = column.required("name a timestamp column")?;
            if missing(name) {
                return Err(column.fail(format!("`watermark.column` names `{name}`, which is no column"), nearest_column(name)));
            }
            Some(WatermarkSpec { column: name.to_owned(), lateness: mark.get("lateness").duration()?.unwrap_or_default() })
        }
    };
    let words = [("ignore", OnNewField::Ignore), ("reject", OnNewField::Reject)];
    Ok(SinkSpec {
        location: at.get("location").location(base)?,
        format: format(&at.get("format"))?,
        checks: at.get("checks").texts()?,
        partition_by,
        on_new_field: at.get("on_new_field").word(&words, &["add"])?.unwrap_or_default(),
        options: at.get("options").properties(),
        watermark,
        columns,
    })
}

fn columns(at: &At<'_>) -> Result<Option<Vec<ColumnSpec>>> {
    if !at.given() {
        return Ok(None);
    }
    let mut out: Vec<ColumnSpec> = Vec::new();
    for (name, column_at) in at.entries() {
        out.push(column(&column_at, name)?);
    }
    for item in at.items() {
        let name = item.get("name").required("every column needs a name")?;
        if out.iter().any(|c| c.name == name) {
            return Err(item.get("name").fail(format!("the column `{name}` is given twice"), "keep one"));
        }
        out.push(column(&item, name)?);
    }
    match out.is_empty() {
        true => Err(at.fail(format!("`{}` has no column", at.path), "leave `columns` out to have them inferred")),
        false => Ok(Some(out)),
    }
}

fn column(at: &At<'_>, name: &str) -> Result<ColumnSpec> {
    if name.is_empty() {
        return Err(at.fail("a column has an empty name", "name it"));
    }
    let hint = "write a type like BIGINT, STRING or DECIMAL(10, 2)";
    if let Some(text) = at.text() {
        return Ok(ColumnSpec { name: name.to_owned(), type_text: text.to_owned(), ..ColumnSpec::default() });
    }
    let own = |key: &str| at.get(key).text().map(str::to_owned);
    let spec = ColumnSpec {
        name: name.to_owned(),
        type_text: at.get("type").text().map(str::to_owned).ok_or_else(|| at.fail(format!("the column `{name}` has no type"), hint))?,
        from: own("from"),
        meta: own("meta"),
        expr: own("expr"),
        unit: own("unit"),
    };
    let given: Vec<&str> = ["from", "meta", "expr"].into_iter().filter(|key| at.get(key).given()).collect();
    match given[..] {
        [first, second, ..] => Err(at.get(second).fail(format!("the column `{name}` has both `{first}` and `{second}`"), "keep one")),
        _ => Ok(spec),
    }
}
