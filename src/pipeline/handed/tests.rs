use std::path::Path;

use super::super::at::At;
use super::super::file::Properties;
use super::super::yaml::{self, Mark, Texts};
use super::super::{shape, write};
use super::kafka_properties;
use crate::error::{Kind, Result};

fn env(name: &str) -> Option<String> {
    let known = [("PW", "hunter2"), ("USER", "alice"), ("PROTOCOL", "SASL_SSL")];
    known.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

/// `text` stands below `source.kafka.properties`, which is line 4.
fn read_with(text: &str, set: &[&str]) -> Result<Properties> {
    let text = format!("source:\n  kafka:\n    topics: [t]\n    properties:\n{text}");
    let texts = Texts { file: "p.yaml".to_owned(), text, sets: set.iter().map(|s| (*s).to_owned()).collect() };
    let mut root = yaml::parse(&texts)?;
    for index in 0..texts.sets.len() {
        shape::set(&texts, &mut root, index)?;
    }
    yaml::expand(&texts, &mut root, &env)?;
    shape::check(&texts, &root, &shape::FILE, "")?;
    let at = At { texts: &texts, node: Some(&root), mark: Mark::default(), path: String::new() };
    kafka_properties(&at.get("source").get("kafka").get("properties"), Path::new("/base"))
}

/// Each line stands below `properties`.
fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("      {line}\n")).collect()
}

#[track_caller]
fn refused(text: &[&str], set: &[&str]) -> String {
    let e = read_with(&lines(text), set).expect_err(&text.join("\n"));
    assert_eq!(e.kind(), Kind::Invalid, "{e}");
    e.to_string()
}

const SCRAM: [&str; 3] = ["security.protocol: SASL_SSL", "sasl.mechanism: SCRAM-SHA-512", "sasl.username: alice"];

fn scram(password: &str) -> Vec<&str> {
    SCRAM.into_iter().chain([password]).collect()
}

#[test]
fn a_secret_comes_from_the_environment_or_a_file() {
    let given = read_with(&lines(&scram("sasl.password: ${PW}")), &[]).unwrap();
    assert_eq!(given.get("sasl.password").unwrap(), "hunter2");
    for how in ["sasl.password: '${PW}${PW}'", "sasl.password: \"${PW:?set it}\"", "sasl.password: \"${NONE:-${PW}}\""] {
        assert!(read_with(&lines(&scram(how)), &[]).unwrap()["sasl.password"].starts_with("hunter2"), "{how}");
    }
    let given = read_with(&lines(&scram("sasl.password: {file: secrets/kafka}")), &[]).unwrap();
    assert_eq!(given.files()["sasl.password"], Path::new("/base/secrets/kafka"));
    for set in ["source.kafka.properties.sasl.password.file=/run/pw", "source.kafka.properties.sasl.password={file: /run/pw}"] {
        let given = read_with(&lines(&SCRAM), &[set]).unwrap();
        assert_eq!(given.files()["sasl.password"], Path::new("/run/pw"), "{set}");
    }
    let given = read_with(&lines(&SCRAM), &["source.kafka.properties.sasl.password=${PW}"]).unwrap();
    assert_eq!(given["sasl.password"], "hunter2");
}

#[test]
fn a_secret_that_is_written_out_is_refused_with_its_line_and_without_its_value() {
    assert_eq!(
        refused(&scram("sasl.password: hunter2"), &[]),
        "p.yaml:8:7: the value of `sasl.password` is a secret and stands in the pipeline file; take it from the environment, \
         `sasl.password: \"${KAFKA_PASSWORD}\"`, or from a file, `sasl.password: {file: PATH}`; and change it, now that it was written \
         down\n  8 |       sasl.password: ...\n    |       ^^^^^^^^^^^^^"
    );
    let literal = [
        "sasl.password: \"hunter2\"",
        "sasl.password: 'x${PW}'",
        "sasl.password: '${NONE:-hunter2}'",
        "sasl.password: '${PW:-hunter2}'",
        "sasl.password: '${NONE:-${NONE:-hunter2}}'",
        "\"sasl.password\": hunter2",
        "sasl.password: &x hunter2",
        "sasl.password: $$hunter2",
        "sasl.password: [hunter2]",
        "sasl.password: {fiel: hunter2}",
        "ssl.key.password: hunter2",
        "ssl.keystore.password: hunter2",
        "ssl.key.pem: '-----BEGIN PRIVATE KEY----- hunter2'",
        "sasl.oauthbearer.client.secret: hunter2",
        "sasl.oauthbearer.token: hunter2",
        "sasl.jaas.config: 'x.ScramLoginModule required username=a password=hunter2;'",
        "ssl.truststore.password: hunter2",
    ];
    for line in literal {
        let shown = refused(&scram(line), &[]);
        assert!(!shown.contains("hunter2") && shown.starts_with("p.yaml:8:"), "{line}: {shown}");
    }
    let flow =
        "      {security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: a, sasl.password: hunter2, ssl.key.password: hunter2}\n";
    assert!(!read_with(flow, &[]).unwrap_err().to_string().contains("hunter2"));
    let anchor = ["security.protocol: SASL_SSL", "sasl.mechanism: PLAIN", "sasl.username: &p hunter2", "sasl.password: *p"];
    assert!(!refused(&anchor, &[]).contains("hunter2"));
    let block = ["security.protocol: SSL", "ssl.key.pem: |", "  -----BEGIN PRIVATE KEY-----", "  hunter2hunter2", "ssl.ca.locatoin: x"];
    assert!(!refused(&block, &[]).contains("hunter2"));
}

#[test]
fn a_secret_on_the_command_line_is_refused_without_its_value() {
    for set in [
        "source.kafka.properties.sasl.password=hunter2",
        "source.kafka.properties={security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: a, sasl.password: hunter2}",
        "source.kafka={properties: {sasl.password: hunter2}}",
        "source.kafka.properties.sasl.password='${NONE:-hunter2}'",
    ] {
        let shown = refused(&SCRAM, &[set]);
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.starts_with("--set source.kafka") && shown.contains("is a secret"), "{shown}");
    }
}

#[test]
fn secrets_are_masked_and_files_are_shown_by_path() {
    let names = ["security.protocol: SSL", "ssl.key.pem: ${PW}", "ssl.certificate.pem: {file: cert.pem}", "ssl.key.password: ${PW}"];
    let given = read_with(&lines(&names), &[]).unwrap();
    for shown in [format!("{given:?}"), write::properties(&given).unwrap().to_string()] {
        assert!(!shown.contains("hunter2") && shown.contains("***") && shown.contains("/base/cert.pem"), "{shown}");
    }
    let url = "https://login.example.com/token";
    let oidc = [
        "security.protocol: SASL_SSL",
        "sasl.mechanism: OAUTHBEARER",
        "sasl.oauthbearer.method: oidc",
        "sasl.oauthbearer.client.id: me",
        "sasl.oauthbearer.client.secret: ${PW}",
        &format!("sasl.oauthbearer.token.endpoint.url: {url}"),
    ];
    let shown = format!("{:?}", read_with(&lines(&oidc), &[]).unwrap());
    assert!(shown.contains(url) && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_misspelt_key_is_answered_with_the_nearest_right_one() {
    assert_eq!(
        refused(&["security.protocl: SSL"], &[]),
        "p.yaml:5:7: unknown key `security.protocl` in `source.kafka.properties`; did you mean `security.protocol`?\n  \
         5 |       security.protocl: ...\n    |       ^^^^^^^^^^^^^^^^"
    );
    assert!(refused(&["sasl.pasword: hunter2"], &[]).contains("did you mean `sasl.password`?"));
    assert!(!refused(&["sasl.pasword: hunter2"], &[]).contains("hunter2"));
    assert!(refused(&["qwertz: 5"], &[]).contains("librdkafka/blob/v2.12.1/CONFIGURATION.md"));
}

#[test]
fn words_of_other_clients_are_answered_with_ours() {
    for (line, says) in [
        ("sasl.jaas.config: x", "write `sasl.username`, and `sasl.password` from the environment or a file"),
        ("ssl.truststore.location: x", "write `ssl.ca.location` with a PEM file"),
        ("fetch.max.wait.ms: 5", "write `fetch.wait.max.ms`"),
        ("max.poll.records: 5", "remove it: `checkpoint.rows`"),
        ("value.deserializer: x", "write `decode: {format: ...}`"),
        ("properties.security.protocol: SSL", "has Flink's prefix; write `security.protocol`"),
        ("kafka.security.protocol: SSL", "has Spark's prefix; write `security.protocol`"),
        ("consumer.override.client.id: a", "has Connect's prefix; write `client.id`"),
        ("sasl.kerberos.keytab: /k", "Kerberos (GSSAPI) is not built in"),
    ] {
        let shown = refused(&[line], &[]);
        assert!(shown.contains(says), "{line}: {shown}");
    }
}

#[test]
fn what_would_break_exactly_once_is_refused_with_the_reason() {
    for (line, says) in [
        ("enable.auto.commit: true", "would tell the group about rows that are in no table yet"),
        ("auto.offset.reset: latest", "would skip or repeat records without a word"),
        ("bootstrap.servers: a:9092", "stands in `source.kafka.bootstrap_servers`"),
        ("group.protocol: consumer", "is for members of a group"),
        ("plugin.library.paths: x.so", "other people's code"),
    ] {
        let shown = refused(&[line], &[]);
        assert!(shown.contains(says), "{line}: {shown}");
    }
    assert!(read_with(&lines(&["isolation.level: read_uncommitted"]), &[]).is_ok());
}

#[cfg(feature = "kafka")]
#[test]
fn a_value_that_librdkafka_does_not_take_is_refused_at_its_place() {
    let shown = refused(&["fetch.min.bytes: 0"], &[]);
    assert!(shown.starts_with("p.yaml:5:24: `fetch.min.bytes` cannot be `0`: ") && shown.contains("1..100000000"), "{shown}");
    let shown = refused(&["security.protocol: TLS"], &[]);
    assert!(shown.starts_with("p.yaml:5:26: `security.protocol` cannot be `TLS`: "), "{shown}");
    assert!(refused(&["socket.keepalive.enable: maybe"], &[]).contains("cannot be `maybe`"));
}

#[test]
fn keys_that_would_do_nothing_or_lack_something_are_refused() {
    let cases: [(&[&str], &str); 18] = [
        (&["sasl.mechanism: PLAIN"], "`sasl.mechanism` does nothing, for `security.protocol` is PLAINTEXT"),
        (&["ssl.ca.location: ca.pem"], "`ssl.ca.location` does nothing, for `security.protocol` is PLAINTEXT"),
        (&["security.protocol: SSL", "sasl.username: a"], "`sasl.username` does nothing, for `security.protocol` is SSL"),
        (&["security.protocol: SASL_SSL"], "`security.protocol` is SASL_SSL, but `sasl.mechanism` is missing"),
        (&["security.protocol: sasl_ssl", "sasl.mechanism: PLAIN"], "PLAIN needs `sasl.username`"),
        (&["security.protocol: '${PROTOCOL}'", "sasl.mechanism: PLAIN"], "PLAIN needs `sasl.username`"),
        (&["security.protocol: SASL_SSL", "sasl.mechanism: SCRAM-SHA-256", "sasl.username: a"], "SCRAM-SHA-256 needs `sasl.password`"),
        (&["security.protocol: SASL_SSL", "sasl.mechanism: GSSAPI"], "Kerberos (GSSAPI) is not built in"),
        (&["security.protocol: SASL_SSL", "sasl.mechanism: AWS_MSK_IAM"], "AWS_MSK_IAM is not supported"),
        (&["security.protocol: SASL_SSL", "sasl.mechanism: SCRAM"], "`SCRAM` is not known as `sasl.mechanism`"),
        (&["security.protocol: SASL_SSL", "sasl.mechanism: OAUTHBEARER"], "OAUTHBEARER needs a token"),
        (
            &[SCRAM[0], SCRAM[1], SCRAM[2], "sasl.password: ${PW}", "sasl.oauthbearer.token: ${PW}"],
            "`sasl.oauthbearer.token` does nothing, for `sasl.mechanism` is SCRAM-SHA-512",
        ),
        (
            &["security.protocol: SASL_SSL", "sasl.mechanism: OAUTHBEARER", "sasl.oauthbearer.token: ${PW}", "sasl.oauthbearer.scope: a"],
            "`sasl.oauthbearer.scope` does nothing without `sasl.oauthbearer.method: oidc`",
        ),
        (
            &[
                "security.protocol: SASL_SSL",
                "sasl.mechanism: OAUTHBEARER",
                "sasl.oauthbearer.method: oidc",
                "sasl.oauthbearer.client.id: a",
            ],
            "`sasl.oauthbearer.method: oidc` needs `sasl.oauthbearer.token.endpoint.url`",
        ),
        (
            &[
                "security.protocol: SASL_SSL",
                "sasl.mechanism: OAUTHBEARER",
                "sasl.oauthbearer.token: ${PW}",
                "enable.sasl.oauthbearer.unsecure.jwt: true",
            ],
            "the token of OAUTHBEARER would come from two places",
        ),
        (
            &["security.protocol: SASL_SSL", "sasl.mechanism: OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url: 'https://a:hunter2@b/'"],
            "`sasl.oauthbearer.token.endpoint.url` holds a user name",
        ),
        (&["security.protocol: SSL", "ssl.ca.location: a", "ssl.ca.pem: b"], "`ssl.ca.location` and `ssl.ca.pem` are the same thing"),
        (&["client.id: {file: x}"], "`client.id` cannot come from a file"),
    ];
    for (text, says) in cases {
        let shown = refused(text, &[]);
        assert!(shown.contains(says) && !shown.contains("hunter2"), "{text:?}: {shown}");
    }
}

#[test]
fn paths_of_certificates_start_at_the_pipeline_file() {
    let given = read_with(&lines(&["security.protocol: SSL", "ssl.ca.location: tls/../ca.pem"]), &[]).unwrap();
    assert_eq!(given["ssl.ca.location"], "/base/ca.pem");
    let given = read_with(&lines(&["security.protocol: SSL", "ssl.ca.location: probe"]), &[]).unwrap();
    assert_eq!(given["ssl.ca.location"], "probe");
}
