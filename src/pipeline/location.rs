//! Locations: absolute, in one spelling, and comparable.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};

/// The schemes of object stores, with the one under which each is known.
const REMOTE: [(&str, &str); 7] =
    [("s3", "s3"), ("s3a", "s3"), ("gs", "gs"), ("az", "az"), ("abfs", "abfs"), ("abfss", "abfss"), ("memory", "memory")];

/// Makes a path or URL absolute: a path is taken from `base`, `file://` becomes a path, `.`, `..`, doubled and trailing slashes go away.
/// Nothing has to exist. Symbolic links stay in the name, except one that a `..` follows.
///
/// `Invalid`: empty, an unknown scheme, credentials in the URL, `~`.
pub fn absolute(text: &str, base: &Path) -> Result<String> {
    if text.trim().is_empty() {
        return Err(Error::invalid("the location is empty").hint("write a path, or s3://, gs:// or az:// with bucket and path"));
    }
    if text == "~" || text.starts_with("~/") {
        return Err(Error::invalid(format!("`~` in `{text}` is not replaced here")).hint("write `${HOME}` instead of `~`"));
    }
    if let Some((scheme, rest)) = text.split_once("://").filter(|(s, _)| is_scheme(s)) {
        let lower = scheme.to_ascii_lowercase();
        return match REMOTE.iter().find(|(known, _)| *known == lower) {
            Some((_, one)) => remote(one, rest),
            None if lower == "file" => file_url(text),
            None => Err(Error::invalid(format!("`{scheme}://` is no place that can be written to"))
                .hint("use a path, file://, s3://, gs:// or az://")),
        };
    }
    if let Some((scheme, _)) = text.split_once(":/").filter(|(s, _)| *s == "file" || REMOTE.iter().any(|(known, _)| known == s)) {
        return Err(Error::invalid(format!("`{text}` is no URL")).hint(format!("did you mean `{scheme}://`?")));
    }
    path_text(&clean(base, Path::new(text))?)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn file_url(text: &str) -> Result<String> {
    let path = url::Url::parse(text).ok().and_then(|url| url.to_file_path().ok());
    match path {
        Some(path) => path_text(&clean(Path::new("/"), &path)?),
        None => Err(Error::invalid(format!("`{text}` is no local file URL")).hint("write `file:///absolute/path`, or the path alone")),
    }
}

fn remote(scheme: &str, rest: &str) -> Result<String> {
    let mut parts = rest.split('/');
    let bucket = parts.next().unwrap_or_default();
    if rest.contains(['?', '#']) {
        return Err(Error::invalid("a location has no query and no fragment").hint("set options of the store in the environment"));
    }
    // abfss://CONTAINER@ACCOUNT is no credential.
    if bucket.contains('@') && !scheme.starts_with("abfs") {
        return Err(Error::invalid("a location must not hold credentials").hint("set them in the environment, e.g. AWS_ACCESS_KEY_ID"));
    }
    if bucket.is_empty() {
        return Err(Error::invalid(format!("`{scheme}://` without a bucket")).hint(format!("write `{scheme}://bucket/path`")));
    }
    let mut path: Vec<&str> = Vec::new();
    for part in parts {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()),
            name => path.push(name),
        }
    }
    let mut url = format!("{scheme}://{bucket}");
    for name in path {
        url.push('/');
        url.push_str(name);
    }
    Ok(url)
}

fn path_text(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(Error::invalid(format!("the path {} is not UTF-8", path.display())).hint("rename the directory")),
    }
}

/// `path` from `base`, absolute and without `.` and `..`.
pub(super) fn clean(base: &Path, path: &Path) -> Result<PathBuf> {
    let joined = Path::new(".").join(base).join(path); // `absolute` refuses an empty path
    let joined = std::path::absolute(joined).map_err(|e| Error::invalid("the current directory cannot be found").because(e))?;
    let mut out = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                // `link/..` is the parent of what the link names, not of the link.
                if out.is_symlink() {
                    out = real(&out);
                }
                out.pop();
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

/// Is it a directory of this machine (and not an object store)?
pub fn is_local(location: &str) -> bool {
    !location.contains("://")
}

/// What an absolute location really is: symbolic links of its longest existing part are followed. Two spellings of one place are equal.
pub(crate) fn identity(location: &str) -> String {
    if is_local(location) { real(Path::new(location)).to_string_lossy().into_owned() } else { location.to_owned() }
}

/// Is `inner` the same place as `outer`, or below it? Both are identities.
pub(crate) fn holds(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || outer.ends_with('/'))
}

fn real(path: &Path) -> PathBuf {
    let (mut head, mut tail) = (path.to_path_buf(), VecDeque::<OsString>::new());
    let mut links = 0;
    loop {
        if let Ok(found) = std::fs::canonicalize(&head) {
            return found.join(tail.iter().collect::<PathBuf>());
        }
        if let Ok(target) = std::fs::read_link(&head) {
            // A link to what does not exist yet: two writers would still meet there.
            links += 1;
            head = head.parent().unwrap_or(Path::new("/")).join(target);
            if links > 40 {
                return path.to_path_buf();
            }
            continue;
        }
        let (Some(parent), Some(name)) = (head.parent().map(Path::to_path_buf), head.file_name().map(OsString::from)) else {
            return path.to_path_buf();
        };
        tail.push_front(name);
        head = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> String {
        absolute(text, Path::new("/base/dir")).unwrap()
    }

    #[test]
    fn every_spelling_of_one_place_becomes_one() {
        for text in ["lake/t", "./lake/t", "lake//t/", "../dir/lake/t", "lake/x/../t", "/base/dir/lake/t/.", "file:///base/dir/lake/t"] {
            assert_eq!(at(text), "/base/dir/lake/t", "{text}");
        }
        for text in ["s3://b/lake/t", "S3://b/lake//t/", "s3a://b/lake/t", "s3://b/./lake/x/../t"] {
            assert_eq!(at(text), "s3://b/lake/t", "{text}");
        }
        assert_eq!(at("abfss://c@account.dfs.core.windows.net/t/"), "abfss://c@account.dfs.core.windows.net/t");
        assert_eq!(at("file:///base/with%20blank"), "/base/with blank");
    }

    #[test]
    fn what_cannot_be_a_location_says_what_to_write() {
        let says = |text: &str| absolute(text, Path::new("/base")).unwrap_err().to_string();
        assert_eq!(says(" "), "the location is empty; write a path, or s3://, gs:// or az:// with bucket and path");
        assert_eq!(says("~/lake"), "`~` in `~/lake` is not replaced here; write `${HOME}` instead of `~`");
        assert_eq!(says("hdfs://n/x"), "`hdfs://` is no place that can be written to; use a path, file://, s3://, gs:// or az://");
        assert_eq!(says("s3:/b/x"), "`s3:/b/x` is no URL; did you mean `s3://`?");
        assert_eq!(says("s3://b/x?y"), "a location has no query and no fragment; set options of the store in the environment");
        assert_eq!(says("s3:///x"), "`s3://` without a bucket; write `s3://bucket/path`");
        assert_eq!(
            says("s3://id:very-secret@b/x"),
            "a location must not hold credentials; set them in the environment, e.g. AWS_ACCESS_KEY_ID"
        );
    }

    #[test]
    fn links_lead_to_one_identity_even_when_they_dangle() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        std::os::unix::fs::symlink(root.join("later"), root.join("dangling")).unwrap();
        let id = |text: &str| identity(&absolute(text, &root).unwrap());
        assert_eq!(id("link/shop.db/t"), id("real/shop.db/t"));
        assert_eq!(id("dangling/t"), id("later/t"));
        assert_ne!(id("real/t"), id("later/t"));
        assert_eq!(absolute("link/t", &root).unwrap(), root.join("link/t").to_str().unwrap());
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        assert_eq!(id("loop/t"), root.join("loop/t").to_str().unwrap());
    }

    #[test]
    fn a_neighbour_with_a_longer_name_is_not_inside() {
        assert!(holds("/a/t", "/a/t") && holds("/a/t", "/a/t/x") && holds("/", "/a"));
        assert!(!holds("/a/t", "/a/table") && !holds("/a/t/x", "/a/t"));
    }
}
