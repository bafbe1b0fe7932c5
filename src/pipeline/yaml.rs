//! A YAML text as a small tree that knows where each node stands, with environment variables and `--set` applied.
//!
//! The typed readers need to know whether a scalar was plain or quoted and where every key stands, also long after parsing; that is why
//! the tree is built from parser events rather than deserialised into types.

use serde_saphyr::granit_parser::{self, Event, Marker, Parser, ScalarStyle, Span};

use crate::error::{Error, Result};

/// Enough for any pipeline file; what is beyond is an attack or a mistake (an alias bomb, a data file).
const MAX_NODES: usize = 50_000;
const MAX_DEPTH: usize = 32;
/// The greatest pipeline file, bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;

/// Where a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// 0: the file; n: the n-th `--set`.
    pub(super) set: usize,
    /// From 1.
    pub(super) line: usize,
    /// From 1, in characters.
    pub(super) col: usize,
    /// Characters to underline; at least 1.
    pub(super) len: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    pub(super) mark: Mark,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// `env`: the text before environment variables were put in, when there were some.
    Scalar {
        text: String,
        plain: bool,
        env: Option<String>,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_mark: Mark,
    pub(super) node: Node,
}

impl Node {
    /// Nothing, `~` or `null`: the same as left out.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true, .. } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }
    pub(super) fn plain(text: impl Into<String>, mark: Mark) -> Node {
        Node { value: Value::Scalar { text: text.into(), plain: true, env: None }, mark }
    }
    pub(super) fn quoted(text: impl Into<String>, mark: Mark) -> Node {
        Node { value: Value::Scalar { text: text.into(), plain: false, env: None }, mark }
    }
    pub(super) fn map(entries: Vec<(&str, Node)>, mark: Mark) -> Node {
        let entries = entries.into_iter().map(|(key, node)| Entry { key: key.to_owned(), key_mark: mark, node });
        Node { value: Value::Map(entries.collect()), mark }
    }
}

/// The texts that the nodes stand in; makes errors with place, line and caret.
#[derive(Clone, Default)]
pub(super) struct Texts {
    pub(super) file: String,
    pub(super) text: String,
    pub(super) sets: Vec<String>,
}

/// Not the text: it may hold secrets.
impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)
    }
}

impl Texts {
    /// `file:line:col`, or `--set PATH`.
    pub(super) fn place(&self, mark: Mark) -> String {
        match mark.set.checked_sub(1).and_then(|i| self.sets.get(i)) {
            Some(set) => format!("--set {}", set.split('=').next().unwrap_or(set)),
            None if mark.line == 0 => self.file.clone(),
            None => format!("{}:{}:{}", self.file, mark.line, mark.col),
        }
    }
    /// An `Invalid` at `mark`, with the source line and a caret after the hint.
    pub(super) fn error(&self, mark: Mark, what: impl Into<String>, hint: impl Into<String>) -> Error {
        self.locate(mark, Error::invalid(what).hint(hint))
    }
    /// Adds place, source line and caret to an error.
    pub(super) fn locate(&self, mark: Mark, error: Error) -> Error {
        let snippet = self.snippet(mark);
        let hint = match error.next_step() {
            Some(hint) => format!("{hint}{snippet}"),
            None => format!("correct it{snippet}"),
        };
        error.hint(hint).at(self.place(mark))
    }
    /// Adds the place of a key, with its line up to the key and a caret: what stands behind is not shown.
    pub(super) fn locate_key(&self, key: Mark, error: Error) -> Error {
        let line = self.text.lines().nth(key.line.wrapping_sub(1)).filter(|_| key.set == 0).unwrap_or_default();
        let split = |at: usize| line.char_indices().nth(at).map_or(line.len(), |(i, _)| i);
        let (start, end) = (split(key.col.saturating_sub(1)), split(key.col.saturating_sub(1) + key.len));
        let hint = error.next_step().unwrap_or("correct it").to_owned();
        let shown = match line.is_empty() || shows_secret(&line[..start]) {
            true => String::new(),
            false => self.drawn(&format!("{}: ...", &line[..end]), key),
        };
        error.hint(format!("{hint}{shown}")).at(self.place(key))
    }
    fn snippet(&self, mark: Mark) -> String {
        let line = self.text.lines().nth(mark.line.wrapping_sub(1));
        match line.filter(|line| mark.set == 0 && !shows_secret(line)) {
            Some(line) => self.drawn(line, mark),
            None => String::new(),
        }
    }
    fn drawn(&self, line: &str, mark: Mark) -> String {
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        // A long line is cut so that the caret stays in view.
        let skip = if mark.col > 100 { mark.col - 60 } else { 0 };
        let part: String = line.chars().skip(skip).take(140).map(shown).collect();
        let room = part.chars().count().saturating_sub(mark.col - 1 - skip).max(1);
        let number = mark.line.to_string();
        let caret = format!("{}{}", " ".repeat(mark.col - 1 - skip), "^".repeat(mark.len.clamp(1, room)));
        format!("\n  {number} | {}\n  {} | {caret}", part.trim_end(), " ".repeat(number.len()))
    }
}

/// Might this line hold what must not be printed: a secret's name, or a line of a key in PEM?
fn shows_secret(line: &str) -> bool {
    let line = line.trim();
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    names_secret(line) || line.contains("PRIVATE KEY") || (line.len() >= 40 && line.chars().all(is_base64))
}

/// Is this text nothing but environment variables, none with a default that is written out?
pub(super) fn is_only_variables(text: &str) -> bool {
    let Some(after) = text.strip_prefix("${") else { return text.is_empty() };
    let Some(end) = closing(after) else { return false };
    let (inner, rest) = (&after[..end], &after[end + 1..]);
    let default = inner.split_once(":-").filter(|(name, _)| !name.contains(":?")).map_or("", |(_, default)| default);
    is_only_variables(default) && is_only_variables(rest)
}

/// Does this text name something that must not be printed?
pub(super) fn names_secret(text: &str) -> bool {
    let lower = text.to_lowercase().replace(['_', '-', '.'], "");
    [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "credential",
        "accesskey",
        "privatekey",
        "keypem",
        "apikey",
        "accountkey",
        "saskey",
        "jaas",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

/// Parses one YAML document.
pub(super) fn parse(texts: &Texts) -> Result<Node> {
    let root = Builder { texts, set: 0, nodes: 0, anchors: Vec::new(), parser: Parser::new_from_str(&texts.text) }.document()?;
    match root {
        Some(node) if !node.is_null() => Ok(node),
        _ => Err(Error::invalid("there is nothing in the pipeline file")
            .at(&texts.file)
            .hint("it needs version, pipeline, source, sinks, checkpoint")),
    }
}

/// Parses the value of the `index`-th `--set` as a YAML scalar or flow collection.
pub(super) fn parse_set(texts: &Texts, index: usize, value: &str) -> Result<Node> {
    let set = index + 1;
    let root = Builder { texts, set, nodes: 0, anchors: Vec::new(), parser: Parser::new_from_str(value) }.document()?;
    Ok(root.unwrap_or_else(|| Node::plain("", Mark { set, line: 1, col: 1, len: 1 })))
}

type Parsed<'a> = (Event<'a>, Span);

struct Builder<'a> {
    texts: &'a Texts,
    set: usize,
    nodes: usize,
    anchors: Vec<(usize, Node)>,
    parser: Parser<'a, granit_parser::StrInput<'a>>,
}

impl<'a> Builder<'a> {
    fn document(mut self) -> Result<Option<Node>> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(root),
                Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
                _ if root.is_some() => {
                    let mark = self.mark(&span);
                    return Err(self.texts.error(
                        mark,
                        "a second document begins here",
                        "one file holds one pipeline; remove `---` and what follows",
                    ));
                }
                _ => root = Some(self.node((event, span), 0)?),
            }
        }
    }

    fn next(&mut self) -> Result<Parsed<'a>> {
        loop {
            match self.parser.next() {
                Some(Ok((Event::Comment(..) | Event::Anchor(..), _))) => {}
                Some(Ok(parsed)) => return Ok(parsed),
                Some(Err(e)) => return Err(self.broken(&e)),
                None => return Ok((Event::StreamEnd, Span::empty(Marker::new(0, 1, 0)))),
            }
        }
    }

    fn broken(&self, e: &granit_parser::ScanError) -> Error {
        let mark = Mark { set: self.set, line: e.marker().line().max(1), col: e.marker().col() + 1, len: 1 };
        let line = self.texts.text.lines().nth(mark.line - 1).unwrap_or_default();
        let hint = if self.set != 0 {
            "close brackets and quotes, or put the value into quotes once more"
        } else if e.info().contains("unknown anchor") {
            "`*name` repeats what `&name` marks; put text that begins with `*` into quotes"
        } else if line.contains("${") && line.contains(['{', '[']) {
            "inside {} and [] write environment variables in quotes: \"${NAME}\""
        } else if line.contains('\t') {
            "YAML is indented with blanks, never with tabs"
        } else if line.contains(": {") || line.contains("[") {
            "check that brackets, braces and quotes are closed"
        } else {
            "check the indentation, and put text that holds `: `, ` #` or quotes into quotes"
        };
        self.texts.error(mark, format!("this is not YAML: {}", e.info()), hint)
    }

    fn mark(&self, span: &Span) -> Mark {
        let one_line = span.start.line() == span.end.line();
        let len = if one_line { span.end.col().saturating_sub(span.start.col()).max(1) } else { 1 };
        Mark { set: self.set, line: span.start.line().max(1), col: span.start.col() + 1, len }
    }

    fn node(&mut self, (event, span): Parsed<'a>, depth: usize) -> Result<Node> {
        let mark = self.mark(&span);
        self.count(1, mark)?;
        if depth > MAX_DEPTH {
            return Err(self.texts.error(
                mark,
                "this is nested too deeply",
                "nothing in a pipeline file is; look for a missing line break",
            ));
        }
        let anchor = event.anchor_id();
        let tagged = match event.tag() {
            None => false,
            Some(tag) if tag.is_yaml_core_schema_tag("str") => true,
            Some(tag) => {
                let what = format!("the tag `{}` has no meaning here", tag.original());
                return Err(self.texts.error(mark, what, "remove it"));
            }
        };
        let value = match event {
            Event::Scalar(text, style, ..) => {
                Value::Scalar { text: text.into_owned(), plain: style == ScalarStyle::Plain && !tagged, env: None }
            }
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.entries(depth)?,
            Event::Alias(id) => {
                let found = self.anchors.iter().rev().find(|(known, _)| *known == id).map(|(_, node)| node.clone());
                let Some(node) = found else {
                    return Err(self.texts.error(mark, "this alias stands inside of what it names", "write it out"));
                };
                self.count(size(&node), mark)?;
                return Ok(node);
            }
            _ => return Err(self.texts.error(mark, "a value is missing here", "write one")),
        };
        let node = Node { value, mark };
        if let Some(id) = anchor {
            self.anchors.push((id, node.clone()));
        }
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Value> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd | Event::StreamEnd, _) => return Ok(Value::List(items)),
                parsed => items.push(self.node(parsed, depth + 1)?),
            }
        }
    }

    fn entries(&mut self, depth: usize) -> Result<Value> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let parsed = match self.next()? {
                (Event::MappingEnd | Event::StreamEnd, _) => return Ok(Value::Map(entries)),
                parsed => parsed,
            };
            let key = self.node(parsed, depth + 1)?;
            let Value::Scalar { text, .. } = key.value else {
                let hint = "keys are plain text; inside {} and [] write environment variables in quotes: \"${NAME}\"";
                return Err(self.texts.error(key.mark, "a key must be text", hint));
            };
            let parsed = self.next()?;
            let node = self.node(parsed, depth + 1)?;
            unique(self.texts, &entries, &text, key.mark)?;
            entries.push(Entry { key: text, key_mark: key.mark, node });
        }
    }

    fn count(&mut self, nodes: usize, mark: Mark) -> Result<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes <= MAX_NODES {
            return Ok(());
        }
        Err(self.texts.error(mark, format!("more than {MAX_NODES} values"), "this is no pipeline file, or aliases multiply"))
    }
}

fn unique(texts: &Texts, entries: &[Entry], key: &str, mark: Mark) -> Result<()> {
    match entries.iter().find(|e| e.key == key) {
        None => Ok(()),
        Some(first) => {
            let hint = format!("the first is at {}; keep one", texts.place(first.key_mark));
            Err(texts.error(mark, format!("the key `{key}` is given twice"), hint))
        }
    }
}

fn size(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 1,
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|e| 1 + size(&e.node)).sum::<usize>(),
    }
}

/// Puts environment variables into every scalar and every key.
pub(super) fn expand(texts: &Texts, node: &mut Node, env: &dyn Fn(&str) -> Option<String>) -> Result<()> {
    match &mut node.value {
        Value::Scalar { text, env: before, .. } => {
            if let Some(new) = replace(texts, text, node.mark, env)? {
                let old = std::mem::replace(text, new);
                // `$$` alone brings nothing in from the outside.
                *before = Some(old).filter(|old| old.replace("$$", "").contains('$'));
            }
            Ok(())
        }
        Value::List(items) => items.iter_mut().try_for_each(|item| expand(texts, item, env)),
        Value::Map(entries) => {
            for i in 0..entries.len() {
                if let Some(new) = replace(texts, &entries[i].key, entries[i].key_mark, env)? {
                    unique(texts, entries, &new, entries[i].key_mark)?;
                    entries[i].key = new;
                }
                expand(texts, &mut entries[i].node, env)?;
            }
            Ok(())
        }
    }
}

fn replace(texts: &Texts, text: &str, mark: Mark, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>> {
    if !text.contains('$') {
        return Ok(None);
    }
    substitute(text, env, 0).map(Some).map_err(|wrong| {
        // The caret goes to the variable itself when it stands in the text as it is.
        let line = texts.text.lines().nth(mark.line.wrapping_sub(1)).filter(|_| mark.set == 0).unwrap_or_default();
        let from = line.char_indices().nth(mark.col.saturating_sub(1)).map_or(line.len(), |(i, _)| i);
        let found = line.get(from..).and_then(|rest| rest.find(&wrong.part).map(|at| rest[..at].chars().count()));
        let mark = found.map_or(mark, |ahead| Mark { col: mark.col + ahead, len: wrong.part.chars().count(), ..mark });
        texts.error(mark, wrong.what, wrong.hint)
    })
}

struct Wrong {
    part: String,
    what: String,
    hint: String,
}

const FORMS: &str = "write `${NAME}`, `${NAME:-default}` or `${NAME:?why}`, and `$$` for a dollar sign";

fn substitute(text: &str, env: &dyn Fn(&str) -> Option<String>, depth: usize) -> std::result::Result<String, Wrong> {
    let wrong = |part: &str, what: String| Wrong { part: part.to_owned(), what, hint: FORMS.to_owned() };
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
            continue;
        }
        let Some(after) = rest.strip_prefix("${") else {
            return Err(wrong("$", "a `$` alone".to_owned()));
        };
        let Some(end) = closing(after).filter(|_| depth < 8) else {
            return Err(wrong("${", "`${` has no matching `}`".to_owned()));
        };
        let (whole, inner) = (&rest[..end + 3], &after[..end]);
        rest = &after[end + 1..];
        let name_end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(inner.len());
        let (name, tail) = inner.split_at(name_end);
        if name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
            || !(tail.is_empty() || tail.starts_with(":-") || tail.starts_with(":?"))
        {
            return Err(wrong(whole, format!("`{whole}` is no environment variable")));
        }
        match (env(name), tail.get(..2)) {
            (Some(value), _) if !value.is_empty() => out.push_str(&value),
            (_, Some(":-")) => out.push_str(&substitute(&tail[2..], env, depth + 1)?),
            (got, other) => {
                let state = if got.is_some() { "is empty" } else { "is not set" };
                let what = format!("the environment variable `{name}` {state}");
                let hint = match other {
                    Some(":?") if tail.len() > 2 => tail[2..].to_owned(),
                    _ => format!("set it, or give a default: `${{{name}:-default}}`"),
                };
                return Err(Wrong { part: whole.to_owned(), what, hint });
            }
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Where the `}` that ends a variable stands; a default may hold variables of its own.
fn closing(text: &str) -> Option<usize> {
    let (mut open, mut before) = (0_usize, ' ');
    for (i, c) in text.char_indices() {
        match c {
            '{' if before == '$' => open += 1,
            '}' if open == 0 => return Some(i),
            '}' => open -= 1,
            _ => {}
        }
        before = c;
    }
    None
}
