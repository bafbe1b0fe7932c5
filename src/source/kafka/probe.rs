//! What a port speaks, when nothing comes of it: the client itself is only told that a connection was closed.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::login::Login;
use super::refusal::without_tls;
use crate::error::{Error, Result};

/// For each step of a look.
const PATIENCE: Duration = Duration::from_secs(2);

/// `Invalid` when a broker's port certainly speaks another protocol than `security.protocol` says. Blocks for some seconds at most.
pub(super) fn look(login: &Login) -> Result<()> {
    let (tls, sasl) = (login.protocol.ends_with("SSL"), login.protocol.starts_with("SASL"));
    for at in login.servers.split(',').map(str::trim).filter(|at| !at.is_empty()).take(3) {
        let at = at.split_once("://").map_or(at, |(_, at)| at);
        let address =
            if at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) { at.to_owned() } else { format!("{at}:9092") };
        let protocol = &login.protocol;
        let refuse = |what: String, hint: String| Err(Error::invalid(what).at(at).hint(hint));
        match (tls, plain(&address), || speaks_tls(&address)) {
            (true, Some(_), _) => {
                return refuse(
                    format!("the broker speaks no TLS on this port, but `security.protocol` is {protocol}"),
                    without_tls(protocol),
                );
            }
            (false, None, speaks_tls) if speaks_tls() == Some(true) => {
                let right = if sasl { "SASL_SSL" } else { "SSL` or `SASL_SSL" };
                return refuse(
                    format!("the broker speaks TLS on this port, but `security.protocol` is {protocol}"),
                    format!("write `security.protocol: {right}`, or take the port of a listener without TLS"),
                );
            }
            (false, Some(true), _) if !sasl => {
                let hint =
                    "write `security.protocol: SASL_PLAINTEXT` with `sasl.mechanism`, or take the port of another listener".to_owned();
                return refuse(format!("the broker wants a login (SASL) on this port, but `security.protocol` is {protocol}"), hint);
            }
            _ => {}
        }
    }
    Ok(())
}

fn connect(address: &str) -> Option<TcpStream> {
    let stream = address.to_socket_addrs().ok()?.find_map(|to| TcpStream::connect_timeout(&to, PATIENCE).ok())?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

/// Does Kafka answer without TLS, and if so: does it want SASL? Asks SaslHandshake (version 1) for a mechanism that is none: a listener with
/// SASL says that it does not know it (33), one without that this is not the moment (34).
fn plain(address: &str) -> Option<bool> {
    const NUMBER: [u8; 4] = [0x1a, 0xde, 0x3a, 0x2d];
    let mut ask = vec![0, 17, 0, 1];
    ask.extend(NUMBER);
    ask.extend([0, 1, b'l', 0, 4, b'n', b'o', b'n', b'e']);
    let mut stream = connect(address)?;
    stream.write_all(&[0, 0, 0, u8::try_from(ask.len()).ok()?]).ok()?;
    stream.write_all(&ask).ok()?;
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).ok()?;
    (answer[4..8] == NUMBER).then_some(answer[8..10] == [0, 33])
}

/// Does it answer a ClientHello with a record of TLS: a ServerHello, or an alert?
fn speaks_tls(address: &str) -> Option<bool> {
    // TLS 1.2, ECDHE-RSA and -ECDSA with AES-128-GCM, RSA with AES-128-CBC; extensions: groups, point formats, signature algorithms.
    let mut hello = vec![3, 3];
    hello.extend([0x5a; 32]);
    hello.extend([0, 0, 6, 0xc0, 0x2f, 0xc0, 0x2b, 0, 0x2f, 1, 0]);
    let extensions: &[u8] = &[0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 6, 0, 4, 4, 1, 4, 3];
    hello.extend([0, u8::try_from(extensions.len()).ok()?]);
    hello.extend(extensions);
    let size = u8::try_from(hello.len()).ok()?;
    let mut record = vec![22, 3, 1, 0, size + 4, 1, 0, 0, size];
    record.extend(hello);
    let mut stream = connect(address)?;
    stream.write_all(&record).ok()?;
    let mut answer = [0; 3];
    stream.read_exact(&mut answer).ok()?;
    Some(matches!(answer, [21 | 22, 3, _]))
}
