//! Plain HTTP on a TLS port: the client forgot the `s` of `https`, and gets a plain HTTP response
//! that says so.
//!
//! A TLS handshake begins with the byte 22 (RFC 8446 5.1), an HTTP request with a letter. The byte
//! is peeked at and left in the socket. That costs one system call for each handshake, which itself
//! takes some hundred times as long.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::connection::ServerTransport;

/// How long the rest of the request is read and dropped: closing the socket earlier would discard
/// the response.
const LINGER: Duration = Duration::from_secs(1);

const RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 55\r\n\
    connection: close\r\n\
    \r\n\
    this port speaks HTTPS: the URL must begin with https:\n";

/// Whether the peer speaks plain HTTP. Waits for its first byte.
///
/// # Errors
/// When the peer has closed or reset the connection.
pub(super) async fn speaks_http<S: ServerTransport>(stream: &mut S) -> io::Result<bool> {
    let first = poll_fn(|cx| stream.poll_peek(cx)).await?;
    Ok(first.is_some_and(|byte| byte.is_ascii_alphabetic()))
}

/// Sends the response and waits until the peer has closed its end.
pub(super) async fn send_https_hint<S: ServerTransport>(mut stream: S) -> io::Result<()> {
    let sent = async {
        stream.write_all(RESPONSE).await?;
        stream.shutdown().await?;
        let mut buffer = vec![0; 4 << 10];
        while stream.read(&mut buffer).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(LINGER, sent).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_length_is_right() {
        let text = std::str::from_utf8(RESPONSE).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
    }
}
