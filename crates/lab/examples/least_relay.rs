//! The least that a relay through an HTTP proxy can do, for benches: what a tunnel is measured against where the proxy and its clients
//! share the processors with it, and no relay at all could reach what they do alone.
//!
//! Use: least_relay PORT PROXY TARGET
//!
//! One thread, one epoll, no call in vain: the CONNECT goes out before anybody has said that there is a connection, which loopback
//! allows, and no socket is watched before it has to be waited for. There is no log, no limit, no time-out, no name, no login, no
//! second proxy; a proxy's refusal is passed on as if it were the target's answer, and what a peer does not take at once ends it
//! all. It is not for use.

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

/// Bytes that are read at once.
const ROOM: usize = 64 << 10;

/// Events that are heard of at once.
const EVENTS: usize = 256;

/// What a listener's event is called.
const LISTENER: u64 = u64::MAX;

/// New sockets.
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// One connection.
struct RelayPair {
    /// The client, and the proxy.
    ends: [OwnedFd; 2],
    /// Whether the proxy has answered.
    is_there: bool,
    /// Whether they have ended their sides.
    ended: [bool; 2],
}

/// All of it.
struct MinimalRelay {
    epoll: OwnedFd,
    proxy: SocketAddr,
    /// What asks for a tunnel.
    question: Vec<u8>,
    /// By twice what their clients' events are called, and one more for their proxies'.
    pairs: HashMap<u64, RelayPair>,
    next: u64,
    room: Vec<u8>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.as_slice() {
        [port, proxy, target] => run((port, proxy), target),
        _ => Err(Error::other("use: least_relay PORT PROXY TARGET")),
    };
    if let Err(error) = done {
        let _ = writeln!(std::io::stderr(), "{error}");
    }
    ExitCode::FAILURE
}

fn run((port, proxy): (&str, &str), target: &str) -> Result<()> {
    let port = port.parse().map_err(Error::other)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    // What is accepted has it from here.
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
        question: format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes(),
        pairs: HashMap::new(),
        next: 0,
        room: vec![0; ROOM],
    };
    let mut events = Vec::with_capacity(EVENTS);
    loop {
        events.clear();
        epoll::wait(
            &relay.epoll,
            rustix::buffer::spare_capacity(&mut events),
            None,
        )?;
        for Event { flags, data } in events.iter().copied() {
            match data.u64() {
                LISTENER => relay.begin(&listener)?,
                number => relay.go_on(number, flags)?,
            }
        }
    }
}

impl MinimalRelay {
    /// Accepts a client, and asks the proxy for its tunnel.
    fn begin(&mut self, listener: &TcpListener) -> Result<()> {
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
        whole(&proxy, &self.question)?;
        let number = self.next;
        self.next += 2;
        self.watch(&proxy, number + 1)?;
        let pair = RelayPair {
            ends: [client, proxy],
            is_there: false,
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

    /// Hands on what one end has said.
    fn go_on(&mut self, number: u64, flags: EventFlags) -> Result<()> {
        let (key, side) = (number & !1, usize::from(number & 1 == 1));
        // Of one that ended in this round.
        let Some(mut pair) = self.pairs.remove(&key) else {
            return Ok(());
        };
        if !pair.is_there {
            // The proxy's answer is taken for a good one.
            recv(&pair.ends[1], &mut self.room[..], RecvFlags::empty())?;
            pair.is_there = true;
            self.hand_on(&mut pair, 0, false)?;
            self.watch(&pair.ends[0], key)?;
        } else {
            let is_ending = flags.intersects(EventFlags::RDHUP | EventFlags::HUP);
            self.hand_on(&mut pair, side, is_ending)?;
        }
        // Closed by being dropped.
        if pair.ended != [true; 2] {
            self.pairs.insert(key, pair);
        }
        Ok(())
    }

    /// Once, or to the end where that has come as well.
    fn hand_on(&mut self, pair: &mut RelayPair, side: usize, is_ending: bool) -> Result<()> {
        let [from, to] = [&pair.ends[side], &pair.ends[1 - side]];
        while !pair.ended[side] {
            match recv(from, &mut self.room[..], RecvFlags::empty()) {
                Ok((_, 0)) | Err(Errno::CONNRESET) => {
                    pair.ended[side] = true;
                    if !pair.ended[1 - side] {
                        let _ = shutdown(to, Shutdown::Write);
                    }
                }
                Ok((_, read)) => {
                    whole(to, &self.room[..read])?;
                    // There is no more, and nobody has to be asked.
                    if read < ROOM && !is_ending {
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

/// Sends all of it.
fn whole(to: &OwnedFd, bytes: &[u8]) -> Result<()> {
    match send(to, bytes, SendFlags::NOSIGNAL) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        // It has left.
        Err(Errno::CONNRESET | Errno::PIPE) => Ok(()),
        Ok(_) | Err(Errno::AGAIN) => {
            Err(Error::other("a peer does not take what it is sent at once"))
        }
        Err(error) => Err(error.into()),
    }
}
