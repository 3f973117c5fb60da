//! The admin endpoint: `/healthz` for load balancers, `/metrics` for Prometheus.
//!
//! It has a listener of its own, so that it answers when the server's own takes no more, and nobody outside sees it. It is
//! asked now and then by a few: a connection carries one request and has a few seconds for it, and there is a fixed number of them.

mod listener;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Source, render};
pub use listener::AdminListener;
use listener::Stream;

/// Connections at once. Others wait to be accepted.
const MOST: usize = 16;

/// For a request's head.
const HEAD_TIME: Duration = Duration::from_secs(5);

/// For a whole connection.
const WHOLE_TIME: Duration = Duration::from_secs(10);

/// For what runs when it is told to stop.
const GRACE: Duration = Duration::from_secs(1);

/// Before another try when the system has no descriptor for a connection.
const BREATH: Duration = Duration::from_millis(100);

const PLAIN: &str = "text/plain; charset=utf-8";
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the endpoint tells.
pub struct Admin {
    /// Whose numbers, in the order of their telling.
    sources: Vec<Arc<dyn Source>>,
    /// Cancelled when the server takes no new connections any more: it is not healthy then, though it still answers.
    draining: CancellationToken,
}

impl Admin {
    /// Tells of these sources, and whether `draining` was cancelled.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn Source>>, draining: CancellationToken) -> Self {
        Self { sources, draining }
    }

    async fn answer<B>(self: Arc<Self>, request: Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        if !matches!(path, "/healthz" | "/metrics") {
            return response(
                StatusCode::NOT_FOUND,
                PLAIN,
                "there is /healthz and /metrics\n",
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let code = StatusCode::METHOD_NOT_ALLOWED;
            let mut refused = response(code, PLAIN, "GET and HEAD only\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, allowed);
            return refused;
        }
        match path {
            "/healthz" if self.draining.is_cancelled() => {
                response(StatusCode::SERVICE_UNAVAILABLE, PLAIN, "draining\n")
            }
            "/healthz" => response(StatusCode::OK, PLAIN, "ok\n"),
            _ => self.metrics().await,
        }
    }

    /// Sources may read files, and this may be a reactor that serves requests.
    async fn metrics(self: Arc<Self>) -> Response<Full<Bytes>> {
        let text = tokio::task::spawn_blocking(move || render(&self.sources));
        match text.await {
            Ok(text) => response(StatusCode::OK, EXPOSITION, text),
            Err(_) => response(StatusCode::INTERNAL_SERVER_ERROR, PLAIN, "a source broke\n"),
        }
    }
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admin")
            .field("sources", &self.sources.len())
            .field("draining", &self.draining.is_cancelled())
            .finish()
    }
}

/// Answers on `listener` until `stop` is cancelled, and then what was asked already. Dropped, it cuts everything off.
pub async fn serve_admin(
    listener: impl Into<AdminListener>,
    admin: Arc<Admin>,
    stop: CancellationToken,
) {
    let listener = listener.into();
    let permits = Arc::new(Semaphore::new(MOST));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            // Those that have ended leave the set.
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &permits) => accepted,
        };
        let (stream, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the admin endpoint cannot accept");
                let _ = tokio::time::timeout(BREATH, stop.cancelled()).await;
                continue;
            }
        };
        let served = serve(stream, Arc::clone(&admin), stop.clone());
        connections.spawn(async move {
            // When its time is over it is cut off. Whoever asked sees that, and nobody else is concerned.
            let _ = tokio::time::timeout(WHOLE_TIME, served).await;
            drop(permit);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Accepts when there is a permit, and not before: what waits costs the kernel's backlog and nothing here.
async fn accept(
    listener: &AdminListener,
    permits: &Arc<Semaphore>,
) -> io::Result<(Stream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(permits).acquire_owned().await;
    let permit = permit.map_err(io::Error::other)?;
    let stream = listener.accept().await?;
    Ok((stream, permit))
}

/// Serves one request.
async fn serve(stream: Stream, admin: Arc<Admin>, stop: CancellationToken) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = Arc::clone(&admin).answer(request);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // Errors are of the peer's making: it went away, or does not speak HTTP.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(GRACE, connection).await;
}

fn response(code: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::Metrics;
    use haul_lab::within;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const LIMIT: Duration = Duration::from_secs(60);

    /// An endpoint on a free port, and how to end it.
    struct Running {
        address: std::net::SocketAddr,
        draining: CancellationToken,
        stop: CancellationToken,
        tasks: JoinSet<()>,
    }

    impl Running {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (draining, stop) = (CancellationToken::new(), CancellationToken::new());
            let metrics = Arc::new(Metrics::new());
            metrics.sent(77);
            let admin = Admin::new(vec![metrics], draining.clone());
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
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            read(&mut stream).await
        }

        async fn get(&self, path: &str) -> String {
            self.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
                .await
        }
    }

    /// All there is until the other side closes, in the end by a reset.
    async fn read(stream: &mut TcpStream) -> String {
        let mut text = Vec::new();
        let _ = within(LIMIT, stream.read_to_end(&mut text)).await;
        String::from_utf8(text).unwrap()
    }

    fn body(answer: &str) -> &str {
        answer.split_once("\r\n\r\n").unwrap().1
    }

    #[tokio::test]
    async fn health_is_ok_until_the_server_drains() {
        let admin = Running::start().await;
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
        let admin = Running::start().await;
        let answer = admin.get("/metrics?a=1").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let kind = "\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n";
        assert!(answer.contains(kind), "{answer}");
        let line = "\nhaul_http_response_body_bytes_total 77\n";
        assert!(body(&answer).contains(line), "{answer}");
    }

    #[tokio::test]
    async fn head_is_answered_without_a_body_and_other_methods_not() {
        let admin = Running::start().await;
        let answer = admin.ask("HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await;
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
                .ask(&format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
                .await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{answer}");
            assert_eq!(answer.contains("\r\nallow: GET, HEAD\r\n"), code == "405");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn peers_that_say_nothing_are_cut_off_and_make_room() {
        let admin = Running::start().await;
        let started = tokio::time::Instant::now();
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
        let mut admin = Running::start().await;
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
}
