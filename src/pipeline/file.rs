//! The pipeline file: its types, reading it, and where in it each part stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::yaml::{self, Mark, Node, Texts, Value};
use super::{check, location, read, shape, write};
pub use crate::decode::{ColumnSpec, OnNewField};
use crate::error::{Error, Result};
pub use crate::format::Format;
use crate::schema::Hex;
pub use crate::source::{KafkaStart, KafkaStop, KafkaTopics, OnChange, OnDataLoss, Watch};
pub use crate::store::Durability;

/// A pipeline: where records come from, how they become rows, where rows go. Complete, valid, with every location absolute.
///
/// `Debug` prints what [`PipelineFile::to_yaml_masked`] does.
#[derive(Clone)]
pub struct PipelineFile {
    /// The name: `[a-z0-9][a-z0-9_-]{0,62}`.
    pub pipeline: String,
    /// Where records come from.
    pub source: SourceSpec,
    /// How bytes become fields.
    pub decode: Decode,
    /// Where rows go; at least one.
    pub sinks: Vec<SinkSpec>,
    /// Where bad records go; none: the first one stops the run.
    pub dead_letter: Option<DeadLetterSpec>,
    /// The chain and its triggers.
    pub checkpoint: CheckpointSpec,
    /// How commits behave.
    pub commit: CommitSpec,
    /// What local disk does before something is acknowledged.
    pub durability: Durability,
    /// What buffers may hold in all, bytes.
    pub memory: u64,
    /// Threads for decoding and encoding.
    pub threads: usize,
    /// Where `/metrics` and `/healthz` are answered; none: nowhere. Port 0: any that is free.
    pub metrics: Option<SocketAddr>,
    /// When too long without a commit is too long; none: never.
    pub watchdog: Option<WatchdogSpec>,
    pub(super) origin: Arc<Origin>,
}

/// The source, and what its end means.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSpec {
    /// Which source.
    pub kind: SourceKind,
    /// What happens when it ends; of no importance to a source that never does.
    pub at_end: AtEnd,
}

/// Which source.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceKind {
    /// A Kafka cluster.
    Kafka(KafkaSource),
    /// Files on local disk.
    Files(FilesSource),
    /// Standard input; at least once.
    Stdin,
    /// Made-up rows.
    Generate(GenerateSource),
}

impl SourceSpec {
    /// Does it never end?
    pub fn is_unbounded(&self) -> bool {
        match &self.kind {
            SourceKind::Kafka(kafka) => kafka.stop == KafkaStop::Never,
            SourceKind::Generate(generate) => generate.rows.is_none(),
            SourceKind::Files(files) => files.watch.is_some(),
            SourceKind::Stdin => false,
        }
    }
}

/// What the end of the input means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtEnd {
    /// The lineage ends; new input begins another.
    Close,
    /// The lineage stays open; the next run goes on.
    Pause,
}

/// `source.kafka`.
#[derive(Clone, Debug, PartialEq)]
pub struct KafkaSource {
    /// `host:port,...`
    pub bootstrap_servers: String,
    /// Which topics.
    pub topics: KafkaTopics,
    /// Where a new lineage starts.
    pub start: KafkaStart,
    /// Where it stops.
    pub stop: KafkaStop,
    /// What to do when records were deleted before they were read.
    pub on_data_loss: OnDataLoss,
    /// A partition without records for this long, and with none that waits, is told of as idle; none: never.
    pub idle_after: Option<Duration>,
    /// Handed to the Kafka client.
    pub properties: Properties,
}

/// `source.files`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesSource {
    /// Absolute paths; `*`, `?`, `[..]` and `**` as in a glob.
    pub paths: Vec<String>,
    /// Goes on for ever with what appears and what grows; none: reads what is there, and ends.
    pub watch: Option<Watch>,
}

/// `source.generate`.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateSource {
    /// How many rows; none: it never ends.
    pub rows: Option<u64>,
    /// How fast; none: as fast as it goes. Greater than 0.
    pub rows_per_second: Option<f64>,
    /// The process exits while it handles this row (from 1), only in the process that wrote `open`.
    pub fail_at: Option<u64>,
}

/// How bytes become fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decode {
    /// One JSON object for each record.
    Json,
    /// Comma-separated values.
    Csv(CsvSpec),
    /// Parquet files, whose rows are columns already.
    Parquet,
}

/// The dialect of a CSV file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvSpec {
    /// Does the first line name the columns?
    pub header: bool,
    /// Between fields; one ASCII character.
    pub delimiter: u8,
    /// Around fields; one ASCII character.
    pub quote: u8,
    /// An unquoted field with this text is null, besides the empty one.
    pub null: Option<String>,
}

/// One of `sinks`.
#[derive(Clone, Debug, PartialEq)]
pub struct SinkSpec {
    /// Absolute path, or URL.
    pub location: String,
    /// The table format; none: that of the table that is there, else Paimon.
    pub format: Option<Format>,
    /// Columns in order; none: those of the table, else inferred from the first records.
    pub columns: Option<Vec<ColumnSpec>>,
    /// Rows for which one of these is not true are dead letters.
    pub checks: Vec<String>,
    /// Partition columns in order.
    pub partition_by: Vec<String>,
    /// What to do with a field of a record that is no column.
    pub on_new_field: OnNewField,
    /// The format's own table options.
    pub options: Properties,
    /// Where the watermark comes from.
    pub watermark: Option<WatermarkSpec>,
}

/// Where the watermark comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatermarkSpec {
    /// A timestamp column.
    pub column: String,
    /// Taken off its largest value.
    pub lateness: Duration,
}

/// `dead_letter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetterSpec {
    /// Absolute path, or URL.
    pub location: String,
    /// The table format; none: that of the table that is there, else Paimon.
    pub format: Option<Format>,
}

/// `checkpoint`: whichever trigger comes first; without one there is a single checkpoint at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSpec {
    /// Absolute path, or URL; the chain is in a directory below, named after the pipeline.
    pub location: String,
    /// Time between checkpoints.
    pub every: Option<Duration>,
    /// Rows between checkpoints.
    pub rows: Option<u64>,
    /// Bytes of input between checkpoints.
    pub bytes: Option<u64>,
    /// How many checkpoints with messages are kept; at least 2.
    pub keep: u32,
}

/// `commit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitSpec {
    /// Does a checkpoint without rows make a snapshot?
    pub empty: bool,
    /// How long a commit is tried.
    pub timeout: Duration,
}

/// `watchdog`: no commit for so long while input waits is told as an error, and makes the pipeline unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogSpec {
    /// How many intervals without a commit are too many.
    pub intervals: u32,
    /// One interval: `checkpoint.every`, else a minute.
    pub interval: Duration,
    /// Does the run end then, as unavailable?
    pub exit: bool,
}

impl WatchdogSpec {
    /// An interval where time is no trigger.
    pub const WITHOUT_EVERY: Duration = Duration::from_secs(60);

    /// Ten intervals, and a minute at least.
    pub fn new(every: Option<Duration>) -> WatchdogSpec {
        let interval = every.unwrap_or(Self::WITHOUT_EVERY);
        let a_minute = Duration::from_secs(60).as_millis().div_ceil(interval.as_millis().max(1));
        WatchdogSpec { intervals: u32::try_from(a_minute).unwrap_or(u32::MAX).max(10), interval, exit: false }
    }
    /// Without a commit for so long, input waiting, something is wrong.
    pub fn limit(&self) -> Duration {
        self.interval.saturating_mul(self.intervals)
    }
}

/// Keys and texts that are handed on. `Debug` masks what looks secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties {
    pub(super) entries: BTreeMap<String, String>,
    pub(super) from_env: BTreeSet<String>,
    pub(super) files: BTreeMap<String, PathBuf>,
}

impl Properties {
    /// Keys whose text is in a file, with its absolute path. The file is read by whoever needs the text, each time anew.
    pub fn files(&self) -> &BTreeMap<String, PathBuf> {
        &self.files
    }
    /// Each key with its text, `***` instead of what looks secret. Without those in a file.
    pub fn masked(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), if self.is_secret(key) { "***" } else { value.as_str() }))
    }
    fn is_secret(&self, key: &str) -> bool {
        let is_public = key.ends_with("token.endpoint.url");
        (yaml::names_secret(key) && !is_public)
            || (self.from_env.contains(key) && key.to_lowercase().split(['.', '_', '-']).any(|word| word == "key"))
    }
}

impl Deref for Properties {
    type Target = BTreeMap<String, String>;
    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.masked()).entries(&self.files).finish()
    }
}

/// The text of the file and where each part stands in it.
pub(super) struct Origin {
    pub(super) texts: Texts,
    pub(super) places: BTreeMap<String, Mark>,
    pub(super) base: PathBuf,
}

impl Origin {
    /// Where `path` stands, or the nearest thing above it that is written down.
    fn mark(&self, path: &str) -> Option<Mark> {
        let mut path = path;
        loop {
            if let Some(mark) = self.places.get(path) {
                return Some(*mark);
            }
            path = path.rsplit_once('.')?.0;
        }
    }
    pub(super) fn locate(&self, path: &str, error: Error) -> Error {
        match self.mark(path) {
            Some(mark) => self.texts.locate(mark, error),
            None => error.at(&self.texts.file),
        }
    }
}

impl PipelineFile {
    /// Reads a file. Relative paths in it are taken from its folder, environment variables from this process; `set` holds
    /// `PATH=VALUE` texts that override the file, as in `sinks.0.format=paimon`.
    pub fn load(path: &Path, set: &[String]) -> Result<PipelineFile> {
        let name = path.display().to_string();
        let failed = |what: String, hint: &str| Error::invalid(what).at(&name).hint(hint);
        let bytes = std::fs::read(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => failed("there is no such file".to_owned(), "give the path of a pipeline file"),
            _ => failed("the pipeline file cannot be read".to_owned(), "give the path of a readable file").because(e),
        })?;
        if bytes.len() > yaml::MAX_BYTES {
            let what = format!("{} bytes are more than a pipeline file can have", bytes.len());
            return Err(failed(what, "is this the data rather than the pipeline file?"));
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            failed(format!("byte {at} is not UTF-8"), "save the pipeline file as UTF-8")
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, &name, base, set, &|variable| std::env::var(variable).ok())
    }

    /// Reads a text: `file_name` is for messages, `base_dir` is where relative paths start, `env` answers for environment variables.
    pub fn parse(
        text: &str,
        file_name: &str,
        base_dir: &Path,
        set: &[String],
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<PipelineFile> {
        let texts = Texts { file: file_name.to_owned(), text: text.to_owned(), sets: set.to_vec() };
        let root = yaml::parse(&texts)?;
        Self::build(texts, root, base_dir, env)
    }

    /// The pipeline of `ingest --from FILES --to LOCATION`: it is named after the location's last part, its chain is in `_checkpoints`
    /// beside the table, columns are inferred, the first bad record stops it. `from` holds paths or globs, or only `-` for standard input.
    /// Relative ones are taken from `base_dir`; `set` as in [`PipelineFile::load`].
    pub fn for_command(
        from: &[String],
        to: &str,
        base_dir: &Path,
        set: &[String],
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<PipelineFile> {
        let mark = Mark::default();
        let text = |value: &str| Node::quoted(value.replace('$', "$$"), mark);
        let source = match from {
            [] => return Err(Error::invalid("`--from` names no file").hint("give at least one path, or `-` for standard input")),
            [dash] if dash == "-" => Node::map(vec![("stdin", Node::map(Vec::new(), mark))], mark),
            _ => {
                // What exists under exactly this name is no glob.
                let exact = |path: &String| if base_dir.join(path).exists() { glob::Pattern::escape(path) } else { path.clone() };
                let paths = from.iter().map(|path| text(&exact(path))).collect();
                let paths = Node { value: Value::List(paths), mark };
                Node::map(vec![("files", Node::map(vec![("paths", paths)], mark))], mark)
            }
        };
        let table = location::absolute(to, base_dir).map_err(|e| e.at("--to"))?;
        let Some((parent, last)) = table.rsplit_once('/').filter(|(parent, last)| !last.is_empty() && !parent.ends_with("/")) else {
            return Err(Error::invalid(format!("`{to}` has no last part to name the table")).at("--to").hint("give a directory below it"));
        };
        let sink = Node::map(vec![("location", text(&table))], mark);
        let root = vec![
            ("version", Node::plain("1", mark)),
            ("pipeline", text(&pipeline_name(last))),
            ("source", source),
            ("sinks", Node { value: Value::List(vec![sink]), mark }),
            ("checkpoint", Node::map(vec![("location", text(&format!("{parent}/_checkpoints")))], mark)),
        ];
        let texts = Texts { file: "--from, --to".to_owned(), text: String::new(), sets: set.to_vec() };
        Self::build(texts, Node::map(root, mark), base_dir, env)
    }

    fn build(texts: Texts, mut root: Node, base_dir: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<PipelineFile> {
        // Overrides come first: what they replace need not be valid, nor its environment variables set.
        for index in 0..texts.sets.len() {
            shape::set(&texts, &mut root, index)?;
        }
        yaml::expand(&texts, &mut root, env)?;
        shape::check(&texts, &root, &shape::FILE, "")?;
        let mut places = BTreeMap::new();
        read::places(&root, "", &mut places);
        let base = location::clean(base_dir, Path::new(""))?;
        let file = read::file(&root, Arc::new(Origin { texts, places, base }))?;
        check::check(&file)?;
        Ok(file)
    }

    /// Where a part stands, as `file:line:col`. `path` is written as for `--set`: `sinks.0.columns.amount`, `sinks.0.checks.0`. A part
    /// that is not written down stands where the nearest part above it does.
    pub fn place(&self, path: &str) -> Option<String> {
        self.origin.mark(path).map(|mark| self.origin.texts.place(mark))
    }

    /// Adds to an error about the part at `path` (see [`PipelineFile::place`]) its place, source line and caret.
    pub fn locate(&self, path: &str, error: Error) -> Error {
        self.origin.locate(path, error)
    }

    /// The file's name, as it was given.
    pub fn file_name(&self) -> &str {
        &self.origin.texts.file
    }

    /// Where relative paths start: the folder of the pipeline file, absolute.
    pub fn base_dir(&self) -> &Path {
        &self.origin.base
    }

    /// The whole pipeline with its defaults, as a pipeline file; `***` instead of what looks secret.
    pub fn to_yaml_masked(&self) -> String {
        write::yaml(self)
    }
}

impl fmt::Debug for PipelineFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_yaml_masked())
    }
}

/// A valid pipeline name from the last part of a location. What had to be changed gets a hash, so that two tables never share a chain.
fn pipeline_name(last: &str) -> String {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let mut name: String = last.to_lowercase().chars().map(|c| if fits(c) { c } else { '-' }).collect();
    name = name.trim_matches(['-', '_']).chars().take(63).collect();
    if name != last {
        let hash = Sha256::digest(last.as_bytes());
        name = format!("{}-{}", name.chars().take(50).collect::<String>(), Hex(&hash[..4]));
    }
    name.trim_start_matches('-').to_owned()
}
