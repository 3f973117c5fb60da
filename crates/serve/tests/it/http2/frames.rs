//! Raw HTTP/2 frames (RFC 9113 4.1), for what a client library neither sends nor shows.

use std::io;

use crate::client::TestClient;
use crate::harness::NAME;

/// The connection preface with empty settings.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Types of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;

/// Flags.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Http2Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Http2Frame {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            flags,
            stream,
            payload: payload.into(),
        }
    }

    /// A complete GET request.
    pub(crate) fn get(stream: u32, path: &str) -> Self {
        // GET and http from the static table, then path and authority as literals (RFC 7541 6.2.2).
        let mut block = vec![0x82, 0x86];
        for (name, value) in [(0x04, path), (0x01, NAME)] {
            block.push(name);
            block.push(u8::try_from(value.len()).unwrap());
            block.extend(value.as_bytes());
        }
        Self::new(HEADERS, END_STREAM | END_HEADERS, stream, block)
    }

    pub(crate) fn setting(name: u16, value: u32) -> Self {
        let payload = [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
        Self::new(SETTINGS, 0, 0, payload)
    }

    /// Enlarges the window of a stream, or of the connection.
    pub(crate) fn window_update(stream: u32, bytes: u32) -> Self {
        Self::new(WINDOW_UPDATE, 0, stream, bytes.to_be_bytes())
    }

    /// Cancels a stream (CANCEL).
    pub(crate) fn reset(stream: u32) -> Self {
        Self::new(RST_STREAM, 0, stream, 8_u32.to_be_bytes())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[self.kind, self.flags]].concat();
        [&head[..], &self.stream.to_be_bytes(), &self.payload].concat()
    }

    /// The next frame; `None` if the connection ends cleanly.
    pub(crate) fn next(client: &mut TestClient) -> Option<Self> {
        let head = match client.take(9) {
            Ok(head) => head,
            Err((rest, error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                assert!(rest.is_empty(), "half a frame: {rest:?}");
                return None;
            }
            Err((_, error)) => panic!("no end in order: {error}"),
        };
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
        };
        let length = usize::try_from(number(&head[..3])).unwrap();
        let payload = client.take(length).expect("a whole frame");
        Some(Self::new(head[3], head[4], number(&head[5..]), payload))
    }

    /// The next frame of a type; skips others.
    #[track_caller]
    pub(crate) fn next_of(client: &mut TestClient, kind: u8) -> Self {
        loop {
            match Self::next(client) {
                Some(frame) if frame.kind == kind => return frame,
                Some(_) => {}
                None => panic!("the end instead of a frame of kind {kind}"),
            }
        }
    }
}
