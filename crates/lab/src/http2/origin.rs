//! A conforming HTTP/2 origin under a script. A client that chooses HTTP/1.1 gets the same content over that.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use h2::server::{Builder, Connection};
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::{JoinError, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::stream::{Http2Stream, StreamAction};
use crate::origin::read_head;
use crate::running_listener::{FirstPanic, RunningListener};

/// A request, as the script sees it.
#[derive(Debug, Clone)]
pub struct Http2Request {
    /// The number of its connection, from 0.
    pub connection: usize,
    /// Its number among all requests, from 0.
    pub number: usize,
    /// How many requests of its connection are running, including this one.
    pub concurrent: usize,
    /// The path and the query.
    pub path: String,
    /// The `:authority` of the request, or its Host.
    pub authority: String,
    /// The header fields.
    pub headers: HashMap<String, String>,
    /// Whether it was sent over HTTP/2.
    pub is_http2: bool,
}

/// The settings that the origin sends.
#[derive(Debug, Clone, Copy)]
pub struct Http2Settings {
    /// The maximum number of concurrent requests on a connection.
    pub max_streams: Option<u32>,
    /// The flow-control window of a client, in bytes.
    pub initial_window: u32,
    /// The maximum length of a frame of a body, in bytes.
    pub max_frame_bytes: usize,
}

impl Default for Http2Settings {
    fn default() -> Self {
        Self {
            max_streams: None,
            initial_window: 65_535,
            max_frame_bytes: 16 * 1024,
        }
    }
}

/// The state that all connections share.
struct Http2OriginState {
    settings: Http2Settings,
    script: Box<dyn Fn(&Http2Request) -> StreamAction + Send + Sync>,
    connections: AtomicUsize,
    requests: Mutex<Vec<Http2Request>>,
    /// The reasons of clients' resets.
    reset_reasons: Arc<Mutex<Vec<u32>>>,
}

impl std::fmt::Debug for Http2OriginState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// A running origin. When dropped, it closes all its connections, and panics if its script did.
#[derive(Debug)]
pub struct Http2Origin {
    state: Arc<Http2OriginState>,
    listener: RunningListener,
}

impl Http2Origin {
    /// Starts an origin on a free port. `script` decides what is done with each request.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(
        tls: Arc<ServerConfig>,
        settings: Http2Settings,
        script: impl Fn(&Http2Request) -> StreamAction + Send + Sync + 'static,
    ) -> Self {
        let state = Arc::new(Http2OriginState {
            settings,
            script: Box::new(script),
            connections: AtomicUsize::new(0),
            requests: Mutex::default(),
            reset_reasons: Arc::default(),
        });
        let shared = Arc::clone(&state);
        let tls = TlsAcceptor::from(tls);
        let listening = RunningListener::start(
            Ipv4Addr::LOCALHOST.into(),
            FirstPanic::default(),
            move |stream| {
                let (state, tls) = (Arc::clone(&shared), tls.clone());
                async move {
                    // The peer sees how it ends; nobody here needs the error.
                    let _ = serve_connection(stream, &tls, &state).await;
                }
            },
        )
        .await;
        Self {
            state,
            listener: listening,
        }
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address())
    }

    /// All requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Http2Request> {
        lock(&self.state.requests).clone()
    }

    /// How many connections have completed their TLS handshake so far.
    #[must_use]
    pub fn connection_count(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// The reasons of clients' resets of requests that were left without a complete response.
    #[must_use]
    pub fn reset_reasons(&self) -> Vec<u32> {
        lock(&self.state.reset_reasons).clone()
    }
}

impl Http2OriginState {
    fn record_and_run_script(&self, mut request: Http2Request) -> StreamAction {
        let mut all = lock(&self.requests);
        request.number = all.len();
        all.push(request.clone());
        drop(all);
        (self.script)(&request)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve_connection(
    stream: TcpStream,
    tls: &TlsAcceptor,
    state: &Arc<Http2OriginState>,
) -> io::Result<()> {
    let stream = tls.accept(stream).await?;
    let number = state.connections.fetch_add(1, Ordering::Relaxed);
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return serve_http1(stream, state, number).await;
    }
    let mut builder = Builder::new();
    builder.initial_window_size(state.settings.initial_window);
    if let Some(streams) = state.settings.max_streams {
        builder.max_concurrent_streams(streams);
    }
    let connection = builder.handshake(stream).await.map_err(io::Error::other)?;
    serve_http2(connection, state, number).await
}

/// Serves requests until the client closes the connection, or the script says so.
async fn serve_http2(
    mut connection: Connection<TlsStream<TcpStream>, bytes::Bytes>,
    state: &Arc<Http2OriginState>,
    number: usize,
) -> io::Result<()> {
    let mut streams = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            Some(ended) = streams.join_next(), if !streams.is_empty() => {
                resume_panic(ended);
                continue;
            }
        };
        let Some(accepted) = accepted else {
            return Ok(());
        };
        let (request, respond) = accepted.map_err(io::Error::other)?;
        // Finished requests are not running any more.
        while let Some(ended) = streams.try_join_next() {
            resume_panic(ended);
        }
        let act = state.record_and_run_script(Http2Request {
            connection: number,
            number: 0,
            concurrent: streams.len() + 1,
            path: request
                .uri()
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            authority: request
                .uri()
                .authority()
                .map(ToString::to_string)
                .unwrap_or_default(),
            headers: header_map(request.headers()),
            is_http2: true,
        });
        match act {
            StreamAction::CloseConnection => return Ok(()),
            StreamAction::GoAway(_) => connection.graceful_shutdown(),
            StreamAction::AbortConnection(reason) => connection.abrupt_shutdown(reason.into()),
            _ => {}
        }
        let stream = Http2Stream {
            respond,
            max_frame_bytes: state.settings.max_frame_bytes,
            reset_reasons: Arc::clone(&state.reset_reasons),
            _request: request,
        };
        streams.spawn(stream.run(act));
    }
}

/// Passes a panic of a task on.
fn resume_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

fn header_map(headers: &http::HeaderMap) -> HashMap<String, String> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let pairs = headers.iter();
    pairs
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

/// Serves HTTP/1.1 to a client that chose it: bodies and statuses by the script, and none of the other actions.
async fn serve_http1(
    mut stream: TlsStream<TcpStream>,
    state: &Http2OriginState,
    number: usize,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut buffer).await? {
        let act = state.record_and_run_script(Http2Request {
            connection: number,
            number: 0,
            concurrent: 1,
            path: head.split(' ').nth(1).unwrap_or_default().to_owned(),
            authority: String::new(),
            headers: HashMap::new(),
            is_http2: false,
        });
        let (status, fields, body) = act.into_response();
        let fields: String = fields
            .iter()
            .map(|(name, value)| [name, ": ", value, "\r\n"].concat())
            .collect();
        let length = body.len();
        let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n{fields}\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&body).await?;
        stream.flush().await?;
    }
    Ok(())
}
