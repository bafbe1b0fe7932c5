//! What happens, told while it happens: a line each on standard output where the report is drawn there, else in the log.

use std::time::Duration;

use crate::cli::Failed;
use crate::cli::logs::{Logs, Progress};
use crate::cli::output::{Form, Output};
use crate::env::Env;

/// Without a bar: at most one line of progress in this time.
const PAUSE: Duration = Duration::from_secs(2);
const WIDTH: u64 = 30;

/// The teller.
pub(super) struct Story<'a> {
    output: &'a mut Output,
    bar: Option<Progress>,
    env: Env,
    began: Duration,
    of: u64,
    last: (Duration, u64),
}

impl<'a> Story<'a> {
    pub(super) fn new(output: &'a mut Output, logs: &Logs, env: Env, of: u64) -> Story<'a> {
        let began = env.monotonic();
        Story { output, bar: logs.progress(String::new), env, began, of, last: (Duration::ZERO, 0) }
    }

    /// Since the demo began.
    pub(super) fn elapsed(&self) -> Duration {
        self.env.monotonic().saturating_sub(self.began)
    }

    /// The first line.
    pub(super) fn heading(&mut self, text: &str) -> Result<(), Failed> {
        self.say(text)
    }

    /// Something that happened just now.
    pub(super) fn tell(&mut self, what: &str, text: &str) -> Result<(), Failed> {
        if self.output.form() != Form::Table {
            tracing::info!("{what}: {text}");
            return Ok(());
        }
        let line = format!("{:5.1} s  {what:<9} {text}", self.elapsed().as_secs_f64());
        self.say(&line)
    }

    fn say(&mut self, line: &str) -> Result<(), Failed> {
        let output = &mut self.output;
        if output.form() != Form::Table {
            tracing::info!("{line}");
            return Ok(());
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| output.text(line)),
            None => output.text(line),
        }
    }

    /// How far it is: in the bar, or now and then on a line.
    pub(super) fn progress(&mut self, produced: u64, visible: u64) -> Result<(), Failed> {
        let text = format!("{} produced, {} of {} are rows of the table", thousands(produced), thousands(visible), thousands(self.of));
        if let Some(bar) = &self.bar {
            let full = (visible * WIDTH / self.of.max(1)).min(WIDTH);
            let drawn: String = (0..WIDTH).map(|at| if at < full { '█' } else { '░' }).collect();
            bar.set(format!("{drawn} {text}"));
            return Ok(());
        }
        let now = self.elapsed();
        if visible == self.last.1 || now.saturating_sub(self.last.0) < PAUSE {
            return Ok(());
        }
        self.last = (now, visible);
        self.tell("progress", &text)
    }

    /// Takes the bar away.
    pub(super) fn end(self) {}
}

/// `1,234,567`.
pub(super) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
