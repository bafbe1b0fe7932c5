//! `source.kafka.properties`: handed to the Kafka client, once it is sure that every key is one, that the values fit and that no secret
//! stands in the file or on the command line.

use std::path::{Path, PathBuf};

use super::at::At;
use super::file::Properties;
use super::location;
use super::shape::nearest;
use super::yaml::{Entry, Node, Value, is_only_variables};
use crate::error::{Error, Result};
use crate::source::kafka::keys;

/// Reads and checks all of them. Files are not opened: `config show` works where they are not.
pub(super) fn kafka_properties(at: &At<'_>, base: &Path) -> Result<Properties> {
    let mut out = Properties::default();
    let Some(Node { value: Value::Map(entries), .. }) = at.node else { return Ok(out) };
    for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
        one(at, entry, base, &mut out)?;
    }
    let given = keys::given(&out.entries, &out.files);
    keys::check_together(&given).map_err(|(key, e)| {
        let entry = entries.iter().find(|entry| entry.key == key);
        at.texts.locate_key(entry.map_or(at.mark, |entry| entry.key_mark), e)
    })?;
    Ok(out)
}

fn one(at: &At<'_>, entry: &Entry, base: &Path, out: &mut Properties) -> Result<()> {
    let key = entry.key.as_str();
    // The value is in no message, and the line is cut before it.
    let fail = |e: Error| Err(at.texts.locate_key(entry.key_mark, e));
    if let Err(e) = keys::check_key(key) {
        let is_unknown = e.message().starts_with("unknown key");
        return fail(match nearest(key, keys::KEYS).filter(|_| is_unknown) {
            Some(near) => e.hint(format!("did you mean `{near}`?")),
            None => e,
        });
    }
    if let Value::Map(_) = entry.node.value {
        if !keys::may_be_file(key) {
            return fail(Error::invalid(format!("`{key}` cannot come from a file")).hint("write the value here"));
        }
        let file = at.get(key).get("file");
        let path = file.required("write `{file: PATH}`; a relative path starts at the pipeline file")?;
        out.files.insert(key.to_owned(), local(&file, path, base)?);
        return Ok(());
    }
    let Value::Scalar { text, env, .. } = &entry.node.value else { return Ok(()) };
    if keys::is_secret(key) && !env.as_deref().is_some_and(is_only_variables) {
        let what = match (env, entry.key_mark.set) {
            (None, 0) => format!("the value of `{key}` is a secret and stands in the pipeline file"),
            (None, _) => format!("the value of `{key}` is a secret and stands on the command line, where every process can read it"),
            (Some(_), _) => format!("a part of the value of `{key}`, which is a secret, is written out"),
        };
        let name = key.rsplit('.').next().unwrap_or(key).to_uppercase();
        let hint = format!(
            "take it from the environment, `{key}: \"${{KAFKA_{name}}}\"`, or from a file, `{key}: {{file: PATH}}`; and change it, now that it was written down"
        );
        return fail(Error::invalid(what).hint(hint));
    }
    if let Err(e) = keys::check_value(key, text) {
        return if keys::is_secret(key) { fail(e) } else { Err(at.texts.locate(entry.node.mark, e)) };
    }
    let value = match keys::is_path(key, text) {
        true => local(&at.get(key), text, base)?.display().to_string(),
        false => text.clone(),
    };
    out.entries.insert(key.to_owned(), value);
    out.from_env.extend(env.iter().map(|_| key.to_owned()));
    Ok(())
}

/// An absolute path on this machine.
fn local(at: &At<'_>, text: &str, base: &Path) -> Result<PathBuf> {
    let path = at.placed(location::absolute(text, base))?;
    if path.contains("://") {
        return Err(at.wrong(text, "a path on this machine", "copy the file here first"));
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests;
