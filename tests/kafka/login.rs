//! A broker with TLS and SASL, of a CA that is made here: everybody gets in by the right door, nobody by another, and no secret is told.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use super::broker::{Broker, Properties};
use super::produce::Producer;
use crate::process::{Ended, Running, binary};
use crate::readback::readers;

const ROWS: i64 = 10_000;
const PLAIN: &str = "plain-hunter2-plain";
const SCRAM: &str = "scram-hunter2-scram";
const CLIENT: &str = "oidc-hunter2-oidc";
/// What must not be found anywhere. Of tokens, the signature.
const SECRETS: [&str; 4] = ["hunter2", PLAIN, SCRAM, CLIENT];
const TLS: &str = "security.protocol: SASL_SSL";
const CA: &str = "ssl.ca.location: ../ca.pem";

/// The broker, its doors, and keys and certificates in a directory.
struct Guarded {
    broker: Broker,
    dir: PathBuf,
    /// SASL_SSL with every mechanism.
    sasl: String,
    /// SASL_SSL that wants to see who is there every three seconds.
    again: String,
    /// SASL_PLAINTEXT with PLAIN only.
    open: String,
    /// TLS that wants a certificate of the client.
    mutual: String,
    /// TLS with a certificate for another name.
    other: String,
    /// TLS with a certificate that has expired.
    old: String,
}

fn openssl(dir: &Path, command: &str) -> Vec<u8> {
    let output = Command::new("bash").args(["-euc", command]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{command}\n{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn certificates(dir: &Path) {
    openssl(dir, "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj '/CN=CA of these tests' -days 30 -out ca.pem");
    for (name, subject, names, days) in [
        ("server", "broker", "IP:127.0.0.1", 30),
        ("other", "broker", "DNS:broker.example.com", 30),
        ("old", "broker", "IP:127.0.0.1", -1),
        ("client", "alice", "DNS:alice", 30),
    ] {
        openssl(
            dir,
            &format!(
                "openssl req -newkey rsa:2048 -nodes -keyout {name}.key -subj /CN={subject} -out {name}.csr\n\
                 openssl x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} \
                 -extfile <(echo subjectAltName={names}) -out {name}.crt\n\
                 cat {name}.key {name}.crt ca.pem >{name}.pem"
            ),
        );
    }
    openssl(dir, "openssl pkcs12 -export -in client.crt -inkey client.key -passout pass:hunter2-store -out client.p12");
    openssl(dir, "openssl genrsa -out jwt.key 2048");
    let modulus = String::from_utf8(openssl(dir, "openssl rsa -in jwt.key -noout -modulus")).unwrap();
    let hex = modulus.trim().strip_prefix("Modulus=").unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect();
    let key = json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1", "n": base64(&bytes), "e": "AQAB"});
    std::fs::write(dir.join("jwks.json"), json!({"keys": [key]}).to_string()).unwrap();
}

/// Removes what earlier processes of these tests left.
fn forget_the_dead() {
    for entry in std::fs::read_dir(env!("CARGO_TARGET_TMPDIR")).unwrap().map_while(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix("kafka-login-").is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// As a JWT has it.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let three = |three: &[u8]| {
        let bits = three.iter().fold(0_u32, |bits, b| (bits << 8) | u32::from(*b)) << (8 * (3 - three.len()));
        (0..=three.len()).map(move |i| char::from(ALPHABET[(bits >> (18 - 6 * i)) as usize & 63])).collect::<String>()
    };
    bytes.chunks(3).map(three).collect()
}

impl Guarded {
    /// One for all tests: none changes it.
    fn shared() -> &'static Guarded {
        static SHARED: OnceLock<Guarded> = OnceLock::new();
        SHARED.get_or_init(|| {
            // Not of the test that comes first: nothing ends it but the process. Everything is below the target directory.
            let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kafka-login-{}", std::process::id()));
            forget_the_dead();
            std::fs::create_dir_all(&dir).unwrap();
            certificates(&dir);
            let mut doors = Vec::new();
            let broker = Broker::with(|p| doors = Guarded::doors(p, &dir));
            let [sasl, again, open, mutual, other, old] = doors.try_into().unwrap();
            let all = Guarded { broker, dir, sasl, again, open, mutual, other, old };
            all.broker.create_topic("guarded", 2, &[]);
            let producer = Producer::new(&all.broker, &[]);
            for id in 1..=ROWS {
                producer.send("guarded", i32::try_from(id % 2).unwrap(), &format!("{{\"id\":{id},\"note\":\"n{id}\"}}").into());
            }
            producer.flush();
            all
        })
    }

    fn doors(p: &mut Properties, dir: &Path) -> Vec<String> {
        let at = |file: &str| dir.join(file).display().to_string();
        let doors =
            [("LOCK", "SASL_SSL"), ("AGAIN", "SASL_SSL"), ("OPEN", "SASL_PLAINTEXT"), ("MUTUAL", "SSL"), ("OTHER", "SSL"), ("OLD", "SSL")];
        let doors = doors.map(|(name, protocol)| p.listener(name, protocol));
        for (key, value) in [("keystore", "server.pem"), ("truststore", "ca.pem")] {
            p.set(&format!("ssl.{key}.type"), "PEM");
            p.set(&format!("ssl.{key}.location"), &at(value));
        }
        for name in ["other", "old"] {
            p.set(&format!("listener.name.{name}.ssl.keystore.type"), "PEM");
            p.set(&format!("listener.name.{name}.ssl.keystore.location"), &at(&format!("{name}.pem")));
        }
        p.set("listener.name.mutual.ssl.client.auth", "required");
        p.set("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER");
        p.set("listener.name.open.sasl.enabled.mechanisms", "PLAIN");
        let module = |name: &str| format!("org.apache.kafka.common.security.{name}LoginModule required");
        for door in ["lock", "again", "open"] {
            let own = |key: &str| format!("listener.name.{door}.{key}");
            p.set(&own("plain.sasl.jaas.config"), &format!("{} user_alice=\"{PLAIN}\";", module("plain.Plain")));
            p.set(&own("scram-sha-256.sasl.jaas.config"), &format!("{};", module("scram.Scram")));
            p.set(&own("scram-sha-512.sasl.jaas.config"), &format!("{};", module("scram.Scram")));
            p.set(&own("oauthbearer.sasl.jaas.config"), &format!("{};", module("oauthbearer.OAuthBearer")));
            let validator = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler";
            p.set(&own("oauthbearer.sasl.server.callback.handler.class"), validator);
            p.set(&own("oauthbearer.sasl.oauthbearer.jwks.endpoint.url"), &format!("file:{}", at("jwks.json")));
            p.set(&own("oauthbearer.sasl.oauthbearer.expected.audience"), "kafka");
            p.set(&own("oauthbearer.sasl.oauthbearer.expected.issuer"), "https://idp.test");
        }
        for mechanism in ["scram-sha-512", "oauthbearer"] {
            p.set(&format!("listener.name.again.{mechanism}.connections.max.reauth.ms"), "3000");
        }
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            for user in ["alice", "bob"] {
                p.format.extend(["--add-scram".to_owned(), format!("{mechanism}=[name={user},password={SCRAM}]")]);
            }
        }
        p.java.push(format!("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file:{}", at("jwks.json")));
        doors.to_vec()
    }

    /// A signed token of alice that lives so many seconds.
    fn token(&self, seconds: i64) -> String {
        let now = i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap();
        let claims = json!({"sub": "alice", "iss": "https://idp.test", "aud": "kafka", "scope": "read", "iat": now, "exp": now + seconds});
        let text = format!("{}.{}", base64(br#"{"alg":"RS256","kid":"k1","typ":"JWT"}"#), base64(claims.to_string().as_bytes()));
        format!("{text}.{}", base64(&openssl(&self.dir, &format!("printf %s '{text}' | openssl dgst -sha256 -sign jwt.key -binary"))))
    }
}

/// A pipeline of its own in a directory beside the certificates.
struct Reader {
    dir: PathBuf,
    _dir: tempfile::TempDir,
}

impl Reader {
    fn new(guarded: &Guarded, at: &str, properties: &[&str]) -> Reader {
        Reader::of(guarded, at, "guarded", "end", properties)
    }

    fn of(guarded: &Guarded, at: &str, topic: &str, stop: &str, properties: &[&str]) -> Reader {
        let dir = tempfile::tempdir_in(&guarded.dir).unwrap();
        let lines: String = properties.iter().map(|line| format!("      {line}\n")).collect();
        let text = format!(
            "version: 1\npipeline: p\nsource:\n  kafka:\n    bootstrap_servers: {at}\n    topics: [{topic}]\n    stop: {stop}\n    properties:\n{lines}\
             sinks:\n- location: table\n  columns: {{id: BIGINT NOT NULL, note: STRING}}\n\
             checkpoint: {{location: _checkpoints, every: 500ms}}\ncommit: {{timeout: 30s}}\n"
        );
        std::fs::write(dir.path().join("p.yaml"), text).unwrap();
        Reader { dir: dir.path().to_owned(), _dir: dir }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).arg(self.dir.join("p.yaml"));
        command.env("PLAIN_PW", PLAIN).env("SCRAM_PW", SCRAM).env("WRONG_PW", "wrong-hunter2").env("STORE_PW", "hunter2-store");
        command.env("CLIENT_SECRET", CLIENT);
        command
    }

    fn start(&self) -> Running {
        Running::start_as(self.command(&["ingest"]).args(["--log-format", "json", "-o", "jsonl"]))
    }

    fn ids(&self) -> Vec<i64> {
        let answer = readers::get("pypaimon", &json!({"cmd": "rows", "table": self.dir.join("table"), "columns": ["id"]}));
        let mut ids: Vec<i64> = answer["rows"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().parse().unwrap()).collect();
        ids.sort_unstable();
        ids
    }

    /// Nothing that was said or written holds a secret, but for the files that it was put into.
    fn told_nothing(&self, said: &[String]) {
        for text in said {
            assert_no_secret(text, "what was said");
        }
        for (path, bytes) in crate::process::tree(&self.dir) {
            let own = path.file_name().is_some_and(|name| name == "pw" || name == "token");
            if !own {
                assert_no_secret(&String::from_utf8_lossy(&bytes), &path.display().to_string());
            }
        }
    }
}

fn assert_no_secret(text: &str, place: &str) {
    let token = std::fs::read_to_string(Guarded::shared().dir.join("shown-token")).unwrap_or_default();
    let signature = token.rsplit('.').next().unwrap_or_default().to_owned();
    for secret in SECRETS.iter().copied().chain(Some(signature.as_str()).filter(|s| !s.is_empty())) {
        assert!(!text.contains(secret), "{place} holds a secret: {text}");
    }
}

/// What a process shows of itself to everybody on the machine.
fn command_line(running: &Running) -> String {
    std::fs::read_to_string(format!("/proc/{}/cmdline", running.id())).unwrap_or_default()
}

/// Gives out tokens to who knows the secret, on a port of its own, for as long as the process lives.
fn token_endpoint(guarded: &'static Guarded) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            // "me:oidc-hunter2-oidc"
            let right = head.starts_with("POST /token ") && head.contains("Basic bWU6b2lkYy1odW50ZXIyLW9pZGM=");
            let (status, body) = match right {
                true => ("200 OK", json!({"access_token": guarded.token(300), "token_type": "Bearer", "expires_in": 300})),
                false => ("401 Unauthorized", json!({"error": "invalid_client"})),
            };
            let body = body.to_string();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    url
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn every_way_in_brings_all_rows_and_tells_no_secret() {
    let guarded = Guarded::shared();
    let url = format!("sasl.oauthbearer.token.endpoint.url: {}", token_endpoint(guarded));
    let ways: [(&str, &str, Vec<&str>); 8] = [
        ("PLAIN", &guarded.sasl, vec![TLS, CA, "sasl.mechanism: PLAIN", "sasl.username: alice", "sasl.password: ${PLAIN_PW}"]),
        ("SCRAM-256", &guarded.sasl, vec![TLS, CA, "sasl.mechanism: SCRAM-SHA-256", "sasl.username: alice", "sasl.password: ${SCRAM_PW}"]),
        (
            "SCRAM",
            &guarded.sasl,
            vec![TLS, CA, "sasl.mechanism: SCRAM-SHA-512", "sasl.username: alice", "sasl.password: {file: pw}", "debug: all"],
        ),
        (
            "token",
            &guarded.sasl,
            vec![TLS, CA, "sasl.mechanism: OAUTHBEARER", "sasl.oauthbearer.token: {file: token}", "debug: security,broker"],
        ),
        (
            "oidc",
            &guarded.sasl,
            vec![
                TLS,
                CA,
                "sasl.mechanism: OAUTHBEARER",
                "sasl.oauthbearer.method: oidc",
                "sasl.oauthbearer.client.id: me",
                "sasl.oauthbearer.client.secret: ${CLIENT_SECRET}",
                &url,
            ],
        ),
        (
            "certificate",
            &guarded.mutual,
            vec!["security.protocol: SSL", CA, "ssl.certificate.location: ../client.crt", "ssl.key.location: ../client.key"],
        ),
        (
            "key store",
            &guarded.mutual,
            vec!["security.protocol: SSL", CA, "ssl.keystore.location: ../client.p12", "ssl.keystore.password: ${STORE_PW}"],
        ),
        (
            "PEM",
            &guarded.mutual,
            vec![
                "security.protocol: SSL",
                "ssl.ca.pem: {file: ../ca.pem}",
                "ssl.certificate.pem: {file: ../client.crt}",
                "ssl.key.pem: {file: ../client.key}",
            ],
        ),
    ];
    for (name, at, properties) in ways {
        let reader = Reader::new(guarded, at, &properties);
        std::fs::write(reader.dir.join("pw"), format!("{SCRAM}\n")).unwrap();
        let token = guarded.token(300);
        std::fs::write(reader.dir.join("token"), &token).unwrap();
        std::fs::write(guarded.dir.join("shown-token"), &token).unwrap();
        let mut said = Vec::new();
        for args in [&["config"][..], &["ingest", "--dry-run"]] {
            let output = reader.command(args).output().unwrap();
            assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
            said.push(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr));
        }
        let running = reader.start();
        said.push(command_line(&running));
        let ended = running.end().with(0);
        assert_eq!(ended.report()["rows"], ROWS, "{name}");
        said.extend([ended.err(), ended.out.clone()]);
        assert!(reader.ids().into_iter().eq(1..=ROWS), "{name}");
        reader.told_nothing(&said);
        if properties.contains(&"debug: all") {
            assert!(ended.err().contains("librdkafka: "), "`debug` shows what it was asked for");
        }
    }
}

/// Runs it; it must be refused with code 2 in this many seconds, in these words, and tell no secret.
#[track_caller]
fn refused(guarded: &Guarded, at: &str, properties: &[&str], words: &[&str]) -> Ended {
    let reader = Reader::new(guarded, at, properties);
    std::fs::write(reader.dir.join("token"), guarded.token(-60)).unwrap();
    std::fs::write(reader.dir.join("pw"), guarded.token(60).replace('.', ".x")).unwrap();
    let begun = Instant::now();
    let ended = reader.start().end().with(2);
    for word in words {
        assert!(ended.err().contains(word), "{properties:?}: no {word} in {}", ended.err());
    }
    assert!(begun.elapsed() < Duration::from_secs(28), "{properties:?} took {:?}", begun.elapsed());
    reader.told_nothing(&[ended.err(), ended.out.clone()]);
    ended
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_wrong_password_or_token_names_broker_and_mechanism_and_ends_with_code_2() {
    let guarded = Guarded::shared();
    let url = format!("sasl.oauthbearer.token.endpoint.url: {}", token_endpoint(guarded));
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let line = format!("sasl.mechanism: {mechanism}");
        let properties = [TLS, CA, &line, "sasl.username: alice", "sasl.password: ${WRONG_PW}"];
        refused(guarded, &guarded.sasl, &properties, &[&guarded.sasl, &format!("refuses user `alice` with this password ({mechanism})")]);
    }
    let oauth = [TLS, CA, "sasl.mechanism: OAUTHBEARER"];
    let with = |more: &[&'static str]| oauth.into_iter().chain(more.iter().copied()).collect::<Vec<&str>>();
    refused(guarded, &guarded.sasl, &with(&["sasl.oauthbearer.token: {file: token}"]), &["the token expired 6", "OAUTHBEARER"]);
    refused(guarded, &guarded.sasl, &with(&["sasl.oauthbearer.token: {file: pw}"]), &[&guarded.sasl, "refuses the token (OAUTHBEARER)"]);
    refused(
        guarded,
        &guarded.sasl,
        &with(&["enable.sasl.oauthbearer.unsecure.jwt: true", "sasl.oauthbearer.config: principal=alice"]),
        &[&guarded.sasl, "refuses the token (OAUTHBEARER)"],
    );
    let oidc = ["sasl.oauthbearer.method: oidc", "sasl.oauthbearer.client.id: me", "sasl.oauthbearer.client.secret: ${WRONG_PW}"];
    let mut properties = with(&oidc);
    properties.push(&url);
    refused(guarded, &guarded.sasl, &properties, &["/token", "answers 401 invalid_client"]);
    let scram =
        ["security.protocol: SASL_PLAINTEXT", "sasl.mechanism: SCRAM-SHA-512", "sasl.username: alice", "sasl.password: ${SCRAM_PW}"];
    refused(guarded, &guarded.open, &scram, &[&guarded.open, "does not take SCRAM-SHA-512, but PLAIN"]);
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_wrong_protocol_or_certificate_is_told_apart_and_ends_with_code_2() {
    let guarded = Guarded::shared();
    let tls = ["security.protocol: SSL", CA];
    let plain = |protocol| [protocol, "sasl.mechanism: PLAIN", "sasl.username: alice", "sasl.password: ${PLAIN_PW}"];
    let sasl_tls = [TLS, CA, "sasl.mechanism: PLAIN", "sasl.username: alice", "sasl.password: ${PLAIN_PW}"];
    let cases: [(&str, &[&str], &str); 10] = [
        (&guarded.sasl, &plain(TLS), "certificate is not to be trusted"),
        (&guarded.other, &tls, "certificate is not to be trusted"),
        (&guarded.old, &tls, "certificate is not to be trusted"),
        (&guarded.mutual, &tls, "does not take our certificate"),
        (&guarded.sasl, &plain("security.protocol: SASL_PLAINTEXT"), "speaks TLS on this port, but `security.protocol` is SASL_PLAINTEXT"),
        (&guarded.other, &["client.id: x"], "speaks TLS on this port, but `security.protocol` is PLAINTEXT"),
        (&guarded.broker.address, &tls, "speaks no TLS on this port, but `security.protocol` is SSL"),
        (&guarded.open, &sasl_tls, "speaks no TLS on this port, but `security.protocol` is SASL_SSL"),
        (&guarded.open, &["client.id: x"], "wants a login (SASL) on this port, but `security.protocol` is PLAINTEXT"),
        (&guarded.broker.address, &plain("security.protocol: SASL_PLAINTEXT"), "wants no SASL on this port"),
    ];
    for (at, properties, says) in cases {
        refused(guarded, at, properties, &[at, says]);
    }
}

/// Writes a row every tenth of a second, so many in all, while the pipeline runs; then stops it and returns what it said.
fn meanwhile(guarded: &Guarded, topic: &str, mut running: Running, rows: i64, mut tenth: impl FnMut(i64)) -> Ended {
    let producer = Producer::new(&guarded.broker, &[]);
    for id in 1..=rows {
        producer.send(topic, 0, &format!("{{\"id\":{id}}}").into());
        producer.flush();
        tenth(id);
        assert!(!running.over(), "it ended\n{}", running.end().err());
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(4));
    running.send(rustix::process::Signal::TERM);
    running.end().with(0)
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn tokens_that_end_are_followed_by_those_that_the_file_has_then() {
    let guarded = Guarded::shared();
    guarded.broker.create_topic("rotated", 1, &[]);
    let properties = [TLS, CA, "sasl.mechanism: OAUTHBEARER", "sasl.oauthbearer.token: {file: token}"];
    let reader = Reader::of(guarded, &guarded.again, "rotated", "never", &properties);
    let file = reader.dir.join("token");
    let renew = || {
        std::fs::write(reader.dir.join("token.new"), guarded.token(6)).unwrap();
        std::fs::rename(reader.dir.join("token.new"), &file).unwrap();
    };
    renew();
    let ended = meanwhile(guarded, "rotated", reader.start(), 200, |id| {
        if id % 20 == 0 {
            renew();
        }
    });
    assert!(reader.ids().into_iter().eq(1..=200), "{}", ended.err());
    assert!(!ended.err().contains("token expired"), "{}", ended.err());
}

#[test]
#[ignore = "wants Kafka: tests/setup.sh"]
fn a_password_that_is_changed_during_a_run_is_warned_of_and_taken_from_its_file_again() {
    let guarded = Guarded::shared();
    guarded.broker.create_topic("changed", 1, &[]);
    let properties = [TLS, CA, "sasl.mechanism: SCRAM-SHA-512", "sasl.username: bob", "sasl.password: {file: pw}"];
    let reader = Reader::of(guarded, &guarded.again, "changed", "never", &properties);
    let file = reader.dir.join("pw");
    std::fs::write(&file, SCRAM).unwrap();
    let mut running = reader.start();
    running.until(1, |line| line.says().contains("reads changed[0]")).unwrap();
    let change = "SCRAM-SHA-512=[password=new-hunter2-new]";
    let alter = ["--alter", "--entity-type", "users", "--entity-name", "bob", "--add-config", change];
    guarded.broker.tool("org.apache.kafka.tools.ConfigCommand", &alter);
    let warned = running.until(1, |line| line.text.contains("refuses user `bob` with this password (SCRAM-SHA-512)"));
    assert!(warned.is_some(), "it ended");
    std::fs::write(&file, "new-hunter2-new\n").unwrap();
    let ended = meanwhile(guarded, "changed", running, 100, |_| ());
    assert!(reader.ids().into_iter().eq(1..=100), "{}", ended.err());
    reader.told_nothing(&[ended.err(), ended.out.clone()]);
}
