//! Who this client is to the brokers: secrets from files, and tokens for OAUTHBEARER.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rdkafka::client::OAuthToken;
use serde_json::Value;

use super::oidc::Oidc;
use super::options::KafkaOptions;
use crate::error::{Error, Result};
use crate::source::kafka::keys::{self, Given, TOKEN};

/// A token that does not say when it ends is shown again after this, at the latest.
const OPAQUE_LIFE: Duration = Duration::from_secs(300);
/// A token may be so long, and a password in a file.
const MAX_SECRET: u64 = 1 << 20;

/// A text that is not printed.
#[derive(Clone)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What the brokers are told, and how.
#[derive(Debug)]
pub(super) struct Login {
    /// `host:port,...`
    pub(super) servers: String,
    /// `SASL_SSL`
    pub(super) protocol: String,
    /// `SCRAM-SHA-512`; none: no SASL.
    pub(super) mechanism: Option<String>,
    /// `sasl.username`, where there is one.
    pub(super) user: Option<String>,
    tokens: Option<Tokens>,
}

/// Where tokens come from.
#[derive(Debug)]
enum Tokens {
    Given(Secret),
    File(PathBuf),
    Unsecured(String),
    Oidc(Box<Oidc>),
}

impl KafkaOptions {
    /// All properties; those in a file without text.
    pub(super) fn given(&self) -> Given<'_> {
        keys::given(&self.properties, &self.property_files)
    }

    /// The text of a property, read from its file if it has one.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>> {
        match self.property_files.get(key) {
            Some(path) => read_secret(key, path).map(Some),
            None => Ok(self.properties.get(key).cloned()),
        }
    }
}

impl Login {
    /// From the options, which [`keys::check_together`] has seen.
    pub(super) fn new(options: &KafkaOptions) -> Result<Login> {
        let given = options.given();
        let is = |key: &str, value: &str| given.get(key).copied().flatten().is_some_and(|v| v.eq_ignore_ascii_case(value));
        let protocol = given.get("security.protocol").copied().flatten().unwrap_or("plaintext").to_ascii_uppercase();
        let mechanism = keys::mechanism(&given).filter(|_| protocol.starts_with("SASL")).map(str::to_ascii_uppercase);
        let tokens = match mechanism.as_deref() {
            Some("OAUTHBEARER") if is("sasl.oauthbearer.method", "oidc") => Some(Tokens::Oidc(Box::new(Oidc::new(options)?))),
            Some("OAUTHBEARER") if is("enable.sasl.oauthbearer.unsecure.jwt", "true") => {
                Some(Tokens::Unsecured(options.properties.get("sasl.oauthbearer.config").cloned().unwrap_or_default()))
            }
            Some("OAUTHBEARER") => match options.property_files.get(TOKEN) {
                Some(path) => Some(Tokens::File(path.clone())),
                None => options.properties.get(TOKEN).map(|token| Tokens::Given(Secret(token.clone()))),
            },
            _ => None,
        };
        Ok(Login { servers: options.bootstrap_servers.clone(), protocol, mechanism, user: options.text("sasl.username")?, tokens })
    }

    /// A token for the brokers, as of now. Blocks while it is fetched, 10 s at most.
    pub(super) fn token(&self, now_ms: i64) -> Result<OAuthToken> {
        match &self.tokens {
            Some(Tokens::Given(token)) => {
                let hint = "the environment of a process does not change: use `{file: PATH}` for tokens that are renewed, or start again with a new one";
                of_jwt(&token.0, now_ms).map_err(|e| e.at(TOKEN).hint(hint))
            }
            Some(Tokens::File(path)) => of_jwt(&read_secret(TOKEN, path)?, now_ms).map_err(|e| e.at(path.display())),
            Some(Tokens::Unsecured(config)) => unsecured(config, now_ms),
            Some(Tokens::Oidc(oidc)) => oidc.token(now_ms),
            None => Err(Error::internal("a token was asked for, but OAUTHBEARER is not in use")),
        }
    }
}

/// The text of a file without the line end that editors and `echo` put behind it.
fn read_secret(key: &str, path: &Path) -> Result<String> {
    let failed = |what: String| Error::invalid(what).at(path.display()).hint("put a file there that this user can read");
    let size = std::fs::metadata(path).map_err(|e| failed(format!("the file of `{key}` cannot be read")).because(e))?.len();
    if size > MAX_SECRET {
        return Err(failed(format!("the file of `{key}` has {size} bytes, which is more than any secret")));
    }
    let bytes = std::fs::read(path).map_err(|e| failed(format!("the file of `{key}` cannot be read")).because(e))?;
    let mut text = String::from_utf8(bytes).map_err(|_| failed(format!("the file of `{key}` is not UTF-8")))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    match text.is_empty() {
        true => Err(failed(format!("the file of `{key}` is empty"))),
        false if text.contains('\0') => Err(failed(format!("the file of `{key}` holds a zero byte"))),
        false => Ok(text),
    }
}

/// Principal and end of a token, from its claims. A token that is no JWT has neither: it is shown again after a while.
pub(super) fn of_jwt(token: &str, now_ms: i64) -> Result<OAuthToken> {
    let token = token.trim();
    let hint = "give the token alone, without `Bearer`, quotes or line breaks";
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(Error::invalid("this is no bearer token").hint(hint));
    }
    let claims = token.split('.').nth(1).filter(|_| token.split('.').count() == 3);
    let claims: Option<Value> = claims.and_then(part).and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let claim = |name: &str| claims.as_ref().and_then(|c| c.get(name));
    let number = |name: &str| claim(name).and_then(Value::as_f64).map(|seconds| (seconds * 1000.0) as i64);
    let end = number("exp").unwrap_or_else(|| now_ms.saturating_add(millis(OPAQUE_LIFE)));
    if end <= now_ms {
        let ago = (now_ms - end) / 1000;
        return Err(
            Error::invalid(format!("the token expired {ago} s ago")).hint("put a fresh one there, and see that something renews it")
        );
    }
    let principal = claim("sub").or_else(|| claim("client_id")).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    Ok(OAuthToken { token: token.to_owned(), principal_name: principal, lifetime_ms: end })
}

/// A part of a JWT.
fn part(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.trim_end_matches('=')).ok()
}

/// A token that nobody signed, from `principal=NAME scope=A lifeSeconds=N`, for brokers that are set up so for tests.
fn unsecured(config: &str, now_ms: i64) -> Result<OAuthToken> {
    let key = "sasl.oauthbearer.config";
    let (mut principal, mut scope, mut life) = (None, None, 3600_i64);
    for (name, value) in config.split_whitespace().map(|part| part.split_once('=').unwrap_or((part, ""))) {
        match name {
            "principal" => principal = Some(value),
            "scope" => scope = Some(value),
            "lifeSeconds" => {
                let seconds = value.parse().ok().filter(|s| *s > 0);
                life =
                    seconds.ok_or_else(|| Error::invalid("`lifeSeconds` must be a number above 0").at(key).hint("3600 is the default"))?;
            }
            _ => {
                return Err(Error::invalid(format!("`{name}` is not known in it"))
                    .at(key)
                    .hint("write `principal=NAME scope=A lifeSeconds=3600`"));
            }
        }
    }
    let principal = principal.filter(|p| !p.is_empty());
    let principal = principal.ok_or_else(|| Error::invalid("it names no principal").at(key).hint("write `principal=NAME`"))?;
    let (from, end) = (now_ms / 1000, now_ms / 1000 + life);
    let mut claims = serde_json::json!({"sub": principal, "iat": from, "exp": end});
    if let (Some(scope), Some(claims)) = (scope, claims.as_object_mut()) {
        claims.insert("scope".to_owned(), scope.split(',').collect());
    }
    let token = format!("{}.{}.", BASE64.encode(r#"{"alg":"none"}"#), BASE64.encode(claims.to_string()));
    Ok(OAuthToken { token, principal_name: principal.to_owned(), lifetime_ms: end * 1000 })
}

/// Milliseconds.
pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn jwt(claims: &str) -> String {
        format!("{}.{}.c2ln", BASE64.encode(r#"{"alg":"RS256"}"#), BASE64.encode(claims))
    }

    #[test]
    fn a_token_tells_its_principal_and_its_end() {
        let token = of_jwt(&format!("{}\n", jwt(r#"{"sub":"alice","exp":1800000060}"#)), NOW).unwrap();
        assert_eq!((token.principal_name.as_str(), token.lifetime_ms), ("alice", NOW + 60_000));
        assert!(!token.token.ends_with('\n'));
        let token = of_jwt("opaque-token", NOW).unwrap();
        assert_eq!((token.principal_name.as_str(), token.lifetime_ms), ("unknown", NOW + 300_000));
    }

    #[test]
    fn an_expired_or_broken_token_is_refused_without_showing_it() {
        let old = jwt(r#"{"sub":"alice","exp":1799999990}"#);
        let e = of_jwt(&old, NOW).err().unwrap();
        assert!(e.to_string().contains("the token expired 10 s ago") && !e.to_string().contains(&old), "{e}");
        for broken in ["", "Bearer abc", "a\nb", "tök"] {
            assert!(of_jwt(broken, NOW).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_token_for_tests_is_not_signed() {
        let token = unsecured("principal=alice scope=read,write lifeSeconds=60", NOW).unwrap();
        let parts: Vec<&str> = token.token.split('.').collect();
        let text = |part: &str| String::from_utf8(super::part(part).unwrap()).unwrap();
        assert_eq!((parts.len(), text(parts[0]).as_str(), parts[2]), (3, r#"{"alg":"none"}"#, ""));
        assert_eq!(text(parts[1]), r#"{"sub":"alice","iat":1800000000,"exp":1800000060,"scope":["read","write"]}"#);
        assert_eq!(token.lifetime_ms, NOW + 60_000);
        for wrong in ["", "scope=a", "principal=a life=5", "principal=a lifeSeconds=0"] {
            assert!(unsecured(wrong, NOW).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_line_end_behind_a_secret_is_cut_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pw");
        for (written, read) in [("secret", "secret"), ("secret\n", "secret"), ("secret\r\n", "secret"), (" secret \n\n", " secret \n")] {
            std::fs::write(&path, written).unwrap();
            assert_eq!(read_secret("sasl.password", &path).unwrap(), read);
        }
        for broken in ["", "\n", "a\0b"] {
            std::fs::write(&path, broken).unwrap();
            assert!(read_secret("sasl.password", &path).is_err());
        }
        let e = read_secret("sasl.password", &dir.path().join("none")).unwrap_err().to_string();
        assert!(e.contains("none: the file of `sasl.password` cannot be read"), "{e}");
    }
}
