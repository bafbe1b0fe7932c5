//! Tokens by client credentials (RFC 6749, section 4.4): librdkafka's own way wants libcurl, so it is done here.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use std::fmt;
use std::time::Duration;

use futures::StreamExt as _;
use object_store::ClientOptions;
use object_store::client::{HttpConnector as _, HttpRequest, HttpResponseBody, ReqwestConnector};
use rdkafka::client::OAuthToken;
use serde_json::Value;
use url::form_urlencoded;

use super::login::{Secret, millis, of_jwt};
use super::options::KafkaOptions;
use crate::error::{Error, Kind, Result};

/// From the first byte out to the last byte in. The thread that reads Kafka waits so long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The greatest answer that is read, bytes.
const MAX_ANSWER: usize = 1 << 20;

/// Where tokens are given out, and to whom.
pub(super) struct Oidc {
    url: String,
    client: String,
    secret: Secret,
    scope: Option<String>,
    /// More CAs to trust, PEM.
    ca: Option<String>,
    options: KafkaOptions,
}

impl fmt::Debug for Oidc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oidc").field("url", &self.url).field("client", &self.client).finish_non_exhaustive()
    }
}

impl Oidc {
    /// From the options, which have been checked to be complete.
    pub(super) fn new(options: &KafkaOptions) -> Result<Oidc> {
        let either = |names: [&str; 2]| -> Result<String> {
            match options.text(names[0])? {
                Some(text) => Ok(text),
                None => options.text(names[1])?.ok_or_else(|| Error::invalid(format!("`{}` is missing", names[0])).hint("write it")),
            }
        };
        let ca = match (options.text("https.ca.pem")?, options.properties.get("https.ca.location")) {
            (None, Some(path)) => {
                let failed = |e| Error::invalid("`https.ca.location` cannot be read").at(path).because(e).hint("put a PEM file there");
                Some(std::fs::read_to_string(path).map_err(failed)?)
            }
            (text, _) => text,
        };
        Ok(Oidc {
            url: options.text("sasl.oauthbearer.token.endpoint.url")?.unwrap_or_default(),
            client: either(["sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"])?,
            secret: Secret(either(["sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"])?),
            scope: options.text("sasl.oauthbearer.scope")?,
            ca,
            options: options.clone(),
        })
    }

    /// A new token. Secrets in files are read anew. Must not be called on a thread that drives a runtime.
    pub(super) fn token(&self, now_ms: i64) -> Result<OAuthToken> {
        let fresh = Oidc::new(&self.options)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| Error::unavailable("a token cannot be fetched").because(e).hint("see what the machine lacks"))?;
        let (status, body) = runtime.block_on(fresh.ask())?;
        understood(status, &body, now_ms).map_err(|e| e.at(&self.url))
    }

    async fn ask(&self) -> Result<(u16, Vec<u8>)> {
        let away = |e: object_store::client::HttpError| {
            Error::unavailable("the token endpoint does not answer")
                .at(&self.url)
                .because(e)
                .hint("see whether it can be reached from here; a CA of one's own goes into `https.ca.location`")
        };
        let failed = |what: &str| Error::invalid(what).at(&self.url).hint("mend `sasl.oauthbearer.token.endpoint.url`");
        let plain = self.url.starts_with("http://");
        let mut client = ClientOptions::new().with_timeout(TIMEOUT).with_connect_timeout(TIMEOUT / 2).with_allow_http(plain);
        if let Some(pem) = &self.ca {
            let certificates = object_store::Certificate::from_pem_bundle(pem.as_bytes());
            for one in certificates.map_err(|e| Error::invalid("`https.ca` is not PEM").because(e).hint("put certificates there"))? {
                client = client.with_root_certificate(one);
            }
        }
        let client = ReqwestConnector::default().connect(&client).map_err(|e| failed("no HTTP client can be made").because(e))?;
        let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        if let Some(scope) = &self.scope {
            form.append_pair("scope", scope);
        }
        let mut request = HttpRequest::new(form.finish().into());
        *request.method_mut() = "POST".parse().map_err(|_| failed("POST is no method"))?;
        *request.uri_mut() = self.url.parse().map_err(|_| failed("this is no URL"))?;
        let login = basic(&format!("{}:{}", encode(&self.client), encode(&self.secret.0)));
        for (name, value) in [
            ("content-type", "application/x-www-form-urlencoded".to_owned()),
            ("accept", "application/json".to_owned()),
            ("authorization", login),
        ] {
            request.headers_mut().insert(name, value.parse().map_err(|_| failed("a header cannot be sent"))?);
        }
        let answer = client.execute(request).await.map_err(away)?;
        let status = answer.status().as_u16();
        Ok((status, read(answer.into_body()).await.map_err(away)?))
    }
}

/// The header `authorization` of a name and a password.
fn basic(pair: &str) -> String {
    format!("Basic {}", BASE64.encode(pair))
}

async fn read(body: HttpResponseBody) -> Result<Vec<u8>, object_store::client::HttpError> {
    let (mut all, mut stream) = (Vec::new(), body.bytes_stream());
    while let Some(bytes) = stream.next().await {
        all.extend_from_slice(&bytes?);
        if all.len() > MAX_ANSWER {
            break;
        }
    }
    Ok(all)
}

/// The token in an answer. What the endpoint says of an error is shown, but for what might be a token.
fn understood(status: u16, body: &[u8], now_ms: i64) -> Result<OAuthToken> {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let text = |name: &str| json.as_ref().and_then(|j| j.get(name)).and_then(Value::as_str);
    if status != 200 {
        let says: Vec<&str> = ["error", "error_description"].into_iter().filter_map(text).collect();
        let what = format!("the token endpoint answers {status} {}", says.join(": "));
        let (kind, hint) = match status {
            429 | 500.. => (Kind::Unavailable, "try again later"),
            400 | 401 | 403 => (Kind::Invalid, "mend `sasl.oauthbearer.client.id`, `.client.secret` or `.scope`"),
            _ => (Kind::Invalid, "mend `sasl.oauthbearer.token.endpoint.url`"),
        };
        return Err(Error::new(kind, what.trim_end()).hint(hint));
    }
    let hint = "is `sasl.oauthbearer.token.endpoint.url` that of the token endpoint?";
    let token = text("access_token").ok_or_else(|| Error::invalid("the token endpoint answers without an access_token").hint(hint))?;
    let mut token = of_jwt(token, now_ms)?;
    if let Some(seconds) = json.as_ref().and_then(|j| j.get("expires_in")).and_then(Value::as_u64).filter(|s| *s > 0) {
        token.lifetime_ms = now_ms.saturating_add(millis(Duration::from_secs(seconds)));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_and_the_secret_go_into_a_header() {
        assert_eq!(basic("Aladdin:open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(basic("a:\u{ff}?"), "Basic YTrDvz8=");
    }

    #[test]
    fn an_answer_is_a_token_or_says_why_not() {
        let token = understood(200, br#"{"access_token":"abc","expires_in":60,"token_type":"Bearer"}"#, 1000).unwrap();
        assert_eq!((token.token.as_str(), token.lifetime_ms), ("abc", 61_000));
        let e = understood(401, br#"{"error":"invalid_client","error_description":"no such client"}"#, 0).err().unwrap();
        assert_eq!(e.kind(), Kind::Invalid);
        assert!(e.to_string().contains("answers 401 invalid_client: no such client"), "{e}");
        assert_eq!(understood(503, b"<html>", 0).err().unwrap().kind(), Kind::Unavailable);
        assert!(understood(200, b"<html>", 0).err().unwrap().to_string().contains("without an access_token"));
    }
}
