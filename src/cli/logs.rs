//! What goes to standard error: logs, progress, the error at the end. Nothing here fails when nobody reads it.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use serde_json::json;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::cli::args::{Global, LogFormat};
use crate::error::Error;

/// The process's standard error. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Logs {
    format: LogFormat,
    bar: Bar,
    /// May there be a bar?
    animated: bool,
    plain: bool,
    verbose: bool,
}

impl Logs {
    /// Begins to log, once in a process.
    pub(crate) fn start(global: &Global) -> Logs {
        let terminal = io::stderr().is_terminal();
        let plain = !terminal || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let default = match (global.quiet, global.verbose) {
            (true, _) => "error",
            (_, 0) => "warn,lakeward=info",
            // The command itself tells a run's events.
            (_, 1) => "info,lakeward=debug,lakeward::stream::event=info",
            (_, _) => "debug,lakeward=trace,lakeward::stream::event=info",
        };
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
        let bar = Bar::default();
        let builder = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(bar.clone())
            .with_ansi(!plain)
            .with_target(global.verbose > 1)
            .log_internal_errors(false); // it would panic on a closed standard error
        // A second call in one process (tests) keeps the first.
        let _ = match global.log_format {
            LogFormat::Text => builder.try_init(),
            LogFormat::Json => builder.json().flatten_event(true).try_init(),
        };
        let animated = terminal && !global.quiet && global.log_format == LogFormat::Text;
        Logs { format: global.log_format, bar, animated, plain, verbose: global.verbose > 0 }
    }

    /// Shows a bar when standard error is a terminal; none: lines are to be logged instead. `live` is asked for its end with each look.
    pub(crate) fn progress(&self, live: impl Fn() -> String + Clone + Send + Sync + 'static) -> Option<Progress> {
        if !self.animated {
            return None;
        }
        let bar = ProgressBar::new_spinner();
        let template = if self.plain { "{spinner} {elapsed} {live}{msg}" } else { "{spinner:.green} {elapsed} {live}{msg}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            // Another thread draws it: it goes on while the run waits.
            let live = move |_: &ProgressState, out: &mut dyn fmt::Write| {
                let _ = out.write_str(&live());
            };
            bar.set_style(style.with_key("live", live));
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        *self.bar.lock() = Some(bar.clone());
        Some(Progress { bar, shared: self.bar.clone() })
    }

    /// Says why the command failed, on one line, and on the next what to do.
    pub(crate) fn error(&self, error: &Error) {
        let text = match self.format {
            LogFormat::Text => in_words(error),
            LogFormat::Json => {
                let kind = format!("{:?}", error.kind());
                let what = without_hint(error);
                let line = json!({"level": "ERROR", "message": what, "kind": kind, "hint": error.next_step(), "exit_code": error.kind().exit_code()});
                format!("{line}\n")
            }
        };
        self.bar.tell(text.as_bytes());
    }

    /// Was more asked for?
    pub(crate) fn verbose(&self) -> bool {
        self.verbose
    }
}

fn in_words(error: &Error) -> String {
    match error.next_step() {
        // The line of the pipeline file comes with the hint; it is read before it.
        Some(hint) => match hint.split_once('\n') {
            Some((hint, lines)) => format!("error: {}\n{lines}\nhint: {hint}\n", without_hint(error)),
            None => format!("error: {}\nhint: {hint}\n", without_hint(error)),
        },
        None => format!("error: {}\n", without_hint(error)),
    }
}

/// `WHERE: WHAT (CAUSE)`.
fn without_hint(error: &Error) -> String {
    let all = error.to_string();
    match error.next_step().and_then(|hint| all.strip_suffix(hint)?.strip_suffix("; ")) {
        Some(rest) => rest.to_owned(),
        None => all,
    }
}

/// The bar, if there is one; whatever else is written makes room for it.
#[derive(Clone, Default)]
struct Bar(Arc<Mutex<Option<ProgressBar>>>);

impl Bar {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn tell(&self, bytes: &[u8]) {
        let bar = self.lock().clone();
        let write = || {
            let _ = io::stderr().lock().write_all(bytes);
        };
        match bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Write for Bar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tell(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Bar {
    type Writer = Bar;
    fn make_writer(&'a self) -> Bar {
        self.clone()
    }
}

/// A bar on a terminal, taken away when dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    shared: Bar,
}

impl Progress {
    /// What it says.
    pub(crate) fn set(&self, text: String) {
        self.bar.set_message(text);
    }
    /// Takes it away while something else is written.
    #[cfg(feature = "kafka")]
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.shared.lock() = None;
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_its_hint_the_next() {
        let cause = io::Error::other("disk on fire");
        let error = Error::data("the file ends early").at("a.gz").because(cause).hint("fetch it again; then start");
        assert_eq!(in_words(&error), "error: a.gz: the file ends early (disk on fire)\nhint: fetch it again; then start\n");
        assert_eq!(in_words(&Error::invalid("no")), "error: no\n");
    }
}
