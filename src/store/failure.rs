//! What a failed store call means, and the one loop that tries it again.

use std::error::Error as StdError;
use std::io;

use rustix::io::Errno;

use super::Store;
use crate::env::Deadline;
use crate::error::{Error, Result};

/// What is known after a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// There is no such object.
    Absent,
    /// A create found the name taken, perhaps by itself.
    Exists,
    /// Whether the call had an effect is not known. It may be tried again.
    Unclear,
    /// The call certainly had no effect. It may be tried again.
    Failed,
    /// The call certainly had no effect, and will not have one until somebody changes something.
    Refused,
    /// What was written so far cannot be trusted and cannot be written again from here.
    Lost,
    /// The object is shorter than the range that was asked for.
    Short,
}

/// A failed store call: what it means and what the store said.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) verdict: Verdict,
    pub(crate) error: Box<dyn StdError + Send + Sync>,
}

impl Failure {
    pub(crate) fn new(verdict: Verdict, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Failure { verdict, error: error.into() }
    }

    /// The same failure, with another meaning in the place where it happened.
    pub(crate) fn meaning(mut self, from: Verdict, to: Verdict) -> Self {
        if self.verdict == from {
            self.verdict = to;
        }
        self
    }

    /// A definite refusal as an error.
    pub(crate) fn refused(self, store: &Store, what: &str, name: &str) -> Error {
        let text = self.error.to_string();
        let hint = refusal_hint(&text);
        Error::invalid(format!("the store refuses to {what} this")).at(store.place(name)).because(self.error).hint(hint)
    }
}

fn refusal_hint(text: &str) -> &'static str {
    if missing_bucket(text) {
        "create the bucket or correct the location"
    } else if text.contains("os error 13") || text.contains("os error 1)") {
        "let the user that runs this read and write there, or correct the location"
    } else if ["401", "403", "denied", "privileges", "credentials"].iter().any(|word| text.contains(word)) {
        "check the credentials in the environment and what they are allowed to do"
    } else if text.contains("redirect") {
        "set the region (AWS_REGION) and endpoint of the bucket"
    } else if text.contains("os error 22") {
        "this file system has no fsync of directories: choose another one, or durability: none"
    } else {
        "correct the location or the name"
    }
}

fn missing_bucket(text: &str) -> bool {
    ["NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist"].iter().any(|word| text.contains(word))
}

/// S3 answers a body that came too slowly, or not as it was sent, with 400: that is the network, not the request.
fn damaged_on_the_way(text: &str) -> bool {
    ["RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"].iter().any(|code| text.contains(code))
}

/// The whole chain of causes as one text: stores put the HTTP status there and nowhere else.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        text.push('\n');
        text.push_str(&e.to_string());
        cause = e.source();
    }
    text
}

fn http_status(text: &str) -> Option<u16> {
    text.split("status code: ").nth(1)?.get(..3)?.parse().ok()
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        let text = chain(&error);
        let verdict = match &error {
            E::NotFound { .. } if missing_bucket(&text) => Verdict::Refused,
            E::NotFound { .. } => Verdict::Absent,
            E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. } => Verdict::Exists,
            E::PermissionDenied { .. } | E::Unauthenticated { .. } | E::InvalidPath { .. } => Verdict::Refused,
            E::NotSupported { .. } | E::NotImplemented { .. } | E::UnknownConfigurationKey { .. } => Verdict::Refused,
            _ if text.contains("Wanted range starting at") => Verdict::Short,
            _ => match http_status(&text) {
                Some(400) if damaged_on_the_way(&text) => Verdict::Unclear,
                Some(400 | 401 | 403 | 405 | 411 | 413 | 414 | 501) => Verdict::Refused,
                Some(404) if missing_bucket(&text) => Verdict::Refused,
                Some(416) => Verdict::Short,
                _ if text.contains("redirect without LOCATION") => Verdict::Refused,
                _ => Verdict::Unclear,
            },
        };
        Failure::new(verdict, error)
    }
}

impl From<io::Error> for Failure {
    /// For calls whose failure is final as far as the kernel is concerned. A full or read-only disk may come back: tried again.
    fn from(error: io::Error) -> Self {
        let verdict = match Errno::from_io_error(&error) {
            _ if error.kind() == io::ErrorKind::NotFound => Verdict::Absent,
            Some(Errno::NAMETOOLONG | Errno::LOOP | Errno::ISDIR | Errno::INVAL) => Verdict::Refused,
            _ if error.kind() == io::ErrorKind::InvalidInput => Verdict::Refused,
            _ => Verdict::Failed,
        };
        Failure::new(verdict, error)
    }
}

fn disk_hint(text: &str) -> &'static str {
    if text.contains("os error 28") || text.contains("os error 122") {
        "make room on the disk and run it again"
    } else if ["os error 1)", "os error 13", "os error 30"].iter().any(|e| text.contains(e)) {
        "make the directory writable and run it again"
    } else if text.contains("os error 20") {
        "a file stands where a directory must be; move it and run it again"
    } else {
        "run it again when the disk answers"
    }
}

/// Tries one call again and again until the store's patience, or a deadline, ends.
pub(crate) struct Retry<'a> {
    store: &'a Store,
    what: &'static str,
    name: &'a str,
    since: std::time::Duration,
    deadline: Deadline,
    attempt: u32,
}

impl<'a> Retry<'a> {
    /// `what` is a verb: read, write, list.
    pub(crate) fn new(store: &'a Store, what: &'static str, name: &'a str) -> Self {
        Self::until(store, what, name, store.env().deadline(store.patience()))
    }

    pub(crate) fn until(store: &'a Store, what: &'static str, name: &'a str, deadline: Deadline) -> Self {
        Retry { store, what, name, since: store.env().monotonic(), deadline, attempt: 0 }
    }

    /// Number of failed tries so far.
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Waits before the next try, or says why there is none.
    pub(crate) async fn again(&mut self, failure: Failure) -> Result<()> {
        match failure.verdict {
            Verdict::Failed if self.store.is_file() => {
                return Err(Error::invalid("this is a file, not a directory").at(self.store.url()).hint("correct the location"));
            }
            Verdict::Refused => return Err(failure.refused(self.store, self.what, self.name)),
            Verdict::Short => {
                return Err(Error::data("the object is shorter than it must be")
                    .at(self.store.place(self.name))
                    .because(failure.error)
                    .hint("it was cut or replaced; restore it from a backup"));
            }
            Verdict::Lost => return Err(self.give_up(failure)),
            _ => {}
        }
        self.attempt += 1;
        let env = self.store.env();
        let Some(left) = env.left(self.deadline) else { return Err(self.give_up(failure)) };
        self.store.retrying(self.what, self.name, self.attempt, &failure.error.to_string());
        env.sleep(env.backoff(self.attempt - 1).min(left)).await;
        Ok(())
    }

    pub(crate) fn give_up(&self, failure: Failure) -> Error {
        let spent = self.store.env().monotonic().saturating_sub(self.since);
        let text = failure.error.to_string();
        let hint = if self.store.is_local() {
            disk_hint(&text)
        } else if text.contains("169.254.169.254") {
            "no credentials in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), and no machine role answers"
        } else {
            "run it again when the store answers"
        };
        let tries = self.attempt.max(1);
        Error::unavailable(format!("could not {} this: {tries} tries in {:.1} s", self.what, spent.as_secs_f64()))
            .at(self.store.place(self.name))
            .because(failure.error)
            .hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: &str, code: &str) -> Verdict {
        let source = format!("Server returned non-2xx status code: {status}: <Error><Code>{code}</Code></Error>");
        Failure::from(object_store::Error::Generic { store: "S3", source: source.into() }).verdict
    }

    #[test]
    fn throttled_away_or_damaged_on_the_way_is_unclear_and_a_bad_request_is_refused() {
        for (status, code) in [
            ("503 Service Unavailable", "SlowDown"),
            ("503 Slow Down", "SlowDown"),
            ("429 Too Many Requests", "TooManyRequests"),
            ("500 Internal Server Error", "InternalError"),
            ("408 Request Timeout", "RequestTimeout"),
            ("400 Bad Request", "RequestTimeout"),
            ("400 Bad Request", "IncompleteBody"),
            ("400 Bad Request", "BadDigest"),
            ("400 Bad Request", "XAmzContentSHA256Mismatch"),
        ] {
            assert_eq!(verdict(status, code), Verdict::Unclear, "{status} {code}");
        }
        for (status, code) in [("400 Bad Request", "InvalidArgument"), ("501 Not Implemented", "NotImplemented")] {
            assert_eq!(verdict(status, code), Verdict::Refused, "{status} {code}");
        }
        // A 200 that turns out to be an error in its body.
        let source = "Server returned error response: <Error><Code>SlowDown</Code></Error>".into();
        assert_eq!(Failure::from(object_store::Error::Generic { store: "S3", source }).verdict, Verdict::Unclear);
    }

    #[test]
    fn a_409_and_a_412_say_that_the_name_may_be_taken_and_no_more() {
        let (path, source) = ("n".to_owned(), || "status code: 409".into());
        let conflict = object_store::Error::AlreadyExists { path: path.clone(), source: source() };
        assert_eq!(Failure::from(conflict).verdict, Verdict::Exists);
        assert_eq!(Failure::from(object_store::Error::Precondition { path, source: source() }).verdict, Verdict::Exists);
    }
}
