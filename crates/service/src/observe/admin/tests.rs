//! What the endpoint answers to whom, how long it waits, and how it ends.

use haul_lab::within;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use super::*;
use crate::observe::{MetricKind, MetricSource, MetricsText};

const LIMIT: Duration = Duration::from_secs(60);

/// A number to tell.
struct TestMetric(u64);

impl MetricSource for TestMetric {
    fn tell(&self, out: &mut MetricsText) {
        out.single("things_total", MetricKind::Counter, "Things.", self.0);
    }
}

/// A page of its owner's.
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

/// A page that cannot be made.
struct BrokenPage;

impl AdminPage for BrokenPage {
    fn path(&self) -> &'static str {
        "/broken"
    }

    fn content_type(&self) -> &'static str {
        "text/plain"
    }

    fn render(&self) -> Vec<u8> {
        panic!("a page that breaks, as this test wants it");
    }
}

/// An endpoint on a free port, and how to end it.
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

    async fn on(place: &str, with: impl FnOnce(AdminEndpoint) -> AdminEndpoint) -> Self {
        let listener = TcpListener::bind(place).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (draining, stop) = (CancellationToken::new(), CancellationToken::new());
        let admin = with(AdminEndpoint::new(
            vec![Arc::new(TestMetric(77))],
            draining.clone(),
        ));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve_admin(listener, Arc::new(admin), stop.clone()));
        Self {
            address,
            draining,
            stop,
            tasks,
        }
    }

    /// Sends these bytes and reads to the end.
    async fn ask(&self, sent: &str) -> String {
        let stream = TcpStream::connect(self.address).await.unwrap();
        ask(stream, sent).await
    }

    async fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .await
    }
}

/// Sends these bytes and reads to the end.
async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, sent: &str) -> String {
    stream.write_all(sent.as_bytes()).await.unwrap();
    read(&mut stream).await
}

/// All there is until the other side closes, in the end by a reset.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let _ = within(LIMIT, stream.read_to_end(&mut text)).await;
    String::from_utf8(text).unwrap()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn health_is_ok_until_the_server_drains() {
    let admin = RunningEndpoint::start().await;
    let answer = admin.get("/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(body(&answer), "ok\n");
    admin.draining.cancel();
    let answer = admin.get("/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!(body(&answer), "draining\n");
    // Its numbers are of interest all the more.
    assert!(admin.get("/metrics").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let admin = RunningEndpoint::start().await;
    let answer = admin.get("/metrics?a=1").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let kind = "\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n";
    assert!(answer.contains(kind), "{answer}");
    let line = "\nthings_total 77\n";
    assert!(body(&answer).contains(line), "{answer}");
}

#[tokio::test]
async fn head_is_answered_without_a_body_and_other_methods_not() {
    let admin = RunningEndpoint::start().await;
    let answer = admin
        .ask("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\ncontent-length: 3\r\n"), "{answer}");
    assert_eq!(body(&answer), "");
    for (method, path, code) in [
        ("POST", "/metrics", "405"),
        ("DELETE", "/healthz", "405"),
        ("GET", "/", "404"),
        ("POST", "/healthz/", "404"),
    ] {
        let answer = admin
            .ask(&format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            ))
            .await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
        assert_eq!(answer.contains("\r\nallow: GET, HEAD\r\n"), code == "405");
    }
}

#[tokio::test(start_paused = true)]
async fn peers_that_say_nothing_are_cut_off_and_make_room() {
    let admin = RunningEndpoint::start().await;
    let started = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..MOST {
        silent.push(TcpStream::connect(admin.address).await.unwrap());
    }
    // One more than there may be: it is answered when one of them was cut off.
    let answer = within(LIMIT, admin.get("/healthz")).await;
    assert_eq!(body(&answer), "ok\n");
    for stream in &mut silent {
        let _ = read(stream).await;
    }
    let waited = started.elapsed();
    assert!(HEAD_TIME <= waited && waited < WHOLE_TIME, "{waited:?}");
}

#[tokio::test]
async fn stopped_it_accepts_no_more_and_ends() {
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
async fn pages_are_answered_beside_its_own_and_are_told_of() {
    let admin = RunningEndpoint::start().await;
    assert_eq!(
        body(&admin.get("/tunnel").await),
        "there is /healthz and /metrics\n"
    );
    assert!(admin.get("/listing").await.starts_with("HTTP/1.1 404 "));
    let with = |admin: AdminEndpoint| admin.page(Arc::new(TestPage)).page(Arc::new(BrokenPage));
    let admin = RunningEndpoint::on("127.0.0.1:0", with).await;
    let answer = admin.get("/listing?a").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let kind = "\r\ncontent-type: application/json\r\n";
    assert!(answer.contains(kind), "{answer}");
    assert_eq!(body(&answer), "[1]\n");
    let answer = admin
        .ask("POST /listing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert_eq!(
        body(&admin.get("/").await),
        "there is /healthz, /metrics, /listing and /broken\n"
    );
    let answer = admin.get("/broken").await;
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    assert!(admin.get("/metrics").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn on_loopback_a_strangers_name_is_refused() {
    let admin = RunningEndpoint::on("127.0.0.1:0", |admin| admin.page(Arc::new(TestPage))).await;
    let asked = |path: &str, host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    for host in [
        "rebound.evil.example:9090",
        "evil",
        "127.0.0.1.evil.example",
    ] {
        for path in ["/healthz", "/metrics", "/listing", "/"] {
            let answer = admin.ask(&asked(path, host)).await;
            assert!(answer.starts_with("HTTP/1.1 403 "), "{host} {answer}");
            assert!(!answer.contains("77"), "{answer}");
        }
    }
    for host in ["127.0.0.1:9090", "[::1]:9090", "localhost", "a.localhost:1"] {
        let answer = admin.ask(&asked("/metrics", host)).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host} {answer}");
    }
    // No browser's.
    let answer = admin.ask("GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 200 "), "{answer}");
}

#[tokio::test]
async fn where_others_come_too_names_say_nothing() {
    let stranger = "GET /healthz HTTP/1.1\r\nHost: watch.example\r\n\r\n";
    let every = RunningEndpoint::on("0.0.0.0:0", |admin| admin).await;
    let place = (std::net::Ipv4Addr::LOCALHOST, every.address.port());
    let stream = TcpStream::connect(place).await.unwrap();
    let answer = ask(stream, stranger).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let admin = Arc::new(AdminEndpoint::new(Vec::new(), CancellationToken::new()));
    let mut tasks = JoinSet::new();
    tasks.spawn(serve_admin(listener, admin, CancellationToken::new()));
    let stream = UnixStream::connect(&path).await.unwrap();
    let answer = ask(stream, stranger).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
