//! What works beside a run, on a thread of its own: the watchdog, and the answers to those who ask over HTTP. The run may compute for long,
//! or hang in a call to a disk that is away; who asks how it stands is answered nevertheless.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::Notify;

use super::Monitor;
use crate::error::{Error, Result};
use crate::pipeline::file::PipelineFile;
use crate::stream::Events;

/// Ends the thread when dropped.
pub(in crate::pipeline) struct Beside {
    over: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Beside {
    /// Binds the address first, so that one that cannot be had is known before anything is written. None under simulation, where there are
    /// no threads.
    pub(in crate::pipeline) fn start(monitor: Arc<Monitor>, file: &PipelineFile, events: Events) -> Result<Option<Beside>> {
        if !monitor.env.threads() {
            return Ok(None);
        }
        let failed = |e| Error::unavailable("the thread that watches over the run cannot be started").because(e);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        #[cfg(feature = "metrics")]
        let server = match file.metrics.map(|address| super::serve::Server::bind(&runtime, file, address)).transpose() {
            Ok(server) => server,
            Err(error) => {
                // Whoever starts the run is in a runtime of its own, where one may not be dropped.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        #[cfg(feature = "metrics")]
        if let Some(server) = &server {
            events.tell(crate::stream::Event::Serving { address: server.address });
        }
        #[cfg(not(feature = "metrics"))]
        if file.metrics.is_some() {
            let e = Error::invalid("this program was built without `metrics`").hint("remove the key, or build with the feature `metrics`");
            runtime.shutdown_background();
            return Err(file.locate("metrics", e));
        }
        let over = Arc::new(Notify::new());
        let done = over.clone();
        let work = move || {
            runtime.block_on(async {
                let looking = async {
                    loop {
                        monitor.env.sleep(monitor.look_every()).await;
                        monitor.look(&|event| events.tell(event));
                    }
                };
                #[cfg(feature = "metrics")]
                let serving = async {
                    match server {
                        Some(server) => server.run(&monitor).await,
                        None => futures::future::pending().await,
                    }
                };
                #[cfg(not(feature = "metrics"))]
                let serving = futures::future::pending::<()>();
                tokio::select! { () = done.notified() => {}, () = looking => {}, () = serving => {} }
            });
            runtime.shutdown_background();
        };
        // The one thread of a pipeline: the commit path knows nothing of it, and it only reads.
        let thread = std::thread::Builder::new().name("lakeward-beside".to_owned()).spawn(work).map_err(failed)?;
        Ok(Some(Beside { over, thread: Some(thread) }))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.over.notify_one();
        if let Some(thread) = self.thread.take() {
            // When it has panicked, the panic was printed. After this the port is free.
            drop(thread.join());
        }
    }
}
