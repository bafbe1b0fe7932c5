//! What the client tells about brokers that do not let it in, for people: which broker, how, and what to change.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use super::login::Login;
use crate::error::Error;

/// How sure it is that waiting does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sure {
    /// The broker said so.
    Yes,
    /// It may also be a broker, or a balancer in front of it, that is just starting.
    Perhaps,
}

/// What an error of the client means, if it is about being let in. `Invalid` at a start: a wrong password does not mend itself.
pub(super) fn of(error: &KafkaError, reason: &str, login: &Login) -> Option<(Sure, Error)> {
    if reason.starts_with("Failed to acquire SASL OAUTHBEARER token") {
        return None; // it is told why by `Login::token` itself
    }
    let at = broker(reason).unwrap_or(&login.servers);
    let say = |what: String, hint: &str| Some((Sure::Yes, Error::invalid(what).at(at).because(told(reason)).hint(hint)));
    let has = |part: &str| reason.contains(part);
    let (protocol, mechanism) = (login.protocol.as_str(), login.mechanism.as_deref().unwrap_or("SASL"));
    match error.rdkafka_error_code()? {
        Code::Authentication | Code::SaslAuthenticationFailed => {
            if has("Unsupported SASL mechanism") {
                let offers = reason.split("supported mechanisms: ").nth(1).and_then(|rest| rest.split(" (").next()).unwrap_or("others");
                return say(
                    format!("the broker does not take {mechanism}, but {offers}"),
                    "change `sasl.mechanism`, or ask for it to be enabled",
                );
            }
            if has("not valid in current SASL state") {
                let right = if protocol == "SASL_SSL" { "SSL" } else { "PLAINTEXT" };
                let hint = format!("write `security.protocol: {right}` without `sasl.*`, or take the port of another listener");
                return say(format!("the broker wants no SASL on this port, but `security.protocol` is {protocol}"), &hint);
            }
            if mechanism == "OAUTHBEARER" {
                let hint = "see whether the broker expects this issuer, audience and scope, and what its log says";
                return say("the broker refuses the token (OAUTHBEARER)".to_owned(), hint);
            }
            let user = login.user.as_deref().unwrap_or_default();
            say(
                format!("the broker refuses user `{user}` with this password ({mechanism})"),
                "mend `sasl.username` and `sasl.password`, or see whether the user has been created for this mechanism",
            )
        }
        Code::SSL if has("certificate verify failed") => {
            say(format!("the broker's certificate is not to be trusted ({protocol})"), UNTRUSTED)
        }
        Code::SSL if has("wrong version number") || has("packet length too long") || has("http request") => {
            say(format!("the broker speaks no TLS on this port, but `security.protocol` is {protocol}"), &without_tls(protocol))
        }
        Code::SSL | Code::BrokerTransportFailure if has(" alert ") || has("client SSL authentication might be required") => say(
            "the broker does not take our certificate".to_owned(),
            "give it one that its CA has signed: `ssl.certificate.location` and `ssl.key.location`, or `ssl.keystore.location`",
        ),
        Code::SSL => say(
            format!("TLS with the broker fails ({protocol})"),
            "see what the broker's log says, and `openssl s_client -connect HOST:PORT`",
        ),
        Code::BrokerTransportFailure if has("PLAINTEXT broker listener") => {
            let e = Error::unavailable(format!("the broker closes the connection when TLS begins, and `security.protocol` is {protocol}"));
            Some((Sure::Perhaps, e.at(at).hint(format!("is it up, and is this a port with TLS? if not, {}", without_tls(protocol)))))
        }
        _ => None,
    }
}

const UNTRUSTED: &str = "put its CA into `ssl.ca.location` (PEM); when that is right, its certificate is for another name than the one in \
                         `bootstrap_servers` or `advertised.listeners`, or it has expired: `openssl s_client -connect HOST:PORT` shows it";

pub(super) fn without_tls(protocol: &str) -> String {
    let right = if protocol == "SASL_SSL" { "SASL_PLAINTEXT" } else { "PLAINTEXT" };
    format!("write `security.protocol: {right}`, or take the port of a listener with TLS")
}

/// What a log line of the client suggests that no error says: a connection that the broker closes without a word.
pub(super) fn hinted(message: &str) -> bool {
    message.contains("might be caused by incorrect security.protocol") || message.contains("might require SASL authentication")
}

/// `host:port` of `sasl_ssl://host:port/bootstrap: what happened`.
pub(super) fn broker(reason: &str) -> Option<&str> {
    let (protocol, rest) = reason.split_once("://")?;
    if !["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"].iter().any(|known| protocol.ends_with(known)) || protocol.contains(": ") {
        return None; // another address, in what a token endpoint says
    }
    let end = rest.find('/').or_else(|| rest.find(": "))?;
    Some(&rest[..end]).filter(|at| !at.is_empty())
}

/// What happened, without the broker before it and the time behind it.
pub(super) fn told(reason: &str) -> String {
    let text = match broker(reason) {
        Some(at) => reason.split_once(at).and_then(|(_, rest)| rest.split_once(": ")).map_or(reason, |(_, rest)| rest),
        None => reason,
    };
    let text = text.split(" (after ").next().unwrap_or(text);
    text.split(", verify that ssl.ca.location").next().unwrap_or(text).trim().to_owned()
}

/// An error that cannot mend itself, as something that goes on being tried: for a run that was let in before.
pub(super) fn during_a_run(error: &Error) -> String {
    format!("{error}; reading goes on when it is mended: what was read is safe, and secrets in files are read anew")
}

#[cfg(test)]
mod tests {
    use super::super::options::{KafkaOptions, KafkaTopics};
    use super::*;
    use crate::error::Kind;

    fn login(protocol: &str, mechanism: Option<&str>) -> Login {
        let mut options = KafkaOptions::new("boot:9092", KafkaTopics::Names(vec!["t".to_owned()]), "g");
        options.properties.insert("security.protocol".to_owned(), protocol.to_owned());
        options.properties.insert("sasl.username".to_owned(), "alice".to_owned());
        options.properties.extend(mechanism.map(|m| ("sasl.mechanism".to_owned(), m.to_owned())));
        Login::new(&options).unwrap()
    }

    #[track_caller]
    fn says(code: Code, reason: &str, protocol: &str, mechanism: Option<&str>) -> String {
        of(&KafkaError::Global(code), reason, &login(protocol, mechanism)).map(|(_, e)| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_wrong_password_names_broker_user_and_mechanism() {
        let reason = "sasl_ssl://b1:9094/bootstrap: SASL authentication error: Authentication failed: Invalid username or password (after \
                      302ms in state AUTH_REQ, 1 identical error(s) suppressed)";
        let shown = says(Code::Authentication, reason, "SASL_SSL", Some("plain"));
        assert!(
            shown.starts_with("b1:9094: the broker refuses user `alice` with this password (PLAIN) (SASL authentication error: "),
            "{shown}"
        );
        assert!(!shown.contains("AUTH_REQ"), "{shown}");
        let reason = "sasl_plaintext://b1:9094/1: SASL SCRAM-SHA-512 mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's \
                      supported mechanisms: PLAIN (after 300ms in state AUTH_HANDSHAKE)";
        let shown = says(Code::Authentication, reason, "SASL_PLAINTEXT", Some("SCRAM-SHA-512"));
        assert!(shown.starts_with("b1:9094: the broker does not take SCRAM-SHA-512, but PLAIN ("), "{shown}");
    }

    #[test]
    fn what_passes_by_itself_is_not_taken_for_a_refusal() {
        let reason = "ssl://b1:9099/bootstrap: Connect to ipv4#127.0.0.1:21099 failed: Connection refused (after 0ms in state CONNECT)";
        assert_eq!(says(Code::BrokerTransportFailure, reason, "SSL", None), "");
        let reason = "Failed to acquire SASL OAUTHBEARER token: http://127.0.0.1:80/token: the token endpoint does not answer";
        assert_eq!(says(Code::Authentication, reason, "SASL_SSL", Some("OAUTHBEARER")), "");
        assert_eq!(says(Code::AllBrokersDown, "1/1 brokers are down", "SSL", None), "");
        let reason =
            "ssl://b1:1/bootstrap: SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener? (after 0ms in state X)";
        let (sure, e) = of(&KafkaError::Global(Code::BrokerTransportFailure), reason, &login("SSL", None)).unwrap();
        assert_eq!((sure, e.kind()), (Sure::Perhaps, Kind::Unavailable));
    }

    #[test]
    fn a_broker_is_found_in_what_the_client_tells() {
        for (reason, at) in [
            ("ssl://127.0.0.1:21095/bootstrap: SSL handshake failed", Some("127.0.0.1:21095")),
            ("sasl_ssl://[::1]:9092/1: x", Some("[::1]:9092")),
            ("1/1 brokers are down", None),
            ("Failed to acquire SASL OAUTHBEARER token: http://127.0.0.1:80/token: no", None),
            ("Failed: ssl://127.0.0.1:80/token: no", None),
        ] {
            assert_eq!(broker(reason), at, "{reason}");
        }
    }
}
