//! The Kafka client: its configuration, and what it tells of its own accord.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::login::Login;
use super::options::{KafkaOptions, KafkaTopics};
use super::refusal::{self, Sure};
use super::topics::ANSWER;
use super::{errors, ids, probe};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::source::kafka::keys;

/// So long the client is listened to before it is asked again whether it was let in.
const TURN: Duration = Duration::from_millis(25);

/// A consumer, used as a client of any kind.
pub(super) type Client = BaseConsumer<Context>;

/// What a client is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose<'a> {
    /// Reads records of so many partitions.
    Feed { partitions: usize },
    /// Asks for topics and offsets.
    Lookup,
    /// Asks for topics, and for ends as lag tools see them: also of what is in open transactions.
    Watch,
    /// Asks where this group stands.
    Group(&'a str),
}

/// What the client told since it was last asked.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The last error that is not about one partition; that all brokers are down only where nothing says why.
    pub(super) trouble: Option<(KafkaError, String)>,
    /// Why there is no token to show.
    pub(super) token: Option<Error>,
    /// What a connection that was closed without a word may mean.
    pub(super) hint: Option<String>,
}

/// Takes what the client tells, on whatever thread that happens, and gives it tokens.
#[derive(Clone)]
pub(super) struct Context {
    told: Arc<Mutex<Told>>,
    adopted: Arc<Adopted>,
    /// Does somebody want to read its debug log?
    debug: bool,
    pub(super) login: Arc<Login>,
}

/// Ids of topics that the client reads from now on. It is told before the first record of such a topic is asked for.
#[derive(Default)]
struct Adopted {
    some: AtomicBool,
    ids: Mutex<Vec<(String, String)>>,
}

impl Context {
    fn new(options: &KafkaOptions) -> Result<Context> {
        let debug = options.properties.contains_key("debug");
        Ok(Context { told: Arc::default(), adopted: Arc::default(), debug, login: Arc::new(Login::new(options)?) })
    }
    /// What was told since the last time.
    pub(super) fn take(&self) -> Told {
        std::mem::take(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// Topics and the ids under which they are read from now on, since the last time; cheap when there are none.
    pub(super) fn adopted(&self) -> Vec<(String, String)> {
        if !self.adopted.some.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.adopted.some.store(false, Ordering::Release); // before they are taken: one more look does no harm
        std::mem::take(&mut self.adopted.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }
    fn change(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        if refusal::hinted(message) {
            self.change(|told| told.hint = Some(message.to_owned()));
        }
        if let Some((topic, id)) = ids::adopted(message) {
            self.adopted.ids.lock().unwrap_or_else(PoisonError::into_inner).push((topic.to_owned(), id));
            self.adopted.some.store(true, Ordering::Release);
        }
        match level {
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => tracing::trace!(facility, "librdkafka: {message}"),
            RDKafkaLogLevel::Debug if !self.debug => {}
            _ => tracing::debug!(facility, "librdkafka: {message}"),
        }
    }
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "librdkafka: {reason}");
        let says_nothing = error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown);
        self.change(|told| {
            if told.trouble.is_none() || !says_nothing {
                told.trouble = Some((error, reason.to_owned()));
            }
        });
    }
    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        let token = self.login.token(Env::real().now_ms());
        token.map_err(|e| {
            let text = e.to_string().replace('\0', " ");
            self.change(|told| told.token = Some(e));
            text.into()
        })
    }
}

impl ConsumerContext for Context {}

/// `Invalid` when a property is none, does not fit, or would break what the source promises. Reads the files of secrets.
pub(super) fn check(options: &KafkaOptions) -> Result<()> {
    let at = |e: Error| e.at("source.kafka.properties");
    let given = options.given();
    for (key, value) in &given {
        keys::check_key(key).map_err(at)?;
        value.map_or(Ok(()), |value| keys::check_value(key, value)).map_err(at)?;
    }
    keys::check_together(&given).map_err(|(_, e)| at(e))?;
    for key in keys::PATHS.into_iter().filter(|key| options.properties.contains_key(*key)) {
        readable(key, &options.properties[key])?;
    }
    config(options, Purpose::Lookup).map(drop)
}

/// `probe` and the like are left to the client.
fn readable(key: &str, path: &str) -> Result<()> {
    if !keys::is_path(key, path) {
        return Ok(());
    }
    let failed = |e| Error::invalid(format!("`{key}` cannot be read")).at(path).because(e).hint("put a file there that this user can read");
    match std::fs::metadata(path).map_err(failed)?.is_dir() {
        true => std::fs::read_dir(path).map(drop).map_err(failed),
        false => std::fs::File::open(path).map(drop).map_err(failed),
    }
}

fn config(options: &KafkaOptions, purpose: Purpose<'_>) -> Result<ClientConfig> {
    let mut config = ClientConfig::new();
    config.set("client.id", "lakeward").set("isolation.level", "read_committed").set("group.id", &options.group);
    config.set("socket.keepalive.enable", "true").set("log.connection.close", "false");
    for (key, _) in options.given().into_iter().filter(|(key, _)| !keys::is_ours(key)) {
        let Some(value) = options.text(key)? else { continue };
        // Everybody writes it in capitals, and librdkafka takes nothing else.
        config.set(key, if key.starts_with("sasl.mechanism") { value.to_ascii_uppercase() } else { value });
    }
    if options.properties.contains_key("debug") {
        config.set_log_level(RDKafkaLogLevel::Debug);
    }
    config.set("bootstrap.servers", &options.bootstrap_servers);
    config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false").set("auto.offset.reset", "error");
    config.set("allow.auto.create.topics", "false").set("enable.partition.eof", "true");
    match purpose {
        Purpose::Feed { partitions } => {
            limits(&mut config, options, partitions);
            // That a topic has another id now is told there and nowhere else: see `ids::adopted`.
            let debug = options.properties.get("debug").map(|facilities| format!("{facilities},metadata"));
            config.set("debug", debug.unwrap_or_else(|| "metadata".to_owned())).set_log_level(RDKafkaLogLevel::Debug);
        }
        // A connection that is closed without a word is only logged.
        Purpose::Lookup if options.properties.contains_key("debug") => drop(config.set("log.connection.close", "true")),
        Purpose::Lookup => drop(config.set("log.connection.close", "true").set_log_level(RDKafkaLogLevel::Info)),
        Purpose::Watch => drop(config.set("isolation.level", "read_uncommitted")),
        Purpose::Group(group) => drop(config.set("group.id", group)),
    }
    Ok(config)
}

/// What the client may hold: half of the memory in its queue, and as much as one fetch brings of each partition.
fn limits(config: &mut ClientConfig, options: &KafkaOptions, partitions: usize) {
    let share = options.memory_bytes / 4;
    let queued = (share >> 10).max(1024);
    let fetch = share.clamp(1 << 20, 50 << 20);
    let each = (share / partitions.max(1)).clamp(64 << 10, 1 << 20);
    let mut default = |key: &str, value: usize| {
        if !options.properties.contains_key(key) {
            config.set(key, value.to_string());
        }
    };
    default("queued.max.messages.kbytes", queued);
    default("queued.min.messages", 1_000_000);
    default("fetch.max.bytes", fetch);
    default("fetch.message.max.bytes", each);
    default("receive.message.max.bytes", (fetch + (1 << 20)).max(100_000_000));
    // A second by default: with large records and little memory nothing but waiting would be done.
    default("fetch.queue.backoff.ms", 20);
    default("fetch.wait.max.ms", 100);
}

/// A new client. Connects in the background.
pub(super) fn connect(options: &KafkaOptions, purpose: Purpose<'_>) -> Result<(Client, Context)> {
    let context = Context::new(options)?;
    let client = config(options, purpose)?.create_with_context(context.clone()).map_err(|e| not_made(&e, options))?;
    Ok((client, context))
}

/// A new client that a broker has let in; see [`greet`].
pub(super) fn let_in(options: &KafkaOptions, purpose: Purpose<'_>) -> Result<Client> {
    let (client, _) = connect(options, purpose)?;
    greet(&client, options)?;
    Ok(client)
}

/// librdkafka says which property it is, and OpenSSL's own words for what is wrong with it; neither says a value of a secret.
fn not_made(error: &KafkaError, options: &KafkaOptions) -> Error {
    let KafkaError::ClientCreation(text) = error else { return errors::of(error, options, "making a Kafka client") };
    let hint = match text {
        t if t.contains("key values mismatch") => "the private key is not that of the certificate",
        t if t.contains("ssl.key") => "is it PEM, and is `ssl.key.password` right?",
        t if t.contains("keystore") => {
            "is it PKCS#12, and is `ssl.keystore.password` right? a JKS file is converted by `keytool -importkeystore -deststoretype PKCS12`"
        }
        t if t.contains("ssl.ca") => "is it PEM? `openssl x509 -in FILE -noout -subject` shows it",
        t if t.contains("ssl.certificate") => "is it PEM? `openssl x509 -in FILE -noout -subject` shows it",
        _ => "mend source.kafka.properties",
    };
    Error::invalid(text.trim_end_matches('.')).at("source.kafka.properties").hint(hint)
}

/// Waits until a broker has let this client in, and hears meanwhile what it tells: so it also gets its first token. `Invalid` as soon as it
/// is sure that waiting does not help; `Unavailable` after a while.
pub(super) fn greet(client: &Client, options: &KafkaOptions) -> Result<()> {
    let (env, context) = (Env::real(), client.context());
    let deadline = env.deadline(ANSWER);
    let topic = match &options.topics {
        KafkaTopics::Names(names) => names.first().map(String::as_str),
        KafkaTopics::Pattern(_) => None,
    };
    let (mut suspicion, mut last, mut looked) = (None, None, false);
    loop {
        drop(client.poll(TURN));
        let told = context.take();
        if let Some(error) = told.token {
            return Err(Error::new(error.kind(), format!("no token for OAUTHBEARER: {error}"))
                .hint("mend sasl.oauthbearer.* in source.kafka.properties"));
        }
        last = told.hint.or(last);
        if let Some((error, reason)) = told.trouble {
            match refusal::of(&error, &reason, &context.login) {
                Some((Sure::Yes, error)) => return Err(error),
                Some((Sure::Perhaps, error)) => suspicion = Some(error),
                None => last = Some(refusal::told(&reason)),
            }
        }
        let Err(error) = client.fetch_metadata(topic, 10 * TURN) else { return Ok(()) };
        let left = env.left(deadline);
        if !looked && left.is_none_or(|left| left < ANSWER * 3 / 4) {
            looked = true;
            probe::look(&context.login)?;
        }
        if left.is_none() {
            let cause = last.unwrap_or_else(|| error.to_string());
            return Err(suspicion.unwrap_or_else(|| no_answer(&cause, &context.login)));
        }
    }
}

/// Serves a client that is asked now and then, and read by nobody: it gets its next token.
pub(super) fn hear(client: &Client) {
    while client.poll(Duration::ZERO).is_some() {}
    drop(client.context().take());
}

fn no_answer(cause: &str, login: &Login) -> Error {
    let hint = match login.protocol.as_str() {
        "SSL" => "is it up, and can it be reached from here? a port that wants a login as well (SASL_SSL) does not answer either",
        _ => "is it up, and can it be reached from here?",
    };
    Error::unavailable("Kafka does not answer").at(&login.servers).because(cause.to_owned()).hint(hint)
}
