//! Row A47: a response that takes long has a limit of its own, apart from that of a silent body.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use haul_lab::within;
use haul_net::{BodySource, BodyStream, ClientConfig, FetchRequest, Kind, RequestBody};
use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::LIMIT;

const STALL: Duration = Duration::from_secs(1);
const RESPONSE: Duration = Duration::from_secs(8);

const BODY: &[u8] = &[b'x'; 1 << 20];

/// A body of [`BODY`].
#[derive(Debug)]
struct Source;

impl BodySource for Source {
    fn length(&self) -> Option<u64> {
        Some(BODY.len() as u64)
    }

    fn open(&self) -> io::Result<BodyStream> {
        let pieces = BODY.chunks(64 << 10).map(|piece| Ok(Bytes::from(piece)));
        Ok(Box::pin(stream::iter(pieces)))
    }
}

/// How far a server gets before it is silent.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SilentAfter {
    HalfOfRequest,
    Request,
    HalfOfHead,
    Head,
}

/// Lets time pass for a client that waits, in steps: it notices what has arrived when one of its timers wakes it.
async fn advance(time: Duration) {
    const STEP: Duration = Duration::from_millis(500);
    let _paused = PausedTime::begin();
    for _ in 0..time.as_millis() / STEP.as_millis() {
        tokio::time::advance(STEP).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }
}

/// Time stands still until this is dropped, also by a client that ends while it does.
struct PausedTime;

impl PausedTime {
    fn begin() -> Self {
        tokio::time::pause();
        Self
    }
}

impl Drop for PausedTime {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

async fn read_request(stream: &mut TcpStream, is_upload: bool, silent: SilentAfter) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let length = match (is_upload, silent) {
        (false, _) => 0,
        (true, SilentAfter::HalfOfRequest) => BODY.len() / 2,
        (true, _) => BODY.len(),
    };
    stream.read_exact(&mut vec![0; length]).await.unwrap();
}

/// The result of a request to a server that is silent for a time.
async fn exchange(is_upload: bool, silent: SilentAfter, time: Duration) -> Result<Vec<u8>, Kind> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    let client = crate::client(ClientConfig {
        stall_timeout: STALL,
        response_timeout: RESPONSE,
        ..ClientConfig::default()
    });
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        // So small that half of the body stays where the client sees it.
        socket2::SockRef::from(&stream)
            .set_recv_buffer_size(64 << 10)
            .unwrap();
        read_request(&mut stream, is_upload, silent).await;
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let sent = match silent {
            SilentAfter::HalfOfRequest | SilentAfter::Request => 0,
            SilentAfter::HalfOfHead => 20,
            SilentAfter::Head => response.len() - 2,
        };
        stream.write_all(&response[..sent]).await.unwrap();
        advance(time).await;
        if silent == SilentAfter::HalfOfRequest {
            let _ = stream.read_exact(&mut vec![0; BODY.len() / 2]).await;
        }
        let _ = stream.write_all(&response[sent..]).await;
        // Whether the client waits is decided by now.
        tokio::time::sleep(LIMIT).await;
    };
    let request = async {
        let url = url.parse().unwrap();
        let fetch = if is_upload {
            FetchRequest {
                method: Method::PUT,
                body: RequestBody::Source(Arc::new(Source)),
                ..FetchRequest::get(&url)
            }
        } else {
            FetchRequest::get(&url)
        };
        let response = Box::pin(client.fetch(fetch))
            .await
            .map_err(|error| error.kind().clone())?;
        crate::body(response)
            .await
            .map_err(|error| error.kind().clone())
    };
    tokio::select! {
        result = within(LIMIT, request) => result,
        () = server => unreachable!("the client goes on after its limit"),
    }
}

#[tokio::test]
async fn a47_a_response_may_take_longer_than_a_body_may_be_silent() {
    for is_upload in [false, true] {
        for silent in [SilentAfter::Request, SilentAfter::HalfOfHead] {
            let body = exchange(is_upload, silent, STALL * 4).await;
            assert_eq!(body.as_deref(), Ok(&b"ok"[..]), "{is_upload} {silent:?}");
            let late = exchange(is_upload, silent, RESPONSE + STALL).await;
            assert_eq!(late, Err(Kind::ResponseTimeout), "{is_upload} {silent:?}");
        }
    }
}

#[tokio::test]
async fn a47_a_body_may_not_be_silent_as_long_as_a_response_may_take() {
    for (is_upload, silent) in [
        (true, SilentAfter::HalfOfRequest),
        (true, SilentAfter::Head),
        (false, SilentAfter::Head),
    ] {
        let result = exchange(is_upload, silent, STALL * 2).await;
        assert_eq!(result, Err(Kind::Stall), "{is_upload} {silent:?}");
    }
}
