//! The responses of the endpoint, its time limits, and its end.

use haul_lab::within;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use super::*;
use crate::listen::Listener;
use crate::observe::{MetricKind, MetricSource, MetricsText};

const LIMIT: Duration = Duration::from_secs(60);

struct TestMetric(u64);

impl MetricSource for TestMetric {
    fn write_metrics(&self, out: &mut MetricsText) {
        out.single("things_total", MetricKind::Counter, "Things.", self.0);
    }
}

/// A page of the server.
struct TestPage;

impl AdminPage for TestPage {
    fn path(&self) -> &'static str {
        "/listing"
    }

    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn render(&self) -> Vec<u8> {
        b"[1]\n".to_vec()
    }
}

/// A page that panics.
struct BrokenPage;

impl AdminPage for BrokenPage {
    fn path(&self) -> &'static str {
        "/broken"
    }

    fn content_type(&self) -> &'static str {
        "text/plain"
    }

    fn render(&self) -> Vec<u8> {
        panic!("a page that panics, as this test wants it");
    }
}

/// An endpoint on a free port.
struct RunningEndpoint {
    address: std::net::SocketAddr,
    draining: CancellationToken,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl RunningEndpoint {
    async fn start() -> Self {
        Self::on("127.0.0.1:0", |admin| admin).await
    }

    async fn on(address: &str, with: impl FnOnce(AdminEndpoint) -> AdminEndpoint) -> Self {
        let listener = std::net::TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (draining, stop) = (CancellationToken::new(), CancellationToken::new());
        let admin = with(AdminEndpoint::new(
            vec![Arc::new(TestMetric(77))],
            draining.clone(),
        ));
        let mut tasks = JoinSet::new();
        let acceptor = acceptor(Listener::Tcp(listener));
        tasks.spawn(serve_admin(acceptor, Arc::new(admin), stop.clone()));
        Self {
            address,
            draining,
            stop,
            tasks,
        }
    }

    /// Sends a request and returns the response.
    async fn send(&self, request: &str) -> String {
        let stream = TcpStream::connect(self.address).await.unwrap();
        send(stream, request).await
    }

    async fn get(&self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .await
    }
}

/// Sends a request and returns the response.
async fn send(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    read(&mut stream).await
}

/// Reads until the server closes, perhaps by a reset.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let _ = within(LIMIT, stream.read_to_end(&mut text)).await;
    String::from_utf8(text).unwrap()
}

fn acceptor(listener: Listener) -> Acceptor {
    match &listener {
        Listener::Tcp(listener) => listener.set_nonblocking(true).unwrap(),
        Listener::Unix(listener) => listener.set_nonblocking(true).unwrap(),
    }
    Acceptor::new(listener, "--admin").unwrap()
}

fn body(response: &str) -> &str {
    response.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn health_is_ok_until_the_server_drains() {
    let admin = RunningEndpoint::start().await;
    let response = admin.get("/healthz").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert_eq!(body(&response), "ok\n");
    admin.draining.cancel();
    let response = admin.get("/healthz").await;
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    assert_eq!(body(&response), "draining\n");
    // Metrics are of interest all the more.
    assert!(admin.get("/metrics").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let admin = RunningEndpoint::start().await;
    let response = admin.get("/metrics?a=1").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    let kind = "\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n";
    assert!(response.contains(kind), "{response}");
    let line = "\nthings_total 77\n";
    assert!(body(&response).contains(line), "{response}");
}

#[tokio::test]
async fn head_has_no_body_and_other_methods_are_refused() {
    let admin = RunningEndpoint::start().await;
    let response = admin
        .send("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    assert!(response.contains("\r\ncontent-length: 3\r\n"), "{response}");
    assert_eq!(body(&response), "");
    for (method, path, code) in [
        ("POST", "/metrics", "405"),
        ("DELETE", "/healthz", "405"),
        ("GET", "/", "404"),
        ("POST", "/healthz/", "404"),
    ] {
        let response = admin
            .send(&format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ))
            .await;
        assert!(
            response.starts_with(&format!("HTTP/1.1 {code} ")),
            "{response}"
        );
        assert_eq!(response.contains("\r\nallow: GET, HEAD\r\n"), code == "405");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_clients_are_dropped_and_make_room() {
    let admin = RunningEndpoint::start().await;
    let started = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        silent.push(TcpStream::connect(admin.address).await.unwrap());
    }
    // One more than the limit: served when one of them was dropped.
    let response = within(LIMIT, admin.get("/healthz")).await;
    assert_eq!(body(&response), "ok\n");
    for stream in &mut silent {
        let _ = read(stream).await;
    }
    let waited = started.elapsed();
    assert!(
        HEAD_TIMEOUT <= waited && waited < CONNECTION_TIMEOUT,
        "{waited:?}"
    );
}

#[tokio::test]
async fn once_stopped_it_accepts_no_more_and_ends() {
    let mut admin = RunningEndpoint::start().await;
    assert_eq!(body(&admin.get("/healthz").await), "ok\n");
    let mut idle = TcpStream::connect(admin.address).await.unwrap();
    admin.stop.cancel();
    within(LIMIT, admin.tasks.join_next())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read(&mut idle).await, "");
    TcpStream::connect(admin.address).await.unwrap_err();
}

#[tokio::test]
async fn pages_of_the_server_are_served_and_listed() {
    let admin = RunningEndpoint::start().await;
    assert_eq!(
        body(&admin.get("/tunnel").await),
        "there is /healthz and /metrics\n"
    );
    assert!(admin.get("/listing").await.starts_with("HTTP/1.1 404 "));
    let add_pages =
        |admin: AdminEndpoint| admin.page(Arc::new(TestPage)).page(Arc::new(BrokenPage));
    let admin = RunningEndpoint::on("127.0.0.1:0", add_pages).await;
    let response = admin.get("/listing?a").await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    let kind = "\r\ncontent-type: application/json\r\n";
    assert!(response.contains(kind), "{response}");
    assert_eq!(body(&response), "[1]\n");
    let response = admin
        .send("POST /listing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
    assert_eq!(
        body(&admin.get("/").await),
        "there is /healthz, /metrics, /listing and /broken\n"
    );
    let response = admin.get("/broken").await;
    assert!(response.starts_with("HTTP/1.1 500 "), "{response}");
    assert!(admin.get("/metrics").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn on_loopback_a_foreign_name_is_refused() {
    let admin = RunningEndpoint::on("127.0.0.1:0", |admin| admin.page(Arc::new(TestPage))).await;
    let request = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for host in [
        "rebound.evil.example:9090",
        "evil",
        "127.0.0.1.evil.example",
    ] {
        for path in ["/healthz", "/metrics", "/listing", "/"] {
            let response = admin.send(&request(path, host)).await;
            assert!(response.starts_with("HTTP/1.1 403 "), "{host} {response}");
            assert!(!response.contains("77"), "{response}");
        }
    }
    for host in ["127.0.0.1:9090", "[::1]:9090", "localhost", "a.localhost:1"] {
        let response = admin.send(&request("/metrics", host)).await;
        assert!(response.starts_with("HTTP/1.1 200 "), "{host} {response}");
    }
    // Without Host: not a browser.
    let response = admin.send("GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.0 200 "), "{response}");
}

#[tokio::test]
async fn elsewhere_every_name_is_served() {
    let foreign = "GET /healthz HTTP/1.1\r\nHost: watch.example\r\n\r\n";
    let public = RunningEndpoint::on("0.0.0.0:0", |admin| admin).await;
    let address = (std::net::Ipv4Addr::LOCALHOST, public.address.port());
    let stream = TcpStream::connect(address).await.unwrap();
    let response = send(stream, foreign).await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let admin = Arc::new(AdminEndpoint::new(Vec::new(), CancellationToken::new()));
    let mut tasks = JoinSet::new();
    let acceptor = acceptor(Listener::Unix(listener));
    tasks.spawn(serve_admin(acceptor, admin, CancellationToken::new()));
    let stream = UnixStream::connect(&path).await.unwrap();
    let response = send(stream, foreign).await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}
