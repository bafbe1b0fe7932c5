//! Wildcards in the paths of files.
//!
//! A walk of its own: the crate `glob` panics on a directory that holds a name which is not UTF-8, whether it is asked for or not.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use crate::error::{Error, Result};

/// No wildcard matches a `/`, nor the dot of a hidden name.
const OPTIONS: MatchOptions = MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

enum Part {
    Literal(String),
    Wild(Pattern),
    /// `**`: any number of directories, without following links, which may lead back.
    Deep,
}

/// Every path that `pattern` matches, directories too, in no particular order. A relative pattern starts at `base`, whose name is no
/// pattern. A name that is not UTF-8 matches like one with U+FFFD in place of what is wrong.
///
/// `Invalid`: no pattern. `Unavailable`: a directory cannot be listed; one that is not there is empty.
pub(super) fn expand(base: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    let start = if pattern.starts_with('/') { Path::new("/") } else { base };
    let mut parts = Vec::new();
    for text in pattern.split('/').filter(|text| !matches!(*text, "" | ".")) {
        parts.push(match text {
            "**" => Part::Deep,
            _ if !text.contains(['*', '?', '[']) => Part::Literal(text.to_owned()),
            _ => Part::Wild(Pattern::new(text).map_err(|e| Error::invalid("not a path pattern").at(pattern).because(e))?),
        });
    }
    let mut found = Vec::new();
    let mut todo = vec![(start.to_owned(), &parts[..])];
    while let Some((path, rest)) = todo.pop() {
        let Some((first, after)) = rest.split_first() else {
            found.push(path);
            continue;
        };
        match first {
            Part::Literal(name) => {
                let path = path.join(name);
                if path.exists() {
                    todo.push((path, after));
                }
            }
            Part::Wild(name) => {
                let matching = list(&path)?.into_iter().filter(|(text, _)| name.matches_with(text, OPTIONS));
                todo.extend(matching.map(|(_, path)| (path, after)));
            }
            Part::Deep => {
                for (_, below) in list(&path)?.into_iter().filter(|(text, _)| !text.starts_with('.')) {
                    if below.is_dir() && !below.is_symlink() {
                        todo.push((below, rest));
                    } else if after.is_empty() {
                        found.push(below);
                    }
                }
                if !after.is_empty() {
                    todo.push((path, after));
                }
            }
        }
    }
    Ok(found)
}

/// Names by which those who write a file say that it is not finished, or is not data at all.
const UNFINISHED: [&str; 9] = [".tmp", ".temp", ".part", ".partial", ".crdownload", ".filepart", ".inprogress", "._copying_", "~"];

/// Is this a file that is being written, by its name or that of its folder? `_SUCCESS` and `_temporary/0/part-1` of Hadoop and Spark count.
pub(super) fn is_unfinished(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let name = name.to_string_lossy().to_lowercase();
    let in_folder = path.parent().into_iter().flat_map(Path::components).any(|c| c.as_os_str() == "_temporary");
    name.starts_with('_') || in_folder || UNFINISHED.iter().any(|end| name.ends_with(end))
}

/// The names in a directory, as text and as paths.
fn list(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let failed = |e| Error::unavailable("the folder cannot be listed").at(dir.display()).because(e).hint("make the folder readable");
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    entries.map(|entry| entry.map(|e| (e.file_name().to_string_lossy().into_owned(), e.path())).map_err(failed)).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn wildcards_match_what_a_shell_would_and_foreign_names_do_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a[1]");
        for name in ["x.csv", "y.csv", ".hidden.csv", "z.json", "d/e/x.csv", "d/w.csv", ".h/x.csv", "[b].csv"] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::write(root.join(std::ffi::OsStr::from_bytes(b"\xff.json")), "").unwrap();
        std::os::unix::fs::symlink(&root, root.join("d/back")).unwrap();
        let expand = |pattern: &str| {
            let mut all: Vec<String> =
                expand(&root, pattern).unwrap().iter().map(|p| p.strip_prefix(&root).unwrap().to_string_lossy().into_owned()).collect();
            all.sort();
            all
        };
        assert_eq!(expand("*.csv"), ["[b].csv", "x.csv", "y.csv"]);
        assert_eq!(expand("[xy].csv"), ["x.csv", "y.csv"]);
        assert_eq!(expand("[[]b].csv"), ["[b].csv"]);
        assert_eq!(expand(".*.csv"), [".hidden.csv"]);
        assert_eq!(expand("**/x.csv"), ["d/e/x.csv", "x.csv"]);
        assert_eq!(expand("d/**"), ["d/back", "d/e/x.csv", "d/w.csv"]);
        assert_eq!(expand("?/./*.csv"), ["d/w.csv"]);
        assert_eq!(expand("*.json"), ["z.json", "\u{fffd}.json"]);
        assert!(expand("nowhere/*").is_empty() && expand("x.csv/*").is_empty() && expand("*/nothing").is_empty());
    }
}
