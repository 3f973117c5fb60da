//! An engine with one tunnel, its log, and peers for both of its ends.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_lab::within;
use haul_net::{ConnectorConfig, Proxy, Target};
use haul_service::listen::{
    BindOptions, BoundAddress as Place, BoundListener, InheritedSockets, bind,
};
use haul_service::observe::{LineLog, LogSink};
use haul_tunnel::{
    ListenerKind, TunnelConfig, TunnelEngine, TunnelEngineOptions, TunnelListener, TunnelLogFormat,
    TunnelStatus, TunnelTimeouts, Upstream, UpstreamOptions,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// No test takes longer.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A password that must be in no log.
pub(crate) const PASSWORD: &str = "s3cret-w0rd";

/// The lines of a log, as they are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct CapturedLog(Arc<(Mutex<Vec<String>>, Notify)>);

impl LogSink for CapturedLog {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let text = String::from_utf8(lines.to_vec()).unwrap();
        assert!(!text.contains(PASSWORD), "{text}");
        self.0
            .0
            .lock()
            .unwrap()
            .extend(text.lines().map(str::to_owned));
        self.0.1.notify_waiters();
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl CapturedLog {
    /// The line of this number, once it is there.
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

/// An engine with one door.
#[derive(Debug)]
pub(crate) struct EngineFixture {
    pub(crate) engine: TunnelEngine,
    pub(crate) door: Arc<TunnelListener>,
    pub(crate) address: SocketAddr,
    pub(crate) lines: CapturedLog,
}

/// Proxies in a row, with alternatives.
pub(crate) fn by(places: &[&[String]]) -> UpstreamOptions {
    let read = |text: &String| -> Proxy { text.parse().unwrap() };
    UpstreamOptions {
        proxies: places
            .iter()
            .map(|place| place.iter().map(read).collect())
            .collect(),
        connector: patient(LIMIT),
        ..UpstreamOptions::default()
    }
}

/// By one proxy.
pub(crate) fn by_one(proxy: &str) -> UpstreamOptions {
    by(&[&[proxy.to_owned()]])
}

/// Connections have to be there within so long.
pub(crate) fn patient(limit: Duration) -> ConnectorConfig {
    ConnectorConfig {
        connect_timeout: limit,
        ..ConnectorConfig::default()
    }
}

pub(crate) fn target(text: impl ToString) -> Target {
    text.to_string().parse().unwrap()
}

/// A tunnel to a target, without anything that stands ready.
pub(crate) fn tunnel(local: ListenerKind, upstream: UpstreamOptions) -> TunnelConfig {
    TunnelConfig {
        name: "here".into(),
        kind: local,
        upstream: Arc::new(Upstream::new(upstream).unwrap()),
        warm_pool: None,
        timeouts: TunnelTimeouts::default(),
    }
}

pub(crate) fn listening() -> BoundListener {
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
    /// A forward to a target.
    pub(crate) fn to(target: Target, upstream: UpstreamOptions) -> Self {
        Self::with(tunnel(ListenerKind::Forward(target), upstream))
    }

    /// A listener whose clients say where to.
    pub(crate) fn of(local: ListenerKind, upstream: UpstreamOptions) -> Self {
        Self::with(tunnel(local, upstream))
    }

    pub(crate) fn with(tunnel: TunnelConfig) -> Self {
        Self::limited(tunnel, 1000)
    }

    pub(crate) fn limited(tunnel: TunnelConfig, max_connections: usize) -> Self {
        let lines = CapturedLog::default();
        let log = LineLog::start("tunnel log", Box::new(lines.clone()), 1 << 20).unwrap();
        let engine = TunnelEngine::new(TunnelEngineOptions {
            max_connections,
            max_connections_set_by: "the test".into(),
            log: Some((Arc::new(log), TunnelLogFormat::Json)),
        });
        let bound = listening();
        let Place::Tcp(address) = bound.local else {
            panic!("{bound:?}")
        };
        let door = engine.listen(bound.listeners, tunnel).unwrap();
        Self {
            engine,
            door,
            address,
            lines,
        }
    }

    /// A client.
    pub(crate) async fn call(&self) -> TcpStream {
        within(LIMIT, TcpStream::connect(self.address))
            .await
            .unwrap()
    }

    /// What is live.
    pub(crate) fn status(&self) -> TunnelStatus {
        serde_json::from_slice(&self.engine.status_page().render()).unwrap()
    }

    /// Until so many connections are live.
    pub(crate) async fn until_live(&self, count: usize) {
        until(|| self.engine.connection_count() == count).await;
    }

    /// Says a word through it, and hears it again.
    pub(crate) async fn echoes(&self) -> TcpStream {
        let mut client = self.call().await;
        echoed(&mut client).await;
        client
    }
}

/// Until something is so. Others have their turn meanwhile.
pub(crate) async fn until(is_so: impl Fn() -> bool + Send + Sync) {
    let so = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    within(LIMIT, so).await;
}

/// A word is said, and comes back.
pub(crate) async fn echoed(client: &mut TcpStream) {
    say(client, b"a word").await;
    assert_eq!(next(client, 6).await, b"a word");
}

pub(crate) async fn say(peer: &mut (impl AsyncWriteExt + Unpin), bytes: &[u8]) {
    within(LIMIT, peer.write_all(bytes)).await.unwrap();
}

/// The next bytes, so many.
pub(crate) async fn next(peer: &mut (impl AsyncReadExt + Unpin), count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    within(LIMIT, peer.read_exact(&mut bytes)).await.unwrap();
    bytes
}

/// All until the end.
pub(crate) async fn heard(peer: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut all = Vec::new();
    within(LIMIT, peer.read_to_end(&mut all)).await.unwrap();
    all
}

/// It was closed or reset, and nothing was said before.
pub(crate) async fn is_gone(peer: &mut TcpStream) {
    let read = within(LIMIT, peer.read(&mut [0; 1])).await;
    assert!(!matches!(read, Ok(1..)), "{read:?}");
}

/// Reads a head.
pub(crate) async fn head(peer: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within(LIMIT, peer.read_u8()).await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Somebody who accepts connections and does what a script says. Dropped, it stops.
#[derive(Debug)]
pub(crate) struct ScriptedTarget {
    pub(crate) address: SocketAddr,
    accepted: Arc<Mutex<usize>>,
    _tasks: JoinSet<()>,
}

impl ScriptedTarget {
    /// The script gets each connection, and its number from 0 on. A panic of it only ends that connection.
    pub(crate) async fn doing<F>(script: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Self
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

    /// Says again what it hears, to the end.
    pub(crate) async fn echo() -> Self {
        Self::doing(|stream, _| repeat(stream)).await
    }

    /// Says something first, and then the same as an echo.
    pub(crate) async fn greeting(words: &'static [u8]) -> Self {
        Self::doing(move |mut stream, _| async move {
            if stream.write_all(words).await.is_ok() {
                repeat(stream).await;
            }
        })
        .await
    }

    /// How many connections came.
    pub(crate) fn accepted(&self) -> usize {
        *self.accepted.lock().unwrap()
    }

    /// As a proxy of HTTP.
    pub(crate) fn proxy(&self) -> String {
        format!("http://{}", self.address)
    }
}

pub(crate) async fn repeat(stream: TcpStream) {
    let (mut from, mut to) = stream.into_split();
    let _ = tokio::io::copy(&mut from, &mut to).await;
    let _ = to.shutdown().await;
}

/// Says something, and hears the whole answer.
pub(crate) async fn answer(stand: &EngineFixture, said: &[u8]) -> String {
    let mut client = stand.call().await;
    say(&mut client, said).await;
    String::from_utf8(heard(&mut client).await).unwrap()
}
