//! Frames of HTTP/2, written by hand (RFC 9113 section 4.1).

/// The length of the client's connection preface in bytes.
pub(super) const PREFACE_BYTES: usize = 24;

#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .expect("a short payload")
        .to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// HEADERS with status 200 and this Content-Length. With `end` there is no body.
#[must_use]
pub fn headers_frame(stream: u32, length: Option<u64>, end: bool) -> Vec<u8> {
    // Indexed: `:status` 200.
    let mut block = vec![0x88];
    if let Some(length) = length {
        let text = length.to_string();
        // Literal, not indexed, its name the 28th of the static table.
        block.extend([0x0f, 0x0d, u8::try_from(text.len()).expect("twenty digits")]);
        block.extend(text.as_bytes());
    }
    frame(1, 0x4 | u8::from(end), stream, &block)
}

/// HEADERS with an interim status, `early_hints` or another one of three digits, and this many fields without a value.
#[must_use]
pub fn interim_headers_frame(stream: u32, status: u16, fields: usize) -> Vec<u8> {
    // Literal, not indexed, its name the 8th of the static table; then the 33rd entry, `date`, as often as asked for.
    let mut block = vec![0x08, 3];
    block.extend(status.to_string().as_bytes());
    block.resize(block.len() + fields, 0xa1);
    frame(1, 0x4, stream, &block)
}

#[must_use]
pub fn data_frame(stream: u32, bytes: &[u8], end: bool) -> Vec<u8> {
    frame(0, u8::from(end), stream, bytes)
}

/// `DATA` with so many bytes of padding.
#[must_use]
pub fn padded_data_frame(stream: u32, bytes: &[u8], padding: u8, end: bool) -> Vec<u8> {
    let mut payload = vec![padding];
    payload.extend(bytes);
    payload.resize(payload.len() + usize::from(padding), 0);
    frame(0, 0x8 | u8::from(end), stream, &payload)
}

/// `RST_STREAM`.
#[must_use]
pub fn reset_frame(stream: u32, reason: u32) -> Vec<u8> {
    frame(3, 0, stream, &reason.to_be_bytes())
}

/// `GOAWAY`: streams after `last` were not processed.
#[must_use]
pub fn go_away_frame(last: u32, reason: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), reason.to_be_bytes()].concat();
    frame(7, 0, 0, &payload)
}

/// `SETTINGS` with one setting.
#[must_use]
pub fn settings_frame(name: u16, value: u32) -> Vec<u8> {
    let mut payload = name.to_be_bytes().to_vec();
    payload.extend(value.to_be_bytes());
    frame(4, 0, 0, &payload)
}
