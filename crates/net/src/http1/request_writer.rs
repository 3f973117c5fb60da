//! Sends a request: its head, and its body as the peer takes it.
//!
//! A server that refuses an upload may send its response and close while the body is still being sent. The write then fails although
//! the response is there to be read. So such a failure ends the sending alone, and the reader finds the response, or the error.

use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use http::Request;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::request::Parts;
use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep};

use super::error::Http1Error;
use crate::request_body::OutgoingBody;

/// How long a request that says `Expect: 100-continue` waits for the response before it sends its body all the same
/// (RFC 9110 10.1.1): some servers never say 100. curl waits as long.
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// How many pieces of a body are sent before the response is looked at: a source that is always ready must not keep a refusal from
/// being read.
const MAX_PIECES_AT_ONCE: u32 = 16;

/// Sends one request after the other.
#[derive(Debug, Default)]
pub(super) struct RequestWriter {
    /// The head, and later the lines around chunks.
    lines: Vec<u8>,
    /// Bytes of `lines` that were written.
    written: usize,
    /// A piece of the body, which follows.
    piece: Bytes,
    body: OutgoingBody,
    remaining: RemainingBody,
    /// Bytes of the body that were read from its source.
    body_bytes: u64,
    /// Runs while the body waits for 100 Continue.
    continue_timer: Option<Pin<Box<Sleep>>>,
    /// Whether nothing of the request was written.
    is_unsent: bool,
    /// Whether something was written that the stream may hold back until it is flushed, as TLS does.
    needs_flush: bool,
    /// Whether no more is sent: the peer takes no more bytes, or the body cannot be read.
    is_stopped: bool,
}

/// What is still to come from the source of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum RemainingBody {
    #[default]
    Ended,
    /// So many bytes.
    Length(u64),
    /// Chunks; the first one has no line end before it.
    Chunked { is_first: bool },
}

impl RequestWriter {
    /// Prepares a request. Nothing is sent yet.
    pub(super) fn start(&mut self, request: Request<OutgoingBody>) {
        let (head, mut body) = request.into_parts();
        self.remaining = match body.length() {
            Some(0) => RemainingBody::Ended,
            Some(length) => RemainingBody::Length(length),
            None => RemainingBody::Chunked { is_first: true },
        };
        self.lines.clear();
        self.written = 0;
        write_head(&mut self.lines, &head, self.remaining);
        // A body in memory is small enough to be sent in vain.
        let waits =
            matches!(body, OutgoingBody::Stream { .. }) && head.headers.contains_key(EXPECT);
        self.continue_timer = waits.then(|| Box::pin(sleep(CONTINUE_TIMEOUT)));
        // Such a body goes out with its head.
        self.piece = match &mut body {
            OutgoingBody::Bytes(bytes) => std::mem::take(bytes),
            OutgoingBody::Empty | OutgoingBody::Stream { .. } => Bytes::new(),
        };
        if !self.piece.is_empty() {
            self.remaining = RemainingBody::Ended;
        }
        self.body_bytes = self.piece.len() as u64;
        self.body = body;
        self.is_unsent = true;
    }

    /// The peer sent 100 Continue.
    pub(super) fn allow_body(&mut self) {
        self.continue_timer = None;
    }

    /// The peer refused the request. A body that waits for 100 Continue is not sent, however long the rest of the response takes.
    pub(super) fn withhold_waiting_body(&mut self) {
        self.is_stopped |= self.continue_timer.is_some();
    }

    /// Whether the whole request was sent.
    pub(super) fn is_done(&self) -> bool {
        !self.is_stopped
            && self.remaining == RemainingBody::Ended
            && !self.has_unwritten()
            && !self.needs_flush
    }

    /// Whether nothing of the request was written.
    pub(super) fn is_unsent(&self) -> bool {
        self.is_unsent
    }

    /// Bytes of the body that were read from its source.
    pub(super) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Sends as much as the peer takes. Ready when it was all, or when the peer takes no more.
    ///
    /// # Errors
    /// The source of the body has failed, or the stream in another way than by being closed. Nothing more is sent then, so that the
    /// peer cannot take what it has for the whole.
    pub(super) fn poll_send(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Http1Error>> {
        let mut pieces = 0;
        while !self.is_stopped {
            match std::task::ready!(self.poll_flush(stream, cx)) {
                Ok(()) if self.remaining == RemainingBody::Ended => break,
                Ok(()) => {}
                Err(error) => {
                    self.is_stopped = true;
                    if is_disconnect(&error) {
                        break;
                    } else {
                        return Poll::Ready(Err(Http1Error::Stream(error)));
                    }
                }
            }
            if pieces == MAX_PIECES_AT_ONCE {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            pieces += 1;
            if let Some(timer) = &mut self.continue_timer {
                std::task::ready!(timer.as_mut().poll(cx));
                self.continue_timer = None;
            }
            let piece = std::task::ready!(self.body.poll_piece(cx));
            let added = piece.transpose().and_then(|piece| self.take_piece(piece));
            if let Err(error) = added {
                self.is_stopped = true;
                return Poll::Ready(Err(Http1Error::RequestBody(error)));
            }
        }
        Poll::Ready(Ok(()))
    }

    fn has_unwritten(&self) -> bool {
        self.written < self.lines.len() || !self.piece.is_empty()
    }

    /// Writes what is here, and makes the stream send it.
    fn poll_flush(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(stream);
        while self.has_unwritten() {
            let lines = &self.lines[self.written..];
            let count = match (lines.is_empty(), self.piece.is_empty()) {
                (true, _) => stream.as_mut().poll_write(cx, &self.piece),
                (false, true) => stream.as_mut().poll_write(cx, lines),
                (false, false) => {
                    let both = [IoSlice::new(lines), IoSlice::new(&self.piece)];
                    stream.as_mut().poll_write_vectored(cx, &both)
                }
            };
            let count = std::task::ready!(count)?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            (self.is_unsent, self.needs_flush) = (false, true);
            let of_lines = count.min(lines.len());
            self.written += of_lines;
            self.piece.advance(count - of_lines);
        }
        if self.needs_flush {
            std::task::ready!(stream.poll_flush(cx))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the next piece of the body; `None` is its end.
    fn take_piece(&mut self, piece: Option<Bytes>) -> io::Result<()> {
        self.lines.clear();
        self.written = 0;
        let length = piece.as_ref().map_or(0, Bytes::len) as u64;
        match &mut self.remaining {
            RemainingBody::Ended => {}
            RemainingBody::Length(_) if piece.is_none() => {
                return Err(io::Error::other("the body ended before its length"));
            }
            RemainingBody::Length(left) => match left.checked_sub(length) {
                Some(0) => self.remaining = RemainingBody::Ended,
                Some(rest) => *left = rest,
                None => return Err(io::Error::other("the body is longer than its length")),
            },
            // An empty chunk would end the body.
            RemainingBody::Chunked { .. } if piece.is_some() && length == 0 => {}
            RemainingBody::Chunked { is_first } => {
                let line_end = if std::mem::take(is_first) { "" } else { "\r\n" };
                write!(self.lines, "{line_end}{length:x}\r\n")?;
                if piece.is_none() {
                    self.lines.extend_from_slice(b"\r\n");
                    self.remaining = RemainingBody::Ended;
                }
            }
        }
        self.body_bytes += length;
        self.piece = piece.unwrap_or_default();
        Ok(())
    }
}

/// Whether the peer has closed the connection.
pub(super) fn is_disconnect(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

fn write_head(buffer: &mut Vec<u8>, head: &Parts, remaining: RemainingBody) {
    let mut push = |bytes: &[u8]| buffer.extend_from_slice(bytes);
    push(head.method.as_str().as_bytes());
    push(b" ");
    match (head.uri.scheme(), head.uri.path_and_query()) {
        (None, Some(target)) => push(target.as_str().as_bytes()),
        // To a proxy.
        _ => push(head.uri.to_string().as_bytes()),
    }
    push(b" HTTP/1.1\r\n");
    for (name, value) in &head.headers {
        // The body's own length counts.
        if remaining != RemainingBody::Ended && *name == CONTENT_LENGTH {
            continue;
        }
        push(name.as_str().as_bytes());
        push(b": ");
        push(value.as_bytes());
        push(b"\r\n");
    }
    match remaining {
        RemainingBody::Ended => {}
        RemainingBody::Length(length) => push(format!("content-length: {length}\r\n").as_bytes()),
        RemainingBody::Chunked { .. } => push(b"transfer-encoding: chunked\r\n"),
    }
    push(b"\r\n");
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use futures_util::stream;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn body(length: Option<u64>, pieces: &[&'static str]) -> OutgoingBody {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::from(*piece))).collect();
        OutgoingBody::Stream {
            body: Box::pin(stream::iter(pieces)),
            length,
        }
    }

    /// What is sent to a peer that takes a few bytes at a time.
    async fn sent(body: OutgoingBody) -> Result<String, Http1Error> {
        let mut request = Request::put("/a?b")
            .header("content-length", "77")
            .body(body)
            .unwrap();
        request.headers_mut().append("a", "1".parse().unwrap());
        request.headers_mut().append("a", "2".parse().unwrap());
        let (mut here, mut there) = tokio::io::duplex(3);
        let mut writer = RequestWriter::default();
        writer.start(request);
        assert!(writer.is_unsent() && !writer.is_done());
        let mut received = Vec::new();
        let sending = async {
            let sent = std::future::poll_fn(|cx| writer.poll_send(&mut here, cx)).await;
            drop(here);
            sent
        };
        let (sent, _) = tokio::join!(sending, there.read_to_end(&mut received));
        sent?;
        assert!(writer.is_done() && !writer.is_unsent());
        Ok(String::from_utf8(received).unwrap().replace("\r\n", "|"))
    }

    #[tokio::test]
    async fn a_body_is_sent_with_its_length_or_in_chunks() {
        let head = |field: &str| format!("PUT /a?b HTTP/1.1|a: 1|a: 2|{field}||");
        for (body, expected) in [
            (
                OutgoingBody::Bytes("hello".into()),
                head("content-length: 5") + "hello",
            ),
            (
                body(Some(5), &["hel", "", "lo"]),
                head("content-length: 5") + "hello",
            ),
            (
                body(None, &["0123456789abcdef", "", "x"]),
                head("transfer-encoding: chunked") + "10|0123456789abcdef|1|x|0||",
            ),
            (body(None, &[]), head("transfer-encoding: chunked") + "0||"),
        ] {
            assert_eq!(sent(body).await.unwrap(), expected);
        }
        let empty = sent(body(Some(0), &["never read"])).await.unwrap();
        assert_eq!(empty, "PUT /a?b HTTP/1.1|content-length: 77|a: 1|a: 2||");
    }

    #[tokio::test]
    async fn a_body_with_another_length_than_it_said_is_an_error() {
        for pieces in [&["hel"][..], &["hel", "lo!"], &[]] {
            let sent = sent(body(Some(5), pieces)).await;
            assert!(
                matches!(sent, Err(Http1Error::RequestBody(_))),
                "{pieces:?}"
            );
        }
    }

    /// A stream that sends nothing before it is flushed, and takes one flush to get ready for another.
    #[derive(Default)]
    struct HoldingStream {
        held: Vec<u8>,
        sent: Vec<u8>,
        is_ready: bool,
    }

    impl AsyncWrite for HoldingStream {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.get_mut().held.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let this = self.get_mut();
            if !std::mem::replace(&mut this.is_ready, true) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            this.is_ready = false;
            this.sent.append(&mut this.held);
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_is_not_sent_after_a_refusal() {
        for (is_refused, expected) in [(true, "\r\n\r\n"), (false, "\r\n\r\nab")] {
            let mut stream = HoldingStream::default();
            let mut writer = RequestWriter::default();
            let request = Request::put("/").header(EXPECT, "100-continue");
            writer.start(request.body(body(Some(2), &["a", "b"])).unwrap());
            let mut cx = Context::from_waker(Waker::noop());
            while writer.needs_flush || writer.is_unsent() {
                assert!(writer.poll_send(&mut stream, &mut cx).is_pending());
            }
            if is_refused {
                writer.withhold_waiting_body();
            }
            let sent = std::future::poll_fn(|cx| writer.poll_send(&mut stream, cx)).await;
            assert!(sent.is_ok() && writer.is_done() != is_refused);
            assert!(stream.sent.ends_with(expected.as_bytes()), "{is_refused}");
        }
    }

    #[tokio::test]
    async fn a_request_is_done_when_the_stream_holds_nothing_back() {
        let mut stream = HoldingStream::default();
        let mut writer = RequestWriter::default();
        writer.start(Request::put("/").body(body(Some(2), &["a", "b"])).unwrap());
        std::future::poll_fn(|cx| {
            let sent = writer.poll_send(&mut stream, cx);
            assert_eq!(sent.is_ready(), writer.is_done());
            sent
        })
        .await
        .unwrap();
        assert!(stream.sent.ends_with(b"\r\n\r\nab"));
    }

    #[tokio::test]
    async fn a_body_that_could_not_be_read_is_never_ended() {
        let mut stream = HoldingStream::default();
        let pieces = vec![Ok(Bytes::from("a")), Err(io::Error::other("broken"))];
        let broken = OutgoingBody::Stream {
            body: Box::pin(stream::iter(pieces)),
            length: None,
        };
        let mut writer = RequestWriter::default();
        writer.start(Request::put("/").body(broken).unwrap());
        let sent = std::future::poll_fn(|cx| writer.poll_send(&mut stream, cx)).await;
        assert!(matches!(sent, Err(Http1Error::RequestBody(_))));
        for _ in 0..3 {
            let again = std::future::poll_fn(|cx| writer.poll_send(&mut stream, cx)).await;
            assert!(again.is_ok() && !writer.is_done());
        }
        assert!(stream.sent.ends_with(b"\r\n\r\n1\r\na"));
    }

    #[tokio::test]
    async fn a_source_that_is_always_ready_lets_others_run() {
        let mut stream = tokio::io::sink();
        let mut writer = RequestWriter::default();
        let pieces = vec!["a"; 100];
        writer.start(Request::put("/").body(body(None, &pieces)).unwrap());
        let mut polls = 0;
        std::future::poll_fn(|cx| {
            polls += 1;
            writer.poll_send(&mut stream, cx)
        })
        .await
        .unwrap();
        assert_eq!(polls, 101_u32.div_ceil(MAX_PIECES_AT_ONCE));
    }

    #[tokio::test]
    async fn a_peer_that_has_closed_ends_the_sending_and_nothing_else() {
        let mut writer = RequestWriter::default();
        let mut cx = Context::from_waker(Waker::noop());
        let (mut here, there) = tokio::io::duplex(300);
        writer.start(Request::put("/").body(body(None, &["a", "b"])).unwrap());
        drop(there);
        assert!(matches!(
            writer.poll_send(&mut here, &mut cx),
            Poll::Ready(Ok(()))
        ));
        assert!(writer.is_unsent() && !writer.is_done());
    }
}
