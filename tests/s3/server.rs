//! S3 servers on free ports of the loopback device, each with a bucket `lake`; they end with their value.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `moto_server` answers in threads, and its `If-None-Match: *` is a check and then a write: of two creates at once, both win now and then.
/// A store like that is none of those that the protocol is for; served one request at a time, moto is one.
const MOTO: &str = "
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple('127.0.0.1', int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
";

const KEY: &str = "test-key";

/// What a client needs in its environment to talk to the server at `address` (host and port), or to a proxy before it.
pub(crate) fn settings(address: &str) -> [(&'static str, String); 5] {
    [
        ("AWS_ENDPOINT", format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", KEY.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ]
}

/// A server process.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    _data: Option<tempfile::TempDir>,
}

impl Server {
    /// moto, one request at a time: of several creates of one name, one wins.
    pub(crate) fn moto() -> Server {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/bin/python");
        let port = free_port();
        let server = Server::start(Command::new(python).args(["-c", MOTO, &port.to_string()]), port, None);
        server.create_bucket("lake");
        server
    }

    /// s3s-fs: it refuses a create that comes after another, and lets many win that come at once.
    pub(crate) fn s3s_fs() -> Server {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir(data.path().join("lake")).unwrap();
        let port = free_port();
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/interop/s3s/bin/s3s-fs"));
        command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--access-key", KEY, "--secret-key", KEY]).arg(data.path());
        Server::start(&mut command, port, Some(data))
    }

    fn start(command: &mut Command, port: u16, data: Option<tempfile::TempDir>) -> Server {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|e| panic!("{}: {e}; run tests/setup.sh", command.get_program().display()));
        let mut server = Server { child, address: format!("127.0.0.1:{port}"), _data: data };
        for _ in 0..300 {
            if TcpStream::connect(&server.address).is_ok() {
                return server;
            }
            assert!(server.child.try_wait().unwrap().is_none(), "{} ended; run tests/setup.sh", command.get_program().display());
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{} does not listen", command.get_program().display());
    }

    fn create_bucket(&self, name: &str) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "PUT /{name} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.lines().next().is_some_and(|status| status.contains(" 200 ")), "{answer}");
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
