//! SIGINT and SIGTERM: the first asks the run to stop; the second, or 25 seconds, ends the process. The same signal twice at once is one:
//! `timeout` sends it to the process and to its group.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::cli::logs::Logs;
use crate::env::Env;
use crate::error::{Error, Kind, Result};
use crate::stream::coordinator::Stop;

/// How long a run may take to finish what is pending. Kubernetes kills after 30 seconds.
const GRACE: Duration = Duration::from_secs(25);
/// How long a run that was given up may take to return.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The same signal again within this time is no second one.
const ECHO: Duration = Duration::from_millis(200);

/// Runs `work` under the signals. They are watched on another thread: they are obeyed also while `work` computes or hangs in a call.
/// `given_up`: the watchdog ends the run; `work` then returns by itself, unless it hangs.
pub(crate) async fn watched<T>(
    env: &Env,
    logs: &Logs,
    stop: Stop,
    given_up: impl Future<Output = Error> + Send + 'static,
    work: impl Future<Output = T>,
) -> Result<T> {
    let mut signals = Signals::new()?;
    let over = Over(Arc::new(Notify::new()));
    let (runtime, clock, logs, done) = (tokio::runtime::Handle::current(), env.clone(), logs.clone(), over.0.clone());
    let watch = env.cpu(move || {
        runtime.block_on(async move {
            let given_up = async {
                let error = given_up.await;
                clock.sleep(LAST_WORDS).await;
                error
            };
            let first = tokio::select! {
                () = done.notified() => return,
                error = given_up => {
                    logs.error(&error);
                    // Not by returning: a destructor may wait for what hangs.
                    std::process::exit(i32::from(error.kind().exit_code()));
                }
                signal = signals.next() => signal,
            };
            stop.request();
            tracing::info!("stopping: what is pending and what was read is committed; a second signal ends the process at once");
            let at = clock.monotonic();
            let second = async { while signals.next().await == first && clock.monotonic().saturating_sub(at) < ECHO {} };
            let why = tokio::select! {
                () = done.notified() => return,
                () = second => "a second signal came",
                () = clock.sleep(GRACE) => "25 seconds have passed",
            };
            let hint = "nothing is lost and nothing doubled: start again, what is pending is finished first";
            logs.error(&Error::unavailable(format!("the process ends before everything was committed: {why}")).hint(hint));
            // Not by returning: a destructor may wait for what hangs.
            std::process::exit(i32::from(Kind::Unavailable.exit_code()));
        });
    });
    let work = async {
        let _over = over;
        work.await
    };
    let ((), result) = futures::join!(watch, work);
    Ok(result)
}

/// SIGINT and SIGTERM.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Watches for them from now on: neither ends the process any more.
    pub(crate) fn new() -> Result<Signals> {
        let watch = |kind| signal(kind).map_err(|e| Error::unavailable("signals cannot be watched").because(e));
        Ok(Signals { interrupt: watch(SignalKind::interrupt())?, terminate: watch(SignalKind::terminate())? })
    }
    /// The next of either.
    pub(crate) async fn next(&mut self) -> SignalKind {
        tokio::select! { _ = self.interrupt.recv() => SignalKind::interrupt(), _ = self.terminate.recv() => SignalKind::terminate() }
    }
}

/// Lets the watcher go, also when the work panics: the runtime would wait for its thread.
struct Over(Arc<Notify>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}
