//! Load through an HTTP proxy that speaks CONNECT itself, for benches: the limit of what a tunnel in front of that proxy can reach,
//! since it does the same work with one program less on the way.
//!
//! Use: connect_load PROXY TARGET PATH [--requests N] [--connections N] [--keep-alive]
//!
//! It asks as ab(1) does, so that the two can be compared: one thread, so many requests at once, HTTP/1.0. With `--keep-alive` the
//! connections stay, as many as there are; without, each request has a CONNECT and a connection of its own, which the far end
//! closes. Sockets are blocking and only read from when poll(2) says that there is something: no call is made in vain. What came of
//! it is one line of JSON. An answer other than 200, or a connection that breaks, ends it all: half a measurement would be taken
//! for a whole one.

use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const USE: &str =
    "use: connect_load PROXY TARGET PATH [--requests N] [--connections N] [--keep-alive]";

/// A proxy that says nothing for so long is taken for hung.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// What an answer's head may have at most.
const HEAD: usize = 16 << 10;

/// What is asked, and how often.
struct ConnectLoadOptions {
    /// Who is asked for tunnels.
    proxy: SocketAddr,
    /// What asks for one.
    connect: Vec<u8>,
    /// What is asked through it.
    get: Vec<u8>,
    /// How many requests in all.
    requests: usize,
    /// How many at once.
    connections: usize,
    /// Whether a tunnel carries more than one.
    stay: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(plan) = plan(&arguments) else {
        let _ = writeln!(std::io::stderr(), "{USE}");
        return ExitCode::from(2);
    };
    match run(&plan) {
        Ok(line) if writeln!(std::io::stdout(), "{line}").is_ok() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "through {}: {error}", plan.proxy);
            ExitCode::FAILURE
        }
    }
}

/// The plan that the arguments describe.
fn plan(arguments: &[String]) -> Option<ConnectLoadOptions> {
    let [proxy, target, path, options @ ..] = arguments else {
        return None;
    };
    let (mut requests, mut connections, mut stay) = (1, 1, false);
    let mut words = options.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--requests" => requests = words.next()?.parse().ok()?,
            "--connections" => connections = words.next()?.parse().ok()?,
            "--keep-alive" => stay = true,
            _ => return None,
        }
    }
    let keep = if stay {
        "Connection: Keep-Alive\r\n"
    } else {
        ""
    };
    let plan = ConnectLoadOptions {
        proxy: proxy.parse().ok()?,
        connect: format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes(),
        get: format!(
            "GET {path} HTTP/1.0\r\n{keep}Host: {target}\r\nUser-Agent: connect_load\r\nAccept: */*\r\n\r\n"
        )
        .into_bytes(),
        requests,
        connections,
        stay,
    };
    (connections > 0).then_some(plan)
}

/// Runs the whole plan; returns what came of it.
fn run(plan: &ConnectLoadOptions) -> Result<String> {
    let started = now();
    let mut done = ConnectLoadTotals::default();
    let mut begun = plan.connections.min(plan.requests);
    let mut tunnels = (0..begun)
        .map(|_| ConnectTunnel::open(plan))
        .collect::<Result<Vec<_>>>()?;
    while !tunnels.is_empty() {
        let mut at = 0;
        for ready in readable(&tunnels)? {
            let finished = ready && tunnels[at].advance(plan, &mut done)?;
            if !finished {
                at += 1;
            } else if begun < plan.requests {
                begun += 1;
                tunnels[at].again(plan)?;
                at += 1;
            } else {
                tunnels.remove(at);
            }
        }
    }
    let seconds = (now() - started).as_secs_f64();
    done.times.sort_unstable();
    let (p50, p99) = (milliseconds(&done.times, 50), milliseconds(&done.times, 99));
    let (requests, bytes) = (done.times.len(), done.bytes);
    Ok(format!(
        r#"{{"seconds":{seconds:.6},"requests":{requests},"bytes":{bytes},"p50_ms":{p50:.3},"p99_ms":{p99:.3}}}"#
    ))
}

/// Which of the tunnels have something to read; waits until one has.
fn readable(tunnels: &[ConnectTunnel]) -> Result<Vec<bool>> {
    let mut polled: Vec<_> = tunnels
        .iter()
        .map(|tunnel| PollFd::new(&tunnel.stream, PollFlags::IN))
        .collect();
    if poll(&mut polled, Some(&PATIENCE))? == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(polled.iter().map(|one| !one.revents().is_empty()).collect())
}

/// What went over all tunnels.
#[derive(Default)]
struct ConnectLoadTotals {
    /// Bytes of bodies.
    bytes: u64,
    /// How long each request took, with its CONNECT where it had one of its own.
    times: Vec<Duration>,
}

/// One tunnel, and the request that it carries.
struct ConnectTunnel {
    /// The connection to the proxy.
    stream: TcpStream,
    /// What of the answer has come: the proxy's first, then the target's.
    answer: Vec<u8>,
    /// Whether the proxy has agreed, so that the target's answer is waited for.
    connected: bool,
    /// When the request began.
    started: Instant,
}

impl ConnectTunnel {
    /// Asks the proxy for one.
    fn open(plan: &ConnectLoadOptions) -> Result<Self> {
        let started = now();
        let mut stream = TcpStream::connect(plan.proxy)?;
        stream.write_all(&plan.connect)?;
        Ok(Self {
            stream,
            answer: Vec::with_capacity(HEAD),
            connected: false,
            started,
        })
    }

    /// Begins the next request: on the same connection, or on another that takes its place.
    fn again(&mut self, plan: &ConnectLoadOptions) -> Result<()> {
        if !plan.stay {
            *self = Self::open(plan)?;
            return Ok(());
        }
        self.started = now();
        self.answer.clear();
        self.stream.write_all(&plan.get)
    }

    /// Reads what is there; returns whether that ends the request.
    fn advance(&mut self, plan: &ConnectLoadOptions, done: &mut ConnectLoadTotals) -> Result<bool> {
        let mut piece = [0; HEAD];
        let read = self.stream.read(&mut piece)?;
        self.answer.extend_from_slice(&piece[..read]);
        let Some(head) = head(&self.answer)? else {
            return not_yet(read);
        };
        if !self.connected {
            self.connected = true;
            self.answer.clear();
            self.stream.write_all(&plan.get)?;
            return not_yet(read);
        }
        let body = self.answer.len() - head;
        let whole = length(&self.answer[..head]) == Some(body);
        // As ab: where the connection does not stay, its end is the end of the answer.
        if !whole || !(plan.stay || read == 0) {
            return not_yet(read);
        }
        done.bytes += body as u64;
        done.times.push(now() - self.started);
        Ok(true)
    }
}

/// That more must come. A connection that ended before its answer did broke.
fn not_yet(read: usize) -> Result<bool> {
    if read == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(false)
}

/// How long the head of an answer is, once it is whole. Anything but 200 is an error.
fn head(answer: &[u8]) -> Result<Option<usize>> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    if end.is_none() && answer.len() > HEAD {
        return Err(Error::other("answered with an endless head"));
    }
    let line = answer.split(|byte| *byte == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default());
    if end.is_some() && line.split(' ').nth(1) != Some("200") {
        return Err(Error::other(format!("answered {line}")));
    }
    Ok(end.map(|at| at + 4))
}

/// The length that a head tells of its body.
fn length(head: &[u8]) -> Option<usize> {
    String::from_utf8_lossy(head).lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    })
}

/// The time that so many percent of the requests took at most; zero where there were none.
fn milliseconds(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted
        .get(at)
        .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[expect(
    clippy::disallowed_methods,
    reason = "measures real time; there is no runtime here whose clock could be paused"
)]
fn now() -> Instant {
    Instant::now()
}
