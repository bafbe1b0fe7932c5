//! `/metrics` and `/healthz` over HTTP/1.1, one request a connection. Who asks slowly, or too often, is cut off; the run knows nothing of it.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::Monitor;
use crate::error::{Error, Result};
use crate::pipeline::file::PipelineFile;

/// So many are answered at the same time; others wait in the system's queue.
const MOST: usize = 64;
/// A request must have come, and its answer gone, within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request's head may be so long, bytes.
const HEAD: usize = 16 * 1024;
/// After a failure to accept (no file descriptor left), before the next try.
const PAUSE: Duration = Duration::from_millis(200);
/// The text format's own type.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A socket that listens.
pub(super) struct Server {
    listener: TcpListener,
    /// With the real port.
    pub(super) address: SocketAddr,
}

impl Server {
    /// `Invalid`: this machine has no such address, or the port needs a privilege. `Unavailable`: somebody else has it.
    pub(super) fn bind(runtime: &Runtime, file: &PipelineFile, address: SocketAddr) -> Result<Server> {
        use std::io::ErrorKind;
        let failed = |e: std::io::Error| {
            let error = match e.kind() {
                ErrorKind::AddrNotAvailable => Error::invalid(format!("this machine does not have the address {}", address.ip()))
                    .hint("use 127.0.0.1, or 0.0.0.0 for every interface"),
                ErrorKind::PermissionDenied => {
                    Error::invalid(format!("port {} may not be used", address.port())).hint("use one from 1024 on")
                }
                ErrorKind::AddrInUse => Error::unavailable(format!("metrics cannot be served: {address} is in use"))
                    .hint("does another pipeline use it? choose another port, or port 0 for one that is free"),
                _ => {
                    Error::unavailable(format!("metrics cannot be served at {address}")).hint("choose another address, or remove `metrics`")
                }
            };
            file.locate("metrics", error.because(e))
        };
        let _inside = runtime.enter();
        let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4() } else { tokio::net::TcpSocket::new_v6() }.map_err(failed)?;
        // A process that died a moment ago does not keep the port.
        socket.set_reuseaddr(true).map_err(failed)?;
        socket.bind(address).map_err(failed)?;
        let listener = socket.listen(128).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Server { listener, address })
    }

    /// Answers for ever.
    pub(super) async fn run(self, monitor: &Monitor) {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if open.len() < MOST => match accepted {
                    Ok((stream, _)) => open.push(Box::pin(answer(stream, monitor))),
                    Err(error) => {
                        tracing::debug!(%error, "a connection for metrics was not accepted");
                        monitor.env.sleep(PAUSE).await;
                    }
                },
                Some(()) = open.next() => {}
            }
        }
    }
}

async fn answer(stream: tokio::net::TcpStream, monitor: &Monitor) {
    let service = service_fn(|request| async move { Ok::<_, Infallible>(respond(&request, monitor)) });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        result = connection => if let Err(error) = result { tracing::debug!(%error, "a request for metrics broke off") },
        () = monitor.env.sleep(PATIENCE) => tracing::debug!("a request for metrics took too long"),
    }
}

fn respond(request: &Request<Incoming>, monitor: &Monitor) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let known = matches!(path, "/metrics" | "/healthz");
    if known && !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".to_owned());
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match path {
        "/metrics" => plain(StatusCode::OK, TEXT, monitor.metrics()),
        "/healthz" => {
            let health = monitor.health();
            let status = if health.healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
            plain(status, "application/json", serde_json::to_string(&health).unwrap_or_default() + "\n")
        }
        _ => plain(StatusCode::NOT_FOUND, TEXT, "here are /metrics and /healthz\n".to_owned()),
    }
}

fn plain(status: StatusCode, content: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
