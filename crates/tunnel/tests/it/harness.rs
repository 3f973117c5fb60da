//! A tunnel engine with one listener and a log, and clients and servers for it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_lab::within;
use haul_net::{ConnectorConfig, Proxy, Target};
use haul_service::listen::{BindOptions, BoundAddress, BoundListener, InheritedSockets, bind};
use haul_service::observe::{LineLog, LogSink};
use haul_tunnel::{
    ListenerKind, TunnelConfig, TunnelEngine, TunnelEngineOptions, TunnelListener, TunnelLogFormat,
    TunnelStatus, TunnelTimeouts, Upstream, UpstreamOptions,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The time limit of one step of a test.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The password of proxy logins. It must never be logged.
pub(crate) const PASSWORD: &str = "s3cret-w0rd";

/// A log that keeps its lines in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapturedLog(Arc<(Mutex<Vec<String>>, Notify)>);

impl LogSink for CapturedLog {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let text = String::from_utf8(lines.to_vec()).unwrap();
        assert!(!text.contains(PASSWORD), "{text}");
        let lines = text.lines().map(str::to_owned);
        self.0.0.lock().unwrap().extend(lines);
        self.0.1.notify_waiters();
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CapturedLog {
    /// Waits for the line with this number, counted from 0.
    pub(crate) async fn line(&self, number: usize) -> String {
        let line = async {
            loop {
                let written = self.0.1.notified();
                tokio::pin!(written);
                written.as_mut().enable();
                if let Some(line) = self.0.0.lock().unwrap().get(number) {
                    return line.clone();
                }
                written.await;
            }
        };
        within(LIMIT, line).await
    }

    pub(crate) fn count(&self) -> usize {
        self.0.0.lock().unwrap().len()
    }
}

/// A tunnel engine with one listener.
#[derive(Debug)]
pub(crate) struct EngineFixture {
    pub(crate) engine: TunnelEngine,
    pub(crate) listener: Arc<TunnelListener>,
    pub(crate) address: SocketAddr,
    pub(crate) log: CapturedLog,
}

/// An upstream through a chain of proxies. Each hop has one or more alternatives.
pub(crate) fn proxy_chain(hops: &[&[String]]) -> UpstreamOptions {
    let parse = |text: &String| -> Proxy { text.parse().unwrap() };
    UpstreamOptions {
        proxies: hops
            .iter()
            .map(|hop| hop.iter().map(parse).collect())
            .collect(),
        connector: connect_timeout(LIMIT),
        ..UpstreamOptions::default()
    }
}

/// An upstream without proxies.
pub(crate) fn direct() -> UpstreamOptions {
    proxy_chain(&[])
}

pub(crate) fn through_proxy(proxy: &str) -> UpstreamOptions {
    proxy_chain(&[&[proxy.to_owned()]])
}

pub(crate) fn with_login(proxy: &ScriptedServer) -> UpstreamOptions {
    let login = format!("://me:{PASSWORD}@");
    through_proxy(&proxy.proxy_url().replacen("://", &login, 1))
}

pub(crate) fn connect_timeout(limit: Duration) -> ConnectorConfig {
    ConnectorConfig {
        connect_timeout: limit,
        ..ConnectorConfig::default()
    }
}

pub(crate) fn target(text: impl ToString) -> Target {
    text.to_string().parse().unwrap()
}

/// A listener configuration without a warm pool and without timeouts.
pub(crate) fn config(kind: ListenerKind, upstream: UpstreamOptions) -> TunnelConfig {
    TunnelConfig {
        name: "here".into(),
        kind,
        upstream: Arc::new(Upstream::new(upstream).unwrap()),
        warm_pool: None,
        timeouts: TunnelTimeouts::default(),
    }
}

pub(crate) fn bind_loopback() -> BoundListener {
    let address = "127.0.0.1:0".parse().unwrap();
    bind(
        &address,
        &BindOptions::default(),
        &mut InheritedSockets::none(),
    )
    .unwrap()
    .remove(0)
}

impl EngineFixture {
    /// A listener that forwards its clients to a target.
    pub(crate) fn forward(target: Target, upstream: UpstreamOptions) -> Self {
        Self::with_config(config(ListenerKind::Forward(target), upstream))
    }

    pub(crate) fn with_kind(kind: ListenerKind, upstream: UpstreamOptions) -> Self {
        Self::with_config(config(kind, upstream))
    }

    /// A listener for HTTP clients.
    pub(crate) fn http(upstream: UpstreamOptions) -> Self {
        Self::with_kind(ListenerKind::Http, upstream)
    }

    pub(crate) fn with_config(config: TunnelConfig) -> Self {
        Self::with_limit(config, 1000)
    }

    pub(crate) fn with_limit(config: TunnelConfig, max_connections: usize) -> Self {
        let log = CapturedLog::default();
        let lines = LineLog::start("tunnel log", Box::new(log.clone()), 1 << 20).unwrap();
        let engine = TunnelEngine::new(TunnelEngineOptions {
            max_connections,
            max_connections_set_by: "the test".into(),
            log: Some((Arc::new(lines), TunnelLogFormat::Json)),
        });
        let bound = bind_loopback();
        let BoundAddress::Tcp(address) = bound.local else {
            panic!("{bound:?}")
        };
        let listener = engine.listen(bound.listeners, config).unwrap();
        Self {
            engine,
            listener,
            address,
            log,
        }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        within(LIMIT, TcpStream::connect(self.address))
            .await
            .unwrap()
    }

    pub(crate) fn status(&self) -> TunnelStatus {
        serde_json::from_slice(&self.engine.status_page().render()).unwrap()
    }

    /// Waits until this many connections are open.
    pub(crate) async fn wait_for_connections(&self, count: usize) {
        wait_until(|| self.engine.connection_count() == count).await;
    }

    /// A new client whose bytes have been echoed once.
    pub(crate) async fn echo(&self) -> TcpStream {
        let mut client = self.connect().await;
        assert_echo(&mut client).await;
        client
    }

    /// A new client that sends these bytes and reads to the end of the stream.
    pub(crate) async fn request(&self, bytes: &[u8]) -> String {
        let mut client = self.connect().await;
        send(&mut client, bytes).await;
        String::from_utf8(read_to_end(&mut client).await).unwrap()
    }

    /// A new client that sends an HTTP request and reads one response.
    pub(crate) async fn http_request(&self, bytes: &[u8]) -> String {
        let mut client = self.connect().await;
        send(&mut client, bytes).await;
        read_response(&mut client).await
    }
}

/// Waits until a condition holds, and lets other tasks run meanwhile.
pub(crate) async fn wait_until(condition: impl Fn() -> bool + Send + Sync) {
    let waiting = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, waiting).await;
}

/// Asserts that the other side sends back what it gets.
pub(crate) async fn assert_echo(client: &mut TcpStream) {
    send(client, b"a word").await;
    assert_eq!(read(client, 6).await, b"a word");
}

pub(crate) async fn send(peer: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) {
    within(LIMIT, peer.write_all(bytes)).await.unwrap();
}

/// Reads this many bytes.
pub(crate) async fn read(peer: &mut (impl AsyncReadExt + Unpin), count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    within(LIMIT, peer.read_exact(&mut bytes)).await.unwrap();
    bytes
}

pub(crate) async fn read_to_end(peer: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    within(LIMIT, peer.read_to_end(&mut all)).await.unwrap();
    all
}

/// Asserts that the stream is closed or reset before any byte.
pub(crate) async fn assert_closed(peer: &mut TcpStream) {
    let read = within(LIMIT, peer.read(&mut [0; 1])).await;
    assert!(!matches!(read, Ok(1..)), "{read:?}");
}

/// Reads the head of a request or a response.
pub(crate) async fn read_head(peer: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within(LIMIT, peer.read_u8()).await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// The value of a header in the head of a request or a response.
pub(crate) fn header_value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Reads a response: the head, then the body by its Content-Length, its chunks or the end of the stream.
pub(crate) async fn read_response(peer: &mut (impl AsyncReadExt + Unpin)) -> String {
    let head = read_head(peer).await;
    let body = match (
        header_value(&head, "content-length"),
        header_value(&head, "transfer-encoding"),
    ) {
        (Some(length), _) => read(peer, length.parse().unwrap()).await,
        (None, Some(_)) => read_chunks(peer).await,
        (None, None) => read_to_end(peer).await,
    };
    head + &String::from_utf8(body).unwrap()
}

/// Reads a chunked body. Returns it with the chunk sizes and trailers.
async fn read_chunks(peer: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let size = read_line(peer).await;
        let length = usize::from_str_radix(size.trim_end(), 16).unwrap();
        all.extend_from_slice(size.as_bytes());
        if length == 0 {
            break;
        }
        all.extend(read(peer, length + 2).await);
    }
    loop {
        let line = read_line(peer).await;
        all.extend_from_slice(line.as_bytes());
        if line == "\r\n" {
            return all;
        }
    }
}

async fn read_line(peer: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(within(LIMIT, peer.read_u8()).await.unwrap());
    }
    String::from_utf8(line).unwrap()
}

/// A server that handles each connection by a script. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct ScriptedServer {
    pub(crate) address: SocketAddr,
    accepted: Arc<Mutex<usize>>,
    _tasks: JoinSet<()>,
}

impl ScriptedServer {
    /// The script gets each connection and its number, counted from 0. A panic in it ends that connection only.
    pub(crate) async fn new<F>(script: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::at("127.0.0.1:0", script).await.unwrap()
    }

    pub(crate) async fn at<F>(
        address: &str,
        script: impl Fn(TcpStream, usize) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let accepted = Arc::new(Mutex::new(0));
        let count = Arc::clone(&accepted);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let number = {
                    let mut count = count.lock().unwrap();
                    *count += 1;
                    *count - 1
                };
                connections.spawn(script(stream, number));
            }
        });
        Ok(Self {
            address,
            accepted,
            _tasks: tasks,
        })
    }

    /// A server that sends back what it receives.
    pub(crate) async fn echo() -> Self {
        Self::new(|stream, _| echo_all(stream)).await
    }

    /// A server that sends a greeting and then sends back what it receives.
    pub(crate) async fn greeting(greeting: &'static [u8]) -> Self {
        Self::new(move |mut stream, _| async move {
            if stream.write_all(greeting).await.is_ok() {
                echo_all(stream).await;
            }
        })
        .await
    }

    /// The number of accepted connections.
    pub(crate) fn accepted(&self) -> usize {
        *self.accepted.lock().unwrap()
    }

    /// The URL of this server as an HTTP proxy.
    pub(crate) fn proxy_url(&self) -> String {
        format!("http://{}", self.address)
    }
}

pub(crate) async fn echo_all(stream: TcpStream) {
    let (mut reader, mut writer) = stream.into_split();
    let _ = tokio::io::copy(&mut reader, &mut writer).await;
    let _ = writer.shutdown().await;
}
