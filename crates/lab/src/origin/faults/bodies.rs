//! Bodies that are too short, too long, too slow, of unknown length, or not as they were asked for.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::ignore_range;
use crate::origin::{OriginResponse, OriginResponseBody, OriginResponseFraming, RecordedRequest};
use crate::stream_cut::StreamCut;

/// The connection is reset after so many bytes of the body; what the peer has not taken by then is lost (A10).
pub fn reset_after(bytes: u64) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.cut = Some(StreamCut::Reset { after: bytes })
}

/// The connection is closed after so many bytes of the body (A10).
pub fn close_after(bytes: u64) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.cut = Some(StreamCut::Close { after: bytes })
}

/// The Content-Length says so many bytes more than there are (A10).
pub fn overstated_length(
    bytes: u64,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.false_length = Some(response.body.length() + bytes)
}

/// So many bytes follow that nobody asked for (A11). With a Content-Length it is that of the whole body, junk included.
pub fn extra_bytes(bytes: usize) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| {
        let mut body = response.body.to_vec();
        body.resize(body.len() + bytes, 0xee);
        response.body = OriginResponseBody::Bytes(body);
    }
}

/// The length is not told (A12).
pub fn chunked(_: &RecordedRequest, response: &mut OriginResponse) {
    response.framing = OriginResponseFraming::Chunked;
}

/// The end of the body is the end of the connection (A12).
pub fn close_delimited(_: &RecordedRequest, response: &mut OriginResponse) {
    response.framing = OriginResponseFraming::CloseDelimited;
}

/// The whole, compressed, whatever was asked (A13).
pub fn gzip(request: &RecordedRequest, response: &mut OriginResponse) {
    ignore_range(request, response);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder
        .write_all(&response.body.to_vec())
        .and_then(|()| encoder.finish());
    response.body = OriginResponseBody::Bytes(packed.expect("memory takes everything"));
    response.set_header("Content-Encoding", "gzip");
}

/// Says that the bytes are encoded so, and leaves them as they are (A13).
pub fn content_encoding(
    coding: &'static str,
) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.set_header("Content-Encoding", coding)
}

/// Nothing more comes after so many bytes of the body (A19).
pub fn stall_after(bytes: u64) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.stall_after = Some(bytes)
}

/// So many bytes a second (A19, A20).
pub fn body_rate(rate: u64) -> impl Fn(&RecordedRequest, &mut OriginResponse) + Send + Sync {
    move |_, response| response.max_rate = Some(rate)
}
