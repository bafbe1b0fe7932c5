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

/// Key id and secret, of every server.
pub(crate) const KEY: &str = "test-key";

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
        self.ask("PUT", &format!("/{name}")).expect("it is created");
    }

    /// The body of a reply; none: 404.
    fn ask(&self, method: &str, path: &str) -> Option<Vec<u8>> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // moto wants to be told who asks, and takes everybody's word.
        let who = format!("AWS4-HMAC-SHA256 Credential={KEY}/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0");
        let head = format!("Host: {}\r\nAuthorization: {who}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", self.address);
        write!(stream, "{method} {path} HTTP/1.1\r\n{head}").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
        let status = String::from_utf8_lossy(&answer[..end]).lines().next().unwrap_or_default().to_owned();
        if status.contains(" 404 ") {
            return None;
        }
        assert!(status.contains(" 200 ") || status.contains(" 204 "), "{method} {path}: {status}");
        Some(answer.split_off(end))
    }

    /// SIGSTOP: connections stay open, nothing is answered; or SIGCONT.
    pub(crate) fn send(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Keys below `prefix` in the bucket, in order.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        loop {
            let after = keys.last().cloned().unwrap_or_default();
            let listed = self.ask("GET", &format!("/lake?list-type=2&prefix={prefix}&start-after={after}")).expect("a bucket");
            let listed = String::from_utf8(listed).unwrap();
            keys.extend(listed.split("<Key>").skip(1).map(|rest| rest[..rest.find('<').unwrap()].to_owned()));
            if !listed.contains("<IsTruncated>true</IsTruncated>") {
                return keys;
            }
        }
    }

    /// An object; none: there is none.
    pub(crate) fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.ask("GET", &format!("/lake/{key}"))
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, key: &str) {
        self.ask("DELETE", &format!("/lake/{key}"));
    }

    /// Makes the directory `to` what lies below `prefix` now. The keys are plain letters, digits, `-`, `_`, `.` and `/`.
    pub(crate) fn download(&self, prefix: &str, to: &Path) {
        let _ = std::fs::remove_dir_all(to);
        std::fs::create_dir_all(to).unwrap();
        for key in self.keys(&format!("{prefix}/")) {
            // What a running process has deleted since is not there.
            let Some(bytes) = self.object(&key) else { continue };
            let path = to.join(key.strip_prefix(prefix).unwrap().trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
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
