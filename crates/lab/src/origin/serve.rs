//! Connections: reads requests, applies rules, writes what came of them.

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{Asked, Framing, Reply, Resource, State, locked};
use crate::content::Content;
use crate::pace::Pace;

/// The longest request head that is read, in bytes.
const HEAD: usize = 64 * 1024;

/// How much of a body is made at once when nothing limits the rate, in bytes.
const PIECE: usize = 256 * 1024;

/// Accepts until it is dropped.
pub(super) async fn run(listener: TcpListener, tls: Option<Arc<ServerConfig>>, state: Arc<State>) {
    let mut connections = JoinSet::new();
    for number in 0.. {
        let stream = loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => break stream,
                    Err(_) => tokio::task::yield_now().await,
                },
                // A script that panicked has broken its test: the origin goes down with it, and the test sees it.
                Some(Err(error)) = connections.join_next(), if !connections.is_empty() => {
                    if error.is_panic() {
                        std::panic::resume_unwind(error.into_panic());
                    }
                }
            }
        };
        connections.spawn(connection(
            stream,
            tls.clone(),
            (Arc::clone(&state), number),
        ));
    }
}

/// Counts a connection while it is open.
struct Open(Arc<State>);

impl Open {
    fn new(state: &Arc<State>) -> Self {
        *locked(&state.open) += 1;
        Self(Arc::clone(state))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *locked(&self.0.open) -= 1;
    }
}

async fn connection(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    (state, number): (Arc<State>, usize),
) {
    let _open = Open::new(&state);
    let open = *locked(&state.open);
    // Small writes go out at once; where that cannot be set, a test is slower and no less right.
    let _ = stream.set_nodelay(true);
    // A second handle on the socket, for a reset beneath TLS. The peer sees what happens; nobody here is to be told.
    let _ = match tls {
        None => talk(stream, &state, (number, open), reset).await,
        Some(config) => match TlsAcceptor::from(config).accept(stream).await {
            Ok(stream) => {
                talk(stream, &state, (number, open), |stream| {
                    reset(stream.get_ref().0)
                })
                .await
            }
            Err(error) => Err(error),
        },
    };
}

/// Makes the close that follows a reset.
fn reset(stream: &TcpStream) {
    // Deprecated for blocking on drop; a zero never blocks.
    let _ = socket2::SockRef::from(stream).set_linger(Some(std::time::Duration::ZERO));
}

async fn talk<S>(
    mut stream: S,
    state: &State,
    (connection, open): (usize, usize),
    reset: impl Fn(&S) + Send + Sync,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + Sync,
{
    let pace = state.rate_per_connection.map(Pace::new);
    let mut buffer = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut buffer).await? {
        let Some(mut asked) = Asked::parse(&head) else {
            return Ok(());
        };
        asked.connection = connection;
        asked.open = open;
        let (reply, index) = answer(state, asked);
        tokio::time::sleep(state.latency + reply.delay).await;
        let keep = write(&mut stream, state, (&reply, index), pace.as_ref(), &reset).await?;
        if !keep {
            stream.shutdown().await?;
            return Ok(());
        }
    }
    Ok(())
}

async fn read_head(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = buffer.split_off(end + 4);
            let head = String::from_utf8_lossy(buffer).into_owned();
            *buffer = rest;
            return Ok(Some(head));
        }
        if buffer.len() > HEAD || stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Records a request and makes its answer.
fn answer(state: &State, mut asked: Asked) -> (Reply, usize) {
    let resource = locked(&state.resources).get(asked.path()).cloned();
    let mut log = locked(&state.asked);
    asked.number = log
        .iter()
        .filter(|known| known.path() == asked.path())
        .count();
    let reply = match resource {
        None => {
            let mut reply = Reply::whole(&Resource::bare(Content::fixed("no such resource\n")));
            reply.status = 404;
            reply
        }
        Some(resource) => {
            let mut reply = Reply::conforming(&asked, &resource);
            for (_, change) in resource.rules.iter().filter(|(when, _)| when.fits(&asked)) {
                change(&asked, &mut reply);
            }
            reply
        }
    };
    asked.status = reply.status;
    log.push(asked);
    (reply, log.len() - 1)
}

/// Writes an answer; tells whether the connection can go on.
async fn write<S>(
    stream: &mut S,
    state: &State,
    (reply, index): (&Reply, usize),
    pace: Option<&Pace>,
    reset: &(impl Fn(&S) + Send + Sync),
) -> io::Result<bool>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + Sync,
{
    if reply.refuse {
        reset(stream);
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    stream.write_all(&reply.prelude).await?;
    if let Some(raw) = &reply.raw {
        stream.write_all(raw).await?;
        return Ok(false);
    }
    if reply.endless {
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
        loop {
            stream
                .write_all(b"X-More: of the same, and then some more of it\r\n")
                .await?;
        }
    }
    stream.write_all(&reply.head()).await?;
    let own = reply.rate.map(Pace::new);
    let paces: Vec<&Pace> = [pace, own.as_ref(), state.total.as_ref()]
        .into_iter()
        .flatten()
        .collect();
    let piece = paces
        .iter()
        .map(|pace| pace.quantum())
        .min()
        .unwrap_or(PIECE) as u64;
    let length = reply.body.length();
    let mut at = 0;
    while at < length {
        let end = [Some(at + piece), reply.cut.map(|cut| cut.0), reply.stall]
            .into_iter()
            .flatten()
            .filter(|end| *end > at);
        let end = end.min().unwrap_or(length).min(length);
        let bytes = reply.body.slice(at..end);
        for pace in &paces {
            pace.wait(bytes.len()).await;
        }
        send(stream, &bytes, reply.framing).await?;
        at = end;
        if let Some(asked) = locked(&state.asked).get_mut(index) {
            asked.sent = at;
        }
        if reply.stall == Some(at) {
            // Until the peer gives up.
            return stream.read(&mut [0]).await.map(|_| false);
        }
        if let Some((_, hard)) = reply.cut.filter(|(after, _)| *after <= at) {
            stream.flush().await?;
            if hard {
                reset(stream);
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            return Ok(false);
        }
    }
    if reply.framing == Framing::Chunked {
        stream.write_all(b"0\r\n\r\n").await?;
    }
    stream.flush().await?;
    Ok(reply.framing != Framing::Close
        && reply.claimed_length.is_none_or(|claimed| claimed == length))
}

async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    framing: Framing,
) -> io::Result<()> {
    if framing == Framing::Chunked {
        stream
            .write_all(format!("{:x}\r\n", bytes.len()).as_bytes())
            .await?;
        stream.write_all(bytes).await?;
        return stream.write_all(b"\r\n").await;
    }
    stream.write_all(bytes).await
}
