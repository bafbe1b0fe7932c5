//! The keys that may stand in `source.kafka.properties`: which of them are secrets, paths or other clients' words, which would break
//! exactly-once, and which need one another. Nothing here connects, and nothing needs the client library.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// What stands for a key: its text, or none when it is in a file that is read later.
pub(crate) type Given<'a> = BTreeMap<&'a str, Option<&'a str>>;

/// All properties: those with a text, and those in a file.
pub(crate) fn given<'a>(texts: &'a BTreeMap<String, String>, files: &'a BTreeMap<String, PathBuf>) -> Given<'a> {
    let texts = texts.iter().map(|(key, text)| (key.as_str(), Some(text.as_str())));
    texts.chain(files.keys().map(|key| (key.as_str(), None))).collect()
}

/// Where the client's own page of properties is.
const PAGE: &str = "its properties are listed at https://github.com/confluentinc/librdkafka/blob/v2.12.1/CONFIGURATION.md";

/// The token itself, which librdkafka has no property for.
pub(crate) const TOKEN: &str = "sasl.oauthbearer.token";

/// Values that let somebody in.
const SECRETS: [&str; 7] = [
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
    TOKEN,
];

/// What else may come from a file: certificates, and names that change together with their secret.
const FILES: [&str; 6] = [
    "ssl.ca.pem",
    "ssl.certificate.pem",
    "https.ca.pem",
    "sasl.username",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.id",
];

/// Values that are paths on this machine.
pub(crate) const PATHS: [&str; 6] =
    ["ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location", "ssl.crl.location", "https.ca.location"];

/// Must the value come from the environment or a file?
pub(crate) fn is_secret(key: &str) -> bool {
    SECRETS.contains(&key)
}

/// May it be written `{file: PATH}`?
pub(crate) fn may_be_file(key: &str) -> bool {
    is_secret(key) || FILES.contains(&key)
}

/// Is the value a path? Relative ones start at the pipeline file.
pub(crate) fn is_path(key: &str, value: &str) -> bool {
    PATHS.contains(&key) && value != "probe" && !value.is_empty()
}

/// All that a consumer without a group can use of librdkafka 2.12, and what [`super`] adds.
pub(crate) const KEYS: [&str; 76] = [
    TOKEN,
    "api.version.fallback.ms",
    "api.version.request",
    "api.version.request.timeout.ms",
    "broker.address.family",
    "broker.address.ttl",
    "broker.version.fallback",
    "check.crcs",
    "client.dns.lookup",
    "client.id",
    "connections.max.idle.ms",
    "coordinator.query.interval.ms",
    "debug",
    "enable.metrics.push",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "enable.ssl.certificate.verification",
    "fetch.error.backoff.ms",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "https.ca.location",
    "https.ca.pem",
    "isolation.level",
    "log.connection.close",
    "max.in.flight",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "message.max.bytes",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "queued.min.messages",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.max.fails",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.curves.list",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.sigalgs.list",
    "topic.metadata.propagation.max.ms",
    "topic.metadata.refresh.fast.interval.ms",
    "topic.metadata.refresh.interval.ms",
];

/// What Java's clients, Flink, Connect and Spark call it, and what to write instead.
const ELSEWHERE: [(&str, &str); 37] = [
    ("sasl.jaas.config", "write `sasl.username`, and `sasl.password` from the environment or a file"),
    (
        "sasl.login.callback.handler.class",
        "write `sasl.oauthbearer.token`, or `sasl.oauthbearer.method: oidc`; AWS_MSK_IAM is not supported",
    ),
    (
        "sasl.client.callback.handler.class",
        "write `sasl.oauthbearer.token`, or `sasl.oauthbearer.method: oidc`; AWS_MSK_IAM is not supported",
    ),
    ("sasl.login.class", "write `sasl.oauthbearer.token`, or `sasl.oauthbearer.method: oidc`"),
    ("ssl.truststore.location", "write `ssl.ca.location` with a PEM file: `keytool -exportcert -rfc -keystore ... -alias ...` makes one"),
    ("ssl.truststore.certificates", "write `ssl.ca.pem`"),
    ("ssl.truststore.password", "remove it: the PEM file of `ssl.ca.location` has no password"),
    ("ssl.truststore.type", "remove it: `ssl.ca.location` is a PEM file"),
    ("ssl.keystore.type", "remove it: `ssl.keystore.location` is PKCS#12, PEM goes into `ssl.certificate.location` and `ssl.key.location`"),
    ("ssl.keystore.key", "write `ssl.key.pem`, from the environment or a file"),
    ("ssl.keystore.certificate.chain", "write `ssl.certificate.pem`"),
    ("ssl.protocol", "remove it: the newest TLS version that both sides know is taken"),
    ("ssl.enabled.protocols", "remove it: the newest TLS version that both sides know is taken"),
    ("ssl.provider", "remove it: OpenSSL is built in"),
    ("ssl.secure.random.implementation", "remove it: OpenSSL is built in"),
    ("ssl.keymanager.algorithm", "remove it: OpenSSL is built in"),
    ("ssl.trustmanager.algorithm", "remove it: OpenSSL is built in"),
    ("sasl.oauthbearer.jwks.endpoint.url", "it is the broker's; a client needs a token only"),
    ("sasl.login.connect.timeout.ms", "remove it: a token is waited for 10 s"),
    ("sasl.login.read.timeout.ms", "remove it: a token is waited for 10 s"),
    ("sasl.login.refresh.window.factor", "remove it: a token is refreshed after 80 % of its life"),
    ("fetch.max.wait.ms", "write `fetch.wait.max.ms`"),
    ("request.timeout.ms", "write `socket.timeout.ms`"),
    ("default.api.timeout.ms", "write `socket.timeout.ms`"),
    ("receive.buffer.bytes", "write `socket.receive.buffer.bytes`"),
    ("send.buffer.bytes", "write `socket.send.buffer.bytes`"),
    ("max.poll.records", "remove it: `checkpoint.rows` says how many rows make a commit, `memory` how many are held"),
    ("key.deserializer", "remove it: a key is bytes, `meta: key` makes a column of it"),
    ("value.deserializer", "write `decode: {format: ...}`"),
    ("key.converter", "remove it: a key is bytes, `meta: key` makes a column of it"),
    ("value.converter", "write `decode: {format: ...}`"),
    ("interceptor.classes", "remove it: no Java class runs here"),
    ("metric.reporters", "write `metrics: HOST:PORT` at the top of the pipeline file"),
    ("partition.discovery.interval.ms", "remove it: new partitions are looked for all the time"),
    ("scan.startup.mode", "write `source.kafka.start`"),
    ("exclude.internal.topics", "remove it: only the topics of `source.kafka` are read"),
    ("tasks.max", "write `threads`"),
];

/// What the pipeline decides itself: a value from outside would lose, double or reorder rows, or do nothing.
const DECIDED: [(&str, &str, &str); 31] = [
    ("bootstrap.servers", "stands in `source.kafka.bootstrap_servers`", "move it there"),
    ("metadata.broker.list", "stands in `source.kafka.bootstrap_servers`", "move it there"),
    ("allow.auto.create.topics", "would make an empty topic of a misspelt name", "create the topic first, and remove it"),
    (
        "auto.offset.reset",
        "would skip or repeat records without a word",
        "`source.kafka.start` says where to begin, `on_data_loss` what to do about a gap",
    ),
    (
        "enable.auto.commit",
        "would tell the group about rows that are in no table yet",
        "remove it: offsets are in the checkpoint, and told to the group after the commit",
    ),
    (
        "auto.commit.enable",
        "would tell the group about rows that are in no table yet",
        "remove it: offsets are in the checkpoint, and told to the group after the commit",
    ),
    ("auto.commit.interval.ms", "is about automatic commits, and there are none", "write `checkpoint.every`"),
    ("enable.auto.offset.store", "is about automatic commits, and there are none", "remove it: offsets are in the checkpoint"),
    ("offset.store.method", "is about offsets, and they are in the checkpoint", "remove it"),
    ("offset.store.path", "is about offsets, and they are in the checkpoint", "remove it"),
    ("offset.store.sync.interval.ms", "is about offsets, and they are in the checkpoint", "remove it"),
    ("group.protocol", "is for members of a group, and partitions are assigned by the pipeline itself", "remove it"),
    ("group.protocol.type", "is for members of a group, and partitions are assigned by the pipeline itself", "remove it"),
    ("group.remote.assignor", "is for members of a group, and partitions are assigned by the pipeline itself", "remove it"),
    ("group.instance.id", "is for members of a group, and partitions are assigned by the pipeline itself", "remove it"),
    ("partition.assignment.strategy", "is for members of a group, and partitions are assigned by the pipeline itself", "remove it"),
    ("session.timeout.ms", "is for members of a group, and partitions are assigned by the pipeline itself", "remove it"),
    ("heartbeat.interval.ms", "is for members of a group, and partitions are assigned by the pipeline itself", "remove it"),
    ("max.poll.interval.ms", "is for members of a group, and partitions are assigned by the pipeline itself", "remove it"),
    ("enable.partition.eof", "is used by the pipeline itself", "`source.kafka.stop` says where to end"),
    ("client.rack", "would read from followers, which may lack offsets that a checkpoint names", "remove it"),
    ("queued.max.messages.kbytes", "follows from `memory`", "write `memory: 512MiB` at the top of the pipeline file"),
    ("fetch.max.bytes", "follows from `memory`", "write `memory: 512MiB` at the top of the pipeline file"),
    ("topic.blacklist", "would hide topics from the checkpoint", "write a narrower `topic_pattern`"),
    ("statistics.interval.ms", "is used by the pipeline itself", "`metrics` at the top of the file shows what is measured"),
    ("log_level", "is used by the pipeline itself", "start with `-v`; `debug: security,broker` has librdkafka say more"),
    ("log.queue", "is used by the pipeline itself", "remove it"),
    ("enabled_events", "is used by the pipeline itself", "remove it"),
    ("plugin.library.paths", "would load other people's code into a process that promises exactly-once", "remove it"),
    ("transactional.id", "is for producers", "remove it"),
    ("enable.idempotence", "is for producers", "remove it"),
];

/// Known to librdkafka, but not to this build of it.
const NOT_BUILT: [(&str, &str); 5] = [
    ("sasl.kerberos.", "Kerberos (GSSAPI) is not built in: use SCRAM-SHA-512, OAUTHBEARER, PLAIN or a client certificate"),
    (
        "sasl.oauthbearer.assertion.",
        "only client credentials are supported: `sasl.oauthbearer.client.id` and `.client.secret`, or a token from a file",
    ),
    ("sasl.oauthbearer.metadata.", "write `sasl.oauthbearer.token: {file: ...}` and let something else keep the file fresh"),
    ("ssl.engine.", "OpenSSL engines are not built in: use `ssl.key.location` or `ssl.keystore.location`"),
    ("ssl.providers", "OpenSSL providers are not loaded: use `ssl.key.location` or `ssl.keystore.location`"),
];

/// Is this a key that may be set? The error says why not and what to write instead; it never holds the value.
pub(crate) fn check_key(key: &str) -> Result<()> {
    if KEYS.contains(&key) {
        return Ok(());
    }
    let refuse = |what: String, hint: &str| Err(Error::invalid(what).hint(hint));
    if let Some((_, why, hint)) = DECIDED.iter().find(|(name, ..)| *name == key) {
        return refuse(format!("`{key}` {why}"), hint);
    }
    if let Some((_, hint)) = ELSEWHERE.iter().find(|(name, _)| *name == key) {
        return refuse(format!("`{key}` is a setting of other clients and means nothing to librdkafka"), hint);
    }
    if let Some((_, hint)) = NOT_BUILT.iter().find(|(start, _)| key.starts_with(start)) {
        return refuse(format!("`{key}` is not supported"), hint);
    }
    if key == "sasl.oauthbearer.extensions" {
        return refuse(format!("`{key}` is not supported"), "extensions cannot be sent; where the broker demands them, use PLAIN or SCRAM");
    }
    for (prefix, whose) in
        [("properties.", "Flink's"), ("kafka.", "Spark's"), ("consumer.override.", "Connect's"), ("consumer.", "Connect's")]
    {
        if let Some(rest) = key.strip_prefix(prefix) {
            return refuse(format!("`{key}` has {whose} prefix"), &format!("write `{rest}`"));
        }
    }
    refuse(format!("unknown key `{key}` in `source.kafka.properties`"), &format!("they are handed to librdkafka; {PAGE}"))
}

/// A value that is the same to everybody, whatever its case: `SASL_SSL`, `sasl_ssl`.
fn lower(given: &Given<'_>, key: &str) -> Option<String> {
    given.get(key).copied().flatten().map(str::to_ascii_lowercase)
}

/// The SASL mechanism that is asked for.
pub(crate) fn mechanism<'a>(given: &Given<'a>) -> Option<&'a str> {
    ["sasl.mechanism", "sasl.mechanisms"].into_iter().find_map(|key| given.get(key).copied().flatten())
}

/// Do the keys fit together? An error comes with the key that it is about; that need not be given.
pub(crate) fn check_together(given: &Given<'_>) -> Result<(), (&'static str, Error)> {
    let protocol = lower(given, "security.protocol").unwrap_or_else(|| "plaintext".to_owned());
    let (tls, sasl) = (protocol.ends_with("ssl"), protocol.starts_with("sasl"));
    twice(given)?;
    if !tls {
        let unused = PATHS
            .iter()
            .chain(&KEYS)
            .find(|key| (key.starts_with("ssl.") || **key == "enable.ssl.certificate.verification") && given.contains_key(**key));
        if let Some(key) = unused {
            let with = if sasl { "SASL_SSL" } else { "SSL` or `SASL_SSL" };
            let what = format!("`{key}` does nothing, for `security.protocol` is {}", protocol.to_uppercase());
            return fail(key, what, format!("write `security.protocol: {with}`, or remove it"));
        }
    }
    if !sasl {
        let unused = KEYS.iter().find(|key| (key.starts_with("sasl.") || key.contains(".sasl.")) && given.contains_key(**key));
        return match unused {
            Some(key) => {
                let with = if tls { "SASL_SSL" } else { "SASL_SSL` or `SASL_PLAINTEXT" };
                let what = format!("`{key}` does nothing, for `security.protocol` is {}", protocol.to_uppercase());
                fail(key, what, format!("write `security.protocol: {with}`, or remove it"))
            }
            None => Ok(()),
        };
    }
    let Some(mechanism) = mechanism(given) else {
        let what = format!("`security.protocol` is {}, but `sasl.mechanism` is missing", protocol.to_uppercase());
        return fail("security.protocol", what, "write `sasl.mechanism:` PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER".to_owned());
    };
    let key = if given.contains_key("sasl.mechanism") { "sasl.mechanism" } else { "sasl.mechanisms" };
    let hint = "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER";
    match mechanism.to_ascii_uppercase().as_str() {
        "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512" => user_and_password(given, key, mechanism),
        "OAUTHBEARER" => token_source(given, key),
        "GSSAPI" => fail(
            key,
            "Kerberos (GSSAPI) is not built in".to_owned(),
            format!("{hint}, or a client certificate with `security.protocol: SSL`"),
        ),
        "AWS_MSK_IAM" => fail(
            key,
            "AWS_MSK_IAM is not supported".to_owned(),
            "give the cluster SCRAM-SHA-512 users or client certificates as well".to_owned(),
        ),
        _ => fail(key, format!("`{mechanism}` is not known as `sasl.mechanism`"), hint.to_owned()),
    }
}

fn fail<T>(key: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Result<T, (&'static str, Error)> {
    Err((key, Error::invalid(what).hint(hint)))
}

/// Two names of one thing, or two ways to give one.
fn twice(given: &Given<'_>) -> Result<(), (&'static str, Error)> {
    const PAIRS: [(&str, &str); 10] = [
        ("sasl.mechanism", "sasl.mechanisms"),
        ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"),
        ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"),
        ("ssl.ca.location", "ssl.ca.pem"),
        ("https.ca.location", "https.ca.pem"),
        ("ssl.certificate.location", "ssl.certificate.pem"),
        ("ssl.key.location", "ssl.key.pem"),
        ("ssl.keystore.location", "ssl.key.location"),
        ("fetch.message.max.bytes", "max.partition.fetch.bytes"),
        ("max.in.flight", "max.in.flight.requests.per.connection"),
    ];
    match PAIRS.iter().find(|(one, other)| given.contains_key(one) && given.contains_key(other)) {
        Some((one, other)) => fail(other, format!("`{one}` and `{other}` are the same thing"), "keep one"),
        None => Ok(()),
    }
}

fn user_and_password(given: &Given<'_>, key: &'static str, mechanism: &str) -> Result<(), (&'static str, Error)> {
    let missing = ["sasl.username", "sasl.password"].into_iter().find(|name| !given.contains_key(name));
    if let Some(name) = missing {
        let hint = match name {
            "sasl.username" => "write `sasl.username: NAME`",
            _ => "write `sasl.password: \"${NAME}\"`, or `sasl.password: {file: PATH}`",
        };
        return fail(key, format!("{mechanism} needs `{name}`"), hint);
    }
    match KEYS.iter().find(|name| name.contains("oauthbearer") && given.contains_key(**name)) {
        Some(other) => fail(other, format!("`{other}` does nothing, for `sasl.mechanism` is {mechanism}"), "remove it"),
        None => Ok(()),
    }
}

/// Keys of client credentials, each with its other name.
const CLIENT: [(&str, &str); 3] = [
    ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.token.endpoint.url"),
    ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"),
    ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"),
];

fn token_source(given: &Given<'_>, key: &'static str) -> Result<(), (&'static str, Error)> {
    if let Some(other) = ["sasl.username", "sasl.password"].into_iter().find(|name| given.contains_key(name)) {
        return fail(other, format!("`{other}` does nothing, for `sasl.mechanism` is OAUTHBEARER"), "remove it");
    }
    let token = given.contains_key(TOKEN);
    let oidc = lower(given, "sasl.oauthbearer.method").is_some_and(|method| method == "oidc");
    let unsecured = lower(given, "enable.sasl.oauthbearer.unsecure.jwt").is_some_and(|on| on == "true");
    match (token, oidc, unsecured) {
        (true, false, false) | (false, true, false) | (false, false, true) => {}
        (false, false, false) => {
            let hint = "write `sasl.oauthbearer.token: {file: PATH}`, or `sasl.oauthbearer.method: oidc` with `sasl.oauthbearer.token.endpoint.url`, `.client.id` and `.client.secret`";
            return fail(key, "OAUTHBEARER needs a token", hint);
        }
        _ => {
            return fail(
                key,
                "the token of OAUTHBEARER would come from two places",
                format!("keep one of `{TOKEN}`, `sasl.oauthbearer.method: oidc` and `enable.sasl.oauthbearer.unsecure.jwt`"),
            );
        }
    }
    let of_oidc = |name: &str| {
        name.contains("oauthbearer.client.")
            || name.ends_with(".endpoint.url")
            || name.ends_with("oauthbearer.scope")
            || name.starts_with("https.")
    };
    if let Some(name) = KEYS.iter().find(|name| !oidc && of_oidc(name) && given.contains_key(**name)) {
        return fail(name, format!("`{name}` does nothing without `sasl.oauthbearer.method: oidc`"), "write that too, or remove it");
    }
    if given.contains_key("sasl.oauthbearer.config") && !unsecured {
        let what = "`sasl.oauthbearer.config` does nothing without `enable.sasl.oauthbearer.unsecure.jwt: true`";
        return fail("sasl.oauthbearer.config", what, format!("a real token is given as `{TOKEN}`"));
    }
    match CLIENT.iter().find(|(one, other)| oidc && !given.contains_key(one) && !given.contains_key(other)) {
        Some((name, _)) => fail("sasl.oauthbearer.method", format!("`sasl.oauthbearer.method: oidc` needs `{name}`"), "write it"),
        None => Ok(()),
    }
}

/// What is allowed, but should not stay like this.
#[cfg_attr(not(feature = "kafka"), allow(dead_code, reason = "the source tells them"))]
pub(crate) fn warnings(given: &Given<'_>) -> Vec<&'static str> {
    let is = |key: &str, value: &str| lower(given, key).is_some_and(|v| v == value);
    let plain = mechanism(given).is_some_and(|m| ["PLAIN", "OAUTHBEARER"].contains(&m.to_ascii_uppercase().as_str()));
    let all = [
        (
            is("isolation.level", "read_uncommitted"),
            "`isolation.level: read_uncommitted` reads records of transactions that were aborted, and keeps them",
        ),
        (
            is("security.protocol", "sasl_plaintext") && plain,
            "the password or token crosses the network unencrypted; use `security.protocol: SASL_SSL`",
        ),
        (
            is("enable.ssl.certificate.verification", "false"),
            "the broker's certificate is not looked at: anybody in between can read and change everything",
        ),
        (
            is("ssl.endpoint.identification.algorithm", "none"),
            "the broker's name is not compared with its certificate: anybody with a certificate of the same CA can stand in between",
        ),
        (
            is("enable.sasl.oauthbearer.unsecure.jwt", "true"),
            "the token is not signed (`enable.sasl.oauthbearer.unsecure.jwt`): it is for tests",
        ),
    ];
    all.into_iter().filter_map(|(found, text)| found.then_some(text)).collect()
}

/// Keys that the source itself acts upon; librdkafka never hears of them.
pub(crate) fn is_ours(key: &str) -> bool {
    key == TOKEN
        || key == "sasl.oauthbearer.config"
        || key == "enable.sasl.oauthbearer.unsecure.jwt"
        || key == "sasl.oauthbearer.method"
        || key == "sasl.oauthbearer.scope"
        || key.starts_with("sasl.oauthbearer.client.")
        || key.ends_with(".endpoint.url")
        || key.starts_with("https.")
}

/// Does the value fit? The error holds a value only where it is no secret.
pub(crate) fn check_value(key: &str, value: &str) -> Result<()> {
    let wrong = |wants: &str, hint: &str| Err(Error::invalid(format!("`{key}` must be {wants}, not `{value}`")).hint(hint));
    if value.contains('\0') {
        return Err(Error::invalid(format!("`{key}` holds a zero byte")).hint("correct it"));
    }
    match key {
        _ if is_secret(key) && value.is_empty() => Err(Error::invalid(format!("`{key}` is empty")).hint("give the secret")),
        "sasl.oauthbearer.method" if !["default", "oidc"].contains(&value) => {
            wrong("`oidc`", "or leave it out and write `sasl.oauthbearer.token`")
        }
        "enable.sasl.oauthbearer.unsecure.jwt" if !["true", "false"].contains(&value) => wrong("true or false", "it is for tests"),
        "sasl.oauthbearer.token.endpoint.url" => match url::Url::parse(value) {
            // What stands before an `@` may be a password.
            Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                Err(Error::invalid(format!("`{key}` holds a user name")).hint("write `sasl.oauthbearer.client.id` and `.client.secret`"))
            }
            Ok(url) if matches!(url.scheme(), "https" | "http") && url.has_host() => Ok(()),
            _ => Err(Error::invalid(format!("`{key}` is no URL of a token endpoint"))
                .hint("write it like https://login.example.com/oauth2/token")),
        },
        "ssl.endpoint.identification.algorithm" if value.is_empty() => {
            wrong("https or none", "write `none` to leave the broker's name unchecked")
        }
        _ if is_ours(key) || is_secret(key) => Ok(()),
        _ => known_to_client(key, value),
    }
}

/// Asks librdkafka, which knows its ranges and words best. Connects to nothing.
#[cfg(feature = "kafka")]
fn known_to_client(key: &str, value: &str) -> Result<()> {
    use rdkafka::error::KafkaError;
    match rdkafka::ClientConfig::new().set(key, value).create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(_, why, ..)) => {
            Err(Error::invalid(format!("`{key}` cannot be `{value}`: {}", why.trim_end_matches('.'))).hint(format!("correct it; {PAGE}")))
        }
        Err(e) => Err(Error::invalid(format!("`{key}` cannot be `{value}`")).because(e).hint("correct it")),
    }
}

#[cfg(not(feature = "kafka"))]
fn known_to_client(_: &str, _: &str) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_both_allowed_and_refused_or_listed_twice() {
        let mut all: Vec<&str> = KEYS.to_vec();
        all.extend(ELSEWHERE.iter().map(|(key, _)| *key));
        all.extend(DECIDED.iter().map(|(key, ..)| *key));
        let many = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), many);
        for key in SECRETS.iter().chain(&FILES).chain(&PATHS) {
            assert!(KEYS.contains(key), "{key}");
        }
    }

    #[test]
    fn what_is_allowed_but_unsafe_is_warned_of() {
        let of = |pairs: &[(&'static str, &'static str)]| warnings(&pairs.iter().map(|(k, v)| (*k, Some(*v))).collect()).len();
        assert_eq!(of(&[("isolation.level", "read_committed"), ("security.protocol", "SASL_SSL"), ("sasl.mechanism", "PLAIN")]), 0);
        assert_eq!(of(&[("security.protocol", "sasl_plaintext"), ("sasl.mechanism", "SCRAM-SHA-512")]), 0);
        assert_eq!(of(&[("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanisms", "plain")]), 1);
        assert_eq!(of(&[("isolation.level", "read_uncommitted"), ("enable.ssl.certificate.verification", "false")]), 2);
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn librdkafka_knows_every_key_that_it_is_handed_and_none_of_other_clients() {
        use rdkafka::error::KafkaError;
        use rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN;
        let knows = |key: &str| match rdkafka::ClientConfig::new().set(key, "1").create_native_config() {
            Err(KafkaError::ClientConfig(code, why, ..)) => code != RD_KAFKA_CONF_UNKNOWN || !why.contains("No such"),
            _ => true,
        };
        assert!(!knows("no.such.key"));
        for key in KEYS.iter().filter(|key| **key != TOKEN).chain(DECIDED.iter().map(|(key, ..)| key)) {
            assert!(knows(key), "{key}");
        }
        let shared = ["request.timeout.ms"]; // librdkafka has one, of producers
        for (key, _) in ELSEWHERE.iter().filter(|(key, _)| !shared.contains(key)) {
            assert!(rdkafka::ClientConfig::new().set(*key, "1").create_native_config().is_err(), "{key}");
        }
    }
}
