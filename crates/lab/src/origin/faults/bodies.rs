//! Bodies that are too short, too long, too slow, of unknown length, or not the requested ones.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::ignore_range;
use crate::origin::{OriginResponse, OriginResponseBody, OriginResponseFraming, RecordedRequest};
use crate::stream_cut::StreamCut;

/// The connection is reset after so many bytes of the body. Bytes that the peer has not read by then are lost (A10).
pub fn reset_after(bytes: u64) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.cut = Some(StreamCut::Reset { after: bytes })
}

/// The connection is closed after so many bytes of the body (A10).
pub fn close_after(bytes: u64) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.cut = Some(StreamCut::Close { after: bytes })
}

/// The Content-Length is so many bytes larger than the body (A10).
pub fn overstated_length(
    bytes: u64,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.false_length = Some(response.body.length() + bytes)
}

/// So many surplus bytes follow the body (A11). A Content-Length includes them.
pub fn extra_bytes(bytes: usize) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| {
        let mut body = response.body.to_vec();
        body.resize(body.len() + bytes, 0xee);
        response.body = OriginResponseBody::Bytes(body);
    }
}

/// The length is unknown (A12).
pub fn chunked(_: &RecordedRequest, response: &mut OriginResponse) {
    response.framing = OriginResponseFraming::Chunked;
}

/// The body ends with the connection (A12).
pub fn close_delimited(_: &RecordedRequest, response: &mut OriginResponse) {
    response.framing = OriginResponseFraming::CloseDelimited;
}

/// The whole content, compressed, whatever was requested (A13).
pub fn gzip(request: &RecordedRequest, response: &mut OriginResponse) {
    ignore_range(request, response);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder
        .write_all(&response.body.to_vec())
        .and_then(|()| encoder.finish());
    response.body = OriginResponseBody::Bytes(packed.expect("compression in memory"));
    response.set_header("Content-Encoding", "gzip");
}

/// A Content-Encoding; the bytes stay as they are (A13).
pub fn content_encoding(
    coding: &'static str,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.set_header("Content-Encoding", coding)
}

/// Nothing is sent after so many bytes of the body (A19).
pub fn stall_after(bytes: u64) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.stall_after = Some(bytes)
}

/// The body is sent at so many bytes a second (A19, A20).
pub fn body_rate(rate: u64) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.max_rate = Some(rate)
}
