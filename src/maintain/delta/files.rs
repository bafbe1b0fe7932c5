//! Is every live file there, with its true size, under partition values that can be read, where engines that go by directories find them?

use std::collections::{BTreeMap, HashMap, HashSet};

use futures::StreamExt as _;

use super::state::{Live, State, Walked};
use super::statistics;
use crate::datafile::footer;
use crate::error::{Kind, Result};
use crate::format::delta::action::Add;
use crate::format::delta::deletion::deleted_rows;
use crate::format::delta::partition::{self, NULL_DIRECTORY};
use crate::format::delta::replay::{self, FileKey};
use crate::format::delta::schema::DeltaSchema;
use crate::maintain::finding::{Check, Findings};
use crate::maintain::size;
use crate::schema::{DataType, Field, Scalar, Schema};
use crate::store::{Entry, Store};

/// Footers that are read at once.
const AT_ONCE: usize = 8;

/// Live files that were not there: path as the log has it, by their own.
type Missing = BTreeMap<String, String>;

/// Looks at every file that is live as of the newest version; what only older versions have may have been vacuumed.
pub(super) async fn check(store: &Store, walked: &Walked, there: &[Entry], footers: bool, findings: &mut Findings) -> Result<()> {
    let Some(state) = &walked.newest else { return Ok(()) };
    let by_path: HashMap<&str, u64> = there.iter().map(|e| (e.name.as_str(), e.size)).collect();
    let (mut whole, mut missing, mut elsewhere) = (Vec::new(), Missing::new(), 0u64);
    let mut live: Vec<&Live> = state.live.values().collect();
    live.sort_unstable_by(|a, b| a.add.path.cmp(&b.add.path));
    for file in live {
        check_vector(store, file, state, findings).await?;
        if let Some(schema) = &walked.schema {
            findings.look(Check::Partitions, 1);
            check_partition(file, &schema.schema, findings);
        }
        let path = match partition::uri_decode(&file.add.path) {
            Ok(path) => path,
            Err(e) if e.kind() == Kind::Data => {
                findings.find(Check::DataFiles, &file.add.path, Some(file.since), e.message());
                continue;
            }
            Err(_) => {
                elsewhere += 1;
                continue;
            }
        };
        findings.look(Check::DataFiles, 1);
        match by_path.get(path.as_str()) {
            None => drop(missing.insert(path, file.add.path.clone())),
            Some(size) if i64::try_from(*size) != Ok(file.add.size) => {
                let what = format!("it has {size} bytes, and the log says {}", file.add.size);
                findings.find(Check::DataFiles, path, Some(file.since), what);
            }
            Some(size) => whole.push((path, *size, file)),
        }
    }
    if elsewhere > 0 {
        findings.note(format!("{elsewhere} data files are named by a full location and were not looked at"));
    }
    if footers {
        opened(store, whole, walked.schema.as_deref(), &mut missing, findings).await?;
    }
    settle_missing(store, state, missing, findings).await
}

/// Can the rows be told that are deleted, and does the file have them?
async fn check_vector(store: &Store, file: &Live, state: &State, findings: &mut Findings) -> Result<()> {
    let Some(vector) = &file.add.deletion_vector else { return Ok(()) };
    findings.look(Check::DeletionVectors, 1);
    let mut wrong = |what: String| findings.find(Check::DeletionVectors, &file.add.path, Some(file.since), what);
    match deleted_rows(store, vector).await {
        Ok(deleted) => {
            let rows =
                file.add.stats.as_deref().and_then(|s| serde_json::from_str::<serde_json::Value>(s).ok()?.get("numRecords")?.as_u64());
            match (deleted.max(), rows) {
                (Some(last), Some(rows)) if last >= rows => wrong(format!("row {last} is deleted of a file of {rows} rows")),
                (_, None) => wrong("it has a deletion vector, and no statistics say how many rows it has".to_owned()),
                _ => {}
            }
        }
        Err(e) if e.kind() == Kind::Invalid => findings.note(format!("{}: {}", file.add.path, e.message())),
        Err(e) if e.kind() != Kind::Data => return Err(e),
        Err(e) => {
            // Somebody may have rewritten the file and vacuumed meanwhile.
            let key = (file.add.path.clone(), Some(vector.unique_id()));
            if still_live(store, state.version, &[&file.add.path]).await?.is_none_or(|(_, live)| live.contains(&key)) {
                wrong(format!("{}: {}", e.message(), e.next_step().unwrap_or_default()));
            }
        }
    }
    Ok(())
}

/// The newest version, and which files of these paths are live then. None: it cannot be told.
async fn still_live(store: &Store, known: u64, paths: &[&String]) -> Result<Option<(u64, HashSet<FileKey>)>> {
    let told = async {
        let newest = replay::newest(store).await?.map_or(known, |log| log.version);
        let live = replay::live_files(store, newest, &|add| paths.contains(&&add.path)).await?;
        Ok((newest, live.into_iter().map(|add| (add.path, add.deletion_vector.map(|v| v.unique_id()))).collect()))
    };
    let told: Result<_> = told.await;
    match told {
        Ok(told) => Ok(Some(told)),
        Err(e) if e.kind() == Kind::Data => Ok(None),
        Err(e) => Err(e),
    }
}

/// Opens every file and compares what is said of it with its footer.
async fn opened(
    store: &Store,
    files: Vec<(String, u64, &Live)>,
    schema: Option<&DeltaSchema>,
    missing: &mut Missing,
    findings: &mut Findings,
) -> Result<()> {
    let open = |(path, size, file): (String, u64, &'_ Live)| {
        let since = file.since;
        let log_path = file.add.path.clone();
        let stats: Vec<String> = file.add.stats.iter().chain(&file.other_stats).cloned().collect();
        async move { (footer(store, &path, size, &path).await, path, since, log_path, stats) }
    };
    // A plain list of futures: one made on the way would borrow for too short a time.
    let opening: Vec<_> = files.into_iter().map(open).collect();
    let mut opening = futures::stream::iter(opening).buffered(AT_ONCE);
    while let Some((footer, path, since, log_path, stats)) = opening.next().await {
        findings.look(Check::RowCounts, 1);
        match footer {
            Ok(footer) => statistics::check(&footer, &path, since, &stats, schema.map(|s| s.schema.as_ref()), findings),
            Err(e) if e.kind() != Kind::Data => return Err(e),
            // It was listed; if it has been deleted since, that is told apart later.
            Err(_) if size(store, &path).await?.is_none() => drop(missing.insert(path, log_path)),
            Err(e) => findings.find(Check::RowCounts, path, Some(since), e.message()),
        }
    }
    Ok(())
}

/// What is missing is a finding if it is still live: somebody may have compacted and vacuumed meanwhile.
async fn settle_missing(store: &Store, state: &State, missing: Missing, findings: &mut Findings) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let told = still_live(store, state.version, &missing.values().collect::<Vec<_>>()).await?;
    let newest = told.as_ref().map_or(state.version, |(newest, _)| *newest);
    let live: Option<HashSet<String>> = told.map(|(_, live)| live.into_iter().map(|(path, _)| path).collect());
    for (path, log_path) in &missing {
        let stands = live.as_ref().is_none_or(|live| live.contains(log_path));
        if stands && size(store, path).await?.is_none() {
            let what = format!("it is missing, and version {newest} needs it");
            findings.find(Check::DataFiles, path, Some(newest), what);
        }
    }
    Ok(())
}

/// The values of a file's partition: can they be read, and does its directory say the same?
fn check_partition(file: &Live, schema: &Schema, findings: &mut Findings) {
    let Add { path, partition_values, .. } = &file.add;
    let mut wrong = |what: String| findings.find(Check::Partitions, path, Some(file.since), what);
    let values = match partition::scalars(schema, partition_values) {
        Ok(values) => values,
        Err(e) => {
            let column = e.place().map_or_else(String::new, |place| format!("{place}: "));
            return wrong(format!("{column}{}: engines read nothing of the table, or null", e.message()));
        }
    };
    let Ok(decoded) = partition::uri_decode(path) else { return };
    let fields = schema.partition_indices().into_iter().map(|i| &schema.fields[i]);
    for (field, value) in fields.zip(&values) {
        if value.is_none() && !field.nullable {
            wrong(format!("the partition column `{}` is NOT NULL, and null here", field.name));
        }
        let Some(text) = directory_of(&decoded, &field.name) else { continue };
        if !may_say(field, &text, value.as_ref()) {
            let told = partition_values.get(&field.name).and_then(Option::as_deref).unwrap_or("null");
            wrong(format!(
                "its directory says `{}` = {text:?}, and the log {told:?}: engines that go by directories read another value",
                field.name
            ));
        }
    }
}

/// What the directory of a column says, as it is written.
fn directory_of(path: &str, column: &str) -> Option<String> {
    let (directories, _) = path.rsplit_once('/')?;
    directories.split('/').find_map(|d| {
        let (name, text) = d.split_once('=')?;
        (unescaped(name) == column).then(|| text.to_owned())
    })
}

/// Can a directory of this name hold the value? Engines escape in several ways, some twice, and name moments in a zone of their own.
fn may_say(field: &Field, text: &str, value: Option<&Scalar>) -> bool {
    // Too long a value is cut, by a digest that is not looked into.
    if matches!(field.data_type, DataType::Timestamp(_) | DataType::TimestampLtz(_)) || text.len() > 200 {
        return true;
    }
    let Some(value) = value else { return text == NULL_DIRECTORY || text.is_empty() };
    let (once, twice) = (unescaped(text), unescaped(&unescaped(text)));
    [text, &once, &twice].into_iter().any(|text| {
        let said = partition::from_text(&field.data_type, Some(text)).ok().flatten();
        let nan = |v: &Scalar| matches!(v, Scalar::Double(v) if v.is_nan()) || matches!(v, Scalar::Float(v) if v.is_nan());
        said.as_ref().is_some_and(|said| said == value || (nan(said) && nan(value)))
    })
}

/// `%XX` as the byte that it stands for.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| byte == b'%').and_then(|d| std::str::from_utf8(d).ok());
        let escaped = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_says_its_value_in_any_of_the_escapings() {
        let text = Field::parse(0, "p", "STRING").unwrap();
        let value = Scalar::String("a/ü b".into());
        for said in ["a%2Fü b", "a%2F%C3%BC%20b", "a%252F%25C3%25BC%2520b"] {
            assert!(may_say(&text, said, Some(&value)), "{said}");
        }
        assert!(!may_say(&text, "a", Some(&value)) && !may_say(&text, NULL_DIRECTORY, Some(&value)));
        assert!(may_say(&text, NULL_DIRECTORY, None) && !may_say(&text, "x", None));
        let number = Field::parse(0, "p", "DECIMAL(10, 2)").unwrap();
        assert!(may_say(&number, "1.50", Some(&Scalar::Decimal(150))) && !may_say(&number, "1.51", Some(&Scalar::Decimal(150))));
        assert_eq!(directory_of("a/p%20q=x%3D/part-0.parquet", "p q"), Some("x%3D".into()));
        assert_eq!(directory_of("p=1", "p"), None, "a file is no directory");
    }
}
