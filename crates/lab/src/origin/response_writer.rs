//! Puts a reply on the wire, as it says, right or wrong.
//!
//! Where nothing limits the rate, head and first piece go out in one write and pieces are large: this serves benches too.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::request_log::{LogPosition, RequestLog};
use super::{ClientStream, OriginResponse, OriginResponseFraming, RecordedRequest};
use crate::bandwidth_limit::{self, BandwidthLimit};

/// How much of a body is made at once when nothing limits the rate, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// What is to become of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterResponse {
    /// The next request is read.
    Keep,
    /// An orderly end.
    Close,
    /// A reset.
    Reset,
}

/// What limits an answer, and where it is recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResponseWriter<'a> {
    /// The rates that the connection is under.
    pub(crate) limits: &'a [&'a BandwidthLimit],
    /// The record.
    pub(crate) log: &'a RequestLog,
    /// The request's place in it.
    pub(crate) position: LogPosition,
}

/// Writes the answer to a request, and tells what is to become of the connection.
pub(crate) async fn write_response(
    stream: &mut impl ClientStream,
    (asked, reply): (&RecordedRequest, &OriginResponse),
    outlet: ResponseWriter<'_>,
) -> io::Result<AfterResponse> {
    if reply.reset_connection {
        outlet.log.set_cut_off(outlet.position);
        return Ok(AfterResponse::Reset);
    }
    stream.write_all(&reply.prelude).await?;
    if let Some(raw) = &reply.raw_bytes {
        stream.write_all(raw).await?;
        return Ok(AfterResponse::Close);
    }
    if reply.endless_head {
        return write_endless_head(stream).await;
    }
    let head = head_to_write(stream, reply).await?;
    if asked.method == "HEAD" || reply.status == 304 {
        stream.write_all(&head).await?;
    } else {
        let own = reply.max_rate.map(BandwidthLimit::new);
        let paces: Vec<&BandwidthLimit> = own.iter().chain(outlet.limits.iter().copied()).collect();
        let outlet = ResponseWriter {
            limits: &paces,
            ..outlet
        };
        if let Some(after) = write_body(stream, (reply, head), outlet).await? {
            outlet.log.set_cut_off(outlet.position);
            return Ok(after);
        }
    }
    stream.flush().await?;
    Ok(after_complete_response(reply))
}

/// Writes a head and what is behind it, for a connection that goes on as something else.
pub(crate) async fn write_tunnel_head(
    stream: &mut impl ClientStream,
    reply: &OriginResponse,
) -> io::Result<()> {
    stream.write_all(&reply.prelude).await?;
    let mut buffer = head_to_write(stream, reply).await?;
    // In the same write: a client must not lose what comes with the head.
    reply.body.append(0..reply.body.length(), &mut buffer);
    flush_buffer(stream, &mut buffer).await
}

/// A complete answer leaves a connection that can go on, unless it lied about its length or said that it would not.
fn after_complete_response(reply: &OriginResponse) -> AfterResponse {
    let length = reply.body.length();
    let told = reply.false_length.is_none_or(|claimed| claimed == length);
    let closing = reply.version == "HTTP/1.0"
        || reply.framing == OriginResponseFraming::CloseDelimited
        || reply
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
    if closing || !told {
        return AfterResponse::Close;
    }
    AfterResponse::Keep
}

async fn write_endless_head(stream: &mut impl ClientStream) -> io::Result<AfterResponse> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
    loop {
        let line = b"X-More: of the same, and then some more of it\r\n";
        stream.write_all(line).await?;
    }
}

/// The head, as far as it is not yet written.
async fn head_to_write(
    stream: &mut impl ClientStream,
    reply: &OriginResponse,
) -> io::Result<Vec<u8>> {
    let head = reply.head();
    let Some(size) = reply.head_packet_bytes else {
        return Ok(head);
    };
    for piece in head.chunks(size.max(1)) {
        stream.write_all(piece).await?;
        stream.flush().await?;
        // Lets the peer read it before the next one is there.
        tokio::task::yield_now().await;
    }
    Ok(Vec::new())
}

/// Writes the rest of the head and the body; tells how it was broken off, if it was.
async fn write_body(
    stream: &mut impl ClientStream,
    (reply, mut buffer): (&OriginResponse, Vec<u8>),
    outlet: ResponseWriter<'_>,
) -> io::Result<Option<AfterResponse>> {
    let quantum = bandwidth_limit::smallest_burst(outlet.limits);
    let (length, piece) = (reply.body.length(), quantum.unwrap_or(CHUNK_BYTES) as u64);
    let mut at = 0;
    loop {
        let broken = break_off_if_due(stream, (reply, at), &mut buffer).await?;
        if broken.is_some() || at >= length {
            break if broken.is_none() {
                buffer.extend_from_slice(body_terminator(reply));
                stream.write_all(&buffer).await.map(|()| None)
            } else {
                Ok(broken)
            };
        }
        if quantum.is_some() {
            // What is not limited does not wait for what is.
            flush_buffer(stream, &mut buffer).await?;
        }
        let end = next_stop(reply, at).min(at + piece).min(length);
        bandwidth_limit::wait_for_all(
            outlet.limits,
            usize::try_from(end - at).unwrap_or(CHUNK_BYTES),
        )
        .await;
        append_framed(reply, at..end, &mut buffer);
        flush_buffer(stream, &mut buffer).await?;
        outlet.log.add_bytes_sent(outlet.position, end - at);
        at = end;
    }
}

/// Breaks off at the place where the script says so.
async fn break_off_if_due(
    stream: &mut impl ClientStream,
    (reply, at): (&OriginResponse, u64),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<AfterResponse>> {
    if reply.stall_after.is_some_and(|stall| at >= stall) {
        flush_buffer(stream, buffer).await?;
        wait_until_closed(stream).await?;
        return Ok(Some(AfterResponse::Close));
    }
    if let Some((_, hard)) = reply.cut.filter(|(cut, _)| at >= *cut) {
        flush_buffer(stream, buffer).await?;
        return Ok(Some(if hard {
            AfterResponse::Reset
        } else {
            AfterResponse::Close
        }));
    }
    Ok(None)
}

/// Waits until the peer has given up.
async fn wait_until_closed(stream: &mut impl ClientStream) -> io::Result<()> {
    let mut sink = [0; 1024];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

/// Where the script breaks the body off next.
fn next_stop(reply: &OriginResponse, at: u64) -> u64 {
    let stops = [reply.cut.map(|(cut, _)| cut), reply.stall_after];
    let ahead = stops.into_iter().flatten().filter(|stop| *stop > at);
    ahead.min().unwrap_or(u64::MAX)
}

/// Puts a piece of the body into the buffer, framed.
fn append_framed(reply: &OriginResponse, range: std::ops::Range<u64>, buffer: &mut Vec<u8>) {
    let chunked = reply.framing == OriginResponseFraming::Chunked;
    if chunked {
        buffer.extend_from_slice(format!("{:x}\r\n", range.end - range.start).as_bytes());
    }
    reply.body.append(range, buffer);
    if chunked {
        buffer.extend_from_slice(b"\r\n");
    }
}

fn body_terminator(reply: &OriginResponse) -> &'static [u8] {
    match reply.framing {
        OriginResponseFraming::Chunked => b"0\r\n\r\n",
        OriginResponseFraming::ContentLength
        | OriginResponseFraming::CloseDelimited
        | OriginResponseFraming::Undeclared => b"",
    }
}

/// Writes what is in the buffer, and empties it.
async fn flush_buffer(stream: &mut impl ClientStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    stream.write_all(buffer).await?;
    buffer.clear();
    stream.flush().await
}
