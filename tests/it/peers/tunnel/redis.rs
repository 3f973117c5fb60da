//! A database session: large values both ways, many requests before the first response, pushed messages, an end by either side.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use haul_lab::ResourceContent;
use tempfile::TempDir;

use super::{RunningTunnel, WorkDirectory};
use crate::cli::harness::LIMIT;
use crate::cli::soak_server::poll_until_ok;
use crate::peers::program::{ServerProcess, start};
use crate::peers::squid::{Squid, SquidAuth};

/// A running server that saves nothing.
struct Redis {
    _dir: TempDir,
    port: u16,
    _program: ServerProcess,
}

impl Redis {
    async fn start() -> Self {
        let (dir, [port]) = (tempfile::tempdir().unwrap(), haul_lab::free_ports());
        let number = port.to_string();
        let args = [
            "--port",
            &number,
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            dir.path().to_str().unwrap(),
        ];
        let program = start("redis-server", &args, port, dir.path()).await;
        Self {
            _dir: dir,
            port,
            _program: program,
        }
    }

    fn spec(&self) -> String {
        format!("0:127.0.0.1:{}", self.port)
    }

    /// A client that is connected directly.
    fn direct(&self) -> RedisClient<TcpStream> {
        RedisClient::through(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap())
    }
}

/// A client with as much of the protocol as these tests need.
struct RedisClient<S>(BufReader<S>);

/// A response of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RedisReply {
    /// A status or a number, with its type before it.
    Line(String),
    /// Bytes; `None` for a missing value.
    Bytes(Option<Vec<u8>>),
    /// An array.
    List(Vec<Self>),
}

impl<S: Read + Write> RedisClient<S> {
    fn through(stream: S) -> Self {
        Self(BufReader::new(stream))
    }

    fn send(&mut self, words: &[&[u8]]) {
        let mut line = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            line.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            line.extend_from_slice(word);
            line.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&line).unwrap();
    }

    fn receive(&mut self) -> RedisReply {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let line = line.strip_suffix("\r\n").expect("the end of a line");
        let count = || line[1..].parse::<i64>().unwrap();
        match line.chars().next() {
            Some('$') => RedisReply::Bytes(usize::try_from(count()).ok().map(|length| {
                let mut bytes = vec![0; length + 2];
                self.0.read_exact(&mut bytes).unwrap();
                bytes.truncate(length);
                bytes
            })),
            Some('*') => RedisReply::List((0..count()).map(|_| self.receive()).collect()),
            _ => RedisReply::Line(line.to_owned()),
        }
    }

    fn command(&mut self, words: &[&[u8]]) -> RedisReply {
        self.send(words);
        self.receive()
    }

    /// Sets a large value and gets it back; then sends many requests before it reads a response.
    fn run_session(&mut self, key: &[u8]) {
        let large = ResourceContent::random(9, (5 << 20) + 3).to_vec();
        assert_eq!(self.command(&[b"SET", key, &large]), line("+OK"));
        assert!(self.command(&[b"GET", key]) == RedisReply::Bytes(Some(large)));
        for _ in 0..1000 {
            self.send(&[b"INCR", b"count"]);
            self.send(&[b"GETRANGE", key, b"7", b"1000"]);
        }
        let RedisReply::Line(first) = self.receive() else {
            panic!("no number")
        };
        let first: i64 = first.strip_prefix(':').unwrap().parse().unwrap();
        let part = ResourceContent::random(9, 1001).to_vec()[7..].to_vec();
        for more in 0..1000 {
            if more > 0 {
                assert_eq!(self.receive(), line(&format!(":{}", first + more)));
            }
            assert!(self.receive() == RedisReply::Bytes(Some(part.clone())));
        }
    }

    /// The end of the server's stream arrives.
    fn assert_closed(&mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"");
    }
}

fn line(text: &str) -> RedisReply {
    RedisReply::Line(text.to_owned())
}

fn dial(tunnel: &RunningTunnel, place: usize) -> RedisClient<TcpStream> {
    let stream = TcpStream::connect(tunnel.address(place)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    RedisClient::through(stream)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_by_port_and_by_socket_file() {
    let (redis, squid, here) = (
        Redis::start().await,
        Squid::start(SquidAuth::Basic).await,
        WorkDirectory::new(),
    );
    let file = here.text("redis.sock");
    let by_file = format!("unix:{file}:127.0.0.1:{}", redis.port);
    let tunnel = RunningTunnel::start(&["-p", &squid.url("me:secret")], &[&redis.spec(), &by_file]);
    dial(&tunnel, 0).run_session(b"port");
    let stream = UnixStream::connect(&file).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    RedisClient::through(stream).run_session(b"file");
    for address in [["-p", &tunnel.port(0)], ["-s", &file]] {
        let output = here.run(
            "redis-cli",
            &[&address[..], &["-r", "2", "STRLEN", "file"]].concat(),
        );
        assert_eq!(output.stdout, "5242883\n5242883\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushed_messages_and_a_kill_are_passed_on() {
    let (redis, squid) = (Redis::start().await, Squid::start(SquidAuth::None).await);
    let tunnel = RunningTunnel::start(&["-p", &squid.url("")], &[&redis.spec()]);
    let (mut listener, mut direct) = (dial(&tunnel, 0), redis.direct());
    let one = line(":1");
    let bytes = |text: &str| RedisReply::Bytes(Some(text.into()));
    let subscribed = RedisReply::List(vec![bytes("subscribe"), bytes("news"), one.clone()]);
    assert_eq!(listener.command(&[b"SUBSCRIBE", b"news"]), subscribed);
    for n in 0..100 {
        let text = format!("news {n}");
        assert_eq!(direct.command(&[b"PUBLISH", b"news", text.as_bytes()]), one);
        let pushed = RedisReply::List(vec![bytes("message"), bytes("news"), bytes(&text)]);
        assert_eq!(listener.receive(), pushed);
    }
    assert_eq!(
        direct.command(&[b"CLIENT", b"KILL", b"TYPE", b"pubsub"]),
        one
    );
    listener.assert_closed();
    drop(listener);
    tunnel.wait_for_line(": closed, ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e8_a_client_that_resets_is_gone_at_the_server() {
    let (redis, squid) = (Redis::start().await, Squid::start(SquidAuth::None).await);
    let tunnel = RunningTunnel::start(&["-p", &squid.url("")], &[&redis.spec()]);
    let (mut blocked, mut direct) = (dial(&tunnel, 0), redis.direct());
    assert_eq!(
        blocked.command(&[b"CLIENT", b"SETNAME", b"leaves"]),
        line("+OK")
    );
    // No response will ever come, so only the reset shows that the client is gone.
    blocked.send(&[b"BLPOP", b"never", b"0"]);
    let mut is_there = || match direct.command(&[b"CLIENT", b"LIST"]) {
        RedisReply::Bytes(Some(list)) => String::from_utf8(list).unwrap().contains("name=leaves"),
        other => panic!("{other:?}"),
    };
    assert!(is_there());
    rustix::net::sockopt::set_socket_linger(blocked.0.get_ref(), Some(Duration::ZERO)).unwrap();
    drop(blocked);
    tunnel.wait_for_line(": reset by client, ");
    poll_until_ok("the server keeps the client", || {
        is_there().then(String::new)
    });
}
