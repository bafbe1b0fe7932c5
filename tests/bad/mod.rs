//! Bad input: what a user reads, which exit code a script sees, and what is in the table afterwards.
//!
//! A case is a folder of `fixtures/bad`: a pipeline file, input files, and `transcript.txt`: what is typed (`$ ` and a shell line) and
//! exactly what comes back (standard output, standard error behind `! `, then the exit code). Each case runs in a copy of its folder.
//! `$DIR` stands for that copy, `$UUID`, `$TIME` and `$TRIES` for what differs from run to run. Some more words than a shell has can be typed:
//!
//! * `rows TABLE...` counts the rows twice: by `table-cli count`, and as the newest snapshot file (Delta: the statistics of all commits) says it;
//! * `dead TABLE` shows the dead letters;
//! * for Delta: `commit N` names a commit of `lake/t`, `again` copies `old` to `lake`, `protocol JSON` does so and changes the table's protocol,
//!   `findings COMMAND` shows what `audit` or `verify` find.
//!
//! After a change that is meant, `LAKEWARD_WRITE_TRANSCRIPTS=1 cargo test bad::` writes them anew, to be read in the diff.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Words that a transcript may use besides the shell's.
const WORDS: &str = r#"
rows() {
  for table in "$@"; do
    if [ ! -d "$table" ]; then echo "$table: no table"; continue; fi
    if [ -d "$table/_delta_log" ]; then
      raw=$(cat "$table"/_delta_log/*.json | grep -o 'numRecords[\\]":[0-9]*' | grep -o '[0-9]*$' | awk '{n += $1} END {print n + 0}')
      echo "$table: $(table-cli count "$table" -o csv | tail -n 1 | cut -d, -f1) counted, $raw by the log"
      continue
    fi
    newest=$(ls "$table/snapshot" 2>/dev/null | sed -n 's/^snapshot-//p' | sort -n | tail -1)
    raw=$(grep -o '"totalRecordCount" *: *[0-9]*' "$table/snapshot/snapshot-$newest" 2>/dev/null | grep -o '[0-9]*$')
    echo "$table: $(table-cli count "$table" -o csv | tail -n 1 | cut -d, -f1) counted, ${raw:-no snapshot} by the snapshot"
  done
}
dead() { table-cli dead-letters "$1" -o jsonl | sort; }
commit() { printf 'lake/t/_delta_log/%020d.json' "$1"; }
again() { rm -r lake; cp -r old lake; }
protocol() { again; sed -i "s/\"protocol\":{[^}]*}/\"protocol\":$1/" "$(commit 0)"; }
findings() { table-cli "$1" lake/t -o csv 2>/dev/null | grep '^finding' | sed 's/,,*/,/g'; }
"#;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bad")
}

/// Copies a folder; links stay links.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Runs one typed line and shows what came back.
fn typed(line: &str, dir: &Path) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_table-cli")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{WORDS}\n{line}")).current_dir(dir).stdin(Stdio::null());
    shell.env("PATH", path).env("DIR", dir).env("LC_ALL", "C.UTF-8").env_remove("RUST_LOG").env_remove("LAKEWARD_UNSET");
    let output = shell.output().unwrap();
    let mut text = String::new();
    let tidy = |bytes: &[u8]| redact(&String::from_utf8_lossy(bytes).replace(dir.to_str().unwrap(), "$DIR"));
    for out in tidy(&output.stdout).lines() {
        writeln!(text, "{out}").unwrap();
    }
    for err in tidy(&output.stderr).lines() {
        writeln!(text, "! {err}").unwrap();
    }
    match output.status.code() {
        Some(0) => {}
        Some(code) => writeln!(text, "[exit {code}]").unwrap(),
        None => writeln!(text, "[killed: {}]", output.status).unwrap(),
    }
    text
}

/// Takes out what differs from run to run.
fn redact(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let fits = |at: usize, pattern: &str| {
        pattern.chars().enumerate().all(|(i, p)| match (chars.get(at + i), p) {
            (Some(c), 'x') => c.is_ascii_hexdigit() && !c.is_ascii_uppercase(),
            (Some(c), '9') => c.is_ascii_digit(),
            (Some(c), p) => *c == p,
            (None, _) => false,
        })
    };
    const UUID: &str = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    // Only the time of a dead letter: what input says stays.
    const TIME: &str = "\"time\":\"9999-99-99T99:99:99.";
    let tries = |at: usize| {
        let digits = (at..).take_while(|i| chars.get(*i).is_some_and(|c| c.is_ascii_digit())).count();
        let rest: String = chars.iter().skip(at + digits).take(20).collect();
        let rest = rest.strip_prefix(" tries in ").filter(|_| digits > 0)?;
        Some(digits + " tries in ".len() + rest.find(' ')? + " s".len())
    };
    let mut out = String::new();
    let mut at = 0;
    while at < chars.len() {
        if fits(at, UUID) {
            out.push_str("$UUID");
            at += UUID.len();
        } else if let Some(length) = tries(at) {
            out.push_str("$TRIES");
            at += length;
        } else if fits(at, TIME) {
            out.push_str("\"time\":\"$TIME");
            at += TIME.len();
            while at < chars.len() && chars[at] != '"' {
                at += 1;
            }
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// Plays one case; both transcripts when they differ.
fn play(case: &Path) -> Result<(), String> {
    let file = case.join("transcript.txt");
    let wanted = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let temp = tempfile::tempdir().unwrap();
    // Without links in it, so that it is found again in messages.
    let dir = std::fs::canonicalize(temp.path()).unwrap();
    copy(case, &dir);
    std::fs::remove_file(dir.join("transcript.txt")).unwrap();
    let mut came = String::new();
    for line in wanted.lines() {
        if line.starts_with('#') || line.is_empty() {
            writeln!(came, "{line}").unwrap();
        } else if let Some(command) = line.strip_prefix("$ ") {
            writeln!(came, "{line}").unwrap();
            came.push_str(&typed(command, &dir));
        }
    }
    if came == wanted {
        return Ok(());
    }
    if std::env::var_os("LAKEWARD_WRITE_TRANSCRIPTS").is_some() {
        std::fs::write(&file, came).unwrap();
        return Ok(());
    }
    Err(format!("==== {} ====\n---- wanted\n{wanted}\n---- came\n{came}", case.display()))
}

#[test]
fn bad_input_is_told_exactly_and_takes_no_neighbour_along() {
    let only = std::env::var("LAKEWARD_CASE").unwrap_or_default();
    let mut all: Vec<PathBuf> = std::fs::read_dir(cases()).unwrap().map(|e| e.unwrap().path()).collect();
    all.retain(|case| case.is_dir() && case.to_str().unwrap().contains(&only));
    all.sort();
    assert!(!all.is_empty() && (all.len() >= 40 || !only.is_empty()), "only {} cases", all.len());
    let (left, wrong) = (Mutex::new(all), Mutex::new(Vec::new()));
    let worker = || {
        loop {
            let Some(case) = left.lock().unwrap().pop() else { break };
            if let Err(why) = play(&case) {
                wrong.lock().unwrap().push(why);
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(worker))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} cases differ\n{}", wrong.len(), wrong.join("\n"));
}
