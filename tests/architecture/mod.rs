//! The folder tree is the architecture: a module uses those above it in this list, and nothing below.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Top to bottom. A module may use those before it.
const LAYERS: [&str; 19] = [
    "error",
    "env",
    "store",
    "publish",
    "schema",
    "text",
    "condition",
    "datafile",
    "format",
    "table",
    "maintain",
    "source",
    "decode",
    "sink",
    "stream",
    "pipeline",
    "cli",
    "sim",
    "bin",
];

/// Edges that go down on purpose.
const ALLOWED: [(&str, &str); 4] = [
    // The values of `format` (CommitMessage, DataFile, ...) are what a data file writer makes; `format` holds their meaning.
    ("datafile", "format"),
    // The values of a sink (SinkCommit, Registration, ...) are what a table is asked for.
    ("table", "sink"),
    // A trait method of `Store::create` is for `publish` alone; the crash disk of tests needs nothing below.
    ("store", "publish"),
    ("env", "error"),
];

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn all() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let module = |path: &Path| {
        let first = path.strip_prefix(&root).unwrap().components().next().unwrap();
        first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
    };
    files.into_iter().map(|p| (module(&p), p.clone(), fs::read_to_string(&p).unwrap())).filter(|(m, _, _)| m != "lib").collect()
}

/// Names after `crate::`, also inside `crate::{a, b}`.
fn uses(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        let rest = &text[at + "crate::".len()..];
        let word = |s: &str| s.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect::<String>();
        match rest.strip_prefix('{') {
            Some(list) => {
                let list = &list[..list.find('}').unwrap_or(0)];
                found.extend(list.split(',').map(|part| word(part.trim())));
            }
            None => drop(found.insert(word(rest))),
        }
    }
    found.remove("");
    found
}

#[test]
fn no_module_uses_one_below_it() {
    let rank = |name: &str| LAYERS.iter().position(|l| *l == name);
    let mut wrong = Vec::new();
    for (module, path, text) in all() {
        let own = rank(&module).unwrap_or_else(|| panic!("src/{module} is not in the list of layers"));
        // Tests of a file may look anywhere.
        if path.file_name().is_some_and(|n| n == "tests.rs" || n == "testing.rs") {
            continue;
        }
        let production = text.split("#[cfg(test)]").next().unwrap();
        for used in uses(production) {
            let Some(other) = rank(&used) else { continue };
            if other > own && !ALLOWED.contains(&(module.as_str(), used.as_str())) {
                wrong.push(format!("{} uses crate::{used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "these edges go down:\n{}", wrong.join("\n"));
}

#[test]
fn publish_is_called_by_the_commit_loop_the_chain_checkpoints_and_schema_changes_only() {
    let callers: BTreeSet<String> = all()
        .into_iter()
        .filter(|(module, _, text)| module != "publish" && text.contains("publish::{"))
        .chain(all().into_iter().filter(|(module, _, text)| module != "publish" && text.contains("publish::publish")))
        .filter(|(_, path, _)| path.file_name().is_none_or(|name| name != "tests.rs"))
        .map(|(_, path, _)| path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap().display().to_string())
        .collect();
    let allowed = [
        "table/commit.rs",
        "table/anchor.rs",
        "stream/ledger.rs",
        "format/paimon/log.rs",
        "format/paimon/create.rs",
        "format/delta/log/create.rs",
        "format/delta/checkpoint/write.rs",
    ];
    let others: Vec<&String> = callers.iter().filter(|c| !allowed.contains(&c.as_str())).collect();
    assert!(others.is_empty(), "publish is called from {others:?}");
    assert!(callers.iter().any(|c| c == "table/commit.rs") && callers.iter().any(|c| c == "stream/ledger.rs"));
}

#[test]
fn files_stay_near_five_hundred_lines_without_their_tests() {
    for (_, path, text) in all() {
        if path.file_name().is_some_and(|n| n == "tests.rs") {
            continue;
        }
        let lines = text.split("\n#[cfg(test)]").next().unwrap().lines().count();
        assert!(lines <= 640, "{} has {lines} lines; split it by meaning", path.display());
    }
}

#[test]
fn unsafe_code_is_in_one_file_and_each_block_says_why_it_holds() {
    // In two parts, so that this file is none that it finds.
    let (word, why) = (["un", "safe"].concat(), "// SAFETY:");
    let raw = Path::new("src/source/kafka/raw.rs");
    let mut files = Vec::new();
    for dir in ["src", "tests", "examples", "benches"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut files);
    }
    for path in files.iter().filter(|path| !path.ends_with("tests/architecture/mod.rs")) {
        let text = fs::read_to_string(path).unwrap();
        let code = |line: &&str| !line.trim_start().starts_with("//") && !line.trim_start().starts_with('#');
        let words = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word);
        let blocks: Vec<&str> = text.lines().filter(code).filter(|line| words(line)).collect();
        assert!(blocks.is_empty() || path.ends_with(raw), "{}: {blocks:?}", path.display());
        let needed = blocks.iter().filter(|line| !line.contains(" fn ")).count();
        assert!(text.matches(why).count() >= needed, "{}: a block does not say why it holds", path.display());
    }
}
