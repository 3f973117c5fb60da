//! Writes a response as described by its rules, valid or not.
//!
//! Without a rate limit, the head and the first chunk go out in one write and chunks are large: benches use this origin
//! too.

use std::io;
use std::ops::Range;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client_stream::ClientStream;
use super::request_log::{LogPosition, RequestLog};
use super::{OriginResponse, OriginResponseFraming, RecordedRequest};
use crate::bandwidth_limit::{self, BandwidthLimit};
use crate::stream_cut::StreamCut;

/// The bytes of a body that are generated at once without a rate limit.
const CHUNK_BYTES: usize = 256 * 1024;

/// What happens to the connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterResponseAction {
    /// The next request is read.
    Keep,
    /// The connection is closed in order.
    Close,
    Reset,
}

/// Writes one response: what limits it, and where it is recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseWriter<'a> {
    /// The rate limits of the connection.
    pub(crate) limits: &'a [&'a BandwidthLimit],
    pub(crate) log: &'a RequestLog,
    /// The request's position in the log.
    pub(crate) position: LogPosition,
}

impl ResponseWriter<'_> {
    /// Writes the response to a request. Returns what happens to the connection.
    pub(crate) async fn write(
        self,
        stream: &mut impl ClientStream,
        request: &RecordedRequest,
        response: &OriginResponse,
    ) -> io::Result<AfterResponseAction> {
        if response.reset_connection {
            self.log.set_cut_off(self.position);
            return Ok(AfterResponseAction::Reset);
        }
        stream.write_all(&response.prelude).await?;
        if let Some(bytes) = &response.raw_bytes {
            stream.write_all(bytes).await?;
            return Ok(AfterResponseAction::Close);
        }
        if response.endless_head {
            return write_endless_head(stream).await;
        }
        let head = head_to_write(stream, response).await?;
        if request.method == "HEAD" || response.status == 304 {
            stream.write_all(&head).await?;
        } else {
            let response_limit = response.max_rate.map(BandwidthLimit::new);
            let limits: Vec<&BandwidthLimit> = response_limit
                .iter()
                .chain(self.limits.iter().copied())
                .collect();
            let limited = ResponseWriter {
                limits: &limits,
                ..self
            };
            if let Some(after) = limited.write_body(stream, response, head).await? {
                self.log.set_cut_off(self.position);
                return Ok(after);
            }
        }
        stream.flush().await?;
        Ok(after_complete_response(response))
    }

    /// Writes the rest of the head and the body. `None` if the body is complete, else how it was broken off.
    async fn write_body(
        self,
        stream: &mut impl ClientStream,
        response: &OriginResponse,
        mut buffer: Vec<u8>,
    ) -> io::Result<Option<AfterResponseAction>> {
        let burst = bandwidth_limit::smallest_burst(self.limits);
        let (length, chunk) = (response.body.length(), burst.unwrap_or(CHUNK_BYTES) as u64);
        let mut at = 0;
        loop {
            if let Some(after) = break_off_if_due(stream, response, at, &mut buffer).await? {
                return Ok(Some(after));
            }
            if at >= length {
                buffer.extend_from_slice(body_terminator(response));
                stream.write_all(&buffer).await?;
                return Ok(None);
            }
            if burst.is_some() {
                // The head, which is not limited, does not wait for the body, which is.
                flush_buffer(stream, &mut buffer).await?;
            }
            let end = next_stop(response, at).min(at + chunk).min(length);
            let bytes = usize::try_from(end - at).unwrap_or(CHUNK_BYTES);
            bandwidth_limit::wait_for_all(self.limits, bytes).await;
            append_framed(response, at..end, &mut buffer);
            // First: whoever has received the bytes finds them counted.
            self.log.add_bytes_sent(self.position, end - at);
            flush_buffer(stream, &mut buffer).await?;
            at = end;
        }
    }
}

/// Writes a head and the bytes after it, for a connection that goes on as a tunnel.
pub(crate) async fn write_tunnel_head(
    stream: &mut impl ClientStream,
    response: &OriginResponse,
) -> io::Result<()> {
    stream.write_all(&response.prelude).await?;
    let mut buffer = head_to_write(stream, response).await?;
    // In the same write: a client must not lose the bytes that come with the head.
    response.body.append(0..response.body.length(), &mut buffer);
    flush_buffer(stream, &mut buffer).await
}

/// After a complete response the connection can go on, unless the response has a false length or closes the connection.
fn after_complete_response(response: &OriginResponse) -> AfterResponseAction {
    let length = response.body.length();
    let length_is_right = response
        .false_length
        .is_none_or(|claimed| claimed == length);
    let closes = response.version == "HTTP/1.0"
        || response.framing == OriginResponseFraming::CloseDelimited
        || response
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if closes || !length_is_right {
        return AfterResponseAction::Close;
    }
    AfterResponseAction::Keep
}

async fn write_endless_head(stream: &mut impl ClientStream) -> io::Result<AfterResponseAction> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
    loop {
        let line = b"X-More: of the same, and then some more of it\r\n";
        stream.write_all(line).await?;
    }
}

/// The head, as far as it is not yet written: a trickled head goes out here.
async fn head_to_write(
    stream: &mut impl ClientStream,
    response: &OriginResponse,
) -> io::Result<Vec<u8>> {
    let head = response.head();
    let Some(size) = response.head_packet_bytes else {
        return Ok(head);
    };
    for packet in head.chunks(size.max(1)) {
        stream.write_all(packet).await?;
        stream.flush().await?;
        // Lets the peer read the packet before the next one is there.
        tokio::task::yield_now().await;
    }
    Ok(Vec::new())
}

/// Breaks the body off if the script says so at this offset.
async fn break_off_if_due(
    stream: &mut impl ClientStream,
    response: &OriginResponse,
    at: u64,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<AfterResponseAction>> {
    if response.stall_after.is_some_and(|stall| at >= stall) {
        flush_buffer(stream, buffer).await?;
        wait_until_closed(stream).await?;
        return Ok(Some(AfterResponseAction::Close));
    }
    let after = match response.cut {
        Some(StreamCut::Reset { after }) if at >= after => AfterResponseAction::Reset,
        Some(StreamCut::Close { after }) if at >= after => AfterResponseAction::Close,
        _ => return Ok(None),
    };
    flush_buffer(stream, buffer).await?;
    Ok(Some(after))
}

/// Waits until the peer has closed the connection.
async fn wait_until_closed(stream: &mut impl ClientStream) -> io::Result<()> {
    let mut sink = [0; 1024];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

/// The offset at which the script breaks the body off next.
fn next_stop(response: &OriginResponse, at: u64) -> u64 {
    let stops = [response.cut.map(StreamCut::offset), response.stall_after];
    let ahead = stops.into_iter().flatten().filter(|stop| *stop > at);
    ahead.min().unwrap_or(u64::MAX)
}

/// Appends a range of the body to the buffer, as a chunk if the body is chunked.
fn append_framed(response: &OriginResponse, range: Range<u64>, buffer: &mut Vec<u8>) {
    let is_chunked = response.framing == OriginResponseFraming::Chunked;
    if is_chunked {
        buffer.extend_from_slice(format!("{:x}\r\n", range.end - range.start).as_bytes());
    }
    response.body.append(range, buffer);
    if is_chunked {
        buffer.extend_from_slice(b"\r\n");
    }
}

fn body_terminator(response: &OriginResponse) -> &'static [u8] {
    match response.framing {
        OriginResponseFraming::Chunked => b"0\r\n\r\n",
        OriginResponseFraming::ContentLength
        | OriginResponseFraming::CloseDelimited
        | OriginResponseFraming::Undeclared => b"",
    }
}

async fn flush_buffer(stream: &mut impl ClientStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(buffer).await?;
    buffer.clear();
    stream.flush().await
}
