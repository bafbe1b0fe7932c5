//! Which keys a pipeline file may have, and where: for unknown keys, and for the paths of `--set`.

use super::yaml::{Entry, Mark, Node, Texts, Value, parse_set};
use crate::error::{Error, Result};
use crate::text::near::distance;

/// What may stand at a place.
pub(super) enum Shape {
    /// One value.
    Value,
    /// These keys.
    Map(&'static [(&'static str, Shape)]),
    /// Any number of these.
    List(&'static Shape),
    /// Any keys, each with this; a key of values may hold dots.
    Free(&'static Shape),
    /// One value, or this.
    Or(&'static Shape),
    /// Columns by name, or a list of them.
    Columns,
}

use Shape::{Columns, Free, List, Map, Or, Value as V};

const KAFKA: Shape = Map(&[
    ("bootstrap_servers", V),
    ("topics", List(&V)),
    ("topic_pattern", V),
    ("start", Or(&Map(&[("group", V), ("timestamp", V), ("offsets", Free(&Free(&V)))]))),
    ("stop", Or(&Map(&[("timestamp", V), ("offsets", Free(&Free(&V)))]))),
    ("on_data_loss", V),
    ("idle_after", V),
    ("properties", Free(&Or(&Map(&[("file", V)])))),
]);
const SOURCE: Shape = Map(&[
    ("kafka", KAFKA),
    ("files", Map(&[("paths", List(&V)), ("watch", V), ("watch_every", V), ("settled_after", V), ("on_change", V)])),
    ("stdin", Map(&[])),
    ("generate", Map(&[("rows", V), ("rows_per_second", V), ("fail_at", V)])),
    ("at_end", V),
]);
const COLUMN: Shape = Or(&Map(&[("type", V), ("from", V), ("meta", V), ("expr", V), ("unit", V)]));
const COLUMN_ITEM: Shape = Map(&[("name", V), ("type", V), ("from", V), ("meta", V), ("expr", V), ("unit", V)]);
const SINK: Shape = Map(&[
    ("location", V),
    ("format", V),
    ("columns", Columns),
    ("checks", List(&V)),
    ("partition_by", List(&V)),
    ("on_new_field", V),
    ("options", Free(&V)),
    ("watermark", Map(&[("column", V), ("lateness", V)])),
]);
/// The whole file.
pub(super) const FILE: Shape = Map(&[
    ("version", V),
    ("pipeline", V),
    ("source", SOURCE),
    ("decode", Map(&[("format", V), ("header", V), ("delimiter", V), ("quote", V), ("null", V)])),
    ("sinks", List(&SINK)),
    ("dead_letter", Map(&[("location", V), ("format", V)])),
    ("checkpoint", Map(&[("location", V), ("every", V), ("rows", V), ("bytes", V), ("keep", V)])),
    ("commit", Map(&[("empty", V), ("timeout", V)])),
    ("durability", V),
    ("memory", V),
    ("threads", V),
    ("metrics", V),
    ("watchdog", Or(&Map(&[("intervals", V), ("exit", V)]))),
]);

/// Refuses unknown keys, and mappings, lists and values where another of them belongs. What is null is left out and not looked at.
pub(super) fn check(texts: &Texts, node: &Node, shape: &Shape, path: &str) -> Result<()> {
    if node.is_null() {
        return Ok(());
    }
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (shape, &node.value) {
        (V | Or(_), Value::Scalar { .. }) => Ok(()),
        (Or(inner), _) => check(texts, node, inner, path),
        (Map(keys), Value::Map(entries)) => entries.iter().try_for_each(|e| match keys.iter().find(|(name, _)| *name == e.key) {
            Some((name, inner)) => check(texts, &e.node, inner, &below(name)),
            None => Err(texts.error(e.key_mark, unknown_key(&e.key, path), nearest_key(&e.key, keys))),
        }),
        (Free(inner), Value::Map(entries)) => entries.iter().try_for_each(|e| check(texts, &e.node, inner, &below(&e.key))),
        (Columns, Value::Map(entries)) => entries.iter().try_for_each(|e| check(texts, &e.node, &COLUMN, &below(&e.key))),
        (List(inner), Value::List(items)) => {
            items.iter().enumerate().try_for_each(|(i, item)| check(texts, item, inner, &below(&i.to_string())))
        }
        (Columns, Value::List(items)) => {
            items.iter().enumerate().try_for_each(|(i, item)| check(texts, item, &COLUMN_ITEM, &below(&i.to_string())))
        }
        _ => Err(wrong_kind(texts, node, shape, path)),
    }
}

fn wrong_kind(texts: &Texts, node: &Node, shape: &Shape, path: &str) -> Error {
    let is = match &node.value {
        Value::Scalar { .. } => "one value",
        Value::List(_) => "a list",
        Value::Map(_) => "a mapping",
    };
    let (wants, hint) = match shape {
        V => ("one value", "write one, without brackets, braces or dashes".to_owned()),
        Map([]) => ("a mapping", "nothing can be set here; write `{}`".to_owned()),
        Map(keys) | Or(Map(keys)) => ("a mapping", format!("its keys are {}", names(keys))),
        List(V) => ("a list", "write `[one, two]`, or one `- ` line for each".to_owned()),
        List(_) => ("a list", "write one `- ` for each".to_owned()),
        Columns => ("a mapping of columns", "write `name: TYPE`, or a list of `{name: ..., type: ...}`".to_owned()),
        Free(_) | Or(_) => ("a mapping", "write `key: value`".to_owned()),
    };
    let subject = if path.is_empty() { "the pipeline file".to_owned() } else { format!("`{path}`") };
    texts.error(node.mark, format!("{subject} is {is}, but must be {wants}"), hint)
}

fn unknown_key(key: &str, path: &str) -> String {
    if path.is_empty() { format!("unknown key `{key}`") } else { format!("unknown key `{key}` in `{path}`") }
}

fn names(keys: &[(&str, Shape)]) -> String {
    keys.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

fn nearest_key(key: &str, keys: &'static [(&'static str, Shape)]) -> String {
    if let Some(near) = nearest(key, keys.iter().map(|(name, _)| *name)) {
        return format!("did you mean `{near}`?");
    }
    match home(key, &FILE, "") {
        Some(home) => format!("`{key}` belongs in `{home}`"),
        None if keys.is_empty() => "nothing can be set here; write `{}`".to_owned(),
        None => format!("known here: {}", names(keys)),
    }
}

/// Where else in the file this key belongs.
fn home(key: &str, shape: &'static Shape, path: &str) -> Option<String> {
    match shape {
        Map(keys) if !path.is_empty() && keys.iter().any(|(name, _)| *name == key) => Some(path.to_owned()),
        Map(keys) => keys
            .iter()
            .find_map(|(name, inner)| home(key, inner, &if path.is_empty() { (*name).to_owned() } else { format!("{path}.{name}") })),
        List(inner) => home(key, inner, path),
        _ => None,
    }
}

/// The candidate that is nearest to what was written, if one is near enough to be what was meant.
pub(super) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let near = candidates.into_iter().map(|c| (distance(&word, &c.to_lowercase()), c)).filter(|(d, _)| *d <= allowed);
    near.min_by_key(|(d, _)| *d).map(|(_, c)| c)
}

/// Applies `--set PATH=VALUE` number `index`.
pub(super) fn set(texts: &Texts, root: &mut Node, index: usize) -> Result<()> {
    let text = texts.sets.get(index).map(String::as_str).unwrap_or_default();
    let Some((path, value)) = text.split_once('=').filter(|(path, _)| !path.is_empty()) else {
        let e = Error::invalid("`--set` needs PATH=VALUE").hint("for example `--set sinks.0.format=paimon`");
        return Err(e.at(format!("--set {text}")));
    };
    let value = parse_set(texts, index, value)?;
    let target = target(texts, root, &FILE, path, "", value.mark)?;
    *target = value;
    Ok(())
}

/// The node at `path`, made when it is not there yet.
fn target<'a>(texts: &Texts, node: &'a mut Node, shape: &'static Shape, path: &str, done: &str, mark: Mark) -> Result<&'a mut Node> {
    if path.is_empty() && !done.is_empty() {
        return Ok(node);
    }
    let (head, tail) = path.split_once('.').unwrap_or((path, ""));
    let below = if done.is_empty() { head.to_owned() } else { format!("{done}.{head}") };
    match shape {
        Map(keys) | Or(Map(keys)) => match keys.iter().find(|(name, _)| *name == head) {
            Some((_, inner)) => target(texts, child(node, head, mark, tail.is_empty())?, inner, tail, &below, mark),
            None => Err(texts.error(mark, unknown_key(head, done), nearest_key(head, keys))),
        },
        List(inner) => target(texts, item(texts, node, head, done, mark)?, inner, tail, &below, mark),
        Columns if matches!(node.value, Value::List(_)) => {
            let at = column_index(node, head).map(|i| i.to_string());
            target(texts, item(texts, node, at.as_deref().unwrap_or(head), done, mark)?, &COLUMN_ITEM, tail, &below, mark)
        }
        Columns => {
            let column = child(node, head, mark, tail.is_empty())?;
            if !tail.is_empty() && matches!(column.value, Value::Scalar { .. }) && !column.is_null() {
                *column = Node::map(vec![("type", column.clone())], mark); // `name: TYPE` is short for `name: {type: TYPE}`
            }
            target(texts, column, &COLUMN, tail, &below, mark)
        }
        Free(V) => child(node, path, mark, true),
        Free(inner @ Or(_)) => {
            // The key holds dots, too; only `.file` at its end is a step down.
            let (key, tail) = path.strip_suffix(".file").map_or((path, ""), |key| (key, "file"));
            target(texts, child(node, key, mark, tail.is_empty())?, inner, tail, &format!("{done}.{key}"), mark)
        }
        Free(inner) => target(texts, child(node, head, mark, tail.is_empty())?, inner, tail, &below, mark),
        V | Or(_) => {
            Err(texts.error(mark, format!("`{done}` is one value and has nothing called `{head}`"), format!("write `--set {done}=...`")))
        }
    }
}

/// The entry of a mapping, made when it is not there yet; `last`: it is the one that is set, so that it now stands at `mark`.
fn child<'a>(node: &'a mut Node, key: &str, mark: Mark, last: bool) -> Result<&'a mut Node> {
    if !matches!(node.value, Value::Map(_)) {
        *node = Node::map(Vec::new(), mark);
    }
    let Value::Map(entries) = &mut node.value else { return Err(Error::internal("a mapping is none")) };
    let at = entries.iter().position(|e| e.key == key).unwrap_or_else(|| {
        entries.push(Entry { key: key.to_owned(), key_mark: mark, node: Node::plain("", mark) });
        entries.len() - 1
    });
    if last {
        entries[at].key_mark = mark;
    }
    Ok(&mut entries[at].node)
}

fn item<'a>(texts: &Texts, node: &'a mut Node, head: &str, done: &str, mark: Mark) -> Result<&'a mut Node> {
    let len = match &node.value {
        Value::List(items) => items.len(),
        _ => 0,
    };
    match (&mut node.value, head.parse::<usize>()) {
        (Value::List(items), Ok(i)) if i < len => Ok(&mut items[i]),
        _ => {
            let hint = match len {
                0 => format!("set the whole list: `--set '{done}=[...]'`"),
                1 => format!("it has one entry, `{done}.0`"),
                _ => format!("it has {len} entries, `{done}.0` to `{done}.{}`", len - 1),
            };
            Err(texts.error(mark, format!("`{done}` has no entry `{head}`"), hint))
        }
    }
}

fn column_index(node: &Node, name: &str) -> Option<usize> {
    let Value::List(items) = &node.value else { return None };
    items.iter().position(|item| {
        let Value::Map(entries) = &item.value else { return false };
        entries.iter().any(|e| e.key == "name" && matches!(&e.node.value, Value::Scalar { text, .. } if text == name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(shape: &Shape, out: &mut Vec<&'static str>) {
        match shape {
            Map(entries) => entries.iter().for_each(|(name, inner)| {
                out.push(name);
                keys(inner, out);
            }),
            List(inner) | Or(inner) | Free(inner) => keys(inner, out),
            Columns => keys(&COLUMN, out),
            V => {}
        }
    }

    #[test]
    fn every_key_of_a_pipeline_file_is_on_its_page() {
        let page = include_str!("../../spec/pipeline.md");
        let mut all = Vec::new();
        keys(&FILE, &mut all);
        let words: std::collections::HashSet<&str> = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let missing: Vec<_> = all.into_iter().filter(|key| !words.contains(key)).collect();
        assert!(missing.is_empty(), "not in spec/pipeline.md: {missing:?}");
    }
}
