//! A load program for benches that speaks CONNECT itself. It is the limit for a tunnel in front of an HTTP proxy, since it does the same
//! work with one program less.
//!
//! Use: connect_load PROXY TARGET PATH [--requests N] [--connections N] [--keep-alive]
//!
//! It sends the requests of ab(1), so that the two can be compared: one thread, HTTP/1.0, a fixed number of requests at once. With
//! `--keep-alive` the connections keep_alive open. Without it each request has a CONNECT and a connection of its own, which the target closes.
//! Sockets are blocking and only read when poll(2) reports them, so that no call is useless. The result is one line of JSON. A response
//! other than 200 or a failed connection ends the program, so that half a measurement is not taken for a whole one.

use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const USAGE: &str =
    "use: connect_load PROXY TARGET PATH [--requests N] [--connections N] [--keep-alive]";

/// The time limit for a proxy that sends nothing.
const TIMEOUT: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};

/// The maximum length of a response's head.
const MAX_HEAD: usize = 16 << 10;

/// The requests, and how many there are.
struct ConnectLoadOptions {
    /// The proxy that opens tunnels.
    proxy: SocketAddr,
    /// The CONNECT request.
    connect: Vec<u8>,
    /// The request in a tunnel.
    get: Vec<u8>,
    /// The number of all requests.
    requests: usize,
    /// The number of requests at once.
    connections: usize,
    /// Whether a tunnel carries more than one request.
    keep_alive: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = parse(&arguments) else {
        let _ = writeln!(std::io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    match run(&options) {
        Ok(line) if writeln!(std::io::stdout(), "{line}").is_ok() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "through {}: {error}", options.proxy);
            ExitCode::FAILURE
        }
    }
}

/// Parses the arguments.
fn parse(arguments: &[String]) -> Option<ConnectLoadOptions> {
    let [proxy, target, path, flags @ ..] = arguments else {
        return None;
    };
    let (mut requests, mut connections, mut keep_alive) = (1, 1, false);
    let mut words = flags.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--requests" => requests = words.next()?.parse().ok()?,
            "--connections" => connections = words.next()?.parse().ok()?,
            "--keep-alive" => keep_alive = true,
            _ => return None,
        }
    }
    let connection_field = if keep_alive {
        "Connection: Keep-Alive\r\n"
    } else {
        ""
    };
    let options = ConnectLoadOptions {
        proxy: proxy.parse().ok()?,
        connect: format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes(),
        get: format!(
            "GET {path} HTTP/1.0\r\n{connection_field}Host: {target}\r\nUser-Agent: connect_load\r\nAccept: */*\r\n\r\n"
        )
        .into_bytes(),
        requests,
        connections,
        keep_alive,
    };
    (connections > 0).then_some(options)
}

/// Sends all requests, and returns the line of JSON.
fn run(options: &ConnectLoadOptions) -> Result<String> {
    let started = now();
    let mut totals = ConnectLoadTotals::default();
    let mut started_requests = options.connections.min(options.requests);
    let mut tunnels = (0..started_requests)
        .map(|_| ConnectTunnel::open(options))
        .collect::<Result<Vec<_>>>()?;
    while !tunnels.is_empty() {
        let mut at = 0;
        for ready in readable(&tunnels)? {
            let finished = ready && tunnels[at].advance(options, &mut totals)?;
            if !finished {
                at += 1;
            } else if started_requests < options.requests {
                started_requests += 1;
                tunnels[at].start_next(options)?;
                at += 1;
            } else {
                tunnels.remove(at);
            }
        }
    }
    let seconds = (now() - started).as_secs_f64();
    totals.times.sort_unstable();
    let (p50, p99) = (
        milliseconds(&totals.times, 50),
        milliseconds(&totals.times, 99),
    );
    let (requests, bytes) = (totals.times.len(), totals.bytes);
    Ok(format!(
        r#"{{"seconds":{seconds:.6},"requests":{requests},"bytes":{bytes},"p50_ms":{p50:.3},"p99_ms":{p99:.3}}}"#
    ))
}

/// Waits until a tunnel can be read, and returns for each tunnel whether it can.
fn readable(tunnels: &[ConnectTunnel]) -> Result<Vec<bool>> {
    let mut polled: Vec<_> = tunnels
        .iter()
        .map(|tunnel| PollFd::new(&tunnel.stream, PollFlags::IN))
        .collect();
    if poll(&mut polled, Some(&TIMEOUT))? == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(polled
        .iter()
        .map(|descriptor| !descriptor.revents().is_empty())
        .collect())
}

/// The totals of all tunnels.
#[derive(Default)]
struct ConnectLoadTotals {
    /// Bytes of bodies.
    bytes: u64,
    /// The time of each request, including its CONNECT if it had one of its own.
    times: Vec<Duration>,
}

/// A tunnel and its current request.
struct ConnectTunnel {
    /// The connection to the proxy.
    stream: TcpStream,
    /// The received bytes of the response: the proxy's first, then the target's.
    response: Vec<u8>,
    /// Whether the proxy has opened the tunnel.
    connected: bool,
    /// When the request was sent.
    started: Instant,
}

impl ConnectTunnel {
    /// Connects to the proxy and sends the CONNECT.
    fn open(options: &ConnectLoadOptions) -> Result<Self> {
        let started = now();
        let mut stream = TcpStream::connect(options.proxy)?;
        stream.write_all(&options.connect)?;
        Ok(Self {
            stream,
            response: Vec::with_capacity(MAX_HEAD),
            connected: false,
            started,
        })
    }

    /// Sends the next request, on the same connection or on a new one that replaces it.
    fn start_next(&mut self, options: &ConnectLoadOptions) -> Result<()> {
        if !options.keep_alive {
            *self = Self::open(options)?;
            return Ok(());
        }
        self.started = now();
        self.response.clear();
        self.stream.write_all(&options.get)
    }

    /// Reads what is there; returns whether that ends the request.
    fn advance(
        &mut self,
        options: &ConnectLoadOptions,
        totals: &mut ConnectLoadTotals,
    ) -> Result<bool> {
        let mut piece = [0; MAX_HEAD];
        let read = self.stream.read(&mut piece)?;
        self.response.extend_from_slice(&piece[..read]);
        let Some(head_length) = head_length(&self.response)? else {
            return incomplete(read);
        };
        if !self.connected {
            self.connected = true;
            self.response.clear();
            self.stream.write_all(&options.get)?;
            return incomplete(read);
        }
        let body = self.response.len() - head_length;
        let has_whole_body = content_length(&self.response[..head_length]) == Some(body);
        // Like ab: without keep-alive the response ends with the connection.
        if !has_whole_body || !(options.keep_alive || read == 0) {
            return incomplete(read);
        }
        totals.bytes += body as u64;
        totals.times.push(now() - self.started);
        Ok(true)
    }
}

/// More bytes must follow. The end of the connection before the end of the response is an error.
fn incomplete(read: usize) -> Result<bool> {
    if read == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(false)
}

/// The length of a response's head, once it is complete. A status other than 200 is an error.
fn head_length(response: &[u8]) -> Result<Option<usize>> {
    let end = response.windows(4).position(|window| window == b"\r\n\r\n");
    if end.is_none() && response.len() > MAX_HEAD {
        return Err(Error::other("the head of the response has no end"));
    }
    let line = response.split(|byte| *byte == b'\r').next();
    let line = String::from_utf8_lossy(line.unwrap_or_default());
    if end.is_some() && line.split(' ').nth(1) != Some("200") {
        return Err(Error::other(format!("the response is {line}")));
    }
    Ok(end.map(|at| at + 4))
}

/// The Content-Length of a head.
fn content_length(head: &[u8]) -> Option<usize> {
    String::from_utf8_lossy(head).lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    })
}

/// A percentile of the times; zero without requests.
fn milliseconds(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted
        .get(at)
        .map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

#[expect(
    clippy::disallowed_methods,
    reason = "measures real time; this program has no runtime with a clock that could be paused"
)]
fn now() -> Instant {
    Instant::now()
}
