//! From the text of a location to an absolute one, and to the client that serves it. Makes no request.

use std::collections::HashMap;
use std::path::{Component, Path as FsPath, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};

use crate::error::{Error, Result};

const CONNECT_TIMEOUT: &str = "5 seconds";
const REQUEST_TIMEOUT: &str = "30 seconds";

/// A location, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// A directory of this machine, absolute.
    Local(PathBuf),
    /// A directory in a bucket (or in a named memory store).
    Bucket { scheme: Scheme, bucket: String, dir: Path, url: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Memory,
    S3,
    Gcs,
    Azure,
}

impl Location {
    pub(super) fn parse(text: &str) -> Result<Location> {
        let bad = |what: &str, hint: &str| Error::invalid(what).at(text).hint(hint);
        if text.is_empty() {
            return Err(Error::invalid("the location is empty").hint("give a path or a URL"));
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(Location::Local(absolute(FsPath::new(text))?)) };
        let scheme = scheme.to_ascii_lowercase();
        let kind = match scheme.as_str() {
            "file" => return local_url(text),
            "memory" => Scheme::Memory,
            "s3" | "s3a" => Scheme::S3,
            "gs" => Scheme::Gcs,
            "az" | "abfs" | "abfss" => Scheme::Azure,
            _ => return Err(bad("this kind of location is not known", "use a path, file://, s3://, gs://, az:// or memory://")),
        };
        if rest.contains(['?', '#']) {
            return Err(bad("a location has no query and no fragment", "set options in the environment"));
        }
        let (bucket, dir) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(bad("the location names no bucket", "write it as SCHEME://BUCKET/DIRECTORY"));
        }
        let no_dir = || bad("this is no directory name", "leave out empty, `.` and `..` segments");
        let dir = Path::parse(dir.trim_end_matches('/')).map_err(|e| no_dir().because(e)).and_then(|parsed| {
            // The parser drops a leading slash, which in a bucket is a part of the key.
            if dir.starts_with('/') { Err(no_dir()) } else { Ok(parsed) }
        })?;
        // One place has one spelling: checkpoints compare locations as text.
        let scheme = if scheme == "s3a" { "s3" } else { &scheme };
        let slash = if dir.as_ref().is_empty() { "" } else { "/" };
        let url = format!("{scheme}://{bucket}{slash}{dir}");
        Ok(Location::Bucket { scheme: kind, bucket: bucket.to_owned(), dir, url })
    }
}

fn local_url(text: &str) -> Result<Location> {
    let bad = || Error::invalid("this is no local path").at(text).hint("write it as file:///ABSOLUTE/PATH, or as a plain path");
    let url = url::Url::parse(text).map_err(|e| bad().because(e))?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad());
    }
    let path = url.to_file_path().map_err(|()| bad())?;
    Ok(Location::Local(absolute(&path)?))
}

/// Absolute and lexically normalised: the same text for the same words, whether or not it exists yet. Symbolic links stay.
fn absolute(path: &FsPath) -> Result<PathBuf> {
    let path = std::path::absolute(path)
        .map_err(|e| Error::invalid("the current directory is not known").at(path.display()).because(e).hint("use an absolute path"))?;
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    if plain.to_str().is_none() {
        return Err(Error::invalid("the path is not UTF-8").at(plain.display()).hint("rename the directory"));
    }
    Ok(plain)
}

/// The clients of one bucket: the same object, through both of its interfaces.
pub(super) struct Clients {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) parts: Arc<dyn MultipartStore>,
}

impl<T: ObjectStore + MultipartStore> From<Arc<T>> for Clients {
    fn from(store: Arc<T>) -> Self {
        Clients { objects: store.clone(), parts: store }
    }
}

pub(super) fn connect(scheme: Scheme, bucket: &str, url: &str) -> Result<Clients> {
    match scheme {
        Scheme::Memory => Ok(memory(bucket).into()),
        Scheme::S3 => s3(bucket, url),
        Scheme::Gcs => gcs(bucket, url),
        Scheme::Azure => azure(url),
    }
}

/// Named stores in memory live as long as the process.
fn memory(name: &str) -> Arc<InMemory> {
    static STORES: OnceLock<Mutex<HashMap<String, Arc<InMemory>>>> = OnceLock::new();
    let mut stores = STORES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    stores.entry(name.to_owned()).or_default().clone()
}

/// The client's own retries are off: a conditional create that the client repeats would find its own object and call it taken.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn misconfigured(url: &str, e: object_store::Error) -> Error {
    Error::invalid("the store's settings in the environment are not valid").at(url).because(e).hint("correct the environment variables")
}

/// Timeouts that the environment leaves open. (`AWS_TIMEOUT=60s` and the like are read by the builder.)
fn timeouts(prefix: &str) -> impl Iterator<Item = (ClientConfigKey, &'static str)> {
    [(ClientConfigKey::ConnectTimeout, "CONNECT_TIMEOUT", CONNECT_TIMEOUT), (ClientConfigKey::Timeout, "TIMEOUT", REQUEST_TIMEOUT)]
        .into_iter()
        .filter(move |(_, name, _)| std::env::var_os(format!("{prefix}_{name}")).is_none())
        .map(|(key, _, value)| (key, value))
}

/// A plain-text endpoint without leave to use it would fail at every request, as if the store were away.
fn check_endpoint(url: &str, endpoint: Option<String>, allow_http: Option<String>, variable: &str) -> Result<()> {
    let plain = endpoint.is_some_and(|e| e.starts_with("http://"));
    if plain && allow_http.as_deref() != Some("true") {
        return Err(Error::invalid("the endpoint is http://, which is not encrypted")
            .at(url)
            .hint(format!("set {variable}=true if that is wanted, else use an https:// endpoint")));
    }
    Ok(())
}

fn s3(bucket: &str, url: &str) -> Result<Clients> {
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(no_retries());
    for (key, value) in timeouts("AWS") {
        builder = builder.with_config(AmazonS3ConfigKey::Client(key), value);
    }
    let http = builder.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    check_endpoint(url, builder.get_config_value(&AmazonS3ConfigKey::Endpoint), http, "AWS_ALLOW_HTTP")?;
    Ok(Arc::new(builder.build().map_err(|e| misconfigured(url, e))?).into())
}

fn gcs(bucket: &str, url: &str) -> Result<Clients> {
    let mut builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(no_retries());
    for (key, value) in timeouts("GOOGLE") {
        builder = builder.with_config(GoogleConfigKey::Client(key), value);
    }
    Ok(Arc::new(builder.build().map_err(|e| misconfigured(url, e))?).into())
}

fn azure(url: &str) -> Result<Clients> {
    let mut builder = MicrosoftAzureBuilder::from_env().with_url(url).with_retry(no_retries());
    for (key, value) in timeouts("AZURE") {
        builder = builder.with_config(AzureConfigKey::Client(key), value);
    }
    let http = builder.get_config_value(&AzureConfigKey::Client(ClientConfigKey::AllowHttp));
    check_endpoint(url, builder.get_config_value(&AzureConfigKey::Endpoint), http, "AZURE_ALLOW_HTTP")?;
    Ok(Arc::new(builder.build().map_err(|e| misconfigured(url, e))?).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_leaves_open_connecting_and_every_request_have_a_time_out() {
        let set: HashMap<String, &str> = timeouts("NOBODY_SETS_THIS").map(|(key, value)| (key.as_ref().to_owned(), value)).collect();
        assert_eq!(set, HashMap::from([("connect_timeout".to_owned(), "5 seconds"), ("timeout".to_owned(), "30 seconds")]));
        let builder = timeouts("NOBODY_SETS_THIS")
            .fold(AmazonS3Builder::new().with_bucket_name("b").with_region("r"), |b, (key, value)| {
                b.with_config(AmazonS3ConfigKey::Client(key), value)
            });
        builder.build().expect("the client understands them");
    }
}
