//! Load on a store, for benches: requests of one kind over a number of connections, as cheap for the client as can be, since client
//! and store share the machine and what the client spends the store lacks.
//!
//! Use: load get|put|delete ADDRESS TARGET [--connections N] [--requests N] [--size BYTES]
//!
//! Threads and blocking sockets, a connection each, kept alive; no HTTP library. A `{}` in the target becomes the number of the
//! request. Bodies that are sent come from one buffer. Bodies that are received are thrown away by the kernel without a copy
//! (MSG_TRUNC). The clock runs from when all are connected until the last answer; what came of it is one line of JSON. An answer
//! other than 2xx, or a connection that breaks, ends it all: half a measurement would be taken for a whole one.

use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

const USE: &str =
    "use: load get|put|delete ADDRESS TARGET [--connections N] [--requests N] [--size BYTES]";

/// Linux: bytes are taken from the queue of a TCP socket and copied nowhere (tcp(7)).
const MSG_TRUNC: i32 = 0x20;

/// What is thrown away by one call at most.
const GULP: usize = 1 << 20;

/// So much of a body goes out with its head, in one call.
const TOGETHER: usize = 16 << 10;

/// A store that says nothing for so long is taken for hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is asked, and how often.
struct LoadOptions {
    /// The method's name on the wire.
    method: &'static str,
    /// Who is asked.
    address: SocketAddr,
    /// What is asked for, with `{}` for the number of the request.
    target: String,
    /// How many connections, a thread each.
    connections: usize,
    /// How many requests, over all connections: whoever is free takes the next.
    requests: u64,
    /// What every PUT sends.
    body: Vec<u8>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(plan) = plan(&arguments) else {
        let _ = writeln!(std::io::stderr(), "{USE}");
        return ExitCode::from(2);
    };
    let told = match run(&plan) {
        Ok(line) => writeln!(std::io::stdout(), "{line}").is_ok(),
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "{} {}: {error}",
                plan.method,
                plan.target
            );
            false
        }
    };
    if told {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The plan that the arguments describe.
fn plan(arguments: &[String]) -> Option<LoadOptions> {
    let [method, address, target, options @ ..] = arguments else {
        return None;
    };
    let method = match method.as_str() {
        "get" => "GET",
        "put" => "PUT",
        "delete" => "DELETE",
        _ => return None,
    };
    let (mut connections, mut requests, mut size) = (1, 1, 0);
    let (pairs, rest) = options.as_chunks::<2>();
    for [name, value] in pairs {
        match name.as_str() {
            "--connections" => connections = value.parse().ok()?,
            "--requests" => requests = value.parse().ok()?,
            "--size" => size = value.parse().ok()?,
            _ => return None,
        }
    }
    let (address, target) = (address.parse().ok()?, target.clone());
    let plan = LoadOptions {
        method,
        address,
        target,
        connections,
        requests,
        body: noise(size),
    };
    (rest.is_empty() && connections > 0).then_some(plan)
}

/// Bytes that nothing on the way can compress: xorshift (Marsaglia 2003).
fn noise(size: usize) -> Vec<u8> {
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

/// Runs the whole plan; returns what came of it.
fn run(plan: &LoadOptions) -> Result<String> {
    let next = AtomicU64::new(0);
    let sockets = (0..plan.connections)
        .map(|_| connect(plan.address))
        .collect::<Result<Vec<_>>>()?;
    let together = Barrier::new(plan.connections + 1);
    let (seconds, results) = std::thread::scope(|scope| {
        let threads: Vec<_> = sockets
            .into_iter()
            .map(|socket| {
                let (next, together) = (&next, &together);
                scope.spawn(move || {
                    together.wait();
                    let result = converse(plan, &socket, next);
                    if result.is_err() {
                        // Nobody begins another one.
                        next.store(u64::MAX / 2, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        together.wait();
        let started = now();
        let results: Vec<_> = threads
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        ((now() - started).as_secs_f64(), results)
    });
    let mut all = LoadConnection::default();
    for result in results {
        let one = result.map_err(|_| Error::other("a thread panicked"))??;
        all.bytes += one.bytes;
        all.times.extend(one.times);
    }
    all.times.sort_unstable();
    let (p50, p99) = (milliseconds(&all.times, 50), milliseconds(&all.times, 99));
    let (requests, bytes) = (all.times.len(), all.bytes);
    Ok(format!(
        r#"{{"seconds":{seconds:.6},"requests":{requests},"bytes":{bytes},"p50_ms":{p50:.3},"p99_ms":{p99:.3}}}"#
    ))
}

/// What went over one connection.
#[derive(Default)]
struct LoadConnection {
    /// Bytes of bodies, in either direction.
    bytes: u64,
    /// How long each request took, from its first byte to the last of its answer.
    times: Vec<Duration>,
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

fn connect(address: SocketAddr) -> Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.connect(&address.into())?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Requests over one connection, one after the other, until all are taken.
fn converse(plan: &LoadOptions, socket: &Socket, next: &AtomicU64) -> Result<LoadConnection> {
    let mut done = LoadConnection::default();
    let mut first = Vec::new();
    // Named to the kernel and never written to.
    let mut nowhere = vec![MaybeUninit::uninit(); GULP];
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= plan.requests {
            return Ok(done);
        }
        let target = plan.target.replace("{}", &number.to_string());
        let (now_out, later) = plan.body.split_at(plan.body.len().min(TOGETHER));
        first.clear();
        write!(
            first,
            "{} {target} HTTP/1.1\r\nHost: {}\r\n",
            plan.method, plan.address
        )?;
        if plan.method == "PUT" {
            write!(first, "Content-Length: {}\r\n", plan.body.len())?;
        }
        first.extend_from_slice(b"\r\n");
        first.extend_from_slice(now_out);
        let started = now();
        let mut stream = socket;
        stream.write_all(&first)?;
        stream.write_all(later)?;
        done.bytes += answer(socket, &mut nowhere)? + (now_out.len() + later.len()) as u64;
        done.times.push(now() - started);
    }
}

/// Reads one answer and throws its body away; returns how long that was.
fn answer(mut socket: &Socket, nowhere: &mut [MaybeUninit<u8>]) -> Result<u64> {
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
        return Err(Error::other(format!("answered {status}")));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    let length: u64 = match length {
        Some(length) => length,
        None if status.starts_with("HTTP/1.1 204") => 0,
        None => return Err(Error::other("answered without a Content-Length")),
    };
    let mut left = length.saturating_sub(more as u64);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(GULP).min(GULP);
        match socket.recv_with_flags(&mut nowhere[..most], MSG_TRUNC)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => left -= read as u64,
        }
    }
    Ok(length)
}
