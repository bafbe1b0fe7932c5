//! A bad network between a client and an S3 server: by a seeded script, or on a given request, it loses, delays, refuses and cuts.
//!
//! One request for each connection, so that every request can have a fate of its own.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::process::draw::Draw;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Ill {
    /// It takes effect, and the client hears nothing.
    ReplyDropped,
    /// The client is cut off at once; the request takes effect later, after the retry.
    LandsLate,
    /// Accepted and never answered, until the client gives up; then it is forgotten.
    Stalled,
    /// Accepted and never answered, until the client gives up; soon after it takes effect.
    StalledThenLands,
    /// 409 `ConditionalRequestConflict`, once for each object.
    Conflict,
    /// 503 to everything for a while.
    Away,
    /// 503 `SlowDown`.
    SlowDown,
    /// 429.
    TooMany,
    /// The reply comes in small pieces.
    SlowBytes,
    /// The connection is reset while the request is being sent.
    ResetRequest,
    /// It takes effect, and the connection breaks in the middle of the reply.
    ResetReply,
    /// The client is cut off at once; the request takes effect when [`Proxy::release`] says so. Only when asked for.
    Held,
}

impl Ill {
    pub(crate) const ALL: [Ill; 11] = [
        Ill::ReplyDropped,
        Ill::LandsLate,
        Ill::Stalled,
        Ill::StalledThenLands,
        Ill::Conflict,
        Ill::Away,
        Ill::SlowDown,
        Ill::TooMany,
        Ill::SlowBytes,
        Ill::ResetRequest,
        Ill::ResetReply,
    ];
}

/// How bad it is.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    pub(crate) seed: u64,
    /// So many requests of a thousand fall ill.
    pub(crate) per_mille: u64,
    /// How long [`Ill::Away`] lasts.
    pub(crate) away: Duration,
    /// How often it may come.
    pub(crate) aways: u64,
    /// Nothing happens before a request whose path holds this.
    pub(crate) from: &'static str,
}

impl Weather {
    /// Nothing happens but what is asked for.
    pub(crate) fn calm() -> Weather {
        Weather { seed: 0, per_mille: 0, away: Duration::from_secs(5), aways: 0, from: "" }
    }
}

/// The next request that fits falls ill.
struct Rule {
    method: &'static str,
    /// The path, or a part of it; `*` for any text in between.
    path: String,
    ill: Ill,
}

struct State {
    weather: Weather,
    draw: Draw,
    rules: Vec<Rule>,
    counts: BTreeMap<Ill, u64>,
    requests: u64,
    away_until: Option<Instant>,
    conflicted: HashSet<String>,
    begun: bool,
    released: bool,
    /// Status lines of the replies to requests that landed after their client had gone.
    late: Vec<String>,
}

/// The proxy; it listens until it is dropped.
pub(crate) struct Proxy {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
    closed: Arc<AtomicBool>,
}

impl Proxy {
    /// Before the server at `upstream` (host and port).
    pub(crate) fn start(upstream: &str, weather: Weather) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State {
            draw: Draw(weather.seed),
            weather,
            rules: Vec::new(),
            counts: BTreeMap::new(),
            requests: 0,
            away_until: None,
            conflicted: HashSet::new(),
            begun: false,
            released: false,
            late: Vec::new(),
        }));
        let closed = Arc::new(AtomicBool::new(false));
        let (upstream, theirs, over) = (upstream.to_owned(), state.clone(), closed.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (upstream, state) = (upstream.clone(), theirs.clone());
                // A client that goes away in the middle is what this is about.
                std::thread::spawn(move || client.and_then(|client| serve(client, &upstream, &state)));
            }
        });
        Proxy { address, state, closed }
    }

    /// The next request of this method whose path fits falls ill in this way. `*` in `path` stands for any text.
    pub(crate) fn next(&self, method: &'static str, path: &str, ill: Ill) {
        self.state.lock().unwrap().rules.push(Rule { method, path: path.to_owned(), ill });
    }

    /// Lets the held requests land, now and from now on.
    pub(crate) fn release(&self) {
        self.state.lock().unwrap().released = true;
    }
    /// Waits until `n` requests have landed after their client had gone; what the server said to each.
    pub(crate) fn late(&self, n: usize) -> Vec<String> {
        for _ in 0..600 {
            let late = self.state.lock().unwrap().late.clone();
            if late.len() >= n {
                return late;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("no {n} late requests: {:?}", self.counts());
    }
    /// Waits until this has happened once.
    pub(crate) fn wait_for(&self, ill: Ill) {
        for _ in 0..6000 {
            if self.count(ill) > 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("{ill:?} does not happen: {:?}", self.counts());
    }

    /// How often each kind has happened. [`Ill::Away`]: requests that met it.
    pub(crate) fn counts(&self) -> BTreeMap<Ill, u64> {
        self.state.lock().unwrap().counts.clone()
    }
    pub(crate) fn count(&self, ill: Ill) -> u64 {
        self.counts().get(&ill).copied().unwrap_or(0)
    }
    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.state.lock().unwrap().requests
    }

    /// What has happened, and that every kind has.
    pub(crate) fn assert_all_met(&self) {
        let counts = self.counts();
        println!("{:>6}  requests through the proxy", self.requests());
        for ill in Ill::ALL {
            println!("{:>6}  {ill:?}", counts.get(&ill).unwrap_or(&0));
        }
        let unmet: Vec<_> = Ill::ALL.iter().filter(|ill| !counts.contains_key(ill)).collect();
        assert!(unmet.is_empty(), "never met: {unmet:?}; another seed, or more requests");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(&self.address);
    }
}

impl State {
    /// What becomes of this request, and a number for how long that takes.
    fn fate(&mut self, request: &Request) -> (Option<Ill>, u64) {
        self.requests += 1;
        let (ill, chance) = (self.choose(request), self.draw.next());
        if let Some(ill) = ill {
            *self.counts.entry(ill).or_default() += 1;
        }
        (ill, chance)
    }

    fn choose(&mut self, request: &Request) -> Option<Ill> {
        if let Some(i) = self.rules.iter().position(|r| r.method == request.method && fits(&r.path, &request.path)) {
            let ill = self.rules.remove(i).ill;
            if ill == Ill::Away {
                self.away_until = Some(Instant::now() + self.weather.away);
            }
            return Some(ill);
        }
        self.begun |= request.path.contains(self.weather.from);
        if !self.begun {
            return None;
        }
        let drawn = self.draw.below(1000);
        if self.away_until.is_some_and(|until| Instant::now() < until) {
            return Some(Ill::Away);
        }
        if drawn >= self.weather.per_mille {
            return None;
        }
        let ill = Ill::ALL[usize::try_from(self.draw.below(Ill::ALL.len() as u64)).unwrap()];
        match ill {
            Ill::Away if self.weather.aways == 0 => None,
            Ill::Away => {
                self.weather.aways -= 1;
                self.away_until = Some(Instant::now() + self.weather.away);
                Some(ill)
            }
            Ill::Conflict if request.method != "PUT" || !self.conflicted.insert(request.path.clone()) => None,
            Ill::ResetRequest if request.length == 0 => None,
            ill => Some(ill),
        }
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    let mut rest = path;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

struct Request {
    method: String,
    path: String,
    /// Request line and headers, without those that are about the connection.
    head: String,
    /// Bytes of the body.
    length: usize,
    body: Vec<u8>,
}

impl Request {
    /// All before the body, and not a byte of it: what is left unread makes closing the connection a reset.
    fn read_head(client: &TcpStream) -> io::Result<Request> {
        let mut reader = BufReader::with_capacity(1, client);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let lower = line.to_ascii_lowercase();
            assert!(!lower.starts_with("transfer-encoding:"), "this proxy reads no chunks");
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            if !lower.starts_with("connection:") {
                head += &line;
            }
        }
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
        Ok(Request { method, path, head, length, body: Vec::new() })
    }

    fn read_body(&mut self, mut client: &TcpStream) -> io::Result<()> {
        self.body = vec![0; self.length];
        client.read_exact(&mut self.body)
    }

    /// Sends it on and returns the whole reply.
    fn forward(&self, upstream: &str) -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(upstream)?;
        stream.write_all(format!("{}Connection: close\r\n\r\n", self.head).as_bytes())?;
        stream.write_all(&self.body)?;
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply)?;
        Ok(reply)
    }
}

fn serve(mut client: TcpStream, upstream: &str, state: &Mutex<State>) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(90)))?;
    client.set_nodelay(true)?;
    let mut request = Request::read_head(&client)?;
    let (ill, chance) = state.lock().unwrap().fate(&request);
    if ill == Some(Ill::ResetRequest) {
        return Ok(()); // the body is unread
    }
    request.read_body(&client)?;
    // Later than a retry.
    let soon = Duration::from_millis(400 + chance % 1500);
    match ill {
        None | Some(Ill::ResetRequest) => client.write_all(&request.forward(upstream)?),
        Some(Ill::ReplyDropped) => request.forward(upstream).map(drop),
        Some(Ill::LandsLate) => {
            drop(client);
            std::thread::sleep(soon);
            land(&request, upstream, state)
        }
        Some(Ill::Held) => {
            drop(client);
            while !state.lock().unwrap().released {
                std::thread::sleep(Duration::from_millis(5));
            }
            land(&request, upstream, state)
        }
        Some(Ill::Stalled) => wait_for_its_end(&client),
        Some(Ill::StalledThenLands) => {
            wait_for_its_end(&client)?;
            std::thread::sleep(soon);
            land(&request, upstream, state)
        }
        Some(Ill::Conflict) => answer(&mut client, "409 Conflict", "ConditionalRequestConflict"),
        Some(Ill::Away) => answer(&mut client, "503 Service Unavailable", "ServiceUnavailable"),
        Some(Ill::SlowDown) => answer(&mut client, "503 Slow Down", "SlowDown"),
        Some(Ill::TooMany) => answer(&mut client, "429 Too Many Requests", "TooManyRequests"),
        Some(Ill::SlowBytes) => {
            let reply = request.forward(upstream)?;
            for piece in reply.chunks(reply.len().div_ceil(8)) {
                client.write_all(piece)?;
                std::thread::sleep(Duration::from_millis(20 + chance % 60));
            }
            Ok(())
        }
        Some(Ill::ResetReply) => {
            let reply = request.forward(upstream)?;
            client.write_all(&reply[..reply.len() / 2])
        }
    }
}

/// Sends it on when nobody waits for the reply any more.
fn land(request: &Request, upstream: &str, state: &Mutex<State>) -> io::Result<()> {
    let reply = request.forward(upstream)?;
    let status = String::from_utf8_lossy(&reply).lines().next().unwrap_or_default().to_owned();
    state.lock().unwrap().late.push(status);
    Ok(())
}

fn wait_for_its_end(mut client: &TcpStream) -> io::Result<()> {
    client.read(&mut [0; 16]).map(drop)
}

fn answer(client: &mut TcpStream, status: &str, code: &str) -> io::Result<()> {
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>by the proxy</Message></Error>");
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_rule_fits_a_part_of_the_path_with_any_text_in_between() {
    assert!(fits("table/snapshot/snapshot-2", "/lake/x/table/snapshot/snapshot-2"));
    assert!(fits("_checkpoints/*02.json", "/lake/x/_checkpoints/p/00000000000000000002.json"));
    assert!(!fits("table/*snapshot-3", "/lake/x/table/snapshot/snapshot-2"));
}
