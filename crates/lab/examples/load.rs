//! A load program for benches of the store: requests of one kind over a number of connections. It is as cheap as possible, because it shares
//! the processors with the store.
//!
//! Use: load get|put|delete ADDRESS TARGET [--connections N] [--requests N] [--size BYTES]
//!
//! Each connection has a thread and a blocking socket, and is kept alive. There is no HTTP library. A `{}` in the target becomes the number
//! of the request. All sent bodies are the same buffer. The kernel discards received bodies without a copy (MSG_TRUNC). The time is measured
//! from when all are connected until the last response. The result is one line of JSON. A response other than 2xx or a failed connection ends
//! the program, so that half a measurement is not taken for a whole one.

use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

const USAGE: &str =
    "use: load get|put|delete ADDRESS TARGET [--connections N] [--requests N] [--size BYTES]";

/// Discards bytes from the queue of a TCP socket without a copy (tcp(7)).
const MSG_TRUNC: i32 = 0x20;

/// The most bytes that one call discards.
const MAX_DISCARD: usize = 1 << 20;

/// So many bytes of a body are sent in one call with the head.
const BODY_BYTES_WITH_HEAD: usize = 16 << 10;

/// The time limit for a store that sends nothing.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The requests, and how many there are.
struct LoadOptions {
    /// The method.
    method: &'static str,
    /// The address of the store.
    address: SocketAddr,
    /// The request target, with `{}` for the number of the request.
    target: String,
    /// The number of connections, each with a thread.
    connections: usize,
    /// The number of requests over all connections. The next free connection sends the next request.
    requests: u64,
    /// The body of every PUT.
    body: Vec<u8>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(options) = parse(&arguments) else {
        let _ = writeln!(std::io::stderr(), "{USAGE}");
        return ExitCode::from(2);
    };
    let is_written = match run(&options) {
        Ok(line) => writeln!(std::io::stdout(), "{line}").is_ok(),
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "{} {}: {error}",
                options.method,
                options.target
            );
            false
        }
    };
    if is_written {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Parses the arguments.
fn parse(arguments: &[String]) -> Option<LoadOptions> {
    let [method, address, target, flags @ ..] = arguments else {
        return None;
    };
    let method = match method.as_str() {
        "get" => "GET",
        "put" => "PUT",
        "delete" => "DELETE",
        _ => return None,
    };
    let (mut connections, mut requests, mut size) = (1, 1, 0);
    let (pairs, rest) = flags.as_chunks::<2>();
    for [name, value] in pairs {
        match name.as_str() {
            "--connections" => connections = value.parse().ok()?,
            "--requests" => requests = value.parse().ok()?,
            "--size" => size = value.parse().ok()?,
            _ => return None,
        }
    }
    let (address, target) = (address.parse().ok()?, target.clone());
    let options = LoadOptions {
        method,
        address,
        target,
        connections,
        requests,
        body: random_bytes(size),
    };
    (rest.is_empty() && connections > 0).then_some(options)
}

/// Bytes that cannot be compressed: xorshift (Marsaglia 2003).
fn random_bytes(size: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut words = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let mut body: Vec<u8> = words.by_ref().take(size.div_ceil(8)).flatten().collect();
    body.truncate(size);
    body
}

/// Sends all requests, and returns the line of JSON.
fn run(options: &LoadOptions) -> Result<String> {
    let next = AtomicU64::new(0);
    let sockets = (0..options.connections)
        .map(|_| connect(options.address))
        .collect::<Result<Vec<_>>>()?;
    let barrier = Barrier::new(options.connections + 1);
    let (seconds, results) = std::thread::scope(|scope| {
        let threads: Vec<_> = sockets
            .into_iter()
            .map(|socket| {
                let (next, barrier) = (&next, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    let result = send_requests(options, &socket, next);
                    if result.is_err() {
                        // No thread starts another request.
                        next.store(u64::MAX / 2, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        barrier.wait();
        let started = now();
        let results: Vec<_> = threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        ((now() - started).as_secs_f64(), results)
    });
    let mut totals = LoadConnection::default();
    for result in results {
        let connection = result.map_err(|_| Error::other("a thread panicked"))??;
        totals.bytes += connection.bytes;
        totals.times.extend(connection.times);
    }
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

/// The totals of one connection.
#[derive(Default)]
struct LoadConnection {
    /// Bytes of bodies, in either direction.
    bytes: u64,
    /// The time of each request, from its first byte to the last of its response.
    times: Vec<Duration>,
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

fn connect(address: SocketAddr) -> Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.connect(&address.into())?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_write_timeout(Some(TIMEOUT))?;
    Ok(socket)
}

/// Sends requests over one connection, one after the other, until all are sent.
fn send_requests(
    options: &LoadOptions,
    socket: &Socket,
    next: &AtomicU64,
) -> Result<LoadConnection> {
    let mut totals = LoadConnection::default();
    let mut first_write = Vec::new();
    // The kernel gets this buffer and does not write to it.
    let mut discarded = vec![MaybeUninit::uninit(); MAX_DISCARD];
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= options.requests {
            return Ok(totals);
        }
        let target = options.target.replace("{}", &number.to_string());
        let (with_head, rest) = options
            .body
            .split_at(options.body.len().min(BODY_BYTES_WITH_HEAD));
        first_write.clear();
        write!(
            first_write,
            "{} {target} HTTP/1.1\r\nHost: {}\r\n",
            options.method, options.address
        )?;
        if options.method == "PUT" {
            write!(first_write, "Content-Length: {}\r\n", options.body.len())?;
        }
        first_write.extend_from_slice(b"\r\n");
        first_write.extend_from_slice(with_head);
        let started = now();
        let mut stream = socket;
        stream.write_all(&first_write)?;
        stream.write_all(rest)?;
        totals.bytes +=
            read_response(socket, &mut discarded)? + (with_head.len() + rest.len()) as u64;
        totals.times.push(now() - started);
    }
}

/// Reads a response and discards its body. Returns the length of the body.
fn read_response(mut socket: &Socket, discarded: &mut [MaybeUninit<u8>]) -> Result<u64> {
    let mut buffer = [0; 4096];
    let mut filled = 0;
    let (head, more) = loop {
        let read = socket.read(&mut buffer[filled..])?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        if let Some(at) = buffer[..filled]
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
        {
            break (String::from_utf8_lossy(&buffer[..at]), filled - at - 4);
        }
    };
    let status = head.lines().next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 2") {
        return Err(Error::other(format!("the response is {status}")));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    let length: u64 = match length {
        Some(length) => length,
        None if status.starts_with("HTTP/1.1 204") => 0,
        None => return Err(Error::other("the response has no Content-Length")),
    };
    let mut left = length.saturating_sub(more as u64);
    while left > 0 {
        let limit = usize::try_from(left)
            .unwrap_or(MAX_DISCARD)
            .min(MAX_DISCARD);
        match socket.recv_with_flags(&mut discarded[..limit], MSG_TRUNC)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => left -= read as u64,
        }
    }
    Ok(length)
}
