//! A place in the tree, with readers for every kind of value; their errors say where, and what is right.

use std::path::Path;
use std::time::Duration;

use super::file::Properties;
use super::location;
use super::shape::nearest;
use super::units::{parse_duration, parse_size};
use super::yaml::{Mark, Node, Texts, Value, names_secret};
use crate::error::{Error, Result};

/// A node, or the absence of one, with its path.
pub(super) struct At<'a> {
    pub(super) texts: &'a Texts,
    pub(super) node: Option<&'a Node>,
    /// Of the node; of the nearest thing above it when it is absent.
    pub(super) mark: Mark,
    pub(super) path: String,
}

impl<'a> At<'a> {
    pub(super) fn get(&self, key: &str) -> At<'a> {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        let entry = match self.node.map(|n| &n.value) {
            Some(Value::Map(entries)) => entries.iter().find(|e| e.key == key),
            _ => None,
        };
        match entry {
            Some(e) if e.node.is_null() => At { texts: self.texts, node: None, mark: e.key_mark, path },
            Some(e) if matches!(e.node.value, Value::Scalar { .. }) => {
                At { texts: self.texts, node: Some(&e.node), mark: e.node.mark, path }
            }
            Some(e) => At { texts: self.texts, node: Some(&e.node), mark: e.key_mark, path },
            None => At { texts: self.texts, node: None, mark: self.mark, path },
        }
    }
    pub(super) fn given(&self) -> bool {
        self.node.is_some()
    }
    /// Is the key written, be it without a value?
    pub(super) fn has(&self, key: &str) -> bool {
        matches!(self.node.map(|n| &n.value), Some(Value::Map(entries)) if entries.iter().any(|e| e.key == key))
    }
    pub(super) fn entries(&self) -> Vec<(&'a str, At<'a>)> {
        match self.node.map(|n| &n.value) {
            Some(Value::Map(entries)) => entries.iter().map(|e| (e.key.as_str(), self.get(&e.key))).collect(),
            _ => Vec::new(),
        }
    }
    pub(super) fn items(&self) -> Vec<At<'a>> {
        let Some(Value::List(items)) = self.node.map(|n| &n.value) else { return Vec::new() };
        let item = |(i, node): (usize, &'a Node)| At {
            texts: self.texts,
            node: Some(node).filter(|n| !n.is_null()),
            mark: node.mark,
            path: format!("{}.{i}", self.path),
        };
        items.iter().enumerate().map(item).collect()
    }
    pub(super) fn fail(&self, what: impl Into<String>, hint: impl Into<String>) -> Error {
        self.texts.error(self.mark, what, hint)
    }
    pub(super) fn is_secret(&self) -> bool {
        let from_env = matches!(self.node.map(|n| &n.value), Some(Value::Scalar { env: Some(env), .. }) if names_secret(env));
        from_env || names_secret(&self.path)
    }
    /// A value that is not what it must be; `wants` finishes "must be".
    pub(super) fn wrong(&self, text: &str, wants: &str, hint: impl Into<String>) -> Error {
        let shown = if self.is_secret() { "***" } else { text };
        self.fail(format!("`{}` must be {wants}, not `{}`", self.path, cut(shown)), hint)
    }
    /// The outcome of a reader that knows nothing of places.
    pub(super) fn placed<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|e| match self.is_secret() {
            true => self.fail(format!("`{}` has a value that does not fit", self.path), "correct it"),
            false => {
                let hint = e.next_step().unwrap_or("correct it").to_owned();
                self.fail(format!("`{}`: {}", self.path, e.message()), hint)
            }
        })
    }
    pub(super) fn required(&self, hint: &str) -> Result<&'a str> {
        self.text().ok_or_else(|| self.missing(hint))
    }
    pub(super) fn missing(&self, hint: &str) -> Error {
        self.fail(format!("`{}` is missing", self.path), hint)
    }
    pub(super) fn text(&self) -> Option<&'a str> {
        match self.node.map(|n| &n.value) {
            Some(Value::Scalar { text, .. }) => Some(text),
            _ => None,
        }
    }
    /// The text of a number or a truth value: plain, or put in by an environment variable (inside {} these must be quoted).
    pub(super) fn bare(&self, wants: &str) -> Result<Option<&'a str>> {
        match self.node.map(|n| &n.value) {
            Some(Value::Scalar { plain: false, env: None, .. }) => {
                Err(self.fail(format!("`{}` must be {wants}, not a text in quotes", self.path), "leave the quotes out"))
            }
            _ => Ok(self.text()),
        }
    }
    pub(super) fn whole(&self) -> Result<Option<u64>> {
        let wants = "a whole number";
        let Some(text) = self.bare(wants)? else { return Ok(None) };
        match text.parse::<u64>() {
            Ok(n) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(Some(n)),
            _ => Err(self.wrong(text, wants, "write digits only, like `1000`")),
        }
    }
    pub(super) fn positive(&self) -> Result<Option<u64>> {
        match self.whole()? {
            Some(0) => Err(self.fail(format!("`{}` must be at least 1", self.path), "write more, or leave it out")),
            other => Ok(other),
        }
    }
    pub(super) fn truth(&self) -> Result<Option<bool>> {
        let wants = "true or false";
        Ok(match self.bare(wants)? {
            None => None,
            Some("true" | "True" | "TRUE") => Some(true),
            Some("false" | "False" | "FALSE") => Some(false),
            Some(other) => return Err(self.wrong(other, wants, "write `true` or `false`")),
        })
    }
    pub(super) fn duration(&self) -> Result<Option<Duration>> {
        self.text().map(|text| self.placed(parse_duration(text))).transpose()
    }
    pub(super) fn some_time(&self) -> Result<Option<Duration>> {
        match self.duration()? {
            Some(Duration::ZERO) => Err(self.fail(format!("`{}` must be longer than 0", self.path), "write more, or leave it out")),
            other => Ok(other),
        }
    }
    pub(super) fn size(&self) -> Result<Option<u64>> {
        self.text().map(|text| self.placed(parse_size(text))).transpose()
    }
    /// One of a few words. `later` are words that are right but not supported yet.
    pub(super) fn word<T: Copy>(&self, known: &[(&str, T)], later: &[&str]) -> Result<Option<T>> {
        let Some(text) = self.text() else { return Ok(None) };
        if let Some((_, value)) = known.iter().find(|(name, _)| *name == text) {
            return Ok(Some(*value));
        }
        let names = known.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        if later.contains(&text) {
            return Err(self.fail(format!("`{}: {text}` is not supported yet", self.path), format!("supported: {names}")));
        }
        let all = known.iter().map(|(name, _)| *name).chain(later.iter().copied());
        let hint = match nearest(text, all) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("choose one of {names}"),
        };
        Err(self.fail(format!("`{text}` is not known as `{}`", self.path), hint))
    }
    pub(super) fn texts(&self) -> Result<Vec<String>> {
        self.items().iter().map(|item| item.required("write a text").map(str::to_owned)).collect()
    }
    pub(super) fn properties(&self) -> Properties {
        let mut out = Properties::default();
        for (key, at) in self.entries() {
            if let Some(Node { value: Value::Scalar { text, env, .. }, .. }) = at.node {
                out.entries.insert(key.to_owned(), text.clone());
                out.from_env.extend(env.iter().map(|_| key.to_owned()));
            }
        }
        out
    }
    pub(super) fn location(&self, base: &Path) -> Result<String> {
        let text = self.required("write a path, or s3://, gs:// or az:// with bucket and path")?;
        if let Some((open, close)) = text.find('{').and_then(|open| Some((open, open + text[open..].find('}')?))) {
            let template = &text[open..=close];
            let known = template == "{topic}" || template.starts_with("{field.");
            let what = if known { "is not supported yet" } else { "is no template" };
            return Err(
                self.fail(format!("`{}`: `{template}` in a location {what}", self.path), "write the location out, one sink for each")
            );
        }
        self.placed(location::absolute(text, base))
    }
    /// RFC 3339, as milliseconds since 1970-01-01 UTC.
    pub(super) fn moment(&self) -> Result<i64> {
        let text = self.required("write a moment, like \"2026-01-01T00:00:00Z\"")?;
        let parsed = chrono::DateTime::parse_from_rfc3339(text);
        parsed
            .map(|t| t.timestamp_millis())
            .map_err(|_| self.wrong(text, "a moment with its zone", "write it like \"2026-01-01T00:00:00Z\""))
    }
}

fn cut(text: &str) -> String {
    let line: String = text.chars().take(60).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > 60 { format!("{line}...") } else { line }
}
