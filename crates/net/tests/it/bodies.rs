//! Requests with a body, against servers that take it, refuse it early, or want to be asked first.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use haul_lab::within;
use haul_net::{
    BodySource, BodyStream, Client, ClientConfig, FetchRequest, FetchResponse, Kind, RequestBody,
};
use http::header::EXPECT;
use http::{HeaderValue, Method};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::LIMIT;

/// A body of so many chunks of 64 KiB. Counts how often it was opened and how many chunks were read.
#[derive(Debug, Default, Clone)]
struct ChunkedSource {
    chunks: u64,
    fails: bool,
    opened: Arc<AtomicUsize>,
    read: Arc<AtomicUsize>,
}

const CHUNK: u64 = 64 << 10;

impl BodySource for ChunkedSource {
    fn length(&self) -> Option<u64> {
        Some(self.chunks * CHUNK)
    }

    fn open(&self) -> io::Result<BodyStream> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Box::pin(ChunkedBody {
            source: self.clone(),
            remaining: self.chunks,
        }))
    }
}

struct ChunkedBody {
    source: ChunkedSource,
    remaining: u64,
}

impl Stream for ChunkedBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.source.fails && self.remaining == 1 {
            return Poll::Ready(Some(Err(io::Error::other("the disk failed"))));
        }
        let Some(remaining) = self.remaining.checked_sub(1) else {
            return Poll::Ready(None);
        };
        self.remaining = remaining;
        self.source.read.fetch_add(1, Ordering::Relaxed);
        let chunk = vec![b'x'; usize::try_from(CHUNK).unwrap()];
        Poll::Ready(Some(Ok(chunk.into())))
    }
}

async fn put(
    client: &Client,
    url: &str,
    body: RequestBody,
    expects: bool,
) -> Result<FetchResponse, haul_net::Error> {
    let url = url.parse().unwrap();
    let mut request = FetchRequest {
        method: Method::PUT,
        body,
        ..FetchRequest::get(&url)
    };
    if expects {
        let value = HeaderValue::from_static("100-continue");
        request.headers.insert(EXPECT, value);
    }
    within(LIMIT, Box::pin(client.fetch(request))).await
}

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", listener.local_addr().unwrap());
    (listener, url)
}

/// Reads a request's head.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

async fn read_body(stream: &mut TcpStream, length: u64) {
    let mut body = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    assert!(body.iter().all(|byte| *byte == b'x'));
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_body_is_sent_with_its_length() {
    let (listener, url) = listen().await;
    let source = ChunkedSource {
        chunks: 40,
        ..ChunkedSource::default()
    };
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("PUT /x HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains(&format!("content-length: {}\r\n", 40 * CHUNK)),
            "{head}"
        );
        read_body(&mut stream, 40 * CHUNK).await;
        stream.write_all(OK).await.unwrap();
        // The next request, on the same connection, has an empty body and says so.
        let head = read_head(&mut stream).await;
        assert!(head.contains("content-length: 0\r\n"), "{head}");
        stream.write_all(OK).await.unwrap();
    };
    let client = crate::client(ClientConfig::default());
    let requests = async {
        let body = RequestBody::Source(Arc::new(source.clone()));
        let response = put(&client, &url, body, false).await.unwrap();
        assert_eq!(crate::body(response).await.unwrap(), b"ok");
        let response = put(&client, &url, RequestBody::Empty, false).await.unwrap();
        assert!(response.timings.reused);
    };
    within(LIMIT, async { tokio::join!(server, requests) }).await;
    assert_eq!(source.read.load(Ordering::Relaxed), 40);
}

#[tokio::test]
async fn a_body_waits_until_the_peer_wants_it() {
    let (listener, url) = listen().await;
    let source = ChunkedSource {
        chunks: 2,
        ..ChunkedSource::default()
    };
    let read = Arc::clone(&source.read);
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(
            read_head(&mut stream)
                .await
                .contains("expect: 100-continue")
        );
        assert_eq!(read.load(Ordering::Relaxed), 0);
        let proceed = b"HTTP/1.1 100 Continue\r\n\r\n";
        stream.write_all(proceed).await.unwrap();
        read_body(&mut stream, 2 * CHUNK).await;
        stream.write_all(OK).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        let refused = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(refused).await.unwrap();
    };
    let client = crate::client(ClientConfig::default());
    let requests = async {
        let body = RequestBody::Source(Arc::new(source.clone()));
        let response = put(&client, &url, body.clone(), true).await.unwrap();
        assert_eq!(response.status, 200);
        drop(response);
        let response = put(&client, &url, body, true).await.unwrap();
        assert_eq!(response.status, 403);
    };
    within(LIMIT, async { tokio::join!(server, requests) }).await;
    assert_eq!(
        source.read.load(Ordering::Relaxed),
        2,
        "a refused body is not read"
    );
}

#[tokio::test]
async fn a_refusal_in_the_middle_of_a_body_is_read() {
    let (listener, url) = listen().await;
    let source = ChunkedSource {
        chunks: 1000,
        ..ChunkedSource::default()
    };
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        let refused =
            b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: 3\r\n\r\nno\n";
        stream.write_all(refused).await.unwrap();
        // Unread bytes make this a reset.
        drop(stream);
    };
    let client = crate::client(ClientConfig::default());
    let requests = async {
        let body = RequestBody::Source(Arc::new(source.clone()));
        put(&client, &url, body, false).await.unwrap()
    };
    let ((), response) = within(LIMIT, async { tokio::join!(server, requests) }).await;
    assert_eq!(response.status, 403);
}

/// Some servers say that they will store a file before they have it.
#[tokio::test]
async fn a_success_before_the_end_of_a_body_is_one_when_all_was_sent() {
    let (listener, url) = listen().await;
    let source = ChunkedSource {
        chunks: 100,
        ..ChunkedSource::default()
    };
    let client = crate::client(ClientConfig::default());
    for takes_all in [true, false] {
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_head(&mut stream).await;
            let stored = b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(stored).await.unwrap();
            if takes_all {
                read_body(&mut stream, 100 * CHUNK).await;
            }
        };
        let requests = async {
            let body = RequestBody::Source(Arc::new(source.clone()));
            put(&client, &url, body, false).await
        };
        let ((), response) = within(LIMIT, async { tokio::join!(server, requests) }).await;
        if takes_all {
            assert_eq!(response.unwrap().status, 201)
        } else {
            assert_eq!(*response.unwrap_err().kind(), Kind::Closed)
        }
    }
}

#[tokio::test]
async fn interim_responses_without_end_are_an_error() {
    let (listener, url) = listen().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let hints = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(100);
        while stream.write_all(&hints).await.is_ok() {}
    };
    let client = crate::client(ClientConfig::default());
    let requests = put(&client, &url, RequestBody::Empty, false);
    let ((), response) = within(LIMIT, async { tokio::join!(server, requests) }).await;
    assert_eq!(*response.unwrap_err().kind(), Kind::Protocol);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_no_failure_of_the_peer() {
    let (listener, url) = listen().await;
    let source = ChunkedSource {
        chunks: 3,
        fails: true,
        ..ChunkedSource::default()
    };
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    };
    let client = crate::client(ClientConfig::default());
    let requests = async {
        let body = RequestBody::Source(Arc::new(source.clone()));
        put(&client, &url, body, false).await.unwrap_err()
    };
    let ((), error) = within(LIMIT, async { tokio::join!(server, requests) }).await;
    assert_eq!(*error.kind(), Kind::RequestBody);
    assert!(!error.is_transient());
}

/// An idempotent request that meets a connection which the server has closed goes over a new one; a POST does not, unless nothing
/// of it was sent.
#[tokio::test]
async fn a_put_on_a_closed_idle_connection_is_sent_again() {
    let (listener, url) = listen().await;
    let source = ChunkedSource {
        chunks: 1,
        ..ChunkedSource::default()
    };
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        stream.write_all(OK).await.unwrap();
        // The next request is read and answered by closing.
        read_head(&mut stream).await;
        drop(stream);
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        read_body(&mut stream, CHUNK).await;
        stream.write_all(OK).await.unwrap();
    };
    let client = crate::client(ClientConfig::default());
    let requests = async {
        let response = put(&client, &url, RequestBody::Empty, false).await.unwrap();
        crate::body(response).await.unwrap();
        let body = RequestBody::Source(Arc::new(source.clone()));
        put(&client, &url, body, false).await.unwrap()
    };
    let ((), response) = within(LIMIT, async { tokio::join!(server, requests) }).await;
    assert_eq!(response.status, 200);
    assert!(source.opened.load(Ordering::Relaxed) >= 2);
}
