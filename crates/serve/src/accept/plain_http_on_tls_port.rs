//! HTTP where TLS is spoken: somebody forgot an `s`, and is told so in the words that they understand.
//!
//! A handshake begins with the byte 22 (RFC 8446 5.1), a request with a letter. The byte is looked at and left where it is, at the price of one system
//! call for each handshake, which takes some hundred times as long.

use std::future::poll_fn;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::connection::ServerTransport;

/// How long what they send is read and dropped: a socket that is closed before takes the answer with it.
const LINGER: Duration = Duration::from_secs(1);

/// What they are told.
const RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 56\r\n\
    connection: close\r\n\
    \r\n\
    this port speaks HTTPS: the URL is to begin with https:\n";

/// Whether a peer begins with HTTP. Waits for its first byte.
///
/// # Errors
/// When it is gone.
pub(super) async fn speaks_http<S: ServerTransport>(stream: &mut S) -> io::Result<bool> {
    let first = poll_fn(|cx| stream.poll_peek(cx)).await?;
    Ok(first.is_some_and(|byte| byte.is_ascii_alphabetic()))
}

/// Tells it, and waits until that has arrived.
pub(super) async fn send_https_hint<S: ServerTransport>(mut stream: S) -> io::Result<()> {
    let told = async {
        stream.write_all(RESPONSE).await?;
        stream.shutdown().await?;
        let mut buffer = vec![0; 4 << 10];
        while stream.read(&mut buffer).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(LINGER, told).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_length_is_right() {
        let text = std::str::from_utf8(RESPONSE).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
    }
}
