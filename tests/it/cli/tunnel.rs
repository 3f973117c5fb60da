//! `haul tunnel` from the command line: its listeners, routes, messages, shutdown and reload.
//!
//! The proxies are those of `haul-lab`, and the target is an echo server. The tests of `haul-net` cover the protocols of proxies, those of
//! `haul-tunnel` the relay.

mod config;
mod connection_limit;
mod inherited_sockets;
mod log;
mod proxy_logins;
mod replaced_listeners;
mod routes;
mod shutdown;
mod status;
mod stdio;
mod tls;
mod usage_errors;

use std::net::SocketAddr;

use haul_lab::{HttpProxy, within};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::harness::{HaulDirectory, HaulOutput, LIMIT, RunningHaul};

/// A server that sends back the bytes that it receives, until it is dropped.
struct EchoServer {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl EchoServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                clients.spawn(async move {
                    let (mut from, mut to) = stream.split();
                    // A client that was cut off cannot report an error.
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        Self {
            address,
            _tasks: tasks,
        }
    }
}

/// A proxy that connects `echo.test:7` to the echo server.
async fn proxy_to(echo: &EchoServer) -> HttpProxy {
    let proxy = HttpProxy::builder().route("echo.test:7", echo.address);
    proxy.start().await
}

/// A tunnel that listens.
struct TunnelProcess {
    running: RunningHaul,
    /// Its addresses, in the order of its arguments.
    addresses: Vec<String>,
    /// The lines it printed so far.
    stderr_lines: Vec<String>,
}

/// `haul tunnel` with so many listeners.
async fn start_tunnel(haul: &HaulDirectory, args: &[&str], listeners: usize) -> TunnelProcess {
    let args = [&["tunnel"], args].concat();
    wait_for_listeners(haul.start(&args), listeners).await
}

async fn wait_for_listeners(running: RunningHaul, listeners: usize) -> TunnelProcess {
    let mut tunnel = TunnelProcess {
        running,
        addresses: Vec::new(),
        stderr_lines: Vec::new(),
    };
    for _ in 0..listeners {
        tunnel.wait_for_listener().await;
    }
    tunnel
}

impl TunnelProcess {
    /// Waits for the message about one more address.
    async fn wait_for_listener(&mut self) -> String {
        let read = async {
            while let Some(line) = self.running.stderr.next_line().await.unwrap() {
                self.stderr_lines.push(line.clone());
                if let Some((_, rest)) = line.split_once("haul: listening on ") {
                    return rest.split(' ').next().unwrap().to_owned();
                }
            }
            panic!("it does not listen: {:#?}", self.stderr_lines);
        };
        let address = within(LIMIT, read).await;
        self.addresses.push(address.clone());
        address
    }

    async fn connect(&self) -> TcpStream {
        connect_to(&self.addresses[0]).await
    }

    async fn reload(&mut self, words: &str) -> String {
        self.running.signal(rustix::process::Signal::HUP);
        self.running.wait_for_line(words).await
    }

    async fn stop(self) -> HaulOutput {
        self.running.signal(rustix::process::Signal::TERM);
        self.running.wait().await
    }
}

async fn connect_to(address: &str) -> TcpStream {
    within(LIMIT, TcpStream::connect(address)).await.unwrap()
}

/// Sends bytes to the echo server through the tunnel and reads them back.
async fn assert_echo(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), words: &str) {
    let echo = async {
        stream.write_all(words.as_bytes()).await.unwrap();
        let mut received = vec![0; words.len()];
        stream.read_exact(&mut received).await.unwrap();
        received
    };
    assert_eq!(within(LIMIT, echo).await, words.as_bytes());
}

/// Shuts down the sending side, and reads to the end.
async fn shutdown_and_read(mut stream: TcpStream) -> Vec<u8> {
    let rest = async {
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        // A reset is an end, too.
        let _ = stream.read_to_end(&mut rest).await;
        rest
    };
    within(LIMIT, rest).await
}
