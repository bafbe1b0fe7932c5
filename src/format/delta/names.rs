//! Names under `_delta_log/`.

use uuid::Uuid;

/// Where the log lies.
pub const LOG_DIR: &str = "_delta_log";
/// Where the parts of v2 checkpoints lie.
pub const SIDECAR_DIR: &str = "_delta_log/_sidecars";
/// The pointer to the newest checkpoint: a hint.
pub const LAST_CHECKPOINT: &str = "_delta_log/_last_checkpoint";

/// The commit of a version, under the table's root.
pub fn commit(version: u64) -> String {
    format!("{LOG_DIR}/{version:020}.json")
}

/// The classic checkpoint of a version, under the table's root.
pub fn checkpoint(version: u64) -> String {
    format!("{LOG_DIR}/{version:020}.checkpoint.parquet")
}

/// Is this object, a path under the table's root, none of the table's data files? Engines leave alone what begins with `_` or `.` and is
/// no partition directory.
pub fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with(['_', '.']) && !part.contains('='))
}

/// What a name in `_delta_log/` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFile {
    /// A commit.
    Commit(u64),
    /// A checkpoint in one Parquet file, by version.
    Checkpoint(u64),
    /// One part of a checkpoint, counted from 1.
    Part {
        /// Its version.
        version: u64,
        /// Which part.
        part: u32,
        /// Of how many.
        parts: u32,
    },
    /// A v2 checkpoint under a name of its own.
    V2 {
        /// Its version.
        version: u64,
        /// JSON, not Parquet.
        json: bool,
    },
    /// Commits of several versions, reconciled: first and last of them.
    Compacted(u64, u64),
    /// A checksum.
    Crc(u64),
}

/// Reads a name in `_delta_log/`; `None`: a stray file.
pub fn parse(name: &str) -> Option<LogFile> {
    let parts: Vec<&str> = name.split('.').collect();
    let version = number(parts.first()?, 20)?;
    match parts[1..] {
        ["json"] => Some(LogFile::Commit(version)),
        ["crc"] => Some(LogFile::Crc(version)),
        ["checkpoint", "parquet"] => Some(LogFile::Checkpoint(version)),
        ["checkpoint", part, of, "parquet"] => {
            let (part, parts) = (u32::try_from(number(part, 10)?).ok()?, u32::try_from(number(of, 10)?).ok()?);
            (1..=parts).contains(&part).then_some(LogFile::Part { version, part, parts })
        }
        ["checkpoint", id, kind @ ("json" | "parquet")] if Uuid::try_parse(id).is_ok() => {
            Some(LogFile::V2 { version, json: kind == "json" })
        }
        [last, "compacted", "json"] => Some(LogFile::Compacted(version, number(last, 20)?)),
        _ => None,
    }
}

fn number(text: &str, digits: usize) -> Option<u64> {
    (text.len() == digits && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_directory_is_never_hidden() {
        for hidden in ["_delta_log/0.json", "_change_data/x", ".tmp", "p=1/.x.crc", "_lakeward/a=b/_x"] {
            assert!(is_hidden(hidden), "{hidden}");
        }
        assert!(!is_hidden("_p=1/part-0.parquet") && !is_hidden("a_b/x.parquet"));
    }

    #[test]
    fn names_say_what_they_are() {
        assert_eq!(commit(7), "_delta_log/00000000000000000007.json");
        let zero = "00000000000000000007";
        let read = |rest: &str| parse(&format!("{zero}{rest}"));
        assert_eq!(read(".json"), Some(LogFile::Commit(7)));
        assert_eq!(read(".checkpoint.parquet"), Some(LogFile::Checkpoint(7)));
        assert_eq!(read(".checkpoint.0000000001.0000000002.parquet"), Some(LogFile::Part { version: 7, part: 1, parts: 2 }));
        assert_eq!(read(".checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"), Some(LogFile::V2 { version: 7, json: true }));
        assert_eq!(read(".00000000000000000009.compacted.json"), Some(LogFile::Compacted(7, 9)));
        assert_eq!(read(".crc"), Some(LogFile::Crc(7)));
        for stray in ["7.json", ".json", "00000000000000000007.json.tmp", "_last_checkpoint", "00000000000000000007.checkpoint.x.parquet"] {
            assert_eq!(parse(stray), None, "{stray}");
        }
    }
}
