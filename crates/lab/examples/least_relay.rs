//! A relay through an HTTP proxy that does as little as possible, for benches. Where the proxy and its clients share the processors with a
//! tunnel, no relay reaches their speed without one, so tunnels are compared with this one.
//!
//! Use: least_relay PORT PROXY TARGET
//!
//! It has one thread and one epoll, and makes no useless call: it sends the CONNECT before it knows that the connection is established, which
//! loopback allows, and registers a socket only when it has to wait for it. There is no log, no limit, no timeout, no name resolution, no
//! login and no second proxy. A refusal of the proxy is relayed like a response of the target, and a peer that does not take bytes at once
//! ends the program. It is only for benches.

use std::collections::HashMap;
use std::io::{Error, Result, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, accept_with, connect,
    recv, send, shutdown, socket_with, sockopt,
};

/// The size of the buffer in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// The maximum number of events of one call.
const MAX_EVENTS: usize = 256;

/// The identifier of the listener's events.
const LISTENER: u64 = u64::MAX;

/// The flags of new sockets.
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// A client's connection and the one to the proxy.
struct RelayPair {
    /// The client, and the proxy.
    ends: [OwnedFd; 2],
    /// Whether the proxy has responded.
    is_connected: bool,
    /// Whether each has ended its stream.
    ended: [bool; 2],
}

/// The relay.
struct MinimalRelay {
    epoll: OwnedFd,
    proxy: SocketAddr,
    /// The CONNECT request.
    connect: Vec<u8>,
    /// By the identifier of the client's events. The proxy's events have the next number.
    pairs: HashMap<u64, RelayPair>,
    next: u64,
    buffer: Vec<u8>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.as_slice() {
        [port, proxy, target] => run(port, proxy, target),
        _ => Err(Error::other("use: least_relay PORT PROXY TARGET")),
    };
    if let Err(error) = result {
        let _ = writeln!(std::io::stderr(), "{error}");
    }
    ExitCode::FAILURE
}

fn run(port: &str, proxy: &str, target: &str) -> Result<()> {
    let port = port.parse().map_err(Error::other)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    // Accepted sockets inherit it.
    sockopt::set_tcp_nodelay(&listener, true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(
        &epoll,
        &listener,
        EventData::new_u64(LISTENER),
        EventFlags::IN,
    )?;
    let mut relay = MinimalRelay {
        epoll,
        proxy: proxy.parse().map_err(Error::other)?,
        connect: format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes(),
        pairs: HashMap::new(),
        next: 0,
        buffer: vec![0; BUFFER_BYTES],
    };
    let mut events = Vec::with_capacity(MAX_EVENTS);
    loop {
        events.clear();
        epoll::wait(
            &relay.epoll,
            rustix::buffer::spare_capacity(&mut events),
            None,
        )?;
        for Event { flags, data } in events.iter().copied() {
            match data.u64() {
                LISTENER => relay.accept(&listener)?,
                number => relay.advance(number, flags)?,
            }
        }
    }
}

impl MinimalRelay {
    /// Accepts a client, and sends the CONNECT to the proxy.
    fn accept(&mut self, listener: &TcpListener) -> Result<()> {
        let client = match accept_with(listener, FLAGS) {
            Ok(client) => client,
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let proxy = socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
        sockopt::set_tcp_nodelay(&proxy, true)?;
        match connect(&proxy, &self.proxy) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        send_all(&proxy, &self.connect)?;
        let number = self.next;
        self.next += 2;
        self.watch(&proxy, number + 1)?;
        let pair = RelayPair {
            ends: [client, proxy],
            is_connected: false,
            ended: [false; 2],
        };
        self.pairs.insert(number, pair);
        Ok(())
    }

    fn watch(&self, end: &OwnedFd, number: u64) -> Result<()> {
        let wanted = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(
            &self.epoll,
            end,
            EventData::new_u64(number),
            wanted,
        )?)
    }

    /// Relays the bytes of one end.
    fn advance(&mut self, number: u64, flags: EventFlags) -> Result<()> {
        let (key, side) = (number & !1, usize::from(number & 1 == 1));
        // The pair may have ended earlier in this round.
        let Some(mut pair) = self.pairs.remove(&key) else {
            return Ok(());
        };
        if !pair.is_connected {
            // The response of the proxy is not examined.
            recv(&pair.ends[1], &mut self.buffer[..], RecvFlags::empty())?;
            pair.is_connected = true;
            self.relay(&mut pair, 0, false)?;
            self.watch(&pair.ends[0], key)?;
        } else {
            let is_ending = flags.intersects(EventFlags::RDHUP | EventFlags::HUP);
            self.relay(&mut pair, side, is_ending)?;
        }
        // Dropping the pair closes its sockets.
        if pair.ended != [true; 2] {
            self.pairs.insert(key, pair);
        }
        Ok(())
    }

    /// Relays one read, or everything if the stream is ending.
    fn relay(&mut self, pair: &mut RelayPair, side: usize, is_ending: bool) -> Result<()> {
        let [from, to] = [&pair.ends[side], &pair.ends[1 - side]];
        while !pair.ended[side] {
            match recv(from, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) | Err(Errno::CONNRESET) => {
                    pair.ended[side] = true;
                    if !pair.ended[1 - side] {
                        let _ = shutdown(to, Shutdown::Write);
                    }
                }
                Ok((_, read)) => {
                    send_all(to, &self.buffer[..read])?;
                    // There is no more: another call would be useless.
                    if read < BUFFER_BYTES && !is_ending {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Sends all bytes.
fn send_all(to: &OwnedFd, bytes: &[u8]) -> Result<()> {
    match send(to, bytes, SendFlags::NOSIGNAL) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        // The peer has closed.
        Err(Errno::CONNRESET | Errno::PIPE) => Ok(()),
        Ok(_) | Err(Errno::AGAIN) => Err(Error::other("a peer does not take all bytes at once")),
        Err(error) => Err(error.into()),
    }
}
