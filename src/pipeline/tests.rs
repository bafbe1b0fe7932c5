use std::path::Path;
use std::time::Duration;

use super::file::*;
use crate::error::{Kind, Result};

fn env(name: &str) -> Option<String> {
    let known =
        [("N", "5"), ("EMPTY", ""), ("LAKE", "/lake"), ("WHO", "a $b"), ("SECRET_TOKEN", "hunter2"), ("K", "keyvalue"), ("WORD", "abc")];
    known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

fn read_with(text: &str, set: &[&str]) -> Result<PipelineFile> {
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    PipelineFile::parse(text, "p.yaml", Path::new("/base"), &set, &env)
}

fn read(text: &str) -> PipelineFile {
    read_with(text, &[]).unwrap()
}

#[track_caller]
fn refused(text: &str, set: &[&str]) -> String {
    let e = read_with(text, set).expect_err(text);
    assert_eq!(e.kind(), Kind::Invalid, "{e}");
    e.to_string()
}

/// Each text is refused with exactly this first line.
#[track_caller]
fn refuses(cases: &[(String, &str)]) {
    for (text, says) in cases {
        assert_eq!(refused(text, &[]).lines().next().unwrap(), *says, "{text}");
    }
}

/// The smallest pipeline, with some lines more.
fn with(more: &str) -> String {
    format!("version: 1\npipeline: p\nsource: {{generate: {{rows: 5}}}}\nsinks:\n- location: t\ncheckpoint: {{location: c}}\n{more}")
}

/// The smallest pipeline with this source.
fn source(source: &str) -> String {
    format!("version: 1\npipeline: p\nsource:\n  {source}\nsinks:\n- location: t\ncheckpoint: {{location: c, every: 1s}}\n")
}

/// The smallest pipeline with these lines in its sink.
fn sink(lines: &str) -> String {
    format!("version: 1\npipeline: p\nsource: {{generate: {{rows: 5}}}}\nsinks:\n- location: t\n  {lines}\ncheckpoint: {{location: c}}\n")
}

#[test]
fn an_error_shows_place_line_caret_and_the_nearest_right_key() {
    let text = with("commit:\n  emtpy: true\n");
    assert_eq!(
        refused(&text, &[]),
        "p.yaml:8:3: unknown key `emtpy` in `commit`; did you mean `empty`?\n  8 |   emtpy: true\n    |   ^^^^^"
    );
    let wide = with(&format!("commit: {{{}x: 1}}", " ".repeat(300)));
    let shown = refused(&wide, &[]);
    let mut lines = shown.lines().skip(1);
    let (line, caret) = (lines.next().unwrap(), lines.next().unwrap());
    assert_eq!(line.find('x'), caret.find('^'), "{shown}");
}

#[test]
fn what_is_no_yaml_is_refused_where_it_breaks() {
    let s = str::to_owned;
    refuses(&[
        (s(""), "p.yaml: there is nothing in the pipeline file; it needs version, pipeline, source, sinks, checkpoint"),
        (s("# nothing\n"), "p.yaml: there is nothing in the pipeline file; it needs version, pipeline, source, sinks, checkpoint"),
        (s("a: ["), "p.yaml:1:4: this is not YAML: unclosed bracket '['; check that brackets, braces and quotes are closed"),
        (
            s("a: b: c"),
            "p.yaml:1:5: this is not YAML: mapping values are not allowed in this context; check the indentation, and put text that \
             holds `: `, ` #` or quotes into quotes",
        ),
        (
            s("b: *y"),
            "p.yaml:1:4: this is not YAML: while parsing node, found unknown anchor; `*name` repeats what `&name` marks; put text that \
             begins with `*` into quotes",
        ),
        (
            s("version: 1\n---\nx: 1"),
            "p.yaml:3:1: a second document begins here; one file holds one pipeline; remove `---` and what follows",
        ),
        (s("a: 1\na: 2"), "p.yaml:2:1: the key `a` is given twice; the first is at p.yaml:1:1; keep one"),
        (s("!foo {a: 1}"), "p.yaml:1:6: the tag `!foo` has no meaning here; remove it"),
        (
            s("{{a: 1}: 2}"),
            "p.yaml:1:2: a key must be text; keys are plain text; inside {} and [] write environment variables in quotes: \"${NAME}\"",
        ),
        (
            s("source: {generate: {rows: ${N}}}"),
            "p.yaml:1:28: this is not YAML: while parsing a flow mapping, did not find expected ',' or '}'; inside {} and [] write \
             environment variables in quotes: \"${NAME}\"",
        ),
        (
            s("- a"),
            "p.yaml:1:1: the pipeline file is a list, but must be a mapping; its keys are version, pipeline, source, decode, sinks, \
             dead_letter, checkpoint, commit, durability, memory, threads, metrics, watchdog",
        ),
    ]);
}

#[test]
fn aliases_are_understood_and_do_not_multiply_without_bound() {
    let file = read(&sink("columns: {a: &t DOUBLE, b: *t}"));
    assert_eq!(file.sinks[0].columns.as_ref().unwrap()[1].type_text, "DOUBLE");
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        bomb += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(", "));
    }
    assert!(refused(&bomb, &[]).contains("more than 50000 values"));
    let deep = format!("a: {}", "[".repeat(5000));
    refused(&deep, &[]);
}

#[test]
fn a_misplaced_or_mistyped_key_names_the_right_one() {
    refuses(&[
        (with("chekpoint: {}"), "p.yaml:7:1: unknown key `chekpoint`; did you mean `checkpoint`?"),
        (with("dead-letter: {}"), "p.yaml:7:1: unknown key `dead-letter`; did you mean `dead_letter`?"),
        (with("every: 1s"), "p.yaml:7:1: unknown key `every`; `every` belongs in `checkpoint`"),
        (source("topics: [a]"), "p.yaml:4:3: unknown key `topics` in `source`; `topics` belongs in `source.kafka`"),
        (source("stdin: {x: 1}"), "p.yaml:4:11: unknown key `x` in `source.stdin`; nothing can be set here; write `{}`"),
        (with("commit: {zzz: 1}"), "p.yaml:7:10: unknown key `zzz` in `commit`; known here: empty, timeout"),
        (sink("columns: {a: {typ: INT}}"), "p.yaml:6:17: unknown key `typ` in `sinks.0.columns.a`; did you mean `type`?"),
    ]);
}

#[test]
fn a_value_of_the_wrong_kind_says_what_must_stand_there() {
    refuses(&[
        (with("commit: 5"), "p.yaml:7:9: `commit` is one value, but must be a mapping; its keys are empty, timeout"),
        (with("threads: [2]"), "p.yaml:7:10: `threads` is a list, but must be one value; write one, without brackets, braces or dashes"),
        (
            sink("checks: a > 0"),
            "p.yaml:6:11: `sinks.0.checks` is one value, but must be a list; write `[one, two]`, or one `- ` line for each",
        ),
        (
            sink("columns: abc"),
            "p.yaml:6:12: `sinks.0.columns` is one value, but must be a mapping of columns; write `name: TYPE`, or a list of \
             `{name: ..., type: ...}`",
        ),
        (with("threads: \"2\""), "p.yaml:7:10: `threads` must be a whole number, not a text in quotes; leave the quotes out"),
        (with("threads: two"), "p.yaml:7:10: `threads` must be a whole number, not `two`; write digits only, like `1000`"),
        (with("threads: 1_000"), "p.yaml:7:10: `threads` must be a whole number, not `1_000`; write digits only, like `1000`"),
        (with("commit: {empty: yes}"), "p.yaml:7:17: `commit.empty` must be true or false, not `yes`; write `true` or `false`"),
        (with("threads: 0"), "p.yaml:7:10: `threads` must be at least 1; write more, or leave it out"),
        (with("durability: fsnc"), "p.yaml:7:13: `fsnc` is not known as `durability`; did you mean `fsync`?"),
        (sink("format: iceberg"), "p.yaml:6:11: `iceberg` is not known as `sinks.0.format`; choose one of `paimon`, `delta`"),
    ]);
}

#[test]
fn units_are_obligatory() {
    const TIME: &str = "durations are a whole number and one of ms, s, m, h, d, like `10s`";
    const SIZE: &str = "sizes are a whole number and one of B, KB, MB, GB (powers of 1000), KiB, MiB, GiB (powers of 1024), like `64MiB`";
    refuses(&[
        (with("memory: 5"), &format!("p.yaml:7:9: `memory`: the size `5` has no unit; {SIZE}")),
        (with("memory: 12mib"), &format!("p.yaml:7:9: `memory`: `mib` in `12mib` is no unit of a size; did you mean `12MiB`? {SIZE}")),
        (with("commit: {timeout: 5}"), &format!("p.yaml:7:19: `commit.timeout`: the duration `5` has no unit; {TIME}")),
        (
            with("commit: {timeout: 5min}"),
            &format!("p.yaml:7:19: `commit.timeout`: `min` in `5min` is no unit of a duration; did you mean `5m`? {TIME}"),
        ),
        (with("commit: {timeout: 0s}"), "p.yaml:7:19: `commit.timeout` must be longer than 0; write more, or leave it out"),
        (with("memory: 1MB"), "p.yaml:7:9: `memory` must be at least 16MiB; 512MiB is the default"),
    ]);
}

#[test]
fn what_is_missing_is_named_with_what_to_write() {
    let s = str::to_owned;
    refuses(&[
        (s("pipeline: p"), "p.yaml:1:1: `version` is missing; write `version: 1`"),
        (s("version: 2"), "p.yaml:1:10: `version` 2 is not known; this program reads version 1"),
        (s("version: 1"), "p.yaml:1:1: `pipeline` is missing; name the pipeline: its checkpoints are kept under this name"),
        (
            s("version: 1\npipeline: Orders"),
            "p.yaml:2:11: `pipeline` must be a name, not `Orders`; use 1 to 63 of a-z, 0-9, `_` and `-`, first a letter or digit",
        ),
        (s("version: 1\npipeline: p"), "p.yaml:1:1: `source` is missing; write `source:` with one of files, stdin, generate, kafka"),
        (
            s("version: 1\npipeline: p\nsource: {stdin: {}}\nsinks: []"),
            "p.yaml:4:1: `sinks` is missing; write at least one `- location: ...`",
        ),
        (
            s("version: 1\npipeline: p\nsource: {stdin: {}}\nsinks: [{location: t}]"),
            "p.yaml:1:1: `checkpoint` is missing; write `checkpoint:` with a `location:` outside of the tables, like `./lake/_checkpoints`",
        ),
        (
            with("dead_letter: {}"),
            "p.yaml:7:1: `dead_letter.location` is missing; write a path, or s3://, gs:// or az:// with bucket and path",
        ),
    ]);
}

#[test]
fn environment_variables_are_put_in_and_a_plain_scalar_is_typed_after_it() {
    let file = read(&with("threads: ${N}\ncommit: {empty: \"${YES:-true}\"}\nmemory: ${MEM:-64}MiB"));
    assert_eq!((file.threads, file.commit.empty, file.memory), (5, true, 64 << 20));
    let file = read(&with("dead_letter: {location: '${HOM:-${LAKE}}/$$x${HOM:-}'}"));
    assert_eq!(file.dead_letter.unwrap().location, "/lake/$x");
    let file = read(&sink("options: {\"${WORD}\": \"${WHO}\"}"));
    assert_eq!(file.sinks[0].options.get("abc").unwrap(), "a $b", "what a variable holds is not looked at again");
    assert_eq!(read_with(&with("threads: ${NOT_SET}"), &["threads=3"]).unwrap().threads, 3, "an override comes first");
}

#[test]
fn an_environment_variable_that_is_not_there_is_an_error_never_nothing() {
    const FORMS: &str = "write `${NAME}`, `${NAME:-default}` or `${NAME:?why}`, and `$$` for a dollar sign";
    refuses(&[
        (
            with("dead_letter:\n  location: \"x/${HOM}/x\""),
            "p.yaml:8:16: the environment variable `HOM` is not set; set it, or give a default: `${HOM:-default}`",
        ),
        (
            with("threads: ${EMPTY}"),
            "p.yaml:7:10: the environment variable `EMPTY` is empty; set it, or give a default: `${EMPTY:-default}`",
        ),
        (with("threads: ${HOM:?how many}"), "p.yaml:7:10: the environment variable `HOM` is not set; how many"),
        (with("dead_letter: {location: $HOME/x}"), &format!("p.yaml:7:25: a `$` alone; {FORMS}")),
        (with("threads: ${HOM-5}"), &format!("p.yaml:7:10: `${{HOM-5}}` is no environment variable; {FORMS}")),
        (with("threads: ${HOM"), &format!("p.yaml:7:10: `${{` has no matching `}}`; {FORMS}")),
        (with("threads: ${WORD}"), "p.yaml:7:10: `threads` must be a whole number, not `abc`; write digits only, like `1000`"),
        (sink("options: {abc: 1, \"${WORD}\": 2}"), "p.yaml:6:21: the key `abc` is given twice; the first is at p.yaml:6:13; keep one"),
    ]);
}

#[test]
fn secrets_are_never_printed() {
    let text = sink("options: {s3.secret-key: hunter2, api.key: \"${K}\", primary-key: id, plain: 5}");
    let file = read(&text);
    assert_eq!(file.sinks[0].options.get("s3.secret-key").unwrap(), "hunter2");
    for shown in [file.to_yaml_masked(), format!("{file:?}"), format!("{:?}", file.sinks[0])] {
        assert!(!shown.contains("hunter2") && !shown.contains("keyvalue"), "{shown}");
    }
    assert!(file.to_yaml_masked().contains("    s3.secret-key: \"***\"\n"), "{}", file.to_yaml_masked());
    assert!(file.to_yaml_masked().contains("    primary-key: id\n"));
    let broken = [
        with("threads: ${SECRET_TOKEN}"),
        with("commit: {timeout: '${SECRET_TOKEN}'}"),
        sink("options: {my.password: hunter2, my.password: hunter3}"),
        sink("options: {my.password: [hunter2]}"),
        with("dead_letter: {location: 's3://id:hunter2@b/x'}"),
    ];
    for text in broken {
        let shown = refused(&text, &[]).split("\n").next().unwrap().to_owned();
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert!(!refused(&sink("options: {my.password: [hunter2]}"), &[]).contains("hunter2"), "nor the line that it stands in");
    assert!(!refused(&with(""), &["sinks.0.options.password=[hunter2]"]).contains("hunter2"));
}

#[test]
fn overrides_go_to_the_place_that_they_name() {
    let text = sink("columns: {id: BIGINT, \"a b\": INT}");
    let set = [
        "checkpoint.every=2s",
        "sinks.0.options.file.compression=zstd",
        "sinks.0.columns.id.from=key",
        "sinks.0.partition_by=[id]",
        "source={stdin: {}}",
        "commit.empty=true",
    ];
    let file = read_with(&text, &set).unwrap();
    assert_eq!(file.checkpoint.every, Some(Duration::from_secs(2)));
    assert_eq!(file.sinks[0].options.get("file.compression").unwrap(), "zstd");
    let id = &file.sinks[0].columns.as_ref().unwrap()[0];
    assert_eq!((id.name.as_str(), id.type_text.as_str(), id.from.as_deref()), ("id", "BIGINT", Some("key")));
    assert_eq!(file.sinks[0].partition_by, ["id"]);
    assert_eq!(file.source.kind, SourceKind::Stdin);
    assert!(file.commit.empty);
    let list = sink("columns: [{name: a, type: INT}, {name: b, type: INT}]");
    let file = read_with(&list, &["sinks.0.columns.b.type=BIGINT"]).unwrap();
    assert_eq!(file.sinks[0].columns.as_ref().unwrap()[1].type_text, "BIGINT");
}

#[test]
fn an_override_that_fits_nowhere_names_the_nearest_place() {
    for (set, says) in [
        ("sinks.0.format=iceberg", "--set sinks.0.format: `iceberg` is not known as `sinks.0.format`; choose one of `paimon`, `delta`"),
        ("sinks.0.fromat=paimon", "--set sinks.0.fromat: unknown key `fromat` in `sinks.0`; did you mean `format`?"),
        ("sinks.1.format=paimon", "--set sinks.1.format: `sinks` has no entry `1`; it has one entry, `sinks.0`"),
        ("version.x=1", "--set version.x: `version` is one value and has nothing called `x`; write `--set version=...`"),
        ("nothing", "--set nothing: `--set` needs PATH=VALUE; for example `--set sinks.0.format=paimon`"),
        ("=x", "--set =x: `--set` needs PATH=VALUE; for example `--set sinks.0.format=paimon`"),
        (
            "pipeline=[",
            "--set pipeline: this is not YAML: unclosed bracket '['; close brackets and quotes, or put the value into quotes once more",
        ),
        ("threads=no", "--set threads: `threads` must be a whole number, not `no`; write digits only, like `1000`"),
    ] {
        assert_eq!(refused(&with(""), &[set]), says);
    }
}

#[test]
fn what_is_not_supported_yet_is_refused_by_name() {
    refuses(&[
        (
            source("files: {paths: [a.csv], on_change: ignore}"),
            "p.yaml:4:38: `source.files.on_change` is for files that are watched; set `watch: true`, or remove it",
        ),
        (with("decode: {format: avro}"), "p.yaml:7:18: `decode.format: avro` is not supported yet; supported: `json`, `csv`, `parquet`"),
        (sink("on_new_field: add"), "p.yaml:6:17: `sinks.0.on_new_field: add` is not supported yet; supported: `ignore`, `reject`"),
        (
            with("dead_letter: {location: \"x/{topic}\"}"),
            "p.yaml:7:25: `dead_letter.location`: `{topic}` in a location is not supported yet; write the location out, one sink for each",
        ),
        (
            with("dead_letter: {location: \"x/{foo}\"}"),
            "p.yaml:7:25: `dead_letter.location`: `{foo}` in a location is no template; write the location out, one sink for each",
        ),
    ]);
}

#[test]
fn what_source_kafka_lacks_or_does_not_know_is_refused() {
    const K: &str = "bootstrap_servers: a, topics: [b]";
    refuses(&[
        (source("kafka: {topics: [a]}"), "p.yaml:4:3: `source.kafka.bootstrap_servers` is missing; write `bootstrap_servers: host:9092`"),
        (
            source("kafka: {bootstrap_servers: a}"),
            "p.yaml:4:3: `source.kafka.topics` is missing; write `topics: [name]` or `topic_pattern: \"^name-\"`",
        ),
        (source(&format!("kafka: {{{K}, topic_pattern: x}}")), "p.yaml:4:61: both `topics` and `topic_pattern` are given; keep one"),
        (
            source(&format!("kafka: {{{K}, start: newest}}")),
            "p.yaml:4:53: `newest` is not known as `source.kafka.start`; write earliest, latest, {group: ...}, {timestamp: ...} or \
             {offsets: {topic: {partition: offset}}}",
        ),
        (
            source(&format!("kafka: {{{K}, start: {{timestamp: yesterday}}}}")),
            "p.yaml:4:65: `source.kafka.start.timestamp` must be a moment with its zone, not `yesterday`; write it like \
             \"2026-01-01T00:00:00Z\"",
        ),
        (
            source(&format!("kafka: {{{K}, start: {{offsets: {{t: {{x: 5}}}}}}}}")),
            "p.yaml:4:71: `x` is no partition number; write digits only",
        ),
        (source(&format!("kafka: {{{K}, stop: ends}}")), "p.yaml:4:52: `ends` is not known as `source.kafka.stop`; did you mean `end`?"),
        (
            source(&format!("kafka: {{{K}, start: {{group: g, timestamp: x}}}}")),
            "p.yaml:4:46: `source.kafka.start` must have exactly one key; write earliest, latest, {group: ...}, {timestamp: ...} or \
             {offsets: {topic: {partition: offset}}}",
        ),
    ]);
}

#[test]
fn sources_must_make_sense() {
    refuses(&[
        (source("files:"), "p.yaml:4:3: `source.files.paths` is missing; write `paths: [\"in/*.ndjson\"]`"),
        (
            source("files: {paths: a.csv}"),
            "p.yaml:4:18: `source.files.paths` is one value, but must be a list; write `[one, two]`, or one `- ` line for each",
        ),
        (
            source("files: {paths: [s3://b/a.csv]}"),
            "p.yaml:4:19: `source.files.paths.0` must be a path on this machine, not `s3://b/a.csv`; remote files are not supported yet; \
             copy them here first",
        ),
        (
            source("files: {paths: ['a/[.csv']}"),
            "p.yaml:4:19: `source.files.paths.0` must be a path or a glob, not `/base/a/[.csv`; invalid range pattern; write `[*]` for a \
             plain `*`",
        ),
        (
            source("generate: {rows: 5, fail_at: 6}"),
            "p.yaml:4:32: `source.generate.fail_at` is 6, but there are only 5 rows; choose a row that comes",
        ),
        (
            source("generate: {rows_per_second: 1e3}"),
            "p.yaml:4:31: `source.generate.rows_per_second` must be a number greater than 0, not `1e3`; write digits, like `20`",
        ),
        (source("stdin:\n  generate:"), "p.yaml:5:3: `source` has both `stdin` and `generate`; a pipeline has one source; keep one"),
        (
            source("generate:\n  at_end: close"),
            "p.yaml:5:11: `source.at_end` is set, but this source never ends; remove it, or give the source an end",
        ),
    ]);
}

#[test]
fn an_unbounded_source_without_a_trigger_is_refused_with_what_to_set() {
    let text = |checkpoint: &str| {
        format!("version: 1\npipeline: p\nsource: {{generate: {{}}}}\nsinks: [{{location: t}}]\ncheckpoint: {{location: c{checkpoint}}}\n")
    };
    assert_eq!(
        refused(&text(""), &[]).lines().next().unwrap(),
        "p.yaml:5:1: the source never ends and nothing triggers a checkpoint, so no row would ever be visible; set \
         `checkpoint.every: 10s`, `checkpoint.rows` or `checkpoint.bytes`"
    );
    for trigger in [", every: 1s", ", rows: 5", ", bytes: 1MB"] {
        read(&text(trigger));
    }
    assert!(read(&with("")).checkpoint.every.is_none(), "one that ends needs none");
}

#[test]
fn watched_files_never_end_and_want_a_trigger() {
    let text = source("files: {paths: ['in/*.csv'], watch: true, watch_every: 5s, settled_after: 10m, on_change: ignore}");
    assert!(refused(&text, &["checkpoint.every=~"]).contains("nothing triggers a checkpoint"));
    let file = read_with(&text, &[]).unwrap();
    let watch = Watch { every: Duration::from_secs(5), settled_after: Duration::from_secs(600), on_change: OnChange::Ignore };
    let SourceKind::Files(files) = &file.source.kind else { panic!() };
    assert_eq!(files.watch, Some(watch));
    assert!(file.source.is_unbounded());
    let again = read_with(&file.to_yaml_masked(), &[]).unwrap();
    assert_eq!(again.source, file.source);
    assert!(refused(&text, &["source.at_end=pause"]).contains("this source never ends"));
}

#[test]
fn the_format_follows_the_file_endings() {
    let decode = |paths: &str, more: &str| {
        let text = format!("{}{more}", source(&format!("files: {{paths: [{paths}]}}")));
        read_with(&text, &[]).map(|f| f.decode)
    };
    let csv = |delimiter| Decode::Csv(CsvSpec { header: true, delimiter, quote: b'"', null: None });
    for paths in ["a.json", "a.ndjson", "'in/*.JSONL.gz'", "a.json.zst, b.ndjson"] {
        assert_eq!(decode(paths, "").unwrap(), Decode::Json, "{paths}");
    }
    assert_eq!(decode("a.csv.gz", "").unwrap(), csv(b','));
    assert_eq!(decode("'in/*.Parquet'", "").unwrap(), Decode::Parquet);
    assert_eq!(decode("'in/*'", "decode: {format: parquet}").unwrap(), Decode::Parquet);
    assert_eq!(decode("a.tsv", "").unwrap(), csv(b'\t'));
    assert_eq!(decode("a.tsv", "decode: {format: csv}").unwrap(), csv(b'\t'));
    assert_eq!(decode("a.txt, b.json", "decode: {format: csv, delimiter: ;}").unwrap(), csv(b';'));
    assert_eq!(
        decode("a.csv", "decode: {header: false, delimiter: \"\\t\", quote: \"'\", null: NULLV}").unwrap(),
        Decode::Csv(CsvSpec { header: false, delimiter: b'\t', quote: b'\'', null: Some("NULLV".to_owned()) })
    );
    refuses(&[
        (
            source("files: {paths: [a.ndjson, b.csv]}"),
            "p.yaml:4:11: `/base/a.ndjson` and `/base/b.csv` are of different formats; read them in two pipelines, or write \
             `decode: {format: ...}` if they are not",
        ),
        (
            source("files: {paths: ['in/*']}"),
            "p.yaml:4:11: the ending of `/base/in/*` does not tell its format; write `decode: {format: json}`, `csv` or `parquet`; \
             with --from, add `--set decode.format=json`",
        ),
        (
            source("files: {paths: [a.avro]}"),
            "p.yaml:4:11: `/base/a.avro`: the format avro is not supported yet; use NDJSON, CSV or Parquet",
        ),
        (
            with("decode: {header: true}"),
            "p.yaml:7:18: `decode.header` is for CSV, but the input is JSON; remove it, or write `format: csv`",
        ),
        (
            with("decode: {null: }"),
            "p.yaml:7:10: `decode.null` has no text; put it into quotes: `null: \"null\"`; an empty field is null anyway",
        ),
        (with("decode: {format: csv}"), "p.yaml:7:18: `decode.format: csv` does not fit `source.generate`; remove `decode`"),
        (
            with("decode: {delimiter: '\\t'}"),
            "p.yaml:7:21: `decode.delimiter` must be one ASCII character, not `\\t`; a tab is written \"\\t\", in double quotes",
        ),
        (
            source("stdin:\ndecode: {format: csv, delimiter: '\"'}"),
            "p.yaml:5:34: `decode.delimiter` and `decode.quote` are the same character; change one",
        ),
    ]);
}

#[test]
fn columns_keep_their_order_in_both_forms() {
    let mapping = sink(
        "columns: {z: BIGINT NOT NULL, a: {type: 'DECIMAL(10, 2)', from: x.y}, m: {type: STRING, meta: key}, d: {type: STRING, expr: date(t)}}",
    );
    let list = sink(
        "columns: [{name: z, type: BIGINT NOT NULL}, {name: a, type: 'DECIMAL(10, 2)', from: x.y}, {name: m, type: STRING, meta: key}, {name: d, type: STRING, expr: date(t)}]",
    );
    let columns = read(&mapping).sinks.remove(0).columns.unwrap();
    assert_eq!(columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["z", "a", "m", "d"]);
    assert_eq!(columns[1].type_text, "DECIMAL(10, 2)");
    assert_eq!(read(&list).sinks.remove(0).columns.unwrap(), columns);
    assert_eq!(read(&with("")).sinks[0].columns, None);
}

#[test]
fn columns_that_contradict_are_refused_where_they_stand() {
    refuses(&[
        (sink("columns: {}"), "p.yaml:6:3: `sinks.0.columns` has no column; leave `columns` out to have them inferred"),
        (sink("columns: {x: {from: y}}"), "p.yaml:6:13: the column `x` has no type; write a type like BIGINT, STRING or DECIMAL(10, 2)"),
        (sink("columns: {a: INT, a: INT}"), "p.yaml:6:21: the key `a` is given twice; the first is at p.yaml:6:13; keep one"),
        (sink("columns: [{name: a, type: INT}, {name: a, type: INT}]"), "p.yaml:6:42: the column `a` is given twice; keep one"),
        (sink("columns: [{type: INT}]"), "p.yaml:6:13: `sinks.0.columns.0.name` is missing; every column needs a name"),
        (sink("columns: {a: {type: INT, from: b, expr: c}}"), "p.yaml:6:43: the column `a` has both `from` and `expr`; keep one"),
        (sink("columns: {a: INT}\n  partition_by: [b]"), "p.yaml:7:18: `partition_by` names `b`, which is no column; did you mean `a`?"),
        (sink("partition_by: [a, a]"), "p.yaml:6:21: `partition_by` names `a` twice; keep one"),
        (
            sink("columns: {time: INT}\n  watermark: {column: tiem}"),
            "p.yaml:7:23: `watermark.column` names `tiem`, which is no column; did you mean `time`?",
        ),
        (sink("watermark: {lateness: 5s}"), "p.yaml:6:3: `sinks.0.watermark.column` is missing; name a timestamp column"),
    ]);
}

#[test]
fn one_table_twice_is_refused_however_it_is_spelled() {
    let same = "(/base/t) is the same table as `sinks.0.location` (/base/t); give each table a directory of its own";
    for spelled in ["t", "./x/../t/", "/base//t", "file:///base/t", "../base/t"] {
        let says = refused(&with(&format!("dead_letter: {{location: '{spelled}'}}")), &[]);
        assert_eq!(says.lines().next().unwrap(), format!("p.yaml:7:25: `dead_letter.location` {same}"));
    }
    refuses(&[
        (
            with("dead_letter: {location: t/dead}"),
            "p.yaml:7:25: `dead_letter.location` (/base/t/dead) lies inside of `sinks.0.location` (/base/t); give each table a directory \
             of its own",
        ),
        (
            with("dead_letter: {location: c}"),
            "p.yaml:6:24: `checkpoint.location` (/base/c) is the same place as the table `dead_letter.location` (/base/c); put checkpoints \
             beside the tables, like `_checkpoints` in the same folder",
        ),
        (
            with("dead_letter: {location: c/x}"),
            "p.yaml:6:24: `checkpoint.location` (/base/c) holds the table `dead_letter.location` (/base/c/x); put checkpoints beside the \
             tables, like `_checkpoints` in the same folder",
        ),
        (
            with("dead_letter: {location: \"s3://b/t\"}"),
            "p.yaml:6:24: `checkpoint.location` (/base/c) is on local disk, but `dead_letter.location` (s3://b/t) is not; put checkpoints \
             where the tables are: without this disk nobody could tell what was landed",
        ),
    ]);
    let remote =
        "version: 1\npipeline: p\nsource: {stdin: {}}\nsinks: [{location: s3://b/t}]\ncheckpoint: {location: s3://b/c}\ndurability: none";
    refuses(&[(remote.to_owned(), "p.yaml:6:13: `durability: none` is for local disk, and nothing is written there; remove it")]);
}

#[test]
fn one_table_twice_through_a_symlink_is_refused_naming_both() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("lake")).unwrap();
    std::os::unix::fs::symlink("lake", dir.path().join("pond")).unwrap();
    let text = "version: 1\npipeline: p\nsource: {stdin: {}}\nsinks:\n- location: lake/t\n- location: pond/t\ncheckpoint: {location: c}";
    std::fs::write(dir.path().join("p.yaml"), text).unwrap();
    let path = dir.path().join("p.yaml");
    let e = PipelineFile::load(&path, &[]).unwrap_err();
    let root = dir.path().display();
    assert_eq!(
        e.to_string(),
        format!(
            "{}:6:13: `sinks.1.location` ({root}/pond/t) is the same table as `sinks.0.location` ({root}/lake/t); give each table a directory \
             of its own\n  6 | - location: pond/t\n    |             ^^^^^^",
            path.display()
        )
    );
}

#[test]
fn a_file_that_cannot_be_read_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let load = |name: &str, bytes: Option<&[u8]>| {
        let path = dir.path().join(name);
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).unwrap();
        }
        let e = PipelineFile::load(&path, &[]).unwrap_err();
        assert_eq!(e.kind(), Kind::Invalid);
        e.to_string().replace(&format!("{}/", dir.path().display()), "")
    };
    assert_eq!(load("none.yaml", None), "none.yaml: there is no such file; give the path of a pipeline file");
    assert_eq!(load("latin.yaml", Some(b"pipeline: M\xfcller")), "latin.yaml: byte 11 is not UTF-8; save the pipeline file as UTF-8");
    let big = vec![b'#'; (1 << 20) + 1];
    assert_eq!(
        load("big.yaml", Some(&big)),
        "big.yaml: 1048577 bytes are more than a pipeline file can have; is this the data rather than the pipeline file?"
    );
    assert!(load(".", None).contains("the pipeline file cannot be read (Is a directory"));
}

#[test]
fn every_part_is_found_where_it_stands() {
    let text = "version: 1\npipeline: p\nsource: {stdin: {}}\nsinks:\n- location: t\n  columns:\n    id: BIGNIT\n    ts:\n      type: INT\n  checks:\n  - a > 0\ncheckpoint: {location: c}\n";
    let file = read(text);
    for (path, place) in [
        ("sinks.0.columns.id", "p.yaml:7:9"),
        ("sinks.0.columns.id.type", "p.yaml:7:9"),
        ("sinks.0.columns.ts", "p.yaml:8:5"),
        ("sinks.0.columns.ts.type", "p.yaml:9:13"),
        ("sinks.0.checks.0", "p.yaml:11:5"),
        ("sinks.0.watermark.column", "p.yaml:5:3"),
    ] {
        assert_eq!(file.place(path).as_deref(), Some(place), "{path}");
    }
    assert_eq!(file.place("metrics"), None);
    let e = file.locate("sinks.0.columns.id", crate::Error::invalid("no such type").hint("did you mean BIGINT?"));
    assert_eq!(e.to_string(), "p.yaml:7:9: no such type; did you mean BIGINT?\n  7 |     id: BIGNIT\n    |         ^^^^^^");
    let list = read(&sink("columns: [{name: a, type: INT}]"));
    assert_eq!(list.place("sinks.0.columns.a.type").as_deref(), Some("p.yaml:6:29"));
}

#[test]
fn defaults_are_those_of_the_manual() {
    let file = read(&with(""));
    assert_eq!((file.checkpoint.keep, file.commit.timeout, file.memory), (10, Duration::from_secs(300), 512 << 20));
    assert_eq!((file.durability, file.commit.empty, file.source.at_end), (Durability::Fsync, false, AtEnd::Close));
    assert_eq!(file.threads, std::thread::available_parallelism().unwrap().get());
    assert_eq!((file.sinks[0].location.as_str(), file.checkpoint.location.as_str()), ("/base/t", "/base/c"));
}

#[test]
fn what_is_shown_reads_back_as_the_same_pipeline() {
    let text = "version: 1\npipeline: p\nsource:\n  files: {paths: ['../in/*.csv', '/x y/b.csv']}\n  at_end: pause\ndecode: {quote: \"'\", null: 'null'}\nsinks:\n\
                - location: 'a $$b/#t: x'\n  columns: {id: BIGINT NOT NULL, 'true': {type: 'DECIMAL(10, 2)', from: a.b}, y: {type: STRING, meta: header.x}}\n  \
                checks: [\"id >= 0 and y in ('a', '#b')\"]\n  partition_by: ['true']\n  options: {a.b: 'yes', c: 007}\n  watermark: {column: id, lateness: 90s}\n\
                dead_letter: {location: s3://b/dead}\ncheckpoint: {location: s3://b/c, every: 1500ms, rows: 5, bytes: 1KiB, keep: 3}\ndurability: none\nthreads: 3\n";
    let file = read(text);
    let shown = file.to_yaml_masked();
    let again =
        PipelineFile::parse(&shown, "shown.yaml", Path::new("/elsewhere"), &[], &|_| None).unwrap_or_else(|e| panic!("{e}\n{shown}"));
    assert_eq!(again.to_yaml_masked(), shown);
    assert_eq!((again.sinks, again.source, again.decode, again.checkpoint), (file.sinks, file.source, file.decode, file.checkpoint));
    assert_eq!((again.commit, again.durability, again.dead_letter), (file.commit, file.durability, file.dead_letter));
}

#[test]
fn a_command_line_makes_the_same_kind_of_pipeline() {
    let make = |from: &[&str], to: &str, set: &[&str]| {
        let own = |texts: &[&str]| texts.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
        PipelineFile::for_command(&own(from), to, Path::new("/base"), &own(set), &env)
    };
    let file = make(&["in/*.csv", "/x/$y.csv"], "lake/shop.db/orders/", &["checkpoint.rows=100"]).unwrap();
    assert_eq!((file.pipeline.as_str(), file.sinks[0].location.as_str()), ("orders", "/base/lake/shop.db/orders"));
    assert_eq!(file.checkpoint.location, "/base/lake/shop.db/_checkpoints");
    assert_eq!(file.checkpoint.rows, Some(100));
    assert_eq!(
        file.source.kind,
        SourceKind::Files(FilesSource { paths: vec!["/base/in/*.csv".to_owned(), "/x/$y.csv".to_owned()], watch: None })
    );
    assert!(matches!(file.decode, Decode::Csv(_)));
    assert_eq!(make(&["-"], "s3://b/lake/T", &[]).unwrap().source.kind, SourceKind::Stdin);
    let (upper, lower) = (make(&["-"], "s3://b/lake/T", &[]).unwrap(), make(&["-"], "s3://b/lake/t", &[]).unwrap());
    assert_eq!(lower.pipeline, "t");
    assert!(upper.pipeline.starts_with("t-") && upper.pipeline.len() == 10, "{}: two tables, two chains", upper.pipeline);
    assert!(make(&["-"], "lake/寿司", &[]).unwrap().pipeline.len() == 8);
    assert_eq!(make(&[], "x", &[]).unwrap_err().to_string(), "`--from` names no file; give at least one path, or `-` for standard input");
    assert_eq!(
        make(&["a.csv"], "/", &[]).unwrap_err().to_string(),
        "--to: `/` has no last part to name the table; give a directory below it"
    );
    assert_eq!(
        make(&["a.txt"], "t", &[]).unwrap_err().to_string(),
        "--from, --to: the ending of `/base/a.txt` does not tell its format; write `decode: {format: json}`, `csv` or `parquet`; \
             with --from, add `--set decode.format=json`"
    );
}

#[test]
fn a_file_without_a_folder_lies_in_the_current_one() {
    let file = PipelineFile::parse(&with(""), "p.yaml", Path::new(""), &[], &env).unwrap();
    let here = std::env::current_dir().unwrap();
    assert_eq!((Path::new(&file.sinks[0].location), file.base_dir()), (here.join("t").as_path(), here.as_path()));
}

#[test]
fn a_folder_name_is_no_glob() {
    let file = PipelineFile::parse(&source("files: {paths: ['../in/*.csv']}"), "p.yaml", Path::new("/a[1]/b"), &[], &env).unwrap();
    let SourceKind::Files(files) = file.source.kind else { panic!() };
    assert!(glob::Pattern::new(&files.paths[0]).unwrap().matches("/a[1]/in/x.csv"), "{:?}", files.paths);
}

#[test]
fn the_fixtures_are_valid() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pipelines");
    let mut found = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let file = PipelineFile::load(&entry.unwrap().path(), &[]).unwrap();
        let lake = Path::new(env!("CARGO_MANIFEST_DIR")).join("lake/shop.db");
        assert!(file.sinks.iter().all(|s| Path::new(&s.location).starts_with(&lake)), "{file:?}");
        found += 1;
    }
    assert_eq!(found, 5);
}

mod any_text {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gives_an_answer(text in "\\PC*", set in "\\PC{0,30}") {
            let _ = read_with(&text, &[]);
            let _ = read_with(&with(""), &[&set]);
        }
        #[test]
        fn that_looks_like_yaml_gives_an_answer(text in "([a-z]{1,3}|[-:{}\\[\\],&*!|>'\"%@#?$~ \t\n]|\\$\\{X\\}|é|\u{10ffff}){0,60}") {
            let _ = read_with(&text, &[]);
            let _ = read_with(&with(&text), &[]);
            let _ = read_with(&with(""), &[&format!("sinks.0.columns={text}"), &format!("{text}=5")]);
        }
        #[test]
        fn with_one_damaged_byte_gives_an_answer(at in 0_usize..2000, c in any::<char>()) {
            let good = include_str!("../../fixtures/pipelines/orders.yaml");
            let broken: String = good.chars().enumerate().map(|(i, old)| if i == at % good.chars().count() { c } else { old }).collect();
            let _ = read_with(&broken, &[]);
        }
    }
}
