//! Where the demo leaves its tables, and the pipeline file that it writes there.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::cli::pipelines::here;
use crate::error::{Error, Result};

/// The first line of the pipeline file: by it an earlier demo is known.
const MARK: &str = "# Written by `table-cli demo`.";
/// What a demo leaves, and nothing else.
const FILE: &str = "orders.yaml";
const LAKE: &str = "lake";
const IN_LAKE: [&str; 2] = ["_checkpoints", "shop.db"];
const IN_SHOP: [&str; 2] = ["orders", "orders_dead"];

/// The directory.
#[derive(Debug)]
pub(super) struct Place {
    /// As it was given.
    shown: PathBuf,
    dir: PathBuf,
}

impl Place {
    /// Empties it if an earlier demo is there, and says whether one was. `Invalid`: something else is there.
    pub(super) fn new(dir: &Path) -> Result<(Place, bool)> {
        let place = Place { shown: dir.to_owned(), dir: here()?.join(dir) };
        let found = names(&place.dir)?;
        if let Some(found) = &found {
            place.check(found)?;
        }
        let earlier = found.is_some_and(|found| !found.is_empty());
        if earlier {
            remove(&place.dir.join(LAKE))?;
            remove(&place.file())?;
        }
        fs::create_dir_all(&place.dir).map_err(|e| unavailable("it cannot be created", &place.dir, e))?;
        Ok((place, earlier))
    }

    /// Only what a demo wrote may be removed.
    fn check(&self, found: &[String]) -> Result<()> {
        let stranger = |at: &Path, found: &[String], known: &[&str]| {
            let stranger = found.iter().find(|name| !known.contains(&name.as_str()));
            stranger.map_or(Ok(()), |name| Err(self.refused(&at.join(name))))
        };
        stranger(&self.dir, found, &[FILE, LAKE])?;
        if found.is_empty() {
            return Ok(());
        }
        let text = fs::read(self.file()).unwrap_or_default();
        if !text.starts_with(MARK.as_bytes()) {
            return Err(self.refused(&self.dir.join(&found[0])));
        }
        let lake = self.dir.join(LAKE);
        for (dir, known) in [(lake.clone(), IN_LAKE), (lake.join("shop.db"), IN_SHOP)] {
            stranger(&dir, &names(&dir)?.unwrap_or_default(), &known)?;
        }
        Ok(())
    }

    fn refused(&self, what: &Path) -> Error {
        Error::invalid(format!("{} is there, and no demo has written it", what.display()))
            .at(self.shown.display())
            .hint("the demo wants a directory of its own: give another one with --dir")
    }

    /// The pipeline file.
    pub(super) fn file(&self) -> PathBuf {
        self.dir.join(FILE)
    }
    /// A table, or the pipeline file, as a user would type it from here.
    pub(super) fn typed(&self, name: &str) -> String {
        let path = self.shown.join(name);
        let text = path.display().to_string();
        if text.contains(|c: char| !(c.is_alphanumeric() || "./_-".contains(c))) {
            format!("'{}'", text.replace('\'', "'\\''"))
        } else {
            text
        }
    }
    /// The directory, as it was given.
    pub(super) fn shown(&self) -> String {
        self.shown.display().to_string()
    }

    /// Writes the pipeline file.
    pub(super) fn write(&self, servers: &str, rows: u64) -> Result<()> {
        fs::write(self.file(), pipeline(servers, rows)).map_err(|e| unavailable("it cannot be written", &self.file(), e))
    }
}

fn unavailable(what: &str, at: &Path, cause: std::io::Error) -> Error {
    Error::unavailable(what).at(at.display()).because(cause).hint("free it, or give another directory with --dir")
}

/// What is in a directory; none: it is not there. `Invalid`: it is no directory.
fn names(dir: &Path) -> Result<Option<Vec<String>>> {
    match fs::symlink_metadata(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(unavailable("it cannot be looked at", dir, e)),
        Ok(found) if !found.is_dir() => {
            let what = "this is no directory, and what it leads to is left alone";
            return Err(Error::invalid(what).at(dir.display()).hint("give another place with --dir"));
        }
        Ok(_) => {}
    }
    let entries = fs::read_dir(dir).map_err(|e| unavailable("it cannot be read", dir, e))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| unavailable("it cannot be read", dir, e))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(Some(names))
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(unavailable("what an earlier demo left cannot be removed", path, e)),
        _ => Ok(()),
    }
}

/// The pipeline, as one would write it for a topic of one's own. `rows`: so many between two checkpoints at most.
pub(super) fn pipeline(servers: &str, rows: u64) -> String {
    format!(
        "\
{MARK} Its broker lived in that process and is gone; the tables are here.
version: 1
pipeline: orders
source:
  kafka:
    bootstrap_servers: \"{servers}\"
    topics: [orders]
    start: earliest
    stop: never
sinks:
  - location: ./lake/shop.db/orders
    columns:
      id: BIGINT NOT NULL
      customer: {{type: STRING NOT NULL, from: customer.name}}
      country: {{type: STRING, from: customer.country}}
      status: STRING NOT NULL
      items: ARRAY<ROW<sku STRING NOT NULL, quantity INT NOT NULL, price DECIMAL(8, 2)>> NOT NULL
      amount: DECIMAL(10, 2) NOT NULL
      created_at: TIMESTAMP(3)
      note: STRING
      dt: {{type: STRING, expr: date(created_at)}}
      src_topic: {{type: STRING, meta: topic}}
      src_partition: {{type: INT, meta: partition}}
      src_offset: {{type: BIGINT, meta: offset}}
    checks:
      - amount >= 0
      - status in ('new', 'paid', 'shipped', 'returned')
    partition_by: [dt]
dead_letter:
  location: ./lake/shop.db/orders_dead
checkpoint:
  location: ./lake/_checkpoints
  every: 1s
  rows: {rows}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_directory_is_taken_when_it_is_empty_or_an_earlier_demos_and_refused_when_anything_else_is_there() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("a/demo");
        let (place, earlier) = Place::new(&dir).unwrap();
        assert!(!earlier);
        place.write("localhost:1", 10).unwrap();
        fs::create_dir_all(dir.join("lake/shop.db/orders")).unwrap();
        assert!(Place::new(&dir).unwrap().1, "an earlier demo");
        assert!(names(&dir).unwrap().unwrap().is_empty());

        for stranger in ["notes.txt", "lake/other", "lake/shop.db/customers"] {
            place.write("localhost:1", 10).unwrap();
            fs::create_dir_all(dir.join("lake/shop.db/orders")).unwrap();
            fs::create_dir_all(dir.join(stranger)).unwrap();
            let error = Place::new(&dir).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
            assert!(error.message().contains(stranger), "{error}");
            assert!(dir.join("lake/shop.db/orders").is_dir(), "nothing was removed");
            fs::remove_dir(dir.join(stranger)).unwrap();
        }
        fs::write(dir.join(FILE), "version: 1").unwrap();
        assert!(Place::new(&dir).is_err(), "somebody's own pipeline file");
        fs::remove_file(dir.join(FILE)).unwrap();
        assert!(Place::new(&dir).is_err(), "a lake without the demo's pipeline file");

        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        assert!(Place::new(&link).unwrap_err().message().contains("no directory"));
    }

    #[test]
    fn a_path_is_shown_as_it_can_be_typed() {
        let place = |dir: &str| Place { shown: dir.into(), dir: dir.into() };
        assert_eq!(place("./demo").typed("lake/shop.db/orders"), "./demo/lake/shop.db/orders");
        assert_eq!(place("my demo").typed("orders.yaml"), "'my demo/orders.yaml'");
    }
}
