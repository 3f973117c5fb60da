//! What is said to a peer whose request's head took too long (RFC 9110 15.5.9): hyper knows of no request yet, and answers nothing.
//!
//! Nothing else is under way then, so these bytes come after whole answers alone. Whose body takes too long is answered by the service.

use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use super::transport::ServerTransport;
use super::wire::CountedIo;

/// How long it may take to be sent: it fits into any buffer that is not full.
const LIMIT: Duration = Duration::from_millis(500);

/// The whole answer.
const ANSWER: &[u8] = b"HTTP/1.1 408 Request Timeout\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 47\r\n\
    connection: close\r\n\
    \r\n\
    the head of the request did not arrive in time\n";

/// Says so. The connection is to be closed after that.
///
/// # Errors
/// When its peer takes nothing, or is gone.
pub(super) async fn say<S: ServerTransport>(wire: &mut CountedIo<S>) -> io::Result<()> {
    tokio::time::timeout(LIMIT, wire.write_all(ANSWER)).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_length_is_right() {
        let text = std::str::from_utf8(ANSWER).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
    }
}
